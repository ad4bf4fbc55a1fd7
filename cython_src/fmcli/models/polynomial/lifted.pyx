"""The lifted (multi-linear) form of the ANOVA kernel."""

from fmcli.models.layout import BlockLayout
from fmcli.models.second_order.linear import bias_block
from fmcli.models.split import lifted_terms, split_of

from fmcli.base.types cimport ColumnView, Csr, Factors, Sample, Scratch, SparseGradient, real
from fmcli.data.dataset cimport Dataset
from fmcli.models.kernels cimport kernels as of_models
from fmcli.models.model cimport ColumnModel
from fmcli.models.polynomial.kernels cimport MOST_LIFTED, Lifted, kernels


cdef class LiftedAnova(ColumnModel):
    """b + <w, x> + sum over j_1 < ... < j_m of <sym(sum_s u^1_s x .. x u^m_s), x^m> ([PN] section 5).

    The factor term is 1/m! times the sum of prod_t u^t_{j_t s} x_{j_t} over s and over all ordered tuples of distinct
    j_1, .., j_m. With `augment`, the model adds m - 1 constant features with value 1, each with its own parameter row.
    """

    cdef int order, n_constants, body, constant_block
    cdef bint linear
    cdef Csr data  # the training data that the caches belong to

    def __init__(self, features, outputs, *, rank, order=2, bias=True, linear=True, augment=False):
        if not 2 <= order <= MOST_LIFTED:
            raise ValueError(f"order is {order}; it must be 2 to {MOST_LIFTED}")
        arrays = [(f"U{t + 1}", rank) for t in range(order)]
        layout = [*bias_block(bias), BlockLayout(body=arrays, weight="w" if linear else None)]
        self.body = len(layout) - 1
        self.constant_block = 0
        if augment:
            self.constant_block = len(layout)
            # For order > 2, all products start small, and training would not get going from random constants.
            start = "random" if order == 2 else 1
            layout.append(BlockLayout(axes=(order - 1,), body=[("gamma", (order, rank))], start=start))
        super().__init__(features, outputs, layout)
        self.order, self.n_constants, self.linear = order, order - 1 if augment else 0, linear

    def split(self):
        p = self.parameters
        arrays = [p[array.name] for array in self.layout[self.body].body]
        return split_of(p, self.outputs, lifted_terms(arrays, p.get("gamma")))

    # The tables of lifted.inl. Only gradients need them.
    cdef Py_ssize_t work_size(self, Py_ssize_t longest):
        return self.outputs * self.tables_size(longest)

    cdef Py_ssize_t scoring_work_size(self, Py_ssize_t longest):
        return 0

    cdef inline Py_ssize_t tables_size(self, Py_ssize_t nnz) noexcept nogil:
        cdef Py_ssize_t lanes = self.block[self.body].lanes // self.order
        return (nnz + self.n_constants) * ((1 << self.order) - 2) * lanes

    cdef inline Lifted lifted(self, int output) noexcept nogil:
        cdef int t
        cdef Lifted lifted
        lifted.order, lifted.constants = self.order, self.n_constants
        for t in range(self.order):
            lifted.u[t] = self.factors(self.body, t, output)
            if self.constant_block:
                lifted.gamma[t] = self.factors(self.constant_block, t, output)
                lifted.gamma[t].stride = self.vectors[self.constant_block][t].row_stride
        return lifted

    cdef inline real* tables(self, const Sample* x, const Scratch* s, int output) noexcept nogil:
        if s.gradient_buffer == NULL:
            return NULL
        return s.work + output * self.tables_size(x.nnz)

    cdef void score(self, const Sample* x, Scratch* s) noexcept nogil:
        cdef int c
        cdef Lifted lifted
        cdef Factors w
        for c in range(self.outputs):
            lifted = self.lifted(c)
            s.score[c] = self.bias(c) + kernels.lifted(&lifted, x, self.tables(x, s, c))
            if self.linear:
                w = self.weights(self.body, c)
                s.score[c] += of_models.linear(&w, x)

    cdef void gradient(self, const Sample* x, Scratch* s) noexcept nogil:
        cdef int c
        cdef Lifted lifted
        cdef SparseGradient* gradient
        for c in range(self.outputs):
            gradient = s.gradients + c * self.n_blocks
            lifted = self.lifted(c)
            if self.has_bias:
                gradient.weight[0] = s.slope[c]
            kernels.lifted_gradient(
                &lifted, x, self.tables(x, s, c), s.slope[c], gradient[self.body].body,
                gradient[self.constant_block].body)
            if self.linear:
                of_models.linear_gradient(x, s.slope[c], gradient[self.body].weight)

    # A sample's cache contains its sums a[T] for all non-empty sets T of vectors (see lifted.inl).
    cdef Py_ssize_t cache_size(self, Dataset data):
        self.data = data.csr
        return ((1 << self.order) - 1) * (self.block[self.body].lanes // self.order)

    cdef void fill_cache(self, const Sample* x, Scratch* s, int output, real* cache) noexcept nogil:
        cdef Lifted lifted = self.lifted(output)
        kernels.lifted_cache(&lifted, x, cache)

    cdef void score_gradient(self, const ColumnView* v, real* q) noexcept nogil:
        cdef Lifted lifted
        if self.of_vectors(v.block):
            lifted = self.lifted(v.output)
            kernels.lifted_score_gradient(v, &self.data, &lifted, v.block != self.body, q)
        of_models.weight_score_gradient(v, q)

    cdef void update_cache(self, const ColumnView* v, const real* step) noexcept nogil:
        cdef Lifted lifted
        if self.of_vectors(v.block):
            lifted = self.lifted(v.output)
            kernels.lifted_update_cache(v, &self.data, &lifted, v.block != self.body, step)

    # Whether the rows of a block are factors, of the features or of the constants.
    cdef inline bint of_vectors(self, int b) noexcept nogil:
        return b == self.body or (self.constant_block and b == self.constant_block)
