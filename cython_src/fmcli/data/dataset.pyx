"""Rows of sparse examples in compressed form (CSR)."""

import numpy as np

from fmcli.data.numbering import occurring
from fmcli.errors import BadInputError
from fmcli.system.parallel import in_parallel

from fmcli.base.types cimport Sample, prefetch_line
from fmcli.data.numbering cimport NOT_THERE, Numbering
from libc.math cimport fabsf, sqrt
from libc.stdint cimport int8_t, int32_t, int64_t
from libc.string cimport memcpy

cdef extern from "fmcli/data/ordering.h" namespace "fmcli" nogil:
    struct Entries:
        const int64_t* indptr
        int32_t* index
        int32_t* field
        float* value

    void renumber_rows(const Entries&, int64_t, int64_t, const int32_t*) except +
    int64_t merge_shared(const Entries&, int64_t, int32_t, int64_t*) except +


cdef enum:
    ROWS_AHEAD = 16  # rows to prefetch before they are copied

# The center and the scale of labels that losses see unchanged.
NO_UNIT = (0.0, 1.0)


cdef class Dataset:
    """Sparse rows with labels. The arrays are checked once, so compiled loops need not check them.

    Parameters
    ----------
    indptr : int64 array (rows + 1); row i has the entries indptr[i] .. indptr[i + 1] - 1.
    index : int32 array (nnz), the column of each entry, strictly increasing within a row. With fields, the pairs
        (index, field) are strictly increasing, and neither is negative.
    value : float32 array (nnz) without zeros, or None if every value is 1. Equal values can share one number in memory;
        see `repeated`.
    label : float64 or int8 array (rows), or None if the rows have no labels.
    features : the number of columns; larger than every index.
    field : int32 array (nnz) or None.
    weight : float64 array (rows), or None if every weight is 1.
    group : array of integers (rows), or None; rows with the same number form a group.
    trusted : whether indices and fields are known to be valid, and need no check.
    numbering : Numbering of the features with columns; None: column j is feature j.
    unit : (center, scale) of labels that are numbers: losses see (label - center) / scale, which `targets` returns.

    The arrays are kept, not copied. Raises ValueError if they are invalid or inconsistent.
    """

    def __init__(
        self, indptr, index, value, label, features, field=None, weight=None, *, group=None, trusted=False,
        numbering=None, unit=NO_UNIT
    ):
        cdef const int64_t[::1] indptr_ = indptr
        cdef const int32_t[::1] index_ = index
        cdef const float[::1] value_
        cdef const int32_t[::1] field_ = field
        cdef const double[::1] number_ = None
        cdef const int8_t[::1] coded_ = None
        cdef const double[::1] weight_ = weight
        cdef Py_ssize_t i, shortest = 0, longest = 0

        self.rows = indptr_.shape[0] - 1
        self.nnz = index_.shape[0]
        if self.rows < 0 or indptr_[0] != 0 or indptr_[self.rows] != self.nnz:
            raise ValueError("indptr must start at 0 and end at the number of entries")
        for i in range(self.rows):
            shortest = min(shortest, indptr_[i + 1] - indptr_[i])
            longest = max(longest, indptr_[i + 1] - indptr_[i])
        if shortest < 0:
            raise ValueError("indptr must not decrease")
        for name, array, size in (
            ("value", value, self.nnz),
            ("field", field, self.nnz),
            ("label", label, self.rows),
            ("weight", weight, self.rows),
            ("group", group, self.rows),
        ):
            if array is not None and array.shape[0] != size:
                raise ValueError(f"{name} has {array.shape[0]} entries, but {size} are needed")

        if features < 0:
            raise ValueError("the number of columns must not be negative")
        if numbering is not None and len(numbering) != features:
            raise ValueError(f"there are {features} columns, but {len(numbering)} numbered features")
        self.features, self.numbering, self.longest = features, numbering, longest
        self.indptr, self.index, self.value, self.field = indptr, index, value, field
        self.label, self.weight, self.group, self.unit = label, weight, group, unit
        # Empty arrays have no first element; their pointers are NULL and never read. A NULL `field`, `labels` or
        # `weight_` also means that the array does not exist.
        self.csr.indptr = &indptr_[0]
        self.csr.index = &index_[0] if self.nnz else NULL
        self.csr.field = &field_[0] if field is not None and self.nnz else NULL
        if label is not None and label.dtype == np.int8:
            coded_ = label
        else:
            number_ = label
        self.labels.coded = &coded_[0] if coded_ is not None and self.rows else NULL
        self.labels.number = &number_[0] if number_ is not None and self.rows else NULL
        self.labels.center, self.labels.scale = unit
        self.weight_ = &weight_[0] if weight is not None and self.rows else NULL
        self.csr.constant = value is None or is_repeated(value)
        if self.csr.constant:
            self.shared = np.full(max(self.longest, 1), 1 if value is None else value[0], dtype=np.float32)
            value_ = self.shared
            self.csr.value = &value_[0]
        else:
            value_ = value
            self.csr.value = &value_[0] if self.nnz else NULL
        if not trusted:
            self.check_entries()

    def __reduce__(self):
        equal = self.csr.constant and self.value is not None and self.nnz > 0
        value = self.value[0] if equal else self.value
        return restored, (
            self.indptr, self.index, value, self.label, self.features, self.field, self.weight, self.group,
            self.numbering, self.unit)

    # Raise ValueError unless indices and fields are valid.
    cdef check_entries(self):
        cdef Py_ssize_t i, at
        cdef int32_t j, f
        cdef int64_t here, before
        cdef bint outside = False, unordered = False
        with nogil:
            for i in range(self.rows):
                before = -1
                for at in range(self.csr.indptr[i], self.csr.indptr[i + 1]):
                    j = self.csr.index[at]
                    f = self.csr.field[at] if self.csr.field != NULL else 0
                    here = (<int64_t>j << 32) + f
                    outside |= j < 0 or j >= self.features or f < 0
                    unordered |= here <= before
                    before = here
        if outside:
            raise ValueError("an index is not below the number of columns, or an index or a field is negative")
        if unordered:
            raise ValueError("the indices of a row are not increasing")

    def checked(self, const int32_t[::1] rows):
        """Return the row indices if all are valid; otherwise raise IndexError."""
        self.check_rows(rows)
        return rows

    # Raise IndexError unless all row indices are valid.
    cdef check_rows(self, const int32_t[::1] rows):
        cdef Py_ssize_t i
        if rows is None:
            raise TypeError("rows must be an array of indices, not None")
        cdef bint outside = False
        for i in range(rows.shape[0]):
            outside |= rows[i] < 0 or rows[i] >= self.rows
        if outside:
            raise IndexError(f"a row index is not between 0 and {self.rows - 1}")

    @property
    def arrays(self):
        """All arrays that take memory."""
        value = self.shared if self.csr.constant else self.value
        arrays = [self.indptr, self.index, value, self.field, self.label, self.weight, self.group]
        arrays += [] if self.numbering is None else self.numbering.arrays
        return [array for array in arrays if array is not None]

    @property
    def relations(self):
        """The relations of the rows (related.rows.Relation): none."""
        return ()

    @property
    def nbytes(self):
        """The size of the arrays in bytes."""
        return sum(array.nbytes for array in self.arrays)

    @property
    def dimension(self):
        """The number of features, including features without a column: larger than every feature."""
        return self.features if self.numbering is None else self.numbering.dimension

    @property
    def fields(self):
        """Largest field + 1; 0 if entries have no fields."""
        return 0 if self.field is None or not self.nnz else int(self.field.max()) + 1

    def total_weight(self, rows=None):
        """Return the sum of the weights of all rows, or of the rows with these indices. Without weights, each row
        counts 1."""
        if self.weight is None:
            return float(self.rows if rows is None else len(rows))
        return float((self.weight if rows is None else self.weight[rows]).sum())

    def shares(self, rows=None):
        """Return float64: the weights of all rows, or of the rows with these indices, divided by their sum."""
        count = self.rows if rows is None else len(rows)
        weight = np.ones(count) if self.weight is None else self.weight if rows is None else self.weight[rows]
        return weight / self.total_weight(rows)

    def targets(self, rows=None):
        """Return the labels of all rows, or of the rows with these indices, as losses see them."""
        label = self.label if rows is None else self.label[rows]
        return label if self.unit == NO_UNIT else (label - self.labels.center) / self.labels.scale

    def changed(self, **arrays):
        """Return the same rows with some of value, label, features, field, weight, group, numbering and unit replaced.
        The other arrays are shared."""
        kept = "value", "label", "features", "field", "weight", "group", "numbering", "unit"
        new = {**{name: getattr(self, name) for name in kept}, **arrays}
        trusted = "field" not in arrays and new["features"] >= self.features
        return Dataset(self.indptr, self.index, **new, trusted=trusted)

    def take(self, rows):
        """Return a copy of the rows with these indices, in the order of `rows`."""
        cdef const int32_t[::1] chosen = self.checked(np.asarray(rows, dtype=np.int32))
        indptr = np.empty(chosen.shape[0] + 1, dtype=np.int64)
        cdef int64_t[::1] ends = indptr
        cdef Py_ssize_t i, row
        with nogil:
            ends[0] = 0
            for i in range(chosen.shape[0]):
                if i + ROWS_AHEAD < chosen.shape[0]:
                    prefetch_line(self.csr.indptr + chosen[i + ROWS_AHEAD])
                row = chosen[i]
                ends[i + 1] = ends[i] + self.csr.indptr[row + 1] - self.csr.indptr[row]
        index, field, value = [
            None if array is None else self.entries_of(chosen, ends, array.view(np.int32)).view(array.dtype)
            for array in (self.index, self.field, None if self.csr.constant else self.value)
        ]
        if self.csr.constant and self.value is not None:
            value = repeated(self.value[0], len(index))
        label, weight, group = [
            None if array is None else array.take(chosen) for array in (self.label, self.weight, self.group)
        ]
        return Dataset(
            indptr, index, value, label, self.features, field, weight, group=group, trusted=True,
            numbering=self.numbering, unit=self.unit)

    def joined(self, rows):
        """Return a copy of the rows with these indices, including the entries of relations."""
        return self.take(rows)

    # Copy the elements of an array of all entries that belong to these rows. indptr : of the copy.
    cdef entries_of(self, const int32_t[::1] rows, const int64_t[::1] indptr, const int32_t[::1] numbers):
        copy = np.empty(indptr[rows.shape[0]], dtype=np.int32)
        cdef int32_t[::1] taken = copy
        cdef Py_ssize_t i
        with nogil:
            for i in range(rows.shape[0] if taken.shape[0] else 0):
                if i + ROWS_AHEAD < rows.shape[0]:
                    prefetch_line(&numbers[0] + self.csr.indptr[rows[i + ROWS_AHEAD]])
                memcpy(
                    &taken[0] + indptr[i], &numbers[0] + self.csr.indptr[rows[i]],
                    (indptr[i + 1] - indptr[i]) * sizeof(int32_t))
        return copy

    def within(self, features):
        """Return the same rows with columns for only the first `features` features."""
        if self.numbering is not None:
            return self.renumbered(Numbering(np.arange(features, dtype=np.int32))).changed(numbering=None)
        if self.features == features:
            return self
        if self.features < features:
            return self.changed(features=features)
        return self.selected(self.index, self.index < features, features, None)

    def compacted(self, in_place=False):
        """Return the same rows with columns for only the features that occur in them. With `in_place`, this Dataset's
        indices are overwritten, and it must not be used again."""
        if self.numbering is not None:
            return self
        numbering = occurring(self.index, self.features)
        return self.renumbered(numbering, self.index if in_place else None)

    def with_columns(self, index, features):
        """Return the same rows with other columns: index (int32, nnz), `features` columns. A row's entries may be in
        any order, so only `take`, `pieces.concatenated` and `ordered` may be used on the result."""
        return Dataset(
            self.indptr, index, self.value, self.label, features, self.field, self.weight, group=self.group,
            trusted=True, unit=self.unit)

    def ordered(self, numbering, const int32_t[::1] columns, int threads=1):
        """Return the same rows with the columns of a numbering. columns (features) : the new column of each column
        here. A row's entries may be in any order here, and are ordered by column in the result. The arrays are
        overwritten, so this Dataset must not be used again."""
        if columns.shape[0] < self.features:
            raise ValueError(f"there are {columns.shape[0]} columns for {self.features} features")
        bounds = np.linspace(0, self.rows, threads + 1).astype(np.int64)
        in_parallel(lambda part: self.order_rows(bounds[part], bounds[part + 1], columns), range(threads), threads)
        return self.changed(numbering=numbering, features=len(numbering))

    # `ordered` for the rows first .. last - 1.
    cdef order_rows(self, int64_t first, int64_t last, const int32_t[::1] columns):
        cdef Entries entries
        cdef const int64_t[::1] indptr = self.indptr
        cdef int32_t[::1] index = self.index
        cdef int32_t[::1] field = self.field
        cdef float[::1] value = None if self.csr.constant else self.value  # equal values need no ordering
        if not self.nnz:
            return
        entries.indptr, entries.index = &indptr[0], &index[0]
        entries.field = NULL
        entries.value = NULL
        if field is not None:
            entries.field = &field[0]
        if value is not None:
            entries.value = &value[0]
        with nogil:
            renumber_rows(entries, first, last, &columns[0])

    def renumbered(self, numbering, into=None, const int32_t[::1] columns=None, int threads=1):
        """Return the same rows with the columns of a numbering. Entries of features without a column there are left
        out; if they share a column there, a row's entries of each field in this column are summed. Raises BadInputError
        if a sum is too large.

        into : int32 (nnz), the array for the new indices; None: a new array. If it is this Dataset's own index, this
            Dataset must not be used again.
        columns : int32 (features), the column there of each column here, if known.
        threads : the number of threads that compute the new indices.
        """
        cdef Numbering lookup = None
        if numbering is self.numbering:
            return self
        if columns is not None:
            if columns.shape[0] < self.features:
                raise ValueError(f"there are {columns.shape[0]} columns for {self.features} features")
        elif self.numbering is not None:
            columns = numbering.columns_from(self.numbering)
        elif isinstance(numbering, Numbering):
            lookup = numbering
        else:
            return self.compacted().renumbered(numbering, into, None, threads)
        index = np.empty(self.nnz, dtype=np.int32) if into is None else into
        bounds = np.linspace(0, self.nnz, threads + 1).astype(np.int64)
        kept = sum(in_parallel(
            lambda part: renumber(self.index[bounds[part]:bounds[part + 1]], lookup, columns,
                                  index[bounds[part]:bounds[part + 1]]), range(threads), threads))
        if lookup is None and numbering.shared is not None:
            return self.with_shared(index, numbering)
        if kept == self.nnz:
            return Dataset(
                self.indptr, index, self.value, self.label, len(numbering), self.field, self.weight, group=self.group,
                trusted=True, numbering=numbering, unit=self.unit)
        return self.selected(index, index != NOT_THERE, len(numbering), numbering)

    # Return the rows with other indices, with entries in the shared column merged.
    cdef with_shared(self, indices, numbering):
        starts_ = np.zeros(self.rows + 1, dtype=np.int64)
        values = np.ones(self.nnz, dtype=np.float32) if self.value is None else self.value.copy()
        fields = None if self.field is None else self.field.copy()
        cdef int64_t[::1] starts = starts_
        cdef const int64_t[::1] indptr = self.indptr
        cdef int32_t[::1] index = indices
        cdef int32_t[::1] field = fields
        cdef float[::1] value = values
        cdef int64_t nnz = 0
        cdef Entries entries
        if self.nnz:
            entries.indptr, entries.index, entries.value = &indptr[0], &index[0], &value[0]
            entries.field = NULL
            if field is not None:
                entries.field = &field[0]
            nnz = merge_shared(entries, self.rows, numbering.shared, &starts[0])
        if nnz < 0:
            raise BadInputError("the values of a row's rare features, which share a column, add up to more than a "
                                "number of 32 bits holds; write smaller values")
        return Dataset(
            starts_, indices[:nnz], values[:nnz], self.label, len(numbering), None if fields is None else fields[:nnz],
            self.weight, group=self.group, trusted=True, numbering=numbering, unit=self.unit)

    def only(self, features):
        """Return the same rows with only the entries of the chosen features (bool, features)."""
        return self.selected(self.index, features[self.index], self.features, self.numbering)

    # Return the rows with only the chosen entries. indices : of these entries.
    cdef selected(self, index, kept, features, numbering):
        before = np.concatenate([[0], np.cumsum(kept)])
        value, field = [None if array is None else array[kept] for array in (self.value, self.field)]
        return Dataset(
            before[self.indptr], index[kept], value, self.label, features, field, self.weight, group=self.group,
            numbering=numbering, unit=self.unit)

    def count_outside(self, const unsigned char[::1] marks):
        """Return the number of entries whose feature is not marked; feature j has the mark in bit j % 8 of marks[j //
        8]."""
        cdef Py_ssize_t entry, inside = 0
        cdef int32_t j
        if marks.shape[0] * 8 < self.features:
            raise ValueError(f"there are marks for {marks.shape[0] * 8} of {self.features} features")
        with nogil:
            for entry in range(self.nnz):
                j = self.csr.index[entry]
                inside += marks[j >> 3] >> (j & 7) & 1
        return self.nnz - inside

    def seen(self, rows=None):
        """Return bool (features): whether each feature occurs in the rows with these indices (int32), or in any row."""
        occurs = np.zeros(self.features, dtype=np.bool_)
        cdef unsigned char[::1] marks = occurs.view(np.uint8)
        cdef const int32_t[::1] chosen = rows
        cdef Py_ssize_t i, row, entry
        if chosen is not None:
            self.check_rows(chosen)
        with nogil:
            if chosen is None:
                for entry in range(self.nnz):
                    marks[self.csr.index[entry]] = 1
            else:
                for i in range(chosen.shape[0]):
                    row = chosen[i]
                    for entry in range(self.csr.indptr[row], self.csr.indptr[row + 1]):
                        marks[self.csr.index[entry]] = 1
        return occurs

    def counts(self, const int32_t[::1] rows, int threads=1):
        """Return int32 (features): the number of rows with each feature, among the rows with these indices."""
        self.check_rows(rows)
        # Each thread has its own counts; adding these must be cheap compared with reading the entries.
        cdef Py_ssize_t parts = max(1, min(threads, self.nnz // max(self.features, 1)))
        bounds = np.linspace(0, rows.shape[0], parts + 1).astype(np.intp)
        counted = in_parallel(lambda part: self.counts_of(rows[bounds[part]:bounds[part + 1]]), range(parts), parts)
        for others in counted[1:]:
            counted[0] += others
        return counted[0]

    cdef counts_of(self, const int32_t[::1] rows):
        times_ = np.zeros(self.features, dtype=np.int32)
        cdef int32_t[::1] times = times_
        cdef Sample x
        cdef Py_ssize_t i, entry
        cdef bint repeats = self.csr.field != NULL  # an id can be in several fields of a row
        with nogil:
            for i in range(rows.shape[0]):
                self.sample(rows[i], &x)
                for entry in range(x.nnz):
                    times[x.index[entry]] += not (repeats and entry and x.index[entry] == x.index[entry - 1])
        return times_

    def weights(self, const int32_t[::1] rows, int threads=1):
        """Return (features) the weight of the rows with each feature, among the rows with these indices; without
        weights, their number."""
        if self.weight is None:
            return self.counts(rows, threads)
        self.check_rows(rows)
        total_ = np.zeros(self.features)
        cdef double[::1] total = total_
        cdef Sample x
        cdef Py_ssize_t i, entry
        cdef bint repeats = self.csr.field != NULL
        with nogil:
            for i in range(rows.shape[0]):
                self.sample(rows[i], &x)
                for entry in range(x.nnz):
                    if not (repeats and entry and x.index[entry] == x.index[entry - 1]):
                        total[x.index[entry]] += self.weight_of(rows[i])
        return total_

    def entries_of_rows(self, const int32_t[::1] rows):
        """Return the number of entries of the rows with these indices."""
        self.check_rows(rows)
        cdef Py_ssize_t i, total = 0
        for i in range(rows.shape[0]):
            total += self.csr.indptr[rows[i] + 1] - self.csr.indptr[rows[i]]
        return total

    def magnitudes(self, rows):
        """Return two float32 arrays (features): the largest and the smallest absolute value of the entries of each
        column in the rows with these indices (int32); 0 for columns without entries."""
        largest_, smallest_ = np.zeros(self.features, dtype=np.float32), np.zeros(self.features, dtype=np.float32)
        cdef float[::1] largest = largest_
        cdef float[::1] smallest = smallest_
        cdef const int32_t[::1] chosen = self.checked(rows)
        cdef Sample x
        cdef Py_ssize_t i, j
        cdef int32_t column
        cdef float size
        with nogil:
            for i in range(chosen.shape[0]):
                self.sample(chosen[i], &x)
                for j in range(x.nnz):
                    column, size = x.index[j], fabsf(x.value[j])
                    largest[column] = max(largest[column], size)
                    if smallest[column] == 0 or size < smallest[column]:
                        smallest[column] = size
        return largest_, smallest_

    def longest_square(self, const int32_t[::1] rows=None):
        """Return the largest squared norm of the rows with these indices (int32), or of any row; 0 without rows."""
        if self.csr.constant and rows is None:
            return self.longest * float(self.shared[0]) ** 2
        cdef double largest = 0, squares
        cdef Py_ssize_t i, j
        cdef Sample x
        cdef Py_ssize_t count = self.rows
        if rows is not None:
            self.check_rows(rows)
            count = rows.shape[0]
        with nogil:
            for i in range(count):
                self.sample(i if rows is None else rows[i], &x)
                squares = 0
                for j in range(x.nnz):
                    squares += <double>x.value[j] * x.value[j]
                largest = max(largest, squares)
        return largest

    def normalized(self, known=None):
        """Return the same rows scaled to unit length; rows of length 0 do not change.

        With `known` (bool, features), only known features count towards the length of a row.
        """
        values = np.empty(self.nnz, dtype=np.float32)  # its memory is used only if the values differ
        cdef float[::1] out = values
        cdef const unsigned char[::1] marks = None if known is None else known.view(np.uint8)
        cdef Sample x
        cdef Py_ssize_t i, j, at
        cdef double squares, scale
        cdef float value, first = 0
        cdef bint equal = True
        if marks is not None and marks.shape[0] < self.features:
            raise ValueError(f"`known` has {marks.shape[0]} entries for {self.features} features")
        with nogil:
            for i in range(self.rows):
                self.sample(i, &x)
                squares = 0
                for j in range(x.nnz):
                    if marks is None or marks[x.index[j]]:
                        squares += <double>x.value[j] * x.value[j]
                scale = 1 / sqrt(squares) if squares > 0 else 1
                for j in range(x.nnz):
                    at = self.csr.indptr[i] + j
                    value = <float>(scale * x.value[j])
                    if at == 0:
                        first = value
                    if equal and value != first:
                        equal = False
                        out[:at] = first
                    if not equal:
                        out[at] = value
        # This happens if all rows have equally many values of 1, such as one per field.
        return self.changed(value=repeated(first, self.nnz) if equal and self.nnz else values)

    def __len__(self):
        return self.rows


# Store the columns of some entries. Returns the number of entries with a column. columns : see Dataset.renumbered; if
# it is None, `lookup` is used.
cdef Py_ssize_t renumber(
        const int32_t[::1] index, Numbering lookup, const int32_t[::1] columns, int32_t[::1] out):
    cdef Py_ssize_t entry, kept = 0
    with nogil:
        for entry in range(index.shape[0]):
            out[entry] = lookup.column(index[entry]) if columns is None else columns[index[entry]]
            kept += out[entry] != NOT_THERE
    return kept


def repeated(value, entries):
    """Return float32 (entries): the same value for each entry, in the memory of one."""
    return np.broadcast_to(np.float32(value), entries)


def restored(indptr, index, value, label, features, field, weight, group, numbering, unit):
    """Return a Dataset in another process; a scalar value is the value of all entries."""
    if value is not None and np.ndim(value) == 0:
        value = repeated(value, len(index))
    indptr, index, value, label, field, weight, group = [  # in a message, arrays begin anywhere
        array if array is None else np.require(array, requirements="A")
        for array in (indptr, index, value, label, field, weight, group)
    ]
    return Dataset(
        indptr, index, value, label, features, field, weight, group=group, trusted=True, numbering=numbering,
        unit=unit)


cdef is_repeated(array):
    return array.strides == (0,) and len(array) > 0
