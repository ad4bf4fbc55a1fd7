"""Training by coordinate descent."""

from __future__ import annotations

from typing import Any

from fmcli.solvers.coordinate.minimizer import CoordinateDescent
from fmcli.solvers.coordinate.new_features import NewFeaturesDescent
from fmcli.solvers.minimizer import Minimizer, MinimizingTrainer


class CoordinateTrainer(MinimizingTrainer):
    """Trains by coordinate descent."""

    minimizer = CoordinateDescent

    def chosen(self) -> tuple[type[Minimizer], dict[str, Any]]:
        new_features = self.task.new_features
        if new_features is None:
            return super().chosen()
        return NewFeaturesDescent, {"new_features": new_features, "tol": self.task.spec.values["tol"]}
