from fmcli.base.types cimport Block, ColumnView, Factors, Sample, SampleStates, Scratch, real
from fmcli.data.dataset cimport Dataset
from fmcli.models.arguments cimport SampleRun
from libc.stdint cimport int32_t

cdef enum:
    MAX_BLOCKS = 8
    NONE = -1


# The memory of one array of a block, or of one part of it, with or without solver state beside it.
cdef struct Part:
    real* base
    Py_ssize_t output_stride, feature_stride, row_stride  # reals between classes, features, and the rows of a feature
    Py_ssize_t lanes
    Py_ssize_t offset  # of the part's gradient in the gradient of a row


cdef class Model:
    cdef Block block[MAX_BLOCKS]
    cdef readonly int n_blocks, outputs, slots
    cdef readonly Py_ssize_t features
    cdef public Py_ssize_t absent, cutpoints
    cdef readonly tuple layout
    cdef readonly dict parameters, states, constants
    cdef Part* parts[MAX_BLOCKS]
    cdef Part weight_part[MAX_BLOCKS]
    cdef int n_parts[MAX_BLOCKS]
    cdef bint by_feature[MAX_BLOCKS]
    cdef bint simplex[MAX_BLOCKS]
    cdef bint trained[MAX_BLOCKS]
    cdef bint constrained    # whether any block is on the simplex
    cdef int32_t* every_row  # 0, 1, 2, ...: the row ids of blocks whose rows all affect every sample
    cdef readonly bint has_bias, joins
    cdef readonly int pair_block  # whose gradient can be a formula of second order; NONE: there is none
    cdef bint attached
    cdef int generation  # how often rows were allocated or attached; not positive while there are none
    cdef object memory, room

    # The p-th part of the bodies in block b, for one output; `row` is the index on the axis besides features.
    cdef inline Factors factors(self, int b, int p, int output, Py_ssize_t row=0) noexcept nogil:
        return factors_at(&self.parts[b][p], output, row)

    # The weights in block b, for one output.
    cdef inline Factors weights(self, int b, int output, Py_ssize_t row=0) noexcept nogil:
        return factors_at(&self.weight_part[b], output, row)

    # The body of the visited row; only while training.
    cdef inline real* row_of(self, const ColumnView* v) noexcept nogil:
        return self.block[v.block].body + (
            v.output * self.block[v.block].rows + v.row) * self.block[v.block].body_stride

    cdef inline double bias(self, int output) noexcept nogil:
        return self.weight_part[0].base[output * self.weight_part[0].output_stride] if self.has_bias else 0.0

    cdef count_rows(self)
    cdef lay_out(self, bint attached)
    cdef require(self, bint training=*)
    cdef place(self, Part* part, layout, real* base, Py_ssize_t stride, Py_ssize_t lanes)
    cdef place_mapped(self, Part* part, layout, array, Py_ssize_t at, Py_ssize_t lanes)
    cdef void prefetch_mapped(self, const Part* part, const Sample* x, int output) noexcept nogil

    cdef Py_ssize_t room_size(self)
    cdef Py_ssize_t most_rows(self, int b, Py_ssize_t longest)
    cdef Py_ssize_t ids_size(self, Py_ssize_t longest)
    cdef Py_ssize_t work_size(self, Py_ssize_t longest)
    cdef Py_ssize_t scoring_ids_size(self, Py_ssize_t longest)
    cdef Py_ssize_t scoring_work_size(self, Py_ssize_t longest)
    cdef void prefetch(self, const Sample* x, Scratch* s) noexcept nogil
    cdef void usual_rows(self, const Sample* x, const int32_t** row, Py_ssize_t* n) noexcept nogil
    cdef void cut(self, const int32_t** row, const Py_ssize_t* n, Scratch* s) noexcept nogil
    cdef void rows(self, const Sample* x, Scratch* s) noexcept nogil
    cdef void score(self, const Sample* x, Scratch* s) noexcept nogil
    cdef void score_samples(
        self, Dataset data, const int32_t* rows, Py_ssize_t start, Py_ssize_t stop, Scratch* s, double* out
    ) noexcept nogil
    cdef void gradient(self, const Sample* x, Scratch* s) noexcept nogil
    cdef bint describe(self, SampleRun* run) noexcept nogil
    cdef bint takes_run_of(self, Dataset data)
    cdef void constrain(self) noexcept nogil
    cdef void finish_update(self, Scratch* s) noexcept nogil
    cdef void weight_derivatives(self, int b, const Sample* x, Scratch* s) noexcept nogil
    cdef Py_ssize_t cache_size(self, Dataset data)
    cdef void fill_cache(self, const Sample* x, Scratch* s, int output, real* cache) noexcept nogil
    cdef void fill_states(
        self, Dataset data, Py_ssize_t start, Py_ssize_t stop, Scratch* s, const SampleStates* states) noexcept nogil
    cdef void prefetch_states(self, const ColumnView* v) noexcept nogil
    cdef void score_gradient(self, const ColumnView* v, real* q) noexcept nogil
    cdef bint score_curvature(self, const ColumnView* v, real* out) noexcept nogil
    cdef bint score_changes(self, const ColumnView* v, const real* step, double* out) noexcept nogil
    cdef void update_cache(self, const ColumnView* v, const real* step) noexcept nogil
    cdef double part(self, const Sample* x, int output, real* sums) noexcept nogil
    cdef void part_gradient(self, const ColumnView* v, const real* sums, real* q) noexcept nogil
    cdef void update_part(self, const ColumnView* v, const real* sums, const real* step) noexcept nogil


cdef inline Factors factors_at(const Part* part, int output, Py_ssize_t row) noexcept nogil:
    return Factors(
        part.base + output * part.output_stride + row * part.row_stride, part.feature_stride, part.lanes)
