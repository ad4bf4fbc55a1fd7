"""The events of a run from Python: the logger fmcli, the history of the epochs, and their observers."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fmcli.choosing.fitting import EpochListener
from fmcli.choosing.request import SearchResult
from fmcli.text import figure, figures_apart
from fmcli.training.planning import Plan
from fmcli.training.trained import Epoch, Trained, compared
from fmcli.training.verdict import verdict

LOG = logging.getLogger("fmcli")
LOG.addHandler(logging.NullHandler())

Callback = Callable[[Epoch], bool | None]


class Recording(EpochListener):
    """Logs the events of a run, keeps the history of its epochs, and calls their observers."""

    def __init__(self, history: list[dict[str, Any]], callbacks: Sequence[Callback]) -> None:
        super().__init__(self._record)
        self._history, self._callbacks = history, callbacks

    def compared(self, searched: SearchResult) -> None:
        for trial in searched.trials:
            words = trial.model, trial.solver, trial.metric, trial.reached.value, " (taken)" * trial.chosen
            LOG.info("compared: %s by %s: %s %s%s", *words)
        for one in searched.values:
            figures = figures_apart(one.found, one.before)
            LOG.info("tried %s: %s %s against %s%s", one.options, one.metric, *figures, "; using it" * one.chosen)

    def refitting(self, plan: Plan) -> None:
        LOG.info("retraining on all rows for %d epochs, the best number on held-out rows", plan.spec.values["epochs"])

    def _record(self, epoch: Epoch) -> bool:
        """Add an epoch to the history, and return whether a callback ends training."""
        valid = {f"valid_{name}": value for name, value in epoch.valid.items()}
        figures = {"loss": epoch.loss, "penalty": epoch.penalty, "objective": epoch.objective}
        member = {} if epoch.member is None else {"member": epoch.member}
        self._history.append({**member, "epoch": epoch.number, **figures, **valid, "seconds": epoch.seconds})
        shown = "".join(f", {name} {figure(value)}" for name, value in valid.items())
        of_member = f"member {epoch.member}, " if member else ""
        LOG.info("%sepoch %d: loss %s%s", of_member, epoch.number, figure(epoch.loss), shown)
        asked = [bool(callback(epoch)) for callback in self._callbacks]  # each of them is called
        return any(asked)


def report(trained: Trained, figures: Mapping[str, Any]) -> None:
    """Log how well the model predicts, and warn if it is no better than a constant."""
    comparison = compared(trained, figures)
    if said := verdict(trained, figures, comparison):
        LOG.info("%s", said)
    if comparison is not None and comparison.no_better:
        warnings.warn(f"the model does not predict well: {comparison}", stacklevel=2)
