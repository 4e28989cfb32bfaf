"""Gradients of branches at a share of the positions (`--backprop-share`): those of torch.autograd where a branch's gradient is
masked."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import native
import numpy as np
import pytest
import test_language_models as models
import torch
from torch.nn import functional as F

transformers = pytest.importorskip("transformers")
safetensors = pytest.importorskip("safetensors.torch")

SEED, STREAM, WORD = 7, 132, 2**32 - 1
IMAGES = {**models.SHAPE, "image_size": [20, 12], "patch_size": 4, "num_labels": 3}
# Branches by their last linear layers, in a model's module and by Neap's name.
BRANCHES = {
    "vit": {"attention.o_proj": "linear4", "mlp.fc2": "linear6"},
    "gpt2": {"attn.c_proj": "linear2", "mlp.c_proj": "linear4"},
    "llama": {"self_attn.o_proj": "linear4", "mlp.down_proj": "linear7"},
    "qwen3": {"self_attn.o_proj": "linear4", "mlp.down_proj": "linear7"},
    "mistral": {"self_attn.o_proj": "linear4", "mlp.down_proj": "linear7"},
    "phi3": {"self_attn.o_proj": "linear2", "mlp.down_proj": "linear4"},
}
RATE, STEPS, RELATIVE = 0.5, 3, 1e-5
Weights = dict[str, torch.Tensor]


def first_word(seed: int, stream: int) -> int:
    """The first word of Philox4x32-10 with the counter 0."""
    c = [0, 0, stream & WORD, stream >> 32]
    for i in range(10):
        k = ((seed + i * 0x9E3779B9) & WORD, ((seed >> 32) + i * 0xBB67AE85) & WORD)
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [b >> 32 ^ c[1] ^ k[0], b & WORD, a >> 32 ^ c[3] ^ k[1], a & WORD]
    return c[0]


def hash_of(name: str) -> int:
    found = 14695981039346656037
    for byte in name.encode():
        found = (found ^ byte) * 1099511628211 % 2**64
    return found


def kept(name: str, step: int, share: float, length: int, first: int = 0, columns: int = 1) -> list[int]:
    """The rows with the least phases, and those before the grid."""
    start = first_word(SEED ^ hash_of(name), step << 20 | STREAM)
    places = np.arange(length - first)
    phases = ((places // columns + places % columns) * int(float(np.float32(share)) * 2**32) + start) & WORD
    count = max(1, int(np.floor(float(np.float32(share)) * (length - first) + 0.5)))
    around = (places - start) % len(places)
    return [*range(first), *sorted(first + np.lexsort((around, phases))[:count])]


class Masked(torch.autograd.Function):
    """Gives x, whose gradient is that of some rows alone."""

    @staticmethod
    def forward(context: Any, x: torch.Tensor, rows: list[int]) -> torch.Tensor:
        context.rows = rows
        return x.view_as(x)

    @staticmethod
    def backward(context: Any, dy: torch.Tensor) -> tuple[torch.Tensor, None]:
        dx = torch.zeros_like(dy)
        dx[:, context.rows] = dy[:, context.rows]
        return dx, None


def mask(layers: Any, branches: dict[str, str], rows: Callable[[str], list[int]]) -> list[Any]:
    return [
        layer.get_submodule(path).register_forward_hook(
            lambda _, __, y, name=f"block{i + 1}.{name}": Masked.apply(y, rows(name))
        )
        for i, layer in enumerate(layers)
        for path, name in branches.items()
    ]


def follow(
    library: Any,
    path: Path,
    shape: dict[str, Any],
    options: dict[str, Any],
    inputs: dict[str, np.ndarray],
    expect: Callable[[int], tuple[float, Weights]],
) -> None:
    """Takes steps and compares each loss, and the weights behind it, with what is expected."""
    with (
        native.model(library, str(path), **shape) as graph,
        native.session(library, graph, momentum=0, weight_decay=0, seed=SEED, **options) as s,
    ):
        models.load(library, path, s, **shape)
        for step in range(STEPS):
            for name, value in inputs.items():
                s.fill(name, value)
            loss, (expected, weights) = s.step(RATE).loss, expect(step)
            assert abs(loss - expected) < RELATIVE * expected
            assert set(weights) == set(s.variables)
            for name, weight in weights.items():
                got, value = s.read(name), weight.detach().numpy()
                value = value.T if "c_attn.w" in name or "c_proj.w" in name or "c_fc.w" in name else value
                assert np.abs(got - value).max() < RELATIVE * max(np.abs(value).max(), 1), (step, name)


def take_step(model: Any, layers: Any, family: str, rows: Callable[[str], list[int]], loss: Callable[[], Any]) -> float:
    hooks = mask(layers, BRANCHES[family], rows)
    model.zero_grad()
    found = loss()
    found.backward()
    for hook in hooks:
        hook.remove()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter -= RATE * parameter.grad
    return found.item()


@pytest.mark.parametrize("share", [0.5, 0.25, 0.75, 0.4])
def test_steps_of_a_transformer_of_images(library, tmp_path, share):
    torch.manual_seed(1)
    model = transformers.ViTForImageClassification(transformers.ViTConfig(**IMAGES)).train()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            one = 1.0 if "norm" in name and name.endswith("weight") else 0.0
            parameter.copy_(one + 0.1 * torch.randn_like(parameter))
    model.save_pretrained(tmp_path)
    pictures, labels = torch.randn(4, 3, 20, 12), torch.tensor([2, 0, 1, 2])

    def expect(step: int) -> tuple[float, Weights]:
        loss = take_step(
            model,
            model.vit.layers,
            "vit",
            lambda name: kept(name, step, share, 16, 1, 3),
            lambda: F.cross_entropy(model(pictures).logits, labels),
        )
        model.save_pretrained(tmp_path / "after")
        return loss, safetensors.load_file(tmp_path / "after/model.safetensors")

    inputs = {"image": pictures.numpy(), "label": labels.numpy().astype(np.int32)}
    follow(library, tmp_path, {"batch": 4}, {"backprop_share": share}, inputs, expect)


@pytest.mark.parametrize("share", [0.5, 0.3, 1])
@pytest.mark.parametrize("family", [family for family in BRANCHES if family != "vit"])
def test_steps_of_a_language_model(library, tmp_path, family, share):
    model, ids = models.make(family, tmp_path).train(), models.tokens()
    labels = torch.roll(ids, -1, 1)
    labels[:, -1] = -1
    layers = model.transformer.h if family == "gpt2" else model.model.layers

    def expect(step: int) -> tuple[float, Weights]:
        loss = take_step(
            model,
            layers,
            family,
            lambda name: kept(name, step, share, models.LENGTH),
            lambda: F.cross_entropy(model(ids).logits.flatten(0, 1), labels.flatten(), ignore_index=-1),
        )
        return loss, models.parameters(model)

    inputs = {"tokens": ids.numpy().astype(np.int32), "label": labels.numpy().astype(np.int32)}
    shape = {"batch": models.BATCH, "length": models.LENGTH}
    follow(library, tmp_path, shape, {"backprop_share": share}, inputs, expect)
