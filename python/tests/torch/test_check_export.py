"""`neap export` reads back what it writes: every format that Neap reads, and what is said of those that it does not."""

from __future__ import annotations

import json
import subprocess

import pytest
from test_export_language import NEAP, VOCABULARY, lora, neap, tune
from test_language_models import make

pytest.importorskip("transformers")

# What is written of a run with adapters: file or folder, options, and what rounding may change outputs by.
WRITTEN = {
    "merged": ("folder", ["--merge"], 1e-4),
    "merged in bf16": ("folder", ["--merge", "--type", "bf16"], 8e-2),
    "gguf in f32": ("m.gguf", ["--type", "f32"], 1e-4),
    "gguf": ("m.gguf", [], 1e-2),
    "gguf in q8_0": ("m.gguf", ["--type", "q8_0"], 8e-2),
    "adapters": ("adapters", [], 1e-4),
}


@pytest.mark.parametrize("family", ["llama", "gemma", "qwen2"])
def test_runs_with_adapters(tmp_path, family):
    base = tmp_path / "base"
    make(family, base, vocab_size=VOCABULARY)
    run = lora(tmp_path, base)
    for name, (out, options, allowed) in WRITTEN.items():
        if out.endswith(".gguf") and family == "qwen2":
            continue
        place = tmp_path / name.replace(" ", "-") / out
        place.parent.mkdir()
        result = json.loads(neap("export", run, *options, "-o", place, "--json"))
        assert result["checked"] is True and result["difference"] < allowed, name
        assert "unchecked" not in result
        again = json.loads(neap("export", run, *options, "-o", place, "--force", "--json", "--check-export", "off"))
        assert again["checked"] is False and "difference" not in again
    done = subprocess.run([NEAP, "export", run, "--adapter", "-o", tmp_path / "a.gguf"], capture_output=True, text=True)
    assert done.returncode == 0 and "not compared with the run: adapters in a GGUF file" in done.stderr


def test_a_run_of_all_weights(tmp_path):
    base = tmp_path / "base"
    make("llama", base, vocab_size=VOCABULARY)
    run = tune(tmp_path, base, "--full")
    assert "differ from the run's by" in neap("export", run, "--merge", "-o", tmp_path / "out")


def test_a_model_as_it_comes(tmp_path):
    base = tmp_path / "base"
    make("llama", base, vocab_size=VOCABULARY)
    result = json.loads(neap("export", base, "--type", "q8_0", "-o", tmp_path / "m.gguf", "--json"))
    assert result["checked"] is True and 0 < result["difference"] < 8e-2
