from libc.stdint cimport int32_t


# How a sample is shared out among anchors.
cdef struct Code:
    Py_ssize_t n  # active anchors
    int32_t* active  # room for all anchors; behind the active ones are others
    double* share  # room for all anchors; of each active one; their sum is 1
    double total  # what shares were divided by to sum to 1


cdef class Coding:
    cdef readonly Py_ssize_t most
    cdef readonly double strength

    cdef void encode(self, const double* distance, Py_ssize_t anchors, Code* code) noexcept nogil
    cdef double slope(self, const Code* code, Py_ssize_t i, double value, double sum, double score) noexcept nogil
