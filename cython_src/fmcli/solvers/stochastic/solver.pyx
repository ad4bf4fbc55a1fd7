"""What every row solver answers to."""

from fmcli.base.types cimport Scratch, SparseGradient
from fmcli.models.model cimport Model
from fmcli.penalties.penalty cimport Penalty


cdef class Solver:
    """Base of all row solvers: consumes sparse gradients, whatever model wrote them.

    Attributes
    ----------
    slots : reals of state beside each parameter.
    averages_weights : whether a sample's weight counts relative to the mean weight, as in a mean of losses,
        rather than as so many equal samples.
    """

    def bytes_needed(self, Model model, updates):
        """Bytes that this takes for a model in epochs of so many updates, beside the state in its rows."""
        return 0

    def bind(self, Model model, Penalty penalty):
        """Take over the rows of a model, allocated with this solver's `slots`, under a Penalty."""
        if model.slots != self.slots:
            raise ValueError(f"the model's rows have {model.slots} state slots, the solver needs {self.slots}")
        model.require(training=True)
        self.model, self.placed, self.penalty = model, model.placed, penalty
        self.weigh()

    # ValueError unless this is bound to a model, to this one if one is given, as its rows lie now.
    cdef require(self, Model model=None):
        if self.model is None or self.placed != self.model.placed or (model is not None and self.model is not model):
            raise ValueError("the solver is not bound to the model, or was before the model's rows were laid out anew")

    def weigh(self):
        """Take over the penalty's strengths, which may have changed."""
        self.require()
        for i, layout in enumerate(self.model.layout):
            self.set_rule(i, layout, True)
            self.set_rule(i, layout, False)

    # Take over a block's layout and strengths, for the bodies of its rows or for their weights.
    cdef set_rule(self, int block, object layout, bint body):
        pass

    def start(self):
        """Make the state that belongs to the model's parameters before the first step."""

    def resume(self, updates):
        """Go on with state that an earlier run has kept, after so many updates; comes after `start`."""

    @property
    def updates(self):
        """Updates made, where the next one depends on their number; else 0."""
        return 0

    def end_epoch(self):
        """Called after each epoch, before the parameters are looked at; returns whether the penalty has changed."""
        self.require()
        if not self.penalty.end_epoch():
            return False
        self.weigh()
        return True

    # Bring the rows that a sample touches up to date before they are read.
    cdef void catch_up(self, Scratch* s) noexcept nogil:
        pass

    # One update of the rows in s from the gradients in s.
    cdef void step(self, Scratch* s) noexcept nogil:
        cdef int i
        for i in range(s.n_gradients):
            self.apply(s.gradients + i)

    # The same for one gradient.
    cdef void apply(self, const SparseGradient* gradient) noexcept nogil:
        pass

    # What a schedule left of the learning rate in the last update; 1 where there is no schedule.
    cdef double rate_share(self) noexcept nogil:
        return 1
