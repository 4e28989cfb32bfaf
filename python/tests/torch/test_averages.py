"""Exponential averages of the weights beside torch.optim.swa_utils.AveragedModel, for six steps on both backends, and
what evaluations make of them."""

from __future__ import annotations

import copy

import native
import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

BACKENDS = {"cpu": native.CPU, "reference": native.REFERENCE}
BATCH, STEPS, RATE, DECAY = 12, 6, 2.0**-3, 0.75
OPTIONS = {
    "SGD": {"momentum": 0.5},
    "AdamW": {"optimizer": 1, "epsilon": 2.0**-7},
    "in micro-batches": {"micro_batches": 1, "dynamic_loss_scale": True},
    "frozen in part": {"freeze": b"conv1.*"},
}


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.norm1 = nn.Conv2d(3, 6, 3, padding=1, bias=False), nn.BatchNorm2d(6)
        self.linear1 = nn.Linear(6, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear1(F.relu(self.norm1(self.conv1(x))).mean((2, 3)))


NAMES = {"norm1.gamma": "norm1.weight", "norm1.beta": "norm1.bias"}


def make_graph(library: native.Library) -> int:
    b = native.Network(library)
    x, label = b.input(b"image", native.F32, (BATCH, 3, 5, 5)), b.input(b"label", native.I32, (BATCH,))
    x = b.relu(b.batch_norm(b.conv(x, filters=6, size=3, padding=1)))
    logits = b.linear(b.global_average_pool(x), 4, True)
    b.output("logits", logits)
    graph = b.finish(b.softmax_cross_entropy(logits, label, 0.0))
    b.free()
    return graph


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("option", OPTIONS)
def test_averages(library: native.Library, option: str, backend: str) -> None:
    rng = np.random.default_rng(3)
    graph = make_graph(library)
    options = {"backend": BACKENDS[backend], "ema": DECAY, "seed": 4, **OPTIONS[option]}
    session = native.Session(library, graph, options)
    net = Net()
    trained = []
    for entry in session.of_kind(native.PARAMETER):
        parameter = net.get_parameter(NAMES.get(entry.name, entry.name))
        values = session.read(entry.name) + rng.uniform(0, 0.1, entry.dims).astype(np.float32)
        session.write(entry.name, values)
        parameter.data.copy_(torch.from_numpy(values))
        parameter.requires_grad_(not (option == "frozen in part" and entry.name.startswith("conv1")))
        if parameter.requires_grad:
            trained.append(entry.name)
            assert np.array_equal(session.read(entry.name + ".average"), session.read(entry.name))
        else:
            assert entry.name + ".average" not in session.variables
    averaged = AveragedModel(net, multi_avg_fn=get_ema_multi_avg_fn(DECAY))
    averaged.update_parameters(net)  # begins with the first values
    made = [p for p in net.parameters() if p.requires_grad]
    optimizer = (
        torch.optim.AdamW(made, lr=RATE, eps=2.0**-7, weight_decay=0)
        if option == "AdamW"
        else torch.optim.SGD(made, lr=RATE, momentum=OPTIONS[option].get("momentum", 0))
    )
    for _ in range(STEPS):
        image = rng.standard_normal((BATCH, 3, 5, 5), np.float32)
        label = rng.integers(0, 4, BATCH).astype(np.int32)
        session.fill("image", image)
        session.fill("label", label)
        session.step(RATE)
        optimizer.zero_grad()
        F.cross_entropy(net(torch.from_numpy(image)), torch.from_numpy(label).long()).backward()
        optimizer.step()
        averaged.update_parameters(net)
    for name in trained:
        wanted = averaged.module.get_parameter(NAMES.get(name, name)).detach().numpy()
        assert np.abs(session.read(name + ".average") - wanted).max() < 2e-5, name
        assert np.abs(wanted - session.read(name)).max() > 1e-4, f"the average of {name} is {name} itself"
    # An evaluation takes the averages, and leaves everything as it was.
    before = {name: session.read(name) for name in session.variables}
    result = session.evaluate()
    tested = copy.deepcopy(net)
    tested.load_state_dict(averaged.module.state_dict())
    tested.norm1.running_mean, tested.norm1.running_var = net.norm1.running_mean, net.norm1.running_var
    logits = tested.eval()(torch.from_numpy(image))
    assert result.loss == pytest.approx(F.cross_entropy(logits, torch.from_numpy(label).long()).item(), rel=1e-4)
    assert np.abs(session.output("logits") - logits.detach().numpy()).max() < 1e-4
    assert all(np.array_equal(session.read(name), values) for name, values in before.items())
    session.free()
    library.graph_free(graph)
