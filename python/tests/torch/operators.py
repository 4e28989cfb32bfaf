"""The list of operators, each beside what PyTorch says it is: one row a case."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from operator_case import (
    LARGE,
    SHAPES,
    Case,
    Operand,
    apart,
    between,
    described,
    mask,
    real,
    same,
    some,
    text,
    then,
    these,
    whole,
)
from operators_sequences import SEQUENCES
from torch.nn import functional as F

# ---- Convolution and pooling ----


def conv(x: tuple[int, ...], label: str = "", **options: Any) -> Case:
    def function(image: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
        padding = options.get("padding", 0)
        paddings = (options.get("padding_height") or padding, options.get("padding_width") or padding)
        other = {name: options.get(name, 1) for name in ("stride", "dilation", "groups")}
        return F.conv2d(image, weight, bias, padding=paddings, **other)

    return Case(text("conv", x, label or described(options)), (real(*x),), same("conv", **options), function)


def conv_transposed(x: tuple[int, ...], **options: Any) -> Case:
    def function(image: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
        other = {name: options.get(name, default) for name, default in TRANSPOSED_DEFAULTS.items()}
        return F.conv_transpose2d(image, weight, bias, **other)

    name = text("conv_transposed", x, described(options))
    return Case(name, (real(*x),), same("conv_transposed", **options), function)


TRANSPOSED_DEFAULTS = {"stride": 1, "padding": 0, "output_padding": 0}


CONVOLUTIONS = [
    conv((2, 3, 9, 11), filters=5, size=3),
    conv((2, 3, 9, 11), filters=5, size=3, padding=1, bias=True),
    conv((3, 7, 13, 8), filters=11, size=5, padding=2, stride=2),
    conv((2, 5, 12, 9), filters=6, size=1, bias=True),
    conv((2, 5, 12, 9), filters=7, size=1, stride=2),
    conv((2, 4, 15, 13), filters=6, size=3, dilation=2, padding=2),
    conv((1, 3, 17, 19), filters=5, size=3, dilation=3, stride=2, bias=True),
    conv((2, 6, 9, 7), filters=9, size=3, groups=3, padding=1, bias=True),
    conv((2, 6, 9, 7), filters=4, size=3, groups=2, stride=2),
    conv((2, 7, 10, 11), filters=7, size=3, groups=7, padding=1),
    conv((2, 5, 10, 11), filters=15, size=3, groups=5, padding=1, stride=2, bias=True),
    conv((2, 5, 11, 11), filters=5, size=5, groups=5, padding=4, dilation=2),
    conv((2, 3, 11, 14), filters=5, size=3, kernel_width=7, padding_width=3, padding=1),
    conv((2, 3, 11, 14), filters=5, size=1, kernel_height=5, padding_height=2, bias=True),
    conv((2, 3, 8, 8), filters=5, size=3, padding=4),
    conv((2, 3, 5, 7), filters=13, size=5, kernel_width=7),
    conv((5, 1, 28, 28), filters=6, size=5, padding=2, bias=True),
    conv((2, 16, 8, 8), filters=32, size=3, padding=1),
    conv((2, 19, 31, 33), filters=21, size=3, padding=1, bias=True),
    conv((1, 3, 112, 113), filters=17, size=7, padding=3, stride=2),
    conv_transposed((2, 3, 5, 7), filters=4, size=3),
    conv_transposed((2, 5, 5, 7), filters=7, size=3, stride=2, padding=1, output_padding=1, bias=True),
    conv_transposed((1, 9, 6, 4), filters=3, size=4, stride=2, padding=1),
    conv_transposed((2, 3, 4, 5), filters=5, size=2, stride=3, output_padding=2, bias=True),
    conv_transposed((2, 11, 23, 25), filters=13, size=2, stride=2),
]


def max_pool(x: tuple[int, ...], **options: Any) -> Case:
    stride = options.get("stride") or None
    function = functools.partial(
        F.max_pool2d,
        kernel_size=options["size"],
        stride=stride,
        padding=options.get("padding", 0),
        ceil_mode=options.get("ceil", False),
    )
    return Case(text("max_pool", x, described(options)), (real(*x),), same("max_pool", **options), function)


def average_pool(x: tuple[int, ...], **options: Any) -> Case:
    function = functools.partial(
        F.avg_pool2d,
        kernel_size=options["size"],
        stride=options.get("stride") or None,
        padding=options.get("padding", 0),
        ceil_mode=options.get("ceil", False),
        count_include_pad=options.get("count_padding", False),
    )
    return Case(text("average_pool", x, described(options)), (real(*x),), same("average_pool", **options), function)


WINDOWS: list[tuple[tuple[int, ...], dict[str, Any]]] = [
    ((2, 3, 8, 10), {"size": 2}),
    ((2, 5, 9, 7), {"size": 3, "stride": 2, "padding": 1}),
    ((2, 5, 10, 12), {"size": 3, "stride": 2, "ceil": True}),
    ((2, 3, 11, 9), {"size": 3, "stride": 3, "padding": 1, "ceil": True}),
    ((1, 7, 7, 6), {"size": 5, "stride": 1, "padding": 2}),
    ((2, 3, 7, 8), {"size": 2, "stride": 3, "ceil": True}),
    ((3, 17, 33, 31), {"size": 3, "stride": 2, "padding": 1, "ceil": True}),
]
COUNTED = [{"count_padding": True}, {}]


POOLS = [
    *(max_pool(x, **options) for x, options in WINDOWS),
    *(average_pool(x, **options, **counted) for x, options in WINDOWS for counted in COUNTED),
    *(
        Case(text("global_average_pool", x), (real(*x),), same("global_average_pool"), lambda t: t.flatten(2).mean(2))
        for x in ((3, 5, 7), (2, 7, 5, 3), (2, 3, 4, 5, 3), LARGE)
    ),
    *(
        Case(
            text("adaptive_average_pool", x, size),
            (real(*x),),
            then("adaptive_average_pool", size),
            functools.partial(F.adaptive_avg_pool2d, output_size=size),
        )
        for x, size in [((2, 3, 7, 9), 1), ((2, 5, 7, 11), 3), ((2, 3, 5, 4), 7), ((1, 5, 6, 6), 6), (LARGE, 6)]
    ),
    *(
        Case(
            text("crop", x, *edges),
            (real(*x),),
            same("crop", **dict(zip(("top", "left", "height", "width"), edges, strict=True))),
            lambda t, e=edges: t[:, :, e[0] : e[0] + e[2], e[1] : e[1] + e[3]],
        )
        for x, edges in [((2, 3, 7, 9), (1, 2, 5, 3)), ((2, 5, 6, 4), (0, 0, 6, 4)), (LARGE, (3, 5, 43, 47))]
    ),
    *(
        Case(
            text("resize", x, size, "align_corners" if corners else ""),
            (real(*x),),
            then("resize", *size, corners),
            functools.partial(F.interpolate, size=size, mode="bilinear", align_corners=corners),
        )
        for x, size in [
            ((2, 3, 5, 7), (11, 13)), ((2, 3, 9, 11), (4, 5)), ((1, 5, 6, 5), (6, 5)), ((2, 3, 4, 5), (1, 1)), ((2, 3, 1, 1), (3, 4)),
            ((2, 7, 5, 6), (15, 3)), (LARGE, (60, 31)),
        ]
        for corners in (False, True)
    ),
]  # fmt: skip


def response_norm(x: tuple[int, ...], **options: Any) -> Case:
    chosen = {"size": 5, "alpha": 1e-4, "beta": 0.75, "k": 1.0, **options}
    return Case(
        text("local_response_norm", x, described(options)),
        (real(*x),),
        same("local_response_norm", **options),
        functools.partial(F.local_response_norm, **chosen),
    )


# ---- Norms ----


def normed(x: torch.Tensor, factor: torch.Tensor, *parameters: torch.Tensor, epsilon: float = 1e-5) -> torch.Tensor:
    gamma, beta = parameters
    return F.batch_norm(x, None, None, gamma, beta, training=True, eps=epsilon) * factor


def normed_by_running(
    x: torch.Tensor, factor: torch.Tensor, *parameters: torch.Tensor, epsilon: float = 1e-5
) -> torch.Tensor:
    gamma, beta, mean, variance = parameters
    return F.batch_norm(x, mean, variance, gamma, beta, training=False, eps=epsilon) * factor


def batch_norm(x: tuple[int, ...], epsilon: float = 0) -> Case:
    """Times a parameter, whose gradient is the value with the batch's statistics."""
    return Case(
        text("batch_norm", x, f"epsilon={epsilon}"),
        (real(*x), real(*x)),
        lambda n, t, factor: n.multiply(n.batch_norm(t, epsilon=epsilon), factor),
        functools.partial(normed, epsilon=epsilon or 1e-5),
        functools.partial(normed_by_running, epsilon=epsilon or 1e-5),
    )


def grouped(x: tuple[int, ...], groups: int, epsilon: float = 0) -> Case:
    return Case(
        text("group_norm", x, groups, f"epsilon={epsilon}"),
        (real(*x),),
        then("group_norm", groups, epsilon),
        lambda t, gamma, beta: F.group_norm(t, groups, gamma, beta, epsilon or 1e-5),
    )


ROWS = [((3, 7), 0), ((5, 33), 1e-3), ((2, 5, 19), 0), ((2, 3, 5, 17), 0), ((67, 601), 0)]

NORMS = [
    *(batch_norm(x) for x in ((9, 5), (5, 3, 7), (3, 7, 5, 4), (2, 3, 4, 5, 3), (4, 16, 6, 6), LARGE)),
    batch_norm((3, 7, 5, 4), 1e-2),
    *(
        Case(
            text("layer_norm", x, f"epsilon={epsilon}"),
            (real(*x),),
            then("layer_norm", epsilon),
            lambda t, gamma, beta, e=epsilon: F.layer_norm(t, t.shape[-1:], gamma, beta, e or 1e-5),
        )
        for x, epsilon in ROWS
    ),
    *(
        Case(
            text("rms_norm", x, f"epsilon={epsilon}"),
            (real(*x),),
            then("rms_norm", epsilon),
            lambda t, gamma, e=epsilon: F.rms_norm(t, t.shape[-1:], gamma, e or None),
        )
        for x, epsilon in ROWS
    ),
    grouped((5, 6), 2),
    grouped((3, 9, 7), 3),
    grouped((2, 10, 5, 3), 5, 1e-3),
    grouped((2, 7, 5, 3), 1),
    grouped((2, 7, 5, 3), 7),
    grouped((3, 15, 29, 31), 5),
]

RESPONSE_NORMS = [
    response_norm((2, 7, 3, 5)),
    response_norm((2, 11, 5, 3), size=3, alpha=0.5, beta=0.6, k=1.5),
    response_norm((2, 11, 5, 3), size=9, alpha=1.0, beta=1.0, k=2.0),
    response_norm((2, 5, 3, 4), size=13, alpha=1.0, beta=0.75, k=1.0),
    response_norm((2, 17, 33, 31), size=5, alpha=1.0, beta=0.75, k=2.0),
]

# ---- Element by element ----

UNARY: list[tuple[str, tuple[Any, ...], Callable[[torch.Tensor], torch.Tensor], Callable[..., Operand]]] = [
    ("relu", (), torch.relu, real),
    ("relu6", (), F.relu6, functools.partial(between, -3, 9)),
    ("gelu", (), F.gelu, real),
    ("gelu_tanh", (), functools.partial(F.gelu, approximate="tanh"), real),
    ("silu", (), F.silu, real),
    ("sigmoid", (), torch.sigmoid, real),
    ("tanh", (), torch.tanh, real),
    ("exp", (), torch.exp, real),
    ("log", (), torch.log, functools.partial(between, 0.3, 3)),
    ("erf", (), torch.erf, real),
    ("sqrt", (), torch.sqrt, functools.partial(between, 0.3, 3)),
    ("power", (2.0,), lambda t: t**2.0, real),
    ("power", (1.7,), lambda t: t ** float(np.float32(1.7)), functools.partial(between, 0.3, 3)),
    ("power", (-0.5,), lambda t: t**-0.5, functools.partial(between, 0.3, 3)),
    ("power", (3.0,), lambda t: t**3.0, real),
    ("power", (-1.0,), lambda t: t**-1.0, apart),
    ("power", (-2.0,), lambda t: t**-2.0, apart),
    ("power", (0.5,), lambda t: t**0.5, functools.partial(between, 0.3, 3)),
    ("power", (1.0,), lambda t: t**1.0, real),
    ("power", (0.0,), lambda t: t**0.0, real),
    ("clip", (-0.5, 0.75), lambda t: t.clamp(-0.5, 0.75), real),
    ("scale", (1.75, -0.375), lambda t: 1.75 * t - 0.375, real),
    ("scale", (-2.5, 0.0), lambda t: -2.5 * t, real),
]

# Values where a function bends, and ones that are far out.
BENDS: list[tuple[str, tuple[Any, ...], Callable[[torch.Tensor], torch.Tensor], Operand]] = [
    ("relu", (), torch.relu, these(-1, 0, 1)),
    ("relu6", (), F.relu6, these(-1, 0, 3, 6, 7)),
    ("clip", (-0.5, 0.75), lambda t: t.clamp(-0.5, 0.75), these(-1, -0.5, 0, 0.75, 1)),
    ("gelu", (), F.gelu, these(-40, -9, -5, -3, 0, 3, 5, 9, 40)),
    ("gelu_tanh", (), functools.partial(F.gelu, approximate="tanh"), these(-40, -9, -5, -3, 0, 3, 5, 9, 40)),
    ("silu", (), F.silu, these(-200, -80, -9, 0, 9, 80, 200)),
    ("sigmoid", (), torch.sigmoid, these(-200, -80, -9, 0, 9, 80, 200)),
    ("tanh", (), torch.tanh, these(-200, -80, -9, -1e-4, 0, 1e-4, 9, 80, 200)),
    ("softmax", (0,), lambda t: t.softmax(0), these(-1000, 997, 1000, 998, 0)),
    ("power", (2.0,), lambda t: t**2.0, these(-2, 0, 2)),
    ("power", (3.0,), lambda t: t**3.0, these(-2, 0, 2)),
    ("power", (1.0,), lambda t: t**1.0, these(-2, 0, 2)),
    ("power", (0.0,), lambda t: t**0.0, these(-2, 0, 2)),
]

BROADCASTS = [
    ((7,), (7,)),
    ((5, 13), (5, 13)),
    (LARGE, LARGE),
    ((5, 7, 9), (9,)),
    ((5, 7, 9), (5, 1, 9)),
    ((5, 1, 9), (1, 7, 1)),
    ((7, 9), (5, 7, 9)),
    ((1,), (3, 5)),
    ((3, 5, 1, 1), (3, 5, 7, 11)),
    ((3, 5, 7, 11), (5, 1, 1)),
    ((2, 1, 3, 1, 5), (4, 1, 2, 1)),
    (LARGE, (53,)),
    ((1, 5, 1, 1), LARGE),
    ((201, 1), (1, 203)),
]
BINARY: list[tuple[str, Callable[..., torch.Tensor], Callable[..., Operand]]] = [
    ("add", torch.add, real),
    ("subtract", torch.sub, real),
    ("multiply", torch.mul, real),
    ("divide", torch.div, apart),
]

ELEMENTWISE = [
    *(
        Case(text(name, *arguments, shape), (make(*shape),), then(name, *arguments), function)
        for (name, arguments, function, make), shape in itertools.product(UNARY, SHAPES)
    ),
    *(
        Case(
            text(name, *arguments, "at its bends"),
            (operand,),
            then(name, *arguments),
            function,
        )
        for name, arguments, function, operand in BENDS
    ),
    *(
        Case(
            text(name, x, y),
            (real(*x), second(*y)),
            same(name),
            function,
        )
        for (name, function, second), (x, y) in itertools.product(BINARY, BROADCASTS)
    ),
    *(
        Case(text(name, "of one tensor"), (second(5, 7),), lambda n, t, o=name: getattr(n, o)(t, t), lambda t, f=f: f(t, t))
        for name, f, second in BINARY
        if name != "divide"  # the gradient is 0, and what is left are roundings
    ),
    *(
        Case(
            text("where", m, x),
            (mask(*m), real(*x), real(*x)),
            same("where"),
            lambda m, x, y: torch.where(m != 0, x, y),
        )
        for m, x in [((7,), (7,)), ((5, 1), (3, 5, 7)), ((5, 7, 1), (5, 7, 9)), ((53,), LARGE), (LARGE, LARGE)]
    ),
    *(
        Case(
            text("masked_fill", x, m, value),
            (real(*x), mask(*m)),
            then("masked_fill", value),
            lambda x, m, v=value: x.masked_fill(m != 0, v),
        )
        for x, m, value in [
            ((7,), (7,), 0.0), ((3, 5, 7), (5, 1), -1.5), ((5, 7, 9), (1, 1, 9), 2.5), (LARGE, (3, 1, 1, 53), -0.75), (LARGE, LARGE, 1.0),
        ]
    ),
    Case(
        "softmax of scores with a mask of -1e9",
        (real(2, 3, 5, 7), mask(5, 7)),
        lambda n, x, m: n.softmax(n.masked_fill(x, m, -1e9), -1),
        lambda x, m: x.masked_fill(m != 0, -1e9).softmax(-1),
    ),
    *(
        Case(text("dropout", x, probability), (real(*x),), then("dropout", probability), None, lambda t: t)
        for x, probability in [((7,), 0.5), ((5, 13), 0.1), (LARGE, 0.9)]
    ),
]  # fmt: skip

# ---- Reductions and shapes ----

REDUCED: list[tuple[tuple[int, ...], list[int] | None]] = [
    ((7,), None),
    ((5, 13), None),
    ((5, 13), [0]),
    ((5, 13), [-1]),
    ((3, 5, 7), [1]),
    ((3, 5, 7), [0, -1]),
    ((2, 3, 5, 7), [0, 2, 3]),
    ((2, 3, 5, 7), [3, 1]),
    ((2, 1, 5), [1]),
    (LARGE, None),
    (LARGE, [1]),
    (LARGE, [0, 2, 3]),
    (LARGE, [-1]),
]
# Borders as in neap_border.
CONSTANT, EDGE, REFLECT, WRAP = 1, 2, 3, 4
TAKEN: list[tuple[tuple[int, ...], int, int, dict[str, Any]]] = [
    ((7,), 0, 3, {"first": 6, "step": -3}),
    ((5, 13), 1, 7, {"step": 2}),
    ((2, 3, 5, 7), 2, 15, {"first": 1, "step": 5, "divisor": 15}),
    ((2, 3, 5, 7), -1, 4, {"first": -1, "step": 7, "divisor": 4, "border": EDGE}),
    ((5, 13), 0, 9, {"first": -3, "border": CONSTANT, "value": -2.5}),
    ((3, 5, 7), 1, 21, {"first": -9, "border": REFLECT}),
    ((3, 1, 7), 1, 4, {"first": -1, "border": REFLECT}),
    ((3, 5, 7), 0, 11, {"first": -4, "border": WRAP}),
    (LARGE, 3, 60, {"first": -3, "border": EDGE}),
    (LARGE, 0, 9, {"first": 2, "step": -1, "border": WRAP}),
]


def taken(
    x: torch.Tensor, axis: int, count: int, first: int = 0, step: int = 1, divisor: int = 1, border: int = 0,
    value: float = 0,
) -> torch.Tensor:  # fmt: skip
    """The elements at these places, by NumPy's padding of the axis's numbers."""
    size = x.shape[axis]
    places = [(first + i * step) // divisor for i in range(count)]
    around = max(0, -min(places)), max(0, max(places) - size + 1)
    if border == CONSTANT:
        ids = [place if 0 <= place < size else size for place in places]
        shape = list(x.shape)
        shape[axis] = 1
        x = torch.cat([x, torch.full(shape, value, dtype=x.dtype)], axis)
    else:
        mode = {0: "edge", EDGE: "edge", REFLECT: "reflect", WRAP: "wrap"}[border]
        padded = np.pad(np.arange(size), around, mode=mode)
        ids = [int(padded[place + around[0]]) for place in places]
    return x.index_select(axis, torch.tensor(ids))


ORDERS: list[tuple[tuple[int, ...], list[int] | None]] = [
    ((5, 7), None),
    ((5, 7), [0, 1]),
    ((3, 5, 7), [1, 0, 2]),
    ((3, 5, 7), [2, 0, 1]),
    ((2, 3, 5, 7), [0, 2, 3, 1]),
    ((2, 3, 5, 7), [0, 2, 1, 3]),
    ((2, 3, 5, 7), [0, 1, -1, -2]),
    ((3, 5, 7), [-1, -3, -2]),
    ((2, 3, 5, 7), None),
    ((2, 3, 1, 5, 4), [4, 2, 0, 3, 1]),
    (LARGE, [3, 1, 2, 0]),
    ((191, 197), None),
]


def all_axes(t: torch.Tensor, axes: list[int] | None) -> list[int]:
    return list(range(t.dim())) if axes is None else axes


def reduced(t: torch.Tensor, name: str, axes: list[int] | None, keep: bool) -> torch.Tensor:
    result = getattr(t, name)(all_axes(t, axes), keepdim=keep)
    return result.reshape(1) if result.dim() == 0 else result


RESHAPED = [
    *(
        Case(
            text(name, x, axes, "keep" if keep else ""),
            (real(*x),),
            then(name, axes, keep),
            functools.partial(reduced, name=name, axes=axes, keep=keep),
        )
        for name in ("sum", "mean")
        for x, axes in REDUCED
        for keep in (False, True)
    ),
    *(
        Case(
            text("take", x, axis, count, described(options)),
            (real(*x),),
            lambda s, t, a=axis, c=count, o=options: s.take(t, a, c, **o),
            functools.partial(taken, axis=axis, count=count, **options),
        )
        for x, axis, count, options in TAKEN
    ),
    *(
        Case(text("expand", x, dims), (real(*x),), then("expand", list(dims)), lambda t, d=dims: t.expand(d))
        for x, dims in [((5, 1, 7), (5, 4, 7)), ((7,), (3, 5, 7)), ((1,), (4, 9)), ((3, 5), (3, 5)), ((5, 1, 53), LARGE)]
    ),
    *(
        Case(text("softmax", x, axis), (real(*x),), then("softmax", axis), functools.partial(torch.softmax, dim=axis))
        for x in ((7,), (5, 13), (3, 5, 7), (2, 3, 5, 7), (211, 203), LARGE)
        for axis in (*range(len(x)), -1)
    ),
    *(
        Case(
            text("transpose", x, order),
            (real(*x),),
            then("transpose", order),
            lambda t, o=order: t.permute(o or list(range(t.dim()))[::-1]),
        )
        for x, order in ORDERS
    ),
    *(
        Case(
            text("concat", *parts, f"axis {axis}"),
            tuple(real(*part) for part in parts),
            lambda n, *parts, a=axis: n.concat(parts, a),
            lambda *parts, a=axis: torch.cat(parts, a),
        )
        for parts, axis in [
            (((3,), (5,)), 0),
            (((2, 3, 5), (4, 3, 5)), 0),
            (((2, 3, 5), (2, 1, 5), (2, 7, 5)), 1),
            (((2, 3, 5), (2, 3, 2)), 2),
            (((2, 3, 5, 7), (2, 5, 5, 7)), 1),
            (((2, 16, 5, 7), (2, 8, 5, 7)), 1),
            (((2, 3, 5, 7), (2, 3, 4, 7)), 2),
            (((2, 3, 5, 7), (2, 3, 5, 1)), 3),
            (((2, 3, 5, 7), (2, 3, 5, 1)), -1),
            (((2, 3, 5, 7), (2, 5, 5, 7)), -3),
            (((3,), (5,)), -1),
            (((2, 3),), 1),
            ((LARGE, LARGE), 1),
        ]
    ),
    Case("concat of a tensor with itself", (real(2, 3, 5),), lambda n, t: n.concat([t, t], 1), lambda t: torch.cat([t, t], 1)),
    *(
        Case(
            text("slice", x, axis, first, count),
            (real(*x),),
            then("slice", axis, first, count),
            lambda t, a=axis, f=first, c=count: t.narrow(a, f, c),
        )
        for x, axis, first, count in [
            ((7,), 0, 2, 3), ((3, 5, 7), 0, 1, 2), ((3, 5, 7), 1, 0, 4), ((3, 5, 7), 2, 6, 1), ((2, 19, 5, 7), 1, 3, 9), ((2, 3, 5, 7), 3, 0, 7),
            ((7,), -1, 2, 3), ((3, 5, 7), -2, 0, 4), ((2, 19, 5, 7), -3, 3, 9),
            (LARGE, 1, 1, 4), (LARGE, 3, 2, 49),
        ]
    ),
    *(
        Case(
            text("split", x, axis, count, "part", part),
            (real(*x),),
            lambda n, t, a=axis, c=count, p=part: n.split(t, a, c)[p],
            lambda t, a=axis, c=count, p=part: t.chunk(c, a)[p],
        )
        for x, axis, count in [((6,), 0, 3), ((4, 5, 7), 0, 2), ((2, 9, 5), 1, 3), ((2, 3, 4), 2, 4), ((2, 3, 4), -1, 2), ((4, 5, 7), -3, 2), ((2, 10, 59, 31), 1, 2)]
        for part in (0, count - 1)
    ),
    Case(
        "split, and all parts used",
        (real(5, 3, 6),),
        lambda n, t: n.subtract(n.multiply(*n.split(t, 2, 2)), n.split(t, 2, 2)[1]),
        lambda t: t[..., :3] * t[..., 3:] - t[..., 3:],
    ),
    *(
        Case(text("reshape", x, dims), (real(*x),), then("reshape", list(dims)), lambda t, d=dims: t.reshape(d))
        for x, dims in [
            ((6,), (2, 3)), ((3, 5, 7), (15, 7)), ((3, 5, 8), (3, -1, 4)), ((2, 3, 5, 7), (-1,)), ((2, 6, 5, 7), (2, 2, 3, 35)), (LARGE, (-1, 53, 5)),
        ]
    ),
    *(Case(text("flatten", x), (real(*x),), same("flatten"), lambda t: t.flatten(1)) for x in ((5, 7), (2, 3, 5), (2, 3, 5, 7), LARGE)),
]  # fmt: skip

# ---- Tables and matrices ----


def picked(table: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
    """Rows; 0 for an invalid number."""
    known = (ids >= 0) & (ids < table.shape[0])
    return torch.where(known.unsqueeze(-1), table[torch.where(known, ids, 0).long()], torch.zeros(()))


def matmul(x: tuple[int, ...], y: tuple[int, ...], x_transposed: bool, y_transposed: bool) -> Case:
    shapes = [
        (*dims[:-2], dims[-1], dims[-2]) if turned else dims for dims, turned in ((x, x_transposed), (y, y_transposed))
    ]

    def function(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return (a.mT if x_transposed else a) @ (b.mT if y_transposed else b)

    name = text("matmul", *shapes, "xT" if x_transposed else "x", "yT" if y_transposed else "y")
    return Case(name, tuple(real(*s) for s in shapes), then("matmul", x_transposed, y_transposed), function)


def definite(x: torch.Tensor) -> torch.Tensor:
    return torch.linalg.cholesky(x @ x.mT)


def cholesky(*shape: int) -> Case:
    """The factor of x x^T, whose gradient PyTorch makes symmetric, too."""
    return Case(
        text("cholesky", shape), (real(*shape),), lambda n, x: n.cholesky(n.matmul(x, x, False, True)), definite
    )


def triangular_solve(shape: tuple[int, ...], columns: int, transposed: bool, right: bool) -> Case:
    """A system with that factor."""
    size = (shape[-2], columns)
    y = (*shape[:-2], *(size[::-1] if right else size))

    def build(n: Any, x: int, y: int) -> int:
        return n.triangular_solve(n.cholesky(n.matmul(x, x, False, True)), y, transposed, right)

    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        factor = definite(x).mT if transposed else definite(x)
        return torch.linalg.solve_triangular(factor, y, upper=transposed, left=not right)

    name = text("triangular_solve", shape, y, "LT" if transposed else "L", "right" if right else "left")
    return Case(name, (real(*shape), real(*y)), build, function)


PRODUCTS = [
    ((3, 5), (5, 7)),
    ((1, 9), (9, 1)),
    ((2, 3, 5), (2, 5, 7)),
    ((2, 3, 5, 7), (2, 3, 7, 4)),
    ((2, 1, 5, 7), (3, 7, 4)),
    ((3, 5), (4, 5, 7)),
    ((4, 3, 5), (5, 7)),
    ((1, 3, 5), (4, 5, 2)),
    ((5, 67, 71), (5, 71, 103)),
    ((203, 199), (199, 207)),
]

TABLES = [
    *(
        Case(
            text("gather", (rows, width), ids.shape),
            (real(rows, width), ids),
            same("gather"),
            lambda table, ids: table[ids.long()],
        )
        for rows, width, ids in [(5, 3, whole(0, 5, 11)), (7, 9, whole(0, 7, 3, 5)), (101, 33, whole(0, 101, 25, 53))]
    ),
    Case("gather with numbers that are no rows", (real(5, 3), whole(-3, 9, 4, 9)), same("gather"), picked),
    *(
        Case(
            text("embedding", (rows, width), ids.shape),
            (ids,),
            then("embedding", rows, width),
            lambda ids, table: F.embedding(ids.long(), table),
        )
        for rows, width, ids in [(3, 7, whole(0, 3, 11)), (11, 5, whole(0, 11, 2, 3, 4)), (97, 45, whole(0, 97, 24, 37))]
    ),
    *(matmul(x, y, a, b) for x, y in PRODUCTS for a, b in itertools.product((False, True), repeat=2)),
    *(cholesky(*shape) for shape in [(1, 3), (5, 40), (2, 3, 4, 32), (3, 70, 560)]),
    *(
        triangular_solve(shape, columns, transposed, right)
        for shape, columns in [((5, 40), 3), ((2, 3, 4, 32), 5), ((70, 560), 67)]
        for transposed in (False, True)
        for right in (False, True)
    ),
    Case("triangular_solve of a lower triangle", (between(1, 2, 5, 5), real(5, 3)), then("triangular_solve", False, False),
         lambda x, y: torch.linalg.solve_triangular(x.tril(), y, upper=False)),
    Case("matmul of a tensor with itself", (real(3, 5, 7),), lambda n, t: n.matmul(t, t, False, True), lambda t: t @ t.mT),
    *(
        Case(text("linear", x, outputs, "bias" if bias else ""), (real(*x),), then("linear", outputs, bias), F.linear)
        for x, outputs in [((5, 7), 3), ((3, 5, 9), 11), ((2, 3, 5, 7), 1), ((1, 1), 1), ((6, 16), 8), ((131, 257), 129)]
        for bias in (False, True)
    ),
    *(
        Case(text("linear_with", x.shape, w.shape), (x, w, b), same("linear_with"), F.linear)
        for x, w, b in [(real(5, 7), real(3, 7), real(3)), (real(2, 3, 7), real(5, 7), real(5))]
    ),
    Case("linear_with without bias", (real(4, 5, 7), real(3, 7)), lambda n, x, w: n.linear_with(x, w, -1), F.linear),
    Case(
        "linear_with, one weight twice",
        (real(5, 7), real(7, 7), real(7)),
        lambda n, x, w, b: n.linear_with(n.tanh(n.linear_with(x, w, b)), w, -1),
        lambda x, w, b: F.linear(F.linear(x, w, b).tanh(), w),
    ),
    Case(
        "linear_with, an embedding's table as weight",
        (real(11, 5), whole(0, 11, 3, 7)),
        lambda n, table, ids: n.linear_with(n.tanh(n.gather(table, ids)), table, -1),
        lambda table, ids: F.linear(table[ids.long()].tanh(), table),
    ),
    Case(
        "attention",
        (real(2, 3, 5, 4), real(2, 3, 7, 4), real(2, 3, 7, 4)),
        lambda n, q, k, v: n.matmul(n.softmax(n.scale(n.matmul(q, k, False, True), 0.5, 0), -1), v, False, False),
        F.scaled_dot_product_attention,
    ),
]  # fmt: skip

# ---- Losses: in evaluation labels are not smoothed ----


def entropy(
    logits: torch.Tensor, labels: torch.Tensor, smoothing: float = 0.0, ignored: int | None = None
) -> torch.Tensor:
    known = (labels >= 0) & (labels < logits.shape[1])
    if ignored is not None:
        known &= labels != ignored
    kept = torch.where(known, labels, -100).long()
    return F.cross_entropy(logits, kept, ignore_index=-100, label_smoothing=smoothing).reshape(1)


def classified(name: str, logits: Operand, labels: Operand, smoothing: float = 0.0) -> Case:
    return Case(
        text("softmax_cross_entropy", name),
        (logits, labels),
        then("softmax_cross_entropy", smoothing),
        functools.partial(entropy, smoothing=smoothing),
        entropy,
        is_loss=True,
    )


def classified_ignoring(name: str, logits: Operand, labels: Operand, ignored: int, smoothing: float = 0.0) -> Case:
    return Case(
        text("softmax_cross_entropy_ignoring", name),
        (logits, labels),
        then("softmax_cross_entropy_ignoring", smoothing, ignored),
        functools.partial(entropy, smoothing=smoothing, ignored=ignored),
        functools.partial(entropy, ignored=ignored),
        is_loss=True,
    )


def tokens(n: Any, logits: int, labels: int) -> int:
    count, length, classes = n.shape(logits)
    flat = n.reshape(logits, [count * length, classes])
    return n.softmax_cross_entropy_ignoring(flat, n.reshape(labels, [count * length]), 0.1, 3)


def linear_entropy(name: str, x: Operand, classes: int, labels: Operand, bias: bool, smoothing: float = 0.0) -> Case:
    def build(n: Any, x: int, labels: int, w: int, b: int = -1) -> int:
        return n.linear_cross_entropy(x, w, b, labels, smoothing=smoothing)

    def held_out(
        x: torch.Tensor, labels: torch.Tensor, w: torch.Tensor, b: Any = None, smooth: float = 0
    ) -> torch.Tensor:
        return entropy(F.linear(x, w, b).flatten(0, -2), labels.flatten(), smooth)

    function = functools.partial(held_out, smooth=smoothing)
    parameters = (real(classes, x.shape[-1]), *([real(classes)] if bias else []))
    return Case(text("linear_cross_entropy", name), (x, labels, *parameters), build, function, held_out, is_loss=True)


def by_time(n: Any, x: int, w: int, b: int, labels: int) -> int:
    """Of x [T, N, K] in two parts, and labels [N, T]."""
    times, batch, _ = n.shape(x)
    loss = n.linear_cross_entropy(n.slice(x, 0, 0, 2), w, b, labels, smoothing=0.1, by_time=True)
    rest = {"smoothing": 0.1, "by_time": True, "first": 2 * batch, "before": loss}
    return n.linear_cross_entropy(n.slice(x, 0, 2, times - 2), w, b, labels, **rest)


def in_parts(n: Any, x: int, w: int, labels: int) -> int:
    loss = n.linear_cross_entropy(n.slice(x, 0, 0, 5), w, -1, labels)
    return n.linear_cross_entropy(n.slice(x, 0, 5, 8), w, -1, labels, first=5, before=loss)


DISTANCES: list[tuple[str, tuple[Any, ...], Callable[..., torch.Tensor], Callable[..., Operand]]] = [
    ("mse_loss", (), F.mse_loss, real),
    ("l1_loss", (), F.l1_loss, real),
    ("smooth_l1_loss", (0.0,), F.smooth_l1_loss, real),
    ("smooth_l1_loss", (0.3125,), functools.partial(F.smooth_l1_loss, beta=0.3125), real),
    ("smooth_l1_loss", (2.5,), functools.partial(F.smooth_l1_loss, beta=2.5), real),
    ("binary_cross_entropy", (), F.binary_cross_entropy_with_logits, functools.partial(between, 0, 1)),
]

ONE_OF_EACH = [
    classified("of classes", real(7, 5), whole(0, 5, 7)),
    classified("of one label", real(1, 3), whole(0, 3, 1)),
    classified("with smoothing", real(9, 11), whole(0, 11, 9), 0.1),
    classified("with labels of no class", real(13, 5), some(0, 1, 2, 3, 4, -1, 255, -100, 5, shape=(13,))),
    classified("with labels of no class, smoothing", real(13, 5), some(0, 1, 2, 4, -1, 255, shape=(13,)), 0.2),
    classified("of pixels", real(2, 3, 5, 7), whole(0, 3, 2, 5, 7)),
    classified("of pixels, smoothing, no class", real(2, 7, 5, 3), some(0, 1, 2, 6, 255, shape=(2, 5, 3)), 0.1),
    classified("of many pixels", real(2, 19, 31, 33), some(0, 1, 2, 18, 255, shape=(2, 31, 33))),
    classified("of many classes", real(37, 1009), whole(0, 1009, 37), 0.1),
    classified("of logits far out", between(-300, 300, 7, 5), whole(0, 5, 7)),
    classified_ignoring("a class", real(11, 5), whole(0, 5, 11), 2),
    classified_ignoring("a class, smoothing", real(11, 5), some(0, 2, 4, -1, shape=(11,)), 2, 0.1),
    classified_ignoring("a class, pixels", real(2, 5, 7, 3), whole(0, 5, 2, 7, 3), 0),
    classified_ignoring("what is no class", real(11, 5), some(0, 1, 4, 255, shape=(11,)), 255),
    Case(
        "softmax_cross_entropy_ignoring of tokens",
        (real(3, 5, 7), whole(0, 7, 3, 5)),
        tokens,
        lambda x, y: entropy(x.flatten(0, 1), y.flatten(), 0.1, 3),
        lambda x, y: entropy(x.flatten(0, 1), y.flatten(), 0, 3),
        is_loss=True,
    ),
    linear_entropy("", real(7, 5), 11, whole(0, 11, 7), False),
    linear_entropy("of tokens, with bias", real(3, 5, 8), 13, whole(0, 13, 3, 5), True),
    linear_entropy("with smoothing", real(9, 6), 7, whole(0, 7, 9), True, 0.1),
    linear_entropy("with labels of no class", real(13, 5), 4, some(0, 3, -1, 4, 255, shape=(13,)), False),
    linear_entropy("of no class, smoothing", real(2, 7, 5), 6, some(0, 5, -1, shape=(2, 7)), True, 0.2),
    linear_entropy("of many classes", real(97, 24), 1009, whole(0, 1009, 97), True, 0.1),
    linear_entropy("in blocks", real(33001, 3), 257, some(0, 1, 63, 64, 255, 256, -1, shape=(33001,)), True, 0.1),
    Case(
        "linear_cross_entropy in two parts",
        (real(13, 5), real(7, 5), some(0, 1, 6, -1, shape=(13,))),
        in_parts,
        lambda x, w, y: entropy(F.linear(x, w), y),
        is_loss=True,
    ),
    Case(
        "linear_cross_entropy by time in two parts",
        (real(5, 3, 6), real(7, 6), real(7), some(0, 1, 6, -1, shape=(3, 5))),
        by_time,
        lambda x, w, b, y: entropy(F.linear(x, w, b).flatten(0, 1), y.mT.flatten(), 0.1),
        lambda x, w, b, y: entropy(F.linear(x, w, b).flatten(0, 1), y.mT.flatten()),
        is_loss=True,
    ),
    *(
        Case(
            text(name, *arguments, shape),
            (real(*shape), target(*shape)),
            then(name, *arguments),
            lambda x, t, f=function: f(x, t).reshape(1),
            is_loss=True,
        )
        for name, arguments, function, target in DISTANCES
        for shape in ((1,), (7,), (5, 13), (2, 3, 5, 7), LARGE)
    ),
    Case(
        "binary_cross_entropy of logits far out",
        (these(-300, -90, -20, 0, 20, 90, 300), between(0, 1, 7)),
        same("binary_cross_entropy"),
        lambda x, t: F.binary_cross_entropy_with_logits(x, t).reshape(1),
        is_loss=True,
    ),
    Case(
        "l1_loss and smooth_l1_loss where the two are equal",
        (these(1, 2, 3, 4), these(1, 3, 2.5, 4)),
        lambda n, x, t: n.add(n.l1_loss(x, t), n.smooth_l1_loss(x, t, 0.5)),
        lambda x, t: (F.l1_loss(x, t) + F.smooth_l1_loss(x, t, beta=0.5)).reshape(1),
        is_loss=True,
    ),
    Case(
        "0.3 cross-entropy + mean of squares + 2 mse",
        (real(7, 5), whole(0, 5, 7), real(7, 5)),
        lambda n, x, y, t: n.add(
            n.add(n.scale(n.softmax_cross_entropy(x, y, 0.1), 0.3, 0), n.mean(n.power(x, 2), None, False)),
            n.scale(n.mse_loss(x, t), 2, 0),
        ),
        lambda x, y, t: 0.3 * entropy(x, y, 0.1) + (x**2).mean() + 2 * F.mse_loss(x, t),
        lambda x, y, t: 0.3 * entropy(x, y) + (x**2).mean() + 2 * F.mse_loss(x, t),
        is_loss=True,
    ),
    Case(
        "two cross-entropies of one tensor of logits",
        (real(7, 5), whole(0, 5, 7), some(0, 1, 255, shape=(7,))),
        lambda n, x, y, z: n.add(n.softmax_cross_entropy(x, y, 0), n.scale(n.softmax_cross_entropy(x, z, 0), 0.5, 1)),
        lambda x, y, z: entropy(x, y) + 0.5 * entropy(x, z) + 1,
        is_loss=True,
    ),
]
# The loss itself; and as a part of a larger one, where its gradient is not 1.
LOSSES = [
    *ONE_OF_EACH,
    *(replace(case, name=f"{case.name}, in a larger loss", is_loss=False) for case in ONE_OF_EACH),
]

ALL = [
    *CONVOLUTIONS,
    *POOLS,
    *RESPONSE_NORMS,
    *NORMS,
    *ELEMENTWISE,
    *RESHAPED,
    *TABLES,
    *SEQUENCES,
    *LOSSES,
]
