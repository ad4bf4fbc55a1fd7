"""Reading the rows that a run predicts while it samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fmcli.data.dataset import Dataset
from fmcli.data.text.chunks import Piece
from fmcli.data.text.faults import BadLines
from fmcli.data.text.formats import Stream
from fmcli.data.text.pieces import concatenated
from fmcli.errors import BadInputError
from fmcli.model_file.transform import transform_entries
from fmcli.scoring.draws import Draws
from fmcli.scoring.prediction import Counts, each_chunk
from fmcli.scoring.scorer import Scorer
from fmcli.system.memory import require_if_large
from fmcli.training.planning import Plan
from fmcli.training.tested_rows import TestedRows


def with_tested(
    plan: Plan, paths: Sequence[str], *, model: str, format: str, bad: BadLines, label_weights: bool = False
) -> Plan:
    """Return the plan of a run that also predicts the rows of some files, which are read as `predict` reads them;
    `model` is the file of the trained model, for messages. Raises the errors of `predict`."""
    scorer, counts = scorer_of_plan(plan, model), Counts()
    pieces: list[Dataset] = []
    skipped, read = [np.empty(0, dtype=np.int64)], 0

    def work(piece: Piece) -> tuple[Dataset, NDArray[np.int64]]:
        return with_labels(scorer.prepared(piece.data), scorer), piece.skipped

    chunks = each_chunk(
        scorer,
        paths,
        work,
        format=format,
        threads=plan.settings.threads,
        counts=counts,
        bad=bad,
        stream=Stream(label_weights=label_weights),
    )
    for data, gaps in chunks:
        pieces.append(data)
        skipped.append(gaps + read)
        read += data.rows
        require_if_large(sum(piece.nbytes for piece in pieces), "reading the rows to predict", held=plan.held)
    if not pieces:
        raise BadInputError(f"{' and '.join(paths)}: there are no rows to predict")
    tested = TestedRows(scorer, concatenated(pieces), np.concatenate(skipped), counts, plan.settings.threads)
    return replace(plan, tested=tested)


def scorer_of_plan(plan: Plan, path: str) -> Scorer:
    """Return a scorer that reads rows for the model of a plan, and writes its predictions; the model file at `path`
    will have it."""
    meta = {"model": plan.spec.model, "options": plan.spec.values, "members": 1, **transform_entries(plan.transform)}
    return Scorer(Draws(plan.model), plan.transform, meta, path)


def with_labels(data: Dataset, scorer: Scorer) -> Dataset:
    """Return rows with the labels that the model's loss takes, NaN where there is none."""
    label = np.full(data.rows, np.nan)
    if data.label is not None and data.rows:
        known = scorer.labels.known(data.label)
        label[known] = scorer.labels.encode(data.label[known])
    return data.changed(label=label)
