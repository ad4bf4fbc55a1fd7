"""Candidates for the largest of many scores that are known up to an error."""

import numpy as np

from libc.stdint cimport int32_t, int64_t
from libcpp.pair cimport pair
from libcpp.vector cimport vector


cdef extern from "fmcli/scoring/recommend/best.h" namespace "fmcli" nogil:
    cppclass Best:
        size_t wanted
        const int32_t* seen
        const int32_t* seen_end
        vector[pair[double, int32_t]] kept
        void add(const float*, Py_ssize_t, int32_t, double) except +
        void prune()


cdef class Candidates:
    """The candidates of some rows.

    Parameters
    ----------
    wanted : the number of largest scores wanted for each row.
    begins : int64 (rows + 1), where the numbers of each row begin in `seen`.
    seen : int32, the numbers of scores to leave out, increasing in each row.
    """

    cdef vector[Best] rows
    cdef object kept  # the arrays that rows point to

    def __init__(self, Py_ssize_t wanted, const int64_t[::1] begins, const int32_t[::1] seen):
        cdef Py_ssize_t i, rows = begins.shape[0] - 1
        if wanted < 1 or rows < 0 or begins[0] < 0 or begins[rows] > seen.shape[0]:
            raise ValueError("there are no such rows")
        self.kept = begins, seen
        self.rows.resize(rows)
        for i in range(rows):
            if begins[i] > begins[i + 1]:
                raise ValueError("the beginnings of rows must not decrease")
            self.rows[i].wanted = wanted
            if seen.shape[0]:
                self.rows[i].seen, self.rows[i].seen_end = &seen[0] + begins[i], &seen[0] + begins[i + 1]

    def add(self, const float[:, ::1] scores, int32_t first, const double[::1] error):
        """Take scores number first, first + 1, .. (rows, n) of each row. error (rows) : the largest error of each
        score."""
        cdef size_t i
        if scores.shape[0] != <Py_ssize_t>self.rows.size() or error.shape[0] != scores.shape[0]:
            raise ValueError("there are not scores and an error for each row")
        with nogil:
            for i in range(self.rows.size()):
                if scores.shape[1]:
                    self.rows[i].add(&scores[i, 0], scores.shape[1], first, error[i])

    def found(self):
        """Return (rows) the number of scores of each row that may be among the largest, and int32, their numbers,
        increasing in each row."""
        cdef size_t i, j
        cdef Py_ssize_t at = 0
        for i in range(self.rows.size()):
            self.rows[i].prune()
        counts = np.array([self.rows[i].kept.size() for i in range(self.rows.size())], dtype=np.int64)
        numbers = np.empty(counts.sum(), dtype=np.int32)
        cdef int32_t[::1] out = numbers
        for i in range(self.rows.size()):
            for j in range(self.rows[i].kept.size()):  # in the order of their addition
                out[at] = self.rows[i].kept[j].second
                at += 1
        return counts, numbers
