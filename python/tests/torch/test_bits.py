"""Both doors give the bits of eager PyTorch at every budget. The oracle is eager PyTorch.

NEAP_TEST_MODELS=all also takes the models of torchvision and transformers (minutes)."""

from __future__ import annotations

import os

import cases
import helpers
import pytest
import torch
from quick import QUICK

import neap
import neap.torch

VERSION = tuple(map(int, torch.__version__.split(".")[:2]))
NAMES = list(cases.ALL if os.environ.get("NEAP_TEST_MODELS") == "all" else cases.OURS)


@pytest.fixture(scope="module", params=NAMES)
def trained(request):
    torch.manual_seed(0)
    case = cases.ALL[request.param]()
    return case, helpers.eager(case, helpers.adamw)


def poisoner(step):
    """Overwrites each instance's bytes behind its last read, and says how many it did."""
    compiled = step._last()
    program = compiled.program
    instances = [
        dict(zip(program.plan.instances.dtype.names, row, strict=True)) for row in program.plan.instances.tolist()
    ]
    done = [0]

    def after(position: int) -> None:
        for dead in instances:
            if dead["last"] != position or dead["bytes"] == 0 or dead["tensor"] in program.assembly.kept:
                continue
            end = dead["offset"] + dead["bytes"]
            alive = [
                i for i in instances
                if i is not dead and i["first"] <= position and (i["last"] > position or i["tensor"] in program.assembly.kept) and i["offset"] < end and dead["offset"] < i["offset"] + i["bytes"]
            ]  # fmt: skip
            if not alive:
                program.arena.bytes(dead["offset"], dead["bytes"]).fill_(255)
                done[0] += 1

    return after, done


def test_compile_step(trained):
    case, (losses, state) = trained
    _, _, everything = helpers.compiled(case, helpers.adamw, "max", 1)
    _, _, least = helpers.compiled(case, helpers.adamw, "min", 1)
    keep_all, smallest = everything.memory, least.memory.planned_peak_bytes
    repeats = 0
    shares = helpers.shares(keep_all.keep_all_bytes, smallest, keep_all.resident_bytes)
    for budget in (keep_all.keep_all_bytes, *(shares[::-2] if QUICK else shares)):
        got, got_state, step = helpers.compiled(case, helpers.adamw, budget)
        assert got == losses
        assert helpers.differing(got_state, state) == []
        memory = step.memory
        assert memory.enforced, memory.why
        assert 0 < memory.measured_peak_bytes <= memory.planned_peak_bytes <= budget
        assert neap.check(step.step, step.plan).valid
        repeats += memory.recomputed
    assert (repeats > 0) == (least.memory.recomputed > 0)  # one call alone may need the least memory


def test_dead_memory_is_never_read(trained):
    case, (losses, state) = trained
    import copy

    model, loss_fn, batch = copy.deepcopy(case)
    optimizer = helpers.adamw(model.parameters())
    step = neap.torch.compile_step(model, loss_fn, optimizer, budget="min")
    step.prepare(*batch)
    after, done = poisoner(step)
    torch.manual_seed(5)
    got = [step._run(batch, after).item() for _ in range(3)]
    assert got == losses
    assert helpers.differing(helpers.state(model, optimizer), state) == []
    assert done[0] > 100


def test_backend(trained):
    case, (losses, state) = trained
    for budget in ("max", "60%", "min"):
        try:
            got, got_state, memories = helpers.backend(case, helpers.adamw, budget)
        except Exception as error:  # 60 % can be below the least
            assert budget == "60%" and isinstance(getattr(error, "inner_exception", error), neap.OverBudget)
            continue
        assert got == losses
        assert helpers.differing(got_state, state) == []
        assert all(m.planned_peak_bytes <= m.budget_bytes for m in memories)
        # PyTorch 2.13 leaves modules that hold an nn.LSTM to eager, 2.15 compiles them.
        left = any(isinstance(m, torch.nn.LSTM) for m in case[0].modules()) and VERSION < (2, 15)
        assert (len(memories) >= 1) != left


def test_without_the_allocator(trained, monkeypatch):
    from neap.torch import allocator

    monkeypatch.setattr(allocator, "_library", None)
    monkeypatch.setattr(allocator, "_reason", "a test")
    case, (losses, state) = trained
    with pytest.warns(UserWarning, match="planned, not enforced"):
        got, got_state, step = helpers.compiled(case, helpers.adamw, "min")
    assert got == losses
    assert helpers.differing(got_state, state) == []
    assert not step.memory.enforced
