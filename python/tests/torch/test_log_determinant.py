"""The log determinant of a block-tridiagonal matrix with an arrow, and its gradient by every block, beside
torch.linalg.cholesky and autograd of the dense matrix in float64; and their bits at several budgets."""

from __future__ import annotations

import native
import numpy as np
import pytest
import torch

BACKENDS = {"cpu": native.CPU, "reference": native.REFERENCE}
TOLERANCE = 1e-4
SHAPES = [(5, 7, 3), (3, 70, 4), (1, 9, 1)]  # blocks, their side, the tip's


def names(blocks: int, side: int, tip: int) -> dict[str, tuple[int, int]]:
    """D on the diagonal, B below it, C in the arrow; T is the tip."""
    found = {"T": (tip, tip)}
    for i in range(blocks):
        found |= {f"D{i}": (side, side), f"C{i}": (tip, side)} | ({f"B{i}": (side, side)} if i + 1 < blocks else {})
    return found


def log_determinant(n: native.Network, blocks: int, side: int, tip: int) -> int:
    block = {name: n.parameter(name.encode(), list(dims)) for name, dims in names(blocks, side, tip).items()}

    def logs(factor: int, size: int) -> int:
        return n.sum(n.log(n.take(n.reshape(factor, [size * size]), 0, size, step=size + 1)), None, False)

    last, terms = block["T"], []
    e = g = -1
    for i in range(blocks):
        d, c = block[f"D{i}"], block[f"C{i}"]
        if i > 0:
            d, c = n.subtract(d, n.matmul(e, e, False, True)), n.subtract(c, n.matmul(g, e, False, True))
        factor = n.cholesky(d)
        terms.append(logs(factor, side))
        g = n.triangular_solve(factor, c, True, True)
        last = n.subtract(last, n.matmul(g, g, False, True))
        if i + 1 < blocks:
            e = n.triangular_solve(factor, block[f"B{i}"], True, True)
    total = logs(n.cholesky(last), tip)
    for term in terms:
        total = n.add(total, term)
    return n.scale(total, 2, 0)


def values_of(blocks: int, side: int, tip: int) -> dict[str, np.ndarray]:
    random = np.random.default_rng(blocks)
    values = {}
    for name, (rows, columns) in names(blocks, side, tip).items():
        x = random.uniform(-1, 1, (rows, columns)) / np.sqrt(columns)
        if name[0] in "DT":
            x = (x + x.T) / 4 + np.eye(rows) * (4 + (blocks if name == "T" else 0))
        values[name] = x.astype(np.float32)
    return values


def dense(values: dict[str, torch.Tensor], blocks: int, side: int, tip: int) -> torch.Tensor:
    """The lower triangle of blocks, and its mirror image."""
    rows = []
    for i in range(blocks):
        row = [torch.zeros(side, side, dtype=torch.float64) for _ in range(blocks)]
        row[i] = values[f"D{i}"]
        if i > 0:
            row[i - 1] = values[f"B{i - 1}"]
        rows.append(torch.cat([*row, torch.zeros(side, tip, dtype=torch.float64)], 1))
    rows.append(torch.cat([*(values[f"C{i}"] for i in range(blocks)), values["T"]], 1))
    whole = torch.cat(rows)
    below = torch.block_diag(*(torch.ones(s, s, dtype=torch.float64) for s in [side] * blocks + [tip]))
    return torch.where(below > 0, whole, whole.tril() + whole.tril().mT)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_log_determinant(library: native.Library, shape: tuple[int, int, int], backend: str) -> None:
    values = values_of(*shape)
    leaves = {name: torch.tensor(v, dtype=torch.float64, requires_grad=True) for name, v in values.items()}
    expected = 2 * torch.linalg.cholesky(dense(leaves, *shape)).diagonal().log().sum()
    expected.backward()
    with (
        native.network(library) as n,
        native.finished(library, n, log_determinant(n, *shape)) as graph,
        native.session(library, graph, backend=BACKENDS[backend]) as s,
    ):
        for name, value in values.items():
            s.write(name, value)
        loss = s.step(1.0).loss
        moved = {name: values[name].astype(np.float64) - s.read(name) for name in values}
    assert loss == pytest.approx(expected.item(), rel=TOLERANCE)
    for name, gradient in moved.items():
        wanted = leaves[name].grad.numpy()
        assert np.abs(gradient - wanted).max() <= TOLERANCE * np.abs(wanted).max(), name


@pytest.mark.parametrize("shape", SHAPES[:2], ids=str)
def test_bits_at_budgets(library: native.Library, shape: tuple[int, int, int]) -> None:
    """All kept, and in the least, with one thread and with three."""
    values = values_of(*shape)
    runs = []
    with native.network(library) as n, native.finished(library, n, log_determinant(n, *shape)) as graph:
        for budget, threads in ((native.BUDGET_MAX, 3), (native.BUDGET_MAX, 1), (0, 1), (0, 3)):
            with native.session(library, graph, budget=budget, planner=b"evict", threads=threads) as s:
                for name, value in values.items():
                    s.write(name, value)
                runs.append((s.step(0.5).loss, {name: s.read(name) for name in values}))
    for loss, after in runs[1:]:
        assert loss == runs[0][0]
        assert all(np.array_equal(after[name], runs[0][1][name]) for name in values)
