"""Costs, plans and the compiled allocator are kept in a folder of this run's own."""

import os
import sys
import tempfile
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
cache = tempfile.TemporaryDirectory(prefix="neap-torch-tests-")
os.environ["XDG_CACHE_HOME"] = cache.name

from quick import QUICK  # noqa: E402  (it plans in this folder of costs and plans)


# What is marked `long` a quick pass leaves out; `make check-all` has it.
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    left_out = [item for item in items if QUICK and item.get_closest_marker("long")]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in set(left_out)]


@pytest.fixture(scope="session")
def library():
    """The library of C, for the tests of operators and optimizers (native.py)."""
    import native

    if native.NAMED is None and not native.LIBRARY.is_file():
        pytest.skip(f"{native.LIBRARY} is not built (make), and NEAP_LIBRARY names none")
    return native.Library(native.LIBRARY)
