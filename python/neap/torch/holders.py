"""The user's objects around a step: what a model and a loss function reach.

A *holder* is an object that holds others and can be changed: the attributes of a module or an object, a dict, a list, a variable
of a closure, the globals that functions name. A *slot* is a holder and a key of it."""

from __future__ import annotations

import collections
import copyreg
import functools
import sys
import types
from collections.abc import Callable, Iterable, Sized
from typing import Any

import torch
from torch import nn

from .graph import PACKAGES
from .reads import is_installed_file, loaded_in

SIMPLE = (int, float, str, bytes, complex, type(None), torch.dtype, torch.device)
LEAVES = (*SIMPLE, torch.Tensor, types.ModuleType)  # what holds nothing
DEPTH = 5  # of holders inside each other that calls of a walk take; what lies deeper is taken after them, but in installed packages
MOST = 2000  # items of a holder that are looked into
LARGEST = 100_000  # items of a holder that is looked into
OPEN = {"types", "collections", "argparse"}  # modules of Python whose objects hold the user's
# Packages whose objects are not looked into: these hold nothing of the user's, or other threads change them.
CLOSED = {
    "torch", "neap", "numpy", "builtins", "abc", "enum", "typing", "threading", "logging", "weakref", "multiprocessing", "concurrent", "queue",
    "asyncio", "io", "_io",
}  # fmt: skip
NONE = object()  # no value

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


class SlotAttributes:
    """The attributes of an object that has slots in place of a dict."""

    def __init__(self, of: Any):
        self.of = of

    def items(self) -> Items:
        return [(k, getattr(self.of, k)) for k in copyreg._slotnames(type(self.of)) if hasattr(self.of, k)]

    def fill(self, items: Items) -> None:
        for key in dict(self.items()).keys() - dict(items).keys():
            object.__delattr__(self.of, key)
        for key, value in items:
            if getattr(self.of, key, NONE) is not value:
                object.__setattr__(self.of, key, value)


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
    SlotAttributes: (SlotAttributes.items, SlotAttributes.fill),
}
BY_POSITION: dict[type, Way] = {
    list: (enumerate, _fill_list),
    collections.deque: (enumerate, _fill_list),
    set: (enumerate, _fill_set),
}
WAYS = BY_NAME | BY_POSITION
CONTAINERS = {dict, collections.OrderedDict, collections.defaultdict, *BY_POSITION}


def inside_of(target: Any) -> Any:
    """Returns the object of the user's that a holder's target stands for."""
    if isinstance(target, Globals):
        return target.values
    if isinstance(target, ClassAttributes):
        return target.kind
    return target.of if isinstance(target, SlotAttributes) else target


def name_of(name: str, key: Any) -> str:
    """Returns the name of a slot of a holder that is called `name`."""
    return f"{name}.{key}".strip(".") if isinstance(key, str) else name or "an attribute"


# ---- Finding them ----


class Walk:
    """Finds the holders that a model and a loss function reach. A subclass says what it makes of each: `holder` is called for a holder
    before what it holds is looked into, and returns its items (those that are looked into)."""

    in_libraries = False  # whether classes of installed packages are looked into
    names_of = staticmethod(loaded_in)  # code -> the names of globals that are looked into

    def __init__(self, model: nn.Module, loss_fn: Callable[..., Any]):
        self.known: set[int] = set()  # objects that were looked into
        # By the dict of a module: its name, the globals, and whether the module is a library's.
        self.globals: dict[int, tuple[str, Globals, bool]] = {}
        self.classes: set[type] = set()
        self.kinds: list[tuple[nn.Module, type]] = []
        self.others: list[tuple[str, nn.Module]] = []  # modules that are not the model's
        self.seen: set[int] = set()  # what was found in objects of libraries
        self.in_module, self.in_library = False, False  # where the walk is
        modules = list(model.named_modules())
        self.known.update(id(m) for _, m in modules)
        # Objects of the user's that lie deeper: names, objects, and whether a module holds them.
        self.deeper: list[tuple[str, Any, bool]] = []
        for name, module in modules:
            self._module(name, module)
        self._take("loss_fn", loss_fn, DEPTH)
        self._take_deeper()
        self._more()
        self._take_deeper()
        for name, named, library in self.globals.values():
            self.in_library = library
            self.holder(name, named, None)

    def holder(self, name: str, target: Any, owner: Any) -> Items:
        """owner: the object, module or class whose attributes the holder has, if any."""
        raise NotImplementedError

    def _more(self) -> None:
        """Takes what a subclass knows beside the model and the loss function."""

    def _module(self, name: str, module: nn.Module) -> None:
        before = self.in_module, self.in_library
        self.in_module, self.in_library = True, False
        self.kinds.append((module, type(module)))
        self._holder(name, vars(module), DEPTH, module)
        self.in_module = False
        self._class(type(module), DEPTH)
        self.in_module, self.in_library = before

    def _class(self, kind: type, depth: int) -> None:
        for base in [k for k in kind.__mro__ if k not in self.classes]:
            self.classes.add(base)
            if is_library(base.__module__, "") or base.__module__ in sys.stdlib_module_names:
                continue
            self._holder(base.__name__, ClassAttributes(base), depth, base)
            for value in vars(base).values():
                if isinstance(value, (types.FunctionType, staticmethod, classmethod, functools._lru_cache_wrapper)):
                    self._take(base.__name__, getattr(value, "__func__", value), depth)

    def _holder(self, name: str, target: Any, depth: int, owner: Any = None) -> None:
        if not self.in_library:
            self.known.add(id(target))
        for key, value in self.holder(name, target, owner)[:MOST]:
            self._take(name_of(name, key) if type(target) in BY_NAME else name, value, depth - 1)

    def _take_deeper(self) -> None:
        """Takes what lies deeper than the calls of a walk may nest."""
        before = self.in_module
        while self.deeper:
            name, x, self.in_module = self.deeper.pop(0)
            self._take(name, x, DEPTH)
        self.in_module = before

    def _take(self, name: str, x: Any, depth: int) -> None:
        if id(x) in self.known or isinstance(x, LEAVES) or (self.in_library and id(x) in self.seen):
            return
        if depth < 0:
            if not self.in_library:
                self.deeper.append((name, x, self.in_module))
            return
        if isinstance(x, type):
            if self.in_libraries or not is_installed(x.__module__):
                self._class(x, depth)
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
        elif not is_library(type(x).__module__, "") and not isinstance(x, torch.optim.Optimizer):
            before, self.in_library = self.in_library, self.in_library or is_installed(type(x).__module__)
            if self.in_library and not before:
                depth = DEPTH - 1  # wherever it lies
            if copyreg._slotnames(type(x)):
                self._holder(name, SlotAttributes(x), depth, x)
            if isinstance(getattr(x, "__dict__", None), dict):
                self._holder(name, vars(x), depth, x)
            self._inside(name, x, depth)
            if self.in_libraries or not self.in_library:
                self._class(type(x), depth)
            self.in_library = before

    def _inside(self, name: str, x: Any, depth: int) -> None:
        """Takes the items of a container of a subclass."""

    def _function(self, name: str, f: types.FunctionType, depth: int) -> None:
        if is_library(f.__module__ or "", f.__code__.co_filename):
            return
        for variable, cell in zip(f.__code__.co_freevars, f.__closure__ or (), strict=False):
            if id(cell) not in self.known:
                self._holder(variable, cell, depth)
        for value in (f.__defaults__, f.__kwdefaults__):
            self._take(name, value, depth - 1)
        if vars(f) and id(vars(f)) not in self.known:
            self._holder(name, vars(f), depth - 1, f)
        if is_installed_file(f.__code__.co_filename):
            self._library(f)
        else:
            names = self.names_of(f.__code__)
            self._read_globals("", f.__globals__, names, depth, False)

    def _library(self, f: types.FunctionType) -> None:
        """Takes a function of an installed package that the user's objects hold."""

    def _read_globals(self, module: str, values: dict[str, Any], names: set[str], depth: int, library: bool) -> None:
        """Takes the globals of a module that have one of these names, and those of the user's modules among them."""
        _, named, _ = self.globals.setdefault(id(values), (module, Globals(values), library))
        for key in sorted(names - named.names):
            named.names.add(key)
            value = values.get(key)
            if isinstance(value, types.ModuleType):
                if not is_library(value.__name__, "") and not is_installed(value.__name__):
                    self._read_globals(value.__name__, vars(value), names, depth, library)
            else:
                self._take(name_of(module, key), value, depth - 1)


def is_library(module: str, filename: str) -> bool:
    return module.partition(".")[0] in CLOSED or any(root in filename for root in PACKAGES if root != "<")


@functools.cache
def is_installed(module: str) -> bool:
    """Returns whether a module is Python's own or of an installed library."""
    root = module.partition(".")[0]
    file = getattr(sys.modules.get(root), "__file__", None) or ""
    return root not in OPEN and (root in sys.stdlib_module_names or is_installed_file(file)) and root != "__main__"
