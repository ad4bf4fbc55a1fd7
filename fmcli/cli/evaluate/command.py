"""fmcli evaluate: compute metrics of a model, or of a file of predictions, on labeled rows."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import click

from fmcli.cli.bad_lines import BAD_LINES, rule_of
from fmcli.cli.choices import AS_IN_TRAINING, with_choices
from fmcli.cli.cluster import CLUSTER, address_of
from fmcli.cli.evaluate.gate import check_gate
from fmcli.cli.evaluate.measuring import measured, measured_on_cluster, ranked
from fmcli.cli.evaluate.options import metric_option, ranking_options
from fmcli.cli.evaluate.report import report
from fmcli.cli.evaluate.request import EvaluateRequest
from fmcli.cli.files import InputFile, check_files
from fmcli.cli.logging import LOGGING, log_of
from fmcli.cli.options import SectionCommand, given, not_negative, option
from fmcli.cli.output import Log, write_report
from fmcli.cli.relations import parse_relations
from fmcli.errors import NotMetError, UsageError
from fmcli.names import find_name
from fmcli.registry.choices import Choices
from fmcli.registry.losses import LOSSES
from fmcli.registry.modes import check_modes
from fmcli.registry.run_choices import METRIC_NAMES

if TYPE_CHECKING:
    from fmcli.data.text.faults import BadLines
    from fmcli.scoring.evaluation import Limit


def parse_limit(text: str) -> Limit:
    """Return the type of --fail-below: METRIC=X. Raises UsageError."""
    from fmcli.scoring.evaluation import Limit

    name, _, number = text.partition("=")
    try:
        value = float(number)
    except ValueError:
        value = math.nan
    if not name or math.isnan(value):
        raise UsageError(f"--fail-below {text}: it must be METRIC=X with a number X, such as auc=0.75")
    return Limit(name, value)


@click.command(
    cls=SectionCommand,
    name="evaluate",
    examples=[
        "# All metrics that fit the loss.",
        "fmcli evaluate train.libsvm.fm test.libsvm",
        "# Two metrics, as JSON.",
        "fmcli evaluate --json -x auc -x logloss train.libsvm.fm part1.libsvm.gz part2.libsvm.gz",
        "# Exits with status 1 if the model is not good enough.",
        "fmcli evaluate --fail-below auc=0.75 --fail-below logloss=0.4 train.libsvm.fm test.libsvm",
        "# Exits with status 1 if the new model is worse than the current one.",
        "fmcli evaluate -x auc --no-worse-than current.fm --by 0.001 new.fm test.libsvm",
        "# Evaluates the output of fmcli predict.",
        "fmcli evaluate --predictions predictions.txt test.libsvm",
        "# How many of the films that users rated with 4 or 5 are among their ten best of all films.",
        "fmcli evaluate -x recall@10 --over films.csv --seen train.csv --relevant 4 ratings.fm test.csv",
    ],
)
@click.argument("paths", type=InputFile(), metavar="MODEL INPUT...", nargs=-1)
@metric_option(
    "validation",
    f"Metric to compute; may be repeated: loss, {', '.join(METRIC_NAMES)}. [default: all that fit the loss, and tables "
    "of the classes]",
)
@option(
    "validation",
    "--fail-below",
    "limits",
    type=parse_limit,
    multiple=True,
    metavar="METRIC=X",
    help="Exit with status 1 if METRIC is worse than X: less than X, or greater than X if smaller is better (loss, "
    "logloss, brier, rmse, mae). An undefined metric counts as a failure. May be repeated.",
)
@option(
    "validation",
    "--no-worse-than",
    "current",
    type=InputFile(),
    metavar="CURRENT",
    help="Also evaluate the model file CURRENT on the same rows, print the difference of the first metric (-x) with "
    "its standard error, and exit with status 1 if MODEL is worse by more than --by, and by more than 2 standard "
    "errors. The models may differ in kind, but not in labels.",
)
@option(
    "validation",
    "--by",
    "margin",
    type=not_negative,
    default=0,
    metavar="X",
    help="With --no-worse-than: how much worse the metric may be. [default: 0; >= 0]",
)
@option(
    "validation",
    "--predictions",
    type=InputFile(),
    metavar="FILE",
    help='Evaluate these predictions instead of a MODEL: one line per row, as predict writes; "-" is standard input.',
)
@option(
    "validation",
    "--loss",
    metavar="NAME",
    names=LOSSES,
    help="With --predictions: the loss that determines their meaning: logistic (probabilities of the positive label), "
    "softmax (probabilities of each class, in increasing order of the labels), or another loss (predicted labels, or "
    "scores). [default: softmax for several numbers per line, logistic for two label values, else squared]",
)
@option(
    "validation",
    "--label",
    metavar="COLUMN",
    help="With --predictions: the column of the labels of tables. [default: none, for rows of text]",
)
@option(
    "validation", "--raw", is_flag=True, help="With --predictions: these are raw scores, as predict --raw writes them."
)
@option(
    "validation",
    "--calibration",
    is_flag=True,
    help="Also print how often labels have what probability, in ten bins of equally many rows, and the expected "
    "calibration error: the mean difference of the two.",
)
@ranking_options(
    over="Rank all items, which are the rows of FILE, for each user of the rows, by metrics of groups, and by "
    "coverage@K, novelty@K and popularity@K of the recommended items: a row has the features of an item, and its "
    "other features belong to its user, unless --group-field or qid:N tells the user. Items without a row "
    "are not relevant.",
    seen="With --over: leave out the items of a user that occur together in rows of FILE, such as the training rows, "
    "except items in INPUT. Labels are optional; rows with the smaller of two do not count. May be repeated.",
    relevant="Rows with a label of at least X are relevant to map, mrr, recall@K, precision@K and hit@K. [default: "
    "rows with a positive label, or with the larger of two]",
)
@option("output", "--json", is_flag=True, help="Print one JSON object; undefined values are null.")
@with_choices(
    *("positive", "format", "label_weights", "group_field", "threads", *BAD_LINES, "relations", "join"),
    *CLUSTER,
    *LOGGING,
    missing_values=AS_IN_TRAINING,
)
def command(
    paths: tuple[str, ...],
    predictions: str | None,
    loss: str | None,
    current: str | None,
    choices: Choices,
    **asked: Any,
) -> None:
    """Compare the predictions of a model for the rows of the inputs with their labels. "-" is standard input; several
    inputs are concatenated.

    Metrics are written to standard output. As in training, every row needs a label; blank lines and comments are
    skipped."""
    model, inputs = (None, paths) if predictions is not None else (paths[0] if paths else None, paths[1:])
    if not inputs:
        missing = "MODEL INPUT..." if predictions is None and not model else "INPUT..."
        raise UsageError(f"missing argument '{missing}': the labeled rows; - is standard input")
    cluster = address_of(choices)
    check_modes(given())
    if loss is not None:
        find_name("loss", loss, LOSSES)
    if cluster is not None:
        cluster.check(inputs)
    check_files(elsewhere=() if cluster is None else (*inputs, *(table for _, table in choices.join)))
    if current is not None:
        check_gate(inputs)
    related = parse_relations(choices.relations)
    of_model: dict[str, Any] = {"predictions": predictions, "loss": loss, "current": current}
    request = EvaluateRequest(model, inputs, choices, relations=related, cluster=cluster, **of_model, **asked)
    with log_of(choices) as log:
        run(log, request, rule_of(choices, log))


def run(log: Log, request: EvaluateRequest, bad: BadLines) -> None:
    """Evaluate, report, and compare with the limits."""
    if request.cluster is not None:
        result = measured_on_cluster(log, request, bad, request.cluster)
    elif request.over is not None:
        result = ranked(log, request, request.over, bad)
    else:
        result = measured(log, request, bad)
    write_report(report(request, result, bad))
    missed = [text for limit in request.limits if (text := limit.complaint(result.figures[limit.metric]))]
    if missed:
        raise NotMetError(f"worse than --fail-below: {'; '.join(missed)}")
    if result.difference and (complaint := result.difference.complaint(request.margin)):
        raise NotMetError(f"worse than {request.current}: {complaint}")
