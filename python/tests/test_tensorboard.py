"""Event files of `neap train --tensorboard`, read by TensorBoard's own package, beside the run's metrics."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
NEAP = os.environ.get("NEAP_COMMAND", "neap")
TAGS = {
    "loss/train": "loss",
    "accuracy/train": "accuracy",
    "learning_rate": "learning_rate",
    "accuracy/test": "test_accuracy",
    "loss/test": "test_loss",
}


def train(folder: Path, *more: str) -> list[dict[str, float]]:
    """The metrics of a run, line by line."""
    command = [NEAP, "train", "--threads", "1", "--metrics", str(folder / "metrics.jsonl"), *more]
    subprocess.run(command, check=True, capture_output=True, cwd=folder)
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def check(folder: Path, metrics: list[dict[str, float]]) -> None:
    events = accumulator.EventAccumulator(str(folder), size_guidance={"scalars": 0})
    events.Reload()
    assert set(TAGS) <= set(events.Tags()["scalars"])
    for tag, key in TAGS.items():
        wanted = [(line["step"], line[key]) for line in metrics if line.get(key) is not None]
        got = [(event.step, event.value) for event in events.Scalars(tag)]
        assert [step for step, _ in got] == [step for step, _ in wanted], tag
        assert [value for _, value in got] == pytest.approx([value for _, value in wanted], rel=1e-6), tag


MODEL = ["--model", "mlp-16", "--data", "synthetic:images=96", "--batch", "16", "--schedule", "constant"]


def test_scalars(tmp_path: Path) -> None:
    check(tmp_path / "events", train(tmp_path, *MODEL, "--epochs", "3", "--tensorboard", "events"))


def test_resumed_run_replaces_later_steps(tmp_path: Path) -> None:
    """A run goes on from a checkpoint that another went on from before: its steps are void, as they are in the metrics."""
    train(tmp_path, *MODEL, "--epochs", "2", "--tensorboard", "events", "--out", "run")
    shutil.copytree(tmp_path / "run", tmp_path / "other")
    train(tmp_path, "--resume", "run", "--epochs", "3", "--tensorboard", "events")
    metrics = train(tmp_path, "--resume", "other", "--epochs", "4", "--tensorboard", "events")
    assert [line["step"] for line in metrics] == list(range(1, 25))
    assert len(list((tmp_path / "events").iterdir())) == 3
    check(tmp_path / "events", metrics)


def test_every_record_has_its_checksums(tmp_path: Path) -> None:
    """TensorBoard's reader checks both of each record, and stops at a wrong one."""
    loader = pytest.importorskip("tensorboard.backend.event_processing.event_file_loader")
    train(tmp_path, *MODEL, "--steps", "5", "--tensorboard", "events", "--evaluate", "off")
    (path,) = (tmp_path / "events").iterdir()
    assert len(list(loader.EventFileLoader(str(path)).Load())) == 1 + 5
    whole = path.read_bytes()
    for at in (3, 9, len(whole) // 2, len(whole) - 1):
        damaged = tmp_path / "damaged.tfevents"
        damaged.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        count = 0
        try:
            for _ in loader.EventFileLoader(str(damaged)).Load():
                count += 1
        except Exception:  # the reader's own kinds differ by version
            continue
        assert count < 6, f"a wrong byte {at} is not seen"
