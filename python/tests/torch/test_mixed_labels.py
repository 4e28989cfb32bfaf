"""Records with two labels in the loss beside PyTorch's cross-entropy by probabilities, for three steps on both backends."""

from __future__ import annotations

import native
import numpy as np
import pytest
import torch
from torch.nn import functional as F

BACKENDS = {"cpu": native.CPU, "reference": native.REFERENCE}
BATCH, FEATURES, CLASSES, STEPS, RATE = 24, 7, 5, 3, 2.0**-3
WEIGHTS = np.array([0.25, 3, 1, 0.5, 7.5], np.float32)


def make_graph(library: native.Library, smoothing: float) -> int:
    b = native.Network(library)
    x, label = b.input(b"x", native.F32, (BATCH, FEATURES)), b.input(b"label", native.I32, (BATCH,))
    x = b.tanh(b.linear(x, 16, True))
    logits = b.linear(x, CLASSES, True)
    b.output("logits", logits)
    graph = b.finish(b.softmax_cross_entropy(logits, label, smoothing))
    b.free()
    return graph


def mixed_loss(
    logits: torch.Tensor,
    labels: torch.Tensor,
    others: torch.Tensor,
    shares: torch.Tensor,
    weight: torch.Tensor | None,
    smoothing: float,
) -> torch.Tensor:
    """The rows that count, by the probabilities of their classes; PyTorch divides those by their number, not by the weights."""
    known = (labels >= 0) & (others >= 0)
    one, two = F.one_hot(labels[known], CLASSES), F.one_hot(others[known], CLASSES)
    share = shares[known, None]
    target = share * one + (1 - share) * two
    divisor = known.sum() if weight is None else (target * weight).sum()
    return F.cross_entropy(logits[known], target, weight, label_smoothing=smoothing, reduction="sum") / divisor


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("smoothing", [0.0, 0.25])
@pytest.mark.parametrize("weighted", [False, True])
def test_mixed_labels(library: native.Library, weighted: bool, smoothing: float, backend: str) -> None:
    graph = make_graph(library, smoothing)
    options = {"backend": BACKENDS[backend], "gradient_norm": True, "class_weights": weighted, "mixed_labels": True}
    session = native.Session(library, graph, {"seed": 2, "momentum": 0.5, **options})
    if weighted:
        session.fill("class_weights", WEIGHTS)
    names = [entry.name for entry in session.of_kind(native.PARAMETER)]
    net = {name: torch.from_numpy(session.read(name)).requires_grad_() for name in names}
    optimizer = torch.optim.SGD(net.values(), lr=RATE, momentum=0.5)
    weight = torch.from_numpy(WEIGHTS) if weighted else None
    rng = np.random.default_rng(8)
    for _ in range(STEPS):
        image = rng.standard_normal((BATCH, FEATURES), np.float32)
        label, other = (rng.integers(-1, CLASSES, BATCH).astype(np.int32) for _ in range(2))
        share = rng.random(BATCH, np.float32)
        for name, values in {"x": image, "label": label, "other_labels": other, "label_shares": share}.items():
            session.fill(name, values)
        result = session.step(RATE)
        x = torch.tanh(torch.from_numpy(image) @ net["linear1.weight"].T + net["linear1.bias"])
        logits = x @ net["linear2.weight"].T + net["linear2.bias"]
        labels, others = torch.from_numpy(label).long(), torch.from_numpy(other).long()
        loss = mixed_loss(logits, labels, others, torch.from_numpy(share), weight, smoothing)
        optimizer.zero_grad()
        loss.backward()
        norm = torch.linalg.vector_norm(torch.cat([p.grad.flatten() for p in net.values()])).item()
        optimizer.step()
        assert result.loss == pytest.approx(loss.item(), rel=2e-6)
        assert result.gradient_norm == pytest.approx(norm, rel=1e-5)
        right = ((logits.argmax(1) == labels) & (labels >= 0) & (others >= 0)).sum().item()
        assert result.correct == right
    for name in names:
        assert np.abs(session.read(name) - net[name].detach().numpy()).max() < 2e-6, name
    # Evaluations are plain, and by the first labels.
    evaluated = session.evaluate().loss
    logits = torch.from_numpy(session.output("logits"))
    assert evaluated == pytest.approx(F.cross_entropy(logits, labels, ignore_index=-1).item(), rel=1e-5)
    session.free()
    library.graph_free(graph)
