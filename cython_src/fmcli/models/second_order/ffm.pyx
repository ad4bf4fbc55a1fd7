"""The field-aware factorization machine: each feature has separate factors for each field of its partners."""

import numpy as np

from fmcli.models.layout import FEATURES, BlockLayout
from fmcli.models.second_order.linear import bias_block
from fmcli.models.split import FieldPairs, split_of
from fmcli.errors import BadInputError, NotEnoughMemoryError

from fmcli.base.fields cimport (
    FieldEntries, all_single, bucket_by_field, buckets_in, enter_by_field, has_partner, summed)
from fmcli.base.types cimport (
    LANES, ColumnView, Factors, GradientFormula, Sample, Scratch, SparseGradient, prefetch_reals, real)
from fmcli.data.dataset cimport Dataset
from fmcli.models.arguments cimport FieldColumns, SampleRun
from fmcli.models.kernels cimport kernels
from fmcli.models.model cimport NONE, ColumnModel
from fmcli.models.parameters cimport MAX_BLOCKS
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memcmp, memmove, memset

# The number of features whose unused factors are cleared at a time: enough to make Python's overhead negligible.
CLEARED_ROWS = 1 << 16
MOST_ROWS = 2**31 - 1  # rows are numbered by int32

cdef enum:
    BITS = 8  # in a byte of packed marks
    LINE = 64 // sizeof(real)  # reals in a cache line
    MOST_FIELDS = 4  # fields per entry of a sample, on average, up to which coordinate descent has entries by field


cdef class FFM(ColumnModel):
    """b + <w, x> + sum over pairs of <v_{i,field(j)}, v_{j,field(i)}> x_i x_j (Juan et al. 2016).

    If an index occurs in several fields of a sample, it counts as several entries, whose pairs with each other are
    included. Entries of fields that the training data lacks are in no pair. Without a group penalty, each v_{j,f} is a
    separate parameter row. With a group penalty (`by_row`), all v_{j,f} of a feature are in one row. In both cases, a
    sample updates only factors in one of its pairs.

    `constants` has `met` (features, bytes): bit f % 8 of byte f // 8 is set if v_{j,f} was in a pair of the training
    data. All other factors are 0.
    """

    cdef int pairs
    cdef bint linear, whole, entered
    cdef Py_ssize_t fields
    cdef object source, previous_met
    cdef Dataset visited  # the data whose columns coordinate descent visits

    def __init__(self, features, outputs, *, rank, bias=True, linear=True, fields=0, by_row=False):
        layout = bias_block(bias)
        weight = "w" if linear else None
        if by_row:
            layout.append(BlockLayout(body=[("V", (fields, rank))], weight=weight, affine="vector"))
        else:
            layout += [BlockLayout(weight=weight)] if linear else []
            layout.append(BlockLayout(axes=(FEATURES, fields), body=[("V", rank)], touched="selected"))
        super().__init__(features, outputs, layout)
        self.pairs = self.n_blocks - 1
        self.linear, self.whole, self.fields = linear, by_row, fields
        self.source = self.previous_met = None

    def bytes_needed(self, int slots):
        marks = self.marks_size() + sizeof(int64_t)  # with `place` of `mark`
        return super().bytes_needed(slots) + self.features * marks

    cdef Py_ssize_t marks_size(self):
        return (self.fields + BITS - 1) // BITS

    def prepare(self, source, generator):
        if source.data.nnz and source.data.field is None:
            raise BadInputError("the rows have no fields, which ffm needs")
        self.source = source  # `allocate` reads it, after the parameters have been allocated

    def inherit(self, previous, seen):
        self.previous_met = previous.constants["met"]

    def allocate(self, int slots):
        if self.block[self.pairs].rows > MOST_ROWS:
            raise NotEnoughMemoryError(
                f"{self.features:,} features with factors for each of {self.fields:,} fields are more than "
                f"{MOST_ROWS:,} rows of factors; leave out fields or rare features")
        if self.source is not None:
            longest = self.source.longest
            places = longest * (self.fields if self.whole else min(self.fields, longest))
            if places > MOST_ROWS:
                raise NotEnoughMemoryError(
                    f"an example of {longest:,} entries needs gradients for up to {places:,} factor rows with "
                    f"{self.fields:,} fields, more than {MOST_ROWS:,}; leave out fields or rare features")
        super().allocate(slots)
        met = np.zeros((self.features, self.marks_size()), dtype=np.uint8)
        if self.source is not None:
            for data, rows in self.source.every():
                self.mark(data, rows, met)
            self.source = None
        else:
            met[...] = 255
        if self.previous_met is not None:
            rows, size = self.previous_met.shape
            met[:rows, :size] |= self.previous_met
        self.constants = {"met": met}

    # Mark in `met` the factors in a pair of these samples. Most samples have the same fields as the sample before, and
    # most of their features were already marked at the same place of an earlier sample.
    cdef mark(self, Dataset data, const int32_t[::1] rows, unsigned char[:, ::1] met):
        cdef int32_t[::1] room = np.zeros(self.ids_size(data.longest) + 1, dtype=np.int32)
        cdef unsigned char[::1] here = np.zeros(met.shape[1] + 1, dtype=np.uint8)
        # By feature: the place where it was marked last, plus the number of places of all earlier lists of fields.
        cdef int64_t[::1] place = np.full(met.shape[0], -1, dtype=np.int64)
        cdef int64_t begin = 0
        cdef Sample x, before = Sample(NULL, NULL, NULL, 0, 0)
        cdef FieldEntries p
        cdef Py_ssize_t r, i, q, at, slot
        if met.shape[0] == 0 or met.shape[1] == 0:
            return
        data.check_rows(rows)
        if data.features > met.shape[0]:
            raise ValueError("the data have more columns than the model")
        p = bucket_by_field(&before, self.fields, &room[0])
        with nogil:
            for r in range(rows.shape[0]):
                data.sample(rows[r], &x)
                if x.nnz != before.nnz or memcmp(x.field, before.field, x.nnz * sizeof(int32_t)) != 0:
                    begin += before.nnz
                    p = bucket_by_field(&x, self.fields, &room[0])
                    here[:] = 0
                    for q in range(p.slots):
                        here[p.field[q] // BITS] |= 1 << p.field[q] % BITS
                    before = x
                for i in range(x.nnz):
                    slot = p.slot[i]
                    if slot < 0 or place[x.index[i]] == begin + i:
                        continue
                    place[x.index[i]] = begin + i
                    if p.count[slot] == 1:
                        here[p.field[slot] // BITS] ^= 1 << p.field[slot] % BITS
                    for at in range(met.shape[1]):
                        met[x.index[i], at] |= here[at]
                    here[p.field[slot] // BITS] |= 1 << p.field[slot] % BITS

    def start(self, seen, init_std, generator, threads=1):
        super().start(seen, init_std, generator, threads)
        for values in self.parameters["V"]:
            for at in range(0, self.features, CLEARED_ROWS):
                values[at:at + CLEARED_ROWS][~self.marks(slice(at, at + CLEARED_ROWS))] = 0

    def marks(self, features):
        """bool (features, fields): whether each factor of these features was in a pair of the training data."""
        return np.unpackbits(
            self.constants["met"][features], axis=1, count=self.fields, bitorder="little").view(np.bool_)

    def feature_axis(self, name):
        return 0 if name == "met" else super().feature_axis(name)

    def known(self, name, seen):
        return self.marks(slice(None)) if name == "V" else super().known(name, seen)

    def fitted_constants(self, constants):
        met = constants["met"]
        return {"met": np.pad(met, ((0, 0), (0, self.marks_size() - met.shape[1])))}

    def attach(self, arrays):
        super().attach(arrays)
        met = arrays["met"]
        if met.shape != (self.features, self.marks_size()) or met.dtype != np.uint8:
            raise ValueError(f"met is {met.dtype}{list(met.shape)}")
        self.constants = {"met": met}

    def exported(self):
        return dict(self.parameters)

    def split(self):
        return split_of(self.parameters, self.outputs, FieldPairs(self.parameters["V"]))

    # The distance, in reals, from a feature's factors for one field to its factors for the next field.
    cdef inline Py_ssize_t apart(self) noexcept nogil:
        if self.whole and self.fields > 1:
            return self.vectors[self.pairs][1].base - self.vectors[self.pairs][0].base
        return self.vectors[self.pairs][0].row_stride

    cdef inline Py_ssize_t padded(self) noexcept nogil:
        return (self.vectors[self.pairs][0].lanes + LANES - 1) // LANES * LANES

    cdef Py_ssize_t most_rows(self, int b, Py_ssize_t longest):
        if b == self.pairs and not self.whole:
            return longest * min(self.fields, longest)
        return ColumnModel.most_rows(self, b, longest)

    # The room of `bucket_by_field`; for each entry and slot, the position of a gradient and possibly a row id; indices
    # and sums of values by index; and, with whole rows, the marks of touched factors.
    cdef Py_ssize_t ids_size(self, Py_ssize_t longest):
        cdef Py_ssize_t most = min(self.fields, longest), marks = 0
        if self.whole:
            marks = (longest * self.marks_of_row()) // sizeof(int32_t) + 1
        return 1 + self.fields + longest + 2 * most + 2 * longest * most + 2 * longest + marks

    cdef inline Py_ssize_t marks_of_row(self) noexcept nogil:
        return self.block[self.pairs].lanes // LANES

    # The sums of `field_pairs`, or the rows that a run of samples lists (ListedFieldRows).
    cdef Py_ssize_t work_size(self, Py_ssize_t longest):
        cdef Py_ssize_t sums = self.outputs * min(self.fields, longest) ** 2 * self.padded()
        return max(sums, 2 * longest * <Py_ssize_t>(sizeof(void*) // sizeof(real))) if self.fields else 0

    cdef void prefetch(self, const Sample* x, Scratch* s) noexcept nogil:
        cdef int c
        cdef Py_ssize_t i, j, apart = self.apart(), low = self.fields, high = -1
        cdef const real* row
        cdef Factors v
        ColumnModel.prefetch(self, x, s)
        if self.by_feature[self.pairs] or x.field == NULL:
            return
        for i in range(x.nnz):
            if x.field[i] < self.fields:
                low, high = min(low, x.field[i]), max(high, x.field[i])
        for c in range(self.outputs):
            v = self.factors(self.pairs, 0, c)
            for i in range(x.nnz):
                row = v.at + x.index[i] * v.stride
                if (high + 1 - low) * apart <= LINE * x.nnz:  # they are in few cache lines
                    prefetch_reals(row + low * apart, (high + 1 - low) * apart)
                    continue
                for j in range(x.nnz):
                    if x.field[j] < self.fields:
                        prefetch_reals(row + x.field[j] * apart, apart)

    # The sample with its values summed by index. After the arrays of `bucket_by_field`, `rows` stores the position of
    # the gradient of each entry and slot, then row ids, then the sums by index.
    cdef inline Sample by_index(self, const Sample* x, const FieldEntries* p) noexcept nogil:
        cdef int32_t* room = p.end + 2 * x.nnz * p.slots
        return summed(x, room, <float*>(room + x.nnz))

    # Whether no two pairs of a sample share a row; then its gradient needs no sums, and may be a formula.
    cdef inline bint by_pairs(self, const Sample* x, const FieldEntries* p) noexcept nogil:
        return not self.whole and all_single(x, p)

    cdef void rows(self, const Sample* x, Scratch* s) noexcept nogil:
        cdef FieldEntries p = bucket_by_field(x, self.fields, s.ids)
        cdef Sample once = self.by_index(x, &p)
        cdef const int32_t* row[MAX_BLOCKS]
        cdef Py_ssize_t n[MAX_BLOCKS]
        cdef int c
        self.usual_rows(&once, row, n)
        if self.whole:
            self.place_in_rows(x, &p, once.nnz)
        elif s.formulas and self.by_pairs(x, &p):
            row[self.pairs], n[self.pairs] = x.index, x.nnz
        else:
            row[self.pairs] = p.end + x.nnz * p.slots
            n[self.pairs] = self.name_alone(x, &p) if once.nnz == x.nnz else self.place_alone(x, &p)
        self.cut(row, n, s)
        if self.whole:
            for c in range(self.outputs):
                s.gradients[c * self.n_blocks + self.pairs].touched = self.marks_behind(x, &p)

    # The positions of gradients in whole rows, ordered by index, and the marks of the factors in a pair.
    cdef void place_in_rows(self, const Sample* x, const FieldEntries* p, Py_ssize_t rows) noexcept nogil:
        cdef Py_ssize_t i, q, place, row = -1, each = self.padded() // LANES
        cdef uint8_t* marks = self.marks_behind(x, p)
        memset(marks, 0, rows * self.marks_of_row())
        for i in range(x.nnz):
            if i == 0 or x.index[i] != x.index[i - 1]:
                row += 1
            for q in range(p.slots):
                place = row * self.fields + p.field[q]
                p.end[i * p.slots + q] = <int32_t>place
                if has_partner(p, i, q):
                    memset(marks + place * each, 1, each)

    # The marks, which follow the sums by index.
    cdef inline uint8_t* marks_behind(self, const Sample* x, const FieldEntries* p) noexcept nogil:
        return <uint8_t*>(p.end + 2 * x.nnz * p.slots + 2 * x.nnz)

    # List the row ids of the factors if each v_{j,f} is a separate row, entry by entry, and return their number.
    cdef Py_ssize_t name_alone(self, const Sample* x, const FieldEntries* p) noexcept nogil:
        cdef Py_ssize_t i, q
        cdef int32_t first, slot
        cdef int32_t* ids = p.end + x.nnz * p.slots
        cdef int32_t* next_id = ids
        cdef int32_t* removed
        for i in range(x.nnz):
            first, slot = <int32_t>(x.index[i] * self.fields), p.slot[i]
            if slot < 0:
                continue
            for q in range(p.slots):
                next_id[q] = first + p.field[q]
            next_id += p.slots
            if p.count[slot] == 1:  # the entry has no partner in its field: remove this id
                next_id -= 1
                removed = next_id - p.slots + 1 + slot
                memmove(removed, removed + 1, (p.slots - 1 - slot) * sizeof(int32_t))
        return next_id - ids

    # Place the gradients of a sample in which an index occurs in several fields. Its entries are adjacent and may share
    # factors, so the position of the gradient is stored for each entry and slot.
    cdef Py_ssize_t place_alone(self, const Sample* x, const FieldEntries* p) noexcept nogil:
        cdef Py_ssize_t i, q, begin = 0, end, n = 0, slots = p.slots
        cdef int32_t* place = p.end
        cdef int32_t* ids = p.end + x.nnz * slots
        cdef bint met
        while begin < x.nnz:
            end = begin + 1
            while end < x.nnz and x.index[end] == x.index[begin]:
                end += 1
            for q in range(slots):
                met = False
                for i in range(begin, end):
                    if has_partner(p, i, q):
                        place[i * slots + q] = <int32_t>n
                        met = True
                if met:
                    ids[n] = <int32_t>(x.index[begin] * self.fields + p.field[q])
                    n += 1
            begin = end
        return n

    cdef void score(self, const Sample* x, Scratch* s) noexcept nogil:
        cdef int c
        cdef FieldEntries p = bucket_by_field(x, self.fields, s.ids)
        cdef Factors v, w
        for c in range(self.outputs):
            s.score[c] = self.bias(c)
            v = self.factors(self.pairs, 0, c)
            # No gradient reads the sums of this sample, so they are not stored.
            if self.by_pairs(x, &p) or s.gradient_buffer == NULL and all_single(x, &p):
                s.score[c] += kernels.single_field_pairs(&v, self.apart(), x)
            elif p.slots:
                s.score[c] += kernels.field_pairs(
                    &v, self.apart(), x, &p, s.work + c * p.slots * p.slots * self.padded())
            if self.linear:
                w = self.weights(self.pairs if self.whole else self.pairs - 1, c)
                s.score[c] += kernels.linear(&w, x)

    cdef void gradient(self, const Sample* x, Scratch* s) noexcept nogil:
        cdef int c
        cdef FieldEntries p = buckets_in(x, self.fields, s.ids)
        cdef Sample once = self.by_index(x, &p)
        cdef bint shared = once.nnz < x.nnz
        cdef Factors v
        cdef SparseGradient* gradient
        cdef SparseGradient* of_pairs
        for c in range(self.outputs):
            gradient = s.gradients + c * self.n_blocks
            of_pairs = gradient + self.pairs
            if self.has_bias:
                gradient.weight[0] = s.slope[c]
            v = self.factors(self.pairs, 0, c)
            if s.formulas and self.by_pairs(x, &p):
                of_pairs.formula = GradientFormula(x.value, s.slope[c], NULL, NULL, x.field, self.fields)
                if self.linear:
                    kernels.linear_gradient(x, s.slope[c], (of_pairs - 1).weight)
                continue
            if self.linear:
                gradient = of_pairs if self.whole else of_pairs - 1
                kernels.linear_gradient(&once, s.slope[c], gradient.weight)
            if self.whole or shared:
                memset(of_pairs.body, 0, of_pairs.n * self.block[self.pairs].lanes * sizeof(real))
            if self.by_pairs(x, &p):
                kernels.single_field_pairs_gradient(&v, self.apart(), x, s.slope[c], of_pairs.body)
            elif p.slots:
                kernels.field_pairs_gradient(
                    &v, self.apart(), x, &p, s.work + c * p.slots * p.slots * self.padded(), s.slope[c],
                    p.end if self.whole or shared else NULL, shared, of_pairs.body)

    cdef bint describe(self, SampleRun* run) noexcept nogil:
        ColumnModel.describe(self, run)
        run.features, run.fields = self.pairs, self.fields
        if self.linear:
            run.weights = self.pairs - 1
        return not self.whole and self.fields > 0

    # Whether the gradient of each sample is a formula.
    cdef bint takes_run_of(self, Dataset data):
        cdef int32_t[::1] last = np.full(max(self.fields, 1), -1, dtype=np.int32)
        cdef Py_ssize_t r, i
        cdef bint single = data.csr.field != NULL
        cdef Sample x
        with nogil:
            for r in range(data.rows if single else 0):
                data.sample(r, &x)
                for i in range(x.nnz):
                    single &= x.field[i] < self.fields
                    if not single:
                        break
                    single &= last[x.field[i]] != r and (i == 0 or x.index[i] != x.index[i - 1])
                    last[x.field[i]] = <int32_t>r
                if not single:
                    break
        return single

    # A derivative is computed from the sample's entries of one field. The cache has their ids by field and, unless all
    # values are equal, their values, if this needs no more memory than the columns.
    cdef Py_ssize_t cache_size(self, Dataset data):
        cdef Py_ssize_t r, i
        cdef Sample x
        for r in range(data.rows):
            data.sample(r, &x)
            for i in range(1, x.nnz):
                if x.index[i] == x.index[i - 1]:
                    return NONE  # not supported: derivatives would be sums over the entries of an index
        if data.nnz and data.field is None:
            return NONE
        self.visited = data
        self.entered = not self.whole and self.fields * data.rows <= MOST_FIELDS * data.nnz
        each = sizeof(int32_t) + (0 if data.csr.constant else sizeof(float))
        return (self.fields * each + sizeof(real) - 1) // sizeof(real) if self.entered else 0

    cdef void fill_cache(self, const Sample* x, Scratch* s, int output, real* cache) noexcept nogil:
        cdef int32_t* id = <int32_t*>cache
        cdef float* value = NULL
        if not self.visited.csr.constant:
            value = <float*>(id + self.fields)
        if self.entered:
            enter_by_field(x, self.fields, id, value)

    cdef inline FieldColumns columns(self, const ColumnView* v) noexcept nogil:
        cdef FieldColumns columns
        columns.rows, columns.v, columns.apart = self.visited.csr, self.factors(self.pairs, 0, v.output), self.apart()
        columns.fields, columns.by_field = <int32_t>self.fields, self.entered
        columns.feature = <int32_t>(v.row if self.whole else v.row // self.fields)
        columns.field = -1 if self.whole else <int32_t>(v.row % self.fields)
        return columns

    cdef void prefetch_states(self, const ColumnView* v) noexcept nogil:
        cdef FieldColumns columns
        if v.block != self.pairs or not self.entered:
            ColumnModel.prefetch_states(self, v)
            return
        columns = self.columns(v)
        kernels.field_prefetch_states(v, &columns)

    cdef void score_gradient(self, const ColumnView* v, real* q) noexcept nogil:
        cdef FieldColumns columns
        if v.block != self.pairs:
            kernels.weight_score_gradient(v, q)
            return
        columns = self.columns(v)
        kernels.field_score_gradient(v, &columns, q)

    cdef bint score_changes(self, const ColumnView* v, const real* step, double* out) noexcept nogil:
        cdef FieldColumns columns = self.columns(v)
        kernels.field_score_changes(v, &columns, step, out)
        return True
