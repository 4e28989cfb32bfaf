"""Side nets (`--side N`): the same net made of transformers' own layers gives the logits and the gradients."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import native
import numpy as np
import pytest
import test_base_on_disk as disk
import test_finetune as small
import test_language_models as models
import test_text_classifiers as texts
import torch
from test_finetune import data, few  # noqa: F401
from test_language_models import BATCH, FAMILIES, LENGTH, load, relative, tokens
from torch.nn import functional as F

transformers = pytest.importorskip("transformers")

WIDTHS = (
    "hidden_size", "intermediate_size", "head_dim", "n_embd", "ffn_dim", "word_embed_proj_dim", "query_pre_attn_scalar",
)  # fmt: skip
LAYERS = (
    "model.layers", "transformer.h", "model.decoder.layers", "bert.encoder.layer", "vit.layers", "vit.encoder.layer",
)  # fmt: skip
REFUSED = ("phi4", "mixtral", "olmoe", "qwen3_moe")
SERVED = [family for family in FAMILIES if not family.startswith((*REFUSED, "longformer"))]
TEMPERATURE = 0.1
PLAIN = {"momentum": 0, "weight_decay": 0}


def layers_of(model: torch.nn.Module) -> list[torch.nn.Module]:
    for path in LAYERS:
        try:
            return list(model.get_submodule(path))
        except AttributeError:
            continue
    raise AssertionError(type(model))


def rows_of(output: Any) -> torch.Tensor:
    return output if isinstance(output, torch.Tensor) else output[0]


class SideNet(torch.nn.Module):
    """A frozen model, a narrow one whose layers are given other inputs, and what connects them."""

    def __init__(self, wide: torch.nn.Module, narrow: torch.nn.Module):
        super().__init__()
        self.wide, self.narrow = wide.requires_grad_(False), narrow
        if hasattr(wide, "classifier"):
            wide.classifier.requires_grad_()
        config, own = wide.config, narrow.config
        count = len(layers_of(wide)) + 1
        self.down = torch.nn.ModuleList(torch.nn.Linear(config.hidden_size, own.hidden_size) for _ in range(count))
        self.gate = torch.nn.ParameterList(torch.nn.Parameter(torch.zeros(1)) for _ in range(count - 1))
        self.up = torch.nn.Linear(own.hidden_size, config.hidden_size)

    def hidden(self, *read: Any, **named: Any) -> list[torch.Tensor]:
        """What the wide model's first layer reads, and what each layer gives."""
        found: list[torch.Tensor] = []
        layers = layers_of(self.wide)
        hooks = [layers[0].register_forward_pre_hook(lambda _, read: found.append(read[0]))]
        hooks += [layer.register_forward_hook(lambda _, __, made: found.append(rows_of(made))) for layer in layers]
        with torch.no_grad():
            self.wide(*read, **named)
        for hook in hooks:
            hook.remove()
        return found

    def mixture(self, hidden: list[torch.Tensor], i: int) -> Callable[..., Any]:
        def mix(_: torch.nn.Module, read: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
            mu = torch.sigmoid(self.gate[i] / TEMPERATURE)
            before = self.down[0](hidden[0]) if i == 0 else read[0]
            return (mu * before + (1 - mu) * self.down[i + 1](hidden[i + 1]), *read[1:])

        return mix

    def forward(self, *read: Any, **named: Any) -> torch.Tensor:
        hidden = self.hidden(*read, **named)
        hooks = [
            layer.register_forward_pre_hook(self.mixture(hidden, i)) for i, layer in enumerate(layers_of(self.narrow))
        ]
        rows = self.narrow.base_model(*read, **named).last_hidden_state
        for hook in hooks:
            hook.remove()

        def add(_: torch.nn.Module, __: Any, made: Any) -> Any:
            all_rows = hidden[-1] + self.up(rows)
            return all_rows if isinstance(made, torch.Tensor) else (all_rows, *made[1:])

        hook = layers_of(self.wide)[-1].register_forward_hook(add)
        logits = self.wide(*read, **named).logits
        hook.remove()
        return logits


def connections(net: SideNet, gradient: bool = False) -> dict[str, torch.Tensor]:
    named = {f"side.{name}": p for name, p in net.named_parameters() if name.startswith(("down", "gate", "up"))}
    return {name: p.grad if gradient else p.data for name, p in named.items()}


Named = Callable[[torch.nn.Module, bool], dict[str, torch.Tensor]]


def side_values(
    net: SideNet, names: list[str], gradient: bool = False, parameters: Named = models.parameters
) -> dict[str, np.ndarray]:
    """Values, or gradients, of the net's parameters by Neap's names: of norms that multiply by 1 + weight Neap has the sum."""
    less = "Gemma" in type(net.wide).__name__ and not gradient
    found = connections(net, gradient)
    narrow = parameters(net.narrow, gradient)
    for name in names:
        if name in found:
            continue
        value = narrow[name.removeprefix("side.")]
        turned = any(part in name for part in ("c_attn.w", "c_proj.w", "c_fc.w"))
        found[name] = (value.T if turned else value) + (1.0 if less and "norm" in name else 0.0)
    return {name: value.numpy().astype(np.float32) for name, value in found.items()}


def connect(wide: torch.nn.Module, narrow: torch.nn.Module) -> SideNet:
    """None of the net's parameters is at its first value."""
    torch.manual_seed(7)
    net = SideNet(wide, narrow)
    with torch.no_grad():
        for gate in net.gate:
            gate.normal_(0, TEMPERATURE)
    return net


def make(family: str, folder: Path, divisor: int) -> SideNet:
    wide = models.make(family, folder)
    stated = FAMILIES[family][2]
    widths = {key: stated[key] // divisor for key in WIDTHS if key in stated}
    narrow = models.make(family, folder.with_name("narrow"), **widths)
    return connect(wide, narrow)


def side_names(s: native.Session) -> list[str]:
    return [v.name for v in s.of_kind(native.PARAMETER) if v.name.startswith("side.")]


def compare(
    s: native.Session, net: SideNet, inputs: dict[str, np.ndarray], loss: torch.Tensor, named: Named = models.parameters
) -> dict[str, np.ndarray]:
    """Takes a step; gives the first values of the side net."""
    loss.backward()
    names = side_names(s)
    assert set(connections(net)) < set(names)
    before = side_values(net, names, parameters=named)
    others = {v.name: s.read(v.name) for v in s.of_kind(native.PARAMETER) if v.name not in names}
    for name, value in before.items():
        s.write(name, value)
    for name, value in inputs.items():
        s.fill(name, value)
    assert abs(s.step(1.0).loss - loss.item()) < 1e-5 * loss.item()
    gradients = side_values(net, names, True, named)
    for name, was in before.items():
        # keys' biases move no softmax: theirs are zeros but for rounding
        most = max(np.abs(gradients[name]).max(), 1e-3)
        assert np.abs(was - s.read(name) - gradients[name]).max() < 1e-5 + 1e-4 * most, name
    for name, was in others.items():
        assert name.startswith("classifier.") != (s.read(name) == was).all(), name
    return before


@pytest.mark.parametrize(("family", "divisor"), [*((family, 2) for family in SERVED), ("llama", 4), ("gpt2", 8)])
def test_logits_and_gradients(library: native.Library, tmp_path: Path, family: str, divisor: int) -> None:
    path = tmp_path / "wide"
    net, ids = make(family, path, divisor), tokens()
    labels = torch.roll(ids, -1, 1)
    labels[:, -1] = -1
    shape = {"batch": BATCH, "length": LENGTH, "side": divisor}
    expected = net(ids)
    loss = F.cross_entropy(expected.flatten(0, 1), labels.flatten(), ignore_index=-1)
    inputs = {"tokens": ids.numpy().astype(np.int32), "label": labels.numpy().astype(np.int32)}
    with native.model(library, str(path), **shape) as graph, native.session(library, graph, **PLAIN) as s:
        load(library, path, s, **shape)
        before = compare(s, net, inputs, loss)
    with native.model(library, str(path), **shape) as graph, native.session(library, graph, predict=True) as s:
        load(library, path, s, **shape)
        for name, value in before.items():
            s.write(name, value)
        s.fill("tokens", inputs["tokens"])
        s.predict()
        assert relative(s.output("logits"), expected.detach().numpy()) < 1e-5


def as_named(model: torch.nn.Module, gradient: bool) -> dict[str, torch.Tensor]:
    return {name: p.grad if gradient else p.data for name, p in model.named_parameters()}


def test_texts_of_a_class_each(library: native.Library, tmp_path: Path) -> None:
    narrow = {
        "hidden_size": texts.SHAPE["hidden_size"] // 2,
        "intermediate_size": texts.SHAPE["intermediate_size"] // 2,
    }
    kind, path = "BertForSequenceClassification", tmp_path / "wide"
    net = connect(texts.make(kind, path, **texts.NAMES), texts.make(kind, tmp_path / "narrow", **narrow))
    batch, labels = texts.encode(texts.texts(1, texts.BATCH)), torch.tensor([2, 0, 1, 2])
    shape = {"batch": texts.BATCH, "length": batch["input_ids"].shape[1], "side": 2}
    inputs = {"tokens": texts.padded(batch), "label": labels.numpy().astype(np.int32)}
    loss = F.cross_entropy(net(**batch), labels)
    with native.model(library, str(path), **shape) as graph, native.session(library, graph, **PLAIN) as s:
        load(library, path, s, **shape)
        compare(s, net, inputs, loss, as_named)


def test_images(library: native.Library, tmp_path: Path) -> None:
    images = pytest.importorskip("test_image_transformers")

    def as_stored(model: torch.nn.Module, gradient: bool) -> dict[str, torch.Tensor]:
        """By the names that the file has, which are not those in memory."""
        kept = [p.detach().clone() for p in model.parameters()]
        with torch.no_grad():
            for p in model.parameters():
                p.copy_((torch.zeros_like(p) if p.grad is None else p.grad) if gradient else p)
            model.save_pretrained(tmp_path / "stored")
            for p, was in zip(model.parameters(), kept, strict=True):
                p.copy_(was)
        return images.safetensors.load_file(tmp_path / "stored" / "model.safetensors")

    narrow = {
        "hidden_size": images.SHAPE["hidden_size"] // 2,
        "intermediate_size": images.SHAPE["intermediate_size"] // 2,
    }
    path = tmp_path / "wide"
    net = connect(images.make(path, **images.NAMES), images.make(tmp_path / "narrow", **narrow))
    torch.manual_seed(2)
    pixels, labels = torch.randn(4, 3, 16, 16), torch.tensor([2, 0, 1, 2])
    shape = {"batch": 4, "side": 2}
    inputs = {"image": pixels.numpy(), "label": labels.numpy().astype(np.int32)}
    loss = F.cross_entropy(net(pixels), labels)
    with native.model(library, str(path), **shape) as graph, native.session(library, graph, **PLAIN) as s:
        load(library, path, s, **shape)
        compare(s, net, inputs, loss, as_stored)


def test_a_net_begins_as_its_base(library: native.Library, tmp_path: Path) -> None:
    ids = tokens()
    models.make("llama", tmp_path)
    made = []
    for side in (0, 4):
        shape = {"batch": BATCH, "length": LENGTH, "side": side}
        with native.model(library, str(tmp_path), **shape) as graph, native.session(library, graph, predict=True) as s:
            load(library, tmp_path, s, **shape)
            s.fill("tokens", ids.numpy().astype(np.int32))
            s.predict()
            made.append(s.output("logits"))
    assert (made[0] == made[1]).all()


def test_tokens_one_by_one_give_the_same_logits(library: native.Library, tmp_path: Path) -> None:
    path = tmp_path / "wide"
    net, ids = make("llama", path, 2), tokens()[:1]
    expected = net(ids).detach().numpy()[0]
    shape = {"batch": 1, "decode": LENGTH, "side": 2}
    with native.model(library, str(path), **shape) as graph, native.session(library, graph, predict=True) as s:
        load(library, path, s, **shape)
        for name, value in side_values(net, side_names(s)).items():
            s.write(name, value)
        for place in range(LENGTH):
            s.fill("tokens", ids[:, place : place + 1].numpy().astype(np.int32))
            s.fill("position", np.array([place], np.int32))
            s.fill("length", np.array([place + 1], np.int32))
            s.predict()
            assert relative(s.output("logits")[0, 0], expected[place]) < 5e-5, place


@pytest.mark.parametrize(
    ("family", "divisor", "words"),
    [
        ("llama", 5, ["width is 32", "multiple of 5"]),
        ("llama", 8, ["head width is 8", "multiple of 16"]),
        ("llama", -1, ["side", "negative"]),
        ("mixtral", 2, ["without experts", "5"]),
        ("phi4", 2, ["LongRoPE"]),
    ],
)
def test_refusals(library: native.Library, tmp_path: Path, family: str, divisor: int, words: list[str]) -> None:
    models.make(family, tmp_path)
    with pytest.raises(native.Failed) as failed, native.model(library, str(tmp_path), batch=1, length=8, side=divisor):
        pass
    for word in words:
        assert word in str(failed.value)


def test_adapters_and_a_side_net_do_not_go_together(library: native.Library, tmp_path: Path) -> None:
    models.make("llama", tmp_path)
    with (
        native.model(library, str(tmp_path), batch=1, length=8, side=2) as graph,
        pytest.raises(native.Failed, match="side net"),
        native.session(library, graph, lora=2),
    ):
        pass


# ---- The command ----


def finetune(model: Path, chat: str, out: Path, *options: str | Path) -> dict[str, Any]:
    return small.run(
        *["finetune", model, "--data", f"chat:{chat}", "--out", out, "--length", "48", "--batch", "2", "--side", "4"],
        *["--steps", "4", "--lr", "0.01", "--warmup-steps", "0", "--threads", "1", *options],
    )


@pytest.mark.parametrize("kind", ["folder F32", "gpt2", "Q4_K"])
def test_bits(data: Path, tmp_path: Path, kind: str) -> None:  # noqa: F811
    """At every budget, with weights in memory and on disk, and of a run that went on."""
    model, chat = disk.make(kind, tmp_path / "model"), f"{data}/train.jsonl,test={data}/valid.jsonl"

    def train(out: str, *options: str) -> dict[str, Any]:
        return finetune(model, chat, tmp_path / out, "--side", "8", "--batch", "8", "--steps", "3", *options)

    memory = train("memory", "--base-on-disk", "never")
    for budget, planner in (("max", "auto"), ("80%", "auto"), ("min", "evict")):
        made = train(budget, "--base-on-disk", "always", "--budget", budget, "--planner", planner)
        assert made["weights_sha256"] == memory["weights_sha256"], budget
        assert made["on_disk_bytes"] > 0
        assert made["resident_bytes"] < memory["resident_bytes"]
    least = train("least", "--base-on-disk", "never", *small.LEAST)
    assert least["planned_peak_bytes"] < memory["planned_peak_bytes"]
    assert least["weights_sha256"] == memory["weights_sha256"]
    train("part", "--steps", "2")
    on = small.run("finetune", "--resume", tmp_path / "part", "--steps", "3")
    assert on["weights_sha256"] == memory["weights_sha256"]


def test_a_deep_net_within_three_fifths(data: Path, tmp_path: Path) -> None:  # noqa: F811
    tokenizer, model, chat = small.make_tokenizer(), tmp_path / "model", f"{data}/train.jsonl,test={data}/valid.jsonl"
    torch.manual_seed(1)
    config = transformers.LlamaConfig(**{**small.SHAPE, "num_hidden_layers": 12}, vocab_size=len(tokenizer))
    transformers.LlamaForCausalLM(config).save_pretrained(model)
    tokenizer.save_pretrained(model)
    options = ("--batch", "8", "--steps", "2", "--base-on-disk", "never", "--optimizer", "sgd")
    made = [finetune(model, chat, tmp_path / share, *options, "--budget", share) for share in ("max", "60%")]
    assert made[0]["weights_sha256"] == made[1]["weights_sha256"]
    assert made[1]["planned_peak_bytes"] <= 0.6 * made[0]["planned_peak_bytes"]


@pytest.mark.parametrize("options", [["--base", "nf4"], ["--store", "*=q8_0"], ["--states", "8bit"], ["--ema", "0.5"]])
def test_a_run_that_goes_on_has_the_same_bits(few: str, tmp_path: Path, options: list[str]) -> None:  # noqa: F811
    model = disk.make("folder F32", tmp_path / "model")
    whole = finetune(model, few, tmp_path / "whole", *options)
    finetune(model, few, tmp_path / "part", "--steps", "2", *options)
    on = small.run("finetune", "--resume", tmp_path / "part", "--steps", "4")
    assert on["weights_sha256"] == whole["weights_sha256"]
    assert small.run("evaluate", tmp_path / "whole")["test_loss"] == whole["test_loss"]


def test_the_frozen_layers_have_no_way_back(tmp_path: Path) -> None:
    """Of the model's own layers the step has the forward pass alone; those of the side net have both ways."""
    small.make_folder("llama", tmp_path / "model")
    both = {}
    for side in ("0", "4"):
        file = tmp_path / f"step-{side}.json"
        small.run("graph", "--model", tmp_path / "model", "--side", side, "--batch", "1", "--length", "8", "-o", file)
        nodes = json.loads(file.read_text())["nodes"]
        both[side] = [node["name"] for node in nodes if node["pass"] == "backward"]
    assert any(name.startswith("block1.") for name in both["0"])
    assert not any(name.startswith(("block", "embedding")) for name in both["4"])
    for scope in ("side.block1.", "side.block2.", "side.embedding"):
        assert any(name.startswith(scope) for name in both["4"]), scope


def test_other_verbs_take_a_run(few: str, tmp_path: Path) -> None:  # noqa: F811
    model, run = tmp_path / "model", tmp_path / "run"
    small.make_folder("llama", model)
    made = finetune(model, few, run, "--steps", "12", "--lr", "0.05")
    assert made["test_loss"] < small.run("evaluate", run)["test_loss"] + 1e-9
    texts_made = []
    for of in (run, model):
        command = [small.NEAP, "chat", of, "--tokens", "12", "--temperature", "0"]
        texts_made.append(small.subprocess.run(command, input=b"the tide", capture_output=True, check=True).stdout)
    assert texts_made[0] != texts_made[1]
    small.run("generate", run, "--prompt", "the tide", "--tokens", "4")
    small.run("predict", run, "-o", tmp_path / "out.npy")

    # A folder with its own weights and where the model is; a run begins with it.
    out = small.run("export", run, "-o", tmp_path / "side")
    assert out["adapters"] == 2 and out["checked"] and out["difference"] == 0
    config = json.loads((tmp_path / "side" / "side_config.json").read_text())
    assert (config["format"], config["version"], config["side"]) == ("neap-side-net", 1, 4)
    assert Path(config["base_model_name_or_path"]) == model
    begun = finetune(model, few, tmp_path / "again", "--side-init", tmp_path / "side", "--steps", "1", "--lr", "1e-30")
    assert begun["test_loss"] == pytest.approx(made["test_loss"], rel=1e-6)
    again = finetune(model, few, tmp_path / "init", "--init", run, "--steps", "1", "--lr", "1e-30")
    assert again["test_loss"] == pytest.approx(made["test_loss"], rel=1e-6)
    onnx = small.run("export", run, "-o", tmp_path / "whole.onnx")
    assert onnx["checked"]
    for name, options in (("merged", ["--merge"]), ("merged.gguf", [])):
        done = small.subprocess.run(
            [small.NEAP, "export", run, "-o", tmp_path / name, *options], capture_output=True, text=True, check=False
        )
        assert done.returncode != 0 and "cannot be merged" in done.stderr, done.stderr
    for options, words in (
        (["--side-init", tmp_path / "side", "--side", "2"], "give a side of 4"),
        (["--side-init", tmp_path / "run"], "side_config.json"),
        (["--lora", "4"], "--side"),
        (["--full"], "--side"),
        (["--side", "5"], "multiple of 5"),
    ):
        command = [small.NEAP, "finetune", model, "--data", f"chat:{few}", "--side", "4", "--steps", "1", *options]
        done = small.subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode in (1, 2) and words in done.stderr, (options, done.stderr)


def test_a_net_can_begin_with_parts_of_its_base(library: native.Library, few: str, tmp_path: Path) -> None:  # noqa: F811
    """Every N-th row and column; weights in memory and on disk give the same."""
    model = disk.make("folder F32", tmp_path / "model")
    weights = {
        name: value for file in model.glob("*.safetensors") for name, value in small.safetensors.load_file(file).items()
    }
    digests = []
    for where in ("never", "always"):
        options = (
            "--side-init",
            "base",
            "--steps",
            "1",
            "--lr",
            "1e-30",
            "--weight-decay",
            "0",
            "--base-on-disk",
            where,
        )
        digests.append(finetune(model, few, tmp_path / where, *options)["weights_sha256"])
    assert digests[0] == digests[1]
    (file,) = (tmp_path / "never").glob("weights-*.safetensors")
    found = small.safetensors.load_file(file)
    taken = [name for name in found if name.startswith("side.model.") and name.removeprefix("side.") in weights]
    assert len(taken) > 10
    for name in taken:
        base = weights[name.removeprefix("side.")]
        part = base[::4, ::4] if base.dim() == 2 else base[::4]
        assert torch.allclose(found[name], part, rtol=0, atol=1e-7), name
    assert torch.equal(found["side.down.1.weight"], torch.eye(found["side.down.1.weight"].shape[1])[::4])
