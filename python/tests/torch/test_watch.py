"""What a captured step has built in from Python: whatever changes between steps, a step computes what eager's does, or is refused by name."""

from __future__ import annotations

import collections
import concurrent.futures
import contextvars
import copy
import dataclasses
import functools
import os
import subprocess
import sys
import time
import types
import typing

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import neap
import neap.torch

NUMBER, DICT, LIST, NAMESPACE = 1.0, {"scale": 1.0}, [1.0], types.SimpleNamespace(scale=1.0)
DEEP = [[[[[[[[{"scale": 1.0}]]]]]]]]
ARRAY, TENSOR = np.ones(4), torch.ones(4)
MODULE = types.ModuleType("settings_of_a_user")
MODULE.scale, MODULE.inner = 1.0, {"scale": 1.0}


@dataclasses.dataclass
class Settings:
    scale: float = 1.0
    names: list = dataclasses.field(default_factory=lambda: [1.0])


class Slotted:
    __slots__ = ("scale",)

    def __init__(self):
        self.scale = 1.0


OBJECT, SLOTTED = Settings(), Slotted()


class Holder:
    scale = 1.0

    @classmethod
    def read(cls):
        return cls.scale


class Derived(Holder):
    pass


class Other(Settings):
    pass


DERIVED, FUNCTIONS = Derived(), {"act": torch.tanh}


def with_class(value):
    OBJECT.__class__ = Settings if value == 1 else Other


def with_derived(value):
    if value == 1:
        if "scale" in vars(Derived):
            del Derived.scale
    else:
        Derived.scale = value


class Net(nn.Module):
    scale = 1.0  # of the class
    table: typing.ClassVar = {"scale": 1.0}

    def __init__(self):
        super().__init__()
        self.first, self.drop, self.last = nn.Linear(4, 4), nn.Dropout(0.0), nn.Linear(4, 4)
        self.config, self.own = {"scale": [1.0]}, 1.0
        self.run = None

    def forward(self, x):
        h = self.drop(torch.tanh(self.first(x)))
        if self.run is not None:
            h = self.run(self, h)
        return self.last(h)


def with_class_attribute(value):
    Net.scale = value


def with_class_table(value):
    Net.table["scale"] = value


def with_number(value):
    globals()["NUMBER"] = value


def with_new_dict(value):
    globals()["DICT"] = {"scale": value}


def patched(value):
    Net.extra = lambda self, h: h * value


CONTEXT = contextvars.ContextVar("scale", default=1.0)


def defaulted(h, factor=1.0):
    return h * factor


def helper(h):
    return h * NUMBER


def inmost():
    return DEEP[0][0][0][0][0][0][0][0]


# name -> (run(model, h) inside the forward pass, set(model, value)); each is tried inside the forward pass and in loss_fn.
SETTINGS = {
    "a global number": (lambda m, h: h * NUMBER, lambda m, v: with_number(v)),
    "a global of a helper": (lambda m, h: helper(h), lambda m, v: with_number(v)),
    "a global dict": (lambda m, h: h * DICT["scale"], lambda m, v: DICT.update(scale=v)),
    "a new global dict": (lambda m, h: h * DICT["scale"], lambda m, v: with_new_dict(v)),
    "a global list": (lambda m, h: h * LIST[-1], lambda m, v: LIST.append(v)),
    "containers deep inside each other": (lambda m, h: h * inmost()["scale"], lambda m, v: inmost().update(scale=v)),
    "a namespace": (lambda m, h: h * NAMESPACE.scale, lambda m, v: setattr(NAMESPACE, "scale", v)),
    "an object": (lambda m, h: h * OBJECT.scale, lambda m, v: setattr(OBJECT, "scale", v)),
    "a list of an object": (lambda m, h: h * OBJECT.names[0], lambda m, v: OBJECT.names.__setitem__(0, v)),
    "an object with slots": (lambda m, h: h * SLOTTED.scale, lambda m, v: setattr(SLOTTED, "scale", v)),
    "an array": (lambda m, h: h * torch.tensor(ARRAY, dtype=torch.float32), lambda m, v: ARRAY.fill(v)),
    "an array's item": (lambda m, h: h * float(ARRAY[1]), lambda m, v: ARRAY.__setitem__(1, v)),
    "a tensor": (lambda m, h: h * TENSOR, lambda m, v: TENSOR.fill_(v)),
    "another tensor": (lambda m, h: h * TENSOR, lambda m, v: globals().update(TENSOR=torch.full((4,), v))),
    "a module's attribute": (lambda m, h: h * MODULE.scale, lambda m, v: setattr(MODULE, "scale", v)),
    "a module's dict": (lambda m, h: h * MODULE.inner["scale"], lambda m, v: MODULE.inner.update(scale=v)),
    "the model's attribute": (lambda m, h: h * m.own, lambda m, v: setattr(m, "own", v)),
    "the model's containers": (lambda m, h: h * m.config["scale"][0], lambda m, v: m.config["scale"].__setitem__(0, v)),
    "getattr": (lambda m, h: h * getattr(m, "o" + "wn"), lambda m, v: setattr(m, "own", v)),
    "a class attribute": (lambda m, h: h * m.scale, lambda m, v: with_class_attribute(v)),
    "a class's dict": (lambda m, h: h * m.table["scale"], lambda m, v: with_class_table(v)),
    "an attribute before the class's": (lambda m, h: h * m.scale, lambda m, v: setattr(m, "scale", v)),
    "a method of the class": (lambda m, h: m.extra(h), lambda m, v: patched(v)),
    "a class method": (lambda m, h: h * Holder.read(), lambda m, v: setattr(Holder, "scale", v)),
    "an attribute that comes in a subclass": (lambda m, h: h * DERIVED.scale, lambda m, v: with_derived(v)),
    "the class of an object": (lambda m, h: h * (2 if isinstance(OBJECT, Other) else 1), lambda m, v: with_class(v)),
    "a function in a dict": (
        lambda m, h: FUNCTIONS["act"](h),
        lambda m, v: FUNCTIONS.update(act=torch.tanh if v == 1 else torch.sigmoid),
    ),
    "a default": (lambda m, h: defaulted(h), lambda m, v: setattr(defaulted, "__defaults__", (v,))),
    "a context variable": (lambda m, h: h * CONTEXT.get(), lambda m, v: CONTEXT.set(v)),
    "dropout's p": (lambda m, h: F.dropout(h, 0.3, m.training) * 2, lambda m, v: setattr(m.drop, "p", min(v / 4, 1))),
    "mode": (lambda m, h: F.dropout(h, 0.3, m.training), lambda m, v: m.train(v == 1)),
    "an environment variable": (
        lambda m, h: h * float(os.environ["NEAP_TEST"]),
        lambda m, v: os.environ.update(NEAP_TEST=str(v)),
    ),
}


@pytest.fixture(autouse=True)
def usual():
    yield
    globals().update(NUMBER=1.0, DICT={"scale": 1.0}, TENSOR=torch.ones(4))
    LIST[:], NAMESPACE.scale, SLOTTED.scale, inmost()["scale"] = [1.0], 1.0, 1.0, 1.0
    OBJECT.scale, OBJECT.names[0], MODULE.scale, MODULE.inner["scale"], Net.scale, Net.table["scale"] = (1.0,) * 6
    ARRAY.fill(1.0)
    Holder.scale, FUNCTIONS["act"] = 1.0, torch.tanh
    with_class(1.0)
    with_derived(1.0)
    defaulted.__defaults__ = (1.0,)
    CONTEXT.set(1.0)
    patched(1.0)
    os.environ.pop("NEAP_TEST", None)


def trained(model):
    return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


def batches(count):
    generator = torch.Generator().manual_seed(5)
    return [torch.randn(3, 4, generator=generator) for _ in range(count)]


def eager_step(model, optimizer, loss_fn, *batch):
    loss = loss_fn(model, *batch)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return loss.detach()


def same_weights(a, b):
    return all(torch.equal(x, y) for x, y in zip(a.state_dict().values(), b.state_dict().values(), strict=True))


def beside_eager(model, loss_fn, change, steps=9):
    """Trains the model and a copy with eager; change(model, i) is called before step i for each. Returns the compiled step."""
    other = copy.deepcopy(model)
    optimizer, theirs = trained(model), trained(other)
    step = neap.torch.compile_step(model, loss_fn, optimizer, budget="max")
    for i, x in enumerate(batches(steps)):
        torch.manual_seed(i)
        change(other, i)
        expected = eager_step(other, theirs, loss_fn, x)
        torch.manual_seed(i)
        change(model, i)
        assert torch.equal(step(x), expected), f"step {i}"
        assert same_weights(model, other), f"step {i}"
    return step


def test_batches_that_are_parts_of_one_tensor():
    model = Net()
    other = copy.deepcopy(model)
    a, b = trained(model), trained(other)
    step = neap.torch.compile_step(model, square, a, budget="max")
    for x in torch.stack(batches(5)):
        assert torch.equal(step(x), eager_step(other, b, square, x))
    assert captures(step) == 1


@pytest.mark.parametrize("first", [True, False])
def test_tensors_of_a_batch_that_share_memory_in_some_steps(first):
    model = Net()
    other = copy.deepcopy(model)
    a, b = trained(model), trained(other)
    loss_fn = lambda m, x, h: (m(x) * h + m(h)).square().mean()  # noqa: E731
    step = neap.torch.compile_step(model, loss_fn, a, budget="max")
    data = torch.cat(batches(4))
    pairs = [(data[:3], data[:3]), (data[:3], data[3:6]), (data[6:9], data[1:4]), (data[:3], data[4:7].clone())]
    for x, h in pairs if first else pairs[::-1]:
        assert torch.equal(step(x, h), eager_step(other, b, loss_fn, x, h))
    assert captures(step) == 1


def square(m, x):
    return m(x).square().mean()


VALUES = [1.0, 1.0, 3.0, 3.0, 0.5, 0.5, 1.0, 3.0, 3.0]


@pytest.mark.parametrize("where", ["forward", "loss"])
@pytest.mark.parametrize("name", SETTINGS)
def test_a_setting_changes(name, where):
    run, change = SETTINGS[name]
    model = Net()
    if where == "forward":
        model.run = run
    loss_fn = square if where == "forward" else lambda m, x: square(m, run(m, x))
    beside_eager(model, loss_fn, lambda m, i: change(m, VALUES[i]))


def test_variables_of_closures():
    value, held, teacher = 1.0, {"a": [1.0]}, Net()

    def loss_fn(m, x):
        return (m(x) * value - teacher(x).detach() * held["a"][0]).square().mean()

    def change(m, i):
        nonlocal value
        value, held["a"][0] = VALUES[i], VALUES[-i]
        teacher.train(i % 2 == 0)
        teacher.drop.p = 0.5 if i > 3 else 0.25

    beside_eager(Net(), loss_fn, change)


def test_arguments_of_losses():
    criterion, defaults = nn.CrossEntropyLoss(), [1.0]

    def loss_fn(m, x, held=defaults):
        return criterion(m(x), torch.zeros(3, dtype=torch.long)) * held[0]

    def change(m, i):
        criterion.label_smoothing, defaults[0] = 0.1 * (i // 2), VALUES[i]

    beside_eager(Net(), loss_fn, change)


def test_a_partial_and_a_bound_method():
    class Loss:
        def __init__(self):
            self.scale = 1.0

        def of(self, m, x, power):
            return (m(x).abs() ** power).mean() * self.scale

    own = Loss()

    def change(m, i):
        own.scale = VALUES[i]

    beside_eager(Net(), functools.partial(own.of, power=2), change)


class HalfAsMuch:
    def __call__(self, module, args, output):
        return output * 0.5


HOOKS = {
    "forward": lambda m: m.first.register_forward_hook(HalfAsMuch()),
    "before": lambda m: m.last.register_forward_pre_hook(lambda module, args: (args[0] * 2,)),
    "backward": lambda m: m.last.register_full_backward_hook(lambda module, given, got: (given[0] * 2,)),
    "of all modules": lambda m: nn.modules.module.register_module_forward_hook(lambda module, args, y: y * 0.5),
}


@pytest.mark.parametrize("way", HOOKS)
def test_hooks_come_and_go(way):
    model = Net()
    other = copy.deepcopy(model)
    a, b = trained(model), trained(other)
    step = neap.torch.compile_step(model, square, a, budget="max")
    for i, x in enumerate(batches(9)):
        hooked = i in (1, 2, 5, 6, 7)
        hooks = [HOOKS[way](m) for m in (model, other)[: 1 if "all" in way else 2] if hooked]
        expected, loss = eager_step(other, b, square, x), step(x)
        for hook in hooks:
            hook.remove()
        assert torch.equal(loss, expected), i
    assert same_weights(model, other)


def test_a_gradient_hook_between_steps_is_refused():
    model = Net()
    step = neap.torch.compile_step(model, square, trained(model), budget="max")
    x = batches(1)[0]
    step(x)
    before = copy.deepcopy(model.state_dict())
    hook = model.first.weight.register_hook(lambda g: g * 2)
    with pytest.raises(neap.torch.CannotTrace, match=r"first.weight has a gradient hook"):
        step(x)
    assert all(torch.equal(before[k], v) for k, v in model.state_dict().items())
    hook.remove()
    step(x)


def test_modules_are_replaced():
    def change(m, i):
        if i == 3:
            torch.manual_seed(7)
            m.drop = nn.Sequential(nn.Dropout(0.5), nn.Tanh())

    beside_eager(Net(), square, change)


def captures(step):
    return sum(len(kind.captured) for kind in step.kinds)


def traces(monkeypatch):
    """Counts how often a step is captured."""
    counted = collections.Counter()
    import neap.torch.trace as trace

    usual = trace._trace

    def count(*args, **kwargs):
        counted["traces"] += 1
        return usual(*args, **kwargs)

    monkeypatch.setattr(trace, "_trace", count)
    return counted


def test_what_nothing_reads_costs_no_capture(monkeypatch):
    """But for the comparisons at steps 2, 4 and 8."""
    model = Net()
    model.unread = 0
    seen = []

    def loss_fn(m, x):
        return square(m, x)

    loss_fn.seen = seen
    step = neap.torch.compile_step(model, loss_fn, trained(model), budget="max")
    counted = traces(monkeypatch)
    for i, x in enumerate(batches(10)):
        model.unread = i
        OBJECT.unread = i
        seen.append(float(step(x)))
    assert counted["traces"] == 1 + 3 and captures(step) == 1 and len(step.kinds) == 1


def test_what_is_appended_between_steps_is_no_new_capture(monkeypatch):
    losses, model = [], Net()

    def loss_fn(m, x):
        losses.append("called")
        return square(m, x)

    counted = traces(monkeypatch)
    step = neap.torch.compile_step(model, loss_fn, trained(model), budget="max")
    for x in batches(10):
        losses.append(float(step(x)))
    assert len(step.kinds) == 1 and captures(step) == 1 and counted["traces"] <= 2 * 4
    assert losses[::2] == ["called"] * 10


def test_what_is_appended_is_put_back_beside_threads_that_wait():
    called, model = [], Net()

    def loss_fn(m, x):
        called.append(1)
        return square(m, x)

    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        pool.submit(int).result()
        step = neap.torch.compile_step(model, loss_fn, trained(model), budget="max")
        for i, x in enumerate(batches(5)):
            step(x)
            assert len(called) == i + 1


SCALE = {"of": 1.0}


@functools.lru_cache
def scale_by_cache(_kind):
    return SCALE["of"]


class Scaled(Net):
    @functools.cache  # noqa: B019
    def factor(self):
        return SCALE["of"]

    def forward(self, x):
        return super().forward(x) * self.factor()


@pytest.mark.parametrize("way", ["function", "method"])
def test_a_cache_that_is_cleared(way):
    """A cached function gives its old result until its cache is cleared."""
    cached = scale_by_cache if way == "function" else Scaled.factor
    scale = (lambda: scale_by_cache(way)) if way == "function" else (lambda: 1.0)
    found = []
    for compiled in (True, False):
        SCALE["of"] = 1.0
        cached.cache_clear()
        torch.manual_seed(0)
        model = Scaled()
        optimizer = trained(model)
        loss_fn = lambda m, x: square(m, x) * scale()  # noqa: E731
        step = neap.torch.compile_step(model, loss_fn, optimizer, budget="max") if compiled else None
        losses = []
        for i, x in enumerate(batches(6)):
            if i == 2:
                SCALE["of"] = 3.0
            if i == 4:
                cached.cache_clear()
            if compiled:
                losses.append(float(step(x)))
            else:
                optimizer.zero_grad()
                loss = loss_fn(model, x)
                loss.backward()
                optimizer.step()
                losses.append(float(loss.detach()))
        found.append(losses)
    SCALE["of"] = 1.0
    assert found[0] == found[1]


def test_a_former_state_needs_no_capture(monkeypatch):
    model = Net()
    model.drop.p = 0.5
    step = neap.torch.compile_step(model, square, trained(model), budget="max")
    x = batches(1)[0]
    for mode in (True, False):
        model.train(mode)
        step(x)
    counted = traces(monkeypatch)
    for i in range(2, 12):
        model.train(i % 2 == 0)
        step(x)
    assert len(step.kinds) == 2 and counted["traces"] == 4  # steps 2 and 4 of each


def test_a_change_that_calls_do_not_show_keeps_the_plan(monkeypatch):
    model = Net()
    model.run = lambda m, h: h * 2 if DICT["scale"] > 0 else h
    step = neap.torch.compile_step(model, square, trained(model), budget="max")
    plans = set()
    for i, x in enumerate(batches(6)):
        DICT["scale"] = 1.0 + i
        step(x)
        plans.add(id(step.plan))
    assert len(plans) == 1 and len(step.kinds) == 1
    DICT["scale"] = -1.0
    step(x)
    assert len(step.kinds) == 2


class Counting(Net):
    def __init__(self):
        super().__init__()
        self.calls, self.log, self.counts = 0, [], {"calls": 0}

    def forward(self, x):
        self.calls += 1
        self.log.append("forward")
        self.counts["calls"] += 2
        return super().forward(x)


@pytest.mark.parametrize("micro_batches", [1, 3])
def test_counters_and_lists_count_each_step_once(micro_batches):
    model = Counting()
    step = neap.torch.compile_step(model, square, trained(model), budget="max", micro_batches=micro_batches)
    for i, x in enumerate(batches(5), 1):
        step(x)
        assert (model.calls, model.counts["calls"]) == (i * micro_batches, 2 * i * micro_batches)
        assert model.log == ["forward"] * i * micro_batches


class Config(dict):
    """A dict of a user's class."""

    __getattr__ = dict.__getitem__


class Library(collections.UserDict):
    pass


def test_containers_of_a_users_class():
    config, library = Config(scale=1.0), Library(scale=1.0)

    def change(m, i):
        config["scale"], library["scale"] = VALUES[i], VALUES[-i]

    beside_eager(Net(), lambda m, x: square(m, x) * config.scale + library["scale"] * m(x).sum(), change)


LOG, CALLS = [], 0


def count_globally():
    global CALLS
    CALLS += 1
    LOG.append("called")


def test_globals_that_are_only_counted():
    model = Net()
    model.run = lambda m, h: count_globally() or h
    LOG.clear()
    optimizer, before = trained(model), CALLS
    step = neap.torch.compile_step(model, square, optimizer, budget="max")
    step.prepare(batches(1)[0])
    assert before == CALLS and not LOG
    for i, x in enumerate(batches(6), 1):
        if i == 3:
            optimizer.register_step_pre_hook(lambda optimizer, args, kwargs: None)
        step(x)
        assert before + i == CALLS and len(LOG) == i


def test_a_counter_that_chooses():
    class Warm(Counting):
        def forward(self, x):
            y = super().forward(x)
            return y * 0.5 if self.calls > 5 else y

    beside_eager(Warm(), square, lambda m, i: None)


def test_the_first_call_makes_something():
    class First(Net):
        def __init__(self):
            super().__init__()
            self.factor = None

        def forward(self, x):
            if self.factor is None:
                self.factor = 2.0
                return super().forward(x)
            return super().forward(x) * self.factor

    beside_eager(First(), square, lambda m, i: None)


def test_a_cache_that_the_first_call_fills():
    cache = {}

    def loss_fn(m, x):
        if x.shape[0] not in cache:
            cache[x.shape[0]] = torch.arange(x.shape[0], dtype=torch.float32)
        return (m(x).sum(1) * cache[x.shape[0]]).square().mean()

    beside_eager(Net(), loss_fn, lambda m, i: None)
    assert list(cache) == [3]


def test_a_file_that_changes_is_named(tmp_path):
    path = tmp_path / "scale"
    path.write_text("1.0")
    model = Net()

    def loss_fn(m, x):
        return square(m, x) * float(path.read_text())

    step = neap.torch.compile_step(model, loss_fn, trained(model), budget="max")
    x = batches(1)[0]
    step(x)
    path.write_text("2.0")
    before = copy.deepcopy(model.state_dict())
    with pytest.raises(
        neap.torch.CannotTrace, match=r"loss_fn: the step now computes otherwise than it was captured(.|\n)*2\.0"
    ):
        step(x)
    assert all(torch.equal(before[k], v) for k, v in model.state_dict().items())
    other = copy.deepcopy(model)
    assert torch.equal(step(x), loss_fn(other, x).detach())


def test_a_clock_is_named():
    model = Net()
    step = neap.torch.compile_step(model, lambda m, x: square(m, x) * time.time(), trained(model), budget="max")
    x = batches(1)[0]
    step(x)
    with pytest.raises(neap.torch.CannotTrace, match="computes otherwise"):
        step(x)


def test_other_lengths_are_compared_after_a_change():
    """A setting that only long batches read."""
    model = Net()
    model.run = lambda m, h: h * DICT["scale"] if h.shape[0] > 4 else h

    def change(m, value):
        DICT["scale"] = value

    other = copy.deepcopy(model)
    a, b = trained(model), trained(other)
    step = neap.torch.compile_step(model, square, a, budget="max")
    for i, (length, value) in enumerate(
        [(3, 1.0), (6, 1.0), (3, 2.0), (6, 2.0), (3, 3.0), (6, 1.0), (3, 1.0), (6, 2.0)]
    ):
        x = torch.randn(length, 4, generator=torch.Generator().manual_seed(i))
        change(model, value)
        assert torch.equal(step(x), eager_step(other, b, square, x)), i
    assert same_weights(model, other)


PROGRAM = """
import copy, torch, neap.torch
from torch import nn
torch.manual_seed(0)
SCALE, TABLE = 1.0, {"scale": 1.0}
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)
    def forward(self, x):
        return self.layer(x) * SCALE * TABLE["scale"]
loss = lambda m, x: m(x).square().mean()
model = Net()
other = copy.deepcopy(model)
a, b = (torch.optim.SGD(m.parameters(), lr=0.1) for m in (model, other))
step = neap.torch.compile_step(model, loss, a, budget="max")
x = torch.randn(3, 4)
for SCALE, TABLE["scale"] in ((1.0, 1.0), (2.0, 1.0), (2.0, 3.0)):
    y = loss(other, x)
    y.backward(); b.step(); b.zero_grad()
    assert torch.equal(step(x), y.detach()), (SCALE, TABLE)
print("equal")
"""


@pytest.mark.parametrize("way", ["-c", "standard input", "a package whose name ends in torch"])
def test_code_from_anywhere(way, tmp_path):
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    if way == "-c":
        run = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, env=environment)
    elif way == "standard input":
        run = subprocess.run([sys.executable, "-"], input=PROGRAM, capture_output=True, text=True, env=environment)
    else:
        package = tmp_path / "mytorch"
        package.mkdir()
        (package / "__init__.py").write_text(PROGRAM)
        environment["PYTHONPATH"] = f"{tmp_path}{os.pathsep}{environment['PYTHONPATH']}"
        run = subprocess.run(
            [sys.executable, "-c", "import mytorch"], capture_output=True, text=True, env=environment, cwd=tmp_path
        )
    assert run.stdout.strip() == "equal", run.stderr[-2000:]


def test_tracing_tools_go_on():
    """A tracer that was there before is called during a capture, and is there afterwards."""
    seen = []

    def tracer(frame, event, argument):
        seen.append(frame.f_code.co_name)

    model = Net()
    step = neap.torch.compile_step(model, square, trained(model), budget="max")
    before = sys.gettrace()
    sys.settrace(tracer)
    try:
        step(batches(1)[0])
        assert sys.gettrace() is tracer
    finally:
        sys.settrace(before)
    assert "square" in seen and "forward" in seen


class Complex(nn.Module):
    def __init__(self):
        super().__init__()
        self.factor, self.layer = nn.Parameter(torch.randn(4, dtype=torch.complex64)), nn.Linear(4, 4)

    def forward(self, x):
        return self.layer((x * self.factor).real)


def test_the_first_update_of_a_complex_parameter_whose_gradient_is_clipped():
    """The factor of the gradients is cast, which allocates before the states are made."""
    torch.manual_seed(3)
    model = Complex()
    other = copy.deepcopy(model)
    a, b = trained(model), trained(other)
    step = neap.torch.compile_step(model, square, a, budget="max", clip_norm=0.1)
    for x in batches(3):
        loss = square(other, x)
        loss.backward()
        nn.utils.clip_grad_norm_(other.parameters(), 0.1)
        b.step()
        b.zero_grad()
        assert torch.equal(step(x), loss.detach())
    assert same_weights(model, other)


def test_rates_and_settings_that_a_plan_rests_on_change():
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    step = neap.torch.compile_step(model, square, optimizer, budget="max")
    changes = [{}, {"weight_decay": 0.1}, {"lr": torch.tensor(0.05)}, {"momentum": 0.9}, {"nesterov": True}]
    for x, change in zip(batches(5), changes, strict=True):
        optimizer.param_groups[0].update(change)
        step(x)
        assert step.memory.measured_peak_bytes <= step.memory.planned_peak_bytes


def test_features_in_a_global_of_an_installed_package(tmp_path, monkeypatch):
    folder = tmp_path / "site-packages"
    folder.mkdir()
    (folder / "kit_of_features.py").write_text(
        "FEATURES = {}\ndef keep(module, args, output):\n    FEATURES.update(f=output)\ndef loss(m, x):\n"
        "    return m(x).square().mean() + FEATURES['f'].square().mean()\n"
    )
    monkeypatch.syspath_prepend(folder)
    kit = __import__("kit_of_features")
    model = Net()
    model.first.register_forward_hook(kit.keep)
    step = beside_eager(model, kit.loss, lambda m, i: None, steps=3)
    assert len(step.kinds) == 1 and type(kit.FEATURES["f"]) is torch.Tensor


def test_observers_that_get_their_size_in_the_first_pass_are_refused():
    quantization = pytest.importorskip("torch.ao.quantization")
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8, 3)).train()
    model.qconfig = quantization.get_default_qat_qconfig("fbgemm")
    model = quantization.prepare_qat(model)
    other = copy.deepcopy(model)
    x = torch.randn(2, 1, 4, 4)
    a, b = (torch.optim.SGD(m.parameters(), lr=0.1) for m in (model, other))
    step = neap.torch.compile_step(model, square, a, budget="max")
    with pytest.raises(neap.torch.CannotTrace, match=r"min_val has no elements.*run the model once on a batch"):
        step(x)
    model(x), other(x)
    for _ in range(3):
        assert torch.equal(step(x), eager_step(other, b, square, x))
        assert same_weights(model, other)
