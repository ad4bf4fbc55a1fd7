"""Values by column: their moments, and rows with values divided or shifted by column."""

import numpy as np

from fmcli.base.types cimport Sample
from fmcli.data.dataset cimport Dataset
from libc.stdint cimport int32_t, int64_t


def moments(Dataset data not None, rows):
    """Return two float64 arrays (features): the mean of each column over the rows with these indices (int32), and
    the sum of squared differences from the mean, both weighted. Missing entries count as 0."""
    sums_, squares_, present_ = np.zeros(data.features), np.zeros(data.features), np.zeros(data.features)
    cdef double[::1] mean = sums_
    cdef double[::1] squares = squares_
    cdef double[::1] present = present_
    cdef double weight, total = data.total_weight(rows)
    cdef const int32_t[::1] chosen = data.checked(rows)
    cdef Py_ssize_t n = chosen.shape[0], i, j
    cdef int32_t column
    cdef Sample x
    with nogil:
        for i in range(n):
            data.sample(chosen[i], &x)
            weight = data.weight_of(chosen[i])
            for j in range(x.nnz):
                mean[x.index[j]] += weight * x.value[j]
                present[x.index[j]] += weight
        for j in range(data.features):
            mean[j] /= total if total > 0 else 1
        for i in range(n):
            data.sample(chosen[i], &x)
            weight = data.weight_of(chosen[i])
            for j in range(x.nnz):
                column = x.index[j]
                squares[column] += weight * (x.value[j] - mean[column]) ** 2
        for j in range(data.features):
            squares[j] += max(0.0, total - present[j]) * mean[j] ** 2
    return sums_, squares_


def scaled(Dataset data not None, divisors):
    """Return the rows with each value divided by the divisor of its column (float32, features)."""
    values = np.empty(data.nnz, dtype=np.float32)
    cdef float[::1] out = values
    cdef const float[::1] by = divisors
    if by is None or by.shape[0] < data.features:
        raise ValueError("there must be a divisor for each column")
    cdef Sample x
    cdef Py_ssize_t i, j
    with nogil:
        for i in range(data.rows):
            data.sample(i, &x)
            for j in range(x.nnz):
                out[data.csr.indptr[i] + j] = x.value[j] / by[x.index[j]]
    return data.changed(value=values)


def centered(Dataset data not None, const float[::1] divisors, const float[::1] centers):
    """Return the rows with values (x - center) / divisor, with one center and divisor per column (float32, features).
    Missing entries count as 0, so each row gets an entry in each column with a nonzero center, unless the value equals
    the center.

    Raises ValueError for rows with fields, because an added entry has no field.
    """
    if data.field is not None:
        raise ValueError("rows with fields cannot be centered")
    features = data.features if data.numbering is not None else max(data.features, len(divisors))
    if len(divisors) < features or len(centers) < features:
        raise ValueError("there must be a divisor and a center for each column")
    shifted = np.flatnonzero(centers).astype(np.int32)
    cdef const int32_t[::1] columns = shifted
    ends = np.zeros(data.rows + 1, dtype=np.int64)
    cdef int64_t[::1] indptr = ends
    cdef Py_ssize_t i
    cdef Sample x
    with nogil:
        for i in range(data.rows):
            data.sample(i, &x)
            indptr[i + 1] = indptr[i] + center_row(x, &divisors[0], &centers[0], columns, NULL, NULL)
    nnz = indptr[data.rows]
    indices, values = np.empty(nnz, dtype=np.int32), np.empty(nnz, dtype=np.float32)
    cdef int32_t[::1] index = indices
    cdef float[::1] value = values
    with nogil:
        for i in range(data.rows):
            if indptr[i] < indptr[i + 1]:
                data.sample(i, &x)
                center_row(x, &divisors[0], &centers[0], columns, &index[indptr[i]], &value[indptr[i]])
    return Dataset(
        ends, indices, values, data.label, features, None, data.weight, group=data.group, trusted=True,
        numbering=data.numbering, unit=data.unit)


# Write the entries of a centered row, unless `index` is NULL; return their number.
cdef Py_ssize_t center_row(
    const Sample& x, const float* divisors, const float* centers, const int32_t[::1] columns, int32_t* index,
    float* value
) noexcept nogil:
    cdef Py_ssize_t entry = 0, place = 0, entries = 0
    cdef int32_t column
    cdef double number
    cdef float scaled
    while entry < x.nnz or place < columns.shape[0]:
        if place < columns.shape[0] and (entry == x.nnz or columns[place] <= x.index[entry]):
            column = columns[place]
            place += 1
        else:
            column = x.index[entry]
        number = 0
        if entry < x.nnz and x.index[entry] == column:
            number = x.value[entry]
            entry += 1
        scaled = <float>((number - centers[column]) / divisors[column])
        if scaled != 0:  # rows have no zero entries
            if index != NULL:
                index[entries] = column
                value[entries] = scaled
            entries += 1
    return entries
