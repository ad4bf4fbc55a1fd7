"""Coordinate descent on observed pairs of a context and an item, and on the squared scores of all pairs."""

import numpy as np

from fmcli.losses.loss import Squared
from fmcli.models.layout import REAL_TYPE, allocate
from fmcli.solvers.coordinate.columns import of_all

from fmcli.base.types cimport LANES, ColumnView, Sample, cache_in, real, scores_in
from fmcli.data.dataset cimport Dataset
from fmcli.models.model cimport Joined, Model
from fmcli.models.parameters cimport Parameters
from fmcli.penalties.penalty cimport Penalty
from fmcli.solvers.coordinate.columns cimport Columns
from fmcli.solvers.coordinate.descent cimport Descent
from fmcli.solvers.coordinate.kernels cimport PAIRS_AT_ONCE, kernels
from fmcli.solvers.coordinate.update cimport CoordinateUpdater
from libc.stdint cimport int32_t, int64_t

cdef enum:
    CONTEXTS
    ITEMS
    ROWS_AT_ONCE = 1 << 8   # whose copies in double precision stay in a core's cache
    PARTS_AT_ONCE = 1 << 10  # whose derivatives are summed apart, as parts have many pairs


cdef class AllPairs(Descent):
    """Descent on half the weighted squared errors of observed pairs (c, i), whose scores s(c, i) are to be 1, plus
    strength / 2 times the sum over all contexts c and all items i of s(c, i)^2.

    By the contract of Joined, a score is s(c, i) = t_c + t_i + <beta B_c, B_i>, with the sums B and the own score t of
    both sides, and fixed weights beta. The terms that all scores have, such as the bias, count as features of every
    context. So the samples of this descent are the parts, not the pairs: a part's state has t as its score and B as its
    cache. As a function of the context's (beta B_c, t_c), whose derivative in s(c, i) is q_i = (B_i, 1), the objective
    is the quadratic with

        curvature <- sum over the context's pairs of a_ci q_i q_i^T + K         K = strength sum_i q_i q_i^T
        slope <- sum over these of a_ci (s(c, i) - 1) q_i + K (beta B_c, t_c) + strength sum_i t_i q_i

    K and the last summand are the same for all contexts, so an update of a feature visits the contexts that have the
    feature and their observed pairs, and never all pairs (all_pairs.inl); items are updated likewise. (Bayer, He,
    Kanagal and Rendle, A Generic Coordinate Descent Framework for Learning from Implicit Feedback, 2017, for single
    coordinates; Rendle, Krichene, Zhang and Koren, iALS++, 2021, for blocks of them.)

    Parameters
    ----------
    model : Model with `sides` and one score, allocated. There must be no group penalty.
    penalty, holds, pulls : as in Descent.
    parts : Dataset with labels, which are not used: the contexts, and then the items. No feature is in both.
    links : PairLinks, the observed pairs of these parts.
    strength : what squared scores are multiplied by; see above.
    known : how many contexts and items are constant, the first ones of each side; None: all parts move. If there are
        constant parts, these stand for all contexts and all items: another part has pairs with the constant parts of
        the other side, and with others only if these pairs are observed. So it depends on its own pairs alone.
    """

    def __init__(
        self, Model model, Penalty penalty, Dataset parts not None, links, double strength,
        Parameters holds=None, Parameters pulls=None, known=None
    ):
        cdef real[:, :, ::1] numbers
        cdef real[::1] score
        cdef const int64_t[::1] begin = links.begin
        cdef const int32_t[::1] other = links.other
        cdef const real[::1] share = links.share
        cdef int side
        self.sides = model.sides
        if self.sides is None or model.outputs > 1:
            raise ValueError("the model has no sums over the sides of a pair, or several scores")
        if (
            not (0 < links.contexts < parts.rows == begin.shape[0] - 1)
            or not 0 < begin[parts.rows] == 2 * links.count == other.shape[0] == share.shape[0]
            or not 0 <= np.min(links.other) <= np.max(links.other) < parts.rows
        ):
            raise ValueError("the links are not of these parts")
        Descent.__init__(self, model, Squared(), penalty, parts, holds=holds, pulls=pulls)
        self.contexts, self.strength, self.links = links.contexts, strength, links
        self.first = 0, links.contexts, parts.rows
        for side in range(2):
            self.moved[side] = self.first[side] + (0 if known is None else known[side])
            self.paired[side] = self.first[side + 1] if known is None else self.moved[side]
            if not self.first[side] <= self.moved[side] <= self.first[side + 1]:
                raise ValueError("the constant parts are not of these parts")
        self.known, self.squares = known, [0.0, 0.0]
        if (self.seen(CONTEXTS) & self.seen(ITEMS)).any():
            raise ValueError("contexts and items have a feature in common")
        for b, layout in enumerate(model.layout):
            if not layout.by_feature:
                self.columns[b] = of_all(self.contexts)
        self.width = self.sides.size(parts) + 1
        shape = 2, self.width + 1, self.width
        numbers = np.zeros(shape, dtype=REAL_TYPE)
        score = np.empty(links.count, dtype=REAL_TYPE)
        self.numbers, self.memory_of_pairs, self.fresh = np.zeros(shape), (score, np.asarray(numbers)), [False, False]
        for side in range(2):
            self.curvature[side], self.offset[side] = &numbers[side, 0, 0], &numbers[side, self.width, 0]
        self.observed.begin, self.observed.other, self.observed.share = &begin[0], &other[0], &share[0]
        self.observed.score, self.observed.count, self.observed.within = &score[0], links.count, self.sides.within
        self.observed.beta = self.sides.beta(0)
        self.observed.weighted = self.width - 1 if self.observed.beta != NULL else 0

    @staticmethod
    def pairs_needed(Model model not None, Dataset parts not None, Py_ssize_t count):
        """Return the bytes of so many pairs, of what the sides share, and of temporary products."""
        width = (<Joined?>model.sides).size(parts) + 1
        shared = (6 * (width + 1) * width + 3 * ROWS_AT_ONCE * width) * np.dtype(np.float64).itemsize
        return shared + count * REAL_TYPE.itemsize

    def seen(self, int side):
        """Return (features) whether parts of a side have each feature: 0 for contexts, 1 for items."""
        return self.data.seen(np.arange(self.first[side], self.first[side + 1], dtype=np.int32))

    def ends(self, int block, const int32_t[::1] order not None):
        """Return int64 (n + 1): the number of pairs that all these rows of a block enter before each of them, and at
        last all of them."""
        cdef Columns columns = self.columns[block]
        if columns.same:
            return len(self.links.other) // 2 * np.arange(len(order) + 1, dtype=np.int64)
        pairs = np.concatenate([[0], np.cumsum(np.diff(self.links.begin)[columns.sample])])
        each = np.diff(pairs[columns.indptr])[np.asarray(order)]
        return np.concatenate([[0], np.cumsum(each)]).astype(np.int64)

    def enter(self, int side, bint by_feature):
        """Compute what the parts of a side share, before the features of this side are updated; `by_feature` is False
        before a row that belongs to no feature is updated."""
        self._share(side)
        if self.known is None:
            self.fresh[1 - side] = False
        self.observed.known, self.measured = self.measured and not by_feature, False

    def value(self):
        """Return the value of the term of all pairs that have a part that moves, given the parts as they are now, whose
        observed pairs have been measured."""
        cdef int side
        self.measured = True
        total = 0.0
        for side in range(1 if self.known is None else 2):  # otherwise, the pairs of all contexts are all pairs
            self._share(side)
            end = self.first[side + 1]
            for some in self._parts_now(self.moved[side], end, self.observed.weighted):
                total += np.sum((some @ self.numbers[side, :-1] + 2 * self.numbers[side, -1]) * some)
            total += (end - self.moved[side]) * self.squares[side]
        return float(total) / 2

    # Compute the curvature and the offset of a side, unless they are known.
    def _share(self, int side):
        self.require()
        if self.fresh[side]:
            return
        curvature, offset, squares = self.numbers[side, :-1], self.numbers[side, -1], 0.0
        curvature[...], offset[...] = 0, 0
        for some in self._parts_now(self.first[1 - side], self.paired[1 - side]):
            own = some[:, -1].copy()
            some[:, -1] = 1
            curvature += some.T @ some
            offset += own @ some
            squares += own @ own
        self.numbers[side] *= self.strength
        self.squares[side] = self.strength * squares
        self.memory_of_pairs[1][side] = self.numbers[side]
        self.fresh[side] = True

    # Yield arrays of (B, t) of the parts first:last; with the offset `weighted`, of (beta B, t).
    def _parts_now(self, Py_ssize_t first, Py_ssize_t last, Py_ssize_t weighted=0):
        self.allocate_states()
        formats = ["f8", (REAL_TYPE, self.width - 1)]
        offsets = [self.states.scores, self.states.cache + weighted * <Py_ssize_t>sizeof(real)]
        size = self.states.size
        state = np.dtype({"names": ["t", "B"], "formats": formats, "offsets": offsets, "itemsize": size})
        parts = np.asarray(self.memory).view("u1")[:self.data.rows * size].view(state)
        for begin in range(first, last, ROWS_AT_ONCE):
            some = parts[begin:min(begin + ROWS_AT_ONCE, last)]
            yield np.column_stack([some["B"], some["t"]])


cdef class PairUpdater(CoordinateUpdater):
    """One thread's updates of an AllPairs."""

    def __init__(self, AllPairs descent):
        cdef real[::1] numbers
        CoordinateUpdater.__init__(self, descent)
        self.all_pairs, self.summed_apart = descent, PARTS_AT_ONCE
        descent.observed.parts = descent.states  # which are allocated by now
        descent.observed.parts.reals = descent.width - 1
        self.room_memory = numbers = allocate(PAIRS_AT_ONCE * (2 + descent.width + 2 * LANES))
        self.room = &numbers[0]

    def measure(self, Py_ssize_t start, Py_ssize_t stop):
        """Compute (B, t) of the parts start:stop from the parameters, of constant parts once."""
        cdef Py_ssize_t i
        cdef bint once, of_context
        cdef Sample x
        self.require()
        if not 0 <= start <= stop <= self.descent.data.rows:
            raise IndexError("no such parts")
        once = self.all_pairs.known is not None and all(self.all_pairs.fresh)
        if self.all_pairs.known is None:
            self.all_pairs.fresh[:] = [False, False]
        with nogil:
            for i in range(start, stop):
                of_context = i < self.all_pairs.contexts
                if once and i < self.all_pairs.moved[CONTEXTS if of_context else ITEMS]:
                    continue
                self.descent.data.sample(i, &x)
                scores_in(&self.descent.states, i)[0] = self.all_pairs.sides.part(
                    &x, 0, of_context, cache_in(&self.descent.states, i, 0))

    def measure_pairs(self, Py_ssize_t start, Py_ssize_t stop):
        """Compute the scores of the observed pairs of the contexts among the parts start:stop; returns their share of
        the mean loss."""
        cdef double total
        self.require()
        stop = min(stop, self.all_pairs.contexts)
        if start < 0:
            raise IndexError("no such parts")
        with nogil:
            total = kernels.observed_pairs_loss(&self.all_pairs.observed, start, stop)
        return total

    # r and G of the pairs of a view's parts.
    cdef void bound_loss(self, const ColumnView* v, Py_ssize_t begin, Py_ssize_t end) noexcept nogil:
        cdef Py_ssize_t at = begin
        cdef ColumnView chunk
        cdef int side
        while at < end:
            chunk = self.chunk(v, at)
            side = ITEMS if chunk.sample[0] >= self.all_pairs.contexts else CONTEXTS
            kernels.observed_pairs_bound(
                &chunk, &self.all_pairs.observed, self.current.body, self.room, self.quadratic.r, self.quadratic.G)
            kernels.all_pairs_bound(
                &chunk, &self.all_pairs.observed, self.current.body, self.all_pairs.curvature[side],
                self.all_pairs.offset[side], self.quadratic.r, self.quadratic.G)
            at += chunk.n
        if self.all_pairs.observed.beta != NULL:
            self.weigh(v, self.all_pairs.observed.beta + v.at)

    # r and, on and above the diagonal, G of derivatives times beta, from r and G without beta.
    cdef void weigh(self, const ColumnView* v, const real* beta) noexcept nogil:
        cdef Py_ssize_t f, g, width = self.quadratic.width
        cdef double* r = self.quadratic.r
        cdef double* G = self.quadratic.G
        for f in range(v.lanes):
            r[f] *= beta[f]
            for g in range(f, width):
                G[f * width + g] *= <double>beta[f] * (beta[g] if g < v.lanes else 1)

    # The objective is the quadratic itself, so the step needs no check.
    cdef void update_slice(self, const ColumnView* v) noexcept nogil:
        self.load(v)
        self.bound_loss(v, 0, v.n)
        self.add_holds(v)
        self.solve(v)
        if self.round_step(v):
            self.apply_step(v, 0, v.n)
            self.take_step(v)

    # The step, exactly if there is no l1 penalty: it takes less time than sweeps over the coordinates.
    cdef void solve(self, const ColumnView* v) noexcept nogil:
        if not kernels.exact_step(
                self.quadratic.width, self.quadratic.r, self.quadratic.G, self.quadratic.phi, self.quadratic.strength,
                self.quadratic.step):
            self.quadratic.complete()
            self.quadratic.minimize()

    # The view's parts begin .. end - 1 take the step, and the scores of their pairs, which the next slice needs.
    cdef void apply_step(self, const ColumnView* v, Py_ssize_t begin, Py_ssize_t end) noexcept nogil:
        cdef Py_ssize_t at = begin
        cdef ColumnView chunk
        cdef bint last = v.at + v.lanes + v.weight >= self.current.lanes + (self.current.weight != NULL)
        while at < end:
            chunk = self.chunk(v, at)
            kernels.parts_step(&chunk, &self.all_pairs.observed, self.current.body, self.step, not last)
            at += chunk.n
