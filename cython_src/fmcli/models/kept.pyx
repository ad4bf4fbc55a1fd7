"""Arrays of draws as they are kept: in the real type, or in 16 bits, which take half of the bytes."""

import math

import numpy as np

from fmcli.models.layout import REAL_TYPE

from fmcli.base.types cimport real
from fmcli.models.kernels cimport kernels
from libc.stdint cimport int32_t, uintptr_t

# The type of draws if many draws of a large model are kept. Rounding errors are far smaller than the differences
# between draws, and average out.
HALF = np.dtype("<f2")


# The rows of an array (rows, numbers), which must stay in memory.
cdef KeptRows kept_rows(array):
    cdef KeptRows rows
    size = array.dtype.itemsize
    apart = array.ndim == 2 and array.size > len(array) and array.strides[1] != size
    if array.dtype not in (HALF, REAL_TYPE) or array.ndim != 2 or apart:
        raise ValueError(f"rows of {array.dtype}{list(array.shape)} do not fit a draw")
    rows.at = <const void*><uintptr_t>array.ctypes.data
    rows.stride, rows.size, rows.halved = array.strides[0] // size, array.shape[1], array.dtype == HALF
    return rows


def widened(array, int axis=0, columns=None):
    """Return an array of 16-bit numbers in the real type; `columns` (int32): only these places of an axis, which
    increase."""
    cdef const int32_t[::1] chosen = columns
    cdef Py_ssize_t n = array.shape[axis] if chosen is None else chosen.shape[0], block
    if n and chosen is not None and not 0 <= chosen[0] <= chosen[n - 1] < array.shape[axis]:
        raise ValueError("the array does not have these columns")
    cdef tuple before = array.shape[:axis], after = array.shape[axis + 1:]
    found = np.empty((*before, n, *after), dtype=REAL_TYPE)
    if not found.size:
        return found
    size = math.prod(after)
    blocks = np.ascontiguousarray(array).reshape(-1, array.shape[axis], size)
    cdef real[:, :, ::1] out = found.reshape(-1, n, size)
    cdef KeptRows rows
    cdef const int32_t* row = NULL
    if chosen is not None:
        row = &chosen[0]
    for block in range(out.shape[0]):
        rows = kept_rows(blocks[block])
        with nogil:
            kernels.copy_rows(&rows, row, n, &out[block, 0, 0], out.shape[2])
    return found
