"""k-means on sparse rows, which initializes the anchors of llfm."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fmcli.system.memory import SCIPY_SPARSE, require_scipy

if TYPE_CHECKING:
    from fmcli.data.dataset import Dataset

# The most rows to use; more rows would hardly improve the centers.
MOST_ROWS = 20_000
# The most iterations; they also stop when the inertia's relative decrease is at most LEAST_GAIN.
MOST_ROUNDS, LEAST_GAIN = 100, 1e-4
# Rounding error of a squared distance that should be 0, relative to the row's squared length.
ROUNDING = 16 * np.finfo(np.float64).eps
# The number of (centers, features) arrays and of (rows, centers) arrays in memory at a time.
TABLES, DISTANCES = 5, 4


def kmeans(data: Dataset, rows: NDArray[np.int32], centers: int, generator: np.random.Generator) -> NDArray[np.float64]:
    """Return (centers, features) the centers found by Lloyd's algorithm from a k-means++ start.

    Rows have weights. A center without rows does not move. If there are fewer distinct rows than centers,
    some centers are equal.

    Parameters
    ----------
    data : Dataset.
    rows : int32, indices of the rows to use; more than MOST_ROWS are replaced by a random subset of MOST_ROWS.
    """
    if len(rows) > MOST_ROWS:
        rows = np.sort(generator.choice(rows, MOST_ROWS, replace=False))
    some = data.take(rows)
    x, weight = matrix(some), np.ones(some.rows) if some.weight is None else some.weight
    squares = np.asarray(x.multiply(x).sum(axis=1)).ravel()
    z = first_centers(x, weight, squares, centers, generator)
    inertia = np.inf
    for _ in range(MOST_ROUNDS):
        distance = distances(x, squares, z)
        nearest = distance.argmin(axis=1)
        before, inertia = inertia, float(weight @ distance[np.arange(len(nearest)), nearest])
        if before - inertia <= LEAST_GAIN * inertia:
            break
        sums, weights = sums_by_center(x, weight, nearest, centers)
        kept = weights > 0
        z[kept] = sums[kept] / weights[kept, None]
    return z


def bytes_needed(data: Dataset, rows: int, centers: int) -> int:
    """Return the bytes that `kmeans` needs for this number of rows of the data."""
    rows = min(rows, MOST_ROWS)
    entries = data.nnz * rows // max(data.rows, 1)
    entry = 2 * (data.index.itemsize + np.dtype(np.float64).itemsize)  # in the matrix, and in the sums
    return np.dtype(np.float64).itemsize * centers * (TABLES * data.features + DISTANCES * rows) + entry * entries


def matrix(data: Dataset) -> Any:
    """Return the rows as a scipy.sparse matrix of float64. Raises NotEnoughMemoryError if scipy cannot be loaded."""
    require_scipy(SCIPY_SPARSE, "llfm")
    from scipy.sparse import csr_matrix

    value = np.ones(data.nnz) if data.value is None else data.value.astype(np.float64)
    return csr_matrix((value, data.index, data.indptr), shape=(data.rows, data.features))


def distances(x: Any, squares: NDArray[np.float64], z: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return (rows, centers) the squared distances. `squares` : the squared lengths of the rows."""
    found: NDArray[np.float64] = np.maximum(squares[:, None] - 2 * (x @ z.T) + (z**2).sum(axis=1), 0)
    return found


def sums_by_center(
    x: Any, weight: NDArray[np.float64], nearest: NDArray[np.int64], centers: int
) -> tuple[NDArray[Any], NDArray[np.float64]]:
    """Return (centers, features) the weighted sum of each center's rows, and (centers) the total weight of these
    rows."""
    from scipy.sparse import csr_matrix

    rows = len(nearest)
    belongs = csr_matrix((weight, nearest, np.arange(rows + 1)), shape=(rows, centers))
    return (belongs.T @ x).toarray(), np.bincount(nearest, weight, minlength=centers).astype(np.float64)


def first_centers(
    x: Any, weight: NDArray[np.float64], squares: NDArray[np.float64], centers: int, generator: np.random.Generator
) -> NDArray[np.float64]:
    """Return (centers, features) the first centers by k-means++ (Arthur and Vassilvitskii 2007).

    Rows are drawn with probability proportional to their weight times the squared distance from the nearest center so
    far; of several draws, the one with the lowest inertia becomes a center. Once every row is a center, centers are
    repeated.
    """
    trials = 2 + int(np.log(centers))
    z = np.zeros((centers, x.shape[1]))
    z[0] = x[[int(generator.choice(x.shape[0], p=weight / weight.sum()))]].toarray()[0]
    nearest = distances(x, squares, z[:1])[:, 0]
    for i in range(1, centers):
        nearest[nearest <= ROUNDING * squares] = 0
        likely = weight * nearest
        total = likely.sum()
        if not total > 0:
            z[i:] = np.resize(z[:i], (centers - i, x.shape[1]))
            break
        candidates = x[generator.choice(x.shape[0], trials, p=likely / total)].toarray()
        left = np.minimum(nearest[:, None], distances(x, squares, candidates))
        best = int((weight @ left).argmin())
        z[i], nearest = candidates[best], left[:, best]
    return z
