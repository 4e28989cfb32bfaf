"""Writes table_cases.json: odd tables, and what a reader must make of them.

python3 table_cases.py OUT.json      # needs pandas and NumPy

What a cell is comes from pandas, statistics come from NumPy in double. The rule is that of docs/formats.md, written here a second time:
a column with nine tenths of numbers, gaps aside, is one of numbers, and its other cells are refused; one without cells is left out.
"""

import io
import json
import sys
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd
from pandas._libs.parsers import STR_NA_VALUES

rng = np.random.default_rng(59)
NOTHING = STR_NA_VALUES | {"?"}
DATES = ["%Y-%m-%d", "%d.%m.%Y", "%m/%d/%Y", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M", "%H:%M", "%H:%M:%S"]


@dataclass
class Options:
    """The words of the source's name."""

    missing: list[str] | None = None
    words: list[str] = field(default_factory=list)
    comma: bool = False
    ignore: list[str] = field(default_factory=list)

    def text(self) -> str:
        """As they stand in the name."""
        parts = [f",words={';'.join(self.words)}"] if self.words else []
        parts += [f",ignore={';'.join(self.ignore)}"] if self.ignore else []
        parts += [",decimal=comma"] if self.comma else []
        parts += [f",missing={';'.join(self.missing)}"] if self.missing is not None else []
        return "".join(parts)


def number(cell: str, comma: bool) -> float | None:
    """The number that pandas reads, if it is finite in f32."""
    if not set(cell) <= set("0123456789+-eE,."):
        return None
    frame = pd.read_csv(io.StringIO(f"x;y\n{cell};0\n"), sep=";", decimal="," if comma else ".", keep_default_na=False)
    value = frame["x"].iloc[0]
    if isinstance(value, str) or (comma and "." in cell):
        return None
    with np.errstate(over="ignore"):
        return float(value) if np.isfinite(np.float32(value)) else None


def is_date(cell: str) -> bool:
    """Whether pandas reads a date or a time by one of the forms."""
    return any(not pd.isna(pd.to_datetime(cell, format=form, errors="coerce")) for form in DATES)


def kind(cell: str, o: Options) -> str:
    """What a cell is: gap, number, comma, point, date, boolean or word."""
    value = number(cell, o.comma)
    if o.missing is not None:
        equal = [number(m, o.comma) for m in o.missing]
        if cell == "" or cell in o.missing or (value is not None and value in equal):
            return "gap"
    if value is not None:
        return "number"
    if cell in NOTHING:
        return "gap"
    if not o.comma and "," in cell and number(cell, True) is not None:
        return "comma"
    if o.comma and "." in cell and number(cell, False) is not None:
        return "point"
    if is_date(cell):
        return "date"
    return "boolean" if cell.lower() in ("true", "false") else "word"


class Refused(Exception):
    """With the texts that the message has."""


@dataclass
class Column:
    """A column's fate, and its features [rows, width] before they are standardised; NaN: a gap."""

    rows: list[tuple[str, int]]
    features: np.ndarray | None = None
    numeric: bool = False
    refused: list[str] | None = None
    line: int = 0  # of the cell; 0: it is told before records are


def understand(name: str, cells: list[str], o: Options) -> Column:
    """By the rule."""
    kinds = [kind(c, o) for c in cells]
    count = {k: kinds.count(k) for k in ("gap", "number", "comma", "point", "date", "boolean", "word")}
    filled = len(cells) - count["gap"]
    taken = [
        k == "gap" and o.missing is not None and (c == "" or c in o.missing or number(c, o.comma) is not None)
        for c, k in zip(cells, kinds, strict=True)
    ]
    if name in o.ignore:
        return Column([("left out, as you say", -1)])
    if filled == 0 and name not in o.words:
        return Column([("left out, empty", count["gap"])])
    if name not in o.words and count["number"] > 0 and 10 * count["number"] >= 9 * filled:
        values = np.array(
            [number(c, o.comma) if k == "number" else np.nan for c, k in zip(cells, kinds, strict=True)], float
        )
        rows = [("numbers", count["number"])] + ([("gaps, filled with the mean", sum(taken))] if any(taken) else [])
        for i, (c, k) in enumerate(zip(cells, kinds, strict=True)):
            if k != "number" and not taken[i]:
                return Column(rows, refused=[f"line {i + 2}, column '{name}'", f"'{c}'"], line=i + 2)
        return Column(rows, values[:, None], numeric=True)
    if name not in o.words and count["comma"] > 0 and 10 * (count["number"] + count["comma"]) >= 9 * filled:
        i = kinds.index("comma")
        return Column([], refused=[f"line {i + 2}, column '{name}'", f"'{cells[i]}'", "decimal=comma"])
    commas = any(k == "number" and "," in c for c, k in zip(cells, kinds, strict=True))
    if (
        name not in o.words
        and not commas
        and count["point"] > 0
        and count["point"] >= count["number"]
        and 10 * (count["number"] + count["point"]) >= 9 * filled
    ):
        i = kinds.index("point")
        return Column([], refused=[f"line {i + 2}, column '{name}'", f"'{cells[i]}'", "decimal=comma"])
    words = sorted({c for c, gap in zip(cells, taken, strict=True) if not gap}, key=str.encode)
    became = (
        "words, true or false"
        if count["boolean"] == filled > 0
        else "words, though dates"
        if 10 * count["date"] >= 9 * filled > 0
        else "words"
    )
    rows = [(became, len(words))] + ([("gaps, no word", sum(taken))] if any(taken) else [])
    return Column(
        rows,
        np.array([[float(not gap and c == w) for w in words] for c, gap in zip(cells, taken, strict=True)]).reshape(
            len(cells), len(words)
        ),
    )


def standardised(column: Column) -> np.ndarray:
    """By the mean and deviation of all rows, in double; a gap is the mean."""
    assert column.features is not None
    if not column.numeric:
        return column.features
    mean, deviation = np.nanmean(column.features), np.nanstd(column.features)
    return np.nan_to_num((column.features - mean) / (deviation if deviation > 0 else 1), nan=0.0)


# ---- Tables ----


def base_cells(sort: str, rows: int, comma: bool) -> list[str]:
    """Cells without anything odd."""
    if sort == "integers":
        return [str(v) for v in rng.integers(-50, 50, rows)]
    if sort == "seconds":
        return [str(1_700_000_000 + v) for v in rng.integers(0, 90, rows)]
    if sort == "reals":
        return [f"{v:.4g}".replace(".", "," if comma else ".") for v in rng.normal(3, 20, rows)]
    if sort == "halves":
        return [f"{v / 2 + 0.5:.1f}".replace(".", "," if comma else ".") for v in rng.integers(0, 40, rows)]
    if sort == "dates":
        form = DATES[rng.integers(len(DATES))]
        return [pd.Timestamp(int(v), unit="s").strftime(form) for v in rng.integers(0, 2_000_000_000, rows)]
    if sort == "booleans":
        both = [["true", "false"], ["True", "False"], ["TRUE", "FALSE"]][rng.integers(3)]
        return [both[v] for v in rng.integers(0, 2, rows)]
    if sort == "empty":
        return [["", "NA", " "][rng.integers(3)] for _ in range(rows)]
    if sort == "mixed":
        return [[str(rng.integers(9)), "low", "high"][rng.integers(3)] for _ in range(rows)]
    return [["Rome", "Ulm", "Bonn, Rh.", "Köln", "a b"][v] for v in rng.integers(0, 5, rows)]


ODD = ["None", "NULL", " NA", " ?", "#N/A", "inf", "-inf", "1e39", "1,5", "-", "\t", "", "nan", "n/a", "NaN", "null", "x", "1 000", "12O", "$5", "5%", "0x10", "1e", "+", "-999",
       "2024-01-31", "true", "<NA>", "+7", " 4", "4 ", "\u00a05", ".5", "5.", "1e3", "-0", "1_0", "1.2.3", "1,2,3"]  # fmt: skip
SORTS = ["integers", "seconds", "reals", "halves", "dates", "booleans", "empty", "mixed", "words"]


def cut(cell: str) -> str:
    """Without the blanks around it."""
    return cell.strip(" \t\u00a0")


def options(names: list[str], cells: dict[str, list[str]]) -> Options:
    """Words that take some of what is odd."""
    o = Options()
    if rng.random() < 0.35:
        o.missing = [m for m in ("NA", "None", "?", "-", "-999", "x") if rng.random() < 0.5]
    if rng.random() < 0.15:
        o.words = [names[rng.integers(len(names))]]
    if rng.random() < 0.1:
        o.ignore = [names[rng.integers(len(names))]]
    return o


def quoted(cell: str, separator: str) -> str:
    """As a file has it."""
    return f'"{cell}"' if separator in cell or '"' in cell or cell == "" else cell


def case(index: int) -> dict[str, object]:
    """A table, its name's words and what comes of it."""
    rows = int(rng.integers(10, 25))
    names = [f"c{i}" for i in range(int(rng.integers(1, 4)))]
    comma = rng.random() < 0.15
    cells = {name: base_cells(SORTS[rng.integers(len(SORTS))], rows, comma) for name in names}
    for name in names:
        for _ in range(int(rng.choice([0, 0, 1, 1, 2, 5]))):
            cells[name][rng.integers(rows)] = (
                ODD[index % len(ODD)] if rng.random() < 0.5 else ODD[rng.integers(len(ODD))]
            )
    o = options(names, cells)
    o.comma = comma
    labels = [["0", "1"][v] for v in rng.permutation(np.arange(rows) % 2)]
    spelled = [[v, f" {v}", f"{v},0" if comma else f"{v}.0"][rng.integers(3)] for v in labels]
    separator = [",", ";"][rng.integers(2)]
    blank = lambda: ["", "", " "][rng.integers(3)]  # noqa: E731
    lines = [separator.join(blank() + n + blank() for n in [*names, "label"])]
    lines += [
        separator.join(quoted(c, separator) for c in (*(cells[n][i] for n in names), spelled[i])) for i in range(rows)
    ]
    columns = {name: understand(name, [cut(c) for c in cells[name]], o) for name in names}
    expected: dict[str, object] = {"table": "\n".join(lines) + "\n", "words": o.text()}
    refused = sorted((c for c in columns.values() if c.refused is not None), key=lambda c: c.line)
    kept = [c for c in columns.values() if c.features is not None]
    if refused:
        return expected | {"refused": refused[0].refused}
    if not kept:
        return expected | {"refused": ["no column to learn from"]}
    features = np.concatenate([standardised(c) for c in kept], axis=1)
    return expected | {
        "columns": [[name, became, count] for name, c in columns.items() for became, count in c.rows]
        + [["label", "the label, of classes", 2]],
        "records": [[i, int(labels[i]), [round(float(v), 7) for v in features[i]]] for i in (0, rows // 2, rows - 1)],
    }


if __name__ == "__main__":
    written = [json.dumps(case(i), ensure_ascii=False, separators=(",", ":")) for i in range(500)]
    Path(sys.argv[1]).write_text("[" + ",\n".join(written) + "]\n", encoding="utf-8")
