"""Memory against recomputation."""

from __future__ import annotations

from ._budget import format_bytes
from ._errors import InvalidArgument, OverBudget
from ._page import frame, page_of_curve
from ._plan import Plan, plan_with
from ._planning import Line, ProgressCallback
from ._step import Step


class Curve:
    """Plans of a step, from the least budget to keeping everything: each takes more bytes and costs less."""

    def __init__(self, step: Step, planner: str, points: list[Plan]) -> None:
        self.step = step
        self.planner = planner
        self.points = points
        """Plans of ascending ``peak_bytes`` and descending cost."""
        self.keep_all_bytes = step.keep_all_bytes
        self.lower_bound_bytes = min([p.lower_bound_bytes or 0 for p in points] + [step.lower_bound_bytes])

    def table(self) -> str:
        """Returns the plans as lines of text."""
        lines = [f"{'memory':>12} {'of keeping all':>16} {'overhead':>10}  planner"]
        for plan in self.points:
            share = plan.peak_bytes / self.keep_all_bytes if self.keep_all_bytes > 0 else 1
            memory, overhead = format_bytes(plan.peak_bytes), 100 * plan.overhead
            lines.append(f"{memory:>12} {100 * share:>14.1f} % {overhead:>8.1f} %  {plan.planner}")
        return "\n".join(lines)

    def html(self) -> str:
        """Returns a self-contained page: the curve, and for each plan memory over the step and the map of the arena."""
        return page_of_curve(self)

    def __repr__(self) -> str:
        return f"<neap.Curve of {self.step.name!r} by {self.planner}: {len(self.points)} plans>"

    def _repr_html_(self) -> str:
        return frame(self.html())


def _budgets(least: int, most: int, points: int) -> list[int]:
    """Returns the budgets above the least, up to keeping everything, at equal ratios."""
    inner = [int(least * (most / least) ** (i / (points - 1))) for i in range(1, points - 1)]
    return sorted({budget for budget in [*inner, most] if budget > least})


def _front(plans: list[Plan]) -> list[Plan]:
    """Returns the plans that no other plan equals or beats in both memory and cost."""
    front: list[Plan] = []
    for plan in sorted(plans, key=lambda p: (p.peak_bytes, p.cost)):
        if not front or plan.cost < front[-1].cost:
            front.append(plan)
    return front


def curve(
    step: Step,
    planner: str = "auto",
    points: int = 12,
    *,
    seconds: float = 0.0,
    progress: ProgressCallback | bool | None = None,
) -> Curve:
    """Plans a step for ``points`` budgets, from the least that can be met to keeping everything, at equal ratios.

    Leaves out plans that cost no less for more memory, so there may be fewer points. ``seconds``: for each plan;
    ``planner``, ``progress`` and errors are those of `neap.plan`. Raises OverBudget if the planner takes no such graph.
    """
    if isinstance(points, bool) or not isinstance(points, int) or points < 2:
        raise InvalidArgument(f"points must be an integer of 2 or more (got {points!r})")
    line = Line(step.base_cost, 0, points) if progress is True and isinstance(step, Step) else None
    callback = progress if callable(progress) else None

    def ask(budget: int | str) -> Plan:
        if line is not None:
            line.next_plan()
        return plan_with(step, budget, planner, seconds, False, callback, line)

    try:
        plans = [ask("min")]
        for budget in _budgets(plans[0].peak_bytes, step.keep_all_bytes, points) if plans[0].peak_bytes > 0 else []:
            try:
                plans.append(ask(budget))
            except OverBudget:  # the plan before fits this larger budget too
                continue
        return Curve(step, planner, _front(plans))
    finally:
        if line is not None:
            line.clear()
