"""A whole run: the look before it, the run, and the refit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from threading import Lock
from typing import Any

from fmcli.choosing.look import Looked, look
from fmcli.scoring.calibration import Calibration
from fmcli.solvers.trainer import Observer
from fmcli.training.job import train
from fmcli.training.planning import Plan
from fmcli.training.several.ensemble import Observing, ensemble_summary, train_ensemble
from fmcli.training.several.learning import learn
from fmcli.training.several.refit import refit, refits, whole
from fmcli.training.trained import Epoch, Trained, summary


def completed(
    plan: Plan,
    members: int = 1,
    on_epoch: Callable[[Epoch], bool | None] = lambda epoch: None,
    on_looks: Callable[[Looked], None] = lambda looked: None,
    on_refit: Callable[[Trained], None] = lambda chosen: None,
    calibrate: Callable[[Plan], Calibration | None] = lambda plan: None,
) -> tuple[Trained, dict[str, Any]]:
    """Return the trained model, or so many members of an ensemble, of a plan, after a look and with a refit, and the
    summary.

    on_epoch : called after every epoch, except the epochs of the refit; see `train`. The epochs of an ensemble have the
        number of their member; there, one thread at a time calls it.
    on_looks, on_refit : called with what the look has compared, and before a refit.
    calibrate : returns the calibration of the model of a plan, whose kind, solver and options are chosen.

    Raises the errors of `train`.
    """
    if plan.newcomers:
        trained = learn(plan, on_epoch)
        return trained, summary(trained)
    plan, looked = look(plan)
    on_looks(looked)
    plan = replace(plan, calibration=calibrate(plan))
    if members > 1:
        ensemble, each = train_ensemble(plan, members, telling(on_epoch))
        return ensemble, ensemble_summary(ensemble, each)
    trained = train(plan, on_epoch)
    if refits(plan):
        on_refit(trained)
        trained = refit(trained, whole(trained))
    return trained, summary(trained)


def telling(on_epoch: Callable[[Epoch], bool | None]) -> Observing:
    """Return what calls a function after each epoch of the members of an ensemble, whose threads take turns."""
    turn = Lock()

    def observing(number: int, plan: Plan, again: bool) -> tuple[Callable[[Epoch], bool | None], Observer]:
        def told(epoch: Epoch) -> bool | None:
            with turn:
                return None if again else on_epoch(replace(epoch, member=number))

        return told, Observer()

    return observing
