"""Vision Transformers of folders beside transformers and peft: logits, gradients, training on pictures, and what is exported."""

from __future__ import annotations

import itertools
import json
import subprocess
from pathlib import Path
from typing import Any

import attention_patterns
import native
import numpy as np
import pytest
import torch
from test_language_models import load, relative
from torch.nn import functional as F

transformers = pytest.importorskip("transformers")
peft = pytest.importorskip("peft")
safetensors = pytest.importorskip("safetensors.torch")
Image = pytest.importorskip("PIL.Image")
transformers.logging.set_verbosity_error()

NEAP = native.LIBRARY.parent / "neap"
if not NEAP.is_file():
    pytest.skip(f"{NEAP} is missing (make)", allow_module_level=True)

SHAPE = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48, "image_size": 16,
         "patch_size": 4}  # fmt: skip
MEAN, DEVIATION = [0.5, 0.4, 0.3], [0.5, 0.25, 0.2]
CLASSES = ["buoy", "crab", "dune"]
NAMES = {"id2label": dict(enumerate(CLASSES)), "label2id": {name: i for i, name in enumerate(CLASSES)}}
VARIANTS: dict[str, dict[str, Any]] = {
    "plain": NAMES,
    "without biases of queries": {**NAMES, "qkv_bias": False},
    "higher than wide, one channel": {**NAMES, "image_size": [20, 12], "num_channels": 1},
}
BATCH, STEPS, RATE, DECAY, RANK, ALPHA = 4, 9, 0.01, 0.05, 4, 6


def run(*arguments: object, expect: int = 0) -> str:
    done = subprocess.run([NEAP, *map(str, arguments)], capture_output=True, text=True, timeout=300)
    assert done.returncode == expect, done.stdout + done.stderr
    return done.stdout + done.stderr


def make(folder: Path, kind: str = "ViTForImageClassification", **options: Any) -> Any:
    torch.manual_seed(1)
    model = getattr(transformers, kind)(transformers.ViTConfig(**{**SHAPE, **options})).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            one = 1.0 if "norm" in name and name.endswith("weight") else 0.0
            parameter.copy_(one + 0.1 * torch.randn_like(parameter))
    model.save_pretrained(folder)
    processor = {"do_normalize": True, "do_rescale": True, "rescale_factor": 1 / 255, "image_mean": MEAN,
                 "image_std": DEVIATION, "size": {"height": 16, "width": 16}}  # fmt: skip
    (folder / "preprocessor_config.json").write_text(json.dumps(processor))
    return model


def gradients_as_stored(model: Any, folder: Path) -> dict[str, torch.Tensor]:
    """Gradients by the names that the file has for parameters, which are not those in memory."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(parameter.grad)
    model.save_pretrained(folder)
    return safetensors.load_file(folder / "model.safetensors")


@pytest.mark.parametrize("variant", VARIANTS)
def test_logits_and_a_step_are_those_of_transformers(library, tmp_path, variant):
    model = make(tmp_path, **VARIANTS[variant])
    sides = model.config.image_size if isinstance(model.config.image_size, list) else [model.config.image_size] * 2
    torch.manual_seed(2)
    images, labels = torch.randn(BATCH, model.config.num_channels, *sides), torch.tensor([2, 0, 1, 2])
    shape = {"batch": BATCH}
    with native.model(library, str(tmp_path), **shape) as graph, native.session(library, graph, predict=True) as s:
        load(library, tmp_path, s, **shape)
        s.fill("image", images.numpy())
        s.predict()
        assert relative(s.output("logits"), model(images).logits.detach().numpy()) < 2e-5
    loss = F.cross_entropy(model(images).logits, labels)
    loss.backward()
    with native.model(library, str(tmp_path), **shape) as graph, native.session(library, graph, momentum=0) as s:
        load(library, tmp_path, s, **shape)
        before = {name: s.read(name) for name in s.variables}
        s.fill("image", images.numpy())
        s.fill("label", labels.numpy().astype(np.int32))
        assert abs(s.step(1.0).loss - loss.item()) < 1e-5 * loss.item()
        gradients = gradients_as_stored(model, tmp_path / "gradients")
        assert set(before) == set(gradients)
        for name, was in before.items():
            expected = gradients[name].numpy()
            most = max(np.abs(expected).max(), 1e-3)  # keys' biases move no softmax
            assert np.abs(was - s.read(name) - expected).max() < 2e-3 * most, name


def test_patterns_of_attention(library, tmp_path, monkeypatch):
    model, pattern, layer = make(tmp_path, **NAMES), "[window:5;strided:4];fixed:6,2", itertools.count()
    plain = F.scaled_dot_product_attention

    def masked(q: torch.Tensor, *rest: Any, **options: Any) -> torch.Tensor:
        return plain(
            q, *rest, **{**options, "attn_mask": attention_patterns.mask(pattern, next(layer), *q.shape[1:3], False)}
        )

    images, shape = torch.randn(BATCH, 3, 16, 16), {"batch": BATCH, "attention": pattern.encode()}
    dense = model(images).logits.detach().numpy()
    monkeypatch.setattr(F, "scaled_dot_product_attention", masked)
    wanted = model(images).logits.detach().numpy()
    assert next(layer) == SHAPE["num_hidden_layers"]
    with native.model(library, str(tmp_path), **shape) as graph, native.session(library, graph, predict=True) as s:
        load(library, tmp_path, s, **shape)
        s.fill("image", images.numpy())
        s.predict()
        assert relative(s.output("logits"), wanted) < 2e-5 < relative(dense, wanted)


def draw(folder: Path, names: list[str], count: int, seed: int) -> list[tuple[Path, str]]:
    """Pictures of the model's size: nothing is cropped or resized."""
    noise, made = np.random.default_rng(seed), []
    for i in range(count):
        name = names[i % len(names)]
        (folder / name).mkdir(parents=True, exist_ok=True)
        pixels = noise.integers(0, 160, (16, 16, 3))
        pixels[:, :, names.index(name) % 3] += 90
        path = folder / name / f"{i:03}.png"
        Image.fromarray(pixels.astype(np.uint8)).save(path)
        made.append((path, name))
    return sorted(made, key=lambda row: row[0].name)


def pixels(rows: list[tuple[Path, str]]) -> torch.Tensor:
    stacked = np.stack([np.asarray(Image.open(path)) for path, _ in rows]) / 255
    return torch.tensor(((stacked - MEAN) / DEVIATION).transpose(0, 3, 1, 2), dtype=torch.float32)


NEW_NAMES = {
    "vit.layers.": "vit.encoder.layer.", "attention.q_proj": "attention.attention.query",
    "attention.v_proj": "attention.attention.value",
}  # fmt: skip


def rename(folder: Path, names: dict[str, str]) -> None:
    """Adapters by the names that the files of models have, which transformers 5 changes when it reads them."""
    tensors = safetensors.load_file(folder / "adapter_model.safetensors")
    for old, new in names.items():
        tensors = {name.replace(old, new): value for name, value in tensors.items()}
    safetensors.save_file(tensors, folder / "adapter_model.safetensors")


@pytest.mark.parametrize("way", ["full", "lora"])
def test_training_and_export_are_those_of_transformers(tmp_path, way):
    base, out = tmp_path / "base", tmp_path / "run"
    model = make(base, **NAMES)
    options: list[object] = ["--full"]
    if way == "lora":
        torch.manual_seed(3)
        module = model.vit.layers[0].attention if hasattr(model.vit, "layers") else None
        targets = ["q_proj", "v_proj"] if hasattr(module, "q_proj") else ["query", "value"]
        config = peft.LoraConfig(r=RANK, lora_alpha=ALPHA, target_modules=targets, modules_to_save=["classifier"])
        model = peft.get_peft_model(transformers.AutoModelForImageClassification.from_pretrained(base).eval(), config)
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.requires_grad:
                    parameter.copy_(0.2 * torch.randn_like(parameter))
        model.save_pretrained(tmp_path / "first")
        rename(tmp_path / "first", NEW_NAMES)
        options = ["--lora", RANK, "--lora-alpha", ALPHA, "--lora-init", tmp_path / "first"]
    # Two of the three classes: their order is the model's.
    records, tested = draw(tmp_path / "data/train", CLASSES[1:], 12, 4), draw(tmp_path / "data/val", CLASSES[1:], 6, 5)
    update = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=RATE, weight_decay=DECAY)
    losses = []
    for step in range(STEPS):
        chosen = records[step * BATCH % 12 :][:BATCH]
        update.zero_grad()
        loss = F.cross_entropy(model(pixels(chosen)).logits, torch.tensor([CLASSES.index(name) for _, name in chosen]))
        loss.backward()
        update.step()
        losses.append(loss.item())
    run("finetune", base, "--data", f"images:{tmp_path / 'data'}", "--out", out, "--batch", BATCH, "--steps", STEPS, "--lr",
        RATE, "--warmup-steps", 0, "--weight-decay", DECAY, "--shuffle", "off", "--threads", 1, "--metrics",
        tmp_path / "metrics", *options)  # fmt: skip
    got = [json.loads(line) for line in (tmp_path / "metrics").read_text().splitlines()]
    assert [line["loss"] for line in got if "loss" in line] == pytest.approx(losses, rel=1e-3)
    run("predict", out, "--data", f"images:{tmp_path / 'data/val'}", "-o", tmp_path / "p.npy")
    predicted = np.load(tmp_path / "p.npy")
    assert relative(predicted, model(pixels(tested)).logits.detach().numpy()) < 1e-3
    run("export", out, "--merge", "-o", tmp_path / "merged")
    merged = transformers.AutoModelForImageClassification.from_pretrained(tmp_path / "merged").eval()
    assert merged.config.id2label == NAMES["id2label"] and (tmp_path / "merged/preprocessor_config.json").exists()
    assert relative(predicted, merged(pixels(tested)).logits.detach().numpy()) < 1e-5
    run("predict", tmp_path / "merged", "--data", f"images:{tmp_path / 'data/val'}", "-o", tmp_path / "again.npy")
    assert relative(np.load(tmp_path / "again.npy"), predicted) < 1e-5
    if way == "lora":
        run("export", out, "-o", tmp_path / "adapter")
        written = safetensors.load_file(tmp_path / "adapter/adapter_model.safetensors")
        assert set(written) == set(safetensors.load_file(tmp_path / "first/adapter_model.safetensors"))
    told = json.loads(run("evaluate", out, "--json"))
    assert [row["name"] for row in told["classes"]] == CLASSES


@pytest.mark.parametrize("kind", ["ViTModel", "ViTForImageClassification"])
def test_other_classes_get_a_new_head(tmp_path, kind):
    base, names = tmp_path / "base", ["east", "north", "south", "west"]
    make(base, kind, **NAMES)
    draw(tmp_path / "data", names, 40, 6)
    said = run("finetune", base, "--data", f"images:{tmp_path / 'data'}", "--batch", 4, "--steps", 5, "--threads", 1, "--out",
               tmp_path / "run")  # fmt: skip
    assert "new layers    classifier" in said
    run("export", tmp_path / "run", "--merge", "-o", tmp_path / "merged")
    merged = transformers.AutoModelForImageClassification.from_pretrained(tmp_path / "merged").eval()
    assert merged.config.id2label == dict(enumerate(names))
    rows = draw(tmp_path / "asked", names, 4, 7)
    run("predict", tmp_path / "run", "--data", f"images:{tmp_path / 'asked'}", "-o", tmp_path / "p.npy")
    assert relative(np.load(tmp_path / "p.npy"), merged(pixels(rows)).logits.detach().numpy()) < 1e-5


def test_bad_cases(library, tmp_path):
    base = tmp_path / "base"
    make(base, **NAMES)
    draw(tmp_path / "data", CLASSES, 6, 8)
    data = f"images:{tmp_path / 'data'}"
    said = run("train", "--model", base, "--data", data, "--image", "3x32x32", "--batch", 2, "--steps", 1, expect=2)
    assert "3x16x16" in said
    said = run("predict", base, "--data", data, "--output", "sentence", "-o", tmp_path / "p.npy", expect=2)
    assert "model of images" in said
    config = json.loads((base / "config.json").read_text())
    for fields in (
        {"patch_size": 5},
        {"image_size": 0},
        {"num_channels": 9},
        {"image_size": [16]},
        {"patch_size": "4"},
    ):
        (base / "config.json").write_text(json.dumps({**config, **fields}))
        with pytest.raises(native.Failed, match="whole squares"), native.model(library, str(base), batch=1):
            pass
    (base / "config.json").write_text(json.dumps({**config, "image_size": 32}))
    with pytest.raises(native.Failed, match="position_embeddings"), native.model(library, str(base), batch=1):
        pass
    (base / "config.json").write_text(json.dumps(config))
    for fields in ({"image_mean": [0.5]}, {"image_std": [0.5, 0, 0.5]}, {"rescale_factor": 0}):
        processor = {"image_mean": MEAN, "image_std": DEVIATION, **fields}
        (base / "preprocessor_config.json").write_text(json.dumps(processor))
        said = run("finetune", base, "--data", data, "--batch", 2, "--steps", 1, "--threads", 1, "--out", tmp_path / "run",
                   expect=1)  # fmt: skip
        assert "preprocessor_config.json" in said
