"""JSON files. Errors of reading name the field and its place; writing is whole or not at all."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

from ._errors import BadFormat

Path_ = str | os.PathLike[str]

LARGEST_SIZE = 2**63 - 1


def kind_of(value: Any) -> str:
    """Returns a value that came from JSON, as a message shows it: numbers and words as they are, else its type."""
    return str(value) if type(value) in (int, float) else type(value).__name__


class Place:
    """A JSON object in a file. Each look-up raises BadFormat if the field is missing or has another type."""

    def __init__(self, file: str, value: Any, path: str = "") -> None:
        self.file, self.value, self.path = file, value, path
        if not isinstance(value, dict):
            raise BadFormat(
                f"{file}: {f'field {path!r}: ' if path else ''}must be {'an' if path else 'a JSON'} object (got {kind_of(value)})"
            )

    def bad(self, field: str, message: str) -> BadFormat:
        return BadFormat(f"{self.file}: field '{self.path}{'.' if self.path and field else ''}{field}': {message}")

    def need(self, field: str) -> Any:
        value = self.value.get(field)
        if value is None and field not in self.value:
            raise self.bad(field, "is missing")
        return value

    def string(self, field: str) -> str:
        value = self.need(field)
        if not isinstance(value, str):
            raise self.bad(field, f"must be a string (got {kind_of(value)})")
        return value

    def size(self, field: str) -> int:
        value = self.need(field)
        if type(value) is not int or not 0 <= value <= LARGEST_SIZE:
            raise self.bad(field, f"must be an integer of 0 or more (got {kind_of(value)})")
        return value

    def number(self, field: str) -> float:
        value = self.need(field)
        if type(value) not in (int, float):
            raise self.bad(field, f"must be a number (got {kind_of(value)})")
        return float(value)

    def list(self, field: str) -> list[Any]:
        value = self.need(field)
        if not isinstance(value, list):
            raise self.bad(field, f"must be a list (got {kind_of(value)})")
        return value

    def ids(self, field: str, least: int = 0) -> list[int]:
        value = self.list(field)
        for i, item in enumerate(value):
            if type(item) is not int or not least <= item < 2**31:
                raise self.bad(f"{field}[{i}]", "must be an integer in range")
        return value

    def choice(self, field: str, names: tuple[str, ...]) -> int:
        value = self.string(field)
        if value not in names:
            raise self.bad(field, f"must be one of {', '.join(names)} (got '{value[:40]}')")
        return names.index(value)

    def objects(self, field: str) -> list[Place]:
        return [Place(self.file, item, f"{field}[{i}]") for i, item in enumerate(self.list(field))]


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError("an object has the same field twice")
    return value


def _no_constant(name: str) -> Any:
    raise ValueError(f"JSON has no number {name}")


def read_json(path: Path_, kind: str) -> Place:
    """Returns the root of a file of a format, version 1. Raises OSError if it cannot be read, and BadFormat."""
    file = os.fspath(path)
    with open(file, "rb") as stream:
        text = stream.read()
    try:
        value = json.loads(text.decode(), object_pairs_hook=_no_duplicates, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise BadFormat(f"{file}: {error}") from None
    root = Place(file, value)
    if root.string("format") != kind:
        raise root.bad("format", f"must be '{kind}' (got '{root.string('format')[:40]}')")
    if root.size("version") != 1:
        raise root.bad("version", f"must be 1 (got {root.size('version')}); a newer version of neap may read it")
    return root


def write_text(path: Path_, text: str) -> None:
    """Writes a file whole or not at all: to a temporary name, which is then renamed. Writes to a device or a pipe
    directly. Raises OSError, which names the file."""
    target = os.path.realpath(os.fspath(path))
    data = text.encode("utf-8", "replace")
    try:
        mode = os.stat(target).st_mode
    except FileNotFoundError:
        mode = None
    if mode is not None and not stat.S_ISREG(mode):
        Path(target).write_bytes(data)
        return
    temporary = f"{target}.{os.getpid()}.part"
    try:
        with open(temporary, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        if mode is not None:
            os.chmod(temporary, stat.S_IMODE(mode))
        os.replace(temporary, target)
    except BaseException:
        if os.path.exists(temporary):
            os.unlink(temporary)
        raise


def write_json(path: Path_, value: Any) -> None:
    write_text(path, json.dumps(value, allow_nan=False, separators=(",", ":"), ensure_ascii=False) + "\n")
