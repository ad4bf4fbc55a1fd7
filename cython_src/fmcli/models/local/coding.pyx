"""Local codings: the anchors near a sample, and their shares [LL]."""

import numpy as np

from libc.math cimport exp, sqrt
from libc.stdint cimport int32_t


cdef extern from "fmcli/models/local/coding.h" namespace "fmcli" nogil:
    void start_nearest(const double* distance, Py_ssize_t n, int32_t* points) noexcept
    int32_t pop_nearest(const double* distance, Py_ssize_t n, int32_t* points) noexcept
    void put_first(Py_ssize_t n, int32_t* points) noexcept


cdef class Coding:
    """Base of codings. A coding does not change if a constant is added to all distances.

    Parameters
    ----------
    most : maximum number of active anchors.
    strength : factor by which distances are multiplied.
    """

    def __init__(self, Py_ssize_t most, double strength):
        self.most, self.strength = most, strength

    def evaluate(self, const double[::1] distance, const double[::1] value):
        """Return the shares (n) of n anchors, 0 for inactive anchors, and derivatives (n) of the score by the
        distances.

        The score is the sum of shares times values. The smallest distance (n) must be 0.
        """
        cdef Py_ssize_t n = distance.shape[0], i
        if n < 1 or value.shape[0] != n or self.most > n:
            raise ValueError(f"{n} distances, {value.shape[0]} values, {self.most} active anchors")
        cdef double sum = 0, score = 0
        cdef int32_t[::1] active = np.empty(n, dtype=np.int32)
        cdef double[::1] share = np.empty(n)
        cdef Code code = Code(0, &active[0], &share[0], 0)
        self.encode(&distance[0], n, &code)
        shares, slopes = np.zeros(n), np.zeros(n)
        for i in range(code.n):
            shares[active[i]] = share[i]
            sum += value[active[i]]
            score += share[i] * value[active[i]]
        for i in range(code.n):
            slopes[active[i]] = self.slope(&code, i, value[active[i]], sum, score)
        return shares, slopes

    # code <- the coding of a sample, given its distances from the anchors. The smallest distance is 0.
    cdef void encode(self, const double* distance, Py_ssize_t anchors, Code* code) noexcept nogil:
        pass

    # The derivative of a score by the distance of the i-th active anchor. `value` is the value of this anchor, `sum`
    # the sum of the values of all active anchors, and `score` the sum of values times shares.
    cdef double slope(self, const Code* code, Py_ssize_t i, double value, double sum, double score) noexcept nogil:
        return 0


cdef class Soft(Coding):
    """Soft assignment to the nearest anchors: shares proportional to exp(-c D) ([LL] (3)). `strength` is c."""

    cdef void encode(self, const double* distance, Py_ssize_t anchors, Code* code) noexcept nogil:
        cdef Py_ssize_t i
        code.n, code.total = self.most, 0
        start_nearest(distance, anchors, code.active)
        for i in range(code.n):
            code.share[i] = exp(-self.strength * distance[pop_nearest(distance, anchors - i, code.active)])
            code.total += code.share[i]
        put_first(anchors, code.active)
        for i in range(code.n):
            code.share[i] /= code.total

    cdef double slope(self, const Code* code, Py_ssize_t i, double value, double sum, double score) noexcept nogil:
        return -self.strength * code.share[i] * (value - score)


cdef class Adaptive(Coding):
    """Adaptive number of anchors, with shares that fall linearly to 0 ([LL] Algorithm 1). `strength` is L/C.

    With u = (L/C) D in increasing order, anchors are added while lambda exceeds the u of the next anchor. Their shares
    are proportional to lambda - u.
    """

    cdef void encode(self, const double* distance, Py_ssize_t anchors, Code* code) noexcept nogil:
        cdef Py_ssize_t i
        cdef double u, sum = 0, squares = 0, level = 0
        code.n = 0
        start_nearest(distance, anchors, code.active)
        while code.n < anchors:
            u = self.strength * distance[pop_nearest(distance, anchors - code.n, code.active)]
            if code.n and not level > u:
                break
            code.share[code.n] = u
            code.n += 1
            sum += u
            squares += u * u
            level = (sum + sqrt(code.n + sum * sum - code.n * squares)) / code.n
        put_first(anchors, code.active)
        code.total = 0
        for i in range(code.n):
            code.share[i] = level - code.share[i]
            code.total += code.share[i]
        for i in range(code.n):
            code.share[i] /= code.total

    # The derivative by u is [share sum - value - (n share - 1) score] / total, because lambda also depends on u.
    cdef double slope(self, const Code* code, Py_ssize_t i, double value, double sum, double score) noexcept nogil:
        cdef double share = code.share[i]
        return self.strength * (share * sum - value - (code.n * share - 1) * score) / code.total
