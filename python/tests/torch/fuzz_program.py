"""Random programs: made by running their statements in eager PyTorch as they are chosen, and written as Python source."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import functools
import os
import random
import re
from typing import Any

import fuzz_rows as rows
import fuzz_run
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

WORD = re.compile(r"\$(\w+)")
NAME = re.compile(r"(?<![\w.])(v\d+)\b")
CHANGES = re.compile(r"\w_\(|\] [*+-]?= |out=|\.data|\+=|inplace=True")
LARGEST = 600  # elements of a tensor
PURE = (
    "$to",
    "$ba",
    "$b1",
    "$cnt",
    "BatchNorm",
    "InstanceNorm1d",
    "max_norm",
)  # a checkpoint's region has none of these


@dataclasses.dataclass
class Statement:
    """Lines of `forward`; `body` is indented below them, `tail` follows it (its lines have their own indentation)."""

    lines: list[str]
    makes: dict[str, tuple[int, ...]] = dataclasses.field(default_factory=dict)  # result -> its shape
    body: list[Statement] = dataclasses.field(default_factory=list)
    tail: list[str] = dataclasses.field(default_factory=list)

    def text(self) -> list[str]:
        inner = [f"    {line}" for s in self.body for line in s.text()]
        return [*self.lines, *(inner if self.body or not self.lines[-1].endswith(":") else ["    pass"]), *self.tail]


@dataclasses.dataclass
class Program:
    """A model, a loss, batches and how it is trained. `settings` are those that fuzz_run.py reads."""

    batch: list[str]  # lines that make x, ids, y from `rows` and `step`
    statements: list[Statement]
    members: dict[str, list[str]]  # of the model: name -> lines that make it
    kept: list[str]  # members that the model has though no statement reads them
    terms: dict[str, str]  # result -> its part of the loss
    extras: list[str]
    dtype: str
    optimizer: str
    settings: dict[str, Any]

    def used(self, text: str) -> list[str]:
        """Members that statements read, and what those are made with, in their order."""
        found = {*self.kept, *re.findall(r"self\.(\w+)", text)}
        while True:
            more = {
                w for name in found for line in self.members.get(name, []) for w in re.findall(r"self\.(\w+)", line)
            }
            if more <= found:
                return [name for name in self.members if name in found]
            found |= more

    def source(self) -> str:
        """A Python module: Net, loss_fn, batch, optimizer, SETTINGS; run as a script, it says what fuzz_run finds."""
        forward = [line for s in self.statements for line in s.text()]
        text = "\n".join(forward)
        members = [line for name in self.used(text) for line in self.members[name]]
        prelude = [body for name, body in rows.PRELUDE.items() if re.search(rf"\b{name}\.apply", text)]
        results = list(dict.fromkeys([*self.terms, *self.extras]))
        extras = f", {{{', '.join(f'{v!r}: {v}' for v in self.extras)}}}" if self.extras else ""
        if self.settings.get("number"):
            extras = extras[:-1] + ", 'number': 3}"
        lines = [
            "import torch", "from torch import nn", "from torch.nn import functional as F", "from torch.utils.checkpoint import checkpoint", *prelude, "",
            "class Net(nn.Module):", "    def __init__(self):", "        super().__init__()", *(f"        {line}" for line in members),
            *([f"        self.to(torch.{self.dtype})"] if self.dtype != "float32" else []), "",
            "    def forward(self, x, ids):", *(f"        {line}" for line in forward), f"        return {', '.join(results)},", "",
            "def loss_fn(model, x, ids, y):", f"    {', '.join(results)}, = model(x, ids)", f"    loss = {' + '.join(self.terms.values())}", f"    return loss{extras}", "",
            "def batch(step, rows):", "    g = torch.Generator().manual_seed(100 + step)", *(f"    {line}" for line in self.batch), "    return x, ids, y", "",
            "def optimizer(model):", "    parameters = list(model.parameters())", f"    return {self.optimizer}", "",
            f"SETTINGS = {self.settings!r}", "",
            'if __name__ == "__main__":', "    import fuzz_run", "    print(fuzz_run.report(globals()))", "",
        ]  # fmt: skip
        return "\n".join(lines)


@functools.cache
def _allowed(table: str, without: str) -> list[tuple[Any, ...]]:
    """The rows of a table; without those that a regular expression finds, while a fault is known."""
    return [row for row in getattr(rows, table) if not (without and re.search(without, " ".join(map(str, row[1:]))))]


def draw(rng: random.Random, table: str) -> tuple[Any, ...]:
    """A row of a table, by its weight."""
    allowed = _allowed(table, os.environ.get("NEAP_FUZZ_WITHOUT", ""))
    return rng.choices(allowed, [row[0] for row in allowed])[0]


class Refused(Exception):
    """A row that does not suit the tensors there are."""


class Writer:
    """Chooses statements, one after the other, and runs each."""

    def __init__(self, rng: random.Random, dtype: str):
        self.rng, self.dtype = rng, getattr(torch, dtype)
        self.module = nn.Module()
        self.members: dict[str, list[str]] = {}
        self.names: list[str] = []  # tensors of a floating type
        self.scope: dict[str, Any] = {"torch": torch, "nn": nn, "F": F, "checkpoint": checkpoint, "self": self.module}
        for text in rows.PRELUDE.values():
            exec(text, self.scope)
        self.statements: list[Statement] = []
        self.count = 0
        self.pure = False  # in a checkpoint's region
        self.nested = False

    # ---- Members of the model ----

    def member(self, key: str, text: str, *more: str) -> str:
        """A member made by `text`, or one that is made alike already."""
        alike = [
            n
            for n, lines in self.members.items()
            if lines[0].partition(" = ")[2] == text or lines[0].endswith(f", {text})")
        ]
        if alike and self.rng.random() < 0.35:
            return f"self.{self.rng.choice(alike)}"
        name = f"{key}{len(self.members)}"
        first = f'self.register_buffer("{name}", {text})' if key == "b" else f"self.{name} = {text}"
        self.members[name] = [first]
        exec(first, self.scope)
        for line in more:
            with contextlib.suppress(Exception):
                exec(line.replace("NAME", f"self.{name}"), self.scope)
                self.members[name].append(line.replace("NAME", f"self.{name}"))
        self.module.to(self.dtype)
        return f"self.{name}"

    def module_lines(self, text: str) -> list[str]:
        """What is done to a module now and then: frozen, tied, normed."""
        lines, chance = [], self.rng.random()
        if chance < 0.12:
            lines.append("NAME.requires_grad_(False)")
        elif chance < 0.18:
            lines += [f"NAME.weight = self.{n}.weight" for n in self.members if n[0] == "m"][:1]
        elif chance < 0.22 and text.startswith(("nn.Linear", "nn.Conv2d")):
            lines.append(f"nn.utils.parametrizations.{self.rng.choice(['weight_norm', 'spectral_norm'])}(NAME)")
        elif chance < 0.25:
            lines.append("NAME.bias.requires_grad_(False)")
        elif chance < 0.27:
            lines.append("NAME.eval()")
        elif chance < 0.30 and text.startswith("nn.Conv2d"):
            lines.append("NAME.to(memory_format=torch.channels_last)")
        return lines

    def parameter(self, shape: list[int]) -> str:
        text = f"nn.Parameter(torch.randn({shape}) * 0.5)"
        if len(shape) == 2 and self.rng.random() < 0.15:
            text = f"nn.Parameter((torch.randn({shape[::-1]}) * 0.5).t())"
        more = ["NAME.requires_grad_(False)"] if self.rng.random() < 0.1 else []
        return self.member("p", text, *more)

    def buffer(self, shape: list[int]) -> str:
        return self.member("b", f"torch.{self.rng.choice(['zeros', 'ones'])}({shape})")

    # ---- Words of a statement ----

    def operand(self, low: int, high: int, to: bool = False) -> str:
        names = self.names
        if to:  # not the batch, which is the user's
            batch = self.scope["x"].untyped_storage().data_ptr()
            names = [n for n in names if self.scope[n].untyped_storage().data_ptr() != batch]
        fits = [n for n in names if low <= self.scope[n].dim() <= high]
        if fits:
            return self.rng.choice(fits[-3:] if self.rng.random() < 0.6 else fits)
        if to or not names:
            raise Refused
        name = self.rng.choice(names)
        dims = self.scope[name].dim()
        if dims > high:
            return f"{name}.flatten(0, {dims - high})"
        return name + ".unsqueeze(0)" * (low - dims)

    def other(self) -> str:
        """Of the first operand's shape."""
        same = [
            n for n in self.names if self.scope[n].shape == self.value.shape and self.scope[n].dtype == self.value.dtype
        ]
        chance = self.rng.random()
        if same and chance < 0.8:
            return self.rng.choice(same)
        return self.parameter(list(self.value.shape)) if chance < 0.9 else f"({self.first} * {self.number()})"

    def broadcast(self) -> str:
        chance, shape = self.rng.random(), list(self.value.shape)
        if chance < 0.4:
            return self.other()
        if chance < 0.6:
            return f"{self.first}[:1]"
        if chance < 0.7 and len(shape) > 1:
            return f"{self.first}[:, :1]"
        if chance < 0.9:
            return self.parameter(shape[-1:])
        return f"{self.rng.choice(self.names)}.mean()"

    def number(self) -> float:
        return self.rng.choice([0.5, -0.5, 2.0, 0.25, -1.5, 0.9, 1.0, 0.1])

    def sizes_of_view(self) -> str:
        sizes, left = [], self.value.numel()
        while left > 1 and len(sizes) < 3:
            size = self.rng.choice([n for n in range(1, left + 1) if left % n == 0])
            sizes.append(size)
            left //= size
        sizes.append(left)
        self.rng.shuffle(sizes)
        if self.rng.random() < 0.3:
            sizes[self.rng.randrange(len(sizes))] = -1
        return str(sizes)

    def index(self) -> str:
        n = self.value.shape[0]
        choices = [
            "[0]",
            "[:1]",
            "[1:]",
            "[::2]",
            "[..., 0]",
            "[..., :1]",
            "[..., 1:]",
            "[None]",
            "[..., None]",
            f"[{n - 1}]",
            f"[:{max(n - 1, 1)}]",
            "[-1:]",
        ]
        if self.value.dim() > 1:
            choices += ["[:, 0]", "[:, 1:]", "[:, ::2]", "[:, None]", "[1:, :2]", "[:, -1]", "[0, 0]"]
        return self.rng.choice(choices)

    def word(self, word: str) -> str:
        shape, rng = list(self.value.shape), self.rng
        size = shape[self.d]
        made = {
            "b": self.other, "c": self.broadcast, "d": lambda: self.d, "d2": lambda: rng.randrange(len(shape)), "i": lambda: rng.randrange(size),
            "k": lambda: rng.randint(1, size), "n": lambda: size, "lo": lambda: self.lo, "len": lambda: rng.randint(1, size - self.lo),
            "n0": lambda: shape[0], "n1": lambda: shape[-1], "nc": lambda: shape[1], "f": self.number, "g": lambda: rng.choice([0.1, 0.5, 0.9]),
            "w": lambda: rng.randint(2, 6), "perm": lambda: rng.sample(range(len(shape)), len(shape)), "view": self.sizes_of_view, "at": self.index,
            "ix": lambda: f"torch.tensor({[rng.randrange(size) for _ in range(rng.randint(1, 3))]})", "shape": lambda: shape,
            "mask": lambda: f"({self.other()} > {rng.choice([0, 0.3, -0.3])})", "pa": lambda: self.parameter(shape), "p1": lambda: self.parameter(shape[-1:]),
            "pio": lambda: self.parameter([shape[-1], rng.randint(2, 5)]), "poi": lambda: self.parameter([rng.randint(2, 5), shape[-1]]),
            "ba": lambda: self.buffer(shape), "b1": lambda: self.buffer(shape[-1:]), "cnt": lambda: self.member("b", "torch.zeros(())"),
        }  # fmt: skip
        return str(made[word]())

    def write(self, text: str, module: str | None) -> tuple[list[str], list[str]]:
        """Lines, and the results that they make."""
        words = WORD.findall(text + (module or ""))
        kinds = {"a": (1, 9), "m": (2, 9), "mat": (2, 2), "seq": (3, 3), "img": (4, 4), "to": (1, 9)}
        kind = next((w for w in words if w in kinds), "a")
        self.first = self.operand(*kinds[kind], kind == "to")
        self.value = eval(self.first, self.scope)
        if self.value.numel() == 0 or self.value.dim() == 0:
            raise Refused
        self.d = self.rng.randrange(self.value.dim())
        self.lo = self.rng.randrange(self.value.shape[self.d])
        known = {kind: self.first}
        made = []
        for word in words:
            if word in "rstu":
                if word not in known:
                    known[word] = f"v{self.count + len(made)}"
                    made.append(known[word])
            elif word == "mod":
                known["mod"] = ""
            elif word not in known:
                known[word] = self.word(word)
        if module is not None:
            built = WORD.sub(lambda m: known[m[1]], module)
            known["mod"] = self.member("m", built, *self.module_lines(built))
        return WORD.sub(lambda m: known[m[1]], text).split("\n"), made

    # ---- Statements ----

    def step(self, into: list[Statement]) -> bool:
        """Adds one statement; False where the row did not suit."""
        _, text, module = draw(self.rng, "ROWS")
        if self.pure and any(w in text + (module or "") for w in PURE):
            return False
        before = dict(self.members)
        try:
            lines, made = self.write(text, module)
            exec("\n".join(lines), self.scope)
        except Exception:
            self.forget(before)
            return False
        statement = Statement(lines, {v: tuple(t.shape) for v in made if torch.is_tensor(t := self.scope.get(v))})
        self.count += len(made)
        into.append(statement)
        if self.sound(made) and (not CHANGES.search("\n".join(lines)) or self.differentiable()):
            self.names += [
                v for v in statement.makes if self.scope[v].is_floating_point() and self.scope[v].numel() > 0
            ]
            return True
        into.pop()
        self.forget(before)
        self.replay()
        return False

    def forget(self, before: dict[str, list[str]]) -> None:
        for name in [n for n in self.members if n not in before]:
            del self.members[name]
            if hasattr(self.module, name):
                delattr(self.module, name)

    def sound(self, made: list[str]) -> bool:
        values = [self.scope.get(v) for v in {*made, *self.names}]
        for t in values:
            real = isinstance(t, torch.Tensor) and t.is_floating_point() and t.layout == torch.strided
            if real and (t.numel() > LARGEST or t.dim() > 5 or not (t.detach().abs() < 100).all()):
                return False
        return True

    def differentiable(self) -> bool:
        """Whether what was changed in place still has a gradient."""
        alive = [t for n in self.names if (t := self.scope[n]).requires_grad]
        parameters = [p for p in self.module.parameters() if p.requires_grad]
        if not alive or not parameters:
            return True
        try:
            total = sum(t.float().sum() for t in alive)
            torch.autograd.grad(total, parameters, allow_unused=True, retain_graph=True)
        except Exception:
            return False
        return True

    def replay(self) -> None:
        """Runs the statements that are kept once more: a failed one may have changed something."""
        self.module = self.scope["self"] = nn.Module()
        for lines in self.members.values():
            for line in lines:
                exec(line, self.scope)
        self.module.to(self.dtype)
        exec("\n".join(self.batch), self.scope)
        for s in self.statements:
            exec("\n".join(s.text()), self.scope)
        for region in self.open:
            exec("\n".join(line for s in region for line in s.text()), self.scope)

    def region(self, count: int) -> None:
        """A `with` block or a checkpoint of a few statements."""
        kind = draw(self.rng, "REGIONS")[1]
        body: list[Statement] = []
        names, made_before = list(self.names), self.count
        self.open.append(body)
        self.pure = kind in ("checkpoint", "reentrant")
        text = {"autocast": 'torch.autocast("cpu", torch.bfloat16)', "no_grad": "torch.no_grad()"}.get(kind)
        with eval(text, self.scope) if text else contextlib.nullcontext():
            for _ in range(count * 4):
                if len(body) < count:
                    self.step(body)
        self.pure = False
        self.open.pop()
        fresh = [n for n in self.names if n not in names]
        if not body or not fresh:
            self.names = names
            self.replay()
            return
        if text:
            made = {k: v for s in body for k, v in s.makes.items()}
            self.statements.append(Statement([f"with {text}:"], made, body))
            return
        inner = "\n".join(line for s in body for line in s.text())
        arguments = list(dict.fromkeys(n for n in re.findall(r"\b(v\d+|x)\b", inner) if n in names))
        results = fresh[-2:] if len(fresh) > 1 and self.rng.random() < 0.3 else fresh[-1:]
        renamed = [f"v{self.count + i}" for i in range(len(results))]
        self.count += len(results)
        head = [f"def part{made_before}({', '.join(arguments)}):"]
        tail = [
            f"    return {', '.join(results)}",
            f"{', '.join(renamed)} = checkpoint({', '.join([f'part{made_before}', *arguments])}, use_reentrant={kind == 'reentrant'})",
        ]
        for new, old in zip(renamed, results, strict=True):
            self.scope[new] = self.scope[old]
        self.names = [*names, *renamed]
        self.statements.append(Statement(head, {v: tuple(self.scope[v].shape) for v in renamed}, body, tail))


def _batch(rng: random.Random, dtype: str) -> list[str]:
    """Lines that make the batch."""
    shape = rng.choice(
        [[rng.randint(2, 8)], [rng.randint(2, 8)], [rng.randint(2, 4), rng.randint(2, 6)], [rng.randint(1, 3), 4, 4]]
    )
    kind = f", dtype=torch.{dtype}" if dtype != "float32" else ""
    sizes = ", ".join(map(str, shape))
    lines = {
        "plain": f"x = torch.randn(rows, {sizes}, generator=g{kind})",
        "transposed": f"x = torch.randn({sizes}, rows, generator=g{kind}).movedim(-1, 0)",
        "strided": f"x = torch.randn(2 * rows, {sizes}, generator=g{kind})[::2]",
        "expanded": f"x = torch.randn(1, {sizes}, generator=g{kind}).expand(rows, {sizes})",
    }
    layout = rng.choice(["plain"] * 8 + [k for k in lines if k != "plain"])
    return [
        lines[layout],
        f"ids = torch.randint(8, (rows, {rng.randint(1, 4)}), generator=g)",
        f"y = torch.randn(rows, generator=g{kind})",
    ]


def _settings(rng: random.Random) -> dict[str, Any]:
    return {
        "rows": rng.choice([2, 3, 4, 6]),
        "steps": rng.choice([2, 2, 3]),
        "budget": rng.choice(["max", "60%", "40%", "min", "min", round(rng.random(), 3)]),
        "micro_batches": rng.choice([1] * 7 + [2, 3]),
        "clip_norm": rng.choice([None] * 5 + [0.1]),
        "clip_value": rng.choice([None] * 9 + [0.01]),
        "more": rng.choice(
            [[]] * 2 + [[2], [1, 2], [3, 1, 2], [5, 2, 4, 3, 1]]
        ),  # rows more than `rows`, in steps of their own
        "lengths": rng.random() < 0.4,  # those are prepared together
        "evaluate": rng.choice([""] * 8 + ["between", "mode"]),
        "schedule": rng.random() < 0.2,
        "whole": rng.random() < 0.3,  # the backend compiles loss_fn, not the model
        "number": False,
    }


def attempt(rng: random.Random) -> Program | None:
    dtype = rng.choices(["float32", "float64", "bfloat16"], [85, 9, 6])[0]
    settings = _settings(rng)
    torch.manual_seed(rng.randrange(1 << 30))
    writer = Writer(rng, dtype)
    writer.open: list[list[Statement]] = []
    batch = _batch(rng, dtype)
    writer.batch = ["g = torch.Generator().manual_seed(100)", f"rows = {settings['rows']}", *batch]
    exec("\n".join(writer.batch), writer.scope)
    writer.names = ["x"]
    wanted = rng.randint(2, 12)
    for _ in range(wanted * 6):
        if len(writer.statements) >= wanted:
            break
        if rng.random() < 0.07:
            writer.region(rng.randint(1, 4))
        else:
            writer.step(writer.statements)
    for _ in range(8):  # something has to be learned
        if any(writer.scope[n].requires_grad for n in writer.names):
            break
        name = writer.operand(1, 9)
        linear = writer.member("m", f"nn.Linear({writer.scope[name].shape[-1]}, 3)")
        statement = Statement([f"v{writer.count} = {linear}({name})"])
        with contextlib.suppress(Exception):
            exec(statement.lines[0], writer.scope)
            writer.names.append(f"v{writer.count}")
            writer.statements.append(statement)
        writer.count += 1
    return _finished(rng, writer, batch, dtype, settings)


def _finished(
    rng: random.Random, writer: Writer, batch: list[str], dtype: str, settings: dict[str, Any]
) -> Program | None:
    """The loss, extras, and what the model has beside."""
    results = [n for n in writer.names if n != "x"]
    learning = [n for n in results if writer.scope[n].requires_grad]
    if not learning:
        return None
    chosen = list(
        dict.fromkeys([rng.choice(learning[-2:]), *rng.sample(results, min(len(results), rng.choice([0, 0, 1, 2])))])
    )
    terms = {}
    for name in chosen:
        for _ in range(6):
            term = draw(rng, "TERMS")[1].replace("$v", name)
            with contextlib.suppress(Exception):
                value = eval(term, writer.scope)
                if value.numel() == 1 and value.dim() == 0 and value.isfinite():
                    terms[name] = term
                    break
    kept = []
    if rng.random() < 0.12:
        kept = [writer.member("m", "nn.Linear(2, 3)").removeprefix("self.")]
    extras = rng.sample(results, min(len(results), rng.choice([1, 2]))) if rng.random() < 0.25 else []
    settings["number"] = bool(extras) and rng.random() < 0.3
    optimizer = draw(rng, "OPTIMIZERS")[1]
    if not any(s.lines for s in writer.statements) or not terms:
        return None
    return Program(batch, writer.statements, writer.members, kept, terms, extras, dtype, optimizer, settings)


def generate(seed: int) -> tuple[Program, int]:
    """The program of a seed: the first that eager PyTorch trains, and how many were tried."""
    for number in range(50):
        program = None
        with contextlib.suppress(Exception):  # what was kept may fail when it is run once more
            program = attempt(random.Random(f"{seed}/{number}"))
        if program is not None and program.settings["more"] and not fuzz_run.trains(program):
            program.settings["more"] = []  # its statements have numbers that only one shape takes
        if program is not None and fuzz_run.trains(program):
            return program, number + 1
    raise RuntimeError(f"seed {seed}: no program that eager PyTorch trains")


# ---- Smaller programs ----


def _without(statements: list[Statement], gone: set[int], shapes: dict[str, tuple[int, ...]]) -> list[Statement] | None:
    """The statements but those with the numbers `gone`; where one of their results is read, another of its shape is, or x."""
    kept, known = [], {"x": shapes["x"]}
    instead: dict[str, str] = {}
    for number, s in enumerate(statements):
        if number in gone:
            for name, shape in s.makes.items():
                alike = [n for n, other in known.items() if other == shape]
                if alike:
                    instead[name] = alike[-1]
            continue
        s = copy.deepcopy(s)
        _rename(s, instead)
        reads = {n for line in s.text() for n in NAME.findall(line)} - {v for t in (s, *s.body) for v in t.makes}
        if any(n not in known for n in reads):
            gone = gone | {number}
            continue
        kept.append(s)
        known |= s.makes
    return kept


def _rename(s: Statement, instead: dict[str, str]) -> None:
    replace = functools.partial(NAME.sub, lambda m: instead.get(m[1], m[1]))
    s.lines, s.tail = [replace(line) for line in s.lines], [replace(line) for line in s.tail]
    for t in s.body:
        _rename(t, instead)


def _finish_smaller(program: Program, statements: list[Statement]) -> Program | None:
    there = {v for s in statements for v in s.makes}
    terms = {k: v for k, v in program.terms.items() if k in there}
    if not terms:
        return None
    extras = [v for v in program.extras if v in there]
    settings = {**program.settings, "number": program.settings["number"] and bool(extras)}
    return dataclasses.replace(program, statements=statements, terms=terms, extras=extras, settings=settings)


def smaller(program: Program) -> Any:
    """Programs that are a little smaller, largest cuts first."""
    shapes = {"x": tuple(_x_shape(program))}
    plain = dataclasses.replace(program, settings={**program.settings, **fuzz_run.PLAIN}, extras=[], kept=[])
    if plain.settings != program.settings:
        yield plain
        yield dataclasses.replace(plain, settings={**plain.settings, "steps": 2, "budget": program.settings["budget"]})
    for name in program.terms:
        yield _slice(program, name)
    count = len(program.statements)
    size = max(count // 2, 1)
    while size >= 1 and count:
        for start in range(count - size, -1, -size):
            left = _without(program.statements, set(range(start, start + size)), shapes)
            changed = _finish_smaller(program, left) if left is not None else None
            if changed is not None:
                yield changed
        size //= 2
    yield from _simpler(program)
    for number, s in enumerate(program.statements):
        if s.body:
            for i in range(len(s.body)):
                if len(s.body) > 1:
                    cut = copy.deepcopy(program)
                    del cut.statements[number].body[i]
                    yield cut
            if not s.tail:
                yield dataclasses.replace(
                    program, statements=[*program.statements[:number], *s.body, *program.statements[number + 1 :]]
                )


def _slice(program: Program, name: str) -> Program:
    """What one part of the loss depends on, and what changes the model."""
    wanted, kept = {name}, []
    for s in reversed(program.statements):
        text = "\n".join(s.text())
        names = set(NAME.findall(text))
        changes = CHANGES.search(text) and (names & wanted or "self.b" in text or "no_grad" in text)
        if names & wanted & s.makes.keys() or changes:
            kept.insert(0, s)
            wanted |= names
    there = {v for s in kept for v in s.makes}
    extras = [v for v in program.extras if v in there]
    settings = {**program.settings, "number": program.settings["number"] and bool(extras)}
    terms = {name: program.terms[name]}
    return dataclasses.replace(program, statements=kept, terms=terms, extras=extras, settings=settings)


def _simpler(program: Program) -> Any:
    for key, value in fuzz_run.PLAIN.items():
        if program.settings[key] != value:
            yield dataclasses.replace(program, settings={**program.settings, key: value})
    if program.settings["budget"] not in ("min", "max"):
        yield dataclasses.replace(program, settings={**program.settings, "budget": "min"})
    if program.extras:
        yield dataclasses.replace(program, extras=[], settings={**program.settings, "number": False})
    if program.kept:
        yield dataclasses.replace(program, kept=[])
    if program.dtype != "float32":
        yield dataclasses.replace(
            program,
            dtype="float32",
            batch=[line.replace(f", dtype=torch.{program.dtype}", "") for line in program.batch],
        )
    if program.optimizer != rows.OPTIMIZERS[0][1]:
        yield dataclasses.replace(program, optimizer=rows.OPTIMIZERS[0][1])
    for name in program.terms:
        if len(program.terms) > 1:
            yield dataclasses.replace(program, terms={k: v for k, v in program.terms.items() if k != name})
        if program.terms[name] != f"{name}.mean()":
            yield dataclasses.replace(program, terms={**program.terms, name: f"{name}.mean()"})
    for name, lines in program.members.items():
        if len(lines) > 1:
            yield dataclasses.replace(program, members={**program.members, name: lines[:1]})


def _x_shape(program: Program) -> list[int]:
    scope: dict[str, Any] = {"torch": torch, "rows": program.settings["rows"], "g": torch.Generator()}
    exec("\n".join(program.batch), scope)
    return list(scope["x"].shape)
