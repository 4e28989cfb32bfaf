"""Messages: the parts of the least budget, options that need less, the cost of a low one, captures that are too many."""

from __future__ import annotations

import contextlib
import itertools
import sys
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import neap

from .family import moving
from .head import find_head
from .memory import storage_bytes

if TYPE_CHECKING:
    from .compile_step import CompiledStep
    from .kinds import Place

AFFORDABLE = 0.5  # overhead; for a plan of more, a budget that costs less is named
WORTH_A_WORD = 0.02  # seconds of a step that keeps everything; below, its cost is not reported
HALVINGS = 4  # halvings of the range between a budget and keeping everything
SHOWN_AFTER = 2.0  # seconds


def over_budget(error: neap.OverBudget, step: neap.Step, owner: CompiledStep) -> neap.OverBudget:
    """Returns the same exception with a message in the user's terms."""
    if error.smallest is None:
        return error
    least, everything, at_rest = error.smallest, step.keep_all_bytes, step.resident_bytes
    parameters = storage_bytes(owner.parameters)
    text = (
        f"{owner.name}: the budget {owner.budget} is too small; the least is {neap.format_bytes(least)}, {100 * least / everything:.0f} % of keeping "
        f"everything ({neap.format_bytes(at_rest)} resident, of which {neap.format_bytes(parameters)} are parameters)"
    )
    if owner.updater.whole:
        text += f"; all gradients exist at once, since the optimizer runs whole ({owner.updater.whole})"
    ways = list(_ways_out(least, least - at_rest, owner))
    if ways:
        text += f"; to need less, use {', '.join(ways)}"
    return neap.OverBudget(text, error.smallest, error.largest_batch)


def _ways_out(least: int, arena: int, owner: CompiledStep) -> Iterator[str]:
    trained = [p for p in owner.parameters if p.requires_grad]
    sizes = [p.untyped_storage().nbytes() for p in trained]
    gradient = sum(sizes) if owner.updater.whole else max(sizes, default=0)  # those that exist at a time
    if arena - gradient > 0.2 * least:
        yield f"micro_batches={2 * owner.micro_batches}"
        with contextlib.suppress(TypeError, AttributeError):
            if owner.chunk_head is None and find_head(owner.model, None).out_features >= 4096:
                yield "chunk_head=True"
    if storage_bytes(trained) > 0.25 * least:
        yield "LoRA (fewer gradients and optimizer states)"


def affordable(step: neap.Step, plan: neap.Plan, planner: str) -> int | None:
    """Returns the smallest of a few tried budgets in which the step's overhead is at most AFFORDABLE; None: none is."""
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
    """Returns a warning about a plan's cost; empty if it needs none."""
    if plan.overhead <= AFFORDABLE or step.base_cost < WORTH_A_WORD:
        return ""
    text = f"neap: in {neap.format_bytes(plan.resident_bytes + plan.arena_bytes)} a step takes +{100 * plan.overhead:.0f} % time compared with keeping everything"
    enough = affordable(step, plan, planner)
    return text if enough is None else f"{text}; in {neap.format_bytes(enough)} at most +{100 * AFFORDABLE:.0f} %"


@contextlib.contextmanager
def shown(what: str) -> Iterator[None]:
    """Shows a line on standard error, if that is a terminal, while the body takes longer than SHOWN_AFTER."""
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


def advice_of_captures(places: list[Place]) -> str:
    """Returns the advice for a step that was captured at these places, one by one."""
    if len({p.free() for p in places}) == 1 and len({p.numbers for p in places}) > 1:
        return (
            f"neap: the step is captured a {len(places)}th time, since a number of the batch has changed that loss_fn compares or computes "
            "with; give it as a tensor, or only pass it on to PyTorch; then it is an input"
        )
    shapes = [p.shapes for p in places]
    i, d = next((m[0] for a, b in itertools.pairwise(shapes) if (m := moving(a, b))), (0, 0))
    sizes = [s[i][d] for s in shapes if len(s) > i and len(s[i]) > d]
    return (
        f"neap: batches of {len(sizes)} shapes were captured, one by one (dimension {d} of the batch's tensor {i}: {', '.join(map(str, sizes))}); "
        f"step.prepare(*batch, lengths=range(least, most + 1), dim={d}) captures a few that serve all between, or pad batches to a few lengths"
    )
