from fmcli.penalties.arguments cimport PenaltyStrength
from fmcli.solvers.stochastic.kernels cimport Sgd as Rule
from fmcli.models.model cimport MAX_BLOCKS
from fmcli.penalties.formulas cimport scaled_prox
from fmcli.solvers.stochastic.schedule cimport Schedule
from fmcli.solvers.stochastic.solver cimport Solver, Steps
from libc.stdint cimport int64_t


cdef class SGD(Solver):
    cdef Schedule schedule
    cdef int64_t made
    cdef double share
    cdef Steps rates
    cdef double body_rate[MAX_BLOCKS]
    cdef double weight_rate[MAX_BLOCKS]
    cdef Rule body[MAX_BLOCKS]
    cdef Rule weight[MAX_BLOCKS]

    cdef double share_of(self, int64_t t) noexcept nogil
    cdef void set_share(self, double share) noexcept nogil


cdef inline Rule rule_at(double rate, PenaltyStrength strength) noexcept nogil:
    cdef Rule rule
    rule.rate, rule.prox, rule.strength = rate, scaled_prox(rate, strength), strength
    return rule
