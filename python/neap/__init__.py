"""Neap plans neural-network training inside a memory budget.

A training step is bytes, costs and edges (`Step`). `plan` finds the cheapest schedule whose memory fits a budget, and an
offset for every value; memory is the resident bytes and the arena with its gaps. `check` judges any plan independently.
"""

from __future__ import annotations

from ._budget import Budget, format_bytes
from ._curve import Curve, curve
from ._errors import BadFormat, Error, Interrupted, InvalidArgument, InvalidPlan, OverBudget
from ._layout import Layout, layout
from ._library import KINDS, lib
from ._plan import CheckResult, Plan, check, plan
from ._planners import Planner, planners
from ._step import IdLists, Step

__version__: str = lib.neap_version().decode()

__all__ = [
    "KINDS",
    "BadFormat",
    "Budget",
    "CheckResult",
    "Curve",
    "Error",
    "IdLists",
    "Interrupted",
    "InvalidArgument",
    "InvalidPlan",
    "Layout",
    "OverBudget",
    "Plan",
    "Planner",
    "Step",
    "__version__",
    "check",
    "curve",
    "format_bytes",
    "layout",
    "plan",
    "planners",
]
del lib
