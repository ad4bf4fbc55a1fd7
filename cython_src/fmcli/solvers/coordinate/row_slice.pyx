"""Some parameters of the row that coordinate descent updates, and what they do to the scores of its samples."""

import numpy as np

from fmcli.models.layout import allocate, padded

from fmcli.base.types cimport LANES, ColumnView, Sample, Scratch, SparseGradient, real
from fmcli.solvers.coordinate.kernels cimport kernels
from fmcli.models.workspace cimport workspace_for
from fmcli.solvers.coordinate.descent cimport IN_VECTOR, IN_ROW, SCORES, Descent
from fmcli.solvers.coordinate.quadratic_bound cimport QuadraticBound
from libc.stdint cimport int32_t

cdef enum:
    SLICE = 16  # parameters of a row that move together: the work on a sample grows with their square
    KEPT_REALS = 1 << 14  # of derivatives, which stay in a core's cache


cdef class RowSlice:
    """A slice of a row of a Descent. It visits the samples that the row enters in chunks.

    Derivatives of scores and their changes come from the functions of a ColumnModel, which read its caches; for other
    models, from `gradient` and `score`.
    """

    def __init__(self, Descent descent):
        cdef Py_ssize_t longest, most, n
        cdef double[::1] change
        cdef real[::1] numbers
        descent.require()
        descent.allocate_states()
        self.descent, self.model, self.by_column = descent, descent.model, descent.by_column
        self.workspace = workspace_for(descent.model, descent.data)
        longest = max([layout.lanes for layout in descent.model.layout]) + 1
        # Rows on the simplex move as a whole; their curvatures are needed where they are drawn.
        whole = max([layout.lanes for layout in descent.model.layout if layout.constraint == "simplex"], default=0)
        self.quadratic = QuadraticBound(longest, max(whole, min(longest, SLICE + 1)))
        most = padded(longest) + LANES
        self.kept = max(CHUNK, KEPT_REALS // most // CHUNK * CHUNK)
        numbers, change = allocate((self.kept + CHUNK + 1) * most), np.zeros(CHUNK)
        self.memory = numbers, change
        self.q = self.kept_q = &numbers[0]
        self.second, self.step = &numbers[self.kept * most], &numbers[(self.kept + CHUNK) * most]
        self.change = &change[0]
        for n in range(CHUNK):
            self.ones[n] = 1

    # ---- The row and its slices. ----

    # Take the row of a view, before its first slice.
    cdef void select_row(self, ColumnView* v) noexcept nogil:
        cdef Py_ssize_t row = v.output * self.model.block[v.block].rows + v.row
        cdef CurrentRow* current = &self.current
        current.rule = &self.descent.rule[v.block]
        current.lanes = self.model.block[v.block].lanes
        current.body = self.model.block[v.block].body + row * self.model.block[v.block].body_stride
        current.weight = self.model.block[v.block].weight
        current.with_bias = current.rule.of_kernels and self.model.has_bias
        if current.with_bias:
            current.weight = self.model.block[0].weight + v.output * self.model.block[0].weight_stride
        elif current.weight != NULL:
            current.weight += row * self.model.block[v.block].weight_stride
        if self.descent.holds is not None:
            current.hold_body, current.hold_weight = self.same_row(self.descent.holds, v)
            current.pull_body, current.pull_weight = self.same_row(self.descent.pulls, v)
        v.at = v.lanes = v.weight = 0

    # The body and the weight of the current row in a model with the same rows.
    cdef (const real*, const real*) same_row(self, Parameters other, const ColumnView* v) noexcept nogil:
        cdef Py_ssize_t row = v.output * other.block[v.block].rows + v.row
        cdef const real* body = other.block[v.block].body + row * other.block[v.block].body_stride
        cdef const real* weight = NULL
        if self.current.with_bias:
            weight = other.block[0].weight + v.output * other.block[0].weight_stride
        elif other.block[v.block].weight != NULL:
            weight = other.block[v.block].weight + row * other.block[v.block].weight_stride
        return body, weight

    # Move the view on to the row's next slice; whether there is one.
    cdef bint next_slice(self, ColumnView* v) noexcept nogil:
        cdef Py_ssize_t at = v.at + v.lanes + v.weight, end
        if at >= self.current.lanes + (self.current.weight != NULL):
            return False
        end = at + self.slice_width(v.block, at)
        v.at = at
        v.weight = end > self.current.lanes
        v.lanes = end - at - v.weight
        v.apart = v.lanes + (LANES if v.weight else 0)
        return True

    # How many of the row's numbers from `at` on move together; the weight goes with the factors before it.
    cdef Py_ssize_t slice_width(self, int block, Py_ssize_t at) noexcept nogil:
        cdef Py_ssize_t lanes = self.current.lanes, end = lanes
        cdef int p
        if self.current.rule.together:
            return lanes + (self.current.weight != NULL)
        if self.current.rule.affine == IN_VECTOR:
            for p in range(self.model.n_vectors[block]):
                if self.model.vectors[block][p].offset > at:
                    end = self.model.vectors[block][p].offset
                    break
        if end - at > SLICE:
            return SLICE
        return end - at + (end == lanes and self.current.weight != NULL)

    # Take the row, the slice and the step of another thread.
    cdef void follow(self, RowSlice other) noexcept nogil:
        cdef Py_ssize_t f
        self.current = other.current
        self.quadratic.width, self.quadratic.together = other.quadratic.width, other.quadratic.together
        for f in range(other.quadratic.width):
            self.step[f] = other.step[f]

    # A chunk of the row's samples, from `at` on, and the place of their derivatives; the states of the next chunk are
    # prefetched.
    cdef ColumnView chunk(self, const ColumnView* v, Py_ssize_t at) noexcept nogil:
        cdef ColumnView some = v[0]
        cdef Py_ssize_t n
        if at + CHUNK < v.n and v.sample != NULL and self.by_column is not None:
            some.sample, some.n = v.sample + at + CHUNK, min(<Py_ssize_t>CHUNK, v.n - at - CHUNK)
            self.by_column.prefetch_states(&some)
        self.q = self.kept_q + (at * v.apart if v.n <= self.kept else 0)
        some.n = min(<Py_ssize_t>CHUNK, v.n - at)
        if v.sample != NULL:
            some.sample, some.value = v.sample + at, v.value + at
            return some
        for n in range(some.n):  # of all samples, whose states lie in order
            self.consecutive[n] = <int32_t>(at + n)
        some.sample, some.value = self.consecutive, self.ones
        return some

    # The f-th parameter of the slice.
    cdef inline real* number(self, const ColumnView* v, Py_ssize_t f) noexcept nogil:
        return self.current.body + v.at + f if f < v.lanes else self.current.weight

    # What holds it.
    cdef inline double hold(self, const ColumnView* v, Py_ssize_t f) noexcept nogil:
        return self.current.hold_body[v.at + f] if f < v.lanes else self.current.hold_weight[0]

    cdef inline double pull(self, const ColumnView* v, Py_ssize_t f) noexcept nogil:
        return self.current.pull_body[v.at + f] if f < v.lanes else self.current.pull_weight[0]

    # The slice's parameters <- where they stood, or where the step leads.
    cdef void put(self, const ColumnView* v, bint stepped) noexcept nogil:
        cdef Py_ssize_t f
        for f in range(self.quadratic.width):
            self.number(v, f)[0] = <real>(self.quadratic.phi[f] + (self.quadratic.step[f] if stepped else 0))

    # Whether scores are affine in all of the slice's parameters jointly.
    cdef bint affine(self) noexcept nogil:
        return self.current.rule.affine == IN_ROW or (
            self.current.rule.affine == IN_VECTOR and not self.current.rule.together)

    # ---- What the parameters do to scores. ----

    # q <- the derivatives of a chunk's scores by the slice.
    cdef void derivatives(self, const ColumnView* chunk) noexcept nogil:
        cdef Py_ssize_t n
        if self.by_column is not None:
            self.by_column.score_gradient(chunk, self.q)
        else:
            self.derivatives_by_gradient(chunk)
        if chunk.weight and self.current.with_bias:
            for n in range(chunk.n):
                self.q[n * chunk.apart + chunk.lanes] = 1

    # Write scores of samples start .. stop - 1 to their states, by the model's `score`.
    cdef void fill_scores(self, Py_ssize_t start, Py_ssize_t stop) noexcept nogil:
        cdef Py_ssize_t i
        cdef int c
        cdef Sample x
        for i in range(start, stop):
            self.descent.data.sample(i, &x)
            self.model.score(&x, &self.workspace.scratch)
            for c in range(self.model.outputs):
                self.descent.sample_state(i)[SCORES + c] = self.workspace.scratch.score[c]

    # Derivatives by the model's `score` and `gradient`: right for every model, and slow.
    cdef void derivatives_by_gradient(self, const ColumnView* chunk) noexcept nogil:
        cdef Py_ssize_t n, i, f, lanes = self.current.lanes
        cdef int c
        cdef Sample x
        cdef const SparseGradient* gradient
        cdef real* q
        cdef Scratch* s = &self.workspace.scratch
        for n in range(chunk.n):
            self.descent.data.sample(chunk.sample[n], &x)
            self.model.rows(&x, s)
            self.model.score(&x, s)
            for c in range(self.model.outputs):
                s.slope[c] = c == chunk.output
            self.model.gradient(&x, s)
            gradient = &s.gradients[chunk.output * self.model.n_blocks + chunk.block]
            i = 0
            while gradient.row[i] != chunk.row:
                i += 1
            q = self.q + n * chunk.apart
            for f in range(chunk.lanes):
                q[f] = gradient.body[i * lanes + chunk.at + f]
            if chunk.weight:
                q[chunk.lanes] = gradient.weight[i]

    # change <- the changes of a chunk's scores by the step.
    cdef void score_changes(self, const ColumnView* v, const ColumnView* chunk) noexcept nogil:
        if self.affine():
            if v.n > self.kept:
                self.derivatives(chunk)
            kernels.affine_score_changes(
                self.q, chunk.apart, chunk.n, self.quadratic.width, self.step, self.change)
        elif self.by_column is None or not self.by_column.score_changes(chunk, self.step, self.change):
            self.changes_by_scoring(v, chunk)

    # Changes of scores by the model's `score`, before and after the step.
    cdef void changes_by_scoring(self, const ColumnView* v, const ColumnView* chunk) noexcept nogil:
        cdef Py_ssize_t n
        cdef Sample x
        self.put(v, True)
        for n in range(chunk.n):
            self.descent.data.sample(chunk.sample[n], &x)
            self.model.score(&x, &self.workspace.scratch)
            self.change[n] = (
                self.workspace.scratch.score[v.output] - self.descent.sample_state(chunk.sample[n])[SCORES + v.output])
        self.put(v, False)
