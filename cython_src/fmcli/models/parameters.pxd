from fmcli.base.types cimport Block, Factors, real

cdef enum:
    MAX_BLOCKS = 8


# The memory of a block's weights, or of one vector of its bodies, with or without solver state beside it.
cdef struct VectorMemory:
    real* base
    Py_ssize_t output_stride, feature_stride, row_stride  # reals between classes, features, and the rows of a feature
    Py_ssize_t lanes
    Py_ssize_t offset  # of the vector's gradient in the gradient of a row


cdef class Parameters:
    cdef Block block[MAX_BLOCKS]
    cdef readonly int n_blocks, outputs, slots
    cdef readonly Py_ssize_t features
    cdef public Py_ssize_t absent, cutpoints
    cdef readonly tuple layout
    cdef readonly dict parameters, states, constants
    cdef VectorMemory* vectors[MAX_BLOCKS]
    cdef VectorMemory weight_memory[MAX_BLOCKS]
    cdef int n_vectors[MAX_BLOCKS]
    cdef bint by_feature[MAX_BLOCKS]
    cdef bint simplex[MAX_BLOCKS]
    cdef bint trained[MAX_BLOCKS]
    cdef bint constrained    # whether any block is on the simplex
    cdef readonly bint has_bias
    cdef bint attached
    cdef int generation  # how often rows were allocated or attached; not positive while there are no rows
    cdef object memory, room

    # The p-th vector of the bodies in block b, for one output; `row` is the index on the axis besides features.
    cdef inline Factors factors(self, int b, int p, int output, Py_ssize_t row=0) noexcept nogil:
        return factors_at(&self.vectors[b][p], output, row)

    # The weights in block b, for one output.
    cdef inline Factors weights(self, int b, int output, Py_ssize_t row=0) noexcept nogil:
        return factors_at(&self.weight_memory[b], output, row)

    cdef inline double bias(self, int output) noexcept nogil:
        return self.weight_memory[0].base[output * self.weight_memory[0].output_stride] if self.has_bias else 0.0

    cdef require(self, bint training=*)
    cdef Py_ssize_t room_size(self)
    cdef void constrain(self) noexcept nogil


cdef class Resumable(Parameters):
    pass


cdef inline Factors factors_at(const VectorMemory* at, int output, Py_ssize_t row) noexcept nogil:
    return Factors(
        at.base + output * at.output_stride + row * at.row_stride, at.feature_stride, at.lanes)
