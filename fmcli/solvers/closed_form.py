"""Fitting what needs no solver: ridge regression on features and on the kernel functions of some training rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.linalg import LinearOperator, cg

from fmcli.data.dataset import Dataset
from fmcli.errors import DivergedError
from fmcli.losses.loss import Loss
from fmcli.models.kernel_basis import KernelBasis
from fmcli.models.layout import REAL_TYPE
from fmcli.penalties.penalty import Penalty
from fmcli.registry.options import OPTIONS
from fmcli.solvers.trainer import Observer, Task, Trainer

Floats = NDArray[np.float64]

# Eigenvalues of the landmarks' kernel matrix below this share of the largest are dropped.
SMALLEST_EIGENVALUE = 1e-12
# Rows at a time, at least; as many as there are unknowns make the work grow least.
LEAST_ROWS = 1024
# Copies of what is decomposed that LAPACK and numpy make, and square matrices of the unknowns that there are at a time.
COPIES, SQUARES = 3, 10
# Conjugate gradients end when the residual is this share of the right side, or after so many steps.
RESIDUAL, MOST_STEPS = 1e-9, 2000
# Vectors of the linear weights that there are at a time, those of the conjugate gradients included.
VECTORS = 12


class Kernels(NamedTuple):
    """The functions of the landmarks and the constant 1, made orthonormal on the rows, penalty included.

    products : (k, r) such that [K T, 1] products are those functions at the rows.
    target : (r) their products with the labels.
    left, right : what is left of [K T, 1] and of the labels after the rows were transformed orthogonally.
    basis : (landmarks, k - 1) T.
    """

    products: Floats
    target: Floats
    left: Floats
    right: Floats
    basis: Floats


class ClosedFormTrainer(Trainer):
    """Solves a model of linear weights and kernel functions, as one epoch."""

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
    """Minimise sum s (y - b - X w - K beta)^2 / 2 / sum s + l2_w / 2 |w|^2 + l2_v / 2 Omega over b, w and beta.

    Omega is |beta|^2 (basis "random") or beta' K_mm beta ("nystrom", K_mm of the landmarks among themselves). The rows'
    kernels enter through orthogonal transforms rather than K'K, which would square the condition number. For any w the
    best b and beta follow in closed form; with these put in, the equation for w is linear and positive definite, and
    conjugate gradients solve it without a matrix of pairs of features.

    Parameters
    ----------
    model : with landmarks, allocated.
    data : Dataset with numbers as labels.
    rows : int32, numbers of the rows to fit.

    Returns the two terms at the minimum. Raises DivergedError if the kernel's values are beyond the range of numbers.
    """
    with np.errstate(over="ignore", invalid="ignore"):  # `in_range` checks the results
        return solve(model, data, rows, l2_w, l2_v)


def solve(model: KernelBasis, data: Dataset, rows: NDArray[np.int32], l2_w: float, l2_v: float) -> tuple[float, float]:
    """What `fit` does."""
    kernels = orthonormal(model, data, rows, l2_v)
    if not model.parameters:
        found = kernels.products @ kernels.target
        loss = np.sum((kernels.left @ found - kernels.right) ** 2) / 2
        weights = np.zeros(0)
    else:
        linear = LinearPart(model, data, rows, kernels, l2_w)
        weights = linear.weights()
        model.parameters["w"][0, linear.columns] = weights
        shares = kernels.target - linear.shared.T @ weights
        found = kernels.products @ shares
        loss = np.sum((kernels.left @ found - kernels.right) ** 2) / 2 + linear.added_loss(weights, shares)
    model.fit(float(found[-1]), in_range(kernels.basis @ found[:-1]))
    return float(loss), float(l2_w * np.sum(weights**2) + l2_v * np.sum(found[:-1] ** 2)) / 2


def orthonormal(model: KernelBasis, data: Dataset, rows: NDArray[np.int32], l2: float) -> Kernels:
    """The kernel functions and the constant for who fits them to the rows."""
    system = triangle(model, data, rows)
    k = system.shape[1] - 2
    basis = nystrom(model) if model.basis == "nystrom" else np.eye(k)
    left = in_range(np.column_stack([system[:, :k] @ basis, system[:, k]]))
    right = system[:, k + 1]
    stacked = np.vstack([left, np.sqrt(l2) * np.eye(basis.shape[1], left.shape[1])])
    u, s, vt = np.linalg.svd(stacked, full_matrices=False)
    kept = s > np.finfo(np.float64).eps * max(stacked.shape) * s[0]
    return Kernels(vt[kept].T / s[kept], u[: len(right), kept].T @ right, left, right, basis)


class LinearPart:
    """The linear equation of the weights of features, after bias and beta have been eliminated.

    columns : int64, the features that occur in the rows.
    shared : (columns, r) products of the columns and the orthonormal functions, over the rows.
    """

    def __init__(self, model: KernelBasis, data: Dataset, rows: NDArray[np.int32], kernels: Kernels, l2: float) -> None:
        self.l2 = l2
        seen = data.seen(rows)
        self.columns = np.flatnonzero(seen)
        number = np.cumsum(seen, dtype=np.int32) - 1
        self.share = data.shares(rows)
        self.x = matrix(data.take(rows), number, len(self.columns))
        self.shared = np.zeros((len(self.columns), kernels.products.shape[0]))
        self.target = self.x.T @ (self.share * data.label[rows])
        for part, values in kernel_values(model, data, rows):
            functions = np.column_stack([values @ kernels.basis, np.ones(len(values))])
            self.shared += self.x[part].T @ (self.share[part, None] * functions)
        self.shared = in_range(self.shared) @ kernels.products
        self.right = self.target - self.shared @ kernels.target

    def weights(self) -> Floats:
        """(columns) The weights, rounded to the numbers that the model keeps."""
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
        """What the weights add to the gradient, when bias and beta follow them."""
        return self.squares(weights) + self.l2 * weights - self.shared @ (self.shared.T @ weights)

    def added_loss(self, weights: Floats, shares: Floats) -> float:
        """The loss with these weights and shares of the functions less that with the shares alone."""
        return float(weights @ (self.shared @ shares - self.target) + weights @ self.squares(weights) / 2)


def matrix(rows: Dataset, number: NDArray[np.int32], columns: int) -> csr_array:
    """Rows as a matrix with so many columns, features numbered anew."""
    values = np.ones(rows.nnz) if rows.value is None else rows.value.astype(np.float64)
    return csr_array((values, number[rows.index], rows.indptr), shape=(rows.rows, columns))


def kernel_values(model: KernelBasis, data: Dataset, rows: NDArray[np.int32]) -> Iterator[tuple[slice, Floats]]:
    """Runs of rows, and the kernel of each row and each landmark."""
    k = model.landmarks.rows
    step = max(LEAST_ROWS, k + 2)
    for start in range(0, len(rows), step):
        some = rows[start : start + step]
        values = np.empty((len(some), k))
        model.kernels(data, some, values)
        yield slice(start, start + len(some)), in_range(values)


def in_range(array: Floats) -> Floats:
    """The array, if all of its numbers are finite; LAPACK takes no others. Raises DivergedError."""
    if not np.isfinite(array).all():
        raise DivergedError(
            f"the kernel's values are beyond the range of numbers: give a smaller {OPTIONS['order'].flag} or "
            f"{OPTIONS['coef0'].flag}, or scale the values of the features ({OPTIONS['norm'].flag})"
        )
    return array


def bytes_needed(model: KernelBasis, data: Dataset, rows: int) -> int:
    """Bytes that `fit` takes: runs of rows and the triangle before they become a new one, or square matrices; and what
    the linear weights share with the kernels."""
    size, run = model.rank + 2, min(max(LEAST_ROWS, model.rank + 2), rows)
    numbers = size * max(2 * run + COPIES * (run + size), SQUARES * size)
    entries = 0
    if model.layout:
        occur = data.nnz * rows // max(1, data.rows)  # entries of the rows; no more features occur in them
        columns = min(model.features, occur)
        numbers += 2 * size * (columns + run) + VECTORS * columns + model.features + 2 * rows
        # A row's copy, its values as float64, and its features' numbers, twice where scipy wants wider ones.
        entry = 2 * np.dtype(np.float32).itemsize + 2 * np.dtype(np.float64).itemsize + 4 * np.dtype(np.int32).itemsize
        entries = entry * occur
    return np.dtype(np.float64).itemsize * numbers + entries


def triangle(model: KernelBasis, data: Dataset, rows: NDArray[np.int32]) -> Floats:
    """(at most k + 2, k + 2) The triangle R of [K, 1, y] = QR, each row times the root of its share of all weights."""
    root = np.sqrt(data.shares(rows))
    k = model.landmarks.rows
    found = np.zeros((0, k + 2))
    for part, kernels in kernel_values(model, data, rows):
        system = np.ones((len(kernels), k + 2))
        system[:, :k], system[:, k + 1] = kernels, data.label[rows[part]]
        system *= root[part, None]
        found = in_range(np.asarray(np.linalg.qr(np.vstack([found, system]), mode="r")))
    return found


def nystrom(model: KernelBasis) -> Floats:
    """(k, what is kept) T such that Omega = |theta|^2 for beta = T theta: U / sqrt(eigenvalues) of K_mm."""
    k = model.landmarks.rows
    matrix = np.empty((k, k))
    model.kernels(model.landmarks, np.arange(k, dtype=np.int32), matrix)
    values, vectors = np.linalg.eigh(in_range(matrix))
    kept = values > SMALLEST_EIGENVALUE * values[-1]
    whitened: Floats = vectors[:, kept] / np.sqrt(values[kept])
    return whitened
