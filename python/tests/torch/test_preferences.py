"""Learning from preferences (DPO) beside PyTorch: losses of 20 steps, weights, the reference, refusals; the loss is TRL's."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from test_export_language import VOCABULARY, neap
from test_language_models import make, parameters
from torch.nn import functional as F

transformers = pytest.importorskip("transformers")
safetensors = pytest.importorskip("safetensors.torch")
tokenizers = pytest.importorskip("tokenizers")

BETA, RATE, STEPS, BATCH, RANK, ALPHA, LENGTH = 0.3, 0.02, 20, 2, 3, 6, 160
RECORDS = 10
WORDS = ["red", "green", "blue", "one", "two", "three", "cat", "dog", "bird", "runs", "sleeps", "sings"]


def texts(seed: int) -> list[dict[str, Any]]:
    draw = np.random.default_rng(seed)
    words = lambda count: " ".join(draw.choice(WORDS, count))  # noqa: E731
    return [
        {
            "prompt": words(draw.integers(1, 6)),
            "chosen": words(draw.integers(1, 8)),
            "rejected": words(draw.integers(1, 5)),
        }
        for _ in range(RECORDS)
    ]


def as_messages(record: dict[str, Any]) -> dict[str, Any]:
    say = lambda role, text: {"role": role, "content": text}  # noqa: E731
    return {
        "prompt": [say("user", record["prompt"])],
        "chosen": [say("assistant", record["chosen"])],
        "rejected": [say("assistant", record["rejected"])],
    }


def as_conversations(record: dict[str, Any]) -> dict[str, Any]:
    parts = as_messages(record)
    return {name: parts["prompt"] + parts[name] for name in ("chosen", "rejected")}


FORMS = {"texts": lambda record: record, "messages": as_messages, "conversations": as_conversations}


def write(path: Path, records: list[dict[str, Any]], array: bool = False) -> Path:
    path.write_text(json.dumps(records) if array else "".join(json.dumps(record) + "\n" for record in records))
    return path


def encode(prompt: str, answer: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Bytes of ChatML, and labels: the answer's, and those of the token that ends it."""
    before = f"<|im_start|>user\n{prompt}<|im_end|>\n<|im_start|>assistant\n".encode()
    after = f"{answer}<|im_end|>".encode()
    whole = before + after + b"\n"
    ids = torch.tensor(list(whole))
    labels = torch.full_like(ids, -1)
    labels[len(before) : len(before) + len(after)] = ids[len(before) : len(before) + len(after)]
    return ids[:-1], labels[1:]


def log_probabilities(model: Any, state: dict[str, torch.Tensor], records: list[dict[str, Any]]) -> torch.Tensor:
    """[records, 2]"""
    rows = [encode(record["prompt"], record[name]) for record in records for name in ("chosen", "rejected")]
    length = max(len(ids) for ids, _ in rows)
    ids = torch.stack([F.pad(ids, (0, length - len(ids))) for ids, _ in rows])
    labels = torch.stack([F.pad(label, (0, length - len(label)), value=-1) for _, label in rows])
    logits = torch.func.functional_call(model, state, (ids,)).logits.log_softmax(-1)
    taken = logits.gather(-1, labels.clamp(min=0)[..., None])[..., 0] * (labels >= 0)
    return taken.sum(-1).unflatten(0, (-1, 2))


def sigmoid_loss(now: torch.Tensor, before: torch.Tensor) -> torch.Tensor:
    """TRL's loss_type "sigmoid", without label smoothing."""
    logits = (now[:, 0] - now[:, 1]) - (before[:, 0] - before[:, 1])
    return -F.logsigmoid(BETA * logits).mean()


def finetune(base: Path, data: Path, out: Path, *more: object, expect: int = 0) -> str:
    return neap("finetune", base, "--data", f"preference:{data},tokens=bytes,test={data}", "--out", out, "--template",
                "chatml", "--beta", BETA, "--batch", BATCH, "--length", LENGTH, "--lr", RATE, "--optimizer", "sgd",
                "--momentum", 0, "--weight-decay", 0, "--warmup", 0, "--shuffle", "off", "--threads", 1,
                "--metrics", out.parent / f"{out.name}.jsonl", *more, expect=expect)  # fmt: skip


def losses(out: Path) -> list[float]:
    lines = (out.parent / f"{out.name}.jsonl").read_text().splitlines()
    return [line["loss"] for line in map(json.loads, lines) if "loss" in line]


def weights(out: Path) -> dict[str, torch.Tensor]:
    return safetensors.load_file(next(out.glob("weights*")))


def with_adapters(model: Any, adapters: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    state = {name: value.detach() for name, value in model.named_parameters()}
    for name in state:
        module = name.removesuffix(".weight")
        if f"{module}.lora_A.weight" in adapters:
            a, b = adapters[f"{module}.lora_A.weight"], adapters[f"{module}.lora_B.weight"]
            state[name] = state[name] + ALPHA / RANK * b @ a
    return state


@pytest.mark.parametrize(("family", "form", "more"), [
    ("llama", "texts", []),
    ("llama", "messages", ["--micro-batch", 1]),
    ("gemma3", "conversations", []),
    ("qwen3", "messages", ["--base-on-disk", "never"]),
])  # fmt: skip
def test_twenty_steps_of_adapters(tmp_path, family, form, more):
    model = make(family, tmp_path / "base", vocab_size=VOCABULARY, max_position_embeddings=LENGTH)
    records = texts(1)
    data = write(tmp_path / "data.json", [FORMS[form](record) for record in records], array=form == "messages")
    lora = ["--lora", RANK, "--lora-alpha", ALPHA, "--lora-layers", "all"]
    finetune(tmp_path / "base", data, tmp_path / "first", "--steps", 1, "--lr", 1e-30, *lora)
    finetune(tmp_path / "base", data, tmp_path / "run", "--steps", STEPS, *lora, *more)
    adapters = {name: value.requires_grad_() for name, value in weights(tmp_path / "first").items()}
    assert all(value.abs().max() < 1e-20 for name, value in adapters.items() if "lora_B" in name)
    with torch.no_grad():
        before = log_probabilities(model, with_adapters(model, {}), records)
    kept = safetensors.load_file(tmp_path / "run" / "reference.safetensors")
    for part in ("train", "test"):
        torch.testing.assert_close(kept[part], before, rtol=1e-6, atol=1e-5)
    wanted = []
    for step in range(STEPS):
        some = [(step * BATCH + i) % RECORDS for i in range(BATCH)]
        now = log_probabilities(model, with_adapters(model, adapters), [records[i] for i in some])
        loss = sigmoid_loss(now, before[some])
        gradients = torch.autograd.grad(loss, list(adapters.values()))
        with torch.no_grad():
            for value, gradient in zip(adapters.values(), gradients, strict=True):
                value -= RATE * gradient
        wanted.append(loss.item())
    got = losses(tmp_path / "run")
    assert wanted[0] == pytest.approx(math.log(2), abs=1e-6) and min(wanted) < 0.6
    np.testing.assert_allclose(got, wanted, atol=1e-5, rtol=0)
    for name, value in weights(tmp_path / "run").items():
        torch.testing.assert_close(value, adapters[name].detach(), atol=1e-5, rtol=1e-5, msg=name)


def test_twenty_steps_of_all_weights(tmp_path):
    model = make("smollm3", tmp_path / "base", vocab_size=VOCABULARY, max_position_embeddings=LENGTH)
    records = texts(2)
    data = write(tmp_path / "data.jsonl", records)
    finetune(tmp_path / "base", data, tmp_path / "run", "--steps", STEPS, "--full", "--lr", RATE / 10)
    state = {name: value.clone().requires_grad_() for name, value in parameters(model).items()}
    with torch.no_grad():
        before = log_probabilities(model, state, records)
    wanted = []
    for step in range(STEPS):
        some = [(step * BATCH + i) % RECORDS for i in range(BATCH)]
        loss = sigmoid_loss(log_probabilities(model, state, [records[i] for i in some]), before[some])
        gradients = torch.autograd.grad(loss, list(state.values()))
        with torch.no_grad():
            for value, gradient in zip(state.values(), gradients, strict=True):
                value -= RATE / 10 * gradient
        wanted.append(loss.item())
    np.testing.assert_allclose(losses(tmp_path / "run"), wanted, atol=1e-5, rtol=0)
    assert min(wanted) < 0.65


def test_losses_are_those_of_trl(tmp_path):
    """By the model's own tokenizer and template, which both use."""
    trl, datasets = pytest.importorskip("trl"), pytest.importorskip("datasets")
    letters = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    words = tokenizers.Tokenizer(tokenizers.models.BPE({letter: i for i, letter in enumerate(letters)}, []))
    words.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    words.decoder = tokenizers.decoders.ByteLevel()
    template = (
        "{% for m in messages %}{{ '<' + m['role'] + '>' + m['content'] + '|' }}{% endfor %}"
        "{% if add_generation_prompt %}<assistant>{% endif %}"
    )
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=words, chat_template=template, pad_token="!", eos_token="|"
    )
    base, rate = tmp_path / "base", RATE / 2
    make("llama", base, vocab_size=260, max_position_embeddings=LENGTH)
    tokenizer.save_pretrained(base)
    records = [as_messages(record) for record in texts(1)]
    data = write(tmp_path / "data.jsonl", records)
    neap("finetune", base, "--data", f"preference:{data},test={data}", "--out", tmp_path / "run", "--beta", BETA, "--batch", BATCH,
         "--length", LENGTH, "--lr", rate, "--optimizer", "sgd", "--momentum", 0, "--weight-decay", 0, "--warmup", 0,
         "--shuffle", "off", "--threads", 1, "--full", "--steps", STEPS, "--metrics", tmp_path / "run.jsonl")  # fmt: skip

    class InOrder(trl.DPOTrainer):
        def _get_train_sampler(self, *_: Any, **__: Any) -> torch.utils.data.Sampler:
            return torch.utils.data.SequentialSampler(self.train_dataset)

    arguments = trl.DPOConfig(
        output_dir=str(tmp_path / "trl"), beta=BETA, per_device_train_batch_size=BATCH, max_steps=STEPS, learning_rate=rate,
        optim="sgd", lr_scheduler_type="constant", logging_steps=1, report_to=[], max_length=LENGTH, max_grad_norm=0,
        use_cpu=True, bf16=False, fp16=False, gradient_checkpointing=False, save_strategy="no", disable_tqdm=True,
    )  # fmt: skip
    model, reference = (transformers.AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32) for _ in range(2))
    trainer = InOrder(
        model=model,
        ref_model=reference,
        args=arguments,
        train_dataset=datasets.Dataset.from_list(records),
        processing_class=tokenizer,
    )
    trainer.train()
    wanted = [line["loss"] for line in trainer.state.log_history if "loss" in line]
    assert len(wanted) == STEPS and min(wanted) < 0.1
    np.testing.assert_allclose(losses(tmp_path / "run"), wanted, atol=1e-5, rtol=0)


def test_a_run_that_goes_on(tmp_path):
    """Has the bits of one without the stop: its reference is that of the beginning."""
    make("llama", tmp_path / "base", vocab_size=VOCABULARY, max_position_embeddings=LENGTH)
    data = write(tmp_path / "data.jsonl", texts(3))
    lora = ["--lora", RANK, "--lora-alpha", ALPHA]
    finetune(tmp_path / "base", data, tmp_path / "whole", "--steps", 8, *lora)
    finetune(tmp_path / "base", data, tmp_path / "part", "--steps", 4, *lora)
    finetune(tmp_path / "base", data, tmp_path / "part", "--steps", 8, *lora, "--resume", tmp_path / "part")
    whole, part = weights(tmp_path / "whole"), weights(tmp_path / "part")
    assert all(torch.equal(whole[name], part[name]) for name in whole)
    assert losses(tmp_path / "part") == losses(tmp_path / "whole")
    (tmp_path / "part" / "reference.safetensors").unlink()
    told = finetune(
        tmp_path / "base", data, tmp_path / "part", "--steps", 9, *lora, "--resume", tmp_path / "part", expect=1
    )
    assert "reference.safetensors" in told


@pytest.mark.parametrize(
    ("record", "words"),
    [
        ({"prompt": "a", "chosen": "b"}, ["rejected", "missing"]),
        ({"prompt": "a", "chosen": "b", "rejected": 3}, ["rejected"]),
        (
            {"prompt": "a", "chosen": "b", "rejected": [{"role": "assistant", "content": "c"}]},
            ["chosen", "other answer"],
        ),
        ({"chosen": "b", "rejected": "c"}, ["prompt"]),
        ({"chosen": [{"role": "user", "content": "b"}], "rejected": [{"role": "user", "content": "c"}]}, ["assistant"]),
    ],
)
def test_records_that_are_none(tmp_path, record, words):
    make("llama", tmp_path / "base", vocab_size=VOCABULARY, max_position_embeddings=LENGTH)
    data = write(tmp_path / "data.jsonl", [*texts(1)[:2], record])
    told = finetune(tmp_path / "base", data, tmp_path / "run", "--steps", 1, expect=1)
    for word in ["data.jsonl: line 3", *words]:
        assert word in told


def test_what_is_refused(tmp_path):
    make("llama", tmp_path / "base", vocab_size=VOCABULARY, max_position_embeddings=LENGTH)
    text = tmp_path / "text"
    text.write_text("words " * 500)
    told = neap("finetune", tmp_path / "base", "--data", f"text:{text},tokens=bytes", "--out", tmp_path / "no", "--steps", 1,
                "--length", 16, "--beta", 0.1, expect=2)  # fmt: skip
    assert "beta: " in told and "preference" in told
    make("gemma2", tmp_path / "capped", vocab_size=VOCABULARY)
    data = write(tmp_path / "data.jsonl", texts(1))
    assert "cap" in finetune(tmp_path / "capped", data, tmp_path / "run", "--steps", 1, "--length", 60, expect=1)
