from fmcli._core.data cimport Dataset
from libc.stdint cimport int32_t, int64_t


cdef class Columns:
    cdef readonly object indptr, sample, value
    cdef bint constant  # every value is 1
    cdef const int64_t* indptr_
    cdef const int32_t* sample_
    cdef const float* value_

    # The values of column j's entries.
    cdef inline const float* values(self, Py_ssize_t j) noexcept nogil:
        return self.value_ if self.constant else self.value_ + self.indptr_[j]
