"""Rows joined with their rows of other data sets."""

import numpy as np

from fmcli.errors import BadInputError

from fmcli.base.types cimport Csr
from fmcli.data.dataset cimport Dataset
from libc.stdint cimport int32_t, int64_t
from libcpp.vector cimport vector

cdef extern from "fmcli/data/related/join.h" namespace "fmcli" nogil:
    struct JoinedRelation:
        const Csr* table
        const int32_t* row

    int64_t join_rows(const vector[JoinedRelation]&, int64_t, int64_t*, int32_t*, float*) except +


def joined(Dataset data, relations):
    """Return the rows of `data`, each with the entries of one row per related data set; all have columns of the same
    numbering. Values of a column that occurs in several of them are summed.

    relations : (related, rows) pairs; row rows[i] (int32) of the Dataset `related` belongs to row i.

    Raises IndexError for a row that a relation lacks, and BadInputError if a sum is too large.
    """
    cdef vector[JoinedRelation] parts
    cdef const int32_t[::1] rows
    cdef Dataset related
    cdef int64_t count
    everything = [(data, np.arange(data.rows, dtype=np.int32)), *relations]
    lengths = np.zeros(data.rows, dtype=np.int64)
    for related, numbers in everything:
        rows = related.checked(numbers)
        if rows.shape[0] != data.rows:
            raise ValueError(f"there are {rows.shape[0]} numbers for {data.rows} rows")
        lengths += np.diff(related.indptr)[numbers]
        if rows.shape[0]:
            parts.push_back(JoinedRelation(&related.csr, &rows[0]))
    most = int(lengths.sum())
    indptr_ = np.zeros(data.rows + 1, dtype=np.int64)
    index_, value_ = np.empty(most + 1, dtype=np.int32), np.empty(most + 1, dtype=np.float32)
    cdef int64_t[::1] indptr = indptr_
    cdef int32_t[::1] index = index_
    cdef float[::1] value = value_
    with nogil:
        count = join_rows(parts, data.rows, &indptr[0], &index[0], &value[0])
    if count < data.rows:
        raise BadInputError("the values of a feature in a joined row add up to more than a number of 32 bits holds; "
                            "write smaller values")
    nnz = indptr_[data.rows]
    return Dataset(
        indptr_, index_[:nnz], value_[:nnz], data.label, max([part.features for part, _ in everything]), None,
        data.weight, group=data.group, trusted=True, numbering=data.numbering, unit=data.unit)
