"""The epochs of fmcli train as they end: lines of the log, events of the JSON log, and the progress line."""

from __future__ import annotations

import json
import math
import time
from typing import TYPE_CHECKING, Any

from fmcli.base.finite import finite
from fmcli.choosing.study import trial_event
from fmcli.cli.output import LEAST_SECONDS, Lines, Log, clock, seconds, timestamp
from fmcli.solvers.trainer import Observer
from fmcli.text import figure

if TYPE_CHECKING:
    from fmcli.choosing.candidates import TrialRecord
    from fmcli.choosing.quick_search import TriedValue
    from fmcli.training.planning import Plan
    from fmcli.training.trained import Epoch


LEAST_SHOWN = 0.05  # seconds of an epoch that the log shows without --verbose
BAR = 20  # characters of the progress bar
# What the log calls the kinds of epochs.
WORDS = {"epoch": "epoch", "refit": "retraining epoch"}


def is_round(number: int) -> bool:
    """Return whether a number is one of 1, 2, 3, 5, 10, 20, 50, 100, 200, ..: nine of the numbers to 300."""
    return number == 3 or str(number).rstrip("0") in ("1", "2", "5")


def figures_of(epoch: Epoch, before: int = 0) -> dict[str, Any]:
    """Return the figures of an epoch for the JSON log. before : the epochs of earlier runs, which count."""
    return {
        "epoch": before + epoch.number,
        "objective": epoch.objective,
        "loss": epoch.loss,
        "penalty": epoch.penalty,
        "valid": epoch.valid,
        "seconds": epoch.seconds,
    }


def epoch_event(epoch: Epoch, **of: Any) -> dict[str, Any]:
    """Return the event of an epoch of one of several runs, a trial, a fold or a member, which `of` identifies."""
    return finite({"event": "epoch", **of, **figures_of(epoch)})


# The JSON event with the running mean loss of an epoch, by the kind of the epoch.
ROWS = {"epoch": "rows", "refit": "refit-rows"}


class Progress(Observer):
    """Writes epochs as lines of the log and of JSON, and rows as the log's progress line.

    kind : "epoch", or "refit" for the epochs of the refit on all rows.
    member : the number of the member of an ensemble; 0: there is a single model.
    """

    def __init__(
        self, log: Log, lines: Lines, plan: Plan, every: int | None = None, kind: str = "epoch", member: int = 0
    ) -> None:
        self.every, self._member = every, member
        self._of = f"member {member}  " if member else ""
        self._log, self._lines, self._kind = log, lines, kind
        self._before, self._rows = plan.epochs_before, plan.source.visits
        self._epochs = self._before + plan.spec.values["epochs"]
        self._chooser = plan.validation.chooser if plan.validation else ""
        self._begin, self._skipped, self._is_stream = time.perf_counter(), 0, plan.following is not None
        self._last: Epoch | None = None
        self._latest = ""

    def epoch(self, epoch: Epoch) -> None:
        """Print the figures of an epoch with a round number, and a line of JSON. With --verbose, print all, and the
        epochs of the refit, too."""
        chooser = self._chooser
        self._latest = f"  {chooser} {figure(epoch.valid[chooser])}" if chooser else ""
        if self._log.verbose or (self._kind == "epoch" and is_round(epoch.number)):
            self._print(epoch)
        else:
            # If the patience ends training, the best epoch is logged in place of the last one.
            ends = not chooser or self._before + epoch.number == self._epochs
            self._last = epoch if ends and self._kind == "epoch" else None
        if epoch.number == 1 and chooser and math.isnan(epoch.valid[chooser]):
            self._log.warning(
                f"{chooser} is undefined on the validation data, so no epoch is better than another: training runs all "
                "of them and keeps the last; the validation rows, or the rows of a group, need different labels"
            )
        self._event(self._kind, figures_of(epoch, self._before))

    def ended(self) -> None:
        """Print the figures of the last epoch, unless they are printed already."""
        if self._last is not None:
            self._print(self._last)

    def _print(self, epoch: Epoch) -> None:
        self._last, verbose = None, self._log.verbose
        shown = {"loss": epoch.loss}
        if epoch.penalty and verbose:
            shown["penalty"] = epoch.penalty
        shown |= {f"valid-{name}": value for name, value in epoch.valid.items()}
        took = f"  {seconds(epoch.seconds)}" if verbose or epoch.seconds >= LEAST_SHOWN else ""
        figures = "".join(f"  {name} {figure(value)}" for name, value in shown.items())
        self._log.line(f"{self._numbered(epoch.number)}{figures}{took}")

    def loss(self, epoch: int, rows: int, loss: float) -> None:
        """Print the running mean loss of an epoch."""
        self._log.line(f"{self._numbered(epoch)}  rows {rows:>{len(f'{self._rows:,}')},}  loss {figure(loss)}")
        self._event(ROWS[self._kind], {"epoch": self._before + epoch, "rows": rows, "loss": loss})

    def continues(self, epoch: int, rows: int) -> None:
        """Print where the run continues."""
        self._skipped = (epoch - 1) * self._rows + rows
        done = f", after {rows:,} of its rows" if rows else ""
        self._log.line(f"continuing with {WORDS[self._kind]} {self._before + epoch}{done}")

    def _numbered(self, epoch: int) -> str:
        return f"{self._of}{WORDS[self._kind]} {self._before + epoch:>{len(str(self._epochs))}}"

    def start(self, figures: dict[str, Any]) -> None:
        """Write the first line of JSON."""
        self._event("start", figures)

    def trial(self, trial: TrialRecord) -> None:
        """Write a line of JSON for a kind and a solver that were compared before."""
        self._lines(json.dumps(trial_event(trial), allow_nan=False))

    def tried(self, one: TriedValue) -> None:
        """Write a line of JSON for a value that the quick search tried."""
        self._event("tried", {**vars(one), "options": dict(one.options)})

    def summary(self, figures: dict[str, Any]) -> None:
        """Write the last line of JSON."""
        self._event("summary", figures)

    def _event(self, kind: str, figures: dict[str, Any]) -> None:
        of: dict[str, Any] = {"member": self._member} if self._member else {}
        if now := timestamp():
            of["time"] = now
        self._lines(json.dumps({"event": kind, **of, **finite(figures)}, allow_nan=False))

    def rows(self, epoch: int, rows: int) -> None:
        """Show the progress of an epoch and, once rows are done, the speed and the remaining time of the run."""
        if not self._log.due():
            return
        if self._is_stream:
            speed = rows / max(time.perf_counter() - self._begin, LEAST_SECONDS)
            self._log.progress(f"{rows:,} rows  {speed:,.0f} rows/s")
        else:
            done = (epoch - 1) * self._rows + rows
            bar = f"[{'=' * (BAR * rows // self._rows):<{BAR}}]"
            text = f"{self._of}{WORDS[self._kind]} {self._before + epoch}/{self._epochs}"
            text += f"  {bar} {100 * rows // self._rows} %{self._latest}"
            if done > self._skipped:
                speed = (done - self._skipped) / max(time.perf_counter() - self._begin, LEAST_SECONDS)
                left = ((self._epochs - self._before) * self._rows - done) / speed
                text += f"  {speed:,.0f} rows/s  {clock(left)} left"
            self._log.progress(text)
