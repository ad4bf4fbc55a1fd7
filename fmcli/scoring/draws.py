"""The scores of several draws of a model's parameters, several draws per pass over the rows if that is faster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from fmcli.data.dataset import Dataset
from fmcli.models.fm import FM
from fmcli.models.model import Model
from fmcli.scoring.interleaved import DRAWS_TOGETHER, InterleavedFM
from fmcli.scoring.rows import ROWS_A_TASK, score_rows
from fmcli.system.parallel import in_parallel

Floats = NDArray[np.float64]

# The largest rank of factors to interleave: rows of higher rank fill cache lines anyway.
MOST_RANK = 16


class Draws:
    """Models of equal shapes; the last may be the only one."""

    def __init__(self, models: Sequence[Model]) -> None:
        self.models = models
        self.interleaved = len(models) > 1 and can_interleave(models[0])
        self._made: list[InterleavedFM] = []

    @property
    def bytes(self) -> int:
        """The size of the interleaved copies of their parameters."""
        return interleaved_bytes(self.models[0], len(self.models))

    def _groups(self) -> list[Sequence[Model]]:
        return [self.models[at : at + DRAWS_TOGETHER] for at in range(0, len(self.models), DRAWS_TOGETHER)]

    def interleave(self) -> None:
        """Make the interleaved copies, unless they exist or are useless. The first call of `scores` also makes them,
        but must then not run in several threads."""
        if self.interleaved and not self._made:
            self._made = [interleave(group) for group in self._groups()]

    def scores(self, data: Dataset, threads: int = 1, rows: NDArray[np.int32] | None = None) -> Iterator[Floats]:
        """Yield the scores (rows, outputs) of all rows, or of the rows with these indices, by each model."""
        if not self.interleaved or data.relations:  # a relation's rows are scored once for each model
            for model in self.models:
                yield score_rows(model, data, threads, rows)
            return
        self.interleave()
        for group in self._made:
            yield from group_scores(group, data, threads, rows)


def can_interleave(model: Model) -> bool:
    """Return whether a model is a factorization machine of one score and a small rank."""
    one_score = model.outputs == 1 and not model.cutpoints
    return type(model) is FM and one_score and model.shapes()["V"][-1] <= MOST_RANK


def interleaved_bytes(model: Model, draws: int) -> int:
    """Return the size in bytes of the copies that `Draws` interleaves for this number of draws."""
    if draws < 2 or not can_interleave(model):
        return 0
    groups, rest = divmod(draws, DRAWS_TOGETHER)
    rank = model.shapes()["V"][-1]
    last = InterleavedFM.bytes_needed(model.features, rank, rest) if rest else 0
    return groups * int(InterleavedFM.bytes_needed(model.features, rank, DRAWS_TOGETHER)) + last


def interleave(models: Sequence[Model]) -> InterleavedFM:
    """Return the parameters of some factorization machines, interleaved."""
    parameters = [model.parameters for model in models]
    weights = [each["w"][0] for each in parameters] if "w" in parameters[0] else None
    bias = [float(each["bias"][0]) if "bias" in each else 0.0 for each in parameters]
    return InterleavedFM([each["V"][0] for each in parameters], weights, bias)


def group_scores(group: InterleavedFM, data: Dataset, threads: int, rows: NDArray[np.int32] | None) -> Iterator[Floats]:
    """Yield the scores (rows, 1) of each draw of a group."""
    count = data.rows if rows is None else len(rows)
    out = np.empty((group.draws, count))
    in_parallel(
        lambda start: group.scores(data, start, min(start + ROWS_A_TASK, count), out, rows),
        range(0, count, ROWS_A_TASK),
        threads,
    )
    for score in out:
        yield score[:, None]
