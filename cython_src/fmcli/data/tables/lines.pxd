from fmcli.data.dictionary cimport Array


cdef extern from "fmcli/data/references.h" namespace "fmcli" nogil:
    cppclass References:
        void clear()


cdef class Lines:
    cdef Array[char] text
    cdef References references
