from fmcli._core.model cimport Model
from fmcli._core.types cimport Scratch, Slab


cdef class Solver:
    cdef readonly int slots
    cdef readonly bint averages_weights
    cdef Model model

    cdef void refresh(self, Scratch* s) noexcept nogil
    cdef void step(self, Scratch* s) noexcept nogil
    cdef void apply(self, const Slab* slab) noexcept nogil
    cdef double rate_share(self) noexcept nogil
