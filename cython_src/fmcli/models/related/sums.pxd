from fmcli.base.types cimport ColumnView, real
from fmcli.data.dataset cimport Dataset
from fmcli.models.model cimport ColumnModel, Joined
from libc.stdint cimport int32_t


# A table whose rows are parts of samples, with the parts' sums.
cdef struct RelatedTable:
    const int32_t* row   # of each sample
    const real* sums     # classes x rows x lanes
    const double* own    # classes x rows
    Py_ssize_t rows, lanes


# Adds a part's sums to the cache of the i-th sample. Returns the change of the sample's score.
cdef inline double join(const RelatedTable* table, Py_ssize_t i, int output, real* cache) noexcept nogil:
    cdef Py_ssize_t f, at = output * table.rows + table.row[i]
    cdef const real* sums = table.sums + at * table.lanes
    cdef double change = table.own[at]
    for f in range(table.lanes):
        change += <double>cache[f] * sums[f]
        cache[f] += sums[f]
    return change


cdef void part_gradient(const ColumnView* v, const real* sums, real* q) noexcept nogil
cdef void update_part(const ColumnView* v, const real* sums, const real* step) noexcept nogil


cdef class RelatedSums:
    cdef Joined joined
    cdef readonly ColumnModel model
    cdef readonly Dataset data
    cdef readonly object row
    cdef RelatedTable table
    cdef real* sums
    cdef double* own
    cdef object memory
