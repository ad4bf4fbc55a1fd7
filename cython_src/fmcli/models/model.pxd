from fmcli.base.types cimport ColumnView, Sample, SampleStates, Scratch, real
from fmcli.data.dataset cimport Dataset
from fmcli.models.arguments cimport SampleRun
from fmcli.models.parameters cimport Resumable
from libc.stdint cimport int32_t

cdef enum:
    NONE = -1
    SAMPLES_AHEAD = 2  # from prefetching the parameter rows of a sample to scoring it


cdef class Model(Resumable):
    cdef int32_t* every_row  # 0, 1, 2, ...: the row ids of blocks whose rows all affect every sample
    cdef readonly int pair_block  # the block whose gradient can be a second-order formula, or NONE

    cdef Py_ssize_t most_rows(self, int b, Py_ssize_t longest)
    cdef Py_ssize_t ids_size(self, Py_ssize_t longest)
    cdef Py_ssize_t work_size(self, Py_ssize_t longest)
    cdef Py_ssize_t scoring_ids_size(self, Py_ssize_t longest)
    cdef Py_ssize_t scoring_work_size(self, Py_ssize_t longest)
    cdef void prefetch(self, const Sample* x, Scratch* s) noexcept nogil
    cdef void rows(self, const Sample* x, Scratch* s) noexcept nogil
    cdef void usual_rows(self, const Sample* x, const int32_t** row, Py_ssize_t* n) noexcept nogil
    cdef void cut(self, const int32_t** row, const Py_ssize_t* n, Scratch* s) noexcept nogil
    cdef void score(self, const Sample* x, Scratch* s) noexcept nogil
    cdef void score_samples(
        self, Dataset data, const int32_t* rows, Py_ssize_t start, Py_ssize_t stop, Scratch* s, double* out
    ) noexcept nogil
    cdef void gradient(self, const Sample* x, Scratch* s) noexcept nogil
    cdef bint describe(self, SampleRun* run) noexcept nogil
    cdef bint takes_run_of(self, Dataset data)
    cdef void finish_update(self, Scratch* s) noexcept nogil
    cdef void weight_derivatives(self, int b, const Sample* x, Scratch* s) noexcept nogil


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
    cdef bint within
    cdef Py_ssize_t size(self, Dataset data)
    cdef const real* beta(self, int output) noexcept nogil
    cdef double linear(self, int block, const Sample* x, int output, bint common) noexcept nogil
    cdef double part(self, const Sample* x, int output, bint common, real* sums) noexcept nogil
