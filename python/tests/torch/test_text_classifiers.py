"""Encoders of files (BERT, Longformer) on texts beside transformers and peft: classifiers and regression, their training and export, and
vectors of sentences."""

from __future__ import annotations

import csv
import json
import random
import subprocess
from pathlib import Path
from typing import Any

import native
import numpy as np
import pytest
import torch
from test_language_models import load, relative
from torch.nn import functional as F

transformers = pytest.importorskip("transformers")
peft = pytest.importorskip("peft")
tokenizers = pytest.importorskip("tokenizers")
transformers.logging.set_verbosity_error()

NEAP = native.LIBRARY.parent / "neap"
if not NEAP.is_file():
    pytest.skip(f"{NEAP} is missing (make)", allow_module_level=True)

SENTENCE = "the tide comes in at noon and goes out by six boats stay fog wind sea rain sun"
WORDS = SENTENCE.split(" ")
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
VOCABULARY = {word: i for i, word in enumerate([*SPECIAL, *WORDS, "##s", "s", "t", "##a"])}
SHAPE = {
    "vocab_size": len(VOCABULARY), "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
    "intermediate_size": 48, "max_position_embeddings": 40, "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}  # fmt: skip
LONG = {"attention_window": 4, "pad_token_id": 0, "max_position_embeddings": 41}  # the first place is for padding
CLASSES = ["high", "low", "slack"]
NAMES = {"id2label": dict(enumerate(CLASSES)), "label2id": {name: i for i, name in enumerate(CLASSES)}}
BATCH, RATE, DECAY, STEPS, RANK, ALPHA = 4, 0.01, 0.05, 12, 4, 6


def run(*arguments: object, expect: int = 0) -> str:
    done = subprocess.run([NEAP, *map(str, arguments)], capture_output=True, text=True, timeout=300)
    assert done.returncode == expect, done.stdout + done.stderr
    return done.stdout + done.stderr


def make_tokenizer() -> Any:
    words = tokenizers.Tokenizer(tokenizers.models.WordPiece(VOCABULARY, unk_token="[UNK]"))
    words.normalizer = tokenizers.normalizers.BertNormalizer(lowercase=True)
    words.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    words.decoder = tokenizers.decoders.WordPiece()
    words.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[(name, VOCABULARY[name]) for name in ("[CLS]", "[SEP]")]
    )
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=words, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]",
        mask_token="[MASK]",
    )  # fmt: skip


def make(kind: str, folder: Path, **options: Any) -> Any:
    """A model whose weights, norms and biases too, are drawn."""
    torch.manual_seed(1)
    config = transformers.BertConfig(**{**SHAPE, **options})
    if kind.startswith("Longformer"):
        config = transformers.LongformerConfig(**{**SHAPE, **LONG, **options})
    model = getattr(transformers, kind)(config).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            one = 1.0 if "LayerNorm.weight" in name else 0.0
            parameter.copy_(one + 0.1 * torch.randn_like(parameter))
    model.save_pretrained(folder)
    make_tokenizer().save_pretrained(folder)
    return model


def texts(seed: int, count: int, most: int = 20) -> list[str]:
    draw = random.Random(seed)
    return [", ".join(draw.choices([*WORDS, "Seas", "xyz"], k=draw.randint(1, most // 2))) for _ in range(count)]


def write(path: Path, records: list[str], labels: list[Any]) -> None:
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["id", "text", "kind"])
        rows.writerows((i, text, label) for i, (text, label) in enumerate(zip(records, labels, strict=True)))


def encode(records: list[str], most: int = 40) -> Any:
    return make_tokenizer()(records, padding=True, truncation=True, max_length=most, return_tensors="pt")


def padded(batch: Any) -> np.ndarray:
    """The tokens as Neap takes them: -1 behind the end of each text."""
    return np.where(batch["attention_mask"], batch["input_ids"], -1).astype(np.int32)


HEADS: dict[str, dict[str, Any]] = {
    "classes": NAMES,
    "one value": {"num_labels": 1},
    "two values": {"num_labels": 2, "problem_type": "regression"},
}


@pytest.mark.parametrize(
    ("kind", "head"), [*(("Bert", head) for head in HEADS), ("Longformer", "classes"), ("Longformer", "two values")]
)
def test_outputs_and_a_step_are_those_of_transformers(library, tmp_path, kind, head):
    """Longformer's first token is global."""
    model = make(f"{kind}ForSequenceClassification", tmp_path, **HEADS[head])
    batch, count = encode(texts(1, BATCH)), model.config.num_labels
    values = head != "classes"
    labels = torch.randn(BATCH, count) if values else torch.tensor([2, 0, 1, 2])
    shape = {"batch": BATCH, "length": batch["input_ids"].shape[1]}
    assert (batch["attention_mask"].sum(1) < shape["length"]).any()
    output = "prediction" if values else "logits"
    with native.model(library, str(tmp_path), **shape) as graph, native.session(library, graph, predict=True) as s:
        load(library, tmp_path, s, **shape)
        s.fill("tokens", padded(batch))
        s.predict()
        assert relative(s.output(output), model(**batch).logits.detach().numpy()) < 2e-5
    loss = (F.mse_loss if values else F.cross_entropy)(model(**batch).logits, labels)
    loss.backward()
    with native.model(library, str(tmp_path), **shape) as graph, native.session(library, graph, momentum=0) as s:
        load(library, tmp_path, s, **shape)
        before = {name: s.read(name) for name in s.variables}
        s.fill("tokens", padded(batch))
        s.fill("label", labels.numpy().astype(np.float32 if values else np.int32))
        assert abs(s.step(1.0).loss - loss.item()) < 1e-5 * loss.item()
        gradients = dict(model.named_parameters())
        assert set(before) == set(gradients)
        for name, was in before.items():
            expected = gradients[name].grad.numpy()
            most = max(np.abs(expected).max(), 1e-3)  # keys' biases move no softmax
            assert np.abs(was - s.read(name) - expected).max() < 2e-3 * most, name


# ---- Training ----


def batches(records: list[Any]) -> list[list[Any]]:
    """Those of an epoch that is not shuffled: records of like lengths together."""
    lengths = [len(make_tokenizer()(text)["input_ids"]) for text, _ in records]
    longest, ordered = max(lengths), sorted(lengths)
    limits: list[int] = []
    for share in (0.25, 0.5, 0.75, 0.9, 0.98):
        limit = (ordered[int(share * (len(ordered) - 1))] + 3) // 4 * 4
        if limit < longest and limit > (limits[-1] if limits else 0):
            limits.append(limit)
    result, above = [], 0
    for limit in [*limits, longest]:
        inside = [r for r, length in zip(records, lengths, strict=True) if above < length <= limit]
        above = limit
        result += [inside[at : at + BATCH] for at in range(0, len(inside), BATCH)]
    return result


def make_adapter(base: Path, folder: Path) -> Any:
    """Adapters of peft and the head, which peft trains beside them, none of them at its first value."""
    torch.manual_seed(2)
    config = peft.LoraConfig(r=RANK, lora_alpha=ALPHA, target_modules=["query", "value"], task_type="SEQ_CLS")
    model = peft.get_peft_model(transformers.AutoModelForSequenceClassification.from_pretrained(base).eval(), config)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.copy_(0.2 * torch.randn_like(parameter))
    model.save_pretrained(folder)
    return model


@pytest.mark.parametrize("way", ["full", "lora"])
def test_training_evaluation_and_export_are_those_of_transformers(tmp_path, way):
    base, data, test, out = tmp_path / "base", tmp_path / "t.csv", tmp_path / "test.csv", tmp_path / "run"
    model = make("BertForSequenceClassification", base, **NAMES)
    options: list[object] = ["--full"]
    if way == "lora":
        model = make_adapter(base, tmp_path / "first")
        options = ["--lora", RANK, "--lora-alpha", ALPHA, "--lora-init", tmp_path / "first"]
    records = texts(3, 22)
    labels = [random.Random(4 + i).choice(CLASSES[1:]) for i in range(22)]  # not all: the order is the model's
    write(data, records, labels)
    write(test, records[:7], labels[:7])
    epoch = batches(list(zip(records, labels, strict=True)))
    assert len({len(b) for b in epoch}) > 1
    update = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=RATE, weight_decay=DECAY)
    losses = []
    for step in range(STEPS):
        chosen = epoch[step % len(epoch)]
        update.zero_grad()
        loss = model(
            **encode([text for text, _ in chosen]), labels=torch.tensor([CLASSES.index(c) for _, c in chosen])
        ).loss
        loss.backward()
        update.step()
        losses.append(loss.item())
    source = f"csv:{data},text=text,label=kind,test={test}"
    run("finetune", base, "--data", source, "--out", out, "--batch", BATCH, "--steps", STEPS, "--lr", RATE,
        "--warmup-steps", 0, "--weight-decay", DECAY, "--shuffle", "off", "--threads", 1,
        "--metrics", tmp_path / "metrics", *options)  # fmt: skip
    got = [json.loads(line) for line in (tmp_path / "metrics").read_text().splitlines()]
    assert [line["loss"] for line in got if "loss" in line] == pytest.approx(losses, rel=1e-3)

    # What is predicted is what transformers gives of either export.
    run("predict", out, "--data", f"csv:{test}", "-o", tmp_path / "p.npy")
    predicted, batch = np.load(tmp_path / "p.npy"), encode(records[:7])
    assert relative(predicted, model(**batch).logits.detach().numpy()) < 1e-3
    run("export", out, "--merge", "-o", tmp_path / "merged")
    merged = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path / "merged").eval()
    assert merged.config.id2label == NAMES["id2label"]
    assert relative(predicted, merged(**batch).logits.detach().numpy()) < 1e-5
    if way == "lora":
        run("export", out, "-o", tmp_path / "adapter")
        again = peft.PeftModel.from_pretrained(
            transformers.AutoModelForSequenceClassification.from_pretrained(base), str(tmp_path / "adapter")
        ).eval()
        assert relative(predicted, again(**batch).logits.detach().numpy()) < 1e-5
        assert json.loads((tmp_path / "adapter/adapter_config.json").read_text())["task_type"] == "SEQ_CLS"

    # Evaluation counts what is right, and names the classes.
    right = sum(CLASSES[i] == label for i, label in zip(predicted.argmax(1), labels, strict=False))
    told = json.loads(run("evaluate", out, "--json"))
    assert told["test_accuracy"] == pytest.approx(right / 7)
    assert [row["name"] for row in told["classes"]] == CLASSES
    run("predict", tmp_path / "merged", "--data", f"csv:{test},text=text", "-o", tmp_path / "again.npy")
    assert relative(np.load(tmp_path / "again.npy"), predicted) < 1e-5


@pytest.mark.parametrize(
    ("kind", "new"),
    [
        ("BertModel", "classifier"),
        ("BertForMaskedLM", "bert.pooler.dense"),
        ("LongformerModel", "classifier.dense"),
    ],
)
def test_a_body_gets_a_new_head(tmp_path, kind, new):
    base, data = tmp_path / "base", tmp_path / "t.csv"
    make(kind, base)
    records = texts(5, 30)
    labels = ["long" if len(text) > 40 else "short" for text in records]
    write(data, records, labels)
    options = [
        "--batch",
        5,
        "--epochs",
        30,
        "--lr",
        0.01,
        "--lora-layers",
        "all",
        "--threads",
        1,
        "--out",
        tmp_path / "run",
    ]
    said = run("finetune", base, "--data", f"csv:{data},text=text,label=kind", *options)
    assert "new layers" in said and new in said and "classifier" in said
    (tmp_path / "only.csv").write_text("text\n" + "".join(f'"{text}"\n' for text in records))
    run("predict", tmp_path / "run", "--data", f"csv:{tmp_path / 'only.csv'}", "-o", tmp_path / "p.csv")
    rows = list(csv.DictReader((tmp_path / "p.csv").open()))
    assert sum(row["prediction"] == label for row, label in zip(rows, labels, strict=True)) >= 27
    run("export", tmp_path / "run", "--merge", "-o", tmp_path / "merged")
    merged = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path / "merged").eval()
    share = merged(**encode(records)).logits.softmax(1).detach().numpy()
    assert merged.config.id2label == {0: "long", 1: "short"}
    assert np.abs(share[:, 0] - [float(row["long"]) for row in rows]).max() < 1e-5
    run("export", tmp_path / "run", "-o", tmp_path / "adapter")
    body = transformers.AutoModelForSequenceClassification.from_pretrained(base, num_labels=2)
    again = peft.PeftModel.from_pretrained(body, str(tmp_path / "adapter")).eval()
    assert np.abs(again(**encode(records)).logits.softmax(1).detach().numpy() - share).max() < 1e-5


def test_values(tmp_path):
    base, data = tmp_path / "base", tmp_path / "t.csv"
    make("BertModel", base)
    records = texts(6, 40)
    write(data, records, [len(text) / 40 for text in records])
    run("finetune", base, "--data", f"csv:{data},text=text,label=kind,task=regression", "--batch", 8, "--epochs", 20,
        "--lr", 0.01, "--threads", 1, "--out", tmp_path / "run")  # fmt: skip
    assert json.loads(run("evaluate", tmp_path / "run", "--json"))["test_r2"] > 0.7
    run("predict", tmp_path / "run", "--data", f"csv:{data}", "-o", tmp_path / "p.npy")
    run("export", tmp_path / "run", "--merge", "-o", tmp_path / "merged")
    merged = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path / "merged").eval()
    assert merged.config.num_labels == 1 and merged.config.problem_type == "regression"
    assert relative(np.load(tmp_path / "p.npy"), merged(**encode(records)).logits.detach().numpy()) < 1e-5


def test_long_texts_are_cut_as_transformers_cuts_them(tmp_path):
    base, data = tmp_path / "base", tmp_path / "t.csv"
    model = make("BertForSequenceClassification", base, **NAMES)
    records = texts(7, 6, most=60)
    write(data, records, ["low"] * 6)
    assert max(len(ids) for ids in make_tokenizer()(records)["input_ids"]) > 40
    said = run("predict", base, "--data", f"csv:{data},text=text", "-o", tmp_path / "p.npy")
    assert "[6, 3]" in said
    assert relative(np.load(tmp_path / "p.npy"), model(**encode(records)).logits.detach().numpy()) < 2e-5


# ---- Vectors of sentences ----


def modules(folder: Path, mode: str, unit: bool) -> None:
    """What sentence-transformers writes beside a model."""
    kinds = ["Transformer", "Pooling", *["Normalize"] * unit]
    rows = [
        {"idx": i, "name": str(i), "path": f"{i}_{kind}" if i else "", "type": f"sentence_transformers.models.{kind}"}
        for i, kind in enumerate(kinds)
    ]
    (folder / "modules.json").write_text(json.dumps(rows))
    (folder / "1_Pooling").mkdir(exist_ok=True)
    pooling = {f"pooling_mode_{name}": name == mode for name in ("cls_token", "mean_tokens", "max_tokens")}
    (folder / "1_Pooling/config.json").write_text(json.dumps({"word_embedding_dimension": 32, **pooling}))
    (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 16, "do_lower_case": False}))


@pytest.mark.parametrize("kind", ["BertModel", "BertForMaskedLM", "BertForSequenceClassification", "LongformerModel"])
@pytest.mark.parametrize(
    ("mode", "unit"), [("mean_tokens", True), ("mean_tokens", False), ("cls_token", True), (None, False)]
)
def test_vectors_of_sentences(tmp_path, kind, mode, unit):
    base, data = tmp_path / "base", tmp_path / "t.csv"
    model = make(kind, base)
    body = model if kind.endswith("Model") else model.bert
    known = mode is not None and kind != "BertForSequenceClassification"  # whose folder says what it is
    if mode is not None:
        modules(base, mode, unit)
    records = texts(8, 9, most=30)
    write(data, records, ["?"] * 9)
    run("predict", base, "--data", f"csv:{data},text=text", "--output", "sentence", "-o", tmp_path / "p.npy")
    batch = encode(records, 16 if known else 40)
    rows, mask = body(**batch).last_hidden_state, batch["attention_mask"][..., None].float()
    expected = rows[:, 0] if known and mode == "cls_token" else (rows * mask).sum(1) / mask.sum(1)
    if known and unit:
        expected = F.normalize(expected)
    assert relative(np.load(tmp_path / "p.npy"), expected.detach().numpy()) < 2e-5
    if kind == "BertModel":
        run("predict", base, "--data", f"csv:{data},text=text", "-o", tmp_path / "q.csv")
        assert len(next(csv.reader((tmp_path / "q.csv").open()))) == 33


# ---- What is not as it should be ----


def test_bad_cases(tmp_path):
    base, data, out = tmp_path / "base", tmp_path / "t.csv", tmp_path / "run"
    make("BertForSequenceClassification", base, **NAMES)
    write(data, texts(9, 8), CLASSES[:2] * 4)

    def refused(name: str, *words: str, expect: int = 1, model: object = base) -> None:
        said = run("finetune", model, "--data", name, "--out", out, "--batch", 2, "--threads", 1, expect=expect)
        assert all(word in said for word in words), said

    refused(f"csv:{data},text=words,label=kind", str(data), "'words'", "'id' to 'kind'", expect=2)
    refused(f"csv:{data},text=text,label=text", "both the text and the label", expect=2)
    refused(f"csv:{data},label=kind", "text=COLUMN", expect=2)
    make("BertForMaskedLM", tmp_path / "masked")
    said = run("predict", tmp_path / "masked", "--data", f"csv:{data},text=text", "-o", tmp_path / "p.npy", expect=2)
    assert "no classifier" in said and "--output sentence" in said
    said = run("predict", base, "--data", f"csv:{data}", "-o", tmp_path / "p.npy", expect=2)
    assert "text=COLUMN" in said
    config = json.loads((base / "config.json").read_text())
    for fields, word in [
        ({"problem_type": "multi_label_classification"}, "multi_label_classification"),
        ({"id2label": {"0": "a", "2": "b"}}, "id2label"),
        ({"id2label": {}}, "labels"),
    ]:
        (base / "config.json").write_text(json.dumps({**config, **fields}))
        refused(f"csv:{data},text=text,label=kind", str(base), word)
    (base / "config.json").write_text(json.dumps(config))
    make("BertModel", tmp_path / "body")
    modules(tmp_path / "body", "max_tokens", False)
    refused(f"csv:{data},text=text,label=kind", "pooling_mode_max_tokens", model=tmp_path / "body")
    assert not out.exists()
