"""Numbers, texts and settings of a model and a loss function, which are constants of a captured step."""

from __future__ import annotations

import collections
import functools
import types
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import nn

from .graph import PACKAGES
from .swap import behind

SIMPLE = (int, float, str, bool, bytes, complex, type(None), torch.dtype, torch.device)
DEPTH = 4  # of containers and objects inside each other
MOST = 2000  # items of a container that are compared
# Attributes of a module that are read separately, or concern hooks.
NOT_SETTINGS = {
    "training",
    "_parameters",
    "_buffers",
    "_modules",
    "_non_persistent_buffers_set",
    "_is_full_backward_hook",
}

Item = tuple[tuple[Any, ...], type, Any]  # path, type and value


class _Walk:
    def __init__(self) -> None:
        self.items: list[Item] = []
        self.known: set[int] = set()

    def note(self, path: tuple[Any, ...], value: Any) -> None:
        """Adds an item. 1, 1.0 and True are different values; NaN equals itself."""
        self.items.append((path, type(value), value if value == value else repr(value)))

    def take(self, path: tuple[Any, ...], x: Any, depth: int = DEPTH) -> None:
        if isinstance(x, SIMPLE):
            self.note(path, x)
            return
        if isinstance(x, (torch.Tensor, nn.Module, type)) or depth == 0:
            if isinstance(x, (torch.Tensor, nn.Module)):
                self.note(path, "left behind" if isinstance(x, torch.Tensor) and x in behind else id(x))
            if isinstance(x, nn.Module) and path[0] == "loss_fn":
                self.modules(path, x)
            return
        if id(x) in self.known:
            return
        self.known.add(id(x))
        if isinstance(x, (list, tuple, set, frozenset, collections.deque)):
            self.note(path, len(x))
            for i, value in zip(range(MOST), x, strict=False):
                self.take((*path, i), value, depth - 1)
        elif isinstance(x, (dict, collections.UserDict)):
            self.note(path, len(x))
            for _, (key, value) in zip(range(MOST), list(x.items()), strict=False):
                self.take((*path, key), value, depth - 1)
        elif isinstance(x, np.ndarray):
            self.note(path, x.tobytes() if x.nbytes <= 4096 else id(x))
        elif isinstance(x, functools.partial):
            self.take((*path, "func"), x.func, depth)
            self.take((*path, "args"), (x.args, x.keywords), depth)
        elif isinstance(x, types.MethodType):
            self.take((*path, "__self__"), x.__self__, depth)
            self.take((*path, "__func__"), x.__func__, depth)
        elif isinstance(x, types.FunctionType):
            self.function(path, x, depth)
        elif hasattr(x, "__dict__") and not isinstance(x, (types.ModuleType, torch.optim.Optimizer)):
            if any(root in (getattr(type(x), "__module__", None) or "") for root in ("torch.", "threading")):
                return
            for key, value in list(vars(x).items()):
                self.take((*path, key), value, depth - 1)

    def modules(self, path: tuple[Any, ...], model: nn.Module) -> None:
        for name, module in model.named_modules():
            if id(module) in self.known:
                continue
            self.known.add(id(module))
            self.note((*path, name), id(module))
            self.note((*path, name, "training"), module.training)
            for key, value in list(module.__dict__.items()):
                if key not in NOT_SETTINGS and not key.endswith("_hooks") and not key.endswith("_hooks_with_kwargs"):
                    self.take((*path, name, key), value)

    def function(self, path: tuple[Any, ...], f: types.FunctionType, depth: int) -> None:
        """Adds the closure, defaults and globals of the user's own function; assumes that a library's functions do not change."""
        if any(root in f.__code__.co_filename for root in PACKAGES) or "site-packages" in f.__code__.co_filename:
            return
        for name, cell in zip(f.__code__.co_freevars, f.__closure__ or (), strict=False):
            try:
                self.take((*path, name), cell.cell_contents, depth - 1)
            except ValueError:  # not bound yet
                continue
        self.take((*path, "defaults"), (f.__defaults__, f.__kwdefaults__), depth - 1)
        for name in f.__code__.co_names:
            value = f.__globals__.get(name)
            if isinstance(value, SIMPLE) and value is not None:
                self.note((*path, name), value)
            elif isinstance(value, (types.FunctionType, nn.Module)):
                self.take((*path, name), value, depth - 1)


def held(model: nn.Module, loss_fn: Callable[..., Any]) -> list[Item]:
    """Returns path, type and value of each setting, all hashable, in the same order for the same model."""
    walk = _Walk()
    walk.modules((), model)
    if isinstance(loss_fn, nn.Module):
        walk.modules(("loss_fn",), loss_fn)
    elif isinstance(loss_fn, (types.FunctionType, types.MethodType, functools.partial)):
        walk.take(("loss_fn",), loss_fn)
    else:
        walk.take(("loss_fn",), getattr(loss_fn, "__dict__", None))
    return walk.items


def name_of(path: tuple[Any, ...]) -> str:
    return ".".join(str(part) for part in path if part != "")


def changed(before: list[Item], after: list[Item]) -> Iterator[str]:
    """Yields the names of settings that have another value, are new or are gone."""
    old = {path: (kind, value) for path, kind, value in before}
    new = {path: (kind, value) for path, kind, value in after}
    for path, item in new.items():
        if path not in old:
            yield f"{name_of(path)} (new)"
        elif old[path] != item:
            yield f"{name_of(path)} ({old[path][1]!r}, then {item[1]!r})"
    yield from (f"{name_of(path)} (gone)" for path in old if path not in new)
