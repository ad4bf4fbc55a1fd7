from libc.stdint cimport int64_t
from libcpp.vector cimport vector

from fmcli.data.dictionary cimport Array


cdef extern from "fmcli/data/references.h" namespace "fmcli" nogil:
    cppclass References:
        void clear()


cdef class Lines:
    cdef Array[char] text
    cdef References references
    cdef vector[int64_t] skipped
