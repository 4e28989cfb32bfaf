"""A compiled graph with symbolic shapes: compiled at a few of its shapes, and written for those between.

A plan needs bytes, and PyTorch's symbolic graphs do not give eager's bits at all lengths. So AOTAutograd compiles such a graph for one
shape at a time. The passes that it makes are fx graphs, and so a skeleton and a vector of numbers (family.py). Where four captured
lengths lie around a new one, the passes of the new one are those of a captured one with other numbers, and AOTAutograd's callable of the
captured one runs them. Their first run compares the sizes of all results with the fitted ones."""

from __future__ import annotations

import collections
import contextlib
import copy
import dataclasses
import marshal
import threading
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from unittest import mock

import torch
from torch.fx import Graph as FxGraph
from torch.fx import GraphModule, Node
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

import neap as planner

from . import measure
from .family import Filler, Numbers, content, divide
from .kinds import Kind, Place

MOST_SHAPES = 64  # shapes of a graph that are kept
MOST_PENDING = 256  # shapes whose numbers are kept for backward passes that have not run yet
MOST_PLANS = 16  # of a group of shapes
DONATED = "collect_bw_donated_buffer_idxs"  # of AOTAutograd


def mark(number: int) -> torch.Tensor:
    """Returns an empty tensor, saved for the backward pass, whose size tells the number of the shape that the forward pass ran."""
    return torch.empty(0, number)


def is_mark(node: Node) -> bool:
    return node.op == "call_function" and node.target is mark


@contextlib.contextmanager
def keeping_buffers() -> Iterator[None]:
    """Has AOTAutograd, while it compiles, give no saved tensors away to the backward pass: Neap's passes do not ask for that, and
    otherwise a backward pass could keep its graph (retain_graph=True) only if the first one did."""
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(ImportError):
            from torch._functorch._aot_autograd import graph_compile

            if hasattr(graph_compile, DONATED):
                stack.enter_context(mock.patch.object(graph_compile, DONATED, lambda *_, **__: []))
        yield


def interpreted(module: GraphModule) -> Callable[[list[Any]], Any]:
    """Returns a function that runs a graph's calls in order and drops each tensor, inputs too, after its last read."""
    if hasattr(torch.fx.graph, "_BoxedCodeGen"):
        module.graph.set_codegen(torch.fx.graph._BoxedCodeGen())
        module.recompile()
        run = module.forward
    else:  # PyTorch 2.9

        def run(args: list[Any]) -> Any:
            return torch.fx.Interpreter(module).boxed_run(args)

    def call(args: list[Any]) -> Any:
        with measure.below_autograd():
            return run(args)

    return call


def _made(node: Node) -> list[Any]:
    """Returns the values of a node's results, by position."""
    value = node.meta.get("val")
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _memory(nodes: Sequence[Any]) -> list[int]:
    """Returns the identity of the storage of each tensor among the values of different nodes."""
    values = [v for n in dict.fromkeys(n for n in nodes if isinstance(n, Node)) for v in _made(n)]
    return [v.untyped_storage()._cdata for v in values if isinstance(v, torch.Tensor)]


def _has_subclasses(module: GraphModule) -> bool:
    """Returns whether a result is a part of a tensor subclass, which AOTAutograd makes with the sizes of the captured shape."""
    described = next(iter(module.graph.find_nodes(op="output"))).meta.get("desc") or ()
    return any(type(d).__name__.startswith("Subclass") for d in described)


class _Checking(torch.fx.Interpreter):
    """Runs a pass, and compares the sizes of all results with those that were fitted. A result that is not asked for may be None."""

    def __init__(self, root: GraphModule, graph: FxGraph, sizes: dict[Node, list[torch.Size | None]]):
        super().__init__(root, graph=graph)
        self.sizes = sizes

    def run_node(self, node: Node) -> Any:
        result = super().run_node(node)
        if node.op == "call_function":
            given = result if isinstance(result, (list, tuple)) else [result]
            for x, size in zip(given, self.sizes[node], strict=False):
                if isinstance(x, torch.Tensor) and size is not None and x.shape != size:
                    raise RuntimeError(
                        f"neap: internal fault: {node.target} gives {list(x.shape)} and not {list(size)} at a length that was not captured; please report it"
                    )
        return result


class _Written:
    """A pass of one shape: the graph of a captured one with other numbers."""

    def __init__(self, module: GraphModule, filler: Filler, number: int):
        graph, known, sizes = FxGraph(), {}, {}
        for node in module.graph.nodes:
            args, kwargs = torch.fx.node.map_arg(filler.fill((node.args, node.kwargs)), known.__getitem__)
            new = graph.create_node(node.op, node.target, (number,) if is_mark(node) else args, kwargs, node.name)
            known[node], sizes[new] = new, []
            for value in _made(node):
                known_size = isinstance(value, torch.Tensor)
                sizes[new].append(torch.Size(filler.take(value.dim())) if known_size else None)
                filler.take((1 + (value.dim() if node.op == "placeholder" else 0)) if known_size else 0)
            if is_mark(node):
                sizes[new] = []
        self.module, self.graph, self.sizes = module, graph, sizes
        self.checked = False
        self.run: Callable[[list[Any]], Any] | None = None

    def __call__(self, args: list[Any]) -> Any:
        if not self.checked:
            with measure.below_autograd():
                results = _Checking(self.module, self.graph, self.sizes).boxed_run(args)
            self.checked = True
            return results
        if self.run is None:  # most shapes of a text run once
            self.run = interpreted(GraphModule(self.module, self.graph))
        return self.run(args)


class Passes:
    """The forward pass, and the backward pass if there is one, of all shapes with one skeleton. AOTAutograd's callable of the shape that
    was captured first, number 0, runs them all."""

    given = ()  # numbers of the batch that each call passes: none

    def __init__(self, group: Group):
        self.group = group
        self.modules: dict[str, GraphModule] = {}
        self.call: Callable[..., Any] | None = None  # AOTAutograd's
        self.serves_others = True
        self.outputs: int | None = None  # of the forward pass, before what it saves; None: all
        self.known: dict[Place, int] = {}  # the number of each shape
        self.vectors: collections.OrderedDict[int, bytes] = collections.OrderedDict()  # packed, by number
        self.runs: collections.OrderedDict[int, dict[str, _Written]] = collections.OrderedDict()  # but of number 0
        self.running = threading.local()  # `number`: of the shape that this thread runs forward

    # ---- The compilers of AOTAutograd ----

    def partitioned(self, joint: GraphModule, outputs: int, backward: GraphModule) -> None:
        """Notes how AOTAutograd's joint graph was cut; it compiles the backward pass when that runs first."""
        self.outputs, self.modules["backward"] = outputs, backward
        self.serves_others = self.serves_others and not _has_subclasses(joint)

    def forward(self, module: GraphModule, _: Any) -> Callable[..., Any]:
        self.modules["forward"] = module
        self.serves_others = self.serves_others and not _has_subclasses(module)
        return self._dispatcher("forward", module, lambda args: self.running.number)

    def backward(self, module: GraphModule, _: Any) -> Callable[..., Any]:
        marks = [i for i, n in enumerate(module.graph.find_nodes(op="placeholder")) if n.meta.get("neap_mark")]
        if self.serves_others and len(marks) != 1:
            raise RuntimeError(
                "neap: internal fault: AOTAutograd dropped an input of the backward pass; please report it"
            )
        return self._dispatcher("backward", module, lambda args: args[marks[0]].shape[1] if marks else 0)

    def _dispatcher(self, name: str, module: GraphModule, number: Callable[[list[Any]], int]) -> Callable[..., Any]:
        with self.group.lock:
            own = interpreted(module)

        def call(args: list[Any]) -> Any:
            shape = number(args)
            return own(args) if shape == 0 else self._runs_of(shape)[name](args)

        call._boxed_call = True
        return call

    def finish(self, call: Callable[..., Any], args: Sequence[Any], place: Place) -> None:
        """Ends the compilation of the first shape, whose arguments are `args`."""
        self.call = call
        if "forward" not in self.modules:  # Inductor compiled both passes
            self.serves_others = False
            return
        numbers: list[Any] = [x for x in args if isinstance(x, int)]
        rest: list[Any] = []
        self.bytes: list[int] = []  # positions in the vector
        self.inputs: list[tuple[int, int]] = []  # position of the size and stride of each tensor, and its rank
        self.first = len(numbers)
        for name, module in self.modules.items():
            names = {node: f"%{i}" for i, node in enumerate(module.graph.nodes)}
            for node in module.graph.nodes:
                rest.append(
                    (node.op, content(getattr(module, node.target)) if node.op == "get_attr" else str(node.target))
                )
                divide(torch.fx.node.map_arg((node.args, node.kwargs), names.__getitem__), numbers, rest)
                for value in _made(node):
                    if not isinstance(value, torch.Tensor):
                        rest.append(type(value))
                        continue
                    rest.append((value.dtype, str(value.device), value.dim()))
                    if name == "forward" and node.op == "placeholder":
                        self.inputs.append((len(numbers), value.dim()))
                    numbers += [*value.shape, *(value.stride() if node.op == "placeholder" else ())]
                    self.bytes.append(len(numbers))
                    numbers.append(value.untyped_storage().nbytes())
        self.numbers = Numbers.of(rest, numbers)
        self.largest: list[list[Any]] = []  # vectors of captured shapes, none with all results smaller than another's
        self.number_of(place, numbers)
        self.captured(numbers)
        # AOTAutograd makes outputs that share memory anew, and gives them the sizes of the captured shape.
        nodes = list(self.modules["forward"].graph.nodes)
        outputs = _memory(nodes[-1].args[0][: self.outputs])
        others = _memory([n for n in nodes if n.op == "placeholder"])
        apart = len({*outputs, *others}) == len(outputs) + len(set(others))
        self.serves_others = self.serves_others and apart and self.lies_as(numbers, place.shapes, place.strides)

    # ---- Shapes ----

    def lies_as(self, vector: list[Any], shapes: Any, strides: Any) -> bool:
        """Returns whether the arguments have these shapes and strides by the numbers of a vector, the last "shape" being their integers,
        and whether a captured shape has no smaller result."""
        inputs = [(tuple(vector[i : i + n]), tuple(vector[i + n : i + 2 * n])) for i, n in self.inputs]
        return [*inputs, (tuple(vector[: self.first]), ())] == list(zip(shapes, strides, strict=True)) and any(
            self._covers(captured, vector) for captured in self.largest
        )

    def _covers(self, larger: list[Any], vector: list[Any]) -> bool:
        return all(vector[i] <= larger[i] for i in self.bytes)

    def captured(self, vector: list[Any]) -> None:
        """Notes the numbers of a captured shape."""
        if not any(self._covers(other, vector) for other in self.largest):
            self.largest = [v for v in self.largest if not self._covers(vector, v)] + [vector]

    def number_of(self, place: Place, vector: list[Any]) -> int:
        """Returns the number of a shape, an own one for each, and keeps its vector."""
        number = self.known.setdefault(place, len(self.known))
        self.vectors[number] = zlib.compress(marshal.dumps(vector), 1)
        if len(self.vectors) > MOST_PENDING:
            self.vectors.popitem(last=False)
        return number

    def start(self, number: int, args: Sequence[Any]) -> Any:
        """Runs the forward pass of a shape."""
        self.running.number = number
        with self.group.lock:
            if number in self.vectors:
                self.vectors.move_to_end(number)
        return self.call(*args)

    def _runs_of(self, number: int) -> dict[str, _Written]:
        with self.group.lock:
            if number not in self.runs:
                if number not in self.vectors:
                    raise RuntimeError(
                        f"neap: the backward pass of a shape came after forward passes of {MOST_PENDING} other shapes; run it earlier"
                    )
                filler = Filler(marshal.loads(zlib.decompress(self.vectors[number])), self.first)
                self.runs[number] = {name: _Written(module, filler, number) for name, module in self.modules.items()}
                if len(self.runs) > MOST_SHAPES:
                    self.runs.popitem(last=False)
            self.runs.move_to_end(number)
            return self.runs[number]


@dataclasses.dataclass
class Serving:
    """A plan for one shape, which serves all shapes with the same calls that are not larger (captured.least_serving)."""

    skeleton: str
    sizes: list[int]  # of the joint graph's storages
    costs: list[measure.Cost]
    between: set[int]  # what other code may change between both passes: calls that read it are not repeated
    plan: planner.Plan


class Group:
    """Shapes of a graph that differ in their sizes only."""

    def __init__(self, signature: Any):
        self.kind = Kind(None, [signature])
        self.plans: collections.deque[Serving] = collections.deque(maxlen=MOST_PLANS)
        self.lock = threading.RLock()
        self.fakes_are_right = True  # no operator of a captured shape gave another size or stride than PyTorch foretold

    def forget(self) -> None:
        """Drops the shapes that were captured first, where very many were."""
        kind = self.kind
        while len(kind.captured) > MOST_SHAPES:
            passes, _ = kind.captured.pop(next(iter(kind.captured)))
            kind.fits.clear()
            if all(other is not passes for other, _ in kind.captured.values()):
                kind.steps.pop(passes.numbers.skeleton, None)


class ByShape:
    """Runs a graph at any of its shapes. compile: captures a graph for the arguments; sets what passes need."""

    def __init__(
        self, module: GraphModule, compile: Callable[[GraphModule, Sequence[Any], Passes], Callable[..., Any]]
    ):
        self.module, self.compile = module, compile
        self.groups: collections.OrderedDict[Any, Group] = collections.OrderedDict()
        self.known: collections.OrderedDict[Any, tuple[Passes, int]] = collections.OrderedDict()
        self.shapes: dict[Any, Any] = {}  # of arguments, each once
        self.lock = threading.RLock()
        placeholders = [n for n in module.graph.nodes if n.op == "placeholder"]
        # PyTorch passes a float as a tensor, which the graph reads with item(). The graph of a shape has the number itself.
        self.numbers = list(dict.fromkeys(_numbers_read(module, {n: i for i, n in enumerate(placeholders)})))

    def __call__(self, *args: Any) -> Any:
        values = {node: args[i].item() for node, i in self.numbers}
        tensors = [x for x in args if isinstance(x, torch.Tensor)]
        integers = tuple(x for x in args if isinstance(x, int))
        shapes = [self.shapes.setdefault(t.shape, tuple(t.shape)) for t in tensors]
        strides = [self.shapes.setdefault(t.stride(), t.stride()) for t in tensors]
        place = Place((*shapes, integers), (*strides, ()), 1, ())
        others = [x for x in args if not isinstance(x, (torch.Tensor, int))]
        shared = _shared(tensors)
        signature = (
            *((t.dim(), t.dtype, t.device, t.requires_grad) for t in tensors),
            *map(_exact, (*others, *values.values())), shared, torch.is_grad_enabled(),
        )  # fmt: skip
        key = place, signature
        with self.lock:
            if key not in self.known:
                alone = not shared and all(map(_is_plain, tensors))
                self.known[key] = self._find(args, values, place, signature, alone)
                if len(self.known) > MOST_SHAPES:
                    self.known.popitem(last=False)
            self.known.move_to_end(key)
            passes, number = self.known[key]
        return passes.start(number, args)

    def _find(
        self, args: Sequence[Any], values: dict[tuple[str, str], Any], place: Place, signature: Any, alone: bool
    ) -> tuple[Passes, int]:
        """alone: no tensors share memory, and none is a subclass; AOTAutograd treats those by their sizes and places."""
        group = self.groups.setdefault(signature, Group(signature))
        self.groups.move_to_end(signature)
        if len(self.groups) > MOST_SHAPES:
            self.groups.popitem(last=False)
        with group.lock:
            found = group.kind.find(place)
            if found is not None:
                return found[0], found[0].number_of(place, found[1])
            passes = Passes(group)
            passes.finish(self.compile(_with_numbers(self.module, values), args, passes), args, place)
            if not passes.serves_others or not group.fakes_are_right or not alone:
                return passes, 0
            vector = passes.numbers.vector
            same = group.kind.steps.setdefault(passes.numbers.skeleton, passes)
            group.kind.add(place, same, vector)
            group.forget()
            if same is passes:
                return passes, 0
            same.captured(vector)
            return same, same.number_of(place, vector)


def _exact(value: Any) -> Any:
    """Returns a key that tells 0.0 from -0.0, and is equal for NaN."""
    return value.hex() if isinstance(value, float) else value


def _is_plain(t: torch.Tensor) -> bool:
    return t.layout == torch.strided and not is_traceable_wrapper_subclass(t)


def _shared(tensors: Sequence[torch.Tensor]) -> tuple[tuple[int, int, int], ...]:
    """Returns (tensor, another one, bytes between their beginnings) for each tensor that begins in the memory of an earlier one."""
    spans = sorted(
        (t.data_ptr(), t.data_ptr() + _extent(t), i) for i, t in enumerate(tensors) if t.numel() and _is_plain(t)
    )
    found, last, owner, start = [], 0, 0, 0
    for begin, end, i in spans:
        if begin < last:
            found.append((owner, i, begin - start))
        if end > last:
            last, owner, start = end, i, begin
    return tuple(found)


def _extent(t: torch.Tensor) -> int:
    return (1 + sum((n - 1) * s for n, s in zip(t.shape, t.stride(), strict=True))) * t.element_size()


def _numbers_read(
    module: GraphModule, places: dict[Node, int], path: str = ""
) -> Iterator[tuple[tuple[str, str], int]]:
    """Yields ((path of the graph, node that reads a number), place of the argument) of a graph and of those that it calls, such as
    the body of a checkpoint. places: of the arguments among the graph's nodes."""
    bodies = [n.args[0].target for n in module.graph.nodes if _body(module, n) is not None]
    for node in module.graph.nodes:
        if node.op == "call_method" and node.target == "item" and node.args[0] in places:
            yield (path, node.name), places[node.args[0]]
        body = _body(module, node)
        if body is None or bodies.count(node.args[0].target) > 1:
            continue
        taken = [n for n in body.graph.nodes if n.op == "placeholder"]
        if len(taken) == len(node.args) - 1:
            inner = {
                own: places[n]
                for own, n in zip(taken, node.args[1:], strict=True)
                if isinstance(n, Node) and n in places
            }
            yield from _numbers_read(body, inner, f"{path}.{node.args[0].target}".lstrip("."))


def _body(module: GraphModule, node: Node) -> GraphModule | None:
    """Returns the graph that a node calls with its other operands; None: it calls no graph."""
    first = node.args[0] if node.op == "call_function" and node.args else None
    body = getattr(module, first.target, None) if isinstance(first, Node) and first.op == "get_attr" else None
    return body if isinstance(body, GraphModule) else None


def _with_numbers(module: GraphModule, values: dict[tuple[str, str], Any]) -> GraphModule:
    """Returns a copy of a graph with numbers in place of nodes. values: by path of a graph in it, and name of the node."""
    new = copy.deepcopy(module)
    for (path, name), value in values.items():
        graph = new.get_submodule(path)
        node = next(n for n in graph.graph.nodes if n.name == name)
        for user in list(node.users):
            user.args, user.kwargs = torch.fx.node.map_arg(
                (user.args, user.kwargs), lambda n, node=node, value=value: value if n is node else n
            )
        graph.graph.erase_node(node)
        graph.recompile()
    new.recompile()
    return new
