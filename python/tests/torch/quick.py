"""A quick pass (NEAP_QUICK) takes the first plan that is within the budget, and for the least memory that of a planner which plans
at once, as the C tests do; in processes that a test starts, too. `make check-all` has the full planning."""

from __future__ import annotations

import os
from typing import Any

import neap

QUICK = "NEAP_QUICK" in os.environ
AT_ONCE = "evict"
full_plan = neap.plan


def plan_quickly(step: neap.Step, budget: int | str, planner: str = "auto", **options: Any) -> neap.Plan:
    if (budget, planner) == ("min", "auto"):
        return full_plan(step, budget, AT_ONCE, **options)
    try:
        return full_plan(step, budget, planner, **{"quick": True} | options)
    except neap.OverBudget:  # without what would fit
        return full_plan(step, budget, AT_ONCE if planner == "auto" else planner, **options)


# Options of the command for the least memory; a quick pass takes a planner that plans at once.
LEAST = ("--budget", "min", *(("--planner", AT_ONCE) if QUICK else ()))

if QUICK:
    neap.plan = plan_quickly
