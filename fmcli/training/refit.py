"""Refitting: once held-out rows have chosen the number of epochs, the model is trained again on all rows.

So the rows that were held out are not lost, and the epochs are not chosen by rows that the model has seen.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from fmcli.errors import DivergedError
from fmcli.registry.streams import PREPARE_STREAM, generator
from fmcli.training.job import Epoch, Plan, Trained, make_model, make_solver, train

# Epochs x non-zeros x rank up to which a second run is worth its time unless asked for: some seconds. A count and not
# the clock, so that the same data give the same bytes everywhere.
AFFORDABLE = 2e8


def refits(plan: Plan, asked: bool | None) -> bool:
    """Whether a run trains again on all rows: if some are held out, as asked for, else where it is cheap."""
    epochs = plan.spec.values["epochs"]
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
    model = make_model(spec, first.model.features, first.labels, first.fields)
    model.prepare(first.data, rows, generator(spec, PREPARE_STREAM))
    if first.earlier:
        model.inherit(first.earlier.model, first.earlier.seen)
    # The first model stays, for the second may diverge; it has the place of the best epoch's copy.
    held = first.held + model.bytes_needed(make_solver(spec).slots)
    return replace(first, spec=spec, rows=rows, model=model, validation=None, held=held)


def refit(
    chosen: Trained,
    plan: Plan,
    *,
    on_epoch: Callable[[Epoch], None] = lambda epoch: None,
    on_rows: Callable[[int, int], None] = lambda epoch, rows: None,
    on_loss: Callable[[int, int, float], None] = lambda epoch, rows, loss: None,
    every: int | None = None,
) -> Trained:
    """Train on all rows, from the same start or earlier model as the run that chose the number of epochs.

    Parameters
    ----------
    chosen : that run.
    plan : what `whole` makes of it.
    on_epoch, on_rows, on_loss, every : as training.train has them.

    Raises DivergedError, with the run that chose as its `trained`.
    """
    try:
        again = train(plan, on_epoch=on_epoch, on_rows=on_rows, on_loss=on_loss, every=every)
    except DivergedError as error:
        error.trained = chosen
        raise
    return replace(again, plan=replace(plan, spec=chosen.plan.spec), chosen_by=chosen)
