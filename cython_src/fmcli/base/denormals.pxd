from libc.stdint cimport uint64_t

cdef extern from "fmcli/base/denormals.h" nogil:
    ctypedef uint64_t FloatingMode
    FloatingMode flush_denormals()
    void return_to_mode(FloatingMode mode)
