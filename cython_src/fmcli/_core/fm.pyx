"""Models of second order whose pairs interact through the inner product of two factor rows."""

from fmcli._core.layout import BlockLayout
from fmcli._core.linear import bias_block, start_beta

from fmcli._core.model cimport Model
from fmcli._core.simd cimport kernels
from fmcli._core.types cimport LANES, Factors, Sample, Scratch, Slab, real


cdef class SecondOrder(Model):
    """b + <w, x> + sum_f beta_f A^2(V_f, x); w, beta and a constant feature of its own it may have or not.

    The pairs are summed by the identity A^2(a) = ((sum a)^2 - sum a^2) / 2, factor by factor.
    """

    # Blocks of the features' rows, of the constant's and of beta; 0: there is none.
    cdef int pairs, constant_block, beta_block
    cdef bint linear, fit_beta
    cdef object beta_start

    def __init__(self, features, outputs, rank, *, bias, linear=False, constant=False, beta_start=None, fit_beta=True):
        layout = [*bias_block(bias), BlockLayout(body=[("V", rank)], weight="w" if linear else None)]
        self.pairs = len(layout) - 1
        self.constant_block = self.beta_block = 0
        if constant:
            self.constant_block = len(layout)
            layout.append(BlockLayout(axes=(), body=[("v0", rank)]))
        if beta_start:
            self.beta_block = len(layout)
            penalty = "l2" if fit_beta else "none"
            layout.append(BlockLayout(axes=(), body=[("beta", rank)], penalty=penalty, start=1))
        super().__init__(features, outputs, layout)
        self.linear, self.beta_start, self.fit_beta = linear, beta_start, fit_beta

    def start(self, seen, double init_std, generator):
        super().start(seen, init_std, generator)
        if self.beta_block:
            start_beta(self.parameters["beta"], self.beta_start, generator)

    cdef Py_ssize_t work_size(self, Py_ssize_t longest):
        return self.outputs * self.sums_size()

    # Sums, and values of the kernels where they are weighted; both padded, whether or not the rows are.
    cdef inline Py_ssize_t sums_size(self) noexcept nogil:
        return 2 * ((self.parts[self.pairs][0].lanes + LANES - 1) // LANES * LANES)

    # The only row of one output in block b; NULL for b = 0.
    cdef inline const real* single(self, int b, int output) noexcept nogil:
        return self.factors(b, 0, output).at if b else NULL

    cdef void rows(self, const Sample* x, Scratch* s) noexcept nogil:
        cdef int c
        Model.rows(self, x, s)
        if self.beta_block and not self.fit_beta:
            for c in range(self.outputs):
                s.slab[c * self.n_blocks + self.beta_block].n = 0

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

    cdef void gradient(self, const Sample* x, Scratch* s) noexcept nogil:
        cdef int c
        cdef Py_ssize_t f
        cdef const real* sums
        cdef const real* constant
        cdef const real* beta
        cdef Factors v
        cdef Slab* slab = s.slab
        for c in range(self.outputs):
            v = self.factors(self.pairs, 0, c)
            slab = s.slab + c * self.n_blocks
            sums = s.work + c * self.sums_size()
            constant, beta = self.single(self.constant_block, c), self.single(self.beta_block, c)
            if self.has_bias:
                slab.weight[0] = s.slope[c]
            kernels.second_order_gradient(&v, x, sums, beta, s.slope[c], slab[self.pairs].body, v.lanes)
            if self.linear:
                kernels.linear_gradient(x, s.slope[c], slab[self.pairs].weight)
            for f in range(v.lanes):
                if self.constant_block:
                    slab[self.constant_block].body[f] = s.slope[c] * (sums[f] - constant[f])
                    if self.beta_block:
                        slab[self.constant_block].body[f] *= beta[f]
                if self.beta_block:
                    slab[self.beta_block].body[f] = s.slope[c] * sums[self.sums_size() // 2 + f]


cdef class FM(SecondOrder):
    """Factorization machine: b + <w, x> + sum over pairs of <v_i, v_j> x_i x_j."""

    def __init__(self, features, outputs, *, rank, bias=True, linear=True):
        super().__init__(features, outputs, rank, bias=bias, linear=linear)


cdef class Anova(SecondOrder):
    """ANOVA kernel regression of order 2 ([PN]; [SH] A^2): b + <w, x> + sum_f beta_f A^2(V_f, x), beta fitted."""

    def __init__(self, features, outputs, *, rank, bias=True, linear=True, fit_beta=True, beta_start="alternate"):
        super().__init__(
            features, outputs, rank, bias=bias, linear=linear, beta_start=beta_start, fit_beta=fit_beta)


cdef class SHFM(SecondOrder):
    """Strongly hierarchical FM [SH]: main effects are <v_0, v_j>, so no pair acts without both its features."""

    def __init__(self, features, outputs, *, rank, bias=True):
        super().__init__(features, outputs, rank, bias=bias, constant=True)


cdef class SHA2(SecondOrder):
    """Strongly hierarchical ANOVA kernel regression [SH]: SHFM with fitted weights beta of the factors."""

    def __init__(self, features, outputs, *, rank, bias=True, fit_beta=True, beta_start="alternate"):
        super().__init__(features, outputs, rank, bias=bias, constant=True, beta_start=beta_start, fit_beta=fit_beta)
