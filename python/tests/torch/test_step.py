"""compile_step beside the usual loop: optimizers, schedulers, micro-batches, clipping, states, and wrong use."""

from __future__ import annotations

import copy
import warnings

import cases
import helpers
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import neap
import neap.torch


@pytest.fixture(scope="module")
def case():
    torch.manual_seed(0)
    return cases.OURS["transformer"]()


@pytest.fixture(scope="module")
def small():
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(12, 24), nn.ReLU(inplace=True), nn.Dropout(0.2), nn.Linear(24, 24), nn.Tanh(), nn.Linear(24, 5)
    )
    return model, cases.classify, (torch.randn(12, 12), torch.randint(5, (12,)))


OPTIMIZERS = [
    ("SGD", {"lr": 0.1}), ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True}), ("SGD", {"lr": 0.1, "momentum": 0.9, "fused": True}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "foreach": True}), ("Adam", {"lr": 1e-3, "amsgrad": True}), ("AdamW", {"lr": 1e-3}),
    ("AdamW", {"lr": 1e-3, "fused": True}), ("NAdam", {}), ("RAdam", {}), ("Adamax", {}), ("Adagrad", {}), ("Adadelta", {}), ("RMSprop", {"momentum": 0.5}),
    ("Rprop", {}), ("ASGD", {}), ("Adafactor", {}),
]  # fmt: skip


@pytest.mark.parametrize("name,options", OPTIMIZERS, ids=lambda x: x if isinstance(x, str) else "-".join(x))
def test_every_optimizer(small, name, options):
    make = lambda p: getattr(torch.optim, name)(p, **options)  # noqa: E731
    losses, state = helpers.eager(small, make, 8)
    got, got_state, step = helpers.compiled(small, make, "min", 8)
    assert got == losses
    assert helpers.differing(got_state, state) == []
    assert step.memory.enforced, step.memory.why


def loop(case, make, steps, *, micro=1, norm=None, value=None, schedule=None, seed=5):
    """The usual loop, with accumulation and clipping."""
    model, loss_fn, (x, y) = copy.deepcopy(case)
    optimizer = make(model.parameters())
    scheduler = schedule(optimizer) if schedule else None
    torch.manual_seed(seed)
    losses = []
    for _ in range(steps):
        total = 0
        for a, b in zip(x.chunk(micro), y.chunk(micro), strict=True):
            loss = loss_fn(model, a, b) / micro
            loss.backward()
            total = total + loss.detach()
        if norm is not None:
            torch.nn.utils.clip_grad_norm_(model.parameters(), norm)
        if value is not None:
            torch.nn.utils.clip_grad_value_(model.parameters(), value)
        optimizer.step()
        optimizer.zero_grad()
        if scheduler:
            scheduler.step()
        losses.append(total.item())
    return losses, helpers.state(model, optimizer)


@pytest.mark.parametrize(
    "options",
    [{"micro": 2}, {"micro": 4, "norm": 0.3}, {"norm": 0.3}, {"value": 1e-3}, {"micro": 2, "value": 1e-3}],
    ids=str,
)
def test_micro_batches_and_clipping(case, options):
    losses, state = loop(case, helpers.adamw, 3, **options)
    for budget in ("min", "max"):
        got, got_state, step = helpers.compiled(
            case,
            helpers.adamw,
            budget,
            micro_batches=options.get("micro", 1),
            clip_norm=options.get("norm"),
            clip_value=options.get("value"),
        )
        assert got == losses
        assert helpers.differing(got_state, state) == []
        assert step.memory.enforced, step.memory.why


def test_learning_rate_scheduler(small):
    schedule = lambda o: torch.optim.lr_scheduler.CosineAnnealingLR(o, 5)  # noqa: E731
    losses, state = loop(small, helpers.adamw, 5, schedule=schedule)
    model, loss_fn, batch = copy.deepcopy(small)
    optimizer = helpers.adamw(model.parameters())
    step = neap.torch.compile_step(model, loss_fn, optimizer, budget="min")
    scheduler = schedule(optimizer)
    torch.manual_seed(5)
    got = []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(5):
            got.append(step(*batch).item())
            scheduler.step()
    assert got == losses
    assert helpers.differing(helpers.state(model, optimizer), state) == []


def test_states_are_saved_and_loaded_between_steps(small):
    losses, state = helpers.eager(small, helpers.adamw, 6)
    model, loss_fn, batch = copy.deepcopy(small)
    optimizer = helpers.adamw(model.parameters())
    step = neap.torch.compile_step(model, loss_fn, optimizer, budget="min")
    torch.manual_seed(5)
    got = [step(*batch).item() for _ in range(3)]
    saved = copy.deepcopy((model.state_dict(), optimizer.state_dict(), torch.get_rng_state()))
    model.eval()
    model(batch[0])  # evaluation between steps
    model.train()
    [step(*batch) for _ in range(2)]
    model.load_state_dict(saved[0])
    optimizer.load_state_dict(saved[1])
    torch.set_rng_state(saved[2])
    got += [step(*batch).item() for _ in range(3)]
    assert got == losses
    assert helpers.differing(helpers.state(model, optimizer), state) == []


def test_extras_frozen_and_unused_parameters(case):
    def loss_fn(model, x, y):
        out = model(x)
        return F.cross_entropy(out.flatten(0, 1), y.flatten()), {"logits": out, "first": x[0]}

    model, _, batch = copy.deepcopy(case)
    model.register_parameter("unused", nn.Parameter(torch.ones(3)))
    model.blocks[0].qkv.weight.requires_grad_(False)
    other = copy.deepcopy(model)
    a, b = helpers.sgd(model.parameters()), helpers.sgd(other.parameters())
    step = neap.torch.compile_step(model, loss_fn, a, budget="min")
    torch.manual_seed(5)
    loss, extras = step(*batch)
    torch.manual_seed(5)
    expected, expected_extras = loss_fn(other, *batch)
    expected.backward()
    b.step()
    assert torch.equal(loss, expected.detach())
    assert torch.equal(extras["logits"], expected_extras["logits"].detach()) and torch.equal(
        extras["first"], batch[0][0]
    )
    assert helpers.differing(helpers.state(model, a), helpers.state(other, b)) == []


@pytest.mark.parametrize("dtype", [torch.bfloat16, pytest.param(torch.float16, marks=pytest.mark.long)], ids=str)
def test_autocast(case, dtype):
    def loss_fn(model, x, y):
        with torch.autocast("cpu", dtype):
            return cases.next_token(model, x, y)

    wrapped = (case[0], loss_fn, case[2])
    losses, state = helpers.eager(wrapped, helpers.adamw)
    got, got_state, _ = helpers.compiled(wrapped, helpers.adamw, "min")
    assert got == losses
    assert helpers.differing(got_state, state) == []


def test_autocast_around_the_step(case):
    model, loss_fn, batch = copy.deepcopy(case)
    optimizer = helpers.adamw(model.parameters())
    step = neap.torch.compile_step(model, loss_fn, optimizer, budget="min")
    torch.manual_seed(5)
    with torch.autocast("cpu", torch.bfloat16):
        got = [step(*batch).item() for _ in range(3)]
    other, _, _ = copy.deepcopy(case)
    theirs = helpers.adamw(other.parameters())
    torch.manual_seed(5)
    losses = []
    for _ in range(3):
        with torch.autocast("cpu", torch.bfloat16):
            loss = loss_fn(other, *batch)
        loss.backward()
        theirs.step()
        theirs.zero_grad()
        losses.append(loss.item())
    assert got == losses
    assert helpers.differing(helpers.state(model, optimizer), helpers.state(other, theirs)) == []


def test_shapes_that_change(small):
    model, loss_fn, (x, y) = copy.deepcopy(small)
    other = copy.deepcopy(model)
    a, b = helpers.sgd(model.parameters()), helpers.sgd(other.parameters())
    step = neap.torch.compile_step(model, loss_fn, a, budget="min")
    for n in (12, 5, 12, 7):
        torch.manual_seed(n)
        loss = step(x[:n], y[:n])
        torch.manual_seed(n)
        expected = loss_fn(other, x[:n], y[:n])
        expected.backward()
        b.step()
        b.zero_grad()
        assert torch.equal(loss, expected.detach())
    (kind,) = step.kinds
    assert len(kind.captured) == 3  # one capture a shape
    assert helpers.differing(helpers.state(model, a), helpers.state(other, b)) == []


def test_plan_is_kept_on_disk(small, monkeypatch):
    helpers.compiled(small, helpers.sgd, "min", 1)
    monkeypatch.setattr(neap, "plan", lambda *a, **k: pytest.fail("planned again"))
    helpers.compiled(small, helpers.sgd, "min", 1)


# ---- Wrong use: a message with the cause and the way out, and nothing is changed ----


def refused(case, kind, match, *, loss_fn=None, make=helpers.sgd, budget="min", batch=None, **options):
    model, fn, given = copy.deepcopy(case)
    before = {k: v.clone() for k, v in model.state_dict().items()}
    with pytest.raises(kind, match=match):
        neap.torch.compile_step(model, loss_fn or fn, make(model.parameters()), budget=budget, **options)(
            *(batch or given)
        )
    assert all(torch.equal(v, before[k]) for k, v in model.state_dict().items())
    assert all(p.grad is None for p in model.parameters())


def test_a_capture_knows_nothing_of_former_ones():
    """Fake tensors' cache gives two gradients of a recurrent layer's biases, a call that misses it one: the captures are equal."""
    torch.manual_seed(0)
    model, loss_fn, batch = cases.OURS["recurrent"]()
    losses = []
    for compiled in (False, True):
        torch._subclasses.fake_tensor.FakeTensorMode.cache_clear()
        own = copy.deepcopy(model)
        optimizer = helpers.adamw(own.parameters())
        torch.manual_seed(5)
        if compiled:
            step = neap.torch.compile_step(own, loss_fn, optimizer, budget="min")
            step.prepare(*batch)
            torch.manual_seed(5)
            losses.append([float(step(*batch)) for _ in range(4)])  # the second and the fourth step capture anew
            continue
        losses.append([])
        for _ in range(4):
            loss = loss_fn(own, *batch)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses[-1].append(loss.item())
    assert losses[0] == losses[1]


def test_budget_that_cannot_be_met(small):
    model, loss_fn, batch = copy.deepcopy(small)
    with pytest.raises(neap.OverBudget) as error:
        neap.torch.compile_step(model, loss_fn, helpers.sgd(model.parameters()), budget=4096)(*batch)
    smallest = error.value.smallest
    model, loss_fn, batch = copy.deepcopy(small)
    step = neap.torch.compile_step(model, loss_fn, helpers.sgd(model.parameters()), budget=smallest)
    step(*batch)
    assert step.memory.measured_peak_bytes <= smallest


def test_nonsense_budget(small):
    refused(small, neap.InvalidArgument, "a lot", budget="a lot")


def test_a_number_that_the_loss_is_computed_with(small):
    def loss_fn(model, x, y):
        out = model(x)
        return F.cross_entropy(out, y) * out.sum().item()

    refused(small, neap.torch.CannotTrace, r"test_step\.py, line .*out\.sum\(\)\.item\(\)", loss_fn=loss_fn)


def test_function_that_leaves_pytorch(small):
    class Outside(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return torch.from_numpy(x.detach().numpy() * 2)

        @staticmethod
        def backward(ctx, g):
            return g * 2

    refused(
        small,
        neap.torch.CannotTrace,
        "cannot be captured",
        loss_fn=lambda m, x, y: F.cross_entropy(Outside.apply(m(x)), y),
    )


def test_mixed_devices(small):
    _, loss_fn, (x, y) = small
    mixed = nn.Sequential(nn.Linear(12, 4), nn.Linear(4, 5, device="meta"))
    with pytest.raises(neap.torch.CannotTrace, match="device"):
        neap.torch.compile_step(mixed, loss_fn, helpers.sgd(mixed.parameters()), budget="min")(x, y)


def test_loss_that_is_no_scalar(small):
    refused(small, neap.torch.CannotTrace, "scalar", loss_fn=lambda m, x, y: m(x))


def test_optimizers_that_are_refused(small):
    refused(small, TypeError, "LBFGS", make=torch.optim.LBFGS)
    refused(small, TypeError, "GradScaler", make=lambda _: torch.amp.GradScaler("cpu"))


def test_batch_that_cannot_be_cut(small):
    x, y = small[2]
    refused(small, ValueError, "different sizes", micro_batches=5, batch=(x, y[:7]))


def test_gradient_hooks(small):
    model, loss_fn, batch = copy.deepcopy(small)
    model[0].weight.register_hook(lambda g: g * 2)
    with pytest.raises(neap.torch.CannotTrace, match="hook"):
        neap.torch.compile_step(model, loss_fn, helpers.sgd(model.parameters()), budget="min")(*batch)


def test_model_changed_after_compilation(small):
    model, loss_fn, batch = copy.deepcopy(small)
    optimizer = helpers.sgd(model.parameters())
    step = neap.torch.compile_step(model, loss_fn, optimizer, budget="min")
    step(*batch)
    model[0].weight.data = model[0].weight.data.clone()  # the same model elsewhere: goes on
    step(*batch)
    other = copy.deepcopy(small[0])
    theirs = helpers.sgd(other.parameters())
    before = copy.deepcopy(model.state_dict())
    model[0].weight.data = torch.zeros(24, 12, dtype=torch.float64)
    with pytest.raises(neap.torch.ModelChanged, match=r"0\.weight"):
        step(*batch)
    assert all(torch.equal(v, before[k]) for k, v in model.state_dict().items() if k != "0.weight")
    del other, theirs


def test_plan_on_fake_tensors():
    torch.manual_seed(0)
    case = cases.OURS["convolutional"]()
    model, loss_fn, batch = copy.deepcopy(case)
    _, _, step = helpers.compiled(case, helpers.adamw, "max", 1)
    real = neap.torch.plan(model, loss_fn, batch, optimizer=torch.optim.AdamW, budget="95%")
    fake = neap.torch.plan(
        copy.deepcopy(model).to("meta"),
        loss_fn,
        tuple(t.to("meta") for t in batch),
        optimizer=torch.optim.AdamW,
        budget="95%",
    )
    assert fake.keep_all_bytes == real.keep_all_bytes and fake.feasible and fake.peak_bytes == real.peak_bytes
    memory = step.memory
    assert fake.keep_all_bytes == memory.keep_all_bytes  # its calls were measured here
    assert neap.torch.plan(model, loss_fn, batch, budget=1000).feasible is False
    largest = fake.largest_batch(fake.keep_all_bytes)
    assert largest >= 4
    assert "least budget" in fake.table() and "<" in fake.html()
