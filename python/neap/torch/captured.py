"""Steps with one list of calls: captured at a few shapes, run at all shapes, in one memory, by plans of larger shapes."""

from __future__ import annotations

import contextlib
import dataclasses
import warnings
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import torch
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree

import neap
from neap._budget import parse as parse_budget

from . import allocator, measure
from .advice import shown
from .assemble import Assembly, Gradient, Work, assemble
from .decisions import DECIDING
from .family import Template, numbers_of, places_of
from .fuse import Group, fuse
from .graph import CannotTrace, Given, Graph, View, build_graph, mark_passes
from .memory import view_bytes
from .program import ArenaProgram, DropProgram, Program, Resident
from .swap import Left
from .trace import Capture, clip_coefficient, fake_mode_of, known_results
from .updates import Update, hooks_of, measure_update, update_key

if TYPE_CHECKING:
    from .compile_step import CompiledStep

CHEAP = 0.02  # overhead below which a plan of a larger shape serves any smaller one
REPLAN = 0.7  # a shape that needs less than this share of a planned larger one gets its own plan otherwise


def least_serving(plans: Iterable[Any], sizes: list[int], replan: float) -> Any:
    """Returns the least of the plans (.sizes, .plan) for shapes of which no storage is smaller than `sizes`; None if no plan is for one, or
    if a plan of its own is worth it."""
    serving = [p for p in plans if all(a <= b for a, b in zip(sizes, p.sizes, strict=True))]
    least = min(serving, key=lambda p: sum(p.sizes), default=None)
    if least is not None and sum(sizes) < replan * sum(least.sizes) and least.plan.overhead > CHEAP:
        return None
    return least


@dataclasses.dataclass
class Planned:
    """A plan for one shape, which serves all shapes that are not larger. keep_all: bytes of keeping everything."""

    vector: list[Any]
    graph: Graph
    costs: list[measure.Cost]
    body: Assembly
    plan: neap.Plan
    bypass: int
    output_bytes: int

    def __post_init__(self) -> None:
        self.sizes = [s.bytes for s in self.graph.storages]

    @property
    def keep_all(self) -> int:
        return self.body.step.keep_all_bytes

    @property
    def bytes(self) -> int:
        return self.plan.resident_bytes + self.plan.arena_bytes


@dataclasses.dataclass
class Ending:
    """The work after the last micro-batch: the norm of the sums of gradients, and the updates."""

    graph: Graph
    scale: View | None  # factor of the gradients
    norm: View | None  # of the gradients, before clipping
    body: Assembly
    plan: neap.Plan
    program: Program | None = None

    def close(self) -> None:
        """Frees the program, since the sums of gradients or the memory move. The next run binds a new one."""
        if self.program is not None:
            self.program.close()
            self.program = None


class Ready:
    """A step of one shape, bound to the memory and ready to run."""

    def __init__(self, steps: Steps, planned: Planned, graph: Graph, vector: list[Any]):
        self.steps, self.planned, self.graph, self.vector = steps, planned, graph, vector
        tensors = steps.resident_tensors(graph)
        self.resident = Resident(graph, tensors)
        self.outputs = steps.outputs_of(graph)
        self.program = steps.bind(planned.body, planned.plan, self.resident, self.outputs, not steps.cut)
        self.input_views = graph.inputs[len(steps.owner.parameters) + len(steps.owner.buffers) :]
        self.left: list[Left] = []  # what it leaves behind in the user's objects
        self.heap_peak: int | None = None  # bytes of the first run outside PyTorch's allocator

    def run(
        self, inputs: list[torch.Tensor], numbers: tuple[int | float, ...], first: Any, after: Any
    ) -> tuple[torch.Tensor, Any, list[Any]]:
        """Runs one part of a step; returns its loss, its count and its extras' leaves. numbers: those of the batch."""
        graph = self.graph
        self.resident.numbers = numbers
        self.resident.inputs = {
            graph.tensors[v.tensor].storage: t for v, t in zip(self.input_views, inputs, strict=True)
        }
        self.results = None
        self.steps.owner.again = self._again
        self.steps.owner.keep_buffers(self.steps.undone)
        try:
            self.program.run(first, after, self.heap_peak is None)
            return self.results or self._results()
        finally:
            self.resident.inputs = {}

    def _results(self) -> tuple[torch.Tensor, Any, list[Any]]:
        out = self.outputs
        number = lambda v: self.resident.bind(v) if isinstance(v, Given) else v  # noqa: E731
        take = lambda v: self.program.output(v).clone() if isinstance(v, View) else number(v)  # noqa: E731
        if out.norm is not None:
            self.steps.owner.gradient_norm = take(out.norm)
        return take(out.loss), take(out.count), [take(v) for v in out.extras]

    def _again(self, gradients: list[torch.Tensor]) -> torch.Tensor:
        """Computes the gradients once more, for the closure of an optimizer. The results of the step stay those of the first time."""
        self.results = self.results or self._results()
        with measure.below_autograd():
            self.program.again(gradients)
        return self.program.output(self.outputs.loss).clone()

    def close(self) -> None:
        self.program.close()


@dataclasses.dataclass
class Outputs:
    """The results of a graph, as views."""

    loss: View
    count: View | None
    extras: list[Any]
    gradients: list[View | None]  # by `taken`
    clip: View | None
    norm: View | None


class Steps:
    """The steps of one skeleton. `taken`: positions among the owner's parameters, of those that are updated. `together`: for each
    update, which of `taken`: one each, or all of them if the optimizer runs whole."""

    def __init__(self, owner: CompiledStep, capture: Capture, cut: bool, numbers: tuple[int | float, ...]):
        self.owner, self.cut = owner, cut
        self.first_numbers = numbers  # of the batch that was captured first
        self.trainable, self.extras = capture.trainable, capture.extras
        self.extra_count, self.has_count, self.has_clip = (
            len(capture.extra_views),
            capture.count is not None,
            capture.clip is not None,
        )
        self.left = [left for left in capture.left if left.count]  # at a shape that was not captured
        self.with_gradient = {i for i, v in zip(capture.trainable, capture.gradients, strict=True) if v is not None}
        self.plans: list[Planned] = []
        self.ending: Ending | None = None
        self.given: list[list[int]] = []  # positions of each number of the batch in a vector, once proven
        self._measure_updates(capture)
        # Measuring corrects the graph where PyTorch's fake tensors are wrong.
        self.crooked: list[int] = []
        costs = self._costs(capture.graph, None, self.crooked)
        self.crooked += [i for i, c in enumerate(capture.graph.calls) if measure.call_key(c) in known_results]
        self.numbers = numbers_of(capture.graph)
        self.template = Template(capture.graph, self.numbers)
        self.groups: list[Group] | None = None  # of calls that are fused
        graph = self._fused(capture.graph)
        if graph is not capture.graph:
            costs = self._costs(graph)
        drawing = [call.kwargs.get("generator") for call in capture.graph.calls]
        self.generators = {g for g in drawing if g is not None}
        self.undone = self._undone(capture.graph)
        self.plans.append(self._plan(graph, self.numbers.vector, costs))

    def _undone(self, graph: Graph) -> list[int]:
        """Returns the positions of the buffers that a step changes before it may turn out to go another way."""
        if not any(call.target in DECIDING for call in graph.calls):
            return []
        changed = {graph.tensors[t].storage for t in graph.last.values() if graph.tensors[t].version > 0}
        for call in graph.calls:
            views = [call.args[i] for i in call.statistics or ()]
            changed |= {graph.tensors[v.tensor].storage for v in views if isinstance(v, View)}
        views = graph.inputs[len(self.owner.parameters) :][: len(self.owner.buffers)]
        return [i for i, v in enumerate(views) if v is not None and graph.tensors[v.tensor].storage in changed]

    # ---- Costs and results ----

    def _measure_updates(self, capture: Capture) -> None:
        owner = self.owner
        where = measure.machine(str(owner.parameters[0].device), torch.get_num_threads())
        kept = owner.updater.is_pytorch  # the code of other optimizers can change
        groups = owner.updater.groups()
        self.taken = [i for i in capture.trainable if i in self.with_gradient and id(owner.parameters[i]) in groups]
        if not self.taken:
            raise CannotTrace(
                "the optimizer has none of the parameters that take part in the loss; give it those that the model has now (load_state_dict(..., "
                "assign=True) gives it new ones)"
            )
        parameters = [owner.parameters[i] for i in self.taken]
        self.whole = owner.updater.whole_for(
            parameters
        )  # the reason; empty if the optimizer is taken parameter by parameter
        if self.whole:
            self._check_whole()
            order = {i: n for n, i in enumerate(capture.completed)}  # in which hooks of gradients run
            self.together = [sorted(range(len(self.taken)), key=lambda k: order.get(self.taken[k], len(order)))]
            with measure.heap_counted(self.parameters_device) as heap, shown(f"trying {self.whole.split(':')[0]}"):
                self.updates = [owner.updater.measured(parameters, owner.clip_norm is not None, heap)]
            owner.heap.note({"update": self.updates[0].cost})
            return
        self.together = [[k] for k in range(len(self.taken))]
        self.updates: list[Update] = []
        cache = measure.Cache()
        found = cache.find(where) if kept else {}
        known: dict[str, Update] = {}
        fresh: dict[str, Update] = {}
        try:
            with measure.heap_counted(self.parameters_device) as heap, torch.no_grad():
                for parameter in parameters:
                    key = update_key(owner.updater, parameter, groups[id(parameter)])
                    if key not in known and key in found:
                        known[key] = Update(**{**found[key], "cost": measure.Cost(**found[key]["cost"])})
                    elif key not in known:
                        known[key] = fresh[key] = measure_update(owner.updater, parameter, groups[id(parameter)], heap)
                    self.updates.append(known[key])
            if kept:
                cache.add(where, fresh)
        finally:
            cache.close()
        owner.heap.note({key: u.cost for key, u in known.items()})

    def _check_whole(self) -> None:
        """Raises CannotTrace for what an optimizer that runs whole cannot do in this step."""
        owner, taken = self.owner, set(self.taken)
        if self.cut and (owner.updater.takes_closure or owner.updater.hooked):
            raise CannotTrace(
                f"{self.whole}, in the middle of a step that is cut into micro-batches: use micro_batches=1, no gradient accumulation"
            )
        for i, (name, p) in enumerate(zip(owner.names, owner.parameters, strict=True)):
            if hooks_of(p) and i in self.with_gradient and i not in taken:
                raise CannotTrace(
                    f"parameter {name} has a hook for its gradient and is in no group of the optimizer: add it to one, or remove the hook"
                )

    def correct(self, graph: Graph) -> None:
        """Corrects a graph of this skeleton, captured at another shape, where fake tensors are wrong."""
        measure.correct(graph, self.crooked)

    def _costs(self, graph: Graph, like: Planned | None = None, crooked: list[int] | None = None) -> list[measure.Cost]:
        cache = measure.Cache()
        try:
            like_it = (like.graph, like.costs) if like is not None else None
            with shown(f"timing the calls of {self.owner.name}, {len(graph.calls)} with repeats"):
                costs = measure.measure(graph, cache, like_it, crooked, crooked is not None)
        finally:
            cache.close()
        self.owner.heap.note({measure.call_key(c): cost for c, cost in zip(graph.calls, costs, strict=True)})
        return costs

    def _fused(self, graph: Graph) -> Graph:
        """Returns the graph with each group of calls as one call, if the owner fuses; else the graph."""
        if not self.owner.fuse:
            return graph
        with shown(f"compiling groups of calls of {self.owner.name}"):
            fused, self.groups = fuse(graph, self.groups)
        return fused

    def outputs_of(self, graph: Graph) -> Outputs:
        out = graph.outputs
        first = 2 if self.has_count else 1
        gradients = dict(zip(self.trainable, out[first + self.extra_count :], strict=False))
        return Outputs(
            out[0], out[1] if self.has_count else None, out[first : first + self.extra_count],
            [gradients[i] for i in self.taken], *(out[-2:] if self.has_clip else (None, None)),
        )  # fmt: skip

    def lies_as(self, vector: list[Any], shapes: Any, strides: Any) -> bool:
        """Returns whether the batch's tensors have these shapes and strides by the numbers of a vector."""
        views = self.template.inputs_at(vector)[len(self.owner.parameters) + len(self.owner.buffers) :]
        return all(
            view is None or (view.size, view.stride) == (shape, stride)
            for view, shape, stride in zip(views, shapes, strides, strict=True)
        )

    def resident_tensors(self, graph: Graph) -> dict[int, torch.Tensor]:
        owner = self.owner
        tensors = {}
        for view, t in zip(graph.inputs, (*owner.parameters, *owner.buffers), strict=False):
            tensors[graph.tensors[view.tensor].storage] = t.detach()
        for number, storage in enumerate(graph.storages):
            if storage.role == "constant":
                tensors[number] = storage.source
        return tensors

    # ---- Plans ----

    def prove_numbers(self, points: list[tuple[tuple[int | float, ...], list[Any]]]) -> bool:
        """points: (numbers of the batch, vector of a capture with them). Returns whether numbers of the batch change nothing but
        arguments of calls; if so, each step passes its own numbers from now on."""
        places = places_of(points, self.template.plain_numbers()) if not self.owner.fuse else None
        self.given = places or []
        return places is not None

    def with_numbers(self, vector: list[Any], numbers: Any) -> list[Any]:
        """Returns the vector with these numbers of the batch."""
        vector = list(vector)
        for places, number in zip(self.given, numbers, strict=True):
            for position in places:
                vector[position] = number
        return vector

    def ready(self, vector: list[Any]) -> Ready:
        """Returns the step of a shape, bound to the memory."""
        graph = self.template.at(vector)
        sizes = [s.bytes for s in graph.storages]
        least = least_serving(self.plans, sizes, self.owner.replan)
        if least is None:
            graph = self._fused(self.template.at(vector, share=False))
            largest = max(self.plans, key=lambda p: p.keep_all, default=None)
            least = self._plan(graph, vector, self._costs(graph, largest))
            self.plans.append(least)
        if any(self.given):
            graph = self.template.at(self.with_numbers(vector, map(Given, range(len(self.given)))))
        elif least.vector == vector:
            graph = least.graph
        else:
            graph = self._fused(graph)
        return Ready(self, least, graph, vector)

    def _plan(self, graph: Graph, vector: list[Any], costs: list[measure.Cost]) -> Planned:
        owner = self.owner
        out = self.outputs_of(graph)
        names = [owner.names[i] for i in self.taken]
        returned = [v for v in (out.loss, out.count, *out.extras, out.norm) if isinstance(v, View)]
        output_bytes = sum(map(view_bytes, returned)) * (2 if self.cut else 1)
        bypass = owner.heap.bytes(len(costs))
        resident = [("outputs", output_bytes, "input"), ("outside PyTorch's allocator", bypass, "input")]
        if self.undone:
            sizes = [self.owner.buffers[i].untyped_storage().nbytes() for i in self.undone]
            resident.append(("buffers before the step", sum(sizes), "input"))
        beside = sum(u.beside for u in self.updates)
        if not self.cut:
            changes = [graph.inputs[i].tensor for i in self.taken]
            wanted, states = self._wanted(out.gradients, out.clip, changes)
            resident.append(("the optimizer's scratch", beside, "input"))
        else:
            sizes = [owner.parameters[i].untyped_storage().nbytes() for i in self.taken]
            wanted = [
                Gradient([v], "accumulate", None, [], _accumulation(n), f"{name} accumulate")
                for name, v, n in zip(names, out.gradients, sizes, strict=True)
            ]
            resident.append(("optimizer states", sum(u.state for u in self.updates) + beside, "state"))
            states = [[(f"{n} gradient", size)] for n, size in zip(names, sizes, strict=True)]
        in_place = allocator.steers(self.parameters_device)
        body = assemble(
            graph, costs, wanted, returned, in_place=in_place, states=states, resident=resident, name=owner.name
        )
        plan = self._plan_of(body.step)
        owner.tell_cost(body.step, plan)
        planned = Planned(vector, graph, costs, body, plan, bypass, output_bytes)
        if self.cut:
            self._end(planned)
        owner.grow_arena(
            max(plan.arena_bytes, self.ending.plan.arena_bytes if self.ending else 0), self.parameters_device
        )
        return planned

    def _wanted(
        self, gradients: list[View], scale: View | None, changes: list[int]
    ) -> tuple[list[Gradient], list[list[tuple[str, int]]]]:
        """Returns the updates, and (name, bytes) of the states that each changes. changes: the parameters' tensors in the graph."""
        wanted, states = [], []
        for some, update in zip(self.together, self.updates, strict=True):
            name = "optimizer" if self.whole else self.owner.names[self.taken[some[0]]]
            own, changed = [gradients[k] for k in some], [changes[k] for k in some]
            cost = _scaled(update.cost, scale)
            wanted.append(Gradient(own, "update", scale, changed, cost, f"{name} update", bool(self.whole)))
            states.append([(f"{name} state", update.state)] if update.state else [])
        return wanted, states

    def _plan_of(self, step: neap.Step) -> neap.Plan:
        """Plans a step within the budget. With a share or "min", the plan may take the memory that other shapes use already, even
        if their calls are different (a loop over time has other calls at each length)."""
        owner = self.owner
        there = max((p.bytes for p in (*self.plans, *owner.all_plans())), default=0)
        _, fraction = parse_budget(owner.budget)
        if there and (fraction is not None or owner.budget == "min"):
            share = int((fraction or 0) * step.keep_all_bytes)
            with contextlib.suppress(neap.OverBudget):
                return owner.plan_of(step, max(share, min(there, step.keep_all_bytes)))
        return owner.plan_of(step, owner.budget)

    @property
    def parameters_device(self) -> torch.device:
        return self.owner.parameters[0].device

    def _end(self, planned: Planned) -> None:
        """Plans the work after the last micro-batch, together with all bytes that exist then."""
        owner = self.owner
        if self.ending is not None and self.ending.plan.resident_bytes >= planned.plan.resident_bytes:
            return
        if self.ending is not None:
            self.ending.close()
        graph, scale, norm = self._end_graph()
        cache = measure.Cache()
        costs = measure.measure(graph, cache)
        cache.close()
        sizes = [owner.parameters[i].untyped_storage().nbytes() for i in self.taken]
        gradients = graph.inputs[: len(self.taken)]
        wanted, states = self._wanted(gradients, scale, [v.tensor for v in gradients])
        rest = planned.body.step.resident_bytes - sum(sizes) - sum(u.state for u in self.updates)
        body = assemble(
            graph, costs, wanted, [norm] if norm else [], in_place=allocator.steers(self.parameters_device), states=states,
            resident=[("the rest", max(rest, 0), "input")], name=f"{owner.name}-end",
        )  # fmt: skip
        budget = owner.budget
        if budget not in ("min", "max"):
            budget = max(planned.bytes, owner.budget_bytes(planned.body.step, planned.bytes))
        try:
            plan = owner.plan_of(body.step, planned.bytes if budget == "min" else budget)
        except neap.OverBudget as error:
            if owner.budget != "min":
                raise
            plan = owner.plan_of(body.step, error.smallest)
        self.ending = Ending(graph, scale, norm, body, plan)

    def _end_graph(self) -> tuple[Graph, View | None, View | None]:
        """Returns a graph of the sums of gradients (and with a Sum, of the counts' sum), the gradients' factor, and their norm."""
        parameters = [self.owner.parameters[i] for i in self.taken]
        mode = fake_mode_of([])
        fakes = [mode.from_tensor(p.detach()) for p in parameters]
        norm = self.owner.clip_norm
        with mode:
            count = torch.zeros((), dtype=torch.float64, device=self.parameters_device) if self.has_count else None
            counts = [] if count is None else [count]

        def end(*values: torch.Tensor) -> list[torch.Tensor]:
            gradients, count = list(values[: len(fakes)]), values[len(fakes) :]
            whole = [c.reciprocal().float() for c in count]
            if norm is None:
                return whole
            total = torch.nn.utils.get_total_norm(gradients, 2.0)
            if not whole:
                return [clip_coefficient(total, norm), total]
            total = total * whole[0]
            return [clip_coefficient(total, norm) * whole[0], total]

        with mode, torch.no_grad():
            module = make_fx(end, tracing_mode="real")(*fakes, *counts)
        roles = [("state", f"gradient {i}") for i in range(len(fakes))] + [("state", "count") for _ in counts]
        graph = build_graph(module, roles)
        mark_passes(graph, [])
        return graph, graph.outputs[0] if graph.outputs else None, graph.outputs[1] if norm is not None else None

    # ---- Binding ----

    def bind(
        self, body: Assembly, plan: neap.Plan, resident: Resident, outputs: Outputs | None, updates: bool
    ) -> Program:
        owner = self.owner
        gradients, scale = (
            (outputs.gradients, outputs.clip) if outputs is not None else (resident.graph.inputs, self.ending.scale)
        )

        def taken(work: Work) -> tuple[list[View], View | None]:
            some = [work.index] if work.kind == "accumulate" else self.together[work.index]
            return [gradients[k] for k in some], scale if work.kind == "update" else None

        def kept(k: int) -> tuple[list[int], list[int]]:
            """Returns number and size of the allocations that the first update keeps: a factor of another type is cast before them."""
            update = self.updates[k]
            casts = scale is not None and scale.dtype != owner.parameters[self.taken[self.together[k][0]]].dtype
            return [n + casts for n in update.first_kept], update.first_sizes

        first_kept = {n: kept(w.index) for n, w in enumerate(body.works) if updates and w.kind == "update"}
        if owner.arena is None:
            program: Program = DropProgram(body, plan, resident, taken, self.take)
        else:
            program = ArenaProgram(body, plan, resident, taken, self.take, first_kept, owner.arena)
        program.begin = owner.begin
        return program

    def take(self, work: Work, gradients: list[torch.Tensor], scale: torch.Tensor | None = None) -> int | None:
        """Adds a gradient to its sum, or runs an update; returns the bytes that a whole one holds beyond the plan."""
        owner = self.owner
        if work.kind == "accumulate":
            sums = owner.accumulators[work.index]
            sums.copy_(gradients[0]) if owner.micro_batch == 0 else sums.add_(gradients[0])
            return None
        parameters = [owner.parameters[self.taken[k]] for k in self.together[work.index]]
        owner.drop_gradients()
        if not owner.updater.hooked:
            self._clip(gradients, scale)
        with owner.dispatched():
            if not self.whole:
                with torch.no_grad():
                    owner.updater.update(parameters[0], owner.updater.groups_now[id(parameters[0])], gradients[0])
                return None
            planned = self.updates[0].state + self.updates[0].beside
            clip = self._clip_after_hooks if owner.updater.hooked else None
            return owner.updater.update_all(parameters, gradients, clip, owner.again, planned)

    def _clip(self, gradients: list[torch.Tensor], scale: torch.Tensor | None) -> None:
        value = self.owner.clip_value
        for gradient in gradients:
            if scale is not None:
                gradient.mul_(scale)
            if value is not None:
                gradient.clamp_(-value, value)

    def _clip_after_hooks(self) -> None:
        """Clips the gradients as a training loop does, where hooks may have changed them."""
        parameters = [self.owner.parameters[i] for i in self.taken]
        if self.owner.clip_norm is not None:
            self.owner.gradient_norm = torch.nn.utils.clip_grad_norm_(parameters, self.owner.clip_norm)
        self._clip([p.grad for p in parameters if p.grad is not None], None)

    def is_first(self, work: Work) -> bool:
        """Returns whether this update makes the optimizer's states."""
        return not self.whole and not self.owner.updater.has_state(self.owner.parameters[self.taken[work.index]])

    def run_end(self, count: torch.Tensor | None, after: Callable[[int], None] | None) -> None:
        owner, ending = self.owner, self.ending
        if ending.program is None:
            self.count = torch.zeros((), dtype=torch.float64, device=self.parameters_device)
            held = [*owner.accumulators, *([self.count] if self.has_count else [])]
            tensors = {
                ending.graph.tensors[v.tensor].storage: t for v, t in zip(ending.graph.inputs, held, strict=True)
            }
            ending.program = self.bind(ending.body, ending.plan, Resident(ending.graph, tensors), None, True)
        if count is not None:
            self.count.copy_(count)
        ending.program.run(self.is_first)
        if ending.norm is not None:
            owner.gradient_norm = ending.program.output(ending.norm).clone()

    # ---- After the first run of a shape ----

    def replan(self, ready: Ready) -> bool:
        """Plans again, with measured bytes, if the first run allocated more than planned. Returns whether it did."""
        owner, planned = self.owner, ready.planned
        scratch = dict(ready.program.unplanned_calls)
        if self.ending is not None and self.ending.program is not None:
            scratch |= self.ending.program.unplanned_calls
        excess = ready.heap_peak + owner.heap.kept - planned.bypass
        arena = max(planned.plan.arena_bytes, self.ending.plan.arena_bytes if self.ending else 0)
        peak = planned.plan.resident_bytes + arena
        over = peak + excess > owner.budget_bytes(planned.body.step, peak)
        over = excess > 0 and over and owner.budget != "max"
        if not scratch and not over:
            return False
        if over:
            owner.heap.most = max(owner.heap.most, ready.heap_peak + owner.heap.kept)
        more = scratch.get("update", 0)
        for update in {id(u): u for u in self.updates}.values() if more else ():
            if self.whole:
                update.beside += more
            else:
                update.cost.scratch += more
        if ready.graph is planned.graph:
            costs = [
                dataclasses.replace(cost, scratch=cost.scratch + scratch[str(call.target)]) if str(call.target) in scratch else cost
                for call, cost in zip(ready.graph.calls, planned.costs, strict=True)
            ]  # fmt: skip
            told = [
                f"the heap outside PyTorch's allocator {max(excess, 0)} bytes",
                *(f"{n} {b} bytes" for n, b in scratch.items()),
            ]
            warnings.warn(
                f"neap: more was allocated in the first step than planned; the step is planned again: {', '.join(told)}",
                stacklevel=6,
            )
        else:  # a shape that ran by a larger one's plan gets its own
            costs = self._costs(self._fused(self.template.at(ready.vector)))
        if over:
            self.plans.clear()
        elif ready.graph is planned.graph:
            self.plans.remove(planned)
        graph = (
            planned.graph if ready.graph is planned.graph else self._fused(self.template.at(ready.vector, share=False))
        )
        self.plans.append(self._plan(graph, ready.vector, costs))
        return True


def _scaled(cost: measure.Cost, scale: View | None) -> measure.Cost:
    """Returns the cost of an update that scales its gradient first: the scale may be cast to the gradient's type."""
    return dataclasses.replace(cost, scratch=cost.scratch + 128) if scale is not None else cost


def _accumulation(size: int) -> measure.Cost:
    return measure.Cost(measure.SECONDS_A_CALL + 3 * size / measure.BYTES_PER_SECOND)


def extras_of(tree: Any, leaves: list[Any]) -> Any:
    return pytree.tree_unflatten(leaves[: tree.num_leaves], tree)


def leave_behind(lefts: list[Left], values: list[Any]) -> None:
    """Puts the last tensors of a step's results where loss_fn would leave them."""
    at = len(values) - sum(left.count for left in lefts)
    for left in lefts:
        left.make(values[at : at + left.count])
        at += left.count
