"""Tuning of options by cross-validation on the training rows. Only the chosen model is evaluated on the test rows."""

from collections.abc import Callable
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fmcli.data.dataset import Dataset
from fmcli.data.reader import read
from fmcli.registry.specs import Spec, make_spec
from fmcli.scoring.metrics import METRICS
from fmcli.scoring.rows import score_rows
from fmcli.training import job
from fmcli.training.job import Epoch, Trained

FOLDS = 3


class Tuned(NamedTuple):
    """The chosen options, and the metric in cross-validation and on the test rows."""

    options: dict[str, Any]
    validated: float
    tested: float


def read_pair(train: str, test: str) -> tuple[Dataset, Dataset]:
    """The rows of two files, with the same number of features."""
    pair = read([train]).dataset, read([test]).dataset
    features = max(data.features for data in pair)
    return pair[0].changed(features=features), pair[1].changed(features=features)


def grid(**values: Any) -> list[dict[str, Any]]:
    """All combinations of the values of the options."""
    return [dict(zip(values, chosen, strict=True)) for chosen in product(*values.values())]


def spec_of(model: str, options: dict[str, Any]) -> Spec:
    """The spec of a model with these options, which may include "solver" and "loss"."""
    rest = dict(options)
    return make_spec(model, rest.pop("solver"), rest.pop("loss"), rest)


def run(model: str, options: dict[str, Any], train: Dataset, judged: Dataset, metric: str, patience: int) -> Trained:
    """Train a model with these options."""
    plan = job.plan(train, spec_of(model, options), valid=judged, metrics=(metric,), patience=patience)
    return job.train(plan)


def followed(
    model: str,
    options: dict[str, Any],
    train: Dataset,
    judged: Dataset,
    measure: Callable[[NDArray[np.float64], NDArray[np.float64]], float],
) -> tuple[list[float], float]:
    """Train a model. Returns a custom metric of labels and scores on `judged` after every epoch, and the seconds."""
    plan = job.plan(train, spec_of(model, options))
    values = []

    def note(_: Epoch) -> None:
        values.append(measure(judged.label, score_rows(plan.model, judged)[:, 0]))

    trained = job.train(plan, on_epoch=note)
    return values, sum(epoch.seconds for epoch in trained.epochs)


def folded(train: Dataset, folds: int = FOLDS) -> list[tuple[Dataset, Dataset]]:
    """The training and validation rows of each random fold."""
    order = np.random.default_rng(0).permutation(train.rows).astype(np.int32)
    parts = np.array_split(order, folds)
    return [(train.take(np.setdiff1d(order, held)), train.take(np.sort(held))) for held in parts]


def tuned(
    model: str, tried: list[dict[str, Any]], train: Dataset, test: Dataset, metric: str, *, epochs: int, patience: int
) -> Tuned:
    """Choose options and the number of epochs (at most `epochs`) by cross-validation, then train on all rows."""
    parts = folded(train)
    found = []
    for options in tried:
        values, bests = [], []
        for kept, held in parts:
            trained = run(model, {**options, "epochs": epochs}, kept, held, metric, patience)
            values.append(trained.epochs[trained.best - 1].valid[metric])
            bests.append(trained.best)
        found.append((float(np.mean(values)), {**options, "epochs": round(float(np.mean(bests)))}))
    value, options = (max if METRICS[metric].larger_is_better else min)(found, key=lambda one: one[0])
    # A patience larger than the number of epochs disables early stopping, and the last epoch is evaluated, so that the
    # test rows do not influence the model.
    trained = run(model, options, train, test, metric, options["epochs"] + 1)
    return Tuned(options, value, trained.epochs[-1].valid[metric])
