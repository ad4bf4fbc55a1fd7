from fmcli._core.model cimport MAX_BLOCKS
from fmcli._core.simd cimport Adagrad as Rule
from fmcli._core.solver cimport Solver, Steps


cdef class AdaGrad(Solver):
    cdef Steps rates
    cdef Rule body[MAX_BLOCKS]
    cdef Rule weight[MAX_BLOCKS]
