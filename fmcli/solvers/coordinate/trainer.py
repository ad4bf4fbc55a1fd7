"""Training by coordinate descent."""

from __future__ import annotations

from typing import Any

import numpy as np

from fmcli.data.dataset import Dataset
from fmcli.data.shards.observed_rows import ObservedRows
from fmcli.losses.loss import Loss
from fmcli.penalties.penalty import Penalty
from fmcli.registry.build import build_model
from fmcli.registry.models import MODELS
from fmcli.solvers.coordinate.minimizer import CoordinateDescent
from fmcli.solvers.coordinate.new_features import NewFeaturesDescent
from fmcli.solvers.coordinate.pair_links import PairLinks
from fmcli.solvers.coordinate.pairs import AllPairsDescent, NewPairsDescent
from fmcli.solvers.coordinate.pieces import trained_arrays
from fmcli.solvers.coordinate.prior import QuadraticPrior
from fmcli.solvers.minimizer import Minimizer, MinimizingTrainer
from fmcli.solvers.new_features import NewFeatures


class CoordinateTrainer(MinimizingTrainer):
    """Trains by coordinate descent."""

    minimizer = CoordinateDescent

    def chosen(self) -> tuple[type[Minimizer], dict[str, Any]]:
        new_features, source = self.task.new_features, self.task.source
        if isinstance(source, ObservedRows):
            links, known = PairLinks.of(source.sides, source.shares()), source.sides.known
            of_pairs = {"links": links, "strength": source.strength, "known": known}
            if new_features is None:
                return AllPairsDescent, of_pairs
            return NewPairsDescent, {**of_pairs, **self._of_new(new_features)}
        return super().chosen() if new_features is None else (NewFeaturesDescent, self._of_new(new_features))

    def _of_new(self, new_features: NewFeatures) -> dict[str, Any]:
        return {"new_features": new_features, "tol": self.task.spec.values["tol"]}

    def bytes_needed(self) -> int:
        task = self.task
        if not isinstance(task.source, ObservedRows):
            return super().bytes_needed()
        l2, epochs = 2 * task.model.bytes_needed(0), task.spec.values["epochs"]
        return l2 + AllPairsDescent.needed(task.model, task.source.sides, task.source.count, task.threads, epochs)

    def training_data(self) -> Dataset:
        source = self.task.source
        return source.sides.parts() if isinstance(source, ObservedRows) else super().training_data()

    def hold(self, loss: Loss, penalty: Penalty) -> QuadraticPrior | None:
        source = self.task.source
        return self._l2_by_pairs(source) if isinstance(source, ObservedRows) else super().hold(loss, penalty)

    def _l2_by_pairs(self, source: ObservedRows) -> QuadraticPrior:
        """Return the l2 penalty, which depends on the number of a feature's pairs."""
        model, spec = self.task.model, self.task.spec
        of_features, of_all = source.l2_scales()
        kind, l2 = MODELS[spec.model], Penalty(l2_w=spec.values["l2_w"], l2_v=spec.values["l2_v"])
        holds, pulls = (build_model(kind, model.features, model.outputs, spec.keywords(kind)) for _ in range(2))
        for twin in (holds, pulls):
            twin.pack()
            twin.allocate(0)
        for layout, name in trained_arrays(model):
            axis, strength = model.feature_axis(name), l2.l2(layout)[name == layout.weight]
            scale = (
                of_all if axis is None else np.expand_dims(of_features, [*range(1, model.parameters[name].ndim - axis)])
            )
            holds.parameters[name][...] = strength * scale
        return QuadraticPrior(holds, pulls, 0.0)
