"""The linear model: b + <w, x>."""

from fmcli.models.layout import BlockLayout
from fmcli.models.split import split_of

from fmcli.base.types cimport ColumnView, Factors, Sample, Scratch, SparseGradient, real
from fmcli.data.dataset cimport Dataset
from fmcli.models.arguments cimport SampleRun
from fmcli.models.kernels cimport kernels
from fmcli.models.model cimport ColumnModel, Joined


def bias_block(bias):
    """Return a list with the layout of the bias, a model's first block; empty without a bias."""
    return [BlockLayout(axes=(), weight="bias", penalty="none")] if bias else []


cdef class Linear(ColumnModel):
    """Linear model: one weight per feature; the baseline of [SH] and [SGL].

    Depending on loss and penalty, this is a generalized linear model, such as the Lasso or logistic regression.
    """

    def __init__(self, features, outputs, *, bias=True):
        super().__init__(features, outputs, [*bias_block(bias), BlockLayout(weight="w")])

    def split(self):
        return split_of(self.parameters, self.outputs)

    @property
    def joined(self):
        return JoinedLinear(self)

    cdef void score(self, const Sample* x, Scratch* s) noexcept nogil:
        cdef int c
        cdef Factors w
        for c in range(self.outputs):
            w = self.weights(self.n_blocks - 1, c)
            s.score[c] = self.bias(c) + kernels.linear(&w, x)

    cdef void gradient(self, const Sample* x, Scratch* s) noexcept nogil:
        cdef int c
        cdef SparseGradient* gradient = s.gradients
        for c in range(self.outputs):
            if self.has_bias:
                gradient.weight[0] = s.slope[c]
                gradient += 1
            kernels.linear_gradient(x, s.slope[c], gradient.weight)
            gradient += 1

    cdef bint describe(self, SampleRun* run) noexcept nogil:
        ColumnModel.describe(self, run)
        run.features = self.n_blocks - 1
        return True

    # No cache: the derivatives are the values of the entries.
    cdef Py_ssize_t cache_size(self, Dataset data):
        return 0

    cdef void score_gradient(self, const ColumnView* v, real* q) noexcept nogil:
        kernels.weight_score_gradient(v, q)


cdef class JoinedLinear(Joined):
    """The linear score of a part; there are no sums."""

    cdef double part(self, const Sample* x, int output, bint common, real* sums) noexcept nogil:
        return self.linear(self.model.n_blocks - 1, x, output, common)
