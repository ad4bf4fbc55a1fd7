"""A model and a loss for tests only, which check that the training loop supports what later models need.

The model has several outputs, several blocks with one row for each feature, and a structural row that is projected
after each step. The tests check each update, also of batches, with penalty strengths and learning rates by part.
"""

from fmcli.models.layout import BlockLayout
from fmcli.models.linear import bias_block

from fmcli.base.types cimport Factors, Sample, Scratch, SparseGradient, real
from fmcli.kernels.simd cimport kernels
from fmcli.losses.loss cimport Loss
from fmcli.models.model cimport Model

cdef enum:
    W = 1, P, THETA


cdef class Stub(Model):
    """score_c = bias_c + <w_c, x> + sum_t theta_ct <P_ct, x>, theta on the simplex. P has `rank` columns."""

    def __init__(self, features, outputs, *, rank):
        super().__init__(
            features,
            outputs,
            [
                *bias_block(True),
                BlockLayout(weight="w"),
                BlockLayout(body=[("P", rank)]),
                BlockLayout(axes=(), body=[("theta", rank)], penalty="none", start=1 / rank,
                            constraint="simplex"),
            ],
        )

    cdef Py_ssize_t work_size(self, Py_ssize_t longest):
        return self.outputs * self.block[THETA].columns

    cdef void score(self, const Sample* x, Scratch* s) noexcept nogil:
        cdef int c
        cdef Py_ssize_t i, t
        cdef Py_ssize_t rank = self.block[THETA].columns
        cdef double total
        cdef real* sums
        cdef Factors w, p, theta
        for c in range(self.outputs):
            sums = s.work + c * rank
            w, p, theta = self.weights(W, c), self.factors(P, 0, c), self.factors(THETA, 0, c)
            total = self.bias(c) + kernels.linear(&w, x)
            for t in range(rank):
                sums[t] = 0
                for i in range(x.nnz):
                    sums[t] += p.at[x.index[i] * p.stride + t] * x.value[i]
                total += theta.at[t] * sums[t]
            s.score[c] = total

    cdef void gradient(self, const Sample* x, Scratch* s) noexcept nogil:
        cdef int c
        cdef Py_ssize_t i, t
        cdef Py_ssize_t rank = self.block[THETA].columns, lanes = self.block[P].lanes
        cdef Factors theta
        cdef SparseGradient* gradient
        for c in range(self.outputs):
            gradient = s.gradients + c * self.n_blocks
            theta = self.factors(THETA, 0, c)
            gradient[0].weight[0] = s.slope[c]
            kernels.linear_gradient(x, s.slope[c], gradient[W].weight)
            for t in range(lanes):
                gradient[THETA].body[t] = s.slope[c] * s.work[c * rank + t] if t < rank else 0
                for i in range(x.nnz):
                    gradient[P].body[i * lanes + t] = s.slope[c] * theta.at[t] * x.value[i] if t < rank else 0


cdef class SumOfSquares(Loss):
    """sum over outputs c of (score_c - (c + 1) y)^2 / 2."""

    def __init__(self, int outputs):
        self.smoothness, self.outputs = 1, outputs

    cdef double value(self, double y, const double* score) noexcept nogil:
        cdef int c
        cdef double total = 0
        for c in range(self.outputs):
            total += 0.5 * (score[c] - (c + 1) * y) ** 2
        return total

    cdef double slope(self, double y, const double* score, double* slope) noexcept nogil:
        cdef int c
        for c in range(self.outputs):
            slope[c] = score[c] - (c + 1) * y
        return self.value(y, score)
