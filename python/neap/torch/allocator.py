"""The steered CPU allocator: compiled once for the installed PyTorch, and kept in the user's cache directory."""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import torch

SOURCE = Path(__file__).with_name("_steer.cpp")

_library: ctypes.PyDLL | None = None
_reason: str | None = None


def cache_directory() -> Path:
    """Returns the folder of measured costs, plans and the compiled allocator."""
    root = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(root) if os.path.isabs(root) else Path.home() / ".cache") / "neap"


def _compile(target: Path) -> None:
    compiler = os.environ.get("CXX") or shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        raise RuntimeError("no C++ compiler was found (install g++, or set CXX)")
    root = Path(torch.__file__).parent
    flags = [
        "-std=c++20",
        "-O2",
        "-fPIC",
        "-shared",
        f"-D_GLIBCXX_USE_CXX11_ABI={int(torch._C._GLIBCXX_USE_CXX11_ABI)}",
    ]
    flags.append(f"-I{root / 'include'}")
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        built = Path(folder) / target.name
        command = [*compiler.split(), *flags, str(SOURCE), "-o", str(built), f"-L{root / 'lib'}", "-lc10"]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        if result.returncode != 0:
            raise RuntimeError(f"{compiler} failed:\n{result.stderr.strip()[-2000:]}")
        os.replace(built, target)


def _load() -> ctypes.PyDLL:
    if sys.platform != "linux":
        raise RuntimeError("it works on Linux only")
    if os.environ.get("NEAP_TORCH_STEER") == "0":
        raise RuntimeError("NEAP_TORCH_STEER=0 switches it off")
    key = hashlib.sha256(SOURCE.read_bytes() + torch.__version__.encode()).hexdigest()[:16]
    target = cache_directory() / f"steer-{key}.so"
    if not target.exists():
        _compile(target)
    library = ctypes.PyDLL(str(target))
    pointer, size, integer = ctypes.c_void_p, ctypes.c_uint64, ctypes.c_int64
    for name, result, arguments in (
        ("neap_steer_install", None, []),
        ("neap_steer_arena", integer, [size, size]),
        ("neap_steer_arena_outstanding", integer, [integer]),
        ("neap_steer_arena_free", None, [integer]),
        ("neap_steer_program", pointer, [integer, *[pointer] * 7, integer]),
        ("neap_steer_program_free", None, [pointer]),
        ("neap_steer_begin", None, [pointer, integer]),
        ("neap_steer_check", ctypes.c_int, []),
        ("neap_steer_end", ctypes.c_int, []),
        ("neap_steer_unplanned_bytes", size, []),
        ("neap_steer_high", size, [pointer]),
        ("neap_steer_record", None, []),
        ("neap_steer_recorded", integer, []),
        ("neap_steer_row", None, [integer, pointer, pointer, pointer]),
        ("neap_steer_scratch", size, [pointer]),
        ("neap_steer_count", None, [ctypes.c_int]),
        ("neap_steer_counted", None, [pointer, pointer]),
        ("neap_heap_counts", ctypes.c_int, []),
        ("neap_heap_on", None, []),
        ("neap_heap_off", None, []),
        ("neap_heap_exclude", None, [ctypes.c_int]),
        ("neap_heap_count_all", None, [ctypes.c_int]),
        ("neap_heap_live", integer, []),
        ("neap_heap_peak", integer, []),
        ("neap_heap_mark", None, []),
    ):
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    library.neap_steer_install()
    return library


def library() -> ctypes.PyDLL | None:
    """Installs the allocator and returns its library; None if that fails (`reason` says why)."""
    global _library, _reason
    if _library is None and _reason is None:
        try:
            _library = _load()
        except Exception as error:
            _reason = str(error)
    return _library


def reason() -> str | None:
    """Returns the reason why there is no steered allocator; None if there is one."""
    library()
    return _reason


def steers(device: torch.device) -> bool:
    """Returns whether calls on the device get their results at planned addresses."""
    return device.type == "cpu" and library() is not None


class Recording:
    """The allocations of a call: `with Recording() as r: result = call()`, then r.rows and r.scratch(kept)."""

    def __init__(self, on: bool = True):
        self.library = library() if on else None

    def __enter__(self) -> Recording:
        if self.library:
            self.library.neap_steer_record()
        return self

    def __exit__(self, *_: object) -> None:
        self.rows: list[tuple[int, int, bool]] = []  # (bytes, address, freed before the end)
        if not self.library:
            return
        size, address, freed = ctypes.c_uint64(), ctypes.c_uint64(), ctypes.c_int()
        for i in range(self.library.neap_steer_recorded()):
            self.library.neap_steer_row(i, ctypes.byref(size), ctypes.byref(address), ctypes.byref(freed))
            self.rows.append((size.value, address.value, bool(freed.value)))

    def scratch(self, kept: set[int]) -> int:
        """Returns the bytes of scratch that the call needs if the allocations `kept` (by number) have memory elsewhere."""
        if not self.library or not self.rows:
            return 0
        flags = (ctypes.c_int * len(self.rows))(*(int(i in kept) for i in range(len(self.rows))))
        return self.library.neap_steer_scratch(flags)


class Counted:
    """Counts the bytes of tensors that the body makes: `live` beside those at its begin, and `peak`, the most at a time. On the CPU these are
    the bytes that this thread takes outside arenas; without the library, 0. On CUDA, resets the peak of the caching allocator."""

    def __init__(self, device: torch.device):
        self.cuda = device if device.type == "cuda" else None
        self.library = library() if device.type == "cpu" else None
        self.live = self.peak = 0

    def __enter__(self) -> Counted:
        if self.cuda:
            self.before = torch.cuda.memory_allocated(self.cuda)
            torch.cuda.reset_peak_memory_stats(self.cuda)
        self._count(True)
        return self

    def _count(self, anew: bool) -> None:
        if self.library:
            self.library.neap_steer_count(int(anew))

    def __exit__(self, *_: object) -> None:
        if self.library:
            live, peak = ctypes.c_int64(), ctypes.c_int64()
            self.library.neap_steer_counted(ctypes.byref(live), ctypes.byref(peak))
            self.live, self.peak = live.value, peak.value
        elif self.cuda:
            self.live = torch.cuda.memory_allocated(self.cuda) - self.before
            self.peak = torch.cuda.max_memory_allocated(self.cuda) - self.before

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Counts nothing in its body, which runs planned calls."""
        try:
            yield
        finally:
            self._count(False)
