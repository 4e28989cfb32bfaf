"""Language models of others: small ones of every family, saved by transformers and read by Neap, give its logits and gradients."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import native
import numpy as np
import pytest
import torch
from torch.nn import functional as F

transformers = pytest.importorskip("transformers")
transformers.logging.set_verbosity_error()

VOCABULARY, LENGTH, BATCH = 97, 20, 2
SENTENCE = 3  # NEAP_HEAD_SENTENCE
SHAPE = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}
SMALL = {**SHAPE, "vocab_size": VOCABULARY, "max_position_embeddings": 64, "tie_word_embeddings": False}
SCALED = {
    "rope_type": "llama3", "rope_theta": 5e5, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}  # fmt: skip
OPT = {
    "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "ffn_dim": 48, "vocab_size": VOCABULARY,
    "max_position_embeddings": 64, "word_embed_proj_dim": 32, "dropout": 0.0,
}  # fmt: skip
GEMMA3 = {
    **SMALL, "tie_word_embeddings": True, "num_hidden_layers": 3, "num_key_value_heads": 2, "head_dim": 16,
    "query_pre_attn_scalar": 16, "sliding_window": 5,
    "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
    "rope_parameters": {
        "sliding_attention": {"rope_type": "default", "rope_theta": 1e3},
        "full_attention": {"rope_type": "linear", "rope_theta": 1e5, "factor": 4.0},
    },
}  # fmt: skip
LONG_ROPE = {
    "rope_type": "longrope", "rope_theta": 1e4, "partial_rotary_factor": 0.75,
    "short_factor": [1.0, 1.1, 1.2], "long_factor": [1.5, 3.0, 9.0],
}  # fmt: skip
PHI3 = {**SMALL, "num_key_value_heads": 2, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
EXPERTS = {**SMALL, "num_key_value_heads": 2, "num_experts_per_tok": 2, "pad_token_id": 0}
NO_DROPOUT = {"attn_pdrop": 0.0, "resid_pdrop": 0.0, "embd_pdrop": 0.0}
LONGFORMER = {
    **SMALL, "hidden_size": 16, "tie_word_embeddings": True, "attention_window": 8, "pad_token_id": 1,
    "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0,
}  # fmt: skip
GLOBAL = 3  # tokens of a text, the first ones, to Longformer
FAMILIES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "llama": ("Llama", "CausalLM", {**SMALL, "num_key_value_heads": 2}),
    "llama with biases": ("Llama", "CausalLM", {**SMALL, "attention_bias": True, "mlp_bias": True}),
    "llama 3": ("Llama", "CausalLM", {**SMALL, "tie_word_embeddings": True, "head_dim": 16, "rope_parameters": SCALED}),
    "llama, linear": (
        "Llama",
        "CausalLM",
        {**SMALL, "rope_parameters": {"rope_type": "linear", "rope_theta": 1e4, "factor": 4.0}},
    ),
    "mistral": ("Mistral", "CausalLM", {**SMALL, "num_key_value_heads": 2, "sliding_window": 5}),
    "qwen2": ("Qwen2", "CausalLM", {**SMALL, "num_key_value_heads": 2}),
    "qwen3": ("Qwen3", "CausalLM", {**SMALL, "num_key_value_heads": 2, "head_dim": 12}),
    "gemma": ("Gemma", "CausalLM", {**SMALL, "tie_word_embeddings": True, "num_key_value_heads": 1, "head_dim": 16}),
    "gemma2": (
        "Gemma2",
        "CausalLM",
        {
            **SMALL,
            "tie_word_embeddings": True,
            "num_hidden_layers": 3,
            "num_key_value_heads": 2,
            "head_dim": 16,
            "query_pre_attn_scalar": 8,
            "sliding_window": 5,
            "attn_logit_softcapping": 0.5,
            "final_logit_softcapping": 1.5,
            "attn_implementation": "eager",
        },
    ),
    "gemma2 without caps": (
        "Gemma2",
        "CausalLM",
        {
            **SMALL,
            "tie_word_embeddings": True,
            "num_key_value_heads": 1,
            "head_dim": 16,
            "query_pre_attn_scalar": 32,
            "attn_logit_softcapping": None,
            "final_logit_softcapping": None,
        },
    ),
    "gemma3": ("Gemma3", "CausalLM", GEMMA3),
    "gemma3 with caps": (
        "Gemma3",
        "CausalLM",
        {
            **GEMMA3,
            "query_pre_attn_scalar": 8,
            "final_logit_softcapping": 1.5,
            "num_hidden_layers": 2,
            "layer_types": None,
        },
    ),
    "smollm3": ("SmolLM3", "CausalLM", {**SMALL, "pad_token_id": 0, "num_key_value_heads": 2, "num_hidden_layers": 5}),
    "smollm3, each second": (
        "SmolLM3",
        "CausalLM",
        {**SMALL, "pad_token_id": 0, "no_rope_layer_interval": 2, "tie_word_embeddings": True},
    ),
    "phi3": ("Phi3", "CausalLM", {**PHI3, "sliding_window": 5}),
    "phi4": (
        "Phi3",
        "CausalLM",
        {**PHI3, "tie_word_embeddings": True, "original_max_position_embeddings": 12, "rope_parameters": LONG_ROPE},
    ),
    "phi4, short": (
        "Phi3",
        "CausalLM",
        {**PHI3, "original_max_position_embeddings": 32, "rope_parameters": LONG_ROPE},
    ),
    "olmo2": ("Olmo2", "CausalLM", {**SMALL, "num_key_value_heads": 2}),
    "mixtral": ("Mixtral", "CausalLM", {**EXPERTS, "num_local_experts": 5, "sliding_window": 5}),
    "olmoe": ("Olmoe", "CausalLM", {**EXPERTS, "num_experts": 5}),
    "olmoe, normalised": ("Olmoe", "CausalLM", {**EXPERTS, "num_experts": 4, "norm_topk_prob": True}),
    "qwen3_moe": (
        "Qwen3Moe",
        "CausalLM",
        {
            **EXPERTS,
            "num_experts": 6,
            "num_experts_per_tok": 3,
            "moe_intermediate_size": 24,
            "head_dim": 12,
            "norm_topk_prob": True,
        },
    ),
    "gpt2": (
        "GPT2",
        "LMHeadModel",
        {
            "n_embd": 32,
            "n_layer": 2,
            "n_head": 4,
            "vocab_size": VOCABULARY,
            "n_positions": 64,
            **NO_DROPOUT,
        },
    ),
    "opt": ("OPT", "ForCausalLM", OPT),
    "opt, norms last": ("OPT", "ForCausalLM", {**OPT, "do_layer_norm_before": False}),
    "bert": (
        "Bert",
        "ForMaskedLM",
        {
            **SMALL,
            "tie_word_embeddings": True,
            "type_vocab_size": 3,
            "hidden_dropout_prob": 0.0,
            "attention_probs_dropout_prob": 0.0,
        },
    ),
    "longformer": ("Longformer", "ForMaskedLM", LONGFORMER),
    "longformer, by layer": (
        "Longformer",
        "ForMaskedLM",
        {**LONGFORMER, "attention_window": [4, 10], "type_vocab_size": 1},
    ),
}


def make(family: str, folder: Path, **more: Any) -> torch.nn.Module:
    """A model whose weights, norms and biases too, are drawn: none is at its first value."""
    stem, suffix, options = FAMILIES[family]
    suffix = suffix if suffix.startswith(("For", "LM")) else f"For{suffix}"
    torch.manual_seed(1)
    config = getattr(transformers, f"{stem}{'Text' if stem == 'Gemma3' else ''}Config")
    model = getattr(transformers, stem + suffix)(config(**{**options, **more})).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            one = 1.0 if parameter.dim() == 1 and name.endswith("weight") and "Gemma" not in stem else 0.0
            parameter.copy_(one + 0.1 * torch.randn_like(parameter))
    model.save_pretrained(folder)
    return model


def parameters(model: torch.nn.Module, gradient: bool = False) -> dict[str, torch.Tensor]:
    """Weights or their gradients by the names of Neap's variables, which are a folder's; those of all experts stand one behind
    the other."""
    found: dict[str, torch.Tensor] = {}
    mixtral = "Mixtral" in type(model).__name__
    for name, parameter in model.named_parameters():
        value = parameter.grad if gradient else parameter.data
        layer, _, last = name.rpartition(".")
        if mixtral:
            layer = layer.replace(".mlp", ".block_sparse_moe")
        names = ("w1", "w3", "w2") if mixtral else ("gate_proj", "up_proj", "down_proj")
        if last == "gate_up_proj":
            for part, half in zip(names, value.chunk(2, 1), strict=False):
                found[f"{layer}.{part}.weight"] = half.flatten(0, 1)
        elif last == "down_proj":
            found[f"{layer}.{names[2]}.weight"] = value.flatten(0, 1)
        else:
            found[f"{layer}.{last}"] = value
    return found


def has_global(family: str) -> dict[str, Any]:
    """The option of Neap that names them."""
    return {"attention": f"global={GLOBAL}".encode()} if family.startswith("longformer") else {}


def ahead(model: torch.nn.Module, ids: torch.Tensor, **more: Any) -> Any:
    """What a model gives; of Longformer with global tokens."""
    if "Longformer" in type(model).__name__:
        more["global_attention_mask"] = (torch.arange(ids.shape[1]) < GLOBAL).long().expand_as(ids)
    return model(ids, **more)


def tokens() -> torch.Tensor:
    return torch.randint(0, VOCABULARY, (BATCH, LENGTH), generator=torch.Generator().manual_seed(2))


def load(library: native.Library, path: Path, session: native.Session, **options: Any) -> None:
    native.load(library, str(path), session, **options)


def relative(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.abs(a - b).max() / np.abs(b).max())


@pytest.mark.parametrize("family", FAMILIES)
def test_logits_and_a_step_are_those_of_transformers(library, tmp_path, family):
    model, ids = make(family, tmp_path), tokens()
    labels = torch.roll(ids, -1, 1)
    labels[:, -1] = -1
    shape = {"batch": BATCH, "length": LENGTH, **has_global(family)}
    with native.model(library, str(tmp_path), **shape) as graph, native.session(library, graph, predict=True) as s:
        load(library, tmp_path, s, **shape)
        s.fill("tokens", ids.numpy().astype(np.int32))
        s.predict()
        assert relative(s.output("logits"), ahead(model, ids).logits.detach().numpy()) < 2e-5
    model.train()
    loss = F.cross_entropy(ahead(model, ids).logits.flatten(0, 1), labels.flatten(), ignore_index=-1)
    loss.backward()
    with native.model(library, str(tmp_path), **shape) as graph, native.session(library, graph, momentum=0) as s:
        load(library, tmp_path, s, **shape)
        before = {name: s.read(name) for name in s.variables}
        s.fill("tokens", ids.numpy().astype(np.int32))
        s.fill("label", labels.numpy().astype(np.int32))
        assert abs(s.step(1.0).loss - loss.item()) < 1e-5 * loss.item()
        gradients = parameters(model, gradient=True)
        assert set(before) == set(gradients)
        for name, was in before.items():
            expected = gradients[name].numpy()
            expected = (
                expected.T if expected.shape != was.shape or "c_attn.w" in name or "c_proj.w" in name else expected
            )
            most = max(np.abs(expected).max(), 1e-3)  # keys' biases move no softmax: theirs are zeros but for rounding
            assert np.abs(was - s.read(name) - expected).max() < 2e-3 * most, name


@pytest.mark.parametrize(
    "family",
    [
        "llama 3",
        "qwen3",
        "gemma",
        "gemma2 without caps",
        "gpt2",
        "opt",
        "smollm3",
        "phi4",
        "olmo2",
        "olmoe",
        "qwen3_moe",
    ],
)
def test_tokens_one_by_one_give_the_same_logits(library, tmp_path, family):
    model, ids = make(family, tmp_path), tokens()[:1]
    expected = model(ids).logits.detach().numpy()[0]
    shape = {"batch": 1, "decode": LENGTH}
    with native.model(library, str(tmp_path), **shape) as graph, native.session(library, graph, predict=True) as s:
        load(library, tmp_path, s, **shape)
        for place in range(LENGTH):
            s.fill("tokens", ids[:, place : place + 1].numpy().astype(np.int32))
            s.fill("position", np.array([place], np.int32))
            s.fill("length", np.array([place + 1], np.int32))
            s.predict()
            assert relative(s.output("logits")[0, 0], expected[place]) < 5e-5, place


def test_a_window_limits_what_is_decoded(library, tmp_path):
    model, ids = make("mistral", tmp_path), tokens()[:1]
    expected = model(ids).logits.detach().numpy()[0]
    window = FAMILIES["mistral"][2]["sliding_window"]
    shape = {"batch": 1, "decode": window - 1}
    with native.model(library, str(tmp_path), **shape) as graph, native.session(library, graph, predict=True) as s:
        load(library, tmp_path, s, **shape)
        for place in range(window):
            s.fill("tokens", ids[:, place : place + 1].numpy().astype(np.int32))
            s.fill("position", np.array([place], np.int32))
            s.fill("length", np.array([place + 1], np.int32))
            s.predict()
            assert relative(s.output("logits")[0, 0], expected[place]) < 5e-5, place
    with (
        pytest.raises(native.Failed, match="window of 5"),
        native.model(library, str(tmp_path), batch=1, decode=window),
    ):
        pass


def test_weights_in_shards_and_in_sixteen_bits(library, tmp_path):
    model, ids = make("llama", tmp_path / "whole"), tokens()
    model.half().save_pretrained(tmp_path / "shards", max_shard_size="20KB")
    assert len(list((tmp_path / "shards").glob("*.safetensors"))) > 2
    shape = {"batch": BATCH, "length": LENGTH}
    path = tmp_path / "shards"
    with native.model(library, str(path), **shape) as graph, native.session(library, graph, predict=True) as s:
        load(library, path, s, **shape)
        s.fill("tokens", ids.numpy().astype(np.int32))
        s.predict()
        again = transformers.LlamaForCausalLM.from_pretrained(path, dtype=torch.float32).eval()
        assert relative(s.output("logits"), again(ids).logits.detach().numpy()) < 2e-5


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"model_type": "mamba"}, ["mamba", "llama"]),
        ({"model_type": None}, ["model_type"]),
        ({"hidden_size": "wide"}, ["hidden_size", "not an integer"]),
        ({"num_hidden_layers": 0}, ["num_hidden_layers", "0"]),
        ({"num_hidden_layers": 3}, ["model.layers.2"]),
        ({"intermediate_size": 47}, ["mlp.gate_proj.weight", "[48, 32]", "[47, 32]"]),
        ({"num_attention_heads": 5}, ["heads"]),
        ({"hidden_act": "swoosh"}, ["swoosh", "silu"]),
        ({"rope_parameters": {"rope_type": "yarn", "rope_theta": 1e4}}, ["yarn", "llama3"]),
        ({"rope_parameters": {"rope_theta": -1.0}}, ["-1", "positive"]),
        ({"partial_rotary_factor": 0.5}, ["part of each head"]),
        ({"max_position_embeddings": None}, ["context length"]),
        ({"quantization_config": {"load_in_4bit": True}}, ["quantization_config"]),
    ],
)
def test_bad_descriptions_are_told(library, tmp_path, fields, words):
    make("llama", tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, **fields}))
    with pytest.raises(native.Failed) as failed, native.model(library, str(tmp_path), batch=1, length=8):
        pass
    for word in [str(tmp_path), *words]:
        assert word in str(failed.value)


@pytest.mark.parametrize(
    ("family", "fields", "words"),
    [
        ("qwen2", {"use_sliding_window": True}, ["use_sliding_window", "true"]),
        ("gpt2", {"scale_attn_weights": False}, ["scale_attn_weights", "false"]),
        ("bert", {"position_embedding_type": "relative_key"}, ["relative_key", "absolute"]),
        ("bert", {"is_decoder": True}, ["is_decoder"]),
        ("longformer", {"attention_window": 7}, ["attention_window", "7", "even"]),
        ("longformer", {"attention_window": [8]}, ["attention_window", "1 numbers for 2 layers"]),
        ("longformer", {"pad_token_id": 63}, ["pad_token_id", "63"]),
        ("longformer", {"hidden_act": "relu"}, ["gelu"]),
        ("longformer", {"tie_word_embeddings": False}, ["tie_word_embeddings", "true"]),
        ("longformer", {"type_vocab_size": 0}, ["type_vocab_size", "0"]),
        ("mistral", {"sliding_window": 0}, ["sliding_window", "0"]),
        ("gemma2", {"layer_types": ["full_attention"] * 3}, ["layer_types", "sliding_attention"]),
        ("gemma2", {"query_pre_attn_scalar": -1}, ["query_pre_attn_scalar", "-1"]),
        ("gemma2", {"attn_logit_softcapping": -1.0}, ["attn_logit_softcapping", "-1"]),
        ("gemma2", {"use_bidirectional_attention": True}, ["use_bidirectional_attention"]),
    ],
)
def test_what_is_not_computed_is_refused(library, tmp_path, family, fields, words):
    make(family, tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, **fields}))
    with pytest.raises(native.Failed) as failed, native.model(library, str(tmp_path), batch=1, length=8):
        pass
    for word in [str(tmp_path), *words]:
        assert word in str(failed.value)


@pytest.mark.parametrize("told", [True, False])
def test_a_longformer_without_a_head(library, tmp_path, told):
    """Rows of texts of several lengths, with and without global tokens, by the mean over each text."""
    model, ids = make("longformer", tmp_path).longformer, tokens()
    model.save_pretrained(tmp_path)
    lengths = torch.tensor([LENGTH, LENGTH - 7])
    mask = (torch.arange(LENGTH) < lengths[:, None]).long()
    rows = (ahead if told else torch.nn.Module.__call__)(model, ids, attention_mask=mask).last_hidden_state
    expected = (rows * mask[..., None]).sum(1) / lengths[:, None]
    shape = {"batch": BATCH, "length": LENGTH, "head": SENTENCE, **(has_global("longformer") if told else {})}
    with native.model(library, str(tmp_path), **shape) as graph, native.session(library, graph, predict=True) as s:
        load(library, tmp_path, s, **shape)
        s.fill("tokens", torch.where(mask > 0, ids, -1).numpy().astype(np.int32))
        s.predict()
        assert relative(s.output("sentence"), expected.detach().numpy()) < 2e-5


def test_global_tokens_need_projections_of_their_own(library, tmp_path):
    make("bert", tmp_path)
    with (
        pytest.raises(native.Failed, match="no projections of global tokens"),
        native.model(library, str(tmp_path), batch=1, length=8, attention=b"window:4,global=1"),
    ):
        pass


def test_a_window_that_the_family_does_not_have_is_passed_over(library, tmp_path):
    """As transformers does: a Llama's attention has no window, whatever config.json says."""
    model, ids = make("llama", tmp_path), tokens()
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "sliding_window": 3}))
    shape = {"batch": BATCH, "length": LENGTH}
    with native.model(library, str(tmp_path), **shape) as graph, native.session(library, graph, predict=True) as s:
        load(library, tmp_path, s, **shape)
        s.fill("tokens", ids.numpy().astype(np.int32))
        s.predict()
        assert relative(s.output("logits"), model(ids).logits.detach().numpy()) < 2e-5


def test_folders_without_weights_that_are_read(library, tmp_path):
    make("llama", tmp_path)
    weights = tmp_path / "model.safetensors"
    whole = weights.read_bytes()
    for change, words in [
        (lambda: weights.unlink(), ["model.safetensors"]),
        (lambda: (tmp_path / "pytorch_model.bin").write_bytes(b"x"), ["pickle", "save_pretrained"]),
        (lambda: weights.write_bytes(whole[: len(whole) // 2]), ["model.safetensors"]),
        (lambda: (tmp_path / "config.json").write_text("{"), ["config.json", "line"]),
        (lambda: (tmp_path / "config.json").write_text("[]"), ["config.json", "object"]),
    ]:
        change()
        with pytest.raises(native.Failed) as failed, native.model(library, str(tmp_path), batch=1, length=8):
            pass
        for word in words:
            assert word in str(failed.value)
    shutil.rmtree(tmp_path)


def test_gemma2_of_a_gguf_file(library, tmp_path):
    """Its norms are stored + 1; the scale of scores is by the width of a head."""
    gguf = pytest.importorskip("gguf")
    model, ids, path = make("gemma2", tmp_path / "folder", query_pre_attn_scalar=16), tokens(), tmp_path / "model.gguf"
    writer = gguf.GGUFWriter(path, "gemma2")
    writer.add_block_count(3)
    writer.add_context_length(64)
    writer.add_embedding_length(32)
    writer.add_feed_forward_length(48)
    writer.add_head_count(4)
    writer.add_head_count_kv(2)
    writer.add_key_length(16)
    writer.add_value_length(16)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_sliding_window(5)
    writer.add_attn_logit_softcapping(0.5)
    writer.add_final_logit_softcapping(1.5)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.GEMMA2, 3)
    for name, value in model.state_dict().items():
        if name != "lm_head.weight":
            one = 1.0 if "norm" in name else 0.0
            writer.add_tensor(names.get_name(name, try_suffixes=(".weight",)), value.numpy() + one)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    shape = {"batch": BATCH, "length": LENGTH}
    with native.model(library, str(path), **shape) as graph, native.session(library, graph, predict=True) as s:
        load(library, path, s, **shape)
        s.fill("tokens", ids.numpy().astype(np.int32))
        s.predict()
        assert relative(s.output("logits"), model(ids).logits.detach().numpy()) < 2e-5
