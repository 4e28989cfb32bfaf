"""The user's objects while a step is captured: other tensors take the place of their own, and everything is put back afterwards."""

from __future__ import annotations

import collections
import concurrent.futures.thread
import contextlib
import dataclasses
import queue
import random
import sys
import threading
import types
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils.weak import WeakIdKeyDictionary

from .batch import Structure
from .decisions import Number
from .graph import CannotTrace
from .holders import (
    BY_POSITION,
    CONTAINERS,
    DEPTH,
    LEAVES,
    MOST,
    NONE,
    SIMPLE,
    WAYS,
    Globals,
    Items,
    Walk,
    inside_of,
    is_library,
    name_of,
)
from .reads import loaded_in

# Files of code in which threads wait.
WAITING = {threading.__file__, queue.__file__, concurrent.futures.thread.__file__}
MORE, WHOLE = object(), object()  # keys of changes: items at the end of a list; all items


class Holder:
    """in_module: whether a module holds it; other threads may change others. library: whether it is an installed package's, which may
    change what it has for itself."""

    def __init__(self, name: str, target: Any, in_module: bool = False, library: bool = False):
        self.name, self.target, self.in_module, self.library = name, target, in_module, library
        self.read, self.fill = WAYS[type(target)]
        self.found = self.now = self.items()  # as it was found; as it is, but for what loss_fn changes

    def items(self) -> Items:
        return list(self.read(self.target))

    def set(self, items: Items) -> None:
        self.fill(self.target, items)
        self.now = items

    def keeps_number(self) -> bool:
        """Returns whether it holds a number that was read in a capture."""
        return any(_number_in(x) is not None for _, x in self.items())

    def is_captures(self) -> bool:
        """Returns whether its changes are those of a capture, and not of another thread: no other thread works but daemons (of progress bars,
        say), a module holds it, or it holds a fake tensor."""
        if self.library:
            return any(bears_fake(x, 2) for _, x in self.items())
        alone = not any(map(_works, threading.enumerate())) or isinstance(self.target, (types.CellType, Globals))
        return alone or self.in_module or any(bears_fake(x, 2) for _, x in self.items())


def _works(thread: threading.Thread) -> bool:
    """Returns whether this is another thread, but a daemon, that does not wait for work (as those of a pool do)."""
    frame = sys._current_frames().get(thread.ident)
    waits = frame is None or frame.f_code.co_filename in WAITING
    return thread is not threading.current_thread() and not thread.daemon and not waits


def _number_in(x: Any, depth: int = 3) -> Number | None:
    """Returns a number that was read in a capture and is in an object."""
    if isinstance(x, Number) or not depth:
        return x if isinstance(x, Number) else None
    inside = x.values() if isinstance(x, dict) else x if isinstance(x, (list, tuple, collections.deque)) else ()
    found = (_number_in(y, depth - 1) for y in list(inside)[-MOST:])
    return next((number for number in found if number is not None), None)


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
            yield Change(name_of(holder.name, key), holder.target, key, new.get(key, NONE), old.get(key, NONE))


# ---- Iterators ----


class Unmoved:
    """Stands for an iterator of the user's in a capture, which could not be moved back."""

    def __init__(self, name: str, iterator: Iterator[Any]):
        self._name, self._iterator = name, iterator

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        raise CannotTrace(
            f"{self._name or 'an iterator'} is moved on each time loss_fn runs (next, a loop), which a captured step cannot repeat; take its item "
            "before the step and pass it to loss_fn with the batch"
        )

    def __getattr__(self, name: str) -> Any:
        if name == "_iterator":  # of a copy
            raise AttributeError(name)
        return self.__next__ if name in ("send", "throw", "close") else getattr(self._iterator, name)


def _is_iterator(x: Any) -> bool:
    """Returns whether an object is an iterator whose place no holder shows: Python's, PyTorch's or NumPy's."""
    module = type(x).__module__
    return hasattr(type(x), "__next__") and module != "_io" and (module == "itertools" or is_library(module, ""))


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
    if isinstance(x, (FakeTensor, Unmoved)):
        return True
    if depth == 0 or isinstance(x, (*LEAVES, type, types.FunctionType)):
        return False
    if isinstance(x, nn.Module):
        return any(bears_fake(t, 1) for t in (*x.parameters(), *x.buffers()))
    inside = x.values() if isinstance(x, dict) else x if isinstance(x, (list, tuple, set, collections.deque)) else ()
    inside = [*list(inside)[:MOST], *vars(x).values()] if hasattr(x, "__dict__") else list(inside)[:MOST]
    return any(bears_fake(y, depth - 1) for y in inside)


def holders_of(name: str, target: Any, depth: int) -> list[Holder]:
    """Returns the holders of a dict, and of the containers in it up to `depth` levels inside."""
    found = [Holder(name, target)]
    for key, x in found[0].found if depth else ():
        if type(x) in CONTAINERS and len(x) <= MOST:
            found += holders_of(name_of(name, key), x, depth - 1)
    return found


class Kept(Walk):
    """All holders of a model and a loss function, as they were found. `swap` puts tensors into them, `put_back` restores them."""

    def __init__(self, model: nn.Module, loss_fn: Callable[..., Any]):
        self.holders: list[Holder] = []
        self.loss_fn = loss_fn
        self.real: dict[int, torch.Tensor] = {}  # id of a tensor that was put in -> the user's own
        self.generators: dict[
            int, tuple[torch.Generator, torch.Tensor]
        ] = {}  # by _cdata: generators of the user's, their states
        super().__init__(model, loss_fn)

    def holder(self, name: str, target: Any, owner: Any) -> Items:
        holder = Holder(name, target, self.in_module)
        if not self.in_library:
            self.holders.append(holder)
        return holder.found

    def _take(self, name: str, x: Any, depth: int) -> None:
        if isinstance(x, torch.Generator):
            self.generators.setdefault(x._cdata, (x, x.get_state()))
        super()._take(name, x, depth)

    def _library(self, f: types.FunctionType) -> None:
        for name in sorted(loaded_in(f.__code__)):
            x = f.__globals__.get(name)
            if type(x) in CONTAINERS and id(x) not in self.known and len(x) <= MOST:
                self.known.add(id(x))
                self.holders.append(Holder(name, x, library=True))
            elif isinstance(x, nn.Module):
                self._take(name, x, DEPTH)

    def _more(self) -> None:
        self.holders += getattr(self.loss_fn, "holders", list)()

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
        """Puts tensors into all slots of others, and stand-ins into those of iterators. instead: id of a tensor -> the tensor that takes its
        place."""
        instead = dict(instead)
        for holder in self.holders:
            if type(holder.target) is set:
                continue
            for key, x in holder.found:
                if id(x) not in instead and _is_iterator(x):
                    instead[id(x)] = Unmoved(name_of(holder.name, key), x)
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

    def seeded(self) -> bool:
        """Returns whether a generator of the user's has another state, and gives it back the one that was found."""
        with torch.utils._python_dispatch._disable_current_modes():
            moved = [(g, state) for g, state in self.generators.values() if not torch.equal(g.get_state(), state)]
            for generator, state in moved:
                generator.set_state(state)
        return bool(moved)

    # ---- What a step leaves behind ----

    def left(self) -> list[Left]:
        """Returns what loss_fn has left behind in the user's objects. Raises CannotTrace for a module that it makes."""
        found = []
        for change in [c for h in self.holders if not _same(h.now, h.items()) and h.is_captures() for c in _changes(h)]:
            number = _number_in(change.value)
            if number is not None:
                number.refuse()
            value = self.real.get(id(change.value), change.value)
            if not bears_fake(value):
                found.append(Left(change, lambda _, value=value: value, []))
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
        self.step: int | float | None = None  # what each step adds to a counter
        self.was = None if tensors else change.old
        self.old = [x for x in _items(change.old) if isinstance(x, torch.Tensor)]

    def moves(self) -> bool:
        """Returns whether this is a setting that has another value than before: numbers, texts, or containers of them."""
        return not self.count and (self.key is MORE or not _equal(self.was, self.value([])))

    @property
    def place(self) -> tuple[int, Any]:
        """What is changed: the object of the user's, and the key."""
        return id(inside_of(self.target)), self.key

    def is_again(self, first: Left | None) -> bool:
        """Returns whether this change of a second run repeats that of the first: it appends the same, or adds the same number, which
        `first.step` then is."""
        if first is None:
            return False
        if self.key is MORE:
            return _equal(self.value([]), first.value([]))
        values = first.was, first.value([]), self.value([])
        if any(type(x) not in (int, float) for x in values) or values[2] - values[1] != values[1] - values[0]:
            return False
        first.step = values[1] - values[0]
        return True

    def make(self, tensors: list[torch.Tensor]) -> None:
        """Makes the change."""
        read, fill = WAYS[type(self.target)]
        value, items = self.value(tensors), list(read(self.target))
        if self.step is not None:
            value = next((x for key, x in items if key == self.key), 0) + self.step
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
