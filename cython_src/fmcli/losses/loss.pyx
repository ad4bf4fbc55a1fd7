"""Losses: what a score costs, and its derivatives."""

import numpy as np

from libc.math cimport exp, fabs, log, log1p

# Halvings of an interval, after which nothing is left of it.
HALVINGS = 100
# A label value without rows counts as this much of a row, so that its log share is finite.
RARE = 0.5


cdef class Loss:
    """Base of all losses.

    A score that is not a number costs NaN and has the slope NaN, so that training stops: every comparison with NaN is
    false, and what is left when it is false must therefore be the branch that keeps NaN.

    Attributes
    ----------
    smoothness : a bound on the second derivative by one of the scores; infinite where there is none.
    outputs : scores that a sample has.
    """

    def __cinit__(self, *args, **keywords):
        self.outputs = 1

    # ValueError unless a sample has so many scores, and the labels are those that the loss is for.
    cdef check(self, const double[::1] label, int outputs):
        if outputs != self.outputs:
            raise ValueError(f"the loss is of {self.outputs} scores, not of {outputs}")

    # l(y, score)
    cdef double value(self, double y, const double* score) noexcept nogil:
        return 0

    # Writes dl/dscore (C) and returns l(y, score): they share their costly parts.
    cdef double slope(self, double y, const double* score, double* slope) noexcept nogil:
        return 0

    # A bound on the second derivative by one of the scores, or where there is none, the second derivative here.
    cdef double curvature(self, double y, const double* score) noexcept nogil:
        return self.smoothness

    def evaluate(self, double y, double[::1] score):
        """(l, dl/dscore) of one sample, for tests and for looking at a loss; score is an array of C numbers."""
        self.check(np.array([y]), score.shape[0])
        slope = np.empty(score.shape[0])
        cdef double[::1] out = slope
        cdef double value = self.slope(y, &score[0], &out[0])
        return value, slope

    def best_constant(self, label, weight):
        """The scores (C) that cost least when every sample gets the same, or 0 where a start from 0 is better."""
        return np.zeros(1)


cdef class Squared(Loss):
    """(y - score)^2 / 2, for real labels."""

    def __init__(self):
        self.smoothness = 1

    cdef double value(self, double y, const double* score) noexcept nogil:
        return 0.5 * (y - score[0]) * (y - score[0])

    cdef double slope(self, double y, const double* score, double* slope) noexcept nogil:
        slope[0] = score[0] - y
        return 0.5 * slope[0] * slope[0]

    def best_constant(self, label, weight):
        """The mean."""
        return np.array([np.average(label, weights=weight)])


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

    def best_constant(self, label, weight):
        """The log-odds of the two labels, one of which may be missing among the rows to train on."""
        least = RARE / len(label)
        share = np.clip(np.average(label > 0, weights=weight), least, 1 - least)
        return np.array([np.log(share) - np.log1p(-share)])


cdef class Hinge(Loss):
    """max(0, 1 - y score), for labels -1 and +1; starts from 0."""

    def __init__(self):
        self.smoothness = np.inf

    cdef double value(self, double y, const double* score) noexcept nogil:
        cdef double left = 1 - y * score[0]
        return 0 if left <= 0 else left

    cdef double slope(self, double y, const double* score, double* slope) noexcept nogil:
        cdef double left = 1 - y * score[0]
        if left != left:
            slope[0] = left
        else:
            slope[0] = -y if left > 0 else 0
        return 0 if left <= 0 else left


cdef class SquaredHinge(Loss):
    """max(0, 1 - y score)^2, for labels -1 and +1; starts from 0."""

    def __init__(self):
        self.smoothness = 2

    cdef double value(self, double y, const double* score) noexcept nogil:
        cdef double left = 1 - y * score[0]
        return 0 if left <= 0 else left * left

    cdef double slope(self, double y, const double* score, double* slope) noexcept nogil:
        cdef double left = 1 - y * score[0]
        slope[0] = 0 if left <= 0 else -2 * y * left
        return 0 if left <= 0 else left * left


cdef class Huber(Loss):
    """r^2/2 where |r| <= delta, else delta (|r| - delta/2), r = score - y; for real labels."""

    cdef double delta

    def __init__(self, *, double huber_delta=1):
        self.smoothness, self.delta = 1, huber_delta

    cdef double value(self, double y, const double* score) noexcept nogil:
        cdef double r = fabs(score[0] - y)
        return 0.5 * r * r if r <= self.delta else self.delta * (r - 0.5 * self.delta)

    cdef double slope(self, double y, const double* score, double* slope) noexcept nogil:
        cdef double r = score[0] - y
        slope[0] = -self.delta if r < -self.delta else self.delta if r > self.delta else r
        return self.value(y, score)

    def best_constant(self, label, weight):
        """The root of the mean slope, by bisection: it lies between the extreme labels."""
        low, high = np.min(label), np.max(label)
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            if np.average(np.clip(middle - label, -self.delta, self.delta), weights=weight) > 0:
                high = middle
            else:
                low = middle
        return np.array([(low + high) / 2])


cdef class Poisson(Loss):
    """exp(score) - y score, for counts."""

    def __init__(self):
        self.smoothness = np.inf

    cdef double value(self, double y, const double* score) noexcept nogil:
        return exp(score[0]) - y * score[0]

    cdef double slope(self, double y, const double* score, double* slope) noexcept nogil:
        cdef double mean = exp(score[0])
        slope[0] = mean - y
        return mean - y * score[0]

    cdef double curvature(self, double y, const double* score) noexcept nogil:
        return exp(score[0])

    def best_constant(self, label, weight):
        """The log of the mean; 0 where all counts are 0."""
        mean = np.average(label, weights=weight)
        return np.array([np.log(mean) if mean > 0 else 0.0])


cdef class Softmax(Loss):
    """-log softmax(scores)_y, for class ids y = 0 .. outputs - 1.

    The logarithm is natural, so [SH]'s values are 1/ln 2 times ours.
    """

    def __init__(self, *, int outputs):
        if outputs < 1:
            raise ValueError(f"there cannot be {outputs} classes")
        self.smoothness, self.outputs = 0.25, outputs

    cdef check(self, const double[::1] label, int outputs):
        cdef Py_ssize_t i
        cdef bint known = True
        Loss.check(self, label, outputs)
        for i in range(label.shape[0]):
            known &= 0 <= label[i] < self.outputs
        if not known:
            raise ValueError(f"a label is none of the {self.outputs} classes")

    cdef double value(self, double y, const double* score) noexcept nogil:
        cdef double largest = score[0]
        cdef double sum = 0
        cdef int c
        for c in range(1, self.outputs):
            largest = max(largest, score[c])
        for c in range(self.outputs):
            sum += exp(score[c] - largest)
        return largest + log(sum) - score[<int>y]

    cdef double slope(self, double y, const double* score, double* slope) noexcept nogil:
        cdef double largest = score[0]
        cdef double sum = 0
        cdef int c
        for c in range(1, self.outputs):
            largest = max(largest, score[c])
        for c in range(self.outputs):
            slope[c] = exp(score[c] - largest)
            sum += slope[c]
        for c in range(self.outputs):
            slope[c] /= sum
        slope[<int>y] -= 1
        return largest + log(sum) - score[<int>y]

    def best_constant(self, label, weight):
        """The logs of the classes' shares; a class may be missing among the rows to train on."""
        shares = np.bincount(label.astype(np.intp), weights=weight, minlength=self.outputs)
        return np.log(np.maximum(shares / shares.sum(), RARE / len(label)))
