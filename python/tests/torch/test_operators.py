"""Every operator of the library beside PyTorch, in f32: values, and gradients of all operands, on both backends."""

from __future__ import annotations

import zlib
from typing import Any

import native
import numpy as np
import operators
import pytest
import torch
from operators import Case

TOLERANCE = 1e-5  # of the largest element
BACKENDS = {"cpu": native.CPU, "reference": native.REFERENCE}


@pytest.fixture(scope="module")
def library() -> native.Library:
    if native.NAMED is None and not native.LIBRARY.is_file():
        pytest.skip(f"{native.LIBRARY} is not built (make), and NEAP_LIBRARY names none")
    return native.Library(native.LIBRARY)


def compare(what: str, got: np.ndarray, expected: torch.Tensor, exact: torch.Tensor, slack: Any = 0) -> None:
    """Within the tolerance of what PyTorch has in f32; in double precision it only says who is nearer."""
    wanted = expected.detach().numpy()
    assert got.shape == wanted.shape, f"{what}: shape {got.shape}, PyTorch has {wanted.shape}"
    largest = np.abs(wanted).max()
    error = np.abs(got.astype(np.float64) - wanted)
    if not (error <= TOLERANCE * largest + slack).all():
        truth = exact.detach().numpy()
        at = np.unravel_index(np.nanargmax(np.where(np.isnan(error), np.inf, error)), error.shape)
        pytest.fail(
            f"{what} is off by {error[at] / largest:.3g} of the largest element: at {tuple(map(int, at))} {got[at]:.9g}, "
            f"PyTorch has {wanted[at]:.9g}, in double precision {truth[at]:.12g}"
        )


def declare(n: native.Network, values: list[np.ndarray]) -> list[int]:
    """Floating-point operands as parameters, others as inputs."""
    return [
        n.parameter(f"operand{i}".encode(), list(value.shape))
        if value.dtype == np.float32
        else n.input(f"operand{i}".encode(), native.DTYPES[value.dtype.name], list(value.shape))
        for i, value in enumerate(values)
    ]


def load(s: native.Session, values: list[np.ndarray], factor: np.ndarray | None, own: dict[str, np.ndarray]) -> None:
    for i, value in enumerate(values):
        if value.dtype == np.float32:
            s.write(f"operand{i}", value)
        else:
            s.fill(f"operand{i}", value)
    if factor is not None:
        s.fill("factor", factor)
    for name, value in own.items():
        s.write(name, value)


def made_by_layers(s: native.Session, random: np.random.Generator) -> tuple[dict[str, np.ndarray], list[str]]:
    """New values for the parameters and running statistics that operators made themselves; the names of the latter."""
    statistics = [entry.name for entry in s.of_kind(native.RUNNING_STATISTIC)]
    own = {
        entry.name: random.standard_normal(entry.dims).astype(np.float32)
        for entry in s.of_kind(native.PARAMETER)
        if not entry.name.startswith("operand")
    }
    for name in statistics:
        own[name] = random.uniform(0.5, 1.5, s.variables[name].dims).astype(np.float32)
    return own, statistics


def in_torch(
    case: Case, values: list[np.ndarray], factor: np.ndarray | None, running: int, dtype: torch.dtype
) -> tuple[torch.Tensor, list[torch.Tensor], float, float]:
    """What PyTorch has: the value in evaluation, the gradients, the loss and what its terms amount to. The last `running`
    of the values are running statistics."""
    tensors = [
        torch.tensor(v, dtype=dtype, requires_grad=i < len(values) - running)
        if v.dtype == np.float32
        else torch.tensor(v)
        for i, v in enumerate(values)
    ]
    trained = tensors[: len(tensors) - running]
    value = (case.evaluation or case.function)(*tensors)
    if case.function is None:
        return value, [], 0, 0
    terms = case.function(*trained)
    if factor is not None:
        terms = terms * torch.tensor(factor, dtype=dtype)
    real = [t for t in trained if t.requires_grad]
    found = torch.autograd.grad(terms.sum(), real, allow_unused=True)
    gradients = [torch.zeros_like(t) if g is None else g for t, g in zip(real, found, strict=True)]
    return value, gradients, terms.sum().item(), terms.abs().sum().item()


def rows(cases: list[Case]) -> list[Any]:
    """Each case on each backend."""
    return [
        pytest.param(
            case,
            backend,
            id=f"{case.name} on {backend}",
            marks=pytest.mark.xfail(strict=True, reason=case.differs)
            if case.differs and backend in case.differs_on
            else (),
        )
        for case in cases
        for backend in BACKENDS
    ]


@pytest.mark.parametrize("case,backend", rows(operators.ALL))
def test_operator(library: native.Library, case: Case, backend: str) -> None:
    random = np.random.default_rng(zlib.crc32(case.name.encode()))
    values = [operand.make(random, operand.shape) for operand in case.operands]
    with native.network(library) as n:
        result = case.build(n, *declare(n, values))
        n.output("result", result)
        shape = n.shape(result)
        factor = None if case.is_loss else random.standard_normal(shape).astype(np.float32)
        loss = result
        if factor is not None:
            loss = n.sum(n.multiply(result, n.input(b"factor", native.F32, list(shape))), None, False)
        with native.finished(library, n, loss) as graph:
            compare_graph(library, case, graph, values, factor, random, {"backend": BACKENDS[backend]})


def compare_graph(
    library: native.Library,
    case: Case,
    graph: int,
    values: list[np.ndarray],
    factor: np.ndarray | None,
    random: np.random.Generator,
    options: dict[str, Any],
) -> None:
    with native.session(library, graph, predict=True, **options) as s:
        own, statistics = made_by_layers(s, random)
        load(s, values, None, own)
        s.predict()
        predicted = s.output("result")
    everything = [*values, *own.values()]
    value, gradients, loss, amount = in_torch(case, everything, factor, len(statistics), torch.float32)
    exact_value, exact_gradients, *_ = in_torch(case, everything, factor, len(statistics), torch.float64)
    compare("the value", predicted, value, exact_value)
    if case.function is None:
        return

    # A rate at which the smallest gradient is of the operands' order: a power of 2, which rounds nothing.
    least = min((g.abs().max().item() for g in gradients if g.any()), default=1.0)
    rate = 2.0 ** max(0, int(np.ceil(-np.log2(least))))
    before = {f"operand{i}": v for i, v in enumerate(values) if v.dtype == np.float32}
    before |= {name: v for name, v in own.items() if name not in statistics}
    with native.session(library, graph, **options) as s:
        load(s, values, factor, own)
        got = s.step(rate).loss
        assert abs(got - loss) <= TOLERANCE * amount, f"loss {got}, PyTorch has {loss}"
        for (name, value), gradient, exact in zip(before.items(), gradients, exact_gradients, strict=True):
            moved = (value.astype(np.float64) - s.read(name)) / rate
            compare(f"the gradient of {name}", moved, gradient, exact, 2 * np.spacing(np.abs(value)) / rate)
