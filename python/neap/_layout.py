"""Offsets for any set of buffers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from . import _library as c
from ._errors import InvalidArgument, OverBudget


@dataclass(frozen=True)
class Layout:
    """Where buffers lie."""

    offsets: np.ndarray
    """uint64, one for each buffer, in bytes."""
    height: int
    """The largest offset + size."""
    lower_bound: int
    """The largest sum of sizes that live at one position: no layout is lower."""
    proven_optimal: bool
    """No layout is lower."""


def layout(buffers: Sequence[Sequence[int]] | np.ndarray, capacity: int = 0) -> Layout:
    """Offsets for buffers that live together, so that no two of them overlap.

    - ``buffers``: [n, 3] integers: a buffer lives from position ``lower`` up to, not including, ``upper``, and has
      ``size`` bytes.
    - ``capacity``: 0: as low as the work of a few seconds finds; else as soon as it is within this many bytes.

    Deterministic. OverBudget where nothing was found within the capacity: the message says whether none exists at
    all, ``smallest`` is the least height found. InvalidArgument: a buffer does not end after it begins.
    """
    rows = np.asarray(buffers)
    if rows.size == 0:
        rows = np.empty((0, 3), np.int64)
    if rows.ndim != 2 or rows.shape[1] != 3 or rows.dtype.kind not in "iu":
        raise InvalidArgument("buffers: must be rows of three integers: lower, upper, size")
    if len(rows) > 0 and int(rows[:, 2].min()) < 0:
        raise InvalidArgument(f"buffers[{int(rows[:, 2].argmin())}]: the size is negative")
    if not 0 <= capacity < 2**64:
        raise InvalidArgument(f"capacity: {capacity} is out of range")
    table = np.zeros(len(rows), c.BUFFER)
    table["lower"], table["upper"], table["size"] = rows[:, 0], rows[:, 1], rows[:, 2]
    result = c.LayoutResult()
    status = c.lib.neap_layout_solve(c.address(table), len(table), int(capacity), result)
    if status == c.OVER_BUDGET:
        raise OverBudget(c.error_message(), result.height)
    c.check_status(status)
    return Layout(table["offset"].copy(), result.height, result.lower_bound, result.proven_optimal)
