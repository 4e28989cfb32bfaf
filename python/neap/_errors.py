"""What goes wrong, as exceptions."""

from __future__ import annotations


class Error(Exception):
    """Something failed; the message says what, where, and what to do about it."""


class InvalidArgument(Error, ValueError):
    """An argument is not usable."""


class BadFormat(Error, ValueError):
    """A file's content is not what its format asks for; the message names the file, the field and its place."""


class OverBudget(Error):
    """The budget cannot be met.

    ``smallest``: bytes of the smallest budget found that can be met; None where the planner has no plan for such a
    step under any budget, or where it was not sought (``quick``). ``largest_batch``: the largest batch that fits the
    budget; None where that is not known, as for a step, which has no batch.
    """

    def __init__(self, message: str, smallest: int | None = None, largest_batch: int | None = None) -> None:
        super().__init__(message)
        self.smallest = smallest
        self.largest_batch = largest_batch


class InvalidPlan(Error):
    """The plan breaks a rule. ``position``: where in the schedule; None: nowhere in particular."""

    def __init__(self, message: str, position: int | None = None) -> None:
        super().__init__(message)
        self.position = position


class Interrupted(Error):
    """Planning was stopped on request."""
