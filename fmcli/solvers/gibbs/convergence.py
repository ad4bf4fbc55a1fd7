"""Whether sampling has converged: split R-hat and effective sample sizes of some numbers that every sweep gives.

Both are defined in Gelman et al., Bayesian data analysis (third edition, 2013), 11.4 and 11.5; the sum of the
autocorrelations ends where Geyer (Practical Markov chain Monte Carlo, 1992) ends it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fmcli.base.state_dict import Kept, require_finite, require_like, require_names

Floats = NDArray[np.float64]

# How many rows have their scores watched.
WATCHED_ROWS = 500
# The names of the figures, which follow the name of the watched numbers.
FIGURES = ("r_hat", "effective")
# The fewest sweeps with figures: two halves, each with a variance.
LEAST_SWEEPS = 4
# The share of the watched numbers whose R-hat is at most the reported one.
SHARE = 0.95
# The names of the predictions and of the precision of the noise among the watched numbers.
SCORES, PRECISION = "scores", "alpha"
# Predictions, means over sweeps, have a standard error; if it exceeds this share of the standard deviation of labels
# around them, their squared error is larger by more than its square, a hundredth, than it would be after many sweeps.
# Fewer sweeps than these do not tell.
LARGEST_ERROR, LEAST_TO_TELL = 0.1, 50
# Bytes for each number of a trace: as it is recorded, and while its figures are computed.
TRACE_BYTES = 16
# Columns that are transformed at once.
COLUMNS_A_TASK = 64


class Trace:
    """The values that are watched in the sweeps after the burn-in.

    Parameters
    ----------
    burn_in : the number of sweeps that are not recorded.
    watch : returns the current watched numbers by name; equally many in each sweep.
    probable : whether the predictions among them are probabilities.
    """

    def __init__(self, burn_in: int, watch: Callable[[], Mapping[str, Floats]], *, probable: bool = False) -> None:
        self.burn_in, self._watch, self._probable = burn_in, watch, probable
        self._sizes: dict[str, int] = {}
        self._sweeps: list[Floats] = []

    def record(self, number: int) -> None:
        """Record the numbers of a sweep, counted from 1, if it is not one of the burn-in."""
        if number > self.burn_in:
            watched = self._watch()
            self._sizes = {name: len(values) for name, values in watched.items()}
            self._sweeps.append(np.concatenate([*watched.values()]))

    def progress(self) -> dict[str, NDArray[Any]]:
        """Return the records for `restore`."""
        return {"sweeps": np.array(self._sweeps)} if self._sweeps else {}

    def restore(self, progress: Kept, number: int) -> None:
        """Continue from kept progress after `number` sweeps. Raises ValueError if it is not valid."""
        count = max(0, number - self.burn_in)
        require_names(progress, ["sweeps"] if count else [])
        if count:
            self._sizes = {name: len(values) for name, values in self._watch().items()}
            require_like("sweeps", progress["sweeps"], np.empty((count, sum(self._sizes.values()))))
            require_finite("sweeps", progress["sweeps"])
            self._sweeps = [row.copy() for row in progress["sweeps"]]

    def figures(self) -> dict[str, float]:
        """Return the number of sweeps; `r_hat` and `effective` (summarized) of all numbers, and of the numbers of each
        name, as `alpha_r_hat`; and `error`, the standard error of the watched predictions, means over the sweeps, as a
        share of the standard deviation of the labels around them. Empty if there are too few sweeps."""
        if len(self._sweeps) < LEAST_SWEEPS:
            return {}
        trace = np.array(self._sweeps)
        r_hat, effective = split_r_hat(trace), effective_sizes(trace)
        square = variances(halves(trace))[1] / effective
        mean, noise = trace.mean(axis=0), 1.0  # the noise of a latent score
        figures, begin = {"sweeps": len(trace), **summarized("", r_hat, effective)}, 0
        for name, size in self._sizes.items():
            own = slice(begin, begin + size)
            figures |= summarized(f"{name}_", r_hat[own], effective[own]) if size else {}
            if name == PRECISION and size:
                noise = 1 / mean[own].mean()
            if name == SCORES:
                noise = (mean[own] * (1 - mean[own])).mean() if self._probable else noise
                figures["error"] = float(np.sqrt(square[own].mean() / noise))
            begin += size
        return figures


def summarized(prefix: str, r_hat: Floats, effective: Floats) -> dict[str, float]:
    """Return the R-hat that SHARE of some numbers do not exceed, and their median effective number of sweeps."""
    found = np.quantile(r_hat, SHARE), np.median(effective)
    return {f"{prefix}{name}": float(value) for name, value in zip(FIGURES, found, strict=True)}


def halves(trace: Floats) -> Floats:
    """Return (2, sweeps // 2, numbers) The halves of a trace (sweeps, numbers); of an odd number, without the first
    sweep."""
    count = len(trace) // 2
    return trace[len(trace) - 2 * count :].reshape(2, count, -1)


def variances(chains: Floats) -> tuple[Floats, Floats]:
    """Return (numbers) the variance within chains (chains, sweeps, numbers), such as the halves of a trace; and an
    estimate of the distribution's variance, too large as long as the chains have different means."""
    count = chains.shape[1]
    within = chains.var(axis=1, ddof=1).mean(axis=0)
    return within, (count - 1) / count * within + chains.mean(axis=1).var(axis=0, ddof=1)


def split_r_hat(trace: Floats) -> Floats:
    """Return (numbers) the root of the ratio of these variances, for the halves of a trace (sweeps, numbers): 1 if the
    numbers of both are distributed equally, or constant."""
    within, total = variances(halves(trace))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(total > 0, np.sqrt(total / within), 1.0)


def effective_sizes(trace: Floats) -> Floats:
    """Return (numbers) the number of independent draws whose mean varies as much as a trace's (sweeps, numbers),
    but at most the number of sweeps."""
    starts = range(0, trace.shape[1], COLUMNS_A_TASK)
    return np.concatenate([_effective_sizes(halves(trace[:, at : at + COLUMNS_A_TASK])) for at in starts])


def _effective_sizes(chains: Floats) -> Floats:
    within, total = variances(chains)
    number, count, _ = chains.shape
    constant = total <= 0
    covariance = autocovariances(chains).mean(axis=0)
    correlation = 1 - (within - covariance) / np.where(constant, 1, total)
    correlation[0] = 1
    pairs = correlation[: count // 2 * 2].reshape(-1, 2, correlation.shape[1]).sum(axis=1)
    positive = np.logical_and.accumulate(pairs > 0)
    pairs = np.minimum.accumulate(np.where(positive, pairs, 0))
    time = 2 * pairs.sum(axis=0) - 1
    most = number * count
    sizes: Floats = most / np.where(constant, 1, np.maximum(time, 1))
    return sizes


def autocovariances(chains: Floats) -> Floats:
    """Return (chains, lags, numbers) the autocovariances of chains (chains, sweeps, numbers). With increasing
    lag the sums have fewer terms, but all are divided by the number of sweeps less one."""
    count = chains.shape[1]
    centered = chains - chains.mean(axis=1, keepdims=True)
    spectrum = np.fft.rfft(centered, 2 * count, axis=1)
    found: Floats = np.fft.irfft(np.abs(spectrum) ** 2, 2 * count, axis=1)[:, :count] / (count - 1)
    return found


def warning(figures: Mapping[str, Any]) -> str | None:
    """Return why the sweeps of these figures are too few for predictions, if they are."""
    if figures and figures["sweeps"] < LEAST_TO_TELL:
        few = f"only {figures['sweeps']} sweeps after the burn-in"
        return f"{few}; at least {LEAST_TO_TELL} are needed to judge convergence"
    error = figures.get("error", 0.0)
    if error <= LARGEST_ERROR:
        return None
    return f"predictions vary by {error:.0%} of the labels' noise between runs, more than {LARGEST_ERROR:.0%}"
