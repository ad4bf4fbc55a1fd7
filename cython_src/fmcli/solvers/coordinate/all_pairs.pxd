from fmcli.base.types cimport ColumnView, real
from fmcli.models.model cimport Joined
from fmcli.solvers.coordinate.descent cimport Descent
from fmcli.solvers.coordinate.kernels cimport ObservedPairs
from fmcli.solvers.coordinate.update cimport CoordinateUpdater


cdef class AllPairs(Descent):
    cdef Joined sides
    cdef Py_ssize_t contexts  # parts, which come first
    cdef double strength
    cdef Py_ssize_t width  # the factors of a part, and its weight
    cdef readonly object links
    cdef tuple first  # part of each side, and the number of all parts
    cdef ObservedPairs observed
    cdef object numbers  # curvature and offset of each side
    cdef tuple memory_of_pairs  # their scores, and `numbers` in reals
    cdef object known  # how many contexts and items are constant, and stand for all of them; None: all move
    cdef Py_ssize_t[2] moved    # the first part of each side that moves
    cdef Py_ssize_t[2] paired   # the end of the parts of each side that all parts of the other side have a pair with
    cdef list squares        # of each side, the strength times the squared own scores of the other side's parts
    cdef bint measured       # whether the scores of observed pairs are those of the parts as they are
    cdef list fresh          # whether these numbers of a side are those of the other side's parts as they are
    cdef real* curvature[2]
    cdef real* offset[2]


cdef class PairUpdater(CoordinateUpdater):
    cdef AllPairs all_pairs
    cdef object room_memory
    cdef real* room  # of observed_pairs_bound
    cdef void weigh(self, const ColumnView* v, const real* beta) noexcept nogil
