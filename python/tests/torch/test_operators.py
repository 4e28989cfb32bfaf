"""Every operator of the library beside PyTorch, in f32: values, and gradients of all operands, on both backends."""

from __future__ import annotations

import json
import subprocess
import sys
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import native
import numpy as np
import operators
import pytest
import torch
from operators import Case

TOLERANCE = 1e-5  # of the largest element
BACKENDS = {"cpu": native.CPU, "reference": native.REFERENCE}


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


def declare(n: native.Network, case: Case, values: list[np.ndarray], way: str) -> list[int]:
    """Floating-point operands as parameters, unless the way is "inputs"; others as inputs. The way "convolved" leads images
    through a convolution that changes nothing, which leaves channels in blocks."""
    operands = []
    for i, value in enumerate(values):
        name, dims = f"operand{i}".encode(), list(value.shape)
        if way == "inputs" or value.dtype != np.float32:
            operands.append(n.input(name, native.DTYPES[value.dtype.name], dims))
        else:
            parameter = n.parameter(name, dims)
            if way == "convolved" and value.ndim == 4:
                n.freeze(True)
                n.scope(f"identity{i}")
                operands.append(n.conv(parameter, filters=value.shape[1], size=1))
                n.scope(None)
                n.freeze(False)
            else:
                operands.append(parameter)
    return operands


def load(s: native.Session, values: list[np.ndarray], factor: np.ndarray | None, own: dict[str, np.ndarray]) -> None:
    for i, value in enumerate(values):
        if f"operand{i}" in s.variables:
            s.write(f"operand{i}", value)
        else:
            s.fill(f"operand{i}", value)
    if factor is not None:
        s.fill("factor", factor)
    for name, entry in s.variables.items():
        if name.startswith("identity"):
            s.write(name, np.eye(entry.dims[0], dtype=np.float32).reshape(entry.dims))
    for name, value in own.items():
        s.write(name, value)


def made_by_layers(
    library: native.Library, graph: int, random: np.random.Generator, options: dict[str, Any]
) -> tuple[dict[str, np.ndarray], list[str]]:
    """New values for the parameters and running statistics that operators made themselves; the names of the latter."""
    with native.session(library, graph, predict=True, **options) as s:
        statistics = {entry.name: entry.dims for entry in s.of_kind(native.RUNNING_STATISTIC)}
        layers = {e.name: e.dims for e in s.of_kind(native.PARAMETER) if not e.name.startswith(("operand", "identity"))}
    own = {name: random.standard_normal(dims).astype(np.float32) for name, dims in layers.items()}
    own |= {name: random.uniform(0.5, 1.5, dims).astype(np.float32) for name, dims in statistics.items()}
    return own, list(statistics)


@dataclass
class InTorch:
    value: torch.Tensor  # in evaluation
    gradients: list[torch.Tensor]
    loss: float
    amount: float  # the loss, had all its terms one sign


def in_torch(
    case: Case, values: list[np.ndarray], factor: np.ndarray | None, running: int, dtype: torch.dtype
) -> InTorch:
    """What PyTorch has. The last `running` of the values are running statistics."""
    tensors = [
        torch.tensor(v, dtype=dtype, requires_grad=i < len(values) - running)
        if v.dtype == np.float32
        else torch.tensor(v)
        for i, v in enumerate(values)
    ]
    trained = tensors[: len(tensors) - running]
    value = (case.evaluation or case.function)(*tensors)
    if case.function is None:
        return InTorch(value, [], 0, 0)
    terms = case.function(*trained)
    if factor is not None:
        terms = terms * torch.tensor(factor, dtype=dtype)
    real = [t for t in trained if t.requires_grad]
    found = torch.autograd.grad(terms.sum(), real, allow_unused=True)
    gradients = [torch.zeros_like(t) if g is None else g for t, g in zip(real, found, strict=True)]
    return InTorch(value, gradients, terms.sum().item(), terms.abs().sum().item())


def rows(cases: list[Case]) -> list[Any]:
    """Each case on each backend."""
    return [pytest.param(case, backend, id=f"{case.name} on {backend}") for case in cases for backend in BACKENDS]


OF_IMAGES = [case for case in operators.ALL if case.takes_images()]


@pytest.mark.parametrize("case,backend", rows(operators.ALL))
def test_operator(library: native.Library, case: Case, backend: str) -> None:
    compare_case(library, case, {"backend": BACKENDS[backend]}, "parameters")


@pytest.mark.parametrize("case,backend", rows(OF_IMAGES))
def test_operator_after_convolution(library: native.Library, case: Case, backend: str) -> None:
    compare_case(library, case, {"backend": BACKENDS[backend]}, "convolved")


@pytest.mark.parametrize("convolution", native.CONVOLUTIONS)
@pytest.mark.parametrize("case", operators.CONVOLUTIONS, ids=lambda case: case.name)
def test_convolution(library: native.Library, case: Case, convolution: str) -> None:
    """By each algorithm."""
    compare_case(library, case, {"convolution": native.CONVOLUTIONS.index(convolution)}, "parameters")


def compare_case(library: native.Library, case: Case, options: dict[str, Any], way: str) -> None:
    random = np.random.default_rng(zlib.crc32(case.name.encode()))
    values = [operand.make(random, operand.shape) for operand in case.operands]
    with native.network(library) as n:
        result = case.build(n, *declare(n, case, values, way))
        n.output("result", result)
        shape = n.shape(result)
        factor = None if case.is_loss else random.standard_normal(shape).astype(np.float32)
        loss = result
        if factor is not None:
            loss = n.sum(n.multiply(result, n.input(b"factor", native.F32, list(shape))), None, False)
        with native.finished(library, n, loss) as graph:
            own, statistics = made_by_layers(library, graph, random, options)
            everything = [*values, *own.values()]
            expected = in_torch(case, everything, factor, len(statistics), torch.float32)
            exact = in_torch(case, everything, factor, len(statistics), torch.float64)
            compare_values(library, graph, values, own, expected, exact, options)
            if case.function is not None:
                trained = {f"operand{i}": v for i, v in enumerate(values) if v.dtype == np.float32}
                trained |= {name: v for name, v in own.items() if name not in statistics}
                compare_gradients(library, graph, values, own, factor, trained, expected, exact, options)
    if way == "parameters":
        with native.network(library) as n:
            n.output("result", case.build(n, *declare(n, case, values, "inputs")))
            with native.finished(library, n, -1) as graph:
                compare_values(library, graph, values, own, expected, exact, options)


def compare_values(
    library: native.Library,
    graph: int,
    values: list[np.ndarray],
    own: dict[str, np.ndarray],
    expected: InTorch,
    exact: InTorch,
    options: dict[str, Any],
) -> None:
    with native.session(library, graph, predict=True, **options) as s:
        load(s, values, None, own)
        s.predict()
        compare("the value", s.output("result"), expected.value, exact.value)


def compare_gradients(
    library: native.Library,
    graph: int,
    values: list[np.ndarray],
    own: dict[str, np.ndarray],
    factor: np.ndarray | None,
    trained: dict[str, np.ndarray],
    expected: InTorch,
    exact: InTorch,
    options: dict[str, Any],
) -> None:
    """What a step of plain SGD moves."""
    # A rate at which the smallest gradient is of the operands' order: a power of 2, which rounds nothing.
    least = min((g.abs().max().item() for g in expected.gradients if g.any()), default=1.0)
    rate = 2.0 ** max(0, int(np.ceil(-np.log2(least))))
    with native.session(library, graph, **options) as s:
        load(s, values, factor, own)
        loss = s.step(rate).loss
        assert abs(loss - expected.loss) <= TOLERANCE * expected.amount, f"loss {loss}, PyTorch has {expected.loss}"
        for (name, before), gradient, truth in zip(trained.items(), expected.gradients, exact.gradients, strict=True):
            moved = (before.astype(np.float64) - s.read(name)) / rate
            compare(f"the gradient of {name}", moved, gradient, truth, 2 * np.spacing(np.abs(before)) / rate)


# What likes the channels of an image in blocks.
READ_IN_BLOCKS = [
    ("max_pool", [], {"size": 2}),
    ("average_pool", [], {"size": 2}),
    ("adaptive_average_pool", [2], {}),
    ("crop", [], {"height": 3, "width": 2}),
    ("resize", [3, 5, False], {}),
    ("local_response_norm", [], {}),
    ("slice", [1, 0, 2], {}),
]
STEP_ON_PARAMETER = """
import json, sys
sys.path.insert(0, sys.argv[1])
import native
name, arguments, options = json.loads(sys.argv[2])
library = native.Library(native.LIBRARY)
with native.network(library) as n:
    x = n.parameter(b"x", [2, 6, 8, 10], initial=3)
    loss = n.sum(getattr(n, name)(x, *arguments, **options), None, False)
    with native.finished(library, n, loss) as graph, native.session(library, graph) as s:
        s.step(1)
"""


@pytest.mark.parametrize("row", READ_IN_BLOCKS, ids=lambda row: row[0])
def test_parameter_as_image(library: native.Library, row: tuple[str, list[Any], dict[str, Any]]) -> None:
    """What reads images takes a parameter, too."""
    child = [sys.executable, "-c", STEP_ON_PARAMETER, str(Path(__file__).parent), json.dumps(row)]
    done = subprocess.run(child, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr or f"ended by signal {-done.returncode}"


@pytest.mark.parametrize("backend", BACKENDS)
def test_add_to_convolution(library: native.Library, backend: str) -> None:
    """A kernel of 1 on pixels that are 1, and 10 on each."""
    with native.network(library) as n:
        made = n.conv(n.input(b"x", native.F32, [1, 1, 2, 3]), filters=1, size=1)
        n.output("sum", n.add(made, n.input(b"y", native.F32, [1])))
        with (
            native.finished(library, n, -1) as graph,
            native.session(library, graph, backend=BACKENDS[backend]) as s,
        ):
            s.write("conv1.weight", np.ones((1, 1, 1, 1), np.float32))
            s.fill("x", np.ones((1, 1, 2, 3), np.float32))
            s.fill("y", np.full(1, 10, np.float32))
            s.predict()
            assert s.output("sum").ravel() == pytest.approx([11] * 6)


# Momentum (0: 0.1) and shape.
STATISTICS = [((9, 5), 0.0), ((3, 7, 5), 0.25), ((2, 19, 5, 7), 0.0), ((2, 19, 5, 7), 1.0), ((3, 5, 47, 53), 0.01)]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dims,momentum", STATISTICS, ids=str)
def test_running_statistics(library: native.Library, dims: tuple[int, ...], momentum: float, backend: str) -> None:
    """After two steps, as PyTorch moves them; an evaluation moves none."""
    random = np.random.default_rng(3)
    model = torch.nn.BatchNorm1d(dims[1], momentum=momentum or 0.1)
    model._check_input_dim = lambda x: None  # of any rank
    with (
        native.network(library) as n,
        native.finished(
            library, n, n.sum(n.batch_norm(n.input(b"x", native.F32, list(dims)), momentum=momentum), None, False)
        ) as graph,
        native.session(library, graph, backend=BACKENDS[backend]) as s,
    ):
        names = [entry.name for entry in s.of_kind(native.RUNNING_STATISTIC)]
        for _ in range(2):
            x = (random.standard_normal(dims) * 2 + 1).astype(np.float32)
            s.fill("x", x)
            s.step(0)
            model(torch.tensor(x))
        for name, expected in zip(names, (model.running_mean, model.running_var), strict=True):
            compare(name, s.read(name), expected, expected)
        before = [s.read(name) for name in names]
        s.evaluate()
        assert all(np.array_equal(a, s.read(name)) for a, name in zip(before, names, strict=True))
