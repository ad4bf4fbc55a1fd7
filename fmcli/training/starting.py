"""Where parameters begin if a run resumes from a model, other than at its values.

New features begin at their minimum, given all else, if a stochastic solver resumes.

From random start values, an epoch of an update would move the features that the model knows to what suits the new ones
as they are, and leave these far from where they belong. Features of few rows begin at their usual start values: their
minimum explains the labels of these rows, so the other features of the rows would not learn from them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fmcli.errors import UsageError
from fmcli.losses.loss import Loss
from fmcli.models.model import Model
from fmcli.penalties.penalty import Penalty
from fmcli.registry.specs import resolve
from fmcli.solvers.coordinate.new_features import NewFeaturesDescent
from fmcli.solvers.new_features import find

if TYPE_CHECKING:
    from fmcli.training.planning import Plan

# How near to the minimum: the solver continues from there.
EPOCHS, TOLERANCE = 10, 1e-3
# Features of fewer rows begin elsewhere. Chosen among 0, 5, 10, 20 and 40 on held-out rows of nights of ratings, by
# user and by time, and of clicks.
FEWEST_ROWS = 10


def start_at_minimum(plan: Plan, model: Model, loss: Loss) -> None:
    """Bring the new features of a model, which has the parameters of the warm start, to their minimum on the rows to
    train on, if these are in memory and the loss has one, and a feature is in several of them.

    Only a solver whose kept state limits the steps of known features continues from there: others would move these too
    far towards the new ones.
    """
    warm_start = plan.warm_start
    if warm_start is None or not plan.resumes or not warm_start.state or not warm_start.state.slots:
        return
    if not plan.spec.values["epochs"] or not plan.source.in_memory or plan.settings.stream or model.anchored:
        return
    try:
        spec = warm_start.of_new_features({})
    except UsageError:  # they have no minimum
        return
    data = plan.data if len(plan.rows) == plan.data.rows else plan.data.take(plan.rows)
    known = np.bincount(data.index, minlength=data.features) < FEWEST_ROWS
    seen = warm_start.transform.seen
    known[: len(seen)] |= seen[: len(known)]
    new_features = find(data, known)
    if not new_features.sets:
        return
    spec = resolve(spec, rows=1, nonzeros=data.nnz, features=data.features, validated=False)
    NewFeaturesDescent(
        model,
        loss,
        Penalty(l2_w=spec.values["l2_w"], l2_v=spec.values["l2_v"]),
        data.take(new_features.rows),
        plan.settings.threads,
        new_features=new_features,
        tol=TOLERANCE,
    ).run(EPOCHS, lambda loss, penalty: False)
