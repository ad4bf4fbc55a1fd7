"""Folding in: a model in memory learns the new features of some labeled rows, to score rows that have them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from fmcli.data.labels import NUMBERS
from fmcli.data.text.reader import read, read_unlabeled
from fmcli.data.text.sources import name_of
from fmcli.errors import NothingNewError
from fmcli.model_file.container import ModelFile
from fmcli.model_file.state import STATE
from fmcli.records import dataclass
from fmcli.registry.models import MODELS
from fmcli.scoring.scorer import Scorer, scorer_of
from fmcli.training.growth import grown_file
from fmcli.training.planning import prepare
from fmcli.training.saving import warm_start_of
from fmcli.training.setup.observed import observed
from fmcli.training.setup.rows import Rows, RowsInMemory
from fmcli.training.setup.settings import Settings
from fmcli.training.several.learning import learn


@dataclass(frozen=True)
class FoldedIn:
    """A model that has learned new features, how many they are, and the number of the rows that have them."""

    scorer: Scorer
    features: int
    rows: int


def fold_in(path: str, file: ModelFile, rows: Rows, threads: int = 1) -> FoldedIn:
    """Return the model in a file, whose path is for messages, with the new features of labeled rows: as `train -i PATH
    --only-new` learns them, without the state of its solver. Its arrays are copied.

    Raises the errors of WarmStart.of_new_features and of `train`.
    """
    tensors = {name: array for name, array in file.tensors.items() if not name.startswith(f"{STATE}.")}
    warm_start = warm_start_of(path, replace(file, meta={**file.meta, "slots": None}, tensors=tensors), only_new=True)
    settings = Settings.of(warm_start.of_new_features({}), warm_start=warm_start, only_new=True, threads=threads)
    try:
        plan = prepare(settings, rows)
    except NothingNewError:
        return FoldedIn(scorer_of(path, file), 0, 0)
    grown = grown_file(learn(plan))
    assert plan.new_features is not None
    features = int(np.count_nonzero(plan.new_features.features))
    return FoldedIn(scorer_of(path, grown), features, len(plan.new_features.rows))


def fold_in_files(
    scorer: Scorer,
    file: ModelFile,
    paths: Sequence[str],
    format: str = "auto",
    threads: int = 1,
    joined: Mapping[str, str] | None = None,
) -> FoldedIn:
    """Return a model with the new features of the labeled rows, or observed pairs, in files, which may be tables if the
    model's rows were, with others that are `joined` by column.

    Raises the errors of `read` and of `fold_in`.
    """
    kind, options = MODELS[scorer.meta["model"]], scorer.meta["options"]
    known = scorer.known
    inputs = scorer.tables(paths, joined, fields=known is not None) if format == "auto" else paths
    if known is not None:
        pairs = read_unlabeled(inputs, format=format, threads=threads).dataset
        rows = observed(pairs, name_of(inputs[0]), known.terms, scorer.table)
        return fold_in(scorer.path, file, rows, threads)
    table = read(
        inputs,
        format=format,
        keep_fields=kind.needs_fields(options),
        compact=kind.compact,
        threads=threads,
        labels=scorer.labels.names,
        hash_bits=scorer.transform.hash_bits,
    )
    return fold_in(scorer.path, file, RowsInMemory.of(table.dataset, table.labels or NUMBERS, known=True), threads)
