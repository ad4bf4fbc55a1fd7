# Random numbers by counters, in C.
from libc.stdint cimport uint32_t, uint64_t


cdef extern from "fmcli/solvers/gibbs/random.h" nogil:
    ctypedef struct Stream:
        pass

    Stream stream_of(uint64_t seed, uint32_t sweep, uint32_t purpose, uint32_t row, uint32_t first)
    double uniform(Stream* s)
    double normal(Stream* s)
    void normals(Stream* s, double* out, Py_ssize_t count)
    double truncated_normal(Stream* s, double low, double high)
