"""The loop of rounds: each round of samples makes one step, whose bits do not depend on the number of threads."""

import threading

import numpy as np

from fmcli.models.layout import allocate

from fmcli.base.denormals cimport FloatingMode, flush_denormals, return_to_mode
from fmcli.base.types cimport (
    MANY_ENTRIES, RoundGradient, RowEntries, Sample, Scratch, SparseGradient, ThreadShare, real)
from fmcli.data.dataset cimport Dataset
from fmcli.models.arguments cimport NO_BLOCK, SampleRun
from fmcli.solvers.stochastic.kernels cimport RoundSamples, kernels
from fmcli.losses.loss cimport Loss
from fmcli.models.model cimport NONE, Model
from fmcli.models.workspace cimport Workspace, workspace_for
from fmcli.solvers.stochastic.sample_rounds cimport SampleRounds
from fmcli.solvers.stochastic.solver cimport Solver
from libc.stdint cimport int32_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy

cdef extern from "fmcli/base/barrier.h" nogil:
    struct Barrier:
        int threads
        int arrived
        int generation
    void wait_for_all(Barrier*)

# How many samples ahead parameter rows are prefetched.
cdef Py_ssize_t AHEAD = 4


cdef class RoundLoop:
    """Trains a model on rounds of samples, round by round.

    Each round has two phases. First, the scores and slopes of all its samples are computed from the parameters before
    the round, and all gradients by rows that are not formulas. Then, one step (update_rules.h) updates every row that
    the round touches. Threads share the samples, and then the rows. If the solver defers steps, touched rows catch up
    before the round.

    Parameters
    ----------
    model : Model, with rows allocated and started, for which `takes_rounds` is true.
    solver : Solver, bound to the model, with steps for rounds.
    loss : Loss of bounded curvature.
    threads : the number of threads that `train_on` uses.
    """

    cdef Model model
    cdef Solver solver
    cdef Loss loss
    cdef SampleRounds rounds
    cdef Dataset data
    cdef list workspaces, memory
    cdef RoundGradient* gradients
    cdef real** body
    cdef real** weight
    cdef real** sums
    cdef real** slope
    cdef real** beta
    cdef double[::1] losses
    cdef double weight_scale, total
    cdef double[:, ::1] room
    cdef Barrier barrier
    cdef int n_gradients, threads
    cdef bint by_formula  # whether kernels compute the gradients: the model is second-order, with one output
    cdef Py_ssize_t samples, entries, longest  # the room

    def __cinit__(self, Model model, *args, **keywords):
        self.n_gradients = model.outputs * model.n_blocks
        self.gradients = <RoundGradient*>calloc(self.n_gradients, sizeof(RoundGradient))
        self.body = <real**>calloc(5 * self.n_gradients, sizeof(real*))
        if self.gradients == NULL or self.body == NULL:
            raise MemoryError
        self.weight = self.body + self.n_gradients
        self.sums = self.weight + self.n_gradients
        self.slope = self.sums + self.n_gradients
        self.beta = self.slope + self.n_gradients

    def __init__(self, Model model, Solver solver, Loss loss, int threads=1):
        cdef int g
        cdef SampleRun run
        model.require(training=True)
        solver.require(model)
        if not solver.takes_rounds or not takes_rounds(model) or threads < 1:
            raise ValueError("the model or the solver has no rounds, or there are no threads")
        self.model, self.solver, self.loss, self.threads = model, solver, loss, threads
        self.room = np.zeros((threads, model.room_size()))
        self.by_formula = model.pair_block != NONE and model.outputs == 1 and model.describe(&run)
        self.samples = self.entries = self.longest = -1
        for g in range(self.n_gradients):
            self.gradients[g].block, self.gradients[g].curvature = g % model.n_blocks, loss.smoothness
            self.gradients[g].first = (g // model.n_blocks) * model.block[g % model.n_blocks].rows

    # Set the rounds to train on next.
    cdef attach(self, SampleRounds rounds):
        if rounds.by_sample != (self.model.pair_block != NONE):
            raise ValueError("the rounds were made for another kind of model")
        self.loss.check(rounds.data.label, self.model.outputs)
        self.rounds, self.data, self.weight_scale = rounds, rounds.data, 1 / rounds.mean_weight
        if rounds.data.longest > self.longest:
            self.longest = rounds.data.longest
            self.workspaces = [workspace_for(self.model, self.data) for _ in range(self.threads)]
        if rounds.longest > self.samples or rounds.most_entries > self.entries:
            self.reserve(max(rounds.longest, self.samples), max(rounds.most_entries, self.entries, 1))

    # Make room for the gradients of rounds of this many samples and entries.
    cdef reserve(self, Py_ssize_t samples, Py_ssize_t entries):
        cdef int g, b
        cdef Py_ssize_t n, rows, lanes
        cdef real[::1] bodies, weights
        cdef int32_t[::1] ids
        cdef RowEntries* shared
        self.samples, self.entries = samples, entries
        self.losses = np.zeros(samples)
        self.memory = []
        for g in range(self.n_gradients):
            b = g % self.model.n_blocks
            layout, rows, lanes = self.model.layout[b], self.model.block[b].rows, self.model.block[b].lanes
            if b == self.model.pair_block:
                bodies, weights = allocate((samples + 1) * lanes), allocate(samples)
                self.sums[g], self.beta[g], self.slope[g] = &bodies[0], &bodies[samples * lanes], &weights[0]
                self.gradients[g].sums, self.gradients[g].slope = self.sums[g], self.slope[g]
            else:
                n = entries if layout.by_feature else samples * rows
                bodies, weights = allocate(n * lanes), allocate(n)
                self.body[g], self.weight[g] = &bodies[0], &weights[0]
                self.gradients[g].body, self.gradients[g].weight = self.body[g], self.weight[g]
            self.memory += [bodies.base, weights.base]
            if not layout.by_feature:
                ids = np.zeros(2 * rows + 1 + samples * rows, dtype=np.int32)
                weights = allocate(rows)
                self.memory += [ids.base, weights.base]
                shared = &self.gradients[g].rows
                shared.row, shared.start, shared.entry = &ids[0], &ids[rows], &ids[2 * rows + 1]
                shared.curvature = &weights[0]

    @staticmethod
    def bytes_needed(Model model, Py_ssize_t samples, Py_ssize_t entries):
        """Return the bytes of the gradients of a round of this many samples and entries."""
        cdef int b
        numbers = 0
        for b in range(model.n_blocks):
            each = model.block[b].lanes + 1
            if b == model.pair_block:
                numbers += samples * each
            else:
                numbers += (entries if model.by_feature[b] else samples * model.block[b].rows) * each
        return model.outputs * numbers * sizeof(real)

    def __dealloc__(self):
        free(self.gradients)
        free(self.body)

    def train_on(
        self, pool, SampleRounds rounds not None, const int32_t[::1] order, Py_ssize_t start, Py_ssize_t stop,
        double total=0
    ):
        """Train on the rounds with numbers order[start:stop]. Returns `total` plus the weighted losses of their
        samples, each before the step of its round.

        pool : concurrent.futures.Executor, with threads for all but one of the threads.
        """
        cdef Py_ssize_t i
        if not 0 <= start <= stop <= order.shape[0]:
            raise IndexError("there are no such rounds")
        for i in range(start, stop):
            if not 0 <= order[i] < len(rounds):
                raise IndexError("there is no such round")
        if rounds is not self.rounds:
            self.attach(rounds)
        for workspace in self.workspaces:
            (<Workspace>workspace).fit(self.model, self.data)
        self.solver.require(self.model)
        self.total, self.barrier = total, Barrier(self.threads, 0, 0)
        together = threading.Barrier(self.threads)
        try:
            others = [pool.submit(self.work, i, together, order, start, stop) for i in range(1, self.threads)]
            self.work(0, together, order, start, stop)
        except BaseException:
            together.abort()  # no thread may wait for one that has not started
            raise
        for other in others:
            other.result()
        return self.total

    def work(self, int thread, together, const int32_t[::1] order, Py_ssize_t start, Py_ssize_t stop):
        """Do one thread's share of `train_on`."""
        cdef Py_ssize_t i
        cdef FloatingMode mode
        cdef Workspace workspace = self.workspaces[thread]
        together.wait()
        with nogil:
            mode = flush_denormals()
            for i in range(start, stop):
                self.step(order[i], thread, &workspace.scratch)
            return_to_mode(mode)

    cdef void step(self, Py_ssize_t number, int thread, Scratch* s) noexcept nogil:
        cdef Py_ssize_t begin = self.rounds.end[number], n = self.rounds.end[number + 1] - begin, i
        cdef int g
        cdef ThreadShare share = ThreadShare(thread, self.threads, &self.room[thread, 0])
        if thread == 0:
            self.set_round(number, n)
            self.solver.begin_round(n)
        if self.solver.defers_steps:
            wait_for_all(&self.barrier)
            for g in range(self.n_gradients):
                if self.gradients[g].rows.row != NULL:
                    self.solver.round_catch_up(&self.gradients[g], &share)
            wait_for_all(&self.barrier)
        if self.by_formula:
            self.formulas_of(begin, begin + n * thread // self.threads, begin + n * (thread + 1) // self.threads, s)
        else:
            self.gradients_of(begin, begin + n * thread // self.threads, begin + n * (thread + 1) // self.threads, s)
        wait_for_all(&self.barrier)
        for g in range(self.n_gradients):
            if self.gradients[g].rows.row != NULL:
                self.solver.round_step(&self.gradients[g], &share)
        if thread == 0:
            for i in range(n):
                self.total += self.losses[i]
        wait_for_all(&self.barrier)
        if self.model.constrained or self.solver.defers_steps:
            if thread == 0:
                self.solver.end_round(n)
                s.rate_share = self.solver.rate_share()
                self.model.finish_update(s)
            wait_for_all(&self.barrier)

    # Set the parameter rows of the gradients of a round.
    cdef void set_round(self, Py_ssize_t number, Py_ssize_t n) noexcept nogil:
        cdef int g
        cdef RoundGradient* gradient
        for g in range(self.n_gradients):
            gradient = &self.gradients[g]
            if not self.model.trained[gradient.block]:
                gradient.rows.row = NULL
            elif self.model.by_feature[gradient.block]:
                gradient.rows = self.rounds.rows[number]
            else:
                set_shared_rows(&gradient.rows, self.model.block[gradient.block].rows, n, self.rounds.shared[number])

    # Compute the gradients of a round by second-order formulas, in one call.
    cdef void formulas_of(self, Py_ssize_t begin, Py_ssize_t start, Py_ssize_t stop, Scratch* s) noexcept nogil:
        cdef RoundSamples samples
        cdef SampleRun* run = &samples.run
        cdef int g = self.model.pair_block
        self.model.describe(run)
        run.data, run.label, run.weight = &self.data.csr, self.data.labels, self.data.weight_
        run.weight_scale, run.start, run.stop, run.sums = self.weight_scale, start, stop, s.work
        run.loss = self.loss.of_one_score()
        samples.begin, samples.sums, samples.slope, samples.loss = begin, self.sums[g], self.slope[g], &self.losses[0]
        samples.of_bias = self.weight[run.bias] if run.bias != NO_BLOCK else NULL
        samples.of_constant = self.body[run.constant] if run.constant != NO_BLOCK else NULL
        samples.of_beta = self.body[run.beta] if run.beta != NO_BLOCK else NULL
        if start == begin and run.beta != NO_BLOCK:
            self.keep_beta(g, self.model.block[run.beta].body)
        kernels.round_gradients(&samples)

    # Copy the weights of kernel values: a thread may update them before another thread uses them.
    cdef void keep_beta(self, int g, const real* beta) noexcept nogil:
        memcpy(self.beta[g], beta, self.model.block[self.gradients[g].block].lanes * sizeof(real))
        self.gradients[g].beta = self.beta[g]

    # Compute the gradients of samples start .. stop - 1 of the round that begins with sample `begin`.
    cdef void gradients_of(self, Py_ssize_t begin, Py_ssize_t start, Py_ssize_t stop, Scratch* s) noexcept nogil:
        cdef Py_ssize_t i, j, entry, lanes, rows, first_entry = self.data.csr.indptr[begin]
        cdef int g, c
        cdef double weight
        cdef Sample x
        cdef SparseGradient* gradient
        s.formulas = True
        for i in range(start, min(start + AHEAD, stop)):
            self.data.sample(i, &x)
            self.model.prefetch(&x, s)
        for i in range(start, stop):
            if i + AHEAD < stop:
                self.data.sample(i + AHEAD, &x)
                self.model.prefetch(&x, s)
            self.data.sample(i, &x)
            entry = self.data.csr.indptr[i] - first_entry
            self.model.rows(&x, s)
            for g in range(self.n_gradients):
                gradient = &s.gradients[g]
                rows, lanes = self.model.block[gradient.block].rows, self.model.block[gradient.block].lanes
                j = entry if self.model.by_feature[gradient.block] else (i - begin) * rows
                gradient.body, gradient.weight = self.body[g] + j * lanes, self.weight[g] + j
            self.model.score(&x, s)
            weight = self.data.weight_of(i)
            self.losses[i - begin] = weight * self.loss.slope(self.data.label_of(i), s.score, s.slope)
            for c in range(self.model.outputs):
                s.slope[c] *= weight * self.weight_scale
            self.model.gradient(&x, s)
            for g in range(self.n_gradients):
                gradient = &s.gradients[g]
                if gradient.formula.value != NULL:
                    lanes = self.model.block[gradient.block].lanes
                    memcpy(self.sums[g] + (i - begin) * lanes, gradient.formula.sums, lanes * sizeof(real))
                    self.slope[g][i - begin] = <real>gradient.formula.slope
                    if i == begin and gradient.formula.beta != NULL:
                        self.keep_beta(g, gradient.formula.beta)


# Set rows that have an entry in each of the n samples. `curvature` : of their steps.
cdef void set_shared_rows(RowEntries* rows, Py_ssize_t n_rows, Py_ssize_t n, double curvature) noexcept nogil:
    cdef Py_ssize_t r, s
    cdef int g
    for g in range(MANY_ENTRIES):
        rows.end[g] = n_rows if g + 1 >= min(n, MANY_ENTRIES) else 0
    for r in range(n_rows):
        rows.curvature[r] = <real>curvature
    if rows.start[1] == n:
        return
    for r in range(n_rows):
        rows.row[r] = <int32_t>r
        rows.start[r] = <int32_t>(r * n)
        for s in range(n):
            rows.entry[r * n + s] = <int32_t>(s * n_rows + r)
    rows.start[n_rows] = <int32_t>(n_rows * n)


def takes_rounds(Model model):
    """Return whether each block of the model has one row per feature, or rows that affect every sample."""
    return all([
        layout.touched == "all" or layout.touched == "features" and layout.rows_each == 1 for layout in model.layout])
