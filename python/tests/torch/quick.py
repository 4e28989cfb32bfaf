"""A quick pass (NEAP_QUICK) takes the first plan that is within the budget, as that of the C tests does; in processes that a test
starts, too. `make check-all` has the full planning."""

from __future__ import annotations

import os
from typing import Any

import neap

QUICK = "NEAP_QUICK" in os.environ
full_plan = neap.plan


def plan_quickly(*args: Any, **options: Any) -> neap.Plan:
    try:
        return full_plan(*args, **{"quick": True} | options)
    except neap.OverBudget:  # where the search says what would fit
        return full_plan(*args, **options)


# Options of the command for the least memory; a quick pass takes a planner that plans at once.
LEAST = ("--budget", "min", *(("--planner", "evict") if QUICK else ()))

if QUICK:
    neap.plan = plan_quickly
