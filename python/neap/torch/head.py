"""Large vocabularies: the last linear layer and its cross entropy in chunks of rows, so that all logits never exist at once."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from .graph import CannotTrace

CHUNK_BYTES = 16 << 20  # logits of a chunk in f32, if the number of rows is not given


class _ChunkedLoss(torch.autograd.Function):
    """The sum of the cross entropies of the logits hidden [N, D] times weight [V, D], for labels [N]. Forward computes the gradients
    with the loss, chunk by chunk, since it has the logits; backward multiplies them by the incoming gradient."""

    @staticmethod
    def forward(
        ctx: Any, hidden: Any, weight: Any, bias: Any, labels: Any, rows: int, ignore_index: int
    ) -> torch.Tensor:
        wants_hidden, wants_weight, wants_bias = ctx.needs_input_grad[:3]
        total = torch.zeros((), dtype=torch.float32, device=hidden.device)
        d_hidden: list[torch.Tensor] = []
        d_weight = d_bias = None
        for at in range(0, max(hidden.shape[0], 1), rows):
            h, label = hidden[at : at + rows], labels[at : at + rows, None]
            logits = torch.mm(h, weight.t())
            if bias is not None:
                logits.add_(bias)
            logits = logits.float()
            valid = label != ignore_index
            label = torch.where(valid, label, 0)
            lse = torch.logsumexp(logits, 1, keepdim=True)
            total = total + torch.where(valid, lse - logits.gather(1, label), 0.0).sum()
            if not (wants_hidden or wants_weight or wants_bias):
                continue
            p = logits.sub_(lse).exp_().scatter_add_(1, label, logits.new_full((1, 1), -1.0).expand(label.shape))
            p = p.mul_(valid).to(h.dtype)
            if wants_hidden:
                d_hidden.append(torch.mm(p, weight))
            if wants_weight:
                d_weight = torch.mm(p.t(), h) if d_weight is None else d_weight.addmm_(p.t(), h)
            if wants_bias:
                d_bias = p.sum(0) if d_bias is None else d_bias.add_(p.sum(0))
        ctx.gradients = torch.cat(d_hidden) if d_hidden else None, d_weight, d_bias
        return total

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        hidden, weight, bias = (None if g is None else g.mul_(gradient.to(g.dtype)) for g in ctx.gradients)
        ctx.gradients = None, None, None
        return hidden, weight, bias, None, None, None


def chunked_cross_entropy(
    hidden: torch.Tensor,
    weight: torch.Tensor,
    labels: torch.Tensor,
    *,
    bias: torch.Tensor | None = None,
    chunk: int | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
) -> torch.Tensor:
    """Returns F.cross_entropy(F.linear(hidden, weight, bias).float(), labels), computed `chunk` rows at a time, so that all logits
    never exist at once.

    hidden: [..., D]; weight: [V, D]; labels: [...], with the leading sizes of hidden, `ignore_index` where there is no label;
    bias: [V]. chunk: rows; None: the rows of 16 MiB of logits. reduction: "mean" over the labels that count, or "sum".

    Gives the same bits in eager PyTorch and in a captured step. Can be differentiated once. Raises ValueError."""
    if reduction not in ("mean", "sum"):
        raise ValueError(f"chunked_cross_entropy: reduction must be 'mean' or 'sum' (got {reduction!r})")
    if hidden.shape[:-1] != labels.shape or hidden.shape[-1] != weight.shape[1]:
        raise ValueError(
            f"chunked_cross_entropy: shapes must be hidden [..., D], weight [V, D], labels [...] (got {tuple(hidden.shape)}, {tuple(weight.shape)}, "
            f"{tuple(labels.shape)})"
        )
    rows = chunk or max(CHUNK_BYTES // (4 * weight.shape[0]), 1)
    kind = hidden.device.type
    if torch.is_autocast_enabled(kind):
        dtype = torch.get_autocast_dtype(kind)
        hidden, weight, bias = hidden.to(dtype), weight.to(dtype), bias.to(dtype) if bias is not None else None
    with torch.autocast(kind, enabled=False):
        total = _ChunkedLoss.apply(hidden.flatten(0, -2), weight, bias, labels.flatten(), rows, ignore_index)
    return total / (labels != ignore_index).sum() if reduction == "mean" else total


class _Logits:
    """Logits of a head that are not computed: views that a language model's loss takes of them are taken of the hidden values."""

    def __init__(self, hidden: torch.Tensor, head: nn.Linear, rows: int | None, dtype: torch.dtype):
        self.hidden, self.head, self.rows, self.dtype = hidden, head, rows, dtype

    shape = property(lambda self: torch.Size((*self.hidden.shape[:-1], self.head.weight.shape[0])))
    device = property(lambda self: self.hidden.device)
    ndim = property(lambda self: self.hidden.ndim)
    requires_grad = property(lambda self: True)

    def _with(self, hidden: torch.Tensor) -> _Logits:
        return _Logits(hidden, self.head, self.rows, self.dtype)

    def size(self, dim: int | None = None) -> Any:
        return self.shape if dim is None else self.shape[dim]

    def dim(self) -> int:
        return self.hidden.dim()

    def float(self) -> _Logits:
        return _Logits(self.hidden, self.head, self.rows, torch.float32)

    def to(self, *args: Any, **kwargs: Any) -> _Logits:
        wanted = [x for x in (*args, *kwargs.values()) if isinstance(x, torch.dtype)]
        if wanted and wanted[0] not in (torch.float32, self.dtype):
            raise self._refused(f"to({wanted[0]})")
        return self.float() if wanted else self

    def contiguous(self) -> _Logits:
        return self

    def view(self, *sizes: Any) -> _Logits:
        sizes = tuple(sizes[0]) if len(sizes) == 1 and isinstance(sizes[0], (tuple, list)) else sizes
        if sizes[-1] not in (-1, self.shape[-1]) or (sizes[-1] == -1 and len(sizes) > 1):
            raise self._refused(f"view{sizes}")
        return self._with(self.hidden.reshape(*sizes[:-1], self.hidden.shape[-1]))

    reshape = view

    def flatten(self, start_dim: int = 0, end_dim: int = -1) -> _Logits:
        if end_dim % self.dim() == self.dim() - 1:
            raise self._refused(f"flatten({start_dim}, {end_dim})")
        return self._with(self.hidden.flatten(start_dim, end_dim))

    def __getitem__(self, index: Any) -> _Logits:
        parts = index if isinstance(index, tuple) else (index,)
        whole = slice(None)
        if Ellipsis in [p for p in parts if not isinstance(p, torch.Tensor)]:
            if not (parts[0] is Ellipsis and parts[-1] == whole):
                raise self._refused(f"[{index}]")
        elif len(parts) >= self.dim():
            raise self._refused(f"[{index}]")
        return self._with(self.hidden[index])

    def __getattr__(self, name: str) -> Any:
        raise self._refused(name)

    def _refused(self, what: str) -> CannotTrace:
        return CannotTrace(
            f"chunk_head: the logits are used for {what}, and only cross entropy takes them in chunks; leave chunk_head out"
        )

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        logits = next(x for x in (*args, *(kwargs or {}).values()) if isinstance(x, _Logits))
        if function is not F.cross_entropy:
            raise logits._refused(getattr(function, "__name__", str(function)))
        return logits._cross_entropy(*args, **(kwargs or {}))

    def _cross_entropy(
        self, input: Any, target: torch.Tensor, weight: Any = None, size_average: Any = None, ignore_index: int = -100,
        reduce: Any = None, reduction: str = "mean", label_smoothing: float = 0.0,
    ) -> torch.Tensor:  # fmt: skip
        if (
            weight is not None
            or label_smoothing
            or reduction == "none"
            or size_average is not None
            or reduce is not None
        ):
            raise self._refused("a cross entropy with weights, smoothing or no reduction")
        return chunked_cross_entropy(
            self.hidden,
            self.head.weight,
            target,
            bias=self.head.bias,
            chunk=self.rows,
            ignore_index=ignore_index,
            reduction=reduction,
        )


def find_head(model: nn.Module, name: str | None) -> nn.Linear:
    """Returns the linear layer that makes the logits: the one with this name, the model's own answer (transformers), or the widest
    one. Raises TypeError if it is not a plain nn.Linear."""
    if name is not None:
        head = model.get_submodule(name)
    elif callable(getattr(model, "get_output_embeddings", None)):
        head = model.get_output_embeddings()
    else:
        linears = [m for m in model.modules() if type(m) is nn.Linear]
        head = max(linears, key=lambda m: m.out_features, default=None)
    if type(head) is not nn.Linear:
        raise TypeError(
            f"chunk_head: the layer that makes the logits must be a plain nn.Linear (got a {type(head).__name__})"
        )
    return head


@contextlib.contextmanager
def chunked_head(model: nn.Module, chunk: bool | int | str | None) -> Iterator[None]:
    """While entered, the model's head returns logits that cross entropy computes in chunks. chunk: True, the rows of a chunk, or the
    name of the layer."""
    if chunk is None or chunk is False:
        yield
        return
    head = find_head(model, chunk if isinstance(chunk, str) else None)
    rows = chunk if isinstance(chunk, int) and chunk is not True else None
    head.__dict__["forward"] = lambda hidden: _Logits(hidden, head, rows, hidden.dtype)
    try:
        yield
    finally:
        del head.__dict__["forward"]
