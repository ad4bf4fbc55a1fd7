"""The importance of features and fields for the scores and errors of a model on given rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fmcli.data.dataset import Dataset
from fmcli.data.entries import rows_of_entries
from fmcli.data.tables.schema import Schema
from fmcli.data.text.pieces import concatenated
from fmcli.errors import BadInputError
from fmcli.inspect.inspection import Row, largest
from fmcli.losses.links import Floats
from fmcli.scoring.evaluation import require_labels
from fmcli.scoring.explain.explanation import Explainer, Explanation
from fmcli.scoring.metrics import Outcome, default_metrics, measure, metric_of
from fmcli.scoring.prediction import Counts, each_chunk
from fmcli.scoring.scorer import Scorer

# The number of permutations of the entries of each feature or field.
REPEATS = 5
NO_FIELD = -1

Units = NDArray[np.int64]


class Fields:
    """The fields of entries: the fields of the rows, or the columns of the table that the model was trained on.

    names : the names of the fields; empty: there are none.
    """

    def __init__(self, scorer: Scorer) -> None:
        table = scorer.transform.table
        self.names: list[int | str] = list(table.features) if table else []
        self.of_rows = scorer.needs_fields
        self.columns = columns_of_features(scorer, table) if table and not self.of_rows else None

    def of(self, data: Dataset) -> Units | None:
        """Return (entries) the position of each entry's field in `names`; None if entries have no fields."""
        if self.columns is not None:
            return self.columns[data.index]
        if not self.of_rows or data.field is None:
            return None
        self.names += range(len(self.names), data.fields)
        return data.field.astype(np.int64)


def columns_of_features(scorer: Scorer, table: Schema) -> Units:
    """Return (columns of the model) the position of the table column that each feature comes from."""
    places = table.columns_of(map(str, scorer.ids(np.arange(scorer.model.features))))
    return np.array([NO_FIELD if place is None else place for place in places], dtype=np.int64)


class Shares:
    """Sums of the absolute shares of features and of fields, over rows and outputs."""

    def __init__(self, scorer: Scorer, outputs: int) -> None:
        self.scorer, self.fields, self.outputs, self.rows = scorer, Fields(scorer), outputs, 0
        features = scorer.model.features
        self.of_features, self.counts = np.zeros(features), np.zeros(features, dtype=np.int64)
        self.of_fields = np.zeros(0)

    def add(self, found: Explanation) -> None:
        """Add the shares of some rows. The share of a field is the sum of the shares of its features in the row."""
        data = found.data
        self.rows += data.rows
        size = len(self.of_features)
        self.counts += np.bincount(data.index, minlength=size)
        fields = self.fields.of(data)
        row = rows_of_entries(data)
        for share in found.share.T:
            self.of_features += np.bincount(data.index, weights=np.abs(share), minlength=size)
            if fields is None:
                continue
            count = len(self.fields.names)
            known = fields >= 0
            sums = np.bincount(row[known] * count + fields[known], share[known], minlength=data.rows * count)
            absolute = np.abs(sums.reshape(data.rows, count)).sum(axis=0)
            self.of_fields = np.pad(self.of_fields, (0, count - len(self.of_fields))) + absolute

    def mean(self, sums: Floats) -> Floats:
        """Return the mean over rows and outputs."""
        return np.asarray(sums / max(self.rows * self.outputs, 1))


def of_rows(
    scorer: Scorer, paths: Sequence[str], *, top: int, threads: int, permute: bool, seed: int
) -> tuple[Counts, dict[str, Any]]:
    """Return the counts of the rows of some files, and the largest mean absolute shares of their `fields`, if there are
    fields, and of their `features`. With `permute`, `permuted` has the loss in the default metric when the entries of a
    field, or else of one of these features, are permuted among the rows.

    Raises BadInputError, MissingInputError and UsageError.
    """
    if permute:
        require_labels(scorer)
    explainer, counts, kept = Explainer(scorer), Counts(), []
    shares = Shares(scorer, explainer.outputs)
    chunks = each_chunk(
        scorer,
        paths,
        lambda piece: (explainer.work(piece), piece.data),
        format="auto",
        threads=threads,
        labeled=permute,
        counts=counts,
    )
    for found, data in chunks:
        shares.add(found)
        if permute:
            kept.append(data)
    if not shares.rows:
        raise BadInputError("there are no rows, so no feature is important")
    return counts, ranked(shares, concatenated(kept) if permute else None, top=top, threads=threads, seed=seed)


def ranked(shares: Shares, data: Dataset | None, *, top: int, threads: int, seed: int) -> dict[str, Any]:
    """Return the figures of `of_rows`, given the shares. data : the labeled rows whose entries are permuted; None:
    nothing is."""
    scorer, fields = shares.scorer, shares.fields
    of_features, of_fields = shares.mean(shares.of_features), shares.mean(shares.of_fields)
    best, best_fields = largest(of_features, top), largest(of_fields, top)
    names = scorer.ids(best)
    figures: dict[str, Any] = {}
    if fields.names:
        figures["fields"] = [{"field": fields.names[at], "share": float(of_fields[at])} for at in best_fields]
    figures["features"] = [
        {"feature": name, "rows": int(shares.counts[at]), "share": float(of_features[at])}
        for name, at in zip(names, best, strict=True)
    ]
    if data is not None:
        entries = fields.of(data)
        units = best_fields if entries is not None else best
        of_units: list[Any] = [fields.names[at] for at in units] if entries is not None else list(names)
        chosen = entries if entries is not None else data.index.astype(np.int64)
        lost = losses_by_permutation(scorer, data, chosen, units, threads, seed)
        column = "field" if entries is not None else "feature"
        figures["permuted"] = [{column: name, **row} for name, row in zip(of_units, lost, strict=True)]
        figures["permuted"].sort(key=lambda row: -row["lost"])
    return figures


def losses_by_permutation(
    scorer: Scorer, data: Dataset, unit: Units, units: NDArray[np.intp], threads: int, seed: int
) -> list[Row]:
    """Return, for each unit, how much worse the default metric becomes when the unit's entries are permuted among the
    rows: the mean over REPEATS permutations, and its standard deviation.

    unit : (entries) the unit of each entry.
    """
    (name, *_), label = default_metrics(scorer.labels.loss), scorer.labels.encode(data.label)
    sign = 1 if metric_of(name).larger_is_better else -1

    def value(rows: Dataset) -> float:
        score = scorer.scores(rows, threads)
        outcome = Outcome(scorer.labels.loss, label, score, data.weight, clip=scorer.clip)
        return sign * measure([name], outcome, threads)[name]

    whole, found = value(data), []
    for one in units:
        generator = np.random.default_rng([seed, int(one)])
        lost = [whole - value(permuted(data, unit == one, generator.permutation(data.rows))) for _ in range(REPEATS)]
        found.append({"metric": name, "lost": float(np.mean(lost)), "sd": float(np.std(lost, ddof=1))})
    return found


def permuted(data: Dataset, moves: NDArray[np.bool_], target: NDArray[np.int64]) -> Dataset:
    """Return rows with the chosen entries moved: entries of row i move to row target[i]."""
    row = rows_of_entries(data)
    row = np.where(moves, target[row], row)
    fields = () if data.field is None else (data.field,)
    order = np.lexsort((*fields, data.index, row))
    return Dataset(
        np.concatenate([[0], np.cumsum(np.bincount(row, minlength=data.rows))]).astype(np.int64),
        data.index[order],
        None if data.value is None else data.value[order],
        data.label,
        data.features,
        None if data.field is None else data.field[order],
        data.weight,
        numbering=data.numbering,
    )
