from fmcli._core.types cimport Block, Sample, Scratch

cdef enum:
    MAX_BLOCKS = 8


cdef class Model:
    cdef Block block[MAX_BLOCKS]
    cdef readonly int n_blocks, outputs, slots
    cdef readonly Py_ssize_t features
    cdef readonly tuple layout
    cdef readonly dict parameters, states
    cdef bint by_feature[MAX_BLOCKS]
    cdef Py_ssize_t width[MAX_BLOCKS]  # columns of a body, without padding
    cdef bint has_bias
    cdef object memory

    cdef inline double bias(self, int output) noexcept nogil:
        return self.block[0].weight[output * self.block[0].weight_stride] if self.has_bias else 0.0

    cdef Py_ssize_t work_size(self)
    cdef void prefetch(self, const Sample* x) noexcept nogil
    cdef void rows(self, const Sample* x, Scratch* s) noexcept nogil
    cdef void score(self, const Sample* x, Scratch* s) noexcept nogil
    cdef void gradient(self, const Sample* x, Scratch* s) noexcept nogil
    cdef void settle(self, Scratch* s) noexcept nogil


cdef class Workspace:
    cdef Scratch scratch
    cdef list memory
