"""Which lengths of a batch are captured, so that they give the captures of all lengths between."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from .batch import Structure


def capture_between(wanted: list[int], capture: Callable[[int], None], is_known: Callable[[int], bool]) -> None:
    """Captures some of the wanted lengths, sorted, until all are known. capture(length) does nothing at a length that was captured."""
    capture(wanted[-1])  # first, since its plan serves all
    rest = [n for n in wanted if n > 1]
    for n in wanted:
        if n < 2:
            capture(n)
    spans = [(rest[0], rest[-1])] if rest else []
    while spans:
        low, high = spans.pop()
        second, middle = (3 * low + high) // 4, (low + high) // 2
        second += math.gcd(second - low, middle - low, high - low) > 1  # for a fit's stride of 1
        for n in sorted({low, second, middle, high}):
            capture(n)
        missing = [n for n in rest if low <= n <= high and not is_known(n)]
        if missing and high - low > 3:
            middle = (low + high) // 2
            spans += [(low, middle), (middle, high)]
        else:
            for n in missing:
                capture(n)
    capture(wanted[-1])


def resized(batch: Any, dim: int, now: int, length: int) -> Any:
    """Returns the batch with `length` in place of `now` in dimension `dim`, filled with zeros: only shapes count."""
    structure = Structure(batch)
    leaves = []
    for x in structure.leaves:
        if isinstance(x, torch.Tensor) and -x.dim() <= dim < x.dim() and x.shape[dim] == now and length != now:
            shape = list(x.shape)
            shape[dim] = length
            x = x.new_zeros(shape)
        leaves.append(x)
    return structure.fill(leaves)
