"""The figures of fmcli evaluate: of a model or predictions on rows, of rankings of all items, and on a cluster."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import field
from functools import partial
from typing import TYPE_CHECKING, Any

from fmcli.cli.cluster import ClusterAddress, log_progress
from fmcli.cli.evaluate.gate import Rival
from fmcli.cli.output import Log
from fmcli.cli.predict import log_counts, log_model
from fmcli.cli.relations import check_model
from fmcli.errors import UsageError
from fmcli.records import dataclass
from fmcli.registry.losses import LOSSES
from fmcli.text import counted

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from fmcli.cli.evaluate.request import EvaluateRequest
    from fmcli.data.labels import Labels
    from fmcli.data.text.faults import BadLines
    from fmcli.scoring.calibration import Reliability
    from fmcli.scoring.metrics import Outcome
    from fmcli.scoring.paired import Difference
    from fmcli.scoring.prediction import Counts
    from fmcli.scoring.scorer import Scorer


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


def wanted_metrics(request: EvaluateRequest, labels: Labels, grouped: bool) -> list[str]:
    """Return the metrics to compute: the chosen ones, or all that fit rows that have groups or none."""
    from fmcli.scoring.evaluation import usual_metrics

    of_model = request.model is not None
    usual = () if request.metrics else usual_metrics(labels.loss, of_model=of_model, grouped=grouped)
    return list(dict.fromkeys([*usual, *request.named]))


def wants_table(request: EvaluateRequest, labels: Labels) -> bool:
    """Return whether the report has tables of the classes; kernel-basis treats two label values as numbers."""
    return labels.values is not None and LOSSES[labels.loss].task in ("binary", "classes") and not request.metrics


def measured(log: Log, request: EvaluateRequest, bad: BadLines) -> Result:
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


def ranked(log: Log, request: EvaluateRequest, over: str, bad: BadLines) -> Result:
    """Evaluate the rankings of all items for each user."""
    from fmcli.data.text.sources import name_of
    from fmcli.scoring.evaluation import check_metrics, relevance_of
    from fmcli.scoring.lists import list_metric
    from fmcli.scoring.metrics import allowed, need_groups
    from fmcli.scoring.prediction import Counts
    from fmcli.scoring.recommend.rankings import RankingInputs, rankings
    from fmcli.scoring.scorer import load_model

    assert request.model is not None
    begin, scorer, counts = time.perf_counter(), load_model(request.model), Counts()
    loss = scorer.labels.loss
    require_positive(request, scorer)
    names = request.named or need_groups(allowed(loss))
    check_metrics([name for name in names if list_metric(name) is None], loss, of_model=True)
    if others := [name for name in names if name not in need_groups(allowed(loss)) and "@" not in name]:
        raise UsageError(f"--over ranks items, so {others[0]} cannot be computed; choose metrics of groups")
    log_model(log, request.model, scorer)
    user = request.column_of_users(scorer)
    rows, row_groups = request.rows(scorer, request.inputs, loss, grouped=user is None)
    inputs = RankingInputs(
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
        format=request.choices.format,
        row_groups=row_groups,
        threads=request.threads,
        counts=counts,
    )
    log_counts(log, scorer, counts, bad, time.perf_counter() - begin)
    for path in found.unmatched:
        log.warning(
            f"--seen {path}: no row has both a user of {name_of(rows[0])} and an item, so it leaves out nothing"
        )
    if found.reason:
        log.line(f"{request.model}: all pairs are scored one by one, because {found.reason}")
    seen = f", without {counted(found.seen, 'seen pair')}" if found.seen else ""
    left_out = f"; left out {counted(found.without, 'user')} without a relevant item" if found.without else ""
    last = f"; {counted(found.unknown, 'item')} without a feature that the model knows, ranked last"
    log.line(
        f"{counted(found.users, 'user')}, {counted(found.items, 'item')}{seen}{left_out}{last if found.unknown else ''}"
    )
    figures = {"users": found.users, "users_without": found.without, "items": found.items, "pairs_seen": found.seen}
    return Result(scorer.labels, counts, found.figures, None, rankings=figures)


def require_positive(request: EvaluateRequest, scorer: Scorer) -> None:
    """Raise UsageError for a positive label other than the model's."""
    if request.choices.positive is not None:
        scorer.labels.require_positive(request.choices.positive, scorer.path)


def measured_on_cluster(log: Log, request: EvaluateRequest, bad: BadLines, choice: ClusterAddress) -> Result:
    """Evaluate a model on a cluster."""
    from fmcli.cluster.scoring import Scoring, loaded
    from fmcli.cluster.tasks import RowReading
    from fmcli.data.tables.reading import By
    from fmcli.data.text.formats import Stream
    from fmcli.scoring.evaluation import check_metrics
    from fmcli.scoring.prediction import Counts
    from fmcli.scoring.summary import Combined

    assert request.model is not None
    scorer, model = loaded(request.model)
    require_positive(request, scorer)
    check_metrics(request.named, scorer.labels.loss, of_model=True)
    log_model(log, request.model, scorer)
    counts, combined = Counts(), Combined()
    stream = Stream(label_weights=request.choices.label_weights, row_groups=request.row_groups(scorer.labels.loss))
    with choice.connected(log) as cluster:
        begin = time.perf_counter()
        by = None if request.choices.group_field is None else By(request.choices.group_field)
        tables: dict[str, Any] = {
            "joined": dict(request.choices.join),
            "by": by,
            "missing": request.choices.missing_values,
        }
        reading = RowReading(request.choices.format, True, bad.skip, stream, **tables)
        scoring = Scoring(cluster, model, request.inputs, reading, counts, bad)
        names = wanted_metrics(request, scorer.labels, scoring.grouped)
        for _ in scoring.evaluate(names, wants_table(request, scorer.labels), combined):
            log_progress(log, scoring.progress, counts, begin)
        took = time.perf_counter() - begin
    log_counts(log, scorer, counts, bad, took)
    return Result(scorer.labels, counts, combined.figures(names, scorer), combined.table if combined.usable else None)


def evaluated(
    log: Log, request: EvaluateRequest, bad: BadLines
) -> tuple[Labels, Outcome, Scorer | None, Counts, Difference | None]:
    """Labels, outcome, the scorer if there is a model, counts, and the difference from another model. Metrics are
    checked as early as possible."""
    from fmcli.data.text.sources import name_of
    from fmcli.scoring.evaluation import check_metrics, evaluate_predictions
    from fmcli.scoring.prediction import Counts
    from fmcli.scoring.scorer import load_model

    begin = time.perf_counter()
    counts = Counts()
    threads = request.threads
    if request.model is not None:
        scorer = load_model(request.model)
        check_model(request.relations, scorer)
        require_positive(request, scorer)
        check_metrics(request.named, scorer.labels.loss, of_model=True)
        log_model(log, request.model, scorer)
        loss, alternative, difference = scorer.labels.loss, None, None
        if request.current is not None:
            alternative = Rival(log, request.current, scorer.labels, request.metrics, request.relations)
        outcome = request.scored(scorer, loss, threads, counts, bad)
        log_counts(log, scorer, counts, bad, time.perf_counter() - begin)
        if alternative is not None:
            from fmcli.data.text.faults import BadLines

            silent = BadLines(bad.skip, None, lambda text: None)
            scored = partial(request.scored, loss=loss, threads=threads, counts=Counts(), bad=silent)
            difference = alternative.difference(outcome, scored, request.inputs[0], threads)
        return scorer.labels, outcome, scorer, counts, difference
    assert request.predictions is not None
    check_metrics(request.named, request.loss, of_model=False)
    inputs, row_groups = request.labeled()
    labels, outcome = evaluate_predictions(
        request.predictions,
        inputs,
        loss=request.loss,
        raw=request.raw,
        format=request.choices.format,
        threads=threads,
        counts=counts,
        row_groups=row_groups,
        relevant=request.relevant,
        positive=request.choices.positive,
    )
    check_metrics(request.named, labels.loss, of_model=False)
    kind = "scores" if request.raw else "probabilities" if outcome.probable else "predictions"
    rows = f"{counted(counts.rows, 'row')} of {kind}"
    log.line(f"{name_of(request.predictions)}: {rows}, evaluated as loss {labels.loss}")
    return labels, outcome, None, counts, None
