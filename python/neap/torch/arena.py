"""The memory of planned steps: one mapping, at one address, as large as the largest step so far."""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import weakref

import torch

from . import allocator
from .graph import View

NORESERVE = 0x4000  # Linux; the mmap module names it from Python 3.13 on
HUGE_PAGE = 1 << 21


def _machine_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _map(size: int) -> mmap.mmap:
    return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | NORESERVE)


# Released mappings that a tensor still uses (a traceback can hold one): their slots are freed after it.
_held: list[tuple[mmap.mmap, int]] = []


def _release(library: ctypes.PyDLL, memory: mmap.mmap, slot: int) -> None:
    """Returns an arena's bytes to the system. Its addresses stay reserved until no tensor of the allocator uses them."""
    memory.madvise(mmap.MADV_DONTNEED)
    _held.append((memory, slot))
    for held in list(_held):
        if library.neap_steer_arena_outstanding(held[1]) == 0:
            library.neap_steer_arena_free(held[1])
            _held.remove(held)


class Arena:
    """Memory outside PyTorch's allocator. It reserves addresses for all bytes of the machine, and takes those that are touched.
    size: the bytes that may be used. `grow` keeps the address unless address space is limited."""

    def __init__(self, size: int):
        self.size = self.reserved = 0
        self._close: weakref.finalize | None = None
        self.grow(size)

    def grow(self, size: int) -> bool:
        """Makes at least `size` bytes usable. Returns whether the address has changed: then programs must be bound again. Raises
        OSError, and RuntimeError if too many steps hold memory."""
        if size <= self.size:
            return False
        moved = size > self.reserved
        if moved:
            self.close()
            self.reserved = max(size, _machine_bytes()) + mmap.PAGESIZE
            try:
                self.memory = _map(self.reserved)
            except OSError:  # a limit on address space
                self.reserved = size + mmap.PAGESIZE
                self.memory = _map(self.reserved)
            self.address = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))
            library = allocator.library()
            slot = int(library.neap_steer_arena(self.address, self.reserved))
            if slot < 0:
                raise RuntimeError("neap: too many compiled steps hold memory; delete some")
            self.slot = slot
            self._close = weakref.finalize(self, _release, library, self.memory, slot)
        if hasattr(mmap, "MADV_HUGEPAGE") and size >= 2 * HUGE_PAGE:
            with contextlib.suppress(OSError):  # only whole pages: a page would be touched as a whole
                self.memory.madvise(mmap.MADV_HUGEPAGE, 0, size // HUGE_PAGE * HUGE_PAGE)
        self.size = size
        return moved

    def empty(self) -> None:
        """Returns the bytes to the system; the next step takes them again."""
        self.memory.madvise(mmap.MADV_DONTNEED)

    def close(self) -> None:
        if self._close is not None:
            self._close()
            self._close = None

    def holds(self, t: torch.Tensor) -> bool:
        """Returns whether a tensor lies in the arena."""
        return self.address <= t.untyped_storage().data_ptr() < self.address + self.reserved

    def tensor(self, offset: int, size: int, view: View) -> torch.Tensor:
        """Returns a view of a storage of `size` bytes at `offset`."""
        storage = torch._C._construct_storage_from_data_pointer(self.address + offset, torch.device("cpu"), size)
        return torch.empty(0, dtype=view.dtype).set_(storage, view.offset, view.size, view.stride)

    def bytes(self, offset: int, size: int) -> torch.Tensor:
        return self.tensor(offset, size, View(-1, (size,), (1,), 0, torch.uint8))
