"""Random programs by both doors (fuzz.py). NEAP_FUZZ_PROGRAMS and NEAP_FUZZ_OBJECTS say how many of each family, NEAP_FUZZ_FIRST which
seed is the first."""

from __future__ import annotations

import os

import fuzz
import fuzz_objects
import fuzz_objects_run
import pytest

PROGRAMS = int(os.environ.get("NEAP_FUZZ_PROGRAMS", "20"))  # of operators, each by both doors
# Of Python's objects, each by a compiled step; each tenth by the backend, too, which takes longer.
OBJECTS = int(os.environ.get("NEAP_FUZZ_OBJECTS", "50"))
FIRST = int(os.environ.get("NEAP_FUZZ_FIRST", "0"))

# Faults of neap.torch that are known: (family, seed, door). The test fails where one of them is mended and still stands here.
KNOWN: dict[tuple[str, int, str], str] = {}
# What was found and mended by longer runs.
MENDED = [
    (20044, "backend"), (20082, "backend"), (20090, "backend"), (20092, "backend"), (20204, "backend"), (20154, "step"), (20171, "step"),
    (20192, "step"), (20193, "step"), (20241, "step"), (40104, "backend"), (40161, "backend"),
]  # fmt: skip
MENDED_OBJECTS = [(320007, "step"), (320100, "step"), (320155, "step"), (320181, "step")]


@pytest.fixture(scope="module")
def worker():
    made = fuzz.Worker()
    yield made
    made.stop()


@pytest.mark.parametrize(
    ("family", "seed", "door"),
    [("operators", seed, door) for seed in range(FIRST, FIRST + PROGRAMS) for door in ("step", "backend")]
    + [("operators", *mended) for mended in MENDED]
    + [("objects", *mended) for mended in MENDED_OBJECTS]
    + [("objects", seed, "step") for seed in range(FIRST, FIRST + OBJECTS)]
    + [("objects", seed, "backend") for seed in range(FIRST, FIRST + OBJECTS, 10)]
    + [known for known in KNOWN if known[1] >= 20000],
)
def test_program(request, worker, family, seed, door):
    if (family, seed, door) in KNOWN:
        request.applymarker(pytest.mark.xfail(reason=KNOWN[family, seed, door], strict=True))
    found = worker.ask({"seed": seed, "door": door, "family": family})
    assert found["outcome"] in ("equal", "refused"), f"python fuzz.py --family {family} --show {seed}: {found}"


@pytest.mark.long
def test_rows_of_objects():
    """Each row and each change can be in a program: eager PyTorch trains one that has nothing else."""
    for row, change in fuzz_objects.every_row():
        assert fuzz_objects_run.trains(fuzz_objects.of_row(row, change).source()), (row.name, change)


def test_a_difference_is_found():
    """The comparison finds what a step must not do: another value, a moved tensor, another object."""
    source = fuzz_objects.of_row(fuzz_objects.rows.PARTS[0], None).source()
    expected = fuzz_objects_run.eager(source)
    for spoiled in ("model.l0.bias.data[0] += 1", "optimizer.param_groups[0]['lr'] *= 2", "model.l0.bias = nn.Parameter(model.l0.bias.detach())", "model.a = 1", "torch.rand(1)", "model.l0.eval()", "model.l0.bias.grad = torch.zeros(W)"):  # fmt: skip
        other = source.replace("    return loss * weight", f"    {spoiled}\n    return loss * weight")
        assert fuzz_objects_run.differs(fuzz_objects_run.eager(other), expected), spoiled
