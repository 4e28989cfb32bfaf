"""Costs, plans and the compiled allocator are kept in a folder of the tests' own."""

import os
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
os.environ.setdefault("XDG_CACHE_HOME", str(Path(tempfile.gettempdir()) / "neap-torch-tests"))
