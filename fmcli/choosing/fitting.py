"""A run: kinds, solvers and options are compared, the model is trained, and trained again on all rows. Every front end
makes its runs here, and hears of them by `Events`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from threading import Lock
from typing import Any

from fmcli.choosing.automatic import choose_once
from fmcli.choosing.request import SearchResult
from fmcli.solvers.trainer import Observer
from fmcli.training.checkpoint import Checkpointer
from fmcli.training.job import train
from fmcli.training.planning import Plan
from fmcli.training.several.ensemble import ensemble_summary, train_ensemble
from fmcli.training.several.learning import learn
from fmcli.training.several.online import train_online
from fmcli.training.several.refit import on_all_rows, refit, refits, trains_once, whole
from fmcli.training.trained import Epoch, Trained, summary

# Called after every epoch of a run; True ends training.
OnEpoch = Callable[[Epoch], bool | None]


class Events:
    """What a front end does at the events of a run, in their order: nothing, unless a class overrides it."""

    def comparing(self, plan: Plan) -> None:
        """Tell that other kinds, solvers and options are compared now."""

    def compared(self, searched: SearchResult) -> None:
        """Receive the compared runs."""

    def planned(self, plan: Plan, searched: SearchResult, *, again: bool) -> None:
        """Tell the kind, the solver and the options of the run. again : whether all rows are trained on after it."""

    def observed(self, plan: Plan, *, again: bool, member: int = 0) -> tuple[OnEpoch, Observer]:
        """Return the observer of the run of a plan. again : whether the run is on all rows; member : its number in an
        ensemble, from 1, whose members train at the same time."""
        return lambda epoch: None, Observer()

    def chosen(self, trained: Trained, *, again: bool) -> None:
        """Tell the best epoch of the run, which has ended."""

    def refitting(self, plan: Plan) -> None:
        """Tell that the run of all rows begins."""

    def refitted(self, trained: Trained) -> None:
        """Tell that the run of all rows has ended."""


class EpochListener(Events):
    """Calls a function after each epoch, except the epochs of runs on all rows. The epochs of an ensemble have the
    number of their member; its threads take turns."""

    def __init__(self, on_epoch: OnEpoch) -> None:
        self._on_epoch, self._turn = on_epoch, Lock()

    def observed(self, plan: Plan, *, again: bool, member: int = 0) -> tuple[OnEpoch, Observer]:
        def told(epoch: Epoch) -> bool | None:
            with self._turn:
                return self._on_epoch(replace(epoch, member=member) if member else epoch)

        return (lambda epoch: None) if again else told, Observer()


def fit(
    plan: Plan,
    events: Events,
    members: int = 1,
    *,
    completed: Callable[[Plan], Plan] = lambda plan: plan,
    keeper: Checkpointer | None = None,
) -> tuple[Trained, dict[str, Any]]:
    """Return the trained model, or members of an ensemble, of a plan, and the summary.

    completed : returns a plan, whose kind, solver and options are chosen, with what needs these, such as the
        calibration of the model.
    keeper : keeps the state of the run; None: nothing is kept.

    Raises the errors of `train`.
    """
    keeper = keeper or Checkpointer()
    if keeper.choices is None:
        events.comparing(plan)
    plan, searched = choose_once(plan, keeper)
    events.compared(searched)
    if trains_once(plan):
        plan = on_all_rows(plan, plan.spec.values["epochs"])
    plan = completed(plan)
    again = refits(plan)
    events.planned(plan, searched, again=again)
    if members > 1:
        ensemble, each = train_ensemble(plan, members, events.observed)
        return ensemble, ensemble_summary(ensemble, each)
    keeper.belongs_to(plan, again)
    observed = events.observed(plan, again=False)
    if plan.new_features:
        trained = learn(plan, *observed, keeper)
        return trained, summary(trained)
    trained = train_online(plan, *observed) if plan.following else train(plan, *observed, keeper)
    events.chosen(trained, again=again)
    if again:
        of_all = whole(trained)
        events.refitting(of_all)
        trained = refit(trained, of_all, *events.observed(of_all, again=True), keeper)
        events.refitted(trained)
    return trained, summary(trained)
