"""Plans: a schedule with an offset for every value."""

from __future__ import annotations

import ctypes
import math
import weakref
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from . import _library as c
from ._budget import Budget, format_bytes, parse, share
from ._errors import InvalidArgument, InvalidPlan
from ._files import Path_, read_json, write_json
from ._page import frame, page_of_plan
from ._planning import Line, ProgressCallback, make_plan
from ._step import Step


@dataclass(frozen=True)
class CheckResult:
    """The verdict of the independent checker on a plan."""

    valid: bool
    live_peak_bytes: int
    """Resident bytes + the largest live bytes at a position, without gaps in the arena."""
    cost: float
    position: int | None
    """The position in the schedule where a rule is broken; None: the rule has no position."""
    reason: str
    """The broken rule; empty if the plan is valid."""
    stored_bytes: int = 0
    """Bytes that one run writes elsewhere; of them, as often as it needs them, it brings back `restored_bytes`."""
    restored_bytes: int = 0

    def __bool__(self) -> bool:
        return self.valid


class Plan:
    """A schedule for a step, and the offset of every value. Made by `neap.plan` and `Plan.read`; immutable.

    A budget limits ``peak_bytes``, which is ``resident_bytes + arena_bytes``. (In a plan *file*, ``peak_bytes`` is the
    ``live_peak_bytes`` of `neap.check`: without gaps in the arena.)
    """

    def __init__(self, step: Step, handle: ctypes.c_void_p, budget: int | None, made: bool) -> None:
        self.step = step
        self._handle = handle
        self._free = weakref.finalize(self, c.lib.neap_plan_free, handle)
        self._free.atexit = False
        info = c.PlanInfo()
        c.lib.neap_plan_describe(handle, info)
        self.graph: str = info.graph.decode(errors="replace")
        """The name of the planned step."""
        self.planner: str = info.planner.decode(errors="replace")
        """The planner that found the plan."""
        self.peak_bytes: int = info.peak_bytes
        """resident_bytes + arena_bytes; a budget limits them."""
        self.resident_bytes: int = info.resident_bytes
        """Bytes of inputs, parameters and states, which are not in the arena."""
        self.arena_bytes: int = info.arena_bytes
        """Size of the arena, which contains all values."""
        self.cost: float = info.cost
        """The sum of costs over the schedule, in the unit of the step's costs."""
        self.base_cost: float = info.base_cost
        """The sum of costs over the nodes, each once."""
        self.recomputed: int = info.recomputed
        """The number of positions of the schedule that run a node again."""
        self.lower_bound_bytes: int | None = info.lower_bound_bytes if made else None
        """No plan under any budget takes fewer bytes; None: not known, since the plan was read."""
        self.cost_lower_bound: float | None = info.cost_lower_bound if made and info.cost_lower_bound > 0 else None
        """No plan within the budget costs less; None: not known."""
        self.seconds: float | None = info.seconds if made else None
        """Seconds of planning; None: the plan was read."""
        self.proven_optimal: bool = info.proven_optimal
        """True: no plan within the budget costs less."""
        self.budget: int = budget if budget is not None else self.peak_bytes
        """The budget in bytes; ``peak_bytes`` if it was "min" or "max", or if the plan was read."""

    @property
    def overhead(self) -> float:
        """cost / base_cost - 1: 0.2 if recomputation adds a fifth of the step's time."""
        return max(0.0, self.cost / self.base_cost - 1) if self.base_cost > 0 else 0.0

    @cached_property
    def schedule(self) -> np.ndarray:
        """Node ids [positions] (int32) in the order in which they run; a node that appears again is recomputed."""
        length = ctypes.c_int64()
        pointer = c.lib.neap_plan_schedule(self._handle, length)
        schedule = c.copy_array(pointer, length.value, np.dtype(np.int32))
        schedule.flags.writeable = False
        return schedule

    @cached_property
    def instances(self) -> np.ndarray:
        """All values made, in the order of the schedule: a node's outputs in their order, then its workspace.

        A structured array: ``tensor`` (-1: workspace), ``first`` and ``last`` (the positions that make it and read it
        last), ``in_place`` (at ``first`` it takes over the bytes of an input), ``kind`` (an index of `neap.KINDS`),
        ``offset`` and ``bytes`` in the arena. Raises InvalidPlan if a plan that was read is not valid.
        """
        pointer, count = ctypes.c_void_p(), ctypes.c_int64()
        result = check(self.step, self)
        if not result.valid:
            raise InvalidPlan(result.reason, result.position)
        c.check_status(c.lib.neap_plan_instances(self.step._handle, self._handle, pointer, count))
        instances = c.take_array(pointer.value, count.value, c.INSTANCE)
        instances.flags.writeable = False
        return instances

    def profile(self) -> np.ndarray:
        """Live bytes at each position, by kind: [positions, len(neap.KINDS)] (uint64). Raises InvalidPlan as `instances`."""
        live = np.zeros((len(self.schedule), len(c.KINDS)), np.uint64)
        c.check_status(c.lib.neap_plan_profile(self.step._handle, self._handle, c.address(live)))
        return live

    def __repr__(self) -> str:
        return (
            f"<neap.Plan of {self.graph!r} by {self.planner}: {format_bytes(self.peak_bytes)}, "
            f"+{100 * self.overhead:.1f} %, {self.recomputed} of {len(self.schedule)} runs again>"
        )

    # ---- Files ----

    @classmethod
    def read(cls, path: Path_, step: Step) -> Plan:
        """Reads a plan file (JSON) for a step. Does not check the plan against the step: `neap.check` does.

        Raises OSError if the file cannot be read, and BadFormat, which names the field and its place.
        """
        root = read_json(path, "neap-plan")
        graph, planner = root.string("graph"), root.string("planner")
        names = {"resident_bytes": "resident_bytes", "live_peak_bytes": "peak_bytes", "arena_bytes": "arena_bytes"}
        figures = {field: root.size(name) for field, name in names.items()}
        costs = {name: root.number(name) for name in ("cost", "base_cost")}
        schedule = np.array(root.ids("schedule"), np.int32)
        places = root.objects("instances")
        instances = np.empty(len(places), c.PLACEMENT)
        for i, place in enumerate(places):
            at, tensor = place.size("at"), place.need("tensor")
            if type(tensor) is not int or not -1 <= tensor < 2**31 or at >= 2**31:
                raise place.bad("", "'tensor' must be an id or -1 and 'at' a position")
            instances[i] = at, tensor, place.size("offset"), place.size("bytes")
        return cls(step, _create(graph, planner, schedule, instances, figures, costs), None, made=False)

    def write(self, path: Path_) -> None:
        """Writes a plan file, whole or not at all. Raises OSError if it cannot be written, and InvalidPlan as `instances`."""
        instances = self.instances
        columns = (instances[name].tolist() for name in ("first", "tensor", "offset", "bytes"))
        value = {
            "format": "neap-plan",
            "version": 1,
            "graph": self.graph,
            "planner": self.planner,
            "schedule": self.schedule.tolist(),
            "instances": [
                {"at": at, "tensor": tensor, "offset": offset, "bytes": size}
                for at, tensor, offset, size in zip(*columns, strict=True)
            ],
            "resident_bytes": self.resident_bytes,
            "peak_bytes": check(self.step, self).live_peak_bytes,
            "arena_bytes": self.arena_bytes,
            "cost": self.cost,
            "base_cost": self.base_cost,
        }
        write_json(path, value)

    # ---- Pictures ----

    def html(self) -> str:
        """Returns a self-contained page: memory over the step, and the map of the arena. Raises InvalidPlan as `instances`."""
        return page_of_plan(self)

    def _repr_html_(self) -> str:
        return frame(self.html())


def _create(
    graph: str,
    planner: str,
    schedule: np.ndarray,
    instances: np.ndarray,
    figures: dict[str, int],
    costs: dict[str, float],
) -> ctypes.c_void_p:
    arrays = c.PlanArrays(
        graph=graph.encode(errors="replace"),
        planner=planner.encode(errors="replace"),
        schedule=c.address(schedule),
        length=len(schedule),
        instances=c.address(instances),
        instance_count=len(instances),
        **figures,
        **costs,
    )
    handle = ctypes.c_void_p()
    c.check_status(c.lib.neap_plan_create(arrays, handle))
    return handle


def budget_bytes(step: Step, budget: Budget) -> int:
    """Returns a budget in the form of the library: bytes, 0 for "min", 2**64 - 1 for "max"."""
    size, fraction = parse(budget)
    return size if fraction is None else share(fraction, step.keep_all_bytes)


def checked_seconds(seconds: float) -> float:
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 0 <= seconds < math.inf:
        raise InvalidArgument(f"seconds must be a finite number of 0 or more (got {seconds!r})")
    return float(seconds)


def checked_work(work: int) -> int:
    if isinstance(work, bool) or not isinstance(work, int) or not 0 <= work < 2**63:
        raise InvalidArgument(f"least_work must be a whole number of 0 or more (got {work!r})")
    return work


def plan_with(
    step: Step,
    budget: Budget,
    planner: str,
    seconds: float,
    quick: bool,
    callback: ProgressCallback | None,
    line: Line | None,
    least_work: int = 0,
) -> Plan:
    if not isinstance(step, Step):
        raise InvalidArgument(f"step must be a neap.Step (got a {type(step).__name__})")
    if not isinstance(planner, str):
        raise InvalidArgument(f"planner must be a name (got {planner!r}); neap.planners() lists them")
    size = budget_bytes(step, budget)
    handle = make_plan(
        step._handle, size, planner, checked_seconds(seconds), bool(quick), checked_work(least_work), callback, line
    )
    return Plan(step, handle, None if size in (c.BUDGET_MIN, c.BUDGET_MAX) else size, made=True)


def plan(
    step: Step,
    budget: Budget,
    planner: str = "auto",
    *,
    seconds: float = 0.0,
    quick: bool = False,
    progress: ProgressCallback | bool | None = None,
    least_work: int = 0,
) -> Plan:
    """Plans a step inside a budget: returns the cheapest schedule found whose resident bytes and arena fit.

    - ``budget``: bytes; or "2GiB", "60%" of the bytes of keeping everything, "min" (the least that can be met), "max".
    - ``planner``: a name of `neap.planners`, or "auto": the best of all.
    - ``seconds``: above 0: a limit on the time of the search; the plan then depends on the machine. 0: the search has a
      fixed effort and gives the same plan on every machine.
    - ``quick``: returns any plan within the budget; if none is found, ``OverBudget.smallest`` is None.
    - ``least_work``: above 0: limits the work of finding the least budget, in moves of a node, of which a core makes some
      millions a second; the plan is the same on every machine. The least that is found is met, but more work may find a
      lower one. 0: the work depends on the size of the step alone.
    - ``progress``: True: shows progress in a line on standard error, if that is a terminal. A function: is called on
      another thread a few times a second with (seconds, cost of the best plan so far, whether it keeps the budget). An
      exception that it raises ends planning and is raised here.

    Offsets are multiples of 64 bytes if all sizes are, else of a smaller power of two that divides all sizes. Raises
    OverBudget (with ``smallest``), InvalidArgument, MemoryError, and KeyboardInterrupt within a second of Ctrl-C.
    """
    line = Line(step.base_cost, seconds) if progress is True and isinstance(step, Step) else None
    try:
        return plan_with(
            step, budget, planner, seconds, quick, progress if callable(progress) else None, line, least_work
        )
    finally:
        if line is not None:
            line.clear()


def check(step: Step, plan: Plan) -> CheckResult:
    """Checks that a plan is valid for a step, by the rules of the file formats alone. Raises nothing for an invalid plan.

    The checker shares no code with the planners.
    """
    result = c.CheckResult()
    status = c.lib.neap_plan_check(step._handle, plan._handle, result)
    if status not in (c.OK, c.INVALID_PLAN):
        c.check_status(status)
    return CheckResult(
        valid=result.valid,
        live_peak_bytes=result.live_peak_bytes,
        cost=result.cost,
        position=result.position if result.position >= 0 else None,
        reason="" if result.valid else result.reason.decode(errors="replace"),
        stored_bytes=result.stored_bytes,
        restored_bytes=result.restored_bytes,
    )
