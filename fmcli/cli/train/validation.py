"""The options of train that evaluate epochs on rows that training does not see."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from fmcli.cli.files import InputFile
from fmcli.cli.groups import QUERY
from fmcli.cli.options import METRIC_NAMES, gathered, option
from fmcli.errors import UsageError
from fmcli.records import dataclass

if TYPE_CHECKING:
    from fmcli.data.formats import RowGroups
    from fmcli.training.setup.held import Held


def holdout(value: str) -> Held:
    """Return the type of --holdout."""
    from fmcli.training.setup.held import held

    try:
        return held(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


@dataclass(frozen=True)
class ValidationChoice:
    """How the best epoch is chosen; see fmcli.training.setup.settings.Settings.

    valid : files of validation data.
    calibrate : how probabilities are calibrated; None: they are not.
    fail_worse : whether a model that is worse than the best constant is not written, but an error.
    """

    valid: tuple[str, ...]
    holdout: Held | None
    refit: bool | None
    look: bool
    auto: bool
    metrics: tuple[str, ...]
    patience: int | None
    fail_worse: bool
    calibrate: str | None

    @property
    def held(self) -> Held:
        """Which rows are held out."""
        from fmcli.training.setup.held import Held

        return self.holdout or Held()

    def row_groups(self, ranking: RowGroups | None, column: str | None, by: Held | None = None) -> RowGroups | None:
        """Return what tells the groups of rows, which are held out as a whole.

        ranking, column : what tells those of ranking, if there are some.
        by : what tells those of folds; None: there are none.

        Raises UsageError if they differ.
        """
        held = by or self.held
        if by and self.held.column and (by.column, by.times) != (self.held.column, self.held.times):
            raise UsageError("the groups, or times, of --holdout and those of folds must be the same column")
        if held.group and ranking and (held.group != ranking or held.column != (column or QUERY)):
            whose = "folds" if by else "--holdout"
            raise UsageError(f"the groups of {whose} and those of ranking must be the same; see --group-field")
        return held.group or ranking


validation_options = gathered(
    "validation",
    ValidationChoice,
    option(
        "validation",
        "-v",
        "--valid",
        multiple=True,
        type=InputFile(),
        metavar="FILE",
        help="Validation data for early stopping, in the format of TRAIN; several files (-v A -v B) are concatenated.",
    ),
    option(
        "validation",
        "--holdout",
        type=holdout,
        metavar="FRACTION",
        help="Share of the rows to hold out as validation data; 0 trains on all rows. last:0.1 holds out the last "
        "rows, time:COL:0.1 those with the last times in a column of a table, group:COL:0.1 whole groups, "
        "last-of:COL:2 the last 2 rows of each group: rows with the same cell of a table, or of text with the same qid "
        "(COL is qid) or feature in a field of ffm text (COL is the field). "
        "[default: 0.05, or 500 rows if that is more, but at most 0.2; 0 with less than 100 rows, -v, -i, -e 1, "
        "a sampling solver, or standard input]",
    ),
    option(
        "validation",
        "--refit/--no-refit",
        default=None,
        help="After early stopping on held-out rows, train again on all rows, for the best number of epochs. [default: "
        "refit, if non-zeros * rank is at most 7e6]",
    ),
    option(
        "validation",
        "--look/--no-look",
        default=True,
        help="Before the run, try other values of options that are not given on held-out rows, such as a stronger "
        "penalty of factors, and take those that are better, if non-zeros * rank is at most 7e6; with solvers "
        "that are not stochastic, also on a part of more rows. [default: --look]",
    ),
    option(
        "validation",
        "--auto",
        is_flag=True,
        help="Before the run, compare other kinds of models and solvers on held-out rows, with at most 10 times the "
        "work of the usual training, or a few seconds, and train the best one on all rows. With a kind (-m), only "
        "solvers are compared, and with a solver (-s) only kinds.",
    ),
    option(
        "validation",
        "-x",
        "--metric",
        "metrics",
        multiple=True,
        metavar="NAME",
        names=METRIC_NAMES,
        help="Metric; may be repeated, and the first one chooses the epoch: "
        f"{', '.join(METRIC_NAMES)}. [default: two that fit the loss]",
    ),
    option(
        "validation",
        "--patience",
        type=click.IntRange(min=1),
        metavar="N",
        help="Early stopping: stop after N epochs without a better one. [default: 3, or 10 if the solver is not "
        "stochastic, or of at most 5,000 rows, or 50,000 with most features; >= 1]",
    ),
    option(
        "validation",
        "--calibrate",
        type=click.Choice(["isotonic", "platt"]),
        help="Calibrate the probabilities of two labels: by a function that never falls, or by a sigmoid, which needs "
        "fewer rows. Five more models, each of four fifths of the rows, score the others. [default: they are not "
        "calibrated]",
    ),
    option(
        "validation",
        "--fail-worse-than-constant",
        "fail_worse",
        is_flag=True,
        help="Exit with status 3, without writing the model, if it is worse than the best constant prediction: on the "
        "validation data by the metric that chooses the epoch, or without any clearly on the training rows.",
    ),
)
