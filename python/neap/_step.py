"""A training step in the form of planners: bytes, costs, edges."""

from __future__ import annotations

import ctypes
import hashlib
import weakref
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

import numpy as np

from . import _library as c
from ._errors import BadFormat, InvalidArgument
from ._files import Path_, Place, read_json, write_json


class IdLists:
    """Lists of tensor ids, one for each node, in two arrays: the list of node ``v`` is ``ids[start[v]:start[v + 1]]``.

    ``lists[v]`` is a list of int, ``len(lists)`` the number of nodes.
    """

    def __init__(self, start: np.ndarray, ids: np.ndarray) -> None:
        self.start, self.ids = start, ids

    def __len__(self) -> int:
        return len(self.start) - 1

    def __getitem__(self, node: int) -> list[int]:
        if not -len(self) <= node < len(self):
            raise IndexError(node)
        node %= len(self)
        return self.ids[self.start[node] : self.start[node + 1]].tolist()

    def __iter__(self) -> Iterator[list[int]]:
        ids, start = self.ids.tolist(), self.start.tolist()
        return (ids[start[v] : start[v + 1]] for v in range(len(self)))


def _integers(values: Any, name: str, dtype: Any) -> np.ndarray:
    """Returns values as a contiguous array. Raises InvalidArgument, which names the place of a value that the type cannot hold."""
    array = np.asarray(values)
    if array.ndim != 1:
        raise InvalidArgument(f"{name} must be a list of integers (got {array.ndim} dimensions)")
    if array.size == 0:
        return np.empty(0, dtype)
    least, most = np.iinfo(dtype).min, np.iinfo(dtype).max
    if array.dtype.kind in "iu":
        if least <= int(array.min()) and int(array.max()) <= most:
            return np.ascontiguousarray(array, dtype)
        bad = next(i for i, value in enumerate(array.tolist()) if not least <= value <= most)
        raise InvalidArgument(f"{name}[{bad}] must be from {least} to {most} (got {array[bad]})")
    bad = next((i for i, v in enumerate(values) if isinstance(v, bool) or not isinstance(v, (int, np.integer))), None)
    if bad is None:
        bad = next((i for i, v in enumerate(values) if not least <= int(v) <= most), None)
        if bad is None:
            return np.array([int(v) for v in values], dtype)
        raise InvalidArgument(f"{name}[{bad}] must be from {least} to {most} (got {values[bad]})")
    raise InvalidArgument(f"{name}[{bad}] must be an integer (got {values[bad]!r})")


def _id_lists(lists: Any, name: str) -> IdLists:
    if isinstance(lists, IdLists):
        return lists
    lists = list(lists)
    try:
        counts = np.fromiter(map(len, lists), np.int64, len(lists))
    except TypeError:
        bad = next(i for i, item in enumerate(lists) if not hasattr(item, "__len__"))
        raise InvalidArgument(f"{name}[{bad}] must be a list of tensor ids (got {lists[bad]!r})") from None
    start = np.zeros(len(lists) + 1, np.int64)
    np.cumsum(counts, out=start[1:])
    flat = list(chain.from_iterable(lists))
    try:
        return IdLists(start, _integers(flat, name, np.int32))
    except InvalidArgument:
        for v, item in enumerate(lists):
            _integers(item, f"{name}[{v}]", np.int32)
        raise


def _length(values: Any, count: int, name: str, of: str) -> None:
    if len(values) != count:
        raise InvalidArgument(f"{name} must have one item for each of the {count} {of} (got {len(values)})")


def _codes(values: Any, names: tuple[str, ...], name: str) -> np.ndarray:
    table = {text: code for code, text in enumerate(names)}
    try:
        return np.fromiter((table[value] for value in values), np.int32, len(values))
    except (KeyError, TypeError):
        bad = next(i for i, value in enumerate(values) if not isinstance(value, str) or value not in table)
        raise InvalidArgument(f"{name}[{bad}] must be one of {', '.join(names)} (got {values[bad]!r})") from None


def _texts(values: Iterable[str] | None, count: int, name: str, of: str) -> list[str] | None:
    if values is None:
        return None
    texts = list(values)
    _length(texts, count, name, of)
    for i, text in enumerate(texts):
        if not isinstance(text, str) or "\0" in text:
            raise InvalidArgument(f"{name}[{i}] must be a text without null characters (got {text!r})")
    return texts


def _usual_roles(tensors: int, outputs: IdLists, updates: IdLists) -> np.ndarray:
    """Returns the roles of tensors by nodes: outputs are values, updated tensors are parameters, the others inputs."""
    roles = np.full(tensors, c.ROLES.index("input"), np.int32)
    for lists, role in ((updates, "parameter"), (outputs, "value")):
        ids = lists.ids
        roles[ids[(ids >= 0) & (ids < tensors)]] = c.ROLES.index(role)
    return roles


class Step:
    """A training step: tensors with bytes and roles, nodes with costs. Immutable.

    Tensors and nodes are numbered from 0. Nodes are in an order in which they can run. A list may also be a NumPy array.

    - ``tensor_bytes`` [tensors]: bytes of each tensor.
    - ``inputs``, ``outputs``, ``updates`` [nodes]: for each node, a list of the tensors that it reads, makes and changes.
      A node that changes a tensor runs once, after all other readers.
    - ``roles`` [tensors]: "value", "input", "parameter" or "state"; all tensors except values are resident for the whole
      step. None: outputs of nodes are values, updated tensors are parameters, the others are inputs.
    - ``costs`` [nodes]: times, all in the same unit; None: 1 each.
    - ``workspaces`` [nodes]: bytes that exist while the node runs; None: 0.
    - ``passes`` [nodes]: "forward", "backward" or "update"; None: "update" for nodes with updates, "forward" for the
      others. Planners of chains have no plan for a step without backward nodes.
    - ``repeatable`` [nodes]: whether the node may run again; None: all may.
    - ``inplace`` [pairs, 3]: (node, position in its outputs, position in its inputs). The output may take over the bytes
      of the input if the node is the input's last reader and the input is at least as large. Tried in this order.
    - ``step_outputs``: values that live to the end of the step.
    - ``names`` and ``operators`` of the nodes, and ``tensor_names``: texts for display.

    Raises InvalidArgument, which names the node or tensor: a wrong order, a value with two producers or none, an id
    out of range, a sum of bytes that overflows, a negative cost. Takes time linear in the sizes.
    """

    def __init__(
        self,
        tensor_bytes: Sequence[int] | np.ndarray,
        inputs: Sequence[Sequence[int]],
        outputs: Sequence[Sequence[int]],
        *,
        roles: Sequence[str] | None = None,
        costs: Sequence[float] | np.ndarray | None = None,
        workspaces: Sequence[int] | np.ndarray | None = None,
        passes: Sequence[str] | None = None,
        repeatable: Sequence[bool] | np.ndarray | None = None,
        updates: Sequence[Sequence[int]] | None = None,
        inplace: Sequence[tuple[int, int, int]] | np.ndarray | None = None,
        step_outputs: Sequence[int] | np.ndarray | None = None,
        names: Iterable[str] | None = None,
        tensor_names: Iterable[str] | None = None,
        operators: Iterable[str] | None = None,
        name: str = "step",
    ) -> None:
        self.tensor_bytes = _integers(tensor_bytes, "tensor_bytes", np.uint64)
        self.inputs, self.outputs = _id_lists(inputs, "inputs"), _id_lists(outputs, "outputs")
        nodes, tensors = len(self.inputs), len(self.tensor_bytes)
        if max(nodes, tensors) > 2**31 - 3:
            raise InvalidArgument(
                f"a step has at most 2^31 - 3 nodes and tensors (got {nodes} nodes, {tensors} tensors)"
            )
        _length(self.outputs, nodes, "outputs", "nodes")
        self.updates = IdLists(np.zeros(nodes + 1, np.int64), np.empty(0, np.int32))
        if updates is not None:
            self.updates = _id_lists(updates, "updates")
            _length(self.updates, nodes, "updates", "nodes")
        self._roles = self._role_codes(roles)
        self.costs = self._numbers(costs, nodes)
        self.workspaces = np.zeros(nodes, np.uint64)
        if workspaces is not None:
            self.workspaces = _integers(workspaces, "workspaces", np.uint64)
            _length(self.workspaces, nodes, "workspaces", "nodes")
        self._passes = self._pass_codes(passes)
        self.repeatable = np.ones(nodes, np.bool_)
        if repeatable is not None:
            self.repeatable = np.ascontiguousarray(repeatable, np.bool_)
            _length(self.repeatable, nodes, "repeatable", "nodes")
        self.inplace = self._pairs(inplace)
        self.step_outputs = _integers([] if step_outputs is None else step_outputs, "step_outputs", np.int32)
        self.node_names = _texts(names, nodes, "names", "nodes")
        self.tensor_names = _texts(tensor_names, tensors, "tensor_names", "tensors")
        self.operators = _texts(operators, nodes, "operators", "nodes")
        (self.name,) = _texts([name], 1, "name", "steps") or [""]
        self._create()

    # ---- Its arrays ----

    def _role_codes(self, roles: Sequence[str] | None) -> np.ndarray:
        if roles is None:
            return _usual_roles(len(self.tensor_bytes), self.outputs, self.updates)
        _length(roles, len(self.tensor_bytes), "roles", "tensors")
        return _codes(roles, c.ROLES, "roles")

    def _pass_codes(self, passes: Sequence[str] | None) -> np.ndarray:
        if passes is not None:
            _length(passes, len(self.inputs), "passes", "nodes")
            return _codes(passes, c.PASSES, "passes")
        return np.where(np.diff(self.updates.start) > 0, c.PASSES.index("update"), 0).astype(np.int32)

    @staticmethod
    def _numbers(costs: Any, nodes: int) -> np.ndarray:
        if costs is None:
            return np.ones(nodes, np.float64)
        try:
            array = np.ascontiguousarray(costs, np.float64)
        except (TypeError, ValueError) as error:
            raise InvalidArgument(f"costs must be a list of numbers: {error}") from None
        if array.ndim != 1:
            raise InvalidArgument(f"costs must be a list of numbers (got {array.ndim} dimensions)")
        _length(array, nodes, "costs", "nodes")
        return array

    @staticmethod
    def _pairs(inplace: Any) -> np.ndarray:
        if inplace is None or len(inplace) == 0:
            return np.empty(0, c.INPLACE)
        rows = np.asarray(inplace)
        if rows.ndim != 2 or rows.shape[1] != 3 or rows.dtype.kind not in "iu":
            raise InvalidArgument(
                "inplace must be a list of three integers each: (node, output position, input position)"
            )
        flat = _integers(rows.ravel(), "inplace", np.int32)
        return np.ascontiguousarray(flat).view(c.INPLACE)

    def _create(self) -> None:
        def lists(of: IdLists) -> c.Lists:
            return c.Lists(c.address(of.start), c.address(of.ids))

        arrays = c.StepArrays(
            name=self.name.encode(errors="replace"),
            tensor_count=len(self.tensor_bytes),
            node_count=len(self.inputs),
            step_output_count=len(self.step_outputs),
            tensor_bytes=c.address(self.tensor_bytes),
            tensor_roles=c.address(self._roles),
            tensor_names=c.strings(self.tensor_names),
            node_costs=c.address(self.costs),
            node_workspaces=c.address(self.workspaces),
            node_passes=c.address(self._passes),
            node_repeatable=c.address(self.repeatable),
            node_names=c.strings(self.node_names),
            node_operators=c.strings(self.operators),
            inputs=lists(self.inputs),
            outputs=lists(self.outputs),
            updates=lists(self.updates),
            step_outputs=c.address(self.step_outputs),
            inplace_count=len(self.inplace),
            inplace=c.address(self.inplace),
        )
        handle = ctypes.c_void_p()
        c.check_status(c.lib.neap_step_create(arrays, handle))
        self._handle = handle
        self._free = weakref.finalize(self, c.lib.neap_step_free, handle)
        self._free.atexit = False
        info = c.StepInfo()
        c.lib.neap_step_describe(handle, info)
        self.resident_bytes: int = info.resident_bytes
        """Bytes of inputs, parameters and states."""
        self.base_cost: float = info.base_cost
        """The sum of all costs: the cost of the step without recomputation."""
        self._keep_all: tuple[int, int] | None = None
        for array in (self.tensor_bytes, self.costs, self.workspaces, self.repeatable, self.step_outputs, self.inplace):
            array.flags.writeable = False

    @property
    def tensors(self) -> int:
        """The number of tensors."""
        return len(self.tensor_bytes)

    @property
    def nodes(self) -> int:
        """The number of nodes."""
        return len(self.inputs)

    @property
    def roles(self) -> list[str]:
        return [c.ROLES[code] for code in self._roles.tolist()]

    @property
    def passes(self) -> list[str]:
        return [c.PASSES[code] for code in self._passes.tolist()]

    def tensor_name(self, tensor: int) -> str:
        return self.tensor_names[tensor] if self.tensor_names is not None else f"tensor {tensor}"

    def node_name(self, node: int) -> str:
        return self.node_names[node] if self.node_names is not None else f"node {node}"

    def operator(self, node: int) -> str:
        return self.operators[node] if self.operators is not None else ""

    def __repr__(self) -> str:
        return f"<neap.Step {self.name!r}: {self.nodes} nodes, {self.tensors} tensors>"

    def __reduce__(self) -> tuple[Any, ...]:
        return _step_of, (
            (self.tensor_bytes, self.inputs, self.outputs),
            {
                "roles": self.roles,
                "costs": self.costs,
                "workspaces": self.workspaces,
                "passes": self.passes,
                "repeatable": self.repeatable,
                "updates": self.updates,
                "inplace": self.inplace.view(np.int32).reshape(-1, 3),
                "step_outputs": self.step_outputs,
                "names": self.node_names,
                "tensor_names": self.tensor_names,
                "operators": self.operators,
                "name": self.name,
            },
        )

    # ---- Bounds and digest ----

    def _ends(self) -> tuple[int, int]:
        if self._keep_all is None:
            options = c.PlanOptions(quick=True)
            handle, info = ctypes.c_void_p(), c.PlanInfo()
            c.check_status(c.lib.neap_plan_make_with(self._handle, c.BUDGET_MAX, options, None, handle))
            c.lib.neap_plan_describe(handle, info)
            c.lib.neap_plan_free(handle)
            self._keep_all = info.peak_bytes, info.lower_bound_bytes
        return self._keep_all

    @property
    def keep_all_bytes(self) -> int:
        """Bytes of the step without recomputation. A budget in per cent is a share of these."""
        return self._ends()[0]

    @property
    def lower_bound_bytes(self) -> int:
        """A lower bound: no plan under any budget takes fewer bytes."""
        return self._ends()[1]

    def sha256(self) -> str:
        """Returns a hexadecimal digest of all that planning depends on, which excludes names and operators."""
        digest = hashlib.sha256(b"neap-step 1")
        arrays = [self.tensor_bytes, self._roles, self.costs, self.workspaces, self._passes, self.repeatable]
        for lists in (self.inputs, self.outputs, self.updates):
            arrays += [lists.start, lists.ids]
        for array in [*arrays, self.step_outputs, self.inplace]:
            digest.update(len(array).to_bytes(8, "little"))
            digest.update(np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()

    # ---- Graph files ----

    @classmethod
    def read(cls, path: Path_) -> Step:
        """Reads a graph file (JSON). Raises OSError if it cannot be read, and BadFormat, which names the field and its place."""
        root = read_json(path, "neap-graph")
        name = root.string("name")
        tensors, nodes = root.objects("tensors"), root.objects("nodes")
        arguments: dict[str, Any] = {
            "tensor_names": [tensor.string("name") for tensor in tensors],
            "tensor_bytes": [tensor.size("bytes") for tensor in tensors],
            "roles": [c.ROLES[tensor.choice("role", c.ROLES)] for tensor in tensors],
            "names": [node.string("name") for node in nodes],
            "operators": [node.string("op") for node in nodes],
            "passes": [c.PASSES[node.choice("pass", c.PASSES)] for node in nodes],
            "costs": [node.number("cost") for node in nodes],
            "workspaces": [node.size("workspace") for node in nodes],
            **{field: [node.ids(field) for node in nodes] for field in ("inputs", "outputs", "updates")},
            "inplace": [(v, *pair) for v, node in enumerate(nodes) for pair in _read_pairs(node)],
            "repeatable": [_read_repeatable(node) for node in nodes],
            "step_outputs": root.ids("outputs"),
        }
        try:
            return cls(**arguments, name=name)
        except InvalidArgument as error:
            raise BadFormat(f"{root.file}: {error}") from None

    def write(self, path: Path_) -> None:
        """Writes a graph file, whole or not at all. Raises OSError if it cannot be written."""
        pairs: list[list[list[int]]] = [[] for _ in range(self.nodes)]
        for node, output, place in self.inplace.tolist():
            pairs[node].append([output, place])
        columns = zip(
            self._passes.tolist(),
            self.costs.tolist(),
            self.workspaces.tolist(),
            self.inputs,
            self.outputs,
            self.updates,
            pairs,
            self.repeatable.tolist(),
            strict=True,
        )
        nodes = [
            {
                "name": self.node_name(v),
                "op": self.operator(v),
                "pass": c.PASSES[code],
                "cost": cost,
                "workspace": workspace,
                "inputs": inputs,
                "outputs": outputs,
                "updates": updates,
                "inplace": inplace,
                "repeatable": repeatable,
            }
            for v, (code, cost, workspace, inputs, outputs, updates, inplace, repeatable) in enumerate(columns)
        ]
        tensors = [
            {"name": self.tensor_name(t), "bytes": size, "role": c.ROLES[role]}
            for t, (size, role) in enumerate(zip(self.tensor_bytes.tolist(), self._roles.tolist(), strict=True))
        ]
        head = {"format": "neap-graph", "version": 1, "name": self.name}
        write_json(path, {**head, "tensors": tensors, "nodes": nodes, "outputs": self.step_outputs.tolist()})


def _step_of(positional: tuple[Any, ...], named: dict[str, Any]) -> Step:
    return Step(*positional, **named)


def _read_pairs(node: Place) -> list[list[int]]:
    pairs = node.list("inplace")
    for pair in pairs:
        if not isinstance(pair, list) or len(pair) != 2:
            raise node.bad("inplace", "must be a list of [output, input] pairs")
        if any(type(item) is not int or not 0 <= item < 2**31 for item in pair):
            raise node.bad("inplace", "must hold integers of 0 or more")
    return pairs


def _read_repeatable(node: Place) -> bool:
    value = node.value.get("repeatable", True)
    if not isinstance(value, bool):
        raise node.bad("repeatable", "must be true or false")
    return value
