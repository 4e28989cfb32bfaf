"""Keys of config.json and of GGUF files that change what a model computes are used, or refused by name; others are told."""

from __future__ import annotations

import json
import subprocess

import numpy as np
import pytest
from test_export_language import NEAP, VOCABULARY, neap
from test_language_models import make

pytest.importorskip("transformers")

# Family, key, another value than the one that is computed.
REFUSED = [
    ("qwen2", "use_sliding_window", True), ("gemma", "attention_bias", True), ("gemma2", "attention_bias", True),
    ("gemma", "use_bidirectional_attention", True), ("gemma2", "use_bidirectional_attention", True),
    ("gpt2", "scale_attn_weights", False), ("gpt2", "scale_attn_by_inverse_layer_idx", True), ("gpt2", "add_cross_attention", True),
]  # fmt: skip


def changed(folder, **values) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, **values}))


def plan(folder) -> subprocess.CompletedProcess:
    return subprocess.run(
        [NEAP, "plan", "--model", folder, "--batch", "1", "--length", "8", "--budget", "max"],
        capture_output=True,
        text=True,
    )


@pytest.mark.parametrize(("family", "key", "value"), REFUSED)
def test_other_arithmetic_is_refused(tmp_path, family, key, value):
    make(family, tmp_path, vocab_size=VOCABULARY)
    assert plan(tmp_path).returncode == 0
    changed(tmp_path, **{key: value})
    done = plan(tmp_path)
    said = f"'{key}' is {str(value).lower()}; only {str(not value).lower()} is supported"
    assert done.returncode == 1 and said in done.stderr, done.stderr


def understood(tmp_path, model) -> dict[str, dict]:
    ids = np.arange(200, dtype=np.int32) % VOCABULARY
    np.save(tmp_path / "ids.npy", ids)
    out = neap("train", "--model", model, "--data", f"tokens:{tmp_path}/ids.npy,test={tmp_path}/ids.npy", "--length", 8, "--batch", 1,
               "--steps", 1, "--schedule", "constant", "--evaluate", "off", "--json")  # fmt: skip
    return {row["object"]: row for row in json.loads(out[out.index("{") :].splitlines()[0])["understood"]}


def test_what_was_not_used_is_told(tmp_path):
    folder = tmp_path / "model"
    make("llama", folder, vocab_size=VOCABULARY)
    changed(
        folder, attention_dropout=0.25, logit_scale=2.0, rope_scaling={"rope_type": "linear", "factor": 2.0, "new": 3}
    )
    rows = understood(tmp_path, folder)
    for key, value in (("attention_dropout", "0.25"), ("logit_scale", "2.0"), ("rope_scaling.new", "3")):
        assert rows[key]["became"] == "keys of the model not used" and rows[key]["why"] == value
    used = ("hidden_size", "rms_norm_eps", "rope_scaling.factor", "hidden_act", "num_key_value_heads", "attention_bias")
    assert not {*used, "architectures", "vocab_size"} & set(rows)


def test_global_tokens_come_from_attention(tmp_path):
    folder = tmp_path / "model"
    make("longformer", folder, vocab_size=VOCABULARY + 1)
    rows = understood(tmp_path, folder)
    assert rows["global tokens"]["became"] == "chosen by attention (global=N)"
    assert not {"attention_window", "type_vocab_size", "pad_token_id"} & set(rows)


@pytest.mark.parametrize(("key", "value"), [("attention.causal", False), ("rope.scaling.attn_factor", 1.5)])
def test_gguf(tmp_path, key, value):
    gguf = pytest.importorskip("gguf")
    folder = tmp_path / "model"
    make("llama", folder, vocab_size=VOCABULARY)
    neap("export", folder, "-o", tmp_path / "m.gguf")
    reader = gguf.GGUFReader(tmp_path / "m.gguf")
    writer = gguf.GGUFWriter(tmp_path / "other.gguf", "llama")
    for name, field in reader.fields.items():
        if name.startswith("GGUF.") or name == "general.architecture":
            continue
        kind = field.types[0]
        writer.add_key_value(
            name, field.contents(), kind, sub_type=field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None
        )
    kinds = {bool: gguf.GGUFValueType.BOOL, int: gguf.GGUFValueType.UINT32, float: gguf.GGUFValueType.FLOAT32}
    writer.add_key_value(f"llama.{key}", value, kinds[type(value)])
    writer.add_key_value("llama.made_up", 7, gguf.GGUFValueType.UINT32)
    for tensor in reader.tensors:
        writer.add_tensor(tensor.name, tensor.data, raw_dtype=tensor.tensor_type)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    done = plan(tmp_path / "other.gguf")
    assert done.returncode == 1 and f"'llama.{key}' is" in done.stderr, done.stderr
