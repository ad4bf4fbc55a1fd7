"""The one loop of stochastic training, for every model and every solver."""

from fmcli.base.types cimport Sample, Scratch, prefetch_line
from fmcli.data.dataset cimport Dataset
from fmcli.kernels.simd cimport SampleRun
from fmcli.losses.loss cimport Loss
from fmcli.models.model cimport Model, Workspace
from fmcli.solvers.stochastic.batch cimport Batch
from fmcli.solvers.stochastic.solver cimport Solver
from libc.stdint cimport int32_t

cdef enum:
    IN_LINE = 16  # feature ids or values in a cache line

# How many samples ahead parameter rows are prefetched; the entries of a sample are prefetched twice as early, and their
# addresses three times. Of 2, 3, 4, 6 and 8 this was the best, by 4 to 8 % for AdaGrad.
cdef Py_ssize_t AHEAD = 2


cdef class Trainer:
    """Trains a model on a Dataset, update by update.

    Parameters
    ----------
    model : Model, with rows allocated and started.
    solver : Solver, bound to the model.
    loss : Loss.
    data : Dataset with labels of the loss; `take` replaces it by another one.
    batch_size : samples averaged into one update.
    mean_weight : mean of the samples' weights, which solvers that average weights divide by.
    longest : the most entries of a sample, if other data have longer ones.
    """

    cdef Model model
    cdef Solver solver
    cdef Loss loss
    cdef Dataset data
    cdef Workspace workspace
    cdef Batch batch
    cdef Py_ssize_t batch_size
    cdef double weight_scale

    def __init__(
        self, Model model, Solver solver, Loss loss, Dataset data, Py_ssize_t batch_size=1, double mean_weight=1,
        Py_ssize_t longest=0
    ):
        model.require(training=True)
        solver.require(model)
        if batch_size < 1:
            raise ValueError("batches have 1 sample or more")
        longest = max(longest, data.longest)
        self.model, self.solver, self.loss = model, solver, loss
        self.workspace = Workspace(model, longest)
        self.take(data)
        self.batch_size = batch_size
        self.batch = Batch(model, batch_size, longest) if batch_size > 1 else None
        self.weight_scale = 1 / mean_weight if solver.averages_weights else 1
        model.remeasure()

    def take(self, Dataset data not None):
        """Train on samples of other data from now on."""
        if data.label is None:
            raise ValueError("training takes labels")
        self.workspace.fit(self.model, data)
        self.loss.check(data.label, self.model.outputs)
        self.data = data

    def run(self, const int32_t[::1] order, Py_ssize_t start, Py_ssize_t stop, double total=0):
        """Update with samples order[start:stop]; return `total` plus their weighted losses, each before its own update.

        The losses are added one by one, so that the sum does not depend on how an epoch is divided into calls.
        `order` is one epoch; `start` and `stop` are multiples of the batch size, or its end. Samples after `stop` are
        only prefetched.
        """
        cdef SampleRun run
        if not 0 <= start <= stop <= order.shape[0]:
            raise IndexError("no such samples")
        if self.model is None:
            raise ValueError("there is nothing to train")
        self.workspace.fit(self.model, self.data)
        self.solver.require(self.model)
        self.data.check_rows(order[start:min(stop + 3 * AHEAD, order.shape[0])])
        # A formula costs less than numbers, and a run of samples less than single ones. All give the same bits.
        self.workspace.scratch.formulas = self.solver.takes_formulas and self.single
        if start < stop and self.by_runs:
            self.describe(&run)
            run.order, run.start, run.stop, run.end = &order[0], start, stop, order.shape[0]
            with nogil:
                total = self.solver.run(&run, total)
        elif start < stop:
            with nogil:
                total = self.updates(&order[0], start, stop, order.shape[0], total)
        return total

    @property
    def single(self):
        """Whether a step is by the gradient of one sample."""
        return self.batch_size == 1

    @property
    def by_runs(self):
        """Whether samples are trained on in runs, without calls between them."""
        cdef SampleRun run
        return self.single and self.solver.takes_runs and self.model.outputs == 1 and self.describe(&run)

    # Describe a run of samples, all but which ones; returns whether there are steps for runs of this model.
    cdef bint describe(self, SampleRun* run):
        cdef Scratch* s = &self.workspace.scratch
        run.data, run.label, run.weight = &self.data.csr, self.data.label_, self.data.weight_
        run.weight_scale = self.weight_scale
        run.loss = self.loss.of_one_score()
        run.sums, run.buffer = s.work, s.gradient_buffer
        return self.model.describe(run)

    cdef double updates(
        self, const int32_t* order, Py_ssize_t start, Py_ssize_t stop, Py_ssize_t end, double total
    ) noexcept nogil:
        cdef Py_ssize_t i = start
        cdef Py_ssize_t last
        cdef double share
        cdef Scratch* s = &self.workspace.scratch
        if self.batch_size == 1:
            for i in range(start, stop):
                total += self.one(order, i, end, 1, s)
                self.solver.step(s)
                self.finish_update(s)
            return total
        while i < stop:
            last = min(i + self.batch_size, stop)
            share = 1.0 / (last - i)
            self.batch.clear()
            while i < last:
                total += self.one(order, i, end, share, s)
                self.batch.add(s)
                i += 1
            self.solver.step(&self.batch.merged)
            self.finish_update(s)
        return total

    cdef inline void finish_update(self, Scratch* s) noexcept nogil:
        s.rate_share = self.solver.rate_share()
        self.model.finish_update(s)

    # The gradient of sample order[i] times `share`, in s; returns its weighted loss.
    cdef inline double one(
        self, const int32_t* order, Py_ssize_t i, Py_ssize_t end, double share, Scratch* s
    ) noexcept nogil:
        cdef Sample x
        cdef int c
        cdef double value, weight
        if i + 3 * AHEAD < end:
            prefetch_line(self.data.csr.indptr + order[i + 3 * AHEAD])
            prefetch_line(self.data.label_ + order[i + 3 * AHEAD])
        if i + 2 * AHEAD < end:
            # Its first two cache lines are most of a row, or start the hardware's own prefetching.
            self.data.sample(order[i + 2 * AHEAD], &x)
            prefetch_line(x.index)
            prefetch_line(x.index + IN_LINE)
            prefetch_line(x.value)
            prefetch_line(x.value + IN_LINE)
            if x.field != NULL:
                prefetch_line(x.field)
                prefetch_line(x.field + IN_LINE)
        if i + AHEAD < end:
            self.data.sample(order[i + AHEAD], &x)
            self.model.prefetch(&x, s)
            self.solver.prefetch(&x)
        if i + 1 < end:
            self.data.sample(order[i + 1], &x)
            self.solver.prefetch_next(&x)
        self.data.sample(order[i], &x)
        weight = self.data.weight_of(order[i])
        self.model.rows(&x, s)
        self.solver.catch_up(s)
        self.model.score(&x, s)
        value = self.loss.slope(self.data.label_[order[i]], s.score, s.slope)
        for c in range(self.model.outputs):
            s.slope[c] *= weight * self.weight_scale * share
        self.model.gradient(&x, s)
        return weight * value
