"""The options of train that evaluate epochs on rows that training does not see."""

from __future__ import annotations

from dataclasses import dataclass

import click

from fmcli.cli.options import METRIC_NAMES, gathered, option, share


@dataclass(frozen=True)
class ValidationChoice:
    """How the best epoch is chosen; see fmcli.training.settings.Settings.

    valid : files of validation data.
    fail_worse : whether a model that is worse than the best constant is not written, but an error.
    """

    valid: tuple[str, ...]
    holdout: float | None
    refit: bool | None
    look: bool
    metrics: tuple[str, ...]
    patience: int | None
    fail_worse: bool


validation_options = gathered(
    "validation",
    ValidationChoice,
    option(
        "validation",
        "-v",
        "--valid",
        multiple=True,
        metavar="FILE",
        help="Validation data for early stopping, in the format of TRAIN; several files (-v A -v B) are concatenated.",
    ),
    option(
        "validation",
        "--holdout",
        type=share,
        metavar="FRACTION",
        help="Share of the rows to hold out as validation data; 0 trains on all rows. [default: 0.05, or 500 rows if "
        "that is more, but at most 0.2; 0 with less than 100 rows, -v, -i, -e 1, mcmc, or standard input]",
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
        "penalty of factors, and take those that are better, if non-zeros * rank is at most 7e6. [default: --look]",
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
        help="Early stopping: stop after N epochs without a better one. [default: 3, or 10 with cd and lbfgs; >= 1]",
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
