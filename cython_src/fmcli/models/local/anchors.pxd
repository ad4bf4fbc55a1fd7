from fmcli.base.types cimport Points, Sample, real
from libc.stdint cimport int32_t
from libcpp.vector cimport vector


# A pending step of an anchor towards the sample, by the rate times -slope.
cdef struct Move:
    Sample x
    int32_t anchor
    double slope  # derivative of the loss by the anchor's squared distance


cdef class Anchors:
    cdef Points points
    cdef readonly object numbers
    cdef Py_ssize_t n, features
    cdef double[::1] scale, squares, shrink
    cdef real[::1] table
    cdef vector[Move] moves

    cdef place(self, numbers)
    cdef void step(self, double rate) noexcept nogil
    cdef void fold(self, Py_ssize_t anchor) noexcept nogil
    cdef void add(self, Py_ssize_t anchor, double amount, const Sample* x) noexcept nogil
