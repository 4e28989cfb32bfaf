"""Steps: what is given is what is kept; what breaks a rule is refused by name."""

from __future__ import annotations

import copy
import pickle
import time

import numpy as np
import pytest
from helpers import random_arguments, random_step

import neap

SMALL = {"tensor_bytes": [10, 20, 30], "inputs": [[0], [1]], "outputs": [[1], [2]]}


def test_defaults() -> None:
    step = neap.Step(**SMALL)
    assert (step.nodes, step.tensors, step.resident_bytes, step.base_cost) == (2, 3, 10, 2.0)
    assert step.roles == ["input", "value", "value"]
    assert step.passes == ["forward", "forward"]
    assert step.node_name(1) == "node 1" and step.tensor_name(2) == "tensor 2" and step.operator(0) == ""
    assert list(step.inputs) == [[0], [1]] and step.outputs[-1] == [2] and len(step.updates) == 2
    assert step.keep_all_bytes == 60


def test_arrays() -> None:
    """NumPy arrays do wherever lists do, and give the same step."""
    given = random_arguments(1)
    arrays = dict(given)
    for name in ("tensor_bytes", "costs", "workspaces", "step_outputs", "inplace"):
        arrays[name] = np.array(given[name])
    for name in ("inputs", "outputs", "updates"):
        arrays[name] = [np.array(ids, np.int64) for ids in given[name]]
    assert neap.Step(**arrays).sha256() == neap.Step(**given).sha256()


def test_digest() -> None:
    """It depends on all that planning depends on, and on nothing else."""
    given = random_arguments(2)
    digest = neap.Step(**given).sha256()
    assert neap.Step(**{**given, "name": "other", "names": None, "operators": None}).sha256() == digest
    others = [
        {"costs": [1.5, *given["costs"][1:]]},
        {"workspaces": [1, *given["workspaces"][1:]]},
        {"tensor_bytes": [*given["tensor_bytes"][:-1], 1000]},
        {"passes": ["backward", *given["passes"][1:]]},
        {"repeatable": [False] + [True] * (len(given["costs"]) - 1)},
        {"step_outputs": given["step_outputs"][:1]},
        {"inplace": []},
        {"roles": ["parameter" if role == "input" else role for role in given["roles"]]},
    ]
    digests = {neap.Step(**{**given, **other}).sha256() for other in others}
    assert len(digests | {digest}) == len(others) + 1


def test_copies() -> None:
    step = random_step(3)
    for again in (pickle.loads(pickle.dumps(step)), copy.deepcopy(step)):
        assert again.sha256() == step.sha256() and again.node_names == step.node_names


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"inputs": [[0]]}, r"outputs must have one item for each of the 1 nodes \(got 2\)"),
        ({"inputs": [[0], [7]]}, "7"),
        ({"inputs": [[0], [2**40]]}, r"inputs\[1\]\[0\]"),
        ({"inputs": [[0], [1.5]]}, r"inputs\[1\]\[0\] must be an integer \(got 1\.5\)"),
        ({"inputs": [[0], 1]}, r"inputs\[1\] must be a list"),
        ({"inputs": [[2], [1]]}, "2"),
        ({"outputs": [[1], [1]]}, "1"),
        ({"tensor_bytes": [10, -20, 30]}, r"tensor_bytes\[1\] must be from 0 to .*got -20"),
        ({"tensor_bytes": [10, 2.5, 30]}, r"tensor_bytes\[1\]"),
        ({"tensor_bytes": [2**64, 1, 1]}, r"tensor_bytes\[0\]"),
        ({"tensor_bytes": [2**63, 2**63, 2**63]}, "bytes"),
        ({"costs": [1, -1]}, "cost"),
        ({"costs": [1, float("nan")]}, "cost"),
        ({"costs": [1]}, r"costs must have one item for each of the 2 nodes \(got 1\)"),
        ({"costs": ["much", 1]}, "costs"),
        ({"workspaces": [-1, 0]}, r"workspaces\[0\]"),
        ({"roles": ["input", "value", "thing"]}, r"roles\[2\] must be one of value, input, .*got 'thing'"),
        ({"passes": ["forward", "sideways"]}, r"passes\[1\]"),
        ({"inplace": [(0, 0)]}, "inplace"),
        ({"inplace": [(9, 0, 0)]}, "node 9"),
        ({"names": ["a"]}, r"names must have one item for each of the 2 nodes \(got 1\)"),
        ({"names": ["a", 3]}, r"names\[1\]"),
        ({"step_outputs": [5]}, "5"),
    ],
)
def test_refused(change: dict[str, object], word: str) -> None:
    with pytest.raises(neap.InvalidArgument, match=word):
        neap.Step(**{**SMALL, **change})


def test_empty() -> None:
    step = neap.Step([], [], [])
    plan = neap.plan(step, "max")
    assert len(plan.schedule) == len(plan.instances) == plan.peak_bytes == 0
    assert neap.check(step, plan)


def test_large() -> None:
    """As large as what is traced from real models; generous, as it is a test of the order of growth alone."""
    count = 30_000
    inputs = [[2 * count]] + [[v - 1] for v in range(1, count)]
    inputs += [[count - 1]] + [[v - 1, 2 * count - 1 - v] for v in range(count + 1, 2 * count)]
    outputs, sizes = [[v] for v in range(2 * count)], [4096] * (2 * count + 1)
    begun = time.monotonic()
    step = neap.Step(sizes, inputs, outputs, passes=["forward"] * count + ["backward"] * count)
    assert time.monotonic() - begun < 3
    assert step.nodes == 2 * count and len(step.sha256()) == 64
