"""Training in experiments, and the choice of options on held-out training rows."""

from collections.abc import Callable, Sequence
from itertools import product
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from sets.dense import Pair

from fmcli.data.dataset import Dataset
from fmcli.errors import DivergedError
from fmcli.registry.specs import Spec, make_spec
from fmcli.scoring.metrics import METRICS, Outcome, measure
from fmcli.scoring.rows import score_rows
from fmcli.scoring.scorer import load_model
from fmcli.training import job
from fmcli.training.job import Epoch, Trained
from fmcli.training.saving import save_model

Options = dict[str, Any]


def grid(**values: Sequence[Any]) -> list[Options]:
    """All combinations of the values of the options."""
    return [dict(zip(values, chosen, strict=True)) for chosen in product(*values.values())]


def flags(options: Options) -> str:
    """The options as flags of `fmcli train`, for tables that compare models with the same options."""
    names = {"solver": "-s", "learning_rate": "-r", "epochs": "-e", "rank": "-k"}

    def flag(name: str, value: Any) -> str:
        long = name.replace("_", "-")
        if isinstance(value, bool):
            return f"--{long}" if value else f"--no-{long}"
        shown = f"{value:g}" if isinstance(value, float) else str(value)
        return f"{names.get(name, f'--{long}')} {shown}"

    return f"`{' '.join(flag(name, value) for name, value in options.items())}`"


def spec_of(model: str, options: Options) -> Spec:
    """The spec of a model with these options, which include "solver" and "loss"."""
    rest = dict(options)
    return make_spec(model, rest.pop("solver"), rest.pop("loss"), rest)


def fit(
    model: str,
    options: Options,
    train: Dataset,
    judged: Dataset | None = None,
    metrics: tuple[str, ...] = (),
    *,
    patience: int = 1_000_000,
    on_epoch: Callable[[Epoch], None] = lambda epoch: None,
) -> Trained:
    """Train a model, and evaluate every epoch on other rows. Without a patience, all epochs are run, so that the last
    one is as if there were no other rows."""
    plan = job.plan(train, spec_of(model, options), valid=judged, metrics=metrics, patience=patience)
    return job.train(plan, on_epoch)


def held_out(rows: int, share: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """The numbers of the rows to train on, and of a random share of rows that are held out."""
    order = np.random.default_rng(seed).permutation(rows).astype(np.int32)
    held = round(share * rows)
    return np.sort(order[held:]), np.sort(order[:held])


def in_parts(train: Dataset, share: float) -> Pair:
    """The rows to train on, and a random share of rows that are held out."""
    return Pair(*(train.take(rows) for rows in held_out(train.rows, share)))


def folds(rows: int, count: int, seed: int = 0) -> list[tuple[np.ndarray, np.ndarray]]:
    """The numbers of the rows to train on and of those held out, for each random fold."""
    order = np.random.default_rng(seed).permutation(rows).astype(np.int32)
    return [(np.sort(np.setdiff1d(order, part)), np.sort(part)) for part in np.array_split(order, count)]


def best_options(
    model: str,
    tried: Sequence[Options],
    train: Dataset,
    metric: str,
    parts: Sequence[tuple[np.ndarray, np.ndarray]],
    patience: int = 1_000_000,
) -> tuple[Options, float]:
    """The options, with their number of epochs, that are best on held-out rows of the training data; and the metric
    there. `parts` are the numbers of the rows to train on and of those to judge by; their curves are averaged. Options
    with which training diverges are not chosen."""
    sign = -1 if METRICS[metric].larger_is_better else 1
    found: list[tuple[float, Options]] = []
    for options in tried:
        curves = []
        try:
            for kept, held in parts:
                trained = fit(model, options, train.take(kept), train.take(held), (metric,), patience=patience)
                curves.append([epoch.valid[metric] for epoch in trained.epochs])
        except DivergedError:
            continue
        together = sign * np.mean([curve[: min(map(len, curves))] for curve in curves], axis=0)
        best = int(together.argmin())
        found.append((float(together[best]), {**options, "epochs": best + 1}))
    value, options = min(found, key=lambda one: one[0])
    return options, sign * value


def auc(trained: Trained, data: Dataset) -> float:
    """The AUC of a model's scores, whatever its loss; labels above 0 are positive."""
    score = score_rows(trained.plan.model, data)
    return measure(["auc"], Outcome("logistic", np.where(data.label > 0, 1.0, -1.0), score))["auc"]


def on_test(metrics: Sequence[str], trained: Trained, test: Dataset) -> dict[str, float]:
    """The metrics of the saved model on test rows, as `fmcli evaluate` computes them. Of two labels, those above 0 are
    positive."""
    with TemporaryDirectory() as folder:
        save_model(f"{folder}/model", trained, job.summary(trained), "ffm")
        scorer = load_model(f"{folder}/model")
    rows = scorer.transform.in_columns(test)
    loss, label = trained.plan.spec.loss, rows.label
    if loss == "logistic":
        label = np.where(label > 0, 1.0, -1.0)
    return measure(metrics, Outcome(loss, label, scorer.scores(rows), clip=scorer.clip))
