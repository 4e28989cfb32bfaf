"""Reports: a step planned before its memory exists, whether it fits, and where its bytes go."""

from __future__ import annotations

import html
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

import neap
from neap._budget import parse as parse_budget

from . import measure
from .assemble import Gradient, assemble
from .batch import Structure
from .decisions import Decisions
from .graph import Graph, View
from .heap import Heap
from .memory import view_bytes
from .plans import cached_plan
from .swap import generators_kept
from .trace import Capture, trace_step
from .updates import Updater, estimate_update, estimate_whole


class Report:
    """The bytes and the cost of training a model. Costs are by FLOPs and bytes (a roofline), so that `overhead` is an estimate.

    feasible: whether the budget can be met. peak_bytes: of the plan for the budget; None if it is not feasible. keep_all_bytes:
    of keeping everything. smallest_budget_bytes: the least budget that was found; it is met. overhead: seconds of the plan over those of
    keeping everything, minus 1; None if it is not feasible."""

    def __init__(
        self,
        step: neap.Step,
        plan: neap.Plan | None,
        least: neap.Plan,
        budget: int | None,
        parts: dict[str, int],
        batch: Callable[[int], int | None],
    ):
        self.step, self.plan, self.least = step, plan, least
        self.budget_bytes = budget
        self.parts = parts
        self.feasible = plan is not None
        self.keep_all_bytes: int = step.keep_all_bytes
        self.smallest_budget_bytes: int = least.resident_bytes + least.arena_bytes
        self.peak_bytes = plan.resident_bytes + plan.arena_bytes if plan is not None else None
        self.overhead = plan.overhead if plan is not None else None
        self._batch = batch

    def largest_batch(self, budget: int | str | None = None) -> int | None:
        """Returns the largest batch (dimension 0 of the batch's tensors) that fits the budget; 0: none does; None: the batch has no
        such tensor. Captures and plans the step for a few sizes. Raises InvalidArgument if the budget is a share."""
        size = self.budget_bytes if budget is None else parse_budget(budget)[0]
        if size is None:
            raise neap.InvalidArgument("budget must be a number of bytes: a share of keeping everything fits any batch")
        return self._batch(size)

    def curve(self, points: int = 12) -> neap.Curve:
        """Returns plans from the least budget to keeping everything: bytes against overhead."""
        return neap.curve(self.step, points=points)

    def table(self) -> str:
        """Returns the figures as lines of text."""
        rows = [(name, neap.format_bytes(value)) for name, value in self.parts.items() if value]
        rows += [
            ("keep everything", neap.format_bytes(self.keep_all_bytes)),
            (
                "least budget",
                f"{neap.format_bytes(self.smallest_budget_bytes)}, overhead {100 * self.least.overhead:.0f} %",
            ),
        ]
        if self.budget_bytes is not None:
            told = f"{neap.format_bytes(self.budget_bytes)}: " + (
                f"fits, peak {neap.format_bytes(self.peak_bytes)}, overhead {100 * self.overhead:.1f} %, {self.plan.recomputed} calls run again"
                if self.plan is not None
                else "cannot be met"
            )
            rows.append(("budget", told))
        width = max(len(name) for name, _ in rows)
        return "\n".join(f"{name:{width}}  {value}" for name, value in rows)

    __str__ = table

    def __repr__(self) -> str:
        return f"<neap.torch.Report\n{self.table()}\n>"

    def html(self) -> str:
        """Returns the page of `neap show` for the plan or, without one, for the least budget."""
        return (self.plan or self.least).html()

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(self.table())}</pre>" + (self.plan or self.least)._repr_html_()


def _optimizer(optimizer: Any, capture: Capture) -> Updater | None:
    if optimizer is None:
        return None
    if not isinstance(optimizer, torch.optim.Optimizer):  # a class or a function of the parameters
        optimizer = optimizer([p for i, (_, p) in enumerate(capture.parameters) if i in set(capture.trainable)])
    return Updater(optimizer)


def _outside(graph: Graph, costs: list[measure.Cost]) -> int:
    """Returns the bytes outside PyTorch's allocator on this machine's CPU."""
    heap = Heap()
    heap.note({measure.call_key(call): cost for call, cost in zip(graph.calls, costs, strict=True)})
    return heap.bytes(len(costs))


def _step(
    model: nn.Module, loss_fn: Callable[..., Any], batch: Any, optimizer: Any
) -> tuple[neap.Step, dict[str, int]]:
    structure = Structure((tuple(batch), {}))
    trained = set(Updater(optimizer).groups()) if isinstance(optimizer, torch.optim.Optimizer) else set()
    decisions = Decisions()
    capture = trace_step(model, loss_fn, structure, structure.leaves, trained=trained, decisions=decisions)
    if decisions.way:
        warnings.warn(
            f"neap: {decisions.lines[()]}\n  asks for the value of a tensor, which a plan does not have: branches are planned as if it were False, "
            "and masks as if they selected all",
            stacklevel=4,
        )
    graph = capture.graph
    costs = measure.estimate(graph)
    outputs = [v for v in (capture.loss, *capture.extra_views) if isinstance(v, View)]
    updater = _optimizer(optimizer, capture)
    parameters = [p for _, p in capture.parameters]
    gradients, states = [], []
    if updater is not None:
        updater.look(parameters)
    groups = updater.groups() if updater is not None else {}
    known: dict[Any, Any] = {}
    kept, together = [], []
    for position, view in zip(capture.trainable, capture.gradients, strict=True):
        name, parameter = capture.parameters[position]
        if view is None:
            continue
        if updater is None or id(parameter) not in groups:
            kept.append(view)  # without an update, a gradient lives to the end
            continue
        if updater.whole:
            together.append((position, view))
            continue
        key = (tuple(parameter.shape), parameter.dtype, id(groups[id(parameter)]))
        if key not in known:
            known[key] = estimate_update(updater, parameter, groups[id(parameter)])
        update = known[key]
        gradients.append(
            Gradient([view], "update", None, [graph.inputs[position].tensor], update.cost, f"{name} update")
        )
        states.append([(f"{name} state", update.state)] if update.state else [])
    if together:
        update = estimate_whole(updater, [parameters[i] for i, _ in together])
        changes = [graph.inputs[i].tensor for i, _ in together]
        gradients.append(
            Gradient([v for _, v in together], "update", None, changes, update.cost, "optimizer update", True)
        )
        states.append([("optimizer state", update.state)] if update.state else [])
    returned = sum(map(view_bytes, outputs))
    resident = [("outputs", returned, "input")]
    on_cpu = all(s.device.type in ("cpu", "meta") for s in graph.storages)
    if on_cpu:
        resident.append(("outside PyTorch's allocator", _outside(graph, costs), "input"))
    assembly = assemble(
        graph,
        costs,
        gradients,
        [*outputs, *kept],
        in_place=on_cpu,
        states=states,
        resident=resident,
        name=type(model).__name__,
    )
    by_role = {
        role: sum(s.bytes for s in graph.storages if s.role == role)
        for role in ("parameter", "state", "input", "constant")
    }
    parts = {
        "parameters": by_role["parameter"],
        "optimizer states": sum(size for one in states for _, size in one),
        "buffers": by_role["state"],
        "batch": by_role["input"] + by_role["constant"],
    }
    return assembly.step, parts


def _resized(batch: Any, size: int, now: int) -> Any:
    """Returns the batch with `size` in place of `now` in dimension 0, without memory: only shapes count."""

    def one(x: Any) -> Any:
        if not isinstance(x, torch.Tensor) or x.dim() == 0 or x.shape[0] != now:
            return x
        return torch.empty((size, *x.shape[1:]), dtype=x.dtype, device="meta")

    return pytree.tree_map(one, batch)


def plan(
    model: nn.Module,
    loss_fn: Callable[..., Any],
    batch: Any,
    *,
    optimizer: Any = None,
    budget: int | str | None = None,
    seconds: float = 0.0,
) -> Report:
    """Plans a training step of `loss_fn(model, *batch)` without running it.

    Model and batch may be real, on the meta device (`with torch.device("meta"): model = ...`) or fake: no memory of their size is
    allocated. optimizer: an optimizer over the model's parameters, or a class or function of parameters that makes one
    (`torch.optim.AdamW`); None: gradients stay to the end of the step and no states are counted. budget: as for compile_step;
    None: only the least budget is found. seconds: as for neap.plan.

    Raises CannotTrace if the step cannot be captured. Raises nothing if the budget cannot be met: `feasible` is then False."""
    if not isinstance(batch, tuple):
        batch = tuple(batch) if isinstance(batch, list) else (batch,)
    if budget is not None:
        parse_budget(budget)
    with generators_kept():
        step, parts = _step(model, loss_fn, batch, optimizer)
    least = cached_plan(step, "min")
    found, size = None, None
    if budget is not None:
        number, fraction = parse_budget(budget)
        smallest = least.resident_bytes + least.arena_bytes
        size = (
            int(fraction * step.keep_all_bytes)
            if fraction is not None
            else smallest
            if budget == "min"
            else step.keep_all_bytes
            if budget == "max"
            else number
        )
        if size >= smallest:
            found = least if budget == "min" else cached_plan(step, size, seconds=seconds)

    def largest(limit: int) -> int | None:
        return _largest_batch(model, loss_fn, batch, optimizer, limit)

    return Report(step, found, least, size, parts, largest)


def _largest_batch(model: nn.Module, loss_fn: Callable[..., Any], batch: Any, optimizer: Any, limit: int) -> int | None:
    sizes = [x.shape[0] for x in pytree.tree_leaves(batch) if isinstance(x, torch.Tensor) and x.dim() > 0]
    if not sizes:
        return None
    now = sizes[0]

    def fits(size: int) -> bool:
        with generators_kept():
            step, _ = _step(model, loss_fn, _resized(batch, size, now), optimizer)
        try:
            neap.plan(step, limit, quick=True)
        except neap.OverBudget:
            return False
        return True

    low, high = 0, 1
    while fits(high):
        low, high = high, 2 * high
        if high > 1 << 20:
            return low
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low
