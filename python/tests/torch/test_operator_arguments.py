"""Arguments that the library's operators refuse: a failed tensor, a message, and no crash."""

from __future__ import annotations

import itertools
import re
import subprocess
import sys
from dataclasses import dataclass
from math import inf as INFINITY
from math import nan as NAN
from pathlib import Path
from typing import Any

import native
import pytest

# What rows call by name: dtype and shape of inputs.
TENSORS = {
    "image": (native.F32, [2, 6, 8, 10]),
    "other": (native.F32, [3, 6, 8, 10]),
    "channel": (native.F32, [2, 1, 8, 10]),
    "kernels": (native.F32, [3, 6, 3, 3]),
    "cube": (native.F32, [4, 5, 6]),
    "matrix": (native.F32, [4, 5]),
    "square": (native.F32, [5, 5]),
    "wide": (native.F32, [4, 7]),
    "taps": (native.F32, [3, 5]),
    "line": (native.F32, [7]),
    "weights": (native.F32, [4]),
    "numbers": (native.I32, [2, 6, 8, 10]),
    "table": (native.I32, [4, 5]),
    "ids": (native.I32, [4]),
    "more ids": (native.I32, [7]),
    "deep": (native.I32, [1] * 8),
    "mask": (native.U8, [4]),
    "marks": (native.U8, [2, 6, 8, 10]),
}
HUGE, MOST = 2**62, 2**63 - 1
TOO_LARGE = 3


@dataclass(frozen=True)
class Call:
    name: str
    arguments: tuple[Any, ...]
    options: dict[str, Any]

    def __str__(self) -> str:
        return " ".join([self.name, *map(str, self.arguments), *(f"{k}={v}" for k, v in self.options.items())])

    def run(self, n: native.Network, tensors: dict[str, int]) -> int:
        def found(value: Any) -> Any:
            if isinstance(value, (list, tuple)):
                return [found(v) for v in value]
            return tensors[value] if isinstance(value, str) else value

        return getattr(n, self.name)(*map(found, self.arguments), **self.options)

    def tensors(self) -> list[str]:
        """The names of those that it reads, in their order."""
        listed = [v for a in self.arguments for v in (a if isinstance(a, list) else [a])]
        return list(dict.fromkeys(v for v in listed if isinstance(v, str)))


def call(name: str, *arguments: Any, **options: Any) -> Call:
    return Call(name, arguments, options)


# One of each operator that is as it should be.
ALLOWED = [
    call("conv", "image", filters=3, size=3), call("conv_with", "image", "kernels", -1), call("conv_transposed", "image", filters=3, size=3),
    call("batch_norm", "image"),
    call("layer_norm", "image", 0), call("rms_norm", "image", 0), call("group_norm", "image", 3, 0),
    call("relu", "image"), call("relu6", "image"), call("gelu", "image"), call("gelu_tanh", "image"), call("silu", "image"),
    call("sigmoid", "image"), call("tanh", "image"), call("exp", "image"), call("log", "image"), call("erf", "image"), call("sqrt", "image"),
    call("power", "image", 2), call("clip", "image", 0, 1), call("scale", "image", 2, 1), call("cast", "image", native.BF16),
    call("add", "image", "channel"), call("subtract", "image", "channel"), call("multiply", "image", "channel"), call("divide", "image", "channel"),
    call("where", "marks", "image", "image"), call("masked_fill", "image", "marks", 0), call("sum", "image", [1], True), call("mean", "image", None, False),
    call("expand", "channel", [2, 6, 8, 10]), call("softmax", "image", -1), call("transpose", "image", None),
    call("gather", "matrix", "ids"), call("embedding", "ids", 5, 3), call("matmul", "image", "image", False, True),
    call("cholesky", "square"), call("triangular_solve", "square", "matrix", True, True),
    call("concat", ["image", "channel"], 1), call("slice", "image", 1, 2, 3), call("take", "image", 3, 5, first=8, step=-2), call("local_response_norm", "image"),
    call("max_pool", "image", size=2), call("average_pool", "image", size=2), call("global_average_pool", "image"),
    call("adaptive_average_pool", "image", 2), call("crop", "image", height=2, width=3), call("resize", "image", 3, 4, True),
    call("linear", "matrix", 3, True), call("linear_with", "matrix", "matrix", "weights"), call("reshape", "image", [-1, 8]), call("flatten", "image"),
    call("dropout", "image", 0.5), call("softmax_cross_entropy", "matrix", "ids", 0), call("softmax_cross_entropy_ignoring", "matrix", "ids", 0, 1),
    call("softmax_cross_entropy_weighted", "wide", "ids", "line", 0.1),
    call("softmax_cross_entropy_mixed", "matrix", "ids", "ids", "weights", 0.1),
    call("mse_loss", "image", "image"), call("l1_loss", "image", "image"), call("smooth_l1_loss", "image", "image", 1),
    call("binary_cross_entropy", "image", "image"),
    call("sequence_conv", "cube", "taps", 4), call("sequence_conv_from", "cube", "taps", 4, 1), call("glu", "image"), call("swiglu", "image"), call("geglu", "image"),
    call("attention", "image", -1, -1, -1, key_heads=2), call("rotary", "image", 8, 100, 0),
    call("linear_cross_entropy", "matrix", "matrix", "weights", "ids", smoothing=0.1),
    call("sequence_mask", "cube", "ids"), call("sequence_lengths", "table"), call("positions", 5, 6, 2),
]  # fmt: skip

REFUSED = [
    call("input", b"a", native.F32, [0, 3]), call("input", b"a", native.F32, [-1]), call("input", b"a", native.F32, []),
    call("input", b"a", native.F32, [1] * 9), call("input", b"a", native.F32, [HUGE, HUGE]), call("input", None, native.F32, [2]),
    call("input", b"a", 3, [2]), call("input", b"a", 4, [2]), call("input", b"a", 77, [2]), call("input", b"a" * 200, native.F32, [2]),
    call("parameter", b"a", [0]), call("parameter", b"a", []), call("parameter", b"a", [1] * 9), call("parameter", b"a", [HUGE, HUGE]),
    call("parameter", None, [2]), call("parameter", b"a", [2], initial=99), call("parameter", b"a", [2], initial=-1),
    call("parameter", b"a", [2], initial=3, scale=-1), call("parameter", b"a", [2], initial=3, scale=NAN), call("parameter", b"a", [3], initial=2),
    call("conv", "matrix", filters=3, size=3), call("conv", "image", size=3), call("conv", "image", filters=3),
    call("conv", "image", filters=3, size=9), call("conv", "image", filters=3, size=3, stride=-1),
    call("conv", "image", filters=3, size=3, padding=-1), call("conv", "image", filters=3, size=3, dilation=-2),
    call("conv", "image", filters=3, size=3, groups=4), call("conv", "image", filters=3, size=3, groups=-1),
    call("conv", "numbers", filters=3, size=3), call("conv", "image", filters=HUGE, size=3),
    call("conv", "image", filters=3, size=3, padding=HUGE), call("conv", "image", filters=3, size=3, dilation=HUGE),
    call("conv", "image", filters=3, size=3, stride=HUGE), call("conv", "image", filters=-3, size=3),
    call("conv", "image", filters=3, size=3, kernel_height=-1), call("conv", "image", filters=3, size=HUGE, padding=HUGE),
    call("conv", "image", filters=3, size=MOST, padding=MOST, stride=MOST, dilation=MOST),
    call("conv", "image", filters=3, size=3, padding=-MOST - 1, stride=1), call("conv", "image", filters=3, size=3, padding_height=-2),
    call("conv", "image", filters=6, size=3, groups=HUGE),
    call("conv_transposed", "cube", filters=3, size=3), call("conv_transposed", "image", filters=3, size=3, stride=2, output_padding=2),
    call("conv_transposed", "image", filters=3, size=3, stride=2, output_padding=-1),
    call("conv_transposed", "image", filters=3, size=1, padding=40), call("conv_transposed", "image", filters=0, size=1),
    call("conv_transposed", "image", filters=3, size=0), call("conv_transposed", "image", filters=3, size=3, stride=-1),
    call("conv_transposed", "image", filters=3, size=HUGE, stride=HUGE), call("conv_transposed", "numbers", filters=3, size=3),
    call("conv_transposed", "image", filters=HUGE, size=3),
    call("batch_norm", "line"), call("batch_norm", "numbers"), call("batch_norm", "image", epsilon=-1),
    call("batch_norm", "image", momentum=2), call("batch_norm", "image", momentum=-1), call("batch_norm", "image", epsilon=NAN),
    call("layer_norm", "numbers", 0), call("layer_norm", "image", -1), call("layer_norm", "image", NAN),
    call("rms_norm", "numbers", 0), call("rms_norm", "image", -1), call("rms_norm", "image", INFINITY),
    call("group_norm", "image", 4, 0), call("group_norm", "image", 0, 0), call("group_norm", "image", -2, 0),
    call("group_norm", "line", 1, 0), call("group_norm", "image", 2, -1), call("group_norm", "numbers", 2, 0),
    call("group_norm", "image", HUGE, 0),
    call("relu", "numbers"), call("relu", "mask"),
    call("relu6", "numbers"),
    call("gelu", "numbers"),
    call("gelu_tanh", "numbers"),
    call("silu", "numbers"),
    call("sigmoid", "numbers"),
    call("tanh", "numbers"),
    call("exp", "numbers"), call("exp", "mask"),
    call("log", "numbers"), call("erf", "numbers"),
    call("sqrt", "numbers"),
    call("power", "numbers", 2),
    call("clip", "numbers", 0, 1), call("clip", "image", 1, 0), call("clip", "image", NAN, 0),
    call("scale", "numbers", 1, 0),
    call("add", "matrix", "image"), call("add", "numbers", "image"), call("add", "image", "numbers"),
    call("subtract", "matrix", "image"), call("subtract", "numbers", "image"), call("subtract", "image", "numbers"),
    call("multiply", "matrix", "image"), call("multiply", "numbers", "image"), call("multiply", "image", "numbers"),
    call("divide", "matrix", "image"), call("divide", "numbers", "image"), call("divide", "image", "numbers"),
    call("mse_loss", "matrix", "image"), call("mse_loss", "numbers", "image"), call("mse_loss", "image", "numbers"),
    call("mse_loss", "image", "channel"),
    call("l1_loss", "matrix", "image"), call("l1_loss", "numbers", "image"), call("l1_loss", "image", "numbers"),
    call("binary_cross_entropy", "matrix", "image"), call("binary_cross_entropy", "numbers", "image"),
    call("binary_cross_entropy", "image", "numbers"),
    call("where", "image", "image", "image"), call("where", "mask", "image", "matrix"), call("where", "mask", "matrix", "matrix"),
    call("where", "marks", "line", "line"),
    call("masked_fill", "image", "image", 0), call("masked_fill", "matrix", "mask", 0), call("masked_fill", "line", "marks", 0),
    call("sum", "image", [4], False), call("sum", "image", [-5], False), call("sum", "image", [1, 1], False),
    call("sum", "image", [1, -3], True), call("sum", "image", [], False),
    call("sum", "image", [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], False),
    call("sum", "numbers", None, False),
    call("mean", "image", [9], True), call("mean", "numbers", None, False), call("mean", "image", [-(2**31)], True),
    call("mean", "image", [2**31 - 1], True),
    call("expand", "image", [2, 7, 8, 10]), call("expand", "image", [8, 10]), call("expand", "line", [-1, 7]),
    call("expand", "line", [0, 7]), call("expand", "line", [HUGE, HUGE, 7]), call("expand", "line", [1, 1, 1, 1, 1, 1, 1, 1, 7]),
    call("expand", "numbers", [3, 2, 6, 8, 10]), call("expand", "line", [1152921504606846976, 7]),
    call("softmax", "image", 4), call("softmax", "image", -5), call("softmax", "numbers", 0), call("softmax", "image", -(2**31)),
    call("transpose", "image", [0, 0, 1, 2]), call("transpose", "image", [0, 1, 2, 4]), call("transpose", "image", [0, 1, 2, -2]),
    call("transpose", "numbers", None), call("transpose", "image", [0, 1, 2, -(2**31)]),
    call("gather", "matrix", "line"), call("gather", "cube", "ids"), call("gather", "numbers", "ids"), call("gather", "matrix", "mask"),
    call("gather", "matrix", "deep"),
    call("glu", "matrix"), call("swiglu", "matrix"), call("geglu", "matrix"), call("glu", "numbers"),
    call("sequence_conv", "cube", "taps", 5), call("sequence_conv", "cube", "taps", -1), call("sequence_conv", "cube", "matrix", 0),
    call("sequence_conv", "cube", "cube", 0), call("sequence_conv", "cube", "image", 0), call("sequence_conv", "matrix", "taps", 0),
    call("sequence_conv_from", "cube", "taps", 4, -1), call("sequence_conv_from", "cube", "taps", 4, HUGE),
    call("attention", "cube", -1, -1, -1), call("attention", "numbers", -1, -1, -1), call("attention", "image", -1, -1, -1),
    call("attention", "image", -1, -1, -1, key_heads=4), call("attention", "image", -1, -1, -1, key_heads=-1),
    call("attention", "image", "image", -1, -1), call("attention", "image", "other", "other", -1),
    call("attention", "image", "image", "image", "ids"), call("attention", "image", "image", "image", "line"),
    call("attention", "image", -1, -1, -1, key_heads=2, dropout=1), call("attention", "image", -1, -1, -1, key_heads=2, window=-1),
    call("attention", "image", -1, -1, -1, key_heads=2, scale=NAN), call("attention", "image", -1, -1, -1, key_heads=2, dropout=NAN),
    call("rotary", "cube", 0, 0, 0), call("rotary", "numbers", 0, 0, 0), call("rotary", "image", 9, 0, 0), call("rotary", "image", -1, 0, 0),
    call("rotary", "kernels", 0, 0, 0), call("rotary", "image", 0, NAN, 0), call("rotary", "image", 0, -1, 0),
    call("linear_cross_entropy", "matrix", "wide", -1, "ids"), call("linear_cross_entropy", "matrix", "matrix", "line", "ids"),
    call("linear_cross_entropy", "wide", "wide", -1, "line"), call("linear_cross_entropy", "matrix", "matrix", -1, "weights"),
    call("linear_cross_entropy", "matrix", "matrix", -1, "ids", smoothing=2), call("linear_cross_entropy", "matrix", "matrix", -1, "ids", smoothing=NAN),
    call("linear_cross_entropy", "matrix", "matrix", -1, "ids", first=-1), call("linear_cross_entropy", "matrix", "matrix", -1, "ids", first=1, before=-1),
    call("sequence_mask", "cube", "more ids"), call("sequence_mask", "cube", "weights"), call("sequence_mask", "weights", "ids"),
    call("sequence_mask", "table", "ids"), call("sequence_mask", "cube", "table"),
    call("sequence_lengths", "ids"), call("sequence_lengths", "matrix"), call("sequence_lengths", "numbers"),
    call("positions", 0, 6, 0), call("positions", 5, 0, 0), call("positions", 5, 3, 0), call("positions", -1, 6, 0), call("positions", HUGE, 4, 0),
    call("embedding", "line", 5, 3), call("embedding", "ids", 0, 3), call("embedding", "ids", 5, -3),
    call("embedding", "ids", HUGE, HUGE), call("embedding", "ids", HUGE, 1), call("embedding", "deep", 5, 3),
    call("matmul", "matrix", "matrix", False, False), call("matmul", "line", "matrix", False, False),
    call("matmul", "image", "other", False, True), call("matmul", "numbers", "numbers", False, True),
    call("cholesky", "matrix"), call("cholesky", "line"), call("cholesky", "image"), call("cholesky", "table"),
    call("triangular_solve", "matrix", "square", False, False), call("triangular_solve", "square", "matrix", False, False),
    call("triangular_solve", "square", "line", False, True), call("triangular_solve", "square", "cube", False, False),
    call("concat", ["image", "other"], 2), call("concat", [], 0), call("concat", None, 0), call("concat", ["image", "image"], 4),
    call("concat", ["image", "image"], -5), call("concat", ["image", "cube"], 0), call("concat", ["image", "numbers"], 0),
    call("concat", ["numbers", "numbers"], 0), call("concat", ["image", "image"], 2**31 - 1),
    call("slice", "image", 1, 0, 0), call("slice", "image", 1, 3, 4), call("slice", "image", 1, -1, 2), call("slice", "image", 1, 2, -1),
    call("slice", "image", 4, 0, 1), call("slice", "image", -5, 0, 1), call("slice", "image", 1, MOST, 2),
    call("slice", "image", 1, 2, MOST), call("slice", "numbers", 1, 0, 1), call("slice", "image", -(2**31), 0, 1),
    call("local_response_norm", "cube"), call("local_response_norm", "image", size=-1), call("local_response_norm", "image", alpha=NAN),
    call("local_response_norm", "image", k=-1), call("local_response_norm", "image", size=MOST), call("local_response_norm", "numbers"),
    call("max_pool", "image"), call("max_pool", "image", size=9, padding=0), call("max_pool", "image", size=-1),
    call("max_pool", "image", size=2, stride=-1), call("max_pool", "image", size=2, padding=-1),
    call("max_pool", "image", size=2, padding=2), call("max_pool", "image", size=HUGE, padding=HUGE),
    call("max_pool", "image", size=2, stride=HUGE, ceil=True), call("max_pool", "image", size=MOST, padding=MOST, ceil=True),
    call("max_pool", "cube", size=2), call("max_pool", "numbers", size=2),
    call("average_pool", "image"), call("average_pool", "image", size=9, padding=0), call("average_pool", "image", size=-1),
    call("average_pool", "image", size=2, stride=-1), call("average_pool", "image", size=2, padding=-1),
    call("average_pool", "image", size=2, padding=2), call("average_pool", "image", size=HUGE, padding=HUGE),
    call("average_pool", "image", size=2, stride=HUGE, ceil=True), call("average_pool", "image", size=MOST, padding=MOST, ceil=True),
    call("average_pool", "cube", size=2), call("average_pool", "numbers", size=2),
    call("global_average_pool", "matrix"), call("global_average_pool", "numbers"),
    call("adaptive_average_pool", "image", 0), call("adaptive_average_pool", "image", -1), call("adaptive_average_pool", "cube", 2),
    call("adaptive_average_pool", "image", HUGE), call("adaptive_average_pool", "numbers", 2),
    call("crop", "image", top=7, left=0, height=2, width=1), call("crop", "image"),
    call("crop", "image", top=-1, left=0, height=2, width=1), call("crop", "image", top=MOST, left=0, height=2, width=1),
    call("crop", "cube", height=1, width=1), call("crop", "numbers", height=1, width=1),
    call("resize", "image", 0, 3, False), call("resize", "image", 3, -3, True), call("resize", "image", HUGE, HUGE, True),
    call("resize", "cube", 3, 3, False), call("resize", "numbers", 3, 3, False),
    call("take", "image", 4, 2), call("take", "image", 1, 7), call("take", "image", 1, 0), call("take", "image", 1, 2, first=-1),
    call("take", "image", 1, 2, step=MOST), call("take", "image", 1, HUGE, step=HUGE, border=1), call("take", "image", 1, 2, divisor=-1),
    call("take", "image", 1, 2, border=5), call("take", "image", 1, 2, border=-1), call("take", "numbers", 1, 2),
    call("linear", "matrix", 0, True), call("linear", "matrix", -1, True), call("linear", "matrix", HUGE, True),
    call("linear", "numbers", 2, True),
    call("linear_with", "matrix", "wide", -1), call("linear_with", "matrix", "cube", -1), call("linear_with", "matrix", -1, -1),
    call("linear_with", -1, "matrix", -1), call("linear_with", "matrix", 9999, -1), call("linear_with", "matrix", "matrix", 9999),
    call("reshape", "image", [7]), call("reshape", "image", [-1, -1]), call("reshape", "image", [0, -1]),
    call("reshape", "image", [1, 1, 1, 1, 1, 1, 1, 1, -1]), call("reshape", "image", [-2, 480]), call("reshape", "image", [7, -1]),
    call("reshape", "image", []), call("reshape", "image", [HUGE, HUGE, -1]), call("reshape", "image", [4294967296, 4294967296]),
    call("dropout", "image", 1), call("dropout", "image", -0.1), call("dropout", "image", NAN), call("dropout", "numbers", 0.5),
    call("softmax_cross_entropy", "matrix", "line", 0), call("softmax_cross_entropy", "matrix", "more ids", 0),
    call("softmax_cross_entropy", "cube", "ids", 0), call("softmax_cross_entropy", "image", "ids", 0),
    call("softmax_cross_entropy", "matrix", "ids", -0.5), call("softmax_cross_entropy", "matrix", "ids", 2),
    call("softmax_cross_entropy", "matrix", "ids", NAN), call("softmax_cross_entropy", "table", "ids", 0),
    call("softmax_cross_entropy", "matrix", "mask", 0),
    call("softmax_cross_entropy_ignoring", "matrix", "line", 0, 1), call("softmax_cross_entropy_ignoring", "cube", "ids", 0, 1),
    call("softmax_cross_entropy_weighted", "matrix", "ids", "line", 0), call("softmax_cross_entropy_weighted", "matrix", "ids", "mask", 0),
    call("softmax_cross_entropy_mixed", "matrix", "ids", "more ids", "weights", 0), call("softmax_cross_entropy_mixed", "matrix", "ids", "ids", "line", 0),
    call("softmax_cross_entropy_mixed", "matrix", "ids", "weights", "weights", 0), call("softmax_cross_entropy_mixed", "matrix", "ids", "ids", "ids", 0),
    call("softmax_cross_entropy_mixed", "matrix", "ids", -1, "weights", 0), call("softmax_cross_entropy_mixed", "matrix", "ids", "ids", -1, 0),
    call("smooth_l1_loss", "matrix", "image", 1), call("smooth_l1_loss", "matrix", "matrix", -1),
    call("smooth_l1_loss", "matrix", "matrix", NAN), call("smooth_l1_loss", "numbers", "image", 1),
]  # fmt: skip

# What the messages say of shapes: one row of each kind.
MESSAGES = [
    (call("add", "matrix", "wide"), "Add 'add1': shapes [4, 5] of 'matrix' and [4, 7] of 'wide' do not broadcast; dimension 1 is 5 and 7"),
    (call("multiply", "matrix", "image"), "shapes [4, 5] of 'matrix' and [2, 6, 8, 10] of 'image' do not broadcast; dimension 2 is 4 and 8"),
    (call("divide", "image", "numbers"), "'image' [2, 6, 8, 10] is of f32 and 'numbers' [2, 6, 8, 10] of i32, but both must be of one type"),
    (call("relu", "mask"), "Relu 'relu1' takes a tensor of real numbers, but 'mask' is [4] of u8"),
    (call("where", "mask", "image", "matrix"), "'image' is [2, 6, 8, 10] and 'matrix' is [4, 5], but both must be of one shape"),
    (call("where", "mask", "matrix", "matrix"), "the mask 'mask' is [4] of u8; it must be of u8 and broadcast to [4, 5] of 'matrix'"),
    (call("mse_loss", "image", "channel"), "'image' is [2, 6, 8, 10] and 'channel' is [2, 1, 8, 10], but both must be of one shape"),
    (call("softmax_cross_entropy", "cube", "ids", 0), "the labels of 'cube' [4, 5, 6] must be [4, 6] of i32, but 'ids' is [4] of i32"),
    (call("softmax_cross_entropy", "line", "ids", 0), "takes logits [N, classes, pixels...] of real numbers, but 'line' is [7] of f32"),
    (call("conv_with", "image", "channel", -1), "'image' [2, 6, 8, 10] with 1 groups takes weights [filters, channels / groups, rows, columns], but 'channel' is [2, 1, 8, 10]"),
    (call("conv", "cube", filters=3, size=3), "Conv: 3 filters of 3 x 3 in 1 groups do not fit 'cube' [4, 5, 6], which must be [N, C, H, W]"),
    (call("conv", "image", filters=3, size=9), "does not fit the 8 pixels of 'image' [2, 6, 8, 10]"),
    (call("conv_transposed", "cube", filters=3, size=3), "do not fit 'cube' [4, 5, 6], which must be [N, C, H, W]"),
    (call("conv_transposed", "image", filters=3, size=1, padding=40), "padding 40 leaves no pixel of the 8 of 'image' [2, 6, 8, 10]"),
    (call("linear_with", "matrix", "wide", -1), "'matrix' [4, 5] takes weights [outputs, 5], but 'wide' is [4, 7]"),
    (call("linear_with", "matrix", "matrix", "line"), "the bias must be [4], but 'line' is [7]"),
    (call("linear", "line", 3, True), "Linear to 3 outputs: 'line' [7] must be [..., K] with 2 dimensions or more"),
    (call("matmul", "matrix", "wide", False, True), "'matrix' [4, 5] and 'wide' [4, 7] as its transpose must be [..., m, k] and [..., k, n] with one k"),
    (call("matmul", "image", "other", False, True), "shapes [2, 6, 8, 10] of 'image' and [3, 6, 8, 10] of 'other' do not broadcast; dimension 0 is 2 and 3"),
    (call("cholesky", "matrix"), "Cholesky 'cholesky1': 'matrix' [4, 5] must be square matrices [..., n, n]"),
    (call("triangular_solve", "square", "matrix", False, False), "'matrix' [4, 5] must be [..., n, m] with the batch and the n of 'square' [5, 5] [..., n, n]"),
    (call("batch_norm", "line"), "takes [N, C, ...] of real numbers, but 'line' is [7] of f32"),
    (call("group_norm", "image", 4, 0), "'image' [2, 6, 8, 10] must be [N, C, ...] with a C that is a multiple of the 4 groups"),
    (call("max_pool", "image", size=2, padding=2), "MaxPool 'max_pool1' of 'image' [2, 6, 8, 10]: the window is 2 pixels wide and its padding 2"),
    (call("global_average_pool", "matrix"), "takes [N, C, pixels...] of real numbers, but 'matrix' is [4, 5] of f32"),
    (call("adaptive_average_pool", "image", 0), "'image' [2, 6, 8, 10] cannot have 0 rows and columns"),
    (call("crop", "image", top=7, height=2, width=1), "2x1 pixels from (7, 0) are not inside 'image' [2, 6, 8, 10]"),
    (call("resize", "image", 0, 3, False), "'resize1' [2, 6, 0, 3]: dimension 2 is 0, but must be at least 1"),
    (call("sum", "image", [4], False), "Sum 'sum1': 'image' [2, 6, 8, 10] has no axis 4"),
    (call("sum", "image", [1, 1], False), "Sum 'sum1': axis 1 of 'image' [2, 6, 8, 10] is named twice"),
    (call("sum", "image", [], False), "Sum 'sum1': name one or more of the 4 axes of 'image' [2, 6, 8, 10]"),
    (call("expand", "image", [2, 7, 8, 10]), "'image' [2, 6, 8, 10] cannot be made [2, 7, 8, 10]; dimension 1 is 6, and only 1 can be made longer"),
    (call("expand", "image", [8, 10]), "expand of 'image' [2, 6, 8, 10] to 2 dimensions: the number must be 4 to 8"),
    (call("softmax", "image", 4), "Softmax 'softmax1': 'image' [2, 6, 8, 10] has no axis 4; axes are -4 to 3"),
    (call("slice", "image", -5, 0, 1), "Slice 'slice1': 'image' [2, 6, 8, 10] has no axis -5; axes are -4 to 3"),
    (call("concat", ["line", "line"], -2), "Concat 'concat1': 'line' [7] has no axis -2; axes are -1 to 0"),
    (call("transpose", "image", [0, 0, 1, 2]), "the order [0, 0, 1, 2] must have each axis of 'image' [2, 6, 8, 10] once"),
    (call("concat", ["image", "other"], 2), "'image' [2, 6, 8, 10] and 'other' [3, 6, 8, 10] must be equal in all but axis 2"),
    (call("slice", "image", 1, 3, 4), "axis 1 of 'image' [2, 6, 8, 10] has 6 elements; it does not have 4 from 3 on"),
    (call("take", "image", 1, 4, first=4, step=-2), "axis 1 of 'image' [2, 6, 8, 10] has 6 elements; places 4 to -2 are not all among them"),
    (call("gather", "matrix", "line"), "row numbers must be of i32 with fewer than 8 dimensions, but 'line' is [7] of f32"),
    (call("reshape", "image", [7, -1]), "reshape of 'image' [2, 6, 8, 10] to [7, -1]: the new shape does not have its 960 elements"),
]  # fmt: skip

NO_TENSORS = (-1, -(2**31), 999, 2**31 - 1)

# What should be refused: a bias of fewer elements is read past its end, integers are read as if they were real.
UNCHECKED = [
    call("linear_with", "matrix", "matrix", "line"),
    call("linear_with", "wide", "wide", "cube"),
    call("linear_with", "matrix", "matrix", "ids"),
    call("linear_with", "matrix", "table", -1),
]


def declare(n: native.Network) -> dict[str, int]:
    return {name: n.input(name.encode(), dtype, dims) for name, (dtype, dims) in TENSORS.items()}


def refused_tensor(n: native.Network, tensor: int) -> None:
    assert tensor < 0
    assert n.shape(tensor) == ()


def refused(n: native.Network, tensor: int, statuses: tuple[int, ...] = (native.INVALID_ARGUMENT,)) -> None:
    """The tensor is one that failed, and the graph says why."""
    refused_tensor(n, tensor)
    with pytest.raises(native.Failed, match=r"\w+ \w+") as failed:
        n.finish(tensor)
    assert failed.value.status in statuses


@pytest.mark.parametrize("row", REFUSED, ids=str)
def test_refused(library: native.Library, row: Call) -> None:
    with native.network(library) as n:
        refused(n, row.run(n, declare(n)), (native.INVALID_ARGUMENT, TOO_LARGE))


@pytest.mark.parametrize("row,message", MESSAGES, ids=str)
def test_message(library: native.Library, row: Call, message: str) -> None:
    with native.network(library) as n, pytest.raises(native.Failed, match=re.escape(message)):
        n.finish(row.run(n, declare(n)))


@pytest.mark.parametrize("row", UNCHECKED, ids=str)
def test_refused_by_linear_with(library: native.Library, row: Call) -> None:
    with native.network(library) as n:
        refused(n, row.run(n, declare(n)))


@pytest.mark.parametrize("axis,count", [(1, 4), (1, 0), (1, -3), (4, 2), (-3, 4), (-5, 2), (-(2**31), 2)])
def test_refused_split(library: native.Library, axis: int, count: int) -> None:
    with native.network(library) as n:
        parts = n.split(declare(n)["image"], axis, count)
        assert count < 1 or all(part < 0 for part in parts)
        refused(n, -1)


@pytest.mark.parametrize("row", ALLOWED, ids=str)
def test_failed_tensors(library: native.Library, row: Call) -> None:
    """Allowed arguments work; with a failed or invalid tensor as any argument the call returns a failed one."""
    with native.network(library) as n:
        assert row.run(n, declare(n)) >= 0
    with native.network(library) as n:
        tensors = declare(n)
        failed = n.softmax(tensors["line"], 7)
        for name in row.tensors():
            refused_tensor(n, row.run(n, tensors | {name: failed}))
    for name, wrong in itertools.product(row.tensors(), NO_TENSORS):
        no_bias = name == "weights" and wrong < 0
        is_second = row.name in NO_SECOND and name == row.tensors()[1] and wrong == -1  # a test of its own
        if not no_bias and not is_second:
            with native.network(library) as n:
                refused(n, row.run(n, declare(n) | {name: wrong}))


# Calls in a process of their own whose second tensor is -1.
NO_SECOND = {
    **{name: f"n.{name}(x, -1)" for name in ("add", "subtract", "multiply", "divide")},
    "gather": "n.gather(x, -1)",
    "concat": "n.concat([x, -1], 0)",
}
CALL = """
import sys
sys.path.insert(0, sys.argv[1])
import native
with native.network(native.Library(native.LIBRARY)) as n:
    x = n.input(b"x", native.F32, [3, 5])
    sys.exit(eval(sys.argv[2]) >= 0)
"""


@pytest.mark.parametrize("name", NO_SECOND)
def test_no_second_tensor(library: native.Library, name: str) -> None:
    child = [sys.executable, "-c", CALL, str(Path(__file__).parent), NO_SECOND[name]]
    assert subprocess.run(child, capture_output=True).returncode == 0


@pytest.mark.parametrize("row", ALLOWED, ids=str)
def test_no_builder(library: native.Library, row: Call) -> None:
    n = native.Network(library)
    tensors = declare(n)
    n.free()
    n.builder = None
    assert row.run(n, tensors) < 0


def test_every_operator_is_here() -> None:
    assert {row.name for row in ALLOWED} == native.OPERATORS.keys() - {"input", "parameter"}


def test_names_are_given_once(library: native.Library) -> None:
    with native.network(library) as n:
        x = n.input(b"x", native.F32, [3])
        n.parameter(b"x", [3])
        with pytest.raises(native.Failed, match="'x'"):
            n.finish(n.sum(x, None, False))


@pytest.mark.parametrize("wrong", ["matrix", "ids"])
def test_loss_is_one_real_number(library: native.Library, wrong: str) -> None:
    with native.network(library) as n, pytest.raises(native.Failed, match="loss"):
        n.finish(declare(n)[wrong])
