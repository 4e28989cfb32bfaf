"""Graph and plan files come back as they were, are those of the command, and are refused by field and place."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import command, random_step

import neap


def run(*arguments: object) -> dict[str, Any]:
    done = subprocess.run(
        [command(), *map(str, arguments), "--json"], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.stdout, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("seed", range(6))
def test_round_trip(seed: int, tmp_path: Path) -> None:
    step = random_step(seed)
    step.write(tmp_path / "graph.json")
    again = neap.Step.read(tmp_path / "graph.json")
    assert again.sha256() == step.sha256() and again.name == step.name
    assert again.node_names == step.node_names and again.operators == step.operators
    plan = neap.plan(step, "min")
    plan.write(tmp_path / "plan.json")
    read = neap.Plan.read(tmp_path / "plan.json", again)
    assert neap.check(again, read) == neap.check(step, plan)
    assert np.array_equal(read.schedule, plan.schedule) and np.array_equal(read.instances, plan.instances)
    for name in ("graph", "planner", "peak_bytes", "arena_bytes", "cost", "base_cost", "recomputed"):
        assert getattr(read, name) == getattr(plan, name)
    assert read.lower_bound_bytes is None and read.seconds is None and not read.proven_optimal
    assert read.budget == read.peak_bytes
    assert os.listdir(tmp_path) != [] and not list(tmp_path.glob("*.part"))


@pytest.mark.parametrize("seed", range(3))
def test_command(seed: int, tmp_path: Path) -> None:
    """The command takes what is written here, and the other way round; and finds the same plan."""
    step, graph, file = random_step(seed), tmp_path / "graph.json", tmp_path / "plan.json"
    step.write(graph)
    plan = neap.plan(step, "80%")
    plan.write(file)
    told = run("check", graph, file)
    assert told["valid"] and told["cost"] == plan.cost
    assert told["peak_bytes"] == neap.check(step, plan).live_peak_bytes
    theirs = run("plan", graph, "--budget", "80%", "-o", tmp_path / "theirs.json")
    assert theirs["cost"] == plan.cost and theirs["peak_bytes"] == plan.peak_bytes
    read = neap.Plan.read(tmp_path / "theirs.json", step)
    assert neap.check(step, read) and np.array_equal(read.schedule, plan.schedule)


def test_invalid_plan(tmp_path: Path) -> None:
    step = random_step(1)
    neap.plan(step, "min").write(tmp_path / "plan.json")
    value = json.loads((tmp_path / "plan.json").read_text())
    value["instances"][1]["offset"] = 10**9
    (tmp_path / "bad.json").write_text(json.dumps(value))
    plan = neap.Plan.read(tmp_path / "bad.json", step)
    result = neap.check(step, plan)
    assert not result and result.reason
    with pytest.raises(neap.InvalidPlan) as told:
        _ = plan.instances
    assert str(told.value) == result.reason and told.value.position == result.position
    with pytest.raises(neap.InvalidPlan):
        plan.write(tmp_path / "again.json")
    assert not (tmp_path / "again.json").exists()
    other = neap.Plan.read(tmp_path / "plan.json", random_step(2))
    assert not neap.check(other.step, other)


def _set(value: Any, path: str, new: Any) -> None:
    keys = [int(key) if key.isdigit() else key for key in re.findall(r"\w+", path)]
    for key in keys[:-1]:
        value = value[key]
    if new is ...:
        del value[keys[-1]]
    else:
        value[keys[-1]] = new


@pytest.mark.parametrize(
    ("path", "new", "word"),
    [
        ("version", 2, "version"),
        ("format", "neap-plan", "format"),
        ("name", ..., "'name': is missing"),
        ("tensors[1].bytes", -1, r"tensors\[1\]\.bytes"),
        ("tensors[1].bytes", 2**63, r"tensors\[1\]\.bytes"),
        ("tensors[1].bytes", True, r"tensors\[1\]\.bytes"),
        ("tensors[1].role", "thing", r"tensors\[1\]\.role"),
        ("tensors[2]", 5, r"tensors\[2\]"),
        ("nodes[1].cost", "much", r"nodes\[1\]\.cost"),
        ("nodes[1].inputs", 3, r"nodes\[1\]\.inputs"),
        ("nodes[1].inputs[0]", -1, r"nodes\[1\]\.inputs\[0\]"),
        ("nodes[1].inputs[0]", 9999, "9999"),
        ("nodes[1].pass", "sideways", r"nodes\[1\]\.pass"),
        ("nodes[0].workspace", ..., r"nodes\[0\]\.workspace"),
        ("nodes[0].inplace", [[0]], r"nodes\[0\]\.inplace"),
        ("nodes[0].repeatable", 1, r"nodes\[0\]\.repeatable"),
        ("outputs", {}, "outputs"),
    ],
)
def test_bad_graph(path: str, new: Any, word: str, tmp_path: Path) -> None:
    random_step(1).write(tmp_path / "graph.json")
    value = json.loads((tmp_path / "graph.json").read_text())
    _set(value, path, new)
    (tmp_path / "bad.json").write_text(json.dumps(value))
    with pytest.raises(neap.BadFormat, match=word) as told:
        neap.Step.read(tmp_path / "bad.json")
    assert "bad.json" in str(told.value)


@pytest.mark.parametrize(
    ("path", "new", "word"),
    [
        ("schedule[0]", "a", r"schedule\[0\]"),
        ("instances[0].at", ..., r"instances\[0\]\.at"),
        ("instances[0].tensor", -2, r"instances\[0\]"),
        ("arena_bytes", 1.5, "arena_bytes"),
        ("cost", None, "cost"),
        ("planner", ..., "planner"),
    ],
)
def test_bad_plan(path: str, new: Any, word: str, tmp_path: Path) -> None:
    step = random_step(1)
    neap.plan(step, "max").write(tmp_path / "plan.json")
    value = json.loads((tmp_path / "plan.json").read_text())
    _set(value, path, new)
    (tmp_path / "bad.json").write_text(json.dumps(value))
    with pytest.raises(neap.BadFormat, match=word):
        neap.Plan.read(tmp_path / "bad.json", step)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": "neap-graph", "format": 1}', "\xff", '{"a": NaN}'])
def test_no_json(text: str, tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(neap.BadFormat, match=r"bad\.json"):
        neap.Step.read(tmp_path / "bad.json")


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        neap.Step.read(tmp_path / "none.json")
    with pytest.raises(OSError):
        random_step(1).write(tmp_path / "none" / "graph.json")


def test_written_whole(tmp_path: Path) -> None:
    """A link stays one, and a mode is kept."""
    target, link = tmp_path / "graph.json", tmp_path / "link.json"
    random_step(1).write(target)
    target.chmod(0o640)
    link.symlink_to(target)
    random_step(2).write(link)
    assert link.is_symlink() and target.stat().st_mode & 0o777 == 0o640
    assert neap.Step.read(target).sha256() == random_step(2).sha256()


def data_of(page: str) -> dict[str, Any]:
    text = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert text is not None
    return json.loads(text.group(1))


def test_page(tmp_path: Path) -> None:
    """The same data as in the page that the command writes."""
    step = random_step(3)
    step.write(tmp_path / "graph.json")
    plan = neap.plan(step, "80%")
    plan.write(tmp_path / "plan.json")
    data = data_of(plan.html())
    assert data["nodes"][0] == ['node <0> "&', "op0"] and data["graph"] == "random 3"
    assert data["plans"][0]["schedule"] == plan.schedule.tolist()
    assert plan._repr_html_().startswith("<iframe srcdoc=") and "<script" not in plan._repr_html_()
    subprocess.run(
        [command(), "show", tmp_path / "graph.json", tmp_path / "plan.json", "-o", tmp_path / "page.html"],
        check=True,
        capture_output=True,
        timeout=60,
    )
    page = (tmp_path / "page.html").read_text()
    theirs = data_of(page)
    for one in (data, theirs):
        one["plans"][0].pop("budget")
        one["plans"][0]["overhead"] = round(one["plans"][0]["overhead"], 6)
    assert data == theirs
    marker = '<script type="application/json" id="data">'
    assert plan.html().split(marker)[0] == page.split(marker)[0]


def test_curve_page() -> None:
    curve = neap.curve(random_step(4, 12), points=4)
    data = data_of(curve.html())
    assert len(data["plans"]) == len(data["curve"]["points"]) == len(curve.points)
    assert data["curve"]["keep_all"] == curve.keep_all_bytes
    assert data["curve"]["planners"] == ["auto"] and data["curve"]["styles"] == [0]
