"""The squared scores of all pairs of a context and an item, as a term of the objective of coordinate descent."""

import numpy as np

from fmcli.models.workspace import Workspace
from fmcli.solvers.coordinate.columns import by_feature, of_all

from fmcli.base.types cimport ColumnView, Sample, real
from fmcli.data.dataset cimport Dataset
from fmcli.models.model cimport ColumnModel, Model
from fmcli.models.workspace cimport Workspace as CWorkspace
from fmcli.solvers.coordinate.columns cimport Columns

cdef enum:
    CONTEXTS
    ITEMS
    ROWS_AT_ONCE = 1 << 16


cdef class AllPairs:
    """strength / 2 times the sum over all contexts c and all items i of s(c, i)^2.

    By the contract of Joined, a score is s(c, i) = t_c + t_i + <B_c, B_i>, with the sums B and the own score t of both
    parts. The terms that all scores have, such as the bias, count as features of every context. As a function of the
    context's (B_c, t_c), whose derivative in s(c, i) is q_i = (B_i, 1), the term of a context is the quadratic with

        curvature K <- strength sum_i q_i q_i^T        slope <- K (B_c, t_c) + strength sum_i t_i q_i

    K and the second summand are the same for all contexts, so an update of a feature visits the contexts that have the
    feature, and never the pairs (relation_rows.inl); items are updated likewise. (Bayer, He, Kanagal and Rendle, A
    Generic Coordinate Descent Framework for Learning from Implicit Feedback, 2017, for single coordinates.)

    Parameters
    ----------
    model : Model with `joined` and one score, allocated.
    contexts, items : Dataset, whose rows are the parts; no feature is in both.
    strength : what squared scores are multiplied by; see above.

    Attributes
    ----------
    now : of the contexts and the items: float64 (rows, width), (B, t) of each row as it is now.
    curvature, offset : of either: float64 (width, width) and (width), K and the second summand.
    """

    def __init__(self, Model model, Dataset contexts not None, Dataset items not None, double strength):
        cdef double[:, ::1] matrix
        cdef double[::1] numbers
        cdef int side
        self.joined = model.joined
        if self.joined is None or model.outputs > 1:
            raise ValueError("the model has no sums over parts of a sample, or several scores")
        if contexts.features != model.features or items.features != model.features:
            raise ValueError("contexts and items must have as many columns as the model")
        if (contexts.seen() & items.seen()).any():
            raise ValueError("contexts and items have a feature in common")
        self.contexts, self.items, self.strength = contexts, items, strength
        self.of_contexts, self.of_items = by_feature(contexts), by_feature(items)
        self.everyone = of_all(contexts.rows)
        self.width = (<ColumnModel>model).cache_size(contexts) + 1
        self.now = tuple([np.zeros((data.rows, self.width)) for data in (contexts, items)])
        self.curvature = tuple([np.zeros((self.width, self.width)) for _ in range(2)])
        self.offset = tuple([np.zeros(self.width) for _ in range(2)])
        for side in range(2):
            matrix = self.now[side]
            self.now_[side] = &matrix[0, 0] if matrix.shape[0] else NULL
            matrix, numbers = self.curvature[side], self.offset[side]
            self.curvature_[side], self.offset_[side] = &matrix[0, 0], &numbers[0]

    @staticmethod
    def bytes_needed(ColumnModel model not None, Dataset contexts not None, Dataset items not None):
        """Return the bytes of the rows as they are now, of their columns and of temporary products."""
        width = model.cache_size(contexts) + 1
        total = 4 * width * width + 2 * ROWS_AT_ONCE * width
        for data in (contexts, items):
            total += data.rows * width + data.nnz + data.features + 1
        return total * np.dtype(np.float64).itemsize

    def measure(self):
        """Compute (B, t) of all rows from the parameters; returns the value of the term."""
        self.require()
        cdef ColumnModel model = self.joined.model
        cdef CWorkspace workspace = Workspace(model, max(self.contexts.longest, self.items.longest))
        cdef Dataset data
        cdef Sample x
        cdef Py_ssize_t i, f, lanes = self.width - 1
        cdef int side
        cdef double* now
        cdef real[::1] sums = np.zeros(lanes + 1, dtype=np.float32 if sizeof(real) == 4 else np.float64)
        model.require()
        for side in range(2):
            data = self.items if side == ITEMS else self.contexts
            with nogil:
                for i in range(data.rows):
                    data.sample(i, &x)
                    now = self.now_[side] + i * self.width
                    if side == ITEMS:
                        now[lanes] = self.joined.part(&x, 0, &sums[0])
                    else:
                        model.score(&x, &workspace.scratch)
                        now[lanes] = workspace.scratch.score[0]
                        model.fill_cache(&x, &workspace.scratch, 0, &sums[0])
                    for f in range(lanes):
                        now[f] = sums[f]
        return self.value()

    def value(self):
        """Return the value of the term, given the rows as they are now."""
        self.require()
        self.enter(CONTEXTS)
        total = self.strength * len(self.now[CONTEXTS]) * np.sum(self.now[ITEMS][:, -1] ** 2)
        for begin in range(0, len(self.now[CONTEXTS]), ROWS_AT_ONCE):
            some = self.now[CONTEXTS][begin:begin + ROWS_AT_ONCE]
            total += np.sum((some @ self.curvature[CONTEXTS] + 2 * self.offset[CONTEXTS]) * some)
        return float(total) / 2

    def enter(self, int side):
        """Compute what the rows of a side share, before its features are updated: 0 for contexts, 1 for items."""
        self.require()
        if not 0 <= side < 2:
            raise IndexError("there are two sides")
        curvature, offset, others = self.curvature[side], self.offset[side], self.now[1 - side]
        curvature[...], offset[...] = 0, 0
        for begin in range(0, len(others), ROWS_AT_ONCE):
            some = others[begin:begin + ROWS_AT_ONCE]
            with_one = some.copy()
            with_one[:, -1] = 1
            curvature += with_one.T @ with_one
            offset += some[:, -1] @ with_one
        curvature *= self.strength
        offset *= self.strength

    def of_side(self, int side, order):
        """Return the features that rows of a side have, out of these features."""
        self.require()
        cdef Columns columns = self.of_items if side == ITEMS else self.of_contexts
        return order[np.diff(columns.indptr)[order] > 0]

    # ValueError if the object was not initialized.
    cdef require(self):
        if self.joined is None:
            raise ValueError("the term was not initialized")

    # Set the rows that a row of parameters enters: the rows of its feature, or else all contexts. Returns their side.
    cdef int view(self, bint of_feature, ColumnView* v) noexcept nogil:
        cdef int side = CONTEXTS
        if of_feature:
            self.of_contexts.view(v.row, v)
            if not v.n:
                side = ITEMS
                self.of_items.view(v.row, v)
        else:
            self.everyone.view(v.row, v)
        v.sample_states, v.sample_state_size = <char*>self.now_[side], self.width * sizeof(double)
        return side
