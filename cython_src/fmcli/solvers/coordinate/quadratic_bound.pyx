"""The small problem that coordinate descent solves for some parameters of a row: a bound on the mean loss, quadratic in
them."""

import numpy as np

from fmcli.penalties.group cimport group_norm_of
from libc.math cimport fabs, sqrt
from libc.string cimport memset


# What a coordinate does by itself is rounding below this share of what it does with another.
cdef double LEAST_SHARE = 1e-9


cdef class QuadraticBound:
    """min over s of <r, s> + s'Gs/2 + sum of l1 |phi + s| + l2/2 (phi + s)^2, by coordinates; or with l_g ||phi + s||,
    by a bound on G.

    Parameters
    ----------
    most : parameters there may be.
    most_squared : parameters there may be where G is used.
    """

    def __init__(self, Py_ssize_t most, Py_ssize_t most_squared):
        cdef double[::1] numbers = np.zeros(6 * most + most_squared**2 + 1)
        self.memory = numbers
        self.r, self.extra_curvature, self.phi = &numbers[0], &numbers[most], &numbers[2 * most]
        self.l1, self.l2, self.step = &numbers[3 * most], &numbers[4 * most], &numbers[5 * most]
        self.G = &numbers[6 * most]

    # New parameters, standing where they stood.
    cdef void begin(self, Py_ssize_t width) noexcept nogil:
        self.width = width
        memset(self.r, 0, width * sizeof(double))
        memset(self.step, 0, width * sizeof(double))
        memset(self.extra_curvature, 0, width * sizeof(double))

    # G's diagonal and what is below it, from what is above and bends upwards.
    cdef void complete(self) noexcept nogil:
        cdef Py_ssize_t f, h
        for f in range(self.width):
            self.G[f * self.width + f] += max(self.extra_curvature[f], 0.0)
            for h in range(f):
                self.G[f * self.width + h] = self.G[h * self.width + f]

    # The problem of all coordinates but the last one, which no penalty acts on and which follows them to its minimum.
    cdef void eliminate_last(self) noexcept nogil:
        cdef Py_ssize_t f, h, last = self.width - 1
        cdef const double* row = self.G + last * self.width
        cdef double shared
        if row[last] <= 0:
            return
        for f in range(last):
            self.r[f] -= row[f] / row[last] * self.r[last]
            for h in range(last):
                self.G[f * self.width + h] -= row[f] * row[h] / row[last]
        for f in range(last):
            shared = row[f] * row[f] / row[last]
            if self.G[f * self.width + f] < LEAST_SHARE * shared:  # it acts as the last one does: rounding is left
                self.r[f] = 0
                for h in range(last):
                    self.G[f * self.width + h] = self.G[h * self.width + f] = 0

    # Each of so many coordinates to its minimum, once.
    cdef void sweep(self, Py_ssize_t many) noexcept nogil:
        cdef Py_ssize_t f
        for f in range(many):
            self.move_one(f)

    # One coordinate to its minimum; where nothing depends on it, it stays.
    cdef void move_one(self, Py_ssize_t f) noexcept nogil:
        cdef const double* row = self.G + f * self.width
        cdef double value, before = self.phi[f] + self.step[f]
        cdef double slope = self.r[f] + self.l2[f] * before, curvature = row[f] + self.l2[f]
        cdef Py_ssize_t h
        if curvature <= 0:
            if self.l1[f] > 0:
                self.step[f] = -self.phi[f]
            return
        for h in range(self.width):
            slope += row[h] * self.step[h]
        value = before - slope / curvature
        value = max(value - self.l1[f] / curvature, 0.0) + min(value + self.l1[f] / curvature, 0.0)
        self.step[f] += value - before

    # All at once by prox(phi - r/h, h); h is no less than G's largest eigenvalue.
    cdef void move_as_group(self, double h, double group) noexcept nogil:
        cdef Py_ssize_t f
        cdef double u, norm = 1
        cdef double* c = self.step
        cdef double* d = self.extra_curvature  # which scores that are affine, or bounded as a whole, do not need
        for f in range(self.width):
            u = h * self.phi[f] - self.r[f]
            c[f] = max(u - self.l1[f], 0.0) + min(u + self.l1[f], 0.0)
            d[f] = h + self.l2[f]
        if group > 0:
            norm = group_norm_of(c, d, self.width, group)
        for f in range(self.width):
            if norm == 0 or (d[f] == 0 and self.l1[f] > 0):  # in the latter case nothing acts here but l1
                self.step[f] = -self.phi[f]
            else:
                self.step[f] = c[f] / (d[f] + group / norm) - self.phi[f] if d[f] > 0 else 0

    cdef void halve(self) noexcept nogil:
        cdef Py_ssize_t f
        for f in range(self.width):
            self.step[f] /= 2

    # The penalty after the step.
    cdef double penalty(self, double group) noexcept nogil:
        cdef Py_ssize_t f
        cdef double v, squares = 0, sum = 0
        for f in range(self.width):
            v = self.phi[f] + self.step[f]
            sum += self.l1[f] * fabs(v) + 0.5 * self.l2[f] * v * v
            squares += v * v
        return sum + group * sqrt(squares)
