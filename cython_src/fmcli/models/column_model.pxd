from fmcli.base.types cimport ColumnView, Sample, SampleStates, Scratch, real
from fmcli.data.dataset cimport Dataset
from fmcli.models.model cimport Model


cdef class ColumnModel(Model):
    # The body of the visited row; only while training.
    cdef inline real* row_of(self, const ColumnView* v) noexcept nogil:
        return self.block[v.block].body + (
            v.output * self.block[v.block].rows + v.row) * self.block[v.block].body_stride

    cdef Py_ssize_t cache_size(self, Dataset data)
    cdef void fill_cache(self, const Sample* x, Scratch* s, int output, real* cache) noexcept nogil
    cdef void fill_states(
        self, Dataset data, Py_ssize_t start, Py_ssize_t stop, Scratch* s, const SampleStates* states) noexcept nogil
    cdef void prefetch_states(self, const ColumnView* v) noexcept nogil
    cdef void score_gradient(self, const ColumnView* v, real* q) noexcept nogil
    cdef bint score_curvature(self, const ColumnView* v, real* out) noexcept nogil
    cdef bint score_changes(self, const ColumnView* v, const real* step, double* out) noexcept nogil
    cdef void update_cache(self, const ColumnView* v, const real* step) noexcept nogil


cdef class Joined:
    cdef readonly ColumnModel model
    cdef double part(self, const Sample* x, int output, real* sums) noexcept nogil
