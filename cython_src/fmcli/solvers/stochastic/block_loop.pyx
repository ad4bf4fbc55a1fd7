"""The loop of block steps: each block of samples makes one step, whose bits do not depend on the number of threads."""

import threading

import numpy as np

from fmcli.models.layout import allocate

from fmcli.base.types cimport (
    MANY_ENTRIES, PAIR_FORMULAS, BlockGradient, RowEntries, Sample, Scratch, SparseGradient, ThreadShare, real)
from fmcli.data.dataset cimport Dataset
from fmcli.losses.loss cimport Loss
from fmcli.models.model cimport NONE, Model, Workspace, workspace_for
from fmcli.solvers.stochastic.solver cimport Solver
from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy

cdef extern from "fmcli/base/barrier.h" nogil:
    struct Barrier:
        int threads
        int arrived
        int generation
    void wait_for_all(Barrier*)

cdef extern from "fmcli/solvers/stochastic/row_entries.h" nogil:
    enum:
        NO_PLACE

    struct GroupingSpace:
        int32_t* place
        int32_t* local
        int32_t* id
        int32_t* count
        int32_t* order

    struct BlockEntries:
        Py_ssize_t n
        const int32_t* row
        const int32_t* sample
        const float* value
        const real* weight
    bint group_by_row(const BlockEntries*, GroupingSpace, RowEntries*)

# How many samples ahead parameter rows are prefetched.
cdef Py_ssize_t AHEAD = 4


cdef class SampleBlocks:
    """Samples in the order of training, in blocks, whose entries are grouped by feature.

    Parameters
    ----------
    data : Dataset, the samples in this order.
    ends : int64 (blocks + 1), increasing from 0 to the number of samples; block i begins with sample ends[i].
    mean_weight : what the solver divides weights by: their mean, or 1.
    by_sample : whether entries are grouped with the numbers of their samples, and their values, for models whose
        gradients are formulas; else with their own numbers.
    """

    cdef readonly Dataset data
    cdef readonly bint by_sample
    cdef readonly object ends
    cdef readonly Py_ssize_t longest, most_entries  # samples and entries of a block
    cdef readonly double mean_weight
    cdef const int64_t[::1] end
    cdef RowEntries* rows

    def __cinit__(self, *args, **keywords):
        self.rows = NULL

    def __init__(self, Dataset data, ends, *, double mean_weight=1, bint by_sample=False):
        self.data, self.ends, self.end, self.mean_weight, self.by_sample = data, ends, ends, mean_weight, by_sample
        sizes, entries = np.diff(ends), np.diff(data.indptr[ends])
        if len(ends) < 2 or ends[0] != 0 or ends[len(ends) - 1] != data.rows or sizes.min() < 1:
            raise ValueError("the blocks are not those of all samples")
        if entries.max() > np.iinfo(np.int32).max:
            raise ValueError("a block has too many entries")
        self.longest, self.most_entries = sizes.max(), entries.max()
        self.rows = <RowEntries*>calloc(len(sizes), sizeof(RowEntries))
        if self.rows == NULL:
            raise MemoryError

    def __len__(self):
        return self.end.shape[0] - 1

    def __dealloc__(self):
        cdef Py_ssize_t i
        if self.rows != NULL:
            for i in range(self.end.shape[0] - 1):
                free(self.rows[i].row)
            free(self.rows)

    def group(self, Py_ssize_t first, Py_ssize_t last):
        """Group the entries of blocks first .. last - 1 by feature. Threads may share the blocks."""
        if not 0 <= first <= last <= len(self):
            raise IndexError("there are no such blocks")
        place_ = np.full(max(self.data.features, 1), NO_PLACE, dtype=np.int32)
        room_ = np.empty((5, max(self.most_entries, 1)), dtype=np.int32)
        cdef int32_t[::1] place = place_
        cdef int32_t[:, ::1] room = room_
        cdef real[::1] weight = allocate(max(self.most_entries, 1) if self.weighted else 1)
        cdef GroupingSpace space = GroupingSpace(&place[0], &room[0, 0], &room[1, 0], &room[2, 0], &room[3, 0])
        cdef BlockEntries entries = BlockEntries(0, NULL, NULL, NULL, NULL)
        cdef Py_ssize_t i, s, e, begin
        cdef bint enough = True
        cdef double share
        cdef float x
        if self.by_sample:
            entries.sample = &room[4, 0]
        if self.weighted:
            entries.weight = &weight[0]
        with nogil:
            for i in range(first, last):
                begin = self.data.csr.indptr[self.end[i]]
                entries.n = self.data.csr.indptr[self.end[i + 1]] - begin
                entries.row = self.data.csr.index + begin
                if self.by_sample and not self.data.csr.constant:
                    entries.value = self.data.csr.value + begin
                for s in range(self.end[i], self.end[i + 1]):
                    share = self.data.share_of(s, self.mean_weight)
                    for e in range(self.data.csr.indptr[s], self.data.csr.indptr[s + 1]):
                        room[4, e - begin] = <int32_t>(s - self.end[i])
                        if entries.weight != NULL:
                            x = 1 if self.data.csr.constant else self.data.csr.value[e]
                            weight[e - begin] = <real>(share * x * x)
                enough &= group_by_row(&entries, space, &self.rows[i])
        if not enough:
            raise MemoryError

    @property
    def weighted(self):
        """Whether entries differ in their weight in the curvature: by their values or by the weights of samples."""
        return not self.data.csr.constant or self.data.weight is not None


cdef class BlockLoop:
    """Trains a model on blocks of samples, block by block.

    Each block has two phases. First, the scores and slopes of all its samples are computed from the parameters before
    the block, and all gradients by rows that are no formulas. Then, every row that the block touches is updated by
    one step (update_rules.h). Threads share the samples, and then the rows.

    Parameters
    ----------
    model : Model, with rows allocated and started, for which `takes_blocks` is true.
    solver : Solver, bound to the model, with steps for blocks.
    loss : Loss, of bounded curvature.
    blocks : SampleBlocks, all grouped.
    curvature : the bound of the loss's curvature, times the effect that a sample's update has on other samples' scores.
    threads : how many threads `run` uses.
    """

    cdef Model model
    cdef Solver solver
    cdef Loss loss
    cdef SampleBlocks blocks
    cdef Dataset data
    cdef list workspaces, memory
    cdef BlockGradient* gradients
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

    def __cinit__(self, Model model, *args, **keywords):
        self.n_gradients = model.outputs * model.n_blocks
        self.gradients = <BlockGradient*>calloc(self.n_gradients, sizeof(BlockGradient))
        self.body = <real**>calloc(5 * self.n_gradients, sizeof(real*))
        if self.gradients == NULL or self.body == NULL:
            raise MemoryError
        self.weight = self.body + self.n_gradients
        self.sums = self.weight + self.n_gradients
        self.slope = self.sums + self.n_gradients
        self.beta = self.slope + self.n_gradients

    def __init__(
        self, Model model, Solver solver, Loss loss, SampleBlocks blocks, double curvature, int threads=1
    ):
        cdef int g, b
        cdef Py_ssize_t most = max(blocks.most_entries, 1), longest = blocks.longest, rows, lanes
        cdef real[::1] bodies, weights
        cdef int32_t[::1] ids
        cdef RowEntries* shared
        model.require(training=True)
        solver.require(model)
        if not solver.takes_blocks or not takes_blocks(model) or threads < 1:
            raise ValueError("the model or the solver has no block steps, or there are no threads")
        if blocks.by_sample != (model.pair_block != NONE):
            raise ValueError("the blocks were made for another kind of model")
        self.data = blocks.data
        loss.check(self.data.label, model.outputs)
        self.model, self.solver, self.loss, self.blocks = model, solver, loss, blocks
        self.threads = threads
        self.weight_scale = 1 / blocks.mean_weight
        self.workspaces = [workspace_for(model, self.data) for _ in range(threads)]
        self.losses = np.zeros(longest)
        self.room = np.zeros((threads, model.room_size()))
        self.memory = []
        for g in range(self.n_gradients):
            b = g % model.n_blocks
            layout, rows, lanes = model.layout[b], model.block[b].rows, model.block[b].lanes
            self.gradients[g].block, self.gradients[g].curvature = b, curvature
            self.gradients[g].first = (g // model.n_blocks) * rows
            if b == model.pair_block:
                bodies, weights = allocate((longest + 1) * lanes), allocate(longest)
                self.sums[g], self.beta[g], self.slope[g] = &bodies[0], &bodies[longest * lanes], &weights[0]
                self.gradients[g].sums, self.gradients[g].slope = self.sums[g], self.slope[g]
            else:
                n = most if layout.by_feature else longest * rows
                bodies, weights = allocate(n * lanes), allocate(n)
                self.body[g], self.weight[g] = &bodies[0], &weights[0]
                self.gradients[g].body, self.gradients[g].weight = self.body[g], self.weight[g]
            self.memory += [bodies.base, weights.base]
            if not layout.by_feature:
                ids = np.zeros(2 * rows + 1 + longest * rows, dtype=np.int32)
                weights = allocate(rows)
                self.memory += [ids.base, weights.base]
                shared = &self.gradients[g].rows
                shared.row, shared.start, shared.entry = &ids[0], &ids[rows], &ids[2 * rows + 1]
                if self.data.weight_ != NULL:
                    shared.curvature = &weights[0]

    @staticmethod
    def bytes_needed(Model model, Py_ssize_t samples, Py_ssize_t entries):
        """Bytes of the gradients of a block of this many samples and entries."""
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

    def run(self, pool, const int32_t[::1] order, Py_ssize_t start, Py_ssize_t stop, double total=0):
        """Train on blocks order[start:stop]; return `total` plus the weighted losses of their samples, each before the
        step of its block.

        pool : concurrent.futures.Executor, with threads for all but one of the threads.
        """
        cdef Py_ssize_t i
        if not 0 <= start <= stop <= order.shape[0]:
            raise IndexError("there are no such blocks")
        for i in range(start, stop):
            if not 0 <= order[i] < len(self.blocks) or self.blocks.rows[order[i]].row == NULL:
                raise IndexError("there is no such block")
        for workspace in self.workspaces:
            (<Workspace>workspace).fit(self.model, self.data)
        self.solver.require(self.model)
        self.total, self.barrier = total, Barrier(self.threads, 0, 0)
        together = threading.Barrier(self.threads)
        try:
            others = [pool.submit(self.work, i, together, order, start, stop) for i in range(1, self.threads)]
            self.work(0, together, order, start, stop)
        except BaseException:
            together.abort()  # no thread may wait for one that has not begun
            raise
        for other in others:
            other.result()
        return self.total

    def work(self, int thread, together, const int32_t[::1] order, Py_ssize_t start, Py_ssize_t stop):
        """One thread's part of `run`."""
        cdef Py_ssize_t i
        cdef Workspace workspace = self.workspaces[thread]
        together.wait()
        with nogil:
            for i in range(start, stop):
                self.step(order[i], thread, &workspace.scratch)

    cdef void step(self, Py_ssize_t number, int thread, Scratch* s) noexcept nogil:
        cdef Py_ssize_t begin = self.blocks.end[number], n = self.blocks.end[number + 1] - begin, i
        cdef int g
        cdef ThreadShare share = ThreadShare(thread, self.threads, &self.room[thread, 0])
        if thread == 0:
            self.set_block(number, begin, n)
        self.gradients_of(begin, begin + n * thread // self.threads, begin + n * (thread + 1) // self.threads, s)
        wait_for_all(&self.barrier)
        for g in range(self.n_gradients):
            if self.gradients[g].rows.row != NULL:
                self.solver.block_step(&self.gradients[g], &share)
        if thread == 0:
            for i in range(n):
                self.total += self.losses[i]
        wait_for_all(&self.barrier)
        if self.model.constrained:
            if thread == 0:
                s.rate_share = self.solver.rate_share()
                self.model.finish_update(s)
            wait_for_all(&self.barrier)

    # Set what the steps of a block read, besides gradients.
    cdef void set_block(self, Py_ssize_t number, Py_ssize_t begin, Py_ssize_t n) noexcept nogil:
        cdef int g
        cdef Py_ssize_t s
        cdef double total = 0
        cdef BlockGradient* gradient
        if self.data.weight_ != NULL:
            for s in range(begin, begin + n):
                total += self.data.share_of(s, self.blocks.mean_weight)
            total *= (n - 1.0) / n
        for g in range(self.n_gradients):
            gradient = &self.gradients[g]
            if not self.model.trained[gradient.block]:
                gradient.rows.row = NULL
            elif self.model.by_feature[gradient.block]:
                gradient.rows = self.blocks.rows[number]
            else:
                set_shared_rows(&gradient.rows, self.model.block[gradient.block].rows, n, total)

    # The gradients of samples start .. stop - 1 of the block that begins with sample `begin`.
    cdef void gradients_of(self, Py_ssize_t begin, Py_ssize_t start, Py_ssize_t stop, Scratch* s) noexcept nogil:
        cdef Py_ssize_t i, j, entry, lanes, rows, first_entry = self.data.csr.indptr[begin]
        cdef int g, c
        cdef double weight
        cdef Sample x
        cdef SparseGradient* gradient
        s.formulas = PAIR_FORMULAS
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
            self.losses[i - begin] = weight * self.loss.slope(self.data.label_[i], s.score, s.slope)
            for c in range(self.model.outputs):
                s.slope[c] *= weight * self.weight_scale
            self.model.gradient(&x, s)
            for g in range(self.n_gradients):
                gradient = &s.gradients[g]
                if gradient.formula.value != NULL:
                    lanes = self.model.block[gradient.block].lanes
                    memcpy(self.sums[g] + (i - begin) * lanes, gradient.formula.sums, lanes * sizeof(real))
                    self.slope[g][i - begin] = <real>gradient.formula.slope
                    if i == begin and gradient.formula.beta != NULL:  # copied, because a thread may update it first
                        memcpy(self.beta[g], gradient.formula.beta, lanes * sizeof(real))
                        self.gradients[g].beta = self.beta[g]


# Each of these rows has an entry in each of the n samples. `weight` is their curvature if samples have weights.
cdef void set_shared_rows(RowEntries* rows, Py_ssize_t n_rows, Py_ssize_t n, double weight) noexcept nogil:
    cdef Py_ssize_t r, s
    cdef int g
    for g in range(MANY_ENTRIES):
        rows.end[g] = n_rows if g + 1 >= min(n, MANY_ENTRIES) else 0
    for r in range(n_rows if rows.curvature != NULL else 0):
        rows.curvature[r] = <real>weight
    if rows.start[1] == n:
        return
    for r in range(n_rows):
        rows.row[r] = <int32_t>r
        rows.start[r] = <int32_t>(r * n)
        for s in range(n):
            rows.entry[r * n + s] = <int32_t>(s * n_rows + r)
    rows.start[n_rows] = <int32_t>(n_rows * n)


def takes_blocks(Model model):
    """Whether each block of the model has one row for each feature, or rows that affect every sample."""
    return all([
        layout.touched == "all" or layout.touched == "features" and layout.rows_each == 1 for layout in model.layout])
