"""The Python of README.md and of docs/pytorch.md's first page runs, within the bytes that it names."""

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


def first_program(document: str) -> str:
    return (ROOT / document).read_text().split("```python\n", 1)[1].split("```", 1)[0]


@pytest.mark.parametrize("document", ["README.md", "docs/pytorch.md"])
def test_first_program(document, capsys):
    names: dict = {}
    exec(compile(first_program(document), document, "exec"), names)
    memory = names["step"].memory
    assert memory.measured_peak_bytes <= memory.planned_peak_bytes <= memory.budget_bytes
    assert "planned peak" in capsys.readouterr().out
