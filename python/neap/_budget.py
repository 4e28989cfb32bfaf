"""Budgets, and bytes as text."""

from __future__ import annotations

import ctypes
import operator

from . import _library as c
from ._errors import InvalidArgument

Budget = int | str
"""Bytes; or "96MiB", "0.5GB", "60%" of the bytes of keeping everything, "min" (the least that can be met), "max"."""

AVAILABLE = 2**64 - 2  # NEAP_BUDGET_AVAILABLE


def parse(budget: Budget) -> tuple[int | None, float | None]:
    """Returns (bytes, None) or (None, the fraction of the bytes of keeping everything).

    "min" is 0 bytes, "max" 2**64 - 1, as in the library. Raises InvalidArgument for any other value.
    """
    if isinstance(budget, str):
        size, fraction = ctypes.c_uint64(), ctypes.c_double()
        c.check_status(c.lib.neap_budget_parse(budget.encode(errors="replace"), size, fraction))
        if size.value == AVAILABLE:
            raise InvalidArgument(
                "budget: 'available' is for the command only, which trains in a process of its own; give a size"
            )
        return (size.value, None) if fraction.value == 0 else (None, fraction.value)
    try:
        number = operator.index(budget)
    except TypeError:
        number = None
    if number is None or isinstance(budget, bool):
        raise InvalidArgument(
            f'budget must be a number of bytes or a text such as "2GiB", "60%" or "min" (got {budget!r})'
        )
    if not 1 <= number < 2**63:
        raise InvalidArgument(f'budget is out of range (got {number} bytes); "min" is the least that can be met')
    return number, None


def share(fraction: float, everything: int) -> int:
    """Returns the bytes of a budget that is a fraction of ``everything`` bytes; at least 1."""
    return c.lib.neap_budget_share(fraction, everything)


def format_bytes(count: int) -> str:
    """Returns a number of bytes as text, as the command writes it: "512 B", "9.54 MiB", "829.7 MiB"."""
    units = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
    size, unit = float(count), 0
    while size >= 1000 and unit < len(units) - 1:
        size, unit = size / 1024, unit + 1
    if unit == 0:
        return f"{count} B"
    return f"{size:.2f} {units[unit]}" if size < 10 else f"{size:.1f} {units[unit]}"
