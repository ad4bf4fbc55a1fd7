"""k-means on sparse rows, where llfm's anchors start."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fmcli.system.memory import SCIPY_SPARSE, require_scipy

if TYPE_CHECKING:
    from fmcli.data.dataset import Dataset

# Rows that are looked at, of which that many say as much about the centres as more would.
MOST_ROWS = 20_000
# Rounds at most; a round that lowers the inertia by less than this share of it is the last.
MOST_ROUNDS, LEAST_GAIN = 100, 1e-4
# Squared distances from a centre that rounding may leave of 0, relative to the row's squared length.
ROUNDING = 16 * np.finfo(np.float64).eps
# Arrays at a time of a number for each centre and feature, and of one for each row and centre.
TABLES, DISTANCES = 5, 4


def kmeans(data: Dataset, rows: NDArray[np.int32], centres: int, generator: np.random.Generator) -> NDArray[np.float64]:
    """(centres, features) Where Lloyd's rounds from a k-means++ start end.

    A centre that has lost all rows stays where it was. Where fewer rows than centres differ, some centres are equal.

    Parameters
    ----------
    data : Dataset.
    rows : int32, numbers of the rows to look at; of more than MOST_ROWS so many are drawn.
    """
    if len(rows) > MOST_ROWS:
        rows = np.sort(generator.choice(rows, MOST_ROWS, replace=False))
    x = matrix(data.take(rows))
    squares = np.asarray(x.multiply(x).sum(axis=1)).ravel()
    z = first_centres(x, squares, centres, generator)
    inertia = np.inf
    for _ in range(MOST_ROUNDS):
        distance = distances(x, squares, z)
        nearest = distance.argmin(axis=1)
        before, inertia = inertia, float(distance[np.arange(len(nearest)), nearest].sum())
        if before - inertia <= LEAST_GAIN * inertia:
            break
        sums, counts = sums_by_centre(x, nearest, centres)
        kept = counts > 0
        z[kept] = sums[kept] / counts[kept, None]
    return z


def bytes_needed(data: Dataset, rows: int, centres: int) -> int:
    """Bytes that `kmeans` takes for so many rows of data."""
    rows = min(rows, MOST_ROWS)
    entries = data.nnz * rows // max(data.rows, 1)
    entry = 2 * (data.index.itemsize + np.dtype(np.float64).itemsize)  # in a row, and in sums
    return np.dtype(np.float64).itemsize * centres * (TABLES * data.features + DISTANCES * rows) + entry * entries


def matrix(data: Dataset) -> Any:
    """The rows as a scipy.sparse matrix of float64. Raises NotEnoughMemoryError where scipy cannot be loaded."""
    require_scipy(SCIPY_SPARSE, "llfm")
    from scipy.sparse import csr_matrix

    value = np.ones(data.nnz) if data.value is None else data.value.astype(np.float64)
    return csr_matrix((value, data.index, data.indptr), shape=(data.rows, data.features))


def distances(x: Any, squares: NDArray[np.float64], z: NDArray[np.float64]) -> NDArray[np.float64]:
    """(rows, centres) Squared distances of rows, whose squared lengths are given, from centres."""
    found: NDArray[np.float64] = np.maximum(squares[:, None] - 2 * (x @ z.T) + (z**2).sum(axis=1), 0)
    return found


def sums_by_centre(x: Any, nearest: NDArray[np.int64], centres: int) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """(centres, features) Sums of the rows that belong to each centre, and their numbers (centres)."""
    from scipy.sparse import csr_matrix

    rows = len(nearest)
    belongs = csr_matrix((np.ones(rows), nearest, np.arange(rows + 1)), shape=(rows, centres))
    return (belongs.T @ x).toarray(), np.bincount(nearest, minlength=centres)


def first_centres(
    x: Any, squares: NDArray[np.float64], centres: int, generator: np.random.Generator
) -> NDArray[np.float64]:
    """(centres, features) k-means++ (Arthur and Vassilvitskii 2007): rows drawn with probability proportional to the
    squared distance from the nearest centre so far; of several draws, the one that leaves the least inertia. Once every
    row is a centre, these are repeated."""
    trials = 2 + int(np.log(centres))
    z = np.zeros((centres, x.shape[1]))
    z[0] = x[[int(generator.integers(x.shape[0]))]].toarray()[0]
    nearest = distances(x, squares, z[:1])[:, 0]
    for i in range(1, centres):
        nearest[nearest <= ROUNDING * squares] = 0
        total = nearest.sum()
        if not total > 0:
            z[i:] = np.resize(z[:i], (centres - i, x.shape[1]))
            break
        candidates = x[generator.choice(x.shape[0], trials, p=nearest / total)].toarray()
        left = np.minimum(nearest[:, None], distances(x, squares, candidates))
        best = int(left.sum(axis=0).argmin())
        z[i], nearest = candidates[best], left[:, best]
    return z
