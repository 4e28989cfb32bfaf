#!/usr/bin/env python3
"""Programs from PyTorch's own issues, beside Neap: what eager gives, what the named technique gives, what Neap gives.

    known_issues.py [NUMBER...]

A row an issue, in Markdown: the largest difference from eager PyTorch without any recomputation (0: the same bits), by the technique
that the issue is about, by neap.torch.compile_step at its least budget, and by torch.compile(backend="neap") at its least."""

from __future__ import annotations

import copy
import math
import sys
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import neap.torch

Found = dict[str, torch.Tensor]  # gradients and buffers by name
Run = Callable[[nn.Module, torch.Tensor], None]  # forward and backward


class Blocks(nn.Sequential):
    """Its modules one after the other, each checkpointed where that is asked for."""

    recompute: bool | None = None  # use_reentrant

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self:
            x = block(x) if self.recompute is None else checkpoint(block, x, use_reentrant=self.recompute)
        return x


def loss_of(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
    return model(x).square().mean()


def state(model: nn.Module) -> Found:
    gradients = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    return gradients | {name: b.clone().float() for name, b in model.named_buffers()}


def eager(model: nn.Module, x: torch.Tensor) -> None:
    loss_of(model, x).backward()


def checkpointed(reentrant: bool) -> Run:
    def run(model: nn.Module, x: torch.Tensor) -> None:
        model.recompute = reentrant
        loss_of(model, x.requires_grad_(reentrant)).backward()

    return run


def with_knob(budget: float) -> Run:
    """PyTorch's own: torch.compile with activation_memory_budget, by the partitioner alone (eager kernels and random numbers)."""

    def run(model: nn.Module, x: torch.Tensor) -> None:
        import torch._functorch.config as config

        torch._dynamo.reset()
        with config.patch(activation_memory_budget=budget):
            loss_of(torch.compile(model, backend="aot_eager_decomp_partition"), x).backward()

    return run


class _Take(torch.optim.Optimizer):
    """Keeps the gradients that a step gives it."""

    def __init__(self, parameters: Any):
        super().__init__(parameters, {})

    def step(self, closure: Any = None) -> None:
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    self.state[p].setdefault("taken", torch.zeros_like(p)).copy_(p.grad)


def whole_step(model: nn.Module, x: torch.Tensor) -> None:
    optimizer = _Take(model.parameters())
    neap.torch.compile_step(model, loss_of, optimizer, budget="min")(x)
    for p in model.parameters():
        p.grad = optimizer.state[p]["taken"]


def by_backend(model: nn.Module, x: torch.Tensor) -> None:
    torch._dynamo.reset()
    loss_of(torch.compile(model, backend="neap", options={"budget": "min"}), x).backward()


def difference(run: Run, make: Callable[[], nn.Module], x: torch.Tensor) -> float:
    """From eager: the largest, as a share of the largest element; infinity where it fails."""
    model = make()
    results = []
    for way in (eager, run):
        own = copy.deepcopy(model)
        torch.manual_seed(1)
        try:
            way(own, x.detach().clone())
        except Exception as error:
            print(f"{getattr(run, '__qualname__', run)}: {type(error).__name__}: {str(error)[:300]}", file=sys.stderr)
            return math.inf
        results.append(state(own))
    wanted, found = results
    gaps = [(found[n] - t).abs().max().item() / max(t.abs().max().item(), 1e-30) for n, t in wanted.items()]
    return max(gaps)


def normed() -> nn.Module:
    return Blocks(*[nn.Sequential(nn.Linear(32, 32), nn.BatchNorm1d(32), nn.ReLU()) for _ in range(4)])


def randomly_leaky() -> nn.Module:
    return Blocks(*[nn.Sequential(nn.Linear(32, 32), nn.RReLU()) for _ in range(4)])


def dropped_out() -> nn.Module:
    return Blocks(*[nn.Sequential(nn.Linear(32, 32), nn.Dropout(0.5), nn.Tanh()) for _ in range(4)])


ROWS: list[tuple[int, str, str, Run, Callable[[], nn.Module]]] = [
    (96136, "batch norm's statistics move twice", "checkpoint", checkpointed(False), normed),
    (193671, "RReLU's noise is not kept", "checkpoint", checkpointed(False), randomly_leaky),
    (190758, "dropout draws again", "activation_memory_budget 0.5", with_knob(0.5), dropped_out),
    (190758, "dropout draws again", "activation_memory_budget 0", with_knob(0.0), dropped_out),
]


def main(numbers: list[str]) -> None:
    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    x = torch.randn(64, 32)
    print("| issue | what it is about | technique | its difference | compile_step | backend |")
    print("| --- | --- | --- | --- | --- | --- |")
    for number, about, technique, run, make in ROWS:
        if not numbers or str(number) in numbers:
            gaps = [f"{difference(way, make, x):.2g}" for way in (run, whole_step, by_backend)]
            print(f"| #{number} | {about} | {technique} | {' | '.join(gaps)} |")


if __name__ == "__main__":
    main(sys.argv[1:])
