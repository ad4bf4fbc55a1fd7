"""The sections of a report: the errors of a model on labeled rows, its rankings, what it is, and the logs of runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import PurePath

import numpy as np

import fmcli
from fmcli.cli.evaluate.measuring import ranked
from fmcli.cli.evaluate.request import EvaluateRequest
from fmcli.cli.flags import option_words, with_flag
from fmcli.cli.output import Log
from fmcli.cli.predict import log_counts
from fmcli.data.text.faults import BadLines
from fmcli.drawing.curves import Figure
from fmcli.drawing.logs import CALIBRATION, LEARNING, SEARCH, Event, figure
from fmcli.drawing.page import HtmlPage, command_text, facts, grid, matrix, table, titled
from fmcli.errors import UsageError
from fmcli.inspect.inspection import Figures, Row, inspect_model, views
from fmcli.inspect.labeled import ScoredRows, examples, important, some, tenths, thresholds, with_classes
from fmcli.inspect.slices import slices
from fmcli.registry.build import build_loss
from fmcli.registry.specs import REFINES, Spec, make_spec
from fmcli.scoring.calibration import reliability
from fmcli.scoring.evaluation import class_table, confusion, figures, usual_metrics
from fmcli.scoring.explain.explanation import Explainer
from fmcli.scoring.metrics import BINARY, CLASSES, METRICS, NUMBERS, default_metrics
from fmcli.scoring.prediction import Counts
from fmcli.scoring.scorer import Scorer
from fmcli.system.machine import cpu_count
from fmcli.text import shell_word
from fmcli.training.baseline import Baseline

# The K of rankings, the most classes of a matrix, the most trials in a table, and the features in a list.
PLACES, MOST_CLASSES, MOST_TRIALS, TOP = (1, 2, 5, 10, 20, 50, 100), 12, 30, 15
NO_LOG = (
    "A model file keeps no history of its epochs. Train with --log-json run.json, and give --log run.json, to see the "
    "learning curve and what a search tried."
)
# The lists of what a model has learned -> their titles.
LEARNED = {
    "importance": "Features that change scores most, alone and in pairs",
    "main_effects": "Main effects",
    "pairs": "Pairs of features: what both add beyond what each adds alone",
    "field_pairs": "Pairs of fields",
}

Logs = Mapping[str, Sequence[Event]]


def written(log: Log, request: EvaluateRequest, logs: Logs, draw: tuple[str | None, Sequence[str]]) -> str:
    """Return the page. draw : the kind of the figure of logs, and its metrics; None: the kinds that fit each log.

    Raises BadInputError, MissingInputError and UsageError.
    """
    page, title, verdict = (
        HtmlPage(),
        ", ".join(logs),
        "Runs beside each other." if len(logs) > 1 else "The log of a run.",
    )
    model = request.model
    if model is None:
        of_logs(page, logs, draw)
        return page.html(title, verdict, f"Written by fmcli {fmcli.__version__}.")
    title = f"{model} on {', '.join(request.inputs)}" if request.inputs else model
    verdict = "There are no labeled rows to judge the model by: give them after the model."
    subject = inspect_model(model, top=TOP)
    scorer = replace(subject.scorer, missing=request.missing_values)
    learned = {view.name: found for view, found in views(subject)}
    if request.over is not None:
        verdict = of_rankings(page, log, request)
    if scorer.known is not None and request.inputs and request.over is None:
        raise UsageError(f"{model} ranks items for users: give all items by --over")
    rows = read(log, request, scorer) if request.inputs and scorer.known is None else None
    if rows is not None:
        verdict = of_rows(page, rows, request.threads or cpu_count())
    of_parameters(page, learned)
    if logs:
        of_logs(page, logs, draw)
    else:
        page.section("Training", note=NO_LOG)
    of_model(page, scorer, learned, logs)
    return page.html(title, verdict, f"Written by fmcli {fmcli.__version__}.")


def read(log: Log, request: EvaluateRequest, scorer: Scorer) -> ScoredRows:
    """Read and score the labeled rows."""
    paths, groups = request.rows(scorer, request.inputs, scorer.labels.loss)
    counts, threads = Counts(), request.threads or cpu_count()
    rows = ScoredRows.read(scorer, paths, groups, format=request.format, threads=threads, counts=counts)
    log_counts(log, scorer, counts, BadLines(), 0.0)
    return rows


def of_rows(page: HtmlPage, rows: ScoredRows, threads: int) -> str:
    """Add the sections of labeled rows, and return the verdict."""
    scorer, outcome, task = rows.scorer, rows.outcome, rows.outcome.task
    names = usual_metrics(scorer.labels.loss, of_model=True, grouped=outcome.group is not None)
    values, constant = figures(names, outcome, scorer), constant_on(rows)
    told = [name for name in dict.fromkeys([*default_metrics(scorer.labels.loss), "r2"]) if name in values]
    beside = {name: f" (a constant: {constant[name]:.4g})" if name in constant else "" for name in told}
    verdict = f"On {rows.data.rows:,} rows: {', '.join(f'{name} {values[name]:.4g}{beside[name]}' for name in told)}."
    page.section(
        "Metrics",
        table([{"metric": name, "model": values[name], "best constant": constant.get(name)} for name in names]),
        note="The best constant is the best prediction that is the same for all of these rows.",
    )
    if not outcome.usable:
        return f"{verdict} Some scores are not finite."
    if task in BINARY:
        of_two_labels(page, rows)
    if task in NUMBERS:
        of_numbers(page, rows)
    if task in CLASSES:
        of_classes(page, rows)
    if with_classes(outcome) or task in NUMBERS:
        of_slices(page, slices(rows), wrong=with_classes(outcome))
        try:
            explainer = Explainer(scorer)
        except UsageError as error:
            page.section("Importance", note=f"The scores of this model are not sums of parts: {error}.")
        else:
            of_parts(page, rows, explainer, threads)
    return verdict


def constant_on(rows: ScoredRows) -> dict[str, float]:
    """Return the metrics of the best constant on the rows; empty if the loss has no predictions to compare with it."""
    scorer, outcome = rows.scorer, rows.outcome
    if outcome.task not in NUMBERS and not outcome.link.probable:
        return {}
    meta, labels = scorer.meta, scorer.labels
    loss = build_loss(
        Spec(meta["model"], meta["solver"], meta["loss"], meta["options"]), labels.loss, scorer.model.columns
    )
    best = loss.best_constant(labels.unit.of(outcome.label), outcome.weight, rows.data.rows)
    names = [name for name, metric in METRICS.items() if metric.fits(labels.loss) and metric.of_groups is None]
    return Baseline(labels.unit.undo(best), np.inf).on(outcome, names)


def of_two_labels(page: HtmlPage, rows: ScoredRows) -> None:
    """Add the section of thresholds, with the curves over them."""
    counts, labels = thresholds(rows.outcome), rows.scorer.labels.texts
    true, false = (np.array(counts[name]) for name in ("true", "false"))
    if not true[0] or not false[0]:
        page.section("Thresholds", note=f"All rows have the label {labels[0] if false[0] else labels[1]}.")
        return
    recall, positive = true / true[0], true + false
    precision = np.divide(true, positive, out=np.ones(len(true)), where=positive > 0)
    share = true[0] / (true[0] + false[0])
    curves = {
        "ROC": ("share of false alarms", "recall", false / false[0], recall, {"chance": ([0, 1], [0, 1])}),
        "Precision and recall": ("recall", "precision", recall, precision, {"chance": ([0, 1], [share, share])}),
    }
    charts = [
        page.chart(Figure(title, x, y, {"": {"model": (xs.tolist(), ys.tolist()), **chance}}), "by-threshold")
        for title, (x, y, xs, ys, chance) in curves.items()
    ]
    if rows.outcome.link.probable:
        found = reliability(rows.outcome)
        points = [one["predicted"] for one in found.bins], [one["observed"] for one in found.bins]
        most = max(*points[0], *points[1])
        panel = {"": {f"model (error {found.error:.3g})": points, "equal": ([0, most], [0, most])}}
        charts.append(
            page.chart(Figure("Reliability", f"predicted probability of {labels[1]}", "observed share", panel))
        )
    note = f"Rows with at least the threshold are predicted to be {labels[1]}. Move it to see what it costs."
    page.section("Thresholds", grid(page.thresholds(counts, labels), *charts), note=note)


def of_numbers(page: HtmlPage, rows: ScoredRows) -> None:
    """Add the section of predicted numbers."""
    label, prediction = rows.label, rows.prediction
    assert label is not None
    assert prediction is not None
    found, kept = tenths(label, prediction), some(len(label), 400)
    ends = [float(min(prediction.min(), label.min())), float(max(prediction.max(), label.max()))]
    means = [one["predicted"] for one in found], [one["label"] for one in found]
    cloud = prediction[kept].tolist(), label[kept].tolist()
    against = {"rows": cloud, "mean of a tenth": means, "equal": (ends, ends)}
    spread = {
        name: (means[0], [one[key] for one in found])
        for key, name in (("high", "upper quarter"), ("middle", "median"), ("low", "lower quarter"))
    }
    page.section(
        "Predicted and true numbers",
        grid(
            page.chart(Figure("True by predicted", "predicted", "true", {"": against}, clouds=("rows",))),
            page.chart(Figure("Residuals by tenth of the predictions", "predicted", "true - predicted", {"": spread})),
        ),
        note=f"Points are {len(kept):,} of {len(label):,} rows. A tenth has the rows with the next larger predictions.",
    )


def of_classes(page: HtmlPage, rows: ScoredRows) -> None:
    """Add the section of classes."""
    counts, labels = confusion(rows.outcome), rows.scorer.labels
    shown = table(class_table(labels.shown or [], counts))
    if len(labels.texts) <= MOST_CLASSES:
        shown += matrix(labels.texts, [[f"{one:,}" for one in row] for row in counts.tolist()])
    page.section("Classes", shown, note="Rows by label (down) and prediction (across).")


def of_slices(page: HtmlPage, found: Sequence[Row], *, wrong: bool) -> None:
    """Add the section of errors by column."""
    error = "share of wrong predictions" if wrong else "mean absolute error"
    names = {"low": "from", "high": "to", "label": "mean label", "prediction": "mean prediction"}
    page.section(
        "Errors by column",
        table([{names.get(name, name): value for name, value in row.items()} for row in found], "sortable choosable"),
        note=f"The error is the {error} of the rows with a value, in a 95 % interval (from, to). The slices that are "
        "worst beyond chance come first: those whose interval begins highest.",
    )


def of_parts(page: HtmlPage, rows: ScoredRows, explainer: Explainer, threads: int) -> None:
    """Add the sections of importance, and of rows that are explained."""
    found = important(rows, explainer, threads)
    lost = [{name: value for name, value in row.items() if name != "metric"} for row in found["permuted"]]
    what = f"What {found['permuted'][0]['metric']} loses if the values change places among rows" if lost else ""
    shares = {
        name: titled(f"Mean share of the score, by {name.removesuffix('s')}", table(found.get(name, []), bar="share"))
        for name in ("fields", "features")
    }
    columns = f"<div>{titled(what, table(lost, bar='lost'))}{shares['fields']}</div>"
    page.section("Importance", grid(columns, shares["features"]))
    cards = []
    for one in examples(rows, explainer):
        parts = [{"part": name, "adds": value} for name, value in one["parts"].items()]
        said = f"Row {one['row']:,}: label {one['label']}, prediction {one['prediction']}"
        cards.append(titled(said, table(parts, "", bar="adds"), f"example{' wrong' * one['wrong']}"))
    base = f"{explainer.base[0]:.4g}" if explainer.outputs == 1 else "its class's base"
    page.section(
        "Rows explained",
        grid(*cards),
        note=f"The rows with the largest errors, and others that are predicted well. A score is {base} plus the parts; "
        "of several classes, it is the score of the predicted one.",
    )


def of_rankings(page: HtmlPage, log: Log, request: EvaluateRequest) -> str:
    """Add the section of rankings of all items, and return the verdict."""
    every = replace(request, metrics=(*(f"{name}@{k}" for name in ("recall", "coverage") for k in PLACES), "mrr"))
    result = ranked(log, every, request.over or "", BadLines())
    found, counts = result.figures, result.rankings
    curves = {name: {name: (list(PLACES), [found[f"{name}@{k}"] for k in PLACES])} for name in ("recall", "coverage")}
    titles = {
        "recall": "Relevant items among the first K",
        "coverage": "Items that anyone is recommended in the first K",
    }
    charts = [
        page.chart(Figure(titles[name], "K", f"{name}@K", {"": curve}, log_x=True)) for name, curve in curves.items()
    ]
    page.section(
        "Rankings of all items",
        grid(*charts),
        table([{"K": k, **{name: found[f"{name}@{k}"] for name in curves}} for k in PLACES]),
        note=f"{counts['users']:,} users, {counts['items']:,} items; {counts['users_without']:,} users without a "
        f"relevant item are left out, and {counts['pairs_seen']:,} pairs that were seen. MRR: {found['mrr']:.4g}.",
    )
    return f"Of the items that users chose, {found['recall@10']:.3g} are among their first 10 of {counts['items']:,}."


def of_parameters(page: HtmlPage, learned: Mapping[str, Figures]) -> None:
    """Add the section of features and pairs."""
    lists = {name: learned[name] for name in LEARNED if name in learned}
    page.section("What the model has learned", grid(*(titled(LEARNED[name], table(rows)) for name, rows in lists.items()
                                                      if isinstance(rows, list))))  # fmt: skip


def of_model(page: HtmlPage, scorer: Scorer, learned: Mapping[str, Figures], logs: Logs) -> None:
    """Add the section of the properties of the model, and the command that makes it again."""
    meta, facts_of = scorer.meta, {name: found for name, found in learned.items() if isinstance(found, dict)}
    starts = [event for events in logs.values() for event in events if event.get("event") == "start"]
    if starts and starts[0].get("command"):
        words = ["fmcli", *map(shell_word, starts[0]["command"])]
    else:
        usual = make_spec(meta["model"], meta["solver"], meta["loss"]).values
        options = {name: value for name, value in meta["options"].items() if usual.get(name, value) != value}
        same = [name for name, whole in REFINES.items() if options.get(name) == options.get(whole)]
        words = ["fmcli", "train", "-m", meta["model"], "-s", meta["solver"], "--loss", meta["loss"]]
        words += [with_flag("label", scorer.table.label)] if scorer.table and scorer.table.label else []
        words += [with_flag(name, value) for name, value in options.items() if name not in same]
        words += ["--implicit"] * (scorer.known is not None)
        words.append("ROWS")
    left = ("labels", "verified", "file", "tool", "format", "pair_rows")
    properties = {name: value for name, value in facts_of["model"].items() if name not in left}
    page.section(
        "The model",
        grid(facts(properties), facts(facts_of["training"])),
        titled("To train it again", command_text(" ".join(words))),
    )


def of_logs(page: HtmlPage, logs: Logs, draw: tuple[str | None, Sequence[str]]) -> None:
    """Add the sections of logs: the figure that is asked for, or else all that they have."""
    kind, metrics = draw
    of_kind = {CALIBRATION: "calibration", SEARCH: "trial", LEARNING: "epoch"}
    kinds: dict[str | None, Logs] = {
        one: {path: events for path, events in logs.items() if any(has(event, key) for event in events)}
        for one, key in of_kind.items()
    }
    if kind is not None or not any(kinds.values()):
        kinds = {kind: logs}
    charts = [page.chart(figure(some, one, metrics)) for one, some in kinds.items() if some]
    runs = [run for path, events in logs.items() for run in summaries(path, events)]
    page.section("Training", grid(*charts), table(runs), *(trials(*one) for one in kinds.get(SEARCH, {}).items()))


def has(event: Event, key: str) -> bool:
    """Return whether an event is of a kind, or an entry that it has. Epochs of trials do not count."""
    return (
        key in event if key == "calibration" else event.get("event") == key and (key == "trial" or "trial" not in event)
    )


def summaries(path: str, events: Sequence[Event]) -> list[Row]:
    """Return what a log says of its runs at their ends."""
    return [
        {"run": PurePath(path).stem, "best epoch": one.get("best_epoch"), "rows": one.get("rows"),
         **{f"valid-{name}": value for name, value in (one.get("valid") or {}).items()}}
        for one in events if one.get("event") == "summary"
    ]  # fmt: skip


def trials(path: str, events: Sequence[Event]) -> str:
    """Return the trials of a search as a table, the best one first."""
    found = {one["trial"]: one for one in events if one.get("event") == "trial" and one["value"] is not None}
    sign = -1 if found and METRICS[next(iter(found.values()))["metric"].partition("@")[0]].larger_is_better else 1
    order = sorted(found.values(), key=lambda one: sign * one["value"])[:MOST_TRIALS]
    return titled(f"Trials of {PurePath(path).stem}", table([
        {"trial": one["trial"], "kind": one["model"], "solver": one["solver"],
         "options": " ".join(option_words(one["options"])), one["metric"]: one["value"]}
        for one in order
    ]))  # fmt: skip
