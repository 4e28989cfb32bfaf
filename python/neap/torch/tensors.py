"""The tensors of a captured step that exist before it: the model's parameters and buffers, then those outside the model."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from .graph import CannotTrace
from .swap import Kept, Outside

PLAIN = (torch.Tensor, nn.Parameter, FakeTensor)  # types without inner tensors
Named = list[tuple[str, torch.Tensor]]


@dataclasses.dataclass
class Whole:
    """A tensor subclass, made of its inner plain tensors."""

    kind: type
    context: Any
    size: Any
    stride: Any
    inner: list[tuple[str, Any]]  # (attribute, position of a plain tensor, or a Whole)

    def of(self, plain: list[torch.Tensor]) -> torch.Tensor:
        parts = {key: x.of(plain) if isinstance(x, Whole) else plain[x] for key, x in self.inner}
        return self.kind.__tensor_unflatten__(parts, self.context, self.size, self.stride)


def plain_named(named: Any) -> tuple[list[tuple[str, torch.Tensor]], list[tuple[str, Any]]]:
    """Returns the plain tensors inside named tensors, and for each name its position among them or a Whole. Raises CannotTrace."""
    plain: list[tuple[str, torch.Tensor]] = []
    places: list[tuple[str, Any]] = []

    def take(name: str, t: torch.Tensor) -> Any:
        if type(t) in (torch.Tensor, nn.Parameter) or not is_traceable_wrapper_subclass(t):
            plain.append((name, t))
            return len(plain) - 1
        if type(t).__name__ == "DTensor":
            raise CannotTrace(
                f"{name} is a DTensor, divided among processes, and compile_step runs in one process; use the backend of torch.compile"
            )
        if t.requires_grad and t.is_floating_point() and isinstance(t, nn.Parameter):
            raise CannotTrace(
                f"{name}: only plain tensors can be trained (got a {type(t).__name__}); call requires_grad_(False) on it"
            )
        keys, context = t.__tensor_flatten__()
        return Whole(
            type(t), context, t.size(), t.stride(), [(key, take(f"{name}.{key}", getattr(t, key))) for key in keys]
        )

    for name, t in named:
        if t is not None:
            places.append((name, take(name, t)))
    return plain, places


class Tensors:
    """Parameters and buffers of a step. outside: slots whose tensors belong to it, whether it reads them or not. trained, changed: ids of
    tensors outside the model that are trained or changed in place. Other tensors of modules outside belong to it until `drop`."""

    def __init__(self, model: nn.Module, kept: Kept, outside: list[Outside], trained: set[int], changed: set[int]):
        self.trained, self.fixed = trained, outside
        self.whole = list(model.named_parameters()), list(model.named_buffers())
        plain = [plain_named(named) for named in self.whole]
        self.places = [[place for _, place in places] for _, places in plain]
        self.own = [len(named) for named, _ in plain]  # how many are the model's
        own = [t for named, _ in plain for _, t in named]
        devices = {t.device for t in own}

        def is_like(t: torch.Tensor) -> bool:
            return type(t) in PLAIN and t.layout == torch.strided and t.device in devices and not t.is_nested

        taken = {id(t) for t in own} | {id(slot.tensor()) for slot in outside}
        more = [slot for slot in kept.outside(taken, trained, changed) if is_like(slot.tensor())]
        more.sort(key=lambda slot: id(slot.tensor()) not in trained)  # these stay, and so do their positions
        self.slots = [*outside, *more]
        self.parameters, self.buffers = (
            named + [(slot.name, slot.tensor()) for slot in self.slots if slot.buffer == buffer]
            for (named, _), buffer in zip(plain, (False, True), strict=True)
        )

    def all(self) -> Named:
        return [*self.parameters, *self.buffers]

    def may_train(self) -> list[int]:
        """Returns the positions of the model's parameters, and of others that are trained."""
        return [i for i, (_, p) in enumerate(self.parameters) if i < self.own[0] or id(p) in self.trained]

    def instead(self, parameters: list[torch.Tensor], buffers: list[torch.Tensor]) -> dict[int, torch.Tensor]:
        """Returns id of a tensor of the user's -> the tensor that takes its place, of these in the order of all."""
        found = {}
        groups = (parameters, self.parameters), (buffers, self.buffers)
        for whole, places, own, (fakes, named) in zip(self.whole, self.places, self.own, groups, strict=True):
            for (_, t), place in zip(whole, places, strict=True):
                found[id(t)] = place.of(fakes) if isinstance(place, Whole) else fakes[place]
            found |= {id(t): fake for (_, t), fake in zip(named[own:], fakes[own:], strict=True)}
        return found

    def replaced_buffer(self, model: nn.Module, instead: dict[int, torch.Tensor]) -> str | None:
        """Returns the name of a buffer in whose slot there is another tensor than the one that took its place."""
        now = dict(model.named_buffers())
        rows = [(name, t, now.get(name)) for name, t in self.whole[1]]
        rows += [
            (n, t, slot.tensor()) for (n, t), slot in zip(self.buffers[self.own[1] :], self._slots(True), strict=True)
        ]
        return next((name for name, t, there in rows if there is not instead[id(t)]), None)

    def drop_unread(self, module: torch.fx.GraphModule) -> None:
        """Removes the tensors of other modules that a traced step does not read, and their placeholders."""
        nodes = iter([node for node in module.graph.nodes if node.op == "placeholder"])
        kept: tuple[Named, Named] = [], []
        slots: list[Outside] = []
        for named, own, buffer, stay in zip(
            (self.parameters, self.buffers), self.own, (False, True), kept, strict=True
        ):
            for pair, slot, node in zip(named, [*[None] * own, *self._slots(buffer)], nodes, strict=False):
                if slot is None or slot in self.fixed or id(pair[1]) in self.trained or node.users:
                    stay.append(pair)
                    slots += [slot] if slot is not None else []
                else:
                    module.graph.erase_node(node)
        self.parameters, self.buffers = kept
        self.slots = slots

    def _slots(self, buffer: bool) -> list[Outside]:
        return [slot for slot in self.slots if slot.buffer == buffer]


def leaves_besides(known: list[torch.Tensor], result: torch.Tensor) -> list[torch.Tensor]:
    """Returns the leaves, but for those known, to which a backward pass from a result gives gradients."""
    found = {id(t): t for t in known}
    seen: set[Any] = set()
    waiting = [result.grad_fn]
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if type(node).__name__ == "AccumulateGrad":
            found.setdefault(id(node.variable), node.variable)
        waiting += [inner for inner, _ in node.next_functions]
    return list(found.values())[len(known) :]
