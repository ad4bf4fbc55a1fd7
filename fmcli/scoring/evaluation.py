"""Judging predictions by labelled rows: those of a model, or numbers that were predicted before.

The text of the rows passes block by block; labels and scores are kept, for most metrics need all of them at once.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fmcli.data.dataset import Dataset
from fmcli.data.labels import Labels, few_distinct, fit_labels, listed
from fmcli.data.reader import LARGEST_INDEX, RowError, quote, score_pieces
from fmcli.data.sources import blocks, name_of
from fmcli.errors import BadInputError, UsageError
from fmcli.registry.build import build_loss
from fmcli.registry.losses import LOSSES
from fmcli.registry.specs import Spec
from fmcli.scoring.metrics import METRICS, PROBABLE, Floats, Outcome, allowed, check, measure
from fmcli.scoring.prediction import Counts, Scorer, each_piece
from fmcli.scoring.scores import mean_loss
from fmcli.scoring.sparsity import SPARSITY, model_sparsity
from fmcli.system.memory import require, require_if_large
from fmcli.text import number

# The mean of the loss that a model was trained with.
LOSS = "loss"
# What only a model has, in the order in which it is listed: the loss comes first, the sparsity last.
OF_MODELS = (LOSS, SPARSITY)
# The way out where a model cannot judge a row.
LEAVE_OUT = "leave such rows out, or train a model with them"
# Bytes of predictions that are read at a time.
BLOCK_BYTES = 1 << 20


@dataclass(frozen=True)
class Limit:
    """What a metric must not be worse than: not below it, or not above it where less is better."""

    metric: str
    value: float

    @property
    def larger_is_better(self) -> bool:
        return METRICS[self.metric].larger_is_better if self.metric in METRICS else self.metric == SPARSITY

    def complaint(self, value: float) -> str:
        """How a value of the metric misses the limit, or "" where it does not; an undefined one does."""
        if math.isnan(value):
            return f"{self.metric} is undefined on these rows"
        if self.larger_is_better and value < self.value:
            return f"{self.metric} is {value:.6g}, below {number(self.value)}"
        if not self.larger_is_better and value > self.value:
            return f"{self.metric} is {value:.6g}, above {number(self.value)}"
        return ""


def usual_metrics(loss: str, *, of_model: bool) -> tuple[str, ...]:
    """Names of all the metrics that fit a loss."""
    return (LOSS, *allowed(loss), SPARSITY) if of_model else allowed(loss)


def check_metrics(names: Iterable[str], loss: str | None, *, of_model: bool) -> None:
    """UsageError for a metric that does not exist, does not fit the loss, or needs a model where there is none."""
    names = list(names)
    for name in OF_MODELS:
        if name in names and not of_model:
            raise UsageError(f"metric {name} needs a MODEL; predictions alone do not tell it")
    check([name for name in names if name not in OF_MODELS], loss)


def judge_model(scorer: Scorer, paths: Sequence[str], *, format: str, threads: int, counts: Counts) -> Outcome:
    """Score labelled rows and add what went through to `counts`; the result is the same for any number of threads.

    Raises BadInputError, naming file, line and column, for a label that is missing or unknown to the model, and as
    `predict`; NotEnoughMemoryError as soon as the rows so far are more than can be measured.
    """
    labels, outputs = scorer.labels, scorer.model.outputs

    def work(data: Dataset) -> tuple[Floats, Floats]:
        label = labels_of(data)
        known = labels.known(label)
        if not known.all():
            raise unknown(labels, int(known.argmin()))
        return labels.encode(label), scorer.scores(data)

    pieces = []
    for piece in each_piece(scorer, paths, work, format=format, threads=threads, labelled=True, counts=counts):
        pieces.append(piece)
        held = np.dtype(np.float64).itemsize * counts.rows * (1 + outputs)
        needed = Outcome.bytes_needed(counts.rows, outputs)
        require_if_large(needed, f"judging {counts.rows:,} rows", held=held)
    label, score = map(np.concatenate, zip(*pieces, strict=True))
    counts.not_finite = len(score) - int(np.isfinite(score).all(axis=1).sum())
    return Outcome(labels.loss, label, score, clip=scorer.clip)


def unknown(labels: Labels, row: int) -> RowError:
    """The error for the label of a row that a model cannot judge."""
    if labels.values is None:
        return RowError(row, f"a count, which is what loss {labels.loss} takes", LEAVE_OUT)
    return RowError(row, f"one of the labels that the model knows, {listed(np.array(labels.values))}", LEAVE_OUT)


def labels_of(data: Dataset) -> Floats:
    """(rows) labels; a piece of comments only has none."""
    return data.label if data.rows else np.empty(0)


def judge_predictions(
    predictions: str,
    paths: Sequence[str],
    *,
    loss: str | None,
    raw: bool,
    format: str,
    threads: int,
    counts: Counts,
) -> tuple[Labels, Outcome]:
    """Judge numbers that were predicted for labelled rows, a line a row.

    Parameters
    ----------
    predictions : file of numbers as `fmcli predict` writes them: probabilities of the larger label for loss logistic;
        those of each class, in increasing order of labels, for softmax; for the other losses
        numbers like the labels, or scores.
    loss : None: softmax for several numbers a line, else by the labels, as in training.
    raw : the numbers are scores, whatever the loss.

    Raises
    ------
    BadInputError
        Labels that are missing or do not fit the loss, numbers that do not fit it, or not one line a row.
    """
    score = read_predictions(predictions)
    require_if_large(Outcome.bytes_needed(*score.shape), f"judging {len(score):,} rows", held=score.nbytes)
    pieces = score_pieces(paths, labels_of, format=format, limit=LARGEST_INDEX + 1, threads=threads, labelled=True)
    read = []
    for piece in pieces:
        counts.rows += piece.rows
        counts.nonzeros += piece.nnz
        counts.comments += piece.comments
        read.append(piece.result)
    label = np.concatenate(read)
    columns = score.shape[1]
    told, rows = name_of(predictions), name_of(paths[0])
    if len(label) != len(score):
        others = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
        raise BadInputError(
            f"{told} has {len(score)} lines, but {rows}{others} has {len(label)} labelled rows; each row "
            "needs one line of predictions, and blank lines are no rows"
        )
    labels = labels_for(label, loss or ("softmax" if columns > 1 else None))
    if columns != labels.outputs:
        raise BadInputError(
            f"{told} has {columns} numbers a line, but loss {labels.loss} with the labels of {rows} needs "
            f"{labels.outputs}" + ("; a column stands for a label that occurs" if labels.outputs > 1 else "")
        )
    if not raw and labels.loss in PROBABLE:
        wrong = ((score < 0) | (score > 1)).any(axis=1)
        if wrong.any():
            row = int(wrong.argmax())
            wrong_one = score[row][(score[row] < 0) | (score[row] > 1)][0]
            raise BadInputError(
                f"{told}:{row + 1}: found {number(wrong_one)}, expected a probability, as loss is {labels.loss}; "
                "--raw says that these are scores, --loss squared that they are numbers like the labels"
            )
    return labels, Outcome(labels.loss, labels.encode(label), score, predicted=not raw)


def labels_for(label: Floats, loss: str | None) -> Labels:
    """What labels mean to a loss. Raises BadInputError where they do not fit it, or do not tell."""
    distinct = few_distinct(label)
    if distinct is not None and len(distinct) == 1 and (loss is None or LOSSES[loss].task in ("binary", "classes")):
        raise BadInputError(
            f"every label is {number(distinct[0])}, and one value does not tell what predictions mean; "
            "evaluate with the MODEL, or say --loss squared where they are numbers like the labels"
        )
    return fit_labels(label, loss)


def read_predictions(path: str) -> Floats:
    """(rows, columns) numbers of a text, one row a line; "-" is standard input.

    Raises BadInputError, naming file and line, and MissingInputError.
    """
    pieces = list(_numbers(path))
    if not pieces:
        raise BadInputError(f"{name_of(path)}: the file holds no predictions")
    return np.concatenate(pieces)


def _numbers(path: str) -> Iterator[Floats]:
    line = columns = 0
    for block in blocks([path], [], BLOCK_BYTES):
        rows = []
        for text in bytes(block.data[block.start : block.stop]).splitlines():
            line += 1
            tokens = text.split()
            columns = columns or len(tokens)
            try:
                row = [float(token) for token in tokens]
            except ValueError:
                row = []
            if not row or len(row) != columns or not all(map(math.isfinite, row)):
                what = "a number" if columns < 2 else f"{columns} numbers"
                raise BadInputError(f"{block.name}:{line}: found {quote(text)}, expected {what}")
            rows.append(row)
        if rows:
            yield np.array(rows)


def figures(names: Iterable[str], outcome: Outcome, scorer: Scorer | None = None) -> dict[str, float]:
    """Values by name, in the order of the names; nan where undefined. Names of OF_MODELS need the scorer."""
    names = list(names)
    measured = measure([name for name in names if name not in OF_MODELS], outcome)
    if scorer is not None:
        if LOSS in names:
            measured[LOSS] = training_loss(outcome, scorer) if outcome.usable else math.nan
        if SPARSITY in names:
            measured[SPARSITY] = model_sparsity(scorer.model)
    return {name: measured[name] for name in names}


def training_loss(outcome: Outcome, scorer: Scorer) -> float:
    """Mean over the rows of the loss that the model was trained with."""
    meta = scorer.meta
    spec = Spec(meta["model"], meta["solver"], meta["loss"], meta["options"])
    loss = build_loss(spec, scorer.labels.loss, scorer.model.outputs)
    return mean_loss(loss, outcome.label, outcome.score)


def confusion(outcome: Outcome) -> NDArray[np.int64]:
    """(classes, classes) rows by label, down, and by prediction, across. Only for two label values and classes."""
    classes = max(2, outcome.score.shape[1])
    require(np.dtype(np.int64).itemsize * classes**2, f"a table of {classes} x {classes} classes")
    places = outcome.class_label * classes + outcome.class_predicted
    return np.bincount(places, minlength=classes**2).astype(np.int64).reshape(classes, classes)


def class_table(values: Sequence[float], table: NDArray[np.int64]) -> list[dict[str, Any]]:
    """Precision, recall, F1 and number of rows of each label; nan where there is nothing to divide by."""
    rows = []
    for value, correct, labelled, predicted in zip(
        values, table.diagonal().tolist(), table.sum(axis=1).tolist(), table.sum(axis=0).tolist(), strict=True
    ):
        rows.append(
            {
                "label": value,
                "precision": correct / predicted if predicted else math.nan,
                "recall": correct / labelled if labelled else math.nan,
                "f1": 2 * correct / (labelled + predicted) if labelled + predicted else math.nan,
                "support": labelled,
            }
        )
    return rows
