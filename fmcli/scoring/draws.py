"""The scores of several draws of a model's parameters, several draws per pass over the rows if that is faster."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fmcli.data.dataset import Dataset
from fmcli.data.numbering import occurring
from fmcli.models.kept import HALF, widened
from fmcli.models.layout import REAL_TYPE
from fmcli.models.model import Model
from fmcli.models.second_order.fm import FM
from fmcli.scoring.interleaved import DRAWS_TOGETHER, InterleavedFM
from fmcli.scoring.rows import ROWS_A_TASK, score_rows
from fmcli.system.parallel import in_parallel

Floats = NDArray[np.float64]
Columns = NDArray[np.int32]
# The arrays that a draw has changed, by their names in Model.parameters.
Draw = Mapping[str, NDArray[Any]]

# The largest rank of factors to interleave: rows of higher rank fill cache lines anyway.
MOST_RANK = 16


class Draws:
    """A model, and earlier draws of its parameters or other members of its ensemble.

    Some draws at a time are copied to score rows, if they are interleaved, or kept in 16 bits; of few rows, only the
    parameters of their features. All copies together would take two or three times the bytes of a model file.

    model : the model with the parameters of the last draw.
    earlier : the arrays of each earlier draw.
    make : returns a model of this kind with a number of features, without arrays.
    """

    def __init__(self, model: Model, earlier: Sequence[Draw] = (), make: Callable[[int], Model] | None = None) -> None:
        self.model, self._earlier, self._make = model, earlier, make
        self.halved = any(array.dtype == HALF for draw in earlier for array in draw.values())
        self.interleaved = bool(earlier) and can_interleave(model)

    def __len__(self) -> int:
        return 1 + len(self._earlier)

    def __iter__(self) -> Iterator[Model]:
        """Yield a model for each draw."""
        yield from self._made(None) if self.halved else self._whole
        yield self.model

    @cached_property
    def bytes(self) -> int:
        """The size of the copies that are in memory at the same time."""
        return copied_bytes(self.model, len(self)) if self.interleaved or self.halved else 0

    @cached_property
    def _whole(self) -> list[Model]:
        """The models of earlier draws, which have no copies of the parameters."""
        return list(self._made(None))

    def _made(self, columns: Columns | None) -> Iterator[Model]:
        """Yield models of the earlier draws with all features, or with some columns."""
        if not self._earlier:
            return
        assert self._make is not None
        own = {**self.model.parameters, **self.model.constants}
        shared = {name: self._attached(name, own[name], columns) for name in own.keys() - self._earlier[0].keys()}
        for draw in self._earlier:
            model = self._make(self.model.features if columns is None else len(columns))
            model.absent = self.model.absent
            model.attach({**shared, **{name: self._attached(name, array, columns) for name, array in draw.items()}})
            yield model

    def _attached(self, name: str, array: NDArray[Any], columns: Columns | None) -> NDArray[Any]:
        """Return an array as models attach it, of some columns if it has numbers for each feature."""
        axis = None if columns is None else self.model.feature_axis(name)
        if array.dtype == HALF:
            return widened(array) if axis is None else widened(array, axis, columns)
        return np.ascontiguousarray(array) if axis is None else array.take(columns, axis)  # type: ignore[arg-type]

    @cached_property
    def _groups(self) -> list[InterleavedFM]:
        """The draws that are interleaved, DRAWS_TOGETHER in each group."""
        every: list[Draw] = [*self._earlier, self.model.parameters]
        return [interleaving(every[at : at + DRAWS_TOGETHER]) for at in range(0, len(every), DRAWS_TOGETHER)]

    def scores(self, data: Dataset, threads: int = 1, rows: NDArray[np.int32] | None = None) -> Iterator[Floats]:
        """Yield the scores (rows, outputs) of all rows, or of the rows with these indices, by each draw."""
        if not (self.interleaved or self.halved) or data.relations:  # each row of a relation is scored once for a draw
            yield from (score_rows(model, data, threads, rows) for model in self)
            return
        few: Dataset = data
        columns: Columns | None = None
        if data.nnz < self.model.features and all(one.by_feature or one.touched == "all" for one in self.model.layout):
            some = occurring(data.index, data.features)
            few, columns = data.changed(numbering=None).renumbered(some), some.ids
        if self.interleaved:
            copies = None
            for group in self._groups:
                copies = group.interleaved(columns, copies)
                yield from group_scores(group, copies, few, threads, rows)
            return
        yield from (score_rows(model, few, threads, rows) for model in self._made(columns))
        yield score_rows(self.model, data, threads, rows)


def can_interleave(model: Model) -> bool:
    """Return whether a model is a factorization machine of one score and a small rank."""
    one_score = model.outputs == 1 and not model.cutpoints
    return type(model) is FM and one_score and model.shapes()["V"][-1] <= MOST_RANK


def copied_bytes(model: Model, draws: int) -> int:
    """Return the size of the copies of parameters that `Draws` makes at a time, at most."""
    if draws > 1 and can_interleave(model):
        rank = model.shapes()["V"][-1]
        return int(InterleavedFM.bytes_needed(model.features, rank, min(draws, DRAWS_TOGETHER)))
    return REAL_TYPE.itemsize * model.parameter_count if draws > 1 else 0


def interleaving(draws: Sequence[Draw]) -> InterleavedFM:
    """Return some draws of a factorization machine, which can be interleaved."""
    weights = [each["w"][0] for each in draws] if "w" in draws[0] else None
    bias = [float(each["bias"][0]) if "bias" in each else 0.0 for each in draws]
    return InterleavedFM([each["V"][0] for each in draws], weights, bias)


def group_scores(
    group: InterleavedFM, copies: NDArray[Any], data: Dataset, threads: int, rows: NDArray[np.int32] | None
) -> Iterator[Floats]:
    """Yield the scores (rows, 1) of each draw of a group, given interleaved copies of it."""
    count = data.rows if rows is None else len(rows)
    out = np.empty((group.draws, count))
    in_parallel(
        lambda start: group.scores(copies, data, start, min(start + ROWS_A_TASK, count), out, rows),
        range(0, count, ROWS_A_TASK),
        threads,
    )
    for score in out:
        yield score[:, None]
