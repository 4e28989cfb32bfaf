"""Node tests of ONNX with the library: whether a graph gives its outputs, or is refused by name."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import onnx

REFUSED = 3
OTHER_KIND, RANDOM = "of another kind", "random"


def run_plain(run_onnx: Path, path: Path, folder: Path, feeds: list[np.ndarray]) -> subprocess.CompletedProcess:
    for i, feed in enumerate(feeds):
        feed.astype(np.float32 if feed.dtype.kind == "f" else np.int32).tofile(folder / f"input_{i}.bin")
    return subprocess.run([run_onnx, path, folder], capture_output=True, text=True, timeout=120)


def known_inputs(model: onnx.ModelProto, feeds: list[np.ndarray]) -> tuple[onnx.ModelProto, list[np.ndarray]]:
    """The model with all but its first real inputs as constants, as exporters write what says how an operator works."""
    known, left = onnx.ModelProto(), []
    known.CopyFrom(model)
    for i, (feed, given) in enumerate(zip(feeds, model.graph.input, strict=True)):
        if feed.dtype == np.float32 and feed.ndim > 0 and (i == 0 or not left):
            left.append(feed)
        elif feed.dtype.kind in "fiub":
            known.graph.initializer.append(onnx.numpy_helper.from_array(np.ascontiguousarray(feed), given.name))
    return known, left


def draws(model: onnx.ModelProto, feeds: list[np.ndarray]) -> bool:
    """Whether the outputs are numbers that NumPy's generator drew: those of dropout in training."""
    values = {given.name: feed for given, feed in zip(model.graph.input, feeds, strict=True)}
    return any(
        node.op_type == "Dropout"
        and len(node.input) > 2
        and bool(values.get(node.input[2], False))
        and values.get(node.input[1], 0.5) != 0
        for node in model.graph.node
    )


def outcome(run_onnx: Path, model: onnx.ModelProto, feeds: list, wanted: list, folder: Path) -> tuple[str, str]:
    """("passed", ""), ("refused", its message), (OTHER_KIND, ""), (RANDOM, ""); ("wrong", why) is none of these."""
    if not all(isinstance(x, np.ndarray) and x.dtype.kind in "fiub" for x in [*feeds, *wanted]):
        return OTHER_KIND, ""
    if draws(model, feeds):
        return RANDOM, ""
    message = ""
    for one, given in ((model, feeds), known_inputs(model, feeds)):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        (folder / "m.onnx").write_bytes(one.SerializeToString())
        done = run_plain(run_onnx, folder / "m.onnx", folder, given)
        if done.returncode == REFUSED and "m.onnx" in done.stderr:
            message = done.stderr.strip()
            continue
        if done.returncode != 0:
            return "wrong", done.stderr
        for i, value in enumerate(wanted):
            got = np.fromfile(folder / f"output_{i}.bin", np.float32)
            if got.size != value.size or not np.allclose(
                got, value.astype(np.float32).ravel(), rtol=1e-3, atol=1e-5, equal_nan=True
            ):
                return "wrong", f"output {i}"
        return "passed", ""
    return "refused", message
