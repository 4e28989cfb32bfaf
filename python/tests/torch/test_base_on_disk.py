"""`--base-on-disk`: runs whose frozen weights stay in the model's file have the bits of those that have them in memory, for every
form that files have them in; what goes on, what is evaluated, and files that are cut while a run reads them."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import test_finetune as small
import torch
from test_finetune import NEAP, Type, data, few, run, transformers  # noqa: F401

WIDE = {**small.SHAPE, "hidden_size": 256, "intermediate_size": 512}
GPT2 = {**small.FAMILIES["gpt2"][1], "n_embd": 128}


def make_llama(folder: Path, dtype: torch.dtype) -> None:
    tokenizer = small.make_tokenizer()
    torch.manual_seed(1)
    config = transformers.LlamaConfig(**WIDE, vocab_size=len(tokenizer), bos_token_id=0, eos_token_id=0)
    transformers.LlamaForCausalLM(config).to(dtype).save_pretrained(folder, max_shard_size="1MB")
    tokenizer.save_pretrained(folder)


def make_gpt2(folder: Path) -> None:
    tokenizer = small.make_tokenizer()
    torch.manual_seed(1)
    config = transformers.GPT2Config(**GPT2, vocab_size=len(tokenizer), bos_token_id=0, eos_token_id=0)
    transformers.GPT2LMHeadModel(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def make(kind: str, path: Path) -> Path:
    if kind == "gpt2":
        make_gpt2(path)
    elif kind.startswith("folder"):
        make_llama(path, torch.bfloat16 if kind.endswith("BF16") else torch.float32)
    else:
        path = path.with_suffix(".gguf")
        small.write_gguf(path, Type[kind], wide=True)
    return path


def command(model: Path, data: str, out: Path, *options: str | Path) -> list[str | Path]:  # noqa: F811
    few_steps = ["--steps", "3", "--length", "48", "--planner", "evict"]
    return [*small.finetune(model, data, out, "--lora-dropout", "0.1"), *few_steps, *options]


def train(model: Path, data: str, out: Path, *options: str | Path) -> dict[str, Any]:  # noqa: F811
    return run(*command(model, data, out, *options))


@pytest.mark.parametrize("kind", ["folder F32", "folder BF16", "gpt2", "F16", "Q8_0", "Q4_K"])
def test_bits(few: str, tmp_path: Path, kind: str) -> None:  # noqa: F811
    model = make(kind, tmp_path / "model")
    memory = train(model, few, tmp_path / "memory", "--base-on-disk", "never")
    assert "on_disk_bytes" not in memory
    for budget, planner in (("max", "auto"), ("60%", "auto"), ("min", "evict")):
        how = ("--base-on-disk", "always", "--budget", budget, "--planner", planner)
        disk = train(model, few, tmp_path / budget, *how)
        assert disk["weights_sha256"] == memory["weights_sha256"], budget
        assert disk["on_disk_bytes"] > 0 and disk["disk_bytes_per_step"] > 0
        assert disk["resident_bytes"] < memory["resident_bytes"] / 2
    by_itself = train(model, few, tmp_path / "auto", "--budget", str(disk["budget_bytes"]))
    assert by_itself["on_disk_bytes"] == disk["on_disk_bytes"]
    assert by_itself["weights_sha256"] == memory["weights_sha256"]


LEAST = ("--budget", "min", "--planner", "evict")  # which plans at once


@pytest.mark.parametrize(
    "options",
    [
        *(["--store", f"*={kind}"] for kind in ("nf4", "q8_0", "i8")),
        *(["--base", kind] for kind in ("nf4", "i8")),
        *(["--precision", "bf16"], ["--micro-batch", "1"], ["--lora-layers", "all"]),
    ],
)
def test_bits_of_other_types(few: str, tmp_path: Path, options: list[str]) -> None:  # noqa: F811
    model = make("folder F32", tmp_path / "model")
    memory = train(model, few, tmp_path / "memory", *options, "--base-on-disk", "never")
    disk = train(model, few, tmp_path / "disk", *options, "--base-on-disk", "always", *LEAST)
    assert disk["weights_sha256"] == memory["weights_sha256"]


def test_several_processes(few: str, tmp_path: Path) -> None:  # noqa: F811
    """A batch of one length may have fewer micro-batches than there are processes: the others read nothing meanwhile."""
    model, parts = make("Q8_0", tmp_path / "model"), ["--batch", "4", "--micro-batch", "1"]
    memory = train(model, few, tmp_path / "memory", *parts, "--base-on-disk", "never")
    disk = train(model, few, tmp_path / "disk", *parts, "--base-on-disk", "always", "--processes", "2")
    assert disk["processes"] == 2 and disk["on_disk_bytes"] > 0
    assert disk["weights_sha256"] == memory["weights_sha256"]


def test_going_on_and_evaluating(few: str, tmp_path: Path) -> None:  # noqa: F811
    model = make("Q8_0", tmp_path / "model.gguf")
    whole = train(model, few, tmp_path / "whole", "--steps", "4", "--base-on-disk", "never")
    train(model, few, tmp_path / "part", "--steps", "2", "--base-on-disk", "always")
    again = run("train", "--resume", tmp_path / "part", "--steps", "4", "--base-on-disk", "never")
    assert again["weights_sha256"] == whole["weights_sha256"]
    losses = [run("evaluate", tmp_path / "whole", "--base-on-disk", where) for where in ("never", "always")]
    assert losses[0]["test_loss"] == losses[1]["test_loss"]

    # Adapters of another run begin a run on disk; other weights than the file's do not.
    begun = [
        train(model, few, tmp_path / where, "--init", tmp_path / "whole", "--base-on-disk", where)
        for where in ("never", "always")
    ]
    assert begun[0]["weights_sha256"] == begun[1]["weights_sha256"]
    make_llama(tmp_path / "other", torch.float32)
    other = ["--init", tmp_path / "other" / "model.safetensors.index.json"]
    refused = subprocess.run(
        [NEAP, *command(model, few, tmp_path / "refused", *other, "--base-on-disk", "always")],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert refused.returncode == 1 and "are in memory" in refused.stderr, refused.stderr


def test_a_saved_plan(few: str, tmp_path: Path) -> None:  # noqa: F811
    model, plan = make("Q8_0", tmp_path / "model.gguf"), tmp_path / "plan.json"
    one = tmp_path / "one.jsonl"  # one length has one plan
    one.write_text(Path(few.split(",")[0]).read_text().splitlines(True)[0] * 4)
    made = train(model, str(one), tmp_path / "made", "--base-on-disk", "always", "--budget", "min", "--save-plan", plan)
    assert json.loads(plan.read_text())["graph"].endswith("+disk")
    arguments = [a for a in command(model, str(one), tmp_path / "again") if a not in ("--planner", "evict")]
    again = run(*arguments, "--plan", plan)
    assert again["on_disk_bytes"] > 0
    assert again["weights_sha256"] == made["weights_sha256"]


def test_a_file_that_is_cut_while_a_run_reads_it(few: str, tmp_path: Path) -> None:  # noqa: F811
    model, out = make("Q8_0", tmp_path / "model.gguf"), tmp_path / "run"
    kept = shutil.copy(model, tmp_path / "kept")
    options = ["--steps", "100000", "--checkpoint-every", "1", "--base-on-disk", "always"]
    with subprocess.Popen([NEAP, *command(model, few, out, *options)], stderr=subprocess.PIPE, text=True) as running:
        while running.poll() is None and not any(p.name > "weights-1" for p in out.glob("weights-*")):
            pass
        with model.open("r+b") as file:
            file.truncate(model.stat().st_size // 2)
        _, message = running.communicate(timeout=120)
    assert running.returncode == 1
    assert str(model) in message and "was changed or cut" in message and "--resume" in message
    shutil.copy(kept, model)
    step = json.loads((out / "state.json").read_text())["step"]
    assert step > 0
    run("train", "--resume", out, "--steps", str(step + 1))
