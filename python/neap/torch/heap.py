"""Bytes of a step outside PyTorch's allocator: oneDNN's and MKL's own memory, kernels that they keep, Python's objects."""

from __future__ import annotations

from typing import Any

# Bytes of Python's objects in a step, and of allocations that calls do not show when they run alone; the second: for each call.
SLACK, SLACK_A_CALL = 256 << 10, 512
# The bytes of a step are a multiple of this: malloc's chunks differ by 16 bytes from run to run, and a budget that one run names must
# be met by the next.
PAGE = 4096


class Heap:
    """The heap of all shapes of a step together: kernels of one shape stay while others run."""

    def __init__(self) -> None:
        self.peak = 0  # of the call that takes the most
        self.retained: dict[str, int] = {}  # call -> bytes that it keeps
        self.most = 0  # counted in a whole step
        self.kept = 0  # after first steps of shapes whose calls were not measured

    def note(self, costs: dict[str, Any]) -> None:
        """Takes in measured costs: call -> cost."""
        for key, cost in costs.items():
            self.peak = max(self.peak, cost.bypass)
            if cost.retained:
                self.retained[key] = cost.retained

    def bytes(self, calls: int) -> int:
        """Returns the bytes for a step of `calls` calls."""
        measured = max(self.peak + sum(self.retained.values()) + SLACK + SLACK_A_CALL * calls, self.most)
        return -(-measured // PAGE) * PAGE
