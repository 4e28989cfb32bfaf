"""Compares structures of ctypes with those that the C compiler makes of the headers, field by field."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
from pathlib import Path

INCLUDE = Path(__file__).parents[2] / "include"
COMPILER = next((path for path in map(shutil.which, ("cc", "gcc", "clang")) if path), None)


def find_structures(module: object) -> dict[str, type[ctypes.Structure]]:
    """Of a module, by the names that the headers have for them."""
    return {
        "neap_" + re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower(): kind
        for name, kind in vars(module).items()
        if isinstance(kind, type) and issubclass(kind, ctypes.Structure) and kind is not ctypes.Structure
    }


def layout_in_c(structures: dict[str, type[ctypes.Structure]], folder: Path) -> dict[str, int]:
    """Sizes of structures, and offsets of their fields."""
    wanted = [f"sizeof({name})" for name in structures]
    wanted += [f"offsetof({name}, {field[0]})" for name, kind in structures.items() for field in kind._fields_]
    headers = "".join(f'#include "{path.name}"\n' for path in sorted(INCLUDE.glob("*.h")))
    prints = "".join(f'  printf("%s=%zu\\n", "{what}", (size_t){what});\n' for what in wanted)
    source, program = folder / "layout.c", folder / "layout"
    source.write_text(f"#include <stddef.h>\n#include <stdio.h>\n{headers}int main(void) {{\n{prints}}}\n")
    subprocess.run([COMPILER, "-std=gnu17", f"-I{INCLUDE}", source, "-o", program], check=True)
    lines = subprocess.run([program], check=True, capture_output=True, text=True).stdout.splitlines()
    return {what: int(value) for what, value in (line.split("=") for line in lines)}


def layout_in_python(structures: dict[str, type[ctypes.Structure]]) -> dict[str, int]:
    result = {f"sizeof({name})": ctypes.sizeof(kind) for name, kind in structures.items()}
    for name, kind in structures.items():
        for field in kind._fields_:
            result[f"offsetof({name}, {field[0]})"] = getattr(kind, field[0]).offset
    return result
