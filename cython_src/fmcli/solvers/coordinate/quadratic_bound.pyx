"""The small problem that coordinate descent solves for some parameters of a row: a quadratic upper bound on the mean
loss, plus the penalty."""

import numpy as np

from fmcli.penalties.arguments cimport ExactStrength
from fmcli.penalties.formulas cimport group_prox, group_value, penalty_of, prox, reduce
from fmcli.solvers.coordinate.kernels cimport kernels
from libc.stdint cimport uint8_t
from libc.string cimport memcpy, memset


# If the last coordinate explains all but this share of a coordinate's curvature, the rest is rounding.
cdef double LEAST_SHARE = 1e-9


cdef class QuadraticBound:
    """min over s of <r, s> + s'Gs/2 plus the penalty of phi + s, by coordinates; or, if all parameters move together,
    by one prox, with a number that bounds the curvatures in place of G.

    Parameters
    ----------
    most : parameters there may be.
    most_squared : parameters there may be where G is used.
    """

    def __init__(self, Py_ssize_t most, Py_ssize_t most_squared):
        cdef double[::1] numbers = np.zeros(6 * most + most_squared**2 + 1)
        cdef uint8_t[::1] strengths = np.zeros((most + 1) * sizeof(ExactStrength), dtype=np.uint8)
        self.memory = numbers, strengths
        self.r, self.extra_curvature, self.phi = &numbers[0], &numbers[most], &numbers[2 * most]
        self.step, self.c, self.d = &numbers[3 * most], &numbers[4 * most], &numbers[5 * most]
        self.G = &numbers[6 * most]
        self.strength = <ExactStrength*>&strengths[0]

    # Begin with r, G and the step 0; the caller sets phi and the strengths.
    cdef void begin(
        self, Py_ssize_t width, bint follows, bint together, double group, int group_penalty
    ) noexcept nogil:
        self.width, self.follows, self.together = width, follows, together
        self.group, self.group_penalty = group, group_penalty
        memset(self.step, 0, width * sizeof(double))
        self.clear()

    # Set all sums over samples to 0.
    cdef void clear(self) noexcept nogil:
        self.curvature = 0
        memset(self.r, 0, self.width * sizeof(double))
        memset(self.extra_curvature, 0, self.width * sizeof(double))
        if not self.together:
            memset(self.G, 0, self.width * self.width * sizeof(double))

    # Copy the sums over samples if scores are affine: at most width^2 + width + 1 numbers.
    cdef void save(self, double* sums) noexcept nogil:
        cdef Py_ssize_t width = self.width
        sums[0] = self.curvature
        memcpy(sums + 1, self.r, width * sizeof(double))
        if not self.together:
            memcpy(sums + 1 + width, self.G, width * width * sizeof(double))

    # Add sums that were saved.
    cdef void add(self, const double* sums) noexcept nogil:
        cdef Py_ssize_t f, width = self.width
        self.curvature += sums[0]
        for f in range(width):
            self.r[f] += sums[1 + f]
        for f in range(0 if self.together else width * width):
            self.G[f] += sums[1 + width + f]

    # Complete G: its diagonal from the positive curvatures, its lower triangle from the upper one.
    cdef void complete(self) noexcept nogil:
        cdef Py_ssize_t f, h
        for f in range(0 if self.together else self.width):
            self.G[f * self.width + f] += max(self.extra_curvature[f], 0.0)
            for h in range(f):
                self.G[f * self.width + h] = self.G[h * self.width + f]

    # The step to about the minimum. Weights of kernels that hardly vary go with the bias, so that it would take them
    # many rounds of single steps: they move as if it followed each of them.
    cdef void minimize(self) noexcept nogil:
        if self.together:
            self.move_together()
            return
        if self.follows:
            self.eliminate_last()
        kernels.small_descent(
            self.width, self.width - self.follows, self.r, self.G, self.phi, self.strength, self.c, self.step)
        if self.follows:
            self.move_last()

    # A shorter step, where the bound did not hold.
    cdef void shorten(self) noexcept nogil:
        cdef Py_ssize_t f
        if self.together:
            self.curvature *= 2
            self.move_together()
            return
        for f in range(self.width):
            self.step[f] /= 2

    # Eliminate the last coordinate, which no penalty acts on: the problem of the others if it follows to its minimum.
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
            if self.G[f * self.width + f] < LEAST_SHARE * shared:  # it is collinear with the last one
                self.r[f] = 0
                for h in range(last):
                    self.G[f * self.width + h] = self.G[h * self.width + f] = 0

    # The last coordinate to its minimum, given the steps of the others.
    cdef void move_last(self) noexcept nogil:
        cdef Py_ssize_t h, last = self.width - 1
        cdef const double* row = self.G + last * self.width
        cdef double slope = self.r[last]
        for h in range(last):
            slope += row[h] * self.step[h]
        self.step[last] = self.minimum(last, row[last] * self.phi[last] - slope, row[last]) - self.phi[last]

    # The least point of h/2 (v - u)^2 plus a parameter's penalty, given hu = h u; if nothing depends on v, where it is.
    cdef double minimum(self, Py_ssize_t f, double hu, double h) noexcept nogil:
        if h + self.strength[f].l2 > 0:
            return prox(hu, h, self.strength[f])
        return 0 if self.strength[f].l1 > 0 else self.phi[f] + self.step[f]

    # All parameters at once, by prox(phi - r/h, h).
    cdef void move_together(self) noexcept nogil:
        cdef Py_ssize_t f
        cdef double hu, h = self.curvature
        for f in range(self.width):
            self.step[f] = 0
            hu = h * self.phi[f] - self.r[f]
            self.c[f] = reduce(hu, h, self.strength[f], self.d[f]) if self.group > 0 else self.minimum(f, hu, h)
        if self.group > 0:
            if h > 0:
                group_prox(self.group_penalty, self.c, self.d, self.width, 0, self.group, self.c)
            else:  # only penalties depend on the parameters
                memset(self.c, 0, self.width * sizeof(double))
        for f in range(self.width):
            self.step[f] = self.c[f] - self.phi[f]

    # The penalty after the step.
    cdef double penalty(self) noexcept nogil:
        cdef Py_ssize_t f
        cdef double total = 0
        for f in range(self.width):
            self.c[f] = self.phi[f] + self.step[f]
            total += penalty_of(self.c[f], self.strength[f])
        return total + self.group * group_value(self.group_penalty, self.c, self.width)
