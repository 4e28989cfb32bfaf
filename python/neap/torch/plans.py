"""A cache of plans, by step and budget, in the user's cache directory."""

from __future__ import annotations

import hashlib
from typing import Any

import neap

from . import allocator


def cached_plan(
    step: neap.Step, budget: int | str, planner: str = "auto", seconds: float = 0.0, progress: Any = None
) -> neap.Plan:
    """As neap.plan, but takes the plan from the cache if it has one and `neap.check` accepts it."""
    key = hashlib.sha256(f"{neap.__version__} {step.sha256()} {budget} {planner} {seconds}".encode()).hexdigest()[:32]
    path = allocator.cache_directory() / "plans" / f"{key}.json"
    if path.exists():
        try:
            plan = neap.Plan.read(path, step)
            if neap.check(step, plan).valid:
                return plan
        except (neap.Error, OSError, ValueError):
            pass
    plan = neap.plan(step, budget, planner, seconds=seconds, progress=progress)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        plan.write(path)
    except OSError:
        pass
    return plan
