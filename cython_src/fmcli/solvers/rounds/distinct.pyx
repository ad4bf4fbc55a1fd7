"""The distinct ids among some ids."""

import numpy as np

from libc.stdint cimport int32_t

cdef extern from "fmcli/solvers/rounds/distinct.h" namespace "fmcli" nogil:
    Py_ssize_t find_distinct "fmcli::distinct"(
        const int32_t* ids, Py_ssize_t n, int32_t* found, int32_t* place) except +


def distinct(const int32_t[::1] ids):
    """Return the distinct ids (int32), in increasing order, and the position of each id among them, int32. Raises
    ValueError for negative ids."""
    cdef Py_ssize_t i, n = ids.shape[0], count = 0
    found_, places_ = np.empty(n, dtype=np.int32), np.empty(n, dtype=np.int32)
    cdef int32_t[::1] found = found_, places = places_
    for i in range(n):
        if ids[i] < 0:
            raise ValueError("ids must not be negative")
    if n:
        with nogil:
            count = find_distinct(&ids[0], n, &found[0], &places[0])
    return found_[:count].copy(), places_
