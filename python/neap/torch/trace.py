"""Captures forward, loss and gradients of a model as one graph, on fake tensors."""

from __future__ import annotations

import contextlib
import dataclasses
import random
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator
from typing import Any
from unittest import mock

import numpy
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree

from . import eager_formulas, measure
from .batch import Structure, Sum
from .decisions import Decided, Decisions, Number
from .family import same_calls
from .graph import (
    PACKAGES,
    CannotTrace,
    ChangesConstant,
    Graph,
    View,
    build_graph,
    is_random,
    mark_passes,
    unread_by,
    user_line,
    written,
)
from .head import chunked_head
from .interrupts import Interrupts
from .reads import Reads
from .swap import Kept, Left, Outside, bears_fake
from .tensors import PLAIN, Tensors, leaves_besides

# Lazy conjugates and negatives, whose memory has other bits than their values, and tangents of zeros without memory are made real.
PHYSICAL = {
    torch.ops.aten._conj.default: torch.ops.aten._conj_physical.default,
    torch.ops.aten._neg_view.default: torch.ops.aten.neg.default,
    torch.ops.aten._efficientzerotensor.default: torch.ops.aten.zeros.default,
}


@dataclasses.dataclass
class Capture:
    """A captured step. Inputs of `graph`: parameters, buffers, the batch's tensors. Outputs: the loss, the count of a Sum, the
    extras' leaves, the tensors of `left`, and the gradient of each trainable parameter (None if it has no gradient)."""

    graph: Graph
    parameters: list[
        tuple[str, torch.Tensor]
    ]  # each once, in the order of named_parameters; a subclass's inner tensors
    buffers: list[tuple[str, torch.Tensor]]
    trainable: list[int]  # positions in `parameters`
    extras: Any  # tree of the extras; None: loss_fn returns the loss alone
    loss: View
    count: View | None  # of a Sum whose batch is cut: divides the loss and the gradients at the end of the step
    extra_views: list[Any]
    gradients: list[View | None]  # by `trainable`
    completed: list[int]  # positions in `parameters`, in the order in which their gradients are complete
    clip: View | None  # factor of the gradients that clips their norm
    norm: View | None  # of the gradients, before clipping
    outside: list[Outside]  # slots of the last of `parameters` and `buffers`, which are not the model's
    left: list[Left]  # what each step leaves behind in the user's objects
    reads: Reads  # the functions that ran


SEEDS = (
    "loss_fn sets torch's seed or a random state (manual_seed, set_rng_state, fork_rng), which a captured step cannot repeat: do it before "
    "the step, or draw there and pass the result to loss_fn as a tensor"
)


def clip_coefficient(total: torch.Tensor, norm: float) -> torch.Tensor:
    """Returns the factor of the gradients for their total norm, as torch.nn.utils.clip_grad_norm_."""
    return torch.clamp(norm / (total + 1e-6), max=1.0)


def split(value: Any) -> tuple[Any, Any]:
    """Returns (loss, extras) of the result of a loss_fn."""
    if isinstance(value, tuple) and len(value) == 2:
        return value
    return value, None


def _user_frame(error: BaseException) -> str:
    """Returns the last line of the traceback that is neither PyTorch's nor Neap's."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if not any(root in f.filename for root in PACKAGES)]
    return f"{frames[-1].filename}, line {frames[-1].lineno}: {frames[-1].line}" if frames else "in the traced step"


@contextlib.contextmanager
def _explained() -> Iterator[None]:
    try:
        yield
    except ChangesConstant as error:
        raise ChangesConstant(error.target, error.tensor, _user_frame(error)) from error
    except (CannotTrace, Decided):
        raise
    except torch._subclasses.fake_tensor.DataDependentOutputException as error:
        raise CannotTrace(
            f"{_user_frame(error)}\n  asks for the value of a tensor ({error.func}) while the step is captured. Control flow that depends on data "
            "cannot be planned; keep it in tensors (torch.where), or compute it before the step and pass it to loss_fn."
        ) from error
    except torch._subclasses.fake_tensor.DynamicOutputShapeException as error:
        raise CannotTrace(
            f"{_user_frame(error)}\n  makes a tensor whose shape depends on data ({error.func}). Neap plans for fixed shapes; use a mask, or compute it before "
            "the step and pass it to loss_fn."
        ) from error
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        own = frames and not any(root in frames[-1].filename for root in PACKAGES)
        if own and (frames[-1].line or "").startswith(("raise", "assert")):
            raise  # the user's own code raised it
        raise CannotTrace(
            f"{_user_frame(error)}\n  cannot be captured: {type(error).__name__}: {error}\n  If it fails without Neap too, the "
            "program must be corrected there. Otherwise, loss_fn must run on PyTorch's fake tensors: without .numpy(), and without a custom autograd "
            "Function that leaves PyTorch. torch.compile(model, backend='neap') runs such parts eagerly."
        ) from error


# Results of real calls where fake tensors are wrong: key of the call -> position -> (size, strides, type).
known_results: dict[str, dict[int, tuple[list[int], list[int], str]]] = {}


def learn(wrong: measure.FakeIsWrong) -> None:
    """Keeps what a call really gives, for the next capture. Raises CannotTrace if that is known already."""
    if wrong.key in known_results:
        raise CannotTrace(str(wrong)) from wrong
    known_results[wrong.key] = wrong.real


def _each_once(result: Any) -> Any:
    """Returns a call's results without one tensor at two places: PyTorch's cache of fake tensors gives two, a call that misses it one (a
    recurrent layer's two gradients of biases), and captures of one step must be equal."""
    if not isinstance(result, (list, tuple)):
        return result
    seen: set[int] = set()
    tensors = []
    for x in result:
        tensors.append(torch.empty_like(x) if isinstance(x, FakeTensor) and id(x) in seen else x)
        seen.add(id(x))
    return type(result)(tensors) if len(seen) < len(tensors) else result


def _as_known(mode: FakeTensorMode, func: Any, args: Any, kwargs: Any, result: Any) -> Any:
    result = _each_once(result)
    if not known_results:
        return result
    skipped = unread_by(func, args)  # as in a captured call
    read = tuple(None if i in skipped else x for i, x in enumerate(args))
    real = known_results.get(measure.key_of(func, read, kwargs))
    if real is None:
        return result
    several = isinstance(result, (list, tuple))
    tensors = list(result) if several else [result]
    for i, (size, stride, dtype) in real.items():
        if isinstance(tensors[i], torch.Tensor):
            with mode:
                tensors[i] = torch.empty_strided(size, stride, dtype=getattr(torch, dtype), device=tensors[i].device)
    return type(result)(tensors) if several else tensors[0]


class _FakeMode(FakeTensorMode):
    """Fake tensors with the layouts that real ones were seen to have."""

    draws = 0  # random calls so far

    def dispatch(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.draws += is_random(func)
        real = next((t for t in written(func, args, kwargs or {}) if not isinstance(t, FakeTensor)), None)
        if real is not None:  # PyTorch would change it now
            raise ChangesConstant(str(func), real)
        return _as_known(self, func, args, kwargs or {}, super().dispatch(func, types, args, kwargs or {}))


@contextlib.contextmanager
def all_as_known() -> Iterator[None]:
    """Fake tensors of every mode lie as real ones were seen to: torch.compile makes its own."""
    usual = FakeTensorMode.dispatch

    def dispatch(mode: FakeTensorMode, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _as_known(mode, func, args, kwargs or {}, usual(mode, func, types, args, kwargs or {}))

    FakeTensorMode.dispatch = dispatch
    try:
        yield
    finally:
        FakeTensorMode.dispatch = usual


def fake_mode_of(tensors: list[torch.Tensor]) -> FakeTensorMode:
    """Returns the mode of the fake tensors among `tensors`, or a new one."""
    for t in tensors:
        if isinstance(t, FakeTensor):
            return t.fake_mode
    return _FakeMode(allow_non_fake_inputs=True)


def _fake(mode: FakeTensorMode, t: torch.Tensor, device: torch.device | None) -> torch.Tensor:
    if isinstance(t, FakeTensor):
        return t
    if t.device.type == "meta":
        with mode:
            return torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device=device or "cpu")
    if t.layout != torch.strided:
        raise CannotTrace(
            f"only dense tensors can be planned (got {t.layout}, shape {tuple(t.shape)}): convert it with .to_dense()"
        )
    return mode.from_tensor(t.detach(), static_shapes=True)


def _alone(mode: FakeTensorMode, t: torch.Tensor, device: torch.device | None) -> torch.Tensor:
    """Returns a fake tensor of the batch in memory of its own: in another step it may share its memory with others, or not."""
    if type(t) is not torch.Tensor or t.device.type == "meta" or t.layout != torch.strided or t.is_conj() or t.is_neg():
        return _fake(mode, t, device)
    with mode:
        return torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device=t.device)


class _Materialize(torch.autograd.Function):
    """The identity. A missing gradient becomes zeros if another result has one, as in reentrant checkpointing."""

    @staticmethod
    def forward(ctx: Any, *values: Any) -> Any:
        return values

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return gradients


class _Summed(torch.autograd.Function):
    """The identity. The gradients that come from one place are added before those from others, as reentrant checkpointing does."""

    @staticmethod
    def forward(ctx: Any, value: torch.Tensor) -> torch.Tensor:
        return value.view_as(value)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        return gradient


def _reentrant(run: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    """Returns the results of reentrant checkpointing: if no argument requires a gradient, nothing inside does."""
    if not any(isinstance(x, torch.Tensor) and x.requires_grad for x in args):
        with torch.no_grad():
            return run(*args)
    args = tuple(_Summed.apply(x) if isinstance(x, torch.Tensor) and x.requires_grad else x for x in args)
    return _materialized(run(*args))


_RECURRENT = (torch.lstm, torch.gru, torch.rnn_tanh, torch.rnn_relu)


class _Watch(torch.overrides.TorchFunctionMode):
    """Refuses changes of a tensor that no operator of a trace shows, and has functions run by eager's formulas."""

    def __init__(self, own: list[tuple[torch.Tensor, torch.Tensor]], reads: Reads, decisions: Decisions):
        super().__init__()
        self.own, self.reads, self.decisions = {id(fake): t for fake, t in own}, reads, decisions

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function in _RECURRENT and args[0].is_cuda and torch.backends.cudnn.is_acceptable(args[0]):
            raise CannotTrace(
                f"nn.{function.__name__.upper()[:4].rstrip('_')} runs by cuDNN on CUDA, which reads its weights as one storage and cannot be captured: "
                "switch cuDNN off (with torch.backends.cudnn.flags(enabled=False): ... around steps and eager runs alike), or write the "
                "recurrence as a module of cells"
            )
        if function == torch.Tensor.data.__set__:
            if _same_memory(self.own.get(id(args[0])), args[1]):
                return None  # it gets the same memory, as weights of 8 bits do
            raise CannotTrace(
                "loss_fn sets a tensor's .data, which a captured step cannot repeat; change it in place (copy_, mul_), or use the new tensor"
            )
        if function is torch._is_all_true:  # torch.distributions checks arguments and values: each step does so, too
            eager_formulas.require(
                function(*args),
                "torch.distributions: an argument or a value is outside of what its distribution allows; correct it before the step, or leave the "
                "check out (validate_args=False)",
            )
            return True
        answer = self.decisions.take(function, args, kwargs or {})
        if answer is not NotImplemented:
            return answer
        return self.reads.call(self._run, (function, args, kwargs or {}), {})

    @staticmethod
    def _run(function: Any, args: Any, kwargs: Any) -> Any:
        result = eager_formulas.as_eager(function, args, kwargs)
        return result if result is not None else function(*args, **kwargs)


def _same_memory(a: torch.Tensor | None, b: torch.Tensor) -> bool:
    """Returns whether two real tensors have the same memory and layout; False for fake ones."""
    if a is None or a.device.type == "meta" or isinstance(a, FakeTensor) or isinstance(b, FakeTensor):
        return False
    return _lie(a) == _lie(b) and a.dtype == b.dtype and a.data_ptr() == b.data_ptr()


def _materialized(results: Any) -> Any:
    if not isinstance(results, tuple) or sum(isinstance(x, torch.Tensor) and x.requires_grad for x in results) < 2:
        return results
    return _Materialize.apply(*results)


@contextlib.contextmanager
def _plain_checkpoints() -> Iterator[None]:
    """While a step is captured, torch.utils.checkpoint computes everything once: Neap chooses what is recomputed."""
    import torch.utils.checkpoint as checkpoint

    hook, function = checkpoint._checkpoint_hook, checkpoint.CheckpointFunction
    hook.__enter__, hook.__exit__ = lambda self: self, lambda self, *_: None
    apply = function.__dict__.get("apply")
    function.apply = staticmethod(lambda run, preserve, *args: _reentrant(run, args))
    try:
        yield
    finally:
        del hook.__enter__, hook.__exit__
        if apply is None:
            del function.apply
        else:
            function.apply = apply


@contextlib.contextmanager
def _cached_casts() -> Iterator[None]:
    """Switches on autocast's cache, which make_fx switches off. A weight is then cast once for all its uses, as in eager training,
    and its gradients are added in the lower precision."""
    before = torch.is_autocast_cache_enabled()
    torch.set_autocast_cache_enabled(True)
    torch.clear_autocast_cache()
    try:
        yield
    finally:
        torch.clear_autocast_cache()
        torch.set_autocast_cache_enabled(before)


@contextlib.contextmanager
def _staying() -> Iterator[None]:
    """While entered, moving a module to where it is already does nothing; other moves are refused."""
    usual = nn.Module._apply

    def apply(module: nn.Module, move: Callable[[torch.Tensor], torch.Tensor], recurse: bool = True) -> nn.Module:
        if any(move(t) is not t for t in (*module.parameters(recurse), *module.buffers(recurse))):
            raise CannotTrace(
                f"loss_fn moves or casts {type(module).__name__} (to, float, half, cuda), which a captured step cannot repeat: do it before the step"
            )
        return module

    nn.Module._apply = apply
    try:
        yield
    finally:
        nn.Module._apply = usual


def refuse_anomaly() -> None:
    if torch.is_anomaly_enabled():
        raise CannotTrace(
            "torch.autograd.detect_anomaly: it reads each gradient of autograd's backward pass, which a captured step does not have; switch it off, "
            "and look for NaN in the loss, in extras, or in eager steps"
        )


def trace_step(
    model: nn.Module, loss_fn: Callable[..., Any], *args: Any, decisions: Decisions | None = None, **options: Any
) -> Capture:
    """As _trace. A tensor outside the model that loss_fn changes in place is an input of the step if it is in a slot that loss_fn reaches.
    Where code fails by a guess of a value, another is tried."""
    changed: set[int] = set()
    decisions, failed = decisions or Decisions(), None
    while True:
        decisions.begin()
        try:
            capture = _trace(model, loss_fn, *args, changed=changed, decisions=decisions, **options)
            decisions.learn(decisions.way)
            return capture
        except ChangesConstant as error:
            if id(error.tensor) in changed:
                raise
            changed.add(id(error.tensor))
        except Decided as found:  # of a constant, which a capture computes with
            decisions.learn((*found.way, found.answer))
        except Exception as error:
            failed = failed or error
            if not decisions.turn_guess():
                raise failed from failed.__cause__


def _trace(
    model: nn.Module,
    loss_fn: Callable[..., Any],
    structure: Structure,
    leaves: list[Any],
    *,
    weight: float | int = 1,
    cut: bool = False,
    clip_norm: float | None = None,
    chunk_head: bool | int | str | None = None,
    device: torch.device | None = None,
    lines: bool = False,
    outside: list[Outside] = (),
    trained: set[int] = frozenset(),
    changed: set[int] = frozenset(),
    decisions: Decisions,
) -> Capture:
    """Captures loss_fn(model, *batch, **named), the loss's part, its gradients, and with `clip_norm` their factor.

    structure: of (batch, named); leaves: its leaves. weight: the loss is divided by it if it is 1 or more, else multiplied by it.
    chunk_head: as head.chunked_head. cut: the batch is one of several parts, and a Sum is divided at the end of the step. lines:
    calls keep the user's lines, which takes a third longer. outside, trained, changed: as for Tensors. Raises CannotTrace, and
    TypeError for a wrong argument. Changes nothing."""
    refuse_anomaly()
    if not isinstance(model, nn.Module):
        raise TypeError(f"model must be an nn.Module (got a {type(model).__name__})")
    kept, reads = Kept(model, loss_fn), Reads()
    own = Tensors(model, kept, outside, trained, changed)
    tensors = [t for _, t in own.all()] + [x for x in leaves if isinstance(x, torch.Tensor)]
    _refuse(model, [own.parameters[i] for i in own.may_train()], tensors)
    mode = fake_mode_of(tensors)
    trainable = [i for i in own.may_train() if own.parameters[i][1].requires_grad]
    fakes = [_fake(mode, p, device) for _, p in own.parameters]
    fake_buffers = [_fake(mode, b, device) for _, b in own.buffers]
    inputs = [_alone(mode, x, device) for x in leaves if isinstance(x, torch.Tensor)]
    lie = [_lie(t) for t in (*fakes, *fake_buffers)]
    found: dict[str, Any] = {}
    completed: list[int] = []

    def joint(*flat: torch.Tensor) -> list[Any]:
        ps, rest = list(flat[: len(fakes)]), flat[len(fakes) :]
        bs, xs = list(rest[: len(fake_buffers)]), iter(rest[len(fake_buffers) :])
        for p, (_, user) in zip(ps, own.parameters, strict=True):
            if user.requires_grad:
                p.requires_grad_()
            if type(user) not in PLAIN:  # a quantised weight has its scales as attributes
                p.__dict__.update({k: v for k, v in user.__dict__.items() if k not in p.__dict__})
        instead = own.instead(ps, bs)
        pairs = [(fake, t) for fake, (_, t) in zip((*ps, *bs), own.all(), strict=True)]
        arguments, named_arguments = structure.fill([next(xs) if isinstance(x, torch.Tensor) else x for x in leaves])
        kept.swap(instead)
        with (
            _plain_checkpoints(), _cached_casts(), _staying(), chunked_head(model, chunk_head), _Watch(pairs, reads, decisions), reads.watching()
        ):  # fmt: skip
            loss, extras = split(loss_fn(model, *arguments, **named_arguments))
        replaced = own.replaced_buffer(model, instead)
        if replaced is not None:
            raise TypeError(f"buffer {replaced} is replaced by another tensor; change it in place (copy_, mul_, add_)")
        count = None
        if isinstance(loss, Sum):
            loss, count = loss.total, torch.as_tensor(loss.count).detach()
            if count.numel() != 1:
                raise TypeError(f"the count of a Sum must be a number or a scalar tensor (got {_told(count)})")
        if not isinstance(loss, torch.Tensor) or loss.numel() != 1 or not loss.is_floating_point():
            raise TypeError(
                f"loss_fn must return a scalar tensor of a floating type, (loss, extras) or a Sum (got {_told(loss)})"
            )
        if count is not None and not cut:
            loss, count = loss / count, None
        scaled = loss if weight == 1 or count is not None else loss / weight if weight > 1 else loss * weight
        wanted = [ps[i] for i in trainable]
        if not wanted or not scaled.requires_grad:
            raise TypeError("the loss depends on no parameter that requires a gradient")
        for i in trainable:
            ps[i].register_hook(lambda _, i=i: completed.append(i))
        in_backward = reads.run_in_backward(model)  # functions of the user, which may draw or leave something behind
        others = leaves_besides(wanted, scaled) if in_backward else []
        with (
            torch._C._DisableAutocast(),
            reads.watching(in_backward),
        ):  # the usual loop has autocast around the forward pass only
            gradients = torch.autograd.grad(scaled, [*wanted, *others], allow_unused=True)[: len(wanted)]
        for i, g in zip(trainable, gradients, strict=True):
            if g is not None and g.layout != torch.strided:
                raise TypeError(f"the gradient of {own.parameters[i][0]} must be dense (got {g.layout})")
        gradients = [
            g if g is None or _in_order(g, p) else _in_order_of(g, p) for g, p in zip(gradients, wanted, strict=True)
        ]
        clip = []
        if clip_norm is not None:
            total = torch.nn.utils.get_total_norm([g for g in gradients if g is not None], 2.0)
            clip = [clip_coefficient(total, clip_norm), total]
        flat_extras, found["extras"] = pytree.tree_flatten(extras)
        found["has_extras"] = extras is not None
        found["sum"] = count is not None
        for x in flat_extras:
            if isinstance(x, Number):
                x.refuse()
        flat_extras = [x.detach() if isinstance(x, torch.Tensor) else x for x in flat_extras]
        found["left"] = kept.left()
        flat_extras += [t for left in found["left"] for t in left.tensors]
        found["count"] = len(flat_extras)
        counts = [] if count is None else [count]
        return [scaled.detach(), *counts, *flat_extras, *gradients, *clip]

    multithreading = torch.autograd.set_multithreading_enabled(False)
    with (
        _explained(),
        _drawn_alone(mode),
        mode,
        multithreading,
        torch.enable_grad(),
        torch.fx.traceback.preserve_node_meta(),
    ):
        mode_before, mode.allow_non_fake_inputs = mode.allow_non_fake_inputs, True
        with Interrupts() as interrupts:
            try:
                module = make_fx(joint, PHYSICAL, tracing_mode="real", record_stack_traces=lines)(
                    *fakes, *fake_buffers, *inputs
                )
            finally:
                interrupts.wait()
                kept.put_back()
                seeded = kept.seeded()
                mode.allow_non_fake_inputs = mode_before
                for p in fakes:
                    p.requires_grad_(False)
                reads.forget(bears_fake)
    if seeded:
        raise CannotTrace(SEEDS)
    for (name, t), before, now in zip(own.all(), lie, map(_lie, (*fakes, *fake_buffers)), strict=True):
        if before != now:
            raise CannotTrace(
                f"{name} has shape {tuple(t.shape)} and gets shape {now[0]} in the forward pass; run the model once on a batch before you compile "
                "the step, so that it has its final shape"
            )
    own.drop_unread(module)
    parameters = own.parameters
    roles = (
        [("parameter", n) for n, _ in parameters]
        + [("state", n) for n, _ in own.buffers]
        + [("input", f"batch {i}") for i in range(len(inputs))]
    )
    _refuse_constants(module, [parameters[i] for i in trainable], found["left"])
    try:
        graph = build_graph(module, roles, real=[t for _, t in own.all()])
        _refuse_resizing(graph, own.buffers, len(parameters))
        for call in graph.calls:
            drawn = call.kwargs.get("generator")
            if drawn is not None and drawn._cdata in kept.generators:  # PyTorch gives another object each time
                call.kwargs = {**call.kwargs, "generator": kept.generators[drawn._cdata][0]}
            elif drawn is not None:
                raise CannotTrace(
                    f"{user_line(call.node)}: {call.target} draws from a generator that the step does not reach from its globals, closures or "
                    "the model: keep it there, outside of loss_fn, or use the default one"
                )
        for i in trainable:
            storage = graph.tensors[graph.inputs[i].tensor].storage
            changing = next((c for c in graph.calls for t, _ in c.changes if graph.tensors[t].storage == storage), None)
            if changing is not None:
                raise CannotTrace(
                    f"{user_line(changing.node)}: {changing.target} changes parameter {parameters[i][0]} in the forward pass, before the "
                    "update changes it: do it between steps (with nn.Embedding, set max_norm=None)"
                )
    except CannotTrace as error:
        if lines or isinstance(error, ChangesConstant):
            raise
        decisions.begin()
        return _trace(
            model, loss_fn, structure, leaves, weight=weight, cut=cut, clip_norm=clip_norm, chunk_head=chunk_head, device=device, lines=True,
            outside=outside, trained=trained, changed=changed, decisions=decisions,
        )  # fmt: skip
    for left in found["left"]:
        left.old, left.tensors = [], []
    outputs = graph.outputs
    first = 2 if found["sum"] else 1
    extra = outputs[first : first + found["count"]]
    mark_passes(graph, [o.tensor for o in outputs[: first + found["count"]] if isinstance(o, View)])
    return Capture(
        graph, parameters, own.buffers, trainable, found["extras"] if found["has_extras"] else None, outputs[0],
        outputs[1] if found["sum"] else None, extra, outputs[first + found["count"] :][: len(trainable)], list(dict.fromkeys(completed)),
        *((None, None) if clip_norm is None else outputs[-2:]), own.slots, found["left"], reads,
    )  # fmt: skip


def _refuse_resizing(graph: Graph, buffers: list[tuple[str, torch.Tensor]], first: int) -> None:
    """Raises CannotTrace for a buffer without elements that a call changes: the operator resizes it, which fake tensors do not show."""
    changed = {graph.tensors[t].storage: call for call in graph.calls for t, _ in call.changes}
    for (name, t), view in zip(buffers, graph.inputs[first:], strict=False):
        call = changed.get(graph.tensors[view.tensor].storage) if view is not None and t.numel() == 0 else None
        if call is not None:
            raise CannotTrace(
                f"{name} has no elements, and {call.target} gives it some in the first forward pass; run the model once on a batch before you "
                "compile the step, so that it has its final shape"
            )


def _refuse_constants(module: torch.fx.GraphModule, trained: list[tuple[str, torch.Tensor]], lefts: list[Left]) -> None:
    """Raises CannotTrace for constants of a traced step that change from step to step."""
    known = {p.untyped_storage()._cdata: name for name, p in trained if p.device.type != "meta"}
    carried = {id(t): left.name for left in lefts for t in left.old}
    for node in module.graph.nodes:
        constant = getattr(module, node.target) if node.op == "get_attr" else None
        if not isinstance(constant, torch.Tensor) or isinstance(constant, FakeTensor):
            continue
        if id(constant) in carried:
            raise CannotTrace(
                f"{carried[id(constant)]} is a tensor that each step reads and replaces, which a captured step cannot repeat: register it as a buffer "
                "and change it in place (copy_), or pass it to loss_fn and return it as an extra"
            )
        if constant.untyped_storage()._cdata in known:
            raise CannotTrace(
                f"parameter {known[constant.untyped_storage()._cdata]}: it is read outside the capture, which would make its gradient wrong (a "
                "hook, reentrant recomputation, a loss_fn that uses another copy of the model); use the model that loss_fn is given"
            )


def _lie(t: torch.Tensor) -> tuple[Any, ...]:
    return tuple(t.shape), tuple(t.stride()), t.untyped_storage().nbytes()


class _Unseeded:
    """PyTorch's generator of the CPU. In the thread of a capture it refuses to set its state, which a captured step would not do, unless
    nothing was drawn since the state was read (a checkpoint that keeps it)."""

    def __init__(self, mode: FakeTensorMode):
        self.generator, self.mode, self.thread = torch.default_generator, mode, threading.get_ident()
        self.read: int | None = None  # draws before the state was read

    def draws(self) -> int:
        return getattr(self.mode, "draws", -1)

    def set(self, name: str) -> Callable[..., Any]:
        unmoved = name == "set_state" and self.read is not None and self.read == self.draws() >= 0

        def set_it(state: Any = None) -> Any:
            if unmoved and torch.equal(state, self.generator.get_state()):
                return self.generator
            raise CannotTrace(SEEDS)

        return set_it

    def __getattr__(self, name: str) -> Any:
        here = threading.get_ident() == self.thread
        if here and name == "get_state":
            self.read = self.draws()
        return (
            self.set(name) if here and name in ("manual_seed", "seed", "set_state") else getattr(self.generator, name)
        )


@contextlib.contextmanager
def _drawn_alone(mode: FakeTensorMode) -> Iterator[None]:
    """Refuses draws from the random numbers of Python or NumPy, which a captured step would repeat, and new seeds of PyTorch's."""
    before, before_numpy = random.getstate(), numpy.random.get_state()
    try:
        with mock.patch.object(torch.random, "default_generator", _Unseeded(mode)):
            yield
        now = numpy.random.get_state()
        moved = "Python's random" if random.getstate() != before else None
        if any(not numpy.array_equal(a, b) for a, b in zip(before_numpy, now, strict=True)):
            moved = "numpy.random"
        if moved:
            raise CannotTrace(
                f"loss_fn draws from {moved}, and each step would repeat the draw: draw before the step and pass the result to loss_fn as a "
                "tensor or a number, or draw with torch"
            )
    finally:
        random.setstate(before)
        numpy.random.set_state(before_numpy)


def check_left(capture: Capture, model: nn.Module, loss_fn: Callable[..., Any], *args: Any, **options: Any) -> None:
    """Finds which changes by the forward pass each step makes: what it changes once (a cached length), appends to a list, or adds to a
    counter is left behind. Raises CannotTrace for what else changes in each step, which a captured step cannot repeat."""
    if not any(left.moves() for left in capture.left):
        return
    kept = Kept(model, loss_fn)
    try:
        for left in capture.left:
            if not left.count:
                left.make([])
        again = trace_step(model, loss_fn, *args, **options)
    finally:
        kept.put_back()
    first = {left.place: left for left in capture.left}
    moving = [left for left in again.left if left.moves()]
    wrong = [left for left in moving if not left.is_again(first.get(left.place))]
    if moving and not wrong and not same_calls(capture.graph, again.graph):
        wrong = moving
    if wrong:
        raise CannotTrace(
            f"{wrong[0].name} changes each time loss_fn runs, which a captured step cannot repeat; keep it in a buffer and change that in "
            "place, or pass it to loss_fn with the batch"
        )


def trace_aside(model: nn.Module, loss_fn: Callable[..., Any], *args: Any, **options: Any) -> Capture | None:
    """As trace_step, for a batch that no step gets. None if it fails."""
    try:
        return trace_step(model, loss_fn, *args, **options)
    except Exception:  # the user's code may raise anything for such a batch
        return None


def _told(value: Any) -> str:
    return (
        f"a tensor of shape {tuple(value.shape)}, {value.dtype}"
        if isinstance(value, torch.Tensor)
        else f"a {type(value).__name__}"
    )


def _is_dense(t: torch.Tensor) -> bool:
    """Returns whether its elements fill a range of memory, each once, in some order of its dimensions."""
    expected = 1
    for stride, n in sorted((stride, n) for n, stride in zip(t.shape, t.stride(), strict=True) if n != 1):
        if stride != expected:
            return False
        expected *= n
    return True


def _in_order(gradient: torch.Tensor, parameter: torch.Tensor) -> bool:
    """Returns whether .backward() would keep the gradient's layout: that of the parameter."""
    if not _is_dense(parameter):
        return gradient.is_contiguous()
    return all(n == 1 or a == b for n, a, b in zip(parameter.shape, gradient.stride(), parameter.stride(), strict=True))


def _in_order_of(gradient: torch.Tensor, parameter: torch.Tensor) -> torch.Tensor:
    if not _is_dense(parameter):
        return gradient.contiguous()
    return torch.empty_strided(parameter.shape, parameter.stride(), dtype=gradient.dtype, device=gradient.device).copy_(
        gradient
    )


def refuse_hooks(parameters: Iterable[tuple[str, torch.Tensor]]) -> None:
    """Raises CannotTrace for a parameter with a gradient hook."""
    for name, p in parameters:
        if p._backward_hooks:
            raise CannotTrace(
                f"parameter {name} has a gradient hook, which a compiled step would not call; remove the hook"
            )


def _refuse(model: nn.Module, parameters: list[tuple[str, torch.Tensor]], tensors: list[torch.Tensor]) -> None:
    devices = {t.device for t in tensors if t.device.type != "meta"}
    if len(devices) > 1:
        raise CannotTrace(
            f"parameters, buffers and batch must be on one device (got {', '.join(map(str, sorted(devices, key=str)))}); move them"
        )
    for t in tensors:
        if t.is_nested:
            raise CannotTrace(
                "a nested tensor cannot be planned, since its sizes depend on data: pad it (x.to_padded_tensor(0)) and pass a mask"
            )
    refuse_hooks(parameters)
    for name, module in model.named_modules():
        if isinstance(module, (nn.Embedding, nn.EmbeddingBag)) and module.sparse:
            raise CannotTrace(
                f"{name} makes sparse gradients, which cannot be planned; use {type(module).__name__}(..., sparse=False)"
            )
        if (
            isinstance(module, (nn.Embedding, nn.EmbeddingBag))
            and module.max_norm is not None
            and module.weight.requires_grad
        ):
            raise CannotTrace(
                f"{name} has max_norm, which changes its weight in the forward pass; set max_norm=None and limit the norms between steps"
            )
        if (
            isinstance(module, nn.modules.batchnorm._NormBase)
            and module.training
            and module.momentum is None
            and module.track_running_stats
        ):
            raise CannotTrace(
                f"{name} has momentum=None, which divides its running mean by the value of a tensor; give it a momentum (0.1)"
            )
