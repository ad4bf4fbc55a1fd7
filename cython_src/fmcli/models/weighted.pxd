from fmcli.base.types cimport real
from fmcli.models.model cimport ColumnModel


cdef class Weighted(ColumnModel):
    cdef int beta_block  # 0: no weights
    cdef bint beta_fixed
    cdef object beta

    # The only row of an output in block b; NULL if b is 0.
    cdef inline const real* single(self, int b, int output) noexcept nogil:
        return self.factors(b, 0, output).at if b else NULL
