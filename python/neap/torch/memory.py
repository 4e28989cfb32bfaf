"""Where a step's bytes go."""

from __future__ import annotations

import dataclasses

import torch

import neap

from .graph import View


@dataclasses.dataclass
class Memory:
    """Where a step's bytes go. What a budget is held against is `planned_peak_bytes` = `resident_bytes` + `arena_bytes`.

    enforced: every allocation had its planned address so far; where False, `why` says why and the bytes are planned, not
    enforced. measured_peak_bytes: resident bytes, the highest byte of the arena that was given, and what was allocated beside
    the plan; 0 before the first step. bypass_bytes (part of `resident_bytes`): what oneDNN, MKL and others take from the heap
    beside PyTorch's allocator, as measured. overhead: of the planned step, in seconds of its calls, over keeping everything.
    mapped_bytes: of the arena that all shapes share: the most that any shape needed so far."""

    budget_bytes: int
    planned_peak_bytes: int
    resident_bytes: int
    arena_bytes: int
    keep_all_bytes: int
    overhead: float
    enforced: bool
    measured_peak_bytes: int = 0
    parameter_bytes: int = 0
    state_bytes: int = 0
    buffer_bytes: int = 0
    input_bytes: int = 0
    accumulator_bytes: int = 0
    output_bytes: int = 0
    bypass_bytes: int = 0
    mapped_bytes: int = 0
    recomputed: int = 0
    why: str = ""

    def table(self) -> str:
        """A line for each number of bytes."""
        rows = [
            (f.name.removesuffix("_bytes").replace("_", " "), getattr(self, f.name))
            for f in dataclasses.fields(self)
            if f.name.endswith("_bytes")
        ]
        lines = [f"{name:15} {neap.format_bytes(value):>12}" for name, value in rows if value]
        lines.append(f"{'overhead':15} {100 * self.overhead:>10.1f} %")
        lines.append(f"{'enforced':15} {'yes' if self.enforced else 'no: ' + self.why:>12}")
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.table()


def storage_bytes(tensors: list[torch.Tensor]) -> int:
    """Bytes of the storages of tensors, each once."""
    return sum({t.untyped_storage()._cdata: t.untyped_storage().nbytes() for t in tensors}.values())


def view_bytes(view: View) -> int:
    n = view.dtype.itemsize
    for size in view.size:
        n *= size
    return n
