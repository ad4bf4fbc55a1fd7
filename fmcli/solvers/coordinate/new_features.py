"""Coordinate descent over the parameters of new features only."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fmcli.base.state_dict import require_names
from fmcli.models.parameters import Resumable
from fmcli.solvers.coordinate.columns import Columns
from fmcli.solvers.coordinate.descent import Descent
from fmcli.solvers.coordinate.minimizer import CoordinateDescent
from fmcli.solvers.new_features import NONE, NewFeatures
from fmcli.solvers.trainer import RunState
from fmcli.system.parallel import Pool


class NewFeaturesDescent(CoordinateDescent):
    """Cyclic descent on the SUM of the losses plus penalty, by the parameters of new features; all others are constant.

    Each set of new features ends on its own, once no parameter of it moves in an epoch by more than `tol` times the
    largest one that moves. So the result for a set depends on its rows alone, bit by bit.
    """

    def prepare(self, by_gradient: bool = False, *, new_features: NewFeatures | None = None, tol: float = 0.0) -> None:
        """Allocate the states of samples."""
        self.descent = Descent(self.model, self.loss, self.penalty, self.data, by_gradient=by_gradient, summed=True)
        self._watch(new_features, tol, self.data.total_weight())
        self._begin()

    def _watch(self, new_features: NewFeatures | None, tol: float, total: float) -> None:
        """Watch the new features in the descent, on rows with this total weight."""
        assert new_features is not None
        self.new_features, self.tol, self.total = new_features, tol, total
        self.active = np.ones(new_features.sets, dtype=np.bool_)
        self.descent.watch()
        self.set_of_row = sets_of_rows(self.model, new_features)

    def _order(self, number: int, columns: Columns) -> NDArray[np.int32]:
        order = super()._order(number, columns)
        sets = self.set_of_row[number][order]
        chosen: NDArray[np.int32] = order[(sets != NONE) & self.active[sets]]
        return chosen

    def objective(self, pool: Pool) -> tuple[float, float]:
        """Return the mean loss, and the penalty in proportion."""
        loss, penalty = super().objective(pool)
        return loss / self.total, penalty / self.total

    def _step_apart(self, pool: Pool) -> None:
        """Leave out the sets that have reached their minimum. Parameters that are in no block are constant."""
        moved, size = np.zeros((2, len(self.active)))
        for number, sweeps in self.sweeps.items():
            watched = self.descent.watched[number]
            for sweep in sweeps:
                sets = self.set_of_row[number][sweep.order]
                np.maximum.at(moved, sets, watched[0][sweep.order])
                np.maximum.at(size, sets, watched[1][sweep.order])
            watched[...] = 0
        still = self.active & (moved > self.tol * size)
        if not np.array_equal(still, self.active):
            self._train_only(still)

    def state(self) -> RunState:
        return {**super().state(), "active": self.active.astype(np.uint8)}

    def load_state(self, state: RunState, epochs: int) -> None:
        require_names(state, self.state())
        active = state["active"]
        if active.shape != self.active.shape or active.dtype != np.uint8:
            raise ValueError("active is not of these new features")
        super().load_state({"ended": state["ended"]}, epochs)
        self._train_only(active.astype(np.bool_))

    def _train_only(self, active: NDArray[np.bool_]) -> None:
        """Train the sets (sets) that have not reached their minimum."""
        self.active, self.done = active, not active.any()
        self._lay_out(self.blocks)


def sets_of_rows(model: Resumable, new_features: NewFeatures) -> list[NDArray[np.int32]]:
    """Return for each block (rows) the set of new features that each row belongs to, or NONE."""
    owners = (model.owners(number, new_features.features) for number in range(len(model.layout)))
    return [np.where(owner == NONE, NONE, new_features.number[owner]).astype(np.int32) for owner in owners]
