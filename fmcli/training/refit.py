"""Refitting: once held-out rows have chosen the number of epochs, the model is trained again on all rows.

So the rows that were held out are not lost, and the epochs are not chosen by rows that the model has seen.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from fmcli.errors import DivergedError
from fmcli.registry.build import build_trainer
from fmcli.solvers.trainer import Observer
from fmcli.training.job import train
from fmcli.training.planning import Plan, prepared_model
from fmcli.training.trained import Epoch, Trained

# Epochs x non-zeros x rank up to which a second run is worth its time unless asked for: some seconds. A count and not
# the clock, so that the same data give the same bytes everywhere.
AFFORDABLE = 2e8


def refits(plan: Plan) -> bool:
    """Whether a run trains again on all rows: if some are held out, as its settings say, else if that is cheap."""
    epochs, asked = plan.spec.values["epochs"], plan.settings.refit
    if plan.validation is None or not plan.validation.held_out or not epochs:
        return False
    return epochs * plan.data.nnz * rank_of(plan) <= AFFORDABLE if asked is None else asked


def rank_of(plan: Plan) -> int:
    """Numbers that a feature has besides its weight; at least 1."""
    rank = plan.spec.values.get("rank", 1)
    return sum(rank) if isinstance(rank, list) else rank


def whole(chosen: Trained) -> Plan:
    """The plan of the same run on all rows, as many epochs long as the best one's number."""
    first = chosen.plan
    spec = replace(first.spec, values={**first.spec.values, "epochs": chosen.best})
    rows = np.arange(first.data.rows, dtype=np.int32)
    model = prepared_model(spec, first.data, rows, first.labels.outputs, first.fields, first.earlier)
    plan = replace(first, spec=spec, rows=rows, model=model, validation=None)
    # The first model stays, for the second may diverge; it has the place of the best epoch's copy.
    return replace(plan, held=first.held + model.bytes_needed(build_trainer(plan.task).slots))


def refit(
    chosen: Trained,
    plan: Plan,
    on_epoch: Callable[[Epoch], None] = lambda epoch: None,
    observer: Observer | None = None,
) -> Trained:
    """Train on all rows, from the same start or earlier model as the run that chose the number of epochs.

    Parameters
    ----------
    chosen : that run.
    plan : what `whole` makes of it.
    on_epoch, observer : as `train` has them.

    Raises DivergedError, with the run that chose as its `trained`.
    """
    try:
        again = train(plan, on_epoch, observer)
    except DivergedError as error:
        error.trained = chosen
        raise
    return replace(again, plan=replace(plan, spec=chosen.plan.spec), chosen_by=chosen)
