from fmcli.base.types cimport ColumnView
from fmcli.models.model cimport Joined
from fmcli.solvers.coordinate.columns cimport Columns


cdef class AllPairs:
    cdef Joined joined
    cdef readonly object contexts, items, now, curvature, offset
    cdef readonly double strength
    cdef readonly Py_ssize_t width  # the factors of a row, and its weight
    cdef Columns of_contexts, of_items  # the rows that each feature enters
    cdef Columns everyone               # all contexts
    cdef double* now_[2]
    cdef double* curvature_[2]
    cdef double* offset_[2]

    cdef require(self)
    cdef int view(self, bint of_feature, ColumnView* v) noexcept nogil
