from libc.stdint cimport int32_t, int64_t

from fmcli._core.types cimport Sample


cdef class Dataset:
    cdef readonly Py_ssize_t rows, nnz, longest
    cdef readonly int32_t features
    cdef readonly object indptr, index, value, field, label, weight
    cdef object ones
    cdef bint constant  # every value is 1
    cdef const int64_t* indptr_
    cdef const int32_t* index_
    cdef const int32_t* field_
    cdef const float* value_
    cdef const double* label_
    cdef const double* weight_

    cdef inline void sample(self, Py_ssize_t i, Sample* x) noexcept nogil:
        cdef int64_t start = self.indptr_[i]
        x.index = self.index_ + start
        x.field = self.field_
        if self.field_ != NULL:
            x.field += start
        # Data whose values are all 1 keeps none: one shared run of ones as long as the longest row stands for them.
        x.value = self.value_
        if not self.constant:
            x.value += start
        x.nnz = self.indptr_[i + 1] - start

    cdef inline double weight_of(self, Py_ssize_t i) noexcept nogil:
        return self.weight_[i] if self.weight_ != NULL else 1.0
