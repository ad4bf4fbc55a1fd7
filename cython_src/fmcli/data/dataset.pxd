from fmcli.base.types cimport Csr, Sample, sample_of
from libc.stdint cimport int32_t, int64_t


cdef class Dataset:
    cdef readonly Py_ssize_t rows, nnz, longest
    cdef readonly int32_t features
    cdef readonly object indptr, index, value, field, label, weight
    cdef object ones
    cdef Csr csr  # data whose values are all 1 keeps none: a run of ones as long as the longest row stands for them
    cdef const double* label_
    cdef const double* weight_

    cdef entries_of(self, rows, const int64_t[::1] indptr, const int32_t[::1] numbers)

    cdef inline void sample(self, Py_ssize_t i, Sample* x) noexcept nogil:
        x[0] = sample_of(&self.csr, i)

    cdef check_entries(self)
    cdef places(self, const int32_t[::1] features)
    cdef check_rows(self, const int32_t[::1] rows)

    cdef inline double weight_of(self, Py_ssize_t i) noexcept nogil:
        return self.weight_[i] if self.weight_ != NULL else 1.0

    # What row i's loss counts for in the weighted mean over rows of so much weight in total, as `shares` says.
    cdef inline double share_of(self, Py_ssize_t i, double total_weight) noexcept nogil:
        return self.weight_of(i) / total_weight
