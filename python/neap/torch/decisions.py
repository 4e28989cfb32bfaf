"""Branches of a step by the values of tensors: a capture takes one way, each step checks that it takes the same, and captures another if not.

A capture has no values. Where code asks for one (`if mask.any():`, `x[mask]`), it gets what the last step had there, or a guess. The captured
call that checks the answer comes before everything that the step changes, so a step that would go another way has changed nothing."""

from __future__ import annotations

import contextlib
import contextvars
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from .graph import PACKAGES

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

    def _truth(self, value: torch.Tensor) -> bool:
        if self.way not in self.known:
            self.guessed.append(self.way)
        way, answer = self._answer(int(self.way in self.turned))
        decide(value.detach(), way, answer, True)
        return bool(answer)

    def _number(self, value: torch.Tensor) -> int:
        way, answer = self._answer(1)
        decide(value.detach(), way, answer, False)
        return answer

    def _places(self, mask: torch.Tensor) -> torch.Tensor:
        way, answer = self._answer(self.counts.get(mask.shape, mask.numel()))
        self.counts[mask.shape] = answer
        return nonzero(mask.detach(), way, answer)

    def _item(self, value: torch.Tensor) -> Any:
        if value.dtype == torch.bool:
            return self._truth(value)
        return NotImplemented if value.is_floating_point() or value.is_complex() else self._number(value)

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
        return run(self, *args, **kwargs)


# Whether the code that runs now asks for values after all that a step computes, as metrics do: then they are refused.
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
    torch.Tensor.__bool__: Decisions._truth,
    torch.is_nonzero: Decisions._truth,
    torch.Tensor.is_nonzero: Decisions._truth,
    torch.Tensor.__int__: Decisions._number,
    torch.Tensor.__index__: Decisions._number,
    torch.Tensor.item: Decisions._item,
    torch.equal: lambda d, a, b: d._truth((a == b).all()) if a.shape == b.shape else False,
    torch.allclose: lambda d, *args, **kwargs: d._truth(torch.isclose(*args, **kwargs).all()),
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
