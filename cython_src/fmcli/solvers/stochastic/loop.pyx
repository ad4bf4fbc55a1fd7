"""The one loop of stochastic training, for every model and every solver."""

from fmcli.base.denormals cimport FloatingMode, flush_denormals, return_to_mode
from fmcli.base.types cimport Sample, Scratch, prefetch_label, prefetch_line
from fmcli.data.dataset cimport Dataset
from fmcli.models.arguments cimport SampleRun
from fmcli.losses.loss cimport Loss
from fmcli.models.model cimport Model
from fmcli.models.workspace cimport Workspace
from fmcli.solvers.stochastic.batch cimport Batch
from fmcli.solvers.stochastic.solver cimport Solver
from libc.stdint cimport int32_t

cdef enum:
    IN_LINE = 16  # feature ids or values in a cache line

# How many samples ahead parameter rows are prefetched; a sample's entries are prefetched twice as early, and their
# addresses three times as early. Of 2, 3, 4, 6 and 8, this was the best, by 4 to 8 % for AdaGrad.
cdef Py_ssize_t AHEAD = 2


cdef class RowLoop:
    """Trains a model on a Dataset, update by update.

    Parameters
    ----------
    model : Model, with rows allocated and started.
    solver : Solver, bound to the model.
    loss : Loss.
    data : Dataset with labels of the loss; `take` replaces it by other data.
    batch_size : the number of samples averaged into one update.
    mean_weight : the mean of the samples' weights, the divisor in solvers that average weights.
    longest : the largest number of entries of a sample, if other data have longer samples.
    pairs : whether the loss is of the score difference of two samples; `batch_size` is then a number of pairs.
    """

    cdef Model model
    cdef Solver solver
    cdef Loss loss
    cdef Dataset data
    cdef Workspace workspace, second  # `second` : for the second sample of a pair
    cdef Batch batch
    cdef Py_ssize_t batch_size
    cdef double weight_scale
    cdef object in_runs  # whether the model takes runs of samples of the data; None: not known yet

    def __init__(
        self, Model model, Solver solver, Loss loss, Dataset data, Py_ssize_t batch_size=1, double mean_weight=1,
        Py_ssize_t longest=0, *, bint pairs=False
    ):
        model.require(training=True)
        solver.require(model)
        if batch_size < 1:
            raise ValueError("batches have 1 sample or more")
        longest = max(longest, data.longest)
        self.model, self.solver, self.loss = model, solver, loss
        self.workspace = Workspace(model, longest)
        self.second = Workspace(model, longest) if pairs else None
        self.take(data)
        self.batch_size = batch_size
        self.batch = Batch(model, (1 + pairs) * batch_size, longest) if pairs or batch_size > 1 else None
        self.weight_scale = 1 / mean_weight if solver.averages_weights else 1
        model.remeasure()

    def take(self, Dataset data not None):
        """Train on samples of other data from now on."""
        if data.label is None:
            raise ValueError("training takes labels")
        self.workspace.fit(self.model, data)
        self.loss.check(data.label, self.model.outputs)
        self.data, self.in_runs = data, None

    def train_on(
        self, const int32_t[::1] order, Py_ssize_t start, Py_ssize_t stop, double total=0,
        const int32_t[::1] partner=None
    ):
        """Update with samples order[start:stop]. Returns `total` plus their weighted losses, each before its own
        update.

        Losses are added one by one, so the sum does not depend on how an epoch is divided into calls. `order` is one
        epoch; `start` and `stop` are multiples of the batch size, or its end. Samples after `stop` are only prefetched.
        For pairs, `order` has the first samples; `partner` has the number of the second sample, for each sample of the
        data.
        """
        cdef SampleRun run
        cdef FloatingMode mode
        cdef const int32_t* second = NULL
        if (partner is None) != (self.second is None):
            raise ValueError("samples have partners in pairs, and only there")
        if not 0 <= start <= stop <= order.shape[0]:
            raise IndexError("no such samples")
        if self.model is None:
            raise ValueError("there is nothing to train")
        self.workspace.fit(self.model, self.data)
        self.solver.require(self.model)
        self.data.check_rows(order[start:min(stop + 3 * AHEAD, order.shape[0])])
        if partner is not None:
            self.check_partners(order[start:stop], partner)
            second = &partner[0]
        # A formula costs less than numbers, and a run of samples less than single samples. All give the same bits.
        self.workspace.scratch.formulas = self.solver.takes_formulas and self.single
        if start < stop and self.by_runs:
            self.describe(&run)
            run.order, run.start, run.stop, run.end = &order[0], start, stop, order.shape[0]
            with nogil:
                mode = flush_denormals()
                total = self.solver.steps_of_run(&run, total)
                return_to_mode(mode)
        elif start < stop:
            with nogil:
                mode = flush_denormals()
                total = self.updates(&order[0], start, stop, order.shape[0], total, second)
                return_to_mode(mode)
        return total

    # Raise IndexError unless each of these samples has a partner in the data.
    cdef check_partners(self, const int32_t[::1] first, const int32_t[::1] partner):
        cdef Py_ssize_t i
        cdef bint outside = partner.shape[0] < self.data.rows
        for i in range(0 if outside else first.shape[0]):
            outside |= not 0 <= partner[first[i]] < self.data.rows
        if outside:
            raise IndexError("a sample has no partner in the data")
        self.second.fit(self.model, self.data)
        self.second.scratch.formulas = False

    @property
    def single(self):
        """Whether a step uses the gradient of a single sample."""
        return self.batch is None

    @property
    def by_runs(self):
        """Whether samples are trained on in runs, without calls between them."""
        cdef SampleRun run
        if not (self.single and self.solver.takes_runs and self.model.outputs == 1 and self.describe(&run)):
            return False
        if self.in_runs is None:
            self.in_runs = self.model.takes_run_of(self.data)
        return self.in_runs

    # Describe a run of samples, except which samples. Returns whether there are steps for runs of this model.
    cdef bint describe(self, SampleRun* run):
        cdef Scratch* s = &self.workspace.scratch
        run.data, run.label, run.weight = &self.data.csr, self.data.labels, self.data.weight_
        run.weight_scale = self.weight_scale
        run.loss = self.loss.of_one_score()
        run.sums, run.buffer = s.work, s.gradient_buffer
        return self.model.describe(run)

    cdef double updates(
        self, const int32_t* order, Py_ssize_t start, Py_ssize_t stop, Py_ssize_t end, double total,
        const int32_t* partner
    ) noexcept nogil:
        cdef Py_ssize_t i = start
        cdef Py_ssize_t last
        cdef double share
        cdef Scratch* s = &self.workspace.scratch
        if self.batch is None:
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
                if partner != NULL:
                    total += self.pair(order, partner, i, end, share, s, &self.second.scratch)
                else:
                    total += self.one(order, i, end, share, s)
                    self.batch.add(s)
                i += 1
            self.solver.step(&self.batch.merged)
            self.finish_update(s)
        return total

    cdef inline void finish_update(self, Scratch* s) noexcept nogil:
        s.rate_share = self.solver.rate_share()
        self.model.finish_update(s)

    # Compute the gradient of sample order[i] times `share`, in s. Returns its weighted loss.
    cdef inline double one(
        self, const int32_t* order, Py_ssize_t i, Py_ssize_t end, double share, Scratch* s
    ) noexcept nogil:
        cdef Sample x
        cdef int c
        cdef double value, weight
        self.prefetch(order, i, end, s)
        weight = self.data.weight_of(order[i])
        self.score(order[i], &x, s)
        value = self.loss.slope(self.data.label_of(order[i]), s.score, s.slope)
        for c in range(self.model.outputs):
            s.slope[c] *= weight * self.weight_scale * share
        self.model.gradient(&x, s)
        return weight * value

    # Add the gradients of sample order[i] and its partner to the batch. Returns the weighted loss of the pair, which
    # has the weight of the first sample.
    cdef inline double pair(
        self, const int32_t* order, const int32_t* partner, Py_ssize_t i, Py_ssize_t end, double share, Scratch* s,
        Scratch* t
    ) noexcept nogil:
        cdef Sample x, y
        cdef double value, difference, sign
        cdef double weight = self.data.weight_of(order[i])
        self.prefetch(order, i, end, s)
        if i + 1 < end:
            self.data.sample(partner[order[i + 1]], &y)
            self.model.prefetch(&y, t)
            self.solver.prefetch(&y)
        self.score(order[i], &x, s)
        self.score(partner[order[i]], &y, t)
        sign = 1 if self.data.label_of(order[i]) >= self.data.label_of(partner[order[i]]) else -1
        difference = sign * (s.score[0] - t.score[0])
        value = self.loss.slope(1, &difference, s.slope)
        s.slope[0] *= sign * weight * self.weight_scale * share
        t.slope[0] = -s.slope[0]
        self.model.gradient(&x, s)
        self.batch.add(s)
        self.model.gradient(&y, t)
        self.batch.add(t)
        return weight * value

    # Compute the score of a sample, in s.
    cdef inline void score(self, Py_ssize_t number, Sample* x, Scratch* s) noexcept nogil:
        self.data.sample(number, x)
        self.model.rows(x, s)
        self.solver.catch_up(s)
        self.model.score(x, s)

    # Prefetch the memory of the samples after order[i].
    cdef inline void prefetch(self, const int32_t* order, Py_ssize_t i, Py_ssize_t end, Scratch* s) noexcept nogil:
        cdef Sample x
        if i + 3 * AHEAD < end:
            prefetch_line(self.data.csr.indptr + order[i + 3 * AHEAD])
            prefetch_label(&self.data.labels, order[i + 3 * AHEAD])
        if i + 2 * AHEAD < end:
            # The first two cache lines are most of a row, or start the hardware's own prefetching.
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
