"""The backend at shapes that change: eager's bits at captured shapes and between them, and few captures."""

from __future__ import annotations

import copy
import itertools
import threading

import helpers
import pytest
import torch
from test_batches import encoder, mean_of, of_length
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

import neap.torch
from neap.torch.backend import neap_backend


@pytest.mark.parametrize("dynamic", [True, pytest.param(None, marks=pytest.mark.long)])
def test_the_backend_takes_shapes_that_change(dynamic):
    torch._dynamo.reset()
    model = encoder().eval()
    other = copy.deepcopy(model)
    run = torch.compile(mean_of, backend=neap_backend, options={"budget": "min"}, dynamic=dynamic)
    a, b = helpers.sgd(model.parameters()), helpers.sgd(other.parameters())
    for n in (12, 7, 20, 12, 1):
        batch = of_length(n)
        for loss_fn, m, o in ((run, model, a), (mean_of, other, b)):
            loss = loss_fn(m, *batch)
            loss.backward()
            o.step()
            o.zero_grad()
        assert helpers.differing(helpers.state(model, a), helpers.state(other, b)) == []
    torch._dynamo.reset()


class Checkpointed(nn.Module):
    """Scales by a number of its own inside a checkpoint in a checkpoint. Dynamo itself fails where both read one."""

    def __init__(self):
        super().__init__()
        self.layer, self.scale, self.shift, self.rate = nn.Linear(8, 8), 0.5, 0.1, 2.0

    def forward(self, x):
        def part(x):
            return checkpoint(lambda y: self.layer(y) * self.scale, x, use_reentrant=False).tanh() + self.shift

        return checkpoint(part, x, use_reentrant=False) * self.rate


def test_numbers_inside_a_checkpoint():
    """A float of a module is a tensor that the checkpoint's body reads; it is another one in the last two steps."""
    results = []
    for compiled in (False, True):
        torch._dynamo.reset()
        torch.manual_seed(0)
        model = Checkpointed()
        run = torch.compile(model, backend=neap_backend, dynamic=True) if compiled else model
        found = []
        for rows, model.scale, model.shift in ((4, 0.5, 0.1), (6, 0.5, 0.1), (6, 0.25, 0.1), (4, 0.25, -0.3)):
            loss = run(torch.ones(rows, 8)).square().sum()
            loss.backward()
            found += [loss.detach(), *(p.grad.clone() for p in model.parameters())]
        results.append(found)
    assert all(map(torch.equal, *results))


class Unread(nn.Module):
    """Draws numbers that no output depends on, from a buffer that it changes afterwards."""

    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(()))
        self.layer = nn.Linear(8, 8)

    def forward(self, x):
        F.dropout(torch.where(self.count > 1, x, x * 0.5), 0.3, True, inplace=True)
        self.count.add_(1)
        return F.dropout(self.layer(x).relu(), 0.3, True)


@pytest.mark.parametrize("budget", ["max", "min"])
def test_the_backend_draws_all_in_the_forward_pass(budget):
    """At the least budget the unread draw ran in the backward pass: after the caller's own draws, and from a changed buffer."""
    results = []
    for compiled in (False, True):
        torch._dynamo.reset()
        torch.manual_seed(0)
        model = Unread()
        run = (
            torch.compile(model, backend=neap_backend, options={"budget": budget}, dynamic=True) if compiled else model
        )
        found = []
        for rows in (4, 4, 6):
            loss = run(torch.randn(rows, 8)).square().sum()
            found += [torch.rand(3), loss.detach()]
            loss.backward()
        results.append([*found, *(p.grad for p in model.parameters()), torch.get_rng_state()])
    assert all(map(torch.equal, *results))


class _Counting:
    """Counts the captures of the backend."""

    def __init__(self, monkeypatch):
        from neap.torch import backend

        self.count, compiled = 0, backend._compiled

        def counted(*args):
            self.count += 1
            return compiled(*args)

        monkeypatch.setattr(backend, "_compiled", counted)


@pytest.mark.parametrize("budget", ["max", pytest.param("70%", marks=pytest.mark.long), "min"])
def test_the_backend_at_lengths_between_captured_ones(monkeypatch, budget):
    """Eager's bits with two forward passes of different lengths before their backward passes, and with dropout; few captures."""
    torch._dynamo.reset()
    model = encoder()
    other = copy.deepcopy(model)
    captures = _Counting(monkeypatch)
    run = torch.compile(mean_of, backend=neap_backend, options={"budget": budget}, dynamic=True)
    a, b = helpers.sgd(model.parameters()), helpers.sgd(other.parameters())
    lengths = [40, 24, 32, 28, 36, 30, 26, 33, 38, 25, 31, 30, 37]
    for step, pair in enumerate(itertools.pairwise(lengths)):
        for loss_fn, m, o in ((run, model, a), (mean_of, other, b)):
            torch.manual_seed(step)
            first, second = [loss_fn(m, *of_length(n)) for n in pair]
            first.backward()
            second.backward()
            o.step()
            o.zero_grad()
        assert helpers.differing(helpers.state(model, a), helpers.state(other, b)) == []
    assert budget != "max" or captures.count <= 7  # below, a small length may have a plan of its own
    torch._dynamo.reset()


def several_outputs(model, x, y):
    h = model[1](model[0](x))
    return model[2](h), h.transpose(1, 2), (h[:, 0] * y.sum(1, keepdim=True)), y.view(-1)


def test_outputs_of_the_backend_at_lengths_between():
    """Outputs that share memory with one another or with an input, that are transposed, that nothing reads."""
    torch._dynamo.reset()
    model = encoder().eval()
    other = copy.deepcopy(model)
    run = torch.compile(several_outputs, backend=neap_backend, options={"budget": "max"}, dynamic=True)
    for n in (40, 24, 32, 28, 36, 30, 26, 33):
        results, batch = [], of_length(n)
        for f, m in ((run, model), (several_outputs, other)):
            outputs = f(m, *batch)
            (outputs[0].sum() + (outputs[1] * outputs[1]).sum()).backward()
            results.append([*(o.detach() for o in outputs), *(p.grad for p in m.parameters())])
        assert all(map(torch.equal, *results))
    torch._dynamo.reset()


@pytest.mark.parametrize("moving", ["batch", "both", "number"])
def test_other_sizes_of_the_backend_that_change(monkeypatch, moving):
    """The number of rows, two sizes at once, a number beside the sizes; with running statistics and without gradients, too."""

    def loss_of(m, x, k):
        return m(x).square().mean() + x[:, :k].sum()

    torch._dynamo.reset()
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv1d(3, 8, 3, padding=1), nn.BatchNorm1d(8), nn.ReLU(), nn.Conv1d(8, 4, 3))
    other = copy.deepcopy(model)
    run = torch.compile(loss_of, backend=neap_backend, options={"budget": "min"}, dynamic=True)
    a, b = helpers.sgd(model.parameters()), helpers.sgd(other.parameters())
    for n in (40, 24, 32, 28, 36, 30, 26, 33, 39, 30):
        x = torch.randn(n, 3, 2 * n if moving == "both" else 20)
        k = 1 + n % 2 if moving == "number" else 2
        found = []
        for loss_fn, m, o in ((run, model, a), (loss_of, other, b)):
            loss = loss_fn(m, x, k)
            loss.backward()
            o.step()
            o.zero_grad()
            with torch.no_grad():
                found.append((loss, loss_fn(m, x[: n // 2], k)))
        assert all(map(torch.equal, *found))
        assert helpers.differing(helpers.state(model, a), helpers.state(other, b)) == []
    torch._dynamo.reset()


# Shapes at which a fit would be wrong, and ways to run both passes.
LINEAR_LENGTHS = (8, 40, 16, 24, 32, 30, 27, 12, 25, 31)


def differ(loss_fn, make, lengths, budget="max"):
    """The lengths at which loss_fn by the backend differs from eager in a bit: result, batch, gradients."""
    torch._dynamo.reset()
    model, wrong = nn.Linear(8, 8), []
    run = torch.compile(loss_fn, backend=neap_backend, options={"budget": budget}, dynamic=True)
    for n in lengths:
        results = []
        for f in (run, loss_fn):
            torch.manual_seed(n)
            batch = make(n)
            model.zero_grad()
            out = f(model, *batch)
            out.sum().backward(retain_graph=True)
            out.sum().backward()
            results.append([out.detach(), *batch, *(p.grad.clone() for p in model.parameters())])
        if not all(map(torch.equal, *results)):
            wrong.append(n)
    torch._dynamo.reset()
    return wrong


@pytest.mark.parametrize(
    "loss_fn",
    [
        lambda m, x: m(x) * (x.shape[1] % 8 + 1),
        lambda m, x: m(x)[:, : x.shape[1] - x.shape[1] % 8].sum(1),
        lambda m, x: F.pad(m(x), (0, 0, 0, -x.shape[1] % 8)).cumsum(1),
        lambda m, x: F.dropout(m(x).sin(), 0.3),
    ],
)
def test_numbers_that_are_no_polynomials(loss_fn):
    """Lengths that are all multiples of 8 prove nothing of others: the backend, with the graph kept, and a step."""
    make = lambda n: (torch.randn(2, n, 8),)  # noqa: E731
    assert differ(loss_fn, make, LINEAR_LENGTHS) == []
    model = nn.Linear(8, 8)
    other = copy.deepcopy(model)
    a, b = helpers.sgd(model.parameters()), helpers.sgd(other.parameters())
    total = lambda m, x: loss_fn(m, x).square().mean()  # noqa: E731
    step = neap.torch.compile_step(model, total, a, budget="max")
    for n in LINEAR_LENGTHS:
        torch.manual_seed(n)
        step(*make(n))
        torch.manual_seed(n)
        total(other, *make(n)).backward()
        b.step()
        b.zero_grad()
        assert helpers.differing(helpers.state(model, a), helpers.state(other, b)) == []


def test_inputs_of_the_backend_that_share_memory_at_some_lengths():
    def shares(n):
        x = torch.randn(2 * n + 4, 8)
        return (x[:n], x[2 : n + 2]) if n in (36, 30, 33) else (x[:n].clone(), x[2 : n + 2].clone())

    def changes(model, x, y):
        x.add_(1)
        return model(y * 2)

    assert differ(changes, shares, (40, 24, 32, 28, 36, 30, 26, 33, 38, 25)) == []


def test_threads_and_pending_passes_of_the_backend():
    """Threads, two of them at one length; backward passes that wait for 70 forward passes of other shapes."""
    torch._dynamo.reset()
    model, wrong = nn.Linear(8, 8), []
    loss_fn = lambda m, x: m(x).view(-1, 8).sigmoid().cumsum(0).sum()  # noqa: E731
    run = torch.compile(loss_fn, backend=neap_backend, options={"budget": "max"}, dynamic=True)
    for n in (40, 24, 32, 28, 37):
        run(model, torch.randn(2, n, 8)).backward()

    def train(n):
        x = torch.randn(2, n, 8)
        wrong.extend(n for _ in range(40) if not torch.equal(run(model, x), loss_fn(model, x)))

    threads = [threading.Thread(target=train, args=(n,)) for n in (36, 30, 26, 33, 33)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    gradients, batches = [], [torch.randn(2 + i % 5, 3 + i * 2, 8) for i in range(70)]
    for f in (run, loss_fn):
        model.zero_grad()
        sum(f(model, x) for x in batches).backward()
        gradients.append([p.grad.clone() for p in model.parameters()])
    assert all(map(torch.equal, *gradients))
    torch._dynamo.reset()
