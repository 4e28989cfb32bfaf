"""Conversations as data: the held-out loss, perplexity and accuracy of a run of the command against PyTorch, which takes each
conversation alone, without padding, as transformers renders it."""

from __future__ import annotations

import json
import math
import random
import subprocess
from pathlib import Path

import native
import pytest
import torch
from test_sequences import Llama, by_name
from torch.nn import functional as F

transformers = pytest.importorskip("transformers")
tokenizers = pytest.importorskip("tokenizers")
safetensors = pytest.importorskip("safetensors.numpy")

NEAP = native.LIBRARY.parent / "neap"
TEMPLATE = Path(__file__).parents[3] / "tests" / "template" / "templates" / "chatml.jinja"
if not NEAP.is_file():
    pytest.skip(f"{NEAP} is missing (make)", allow_module_level=True)

VOCABULARY, LENGTH = 256, 150  # bytes


def conversations(seed: int, count: int) -> list[list[dict[str, str]]]:
    draw = random.Random(seed)
    result = []
    for _ in range(count):
        roles = ["system"] * draw.randint(0, 1) + ["user", "assistant"] * draw.randint(1, 2)
        result.append(
            [{"role": role, "content": "".join(draw.choices("ab é?", k=draw.randint(0, 25)))} for role in roles]
        )
    return result


def render(messages: list[dict[str, str]], on_prompt: bool) -> tuple[list[int], list[int]]:
    """The bytes of a conversation, and as labels those that follow and carry loss; -1 elsewhere."""
    words = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=words, chat_template=TEMPLATE.read_text())
    before, counts = 0, []
    for i, message in enumerate(messages):
        text = tokenizer.apply_chat_template(messages[: i + 1], tokenize=False).encode()
        answer = len((message["content"] + "<|im_end|>").encode()) if message["role"] == "assistant" else 0
        counts += [False] * (len(text) - before - answer - 1) + [True] * answer + [False]
        before = len(text)
    labels = [byte if counted or on_prompt else -1 for byte, counted in zip(text, counts, strict=True)]
    return list(text[:LENGTH]), ([*labels[1:], -1])[:LENGTH]


def run(*arguments: str | Path) -> dict:
    return json.loads(subprocess.run([NEAP, *arguments, "--json"], capture_output=True, text=True, check=True).stdout)


@pytest.mark.parametrize("on_prompt", [False, True])
def test_loss_is_that_of_pytorch(tmp_path: Path, on_prompt: bool):
    parts = {"train": conversations(1, 60), "valid": conversations(2, 25)}
    for name, part in parts.items():
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps({"messages": m}) + "\n" for m in part))
    out = tmp_path / "run"
    result = run("train", "--model", "llama-1x16x2x1", "--data", f"chat:{tmp_path}", "--length", str(LENGTH), "--batch", "4",
                 "--optimizer", "adamw", "--lr", "0.01", "--epochs", "2", "--out", out,
                 *["--train-on-prompt"] * on_prompt)  # fmt: skip
    network = Llama(1, 16, 2, 1, VOCABULARY).double()
    (weights,) = out.glob("weights-*.safetensors")
    values = safetensors.load_file(weights)
    with torch.no_grad():
        for name, pieces in by_name(network).items():
            split = torch.tensor(values[name]).split([len(p) for p in pieces])
            for parameter, value in zip(pieces, split, strict=True):
                parameter.copy_(value)
    loss, right, counted = 0.0, 0, 0
    for messages in parts["valid"]:
        tokens, labels = (torch.tensor(part) for part in render(messages, on_prompt))
        if (labels < 0).all():
            continue
        with torch.no_grad():
            logits = network(tokens[None])[0]
        loss += F.cross_entropy(logits, labels, ignore_index=-1, reduction="sum").item()
        right += (logits.argmax(-1) == labels).sum().item()
        counted += (labels >= 0).sum().item()
    assert counted > 200
    evaluated = run("evaluate", out)
    for found in (result, evaluated):
        assert found["test_loss"] == pytest.approx(loss / counted, rel=1e-5)
        assert found["test_accuracy"] == pytest.approx(right / counted, abs=1.01 / counted)
        assert found["perplexity"] == pytest.approx(math.exp(loss / counted), rel=1e-4)
