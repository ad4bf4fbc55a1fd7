cdef class QuadraticBound:
    cdef Py_ssize_t width
    cdef double* r      # slopes
    cdef double* G      # curvatures, width x width
    cdef double* phi    # the parameters before the step
    cdef double* extra_curvature   # what scores that are not linear add to G's diagonal
    cdef double* l1
    cdef double* l2
    cdef double* step   # what they have moved by
    cdef object memory

    cdef void begin(self, Py_ssize_t width) noexcept nogil
    cdef void complete(self) noexcept nogil
    cdef void eliminate_last(self) noexcept nogil
    cdef void sweep(self, Py_ssize_t many) noexcept nogil
    cdef void move_one(self, Py_ssize_t f) noexcept nogil
    cdef void move_as_group(self, double h, double group) noexcept nogil
    cdef void halve(self) noexcept nogil
    cdef double penalty(self, double group) noexcept nogil
