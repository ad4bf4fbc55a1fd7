"""Losses: what a score costs, and its derivative."""

import numpy as np

from libc.math cimport exp, log1p


cdef class Loss:
    """Base of all losses.

    Attributes
    ----------
    smoothness : a bound on the second derivative by a score.
    """

    # l(y, score)
    cdef double value(self, double y, const double* score) noexcept nogil:
        return 0

    # Writes dl/dscore (C) and returns l(y, score): they share their costly parts.
    cdef double slope(self, double y, const double* score, double* slope) noexcept nogil:
        return 0

    def evaluate(self, double y, double[::1] score):
        """(l, dl/dscore) of one sample, for tests and for looking at a loss; score is an array of C numbers."""
        slope = np.empty(score.shape[0])
        cdef double[::1] out = slope
        cdef double value = self.slope(y, &score[0], &out[0])
        return value, slope


cdef class Squared(Loss):
    """(y - score)^2 / 2, for real labels."""

    def __init__(self):
        self.smoothness = 1

    cdef double value(self, double y, const double* score) noexcept nogil:
        return 0.5 * (y - score[0]) * (y - score[0])

    cdef double slope(self, double y, const double* score, double* slope) noexcept nogil:
        slope[0] = score[0] - y
        return 0.5 * slope[0] * slope[0]

    @staticmethod
    def best_constant(label, weight):
        """The score that costs least when every sample gets the same."""
        return np.average(label, weights=weight)


cdef class Logistic(Loss):
    """log(1 + exp(-y score)), for labels -1 and +1."""

    def __init__(self):
        self.smoothness = 0.25

    cdef double value(self, double y, const double* score) noexcept nogil:
        cdef double margin = y * score[0]
        # exp of a negative number only: no overflow, and no loss of digits where the loss is small
        return log1p(exp(-margin)) if margin > 0 else log1p(exp(margin)) - margin

    cdef double slope(self, double y, const double* score, double* slope) noexcept nogil:
        cdef double margin = y * score[0]
        cdef double e
        if margin > 0:
            e = exp(-margin)
            slope[0] = -y * e / (1 + e)
            return log1p(e)
        e = exp(margin)
        slope[0] = -y / (1 + e)
        return log1p(e) - margin

    @staticmethod
    def best_constant(label, weight):
        """The log-odds of the two labels."""
        share = np.average(label > 0, weights=weight)
        return np.log(share) - np.log1p(-share)
