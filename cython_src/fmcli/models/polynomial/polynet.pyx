"""Polynomial networks, direct and lifted: sums of products of linear functions of a sample."""

from fmcli.models.layout import BlockLayout
from fmcli.models.second_order.linear import bias_block
from fmcli.models.split import power_terms, product_terms, split_of
from fmcli.models.weighted import Beta

from fmcli.base.types cimport LANES, ColumnView, Factors, Sample, Scratch, SparseGradient, real
from fmcli.data.dataset cimport Dataset
from fmcli.models.kernels cimport kernels as of_models
from fmcli.models.polynomial.kernels cimport MAX_ORDER, kernels
from fmcli.models.weighted cimport Weighted
from libc.string cimport memcpy


cdef class Products(Weighted):
    """b + <w, x> + sum_s beta_s prod_t (gamma^t_s + <u^t_s, x>), t = 1 .. order; w, gamma and beta are optional.

    Parameters
    ----------
    arrays : the names of the u^t: `order` names, or one name if all t share the same u.
    gamma : the size of the parameter row of constants, as in BlockLayout; None: the constants are 0.
    beta : Beta, or None if every beta_s is 1.
    """

    cdef int body, gamma_block  # block ids of the feature rows and of the constants (0: no constants)
    cdef int order, n_arrays
    cdef bint linear

    def __init__(self, features, outputs, rank, order, arrays, *, bias, linear, gamma=None, beta=None):
        affine = "one" if len(arrays) < order else "vector"
        body = [(u, rank) for u in arrays]
        layout = [*bias_block(bias), BlockLayout(body=body, weight="w" if linear else None, affine=affine)]
        self.body, self.gamma_block = len(layout) - 1, 0
        if not 2 <= order <= MAX_ORDER:
            raise ValueError(f"order is {order}; it must be 2 to {MAX_ORDER}")
        if gamma:
            self.gamma_block = len(layout)
            layout.append(BlockLayout(axes=(), body=[("gamma", gamma)], affine=affine, start=1))
        super().__init__(features, outputs, layout, beta)
        self.order, self.n_arrays, self.linear = order, len(arrays), linear

    def start(self, seen, init_std, generator, threads=1):
        super().start(seen, init_std, generator, threads)
        if self.gamma_block and self.order % 2:
            # Flip the sign of one constant of every second factor, so products start with both signs.
            gamma = self.parameters["gamma"]
            (gamma if self.n_arrays == 1 else gamma[:, 0])[:, 1::2] = -1

    def split(self):
        p, arrays = self.parameters, [self.parameters[each.name] for each in self.layout[self.body].body]
        if self.n_arrays == 1:
            terms, constant = power_terms(arrays[0], self.order, p.get("gamma"), p.get("beta"))
        else:
            terms, constant = product_terms(arrays, p.get("gamma"))
        return split_of(p, self.outputs, terms, constant=constant)

    # Work space of an output: the values of the linear functions, their products, and the derivatives by the values.
    cdef Py_ssize_t work_size(self, Py_ssize_t longest):
        return self.outputs * self.work_stride()

    cdef inline Py_ssize_t padded(self) noexcept nogil:
        return (self.vectors[self.body][0].lanes + LANES - 1) // LANES * LANES

    cdef inline Py_ssize_t work_stride(self) noexcept nogil:
        return (2 * self.n_arrays + 1) * self.padded()

    cdef void score(self, const Sample* x, Scratch* s) noexcept nogil:
        cdef int c, t
        cdef real* z
        cdef Factors u, w
        for c in range(self.outputs):
            z = s.work + c * self.work_stride()
            for t in range(self.n_arrays):
                u = self.factors(self.body, t, c)
                kernels.project(
                    &u, x, self.factors(self.gamma_block, t, c).at if self.gamma_block else NULL, z + t * self.padded())
            s.score[c] = self.bias(c) + kernels.products(
                z, self.n_arrays, self.order, u.lanes, self.single(self.beta_block, c),
                z + self.n_arrays * self.padded())
            if self.linear:
                w = self.weights(self.body, c)
                s.score[c] += of_models.linear(&w, x)

    cdef void gradient(self, const Sample* x, Scratch* s) noexcept nogil:
        cdef int c
        cdef Py_ssize_t f
        cdef Py_ssize_t lanes = self.block[self.body].lanes
        cdef real* z
        cdef real* values
        cdef real* direction
        cdef SparseGradient* gradient
        for c in range(self.outputs):
            gradient = s.gradients + c * self.n_blocks
            z = s.work + c * self.work_stride()
            values = z + lanes
            direction = values + self.padded()
            if self.has_bias:
                gradient.weight[0] = s.slope[c]
            kernels.products_gradient(
                z, self.n_arrays, self.order, self.padded(), self.single(self.beta_block, c), s.slope[c], direction)
            kernels.spread(direction, lanes, x, gradient[self.body].body)
            if self.linear:
                of_models.linear_gradient(x, s.slope[c], gradient[self.body].weight)
            if self.gamma_block:
                memcpy(gradient[self.gamma_block].body, direction, lanes * sizeof(real))
            if self.beta_block:
                for f in range(self.padded()):
                    gradient[self.beta_block].body[f] = <real>s.slope[c] * values[f]

    # A sample's cache contains the values of the linear functions.
    cdef Py_ssize_t cache_size(self, Dataset data):
        return self.n_arrays * self.padded()

    cdef void fill_cache(self, const Sample* x, Scratch* s, int output, real* cache) noexcept nogil:
        memcpy(cache, s.work + output * self.work_stride(), self.n_arrays * self.padded() * sizeof(real))

    cdef void score_gradient(self, const ColumnView* v, real* q) noexcept nogil:
        if self.beta_block and v.block == self.beta_block:
            kernels.power_score_gradient(v, self.order, 0, NULL, q)
        elif not self.of_factors(v.block):
            of_models.weight_score_gradient(v, q)
        elif self.n_arrays > 1:
            of_models.product_score_gradient(v, self.n_arrays, self.padded(), q)
        else:
            kernels.power_score_gradient(v, self.order, 1, self.single(self.beta_block, v.output), q)

    cdef bint score_curvature(self, const ColumnView* v, real* out) noexcept nogil:
        kernels.power_score_gradient(v, self.order, 2, self.single(self.beta_block, v.output), out)
        return True

    cdef bint score_changes(self, const ColumnView* v, const real* step, double* out) noexcept nogil:
        kernels.product_score_changes(
            v, self.n_arrays, self.order, self.padded(), self.single(self.beta_block, v.output), step, out)
        return True

    cdef void update_cache(self, const ColumnView* v, const real* step) noexcept nogil:
        if self.of_factors(v.block):
            of_models.pairs_update_cache(v, NULL, step, 0)

    # Whether the rows of a block are coefficients of the linear functions.
    cdef inline bint of_factors(self, int b) noexcept nogil:
        return b == self.body or (self.gamma_block and b == self.gamma_block)


cdef class PN(Products):
    """Polynomial network [PN]: b + <w, x> + sum_s beta_s (gamma_s + <p_s, x>)^m.

    Without `augment`, gamma is 0.
    """

    def __init__(
        self, features, outputs, *, rank, order=2, bias=True, linear=True, augment=True, fit_beta=None, beta_start=None
    ):
        super().__init__(
            features,
            outputs,
            rank,
            order,
            ["P"],
            bias=bias,
            linear=linear,
            gamma=rank if augment else None,
            beta=Beta(rank, order, fit_beta, beta_start),
        )


cdef class LiftedPN(Products):
    """Lifted polynomial network [PN] section 5: b + <w, x> + sum_s prod_{t=1..m} (gamma^t_s + <u^t_s, x>).

    Without `augment`, gamma is 0.
    """

    def __init__(self, features, outputs, *, rank, order=2, bias=True, linear=True, augment=True):
        super().__init__(
            features,
            outputs,
            rank,
            order,
            [f"U{t + 1}" for t in range(order)],
            bias=bias,
            linear=linear,
            gamma=(order, rank) if augment else None,
        )
