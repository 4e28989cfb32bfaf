"""Groups of calls that Inductor compiles: one set of bits at every budget, near to eager's, and statistics moved once."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import neap.torch
from neap.torch.fuse import groups_of
from neap.torch.graph import View

pytest.importorskip("torch._inductor.compile_fx")


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.convolution = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.first, self.second = nn.BatchNorm2d(width), nn.BatchNorm2d(width)

    def forward(self, x):
        return F.relu(x + self.second(self.convolution(F.relu(self.first(self.convolution(x))))))


def pictures():
    torch.manual_seed(0)
    net = nn.Sequential(Block(8), Block(8), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 5))
    x, y = torch.randn(6, 8, 12, 12), torch.randint(0, 5, (6,))
    return net, lambda net, x, y: F.cross_entropy(net(x), y), (x, y)


class Turned(nn.Module):
    """Pointwise calls that read one another transposed, repeated and reshaped."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(6, 6)

    def forward(self, x):
        h = torch.tanh(self.inner(x))  # [batch, length, 6]
        h = torch.sin(h.transpose(0, 1) * 2) + h.transpose(0, 1).mean(-1, keepdim=True).expand(-1, -1, 6)
        return torch.softmax(h.reshape(-1, 6) * 3, -1).view(h.shape)


def turned(length=7):
    torch.manual_seed(1)
    return Turned(), lambda net, x: (net(x) * x.transpose(0, 1)).square().sum(), (torch.randn(4, length, 6),)


def trained(case, fuse, budget="max", steps=3):
    net, loss_fn, batch = case()
    net = copy.deepcopy(net)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    step = neap.torch.compile_step(net, loss_fn, optimizer, budget=budget, fuse=fuse)
    losses = [step(*batch).item() for _ in range(steps)]
    return losses, net.state_dict(), step


@pytest.mark.parametrize("case", [pictures, turned])
def test_bits_are_the_same_at_every_budget_and_near_to_eager(case):
    losses, state, whole = trained(case, True)
    assert whole.memory.enforced, whole.memory.why
    least = trained(case, True, "min", steps=1)[2].memory.planned_peak_bytes
    for budget in ((least + whole.memory.planned_peak_bytes) // 2, "min"):
        again, other, step = trained(case, True, budget)
        assert again == losses and all(torch.equal(state[k], other[k]) for k in state)
        assert step.memory.measured_peak_bytes <= step.memory.planned_peak_bytes
    if case is pictures:
        assert step.memory.recomputed > 0  # statistics too were computed again, and moved once
    eager, wanted, plain = trained(case, False)
    torch.testing.assert_close(losses, eager, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(state, wanted, rtol=1e-3, atol=1e-4)
    calls = lambda s: len(s.last.graph.calls)  # noqa: E731
    assert calls(whole) < calls(plain)


def test_a_smaller_shape_has_groups_of_its_own():
    net, loss_fn, (x,) = turned()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
    step = neap.torch.compile_step(net, loss_fn, optimizer, budget="min", fuse=True, replan=0)
    alone, _, (short,) = turned(5)
    other = neap.torch.compile_step(
        alone, loss_fn, torch.optim.SGD(alone.parameters(), lr=0.05), budget="max", fuse=True
    )
    step.prepare(x)
    assert torch.equal(step(short), other(short))
    assert all(torch.equal(a, b) for a, b in zip(net.parameters(), alone.parameters(), strict=True))
    assert not torch.equal(step(x), step(short))


def test_groups_do_not_mix_passes_and_leave_random_calls_alone():
    torch.manual_seed(2)
    net = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Dropout(0.5), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 1))
    step = neap.torch.compile_step(
        net, lambda net, x: net(x).sum(), torch.optim.SGD(net.parameters(), lr=0.1), budget="max"
    )
    step(torch.randn(16, 8))
    graph = step.last.graph
    groups = groups_of(graph)
    assert groups
    for group in groups:
        calls = [graph.calls[n] for n in group]
        assert len({c.backward for c in calls}) == 1
        assert not any(c.random or c.changes for c in calls)
        made = {t for c in calls for t in c.makes}
        assert all(isinstance(r, View) and r.tensor in made for c in calls for r in c.results if r is not None)


def test_without_a_compiler_the_step_is_refused_and_nothing_changed(monkeypatch):
    net, loss_fn, batch = turned(6)
    before = copy.deepcopy(net.state_dict())
    step = neap.torch.compile_step(net, loss_fn, torch.optim.SGD(net.parameters(), lr=0.05), budget="max", fuse=True)
    monkeypatch.setattr("torch._inductor.compile", lambda *_, **__: 1 / 0)
    with pytest.raises(neap.torch.CannotTrace, match="fuse=True: Inductor does not compile"):
        step(*batch)
    assert all(torch.equal(before[k], v) for k, v in net.state_dict().items())
