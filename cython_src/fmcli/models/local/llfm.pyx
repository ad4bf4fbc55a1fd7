"""Locally linear factorization machines [LL]."""

import numpy as np

from fmcli.base.state_dict import require_each_like
from fmcli.models.local.coding import Adaptive, Soft
from fmcli.models.local.kmeans import bytes_needed, kmeans
from fmcli.models.layout import FEATURES, REAL_TYPE, BlockLayout
from fmcli.errors import UsageError

from fmcli.base.types cimport (
    LANES, Block, ColumnView, Factors, Points, Sample, Scratch, SparseGradient, prefetch_line, prefetch_reals, real)
from fmcli.data.dataset cimport Dataset
from fmcli.models.kernels cimport kernels
from fmcli.losses.loss cimport Loss
from fmcli.models.local.anchors cimport Anchors, Move
from fmcli.models.local.coding cimport Code, Coding
from fmcli.models.model cimport SAMPLES_AHEAD, ColumnModel
from fmcli.models.parameters cimport MAX_BLOCKS
from fmcli.models.workspace cimport Workspace, workspace_for
from libc.stdint cimport INT32_MAX, int32_t
from libc.string cimport memcpy, memset


cdef extern from *:
    """
    // Threads that share a model may mark the same row at the same time.
    static inline void set_mark(unsigned char* mark) { __atomic_store_n(mark, 1, __ATOMIC_RELAXED); }
    """
    void set_mark(unsigned char* mark) noexcept nogil


# The number of parameter rows in one pass of the search for rows without a sample.
ROWS_AT_A_TIME = 1 << 16
# The most times that a step of all anchors is halved before it is abandoned.
HALVINGS = 30

cdef enum:
    IN_LINE = 16  # anchor coordinates in a cache line, at most


# Pointers into `work` and `ids` of a Scratch.
cdef struct Local:
    int32_t* coded  # whether `code` belongs to the sample that is scored next
    int32_t* ids  # row ids of the active anchors' FMs, sorted by anchor
    Code* code
    double* distance  # one per anchor
    double* value  # scores of the active anchors' FMs, sorted by class
    real* sums  # sums stored by the kernel of pairs, in the same order


cdef class LLFM(ColumnModel):
    """Sum over anchors of their share in x times the score of their FM. Shares fall with the distance from the anchor.

    All classes share the anchors, which are initialized by k-means. Learned anchors take plain gradient steps, whatever
    solver trains the FMs: z_i <- (1 - 2a) z_i + 2a x, where a is the rate times the derivative of the loss by
    |x - z_i|^2.
    """

    cdef Coding coding
    cdef Py_ssize_t anchors
    cdef int fms  # block id of the FMs
    cdef bint biased, linear, frozen
    cdef readonly bint learned
    cdef double anchor_rate
    cdef Anchors centers
    # (features, anchors) Whether a row has entered a score or is inherited; None and NULL if not recorded.
    cdef object touched
    cdef object inherited  # bool (features of the earlier model), whether that model has seen them
    cdef unsigned char* marks
    cdef object start_needed  # bytes for start values and k-means
    # While the model is frozen, the codes of one Dataset's samples are kept until the anchors change: the number of
    # active anchors, the active anchors, and their shares, followed by the sum before normalization. A negative number
    # means that the anchors have changed, but that these anchors are still the most likely ones.
    cdef Dataset coded
    cdef int32_t[::1] kept_n
    cdef int32_t[:, ::1] kept_active
    cdef double[:, ::1] kept_share

    def __init__(
        self, features, outputs, *, rank, bias=True, linear=True, anchors=10, neighbours=5, coding_c=1.0, lc=0.4,
        llfm_variant="jo", anchor_rate=0.01
    ):
        if anchors < 1 or neighbours < 1:
            raise ValueError(f"anchors is {anchors}, and neighbours {neighbours}; both must be at least 1")
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
        self.frozen = False
        self.inherited = np.zeros(0, dtype=np.bool_)
        self.centers = Anchors(anchors, features)

    # ---- Parameters: the blocks and the anchors. ----

    def shapes(self):
        return {**super().shapes(), "anchors": (self.anchors, self.features)}

    def split(self):
        raise UsageError(
            "llfm weighs its anchors by the whole row, so that its score is not a sum of terms of few features")

    def feature_axis(self, name):
        return 1 if name == "anchors" else super().feature_axis(name)

    def known(self, name, seen):
        return seen if name == "anchors" else super().known(name, seen)

    def inherit(self, previous, seen):
        """Keep the rows of features that the earlier model has seen, whether or not samples touch them."""
        self.inherited = seen

    @property
    def parameter_count(self):
        """The number of parameters, without state and padding."""
        return super().parameter_count + self.anchors * self.features

    def bytes_needed(self, int slots):
        """Return bytes that `allocate(slots)` and the initialization of the anchors need."""
        # One byte per row records whether it was touched.
        return super().bytes_needed(slots) + self.anchors * self.features * (REAL_TYPE.itemsize + 1) + self.start_needed

    def prepare(self, source, generator):
        # Start values are drawn for all rows at once, before k-means runs. Steps of all anchors need less memory.
        numbers = self.outputs * self.anchors * self.features * self.layout[self.fms].columns
        self.start_needed = max(REAL_TYPE.itemsize * numbers, bytes_needed(source.data, len(source.rows), self.anchors))

    def update_needed(self, Py_ssize_t batch):
        # A growing vector doubles its capacity, and both buffers exist during the copy.
        return 3 * batch * self.coding.most * sizeof(Move)

    def allocate(self, int slots):
        """Allocate rows for training, all zero, with `slots` reals of solver state per parameter."""
        ColumnModel.allocate(self, slots)
        self.memory.append(self.centers.allocate())
        self.parameters["anchors"] = self.centers.numbers

    def attach(self, arrays):
        ColumnModel.attach(self, arrays)
        self.centers.place(self.parameters["anchors"])

    def live(self, state=True):
        touched = np.zeros((0, self.anchors), dtype=np.uint8) if self.touched is None else self.touched
        return [*super().live(state), *self.centers.live(), touched]

    def require_snapshot(self, snapshot, state=True):
        *live, _ = self.live(state)
        marks = [np.shape(array)[:1] for array in snapshot[len(live):]] != [(0,)]
        touched = np.zeros((max(self.features, 1) if marks else 0, self.anchors), dtype=np.uint8)
        require_each_like("the model", snapshot, [*live, touched])

    def restore(self, snapshot, state=True):
        *_, touched = snapshot
        self.touched = None
        self.marks = NULL
        if len(touched):
            self.mark(touched)
        super().restore(snapshot, state)
        self.forget_codes()

    def remeasure(self):
        """Multiply the anchors' scales into their coordinates, and recompute the sums of squares."""
        self.require()
        self.centers.measure()
        self.forget_codes()

    # Invalidate the codes: the anchors have changed.
    cdef forget_codes(self):
        cdef Py_ssize_t i
        if self.coded is not None:
            for i in range(self.coded.rows):
                self.kept_n[i] = min(self.kept_n[i], -self.kept_n[i])

    # Record from now on which rows enter a score, in addition to `touched`.
    cdef mark(self, touched):
        cdef unsigned char[:, ::1] marks
        marks = self.touched = touched.copy()
        self.marks = &marks[0, 0]

    # ---- Before, between and after epochs. ----

    def start(self, seen, init_std, generator, threads=1):
        super().start(seen, init_std, generator, threads)
        self.mark(np.zeros((max(self.features, 1), self.anchors), dtype=np.uint8))
        self.touched[np.flatnonzero(self.inherited)] = True

    def start_on(self, data, rows, generator):
        """Initialize the anchors with the centers of k-means."""
        self.parameters["anchors"][...] = kmeans(data, rows, self.anchors, generator)
        self.remeasure()

    def end_epoch(self):
        """Fold in the anchors' scales. After the first epoch, set new rows that entered no score to 0."""
        if not self.frozen:
            self.remeasure()
        if self.touched is None:
            return
        together = max(1, ROWS_AT_A_TIME // max(self.features, 1))  # number of anchors
        for name in self.layout[self.fms].names:
            for array in (self.parameters[name], *self.states[name]):
                for first in range(0, self.anchors, together):
                    some = slice(first, first + together)
                    array[:, some][:, self.touched[:self.features, some].T == 0] = 0
        self.touched = None
        self.marks = NULL

    @property
    def anchored(self):
        return self

    @property
    def awaits_rows(self):
        return self.touched is not None

    def entered(self, int block, rows):
        if block == self.fms and self.touched is not None:
            self.touched.reshape(-1)[rows % self.block[block].rows] = True

    def figures(self, data, rows):
        """Return active_anchors: the mean number of active anchors of a sample."""
        return {"active_anchors": self.active_anchors(data, rows)}

    def active_anchors(self, Dataset data, const int32_t[::1] rows):
        """Return the mean number of active anchors of a sample."""
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

    # The number of sums stored by the kernel of pairs. They are padded, whether or not the rows are.
    cdef inline Py_ssize_t sums_size(self) noexcept nogil:
        return (self.vectors[self.fms][0].lanes + LANES - 1) // LANES * LANES

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
        cdef Code* code = local.code
        cdef bint kept = self.keeps(x)
        if kept and self.kept_n[x.number] > 0:
            code.n = self.kept_n[x.number]
            memcpy(code.active, &self.kept_active[x.number, 0], code.n * sizeof(int32_t))
            memcpy(code.share, &self.kept_share[x.number, 0], code.n * sizeof(double))
            code.total = self.kept_share[x.number, code.n]
            return
        kernels.distances(&self.centers.points, x, local.distance)
        self.coding.encode(local.distance, self.anchors, code)
        if kept:
            memcpy(&self.kept_active[x.number, 0], code.active, code.n * sizeof(int32_t))
            memcpy(&self.kept_share[x.number, 0], code.share, code.n * sizeof(double))
            self.kept_share[x.number, code.n] = code.total
            self.kept_n[x.number] = <int32_t>code.n

    # Whether the code of this sample is kept.
    cdef inline bint keeps(self, const Sample* x) noexcept nogil:
        return self.coded is not None and x.number < self.coded.rows and (
            x.index == self.coded.csr.index + self.coded.csr.indptr[x.number])

    # If a sample's code is not kept, only the anchors are prefetched: its FMs are not known yet.
    cdef void prefetch(self, const Sample* x, Scratch* s) noexcept nogil:
        cdef const Points* points = &self.centers.points
        cdef Py_ssize_t i, at
        cdef int c
        if self.keeps(x) and self.kept_n[x.number] != 0:
            for c in range(self.outputs):
                for at in range(max(self.kept_n[x.number], -self.kept_n[x.number])):
                    self.prefetch_fm(x, c * self.block[self.fms].rows + self.kept_active[x.number, at])
            return
        for i in range(x.nnz):
            at = 0
            while at < self.anchors:
                prefetch_line(points.at + x.index[i] * points.feature_stride + at * points.point_stride)
                at += IN_LINE

    # Prefetch the rows of one FM; `first` is its row of feature 0. Not inline, so it is called by the table of methods:
    # GCC drops other calls of a function that only prefetches.
    cdef void prefetch_fm(self, const Sample* x, Py_ssize_t first) noexcept nogil:
        cdef const Block* b = &self.block[self.fms]
        cdef Py_ssize_t i, row
        for i in range(x.nnz):
            row = first + x.index[i] * self.anchors
            prefetch_reals(b.body + row * b.body_stride, b.body_stride)
            if b.weight != NULL and b.weight_stride != b.body_stride:
                prefetch_line(b.weight + row * b.weight_stride)

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
        for c in range(0 if self.frozen else self.outputs):
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

    # Record the steps of the anchors. They move after all gradients of the update have been computed.
    cdef void note_moves(self, const Sample* x, Scratch* s, const Local* local) noexcept nogil:
        cdef Py_ssize_t a
        if local.code.n == 1:
            return  # the share of a single active anchor is always 1
        self.anchor_slopes(s, local)
        for a in range(local.code.n):
            self.centers.moves.push_back(Move(x[0], local.code.active[a], local.distance[a]))

    # The first entries of `distance`, no longer needed, <- derivatives of the loss by the active anchors' distances.
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
        if self.learned and not self.frozen:
            self.centers.step(2 * self.anchor_rate * s.rate_share)

    # ---- Coordinate solvers: shares are constant within an epoch. ----

    def freeze(self, data):
        self.frozen, self.coded = True, data
        self.kept_n = np.zeros(data.rows, dtype=np.int32)
        self.kept_active = np.empty((data.rows, self.coding.most), dtype=np.int32)
        self.kept_share = np.empty((data.rows, self.coding.most + 1))

    def freeze_needed(self, rows):
        return rows * (1 + self.coding.most) * (np.dtype(np.int32).itemsize + np.dtype(np.float64).itemsize)

    def step_apart(self, shards, loss, objective):
        numbers = self.parameters["anchors"]
        before, old = objective(), numbers.copy()
        slopes = self.anchor_gradient(shards, loss)
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

    def anchor_gradient(self, shards, Loss loss):
        """Return the derivatives of the mean loss by the anchors' coordinates (anchors, features), in double
        precision."""
        # The derivative by an anchor z is 2 (z - x) times the derivative by |z - x|^2.
        towards, by_distance = np.zeros((self.features, self.anchors)), np.zeros(self.anchors)
        total = 0.0
        for data in shards:
            self.add_anchor_slopes(data, loss, towards, by_distance)
            total += data.total_weight()
        return 2 / total * (by_distance[:, None] * self.parameters["anchors"] - towards.T)

    # Add the derivatives of a block's losses by |z - x|^2, for each anchor z: (anchors) their sums, and (features,
    # anchors) the sums of their products with x.
    cdef add_anchor_slopes(self, Dataset data, Loss loss, double[:, ::1] towards, double[::1] by_distance):
        if data.label is None:
            raise ValueError("the data have no labels")
        loss.check(data.label, self.outputs)
        cdef Workspace workspace = workspace_for(self, data, gradients=False)
        cdef Scratch* s = &workspace.scratch
        cdef Local local = self.local(s)
        cdef Sample x
        cdef Py_ssize_t r, i, a
        cdef double weight
        with nogil:
            for r in range(data.rows):
                if r + SAMPLES_AHEAD < data.rows:
                    data.sample(r + SAMPLES_AHEAD, &x)
                    self.prefetch(&x, s)
                data.sample(r, &x)
                self.score(&x, s)
                loss.slope(data.label_of(r), s.score, s.slope)
                self.anchor_slopes(s, &local)
                for a in range(local.code.n if local.code.n > 1 else 0):
                    weight = data.weight_of(r) * local.distance[a]
                    by_distance[local.code.active[a]] += weight
                    for i in range(x.nnz):
                        towards[x.index[i], local.code.active[a]] += weight * x.value[i]

    # The shares are the derivatives by the biases of the FMs.
    cdef void weight_derivatives(self, int b, const Sample* x, Scratch* s) noexcept nogil:
        cdef int c
        cdef Py_ssize_t a
        cdef Local local = self.local(s)
        local.coded[0] = False
        for c in range(self.outputs):
            for a in range(local.code.n):
                s.gradients[c * self.n_blocks + b].weight[a] = <real>local.code.share[a]

    # A sample's cache contains the sums of each anchor's FM, each followed by the share, 0 if the anchor is not active.
    cdef Py_ssize_t cache_size(self, Dataset data):
        return self.anchors * self.cached_size()

    cdef inline Py_ssize_t cached_size(self) noexcept nogil:
        return self.sums_size() + 1

    cdef void fill_cache(self, const Sample* x, Scratch* s, int output, real* cache) noexcept nogil:
        cdef Local local = self.local(s)
        cdef Py_ssize_t a, size = self.sums_size()
        cdef real* of_anchor
        cdef const real* sums = local.sums + output * local.code.n * size
        for a in range(self.anchors):
            cache[a * self.cached_size() + size] = 0
        for a in range(local.code.n):
            of_anchor = cache + local.code.active[a] * self.cached_size()
            memcpy(of_anchor, sums + a * size, size * sizeof(real))
            of_anchor[size] = <real>local.code.share[a]

    # The view of the row as a view of a single FM, with the cache of the row's anchor.
    cdef inline ColumnView of_one(self, const ColumnView* v) noexcept nogil:
        cdef ColumnView of_one = v[0]
        of_one.cache += v.row % self.anchors * self.cached_size() * sizeof(real)
        return of_one

    cdef void score_gradient(self, const ColumnView* v, real* q) noexcept nogil:
        cdef ColumnView of_one
        if v.block != self.fms:
            kernels.weight_score_gradient(v, q)  # the derivatives by the biases are the shares
            return
        of_one = self.of_one(v)
        kernels.pairs_score_gradient(&of_one, self.row_of(v), NULL, q)
        kernels.share_score_gradient(&of_one, self.sums_size(), q)

    cdef void prefetch_states(self, const ColumnView* v) noexcept nogil:
        cdef Py_ssize_t i
        cdef ColumnView of_one = self.of_one(v)
        cdef char* state
        for i in range(v.n):
            state = v.sample_states + v.sample[i] * v.sample_state_size
            prefetch_line(state)
            prefetch_reals(<real*>(state + of_one.cache), self.cached_size())

    cdef void update_cache(self, const ColumnView* v, const real* step) noexcept nogil:
        cdef ColumnView of_one
        if v.block == self.fms:
            of_one = self.of_one(v)
            kernels.pairs_update_cache(&of_one, self.row_of(v), step, 0)
