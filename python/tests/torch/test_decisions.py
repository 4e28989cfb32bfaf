"""Branches and shapes by the values of tensors: each step goes the way that eager goes, with its bits; and generators of one's own."""

from __future__ import annotations

import copy
import warnings

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import neap
import neap.torch


class Normed(nn.Module):
    """A branch after a running statistic has changed."""

    def __init__(self):
        super().__init__()
        self.norm, self.out = nn.BatchNorm1d(12), nn.Linear(12, 4)

    def forward(self, x):
        h = self.norm(x)
        return self.out(h * 2 if h.sum() > 0 else h)


def net():
    return nn.Sequential(nn.Linear(12, 16), nn.Tanh(), nn.Linear(16, 4))


def refuses(m, x, y):
    assert (y >= 0).all()
    if m(x).isnan().any():
        raise ValueError("not a number")
    return F.cross_entropy(m(x), y)


def draws(m, x, y):
    h = m(x)
    if torch.rand(1) > 0.5:
        h = h * 2
    return F.cross_entropy(h, y)


def selects(m, x, y):
    return F.cross_entropy(m(x)[y > 1], y[y > 1])


def columns(m, x, y):
    return m(x)[:, x[0, :4] > x[0, :4].mean()].square().mean()


def experts(m, x, y):
    h = m(x)
    chosen, out = h.argmax(1), torch.zeros_like(h)
    for i in range(4):
        at = torch.where(chosen == i)[0]
        out = out.index_add(0, at, h[at] * (i + 1))
    return F.cross_entropy(out, y)


def counts(m, x, y):
    return F.cross_entropy(m(x) * (int(y.max()) + int(x.max()) + int((y > 1).any())), y)


def numbers(m, x, y):
    """Numbers that are read, computed with and compared."""
    h = m(x)
    size, count = h.detach().norm().item(), (y > 1).sum().item()
    if count > 2 and 2 * size / count - 1 > 1.5:
        h = h * count
    if (count + (1 << 30)) * 0.5 > (1 << 29) + 0.75:  # not in float32
        h = h * 2
    return F.cross_entropy(h, y)


FACTORS = [2.0, 3.0]


def constants(m, x, y):
    """Values that do not depend on the step."""
    h = torch.dropout(m(x), 0.5, True)
    if torch.tensor(FACTORS).sum() > 4:
        h = torch.roll(h, int(torch.tensor(FACTORS)[1] * 2), 1)
    return F.cross_entropy(h, y)


def assigns(m, x, y):
    h, mask = m(x), x[:, :4] > 0
    out = torch.zeros_like(h)
    out[mask] = (h * 3)[mask]
    return F.cross_entropy(out, y) + torch.masked_select(h, mask).sum()


def equal_or_not(m, x, y):
    h = m(x)
    return F.cross_entropy(h * 2 if torch.equal(y, y.sort().values) else h, y)


def batches(n):
    generator = torch.Generator().manual_seed(1)
    return [
        (torch.randn(8, 12, generator=generator), torch.randint(4, (8,), generator=generator).sort().values if i % 2 else
         torch.randint(4, (8,), generator=generator))
        for i in range(n)
    ]  # fmt: skip


def eager(model, loss_fn, data, clip=None):
    optimizer, losses = torch.optim.AdamW(model.parameters(), lr=0.01), []
    for batch in data:
        optimizer.zero_grad()
        loss = loss_fn(model, *batch)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return losses


def same(a, b):
    return all(torch.equal(x, y) for x, y in zip(a.state_dict().values(), b.state_dict().values(), strict=True))


@pytest.mark.parametrize("budget", ["max", "min"])
@pytest.mark.parametrize(
    ("loss_fn", "make"),
    [
        *(
            (f, net)
            for f in (refuses, draws, selects, columns, experts, counts, numbers, constants, assigns, equal_or_not)
        ),
        (lambda m, x, y: F.cross_entropy(m(x), y), Normed),
    ],
)
def test_the_way_of_eager(loss_fn, make, budget):
    data = batches(5)
    torch.manual_seed(0)
    model = make()
    other = copy.deepcopy(model)
    torch.manual_seed(2)
    expected, state = eager(other, loss_fn, data), torch.get_rng_state()
    torch.manual_seed(2)
    step = neap.torch.compile_step(model, loss_fn, torch.optim.AdamW(model.parameters(), lr=0.01), budget=budget)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it tells of many captures
        losses = [step(*batch) for batch in data]
    assert all(torch.equal(a, b) for a, b in zip(losses, expected, strict=True)) and same(model, other)
    assert torch.equal(torch.get_rng_state(), state)
    assert step.memory.measured_peak_bytes <= step.memory.planned_peak_bytes


def test_a_plan_says_that_it_guesses():
    x, y = batches(1)[0]
    with pytest.warns(UserWarning, match="asks for the value of a tensor"):
        neap.torch.plan(net(), refuses, (x, y), budget="max")


def test_a_way_that_was_captured_is_kept():
    data, model = batches(2), net()
    step = neap.torch.compile_step(model, equal_or_not, torch.optim.SGD(model.parameters()), budget="max")
    for batch in data:
        step(*batch)
    kinds = list(step.kinds)
    for batch in data * 3:
        step(*batch)
    assert len(kinds) == 2 and {id(k) for k in step.kinds} == {id(k) for k in kinds}


ROWS = torch.randn(4, 12)


@pytest.mark.parametrize("budget", ["max", "min"])
def test_a_call_that_fails_on_another_way_is_not_reached(budget):
    """A branch keeps calls from values for which they fail."""

    def loss_fn(m, x, i):
        h = m(x).sum(1)
        if (i < 4).all():  # else the rows do not exist
            h = h + m(F.embedding(i, ROWS)).sum(1)
        return h.square().mean()

    x, _ = batches(1)[0]
    data = [(x, torch.arange(8) % 4), (x, torch.arange(8)), (x, torch.arange(8) // 2), (x, torch.arange(8) + 2)]
    model = net()
    other = copy.deepcopy(model)
    step = neap.torch.compile_step(model, loss_fn, torch.optim.AdamW(model.parameters(), lr=0.01), budget=budget)
    losses = [step(*batch) for batch in data[:1]]
    works = step.last.planned.body.works
    decision = next(v for v, work in enumerate(works) if work.operator.startswith("neap.decide"))
    behind = [work for work in works[decision + 1 :] if work.kind == "call"]
    assert behind and all(set(works[decision].outputs) & set(work.inputs) for work in behind)  # in any plan
    losses += [step(*batch) for batch in data[1:]]
    assert all(torch.equal(a, b) for a, b in zip(losses, eager(other, loss_fn, data), strict=True)) and same(
        model, other
    )


def test_what_the_users_code_raises_is_raised():
    model = net()
    step = neap.torch.compile_step(model, refuses, torch.optim.SGD(model.parameters()), budget="max")
    x, y = batches(1)[0]
    step(x, y)
    before = copy.deepcopy(model.state_dict())
    with pytest.raises((AssertionError, neap.torch.CannotTrace)):
        step(x, y - 4)
    assert all(torch.equal(a, b) for a, b in zip(model.state_dict().values(), before.values(), strict=True))
    step(x, y)


def test_micro_batches_that_go_different_ways_are_refused():
    model = net()
    step = neap.torch.compile_step(
        model, lambda m, x: m(x * 2 if x.sum() > 0 else x).square().mean(), torch.optim.SGD(model.parameters(), lr=0.1),
        budget="max", micro_batches=2,
    )  # fmt: skip
    x = torch.cat([torch.ones(4, 12), -torch.ones(4, 12)])
    before = copy.deepcopy(model.state_dict())
    with pytest.raises(neap.torch.CannotTrace, match="another way"):
        step(x)
    assert all(torch.equal(a, b) for a, b in zip(model.state_dict().values(), before.values(), strict=True))
    step(torch.ones(8, 12))


@pytest.mark.parametrize("how", ["kept", "returned", "computed with", "printed"])
def test_numbers_that_a_step_needs_are_refused(how):
    kept, model, (x, y) = [], net(), batches(1)[0]

    def loss_fn(m, x, y):
        loss = F.cross_entropy(m(x), y)
        number = loss.item()
        if how == "kept":
            kept.append(number)
        if how == "printed":
            assert f"{number:.3f}"
        loss = loss * number if how == "computed with" else loss
        return (loss, number) if how == "returned" else loss

    step = neap.torch.compile_step(model, loss_fn, torch.optim.SGD(model.parameters()), budget="max")
    with pytest.raises(neap.torch.CannotTrace, match="asks for the value"):
        step(x, y)
    assert not kept


# ---- Generators ----


def noisy(model, x, y, generator):
    for layer in model:
        x = layer(x)
        x = x + 0.1 * torch.tanh(torch.randn(x.shape, generator=generator)) * x
    return F.cross_entropy(x + torch.rand(x.shape), y)


@pytest.mark.parametrize("budget", ["max", "min"])
def test_a_generator_of_ones_own(budget):
    data, found = batches(4), []
    for compiled in (False, True):
        own = torch.Generator().manual_seed(3)
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(12, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 4))
        loss_fn = lambda m, x, y, own=own: noisy(m, x, y, own)  # noqa: E731
        if compiled:
            optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
            step = neap.torch.compile_step(model, loss_fn, optimizer, budget=budget)
            losses = [step(*batch) for batch in data]
        else:
            losses = eager(model, loss_fn, data)
        found.append((losses, list(model.parameters()), [own.get_state(), torch.get_rng_state()]))
    for a, b in zip(*found, strict=True):
        assert all(torch.equal(x, y) for x, y in zip(a, b, strict=True))


OWN = torch.Generator()


def test_generators_that_a_step_seeds_or_makes_are_refused():
    model, (x, y) = net(), batches(1)[0]

    def seeds(m, x, y):
        OWN.manual_seed(1)
        return noisy(m, x, y, OWN)

    def makes(m, x, y):
        return noisy(m, x, y, torch.Generator().manual_seed(1))

    OWN.manual_seed(5)
    state = OWN.get_state()
    for loss_fn, words in ((seeds, "seed"), (makes, "does not reach")):
        step = neap.torch.compile_step(model, loss_fn, torch.optim.SGD(model.parameters()), budget="max")
        with pytest.raises(neap.torch.CannotTrace, match=words):
            step(x, y)
        assert torch.equal(OWN.get_state(), state)
