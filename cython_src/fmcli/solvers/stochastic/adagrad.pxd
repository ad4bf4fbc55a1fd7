from fmcli.solvers.stochastic.kernels cimport Adagrad as Rule
from fmcli.models.parameters cimport MAX_BLOCKS
from fmcli.solvers.stochastic.solver cimport Solver, Steps


cdef class AdaGrad(Solver):
    cdef Steps rates
    cdef Rule body[MAX_BLOCKS]
    cdef Rule weight[MAX_BLOCKS]
