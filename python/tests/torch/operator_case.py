"""What a row of the list of operators is made of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch


@dataclass(frozen=True)
class Operand:
    """A tensor that an operator reads. Floating-point ones are parameters, whose gradients are compared; others inputs."""

    shape: tuple[int, ...]
    make: Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]


def real(*shape: int) -> Operand:
    return Operand(shape, lambda random, s: random.standard_normal(s).astype(np.float32))


def between(lowest: float, highest: float, *shape: int) -> Operand:
    return Operand(shape, lambda random, s: random.uniform(lowest, highest, s).astype(np.float32))


def apart(*shape: int) -> Operand:
    """Of either sign, away from 0."""
    return Operand(
        shape, lambda random, s: (random.uniform(0.5, 2, s) * random.choice([-1.0, 1.0], s)).astype(np.float32)
    )


def these(*values: float) -> Operand:
    return Operand((len(values),), lambda random, s: np.array(values, np.float32))


def whole(lowest: int, highest: int, *shape: int) -> Operand:
    """Numbers of i32 from `lowest` up to, not including, `highest`."""
    return Operand(shape, lambda random, s: random.integers(lowest, highest, s).astype(np.int32))


def some(*values: int, shape: tuple[int, ...]) -> Operand:
    """Numbers of i32, each one of these."""
    return Operand(shape, lambda random, s: random.choice(np.array(values, np.int32), s).astype(np.int32))


def mask(*shape: int) -> Operand:
    """u8: 0, or one of two numbers that are not."""
    return Operand(shape, lambda random, s: random.choice(np.array([0, 1, 255], np.uint8), s, p=[0.5, 0.3, 0.2]))


def these_numbers(*values: int) -> Operand:
    return Operand((len(values),), lambda random, s: np.array(values, np.int32))


@dataclass(frozen=True)
class Case:
    name: str
    operands: tuple[Operand, ...]
    build: Callable[..., int]  # of the network and the operands
    # Of the operands and the parameters that the operator makes, in the order of the graph, as PyTorch tensors. None: the
    # operator is only evaluated.
    function: Callable[..., torch.Tensor] | None
    # Where evaluation is another function: of the running statistics too, which come last.
    evaluation: Callable[..., torch.Tensor] | None = None
    is_loss: bool = False  # the result is what is trained on, as it is

    def takes_images(self) -> bool:
        return any(len(operand.shape) == 4 for operand in self.operands)


def same(name: str, **options: Any) -> Callable[..., int]:
    """The operator of that name on all operands."""
    return lambda n, *operands: getattr(n, name)(*operands, **options)


def then(name: str, *arguments: Any) -> Callable[..., int]:
    """The operator of that name on all operands, with arguments behind them."""
    return lambda n, *operands: getattr(n, name)(*operands, *arguments)


LARGE = (3, 5, 47, 53)  # 37365 elements: threads take part
SHAPES = ((1,), (7,), (5, 13), (2, 3, 5, 7), LARGE)


def text(*parts: Any) -> str:
    return " ".join("x".join(map(str, p)) if isinstance(p, tuple) else str(p) for p in parts)


def described(options: dict[str, Any]) -> str:
    return " ".join(f"{name}={value}" for name, value in options.items())
