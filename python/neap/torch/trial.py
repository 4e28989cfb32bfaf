"""Optimizers to try on: copies over other parameters, which share nothing that a step changes with the user's own."""

from __future__ import annotations

import collections
import copy
from typing import Any

import torch
from torch import nn

DEPTH = 4  # of containers and objects in which an optimizer holds another
# Attributes with which a copy would step the original, or run the user's code.
NOT_COPIED = ("step", "_optimizer_step_pre_hooks", "_optimizer_step_post_hooks", "_zero_grad_profile_name")


def inner_optimizers(optimizer: torch.optim.Optimizer) -> list[torch.optim.Optimizer]:
    """Returns an optimizer and those that it holds (the base of a wrapper)."""
    found: list[torch.optim.Optimizer] = []

    def look(x: Any, depth: int) -> None:
        if isinstance(x, torch.optim.Optimizer):
            if not any(x is known for known in found):
                found.append(x)
                for key, value in vars(x).items():
                    if key not in ("state", "param_groups"):
                        look(value, depth - 1)
        elif depth > 0 and isinstance(x, (list, tuple, dict)):
            for value in list(x.values() if isinstance(x, dict) else x):
                look(value, depth - 1)

    look(optimizer, DEPTH)
    return found


def _copied(value: Any, memo: dict[int, Any]) -> Any:
    if isinstance(value, torch.Generator):
        return value.clone_state()
    try:
        return copy.deepcopy(value, memo)
    except Exception:  # a handle of the system, or of another library
        return value


def trial_of(
    optimizer: torch.optim.Optimizer, parameters: list[nn.Parameter], group: dict[str, Any]
) -> torch.optim.Optimizer:
    """Returns an optimizer of the same type and attributes over other parameters, without states, hooks and schedulers; so are the
    optimizers that it holds. group: the group of the optimizer whose settings the parameters get."""
    own = {id(p) for p in group["params"]}
    optimizers = inner_optimizers(optimizer)
    memo: dict[int, Any] = {id(o): object.__new__(type(o)) for o in optimizers}
    groups: dict[int, dict[str, Any]] = {}
    for o in optimizers:
        for g in o.param_groups:
            if id(g) not in groups and (g is group or any(id(p) in own for p in g["params"])):
                settings = {key: _copied(value, memo) for key, value in g.items() if key != "params"}
                groups[id(g)] = {**settings, "params": parameters}
    for o in optimizers:
        memo.setdefault(id(o.state), collections.defaultdict(dict))
        memo.setdefault(id(o.param_groups), [groups[id(g)] for g in o.param_groups if id(g) in groups])
    memo |= groups
    for o in optimizers:
        trial = memo[id(o)]
        trial.__dict__.update({key: _copied(value, memo) for key, value in vars(o).items() if key not in NOT_COPIED})
        trial._optimizer_step_pre_hooks = collections.OrderedDict()
        trial._optimizer_step_post_hooks = collections.OrderedDict()
    return memo[id(optimizer)]
