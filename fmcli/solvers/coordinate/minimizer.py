"""Coordinate descent: epochs over rows of parameters, in as many threads as rows permit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain, pairwise
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from fmcli.base.state_dict import require_names, whole_number
from fmcli.data.dataset import Dataset
from fmcli.losses.loss import Logistic, SoftLogistic
from fmcli.models.layout import BlockLayout
from fmcli.models.model import Model
from fmcli.models.parameters import Parameters
from fmcli.models.workspace import Workspace
from fmcli.solvers.coordinate.columns import Columns, most_entries
from fmcli.solvers.coordinate.descent import Descent
from fmcli.solvers.coordinate.large_row import LargeRowUpdater
from fmcli.solvers.coordinate.relation_rows import RelationRows
from fmcli.solvers.coordinate.update import CoordinateUpdater
from fmcli.solvers.full_batch.objective import Objective
from fmcli.solvers.minimizer import Minimizer
from fmcli.solvers.trainer import RunState
from fmcli.system.parallel import Pool, pool_of

# Entries between two checks of the clock, some 30 ms of work; and the least entries of a conflict-free set that is
# worth sharing among threads.
ENTRIES_A_TASK, ENTRIES_TO_SHARE = 1 << 21, 1 << 13
# The least entries of a row that all threads update together.
ENTRIES_OF_LARGE_ROW = 1 << 17
# Rows whose lengths are compared at a time.
ROWS_AT_ONCE = 1 << 16
# The features of a relation are updated in the order of all features if that takes at most this number of runs, or at
# most this number of visits of rows: a tenth of a second.
FEW_RUNS, FEW_VISITS = 4, 1 << 20
# Samples whose losses are summed in one slice; the slices are added in order, so the sum does not depend on the
# number of threads.
SAMPLES_A_TASK = 1 << 14
# Bytes that a row takes in a sweep, its number; and temporary ones while the sweep is made, where its entries and
# conflict-free sets begin.
BYTES_A_ROW, BYTES_BEING_MADE = 4, 12


T = TypeVar("T")


class Chunk(NamedTuple):
    """Rows order[begin:end] of a block, to be updated one after the other, or, if no two of them enter the same sample,
    at once. A row with very many samples (`large`) is alone, and updated by all threads.

    entries : how many entries the rows up to the last of these have.
    bounds : of rows that are updated at once, where the slices of the threads begin, and the last one ends.
    """

    begin: int
    end: int
    entries: int
    bounds: tuple[int, ...] = ()
    large: bool = False


class Sweep(NamedTuple):
    """A block's rows that enter samples, or rows of a relation, in the order of updates.

    order : int32, the rows.
    entries : how many entries they have.
    related : the rows of the relation; None: the rows enter samples themselves.
    """

    order: NDArray[np.int32]
    entries: int
    chunks: list[Chunk]
    related: RelationRows | None = None


class CoordinateDescent(Minimizer):
    """Cyclic descent on the mean loss plus penalty, as CoordinateUpdater states it.

    Threads share sets of rows that enter no sample in common, such as the rows of one field of one-hot features.
    """

    updaters: Sequence[CoordinateUpdater]
    samples_a_task = SAMPLES_A_TASK
    done = False  # whether another epoch would change nothing

    def prepare(self, by_gradient: bool = False) -> None:
        """Allocate the states of samples; `by_gradient` : see Descent.

        An update has few epochs, by default one: if events are rare, steps by the largest curvature of the logistic
        loss would be a small share of the information in its rows.
        """
        holds, pulls = (self.hold.holds, self.hold.pulls) if self.hold else (None, None)
        varies = isinstance(self.loss, Logistic | SoftLogistic)
        self.descent = Descent(
            self.model,
            self.loss,
            self.penalty,
            self.data,
            by_gradient=by_gradient,
            holds=holds,
            pulls=pulls,
            exact=varies and self.hold is not None and not self.data.relations,
        )
        self._begin()

    def _begin(self) -> None:
        """Lay out the sweeps, and then make the updaters of all threads, which allocate the states of samples."""
        self.ended, self.blocks = 0, blocks_in_order(self.model, held=self.hold is not None)
        self.entered = [number for number in self.blocks if self.is_entered(self.model.layout[number])]
        self.sweeps: dict[int, list[Sweep]] = {}
        self._lay_out(self.blocks)
        self.updaters = [self._updater() for _ in range(self.threads)]
        self.large_rows = LargeRowUpdater(self.updaters)

    def _lay_out(self, blocks: Sequence[int]) -> None:
        """Lay out the sweeps of some blocks."""
        self.sweeps.update({number: self._sweeps(number) for number in blocks})
        self.entries = sum(sweep.entries for sweeps in self.sweeps.values() for sweep in sweeps)

    @property
    def reported_rows(self) -> int:
        """The rows that an epoch reports as progress."""
        return self.data.rows

    def _updater(self) -> CoordinateUpdater:
        """Return the updater of a thread."""
        return CoordinateUpdater(self.descent)

    @staticmethod
    def bytes_needed(model: Model, data: Dataset, threads: int, epochs: int) -> int:
        """Return bytes that the states of samples, the columns, the sweeps and the threads' workspaces take."""
        rows = [layout.rows(model.features) for layout in model.layout]
        most = [min(pair) for pair in zip(rows, most_entries(model, data), strict=True)]  # that enter samples
        updates = sum(entered for entered, layout in zip(most, model.layout, strict=True) if layout.trained)
        taken = data.rows  # a byte for each sample, whether a set has it
        sweeps = BYTES_A_ROW * updates + BYTES_BEING_MADE * max(most) + taken
        workspaces = threads * Workspace.bytes_needed(model, data.longest)
        return Descent.bytes_needed(model, data) + sweeps + workspaces

    def _sweeps(self, number: int) -> list[Sweep]:
        """Return the sweep of a block of parameters; if its rows belong to features, and there are relations, several
        sweeps, which together are in the order of the features where that is cheap."""
        sources: list[tuple[Columns, int, RelationRows | None]] = [(self.descent.columns[number], self.data.rows, None)]
        if self.model.layout[number].by_feature:
            sources += [(rows.columns, rows.data.rows, rows) for rows in self.descent.related]
        orders = [self._order(number, columns) for columns, _, _ in sources]
        runs = in_runs(orders, self.data.rows)
        return [self._sweep(number, order, *sources[source]) for source, order in runs] or [
            self._sweep(number, orders[0], *sources[0])
        ]

    def _order(self, number: int, columns: Columns) -> NDArray[np.int32]:
        """Return the rows of a block to update, in their order: rows that enter samples, and rows whose minimum under
        the quadratic prior is elsewhere."""
        order = self.descent.order(number, columns)
        if self.hold is None or not self.hold.moves_all or self.descent.related:
            return order
        places = Objective(self.hold.holds, self.loss, self.data)
        held, (where, _, width) = np.empty(places.size), places.places(number)
        places.read(held)
        moves = np.asarray(held[where].reshape(self.model.outputs, -1, width).any(axis=(0, 2)))
        moves[order] = True
        return np.flatnonzero(moves).astype(np.int32)

    def _sweep(
        self, number: int, order: NDArray[np.int32], columns: Columns, samples: int, related: RelationRows | None
    ) -> Sweep:
        """Return the sweep over rows of a block in this order."""
        ends, each = self._ends(number, order, columns), rows_of_feature(self.model, number)
        sets = None if self.threads == 1 else columns.conflict_free_sets(order, samples, each)
        return Sweep(order, int(ends[-1]), list(self._chunks(ends, sets, order, each)), related)

    def _ends(self, number: int, order: NDArray[np.int32], columns: Columns) -> NDArray[np.int64]:
        """Return what Columns.ends returns: it tells how the work is shared among chunks and threads."""
        return columns.ends(order)

    def _chunks(
        self, ends: NDArray[np.int64], sets: NDArray[np.int32] | None, order: NDArray[np.int32], each: int
    ) -> Iterator[Chunk]:
        """Yield rows in chunks of a task's size, and large rows. ends : of `Columns.ends`; sets : of
        `Columns.conflict_free_sets`."""
        done, rows = 0, len(ends) - 1
        for large in [*large_rows(ends), rows]:
            for chunk in self._chunks_between(ends, done, large, sets):
                yield chunk._replace(bounds=between_features(chunk.bounds, order, each))
            if large < rows:
                yield Chunk(large, large + 1, int(ends[large + 1]), large=True)
            done = large + 1

    def _chunks_between(
        self, ends: NDArray[np.int64], done: int, stop: int, sets: NDArray[np.int32] | None
    ) -> Iterator[Chunk]:
        """Yield the chunks of the rows from `done` to `stop`; no row is large."""
        bounds = [] if sets is None else chain([done], map(int, sets[(done < sets) & (sets < stop)]), [stop])
        for begin, end in pairwise(bounds):
            if ends[end] - ends[begin] >= ENTRIES_TO_SHARE and end - begin > 1:
                yield from cut(ends, done, begin)
                for chunk in cut(ends, begin, end, self.threads):
                    yield chunk._replace(bounds=tuple(equal_slices(ends, chunk.begin, chunk.end, self.threads)))
                done = end
        yield from cut(ends, done, stop)

    def run(self, epochs: int, after: Callable[[float, float], bool]) -> None:
        self.model.end_epoch()  # by now it is known which rows enter samples at all
        with pool_of(self.threads) as pool:
            self.objective(pool)
            while self.ended < epochs:
                self.epoch(pool, self.ended + 1)
                self.ended += 1
                self.model.end_epoch()
                reached = self._step_apart(pool)
                if self.penalty.end_epoch():
                    self.descent.load_strengths()
                    reached = None
                # This recomputes all scores and caches, too, so the next epoch starts without rounding errors.
                if after(*(reached or self.objective(pool))) or self.done:
                    break

    def _step_apart(self, pool: Pool) -> tuple[float, float] | None:
        """Update the parameters that are in no block; returns the mean loss and the penalty, None without any."""
        reached = 0.0, 0.0

        def objective() -> float:
            nonlocal reached
            reached = self.objective(pool)
            return sum(reached)

        anchored = self.model.anchored
        if self.hold or not (anchored and anchored.learned):
            return None
        if anchored.step_apart([self.data], self.loss, objective):
            self._recompute_sweeps()
        return reached

    def _recompute_sweeps(self) -> None:
        """Recompute which samples enter which rows, where the model chooses the rows."""
        selected = [number for number in self.blocks if self.model.layout[number].touched == "selected"]
        for number in selected:
            del self.sweeps[number]  # which has columns
        self.descent.recompute_columns()
        self._lay_out(selected)

    def state(self) -> RunState:
        """Return scores and caches do not belong to it, because they are recomputed after each epoch."""
        return {"ended": np.array(self.ended)}

    def load_state(self, state: RunState, epochs: int) -> None:
        require_names(state, CoordinateDescent.state(self))
        self.ended = whole_number(state, "ended", epochs, epochs)
        self._recompute_sweeps()

    def objective(self, pool: Pool) -> tuple[float, float]:
        """Return (mean loss, penalty) of the parameters as they are."""
        for rows in self.descent.related:
            self._by_slices(pool, rows.data.indptr, lambda _, *bounds, rows=rows: rows.measure(*bounds))
        loss = sum(self._by_samples(pool, CoordinateUpdater.measure))
        return loss, self._penalty_value()

    def _penalty_value(self) -> float:
        return self.descent.penalty_value() + (self.hold.constant if self.hold else 0)

    def _by_samples(self, pool: Pool, work: Callable[[Any, int, int], T]) -> list[T]:
        """Run `work(updater, start, stop)` on consecutive slices of the samples; return the results in order."""
        rows, each = self.data.rows, self.samples_a_task
        starts = range(0, rows, each)
        found = list[Any]([None]) * len(starts)

        def some(thread: int) -> None:
            for task in range(thread, len(starts), self.threads):
                found[task] = work(self.updaters[thread], starts[task], min(starts[task] + each, rows))

        list(pool.map(some, range(self.threads)))
        return found

    def epoch(self, pool: Pool, epoch: int) -> None:
        """Update every row once."""
        done = 0
        entries = self.model.outputs * self.entries
        for output in range(self.model.outputs):
            for number, sweeps in self.sweeps.items():
                if number in self.entered:
                    self._enter(number)
                for sweep in sweeps:
                    self._begin_sweep(pool, number, output, sweep)
                    for chunk in sweep.chunks:
                        self._update(pool, number, output, sweep, chunk)
                        self.on_rows(epoch, (done + chunk.entries) * self.reported_rows // entries)
                    if sweep.related:
                        self._for_related(pool, CoordinateUpdater.leave, number, output, sweep.related)
                    done += sweep.entries

    def _begin_sweep(self, pool: Pool, number: int, output: int, sweep: Sweep) -> None:
        """Prepare for the updates of a sweep."""
        if sweep.related:
            self._for_related(pool, CoordinateUpdater.enter, number, output, sweep.related)

    def _for_related(self, pool: Pool, work: Callable[..., None], number: int, output: int, rows: RelationRows) -> None:
        """Enter or leave the rows of a relation."""
        self._by_slices(
            pool,
            rows.samples.indptr,
            lambda thread, *bounds: work(self.updaters[thread], number, output, rows, *bounds),
        )

    def _by_slices(self, pool: Pool, ends: NDArray[np.int64], work: Callable[[int, int, int], None]) -> None:
        """Call `work` for each thread and its slice of some rows, with about as many entries each; row i has the
        entries ends[i] .. ends[i + 1] - 1."""
        bounds = equal_slices(ends, 0, len(ends) - 1, self.threads)
        list(pool.map(lambda thread: work(thread, bounds[thread], bounds[thread + 1]), range(self.threads)))

    @staticmethod
    def is_entered(layout: BlockLayout) -> bool:
        """Return whether updates of the rows of a block need `_enter`."""
        return layout.role == "kernel weights"

    def _enter(self, number: int) -> None:
        """Prepare for updates of the rows of a block."""
        self.descent.recompute_kernel_norms()

    def _update(self, pool: Pool, number: int, output: int, sweep: Sweep, chunk: Chunk) -> None:
        if chunk.large:
            self.large_rows.run(
                number,
                output,
                sweep.order[chunk.begin],
                lambda work: list(pool.map(work, range(self.threads))),
                sweep.related,
            )
            return
        if not chunk.bounds:
            self.updaters[0].run(number, output, sweep.order, chunk.begin, chunk.end, sweep.related)
            return
        bounds = chunk.bounds

        def run(thread: int) -> None:
            self.updaters[thread].run(number, output, sweep.order, bounds[thread], bounds[thread + 1], sweep.related)

        list(pool.map(run, range(self.threads)))


def blocks_in_order(model: Parameters, *, held: bool = False) -> list[int]:
    """Return the blocks to train, except for simplexes if parameters are `held`, in the order of updates: fitted
    weights of kernels come before the factors, so their start values do not decide their final signs ([PN] 9.1).

    At the start of an epoch the caches are exact, too, which these weights need: if a kernel has vanished, later in an
    epoch its cache holds rounding errors only, and nothing limits a step along them.
    """
    layouts = enumerate(model.layout)
    moved = [number for number, layout in layouts if layout.trained and not (held and layout.constraint)]
    return sorted(moved, key=lambda number: model.layout[number].role != "kernel weights")


def rows_of_feature(model: Parameters, number: int) -> int:
    """Return how many rows of a block follow each other that belong to the same feature."""
    layout = model.layout[number]
    return max(1, layout.rows_each) if layout.by_feature else 1


def between_features(bounds: tuple[int, ...], order: NDArray[np.int32], each: int) -> tuple[int, ...]:
    """Return bounds of slices of rows that do not separate the rows of a feature, which enter the same samples."""

    def moved(place: int) -> int:
        while bounds[0] < place < bounds[-1] and order[place] // each == order[place - 1] // each:
            place += 1
        return place

    return tuple(map(moved, bounds))


def large_rows(ends: NDArray[np.int64]) -> Iterator[int]:
    """Yield the rows that all threads update together; few differences are in memory at a time."""
    for begin in range(0, len(ends), ROWS_AT_ONCE):
        lengths = np.diff(ends[begin : begin + ROWS_AT_ONCE + 1])
        yield from (begin + (lengths >= ENTRIES_OF_LARGE_ROW).nonzero()[0]).tolist()


def in_runs(orders: list[NDArray[np.int32]], rows: int) -> list[tuple[int, NDArray[np.int32]]]:
    """Return (source, features) runs of features of one source, in the order of updates. orders[0] has the
    features of the rows themselves, each other order the features of a relation, all increasing.

    A run of a relation costs two passes over the rows. If the passes are few, or the rows, updates are in the order of
    the features, as for the joined rows. Otherwise the relation has a single run.
    """
    if len(orders) == 1:
        return [(0, orders[0])]
    source = np.repeat(np.arange(len(orders)), [len(order) for order in orders])

    def runs(places: list[NDArray[np.int32]]) -> list[tuple[int, NDArray[np.int32]]]:
        order = np.argsort(np.concatenate(places), kind="stable")
        features, owners = np.concatenate(orders)[order], source[order]
        starts = np.flatnonzero(np.diff(owners, prepend=-1))
        return list(zip(owners[starts].tolist(), np.split(features, starts[1:]), strict=True)) if len(starts) else []

    count = np.bincount([owner for owner, _ in runs(orders)], minlength=len(orders))
    whole = (count > FEW_RUNS) & (count * rows > FEW_VISITS)
    whole[0] = False  # the rows themselves are not visited for a run of theirs
    return runs([np.full_like(order, order[0]) if one else order for order, one in zip(orders, whole, strict=True)])


def cut(ends: NDArray[np.int64], begin: int, end: int, threads: int = 1) -> Iterator[Chunk]:
    """Yield rows begin:end in chunks of a task's entries for each thread, or few more; the entries of row j begin at
    ends[j]."""
    while begin < end:
        stop = min(end, max(begin + 1, int(np.searchsorted(ends, ends[begin] + ENTRIES_A_TASK * threads))))
        yield Chunk(begin, stop, int(ends[stop]))
        begin = stop


def equal_slices(ends: NDArray[np.int64], begin: int, end: int, threads: int) -> list[int]:
    """Return where slices of rows begin:end with about as many entries each begin, one for each thread, and `end`."""
    first, last = ends[begin], ends[end]
    inner = first + (last - first) * np.arange(threads) // threads
    return [*(begin + np.searchsorted(ends[begin:end], inner)).tolist(), end]
