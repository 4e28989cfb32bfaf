#!/usr/bin/env python3
"""Short trainings as people write them, beside eager PyTorch: what neap.torch makes of each.

    workloads.py [--only NAME]... [--budget BUDGET] [--json] [--list]

A row each, in Markdown: whether losses, weights, buffers, states and random generators have eager's bits; planned and measured bytes; the
seconds until the first step has run, less those of a later one; the time of a step beside eager's (median of a few, in turn); or the words
of the refusal. What is not installed is said so, and is not counted as equal. The trainings are those of workload_cases.py. The exit
status is 1 where bits differ or a training fails."""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import re
import signal
import statistics
import sys
import time
import traceback
import warnings
from collections.abc import Iterator
from typing import Any

import torch
import workload_cases as cases
from torch import nn

import neap
import neap.torch

LIMIT = 420  # seconds of a training
ROUNDS = 5  # timed steps
LAST = 4  # timed steps of another package's trainer: its last ones
COUNTS = ("equal", "refused", "differs", "failed", "not installed")


@dataclasses.dataclass
class Row:
    name: str
    kind: str
    outcome: str = "equal"
    words: str = ""  # of a refusal or a difference
    planned_bytes: int = 0
    measured_bytes: int = 0
    prepare_seconds: float = math.nan
    ratio: float = math.nan


# ---- A plain loop beside compile_step ----


def seen(case: cases.Case, random_state: bool = True) -> dict[str, Any]:
    """All that a training changes, by name, copied."""
    found: dict[str, Any] = {}
    owners = {f"{i} ": t.model for i, t in enumerate(case.trainers)} | case.others
    for owner, x in owners.items():
        named = {**dict(x.named_parameters()), **dict(x.named_buffers())} if isinstance(x, nn.Module) else x
        found |= {f"{owner}{n}": v for n, v in named.items()}
    for i, t in enumerate(case.trainers):
        for j, p in enumerate(p for group in t.optimizer.param_groups for p in group["params"]):
            found |= {f"state {i} {j} {k}": v for k, v in t.optimizer.state.get(p, {}).items()}
    if random_state:
        found["random state"] = torch.get_rng_state()
    return {k: v.detach().clone() if isinstance(v, torch.Tensor) else v for k, v in found.items()}


def same(a: Any, b: Any) -> bool:
    if not isinstance(a, torch.Tensor) or not isinstance(b, torch.Tensor):
        return a == b
    return a.shape == b.shape and a.dtype == b.dtype and torch.equal(a.nan_to_num(), b.nan_to_num())


def difference(got: dict[str, Any], expected: dict[str, Any]) -> str:
    names = [n for n in {**got, **expected} if not same(got.get(n), expected.get(n))]
    return f"{len(names)} of {len(expected)} differ: {', '.join(names[:2])}" if names else ""


def eager_step(trainer: cases.Trainer, args: tuple[Any, ...]) -> torch.Tensor:
    for group in trainer.optimizer.param_groups:
        for p in group["params"]:
            p.grad = None
    if trainer.eager is not None:
        return trainer.eager(*args)
    result = trainer.loss_fn(trainer.model, *args)
    loss = result[0] if isinstance(result, tuple) else result
    loss.backward()
    if trainer.clip_norm is not None:
        own = [p for group in trainer.optimizer.param_groups for p in group["params"]]
        torch.nn.utils.clip_grad_norm_(own, trainer.clip_norm)
    trainer.optimizer.step()
    for group in trainer.optimizer.param_groups:
        for p in group["params"]:
            p.grad = None
    return loss.detach()


class Training:
    """A case in training: eagerly, or with one compiled step for each trainer."""

    def __init__(self, work: cases.Work, budget: str | None):
        torch.manual_seed(0)
        self.case, self.budget = work.make(), budget
        self.steps: dict[int, tuple[Any, Any]] = {}
        torch.manual_seed(1)
        self.number = 0

    def compiled(self, i: int, trainer: cases.Trainer) -> Any:
        objects = trainer.model, trainer.loss_fn, trainer.optimizer
        known = self.steps.get(i)
        if known is None or any(a is not b for a, b in zip(known[0], objects, strict=True)):
            options = {"clip_norm": trainer.clip_norm, **trainer.options}
            self.steps[i] = known = objects, neap.torch.compile_step(*objects, budget=self.budget, **options)
        return known[1]

    def step(self) -> list[torch.Tensor]:
        losses = []
        for i, trainer in enumerate(self.case.trainers):
            args = trainer.batch(self.number)
            if self.budget is None:
                losses.append(eager_step(trainer, args))
            else:
                result = self.compiled(i, trainer)(*args)
                losses.append(result[0] if isinstance(result, tuple) else result)
        self.number += 1
        return losses

    def train(self) -> Iterator[dict[str, Any]]:
        for number in range(self.case.steps):
            losses = self.step()
            yield {f"loss {i}": x for i, x in enumerate(losses)} | seen(self.case)
            self.case.between(number)


def beside_eager(work: cases.Work, budget: str, row: Row) -> None:
    plain = Training(work, None)
    expected = list(plain.train())
    state = torch.get_rng_state()
    ours, began = Training(work, budget), time.monotonic()
    for number, got in enumerate(ours.train()):
        if number == 0:
            row.prepare_seconds = time.monotonic() - began
        text = difference(got, expected[number])
        if text:
            row.outcome, row.words = "differs", f"step {number}: {text}"
            return
    memories = [step.memory for _, step in ours.steps.values()]
    row.planned_bytes = max(m.planned_peak_bytes for m in memories)
    row.measured_bytes = max(m.measured_peak_bytes for m in memories)
    if row.measured_bytes > row.planned_bytes:
        row.words = f"measured above planned: {memories[0].why}"
    if work.timed:
        ratios = []
        torch.set_rng_state(state)
        for _ in range(ROUNDS):
            times = []
            for training in (plain, ours):
                start = time.perf_counter()
                training.step()
                times.append(time.perf_counter() - start)
            ratios.append(times[1] / times[0])
        row.ratio = statistics.median(ratios)


# ---- Trainers of others ----


def beside_trainer(work: cases.Work, budget: str, row: Row) -> None:
    """work.make(budget or None) trains and returns what is compared, the memory, and the times of steps."""
    expected, _, plain_times = work.make(None)
    got, memory, times = work.make(budget)
    text = difference(got, expected)
    if text:
        row.outcome, row.words = "differs", text
        return
    row.planned_bytes, row.measured_bytes = memory.planned_peak_bytes, memory.measured_peak_bytes
    if len(times) > LAST and len(plain_times) > LAST:
        row.prepare_seconds = times[0] - statistics.median(times[-LAST:])
        row.ratio = statistics.median(times[-LAST:]) / statistics.median(plain_times[-LAST:])


# ---- Rows ----


def _late(*_: Any) -> None:
    raise TimeoutError(f"no end in {LIMIT} s")


def in_words(error: BaseException) -> str:
    text = re.sub(
        r"(/[\w.+-]+)+/(?=[\w.-]+\.py\b)", "", " ".join(str(error).split())
    )  # names of files without their folders
    return text if len(text) < 300 else f"{text[:300]} ..."


def row_of(work: cases.Work, budget: str) -> Row:
    row = Row(work.name, work.kind)
    missing = [name for name in work.needs if not cases.installed(name)]
    if missing:
        return dataclasses.replace(row, outcome="not installed", words=", ".join(missing))
    threads = torch.get_num_threads()
    signal.signal(signal.SIGALRM, _late)
    signal.alarm(LIMIT)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            (beside_trainer if work.trains else beside_eager)(work, budget, row)
    except (neap.torch.CannotTrace, neap.torch.ModelChanged, neap.OverBudget, TypeError, ValueError) as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        named = "neap" in last.filename and (last.line or "").lstrip().startswith("raise")
        row.outcome = "refused" if named else "failed"
        row.words = in_words(error) if named else f"{type(error).__name__}: {in_words(error)}"
    except Exception as error:
        row.outcome, row.words = "failed", f"{type(error).__name__}: {in_words(error)}"
    finally:
        signal.alarm(0)
        torch.set_num_threads(threads)
        torch.autograd.set_detect_anomaly(False)
    return row


def size(n: int) -> str:
    return f"{n / 2**10:,.0f}" if n else ""


def markdown(row: Row) -> str:
    number = lambda x, form: "" if math.isnan(x) else format(x, form)  # noqa: E731
    words = row.words.replace("|", "\\|")
    said = f"{row.outcome}: {words}" if words else row.outcome
    return (
        f"| {row.name} | {row.kind} | {said} | {size(row.planned_bytes)} | {size(row.measured_bytes)} | "
        f"{number(row.prepare_seconds, '.1f')} | {number(row.ratio, '.2f')} |"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", default=[], help="part of a training's name")
    parser.add_argument("--budget", default="max")
    parser.add_argument("--json", action="store_true", help="a line of JSON for each row")
    parser.add_argument("--list", action="store_true", help="names the trainings")
    options = parser.parse_args()
    chosen = [w for w in cases.WORKS if not options.only or any(part in w.name for part in options.only)]
    if not chosen:
        parser.error(f"no training is called {', '.join(options.only)}; --list names them")
    if options.list:
        print("\n".join(f"{w.kind}: {w.name}" for w in chosen))
        return 0
    if not options.json:
        print("| training | of | bits | planned, KiB | measured, KiB | prepared, s | step / eager's |")
        print("| --- | --- | --- | --- | --- | --- | --- |")
    rows = []
    for work in chosen:
        rows.append(row_of(work, options.budget))
        print(json.dumps(dataclasses.asdict(rows[-1])) if options.json else markdown(rows[-1]), flush=True)
    counts = {name: sum(r.outcome == name for r in rows) for name in COUNTS}
    print(f"{len(rows)} trainings: {', '.join(f'{n} {name}' for name, n in counts.items())}", file=sys.stderr)
    return 1 if counts["differs"] or counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
