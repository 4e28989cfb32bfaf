"""Branches of a step by the values of tensors: a capture takes one way, each step checks that it takes the same, and captures another if not.

A capture has no values. Where code asks for one (`if mask.any():`, `x[mask]`), it gets what the last step had there, or a guess. The captured
call that checks the answer comes before everything that the step changes, so a step that would go another way has changed nothing."""

from __future__ import annotations

import contextlib
import contextvars
import operator
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensor

from .graph import PACKAGES, CannotTrace

Operator = Callable[[Any, Any], Any]
Row = tuple[Operator, Operator | None]
Way = tuple[int, ...]  # answers in the order in which they are asked for


class Decided(Exception):
    """A step goes another way than the captured one: after `way` the answer is `answer`."""

    def __init__(self, way: Way, answer: int):
        super().__init__(f"the answer after {way} is {answer}")
        self.way, self.answer = way, answer


def _text(way: Way) -> str:
    return " ".join(map(str, way))


def _check(way: str, expected: int, answer: int) -> None:
    if answer != expected:
        raise Decided(tuple(map(int, way.split())), answer)


@torch.library.custom_op("neap::decide", mutates_args=())
def decide(value: torch.Tensor, way: str, expected: int, truth: bool) -> None:
    """Raises Decided unless the number, or with `truth` whether it is not 0, is as expected."""
    _check(way, expected, int(bool(value) if truth else value))


@decide.register_fake
def _(value: torch.Tensor, way: str, expected: int, truth: bool) -> None:
    pass


def _empty_places(mask: torch.Tensor, count: int) -> torch.Tensor:
    strides = (1, count) if mask.device.type == "cpu" else (mask.dim(), 1)
    return torch.empty_strided((count, mask.dim()), strides, dtype=torch.int64, device=mask.device)


@torch.library.custom_op("neap::nonzero", mutates_args=())
def nonzero(mask: torch.Tensor, way: str, expected: int) -> torch.Tensor:
    """Returns mask.nonzero(), column by column on the CPU, as PyTorch mostly does. Raises Decided unless it has the expected number of rows."""
    found = mask.nonzero()
    _check(way, expected, len(found))
    return _empty_places(mask, expected).copy_(found)  # PyTorch's own lie otherwise from call to call


@nonzero.register_fake
def _(mask: torch.Tensor, way: str, expected: int) -> torch.Tensor:
    return _empty_places(mask, expected)


DECIDING = (decide._opoverload, nonzero._opoverload)
for _operator in DECIDING:
    torch.fx.node.has_side_effect(_operator)


def select_first(mask: torch.Tensor, count: int) -> None:
    """Makes the first `count` elements of a mask true, and no others."""
    if 0 not in mask.stride():
        mask.copy_((torch.arange(mask.numel(), device=mask.device) < count).view(mask.shape))


def _user_line() -> str:
    """Returns the innermost line that is neither PyTorch's nor Neap's."""
    frames = [f for f in traceback.extract_stack() if not any(root in f.filename for root in PACKAGES)]
    return f"{frames[-1].filename}, line {frames[-1].lineno}: {frames[-1].line}" if frames else "loss_fn"


class Number:
    """Stands for a number that was read from a tensor, in a capture. `value`: its tensor (float64 or int64), from which sums, products and
    comparisons follow; None for what else was computed with it. A comparison is a decision; other code may only keep it."""

    def __init__(self, decisions: Decisions, value: torch.Tensor | None):
        self.decisions, self.value, self.line = decisions, value, _user_line()

    def refuse(self, *_: Any) -> Any:
        raise CannotTrace(
            f"{self.line}\n  asks for the value of a tensor, which a capture does not have, and the step depends on it; keep it in tensors "
            "(torch.where), or compute it before the step and pass it to loss_fn."
        )

    def computed(self, row: Row, other: Any, turned: bool) -> Any:
        """Returns what an operator gives for this number and another operand; with `turned`, for the other one and this."""
        run, in_tensors = row
        if isinstance(other, torch.Tensor):
            if self.value is None or self.value.is_floating_point():
                self.refuse()
            return run(other, self.whole()) if turned else run(self.whole(), other)
        if not isinstance(other, (int, float, Number)):
            return NotImplemented
        other = other.value if isinstance(other, Number) else other
        if in_tensors is None or self.value is None or other is None:
            return Number(self.decisions, None)
        a, b = (other, self.value) if turned else (self.value, other)
        if any(map(_is_fraction, (a, b))):  # PyTorch would compute integers and fractions in float32
            a, b = _double(a), _double(b)
        return Number(self.decisions, in_tensors(a, b))

    def compared(self, run: Operator, other: Any) -> Any:
        found = self.computed((run, run), other, False)
        return found if found is NotImplemented else found.truth()

    def truth(self) -> bool:
        return self.decisions.truth(self.value) if self.value is not None else self.refuse()

    def whole(self) -> int:
        return self.decisions.number(self.value) if self.value is not None else self.refuse()


def _is_fraction(x: Any) -> bool:
    return x.is_floating_point() if isinstance(x, torch.Tensor) else isinstance(x, float)


def _double(x: Any) -> Any:
    return x.double() if isinstance(x, torch.Tensor) else torch.tensor(float(x), dtype=torch.float64)


# Name -> Python's operator, and that of tensors with the same bits in float64 and int64 (None: no such operator exists).
ARITHMETIC: dict[str, Row] = {
    "add": (operator.add, operator.add),
    "sub": (operator.sub, operator.sub),
    "mul": (operator.mul, operator.mul),
    "truediv": (operator.truediv, lambda a, b: torch.true_divide(_double(a), _double(b))),
    "floordiv": (operator.floordiv, None),
    "mod": (operator.mod, None),
    "pow": (operator.pow, None),
}


def _set_operators() -> None:
    def set_row(name: str, row: Row) -> None:
        setattr(Number, f"__{name}__", lambda self, other: self.computed(row, other, False))
        setattr(Number, f"__r{name}__", lambda self, other: self.computed(row, other, True))

    def set_comparison(name: str, run: Operator) -> None:
        setattr(Number, f"__{name}__", lambda self, other: self.compared(run, other))

    for name, row in ARITHMETIC.items():
        set_row(name, row)
    for name in ("lt", "le", "gt", "ge", "eq", "ne"):
        set_comparison(name, getattr(operator, name))
    for name in ("abs", "neg", "round"):
        setattr(Number, f"__{name}__", lambda self, *_: Number(self.decisions, None))
    for name in ("float", "format", "hash", "iter", "len"):
        setattr(Number, f"__{name}__", Number.refuse)
    Number.__bool__, Number.__int__, Number.__index__ = Number.truth, Number.whole, Number.whole


_set_operators()


class Decisions:
    """The answers of one step's captures."""

    def __init__(self) -> None:
        self.known: dict[Way, int] = {}  # as a step had them last, or as they were guessed
        self.turned: set[Way] = set()  # where the guess is True, since code fails with False
        self.counts: dict[torch.Size, int] = {}  # of the true elements of masks of a shape, as a capture had it last
        self.lines: dict[Way, str] = {}  # of the user, that asked
        self.begin()

    def begin(self) -> None:
        """Begins a capture."""
        self.way: Way = ()
        self.guessed: list[Way] = []  # truths

    def last_way(self) -> Way:
        """Returns the way that was taken last."""
        way: Way = ()
        while way in self.known:
            way += (self.known[way],)
        return way

    def learn(self, way: Way) -> None:
        """From now on, captures go this way."""
        for i, answer in enumerate(way):
            self.known[way[:i]] = answer

    def turn_guess(self) -> bool:
        """Changes the last guess that can be changed, since the capture failed. Returns whether there was one."""
        guess = next((way for way in reversed(self.guessed) if way not in self.turned), None)
        if guess is None:
            return False
        self.turned.add(guess)
        return True

    # ---- In a capture ----

    def _answer(self, guess: int) -> tuple[str, int]:
        """Returns the way so far, as a text, and the next answer."""
        way, answer = self.way, self.known.get(self.way, guess)
        self.lines.setdefault(way, _user_line())
        self.way = (*way, answer)
        return _text(way), answer

    def truth(self, value: torch.Tensor) -> bool:
        if self.way not in self.known:
            self.guessed.append(self.way)
        way, answer = self._answer(int(self.way in self.turned))
        decide(value.detach(), way, answer, True)
        return bool(answer)

    def number(self, value: torch.Tensor) -> int:
        way, answer = self._answer(1)
        decide(value.detach(), way, answer, False)
        return answer

    def _places(self, mask: torch.Tensor) -> torch.Tensor:
        way, answer = self._answer(self.counts.get(mask.shape, mask.numel()))
        self.counts[mask.shape] = answer
        return nonzero(mask.detach(), way, answer)

    def _item(self, value: torch.Tensor) -> Any:
        if value.dtype == torch.bool:
            return self.truth(value)
        if value.is_complex():
            return NotImplemented
        found = value.detach().reshape(())
        return Number(self, found.double() if value.is_floating_point() else found.long())

    def _nonzero(self, x: torch.Tensor, *, as_tuple: bool = False) -> Any:
        places = self._places(x)
        return places.unbind(1) if as_tuple else places

    def _where(self, condition: torch.Tensor, *others: Any) -> Any:
        return NotImplemented if others else self._places(condition).unbind(1)

    def _select(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        x, mask = torch.broadcast_tensors(x, mask)
        return x[self._places(mask).unbind(1)]

    def _index(self, x: torch.Tensor, key: Any) -> Any:
        new = self._without_masks(key)
        return x[new] if new is not None else NotImplemented

    def _without_masks(self, key: Any) -> tuple[Any, ...] | None:
        """Returns an index with the places of a mask for each mask; None if it has none."""
        keys = key if isinstance(key, tuple) else (key,)
        if not any(map(_is_mask, keys)):
            return None
        new: list[Any] = []
        for one in keys:
            new += self._places(one).unbind(1) if _is_mask(one) else [one]
        return tuple(new)

    def _set(self, x: torch.Tensor, key: Any, value: Any) -> Any:
        if isinstance(value, torch.Tensor) and value.dim() > 0:
            new = self._without_masks(key)
            if new is not None:
                x[new] = value
                return None
        return NotImplemented  # a number needs no places

    def take(self, function: Any, args: Any, kwargs: Any) -> Any:
        """Returns the result of a function that asks for values; NotImplemented for any other."""
        run = ASKING.get(function)
        if run is None or not args or not isinstance(args[0], FakeTensor):
            return NotImplemented
        ended = _ended.get()
        if (function in SCALAR and args[0].numel() != 1) or (ended is not None and ended()):
            return NotImplemented
        if function in SCALAR:
            with contextlib.suppress(DataDependentOutputException):
                return function(*args, **kwargs)  # of a constant
        return run(self, *args, **kwargs)


# Returns true if the code that runs now comes after all that a step computes, as metrics do: then values are refused. None: it does not.
_ended: contextvars.ContextVar[Callable[[], bool] | None] = contextvars.ContextVar("ended", default=None)


@contextlib.contextmanager
def until(ended: Callable[[], bool]) -> Iterator[None]:
    """While entered, values are given only before `ended` is true."""
    before = _ended.set(ended)
    try:
        yield
    finally:
        _ended.reset(before)


def _is_mask(x: Any) -> bool:
    return isinstance(x, FakeTensor) and x.dtype == torch.bool and x.dim() > 0


SCALAR = {
    torch.Tensor.__bool__, torch.Tensor.__int__, torch.Tensor.__index__, torch.Tensor.item, torch.Tensor.is_nonzero, torch.is_nonzero,
}  # fmt: skip
ASKING: dict[Any, Callable[..., Any]] = {
    torch.Tensor.__bool__: Decisions.truth,
    torch.is_nonzero: Decisions.truth,
    torch.Tensor.is_nonzero: Decisions.truth,
    torch.Tensor.__int__: Decisions.number,
    torch.Tensor.__index__: Decisions.number,
    torch.Tensor.item: Decisions._item,
    torch.equal: lambda d, a, b: d.truth((a == b).all()) if a.shape == b.shape else False,
    torch.allclose: lambda d, *args, **kwargs: d.truth(torch.isclose(*args, **kwargs).all()),
    torch.nonzero: Decisions._nonzero,
    torch.Tensor.nonzero: Decisions._nonzero,
    torch.argwhere: Decisions._nonzero,
    torch.Tensor.argwhere: Decisions._nonzero,
    torch.where: Decisions._where,
    torch.masked_select: Decisions._select,
    torch.Tensor.masked_select: Decisions._select,
    torch.Tensor.__getitem__: Decisions._index,
    torch.Tensor.__setitem__: Decisions._set,
}
