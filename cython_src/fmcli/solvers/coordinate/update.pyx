"""Coordinate descent on the mean loss plus penalty: one thread's updates of rows of parameters."""

import numpy as np

from fmcli.models.layout import allocate, padded

from fmcli.base.types cimport LANES, ColumnView, Sample, Scratch, SparseGradient, real
from fmcli.kernels.simd cimport PenaltyStrength, kernels
from fmcli.models.model cimport workspace_for
from fmcli.solvers.coordinate.columns cimport Columns
from fmcli.solvers.coordinate.descent cimport IN_ONE, IN_PART, IN_ROW, LABEL, SCORES, SHARE, Descent
from fmcli.solvers.coordinate.quadratic_bound cimport QuadraticBound
from libc.math cimport fabs
from libc.stdint cimport int64_t
from libc.string cimport memset

cdef enum:
    CHUNK = 64     # samples whose derivatives are summed in reals before they go to double
    SLICE = 16     # parameters of a row that move together: the work on a sample grows with their square
    SWEEPS = 5     # over the coordinates of a slice's problem: few, for the problem is only a bound on the real one
    HALVINGS = 30  # of steps, or doublings of the curvature, before a row is left as it is


cdef class CoordinateUpdater:
    """Room for one thread to update rows of a Descent. Several may work at once on rows without common samples."""

    def __init__(self, Descent descent):
        cdef Py_ssize_t longest, most
        cdef double[::1] change
        cdef real[::1] numbers
        self.descent, self.model = descent, descent.model
        descent.require()
        self.workspace = workspace_for(descent.model, descent.data)
        layouts = descent.model.layout
        longest = max([layout.lanes for layout in layouts]) + 1
        self.quadratic = QuadraticBound(longest, min(longest, SLICE + 1))
        most = padded(longest) + LANES
        numbers, change = allocate((2 * CHUNK + 1) * most + 2 * CHUNK), np.zeros(CHUNK)
        self.memory = numbers, change
        self.q, self.second = &numbers[0], &numbers[CHUNK * most]
        self.step = &numbers[2 * CHUNK * most]
        self.slopes, self.curvatures = self.step + most, self.step + most + CHUNK
        self.change = &change[0]

    def measure(self, Py_ssize_t start, Py_ssize_t stop):
        """Scores and caches of samples start:stop from the parameters; returns their part of the mean loss."""
        cdef Py_ssize_t i
        cdef double total = 0
        self.require()
        if not 0 <= start <= stop <= self.descent.data.rows:
            raise IndexError("no such samples")
        with nogil:
            for i in range(start, stop):
                total += self.measure_sample(i)
        return total

    # ValueError unless there is something to visit.
    cdef require(self):
        if self.descent is None:
            raise ValueError("there is nothing to update")
        self.descent.require()

    cdef double measure_sample(self, Py_ssize_t i) noexcept nogil:
        cdef Sample x
        cdef int c
        cdef double* sample_state = self.descent.sample_state(i)
        cdef Scratch* s = &self.workspace.scratch
        self.descent.data.sample(i, &x)
        self.model.score(&x, s)
        for c in range(self.model.outputs):
            sample_state[SCORES + c] = s.score[c]
            if self.descent.fast:
                self.model.fill_cache(&x, s, c, self.descent.cached(i, c))
        return sample_state[SHARE] * self.descent.loss.value(sample_state[LABEL], sample_state + SCORES)

    def run(self, int block, int output, const int64_t[::1] order, Py_ssize_t start, Py_ssize_t stop):
        """Minimise over the rows order[start:stop] of a block and class, one after the other."""
        cdef ColumnView v
        cdef Py_ssize_t i
        cdef Columns columns
        cdef bint outside
        self.require()
        outside = not (0 <= block < self.model.n_blocks and 0 <= output < self.model.outputs)
        outside |= not 0 <= start <= stop <= order.shape[0]
        if not outside:
            for i in range(start, stop):
                outside |= not 0 <= order[i] < self.model.block[block].rows
        if outside:
            raise IndexError("no such rows")
        columns = self.descent.columns[block]
        v.block, v.output = block, output
        v.sample_states, v.sample_state_size = self.descent.sample_states, self.descent.sample_state_size
        v.cache = self.descent.header + output * self.descent.cache * sizeof(real)
        with nogil:
            for i in range(start, stop):
                v.row = order[i]
                columns.view(v.row, &v)
                if v.n:
                    self.update_row(&v)

    # Minimise over one row, slice after slice.
    cdef void update_row(self, ColumnView* v) noexcept nogil:
        cdef Py_ssize_t at = 0, width
        cdef Py_ssize_t first = v.output * self.model.block[v.block].rows + v.row
        cdef CurrentRow* current = &self.current
        current.rule = &self.descent.rule[v.block]
        current.block, current.output, current.lanes = v.block, v.output, self.model.block[v.block].lanes
        current.body = self.model.block[v.block].body + first * self.model.block[v.block].body_stride
        current.weight = self.model.block[v.block].weight
        current.with_bias = current.rule.of_kernels and self.model.has_bias
        width = current.lanes
        if current.with_bias:
            current.weight = self.model.block[0].weight + v.output * self.model.block[0].weight_stride
        elif current.weight != NULL:
            current.weight += first * self.model.block[v.block].weight_stride
        if current.weight != NULL:
            width += 1
        while at < width:
            v.at = at
            at += self.together(at)
            v.weight = at > current.lanes
            v.lanes = at - v.at - v.weight
            v.apart = v.lanes + (LANES if v.weight else 0)
            self.begin(v)
            self.bound(v)
            self.take(v)

    # How many of the row's numbers from `at` on move together; the weight goes with what is before it.
    cdef Py_ssize_t together(self, Py_ssize_t at) noexcept nogil:
        cdef Py_ssize_t lanes = self.current.lanes, end = lanes, begin = 0
        cdef int p
        if self.current.rule.whole:
            return lanes + (self.current.weight != NULL)
        if self.current.rule.affine == IN_PART:
            for p in range(self.model.n_parts[self.current.block]):
                begin = self.model.parts[self.current.block][p].offset
                if begin > at:
                    end = begin
                    break
        if end - at > SLICE:
            return SLICE
        return end - at + (end == lanes and self.current.weight != NULL)

    # The problem of the slice's parameters, where they stand.
    cdef void begin(self, const ColumnView* v) noexcept nogil:
        cdef Py_ssize_t f
        cdef const PenaltyStrength* strength
        self.quadratic.begin(v.lanes + v.weight, self.current.rule.group, self.current.rule.group_penalty)
        for f in range(self.quadratic.width):
            strength = &self.current.rule.body if f < v.lanes else &self.current.rule.weight
            self.quadratic.strength[f].l1, self.quadratic.strength[f].l2 = strength.l1, strength.l2
            self.quadratic.phi[f] = self.number(v, f)[0]
        if self.descent.nuclear > 0:
            self.by_nuclear_norm(v)

    # sum_s |beta_s| |p_s|^2, as a function of beta or of one feature's factors.
    cdef void by_nuclear_norm(self, const ColumnView* v) noexcept nogil:
        cdef Py_ssize_t f
        cdef int beta = self.descent.beta
        cdef const real* weights = self.model.block[beta].body + v.output * self.model.block[beta].body_stride
        for f in range(v.lanes):
            if v.block == beta:
                if v.at + f < self.descent.norms.shape[1]:
                    self.quadratic.strength[f].l1 = self.descent.nuclear * self.descent.norms[v.output, v.at + f]
            else:
                self.quadratic.strength[f].l2 = 2 * self.descent.nuclear * fabs(weights[v.at + f])

    # Samples at .. of the row's, as many as are worked on at a time; those after them are asked for.
    cdef ColumnView part(self, const ColumnView* v, Py_ssize_t at) noexcept nogil:
        cdef ColumnView some = v[0]
        if at + CHUNK < v.n:
            some.sample, some.n = v.sample + at + CHUNK, min(<Py_ssize_t>CHUNK, v.n - at - CHUNK)
            kernels.prefetch_sample_states(&some)
        some.sample, some.value = v.sample + at, v.value + at
        some.n = min(<Py_ssize_t>CHUNK, v.n - at)
        return some

    # q <- the derivatives of these samples' scores by the slice.
    cdef void derivatives(self, const ColumnView* part) noexcept nogil:
        cdef Py_ssize_t n
        if self.descent.fast:
            self.model.score_gradient(part, self.q)
        else:
            self.by_gradient(part)
        if part.weight and self.current.with_bias:
            for n in range(part.n):
                self.q[n * part.apart + part.lanes] = 1

    # The same through the model's `score` and `gradient`: right for every model, and slow.
    cdef void by_gradient(self, const ColumnView* part) noexcept nogil:
        cdef Py_ssize_t n, i, f, lanes = self.current.lanes
        cdef int c
        cdef Sample x
        cdef const SparseGradient* gradient
        cdef real* q
        cdef Scratch* s = &self.workspace.scratch
        for n in range(part.n):
            self.descent.data.sample(part.sample[n], &x)
            self.model.rows(&x, s)
            self.model.score(&x, s)
            for c in range(self.model.outputs):
                s.slope[c] = c == part.output
            self.model.gradient(&x, s)
            gradient = &s.gradients[part.output * self.model.n_blocks + part.block]
            i = 0
            while gradient.row[i] != part.row:
                i += 1
            q = self.q + n * part.apart
            for f in range(part.lanes):
                q[f] = gradient.body[i * lanes + part.at + f]
            if part.weight:
                q[part.lanes] = gradient.weight[i]

    # The bound on the mean loss; of a row that moves as one, the slopes and one bound on all curvatures.
    cdef void bound(self, const ColumnView* v) noexcept nogil:
        cdef Py_ssize_t n, begin = 0
        cdef bint curved
        cdef ColumnView part
        cdef double curvature
        cdef double* sample_state
        cdef double* slope = self.workspace.scratch.slope
        self.curvature = 0
        if not self.current.rule.whole:
            memset(self.quadratic.G, 0, self.quadratic.width * self.quadratic.width * sizeof(double))
        while begin < v.n:
            part = self.part(v, begin)
            self.derivatives(&part)
            for n in range(part.n):
                sample_state = self.descent.sample_state(part.sample[n])
                self.descent.loss.slope(sample_state[LABEL], sample_state + SCORES, slope)
                self.slopes[n] = <real>(sample_state[SHARE] * slope[v.output])
                curvature = self.descent.curvature
                if not self.descent.bounded:
                    curvature = self.descent.loss.curvature(sample_state[LABEL], sample_state + SCORES)
                self.curvatures[n] = <real>(sample_state[SHARE] * curvature)
            if self.current.rule.whole:
                self.curvature += kernels.squares(
                    self.q, v.apart, part.n, self.quadratic.width, self.slopes, self.curvatures, self.quadratic.r)
            else:
                kernels.gram(
                    self.q, v.apart, part.n, self.quadratic.width, self.slopes, self.curvatures, self.quadratic.r,
                    self.quadratic.G)
                curved = self.current.rule.affine == IN_ONE and self.descent.fast
                if curved and self.model.score_curvature(&part, self.second):
                    kernels.squares(
                        self.second, v.apart, part.n, self.quadratic.width, self.slopes, self.curvatures,
                        self.quadratic.extra_curvature)
            begin += part.n
        if not self.current.rule.whole:
            self.quadratic.complete()

    # Take the problem's step; where its bound may not hold, so much of it that the objective does not rise.
    cdef void take(self, const ColumnView* v) noexcept nogil:
        cdef int tries
        cdef double before = 0, h = self.curvature
        cdef bint whole = self.current.rule.whole
        cdef bint sure = self.descent.bounded and self.joint(v)
        if not sure:
            before = self.loss_after(v, False) + self.quadratic.penalty()
        if not whole:
            self.minimise(v)
        for tries in range(HALVINGS + 1):
            if whole:
                self.quadratic.move_together(h)
                h *= 2
            elif tries:
                self.quadratic.halve()
            if not self.round_step(v):
                return
            if sure or self.loss_after(v, True) + self.quadratic.penalty() <= before:
                self.move(v)
                return

    # The step to about the problem's minimum. Weights of kernels that hardly vary go with the bias, so that it would
    # take them many rounds of single steps: they move as if it followed each of them.
    cdef void minimise(self, const ColumnView* v) noexcept nogil:
        cdef bint follows = v.weight and self.current.with_bias
        cdef int _
        if follows:
            self.quadratic.eliminate_last()
        for _ in range(SWEEPS):
            self.quadratic.sweep(self.quadratic.width - follows)
        if follows:
            self.quadratic.move_one(self.quadratic.width - 1)

    # Are scores affine in all that moves?
    cdef bint joint(self, const ColumnView* v) noexcept nogil:
        return self.current.rule.affine == IN_ROW or (
            self.current.rule.affine == IN_PART and not self.current.rule.whole)

    # The step as the parameters, rounded, will take it; whether there is one.
    cdef bint round_step(self, const ColumnView* v) noexcept nogil:
        cdef Py_ssize_t f
        cdef bint moves = False
        cdef double* step = self.quadratic.step
        cdef double* phi = self.quadratic.phi
        if self.current.rule.simplex:
            self.put(v, True)
            self.model.constrain()
            for f in range(self.quadratic.width):
                step[f] = self.number(v, f)[0] - phi[f]
            self.put(v, False)
        for f in range(self.quadratic.width):
            step[f] = <real>(phi[f] + step[f]) - phi[f]
            self.step[f] = <real>step[f]
            moves |= step[f] != 0
        return moves

    # The slice's parameters <- where they stood, or where the step leads.
    cdef void put(self, const ColumnView* v, bint stepped) noexcept nogil:
        cdef Py_ssize_t f
        for f in range(self.quadratic.width):
            self.number(v, f)[0] = <real>(self.quadratic.phi[f] + (self.quadratic.step[f] if stepped else 0))

    # change <- what the step will change in these samples' scores. The derivatives of few samples are still there.
    cdef void score_changes(self, const ColumnView* v, const ColumnView* part) noexcept nogil:
        if self.joint(v):
            if v.n > CHUNK:
                self.derivatives(part)
            kernels.affine_score_changes(
                self.q, part.apart, part.n, self.quadratic.width, self.step, self.change)
        elif not (self.descent.fast and self.model.score_changes(part, self.step, self.change)):
            self.changes_by_scoring(v, part)

    cdef void changes_by_scoring(self, const ColumnView* v, const ColumnView* part) noexcept nogil:
        cdef Py_ssize_t n
        cdef Sample x
        self.put(v, True)
        for n in range(part.n):
            self.descent.data.sample(part.sample[n], &x)
            self.model.score(&x, &self.workspace.scratch)
            self.change[n] = (
                self.workspace.scratch.score[v.output] - self.descent.sample_state(part.sample[n])[SCORES + v.output])
        self.put(v, False)

    # Parameters, scores and caches take the step.
    cdef void move(self, const ColumnView* v) noexcept nogil:
        cdef Py_ssize_t n, begin = 0
        cdef ColumnView part
        while begin < v.n:
            part = self.part(v, begin)
            self.score_changes(v, &part)
            for n in range(part.n):
                self.descent.sample_state(part.sample[n])[SCORES + v.output] += self.change[n]
            if self.descent.fast:
                self.model.update_cache(&part, self.step)
            begin += part.n
        self.put(v, True)

    # What the row's samples lose, now or after the step.
    cdef double loss_after(self, const ColumnView* v, bint stepped) noexcept nogil:
        cdef Py_ssize_t n, begin = 0
        cdef ColumnView part
        cdef double total = 0, kept
        cdef double* sample_state
        while begin < v.n:
            part = self.part(v, begin)
            if stepped:
                self.score_changes(v, &part)
            for n in range(part.n):
                sample_state = self.descent.sample_state(part.sample[n])
                kept = sample_state[SCORES + v.output]
                if stepped:
                    sample_state[SCORES + v.output] += self.change[n]
                total += sample_state[SHARE] * self.descent.loss.value(sample_state[LABEL], sample_state + SCORES)
                sample_state[SCORES + v.output] = kept
            begin += part.n
        return total

    # The f-th number of the slice.
    cdef inline real* number(self, const ColumnView* v, Py_ssize_t f) noexcept nogil:
        return self.current.body + v.at + f if f < v.lanes else self.current.weight
