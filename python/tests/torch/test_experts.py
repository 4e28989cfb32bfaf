"""Mixtures of experts: adapters of each expert beside PyTorch, any number of threads, weights in few bits and on disk, files of
adapters."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import native
import numpy as np
import pytest
import torch
from test_export_gguf import WRITTEN, fields, folder, tensors
from test_export_language import ALPHA, RANK, logits, lora, neap, read, some_tokens, tune
from test_language_models import BATCH, LENGTH, load, make, parameters, relative, tokens
from torch.nn import functional as F

peft = pytest.importorskip("peft")
safetensors = pytest.importorskip("safetensors.torch")
transformers = pytest.importorskip("transformers")

FAMILIES = ["mixtral", "olmoe", "qwen3_moe"]
PATTERN = b"*.q_proj.weight,*.o_proj.weight,*.experts.*"


def adapted(model: torch.nn.Module, adapters: dict[str, torch.Tensor], scale: float) -> dict[str, torch.Tensor]:
    """The model's parameters with what adapters add, by transformers' own names."""
    weights = {name: value.clone() for name, value in parameters(model).items()}
    experts = model.config.num_local_experts
    for name in list(weights):
        module = name.removesuffix(".weight")
        if f"{module}.lora_A.weight" not in adapters:
            continue
        a, b = adapters[f"{module}.lora_A.weight"], adapters[f"{module}.lora_B.weight"]
        if ".experts." in name:
            a, b = a.unflatten(0, (experts, -1)), b.unflatten(0, (experts, -1))
            weights[name] = weights[name] + scale * (b @ a).flatten(0, 1)
        else:
            weights[name] = weights[name] + scale * b @ a
    found = {}
    mixtral = "Mixtral" in type(model).__name__
    gate, up, down = ("w1", "w3", "w2") if mixtral else ("gate_proj", "up_proj", "down_proj")
    for name, _ in model.named_parameters():
        ours = name.replace(".mlp", ".block_sparse_moe") if mixtral else name
        layer, _, last = ours.rpartition(".")
        if last == "gate_up_proj":
            halves = [weights[f"{layer}.{part}.weight"].unflatten(0, (experts, -1)) for part in (gate, up)]
            found[name] = torch.cat(halves, 1)
        elif last == "down_proj":
            found[name] = weights[f"{layer}.{down}.weight"].unflatten(0, (experts, -1))
        else:
            found[name] = weights[ours]
    return found


@pytest.mark.parametrize("family", FAMILIES)
def test_a_step_of_adapters(library, tmp_path, family):
    """Of experts and of attention: weights after a step, to 1e-6."""
    model, ids, rate = make(family, tmp_path), tokens(), 2.0**-3
    labels = torch.roll(ids, -1, 1)
    labels[:, -1] = -1
    shape, random = {"batch": BATCH, "length": LENGTH}, np.random.default_rng(3)
    options = {"lora": RANK, "lora_alpha": ALPHA, "lora_layers": PATTERN, "momentum": 0}
    with native.model(library, str(tmp_path), **shape) as graph, native.session(library, graph, **options) as s:
        load(library, tmp_path, s, **shape)
        names = [name for name in s.variables if ".lora_" in name]
        assert sum(".experts." in name for name in names) == 2 * 3 * 2
        assert sum(".experts." not in name for name in names) == 2 * 2 * 2
        for name in names:
            s.write(name, (0.1 * random.standard_normal(s.read(name).shape)).astype(np.float32))
        adapters = {name: torch.tensor(s.read(name), requires_grad=True) for name in names}
        state = adapted(model, adapters, ALPHA / RANK)
        out = torch.func.functional_call(model, state, (ids,)).logits
        loss = F.cross_entropy(out.flatten(0, 1), labels.flatten(), ignore_index=-1)
        loss.backward()
        s.fill("tokens", ids.numpy().astype(np.int32))
        s.fill("label", labels.numpy().astype(np.int32))
        assert abs(s.step(rate).loss - loss.item()) < 1e-6 * loss.item()
        for name, before in adapters.items():
            wanted = (before - rate * before.grad).detach().numpy()
            assert before.grad.abs().max() > 1e-5, name
            np.testing.assert_allclose(s.read(name), wanted, rtol=0, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("family", FAMILIES)
def test_merged_adapters_and_files_of_them(library, tmp_path, family):
    """A folder and a GGUF file of the merged model are the run's; adapters are those of each expert."""
    base, ids = tmp_path / "base", some_tokens()
    folder(family, base)
    run = lora(tmp_path, base)
    neap("export", run, "--merge", "-o", tmp_path / "merged")
    was, now = read(base), read(tmp_path / "merged")
    assert set(was) == set(now)
    trained = safetensors.load_file(next(run.glob("weights*")))
    assert not any(name.endswith("gate.lora_A.weight") for name in trained)  # routers have none
    neap("export", run, "--adapter", "-o", tmp_path / "peft")
    saved = safetensors.load_file(tmp_path / "peft" / "adapter_model.safetensors")
    changed = 0
    for name, value in was.items():
        module = "base_model.model." + name.removesuffix(".weight")
        wanted = value.double()
        if f"{module}.lora_A.weight" in saved:
            a, b = (saved[f"{module}.lora_{part}.weight"].double() for part in "AB")
            assert a.shape == (RANK, value.shape[1]) and b.shape == (value.shape[0], RANK)
            wanted = wanted + ALPHA / RANK * b @ a
            changed += bool(b.abs().max() > 0)
        torch.testing.assert_close(now[name].double(), wanted, atol=1e-6, rtol=1e-6, msg=name)
    assert changed > 20
    model = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "merged", dtype=torch.float32).eval()
    wanted = model(ids).logits.detach().numpy()
    assert relative(logits(library, tmp_path / "merged", ids), wanted) < 1e-5
    assert relative(logits(library, base, ids), wanted) > 1e-3
    plain = transformers.AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32).eval()
    adapted_by_peft = peft.PeftModel.from_pretrained(plain, str(tmp_path / "peft"))
    assert relative(adapted_by_peft(ids).logits.detach().numpy(), wanted) < 1e-5
    neap("export", run, "-o", tmp_path / "merged.gguf", "--type", "f32")
    np.testing.assert_array_equal(
        logits(library, tmp_path / "merged.gguf", ids), logits(library, tmp_path / "merged", ids)
    )
    neap("export", run, "--adapter", "-o", tmp_path / "adapter.gguf")
    neap("export", base, "-o", tmp_path / "plain.gguf", "--type", "f32")
    assert fields(tmp_path / "adapter.gguf")["general.architecture"] == WRITTEN[family][0]
    parts = tensors(tmp_path / "adapter.gguf")
    plain, merged = tensors(tmp_path / "plain.gguf"), tensors(tmp_path / "merged.gguf")
    for name in {part.rsplit(".", 1)[0] for part in parts}:
        a, b = (parts[f"{name}.lora_{part}"].data.astype(np.float64) for part in "ab")
        assert a.ndim == plain[name].data.ndim
        np.testing.assert_allclose(
            merged[name].data, plain[name].data + ALPHA / RANK * (b @ a), atol=1e-6, err_msg=name
        )


@pytest.mark.parametrize("family", ["olmoe", "mixtral"])
def test_trained_whole(library, tmp_path, family):
    base, ids = tmp_path / "base", some_tokens()
    folder(family, base)
    run = tune(tmp_path, base, "--full")
    neap("export", run, "--merge", "-o", tmp_path / "out")
    was, now = read(base), read(tmp_path / "out")
    assert all(not torch.equal(was[name], now[name]) for name in was if ".experts." in name)
    model = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "out").eval()
    assert relative(logits(library, tmp_path / "out", ids), model(ids).logits.detach().numpy()) < 1e-5


def digest(run: Path) -> str:
    return hashlib.sha256(next(run.glob("weights*")).read_bytes()).hexdigest()


WIDE = {"hidden_size": 64, "intermediate_size": 96, "moe_intermediate_size": 256}  # experts of more than 64 KiB in all


def test_bits_do_not_depend_on_threads_budget_or_disk(tmp_path):
    """One seed, one digest: of two threads, of a smaller budget, and of weights that are read expert by expert."""
    base = tmp_path / "base"
    folder("qwen3_moe", base, **WIDE)
    neap("export", base, "-o", tmp_path / "base.gguf", "--type", "q8_0")
    for model in (base, tmp_path / "base.gguf"):
        ways: dict[str, list[Any]] = {
            "one": [],
            "two": ["--threads", 2],
            "less": ["--budget", "70%", "--time-limit", 3],
            "disk": ["--base-on-disk", "always"],
            "disk, two": ["--base-on-disk", "always", "--threads", 2],
        }
        runs = {
            name: tune(tmp_path, model, "--lora", 2, "--lora-layers", "all", *more, name=f"{model.name} {name}")
            for name, more in ways.items()
        }
        digests = {name: digest(run) for name, run in runs.items()}
        assert len(set(digests.values())) == 1, digests


@pytest.mark.parametrize("kind", ["q8_0", "q4_0", "nf4"])
def test_experts_in_few_bits(library, tmp_path, kind):
    """Their losses are near those of all bits, and a run's memory has them so."""
    base = tmp_path / "base"
    folder("qwen3_moe", base, **WIDE)
    losses, bytes_ = {}, {}
    for name, more in {"whole": [], "few": ["--base", kind]}.items():
        told = neap("finetune", base, "--data", f"text:{text(tmp_path)},tokens=bytes", "--out", tmp_path / f"{kind} {name}",
                    "--steps", 3, "--batch", 2, "--length", 16, "--threads", 1, "--json", *more)  # fmt: skip
        events = [json.loads(line) for line in told.splitlines() if line.startswith("{")]
        losses[name] = next(e["loss"] for e in reversed(events) if "loss" in e)
        bytes_[name] = next((e["resident_bytes"] for e in events if "resident_bytes" in e), 0)
    assert abs(losses["few"] - losses["whole"]) < (0.02 if kind == "q8_0" else 0.2) * losses["whole"]
    assert losses["few"] != losses["whole"]
    assert bytes_["few"] <= bytes_["whole"]


def text(tmp_path: Path) -> Path:
    path = tmp_path / "text"
    path.write_bytes(bytes(np.random.default_rng(5).integers(32, 127, 4000, np.uint8)))
    return path


@pytest.mark.parametrize(
    ("family", "change", "words"),
    [
        ("qwen3_moe", {"decoder_sparse_step": 2}, ["decoder_sparse_step", "2"]),
        ("qwen3_moe", {"mlp_only_layers": [0]}, ["mlp_only_layers"]),
        ("olmoe", {"clip_qkv": 3.0}, ["clip_qkv"]),
        ("olmoe", {"num_experts": None, "num_local_experts": None}, ["experts"]),
        ("mixtral", {"num_experts_per_tok": 9}, ["9", "experts"]),
        ("mixtral", {"num_local_experts": 6}, ["experts.5.w1"]),
    ],
)
def test_what_is_not_computed_is_refused(library, tmp_path, family, change, words):
    make(family, tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, **change}))
    with pytest.raises(native.Failed) as failed, native.model(library, str(tmp_path), batch=1, length=8):
        pass
    for word in [str(tmp_path), *words]:
        assert word in str(failed.value)
