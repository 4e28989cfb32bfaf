"""A whole training step inside a budget: forward, loss, gradients and update."""

from __future__ import annotations

import collections
import contextlib
import gc
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor

import neap
from neap._budget import parse as parse_budget

from . import allocator, measure
from .advice import advice_of_captures, cost_of, over_budget, shown
from .arena import Arena
from .batch import Parts, Structure, is_number, part_of, parts_of, plain, probes
from .captured import REPLAN, Planned, Ready, Steps, extras_of, leave_behind
from .decisions import Decided, Decisions
from .family import difference, numbers_of, same_calls
from .graph import CannotTrace
from .head import find_head
from .heap import Heap
from .interrupts import Interrupts
from .kinds import Kind, Place, leaf_of, modes, place_of
from .lengths import capture_between, resized
from .memory import Memory, is_enforced, memory_of
from .plans import cached_plan
from .program import generator_of
from .swap import Outside, generators_kept
from .tensors import plain_named
from .trace import Capture, check_left, learn, refuse_anomaly, refuse_hooks, trace_aside, trace_step
from .updates import Updater
from .watch import Watch

# The most calls of all shapes that stay bound; shapes that ran longest ago are bound again when they return.
MOST_ROWS = 20_000
MOST_KINDS = 16  # kinds of batches that are kept
MOST_TURNS = 32  # other ways by the values of tensors that a step may find before it runs
TOLD_AFTER = 3  # captures without prepare() before a warning
COUNT = "num_items_in_batch"


class ModelChanged(RuntimeError):
    """The model or its optimizer differs from the compiled one."""


class CompiledStep:
    """A compiled step: `loss = step(*batch)` runs one training step. Made by compile_step."""

    def __init__(
        self, model: nn.Module, loss_fn: Callable[..., Any], optimizer: torch.optim.Optimizer, budget: int | str, micro_batches: int,
        batch_dim: int, clip_norm: float | None, clip_value: float | None, planner: str, seconds: float, progress: Any, replan: float,
        chunk_head: bool | int | str | None, fuse: bool,
    ):  # fmt: skip
        if isinstance(optimizer, torch.amp.GradScaler) or hasattr(optimizer, "unscale_"):
            raise TypeError(
                "optimizer: a GradScaler is not supported, since it skips steps by the values of gradients; use bf16, or f16 without a scaler"
            )
        if not isinstance(micro_batches, int) or micro_batches < 1:
            raise ValueError(f"micro_batches must be an integer of 1 or more (got {micro_batches!r})")
        for name, value in (("clip_norm", clip_norm), ("clip_value", clip_value)):
            if value is not None and not value > 0:
                raise ValueError(f"{name} must be above 0 (got {value!r})")
        if not 0 <= replan <= 1:
            raise ValueError(f"replan must be a share from 0 (never) to 1 (got {replan!r})")
        self.model, self.loss_fn = model, loss_fn
        self.updater = Updater(optimizer)
        self.optimizer = self.updater.optimizer
        self.budget = budget
        parse_budget(budget)  # raises for an invalid budget
        self.micro_batches, self.batch_dim = micro_batches, batch_dim
        self.cut = micro_batches > 1  # whether gradients of several parts are added up
        self.clip_norm, self.clip_value = clip_norm, clip_value
        self.planner, self.seconds, self.progress, self.replan = planner, seconds, progress, replan
        self.chunk_head, self.fuse = chunk_head, fuse
        if chunk_head is not None and chunk_head is not False:
            find_head(model, chunk_head if isinstance(chunk_head, str) else None)  # raises if it is missing
        self.name = type(model).__name__
        self.kinds: list[Kind] = []  # the one that ran last is the last
        self.bound: collections.OrderedDict[Any, Ready] = collections.OrderedDict()
        self.arena: Arena | None = None
        self.why = ""  # the reason why bytes are not enforced
        self.heap = Heap()
        self.sums: dict[int, torch.Tensor] = {}  # of gradients, by parameter
        self.accumulators: list[torch.Tensor] = []  # of the current step
        self.outside: list[Outside] = []  # slots of tensors outside the model that captures read
        self.added = 0  # micro-batches of the step that ran before
        self.ends = True  # whether the step ends with those that run now
        self.addresses: list[int] = []
        self.last: Ready | None = None
        self.told: set[str] = set()
        self.gradient_norm: torch.Tensor | None = None  # of the last step, before clipping; None without clip_norm
        self.again: Any = None  # computes the gradients of the running step once more
        self.decisions = Decisions()  # branches by the values of tensors
        self.running = threading.Lock()

    # ---- For Steps ----

    def budget_bytes(self, step: neap.Step, planned: int) -> int:
        """Returns the budget in bytes. planned: bytes of the plan, which are the budget if it is "min"."""
        size, fraction = parse_budget(self.budget)
        if fraction is not None:
            return max(int(fraction * step.keep_all_bytes), 1)
        if self.budget == "min" or size == 0:
            return planned
        return min(size, step.keep_all_bytes) if self.budget == "max" else size

    def all_plans(self) -> Iterator[Planned]:
        """Returns the plans of all captures."""
        return (plan for kind in self.kinds for steps in kind.steps.values() for plan in steps.plans)

    def plan_of(self, step: neap.Step, budget: int | str) -> neap.Plan:
        try:
            return cached_plan(
                step, budget, self.planner, self.seconds, True if self.progress is None else self.progress
            )
        except neap.OverBudget as error:
            raise over_budget(error, step, self) from None

    def tell_cost(self, step: neap.Step, plan: neap.Plan) -> None:
        """Warns, once, if the budget makes steps much slower."""
        if "cost" in self.told or self.budget == "max":
            return
        text = cost_of(step, plan, self.planner)
        if text:
            self.told.add("cost")
            warnings.warn(text, stacklevel=10)

    def grow_arena(self, size: int, device: torch.device) -> None:
        """Makes the memory that all shapes share at least `size` bytes large, if the device's allocator can be steered."""
        if device.type != "cpu":
            self.why = f"memory of {device.type} devices is not steered"
        elif allocator.library() is None:
            self.why = f"no steered allocator: {allocator.reason()}"
        elif self.arena is None:
            self.arena = Arena(size)
        elif self.arena.grow(size):
            self._unbind()

    def _unbind(self) -> None:
        """Unbinds all steps, since parameters or the memory have moved; the next run binds them again."""
        for ready in self.bound.values():
            ready.close()
        self.bound.clear()
        self._unbind_endings()

    def _unbind_endings(self) -> None:
        for kind in self.kinds:
            for steps in kind.steps.values():
                if steps.ending is not None:
                    steps.ending.close()

    # ---- For the user ----

    def __call__(self, *batch: Any, **named: Any) -> Any:
        """Runs one training step: forward, loss, gradients, update. Returns the detached loss, that of the whole batch if it is cut;
        or (loss, extras) if loss_fn returns that, with a list of extras, one for each micro-batch, if the batch is cut. named:
        passed to loss_fn by name. Raises as compile_step."""
        return self._run(batch, None, named)

    def _run(
        self, batch: tuple[Any, ...], after: Callable[[int], None] | None = None, named: dict[str, Any] | None = None
    ) -> Any:
        with self.alone():
            return self._on_its_way(lambda: self._run_alone(*self._taken_apart(batch, named or {}), after))

    def _on_its_way(self, run: Callable[[], Any]) -> Any:
        """Runs a step. If it branches by values otherwise than it was captured, the way that it takes is captured, and it runs again."""
        before, found = dict(self.decisions.known), set()
        try:
            while True:
                self.drawn_before, self.buffers_before = [], {}
                try:
                    return run()
                except Decided as decided:
                    self._undo()
                    way = (*decided.way, decided.answer)
                    if way in found or len(found) == MOST_TURNS:
                        raise CannotTrace(
                            f"{self.decisions.lines.get(decided.way, 'loss_fn')}\n  asks for the value of a tensor, and goes another way in each "
                            "micro-batch or capture. Write it for all values alike (torch.where, a mask), or compute it before the step and pass it "
                            "to loss_fn."
                        ) from None
                    found.add(way)
                    self.decisions.learn(way)
                    if not self.kinds[-1].ran:  # its way was a guess
                        self._forget(self.kinds.pop())
        except BaseException:
            self.decisions.known = before
            raise

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """While entered, no other step of this object runs. Raises RuntimeError if one does, or in a mode in which none can."""
        if torch.is_inference_mode_enabled():
            raise RuntimeError("a training step cannot run in inference mode; leave torch.inference_mode() first")
        refuse_anomaly()
        if not self.running.acquire(blocking=False):
            raise RuntimeError("this step is already running, in another thread or in a caller; run one at a time")
        try:
            yield
        finally:
            self.running.release()

    def _taken_apart(self, batch: tuple[Any, ...], named: dict[str, Any]) -> tuple[Structure, list[Any], Parts, Kind]:
        """Returns the batch's structure and leaves, its parts and its kind."""
        if COUNT in named and not isinstance(named[COUNT], torch.Tensor):
            named = {**named, COUNT: torch.tensor(named[COUNT], device=self._device())}
        structure = Structure((tuple(batch), named))
        leaves = structure.leaves
        parts = self._cut(leaves)
        self._look()
        way = self.updater.look(self.parameters)
        self.whole = COUNT in named
        key = structure.form, tuple(map(leaf_of, leaves)), self._trains(), way, modes(), self.decisions.last_way()
        alike = [kind for kind in reversed(self.kinds) if kind.key == key]
        if alike:
            self._compare(alike[0].signature)
        kind = self._unchanged(alike) or self._unchanged_step(alike, structure, leaves, parts)
        kind = kind or Kind(key, self._signature())
        self.kinds = [*(other for other in self.kinds if other is not kind), kind]
        if len(self.kinds) > MOST_KINDS:
            self._forget(self.kinds.pop(0))
        return structure, leaves, parts, kind

    # ---- Comparison with what a captured step has built in ----

    def _unchanged(self, kinds: list[Kind]) -> Kind | None:
        """Returns the first of the kinds for which everything is the same that its captures read."""
        for kind in kinds:
            if kind.watch is None or kind.watch.is_unchanged():
                return kind
        for kind in kinds:
            now = kind.watch.again()
            if next(now.changes(kind.watch), None) is None:
                kind.watch = now
                return kind
        return None

    def _unchanged_step(self, kinds: list[Kind], structure: Structure, leaves: list[Any], parts: Parts) -> Kind | None:
        """Captures the step's first part anew, since something has changed that captures read. Returns the first of the kinds that
        has the same calls; else a new kind, with this capture; None without kinds."""
        if not kinds:
            return None
        leaves, weight = self._part(leaves, parts, 0), self._weight(parts, 0)
        place = place_of(leaves, weight)
        with measure.preparing, generators_kept():
            capture, kind = self._captured_anew(kinds, structure, leaves, place)
            if kind is not None:
                kind.changes += 1
                self._take(kind, place, capture)
                return kind
            check_left(capture, self.model, self.loss_fn, structure, leaves, **self._options(place))
        kind = Kind(kinds[0].key, self._signature())
        kind.traced[place] = capture
        return kind

    def _take(self, kind: Kind, place: Place, capture: Capture) -> None:
        """Takes a capture, which has the calls of the kind's step."""
        counters = {left.place: left.step for left in kind.left.get(place, ())}
        for left in capture.left:
            left.step = left.step or counters.get(left.place)
        kind.reads.add(capture.reads)
        kind.look(Watch(self.model, self.loss_fn, kind.reads))
        kind.compared[place] = kind.changes
        kind.left[place] = capture.left

    def _captured_anew(
        self, kinds: list[Kind], structure: Structure, leaves: list[Any], place: Place
    ) -> tuple[Capture, Kind | None]:
        """Captures a step anew. Returns the capture, and the first of the kinds whose step has the same calls."""
        while True:
            capture = self._traced(structure, leaves, place)
            try:
                return capture, next((kind for kind in kinds if self._is_same(kind, place, capture)), None)
            except measure.FakeIsWrong as wrong:
                learn(wrong)

    def _is_same(self, kind: Kind, place: Place, capture: Capture) -> bool:
        """Returns whether a capture has the calls that the kind's step has at a place."""
        found = kind.find(place)
        if found is None or len(capture.outside) != len(self.outside):
            return False
        steps, vector = found
        if steps.given:
            vector = steps.with_numbers(vector, place.numbers)
        graph = steps.template.at(vector)
        if len(graph.calls) != len(capture.graph.calls):
            return False
        steps.correct(capture.graph)
        return same_calls(graph, capture.graph)

    def _compare_again(self, kind: Kind, structure: Structure, leaves: list[Any], weight: float | int) -> None:
        """Captures a step anew that was captured before. Raises CannotTrace if it has other calls, though nothing changed that it read.
        Other calls replace the kind's where the forward pass has filled a cache, so that it now leaves less behind."""
        place = place_of(leaves, weight)
        if kind.find(place) is None or not kind.is_current(place):
            return
        with measure.preparing, generators_kept():
            capture, same = self._captured_anew([kind], structure, leaves, place)
            if same is not None:
                self._take(kind, place, capture)
                return
            if {left.place for left in kind.left.get(place, ())} - {left.place for left in capture.left}:
                self._replace(kind, structure, leaves, place, capture)
                return
            steps, vector = kind.find(place)
            new = self._traced(structure, leaves, place, lines=True).graph
        self._forget(kind)
        self.kinds.remove(kind)
        raise CannotTrace(difference(steps.template.at(vector), new))

    def _trains(self) -> tuple[bool, ...]:
        return tuple(p.requires_grad for p in self.parameters)

    def _cut(self, leaves: list[Any]) -> Parts:
        return parts_of([x for x in leaves if isinstance(x, torch.Tensor)], self.batch_dim, self.micro_batches)

    def _device(self) -> torch.device:
        return next((p.device for p in self.model.parameters()), torch.device("cpu"))

    def _forget(self, kind: Kind) -> None:
        for steps in kind.steps.values():
            for key in [k for k, r in self.bound.items() if r.steps is steps]:
                self.bound.pop(key).close()

    def _run_alone(self, structure: Structure, leaves: list[Any], parts: Parts, kind: Kind, after: Any) -> Any:
        kind.runs += 1
        if kind.runs > 1 and kind.runs & (kind.runs - 1) == 0:  # steps 2, 4, 8, ...
            self._compare_again(kind, structure, self._part(leaves, parts, 0), self._weight(parts, 0))
        readies = self._readies(structure, leaves, parts, kind)
        steps = readies[0].steps
        self.last = readies[0]
        self.accumulators = self._sums(steps) if steps.cut else []
        first = any(r.heap_peak is None for r in readies)
        self.dispatched = measure.as_dispatched()
        run = self._first_time if first else self._uncounted
        with self._whole_or_not_at_all({g for r in readies for g in r.steps.generators}):
            with measure.below_autograd():
                result = run(readies, leaves, parts, after)
            self.begin()
            if self.ends:
                self.updater.after_step()
            kind.ran = True
            for ready, values in zip(readies, self.results, strict=True):
                leave_behind(ready.left, values)
                kind.watch.left(ready.left)
        self._tell(readies[0])
        return result

    def keep_buffers(self, changed: list[int]) -> None:
        """Copies buffers that a step changes before it is known to go the captured way. changed: their positions."""
        for i in changed:
            self.buffers_before.setdefault(i, self.buffers[i].detach().clone())

    def _undo(self) -> None:
        """Makes buffers and the generator what they were before the step, which has not come to its updates."""
        with torch.no_grad(), measure.below_autograd():
            for i, before in self.buffers_before.items():
                self.buffers[i].copy_(before)
        self._undraw()

    def _undraw(self) -> None:
        for generator, state in self.drawn_before:
            generator.set_state(state)

    @contextlib.contextmanager
    def _whole_or_not_at_all(self, own_generators: Iterable[torch.Generator]) -> Iterator[None]:
        """While entered, a step that fails before it `begins` changes nothing, and is not interrupted after that. own_generators: those that
        it draws from beside the default one."""
        self.begun = self.updating = False
        with Interrupts() as self.interrupts:
            generators = [generator_of(self._device()), *own_generators]
            self.drawn_before = [(g, g.get_state()) for g in generators]
            self.buffers_before: dict[int, torch.Tensor] = {}
            try:
                yield
                self.buffers_before = {}
            except BaseException:
                if not self.begun:
                    self._undraw()
                raise
            finally:
                self.results = []

    def begin(self) -> None:
        """Marks that a step from now on changes parameters, buffers or states."""
        if self.begun:
            return
        self.interrupts.wait()
        self.begun = True

    def drop_gradients(self) -> None:
        """Drops the gradients that are there before the first update of a step."""
        if self.updating:
            return
        self.updating = True
        for group in self.optimizer.param_groups:
            for p in group["params"]:
                p.grad = None

    def _readies(self, structure: Structure, leaves: list[Any], parts: Parts, kind: Kind) -> list[Ready]:
        """Returns the step of each part, all bound to the present memory."""
        while True:
            arena = self.arena.address if self.arena is not None else 0
            outside = self.outside
            readies = [
                self._ready(structure, self._part(leaves, parts, i), self._weight(parts, i), kind)
                for i in range(len(parts))
            ]
            if len({tuple(r.steps.taken) for r in readies}) > 1:
                raise CannotTrace(
                    "micro-batches give gradients to different parameters; use one size for all micro-batches"
                )
            if self.outside is outside and (self.arena is None or arena in (0, self.arena.address)):
                return readies

    def _part(self, leaves: list[Any], parts: Parts, i: int) -> list[Any]:
        return [part_of(x, self.batch_dim, parts, i) if isinstance(x, torch.Tensor) else x for x in leaves]

    def _weight(self, parts: Parts, i: int) -> float | int:
        return 1 if self.whole else parts.weight(i)

    def _ready(
        self, structure: Structure, leaves: list[Any], weight: float | int, kind: Kind, prepared: bool = False
    ) -> Ready:
        place = place_of(leaves, weight)
        keys = (id(kind), place.free()), (id(kind), place)
        key = keys[0] if keys[0] in self.bound else keys[1]
        if not kind.is_current(place):
            self._bring_up(kind, structure, leaves, place)
        ready = self.bound.get(key)
        if ready is None:
            with measure.preparing, generators_kept():
                found = kind.find(place)
                if found is None:
                    self._capture(structure, leaves, kind, place, prepared)
                    found = kind.find(place)
                key = keys[0] if found[0].given else keys[1]
                self.bound[key] = ready = found[0].ready(found[1])
            while len(self.bound) > 2 and sum(len(r.program.order) for r in self.bound.values()) > MOST_ROWS:
                self.bound.pop(next(iter(self.bound))).close()
        self.bound.move_to_end(key)
        ready.left = kind.left.get(place, ready.steps.left)
        return ready

    def _bring_up(self, kind: Kind, structure: Structure, leaves: list[Any], place: Place) -> None:
        """Compares the step at a place with a new capture, since something has changed that was seen to change nothing at another place.
        If it has other calls, the kind's captures are forgotten."""
        if kind.find(place) is None:
            kind.compared[place] = kind.changes
            return
        with measure.preparing, generators_kept():
            capture, same = self._captured_anew([kind], structure, leaves, place)
            if same is None:
                self._replace(kind, structure, leaves, place, capture)
            kind.compared[place] = kind.changes

    def _replace(self, kind: Kind, structure: Structure, leaves: list[Any], place: Place, capture: Capture) -> None:
        """Forgets the captures of a kind for a new one."""
        check_left(capture, self.model, self.loss_fn, structure, leaves, **self._options(place))
        self._forget(kind)
        kind.clear()
        kind.traced[place] = capture

    def _traced(self, structure: Structure, leaves: list[Any], place: Place, lines: bool = False) -> Capture:
        with shown(f"capturing the step of {self.name}"):
            return trace_step(self.model, self.loss_fn, structure, leaves, **self._options(place), lines=lines)

    def _options(self, place: Place) -> dict[str, Any]:
        return {
            "weight": place.weight,
            "cut": self.cut,
            "clip_norm": None if self.cut or self.updater.hooked else self.clip_norm,
            "chunk_head": self.chunk_head,
            "outside": self.outside,
            "trained": set(self.updater.groups()),
            "decisions": self.decisions,
        }

    def _capture(self, structure: Structure, leaves: list[Any], kind: Kind, place: Place, prepared: bool) -> None:
        try:
            self._captured(structure, leaves, kind, place, prepared)
        except measure.FakeIsWrong as wrong:
            learn(wrong)
            self._capture(structure, leaves, kind, place, prepared)
        except BaseException:
            if not kind.captured and kind in self.kinds:
                self.kinds.remove(kind)
            raise

    def _captured(self, structure: Structure, leaves: list[Any], kind: Kind, place: Place, prepared: bool) -> None:
        capture = kind.traced.pop(place, None)
        if capture is None:
            capture = self._traced(structure, leaves, place)
            check_left(capture, self.model, self.loss_fn, structure, leaves, **self._options(place))
        kind.key = *kind.key[:-1], self.decisions.last_way()
        self._take_outside(capture, kind)
        skeleton = numbers_of(capture.graph).skeleton
        steps = kind.steps.get(skeleton)
        if steps is None:
            steps = kind.steps[skeleton] = Steps(self, capture, self.cut, place.numbers)
            vector = steps.numbers.vector
        else:
            steps.correct(capture.graph)
            vector = numbers_of(capture.graph).vector
        kind.add(place, steps, vector)
        first = kind.watch is None
        self._take(kind, place, capture)
        if first:
            self._tell_kinds(kind)
        if place.numbers and not steps.given and steps not in kind.unproven:
            self._prove_numbers(structure, leaves, kind, steps, place.free(), self._options(place))
        capture.graph.strip()
        gc.collect(1)  # traced graphs are cycles of objects
        if not prepared:
            self._tell_shapes(kind, place)

    def _take_outside(self, capture: Capture, kind: Kind) -> None:
        """From now on, each step reads the slots outside the model that this capture reads. Forgets other captures."""
        if len(capture.outside) == len(self.outside):
            return
        self.outside = capture.outside
        for other in self.kinds:
            self._forget(other)
            other.clear()
        self._look()
        kind.signature = self._signature()
        form, leaves, _, *rest = kind.key
        kind.key = form, leaves, self._trains(), *rest
        self.kinds = [kind]

    def _prove_numbers(
        self, structure: Structure, leaves: list[Any], kind: Kind, steps: Steps, here: Place, options: dict[str, Any]
    ) -> None:
        """Tests, once a batch was captured with other numbers, whether numbers are only arguments of calls: captures the step with
        numbers far off and compares the calls."""
        points = [(p.numbers, v) for p, (of, v) in kind.captured.items() if of is steps and p.free() == here]
        if len(points) < 2:
            return
        for other, numbers in probes(leaves):
            capture = trace_aside(self.model, self.loss_fn, structure, other, **options)
            if capture is not None:
                capture.graph.outputs = list(map(plain, capture.graph.outputs))
            found = numbers_of(capture.graph) if capture is not None else None
            if found is None or found.skeleton != steps.numbers.skeleton:
                kind.unproven.add(steps)
                return
            steps.correct(capture.graph)
            points.append((numbers, numbers_of(capture.graph).vector))
        if steps.prove_numbers(points):
            kind.free(steps)
        else:
            kind.unproven.add(steps)

    def _sums(self, steps: Steps) -> list[torch.Tensor]:
        """Returns the tensors in which gradients are added up: one for each parameter, for all shapes."""
        wanted = [self.parameters[i] for i in steps.taken]
        if self.added and [id(t) for t in self.accumulators] != [id(self.sums.get(id(p))) for p in wanted]:
            raise CannotTrace(
                "micro-batches give gradients to different parameters; let each of them use the same parameters"
            )
        keys = {id(p) for p in wanted}
        for key in [k for k in self.sums if k not in keys]:
            del self.sums[key]
        for p in wanted:
            old = self.sums.get(id(p))
            if old is None or old.shape != p.shape or old.dtype != p.dtype or old.stride() != p.stride():
                self.sums[id(p)] = torch.empty_strided(p.shape, p.stride(), dtype=p.dtype, device=p.device)
                self._unbind_endings()
        return [self.sums[id(p)] for p in wanted]

    def _parts(self, readies: list[Ready], leaves: list[Any], parts: Parts, after: Any) -> Any:
        loss = count = None
        extras = []
        steps = readies[0].steps
        self.results: list[list[Any]] = []  # the extras' leaves of each part
        numbers = tuple(filter(is_number, leaves))
        for i, ready in enumerate(readies):
            self.micro_batch = self.added + i
            inputs = [x for x in self._part(leaves, parts, i) if isinstance(x, torch.Tensor)]
            one, things, values = ready.run(inputs, numbers, steps.is_first, after)
            loss = one if loss is None else loss + one
            count = things if count is None else count + things
            self.results.append(values)
            if steps.extras is not None:
                extras.append(extras_of(steps.extras, values))
        if steps.cut and self.ends:
            steps.run_end(count, after)
        self.added = 0 if self.ends else self.added + len(readies)
        loss = loss if count is None else loss / count
        if steps.extras is None:
            return loss
        return loss, extras if steps.cut else extras[0]

    def _uncounted(self, readies: list[Ready], leaves: list[Any], parts: Parts, after: Any) -> Any:
        """Runs a step whose allocations do not count in a first step that another thread may be measuring."""
        library = allocator.library()
        if library is None:
            return self._parts(readies, leaves, parts, after)
        library.neap_heap_exclude(1)
        try:
            return self._parts(readies, leaves, parts, after)
        finally:
            library.neap_heap_exclude(0)

    def _first_time(self, readies: list[Ready], leaves: list[Any], parts: Parts, after: Any) -> Any:
        """Runs the first step of a shape and counts the bytes outside PyTorch's allocator. If they exceed the budget, the step is
        planned again with the counted bytes."""
        with measure.preparing, measure.heap_counted(self._device()) as heap:
            result = self._parts(readies, leaves, parts, after)
            peak = heap.neap_heap_peak() if heap else 0
            kept = heap.neap_heap_live() if heap else 0
        fresh = list({id(r): r for r in readies if r.heap_peak is None}.values())
        for ready in fresh:
            ready.heap_peak = peak
        if any([r.steps.replan(r) for r in fresh]):
            self._unbind()
        elif any(r.graph is not r.planned.graph for r in fresh):
            self.heap.kept += max(kept, 0)
        return result

    # ---- Comparison of model and optimizer with the compiled ones ----

    def _signature(self) -> list[Any]:
        return [
            (n, tuple(t.shape), tuple(t.stride()), t.dtype, t.requires_grad)
            for n, t in zip((*self.names, *self.buffer_names), (*self.parameters, *self.buffers), strict=True)
        ]

    def _look(self) -> None:
        """Reads the model's tensors. Unbinds all steps if an address has changed. Raises CannotTrace for tensors without memory."""
        outside = [[(x.name, x.tensor()) for x in self.outside if x.buffer == buffer] for buffer in (False, True)]
        refuse_hooks((name, p) for name, p in self.model.named_parameters() if p.requires_grad)
        named, _ = plain_named([*self.model.named_parameters(), *outside[0]])
        named_buffers, _ = plain_named([*self.model.named_buffers(), *outside[1]])
        for name, t in (*named, *named_buffers):
            if t.device.type == "meta" or isinstance(t, FakeTensor):
                raise CannotTrace(
                    f"{name} has no memory (device {t.device}); give the model memory; neap.torch.plan needs none"
                )
        self.names, self.parameters = [n for n, _ in named], [p for _, p in named]
        self.buffer_names, self.buffers = [n for n, _ in named_buffers], [b for _, b in named_buffers]
        addresses = [t.data_ptr() for t in (*self.parameters, *self.buffers)]
        if addresses != self.addresses:
            self._unbind()
            self.addresses = addresses

    def _compare(self, before: list[Any]) -> None:
        now = self._signature()
        if [row[0] for row in before] != [row[0] for row in now]:
            raise ModelChanged(
                "the model has other parameters or buffers than when the step was compiled; compile the step again. Nothing was changed."
            )
        for (name, *old), (_, *new) in zip(before, now, strict=True):
            if old[:3] != new[:3]:
                raise ModelChanged(
                    f"{name} was {old[0]}, {old[2]} when the step was compiled and is {new[0]}, {new[2]} now; compile the step again. "
                    "Nothing was changed."
                )

    # ---- Warnings ----

    def _tell(self, ready: Ready) -> None:
        """Warns, once for each reason, if bytes are not enforced."""
        if self.why and self.why not in self.told:
            self.told.add(self.why)
            warnings.warn(f"neap: the bytes of this step are planned, not enforced: {self.why}", stacklevel=5)
        if not self.why and not is_enforced(ready):
            memory = memory_of(self, ready)
            if memory.why not in self.told:
                self.told.add(memory.why)
                over = memory.measured_peak_bytes - memory.planned_peak_bytes
                warnings.warn(
                    f"neap: {memory.why}; the measured peak is {max(over, 0)} bytes above the planned one", stacklevel=5
                )

    def _tell_shapes(self, kind: Kind, place: Place) -> None:
        kind.unforeseen.append(place)
        if len(kind.unforeseen) != TOLD_AFTER + 1:
            return
        warnings.warn(advice_of_captures(kind.unforeseen), stacklevel=8)

    def _tell_kinds(self, kind: Kind) -> None:
        if len(self.kinds) != TOLD_AFTER + 1:
            return
        last = next((other for other in reversed(self.kinds[:-1]) if other.key == kind.key and other.watch), None)
        changes = kind.watch.changes(last.watch) if last is not None else iter(())
        _, what = next(changes, (None, "the structure of the batch, or a setting of PyTorch"))
        warnings.warn(
            f"neap: the step is captured a {TOLD_AFTER + 1}th time, since a constant of the captured step has changed: {what}; give numbers that "
            "change to loss_fn as tensors in the batch: then they are inputs",
            stacklevel=7,
        )

    def prepare(self, *batch: Any, lengths: Iterable[int] | None = None, dim: int = 1, **named: Any) -> Memory:
        """Captures, measures and plans for such a batch without running a step. Returns the memory of the step.

        lengths: does this for all these sizes of dimension `dim`. They replace that size in all tensors of the batch that have the
        same size there as the first such tensor. A few lengths are captured and give the others, which one more capture proves; a
        step at any of them then needs no preparation. Micro-batches are cut as in a step. Raises ValueError for wrong lengths,
        and as a step."""
        if lengths is None:
            structure, leaves, parts, kind = self._taken_apart(batch, named)
            readies = [
                self._ready(structure, self._part(leaves, parts, i), self._weight(parts, i), kind, True)
                for i in range(len(parts))
            ]
            self.last = readies[0]
            return self.memory
        wanted = sorted(set(lengths))
        if not wanted or wanted[0] < 0:
            raise ValueError(f"lengths must be sizes of dimension {dim}, each 0 or more (got {wanted[:3]})")
        leaves = Structure((batch, named)).leaves
        sizes = [x.shape[dim] for x in leaves if isinstance(x, torch.Tensor) and -x.dim() <= dim < x.dim()]
        if not sizes:
            raise ValueError(f"dim: no tensor of the batch has a dimension {dim}")
        self._prepare_between(batch, named, dim, sizes[0], wanted)
        return self.memory

    def _prepare_between(self, batch: Any, named: Any, dim: int, now: int, wanted: list[int]) -> None:
        known: set[int] = set()

        def is_known(length: int) -> bool:
            leaves = Structure(resized((batch, named), dim, now, length)).leaves
            parts = self._cut(leaves)
            pieces = {(parts.sizes[i] if parts.sizes else 0): i for i in range(len(parts))}.values()
            return all(kind.find(place_of(self._part(leaves, parts, i), self._weight(parts, i))) for i in pieces)

        def capture(length: int) -> None:
            if length not in known:
                known.add(length)
                new, new_named = resized((batch, named), dim, now, length)
                self.prepare(*new, **new_named)

        capture(wanted[-1])
        _, _, _, kind = self._taken_apart(batch, named)
        capture_between(wanted, capture, is_known)

    def release(self) -> None:
        """Returns memory to the system: the arena and the sums of gradients; the next step takes it again. Parameters and optimizer
        states stay, and so do the sums of a step that has not ended. Waits until a running step ends."""
        with self.running:
            if not self.added:
                self.sums.clear()
                self.accumulators = []
            self._unbind_endings()
            if self.arena is not None:
                self.arena.empty()

    @property
    def why_whole(self) -> str:
        """The reason why the optimizer runs whole after the last gradient, as of the last call; empty if it runs parameter by parameter,
        each as soon as its gradient is complete."""
        return self.updater.whole

    @property
    def memory(self) -> Memory:
        """The memory of the shape that ran last. Raises RuntimeError before the first call."""
        return memory_of(self, self._last())

    @property
    def plan(self) -> neap.Plan:
        """The plan of the shape that ran last. Raises RuntimeError before the first call."""
        return self._last().planned.plan

    @property
    def step(self) -> neap.Step:
        """The step of that plan. Raises RuntimeError before the first call."""
        return self._last().planned.body.step

    def save(self, folder: str | Path) -> None:
        """Writes graph.json and plan.json, which `neap show` and `neap check` read. Raises OSError."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        self.step.write(folder / "graph.json")
        self.plan.write(folder / "plan.json")

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError(
            "a compiled step cannot be copied or pickled, since it is bound to its model, its optimizer and memory of this process; copy these, and "
            "call compile_step for the copies"
        )

    def _last(self) -> Ready:
        if self.last is None:
            raise RuntimeError("nothing is compiled yet; call the step, or step.prepare(*batch), first")
        return self.last


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
    replan: float = REPLAN,
    chunk_head: bool | int | str | None = None,
    fuse: bool = False,
) -> CompiledStep:
    """Compiles a whole training step inside `budget` bytes, with the bits of eager PyTorch.

        step = neap.torch.compile_step(model, lambda model, x, y: F.cross_entropy(model(x), y), optimizer, budget="2GiB")
        for x, y in batches:
            loss = step(x, y)

    loss_fn(model, *batch) returns a scalar, (scalar, extras), or a neap.torch.Sum. The budget covers parameters, gradients,
    optimizer states, buffers, the batch, activations, scratch and results. It is a number of bytes, "2GiB", "60%" of the bytes of
    keeping everything, "min" or "max". The first call for each shape of batch captures, measures and plans; `step.memory` has the
    figures. All shapes share one memory, whose size is that of the largest.

    - micro_batches: cuts the batch along `batch_dim` (the last part may be smaller). The parts' losses add up to the batch's mean,
      gradients are added up, and the update runs once. With a Sum, or a loss_fn that takes `num_items_in_batch` and is given it
      (`step(*batch, num_items_in_batch=n)`), the loss is that of the whole batch for any parts.
    - clip_norm, clip_value: as torch.nn.utils.clip_grad_norm_ and clip_grad_value_ before the update.
    - planner, seconds, progress: as for neap.plan.
    - replan: a shape that needs less than this share of a planned larger shape gets its own plan if the larger one recomputes. 0:
      plans of larger shapes serve all smaller ones.
    - chunk_head: True, a number of rows, or the name of the last linear layer. Its logits and their cross entropy are computed in
      chunks of rows, with the bits of neap.torch.chunked_cross_entropy, so that all logits never exist at once.
    - fuse: Inductor compiles groups of pointwise calls, reductions and norms to loops, each planned as one call. On the CPU, with
      Inductor's bits instead of eager's, the same at every budget. Compiling takes seconds for each group, once a shape.

    The optimizer, its states, rates and schedulers stay PyTorch's own. They and the model may be read, saved and loaded between
    steps. `.grad` is None after a step.

    Raises TypeError or ValueError for a wrong argument. A call raises neap.OverBudget (`.smallest`) if the budget cannot be met,
    neap.torch.CannotTrace if the step cannot be captured, and ModelChanged if the model's parameters have other shapes than when
    the step was compiled. Then nothing is changed."""
    return CompiledStep(
        model, loss_fn, optimizer, budget, micro_batches, batch_dim, clip_norm, clip_value, planner, seconds, progress, replan, chunk_head,
        fuse,
    )  # fmt: skip
