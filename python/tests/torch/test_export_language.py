"""Fine-tuned language models as folders of Hugging Face: transformers gives the logits that Neap gives, weights are the base's
and alpha / r B A, and what the base says of tokens goes with them."""

from __future__ import annotations

import json
import os
import resource
import subprocess
from pathlib import Path

import native
import numpy as np
import pytest
import torch
from test_language_models import GLOBAL, ahead, load, make, relative

transformers = pytest.importorskip("transformers")
safetensors = pytest.importorskip("safetensors.torch")

NEAP = Path(os.environ.get("NEAP_LIBRARY", Path(__file__).parents[3] / "build" / "libneap.so")).parent / "neap"
if not NEAP.exists():
    pytest.skip(f"{NEAP} is missing (make)", allow_module_level=True)
RANK, ALPHA, VOCABULARY, LENGTH = 3, 12, 256, 16
FAMILIES = ["llama", "gpt2", "gemma", "gemma2", "gemma3", "smollm3", "phi4", "olmo2", "qwen2"]


def neap(*arguments: object, expect: int = 0, **options) -> str:
    done = subprocess.run([NEAP, *map(str, arguments)], capture_output=True, text=True, timeout=120, **options)
    assert done.returncode == expect, done.stdout + done.stderr
    return done.stdout + done.stderr


def tune(tmp_path: Path, base: Path, *options: object, name: str = "run") -> Path:
    """A few steps over a text, whose tokens are bytes."""
    text = tmp_path / "text"
    text.write_bytes(bytes(np.random.default_rng(5).integers(32, 127, 4000, np.uint8)))
    run = tmp_path / name
    neap("finetune", base, "--data", f"text:{text},tokens=bytes", "--out", run, "--steps", 4, "--batch", 2,
         "--length", LENGTH, "--lr", 0.01, "--threads", 1, *options)  # fmt: skip
    return run


def lora(tmp_path: Path, base: Path) -> Path:
    return tune(tmp_path, base, "--lora", RANK, "--lora-alpha", ALPHA, "--lora-layers", "all")


def logits(library: native.Library, path: Path, ids: torch.Tensor) -> np.ndarray:
    shape = {"batch": 1, "length": LENGTH}
    with native.model(library, str(path), **shape) as graph, native.session(library, graph, predict=True) as s:
        load(library, path, s, **shape)
        s.fill("tokens", ids.numpy().astype(np.int32))
        s.predict()
        return s.output("logits").copy()


def some_tokens() -> torch.Tensor:
    return torch.randint(0, VOCABULARY, (1, LENGTH), generator=torch.Generator().manual_seed(2))


def read(folder: Path) -> dict[str, torch.Tensor]:
    return safetensors.load_file(folder / "model.safetensors")


@pytest.mark.parametrize("family", FAMILIES)
def test_merged_adapters(library, tmp_path, family):
    base, out = tmp_path / "base", tmp_path / "out"
    make(family, base, vocab_size=VOCABULARY)
    run = lora(tmp_path, base)
    assert json.loads(neap("export", run, "--merge", "-o", out, "--json"))["tensors"] == len(read(out))
    was, now = read(base), read(out)
    names = {name.removeprefix("transformer."): name for name in now}
    assert {name.removeprefix("transformer.") for name in was} == set(names)
    trained = safetensors.load_file(next(run.glob("weights*")))
    adapters = {name.split(".lora_")[0] for name in trained if ".lora_A" in name}
    assert len(adapters) >= 8 and not any("embed" in name or "wte" in name for name in adapters)
    for name, value in was.items():
        stored = names[name.removeprefix("transformer.")]
        module = stored.removesuffix(".weight")
        if module not in adapters:
            most = 2e-7 if "gemma" in family and "norm" in name else 0  # Neap has 1 + weight
            torch.testing.assert_close(now[stored], value, atol=most, rtol=0, msg=name)
            continue
        step = ALPHA / RANK * trained[f"{module}.lora_B.weight"].double() @ trained[f"{module}.lora_A.weight"].double()
        step = step.T if family == "gpt2" else step
        assert step.abs().max() > 1e-4
        torch.testing.assert_close(now[stored].double(), value.double() + step, atol=1e-6, rtol=1e-6)
    ids = some_tokens()
    model = transformers.AutoModelForCausalLM.from_pretrained(out, dtype=torch.float32).eval()
    wanted = model(ids).logits.detach().numpy()
    assert relative(logits(library, out, ids), wanted) < 1e-5
    assert relative(logits(library, base, ids), wanted) > 1e-3


@pytest.mark.parametrize("named", [True, False])
def test_masked_words_of_a_longformer(library, tmp_path, named):
    """What it learns is read by transformers; projections of global tokens that no step had are written as they were read."""
    base, out = tmp_path / "base", tmp_path / "out"
    make("longformer", base, vocab_size=VOCABULARY + 1)  # bytes, and the one that masks
    options = {"attention": f"global={GLOBAL}".encode()} if named else {}
    run = tune(tmp_path, base, "--full", *(["--attention", f"global={GLOBAL}"] if named else []))
    neap("export", run, "--merge", "-o", out)
    was, now = read(base), read(out)
    assert was.keys() == now.keys()
    same = {name for name, value in was.items() if torch.equal(value, now[name])}
    assert same == (set() if named else {name for name in was if "_global" in name})
    model, ids = transformers.AutoModelForMaskedLM.from_pretrained(out).eval(), some_tokens() % 90 + 32
    shape = {"batch": 1, "length": LENGTH, **options}
    with native.model(library, str(out), **shape) as graph, native.session(library, graph, predict=True) as s:
        load(library, out, s, **shape)
        s.fill("tokens", ids.numpy().astype(np.int32))
        s.predict()
        expected = ahead(model, ids) if named else model(ids)
        assert relative(s.output("logits"), expected.logits.detach().numpy()) < 2e-5


@pytest.mark.parametrize("family", ["llama 3", "gemma", "gpt2"])
def test_a_head_of_its_own(library, tmp_path, family):
    """A folder that says tied, or whose family is so, and has another head is read as transformers reads it."""
    make(family, tmp_path, vocab_size=VOCABULARY)
    weights = read(tmp_path)
    table = next(value for name, value in weights.items() if name.endswith(("embed_tokens.weight", "wte.weight")))
    ids, found = some_tokens(), {}
    for name, head in {"none": None, "equal": table.clone(), "other": table.roll(1, 0)}.items():
        given = weights if head is None else {**weights, "lm_head.weight": head}
        safetensors.save_file(given, tmp_path / "model.safetensors", metadata={"format": "pt"})
        model = transformers.AutoModelForCausalLM.from_pretrained(tmp_path).eval()
        found[name] = logits(library, tmp_path, ids)
        assert relative(found[name], model(ids).logits.detach().numpy()) < 1e-5, name
    assert np.array_equal(found["none"], found["equal"]) and relative(found["other"], found["none"]) > 1e-2


@pytest.mark.parametrize("family", ["llama", "gpt2"])
def test_trained_whole(library, tmp_path, family):
    base, out = tmp_path / "base", tmp_path / "out"
    make(family, base, vocab_size=VOCABULARY)
    run = tune(tmp_path, base, "--full")
    trained = safetensors.load_file(next(run.glob("weights*")))
    neap("export", run, "--merge", "-o", out)
    for name, value in read(out).items():
        wanted = trained[name]
        wanted = wanted.T if family == "gpt2" and ".h." in name and value.dim() == 2 else wanted
        assert torch.equal(value, wanted), name
    ids = some_tokens()
    model = transformers.AutoModelForCausalLM.from_pretrained(out).eval()
    assert relative(logits(library, out, ids), model(ids).logits.detach().numpy()) < 1e-5


@pytest.mark.parametrize(("kind", "dtype", "most"), [("f16", torch.float16, 2e-3), ("bf16", torch.bfloat16, 1e-2)])
def test_types(library, tmp_path, kind, dtype, most):
    base = tmp_path / "base"
    make("llama", base, vocab_size=VOCABULARY)
    run = lora(tmp_path, base)
    neap("export", run, "--merge", "-o", tmp_path / "f32")
    neap("export", run, "--merge", "--type", kind, "-o", tmp_path / "small")
    whole, small = read(tmp_path / "f32"), read(tmp_path / "small")
    for name, value in small.items():
        assert torch.equal(value, whole[name].to(dtype)), name
    model = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "small")
    assert model.dtype == dtype  # what config.json says
    ids = some_tokens()
    assert relative(logits(library, tmp_path / "small", ids), logits(library, tmp_path / "f32", ids)) < most


def test_what_goes_with_it(tmp_path):
    base, out = tmp_path / "base", tmp_path / "out"
    make("llama", base, vocab_size=VOCABULARY)
    (base / "tokenizer_config.json").write_text('{"chat_template": "{{ x }}"}')
    (base / "special_tokens_map.json").write_text("{}")
    run = lora(tmp_path, base)
    neap("export", run, "--merge", "-o", out)
    for name in ["tokenizer_config.json", "special_tokens_map.json", "generation_config.json"]:
        assert (out / name).read_bytes() == (base / name).read_bytes()
    assert json.loads((out / "config.json").read_text())["model_type"] == "llama"


def test_bad_cases(tmp_path):
    base, out = tmp_path / "base", tmp_path / "out"
    make("llama", base, vocab_size=VOCABULARY)
    run = lora(tmp_path, base)
    before = sorted(base.iterdir())
    assert "is the folder of the model" in neap("export", run, "--merge", "--force", "-o", base, expect=2)
    assert sorted(base.iterdir()) == before
    out.mkdir()
    (out / "mine").write_text("x")
    assert "--force" in neap("export", run, "--merge", "-o", out, expect=2)
    assert [f.name for f in out.iterdir()] == ["mine"]
    (out / "model.safetensors.index.json").write_text("{}")
    neap("export", run, "--merge", "--force", "-o", out)
    assert (out / "mine").exists() and not (out / "model.safetensors.index.json").exists()
    assert "q8_9" in neap("export", run, "--merge", "--type", "q8_9", "-o", tmp_path / "no", expect=2)
    assert "--merge" in neap("export", run, "--type", "f16", "-o", tmp_path / "no", expect=2)

    def full() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))

    assert "model.safetensors" in neap("export", run, "--merge", "-o", tmp_path / "no", expect=1, preexec_fn=full)
    other = tmp_path / "other"
    neap("train", "--model", "llama-1x32x2x1", "--data", f"text:{tmp_path / 'text'}", "--length", 16, "--batch", 2,
         "--steps", 1, "--out", other)  # fmt: skip
    assert "not a language model from a folder" in neap("export", other, "--merge", "-o", tmp_path / "no", expect=2)
    assert not (tmp_path / "no").exists()


def test_a_gguf_file(tmp_path):
    """Of a step that changes nothing: the weights are those that were written, in a folder's order."""
    gguf, base, heads = pytest.importorskip("gguf"), tmp_path / "base.gguf", {"q_proj": 4, "k_proj": 2}
    model = make("llama", tmp_path / "folder", vocab_size=VOCABULARY)
    writer = gguf.GGUFWriter(base, "llama")
    writer.add_block_count(2)
    writer.add_context_length(64)
    writer.add_embedding_length(32)
    writer.add_feed_forward_length(48)
    writer.add_head_count(4)
    writer.add_head_count_kv(2)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_rope_freq_base(1e4)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, 2)
    for name, value in model.state_dict().items():
        array = value.numpy()
        for h in (count for part, count in heads.items() if part in name):
            array = array.reshape(h, 2, len(array) // h // 2, -1).swapaxes(1, 2).reshape(array.shape)
        writer.add_tensor(names.get_name(name, try_suffixes=(".weight",)), np.ascontiguousarray(array))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    neap("export", tune(tmp_path, base, "--lr", 1e-30), "--merge", "-o", tmp_path / "out")
    again = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "out").eval()
    assert again.config.rope_parameters["rope_theta"] == 1e4
    for name, value in model.state_dict().items():
        assert torch.equal(again.state_dict()[name], value), name
    torch.testing.assert_close(again(some_tokens()).logits, model(some_tokens()).logits)
