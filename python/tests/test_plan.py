"""Plans: valid by the checker and by an oracle of our own, inside their budgets, and the same each time."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from helpers import Oracle, random_arguments, random_step

import neap


def expect_right(seed: int, plan: neap.Plan) -> None:
    oracle = Oracle(random_arguments(seed))
    schedule = plan.schedule.tolist()
    made = oracle.run(schedule)
    live = oracle.live(made, len(schedule))
    cost = sum(oracle.given["costs"][v] for v in schedule)
    result = neap.check(plan.step, plan)
    assert result == neap.CheckResult(True, oracle.resident + live, cost, None, "")
    assert plan.resident_bytes == oracle.resident
    assert plan.arena_bytes >= live
    assert plan.peak_bytes == plan.resident_bytes + plan.arena_bytes <= plan.budget
    assert plan.cost == cost and plan.base_cost == sum(oracle.given["costs"])
    assert plan.recomputed == len(schedule) - len(set(schedule))
    assert plan.overhead == pytest.approx(plan.cost / plan.base_cost - 1)
    assert plan.peak_bytes >= plan.lower_bound_bytes
    oracle.check_places(made, plan)
    profile = plan.profile()
    assert profile.shape == (len(schedule), len(neap.KINDS))
    assert int(profile.sum(axis=1).max()) == result.live_peak_bytes


@pytest.mark.parametrize("seed", range(20))
def test_oracle(seed: int) -> None:
    step = random_step(seed)
    least = neap.plan(step, "min")
    expect_right(seed, least)
    keep = neap.plan(step, "max")
    expect_right(seed, keep)
    assert keep.recomputed == 0 and keep.peak_bytes == step.keep_all_bytes
    for budget in {least.peak_bytes, (least.peak_bytes + keep.peak_bytes) // 2}:
        plan = neap.plan(step, budget)
        expect_right(seed, plan)
        assert plan.budget == budget
        assert keep.cost <= plan.cost <= least.cost or plan.cost <= least.cost
    assert step.lower_bound_bytes <= least.peak_bytes


@pytest.mark.parametrize("seed", range(9))
def test_smallest(seed: int) -> None:
    """The smallest budget that is named can be met; one byte less is refused with the same number."""
    step = random_step(seed, 4)
    with pytest.raises(neap.OverBudget) as told:
        neap.plan(step, step.resident_bytes + 1)
    smallest = told.value.smallest
    assert smallest is not None and told.value.largest_batch is None
    assert neap.plan(step, smallest).peak_bytes == smallest
    with pytest.raises(neap.OverBudget) as below:
        neap.plan(step, smallest - 1)
    assert below.value.smallest == smallest


def test_planners() -> None:
    rows = neap.planners()
    assert {"keep-all", "rotor", "evict", "neap"} <= {row.name for row in rows}
    assert "checkmate" not in {row.name for row in rows}  # which needs a solver
    step = random_step(3)
    for row in rows:
        try:
            plan = neap.plan(step, "90%", row.name)
        except neap.OverBudget:
            continue
        expect_right(3, plan)
        assert plan.planner == row.name or plan.recomputed == 0


def test_same_again() -> None:
    step = random_step(4, 40)
    plans = [neap.plan(step, "70%") for _ in range(2)]
    assert np.array_equal(plans[0].schedule, plans[1].schedule)
    assert np.array_equal(plans[0].instances, plans[1].instances)


def test_quick() -> None:
    step = random_step(5)
    assert neap.plan(step, "90%", quick=True).peak_bytes <= 0.9 * step.keep_all_bytes
    with pytest.raises(neap.OverBudget) as told:
        neap.plan(step, step.resident_bytes + 1, quick=True)
    assert told.value.smallest is None


def test_progress() -> None:
    step = random_step(6, 200)
    told = []
    neap.plan(step, "60%", "neap", seconds=1, progress=lambda *row: told.append(row))
    assert told and all(seconds >= 0 and cost > 0 and isinstance(fits, bool) for seconds, cost, fits in told)
    neap.plan(step, "60%", "neap", progress=True)


def test_progress_that_raises() -> None:
    def fail(*_row: object) -> None:
        raise KeyError("enough")

    with pytest.raises(KeyError, match="enough"):
        neap.plan(random_step(6, 200), "60%", "neap", seconds=60, progress=fail)


def test_other_threads() -> None:
    step, plans = random_step(7, 30), {}

    def make(i: int) -> None:
        plans[i] = neap.plan(step, "75%")

    threads = [threading.Thread(target=make, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({plan.schedule.tobytes() for plan in plans.values()}) == 1 and len(plans) == 4


@pytest.mark.parametrize(
    ("budget", "word"),
    [
        (0, "out of range"),
        (-5, "out of range"),
        (2**63, "out of range"),
        (1.5, "must be a number of bytes"),
        (True, "must be a number of bytes"),
        (None, "must be a number of bytes"),
        ("", "size"),
        ("lots", "size"),
        ("-3GiB", "size"),
        ("0%", "size"),
        ("available", "command"),
    ],
)
def test_bad_budget(budget: object, word: str) -> None:
    with pytest.raises(neap.InvalidArgument, match=word):
        neap.plan(random_step(1), budget)


def test_budgets() -> None:
    step = random_step(8, 40)
    kept = step.keep_all_bytes
    assert neap.plan(step, "80%").budget == int(0.8 * kept)
    assert neap.plan(step, f"{kept}").budget == kept
    assert neap.plan(step, np.int64(kept)).recomputed == 0
    assert neap.plan(step, "1GiB").budget == 2**30


def test_bad_arguments() -> None:
    step = random_step(1)
    with pytest.raises(neap.InvalidArgument, match="planner 'fastest' does not exist"):
        neap.plan(step, "max", "fastest")
    with pytest.raises(neap.InvalidArgument, match="seconds"):
        neap.plan(step, "max", seconds=-1)
    for work in (-1, 1.5, True, 2**63):
        with pytest.raises(neap.InvalidArgument, match="least_work"):
            neap.plan(step, "min", least_work=work)
    with pytest.raises(neap.InvalidArgument, match=r"neap\.Step"):
        neap.plan([1, 2], "max")
    assert issubclass(neap.InvalidArgument, ValueError) and issubclass(neap.InvalidArgument, neap.Error)


def test_the_least_with_little_work_is_met_and_repeats():
    step = random_step(9, 200)
    least = neap.plan(step, "min", least_work=1)
    again = neap.plan(step, "min", least_work=1)
    assert (again.peak_bytes, list(again.schedule)) == (least.peak_bytes, list(least.schedule))
    assert neap.check(step, least).valid
    assert neap.plan(step, least.peak_bytes, least_work=1).peak_bytes <= least.peak_bytes


def test_curve() -> None:
    step = random_step(9, 12)
    curve = neap.curve(step, points=4)
    bytes_, costs = [p.peak_bytes for p in curve.points], [p.cost for p in curve.points]
    assert len(curve.points) >= 2
    assert bytes_ == sorted(set(bytes_)) and costs == sorted(set(costs), reverse=True)
    assert curve.points[-1].recomputed == 0 and bytes_[0] <= neap.plan(step, "min").peak_bytes
    assert all(neap.check(step, plan) for plan in curve.points)
    assert len(curve.table().splitlines()) == 1 + len(curve.points)
    with pytest.raises(neap.InvalidArgument, match="points"):
        neap.curve(step, points=1)


def test_layout() -> None:
    buffers = np.array([[0, 3, 4], [1, 4, 5], [3, 6, 2], [4, 7, 9], [0, 7, 1]])
    found = neap.layout(buffers)
    assert found.proven_optimal and found.height == found.lower_bound == 12
    for i, (low, high, size) in enumerate(buffers.tolist()):
        for k, (other_low, other_high, other) in enumerate(buffers.tolist()):
            if i != k and low < other_high and other_low < high:
                a, b = int(found.offsets[i]), int(found.offsets[k])
                assert a + size <= b or b + other <= a
    assert neap.layout([]).height == 0
    with pytest.raises(neap.OverBudget) as told:
        neap.layout(buffers, capacity=11)
    assert told.value.smallest == 12
    for bad in ([[3, 3, 1]], [[0, 1, -1]], [[0, 1]], [["a", 1, 1]]):
        with pytest.raises(neap.InvalidArgument):
            neap.layout(bad)


def test_format_bytes() -> None:
    counts = (0, 999, 1000, 10_000_000, 870_000_000, 2**40)
    assert [neap.format_bytes(n) for n in counts] == ["0 B", "999 B", "0.98 KiB", "9.54 MiB", "829.7 MiB", "1.00 TiB"]
