"""Batches of any structure and size, losses that are no means of equals, and what a step holds between batches."""

from __future__ import annotations

import collections
import copy
import dataclasses
import random
import threading
import warnings

import cases
import helpers
import numpy as np
import pytest
import torch
from quick import QUICK
from torch import nn
from torch.nn import functional as F

import neap.torch

WORDS, LENGTH = 40, 9


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.inner, self.head = nn.Embedding(WORDS, 16), nn.Linear(16, 16), nn.Linear(16, WORDS)

    def forward(self, x):
        return self.head(torch.tanh(self.inner(self.embed(x))))


def masked(n=8, seed=0):
    """Texts with labels of which most are masked, a different share in each record."""
    torch.manual_seed(seed)
    x, y = torch.randint(WORDS, (n, LENGTH)), torch.randint(WORDS, (n, LENGTH))
    for i in range(n):
        y[i, 1 + i % (LENGTH - 1) :] = -100
    return x, y


def total(model, x, y):
    return F.cross_entropy(model(x).flatten(0, 1), y.flatten(), ignore_index=-100, reduction="sum")


def summed(model, x, y):
    return neap.torch.Sum(total(model, x, y), (y != -100).sum())


def counted(model, x, y, num_items_in_batch):
    return total(model, x, y) / num_items_in_batch


def whole(model, x, y):
    return total(model, x, y) / (y != -100).sum()


def trained(loss_fn, batch, steps=2, make=lambda p: torch.optim.SGD(p, lr=1.0), named=None, **options):
    torch.manual_seed(1)
    model = Tagger()
    before = {n: p.detach().clone() for n, p in model.named_parameters()}
    optimizer = make(model.parameters())
    step = neap.torch.compile_step(model, loss_fn, optimizer, budget="min", **options)
    losses = [step(*batch, **(named or {})).item() for _ in range(steps)]
    assert step.memory.enforced, step.memory.why
    return losses, before, {n: p.detach().clone() for n, p in model.named_parameters()}, step


def eager(loss_fn, batch, steps=2):
    torch.manual_seed(1)
    model = Tagger()
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    losses = helpers.loop(loss_fn, model, optimizer, batch, steps)
    return losses, {n: p.detach().clone() for n, p in model.named_parameters()}


def near(a, b, before, limit=1e-6):
    """Whether the movement of each parameter is the same to `limit` of the largest."""
    most = max((b[n] - before[n]).abs().max() for n in b)
    return all((a[n] - b[n]).abs().max() <= limit * most * 4 for n in b)


@pytest.mark.parametrize("k", [1, 3, 4])
@pytest.mark.parametrize("n", [8, 7])
def test_masked_labels_are_of_the_whole_batch(k, n):
    batch = masked(n)
    losses, expected = eager(whole, batch)
    count = int((batch[1] != -100).sum())
    for loss_fn, named in (
        (summed, None),
        (counted, {"num_items_in_batch": count}),
        (counted, {"num_items_in_batch": torch.tensor(count)}),
    ):
        got, before, weights, _ = trained(loss_fn, batch, micro_batches=k, named=named)
        assert got == pytest.approx(losses, rel=2e-6)
        assert near(weights, expected, before)
        if k == 1:
            assert got == losses and all(torch.equal(weights[name], expected[name]) for name in expected)


def test_a_sum_with_clipped_norm():
    batch = masked()
    torch.manual_seed(1)
    model = Tagger()
    before = {n: p.detach().clone() for n, p in model.named_parameters()}
    whole(model, *batch).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.05)
    torch.optim.SGD(model.parameters(), lr=1.0).step()
    expected = {n: p.detach() for n, p in model.named_parameters()}
    for k in (1, 3):
        _, _, weights, _ = trained(summed, batch, 1, micro_batches=k, clip_norm=0.05)
        assert near(weights, expected, before, 5e-6)


@pytest.mark.parametrize("n,k", [(7, 3), (5, 4), (9, 2), (1, 4)])
def test_the_last_part_may_be_smaller(n, k):
    def mean(model, x, y):
        return F.cross_entropy(model(x).flatten(0, 1), y.flatten())

    torch.manual_seed(0)
    batch = torch.randint(WORDS, (n, LENGTH)), torch.randint(WORDS, (n, LENGTH))
    losses, expected = eager(mean, batch)
    got, before, weights, _ = trained(mean, batch, micro_batches=k)
    assert got == pytest.approx(losses, rel=1e-5)
    assert near(weights, expected, before, 2e-6)


# ---- Structures ----


@dataclasses.dataclass
class Records:
    x: torch.Tensor
    y: torch.Tensor
    name: str = "records"


Pair = collections.namedtuple("Pair", "x y")


class Encoding(collections.UserDict):
    """As the tokenizers' BatchEncoding: its data are attributes too."""

    def __getattr__(self, key):
        try:
            return self.data[key]
        except KeyError as error:
            raise AttributeError(key) from error


def mean_of(model, x, y):
    return F.cross_entropy(model(x).flatten(0, 1), y.flatten())


@pytest.mark.parametrize(
    "make",
    [lambda x, y: {"x": x, "y": y}, Records, Pair, lambda x, y: Encoding({"x": x, "y": y}), lambda x, y: [x, (y,)]],
    ids=["dict", "dataclass", "namedtuple", "userdict", "list"],
)
def test_structures(make):
    def loss_fn(model, batch):
        if isinstance(batch, list):
            return mean_of(model, batch[0], batch[1][0])
        return mean_of(model, batch["x"], batch["y"]) if hasattr(batch, "keys") else mean_of(model, batch.x, batch.y)

    torch.manual_seed(1)
    model = Tagger()
    other = copy.deepcopy(model)
    a, b = helpers.sgd(model.parameters()), helpers.sgd(other.parameters())
    step = neap.torch.compile_step(model, loss_fn, a, budget="min")
    for seed in range(3):  # new content each time, in the same kind of object
        torch.manual_seed(seed)
        batch = make(torch.randint(WORDS, (4, LENGTH)), torch.randint(WORDS, (4, LENGTH)))
        loss = step(batch)
        expected = loss_fn(other, batch)
        expected.backward()
        b.step()
        b.zero_grad()
        assert torch.equal(loss, expected.detach())
    (kind,) = step.kinds
    assert len(kind.captured) == 1


def test_an_object_is_refused():
    class Hidden:
        def __init__(self, x, y):
            self.x, self.y = x, y

    model = Tagger()
    step = neap.torch.compile_step(
        model, lambda m, b: mean_of(m, b.x, b.y), helpers.sgd(model.parameters()), budget="min"
    )
    with pytest.raises(TypeError, match="Hidden"):
        step(Hidden(*masked()))


# ---- What is built in ----


def test_draws_of_python_and_numpy_are_refused():
    model = nn.Linear(8, 8)
    for draw in (random.random, np.random.rand):
        step = neap.torch.compile_step(
            model, lambda m, x, draw=draw: m(x).mean() * float(draw()), helpers.sgd(model.parameters()), budget="min"
        )
        before = random.getstate(), np.random.get_state()[1].copy()
        with pytest.raises(neap.torch.CannotTrace, match="random"):
            step(torch.randn(4, 8))
        assert random.getstate() == before[0] and (np.random.get_state()[1] == before[1]).all()


def test_settings_and_closures_are_part_of_the_key():
    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner, self.config = nn.Linear(8, 8), {"scale": [1.0]}

        def forward(self, x):
            return self.inner(x) * self.config["scale"][0]

    model = Scaled()
    other = copy.deepcopy(model)
    factor = 1.0

    def loss_fn(m, x):
        return (m(x) * factor).square().mean()

    a, b = helpers.sgd(model.parameters()), helpers.sgd(other.parameters())
    step = neap.torch.compile_step(model, loss_fn, a, budget="min")
    x = torch.randn(4, 8)
    for factor, scale in ((1.0, 1.0), (0.5, 1.0), (0.5, 3.0)):  # noqa: B007
        model.config["scale"][0] = other.config["scale"][0] = scale
        loss = step(x)
        expected = loss_fn(other, x)
        expected.backward()
        b.step()
        b.zero_grad()
        assert torch.equal(loss, expected.detach())


def test_a_setting_that_settles_is_kept():
    class Lazy(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner, self.seen = nn.Linear(8, 8), 0

        def forward(self, x):
            self.seen = max(self.seen, x.shape[0])
            return self.inner(x)

    model = Lazy()
    step = neap.torch.compile_step(model, lambda m, x: m(x).mean(), helpers.sgd(model.parameters()), budget="min")
    step(torch.randn(4, 8))
    assert model.seen == 4
    step(torch.randn(4, 8))
    step(torch.randn(4, 8))
    assert len(step.kinds) <= 2


def test_recurrent_weights_are_the_models_own_afterwards():
    model = nn.LSTM(4, 6, batch_first=True)
    step = neap.torch.compile_step(model, lambda m, x: m(x)[0].mean(), helpers.sgd(model.parameters()), budget="min")
    step(torch.randn(2, 3, 4))
    assert all(a is b for a, b in zip(model._flat_weights, model.parameters(), strict=True))


class Frozen(nn.Module):
    """Its LSTM's kernel keeps a workspace, which fake tensors do not have."""

    def __init__(self):
        super().__init__()
        self.lstm, self.last = nn.LSTM(4, 6).requires_grad_(False), nn.Linear(6, 3)

    def forward(self, x):
        return self.last(self.lstm(x)[0])


class Transposed(nn.Module):
    """The results of its batch norms lie otherwise than fake tensors say, and a view of one is taken."""

    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(4)

    def forward(self, x):
        v = self.norm(self.norm(x[:, 0].mT.contiguous().mT))
        return v[None] @ v[None].mT


@pytest.mark.parametrize("make", [Frozen, Transposed])
def test_fake_tensors_that_are_wrong_at_several_lengths(make):
    torch.manual_seed(0)
    model = make()
    other = copy.deepcopy(model)
    a, b = helpers.sgd(model.parameters()), helpers.sgd(other.parameters())
    step = neap.torch.compile_step(model, lambda m, x: m(x).square().mean(), a, budget="min")
    step.prepare(torch.randn(6, 2, 4), lengths=range(4, 7), dim=0)
    for n in (5, 4, 6):
        x = torch.randn(n, 2, 4)
        loss, expected = step(x), other(x).square().mean()
        expected.backward()
        b.step()
        b.zero_grad()
        assert torch.equal(loss, expected.detach()), n
    assert helpers.differing(helpers.state(model, a), helpers.state(other, b)) == []


# ---- Shapes ----


def encoder():
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(32, 2, 64, batch_first=True)
    return nn.Sequential(
        nn.Embedding(WORDS, 32), nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), nn.Linear(32, WORDS)
    )


def of_length(n, batch=4):
    return torch.randint(WORDS, (batch, n)), torch.randint(WORDS, (batch, n))


def run_lengths(lengths, prepare=None, budget="max", batch=4, **options):
    """Trains on the lengths in turn beside eager; the step."""
    model = encoder()
    other = copy.deepcopy(model)
    a, b = helpers.adamw(model.parameters()), helpers.adamw(other.parameters())
    step = neap.torch.compile_step(model, mean_of, a, budget=budget, **options)
    if prepare is not None:
        step.prepare(*of_length(max(prepare), batch), lengths=prepare)
    for number, n in enumerate(lengths):
        x, y = of_length(n, batch)
        torch.manual_seed(number)
        loss = step(x, y)
        torch.manual_seed(number)
        expected = mean_of(other, x, y)
        expected.backward()
        b.step()
        b.zero_grad()
        assert torch.equal(loss, expected.detach()), n
        assert step.memory.enforced, step.memory.why
        assert step.memory.measured_peak_bytes <= step.memory.planned_peak_bytes
    assert helpers.differing(helpers.state(model, a), helpers.state(other, b)) == []
    return step


def captured(step):
    return sum(len(kind.captured) for kind in step.kinds)


def test_lengths_between_captured_ones_are_known():
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        step = run_lengths([40, 5, 23, 31, 11, 17, 38, 6, 29, 1, 2])
    assert captured(step) == 6  # 40, 5, 23, 31, and beyond them 1 and 2
    assert sum("prepare(" in str(w.message) for w in told) == 1


def test_prepared_lengths_need_no_capture():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        step = run_lengths([48, 2, 33, 7, 8, 9, 41], prepare=range(2, 49))
    assert captured(step) <= 6


def test_one_memory_for_all_shapes():
    step = run_lengths([8, 64, 16, 64] if QUICK else [8, 64, 16, 40, 24, 64, 12], budget="min")
    first = step.arena.address
    assert step.memory.mapped_bytes == step.arena.size
    most = max(plan.plan.arena_bytes for kind in step.kinds for steps in kind.steps.values() for plan in steps.plans)
    assert step.arena.size == most
    step(*of_length(80))
    assert step.arena.address == first


def test_plans_of_larger_shapes_serve_smaller_ones():
    step = run_lengths([64, 60, 50, 40, 20, 10], budget="min", replan=0)
    assert [len(steps.plans) for kind in step.kinds for steps in kind.steps.values()] == [1]


@torch.library.custom_op("neap_test::in_another_order", mutates_args=())
def in_another_order(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Returns x, -x and 2 x. A small x takes another path: it makes them in another order, with more or fewer temporaries."""
    rows = x.shape[0]
    if rows > 4:
        between = x.neg()
        first, second = between.neg(), x.neg()
        del between
        return first, second, x + x
    if rows == 4:  # each result but the first takes the place of the one before it
        return x.clone(), x.neg(), x + x
    if rows == 3:  # the first two lie in each other's places
        third, second = x + x, x.neg()
        return x.clone(), second, third
    between = [x.clone(), x.neg()]
    third = x + x
    return x.clone(), between[1].clone(), third


@in_another_order.register_fake
def _(x):
    return torch.empty_like(x), torch.empty_like(x), torch.empty_like(x)


in_another_order.register_autograd(lambda ctx, a, b, c: a - b + 2 * c)


def test_a_smaller_shape_whose_kernel_allocates_in_another_order():
    """Its allocations find room among the places that the plan has for the call. Results that lie in each other's places are changed
    over outside the plan, which is told; the shape then gets a plan of its own."""
    model = nn.Linear(40, 40)

    def loss_fn(model, x):
        first, second, third = in_another_order(torch.tanh(model(x)))
        return (first.sin() + second.cos() * 2 + third.sin() * 3).square().mean()

    eager = copy.deepcopy(model)
    step = neap.torch.compile_step(model, loss_fn, helpers.sgd(model.parameters()), budget="max")
    other = helpers.sgd(eager.parameters())
    step.prepare(torch.randn(8, 40))
    told = []
    for rows in (8, 4, 2, 8, 3, 3, 8):
        x = torch.randn(rows, 40)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            step(x)
        told += [rows for w in caught if "outside the plan" in str(w.message)]
        other.zero_grad()
        loss_fn(eager, x).backward()
        other.step()
        assert all(torch.equal(a, b) for a, b in zip(model.parameters(), eager.parameters(), strict=True)), rows
        assert step.memory.enforced or rows in told
    assert told == [3]


class Loop(nn.Module):
    """A loop over time: each length has other calls."""

    def __init__(self):
        super().__init__()
        self.cell = nn.Linear(64, 64)

    def forward(self, x):
        h = x[:, 0].expand(-1, 64)
        for t in range(1, x.shape[1]):
            h = torch.tanh(self.cell(h) + x[:, t])
        return h


def test_a_share_of_a_larger_shape_serves_a_smaller_one_with_other_calls():
    """The smaller shape is nearly all weights: less than all of it is too little, but the memory of the larger one is there."""
    torch.manual_seed(0)
    model, long, short = Loop(), torch.randn(64, 40, 1), torch.randn(4, 2, 1)
    eager = copy.deepcopy(model)
    step = neap.torch.compile_step(
        model, lambda m, x: m(x).square().mean(), torch.optim.SGD(model.parameters(), 0.1), budget="60%"
    )
    other = torch.optim.SGD(eager.parameters(), 0.1)
    for x in (long, short, long, short):
        step(x)
        other.zero_grad()
        eager(x).square().mean().backward()
        other.step()
    with pytest.raises(neap.OverBudget):
        neap.torch.compile_step(
            model, lambda m, x: m(x).square().mean(), torch.optim.SGD(model.parameters(), 0.1), budget="60%"
        )(short)
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), eager.parameters(), strict=True))


def test_short_last_batches():
    model = encoder()
    step = neap.torch.compile_step(model, mean_of, helpers.sgd(model.parameters()), budget="min")
    for batch in (8, 8, 3, 8, 3):
        step(*of_length(12, batch))
    assert captured(step) == 2


def test_release_gives_memory_back_and_goes_on():
    batch = of_length(64)
    model = encoder()
    other = copy.deepcopy(model)
    losses = []
    for m, release in ((model, True), (other, False)):
        step = neap.torch.compile_step(m, mean_of, helpers.adamw(m.parameters()), budget="max", micro_batches=2)
        torch.manual_seed(0)
        losses.append([])
        for _ in range(3):
            losses[-1].append(step(*batch).item())
            if release:
                before = resident()
                step.release()
                assert resident() < before - step.memory.arena_bytes // 2
    assert losses[0] == losses[1]


def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


def test_two_threads_train_two_models():
    torch.manual_seed(0)
    models = {"alone": Tagger()}
    models |= {name: copy.deepcopy(models["alone"]) for name in (0, 1)}
    batch = masked(4, 3)[0], torch.ones(4, LENGTH, dtype=torch.long)  # drawn once: threads share the random state
    results = {}

    def train(name):
        model = models[name]
        mean_of(
            copy.deepcopy(model), *batch
        ).backward()  # MKL keeps buffers for each thread, which a first step would count
        step = neap.torch.compile_step(model, mean_of, helpers.sgd(model.parameters()), budget="min")
        results[name] = [step(*batch).item() for _ in range(4)]
        assert step.memory.enforced, step.memory.why

    train("alone")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        threads = [threading.Thread(target=train, args=(i,)) for i in range(2)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    assert results[0] == results[1] == results["alone"]


def test_a_failure_inside_a_step_leaves_nothing_behind():
    model, loss_fn, batch = cases.OURS["transformer"]()
    step = neap.torch.compile_step(model, loss_fn, helpers.sgd(model.parameters()), budget="min")
    step(*batch)
    caught = None

    def stop(position):
        if position == 20:
            raise KeyboardInterrupt

    try:
        step._run(batch, stop)
    except KeyboardInterrupt as error:
        caught = error
    del step
    assert caught is not None
    caught = None  # frames that held tensors of the arena go
    other = neap.torch.compile_step(model, loss_fn, helpers.sgd(model.parameters()), budget="max")
    other(*batch)


def test_gradients_that_share_memory_are_clipped_once():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.p, self.q = nn.Parameter(torch.ones(3)), nn.Parameter(torch.ones(3))
            self.wide = nn.Parameter(torch.ones(4, 3))

        def forward(self, x):
            return torch.sin(x * (self.p + self.q) + self.wide)  # wide's gradient flows on

    for options in (
        {"clip_norm": 0.1},
        {"clip_value": 1e-3},
        {"clip_norm": 0.1, "micro_batches": 1, "clip_value": 1e-3},
    ):
        model = Twice()
        other = copy.deepcopy(model)
        a, b = helpers.sgd(model.parameters()), helpers.sgd(other.parameters())
        x = torch.randn(4, 3)
        step = neap.torch.compile_step(model, lambda m, x: m(x).square().mean() * 100, a, budget="min", **options)
        for _ in range(3):
            step(x)
            (other(x).square().mean() * 100).backward()
            if "clip_norm" in options:
                torch.nn.utils.clip_grad_norm_(other.parameters(), options["clip_norm"])
            if "clip_value" in options:
                torch.nn.utils.clip_grad_value_(other.parameters(), options["clip_value"])
            b.step()
            b.zero_grad()
        assert helpers.differing(helpers.state(model, a), helpers.state(other, b)) == []
        assert step.memory.enforced, step.memory.why


def test_quantised_weights_and_states():
    bitsandbytes = pytest.importorskip("bitsandbytes")

    class Quantised(nn.Module):
        def __init__(self, layer):
            super().__init__()
            self.first, self.frozen = nn.Linear(64, 64), layer.requires_grad_(False)
            self.a, self.b = nn.Linear(64, 4, bias=False), nn.Linear(4, 128, bias=False)

        def forward(self, x):
            x = self.first(x)
            return self.frozen(x) + self.b(self.a(x))

    for make in (
        lambda: bitsandbytes.nn.Linear4bit(64, 128, compute_dtype=torch.float32, quant_type="nf4"),
        lambda: bitsandbytes.nn.Linear8bitLt(64, 128, has_fp16_weights=False),
    ):
        torch.manual_seed(0)
        model = Quantised(make()).to("cpu")
        x = torch.randn(8, 64)
        model(x)
        results = []
        for budget in (None, "max", "min"):
            own = copy.deepcopy(model)
            optimizer = helpers.adamw([p for p in own.parameters() if p.requires_grad])
            loss_fn = lambda m, x: m(x).square().mean()  # noqa: E731
            step = neap.torch.compile_step(own, loss_fn, optimizer, budget=budget) if budget else None
            losses = [step(x).item() for _ in range(3)] if step else helpers.loop(loss_fn, own, optimizer, (x,), 3)
            results.append((losses, [p.detach() for p in own.parameters() if p.requires_grad]))
        for losses, weights in results[1:]:
            assert losses == results[0][0]
            assert all(map(torch.equal, weights, results[0][1]))


# ---- Numbers of a batch ----


def weighted(model, x, weight, count):
    return model(x).square().mean() * weight + model(x).abs().sum() / count


def branching(model, x, weight, count):
    return model(x).square().mean() * (weight if weight > 0.35 else 1 - weight) + count


def clipped(model, x, weight, count):
    return model(x).square().mean() * min(weight, 0.5) / count


def shaped(model, x, weight, count):
    return model(x[: count + 1]).square().mean() * weight


@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize("loss_fn,is_input", [(weighted, True), (branching, False), (clipped, False), (shaped, False)])
@pytest.mark.filterwarnings("ignore:neap. the step is captured")
@pytest.mark.filterwarnings("ignore:neap. batches of 4 shapes")
def test_numbers_of_a_batch_are_inputs_where_calls_only_take_them(loss_fn, is_input, parts):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 9), nn.Tanh(), nn.Linear(9, 3))
    eager = copy.deepcopy(model)
    optimizer = helpers.sgd(eager.parameters())
    step = neap.torch.compile_step(model, loss_fn, helpers.sgd(model.parameters()), budget="min", micro_batches=parts)
    for i in range(8):
        x, weight, count = torch.randn(8 if i % 3 else 12, 6), 0.1 * (i + 1), i + 2
        loss = step(x, weight, count)
        expected = 0
        for part in x.chunk(parts):
            one = loss_fn(eager, part, weight, count) / parts
            one.backward()
            expected = expected + one.detach()
        optimizer.step()
        optimizer.zero_grad()
        assert torch.equal(loss, expected)
    for a, b in zip(model.parameters(), eager.parameters(), strict=True):
        assert torch.equal(a, b)
    (kind,) = step.kinds
    assert (len(kind.captured) <= 2) == is_input


def test_numbers_in_extras_are_those_of_the_step():
    model = nn.Linear(4, 3)
    step = neap.torch.compile_step(
        model, lambda m, x, w: (m(x).mean() * w, [w, "name"]), helpers.sgd(model.parameters()), budget="max"
    )
    x = torch.randn(5, 4)
    assert [step(x, w)[1] for w in (0.5, 0.25, 7.0, -1.0)] == [[w, "name"] for w in (0.5, 0.25, 7.0, -1.0)]
    (kind,) = step.kinds
    assert len(kind.captured) == 1


def test_lengths_between_captured_ones_go_with_any_number():
    torch.manual_seed(0)
    model = Tagger()
    eager = copy.deepcopy(model)
    optimizer = helpers.sgd(eager.parameters())
    loss_fn = lambda m, x, w: m(x).square().mean() * w  # noqa: E731
    step = neap.torch.compile_step(model, loss_fn, helpers.sgd(model.parameters()), budget="max")
    for w, n in ((0.5, LENGTH), (0.25, LENGTH)):
        x = masked(4, n)[0]
        torch.testing.assert_close(step(x, w), loss_fn(eager, x, w).detach(), rtol=0, atol=0)
        loss_fn(eager, x, w).backward(), optimizer.step(), optimizer.zero_grad()
    step.prepare(masked(4, LENGTH)[0], 2.0, lengths=range(2, LENGTH + 1))
    (kind,) = step.kinds
    captured = len(kind.captured)
    for i in range(2, LENGTH):
        x, w = masked(4, LENGTH)[0][:, :i].contiguous(), 1.5 + i
        loss = loss_fn(eager, x, w)
        loss.backward(), optimizer.step(), optimizer.zero_grad()
        assert torch.equal(step(x, w), loss.detach())
    assert len(kind.captured) == captured


# ---- What a model holds ----


class Settings(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.scale, self.rest = nn.Linear(3, 2), 1, {}

    def forward(self, x):
        one = x if self.scale is True else x.double()
        return self.linear(one.float()) * self.scale + len(self.rest.get("a", "x"))


def test_settings_differ_by_type_and_by_the_keys_of_a_dict():
    model = Settings()
    step = neap.torch.compile_step(model, lambda m, x: m(x).mean(), helpers.sgd(model.parameters()), budget="max")
    x, kinds = torch.randn(4, 3), []
    for scale, rest in ((1, {}), (True, {}), (1.0, {}), (1, {"a": "yy"}), (1, {"b": "yy"}), (1, {})):
        model.scale, model.rest = scale, rest
        eager = copy.deepcopy(model)(x).mean().detach()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert torch.equal(step(x), eager)
        kinds.append(len(step.kinds))
    assert kinds == [1, 2, 3, 4, 4, 4]  # the last but one makes the calls of the first
    model.scale = float("nan")
    for _ in range(3):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            step(x)
    assert len(step.kinds) == 5


# ---- What holds after a step ----


def test_memory_is_told_after_the_step_was_bound_anew():
    model = Tagger()
    step = neap.torch.compile_step(model, mean_of, helpers.sgd(model.parameters()), budget="min")
    batch = masked(4, 3)[0], torch.ones(4, LENGTH, dtype=torch.long)
    step(*batch)
    before = step.memory
    assert before.budget_bytes == before.planned_peak_bytes and before.measured_peak_bytes > 0
    step._unbind()
    assert step.memory == before
    step.release()
    assert step.memory == before


def test_sums_of_gradients_of_two_kinds_of_steps():
    """Parameters freeze and thaw between steps; the sums are made anew, and no step reads those of before."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 9), nn.Tanh(), nn.Linear(9, 3))
    eager = copy.deepcopy(model)
    optimizer = helpers.sgd(eager.parameters())
    loss_fn = lambda m, x: m(x).square().mean()  # noqa: E731
    step = neap.torch.compile_step(model, loss_fn, helpers.sgd(model.parameters()), budget="max", micro_batches=2)
    for frozen in (False, True, False, True, False):
        for m in (model, eager):
            m[0].weight.requires_grad_(not frozen)
        x = torch.randn(8, 6)
        step(x)
        for part in x.chunk(2):
            (loss_fn(eager, part) / 2).backward()
        optimizer.step()
        optimizer.zero_grad()
        for a, b in zip(model.parameters(), eager.parameters(), strict=True):
            assert torch.equal(a, b)
