"""Frozen parameters beside PyTorch: requires_grad off, and batch norms of the frozen layers in eval mode, for four steps on
both backends and with two optimizers."""

from __future__ import annotations

from typing import Any

import native
import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

STEPS, RATE, TOLERANCE = 4, 2.0**-4, 3e-5
BACKENDS = {"cpu": native.CPU, "reference": native.REFERENCE}
OPTIMIZERS = {
    "SGD": ({"momentum": 0.5}, lambda p: torch.optim.SGD(p, lr=RATE, momentum=0.5)),
    "AdamW": (
        {"optimizer": 1, "epsilon": 2.0**-7},
        lambda p: torch.optim.AdamW(p, lr=RATE, weight_decay=0, eps=2.0**-7),
    ),
}
# Patterns, and the layers of PyTorch that have all their parameters frozen. A batch norm in the middle is frozen with
# trained layers on both sides; one of which a half alone is frozen goes on by the batch.
CASES = {
    "norm2.*": ("norm2",),
    "*,!linear1.*": ("conv1", "norm1", "conv2", "norm2", "conv3", "norm3"),
    "conv1.*,norm?.*": ("conv1", "norm1", "norm2", "norm3"),
    "norm3.gamma": (),
}


def graph(library: native.Library) -> int:
    """Three convolutions with batch norm, the last one with ReLU6 behind a shortcut."""
    b = native.Network(library)
    x, label = b.input(b"image", native.F32, (6, 3, 5, 5)), b.input(b"label", native.I32, (6,))
    x = b.relu(b.batch_norm(b.conv(x, filters=8, size=3, padding=1)))
    y = b.relu(b.batch_norm(b.conv(x, filters=8, size=3, padding=1)))
    y = b.relu6(b.add(b.batch_norm(b.conv(y, filters=8, size=1)), x))
    logits = b.linear(b.global_average_pool(y), 4, True)
    made = b.finish(b.softmax_cross_entropy(logits, label, 0.0))
    b.free()
    return made


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = (nn.Conv2d(c, 8, 3, padding=1, bias=False) for c in (3, 8))
        self.conv3 = nn.Conv2d(8, 8, 1, bias=False)
        self.norm1, self.norm2, self.norm3 = (nn.BatchNorm2d(8) for _ in range(3))
        self.linear1 = nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.relu(self.norm1(self.conv1(x)))
        y = F.relu(self.norm2(self.conv2(x)))
        y = F.relu6(self.norm3(self.conv3(y)) + x)
        return self.linear1(y.mean((2, 3)))


NAMES = {"gamma": "weight", "beta": "bias", "running_variance": "running_var"}


def theirs(name: str) -> str:
    layer, what = name.split(".")
    return f"{layer}.{NAMES.get(what, what)}"


def train_net(net: Net, frozen: tuple[str, ...], names: list[str], make: Any, data: list[Any]) -> list[float]:
    for name, parameter in net.named_parameters():
        parameter.requires_grad_(name not in names)
    for layer in frozen:
        getattr(net, layer).eval()
    optimizer = make([p for p in net.parameters() if p.requires_grad])
    losses = []
    for image, label in data:
        optimizer.zero_grad()
        loss = F.cross_entropy(net(torch.from_numpy(image)), torch.from_numpy(label).long())
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("pattern", CASES)
def test_freeze(library: native.Library, pattern: str, optimizer: str, backend: str) -> None:
    rng = np.random.default_rng(5)
    data = [
        (rng.standard_normal((6, 3, 5, 5), np.float32), rng.integers(0, 4, 6).astype(np.int32)) for _ in range(STEPS)
    ]
    options, make = OPTIMIZERS[optimizer]
    made = graph(library)
    session = native.Session(
        library, made, {"backend": BACKENDS[backend], "freeze": pattern.encode(), "seed": 3, **options}
    )
    net = Net()
    first = {}
    for entry in session.of_kind(native.PARAMETER) + session.of_kind(native.RUNNING_STATISTIC):
        values = rng.uniform(0.5, 1.5, entry.dims).astype(np.float32) - (0.5 if "variance" not in entry.name else 0)
        session.write(entry.name, values)
        net.state_dict()[theirs(entry.name)].copy_(torch.from_numpy(values))
        first[entry.name] = values
    names = {
        "norm2.*": ["norm2.weight", "norm2.bias"],
        "norm3.gamma": ["norm3.weight"],
    }.get(pattern, [n for n, _ in net.named_parameters() if n.split(".")[0] in CASES[pattern]])
    losses = train_net(net, CASES[pattern], names, make, data)
    for (image, label), loss in zip(data, losses, strict=True):
        session.fill("image", image)
        session.fill("label", label)
        assert session.step(RATE).loss == pytest.approx(loss, rel=1e-4)
    has_state = {entry.name.rsplit(".", 1)[0] for entry in session.of_kind(native.STATE)}
    for name, values in first.items():
        is_, wanted = session.read(name), net.state_dict()[theirs(name)].numpy()
        if theirs(name) in names or ("running" in name and name.split(".")[0] in CASES[pattern]):
            assert np.array_equal(is_, values), f"{name} has changed"
            assert name not in has_state, f"{name} has an optimizer state"
        else:
            moved = np.abs(wanted - values).max()
            assert moved > 0, f"{name} has not changed"
            assert np.abs(is_ - wanted).max() <= TOLERANCE * max(moved, np.abs(wanted).max()), name
    session.free()
    library.graph_free(made)
