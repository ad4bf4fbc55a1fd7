"""Evaluation on labeled rows: of a model, or of a file of predictions.

The rows are read buffer by buffer; only labels and scores are kept, because most metrics need all rows at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fmcli.data.dataset import Dataset
from fmcli.data.labels import NUMBERS, Labels, Names, Relevance, few_distinct, fit_labels, listed_texts
from fmcli.data.related.files import RelationFiles
from fmcli.data.text.chunks import Columns, Piece, RowError, score_chunks
from fmcli.data.text.faults import BadLines
from fmcli.data.text.formats import RowGroups, Stream
from fmcli.data.text.sources import BUFFER_BYTES, buffers, name_of
from fmcli.errors import LEAVE_OUT as WITHOUT
from fmcli.errors import BadInputError, UsageError
from fmcli.losses.links import Floats
from fmcli.records import dataclass
from fmcli.registry.build import build_loss
from fmcli.registry.losses import LOSSES
from fmcli.registry.specs import Spec
from fmcli.scoring.lists import list_metric
from fmcli.scoring.metrics import Outcome, allowed, check, measure, metric_of, need_groups
from fmcli.scoring.prediction import Counts, each_chunk
from fmcli.scoring.scorer import Scorer
from fmcli.scoring.scores import mean_loss
from fmcli.scoring.sparsity import SPARSITY, model_sparsity
from fmcli.system.memory import require, require_if_large
from fmcli.text import figures_apart, number, quote

# The name of the mean training loss as a metric.
LOSS = "loss"
# Metrics that need a model, in order of listing: the loss is first, the sparsity last.
OF_MODELS = (LOSS, SPARSITY)
# Advice about a row that a model cannot evaluate.
LEAVE_OUT = "remove such rows, or train a model on data that has them"


class LabeledScores(NamedTuple):
    """Encoded labels (rows), raw scores (rows, outputs), weights (rows), and groups (rows), or an empty array."""

    label: Floats
    score: Floats
    weight: Floats
    group: NDArray[np.int64]


@dataclass(frozen=True)
class Limit:
    """A lower bound for a metric, or an upper bound if smaller values are better."""

    metric: str
    value: float

    @property
    def larger_is_better(self) -> bool:
        if self.metric in OF_MODELS:
            return self.metric == SPARSITY
        if of_lists := list_metric(self.metric):
            return of_lists[0].larger_is_better
        return metric_of(self.metric).larger_is_better

    def complaint(self, value: float) -> str:
        """Return a message if a value of the metric violates the limit, else "". An undefined value violates it."""
        if math.isnan(value):
            return f"{self.metric} is undefined on these rows"
        if value == self.value or (value > self.value) == self.larger_is_better:
            return ""
        side = "below" if self.larger_is_better else "above"
        return f"{self.metric} is {figures_apart(value, self.value)[0]}, {side} {number(self.value)}"


def usual_metrics(loss: str, *, of_model: bool, grouped: bool) -> tuple[str, ...]:
    """Return the names of all metrics that fit a loss; group metrics only if rows are grouped."""
    fitting = allowed(loss, grouped)
    if not of_model:
        return fitting
    return (*fitting, SPARSITY) if LOSSES[loss].pairwise else (LOSS, *fitting, SPARSITY)


def row_groups_for(names: Iterable[str], loss: str | None, field: int | None, *, usual: bool) -> RowGroups | None:
    """Return the source of row groups: a field, or query numbers. None if no metric needs groups.

    names : the names of metrics.
    loss : the loss of the model or the predictions, if known.
    usual : whether the usual metrics are computed, too; they include group metrics if there are groups.
    """
    needed = bool(need_groups(name for name in names if name not in OF_MODELS))
    pairwise = loss is not None and LOSSES[loss].pairwise
    return RowGroups(field, optional=not (needed or pairwise)) if needed or usual else None


def check_metrics(names: Iterable[str], loss: str | None, *, of_model: bool) -> None:
    """Raise UsageError for a metric that does not exist, does not fit the loss, or needs a model."""
    names = list(names)
    for name in OF_MODELS:
        if name in names and not of_model:
            raise UsageError(f"metric {name} needs a MODEL; it cannot be computed from predictions")
    if LOSS in names and loss is not None and LOSSES[loss].pairwise:
        raise UsageError(
            f"loss {loss} is of pairs of rows, which are drawn in training only; metric gauc is of all pairs"
        )
    check([name for name in names if name not in OF_MODELS], loss)


def evaluate_model(
    scorer: Scorer,
    paths: Sequence[str],
    *,
    format: str,
    threads: int,
    counts: Counts,
    bad: BadLines | None = None,
    label_weights: bool = False,
    row_groups: RowGroups | None = None,
    relations: Sequence[RelationFiles] = (),
    relevant: float | None = None,
    kept: list[Dataset] | None = None,
) -> Outcome:
    """Score labeled rows, and add their counts to `counts`. With `label_weights`, labels may have weights, which then
    count in the metrics. `row_groups` gives the groups of the rows. Rows are joined with the rows of `relations`. The
    result is the same for any number of threads. relevant : as in `relevance_of`; kept : gets the rows, with the
    columns of the model.

    Raises BadInputError, which names the file, line and column, for a label that is missing or unknown to the model;
    the errors of `predict`; and NotEnoughMemoryError as soon as there are too many rows for the metrics.
    """
    outputs, relevance = scorer.model.columns, relevance_of(scorer.labels, relevant)
    pieces, score = [], labeled_scores(scorer)
    scored = each_chunk(
        scorer,
        paths,
        lambda piece: (score(piece), None if kept is None else piece.data),
        format=format,
        threads=threads,
        labeled=True,
        counts=counts,
        bad=bad,
        stream=Stream(label_weights=label_weights, row_groups=row_groups),
        check=partial(require_known, scorer.labels),
        relations=relations,
    )
    for piece, data in scored:
        pieces.append(piece)
        held = np.dtype(np.float64).itemsize * counts.rows * (1 + outputs)
        if kept is not None and data is not None:
            kept.append(data)
            held += sum(one.nbytes for one in kept)
        needed = Outcome.bytes_needed(counts.rows, outputs)
        require_if_large(needed, f"evaluating {counts.rows:,} rows", held=held)
    return outcome_of(scorer, pieces, counts, label_weights, relevance)


def relevance_of(labels: Labels, relevant: float | None = None) -> Relevance:
    """Return which rows are relevant in rankings: rows with labels of at least `relevant`; None: see
    `Labels.relevance`. Raises UsageError for labels without such an order."""
    if relevant is None:
        return labels.relevance
    if labels.values is None:
        return Relevance(relevant)
    if not labels.cutpoints:
        raise UsageError("labels have two values or are classes; the larger value is relevant", relevant=WITHOUT)
    return Relevance(float(np.searchsorted(np.array(labels.values), relevant)))


def require_labels(scorer: Scorer) -> None:
    """Raise UsageError for a model of observed pairs, which have no labels, and whose scores are no counts."""
    if scorer.known is not None:
        measure = "fmcli evaluate --over measures its rankings"
        raise UsageError(f"{scorer.path} ranks items for users, and has no labels to compare with; {measure}")


def labeled_scores(scorer: Scorer) -> Callable[[Piece], LabeledScores]:
    """Return a function that scores labeled rows. The model must know their labels. Raises UsageError."""
    require_labels(scorer)
    labels = scorer.labels

    def work(piece: Piece) -> LabeledScores:
        label = labels_of(piece.data)
        weight = np.ones(len(label)) if piece.data.weight is None else piece.data.weight
        return LabeledScores(labels.encode(label), scorer.scores(piece.data), weight, groups_of(piece))

    return work


def outcome_of(
    scorer: Scorer,
    pieces: Sequence[LabeledScores],
    counts: Counts,
    weighted: bool,
    relevance: Relevance | None = None,
) -> Outcome:
    """Return the outcome of consecutive pieces, at least one; rows without a finite score are added to `counts`.

    relevance : which rows are relevant to rankings; None: see `Labels.relevance`.
    """
    label, score, weight, group = map(np.concatenate, zip(*pieces, strict=True))
    counts.not_finite += len(score) - int(np.isfinite(score).all(axis=1).sum())
    weights, groups = weight if weighted else None, group if len(group) else None
    relevance = relevance or scorer.labels.relevance
    return Outcome(scorer.labels.loss, label, score, weights, clip=scorer.clip, group=groups, relevance=relevance)


def require_known(labels: Labels, data: Dataset) -> None:
    """Raise RowError for the first row with a label that the model does not know."""
    known = labels.known(labels_of(data))
    if not known.all():
        raise unknown(labels, int(known.argmin()))


def unknown(labels: Labels, row: int) -> RowError:
    """Return the error for a row whose label the model does not know."""
    if labels.values is None:
        return RowError(row, f"a count, as loss {labels.loss} needs", LEAVE_OUT)
    return RowError(row, f"a label that the model knows: {listed_texts(labels.texts)}", LEAVE_OUT)


def labels_of(data: Dataset) -> Floats:
    """Return (rows) the labels; an empty array for a chunk of comments."""
    return data.label if data.rows else np.empty(0)


def groups_of(piece: Piece) -> NDArray[np.int64]:
    """Return (rows) the groups of the rows; an empty array without groups."""
    group = piece.data.group
    return np.empty(0, dtype=np.int64) if group is None else group.astype(np.int64, copy=False)


def evaluate_predictions(
    predictions: str,
    paths: Sequence[str],
    *,
    loss: str | None,
    raw: bool,
    format: str,
    threads: int,
    counts: Counts,
    row_groups: RowGroups | None = None,
    relevant: float | None = None,
    positive: str | None = None,
) -> tuple[Labels, Outcome]:
    """Evaluate predictions for labeled rows, one line per row.

    Parameters
    ----------
    predictions : a file of numbers as `fmcli predict` writes them: for loss logistic the probability of the larger
        label; for softmax the probability of each class, in increasing order of the labels; for other losses predicted
        labels, or scores.
    loss : None: softmax if lines have several numbers; otherwise chosen by the labels, as in training.
    raw : whether the numbers are raw scores, for any loss.
    row_groups : the source of row groups.
    relevant : as in `relevance_of`.
    positive : the positive one of two labels; None: see `positive_place`.

    Raises
    ------
    BadInputError
        If labels are missing or do not fit the loss, numbers do not fit the loss, or the number of lines differs from
        the number of rows.
    """
    score = read_predictions(predictions)
    require_if_large(Outcome.bytes_needed(*score.shape), f"evaluating {len(score):,} rows", held=score.nbytes)
    pieces = score_chunks(
        paths,
        lambda piece: (labels_of(piece.data), piece.labels, groups_of(piece)),
        Columns(),
        format=format,
        threads=threads,
        labeled=True,
        labels=None,
        stream=Stream(row_groups=row_groups),
    )
    read, groups = [], []
    for piece in pieces:
        counts.rows += piece.rows
        counts.nonzeros += piece.nnz
        counts.comments += piece.comments
        read.append(piece.result[:2])
        groups.append(piece.result[2])
    label, names = combined_labels(read)
    group = np.concatenate(groups)
    columns = score.shape[1]
    told, rows = name_of(predictions), name_of(paths[0])
    if len(label) != len(score):
        others = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
        raise BadInputError(
            f"{told} has {len(score)} lines, but {rows}{others} has {len(label)} labeled rows; each row "
            "needs one line of predictions, and blank lines do not count as rows"
        )
    labels = labels_for(label, names, positive, loss or ("softmax" if columns > 1 else None))
    if labels.cutpoints:
        raise UsageError(
            f"predictions of loss {labels.loss} are numbers",
            loss={"squared": "for predicted numbers", "softmax": "for probabilities"},
        )
    if columns != labels.outputs:
        raise BadInputError(
            f"{told} has {columns} numbers per line, but loss {labels.loss} with the labels of {rows} needs "
            f"{labels.outputs}" + (", one for each label that occurs" if labels.outputs > 1 else "")
        )
    if not raw and LOSSES[labels.loss].load_link().probable:
        wrong = ((score < 0) | (score > 1)).any(axis=1)
        if wrong.any():
            row = int(wrong.argmax())
            wrong_one = score[row][(score[row] < 0) | (score[row] > 1)][0]
            raise BadInputError(
                f"{told}:{row + 1}: found {number(wrong_one)}, expected a probability, because the loss is "
                f"{labels.loss}",
                raw={True: "if these are scores"},
                loss={"squared": "if they are predicted labels"},
            )
    encoded, in_groups, relevance = labels.encode(label), group if len(group) else None, relevance_of(labels, relevant)
    return labels, Outcome(labels.loss, encoded, score, predicted=not raw, group=in_groups, relevance=relevance)


def combined_labels(pieces: Sequence[tuple[Floats, Names | None]]) -> tuple[Floats, Names]:
    """Return the labels of consecutive rows and their common names, from pieces with names of their own."""
    if pieces[0][1] is None:
        return np.concatenate([label for label, _ in pieces]), NUMBERS
    found = [np.array(names, dtype=object)[label.astype(np.intp)] for label, names in pieces]
    names, places = np.unique(np.concatenate(found).astype(str), return_inverse=True)
    return places.astype(np.float64), tuple(names.tolist())


def labels_for(label: Floats, names: Names, positive: str | None, loss: str | None) -> Labels:
    """Return the labels for a loss. Raises BadInputError if they do not fit the loss, or do not determine one."""
    if names:
        return fit_labels(label, loss, names=names, positive=positive)
    distinct = few_distinct(label)
    if distinct is not None and len(distinct) == 1 and (loss is None or LOSSES[loss].task in ("binary", "classes")):
        raise BadInputError(
            f"every label is {number(distinct[0])}, and a single value does not determine what predictions mean; "
            "evaluate the MODEL instead",
            loss={"squared": "if these are predicted labels"},
        )
    return fit_labels(label, loss, positive=positive)


def read_predictions(path: str) -> Floats:
    """Return (rows, columns) numbers of a text with one row per line; "-" is standard input.

    Raises MissingInputError, and BadInputError, which names the file and the line.
    """
    pieces = list(_numbers(path))
    if not pieces:
        raise BadInputError(f"{name_of(path)}: the file has no predictions")
    return np.concatenate(pieces)


def _numbers(path: str) -> Iterator[Floats]:
    line = columns = 0
    for buffer in buffers([path], [], BUFFER_BYTES):
        rows = []
        for text in bytes(buffer.data[buffer.start : buffer.stop]).splitlines():
            line += 1
            tokens = text.split()
            columns = columns or len(tokens)
            try:
                row = [float(token) for token in tokens]
            except ValueError:
                row = []
            if not row or len(row) != columns or not all(map(math.isfinite, row)):
                what = "a number" if columns < 2 else f"{columns} numbers"
                raise BadInputError(f"{buffer.name}:{line}: found {quote(text)}, expected {what}")
            rows.append(row)
        if rows:
            yield np.array(rows)


def figures(names: Iterable[str], outcome: Outcome, scorer: Scorer | None = None) -> dict[str, float]:
    """Return values by name, in the order of the names; NaN if undefined. The names in OF_MODELS need the scorer."""
    names = list(names)
    measured = measure([name for name in names if name not in OF_MODELS], outcome)
    if scorer is not None:
        if LOSS in names:
            measured[LOSS] = training_loss(outcome, scorer) if outcome.usable else math.nan
        if SPARSITY in names:
            measured[SPARSITY] = model_sparsity(scorer.model)
    return {name: measured[name] for name in names}


def training_loss(outcome: Outcome, scorer: Scorer) -> float:
    """Return the mean, over the rows, of the model's training loss, with labels in the unit of training."""
    meta = scorer.meta
    spec = Spec(meta["model"], meta["solver"], meta["loss"], meta["options"])
    loss = build_loss(spec, scorer.labels.loss, scorer.model.columns)
    unit = scorer.labels.unit
    return mean_loss(loss, unit.of(outcome.label), unit.of(outcome.score))


def confusion(outcome: Outcome) -> NDArray[np.int64]:
    """Return the confusion matrix (classes, classes): the number of rows by label (first axis) and prediction (second
    axis). Only for labels with two values and for classes."""
    classes = max(2, outcome.score.shape[1])
    require(np.dtype(np.int64).itemsize * classes**2, f"a table of {classes} x {classes} classes")
    places = outcome.class_label * classes + outcome.class_predicted
    return np.bincount(places, minlength=classes**2).astype(np.int64).reshape(classes, classes)


def class_table(values: Sequence[float | str], table: NDArray[np.int64]) -> list[dict[str, Any]]:
    """Return precision, recall, F1 and number of rows for each label; NaN if the divisor is 0."""
    rows = []
    for value, correct, labeled, predicted in zip(
        values, table.diagonal().tolist(), table.sum(axis=1).tolist(), table.sum(axis=0).tolist(), strict=True
    ):
        rows.append(
            {
                "label": value,
                "precision": correct / predicted if predicted else math.nan,
                "recall": correct / labeled if labeled else math.nan,
                "f1": 2 * correct / (labeled + predicted) if labeled + predicted else math.nan,
                "support": labeled,
            }
        )
    return rows
