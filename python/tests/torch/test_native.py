"""The structures of native.py lie as those of the header: a field that is missing there would be read from behind its end."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
from pathlib import Path

import native
import pytest

HEADERS = Path(__file__).resolve().parents[3] / "include"


def test_structures_lie_as_in_the_header(tmp_path: Path) -> None:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None or not HEADERS.is_dir():
        pytest.skip("there is no C compiler, or no header")
    kinds = [k for k in vars(native).values() if isinstance(k, type) and issubclass(k, ctypes.Structure)]
    expected = {}
    for kind in kinds:
        name = "neap" + re.sub("([A-Z])", lambda m: "_" + m[1].lower(), kind.__name__)
        expected[f"sizeof({name})"] = ctypes.sizeof(kind)
        expected |= {f"offsetof({name}, {field[0]})": getattr(kind, field[0]).offset for field in kind._fields_}
    source = tmp_path / "sizes.c"
    lines = "".join(f'  printf("%zu\\n", {what});\n' for what in expected)
    source.write_text(f'#include <stddef.h>\n#include <stdio.h>\n#include "neap.h"\nint main(void) {{\n{lines}}}\n')
    subprocess.run([compiler, f"-I{HEADERS}", str(source), "-o", str(tmp_path / "sizes")], check=True)
    found = subprocess.run([str(tmp_path / "sizes")], check=True, capture_output=True, text=True).stdout.split()
    assert dict(zip(expected, map(int, found), strict=True)) == expected
