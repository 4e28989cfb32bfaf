"""ONNX files: what the command and the library make of graphs that PyTorch exports, and of ONNX's own node tests, against ONNX
Runtime and PyTorch; and what `neap export` writes, against ONNX Runtime."""

from __future__ import annotations

import json
import logging
import subprocess
import warnings
from pathlib import Path

import native
import numpy as np
import pytest
import torch
from quick import LEAST
from torch import nn
from torch.nn import functional as F

onnx = pytest.importorskip("onnx")
runtime = pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")
import onnx_nodes  # noqa: E402

BUILD = native.LIBRARY.parent
NEAP, RUN_ONNX = BUILD / "neap", BUILD / "tests" / "run_onnx"
if not (NEAP.is_file() and RUN_ONNX.is_file()):
    pytest.skip(f"{BUILD} has no neap and run_onnx (make checks)", allow_module_level=True)


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(8, 8, 3, stride=2, padding=1, groups=4), nn.Hardswish(), nn.AvgPool2d(2), nn.Flatten(),
            nn.Dropout(0.0), nn.Linear(32, 10),
        )  # fmt: skip

    def forward(self, x):
        return self.layers(x)


class Features(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(5, 16), nn.LayerNorm(16), nn.GELU(), nn.Linear(16, 16), nn.SiLU(), nn.Linear(16, 3)
        )

    def forward(self, x):
        return self.layers(x)


class Language(nn.Module):
    """A block of a decoder: places, causal attention, a layer of GELU by tanh."""

    def __init__(self, words: int = 32, width: int = 16, heads: int = 2, length: int = 24):
        super().__init__()
        self.words, self.places, self.heads = nn.Embedding(words, width), nn.Embedding(length, width), heads
        self.norm, self.last = nn.LayerNorm(width), nn.LayerNorm(width)
        self.query, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mix = nn.Sequential(nn.Linear(width, 32), nn.GELU(approximate="tanh"), nn.Linear(32, width))
        self.head = nn.Linear(width, words, bias=False)

    def forward(self, tokens):
        x = self.words(tokens) + self.places(torch.arange(tokens.shape[1]))
        batch, times, width = x.shape
        parts = self.query(self.norm(x)).view(batch, times, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(parts[0], parts[1], parts[2], is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(batch, times, width))
        return self.head(self.last(x + self.mix(x)))


MODELS = {
    "classifier": (Classifier, lambda n: torch.randn(n, 3, 16, 16), {0: "batch"}),
    "features": (Features, lambda n: torch.randn(n, 5), {0: "batch"}),
    "language": (Language, lambda n: torch.randint(0, 32, (n, 12)), {0: "batch", 1: "length"}),
}
FORMS = {
    "folded": (20, True, True),
    "plain": (18, False, True),
    "fixed": (18, False, False),
}  # opset, optimize, dynamic


def export(folder: Path, name: str, form: str, external: bool = False) -> tuple[nn.Module, Path]:
    torch.manual_seed(3)
    make, draw, dims = MODELS[name]
    opset, optimize, dynamic = FORMS[form]
    model, path = make().eval(), folder / f"{name}-{form}.onnx"
    logging.disable(logging.WARNING)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        shapes = (dims,) if dynamic else None
        program = torch.onnx.export(
            model, (draw(2),), dynamo=True, opset_version=opset, optimize=optimize, verbose=False, dynamic_shapes=shapes
        )
        program.save(str(path), external_data=external)
    logging.disable(logging.NOTSET)
    return model, path


def neap(*arguments: object) -> str:
    done = subprocess.run([NEAP, *map(str, arguments)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", MODELS)
def test_outputs_are_those_of_onnx_runtime(tmp_path, name, form):
    _, path = export(tmp_path, name, form, external=form == "folded")
    session = runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    given = session.get_inputs()[0]
    shape = [size if isinstance(size, int) else 2 for size in given.shape]
    feed = (
        np.random.default_rng(1).integers(0, 32, shape)
        if name == "language"
        else np.float32(np.random.default_rng(1).normal(size=shape))
    )
    done = onnx_nodes.run_plain(RUN_ONNX, path, tmp_path, [feed])
    assert done.returncode == 0, done.stderr
    wanted = session.run(None, {given.name: feed})[0]
    got = np.fromfile(tmp_path / "output_0.bin", np.float32).reshape(wanted.shape)
    np.testing.assert_allclose(got, wanted, atol=1e-5)


STEPS, BATCH, LENGTH = 3, 4, 12


def records(name: str, folder: Path) -> tuple[str, list, list[object]]:
    """Data for the command, and the batches that it makes of them."""
    random = np.random.default_rng(2)
    if name == "language":
        ids = random.integers(0, 32, (BATCH * STEPS + 2) * LENGTH).astype(np.int32)
        np.save(folder / "ids.npy", ids)
        batches = []
        for k in range(STEPS):
            part = torch.tensor(ids[k * BATCH * LENGTH : (k + 1) * BATCH * LENGTH + 1].astype(np.int64))
            batches.append((part[:-1].view(BATCH, LENGTH), part[1:].view(BATCH, LENGTH)))
        return f"tokens:{folder}/ids.npy,test={folder}/ids.npy", batches, ["--length", LENGTH]
    shape = (BATCH * STEPS, *MODELS[name][1](1).shape[1:])
    x, y = random.normal(size=shape).astype(np.float32), random.integers(0, 3, BATCH * STEPS)
    y[:3] = [0, 1, 2]
    np.savez(folder / "data.npz", x_train=x, y_train=y, x_test=x, y_test=y)
    batches = [(torch.tensor(x[k : k + BATCH]), torch.tensor(y[k : k + BATCH])) for k in range(0, len(x), BATCH)]
    return f"npz:{folder}/data.npz,standardise=off", batches, []


def train(path: Path, data: str, out: Path, *more: object) -> dict:
    plain = ["--schedule", "constant", "--momentum", 0, "--weight-decay", 0, "--shuffle", "off", "--augment", "off"]
    neap("train", "--model", f"onnx:{path}", "--data", data, "--batch", BATCH, "--steps", STEPS, "--lr", 0.05, "--out", out,
         *plain, *more)  # fmt: skip
    return json.loads((out / "state.json").read_text())


@pytest.mark.parametrize("form", ["plain", "fixed"])
@pytest.mark.parametrize("name", MODELS)
def test_steps_are_those_of_pytorch(tmp_path, name, form):
    """At the largest budget and, with the same bits, at the least."""
    from safetensors.torch import load_file

    if name == "language" and form == "fixed":
        pytest.skip("its shape has the batch in two places that cannot be told apart")
    model, path = export(tmp_path, name, form)
    data, batches, more = records(name, tmp_path)
    most = train(path, data, tmp_path / "max", *more, "--budget", "max")
    least = train(path, data, tmp_path / "min", *more, *LEAST)
    assert most["weights_sha256"] == least["weights_sha256"]
    weights = load_file(tmp_path / "min" / least["weights"])
    before = {key: value.clone() for key, value in model.state_dict().items()}
    model.train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for x, y in batches:
        optimizer.zero_grad()
        logits = model(x)
        F.cross_entropy(logits.reshape(-1, logits.shape[-1]), y.reshape(-1)).backward()
        optimizer.step()
    moved = 0
    for key, value in model.state_dict().items():
        if key.endswith("num_batches_tracked"):
            continue
        torch.testing.assert_close(weights[key], value, atol=1e-4, rtol=1e-4)
        moved = max(moved, float((value - before[key]).abs().max()))
    assert moved > 1e-3


EXPORTED = {
    "lenet": (1, 28, 28), "wrn-10-1": (3, 16, 16), "resnet18": (3, 32, 32), "mobilenet-v2": (3, 32, 32),
    "mlp-8": "table", "gpt-2x16x2": "tokens", "llama-2x16x4x2": "tokens",
}  # fmt: skip


@pytest.mark.parametrize("model", EXPORTED)
def test_exported_predictions_are_those_of_onnx_runtime(tmp_path, model):
    """Of any batch, from data as they are: bytes of images, numbers of a table, ids."""
    kind, random, more = EXPORTED[model], np.random.default_rng(4), []
    if kind == "table":
        x = random.normal(size=(12, 5)) * 3 + 2
        lines = [",".join(map(repr, map(float, row))) + f",{2 * row[0] + 1!r}" for row in x]
        (tmp_path / "t.csv").write_text(
            "a,b,c,d,e,label\n" + "\n".join(lines).replace("np.float64(", "").replace(")", "")
        )
        data, feed = f"csv:{tmp_path}/t.csv,test={tmp_path}/t.csv,task=regression", x.astype(np.float32)
    elif kind == "tokens":
        ids = random.integers(0, 32, 12 * 8 + 1).astype(np.int32)
        np.save(tmp_path / "ids.npy", ids)
        data, feed, more = (
            f"tokens:{tmp_path}/ids.npy,test={tmp_path}/ids.npy",
            ids[:-1].reshape(12, 8).astype(np.int64),
            ["--length", 8],
        )
    else:
        x = random.integers(0, 256, (12, *kind)).astype(np.uint8)
        rows = x.transpose(0, 2, 3, 1) if kind[0] == 3 else x[:, 0]
        y = np.arange(12) % 10
        np.savez(tmp_path / "images.npz", x_train=rows, y_train=y, x_test=rows, y_test=y)
        data, feed = f"npz:{tmp_path}/images.npz", x.astype(np.float32)
    run = tmp_path / "run"
    neap("train", "--model", model, "--data", data, "--batch", 4, "--steps", 3, "--lr", 0.001, "--out", run, *more)
    neap("predict", run, "--data", data, "-o", tmp_path / "p.npy")
    neap("export", run, "-o", tmp_path / "e.onnx")
    onnx.checker.check_model(str(tmp_path / "e.onnx"), full_check=True)
    session = runtime.InferenceSession(str(tmp_path / "e.onnx"), providers=["CPUExecutionProvider"])
    got, wanted = session.run(None, {session.get_inputs()[0].name: feed})[0], np.load(tmp_path / "p.npy")
    np.testing.assert_allclose(got.reshape(wanted.shape), wanted, atol=1e-5 * max(1, float(np.abs(wanted).max())))


def test_node_tests_are_passed_or_refused_by_name(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from onnx.backend.test.case.node import collect_testcases

        cases = [case for case in collect_testcases(None) if case.model is not None and case.data_sets]
    outcomes = {
        case.name: onnx_nodes.outcome(RUN_ONNX, case.model, *case.data_sets[0], tmp_path / "case") for case in cases
    }
    assert not {name: why for name, (what, why) in outcomes.items() if what == "wrong"}
    assert sum(what == "passed" for what, _ in outcomes.values()) >= 350


# Sizes or scales of an image of 11 x 9, or its axes; None: refused.
RESIZES = {
    "sizes": ({"sizes": [1, 2, 13, 5]}, (13, 5)),
    "scales of thirds": ({"scales": [1, 1, 2, 1 / 3]}, (22, 3)),
    "sizes of axes": ({"sizes": [7, 21], "axes": [2, 3]}, (7, 21)),
    "axes from the end": ({"scales": [2.0, 3.0], "axes": [-1, -2]}, (33, 18)),
    "scales that cut a pixel off": ({"scales": [1, 1, 13 / 11, 1]}, None),
    "half a pixel": ({"scales": [1, 1, 1.5, 1]}, None),
}


@pytest.mark.parametrize("name", RESIZES)
@pytest.mark.parametrize("mode", ["half_pixel", "align_corners"])
def test_resize(tmp_path, name, mode):
    given, size = RESIZES[name]
    constants = [np.array([], np.float32), np.array(given.get("scales", []), np.float32)]
    constants += [np.array(given["sizes"], np.int64)] if "sizes" in given else []
    names = ["", "scales" if "scales" in given else "", "sizes"][: len(constants)]
    node = onnx.helper.make_node("Resize", ["x", *names], ["y"], mode="linear", coordinate_transformation_mode=mode,
                                 **({"axes": given["axes"]} if "axes" in given else {}))  # fmt: skip
    shapes = {"x": [1, 2, 11, 9], "y": [1, 2, "h", "w"]}
    values = [onnx.helper.make_tensor_value_info(k, onnx.TensorProto.FLOAT, dims) for k, dims in shapes.items()]
    tensors = [onnx.numpy_helper.from_array(v, k) for k, v in zip(names, constants, strict=True) if k]
    graph = onnx.helper.make_graph([node], "g", values[:1], values[1:], tensors)
    opset = onnx.helper.make_opsetid("", 18)
    (tmp_path / "m.onnx").write_bytes(
        onnx.helper.make_model(graph, opset_imports=[opset], ir_version=10).SerializeToString()
    )
    x = np.random.default_rng(3).normal(size=(1, 2, 11, 9)).astype(np.float32)
    done = onnx_nodes.run_plain(RUN_ONNX, tmp_path / "m.onnx", tmp_path, [x])
    if size is None:
        assert done.returncode == onnx_nodes.REFUSED and "fractional number of pixels" in done.stderr
        return
    assert done.returncode == 0, done.stderr
    session = runtime.InferenceSession(str(tmp_path / "m.onnx"), providers=["CPUExecutionProvider"])
    wanted = session.run(None, {"x": x})[0]
    assert wanted.shape[2:] == size
    got = np.fromfile(tmp_path / "output_0.bin", np.float32).reshape(wanted.shape)
    np.testing.assert_allclose(got, wanted, atol=1e-5)


class Resized(nn.Module):
    """What makes 13 pixels of 11, for which no scale in f32 does, and classes of their means."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, padding=1)
        self.head = nn.Linear(4, 3)

    def forward(self, x):
        y = F.interpolate(self.conv(x), size=(13, 7), mode="bilinear", align_corners=False)
        return self.head(F.relu(y).mean((2, 3)))


def test_an_exported_resize(tmp_path):
    random = np.random.default_rng(5)
    model = Resized()
    torch.onnx.export(model, (torch.zeros(2, 3, 11, 9),), tmp_path / "m.onnx", dynamo=False, input_names=["x"],
                      dynamic_axes={"x": {0: "n"}}, opset_version=17)  # fmt: skip
    x, y = random.normal(size=(6, 3, 11, 9)).astype(np.float32), np.arange(6) % 3
    np.savez(tmp_path / "d.npz", x_train=x, y_train=y, x_test=x, y_test=y)
    data, run = f"npz:{tmp_path}/d.npz,standardise=off", tmp_path / "run"
    neap("train", "--model", f"onnx:{tmp_path}/m.onnx", "--data", data, "--batch", 2, "--steps", 2, "--out", run)
    neap("predict", run, "--data", data, "-o", tmp_path / "p.npy")
    neap("export", run, "-o", tmp_path / "e.onnx")
    onnx.checker.check_model(str(tmp_path / "e.onnx"), full_check=True)
    session = runtime.InferenceSession(str(tmp_path / "e.onnx"), providers=["CPUExecutionProvider"])
    for count in (1, 6):  # of any batch
        got = session.run(None, {session.get_inputs()[0].name: x[:count]})[0]
        np.testing.assert_allclose(got, np.load(tmp_path / "p.npy")[:count], atol=1e-5)


def one_node(
    folder: Path, node: onnx.NodeProto, opset: int, shape: list[int], constants: dict[str, np.ndarray]
) -> Path:
    """A file of one node from x to y, of the same shape."""
    x, y = (onnx.helper.make_tensor_value_info(k, onnx.TensorProto.FLOAT, shape) for k in ("x", "y"))
    tensors = [onnx.numpy_helper.from_array(v.astype(np.float32), k) for k, v in constants.items()]
    graph = onnx.helper.make_graph([node], "g", [x], [y], tensors)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)], ir_version=10)
    (folder / "m.onnx").write_bytes(model.SerializeToString())
    return folder / "m.onnx"


@pytest.mark.parametrize("opset", [18, 21])
def test_group_normalization(tmp_path, opset):
    """Scales are of groups before opset 21, of channels from then on."""
    random = np.random.default_rng(7)
    x, count = random.normal(size=(2, 6, 4, 5)).astype(np.float32), 3 if opset < 21 else 6
    scale, bias = random.normal(size=count), random.normal(size=count)
    node = onnx.helper.make_node("GroupNormalization", ["x", "s", "b"], ["y"], num_groups=3, epsilon=1e-3)
    path = one_node(tmp_path, node, opset, [2, 6, 4, 5], {"s": scale, "b": bias})
    done = onnx_nodes.run_plain(RUN_ONNX, path, tmp_path, [x])
    assert done.returncode == 0, done.stderr
    each = [torch.tensor(v.repeat(6 // count)) for v in (scale, bias)]
    wanted = F.group_norm(torch.tensor(x).double(), 3, *each, eps=1e-3).numpy()
    got = np.fromfile(tmp_path / "output_0.bin", np.float32).reshape(wanted.shape)
    np.testing.assert_allclose(got, wanted, atol=1e-5)


FOURS = {"s": np.ones(4), "b": np.zeros(4), "m": np.zeros(4), "v": np.ones(4)}
# Numbers in whose place Neap has another one of its own, or that no layer has.
ODD_NUMBERS = [
    ("Conv", ["x", "w"], {"group": 0, "pads": [1, 1, 1, 1]}, {"w": np.ones((4, 4, 3, 3))}, "group must be 1 or more"),
    ("BatchNormalization", ["x", *FOURS], {"epsilon": 0.0}, FOURS, "epsilon must be positive (got 0)"),
    ("BatchNormalization", ["x", *FOURS], {"epsilon": float("nan")}, FOURS, "epsilon must be positive (got nan)"),
    ("BatchNormalization", ["x", *FOURS], {"momentum": 1.0}, FOURS, "momentum must be in [0, 1)"),
    ("LRN", ["x"], {"size": 3, "bias": 0.0}, {}, "bias must be positive (got 0)"),
    ("LRN", ["x"], {"size": 3, "beta": -1.0}, {}, "beta must be positive (got -1)"),
]


@pytest.mark.parametrize("row", ODD_NUMBERS, ids=lambda row: f"{row[0]} {row[4]}")
def test_odd_numbers_are_refused(tmp_path, row):
    name, inputs, attributes, constants, said = row
    path = one_node(tmp_path, onnx.helper.make_node(name, inputs, ["y"], **attributes), 17, [2, 4, 5, 5], constants)
    done = onnx_nodes.run_plain(RUN_ONNX, path, tmp_path, [np.ones((2, 4, 5, 5), np.float32)])
    assert done.returncode == onnx_nodes.REFUSED and said in done.stderr, done.stderr
