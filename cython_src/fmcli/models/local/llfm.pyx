"""Locally linear factorization machines [LL]."""

import numpy as np

from fmcli.models.local.coding import Adaptive, Soft
from fmcli.models.local.kmeans import bytes_needed, kmeans
from fmcli.models.layout import FEATURES, REAL_TYPE, BlockLayout, allocate
from fmcli.errors import UsageError

from fmcli.base.types cimport LANES, ColumnView, Factors, Points, Sample, Scratch, SparseGradient, prefetch_line, real
from fmcli.data.dataset cimport Dataset
from fmcli.kernels.simd cimport kernels
from fmcli.losses.loss cimport Loss
from fmcli.models.local.coding cimport Code, Coding
from fmcli.models.model cimport MAX_BLOCKS, Model, Workspace, workspace_for
from libc.stdint cimport INT32_MAX, int32_t
from libc.string cimport memcpy, memset
from libcpp.vector cimport vector


cdef extern from *:
    """
    // Threads that share a model may mark the same row at once.
    static inline void set_mark(unsigned char* mark) { __atomic_store_n(mark, 1, __ATOMIC_RELAXED); }
    """
    void set_mark(unsigned char* mark) noexcept nogil


# An anchor's scale within these bounds stays apart from its numbers.
cdef double SMALLEST_SCALE = 1e-4, LARGEST_SCALE = 1e4
# Rows of parameters among which those without a sample are looked for at a time.
ROWS_AT_A_TIME = 1 << 16
# Of a step with all anchors, before there is none.
HALVINGS = 30

cdef enum:
    IN_LINE = 16  # an anchor's numbers in a cache line, at most


# A step that an anchor will take: towards the sample by its rate times -slope.
cdef struct Move:
    Sample x
    int32_t anchor
    double slope  # of the loss by the anchor's squared distance


# The parts of a Scratch's `work` and `ids`.
cdef struct Local:
    int32_t* coded  # whether `code` is of the sample to be scored next
    int32_t* ids  # rows of the active anchors' FMs, anchor after anchor
    Code* code
    double* distance  # by anchor
    double* value  # of the active anchors' FMs, class after class
    real* sums  # what the pairs' kernel leaves, in the same order


cdef class LLFM(Model):
    """sum over anchors of their shares in x times an FM of their own; shares fall with the distance from the anchor.

    Anchors, shared by all classes, start from k-means. Where they are learned they take plain steps, whatever solver
    trains the FMs: z_i <- (1 - 2a) z_i + 2a x, a = rate times the loss's derivative by |x - z_i|^2. The factor is kept
    apart from the anchor's numbers, and so is the sum of their squares, so that a step costs no more than the sample
    has entries.
    """

    cdef Coding coding
    cdef Py_ssize_t anchors
    cdef int fms  # the block of the FMs
    cdef bint biased, linear, learned, frozen
    cdef double anchor_rate
    cdef Points points
    cdef real[::1] table  # anchors' numbers while training, a feature's side by side
    cdef double[::1] scale, squares, shrink
    # (features, anchors) Whether a row entered a score or is no start value; None and NULL where that does not matter.
    cdef object touched
    cdef object inherited  # bool (features of the earlier model), which of them it has seen
    cdef unsigned char* marks
    cdef vector[Move] moves
    cdef object start_needed  # bytes

    def __init__(
        self, features, outputs, *, rank, bias=True, linear=True, anchors=10, neighbours=5, coding_c=1.0, lc=0.4,
        llfm_variant="jo", anchor_rate=0.01
    ):
        if anchors < 1 or neighbours < 1:
            raise ValueError(f"there cannot be {anchors} anchors and {neighbours} neighbours")
        if features * anchors > INT32_MAX:
            raise UsageError(f"{features} features times {anchors} anchors are too many rows", anchors=None)
        fms = BlockLayout(
            axes=(anchors, FEATURES), body=[("V", rank)], weight="w" if linear else None, touched="selected")
        biases = BlockLayout(axes=(anchors,), weight="bias", penalty="none", touched="selected")
        super().__init__(features, outputs, [*([biases] if bias else []), fms])
        self.biased, self.linear, self.fms = bias, linear, self.n_blocks - 1
        self.start_needed = 0
        self.anchors, self.learned, self.anchor_rate = anchors, llfm_variant != "do", anchor_rate
        self.coding = Adaptive(anchors, lc) if llfm_variant == "jo" else Soft(min(neighbours, anchors), coding_c)
        self.steps_apart, self.frozen = self.learned, False
        self.inherited = np.zeros(0, dtype=np.bool_)
        self.scale, self.squares, self.shrink = np.ones(anchors), np.zeros(anchors), np.zeros(anchors)
        self.points.n, self.points.scale, self.points.squares = anchors, &self.scale[0], &self.squares[0]

    # ---- Parameters: those of the blocks, and the anchors. ----

    def shapes(self):
        return {**super().shapes(), "anchors": (self.anchors, self.features)}

    def known(self, name, seen):
        return seen if name == "anchors" else super().known(name, seen)

    def inherit(self, earlier, seen):
        """Rows of features that the earlier model has seen are no start values, touched or not."""
        self.inherited = seen

    @property
    def parameter_count(self):
        """Number of parameters, without state and padding."""
        return super().parameter_count + self.anchors * self.features

    def bytes_needed(self, int slots):
        """Bytes that `allocate(slots)` takes, and finding the first anchors."""
        # A byte a row tells what has been touched.
        return super().bytes_needed(slots) + self.anchors * self.features * (REAL_TYPE.itemsize + 1) + self.start_needed

    def prepare(self, data, rows, generator):
        # Start values are drawn for all rows at once before the anchors are found; steps with all of these take less.
        numbers = self.outputs * self.anchors * self.features * self.layout[self.fms].columns
        self.start_needed = max(REAL_TYPE.itemsize * numbers, bytes_needed(data, len(rows), self.anchors))

    def update_needed(self, Py_ssize_t batch):
        # A vector that grows is twice as large, and there with the one before it.
        return 3 * batch * self.coding.most * sizeof(Move)

    def allocate(self, int slots):
        """Make rows for training, all zero, with `slots` reals of solver state beside each parameter."""
        Model.allocate(self, slots)
        table = allocate(self.features * self.anchors)
        self.table = table
        self.memory.append(table)
        self.parameters["anchors"] = table[:self.features * self.anchors].reshape(self.features, self.anchors).T
        self.place_anchors()

    def attach(self, arrays):
        Model.attach(self, arrays)
        self.place_anchors()

    cdef place_anchors(self):
        cdef const real[:, :] numbers = self.parameters["anchors"]
        self.points.at = &numbers[0, 0] if self.features else NULL
        self.points.point_stride = numbers.strides[0] // <Py_ssize_t>sizeof(real)
        self.points.feature_stride = numbers.strides[1] // <Py_ssize_t>sizeof(real)
        self.scale[:] = 1
        self.measure()

    def restore(self, snapshot):
        super().restore(snapshot)
        self.scale[:] = 1  # as at the end of an epoch, when snapshots are taken
        self.remeasure()

    def remeasure(self):
        """Multiply the anchors' scales into their numbers and sum these numbers' squares anew."""
        self.require()
        self.measure()

    cdef measure(self):
        cdef Py_ssize_t i, j
        cdef const real* z
        for i in range(self.anchors):
            if self.scale[i] != 1:
                self.fold(i)
        with nogil:
            memset(&self.squares[0], 0, self.anchors * sizeof(double))
            # Feature after feature, however they lie, to the same bits.
            for j in range(self.features):
                z = self.points.at + j * self.points.feature_stride
                for i in range(self.anchors):
                    self.squares[i] += <double>z[i * self.points.point_stride] * z[i * self.points.point_stride]

    # ---- Before, between and after epochs. ----

    def start(self, seen, init_std, generator):
        cdef unsigned char[:, ::1] marks
        super().start(seen, init_std, generator)
        marks = self.touched = np.zeros((max(self.features, 1), self.anchors), dtype=np.uint8)
        self.touched[np.flatnonzero(self.inherited)] = True
        self.marks = &marks[0, 0]

    def start_on(self, data, rows, generator):
        """Put the anchors where k-means has its centres."""
        self.parameters["anchors"][...] = kmeans(data, rows, self.anchors, generator)
        self.remeasure()

    def end_epoch(self):
        """Fold the anchors' scales in; rows that no sample of the first epoch came near lose their start values."""
        self.remeasure()
        if self.touched is None:
            return
        together = max(1, ROWS_AT_A_TIME // max(self.features, 1))  # anchors
        for name in self.layout[self.fms].names:
            for array in (self.parameters[name], *self.states[name]):
                for first in range(0, self.anchors, together):
                    some = slice(first, first + together)
                    array[:, some][:, self.touched[:self.features, some].T == 0] = 0
        self.touched = None
        self.marks = NULL

    def figures(self, data, rows):
        """active_anchors: the mean number of anchors that have a share in a sample."""
        return {"active_anchors": self.active_anchors(data, rows)}

    def active_anchors(self, Dataset data, const int32_t[::1] rows):
        """The mean number of anchors that have a share in a sample."""
        cdef Workspace workspace = workspace_for(self, data, gradients=False)
        cdef Local local = self.local(&workspace.scratch)
        data.check_rows(rows)
        cdef Sample x
        cdef Py_ssize_t i, total = 0
        for i in range(rows.shape[0]):
            data.sample(rows[i], &x)
            self.encode(&x, &local)
            total += local.code.n
        return <double>total / max(rows.shape[0], 1)

    # ---- One sample. ----

    cdef Py_ssize_t most_rows(self, int b, Py_ssize_t longest):
        return self.coding.most * (longest if b == self.fms else 1)

    cdef Py_ssize_t ids_size(self, Py_ssize_t longest):
        return 1 + self.anchors + self.coding.most * longest

    cdef Py_ssize_t work_size(self, Py_ssize_t longest):
        cdef Py_ssize_t doubles = 2 * self.anchors + self.outputs * self.coding.most
        return (sizeof(Code) + doubles * sizeof(double)) // sizeof(real) + (
            self.outputs * self.coding.most * self.sums_size())

    # Reals that the pairs' kernel leaves; padded, whether or not the rows are.
    cdef inline Py_ssize_t sums_size(self) noexcept nogil:
        return (self.parts[self.fms][0].lanes + LANES - 1) // LANES * LANES

    cdef inline Local local(self, Scratch* s) noexcept nogil:
        cdef Local local
        local.coded = s.ids
        local.ids = s.ids + 1 + self.anchors
        local.code = <Code*>s.work
        local.distance = <double*>(local.code + 1)
        local.value = local.distance + 2 * self.anchors
        local.sums = <real*>(local.value + self.outputs * self.coding.most)
        local.code.active = s.ids + 1
        local.code.share = local.distance + self.anchors
        return local

    cdef inline void encode(self, const Sample* x, Local* local) noexcept nogil:
        kernels.distances(&self.points, x, local.distance)
        self.coding.encode(local.distance, self.anchors, local.code)

    # Only the anchors: which FMs will be read is known when they are.
    cdef void prefetch(self, const Sample* x) noexcept nogil:
        cdef Py_ssize_t i, at
        for i in range(x.nnz):
            at = 0
            while at < self.anchors:
                prefetch_line(
                    self.points.at + x.index[i] * self.points.feature_stride + at * self.points.point_stride)
                at += IN_LINE

    cdef void rows(self, const Sample* x, Scratch* s) noexcept nogil:
        cdef const int32_t* row[MAX_BLOCKS]
        cdef Py_ssize_t n[MAX_BLOCKS]
        cdef Py_ssize_t a, i, touched = 0
        cdef int c, b
        cdef Local local = self.local(s)
        self.encode(x, &local)
        local.coded[0] = True
        for a in range(local.code.n):
            for i in range(x.nnz):
                local.ids[touched] = <int32_t>(x.index[i] * self.anchors + local.code.active[a])
                touched += 1
        if self.marks != NULL:
            for i in range(touched):
                set_mark(self.marks + local.ids[i])
        for c in range(self.outputs):
            kernels.prefetch(&self.block[self.fms], local.ids, touched, c * self.block[self.fms].rows)
        for b in range(self.n_blocks):
            row[b] = local.ids if b == self.fms else local.code.active
            n[b] = touched if b == self.fms else local.code.n
        self.cut(row, n, s)

    cdef void score(self, const Sample* x, Scratch* s) noexcept nogil:
        cdef int c
        cdef Py_ssize_t a, at = 0
        cdef int32_t anchor
        cdef Factors v, w
        cdef Local local = self.local(s)
        if not local.coded[0]:
            self.encode(x, &local)
        local.coded[0] = False
        for c in range(self.outputs):
            s.score[c] = 0
            for a in range(local.code.n):
                anchor = local.code.active[a]
                v = self.factors(self.fms, 0, c, anchor)
                local.value[at] = self.weights(0, c, anchor).at[0] if self.biased else 0.0
                local.value[at] += kernels.second_order(&v, x, NULL, NULL, local.sums + at * self.sums_size())
                if self.linear:
                    w = self.weights(self.fms, c, anchor)
                    local.value[at] += kernels.linear(&w, x)
                s.score[c] += local.code.share[a] * local.value[at]
                at += 1

    cdef void gradient(self, const Sample* x, Scratch* s) noexcept nogil:
        cdef int c
        cdef Py_ssize_t a, at = 0
        cdef double slope
        cdef Factors v
        cdef Local local = self.local(s)
        cdef SparseGradient* gradient
        cdef SparseGradient* biases
        for c in range(self.outputs):
            biases = s.gradients + c * self.n_blocks
            gradient = biases + self.fms
            for a in range(local.code.n):
                slope = s.slope[c] * local.code.share[a]
                v = self.factors(self.fms, 0, c, local.code.active[a])
                if self.biased:
                    biases.weight[a] = <real>slope
                kernels.second_order_gradient(
                    &v, x, local.sums + at * self.sums_size(), NULL, slope, gradient.body + a * x.nnz * v.lanes,
                    v.lanes)
                if self.linear:
                    kernels.linear_gradient(x, slope, gradient.weight + a * x.nnz)
                at += 1
        if self.learned and not self.frozen:
            self.note_moves(x, s, &local)

    # Anchors move when all gradients of the update have been taken.
    cdef void note_moves(self, const Sample* x, Scratch* s, const Local* local) noexcept nogil:
        cdef Py_ssize_t a
        if local.code.n == 1:
            return  # its share is 1 wherever it is
        self.anchor_slopes(s, local)
        for a in range(local.code.n):
            self.moves.push_back(Move(x[0], local.code.active[a], local.distance[a]))

    # The first distances, which are of no more use, <- the loss's derivatives by those of the active anchors.
    cdef void anchor_slopes(self, const Scratch* s, const Local* local) noexcept nogil:
        cdef int c
        cdef Py_ssize_t a
        cdef const double* value
        cdef double sum
        memset(local.distance, 0, local.code.n * sizeof(double))
        for c in range(self.outputs):
            value = local.value + c * local.code.n
            sum = 0
            for a in range(local.code.n):
                sum += value[a]
            for a in range(local.code.n):
                local.distance[a] += s.slope[c] * self.coding.slope(local.code, a, value[a], sum, s.score[c])

    cdef void finish_update(self, Scratch* s) noexcept nogil:
        cdef double rate = 2 * self.anchor_rate * s.rate_share
        cdef Py_ssize_t i
        cdef size_t m
        if not self.learned or self.frozen:
            return
        for m in range(self.moves.size()):
            self.shrink[self.moves[m].anchor] += rate * self.moves[m].slope
        for i in range(self.anchors):
            if self.shrink[i] != 0:
                self.scale[i] *= 1 - self.shrink[i]
                self.shrink[i] = 0
                if not SMALLEST_SCALE <= abs(self.scale[i]) <= LARGEST_SCALE:
                    self.fold(i)
        for m in range(self.moves.size()):
            self.add(self.moves[m].anchor, rate * self.moves[m].slope, &self.moves[m].x)
        self.moves.clear()

    # Multiply an anchor's scale into its numbers.
    cdef void fold(self, Py_ssize_t anchor) noexcept nogil:
        cdef Py_ssize_t j
        cdef real* z = &self.table[anchor]
        cdef double squares = 0
        for j in range(self.features):
            z[j * self.anchors] = <real>(self.scale[anchor] * z[j * self.anchors])
            squares += <double>z[j * self.anchors] * z[j * self.anchors]
        self.scale[anchor], self.squares[anchor] = 1, squares

    # anchor += amount * x
    cdef void add(self, Py_ssize_t anchor, double amount, const Sample* x) noexcept nogil:
        cdef Py_ssize_t i
        cdef real* z
        cdef double before
        amount /= self.scale[anchor]
        for i in range(x.nnz):
            z = &self.table[x.index[i] * self.anchors + anchor]
            before = <double>z[0] * z[0]
            z[0] = <real>(z[0] + amount * x.value[i])
            self.squares[anchor] += <double>z[0] * z[0] - before

    # ---- Solvers by columns: shares stay what they are within an epoch. ----

    def freeze(self):
        self.frozen = True

    def step_apart(self, data, loss, objective):
        numbers = self.parameters["anchors"]
        before, old = objective(), numbers.copy()
        slopes = self.anchor_gradient(data, loss)
        rate = self.anchor_rate
        for _ in range(HALVINGS):
            numbers[...] = old - rate * slopes
            if (numbers == old).all():
                break
            self.remeasure()
            if objective() < before:
                return True
            rate /= 2
        numbers[...] = old
        self.remeasure()
        objective()
        return False

    def anchor_gradient(self, Dataset data, Loss loss):
        """The derivatives of the mean loss by the anchors' numbers (anchors, features), in double."""
        if data.label is None:
            raise ValueError("the data have no labels")
        loss.check(data.label, self.outputs)
        cdef Workspace workspace = workspace_for(self, data, gradients=False)
        cdef Scratch* s = &workspace.scratch
        cdef Local local = self.local(s)
        cdef Sample x
        cdef Py_ssize_t r, i, a
        cdef double weight
        # By an anchor z: 2 (z - x) times the derivative by |z - x|^2.
        towards, by_distance = np.zeros((self.features, self.anchors)), np.zeros(self.anchors)
        cdef double[:, ::1] towards_ = towards
        cdef double[::1] by_distance_ = by_distance
        with nogil:
            for r in range(data.rows):
                data.sample(r, &x)
                self.score(&x, s)
                loss.slope(data.label_[r], s.score, s.slope)
                self.anchor_slopes(s, &local)
                for a in range(local.code.n if local.code.n > 1 else 0):
                    weight = data.weight_of(r) * local.distance[a]
                    by_distance_[local.code.active[a]] += weight
                    for i in range(x.nnz):
                        towards_[x.index[i], local.code.active[a]] += weight * x.value[i]
        return 2 / data.total_weight() * (by_distance[:, None] * self.parameters["anchors"] - towards.T)

    # A sample's cache is the sums of each anchor's FM, and behind these the shares, 0 where an anchor is not active.
    cdef Py_ssize_t cache_size(self, Dataset data):
        return self.anchors * (self.sums_size() + 1)

    cdef void fill_cache(self, const Sample* x, Scratch* s, int output, real* cache) noexcept nogil:
        cdef Local local = self.local(s)
        cdef Py_ssize_t a, size = self.sums_size()
        cdef real* shares = cache + self.anchors * size
        cdef const real* sums = local.sums + output * local.code.n * size
        memset(shares, 0, self.anchors * sizeof(real))
        for a in range(local.code.n):
            shares[local.code.active[a]] = <real>local.code.share[a]
            memcpy(cache + local.code.active[a] * size, sums + a * size, size * sizeof(real))

    # The visit as one to the row of an FM that is alone.
    cdef inline ColumnView of_one(self, const ColumnView* v) noexcept nogil:
        cdef ColumnView of_one = v[0]
        of_one.cache += v.row % self.anchors * self.sums_size() * sizeof(real)
        return of_one

    cdef void score_gradient(self, const ColumnView* v, real* q) noexcept nogil:
        cdef ColumnView of_one
        if v.block != self.fms:
            kernels.weight_score_gradient(v, q)  # the shares themselves
            return
        of_one = self.of_one(v)
        kernels.pairs_score_gradient(&of_one, self.row_of(v), NULL, q)
        kernels.share_score_gradient(v, self.anchors * self.sums_size() + v.row % self.anchors, q)

    cdef void update_cache(self, const ColumnView* v, const real* step) noexcept nogil:
        cdef ColumnView of_one
        if v.block == self.fms:
            of_one = self.of_one(v)
            kernels.pairs_update_cache(&of_one, self.row_of(v), step, 0)
