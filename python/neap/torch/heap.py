"""What a step takes beside PyTorch's allocator: oneDNN's and MKL's own memory, kernels that they keep, Python's objects."""

from __future__ import annotations

from typing import Any

# Bytes that Python itself takes in a step, and what is not seen when calls run alone; and for each call.
SLACK, SLACK_A_CALL = 256 << 10, 512


class Heap:
    """Of all shapes of a step together: kernels that are made for one stay when others run."""

    def __init__(self) -> None:
        self.peak = 0  # of the call that takes most
        self.retained: dict[str, int] = {}  # call -> what it keeps
        self.most = 0  # as counted in a whole step
        self.kept = 0  # after first steps of shapes whose calls were not measured

    def note(self, costs: dict[str, Any]) -> None:
        """costs: call -> a measured cost."""
        for key, cost in costs.items():
            self.peak = max(self.peak, cost.bypass)
            if cost.retained:
                self.retained[key] = cost.retained

    def bytes(self, calls: int) -> int:
        """For a step of a number of calls."""
        return max(self.peak + sum(self.retained.values()) + SLACK + SLACK_A_CALL * calls, self.most)
