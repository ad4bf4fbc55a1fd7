"""Models of any order: sums of ANOVA kernels [HO] or of all-subsets kernels."""

from fmcli.models.layout import BlockLayout
from fmcli.models.second_order.fm import SecondOrder
from fmcli.models.second_order.linear import bias_block
from fmcli.models.split import EverySubset, anova_terms, degree_terms, split_of
from fmcli.models.weighted import Beta

from fmcli.base.types cimport LANES, ColumnView, Csr, Factors, Sample, Scratch, SparseGradient, real
from fmcli.data.dataset cimport Dataset
from fmcli.models.kernels cimport kernels as of_models
from fmcli.models.model cimport ColumnModel
from fmcli.models.polynomial.kernels cimport MAX_ORDER, Anova, AnovaGradient, kernels
from fmcli.models.weighted cimport Weighted

# The order is limited because kernels keep one number for each degree on the stack.
LARGEST_ORDER = MAX_ORDER


cdef inline Py_ssize_t padded(Py_ssize_t lanes) noexcept nogil:
    return (lanes + LANES - 1) // LANES * LANES


cdef class HigherOrder(Weighted):
    """b + <w, x> + sum over kernels and their factors f of beta_f sum_t theta_t A^t([gamma_f, p_f], [1, x]).

    Parameters
    ----------
    factors : ((array, order, rank), ...), the kernels; their factors are side by side in the row of a feature.
    linear : whether the model has linear weights w.
    constants : whether the model has order - 1 constant features, which are 1 in every sample, with factors gamma.
    simplex : whether the kernel sums all degrees 1 .. order, with weights theta on the simplex; otherwise it has only
        the degree `order`.
    beta : Beta, or None if all weights are 1.

    A model with constants, theta or beta has exactly one kernel.
    """

    cdef int features_block, gamma_block, theta_block  # 0: the kind lacks the block
    cdef int n_kernels
    cdef Anova kernel[MAX_ORDER]  # without pointers, which depend on the output
    cdef bint linear
    cdef Csr data                 # the samples of the caches

    def __init__(
        self, features, outputs, factors, *, bias, linear=False, constants=False, simplex=False, beta=None
    ):
        cdef int i
        if not 1 <= len(factors) <= MAX_ORDER or not all([2 <= order <= MAX_ORDER for _, order, _ in factors]):
            raise ValueError(f"there are kernels of orders 2 to {MAX_ORDER}, at most one of each")
        body = [(name, rank) for name, _, rank in factors]
        layout = [*bias_block(bias), BlockLayout(body=body, weight="w" if linear else None)]
        _, order, rank = factors[0]
        self.features_block = len(layout) - 1
        self.gamma_block = self.theta_block = 0
        if constants:
            self.gamma_block = len(layout)
            layout.append(constant_rows(order, rank))
        if simplex:
            self.theta_block = len(layout)
            layout.append(BlockLayout(
                axes=(), body=[("theta", order)], penalty="none", start=1 / order, constraint="simplex"))
        super().__init__(features, outputs, layout, beta)
        self.linear, self.n_kernels = linear, len(factors)
        for i, (_, order, rank) in enumerate(factors):
            self.kernel[i] = Anova(rank, order, order - 1 if constants else 0, NULL, 0, NULL, NULL)

    def split(self):
        p, arrays = self.parameters, [self.parameters[each.name] for each in self.layout[self.features_block].body]
        if self.theta_block:
            return split_of(p, self.outputs, degree_terms(arrays[0], p["theta"]))
        terms = [
            anova_terms(array, self.kernel[i].order, p.get("gamma"), p.get("beta")) for i, array in enumerate(arrays)]
        return split_of(p, self.outputs, *terms)

    cdef Py_ssize_t work_size(self, Py_ssize_t longest):
        cdef int i
        cdef Py_ssize_t size = 0
        for i in range(self.n_kernels):
            size += self.work_of(i, longest)
        return self.outputs * size

    # The number of reals of work memory that kernel i needs for a sample with this many entries.
    cdef inline Py_ssize_t work_of(self, int i, Py_ssize_t entries) noexcept nogil:
        cdef const Anova* k = &self.kernel[i]
        return padded(k.rank) * (k.order + (k.constants + entries) * (k.order - 1))

    cdef inline Anova kernel_of(self, int i, int output) noexcept nogil:
        cdef Anova kernel = self.kernel[i]
        if self.gamma_block:
            kernel.gamma = self.factors(self.gamma_block, 0, output).at
            kernel.gamma_stride = self.vectors[self.gamma_block][0].row_stride
        kernel.theta = self.single(self.theta_block, output)
        kernel.beta = self.single(self.beta_block, output)
        return kernel

    cdef void score(self, const Sample* x, Scratch* s) noexcept nogil:
        cdef int c, i
        cdef Py_ssize_t at = 0
        cdef Factors p, w
        cdef Anova kernel
        for c in range(self.outputs):
            s.score[c] = self.bias(c)
            if self.linear:
                w = self.weights(self.features_block, c)
                s.score[c] += of_models.linear(&w, x)
            for i in range(self.n_kernels):
                p, kernel = self.factors(self.features_block, i, c), self.kernel_of(i, c)
                s.score[c] += kernels.anova(&p, x, &kernel, s.work + at)
                at += self.work_of(i, x.nnz)

    cdef void gradient(self, const Sample* x, Scratch* s) noexcept nogil:
        cdef int c, i
        cdef Py_ssize_t at = 0
        cdef Factors p
        cdef Anova kernel
        cdef AnovaGradient out
        cdef SparseGradient* gradient
        for c in range(self.outputs):
            gradient = s.gradients + c * self.n_blocks
            if self.has_bias:
                gradient.weight[0] = s.slope[c]
            if self.linear:
                of_models.linear_gradient(x, s.slope[c], gradient[self.features_block].weight)
            out.gamma = gradient[self.gamma_block].body if self.gamma_block else NULL
            out.beta = gradient[self.beta_block].body if self.beta_block else NULL
            out.theta = gradient[self.theta_block].body if self.theta_block else NULL
            out.apart = self.block[self.features_block].lanes
            for i in range(self.n_kernels):
                p, kernel = self.factors(self.features_block, i, c), self.kernel_of(i, c)
                out.body = gradient[self.features_block].body + self.vectors[self.features_block][i].offset
                kernels.anova_gradient(&p, x, &kernel, s.work + at, s.slope[c], &out)
                at += self.work_of(i, x.nnz)

    # A sample's cache contains, for each kernel, the sums e_1 .. e_m over its entries.
    cdef Py_ssize_t cache_size(self, Dataset data):
        self.data = data.csr
        return self.cache_before(self.n_kernels)

    # The offset, in reals, of the i-th kernel's sums in a cache.
    cdef inline Py_ssize_t cache_before(self, int i) noexcept nogil:
        cdef Py_ssize_t size = 0
        cdef int before
        for before in range(i):
            size += self.kernel[before].order * padded(self.kernel[before].rank)
        return size

    cdef void fill_cache(self, const Sample* x, Scratch* s, int output, real* cache) noexcept nogil:
        cdef int i
        cdef Factors p
        cdef Anova kernel
        for i in range(self.n_kernels):
            p, kernel = self.factors(self.features_block, i, output), self.kernel_of(i, output)
            kernels.anova_cache(&p, x, &kernel, cache + self.cache_before(i))

    # The column view within the i-th kernel, as if it were the only kernel. It has no lanes if the view has no
    # parameters of this kernel.
    cdef inline ColumnView within(self, const ColumnView* v, int i) noexcept nogil:
        cdef ColumnView inner = v[0]
        cdef Py_ssize_t begin = self.vectors[v.block][i].offset, lanes = self.vectors[v.block][i].lanes
        inner.at = max(v.at - begin, 0)
        inner.lanes = max(min(v.at + v.lanes - begin, lanes) - inner.at, 0)
        inner.cache += self.cache_before(i) * sizeof(real)
        return inner

    # The position of its first parameter in the column view.
    cdef inline Py_ssize_t place_in(self, const ColumnView* v, const ColumnView* inner, int i) noexcept nogil:
        return self.vectors[v.block][i].offset + inner.at - v.at

    cdef void score_gradient(self, const ColumnView* v, real* q) noexcept nogil:
        cdef int i
        cdef Factors p
        cdef Anova kernel
        cdef ColumnView inner
        if self.of_factors(v.block):
            for i in range(self.n_kernels):
                inner = self.within(v, i)
                if inner.lanes:
                    p, kernel = self.factors(self.features_block, i, v.output), self.kernel_of(i, v.output)
                    kernels.anova_score_gradient(
                        &inner, &self.data, &p, &kernel, v.block != self.features_block,
                        q + self.place_in(v, &inner, i))
        elif self.theta_block and v.block == self.theta_block:
            kernels.degree_score_gradient(v, &self.kernel[0], q)
        elif self.beta_block and v.block == self.beta_block:
            of_models.cached_score_gradient(v, (self.kernel[0].order - 1) * padded(self.kernel[0].rank), q)
        of_models.weight_score_gradient(v, q)

    cdef void update_cache(self, const ColumnView* v, const real* step) noexcept nogil:
        cdef int i
        cdef Factors p
        cdef Anova kernel
        cdef ColumnView inner
        if not self.of_factors(v.block):
            return
        for i in range(self.n_kernels):
            inner = self.within(v, i)
            if inner.lanes:
                p, kernel = self.factors(self.features_block, i, v.output), self.kernel_of(i, v.output)
                kernels.anova_update_cache(
                    &inner, &self.data, &p, &kernel, v.block != self.features_block,
                    step + self.place_in(v, &inner, i))

    # Whether the block contains factors.
    cdef inline bint of_factors(self, int b) noexcept nogil:
        return b == self.features_block or (self.gamma_block and b == self.gamma_block)


def constant_rows(order, rank):
    """Return the layout of the factors of order - 1 constant features.

    A single constant starts from random factors, like other features. Several constants start from 1: if all were close
    to 0, the weight of every degree below the order would vanish, and training would not start.
    """
    return BlockLayout(axes=(order - 1,), body=[("gamma", rank)], start="random" if order == 2 else 1)


def anova(
    features, outputs, *, rank, order=2, bias=True, linear=True, augment=False, fit_beta=None, beta_start=None
):
    """ANOVA kernel regression ([PN]; [SH] A^2): b + <w, x> + sum_f beta_f A^m(V_f, x).

    If `augment` is true, the kernel also has m - 1 constant features. For order 2, the model is a SecondOrder, with
    specialized kernels.
    """
    beta = Beta(rank, order, fit_beta, beta_start)
    if order == 2:
        constant = constant_rows(order, rank) if augment else None
        return SecondOrder(features, outputs, rank, bias=bias, linear=linear, constant=constant, beta=beta)
    return HigherOrder(
        features, outputs, [("V", order, rank)], bias=bias, linear=linear, constants=augment, beta=beta)


cdef class HOFM(HigherOrder):
    """Higher-order FM ([HO] (5)): b + <w, x> + sum_{t=2..m} sum_s A^t(p^(t)_s, x), with one matrix per degree.

    `rank` is one number for all degrees, or one number per degree.
    """

    def __init__(self, features, outputs, *, rank, order=3, bias=True, linear=True):
        ranks = [rank] * (order - 1) if isinstance(rank, int) else rank
        factors = [(f"P{t}", t, of_degree) for t, of_degree in zip(range(2, order + 1), ranks, strict=True)]
        super().__init__(features, outputs, factors, bias=bias, linear=linear)


cdef class HOFMShared(HigherOrder):
    """HOFM with one shared matrix ([HO] 5.1): b + sum_s A^m([gamma_s, p_s], [1, x]).

    The m - 1 constant features give each lower degree its own weights.
    """

    def __init__(self, features, outputs, *, rank, order=3, bias=True):
        super().__init__(features, outputs, [("P", order, rank)], bias=bias, constants=True)


cdef class HOFMSimplex(HigherOrder):
    """HOFM with one shared matrix ([HO] 6.1): b + sum_s sum_{t=1..m} theta_t A^t(p_s, x), theta on the simplex."""

    def __init__(self, features, outputs, *, rank, order=2, bias=True):
        super().__init__(features, outputs, [("P", order, rank)], bias=bias, simplex=True)


cdef class AllSubsets(ColumnModel):
    """All-subsets kernel ([HO] 5.2): b + sum_s prod_j (1 + p_js x_j)."""

    cdef int features_block
    cdef Csr data  # the samples of the caches

    def __init__(self, features, outputs, *, rank, bias=True):
        layout = [*bias_block(bias), BlockLayout(body=[("P", rank)])]
        self.features_block = len(layout) - 1
        super().__init__(features, outputs, layout)

    cdef Py_ssize_t work_size(self, Py_ssize_t longest):
        return self.outputs * self.work_of(longest)

    def split(self):
        p = self.parameters["P"]
        return split_of(self.parameters, self.outputs, EverySubset(p), constant=p.shape[2])  # the empty products

    cdef inline Py_ssize_t work_of(self, Py_ssize_t entries) noexcept nogil:
        return entries * padded(self.block[self.features_block].columns)

    cdef void score(self, const Sample* x, Scratch* s) noexcept nogil:
        cdef int c
        cdef Factors p
        for c in range(self.outputs):
            p = self.factors(self.features_block, 0, c)
            s.score[c] = self.bias(c) + kernels.all_subsets(
                &p, x, self.block[self.features_block].columns, s.work + c * self.work_of(x.nnz))

    cdef void gradient(self, const Sample* x, Scratch* s) noexcept nogil:
        cdef int c
        cdef Factors p
        cdef SparseGradient* gradient
        for c in range(self.outputs):
            p, gradient = self.factors(self.features_block, 0, c), s.gradients + c * self.n_blocks
            if self.has_bias:
                gradient.weight[0] = s.slope[c]
            kernels.all_subsets_gradient(
                &p, x, self.block[self.features_block].columns, s.work + c * self.work_of(x.nnz), s.slope[c],
                gradient[self.features_block].body, p.lanes)

    # A sample's cache contains one product over its entries per factor.
    cdef Py_ssize_t cache_size(self, Dataset data):
        self.data = data.csr
        return padded(self.block[self.features_block].columns)

    cdef void fill_cache(self, const Sample* x, Scratch* s, int output, real* cache) noexcept nogil:
        cdef Factors p = self.factors(self.features_block, 0, output)
        kernels.all_subsets_cache(&p, x, cache)

    cdef void score_gradient(self, const ColumnView* v, real* q) noexcept nogil:
        cdef Factors p = self.factors(self.features_block, 0, v.output)
        if v.block == self.features_block:
            kernels.all_subsets_score_gradient(v, &self.data, &p, self.block[self.features_block].columns, q)
        else:
            of_models.weight_score_gradient(v, q)

    cdef void update_cache(self, const ColumnView* v, const real* step) noexcept nogil:
        cdef Factors p = self.factors(self.features_block, 0, v.output)
        if v.block == self.features_block:
            kernels.all_subsets_update_cache(v, &self.data, &p, step)
