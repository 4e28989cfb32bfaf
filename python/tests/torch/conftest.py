"""Costs, plans and the compiled allocator are kept in a folder of this run's own."""

import os
import sys
import tempfile
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
cache = tempfile.TemporaryDirectory(prefix="neap-torch-tests-")
os.environ["XDG_CACHE_HOME"] = cache.name


@pytest.fixture(scope="session")
def library():
    """The library of C, for the tests of operators and optimizers (native.py)."""
    import native

    if native.NAMED is None and not native.LIBRARY.is_file():
        pytest.skip(f"{native.LIBRARY} is not built (make), and NEAP_LIBRARY names none")
    return native.Library(native.LIBRARY)
