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
    """What the independent checker says of a plan."""

    valid: bool
    live_peak_bytes: int
    """Resident bytes + the largest live bytes at a position: without gaps in the arena."""
    cost: float
    position: int | None
    """In the schedule, where a rule is broken; None: nowhere in particular."""
    reason: str
    """The rule that is broken; empty where none is."""

    def __bool__(self) -> bool:
        return self.valid


class Plan:
    """A schedule for a step, and where every value lies. Made by `neap.plan` and `Plan.read`; immutable.

    A budget is held against ``peak_bytes``, which is ``resident_bytes + arena_bytes``. (In a plan *file*
    ``peak_bytes`` is what `neap.check` gives as ``live_peak_bytes``: without gaps in the arena.)
    """

    def __init__(self, step: Step, handle: ctypes.c_void_p, budget: int | None, made: bool) -> None:
        self.step = step
        self._handle = handle
        self._free = weakref.finalize(self, c.lib.neap_plan_free, handle)
        self._free.atexit = False
        info = c.PlanInfo()
        c.lib.neap_plan_describe(handle, info)
        self.graph: str = info.graph.decode(errors="replace")
        """The name of the step that it was made for."""
        self.planner: str = info.planner.decode(errors="replace")
        """The planner that found it."""
        self.peak_bytes: int = info.peak_bytes
        """resident_bytes + arena_bytes: what a budget is held against."""
        self.resident_bytes: int = info.resident_bytes
        """Bytes of inputs, parameters and states, which are not in the arena."""
        self.arena_bytes: int = info.arena_bytes
        """Bytes that all offsets and sizes lie inside."""
        self.cost: float = info.cost
        """The sum over the schedule, in the unit of the step's costs."""
        self.base_cost: float = info.base_cost
        """The sum over the nodes, each once."""
        self.recomputed: int = info.recomputed
        """Positions of the schedule that run a node again."""
        self.lower_bound_bytes: int | None = info.lower_bound_bytes if made else None
        """No plan, whatever its budget, takes fewer bytes; None: not known, the plan was read."""
        self.cost_lower_bound: float | None = info.cost_lower_bound if made and info.cost_lower_bound > 0 else None
        """No plan within the budget costs less; None: not known."""
        self.seconds: float | None = info.seconds if made else None
        """What planning took; None: the plan was read."""
        self.proven_optimal: bool = info.proven_optimal
        """No plan within the budget costs less."""
        self.budget: int = budget if budget is not None else self.peak_bytes
        """Bytes that were asked for; those that it takes where "min" or "max" was, or where it was read."""

    @property
    def overhead(self) -> float:
        """cost / base_cost - 1: 0.2 where recomputation takes a fifth of the step's time more."""
        return max(0.0, self.cost / self.base_cost - 1) if self.base_cost > 0 else 0.0

    @cached_property
    def schedule(self) -> np.ndarray:
        """Node ids (int32) in the order they run; one that stands twice is recomputed."""
        length = ctypes.c_int64()
        pointer = c.lib.neap_plan_schedule(self._handle, length)
        schedule = c.copy_array(pointer, length.value, np.dtype(np.int32))
        schedule.flags.writeable = False
        return schedule

    @cached_property
    def instances(self) -> np.ndarray:
        """All values made, in the order of the schedule: a node's outputs in their order, then its workspace.

        A structured array: ``tensor`` (-1: workspace), ``first`` and ``last`` (positions: it is made, it is read last),
        ``in_place`` (at ``first`` it lies in the bytes of an input that it takes over), ``kind`` (an index of
        `neap.KINDS`), ``offset`` and ``bytes`` in the arena. InvalidPlan where the plan, which was read, is not valid.
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
        """Live bytes at each position, by kind: [positions, len(neap.KINDS)]. InvalidPlan as `instances`."""
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
        """Reads a plan file (JSON) for a step. Whether it is valid for that step is for `neap.check` to say.

        OSError where it cannot be read; BadFormat names the field and its place.
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
        """Writes a plan file, whole or not at all. OSError where that is not possible; InvalidPlan as `instances`."""
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
        """A self-contained page: memory over the step, and the map of the arena. InvalidPlan as `instances`."""
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
    """A budget as the library takes it: bytes, 0 for "min", 2**64 - 1 for "max"."""
    size, fraction = parse(budget)
    return size if fraction is None else share(fraction, step.keep_all_bytes)


def checked_seconds(seconds: float) -> float:
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 0 <= seconds < math.inf:
        raise InvalidArgument(f"seconds: {seconds!r} is not a time of 0 or more")
    return float(seconds)


def plan_with(
    step: Step,
    budget: Budget,
    planner: str,
    seconds: float,
    quick: bool,
    callback: ProgressCallback | None,
    line: Line | None,
) -> Plan:
    if not isinstance(step, Step):
        raise InvalidArgument(f"step: {type(step).__name__} is not a neap.Step")
    if not isinstance(planner, str):
        raise InvalidArgument(f"planner: {planner!r} is not a name; see neap.planners()")
    size = budget_bytes(step, budget)
    handle = make_plan(step._handle, size, planner, checked_seconds(seconds), bool(quick), callback, line)
    return Plan(step, handle, None if size in (c.BUDGET_MIN, c.BUDGET_MAX) else size, made=True)


def plan(
    step: Step,
    budget: Budget,
    planner: str = "auto",
    *,
    seconds: float = 0.0,
    quick: bool = False,
    progress: ProgressCallback | bool | None = None,
) -> Plan:
    """Plans a step inside a budget: the cheapest schedule found whose resident bytes and arena fit.

    - ``budget``: bytes; or "2GiB", "60%" of what keeping everything takes, "min" (the least that can be met), "max".
    - ``planner``: a name of `neap.planners`, or "auto": the best of all.
    - ``seconds``: above 0: the search goes on for so long at the most, and what it finds depends on the machine. 0: an
      effort of its own, and the same plan on every machine.
    - ``quick``: any plan within the budget will do; where none is found ``OverBudget.smallest`` is None.
    - ``progress``: True: a line on standard error tells how it goes, where that is a terminal; or a function, called
      on another thread a few times a second with (seconds, cost of the best so far, whether that keeps the budget).
      What it raises ends planning and is raised here.

    Offsets are multiples of 64 bytes where all sizes are, else of what divides all sizes. Raises OverBudget (with
    ``smallest``), InvalidArgument, MemoryError; KeyboardInterrupt within a second where Ctrl-C is pressed meanwhile.
    """
    line = Line(step.base_cost, seconds) if progress is True and isinstance(step, Step) else None
    try:
        return plan_with(step, budget, planner, seconds, quick, progress if callable(progress) else None, line)
    finally:
        if line is not None:
            line.clear()


def check(step: Step, plan: Plan) -> CheckResult:
    """Is the plan valid for the step, by the rules of the file formats alone? Raises nothing for one that is not.

    The checker shares no code with what makes plans.
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
    )
