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

if TYPE_CHECKING:
    from fmcli.choosing.candidates import TrialRecord
    from fmcli.training.planning import Plan
    from fmcli.training.trained import Epoch


def is_round(number: int) -> bool:
    """Return whether a number is one of 1, 2, .. 9, 10, 20, .. 90, 100, 200, ..: 21 of the numbers to 300."""
    return number % int(10 ** (len(str(number)) - 1)) == 0


def penalty_of(epoch: Epoch) -> str:
    """Return the penalty of an epoch, unless it is 0."""
    shown = f"{epoch.penalty:.6f}"
    if not float(shown):
        shown = f"{epoch.penalty:.1e}"
    return f"  penalty {shown}" if epoch.penalty else ""


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
        # Stochastic solvers have few epochs; other solvers may have hundreds.
        self._all = log.verbose or (plan.spec.by_rows and kind == "epoch")
        self._last: Epoch | None = None

    def epoch(self, epoch: Epoch) -> None:
        """Print the figures of an epoch, and a line of JSON. If there are many epochs, print round numbers only."""
        self._last = epoch
        if self._all or is_round(epoch.number):
            self.ended()
        chooser = self._chooser
        if epoch.number == 1 and chooser and math.isnan(epoch.valid[chooser]):
            self._log.warning(
                f"{chooser} is undefined on the validation data, so no epoch is better than another: training runs all "
                "of them and keeps the last; the validation rows, or the rows of a group, need different labels"
            )
        self._event(self._kind, figures_of(epoch, self._before))

    def ended(self) -> None:
        """Print the figures of the last epoch, unless they are printed already."""
        epoch, self._last = self._last, None
        if epoch is not None:
            valid = "".join(f"  valid-{name} {value:.6f}" for name, value in epoch.valid.items())
            self._log.line(
                f"{self._numbered(epoch.number)}  loss {epoch.loss:.6f}{penalty_of(epoch)}{valid}"
                f"  {seconds(epoch.seconds)}"
            )

    def loss(self, epoch: int, rows: int, loss: float) -> None:
        """Print the running mean loss of an epoch."""
        self._log.line(f"{self._numbered(epoch)}  rows {rows:>{len(f'{self._rows:,}')},}  loss {loss:.6f}")
        self._event(ROWS[self._kind], {"epoch": self._before + epoch, "rows": rows, "loss": loss})

    def continues(self, epoch: int, rows: int) -> None:
        """Print where the run continues."""
        self._skipped = (epoch - 1) * self._rows + rows
        done = f", after {rows:,} of its rows" if rows else ""
        self._log.line(f"continuing with {self._kind} {self._before + epoch}{done}")

    def _numbered(self, epoch: int) -> str:
        return f"{self._of}{self._kind} {self._before + epoch:>{len(str(self._epochs))}}"

    def start(self, figures: dict[str, Any]) -> None:
        """Write the first line of JSON."""
        self._event("start", figures)

    def trial(self, trial: TrialRecord) -> None:
        """Write a line of JSON for a kind and a solver that were compared before."""
        self._lines(json.dumps(trial_event(trial), allow_nan=False))

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
            text = f"{self._of}{self._kind} {self._before + epoch}/{self._epochs}  {100 * rows // self._rows} %"
            if done > self._skipped:
                speed = (done - self._skipped) / max(time.perf_counter() - self._begin, LEAST_SECONDS)
                left = ((self._epochs - self._before) * self._rows - done) / speed
                text += f"  {speed:,.0f} rows/s  {clock(left)} left"
            self._log.progress(text)
