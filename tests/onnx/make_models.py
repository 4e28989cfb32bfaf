"""Writes the small ONNX files that the tests of C read, into this folder. Needs the package onnx."""

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

HERE = Path(__file__).resolve().parent
RANDOM = np.random.default_rng(0)


def weight(name: str, *dims: int) -> onnx.TensorProto:
    return numpy_helper.from_array((0.3 * RANDOM.standard_normal(dims)).astype(np.float32), name)


def constant(name: str, values: list[int]) -> onnx.TensorProto:
    return helper.make_tensor(name, TensorProto.INT64, [len(values)], values)


def value(name: str, dims: list, kind: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, dims)


def save(name: str, nodes: list, inputs: list, outputs: list, weights: list, opset: int = 18, **how) -> None:
    graph = helper.make_graph(nodes, name, inputs, outputs, weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    onnx.save(model, HERE / f"{name}.onnx", **how)


def norm(channels: int) -> list[onnx.TensorProto]:
    ones, zeros = np.ones(channels, np.float32), np.zeros(channels, np.float32)
    parts = {"scale": ones, "offset": zeros, "mean": zeros, "variance": ones}
    return [numpy_helper.from_array(array.copy(), f"norm.{part}") for part, array in parts.items()]


def classifier(name: str, batch, **how) -> None:
    """Images [N, 1, 8, 8] to 10 classes."""
    nodes = [
        helper.make_node("Conv", ["x", "conv.weight"], ["a"], name="conv", pads=[1, 1, 1, 1]),
        helper.make_node("BatchNormalization", ["a", "norm.scale", "norm.offset", "norm.mean", "norm.variance"], ["b"], name="norm"),
        helper.make_node("Relu", ["b"], ["c"], name="relu"),
        helper.make_node("GlobalAveragePool", ["c"], ["d"], name="pool"),
        helper.make_node("Reshape", ["d", "shape"], ["e"], name="flatten"),
        helper.make_node("Gemm", ["e", "head.weight", "head.bias"], ["logits"], name="head", transB=1),
    ]
    shape = [-1, 4] if isinstance(batch, str) else [batch, 4]
    weights = [weight("conv.weight", 4, 1, 3, 3), *norm(4), constant("shape", shape)]
    weights += [weight("head.weight", 10, 4), weight("head.bias", 10)]
    save(name, nodes, [value("x", [batch, 1, 8, 8])], [value("logits", [batch, 10])], weights, **how)


def tokens() -> None:
    """Tokens [N, T] to 16 words, with places and a causal mask."""
    nodes = [
        helper.make_node("Shape", ["input_ids"], ["shape"], name="shape"),
        helper.make_node("Gather", ["shape", "one"], ["length"], name="length"),
        helper.make_node("Range", ["zero", "length", "one"], ["places"], name="range"),
        helper.make_node("Gather", ["words", "input_ids"], ["w"], name="embed"),
        helper.make_node("Gather", ["positions", "places"], ["p"], name="place"),
        helper.make_node("Add", ["w", "p"], ["x"], name="sum"),
        helper.make_node("Transpose", ["x"], ["t"], name="transpose", perm=[0, 2, 1]),
        helper.make_node("MatMul", ["x", "t"], ["s"], name="scores"),
        helper.make_node("Unsqueeze", ["places", "one_axis"], ["rows"], name="rows"),
        helper.make_node("LessOrEqual", ["places", "rows"], ["seen"], name="seen"),
        helper.make_node("Where", ["seen", "s", "never"], ["m"], name="mask"),
        helper.make_node("Softmax", ["m"], ["a"], name="softmax", axis=-1),
        helper.make_node("MatMul", ["a", "x"], ["y"], name="mix"),
        helper.make_node("MatMul", ["y", "head"], ["logits"], name="head"),
    ]
    scalars = {"zero": 0, "one": 1}
    weights = [numpy_helper.from_array(np.array(number, np.int64), name) for name, number in scalars.items()]
    weights += [numpy_helper.from_array(np.array(-np.inf, np.float32), "never"), constant("one_axis", [1])]
    weights += [weight("words", 16, 8), weight("positions", 12, 8), weight("head", 8, 16)]
    inputs = [value("input_ids", ["batch", "length"], TensorProto.INT64)]
    save("tokens", nodes, inputs, [value("logits", ["batch", "length", 16])], weights)


def features() -> None:
    nodes = [
        helper.make_node("Gemm", ["x", "first.weight", "first.bias"], ["a"], name="first", transB=1),
        helper.make_node("Tanh", ["a"], ["b"], name="tanh"),
        helper.make_node("Gemm", ["b", "second.weight"], ["y"], name="second", transB=1),
    ]
    weights = [weight("first.weight", 6, 5), weight("first.bias", 6), weight("second.weight", 3, 6)]
    save("features", nodes, [value("x", ["batch", 5])], [value("y", ["batch", 3])], weights)


def bad() -> None:
    """What is refused, by the message that names it."""
    x, y = [value("x", ["batch", 5])], [value("y", ["batch", 5])]
    save("bad-operator", [helper.make_node("Hardmax", ["x"], ["y"], name="top")], x, y, [])
    save("bad-domain", [helper.make_node("Fused", ["x"], ["y"], name="own", domain="com.example")], x, y, [])
    save("bad-opset", [helper.make_node("Add", ["x", "w"], ["y"], name="sum")], x, y, [weight("w", 5)], opset=6)
    cycle = [helper.make_node("Add", ["x", "b"], ["a"], name="one"), helper.make_node("Relu", ["a"], ["b"], name="two")]
    save("bad-cycle", [*cycle, helper.make_node("Relu", ["b"], ["y"], name="three")], x, y, [])
    twice = [helper.make_node("Relu", ["x"], ["y"], name="one"), helper.make_node("Tanh", ["x"], ["y"], name="two")]
    save("bad-twice", twice, x, y, [])
    pads = helper.make_node("Conv", ["x", "w"], ["y"], name="conv", pads=[0, 0, 1, 1])
    save("padded", [pads], [value("x", ["batch", 1, 8, 8])], y, [weight("w", 2, 1, 3, 3)])
    save("bad-inputs", [helper.make_node("Add", ["x", "z"], ["y"], name="sum")], [*x, value("z", ["batch", 5])], y, [])
    huge = helper.make_tensor("w", TensorProto.FLOAT, [1], [0.0])
    huge.dims[:] = [1 << 62, 1 << 62]
    save("bad-dims", [helper.make_node("Add", ["x", "w"], ["y"], name="sum")], x, y, [huge])
    outside = weight("w", 5)
    outside.ClearField("raw_data")
    outside.data_location = TensorProto.EXTERNAL
    outside.external_data.add(key="location", value="../weights.bin")
    save("bad-location", [helper.make_node("Add", ["x", "w"], ["y"], name="sum")], x, y, [outside])


def main() -> None:
    classifier("images", "batch")
    classifier("images-of-2", 2)
    classifier("external", "batch", save_as_external_data=True, location="external.data", size_threshold=0)
    tokens()
    features()
    bad()


main()
