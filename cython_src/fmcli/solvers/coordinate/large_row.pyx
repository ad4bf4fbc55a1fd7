"""The update of coordinate descent for a row that affects very many samples, by several threads."""

import numpy as np

from fmcli.base.denormals cimport FloatingMode, flush_denormals, return_to_mode
from fmcli.base.types cimport ColumnView
from fmcli.solvers.coordinate.relation_rows cimport RelationRows
from fmcli.solvers.coordinate.columns cimport Columns
from fmcli.solvers.coordinate.update cimport CoordinateUpdater


cdef class LargeRowUpdater:
    """Updates a row as CoordinateUpdater does, with the updaters of all threads.

    The derivatives of the samples are summed in slices of a fixed size, `summed_apart`, and the slices are added in
    order, so the sums do not depend on the number of threads.

    Parameters
    ----------
    team : updaters of one Descent, one for each thread.
    """

    cdef list team
    cdef CoordinateUpdater first
    cdef ColumnView view
    cdef double[:, ::1] sums  # of the slices

    def __init__(self, team):
        if not team or any([(<CoordinateUpdater?>member).descent is not (<CoordinateUpdater>team[0]).descent
                            for member in team]):
            raise ValueError("the updaters must be of one Descent")
        self.team, self.first, self.sums = list(team), team[0], np.zeros((0, 1))

    def run(self, int block, int output, Py_ssize_t row, each, RelationRows related=None):
        """Update one row of a block and class, as CoordinateUpdater.run does. `each` calls a function with the numbers
        0 .. len(team) - 1, each in a thread of its own.

        A row whose steps may have to be shortened is updated by the first updater alone.
        """
        cdef ColumnView* v = &self.view
        cdef CoordinateUpdater first = self.first, member
        cdef Columns columns
        cdef Py_ssize_t at, width, size
        if first is None:
            raise ValueError("there are no updaters")
        first.require()
        if first.by_column is None or not first.descent.bounded:
            first.run(block, output, np.array([row], dtype=np.int32), 0, 1)
            return
        if not (0 <= block < first.model.n_blocks and 0 <= output < first.model.outputs
                and 0 <= row < first.model.block[block].rows):
            raise IndexError("no such row")
        for member in self.team:
            member.visit(block, output, related)
        first.begin_view(block, output, v)
        v.row = row
        columns = first.descent.columns[block] if related is None else related.columns
        columns.view(row, v)
        first.select_row(v)
        size = first.summed_apart
        while first.next_slice(v):
            if not first.affine():
                first.update_slice(v)
                continue
            first.load(v)
            width = first.quadratic.width
            self.sums = np.zeros(((v.n + size - 1) // size, 1 + width + width * width))
            for member in self.team[1:]:
                member.follow(first)
            each(self.sum_slices)
            first.quadratic.clear()
            for at in range(self.sums.shape[0]):
                first.quadratic.add(&self.sums[at, 0])
            first.quadratic.complete()
            first.add_holds(v)
            first.solve(v)
            if first.round_step(v):
                for member in self.team[1:]:
                    member.follow(first)
                each(self.apply_slices)
                first.take_step(v)
        self.sums = np.zeros((0, 1))

    # An updater of the team.
    cdef CoordinateUpdater member(self, Py_ssize_t number):
        if self.team is None or not 0 <= number < len(self.team):
            raise IndexError("there is no such updater")
        return self.team[number]

    def sum_slices(self, Py_ssize_t number):
        """Compute one updater's share of the sums: every len(team)-th slice."""
        cdef CoordinateUpdater member = self.member(number)
        cdef Py_ssize_t at = number, threads = len(self.team), size = member.summed_apart
        cdef FloatingMode mode
        with nogil:
            mode = flush_denormals()
            while at < self.sums.shape[0]:
                member.quadratic.clear()
                member.bound_loss(&self.view, at * size, min((at + 1) * size, self.view.n))
                member.quadratic.save(&self.sums[at, 0])
                at += threads
            return_to_mode(mode)

    def apply_slices(self, Py_ssize_t number):
        """Apply the step to the scores and caches of one updater's share of the samples."""
        cdef CoordinateUpdater member = self.member(number)
        cdef Py_ssize_t at = number, threads = len(self.team), size = member.summed_apart
        cdef FloatingMode mode
        with nogil:
            mode = flush_denormals()
            while at < self.sums.shape[0]:
                member.apply_step(&self.view, at * size, min((at + 1) * size, self.view.n))
                at += threads
            return_to_mode(mode)
