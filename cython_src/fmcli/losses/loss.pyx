"""Losses: functions of a label and its scores, and their derivatives."""

import numpy as np

from fmcli.losses.arguments cimport ScalarLoss
from libc.math cimport INFINITY, M_2_PI, M_PI, M_SQRT1_2, NAN, erfc, exp, fabs, log, log1p, sqrt

# The most steps of a bisection; most intervals of doubles cannot be halved this often.
HALVINGS = 100
# Below this margin, the tail of the normal distribution is computed from the first terms of its series.
cdef double FAR = -30
# A label value without rows counts as this part of a row, so the logarithm of its frequency is finite.
RARE = 0.5


cdef extern from "fmcli/losses/logistic.h" nogil:
    double log_of_one_plus(double)


cdef double slope_of(void* loss, double label, const double* score, double* slope) noexcept nogil:
    return (<Loss>loss).slope(label, score, slope)


def log_odds(probability, weight, rows):
    """Return float64 (1): the log-odds of the weighted mean of probabilities, kept away from 0 and 1 by at least
    RARE / rows. rows : None: one per probability."""
    least = RARE / (rows or len(probability))
    mean = np.clip(np.average(probability, weights=weight), least, 1 - least)
    return np.array([np.log(mean) - np.log1p(-mean)])


# log(1 + exp(-margin)) without a logarithm: returns max(0, -margin), and sets slope[0] to the derivative and slope[1]
# to t, so the result plus log(1 + t) is the loss. exp gets only negative numbers and does not overflow. The sign of the
# margin is hard to predict, so there is no branch on it.
cdef inline double parts_of_margin(double margin, double* slope) noexcept nogil:
    slope[1] = exp(-fabs(margin))
    slope[0] = -(slope[1] if margin > 0 else 1) / (1 + slope[1])
    return -margin if margin < 0 else 0


# log(1 + exp(-margin)); sets slope[0] to its derivative.
cdef inline double of_margin(double margin, double* slope) noexcept nogil:
    cdef double[2] parts
    cdef double value = parts_of_margin(margin, parts)
    slope[0] = parts[0]
    return value + log_of_one_plus(parts[1])


# The second derivative of log(1 + exp(score)).
cdef inline double logistic_curvature(double score) noexcept nogil:
    cdef double t = exp(-fabs(score))
    return t / ((1 + t) * (1 + t))


cdef double logistic_parts(void* self, double label, const double* score, double* slope) noexcept nogil:
    cdef double value = parts_of_margin(label * score[0], slope)
    slope[0] *= label
    return value


cdef class Loss:
    """Base of all losses.

    For a NaN score, the loss and its slope are NaN, so training stops. Every comparison with NaN is false; therefore
    the branch for a false comparison must keep NaN.

    Attributes
    ----------
    smoothness : a bound on the second derivative by one score; infinite if there is none.
    outputs : the number of scores of a sample.
    """

    def __cinit__(self, *args, **keywords):
        self.outputs = 1

    # Raise ValueError unless the loss accepts this number of scores, and these labels.
    cdef check(self, label, int outputs):
        if outputs != self.outputs:
            raise ValueError(f"the number of scores must be {self.outputs}, not {outputs}")

    # l(y, score)
    cdef double value(self, double y, const double* score) noexcept nogil:
        return 0

    # Write dl/dscore (C) and return l(y, score); both share expensive computations.
    cdef double slope(self, double y, const double* score, double* slope) noexcept nogil:
        return 0

    # The second derivative by one score, or a bound on it.
    cdef double curvature(self, double y, const double* score) noexcept nogil:
        return self.smoothness

    # `slope` as kernels call it.
    cdef ScalarLoss of_one_score(self) noexcept nogil:
        return ScalarLoss(<void*>self, slope_of, False)

    def evaluate(self, double y, double[::1] score):
        """Return (l, dl/dscore) of one sample, for tests and inspection. score : an array of C numbers."""
        self.check(np.array([y]), score.shape[0])
        slope = np.empty(score.shape[0])
        cdef double[::1] out = slope
        cdef double value = self.slope(y, &score[0], &out[0])
        return value, slope

    def best_constant(self, label, weight, rows=None):
        """Return the constant scores (C) with the smallest mean loss; 0 if starting from 0 is better.

        label, weight : the label and the weight of each row, or each distinct label and its total weight.
        rows : the number of rows, if it differs from the number of labels.
        """
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

    def best_constant(self, label, weight, rows=None):
        """Return the mean."""
        return np.array([np.average(label, weights=weight)])


cdef class Logistic(Loss):
    """log(1 + exp(-y score)), for labels -1 and +1."""

    def __init__(self):
        self.smoothness = 0.25

    cdef double value(self, double y, const double* score) noexcept nogil:
        cdef double slope
        return of_margin(y * score[0], &slope)

    cdef double slope(self, double y, const double* score, double* slope) noexcept nogil:
        cdef double value = of_margin(y * score[0], slope)
        slope[0] *= y
        return value

    cdef double curvature(self, double y, const double* score) noexcept nogil:
        return logistic_curvature(score[0])

    cdef ScalarLoss of_one_score(self) noexcept nogil:
        return ScalarLoss(NULL, logistic_parts, True)

    def best_constant(self, label, weight, rows=None):
        """Return the log-odds of the two labels; one of them may be missing in the training rows."""
        return log_odds(label > 0, weight, rows)


cdef class Bpr(Loss):
    """log(1 + exp(-difference)); the only score is a row's score minus the score of a row with a smaller label.

    Labels only tell which rows form pairs. [BPR] is Rendle et al., "BPR: Bayesian Personalized Ranking from
    Implicit Feedback", UAI 2009, equation for BPR-Opt in section 4.1.
    """

    def __init__(self):
        self.smoothness = 0.25

    cdef double value(self, double y, const double* score) noexcept nogil:
        cdef double slope
        return of_margin(score[0], &slope)

    cdef double slope(self, double y, const double* score, double* slope) noexcept nogil:
        return of_margin(score[0], slope)


cdef class Probit(Loss):
    """-log Phi(y score), for labels -1 and +1; Phi is the distribution function of the standard normal distribution."""

    def __init__(self):
        self.smoothness = 1

    cdef double value(self, double y, const double* score) noexcept nogil:
        return -log_phi(y * score[0])

    cdef double slope(self, double y, const double* score, double* slope) noexcept nogil:
        cdef double margin = y * score[0]
        if margin < FAR:
            slope[0] = y * margin / (1 + tail_series(margin))
        else:
            slope[0] = -y * sqrt(M_2_PI) * exp(-0.5 * margin * margin) / erfc(-margin * M_SQRT1_2)
        return self.value(y, score)

    def best_constant(self, label, weight, rows=None):
        """Return the normal quantile of the share of +1, kept away from 0 and 1 by at least RARE / rows."""
        from scipy.special import ndtri

        least = RARE / (rows or len(label))
        return np.array([ndtri(np.clip(np.average(label > 0, weights=weight), least, 1 - least))])


# (1 + s) exp(-m^2 / 2) / (-m sqrt(2 pi)) is Phi(m) for m far below 0; returns s.
cdef inline double tail_series(double m) noexcept nogil:
    cdef double s = 1 / (m * m)
    return s * (-1 + s * (3 + s * (-15 + s * 105)))


cdef class Ordinal(Loss):
    """-log(Phi(score_y) - Phi(score_{y+1})), for ordered labels y = 0 .. outputs: score_j is the score of the sample
    minus the j-th cutpoint, for j = 1 .. outputs; score_0 is inf, and score_{outputs + 1} is -inf.

    So the label is the number of cutpoints below the score plus a standard normal number. The first cutpoint is 0, and
    the logarithms of the gaps between cutpoints have the prior N(gap_mean, gap_std^2).
    """

    cdef readonly double gap_mean, gap_std

    def __init__(self, *, int outputs, double gap_mean=0, double gap_std=1):
        if outputs < 1:
            raise ValueError(f"the number of cutpoints must be at least 1, not {outputs}")
        self.smoothness, self.outputs = INFINITY, outputs
        self.gap_mean, self.gap_std = gap_mean, gap_std

    cdef check(self, label, int outputs):
        Loss.check(self, label, outputs)
        if len(label) and not 0 <= np.min(label) <= np.max(label) <= self.outputs:
            raise ValueError(f"a label is not one of the {self.outputs + 1} levels")

    cdef double value(self, double y, const double* score) noexcept nogil:
        cdef int level = <int>y
        cdef double high = INFINITY if level == 0 else score[level - 1]
        cdef double low = -INFINITY if level == self.outputs else score[level]
        if high < -low:  # the same by symmetry, without cancellation
            high, low = -low, -high
        if not high > low:
            return INFINITY if high == low else NAN
        if low < -FAR:
            return -log(0.5 * (erfc(low * M_SQRT1_2) - erfc(high * M_SQRT1_2)))
        # Phi(-low) (1 - Phi(-high) / Phi(-low))
        return -log_phi(-low) - log1p(-exp(log_phi(-high) - log_phi(-low)))

    cdef double slope(self, double y, const double* score, double* slope) noexcept nogil:
        cdef int j, level = <int>y
        cdef double value = self.value(y, score)
        for j in range(self.outputs):
            slope[j] = 0
        if level > 0:
            slope[level - 1] = -exp(value - 0.5 * score[level - 1] ** 2) / sqrt(2 * M_PI)
        if level < self.outputs:
            slope[level] = exp(value - 0.5 * score[level] ** 2) / sqrt(2 * M_PI)
        return value

    def best_constant(self, label, weight, rows=None):
        """Return the normal quantiles of the share of labels above each cutpoint; a label may be missing."""
        from scipy.special import ndtri

        least = RARE / (rows or len(label))
        shares = np.bincount(label.astype(np.intp), weights=weight, minlength=self.outputs + 1)
        shares = np.maximum(shares / shares.sum(), least)
        return ndtri(np.cumsum(shares[:0:-1])[::-1] / shares.sum())


# log Phi(m)
cdef inline double log_phi(double m) noexcept nogil:
    if m < FAR:
        return -0.5 * m * m - log(-m * sqrt(2 * M_PI)) + log1p(tail_series(m))
    if m > 0:
        return log1p(-0.5 * erfc(m * M_SQRT1_2))
    return log(0.5 * erfc(-m * M_SQRT1_2))


cdef class SoftLogistic(Loss):
    """log(1 + exp(score)) - y score, the logistic loss for labels from 0 to 1, which are probabilities."""

    def __init__(self):
        self.smoothness = 0.25

    cdef double value(self, double y, const double* score) noexcept nogil:
        cdef double s = score[0]
        return log1p(exp(-fabs(s))) + ((1 - y) * s if s > 0 else -y * s)  # without overflow and cancellation

    cdef double slope(self, double y, const double* score, double* slope) noexcept nogil:
        cdef double s = score[0]
        cdef double e
        if s > 0:
            e = exp(-s)
            slope[0] = (1 - y) - e / (1 + e)
            return log1p(e) + (1 - y) * s
        e = exp(s)
        slope[0] = e / (1 + e) - y
        return log1p(e) - y * s

    cdef double curvature(self, double y, const double* score) noexcept nogil:
        return logistic_curvature(score[0])

    def best_constant(self, label, weight, rows=None):
        """Return the log-odds of the mean label, which may be 0 or 1."""
        return log_odds(label, weight, rows)


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
    """r^2/2 if |r| <= delta, else delta (|r| - delta/2), with r = score - y; for real labels."""

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

    def best_constant(self, label, weight, rows=None):
        """Return the score with a mean slope of 0, by bisection between the smallest and the largest label."""
        low, high = np.min(label), np.max(label)
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            if middle in (low, high):
                break
            slopes = np.clip(middle - label, -self.delta, self.delta)
            if (slopes if weight is None else slopes * weight).sum() > 0:
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

    def best_constant(self, label, weight, rows=None):
        """Return the logarithm of the mean; 0 if all counts are 0."""
        mean = np.average(label, weights=weight)
        return np.array([np.log(mean) if mean > 0 else 0.0])


cdef class Softmax(Loss):
    """-log softmax(scores)_y, for class ids y = 0 .. outputs - 1.

    The logarithm is natural; the values in [SH] are larger by a factor of 1/ln 2.
    """

    def __init__(self, *, int outputs):
        if outputs < 1:
            raise ValueError(f"the number of classes must be at least 1, not {outputs}")
        self.smoothness, self.outputs = 0.25, outputs

    cdef check(self, label, int outputs):
        Loss.check(self, label, outputs)
        if len(label) and not 0 <= np.min(label) <= np.max(label) < self.outputs:
            raise ValueError(f"a label is not one of the {self.outputs} classes")

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

    def best_constant(self, label, weight, rows=None):
        """Return the logarithms of the class frequencies; a class may be missing in the training rows."""
        shares = np.bincount(label.astype(np.intp), weights=weight, minlength=self.outputs)
        return np.log(np.maximum(shares / shares.sum(), RARE / (rows or len(label))))
