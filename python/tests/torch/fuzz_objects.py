"""Random programs of Python's objects: models whose parts hold what a step reads in many ways, and schedules of changes between steps.
Written as Python source; fuzz_objects_run.py trains them by neap.torch and beside eager PyTorch."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import random
import re
from collections.abc import Iterator
from typing import Any

import fuzz_objects_rows as rows
import fuzz_objects_run
from fuzz_objects_rows import Row

WORD = re.compile(r"\$(\w+)")

HEAD = """import collections, contextlib, contextvars, copy, dataclasses, enum, functools, itertools, os, pickle, random, types

import numpy, torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import parametrizations, parametrize, prune
from torch.utils.checkpoint import checkpoint

W = 6
BATCH = {"rows": 4, "form": "plain", "layout": "plain", "dtype": torch.float32, "grad": False, "named": False, "weight": None}
AROUND = {"autocast": False}
TRAINERS, EXTRA, CLOSE, STEPPED = [], [], [], []
"""

# Classes and functions of the file; each is written into the programs that name it.
HELPERS = {
    "Half": """
class Half(nn.Module):
    shift = 0.0
    def __init__(self):
        super().__init__()
        self.factor = 0.5
    def forward(self, weight):
        return weight * self.factor + self.shift
""",
    "adapt": """
def adapt(name):
    setattr(model, name, LoRA(getattr(model, name)))
    optimizer.add_param_group({"params": [p for n, p in getattr(model, name).named_parameters() if n in ("down", "up")]})
""",
    "LoRA": """
class LoRA(nn.Module):
    def __init__(self, base):
        super().__init__()
        self.base, self.scale, self.on = base.requires_grad_(False), 2.0, True
        self.down, self.up = nn.Parameter(torch.randn(2, W) * 0.3), nn.Parameter(torch.randn(W, 2) * 0.3)
    def forward(self, h):
        return self.base(h) + h @ self.down.t() @ self.up.t() * self.scale if self.on else self.base(h)
    def merged(self):
        with torch.no_grad():
            self.base.weight += self.up @ self.down * self.scale
        return self.base.requires_grad_(True)
""",
    "leaf": """
def leaf(i):
    leaves = [m for m in model.modules() if not list(m.children()) and list(m.parameters(False))]
    return leaves[i % len(leaves)]
""",
    "parameter": """
def parameter(i):
    parameters = list(model.parameters())
    return parameters[i % len(parameters)]
""",
    "Clipping": """
class Clipping(torch.optim.SGD):
    def step(self, closure=None):
        torch.nn.utils.clip_grad_norm_([p for g in self.param_groups for p in g["params"]], 0.5)
        return super().step(closure)
""",
    "EveryOther": """
class EveryOther(torch.optim.SGD):
    calls = 0
    def step(self, closure=None):
        self.calls += 1
        return super().step(closure) if self.calls % 2 else None
""",
    "Lookahead": """
class Lookahead(torch.optim.Optimizer):
    def __init__(self, base):
        self.base, self.calls = base, 0
        super().__init__(base.param_groups, {})
        self.param_groups = base.param_groups
    @torch.no_grad()
    def step(self, closure=None):
        self.base.step()
        self.calls += 1
        for p in [p for g in self.param_groups for p in g["params"]]:
            slow = self.state[p].setdefault("slow", p.clone())
            if self.calls % 2 == 0:
                p.copy_(slow.lerp_(p, 0.5))
""",
}

TAIL = """
@dataclasses.dataclass
class Pair:
    x: torch.Tensor
    y: torch.Tensor

def batch(step):
    g = torch.Generator().manual_seed(100 + step)
    x = torch.randn(BATCH["rows"], W, generator=g).to(BATCH["dtype"])
    y = torch.randint(W, (BATCH["rows"],), generator=g)
    x = {"plain": x, "transposed": x.t().contiguous().t(), "strided": torch.stack([x, x], 1)[:, 0]}[BATCH["layout"]]
    x.requires_grad_(BATCH["grad"])
    named = {} if BATCH["weight"] is None else {"weight": BATCH["weight"]}
    if BATCH["named"] and BATCH["form"] == "plain":
        return (x,), {"y": y, **named}
    return {"plain": (x, y), "dictionary": ({"x": x, "y": y},), "nested": ((x, [y]),), "object": (Pair(x, y),)}[BATCH["form"]], named

def unpack(x, y=None):
    if isinstance(x, dict):
        return x["x"], x["y"]
    if isinstance(x, Pair):
        return x.x, x.y
    return (x[0], x[1][0]) if isinstance(x, tuple) else (x, y)

def around():
    return torch.autocast("cpu", torch.bfloat16) if AROUND["autocast"] else contextlib.nullcontext()

def trainers():
    return [(model, loss_fn, optimizer), *(trainer() for trainer in TRAINERS)]
"""

# The names a program's module may have, with the file where it lies: no rule may leave code out by either.
MODULES = {
    "program": "<program>", "__main__": "<stdin>", "pairtorch.nets": "/home/user/pairtorch/nets.py", "kit.nets": "/opt/lib/python3/site-packages/kit/nets.py",
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Change:
    """What is done after a step; part: the number of the part to which it belongs, or None."""

    step: int
    part: int | None
    text: str


@dataclasses.dataclass
class Program:
    """Parts by their numbers, in the order of the forward pass. `settings` are those that fuzz_objects_run.py reads."""

    parts: dict[int, Row]
    loss: Row
    optimizer: str
    changes: list[Change]
    settings: dict[str, Any]

    def source(self) -> str:
        """A Python module: model, trainers, batch, between, SETTINGS; run as a script, it says what fuzz_objects_run finds."""
        parts = list(self.parts.values())
        body = [line for p in parts for line in _lines(p.body)]
        lines = [line for p in parts for line in _lines(p.top)]
        lines += [
            "", "class Net(nn.Module):", *_indented(1, body), "    def __init__(self):", "        super().__init__()", *_indented(2, [line for p in parts for line in _lines(p.init)]),
            "        self.head = nn.Linear(W, W)", "", "    def forward(self, x):", "        h = x", *_indented(2, [line for p in parts for line in _lines(p.forward)]), "        return self.head(h)",
        ]  # fmt: skip
        end = [
            "", "def compute_loss(model, *batch, weight=1.0, **named):", "    x, y = unpack(*batch, **named)", "    out = model(x)", "    loss = F.cross_entropy(out, y)",
            *_indented(1, [line for p in parts for line in _lines(p.loss)]), "    return loss * weight", "", "def make_optimizer():", "    parameters = [*model.parameters(), *EXTRA]", f"    return {self.optimizer}", "",
            "def new_optimizer():", "    globals()['optimizer'] = make_optimizer()", "", "model = Net()", "optimizer = make_optimizer()", *_lines(self.loss.made), *(line for p in parts for line in _lines(p.made)), "",
            "def between(step):", *_indented(1, ["pass", *(line for p in parts for line in _lines(p.after))]),
        ]  # fmt: skip
        for c in sorted(self.changes, key=lambda c: c.step):
            end += [f"    if step == {c.step}:", *_indented(2, _lines(c.text))]
        end += [
            "", f"SETTINGS = {self.settings!r}", "",
            'if __name__ == "__main__" and "neap_fuzzing" not in globals():', "    import fuzz_objects_run", "    print(fuzz_objects_run.report(globals()))", "",
        ]  # fmt: skip
        text = "\n".join([*lines, *end])
        helpers = [h for h in HELPERS if re.search(rf"\b{h}\b", text)]
        if "adapt" in helpers and "LoRA" not in helpers:
            helpers.append("LoRA")
        return "\n".join([HEAD, *(HELPERS[h] for h in helpers), *lines, TAIL, *end])


def _lines(text: str) -> list[str]:
    return text.split("\n") if text else []


def _indented(depth: int, lines: list[str]) -> list[str]:
    return ["    " * depth + line for line in lines]


def filled(rng: random.Random, text: str, number: int, read: str = "") -> str:
    """A text with its words chosen."""
    index, mode = str(rng.randrange(5)), rng.choice(["train", "eval"])
    words = {
        "n": lambda: str(number), "f": lambda: str(rng.choice(rows.NUMBERS)), "i": lambda: index, "v": lambda: read, "mode": lambda: mode,
    }  # fmt: skip
    return WORD.sub(lambda m: words[m[1]](), text)


def fill(rng: random.Random, row: Row, number: int) -> Row:
    """A row whose words are chosen but those of its changes."""
    fields = {f.name: getattr(row, f.name) for f in dataclasses.fields(row)}
    return Row(**{k: filled(rng, v, number) if isinstance(v, str) else v for k, v in fields.items()})


def held(place: rows.Place, where: Row, use: str) -> Row:
    """The part that reads a place's number somewhere."""
    use = use.replace("$v", place.read)

    def used(text: str) -> str:
        return re.sub(r"( *)\$use", lambda m: "\n".join(m[1] + line for line in use.split("\n")), text)

    def both(key: str) -> str:
        return "\n".join(t for t in (getattr(place, key, ""), used(getattr(where, key))) if t)

    keys = ("top", "body", "init", "forward", "made", "loss")
    return Row(f"{place.name}, {where.name}", changes=place.changes, **{k: both(k) for k in keys})


def uses_of(where: Row) -> list[str]:
    return rows.LOSS_USES if "loss" in where.name else rows.USES


def suits(place: rows.Place, where: Row) -> bool:
    return "self." not in place.read or where.name == "forward"


def drawn(rng: random.Random, table: list[tuple[float, Any]]) -> Any:
    """An entry of a table, by its weight; none that $NEAP_FUZZ_WITHOUT finds, while a fault is known."""
    without = os.environ.get("NEAP_FUZZ_WITHOUT", "")
    table = [(weight, x) for weight, x in table if not (without and re.search(without, getattr(x, "name", str(x))))]
    return rng.choices([x for _, x in table], [weight for weight, _ in table])[0]


def _part(rng: random.Random) -> Row:
    if rng.random() < 0.5:
        return drawn(rng, [(row.weight, row) for row in rows.PARTS])
    place = drawn(rng, [(p.weight, p) for p in rows.PLACES])
    where = drawn(rng, [(weight, where) for weight, where in rows.WHERES if suits(place, where)])
    return held(place, where, rng.choice(uses_of(where)))


def _settings(rng: random.Random) -> dict[str, Any]:
    return {
        "steps": rng.choice([3, 4, 4, 5, 6, 9]),
        "budget": rng.choice(["max"] * 8 + ["min"]),
        "clip_norm": rng.choice([None] * 9 + [0.5]),
        "micro_batches": rng.choice([1] * 14 + [2]),
        "module": rng.choices(list(MODULES), [8, 1, 1, 1])[0],
        "whole": rng.random() < 0.5,  # the backend compiles loss_fn, not the model
    }


def attempt(rng: random.Random) -> Program:
    settings = _settings(rng)
    parts = {n: fill(rng, _part(rng), n) for n in range(rng.choice([1, 2, 2, 3, 3, 4]))}
    loss, optimizer = drawn(rng, [(row.weight, row) for row in rows.LOSSES]), drawn(rng, rows.OPTIMIZERS)
    own = [(n, text) for n, part in parts.items() for text in part.changes] + [(None, text) for text in loss.changes]
    changes = []
    for _ in range(rng.choice([0, 1, 1, 2, 2, 3])):
        part, text = drawn(
            rng, [(1, x) for x in (own if own and rng.random() < 0.7 else [(None, x) for x in rows.CHANGES])]
        )
        changes.append(Change(rng.randrange(settings["steps"] - 1), part, filled(rng, text, part or 0)))
    if any("'rows'" in c.text for c in changes):
        settings["micro_batches"] = 1  # parts of several sizes
    return Program(parts, loss, optimizer, changes, settings)


def generate(seed: int) -> tuple[Program, int]:
    """The program of a seed: the first that eager PyTorch trains, and how many were tried."""
    for number in range(60):
        program = attempt(random.Random(f"objects {seed}/{number}"))
        if fuzz_objects_run.trains(program.source()):
            return program, number + 1
    raise RuntimeError(f"seed {seed}: no program that eager PyTorch trains")


def of_row(row: Row, change: str | None, steps: int = 3) -> Program:
    """A program of one part and one change to it."""
    rng = random.Random(row.name)
    settings = {**_settings(rng), **fuzz_objects_run.PLAIN, "steps": steps}
    changes = [] if change is None else [Change(0, 0, filled(rng, change, 0))]
    return Program({0: fill(rng, row, 0)}, rows.LOSSES[0], rows.OPTIMIZERS[1][1], changes, settings)


def every_row() -> Iterator[tuple[Row, str | None]]:
    """Each part, place and where of the tables, and each change to it; a change to any model is one of a linear layer."""
    linear = rows.PARTS[0]
    for row in rows.PARTS:
        yield from ((row, change) for change in (row.changes or (None,)))
    for place in rows.PLACES:
        yield from ((held(place, rows.WHERES[0][1], rows.USES[0]), change) for change in place.changes)
    plain = rows.PLACES[0]
    for _, where in rows.WHERES:
        yield from ((held(plain, where, use), plain.changes[0]) for use in uses_of(where))
    yield from ((linear, change) for change in rows.CHANGES)


# ---- Smaller programs ----


def _without(program: Program, gone: set[int]) -> Program:
    parts = {n: part for n, part in program.parts.items() if n not in gone}
    return dataclasses.replace(program, parts=parts, changes=[c for c in program.changes if c.part not in gone])


def smaller(program: Program) -> Iterator[Program]:
    """Programs that are a little smaller, largest cuts first."""
    for n in program.parts:
        if len(program.parts) > 1:
            yield _without(program, set(program.parts) - {n})
    for n in program.parts:
        yield _without(program, {n})
    for c in program.changes:
        yield dataclasses.replace(program, changes=[other for other in program.changes if other is not c])
    plain = {**program.settings, **fuzz_objects_run.PLAIN}
    for settings in (plain, *({**program.settings, k: plain[k]} for k in fuzz_objects_run.PLAIN)):
        if settings != program.settings:
            yield dataclasses.replace(program, settings=settings)
    if program.loss != rows.LOSSES[0] and not any(c.part is None for c in program.changes):
        yield dataclasses.replace(program, loss=rows.LOSSES[0])
    if program.optimizer != rows.OPTIMIZERS[0][1]:
        yield dataclasses.replace(program, optimizer=rows.OPTIMIZERS[0][1])
    for steps in range(2, program.settings["steps"]):
        with contextlib.suppress(ValueError):
            latest = max(c.step for c in program.changes)
            if latest >= steps - 1:
                continue
        yield dataclasses.replace(program, settings={**program.settings, "steps": steps})
