"""Coordinate descent on the mean loss plus penalty, one row of parameters after the other."""

import numpy as np

from fmcli._core.layout import allocate, padded

from fmcli._core.columns cimport Columns
from fmcli._core.data cimport Dataset
from fmcli._core.loss cimport Loss
from fmcli._core.model cimport MAX_BLOCKS, Model, Workspace
from fmcli._core.penalty cimport Penalty
from fmcli._core.simd cimport Strength, kernels
from fmcli._core.types cimport LANES, Column, Sample, Scratch, Slab, real
from libc.math cimport fabs, sqrt
from libc.stdint cimport int32_t
from libc.string cimport memset

cdef enum:
    CHUNK = 64  # samples whose derivatives are summed in reals before they go to double
    AHEAD = 1   # chunks

cdef class Descent:
    """See module."""

    cdef Model model
    cdef Loss loss
    cdef Penalty penalty
    cdef Dataset data
    cdef Columns columns
    cdef Workspace workspace
    cdef bint fast
    cdef double kappa
    cdef int sweeps
    cdef Py_ssize_t width, apart, cache
    cdef char* records
    cdef object memory
    cdef real[::1] q, g, s, delta
    cdef double[::1] r, G, move
    cdef int32_t[::1] everyone
    cdef float[::1] ones
    cdef Strength body[MAX_BLOCKS]
    cdef Strength weight[MAX_BLOCKS]

    def __init__(self, Model model, Loss loss, Penalty penalty, Dataset data, int sweeps=1):
        cdef Py_ssize_t b, i
        cdef real[::1] flat
        self.model, self.loss, self.penalty, self.data = model, loss, penalty, data
        self.columns = Columns(data)
        self.workspace = Workspace(model, data.longest)
        self.kappa = loss.smoothness
        self.sweeps = sweeps
        self.width = max([padded(layout.lanes) + (LANES if layout.weight else 0) for layout in model.layout])
        self.cache = (2 + model.outputs) * sizeof(double)
        size = self.cache + model.cache_size() * sizeof(real)
        self.fast = model.cache_size() > 0
        self.apart = (size + 63) // 64 * 64 if size > 32 else 32
        self.memory = allocate(data.rows * self.apart // sizeof(real) + 16)
        flat = self.memory
        self.records = <char*>&flat[0]
        self.q = allocate(CHUNK * self.width)
        self.g, self.s = allocate(CHUNK), allocate(CHUNK)
        self.delta = allocate(self.width)
        self.r, self.G = np.zeros(self.width), np.zeros(self.width * self.width)
        self.move = np.zeros(self.width)
        self.everyone = np.arange(data.rows, dtype=np.int32)
        self.ones = np.ones(data.rows, dtype=np.float32)
        for b, layout in enumerate(model.layout):
            self.body[b] = penalty.strength(layout, True)
            self.weight[b] = penalty.strength(layout, False)
        weights = np.ones(data.rows) if data.weight is None else data.weight
        weights = weights / weights.sum()
        cdef const double[::1] share = weights
        for i in range(data.rows):
            (<double*>(self.records + i * self.apart))[0] = data.label_[i]
            (<double*>(self.records + i * self.apart))[1] = share[i]

    def objective(self):
        """Mean loss and penalty, exact; scores and caches are made anew."""
        cdef double total = 0
        cdef Py_ssize_t i
        cdef int c
        cdef Sample x
        cdef Scratch* s = &self.workspace.scratch
        cdef double* record
        with nogil:
            for i in range(self.data.rows):
                record = <double*>(self.records + i * self.apart)
                self.data.sample(i, &x)
                self.model.score(&x, s)
                for c in range(self.model.outputs):
                    record[2 + c] = s.score[c]
                total += record[1] * self.loss.value(record[0], s.score)
                if self.fast:
                    self.model.fill_cache(&x, s, 0, <real*>(self.records + i * self.apart + self.cache))
        return total, self.penalty.value(self.model)

    def epoch(self):
        cdef int b, c
        cdef Py_ssize_t j
        cdef Column column
        column.records, column.apart, column.cache = self.records, self.apart, self.cache
        with nogil:
            for c in range(self.model.outputs):
                for b in range(self.model.n_blocks):
                    if self.model.by_feature[b]:
                        for j in range(self.model.features):
                            column.n = self.columns.indptr_[j + 1] - self.columns.indptr_[j]
                            if column.n == 0:
                                continue
                            column.sample = self.columns.sample_ + self.columns.indptr_[j]
                            column.value = self.columns.values(j)
                            self.row(b, j, c, &column)
                    else:
                        column.n, column.sample, column.value = self.data.rows, &self.everyone[0], &self.ones[0]
                        for j in range(self.model.block[b].rows):
                            self.row(b, j, c, &column)

    cdef void partials(self, const Column* column, int b, Py_ssize_t row, int c) noexcept nogil:
        if self.fast:
            self.model.partials(column, b, row, c, &self.q[0])

    cdef void row(self, int b, Py_ssize_t row, int c, const Column* column) noexcept nogil:
        cdef Py_ssize_t lanes = self.model.block[b].lanes
        cdef bint has_weight = self.model.block[b].weight != NULL
        cdef Py_ssize_t width = lanes + (LANES if has_weight else 0)
        cdef Py_ssize_t at, i, f, h, sweep
        cdef Column chunk = column[0]
        cdef double* record
        cdef double[64] slope
        cdef real* body = self.model.block[b].body + (c * self.model.block[b].rows + row) * self.model.block[b].body_stride
        cdef real* weight = self.model.block[b].weight + (c * self.model.block[b].rows + row) * self.model.block[b].weight_stride
        cdef double phi, gradient, curvature, moved, l1, l2, new
        cdef bint any_move = False
        memset(&self.r[0], 0, width * sizeof(double))
        memset(&self.G[0], 0, width * width * sizeof(double))
        at = 0
        while at < column.n:
            if at + CHUNK < column.n:
                chunk.sample, chunk.n = column.sample + at + CHUNK, min(<Py_ssize_t>CHUNK, column.n - at - CHUNK)
                kernels.prefetch_records(&chunk)
            chunk.sample, chunk.value, chunk.n = column.sample + at, column.value + at, min(<Py_ssize_t>CHUNK, column.n - at)
            self.partials(&chunk, b, row, c)
            for i in range(chunk.n):
                record = <double*>(self.records + chunk.sample[i] * self.apart)
                self.loss.slope(record[0], record + 2, &slope[0])
                self.g[i] = <real>(record[1] * slope[c])
                self.s[i] = <real>(record[1] * self.kappa)
            kernels.gram(&self.q[0], chunk.n, width, &self.g[0], &self.s[0], &self.r[0], &self.G[0])
            at += CHUNK
        for f in range(width):
            self.move[f] = 0
            for h in range(f):
                self.G[f * width + h] = self.G[h * width + f]
        for sweep in range(self.sweeps):
            for f in range(width):
                if self.G[f * width + f] <= 0:
                    continue
                if f < lanes:
                    phi, l1, l2 = body[f], self.body[b].l1, self.body[b].l2
                else:
                    phi, l1, l2 = weight[0], self.weight[b].l1, self.weight[b].l2
                phi += self.move[f]
                gradient = self.r[f] + l2 * phi
                for h in range(width):
                    gradient += self.G[f * width + h] * self.move[h]
                curvature = self.G[f * width + f] + l2
                new = phi - gradient / curvature
                new = max(new - l1 / curvature, 0.0) + min(new + l1 / curvature, 0.0)
                self.move[f] += new - phi
        for f in range(width):
            phi = body[f] if f < lanes else weight[0]
            if f > lanes:
                self.delta[f] = 0
                self.move[f] = 0
                continue
            new = <real>(phi + self.move[f])
            self.delta[f] = <real>(new - phi)
            self.move[f] = self.delta[f]
            any_move |= self.move[f] != 0
        if not any_move:
            return
        at = 0
        while at < column.n:
            if at + CHUNK < column.n:
                chunk.sample, chunk.n = column.sample + at + CHUNK, min(<Py_ssize_t>CHUNK, column.n - at - CHUNK)
                kernels.prefetch_records(&chunk)
            chunk.sample, chunk.value, chunk.n = column.sample + at, column.value + at, min(<Py_ssize_t>CHUNK, column.n - at)
            self.partials(&chunk, b, row, c)
            for i in range(chunk.n):
                record = <double*>(self.records + chunk.sample[i] * self.apart)
                moved = 0
                for f in range(width):
                    moved += self.q[i * width + f] * self.move[f]
                record[2 + c] += moved
            self.model.moved(&chunk, b, row, c, &self.delta[0])
            at += CHUNK
        for f in range(lanes):
            body[f] += self.delta[f]
        if has_weight:
            weight[0] += self.delta[lanes]
