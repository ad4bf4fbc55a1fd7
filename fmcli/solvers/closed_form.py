"""Fitting what needs no solver: ridge regression on the kernel functions of some training rows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from fmcli.data.dataset import Dataset
from fmcli.errors import DivergedError
from fmcli.losses.loss import Loss
from fmcli.models.kernel_basis import KernelBasis
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


class ClosedFormTrainer(Trainer):
    """Solves a model of kernel functions, as one epoch."""

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        assert isinstance(task.model, KernelBasis)
        self.model = task.model

    def bytes_needed(self) -> int:
        return bytes_needed(self.model, len(self.task.rows))

    def prepare(self, loss: Loss, penalty: Penalty, observer: Observer) -> None:
        self.l2 = self.task.spec.values["l2_v"]

    def run(self, epochs: int, after: Callable[[float, float], bool]) -> None:
        after(*fit(self.model, self.task.data, self.task.rows, self.l2))


def fit(model: KernelBasis, data: Dataset, rows: NDArray[np.int32], l2: float) -> tuple[float, float]:
    """Minimise sum s (y - b - K beta)^2 / 2 / sum s + l2 / 2 Omega over b and beta; the two terms at the minimum.

    Omega is |beta|^2 (basis "random") or beta' K_mm beta ("nystrom", K_mm of the landmarks among themselves). The rows
    enter through orthogonal transforms rather than K'K, which would square the condition number.

    Parameters
    ----------
    model : with landmarks, allocated.
    data : Dataset with numbers as labels.
    rows : int32, numbers of the rows to fit.

    Raises DivergedError if the kernel's values are beyond the range of numbers.
    """
    with np.errstate(over="ignore", invalid="ignore"):  # `in_range` looks at what comes of it
        return solve(model, data, rows, l2)


def solve(model: KernelBasis, data: Dataset, rows: NDArray[np.int32], l2: float) -> tuple[float, float]:
    """What `fit` does."""
    system = triangle(model, data, rows)
    k = system.shape[1] - 2
    basis = nystrom(model) if model.basis == "nystrom" else np.eye(k)
    left = in_range(np.column_stack([system[:, :k] @ basis, system[:, k]]))
    ridge = np.sqrt(l2) * np.eye(basis.shape[1], left.shape[1])
    right = system[:, k + 1]
    solution = np.linalg.lstsq(np.vstack([left, ridge]), np.append(right, np.zeros(len(ridge))), rcond=None)[0]
    model.fit(float(solution[-1]), in_range(basis @ solution[:-1]))
    return float(np.sum((left @ solution - right) ** 2) / 2), float(l2 / 2 * np.sum(solution[:-1] ** 2))


def in_range(array: Floats) -> Floats:
    """The array, if all of its numbers are finite; LAPACK takes no others. Raises DivergedError."""
    if not np.isfinite(array).all():
        raise DivergedError(
            f"the kernel's values are beyond the range of numbers: give a smaller {OPTIONS['order'].flag} or "
            f"{OPTIONS['coef0'].flag}, or scale the values of the features ({OPTIONS['norm'].flag})"
        )
    return array


def bytes_needed(model: KernelBasis, rows: int) -> int:
    """Bytes that `fit` takes: runs of rows and the triangle before they become a new one, or square matrices."""
    size, run = model.rank + 2, min(max(LEAST_ROWS, model.rank + 2), rows)
    return np.dtype(np.float64).itemsize * size * max(2 * run + COPIES * (run + size), SQUARES * size)


def triangle(model: KernelBasis, data: Dataset, rows: NDArray[np.int32]) -> Floats:
    """(at most k + 2, k + 2) The triangle R of [K, 1, y] = QR, each row times the root of its share of all weights."""
    weight = np.ones(len(rows)) if data.weight is None else data.weight[rows]
    root = np.sqrt(weight / weight.sum())
    k = model.landmarks.rows
    found = np.zeros((0, k + 2))
    step = max(LEAST_ROWS, k + 2)
    for start in range(0, len(rows), step):
        some = rows[start : start + step]
        system = np.ones((len(some), k + 2))
        kernels = np.empty((len(some), k))
        model.kernels(data, some, kernels)
        system[:, :k], system[:, k + 1] = kernels, data.label[some]
        system *= root[start : start + step, None]
        found = in_range(np.asarray(np.linalg.qr(in_range(np.vstack([found, system])), mode="r")))
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
