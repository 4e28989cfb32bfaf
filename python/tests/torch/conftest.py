"""Costs, plans and the compiled allocator are kept in a folder of this run's own."""

import os
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
cache = tempfile.TemporaryDirectory(prefix="neap-torch-tests-")
os.environ["XDG_CACHE_HOME"] = cache.name
