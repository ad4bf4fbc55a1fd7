from libc.stdint cimport int32_t


# The active anchors of a sample and their shares.
cdef struct Code:
    Py_ssize_t n  # number of active anchors
    int32_t* active  # the active anchors, followed by others; has room for all anchors
    double* share  # the share of each active anchor; their sum is 1; has room for all anchors
    double total  # sum of the shares before they were normalized


cdef class Coding:
    cdef readonly Py_ssize_t most
    cdef readonly double strength

    cdef void encode(self, const double* distance, Py_ssize_t anchors, Code* code) noexcept nogil
    cdef double slope(self, const Code* code, Py_ssize_t i, double value, double sum, double score) noexcept nogil
