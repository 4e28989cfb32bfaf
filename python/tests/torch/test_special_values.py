"""Elementwise operators, the library's and ONNX's, beside PyTorch where functions bend, are tied or leave the numbers: values, and
gradients by the one of PyTorch's subgradients."""

from __future__ import annotations

import ctypes
import ctypes.util
import functools
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import native
import numpy as np
import operators
import pytest
import torch
from torch.nn import functional as F

onnx = pytest.importorskip("onnx")
runtime = pytest.importorskip("onnxruntime")

BUILD = native.LIBRARY.parent
NEAP, RUN_ONNX = BUILD / "neap", BUILD / "tests" / "run_onnx"
if not (NEAP.is_file() and RUN_ONNX.is_file()):
    pytest.skip(f"{BUILD} has no neap and run_onnx (make checks)", allow_module_level=True)

c_power = ctypes.CDLL(ctypes.util.find_library("m")).pow
c_power.restype, c_power.argtypes = ctypes.c_double, [ctypes.c_double, ctypes.c_double]

Function = Callable[[torch.Tensor], torch.Tensor]

TINY = float(np.finfo(np.float32).tiny)
FINITE = [0.0, -0.0, TINY / 4, -TINY / 4, TINY, -TINY, 1e-4, -1e-4, 0.5, -0.5, 1, -1, 2.5, -2.5, 3, -3, 6, -6, 20, -20]
FAR = [np.inf, -np.inf, np.nan, 3e38, -3e38, 100, -100]
POSITIVE = [1e-4, 0.5, 1, 2.5, 3, 6, 20]

# Operator, attributes, PyTorch's function, the points at which its gradient is a number.
ONNX: list[tuple[str, dict[str, Any], Function, list[float]]] = [
    ("Abs", {}, torch.abs, FINITE),
    ("Elu", {"alpha": 0.75}, functools.partial(F.elu, alpha=0.75), FINITE),
    ("Erf", {}, torch.erf, FINITE),
    ("Exp", {}, torch.exp, FINITE),
    ("Gelu", {}, F.gelu, FINITE),
    ("Gelu", {"approximate": "tanh"}, functools.partial(F.gelu, approximate="tanh"), FINITE),
    ("HardSigmoid", {"alpha": 1 / 6, "beta": 0.5}, F.hardsigmoid, FINITE),
    ("HardSwish", {}, F.hardswish, FINITE),
    ("LeakyRelu", {}, F.leaky_relu, FINITE),
    ("LeakyRelu", {"alpha": 0.25}, functools.partial(F.leaky_relu, negative_slope=0.25), FINITE),
    ("Log", {}, torch.log, POSITIVE),
    ("Mish", {}, F.mish, FINITE),
    ("Neg", {}, torch.neg, FINITE),
    ("Reciprocal", {}, torch.reciprocal, POSITIVE),
    ("Relu", {}, torch.relu, FINITE),
    ("Selu", {}, F.selu, FINITE),
    ("Sigmoid", {}, torch.sigmoid, FINITE),
    ("Softplus", {}, F.softplus, FINITE),
    ("Softsign", {}, F.softsign, FINITE),
    ("Sqrt", {}, torch.sqrt, POSITIVE),
    ("Swish", {"alpha": 1.0}, F.silu, FINITE),
    ("Tanh", {}, torch.tanh, FINITE),
]
OPSETS = {"Swish": 24, "Gelu": 20, "Mish": 18, "HardSwish": 14}


def made(nodes: list[Any], name: str, shapes: dict[str, list[int | str]], given: dict[str, np.ndarray]) -> Any:
    """A model from x to y."""
    values = {k: onnx.helper.make_tensor_value_info(k, onnx.TensorProto.FLOAT, dims) for k, dims in shapes.items()}
    constants = [onnx.numpy_helper.from_array(value, key) for key, value in given.items()]
    graph = onnx.helper.make_graph(nodes, "g", [values["x"]], [values["y"]], constants)
    opset = onnx.helper.make_opsetid("", OPSETS.get(name, 17))
    return onnx.helper.make_model(graph, opset_imports=[opset], ir_version=10)


def rows(cases: list[Any]) -> list[Any]:
    return [pytest.param(case, id=" ".join(map(str, (case[0], *case[1].values())))) for case in cases]


def agrees(what: str, points: list[float], got: np.ndarray, wanted: np.ndarray, tolerance: float = 2e-5) -> None:
    """Within the tolerance, of the number where it is larger than 1."""
    close = np.isclose(got, wanted, rtol=tolerance, atol=tolerance, equal_nan=True)
    wrong = [f"{points[i]}: {got[i]}, PyTorch has {wanted[i]}" for i in np.flatnonzero(~close)]
    assert not wrong, f"{what} at {'; '.join(wrong)}"


@pytest.mark.parametrize("row", rows(ONNX))
def test_values_of_onnx(tmp_path: Path, row: tuple[str, dict[str, Any], Function, list[float]]) -> None:
    name, attributes, function, _ = row
    points = FINITE + FAR
    x = np.array([points], np.float32)
    node = onnx.helper.make_node(name, ["x"], ["y"], **attributes)
    model = made([node], name, {"x": [1, len(points)], "y": [1, len(points)]}, {})
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    x.tofile(tmp_path / "input_0.bin")
    done = subprocess.run([RUN_ONNX, tmp_path / "m.onnx", tmp_path], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    got = np.fromfile(tmp_path / "output_0.bin", np.float32)
    with np.errstate(over="ignore"):
        agrees(name, points, got, function(torch.tensor(x).double()).numpy()[0].astype(np.float32))


def trained(folder: Path, model: Any, points: int) -> np.ndarray:
    """The parameter w after a step of plain SGD at rate 64 on records of zeros, one of each class."""
    from safetensors.numpy import load_file

    (folder / "m.onnx").write_bytes(model.SerializeToString())
    x, y = np.zeros((points, points), np.float32), np.arange(points)
    np.savez(folder / "data.npz", x_train=x, y_train=y, x_test=x, y_test=y)
    step = ["--batch", points, "--steps", 1, "--lr", 64, "--schedule", "constant", "--momentum", 0, "--weight-decay", 0]
    command = [NEAP, "train", "--model", f"onnx:{folder}/m.onnx", "--data", f"npz:{folder}/data.npz,standardise=off",
               *step, "--out", folder / "run"]  # fmt: skip
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return load_file(next((folder / "run").glob("*.safetensors")))


@pytest.mark.parametrize("row", rows([*ONNX, ("PRelu", {}, None, FINITE)]))
def test_gradients_of_onnx(tmp_path: Path, row: tuple[str, dict[str, Any], Function | None, list[float]]) -> None:
    name, attributes, function, points = row
    w = np.array(points, np.float32)
    nodes = [onnx.helper.make_node("Add", ["x", "w"], ["z"])]
    given = {"w": w}
    if function is None:
        given["slope"] = np.full(len(points), 0.25, np.float32)
        nodes.append(onnx.helper.make_node(name, ["z", "slope"], ["u"]))
    else:
        nodes.append(onnx.helper.make_node(name, ["z"], ["u"], **attributes))
    nodes.append(onnx.helper.make_node("Mul", ["u", "share"], ["y"]))  # so that no logit is alone
    given["share"] = np.array(2.0**-24 if name == "Exp" else 2.0**-4, np.float32)
    model = made(nodes, name, {"x": ["n", len(points)], "y": ["n", len(points)]}, given)
    found = trained(tmp_path, model, len(points))
    leaves = {key: torch.tensor(given[key], requires_grad=True) for key in ("w", "slope") if key in given}
    z = torch.zeros(len(points), len(points)) + leaves["w"]
    u = F.prelu(z, leaves["slope"]) if function is None else function(z)
    loss = F.cross_entropy(u * float(given["share"]), torch.arange(len(points)))
    for (key, leaf), gradient in zip(leaves.items(), torch.autograd.grad(loss, list(leaves.values())), strict=True):
        moved = (given[key].astype(np.float64) - found[key]) / 64
        agrees(f"the gradient of {name} by {key}", points, moved, gradient.numpy())
        assert leaf.grad is None and np.abs(moved).max() > 0


def power(x: list[float], exponent: float) -> torch.Tensor:
    """As IEEE 754 says; PyTorch's is another one for some exponents."""
    return torch.tensor([c_power(value, float(np.float32(exponent))) for value in x], dtype=torch.float64)


def stored(exact: torch.Tensor, kind: torch.dtype) -> np.ndarray:
    """Numbers as an output has them: finite ones that are too large for f16 become its largest."""
    exact = exact.float()
    if kind == torch.float16:
        exact = torch.where(exact.isfinite(), exact.clamp(-65504, 65504), exact)
    return exact.to(kind).float().numpy()


# The reference backend has f32 alone.
WAYS = {
    "f32": (native.CPU, native.F32), "reference": (native.REFERENCE, native.F32),
    "bf16": (native.CPU, native.BF16), "f16": (native.CPU, native.F16),
}  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("row", operators.UNARY, ids=lambda row: " ".join(map(str, (row[0], *row[1]))))
def test_operators(library: native.Library, row: tuple[Any, ...], way: str) -> None:
    """Values of all points, and gradients of those where PyTorch's are numbers."""
    name, arguments, function, _ = row
    backend, precision = WAYS[way]
    kind, tolerance = {
        native.F32: (torch.float32, 2e-5),
        native.BF16: (torch.bfloat16, 2**-7),
        native.F16: (torch.float16, 2**-9),
    }[precision]
    x = torch.tensor(FINITE + FAR).to(kind).float().requires_grad_()
    y = function(x)
    (slope,) = torch.autograd.grad(y.sum(), x)
    exact = function(x.detach().double()) if name != "power" else power(x.tolist(), arguments[0])
    options = {"backend": backend} | (
        {} if precision == native.F32 else {"precision": precision, "master": True, "loss_scale": 1}
    )
    largest = float(torch.finfo(kind).max)
    with native.network(library) as n:
        made = getattr(n, name)(n.parameter(b"x", [len(x)]), *arguments)
        n.output("y", made)
        with (
            native.finished(library, n, n.sum(made, None, False)) as graph,
            native.session(library, graph, predict=True, **options) as s,
        ):
            s.write("x", x.detach().numpy())
            s.predict()
            agrees(name, x.tolist(), s.output("y"), stored(exact, kind), tolerance)
    # A step is refused where its loss is no number, or a sum does not fit.
    usable = [i for i, (a, b, c) in enumerate(zip(x.tolist(), y.tolist(), slope.tolist(), strict=True))
              if max(abs(a), abs(b), abs(c)) < min(largest, 1e5) / 64]  # fmt: skip
    before, wanted = x.detach().numpy()[usable], slope.numpy()[usable]
    with native.network(library) as n:
        made = getattr(n, name)(n.parameter(b"x", [len(usable)]), *arguments)
        with (
            native.finished(library, n, n.sum(made, None, False)) as graph,
            native.session(library, graph, **options) as s,
        ):
            s.write("x", before)
            s.step(1.0)
            moved = before.astype(np.float64) - s.read("x")
    agrees(f"the gradient of {name}", before.tolist(), moved, wanted, tolerance)
