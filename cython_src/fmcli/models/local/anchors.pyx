"""The anchors of a locally linear model: points that move towards samples or away from them."""

import numpy as np

from fmcli.models.layout import allocate

from fmcli.base.types cimport real
from libc.string cimport memset

# While an anchor's scale is within these bounds, it is stored apart from the anchor's coordinates.
cdef double SMALLEST_SCALE = 1e-4, LARGEST_SCALE = 1e4


cdef class Anchors:
    """Points with a step z <- (1 - 2a) z + 2a x whose cost depends only on the number of entries of the sample x.

    To this end, the scale and the sum of squares are stored apart from the coordinates.

    n, features : the number of points, and of their coordinates.
    numbers : (n, features) the coordinates, divided by `scale`.
    """

    def __cinit__(self, Py_ssize_t n, Py_ssize_t features):
        self.n, self.features = n, features
        self.scale, self.squares, self.shrink = np.ones(n), np.zeros(n), np.zeros(n)
        self.points.n, self.points.scale, self.points.squares = n, &self.scale[0], &self.squares[0]

    def allocate(self):
        """Allocate coordinates that can move, all 0; a feature's coordinates are contiguous. Returns their memory."""
        table = allocate(self.features * self.n)
        self.table = table
        self.place(table[:self.features * self.n].reshape(self.features, self.n).T)
        return table

    # Use these numbers as coordinates.
    cdef place(self, numbers):
        self.numbers = numbers
        cdef const real[:, :] at = numbers
        self.points.at = &at[0, 0] if self.features else NULL
        self.points.point_stride = at.strides[0] // <Py_ssize_t>sizeof(real)
        self.points.feature_stride = at.strides[1] // <Py_ssize_t>sizeof(real)
        self.scale[:] = 1
        self.measure()

    def live(self):
        """Return the state besides the coordinates, for checkpoints."""
        return [np.asarray(self.scale), np.asarray(self.squares)]

    def measure(self):
        """Multiply the scales into the coordinates, and recompute the sums of squares."""
        cdef Py_ssize_t i, j
        cdef const real* z
        for i in range(self.n):
            if self.scale[i] != 1:
                self.fold(i)
        with nogil:
            memset(&self.squares[0], 0, self.n * sizeof(double))
            # Add the features in order, whatever the memory layout, so the sums have the same bits.
            for j in range(self.features):
                z = self.points.at + j * self.points.feature_stride
                for i in range(self.n):
                    self.squares[i] += <double>z[i * self.points.point_stride] * z[i * self.points.point_stride]

    # Make the pending moves.
    cdef void step(self, double rate) noexcept nogil:
        cdef Py_ssize_t i
        cdef size_t m
        for m in range(self.moves.size()):
            self.shrink[self.moves[m].anchor] += rate * self.moves[m].slope
        for i in range(self.n):
            if self.shrink[i] != 0:
                self.scale[i] *= 1 - self.shrink[i]
                self.shrink[i] = 0
                if not SMALLEST_SCALE <= abs(self.scale[i]) <= LARGEST_SCALE:
                    self.fold(i)
        for m in range(self.moves.size()):
            self.add(self.moves[m].anchor, rate * self.moves[m].slope, &self.moves[m].x)
        self.moves.clear()

    # Multiply an anchor's scale into its coordinates.
    cdef void fold(self, Py_ssize_t anchor) noexcept nogil:
        cdef Py_ssize_t j
        cdef real* z = &self.table[anchor]
        cdef double squares = 0
        for j in range(self.features):
            z[j * self.n] = <real>(self.scale[anchor] * z[j * self.n])
            squares += <double>z[j * self.n] * z[j * self.n]
        self.scale[anchor], self.squares[anchor] = 1, squares

    # anchor += amount * x
    cdef void add(self, Py_ssize_t anchor, double amount, const Sample* x) noexcept nogil:
        cdef Py_ssize_t i
        cdef real* z
        cdef double before
        amount /= self.scale[anchor]
        for i in range(x.nnz):
            z = &self.table[x.index[i] * self.n + anchor]
            before = <double>z[0] * z[0]
            z[0] = <real>(z[0] + amount * x.value[i])
            self.squares[anchor] += <double>z[0] * z[0] - before
