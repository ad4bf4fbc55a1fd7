from fmcli.base.types cimport RoundGradient, Sample, Scratch, SparseGradient, ThreadShare
from fmcli.models.arguments cimport SampleRun
from fmcli.models.parameters cimport Parameters
from fmcli.penalties.penalty cimport Penalty


cdef struct Steps:
    # Step sizes of structural parameters, of linear weights, and of all other parameters.
    double whole, w, v


cdef inline Steps steps_of_both(double whole, object w, object v):
    """The step sizes of weights and of factors; None: the step size of the whole model."""
    return Steps(whole, whole if w is None else w, whole if v is None else v)


cdef inline double step_of(Steps steps, object layout, bint body):
    """The step size of the bodies of a block, or of its weights."""
    if layout.penalty == "none":
        return steps.whole
    return steps.v if body or layout.penalized_as == "v" else steps.w


cdef class Solver:
    cdef readonly int slots
    cdef readonly bint averages_weights
    cdef public bint takes_formulas, takes_runs
    cdef readonly bint takes_rounds, defers_steps
    cdef Parameters model
    cdef Penalty penalty
    cdef int generation  # of the model's rows when the solver was bound to it

    cdef require(self, Parameters model=*)
    cdef set_rule(self, int block, object layout, bint body)
    cdef void prefetch(self, const Sample* x) noexcept nogil
    cdef void prefetch_next(self, const Sample* x) noexcept nogil
    cdef void catch_up(self, Scratch* s) noexcept nogil
    cdef void step(self, Scratch* s) noexcept nogil
    cdef void apply(self, const SparseGradient* gradient) noexcept nogil
    cdef double steps_of_run(self, const SampleRun* run, double total) noexcept nogil
    cdef void begin_round(self, Py_ssize_t n) noexcept nogil
    cdef void end_round(self, Py_ssize_t n) noexcept nogil
    cdef void round_catch_up(self, const RoundGradient* gradient, const ThreadShare* share) noexcept nogil
    cdef void round_step(self, const RoundGradient* gradient, const ThreadShare* share) noexcept nogil
    cdef double rate_share(self) noexcept nogil
