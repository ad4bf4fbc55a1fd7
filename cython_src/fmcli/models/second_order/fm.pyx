"""Second-order models, in which two features interact through the inner product of their factors."""

from fmcli.models.layout import BlockLayout
from fmcli.models.second_order.linear import bias_block
from fmcli.models.split import anova_terms, split_of
from fmcli.models.weighted import Beta

from fmcli.base.types cimport (
    LANES, ColumnView, Factors, GradientFormula, Sample, SampleStates, Scratch, SparseGradient, real)
from fmcli.data.dataset cimport Dataset
from fmcli.models.arguments cimport NO_BLOCK, SampleRun
from fmcli.models.kernels cimport kernels
from fmcli.models.model cimport ColumnModel, Joined
from fmcli.models.weighted cimport Weighted
from libc.stdint cimport int32_t
from libc.string cimport memcpy


cdef class SecondOrder(Weighted):
    """b + <w, x> + sum_f beta_f A^2(V_f, x); w, beta and a constant feature are optional.

    For each factor, the sum over pairs is A^2(a) = ((sum a)^2 - sum a^2) / 2, in time linear in the entries.
    """

    cdef int pairs, constant_block  # blocks of the features' factors, and of the constant's (0: no constant)
    cdef bint linear

    def __init__(self, features, outputs, rank, *, bias, linear=False, constant=None, beta=None):
        layout = [*bias_block(bias), BlockLayout(body=[("V", rank)], weight="w" if linear else None)]
        self.pairs, self.constant_block = len(layout) - 1, 0
        if constant:
            self.constant_block = len(layout)
            layout.append(constant)
        super().__init__(features, outputs, layout, beta)
        self.linear, self.pair_block = linear, self.pairs

    def split(self):
        p = self.parameters
        constant = p["v0"][:, None] if "v0" in p else p.get("gamma")
        return split_of(p, self.outputs, anova_terms(p["V"], 2, constant, p.get("beta")))

    cdef Py_ssize_t work_size(self, Py_ssize_t longest):
        return self.outputs * self.sums_size()

    # The sums and, if the kernels are weighted, the kernel values. Both are padded even if the parameter rows are not.
    cdef inline Py_ssize_t sums_size(self) noexcept nogil:
        return 2 * ((self.vectors[self.pairs][0].lanes + LANES - 1) // LANES * LANES)

    cdef void score(self, const Sample* x, Scratch* s) noexcept nogil:
        cdef int c
        cdef Factors v, w
        for c in range(self.outputs):
            v = self.factors(self.pairs, 0, c)
            s.score[c] = self.bias(c) + kernels.second_order(
                &v, x, self.single(self.constant_block, c), self.single(self.beta_block, c),
                s.work + c * self.sums_size())
            if self.linear:
                w = self.weights(self.pairs, c)
                s.score[c] += kernels.linear(&w, x)

    cdef void score_samples(
        self, Dataset data, const int32_t* rows, Py_ssize_t start, Py_ssize_t stop, Scratch* s, double* out
    ) noexcept nogil:
        cdef int c
        cdef Factors v, w
        if self.constant_block or self.beta_block:
            Weighted.score_samples(self, data, rows, start, stop, s, out)
            return
        w.at = NULL
        for c in range(self.outputs):
            v = self.factors(self.pairs, 0, c)
            if self.linear:
                w = self.weights(self.pairs, c)
            kernels.second_order_scores(
                &v, &w, self.bias(c), &data.csr, rows, start, stop, s.work, out + c, self.outputs)

    cdef void fill_states(
        self, Dataset data, Py_ssize_t start, Py_ssize_t stop, Scratch* s, const SampleStates* states
    ) noexcept nogil:
        cdef int c
        cdef Factors v, w
        if self.constant_block or self.beta_block:
            Weighted.fill_states(self, data, start, stop, s, states)
            return
        w.at = NULL
        for c in range(self.outputs):
            v = self.factors(self.pairs, 0, c)
            if self.linear:
                w = self.weights(self.pairs, c)
            kernels.second_order_states(&v, &w, self.bias(c), &data.csr, start, stop, c, states)

    cdef void gradient(self, const Sample* x, Scratch* s) noexcept nogil:
        cdef int c
        cdef const real* sums
        cdef const real* constant
        cdef const real* beta
        cdef Factors v
        cdef SparseGradient* gradient = s.gradients
        for c in range(self.outputs):
            v = self.factors(self.pairs, 0, c)
            gradient = s.gradients + c * self.n_blocks
            sums = s.work + c * self.sums_size()
            constant, beta = self.single(self.constant_block, c), self.single(self.beta_block, c)
            if self.has_bias:
                gradient.weight[0] = s.slope[c]
            if s.formulas:
                gradient[self.pairs].formula = GradientFormula(x.value, s.slope[c], sums, beta, NULL, 0)
            else:
                kernels.second_order_gradient(&v, x, sums, beta, s.slope[c], gradient[self.pairs].body, v.lanes)
                if self.linear:
                    kernels.linear_gradient(x, s.slope[c], gradient[self.pairs].weight)
            if self.constant_block or self.beta_block:
                kernels.structural_gradient(
                    sums, constant, beta, v.lanes, s.slope[c], gradient[self.constant_block].body,
                    gradient[self.beta_block].body)

    cdef bint describe(self, SampleRun* run) noexcept nogil:
        ColumnModel.describe(self, run)
        run.features, run.trains_beta = self.pairs, self.beta_block and not self.beta_fixed
        run.constant = self.constant_block if self.constant_block else NO_BLOCK
        run.beta = self.beta_block if self.beta_block else NO_BLOCK
        return True

    # A sample's cache contains its sums and, if the kernels are weighted, its kernel values.
    cdef Py_ssize_t cache_size(self, Dataset data):
        return self.sums_size() // (1 if self.beta_block else 2)

    cdef void fill_cache(self, const Sample* x, Scratch* s, int output, real* cache) noexcept nogil:
        memcpy(
            cache, s.work + output * self.sums_size(),
            self.sums_size() // (1 if self.beta_block else 2) * sizeof(real))

    cdef void score_gradient(self, const ColumnView* v, real* q) noexcept nogil:
        if self.of_factors(v.block):
            kernels.pairs_score_gradient(v, self.row_of(v), self.single(self.beta_block, v.output), q)
        elif self.beta_block and v.block == self.beta_block:
            kernels.cached_score_gradient(v, self.sums_size() // 2, q)
        else:
            kernels.weight_score_gradient(v, q)

    cdef void update_cache(self, const ColumnView* v, const real* step) noexcept nogil:
        if self.of_factors(v.block):
            kernels.pairs_update_cache(v, self.row_of(v), step, self.sums_size() // 2 if self.beta_block else 0)

    # Whether the block contains factors.
    cdef inline bint of_factors(self, int b) noexcept nogil:
        return b == self.pairs or (self.constant_block and b == self.constant_block)


cdef class JoinedPairs(Joined):
    """The sums of the factors in a part, and its score, for a model of second order whose kernel weights are fixed."""

    cdef Py_ssize_t size(self, Dataset data):
        return (<SecondOrder>self.model).sums_size() // 2

    cdef const real* beta(self, int output) noexcept nogil:
        return (<SecondOrder>self.model).single((<SecondOrder>self.model).beta_block, output)

    cdef double part(self, const Sample* x, int output, bint common, real* sums) noexcept nogil:
        cdef int pairs = (<SecondOrder>self.model).pairs, constant = (<SecondOrder>self.model).constant_block
        cdef Py_ssize_t f, size = (<SecondOrder>self.model).sums_size() // 2
        cdef const real* beta = self.beta(output)
        cdef Factors v = self.model.factors(pairs, 0, output)
        cdef double score = self.linear(pairs, x, output, common) + kernels.second_order(
            &v, x, (<SecondOrder>self.model).single(constant, output) if common else NULL, beta, sums)
        if beta != NULL:
            for f in range(size):
                sums[size + f] = beta[f] * sums[f]
        return score


cdef class FM(SecondOrder):
    """Factorization machine: b + <w, x> + sum over pairs of <v_i, v_j> x_i x_j."""

    def __init__(self, features, outputs, *, rank, bias=True, linear=True):
        super().__init__(features, outputs, rank, bias=bias, linear=linear)

    @property
    def joined(self):
        return JoinedPairs(self)


def constant_row(rank):
    """Return the layout of the factors of the constant feature, which [SH] calls v_0."""
    return BlockLayout(axes=(), body=[("v0", rank)])


cdef class SHFM(SecondOrder):
    """Strongly hierarchical FM [SH]: main effects are <v_0, v_j>, so an interaction is nonzero only if both main
    effects are."""

    def __init__(self, features, outputs, *, rank, bias=True):
        super().__init__(features, outputs, rank, bias=bias, constant=constant_row(rank))

    @property
    def joined(self):
        return JoinedPairs(self)


cdef class SHA2(SecondOrder):
    """Strongly hierarchical ANOVA kernel regression [SH]: SHFM with one fitted weight beta for each factor."""

    def __init__(self, features, outputs, *, rank, bias=True, fit_beta=None, beta_start=None):
        super().__init__(
            features, outputs, rank, bias=bias, constant=constant_row(rank), beta=Beta(rank, 2, fit_beta, beta_start))

    @property
    def sides(self):
        return JoinedPairs(self) if self.beta_fixed else None
