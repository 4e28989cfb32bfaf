"""The user's objects while a step is captured: other tensors take the place of their own, and everything is put back afterwards.

A *holder* is an object that holds others and can be changed: the attributes of a module or an object, a dict, a list, a variable
of a closure, the globals that functions name. A *slot* is a holder and a key of it."""

from __future__ import annotations

import collections
import contextlib
import copyreg
import dataclasses
import functools
import random
import sys
import threading
import types
import weakref
from collections.abc import Callable, Iterable, Iterator, Sized
from typing import Any

import numpy
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils.weak import WeakIdKeyDictionary

from .batch import Structure
from .graph import PACKAGES, CannotTrace

SIMPLE = (int, float, str, bytes, complex, type(None), torch.dtype, torch.device)
LEAVES = (*SIMPLE, torch.Tensor, type, types.ModuleType)  # what holds nothing
DEPTH = 5  # of holders inside each other
MOST = 2000  # items of a holder that are looked into
LARGEST = 100_000  # items of a holder that is looked into
OPEN = {"types", "collections", "argparse"}  # modules of Python whose objects hold the user's
# Packages whose objects are not looked into: these hold nothing of the user's, or other threads change them.
CLOSED = {
    "torch", "neap", "numpy", "builtins", "abc", "enum", "typing", "threading", "logging", "weakref", "multiprocessing", "concurrent", "queue",
    "asyncio", "io", "_io",
}  # fmt: skip
NONE = object()  # no value
MORE, WHOLE = object(), object()  # keys of changes: items at the end of a list; all items

Items = list[tuple[Any, Any]]  # (key, value)


# ---- Holders ----


class Globals:
    """The globals that functions name."""

    def __init__(self, values: dict[str, Any]):
        self.values, self.names = values, set()

    def items(self) -> Items:
        return [(name, self.values[name]) for name in sorted(self.names) if name in self.values]

    def fill(self, items: Items) -> None:
        for name in self.names - dict(items).keys():
            self.values.pop(name, None)
        self.values.update(items)


class ClassAttributes:
    """The attributes of a user's class that are neither functions nor other descriptors."""

    def __init__(self, kind: type):
        self.kind = kind

    def items(self) -> Items:
        return [
            (k, x)
            for k, x in vars(self.kind).items()
            if not k.startswith(("__", "_abc_")) and not hasattr(x, "__get__")
        ]

    def fill(self, items: Items) -> None:
        for key in dict(self.items()).keys() - dict(items).keys():
            delattr(self.kind, key)
        for key, value in items:
            if vars(self.kind).get(key, NONE) is not value:
                setattr(self.kind, key, value)


def _fill_dict(target: dict[Any, Any], items: Items) -> None:
    if [key for key, _ in items] != list(target):  # else it stays whole for other threads
        target.clear()
    target.update(items)


def _fill_list(target: Any, items: Items) -> None:
    target.clear()
    target.extend(value for _, value in items)


def _fill_set(target: set[Any], items: Items) -> None:
    target.clear()
    target.update(value for _, value in items)


def _cell_items(cell: types.CellType) -> Items:
    try:
        return [("", cell.cell_contents)]
    except ValueError:  # not bound yet
        return []


def _fill_cell(cell: types.CellType, items: Items) -> None:
    if items:
        cell.cell_contents = items[0][1]
    elif _cell_items(cell):
        del cell.cell_contents


# Type of a holder -> its items, and a function that gives it other items. Its keys are names, or positions.
Way = tuple[Callable[[Any], Iterable[tuple[Any, Any]]], Callable[[Any, Items], None]]
BY_NAME: dict[type, Way] = {
    dict: (dict.items, _fill_dict),
    collections.OrderedDict: (collections.OrderedDict.items, _fill_dict),
    collections.defaultdict: (dict.items, _fill_dict),
    types.CellType: (_cell_items, _fill_cell),
    Globals: (Globals.items, Globals.fill),
    ClassAttributes: (ClassAttributes.items, ClassAttributes.fill),
}
BY_POSITION: dict[type, Way] = {
    list: (enumerate, _fill_list),
    collections.deque: (enumerate, _fill_list),
    set: (enumerate, _fill_set),
}
WAYS = BY_NAME | BY_POSITION


class Holder:
    """in_module: whether a module holds it. Other threads may change others."""

    def __init__(self, name: str, target: Any, in_module: bool = False):
        self.name, self.target, self.in_module = name, target, in_module
        self.read, self.fill = WAYS[type(target)]
        self.found = self.now = self.items()  # as it was found; as it is, but for what loss_fn changes

    def items(self) -> Items:
        return list(self.read(self.target))

    def set(self, items: Items) -> None:
        self.fill(self.target, items)
        self.now = items

    def is_captures(self) -> bool:
        """Returns whether its changes are those of a capture, and not of another thread: no other thread runs but daemons (of progress bars,
        say), a module holds it, or it holds a fake tensor."""
        others = [t for t in threading.enumerate() if t is not threading.current_thread() and not t.daemon]
        alone = not others or isinstance(self.target, (types.CellType, Globals))
        return alone or self.in_module or any(bears_fake(x, 2) for _, x in self.items())

    def name_of(self, key: Any) -> str:
        return f"{self.name}.{key}".strip(".") if isinstance(key, str) else self.name or "an attribute"


def _same(a: Items, b: Items) -> bool:
    return len(a) == len(b) and all(x is y and (k is m or k == m) for (k, x), (m, y) in zip(a, b, strict=True))


@dataclasses.dataclass
class Change:
    """A change by loss_fn: `value` (NONE: no longer there) at a key, MORE items at the end of a list, or the WHOLE of the items."""

    name: str
    target: Any
    key: Any
    value: Any
    old: Any


def _changes(holder: Holder) -> Iterator[Change]:
    before, after = holder.now, holder.items()
    if type(holder.target) in BY_POSITION:
        old, new = [x for _, x in before], [x for _, x in after]
        longer = len(new) > len(old) and all(a is b for a, b in zip(old, new, strict=False))
        more = Change(holder.name, holder.target, MORE, new[len(old) :], None)
        yield more if longer else Change(holder.name, holder.target, WHOLE, new, old)
        return
    old, new = dict(before), dict(after)
    for key in [*new, *(key for key in old if key not in new)]:
        if new.get(key, NONE) is not old.get(key, NONE):
            yield Change(holder.name_of(key), holder.target, key, new.get(key, NONE), old.get(key, NONE))


# ---- Slots outside the model ----


@dataclasses.dataclass(frozen=True, eq=False)
class Outside:
    """The slot of a tensor outside the model: of a module that loss_fn reaches, or of a parameter of the optimizer."""

    name: str
    target: Any
    key: Any
    buffer: bool

    def tensor(self) -> torch.Tensor | None:
        """Returns the tensor that is there now."""
        read, _ = WAYS[type(self.target)]
        return next((x for key, x in read(self.target) if key == self.key and isinstance(x, torch.Tensor)), None)


def bears_fake(x: Any, depth: int = DEPTH) -> bool:
    """Returns whether a fake tensor is in an object."""
    if isinstance(x, weakref.ref):
        x = x()
        return x is None or bears_fake(x, depth)
    if isinstance(x, FakeTensor):
        return True
    if depth == 0 or isinstance(x, (*LEAVES, types.FunctionType)):
        return False
    if isinstance(x, nn.Module):
        return any(bears_fake(t, 1) for t in (*x.parameters(), *x.buffers()))
    inside = x.values() if isinstance(x, dict) else x if isinstance(x, (list, tuple, set, collections.deque)) else ()
    inside = [*list(inside)[:MOST], *vars(x).values()] if hasattr(x, "__dict__") else list(inside)[:MOST]
    return any(bears_fake(y, depth - 1) for y in inside)


class Kept:
    """All holders of a model and a loss function, as they were found. `swap` puts tensors into them, `put_back` restores them."""

    def __init__(self, model: nn.Module, loss_fn: Callable[..., Any]):
        self.holders: list[Holder] = []
        self.known: set[int] = set()
        self.globals: dict[int, Globals] = {}
        self.classes: set[type] = set()
        self.kinds: list[tuple[nn.Module, type]] = []
        self.others: list[tuple[str, nn.Module]] = []  # modules that are not the model's
        self.seen: set[int] = set()  # what was found in objects of libraries
        self.in_module, self.in_library = False, False  # where the walk is
        self.real: dict[int, torch.Tensor] = {}  # id of a tensor that was put in -> the user's own
        modules = list(model.named_modules())
        self.known.update(id(m) for _, m in modules)
        for name, module in modules:
            self._module(name, module)
        self._take("loss_fn", loss_fn, DEPTH)
        for names in self.globals.values():
            self.holders.append(Holder("", names))

    # ---- Finding ----

    def _module(self, name: str, module: nn.Module) -> None:
        before = self.in_module, self.in_library
        self.in_module, self.in_library = True, False
        self.kinds.append((module, type(module)))
        self._holder(name, vars(module), DEPTH)
        self.in_module = False
        self._class(type(module), DEPTH)
        self.in_module, self.in_library = before

    def _class(self, kind: type, depth: int) -> None:
        for base in [k for k in kind.__mro__ if k not in self.classes]:
            self.classes.add(base)
            if _is_library(base.__module__, ""):
                continue
            self._holder(base.__name__, ClassAttributes(base), depth)
            for value in vars(base).values():
                if isinstance(value, (types.FunctionType, staticmethod, classmethod)):
                    self._take(base.__name__, getattr(value, "__func__", value), depth)

    def _holder(self, name: str, target: Any, depth: int) -> None:
        holder = Holder(name, target, self.in_module)
        if not self.in_library:
            self.known.add(id(target))
            self.holders.append(holder)
        for key, value in holder.found[:MOST]:
            self._take(holder.name_of(key) if type(target) in BY_NAME else name, value, depth - 1)

    def _take(self, name: str, x: Any, depth: int) -> None:
        if depth < 0 or id(x) in self.known or isinstance(x, LEAVES) or (self.in_library and id(x) in self.seen):
            return
        (self.seen if self.in_library else self.known).add(id(x))
        if type(x) in WAYS:
            if not isinstance(x, Sized) or len(x) <= LARGEST:
                self._holder(name, x, depth)
            return
        if isinstance(x, nn.Module):
            self.known.add(id(x))
            new = [
                (f"{name}.{part}".strip("."), m) for part, m in x.named_modules() if m is x or id(m) not in self.known
            ]
            self.known.update(id(m) for _, m in new)
            self.others += new
            for where, module in new:
                self._module(where, module)
        elif isinstance(x, (tuple, frozenset)):
            for value in list(x)[:MOST]:
                self._take(name, value, depth - 1)
        elif isinstance(x, functools.partial):
            for value in (x.func, x.args, x.keywords):
                self._take(name, value, depth - 1)
        elif isinstance(x, types.MethodType):
            if isinstance(x.__self__, type):
                self._class(x.__self__, depth)
            self._take(name, x.__self__, depth)
            self._take(name, x.__func__, depth)
        elif isinstance(x, types.FunctionType):
            self._function(name, x, depth)
        elif not _is_library(type(x).__module__, "") and not isinstance(x, torch.optim.Optimizer):
            before, self.in_library = self.in_library, self.in_library or _is_installed(type(x).__module__)
            for key in copyreg._slotnames(type(x)):
                self._take(f"{name}.{key}", getattr(x, key, None), depth - 1)
            if isinstance(getattr(x, "__dict__", None), dict):
                self._holder(name, vars(x), depth)
            if not self.in_library:
                self._class(type(x), depth)
            self.in_library = before

    def _function(self, name: str, f: types.FunctionType, depth: int) -> None:
        if _is_library(f.__module__ or "", f.__code__.co_filename):
            return
        for variable, cell in zip(f.__code__.co_freevars, f.__closure__ or (), strict=False):
            if id(cell) not in self.known:
                self._holder(variable, cell, depth)
        for value in (f.__defaults__, f.__kwdefaults__, vars(f)):
            self._take(name, value, depth - 1)
        if "site-packages" in f.__code__.co_filename:
            return  # assumes that a library's globals are not the user's
        named = self.globals.setdefault(id(f.__globals__), Globals(f.__globals__))
        for key in sorted(_names(f.__code__) - named.names):
            named.names.add(key)
            self._take(key, f.__globals__.get(key), depth - 1)

    def outside(self, taken: set[int], trained: set[int], changed: set[int]) -> list[Outside]:
        """Returns the slots of tensors that are not `taken`, each tensor once: of other modules, and of tensors that are trained or changed."""
        found: list[Outside] = []
        taken = set(taken)

        def add(name: str, target: Any, items: Items, buffer: bool) -> None:
            for key, x in items:
                if isinstance(x, torch.Tensor) and id(x) not in taken:
                    taken.add(id(x))
                    part = f".{key}" if isinstance(key, str) else f"[{key}]"
                    found.append(Outside(f"{name}{part}".strip("."), target, key, buffer))

        for name, module in self.others:
            add(name, module._parameters, list(module._parameters.items()), False)
            add(name, module._buffers, list(module._buffers.items()), True)
        for wanted, buffer in ((trained, False), (changed, True)):
            for holder in self.holders if wanted - taken else ():
                add(holder.name, holder.target, [(k, x) for k, x in holder.found if id(x) in wanted], buffer)
        return found

    # ---- Swapping ----

    def swap(self, instead: dict[int, torch.Tensor]) -> None:
        """Puts tensors into all slots of others. instead: id of a tensor -> the tensor that takes its place."""
        for holder in self.holders:
            if type(holder.target) is set:
                continue
            items = [(key, instead.get(id(x), x)) for key, x in holder.found]
            if not _same(items, holder.found):
                self.real |= {id(instead[id(x)]): x for _, x in holder.found if id(x) in instead}
                holder.set(items)

    def put_back(self) -> None:
        """Restores everything that was found. Raises RuntimeError with the name of what cannot be restored."""
        for module, kind in self.kinds:
            if type(module) is not kind:
                module.__class__ = kind
        for holder in self.holders:
            if not _same(holder.items(), holder.found) and holder.is_captures():
                holder.set(holder.found)
        for holder in self.holders:
            if not _same(holder.items(), holder.found) and holder.is_captures():
                raise RuntimeError(
                    f"neap: {holder.name or 'a global'} changes while it is restored after a capture; give loss_fn objects that nothing "
                    "else changes at the same time"
                )

    # ---- What a step leaves behind ----

    def left(self) -> list[Left]:
        """Returns what loss_fn has left behind in the user's objects. Raises CannotTrace for a module that it makes."""
        found = []
        for change in [c for h in self.holders if not _same(h.now, h.items()) and h.is_captures() for c in _changes(h)]:
            if not bears_fake(change.value):
                found.append(Left(change, lambda _, value=change.value: value, []))
                continue
            if isinstance(change.value, nn.Module):
                raise CannotTrace(
                    f"{change.name} is made in the forward pass; run the model once on a batch before you compile the step"
                )
            try:
                structure = Structure(change.value)
            except TypeError:
                continue  # a reference to a fake tensor, or a cache of a library
            leaves = [self.real.get(id(x), x) for x in structure.leaves]
            old = [self.real.get(id(x), x) for x in _items(change.old)]
            if len(leaves) != len(old) or any(a is not b for a, b in zip(leaves, old, strict=True)):
                found.append(_left(change, structure, leaves))
        return found


class Left:
    """A change that each step makes. value(tensors): what it puts there, with the real tensors in place of its fake ones (`tensors`)."""

    def __init__(self, change: Change, value: Callable[[list[torch.Tensor]], Any], tensors: list[torch.Tensor]):
        self.name, self.target, self.key, self.value, self.tensors = (
            change.name,
            change.target,
            change.key,
            value,
            tensors,
        )
        self.count = len(tensors)
        self.was = None if tensors else change.old
        self.old = [x for x in _items(change.old) if isinstance(x, torch.Tensor)]

    def moves(self) -> bool:
        """Returns whether this is a setting that has another value than before: numbers, texts, or containers of them."""
        return not self.count and (self.key is MORE or not _equal(self.was, self.value([])))

    def make(self, tensors: list[torch.Tensor]) -> None:
        """Makes the change."""
        read, fill = WAYS[type(self.target)]
        value, items = self.value(tensors), list(read(self.target))
        if self.key is MORE or self.key is WHOLE:
            items = [*(items if self.key is MORE else ()), *enumerate(value)]
        else:
            at = next((i for i, (key, _) in enumerate(items) if key == self.key), len(items))
            items[at : at + 1] = [] if value is NONE else [(self.key, value)]
        fill(self.target, items)


def _equal(a: Any, b: Any) -> bool:
    """Returns whether two settings are equal; objects of other types count as equal."""
    if isinstance(a, SIMPLE) or isinstance(b, SIMPLE):
        return type(a) is type(b) and (a == b or a != a)
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(map(_equal, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return list(a) == list(b) and all(map(_equal, a.values(), b.values()))
    return True


def _items(x: Any) -> list[Any]:
    return list(x) if isinstance(x, (list, tuple)) else [x]


def _left(change: Change, structure: Structure, leaves: list[Any]) -> Left:
    at = [i for i, x in enumerate(leaves) if isinstance(x, FakeTensor)]
    plain = [None if isinstance(x, FakeTensor) else x for x in leaves]

    def value(tensors: list[torch.Tensor]) -> Any:
        values = list(plain)
        for i, tensor in zip(at, tensors, strict=True):
            values[i] = tensor
            behind[tensor] = True
        return structure.fill(values)

    return Left(change, value, [leaves[i].detach() for i in at])


# Tensors that steps have left behind. What they are is no setting of a step.
behind = WeakIdKeyDictionary()


def _is_library(module: str, filename: str) -> bool:
    return module.partition(".")[0] in CLOSED or any(root in filename for root in PACKAGES if root != "<")


@functools.cache
def _is_installed(module: str) -> bool:
    """Returns whether a module is Python's own or of an installed library."""
    root = module.partition(".")[0]
    file = getattr(sys.modules.get(root), "__file__", None) or ""
    return (
        root not in OPEN
        and (root in sys.stdlib_module_names or "site-packages" in file or "dist-packages" in file)
        and root != "__main__"
    )


def _names(code: types.CodeType) -> set[str]:
    """Returns the names of globals and attributes in a function and in those inside it."""
    return {*code.co_names, *(name for c in code.co_consts if isinstance(c, types.CodeType) for name in _names(c))}


# ---- Random generators ----


@contextlib.contextmanager
def generators_kept() -> Iterator[None]:
    """Restores the states of Python's, NumPy's and PyTorch's generators."""
    before, before_numpy = random.getstate(), numpy.random.get_state()
    devices = (
        list(range(torch.cuda.device_count())) if torch.cuda.is_available() and torch.cuda.is_initialized() else []
    )
    with torch.random.fork_rng(devices=devices):
        try:
            yield
        finally:
            random.setstate(before)
            numpy.random.set_state(before_numpy)
