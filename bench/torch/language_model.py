#!/usr/bin/env python3
"""Fine-tunes a GGUF file by `neap finetune` and by peft in turns, and prints seconds a step and the processes' peaks.

    language_model.py NEAP MODEL.gguf [--rounds N] [--ways WAY,...]       (needs transformers, peft and gguf)

LoRA of rank 8 on queries and values, AdamW, 4 x 256 tokens of random words, two threads. Ways: f32 and bf16 keep everything;
200MB, 150MB and 100MB are budgets of the whole process, the smaller ones with micro-batches of 1, the last with the weights on
disk; peft is eager PyTorch in f32, peft-bf16 in bf16, peft-checkpoint has gradient checkpointing. Each run is a process of its
own; the peak is its VmHWM; seconds are the median of its steps. A way that fails has its message in its row; the exit status
is then 1."""

import argparse
import json
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

BATCH, LENGTH, STEPS, MB = 4, 256, 6, 1e6
OURS = {
    "f32": [], "bf16": ["--precision", "bf16"], "200MB": ["--process-budget", "200MB"],
    "150MB": ["--process-budget", "150MB", "--micro-batch", "1"],
    "100MB": ["--process-budget", "100MB", "--micro-batch", "1", "--base-on-disk", "always"],
}  # fmt: skip
PEFT = ("peft", "peft-bf16", "peft-checkpoint")


class Failed(Exception):
    """A way that did not run; its text says why."""


def message_of(text: str) -> str:
    """What a process wrote before it failed: from `neap: ` on, or the last line, which is a traceback's message."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    begin = next((at for at, line in enumerate(lines) if line.startswith("neap: --")), len(lines) - 1)
    return "; ".join(lines[begin:]) or "no message"


def run_neap(neap: str, model: str, data: Path, way: str) -> tuple[float, float]:
    made = subprocess.run(
        [neap, "finetune", model, "--data", f"tokens:{data},type=u16", "--length", str(LENGTH), "--batch", str(BATCH), "--steps",
         str(STEPS), "--evaluate", "off", "--threads", "2", "--json", *OURS[way]],
        capture_output=True, text=True,
    )  # fmt: skip
    if made.returncode != 0:
        raise Failed(message_of(made.stderr))
    result = json.loads(made.stdout)
    return result["step_seconds_median"], result["process_peak_bytes"]


def run_peft(model: str, way: str) -> None:
    """In a process of its own: prints its seconds and its peak."""
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    torch.set_num_threads(2)
    path = Path(model)
    dtype = torch.bfloat16 if way == "peft-bf16" else torch.float32
    base = AutoModelForCausalLM.from_pretrained(path.parent, gguf_file=path.name, dtype=dtype)
    made = get_peft_model(base, LoraConfig(r=8, lora_alpha=8, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM"))
    if way == "peft-checkpoint":
        made.enable_input_require_grads()
        made.gradient_checkpointing_enable()
    optimizer = torch.optim.AdamW([p for p in made.parameters() if p.requires_grad], lr=2e-4)
    ids = torch.randint(base.config.vocab_size, (BATCH, LENGTH), generator=torch.Generator().manual_seed(0))
    seconds = []
    for _ in range(STEPS):
        began = time.perf_counter()
        made(input_ids=ids, labels=ids, use_cache=False).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        seconds.append(time.perf_counter() - began)
    print(json.dumps([statistics.median(seconds), 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss]))


def run_way(neap: str, model: str, data: Path, way: str) -> tuple[float, float]:
    if way in OURS:
        return run_neap(neap, model, data, way)
    again = [sys.executable, "-W", "ignore", __file__, neap, model, "--way", way]
    made = subprocess.run(again, capture_output=True, text=True)
    if made.returncode != 0:
        raise Failed(message_of(made.stderr))
    seconds, peak = json.loads(made.stdout)
    return seconds, peak


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("neap")
    parser.add_argument("model")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--ways", default=",".join([*OURS, *PEFT]))
    parser.add_argument("--way")
    given = parser.parse_args()
    if given.way is not None:
        return run_peft(given.model, given.way)
    ways = given.ways.split(",")
    found: dict[str, list[tuple[float, float]]] = {way: [] for way in ways}
    failed: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as folder:
        data, draw = Path(folder) / "ids.bin", random.Random(0)
        data.write_bytes(b"".join(draw.randrange(49152).to_bytes(2, "little") for _ in range(100 * LENGTH)))
        for _ in range(given.rounds):
            for way in ways:
                if way in failed:
                    continue
                try:
                    found[way].append(run_way(given.neap, given.model, data, way))
                except Failed as failure:
                    failed[way] = str(failure)
    base = statistics.median(seconds for seconds, _ in found["peft"]) if found.get("peft") else None
    for way, values in found.items():
        if way in failed:
            print(f"{way:16} failed: {failed[way]}")
            continue
        seconds = statistics.median(one for one, _ in values)
        beside = f", {seconds / base:.2f} of peft" if base else ""
        print(f"{way:16} {seconds:.2f} s a step{beside}; process {max(peak for _, peak in values) / MB:.0f} MB")
    if failed:
        sys.exit(1)


if __name__ == "__main__":
    main()
