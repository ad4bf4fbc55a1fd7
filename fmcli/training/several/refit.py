"""Refitting: once held-out rows have chosen the number of epochs, the model is trained again on all rows.

So the held-out rows are not lost, and the number of epochs is not chosen on rows that the model has seen.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from fmcli.errors import DivergedError
from fmcli.solvers.trainer import Observer
from fmcli.training.checkpoint import Checkpointer
from fmcli.training.job import train
from fmcli.training.planning import Plan
from fmcli.training.prepared import prepared_model
from fmcli.training.setup.settings import affordable_parts, visits_of
from fmcli.training.trained import Epoch, Trained
from fmcli.training.validation import compares_last


def refits(plan: Plan) -> bool:
    """Return whether a run trains again on all rows. Some must be held out, and nobody has interrupted it; the settings
    decide, or by default the cost."""
    held_out, interrupt = plan.validation is not None and plan.validation.held_out, plan.settings.interrupt
    return held_out and not (interrupt and interrupt.is_set()) and plan.settings.refits(plan.spec, plan.source)


def affordable(plan: Plan) -> bool:
    """Return whether another run on the same rows takes little time."""
    return share_of(plan) == 1


def share_of(plan: Plan) -> int:
    """Return into how many parts the rows must be divided so that a run on one of them takes little time."""
    return affordable_parts(plan.spec, plan.source)


def visits(plan: Plan) -> int:
    """Return non-zeros x rank, by which the time of an epoch grows."""
    return visits_of(plan.spec, plan.source)


def trains_once(plan: Plan) -> bool:
    """Return whether a run is on all rows from the start: its solver samples, so rows that are held out by default have
    only compared options."""
    settings, held_out = plan.settings, plan.validation is not None and plan.validation.held_out
    by_default = settings.holdout is None and settings.choices.refit is not False
    return held_out and by_default and plan.spec.solver_entry.is_sampler


def on_all_rows(plan: Plan, epochs: int) -> Plan:
    """Return the plan of the same run on all rows, for this number of epochs."""
    spec = replace(plan.spec, values={**plan.spec.values, "epochs": epochs})
    plan = plan.on(plan.source.whole())
    model = prepared_model(spec, plan.source, plan.transform, plan.warm_start)
    return replace(plan, spec=spec, model=model, validation=None, compares_last=compares_last(spec))


def whole(chosen: Trained) -> Plan:
    """Return the plan of the same run on all rows, for the best number of epochs."""
    first = chosen.plan
    plan = on_all_rows(first, first.refit_epochs or chosen.best)
    # The first model is kept, because the second may diverge; it takes the place of the copy of the best epoch.
    return replace(plan, held=first.held + plan.model.bytes_needed(first.slots))


def refit(
    chosen: Trained,
    plan: Plan,
    on_epoch: Callable[[Epoch], bool | None] = lambda epoch: None,
    observer: Observer | None = None,
    keeper: Checkpointer | None = None,
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
