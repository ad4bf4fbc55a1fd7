"""fmcli evaluate: compute metrics of a model, or of a file of predictions, on labelled rows."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from fmcli.cli.cluster import ClusterChoice, cluster_options, log_progress
from fmcli.cli.files import InputFile, check_files
from fmcli.cli.gate import Rival, check_gate
from fmcli.cli.groups import METRICS_OF_GROUPS, check_fields, group_field_option
from fmcli.cli.options import (
    METRIC_NAMES,
    BadLineChoice,
    LogChoice,
    SectionCommand,
    bad_line_options,
    format_option,
    given,
    label_weights_option,
    logging_options,
    not_negative,
    option,
    positive_option,
    threads_option,
)
from fmcli.cli.output import Log, write_report
from fmcli.cli.predict import log_counts, log_model
from fmcli.cli.relations import (
    check_model,
    join_option,
    missing_values_option,
    parse_relations,
    relation_option,
)
from fmcli.cli.report import as_json, section
from fmcli.errors import LEAVE_OUT, NotMetError, UsageError
from fmcli.names import find_name
from fmcli.records import dataclass
from fmcli.registry.losses import LOSSES
from fmcli.registry.modes import check_modes

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from fmcli.data.faults import BadLines
    from fmcli.data.formats import RowGroups
    from fmcli.data.labels import Labels
    from fmcli.data.related.files import RelationFiles
    from fmcli.scoring.calibration import Reliability
    from fmcli.scoring.evaluation import Limit
    from fmcli.scoring.metrics import Outcome
    from fmcli.scoring.paired import Difference
    from fmcli.scoring.prediction import Counts
    from fmcli.scoring.scorer import Scorer

# The confusion matrix is printed for up to this many classes; JSON always has it.
MOST_CLASSES_SHOWN = 12


@dataclass(frozen=True)
class Request:
    """The arguments of the command. Exactly one of model and predictions is given.

    current : a model that the model must not be worse than, by more than the margin.
    over : the items to rank; None: the rows of each group are ranked.
    seen : rows whose pairs of a user and an item are left out of the ranking.
    relevant : the least label of relevant rows; None: positive labels, or the larger of two.
    positive : the positive one of two labels, for predictions; None: by usual names.
    label : the column of the labels of tables, to which predictions are compared; None: the rows are text.
    """

    model: str | None
    predictions: str | None
    inputs: tuple[str, ...]
    loss: str | None
    raw: bool
    metrics: tuple[str, ...]
    limits: tuple[Limit, ...]
    current: str | None
    margin: float
    format: str
    threads: int | None
    json: bool
    label_weights: bool
    group_field: str | None
    relations: tuple[RelationFiles, ...] = ()
    join: tuple[tuple[str, str], ...] = ()
    missing_values: tuple[str, ...] = ()
    cluster: ClusterChoice | None = None
    calibration: bool = False
    over: str | None = None
    seen: tuple[str, ...] = ()
    relevant: float | None = None
    positive: str | None = None
    label: str | None = None

    @property
    def named(self) -> list[str]:
        """The metrics that any option names, each once."""
        return list(dict.fromkeys([*self.metrics, *(limit.metric for limit in self.limits)]))

    def row_groups(self, loss: str | None) -> RowGroups | None:
        """Return what tells the groups of the rows, which a model or predictions of this loss may need."""
        from fmcli.data.formats import RowGroups
        from fmcli.scoring.evaluation import row_groups_for
        from fmcli.training.setup.held import field_of

        if self.over is not None:  # else rows of equal features beside those of items are a group
            return RowGroups(field_of(self.group_field), optional=True)
        return row_groups_for(self.named, loss, field_of(self.group_field), usual=not self.metrics)

    def column_of_users(self, scorer: Scorer) -> str | None:
        """Return the column of a table whose features tell users; None: groups do, or all features beside an item's."""
        table = scorer.table
        if table is None or scorer.transform.hash_bits:  # hashes do not tell the columns of features
            return None
        column = self.group_field or table.group
        return column if column in table.features else None

    def rows(
        self, scorer: Scorer, paths: tuple[str, ...], loss: str, *, partial: bool = False, grouped: bool = True
    ) -> tuple[list[str], RowGroups | None]:
        """Return some inputs as the model reads them, and what tells the groups that metrics of a loss need.

        partial : whether tables may have a part of the columns; grouped : whether rows have groups.
        """
        from fmcli.data.formats import RowGroups
        from fmcli.data.tables.reading import By, TablePath

        inputs, row_groups = list(paths), self.row_groups(loss)
        if self.format == "auto" and inputs:
            by = By(self.group_field) if grouped and self.group_field is not None else None
            scorer = replace(scorer, missing=self.missing_values)
            inputs = scorer.tables(inputs, dict(self.join), by, partial=partial)
        if inputs and not isinstance(inputs[0], TablePath):
            check_fields([self.group_field], inputs[0])
        elif row_groups is not None:
            row_groups = RowGroups(optional=row_groups.optional)
        return inputs, row_groups

    def labelled(self) -> tuple[list[str], RowGroups | None]:
        """Return the rows to which predictions are compared, and what tells their groups."""
        from fmcli.data.formats import RowGroups
        from fmcli.data.tables.reading import By, TablePath
        from fmcli.data.tables.schema import LABEL, Schema

        row_groups = self.row_groups(self.loss)
        if self.label is None:
            return list(self.inputs), row_groups
        by = None if self.group_field is None else By(self.group_field)
        schema = Schema({self.label: LABEL})
        tables = [TablePath.of(path, schema, fields=False, by=by) for path in self.inputs]
        return [*tables], row_groups and RowGroups(optional=row_groups.optional)

    def scored(self, scorer: Scorer, loss: str, threads: int, counts: Counts, bad: BadLines) -> Outcome:
        """Return the rows as a model scores them, with the groups that metrics of a loss need."""
        from fmcli.scoring.evaluation import evaluate_model

        inputs, row_groups = self.rows(scorer, self.inputs, loss)
        return evaluate_model(
            scorer,
            inputs,
            format=self.format,
            threads=threads,
            counts=counts,
            bad=bad,
            label_weights=self.label_weights,
            row_groups=row_groups,
            relations=self.relations,
            relevant=self.relevant,
        )


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
@option(
    "validation",
    "-x",
    "--metric",
    "metrics",
    multiple=True,
    metavar="NAME",
    names=("loss", *METRIC_NAMES),
    help=f"Metric to compute; may be repeated: loss, {', '.join(METRIC_NAMES)}. [default: all that fit the loss, and "
    "tables of the classes]",
)
@option(
    "validation",
    "--fail-below",
    "limits",
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
@option(
    "validation",
    "--over",
    type=InputFile(),
    metavar="FILE",
    help="Rank all items, which are the rows of FILE, for each user of the rows, by metrics of groups: a row has the "
    "features of an item, and its other features are those of its user, unless --group-field or qid:N tells the user. "
    "Items without a row are not relevant.",
)
@option(
    "validation",
    "--seen",
    multiple=True,
    type=InputFile(),
    metavar="FILE",
    help="With --over: leave out the items of a user that occur together in rows of FILE, such as the training rows, "
    "except those in INPUT. Labels are optional; rows with the smaller of two do not count. May be repeated.",
)
@option(
    "validation",
    "--relevant",
    type=click.FLOAT,
    metavar="X",
    help="Rows with a label of at least X are relevant to map, mrr, recall@K, precision@K and hit@K. [default: those "
    "with positive labels, or the larger one of two]",
)
@positive_option("with --predictions, which one they are the probability of")
@format_option()
@label_weights_option()
@group_field_option(METRICS_OF_GROUPS)
@threads_option()
@bad_line_options
@relation_option("INPUT")
@join_option
@missing_values_option
@option("output", "--json", is_flag=True, help="Print one JSON object; undefined values are null.")
@cluster_options
@logging_options
def command(
    paths: tuple[str, ...],
    metrics: tuple[str, ...],
    limits: tuple[str, ...],
    current: str | None,
    margin: float | None,
    predictions: str | None,
    loss: str | None,
    label: str | None,
    raw: bool,
    calibration: bool,
    over: str | None,
    seen: tuple[str, ...],
    relevant: float | None,
    positive: str | None,
    format: str,
    label_weights: bool,
    group_field: str | None,
    threads: int | None,
    bad_lines: BadLineChoice,
    relations: tuple[str, ...],
    join: tuple[tuple[str, str], ...],
    missing_values: tuple[str, ...],
    json: bool,
    cluster: ClusterChoice | None,
    logging: LogChoice,
) -> None:
    """Compare the predictions of a model for the rows of the inputs with their labels. "-" is standard input; several
    inputs are concatenated.

    Metrics are written to standard output. As in training, every row needs a label; blank lines and comments are
    skipped."""
    model, inputs = (None, paths) if predictions is not None else (paths[0] if paths else None, paths[1:])
    if not inputs:
        missing = "MODEL INPUT..." if predictions is None and not model else "INPUT..."
        raise UsageError(f"missing argument '{missing}': the labelled rows; - is standard input")
    related = parse_relations(relations)
    check_modes(given())
    if loss is not None:
        find_name("loss", loss, LOSSES)
    if cluster is not None:
        cluster.check(inputs)
    check_files(elsewhere=() if cluster is None else (*inputs, *(table for _, table in join)))
    if current is not None:
        check_gate(inputs)
    parsed = tuple(map(parse_limit, limits))
    request = Request(
        model,
        predictions,
        inputs,
        loss,
        raw,
        metrics,
        parsed,
        current,
        margin or 0.0,
        format,
        threads,
        json,
        label_weights,
        group_field,
        related,
        join,
        missing_values,
        cluster,
        calibration,
        over,
        seen,
        relevant,
        positive,
        label,
    )
    with logging.opened() as log:
        run(log, request, bad_lines.rule(log))


def parse_limit(text: str) -> Limit:
    """Parse METRIC=X. Raises UsageError."""
    from fmcli.scoring.evaluation import Limit

    name, _, number = text.partition("=")
    try:
        value = float(number)
    except ValueError:
        value = math.nan
    if not name or math.isnan(value):
        raise UsageError(f"--fail-below {text}: it must be METRIC=X with a number X, such as auc=0.75")
    return Limit(name, value)


@dataclass(frozen=True)
class Result:
    """The outcome of an evaluation.

    figures : the values of the metrics by name.
    difference : from the model that it must not be worse than, if there is one.
    rankings : how many users and items were ranked, by name; empty without --over.
    table : the confusion matrix, unless metrics were chosen.
    reliability : predicted probabilities beside observed shares, if they are asked for.
    """

    labels: Labels
    counts: Counts
    figures: dict[str, float]
    table: NDArray[np.int64] | None
    difference: Difference | None = None
    reliability: Reliability | None = None
    rankings: Mapping[str, int] = field(default_factory=dict)


def run(log: Log, request: Request, bad: BadLines) -> None:
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


def wanted_metrics(request: Request, labels: Labels, grouped: bool) -> list[str]:
    """Return the metrics to compute: those that were chosen, or all that fit rows that have groups or none."""
    from fmcli.scoring.evaluation import usual_metrics

    of_model = request.model is not None
    usual = () if request.metrics else usual_metrics(labels.loss, of_model=of_model, grouped=grouped)
    return list(dict.fromkeys([*usual, *request.named]))


def wants_table(request: Request, labels: Labels) -> bool:
    """Return whether the report has tables of the classes; kernel-basis treats two label values as numbers."""
    return labels.values is not None and LOSSES[labels.loss].task in ("binary", "classes") and not request.metrics


def measured(log: Log, request: Request, bad: BadLines) -> Result:
    """Evaluate a model or predictions."""
    from fmcli.scoring.calibration import Reliability, reliability
    from fmcli.scoring.evaluation import confusion, figures

    labels, outcome, scorer, counts, difference = evaluated(log, request, bad)
    table = confusion(outcome) if wants_table(request, labels) and outcome.usable else None
    names = wanted_metrics(request, labels, grouped=outcome.group is not None)
    found = None
    if request.calibration:
        if not outcome.link.probable or outcome.task not in ("binary", "classes"):
            raise UsageError(f"--calibration needs probabilities of labels, and loss {labels.loss} has none")
        found = reliability(outcome) if outcome.usable else Reliability([], math.nan)
    if outcome.grouped.ranked is not None and (without := outcome.grouped.ranked.without_relevant):
        groups = len(outcome.grouped.ranked.starts)
        log.line(f"{without:,} of {groups:,} groups have no relevant row, and are left out of metrics of relevant rows")
    return Result(labels, counts, figures(names, outcome, scorer), table, difference, found)


def ranked(log: Log, request: Request, over: str, bad: BadLines) -> Result:
    """Evaluate the rankings of all items for each user."""
    from fmcli.data.sources import name_of
    from fmcli.scoring.evaluation import check_metrics, relevance_of
    from fmcli.scoring.metrics import allowed, need_groups
    from fmcli.scoring.prediction import Counts
    from fmcli.scoring.recommend.rankings import Inputs, rankings
    from fmcli.scoring.scorer import load_model
    from fmcli.system.machine import cpu_count

    assert request.model is not None
    begin, scorer, counts = time.perf_counter(), load_model(request.model), Counts()
    loss = scorer.labels.loss
    require_positive(request, scorer)
    names = request.named or need_groups(allowed(loss))
    check_metrics(names, loss, of_model=True)
    if others := [name for name in names if name not in need_groups(allowed(loss)) and "@" not in name]:
        raise UsageError(f"--over ranks items, so that {others[0]} cannot be computed; choose metrics of groups")
    log_model(log, request.model, scorer)
    user = request.column_of_users(scorer)
    rows, row_groups = request.rows(scorer, request.inputs, loss, grouped=user is None)
    inputs = Inputs(
        rows,
        request.rows(scorer, (over,), loss, partial=True, grouped=False)[0],
        request.rows(scorer, request.seen, loss, partial=True, grouped=user is None)[0],
        user,
    )
    found = rankings(
        scorer,
        names,
        inputs,
        relevance=relevance_of(scorer.labels, request.relevant),
        format=request.format,
        row_groups=row_groups,
        threads=request.threads or cpu_count(),
        counts=counts,
    )
    log_counts(log, scorer, counts, bad, time.perf_counter() - begin)
    for path in found.unmatched:
        log.warning(
            f"--seen {path}: no row has both a user of {name_of(rows[0])} and an item, so it leaves out nothing"
        )
    if found.reason:
        log.line(f"{request.model}: all pairs are scored one by one, because {found.reason}")
    left_out = f"; {found.without:,} users without a relevant item are left out" if found.without else ""
    log.line(f"{found.users:,} users, {found.items:,} items, without {found.seen:,} pairs that were seen{left_out}")
    figures = {"users": found.users, "users_without": found.without, "items": found.items, "pairs_seen": found.seen}
    return Result(scorer.labels, counts, found.figures, None, rankings=figures)


def require_positive(request: Request, scorer: Scorer) -> None:
    """Raise UsageError for a positive label other than the model's."""
    if request.positive is None:
        return
    labels = scorer.labels
    if labels.positive is None:
        raise UsageError(f"{request.model} has no positive label, because its labels are not two", positive=LEAVE_OUT)
    if labels.with_positive(request.positive) != labels:
        raise UsageError(f"the positive label of {request.model} is {labels.texts[1]}", positive=LEAVE_OUT)


def measured_on_cluster(log: Log, request: Request, bad: BadLines, choice: ClusterChoice) -> Result:
    """Evaluate a model on a cluster."""
    from fmcli.cluster.scoring import Scoring, loaded
    from fmcli.cluster.tasks import Request as Reading
    from fmcli.data.formats import Stream
    from fmcli.data.tables.reading import By
    from fmcli.scoring.evaluation import check_metrics
    from fmcli.scoring.prediction import Counts
    from fmcli.scoring.summary import Combined

    assert request.model is not None
    scorer, model = loaded(request.model)
    require_positive(request, scorer)
    check_metrics(request.named, scorer.labels.loss, of_model=True)
    log_model(log, request.model, scorer)
    counts, combined = Counts(), Combined()
    stream = Stream(label_weights=request.label_weights, row_groups=request.row_groups(scorer.labels.loss))
    with choice.connected(log) as cluster:
        begin = time.perf_counter()
        by = None if request.group_field is None else By(request.group_field)
        tables: dict[str, Any] = {"joined": dict(request.join), "by": by, "missing": request.missing_values}
        reading = Reading(request.format, True, bad.skip, stream, **tables)
        scoring = Scoring(cluster, model, request.inputs, reading, counts, bad)
        names = wanted_metrics(request, scorer.labels, scoring.grouped)
        for _ in scoring.evaluate(names, wants_table(request, scorer.labels), combined):
            log_progress(log, scoring.progress, counts, begin)
        took = time.perf_counter() - begin
    log_counts(log, scorer, counts, bad, took)
    return Result(scorer.labels, counts, combined.figures(names, scorer), combined.table if combined.usable else None)


def evaluated(
    log: Log, request: Request, bad: BadLines
) -> tuple[Labels, Outcome, Scorer | None, Counts, Difference | None]:
    """Labels, outcome, the scorer if there is a model, counts, and the difference from another model. Metrics are
    checked as early as possible."""
    from fmcli.data.sources import name_of
    from fmcli.scoring.evaluation import check_metrics, evaluate_predictions
    from fmcli.scoring.prediction import Counts
    from fmcli.scoring.scorer import load_model
    from fmcli.system.machine import cpu_count

    begin = time.perf_counter()
    counts = Counts()
    threads = request.threads or cpu_count()
    if request.model is not None:
        scorer = load_model(request.model)
        check_model(request.relations, scorer)
        require_positive(request, scorer)
        check_metrics(request.named, scorer.labels.loss, of_model=True)
        log_model(log, request.model, scorer)
        loss, rival, difference = scorer.labels.loss, None, None
        if request.current is not None:
            rival = Rival(log, request.current, scorer.labels, request.metrics, request.relations)
        outcome = request.scored(scorer, loss, threads, counts, bad)
        log_counts(log, scorer, counts, bad, time.perf_counter() - begin)
        if rival is not None:
            from fmcli.data.faults import BadLines

            silent = BadLines(bad.skip, None, lambda text: None)
            scored = partial(request.scored, loss=loss, threads=threads, counts=Counts(), bad=silent)
            difference = rival.difference(outcome, scored, request.inputs[0], threads)
        return scorer.labels, outcome, scorer, counts, difference
    assert request.predictions is not None
    check_metrics(request.named, request.loss, of_model=False)
    inputs, row_groups = request.labelled()
    labels, outcome = evaluate_predictions(
        request.predictions,
        inputs,
        loss=request.loss,
        raw=request.raw,
        format=request.format,
        threads=threads,
        counts=counts,
        row_groups=row_groups,
        relevant=request.relevant,
        positive=request.positive,
    )
    check_metrics(request.named, labels.loss, of_model=False)
    kind = "scores" if request.raw else "probabilities" if outcome.probable else "predictions"
    log.line(f"{name_of(request.predictions)}: {counts.rows:,} rows of {kind}, evaluated as loss {labels.loss}")
    return labels, outcome, None, counts, None


def report(request: Request, result: Result, bad: BadLines) -> str:
    """Return the metrics as text or JSON, with tables of the classes."""
    from fmcli.scoring.evaluation import class_table

    labels, counts, compared = result.labels, result.counts, result.difference
    tables: dict[str, Any] = {}
    if result.table is not None:
        tables = {"classes": class_table(labels.shown or [], result.table), "confusion": result.table.tolist()}
    if result.reliability:
        tables["calibration"] = {"ece": result.reliability.error, "bins": result.reliability.bins}
    if request.json:
        head: dict[str, Any] = {
            "model": request.model,
            "predictions": request.predictions,
            "loss": labels.loss,
            "rows": counts.rows,
        }
        head |= result.rankings
        if request.model is not None:
            head |= {"nonzeros": counts.nonzeros, "unseen": counts.unseen}
        if bad.skip:
            head["bad_lines"] = bad.count
        if compared:
            worse = bool(compared.complaint(request.margin))
            head["compared"] = {"model": request.current, **compared.figures, "worse": worse}
        return as_json({**head, "metrics": result.figures, **tables})
    text = section(result.figures)
    if compared:
        text += section(compared.figures, f"Compared with {request.current}")
    if result.reliability:
        title = f"Probabilities of {'the likeliest label' if labels.outputs > 1 else labels.texts[1]}"
        text += section(result.reliability.bins, title)
        text += section({"expected_calibration_error": result.reliability.error})
    if "classes" in tables and labels.values is not None:
        text += section(tables["classes"], "Classes")
        if len(labels.values) <= MOST_CLASSES_SHOWN:
            names = labels.texts
            rows = [
                {"label": name, **dict(zip(names, row, strict=True))}
                for name, row in zip(names, tables["confusion"], strict=True)
            ]
            text += section(rows, "Rows by label (down) and prediction (across)")
        else:
            text += "\nuse --json for the table of labels and predictions\n"
    return text
