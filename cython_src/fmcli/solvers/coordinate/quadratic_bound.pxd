from fmcli.kernels.arguments cimport ExactStrength


cdef class QuadraticBound:
    cdef Py_ssize_t width
    cdef double* r      # slopes
    cdef double* G      # curvatures, width x width
    cdef double* phi    # the parameters before the step
    cdef double* extra_curvature   # what scores that are not linear add to G's diagonal
    cdef double* step   # what they have moved by
    cdef double* c      # of a row that moves as one: c and d of group_penalties.h; also other work
    cdef double* d
    cdef ExactStrength* strength  # of each parameter
    cdef double group             # strength of a penalty of all parameters together
    cdef int group_penalty        # and which
    cdef object memory

    cdef void begin(self, Py_ssize_t width, double group, int group_penalty) noexcept nogil
    cdef void complete(self) noexcept nogil
    cdef void eliminate_last(self) noexcept nogil
    cdef void sweep(self, Py_ssize_t many) noexcept nogil
    cdef void move_one(self, Py_ssize_t f) noexcept nogil
    cdef double minimum(self, Py_ssize_t f, double hu, double h) noexcept nogil
    cdef void move_together(self, double h) noexcept nogil
    cdef void halve(self) noexcept nogil
    cdef double penalty(self) noexcept nogil
