"""Models of second order whose pairs interact through the inner product of two factor rows."""

from fmcli._core.linear import bias_block
from fmcli._core.model import BlockLayout

from fmcli._core.model cimport Model
from fmcli._core.simd cimport kernels
from fmcli._core.types cimport Block, Sample, Scratch, Slab, real


cdef class SecondOrder(Model):
    """b + <w, x> + sum_f A^2(V_f, x), with or without w, and with or without a constant feature of its own.

    The pairs are summed by the identity A^2(a) = ((sum a)^2 - sum a^2) / 2, factor by factor.
    """

    cdef int pairs  # the block with a row a feature
    cdef bint linear, constant

    def __init__(self, features, outputs, rank, *, bias, linear, constant):
        super().__init__(
            features,
            outputs,
            [
                *bias_block(bias),
                BlockLayout(body=[("V", rank)], weight="w" if linear else None),
                *([BlockLayout(body=[("v0", rank)], by_feature=False)] if constant else []),
            ],
        )
        self.pairs = 1 if bias else 0
        self.linear, self.constant = linear, constant

    cdef Py_ssize_t work_size(self):
        # Bodies are padded when they are scored, whether or not their rows are.
        return self.outputs * self.sums_size()

    cdef inline Py_ssize_t sums_size(self) noexcept nogil:
        return (self.block[self.pairs].lanes + 3) & ~3

    cdef inline const real* constant_row(self, int output) noexcept nogil:
        cdef const Block* block = &self.block[self.pairs + 1]
        return block.body + output * block.body_stride if self.constant else NULL

    cdef void score(self, const Sample* x, Scratch* s) noexcept nogil:
        cdef int c
        cdef Py_ssize_t first
        cdef const Block* block = &self.block[self.pairs]
        for c in range(self.outputs):
            first = c * block.rows
            s.score[c] = self.bias(c) + kernels.second_order(
                block, x, first, self.constant_row(c), s.work + c * self.sums_size())
            if self.linear:
                s.score[c] += kernels.linear(block, x, first)

    cdef void gradient(self, const Sample* x, Scratch* s) noexcept nogil:
        cdef int c
        cdef Py_ssize_t f
        cdef const real* sums
        cdef const real* constant
        cdef const Block* block = &self.block[self.pairs]
        cdef Slab* slab = s.slab
        for c in range(self.outputs):
            if self.has_bias:
                slab.weight[0] = s.slope[c]
                slab += 1
            sums = s.work + c * self.sums_size()
            kernels.second_order_gradient(block, x, c * block.rows, sums, s.slope[c], slab.body)
            if self.linear:
                kernels.linear_gradient(x, s.slope[c], slab.weight)
            slab += 1
            if self.constant:
                constant = self.constant_row(c)
                for f in range(block.lanes):
                    slab.body[f] = s.slope[c] * (sums[f] - constant[f])
                slab += 1


cdef class FM(SecondOrder):
    """Factorization machine: b + <w, x> + sum over pairs of <v_i, v_j> x_i x_j."""

    def __init__(self, features, outputs, *, rank, bias=True, linear=True):
        super().__init__(features, outputs, rank, bias=bias, linear=linear, constant=False)


cdef class SHFM(SecondOrder):
    """Strongly hierarchical FM [SH]: main effects are <v_0, v_j>, so no pair acts without both its features."""

    def __init__(self, features, outputs, *, rank, bias=True):
        super().__init__(features, outputs, rank, bias=bias, linear=False, constant=True)
