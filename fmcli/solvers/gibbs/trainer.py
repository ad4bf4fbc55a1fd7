"""Training by Gibbs sampling."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fmcli.data.fields import NO_GROUP, group_numbers
from fmcli.errors import UsageError
from fmcli.losses.loss import Loss, Squared
from fmcli.models.drawn import NOISE, PRIOR_GROUPS, PRIORS
from fmcli.penalties.penalty import Penalty
from fmcli.registry.solvers import HYPERPRIORS
from fmcli.registry.streams import SAMPLING_STREAM, generator
from fmcli.solvers.gibbs.new_features import NewFeaturesSampler
from fmcli.solvers.gibbs.sampler import GibbsSampler, Hyperpriors, bytes_of_priors
from fmcli.solvers.minimizer import MinimizingTrainer
from fmcli.solvers.trainer import Observer, Task


def places_of_groups(task: Task) -> NDArray[np.int32] | None:
    """Return (features) the places of the groups of new features among the groups that have priors in the draw of a
    task; None: all features are in one group.

    Raises UsageError for new features in another group.
    """
    assert task.drawn is not None
    assert task.new_features is not None
    ours, theirs = task.groups, task.drawn[PRIOR_GROUPS]
    if theirs.tolist() == [NO_GROUP]:
        return None
    if ours is None:
        raise UsageError("the model has priors for each field, and the rows have no fields; give rows with fields")
    places = np.minimum(np.searchsorted(theirs, ours.numbers), len(theirs) - 1)
    unknown = np.flatnonzero(theirs[places] != ours.numbers)
    if np.isin(ours.place[task.new_features.features], unknown).any():
        raise UsageError(f"the model has no priors for new features of field {ours.numbers[unknown[0]]}")
    return np.asarray(places[ours.place], dtype=np.int32)


class GibbsTrainer(MinimizingTrainer):
    """Draws parameters; an epoch is a sweep. Its draws are kept by training/draws.py."""

    minimizer = GibbsSampler

    def bytes_needed(self) -> int:
        count = len(group_numbers(self.task.groups))
        return super().bytes_needed() + bytes_of_priors(self.task.model, count, self.task.spec.values["epochs"])

    def hyperparameters(self) -> dict[str, NDArray[np.float64]]:
        assert isinstance(self.engine, GibbsSampler)
        return self.engine.hyperparameters()

    def kept_with_draws(self) -> dict[str, NDArray[np.float64]]:
        assert isinstance(self.engine, GibbsSampler)
        noise = {} if self.engine.latent else {NOISE: np.array(self.engine.priors.noise)}
        return {**noise, PRIORS: self.engine.numbers_of_priors()}

    def prepare(self, loss: Loss, penalty: Penalty, observer: Observer) -> None:
        task, spec = self.task, self.task.spec
        data = task.training_data()
        if data.weight is not None and not isinstance(loss, Squared):
            raise UsageError(
                f"{spec.solver} takes the weights of rows as precisions of their labels, which {spec.loss} labels do "
                "not have; leave out the weights, or use another solver"
            )
        fields, minimizer = None if task.groups is None else task.groups.place, GibbsSampler
        arguments: dict[str, Any] = {"seen": task.seen}
        if task.new_features is not None:
            fields, minimizer = places_of_groups(task), NewFeaturesSampler
            arguments = {"new_features": task.new_features, "drawn": task.drawn}
        self.engine = minimizer(
            task.model,
            loss,
            penalty,
            data,
            task.threads,
            observer.rows,
            hyperpriors=Hyperpriors(**{name: spec.values[name] for name in HYPERPRIORS}),
            seed=spec.values["seed"],
            generator=lambda sweep, block: generator(spec, SAMPLING_STREAM, sweep, block),
            swept=task.epochs_before,
            fields=fields,
            **arguments,
        )
