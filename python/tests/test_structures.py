"""The structures that the package and its tests share with the library are those of its headers."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from structures import COMPILER, find_structures, layout_in_c, layout_in_python

from neap import _library

sys.path.append(str(Path(__file__).parent / "torch"))
import native


@pytest.mark.skipif(COMPILER is None, reason="no C compiler")
@pytest.mark.parametrize("module", [_library, native], ids=["plans", "sessions"])
def test_structures_are_those_of_the_headers(tmp_path: Path, module: object) -> None:
    structures = find_structures(module)
    assert len(structures) > 8
    assert layout_in_python(structures) == layout_in_c(structures, tmp_path)
