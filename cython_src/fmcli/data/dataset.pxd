from fmcli.base.types cimport Csr, LabelArray, Sample, sample_of
from fmcli.base.types cimport label_of as label_in
from libc.stdint cimport int32_t, int64_t


cdef class Dataset:
    cdef readonly Py_ssize_t rows, nnz, longest
    cdef readonly int32_t features
    cdef readonly object indptr, index, value, field, label, weight, group, numbering, unit
    cdef object shared
    cdef Csr csr  # if all values are equal, all rows use `shared`, which is as long as the longest row
    cdef LabelArray labels
    cdef const double* weight_

    cdef entries_of(self, const int32_t[::1] rows, const int64_t[::1] indptr, const int32_t[::1] numbers)

    cdef inline void sample(self, Py_ssize_t i, Sample* x) noexcept nogil:
        x[0] = sample_of(&self.csr, i)

    cdef inline double label_of(self, Py_ssize_t i) noexcept nogil:
        return label_in(&self.labels, i)

    cdef check_entries(self)
    cdef order_rows(self, int64_t first, int64_t last, const int32_t[::1] columns)
    cdef counts_of(self, const int32_t[::1] rows)
    cdef with_shared(self, indices, numbering)
    cdef selected(self, index, kept, features, numbering)
    cdef check_rows(self, const int32_t[::1] rows)

    cdef inline double weight_of(self, Py_ssize_t i) noexcept nogil:
        return self.weight_[i] if self.weight_ != NULL else 1.0

    # The weight of row i's loss in a mean over rows with this total weight, as in `shares`.
    cdef inline double share_of(self, Py_ssize_t i, double total_weight) noexcept nogil:
        return self.weight_of(i) / total_weight
