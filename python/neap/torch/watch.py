"""What a captured step has built in from Python, watched for changes: globals, variables of closures, attributes of objects and classes,
modes, hooks, items of containers, arrays."""

from __future__ import annotations

import collections
import contextvars
import functools
import itertools
import operator
import os
import sys
import types
import weakref
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import nn

from .holders import (
    BY_POSITION,
    DEPTH,
    LARGEST,
    MOST,
    NONE,
    SIMPLE,
    WAYS,
    ClassAttributes,
    Globals,
    Items,
    SlotAttributes,
    Walk,
    inside_of,
    is_library,
    name_of,
)
from .reads import Reads, is_installed_file, names_in
from .swap import MORE, Left, behind

CACHED = functools._lru_cache_wrapper  # the type of functions under functools.cache and lru_cache
MOST_BYTES = 1 << 20  # of an array whose content is compared
LIBRARY_DEPTH = 2  # of holders inside each other that a library's functions read
HOOKS = ("_hooks", "_hooks_with_kwargs", "_hooks_always_called")
# Hooks of all modules.
GLOBAL_HOOKS = [x for name, x in vars(nn.modules.module).items() if name.startswith("_global_") and isinstance(x, dict)]
ENOUGH = 3  # changes in a holder of a library without another capture, after which it is not watched

Place = tuple[str, Any, int]  # a holder's name, a key, and how many of these came before
Marks = dict[Place, Any]


def _mark(x: Any, walk: Walk, depth: int = 3) -> Any:
    """Returns what counts of a value: equal marks mean that a step reads the same. What the walk looks into has slots of its own."""
    if isinstance(x, SIMPLE):
        return type(x), x if x == x else repr(x)
    if isinstance(x, torch.Tensor):
        return "left behind" if x in behind else (id(x), x.requires_grad)
    if isinstance(x, np.ndarray):
        return _content(x)
    if isinstance(x, (tuple, frozenset)) and depth:
        return type(x), tuple(_mark(y, walk, depth - 1) for y in x)
    if isinstance(x, functools.partial) and depth:
        return _mark(x.func, walk, depth - 1), _mark(x.args, walk, depth - 1), tuple(x.keywords)
    if isinstance(x, types.MethodType) and depth:
        return _mark(x.__self__, walk, depth - 1), _mark(x.__func__, walk, depth - 1)
    if isinstance(x, types.FunctionType):
        return id(x.__code__), _mark((x.__defaults__ or (), *(x.__kwdefaults__ or {}).values()), walk, depth - 1)
    looked_into = isinstance(x, (dict, *BY_POSITION)) or not is_library(type(x).__module__, "")
    if isinstance(x, nn.Module) or not looked_into or (id(x) not in walk.known and id(x) not in walk.seen):
        return id(x)
    return type(x), len(x) if isinstance(x, (list, dict, set, collections.deque)) else None


def _content(x: np.ndarray) -> Any:
    whole = x.nbytes <= MOST_BYTES and x.dtype != object
    return x.shape, x.dtype.str, zlib.crc32(np.ascontiguousarray(x).view(np.uint8)) if whole and x.nbytes else id(x)


_clearings: weakref.WeakKeyDictionary[Any, list[int]] = weakref.WeakKeyDictionary()


def _times_cleared(cached: Any) -> str:
    """Returns how many times the cache of a function was seen cleared: it has counted fewer calls than before."""
    info = cached.cache_info()
    known = _clearings.setdefault(cached, [0, 0])
    known[0] += info.hits + info.misses < known[1]
    known[1] = info.hits + info.misses
    return sys.intern(str(known[0]))


class _Row:
    """A holder as it was: the values of its keys, and how many items it had. keys: None for all."""

    def __init__(self, name: str, target: Any, keys: list[Any] | None, library: bool):
        self.name, self.target, self.library = name, target, library
        inside = inside_of(target)
        self.inside = vars(inside) if isinstance(target, ClassAttributes) else inside
        self.keys = keys
        self.take()
        self.arrays = [x for x in self.values if isinstance(x, np.ndarray)]
        self.content = {id(x): _content(x) for x in self.arrays}

    def take(self) -> None:
        """Takes what is there now."""
        self.size, self.values = self.read()
        self.types = list(map(type, self.values))

    def read(self) -> tuple[int, list[Any]]:
        """Returns the number of items, and keys and values."""
        x = self.inside
        if isinstance(x, types.CellType):
            return 1, [value for _, value in WAYS[types.CellType][0](x)] or [NONE]
        if isinstance(x, types.FunctionType):
            return 1, [x.__code__, x.__defaults__, x.__kwdefaults__]
        if isinstance(x, contextvars.ContextVar):
            return 1, [x.get(NONE)]
        if isinstance(x, CACHED):
            return 1, [_times_cleared(x)]
        if isinstance(self.target, SlotAttributes):
            return 1, [getattr(x, key, NONE) for key in self.keys]
        if isinstance(x, tuple(BY_POSITION)):
            return len(x), list(itertools.islice(x, MOST))
        if self.keys is None:
            values = list(itertools.islice(dict.values(x) if isinstance(x, dict) else x.values(), MOST))
            return len(x), [*values, *itertools.islice(x, MOST)]
        size = 0 if isinstance(self.target, Globals) else len(x)
        return size, [x.get(key, NONE) for key in self.keys]

    def unchanged(self) -> bool:
        size, values = self.read()
        same = size == self.size and all(map(operator.is_, values, self.values))
        same = same and all(map(operator.is_, map(type, values), self.types))
        return same and all(_content(x) == self.content[id(x)] for x in self.arrays)

    def items(self) -> Items:
        if isinstance(self.inside, tuple(BY_POSITION)):
            return list(enumerate(self.values))
        if isinstance(self.inside, (types.CellType, contextvars.ContextVar, CACHED)):
            return [("", self.values[0])]
        if self.keys is None:
            count = len(self.values) // 2
            return list(zip(self.values[count:], self.values[:count], strict=True))
        return list(zip(self.keys, self.values, strict=True))


class Watch(Walk):
    """What the functions that ran read, as it is now. Attributes and globals that none of them names are left out."""

    in_libraries = True
    names_of = staticmethod(names_in)

    def __init__(self, model: nn.Module, loss_fn: Callable[..., Any], reads: Reads):
        self.model, self.loss_fn, self.reads = model, loss_fn, reads
        self.wanted = None if reads.any_name else reads.names
        self.rows: list[_Row] = []
        self.tensors: set[int] = set()  # dicts of modules' parameters and buffers
        super().__init__(model, loss_fn)
        self._divide()

    def _divide(self) -> None:
        """Sets apart containers that are empty, most of which are a module's hooks."""
        is_empty = lambda row: isinstance(row.inside, (dict, *BY_POSITION)) and row.keys is None and not row.size  # noqa: E731
        self.empty = [row.inside for row in self.rows if is_empty(row)]
        self.full = [row for row in self.rows if not is_empty(row)]

    # ---- What is watched ----

    def holder(self, name: str, target: Any, owner: Any) -> Items:
        if isinstance(owner, nn.Module):
            self.tensors |= {id(owner._parameters), id(owner._buffers)}
        if id(target) in self.tensors or (isinstance(target, types.CellType) and not self._is_wanted(name)):
            return []  # kinds compare tensors
        if self.in_library and name in self.reads.ignored:
            return []
        row = _Row(name, target, self._keys(target, owner), self.in_library)
        self.rows.append(row)
        return row.items()

    def _function(self, name: str, f: types.FunctionType, depth: int) -> None:
        if not is_library(f.__module__ or "", f.__code__.co_filename):
            self.rows.append(_Row(name, f, ["code", "defaults", "defaults of keywords"], self.in_library))
        super()._function(name, f, depth)

    def _take(self, name: str, x: Any, depth: int) -> None:
        if isinstance(x, contextvars.ContextVar) and id(x) not in self.known:
            self.known.add(id(x))
            self.rows.append(_Row(name, x, None, self.in_library))
            self._take(name, x.get(None), depth - 1)
            return
        if isinstance(x, CACHED) and id(x) not in self.known and depth >= 0:
            self.known.add(id(x))
            self.rows.append(_Row(name, x, None, self.in_library))
            self._take(name, x.__wrapped__, depth)
            return
        super()._take(name, x, depth)

    def _inside(self, name: str, x: Any, depth: int) -> None:
        if isinstance(x, (dict, *BY_POSITION)) and len(x) <= LARGEST:
            self._holder(name, x, depth)

    def _keys(self, target: Any, owner: Any) -> list[Any] | None:
        if isinstance(target, Globals):
            return sorted(target.names)
        if isinstance(target, SlotAttributes):
            return [key for key, _ in target.items() if self._is_wanted(key)]
        if isinstance(target, ClassAttributes):
            return [
                k
                for k, x in vars(target.kind).items()
                if (self._is_wanted(k) and not k.startswith("__")) or isinstance(x, types.FunctionType)
            ]
        if owner is None or _has_other_code(type(owner)):
            return None
        keys = [key for key in target if self._is_wanted(key)]
        if isinstance(owner, nn.Module):
            keys += [
                key for key in target if key not in keys and (key in ("training", "_modules") or key.endswith(HOOKS))
            ]
        return keys

    def _is_wanted(self, key: Any) -> bool:
        return self.wanted is None or key in self.wanted

    def _more(self) -> None:
        if isinstance(getattr(self.loss_fn, "settings", None), dict):  # of a trainer
            self._take("trainer", self.loss_fn.settings, DEPTH)
        if self._is_wanted("environ") or self._is_wanted("getenv"):
            self._take("os.environ", os.environ._data, DEPTH)
        for hooks in GLOBAL_HOOKS:
            self._take("hooks of all modules", hooks, DEPTH)
        for code, values, first in self.reads.ran.values():
            library = is_installed_file(code.co_filename)
            before, self.in_library = self.in_library, library
            self._read_globals("", values, names_in(code), LIBRARY_DEPTH if library else DEPTH, library)
            self.in_library = before
            if first is not None and not library:  # of what it holds, what this function reads
                self._take_deeper()
                wanted, self.wanted = self.wanted, names_in(code) if self.wanted is not None else None
                self._take(type(first).__name__, first, DEPTH)
                self._take_deeper()
                self.wanted = wanted

    # ---- Comparison ----

    @functools.cached_property
    def marks(self) -> Marks:
        """What counts of each slot. An array has the content that it had."""
        marks: Marks = {}
        times: collections.Counter[Any] = collections.Counter()
        for row in self.rows:
            for key, value in row.items():
                key = key if isinstance(key, (int, str)) else repr(key)
                place = row.name, key, times[row.name, key]
                times[row.name, key] += 1
                marks[place] = row.content.get(id(value)) or _mark(value, self)
        return marks

    def is_unchanged(self) -> bool:
        """Returns whether each slot holds the same object; takes a microsecond a holder, and less for those that are empty."""
        return not any(self.empty) and all(row.unchanged() for row in self.full)

    def again(self) -> Watch:
        """Returns the same watch of what is there now."""
        return Watch(self.model, self.loss_fn, self.reads)

    def changes(self, before: Watch) -> Iterator[tuple[Place, str]]:
        """Yields place and words of each slot that has another value than before, is new or is gone."""
        for place, value in self.marks.items():
            if place not in before.marks:
                yield place, f"{_words(place)} (new)"
            elif before.marks[place] != value:
                yield place, f"{_words(place)} ({_told(before.marks[place])}, then {_told(value)})"
        yield from ((place, f"{_words(place)} (gone)") for place in before.marks if place not in self.marks)

    def changed_in_libraries(self, before: Watch) -> set[str]:
        """Returns the names of the holders of installed packages in which something has changed."""
        return {place[0] for place, _ in self.changes(before)} & {row.name for row in self.rows if row.library}

    def left(self, lefts: list[Left]) -> None:
        """Takes what a step has left behind (tensors, items at the end of a list) for what was there. A counter that is read has changed."""
        changed = {id(inside_of(left.target)) for left in lefts if left.count or left.key is MORE}
        for row in self.rows if changed else ():
            if id(inside_of(row.target)) in changed:
                row.take()
        if changed:
            self._divide()
            self.__dict__.pop("marks", None)


def _has_other_code(kind: type) -> bool:
    """Returns whether functions whose names are not noted may read its attributes: those of PyTorch and of Python's own library."""
    bases = [base.__module__ for base in kind.__mro__ if base not in (nn.Module, object, types.FunctionType)]
    return any(is_library(m, "") or m.partition(".")[0] in sys.stdlib_module_names for m in bases if m != "__main__")


def _words(place: Place) -> str:
    name, key, _ = place
    return name_of(name, key) if isinstance(key, str) else f"{name}[{key}]"


def _told(mark: Any) -> str:
    simple = isinstance(mark, tuple) and len(mark) == 2 and isinstance(mark[0], type) and issubclass(mark[0], SIMPLE)
    return repr(mark[1]) if simple else "an object"
