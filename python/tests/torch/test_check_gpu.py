"""The logic of bench/torch/check_gpu.py, at tiny sizes on the CPU."""

from __future__ import annotations

import json
import subprocess
import sys
from argparse import Namespace
from pathlib import Path

import pytest
import torch

FOLDER = Path(__file__).resolve().parents[3] / "bench" / "torch"
if not (FOLDER / "check_gpu.py").is_file():
    pytest.skip("there is no checkout around these tests", allow_module_level=True)
sys.path.insert(0, str(FOLDER))
import check_gpu  # noqa: E402
import gpu_nets  # noqa: E402

SMALL = Namespace(device="cpu", small=True, plain=True, plan_seconds=0.2, limit=600)


def run(folder: Path, *arguments: str) -> tuple[int, dict, str]:
    out = folder / "check.json"
    command = [
        sys.executable,
        str(FOLDER / "check_gpu.py"),
        "--device",
        "cpu",
        "--plain",
        "--out",
        str(out),
        *arguments,
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode in (0, 1), done.stderr[-2000:]
    return done.returncode, json.loads(out.read_text()), done.stdout


@pytest.mark.long
def test_all_rows_of_a_language_model(tmp_path):
    status, report, printed = run(tmp_path, "--nets", "GPT", "--budgets", "max;60%")
    rows = {(r["kind"], r.get("budget")): r for r in report["rows"]}
    assert status == 0
    assert list(rows) == [
        ("eager", None), ("bits", "max"), ("bits", "60%"), ("lengths", None), ("times", None), ("knob", None),
    ]  # fmt: skip
    assert not [r["error"] for r in report["rows"] if "error" in r]
    assert rows["eager", None]["repeats"]
    most, share = rows["bits", "max"], rows["bits", "60%"]
    assert most["bits"] and share["bits"]
    assert share["planned"] <= 0.6 * most["keep_all"] < most["planned"]
    lengths = rows["lengths", None]
    assert lengths["bits"] and lengths["unforeseen"] == 0
    assert [x["length"] for x in lengths["lengths"]] == [64, 32, 40]
    assert [w["way"] for w in rows["times", None]["ways"]] == [
        "eager",
        "checkpoint",
        "Neap, max",
        "Neap, as checkpoint",
    ]
    assert all(w["median_s"] > 0 for w in rows["times", None]["ways"])
    assert printed.count("| GPT |") == 3 + 3 + 4 + 3
    again = subprocess.run(
        [sys.executable, str(FOLDER / "check_gpu.py"), "--table", str(tmp_path / "check.json")],
        capture_output=True,
        text=True,
    )
    assert again.stdout == printed


def test_no_row_begins_after_the_limit(tmp_path):
    status, report, printed = run(tmp_path, "--nets", "GPT;WRN-28-2", "--limit", "0")
    assert status == 0
    assert report["rows"] == []
    assert {name for name, *_ in report["left_out"]} == {"GPT", "WRN-28-2"}
    assert "Left out" in printed


@pytest.mark.parametrize("name", gpu_nets.NETS)
def test_each_net_trains_and_recomputes_the_same(name):
    net = gpu_nets.NETS[name]
    batches = [net.batch(SMALL, i) for i in range(2)]
    plain = check_gpu.trained(check_gpu.Eager(net, SMALL), batches)
    again = check_gpu.trained(check_gpu.Eager(net, SMALL, checkpointed=True), batches)
    still = [
        n for n, p in net.model(SMALL)[0].named_parameters() if torch.equal(p.detach(), plain[n]) and p.requires_grad
    ]
    moved = ("running_mean", "running_var", "num_batches_tracked")  # checkpoints move them twice
    assert not still
    assert not [n for n in check_gpu.compared(plain, again)[0] if not n.endswith(moved)]


@pytest.mark.parametrize("name", ["Llama, LoRA", "Llama"])
def test_the_llama_of_transformers(name):
    pytest.importorskip("transformers")
    pytest.importorskip("peft")
    net, options = gpu_nets.NETS[name], Namespace(**{**vars(SMALL), "plain": False})
    batch = net.batch(options, 1)
    eager = check_gpu.Eager(net, options)
    assert not isinstance(eager.model, gpu_nets.Blocks)
    step = check_gpu.Planned(net, options, "max", batch)
    assert check_gpu.compared(check_gpu.trained(eager, [batch]), check_gpu.trained(step, [batch]))[0] == []
    check_gpu.trained(check_gpu.Eager(net, options, checkpointed=True), [batch])


EAGER = {"net": "A", "kind": "eager", "repeats": True}
DIFFERS = {"net": "A", "kind": "bits", "budget": "max", "bits": False, "gap": 1.0, "differing": ["w"]}


@pytest.mark.parametrize(
    ("rows", "count"),
    [
        ([EAGER, DIFFERS], 1),
        ([{**EAGER, "repeats": False}, DIFFERS], 0),
        ([EAGER, {**DIFFERS, "bits": True, "planned": 100, "measured": 105}], 0),
        ([EAGER, {**DIFFERS, "bits": True, "planned": 100, "measured": 106}], 1),
        ([EAGER, {"net": "A", "kind": "lengths", "bits": True, "lengths": [{"length": 8, "planned": 10, "measured": 12}]}], 1),
        ([EAGER, {"net": "A", "kind": "bits", "budget": "60%", "least": 7}], 0),
        ([EAGER, {"net": "A", "kind": "bits", "budget": "60%", "error": "CannotTrace: x"}], 1),
        ([EAGER, {"net": "A", "kind": "knob", "error": "no compiler"}], 0),
    ],
)  # fmt: skip
def test_what_is_a_fault(rows, count):
    assert len(check_gpu.faults(rows)) == count


def test_a_difference_of_one_bit_is_seen():
    a = {"w": torch.tensor([0.0, 1.0]), "n": torch.tensor(3)}
    assert check_gpu.compared(a, {k: v.clone() for k, v in a.items()}) == ([], 0.0)
    assert check_gpu.compared(a, {"w": torch.tensor([-0.0, 1.0]), "n": a["n"]})[0] == ["w"]
    assert check_gpu.compared(a, {"n": a["n"]})[0] == ["w"]


def test_a_peak_counts_the_batch_and_leaves_out_what_was_there(monkeypatch):
    there = {"requested_bytes.all.current": 900, "requested_bytes.all.peak": 4900}
    for name, value in (
        ("memory_allocated", 1024),
        ("max_memory_allocated", 5120),
        ("memory_stats", there),
        ("empty_cache", None),
        ("synchronize", None),
        ("reset_peak_memory_stats", None),
    ):
        monkeypatch.setattr(torch.cuda, name, lambda value=value: value)
    monkeypatch.setattr(torch._C, "_cuda_clearCublasWorkspaces", lambda: None, raising=False)
    batch = torch.zeros(10), torch.zeros(5, dtype=torch.int64)
    loss, memory = check_gpu.Meter(Namespace(device="cuda")).peak(lambda x, y: x.sum() + y.sum(), batch)
    assert loss == 0
    assert memory == {"measured": 4096 + 80, "requested": 4000 + 80}


def test_recurrent_layers_run_without_cudnn():
    for name, net in gpu_nets.NETS.items():
        holds = any(isinstance(m, torch.nn.RNNBase) for m in net.model(SMALL)[0].modules())
        assert net.cudnn != holds, name
        with check_gpu.repeatable(False, net.cudnn):
            assert torch.backends.cudnn.enabled == net.cudnn
    assert torch.backends.cudnn.enabled
