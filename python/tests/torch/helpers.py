"""What the tests share: states of a model and an optimizer, and both ways of training."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

Make = Callable[[Any], torch.optim.Optimizer]


def sgd(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=0.05, momentum=0.9, weight_decay=1e-3)


def adamw(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.AdamW(parameters, lr=1e-3)


def state(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, torch.Tensor]:
    """Parameters, buffers and optimizer states by name, copied."""
    found = {name: t.detach().clone() for name, t in (*model.named_parameters(), *model.named_buffers())}
    for name, p in model.named_parameters():
        for key, value in optimizer.state.get(p, {}).items():
            found[f"{name} {key}"] = torch.as_tensor(0 if value is None else value).detach().clone()
    return found


def differing(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> list[str]:
    """Names whose values differ in any bit (two NaN are equal)."""
    if a.keys() != b.keys():
        return sorted(a.keys() ^ b.keys())
    return [name for name in a if not torch.equal(a[name].nan_to_num(), b[name].nan_to_num())]


def loop(run: Any, model: nn.Module, optimizer: torch.optim.Optimizer, batch: Any, steps: int) -> list[float]:
    """The usual training loop; its losses."""
    losses = []
    for _ in range(steps):
        loss = run(model, *batch)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


def eager(case: Any, make: Make, steps: int = 3, seed: int = 5) -> tuple[list[float], dict[str, torch.Tensor]]:
    model, loss_fn, batch = copy.deepcopy(case)
    optimizer = make(model.parameters())
    torch.manual_seed(seed)
    return loop(loss_fn, model, optimizer, batch, steps), state(model, optimizer)


def compiled(
    case: Any, make: Make, budget: Any, steps: int = 3, seed: int = 5, **options: Any
) -> tuple[list[float], dict[str, torch.Tensor], Any]:
    import neap.torch

    model, loss_fn, batch = copy.deepcopy(case)
    optimizer = make(model.parameters())
    step = neap.torch.compile_step(model, loss_fn, optimizer, budget=budget, **options)
    torch.manual_seed(seed)
    losses = [step(*batch).item() for _ in range(steps)]
    return losses, state(model, optimizer), step


def backend(
    case: Any, make: Make, budget: Any, steps: int = 3, seed: int = 5, **options: Any
) -> tuple[list[float], dict[str, torch.Tensor], Any]:
    import neap.torch
    from neap.torch.backend import neap_backend

    torch._dynamo.reset()
    model, loss_fn, batch = copy.deepcopy(case)
    optimizer = make(model.parameters())
    run = torch.compile(loss_fn, backend=neap_backend, options={"budget": budget, **options}, dynamic=False)
    torch.manual_seed(seed)
    return loop(run, model, optimizer, batch, steps), state(model, optimizer), neap.torch.last_plans()


def shares(keep_all: int, least: int, resident: int) -> list[int]:
    """Budgets at 60, 40 and 25 % of keep-all's values and the least; where a share is below the least, the least."""
    values = keep_all - resident
    return sorted({max(resident + int(values * share), least) for share in (0.6, 0.4, 0.25)} | {least}, reverse=True)
