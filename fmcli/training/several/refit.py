"""Refitting: once held-out rows have chosen the number of epochs, the model is trained again on all rows.

So the held-out rows are not lost, and the number of epochs is not chosen on rows that the model has seen.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from fmcli.errors import DivergedError
from fmcli.registry.build import build_trainer
from fmcli.solvers.trainer import Observer
from fmcli.training.checkpoint import Keeper
from fmcli.training.job import train
from fmcli.training.planning import Plan, occurring, prepared_model
from fmcli.training.trained import Epoch, Trained

# By default, refit if non-zeros x rank is at most this: an epoch takes some hundredths of a second. It is a count, not
# a time, so that the same data give the same bytes on every machine.
AFFORDABLE = 7e6


def refits(plan: Plan) -> bool:
    """Return whether a run trains again on all rows. Some must be held out; the settings decide, or by default the
    cost."""
    epochs, asked = plan.spec.values["epochs"], plan.settings.refit
    if plan.validation is None or not plan.validation.held_out or not epochs:
        return False
    cheap = affordable(plan) or bool(plan.settings.rivals)
    return plan.settings.deadline is None and cheap if asked is None else asked


def affordable(plan: Plan) -> bool:
    """Return whether another run on the same rows takes little time."""
    return share_of(plan) == 1


def share_of(plan: Plan) -> int:
    """Return into how many parts the rows must be divided so that a run on one of them takes little time."""
    return max(1, math.ceil(visits(plan) / AFFORDABLE))


def visits(plan: Plan) -> int:
    """Return non-zeros x rank, by which the time of an epoch grows."""
    return plan.source.all_nonzeros * rank_of(plan)


def rank_of(plan: Plan) -> int:
    """Return the number of factors of a feature; at least 1."""
    rank = plan.spec.values.get("rank", 1)
    return sum(rank) if isinstance(rank, list) else rank


def whole(chosen: Trained) -> Plan:
    """Return the plan of the same run on all rows, for the best number of epochs."""
    first = chosen.plan
    spec = replace(first.spec, values={**first.spec.values, "epochs": first.refit_epochs or chosen.best})
    source = first.source.whole()
    model = prepared_model(spec, source, first.transform, first.warm_start)
    seen, counts, transform = occurring(source, first.transform, first.settings)
    plan = replace(
        first,
        spec=spec,
        source=source,
        transform=transform,
        seen=seen,
        counts=counts,
        model=model,
        validation=None,
    )
    # The first model is kept, because the second may diverge; it takes the place of the copy of the best epoch.
    held = first.memory.held + model.bytes_needed(build_trainer(plan.task).slots)
    return replace(plan, memory=replace(first.memory, held=held))


def refit(
    chosen: Trained,
    plan: Plan,
    on_epoch: Callable[[Epoch], None] = lambda epoch: None,
    observer: Observer | None = None,
    keeper: Keeper | None = None,
) -> Trained:
    """Train on all rows, from the same start values or warm start as the run that chose the number of epochs.

    Parameters
    ----------
    chosen : that run.
    plan : the plan that `whole` returns for it.
    on_epoch, observer, keeper : see `train`.

    Raises DivergedError, whose `trained` is the run that chose the number of epochs.
    """
    try:
        again = train(plan, on_epoch, observer, keeper)
    except DivergedError as error:
        error.trained = chosen
        raise
    return replace(again, plan=replace(plan, spec=chosen.plan.spec), chosen_by=chosen)
