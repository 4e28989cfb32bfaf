"""The user's objects beside compile_step and plan: whatever does not complete a step changes nothing, and a step changes what eager's does."""

from __future__ import annotations

import collections
import copy
import io
import itertools
import pickle
import random
import signal
import threading
import types

import helpers
import numpy
import object_cases
import pytest
import quick
import torch
from torch import nn
from torch.nn import functional as F

import neap
import neap.torch

MODELS = [
    pytest.param(name, marks=[] if name in object_cases.QUICK else pytest.mark.long) for name in object_cases.MODELS
]


@pytest.fixture(autouse=True)
def interruptible():
    """Python raises KeyboardInterrupt also where the tests were started in the background, which ignores the signal."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


class Interrupting(torch.optim.SGD):
    """Is interrupted in an update once it is armed; copies of it are not."""

    armed = 0  # its id

    def step(self, closure=None):
        if self.armed == id(self):
            self.armed = 0
            signal.raise_signal(signal.SIGINT)
        return super().step(closure)


def look(case, optimizer):
    """Everything that can be seen of a case's objects: path -> what is there. Objects are looked at by identity, tensors also by value."""
    seen = {}
    known = set()

    def tensor(path, t):
        seen[path] = (id(t), t.data_ptr(), t._version, t.requires_grad, id(t.grad) if t.is_leaf else None)
        seen[f"{path} value"] = pickle.dumps(t.detach().clone().numpy())

    def walk(path, x, depth=6):
        seen[path] = (id(x), type(x))
        if isinstance(x, torch.Tensor):
            tensor(path, x)
        if id(x) in known or depth == 0 or isinstance(x, (torch.Tensor, type)):
            return
        known.add(id(x))
        if isinstance(x, (list, tuple, collections.deque)):
            inside = dict(enumerate(x))
        elif isinstance(x, dict):
            inside = x
        elif isinstance(x, types.FunctionType):
            inside = {
                name: cell.cell_contents for name, cell in zip(x.__code__.co_freevars, x.__closure__ or (), strict=True)
            }
        else:
            inside = vars(x) if hasattr(x, "__dict__") else {}
        seen[f"{path} keys"] = list(map(str, inside))
        for key, value in list(inside.items()):
            walk(f"{path}.{key}", value, depth - (not isinstance(value, nn.Module)))

    walk("model", case.model, 40)
    walk("others", case.others, 40)
    walk("state", optimizer.state)
    walk("groups", optimizer.param_groups)
    seen["generators"] = pickle.dumps((random.getstate(), numpy.random.get_state(), torch.get_rng_state().numpy()))
    return seen


def unlike(before, after):
    return [key for key in {**before, **after} if before.get(key) != after.get(key)]


def values(case):
    """The tensors of a case by path."""
    found = {}
    for i, x in enumerate((case.model, *case.others)):
        named = (
            x.state_dict(keep_vars=True)
            if isinstance(x, nn.Module)
            else x
            if isinstance(x, dict)
            else dict(enumerate(x))
        )
        named |= vars(x) if isinstance(x, nn.Module) else {}
        found |= {f"{i} {k}": v.detach().clone() for k, v in named.items() if isinstance(v, torch.Tensor)}
    return found


def eager(case, optimizer, steps):
    for _ in range(steps):
        loss = case.loss_fn(case.model, *case.batch)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return loss.detach()


def made(name, kind=Interrupting):
    torch.manual_seed(0)
    case = object_cases.MODELS[name]()
    return case, kind(case.trained, lr=0.05, **({} if kind is torch.optim.AdamW else {"momentum": 0.9}))


@pytest.mark.parametrize("name", MODELS)
def test_objects(name, monkeypatch):
    monkeypatch.setattr(neap, "plan", quick.plan_quickly)
    if name in ("LoRA", "DoRA", "IA3", "VeRA", "FourierFT", "OFT", "prompt tuning"):
        pytest.importorskip("peft")
    case, optimizer = made(name)
    other, theirs = made(name)
    for p in case.trained[:1]:
        p.grad = torch.ones_like(p)  # as another loop may leave it
    before = look(case, optimizer)

    def same(what):
        assert unlike(before, look(case, optimizer)) == [], what

    neap.torch.plan(case.model, case.loss_fn, case.batch, optimizer=optimizer, budget="max")
    same("plan")
    with pytest.raises(neap.OverBudget):
        neap.torch.compile_step(case.model, case.loss_fn, optimizer, budget=4096)(*case.batch)
    same("a budget that cannot be met")

    def unplannable(model, *batch):
        loss = case.loss_fn(model, *batch)
        return loss if float(loss) > 0 else -loss

    with pytest.raises(neap.torch.CannotTrace, match="asks for the value"):
        neap.torch.compile_step(case.model, unplannable, optimizer, budget="max")(*case.batch)
    same("a refusal")

    def interrupted(model, *batch):
        case.loss_fn(model, *batch)
        signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        neap.torch.compile_step(case.model, interrupted, optimizer, budget="max")(*case.batch)
    same("an interrupt in a capture")
    step = neap.torch.compile_step(case.model, case.loss_fn, optimizer, budget="max")
    same("compile_step")
    step.prepare(*case.batch)
    same("prepare")

    last = step.last.program.begins - 1  # position of the last call before one that changes a buffer or a parameter

    def fail(position):
        if position == last:
            raise ZeroDivisionError

    if last >= 0:
        with pytest.raises(ZeroDivisionError):
            step._run(case.batch, fail)
        same("an exception in the step")

    torch.manual_seed(5)
    loss = step(*case.batch)
    torch.manual_seed(5)
    assert torch.equal(loss, eager(other, theirs, 1))
    assert helpers.differing(values(case), values(other)) == []
    assert all(p.grad is None for p in case.trained)
    optimizer.armed = id(optimizer)
    torch.manual_seed(6)
    with pytest.raises(KeyboardInterrupt):
        step(*case.batch)
    torch.manual_seed(6)
    eager(other, theirs, 1)
    assert helpers.differing(values(case), values(other)) == []
    for a, b in zip(case.trained, other.trained, strict=True):
        moments = [o.state.get(p, {}).get("momentum_buffer", torch.empty(0)) for o, p in ((optimizer, a), (theirs, b))]
        assert torch.equal(*moments)

    # A step changes tensors in place and makes states; nothing else has another identity.
    after = look(case, optimizer)
    changed = [
        key for key, x in before.items()
        if key.startswith(("model", "others")) and isinstance(x, tuple) and x[:2] != after[key][:2] and key.rpartition(".")[2] not in LEFT
    ]  # fmt: skip
    assert changed == []

    torch.save(case.model.state_dict(), io.BytesIO())
    torch.manual_seed(7)
    loss = eager(case, optimizer, 1)
    torch.manual_seed(7)
    assert torch.equal(loss, eager(other, theirs, 1))
    assert helpers.differing(values(case), values(other)) == []


# Attributes that eager's step gives another object, too.
LEFT = {"weight", "most"}


def test_interrupt_before_a_step_changes_anything():
    case, optimizer = made("frozen parts")
    step = neap.torch.compile_step(case.model, case.loss_fn, optimizer, budget="max")
    step.prepare(*case.batch)
    before = look(case, optimizer)
    with pytest.raises(KeyboardInterrupt):
        step._run(case.batch, lambda position: position or signal.raise_signal(signal.SIGINT))
    assert unlike(before, look(case, optimizer)) == []
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_what_another_thread_appends_stays():
    records, go, done, end = collections.deque(), threading.Event(), threading.Event(), threading.Event()

    def collect():
        go.wait(60)
        records.append(1)
        done.set()
        end.wait(60)

    def loss(model, x, y):
        go.set()
        done.wait(60)
        return F.cross_entropy(model(x), y) + 0 * len(records)

    case, optimizer = made("siamese")
    thread = threading.Thread(target=collect)
    thread.start()
    try:
        step = neap.torch.compile_step(case.model, loss, optimizer, budget="max")
        step.prepare(*case.batch)
        step(*case.batch)
    finally:
        end.set()
        thread.join()
    assert list(records) == [1]


# ---- Modules outside the model ----


def test_two_steps_that_train_each_other():
    """As a generator and a discriminator do, with batch norm and dropout in both; each step moves the buffers of both."""

    def train(ours):
        torch.manual_seed(0)
        g, d = object_cases.normed(), nn.Sequential(object_cases.normed(), nn.Linear(8, 1))
        x, real = torch.randn(4, 8), torch.randn(4, 8)
        of_g = lambda m, x: F.softplus(-d(m(x))).mean()  # noqa: E731
        of_d = lambda m, x, real: (F.softplus(m(g(x).detach())) + F.softplus(-m(real))).mean()  # noqa: E731
        og, od = helpers.adamw(g.parameters()), helpers.adamw(d.parameters())
        if ours:
            step_g = neap.torch.compile_step(g, of_g, og, budget="min")
            step_d = neap.torch.compile_step(d, of_d, od, budget="min")
        losses = []
        torch.manual_seed(1)
        for i in range(4):
            if i == 2:  # a mode outside the model is a setting of the step
                g[2].eval()
            if ours:
                losses += [step_d(x, real), step_g(x)]
                continue
            for run, optimizer in ((lambda: of_d(d, x, real), od), (lambda: of_g(g, x), og)):
                g.zero_grad(), d.zero_grad()
                losses.append(run())
                losses[-1].backward()
                optimizer.step()
        return torch.stack(losses).detach(), {**g.state_dict(), **{f"d {k}": v for k, v in d.state_dict().items()}}

    (losses, state), (expected, other) = train(True), train(False)
    assert torch.equal(losses, expected)
    assert helpers.differing(state, other) == []


def test_gradients_outside_the_model_stay():
    """Parameters outside the model that the optimizer has not get no gradients, and keep theirs."""
    case, optimizer = made("generator and discriminator")
    (discriminator,) = case.others
    gradients = [torch.ones_like(p) for p in discriminator.parameters()]
    for p, g in zip(discriminator.parameters(), gradients, strict=True):
        p.grad = g
    neap.torch.compile_step(case.model, case.loss_fn, optimizer, budget="max")(*case.batch)
    assert all(p.grad is g and bool((g == 1).all()) for p, g in zip(discriminator.parameters(), gradients, strict=True))


class Drawing(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        return gradient * torch.rand_like(gradient)


@pytest.mark.parametrize("way", ["hook", "function"])
def test_draws_in_the_backward_pass_of_what_is_not_trained(way):
    """Eager's backward pass reaches all leaves, also those that no optimizer has."""
    found = []
    for compiled in (False, True):
        torch.manual_seed(0)
        model, before = nn.Linear(4, 4), [nn.Linear(4, 4)]

        def loss_fn(m, x, before=before):
            h = Drawing.apply(before[0](x)) if way == "function" else before[0](x)
            if way == "hook":
                h.register_hook(lambda g: F.dropout(g, 0.5))
            return m(h).square().mean()

        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        step = neap.torch.compile_step(model, loss_fn, optimizer, budget="max")
        for _ in range(3):
            x = torch.randn(3, 4)
            if compiled:
                found.append(step(x))
            else:
                loss = loss_fn(model, x)
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
                found.append(loss.detach())
        found += [*model.parameters(), torch.get_rng_state()]
    half = len(found) // 2
    assert all(torch.equal(a, b) for a, b in zip(found[:half], found[half:], strict=True))


NUMBERS, RUNNING = itertools.count(), (i for i in range(100))


@pytest.mark.parametrize("name", ["count", "generator", "attribute"])
def test_iterators_of_the_user_are_not_moved(name):
    """A capture cannot move them back."""
    model = nn.Linear(3, 3)
    model.numbers = iter([1.0, 2.0, 3.0])
    take = {
        "count": lambda m: next(NUMBERS),
        "generator": lambda m: next(RUNNING),
        "attribute": lambda m: next(m.numbers),
    }[name]
    step = neap.torch.compile_step(
        model, lambda m, x: m(x).sum() * (take(m) + 1), torch.optim.SGD(model.parameters(), lr=0.1), budget="max"
    )
    iterators = NUMBERS, RUNNING, model.numbers
    before = copy.deepcopy(model.state_dict())
    for _ in range(2):
        with pytest.raises(neap.torch.CannotTrace, match="moved on"):
            step(torch.ones(2, 3))
    assert all(torch.equal(a, b) for a, b in zip(model.state_dict().values(), before.values(), strict=True))
    assert all(a is b for a, b in zip(iterators, (NUMBERS, RUNNING, model.numbers), strict=True))
    assert (repr(NUMBERS), next(model.numbers)) == ("count(0)", 1.0)
    assert name != "generator" or next(RUNNING) == 0


def test_an_iterator_that_a_step_does_not_move_may_be_held():
    model = nn.Linear(3, 3)
    model.numbers = iter([1.0, 2.0])
    step = neap.torch.compile_step(
        model,
        lambda m, x: m(x).sum() * (m.numbers is not None),
        torch.optim.SGD(model.parameters(), lr=0.1),
        budget="max",
    )
    step(torch.ones(2, 3))
    assert next(model.numbers) == 1.0
    step(torch.ones(2, 3))
    assert next(model.numbers) == 2.0


# ---- Optimizers that are tried on copies ----


class Lookahead(torch.optim.Optimizer):
    """As timm's: a wrapper whose groups are its base's."""

    def __init__(self, base):
        self._backward_hooks = self._hook_for_profile = None
        super().__init__(base.param_groups[0]["params"], {})
        self.base, self.param_groups, self.state = base, base.param_groups, base.state
        self.every = 2

    @torch.no_grad()
    def step(self, closure=None):
        self.base.step()
        for group in self.param_groups:
            group["count"] = group.get("count", 0) + 1
            if group["count"] % self.every == 0:
                for p in group["params"]:
                    slow = self.state[p].setdefault("slow", p.clone())
                    p.copy_(slow.add_(p - slow, alpha=0.5))


class Noisy(torch.optim.SGD):
    """Draws, from a generator of its own, too."""

    def __init__(self, params, **options):
        super().__init__(params, **options)
        self.own = torch.Generator()

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    p.grad.add_(torch.randn_like(p) * 1e-3).add_(torch.rand(p.shape, generator=self.own), alpha=1e-3)
        return super().step(closure)


@pytest.mark.parametrize("wrap", [Lookahead, lambda base: Lookahead(Lookahead(base)), lambda base: Noisy(base.param_groups[0]["params"], lr=0.1)], ids=["wrapper", "wrapper of a wrapper", "draws"])  # fmt: skip
def test_optimizers_are_tried_on_copies(wrap):
    case, base = made("twice in a sequence", torch.optim.AdamW)
    optimizer = wrap(base)
    torch.optim.lr_scheduler.StepLR(base, 1)  # replaces base.step by a function of the base
    base.register_step_pre_hook(lambda *_: pytest.fail("a hook ran on a copy"))
    for p in case.trained:
        p.grad = torch.ones_like(p)
    before, inner = look(case, optimizer), look(case, base)
    own = optimizer.own.get_state() if isinstance(optimizer, Noisy) else None
    try:
        neap.torch.compile_step(case.model, case.loss_fn, optimizer, budget="max").prepare(*case.batch)
    except TypeError as refused:
        assert "cannot be split by parameter" in str(refused)
    assert unlike(before, look(case, optimizer)) == [] and unlike(inner, look(case, base)) == []
    assert own is None or torch.equal(own, optimizer.own.get_state())


def test_anomaly_mode():
    case, optimizer = made("siamese")
    step = neap.torch.compile_step(case.model, case.loss_fn, optimizer, budget="max")
    for prepared in (False, True):
        with torch.autograd.detect_anomaly(), pytest.raises(neap.torch.CannotTrace, match="detect_anomaly"):
            step(*case.batch)
        if not prepared:
            step(*case.batch)


@pytest.mark.parametrize("take", [copy.copy, copy.deepcopy, pickle.dumps])
def test_copies_of_a_step(take):
    case, optimizer = made("siamese")
    step = neap.torch.compile_step(case.model, case.loss_fn, optimizer, budget="max")
    with pytest.raises(TypeError, match="call compile_step for the copies"):
        take(step)


def test_module_that_is_cast_in_the_forward_pass():
    model = object_cases.Net(lambda m, x: m.layer.double()(x.double()), layer=nn.Linear(8, 8))
    case = object_cases.Objects(model)
    optimizer = torch.optim.SGD(case.trained, lr=0.1)
    before = look(case, optimizer)
    with pytest.raises(neap.torch.CannotTrace, match="moves or casts Linear"):
        neap.torch.compile_step(model, case.loss_fn, optimizer, budget="max")(*case.batch)
    assert unlike(before, look(case, optimizer)) == []


def carried(model):
    model.state = torch.zeros(8)

    def run(m, x):
        h = torch.tanh(m.layer(x) + m.state)
        m.state = h.detach().mean(0)
        return h

    return run


def made_anew(model):
    def run(m, x):
        m.more = nn.Linear(8, 8)
        return m.more(m.layer(x))

    return run


class Counting(object_cases.Net):
    calls = 0


def counted_by_the_class(model):
    model.__class__ = Counting
    Counting.calls = 0

    def run(m, x):
        Counting.calls += 1
        return m.layer(x) * Counting.calls

    return run


def in_a_tuple(model):
    held = (torch.zeros(8),)
    return lambda m, x: m.layer(x) + held[0].add_(1)


@pytest.mark.parametrize(
    "make,match",
    [
        (carried, "state is a tensor that each step reads and replaces.*register it as a buffer"),
        (made_anew, "more is made in the forward pass; run the model once"),
        (counted_by_the_class, "Counting.calls changes each time loss_fn runs"),
        (in_a_tuple, "exists before the step, and that is neither in the model.*register_buffer"),
    ],
)
def test_what_a_captured_step_cannot_repeat(make, match):
    model = object_cases.Net(None, layer=nn.Linear(8, 8))
    model.run = make(model)
    case = object_cases.Objects(model)
    optimizer = torch.optim.SGD(case.trained, lr=0.1)
    before = look(case, optimizer)
    with pytest.raises(neap.torch.CannotTrace, match=match):
        neap.torch.compile_step(model, case.loss_fn, optimizer, budget="max")(*case.batch)
    assert unlike(before, look(case, optimizer)) == [] and Counting.calls == 0
