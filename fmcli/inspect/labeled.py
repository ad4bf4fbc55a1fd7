"""A model on labeled rows: its errors by threshold and by tenth of the rows, and single rows explained."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fmcli.data.dataset import Dataset
from fmcli.data.text.formats import RowGroups
from fmcli.data.text.pieces import concatenated
from fmcli.inspect.importance import Shares, ranked
from fmcli.inspect.inspection import Row, largest
from fmcli.losses.links import Floats
from fmcli.records import dataclass
from fmcli.scoring.evaluation import evaluate_model
from fmcli.scoring.explain.explanation import Explainer
from fmcli.scoring.metrics import BINARY, NUMBERS, Outcome, log_losses
from fmcli.scoring.prediction import Counts
from fmcli.scoring.scorer import Scorer
from fmcli.text import figure, plain_figure

# The most thresholds, rows whose scores are explained, fields or features that are ranked, and parts of a score.
MOST_THRESHOLDS, MOST_EXPLAINED, MOST_RANKED, MOST_PARTS = 200, 5000, 20, 8
# The number of rows that are explained one by one: as many with large errors as with small ones.
EXAMPLES = 5


@dataclass(frozen=True)
class ScoredRows:
    """Labeled rows with the columns of the model, and their labels and scores."""

    scorer: Scorer
    data: Dataset
    outcome: Outcome

    @classmethod
    def read(
        cls,
        scorer: Scorer,
        paths: Sequence[str],
        groups: RowGroups | None,
        *,
        format: str,
        threads: int,
        counts: Counts,
    ) -> ScoredRows:
        """Read and score the rows of some inputs, which are counted. groups : the source of their groups. Raises the
        errors of `evaluate_model`."""
        kept = list[Dataset]()
        more: dict[str, Any] = {"format": format, "threads": threads, "counts": counts}
        outcome = evaluate_model(scorer, paths, row_groups=groups, kept=kept, **more)
        return cls(scorer, concatenated(kept), outcome)

    @property
    def label(self) -> Floats:
        """(rows) the labels as numbers: 1 for the positive one of two."""
        binary = self.outcome.task in BINARY
        return np.asarray(self.outcome.label > 0, dtype=np.float64) if binary else self.outcome.label

    @property
    def prediction(self) -> Floats:
        """(rows) the predictions of `label`; NaN for classes, and for scores without a meaning."""
        if self.outcome.task in NUMBERS:
            return np.asarray(self.outcome.label + self.outcome.error)
        known = self.outcome.task in BINARY and self.outcome.link.probable
        return self.outcome.probability[:, 0] if known else np.full(len(self.outcome.label), np.nan)

    @property
    def wrong(self) -> Floats | None:
        """(rows) 1 if the predicted label is wrong, else 0; None for numbers."""
        return None if self.outcome.task in NUMBERS else np.asarray(~self.outcome.correct, dtype=np.float64)

    @property
    def loss(self) -> Floats:
        """(rows) the absolute error of a number; of others, a number that grows as the label becomes less likely."""
        if self.outcome.task in NUMBERS:
            return np.abs(self.outcome.error)
        return (
            log_losses(self.outcome) if self.outcome.link.probable else -self.outcome.label * self.outcome.score[:, 0]
        )

    def texts(self, row: int) -> dict[str, str]:
        """Return the label and the prediction of a row."""
        outcome, labels = self.outcome, self.scorer.labels
        if outcome.task in NUMBERS:
            first = labels.values[0] if labels.values else 0.0
            label = float(outcome.label[row]) + first
            return {"label": plain_figure(label), "prediction": figure(label + float(outcome.error[row]))}
        label_text, text = (labels.texts[int(one[row])] for one in (outcome.class_label, outcome.class_predicted))
        if outcome.link.probable:
            likely = float(outcome.probability[row].max())
            text += f" ({likely if labels.outputs > 1 else max(likely, 1 - likely):.1%})"
        return {"label": label_text, "prediction": text}


def thresholds(outcome: Outcome) -> dict[str, Any]:
    """Return how many rows with the positive one of two labels, and with the other one, have at least a score, for some
    scores from the lowest on.

    threshold : the scores, as probabilities if the loss has them; the last one is above all rows.
    true, false : the numbers of rows with the positive and the negative label.
    usual : the position of the threshold of the model.
    """
    score, positive, negative = outcome.ranking
    rows = np.cumsum(positive + negative)
    usual = int(np.searchsorted(score, outcome.link.threshold, side="right"))
    chosen = np.searchsorted(rows, np.linspace(0, rows[-1], MOST_THRESHOLDS, endpoint=False), side="right")
    chosen = np.unique([*chosen, min(usual, len(score) - 1), len(score)])
    shown = outcome.link.prediction(score[:, None])[:, 0] if outcome.link.probable else score
    above = [np.append(np.cumsum(of[::-1])[::-1], 0) for of in (positive, negative)]
    return {
        "threshold": [*shown[chosen[:-1]].tolist(), None],
        "true": above[0][chosen].tolist(),
        "false": above[1][chosen].tolist(),
        "usual": int(np.searchsorted(chosen, usual)),
    }


def tenths(label: Floats, prediction: Floats) -> list[dict[str, float]]:
    """Return, for each tenth of the rows by their prediction, the mean prediction and label, and the quartiles of the
    residuals: label - prediction."""
    parts = np.array_split(np.argsort(prediction, kind="stable"), min(10, len(label)))
    found = []
    for rows in parts:
        low, middle, high = np.quantile(label[rows] - prediction[rows], (0.25, 0.5, 0.75)).tolist()
        means = {"predicted": float(prediction[rows].mean()), "label": float(label[rows].mean())}
        found.append({**means, "low": low, "middle": middle, "high": high})
    return found


def some(rows: int, most: int) -> NDArray[np.int32]:
    """Return the numbers of some rows, in order; the same ones each time."""
    every = np.arange(rows, dtype=np.int32)
    return every if rows <= most else np.sort(np.random.default_rng(0).choice(every, most, replace=False))


def important(rows: ScoredRows, explainer: Explainer, threads: int) -> dict[str, Any]:
    """Return the figures of `fmcli.inspect.importance.ranked` for some of the rows."""
    data = rows.data.take(some(rows.data.rows, MOST_EXPLAINED))
    shares = Shares(rows.scorer, explainer.outputs)
    shares.add(explainer.explain(data, threads=threads))
    return ranked(shares, data, top=MOST_RANKED, threads=threads, seed=0)


def examples(rows: ScoredRows, explainer: Explainer) -> list[Row]:
    """Return some rows with the parts of their scores: the rows with the largest errors, and others, drawn from the
    half with the smaller ones."""
    order = np.argsort(-rows.loss, kind="stable").astype(np.int32)
    others = order[len(order) // 2 :]
    others = others[some(len(others), EXAMPLES)]
    chosen = np.concatenate([order[: min(EXAMPLES, len(order) // 2)], others])
    found, data = explainer.explain(rows.data.take(chosen)), []
    for place, row in enumerate(chosen.tolist()):
        entries = slice(*found.data.indptr[place : place + 2])
        output = int(rows.outcome.class_predicted[row]) if explainer.outputs > 1 else 0
        share, index = found.share[entries, output], found.data.index[entries]
        best = largest(share, MOST_PARTS)
        parts = dict(zip(map(str, rows.scorer.ids(index[best])), share[best].tolist(), strict=True))
        if rest := len(share) - len(best):
            parts[f"{rest} others"] = float(share.sum() - share[best].sum())
        data.append(
            {
                "row": row + 1,
                **rows.texts(row),
                "base": float(found.base[output]),
                "parts": parts,
                "wrong": place < len(chosen) - len(others),
            }
        )
    return data
