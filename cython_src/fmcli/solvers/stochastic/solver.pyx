"""The contract of row solvers."""

import numpy as np

from fmcli.base.types cimport RoundGradient, Sample, Scratch, SparseGradient, ThreadShare
from fmcli.models.arguments cimport SampleRun
from fmcli.models.parameters cimport Parameters
from fmcli.penalties.penalty cimport Penalty


cdef class Solver:
    """Base of all row solvers. A solver updates rows of parameters by sparse gradients, whatever model wrote the
    gradients.

    Attributes
    ----------
    slots : the number of reals of state beside each parameter.
    averages_weights : whether a sample's weight counts relative to the mean weight, as in a mean of losses. Otherwise a
        sample of weight 2 counts like two samples.
    takes_formulas : whether a step can take a GradientFormula instead of numbers.
    takes_runs : whether the solver has steps for a run of samples, `steps_of_run`.
    takes_rounds : whether the solver has a step for a round of samples, `round_step`.
    defers_steps : whether rows must catch up before a round, by `round_catch_up`.
    """

    def __cinit__(self, *args, **keywords):
        self.takes_formulas, self.takes_runs, self.takes_rounds, self.defers_steps = True, False, False, False

    def bytes_needed(self, Parameters model, updates):
        """Return the bytes that the solver takes in epochs of `updates` updates, besides the state in the model's
        rows."""
        return 0

    def bind(self, Parameters model, Penalty penalty):
        """Bind the solver to a Penalty and to a model that was allocated with the solver's `slots`."""
        if model.slots != self.slots:
            raise ValueError(f"the model's rows have {model.slots} state slots, the solver needs {self.slots}")
        model.require(training=True)
        self.model, self.generation, self.penalty = model, model.generation, penalty
        self.load_strengths()

    # Raise ValueError unless the solver is bound to a model, or to this model, with its current rows in memory.
    cdef require(self, Parameters model=None):
        bound = self.model is not None and self.generation == self.model.generation
        if not bound or (model is not None and self.model is not model):
            raise ValueError("the solver is not bound to the model, or was before the model's rows were laid out anew")

    def load_strengths(self):
        """Take over the strengths of the penalty. They change when l1 begins to act on factors."""
        self.require()
        for i, layout in enumerate(self.model.layout):
            self.set_rule(i, layout, True)
            self.set_rule(i, layout, False)

    # Set the constants of the update for a block's bodies, or for its weights.
    cdef set_rule(self, int block, object layout, bint body):
        pass

    def start(self):
        """Initialize the state from the model's parameters, before the first step."""

    def resume(self, updates):
        """Resume from the state of an earlier run with `updates` updates. Called after `start`."""

    @property
    def updates(self):
        """The number of updates so far if the next update depends on it; otherwise 0."""
        return 0

    def state(self):
        """Return name -> array: the state on which the next update depends within an epoch, besides the model's live
        arrays."""
        return {"updates": np.array(self.updates)}

    def load_state(self, state):
        """Continue from a state, with the live arrays that the model had then. Called after `start`."""
        self.resume(int(state["updates"]))

    def end_epoch(self):
        """Called after each epoch, before anything reads the parameters. Returns whether the penalty has changed."""
        self.require()
        if not self.penalty.end_epoch():
            return False
        self.load_strengths()
        return True

    # Prefetch the memory that `catch_up` reads by row for a sample that will be used soon.
    cdef void prefetch(self, const Sample* x) noexcept nogil:
        pass

    # Prefetch the memory that `catch_up` reads indirectly for the next sample.
    cdef void prefetch_next(self, const Sample* x) noexcept nogil:
        pass

    # Apply the penalty steps that the rows of a sample have missed, before the rows are read.
    cdef void catch_up(self, Scratch* s) noexcept nogil:
        pass

    # Update the rows in s by the gradients in s.
    cdef void step(self, Scratch* s) noexcept nogil:
        cdef int i
        for i in range(s.n_gradients):
            self.apply(s.gradients + i)

    # Update the rows of one gradient.
    cdef void apply(self, const SparseGradient* gradient) noexcept nogil:
        pass

    # Train on a run of samples; returns `total` plus their weighted losses.
    cdef double steps_of_run(self, const SampleRun* run, double total) noexcept nogil:
        return total

    # Called by one thread before and after each round of n samples, while the others wait.
    cdef void begin_round(self, Py_ssize_t n) noexcept nogil:
        pass

    cdef void end_round(self, Py_ssize_t n) noexcept nogil:
        pass

    # Apply the missed penalty steps to one thread's share of the rows of a gradient.
    cdef void round_catch_up(self, const RoundGradient* gradient, const ThreadShare* share) noexcept nogil:
        pass

    # Make one thread's share of the step for a round of samples.
    cdef void round_step(self, const RoundGradient* gradient, const ThreadShare* share) noexcept nogil:
        pass

    # The last update's learning rate relative to the initial one; 1 without a schedule.
    cdef double rate_share(self) noexcept nogil:
        return 1
