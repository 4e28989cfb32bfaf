"""A cache of plans, by step and budget, in the user's cache directory."""

from __future__ import annotations

import hashlib
from typing import Any

import neap

from . import allocator

LEAST_SECONDS, LEAST_STEPS = 10, 10  # of looking for the least budget
WORK_A_SECOND = 5_000_000  # moves of a node in the search, on a core of 2023


def cached_plan(
    step: neap.Step, budget: int | str, planner: str = "auto", seconds: float = 0.0, progress: Any = None
) -> neap.Plan:
    """As neap.plan, but takes the plan from the cache if it has one and `neap.check` accepts it, and looks for the least budget for
    about ten steps or ten seconds, whichever is longer."""
    work = round(WORK_A_SECOND * max(LEAST_SECONDS, LEAST_STEPS * step.base_cost))
    key = hashlib.sha256(
        f"{neap.__version__} {step.sha256()} {budget} {planner} {seconds} {work}".encode()
    ).hexdigest()[:32]
    path = allocator.cache_directory() / "plans" / f"{key}.json"
    if path.exists():
        try:
            plan = neap.Plan.read(path, step)
            if neap.check(step, plan).valid:
                return plan
        except (neap.Error, OSError, ValueError):
            pass
    plan = neap.plan(step, budget, planner, seconds=seconds, progress=progress, least_work=work)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        plan.write(path)
    except OSError:
        pass
    return plan
