from fmcli.base.types cimport RowEntries, real
from fmcli.data.dataset cimport Dataset
from fmcli.solvers.stochastic.row_entries cimport RoundEntries, BucketSpace
from libc.stdint cimport int32_t, int64_t, uint32_t


cdef class BucketRoom:
    cdef BucketSpace space
    cdef int32_t* sample
    cdef real* weight
    cdef uint32_t[::1] place
    cdef list memory
    cdef Py_ssize_t entries

    cdef reserve(self, Py_ssize_t entries)
    cdef bint bucket(self, const RoundEntries* entries, RowEntries* rows) noexcept nogil


cdef class SampleRounds:
    cdef readonly Dataset data
    cdef readonly bint by_sample
    cdef readonly object ends
    cdef readonly Py_ssize_t longest, most_entries  # the most samples and entries of a round
    cdef readonly double mean_weight
    cdef const int64_t[::1] end
    cdef RowEntries* rows
    cdef double[::1] shared  # by round: the curvature of rows that all its samples touch

    cdef group(self, BucketRoom room)
