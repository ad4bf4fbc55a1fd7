"""Training by Gibbs sampling."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fmcli.errors import UsageError
from fmcli.losses.loss import Loss, Squared
from fmcli.penalties.penalty import Penalty
from fmcli.registry.solvers import HYPERPRIORS
from fmcli.registry.streams import SAMPLING_STREAM, generator
from fmcli.solvers.gibbs.sampler import GibbsSampler, Hyperpriors, bytes_of_priors
from fmcli.solvers.minimizer import MinimizingTrainer
from fmcli.solvers.trainer import Observer


class GibbsTrainer(MinimizingTrainer):
    """Draws parameters; an epoch is a sweep. Its draws are kept by training/draws.py."""

    minimizer = GibbsSampler

    def bytes_needed(self) -> int:
        fields = self.task.source.fields
        count = 1 if fields is None else 1 + int(fields.max(initial=0))
        return super().bytes_needed() + bytes_of_priors(self.task.model, count, self.task.spec.values["epochs"])

    def hyperparameters(self) -> dict[str, NDArray[np.float64]]:
        assert isinstance(self.engine, GibbsSampler)
        return self.engine.hyperparameters()

    def prepare(self, loss: Loss, penalty: Penalty, observer: Observer) -> None:
        task, spec = self.task, self.task.spec
        data = task.training_data()
        if data.weight is not None and not isinstance(loss, Squared):
            raise UsageError(
                f"mcmc takes the weights of rows as precisions of their labels, which {spec.loss} labels do not have; "
                "leave out the weights, or use another solver"
            )
        self.engine = GibbsSampler(
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
            fields=task.source.fields,
        )
