"""Side nets (`--side N`): the same net made of transformers' own layers gives the logits and the gradients."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import Any

import native
import numpy as np
import pytest
import test_language_models as models
import torch
from test_language_models import BATCH, FAMILIES, LENGTH, load, relative, tokens
from torch.nn import functional as F

transformers = pytest.importorskip("transformers")

WIDTHS = (
    "hidden_size", "intermediate_size", "head_dim", "n_embd", "ffn_dim", "word_embed_proj_dim", "query_pre_attn_scalar",
)  # fmt: skip
LAYERS = ("model.layers", "transformer.h", "model.decoder.layers", "bert.encoder.layer")
REFUSED = ("phi4", "mixtral", "olmoe", "qwen3_moe")
SERVED = [family for family in FAMILIES if not family.startswith(REFUSED)]
TEMPERATURE = 0.1


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
        config, own = wide.config, narrow.config
        count = len(layers_of(wide)) + 1
        self.down = torch.nn.ModuleList(torch.nn.Linear(config.hidden_size, own.hidden_size) for _ in range(count))
        self.gate = torch.nn.ParameterList(torch.nn.Parameter(torch.zeros(1)) for _ in range(count - 1))
        self.up = torch.nn.Linear(own.hidden_size, config.hidden_size)

    def hidden(self, ids: torch.Tensor) -> list[torch.Tensor]:
        """What the wide model's first layer reads, and what each layer gives."""
        found: list[torch.Tensor] = []
        layers = layers_of(self.wide)
        hooks = [layers[0].register_forward_pre_hook(lambda _, read: found.append(read[0]))]
        hooks += [layer.register_forward_hook(lambda _, __, made: found.append(rows_of(made))) for layer in layers]
        with torch.no_grad():
            self.wide(ids)
        for hook in hooks:
            hook.remove()
        return found

    def mixture(self, hidden: list[torch.Tensor], i: int) -> Callable[..., Any]:
        def mix(_: torch.nn.Module, read: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
            mu = torch.sigmoid(self.gate[i] / TEMPERATURE)
            before = self.down[0](hidden[0]) if i == 0 else read[0]
            return (mu * before + (1 - mu) * self.down[i + 1](hidden[i + 1]), *read[1:])

        return mix

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        hidden = self.hidden(ids)
        hooks = [
            layer.register_forward_pre_hook(self.mixture(hidden, i)) for i, layer in enumerate(layers_of(self.narrow))
        ]
        rows = self.narrow.base_model(ids).last_hidden_state
        for hook in hooks:
            hook.remove()

        def add(_: torch.nn.Module, __: Any, made: Any) -> Any:
            all_rows = hidden[-1] + self.up(rows)
            return all_rows if isinstance(made, torch.Tensor) else (all_rows, *made[1:])

        hook = layers_of(self.wide)[-1].register_forward_hook(add)
        logits = self.wide(ids).logits
        hook.remove()
        return logits


def connections(net: SideNet, gradient: bool = False) -> dict[str, torch.Tensor]:
    named = {f"side.{name}": p for name, p in net.named_parameters() if name.startswith(("down", "gate", "up"))}
    return {name: p.grad if gradient else p.data for name, p in named.items()}


def side_values(net: SideNet, names: list[str], gradient: bool = False) -> dict[str, np.ndarray]:
    """Values, or gradients, of the net's parameters by Neap's names: of norms that multiply by 1 + weight Neap has the sum."""
    less = "Gemma" in type(net.wide).__name__ and not gradient
    found = connections(net, gradient)
    narrow = models.parameters(net.narrow, gradient)
    for name in names:
        if name in found:
            continue
        value = narrow[name.removeprefix("side.")]
        turned = any(part in name for part in ("c_attn.w", "c_proj.w", "c_fc.w"))
        found[name] = (value.T if turned else value) + (1.0 if less and "norm" in name else 0.0)
    return {name: value.numpy().astype(np.float32) for name, value in found.items()}


def make(family: str, folder: Path, divisor: int) -> SideNet:
    wide = models.make(family, folder)
    stated = FAMILIES[family][2]
    widths = {key: stated[key] // divisor for key in WIDTHS if key in stated}
    narrow = models.make(family, folder.with_name("narrow"), **widths)
    torch.manual_seed(7)
    net = SideNet(wide, narrow)
    with torch.no_grad():
        for gate in net.gate:
            gate.normal_(0, TEMPERATURE)
    return net


def side_names(s: native.Session) -> list[str]:
    return [v.name for v in s.of_kind(native.PARAMETER) if v.name.startswith("side.")]


@pytest.mark.parametrize(("family", "divisor"), [*((family, 2) for family in SERVED), ("llama", 4), ("gpt2", 8)])
def test_logits_and_gradients(library: native.Library, tmp_path: Path, family: str, divisor: int) -> None:
    path = tmp_path / "wide"
    net, ids = make(family, path, divisor), tokens()
    labels = torch.roll(ids, -1, 1)
    labels[:, -1] = -1
    shape = {"batch": BATCH, "length": LENGTH, "side": divisor}
    expected = net(ids)
    loss = F.cross_entropy(expected.flatten(0, 1), labels.flatten(), ignore_index=-1)
    loss.backward()
    with (
        native.model(library, str(path), **shape) as graph,
        native.session(library, graph, momentum=0, weight_decay=0) as s,
    ):
        load(library, path, s, **shape)
        names = side_names(s)
        assert set(connections(net)) < set(names)
        before = side_values(net, names)
        frozen = {name: s.read(name) for name in s.variables if name not in names}
        for name, value in before.items():
            s.write(name, value)
        s.fill("tokens", ids.numpy().astype(np.int32))
        s.fill("label", labels.numpy().astype(np.int32))
        assert abs(s.step(1.0).loss - loss.item()) < 1e-5 * loss.item()
        gradients = side_values(net, names, gradient=True)
        for name, was in before.items():
            # keys' biases move no softmax: theirs are zeros but for rounding
            most = max(np.abs(gradients[name]).max(), 1e-3)
            assert np.abs(was - s.read(name) - gradients[name]).max() < 1e-5 + 1e-4 * most, name
        for name, was in frozen.items():
            assert (s.read(name) == was).all(), name
    with native.model(library, str(path), **shape) as graph, native.session(library, graph, predict=True) as s:
        load(library, path, s, **shape)
        for name, value in before.items():
            s.write(name, value)
        s.fill("tokens", ids.numpy().astype(np.int32))
        s.predict()
        assert relative(s.output("logits"), expected.detach().numpy()) < 1e-5


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
    shape = native.ModelOptions(batch=1, length=8, side=divisor)
    graph = ctypes.c_void_p()
    with pytest.raises(native.Failed) as failed:
        library.check(library.model_build(str(tmp_path).encode(), ctypes.byref(shape), ctypes.byref(graph)))
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
