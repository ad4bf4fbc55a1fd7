"""Bilinear regression: interactions between two groups of features, for example users and items."""

import numpy as np

from fmcli.models.layout import BlockLayout
from fmcli.models.second_order.linear import bias_block
from fmcli.models.split import Slot, split_of, tuple_terms
from fmcli.errors import BadInputError
from fmcli.system.memory import require

from fmcli.base.fields cimport summed
from fmcli.base.types cimport LANES, ColumnView, Factors, Sample, Scratch, SparseGradient, real
from fmcli.data.dataset cimport Dataset
from fmcli.models.kernels cimport kernels
from fmcli.models.model cimport ColumnModel, Joined
from libc.stdint cimport int32_t
from libc.string cimport memcpy, memset

# The arrays of group 0 and group 1 in `exported`.
SIDES = ("U", "V")

cdef enum:
    NEITHER = -1
    UNSEEN = -2


cdef class Bilinear(ColumnModel):
    """b + <w, x> + <sum over i in group 0 of u_i x_i, sum over j in group 1 of v_j x_j> ([HO] 6.1).

    The group of a feature is its field in the training data, 0 or 1; features of other fields have only a linear
    With `split_index`, group 0 contains the features with a smaller index and group 1 all others, regardless of their
    fields. In scoring, every feature keeps its group of training.

    `constants` contains `group` (features): 0, 1, or -1 for neither. A feature belongs to at most one group, so its u
    or v is one row of `UV` (classes, features, rank). In the arrays U and V of `exported`, features of the other group
    are 0.
    """

    cdef int pairs
    cdef bint linear
    cdef object split_index
    cdef const int32_t[::1] side

    def __init__(self, features, outputs, *, rank, split_index=None, bias=True, linear=True):
        layout = [*bias_block(bias), BlockLayout(body=[("UV", rank)], weight="w" if linear else None)]
        super().__init__(features, outputs, layout)
        self.pairs, self.linear, self.split_index = len(layout) - 1, linear, split_index
        self.constants = {}

    def bytes_needed(self, int slots):
        return super().bytes_needed(slots) + sizeof(int32_t) * self.features

    def allocate(self, int slots):
        super().allocate(slots)
        if not self.constants:
            self.set_groups(self.by_index_alone())

    # The groups without data: by `split_index`, or no group for any feature.
    cdef by_index_alone(self):
        group = np.full(self.features, NEITHER if self.split_index is None else 1, dtype=np.int32)
        if self.split_index is not None:
            group[:min(self.split_index, self.features)] = 0
        return group

    cdef set_groups(self, group):
        group.flags.writeable = False
        self.constants = {"group": group}
        self.side = group

    def prepare(self, source, generator):
        self.constants = {}
        if self.split_index is not None:
            return
        if source.data.nnz and source.data.field is None:
            raise BadInputError(
                "the data have no fields; bilinear needs fields unless an index splits the features", split_index=None)
        require(sizeof(int32_t) * self.features, f"finding the field of each of {self.features:,} features")
        group = np.full(self.features, UNSEEN, dtype=np.int32)
        for data, rows in source.every():
            self.find_groups(data, rows, group)
        group[group == UNSEEN] = NEITHER
        self.set_groups(group)

    cdef find_groups(self, Dataset data, const int32_t[::1] rows, int32_t[::1] group):
        cdef Sample x
        cdef Py_ssize_t r, i
        cdef int32_t found
        data.check_rows(rows)
        if data.features > group.shape[0]:
            raise ValueError("the data have more columns than the model")
        for r in range(rows.shape[0]):
            data.sample(rows[r], &x)
            for i in range(x.nnz):
                found = x.field[i] if x.field[i] < 2 else NEITHER
                if group[x.index[i]] == UNSEEN:
                    group[x.index[i]] = found
                elif group[x.index[i]] != found:
                    raise BadInputError(
                        f"feature {x.index[i]} occurs {where(group[x.index[i]])} and {where(found)}: bilinear needs "
                        "each feature in one group; use different indices in different fields", split_index=None)

    def feature_axis(self, name):
        return 0 if name == "group" else 1 if name in SIDES else super().feature_axis(name)

    def inherit(self, previous, seen):
        theirs = previous.constants["group"]
        if not self.constants:
            self.set_groups(self.by_index_alone())
        group = self.constants["group"].copy()
        ours = group[:len(theirs)]
        moved = np.flatnonzero(seen & (ours != NEITHER) & (theirs != ours))
        if len(moved):
            raise BadInputError(
                f"feature {moved[0]} occurs {where(ours[moved[0]])}, but {where(theirs[moved[0]])} in the data of the "
                "earlier model: bilinear needs each feature in one group")
        ours[seen] = theirs[seen]
        self.set_groups(group)

    def attach(self, arrays):
        super().attach(arrays)
        group = arrays["group"]
        if group.shape != (self.features,) or group.dtype != np.int32:
            raise ValueError(f"group is {group.dtype}{list(group.shape)}, not int32{[self.features]}")
        if len(group) and not NEITHER <= group.min() <= group.max() <= 1:
            raise ValueError("group has values other than 0, 1 and -1")
        self.set_groups(group.view())

    def export_needed(self):
        return 2 * self.parameters["UV"].nbytes

    def exported(self):
        arrays = {**self.parameters, **self.constants}
        both = arrays.pop("UV")
        for side, name in enumerate(SIDES):
            arrays[name] = np.where(arrays["group"][:, None] == side, both, 0)
        return arrays

    def start(self, seen, init_std, generator, threads=1):
        super().start(seen, init_std, generator, threads)
        self.parameters["UV"][:, self.constants["group"] == NEITHER] = 0

    def split(self):
        group, factors = self.constants["group"], self.parameters["UV"]
        return split_of(
            self.parameters, self.outputs,
            tuple_terms([Slot(factors, group, side) for side in range(2)], None, 1))

    @property
    def sides(self):
        return TwoSides(self, within=False)

    cdef Py_ssize_t ids_size(self, Py_ssize_t longest):
        return 2 * longest

    cdef Py_ssize_t work_size(self, Py_ssize_t longest):
        return self.outputs * self.sums_size()

    cdef inline Py_ssize_t sums_size(self) noexcept nogil:
        return 2 * ((self.vectors[self.pairs][0].lanes + LANES - 1) // LANES * LANES)

    # The sample with every feature once: the entries of a feature with several fields are summed.
    cdef inline Sample by_index(self, const Sample* x, Scratch* s) noexcept nogil:
        return summed(x, s.ids, <float*>(s.ids + x.nnz))

    cdef void rows(self, const Sample* x, Scratch* s) noexcept nogil:
        cdef Sample once = self.by_index(x, s)
        ColumnModel.rows(self, &once, s)

    cdef void score(self, const Sample* x, Scratch* s) noexcept nogil:
        cdef int c
        cdef Factors v, w
        cdef Sample once = self.by_index(x, s)
        for c in range(self.outputs):
            v = self.factors(self.pairs, 0, c)
            s.score[c] = self.bias(c)
            if x.nnz:
                s.score[c] += kernels.two_sides(&v, &once, &self.side[0], s.work + c * self.sums_size())
            if self.linear:
                w = self.weights(self.pairs, c)
                s.score[c] += kernels.linear(&w, &once)

    cdef void gradient(self, const Sample* x, Scratch* s) noexcept nogil:
        cdef int c
        cdef SparseGradient* gradient
        cdef Sample once = self.by_index(x, s)
        for c in range(self.outputs):
            gradient = s.gradients + c * self.n_blocks
            if self.has_bias:
                gradient.weight[0] = s.slope[c]
            if x.nnz:
                kernels.two_sides_gradient(
                    &once, &self.side[0], s.work + c * self.sums_size(), self.block[self.pairs].lanes, s.slope[c],
                    gradient[self.pairs].body)
            if self.linear:
                kernels.linear_gradient(&once, s.slope[c], gradient[self.pairs].weight)

    # A sample's cache contains the factor sums of both groups. The score contains their inner product.
    cdef Py_ssize_t cache_size(self, Dataset data):
        return self.sums_size()

    cdef void fill_cache(self, const Sample* x, Scratch* s, int output, real* cache) noexcept nogil:
        if x.nnz:
            memcpy(cache, s.work + output * self.sums_size(), self.sums_size() * sizeof(real))

    # The view of a row, moved to its side's factors where both groups' sums lie side by side.
    cdef inline ColumnView on_side(self, const ColumnView* v) noexcept nogil:
        cdef ColumnView on_side = v[0]
        on_side.at += self.side[v.row] * (self.sums_size() // 2)
        return on_side

    cdef void score_gradient(self, const ColumnView* v, real* q) noexcept nogil:
        cdef ColumnView on_side
        if v.block == self.pairs and self.side[v.row] != NEITHER:
            on_side = self.on_side(v)
            kernels.product_score_gradient(&on_side, 2, self.sums_size() // 2, q)
            return
        memset(q, 0, v.n * v.apart * sizeof(real))
        kernels.weight_score_gradient(v, q)

    cdef void update_cache(self, const ColumnView* v, const real* step) noexcept nogil:
        cdef ColumnView on_side
        if v.block == self.pairs and self.side[v.row] != NEITHER:
            on_side = self.on_side(v)
            kernels.pairs_update_cache(&on_side, NULL, step, 0)


cdef class TwoSides(Joined):
    """The sums of the features on one side of a pair, which is one group, and their linear score."""

    cdef Py_ssize_t size(self, Dataset data):
        return (<Bilinear>self.model).sums_size() // 2

    cdef double part(self, const Sample* x, int output, bint common, real* sums) noexcept nogil:
        cdef int pairs = (<Bilinear>self.model).pairs
        cdef Factors v = self.model.factors(pairs, 0, output)
        kernels.second_order(&v, x, NULL, NULL, sums)
        return self.linear(pairs, x, output, common)


def where(group):
    """Return a description of the group for error messages."""
    return f"in field {group}" if group != NEITHER else "in another field"
