"""The operators of sequences in the list of operators."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import attention_patterns
import torch
from operator_case import Case, Operand, described, real, same, text, then, these_numbers
from torch.nn import functional as F

Dims = tuple[int, ...]


def gated(activation: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[torch.Tensor], torch.Tensor]:
    def function(x: torch.Tensor) -> torch.Tensor:
        a, b = x.chunk(2, -1)
        return activation(a) * b

    return function


GATES = [("glu", F.glu), ("swiglu", gated(F.silu)), ("geglu", gated(F.gelu))]


def convolved(x: torch.Tensor, w: torch.Tensor, padding: int) -> torch.Tensor:
    """Of one kernel for all times, a depthwise convolution; else a product with the rows that each time sees."""
    heads, taps = w.shape[-2:]
    channels = F.pad(x.mT, (padding, taps - 1 - padding))
    if w.dim() == 2:
        each = w.repeat_interleave(x.shape[2] // heads, 0)
        return F.conv1d(channels, each.unsqueeze(1), groups=x.shape[2]).mT
    seen = channels.unfold(2, taps, 1).unflatten(1, (heads, -1))
    return torch.einsum("nhctk,nthk->nthc", seen, w).flatten(2)


def sequence_conv(x: Dims, heads: int, taps: int, padding: int, dynamic: bool) -> Case:
    w = (*x[:2], heads, taps) if dynamic else (heads, taps)
    name = text("sequence_conv", x, w, f"padding={padding}")
    return Case(
        name, (real(*x), real(*w)), then("sequence_conv", padding), functools.partial(convolved, padding=padding)
    )


def later_times(x: Dims, heads: int, taps: int, padding: int, first: int, dynamic: bool) -> Case:
    w = (x[0], x[1] - first, heads, taps) if dynamic else (heads, taps)

    def expected(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        if w.dim() == 4:
            w = F.pad(w, (0, 0, 0, 0, first, 0))
        return convolved(x, w, padding)[:, first:]

    name = text("sequence_conv_from", x, w, f"padding={padding}, first={first}")
    return Case(name, (real(*x), real(*w)), then("sequence_conv_from", padding, first), expected)


def lightweight(n: Any, x: int, w: int) -> int:
    """Wu et al. 2019, with causal kernels."""
    return n.sequence_conv(x, n.softmax(w, -1), 2)


def capped(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, attn_mask: torch.Tensor, scale: float, cap: float
) -> torch.Tensor:
    """As transformers has it for Gemma 2."""
    k, v = (t.repeat_interleave(q.shape[1] // t.shape[1], 1) for t in (k, v))
    scores = cap * torch.tanh((scale or q.shape[3] ** -0.5) * (q @ k.transpose(2, 3)) / cap)
    return scores.masked_fill(~attn_mask, -math.inf).softmax(3) @ v


def attended(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    lengths: torch.Tensor | None = None,
    causal: bool = False,
    window: int = 0,
    scale: float = 0.0,
    cap: float = 0.0,
    pattern: bytes | None = None,
    layer: int = 0,
) -> torch.Tensor:
    """By PyTorch's attention: with its own causal mask where that is all, else with one of the header's words."""
    q, k, v = (t.transpose(1, 2) for t in (q, k, v))
    call = functools.partial(F.scaled_dot_product_attention, scale=scale or None, enable_gqa=True)
    times, keys = q.shape[2], k.shape[2]
    if cap:
        call = functools.partial(capped, scale=scale, cap=cap)
    elif lengths is None and window == 0 and pattern is None and (not causal or times == keys):
        return call(q, k, v, is_causal=causal).transpose(1, 2)
    place, key = torch.arange(times)[:, None] + keys - times, torch.arange(keys)
    sees = torch.ones(1, 1, times, keys, dtype=torch.bool)
    if lengths is not None:
        sees = sees & (key < lengths[:, None, None, None])
    if causal:
        sees = sees & (key <= place)
    if window:
        first = attention_patterns.global_tokens(pattern.decode(), layer) if pattern else 0
        sees = sees & ((key > place - window) & (key < place + window) | (key < first))
    if pattern is not None:
        sees = sees & attention_patterns.mask(pattern.decode(), layer, q.shape[1], times, causal)
    any_seen = sees.any(-1, keepdim=True)
    return (call(q, k, v, attn_mask=sees | ~any_seen) * any_seen).transpose(1, 2)


def attention(q: Dims, k: Dims, lengths: Operand | None = None, **options: Any) -> Case:
    def build(n: Any, q: int, k: int, v: int, lengths: int = -1) -> int:
        return n.attention(q, k, v, lengths, **options)

    name = text("attention", q, k, "lengths" if lengths else "", described(options))
    operands = (real(*q), real(*k), real(*k), *([lengths] if lengths else []))
    return Case(name, operands, build, functools.partial(attended, **options))


def packed_attention(x: Dims, key_heads: int = 0, lengths: Operand | None = None, **options: Any) -> Case:
    def function(x: torch.Tensor, lengths: torch.Tensor | None = None) -> torch.Tensor:
        groups = key_heads or x.shape[2] // 3
        return attended(*x.split([x.shape[2] - 2 * groups, groups, groups], 2), lengths, **options)

    def build(n: Any, x: int, lengths: int = -1) -> int:
        return n.attention(x, -1, -1, lengths, key_heads=key_heads, **options)

    name = text("attention, packed", x, f"key_heads={key_heads}", "lengths" if lengths else "", described(options))
    return Case(name, (real(*x), *([lengths] if lengths else [])), build, function)


def rotated(x: torch.Tensor, heads: int, base: float, first: int) -> torch.Tensor:
    """In the form of Llama's implementations: halves are swapped, and tables of cosines and sines multiplied."""
    turned, rest = x.split([heads or x.shape[2], x.shape[2] - (heads or x.shape[2])], 2)
    frequencies = (base or 10000.0) ** (-torch.arange(0, x.shape[3], 2, dtype=torch.float64) / x.shape[3])
    angles = torch.outer(torch.arange(x.shape[1]) + first, frequencies).repeat(1, 2)[:, None]
    a, b = turned.chunk(2, -1)
    made = turned * angles.cos().to(x) + torch.cat([-b, a], -1) * angles.sin().to(x)
    return torch.cat([made, rest], 2)


def rotary(x: Dims, heads: int = 0, base: float = 0.0, first: int = 0) -> Case:
    name = text("rotary", x, f"heads={heads} base={base} first={first}")
    function = functools.partial(rotated, heads=heads, base=base, first=first)
    return Case(name, (real(*x),), then("rotary", heads, base, first), function)


def recurrent(
    kind: str, x: Dims, width: int, layers: int = 1, parts: tuple[int, ...] = (), states: bool = False
) -> Case:
    """The sequence in parts, and behind it the states after the last time; with states before the first time."""
    lstm = kind == "lstm"
    kinds = 2 if lstm else 1  # of states

    def build(n: Any, x: int, *given: int) -> int:
        pieces = [n.slice(x, 0, sum(parts[:i]), count) for i, count in enumerate(parts)] or [x]
        cells = given[layers:] or [-1] * len(given)
        initial = list(zip(given[:layers], cells, strict=True))
        made, last = getattr(n, kind)(pieces, width, layers=layers, initial=initial)
        ends = [state[i] for i in range(kinds) for state in last]
        return n.concat([*made, *(n.reshape(end, [1, *n.shape(end)]) for end in ends)], 0)

    def function(x: torch.Tensor, *rest: torch.Tensor) -> torch.Tensor:
        given, weights = (rest[: kinds * layers], rest[kinds * layers :]) if states else ((), rest)
        zeros = x.new_zeros(layers, x.shape[1], width)
        h, c = (torch.stack(given[i * layers : (i + 1) * layers]) if given[i * layers :] else zeros for i in range(2))
        made = getattr(torch, kind)(x, (h, c) if lstm else h, weights, True, layers, 0.0, False, False, False)
        return torch.cat(made)

    operands = (real(*x), *([real(x[1], width)] * (kinds * layers if states else 0)))
    name = text(kind, x, f"width={width} layers={layers} parts={parts}", "states" if states else "")
    return Case(name, operands, build, function)


SEQUENCES = [
    *(
        Case(text(name, x), (real(*x),), same(name), function)
        for name, function in GATES
        for x in ((2,), (5, 14), (3, 5, 22), (67, 602))
    ),
    *(
        sequence_conv(x, heads, taps, padding, dynamic)
        for x, heads, taps, padding in [
            ((2, 7, 6), 3, 3, 1), ((3, 9, 5), 5, 4, 3), ((2, 5, 8), 1, 7, 6), ((1, 11, 4), 2, 5, 0), ((2, 3, 6), 2, 9, 8), ((3, 61, 96), 8, 15, 14),
        ]
        for dynamic in (False, True)
    ),
    *(
        later_times(x, heads, taps, padding, first, dynamic)
        for x, heads, taps, padding, first in [((2, 7, 6), 3, 3, 2, 6), ((3, 9, 5), 5, 4, 1, 4), ((2, 31, 64), 4, 31, 30, 30)]
        for dynamic in (False, True)
    ),
    Case("lightweight convolution", (real(2, 9, 12), real(4, 3)), lightweight, lambda x, w: convolved(x, w.softmax(-1), 2)),
    Case("dynamic convolution", (real(2, 9, 12), real(2, 9, 4, 3)), lightweight, lambda x, w: convolved(x, w.softmax(-1), 2)),
    attention((2, 7, 3, 5), (2, 7, 3, 5)),
    attention((2, 7, 3, 8), (2, 11, 3, 8)),
    attention((2, 7, 6, 4), (2, 9, 2, 4), scale=0.75),
    attention((3, 13, 4, 5), (3, 13, 1, 5), causal=True),
    attention((2, 5, 4, 6), (2, 12, 2, 6), causal=True),
    attention((2, 12, 2, 6), (2, 5, 2, 6), causal=True),
    attention((2, 19, 2, 4), (2, 19, 2, 4), window=3),
    attention((2, 9, 4, 4), (2, 23, 2, 4), causal=True, window=5),
    attention((2, 23, 2, 4), (2, 9, 2, 4), window=4),
    attention((3, 9, 2, 4), (3, 11, 2, 4), these_numbers(11, 5, 0)),
    attention((3, 9, 4, 4), (3, 9, 2, 4), these_numbers(9, 1, 6), causal=True),
    attention((3, 17, 2, 4), (3, 21, 2, 4), these_numbers(21, 3, 14), causal=True, window=6, scale=1.25),
    attention((2, 149, 3, 32), (2, 167, 3, 32), causal=True),
    attention((2, 131, 4, 24), (2, 259, 2, 24), these_numbers(259, 40)),
    attention((2, 19, 4, 6), (2, 19, 2, 6), causal=True, window=5, cap=0.75),
    attention((3, 9, 4, 4), (3, 9, 2, 4), these_numbers(9, 1, 6), scale=2.0, cap=1.5),
    attention((2, 149, 3, 32), (2, 167, 3, 32), causal=True, cap=2.0),
    attention((2, 37, 4, 4), (2, 37, 2, 4), causal=True, pattern=b"[strided:5;fixed:7,2]"),
    attention((3, 33, 2, 4), (3, 33, 2, 4), these_numbers(33, 5, 20), pattern=b"dense;fixed:6,1", layer=3),
    attention((2, 150, 2, 8), (2, 150, 2, 8), pattern=b"[dilated:9,7;window:12]"),
    packed_attention((2, 150, 6, 8), causal=True, pattern=b"fixed:16,16", scale=0.5),
    attention((2, 150, 2, 8), (2, 150, 2, 8), these_numbers(150, 61), pattern=b"window:9,global=11"),
    packed_attention((2, 90, 6, 8), pattern=b"[strided:7,global=2;fixed:8,1,global=2]", scale=0.5),
    packed_attention((2, 90, 6, 8), causal=True, pattern=b"global=first;window:4,global=5", layer=1),
    packed_attention((2, 90, 6, 8), window=5, pattern=b"global=3", layer=1),
    packed_attention((2, 7, 9, 5)),
    packed_attention((2, 13, 6, 8), causal=True),
    packed_attention((2, 13, 8, 6), key_heads=2, causal=True),
    packed_attention((2, 31, 8, 4), key_heads=1, causal=True, scale=2.0, cap=0.5),
    packed_attention((3, 11, 6, 4), lengths=these_numbers(11, 4, 7)),
    packed_attention((2, 31, 8, 4), key_heads=1, causal=True, window=7, scale=0.5),
    packed_attention((1, 193, 12, 16), key_heads=2, causal=True),
    rotary((2, 7, 3, 8)),
    rotary((2, 5, 4, 6), heads=3, base=500.0),
    rotary((1, 3, 2, 2), first=-4),
    rotary((3, 67, 6, 32), heads=4, first=11),
    Case(
        "attention of packed heads that are turned",
        (real(2, 11, 8, 6),),
        lambda n, x: n.attention(n.rotary(x, 6, 0, 0), -1, -1, -1, key_heads=2, causal=True),
        lambda x: attended(*rotated(x, 6, 0, 0).split([4, 2, 2], 2), causal=True),
    ),
    *(
        recurrent(kind, x, width, **options)
        for kind in ("lstm", "gru")
        for x, width, options in [
            ((1, 1, 1), 1, {}),
            ((5, 3, 7), 4, {}),
            ((5, 3, 7), 4, {"layers": 3}),
            ((7, 2, 5), 6, {"states": True}),
            ((7, 2, 5), 6, {"layers": 2, "parts": (3, 1, 3), "states": True}),
            ((9, 5, 11), 17, {"layers": 2, "parts": (4, 5)}),
            ((3, 33, 29), 40, {"parts": (1, 2)}),
        ]
    ),
]  # fmt: skip
