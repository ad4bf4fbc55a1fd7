from fmcli.base.types cimport ColumnView, real
from libc.stdint cimport int32_t, int64_t, uint8_t


cdef class Columns:
    cdef readonly object indptr, sample, value
    cdef bint constant  # every value is 1
    cdef readonly bint same  # every row has all samples
    cdef const int64_t* indptr_
    cdef const int32_t* sample_
    cdef const real* value_

    # Set the samples that row j affects, and its values there; NULL if it affects all samples.
    cdef inline void view(self, Py_ssize_t j, ColumnView* v) noexcept nogil:
        cdef Py_ssize_t at = 0 if self.same else j
        v.n = self.indptr_[at + 1] - self.indptr_[at]
        v.sample = self.sample_ + self.indptr_[at]
        v.value = self.value_ if self.constant else self.value_ + self.indptr_[at]

    cdef bint any_taken(
        self, const int32_t[::1] order, Py_ssize_t begin, Py_ssize_t end, const uint8_t[::1] taken) noexcept
    cdef void take(
        self, const int32_t[::1] order, Py_ssize_t begin, Py_ssize_t end, uint8_t[::1] taken, bint yes) noexcept
