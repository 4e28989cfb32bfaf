"""A whole training step inside a budget: forward, loss, gradients and update."""

from __future__ import annotations

import dataclasses
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree

import neap
from neap._budget import parse as parse_budget

from . import allocator, measure
from .assemble import Assembly, Gradient, Work, assemble
from .graph import CannotTrace, Graph, View, build_graph, mark_passes
from .program import Arena, ArenaProgram, DropProgram, Program, Resident
from .trace import clip_coefficient, fake_mode_of, trace_step, unique_named
from .updates import Update, Updater, measure_update, update_key

# Bytes of the heap that Python itself takes in a step, and what is not seen when calls run alone; and for each call.
HEAP_SLACK, HEAP_SLACK_A_CALL = 256 << 10, 512


@dataclasses.dataclass
class Memory:
    """Where a step's bytes go. What a budget is held against is `planned_peak_bytes` = `resident_bytes` + `arena_bytes`.

    enforced: every allocation had its planned address so far; where False, `why` says why and the bytes are planned, not
    enforced. measured_peak_bytes: resident bytes, the highest byte of the arena that was given, and what was allocated beside
    the plan; 0 before the first step. bypass_bytes (part of `resident_bytes`): what oneDNN, MKL and others take from the heap
    beside PyTorch's allocator, as measured. overhead: of the planned step, in seconds of its calls, over keeping everything."""

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


class ModelChanged(RuntimeError):
    """The model is not the one that was compiled any more."""


def _specification(leaf: Any) -> Any:
    if isinstance(leaf, torch.Tensor):
        return (tuple(leaf.shape), tuple(leaf.stride()), leaf.dtype, str(leaf.device), leaf.requires_grad)
    return leaf if isinstance(leaf, (int, float, str, bool, type(None))) else id(leaf)


def _scalars(module: nn.Module) -> tuple[Any, ...]:
    """Numbers and texts that a module holds (a dropout's p): the captured step has them built in."""
    return (
        id(module),
        *((k, v) for k, v in module.__dict__.items() if type(v) in (int, float, str, bool) and k != "training"),
    )


def _storages(tensors: list[torch.Tensor]) -> int:
    """Bytes of the storages of tensors, each once."""
    return sum({t.untyped_storage()._cdata: t.untyped_storage().nbytes() for t in tensors}.values())


class _Compiled:
    """The programs for one signature of the batch."""

    def __init__(self, owner: CompiledStep, batch: tuple[Any, ...]):
        self.owner = owner
        for name, t in (*owner.model.named_parameters(), *owner.model.named_buffers()):
            if t.device.type == "meta" or isinstance(t, FakeTensor):
                raise CannotTrace(f"{name} has no memory (device {t.device}): only neap.torch.plan takes such a model")
        self.capture = trace_step(
            owner.model,
            owner.loss_fn,
            batch,
            divide=owner.micro_batches,
            clip_norm=owner.clip_norm if owner.micro_batches == 1 else None,
        )
        self.parameters = [p for _, p in self.capture.parameters]
        self.addresses = self._addresses()
        self._measure()
        self._assemble()
        self._plan()
        self._build()

    # ---- What there is ----

    def _addresses(self) -> list[Any]:
        tensors = [t for _, t in (*self.capture.parameters, *self.capture.buffers)]
        return [(t.data_ptr(), t.shape, t.stride(), t.dtype, t.requires_grad) for t in tensors]

    def _measure(self) -> None:
        owner, capture = self.owner, self.capture
        cache = measure.Cache()
        try:
            self.costs = measure.measure(capture.graph, cache)
            groups = owner.updater.groups()
            updates = self._measure_updates(cache, groups)
        finally:
            cache.close()
        self.groups = [groups[id(self.parameters[i])] for i in self.taken]
        self.with_gradient = {i for i, v in zip(capture.trainable, capture.gradients, strict=True) if v is not None}
        if not self.taken:
            raise CannotTrace("the optimizer has none of the parameters that take part in the loss")
        keys = {measure.call_key(c): cost for c, cost in zip(capture.graph.calls, self.costs, strict=True)}
        all_costs = [*keys.values(), *(u.cost for u in updates.values())]
        self.bypass = max((c.bypass for c in all_costs), default=0) + sum(c.retained for c in all_costs) + HEAP_SLACK
        self.bypass += HEAP_SLACK_A_CALL * len(self.costs)
        self.heap_peak: int | None = None  # of the first step, beside PyTorch's allocator

    def _measure_updates(self, cache: measure.Cache, groups: dict[int, dict[str, Any]]) -> dict[str, Update]:
        """Fills `taken` and `updates`; gives the distinct ones."""
        owner, capture = self.owner, self.capture
        where = measure.machine(str(self.parameters[0].device), torch.get_num_threads())
        kept = owner.updater.is_pytorch  # of others the code can change
        found = cache.find(where) if kept else {}
        self.taken: list[int] = []  # positions among the parameters whose gradients are taken
        self.updates: list[Update] = []
        known: dict[str, Update] = {}
        fresh: dict[str, Update] = {}
        with measure.heap_counted() as heap, torch.no_grad():
            for position, view in zip(capture.trainable, capture.gradients, strict=True):
                parameter = self.parameters[position]
                if view is None or id(parameter) not in groups:
                    continue
                key = update_key(owner.updater, parameter, groups[id(parameter)])
                if key not in known and key in found:
                    known[key] = Update(**{**found[key], "cost": measure.Cost(**found[key]["cost"])})
                elif key not in known:
                    known[key] = fresh[key] = measure_update(owner.updater, parameter, groups[id(parameter)], heap)
                self.taken.append(position)
                self.updates.append(known[key])
        if kept:
            cache.add(where, fresh)
        return known

    # ---- The steps ----

    def _assemble(self) -> None:
        owner, capture = self.owner, self.capture
        names = [capture.parameters[i][0] for i in self.taken]
        views = {i: v for i, v in zip(capture.trainable, capture.gradients, strict=True)}
        gradients = [views[i] for i in self.taken]
        states = [[(f"{n} state", u.state)] if u.state else [] for n, u in zip(names, self.updates, strict=True)]
        outputs = [capture.loss, *(v for v in capture.extra_views if isinstance(v, View))]
        self.output_bytes = (
            2 * sum(_bytes_of_view(v) for v in outputs if not isinstance(v, int))
            if owner.micro_batches > 1
            else sum(map(_bytes_of_view, outputs))
        )
        resident = [("outputs", self.output_bytes, "input"), ("outside PyTorch's allocator", self.bypass, "input")]
        where = {i: capture.graph.inputs[i].tensor for i in self.taken}
        self.end: Assembly | None = None
        if owner.micro_batches == 1:
            wanted = [
                Gradient(v, "update", capture.clip, where[i], u.cost, f"{n} update")
                for n, i, v, u in zip(names, self.taken, gradients, self.updates, strict=True)
            ]
            self.body = assemble(
                capture.graph, self.costs, wanted, outputs, states=states, resident=resident, name=owner.name
            )
            return
        sizes = [self.parameters[i].untyped_storage().nbytes() for i in self.taken]
        wanted = [
            Gradient(
                v,
                "accumulate",
                None,
                -1,
                measure.Cost(measure.SECONDS_A_CALL + 3 * n / measure.BYTES_PER_SECOND),
                f"{name} accumulate",
            )
            for name, v, n in zip(names, gradients, sizes, strict=True)
        ]
        accumulators = [[(f"{n} gradient", size)] for n, size in zip(names, sizes, strict=True)]
        rest = [("optimizer states", sum(u.state for u in self.updates), "state")]
        self.body = assemble(
            capture.graph, self.costs, wanted, outputs, states=accumulators, resident=resident + rest, name=owner.name
        )
        graph, clip = self._end_graph()
        cache = measure.Cache()
        costs = measure.measure(graph, cache)
        cache.close()
        wanted = [
            Gradient(v, "update", clip, -1, u.cost, f"{n} update")
            for n, v, u in zip(names, graph.inputs, self.updates, strict=True)
        ]
        changed = [[(n, size), *state] for n, size, state in zip(names, sizes, states, strict=True)]
        missing = self.body.step.resident_bytes - 2 * sum(sizes) - sum(u.state for u in self.updates)
        self.end = assemble(
            graph,
            costs,
            wanted,
            [],
            states=changed,
            resident=[("the rest", max(missing, 0), "input")],
            name=f"{owner.name}-end",
        )

    def _end_graph(self) -> tuple[Graph, View | None]:
        """What happens between the last micro-batch and the updates: the norm of the accumulated gradients."""
        parameters = [self.parameters[i] for i in self.taken]
        mode = fake_mode_of([])
        fakes = [mode.from_tensor(p.detach()) for p in parameters]
        norm = self.owner.clip_norm

        def end(*gradients: torch.Tensor) -> list[torch.Tensor]:
            return [clip_coefficient(list(gradients), norm)] if norm is not None else []

        with mode, torch.no_grad():
            module = make_fx(end, tracing_mode="real")(*fakes)
        graph = build_graph(module, [("state", f"gradient {i}") for i in range(len(fakes))])
        mark_passes(graph, [])
        return graph, graph.outputs[0] if norm is not None else None

    # ---- Plans ----

    def _plan(self) -> None:
        owner = self.owner
        self.keep_all = self.body.step.keep_all_bytes
        self.plan = owner.plan_of(self.body.step, owner.budget)
        self.end_plan = None
        if self.end is not None:
            budget = owner.budget
            if budget not in ("min", "max"):
                budget = max(self.plan.resident_bytes + self.plan.arena_bytes, owner.budget_bytes(self.body.step))
            try:
                self.end_plan = owner.plan_of(
                    self.end.step, budget if budget != "min" else self.plan.resident_bytes + self.plan.arena_bytes
                )
            except neap.OverBudget as error:
                if owner.budget != "min":
                    raise
                self.end_plan = owner.plan_of(self.end.step, error.smallest)

    def _build(self) -> None:
        capture = self.capture
        tensors = {}
        for view, (_, t) in zip(capture.graph.inputs, (*capture.parameters, *capture.buffers), strict=False):
            tensors[capture.graph.tensors[view.tensor].storage] = t.detach()
        for number, storage in enumerate(capture.graph.storages):
            if storage.role == "constant":
                tensors[number] = storage.source
        self.resident = Resident(self.body, tensors)
        size = max(self.plan.arena_bytes, self.end_plan.arena_bytes if self.end_plan else 0)
        device = self.parameters[0].device
        steered = device.type == "cpu" and allocator.library() is not None
        self.why = (
            ""
            if steered
            else f"memory of {device.type} devices cannot be steered"
            if device.type != "cpu"
            else f"no steered allocator: {allocator.reason()}"
        )
        self.arena = Arena(size) if steered else None
        self.accumulators = []
        first_kept: dict[str, dict[int, Any]] = {"body": {}, "end": {}}
        last = self.end or self.body
        for number, work in enumerate(last.works):
            if work.kind == "update":
                update = self.updates[work.index]
                first_kept["end" if self.end else "body"][number] = (update.first_kept, update.first_sizes)
        self.program = self._program(self.body, self.plan, self.resident, first_kept["body"])
        self.end_program = None
        if self.end is not None:
            self.accumulators = [
                torch.empty_strided(p.shape, p.stride(), dtype=p.dtype, device=p.device)
                for p in (self.parameters[i] for i in self.taken)
            ]
            held = {
                self.end.graph.tensors[v.tensor].storage: a
                for v, a in zip(self.end.graph.inputs, self.accumulators, strict=True)
            }
            self.end_program = self._program(self.end, self.end_plan, Resident(self.end, held), first_kept["end"])
        self.input_views = [v for v in capture.graph.inputs[len(capture.parameters) + len(capture.buffers) :]]

    def _program(self, assembly: Assembly, plan: neap.Plan, resident: Resident, first_kept: dict[int, Any]) -> Program:
        if self.arena is not None:
            return ArenaProgram(assembly, plan, resident, self._take, first_kept, self.arena)
        return DropProgram(assembly, plan, resident, self._take)

    # ---- Running ----

    def _take(self, work: Work, gradient: torch.Tensor, scale: torch.Tensor | None = None) -> None:
        if work.kind == "accumulate":
            accumulator = self.accumulators[work.index]
            accumulator.copy_(gradient) if self.micro_batch == 0 else accumulator.add_(gradient)
            return
        if scale is not None:
            gradient.mul_(scale)
        if self.owner.clip_value is not None:
            gradient.clamp_(-self.owner.clip_value, self.owner.clip_value)
        self.owner.updater.update(self.parameters[self.taken[work.index]], self.groups[work.index], gradient)

    def _first(self, work: Work) -> bool:
        return not self.owner.updater.has_state(self.parameters[self.taken[work.index]])

    def run(self, leaves: list[Any], after: Callable[[int], None] | None = None) -> Any:
        owner, capture = self.owner, self.capture
        loss, extras = None, []
        tensors = [x for x in leaves if isinstance(x, torch.Tensor)]
        k = owner.micro_batches
        for self.micro_batch in range(k):
            inputs = [owner.part(t, self.micro_batch) for t in tensors] if k > 1 else tensors
            self.resident.inputs = {
                capture.graph.tensors[v.tensor].storage: t for v, t in zip(self.input_views, inputs, strict=True)
            }
            self.program.run(self._first, after)
            one = self.program.output(capture.loss).clone()
            loss = one if loss is None else loss + one
            values = [self.program.output(v).clone() if isinstance(v, View) else v for v in capture.extra_views]
            if capture.extras is not None:
                extras.append(pytree.tree_unflatten(values, capture.extras))
        self.resident.inputs = {}
        if self.end_program is not None:
            self.end_program.run(self._first)
        if capture.extras is None:
            return loss
        return loss, extras[0] if k == 1 else extras

    def look(self) -> None:
        """Whether model and optimizer are still what was compiled. Tensors of the same shapes in other places are bound anew."""
        model = self.owner.model
        parameters, buffers = unique_named(model.named_parameters()), unique_named(model.named_buffers())
        capture = self.capture
        names = [n for n, _ in (*parameters, *buffers)]
        if names != [n for n, _ in (*capture.parameters, *capture.buffers)]:
            raise ModelChanged(
                "the model has other parameters or buffers than when the step was compiled: compile it anew"
            )
        capture.parameters, capture.buffers = parameters, buffers
        self.parameters = [p for _, p in parameters]
        groups = self.owner.updater.groups_now
        gone = [
            n
            for i, (n, p) in enumerate(parameters)
            if (i in self.taken) != (id(p) in groups and i in self.with_gradient)
        ]
        if gone:
            raise ModelChanged(
                f"{gone[0]} came to the optimizer or left it since the step was compiled: compile it anew"
            )
        if self._addresses() != self.addresses:
            self._rebind()
        self.groups = [groups[id(self.parameters[i])] for i in self.taken]

    def _rebind(self) -> None:
        now = self._addresses()
        for (name, _), old, new in zip(
            (*self.capture.parameters, *self.capture.buffers), self.addresses, now, strict=True
        ):
            if old[1:] != new[1:]:
                raise ModelChanged(
                    f"{name} was {tuple(old[1])}, {old[3]}{', trainable' if old[4] else ''} when the step was compiled and is {tuple(new[1])}, "
                    f"{new[3]}{', trainable' if new[4] else ''} now: compile the step anew. Nothing was changed."
                )
        # The same shapes in other places (model.data was replaced): bound anew.
        self._close_programs()
        self.addresses = now
        self._build()

    def run_first(self, leaves: list[Any], after: Callable[[int], None] | None = None) -> Any:
        """The first step: what bypasses PyTorch's allocator is counted, and where that breaks the budget the step is planned
        anew, with what was counted."""
        with measure.heap_counted() as heap:
            result = self.run(leaves, after)
            self.heap_peak = heap.neap_heap_peak() if heap else 0
        excess = self.heap_peak - self.bypass
        planned = self.plan.resident_bytes + max(
            self.plan.arena_bytes, self.end_plan.arena_bytes if self.end_plan else 0
        )
        over = planned + excess > self.owner.budget_bytes(self.body.step) and self.owner.budget != "max"
        scratch = dict(getattr(self.program, "unplanned_calls", {}))
        if not scratch and not (excess > 0 and over):
            return result
        if excess > 0 and over:
            self.bypass = self.heap_peak
        for number, call in enumerate(self.capture.graph.calls):
            if str(call.target) in scratch:
                cost = self.costs[number]
                self.costs[number] = dataclasses.replace(cost, scratch=cost.scratch + scratch[str(call.target)])
        told = [
            f"the heap beside PyTorch's allocator {max(excess, 0)} bytes",
            *(f"{n} {b} bytes" for n, b in scratch.items()),
        ]
        warnings.warn(
            f"neap: more was allocated in the first step than was planned, and it is planned anew: {', '.join(told)}",
            stacklevel=5,
        )
        self._assemble()
        self._plan()
        self._close_programs()
        self._build()
        return result

    @property
    def enforced(self) -> bool:
        return self.program.enforced and (self.end_program is None or self.end_program.enforced)

    def memory(self) -> Memory:
        step, plan = self.body.step, self.plan
        arena = max(plan.arena_bytes, self.end_plan.arena_bytes if self.end_plan else 0)
        programs = [p for p in (self.program, self.end_program) if p is not None]
        high = max(p.high() for p in programs)
        unplanned = max((getattr(p, "unplanned_bytes", 0) for p in programs), default=0)
        unplanned += max((self.heap_peak or 0) - self.bypass, 0)
        why = self.why
        names = {n for p in programs for n in getattr(p, "unplanned_calls", {})}
        if names:
            why = f"allocated beside the plan: {', '.join(sorted(names))}"
        return Memory(
            budget_bytes=self.owner.budget_bytes(step),
            planned_peak_bytes=plan.resident_bytes + arena,
            resident_bytes=plan.resident_bytes,
            arena_bytes=arena,
            keep_all_bytes=self.keep_all,
            overhead=plan.overhead,
            enforced=self.enforced,
            measured_peak_bytes=plan.resident_bytes + high + unplanned if high else 0,
            parameter_bytes=_storages(self.parameters),
            state_bytes=sum(u.state for u in self.updates),
            buffer_bytes=_storages([t for _, t in self.capture.buffers]),
            input_bytes=sum(s.bytes for s in self.capture.graph.storages if s.role in ("input", "constant")),
            accumulator_bytes=_storages(self.accumulators),
            output_bytes=self.output_bytes,
            bypass_bytes=self.bypass,
            recomputed=plan.recomputed,
            why=why,
        )

    def _close_programs(self) -> None:
        for program in (self.program, self.end_program):
            if program is not None:
                program.close()


def _bytes_of_view(view: View) -> int:
    n = view.dtype.itemsize
    for size in view.size:
        n *= size
    return n


class CompiledStep:
    """What compile_step gives: `loss = step(*batch)` runs one training step. See compile_step."""

    def __init__(
        self, model: nn.Module, loss_fn: Callable[..., Any], optimizer: torch.optim.Optimizer, budget: int | str, micro_batches: int,
        batch_dim: int, clip_norm: float | None, clip_value: float | None, planner: str, seconds: float, progress: Any,
    ):  # fmt: skip
        if isinstance(optimizer, torch.amp.GradScaler) or hasattr(optimizer, "unscale_"):
            raise TypeError(
                "a GradScaler cannot be used: it skips steps by what gradients hold. Use bf16, or f16 without a scaler."
            )
        if not isinstance(micro_batches, int) or micro_batches < 1:
            raise ValueError(f"micro_batches has to be a whole number from 1 on, not {micro_batches!r}")
        for name, value in (("clip_norm", clip_norm), ("clip_value", clip_value)):
            if value is not None and not value > 0:
                raise ValueError(f"{name} has to be above 0, not {value!r}")
        self.model, self.loss_fn, self.optimizer = model, loss_fn, optimizer
        self.updater = Updater(optimizer)
        self.budget = budget
        parse_budget(budget)  # a nonsense one is refused at once
        self.micro_batches, self.batch_dim = micro_batches, batch_dim
        self.clip_norm, self.clip_value = clip_norm, clip_value
        self.planner, self.seconds, self.progress = planner, seconds, progress
        self.name = type(model).__name__
        self.compiled: dict[Any, _Compiled] = {}
        self.last: _Compiled | None = None
        self.told: set[str] = set()
        self.running = threading.Lock()

    # ---- For _Compiled ----

    def budget_bytes(self, step: neap.Step) -> int:
        size, fraction = parse_budget(self.budget)
        if fraction is not None:
            return max(int(fraction * step.keep_all_bytes), 1)
        if self.budget == "min" or size == 0:
            return self.last_plan_bytes if hasattr(self, "last_plan_bytes") else 0
        return min(size, step.keep_all_bytes) if self.budget == "max" else size

    def plan_of(self, step: neap.Step, budget: int | str) -> neap.Plan:
        plan = cached_plan(step, budget, self.planner, self.seconds, self.progress)
        self.last_plan_bytes = plan.resident_bytes + plan.arena_bytes
        return plan

    def is_split(self, t: torch.Tensor) -> bool:
        """Whether a tensor of the batch has the dimension along which micro-batches are cut."""
        return -t.dim() <= self.batch_dim < t.dim()

    def part(self, t: torch.Tensor, i: int) -> torch.Tensor:
        """The i-th micro-batch of a tensor of the batch."""
        if not self.is_split(t):
            return t
        size = t.shape[self.batch_dim] // self.micro_batches
        return t.narrow(self.batch_dim, i * size, size)

    # ---- For the user ----

    def __call__(self, *batch: Any) -> Any:
        """One training step: forward, loss, gradients, update. The loss (sum over micro-batches of loss / k), detached; (loss,
        extras) where loss_fn gives that, with a list of k extras for k micro-batches."""
        return self._run(batch)

    def _run(self, batch: tuple[Any, ...], after: Callable[[int], None] | None = None) -> Any:
        if torch.is_inference_mode_enabled():
            raise RuntimeError("a training step cannot run in inference mode")
        leaves, tree = pytree.tree_flatten(batch)
        if not self.running.acquire(blocking=False):
            raise RuntimeError("this step runs already, in another thread or further up: a step runs one at a time")
        try:
            return self._run_alone(leaves, tree, batch, after)
        finally:
            self.running.release()

    def _run_alone(self, leaves: list[Any], tree: Any, batch: tuple[Any, ...], after: Any) -> Any:
        compiled = self._compiled_for(leaves, tree, batch)
        self.last = compiled
        self.updater.groups_now = self.updater.groups()
        compiled.look()
        for group in self.optimizer.param_groups:
            for p in group["params"]:
                p.grad = None
        self.updater.before_step()
        with measure.below_autograd():
            result = (compiled.run if compiled.heap_peak is not None else compiled.run_first)(leaves, after)
        self.updater.after_step()
        self._tell(compiled)
        return result

    def _compiled_for(self, leaves: list[Any], tree: Any, batch: tuple[Any, ...]) -> _Compiled:
        training = hash(tuple(m.training for m in self.model.modules()))
        frozen = hash(tuple(p.requires_grad for p in self.model.parameters()))
        autocast = tuple((d, torch.get_autocast_dtype(d)) for d in ("cpu", "cuda") if torch.is_autocast_enabled(d))
        scalars = hash(tuple(_scalars(m) for m in self.model.modules()))
        key = (
            tuple(map(_specification, leaves)),
            str(tree),
            training,
            frozen,
            scalars,
            autocast,
            torch.get_num_threads(),
        )
        if key not in self.compiled:
            if self.micro_batches > 1:
                self._check_split(leaves)
                parts = [self.part(x, 0) if isinstance(x, torch.Tensor) else x for x in leaves]
                batch = pytree.tree_unflatten(parts, tree)
            self.compiled[key] = _Compiled(self, tuple(batch))
        return self.compiled[key]

    def _check_split(self, leaves: list[Any]) -> None:
        sizes = {x.shape[self.batch_dim] for x in leaves if isinstance(x, torch.Tensor) and self.is_split(x)}
        if len(sizes) != 1:
            raise ValueError(
                f"the batch's tensors have different sizes in dimension {self.batch_dim}: {sorted(sizes)}; micro-batches cannot be cut"
            )
        size = sizes.pop()
        if size % self.micro_batches:
            raise ValueError(f"a batch of {size} cannot be cut into {self.micro_batches} micro-batches of one size")

    def _tell(self, compiled: _Compiled) -> None:
        """Once, where the measured peak is above the planned one."""
        if compiled.why and compiled.why not in self.told:
            self.told.add(compiled.why)
            warnings.warn(f"neap: the bytes of this step are planned, not enforced: {compiled.why}", stacklevel=4)
        if not compiled.why and not compiled.enforced:
            memory = compiled.memory()
            if memory.why not in self.told:
                self.told.add(memory.why)
                over = memory.measured_peak_bytes - memory.planned_peak_bytes
                warnings.warn(
                    f"neap: {memory.why}; the measured peak is {max(over, 0)} bytes above the planned one", stacklevel=4
                )

    def prepare(self, *batch: Any) -> Memory:
        """Captures, measures and plans for such a batch, without a step."""
        leaves, tree = pytree.tree_flatten(batch)
        self.last = self._compiled_for(leaves, tree, batch)
        return self.last.memory()

    @property
    def memory(self) -> Memory:
        """Of the signature that ran last. RuntimeError before the first call."""
        return self._last().memory()

    @property
    def plan(self) -> neap.Plan:
        """The plan that ran last."""
        return self._last().plan

    @property
    def step(self) -> neap.Step:
        """The step that it is for."""
        return self._last().body.step

    def save(self, folder: str | Path) -> None:
        """Writes graph.json and plan.json, which `neap show` and `neap check` read."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        self.step.write(folder / "graph.json")
        self.plan.write(folder / "plan.json")

    def _last(self) -> _Compiled:
        if self.last is None:
            raise RuntimeError("nothing is compiled yet: the first call does that, or step.prepare(*batch)")
        return self.last


def cached_plan(
    step: neap.Step, budget: int | str, planner: str = "auto", seconds: float = 0.0, progress: Any = None
) -> neap.Plan:
    """As neap.plan; a plan that was made before for such a step and budget is taken from the user's cache directory."""
    import hashlib

    key = hashlib.sha256(f"{neap.__version__} {step.sha256()} {budget} {planner} {seconds}".encode()).hexdigest()[:32]
    path = allocator.cache_directory() / "plans" / f"{key}.json"
    if path.exists():
        try:
            plan = neap.Plan.read(path, step)
            if neap.check(step, plan).valid:
                return plan
        except (neap.Error, OSError, ValueError):
            pass
    plan = neap.plan(step, budget, planner, seconds=seconds, progress=progress)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        plan.write(path)
    except OSError:
        pass
    return plan


def compile_step(
    model: nn.Module,
    loss_fn: Callable[..., Any],
    optimizer: torch.optim.Optimizer,
    *,
    budget: int | str,
    micro_batches: int = 1,
    batch_dim: int = 0,
    clip_norm: float | None = None,
    clip_value: float | None = None,
    planner: str = "auto",
    seconds: float = 0.0,
    progress: Any = None,
) -> CompiledStep:
    """A whole training step inside `budget` bytes, with the bits of eager PyTorch.

        step = neap.torch.compile_step(model, lambda model, x, y: F.cross_entropy(model(x), y), optimizer, budget="2GiB")
        for x, y in batches:
            loss = step(x, y)

    loss_fn(model, *batch) gives a scalar, or (scalar, extras). The budget covers parameters, gradients, optimizer states,
    buffers, the batch, activations, scratch, and what comes back: bytes as a number, "2GiB", "60%" of what keeping everything
    needs, "min" or "max". The first call for each shape of batch captures, measures and plans; `step.memory` tells.

    micro_batches: the batch is cut along `batch_dim`, each part's loss divided by their number, gradients are added up, and
    the update comes once. clip_norm, clip_value: as torch.nn.utils.clip_grad_norm_ and clip_grad_value_ before the update.
    planner, seconds, progress: as for neap.plan.

    The optimizer, its states, rates and schedulers stay PyTorch's own and may be read, saved and loaded between steps; so may
    the model's. `.grad` is None after a step.

    Raises neap.OverBudget (`.smallest`) where the budget cannot be met, neap.torch.CannotTrace where the step cannot be
    captured, ModelChanged where the model's parameters have other shapes than when it was compiled. Nothing is changed then."""
    return CompiledStep(
        model, loss_fn, optimizer, budget, micro_batches, batch_dim, clip_norm, clip_value, planner, seconds, progress
    )
