"""Batches of any structure: divided into tensors, numbers and constants, and cut into micro-batches."""

from __future__ import annotations

import collections
import copy
import dataclasses
import enum
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils import _pytree as pytree

CONSTANTS = (str, bytes, bool, type(None), complex, torch.dtype, torch.device, enum.Enum, slice, range, type(...))
_LIKE_A_DICT = ("keys", "__getitem__", "__setitem__", "__copy__")
LEAVES = (torch.Tensor, int, float, *CONSTANTS)


@dataclasses.dataclass
class Sum:
    """A loss that is a sum over `count` items (tokens, records): the batch's loss is total / count for any micro-batches.
    total: a scalar tensor; count: a number or a scalar tensor, above 0 over the whole batch."""

    total: torch.Tensor
    count: Any


class Structure:
    """The structure of a batch around its leaves. Equal forms mean equal structures. Raises TypeError for an unknown type."""

    def __init__(self, batch: Any):
        self.leaves: list[Any] = []
        form: list[Any] = []
        self.build = self._take(batch, "the batch", form)
        self.form = tuple(form)

    def _take(self, x: Any, where: str, form: list[Any]) -> Callable[[Iterator[Any]], Any]:
        """Adds the leaves and the form of x; returns a function that makes x again with new leaves."""
        if isinstance(x, LEAVES):
            self.leaves.append(x)
            form.append("leaf")
            return next
        if isinstance(x, (collections.UserDict, dict)):
            form += (type(x), tuple(x))
            parts = {key: self._take(value, f"{where}[{key!r}]", form) for key, value in x.items()}
            return lambda leaves: _filled(x, {key: part(leaves) for key, part in parts.items()})
        if all(hasattr(type(x), name) for name in _LIKE_A_DICT):  # a batch of graphs
            settings = sorted(
                (k, v) for k, v in getattr(x, "__dict__", {}).items() if isinstance(v, (int, float, *CONSTANTS))
            )
            form += (type(x), tuple(x.keys()), tuple(settings))
            parts = {key: self._take(x[key], f"{where}[{key!r}]", form) for key in x.keys()}  # noqa: SIM118
            return lambda leaves: _filled(x, {key: part(leaves) for key, part in parts.items()})
        if isinstance(x, (list, tuple)):
            form += (type(x), len(x))
            items = [self._take(value, f"{where}[{i}]", form) for i, value in enumerate(x)]
            make = type(x)._make if hasattr(x, "_make") else type(x)
            return lambda leaves: make([item(leaves) for item in items])
        if type(x) in pytree.SUPPORTED_NODES:
            row = pytree.SUPPORTED_NODES[type(x)]
            children, context = row.flatten_fn(x)
            form += (type(x), repr(context), len(children))
            items = [self._take(value, f"{where}[{i}]", form) for i, value in enumerate(children)]
            return lambda leaves: row.unflatten_fn([item(leaves) for item in items], context)
        if dataclasses.is_dataclass(x) and not isinstance(x, type):
            form.append(type(x))
            fields = {f.name: self._take(getattr(x, f.name), f"{where}.{f.name}", form) for f in dataclasses.fields(x)}
            return lambda leaves: _with_fields(x, {name: part(leaves) for name, part in fields.items()})
        raise TypeError(
            f"{where}: cannot look into a {type(x).__module__}.{type(x).__name__}, and each step would use the content of the first; give its "
            "tensors in a tuple, dict, named tuple or dataclass"
        )

    def fill(self, leaves: list[Any]) -> Any:
        return self.build(iter(leaves))


def is_number(x: Any) -> bool:
    """Returns whether a leaf is a number, which may differ from step to step."""
    return isinstance(x, (int, float)) and not isinstance(x, (bool, enum.Enum))


# ---- Numbers ----


class LookedAt(Exception):
    """Python has read a number of the batch, so that calls may depend on it."""


def _looked_at(*_: Any) -> Any:
    raise LookedAt


_LOOKS = ("__lt__", "__le__", "__gt__", "__ge__", "__eq__", "__ne__", "__bool__", "__int__", "__round__", "__floor__", "__ceil__", "__trunc__")  # fmt: skip
_Integer = type("_Integer", (int,), {"__hash__": int.__hash__} | dict.fromkeys(_LOOKS, _looked_at))
_Float = type("_Float", (float,), {"__hash__": float.__hash__} | dict.fromkeys(_LOOKS, _looked_at))


def plain(x: Any) -> Any:
    """Returns the number of a probe as a number of Python; returns anything else as it is."""
    return int.__add__(x, 0) if type(x) is _Integer else float.__add__(x, 0.0) if type(x) is _Float else x


def probes(leaves: list[Any]) -> Iterator[tuple[list[Any], tuple[int | float, ...]]]:
    """Yields the leaves with other numbers, far below and above their own, that raise LookedAt when read; and these numbers."""
    for sign, far in ((1, 1000), (-1, 3000)):
        own: list[int | float] = []
        filled = []
        for x in leaves:
            if is_number(x):
                value = sign * (far + len(own) + 2 * abs(x) + (0 if isinstance(x, int) else 0.37))
                own.append(value)
                x = _Integer(value) if isinstance(x, int) else _Float(value)
            filled.append(x)
        yield filled, tuple(own)


def _filled(x: Any, values: dict[Any, Any]) -> Any:
    if type(x) is dict:
        return values
    new = copy.copy(x)
    if isinstance(new, collections.UserDict):
        new.data = values
    else:
        for key, value in values.items():
            new[key] = value
    return new


def _with_fields(x: Any, values: dict[str, Any]) -> Any:
    new = copy.copy(x)
    for name, value in values.items():
        object.__setattr__(new, name, value)
    return new


# ---- Micro-batches ----


@dataclasses.dataclass(frozen=True)
class Parts:
    """The parts of a batch: `sizes` along the batch's dimension, of which the last may be smaller; None: the batch is not cut."""

    sizes: tuple[int, ...] | None

    def __len__(self) -> int:
        return 1 if self.sizes is None else len(self.sizes)

    def weight(self, i: int) -> float | int:
        """Returns the factor (below 1) or the divisor of the i-th part's loss, with which the parts add up to the batch's mean."""
        if self.sizes is None or len(set(self.sizes)) == 1:
            return len(self)
        return self.sizes[i] / sum(self.sizes)


def is_split(t: torch.Tensor, dim: int) -> bool:
    """Returns whether a tensor of the batch has the dimension along which micro-batches are cut."""
    return -t.dim() <= dim < t.dim()


def parts_of(tensors: list[torch.Tensor], dim: int, count: int) -> Parts:
    """Cuts a batch into `count` equal parts, as torch.chunk; the last is smaller if `count` does not divide it. Raises ValueError."""
    if count == 1:
        return Parts(None)
    sizes = {t.shape[dim] for t in tensors if is_split(t, dim)}
    if len(sizes) != 1:
        raise ValueError(
            f"micro-batches: the batch's tensors have different sizes in dimension {dim} (got {sorted(sizes)}); give them one size"
        )
    size = sizes.pop()
    if size < 1:
        raise ValueError("micro-batches: the batch is empty")
    part = -(-size // count)
    return Parts(tuple(min(part, size - at) for at in range(0, size, part)))


def part_of(t: torch.Tensor, dim: int, parts: Parts, i: int) -> torch.Tensor:
    """Returns the i-th micro-batch of a tensor of the batch."""
    if parts.sizes is None or not is_split(t, dim):
        return t
    return t.narrow(dim, parts.sizes[0] * i, parts.sizes[i])
