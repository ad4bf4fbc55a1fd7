cdef class Quadratic:
    cdef readonly Py_ssize_t most
    cdef Py_ssize_t width
    cdef double* r      # slopes
    cdef double* G      # most x most, curvatures; rows `width` apart
    cdef double* phi    # the row before the step
    cdef double* l1
    cdef double* l2
    cdef double* step   # what the row has moved by
    cdef list memory

    cdef void begin(self, Py_ssize_t width) noexcept nogil
    cdef void complete(self) noexcept nogil
    cdef void sweep(self) noexcept nogil
    cdef void move_one(self, Py_ssize_t f) noexcept nogil
    cdef double trace(self) noexcept nogil
    cdef void move_as_group(self, double h, double group) noexcept nogil
    cdef double penalty(self, double share, double group) noexcept nogil
