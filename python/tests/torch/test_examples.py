"""The programs of examples/pytorch, run as their readers run them. The oracle is the same program in eager, or a number that
follows from the model's sizes."""

from __future__ import annotations

import math
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[3] / "examples" / "pytorch"


def run(folder: Path, name: str, *args: object, expected: int = 0) -> str:
    command = [sys.executable, str(EXAMPLES / name), *map(str, args)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == expected, done.stderr
    return done.stdout + (done.stderr if expected else "")


def losses(text: str) -> list[str]:
    """As they were printed: nine digits tell any two numbers of 32 bits apart."""
    found = re.findall(r"^step \d+  loss (\S+)", text, re.MULTILINE)
    assert all(math.isfinite(float(x)) for x in found)
    return found


def size(text: str, name: str) -> float:
    """Bytes in the line of a table that begins with the name."""
    number, unit = re.search(rf"^{name} +([\d.]+) (B|KiB|MiB|GiB)", text, re.MULTILINE).groups()
    return float(number) * 1024 ** ["B", "KiB", "MiB", "GiB"].index(unit)


def test_image_classifier(tmp_path):
    pytest.importorskip("torchvision")
    small = ("--size", 32, "--batch", 32, "--steps", 6, "--test-every", 3)
    eager = run(tmp_path, "image_classifier.py", *small, "--eager")
    expected = losses(eager)
    assert len(expected) == 6 and float(expected[-1]) < float(expected[0])
    # Stopped, saved, loaded: together the run that was not interrupted, down to rates and accuracies.
    first = run(tmp_path, "image_classifier.py", *small, "--budget", "95%", "--stop", 3, "--save", "run.pt")
    second = run(tmp_path, "image_classifier.py", *small, "--budget", "95%", "--resume", "run.pt")
    assert len(losses(first)) == 3 and losses(first) + losses(second) == expected
    assert re.findall("^step.*", first + second, re.MULTILINE) == re.findall("^step.*", eager, re.MULTILINE)
    for text in (first, second):
        assert size(text, "planned peak") <= size(text, "budget") < size(text, "keep all")
    refused = run(tmp_path, "image_classifier.py", *small, "--budget", "1MiB", expected=3)
    assert "the least is" in refused and losses(refused) == []


@pytest.mark.long
def test_trainer(tmp_path):
    pytest.importorskip("transformers")
    pytest.importorskip("accelerate")
    (tmp_path / "text.txt").write_text("To be, or not to be, that is the question. " * 100)
    small = ("text.txt", "--steps", 4, "--batch", 4, "--length", 32, "--layers", 2, "--width", 32)
    expected = losses(run(tmp_path, "trainer.py", *small, "--eager"))
    assert len(expected) == 4 and float(expected[-1]) < float(expected[0])
    text = run(tmp_path, "trainer.py", *small, "--budget", "60%")
    assert losses(text) == expected
    assert "graph 0" in text and "graph 1" not in text  # no graph break
    assert 0 < size(text, "planned peak") <= size(text, "budget") < size(text, "keep all")


@pytest.mark.parametrize(
    ("name", "needs"),
    [
        ("attach_trainer", ["transformers", "accelerate"]),
        pytest.param("attach_sft", ["trl", "datasets", "tokenizers"], marks=pytest.mark.long),
        pytest.param("lightning_budget", ["lightning"], marks=pytest.mark.long),
        pytest.param("accelerate_loop", ["accelerate"], marks=pytest.mark.long),
    ],
)
def test_trainers(tmp_path, name, needs):
    for package in needs:
        pytest.importorskip(package)
    expected = losses(run(tmp_path, f"{name}.py", "--eager").replace("  accuracy", "\n"))
    text = run(tmp_path, f"{name}.py")
    assert losses(text.replace("  accuracy", "\n")) == expected and len(expected) >= 4
    assert 0 < size(text, "planned peak") <= size(text, "budget")


@pytest.mark.long
def test_will_it_fit(tmp_path):
    pytest.importorskip("transformers")
    small = ("--layers", 2, "--width", 64, "--inner", 128, "--heads", 4, "--kv-heads", 2, "--vocabulary", 100)
    small += ("--batch", 2, "--length", 32, "--points", 3)
    text = run(tmp_path, "will_it_fit.py", *small, "--budget", "90%", "-o", "page.html")
    # Embedding and output layer; in a block: queries and output, keys and values, the feed-forward layers, two norms; a norm.
    count = 2 * 100 * 64 + 2 * (2 * 64 * 64 + 2 * 64 * 32 + 3 * 64 * 128 + 2 * 64) + 64
    assert f"{count:,} parameters" in text
    assert size(text, "parameters") == pytest.approx(4 * count, rel=0.01)
    # Two moments, and a step counter of a few bytes for each parameter.
    assert size(text, "optimizer states") == pytest.approx(8 * count, rel=0.01)
    assert size(text, "least budget") < size(text, "keep everything")
    assert re.search(r"^budget +.*: fits", text, re.MULTILINE)
    assert len(re.findall(r"^ +[\d.]+ [KM]iB +[\d.]+ %", text, re.MULTILINE)) >= 2  # the curve
    page = (tmp_path / "page.html").read_text()
    assert "LlamaForCausalLM" in page and "embed_tokens.weight update" in page
    refused = run(tmp_path, "will_it_fit.py", *small, "--budget", "10KiB", "-o", "least.html", expected=3)
    assert "10KiB cannot be met; the least is" in refused
    assert (tmp_path / "least.html").exists()


def test_notebook(tmp_path):
    pytest.importorskip("ipykernel")
    nbformat = pytest.importorskip("nbformat")
    preprocessors = pytest.importorskip("nbconvert.preprocessors")
    notebook = nbformat.read(EXAMPLES / "neap_pytorch.ipynb", as_version=4)
    nbformat.validate(notebook)
    assert all(not cell.outputs and cell.execution_count is None for cell in notebook.cells if cell.cell_type == "code")
    execute = preprocessors.ExecutePreprocessor(timeout=300, kernel_name="python3")
    execute.preprocess(notebook, {"metadata": {"path": str(tmp_path)}})  # its own assertions compare the bits
    outputs = {cell.id: cell.outputs for cell in notebook.cells if cell.cell_type == "code"}
    for name in ("plan", "curve", "picture"):
        assert any("<iframe" in o.get("data", {}).get("text/html", "") for o in outputs[name]), name
    printed = {name: "".join(o.text for o in outputs[name] if o.output_type == "stream") for name in outputs}
    assert "the same losses and the same weights" in printed["bits"]
    for name in ("step", "backend"):
        assert 0 < size(printed[name], "planned peak") <= size(printed[name], "budget")


def test_several_processes(tmp_path):
    text = run(tmp_path, "several_processes.py", 3, 2)  # two would add to the same sum in either order
    several, one = re.findall(r": ([0-9a-f]{64})$", text, re.MULTILINE)
    assert several == one
