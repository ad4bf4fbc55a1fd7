from fmcli.losses.arguments cimport ScalarLoss


cdef class Loss:
    cdef readonly double smoothness
    cdef readonly int outputs
    cdef check(self, label, int outputs)
    cdef double value(self, double y, const double* score) noexcept nogil
    cdef double curvature(self, double y, const double* score) noexcept nogil
    cdef double slope(self, double y, const double* score, double* slope) noexcept nogil
    cdef ScalarLoss of_one_score(self) noexcept nogil
