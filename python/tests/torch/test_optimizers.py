"""The library's optimizers, clipping and parameter groups beside torch.optim, for five steps on both backends."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from math import nan as NAN
from typing import Any

import native
import numpy as np
import pytest
import torch
from torch.nn import functional as F

TOLERANCE = 1e-5  # of the largest element
STEPS = 5
RATE = 2.0**-5
BACKENDS = {"cpu": native.CPU, "reference": native.REFERENCE}
Parameters = dict[str, torch.Tensor]


class Lion(torch.optim.Optimizer):
    """Chen et al. 2023, algorithm 2."""

    def __init__(self, parameters: Any, lr: float, betas: tuple[float, float] = (0.9, 0.99), weight_decay: float = 0):
        super().__init__(parameters, {"lr": lr, "betas": betas, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self) -> None:
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for p in group["params"]:
                momentum = self.state[p].setdefault("momentum", torch.zeros_like(p))
                update = (beta1 * momentum + (1 - beta1) * p.grad).sign()
                p -= group["lr"] * (update + group["weight_decay"] * p)
                momentum.mul_(beta2).add_(p.grad, alpha=1 - beta2)


@dataclass(frozen=True)
class Case:
    name: str
    options: dict[str, Any]  # of the session
    make: Callable[[list[dict[str, Any]]], torch.optim.Optimizer]  # of groups
    # Pattern, rate and decay as the session has them.
    groups: tuple[tuple[str, float, float], ...] = ()
    # The names that each group has by the header's words: the first pattern that matches counts.
    members: tuple[tuple[str, ...], ...] = ()
    clip: Callable[[Iterable[torch.Tensor]], Any] = field(default=lambda parameters: None)
    frozen: tuple[str, ...] = ()


def case(name: str, kind: str, make: Any, settings: dict[str, Any], other: dict[str, Any], **rest: Any) -> Case:
    """An optimizer by the session's options and by PyTorch's."""
    options = {"optimizer": native.OPTIMIZERS.index(kind), **settings}
    return Case(name, options, lambda groups: make(groups, lr=RATE, **other), **rest)


def clip_by_value(parameters: Iterable[torch.Tensor]) -> None:
    torch.nn.utils.clip_grad_value_(parameters, 0.125)


def clip_by_norm(parameters: Iterable[torch.Tensor]) -> None:
    torch.nn.utils.clip_grad_norm_(parameters, 0.5)


def clip_by_both(parameters: Iterable[torch.Tensor]) -> None:
    parameters = list(parameters)
    clip_by_value(parameters)
    clip_by_norm(parameters)


def clip_by_large_norm(parameters: Iterable[torch.Tensor]) -> None:
    torch.nn.utils.clip_grad_norm_(parameters, 1e4)


optim = torch.optim
MOMENTUM = {"momentum": 0.9}
DECAY = {"weight_decay": 0.0625}
BETAS = {"betas": (0.75, 0.9375)}
OWN_BETAS = {"beta1": 0.75, "beta2": 0.9375}
GROUPS = {
    "groups": (("*.bias", 0.5, 0.0), ("body.*", 2.0, 0.25), ("norm*", 0.0, 0.5)),
    "members": (("body.bias", "head.bias"), ("body.weight",), ("norm.gain",)),
}
FIRST_COUNTS = {
    "groups": (("head.weigh?", 0.5, 0.125), ("head.*", 4.0, 0.0), ("[nt]*", 0.25, 0.0)),
    "members": (("head.weight",), ("head.bias",), ("norm.gain", "table")),
}
CASES = [
    case("SGD", "SGD", optim.SGD, {}, {}),
    case("SGD, momentum", "SGD", optim.SGD, MOMENTUM, MOMENTUM),
    case("SGD, Nesterov", "SGD", optim.SGD, MOMENTUM | {"nesterov": True}, MOMENTUM | {"nesterov": True}),
    case("SGD, decay", "SGD", optim.SGD, DECAY, DECAY),
    case("SGD, all", "SGD", optim.SGD, MOMENTUM | DECAY | {"nesterov": True}, MOMENTUM | DECAY | {"nesterov": True}),
    case("AdamW", "AdamW", optim.AdamW, {}, {"weight_decay": 0}),
    case("AdamW, decay", "AdamW", optim.AdamW, DECAY, DECAY),
    case("AdamW, betas", "AdamW", optim.AdamW, OWN_BETAS | DECAY | {"epsilon": 1e-3}, BETAS | DECAY | {"eps": 1e-3}),
    case("Adam", "Adam", optim.Adam, {}, {}),
    case("Adam, decay", "Adam", optim.Adam, DECAY, DECAY),
    case("Adam, betas", "Adam", optim.Adam, OWN_BETAS | {"epsilon": 1e-3}, BETAS | {"eps": 1e-3}),
    case("RMSprop", "RMSprop", optim.RMSprop, {}, {}),
    case("RMSprop, momentum", "RMSprop", optim.RMSprop, {"momentum": 0.5}, {"momentum": 0.5}),
    case(
        "RMSprop, all",
        "RMSprop",
        optim.RMSprop,
        {"momentum": 0.5, "beta2": 0.9375, "epsilon": 1e-3} | DECAY,
        {"momentum": 0.5, "alpha": 0.9375, "eps": 1e-3} | DECAY,
    ),
    case("Lion", "Lion", Lion, {}, {}),
    case("Lion, decay and betas", "Lion", Lion, OWN_BETAS | DECAY, BETAS | DECAY),
    case("clip by value", "SGD", optim.SGD, {"clip_value": 0.125}, {}, clip=clip_by_value),
    case("clip by norm", "SGD", optim.SGD, {"clip_norm": 0.5}, {}, clip=clip_by_norm),
    case("clip by both", "SGD", optim.SGD, {"clip_value": 0.125, "clip_norm": 0.5}, {}, clip=clip_by_both),
    case("clip by a norm that is not reached", "SGD", optim.SGD, {"clip_norm": 1e4}, {}, clip=clip_by_large_norm),
    case(
        "clip by norm, before decay",
        "AdamW",
        optim.AdamW,
        {"clip_norm": 0.5, "epsilon": 1e-3} | DECAY,
        {"eps": 1e-3} | DECAY,
        clip=clip_by_norm,
    ),
    case("clip by norm, decay in the gradient", "SGD", optim.SGD, {"clip_norm": 0.5} | DECAY, DECAY, clip=clip_by_norm),
    case("groups of SGD", "SGD", optim.SGD, MOMENTUM | DECAY, MOMENTUM | DECAY, **GROUPS),
    case("groups of AdamW", "AdamW", optim.AdamW, DECAY, DECAY, **GROUPS),
    case("groups of Adam", "Adam", optim.Adam, DECAY, DECAY, **GROUPS),
    case("groups of RMSprop", "RMSprop", optim.RMSprop, DECAY, DECAY, **GROUPS),
    case("groups of Lion", "Lion", Lion, DECAY, DECAY, **GROUPS),
    case("groups, of which the first counts", "SGD", optim.SGD, DECAY, DECAY, **FIRST_COUNTS),
    case("frozen", "SGD", optim.SGD, DECAY, DECAY, frozen=("body.bias", "table")),
    case(
        "frozen, which the norm leaves out",
        "SGD",
        optim.SGD,
        {"clip_norm": 0.5},
        {},
        clip=clip_by_norm,
        frozen=("table",),
    ),
]

SHAPES = {
    "body.weight": (7, 5),
    "body.bias": (7,),
    "norm.gain": (7,),
    "head.weight": (3, 7),
    "head.bias": (3,),
    "table": (191, 193),  # 36863 elements: threads take part
}
INPUTS = {"x": (11, 5), "target": (11, 3), "goal": SHAPES["table"]}


def loss_in_torch(p: Parameters, x: torch.Tensor, target: torch.Tensor, goal: torch.Tensor) -> torch.Tensor:
    hidden = F.linear(x, p["body.weight"], p["body.bias"]).tanh() * p["norm.gain"]
    made = F.linear(hidden, p["head.weight"], p["head.bias"])
    return F.mse_loss(made, target) + 64 * F.mse_loss(p["table"], goal)


def loss_in_neap(n: native.Network, frozen: tuple[str, ...]) -> int:
    p = {name: n.parameter(name.encode(), list(dims), frozen=name in frozen) for name, dims in SHAPES.items()}
    x, target, goal = (n.input(name.encode(), native.F32, list(dims)) for name, dims in INPUTS.items())
    hidden = n.multiply(n.tanh(n.linear_with(x, p["body.weight"], p["body.bias"])), p["norm.gain"])
    made = n.linear_with(hidden, p["head.weight"], p["head.bias"])
    return n.add(n.mse_loss(made, target), n.scale(n.mse_loss(p["table"], goal), 64, 0))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_optimizer(library: native.Library, case: Case, backend: str) -> None:
    random = np.random.default_rng(11)
    begin = {name: random.standard_normal(dims).astype(np.float32) for name, dims in SHAPES.items()}
    batches = [
        {name: random.standard_normal(dims).astype(np.float32) for name, dims in INPUTS.items()} for _ in range(STEPS)
    ]

    parameters = {name: torch.tensor(v, requires_grad=name not in case.frozen) for name, v in begin.items()}
    trained = [name for name in SHAPES if name not in case.frozen]
    in_groups = [name for members in case.members for name in members]
    groups = [{"params": [parameters[name] for name in trained if name not in in_groups]}]
    for (_, rate, decay), members in zip(case.groups, case.members, strict=True):
        groups.append({"params": [parameters[m] for m in members], "lr": RATE * rate, "weight_decay": decay})
    optimizer = case.make(groups)
    losses = []
    for batch in batches:
        optimizer.zero_grad()
        loss = loss_in_torch(parameters, *map(torch.tensor, batch.values()))
        loss.backward()
        case.clip([parameters[name] for name in trained])
        optimizer.step()
        losses.append(loss.item())

    rows = [native.ParameterGroup(pattern.encode(), rate, decay) for pattern, rate, decay in case.groups]
    options = {"backend": BACKENDS[backend], **case.options}
    if rows:
        options |= {"groups": (native.ParameterGroup * len(rows))(*rows), "group_count": len(rows)}
    with (
        native.network(library) as n,
        native.finished(library, n, loss_in_neap(n, case.frozen)) as graph,
        native.session(library, graph, **options) as s,
    ):
        for name, value in begin.items():
            s.write(name, value)
        for batch, expected in zip(batches, losses, strict=True):
            for name, value in batch.items():
                s.fill(name, value)
            assert s.step(RATE).loss == pytest.approx(expected, rel=TOLERANCE)
        for name, parameter in parameters.items():
            wanted = parameter.detach().numpy()
            error = np.abs(s.read(name) - wanted).max() / np.abs(wanted).max()
            assert error <= TOLERANCE, f"{name} is off by {error:.3g} of the largest element"
            assert name not in case.frozen or np.array_equal(s.read(name), begin[name])


def group(pattern: bytes | None, rate: float, decay: float) -> dict[str, Any]:
    return {"groups": (native.ParameterGroup * 1)(native.ParameterGroup(pattern, rate, decay)), "group_count": 1}


REFUSED: list[dict[str, Any]] = [
    *({name: -1} for name in ("momentum", "weight_decay", "epsilon", "clip_value", "clip_norm")),
    *({name: NAN} for name in ("clip_value", "clip_norm")),
    *({"optimizer": 1, name: value} for name in ("beta1", "beta2") for value in (-1, 1)),
    *({name: value} for name in ("optimizer", "backend", "convolution", "costs", "variant") for value in (-1, 99)),
    {"nesterov": True},
    {"group_count": 2},
    {"group_count": -1},
    group(None, 1, 0),
    group(b"*", -1, 0),
    group(b"*", NAN, 0),
    group(b"*", 1, -1),
    {"threads": -1},
]


@pytest.mark.parametrize("options", REFUSED, ids=lambda options: " ".join(options))
def test_refused_options(library: native.Library, options: dict[str, Any]) -> None:
    with (
        native.network(library) as n,
        native.finished(library, n, loss_in_neap(n, ())) as graph,
        pytest.raises(native.Failed, match=r"\w+ \w+") as failed,
        native.session(library, graph, **options),
    ):
        pass
    assert failed.value.status == native.INVALID_ARGUMENT


@pytest.mark.parametrize(
    "optimizer,usual",
    [
        ("SGD", {"momentum": 0.9, "weight_decay": 0.0005}),
        ("AdamW", {"weight_decay": 0.01, "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8}),
        ("Adam", {"weight_decay": 0, "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8}),
        ("RMSprop", {"momentum": 0, "weight_decay": 0, "beta2": 0.99, "epsilon": 1e-8}),
        ("Lion", {"weight_decay": 0.01, "beta1": 0.9, "beta2": 0.99}),
    ],
)
def test_nan_is_the_usual_number(library: native.Library, optimizer: str, usual: dict[str, float]) -> None:
    found = []
    for numbers in (usual, dict.fromkeys(usual, NAN)):
        random, options = np.random.default_rng(11), {"optimizer": native.OPTIMIZERS.index(optimizer), **numbers}
        with (
            native.network(library) as n,
            native.finished(library, n, loss_in_neap(n, ())) as graph,
            native.session(library, graph, **options) as s,
        ):
            for name, dims in SHAPES.items():
                s.write(name, random.standard_normal(dims).astype(np.float32))
            for name, dims in INPUTS.items():
                s.fill(name, random.standard_normal(dims).astype(np.float32))
            for _ in range(3):
                s.step(RATE)
            found.append([s.read(name).tobytes() for name in SHAPES])
    assert found[0] == found[1]
