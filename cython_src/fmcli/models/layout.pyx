"""The memory layout of a model's parameter arrays."""

from typing import NamedTuple

import numpy as np

from fmcli.kernels.simd import REAL
from fmcli.system.mapped import zeros

from fmcli.base.types cimport LANES

REAL_TYPE = np.dtype(np.float32 if REAL == "float" else np.float64)
# The name of the array of the cutpoints between ordered labels.
CUTPOINTS = "cutpoints"
CACHE_LINE = 64
MOST_COLUMNS = 1 << 24  # in a row: keeps sizes computed from it far from overflow
# The axis of features, among a block's axes.
FEATURES = "features"
# The constraints on a block's bodies, and the roles of blocks; None: no constraint, no special role.
CONSTRAINTS = (None, "simplex")
ROLES = (None, "kernel weights")


class Array(NamedTuple):
    """An array within a block's bodies; each row has `vectors` vectors of `columns` factors."""

    name: str
    vectors: int
    columns: int
    shape: tuple  # of a row: (columns,), or (vectors, columns)


def array_of(name, size):
    """Return the array whose rows have this size: columns, or (vectors, columns)."""
    columns = size[1] if isinstance(size, tuple) else size
    if not 1 <= columns <= MOST_COLUMNS:
        raise ValueError(f"{name} cannot have {columns} columns")
    return Array(name, *size, size) if isinstance(size, tuple) else Array(name, 1, size, (size,))


class BlockLayout:
    """One block of parameter rows of a model, as the model declares it.

    Parameters
    ----------
    axes : the axes of the rows of one class: FEATURES (one row per feature), numbers, or () for a single row; at most
        one axis besides FEATURES. In memory, the rows of a feature are adjacent, whatever the order of the axes.
    body : ((name, columns), ...), arrays of factors, side by side in a row; may be empty. (vectors, columns) in place
        of columns gives the array two axes.
    weight : the name of the one linear weight after the body, or None.
    touched : the rows that affect a sample's score: the rows of its "features", "all" rows, or rows "selected" by the
        model's `rows`.
    penalized_as : "w" if the weight is penalized as a linear weight, "v" if as a factor. Bodies are always penalized as
        factors.
    penalty : "full"; "l2" for fitted kernel weights, to which only the factors' L2 penalty applies; "none" for
        structural parameters.
    trained : whether training updates the rows.
    affine : the largest set of a row's parameters in which scores are jointly affine while all others are fixed: the
        whole "row", one "vector" of its body, or only "one" parameter.
    start : "random": bodies start from N(0, init_std^2); or a number, the start value. Weights start from 0.
    constraint : "simplex": each body stays on the probability simplex; such a body has one vector. None: free.
    role : "kernel weights": fitted weights of kernels. Coordinate descent updates them first, jointly with the bias,
        and the nuclear norm applies to them. None: no special role.

    Attributes
    ----------
    packed : whether rows take as little memory as possible, even if their weights are then in other cache lines; set by
        Model.pack.

    Raises ValueError for a constraint or a role that no solver knows, so none is silently ignored.
    """

    def __init__(
        self, *, axes=(FEATURES,), body=(), weight=None, touched=None, penalized_as="w", penalty="full", trained=True,
        affine="row", start="random", constraint=None, role=None
    ):
        if constraint not in CONSTRAINTS or role not in ROLES:
            raise ValueError(f"no solver knows the constraint {constraint!r} or the role {role!r}")
        self.axes, self.weight, self.penalized_as, self.penalty = tuple(axes), weight, penalized_as, penalty
        self.trained, self.affine, self.start, self.constraint, self.role = trained, affine, start, constraint, role
        self.body, self.packed = tuple([array_of(name, size) for name, size in body]), False
        self.touched = touched or ("features" if self.by_feature else "all")

    @property
    def by_feature(self):
        """Whether each feature has its own rows."""
        return FEATURES in self.axes

    @property
    def names(self):
        """The names of the block's arrays."""
        return [array.name for array in self.body] + ([self.weight] if self.weight else [])

    @property
    def vectors(self):
        """The number of columns of each vector of the body, in order."""
        return [array.columns for array in self.body for _ in range(array.vectors)]

    @property
    def columns(self):
        """The number of parameters in a row."""
        return sum(self.vectors) + (self.weight is not None)

    @property
    def lanes(self):
        """The number of reals in the body, with each vector padded."""
        return sum(map(padded, self.vectors))

    @property
    def rows_each(self):
        """The number of rows per feature; without an axis of features, the number of all rows."""
        (size,) = [axis for axis in self.axes if axis != FEATURES] or [1]
        return size

    def rows(self, features):
        """Return the number of rows of one class."""
        return self.rows_each * (features if self.by_feature else 1)

    def leading(self, features):
        """Return the axes, with the number of features in place of FEATURES."""
        return tuple(features if axis == FEATURES else axis for axis in self.axes)


def normal(shape, init_std, generator):
    """Return N(0, init_std^2) numbers of the real type. They may be infinite."""
    values = generator.standard_normal(shape, dtype=REAL_TYPE)
    with np.errstate(over="ignore"):
        values *= REAL_TYPE.type(init_std)
    return values


def allocate(Py_ssize_t size, dtype=REAL_TYPE):
    """Return an array of zeros, page-aligned and in huge pages if the system has them; by default of the build's real
    type.

    Physical memory is used only when it is written to.

    Raises MemoryError.
    """
    return zeros(size, dtype)


def padded(Py_ssize_t columns):
    return (columns + LANES - 1) // LANES * LANES


def row_stride(Py_ssize_t reals):
    """Return the stride of rows in reals: a small row never straddles two cache lines, a large row begins at one."""
    cdef Py_ssize_t size = reals * REAL_TYPE.itemsize, stride = REAL_TYPE.itemsize
    while stride < size and stride < CACHE_LINE:
        stride *= 2
    return (size + stride - 1) // stride * stride // REAL_TYPE.itemsize


def row_strides(layout, int slots):
    """Return the strides of bodies and weights. Weights follow the bodies in the same rows unless this costs a cache
    line, or, if rows are packed, memory."""
    cdef Py_ssize_t body = (1 + slots) * layout.lanes
    cdef Py_ssize_t weight = 1 + slots if layout.weight else 0
    cdef Py_ssize_t together = row_stride(body + weight)
    if body and weight and together > row_stride(body) and (
            layout.packed or together * REAL_TYPE.itemsize > CACHE_LINE):
        return row_stride(body), row_stride(weight)
    return together, together
