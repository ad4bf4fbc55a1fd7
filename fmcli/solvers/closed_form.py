"""The closed-form fit of kernel models: ridge regression on features and on the kernel functions of landmarks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.linalg import LinearOperator, cg

from fmcli.data.dataset import Dataset
from fmcli.errors import DivergedError, called
from fmcli.losses.loss import Loss
from fmcli.models.layout import REAL_TYPE
from fmcli.models.polynomial.kernel_basis import KernelBasis
from fmcli.penalties.penalty import Penalty
from fmcli.solvers.trainer import Observer, Task, Trainer

Floats = NDArray[np.float64]

# Eigenvalues of the landmarks' kernel matrix are dropped if they are less than this fraction of the largest one.
SMALLEST_EIGENVALUE = 1e-12
# The smallest number of rows per slice. A slice also has at least as many rows as there are unknowns, so that
# processing the rows in slices adds little work.
LEAST_ROWS = 1024
# The number of copies that LAPACK and numpy make of a matrix that they decompose, and the number of square matrices (of
# the size of the unknowns) that exist at the same time.
COPIES, SQUARES = 3, 10
# Conjugate gradients stop when the residual is this fraction of the right-hand side, or after this many steps.
RESIDUAL, MOST_STEPS = 1e-9, 2000
# The number of vectors of the size of the linear weights that exist at the same time, including the vectors of
# conjugate gradients.
VECTORS = 12


class Kernels(NamedTuple):
    """The kernel functions of the landmarks and the constant 1, orthonormalized on the rows, with the penalty included.

    products : (k, r), the coefficients of the orthonormal functions: their values at the rows are [K T, 1] products.
    target : (r), the inner products of the orthonormal functions with the labels.
    left, right : [K T, 1] and the labels after an orthogonal transform, which leaves few rows.
    basis : (landmarks, k - 1), the matrix T.
    """

    products: Floats
    target: Floats
    left: Floats
    right: Floats
    basis: Floats


class ClosedFormTrainer(Trainer):
    """Fits a model of linear weights and kernel functions in closed form, as one epoch."""

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        assert isinstance(task.model, KernelBasis)
        self.model = task.model

    def bytes_needed(self) -> int:
        return bytes_needed(self.model, self.task.data, len(self.task.rows))

    def prepare(self, loss: Loss, penalty: Penalty, observer: Observer) -> None:
        self.strengths = self.task.spec.values["l2_w"], self.task.spec.values["l2_v"]

    def run(self, epochs: int, after: Callable[[float, float], bool]) -> None:
        after(*fit(self.model, self.task.data, self.task.rows, *self.strengths))


def fit(model: KernelBasis, data: Dataset, rows: NDArray[np.int32], l2_w: float, l2_v: float) -> tuple[float, float]:
    """Minimize sum s (y - b - X w - K beta)^2 / 2 / sum s + l2_w / 2 |w|^2 + l2_v / 2 Omega over b, w and beta.

    Omega is |beta|^2 (basis "random") or beta' K_mm beta ("nystrom", where K_mm is the kernel matrix of the landmarks).
    Orthogonal transforms of the kernel matrix K are used rather than K'K, which would square the condition number. For
    any w, the optimal b and beta have a closed form. With these substituted, the equation for w is linear and positive
    definite; conjugate gradients solve it without forming a features x features matrix.

    Parameters
    ----------
    model : allocated, with landmarks.
    data : Dataset with numeric labels.
    rows : int32, the indices of the rows to fit.

    Returns the mean loss and the penalty at the minimum. Raises DivergedError if values of the kernel overflow.
    """
    with np.errstate(over="ignore", invalid="ignore"):  # `in_range` checks the results
        return solve(model, data, rows, l2_w, l2_v)


def solve(model: KernelBasis, data: Dataset, rows: NDArray[np.int32], l2_w: float, l2_v: float) -> tuple[float, float]:
    """Return the computation of `fit`."""
    kernels = orthonormal(model, data, rows, l2_v)
    if not model.parameters:
        found = kernels.products @ kernels.target
        loss = np.sum((kernels.left @ found - kernels.right) ** 2) / 2
        weights = np.zeros(0)
    else:
        linear = LinearTerms(model, data, rows, kernels, l2_w)
        weights = linear.weights()
        model.parameters["w"][0, linear.columns] = weights
        shares = kernels.target - linear.shared.T @ weights
        found = kernels.products @ shares
        loss = np.sum((kernels.left @ found - kernels.right) ** 2) / 2 + linear.added_loss(weights, shares)
    model.fit(float(found[-1]), in_range(kernels.basis @ found[:-1]))
    return float(loss), float(l2_w * np.sum(weights**2) + l2_v * np.sum(found[:-1] ** 2)) / 2


def orthonormal(model: KernelBasis, data: Dataset, rows: NDArray[np.int32], l2: float) -> Kernels:
    """Orthonormalize the kernel functions and the constant on the rows."""
    system = triangle(model, data, rows)
    k = system.shape[1] - 2
    basis = nystrom(model) if model.basis == "nystrom" else np.eye(k)
    left = in_range(np.column_stack([system[:, :k] @ basis, system[:, k]]))
    right = system[:, k + 1]
    stacked = np.vstack([left, np.sqrt(l2) * np.eye(basis.shape[1], left.shape[1])])
    u, s, vt = np.linalg.svd(stacked, full_matrices=False)
    kept = s > np.finfo(np.float64).eps * max(stacked.shape) * s[0]
    return Kernels(vt[kept].T / s[kept], u[: len(right), kept].T @ right, left, right, basis)


class LinearTerms:
    """The linear equation for the weights of features, from which bias and beta have been eliminated.

    columns : int64, the features that occur in the rows.
    shared : (columns, r), the inner products of the columns and the orthonormal functions over the rows.
    """

    def __init__(self, model: KernelBasis, data: Dataset, rows: NDArray[np.int32], kernels: Kernels, l2: float) -> None:
        self.l2 = l2
        seen = data.seen(rows)
        self.columns = np.flatnonzero(seen)
        number = np.cumsum(seen, dtype=np.int32) - 1
        self.share = data.shares(rows)
        self.x = matrix(data.take(rows), number, len(self.columns))
        self.shared = np.zeros((len(self.columns), kernels.products.shape[0]))
        self.target = self.x.T @ (self.share * data.targets(rows))
        for some, values in kernel_values(model, data, rows):
            functions = np.column_stack([values @ kernels.basis, np.ones(len(values))])
            self.shared += self.x[some].T @ (self.share[some, None] * functions)
        self.shared = in_range(self.shared) @ kernels.products
        self.right = self.target - self.shared @ kernels.target

    def weights(self) -> Floats:
        """Return (columns) the weights, rounded to the model's real type."""
        size = len(self.columns)
        diagonal = self.x.power(2).T @ self.share + self.l2
        steps = {"rtol": RESIDUAL, "maxiter": MOST_STEPS}
        found, _ = cg(
            LinearOperator((size, size), self.remaining, dtype=np.float64),
            self.right,
            M=LinearOperator((size, size), lambda vector: vector / diagonal, dtype=np.float64),
            **steps,
        )
        return in_range(found).astype(REAL_TYPE).astype(np.float64)

    def squares(self, weights: Floats) -> Floats:
        """X' S X w."""
        products: Floats = self.x.T @ (self.share * (self.x @ weights))
        return products

    def remaining(self, weights: Floats) -> Floats:
        """Return the matrix of the linear equation times the weights."""
        return self.squares(weights) + self.l2 * weights - self.shared @ (self.shared.T @ weights)

    def added_loss(self, weights: Floats, shares: Floats) -> float:
        """Return the loss with these weights and these coefficients (`shares`) of the orthonormal functions, minus the
        loss with the same coefficients and zero weights."""
        return float(weights @ (self.shared @ shares - self.target) + weights @ self.squares(weights) / 2)


def matrix(rows: Dataset, number: NDArray[np.int32], columns: int) -> csr_array:
    """Return the rows as a matrix with this many columns; feature j becomes column number[j]."""
    values = np.ones(rows.nnz) if rows.value is None else rows.value.astype(np.float64)
    return csr_array((values, number[rows.index], rows.indptr), shape=(rows.rows, columns))


def kernel_values(model: KernelBasis, data: Dataset, rows: NDArray[np.int32]) -> Iterator[tuple[slice, Floats]]:
    """Yield slices of rows, each as its slice of `rows` and the kernel of each of its rows with each landmark."""
    k = model.landmarks.rows
    step = max(LEAST_ROWS, k + 2)
    for start in range(0, len(rows), step):
        some = rows[start : start + step]
        values = np.empty((len(some), k))
        model.kernels(data, some, values)
        yield slice(start, start + len(some)), in_range(values)


def in_range(array: Floats) -> Floats:
    """Return the array if all of its values are finite, as LAPACK requires; otherwise raise DivergedError."""
    if not np.isfinite(array).all():
        raise DivergedError(
            f"the kernel's values are beyond the range of numbers: give a smaller {called('order')} or "
            f"{called('coef0')}, or scale the values of the features ({called('norm')})"
        )
    return array


def bytes_needed(model: KernelBasis, data: Dataset, rows: int) -> int:
    """Return bytes that `fit` takes.

    This is the larger of two phases (a slice of rows with the triangular factor that it updates, or the square
    matrices), plus the memory of the linear terms.
    """
    size, run = model.rank + 2, min(max(LEAST_ROWS, model.rank + 2), rows)
    numbers = size * max(2 * run + COPIES * (run + size), SQUARES * size)
    entries = 0
    if model.layout:
        occur = data.nnz * rows // max(1, data.rows)  # entries of the rows; at most as many features occur in them
        columns = min(model.features, occur)
        numbers += 2 * size * (columns + run) + VECTORS * columns + model.features + 2 * rows
        # Per entry: a copy, the value as float64, and the column, counted twice because scipy may widen the indices.
        entry = 2 * np.dtype(np.float32).itemsize + 2 * np.dtype(np.float64).itemsize + 4 * np.dtype(np.int32).itemsize
        entries = entry * occur
    return np.dtype(np.float64).itemsize * numbers + entries


def triangle(model: KernelBasis, data: Dataset, rows: NDArray[np.int32]) -> Floats:
    """Return (at most k + 2, k + 2) The triangular factor R of [K, 1, y] = QR, in which each row of [K, 1, y] is
    multiplied by the square root of its share of the total weight."""
    root = np.sqrt(data.shares(rows))
    k = model.landmarks.rows
    found = np.zeros((0, k + 2))
    for some, kernels in kernel_values(model, data, rows):
        system = np.ones((len(kernels), k + 2))
        system[:, :k], system[:, k + 1] = kernels, data.targets(rows[some])
        system *= root[some, None]
        found = in_range(np.asarray(np.linalg.qr(np.vstack([found, system]), mode="r")))
    return found


def nystrom(model: KernelBasis) -> Floats:
    """Return (k, number of eigenvalues kept) the matrix T = U / sqrt(eigenvalues) of K_mm: Omega = |theta|^2 for beta =
    T theta."""
    k = model.landmarks.rows
    matrix = np.empty((k, k))
    model.kernels(model.landmarks, np.arange(k, dtype=np.int32), matrix)
    values, vectors = np.linalg.eigh(in_range(matrix))
    kept = values > SMALLEST_EIGENVALUE * values[-1]
    whitened: Floats = vectors[:, kept] / np.sqrt(values[kept])
    return whitened
