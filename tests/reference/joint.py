"""The joint distribution that Gibbs sampling draws from, and statistics of it.

A sweep that starts from parameters and labels of this distribution must leave it as it is (Geweke, Getting it right:
joint distribution tests of posterior simulators, 2004; here with independent starts, so the draws of a chain need
not be decorrelated).
"""

from collections.abc import Callable, Iterator

import numpy as np

from fmcli.data.dataset import Dataset
from fmcli.losses.loss import Ordinal, Probit, Squared
from fmcli.models.model import Model
from fmcli.penalties.penalty import Penalty
from fmcli.scoring.rows import score_rows
from fmcli.solvers.gibbs.sampler import GibbsSampler, Hyperpriors, is_bias

# Proper priors with light tails.
PROPER = Hyperpriors(
    noise_shape=5.0,
    noise_rate=4.0,
    prior_shape=5.0,
    prior_rate=3.0,
    prior_rate_w=3.0,
    mean_strength=2.0,
    bias_precision=1.5,
)
# The prior of the logarithms of the gaps between cutpoints.
GAPS = {"gap_mean": -0.5, "gap_std": 0.5}


def draw_prior(
    model: Model, rng: np.random.Generator, fields: np.ndarray | None = None, prior: Hyperpriors = PROPER
) -> float:
    """Draw all parameters of an allocated model from the prior; returns the precision of the labels.

    fields : (features) the field of each feature; each has its own distributions. None: all features are in one.
    """
    fields = np.zeros(model.features, dtype=np.int32) if fields is None else fields
    for layout in model.layout:
        if layout.trained and is_bias(layout):
            model.parameters["bias"][...] = rng.normal(size=model.parameters["bias"].shape) / prior.bias_precision**0.5
        elif layout.constraint == "simplex":
            (array,) = layout.body
            model.parameters[array.name][...] = rng.dirichlet(np.ones(array.columns))
        elif layout.trained:
            names = [*(array.name for array in layout.body), *([layout.weight] if layout.weight else [])]
            for name in names:
                values = model.parameters[name]
                # By feature, each field has a distribution for each place beside the axis of features.
                axis, shape = model.feature_axis(name), list(values.shape)
                if axis is None:
                    shape = [1]
                else:
                    shape[axis] = fields.max() + 1
                rate = prior.prior_rate_w if name == layout.weight else prior.prior_rate
                precision = rng.gamma(prior.prior_shape, 1 / rate, size=shape)
                mean = rng.normal(size=shape) / np.sqrt(prior.mean_strength * precision)
                if axis is not None:
                    precision, mean = (np.take(array, fields, axis=axis) for array in (precision, mean))
                values[...] = mean + rng.normal(size=values.shape) / np.sqrt(precision)
    if model.cutpoints:
        gaps = rng.normal(GAPS["gap_mean"], GAPS["gap_std"], size=model.cutpoints - 1)
        model.parameters["cutpoints"][...] = [0, *np.cumsum(np.exp(gaps))]
    model.project()
    model.remeasure()
    return float(rng.gamma(prior.noise_shape, 1 / prior.noise_rate))


def statistics(model: Model, data: Dataset, label: np.ndarray, noise: float) -> dict[str, float]:
    """Bounded statistics of parameters, labels and noise."""
    error = label - score_rows(model, data)[:, 0]
    found = {"error": np.log(np.mean(error**2)), "product": np.mean(error * label), "noise": np.log(noise)}
    for name, array in model.parameters.items():
        values = array.astype(np.float64).ravel()
        found |= {
            f"{name} mean": values.mean(),
            f"{name} size": np.log(np.mean(values**2) + 1e-3),
            f"{name} first": values[0],
            f"{name} last": values[-1],
            f"{name} labels": values[-1] * label.mean(),
            f"{name} pair": values[0] * values[-1],
            f"{name} label": values[0] * label[0],
        }
    if model.cutpoints > 1:  # the wider a gap, the more labels are in it
        gaps = np.log(np.diff(model.parameters["cutpoints"][0].astype(np.float64))) - GAPS["gap_mean"]
        shares = np.bincount(label.astype(int), minlength=model.cutpoints + 1)[1:-1] / len(label)
        found |= {"gaps shares": 5 * np.mean(gaps * (shares - 1 / (model.cutpoints + 1)))}
    return {name: float(np.tanh(value)) for name, value in found.items()}


def differences(
    make: Callable[[], Model],
    data: Dataset,
    sampler: type[GibbsSampler],
    replicates: int,
    *,
    probit: bool = False,
    cutpoints: int = 0,
    fields: np.ndarray | None = None,
    seen: np.ndarray | None = None,
    sweeps: int = 2,
    seed: int = 0,
) -> Iterator[dict[str, float]]:
    """Yield, for independent starts, what some sweeps change in the statistics; the mean of each must be 0.

    probit, cutpoints : whether labels are signs of latent variables, or how many cutpoints are below these.
    seen : (features) whether rows have each feature; None: they have all.
    """
    rng = np.random.default_rng(seed)
    model = make()
    model.cutpoints = cutpoints
    model.allocate(0)
    loss = Ordinal(outputs=cutpoints, **GAPS) if cutpoints else Probit() if probit else Squared()
    latent = probit or cutpoints > 0
    for number in range(replicates):
        noise = draw_prior(model, rng, fields)
        score = score_rows(model, data)
        random = rng.normal(size=data.rows) / (1 if latent else noise) ** 0.5
        label = score[:, 0] + random
        if cutpoints:
            label = (score > -random[:, None]).sum(axis=1).astype(float)
        elif probit:
            label = np.where(label > 0, 1.0, -1.0)
        noise = 1 if latent else noise
        before = statistics(model, data, label, noise)
        engine = sampler(
            model,
            loss,
            Penalty(),
            data.changed(label=label),
            hyperpriors=PROPER,
            seed=seed,
            swept=sweeps * number,
            fields=fields,
            seen=seen,
            generator=lambda sweep, block: np.random.default_rng([seed + 1, sweep, block]),
        )
        engine.run(sweeps, lambda loss, penalty: False)
        after = statistics(model, data, label, engine.priors.noise)
        yield {name: after[name] - before[name] for name in before}


def z_scores(found: list[dict[str, float]]) -> dict[str, float]:
    """The z-score of each statistic's mean difference; 0 if it never changes."""
    scores = {}
    for name in found[0]:
        values = np.array([each[name] for each in found])
        deviation = values.std(ddof=1)
        scores[name] = float(values.mean() / deviation * len(values) ** 0.5) if deviation > 0 else 0.0
    return scores
