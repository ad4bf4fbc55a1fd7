"""Arrays with mappings of their own if they are large, so their memory returns to the system as soon as they are
freed."""

from __future__ import annotations

import errno
import mmap
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

# A mapping takes microseconds and is not worth it for fewer bytes than this; such arrays begin at a cache line.
LEAST_MAPPED, CACHE_LINE = 1 << 16, 64
# The number of integers to write at a time.
NUMBERS_AT_ONCE = 1 << 16


def zeros(size: int, dtype: DTypeLike) -> NDArray[Any]:
    """Return an array of zeros with at least one item. If it is large, it is page-aligned, and in huge pages if the
    system has them.

    Physical memory is used only when it is written to.

    Raises MemoryError.
    """
    if size < 0:
        raise MemoryError
    size_in_bytes = max(size, 1) * np.dtype(dtype).itemsize
    if size_in_bytes < LEAST_MAPPED:
        room = np.zeros(size_in_bytes + CACHE_LINE, dtype=np.uint8)
        begin = -room.__array_interface__["data"][0] % CACHE_LINE
        return room[begin : begin + size_in_bytes].view(dtype)
    try:
        memory = mmap.mmap(-1, size_in_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except OverflowError as error:
        raise MemoryError from error
    except OSError as error:
        if error.errno != errno.ENOMEM:
            raise
        raise MemoryError from error
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with suppress(OSError):  # a kernel built without huge pages
            memory.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(memory, dtype=dtype)


def numbers_to(stop: int) -> NDArray[np.int32]:
    """Return int32: 0, 1, .. stop - 1. Raises MemoryError."""
    numbers = zeros(stop, np.int32)[:stop]
    for begin in range(0, stop, NUMBERS_AT_ONCE):
        end = min(begin + NUMBERS_AT_ONCE, stop)
        numbers[begin:end] = np.arange(begin, end, dtype=np.int32)
    return numbers
