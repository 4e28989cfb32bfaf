"""Offsets for any set of buffers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from . import _library as c
from ._errors import InvalidArgument, OverBudget


@dataclass(frozen=True)
class Layout:
    """Offsets of buffers."""

    offsets: np.ndarray
    """[n] (uint64), in bytes."""
    height: int
    """The largest offset + size."""
    lower_bound: int
    """The largest sum of the sizes of buffers that live at one position; no layout is lower."""
    proven_optimal: bool
    """True: no layout is lower."""


def layout(buffers: Sequence[Sequence[int]] | np.ndarray, capacity: int = 0) -> Layout:
    """Finds offsets for buffers so that no two buffers that live at the same time overlap.

    - ``buffers`` [n, 3]: integers (lower, upper, size): a buffer lives from position ``lower`` up to, not including,
      ``upper``, and has ``size`` bytes.
    - ``capacity``: 0: returns the lowest layout that a few seconds of search find; else the first that is within this
      many bytes.

    Deterministic. Raises OverBudget if no layout was found within the capacity: the message says whether none exists,
    ``smallest`` is the least height found. Raises InvalidArgument if a buffer does not end after it begins.
    """
    rows = np.asarray(buffers)
    if rows.size == 0:
        rows = np.empty((0, 3), np.int64)
    if rows.ndim != 2 or rows.shape[1] != 3 or rows.dtype.kind not in "iu":
        raise InvalidArgument(
            f"buffers must be integers of shape [n, 3]: lower, upper, size (got shape {list(rows.shape)}, {rows.dtype})"
        )
    if len(rows) > 0 and int(rows[:, 2].min()) < 0:
        raise InvalidArgument(
            f"buffers[{int(rows[:, 2].argmin())}]: size must be 0 or more (got {int(rows[:, 2].min())})"
        )
    if not 0 <= capacity < 2**64:
        raise InvalidArgument(f"capacity must be from 0 to 2^64 - 1 (got {capacity})")
    table = np.zeros(len(rows), c.BUFFER)
    table["lower"], table["upper"], table["size"] = rows[:, 0], rows[:, 1], rows[:, 2]
    result = c.LayoutResult()
    status = c.lib.neap_layout_solve(c.address(table), len(table), int(capacity), result)
    if status == c.OVER_BUDGET:
        raise OverBudget(c.error_message(), result.height)
    c.check_status(status)
    return Layout(table["offset"].copy(), result.height, result.lower_bound, result.proven_optimal)
