"""Captures forward, loss and gradients of a model as one graph, on fake tensors."""

from __future__ import annotations

import contextlib
import dataclasses
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn.utils.stateless import _reparametrize_module
from torch.utils import _pytree as pytree

from .graph import PACKAGES, CannotTrace, Graph, View, build_graph, mark_passes


@dataclasses.dataclass
class Capture:
    """A captured step. `graph` has as inputs: parameters, buffers, the batch's tensors; as outputs: the loss, the extras'
    leaves, and the gradient of each trainable parameter (None where it has none)."""

    graph: Graph
    parameters: list[tuple[str, nn.Parameter]]  # each once, in the order of named_parameters
    buffers: list[tuple[str, torch.Tensor]]
    trainable: list[int]  # positions in `parameters`
    leaves: list[Any]  # of the batch: a fake tensor, or a constant
    extras: Any  # tree of the extras, None where loss_fn gives the loss alone
    loss: View
    extra_views: list[Any]
    gradients: list[View | None]  # by `trainable`
    clip: View | None  # what gradients are multiplied by to clip their norm


def clip_coefficient(gradients: list[torch.Tensor], norm: float) -> torch.Tensor:
    """As torch.nn.utils.clip_grad_norm_."""
    total = torch.nn.utils.get_total_norm(gradients, 2.0)
    return torch.clamp(norm / (total + 1e-6), max=1.0)


def split(value: Any) -> tuple[Any, Any]:
    """(loss, extras) of what a loss_fn gives."""
    if isinstance(value, tuple) and len(value) == 2:
        return value
    return value, None


def _user_frame(error: BaseException) -> str:
    """The last line of the traceback that is not PyTorch's or ours."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if not any(root in f.filename for root in PACKAGES)]
    return f"{frames[-1].filename}, line {frames[-1].lineno}: {frames[-1].line}" if frames else "in the traced step"


@contextlib.contextmanager
def _explained() -> Iterator[None]:
    try:
        yield
    except CannotTrace:
        raise
    except torch._subclasses.fake_tensor.DataDependentOutputException as error:
        raise CannotTrace(
            f"{_user_frame(error)}\n  asks for the value of a tensor ({error.func}) while the step is captured. Control flow that hangs on data "
            "cannot be planned ahead: keep it in tensors (torch.where), or take it out of loss_fn."
        ) from error
    except torch._subclasses.fake_tensor.DynamicOutputShapeException as error:
        raise CannotTrace(
            f"{_user_frame(error)}\n  makes a tensor whose shape hangs on data ({error.func}). Neap plans for fixed shapes: use a mask instead."
        ) from error
    except Exception as error:
        raise CannotTrace(
            f"{_user_frame(error)}\n  cannot be captured: {type(error).__name__}: {error}\n  loss_fn has to run on torch's fake tensors: no .item(), "
            "no .numpy(), no custom autograd Function that leaves PyTorch. torch.compile(model, backend='neap') runs such parts eagerly."
        ) from error


def fake_mode_of(tensors: list[torch.Tensor]) -> FakeTensorMode:
    """The mode of the fake tensors among them, or a new one."""
    for t in tensors:
        if isinstance(t, FakeTensor):
            return t.fake_mode
    return FakeTensorMode(allow_non_fake_inputs=True)


def _fake(mode: FakeTensorMode, t: torch.Tensor, device: torch.device | None) -> torch.Tensor:
    if isinstance(t, FakeTensor):
        return t
    if t.device.type == "meta":
        with mode:
            return torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device=device or "cpu")
    if t.layout != torch.strided:
        raise CannotTrace(f"a {t.layout} tensor of shape {tuple(t.shape)} cannot be planned: only dense ones can")
    return mode.from_tensor(t.detach(), static_shapes=True)


@contextlib.contextmanager
def _plain_checkpoints() -> Iterator[None]:
    """torch.utils.checkpoint computes once while a step is captured: what is computed again is for Neap to say."""
    import torch.utils.checkpoint as checkpoint

    hook, function = checkpoint._checkpoint_hook, checkpoint.CheckpointFunction
    hook.__enter__, hook.__exit__ = lambda self: self, lambda self, *_: None
    apply = function.__dict__.get("apply")
    function.apply = staticmethod(lambda run, preserve, *args: run(*args))
    try:
        yield
    finally:
        del hook.__enter__, hook.__exit__
        if apply is None:
            del function.apply
        else:
            function.apply = apply


def _attributes(model: nn.Module) -> list[tuple[str, nn.Module, dict[str, Any]]]:
    """What modules hold beside parameters, buffers and modules."""
    return [
        (name, m, {k: v for k, v in m.__dict__.items() if not k.startswith("_")}) for name, m in model.named_modules()
    ]


def _restore_attributes(model: nn.Module, before: list[tuple[str, nn.Module, dict[str, Any]]]) -> list[str]:
    """Puts back what the captured step has set to fake tensors, and names it."""
    changed = []
    for name, module, held in before:
        for key, value in list(module.__dict__.items()):
            if isinstance(value, torch.Tensor) and held.get(key) is not value and not key.startswith("_"):
                changed.append(f"{name}.{key}".lstrip("."))
                if key in held:
                    module.__dict__[key] = held[key]
                else:
                    del module.__dict__[key]
    return changed


def unique_named(named: Any) -> list[tuple[str, Any]]:
    return [(name, t) for name, t in named if t is not None]


def trace_step(
    model: nn.Module,
    loss_fn: Callable[..., Any],
    batch: Any,
    *,
    divide: int = 1,
    clip_norm: float | None = None,
    device: torch.device | None = None,
    lines: bool = False,
) -> Capture:
    """Captures loss_fn(model, *batch), the loss divided by `divide`, its gradients, and where `clip_norm` is given what they
    are to be multiplied by. Changes nothing. lines: calls remember the user's lines, which takes a third longer."""
    parameters = unique_named(model.named_parameters())
    buffers = unique_named(model.named_buffers())
    leaves, tree = pytree.tree_flatten(batch)
    tensors = [t for _, t in (*parameters, *buffers)] + [x for x in leaves if isinstance(x, torch.Tensor)]
    _refuse(model, parameters, tensors)
    mode = fake_mode_of(tensors)
    trainable = [i for i, (_, p) in enumerate(parameters) if p.requires_grad]
    fakes = [_fake(mode, p, device) for _, p in parameters]
    fake_buffers = [_fake(mode, b, device) for _, b in buffers]
    fake_leaves = [_fake(mode, x, device) if isinstance(x, torch.Tensor) else x for x in leaves]
    inputs = [x for x in fake_leaves if isinstance(x, torch.Tensor)]
    found: dict[str, Any] = {}

    def joint(*flat: torch.Tensor) -> list[Any]:
        ps, rest = list(flat[: len(fakes)]), flat[len(fakes) :]
        bs, xs = rest[: len(fake_buffers)], iter(rest[len(fake_buffers) :])
        for i in trainable:
            ps[i].requires_grad_()
        named = {name: p for (name, _), p in zip(parameters, ps, strict=True)}
        named |= {name: b for (name, _), b in zip(buffers, bs, strict=True)}
        arguments = pytree.tree_unflatten([next(xs) if isinstance(x, torch.Tensor) else x for x in leaves], tree)
        with _reparametrize_module(model, named, tie_weights=True):
            with _plain_checkpoints():
                loss, extras = split(loss_fn(model, *arguments))
            now = dict(model.named_buffers())
            for name, _ in buffers:
                if now.get(name) is not named[name]:
                    raise TypeError(
                        f"buffer {name} is replaced by another tensor; change it in place (copy_, mul_, add_)"
                    )
            if not isinstance(loss, torch.Tensor) or loss.numel() != 1 or not loss.is_floating_point():
                raise TypeError(
                    f"loss_fn has to give a scalar tensor of a floating type (or (loss, extras)); it gave {_told(loss)}"
                )
            scaled = loss / divide if divide > 1 else loss
            wanted = [ps[i] for i in trainable]
            if not wanted or not scaled.requires_grad:
                raise TypeError("no parameter that requires a gradient takes part in the loss")
            with torch._C._DisableAutocast():  # the usual loop has autocast around the forward pass only
                gradients = torch.autograd.grad(scaled, wanted, allow_unused=True)
        gradients = [
            g if g is None or _in_order(g, p) else _in_order_of(g, p) for g, p in zip(gradients, wanted, strict=True)
        ]
        clip = [] if clip_norm is None else [clip_coefficient([g for g in gradients if g is not None], clip_norm)]
        flat_extras, found["extras"] = pytree.tree_flatten(extras)
        found["count"], found["has_extras"] = len(flat_extras), extras is not None
        flat_extras = [x.detach() if isinstance(x, torch.Tensor) else x for x in flat_extras]
        return [scaled.detach(), *flat_extras, *gradients, *clip]

    attributes = _attributes(model)
    changed: list[str] = []
    multithreading = torch.autograd.set_multithreading_enabled(False)
    with _explained(), mode, multithreading, torch.enable_grad(), torch.fx.traceback.preserve_node_meta():
        mode_before, mode.allow_non_fake_inputs = mode.allow_non_fake_inputs, True
        try:
            module = make_fx(joint, tracing_mode="real", record_stack_traces=lines)(*fakes, *fake_buffers, *inputs)
        finally:
            changed = _restore_attributes(model, attributes)
            mode.allow_non_fake_inputs = mode_before
            for p in fakes:
                p.requires_grad_(False)
    roles = (
        [("parameter", n) for n, _ in parameters]
        + [("state", n) for n, _ in buffers]
        + [("input", f"batch {i}") for i in range(len(inputs))]
    )
    if changed:
        raise CannotTrace(
            f"{changed[0]} is given a tensor in each step, which a captured step cannot do: register it as a buffer and change "
            "it in place (copy_), or return it from loss_fn as an extra"
        )
    known = {t.untyped_storage()._cdata for _, t in (*parameters, *buffers) if t.device.type != "meta"}
    for node in module.graph.nodes:
        constant = getattr(module, node.target) if node.op == "get_attr" else None
        if (
            isinstance(constant, torch.Tensor)
            and not isinstance(constant, FakeTensor)
            and constant.untyped_storage()._cdata in known
        ):
            raise CannotTrace(
                "the backward pass reads a parameter or buffer of the model beside the capture (a hook, reentrant recomputation)"
            )
    try:
        graph = build_graph(module, roles)
    except CannotTrace:
        if lines:
            raise
        return trace_step(model, loss_fn, batch, divide=divide, clip_norm=clip_norm, device=device, lines=True)
    outputs = graph.outputs
    extra = outputs[1 : 1 + found["count"]]
    mark_passes(graph, [o.tensor for o in outputs[: 1 + found["count"]] if isinstance(o, View)])
    return Capture(
        graph, parameters, buffers, trainable, fake_leaves, found["extras"] if found["has_extras"] else None,
        outputs[0], extra, outputs[1 + found["count"] :][: len(trainable)], None if clip_norm is None else outputs[-1],
    )  # fmt: skip


def _told(value: Any) -> str:
    return (
        f"a tensor of shape {tuple(value.shape)}, {value.dtype}"
        if isinstance(value, torch.Tensor)
        else f"a {type(value).__name__}"
    )


def _is_dense(t: torch.Tensor) -> bool:
    """Whether its elements fill a range of memory, each once, in some order of its dimensions."""
    expected = 1
    for stride, n in sorted((stride, n) for n, stride in zip(t.shape, t.stride(), strict=True) if n != 1):
        if stride != expected:
            return False
        expected *= n
    return True


def _in_order(gradient: torch.Tensor, parameter: torch.Tensor) -> bool:
    """Whether .backward() would keep the gradient as it lies: as the parameter does."""
    if not _is_dense(parameter):
        return gradient.is_contiguous()
    return all(n == 1 or a == b for n, a, b in zip(parameter.shape, gradient.stride(), parameter.stride(), strict=True))


def _in_order_of(gradient: torch.Tensor, parameter: torch.Tensor) -> torch.Tensor:
    if not _is_dense(parameter):
        return gradient.contiguous()
    return torch.empty_strided(parameter.shape, parameter.stride(), dtype=gradient.dtype, device=gradient.device).copy_(
        gradient
    )


def _refuse(model: nn.Module, parameters: list[tuple[str, nn.Parameter]], tensors: list[torch.Tensor]) -> None:
    if not isinstance(model, nn.Module):
        raise TypeError(f"the model has to be an nn.Module, not a {type(model).__name__}")
    devices = {t.device for t in tensors if t.device.type != "meta"}
    if len(devices) > 1:
        raise CannotTrace(
            f"parameters, buffers and batch lie on several devices ({', '.join(map(str, sorted(devices, key=str)))}): move them to one"
        )
    for name, p in parameters:
        if p._backward_hooks or getattr(p, "_post_accumulate_grad_hooks", None):
            raise CannotTrace(
                f"parameter {name} has a gradient hook; Neap makes gradients itself and would not call it: remove the hook"
            )
    for name, module in model.named_modules():
        if isinstance(module, nn.Embedding) and module.sparse:
            raise CannotTrace(
                f"{name} makes sparse gradients; only dense ones can be planned: nn.Embedding(..., sparse=False)"
            )
