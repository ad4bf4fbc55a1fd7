from fmcli.penalties.arguments cimport PenaltyStrength
from fmcli.solvers.stochastic.kernels cimport Sgd as Rule
from fmcli.models.parameters cimport MAX_BLOCKS
from fmcli.penalties.formulas cimport scaled_prox
from fmcli.solvers.stochastic.solver cimport Solver, Steps
from libc.math cimport pow
from libc.stdint cimport int64_t


# The schedule of the learning rates over updates.
cdef enum Kind:
    CONSTANT
    INVSCALING
    INVERSE


cdef struct Schedule:
    Kind kind
    double power, t0


cdef inline double share_at(const Schedule* schedule, int64_t t) noexcept nogil:
    """The factor of the learning rates in update t, counted from 1."""
    if schedule.kind == CONSTANT:
        return 1
    if schedule.kind == INVSCALING:
        return pow(<double>t, -schedule.power)
    return 1 / (t + schedule.t0)


cdef inline Schedule make_schedule(object name, double power, double t0):
    return Schedule({"constant": CONSTANT, "invscaling": INVSCALING, "inverse": INVERSE}[name], power, t0)


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
