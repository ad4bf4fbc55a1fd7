"""Figures of logs: of `train --log-json`, `cv --log-json` and `evaluate --json --calibration`."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from itertools import accumulate
from pathlib import PurePath
from typing import Any

from fmcli.base.json_files import parse, text_of
from fmcli.base.rules import (
    BOOLEAN,
    COUNT,
    LARGEST,
    MEASURE,
    TABLE,
    TEXT,
    UNICODE,
    Rule,
    are_figures,
    by_name,
    entries,
    fault,
    list_of,
    null_or,
    within,
)
from fmcli.drawing.curves import Curve, Figure
from fmcli.errors import BadInputError, UsageError, called
from fmcli.records import dataclass
from fmcli.registry.options import OPTIONS
from fmcli.registry.specs import REFINES
from fmcli.scoring.metrics import metric_of
from fmcli.text import one_line

TRIED = "tried"  # the event of a value that a quick search tried
LEARNING, TIME, PATH, SEARCH, CALIBRATION = "learning", "time", "path", "search", "calibration"
# Kind of figure -> its description.
KINDS = {
    LEARNING: "the loss and the metrics of each epoch",
    TIME: "the metrics over the seconds of training, or the best value so far over the seconds of a search",
    PATH: "the metrics and the share of zeros over an option in which runs differ, such as l1",
    SEARCH: "the best value so far, by the number of trials, for all trials and for the best kinds and solvers",
    CALIBRATION: "observed shares over predicted probabilities",
}
# More curves in a panel are hard to tell apart.
MOST_CURVES = 8
GIVEN = "command line"
LOSS = "loss"

Event = dict[str, Any]

# Rules for the entries of events to draw, which may be untrusted: entries that every kind needs, and optional entries.
VALUES, SHARE, SECONDS = by_name(null_or(MEASURE)), within(0, 1), within(0, LARGEST)
OPTION = entries({"value": Rule("a figure", are_figures), "from": TEXT}, others=True)
OF_RUNS = {"against": null_or(UNICODE), **dict.fromkeys(("member", "repeat", "fold", "trial"), null_or(COUNT))}
EVENTS: dict[str, tuple[Mapping[str, Rule], Mapping[str, Rule]]] = {
    "start": ({}, {**OF_RUNS, "options": by_name(OPTION)}),
    "epoch": ({"epoch": COUNT, LOSS: null_or(MEASURE)}, {**OF_RUNS, "valid": VALUES, "seconds": SECONDS}),
    "summary": ({}, {**OF_RUNS, "valid": VALUES, "sparsity": SHARE}),
    "trial": (
        {"trial": COUNT, "model": TEXT, "solver": TEXT, "options": TABLE, "metric": TEXT, "value": null_or(MEASURE)},
        {"sparsity": SHARE, "seconds": SECONDS},
    ),
    TRIED: (
        {"options": TABLE, "metric": TEXT, "found": null_or(MEASURE), "before": null_or(MEASURE), "chosen": BOOLEAN},
        {},
    ),
}
NOTHING: tuple[Mapping[str, Rule], Mapping[str, Rule]] = {}, {}
BIN = entries({"predicted": MEASURE, "observed": MEASURE}, others=True)
CALIBRATED = null_or(entries({"ece": MEASURE, "bins": list_of(BIN)}, others=True))


@dataclass
class LoggedRun:
    """The events of a training run, or of a fold.

    epochs : the epochs of the run that chose the number of epochs.
    start, summary : the first and the last event, if the log has them.
    """

    epochs: list[Event] = field(default_factory=list)
    start: Event = field(default_factory=dict)
    summary: Event = field(default_factory=dict)

    def metrics(self) -> list[str]:
        """Return the names of the metrics on validation data."""
        return list(self.epochs[0].get("valid", {})) if self.epochs else []

    def values(self, name: str) -> list[float]:
        """Return a validation metric, or the loss, for each epoch; NaN if undefined."""
        found = [one[LOSS] if name == LOSS else one["valid"].get(name) for one in self.epochs]
        return [math.nan if value is None else value for value in found]

    @property
    def seconds(self) -> list[float]:
        """The time of the run in seconds after each epoch."""
        return list(accumulate(one["seconds"] for one in self.epochs))


def read(path: str) -> list[Event]:
    """Return the events of a log, or the report of an evaluation. Raises BadInputError and MissingInputError."""
    events = []
    for number, line in enumerate(text_of(path, "a log").split("\n"), start=1):
        if not line:
            continue
        try:
            event = parse(line)
            wrong = fault(event, {}, {"event": TEXT, "calibration": CALIBRATED}, others=True)
            wrong = wrong or fault(event, *EVENTS.get(event.get("event"), NOTHING), others=True)
        except ValueError as error:
            wrong = str(error)
        if wrong:
            raise BadInputError(
                f"{path}:{number}: is not an event of a log in JSON, nor the report of an evaluation: {wrong}"
            )
        events.append(event)
    if not events:
        raise BadInputError(f"{path}: the file is empty")
    return events


def figure(files: Mapping[str, Sequence[Event]], kind: str | None, metrics: Sequence[str]) -> Figure:
    """Return the figure of logs. files : name -> events.

    kind : one of KINDS; None: calibration for calibration reports, search for studies, otherwise learning.
    metrics : the names of metrics; empty: all metrics in the logs.

    Raises BadInputError if a file lacks what the figure needs, and UsageError.
    """
    if kind == CALIBRATION or (kind is None and all("calibration" in events[0] for events in files.values())):
        return of_calibration(files)
    searches = all(is_of_search(events[0]) for events in files.values())
    if kind == SEARCH or (kind in (None, TIME) and searches):
        return of_search(files, by_time=kind == TIME)
    runs: dict[str, LoggedRun] = {}
    try:
        for path, events in files.items():
            of_trials = kind == PATH and searches
            found = dict(trials_of(path, events) if of_trials else runs_of(path, events, len(files) > 1))
            if not found:
                if is_of_search(events[0]):
                    raise BadInputError(f"{path}: has the trials of a search: draw them without logs of train or cv")
                raise BadInputError(f"{path}: has no epochs; it must be a log of train or cv")
            if found.keys() & runs.keys():
                raise UsageError(f"{path}: another file has the same name, by which curves are told apart")
            runs |= found
        if kind == PATH:
            return of_path(runs, metrics)
        return of_epochs(runs, metrics, by_time=kind == TIME)
    except (KeyError, TypeError, AttributeError) as error:
        raise BadInputError(f"{next(iter(files))}: its events are not a log of fmcli") from error


def runs_of(path: str, events: Sequence[Event], several: bool) -> Iterator[tuple[str, LoggedRun]]:
    """Yield the runs in a log with the names of their curves: the members of an ensemble, the mean over folds for each
    compared value of the options, or a single run."""
    file = PurePath(path).stem
    found: dict[tuple[Any, ...], LoggedRun] = {}
    for event in events:
        if "trial" in event:
            continue
        key = (event.get("against"), event.get("member"), event.get("repeat"), event.get("fold"))
        run = found.setdefault(key, LoggedRun())
        kind = event.get("event")
        if kind == "epoch":
            run.epochs.append(event)
        elif kind == "start":
            run.start = event
        elif kind == "summary":
            run.summary = event
    first = found.get((None, None, None, None), LoggedRun())
    compared = dict.fromkeys(key[0] for key in found)
    for against in compared:
        folds = [run for key, run in found.items() if key[0] == against and key[3] is not None and run.epochs]
        if folds:
            usual = "these options" if len(compared) > 1 else "mean of folds"
            yield named(file, against or usual, several), mean(folds)
    for key, run in found.items():
        if key[1] is not None:
            yield named(file, f"member {key[1]}", several), run
    if first.epochs:
        yield file, first


def trials_of(path: str, events: Sequence[Event]) -> Iterator[tuple[str, LoggedRun]]:
    """Yield the trials of a path, from the log of a search or from its study, as runs: trials with options and a
    value."""
    for event in events:
        if event.get("event") == "trial" and event["options"] and event["value"] is not None:
            options = {name: {"value": value, "from": GIVEN} for name, value in event["options"].items()}
            valid, zeros = {event["metric"]: event["value"]}, event["sparsity"]
            key = " ".join(f"{name} {value}" for name, value in event["options"].items())
            run = LoggedRun([event], {"options": options}, {"valid": valid, "sparsity": zeros})
            yield f"{PurePath(path).stem}: {key}", run


def named(file: str, part: str, several: bool) -> str:
    """Return the name of a curve."""
    return f"{file}: {part}" if several else part


def mean(folds: Sequence[LoggedRun]) -> LoggedRun:
    """Return the mean of folds, up to the length of the shortest."""

    def average(values: Sequence[Any]) -> Any:
        if isinstance(values[0], dict):
            return {name: average([value[name] for value in values]) for name in values[0]}
        return math.nan if None in values else sum(values) / len(values)

    names = ("epoch", LOSS, "valid", "seconds")
    epochs = zip(*(run.epochs for run in folds), strict=False)
    return LoggedRun([{name: average([one[name] for one in each]) for name in names} for each in epochs])


def of_epochs(runs: Mapping[str, LoggedRun], metrics: Sequence[str], *, by_time: bool) -> Figure:
    """Return the figure of the loss and validation metrics over epochs or seconds."""
    names = list(metrics) or [
        *([] if by_time else [LOSS]),
        *dict.fromkeys(m for r in runs.values() for m in r.metrics()),
    ]
    panels = {}
    for name in names:
        curves: dict[str, Curve] = {}
        for label, run in runs.items():
            if name == LOSS or name in run.metrics():
                x = run.seconds if by_time else [one["epoch"] for one in run.epochs]
                curves[label] = defined(x, run.values(name))
        panels["training loss" if name == LOSS else f"valid-{name}"] = checked(name, curves)
    caption = "Metrics over the time of training" if by_time else "Loss and metrics of each epoch"
    return Figure(caption, "seconds" if by_time else "epoch", "", some(panels), log_x=by_time)


def of_path(runs: Mapping[str, LoggedRun], metrics: Sequence[str]) -> Figure:
    """Return the figure of validation metrics and the share of zeros, over the option in which the runs differ."""
    if any("options" not in run.start or "sparsity" not in run.summary for run in runs.values()):
        raise UsageError("a path needs logs of train, from the start to the summary")
    options = [run.start["options"] for run in runs.values()]
    differing = [
        name
        for name in options[0]
        if len({number(one.get(name)) for one in options} - {None}) == len(runs) > 1
        and any(one[name]["from"] == GIVEN for one in options if name in one)
    ]
    differing = [name for name in differing if REFINES.get(name) not in differing]
    if len(differing) != 1:
        what = f"they differ in {', '.join(differing)}" if differing else "there is none in which all differ"
        raise UsageError(f"a path needs logs of runs that differ in one option that was given, and {what}")
    order = sorted(runs.values(), key=lambda run: run.start["options"][differing[0]]["value"])
    x = [run.start["options"][differing[0]]["value"] for run in order]
    names = list(metrics) or list(dict.fromkeys(m for run in order for m in run.summary["valid"]))
    flag = OPTIONS[differing[0]].flag
    panels: dict[str, Mapping[str, Curve]] = {}
    for name in names:
        values = [run.summary["valid"].get(name) for run in order]
        panels[f"valid-{name}"] = checked(name, {flag: defined(x, [math.nan if v is None else v for v in values])})
    panels["sparsity"] = {flag: (x, [run.summary["sparsity"] for run in order])}
    return Figure(f"Metrics and the share of zeros over {flag}", flag, "", some(panels), log_x=min(x) > 0)


def is_of_search(event: Event) -> bool:
    """Return whether a log that begins with this event has only the trials of a search."""
    return event.get("event") == "study" or "trial" in event


def of_search(files: Mapping[str, Sequence[Event]], *, by_time: bool) -> Figure:
    """Return the figure of the best value so far over trials or seconds: of all trials and, for a single file, of the
    best kinds and solvers that fit into a panel."""
    curves: dict[str, Curve] = {}
    metric = ""
    for path, events in files.items():
        several, file = len(files) > 1, PurePath(path).stem
        try:
            trials = [one for one in events if one.get("event") == "trial" and one["value"] is not None]
            if not trials:
                raise BadInputError(f"{path}: has no trials; it must be a study, or a log of a search")
            if by_time and any("seconds" not in one for one in trials):
                raise UsageError(f"{path}: a study has no times; the log of the search ({called('log_json')}) has them")
            metric = trials[0]["metric"]
            sign = -1 if metric_of(metric).larger_is_better else 1
            ranked = sorted(trials, key=lambda one: sign * one["value"])
            kinds = dict.fromkeys((one["model"], one["solver"]) for one in ranked)
            for kind in [None, *([] if several else list(kinds)[: MOST_CURVES - 1])]:
                mine = [one for one in trials if kind in (None, (one["model"], one["solver"]))]
                if by_time:
                    points = [(one["seconds"], one["value"]) for one in mine]
                else:  # options of the longest runs
                    mine.sort(key=lambda one: one["trial"])
                    points = list({one["trial"]: one["value"] for one in mine}.items())
                best = [sign * value for value in accumulate((sign * value for _, value in points), min)]
                name = file if several else " ".join(kind) if kind else "all"
                curves[name] = [x for x, _ in points], best
        except (KeyError, TypeError, AttributeError) as error:
            raise BadInputError(f"{path}: its events are not a log of a search") from error
    caption = "The best value by the time of the search" if by_time else "The best value by the number of trials"
    panels = {f"valid-{metric}": checked(SEARCH, curves)}
    return Figure(caption, "seconds" if by_time else "trial", "", panels, log_x=by_time)


def number(choice: Any) -> float | None:
    """Return the value of an option if it is a number that an axis can show; otherwise None."""
    return float(choice["value"]) if choice and MEASURE.holds(choice["value"]) else None


def of_calibration(files: Mapping[str, Sequence[Event]]) -> Figure:
    """Return the figure of observed shares over predicted probabilities."""
    curves: dict[str, Curve] = {}
    for path, (report, *_) in files.items():
        try:
            bins, error = report["calibration"]["bins"], report["calibration"]["ece"]
            points = [one["predicted"] for one in bins], [one["observed"] for one in bins]
        except (KeyError, TypeError) as missing:
            raise BadInputError(
                f"{path}: has no calibration; it must be a report of evaluate with calibration"
            ) from missing
        curves[f"{PurePath(path).stem} (ECE {error:.3g})"] = points
    most = max((max(x) for x, _ in curves.values() if x), default=1.0)
    curves = {"equal": ([0.0, most], [0.0, most]), **checked(CALIBRATION, curves)}
    return Figure(
        "Observed shares over predicted probabilities",
        "predicted probability",
        "observed share",
        {"calibration": curves},
    )


def defined(x: Sequence[float], y: Sequence[float]) -> Curve:
    """Return a curve without points whose y is not finite."""
    points = [(a, b) for a, b in zip(x, y, strict=True) if math.isfinite(b)]
    return [a for a, _ in points], [b for _, b in points]


def checked(name: str, curves: Mapping[str, Curve]) -> dict[str, Curve]:
    """Return the curves with points. Raises BadInputError if there are none, and UsageError if there are too many."""
    found = {label: curve for label, curve in curves.items() if curve[0]}
    if not found:
        raise BadInputError(f"the files have no {one_line(name)} to draw")
    if len(found) > MOST_CURVES:
        raise UsageError(f"{len(found)} curves are more than the {MOST_CURVES} that a panel can have; give fewer files")
    return found


def some(panels: Mapping[str, Mapping[str, Curve]]) -> Mapping[str, Mapping[str, Curve]]:
    """Return the panels. Raises BadInputError if there are none."""
    if not panels:
        raise BadInputError("the files have no metrics on validation data to draw")
    return panels
