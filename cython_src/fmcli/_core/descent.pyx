"""Coordinate descent on the mean loss plus penalty (models of every kind, losses with a bounded second derivative)."""

import numpy as np

from fmcli._core.columns import by_feature, by_row, of_all
from fmcli._core.layout import allocate

from fmcli._core.columns cimport Columns
from fmcli._core.data cimport Dataset
from fmcli._core.loss cimport Loss
from fmcli._core.model cimport Model, Workspace
from fmcli._core.penalty cimport Penalty
from fmcli._core.quadratic cimport Quadratic
from fmcli._core.simd cimport kernels
from fmcli._core.types cimport LANES, Column, Sample, Scratch, Slab, real
from libc.math cimport isfinite
from libc.stdint cimport int32_t

cdef enum:
    CHUNK = 64       # samples whose derivatives are summed in reals before they go to double
    SLICE = 16       # parameters of a row that move together: the work on a sample grows with their square
    SWEEPS = 5       # over the coordinates of a row's problem: few, for the problem is only a bound on the real one
    HALVINGS = 30
    LINE = 64        # bytes
    LABEL = 0        # a record: label, share of the weight, scores, and the model's part
    SHARE, SCORES


cdef class Descent:
    """Cyclic descent: one row of parameters after the other, each through all samples that it enters.

    On a row, the mean loss is bounded by a quadratic with the loss's largest curvature (for the squared loss it is that
    quadratic), which is then minimised with the penalty coordinate by coordinate, SWEEPS times: the derivatives of the
    scores are looked at twice for the whole row, not for each parameter. Where scores are not affine in a row, its
    parameters move one by one; where no bound holds, steps are halved until the objective does not rise.

    Parameters
    ----------
    model : Model, allocated without state and started.
    loss : Loss.
    penalty : Penalty.
    data : Dataset with labels and weights > 0.
    by_gradient : take derivatives from the model's `gradient` even where it has a faster way: the oracle of the latter.
    """

    def __init__(self, Model model, Loss loss, Penalty penalty, Dataset data, by_gradient=False):
        cdef Py_ssize_t i, b, width
        cdef real[::1] flat
        self.model, self.loss, self.penalty, self.data = model, loss, penalty, data
        penalty.mark_groups(model)
        self.workspace = Workspace(model, data.longest)
        self.bounded, self.group = isfinite(loss.smoothness), penalty.group_l1
        self.everyone = of_all(data.rows)
        known = {"features": by_feature(data), "all": self.everyone}
        self.columns = [known.get(layout.touched) or by_row(model, data, b) for b, layout in enumerate(model.layout)]
        width = max([layout.lanes + (LANES if layout.weight else 0) for layout in model.layout])
        self.quadratic = Quadratic(width)
        for b, layout in enumerate(model.layout):
            self.together[b] = layout.affine
            self.sure[b] = self.bounded and (layout.affine or not penalty.group_l1)
            self.fitted[b] = layout.penalty == "l2"
            self.simplex[b] = layout.penalty == "none" and layout.body
            self.body[b], self.weight[b] = penalty.strength(layout, True), penalty.strength(layout, False)
        self.header = (SCORES + model.outputs) * sizeof(double)
        self.cache = 0 if by_gradient else model.cache_size()
        size = self.header + model.outputs * self.cache * sizeof(real)
        self.apart = (size + LINE - 1) // LINE * LINE
        sizes = [data.rows * self.apart // sizeof(real), CHUNK * width, CHUNK, CHUNK, width]
        self.memory = [allocate(size + 1) for size in sizes]
        pointers = []
        for array in self.memory:
            flat = array
            pointers.append(<size_t>&flat[0])
        self.records = <char*><size_t>pointers[0]
        self.q, self.slopes = <real*><size_t>pointers[1], <real*><size_t>pointers[2]
        self.curvatures, self.step = <real*><size_t>pointers[3], <real*><size_t>pointers[4]
        weights = np.ones(data.rows) if data.weight is None else data.weight
        cdef const double[::1] share = weights / weights.sum()
        for i in range(data.rows):
            self.record(i)[LABEL], self.record(i)[SHARE] = data.label_[i], share[i]

    def objective(self):
        """(mean loss, penalty) of the parameters as they are; begins every epoch anew from exact scores."""
        cdef Column everyone
        cdef double total = 0
        cdef Py_ssize_t i
        self.everyone.column(0, &everyone)
        with nogil:
            self.score_again(&everyone)
            for i in range(self.data.rows):
                total += self.record(i)[SHARE] * self.loss.value(self.record(i)[LABEL], self.record(i) + SCORES)
        return total, self.penalty.value(self.model)

    def epoch(self):
        """Visit every row once."""
        cdef Place place
        cdef Column everyone
        cdef Columns columns
        cdef Py_ssize_t rows
        cdef int b, c
        for c in range(self.model.outputs):
            for b in range(self.model.n_blocks):
                columns, rows = self.columns[b], self.model.block[b].rows
                place.block, place.output = b, c
                place.width = self.model.block[b].lanes + (self.model.block[b].weight != NULL)
                place.apart = self.model.block[b].lanes + (LANES if self.model.block[b].weight != NULL else 0)
                place.column.records, place.column.apart = self.records, self.apart
                place.column.cache = self.header + c * self.cache * sizeof(real)
                with nogil:
                    if self.fitted[b]:
                        # Where kernels vanish, what is left of them in caches is rounding, and no step is too long on it.
                        self.everyone.column(0, &everyone)
                        self.score_again(&everyone)
                    for place.row in range(rows):
                        columns.column(place.row, &place.column)
                        if place.column.n:
                            self.visit(&place)

    # Scores and caches of some samples from the parameters.
    cdef void score_again(self, const Column* column) noexcept nogil:
        cdef Py_ssize_t i, n
        cdef int c
        cdef Sample x
        cdef Scratch* s = &self.workspace.scratch
        for n in range(column.n):
            i = column.sample[n]
            self.data.sample(i, &x)
            self.model.score(&x, s)
            for c in range(self.model.outputs):
                self.record(i)[SCORES + c] = s.score[c]
                if self.cache:
                    self.model.fill_cache(&x, s, c, <real*>(self.records + i * self.apart + self.header) + c * self.cache)

    # Minimise over one row.
    cdef void visit(self, Place* place) noexcept nogil:
        cdef Py_ssize_t at = 0, width, f
        cdef int sweep
        cdef bint group = self.model.block[place.block].by_row or self.simplex[place.block]
        cdef Py_ssize_t first = place.output * self.model.block[place.block].rows + place.row
        place.body = self.model.block[place.block].body + first * self.model.block[place.block].body_stride
        place.weight = self.model.block[place.block].weight + first * self.model.block[place.block].weight_stride
        while at < place.width:
            width = place.width if group else self.slice_of(place, at)
            self.begin(place, at, width)
            self.bound(place, at, width)
            if group:
                self.quadratic.move_as_group(self.quadratic.trace(), self.group_of(place.block))
            else:
                for sweep in range(SWEEPS):
                    self.quadratic.sweep()
            self.take(place, at)
            at += width

    # How many of the row's parameters from `at` on move together; a weight goes with what is before it.
    cdef Py_ssize_t slice_of(self, const Place* place, Py_ssize_t at) noexcept nogil:
        if not self.together[place.block]:
            return 1
        return SLICE if place.width - at > SLICE + 1 else place.width - at

    # The problem of some of the row's parameters, where they stand.
    cdef void begin(self, const Place* place, Py_ssize_t at, Py_ssize_t width) noexcept nogil:
        cdef Py_ssize_t f, lanes = self.model.block[place.block].lanes
        cdef const Strength* strength
        self.quadratic.begin(width)
        for f in range(width):
            strength = &self.body[place.block] if at + f < lanes else &self.weight[place.block]
            self.quadratic.l1[f], self.quadratic.l2[f] = strength.l1, strength.l2
            self.quadratic.phi[f] = self.number(place, at + f)[0]

    # Samples at .. of the row's, as many as are worked on at a time; those after them are asked for.
    cdef Column part(self, const Place* place, Py_ssize_t at) noexcept nogil:
        cdef Column some = place.column
        if at + CHUNK < some.n:
            some.sample, some.n = place.column.sample + at + CHUNK, min(<Py_ssize_t>CHUNK, place.column.n - at - CHUNK)
            kernels.prefetch_records(&some)
        some.sample, some.value = place.column.sample + at, place.column.value + at
        some.n = min(<Py_ssize_t>CHUNK, place.column.n - at)
        return some

    # q <- the derivatives of these samples' scores by the row's parameters.
    cdef void derivatives(self, const Place* place, const Column* part) noexcept nogil:
        if self.cache:
            self.model.partials(part, place.block, place.row, place.output, self.q)
        else:
            self.by_gradient(place, part)

    # The same through the model's `score` and `gradient`: right for every model, and slow.
    cdef void by_gradient(self, const Place* place, const Column* part) noexcept nogil:
        cdef Py_ssize_t n, i, f, lanes = self.model.block[place.block].lanes
        cdef int c
        cdef Sample x
        cdef const Slab* slab
        cdef real* q
        cdef Scratch* s = &self.workspace.scratch
        for n in range(part.n):
            self.data.sample(part.sample[n], &x)
            self.model.rows(&x, s)
            self.model.score(&x, s)
            for c in range(self.model.outputs):
                s.slope[c] = c == place.output
            self.model.gradient(&x, s)
            slab = &s.slab[place.output * self.model.n_blocks + place.block]
            i = 0
            while i < slab.n and slab.row[i] != place.row:
                i += 1
            q = self.q + n * place.apart
            for f in range(place.width):
                q[f] = 0
            if i == slab.n:
                continue
            for f in range(lanes):
                q[f] = slab.body[i * lanes + f]
            if place.width > lanes:
                q[lanes] = slab.weight[i]

    # The bound on the mean loss, for the row's parameters from `at` on.
    cdef void bound(self, const Place* place, Py_ssize_t at, Py_ssize_t width) noexcept nogil:
        cdef Py_ssize_t n, begin = 0
        cdef Column part
        cdef double* record
        cdef double* slope = self.workspace.scratch.slope
        while begin < place.column.n:
            part = self.part(place, begin)
            self.derivatives(place, &part)
            for n in range(part.n):
                record = self.record(part.sample[n])
                self.loss.slope(record[LABEL], record + SCORES, slope)
                self.slopes[n] = <real>(record[SHARE] * slope[place.output])
                self.curvatures[n] = <real>(record[SHARE] * self.loss.curvature(record[LABEL], record + SCORES))
            kernels.gram(
                self.q + at, place.apart, part.n, width, self.slopes, self.curvatures, self.quadratic.r,
                self.quadratic.G)
            begin += part.n
        self.quadratic.complete()

    # Take the problem's step; where no bound holds, so much of it that the objective does not rise.
    cdef void take(self, const Place* place, Py_ssize_t at) noexcept nogil:
        cdef int halvings = 0
        cdef double share = 1, before
        if self.sure[place.block]:
            if self.round_step(place, at):
                self.move_scores(place, at)
                self.write(place, at, 1)
            return
        before = self.loss_of(place) + self.quadratic.penalty(0, self.group_of(place.block))
        while halvings <= HALVINGS:
            self.write(place, at, share)
            self.score_again(&place.column)
            if self.loss_of(place) + self.quadratic.penalty(share, self.group_of(place.block)) <= before:
                return
            share, halvings = share / 2, halvings + 1
        self.write(place, at, 0)
        self.score_again(&place.column)

    # The step as the rounded parameters will take it; whether there is one.
    cdef bint round_step(self, const Place* place, Py_ssize_t at) noexcept nogil:
        cdef Py_ssize_t f
        cdef bint moves = False
        cdef double* step = self.quadratic.step
        if self.simplex[place.block]:
            self.write(place, at, 1)
            self.model.settle(&self.workspace.scratch)
        for f in range(self.quadratic.width):
            if self.simplex[place.block]:
                step[f] = self.number(place, at + f)[0] - self.quadratic.phi[f]
            else:
                step[f] = <real>(self.quadratic.phi[f] + step[f]) - self.quadratic.phi[f]
            moves |= step[f] != 0
        return moves

    # The row's parameters from `at` on <- where they stood, and a share of the step.
    cdef void write(self, const Place* place, Py_ssize_t at, double share) noexcept nogil:
        cdef Py_ssize_t f
        for f in range(self.quadratic.width):
            self.number(place, at + f)[0] = <real>(self.quadratic.phi[f] + share * self.quadratic.step[f])

    # Scores and caches of the row's samples after the step, from their derivatives before it.
    cdef void move_scores(self, const Place* place, Py_ssize_t at) noexcept nogil:
        cdef Py_ssize_t n, f, begin = 0
        cdef Column part
        cdef double moved
        cdef const real* q
        for f in range(place.width):
            self.step[f] = self.quadratic.step[f - at] if at <= f < at + self.quadratic.width else 0
        while begin < place.column.n:
            part = self.part(place, begin)
            if place.column.n > CHUNK:  # else they are still here
                self.derivatives(place, &part)
            for n in range(part.n):
                q = self.q + n * place.apart + at
                moved = 0
                for f in range(self.quadratic.width):
                    moved += q[f] * self.quadratic.step[f]
                self.record(part.sample[n])[SCORES + place.output] += moved
            if self.cache:
                self.model.moved(&part, place.block, place.row, place.output, self.step)
            begin += part.n

    # What the row's samples lose.
    cdef double loss_of(self, const Place* place) noexcept nogil:
        cdef Py_ssize_t n
        cdef double total = 0
        cdef double* record
        for n in range(place.column.n):
            record = self.record(place.column.sample[n])
            total += record[SHARE] * self.loss.value(record[LABEL], record + SCORES)
        return total

    cdef inline double group_of(self, int b) noexcept nogil:
        return self.group if self.model.block[b].by_row else 0

    # The f-th real of a row: of its body, or its weight.
    cdef inline real* number(self, const Place* place, Py_ssize_t f) noexcept nogil:
        cdef Py_ssize_t lanes = self.model.block[place.block].lanes
        return place.body + f if f < lanes else place.weight
