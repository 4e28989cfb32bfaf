"""Random steps, and an oracle that says what a plan of them is, written from docs/formats.md alone."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import pytest

import neap

ROOT = Path(__file__).resolve().parents[2]


def command() -> str:
    """The command `neap`; the test is skipped where it was not built."""
    path = Path(os.environ.get("NEAP_COMMAND", ROOT / "build" / "neap"))
    if not path.exists():
        pytest.skip(f"{path} was not built")
    return str(path)


def random_arguments(seed: int, forward: int = 6) -> dict[str, Any]:
    """A small network with its gradients, some in place, some with workspaces, and updates of its parameters."""
    draw = random.Random(seed)
    sizes = [draw.randrange(1, 100)]  # tensor 0 is the input
    roles = ["input"]
    arguments: dict[str, Any] = {name: [] for name in ("inputs", "outputs", "passes", "updates", "inplace")}

    def tensor(size: int, role: str) -> int:
        sizes.append(size)
        roles.append(role)
        return len(sizes) - 1

    def node(inputs: list[int], kind: str, updates: list[int] | None = None) -> int | None:
        made = [] if updates else [tensor(draw.randrange(1, 100), "value")]
        if made and draw.random() < 0.3:
            arguments["inplace"].append((len(arguments["inputs"]), 0, 0))
        arguments["inputs"].append(inputs)
        arguments["outputs"].append(made)
        arguments["passes"].append(kind)
        arguments["updates"].append(updates or [])
        return made[0] if made else None

    values, reads, parameters = [0], [], []
    for _ in range(forward):
        read = [values[-1]] + ([draw.choice(values)] if draw.random() < 0.4 else [])
        parameters.append(tensor(draw.randrange(1, 30), "parameter") if draw.random() < 0.5 else None)
        reads.append(list(dict.fromkeys(read)) + ([parameters[-1]] if parameters[-1] is not None else []))
        values.append(node(reads[-1], "forward"))
    gradient = values[-1]
    for read, parameter in zip(reversed(reads), reversed(parameters), strict=True):
        gradient = node(list(dict.fromkeys([gradient, *read])), "backward")
        if parameter is not None and draw.random() < 0.7:
            node([gradient, parameter], "update", [parameter])
    count = len(arguments["inputs"])
    return {
        **arguments,
        "tensor_bytes": sizes,
        "roles": roles,
        "costs": [draw.randrange(1, 10) for _ in range(count)],
        "workspaces": [draw.choice([0, 0, 0, 17]) for _ in range(count)],
        "step_outputs": [gradient, values[-1]],
        "names": [f'node <{v}> "&' for v in range(count)],
        "operators": [f"op{v % 3}" for v in range(count)],
        "name": f"random {seed}",
    }


def random_step(seed: int, forward: int = 6) -> neap.Step:
    return neap.Step(**random_arguments(seed, forward))


class Oracle:
    """A step's arguments as they were given, and what follows from a schedule."""

    def __init__(self, arguments: dict[str, Any]) -> None:
        self.given = arguments
        sizes, roles = arguments["tensor_bytes"], arguments["roles"]
        self.sizes, self.value = sizes, [role == "value" for role in roles]
        self.resident = sum(size for size, value in zip(sizes, self.value, strict=True) if not value)

    def run(self, schedule: list[int]) -> list[dict[str, Any]]:
        """The instances of a schedule; fails where it breaks a rule."""
        given, newest, made, has_run = self.given, {}, [], set()
        for at, v in enumerate(schedule):
            again = v in has_run
            assert not (again and given["updates"][v]), "an update runs once"
            has_run.add(v)
            for t in given["inputs"][v]:
                if self.value[t]:
                    newest[t]["last"] = at
                else:
                    updater = next((u for u, changed in enumerate(given["updates"]) if t in changed), None)
                    assert updater is None or updater == v or updater not in has_run, "a reader after the update"
            for t in given["outputs"][v]:
                newest[t] = {"tensor": t, "first": at, "last": at, "bytes": self.sizes[t], "host": None}
                made.append(newest[t])
            if given["workspaces"][v]:
                made.append({"tensor": -1, "first": at, "last": at, "bytes": given["workspaces"][v], "host": None})
        assert has_run == set(range(len(given["inputs"]))), "every node runs"
        for t in given["step_outputs"]:
            newest[t]["last"] = len(schedule) - 1
            newest[t]["kept"] = True
        self._take_over(schedule, made)
        return made

    def _take_over(self, schedule: list[int], made: list[dict[str, Any]]) -> None:
        by_place = {(i["first"], i["tensor"]): i for i in made}
        newest: dict[int, dict[str, Any]] = {}
        for at, v in enumerate(schedule):
            taken = []
            for node, output, place in self.given["inplace"]:
                source = newest.get(self.given["inputs"][node][place]) if node == v else None
                if source is None or source["last"] != at or source in taken or source.get("kept"):
                    continue
                guest = by_place[at, self.given["outputs"][v][output]]
                if guest["host"] is None and source["bytes"] >= guest["bytes"]:
                    guest["host"] = source
                    taken.append(source)
            for t in self.given["outputs"][v]:
                newest[t] = by_place[at, t]

    @staticmethod
    def live(made: list[dict[str, Any]], length: int) -> int:
        """The largest live bytes at a position: of an in-place pair the larger counts, which is the host."""
        return max(
            sum(i["bytes"] for i in made if i["first"] + (i["host"] is not None) <= at <= i["last"])
            for at in range(length)
        )

    def check_places(self, made: list[dict[str, Any]], plan: neap.Plan) -> None:
        rows = plan.instances
        assert rows["tensor"].tolist() == [i["tensor"] for i in made]
        assert rows["first"].tolist() == [i["first"] for i in made]
        assert rows["last"].tolist() == [i["last"] for i in made]
        assert rows["bytes"].tolist() == [i["bytes"] for i in made]
        for i, offset in zip(made, rows["offset"].tolist(), strict=True):
            i["from"], i["to"] = offset, offset + i["bytes"]
            assert i["to"] <= plan.arena_bytes
        for i in made:
            for k in made:
                if i is k or i["from"] >= k["to"] or k["from"] >= i["to"]:
                    continue
                if i["first"] > k["last"] or k["first"] > i["last"]:
                    continue
                pair = (i, k) if i["host"] is k else (k, i)
                meets = pair[0]["host"] is pair[1] and pair[0]["first"] == pair[1]["last"]
                assert meets and pair[1]["from"] <= pair[0]["from"] and pair[0]["to"] <= pair[1]["to"]
