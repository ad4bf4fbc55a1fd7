from fmcli.penalties.arguments cimport ExactStrength


cdef class QuadraticBound:
    cdef Py_ssize_t width
    cdef double* r      # the gradient
    cdef double* G      # the curvatures, width x width
    cdef double* phi    # the parameters before the step
    cdef double* extra_curvature   # added to G's diagonal because scores are not linear
    cdef double* step   # the change of the parameters so far
    cdef double* c      # c and d of group_penalties.h if all parameters move at once; also used as work space
    cdef double* d
    cdef ExactStrength* strength  # the penalty strengths of each parameter
    cdef double group             # the strength of the group penalty on all parameters
    cdef int group_penalty        # its position in the list of group_penalties.h
    cdef bint follows     # the last parameter is always at its minimum, given the others
    cdef bint together    # all parameters move at once
    cdef double curvature  # if they do: an upper bound on G's largest eigenvalue, used instead of G
    cdef object memory

    cdef void begin(
        self, Py_ssize_t width, bint follows, bint together, double group, int group_penalty) noexcept nogil
    cdef void clear(self) noexcept nogil
    cdef void save(self, double* sums) noexcept nogil
    cdef void add(self, const double* sums) noexcept nogil
    cdef void complete(self) noexcept nogil
    cdef void minimize(self) noexcept nogil
    cdef void shorten(self) noexcept nogil
    cdef void eliminate_last(self) noexcept nogil
    cdef void move_last(self) noexcept nogil
    cdef double minimum(self, Py_ssize_t f, double hu, double h) noexcept nogil
    cdef void move_together(self) noexcept nogil
    cdef double penalty(self) noexcept nogil
