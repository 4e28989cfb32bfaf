"""The backend `neap` of torch.compile: forward and backward of each graph inside a budget, in an unchanged training loop."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import os
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx import Graph as FxGraph
from torch.fx import GraphModule, Node
from torch.utils import _pytree as pytree

import neap as planner
from neap._budget import parse as parse_budget

from . import eager_formulas, measure
from .assemble import Assembly, Work, _Assembler, generator_state_bytes
from .by_shape import ByShape, Passes, Serving, interpreted, keeping_buffers, mark
from .captured import REPLAN, least_serving
from .family import numbers_of
from .graph import REPEATED, Call, CannotTrace, Graph, View, build_graph, mark_passes, unread
from .measure import Cost
from .memory import Memory
from .plans import cached_plan
from .program import generator_of
from .trace import all_as_known, known_results

OPTIONS = {"budget", "optimizer_bytes", "inductor", "planner", "seconds"}


@dataclasses.dataclass
class Planned:
    """A compiled graph, and bytes: of all shapes for which it was compiled, the most."""

    memory: Memory  # of the latest shape
    # Names in the traced program; the same graph compiled again (other shapes, eval) has the same names.
    inputs: frozenset[str]
    resident_bytes: int
    arena_bytes: int
    saved_bytes: int  # of values between its forward and its backward pass
    gradient_bytes: int


class Session:
    """The graphs of one torch.compile call, which share its budget."""

    def __init__(self, options: dict[str, Any]):
        unknown = set(options) - OPTIONS
        if unknown:
            raise ValueError(
                f"backend neap: no option {', '.join(sorted(unknown))}; the options are {', '.join(sorted(OPTIONS))}"
            )
        self.options = options
        self.budget = options.get("budget", os.environ.get("NEAP_BUDGET") or "max")
        parse_budget(self.budget)
        self.graphs: list[Planned] = []

    def add(self, planned: Planned) -> None:
        for former in self.graphs:
            if former.inputs == planned.inputs:
                for kind in ("resident_bytes", "arena_bytes", "saved_bytes", "gradient_bytes"):
                    setattr(planned, kind, max(getattr(planned, kind), getattr(former, kind)))
        self.graphs = [g for g in self.graphs if g.inputs != planned.inputs] + [planned]

    def budget_for(self, inputs: frozenset[str]) -> int | str:
        """Returns the rest of the budget for one more graph; a share, "min" and "max" apply to each graph. Raises OverBudget."""
        size, fraction = parse_budget(self.budget)
        reserved = int(self.options.get("optimizer_bytes", 0))
        if fraction is not None or self.budget in ("min", "max"):
            return self.budget
        others = sum(g.resident_bytes + g.saved_bytes for g in self.graphs if g.inputs != inputs)
        left = size - reserved - others
        if left <= 0:
            raise planner.OverBudget(
                f"budget of {size} bytes: {len(self.graphs)} graphs that were compiled before hold {others}, and {reserved} are reserved; give more"
            )
        return left


_sessions: dict[int, Session] = {}


def last_plans() -> list[Memory]:
    """Returns the memory of each graph of the latest compiled model, in the order of compilation. A model that torch.compile left to
    eager does not count."""
    return [g.memory for g in _last.graphs] if _last is not None else []


_last: Session | None = None


# ---- The step of a joint graph ----


def _boundary(
    graph: Graph,
    costs: list[Cost],
    forward_outputs: list[Any],
    gradients: list[Any],
    tangents: list[View],
    by_inductor: bool,
    between: set[int] = frozenset(),
) -> tuple[Assembly, int]:
    """Returns the step with a node between forward and backward that reads all outputs and makes the tangents, and its position.
    by_inductor: random calls do not run again, and elementwise results may take the place of an operand. between: inputs and outputs
    that other code may change between both passes."""
    a = _Assembler(graph, costs, by_inductor)
    a.declare()
    for view in tangents:
        a.value(view.tensor)
    outputs = [v for v in (*forward_outputs, *gradients) if isinstance(v, View)]
    a.add_calls({v.tensor for v in outputs})
    a.add_writes()
    moved = _moved(graph, forward_outputs) | between
    for work in a.works:
        if work.kind == "call" and graph.calls[work.index].random and by_inductor:
            work.repeatable = False
        if work.kind == "call" and any(t in moved for t in _read_again(graph.calls[work.index])):
            work.repeatable = False
    # The forward pass comes first: a pass over the joint graph may have mixed both.
    ahead = [w for w in a.works if w.phase == "forward"]
    behind = [w for w in a.works if w.phase != "forward"]
    read = [
        a.tensors[v.tensor] for v in forward_outputs if isinstance(v, View) and a.roles[a.tensors[v.tensor]] == "value"
    ]
    # The forward pass makes all its draws, in their order: the last one's token.
    read += [w.outputs[-1] for w in ahead if w.kind == "call" and graph.calls[w.index].random][-1:]
    made = list(dict.fromkeys(a.tensors[v.tensor] for v in tangents))
    boundary = Work(
        "boundary", -1, list(dict.fromkeys(read)), made, [], Cost(0.0), "boundary", "boundary", "forward", False
    )
    a.works = [*ahead, boundary, *behind]
    return a.finish("compiled graph", [], outputs), len(ahead)


def _drawn(graph: Graph, tangents: list[View]) -> list[int]:
    """Returns what random calls of the forward pass make, even where no output depends on it. Those of the backward pass are tagged
    so by AOTAutograd; without tags, they come after the first call that depends on a tangent."""
    behind = {view.tensor for view in tangents}
    found, after = [], False
    for call in graph.calls:
        if not behind.isdisjoint(call.reads):
            after = True
            behind.update(call.makes, (new for _, new in call.changes))
        tag = call.node.meta.get("partitioner_tag")
        if call.random and not ("backward" in tag if tag else after):
            found += [*call.makes, *(new for _, new in call.changes)]
    return found


def _read_again(call: Call) -> list[int]:
    """Returns the tensors that a repeat of a call reads."""
    _, without = REPEATED.get(call.target, (None, ()))
    args = [x for i, x in enumerate(call.args) if i not in without]
    leaves = pytree.tree_leaves((args, call.kwargs), is_leaf=lambda x: isinstance(x, View))
    return [x.tensor for x in leaves if isinstance(x, View)]


def _changeable(graph: Graph, outputs: list[Any], parameters: set[int]) -> set[int]:
    """Returns the inputs and outputs that code behind a graph break may change before the backward pass runs: all but parameters, and but
    those that the backward pass reads in any case, since autograd refuses a change of these. outputs: of the forward pass. parameters:
    positions among the inputs of the traced program."""
    kept = {t for call in graph.calls if call.backward for t in _read_again(call)}
    nodes = [n for n in graph.module.graph.nodes if n.op == "placeholder"]
    inputs = {
        v.tensor
        for i, (n, v) in enumerate(zip(nodes, graph.inputs, strict=True))
        if v is not None and not is_tangent(n) and _position(n, i) not in parameters
    }
    made = {t for call in graph.calls for t in call.makes}
    return (inputs | made & {v.tensor for v in outputs if isinstance(v, View)}) - kept


def _position(node: Node, position: int) -> int:
    """Returns the position of the traced program's input that a placeholder is, or is a part of, as far as AOTAutograd says."""
    described = node.meta.get("desc")
    while hasattr(described, "base") or hasattr(described, "base_of"):
        described = getattr(described, "base", None) or described.base_of
    return getattr(described, "idx", position)


def _moved(graph: Graph, forward_outputs: list[Any]) -> set[int]:
    """Returns inputs that may have changed when the backward pass runs; calls that read them do not run again. These are the inputs
    that AOTAutograd writes to after the forward pass, by the output's descriptions. Without descriptions: inputs with the size
    and type of an output."""
    nodes = list(graph.module.graph.nodes)
    described = [n.meta.get("desc") for n in nodes if n.op == "placeholder"]
    results = next(n for n in nodes if n.op == "output").meta.get("desc")
    if results is not None and None not in described:
        changed = [d.mutated_input for d in results if hasattr(d, "mutated_input")]
        return {v.tensor for v, d in zip(graph.inputs, described, strict=True) if v is not None and d in changed}
    kinds = {
        (v.size, v.dtype) for v in forward_outputs if isinstance(v, View) and graph.storage_of(v.tensor).role == "value"
    }
    return {v.tensor for v in graph.inputs if v is not None and (v.size, v.dtype) in kinds}


# ---- From a schedule to two fx graphs ----


class _Emitter:
    """Writes calls into an fx graph, with the views that they read. Results of a repeat replace the earlier ones."""

    def __init__(self, joint: Graph, graph: FxGraph, missing: Callable[[Node], Node]):
        self.joint, self.graph, self.missing = joint, graph, missing
        self.known: dict[Node, Node] = {}
        self.views: dict[Node, list[Node]] = {}  # a call's node -> written views of its results
        self.bases = {call.node: call for call in joint.calls}

    def owner(self, node: Node) -> Node:
        """Returns the call or placeholder whose result a node is a view of."""
        while node.op == "call_function" and node not in self.bases:
            node = next(a for a in node.all_input_nodes)
        return node

    def get(self, node: Node) -> Node:
        if node in self.known:
            return self.known[node]
        if node.op == "get_attr":
            self.known[node] = self.graph.node_copy(node)
        elif node.op == "placeholder" or node in self.bases or _is_result(node, self.bases):
            self.known[node] = self.missing(node)
        else:  # a view
            self.known[node] = self.graph.node_copy(node, self.get)
            self.views.setdefault(self.owner(node), []).append(node)
        return self.known[node]

    def call(self, call: Call, repeat: bool = False, first: tuple[Any, ...] = ()) -> None:
        """Writes a call. first: arguments of a wrapper that is called in place of the operator; the operator follows them."""
        for view in self.views.pop(call.node, []):
            self.known.pop(view, None)
        target, without = REPEATED.get(call.node.target, (None, ())) if repeat else (None, ())
        skipped = unread(call.node)
        args = tuple(None if i in skipped else x for i, x in enumerate(call.node.args) if i not in without)
        args, kwargs = torch.fx.node.map_arg((args, call.node.kwargs), self.get)
        if first:
            new = self.graph.call_function(_redrawn, (*first, call.node.target, *args), kwargs)
        else:
            new = self.graph.call_function(target or call.node.target, args, kwargs)
        new.meta.update(call.node.meta)
        if target:  # the operator of a repeat leaves results out
            new.meta["val"] = new.meta["val"][: len(target._schema.returns)]
        self.known[call.node] = new
        for user in call.node.users:
            if _is_result(user, self.bases) and not (user.args[1] in without and target):
                self.known[user] = self.graph.node_copy(user, self.get)


def _is_result(node: Node, bases: dict[Node, Call]) -> bool:
    return node.op == "call_function" and getattr(node.target, "__name__", "") == "getitem" and node.args[0] in bases


def _save_generator(device: torch.device) -> torch.Tensor:
    return generator_of(device).get_state()


def _redrawn(state: torch.Tensor, device: torch.device, target: Any, *args: Any, **kwargs: Any) -> Any:
    """Runs a random call again with the generator's state of its first run."""
    generator = generator_of(device)
    now = generator.get_state()
    generator.set_state(state)
    try:
        return target(*args, **kwargs)
    finally:
        generator.set_state(now)


def _split(
    graph: Graph, assembly: Assembly, plan: planner.Plan, boundary: int, joint: GraphModule, count: int, marked: bool
) -> tuple[GraphModule, GraphModule]:
    """Returns the schedule up to the boundary, and the rest, as fx graphs in the order of the schedule. The forward graph returns its
    `count` outputs and then the values that the backward graph reads. The backward graph takes these and then the tangents. marked: the
    first value that it takes is a `mark`."""
    schedule = [int(v) for v in plan.schedule]
    at = schedule.index(boundary)
    placeholders = [n for n in joint.graph.nodes if n.op == "placeholder"]
    results = next(n for n in joint.graph.nodes if n.op == "output").args[0]
    forward, backward = FxGraph(), FxGraph()
    saved: list[Node] = []  # of the forward graph
    anchors: list[Node] = []  # the tangents in the backward graph
    states: dict[int, Node] = {}  # random call -> its generator's state in the forward graph
    states_back: dict[int, Node] = {}

    def bring(source: Node) -> Node:
        # A name that no call of the joint graph has. FX would rename the node and not its target, and its generated code
        # would then overwrite one argument with another.
        name = f"neap_saved_{len(saved)}"
        saved.append(source)
        with backward.inserting_before(anchors[0]):
            new = backward.placeholder(name)
        if new.name != name or new.target != name:
            raise RuntimeError(
                f"neap: internal fault: the placeholder {name} was renamed to {new.name}; please report it"
            )
        new.meta.update(source.meta)
        return new

    def fault(node: Node) -> Node:
        raise RuntimeError(f"neap: internal fault: {node.name} is read before it is made; please report it")

    head = _Emitter(graph, forward, fault)
    tail = _Emitter(graph, backward, lambda node: bring(head.known[node]))
    for node in placeholders:
        if is_tangent(node):
            tail.known[node] = backward.node_copy(node)
            anchors.append(tail.known[node])
        else:
            head.known[node] = forward.node_copy(node)
    if marked:
        made = forward.call_function(mark, (0,))
        made.meta["val"] = mark(0)
        bring(made).meta["neap_mark"] = True
    seen: set[int] = set()
    twice = {v for v, n in collections.Counter(schedule).items() if n > 1}
    repeated = {assembly.works[v].index for v in twice if assembly.works[v].kind == "call"}

    def emit(emitter: _Emitter, own: dict[int, Node], v: int) -> None:
        work = assembly.works[v]
        if work.kind == "state":
            if work.index not in repeated:
                return
            device = graph.device_of(graph.calls[work.index])
            own[work.index] = emitter.graph.call_function(_save_generator, (device,))
            own[work.index].meta["val"] = torch.empty(generator_state_bytes(device), dtype=torch.uint8)  # fake, as all
        elif work.kind == "call":
            call = graph.calls[work.index]
            if call.random and v in seen:
                if work.index not in own:
                    own[work.index] = bring(states[work.index])
                emitter.call(call, first=(own[work.index], graph.device_of(call)))
            else:
                emitter.call(call, v in seen)
            seen.add(v)

    for v in schedule[:at]:
        emit(head, states, v)
    for v in schedule[at + 1 :]:
        emit(tail, states_back, v)
    backward.output(tuple(tail.get(n) if isinstance(n, Node) else n for n in results[count:]))
    values = [head.get(n) if isinstance(n, Node) else n for n in results[:count]]
    forward.output(tuple(values + saved))
    return GraphModule(joint, forward), GraphModule(joint, backward)


def is_tangent(node: Node) -> bool:
    return "tangents" in str(node.target)


def _saved_bytes(fw: GraphModule, count: int) -> int:
    """Returns the bytes that the forward graph saves, without its inputs."""
    seen = {}
    for node in next(n for n in fw.graph.nodes if n.op == "output").args[0][count:]:
        value = node.meta.get("val")
        if node.op != "placeholder" and isinstance(value, torch.Tensor):
            seen[value.untyped_storage()._cdata] = value.untyped_storage().nbytes()
    return sum(seen.values())


# ---- The backend ----

TANGENTS = "guess_tangent_strides_as_outputs"  # of AOTAutograd: their strides are the outputs' at the captured shape


class _Crooked(Exception):
    """An output's strides are not those of a memory format."""


def _crooked(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and not value.is_contiguous(
        memory_format=torch._prims_common.suggest_memory_format(value)
    )


def _boxed(module: GraphModule, _: Any) -> Callable[..., Any]:
    run = interpreted(module)
    run._boxed_call = True
    return run


def _partition(
    session: Session,
    inputs: frozenset[str],
    joint: GraphModule,
    count: int,
    static: Sequence[int],
    strict: bool,
    parameters: set[int] | None,
    passes: Passes | None,
) -> tuple[GraphModule, GraphModule]:
    """strict: as measure.measure. parameters: positions of inputs, where the program has other graphs; None: it has none. passes: of a
    graph with symbolic shapes, whose plans may serve."""
    placeholders = [n for n in joint.graph.nodes if n.op == "placeholder"]
    roles = [
        ("value" if is_tangent(n) else "parameter" if i in static else "input", n.name)
        for i, n in enumerate(placeholders)
    ]
    graph = build_graph(joint, roles, own_inputs=False)
    forward_outputs, gradients = graph.outputs[:count], graph.outputs[count:]
    tangents = [v for n, v in zip(placeholders, graph.inputs, strict=True) if is_tangent(n) and v is not None]
    mark_passes(graph, [*(v.tensor for v in forward_outputs if isinstance(v, View)), *_drawn(graph, tangents)])
    between = _changeable(graph, forward_outputs, parameters) if parameters is not None else set()
    serving = _serving(graph, passes, between, strict)
    cache = measure.Cache()
    try:
        costs = serving.costs if serving is not None else measure.measure(graph, cache, strict=strict)
    finally:
        cache.close()
    assembly, boundary = _boundary(
        graph, costs, forward_outputs, gradients, tangents, bool(session.options.get("inductor")), between
    )  # fmt: skip
    if serving is not None:
        return _split(graph, assembly, serving.plan, boundary, joint, count, True)
    step = assembly.step
    budget = session.budget_for(inputs)
    chosen = session.options.get("planner", "auto"), session.options.get("seconds", 0.0)
    try:
        plan = cached_plan(step, budget, *chosen)
    except planner.OverBudget:
        if not (session.graphs and isinstance(budget, str)):
            raise
        # A share is one of all graphs together: a small graph after a break may not reach its part.
        plan = cached_plan(step, "min", *chosen)
        warnings.warn(
            f"neap: a graph after a graph break cannot meet its share {budget} of the budget; it takes its least, "
            f"{plan.resident_bytes + plan.arena_bytes} of {step.keep_all_bytes} bytes",
            stacklevel=2,
        )
    if passes is not None:
        sizes = [s.bytes for s in graph.storages]
        passes.group.plans.append(Serving(numbers_of(graph).skeleton, sizes, costs, between, plan))
    fw, bw = _split(graph, assembly, plan, boundary, joint, count, passes is not None)
    size, fraction = parse_budget(session.budget)
    planned = plan.resident_bytes + plan.arena_bytes
    asked = (
        int(fraction * step.keep_all_bytes)
        if fraction is not None
        else planned
        if session.budget in ("min", "max")
        else size
    )
    memory = Memory(
        budget_bytes=asked, planned_peak_bytes=planned, resident_bytes=plan.resident_bytes, arena_bytes=plan.arena_bytes,
        keep_all_bytes=step.keep_all_bytes, overhead=plan.overhead, enforced=False, recomputed=plan.recomputed,
        parameter_bytes=sum(s.bytes for s in graph.storages if s.role == "parameter"),
        input_bytes=sum(s.bytes for s in graph.storages if s.role == "input"),
        why="the training loop allocates outside the plan; each tensor of the graph is dropped after its last read",
    )  # fmt: skip
    held = {v.tensor: graph.storage_of(v.tensor).bytes for v in gradients if isinstance(v, View)}
    session.add(
        Planned(memory, inputs, plan.resident_bytes, plan.arena_bytes, _saved_bytes(fw, count), sum(held.values()))
    )
    _tell_together(session, size)
    return fw, bw


def _serving(graph: Graph, passes: Passes | None, between: set[int], strict: bool) -> Serving | None:
    """Returns the least plan of a larger shape that serves a graph; None if no plan does, or if a plan of its own is worth it. between:
    as for _boundary."""
    if passes is None or strict or not passes.group.fakes_are_right:
        return None
    skeleton = numbers_of(graph).skeleton
    alike = [p for p in passes.group.plans if (p.skeleton, p.between) == (skeleton, between)]
    return least_serving(alike, [s.bytes for s in graph.storages], REPLAN)


def _tell_together(session: Session, size: int | None) -> None:
    """Warns if several graphs exceed the budget together: all forward passes run before the first backward pass."""
    graphs = session.graphs
    if len(graphs) < 2 or session.budget in ("min", "max") or size is None:
        return
    resident = sum(g.resident_bytes for g in graphs) + int(session.options.get("optimizer_bytes", 0))
    most = max(
        resident + g.arena_bytes + sum(e.saved_bytes for e in graphs[:i]) + sum(e.gradient_bytes for e in graphs[i + 1 :])
        for i, g in enumerate(graphs)
    )  # fmt: skip
    if most > size:
        warnings.warn(
            f"neap: {len(graphs)} graphs (a graph break, or DistributedDataParallel's buckets) need {most} bytes together, {most - size} above the budget: "
            "the first were planned before the others were known; remove the breaks (TORCH_LOGS=graph_breaks names them), compile the model "
            "before it is wrapped, or give a smaller budget",
            stacklevel=2,
        )


def neap_backend(
    gm: GraphModule, example_inputs: Sequence[Any], *, options: dict[str, Any] | None = None, **_: Any
) -> Callable[..., Any]:
    """Compiles a graph: torch.compile(model, backend="neap", options={"budget": "2GiB"}).

    Options. budget: bytes, "2GiB", "60%" of the bytes of keeping everything, "min" or "max"; covers parameters, buffers, the
    batch, gradients and activations of all graphs together (default: NEAP_BUDGET of the environment, else "max").
    optimizer_bytes: reserved for the optimizer's states, which the backend cannot see. inductor: True lets Inductor compile both
    passes, which is faster; the peak is then Inductor's. planner, seconds: as for neap.plan.

    Raises ValueError for an unknown option, and neap.OverBudget while it compiles. The bits are those of eager, except with
    Inductor."""
    global _last
    options = options if options is not None else {}
    session = _sessions.get(id(options))
    if session is None or session.options is not options:
        session = _sessions[id(options)] = Session(options)
    _last = session
    if not session.options.get("inductor"):
        eager_formulas.place(gm)
    inputs = frozenset(n.name for n in gm.graph.nodes if n.op == "placeholder")
    if any(isinstance(x, (torch.SymInt, torch.SymFloat)) for x in example_inputs):
        inductor = bool(session.options.get("inductor"))
        return ByShape(
            gm, lambda module, args, passes: _compiled(module, args, session, inputs, None if inductor else passes)
        )
    return _compiled(gm, example_inputs, session, inputs)


def _compiled(
    gm: GraphModule,
    example_inputs: Sequence[Any],
    session: Session,
    inputs: frozenset[str],
    passes: Passes | None = None,
) -> Callable[..., Any]:
    """passes: take the passes of a graph with symbolic shapes; None: the graph has one shape."""
    options = session.options
    strict = False
    reason = getattr(gm, "compile_subgraph_reason", None)
    several = (reason is not None and reason.graph_break) or any(g.inputs != inputs for g in session.graphs)
    parameters = {i for i, x in enumerate(example_inputs) if isinstance(x, torch.nn.Parameter)} if several else None

    def partition(
        joint: GraphModule,
        joint_inputs: Any,
        *,
        num_fwd_outputs: int,
        static_lifetime_input_indices: Sequence[int] | None = None,
        **__: Any,
    ) -> Any:
        static = list(static_lifetime_input_indices or ())
        if passes is not None and passes.serves_others:
            outputs = next(n for n in joint.graph.nodes if n.op == "output").args[0][:num_fwd_outputs]
            if any(_crooked(n.meta["val"]) for n in outputs if isinstance(n, Node)):
                raise _Crooked
        fw, bw = _partition(session, inputs, joint, num_fwd_outputs, static, strict, parameters, passes)
        if passes is not None:
            passes.partitioned(joint, num_fwd_outputs, bw)
        return fw, bw

    from torch._dynamo.backends.common import aot_autograd
    from torch._functorch import config as functorch

    forward, backward = (passes.forward, passes.backward) if passes is not None else (_boxed, _boxed)
    compiled = aot_autograd(
        fw_compiler=forward, bw_compiler=backward, inference_compiler=forward, partition_fn=partition
    )
    if passes is not None:
        passes.serves_others = hasattr(functorch, TANGENTS)
    while True:
        # Of passes that serve other shapes, gradients of outputs have a memory format and no strides.
        by_format = {TANGENTS: False} if passes is not None and passes.serves_others else {}
        try:
            with (
                all_as_known() if known_results else contextlib.nullcontext(),
                keeping_buffers(),
                functorch.patch(by_format) if by_format else contextlib.nullcontext(),
            ):
                return (
                    _by_inductor(gm, example_inputs, partition)
                    if options.get("inductor")
                    else compiled(gm, example_inputs)
                )
        except _Crooked:
            passes.serves_others = False
        except AssertionError as error:
            if "Encountered a set_ on a graph input" not in str(error):
                raise
            raise CannotTrace(
                "the model sets a tensor's .data, which AOTAutograd cannot capture; change it in place (copy_, mul_)"
            ) from error
        except measure.FakeIsWrong as wrong:
            # AOTAutograd traces the graph again, with what the operators really give.
            if strict and wrong.key in known_results:
                raise
            known_results[wrong.key] = wrong.real
            strict = True
            if passes is not None:
                passes.group.fakes_are_right = False


def _by_inductor(gm: GraphModule, example_inputs: Sequence[Any], partition: Callable[..., Any]) -> Callable[..., Any]:
    import uuid

    from torch._inductor import config
    from torch._inductor.compile_fx import compile_fx
    from torch._inductor.custom_graph_pass import CustomPartitionerFn

    class Partitioner(CustomPartitionerFn):
        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            return partition(*args, **kwargs)

        def uuid(self) -> Any:
            return uuid.uuid4().hex  # keeps Inductor from its cache: the plan depends on the budget

    with config.patch(custom_partitioner_fn=Partitioner()):
        return compile_fx(gm, list(example_inputs))


neap = neap_backend  # the name in the entry point
