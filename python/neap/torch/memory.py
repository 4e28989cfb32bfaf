"""The bytes of a step."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import torch

import neap

from .graph import View

if TYPE_CHECKING:
    from .captured import Ready
    from .compile_step import CompiledStep


@dataclasses.dataclass
class Memory:
    """The bytes of a step. A budget limits `planned_peak_bytes` = `resident_bytes` + `arena_bytes`.

    enforced: every allocation so far had its planned address. If False, the bytes are planned, not enforced, and `why` gives the
    reason. measured_peak_bytes: resident bytes, the highest used byte of the arena, and bytes allocated outside the plan; 0 before
    the first step. bypass_bytes (part of `resident_bytes`): measured bytes that oneDNN, MKL and others take from the heap outside
    PyTorch's allocator. overhead: seconds of the planned calls over those of keeping everything, minus 1. mapped_bytes: size of
    the arena that all shapes share, which is that of the largest so far."""

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
        """Returns a line of text for each number of bytes."""
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
    """Returns the bytes of the storages of tensors, each storage once."""
    return sum({t.untyped_storage()._cdata: t.untyped_storage().nbytes() for t in tensors}.values())


def view_bytes(view: View) -> int:
    n = view.dtype.itemsize
    for size in view.size:
        n *= size
    return n


def is_enforced(ready: Ready) -> bool:
    """Returns whether every allocation of a step so far had its planned address."""
    ending = ready.steps.ending.program if ready.steps.ending else None
    return ready.program.enforced and (ending is None or ending.enforced)


def memory_of(owner: CompiledStep, ready: Ready) -> Memory:
    """Returns the memory of a compiled step of one shape."""
    steps, planned = ready.steps, ready.planned
    step, plan = planned.body.step, planned.plan
    arena = max(plan.arena_bytes, steps.ending.plan.arena_bytes if steps.ending else 0)
    programs = [p for p in (ready.program, steps.ending.program if steps.ending else None) if p is not None]
    high = max(p.high() for p in programs)
    unplanned = max((p.unplanned_bytes for p in programs), default=0)
    unplanned += max((ready.heap_peak or 0) + owner.heap.kept - planned.bypass, 0)
    names = {n for p in programs for n in p.unplanned_calls}
    why = f"allocated outside the plan: {', '.join(sorted(names))}" if names else owner.why
    taken = [owner.parameters[i] for i in steps.taken]
    return Memory(
        budget_bytes=owner.budget_bytes(step, plan.resident_bytes + arena),
        planned_peak_bytes=plan.resident_bytes + arena,
        resident_bytes=plan.resident_bytes,
        arena_bytes=arena,
        keep_all_bytes=planned.keep_all,
        overhead=plan.overhead,
        enforced=is_enforced(ready),
        measured_peak_bytes=plan.resident_bytes + high + unplanned if high else 0,
        parameter_bytes=storage_bytes(owner.parameters),
        state_bytes=sum(u.state for u in steps.updates),
        buffer_bytes=storage_bytes(owner.buffers),
        input_bytes=sum(s.bytes for s in ready.graph.storages if s.role in ("input", "constant")),
        accumulator_bytes=storage_bytes(taken) if steps.cut else 0,
        output_bytes=planned.output_bytes,
        bypass_bytes=planned.bypass,
        mapped_bytes=owner.arena.size if owner.arena is not None else 0,
        recomputed=plan.recomputed,
        why=why,
    )
