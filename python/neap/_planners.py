"""The table of planners."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from . import _library as c


def planner_styles(names: list[str]) -> list[int]:
    """Places of planners counted from the end of the table, from which the page takes colours; 0: not in it."""
    rows: list[Any] = [row.name for row in planners()]
    return [len(rows) - rows.index(name) if name in rows else 0 for name in names]


@dataclass(frozen=True)
class Planner:
    """A row of the table of planners."""

    name: str
    summary: str
    source: str | None
    """The paper, or None."""
    graphs: str
    """Which graphs it takes."""
    promise: str
    """What holds for its plans, beyond being valid."""


def planners() -> list[Planner]:
    """The planners that there are, beside "auto", which asks them."""
    rows: list[Planner] = []
    row = c.Row()
    while c.lib.neap_planner_at(len(rows), row):
        texts = (row.name, row.summary, row.source, row.graphs, row.promise)
        rows.append(Planner(*(text.decode() if text is not None else None for text in texts)))
    return rows
