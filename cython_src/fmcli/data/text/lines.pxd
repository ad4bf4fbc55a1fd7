from libc.stdint cimport int64_t
from libcpp cimport bool as boolean
from libcpp.vector cimport vector

from fmcli.data.dictionary cimport Array


cdef extern from "fmcli/data/text/numbered.h" namespace "fmcli" nogil:
    cppclass NumberedRows:
        NumberedRows() except +
        size_t size()


cdef class Lines:
    cdef Array[char] text
    cdef vector[int64_t] skipped


cdef class Entries:
    cdef NumberedRows rows
    cdef vector[int64_t] skipped
    cdef public object lines
