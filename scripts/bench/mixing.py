"""How fast Gibbs sampling mixes if the parameters of a feature are drawn together, and if they are drawn one by one.

    python scripts/bench/mixing.py ROWS [--rank 8] [--sweeps 1500] [--burn-in 300] [--seeds 3]

ROWS has two features of value 1 in each row, such as a user and an item, in libsvm or libffm text. Both ways sample the
same factorization machine with the same priors, those of `-s mcmc`: fmcli draws the factors and the weight of a feature
from their joint distribution, libFM first all weights, and then factor by factor one number of each feature. Given the
items, users are independent of each other, so that NumPy draws all users at once, and then all items.

It prints the integrated autocorrelation time of the precision alpha of labels, of the variance of the factors (the sum
of 1 / lambda, for users and for items) and of the scores of 500 rows: of so many sweeps, one counts. It is the median
over all numbers of a kind and all seeds. It also prints the effective sweeps in a thousand.
"""

import argparse
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from fmcli.data.reader import read
from fmcli.solvers.gibbs.convergence import WATCHED_ROWS, effective_sizes
from fmcli.solvers.gibbs.sampler import SHARE_OF_START, Hyperpriors

Floats = NDArray[np.float64]
PRIOR = Hyperpriors()
# The share of the interactions in the variance of the labels, at the start.
START = 0.003


class Side:
    """One of the two features of each row.

    theta : (features, rank + 1) the factors and, last, the weight of each feature.
    mean, precision : (rank + 1) of their priors.
    """

    def __init__(self, feature: NDArray[np.int64], rank: int, scale: float, rng: np.random.Generator) -> None:
        self.of_row = np.unique(feature, return_inverse=True)[1]
        self.features = int(self.of_row.max()) + 1
        self.order = np.argsort(self.of_row, kind="stable")
        self.ends = np.cumsum(np.bincount(self.of_row))[:-1]
        self.theta = rng.normal(scale=scale, size=(self.features, rank + 1))
        self.theta[:, -1] = 0
        self.mean, self.precision = np.zeros(rank + 1), np.ones(rank + 1)

    def sums(self, values: Floats) -> Floats:
        """The sum over the rows of each feature."""
        return np.bincount(self.of_row, values, self.features)

    def draw_priors(self, alpha: float, rng: np.random.Generator) -> None:
        """Draw mean and precision of each factor and of the weights."""
        n, k = self.features, PRIOR.mean_strength
        total, squares = self.theta.sum(axis=0), (self.theta**2).sum(axis=0)
        deviations = squares - total**2 / n + k * total**2 / (n * (k + n))
        self.precision = rng.gamma(PRIOR.prior_shape + n / 2, size=len(total)) / (PRIOR.prior_rate + deviations / 2)
        self.mean = rng.normal(total / (k + n), 1 / np.sqrt((k + n) * self.precision))
        self.precision[squares == 0], self.mean[squares == 0] = alpha / SHARE_OF_START, 0

    def derivatives(self, other: "Side") -> Floats:
        """(rows, rank + 1) of the scores, by the parameters of this side."""
        found = other.theta[other.of_row].copy()
        found[:, -1] = 1
        return found


def draw_together(side: Side, other: Side, error: Floats, alpha: float, rng: np.random.Generator) -> Floats:
    """Draw all parameters of each feature from their joint distribution; returns the new errors of the rows."""
    q = side.derivatives(other)
    parts = zip(np.split(q[side.order], side.ends), np.split(error[side.order], side.ends), strict=True)
    gram, slope = map(np.array, zip(*((part.T @ part, part.T @ errors) for part, errors in parts), strict=True))
    precision = alpha * gram + np.diag(side.precision)
    linear = alpha * (slope + np.einsum("jab,jb->ja", gram, side.theta)) + side.precision * side.mean
    lower = np.linalg.cholesky(precision)
    half = np.linalg.solve(lower, linear[:, :, None]) + rng.normal(size=linear.shape)[:, :, None]
    drawn = np.linalg.solve(lower.transpose(0, 2, 1), half)[:, :, 0]
    error = error - np.einsum("ra,ra->r", q, (drawn - side.theta)[side.of_row])
    side.theta = drawn
    return error


def draw_column(column: int, side: Side, other: Side, error: Floats, alpha: float, rng: np.random.Generator) -> Floats:
    """Draw one parameter of each feature, given all others; returns the new errors of the rows."""
    q, now = side.derivatives(other)[:, column], side.theta[:, column].copy()
    gram, prior = side.sums(q * q), side.precision[column]
    precision = alpha * gram + prior
    linear = alpha * (side.sums(q * error) + gram * now) + prior * side.mean[column]
    side.theta[:, column] = rng.normal(linear / precision, 1 / np.sqrt(precision))
    return error - q * (side.theta[:, column] - now)[side.of_row]


def together(sides: list[Side], error: Floats, alpha: float, rng: np.random.Generator) -> Floats:
    for side, other in (sides, sides[::-1]):
        error = draw_together(side, other, error, alpha, rng)
    return error


def one_by_one(sides: list[Side], error: Floats, alpha: float, rng: np.random.Generator) -> Floats:
    rank = len(sides[0].mean) - 1
    for column in [rank, *range(rank)]:
        for side, other in (sides, sides[::-1]):
            error = draw_column(column, side, other, error, alpha, rng)
    return error


def times(
    draw: Callable[..., Floats], features: NDArray[np.int64], label: Floats, arguments: argparse.Namespace, seed: int
) -> dict[str, Floats]:
    """The autocorrelation times of a chain."""
    rank, sweeps, burn_in = arguments.rank, arguments.sweeps, arguments.burn_in
    rng, rows = np.random.default_rng(seed), len(label)
    scale = (START * label.var() / rank) ** 0.25
    sides = [Side(features[:, column], rank, scale, rng) for column in range(2)]
    watched = np.linspace(0, rows - 1, WATCHED_ROWS).astype(np.intp)
    one, two = (side.theta[side.of_row] for side in sides)
    error = label - label.mean() - (one[:, :-1] * two[:, :-1]).sum(axis=1)
    trace: dict[str, list[Floats]] = {"alpha": [], "sum of 1/lambda": [], "scores": []}
    for sweep in range(sweeps):
        alpha = rng.gamma(PRIOR.noise_shape + rows / 2) / (PRIOR.noise_rate + (error**2).sum() / 2)
        error -= rng.normal(error.mean(), 1 / np.sqrt(alpha * rows))  # the bias
        for side in sides:
            side.draw_priors(alpha, rng)
        error = draw(sides, error, alpha, rng)
        if sweep >= burn_in:
            trace["alpha"].append(np.array([alpha]))
            trace["sum of 1/lambda"].append(np.array([(1 / side.precision[:-1]).sum() for side in sides]))
            trace["scores"].append((label - error)[watched])
    return {name: (sweeps - burn_in) / effective_sizes(np.array(values)) for name, values in trace.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows")
    for name, default in {"rank": 8, "sweeps": 1500, "burn-in": 300, "seeds": 3}.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    arguments = parser.parse_args()
    data = read([arguments.rows]).dataset
    features = np.asarray(data.index).reshape(-1, 2).astype(np.int64)
    label = np.asarray(data.label, dtype=np.float64)
    print(f"{'':12}{'':18}{'time':>8}{'effective of 1000':>20}")
    for name, draw in {"together": together, "one by one": one_by_one}.items():
        chains = [times(draw, features, label, arguments, seed) for seed in range(arguments.seeds)]
        for what in chains[0]:
            found = float(np.median([np.median(chain[what]) for chain in chains]))
            print(f"{name:12}{what:18}{found:8.1f}{1000 / found:20.0f}", flush=True)


if __name__ == "__main__":
    main()
