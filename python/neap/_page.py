"""The page that the commands `neap show` and `neap curve` write, with the same data."""

from __future__ import annotations

import html
import json
from typing import TYPE_CHECKING, Any

from . import _library as c
from ._planners import planner_styles

if TYPE_CHECKING:
    from ._curve import Curve
    from ._plan import Plan
    from ._step import Step


def _template() -> str:
    """Reads the page's template, a file of the command; an installed package has a copy."""
    for path in (c.HERE / "page.html", c.SOURCE_TREE / "cli" / "page.html"):
        if path.is_file():
            return path.read_text(encoding="utf-8")
    raise FileNotFoundError(f"{c.HERE / 'page.html'}: the page's template is missing; install the package again")


def _fill(data: dict[str, Any]) -> str:
    """Puts data into the template as JSON in which no character begins an HTML tag."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    head, tail = _template().split("@DATA@", 1)
    return head + text.replace("<", "\\u003c").replace("&", "\\u0026") + tail


def _names(step: Step) -> dict[str, Any]:
    return {
        "graph": step.name,
        "kinds": list(c.KINDS),
        "nodes": [[step.node_name(v), step.operator(v)] for v in range(step.nodes)],
        "tensors": [step.tensor_name(t) for t in range(step.tensors)],
    }


def _plan(plan: Plan, budget: int) -> dict[str, Any]:
    instances, live = plan.instances, plan.profile()
    resident = live[0, : c.KINDS.index("gradients")].tolist() if len(live) > 0 else [0, 0, 0]
    columns = {name: instances[name].astype(int).tolist() for name in c.INSTANCE.names}
    return {
        "planner": plan.planner,
        "resident_bytes": plan.resident_bytes,
        "arena_bytes": plan.arena_bytes,
        "budget": budget,
        "recomputed": plan.recomputed,
        "overhead": plan.overhead,
        "resident": resident,
        **columns,
        "schedule": plan.schedule.tolist(),
    }


def page_of_plan(plan: Plan) -> str:
    return _fill({**_names(plan.step), "plans": [_plan(plan, plan.budget)]})


def page_of_curve(curve: Curve) -> str:
    plans = curve.points
    picture = {
        "keep_all": curve.keep_all_bytes,
        "lower_bound": curve.lower_bound_bytes,
        "planners": [curve.planner],
        "styles": planner_styles([curve.planner]),
        "points": [[0, plan.peak_bytes, plan.overhead, i] for i, plan in enumerate(plans)],
    }
    return _fill({**_names(curve.step), "curve": picture, "plans": [_plan(plan, 0) for plan in plans]})


def frame(page: str) -> str:
    """Returns the page in a frame of its own, for a page such as a notebook with other styles and scripts."""
    return (
        f'<iframe srcdoc="{html.escape(page, quote=True)}" sandbox="allow-scripts" '
        'style="width:100%;height:900px;border:0"></iframe>'
    )
