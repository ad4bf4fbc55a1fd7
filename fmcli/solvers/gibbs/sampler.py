"""Gibbs sampling: draws of all parameters from their posterior distribution ([FST], [R12])."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.random import default_rng
from numpy.typing import NDArray

from fmcli.data.fields import NO_GROUP
from fmcli.losses.loss import Ordinal, Probit, Squared
from fmcli.models.layout import CUTPOINTS, BlockLayout, padded
from fmcli.models.parameters import Parameters
from fmcli.penalties.penalty import Penalty
from fmcli.records import dataclass
from fmcli.solvers.coordinate.descent import Descent
from fmcli.solvers.coordinate.minimizer import CoordinateDescent
from fmcli.solvers.gibbs.cutpoints import CutpointWalk
from fmcli.solvers.gibbs.priors import Priors
from fmcli.solvers.gibbs.update import GibbsUpdater
from fmcli.system.parallel import Pool, pool_of

Floats = NDArray[np.float64]

# The number of the noise in the keys of generators, among the numbers of the blocks.
NOISE = 1 << 8
# Numbers that each prior takes: mean and precision, and the sum and the squares of its parameters.
TABLES = 4
# Copies of the hyperparameters of each sweep: as they are recorded, and while their figures are computed.
RECORDS = 2
# The variance of parameters that are all 0, at the start, as a share of the variance of labels around their scores.
SHARE_OF_START = 0.1


@dataclass(frozen=True)
class Hyperpriors:
    """The distributions of the priors' parameters.

    noise_shape, noise_rate : of the Gamma distribution of the labels' precision.
    prior_shape, prior_rate : of the Gamma distribution of a prior's precision lambda.
    prior_rate_w : its rate for linear weights.
    mean_strength : k in the distribution N(0, 1 / (k lambda)) of a prior's mean.
    bias_precision : of the bias, whose mean is 0; 0 is a flat prior.
    """

    noise_shape: float = 0.5
    noise_rate: float = 0.5
    prior_shape: float = 0.5
    prior_rate: float = 0.5
    prior_rate_w: float = 0.5
    mean_strength: float = 1.0
    bias_precision: float = 0.0


class GibbsSampler(CoordinateDescent):
    """Draws from the posterior of a model's parameters, with the engine of coordinate descent.

        y_i ~ N(f_i, 1 / (alpha w_i)) for rows with the weights w_i; probit: z_i ~ N(f_i, 1), y_i = sign of z_i
        ordinal: y_i = number of cutpoints below z_i, 0 = c_1 < c_2 < .., log(c_{j+1} - c_j) ~ N(gap mean, gap std^2)
        each parameter ~ N(mu, 1 / lambda); mu | lambda ~ N(0, 1 / (k lambda)); alpha, lambda ~ Gamma
        bias ~ N(0, 1 / lambda_0); weights of degrees uniform on the simplex

    The features of a field have the same mu and lambda, one pair for each factor of each array. An array that is not by
    feature has one pair. A sweep draws alpha, or the cutpoints and the z_i; and then for each block its pairs, lambda
    with mu integrated out, and its rows (GibbsUpdater). Features that do not occur do not count for mu and lambda; they
    are drawn from their prior. As long as all parameters with the same mu and lambda are 0, as weights are at the
    start, these are not drawn but fixed.

    The next sweep depends on its number and the parameters only.
    """

    updaters: Sequence[GibbsUpdater]

    def prepare(
        self,
        by_gradient: bool = False,
        hyperpriors: Hyperpriors = Hyperpriors(),  # noqa: B008
        seed: int = 0,
        generator: Callable[[int, int], np.random.Generator] = lambda sweep, block: default_rng([sweep, block]),
        swept: int = 0,
        fields: NDArray[np.int32] | None = None,
        seen: NDArray[np.bool_] | None = None,
        summed: bool = False,
    ) -> None:
        """Allocate the states of samples.

        Parameters
        ----------
        by_gradient : see Descent.
        seed : of the numbers that parameters and latent variables are drawn with.
        generator : returns the generator that draws the priors, for the sweep and the number of a block, or NOISE.
        swept : sweeps of earlier runs, whose numbers are not used again.
        fields : (features) the field of each feature, or NO_GROUP if it is not known; each field has its own priors.
            None: all features are in one field.
        seen : (features) whether the parameters of a feature depend on rows of the run or on earlier rows; other
            features are drawn from their prior, if their field is known. None: all do.
        summed : whether rows have their own weights, not shares of their sum.
        """
        self.hyperpriors, self.generator, self.swept = hyperpriors, generator, swept
        self.latent = isinstance(self.loss, (Probit, Ordinal))
        self.rows = self.data.total_weight()
        self.descent = Descent(self.model, Squared(), Penalty(), self.data, by_gradient=by_gradient, summed=summed)
        self.priors = Priors(self.descent, seed, None if fields is None else np.maximum(fields, 0))
        unseen = np.zeros(self.model.features, dtype=np.bool_) if seen is None else ~seen
        self.unseen = np.flatnonzero(unseen if fields is None else unseen & (fields != NO_GROUP)).astype(np.int32)
        self.priors.weight = 1.0 if summed else self.priors.weight
        self.priors.flat = hyperpriors.bias_precision
        ordinal = self.loss if isinstance(self.loss, Ordinal) and self.loss.outputs > 1 else None
        self.walk = ordinal and CutpointWalk(ordinal, self.data.label)
        self._begin()
        for number, layout in enumerate(self.model.layout):
            self.priors.precision[number][...] = np.inf  # of padding
            if is_bias(layout):
                self.priors.precision[number][:, -1] = hyperpriors.bias_precision

    def _updater(self) -> GibbsUpdater:
        return GibbsUpdater(self.priors)

    def run(self, epochs: int, after: Callable[[float, float], bool]) -> None:
        self.model.end_epoch()  # by now it is known which rows enter samples at all
        self.drawn = {
            number: np.sort(np.concatenate([sweep.order for sweep in sweeps])) for number, sweeps in self.sweeps.items()
        }
        with pool_of(self.threads) as pool:
            loss = self._measured(pool)
            while self.ended < epochs:
                self.priors.sweep = self.swept + self.ended + 1
                self._draw_noise(pool, loss)
                self.epoch(pool, self.ended + 1)
                self.ended += 1
                self.model.end_epoch()
                loss = self._measured(pool)
                if after(loss, 0.0):
                    break

    def hyperparameters(self) -> dict[str, Floats]:
        """Return the precision of the labels, if it is drawn; and the sum of the variances of the priors, for each
        group of features and each array, or each array that is not by feature."""
        found = [np.zeros(0)]
        for number in self.blocks:
            layout = self.model.layout[number]
            if not has_priors(layout):
                continue
            variances = 1 / self.priors.precision[number]
            groups = self.priors.groups if layout.by_feature else 1
            of_rows = variances.reshape(groups, -1, layout.lanes + 1).sum(axis=1)
            found += [of_rows[:, :-1].sum(axis=1)] * bool(layout.body) + [of_rows[:, -1]] * bool(layout.weight)
        return {"alpha": np.array([] if self.latent else [self.priors.noise]), "priors": np.concatenate(found)}

    def numbers_of_priors(self) -> Floats:
        """Return (2, priors) the means and precisions of the priors, each once; see priors_in."""
        blocks = self._blocks_with_priors()
        tables = self.priors.mean, self.priors.precision
        return np.array(
            [
                np.concatenate([np.zeros(0), *(table[number][:, firsts(groups)].ravel() for number, groups in blocks)])
                for table in tables
            ]
        )

    def _blocks_with_priors(self) -> list[tuple[int, list[list[int]]]]:
        """Return the blocks whose priors are drawn, and the columns of each prior."""
        layouts = enumerate(self.model.layout)
        return [(number, shared_columns(layout)) for number, layout in layouts if layout.trained and has_priors(layout)]

    def _draw_noise(self, pool: Pool, loss: float) -> None:
        """Draw the precision of the labels, given the mean loss, or cutpoints and latent variables of precision 1."""
        if self.latent:
            if self.walk:
                self._draw_cutpoints(pool, self.walk, loss)
            self._by_samples(pool, GibbsUpdater.draw_latents)
            return
        prior, squares = self.hyperpriors, 2 * self.priors.weight * loss
        generator = self.generator(self.priors.sweep, NOISE)
        self.priors.noise = generator.gamma(prior.noise_shape + self.rows / 2) / (prior.noise_rate + squares / 2)

    def _draw_cutpoints(self, pool: Pool, walk: CutpointWalk, loss: float) -> None:
        generator, cutpoints = self.generator(self.priors.sweep, NOISE), self.model.parameters[CUTPOINTS]
        walk.step(cutpoints, generator, -self.rows * loss, lambda: -self.rows * self._loss(pool))

    def _measured(self, pool: Pool) -> float:
        """Return the mean loss of the labels. All scores and caches are recomputed."""
        loss, _ = self.objective(pool)
        return self._loss(pool) if self.latent else loss

    def _loss(self, pool: Pool) -> float:
        """Return the mean loss of the labels, which latent variables have replaced."""
        sums: list[float] = self._by_samples(pool, lambda updater, *bounds: updater.losses(self.loss, *bounds))
        return sum(sums)

    @staticmethod
    def is_entered(layout: BlockLayout) -> bool:
        """Return whether the priors of a block are drawn."""
        return has_priors(layout)

    @np.errstate(over="ignore", invalid="ignore", divide="ignore")  # the loss shows parameters that are not finite
    def _enter(self, number: int) -> None:
        """Draw the priors of a block."""
        layout, generator = self.model.layout[number], self.generator(self.priors.sweep, number)
        count, total, squares = self.priors.moments(number, self.drawn[number])
        groups = shared_columns(layout)
        sizes = np.array([len(columns) for columns in groups])
        columns, ends = np.concatenate(groups), np.cumsum(sizes)
        total, squares = (np.add.reduceat(sums[:, columns], ends - sizes, axis=1) for sums in (total, squares))
        rates = np.full(len(groups), self.hyperpriors.prior_rate)
        if layout.weight:
            rates[-1] = self.hyperpriors.prior_rate_w
        mean, precision = self._normal_gamma(generator, count[:, None] * sizes, total, squares, rates)
        start = squares == 0  # nothing is known yet: a drawn precision would be as large as the number of parameters
        mean[start], precision[start] = 0, self.priors.noise / SHARE_OF_START
        self.priors.mean[number][:, columns] = np.repeat(mean, sizes, axis=1)
        self.priors.precision[number][:, columns] = np.repeat(precision, sizes, axis=1)
        if layout.by_feature:
            self.priors.draw(number, self.unseen)

    def _normal_gamma(
        self, generator: np.random.Generator, count: Floats, total: Floats, squares: Floats, rate: Floats
    ) -> tuple[Floats, Floats]:
        """Draw means and precisions of normal distributions, given the moments of the numbers that have them, and the
        rates of the precisions' own distributions."""
        prior = self.hyperpriors
        k, number = prior.mean_strength, np.maximum(count, 1)
        deviations = np.maximum(squares - total**2 / number, 0) + k * total**2 / (number * (k + count))
        precision = generator.gamma(prior.prior_shape + count / 2) / (rate + deviations / 2)
        mean = generator.normal(total / (k + count), 1 / np.sqrt((k + count) * precision))
        return mean, precision


def bytes_of_priors(model: Parameters, fields: int, sweeps: int) -> int:
    """Return the bytes of the priors for features of this number of fields, of their moments, of the numbers of
    features drawn from them, and of the watched numbers of all sweeps."""
    rows = [fields * layout.rows_each if layout.by_feature else 1 for layout in model.layout]
    numbers = sum(TABLES * count * (layout.lanes + 1) for count, layout in zip(rows, model.layout, strict=True))
    watched = 1 + sum(2 * (fields if layout.by_feature else 1) for layout in model.layout)
    unseen = np.dtype(np.int32).itemsize * model.features
    return np.dtype(np.float64).itemsize * (numbers + RECORDS * watched * sweeps) + unseen


def is_bias(layout: BlockLayout) -> bool:
    """Return whether a block has the bias, or the biases of anchors."""
    return layout.weight == "bias"


def has_priors(layout: BlockLayout) -> bool:
    """Return whether the priors of a block are drawn."""
    return not is_bias(layout) and layout.constraint != "simplex"


def firsts(groups: list[list[int]]) -> list[int]:
    """Return the first column of each group."""
    return [columns[0] for columns in groups]


def shared_columns(layout: BlockLayout) -> list[list[int]]:
    """Return the columns of a block's priors that have one mean and precision: in a block by feature each column,
    otherwise the columns of each array."""
    groups: list[list[int]] = []
    begin = 0
    for array in layout.body:
        columns: list[int] = []
        for _ in range(array.vectors):
            columns += range(begin, begin + array.columns)
            begin += padded(array.columns)
        groups += [[column] for column in columns] if layout.by_feature else [columns]
    return [*groups, [layout.lanes]] if layout.weight else groups
