"""Frozen weights in few bits beside bitsandbytes: `--base` gives its bytes and numbers, and folders that it packed in 4 or 8 bits
are read to the bit and stay packed in memory."""

from __future__ import annotations

import ctypes
import json
import shutil
from pathlib import Path
from typing import Any

import native
import numpy as np
import pytest
import torch
from quick import LEAST
from test_export_language import VOCABULARY, neap, tune
from test_language_models import load, make, relative
from test_model_keys import understood

transformers = pytest.importorskip("transformers")
functional = pytest.importorskip("bitsandbytes.functional")
safetensors = pytest.importorskip("safetensors.torch")

WIDE = {"vocab_size": VOCABULARY, "hidden_size": 64, "intermediate_size": 192}
LENGTH = 16
LINEAR = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]


def is_linear(name: str) -> bool:
    return any(part in name for part in LINEAR)


def values_of(library: native.Library, path: Path, save: Path | None = None, **options: Any) -> dict[str, np.ndarray]:
    """All weights as a session that predicts has them; `save`: written there, too."""
    shape = {"batch": 1, "length": LENGTH}
    with (
        native.model(library, str(path), **shape) as graph,
        native.session(library, graph, predict=True, **options) as s,
    ):
        load(library, path, s, **shape)
        if save is not None:
            library.check(library.session_save(ctypes.c_void_p(s.handle), str(save).encode()))
        return {name: s.read(name) for name in s.variables}


def blocks_of(path: Path, kind: str) -> dict[str, np.ndarray]:
    """The tensors of a file that are blocks, by rows of a block."""
    with safetensors.safe_open(path, "np") as file:
        stored = json.loads(file.metadata()["quantised_tensors"])
        sizes = {"nf4": 36, "i8": 68, "q8_0": 34, "q4_k": 144, "q5_k": 176, "q6_k": 210}
        assert {entry["type"] for entry in stored.values()} == {kind}
        return {name: file.get_tensor(name).reshape(-1, sizes[kind]) for name in stored}


def test_nf4_is_that_of_bitsandbytes(library, tmp_path):
    model = make("llama", tmp_path / "base", **WIDE)
    got = values_of(library, tmp_path / "base", tmp_path / "saved", base=b"nf4")
    blocks = blocks_of(tmp_path / "saved", "nf4")
    assert set(blocks) == {name for name in got if is_linear(name)}
    for name, value in model.state_dict().items():
        if name not in blocks:
            np.testing.assert_array_equal(got[name], value.numpy(), name)
            continue
        packed, state = functional.quantize_4bit(value, blocksize=64, quant_type="nf4")
        np.testing.assert_array_equal(blocks[name][:, :32], packed.numpy().reshape(-1, 32), name)
        np.testing.assert_array_equal(blocks[name][:, 32:].copy().view(np.float32)[:, 0], state.absmax.numpy(), name)
        np.testing.assert_array_equal(got[name], functional.dequantize_4bit(packed, state).numpy(), name)


def test_i8_is_that_of_bitsandbytes(library, tmp_path):
    model = make("llama", tmp_path / "base", **WIDE)
    with torch.no_grad():
        model.model.layers[0].mlp.up_proj.weight[3] = 0
        model.model.layers[0].mlp.up_proj.weight[4, 5] = 40
    model.save_pretrained(tmp_path / "base")
    got = values_of(library, tmp_path / "base", tmp_path / "saved", base=b"i8")
    blocks = blocks_of(tmp_path / "saved", "i8")
    assert set(blocks) == {name for name in got if is_linear(name)}
    for name, value in model.state_dict().items():
        if name not in blocks:
            np.testing.assert_array_equal(got[name], value.numpy(), name)
            continue
        numbers, most, _ = functional.int8_vectorwise_quant(value.clone())
        numbers[most == 0] = 0
        np.testing.assert_array_equal(blocks[name][:, :64].view(np.int8), numbers.numpy().reshape(-1, 64), name)
        scales = blocks[name][:, 64:].copy().view(np.float32).reshape(len(value), -1)
        np.testing.assert_array_equal(scales, np.broadcast_to(most.numpy()[:, None], scales.shape), name)
        wanted = functional.int8_vectorwise_dequant(numbers, most).numpy()
        np.testing.assert_array_equal(got[name], wanted, name)


@pytest.mark.parametrize(("kind", "least", "most"), [("q4_k", 0.04, 0.1), ("q5_k", 0.02, 0.05), ("q6_k", 0.01, 0.025)])
def test_blocks_of_256_are_those_of_gguf(library, tmp_path, kind, least, most):
    """gguf reads the same numbers of them, which are near the weights: by the root of mean squares. Runs have the same bits at every
    budget, and with weights on disk."""
    gguf = pytest.importorskip("gguf")
    model = make("llama", tmp_path / "base", vocab_size=VOCABULARY, hidden_size=256, intermediate_size=512)
    got = values_of(library, tmp_path / "base", tmp_path / "saved", base=kind.encode())
    blocks = blocks_of(tmp_path / "saved", kind)
    assert set(blocks) == {name for name in got if is_linear(name)}
    for name, block in blocks.items():
        wanted = gguf.quants.dequantize(block.copy(), gguf.GGMLQuantizationType[f"{kind[:-1]}K".upper()])
        np.testing.assert_array_equal(got[name].reshape(-1), wanted.reshape(-1), name)
        weight = model.state_dict()[name].numpy()
        off = np.sqrt(np.mean((got[name] - weight) ** 2) / np.mean(weight**2))
        assert least < off < most, (name, off)
    runs = [tune(tmp_path, tmp_path / "base", "--base", kind, *way, name=str(i))
            for i, way in enumerate(((), LEAST, ("--base-on-disk", "always")))]  # fmt: skip
    assert len({json.loads((run / "state.json").read_text())["weights_sha256"] for run in runs}) == 1


def test_what_the_base_is(library, tmp_path):
    """Linear layers alone, of rows that are whole blocks; what else is stored, --store says."""
    make("llama", tmp_path / "base", **{**WIDE, "intermediate_size": 96})
    values_of(library, tmp_path / "base", tmp_path / "saved", base=b"nf4", store=b"model.embed*=nf4")
    names = set(blocks_of(tmp_path / "saved", "nf4"))
    assert "model.embed_tokens.weight" in names and "lm_head.weight" not in names
    assert not any("down_proj" in name for name in names) and any("up_proj" in name for name in names)
    with pytest.raises(native.Failed, match="base: weights cannot be stored in 'nf5'"):
        values_of(library, tmp_path / "base", base=b"nf5")


@pytest.mark.parametrize("kind", ["nf4", "q8_0", "i8"])
def test_finetuning(tmp_path, kind):
    """Bits at every budget, after a pause, and none of the base's weights in the run."""
    make("llama", tmp_path / "base", **WIDE)
    runs = [
        tune(tmp_path, tmp_path / "base", "--base", kind, "--budget", budget, "--planner", planner, name=budget)
        for budget, planner in (("max", "auto"), ("min", "evict"))  # which plans at once
    ]
    states = [json.loads((run / "state.json").read_text()) for run in runs]
    assert states[0]["weights_sha256"] == states[1]["weights_sha256"]
    assert states[0]["settings"]["base"] == kind
    neap("train", "--resume", runs[0], "--steps", 6)
    other = tune(tmp_path, tmp_path / "base", name="other")
    assert json.loads((other / "state.json").read_text())["weights_sha256"] != states[0]["weights_sha256"]
    neap("export", runs[0], "--adapter", "-o", tmp_path / "adapter.gguf")
    neap("export", runs[0], "-o", tmp_path / "whole.gguf")
    refused = neap("finetune", tmp_path / "base", "--data", f"text:{tmp_path / 'text'},tokens=bytes", "--out",
                   tmp_path / "no", "--steps", 1, "--length", LENGTH, "--base", "q9", expect=2)  # fmt: skip
    assert "'q9'" in refused and "nf4" in refused


# ---- Folders that bitsandbytes packed ----


def pack(base: Path, out: Path, kind: str = "nf4", nested: bool = True, **more: Any) -> torch.nn.Module:
    config = transformers.BitsAndBytesConfig(
        load_in_4bit=True, bnb_4bit_quant_type=kind, bnb_4bit_use_double_quant=nested, bnb_4bit_compute_dtype=torch.float32,
        **more,
    )  # fmt: skip
    return pack_as(base, out, config)


def pack_as(base: Path, out: Path, config: Any) -> torch.nn.Module:
    model = transformers.AutoModelForCausalLM.from_pretrained(
        base, quantization_config=config, device_map="cpu", dtype=torch.float32
    )
    model.save_pretrained(out)
    return model.eval()


def pack8(base: Path, out: Path, **more: Any) -> torch.nn.Module:
    return pack_as(base, out, transformers.BitsAndBytesConfig(load_in_8bit=True, **more))


def unpacked(weight: Any) -> np.ndarray:
    """As dequantize_4bit defines it. bitsandbytes' kernel for the CPU (0.50.2) takes wrong scales where rows are no whole blocks."""
    state, packed = weight.quant_state, weight.data.view(-1)
    scales = state.absmax
    if state.nested:
        scales = functional.dequantize_blockwise(scales, state.state2) + state.offset
    numbers = state.code[torch.stack([packed >> 4, packed & 15], 1).view(-1).long()][: state.shape.numel()]
    return (numbers * scales.repeat_interleave(64)[: numbers.numel()]).view(state.shape).numpy()


def predict(library: native.Library, path: Path, ids: torch.Tensor, **options: Any) -> np.ndarray:
    shape = {"batch": 1, "length": LENGTH}
    with (
        native.model(library, str(path), **shape) as graph,
        native.session(library, graph, predict=True, **options) as s,
    ):
        load(library, path, s, **shape)
        s.fill("tokens", ids.numpy().astype(np.int32))
        s.predict()
        return s.output("logits").copy()


@pytest.mark.parametrize(("family", "width"), [("llama", 64), ("llama", 72), ("qwen2", 640), ("gpt2", 64)])
@pytest.mark.parametrize("nested", [True, False])
def test_packed_folders(library, tmp_path, family, width, nested):
    """Numbers, and where rows are whole blocks their bytes, are those of the folder; logits are transformers'."""
    size = {"n_embd": width} if family == "gpt2" else {"hidden_size": width, "intermediate_size": 2 * width}
    make(family, tmp_path / "base", vocab_size=VOCABULARY, **size)
    model = pack(tmp_path / "base", tmp_path / "packed", nested=nested)
    got = values_of(library, tmp_path / "packed")
    save = tmp_path / "saved"
    kept = values_of(library, tmp_path / "packed", save, store=b"*=file") if width % 64 == 0 else got
    blocks = blocks_of(save, "nf4") if width % 64 == 0 else {}
    weights = dict(model.named_parameters())
    assert set(got) == set(weights)
    count = 0
    for name, weight in weights.items():
        np.testing.assert_array_equal(got[name], kept[name], name)
        if not hasattr(weight, "quant_state"):
            np.testing.assert_array_equal(got[name], weight.detach().numpy(), name)
            continue
        count += 1
        np.testing.assert_array_equal(got[name], unpacked(weight), name)
        if width % 64 == 0:
            wanted = functional.dequantize_4bit(weight.data, weight.quant_state).numpy()
            np.testing.assert_array_equal(got[name], wanted, name)
            np.testing.assert_array_equal(blocks[name][:, :32], weight.data.numpy().reshape(-1, 32), name)
    assert count >= 8 and (width % 64 != 0 or len(blocks) == count)
    ids = torch.randint(0, VOCABULARY, (1, LENGTH), generator=torch.Generator().manual_seed(2))
    if width % 64 == 0:
        assert relative(predict(library, tmp_path / "packed", ids), model(ids).logits.detach().numpy()) < 1e-4


def test_packed_folders_are_finetuned(tmp_path):
    """The merged model is one of plain numbers."""
    make("llama", tmp_path / "base", **WIDE)
    model = pack(tmp_path / "base", tmp_path / "packed")
    runs = [tune(tmp_path, tmp_path / "packed", *budget, name=budget[1]) for budget in (("--budget", "max"), LEAST)]
    digests = {json.loads((run / "state.json").read_text())["weights_sha256"] for run in runs}
    assert len(digests) == 1
    # On disk its embedding and head can be; what is packed lies in memory.
    disk = tune(tmp_path, tmp_path / "packed", "--base-on-disk", "always", *LEAST, name="disk")
    assert json.loads((disk / "state.json").read_text())["weights_sha256"] in digests
    neap("export", runs[0], "--merge", "-o", tmp_path / "merged")
    assert "quantization_config" not in json.loads((tmp_path / "merged" / "config.json").read_text())
    merged = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "merged").state_dict()
    state = model.model.layers[0].mlp.up_proj.weight
    wanted = functional.dequantize_4bit(state.data, state.quant_state)
    assert torch.equal(merged["model.layers.0.mlp.up_proj.weight"], wanted)
    neap("export", tmp_path / "packed", "-o", tmp_path / "packed.gguf", "--type", "f32")


def test_other_ways_to_store_are_refused(tmp_path):
    make("llama", tmp_path / "base", **WIDE)
    out = tmp_path / "no.gguf"
    pack(tmp_path / "base", tmp_path / "fp4", kind="fp4")
    assert "'fp4'" in neap("export", tmp_path / "fp4", "-o", out, expect=1)
    config = json.loads((tmp_path / "fp4" / "config.json").read_text())
    config["quantization_config"]["bnb_4bit_quant_type"] = "nf4"
    (tmp_path / "fp4" / "config.json").write_text(json.dumps(config))
    assert "stored in fp4" in neap("export", tmp_path / "fp4", "-o", out, expect=1)
    for method, more, said in [
        ("gptq", {}, "'gptq'"),
        ("bitsandbytes", {"load_in_8bit": True, "llm_int8_has_fp16_weight": True}, "llm_int8_has_fp16_weight"),
        (None, {}, "no quant_method"),
    ]:
        config = json.loads((tmp_path / "base" / "config.json").read_text())
        config["quantization_config"] = {"quant_method": method, **more}
        shutil.copytree(tmp_path / "base", tmp_path / "other", dirs_exist_ok=True)
        (tmp_path / "other" / "config.json").write_text(json.dumps(config))
        assert said in neap("export", tmp_path / "other", "-o", out, expect=1)
    assert not out.exists()


def test_damaged_folders_are_told(tmp_path):
    make("llama", tmp_path / "base", **WIDE)
    pack(tmp_path / "base", tmp_path / "packed")
    file, name = tmp_path / "packed" / "model.safetensors", "model.layers.1.mlp.up_proj.weight"
    whole, state = safetensors.load_file(file), f"{name}.quant_state.bitsandbytes__nf4"
    said = json.loads(bytes(whole[state].tolist()))

    def with_state(**more: Any) -> dict[str, torch.Tensor]:
        text = json.dumps({**said, **more}).encode()
        return {state: torch.tensor(list(text), dtype=torch.uint8)}

    cases: list[tuple[dict[str, torch.Tensor | None], str]] = [
        *(({f"{name}.{part}": None}, part) for part in ("absmax", "quant_map", "nested_absmax", "nested_quant_map")),
        ({f"{name}.absmax": whole[f"{name}.absmax"][:-1]}, "absmax"),
        ({name: whole[name][:-1]}, "numbers of 4 bits"),
        ({f"{name}.quant_map": whole[f"{name}.quant_map"] * 2}, "table of nf4"),
        ({state: torch.tensor(list(b"{]"), dtype=torch.uint8)}, "JSON"),
        (with_state(shape=[64, -1]), "shape"),
        (with_state(shape=[2**40, 2**40]), "shape"),
        (with_state(shape=[192, 32]), "4 bits"),
        (with_state(shape=[64, 192]), "by its description"),
        (with_state(blocksize=0), "blocksize"),
        (with_state(blocksize=32), "multiple of 64"),
        (with_state(nested_dtype="bfloat16"), "nested_dtype"),
        (with_state(nested_offset="x"), "nested_offset"),
        ({state: None}, "U8"),
    ]
    for changes, message in cases:
        tensors = {key: value for key, value in {**whole, **changes}.items() if value is not None}
        safetensors.save_file(tensors, file)
        told = neap("plan", "--model", tmp_path / "packed", "--batch", 1, "--length", 8, "--budget", "max", expect=1)
        assert message in told and "packed" in told, (message, told)


# ---- In 8 bits ----


def whole8(path: Path) -> dict[str, torch.Tensor]:
    """The state of a folder in 8 bits with the numbers of int8_vectorwise_dequant."""
    state = safetensors.load_file(path / "model.safetensors")
    for name in [name for name in state if name.endswith(".SCB")]:
        weight = name.removesuffix("SCB") + "weight"
        assert state[weight].dtype == torch.int8 and state.pop(f"{weight}_format") == 0
        state[weight] = functional.int8_vectorwise_dequant(state[weight], state.pop(name))
    return state


@pytest.mark.parametrize(
    ("family", "width"), [("llama", 64), ("llama", 72), ("llama", 8256), ("qwen2", 640), ("gpt2", 64), ("gpt2", 72)]
)
def test_folders_of_8_bits(library, tmp_path, family, width):
    """Numbers, and where rows are whole blocks their bytes, are those of the folder; logits are transformers' of these numbers, and
    near those of bitsandbytes, which rounds activations."""
    size = {"n_embd": width} if family == "gpt2" else {"hidden_size": width, "intermediate_size": 2 * width}
    if width > 1000:  # rows of more blocks than are read at once
        size = {"intermediate_size": width}
    make(family, tmp_path / "base", vocab_size=VOCABULARY, **size)
    model = pack8(tmp_path / "base", tmp_path / "packed")
    got, wanted = values_of(library, tmp_path / "packed"), whole8(tmp_path / "packed")
    numbers = safetensors.load_file(tmp_path / "packed" / "model.safetensors")
    packed = {name for name, value in numbers.items() if value.dtype == torch.int8}
    kept = values_of(library, tmp_path / "packed", tmp_path / "saved", store=b"*=file")
    blocks = blocks_of(tmp_path / "saved", "i8") if any(numbers[name].shape[1] % 64 == 0 for name in packed) else {}
    assert set(got) == set(wanted) and len(packed) >= 8
    for name, value in wanted.items():
        np.testing.assert_array_equal(got[name], value.numpy(), name)
        np.testing.assert_array_equal(kept[name], value.numpy(), name)
    assert set(blocks) == {name for name in packed if numbers[name].shape[1] % 64 == 0}
    for name, block in blocks.items():
        scales = numbers[name.removesuffix("weight") + "SCB"].numpy()
        np.testing.assert_array_equal(block[:, :64].view(np.int8), numbers[name].numpy().reshape(-1, 64), name)
        rows = block[:, 64:].copy().view(np.float32).reshape(len(scales), -1)
        np.testing.assert_array_equal(rows, np.broadcast_to(scales[:, None], rows.shape), name)
    plain = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "base")
    owners = dict(plain.named_modules())
    for name in packed:
        turned = type(owners[name.removesuffix(".weight")]).__name__ == "Conv1D"
        plain.get_parameter(name).data = wanted[name].T if turned else wanted[name]
    ids = torch.randint(0, VOCABULARY, (1, LENGTH), generator=torch.Generator().manual_seed(2))
    logits = predict(library, tmp_path / "packed", ids)
    assert relative(logits, plain.eval()(ids).logits.detach().numpy()) < 1e-5
    assert relative(logits, model(ids).logits.detach().numpy()) < 0.1


def test_folders_of_8_bits_are_finetuned(tmp_path):
    """As beside the folder of its numbers that --base rounds to 8 bits, which gives the same bits; merged it is one of plain
    numbers."""
    make("llama", tmp_path / "base", **WIDE)
    model = pack8(tmp_path / "base", tmp_path / "packed", llm_int8_skip_modules=["lm_head", "up_proj"])
    assert model.model.layers[0].mlp.up_proj.weight.dtype == torch.float32
    runs = [tune(tmp_path, tmp_path / "packed", *budget, name=budget[1]) for budget in (("--budget", "max"), LEAST)]
    runs += [tune(tmp_path, tmp_path / "packed", "--base-on-disk", "always", *LEAST, name="disk")]
    shutil.copytree(tmp_path / "base", tmp_path / "plain")
    safetensors.save_file(whole8(tmp_path / "packed"), tmp_path / "plain" / "model.safetensors", {"format": "pt"})
    runs += [tune(tmp_path, tmp_path / "plain", name="plain")]
    assert len({json.loads((run / "state.json").read_text())["weights_sha256"] for run in runs}) == 1
    neap("export", runs[0], "--merge", "-o", tmp_path / "merged")
    assert "quantization_config" not in json.loads((tmp_path / "merged" / "config.json").read_text())
    merged = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "merged").state_dict()
    for name in ("mlp.up_proj", "mlp.down_proj"):
        wanted = whole8(tmp_path / "packed")[f"model.layers.0.{name}.weight"]
        assert torch.equal(merged[f"model.layers.0.{name}.weight"], wanted)
    neap("export", tmp_path / "packed", "-o", tmp_path / "packed.gguf", "--type", "f32")


def test_what_8_bits_do_not_use_is_told(tmp_path):
    make("llama", tmp_path / "base", **WIDE)
    pack8(tmp_path / "base", tmp_path / "packed", llm_int8_threshold=5.0)
    rows = understood(tmp_path, tmp_path / "packed")
    assert "not rounded to 8 bits" in rows["quantization_config.llm_int8_threshold"]["why"]
    assert "quantization_config.llm_int8_skip_modules" not in rows
    pack8(tmp_path / "base", tmp_path / "skipping", llm_int8_skip_modules=["lm_head"])
    assert "quantization_config.llm_int8_skip_modules" in understood(tmp_path, tmp_path / "skipping")


def test_damaged_folders_of_8_bits_are_told(tmp_path):
    make("llama", tmp_path / "base", **WIDE)
    pack8(tmp_path / "base", tmp_path / "packed")
    file, owner = tmp_path / "packed" / "model.safetensors", "model.layers.1.mlp.up_proj"
    whole = safetensors.load_file(file)
    order, scales, name = f"{owner}.weight_format", f"{owner}.SCB", f"{owner}.weight"
    cases: list[tuple[dict[str, torch.Tensor | None], str]] = [
        *(({order: torch.tensor(number, dtype=torch.uint8)}, said)
          for number, said in ((1, "1 (col32)"), (2, "2 (col_turing)"), (3, "3 (col_ampere)"), (9, "9 (unknown)"))),
        ({order: torch.tensor([0, 0], dtype=torch.uint8)}, "weight_format"),
        ({scales: None}, "I8"),
        ({scales: whole[scales][:-1]}, "it must have 768"),
        ({scales: whole[scales].double()}, "only F32"),
        ({scales: torch.full_like(whole[scales], torch.inf)}, "weights must be finite"),
        ({name: whole[name].to(torch.uint8)}, "a matrix of I8"),
        ({name: whole[name].reshape(-1)}, "a matrix of I8"),
        ({name: whole[name][:, :32].contiguous()}, "by its description"),
    ]  # fmt: skip
    for changes, message in cases:
        tensors = {key: value for key, value in {**whole, **changes}.items() if value is not None}
        safetensors.save_file(tensors, file)
        told = neap("export", tmp_path / "packed", "-o", tmp_path / "no.gguf", expect=1)
        assert message in told and "packed" in told, (message, told)
    safetensors.save_file({key: value for key, value in whole.items() if key != order}, file)
    neap("export", tmp_path / "packed", "-o", tmp_path / "yes.gguf")
