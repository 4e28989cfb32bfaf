"""Common parts of the trainers: a step over several batches, and the loss function of a trainer."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import dis
import inspect
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn
from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException
from torch.utils import _pytree as pytree

from ..batch import Parts, Structure
from ..compile_step import COUNT, CompiledStep, compile_step
from ..decisions import until
from ..graph import CannotTrace
from ..kinds import Kind
from ..swap import Holder, holders_of

OPTIONS = {
    p.name: p.default
    for p in inspect.signature(compile_step).parameters.values()
    if p.kind is p.KEYWORD_ONLY and p.name not in ("budget", "micro_batches", "batch_dim")
}
TIMERS = {"trl.extras.profiling"}  # modules that read the step's number for their own records alone
LARGE = 64  # a module's output of more elements than this times the batch's is not kept for metrics


@dataclasses.dataclass(frozen=True)
class Batches(Parts):
    """Several batches, each a part of one step."""

    number: int = 1

    def __len__(self) -> int:
        return self.number


class BatchesStep(CompiledStep):
    """A compiled step whose micro-batches are whole batches of any shapes. The caller gives the losses' weight."""

    def __init__(
        self,
        model: nn.Module,
        loss_fn: Callable[..., Any],
        optimizer: Any,
        budget: int | str,
        cut: bool,
        **options: Any,
    ):
        unknown = sorted(set(options) - set(OPTIONS))
        if unknown:
            raise TypeError(f"no option {unknown[0]}; the options are {', '.join(OPTIONS)}")
        super().__init__(
            model, loss_fn, optimizer, budget, micro_batches=2 if cut else 1, batch_dim=0, **{**OPTIONS, **options}
        )
        self.weight: float | int = 1

    def run(
        self, batches: list[tuple[Any, ...]], weight: float | int = 1, begins: bool = True, ends: bool = True, **named: Any
    ) -> list[Any]:  # fmt: skip
        """Runs one training step over all batches; returns the extras of each, as loss_fn returned them. The step trains on the
        sum of losses divided by weight. begins, ends: whether a step begins with the first batch, and ends with the last; else former
        calls gave the first ones, and later calls give the rest. Raises as compile_step."""
        with self.alone():
            self.weight, self.ends = weight, ends
            self.added = 0 if begins else self.added
            return self._on_its_way(lambda: self._run_all(batches, named))

    def _run_all(self, batches: list[tuple[Any, ...]], named: dict[str, Any]) -> list[Any]:
        apart = [self._taken_apart(batch, named) for batch in batches]
        structure, _, _, kind = apart[0]
        if any(other is not kind for *_, other in apart):
            raise CannotTrace(
                "the micro-batches of one step have different keys, types or settings; use batches of one kind"
            )
        leaves = [one for _, one, _, _ in apart]
        _, extras = self._run_alone(structure, leaves, Batches(None, len(leaves)), kind, None)
        return extras if self.micro_batches > 1 else [extras]

    def _taken_apart(self, batch: tuple[Any, ...], named: dict[str, Any]) -> tuple[Structure, list[Any], Parts, Kind]:
        cut, self.micro_batches = self.micro_batches, 1  # batches are not cut further
        try:
            return super()._taken_apart(batch, named)
        finally:
            self.micro_batches = cut

    def _part(self, leaves: list[Any], parts: Parts, i: int) -> list[Any]:
        return leaves[i] if isinstance(parts, Batches) else leaves

    def _weight(self, parts: Parts, i: int) -> float | int:
        return self.weight


# ---- Outputs of modules, kept for code that reads numbers ----


class Served:
    """Tensors that a captured step returns, and the function that makes the modules' outputs of them again."""

    def __init__(self, tensors: list[Any], make: Callable[[list[Any]], list[Any]] | None):
        self.tensors, self.make = tensors, make

    def outputs(self) -> list[Any]:
        return self.make(self.tensors) if self.make is not None else []


pytree.register_pytree_node(Served, lambda x: (x.tensors, x.make), lambda tensors, make: Served(list(tensors), make))


def _kept(value: Any, most: int) -> Any:
    """Returns a module's output without parts that are too large or of unknown types: they become None or are removed."""
    if isinstance(value, torch.Tensor):
        return value if value.numel() <= most else None
    if isinstance(value, dict):
        new = copy.copy(value)
        for key, inner in list(value.items()):
            kept = _kept(inner, most)
            if kept is None and inner is not None and hasattr(new, key):
                dict.pop(new, key)
                object.__setattr__(new, key, None)
            elif kept is None and inner is not None:
                dict.pop(new, key)
            elif kept is not inner:
                new[key] = kept
        return new
    if isinstance(value, (list, tuple)) and not hasattr(value, "_make"):
        return type(value)([_kept(inner, most) for inner in value])
    try:
        Structure(value)
    except TypeError:
        return None
    return value


def _served(outputs: list[Any], most: int) -> Served:
    structure = Structure([_kept(x, most) for x in outputs])
    places = [i for i, x in enumerate(structure.leaves) if isinstance(x, torch.Tensor)]
    leaves = [None if isinstance(x, torch.Tensor) else x for x in structure.leaves]
    tensors = [structure.leaves[i] for i in places]

    def make(values: list[Any]) -> list[Any]:
        filled = list(leaves)
        for i, value in zip(places, values, strict=True):
            filled[i] = value
        return structure.fill(filled)

    return Served(tensors, make)


class _Calls:
    """While entered, outermost calls of modules go through `instead`."""

    def __init__(self, instead: Callable[[Callable[..., Any], nn.Module, Any, Any], Any]):
        self.instead, self.depth = instead, 0

    def __enter__(self) -> _Calls:
        self.before = before = nn.Module.__call__

        def call(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
            if self.depth:
                return before(module, *args, **kwargs)
            self.depth += 1
            try:
                return self.instead(before, module, args, kwargs)
            finally:
                self.depth -= 1

        nn.Module.__call__ = call
        return self

    def __exit__(self, *_: Any) -> None:
        nn.Module.__call__ = self.before


Frames = list[tuple[types.FrameType, int]]  # with the instruction at which each is; the innermost is the last


def _frames_of(traceback: Any) -> Frames:
    frames: Frames = []
    while traceback is not None:
        frames.append((traceback.tb_frame, traceback.tb_lasti))
        traceback = traceback.tb_next
    return frames


def _frames_inside(outer: types.FrameType) -> Frames:
    """Returns the frames that `outer` has called and that run now."""
    frames: Frames = []
    frame = sys._getframe()
    while frame is not None and frame is not outer:
        frames.insert(0, (frame, frame.f_lasti))
        frame = frame.f_back
    return frames


def _loss_in(frames: Frames) -> torch.Tensor | None:
    """Returns the variable `loss` of the innermost function that has one; None if a later line of it assigns to `loss`, or in a module's
    call."""
    found = None
    for frame, at in frames:
        if frame.f_code is nn.Module._call_impl.__code__:
            return None
        value = frame.f_locals.get("loss")
        if isinstance(value, torch.Tensor) and value.numel() == 1 and value.requires_grad:
            later = (i for i in dis.get_instructions(frame.f_code) if i.offset > at and i.opname.startswith("STORE"))
            found = None if any(i.argval == "loss" for i in later) else value
    return found


class Unsteady:
    """Replaces an object of a trainer while a step is captured. Refuses reads of attributes that change from step to step."""

    def __init__(self, inner: Any, name: str, names: frozenset[str]):
        self.__dict__.update(_inner=inner, _name=name, _names=names)

    def __getattr__(self, key: str) -> Any:
        if key in self._names and sys._getframe(1).f_globals.get("__name__") not in TIMERS:
            raise CannotTrace(
                f"the loss reads {self._name}.{key}, which changes from step to step and would become a constant; give it in the batch as a tensor"
            )
        return getattr(self._inner, key)

    def __setattr__(self, key: str, value: Any) -> None:
        setattr(self._inner, key, value)


class TrainersLoss:
    """The loss function of a trainer. `settings` are watched as constants of a captured step, beside what the user's own code reads.

    Code that reads numbers from tensors (`.item()`, `if count > 0`) after the loss is known, as metrics do, is not captured: it runs
    after each step, on the outputs of modules in that step (`after`), and so is all of it where it only keeps a number that it reads before. If
    it computes with such a number, the step is refused. What `compute` changes
    in the trainer's attributes and containers is put back after a capture, and done once by each step."""

    __slots__ = ("__dict__", "compute", "eagerly")

    def __init__(self, compute: Callable[..., torch.Tensor], eagerly: Callable[[], Any], trainer: Any = None):
        """compute(model, batch, **named): returns the loss. eagerly(): returns a context, which is entered while it is captured."""
        self.compute, self.eagerly, self.trainer = compute, eagerly, trainer
        self.settings: dict[str, Any] = {}

    def set(self, settings: dict[str, Any], facts: tuple[bool, bool]) -> None:
        """Sets numbers and texts of the trainer, and facts of the batch's masks (mask_facts)."""
        settings = settings | {"masks are full": facts[0], "rows are packed": facts[1]}
        if list(settings) != list(self.settings):
            self.settings.clear()
        self.settings.update(settings)

    def holders(self) -> list[Holder]:
        """Returns the holders of what `compute` may change in the trainer."""
        return holders_of("trainer", vars(self.trainer), 2) if self.trainer is not None else []

    def __call__(self, model: nn.Module, batch: Any, **named: Any) -> tuple[torch.Tensor, dict[str, Any]]:
        outputs: list[Any] = []
        holders = self.holders()

        def keep(call: Callable[..., Any], module: nn.Module, args: Any, kwargs: Any) -> Any:
            result = call(module, *args, **kwargs)
            outputs.append(result)
            return result

        stopped, here = None, sys._getframe()
        ended = lambda: _loss_in(_frames_inside(here)) is not None  # noqa: E731
        with self.eagerly(), _Calls(keep), until(ended):
            try:
                loss = self.compute(model, batch, **named)
            except (DataDependentOutputException, DynamicOutputShapeException) as error:
                loss = _loss_in(_frames_of(error.__traceback__))
                if loss is None:
                    raise
                stopped = error
        again = stopped is not None or any(h.keeps_number() for h in holders)
        for holder in holders if again else ():  # `after` does all of it
            holder.set(holder.found)
        sizes = [x.numel() for x in Structure((batch,)).leaves if isinstance(x, torch.Tensor)]
        most = LARGE * max(sizes, default=1)
        served = _served(outputs, most) if again else Served([], None)
        return loss, {"loss": loss, "served": served}

    def after(self, model: nn.Module, batch: Any, extras: dict[str, Any], **named: Any) -> None:
        """Runs all of `compute` again, with the modules' outputs of the step, for the code that was not captured. Raises CannotTrace."""
        served = extras["served"]
        if served.make is None:
            return
        outputs = iter(served.outputs())

        def serve(_call: Any, module: nn.Module, _args: Any, _kwargs: Any) -> Any:
            try:
                return next(outputs)
            except StopIteration:
                raise CannotTrace(
                    f"{type(module).__name__} is called after the loss is known and numbers are read, where Neap cannot run it; call it before"
                ) from None

        with torch.no_grad(), torch.random.fork_rng(devices=[]), _Calls(serve):
            loss = self.compute(model, batch, **named)
        if not torch.allclose(loss.float(), extras["loss"].float(), rtol=1e-3, atol=1e-6, equal_nan=True):
            raise CannotTrace(
                f"the loss depends on numbers that are read from tensors: {float(loss):.6g} is returned, but the step trained on "
                f"{float(extras['loss']):.6g}, the loss when the first number was read; keep it in tensors (torch.where)"
            )


# ---- transformers ----


def mask_facts(batch: Any) -> tuple[bool, bool]:
    """Returns the facts of a batch by which transformers chooses the kernel of attention: whether no mask has padding, and whether a
    row holds the positions of several sequences."""
    full, packed = True, False
    for name, x in batch.items() if hasattr(batch, "items") else ():
        if isinstance(x, torch.Tensor) and name.endswith("attention_mask") and x.dim() == 2:
            full = full and bool((x != 0).all())
        if isinstance(x, torch.Tensor) and name == "position_ids" and x.dim() == 2:
            packed = packed or bool((x[:, 1:] - x[:, :-1] != 1).any())
    return full, packed


@contextlib.contextmanager
def masks_as_eager(full: bool, packed: bool) -> Iterator[None]:
    """While entered, transformers chooses attention's kernels as in eager training, by the facts of the batch, so that the bits are
    the same. It cannot read masks that are fake tensors."""
    masking = sys.modules.get("transformers.masking_utils")
    if masking is None:
        yield
        return
    without = lambda run: lambda padding_mask, *a, **k: run(None if full else padding_mask, *a, **k)  # noqa: E731
    changes: dict[str, Any] = {}
    for name in ("_ignore_causal_mask_sdpa", "_ignore_bidirectional_mask_sdpa"):
        if hasattr(masking, name):
            changes[name] = without(getattr(masking, name))
    find = getattr(masking, "find_packed_sequence_indices", None)
    if find is not None:
        changes["find_packed_sequence_indices"] = lambda position_ids: find(position_ids) if packed else None
    before = {name: getattr(masking, name) for name in changes}
    for name, value in changes.items():
        setattr(masking, name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(masking, name, value)


__all__ = ["COUNT", "BatchesStep", "TrainersLoss", "Unsteady", "mask_facts", "masks_as_eager"]
