"""Optimizers of ones own and hooks, of kinds that people write. `test_whole_optimizers.py` trains with them."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

Optimizer = torch.optim.Optimizer


def all_parameters(optimizer: Optimizer) -> list[nn.Parameter]:
    return [p for group in optimizer.param_groups for p in group["params"]]


class Lion(Optimizer):
    """Each parameter by itself."""

    def __init__(self, parameters: Any, lr: float = 1e-2):
        super().__init__(parameters, {"lr": lr, "betas": (0.9, 0.99)})

    @torch.no_grad()
    def step(self) -> None:
        for group in self.param_groups:
            a, b = group["betas"]
            for p in group["params"]:
                if p.grad is not None:
                    momentum = self.state[p].setdefault("momentum", torch.zeros_like(p))
                    p.sub_(momentum.mul(a).add_(p.grad, alpha=1 - a).sign_(), alpha=group["lr"])
                    momentum.mul_(b).add_(p.grad, alpha=1 - b)


class ClippedAdamW(torch.optim.AdamW):
    """Clips by the global norm inside its step."""

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        torch.nn.utils.clip_grad_norm_(all_parameters(self), 0.5)
        return super().step(closure)


class SlowedSGD(torch.optim.SGD):
    """Decays all parameters in each third step, by an attribute."""

    def __init__(self, parameters: Any, lr: float = 0.05):
        super().__init__(parameters, lr=lr, momentum=0.9)
        self.calls = 0

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        self.calls += 1
        if self.calls % 3 == 0:
            for p in all_parameters(self):
                p.mul_(0.9)
        return super().step(closure)


class Lookahead(Optimizer):
    """Zhang et al. 2019, around an optimizer whose groups are its own; as many are written, without the base class's attributes."""

    def __init__(self, base: Optimizer, k: int = 5, alpha: float = 0.5):
        self.optimizer, self.k, self.alpha, self.calls = base, k, alpha, 0
        self.slow = [p.detach().clone() for p in all_parameters(base)]

    @property
    def param_groups(self) -> Any:
        return self.optimizer.param_groups

    @property
    def state(self) -> Any:
        return self.optimizer.state

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        loss = self.optimizer.step(closure)
        self.calls += 1
        if self.calls % self.k == 0:
            for slow, p in zip(self.slow, all_parameters(self), strict=True):
                slow.add_(p - slow, alpha=self.alpha)
                p.copy_(slow)
        return loss


class SAM(Optimizer):
    """Foret et al. 2021, in two passes."""

    def __init__(self, parameters: Any, base: Callable[..., Optimizer], rho: float = 0.05, **options: Any):
        super().__init__(parameters, {"rho": rho, **options})
        self.base_optimizer = base(self.param_groups, **options)
        self.param_groups = self.base_optimizer.param_groups

    @torch.no_grad()
    def first_step(self, zero_grad: bool = False) -> None:
        ps = [p for p in all_parameters(self) if p.grad is not None]
        norm = torch.norm(torch.stack([p.grad.norm(p=2) for p in ps]), p=2)
        for p in ps:
            self.state[p]["old"] = p.data.clone()
            p.add_(p.grad * (self.defaults["rho"] / (norm + 1e-12)))
        if zero_grad:
            self.zero_grad()

    @torch.no_grad()
    def second_step(self, zero_grad: bool = False) -> None:
        for p in all_parameters(self):
            if "old" in self.state[p]:
                p.data = self.state[p]["old"]
        self.base_optimizer.step()
        if zero_grad:
            self.zero_grad()

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        assert closure is not None, "SAM takes a closure"
        closure = torch.enable_grad()(closure)
        self.first_step(zero_grad=True)
        closure()
        self.second_step()


class ScheduleFreeSGD(Optimizer):
    """Defazio et al. 2024: the group counts steps and adds up weights."""

    def __init__(self, parameters: Any, lr: float = 0.05, beta: float = 0.9):
        super().__init__(parameters, {"lr": lr, "beta": beta, "k": 0, "weights": 0.0})

    @torch.no_grad()
    def step(self) -> None:
        for group in self.param_groups:
            weight = ((group["k"] + 1) ** 0.5) * group["lr"]
            group["weights"] += weight
            c = weight / group["weights"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                z = self.state[p].setdefault("z", p.detach().clone())
                p.lerp_(z, c).add_(p.grad, alpha=group["lr"] * (group["beta"] * (1 - c) - 1))
                z.sub_(p.grad, alpha=group["lr"])
            group["k"] += 1


class Shampoo(Optimizer):
    """Gupta et al. 2018: a matrix for each dimension, whose root is taken in each fourth step by a counter of its own."""

    def __init__(self, parameters: Any, lr: float = 0.05, every: int = 4):
        super().__init__(parameters, {"lr": lr})
        self.every, self.number = every, 0

    @torch.no_grad()
    def step(self) -> None:
        for p in all_parameters(self):
            if p.grad is None:
                continue
            state, gradient = self.state[p], p.grad.clone()
            for d, n in enumerate(gradient.shape):  # each product moves the first dimension to the end
                sums, flat = state.setdefault(f"sums {d}", 1e-3 * torch.eye(n)), gradient.reshape(n, -1)
                sums += flat @ flat.t()
                if self.number % self.every == 0:
                    values, vectors = torch.linalg.eigh(sums)
                    root = values.clamp_min(1e-6) ** (-1 / (2 * p.dim()))
                    state[f"root {d}"] = vectors @ torch.diag(root) @ vectors.t()
                gradient = torch.tensordot(gradient, state[f"root {d}"], ([0], [0]))
            p.sub_(gradient, alpha=self.param_groups[0]["lr"])
        self.number += 1


class Momentum(Optimizer):
    """Signed steps. kind: how it keeps its state."""

    def __init__(self, parameters: Any, kind: str, lr: float = 0.01):
        super().__init__(parameters, {"lr": lr})
        self.kind = kind

    @torch.no_grad()
    def step(self) -> None:
        for p in all_parameters(self):
            if p.grad is None:
                continue
            state = self.state[p]
            if self.kind == "new":
                state["m"] = state.get("m", 0) * 0.9 + p.grad
            elif self.kind == "gradient":
                p.sub_(state["m"], alpha=0.01) if "m" in state else None
                state["m"] = p.grad
            else:
                state["m"] = p.grad + torch.randn_like(p) * 0.1
            p.sub_(state["m"].sign(), alpha=self.param_groups[0]["lr"])


# ---- Hooks ----


def clipped_by_a_hook(model: nn.Module) -> Optimizer:
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)

    def clip(one: Optimizer, args: Any, kwargs: Any) -> None:
        torch.nn.utils.clip_grad_norm_(all_parameters(one), 0.3)

    optimizer.register_step_pre_hook(clip)
    return optimizer


def averaged_by_a_hook(model: nn.Module) -> Optimizer:
    """A hook after the step moves buffers of the model towards its parameters, by how large gradients are."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    means = [p.detach().clone() for p in model.parameters()]
    for i, mean in enumerate(means):
        model.register_buffer(f"mean_{i}", mean)

    def average(one: Optimizer, args: Any, kwargs: Any) -> None:
        with torch.no_grad():
            for i, p in enumerate(model.parameters()):
                getattr(model, f"mean_{i}").lerp_(p, float(0.1 + 0.1 * torch.tanh(p.grad.norm())))

    optimizer.register_step_post_hook(average)
    return optimizer


def stepped_in_backward(model: nn.Module) -> Optimizer:
    """Each parameter has an optimizer of its own, whose step is run by the hook of its gradient; the model's steps what is left."""
    ones = {p: torch.optim.AdamW([p], lr=1e-2) for p in list(model.parameters())[:-1]}

    def run(p: torch.Tensor) -> None:
        ones[p].step()
        ones[p].zero_grad()

    for p in ones:
        p.register_post_accumulate_grad_hook(run)
    return torch.optim.SGD(model.parameters(), lr=0.1)


def limit(p: torch.Tensor) -> None:
    p.grad.clamp_(-0.01, 0.01)


def limited_by_gradient_hooks(model: nn.Module) -> Optimizer:
    for p in model.parameters():
        p.register_post_accumulate_grad_hook(limit)
    return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


def replaced_step(model: nn.Module) -> Optimizer:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def scaled(self: Optimizer, closure: Any = None) -> Any:
        for p in all_parameters(self):
            p.grad /= p.grad.norm() + 1e-3
        return type(self).step(self, closure)

    optimizer.step = types.MethodType(scaled, optimizer)
    return optimizer
