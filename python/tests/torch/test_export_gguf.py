"""Language models and adapters as GGUF files: PyPI's gguf reads the numbers, transformers gives the logits that Neap gives, Neap
reads back the bits that it wrote, and tokenizers give the same ids."""

from __future__ import annotations

import json
import math
import os
import resource
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from test_export_language import LENGTH, VOCABULARY, logits, lora, neap, some_tokens, tune
from test_language_models import FAMILIES, make, parameters, relative

gguf = pytest.importorskip("gguf")
safetensors = pytest.importorskip("safetensors.torch")
tokenizers = pytest.importorskip("tokenizers")
transformers = pytest.importorskip("transformers")

NINE_HEADS = {"num_attention_heads": 9, "num_key_value_heads": 3, "hidden_size": 72, "intermediate_size": 96}
READ_BY_TRANSFORMERS = {
    "llama": NINE_HEADS, "qwen2": {}, "qwen3": {"head_dim": 128}, "gpt2": {"n_positions": 1024},
    "phi3": {"sliding_window": None, "num_key_value_heads": 4},
}  # fmt: skip
GGUF_FAMILIES = [
    f
    for f in FAMILIES
    if not f.startswith(("opt", "bert", "longformer", "gemma2 without", "gemma3 with", "smollm3, each", "olmoe, norm"))
]
TYPES = {"f32": "F32", "f16": "F16", "bf16": "BF16", "q8_0": "Q8_0"}


def split(name: str) -> tokenizers.pre_tokenizers.PreTokenizer:
    pre, regex = tokenizers.pre_tokenizers, tokenizers.Regex
    letters = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
    rest = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    digits = {"llama-bpe": "{1,3}", "dbrx": "{1,3}", "qwen2": ""}
    if name == "gpt-2":
        return pre.ByteLevel(add_prefix_space=False)
    if name == "smollm":
        return pre.Sequence([pre.Digits(individual_digits=True), pre.ByteLevel(add_prefix_space=False)])
    return pre.Sequence(
        [
            pre.Split(regex(letters + digits[name] + rest), "isolated"),
            pre.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )


TEXTS = [
    "Once upon a time, in 1984, there's  a\n\n house of 12345 tiles\t!",
    "Ärger über   ça, 你好 <end> x",
    "a  1",
    " ",
    "",
]


def byte_tokenizer(name: str) -> tokenizers.Tokenizer:
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(ignore_merges=name == "llama-bpe"))
    tokenizer.pre_tokenizer = split(name)
    tokenizer.normalizer = tokenizers.normalizers.NFC() if name == "qwen2" else None
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=300,
        special_tokens=["<begin>", "<end>"],
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(TEXTS * 3, trainer)
    if name == "llama-bpe":
        tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
            single="<begin> $A", special_tokens=[("<begin>", 0)]
        )
    return tokenizer


def piece_tokenizer(prefix: bool) -> tokenizers.Tokenizer:
    """As SentencePiece's of BPE become: bytes for what is unknown, and all ways to make a token."""
    words = [
        "▁the",
        "▁a",
        "▁time",
        "th",
        "he",
        "the",
        "ti",
        "im",
        "time",
        "▁t",
        "▁th",
        "in",
        "▁in",
        "19",
        "84",
        "▁▁",
        "me",
    ]
    pieces = ["<unk>", "<s>", "</s>", *(f"<0x{b:02X}>" for b in range(256)), *words, *sorted(set("▁theaim1984ns,"))]
    vocabulary = {piece: i for i, piece in enumerate(pieces)}
    merges = [(w[:i], w[i:]) for w in words for i in range(1, len(w)) if w[:i] in vocabulary and w[i:] in vocabulary]
    model = tokenizers.models.BPE(vocabulary, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True)
    tokenizer = tokenizers.Tokenizer(model)
    norm = tokenizers.normalizers
    tokenizer.normalizer = norm.Sequence([norm.Prepend("▁")] * prefix + [norm.Replace(" ", "▁")])
    tokenizer.add_special_tokens(["<unk>", "<s>", "</s>"])
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    return tokenizer


def folder(family: str, path: Path, **more: Any) -> torch.nn.Module:
    return make(family, path, **{"vocab_size": VOCABULARY, **READ_BY_TRANSFORMERS.get(family, {}), **more})


def tensors(path: Path) -> dict[str, Any]:
    return {t.name: t for t in gguf.GGUFReader(path).tensors}


def fields(path: Path) -> dict[str, Any]:
    return {key: field.contents() for key, field in gguf.GGUFReader(path).fields.items() if "GGUF." not in key}


def numbers(tensor: Any) -> np.ndarray:
    return gguf.quants.dequantize(tensor.data, tensor.tensor_type).reshape(tensor.shape[::-1].tolist())


def permuted(value: np.ndarray, heads: int) -> np.ndarray:
    """As llama.cpp's convert has it."""
    return value.reshape(heads, 2, len(value) // heads // 2, -1).swapaxes(1, 2).reshape(value.shape)


def as_stored(model: Any, family: str, name: str, value: torch.Tensor) -> tuple[str, np.ndarray]:
    """Name and numbers that llama.cpp's convert gives a weight of transformers."""
    architecture = {"gpt2": gguf.MODEL_ARCH.GPT2, "gemma": gguf.MODEL_ARCH.GEMMA, "qwen2": gguf.MODEL_ARCH.QWEN2,
                    "qwen3": gguf.MODEL_ARCH.QWEN3}.get(family, gguf.MODEL_ARCH.LLAMA)  # fmt: skip
    stored = gguf.get_tensor_name_map(architecture, model.config.num_hidden_layers).get_name(
        name, try_suffixes=(".weight", ".bias")
    )
    array, config = value.numpy(), model.config
    if architecture == gguf.MODEL_ARCH.LLAMA and ("q_proj" in name or "k_proj" in name):
        array = permuted(array, config.num_attention_heads if "q_proj" in name else config.num_key_value_heads)
    if family == "gemma" and "norm" in name:
        array = array + np.float32(1)
    return stored, array.T if family == "gpt2" and ".h." in name and array.ndim == 2 else array


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("family", ["llama", "gemma", "gpt2"])
def test_numbers(tmp_path, family, kind):
    base, out = tmp_path / "base", tmp_path / "out.gguf"
    model = folder(family, base)
    assert json.loads(neap("export", base, "-o", out, "--type", kind, "--json"))["file"] == str(out)
    got = tensors(out)
    weights = {
        name: value for name, value in model.state_dict().items() if name != "lm_head.weight" or family == "llama"
    }
    assert len(got) == len(weights)
    for name, value in weights.items():
        stored, wanted = as_stored(model, family, name, value)
        tensor = got[stored]
        fits = kind != "q8_0" or wanted.shape[-1] % 32 == 0
        small = wanted.ndim == 2 and "position" not in stored
        written = gguf.GGMLQuantizationType[TYPES[kind] if fits else "F16"] if small else gguf.GGMLQuantizationType.F32
        assert tensor.tensor_type == written, name
        assert tensor.shape.tolist() == list(wanted.shape[::-1]), name
        bits = gguf.quants.quantize(np.ascontiguousarray(wanted), written)
        np.testing.assert_array_equal(tensor.data.view(np.uint8).ravel(), bits.view(np.uint8).ravel(), name)
    keys = fields(out)
    assert keys["general.file_type"] == gguf.LlamaFileType[f"{'ALL' if kind == 'f32' else 'MOSTLY'}_{TYPES[kind]}"]
    architecture = keys["general.architecture"]
    assert keys[f"{architecture}.block_count"] == model.config.num_hidden_layers
    assert keys["tokenizer.ggml.model"] == "none"


@pytest.mark.parametrize("family", READ_BY_TRANSFORMERS)
def test_transformers(library, tmp_path, family):
    """What was trained is in the file, and transformers gives Neap's logits of it."""
    base, ids = tmp_path / "base", some_tokens()
    folder(family, base)
    byte_tokenizer("gpt-2")  # gpt2's vocabulary is counted by its tokens
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE({f"t{i}": i for i in range(VOCABULARY)}, []))
    tokenizer.pre_tokenizer = split("gpt-2")
    run = lora(tmp_path, base)
    tokenizer.save(str(base / "tokenizer.json"))
    for kind, most in [("f32", 1e-5), (None, 1e-3)]:
        out = tmp_path / f"{kind}.gguf"
        neap("export", run, "-o", out, *(["--type", kind] if kind else []))
        assert fields(out)["general.file_type"] == (0 if kind else 1)
        model = transformers.AutoModelForCausalLM.from_pretrained(tmp_path, gguf_file=out.name, dtype=torch.float32)
        assert relative(logits(library, out, ids), model.eval()(ids).logits.detach().numpy()) < most
    neap("export", run, "--merge", "-o", tmp_path / "whole")
    np.testing.assert_array_equal(logits(library, tmp_path / "f32.gguf", ids), logits(library, tmp_path / "whole", ids))
    assert relative(logits(library, tmp_path / "f32.gguf", ids), logits(library, base, ids)) > 1e-3


@pytest.mark.parametrize("family", GGUF_FAMILIES)
def test_read_back(library, tmp_path, family):
    """The same logits to the bit, of every family: biases, scaled positions and windows too."""
    base, out, ids = tmp_path / "base", tmp_path / "out.gguf", some_tokens()
    folder(family, base, **({"query_pre_attn_scalar": 16} if family == "gemma2" else {}))
    neap("export", base, "-o", out, "--type", "f32")
    np.testing.assert_array_equal(logits(library, out, ids), logits(library, base, ids))
    neap("export", out, "-o", tmp_path / "again.gguf", "--type", "f32")
    assert fields(tmp_path / "again.gguf") == fields(out)
    first, again = tensors(out), tensors(tmp_path / "again.gguf")
    assert list(first) == list(again)
    assert all(np.array_equal(first[name].data, again[name].data) for name in first)


# What llama.cpp's convert writes of these families: architecture and keys beside those of all.
WRITTEN: dict[str, tuple[str, dict[str, Any]]] = {
    "gemma3": ("gemma3", {"rope.freq_base": 1e5, "rope.freq_base_swa": 1e3, "attention.sliding_window": 5,
                          "attention.sliding_window_pattern": 2, "rope.scaling.type": "linear", "rope.scaling.factor": 4.0}),
    "smollm3": ("smollm3", {"rope.freq_base": 2e6}),
    "phi4": ("phi3", {"rope.freq_base": 1e4, "rope.dimension_count": 6, "rope.scaling.original_context_length": 12,
                      "rope.scaling.attn_factor": math.sqrt(1 + math.log(64 / 12) / math.log(12))}),
    "olmo2": ("olmo2", {"rope.freq_base": 1e4}),
    "mixtral": ("llama", {"rope.freq_base": 1e6, "expert_count": 5, "expert_used_count": 2, "attention.sliding_window": 5}),
    "olmoe": ("olmoe", {"rope.freq_base": 1e4, "expert_count": 5, "expert_used_count": 2}),
    "qwen3_moe": ("qwen3moe", {"rope.freq_base": 1e4, "expert_count": 6, "expert_used_count": 3,
                               "expert_feed_forward_length": 24}),
}  # fmt: skip


def write_as_llama_cpp(family: str, model: torch.nn.Module, path: Path) -> None:
    architecture, keys = WRITTEN[family]
    config = model.config
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(64)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    if getattr(config, "head_dim", None):
        writer.add_key_length(config.head_dim)
        writer.add_value_length(config.head_dim)
    for key, value in keys.items():
        add = {int: writer.add_uint32, float: writer.add_float32, str: writer.add_string}[type(value)]
        add(f"{architecture}.{key}", value)
    if family == "phi4":
        for name in ("long", "short"):
            factors = np.array(config.rope_parameters[f"{name}_factor"], np.float32)
            writer.add_tensor(f"rope_factors_{name}.weight", factors)
    kind = next(a for a, name in gguf.MODEL_ARCH_NAMES.items() if name == architecture)
    names = gguf.get_tensor_name_map(kind, config.num_hidden_layers)
    mixtral = {"block_sparse_moe": "mlp", "w1.": "gate_proj.", "w2.": "down_proj.", "w3.": "up_proj."}
    for name, value in parameters(model).items():
        for ours, theirs in mixtral.items():
            name = name.replace(ours, theirs)
        array = value.numpy()
        if family in ("smollm3", "mixtral") and ("q_proj" in name or "k_proj" in name):
            array = permuted(array, config.num_attention_heads if "q_proj" in name else config.num_key_value_heads)
        if family == "gemma3" and "norm" in name:
            array = array + np.float32(1)
        if ".experts." in name:
            array = array.reshape(config.num_local_experts, -1, array.shape[-1])
        writer.add_tensor(names.get_name(name, try_suffixes=(".weight",)) or name, np.ascontiguousarray(array))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


@pytest.mark.parametrize("family", WRITTEN)
def test_files_of_llama_cpp(library, tmp_path, family):
    """Are read as transformers reads the folder; a folder that is made of them is that model, too."""
    model, ids, path = folder(family, tmp_path / "base"), some_tokens(), tmp_path / "model.gguf"
    write_as_llama_cpp(family, model, path)
    wanted = model(ids).logits.detach().numpy()
    assert relative(logits(library, path, ids), wanted) < 2e-5
    neap("export", path, "-o", tmp_path / "again")
    again = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "again").eval()
    assert relative(again(ids).logits.detach().numpy(), wanted) < 2e-5
    neap("export", tmp_path / "base", "-o", tmp_path / "ours.gguf", "--type", "f32")
    ours, theirs = tensors(tmp_path / "ours.gguf"), tensors(path)
    assert set(ours) == set(theirs)
    for name, tensor in theirs.items():
        assert tensor.shape.tolist() == ours[name].shape.tolist(), name
        np.testing.assert_allclose(ours[name].data, tensor.data, rtol=3e-7, err_msg=name)


def test_a_run_of_a_gguf_file(library, tmp_path):
    """Pairs are the base's; weights that were not trained, too."""
    base, source, out = tmp_path / "folder", tmp_path / "base.gguf", tmp_path / "out.gguf"
    folder("llama", base)
    byte_tokenizer("smollm").save(str(base / "tokenizer.json"))
    (base / "tokenizer_config.json").write_text(json.dumps({"eos_token": "<end>", "chat_template": "{{ messages }}"}))
    config = json.loads((base / "config.json").read_text())
    (base / "config.json").write_text(json.dumps({**config, "vocab_size": VOCABULARY}))
    make("llama", base, vocab_size=300, **NINE_HEADS)
    neap("export", base, "-o", source, "--type", "f32")
    neap("export", tune(tmp_path, source, "--lora", 2, "--lora-layers", "*q_proj.weight"), "-o", out, "--type", "f32")
    assert fields(out) == fields(source)
    was, now = tensors(source), tensors(out)
    changed = {name for name in was if not np.array_equal(was[name].data, now[name].data)}
    assert changed == {"blk.0.attn_q.weight", "blk.1.attn_q.weight"}


@pytest.mark.parametrize("family", ["llama", "qwen2", "gpt2"])
@pytest.mark.parametrize("from_gguf", [False, True])
def test_adapters(tmp_path, family, from_gguf):
    """The base's numbers and alpha / r B A are the merged ones, in the file's own order; peft's folder has the same."""
    base = tmp_path / "base"
    model = folder(family, base)
    if from_gguf:
        neap("export", base, "-o", tmp_path / "base.gguf", "--type", "f32")
        base = tmp_path / "base.gguf"
    run, out = lora(tmp_path, base), tmp_path / "adapter.gguf"
    assert json.loads(neap("export", run, "--adapter", "-o", out, "--json"))["adapters"] >= 8
    neap("export", run, "-o", tmp_path / "merged.gguf", "--type", "f32")
    neap("export", tmp_path / "base", "-o", tmp_path / "plain.gguf", "--type", "f32")
    neap("export", run, "--adapter", "-o", tmp_path / "peft")
    keys = fields(out)
    assert (keys["general.type"], keys["adapter.type"], keys["adapter.lora.alpha"]) == ("adapter", "lora", 12)
    assert keys["general.architecture"] == family
    parts, was, now = tensors(out), tensors(tmp_path / "plain.gguf"), tensors(tmp_path / "merged.gguf")
    names = {name.rsplit(".", 1)[0] for name in parts}
    assert len(parts) == 2 * len(names)
    for name in names:
        a, b = parts[f"{name}.lora_a"].data, parts[f"{name}.lora_b"].data
        assert a.shape[0] == b.shape[1] == 3 and a.dtype == b.dtype == np.float32
        wanted = was[name].data + 12 / 3 * b.astype(np.float64) @ a
        np.testing.assert_allclose(now[name].data, wanted, atol=1e-6, rtol=1e-6, err_msg=name)
        assert np.abs(now[name].data - was[name].data).max() > 1e-4
    saved = safetensors.load_file(tmp_path / "peft" / "adapter_model.safetensors")
    heads = {"q_proj": model.config.num_attention_heads, "k_proj": getattr(model.config, "num_key_value_heads", 0)}
    for name, value in saved.items():
        module, part = name.removeprefix("base_model.model.").removesuffix(".weight").rsplit(".", 1)
        stored, _ = as_stored(
            model, family, f"{module}.weight", torch.zeros(1, 1) if family == "gpt2" else torch.zeros(72, 1)
        )
        array = value.numpy()
        if part == "lora_B" and family == "llama" and module.rsplit(".", 1)[1] in heads:
            array = permuted(array, heads[module.rsplit(".", 1)[1]])
        np.testing.assert_array_equal(parts[f"{stored}.{part.lower()}"].data, array, name)


def back(
    tmp_path: Path, tokenizer: tokenizers.Tokenizer, rows: int, **config: Any
) -> tuple[dict, tokenizers.Tokenizer]:
    """Pairs of a file with that tokenizer, and what Neap makes of them again."""
    base = tmp_path / "base"
    make("llama", base, vocab_size=rows)
    tokenizer.save(str(base / "tokenizer.json"))
    (base / "tokenizer_config.json").write_text(json.dumps(config))
    neap("export", base, "-o", tmp_path / "out.gguf")
    neap("export", tmp_path / "out.gguf", "-o", tmp_path / "again")
    return fields(tmp_path / "out.gguf"), tokenizers.Tokenizer.from_file(str(tmp_path / "again" / "tokenizer.json"))


def check_ids(a: tokenizers.Tokenizer, b: tokenizers.Tokenizer) -> None:
    random = np.random.default_rng(1)
    letters = list("the time in 1984, a's\n\t <end> Ä你é<s> ▁!?")
    texts = TEXTS + ["".join(random.choice(letters, 30)) for _ in range(50)]
    for text in texts:
        assert a.encode(text).ids == b.encode(text).ids, text


@pytest.mark.parametrize("name", ["gpt-2", "smollm", "llama-bpe", "dbrx", "qwen2"])
def test_byte_level_tokenizers(tmp_path, name):
    tokenizer = byte_tokenizer(name)
    tokenizer.add_tokens(["house of"])
    size = tokenizer.get_vocab_size()
    template = "{{ bos_token }}"
    keys, again = back(tmp_path, tokenizer, size + 3, bos_token="<begin>", eos_token={"content": "<end>"},
                       chat_template=[{"name": "tool", "template": "x"}, {"name": "default", "template": template}])  # fmt: skip
    assert (keys["tokenizer.ggml.model"], keys["tokenizer.ggml.pre"]) == ("gpt2", name)
    assert (keys["tokenizer.ggml.bos_token_id"], keys["tokenizer.ggml.eos_token_id"]) == (0, 1)
    assert keys["tokenizer.ggml.add_bos_token"] == (name == "llama-bpe")
    assert keys["tokenizer.chat_template"] == template
    tokens, types = keys["tokenizer.ggml.tokens"], keys["tokenizer.ggml.token_type"]
    assert tokens[:size] == [tokenizer.id_to_token(i) for i in range(size)]
    assert tokens[size:] == [f"[PAD{i}]" for i in range(size, size + 3)]
    assert types == [3, 3, *[1] * (size - 3), 4, 5, 5, 5]
    model = json.loads(tokenizer.to_str())["model"]
    assert keys["tokenizer.ggml.merges"] == [m if isinstance(m, str) else " ".join(m) for m in model["merges"]]
    check_ids(tokenizer, again)


@pytest.mark.parametrize("prefix", [True, False])
def test_sentencepiece_tokenizers(tmp_path, prefix):
    """By its merges, and without them by its scores, the file gives the same ids."""
    tokenizer = piece_tokenizer(prefix)
    keys, again = back(
        tmp_path, tokenizer, tokenizer.get_vocab_size(), bos_token="<s>", eos_token="</s>", pad_token="<unk>"
    )
    assert keys["tokenizer.ggml.model"] == "llama"
    assert keys["tokenizer.ggml.add_space_prefix"] == prefix
    assert keys["tokenizer.ggml.add_bos_token"] and not keys["tokenizer.ggml.add_eos_token"]
    ids = [keys[f"tokenizer.ggml.{name}_token_id"] for name in ("unknown", "bos", "eos", "padding")]
    assert ids == [0, 1, 2, 0]
    assert keys["tokenizer.ggml.token_type"][:4] == [2, 3, 3, 6]
    check_ids(tokenizer, again)
    scores = tmp_path / "scores.gguf"
    writer = gguf.GGUFWriter(scores, "llama")
    for key, field in gguf.GGUFReader(tmp_path / "out.gguf").fields.items():
        if key not in ("tokenizer.ggml.merges", "general.architecture") and "GGUF." not in key:
            kind = field.types[0]
            writer.add_key_value(
                key, field.contents(), kind, field.types[1] if kind == gguf.GGUFValueType.ARRAY else None
            )
    for tensor in gguf.GGUFReader(tmp_path / "out.gguf").tensors:
        writer.add_tensor(tensor.name, tensor.data)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    neap("export", scores, "-o", tmp_path / "by-scores")
    check_ids(tokenizer, tokenizers.Tokenizer.from_file(str(tmp_path / "by-scores" / "tokenizer.json")))


def test_bad_cases(tmp_path):
    base, out = tmp_path / "base", tmp_path / "out.gguf"
    folder("llama", base)
    run = lora(tmp_path, base)
    neap("export", run, "-o", out)
    whole = out.read_bytes()

    def full() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192))

    assert "out.gguf" in neap("export", run, "-o", out, "--type", "f32", expect=1, preexec_fn=full)
    assert out.read_bytes() == whole and not list(tmp_path.glob("*.tmp*"))
    assert "no/out.gguf" in neap("export", run, "-o", tmp_path / "no" / "out.gguf", expect=1)
    assert "q8_0" in neap("export", run, "-o", out, "--type", "q4_k", expect=2)
    assert "--merge or --adapter" in neap("export", run, "-o", out, "--merge", "--adapter", expect=2)
    assert "is the file of the model" in neap("export", out, "-o", out, expect=2)
    assert "name a run" in neap("export", out, "-o", tmp_path / "x.gguf", "--adapter", expect=2)
    assert "only a run" in neap("export", out, "-o", tmp_path / "x.onnx", expect=2)
    assert out.read_bytes() == whole
    other = tune(tmp_path, base, "--lora", 2, "--freeze", "*,!model.norm.weight", name="other")
    assert "model.norm.weight" in neap("export", other, "--adapter", "-o", tmp_path / "x.gguf", expect=1)
    plain = tune(tmp_path, base, "--full", name="plain")
    assert "has no adapters" in neap("export", plain, "--adapter", "-o", tmp_path / "x.gguf", expect=2)
    for family in ["opt", "bert", "longformer"]:
        make(family, tmp_path / family)
        assert f"'{family}'" in neap("export", tmp_path / family, "-o", tmp_path / "x.gguf", expect=1)
    for family, said in [("gemma2", "query_pre_attn_scalar"), ("gemma2 without caps", "query_pre_attn_scalar")]:
        make(family, tmp_path / family)
        assert said in neap("export", tmp_path / family, "-o", tmp_path / "x.gguf", expect=1)
    make("gemma2", tmp_path / "gemma2", query_pre_attn_scalar=16, attn_logit_softcapping=None)
    assert "softcapping" in neap("export", tmp_path / "gemma2", "-o", tmp_path / "x.gguf", expect=1)
    tokenizer = byte_tokenizer("gpt-2")
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Split(" ", "isolated")
    make("llama", base, vocab_size=400)
    tokenizer.save(str(base / "tokenizer.json"))
    assert "splits text" in neap("export", base, "-o", tmp_path / "x.gguf", expect=1)
    make("llama", base, vocab_size=200)
    byte_tokenizer("gpt-2").save(str(base / "tokenizer.json"))
    assert "200 rows" in neap("export", base, "-o", tmp_path / "x.gguf", expect=1)
    make("llama", base, hidden_act="gelu")
    (base / "tokenizer.json").unlink()
    assert "activation" in neap("export", base, "-o", tmp_path / "x.gguf", expect=1)
    assert not (tmp_path / "x.gguf").exists()


def test_a_real_file(library, tmp_path):
    if "NEAP_TEST_GGUF" not in os.environ:
        pytest.skip("NEAP_TEST_GGUF names no file")
    source, ids = Path(os.environ["NEAP_TEST_GGUF"]), some_tokens()
    neap("export", source, "-o", tmp_path / "out.gguf", "--type", "f32")
    np.testing.assert_array_equal(logits(library, source, ids), logits(library, tmp_path / "out.gguf", ids))
    assert ids.shape[1] == LENGTH
