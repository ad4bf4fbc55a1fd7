"""Results, and what is measured of a run."""

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
from sets import MissingDataError, Pair

from fmcli.data.dataset import Dataset
from fmcli.errors import DivergedError
from fmcli.registry.specs import Spec, make_spec
from fmcli.scoring.metrics import METRICS, Outcome, measure
from fmcli.scoring.rows import score_rows
from fmcli.scoring.scorer import load_model
from fmcli.training import job
from fmcli.training.saving import save_model

Options = dict[str, Any]
Row = dict[str, Any]


def mean(values: Iterable[float]) -> float:
    return float(np.mean(list(values)))


def spec_of(options: Options) -> Spec:
    """Return the spec of a run with these options, which include the kind."""
    rest = dict(options)
    return make_spec(rest.pop("kind"), rest.pop("solver", None), rest.pop("loss", None), rest)


class Results(dict[str, Row]):
    """What was measured: the metrics of each row by its name, whose parts are between commas. A metric is a list with
    the value of each split, which is itself a list if it was measured after several epochs."""

    def __missing__(self, row: str) -> Row:
        raise MissingDataError(row)

    def first(self, row: str) -> str:
        return next(name for name in self[row] if name != "options")

    def __call__(self, row: str, metric: str = "") -> float:
        """Return the mean over the splits of a metric, the first one by default."""
        return mean(self[row][metric or self.first(row)])

    def path(self, row: str, metric: str) -> list[float]:
        """Return the means over the splits, after each epoch."""
        return np.mean(self[row][metric], axis=0).tolist()

    def named(self, *parts: str) -> list[str]:
        """Return the names with all of these parts."""
        if found := [row for row in self if set(parts) <= set(row.split(", "))]:
            return found
        raise MissingDataError(", ".join(parts))

    def each(self, *parts: str, metric: str = "") -> list[float]:
        """Return the means of a metric in the rows of `named` that have it."""
        return [self(row, metric) for row in self.named(*parts) if not metric or metric in self[row]]

    def lists(self, *parts: str) -> list[list[Any]]:
        """Return the values of the splits of the first metric, in the rows of `named`."""
        return [self[row][self.first(row)] for row in self.named(*parts)]


class Tried(NamedTuple):
    """Options, with their number of epochs if it is chosen, and the metrics on held-out rows."""

    options: Options
    values: Mapping[str, float]


def lowest(found: list[Tried], earlier: Mapping[str, Tried], row: str) -> Tried:
    """Return what has the best first metric."""
    name = next(iter(found[0].values))
    sign = -1 if name in METRICS and METRICS[name].larger_is_better else 1
    return min(found, key=lambda one: sign * one.values[name])


class Measure(NamedTuple):
    """metrics : evaluated on the test rows after every epoch. of : trains a plan, and returns what is measured."""

    metrics: tuple[str, ...]
    of: Callable[[job.Plan, Pair], Row]


def last(*metrics: str) -> Measure:
    """The metrics on the test rows after the last epoch."""
    return Measure(metrics, lambda plan, pair: dict(job.train(plan).epochs[-1].valid))


def paths(*words: str) -> Measure:
    """The metrics after each epoch, or after epochs of these numbers, with the loss of training rows before their
    updates; and the CPU seconds of the fastest epoch, with evaluation."""
    metrics, noted = [word for word in words if not word.isdigit()], set(map(int, filter(str.isdigit, words)))

    def of(plan: job.Plan, pair: Pair) -> Row:
        times = [time.process_time()]
        epochs = job.train(plan, lambda epoch: times.append(time.process_time())).epochs
        epochs = [one for one in epochs if not noted or one.number in noted]
        found = {metric: [one.valid[metric] for one in epochs] for metric in metrics}
        return found | {"loss": [one.loss for one in epochs], "seconds": float(np.diff(times).min())}

    return Measure(tuple(metrics), of)


def highest(*metrics: str) -> Measure:
    """The metrics of their best epochs."""
    by_epoch = paths(*metrics).of
    return Measure(metrics, lambda plan, pair: {name: max(by_epoch(plan, pair)[name]) for name in metrics})


def objective(plan: job.Plan, pair: Pair) -> Row:
    return {"objective": job.train(plan).epochs[-1].objective}


def scored(loss: str, *metrics: str) -> Measure:
    """The metrics of the final scores as if they were of this loss; labels above 0 are positive."""

    def of(plan: job.Plan, pair: Pair) -> Row:
        model, label = job.train(plan).plan.model, np.where(pair.test.label > 0, 1.0, -1.0)
        return measure(metrics, Outcome(loss, label, score_rows(model, pair.test), group=pair.test.group))

    return Measure((), of)


def evaluated(*metrics: str) -> Measure:
    """The metrics of the saved model, as `fmcli evaluate` computes them, and the CPU seconds of training."""

    def of(plan: job.Plan, pair: Pair) -> Row:
        begin = time.process_time()
        trained = job.train(plan)
        seconds = time.process_time() - begin
        with TemporaryDirectory() as folder:
            save_model(f"{folder}/model", trained, job.summary(trained), "ffm")
            scorer = load_model(f"{folder}/model")
        rows, loss = scorer.transform.in_columns(pair.test), trained.plan.spec.loss
        label = np.where(rows.label > 0, 1.0, -1.0) if loss == "logistic" else rows.label
        return measure(metrics, Outcome(loss, label, scorer.scores(rows), clip=scorer.clip)) | {"seconds": seconds}

    return Measure((), of)


def seconds(plan: job.Plan, pair: Pair) -> Row:
    """Return the CPU seconds of the fastest epoch."""
    times = [time.process_time()]
    job.train(plan, lambda epoch: times.append(time.process_time()))
    return {"seconds": float(np.diff(times).min())}


def squared_loss(model: Any, data: Dataset) -> float:
    return float(np.mean((score_rows(model, data)[:, 0] - data.label) ** 2) / 2)


def watched(*words: str) -> Measure:
    """The objective of squared loss on the training rows "at" these epochs, or at a number of epochs at about equal
    distances of their logarithms, and at the end, which may come earlier; and the CPU seconds until then, without
    scoring. A run that diverges ends; "diverged" is then true."""

    def of(plan: job.Plan, pair: Pair) -> Row:
        if words[0] == "at":
            noted: Collection[int] = set(map(int, words[1:]))
        else:
            noted = {round(plan.spec.values["epochs"] ** (i / (int(words[0]) - 1))) for i in range(int(words[0]))}
        found: Row = {"objective": [], "seconds": [], "epochs": []}
        begin, apart = time.process_time(), 0.0

        def add(epoch: job.Epoch) -> None:
            nonlocal apart
            now = time.process_time()
            values = squared_loss(plan.model, pair.train) + epoch.penalty, now - begin - apart, epoch.number
            for name, value in zip(found, values, strict=True):
                found[name].append(value)
            apart += time.process_time() - now

        try:
            end = job.train(plan, lambda epoch: add(epoch) if epoch.number in noted else None).epochs[-1]
        except DivergedError:
            return found | {"diverged": True}
        if end.number not in noted:
            add(end)
        return found

    return Measure((), of)


MEASURES: dict[str, Callable[..., Measure]] = {
    "last": last,
    "paths": paths,
    "highest": highest,
    "objective": lambda: Measure((), objective),
    "scored": scored,
    "evaluated": evaluated,
    "seconds": lambda: Measure((), seconds),
    "watched": watched,
}
