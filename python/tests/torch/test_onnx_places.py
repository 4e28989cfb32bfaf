"""Operators of ONNX that move elements, and products by equations: forward beside ONNX Runtime, gradients beside PyTorch."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import native
import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

onnx = pytest.importorskip("onnx")
runtime = pytest.importorskip("onnxruntime")
import onnx_nodes  # noqa: E402

BUILD = native.LIBRARY.parent
NEAP, RUN_ONNX = BUILD / "neap", BUILD / "tests" / "run_onnx"
if not (NEAP.is_file() and RUN_ONNX.is_file()):
    pytest.skip(f"{BUILD} has no neap and run_onnx (make checks)", allow_module_level=True)

IMAGE = (2, 5, 7)
N = onnx.helper.make_node


@dataclass
class Row:
    """Nodes from h to y, and what PyTorch makes of h [N, *shape]; `weights` are parameters of both."""

    nodes: list[Any]
    torch: Callable[..., Tensor]
    opset: int = 17
    shape: tuple[int, ...] = IMAGE
    constants: dict[str, np.ndarray] = field(default_factory=dict)
    weights: dict[str, tuple[int, ...]] = field(default_factory=dict)


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def pad(mode: str, *pads: int, opset: int = 13, value: float | None = None, axes: list[int] | None = None) -> Row:
    """Padding of the last two axes: (left, right, top, bottom), as PyTorch has it."""
    left, right, top, bottom = pads
    image = [top, left, bottom, right] if axes else [0, 0, top, left, 0, 0, bottom, right]
    constants: dict[str, np.ndarray] = {"pads": ints(*image)}
    if value is not None:
        constants["value"] = np.float32(value)
    if axes:
        constants["axes"] = ints(*axes)
    names = ["h", "pads", "value" if value is not None or not axes else "", "axes"][
        : 4 if axes else 3 if value is not None else 2
    ]
    mode_of = {"constant": "constant", "reflect": "reflect", "edge": "replicate", "wrap": "circular"}
    more = {"value": value} if value is not None else {}
    function = lambda h: F.pad(h, pads, mode_of[mode], **more)  # noqa: E731
    if opset < 11:
        node = N("Pad", ["h"], ["y"], mode=mode, pads=image, **({"value": value} if value is not None else {}))
        return Row([node], function, opset)
    return Row([N("Pad", names, ["y"], mode=mode)], function, opset, constants=constants)


def padded(*pads: int, value: float = 0) -> Callable[[Tensor], Tensor]:
    return lambda h: F.pad(h, pads, value=value)


def conv(
    pads: list[int],
    torch_pads: tuple[int, ...],
    auto: str = "NOTSET",
    before: tuple[int, ...] | None = None,
    **more: Any,
) -> Row:
    """A convolution whose sides are padded unlike; `before`: of a Pad in front of it (left, right, top, bottom)."""
    given = {"pads": pads} if auto == "NOTSET" else {"auto_pad": auto}
    nodes, constants, source = [], {}, "h"
    if before:
        left, right, top, bottom = before
        nodes, constants, source = (
            [N("Pad", ["h", "before"], ["p"])],
            {"before": ints(0, 0, top, left, 0, 0, bottom, right)},
            "p",
        )
    stride = more.get("strides", [1, 1])[0]
    dilation = more.get("dilations", [1, 1])[0]
    return Row(
        [*nodes, N("Conv", [source, "w"], ["y"], **given, **more)],
        lambda h, w: F.conv2d(F.pad(F.pad(h, before or (0, 0, 0, 0)), torch_pads), w, stride=stride, dilation=dilation),
        constants=constants,
        weights={"w": (3, 2, 3, 3)},
    )


def mean_of_own(h: Tensor, size: int, stride: int, pads: tuple[int, ...]) -> Tensor:
    """Means that count the pixels of the image alone."""
    ones = F.pad(torch.ones_like(h), pads)
    return F.avg_pool2d(F.pad(h, pads), size, stride) / F.avg_pool2d(ones, size, stride)


def pool(op: str, pads: list[int], function: Callable[[Tensor], Tensor], size: int = 3, before: tuple[int, ...] | None = None,
         fill: float = 0, opset: int = 17, **more: Any) -> Row:  # fmt: skip
    nodes, constants, source = [], {}, "h"
    if before:
        left, right, top, bottom = before
        nodes, source = [N("Pad", ["h", "before", "fill"], ["p"])], "p"
        constants = {"before": ints(0, 0, top, left, 0, 0, bottom, right), "fill": np.float32(fill)}
    attributes = {"kernel_shape": [size, size], **({"pads": pads} if pads else {}), **more}
    return Row([*nodes, N(op, [source], ["y"], **attributes)], function, opset, constants=constants)


def nearest(sizes: tuple[int, int], coordinates: str, rounding: str, function: Callable[[Tensor], Tensor]) -> Row:
    node = N("Resize", ["h", "", "", "sizes"], ["y"], mode="nearest", nearest_mode=rounding,
             coordinate_transformation_mode=coordinates)  # fmt: skip
    return Row([node], function, 13, constants={"sizes": ints(3, 2, *sizes)})


def read_at(rows: list[int], columns: list[int]) -> Callable[[Tensor], Tensor]:
    return lambda h: h[:, :, rows][:, :, :, columns]


def sliced(
    starts: list[int], ends: list[int], axes: list[int], steps: list[int], function: Callable[[Tensor], Tensor]
) -> Row:
    constants = {"s": ints(*starts), "e": ints(*ends), "a": ints(*axes), "t": ints(*steps)}
    return Row([N("Slice", ["h", "s", "e", "a", "t"], ["y"])], function, 13, constants=constants)


def einsum(equation: str, w: tuple[int, ...], shape: tuple[int, ...] = IMAGE, swapped: bool = False) -> Row:
    names = ["w", "h"] if swapped else ["h", "w"]
    function = (lambda h, w: torch.einsum(equation, w, h)) if swapped else (lambda h, w: torch.einsum(equation, h, w))
    return Row([N("Einsum", names, ["y"], equation=equation)], function, shape=shape, weights={"w": w})


LEAST = float(np.finfo(np.float32).min)
FLIP = [-1, -2]
ROWS = {
    "pad, opset 7": pad("constant", 1, 2, 0, 3, opset=7),
    "pad by a value, opset 7": pad("constant", 1, 2, 0, 3, opset=7, value=1.5),
    "pad, opset 11": pad("constant", 2, 0, 1, 0, opset=11, value=-2.0),
    "pad that cuts": pad("constant", -1, 2, 1, -2, value=0.5),
    "pad axes": pad("constant", 3, 1, 2, 0, opset=18, axes=[2, -1]),
    "reflect": pad("reflect", 6, 2, 4, 1),
    "reflect, opset 7": pad("reflect", 1, 2, 1, 0, opset=7),
    "edge": pad("edge", 9, 1, 0, 6),
    "edge of axes, opset 21": pad("edge", 1, 1, 2, 2, opset=21, axes=[-2, 3]),
    "wrap, opset 19": pad("wrap", 3, 7, 5, 1, opset=19),
    "tile": Row([N("Tile", ["h", "r"], ["y"])], lambda h: h.repeat(1, 2, 1, 3), 13, constants={"r": ints(1, 2, 1, 3)}),
    "largest of all": Row([N("GlobalMaxPool", ["h"], ["y"])], lambda h: F.adaptive_max_pool2d(h, 1)),
    "largest of a square": Row([N("GlobalMaxPool", ["h"], ["y"])], lambda h: F.adaptive_max_pool2d(h, 1), shape=(3, 6, 6)),
    "largest of many": Row([N("GlobalMaxPool", ["h"], ["y"])], lambda h: F.adaptive_max_pool2d(h, 1), shape=(2, 17, 23)),
    "largest of a sequence": Row([N("GlobalMaxPool", ["h"], ["y"])], lambda h: F.adaptive_max_pool1d(h, 1), shape=(3, 31)),
    "every other": sliced([0, 1], [5, 7], [2, 3], [2, 3], lambda h: h[:, :, ::2, 1::3]),
    "backwards": sliced([-1, 5], [-99, 0], [3, 3 - 1], [-1, -2], lambda h: h.flip(3)[:, :, [4, 2]]),
    "channels backwards": sliced([-1], [-9], [1], [-1], lambda h: h.flip(1)),
    "gather every other": Row([N("Gather", ["h", "i"], ["y"], axis=3)], lambda h: h[..., [6, 4, 2]], constants={"i": ints(6, 4, 2)}),
    "nearest twice": nearest((10, 14), "asymmetric", "floor", lambda h: F.interpolate(h, scale_factor=2, mode="nearest")),
    "nearest, fewer": nearest((4, 3), "asymmetric", "floor", lambda h: F.interpolate(h, size=(4, 3), mode="nearest")),
    "nearest exact": nearest((9, 4), "half_pixel", "round_prefer_ceil", lambda h: F.interpolate(h, size=(9, 4), mode="nearest-exact")),
    "nearest, half pixels down": nearest((10, 14), "half_pixel", "floor", read_at([0, 0, 0, 1, 1, 2, 2, 3, 3, 4], [0, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6])),
    "nearest, half pixels up": nearest((10, 14), "half_pixel", "ceil", read_at([0, 1, 1, 2, 2, 3, 3, 4, 4, 4], [0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 6])),
    "nearest, corners": nearest((9, 13), "align_corners", "round_prefer_floor", read_at([0, 0, 1, 1, 2, 2, 3, 3, 4], [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6])),
    "nearest, pytorch's half pixels": nearest((1, 14), "pytorch_half_pixel", "round_prefer_floor", read_at([0], [i // 2 for i in range(14)])),
    "conv, one side": conv([0, 0, 1, 2], (0, 2, 0, 1)),
    "conv, unlike sides, stride 2": conv([1, 0, 2, 1], (0, 1, 1, 2), strides=[2, 2]),
    "conv, same upper": conv([], (1, 1, 0, 1), "SAME_UPPER", strides=[3, 3]),
    "pad and conv": conv([1, 1, 1, 1], (1, 1, 1, 1), before=(0, 1, 0, 1), strides=[2, 2]),
    "pad and conv become one": conv([0, 0, 0, 0], (0, 0, 0, 0), before=(1, 1, 1, 1)),
    "max pool, one side": pool("MaxPool", [0, 0, 1, 1], lambda h: F.max_pool2d(F.pad(h, (0, 1, 0, 1), value=-torch.inf), 3, 2), strides=[2, 2]),
    "max pool of negatives": pool("MaxPool", [0, 2, 1, 0], lambda h: F.max_pool2d(F.pad(h, (2, 0, 0, 1), value=-torch.inf), 3, 1)),
    "max pool up": pool("MaxPool", [0, 0, 1, 0], lambda h: F.max_pool2d(F.pad(h, (0, 0, 0, 1), value=-torch.inf), 3, 2, ceil_mode=True), strides=[2, 2], ceil_mode=1),
    "pad by the least and max pool": pool("MaxPool", [], lambda h: F.max_pool2d(h, 3, 2, padding=1), before=(1, 1, 1, 1), fill=LEAST, strides=[2, 2]),
    "average pool, one side": pool("AveragePool", [0, 1, 2, 0], lambda h: mean_of_own(h, 3, 2, (1, 0, 0, 2)), strides=[2, 2]),
    "average pool, one side counted": pool("AveragePool", [0, 1, 2, 0], lambda h: F.avg_pool2d(F.pad(h, (1, 0, 0, 2)), 3, 2), strides=[2, 2], count_include_pad=1),
    "average pool, rows alone": pool("AveragePool", [1, 0, 1, 0], lambda h: mean_of_own(h, 3, 1, (0, 0, 1, 1))),
    "average pool, same lower": pool("AveragePool", [], lambda h: mean_of_own(h, 2, 1, (1, 0, 1, 0)), size=2, auto_pad="SAME_LOWER"),
    "pad and average pool": pool("AveragePool", [], lambda h: F.avg_pool2d(h, 3, 2, padding=1), before=(1, 1, 1, 1), strides=[2, 2]),
    "a padded value is read twice": Row(
        [N("Pad", ["h", "pads"], ["p"]), N("Conv", ["p", "w"], ["c"]), N("Slice", ["p", "s", "e", "a"], ["q"]), N("Add", ["c", "q"], ["y"])],
        lambda h, w: F.conv2d(h, w, padding=1) + F.pad(h, (1, 1, 1, 1))[:, :, :5, :7],
        constants={"pads": ints(0, 0, 1, 1, 0, 0, 1, 1), "s": ints(0, 0), "e": ints(5, 7), "a": ints(2, 3)}, weights={"w": (2, 2, 3, 3)},
    ),
    "einsum of a matrix": einsum("nchw,wk->nchk", (7, 4)),
    "einsum, batched": einsum("nhqd,nhkd->nhqk", (3, 2, 6, 7)),
    "einsum, transposed result": einsum("nhqd,nhkd->nkqh", (3, 2, 6, 7)),
    "einsum, dots": einsum("...ij,jk->...ik", (7, 4)),
    "einsum, dots that broadcast": einsum("...ij,...jk->...ik", (1, 1, 7, 4)),
    "einsum, sums of one": einsum("nchw,kc->nk", (4, 2)),
    "einsum, outer": einsum("nc,k->nck", (4,), (6,)),
    "einsum, element by element": einsum("nchw,chw->nchw", (2, 5, 7)),
    "einsum, to numbers": einsum("nchw,nchw->n", (3, 2, 5, 7)),
    "einsum, without a result": einsum("bi,oi", (4, 6), (6,)),
    "einsum, the weight first": einsum("oc , nchw -> nohw", (4, 2), swapped=True),
    "einsum of one": Row([N("Einsum", ["h"], ["y"], equation="nchw->nwc")], lambda h: torch.einsum("nchw->nwc", h)),
}  # fmt: skip
BATCH, STEPS, CLASSES, RATE = 3, 2, 4, 0.1


def graph_of(row: Row, out: tuple[int, ...], folder: Path) -> tuple[Path, dict[str, np.ndarray]]:
    """x times a weight, the nodes, and a linear layer of what they make."""
    random = np.random.default_rng(5)
    width = int(np.prod(out))
    weights = {"u": random.normal(size=(1, *row.shape)), "v": random.normal(size=(width, CLASSES)) / width**0.5}
    weights |= {name: random.normal(size=shape) for name, shape in row.weights.items()}
    given = {name: value.astype(np.float32) for name, value in weights.items()}
    nodes = [N("Mul", ["x", "u"], ["h"]), *row.nodes, N("Flatten", ["y"], ["z"]), N("MatMul", ["z", "v"], ["logits"])]
    constants = [
        N("Constant", [], [k], value=onnx.numpy_helper.from_array(np.asarray(v), k)) for k, v in row.constants.items()
    ]
    tensors = [onnx.numpy_helper.from_array(v, k) for k, v in given.items()]
    shapes = {"x": [BATCH, *row.shape], "logits": [BATCH, CLASSES]}
    x, logits = (onnx.helper.make_tensor_value_info(k, onnx.TensorProto.FLOAT, s) for k, s in shapes.items())
    graph = onnx.helper.make_graph([*constants, *nodes], "g", [x], [logits], tensors)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", row.opset)], ir_version=8)
    (folder / "m.onnx").write_bytes(model.SerializeToString())
    return folder / "m.onnx", given


def forward(row: Row, x: Tensor, weights: dict[str, Tensor]) -> Tensor:
    y = row.torch(x * weights["u"], *(weights[name] for name in row.weights))
    return y.reshape(len(x), -1) @ weights["v"]


def neap(*arguments: object) -> str:
    done = subprocess.run([NEAP, *map(str, arguments)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("name", ROWS)
def test_outputs_and_steps(tmp_path, name):
    """Outputs as ONNX Runtime's, weights after steps of gradients as PyTorch's; and the file that is exported gives what the run predicts."""
    from safetensors.torch import load_file

    row, random = ROWS[name], np.random.default_rng(6)
    x = random.normal(size=(BATCH * STEPS, *row.shape)).astype(np.float32)
    blank = {n: torch.zeros(s) for n, s in row.weights.items()}
    out = row.torch(torch.zeros(BATCH, *row.shape), *blank.values()).shape
    path, given = graph_of(row, (int(np.prod(out)) // BATCH,), tmp_path)
    session = runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    wanted = session.run(None, {"x": x[:BATCH]})[0]
    weights = {k: torch.tensor(v, dtype=torch.float64, requires_grad=True) for k, v in given.items()}
    truth = forward(row, torch.tensor(x[:BATCH], dtype=torch.float64), weights).detach()
    np.testing.assert_allclose(wanted, truth, atol=2e-5)
    done = onnx_nodes.run_plain(RUN_ONNX, path, tmp_path, [x[:BATCH]])
    assert done.returncode == 0, done.stderr
    got = np.fromfile(tmp_path / "output_0.bin", np.float32).reshape(wanted.shape)
    np.testing.assert_allclose(got, truth, atol=2e-5)

    y = random.integers(0, CLASSES, len(x))
    y[:CLASSES] = range(CLASSES)
    if len(row.shape) == 2:  # the command has no such records
        return
    np.savez(tmp_path / "data.npz", x_train=x, y_train=y, x_test=x, y_test=y)
    data = f"npz:{tmp_path}/data.npz,standardise=off"
    neap("train", "--model", f"onnx:{path}", "--data", data, "--batch", BATCH, "--steps", STEPS, "--lr", RATE, "--out", tmp_path / "run",
         "--schedule", "constant", "--momentum", 0, "--weight-decay", 0, "--shuffle", "off", "--augment", "off")  # fmt: skip
    optimizer = torch.optim.SGD(weights.values(), lr=RATE)
    for k in range(STEPS):
        part = slice(k * BATCH, (k + 1) * BATCH)
        optimizer.zero_grad()
        F.cross_entropy(
            forward(row, torch.tensor(x[part], dtype=torch.float64), weights), torch.tensor(y[part])
        ).backward()
        optimizer.step()
    state = json.loads((tmp_path / "run" / "state.json").read_text())
    after = load_file(tmp_path / "run" / state["weights"])
    for key, value in weights.items():
        assert key == "v" or float((value - torch.tensor(given[key])).abs().max()) > 1e-4
        torch.testing.assert_close(after[key], value.detach().float(), atol=2e-5, rtol=1e-4)

    neap("predict", tmp_path / "run", "--data", data, "-o", tmp_path / "p.npy")
    neap("export", tmp_path / "run", "-o", tmp_path / "e.onnx")
    session = runtime.InferenceSession(str(tmp_path / "e.onnx"), providers=["CPUExecutionProvider"])
    again = session.run(None, {session.get_inputs()[0].name: x[:BATCH]})[0]
    np.testing.assert_allclose(again, np.load(tmp_path / "p.npy")[:BATCH], atol=1e-4)
    count = session.get_inputs()[0].shape[0]
    count = count if isinstance(count, int) else 2  # what the library takes where the batch is open
    done = onnx_nodes.run_plain(RUN_ONNX, tmp_path / "e.onnx", tmp_path, [x[:count]])
    assert done.returncode == 0, done.stderr
    got = np.fromfile(tmp_path / "output_0.bin", np.float32).reshape(count, CLASSES)
    np.testing.assert_allclose(got, again[:count], atol=1e-4)


def test_a_pad_before_a_window_becomes_part_of_it(tmp_path):
    """No more memory than the window's own padding takes."""
    sizes = {}
    for name in ("pad and conv become one", "pad by the least and max pool", "pad and average pool"):
        row = ROWS[name]
        out = row.torch(torch.zeros(BATCH, *IMAGE), *(torch.zeros(s) for s in row.weights.values())).shape
        path, _ = graph_of(row, (int(np.prod(out)) // BATCH,), tmp_path)
        own = Row([*row.nodes[1:]], row.torch, row.opset, weights=row.weights)
        own.nodes[0].input[0] = "h"
        own.nodes[0].attribute.extend([onnx.helper.make_attribute("pads", [1, 1, 1, 1])])
        if "average" in name:
            own.nodes[0].attribute.extend([onnx.helper.make_attribute("count_include_pad", 1)])
        if "conv" in name:
            del own.nodes[0].attribute[0]
        for kind, one in (("pad", path), ("own", None)):
            if one is None:
                (tmp_path / kind).mkdir(exist_ok=True)
                one, _ = graph_of(own, (int(np.prod(out)) // BATCH,), tmp_path / kind)
            sizes[name, kind] = json.loads(
                neap("plan", "--model", f"onnx:{one}", "--batch", BATCH, "--budget", "max", "--json")
            )
        assert sizes[name, "pad"]["peak_bytes"] == sizes[name, "own"]["peak_bytes"], name


REFUSED = {
    "diagonal": (N("Einsum", ["x", "w"], ["y"], equation="nii,ik->nk"), {"w": np.ones((4, 4))}, "diagonals are not supported"),
    "three operands": (N("Einsum", ["x", "w", "w"], ["y"], equation="nij,jk,kl->nil"), {"w": np.ones((4, 4))}, "3 operands"),
    "rounded pixels": (N("Resize", ["x", "", "", "s"], ["y"], mode="nearest", coordinate_transformation_mode="tf_crop_and_resize"),
                       {"s": ints(2, 4, 8)}, "tf_crop_and_resize"),
    "no element": (N("Slice", ["x", "s", "e", "a"], ["y"]), {"s": ints(3), "e": ints(1), "a": ints(1)}, "leaves no element"),
    "long reflection": (N("Pad", ["x", "p"], ["y"], mode="reflect"), {"p": ints(0, 4, 0, 0, 0, 0)}, "a reflection of 4 elements"),
    "another mode": (N("Pad", ["x", "p"], ["y"], mode="mirror"), {"p": ints(0, 1, 0, 0, 0, 0)}, "mode mirror is not supported"),
    "cut to nothing": (N("Pad", ["x", "p"], ["y"]), {"p": ints(0, -2, 0, 0, -2, 0)}, "do not fit axis 1"),
    "aspect ratio": (N("Resize", ["x", "", "", "s"], ["y"], mode="nearest", keep_aspect_ratio_policy="not_larger"),
                     {"s": ints(2, 4, 8)}, "aspect ratio"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_read_is_refused_by_name(tmp_path, name):
    node, constants, said = REFUSED[name]
    tensors = [
        onnx.numpy_helper.from_array(v if v.dtype == np.int64 else v.astype(np.float32), k)
        for k, v in constants.items()
    ]
    x, y = (
        onnx.helper.make_tensor_value_info(k, onnx.TensorProto.FLOAT, s) for k, s in (("x", [2, 4, 4]), ("y", None))
    )
    model = onnx.helper.make_model(onnx.helper.make_graph([node], "g", [x], [y], tensors),
                                   opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=8)  # fmt: skip
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    done = onnx_nodes.run_plain(RUN_ONNX, tmp_path / "m.onnx", tmp_path, [np.ones((2, 4, 4), np.float32)])
    assert done.returncode == onnx_nodes.REFUSED and said in done.stderr and node.op_type in done.stderr, done.stderr
