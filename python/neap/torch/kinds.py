"""Kinds of batches, which differ in their shapes only, and the captured steps of each kind."""

from __future__ import annotations

import collections
import dataclasses
from typing import Any

import torch

from .batch import is_number
from .captured import Steps
from .family import Fit, Shapes, between, moving
from .reads import Reads
from .swap import Left
from .watch import ENOUGH, Watch

ATTENTION_KERNELS = (  # the kernels that scaled_dot_product_attention may choose
    torch.backends.cuda.flash_sdp_enabled,
    torch.backends.cuda.mem_efficient_sdp_enabled,
    torch.backends.cuda.math_sdp_enabled,
    torch.backends.cuda.cudnn_sdp_enabled,
)


@dataclasses.dataclass(frozen=True)
class Place:
    """The batch of a captured step, within its kind: shapes and strides of its tensors, the weight of a part's loss, and its numbers
    (none if each step passes its own)."""

    shapes: Shapes
    strides: Shapes
    weight: float | int
    numbers: tuple[int | float, ...]

    def free(self) -> Place:
        return dataclasses.replace(self, numbers=())


class Kind:
    """Batches that differ in their shapes only, while what the captured code read from Python is the same."""

    def __init__(self, key: Any, signature: list[Any]):
        self.key, self.signature = key, signature
        self.reads = Reads()  # of all captures
        self.watch: Watch | None = None  # of what they read; None before the first
        self.runs = 0
        self.ran = False  # whether a step of this kind has come to its end
        self.traced: dict[Place, Any] = {}  # captures that were compared with those of other kinds, and are this one's
        # The changes of what is watched that left the capture at one place the same; the number of them at which the capture at
        # each place was compared.
        self.changes, self.compared = 0, {}
        self.changed_often: collections.Counter[str] = collections.Counter()  # holders of libraries
        self.steps: dict[str, Steps] = {}  # by skeleton
        self.captured: dict[Place, tuple[Steps, list[Any]]] = {}
        self.left: dict[Place, list[Left]] = {}  # what a captured step leaves behind in the user's objects
        self.fits: dict[Any, tuple[int, Fit | None]] = {}
        self.unforeseen: list[Place] = []
        self.unproven: set[Steps] = set()  # their calls depend on the batch's numbers

    def clear(self) -> None:
        """Forgets all captures."""
        for held_here in (self.steps, self.captured, self.left, self.fits, self.unproven, self.traced, self.compared):
            held_here.clear()

    def look(self, watch: Watch) -> None:
        """Takes what is there now for what captures read. After ENOUGH changes that no capture showed, holders of libraries are not watched."""
        if self.watch is not None:
            self.changed_often.update(watch.changed_in_libraries(self.watch))
            self.reads.ignored |= {name for name, times in self.changed_often.items() if times >= ENOUGH}
        self.watch = watch

    def is_current(self, place: Place) -> bool:
        """Returns whether the capture at a place was made or compared since something changed last."""
        return not self.changes or self.changes in (self.compared.get(place.free()), self.compared.get(place))

    def add(self, place: Place, steps: Steps, vector: list[Any]) -> None:
        """Adds a capture. vector: the numbers of its calls."""
        if steps.given:
            place, vector = place.free(), steps.with_numbers(vector, steps.first_numbers)
        self.captured[place] = steps, vector

    def free(self, steps: Steps) -> None:
        """From now on, each step of `steps` passes its own numbers."""
        captured, self.captured = self.captured, {}
        self.fits.clear()
        for place, (of, vector) in captured.items():
            if of is steps:
                self.add(place, of, vector)
            else:
                self.captured[place] = of, vector

    def find(self, place: Place) -> tuple[Steps, list[Any]] | None:
        """Returns the steps and the vector of a place that was captured or is between captured ones; tries it without numbers first."""
        found = self._find(place.free()) if place.numbers else None
        return found if found is not None else self._find(place)

    def _find(self, place: Place) -> tuple[Steps, list[Any]] | None:
        found = self.captured.get(place)
        if found is not None:
            return found
        lines: dict[Any, dict[int, tuple[Steps, list[Any]]]] = {}
        for other, held_there in self.captured.items():
            alike = other.weight == place.weight and other.numbers == place.numbers
            where = moving(other.shapes, place.shapes) if alike else ()
            if where:
                i, d = where[0]
                lines.setdefault(where, {})[other.shapes[i][d]] = held_there
        for where, points in lines.items():
            i, d = where[0]
            found = self._between(where, points, place, place.shapes[i][d])
            if found is not None:
                return found
        return None

    def _between(
        self, where: Any, points: dict[int, tuple[Steps, list[Any]]], place: Place, length: int
    ) -> tuple[Steps, list[Any]] | None:
        below = max((n for n in points if n < length), default=None)
        above = min((n for n in points if n > length), default=None)
        if below is None or above is None or points[below][0] is not points[above][0]:
            return None
        steps = points[below][0]
        own = {n: vector for n, (s, vector) in points.items() if s is steps}
        rest = tuple(tuple(n for d, n in enumerate(s) if (i, d) not in where) for i, s in enumerate(place.shapes))
        key = (steps.numbers.skeleton, where, rest, place.weight, place.numbers, below, above)
        if key not in self.fits or self.fits[key][0] != len(own):
            self.fits[key] = len(own), between(own, length)
        found = self.fits[key][1]
        vector = found.at(length) if found is not None else None
        if vector is None or not steps.lies_as(vector, place.shapes, place.strides):
            return None
        return steps, vector


def place_of(leaves: list[Any], weight: float | int) -> Place:
    tensors = [x for x in leaves if isinstance(x, torch.Tensor)]
    shapes, strides = tuple(tuple(t.shape) for t in tensors), tuple(tuple(t.stride()) for t in tensors)
    return Place(shapes, strides, weight, tuple(filter(is_number, leaves)))


def leaf_of(x: Any) -> Any:
    """Returns the part of the kind's key that a leaf of the batch contributes."""
    if isinstance(x, torch.Tensor):
        return type(x), x.dim(), x.dtype, x.device, x.requires_grad
    if is_number(x):
        return (type(x),)
    return type(x), x if not isinstance(x, slice) else repr(x)


def modes() -> tuple[Any, ...]:
    """Returns the settings of PyTorch on which captured calls depend."""
    return (
        tuple((d, torch.get_autocast_dtype(d)) for d in ("cpu", "cuda") if torch.is_autocast_enabled(d)),
        torch.get_num_threads(), torch.get_default_dtype(), torch.are_deterministic_algorithms_enabled(),
        torch.backends.mkldnn.enabled, torch.get_float32_matmul_precision(), torch.backends.cudnn.enabled,
        *(enabled() for enabled in ATTENTION_KERNELS),
    )  # fmt: skip
