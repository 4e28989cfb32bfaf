"""Programs, which run a planned step: in an arena with planned addresses, or by dropping tensors after their last read."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import neap

from . import allocator
from .arena import Arena
from .assemble import Assembly, Work
from .graph import Given, Graph, View
from .measure import aligned, result_tensors

# (work) -> what an update or an accumulation takes: the gradients' views, and that of their scale, if they have one.
Taken = Callable[[Work], tuple[list[View], View | None]]


def generator_of(device: torch.device) -> torch.Generator:
    return torch.cuda.default_generators[device.index or 0] if device.type == "cuda" else torch.default_generator


class Row:
    """A position of the schedule, ready to run. copies: (to, from) pairs to copy first, of tensors that it changes but must keep."""

    __slots__ = (
        "apart",
        "args",
        "copies",
        "fn",
        "kind",
        "kwargs",
        "node",
        "number",
        "outputs",
        "redraws",
        "template",
        "work",
    )

    def __init__(self, number: int, node: int, work: Work):
        self.number, self.node, self.work, self.kind = number, node, work, work.kind
        self.redraws: tuple[torch.Generator, Any] | None = (
            None  # of a repeated random call: its generator, the state to draw from
        )
        self.copies: list[tuple[torch.Tensor, torch.Tensor]] = []
        self.apart: list[
            tuple[int, torch.Tensor]
        ] = []  # results that share memory with another: (position, their own memory)
        self.args: Any = ()
        self.kwargs: dict[str, Any] = {}
        self.template: Any = None  # args and kwargs that hold inputs of the step, bound in each step
        self.outputs: list[tuple[int, View]] = []  # (position in the result, view) of each tensor that it makes
        self.fn: Any = None


class Resident:
    """Storages that exist for the whole step: parameters, buffers and constants; and inputs, which each step passes."""

    def __init__(self, graph: Graph, tensors: dict[int, torch.Tensor]):
        self.graph = graph
        self.tensors = tensors  # storage -> a tensor in it
        self.inputs: dict[int, torch.Tensor] = {}
        self.numbers: tuple[int | float, ...] = ()  # of the batch, if each step passes its own

    def is_input(self, view: View) -> bool:
        tensor = self.graph.tensors[view.tensor]
        return tensor.version == 0 and self.graph.storages[tensor.storage].role == "input"

    def base(self, storage: int) -> torch.Tensor:
        return self.inputs[storage] if storage in self.inputs else self.tensors[storage]

    def bind(self, view: View | Given) -> Any:
        if isinstance(view, Given):
            return self.numbers[view.index]
        storage = self.graph.tensors[view.tensor].storage
        base = self.base(storage)
        shift = 0
        if self.graph.storages[storage].role == "input":  # the batch has another offset in each step
            shift = base.storage_offset() - self.graph.inputs[self.graph.storages[storage].source].offset
        return _viewed(base, View(view.tensor, view.size, view.stride, view.offset + shift, view.dtype))


class Problem(RuntimeError):
    """The program cannot continue."""


class Program:
    """The base of both programs."""

    enforced = False

    def __init__(
        self, assembly: Assembly, plan: neap.Plan, resident: Resident, taken: Taken, take: Callable[..., None]
    ):
        """take(work, gradients, scale): updates or accumulates; returns the bytes that an optimizer that runs whole holds beyond the
        plan. The resident's graph must have the skeleton of the assembly's graph, and sizes that are not larger."""
        self.assembly, self.plan, self.resident, self.taken, self.take = assembly, plan, resident, taken, take
        self.graph = resident.graph
        self.unplanned_bytes = 0
        self.unplanned_calls: dict[str, int] = {}
        self.order = [int(v) for v in plan.schedule]
        self.seen = [False] * len(self.order)
        had: set[int] = set()
        for i, v in enumerate(self.order):
            self.seen[i] = v in had
            had.add(v)
        self.begins = next((i for i, v in enumerate(self.order) if self.changes(assembly.works[v])), len(self.order))
        self.begin: Callable[[], None] = lambda: (
            None
        )  # is called before the first position that changes what exists before the step

    def changes(self, work: Work) -> bool:
        """Returns whether a node changes a parameter, a buffer or a state of the optimizer."""
        if work.kind == "call":
            return bool(work.updates or self.graph.calls[work.index].statistics)
        return work.kind in ("update", "write")

    def row(self, number: int, node: int) -> Row:
        work = self.assembly.works[node]
        row = Row(number, node, work)
        if work.kind == "update" and self.assembly.gradients[work.index].whole:
            row.kind = "whole"  # it runs outside planned addresses
        return row

    def rows_before(self) -> list[Row]:
        """Returns the rows without the update of an optimizer that runs whole."""
        return [row for row in self.rows if row.kind != "whole"]

    def whole_update(self) -> Row:
        return next(row for row in self.rows if row.kind == "whole")

    def note_unplanned(self, name: str, extra: int | None) -> None:
        """Records the bytes that a call took outside the plan."""
        if extra:
            self.enforced = False
            self.unplanned_calls[name] = max(self.unplanned_calls.get(name, 0), extra)
            self.unplanned_bytes = max(self.unplanned_bytes, extra)

    def is_value(self, view: View) -> bool:
        tensor = self.graph.tensors[view.tensor]
        return tensor.version > 0 or self.graph.storages[tensor.storage].role == "value"

    def generator(self, work: Work) -> torch.Generator:
        """Returns the generator of a random call, or of the node that saves its state."""
        call = self.graph.calls[work.index]
        return call.kwargs.get("generator") or generator_of(self.graph.device_of(call))

    def arguments(self, row: Row) -> tuple[Any, Any]:
        """Returns the arguments of a call; a repeat passes None for running statistics."""
        call = self.graph.calls[row.work.index]
        args = call.args
        if call.statistics and self.seen[row.number]:
            args = tuple(None if i in call.statistics else x for i, x in enumerate(args))
        return args, call.kwargs


class ArenaProgram(Program):
    """A program in an arena: all outputs and scratch of calls have planned addresses. CPU only; needs the steered allocator."""

    enforced = True

    def __init__(
        self,
        assembly: Assembly,
        plan: neap.Plan,
        resident: Resident,
        taken: Taken,
        take: Any,
        first_kept: dict[int, tuple[list[int], list[int]]],
        arena: Arena,
    ):
        super().__init__(assembly, plan, resident, taken, take)
        self.library = allocator.library()
        self.arena = arena
        self.first_kept = first_kept
        self._place()
        self._bind()

    def _place(self) -> None:
        """Sets the offsets of the tensors that each position reads and makes, and of its scratch."""
        instances = self.plan.instances
        by_position: list[list[int]] = [[] for _ in self.order]
        ats, tensors, offsets, sizes = (instances[k].tolist() for k in ("first", "tensor", "offset", "bytes"))
        for i, at in enumerate(ats):
            by_position[at].append(i)
        now: dict[int, int] = {}
        self.reads: list[dict[int, int]] = []  # position -> step tensor -> offset
        self.makes: list[dict[int, int]] = []
        self.rooms: list[dict[int, int]] = []  # position -> step tensor that it makes -> bytes there
        self.scratch: list[tuple[int, int]] = []
        for position, node in enumerate(self.order):
            work = self.assembly.works[node]
            self.reads.append({t: now[t] for t in work.inputs if t in now})
            made, rooms, scratch = {}, {}, (0, 0)
            for i in by_position[position]:
                if tensors[i] < 0:
                    scratch = (offsets[i], sizes[i])
                else:
                    made[tensors[i]], rooms[tensors[i]] = offsets[i], sizes[i]
            self.makes.append(made)
            self.rooms.append(rooms)
            self.scratch.append(scratch)
            now.update(made)

    def _bind(self) -> None:
        memo: dict[Any, torch.Tensor] = {}
        graph, of = self.graph, self.assembly.tensors

        def value(view: View, places: dict[int, int]) -> torch.Tensor:
            offset = places[of[view.tensor]]
            size = graph.storage_of(view.tensor).bytes
            key = (offset, size, view.size, view.stride, view.offset, view.dtype)
            if key not in memo:
                memo[key] = self.arena.tensor(offset, size, view)
            return memo[key]

        start, index, address, size, room = [0], [], [], [], []
        scratch_address, scratch_size = [], []
        self.rows: list[Row] = []
        later: list[tuple[Row, tuple[list[int], list[int]]]] = []
        base = self.arena.address
        for position, node in enumerate(self.order):
            work = self.assembly.works[node]
            row = self.row(position, node)
            reads, makes = self.reads[position], self.makes[position]
            outputs: list[tuple[int, int, int, int]] = []
            if work.kind == "call":
                call = graph.calls[work.index]
                changed = {old: new for old, new in call.changes if new in of}

                anew = []  # arguments that each step binds

                def leaf(
                    x: Any, changed: Any = changed, reads: Any = reads, makes: Any = makes, anew: Any = anew
                ) -> Any:
                    if isinstance(x, Given):
                        anew.append(x)
                        return x
                    if x.tensor in changed:  # as it is after the copy
                        return value(View(changed[x.tensor], x.size, x.stride, x.offset, x.dtype), makes)
                    if self.is_value(x):
                        return value(x, reads)
                    if self.resident.is_input(x):
                        anew.append(x)
                        return x
                    return self.resident.bind(x)

                template = mapped(leaf, self.arguments(row))
                if anew:
                    row.template = template
                else:
                    row.args, row.kwargs = template
                row.fn = call.target
                if call.random and self.seen[position]:
                    generator = self.generator(work)
                    held = self.arena.bytes(
                        reads[self.assembly.state_tensors[work.index]], generator.get_state().numel()
                    )
                    row.redraws = generator, held
                for old, new in changed.items():
                    n = graph.storage_of(old).bytes
                    if not self.is_value(_whole(old)):
                        row.copies.append((self.arena.bytes(makes[of[new]], n), old))
                    elif makes[of[new]] != reads[of[old]]:
                        row.copies.append((self.arena.bytes(makes[of[new]], n), self.arena.bytes(reads[of[old]], n)))
                for i, (t, number) in enumerate(zip(call.makes, work.cost.made, strict=True)):
                    n = graph.storage_of(t).bytes
                    where = next(k for k, v in enumerate(call.results) if v is not None and v.tensor == t)
                    if i in work.cost.absent:
                        continue
                    if i in work.cost.copied or (number < 0 and n > 0):
                        row.apart.append((where, value(call.results[where], makes)))
                        continue
                    if n > 0:
                        outputs.append((number, base + makes[of[t]], aligned(n), aligned(self.rooms[position][of[t]])))
                    row.outputs.append((where, call.results[where]))
            elif work.kind == "state":
                generator = self.generator(work)
                row.fn = _save_state
                row.args = (self.arena.bytes(makes[work.outputs[0]], generator.get_state().numel()), generator)
            elif work.kind == "write":
                storage = graph.storages[work.index]
                row.fn = _write
                last = graph.last[work.index]
                row.args = (self, work.index, self.arena.bytes(reads[of[last]], storage.bytes))
            else:
                gradients, scale = self.taken(work)
                row.fn = self.take
                bound = lambda v, reads=reads: value(v, reads) if self.is_value(v) else self.resident.bind(v)  # noqa: E731
                made, own = iter(work.outputs), []
                for gradient in gradients:
                    if not work.outputs or not self.is_value(gradient):
                        own.append(bound(gradient))
                        continue
                    n, old, new = graph.storage_of(gradient.tensor).bytes, reads[of[gradient.tensor]], makes[next(made)]
                    own.append(value(gradient, {of[gradient.tensor]: new}))
                    if old != new:
                        row.copies.append((self.arena.bytes(new, n), self.arena.bytes(old, n)))
                row.args = (work, own, None if scale is None else bound(scale))
                if node in self.first_kept:
                    later.append((row, self.first_kept[node]))
            outputs.sort()
            for number, where, n, most in outputs:
                index.append(number), address.append(where), size.append(n), room.append(most)
            start.append(len(index))
            scratch_address.append(base + self.scratch[position][0])
            scratch_size.append(self.scratch[position][1])
            self.rows.append(row)
        self.first_rows: dict[int, int] = {}
        for row, (kept, sizes) in later:  # the step that makes an optimizer's states, which are on the heap
            self.first_rows[row.number] = len(scratch_address)
            for number, n in zip(kept, sizes, strict=True):
                index.append(number), address.append(0), size.append(aligned(n)), room.append(aligned(n))
            start.append(len(index))
            scratch_address.append(scratch_address[row.number])
            scratch_size.append(scratch_size[row.number])
        self.value = value
        arrays = [
            np.array(x, dtype=np.uint64) for x in (start, index, address, size, room, scratch_address, scratch_size)
        ]
        pointers = [a.ctypes.data_as(ctypes.c_void_p) for a in arrays]
        self.handle = ctypes.c_void_p(self.library.neap_steer_program(len(scratch_address), *pointers, self.arena.slot))
        if not self.handle:
            raise MemoryError("neap: no memory for the program of a step")
        self._free = weakref.finalize(self, self.library.neap_steer_program_free, self.handle)

    def close(self) -> None:
        """Frees the program; `high` still works."""
        if self._free.alive:
            self._high = self.high()
            self._free()

    def output(self, view: View) -> torch.Tensor:
        """Returns a view of an output's memory, valid until the next step: copy it."""
        if not self.is_value(view):
            return self.resident.bind(view)
        places: dict[int, int] = {}
        for made in self.makes:
            places.update(made)
        return self.value(view, places)

    def run(
        self,
        first: Callable[[Work], bool] | None = None,
        after: Callable[[int], None] | None = None,
        check: bool = False,
    ) -> None:
        """Runs one step. first(work): returns whether an update makes its states now. after(position): is called after each call.
        check: compares the shape of each result with the planned one before it is used. Raises Problem."""
        self._run(self.rows, first, after, check)

    def again(self, gradients: list[torch.Tensor]) -> None:
        """Computes the outputs and the gradients once more, inside the update of an optimizer that runs whole."""
        self._run(self.rows_before())
        for to, source in self.whole_update().copies:
            to.copy_(source)

    def _run(self, rows: list[Row], first: Any = None, after: Any = None, check: bool = False) -> None:
        begin, held_now, end, handle = (
            self.library.neap_steer_begin,
            self.library.neap_steer_check,
            self.library.neap_steer_end,
            self.handle,
        )
        bind = self.resident.bind
        for row in rows:
            if row.number == self.begins:
                self.begin()
            if row.template is not None:
                row.args, row.kwargs = mapped(bind, row.template)
            for to, source in row.copies:
                to.copy_(source if isinstance(source, torch.Tensor) else self._resident_bytes(source))
            number = row.number
            if row.kind == "whole":
                self.note_unplanned(row.work.operator, row.fn(*row.args))
                if after is not None:
                    after(number)
                continue
            if row.kind == "update" and first is not None and first(row.work):
                number = self.first_rows.get(number, number)
            now = _redraw(row.redraws) if row.redraws else None
            begin(handle, number)
            try:
                result = row.fn(*row.args, **row.kwargs)
                if check:
                    self._compare(row, result)
                if held_now():
                    self._repair(row, result)
                else:
                    for where, own in row.apart:
                        own.copy_(result_tensors(result)[where])
            finally:
                result = None
                held = end()
                if now is not None:
                    row.redraws[0].set_state(now)
            if held:
                raise Problem(
                    f"{row.work.name} ({row.work.operator}) keeps scratch memory that it freed when it was measured; please report it"
                )
            if after is not None:
                after(row.number)
            if row.template is not None:
                row.args, row.kwargs = (), {}

    def _compare(self, row: Row, result: Any) -> None:
        if row.kind != "call":
            return
        call = self.graph.calls[row.work.index]
        for view, tensor in zip(call.results, result_tensors(result), strict=False):
            if (
                view is not None
                and tensor is not None
                and view.tensor in call.makes
                and tuple(tensor.shape) != view.size
            ):
                raise Problem(
                    f"{row.work.name} ({row.work.operator}) gives shape {tuple(tensor.shape)}, but other lengths gave {view.size} for the "
                    "plan: prepare this length by itself (step.prepare(*batch)), and please report it"
                )

    def _resident_bytes(self, tensor: int) -> torch.Tensor:
        return _bytes_of(self.resident.base(self.graph.tensors[tensor].storage))

    def _repair(self, row: Row, result: Any) -> None:
        """Copies results that lie elsewhere to their planned addresses, and records the bytes that the call took outside the arena."""
        tensors = result_tensors(result)
        moved = [(own, tensors[where]) for where, own in row.apart]
        extra = self.library.neap_steer_unplanned_bytes()
        for position, view in row.outputs:
            planned, tensor = self.value(view, self.makes[row.number]), tensors[position]
            if tensor is not None and tensor.data_ptr() != planned.data_ptr():
                moved.append((planned, tensor))
                if not self.arena.holds(tensor):  # another thread of the kernel allocated it
                    extra = max(extra, tensor.untyped_storage().nbytes())
        while moved:  # those first whose places no other result lies in
            free = [
                (to, own) for to, own in moved if not any(_meet(to, other) for _, other in moved if other is not own)
            ]
            if not free:  # they lie in each other's places
                to, own = moved.pop()
                extra = max(extra, own.untyped_storage().nbytes())
                moved.append((to, _outside(own)))
            for to, own in free:
                to.copy_(own)
            moved = [(to, own) for to, own in moved if not any(own is done for _, done in free)]
        self.note_unplanned(row.work.operator, extra)

    def high(self) -> int:
        return int(self.library.neap_steer_high(self.handle)) if self._free.alive else self._high


def mapped(f: Callable[[Any], Any], x: Any) -> Any:
    """Returns the same structure of tuples, lists and dicts with f(x) in place of each View and Given."""
    if isinstance(x, (View, Given)):
        return f(x)
    if type(x) is tuple:
        return tuple([mapped(f, y) for y in x])
    if isinstance(x, list):
        return [mapped(f, y) for y in x]
    if isinstance(x, dict):
        return {key: mapped(f, y) for key, y in x.items()}
    return x


def _outside(t: torch.Tensor) -> torch.Tensor:
    """Returns a copy of a tensor, with its layout, in memory that is not PyTorch's allocator's."""
    held = torch.from_numpy(np.empty(t.untyped_storage().nbytes(), dtype=np.uint8)).copy_(_bytes_of(t))
    return torch.empty(0, dtype=t.dtype).set_(held.untyped_storage(), t.storage_offset(), t.shape, t.stride())


def _meet(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Returns whether the storages of two tensors have bytes in common."""
    a, b = a.untyped_storage(), b.untyped_storage()
    return a.data_ptr() < b.data_ptr() + b.nbytes() and b.data_ptr() < a.data_ptr() + a.nbytes()


def _whole(tensor: int) -> View:
    return View(tensor, (), (), 0, torch.uint8)


def _bytes_of(t: torch.Tensor) -> torch.Tensor:
    return torch.empty(0, dtype=torch.uint8, device=t.device).set_(t.untyped_storage())


def _save_state(held: torch.Tensor, generator: torch.Generator) -> None:
    held.copy_(generator.get_state())


def _redraw(redraws: tuple[torch.Generator, torch.Tensor]) -> torch.Tensor:
    """Sets the generator to its state of the call's first run; returns its present state."""
    generator, state = redraws
    now = generator.get_state()
    generator.set_state(state)
    return now


def _write(program: Program, storage: int, source: torch.Tensor) -> None:
    _bytes_of(program.resident.base(storage))[: source.numel()].copy_(source)


class DropProgram(Program):
    """A program with tensors of PyTorch's own allocator, each dropped after its last read: for every device, and if the allocator
    cannot be steered."""

    def __init__(self, assembly: Assembly, plan: neap.Plan, resident: Resident, taken: Taken, take: Any):
        super().__init__(assembly, plan, resident, taken, take)
        instances = plan.instances
        self.drops: list[list[int]] = [[] for _ in self.order]
        for tensor, last in zip(instances["tensor"].tolist(), instances["last"].tolist(), strict=True):
            if tensor >= 0:
                self.drops[last].append(tensor)
        self.rows = [self.row(i, v) for i, v in enumerate(self.order)]
        for row in self.rows:
            if row.kind == "call":
                row.template = mapped(self._settled(row), self.arguments(row))
        self.live: dict[int, torch.Tensor] = {}  # step tensor -> a tensor in its storage
        self.bytes = self.peak = 0  # of live tensors

    def _settled(self, row: Row) -> Callable[[Any], Any]:
        """Returns a function that binds the arguments whose memory is the same in each step."""
        changed = {old for old, new in self.graph.calls[row.work.index].changes if new in self.assembly.tensors}
        comes = lambda x: isinstance(x, Given) or x.tensor in changed or self.is_value(x) or self.resident.is_input(x)  # noqa: E731
        return lambda x: x if comes(x) else self.resident.bind(x)

    def _put(self, tensor: int, value: torch.Tensor) -> None:
        self._drop(tensor)
        self.live[tensor] = value
        self.bytes += value.untyped_storage().nbytes()
        self.peak = max(self.peak, self.bytes)

    def _drop(self, tensor: int) -> None:
        value = self.live.pop(tensor, None)
        if value is not None:
            self.bytes -= value.untyped_storage().nbytes()

    def _value(self, view: View) -> torch.Tensor:
        if not self.is_value(view):
            return self.resident.bind(view)
        base = self.live[self.assembly.tensors[view.tensor]]
        return base if _lies(base, view) else _viewed(base, view)

    def _call(self, row: Row) -> None:
        graph, of, call = self.graph, self.assembly.tensors, self.graph.calls[row.work.index]
        changed = {}
        for old, new in call.changes:
            if new not in of:
                continue
            value = self.is_value(_whole(old))
            base = self.live[of[old]] if value else self.resident.base(graph.tensors[old].storage)
            if not value or of[old] not in self.drops[row.number]:
                copy = torch.empty(0, dtype=torch.uint8, device=base.device).set_(
                    _bytes_of(base).clone().untyped_storage()
                )
                base = torch.empty(0, dtype=base.dtype, device=base.device).set_(copy.untyped_storage(), 0, (1,), (1,))
            else:
                self._drop(of[old])  # the new content takes its memory
            changed[old] = base
            self._put(of[new], base)

        def leaf(x: Any) -> Any:
            if isinstance(x, Given):
                return self.resident.bind(x)
            return _viewed(changed[x.tensor], x) if x.tensor in changed else self._value(x)

        args, kwargs = mapped(leaf, row.template)
        if call.random and self.seen[row.number]:
            generator = self.generator(row.work)
            now = _redraw((generator, self.live[self.assembly.state_tensors[row.work.index]]))
            result = call.target(*args, **kwargs)
            generator.set_state(now)
        else:
            result = call.target(*args, **kwargs)
        apart = {call.makes[i] for i in row.work.cost.copied}
        for view, tensor in zip(call.results, result_tensors(result), strict=False):
            if view is not None and view.tensor in call.makes and tensor is not None:
                self._put(of[view.tensor], tensor.clone() if view.tensor in apart else tensor)

    def run(self, first: Any = None, after: Callable[[int], None] | None = None, check: bool = False) -> None:
        """Runs one step."""
        self.close()
        self._run(self.rows, after)

    def again(self, gradients: list[torch.Tensor]) -> None:
        """Computes the outputs and the gradients once more, inside the update of an optimizer that runs whole."""
        self._run(self.rows_before(), None)
        gradients[:] = self._gradients(self.whole_update())

    def _gradients(self, row: Row) -> list[torch.Tensor]:
        """Returns the gradients that an update may change; a copy of one that is read later."""
        drops, tensors = set(self.drops[row.number]), self.assembly.tensors
        own = []
        for gradient in self.taken(row.work)[0]:
            one, tensor = self._value(gradient), tensors[gradient.tensor]
            last = tensor in drops
            drops.discard(tensor)
            own.append(one if last or not row.work.outputs else one.clone(memory_format=torch.preserve_format))
        return own

    def _run(self, rows: list[Row], after: Callable[[int], None] | None) -> None:
        for row in rows:
            work = row.work
            if row.number == self.begins:
                self.begin()
            if work.kind == "call":
                for t in self.graph.calls[work.index].makes:
                    self._drop(self.assembly.tensors[t])
                self._call(row)
            elif work.kind == "state":
                self._put(work.outputs[0], self.generator(work).get_state())
            elif work.kind == "write":
                source = self.live[self.assembly.tensors[self.graph.last[work.index]]]
                _write(self, work.index, _bytes_of(source))
                del source
            else:
                _, scale = self.taken(work)
                extra = self.take(work, self._gradients(row), None if scale is None else self._value(scale))
                self.note_unplanned(work.operator, extra)
            for t in self.drops[row.number]:
                if t not in self.assembly.kept:
                    self._drop(t)
            if after is not None:
                after(row.number)

    def output(self, view: View) -> torch.Tensor:
        return self._value(view)

    def high(self) -> int:
        return self.peak

    def close(self) -> None:
        self.live.clear()
        self.bytes = 0


def _lies(t: torch.Tensor, view: View) -> bool:
    return (
        tuple(t.shape) == view.size
        and tuple(t.stride()) == view.stride
        and t.storage_offset() == view.offset
        and t.dtype == view.dtype
    )


def _viewed(t: torch.Tensor, view: View) -> torch.Tensor:
    if t.dtype == view.dtype:
        return t.as_strided(view.size, view.stride, view.offset)
    return torch.empty(0, dtype=view.dtype, device=t.device).set_(
        t.untyped_storage(), view.offset, view.size, view.stride
    )
