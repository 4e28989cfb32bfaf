"""`neap finetune` on models of files beside peft and PyTorch: losses and adapters of each step, bits at every budget and after
a kill, exported adapters, GGUF files of every type, and files that are not as they should be."""

from __future__ import annotations

import json
import math
import random
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import native
import numpy as np
import pytest
import torch
from quick import LEAST

transformers = pytest.importorskip("transformers")
peft = pytest.importorskip("peft")
tokenizers = pytest.importorskip("tokenizers")
safetensors = pytest.importorskip("safetensors.torch")
gguf = pytest.importorskip("gguf")
from gguf import GGMLQuantizationType as Type  # noqa: E402
from gguf import quants  # noqa: E402

transformers.logging.set_verbosity_error()
NEAP = native.LIBRARY.parent / "neap"
if not NEAP.is_file():
    pytest.skip(f"{NEAP} is missing (make)", allow_module_level=True)

STEPS, BATCH, RANK, ALPHA, RATE, DECAY, CONTEXT = 20, 2, 4, 6, 0.01, 0.05, 128
TEMPLATE = (Path(__file__).parents[3] / "tests" / "template" / "templates" / "chatml.jinja").read_text()
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
SENTENCE = "the tide comes in at noon and goes out by six; é is a letter, 12 of 345 boats stay"
WORDS = SENTENCE.split(" ")
SHAPE = {
    "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "intermediate_size": 48, "max_position_embeddings": CONTEXT, "tie_word_embeddings": False,
}  # fmt: skip
# The class of a model, its options, and the layers that have adapters.
FAMILIES: dict[str, tuple[str, dict[str, Any], list[str]]] = {
    "llama": ("LlamaForCausalLM", SHAPE, ["q_proj", "v_proj"]),
    "qwen2": ("Qwen2ForCausalLM", {**SHAPE, "tie_word_embeddings": True}, ["q_proj", "v_proj"]),
    "gpt2": (
        "GPT2LMHeadModel",
        {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": CONTEXT, "attn_pdrop": 0.0, "resid_pdrop": 0.0,
         "embd_pdrop": 0.0},
        ["c_attn"],
    ),
}  # fmt: skip


def run(*arguments: str | Path) -> dict[str, Any]:
    done = subprocess.run([NEAP, *arguments, "--json"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def refuse(*arguments: str | Path) -> str:
    """The message of a command that fails."""
    done = subprocess.run([NEAP, *arguments, "--threads", "1"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 1, (done.returncode, done.stderr)
    return done.stderr


# ---- Conversations ----


def make_conversations(seed: int, count: int) -> list[list[dict[str, str]]]:
    draw = random.Random(seed)
    result = []
    for _ in range(count):
        roles = ["system"] * draw.randint(0, 1) + ["user", "assistant"] * draw.randint(1, 2)
        result.append(
            [{"role": role, "content": " ".join(draw.choices(WORDS, k=draw.randint(1, 6)))} for role in roles]
        )
    return result


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    for name, seed, count in (("train", 1, 24), ("valid", 2, 3)):
        lines = [json.dumps({"messages": m}, ensure_ascii=False) + "\n" for m in make_conversations(seed, count)]
        (folder / f"{name}.jsonl").write_text("".join(lines))
    return folder


@pytest.fixture(scope="module")
def few(data: Path) -> str:
    """Conversations of few lengths, each of which is planned."""
    (data / "few.jsonl").write_text("".join((data / "train.jsonl").read_text().splitlines(True)[:4]))
    return f"{data}/few.jsonl,test={data}/valid.jsonl"


def make_tokenizer() -> Any:
    """Byte-level BPE that was learned from the words, with what begins and ends a turn."""
    words = tokenizers.Tokenizer(tokenizers.models.BPE())
    words.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    words.decoder = tokenizers.decoders.ByteLevel()
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=300, special_tokens=SPECIAL, initial_alphabet=alphabet, show_progress=False
    )
    words.train_from_iterator([SENTENCE] * 3, trainer)
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=words, eos_token=SPECIAL[0], bos_token=SPECIAL[0], chat_template=TEMPLATE
    )


def render(tokenizer: Any, messages: list[dict[str, str]]) -> tuple[list[int], list[int]]:
    """The tokens of a conversation, and its labels as PyTorch's models take them: those of what the assistant writes, and of
    the token that ends its turn; -100 elsewhere."""
    spans = []
    for i, message in enumerate(messages):
        end = len(tokenizer.apply_chat_template(messages[: i + 1], tokenize=False)) - 1
        if message["role"] == "assistant":
            spans.append((end - len(message["content"] + SPECIAL[2]), end))
    text = tokenizer.apply_chat_template(messages, tokenize=False)
    made = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
    inside = [any(a <= begin < b for a, b in spans) for begin, _ in made["offset_mapping"]]
    ids = made["input_ids"]
    assert ids == tokenizer.apply_chat_template(messages, return_dict=False)
    return ids, [token if counts else -100 for token, counts in zip(ids, inside, strict=True)]


def batches(records: list[tuple[list[int], list[int]]]) -> list[list[tuple[list[int], list[int]]]]:
    """Those of an epoch that is not shuffled: records of like lengths together, of the shorter ones more."""
    lengths = [len(ids) - 1 for ids, _ in records]
    longest, ordered = max(lengths), sorted(lengths)
    limits: list[int] = []
    for share in (0.25, 0.5, 0.75, 0.9, 0.98):
        limit = (ordered[int(share * (len(ordered) - 1))] + 3) // 4 * 4
        if limit < longest and limit > (limits[-1] if limits else 0):
            limits.append(limit)
    result, above = [], 0
    for limit in [*limits, longest]:
        inside = [r for r, length in zip(records, lengths, strict=True) if above < length <= limit]
        each, above = BATCH * longest // limit, limit
        result += [inside[at : at + each] for at in range(0, len(inside), each)]
    return result


def packed_batches(records: list[tuple[list[int], list[int]]]) -> list[list[tuple[list[int], list[int]]]]:
    """The same of conversations that share rows: best fit decreasing, into rows as short as leave a twentieth empty.
    Of rows with as much room the one that was filled last is taken."""
    lengths = [len(ids) - 1 for ids, _ in records]
    longest, places = max(lengths), sum(lengths)
    least, best = math.inf, []
    for parts in range(8, 10**6):
        size = longest * parts // 8
        if parts > 8 and size > min(CONTEXT, -(-places // BATCH)):
            break
        rows: list[list[int]] = []
        room: list[int] = []
        filled: list[int] = []
        for turn, k in enumerate(sorted(range(len(records)), key=lambda k: -lengths[k])):
            fitting = [r for r in range(len(rows)) if room[r] >= lengths[k]]
            if not fitting:
                rows.append([])
                room.append(size)
                filled.append(turn)
            row = min(fitting, key=lambda r: (room[r], -filled[r])) if fitting else len(rows) - 1
            rows[row].append(k)
            room[row] -= lengths[k]
            filled[row] = turn
        if len(rows) * size < least:
            least, best = len(rows) * size, rows
        if 20 * (len(rows) * size - places) <= len(rows) * size:
            break
    return [[records[k] for row in best[at : at + BATCH] for k in row] for at in range(0, len(best), BATCH)]


def pad(batch: list[tuple[list[int], list[int]]]) -> tuple[torch.Tensor, torch.Tensor]:
    longest = max(len(ids) for ids, _ in batch)
    ids = [ids + [0] * (longest - len(ids)) for ids, _ in batch]
    labels = [labels + [-100] * (longest - len(labels)) for _, labels in batch]
    return torch.tensor(ids), torch.tensor(labels)


# ---- Models ----


def make_folder(family: str, folder: Path) -> Any:
    name, options, _ = FAMILIES[family]
    tokenizer = make_tokenizer()
    torch.manual_seed(1)
    kind = getattr(transformers, name)
    model = kind(kind.config_class(**options, vocab_size=len(tokenizer), bos_token_id=0, eos_token_id=0)).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            one = 1.0 if parameter.dim() == 1 and name.endswith("weight") else 0.0
            parameter.copy_(one + 0.1 * torch.randn_like(parameter))
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return model


def make_adapter(model: Any, targets: list[str], folder: Path) -> Any:
    """Adapters of peft, none of which is at its first value, in a folder."""
    torch.manual_seed(2)
    config = peft.LoraConfig(
        r=RANK, lora_alpha=ALPHA, target_modules=targets, fan_in_fan_out="c_attn" in targets, task_type="CAUSAL_LM"
    )
    model = peft.get_peft_model(model, config)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_" in name:
                parameter.copy_(0.2 * torch.randn_like(parameter))
    model.save_pretrained(folder)
    return model


def finetune(model: Path, data: Path | str, out: Path, *options: str | Path) -> list[str | Path]:
    return [
        *["finetune", model, "--data", f"chat:{data}", "--out", out, "--length", str(CONTEXT), "--batch", str(BATCH)],
        *["--steps", str(STEPS), "--lora", str(RANK), "--lora-alpha", str(ALPHA), "--lr", str(RATE), "--schedule"],
        *["constant", "--warmup-steps", "0", "--weight-decay", str(DECAY), "--shuffle", "off", "--evaluate", "off"],
        *["--threads", "1", *options],
    ]


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "llama"
    make_folder("llama", folder)
    return folder


@pytest.mark.parametrize("pack", ["on", "off"])
@pytest.mark.parametrize("family", FAMILIES)
def test_training_and_export_are_those_of_peft(
    library: native.Library, data: Path, tmp_path: Path, family: str, pack: str
) -> None:
    targets = FAMILIES[family][2]
    model = make_folder(family, tmp_path / "base")
    theirs = make_adapter(model, targets, tmp_path / "first").double()
    begun = {name: p.detach().clone() for name, p in theirs.named_parameters() if p.requires_grad}

    # By its file alone: AutoTokenizer splits texts for a Qwen 2 in another way than the file says.
    tokenizer = transformers.PreTrainedTokenizerFast.from_pretrained(tmp_path / "base")
    lines = (data / "train.jsonl").read_text().splitlines()
    records = [render(tokenizer, json.loads(line)["messages"]) for line in lines]
    epoch = packed_batches(records) if pack == "on" else batches(records)
    assert len({len(batch) for batch in epoch}) > 1
    update = torch.optim.AdamW([p for p in theirs.parameters() if p.requires_grad], lr=RATE, weight_decay=DECAY)
    losses = []
    for step in range(STEPS):
        ids, labels = pad(epoch[step % len(epoch)])
        update.zero_grad()
        loss = theirs(input_ids=ids, labels=labels).loss
        loss.backward()
        update.step()
        losses.append(loss.item())

    metrics, out = tmp_path / "metrics.jsonl", tmp_path / "run"
    run(
        *finetune(tmp_path / "base", data, out, "--lora-init", tmp_path / "first", "--metrics", metrics, "--pack", pack)
    )
    got = [json.loads(line) for line in metrics.read_text().splitlines()]
    assert [line["loss"] for line in got if "loss" in line] == pytest.approx(losses, rel=1e-4)
    assert losses[-1] < losses[0]

    run("export", out, "-o", tmp_path / "trained")
    again = peft.PeftModel.from_pretrained(
        getattr(transformers, FAMILIES[family][0]).from_pretrained(tmp_path / "base").eval(), str(tmp_path / "trained")
    )
    wanted = dict(theirs.named_parameters())
    found = {name: p for name, p in again.named_parameters() if "lora_" in name}
    assert set(found) == set(begun)
    for name, values in found.items():
        way = (wanted[name] - begun[name]).abs().max()
        assert way > 0.01, name
        assert (values - wanted[name]).abs().max() < 2e-3 * way, name

    # Logits of the run are those of what was exported.
    ids = torch.randint(0, len(tokenizer), (2, 24), generator=torch.Generator().manual_seed(3))
    (weights,) = out.glob("weights-*.safetensors")
    options = {"lora": RANK, "lora_alpha": ALPHA}
    logits = predict(library, tmp_path / "base", ids, adapters=weights, **options)
    assert relative(logits, again(ids).logits.detach().numpy()) < 1e-4
    assert relative(logits, predict(library, tmp_path / "base", ids)) > 1e-2


def relative(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.abs(a - b).max() / np.abs(b).max())


def predict(
    library: native.Library, path: Path, ids: torch.Tensor, adapters: Path | None = None, **options: Any
) -> np.ndarray:
    shape = {"batch": ids.shape[0], "length": ids.shape[1]}
    with (
        native.model(library, str(path), **shape) as graph,
        native.session(library, graph, predict=True, **options) as session,
    ):
        native.load(library, str(path), session, **shape)
        if adapters is not None:
            session.initialise(adapters)
        session.fill("tokens", ids.numpy().astype(np.int32))
        session.predict()
        return session.output("logits")


# ---- The same bits ----


def train(model: Path, data: str, out: Path, *options: str | Path) -> str:
    """The digest of the weights of a run."""
    return run(*finetune(model, data, out, "--shuffle", "on", *options))["weights_sha256"]


def test_bits_are_the_same_at_every_budget(few: str, llama: Path, tmp_path: Path) -> None:
    at_most = train(llama, few, tmp_path / "max", "--budget", "max")
    assert train(llama, few, tmp_path / "some", "--budget", "60%") == at_most
    assert train(llama, few, tmp_path / "least", *LEAST) == at_most
    assert train(llama, few, tmp_path / "other", "--seed", "2") != at_most


def test_micro_batches_have_the_losses_of_whole_ones(few: str, llama: Path, tmp_path: Path) -> None:
    """The mean over all tokens of a step that carry loss, however many of them a micro-batch has: but for the order of sums."""
    losses = []
    for size in ("4", "2", "1"):
        metrics = tmp_path / f"metrics-{size}"
        run(*finetune(llama, few, tmp_path / size, "--batch", "4", "--micro-batch", size, "--metrics", metrics))
        losses.append([json.loads(line)["loss"] for line in metrics.read_text().splitlines()])
    assert len(losses[0]) == STEPS and losses[0][-1] < losses[0][0]
    for others in losses[1:]:
        assert others == pytest.approx(losses[0], rel=1e-5)


def test_a_killed_run_goes_on_with_the_same_bits(few: str, llama: Path, tmp_path: Path) -> None:
    steps = 1000
    options = ["--steps", str(steps), "--checkpoint-every", "7", "--lora-dropout", "0.1"]
    whole = train(llama, few, tmp_path / "whole", *options)
    killed = tmp_path / "killed"
    arguments = finetune(llama, few, killed, "--shuffle", "on", *options)

    def saved() -> int:
        state = killed / "state.json"
        return json.loads(state.read_text())["step"] if state.exists() else 0

    with subprocess.Popen([NEAP, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as running:
        deadline = time.monotonic() + 120
        while saved() == 0 and running.poll() is None and time.monotonic() < deadline:
            time.sleep(0.002)
        running.send_signal(signal.SIGKILL)
    assert running.returncode == -signal.SIGKILL, "the run ended before it was killed"
    assert 0 < saved() < steps
    again = run("finetune", "--resume", killed)
    assert again["steps"] == steps and again["weights_sha256"] == whole


# ---- GGUF ----

ROWS = ["F32", "F16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q4_K", "Q5_K", "Q6_K"]
GGUF_NAMES = {
    "model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output",
    "input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output", "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
}  # fmt: skip


def gguf_name(name: str) -> str:
    owner, _ = name.rsplit(".", 1)
    if not owner.startswith("model.layers."):
        return f"{GGUF_NAMES[owner]}.weight"
    _, _, layer, part = owner.split(".", 3)
    return f"blk.{layer}.{GGUF_NAMES[part]}.weight"


def permute(weight: np.ndarray, heads: int) -> np.ndarray:
    return weight.reshape(heads, 2, -1, *weight.shape[1:]).swapaxes(1, 2).reshape(weight.shape)


def unpermute(weight: np.ndarray, heads: int) -> np.ndarray:
    return weight.reshape(heads, -1, 2, *weight.shape[1:]).swapaxes(1, 2).reshape(weight.shape)


def quantise(weight: np.ndarray, kind: Type, draw: np.random.Generator) -> np.ndarray:
    """As its type has it; what gguf does not quantise is drawn: bytes whose scales are small."""
    if not kind.name.endswith("_K"):
        return quants.quantize(weight, kind)
    length, size = gguf.GGML_QUANT_SIZES[kind]
    blocks = draw.integers(0, 256, (weight.size // length, size), dtype=np.uint8)
    scales = (draw.uniform(0.5, 1, (len(blocks), 2)) * 2.0**-13).astype(np.float16)
    if kind is Type.Q6_K:
        blocks[:, -2:] = scales[:, :1].view(np.uint8)
    else:
        blocks[:, :4] = scales.view(np.uint8)
    return blocks.reshape(*weight.shape[:-1], -1)


def write_gguf(path: Path, kind: Type, leave_out: str = "", wide: bool = False, **changes: int) -> Any:
    """A small Llama whose matrices are of a type, and the same one of transformers, whose weights are the numbers that these
    mean."""
    width = 256 if wide or kind.name.endswith("_K") else 64
    heads, key_heads, hidden = 4, 2, 512 if wide else 256 if width == 256 else 96
    tokenizer = make_tokenizer()
    torch.manual_seed(4)
    draw = np.random.default_rng(5)
    config = transformers.LlamaConfig(
        **{**SHAPE, "hidden_size": width, "intermediate_size": hidden}, vocab_size=len(tokenizer), rms_norm_eps=1e-5
    )
    model = transformers.LlamaForCausalLM(config).eval()
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(changes.get("layers", 2))
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(width)
    writer.add_feed_forward_length(changes.get("hidden", hidden))
    writer.add_head_count(heads)
    writer.add_head_count_kv(key_heads)
    writer.add_rope_dimension_count(width // heads)
    writer.add_rope_freq_base(10000.0)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(len(tokenizer))
    words = json.loads(tokenizer.backend_tokenizer.to_str())["model"]
    vocabulary = sorted(tokenizer.get_vocab(), key=tokenizer.get_vocab().get)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(vocabulary)
    writer.add_token_types([3 if word in SPECIAL else 1 for word in vocabulary])
    writer.add_token_merges([" ".join(pair) if isinstance(pair, list) else pair for pair in words["merges"]])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(0)
    writer.add_chat_template(TEMPLATE)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            one = 1.0 if parameter.dim() == 1 else 0.0
            values = (one + 0.1 * torch.randn_like(parameter)).numpy()
            turned = heads if "q_proj" in name else key_heads if "k_proj" in name else 0
            values = permute(values, turned) if turned else values
            stored = kind if values.ndim == 2 else Type.F32
            blocks = quantise(values, stored, draw)
            numbers = quants.dequantize(blocks, stored).astype(np.float32).reshape(values.shape)
            parameter.copy_(torch.from_numpy(unpermute(numbers, turned) if turned else numbers))
            if gguf_name(name) != leave_out:
                writer.add_tensor(gguf_name(name), blocks, raw_dtype=stored)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return model


@pytest.mark.parametrize("kind", ROWS)
def test_logits_of_gguf_files(library: native.Library, tmp_path: Path, kind: str) -> None:
    path = tmp_path / "model.gguf"
    model = write_gguf(path, Type[kind])
    ids = torch.randint(0, model.config.vocab_size, (2, 24), generator=torch.Generator().manual_seed(3))
    wanted = model(ids).logits.detach().numpy()
    assert np.isfinite(wanted).all() and wanted.std() > 0.01
    plain = predict(library, path, ids)
    kept = predict(library, path, ids, freeze=b"*", store=b"*=file")
    assert relative(plain, wanted) < 1e-4
    assert relative(kept, wanted) < 1e-4
    assert relative(kept, plain) < 1e-4


@pytest.mark.parametrize("kind", ["Q4_1", "Q6_K"])
def test_gguf_files_are_finetuned(few: str, tmp_path: Path, kind: str) -> None:
    path = tmp_path / "model.gguf"
    write_gguf(path, Type[kind])
    results = [
        run(*finetune(path, few, tmp_path / budget[1], "--steps", "4", *budget))
        for budget in (("--budget", "max"), LEAST)
    ]
    assert results[0]["weights_sha256"] == results[1]["weights_sha256"]
    assert results[0]["budget_bytes"] > results[1]["budget_bytes"]


# ---- What is not as it should be ----


def test_bad_files_are_told(data: Path, llama: Path, tmp_path: Path) -> None:
    path = tmp_path / "whole.gguf"
    write_gguf(path, Type.Q8_0)
    whole = path.read_bytes()
    for count in (0, 3, 20, 1000, len(whole) // 2, len(whole) - 40):  # the last 31 bytes may be padding
        (tmp_path / "cut.gguf").write_bytes(whole[:count])
        said = refuse(*finetune(tmp_path / "cut.gguf", data, tmp_path / "run"))
        assert "cut.gguf" in said, (count, said)
    write_gguf(tmp_path / "less.gguf", Type.Q8_0, leave_out="blk.1.ffn_up.weight")
    said = refuse(*finetune(tmp_path / "less.gguf", data, tmp_path / "run"))
    assert "less.gguf" in said and "blk.1.ffn_up.weight" in said
    write_gguf(tmp_path / "hidden.gguf", Type.Q8_0, hidden=128)
    said = refuse(*finetune(tmp_path / "hidden.gguf", data, tmp_path / "run"))
    assert "hidden.gguf" in said and "[96, 64]" in said and "[128, 64]" in said
    write_gguf(tmp_path / "layers.gguf", Type.Q8_0, layers=3)
    said = refuse(*finetune(tmp_path / "layers.gguf", data, tmp_path / "run"))
    assert "layers.gguf" in said and "blk.2." in said

    folder = tmp_path / "folder"
    shutil.copytree(llama, folder)
    config = json.loads((folder / "config.json").read_text())
    for fields in ({"intermediate_size": 64}, {"num_key_value_heads": 4}, {"num_hidden_layers": 3}):
        (folder / "config.json").write_text(json.dumps({**config, **fields}))
        said = refuse(*finetune(folder, data, tmp_path / "run"))
        assert str(folder) in said, said
    assert not list(tmp_path.glob("run/*"))


def test_a_base_that_changed_is_told(data: Path, llama: Path, tmp_path: Path) -> None:
    shutil.copytree(llama, tmp_path / "folder")
    write_gguf(tmp_path / "model.gguf", Type.Q8_0)
    for base, weights in ((tmp_path / "folder", tmp_path / "folder/model.safetensors"), (tmp_path / "model.gguf",) * 2):
        out = tmp_path / f"run-{base.stem}"
        run(*finetune(base, data, out, "--steps", "4"))
        run("generate", out, "--tokens", "4", "--prompt", "the tide")
        before = weights.read_bytes()
        weights.write_bytes(before[:-1] + bytes([before[-1] ^ 1]))
        for verb in (["generate", out], ["finetune", "--resume", out], ["evaluate", out]):
            said = refuse(*verb)
            assert str(base) in said or str(weights) in said, said
        weights.write_bytes(before)
        run("generate", out, "--tokens", "4", "--prompt", "the tide")
