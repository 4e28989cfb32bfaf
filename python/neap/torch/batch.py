"""What a step is given: a batch of any structure, taken apart into tensors, numbers and constants, and cut into micro-batches."""

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

LEAVES = (torch.Tensor, int, float, *CONSTANTS)


@dataclasses.dataclass
class Sum:
    """A loss that is a sum over `count` things (tokens, records): the batch's loss is total / count, whatever the
    micro-batches. total: a scalar tensor; count: a tensor or a number, above 0 over the whole batch."""

    total: torch.Tensor
    count: Any


class Structure:
    """How the leaves of a batch lie in it. Equal texts: equal structures."""

    def __init__(self, batch: Any):
        self.leaves: list[Any] = []
        self.build = self._take(batch, "the batch")

    def _take(self, x: Any, where: str) -> Callable[[Iterator[Any]], Any]:
        """Adds the leaves of x; what puts new ones in their place."""
        if isinstance(x, LEAVES):
            self.leaves.append(x)
            return next
        if isinstance(x, (collections.UserDict, dict)):
            parts = {key: self._take(value, f"{where}[{key!r}]") for key, value in x.items()}
            return lambda leaves: _filled(x, {key: part(leaves) for key, part in parts.items()})
        if isinstance(x, (list, tuple)):
            items = [self._take(value, f"{where}[{i}]") for i, value in enumerate(x)]
            make = type(x)._make if hasattr(x, "_make") else type(x)
            return lambda leaves: make([item(leaves) for item in items])
        if type(x) in pytree.SUPPORTED_NODES:
            row = pytree.SUPPORTED_NODES[type(x)]
            children, context = row.flatten_fn(x)
            items = [self._take(value, f"{where}[{i}]") for i, value in enumerate(children)]
            return lambda leaves: row.unflatten_fn([item(leaves) for item in items], context)
        if dataclasses.is_dataclass(x) and not isinstance(x, type):
            fields = {f.name: self._take(getattr(x, f.name), f"{where}.{f.name}") for f in dataclasses.fields(x)}
            return lambda leaves: _with_fields(x, {name: part(leaves) for name, part in fields.items()})
        raise TypeError(
            f"{where}: a {type(x).__module__}.{type(x).__name__} hides what changes from step to step (its first content would be used for "
            "ever); give its tensors: in a tuple, dict, named tuple or dataclass"
        )

    def fill(self, leaves: list[Any]) -> Any:
        return self.build(iter(leaves))

    @staticmethod
    def text(x: Any) -> Any:
        """What two batches of one structure have alike, hashable."""
        if isinstance(x, torch.Tensor):
            return "t"
        if isinstance(x, CONSTANTS):
            return ("c", type(x).__name__, x if not isinstance(x, slice) else repr(x))
        if isinstance(x, (int, float)):
            return ("n", type(x).__name__)
        if isinstance(x, (collections.UserDict, dict)):
            return (type(x), *((key, Structure.text(value)) for key, value in x.items()))
        if isinstance(x, (list, tuple)):
            return (type(x), *map(Structure.text, x))
        if type(x) in pytree.SUPPORTED_NODES:
            children, context = pytree.SUPPORTED_NODES[type(x)].flatten_fn(x)
            return (type(x), repr(context), *map(Structure.text, children))
        if dataclasses.is_dataclass(x):
            return (type(x), *(Structure.text(getattr(x, f.name)) for f in dataclasses.fields(x)))
        return id(x)


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
    """How a batch is cut: `sizes` along the batch's dimension, the last may be smaller; None: it is not cut."""

    sizes: tuple[int, ...] | None

    def __len__(self) -> int:
        return 1 if self.sizes is None else len(self.sizes)

    def weight(self, i: int) -> float | int:
        """What the i-th part's loss is multiplied by (below 1) or divided by, so that they add up to the batch's mean."""
        if self.sizes is None or len(set(self.sizes)) == 1:
            return len(self)
        return self.sizes[i] / sum(self.sizes)


def is_split(t: torch.Tensor, dim: int) -> bool:
    """Whether a tensor of the batch has the dimension along which micro-batches are cut."""
    return -t.dim() <= dim < t.dim()


def parts_of(tensors: list[torch.Tensor], dim: int, count: int) -> Parts:
    """As torch.chunk cuts: equal parts, the last one smaller where `count` does not divide the batch."""
    if count == 1:
        return Parts(None)
    sizes = {t.shape[dim] for t in tensors if is_split(t, dim)}
    if len(sizes) != 1:
        raise ValueError(
            f"the batch's tensors have different sizes in dimension {dim}: {sorted(sizes)}; micro-batches need one size there"
        )
    size = sizes.pop()
    if size < 1:
        raise ValueError("an empty batch has no micro-batches")
    part = -(-size // count)
    return Parts(tuple(min(part, size - at) for at in range(0, size, part)))


def part_of(t: torch.Tensor, dim: int, parts: Parts, i: int) -> torch.Tensor:
    """The i-th micro-batch of a tensor of the batch."""
    if parts.sizes is None or not is_split(t, dim):
        return t
    return t.narrow(dim, parts.sizes[0] * i, parts.sizes[i])
