"""States of 8 bits beside bitsandbytes: its maps, and blocks to the byte over twenty steps of AdamW and Lion.

Blocks are compared with NumPy's arithmetic in f32, which rounds as bitsandbytes' CPU code does: over the largest size of a block,
to the nearest number of the map, to the lower one of two. (Its release 0.50 looks numbers up in a table instead that is too coarse
for those below 2e-5.)"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import native
import numpy as np
import pytest

SIZE, STEPS, RATE, DECAY, BLOCK = (64, 128), 20, np.float32(2.0**-6), np.float32(0.125), 256
RULES: dict[str, dict[str, Any]] = {
    "adamw8": {"optimizer": 14},
    "lion8": {"optimizer": 15},
    "adam": {"optimizer": 2, "states_8bit": True},
}
one = np.float32(1)


def dynamic_map(signed: bool) -> np.ndarray:
    """Seven ranges of powers of ten; torch.linspace counts from both ends."""
    values = [0.0, 1.0]
    for i in range(7):
        parts = 2 ** (i if signed else i + 1)
        step = np.float32(0.9) / np.float32(parts)
        borders = np.array(
            [np.float32(0.1) + np.float32(k) * step if k < (parts + 1) // 2 else one - np.float32(parts - k) * step for k in range(parts + 1)],
            np.float32,
        )  # fmt: skip
        means = ((borders[:-1] + borders[1:]) / np.float32(2)).astype(np.float32)
        scaled = [float(np.float32(10.0 ** (i - 6)) * mean) for mean in means]
        values += scaled + ([-value for value in scaled] if signed else [])
    return np.sort(np.array(values, np.float32))


def expand(blocks: np.ndarray, table: np.ndarray) -> np.ndarray:
    return table[blocks[:, :BLOCK]] * blocks[:, BLOCK:].copy().view(np.float32)


def quantise(x: np.ndarray, table: np.ndarray) -> np.ndarray:
    x = x.reshape(-1, BLOCK)
    most = np.abs(x).max(1, keepdims=True)
    size = x / np.where(most > 0, most, one)
    low = np.searchsorted(table, size, side="right") - 1
    low = low.clip(0, 255)
    high = (low + 1).clip(0, 255)
    index = np.where(np.abs(table[high] - size) < np.abs(size - table[low]), high, low).astype(np.uint8)
    return np.concatenate((index, most.astype(np.float32).view(np.uint8)), 1)


def stored(path: Path, name: str) -> np.ndarray:
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    begin, end = json.loads(data[8 : 8 + size])[name]["data_offsets"]
    return np.frombuffer(data[8 + size + begin : 8 + size + end], np.uint8).reshape(-1, BLOCK + 4)


@pytest.fixture(scope="module")
def library() -> native.Library:
    return native.Library(native.LIBRARY)


def test_maps() -> None:
    functional = pytest.importorskip("bitsandbytes.functional")
    for signed in (True, False):
        wanted, made = functional.create_dynamic_map(signed).numpy(), dynamic_map(signed)
        assert made == pytest.approx(wanted, rel=3e-7)  # of powers of ten the last bits may differ
    assert functional.create_dynamic_map(True)[0] > -1


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("budget", ["most", "least"])
def test_blocks(library: native.Library, tmp_path: Path, rule: str, budget: str) -> None:
    """The loss is the mean of w c, so that gradients are known to the bit: c over a power of two."""
    functional = pytest.importorskip("bitsandbytes.functional")
    signed, unsigned = (functional.create_dynamic_map(s).numpy() for s in (True, False))
    random = np.random.default_rng(7)
    count = SIZE[0] * SIZE[1]
    with native.network(library) as n:
        w, c = n.parameter(b"w", SIZE), n.input(b"c", native.F32, SIZE)
        loss = n.mean(n.multiply(w, c), (0, 1), False)
        with (
            native.finished(library, n, loss) as graph,
            native.session(
                library,
                graph,
                weight_decay=float(DECAY),
                budget=native.BUDGET_MAX if budget == "most" else 0,
                **RULES[rule],
            ) as session,
        ):
            weights = random.standard_normal(SIZE).astype(np.float32)
            session.write("w", weights)
            names = [name.removeprefix("w.") for name in session.variables if name != "w"]
            assert names == (["momentum"] if rule == "lion8" else ["first_moment", "second_moment"])
            blocks = [np.zeros((count // BLOCK, BLOCK + 4), np.uint8) for _ in names]
            tables = [signed, unsigned]
            for t in range(1, STEPS + 1):
                values = (random.standard_normal(SIZE) * np.exp(2 * random.standard_normal(SIZE))).astype(np.float32)
                values[t % 3] = 0
                session.fill("c", values)
                session.step(float(RATE))
                g = (values * np.float32(1 / count)).reshape(-1, BLOCK)
                w32, states = (
                    weights.reshape(-1, BLOCK),
                    [expand(b, table) for b, table in zip(blocks, tables, strict=False)],
                )
                if rule == "lion8":
                    b1, b2 = np.float32(0.9), np.float32(0.99)
                    mixed = b1 * states[0] + (one - b1) * g
                    w32 = w32 - RATE * (DECAY * w32 + np.sign(mixed))
                    states[0] = b2 * states[0] + (one - b2) * g
                else:
                    b1, b2, epsilon = np.float32(0.9), np.float32(0.999), np.float32(1e-8)
                    d = g + DECAY * w32 if rule == "adam" else g
                    m = states[0] + (one - b1) * (d - states[0])
                    v = b2 * states[1] + (one - b2) * d * d
                    c1, c2 = np.float32(1 / (1 - float(b1) ** t)), np.float32(1 / np.sqrt(1 - float(b2) ** t))
                    if rule == "adamw8":
                        w32 = w32 - RATE * DECAY * w32
                    w32 = w32 - RATE * c1 * m / (np.sqrt(v) * c2 + epsilon)
                    states = [m, v]
                weights = w32.reshape(SIZE).astype(np.float32)
                blocks = [
                    quantise(state.astype(np.float32), table) for state, table in zip(states, tables, strict=False)
                ]
                path = tmp_path / f"{t}.safetensors"
                library.check(library.session_save(session.handle, str(path).encode()))
                for name, wanted in zip(names, blocks, strict=True):
                    assert (stored(path, f"w.{name}") == wanted).all(), (t, name)
                assert (session.read("w") == weights).all(), t


def test_not_finite(library: native.Library) -> None:
    """A gradient that is no number shows in the weights; other blocks stay."""
    with native.network(library) as n:
        loss = n.mean(n.multiply(n.parameter(b"w", SIZE), n.input(b"c", native.F32, SIZE)), (0, 1), False)
        with native.finished(library, n, loss) as graph, native.session(library, graph, **RULES["adamw8"]) as session:
            values = np.ones(SIZE, np.float32)
            values[0, 0] = np.nan
            session.fill("c", values)
            session.step(float(RATE))
            state = session.read("w.first_moment").reshape(-1, BLOCK)
            assert np.isnan(state[0]).all() and np.isfinite(state[1:]).all()


def test_which(library: native.Library) -> None:
    """Small parameters, embeddings and those that are named keep states of f32."""
    with native.network(library) as n:
        table, x, label = (
            n.parameter(b"table", (128, 64)),
            n.input(b"x", native.I32, (4,)),
            n.input(b"label", native.I32, (4,)),
        )
        y = n.gather(table, x)
        for name, size in (("a", (64, 64)), ("b", (64, 64)), ("c", (64, 60)), ("d", (100, 64)), ("e", (64, 100))):
            y = n.linear_with(y, n.parameter(name.encode(), size), -1) if size[1] == n.shape(y)[1] else y
        loss = n.softmax_cross_entropy(y, label, 0.0)
        with (
            native.finished(library, n, loss) as graph,
            native.session(library, graph, optimizer=14, states_f32=b"b") as session,
        ):
            found = {
                e.name.removesuffix(".first_moment")
                for e in session.variables.values()
                if e.name.endswith("first_moment")
            }
            kinds = {}
            for entry in session.of_kind(native.STATE):
                variable = native.Variable()
                library.check(library.session_variable(session.handle, entry.index, native.ctypes.byref(variable)))
                kinds[entry.name] = variable.dtype
            assert found == {"table", "a", "b", "d", "e"}
            assert {name.split(".")[0] for name, kind in kinds.items() if kind != native.F32} == {"a", "d", "e"}
