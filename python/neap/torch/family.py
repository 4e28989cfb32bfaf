"""Captured steps that differ in their numbers only: the same list of calls at other lengths of the batch.

The numbers of a graph (sizes, strides, offsets, integers and fractions among the arguments, bytes of storages) are a vector; the
rest is the skeleton. A vector and a graph of the same skeleton give the graph at another length. Unless PyTorch rounds or
branches, each number is a polynomial of the length of degree at most 2 (attention). So three captures give the lengths between
them, and a fourth one proves it."""

from __future__ import annotations

import bisect
import dataclasses
import hashlib
import math
from typing import Any

import torch

from .graph import Call, Graph, View, user_line

NUMBERS = (int, float, bool)
MOST_HASHED = 1 << 20  # bytes of the largest constant whose content is compared


def divide(x: Any, numbers: list[Any], rest: list[Any]) -> None:
    """Divides an argument into numbers and the rest, always in the same order."""
    if isinstance(x, View):
        rest.append((x.tensor, len(x.size), x.dtype))
        numbers += x.size
        numbers += x.stride
        numbers.append(x.offset)
    elif isinstance(x, NUMBERS):
        rest.append(type(x))
        numbers.append(x)
    elif isinstance(x, (list, tuple)):
        rest.append((type(x).__name__, len(x)))
        for y in x:
            divide(y, numbers, rest)
    elif isinstance(x, dict):
        rest.append(tuple(x))
        for y in x.values():
            divide(y, numbers, rest)
    else:
        rest.append(repr(x))


def content(constant: Any) -> Any:
    if not isinstance(constant, torch.Tensor):
        return repr(constant)
    size = constant.untyped_storage().nbytes()
    if type(constant) is not torch.Tensor or constant.device.type != "cpu" or size > MOST_HASHED:
        return id(constant)
    with torch.utils._python_dispatch._disable_current_modes():  # AOTAutograd's, while it compiles
        flat = torch.empty(0, dtype=torch.uint8).set_(constant.untyped_storage())
        return hashlib.sha256(flat.numpy().tobytes()).hexdigest()


@dataclasses.dataclass
class Numbers:
    """A graph as a skeleton (equal texts: the same calls on the same tensors) and a vector of numbers."""

    skeleton: str
    vector: list[Any]

    @staticmethod
    def of(rest: list[Any], vector: list[Any]) -> Numbers:
        return Numbers(hashlib.sha256(repr(rest).encode()).hexdigest(), vector)


def numbers_of(graph: Graph, constants: bool = True) -> Numbers:
    """constants: whether the skeleton has their content."""
    source = lambda s: s.source if s.role != "constant" else constants and content(s.source)  # noqa: E731
    numbers: list[Any] = [s.bytes for s in graph.storages]
    rest: list[Any] = [(s.role, s.device, source(s)) for s in graph.storages]
    rest += [(t.storage, t.version) for t in graph.tensors]
    for call in graph.calls:
        rest.append(
            (str(call.target), call.reads, call.makes, call.changes, call.random, call.statistics, call.backward)
        )
        divide((call.args, call.kwargs, call.results), numbers, rest)
    divide((graph.inputs, graph.outputs), numbers, rest)
    return Numbers.of(rest, numbers)


def same_calls(a: Graph, b: Graph) -> bool:
    """Returns whether two captures are one step: the same calls with the same numbers, and constants that are one memory or equal."""
    one, other = numbers_of(a, False), numbers_of(b, False)
    if one.skeleton != other.skeleton or not _same(one.vector, other.vector):
        return False
    pairs = [(x.source, y.source) for x, y in zip(a.storages, b.storages, strict=True) if x.role == "constant"]
    return all(map(_same_constant, *zip(*pairs, strict=True))) if pairs else True


def _same_constant(a: Any, b: Any) -> bool:
    if type(a) is not torch.Tensor or type(b) is not torch.Tensor:
        return a is b or content(a) == content(b)
    one, other = a.untyped_storage(), b.untyped_storage()
    if one._cdata == other._cdata:
        return True
    bytes_of = lambda s: torch.empty(0, dtype=torch.uint8, device=s.device).set_(s)  # noqa: E731
    with torch.utils._python_dispatch._disable_current_modes():
        return (
            one.nbytes() == other.nbytes()
            and one.device == other.device
            and torch.equal(bytes_of(one), bytes_of(other))
        )


def difference(old: Graph, new: Graph) -> str:
    """Returns a message about the first call that a new capture (with lines) has otherwise than an old one."""

    def parts(graph: Graph, i: int) -> tuple[str, list[Any], list[Any]]:
        numbers: list[Any] = []
        rest: list[Any] = []
        if i < len(graph.calls):
            divide((graph.calls[i].args, graph.calls[i].kwargs), numbers, rest)
        return str(graph.calls[i].target) if i < len(graph.calls) else "no call", numbers, rest

    count = max(len(old.calls), len(new.calls))
    i = next((i for i in range(count) if parts(old, i) != parts(new, i)), count)
    (was, numbers, rest), (now, others, more) = parts(old, i), parts(new, i)
    what = f"{now}, in place of {was}"
    if i == count:
        what = "another constant"
    elif was == now:
        moved = next(((a, b) for a, b in zip(numbers, others, strict=False) if a != b or type(a) is not type(b)), None)
        what = f"{now} of {moved[1]}, in place of {moved[0]}" if moved and rest == more else f"{now} of other operands"
    node = new.calls[i].node if i < len(new.calls) else None
    line = user_line(node) if node is not None and node.meta.get("stack_trace") else "loss_fn"
    return (
        f"{line}: the step now computes otherwise than it was captured ({what}), though no object was seen to change that its code reads (a file, a "
        "clock, a generator of its own): give what changes to loss_fn with the batch. The next call captures the step as it is then. Nothing was changed."
    )


class Filler:
    """Puts the numbers of a vector back where divide took them."""

    def __init__(self, vector: list[Any], at: int):
        self.vector, self.at = vector, at

    def take(self, count: int) -> list[Any]:
        """Returns the next `count` numbers."""
        self.at += count
        return self.vector[self.at - count : self.at]

    def fill(self, x: Any) -> Any:
        if isinstance(x, View):
            size, stride = self.take(len(x.size)), self.take(len(x.size))
            return View(x.tensor, tuple(size), tuple(stride), *self.take(1), x.dtype)
        if isinstance(x, NUMBERS):
            return self.take(1)[0]
        if isinstance(x, (list, tuple)):
            return type(x)(map(self.fill, x)) if not hasattr(x, "_make") else type(x)._make(map(self.fill, x))
        if isinstance(x, dict):
            return {key: self.fill(y) for key, y in x.items()}
        return x


class Template:
    """A graph, its numbers and their positions. Gives the graph for other numbers."""

    def __init__(self, graph: Graph, numbers: Numbers):
        self.graph, self.numbers = graph, numbers
        self.starts = [len(graph.storages)]  # position of each call's first number; last, that of inputs and outputs
        for call in graph.calls:
            count: list[Any] = []
            divide((call.args, call.kwargs, call.results), count, [])
            self.starts.append(self.starts[-1] + len(count))

    def at(self, vector: list[Any], share: bool = True) -> Graph:
        """Returns the graph with the numbers of `vector`. share: unchanged calls are the template's own objects."""
        own, graph = self.numbers.vector, self.graph
        storages = [
            s if share and b == s.bytes else dataclasses.replace(s, bytes=b)
            for s, b in zip(graph.storages, vector[: len(graph.storages)], strict=True)
        ]
        calls: list[Call] = []
        for call, begin, end in zip(graph.calls, self.starts, self.starts[1:], strict=False):
            if share and own[begin:end] == vector[begin:end]:
                calls.append(call)
                continue
            args, kwargs, results = Filler(vector, begin).fill((call.args, call.kwargs, call.results))
            calls.append(dataclasses.replace(call, args=args, kwargs=kwargs, results=results))
        inputs, outputs = Filler(vector, self.starts[-1]).fill((graph.inputs, graph.outputs))
        return dataclasses.replace(graph, storages=storages, calls=calls, inputs=inputs, outputs=outputs)

    def plain_numbers(self) -> set[int]:
        """Returns the positions, in the vector, of arguments and results that are numbers: not sizes, strides, offsets or bytes."""
        where = self.at(list(range(len(self.numbers.vector))), share=False)
        found: list[int] = []
        for call in where.calls:
            _take_plain((call.args, call.kwargs), found)
        _take_plain(where.outputs, found)
        return set(found)

    def inputs_at(self, vector: list[Any]) -> list[View | None]:
        return Filler(vector, self.starts[-1]).fill(self.graph.inputs)


def _take_plain(x: Any, found: list[int]) -> None:
    if isinstance(x, NUMBERS):
        found.append(x)
    elif isinstance(x, (list, tuple, dict)):
        for y in x.values() if isinstance(x, dict) else x:
            _take_plain(y, found)


# ---- Numbers of the batch ----


def places_of(points: list[tuple[tuple[Any, ...], list[Any]]], plain: set[int]) -> list[list[int]] | None:
    """points: (numbers of the batch, vector of a capture with them). Returns the positions of each number in the vectors; None if
    anything else in the vectors changes, since calls then depend on the numbers."""
    numbers = list(zip(*(numbers for numbers, _ in points), strict=True))
    if any(len({x for x in own if x == x}) < 3 for own in numbers):  # a number that did not change proves nothing
        return None
    places: list[list[int]] = [[] for _ in numbers]
    for position, column in enumerate(zip(*(vector for _, vector in points), strict=True)):
        if _same(column, [column[0]] * len(column)):
            continue
        which = [k for k, own in enumerate(numbers) if _same(column, own)]
        if position not in plain or not which:
            return None
        places[which[0]].append(position)
    return places


def _same(a: Any, b: Any) -> bool:
    return len(a) == len(b) and all(
        type(x) is type(y) and (x == y or (x != x and y != y)) for x, y in zip(a, b, strict=False)
    )


# ---- Between captured lengths ----

Shapes = tuple[tuple[int, ...], ...]  # of the batch's tensors


def moving(a: Shapes, b: Shapes) -> tuple[tuple[int, int], ...]:
    """Returns (tensor, dimension) of each size that differs; () if ranks differ."""
    if list(map(len, a)) != list(map(len, b)):
        return ()
    return tuple((i, d) for i, (x, y) in enumerate(zip(a, b, strict=True)) for d in range(len(x)) if x[d] != y[d])


@dataclasses.dataclass
class Fit:
    """Polynomials through three captured vectors, proven by others. `base` has the numbers that do not change.

    Captured lengths that are all multiples of 8 prove nothing of others: `n % 8` is 0 at each. So the fit holds for those lengths
    alone that differ from a captured one by a multiple of `stride`, what all differences of captured ones have in common."""

    base: list[Any]
    moved: list[tuple[int, int, int, int, int]]  # (position, d, a, b, c): (a + b t + c t^2) / d
    first: int  # a captured length
    stride: int

    def at(self, length: int) -> list[Any] | None:
        """Returns the vector at a length; None if the fit does not hold for it, or if a number would not be an integer."""
        if (length - self.first) % self.stride:
            return None
        vector = list(self.base)
        for position, d, a, b, c in self.moved:
            value = a + length * (b + length * c)
            if d != 1:
                if value % d:
                    return None
                value //= d
            vector[position] = value
        return vector


def fit(points: dict[int, list[Any]]) -> Fit | None:
    """Fits the least, the middle and the largest length of `points` (length -> vector). Returns None if one of the others (at least
    one) is not on the polynomials, or if a number that is not an integer changes."""
    lengths = sorted(points)
    if len(lengths) < 4:
        return None
    middle = min(lengths[1:-1], key=lambda n: abs(2 * n - lengths[0] - lengths[-1]))
    x, y, z = lengths[0], middle, lengths[-1]
    where = [lengths.index(n) for n in (x, y, z)]
    moved = []
    for position, column in enumerate(zip(*(points[n] for n in lengths), strict=True)):
        first = column[0]
        if all(value == first and type(value) is type(first) for value in column):
            continue
        if not all(type(value) is int for value in column):
            return None
        p, q, r = (column[i] for i in where)
        # Newton's divided differences, over the common denominator d.
        d = (y - x) * (z - y) * (z - x)
        c = (r - q) * (y - x) - (q - p) * (z - y)
        b = (q - p) * (z - y) * (z - x) - c * (x + y)
        a = d * p - x * (b + c * x)
        k = math.gcd(d, a, b, c)
        d, a, b, c = d // k, a // k, b // k, c // k
        if any(a + n * (b + n * c) != value * d for n, value in zip(lengths, column, strict=True)):
            return None
        moved.append((position, d, a, b, c))
    return Fit(list(points[x]), moved, x, math.gcd(*(n - x for n in lengths[1:])))


def between(points: dict[int, list[Any]], length: int) -> Fit | None:
    """Returns a fit for a length between captured ones: through all of `points`, else through those around the length; None if the
    length must be captured. Sizes of 0 and 1 are special to PyTorch: no fit uses or gives them."""
    usual = {n: v for n, v in points.items() if n > 1}
    lengths = sorted(usual)
    if len(lengths) < 4 or not lengths[0] < length < lengths[-1]:
        return None
    whole = fit(usual)
    i = bisect.bisect(lengths, length)
    if whole is not None or not 2 <= i <= len(lengths) - 2:
        return whole
    return fit({n: usual[n] for n in lengths[i - 2 : i + 2]})
