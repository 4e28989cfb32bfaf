"""What is said of a budget: what the least is made of, what would need less, what a low budget costs."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import neap

from .head import find_head
from .memory import storage_bytes

if TYPE_CHECKING:
    from .compile_step import CompiledStep

AFFORDABLE = 0.5  # over keeping everything; where a plan costs more, a budget that costs less is named
WORTH_A_WORD = 0.02  # seconds of a step that keeps everything; below, nothing is said of its cost
HALVINGS = 4  # of the range between a budget and keeping everything
SHOWN_AFTER = 2.0  # seconds


def over_budget(error: neap.OverBudget, step: neap.Step, owner: CompiledStep) -> neap.OverBudget:
    """The same refusal, in the user's terms."""
    if error.smallest is None:
        return error
    least, everything, at_rest = error.smallest, step.keep_all_bytes, step.resident_bytes
    parameters = storage_bytes(owner.parameters)
    text = (
        f"{owner.name}: the budget {owner.budget} is too small: the least is {neap.format_bytes(least)}, {100 * least / everything:.0f} % of keeping "
        f"everything; {neap.format_bytes(at_rest)} of it are there all the time, {neap.format_bytes(parameters)} of them parameters"
    )
    ways = list(_ways_out(least, least - at_rest, owner))
    if ways:
        text += f"; what would need less: {', '.join(ways)}"
    return neap.OverBudget(text, error.smallest, error.largest_batch)


def _ways_out(least: int, arena: int, owner: CompiledStep) -> Iterator[str]:
    trained = [p for p in owner.parameters if p.requires_grad]
    gradient = max((p.untyped_storage().nbytes() for p in trained), default=0)  # one of them is there at a time
    if arena - gradient > 0.2 * least:
        yield f"micro_batches={2 * owner.micro_batches}"
        with contextlib.suppress(TypeError, AttributeError):
            if owner.chunk_head is None and find_head(owner.model, None).out_features >= 4096:
                yield "chunk_head=True"
    if storage_bytes(trained) > 0.25 * least:
        yield "LoRA (fewer gradients and optimizer states)"


def affordable(step: neap.Step, plan: neap.Plan, planner: str) -> int | None:
    """A budget in which the step costs at most AFFORDABLE more than keeping everything: the smallest of a few that are tried."""
    low, high, found = plan.resident_bytes + plan.arena_bytes, step.keep_all_bytes, None
    for _ in range(HALVINGS):
        middle = (low + high) // 2
        try:
            fits = neap.plan(step, middle, planner, quick=True).overhead <= AFFORDABLE
        except neap.OverBudget:
            fits = False
        if fits:
            high = found = middle
        else:
            low = middle
    return found


def cost_of(step: neap.Step, plan: neap.Plan, planner: str) -> str:
    """What is to be said of a plan's cost; empty: nothing."""
    if plan.overhead <= AFFORDABLE or step.base_cost < WORTH_A_WORD:
        return ""
    text = f"neap: in {neap.format_bytes(plan.resident_bytes + plan.arena_bytes)} a step takes +{100 * plan.overhead:.0f} % of its time"
    enough = affordable(step, plan, planner)
    return text if enough is None else f"{text}; in {neap.format_bytes(enough)} at most +{100 * AFFORDABLE:.0f} %"


@contextlib.contextmanager
def shown(what: str) -> Iterator[None]:
    """A line on standard error, where that is a terminal, for what takes longer than SHOWN_AFTER."""
    if not sys.stderr.isatty():
        yield
        return
    drawn: list[Any] = []

    def draw() -> None:
        drawn.append(sys.stderr.write(f"\rneap: {what} ...\033[K"))
        sys.stderr.flush()

    timer = threading.Timer(SHOWN_AFTER, draw)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        if drawn:
            sys.stderr.write("\r\033[K")
            sys.stderr.flush()
