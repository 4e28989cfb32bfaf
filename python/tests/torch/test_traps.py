"""Models that do what is easily computed wrong. The oracle is eager PyTorch; what cannot be done is refused by name."""

from __future__ import annotations

import copy
import re
import warnings

import helpers
import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

import neap.torch


def square(model, *batch):
    return model(*batch).square().mean()


class Net(nn.Module):
    """Linear layers around `body(self, h)`."""

    def __init__(self, body, width: int = 8):
        super().__init__()
        self.first, self.last = nn.Linear(width, width), nn.Linear(width, width)
        self.norm, self.drop = nn.BatchNorm1d(width), nn.Dropout(0.5)
        self.register_buffer("mean", torch.zeros(width))
        self.body = body

    def forward(self, x):
        return self.last(self.body(self, torch.tanh(self.first(x))))


def moved_average(m, h):
    m.mean.mul_(0.9).add_(h.detach().mean(0), alpha=0.1)
    return h - m.mean


def written_by_masks(m, h):
    """What these calls allocate grows with the elements that a mask selects."""
    h = h * 1
    h[h > 0] = torch.ones(())
    h[h[:, 0] > 0] = torch.full((8,), 0.5)
    return h.masked_scatter(h < 0, h * 2)


def written_slices(m, h):
    out = h.clone()
    out[:, 2:4] = h[:, 4:6] * 2
    out[1:3].mul_(0.5)
    return out


CONSTANT = torch.arange(64.0).view(1, 8, 8) / 64


def views_of_constants(m, h):
    weights = torch.tensor([1.0, 2, 3, 4, 5, 6, 7, 8])
    weights[2:4].mul_(0.5)
    rows, _ = CONSTANT[0].split(4)
    return (h[:, None] @ CONSTANT.expand(8, 8, 8))[:, 0] * weights + (h[:4] @ rows.t()).sum() + CONSTANT[0].t()


def reentrant_sum(m, h):
    """The gradients from inside are added before the one from outside."""
    inside = checkpoint(lambda t: torch.sin(t) * 3 + m.last(t) + t * t / 7, h, use_reentrant=True)
    return inside * 0.3 + torch.tanh(h)


BODIES = {
    "views of constants": views_of_constants,
    "another view of the operand": lambda m, h: h - h[:, :1],
    "its transpose": lambda m, h: torch.where(h.t() > 0, h, h.t()),
    "batch norm twice": lambda m, h: m.norm(m.norm(h) * 2),
    "a linear layer twice": lambda m, h: torch.tanh(m.last(m.last(h))),
    "a buffer moved and read": moved_average,
    "slices written": written_slices,
    "written by masks": written_by_masks,
    "dropout twice": lambda m, h: m.drop(torch.relu(m.drop(h))),
    "checkpoint with dropout": lambda m, h: checkpoint(lambda t: m.drop(torch.tanh(m.last(t))), h, use_reentrant=False),
    "gradients of a reentrant checkpoint's argument": reentrant_sum,
    "lazy conjugate and negative": lambda m, h: torch.fft.fft(h).conj().imag,
    "index_put": lambda m, h: h.index_put((torch.tensor([0, 3]),), h[1:3], accumulate=True),
}


@pytest.mark.parametrize("name", BODIES)
def test_bodies(name):
    torch.manual_seed(0)
    case = (Net(BODIES[name]), square, (torch.randn(8, 8),))
    losses, state = helpers.eager(case, helpers.adamw)
    for budget in ("max", "min"):
        with warnings.catch_warnings():
            warnings.filterwarnings("error", "neap: more was allocated")
            got, got_state, step = helpers.compiled(case, helpers.adamw, budget)
        assert got == losses
        assert helpers.differing(got_state, state) == []
        assert step.memory.enforced, step.memory.why


class Complex(nn.Module):
    """Complex parameters: in products, whose gradients are conjugates, in a filter and in a linear layer."""

    def __init__(self):
        super().__init__()
        self.turn = nn.Parameter(0.3 * torch.randn(8, 8, dtype=torch.complex64))
        self.filter = nn.Parameter(torch.randn(5, dtype=torch.complex64))
        self.linear = nn.Linear(8, 8, dtype=torch.complex64)

    def forward(self, x):
        h = self.linear(x.to(torch.complex64) @ self.turn.mH).tan() * 0.1
        h = h + torch.linalg.solve(self.turn + 4 * torch.eye(8), h.mT).mT
        return torch.view_as_real(h).tanh(), torch.fft.irfft(torch.fft.rfft(x) * self.filter, n=8)


@pytest.mark.parametrize("make", [helpers.sgd, helpers.adamw])
def test_complex_parameters(make):
    torch.manual_seed(0)

    def loss_fn(model, x):
        a, b = model(x)
        return a.square().mean() + b.square().mean()

    case = (Complex(), loss_fn, (torch.randn(8, 8),))
    losses, state = helpers.eager(case, make, 6)
    for budget in ("max", "min"):
        got, got_state, step = helpers.compiled(case, make, budget, 6)
        assert got == losses and helpers.differing(got_state, state) == []
        assert step.memory.enforced and step.why_whole == ""


def test_batch_whose_tensors_share_memory():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(20, 8), nn.Linear(8, 20))

    def loss_fn(model, x, y):
        return F.cross_entropy(model(x).flatten(0, 1), y.flatten())

    tokens = [torch.randint(20, (4, 9)) for _ in range(3)]
    other = copy.deepcopy(model)
    a, b = helpers.sgd(model.parameters()), helpers.sgd(other.parameters())
    step = neap.torch.compile_step(model, loss_fn, a, budget="min")
    for t in tokens:
        loss = step(t[:, :-1], t[:, 1:])
        expected = loss_fn(other, t[:, :-1], t[:, 1:])
        expected.backward()
        b.step()
        b.zero_grad()
        assert torch.equal(loss, expected.detach())
    assert helpers.differing(helpers.state(model, a), helpers.state(other, b)) == []


def replaced(m, h):
    m.mean = m.mean * 0.9 + h.detach().mean(0) * 0.1
    return h


def seeded(m, h):
    with torch.random.fork_rng():
        torch.manual_seed(3)
        return m.drop(h)


REFUSED = {
    "sets torch's seed": seeded,
    "buffer mean is replaced": replaced,
    "generator that the step does not reach": lambda m, h: h * torch.rand(8, 8, generator=torch.Generator()),
}


@pytest.mark.parametrize("match", REFUSED)
def test_refused(match):
    torch.manual_seed(0)
    model = Net(REFUSED[match])
    before = copy.deepcopy(model.state_dict())
    with pytest.raises(neap.torch.CannotTrace, match=match):
        neap.torch.compile_step(model, square, helpers.sgd(model.parameters()), budget="min")(torch.randn(8, 8))
    assert all(torch.equal(v, before[k]) for k, v in model.state_dict().items())


@pytest.mark.parametrize("offset", [(), (3,)], ids=["from the tensor", "from its storage"])
def test_views_of_a_part_of_a_batch_by_strides(offset):
    """A part of a batch is a view of it, and a storage offset that is given counts from the whole batch."""

    def loss_fn(model, x):
        return square(model, torch.as_strided(x, (2, 8), (4, 1), *offset))

    torch.manual_seed(0)
    model, x = nn.Linear(8, 8), torch.randn(4, 8)
    other = copy.deepcopy(model)
    a, b = helpers.sgd(model.parameters()), helpers.sgd(other.parameters())
    step = neap.torch.compile_step(model, loss_fn, a, budget="min", micro_batches=2)
    if offset:
        with pytest.raises(neap.torch.CannotTrace, match=r"batch 0: as_strided is given a storage offset \(3\)"):
            step(x)
    else:
        loss = step(x)
        parts = [loss_fn(other, part) / 2 for part in x.chunk(2)]
        for part in parts:
            part.backward()
        b.step()
        assert torch.equal(loss, sum(part.detach() for part in parts))
    assert helpers.differing(helpers.state(model, a), helpers.state(other, b)) == []


def test_batch_that_is_changed_in_place():
    model = Net(lambda m, h: h)
    x = torch.randn(8, 8)
    before = x.clone()
    with pytest.raises(neap.torch.CannotTrace, match="changes batch 0 in place"):
        neap.torch.compile_step(
            model, lambda m, x: square(m, x.mul_(2)), helpers.sgd(model.parameters()), budget="min"
        )(x)
    assert torch.equal(x, before)


def test_what_changes_between_steps():
    torch.manual_seed(0)
    x = torch.randn(8, 8)
    model = Net(lambda m, h: m.drop(h) - m.mean)
    other = copy.deepcopy(model)
    a, b = helpers.sgd(model.parameters()), helpers.sgd(other.parameters())
    step = neap.torch.compile_step(model, square, a, budget="min")

    def both():
        torch.manual_seed(3)
        loss = step(x)
        torch.manual_seed(3)
        expected = square(other, x)
        expected.backward()
        b.step()
        b.zero_grad()
        assert torch.equal(loss, expected.detach())

    both()
    model.mean, other.mean = torch.ones(8), torch.ones(8)  # another buffer of the same shape
    both()
    model.drop.p = other.drop.p = 0.0
    both()
    assert helpers.differing(helpers.state(model, a), helpers.state(other, b)) == []
    model.last = nn.Linear(8, 8, bias=False)
    other.last = copy.deepcopy(model.last)
    both()
    other.zero_grad()  # of what b does not have yet
    a.add_param_group({"params": model.last.parameters()})
    b.add_param_group({"params": other.last.parameters()})
    both()
    both()
    assert helpers.differing(helpers.state(model, a), helpers.state(other, b)) == []


class Own(torch.optim.Optimizer):
    """Signed steps with a momentum, in place."""

    def __init__(self, params, lr=0.01, kind="good"):
        super().__init__(params, {"lr": lr})
        self.kind = kind

    @torch.no_grad()
    def step(self):
        total = sum(p.grad.norm() for g in self.param_groups for p in g["params"] if p.grad is not None)
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if self.kind == "replaces":
                    state["m"] = state.get("m", 0) * 0.9 + p.grad
                elif self.kind == "keeps":
                    state["m"] = p.grad
                elif "m" not in state:
                    state["m"] = torch.zeros_like(p)
                if self.kind not in ("replaces", "keeps"):
                    state["m"].mul_(0.9).add_(p.grad)
                p.sub_(state["m"].sign() * group["lr"] * (total if self.kind == "couples" else 1))


def test_optimizers_of_ones_own():
    torch.manual_seed(0)
    case = (Net(lambda m, h: h), square, (torch.randn(8, 8),))
    for kind, match in (
        ("good", "^$"),
        ("replaces", "makes new states"),
        ("keeps", "new states|keeps the gradient"),
        ("couples", "differs from one step for each"),
    ):
        make = lambda p, kind=kind: Own(p, kind=kind)  # noqa: E731
        losses, state = helpers.eager(case, make)
        got, got_state, step = helpers.compiled(case, make, "min")
        assert got == losses and helpers.differing(got_state, state) == [] and step.memory.enforced
        assert re.search(match, step.updater.whole)


def test_one_step_at_a_time():
    model = Net(lambda m, h: h)
    step = None

    def loss_fn(model, x):
        if step is not None:
            step(x)
        return square(model, x)

    step = neap.torch.compile_step(model, loss_fn, helpers.sgd(model.parameters()), budget="min")
    with pytest.raises(neap.torch.CannotTrace, match="one at a time"):
        step(torch.randn(8, 8))


def test_results_that_lie_otherwise_than_fake_tensors_say():
    """The step is traced again with what the operators give: types, strides and sizes."""

    def outside(loss):
        def loss_fn(model, x, y):
            with torch.autocast("cpu", torch.bfloat16):
                v = model(x)
            return loss(v, y)

        return loss_fn

    class Normed(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = nn.BatchNorm1d(5)

        def forward(self, x):
            v = nn.functional.hardswish(self.norm(self.norm(x.t())), inplace=True)
            return v + torch.baddbmm(v[None] @ v[None].mT, v[None], v[None].mT).mean()

    torch.manual_seed(0)
    x, y = torch.randn(8, 6), torch.randn(8, 1)
    linear = nn.Linear(6, 1)
    bags = lambda m, *x: m(*x).float().square().mean()  # noqa: E731
    wide = (nn.Linear(3, 3), lambda m, x: nn.functional.mse_loss(m(x).transpose(1, 2), x), (torch.randn(6, 3, 3),))
    for case in (
        (linear, outside(nn.functional.mse_loss), (x, y)),
        (linear, outside(nn.functional.smooth_l1_loss), (x, y)),
        (Normed(), square, (torch.randn(5, 4),)),
        wide,
        (nn.EmbeddingBag(7, 5, mode="sum").bfloat16(), bags, (torch.randint(7, (8,)), torch.tensor([0, 3, 5]))),
    ):
        losses, state = helpers.eager(case, helpers.sgd)
        for budget in ("max", "min"):
            got, got_state, step = helpers.compiled(case, helpers.sgd, budget)
            assert got == losses
            assert helpers.differing(got_state, state) == []
            assert step.memory.enforced, step.memory.why


class Stacked(nn.Module):
    """Batch norms of a transposed batch, whose results lie otherwise than fake tensors say, and views of them."""

    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(5)

    def forward(self, x):
        v = self.norm(self.norm(x.t()))
        return torch.baddbmm(v[None] @ v[None].mT, v[None], v[None].mT)


class Polar(nn.Module):
    """Its gradient has lazy conjugates."""

    def __init__(self):
        super().__init__()
        self.turn = nn.Parameter(torch.randn(8, 8))

    def forward(self, x):
        return torch.polar(torch.tanh(x * self.turn).abs(), self.turn).imag


class Broken(nn.Module):
    """A buffer is changed behind a graph break, and calls that read it are worth repeating."""

    def __init__(self):
        super().__init__()
        self.layers, self.last = nn.ModuleList(nn.Linear(8, 8) for _ in range(4)), nn.Linear(8, 8)
        self.register_buffer("shift", torch.zeros(64, 8))

    def forward(self, x):
        for layer in self.layers:
            x = torch.sin(layer(x) + self.shift)
        torch._dynamo.graph_break()
        self.shift.add_(1)
        return self.last(x)


@pytest.mark.parametrize("budget", ["max", "min"])
@pytest.mark.parametrize("make,shape", [(Stacked, (5, 4)), (Polar, (8, 8)), (Broken, (64, 8))])
@pytest.mark.filterwarnings("ignore:neap")
def test_the_backend(make, shape, budget):
    torch.manual_seed(0)
    case = (make(), square, (torch.randn(*shape),))
    losses, state = helpers.eager(case, helpers.sgd)
    got, got_state, _ = helpers.backend(case, helpers.sgd, budget)
    assert got == losses
    assert helpers.differing(got_state, state) == []


def test_calls_that_change_how_a_tensor_lies():
    class Turning(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(6))

        def forward(self, x):
            for layer in self.layers:
                x = torch.sin(torch.tanh(layer(x)))
                x.transpose_(0, 1)
                x.unsqueeze_(0).squeeze_(0)
            return x

    torch.manual_seed(0)
    case = (Turning(), square, (torch.randn(8, 8),))
    losses, state = helpers.eager(case, helpers.sgd)
    for budget in ("max", "min"):
        got, got_state, _ = helpers.compiled(case, helpers.sgd, budget)
        assert got == losses
        assert helpers.differing(got_state, state) == []


@pytest.mark.parametrize(
    "forward,match",
    [
        (lambda m, h: h + m.mean.resize_(16).sum(), "mean"),
        (lambda m, h: h + m.mean.unsqueeze_(0).sum(), "mean"),
        (lambda m, h: setattr(h, "data", h * 2) or h, "data"),
    ],
    ids=["resize_", "unsqueeze_", "data"],
)
def test_changes_that_a_captured_step_does_not_repeat(forward, match):
    torch.manual_seed(0)
    model = Net(forward)
    before = {k: v.clone() for k, v in model.state_dict().items()}
    step = neap.torch.compile_step(model, square, helpers.sgd(model.parameters()), budget="min")
    with pytest.raises(neap.torch.CannotTrace, match=match):
        step(torch.randn(8, 8))
    assert helpers.differing(dict(model.state_dict()), before) == []


def test_gradients_that_are_none():
    torch.manual_seed(0)
    frozen = nn.Linear(6, 6).requires_grad_(False)
    for model in (
        nn.Sequential(nn.BatchNorm1d(6), nn.Linear(6, 3)),
        nn.Sequential(frozen, nn.BatchNorm1d(6), nn.Linear(6, 3)),
    ):
        case = (model, square, (torch.randn(8, 6),))
        losses, state = helpers.eager(case, helpers.sgd)
        got, got_state, _ = helpers.compiled(case, helpers.sgd, "min")
        assert got == losses
        assert helpers.differing(got_state, state) == []


def test_running_statistics_that_the_step_reads():
    class Reading(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner, self.norm = nn.Linear(4, 4), nn.BatchNorm1d(4)

        def forward(self, x):
            return self.norm(self.norm(self.inner(x))) + self.norm.running_mean

    torch.manual_seed(0)
    scaled = nn.InstanceNorm1d(2, affine=True, track_running_stats=True)
    for case in ((Reading(), square, (torch.randn(6, 4),)), (scaled, square, (torch.randn(2, 2, 5),))):
        losses, state = helpers.eager(case, helpers.sgd)
        for budget in ("max", "min"):
            got, got_state, _ = helpers.compiled(case, helpers.sgd, budget)
            assert got == losses
            assert helpers.differing(got_state, state) == []


class Replacing(nn.Module):
    """Gives a buffer other memory in each forward pass."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)
        self.register_buffer("shift", torch.ones(8))

    def forward(self, x):
        self.shift.data = self.shift * 0.5
        return self.linear(x + self.shift)


def test_the_backend_refuses_other_memory():
    torch._dynamo.reset()
    with pytest.raises(Exception, match=r"sets a tensor's \.data") as raised:
        torch.compile(Replacing(), backend="neap")(torch.randn(4, 8))
    assert isinstance(getattr(raised.value, "inner_exception", raised.value), neap.torch.CannotTrace)
