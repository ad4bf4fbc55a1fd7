"""The fields of chosen features, and the number of rows in which two of them occur together."""

import numpy as np

from fmcli.base.types cimport Sample
from fmcli.data.dataset cimport Dataset
from libc.stdint cimport int32_t

cdef enum:
    MOST = 255  # features; their positions, from 1, are stored in bytes


def first_fields(Dataset data, const int32_t[::1] rows, const int32_t[::1] features):
    """Return int32 (n): the field of each feature's first entry in these rows; 0 without fields.

    Raises IndexError if a row does not exist, and ValueError for a feature without a column, or more than 255 features.
    """
    data.check_rows(rows)
    fields = np.zeros(features.shape[0], dtype=np.int32)
    cdef unsigned char[::1] place = places(data, features)
    cdef int32_t[::1] found = fields
    cdef Py_ssize_t i, entry, left = features.shape[0] if data.field is not None else 0
    cdef Sample x
    with nogil:
        for i in range(rows.shape[0]):
            if not left:
                break
            data.sample(rows[i], &x)
            for entry in range(x.nnz):
                if place[x.index[entry]]:
                    found[place[x.index[entry]] - 1] = x.field[entry]
                    place[x.index[entry]] = 0
                    left -= 1
    return fields


def together(Dataset data, const int32_t[::1] features):
    """Return int32 (n (n - 1) / 2): the number of rows that have both features of a pair.

    The pairs are the positions (0, 1), (0, 2), .., (1, 2), .. among at most 255 features. Raises ValueError for a
    feature without a column, or more than 255 features.
    """
    cdef unsigned char[::1] place = places(data, features)
    cdef Py_ssize_t i, entry, a, b, n, size = features.shape[0]
    table = np.zeros((max(size, 1), max(size, 1)), dtype=np.int32)
    cdef int32_t[:, ::1] counts = table
    cdef unsigned char[MOST] here
    cdef Sample x
    with nogil:
        for i in range(data.rows):
            data.sample(i, &x)
            n = 0
            for entry in range(x.nnz):
                if place[x.index[entry]] and (entry == 0 or x.index[entry] != x.index[entry - 1]):
                    here[n] = place[x.index[entry]] - 1
                    n += 1
            for a in range(n):
                for b in range(a):
                    counts[here[a], here[b]] += 1
    both = table + table.T
    return both[np.triu_indices(size, 1)]


# uint8 (features): the position of each chosen feature plus 1; 0 for all other features.
cdef places(Dataset data, const int32_t[::1] features):
    chosen = np.asarray(features)
    if len(chosen) > MOST or (len(chosen) and not 0 <= chosen.min() <= chosen.max() < data.features):
        raise ValueError(f"there are more than {MOST} features, or one of them is not a column")
    places = np.zeros(max(data.features, 1), dtype=np.uint8)
    places[chosen] = np.arange(1, len(chosen) + 1, dtype=np.uint8)
    return places
