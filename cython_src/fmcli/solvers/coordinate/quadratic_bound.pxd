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
    cdef double group             # strength of a penalty of all parameters as a whole
    cdef int group_penalty        # and which
    cdef bint follows     # the last parameter follows the others to its minimum
    cdef bint together    # all move at once
    cdef double curvature  # and this is no less than G's largest eigenvalue, whose place it takes
    cdef object memory

    cdef void begin(
        self, Py_ssize_t width, bint follows, bint together, double group, int group_penalty) noexcept nogil
    cdef void complete(self) noexcept nogil
    cdef void minimise(self) noexcept nogil
    cdef void shorten(self) noexcept nogil
    cdef void eliminate_last(self) noexcept nogil
    cdef void move_one(self, Py_ssize_t f) noexcept nogil
    cdef double minimum(self, Py_ssize_t f, double hu, double h) noexcept nogil
    cdef void move_together(self) noexcept nogil
    cdef double penalty(self) noexcept nogil
