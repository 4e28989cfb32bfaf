"""Makes the step that Neap plans (bytes, costs, edges) of captured calls and their costs."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch
from torch.utils import _pytree as pytree

import neap

from .decisions import DECIDING
from .graph import Graph, View, is_check
from .measure import ALIGNMENT, Cost, aligned

aten = torch.ops.aten

# Elementwise operators that PyTorch does not tag as pointwise.
ELEMENTWISE = {
    aten.threshold_backward.default,
    aten.gelu_backward.default,
    aten.silu_backward.default,
    aten.sigmoid_backward.default,
    aten.tanh_backward.default,
}


@dataclasses.dataclass(slots=True)
class Work:
    """A node of the step. kind: call; state (saves a generator's state before a random call); write (writes a resident storage's
    last content back); accumulate (adds a gradient to its sum); update (of a parameter). index: of the call, the storage or the
    gradient."""

    kind: str
    index: int
    inputs: list[int]  # step tensors
    outputs: list[int]
    updates: list[int]
    cost: Cost
    name: str
    operator: str
    phase: str
    repeatable: bool = True
    pairs: list[tuple[int, int]] = dataclasses.field(default_factory=list)  # (output position, input position)


@dataclasses.dataclass(slots=True)
class Gradient:
    """Complete gradients, and the work that takes them: one, or all where the optimizer runs whole."""

    views: list[View]
    kind: str  # update or accumulate
    scale: View | None  # factor of the gradients (clipping)
    changes: list[int]  # the parameters' tensors in the graph, if they are in it
    cost: Cost
    name: str
    whole: bool = False  # an update after all other work, which the optimizer or its hooks may see


@dataclasses.dataclass
class Assembly:
    """A step, and the meaning of its nodes and tensors."""

    graph: Graph
    step: neap.Step
    works: list[Work]
    tensors: dict[int, int]  # graph tensor -> step tensor
    state_tensors: dict[int, int]  # random call -> step tensor of the generator's state
    gradients: list[Gradient]
    kept: set[int]  # step tensors that live to the end


def generator_state_bytes(device: torch.device) -> int:
    return 16 if device.type == "cuda" else 5056


class _Assembler:
    def __init__(self, graph: Graph, costs: list[Cost], in_place: bool):
        self.graph, self.costs, self.in_place = graph, costs, in_place
        self.sizes: list[int] = []
        self.roles: list[str] = []
        self.names: list[str] = []
        self.tensors: dict[int, int] = {}
        self.states: dict[int, int] = {}
        self.checks: list[int] = []  # step tensors that show that a check was made
        self.works: list[Work] = []

    def tensor(self, size: int, role: str, name: str) -> int:
        self.sizes.append(size)
        self.roles.append(role)
        self.names.append(name)
        return len(self.sizes) - 1

    def declare(self) -> None:
        """Makes step tensors for resident storages."""
        for number, tensor in enumerate(self.graph.tensors):
            storage = self.graph.storages[tensor.storage]
            if storage.role != "value" and tensor.version == 0:
                role = storage.role if storage.role != "constant" else "input"
                self.tensors[number] = self.tensor(storage.bytes, role, storage.name)

    def value(self, number: int) -> int:
        """Makes the step tensor of a tensor that a call makes."""
        storage, version = self.graph.storage_of(number), self.graph.tensors[number].version
        self.tensors[number] = self.tensor(
            aligned(storage.bytes), "value", f"{storage.name} {version}" if version else storage.name
        )
        return self.tensors[number]

    def add_calls(self, wanted: set[int]) -> None:
        graph = self.graph
        readers: dict[int, int] = {}
        for call in graph.calls:
            for t in call.reads:
                readers[t] = readers.get(t, 0) + 1
        token = decided = None  # of the last random call, and of the last decision
        tokens: dict[int, int] = {}
        for number, (call, cost) in enumerate(zip(graph.calls, self.costs, strict=True)):
            phase = "backward" if call.backward else "forward"
            inputs = [self.tensors[t] for t in call.reads]
            outputs = [self.value(t) for t in call.makes]
            work = Work("call", number, inputs, outputs, [], cost, call.name, str(call.target), phase)
            for old, new in call.changes:
                storage = graph.storage_of(old)
                resident = storage.role != "value" and graph.tensors[old].version == 0
                if (
                    resident
                    and graph.last[graph.tensors[old].storage] == new
                    and new not in readers
                    and new not in wanted
                ):
                    # Nothing reads the new content: the storage is changed in place.
                    work.updates.append(self.tensors[old])
                    work.repeatable = False
                    continue
                if not resident:
                    work.pairs.append((len(outputs), inputs.index(self.tensors[old])))
                outputs.append(self.value(new))
            if not call.changes and self.in_place:
                self.pair_elementwise(work, call)
            if call.statistics:
                # Two calls that update the same statistics keep their order.
                storages = [
                    graph.tensors[call.args[i].tensor].storage
                    for i in call.statistics
                    if isinstance(call.args[i], View)
                ]
                inputs += dict.fromkeys(tokens[s] for s in storages if s in tokens)
                outputs.append(self.tensor(ALIGNMENT, "value", f"{call.name} done"))
                tokens.update(dict.fromkeys(storages, outputs[-1]))
            if work.updates or call.statistics:
                inputs += self.checks
            if decided is not None:
                inputs.append(decided)  # on another way this call would not run, and may fail
            if is_check(call.target):
                self.checks.append(self.tensor(ALIGNMENT, "value", f"{call.name} made"))
                outputs.append(self.checks[-1])
                decided = self.checks[-1] if call.target in DECIDING else decided
            if call.random:
                device = graph.device_of(call)
                state = self.tensor(aligned(generator_state_bytes(device)), "value", f"{call.name} generator")
                self.states[number] = state
                before = [token] if token is not None else []
                self.works.append(
                    Work(
                        "state",
                        number,
                        before,
                        [state],
                        [],
                        Cost(1e-5, generator_state_bytes(device)),
                        f"{call.name} generator",
                        "generator_state",
                        phase,
                        False,
                    )
                )
                inputs.append(state)
                token = self.tensor(ALIGNMENT, "value", f"{call.name} drawn")
                outputs.append(token)
            self.works.append(work)

    def pair_elementwise(self, work: Work, call: Any) -> None:
        """Allows an elementwise result to take the place of an operand with the same layout."""
        if len(call.makes) != 1 or len(call.results) != 1 or call.random:
            return
        if torch.Tag.pointwise not in getattr(call.target, "tags", ()) and call.target not in ELEMENTWISE:
            return
        result = call.results[0]
        whole = self.graph.storage_of(call.makes[0]).bytes
        leaves = pytree.tree_leaves((call.args, call.kwargs), is_leaf=lambda x: isinstance(x, View))
        views = [x for x in leaves if isinstance(x, View)]
        for x in views:
            if any(y.tensor == x.tensor and y != x for y in views):
                continue  # the call also reads another view of it, in another order
            if not isinstance(x, View) or self.roles[self.tensors[x.tensor]] != "value" or x.offset or result.offset:
                continue
            same = (x.size, x.stride, x.dtype) == (result.size, result.stride, result.dtype)
            if same and self.graph.storage_of(x.tensor).bytes == whole:
                work.pairs.append((0, work.inputs.index(self.tensors[x.tensor])))

    def add_writes(self) -> None:
        for storage, last in self.graph.last.items():
            s = self.graph.storages[storage]
            if s.role == "value" or self.graph.tensors[last].version == 0 or last not in self.tensors:
                continue
            first = next(n for n, t in enumerate(self.graph.tensors) if t.storage == storage and t.version == 0)
            self.works.append(
                Work(
                    "write",
                    storage,
                    [self.tensors[last], *self.checks],
                    [],
                    [self.tensors[first]],
                    Cost(5e-6 + s.bytes / 1e10),
                    f"{s.name} written",
                    "copy_",
                    "backward",
                    False,
                )
            )

    def add_gradients(self, gradients: list[Gradient], residents: list[list[int]]) -> None:
        """Puts each update after its gradient, after all checks and after the last reader of everything that it changes."""
        where: dict[int, int] = {}
        for position, work in enumerate(self.works):
            for t in (*work.inputs, *work.outputs):
                where[t] = position
        placed: dict[int, list[Work]] = {}
        for number, (gradient, changed) in enumerate(zip(gradients, residents, strict=True)):
            sources = [self.tensors[v.tensor] for v in (*gradient.views, gradient.scale) if v is not None]
            sources = [t for t in sources if self.roles[t] == "value"]
            if gradient.whole:
                sources += self.tokens_of_changes()
            phase = "update" if gradient.kind == "update" else "backward"
            updates = [*(self.tensors[t] for t in gradient.changes), *changed]
            work = Work(
                gradient.kind, number, [*sources, *self.checks], [], updates, gradient.cost, gradient.name, gradient.kind, phase, False
            )  # fmt: skip
            for held in (self.tensors[v.tensor] for v in gradient.views if gradient.kind == "update"):
                if self.roles[held] == "value":
                    # Clipping and optimizers change a gradient, which others may read: in place only if this is the last read.
                    work.pairs.append((len(work.outputs), sources.index(held)))
                    work.outputs.append(self.tensor(self.sizes[held], "value", f"{gradient.name} gradient"))
            position = max((where.get(t, -1) for t in (*work.inputs, *work.updates)), default=-1)
            if gradient.whole:
                position = len(self.works) - 1
            placed.setdefault(position, []).append(work)
        works = list(placed.get(-1, []))
        for position, work in enumerate(self.works):
            works.append(work)
            works += placed.get(position, [])
        self.works = works

    def tokens_of_changes(self) -> list[int]:
        """Returns step tensors that show that each change of a resident tensor was made."""
        changing = [work for work in self.works if work.updates]
        for work in changing:
            work.outputs.append(self.tensor(ALIGNMENT, "value", f"{work.name} made"))
        return [work.outputs[-1] for work in changing]

    def finish(self, name: str, gradients: list[Gradient], outputs: list[Any]) -> Assembly:
        steps_outputs = list(
            dict.fromkeys(
                self.tensors[o.tensor]
                for o in outputs
                if isinstance(o, View) and self.roles[self.tensors[o.tensor]] == "value"
            )
        )
        step = neap.Step(
            self.sizes,
            [list(dict.fromkeys(w.inputs)) for w in self.works],
            [w.outputs for w in self.works],
            roles=self.roles,
            costs=[w.cost.seconds for w in self.works],
            workspaces=[aligned(w.cost.scratch) for w in self.works],
            passes=[w.phase for w in self.works],
            repeatable=[w.repeatable for w in self.works],
            updates=[w.updates for w in self.works],
            inplace=[
                (i, o, list(dict.fromkeys(w.inputs)).index(w.inputs[p]))
                for i, w in enumerate(self.works)
                for o, p in w.pairs
            ],
            step_outputs=steps_outputs,
            names=[w.name for w in self.works],
            tensor_names=self.names,
            operators=[w.operator for w in self.works],
            name=name,
        )
        return Assembly(self.graph, step, self.works, self.tensors, self.states, gradients, set(steps_outputs))


def assemble(
    graph: Graph,
    costs: list[Cost],
    gradients: list[Gradient],
    outputs: list[Any],
    *,
    in_place: bool,
    states: list[list[tuple[str, int]]] | None = None,
    resident: list[tuple[str, int, str]] = (),
    name: str = "step",
) -> Assembly:
    """Returns the step of a captured graph.

    in_place: whether an elementwise call can write over an operand, which needs planned addresses. states: for each of
    `gradients`, (name, bytes) of the optimizer states or the sum that it changes besides the parameter. resident: (name, bytes,
    role) of other tensors that exist for the whole step. outputs: views that live to the end."""
    a = _Assembler(graph, costs, in_place)
    a.declare()
    extra = [[a.tensor(size, "state", n) for n, size in one] for one in (states or [[] for _ in gradients])]
    for n, size, role in resident:
        a.tensor(size, role, n)
    wanted = {v.tensor for v in outputs if isinstance(v, View)}
    wanted |= {v.tensor for g in gradients for v in (*g.views, g.scale) if v is not None}
    a.add_calls(wanted)
    a.add_writes()
    a.add_gradients(gradients, extra)
    return a.finish(name, gradients, outputs)
