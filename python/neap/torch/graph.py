"""Makes calls over storages of a traced fx graph: the tensors that each call reads, makes and changes in place.

A *storage* is a piece of memory, shared by all its views. A *tensor* here is one content of a storage: a call that
changes a storage in place makes the storage's next content. Planning knows tensors only; views cost nothing.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch.fx import Node
from torch.utils import _pytree as pytree

aten = torch.ops.aten

PACKAGES = (str(Path(torch.__file__).parent), str(Path(__file__).parents[1]), "<")  # code that is not the user's

# Operators that update running statistics in place, which their schemas do not declare: positions of these arguments.
# A repeat passes None for them: in training, the results do not depend on them.
STATISTICS: dict[Any, tuple[int, ...]] = {
    aten.native_batch_norm.default: (3, 4),
    aten.cudnn_batch_norm.default: (3, 4),
    aten.miopen_batch_norm.default: (3, 4),
}
# The functional form returns the new statistics as results 3 and 4. A repeat calls this operator without these arguments, since
# the statistics may have changed by then.
REPEATED: dict[Any, tuple[Any, tuple[int, ...]]] = {
    aten._native_batch_norm_legit_functional.default: (aten._native_batch_norm_legit.no_stats, (3, 4)),
}
# Operators that do not read the running statistics in training: their positions, and the position of `training`.
NOT_READ: dict[Any, tuple[tuple[int, ...], int | None]] = {
    aten.native_batch_norm_backward.default: ((3, 4), 7),
    aten.cudnn_batch_norm_backward.default: ((3, 4), None),
    aten.miopen_batch_norm_backward.default: ((3, 4), None),
}


# In-place operators that change the tensor object and not its content: in effect, views.
METADATA = {
    getattr(aten, name)
    for name in (
        "as_strided_", "detach_", "resize_", "resize_as_", "set_", "squeeze_", "swapaxes_", "swapdims_", "t_", "transpose_", "unsqueeze_",
    )
}  # fmt: skip


class CannotTrace(RuntimeError):
    """The step cannot be captured as one graph. The message says where, why, and what to do."""


class ChangesConstant(CannotTrace):
    """The step changes a tensor in place that exists before it and is not among its inputs."""

    def __init__(self, target: str, tensor: torch.Tensor, line: str = "loss_fn"):
        super().__init__(
            f"{line}: {target} changes a tensor of shape {tuple(tensor.shape)} in place that exists before the step, and that is neither in the model "
            "nor in a variable, container or module that loss_fn reaches: register it as a buffer of the model (register_buffer), or change a clone"
        )
        self.target, self.tensor = target, tensor


@dataclasses.dataclass(slots=True)
class Storage:
    """A piece of memory. role: value, input, parameter, state (buffers) or constant. Resident storages have a `source`."""

    bytes: int
    role: str
    name: str
    device: torch.device
    source: Any = None  # position among the graph's inputs, or the constant itself


@dataclasses.dataclass(slots=True)
class Tensor:
    """One content of a storage."""

    storage: int
    version: int


@dataclasses.dataclass(slots=True)
class View:
    """A tensor in the form of a call's operand: a content of a storage, and its layout there."""

    tensor: int
    size: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int
    dtype: torch.dtype


@dataclasses.dataclass(frozen=True)
class Given:
    """An argument of a call: the number at this position among the batch's numbers, which each step passes."""

    index: int


@dataclasses.dataclass(slots=True)
class Call:
    """A call of an operator. Tensors among the leaves of `args`, `kwargs` and `results` are Views."""

    name: str
    target: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    reads: list[int]  # tensors, each once
    makes: list[int]  # tensors in storages of their own, in the order of the results
    changes: list[tuple[int, int]]  # (tensor before, tensor after) in one storage
    results: list[View | None]  # by position; None for a result that is not a tensor
    node: Node | None  # its node in the traced graph
    random: bool = False
    statistics: tuple[int, ...] = ()  # arguments that a repeat replaces by None
    backward: bool = False


@dataclasses.dataclass
class Graph:
    """A captured step."""

    module: torch.fx.GraphModule | None
    storages: list[Storage]
    tensors: list[Tensor]
    calls: list[Call]
    inputs: list[View | None]  # by placeholder; None for one that is not a tensor
    outputs: list[Any]  # View, or a constant
    last: dict[int, int]  # storage -> its last tensor

    def storage_of(self, tensor: int) -> Storage:
        return self.storages[self.tensors[tensor].storage]

    def views(self) -> dict[int, list[View]]:
        """Returns all views of each tensor: in arguments, results and outputs."""
        found: dict[int, list[View]] = {}
        trees = [(c.args, c.kwargs, c.results) for c in self.calls]
        for x in pytree.tree_leaves((trees, self.outputs), is_leaf=lambda x: isinstance(x, View)):
            if isinstance(x, View):
                found.setdefault(x.tensor, []).append(x)
        return found

    def device_of(self, call: Call) -> torch.device:
        """Returns the device on which a call makes or changes a tensor."""
        return self.storage_of((call.makes or [new for _, new in call.changes])[0]).device

    def strip(self) -> None:
        """Drops the traced module and its fake tensors, which take most of the memory; only the backend and messages need them."""
        self.module = None
        for call in self.calls:
            call.node = None

    def print(self) -> str:
        """Returns one line for each call."""
        lines = []
        for call in self.calls:
            made = ", ".join(f"t{t}" for t in call.makes)
            changed = ", ".join(f"t{a}->t{b}" for a, b in call.changes)
            lines.append(f"{call.name} = {call.target}: reads {call.reads} makes [{made}] changes [{changed}]")
        return "\n".join(lines)


def is_random(target: Any) -> bool:
    return torch.Tag.nondeterministic_seeded in getattr(target, "tags", ())


def unread(node: Node) -> tuple[int, ...]:
    """Returns the positions of arguments that the operator takes but does not read."""
    return unread_by(node.target, node.args)


def unread_by(target: Any, args: Sequence[Any]) -> tuple[int, ...]:
    """Returns the same for a call of an operator with these arguments."""
    positions, training = NOT_READ.get(target, ((), None))
    return positions if training is None or (training < len(args) and args[training]) else ()


def user_line(node: Node) -> str:
    """Returns the line of the user's code that a node comes from; without a stack trace, the node's name."""
    trace = node.meta.get("stack_trace")
    if not trace:
        return node.name
    lines = [line.strip() for line in trace.strip().splitlines() if line.strip(" ^~")]
    frames = [
        i for i, line in enumerate(lines) if line.startswith("File ") and not any(root in line for root in PACKAGES)
    ]
    return " ".join(lines[frames[-1] : frames[-1] + 2]) if frames else lines[-1]


def _written(target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], kind: type = Node) -> list[Any]:
    """Returns the arguments that an operator changes in place, by its schema."""
    schema = getattr(target, "_schema", None)
    if schema is None or not schema.is_mutable:
        return []
    written = []
    for i, argument in enumerate(schema.arguments):
        if argument.alias_info is None or not argument.alias_info.is_write:
            continue
        value = kwargs.get(argument.name, args[i] if i < len(args) else None)
        written += value if isinstance(value, (list, tuple)) else [value]
    return [w for w in written if isinstance(w, kind)]


def written(target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[torch.Tensor]:
    """Returns the tensors that a call changes in place, by its operator's schema."""
    return _written(target, args, kwargs, torch.Tensor)


CHECKS = ("aten::_assert_async", "neap::require", "neap::decide", "neap::nonzero")


def is_check(target: Any) -> bool:
    """Returns whether an operator raises an error by the value of a tensor."""
    schema = getattr(target, "_schema", None)
    return schema is not None and schema.name in CHECKS


def _only_moved(statistics: Any) -> bool:
    """Returns whether a running statistic is a buffer that nothing in the step reads: batch norms update it, and their gradients
    take it without reading it."""
    if not isinstance(statistics, Node):
        return True
    if statistics.op != "placeholder":
        return False
    for user in statistics.users:
        positions = STATISTICS.get(user.target, ()) if user.target in STATISTICS and user.args[5] else unread(user)
        if (
            any(a is statistics and i not in positions for i, a in enumerate(user.args))
            or statistics in user.kwargs.values()
        ):
            return False
    return True


def _key(value: torch.Tensor) -> int:
    """Returns the identity of a tensor's storage, which is valid while the tensor is alive, as the graph's fake values are."""
    return value.untyped_storage()._cdata


def _end(value: torch.Tensor) -> int:
    """Returns the bytes from the beginning of its storage to the end of its last element."""
    if value.numel() == 0:
        return 0
    last = int(value.storage_offset()) + sum((n - 1) * s for n, s in zip(value.shape, value.stride(), strict=True))
    return (last + 1) * value.element_size()


class _Builder:
    def __init__(
        self, module: torch.fx.GraphModule, roles: list[tuple[str, str]], own_inputs: bool, real: list[torch.Tensor]
    ):
        self.module, self.roles, self.own_inputs, self.real = module, roles, own_inputs, real
        self.storages: list[Storage] = []
        self.tensors: list[Tensor] = []
        self.calls: list[Call] = []
        self.outside: dict[int, int] = {}  # identity -> storage, of inputs and constants
        self.current: list[int] = []  # storage -> its tensor now
        self.values: dict[Node, Any] = {}  # node -> fake value
        self.places: dict[Node, Any] = {}  # node -> storage, or a list of them
        self.ends: dict[int, int] = {}  # storage of a value -> bytes that its call wrote

    def storage(self, value: torch.Tensor, role: str, name: str, source: Any = None) -> int:
        size = int(value.untyped_storage().nbytes())
        if (
            source is not None and role in ("input", "value") and value.numel() > 0
        ):  # it may be a part of a larger tensor
            size = _end(value) - int(value.storage_offset()) * value.element_size()
        self.storages.append(Storage(size, role, name, value.device, source))
        self.current.append(self.tensor(len(self.storages) - 1, 0))
        return len(self.storages) - 1

    def outer(self, value: torch.Tensor, role: str, name: str, source: Any) -> int:
        """Returns the storage of a resident value. Parameters, buffers and constants that share memory have one storage."""
        if role in ("input", "value"):  # has other memory in each step
            return self.storage(value, role, name, source)
        if _key(value) not in self.outside:
            self.outside[_key(value)] = self.storage(value, role, name, source)
        return self.outside[_key(value)]

    def tensor(self, storage: int, version: int) -> int:
        self.tensors.append(Tensor(storage, version))
        return len(self.tensors) - 1

    def view(self, value: torch.Tensor, storage: int) -> View:
        return View(
            self.current[storage], tuple(value.shape), tuple(value.stride()), int(value.storage_offset()), value.dtype
        )

    def check(self, node: Node, value: Any) -> None:
        # The backend runs views as they were traced, and lazy ones with them.
        if self.own_inputs and isinstance(value, torch.Tensor) and (value.is_conj() or value.is_neg()):
            raise self.refuse(
                node,
                f"{node.target} gives a lazy conjugate or negative; make it real with .resolve_conj() or .resolve_neg()",
            )

    def refuse(self, node: Node, why: str) -> CannotTrace:
        return CannotTrace(f"{user_line(node)}: {why}")

    def replaced(self, tree: Any, node: Node) -> Any:
        def leaf(x: Any) -> Any:
            if not isinstance(x, Node):
                return x
            value = self.values[x]
            if isinstance(value, torch.Tensor):
                return self.view(value, self.places[x])
            if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
                raise self.refuse(
                    node, "the shape of a tensor depends on data, and a plan needs fixed shapes; use a mask"
                )
            return value

        return pytree.tree_map(leaf, tree, is_leaf=lambda x: isinstance(x, Node))

    def call(self, node: Node) -> None:
        value = self.values[node] = node.meta.get("val")
        several = isinstance(value, (list, tuple))
        results = list(value) if several else [value]
        for v in results:
            self.check(node, v)
            if isinstance(v, (torch.SymInt, torch.SymFloat, torch.SymBool)):
                raise self.refuse(
                    node,
                    f"{node.target} gives a number that depends on data (.item(), nonzero, ...); keep it in a tensor",
                )
            if isinstance(v, torch.Tensor) and v.layout != torch.strided:
                raise self.refuse(
                    node,
                    f"{node.target} gives a {v.layout} tensor; use dense tensors (nn.Embedding(sparse=False), ...)",
                )
        # A result that is a view of an operand has the operand's storage. Each other result has a storage of its own: fake
        # tensors do not show reliably whether two results share memory.
        operands = {
            _key(self.values[n]): self.places[n]
            for n in node.all_input_nodes
            if isinstance(self.values[n], torch.Tensor)
        }
        written = _written(node.target, node.args, node.kwargs)
        if getattr(node.target, "overloadpacket", None) in METADATA:
            self.reshaped(node, value, operands.get(_key(value)))
            return
        constant = self.constant_shown(node)  # its fake tensors have a storage each
        places = [operands.get(_key(v), constant) if isinstance(v, torch.Tensor) else None for v in results]
        fresh = [i for i, v in enumerate(results) if isinstance(v, torch.Tensor) and places[i] is None]
        if not written and not fresh and any(p is not None for p in places):  # a view
            self.check_offset(node)
            self.places[node] = places if several else places[0]
            return
        statistics = STATISTICS.get(node.target, ())
        if statistics and not node.args[5]:
            statistics = ()
        if not all(_only_moved(node.args[i]) for i in statistics):
            # Statistics that the step makes or reads count as changed in place.
            written += [node.args[i] for i in statistics if isinstance(node.args[i], Node)]
            statistics = ()
        not_read = unread(node)
        given = tuple(None if i in not_read else x for i, x in enumerate(node.args))
        args, kwargs = self.replaced((given, node.kwargs), node)
        skipped = {id(args[i]) for i in statistics if i < len(args)}
        leaves = pytree.tree_leaves((args, kwargs), is_leaf=lambda x: isinstance(x, View))
        reads = list(dict.fromkeys(x.tensor for x in leaves if isinstance(x, View) and id(x) not in skipped))
        changes = []
        for storage in dict.fromkeys(self.places[w] for w in written):
            held = self.storages[storage]
            if self.own_inputs and held.role == "constant":
                raise ChangesConstant(str(node.target), held.source, user_line(node))
            if self.own_inputs and held.role == "input":
                raise self.refuse(
                    node,
                    f"{node.target} changes {held.name} in place, which belongs neither to the model nor to the step: clone it",
                )
            if (
                storage in self.ends
                and any(self.places[w] == storage and _end(self.values[w]) == 0 for w in written)
                and any(
                    p == storage and _end(v) > 0
                    for p, v in zip(places, results, strict=True)
                    if isinstance(v, torch.Tensor)
                )
            ):
                raise self.refuse(
                    node, f"{node.target} makes the memory of its out= tensor larger; give it one of the result's shape"
                )
            old = self.current[storage]
            self.current[storage] = self.tensor(storage, self.tensors[old].version + 1)
            changes.append((old, self.current[storage]))
        for i in fresh:
            places[i] = self.storage(results[i], "value", node.name)
            self.ends[places[i]] = _end(results[i])
        makes = [self.current[places[i]] for i in fresh]
        views = [self.view(v, p) if isinstance(v, torch.Tensor) else None for v, p in zip(results, places, strict=True)]
        self.places[node] = places if several else places[0]
        self.calls.append(
            Call(
                node.name,
                node.target,
                args,
                kwargs,
                reads,
                makes,
                changes,
                views,
                node,
                is_random(node.target),
                statistics,
            )
        )

    def constant_shown(self, node: Node) -> int | None:
        """Returns the storage of the constant that a call gives a view of."""
        schema = getattr(node.target, "_schema", None)
        if schema is None or not any(r.alias_info is not None for r in schema.returns):
            return None
        for argument, x in zip(schema.arguments, node.args, strict=False):
            alias = argument.alias_info
            if alias is not None and not alias.is_write and isinstance(x, Node) and isinstance(self.places[x], int):
                place = self.places[x]
                return place if self.storages[place].role == "constant" else None
        return None

    def check_offset(self, node: Node) -> None:
        """Refuses a view of the batch that counts from the beginning of the memory, which differs from step to step."""
        if node.target is not aten.as_strided.default or not self.own_inputs:
            return
        held = self.storages[self.places[node.args[0]]]
        offset = node.args[3] if len(node.args) > 3 else node.kwargs.get("storage_offset")
        if offset is not None and held.role == "input":
            raise self.refuse(
                node,
                f"{held.name}: as_strided is given a storage offset ({offset}), which counts from the beginning of the memory that the tensor is a "
                "part of, and each batch lies elsewhere in it; index the tensor first and leave the offset out, or clone it",
            )

    def reshaped(self, node: Node, value: torch.Tensor, place: int | None) -> None:
        """Takes an in-place call that changes a tensor's layout: the node becomes a view of the memory that it shows now."""
        subject = self.places[node.args[0]]
        held = self.storages[subject]
        if held.role != "value" and self.own_inputs and node.target.overloadpacket is not aten.detach_:
            raise self.refuse(
                node,
                f"{node.target} changes the layout of {held.name}, which exists before the step: "
                "use a view of it (transpose, squeeze, ...), or do this before the step",
            )
        grows = place is None or _end(value) > self.ends.get(place, held.bytes)
        if grows:
            raise self.refuse(
                node,
                f"{node.target} makes the memory of a tensor larger, which a captured step cannot do; make a new tensor",
            )
        self.places[node] = place

    def build(self) -> Graph:
        inputs: list[View | None] = []
        outputs: list[Any] = []
        for node in self.module.graph.nodes:
            if node.op in ("placeholder", "get_attr"):
                value = self.values[node] = node.meta.get("val")
                role, name, source = (
                    (*self.roles[len(inputs)], len(inputs))
                    if node.op == "placeholder"
                    else ("constant", node.target, None)
                )
                if node.op == "get_attr":
                    source = getattr(self.module, node.target)
                    value = self.values[node] = source if value is None else value
                if isinstance(value, torch.Tensor):
                    self.places[node] = self.outer(value, role, name, source)
                if node.op == "placeholder":
                    if len(inputs) < len(self.real) and self.real[len(inputs)].device.type != "meta":
                        self.outside[_key(self.real[len(inputs)])] = self.places[node]
                    inputs.append(self.view(value, self.places[node]) if isinstance(value, torch.Tensor) else None)
            elif node.op == "call_function" and getattr(node.target, "__name__", "") == "getitem":
                self.values[node] = self.values[node.args[0]][node.args[1]]
                self.places[node] = self.places[node.args[0]][node.args[1]]
            elif node.op == "call_function":
                self.call(node)
            elif node.op == "output":
                outputs = [self.replaced(x, node) for x in node.args[0]]
        last = {s: t for s, t in enumerate(self.current)}
        return Graph(self.module, self.storages, self.tensors, self.calls, inputs, outputs, last)


def build_graph(
    module: torch.fx.GraphModule, roles: list[tuple[str, str]], own_inputs: bool = True, real: list[torch.Tensor] = ()
) -> Graph:
    """Returns the graph of a traced module. roles: (role, name) of each placeholder. own_inputs: inputs must not be changed. real:
    the real tensors of the first placeholders; constants in their memory are these. Raises CannotTrace."""
    graph = _Builder(module, roles, own_inputs, real).build()
    _drop_dead(graph)
    return graph


def _drop_dead(graph: Graph) -> None:
    """Removes calls whose results nothing reads. Random calls, checks and calls that change a resident storage stay."""
    wanted = {o.tensor for o in graph.outputs if isinstance(o, View)}
    wanted |= {t for s, t in graph.last.items() if graph.storages[s].role != "value"}
    calls = []
    for call in reversed(graph.calls):
        stays = call.statistics or call.random or is_check(call.target)
        if stays or any(t in wanted for t in (*call.makes, *(b for _, b in call.changes))):
            calls.append(call)
            wanted.update(call.reads)
    graph.calls = calls[::-1]


def mark_passes(graph: Graph, forward: Iterable[int]) -> None:
    """Marks the calls on which none of the tensors `forward` depends as the backward pass."""
    wanted = set(forward)
    wanted |= {t for s, t in graph.last.items() if graph.storages[s].role != "value"}
    for call in reversed(graph.calls):
        call.backward = not any(t in wanted for t in (*call.makes, *(b for _, b in call.changes)))
        if not call.backward or call.statistics or is_check(call.target):
            call.backward = False
            wanted.update(call.reads)
