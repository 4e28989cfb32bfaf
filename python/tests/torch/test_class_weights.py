"""Weights of classes in the loss, and the norm of all gradients, beside PyTorch's, for three steps on both backends."""

from __future__ import annotations

import native
import numpy as np
import pytest
import torch
from torch.nn import functional as F

BACKENDS = {"cpu": native.CPU, "reference": native.REFERENCE}
BATCH, FEATURES, CLASSES, STEPS, RATE = 24, 7, 5, 3, 2.0**-3
WEIGHTS = np.array([0.25, 3, 1, 0, 7.5], np.float32)


def make_graph(library: native.Library, smoothing: float) -> int:
    b = native.Network(library)
    x, label = b.input(b"x", native.F32, (BATCH, FEATURES)), b.input(b"label", native.I32, (BATCH,))
    x = b.tanh(b.linear(x, 16, True))
    logits = b.linear(x, CLASSES, True)
    b.output("logits", logits)
    graph = b.finish(b.softmax_cross_entropy(logits, label, smoothing))
    b.free()
    return graph


def batches() -> list[tuple[np.ndarray, np.ndarray]]:
    """Some labels are none of the classes."""
    rng = np.random.default_rng(8)
    return [
        (rng.standard_normal((BATCH, FEATURES), np.float32), rng.integers(-1, CLASSES, BATCH).astype(np.int32))
        for _ in range(STEPS)
    ]


OPTIONS = {
    "plain": {},
    "clip by value": {"clip_value": 0.02},
    "clip by norm": {"clip_norm": 0.1},
    "momentum": {"momentum": 0.5},
    "scaled": {"loss_scale": 64.0},
    "dynamic": {"dynamic_loss_scale": True},
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("smoothing", [0.0, 0.25])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("option", OPTIONS)
def test_loss_and_norm(library: native.Library, option: str, weighted: bool, smoothing: float, backend: str) -> None:
    graph = make_graph(library, smoothing)
    options = {"backend": BACKENDS[backend], "gradient_norm": True, "class_weights": weighted, **OPTIONS[option]}
    session = native.Session(library, graph, {"seed": 2, **options})
    if weighted:
        session.fill("class_weights", WEIGHTS)
    names = [entry.name for entry in session.of_kind(native.PARAMETER)]
    net = {name: torch.from_numpy(session.read(name)).requires_grad_() for name in names}
    optimizer = torch.optim.SGD(net.values(), lr=RATE, momentum=OPTIONS[option].get("momentum", 0))
    weight = torch.from_numpy(WEIGHTS) if weighted else None
    for image, label in batches():
        session.fill("x", image)
        session.fill("label", label)
        result = session.step(RATE)
        x = torch.tanh(torch.from_numpy(image) @ net["linear1.weight"].T + net["linear1.bias"])
        logits = x @ net["linear2.weight"].T + net["linear2.bias"]
        target = torch.from_numpy(label).long()
        loss = F.cross_entropy(logits, target, weight=weight, ignore_index=-1, label_smoothing=smoothing)
        optimizer.zero_grad()
        loss.backward()
        if "clip_value" in OPTIONS[option]:
            torch.nn.utils.clip_grad_value_(net.values(), OPTIONS[option]["clip_value"])
        norm = torch.linalg.vector_norm(torch.cat([p.grad.flatten() for p in net.values()])).item()
        if "clip_norm" in OPTIONS[option]:
            torch.nn.utils.clip_grad_norm_(net.values(), OPTIONS[option]["clip_norm"])
        optimizer.step()
        assert result.loss == pytest.approx(loss.item(), rel=2e-6)
        assert result.gradient_norm == pytest.approx(norm, rel=2e-5)
    for name in names:
        assert np.abs(session.read(name) - net[name].detach().numpy()).max() < 2e-6, name
    # Evaluations are plain.
    session.fill("x", batches()[0][0])
    session.fill("label", batches()[0][1])
    evaluated = session.evaluate().loss
    logits = torch.from_numpy(session.output("logits"))
    target = torch.from_numpy(batches()[0][1]).long()
    assert evaluated == pytest.approx(F.cross_entropy(logits, target, ignore_index=-1).item(), rel=1e-5)
    session.free()
    library.graph_free(graph)


def test_labels_without_weight(library: native.Library) -> None:
    """Labels whose classes all weigh 0: the loss is 0, and nothing moves."""
    for backend in BACKENDS.values():
        graph = make_graph(library, 0.0)
        session = native.Session(library, graph, {"backend": backend, "class_weights": True, "gradient_norm": True})
        session.fill("class_weights", WEIGHTS)
        session.fill("x", batches()[0][0])
        session.fill("label", np.full(BATCH, 3, np.int32))
        before = session.read("linear1.weight")
        result = session.step(RATE)
        assert result.loss == 0 and result.gradient_norm == 0
        assert np.array_equal(session.read("linear1.weight"), before)
        session.free()
        library.graph_free(graph)
