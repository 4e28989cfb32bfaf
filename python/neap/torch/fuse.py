"""Fusion: groups of pointwise and reduction calls, each compiled by Inductor for the CPU and run as one call.

An interval of the captured order without other calls is divided into groups of calls that read one another; no path leaves an
interval and comes back. Groups depend on the graph alone, never on times: the same step has the same bits.
"""

from __future__ import annotations

import dataclasses
import hashlib
import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree

from .assemble import ELEMENTWISE
from .graph import Call, CannotTrace, Given, Graph, View
from .measure import is_view, result_tensors, stand_in

aten = torch.ops.aten

# Operators that Inductor turns into loops, besides pointwise ones.
REDUCTIONS = {
    aten.sum.default, aten.sum.dim_IntList, aten.mean.default, aten.mean.dim, aten.amax.default, aten.amin.default, aten.var.correction,
    aten.var_mean.correction, aten._softmax.default, aten._softmax_backward_data.default, aten._log_softmax.default,
    aten._log_softmax_backward_data.default, aten.native_layer_norm.default, aten.native_layer_norm_backward.default,
    aten.native_group_norm.default, aten.native_group_norm_backward.default, aten.native_batch_norm.default,
    aten.native_batch_norm_backward.default, aten.clone.default, aten._to_copy.default,
}  # fmt: skip
# Compiled functions of this process: (code, layout of operands, threads) -> Fused, or None if results have another layout than
# planned.
_compiled: dict[tuple[str, str, int], Fused | None] = {}


class Fused:
    """A compiled group: a function of operands that returns results. The last `moved` operands are running statistics, which it
    updates in place. A repeat passes None for them: the results do not depend on them."""

    def __init__(self, name: str, run: Callable[..., Any], statistics: list[torch.Tensor]):
        self.name, self.run, self.statistics = name, run, statistics
        self.moved = len(statistics)

    def __str__(self) -> str:
        return self.name

    def __call__(self, *operands: torch.Tensor | None) -> list[torch.Tensor]:
        if not self.moved:
            return list(self.run(*operands))
        held = operands[-self.moved :]
        given = [own if x is None else x for x, own in zip(held, self.statistics, strict=True)]
        results = self.run(*operands[: -self.moved], *given)
        for x, new in zip(held, results[-self.moved :], strict=True):
            if x is not None:
                x.copy_(new)
        return list(results[: -self.moved])


Group = list[int]  # calls of a graph, by their numbers, that become one


def is_fusible(graph: Graph, call: Call) -> bool:
    pointwise = torch.Tag.pointwise in getattr(call.target, "tags", ()) or call.target in ELEMENTWISE
    if call.random or call.changes or not (pointwise or call.target in REDUCTIONS):
        return False
    leaves = pytree.tree_leaves((call.args, call.kwargs), is_leaf=is_view)
    views = [x for x in (*leaves, *call.results) if isinstance(x, View)]
    plain = all(not v.dtype.is_complex for v in views)
    here = all(graph.storage_of(v.tensor).device.type == "cpu" for v in views)
    return plain and here and not any(isinstance(x, Given) for x in leaves)


def _result_views(graph: Graph, numbers: list[int]) -> dict[int, View]:
    return {r.tensor: r for n in numbers for r in graph.calls[n].results if r is not None}


def groups_of(graph: Graph) -> list[Group]:
    """Returns the groups of a graph, in the order of their first calls."""
    found: list[Group] = []
    interval: list[int] = []
    made: dict[int, View] = {}

    def end() -> None:
        found.extend(g for g in _connected(graph, interval) if len(g) > 1)
        interval.clear()
        made.clear()

    for number, call in enumerate(graph.calls):
        if not is_fusible(graph, call):
            end()
            continue
        inside = [v for v in _views(call) if v.tensor in made]
        if interval and (
            graph.calls[interval[-1]].backward != call.backward
            or any(_shown(made[v.tensor], v) is None for v in inside)
        ):
            end()
        interval.append(number)
        made.update(_result_views(graph, [number]))
    end()
    return found


def _views(call: Call) -> list[View]:
    return [x for x in pytree.tree_leaves((call.args, call.kwargs), is_leaf=is_view) if isinstance(x, View)]


def _connected(graph: Graph, interval: list[int]) -> Iterator[list[int]]:
    """Yields the calls of an interval, in sets that read one another's results."""
    group = {n: [n] for n in interval}
    maker = {t: n for n in interval for t in graph.calls[n].makes}
    for n in interval:
        for t in graph.calls[n].reads:
            if t in maker and group[maker[t]] is not group[n]:
                joined = sorted(group[maker[t]] + group[n])
                group.update(dict.fromkeys(joined, joined))
    return iter({id(g): g for g in group.values()}.values())


# ---- A view of a result, by operators that do not depend on its layout ----


def _is_dense(view: View) -> bool:
    expected = 1
    for n, s in zip(reversed(view.size), reversed(view.stride), strict=True):
        if n != 1 and s != expected:
            return False
        expected *= n
    return view.offset == 0


def _shown(made: View, wanted: View) -> Callable[[Any], Any] | None:
    """Returns a function that turns a result with the layout `made` into `wanted`; None if reshape, permute and expand cannot."""
    if made.dtype != wanted.dtype or wanted.offset != made.offset or made.offset != 0:
        return None
    if (made.size, made.stride) == (wanted.size, wanted.stride):
        return lambda x: x
    if _is_dense(made) and _is_dense(wanted) and math.prod(made.size) == math.prod(wanted.size):
        return lambda x: aten.reshape.default(x, list(wanted.size))
    # Each dimension of `wanted` with more than one element must be a dimension of `made`, moved, or a broadcast one.
    left = {(s, n): i for i, (n, s) in enumerate(zip(made.size, made.stride, strict=True)) if n != 1}
    if len(left) < sum(n != 1 for n in made.size):
        return None
    order: list[int] = []
    shape: list[int] = []
    for n, s in zip(wanted.size, wanted.stride, strict=True):
        if n == 1 or s == 0:
            shape.append(1)
        elif (s, n) in left:
            order.append(left.pop((s, n)))
            shape.append(n)
        else:
            return None
    if left:
        return None
    ones = [i for i, n in enumerate(made.size) if n == 1]
    return lambda x: aten.expand.default(
        aten.reshape.default(aten.permute.default(x, [*order, *ones]), shape), list(wanted.size)
    )


# ---- Compiling ----


@dataclasses.dataclass
class _Code:
    """A group as a function of tensors with the layouts `operands`. The last `moved` of them are running statistics, whose new
    contents follow `results`."""

    run: Callable[..., list[torch.Tensor]]
    operands: list[View]
    moved: int
    results: list[View]


def _code(graph: Graph, group: Group, outside: set[int]) -> _Code:
    """Returns the function of a group. outside: tensors that other calls read."""
    calls = [graph.calls[n] for n in group]
    made = _result_views(graph, group)
    results = [r for r in made.values() if r.tensor in outside]
    held = [call.args[i] for call in calls for i in call.statistics if is_view(call.args[i])]
    skipped = set(map(id, held))
    plain = {_order(v): v for call in calls for v in _views(call) if v.tensor not in made and id(v) not in skipped}
    places = {key: i for i, key in enumerate(plain)} | {id(v): len(plain) + i for i, v in enumerate(held)}

    def run(*operands: torch.Tensor) -> list[torch.Tensor]:
        values: dict[int, torch.Tensor] = {}
        statistics: list[torch.Tensor] = []

        def leaf(x: Any) -> Any:
            if not is_view(x):
                return x
            if x.tensor in made:
                return _shown(made[x.tensor], x)(values[x.tensor])
            return operands[places[id(x)] if id(x) in places else places[_order(x)]]

        for call in calls:
            args, kwargs = pytree.tree_map(leaf, (call.args, call.kwargs), is_leaf=is_view)
            moves = any(is_view(call.args[i]) for i in call.statistics)
            target = aten._native_batch_norm_legit_functional.default if moves else call.target
            given = result_tensors(target(*args, **kwargs))
            values.update((r.tensor, t) for r, t in zip(call.results, given, strict=False) if r is not None)
            if moves:
                statistics += given[len(call.results) :]
        return [*(values[r.tensor] for r in results), *statistics]

    return _Code(run, [*plain.values(), *held], len(held), results)


def _order(v: View) -> Any:
    return (v.tensor, v.size, v.stride, v.offset, v.dtype)


def _compile(code: _Code) -> Fused | None:
    """Compiles a function and runs it once, on stand-ins. Returns None if its results have another layout than planned."""
    real = torch.utils._python_dispatch._disable_current_modes()
    with real, torch.no_grad(), torch.random.fork_rng([]), torch._C._DisableAutocast():
        with FakeTensorMode() as mode:
            fakes = [torch.empty_strided(v.size, v.stride, dtype=v.dtype) for v in code.operands]
        with mode:
            module = make_fx(code.run, tracing_mode="real")(*fakes)
        where = " ".join(f"{str(v.dtype)[6:]}{list(v.size)}{list(v.stride)}" for v in code.operands)
        key = (module.code, where, torch.get_num_threads())
        if key not in _compiled:
            name = f"neap.fused.{hashlib.sha256(' '.join(map(str, key)).encode()).hexdigest()[:16]}"
            statistics = [torch.zeros(v.size, dtype=v.dtype) for v in code.operands[len(code.operands) - code.moved :]]
            try:
                compiled = torch._inductor.compile(module, fakes)
            except Exception as error:
                raise CannotTrace(
                    f"fuse=True: Inductor does not compile a group of calls: {error}; leave fuse=True out"
                ) from error
            fused = Fused(name, compiled, statistics)
            given = fused(*(stand_in(v, torch.device("cpu")) for v in code.operands))
            fits = all(
                (tuple(t.shape), tuple(t.stride()), t.dtype) == (v.size, v.stride, v.dtype)
                for t, v in zip(given, code.results, strict=True)
            )
            _compiled[key] = fused if fits else None
        return _compiled[key]


def fuse(graph: Graph, groups: list[Group] | None = None) -> tuple[Graph, list[Group]]:
    """Returns the graph with one call for each group, and the groups. groups: those of another shape of the same step, which
    this graph must have too. Raises CannotTrace."""
    wanted = groups if groups is not None else groups_of(graph)
    readers: dict[int, set[int]] = {}
    for number, call in enumerate(graph.calls):
        for t in call.reads:
            readers.setdefault(t, set()).add(number)
    kept = {v.tensor for v in graph.outputs if is_view(v)}
    kept |= {t for s, t in graph.last.items() if graph.storages[s].role != "value"}
    done: list[Group] = []
    becomes: dict[int, Call] = {}
    left: set[int] = set()
    for group in wanted:
        own = set(group)
        made = [t for n in group for t in graph.calls[n].makes]
        code = _code(graph, group, {t for t in made if t in kept or readers.get(t, set()) - own})
        target = _compile(code) if code.results else None
        if target is None:
            if groups is not None:
                raise CannotTrace(
                    "fuse=True: a group of calls has another layout at another shape; leave fuse=True out"
                )
            continue
        done.append(group)
        left |= own
        becomes[group[-1]] = _call(graph, group, code, target)
    calls = [becomes.get(n, call) for n, call in enumerate(graph.calls) if n in becomes or n not in left]
    return dataclasses.replace(graph, calls=calls), done


def _call(graph: Graph, group: Group, code: _Code, target: Fused) -> Call:
    """Returns a group's call. Its operands are positional; its results are those that other calls read."""
    calls = [graph.calls[n] for n in group]
    plain = code.operands[: len(code.operands) - code.moved]
    name = f"{calls[0].name} to {calls[-1].name}"
    return Call(
        name, target, tuple(code.operands), {}, list(dict.fromkeys(v.tensor for v in plain)), [r.tensor for r in code.results], [],
        list(code.results), None, False, tuple(range(len(plain), len(code.operands))), calls[0].backward,
    )  # fmt: skip
