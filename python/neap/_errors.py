"""Exceptions."""

from __future__ import annotations


class Error(Exception):
    """The base of Neap's exceptions. The message says what failed, where, and what to do."""


class InvalidArgument(Error, ValueError):
    """An argument is invalid."""


class BadFormat(Error, ValueError):
    """A file does not have its format; the message names the file, the field and its place."""


class OverBudget(Error):
    """The budget cannot be met.

    ``smallest``: bytes of the smallest budget found that can be met; None if the planner has no plan for such a step
    under any budget, or did not search for one (``quick``). ``largest_batch``: the largest batch that fits the budget;
    None if it is not known, as for a step, which has no batch.
    """

    def __init__(self, message: str, smallest: int | None = None, largest_batch: int | None = None) -> None:
        super().__init__(message)
        self.smallest = smallest
        self.largest_batch = largest_batch


class InvalidPlan(Error):
    """The plan breaks a rule. ``position``: in the schedule; None: the rule has no position."""

    def __init__(self, message: str, position: int | None = None) -> None:
        super().__init__(message)
        self.position = position


class Interrupted(Error):
    """Planning was stopped on request."""
