"""Cross-validation: each fold of the rows is predicted by a model that was trained on the others, as `train` would."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fmcli.base.label_unit import ONE, LabelUnit
from fmcli.choosing.automatic import memory_of_whole
from fmcli.choosing.fitting import EpochListener, fit
from fmcli.choosing.folds import OF_CLASSES, Fold, Folding, Numbers, folds_of
from fmcli.data.dataset import Dataset
from fmcli.data.labels import Names, text_of
from fmcli.data.shards.weights import Weighting, with_label_weights
from fmcli.errors import BadInputError
from fmcli.records import dataclass
from fmcli.registry.losses import LOSSES
from fmcli.registry.streams import CROSS_STREAM, generator
from fmcli.scoring.calibration import Calibration, fitted, require_probabilities
from fmcli.scoring.evaluation import check_metrics, figures
from fmcli.scoring.metrics import Outcome, default_metrics
from fmcli.system.allocator import return_freed_memory
from fmcli.system.blas import one_blas_thread
from fmcli.system.memory import require
from fmcli.training.account import MemoryNeed, require_room
from fmcli.training.planning import Plan, prepare
from fmcli.training.setup.fitting import labels_of
from fmcli.training.setup.memory import held_bytes
from fmcli.training.setup.rows import RowFacts, Rows, needs_fields
from fmcli.training.setup.settings import Settings
from fmcli.training.several.ensemble import side_by_side
from fmcli.training.trained import Epoch

Floats = NDArray[np.float64]
# The name of the model of a fold in messages.
UNNAMED = "the model of a fold"
# How many folds calibrate a model.
CALIBRATING_FOLDS = 5


@dataclass(frozen=True)
class FoldTraining:
    """How models are trained.

    weighting : the weights of labels; None: there are none.
    members : the number of models whose predictions are averaged.
    room : bytes that the rows of a cache may take in memory; None: all rows are in memory.
    calibrate : the method by which probabilities are calibrated, isotonic or platt; None: they are not.
    """

    settings: Settings
    weighting: Weighting | None = None
    members: int = 1
    room: int | None = None
    calibrate: str | None = None

    def with_loss_of(self, rows: Rows) -> FoldTraining:
        """Return the candidate with the loss that the labels of all rows determine, so all folds have it."""
        loss = labels_of(self.settings, rows).loss
        return replace(self, settings=replace(self.settings, spec=self.settings.spec.with_loss(loss)))

    def of(self, plan: Plan) -> FoldTraining:
        """Return the candidate with the kind and the solver of a plan."""
        return replace(self, settings=replace(plan.settings, alternatives=()))

    def completed(self, plan: Plan, rows: Callable[[], Rows], valid: Dataset | None) -> Plan:
        """Return a plan, whose kind, solver and options are chosen, with the calibration of its model, if there is one;
        see `calibrated`. rows : returns all rows that the model is trained on."""
        return plan if self.calibrate is None else replace(plan, calibration=calibrated(self.of(plan), rows(), valid))

    @property
    def loss(self) -> str:
        """The loss. There must be one: see `with_loss_of`."""
        assert self.settings.spec.loss is not None
        return self.settings.spec.loss


@dataclass(frozen=True)
class Validated:
    """A fold, predicted.

    metrics : by name.
    score : (rows of the fold, outputs).
    predicted : (rows of the fold, columns) the predictions.
    figures : the summary of the run that trained the model.
    epochs : its epochs; none of an ensemble.
    unit : of the labels that it was trained on.
    """

    fold: Fold
    metrics: dict[str, float]
    score: Floats
    predicted: Floats
    figures: dict[str, Any]
    epochs: list[Epoch]
    seconds: float
    unit: LabelUnit = ONE


def fold_numbers(training: FoldTraining, facts: RowFacts, folding: Folding) -> list[Numbers]:
    """Return the fold of each row, for each repeat. The rows of a group stay in one fold; if groups are times, folds
    follow each other in time. Raises UsageError."""
    classes = facts.label if LOSSES[training.loss].task in OF_CLASSES else None
    random = [generator(training.settings.spec, CROSS_STREAM, repeat) for repeat in range(folding.repeats)]
    return folding.numbers(len(facts.label), random, classes, facts.group)


def metrics_of(trainings: Sequence[FoldTraining]) -> list[str]:
    """Return the names of the metrics that all candidates are compared by. Raises UsageError for one that does not fit
    a loss."""
    names = list(trainings[0].settings.choices.metrics or default_metrics(trainings[0].loss))
    for training in trainings:
        check_metrics(names, training.loss, of_model=True)
    return names


def cross_validate(
    training: FoldTraining,
    rows: Rows,
    facts: RowFacts,
    folds: Sequence[Fold],
    metrics: Sequence[str],
    valid: Dataset | None = None,
    on_need: Callable[[MemoryNeed], None] = lambda need: None,
) -> Iterator[Validated]:
    """Yield the folds in their order. Each is predicted by a model of its own training rows, which knows nothing of the
    others: neither its scales nor its features, labels and epochs.

    Several run at the same time, as many as there are threads, and share the rows in memory; of a cache, as many as
    there is memory for. This does not change the results.

    Parameters
    ----------
    candidate : has the loss of the labels.
    rows : all rows, with the weights that the metrics count, too.
    facts : the facts about each of them.
    metrics : names.
    valid : validation data of all folds, by which they choose the epoch; None: each holds out some of its rows.
    on_need : called with the memory that all folds need, before a model is trained.

    Raises the errors of `prepare` and `train`, and BadInputError if a label occurs only in rows that a fold predicts.
    """
    settings = replace(training.settings, choices=training.settings.choices.changed(keep_state=False))
    if not needs_fields(settings.spec, optional=settings.uses_fields):
        rows = rows.leaving_out(fields=True)
    together = min(len(folds), settings.threads)
    threads = max(1, settings.threads // together)

    def planned(fold: Fold) -> Plan:
        inside, validation = rows.within(fold.train), valid
        require_labels(facts, rows.names, fold, training.loss)
        if training.weighting is not None:
            of_labels = weights_of(facts, fold, training.weighting, rows.names)
            inside = inside.with_label_weights(of_labels)
            validation = valid and with_label_weights(valid, of_labels)
        return prepare(replace(settings, threads=threads), inside, validation)

    waiting = [planned(folds[0])]
    if training.room is not None:
        together = max(1, min(together, training.room // require_room(waiting[0], training.room)))
    shared = held_bytes([*rows.in_memory, *([] if valid is None else [valid])])
    need = memory_of_folds(waiting[0], training.members, shared, folds, together)
    on_need(need)
    require(need.total, f"{len(folds)} folds, {together} at a time", held=need.held)

    def run(fold: Fold) -> Validated:
        return_freed_memory()  # of making the rows, or of the folds before
        begin, epochs = time.perf_counter(), list[Epoch]()
        plan = waiting.pop() if fold is folds[0] else planned(fold)  # whose model takes memory as long as it is known
        trained, summary = fit(
            plan,
            EpochListener(epochs.append),
            training.members,
            completed=lambda chosen: training.completed(chosen, lambda: rows.within(fold.train), valid),
        )
        scorer = trained.scorer(UNNAMED)
        score = np.empty((len(fold.test), scorer.model.outputs))
        for some, data in rows.pieces(fold.test):
            score[some] = scorer.scores(scorer.transform.in_columns(data), threads)
        weight = None if facts.weight is None else facts.weight[fold.test]
        group = None if facts.group is None else facts.group[fold.test]
        label = scorer.labels.encode(facts.label[fold.test])
        relevance = scorer.labels.relevance
        outcome = Outcome(training.loss, label, score, weight, clip=scorer.clip, group=group, relevance=relevance)
        return Validated(
            fold,
            figures(metrics, outcome, scorer),
            score,
            scorer.predicted(score, scorer.default_output()),
            summary,
            epochs,
            time.perf_counter() - begin,
            scorer.labels.unit,
        )

    with nullcontext() if settings.spec.by_rows and not settings.alternatives else one_blas_thread():
        yield from side_by_side(run, folds, together)


def memory_of_folds(plan: Plan, members: int, shared: int, folds: Sequence[Fold], together: int) -> MemoryNeed:
    """Return the memory that the models of folds need, `together` at a time, with the rows that a model predicts, and
    the scores and predictions, which are kept.

    plan : of a fold; shared : bytes of all rows as they were read.
    """
    numbers = sum(fold.train.nbytes + fold.test.nbytes for fold in folds)
    share = max(len(fold.test) / (len(fold.train) + len(fold.test)) for fold in folds)
    scores = [2 * np.dtype(np.float64).itemsize * plan.model.columns * len(fold.test) for fold in folds]
    need = memory_of_whole(replace(plan, beside=plan.beside + int(share * shared) + max(scores)), members)
    return need.of_runs(together, shared, numbers + sum(scores))


def calibrated(
    training: FoldTraining,
    rows: Rows,
    valid: Dataset | None = None,
    on_fold: Callable[[Validated], None] = lambda fold: None,
) -> Calibration:
    """Return the calibration of the scores of a model that the candidate trains on all rows.

    It is fitted to scores of rows that the model which scores them has not seen, neither to train on nor to choose the
    epoch: each fold of the rows is scored by a model of the others.

    candidate : has a method of calibration.
    rows, valid : see `cross_validate`.
    on_fold : called after each fold.

    Raises UsageError unless the loss has probabilities of two labels, and the errors of `cross_validate`.
    """
    method, training = training.calibrate, replace(training, calibrate=None).with_loss_of(rows)
    assert method is not None
    require_probabilities(training.loss)
    facts = rows.facts_of_rows()
    folds = list(folds_of(fold_numbers(training, facts, Folding(CALIBRATING_FOLDS)), in_order=False))
    score = np.empty(len(facts.label))
    for one in cross_validate(training, rows, facts, folds, [], valid):
        score[one.fold.test] = one.score[:, 0]
        on_fold(one)
    labels = labels_of(training.settings, rows)
    return fitted(method, labels.encode(facts.label) > 0, score, facts.weight)


def weights_of(facts: RowFacts, fold: Fold, weighting: Weighting, names: Names) -> dict[float, float]:
    """Return label -> weight, as the training rows of a fold determine them. Raises BadInputError."""
    label = facts.label[fold.train]
    weight = np.ones(len(label)) if facts.weight is None else facts.weight[fold.train]
    of_labels = weighting.of_labels(label, weight, names)
    total = sum(float(weight[label == value].sum()) * of_labels.get(value, 1.0) for value in np.unique(label).tolist())
    if not 0 < total < math.inf:
        raise BadInputError(f"the training rows of {named(fold)} have no positive, finite sum of weights")
    return of_labels


def require_labels(facts: RowFacts, names: Names, fold: Fold, loss: str) -> None:
    """Raise BadInputError if a label of classes does not occur in the training rows of a fold."""
    if LOSSES[loss].task not in OF_CLASSES:
        return
    known = set(np.unique(facts.label[fold.train]).tolist())
    for label in np.unique(facts.label[fold.test]).tolist():
        if label not in known:
            raise BadInputError(
                f"no training row of {named(fold)} has the label {text_of(label, names)}, but rows to predict "
                "have it; remove the rows of such rare labels, or give fewer folds"
            )


def named(fold: Fold) -> str:
    """Return a fold in words."""
    return f"fold {fold.number}" if fold.repeat == 1 else f"fold {fold.number} of repeat {fold.repeat}"


def out_of_fold(tested: Sequence[Validated], rows: int) -> Floats:
    """Return (rows, columns) the predictions of each row, averaged over repeats; nan if no fold predicts it."""
    sums = np.zeros((rows, tested[0].predicted.shape[1]))
    times = np.zeros((rows, 1))
    for one in tested:
        sums[one.fold.test] += one.predicted
        times[one.fold.test] += 1
    return np.divide(sums, times, out=np.full_like(sums, np.nan), where=times > 0)


@dataclass(frozen=True)
class Mean:
    """The mean of figures of folds, and their standard deviation, which is nan for a single fold."""

    mean: float
    sd: float


def mean_of(values: Sequence[float]) -> Mean:
    """Return the mean of figures of folds."""
    return Mean(float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else math.nan)


def difference_of(first: Sequence[Validated], other: Sequence[Validated], metric: str) -> Mean:
    """Return the mean difference of a metric on the same folds, and its standard error.

    The error follows Nadeau and Bengio (2003, section 3), because folds share training rows: the variance
    of J differences, times 1/J + (rows to predict) / (rows to train on), in place of 1/J.
    """
    differences = [one.metrics[metric] - two.metrics[metric] for one, two in zip(first, other, strict=True)]
    found = mean_of(differences)
    shared = float(np.mean([len(one.fold.test) / len(one.fold.train) for one in first]))
    return Mean(found.mean, found.sd * math.sqrt(1 / len(differences) + shared))
