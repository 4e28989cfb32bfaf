"""The table of planners."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from . import _library as c


def planner_styles(names: list[str]) -> list[int]:
    """Returns the planners' positions, counted from the end of the table (the page's colours); 0: not in the table."""
    rows: list[Any] = [row.name for row in planners()]
    return [len(rows) - rows.index(name) if name in rows else 0 for name in names]


@dataclass(frozen=True)
class Planner:
    """A row of the table of planners."""

    name: str
    summary: str
    source: str | None
    """The paper; None: there is no paper."""
    graphs: str
    """The graphs that it takes."""
    promise: str
    """The guarantees of its plans, besides that they are valid."""


def planners() -> list[Planner]:
    """Returns all planners; "auto", which asks them, is not a row."""
    rows: list[Planner] = []
    row = c.Row()
    while c.lib.neap_planner_at(len(rows), row):
        texts = (row.name, row.summary, row.source, row.graphs, row.promise)
        rows.append(Planner(*(text.decode() if text is not None else None for text in texts)))
    return rows
