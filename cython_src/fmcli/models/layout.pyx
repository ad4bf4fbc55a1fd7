"""How a model's parameter arrays lie in memory."""

import errno
import mmap
from typing import NamedTuple

import numpy as np

from fmcli.kernels.simd import REAL

from fmcli.base.types cimport LANES

REAL_TYPE = np.dtype(np.float32 if REAL == "float" else np.float64)
CACHE_LINE = 64
MOST_COLUMNS = 1 << 24  # of a row, so that what is computed of them is far from overflow
# The axis of features among a block's axes.
FEATURES = "features"
# What a block's bodies may be kept to, and what a block may be for, besides parameters like others.
CONSTRAINTS = (None, "simplex")
ROLES = (None, "kernel weights")


class Array(NamedTuple):
    """An array that lies in a block's bodies: `parts` runs of so many columns in a row."""

    name: str
    parts: int
    columns: int
    shape: tuple  # of a row: (columns,), or (parts, columns)


def array_of(name, size):
    """The array of a row's `size`: columns, or (parts, columns)."""
    columns = size[1] if isinstance(size, tuple) else size
    if not 1 <= columns <= MOST_COLUMNS:
        raise ValueError(f"{name} cannot have {columns} columns")
    return Array(name, *size, size) if isinstance(size, tuple) else Array(name, 1, size, (size,))


class BlockLayout:
    """One block of parameter rows of a model, as the model declares it.

    Parameters
    ----------
    axes : how many rows a class has, as axes of the arrays: FEATURES for one a feature, numbers for others, () for one
        row; at most one axis besides FEATURES. In memory a feature's rows lie together, whatever the order of axes.
    body : ((name, columns), ...), the factors that lie side by side in a row; may be empty. In place of columns,
        (parts, columns) give the array two axes.
    weight : name of the one weight behind them, or None.
    touched : the rows that enter a sample's score: those of its "features", "all", or "own": the model's `rows` tells.
    part : "w" where the weight is penalised as a linear weight, "v" as a factor; bodies are always "v".
    penalty : "full"; "l2" for fitted kernel weights, which feel only the factors' l2; "none" for structural parameters.
    trained : whether anything moves the rows from where they start.
    affine : all of a row's parameters in which scores are affine jointly, all else being what it is: the "row", a
        "part" of its body, or but "one".
    start : "random": bodies start from N(0, init_std^2); or the number that they start from. Weights start from 0.
    constraint : "simplex": each body is kept on the probability simplex; such a body has one part. None: none.
    role : "kernel weights": fitted weights of kernels, which coordinate descent updates before all else, jointly with
        the bias, and which the nuclear norm is about. None: no special one.

    Raises ValueError for a constraint or a role that no solver knows, so that none is silently ignored.
    """

    def __init__(
        self, *, axes=(FEATURES,), body=(), weight=None, touched=None, part="w", penalty="full", trained=True,
        affine="row", start="random", constraint=None, role=None
    ):
        if constraint not in CONSTRAINTS or role not in ROLES:
            raise ValueError(f"no solver knows the constraint {constraint!r} or the role {role!r}")
        self.axes, self.weight, self.part, self.penalty = tuple(axes), weight, part, penalty
        self.trained, self.affine, self.start, self.constraint, self.role = trained, affine, start, constraint, role
        self.body = tuple([array_of(name, size) for name, size in body])
        self.touched = touched or ("features" if self.by_feature else "all")

    @property
    def by_feature(self):
        """Whether a feature has rows of its own."""
        return FEATURES in self.axes

    @property
    def names(self):
        """Names of its arrays."""
        return [array.name for array in self.body] + ([self.weight] if self.weight else [])

    @property
    def parts(self):
        """Columns of each part of a body, in order."""
        return [array.columns for array in self.body for _ in range(array.parts)]

    @property
    def columns(self):
        """Parameters in a row."""
        return sum(self.parts) + (self.weight is not None)

    @property
    def lanes(self):
        """Reals in a body, each part padded."""
        return sum(map(padded, self.parts))

    @property
    def others(self):
        """Rows of one feature; without features, rows in all."""
        (size,) = [axis for axis in self.axes if axis != FEATURES] or [1]
        return size

    def rows(self, features):
        """Rows of one class."""
        return self.others * (features if self.by_feature else 1)

    def leading(self, features):
        """The axes with the number of features put in."""
        return tuple(features if axis == FEATURES else axis for axis in self.axes)


def allocate(Py_ssize_t size, dtype=REAL_TYPE):
    """Zeros, of the build's real type unless another is given: page-aligned, in huge pages where there are any.

    They take memory only as they are touched.

    Raises MemoryError.
    """
    if size < 0:
        raise MemoryError
    try:
        memory = mmap.mmap(-1, max(size, 1) * np.dtype(dtype).itemsize, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except OverflowError as error:
        raise MemoryError from error
    except OSError as error:
        if error.errno != errno.ENOMEM:
            raise
        raise MemoryError from error
    if hasattr(mmap, "MADV_HUGEPAGE"):
        try:
            memory.madvise(mmap.MADV_HUGEPAGE)
        except OSError:
            pass  # a kernel built without huge pages
    return np.frombuffer(memory, dtype=dtype)


def padded(Py_ssize_t columns):
    return (columns + LANES - 1) // LANES * LANES


def row_stride(Py_ssize_t reals):
    """Reals from one row to the next: a small row never straddles two cache lines, a large one begins with one."""
    cdef Py_ssize_t size = reals * REAL_TYPE.itemsize, stride = REAL_TYPE.itemsize
    while stride < size and stride < CACHE_LINE:
        stride *= 2
    return (size + stride - 1) // stride * stride // REAL_TYPE.itemsize


def row_strides(layout, int slots):
    """Strides of bodies and of weights: one, weights standing behind bodies, unless that costs a cache line."""
    cdef Py_ssize_t body = (1 + slots) * layout.lanes
    cdef Py_ssize_t weight = 1 + slots if layout.weight else 0
    cdef Py_ssize_t joined = row_stride(body + weight)
    if body and weight and joined > row_stride(body) and joined * REAL_TYPE.itemsize > CACHE_LINE:
        return row_stride(body), row_stride(weight)
    return joined, joined
