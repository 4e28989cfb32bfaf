"""Adapters of linear layers beside peft: losses and weights of some steps on both backends, and folders that one writes and
the other reads."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import native
import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

peft = pytest.importorskip("peft")
safetensors = pytest.importorskip("safetensors.torch")

STEPS, RATE, TOLERANCE = 6, 2.0**-4, 5e-5
BATCH, TIMES, WIDTH, CLASSES, HEADS = 4, 5, 16, 7, 2
BACKENDS = {"cpu": native.CPU, "reference": native.REFERENCE}
OPTIMIZERS = {
    "SGD": ({"momentum": 0.5}, lambda p: torch.optim.SGD(p, lr=RATE, momentum=0.5)),
    "AdamW": (
        {"optimizer": 1, "epsilon": 2.0**-7, "weight_decay": 0.125},
        lambda p: torch.optim.AdamW(p, lr=RATE, weight_decay=0.125, eps=2.0**-7),
    ),
}
LAYERS = ("q_proj", "k_proj", "v_proj", "o_proj", "up_proj")
# The layers that have adapters, by the library's option; what is trained whole beside them; rank and alpha.
CASES: dict[str, tuple[bytes | None, list[str], list[str] | None, int, float]] = {
    "queries and values": (None, ["q_proj", "v_proj"], None, 4, 0),
    "attention": (b"attention", ["q_proj", "k_proj", "v_proj", "o_proj"], None, 2, 3),
    "all": (b"all", list(LAYERS), None, 3, 12),
    "the head whole": (b"up_proj", ["up_proj"], ["head"], 1, 8),
    "DoRA": (b"attention", ["q_proj", "k_proj", "v_proj", "o_proj"], None, 2, 3),
    "rsLoRA": (None, ["q_proj", "v_proj"], None, 4, 6),
    "ranks": (b"q_proj,k_proj=3,v_proj=5", ["q_proj", "k_proj", "v_proj"], None, 2, 6),
    "LoRA+": (None, ["q_proj", "v_proj"], None, 4, 0),
    "all at once": (b"q_proj=3,up_proj", ["q_proj", "up_proj"], None, 2, 5),
}
# More options of the library and of peft; and the factor of B's rate.
SPECIAL: dict[str, tuple[dict[str, Any], dict[str, Any], float]] = {
    "DoRA": ({"lora_dora": True}, {"use_dora": True}, 1),
    "rsLoRA": ({"lora_rs": True}, {"use_rslora": True}, 1),
    "ranks": ({}, {"rank_pattern": {"k_proj": 3, "v_proj": 5}}, 1),
    "LoRA+": ({"lora_plus": 4}, {}, 4),
    "all at once": (
        {"lora_dora": True, "lora_rs": True, "lora_plus": 4},
        {"use_dora": True, "use_rslora": True, "rank_pattern": {"q_proj": 3}},
        4,
    ),
}


class Net(nn.Module):
    """A block of attention and a layer behind it, whose parameters have the library's names."""

    def __init__(self) -> None:
        super().__init__()
        for name in LAYERS:
            setattr(self, name, nn.Linear(WIDTH, WIDTH, bias=name == "k_proj"))
        self.head = nn.Linear(WIDTH, CLASSES, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (
            getattr(self, name)(x).view(BATCH, TIMES, HEADS, -1).transpose(1, 2)
            for name in ("q_proj", "k_proj", "v_proj")
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(BATCH, TIMES, WIDTH)
        return self.head(F.gelu(self.up_proj(x + self.o_proj(y))))


def loss_in_neap(n: native.Network) -> int:
    x, label = n.input(b"x", native.F32, (BATCH, TIMES, WIDTH)), n.input(b"label", native.I32, (BATCH * TIMES,))

    def linear(x: int, name: str, outputs: int = WIDTH) -> int:
        weight = n.parameter(f"{name}.weight".encode(), (outputs, WIDTH))
        bias = n.parameter(f"{name}.bias".encode(), (outputs,)) if name == "k_proj" else -1
        return n.linear_with(x, weight, bias)

    q, k, v = (
        n.reshape(linear(x, name), (BATCH, TIMES, HEADS, WIDTH // HEADS)) for name in ("q_proj", "k_proj", "v_proj")
    )
    y = n.reshape(n.attention(q, k, v, -1, causal=True), (BATCH, TIMES, WIDTH))
    y = n.gelu(linear(n.add(x, linear(y, "o_proj")), "up_proj"))
    logits = n.reshape(linear(y, "head", CLASSES), (BATCH * TIMES, CLASSES))
    return n.softmax_cross_entropy(logits, label, 0.0)


def theirs(name: str) -> str:
    """The library's name of a parameter as peft's state has it."""
    return "base_model.model." + name


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("case", CASES)
def test_steps(library: native.Library, case: str, optimizer: str, backend: str) -> None:
    layers, targets, whole, rank, alpha = CASES[case]
    options, make = OPTIMIZERS[optimizer]
    more, told, factor = SPECIAL.get(case, ({}, {}, 1))
    rng = np.random.default_rng(4)
    torch.manual_seed(3)
    config = peft.LoraConfig(r=rank, lora_alpha=alpha or 8, target_modules=targets, modules_to_save=whole, **told)
    net = peft.get_peft_model(Net().double(), config).double()
    options = options | more
    if whole:
        options = options | {"freeze": b"*,!head.*"}
    with (
        native.network(library) as n,
        native.finished(library, n, loss_in_neap(n)) as graph,
        native.session(
            library,
            graph,
            backend=BACKENDS[backend],
            lora=rank,
            lora_alpha=alpha,
            seed=5,
            **({"lora_layers": layers} if layers else {}),
            **options,
        ) as session,
    ):
        state = {
            name.replace(".default", "")
            .replace(".base_layer", "")
            .replace(".modules_to_save", "")
            .replace("magnitude_vector.weight", "magnitude_vector"): parameter
            for name, parameter in net.named_parameters()
            if ".original_module" not in name
        }
        assert {theirs(entry.name) for entry in session.of_kind(native.PARAMETER)} == set(state)
        first = {}
        for entry in session.of_kind(native.PARAMETER):
            values = session.read(entry.name)
            if not entry.name.endswith("lora_A.weight"):  # B too: with its zeros A would not move at first
                values = rng.uniform(-0.4, 0.4, entry.dims).astype(np.float32)
            session.write(entry.name, values)
            with torch.no_grad():
                state[theirs(entry.name)].copy_(torch.from_numpy(values))
            first[entry.name] = values
        trained = {name: p for name, p in net.named_parameters() if p.requires_grad}
        update = make(
            [
                {"params": [p for name, p in trained.items() if ".lora_B." not in name]},
                {"params": [p for name, p in trained.items() if ".lora_B." in name], "lr": factor * RATE},
            ]
        )
        for _ in range(STEPS):
            x = rng.standard_normal((BATCH, TIMES, WIDTH), np.float32)
            label = rng.integers(0, CLASSES, BATCH * TIMES).astype(np.int32)
            session.fill("x", x)
            session.fill("label", label)
            update.zero_grad()
            logits = net(torch.from_numpy(x).double()).view(-1, CLASSES)
            loss = F.cross_entropy(logits, torch.from_numpy(label).long())
            loss.backward()
            update.step()
            assert session.step(RATE).loss == pytest.approx(loss.item(), rel=1e-5)
        moved = 0
        for name, values in first.items():
            wanted = state[theirs(name)].detach().numpy()
            changes = state[theirs(name)].requires_grad
            assert changes == (".lora_" in name or (whole is not None and name.startswith("head")))
            if not changes:
                assert np.array_equal(session.read(name), values), f"{name} has changed"
                continue
            way = np.abs(wanted - values).max()
            assert way > 0, f"{name} has not moved"
            rounded = STEPS * 2.0**-25 * np.abs(values).max()
            assert np.abs(session.read(name) - wanted).max() <= TOLERANCE * way + rounded, name
            moved += 1
        assert moved == (3 if told.get("use_dora") else 2) * len(targets) + (whole is not None)


def test_first_values(library: native.Library) -> None:
    """A begins with numbers of peft's distribution, B with 0."""
    torch.manual_seed(3)
    layer = peft.get_peft_model(nn.ModuleDict({"a": nn.Linear(256, 64)}), peft.LoraConfig(r=32, target_modules=["a"]))
    wanted = layer.base_model.model["a"].lora_A["default"].weight.detach().numpy()
    with native.network(library) as n:
        x, label = n.input(b"x", native.F32, (2, 256)), n.input(b"label", native.I32, (2,))
        y = n.linear_with(x, n.parameter(b"a.weight", (64, 256)), -1)
        loss = n.softmax_cross_entropy(n.linear(y, 3, False), label, 0.0)
        with (
            native.finished(library, n, loss) as graph,
            native.session(library, graph, lora=32, lora_layers=b"a", seed=1) as session,
        ):
            a, b = session.read("a.lora_A.weight"), session.read("a.lora_B.weight")
    assert a.shape == wanted.shape and not b.any()
    for share in (0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99):
        assert np.quantile(a, share) == pytest.approx(np.quantile(wanted, share), abs=0.003)
    assert np.abs(a).max() <= 1 / 16


def test_first_lengths(library: native.Library) -> None:
    """Lengths of DoRA begin with the norms of their weights' rows, and the first loss is that without adapters."""
    rng = np.random.default_rng(2)
    x, label = (
        rng.standard_normal((BATCH, TIMES, WIDTH), np.float32),
        np.arange(BATCH * TIMES, dtype=np.int32) % CLASSES,
    )
    weights = {name: p.detach().numpy().copy() for name, p in Net().named_parameters()}
    losses = []
    for options in ({"predict": False}, {"lora": 2, "lora_layers": b"all", "lora_dora": True}):
        with (
            native.network(library) as n,
            native.finished(library, n, loss_in_neap(n)) as graph,
            native.session(library, graph, seed=5, **options) as session,
        ):
            for entry in session.of_kind(native.PARAMETER):
                if ".lora_" not in entry.name:
                    session.write(entry.name, weights[entry.name])
            session.fill("x", x)
            session.fill("label", label)
            losses.append(session.evaluate().loss)
            for entry in session.variables.values():
                if entry.name.endswith("magnitude_vector"):
                    weight = session.read(entry.name.replace("lora_magnitude_vector", "weight"))
                    assert session.read(entry.name) == pytest.approx(np.linalg.norm(weight, axis=1), rel=1e-6)
    assert losses[1] == pytest.approx(losses[0], rel=1e-6)


# ---- Folders, by the command ----

COMMAND = native.LIBRARY.parent / "neap"
MODEL = ["--model", "llama-2x32x2x1", "--length", "16", "--batch", "4", "--threads", "1", "--optimizer", "adamw"]


class Tree(nn.Module):
    """Linear layers by their names with dots."""

    def __init__(self, weights: dict[str, torch.Tensor]) -> None:
        super().__init__()
        for name, weight in weights.items():
            at: nn.Module = self
            *path, last = name.removesuffix(".weight").split(".")
            for part in path:
                if not hasattr(at, part):
                    at.add_module(part, nn.Module())
                at = getattr(at, part)
            layer = nn.Linear(weight.shape[1], weight.shape[0], bias=False)
            layer.weight.data = weight
            at.add_module(last, layer)

    def prepare_inputs_for_generation(self) -> None:
        """What peft asks language models for."""


def run(folder: Path, *arguments: str) -> dict[str, Any]:
    done = subprocess.run([COMMAND, *arguments, "--json"], cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def weights_of(folder: Path) -> dict[str, torch.Tensor]:
    (file,) = folder.glob("weights-*.safetensors")
    return safetensors.load_file(file)


@pytest.mark.skipif(not COMMAND.is_file(), reason="the command is not built")
@pytest.mark.parametrize(
    ("layers", "more"),
    [
        ("qkv", []), ("attention", []), ("block1.qkv,block2.output", []), ("all", []), ("all", ["--dora"]),
        ("qkv,block1.output=3", ["--rslora"]), ("qkv=2,block1.output", ["--dora", "--rslora", "--lora-plus", "2"]),
    ],
)  # fmt: skip
def test_folders(tmp_path: Path, layers: str, more: list[str]) -> None:
    (tmp_path / "text").write_text("".join(f"line {i} of a text, {i * i % 97}\n" for i in range(300)))
    data = ["--data", "text:text"]
    lora = ["--lora", "4", "--lora-alpha", "6", "--lora-layers", layers, "--init", "base", *more]
    run(tmp_path, "train", *MODEL, *data, "--steps", "3", "--out", "base")
    run(tmp_path, "train", *MODEL, *data, *lora, "--steps", "5", "--lr", "0.05", "--out", "run")
    exported = run(tmp_path, "export", "run", "-o", "folder")
    base, trained = weights_of(tmp_path / "base"), weights_of(tmp_path / "run")
    matrices = {name: w for name, w in base.items() if w.dim() == 2 and name.startswith("block") and "." in name}
    matrices = {name: w for name, w in matrices.items() if name.endswith(".weight")}

    # peft reads what was exported: each layer is W x + alpha / r B A x.
    tree = peft.PeftModel.from_pretrained(Tree(dict(matrices)), str(tmp_path / "folder"))
    adapted = {name.removesuffix(".lora_A.weight") for name in trained if name.endswith(".lora_A.weight")}
    assert exported["adapters"] == len(adapted) > 0
    for name, weight in matrices.items():
        module = name.removesuffix(".weight")
        layer = tree.base_model.model.get_submodule(module)
        assert hasattr(layer, "lora_A") == (module in adapted), module
        if module not in adapted:
            continue
        a, b = trained[f"{module}.lora_A.weight"], trained[f"{module}.lora_B.weight"]
        assert b.abs().max() > 0
        x, rank = torch.randn(3, weight.shape[1]), len(a)
        changed = weight + 6 / (rank**0.5 if "--rslora" in more else rank) * b @ a
        if "--dora" in more:
            changed *= (trained[f"{module}.lora_magnitude_vector"] / changed.norm(dim=1))[:, None]
        assert torch.allclose(layer(x), x @ changed.T, atol=1e-5)

    # And the other way round: a run begins with what peft saves.
    with torch.no_grad():
        for name, parameter in tree.named_parameters():
            if "lora_" in name:
                parameter.copy_(torch.randn_like(parameter))
    tree.save_pretrained(str(tmp_path / "theirs"))
    wanted = peft.get_peft_model_state_dict(tree)
    run(
        tmp_path,
        *["train", *MODEL, *data, *lora, "--lora-init", "theirs", "--steps", "1", "--lr", "1e-30"],
        *["--weight-decay", "0", "--out", "back"],
    )
    back = weights_of(tmp_path / "back")
    for name, values in wanted.items():
        assert torch.equal(back[name.removeprefix("base_model.model.")], values), name
