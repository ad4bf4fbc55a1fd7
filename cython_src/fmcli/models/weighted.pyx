"""Models in which each factor may have a weight beta."""

from typing import NamedTuple

from fmcli.models.layout import BlockLayout

from fmcli.base.types cimport Sample, Scratch
from fmcli.models.model cimport ColumnModel


class Beta(NamedTuple):
    """The weights of the factors.

    If the order is odd, the factors can absorb the weight of a kernel. If it is even, they can absorb only its absolute
    value, not its sign. So by default, weights of even order are fitted and start with both signs, and weights of odd
    order stay 1.

    Parameters
    ----------
    rank : the number of factors, each with one weight.
    order : the order of the kernels.
    fit : whether the weights are fitted or keep their start values; None: fitted if the order is even.
    start : "alternate" for 1, -1, 1, ...; "ones"; "random" for standard normal numbers; None: "alternate" if the order
        is even, otherwise "ones".
    """

    rank: int
    order: int
    fit: bool | None = None
    start: str | None = None

    @property
    def fitted(self):
        return self.order % 2 == 0 if self.fit is None else self.fit

    def fill(self, beta, generator):
        """Write start values to `beta`, an array (outputs, rank) of ones."""
        start = self.start or ("ones" if self.order % 2 else "alternate")
        if start == "random":
            beta[...] = generator.standard_normal(beta.shape)
        elif start == "alternate":
            beta[:, 1::2] = -1


cdef class Weighted(ColumnModel):
    """Base of models whose last block may contain the weights of the factors; `beta` is a Beta, or None."""

    def __init__(self, features, outputs, layout, beta=None):
        self.beta, self.beta_block = beta, 0
        self.beta_fixed = beta is not None and not beta.fitted
        if beta:
            self.beta_block = len(layout)
            penalty = "l2" if beta.fitted else "none"
            layout = [
                *layout,
                BlockLayout(
                    axes=(), body=[("beta", beta.rank)], penalty=penalty, trained=beta.fitted, start=1,
                    role="kernel weights" if beta.fitted else None)]
        super().__init__(features, outputs, layout)

    def start(self, seen, init_std, generator, threads=1):
        super().start(seen, init_std, generator, threads)
        if self.beta:
            self.beta.fill(self.parameters["beta"], generator)

    cdef void rows(self, const Sample* x, Scratch* s) noexcept nogil:
        cdef int c
        ColumnModel.rows(self, x, s)
        if self.beta_fixed:
            for c in range(self.outputs):
                s.gradients[c * self.n_blocks + self.beta_block].n = 0
