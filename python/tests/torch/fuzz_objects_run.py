"""Trains a program of fuzz_objects.py eagerly and by a door of neap.torch, each in a module of its own, and compares all that can be seen
of the two modules after each step: losses, tensors, states, generators, counters and lists, which objects are one, and which have moved."""

from __future__ import annotations

import collections
import contextlib
import contextvars
import enum
import functools
import itertools
import linecache
import random
import re
import sys
import traceback
import types
import warnings
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fuzz_run
import numpy
import torch
from fuzz_run import Fault, RefusedByName
from torch import nn

DOORS = ("step", "backend")

# What a program's SETTINGS say, in its plainest form. module: the name that its module has; `whole`: the backend compiles loss_fn, not the model.
PLAIN = {"budget": "max", "clip_norm": None, "micro_batches": 1, "module": "program", "whole": True}

SIMPLE = (int, float, str, bool, bytes, complex, type(None), torch.dtype, torch.device, slice, enum.Enum, torch.Size)
HOOKS = (
    "hooks",
    "hooks_with_kwargs",
    "hooks_always_called",
)  # ends of the names of a module's containers of hooks, which are mostly empty
_count = 0


# ---- A program's module ----


def load(source: str) -> types.ModuleType:
    """A program as a module that is imported under its name, its lines known to tracebacks."""
    global _count
    import fuzz_objects

    _count += 1
    name = re.search(r"'module': '(.*?)'", source)[1]
    file = fuzz_objects.MODULES[name]
    if name == "program":
        file = f"<program {_count}>"
    linecache.cache[file] = (len(source), None, source.splitlines(True), file)
    module = types.ModuleType(name)
    module.__file__, module.neap_fuzzing = file, True
    sys.modules[name] = module
    torch.manual_seed(0)
    exec(compile(source, file, "exec"), vars(module))
    torch.manual_seed(5)
    return module


@contextlib.contextmanager
def loaded(source: str) -> Iterator[types.ModuleType]:
    """A program's module while entered; what it changed of PyTorch's settings is undone."""
    known = dict(sys.modules)
    random.seed(1)
    numpy.random.seed(1)
    try:
        module = load(source)
        try:
            yield module
        finally:
            for close in module.CLOSE:
                close()
    finally:
        for name in sys.modules.keys() - known.keys():
            if getattr(sys.modules[name], "neap_fuzzing", False):
                del sys.modules[name]
        sys.modules["__main__"] = known["__main__"]


# ---- What can be seen of it ----


class Look:
    """values: path -> what is there, comparable between two modules; an object that was met before is named by its first path.
    places: path -> identity and address of what is there. Tensors are copied; the objects are kept alive, so that no other has their
    identity."""

    def __init__(self, module: types.ModuleType, draws: bool = True):
        self.module = module
        self.values: dict[str, Any] = {}
        self.places: dict[str, tuple[Any, ...]] = {}
        self.paths: dict[int, str] = {}
        self.storages: dict[int, str] = {}
        self.objects: list[Any] = []
        for name, x in list(vars(module).items()):
            if not name.startswith("__"):
                self.walk(name, x)
        if draws:
            self.values["random state"] = torch.get_rng_state()
        _, numbers, *rest = numpy.random.get_state()
        self.values["random states of Python"] = random.getstate(), numbers.tobytes(), rest

    def tensor(self, path: str, t: torch.Tensor) -> None:
        trains = t.requires_grad and t.is_leaf  # what a step leaves behind has no graph
        first = self.storages.setdefault(t.untyped_storage()._cdata, path)
        self.values[path] = f"{type(t).__name__} {t.dtype} {tuple(t.shape)} {t.stride()} {trains} in {first}"
        self.values[f"{path} value"] = t.detach().clone()
        self.places[path] = id(t), t.data_ptr(), t._version
        if t.is_leaf and t.grad is not None:
            self.walk(f"{path}.grad", t.grad)

    def walk(self, path: str, x: Any) -> None:
        if isinstance(x, SIMPLE):
            self.values[path] = f"{type(x).__name__} {x!r}"
            return
        if isinstance(x, types.ModuleType) and x.__name__[0] != "m":
            return
        if id(x) in self.paths:
            self.values[path] = f"is {self.paths[id(x)]}"
            return
        self.paths[id(x)] = path
        self.objects.append(x)
        if isinstance(x, torch.Tensor):
            self.tensor(path, x)
            return
        self.values[path] = type(x).__name__
        if isinstance(x, (nn.Module, list, dict, collections.deque, set)) or hasattr(x, "__dict__"):
            self.places[path] = (id(x),)
        if isinstance(x, type):
            if x.__module__ == self.module.__name__:
                self.inside(path, {k: v for k, v in vars(x).items() if not k.startswith("__")})
        elif isinstance(x, torch.Generator):
            self.values[path] = x.get_state()
        elif isinstance(x, numpy.ndarray):
            self.values[path] = f"{x.dtype} {x.shape} {x.tobytes()!r}"
        elif isinstance(x, (itertools.count, numpy.generic)):
            self.values[path] = repr(x)
        elif isinstance(x, contextvars.ContextVar):
            self.walk(f"{path}.get", x.get())
        elif isinstance(x, (types.FunctionType, types.MethodType, functools.partial)):
            self.places.pop(path, None)  # made anew where it is read
            self.function(path, x)
        elif isinstance(x, (list, tuple, collections.deque)):
            self.inside(path, dict(enumerate(x)))
        elif isinstance(x, (set, frozenset)):
            self.values[path] = repr(sorted(map(repr, x)))
        elif isinstance(x, (dict, collections.UserDict)):
            self.inside(path, x)
        elif not isinstance(x, (weakref.ref, torch.utils.hooks.RemovableHandle, property)):
            slots = [s for cls in type(x).__mro__ for s in getattr(cls, "__slots__", ())]
            own = {s: getattr(x, s) for s in slots if isinstance(s, str) and s[:2] != "__" and hasattr(x, s)}
            kept = {
                k: v for k, v in getattr(x, "__dict__", {}).items() if not k.startswith("_is_torch_compile")
            }  # Dynamo's
            own |= {k: v for k, v in kept.items() if v or not k.endswith(HOOKS)}
            self.inside(path, own)

    def inside(self, path: str, x: Any) -> None:
        """Walks a mapping. Keys that are objects, and the numbers of hooks, are called by their order."""
        if path.endswith(".state"):  # an optimizer's, by parameter; its order is that of the updates
            for key, value in list(x.items()):
                self.walk(f"{path}[{self.paths.get(id(key), key)}]", value)
            return
        hooks = "hooks" in path.rpartition(".")[2]
        names = [k if isinstance(k, SIMPLE) and not hooks else i for i, k in enumerate(x)]
        self.values[f"{path} keys"] = repr(names)
        for name, value in zip(names, list(x.values()), strict=True):
            self.walk(f"{path}.{name}", value)

    def function(self, path: str, f: Any) -> None:
        if isinstance(f, types.MethodType):
            self.walk(f"{path}.__self__", f.__self__)
            self.walk(f"{path}.__func__", f.__func__)
        elif isinstance(f, functools.partial):
            self.inside(path, {"func": f.func, "args": f.args, **f.keywords})
        elif f.__globals__ is vars(self.module):
            self.values[path] = f.__code__.co_code
            cells = dict(zip(f.__code__.co_freevars, f.__closure__ or (), strict=True))
            for name, cell in cells.items():
                with contextlib.suppress(ValueError):  # not bound yet
                    self.walk(f"{path}.{name}", cell.cell_contents)
            self.inside(path, {"defaults": f.__defaults__, "keywords": f.__kwdefaults__, **vars(f)})

    def leaves(self) -> list[torch.Tensor]:
        return [x for x in self.objects if isinstance(x, torch.Tensor) and x.is_leaf and x.requires_grad]


def moved(before: Look, after: Look) -> list[str]:
    """The paths at which there is another object, or its memory lies elsewhere."""
    return [p for p, place in after.places.items() if p in before.places and place[:2] != before.places[p][:2]]


def changed(before: Look, after: Look) -> str:
    """What has changed in any way; empty where nothing has."""
    text = fuzz_run.difference(after.values, before.values)
    return text or ", ".join([p for p, place in after.places.items() if place != before.places.get(p)][:4])


# ---- Training ----


def _part(x: Any, i: int, k: int) -> Any:
    """One of k parts of a batch."""
    if isinstance(x, torch.Tensor):
        return x.chunk(k)[i]
    if isinstance(x, dict):
        return {key: _part(v, i, k) for key, v in x.items()}
    if isinstance(x, (tuple, list)):
        return type(x)(_part(v, i, k) for v in x)
    return type(x)(**{key: _part(v, i, k) for key, v in vars(x).items()}) if hasattr(x, "__dict__") else x


def owned(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    return [p for group in optimizer.param_groups for p in group["params"]]


def plain_step(settings: dict[str, Any], optimizer: Any, run: Any, args: Any, named: Any) -> torch.Tensor:
    """The usual loop's step; run(*args, **named) gives the loss."""
    k, total = settings["micro_batches"], None
    for p in owned(optimizer):
        p.grad = None
    for i in range(k):
        some, some_named = (_part(args, i, k), _part(named, i, k)) if k > 1 else (args, named)
        loss = run(*some, **some_named)
        loss = loss / k if k > 1 else loss
        loss.backward()
        total = loss.detach() if total is None else total + loss.detach()
    if settings["clip_norm"] is not None:
        torch.nn.utils.clip_grad_norm_(owned(optimizer), settings["clip_norm"])
    optimizer.step()
    for p in owned(optimizer):
        p.grad = None
    return total


class World:
    """A program in training. compiled: as the backend's comparison needs it: each step begins with a random state of its own, where it
    ends does not count, and gradients outside the optimizer stay."""

    def __init__(self, module: types.ModuleType, compiled: bool = False):
        self.module, self.settings, self.compiled = module, module.SETTINGS, compiled
        self.record: list[dict[str, Any]] = []

    def train(self, step: Any) -> World:
        """Runs all steps; step(number, trainer's number, its model, loss function and optimizer, batch, named) gives a loss."""
        for number in range(self.settings["steps"]):
            before = Look(self.module)
            seen: dict[str, Any] = {}
            for i, trainer in enumerate(self.module.trainers()):
                args, named = self.module.batch(number)
                if self.compiled:
                    torch.manual_seed(number)
                with self.module.around():
                    seen[f"loss {i}"] = step(number, i, *trainer, args, named).detach().clone()
            after = Look(self.module, not self.compiled)
            self.record.append({**seen, **after.values, "what has moved": moved(before, after)})
            self.module.between(number)
        return self

    def eager_step(self, number: int, i: int, model: Any, loss_fn: Any, optimizer: Any, args: Any, named: Any) -> Any:
        """As compile_step documents: what the optimizer has not keeps its gradients."""
        own = {id(p) for p in owned(optimizer)}
        others = [] if self.compiled else [p for p in Look(self.module).leaves() if id(p) not in own]
        kept = [p.grad.clone() if p.grad is not None else None for p in others]
        was = [p.grad for p in others]
        loss = plain_step(self.settings, optimizer, functools.partial(loss_fn, model), args, named)
        for p, old, value in zip(others, was, kept, strict=True):
            p.grad = old if old is None else old.copy_(value)
        return loss


def eager(source: str, compiled: bool = False) -> list[dict[str, Any]]:
    with loaded(source) as module:
        world = World(module, compiled)
        return world.train(world.eager_step).record


def differs(got: list[dict[str, Any]], expected: list[dict[str, Any]]) -> str:
    for number, (a, b) in enumerate(zip(got, expected, strict=True)):
        text = fuzz_run.difference(a, b)
        if text:
            return f"step {number}: {text}"
    return ""


def trains(source: str) -> bool:
    """Whether eager PyTorch trains a program."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return all(bool(row["loss 0"].isfinite()) for row in eager(source))
        except Exception:
            return False


# ---- The doors ----


def _by_name(error: BaseException) -> bool:
    """Whether neap itself raises an error, in its own words."""
    import neap.torch

    if isinstance(error, (neap.torch.CannotTrace, neap.torch.ModelChanged)):
        return True
    last = traceback.extract_tb(error.__traceback__)[-1]
    return "neap" in Path(last.filename).parts and (last.line or "").lstrip().startswith("raise")


class Compiled:
    """A program by compile_step. A step that refuses a change is compiled anew, as the message says, and where that is refused, too, this
    step runs eagerly; then it is tried again."""

    def __init__(self, world: World, notes: dict[str, Any]):
        self.world, self.notes = world, notes
        self.steps: dict[int, tuple[Any, Any]] = {}  # trainer's number -> its objects and step
        self.ran = 0

    def step(self, number: int, i: int, model: Any, loss_fn: Any, optimizer: Any, args: Any, named: Any) -> Any:
        import neap
        import neap.torch

        settings = self.world.settings
        options = {k: settings[k] for k in ("budget", "clip_norm", "micro_batches")}
        objects = model, loss_fn, optimizer
        known = self.steps.get(i)
        while True:
            fresh = known is None or any(a is not b for a, b in zip(known[0], objects, strict=True))
            before = Look(self.world.module)
            try:
                if fresh:
                    known = self.steps[i] = objects, neap.torch.compile_step(*objects, **options)
                loss = known[1](*args, **named)
                fuzz_run.check_memory(known[1].memory, self.notes)
                self.ran += 1
                return loss
            except (neap.torch.CannotTrace, neap.torch.ModelChanged, TypeError, ValueError) as error:
                if not _by_name(error):
                    raise
                if text := changed(before, Look(self.world.module)):
                    raise Fault(
                        f"refused with something changed ({type(error).__name__})", f"{text}; {error}"
                    ) from error
                self.steps.pop(i, None)
                known = None
                reason = fuzz_run.refusal(error)
                if not fresh:
                    self.notes["replaced"] = reason
                    continue
                if not self.ran:
                    raise RefusedByName(reason) from error
                self.notes["refused later"] = reason
                return self.world.eager_step(number, i, *objects, args, named)


def by_step(source: str, notes: dict[str, Any]) -> list[dict[str, Any]]:
    with loaded(source) as module:
        world = World(module)
        return world.train(Compiled(world, notes).step).record


def compiled(source: str, backend: Any, options: dict[str, Any] | None) -> list[dict[str, Any]]:
    """By torch.compile, in the usual loop."""
    torch._dynamo.reset()
    with loaded(source) as module:
        world = World(module, True)
        known: dict[int, tuple[Any, Any]] = {}

        def step(number: int, i: int, model: Any, loss_fn: Any, optimizer: Any, args: Any, named: Any) -> Any:
            if i not in known or known[i][0] is not model or known[i][1] is not loss_fn:
                how = {"backend": backend, "options": options, "dynamic": False}
                run = functools.partial(torch.compile(loss_fn, **how), model)
                if not world.settings["whole"]:
                    run = functools.partial(loss_fn, torch.compile(model, **how))
                known[i] = model, loss_fn, run
            return plain_step(world.settings, optimizer, known[i][2], args, named)

        return world.train(step).record


def by_backend(source: str, notes: dict[str, Any], expected: list[dict[str, Any]]) -> str:
    """What is wrong by torch.compile. Where it is not as eager, what a backend of PyTorch's own does just so is noted: Dynamo has it."""
    from neap.torch.backend import neap_backend

    budget = re.search(r"'budget': '(.*?)'", source)[1]
    try:
        got = compiled(source, neap_backend, {"budget": budget})
    except Exception as error:
        inner = getattr(error, "inner_exception", error)
        if type(inner).__name__ == "CannotTrace":
            raise RefusedByName(fuzz_run.refusal(inner)) from error
        try:
            compiled(source, "aot_eager", None)
        except Exception as other:
            raise RefusedByName(f"as aot_eager: {fuzz_run.refusal(other)}") from error
        raise Fault(f"{type(error).__name__} by the backend", fuzz_run.refusal(error)) from error
    text = differs(got, expected)
    if not text:
        return ""
    apart = ""
    for reference in ("eager", "aot_eager", "aot_eager_default_partitioner"):
        apart = differs(got, compiled(source, reference, None))
        if not apart:
            notes["known"], notes["apart"] = f"as the backend {reference}", text
            return ""
    return f"{text}; aot_eager's: {apart}"


def examine(source: str, door: str) -> dict[str, Any]:
    """{"outcome": "equal" | "refused" | "fault", ...} of a program's source by one door."""
    notes: dict[str, Any] = {"door": door}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            expected = eager(source, door == "backend")
        except Exception as error:
            return {**notes, "outcome": "invalid", "kind": "eager fails", "detail": f"{type(error).__name__}: {error}"}
        found = fuzz_run.outcome_of(
            lambda: differs(by_step(source, notes), expected) if door == "step" else by_backend(source, notes, expected)
        )
        if found["outcome"] == "fault" and differs(eager(source, door == "backend"), expected):
            found = {"outcome": "invalid", "kind": "eager differs from itself", "detail": found["detail"]}
    return {**notes, **found}


def report(scope: dict[str, Any]) -> str:
    """By each door, of the module that is run as a script."""
    source = Path(scope["__file__"]).read_text()
    return "\n".join(str(examine(source, door)) for door in DOORS)
