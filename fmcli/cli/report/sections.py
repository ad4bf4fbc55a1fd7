"""The sections of a report: the errors of a model on labeled rows, its rankings, what it is, and the logs of runs."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import PurePath

import numpy as np

from fmcli.cli.evaluate.measuring import ranked
from fmcli.cli.evaluate.request import EvaluateRequest
from fmcli.cli.flags import with_flag
from fmcli.cli.output import Log
from fmcli.cli.predict import log_counts
from fmcli.cli.train.tries import words_of
from fmcli.data.shards.observed_rows import AllPairsTerms
from fmcli.data.text.faults import BadLines
from fmcli.drawing.curves import Curve, Figure
from fmcli.drawing.logs import CALIBRATION, LEARNING, SEARCH, TRIED, Event, figure
from fmcli.drawing.page import HtmlPage, cell, command_text, facts, grid, matrix, table, titled
from fmcli.errors import UsageError
from fmcli.inspect.importance import Fields
from fmcli.inspect.inspection import Figures, Row, inspect_model, views
from fmcli.inspect.labeled import ScoredRows, examples, important, some, tenths, thresholds
from fmcli.inspect.slices import slices
from fmcli.registry.build import build_loss
from fmcli.registry.losses import LOSSES
from fmcli.registry.specs import REFINES, Spec, make_spec
from fmcli.scoring.calibration import reliability
from fmcli.scoring.evaluation import class_table, confusion, figures, usual_metrics
from fmcli.scoring.explain.explanation import Explainer
from fmcli.scoring.metrics import BINARY, CLASSES, NUMBERS, default_metrics, metric_of
from fmcli.scoring.prediction import Counts
from fmcli.scoring.scorer import Scorer
from fmcli.text import counted, shell_word
from fmcli.training.baseline import Baseline
from fmcli.training.verdict import sentence

# The K of rankings, and the most points of a cloud, classes of a matrix, trials in a table, and features in a list.
PLACES, MOST_POINTS, MOST_CLASSES, MOST_TRIALS, TOP = (1, 2, 5, 10, 20, 50, 100), 400, 12, 30, 15
NO_ROWS = "There are no labeled rows to judge the model by: give them after the model."
NO_LOG = "A model file has no epochs. To see them here, train with --log-json run.json and add --log run.json."
# The lists of what a model has learned -> their titles.
LEARNED = {
    "importance": "Features that change scores most, alone and in pairs",
    "main_effects": "Main effects",
    "pairs": "Pairs of features: what both add beyond what each adds alone",
    "field_pairs": "Pairs of fields",
}
LONGEST = 24  # characters of a label in a chart
# Names of figures -> the titles of their columns.
LISTED = {
    **{"low": "from", "high": "to", "label": "mean label", "prediction": "mean prediction"},
    **{"field": "column", "share": "mean", "lost": "worse by"},
}
# The properties of a model that the page leaves out.
LEFT_OUT = ("labels", "verified", "file", "tool", "format", "pair_rows")

Logs = Mapping[str, Sequence[Event]]


def written(log: Log, request: EvaluateRequest, logs: Logs, draw: tuple[str | None, Sequence[str]]) -> str:
    """Return the page. draw : the kind of the figure of logs, and its metrics; None: the kinds that fit each log.

    Raises BadInputError, MissingInputError and UsageError.
    """
    page, model = HtmlPage(), request.model
    if model is None:
        of_logs(page, logs, draw)
        return page.html(f"Logs: {', '.join(logs)}")
    subject = inspect_model(model, top=TOP)
    scorer, verdict = replace(subject.scorer, missing=request.choices.missing_values), NO_ROWS
    learned = {view.name: found for view, found in views(subject)}
    if request.over is not None:
        verdict = of_rankings(page, log, request, request.over)
    elif scorer.known is not None and request.inputs:
        raise UsageError(f"{model} ranks items for users: give all items by --over")
    if request.inputs and scorer.known is None:
        verdict = of_rows(page, read(log, request, scorer), request.threads)
    lists = {name: found for name, found in learned.items() if name in LEARNED and isinstance(found, list)}
    kind = "sortable" if scorer.model.outputs == 1 else "sortable choosable"
    page.section(
        "What the model has learned", grid(*(titled(LEARNED[name], table(lists[name], kind)) for name in lists))
    )
    if logs:
        of_logs(page, logs, draw)
    else:
        page.section("Training", note=NO_LOG)
    of_model(page, scorer, learned, logs)
    return page.html(" on ".join([model, *([", ".join(request.inputs)] if request.inputs else [])]), verdict)


def read(log: Log, request: EvaluateRequest, scorer: Scorer) -> ScoredRows:
    """Read and score the labeled rows."""
    begin = time.perf_counter()
    paths, groups = request.rows(scorer, request.inputs, scorer.labels.loss)
    counts, threads = Counts(), request.threads
    rows = ScoredRows.read(scorer, paths, groups, format=request.choices.format, threads=threads, counts=counts)
    log_counts(log, scorer, counts, BadLines(), time.perf_counter() - begin)
    return rows


def of_rows(page: HtmlPage, rows: ScoredRows, threads: int) -> str:
    """Add the sections of labeled rows, and return the verdict."""
    scorer, outcome, task = rows.scorer, rows.outcome, rows.outcome.task
    names = usual_metrics(scorer.labels.loss, of_model=True, grouped=outcome.group is not None)
    values, constants = figures(names, outcome, scorer), constants_on(rows)
    note = "The best constant is the best prediction that is the same for all of these rows." if constants else ""
    beside = {name: {"best constant": constants.get(name)} if constants else {} for name in names}
    page.section(
        "Metrics", table([{"metric": name, "model": values[name], **beside[name]} for name in names]), note=note
    )
    if not outcome.usable:
        return "Some rows have a score that is not finite, so no metric is defined."
    if task in BINARY:
        of_two_labels(page, rows)
    if task in NUMBERS:
        of_numbers(page, rows)
    if task in CLASSES and scorer.labels.outputs > 1:
        of_classes(page, rows)
    if task in (*BINARY, *CLASSES, *NUMBERS):
        of_slices(page, rows)
        try:
            of_parts(page, rows, Explainer(scorer), threads)
        except UsageError as error:
            page.section("Importance", note=f"The scores of this model are not sums of parts: {error}.")
    told = [name for name in (*default_metrics(scorer.labels.loss), "r2") if math.isfinite(values.get(name, math.nan))]
    return sentence(
        f"Predicts {counted(rows.data.rows, 'row')}", {one: values[one] for one in told}, constants, "a constant"
    )


def constants_on(rows: ScoredRows) -> dict[str, float]:
    """Return the metrics of the best constant on the rows; empty if the loss has no predictions to compare with it."""
    scorer, outcome = rows.scorer, rows.outcome
    if outcome.task not in NUMBERS and not outcome.link.probable:
        return {}
    meta, labels = scorer.meta, scorer.labels
    spec = Spec(meta["model"], meta["solver"], meta["loss"], meta["options"])
    loss = build_loss(spec, labels.loss, scorer.model.columns)
    best = loss.best_constant(labels.unit.of(outcome.label), outcome.weight, rows.data.rows)
    names = usual_metrics(labels.loss, of_model=False, grouped=False)
    return Baseline(labels.unit.undo(best), np.inf).on(outcome, names)


def of_two_labels(page: HtmlPage, rows: ScoredRows) -> None:
    """Add the section of thresholds, with the curves over them."""
    counts, labels = thresholds(rows.outcome), rows.scorer.labels.texts
    true, false = (np.array(counts[name]) for name in ("true", "false"))
    if not true[0] or not false[0]:
        page.section("Thresholds", note=f"All rows have the label {labels[0] if false[0] else labels[1]}.")
        return
    recall, alarms, positive = true / true[0], false / false[0], true + false
    precision, share = np.divide(true, positive, out=np.zeros(len(true)), where=positive > 0), true[0] / positive[0]
    precision[-1] = precision[-2]  # above all rows, where it is undefined; 1 would hide the others of a rare label
    roc = {"model": (alarms.tolist(), recall.tolist()), "chance": ([0, 1], [0, 1])}
    found = {"model": (recall.tolist(), precision.tolist()), "chance": ([0, 1], [share, share])}
    charts = [
        *page.charts(Figure("ROC", "share of false alarms", "recall", {"": roc}), "by-threshold"),
        *page.charts(Figure("Precision and recall", "recall", "precision", {"": found}), "by-threshold"),
    ]
    if rows.outcome.link.probable:
        bins = reliability(rows.outcome)
        x, y = ([one[name] for one in bins.bins] for name in ("predicted", "observed"))
        equal = [0, max(*x, *y)]
        curves = {f"model (error {bins.error:.3g})": (x, y), "equal": (equal, equal)}
        about = f"predicted probability of {labels[1]:.{LONGEST}}"
        charts += page.charts(Figure("Reliability", about, "observed share", {"": curves}))
    note = f"fmcli predicts {labels[1]} for rows with at least the threshold. Move the threshold to see its errors."
    page.section("Thresholds", grid(page.thresholds(counts, labels), *charts), note=note)


def of_numbers(page: HtmlPage, rows: ScoredRows) -> None:
    """Add the section of predicted numbers."""
    label, prediction = rows.label, rows.prediction
    found, kept = tenths(label, prediction), some(len(label), MOST_POINTS)
    ends = [float(min(prediction.min(), label.min())), float(max(prediction.max(), label.max()))]
    x = [one["predicted"] for one in found]
    against: dict[str, Curve] = {
        "rows": (prediction[kept].tolist(), label[kept].tolist()),
        "mean of a tenth": (x, [one["label"] for one in found]),
        "equal": (ends, ends),
    }
    quarters = {"high": "upper quarter", "middle": "median", "low": "lower quarter"}
    spread = {title: (x, [one[key] for one in found]) for key, title in quarters.items()}
    charts = [
        *page.charts(Figure("True by predicted", "predicted", "true", {"": against}, clouds=("rows",))),
        *page.charts(Figure("Residuals by tenth of the predictions", "predicted", "true - predicted", {"": spread})),
    ]
    note = f"The points are {len(kept):,} of {len(label):,} rows. Tenths divide the rows by their predictions."
    page.section("Predicted and true numbers", grid(*charts), note=note)


def of_classes(page: HtmlPage, rows: ScoredRows) -> None:
    """Add the section of classes."""
    counts, labels = confusion(rows.outcome), rows.scorer.labels
    shown = table(class_table(labels.shown or [], counts))
    if len(labels.texts) <= MOST_CLASSES:
        shown += matrix(labels.texts, [[f"{one:,}" for one in row] for row in counts.tolist()])
    page.section("Classes", shown, note="Rows by label (down) and prediction (across).")


def of_slices(page: HtmlPage, rows: ScoredRows) -> None:
    """Add the section of errors by column."""
    error = "share of wrong predictions" if rows.wrong is not None else "mean absolute error"
    found = [{LISTED.get(name, name): value for name, value in row.items()} for row in slices(rows)]
    note = (
        f"The error is the {error} of the rows with a value; from and to are the ends of its 95 % interval. "
        "The slice with the largest from comes first."
    )
    if rows.outcome.task in BINARY:
        note += f" The mean label is the share of rows with {rows.scorer.labels.texts[1]}."
    page.section("Errors by column", table(found, "sortable choosable"), note=note)


def of_parts(page: HtmlPage, rows: ScoredRows, explainer: Explainer, threads: int) -> None:
    """Add the sections of importance, and of rows that are explained."""
    found = important(rows, explainer, threads)
    titles = {
        "permuted": f"How much worse {default_metrics(rows.outcome.loss)[0]} is with the values of a column shuffled",
        "fields": "Mean absolute contribution to the score, by column",
        "features": "Mean absolute contribution to the score, by feature",
    }
    parts = []
    for name, title in titles.items():
        rows_of = [
            {LISTED.get(one, one): value for one, value in row.items() if one != "metric"}
            for row in found.get(name, [])
        ]
        parts.append(titled(title, table(rows_of, bar=LISTED["lost" if name == "permuted" else "share"])))
    lost, fields, features = parts
    page.section("Importance", grid(f"<div>{lost}{fields}</div>", features))
    cards = [
        titled(
            f"Row {one['row']:,}: label {one['label']}, prediction {one['prediction']}",
            table([{"part": name, "adds": value} for name, value in one["parts"].items()], "", bar="adds"),
            f"example{' wrong' * one['wrong']}",
        )
        for one in examples(rows, explainer)
    ]
    base = "the base of the predicted class" if explainer.outputs > 1 else cell(float(explainer.base[0]))
    note = f"Rows with the largest errors, then rows with small errors. A score is {base} plus the parts."
    page.section("Rows explained", grid(*cards), note=note)


def of_rankings(page: HtmlPage, log: Log, request: EvaluateRequest, over: str) -> str:
    """Add the section of rankings of all items, and return the verdict."""
    names = {
        "recall": "Share of the relevant items in the first K places",
        "coverage": "Share of all items that any user has in the first K places",
    }
    metrics = [f"{name}@{k}" for name in names for k in PLACES]
    result = ranked(log, replace(request, metrics=(*metrics, "mrr")), over, BadLines())
    found, counts = result.figures, result.rankings
    charts = []
    for name, title in names.items():
        curve = list(PLACES), [found[f"{name}@{k}"] for k in PLACES]
        charts += page.charts(Figure(title, "K", f"{name}@K", {"": {name: curve}}, log_x=True))
    without, seen = counts["users_without"], counts["pairs_seen"]
    left = [f"{counted(without, 'user')} without a relevant item"] * (without > 0)
    left += [f"{counted(seen, 'pair')} seen before"] * (seen > 0)
    note = f"{counted(counts['users'], 'user')} and {counted(counts['items'], 'item')}"
    note += f"; left out: {' and '.join(left)}." if left else "."
    rows = table([{"K": k, **{name: found[f"{name}@{k}"] for name in names}} for k in PLACES])
    page.section("Rankings of all items", grid(*charts), rows, note=note)
    users, items = counted(counts["users"], "user"), counted(counts["items"], "item")
    return sentence(f"Ranks {items} for {users}", {name: found[name] for name in ("recall@10", "coverage@10", "mrr")})


def of_model(page: HtmlPage, scorer: Scorer, learned: Mapping[str, Figures], logs: Logs) -> None:
    """Add the section of the properties of the model, and the command that makes it again."""
    meta, table = scorer.meta, scorer.table
    commands = [one["command"] for events in logs.values() for one in events if isinstance(one.get("command"), list)]
    words = ["fmcli", *(shell_word(str(word)) for word in commands[0])] if commands else []
    if not commands:
        usual = make_spec(meta["model"], meta["solver"], meta["loss"]).values
        options = {name: value for name, value in meta["options"].items() if usual.get(name, value) != value}
        same = [name for name, whole in REFINES.items() if options.get(name) == options.get(whole)]
        words = ["fmcli", "train", "-m", meta["model"], "-s", meta["solver"]]
        words += ["--loss", meta["loss"]] if scorer.known is None else of_pairs(scorer, scorer.known.terms)
        words += [with_flag("label", table.label)] if table and table.label else []
        words += [with_flag(name, value) for name, value in options.items() if name not in (*same, "init_strength")]
        words.append("ROWS")
    of_facts = {name: found for name, found in learned.items() if isinstance(found, dict)}
    properties = {name: value for name, value in of_facts["model"].items() if name not in LEFT_OUT}
    again = titled("To train it again", command_text(words))
    page.section("The model", grid(facts(properties), facts(of_facts["training"])), again)


def of_pairs(scorer: Scorer, terms: AllPairsTerms) -> list[str]:
    """Return the words of a command by which a model learns from observed pairs."""
    names, loss = Fields(scorer).names, scorer.meta["loss"]
    sides = {"user": terms.users, "item": terms.items}
    words = [
        with_flag(side, tuple(str(field if not names else names[field]) for field in sorted(fields)))
        for side, fields in sides.items()
    ]
    of_all_pairs = [with_flag(name, getattr(terms, name)) for name in ("unseen_weight", "l2_power")]
    return ["--implicit", *words, *(["--loss", loss] if LOSSES[loss].pairwise else of_all_pairs)]


def of_logs(page: HtmlPage, logs: Logs, draw: tuple[str | None, Sequence[str]]) -> None:
    """Add the section of logs: the figure that is asked for, or else all that they have."""
    kind, metrics = draw
    found = {
        one: {path: logs[path] for path in logs if has(logs[path], one)} for one in (CALIBRATION, SEARCH, LEARNING)
    }
    searches = found[SEARCH].items()
    shown: list[tuple[str | None, Logs]] = [(kind, logs)] if kind or not any(found.values()) else [*found.items()]
    charts = [chart for one, some in shown if some for chart in page.charts(figure(some, one, metrics))]
    ends = [
        {
            "run": PurePath(path).stem,
            "rows": one.get("rows"),
            "best epoch": one.get("best_epoch"),
            **(one.get("valid") or {}),
        }
        for path, events in logs.items()
        for one in events
        if one.get("event") == "summary"
    ]
    tables = [trials(path, events) for path, events in searches]
    tables += [tried(path, events) for path, events in logs.items() if any(one.get("event") == TRIED for one in events)]
    page.section("Training", grid(*charts), table(ends), *tables)


def has(events: Sequence[Event], kind: str) -> bool:
    """Return whether a log has what a kind of figure draws. Epochs of trials do not count."""
    if kind == CALIBRATION:
        return CALIBRATION in events[0]
    name = {SEARCH: "trial", LEARNING: "epoch"}[kind]
    return any(one.get("event") == name and (kind == SEARCH or "trial" not in one) for one in events)


def tried(path: str, events: Sequence[Event]) -> str:
    """Return the values that a quick search tried as a table, in their order."""
    rows = [
        {
            "tried": words_of(one["options"]),
            one["metric"]: one["found"],
            "against": one["before"],
            "": "used" if one["chosen"] else "",
        }
        for one in events
        if one.get("event") == TRIED
    ]
    return titled(f"Tried before {PurePath(path).stem}", table(rows))


def trials(path: str, events: Sequence[Event]) -> str:
    """Return the trials of a search as a table, the best one first."""
    found = {one["trial"]: one for one in events if one.get("event") == "trial" and one["value"] is not None}
    order = sorted(found.values(), key=lambda one: one["value"])
    if order and metric_of(order[0]["metric"]).larger_is_better:
        order.reverse()
    rows: list[Row] = []
    for one in order[:MOST_TRIALS]:
        kind = {name: one[name] for name in ("trial", "model", "solver")}
        rows.append({**kind, "options": words_of(one["options"]) or "defaults", one["metric"]: one["value"]})
    return titled(f"Trials of {PurePath(path).stem}", table(rows))
