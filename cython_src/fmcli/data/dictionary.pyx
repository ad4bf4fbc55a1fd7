"""Dictionaries: the columns of features whose ids are names or large numbers."""

import numpy as np

from fmcli.data.numbering import Numbering

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memcpy

# The bytes between tokens; names cannot contain them.
BLANKS = b" \t\r\n"
# Upper bounds per id: a number takes 8/3 slots of 16 bytes, and 12; a name takes 8/3 slots of 32, and 4.
BYTES_TO_SEARCH_NUMBER, BYTES_TO_SEARCH_NAME = 55, 90
SHARED = "(rare)"  # not an id: it would be a name

cdef enum:
    AHEAD = 16  # names whose memory is prefetched


cdef class FeatureIds:
    """Ids of features. They get the columns 0, 1, 2, ... in the order in which they are added.

    An id is a number from 0 to 2^63 - 1, or a name (bytes). The parser adds ids while it reads; then `sorted` gives
    columns that do not depend on the order of the rows.
    """

    def __len__(self):
        return self.ids.size()

    @property
    def nbytes(self):
        """The size of the ids in bytes."""
        return self.ids.bytes()

    def column_of(self, id):
        """Return the column of an id, a number or bytes. A new id is added."""
        return self.ids.add(id_of(id))

    def find(self, id):
        """Return the column of an id; -1 if it has none."""
        return self.ids.find(id_of(id))

    def add_numbers(self, const int64_t[::1] numbers):
        """Return int32 (n): the columns of numbers. New numbers are added."""
        columns_ = np.empty(numbers.shape[0], dtype=np.int32)
        cdef int32_t[::1] columns = columns_
        cdef Py_ssize_t i
        cdef Id id = named("", 0)
        id.name = NULL
        with nogil:
            for i in range(numbers.shape[0]):
                id.key = <uint64_t>numbers[i]
                columns[i] = self.ids.add(id)
        return columns_

    def add_all(self, FeatureIds other not None):
        """Add all ids of another object. Returns int32 (n): the column here of each column there."""
        return np.array(self.ids.add_all(other.ids), dtype=np.int32)

    def sorted(self, occurs):
        """Return the Dictionary of the ids whose columns occur, and int32 (n): its column for each column here; -1 for
        columns that do not occur.

        occurs : bool (n).
        """
        cdef Py_ssize_t i, start = 0, names = 0, count = self.ids.numbers.size()
        columns_ = np.full(len(self), NO_COLUMN, dtype=np.int32)
        numbers, places = int64s(self.ids.numbers.data(), count), int32s(self.ids.number_columns.data(), count)
        used = occurs[places]
        numbers, places = numbers[used], places[used]
        order = np.argsort(numbers)
        columns_[places[order]] = np.arange(len(order), dtype=np.int32)
        known = &self.ids.names
        text_ = np.empty(known.text_bytes(), dtype=np.uint8)
        ends_ = np.empty(known.size(), dtype=np.int64)
        cdef uint8_t[::1] text = text_
        cdef int64_t[::1] ends = ends_
        cdef int32_t[::1] columns = columns_
        cdef const uint8_t[::1] is_used = occurs.view(np.uint8)
        cdef vector[uint32_t] by_name
        cdef int32_t column
        cdef NameText name
        count = len(order)
        with nogil:
            by_name = known.in_order()
            for i in range(ends.shape[0]):
                if i + AHEAD < ends.shape[0]:
                    known.prefetch_at(by_name[i + AHEAD])
                column = known.column_at(by_name[i])
                if is_used[column]:
                    name = known.text_at(by_name[i])
                    memcpy(&text[0] + start, name.begin, name.length)
                    start += name.length
                    ends[names] = start
                    columns[column] = count + names
                    names += 1
        return Dictionary(numbers[order], text_[:start], ends_[:names]), columns_


cdef Id id_of(id):
    cdef Id made = named("", 0)
    cdef const char* name
    if isinstance(id, bytes):
        name = id
        return named(name, len(id))
    made.name = NULL
    made.key = <uint64_t>id
    return made


cdef int64s(const int64_t* data, Py_ssize_t size):
    return np.asarray(<const int64_t[:size]>data).copy() if size else np.empty(0, dtype=np.int64)


cdef int32s(const int32_t* data, Py_ssize_t size):
    return np.asarray(<const int32_t[:size]>data).copy() if size else np.empty(0, dtype=np.int32)


cdef class Dictionary:
    """The columns of features by id: first the numbers in increasing order, then the names in increasing order of their
    bytes. A feature's number in the model is its column.

    Parameters
    ----------
    numbers : int64 array (n), increasing, from 0.
    text : uint8 array, the concatenated names.
    ends : int64 array (m), the end of each name.
    with_shared : whether all other features share one more column, the last.

    Raises ValueError for numbers or names that are not increasing, and for names that a token cannot contain.
    """

    def __init__(self, numbers, text, ends, with_shared=False):
        cdef const int64_t[::1] number = numbers
        cdef const uint8_t[::1] byte = text
        cdef const int64_t[::1] end = ends
        cdef Py_ssize_t i, start = 0, size = byte.shape[0]
        cdef bint valid = True
        cdef Id last, name
        for i in range(number.shape[0]):
            valid &= number[i] >= 0 and (i == 0 or number[i] > number[i - 1])
        if not valid:
            raise ValueError("the numbers of a dictionary must be increasing, and not negative")
        last = named("", 0)
        for i in range(end.shape[0]):
            if not start < end[i] <= size:
                raise ValueError("the names of a dictionary must lie one after the other in its text")
            name.name, name.length = <const char*>&byte[start], end[i] - start
            if i and not before(last, name):
                raise ValueError("the names of a dictionary must be increasing")
            last, start = name, end[i]
        if start != size:
            raise ValueError("the text of a dictionary must end with its last name")
        if size and np.isin(text, np.frombuffer(BLANKS, dtype=np.uint8)).any():
            raise ValueError("the names of a dictionary must not have blanks")
        self.numbers, self.text, self.ends, self.with_shared = numbers, text, ends, with_shared

    def __len__(self):
        return len(self.numbers) + len(self.ends) + self.with_shared

    def __reduce__(self):
        return Dictionary, (self.numbers, self.text, self.ends, self.with_shared)

    @property
    def shared(self):
        """The column of all features without an id here; None: they have none."""
        return len(self) - 1 if self.with_shared else None

    def subset(self, kept):
        """Return the Dictionary of some of the columns (bool, columns)."""
        made = FeatureIds()
        made.add_all(self.ids)
        return made.sorted(kept)[0]

    def sharing(self, kept):
        """Return the Dictionary of some of the columns, with one more column that all other features share."""
        some = self.subset(kept)
        return Dictionary(some.numbers, some.text, some.ends, with_shared=True)

    @property
    def dimension(self):
        """The number of features, which all have columns."""
        return len(self)

    @property
    def arrays(self):
        """The arrays of the Dictionary."""
        return [self.numbers, self.text, self.ends]

    @property
    def bytes_to_search(self):
        """The approximate size of `ids` in bytes."""
        search = BYTES_TO_SEARCH_NUMBER * len(self.numbers) + BYTES_TO_SEARCH_NAME * len(self.ends)
        return search + sum(array.nbytes for array in self.arrays)

    @property
    def ids(self):
        """The ids as FeatureIds, made on first use. They must not be changed."""
        if self.found is None:
            made = FeatureIds()
            made.add_numbers(self.numbers)
            self.add_names(made)
            self.found = made
        return self.found

    cdef add_names(self, FeatureIds made):
        cdef Py_ssize_t i, start = 0
        cdef const uint8_t[::1] byte = self.text
        cdef const int64_t[::1] end = self.ends
        for i in range(end.shape[0]):
            made.ids.add(named(<const char*>&byte[start], end[i] - start))
            start = end[i]

    def features_of(self, columns):
        """Return the numbers of features in the model: their columns."""
        return columns

    def columns_of(self, features):
        """Return the columns of features with these numbers in the model."""
        return features

    def written(self, columns):
        """Return the ids of columns as in the text: numbers, or names as str."""
        return [self.id(column) for column in columns]

    def id(self, column):
        """Return the id of a column: a number, or a name as str, with escapes for bytes other than UTF-8. The shared
        column has the id SHARED."""
        if column == self.shared:
            return SHARED
        place = column - len(self.numbers)
        if place < 0:
            return int(self.numbers[column])
        start = self.ends[place - 1] if place else 0
        return self.text[start:self.ends[place]].tobytes().decode(errors="backslashreplace")

    def columns_from(self, source):
        """Return int32 (n): the column here of each column of another numbering; -1 for features without a column here,
        and for a shared column there."""
        cdef FeatureIds ours = self.ids, theirs
        cdef size_t i, count
        cdef Id id = named("", 0)
        cdef const int64_t[::1] numbers
        if isinstance(source, Numbering):
            numbers = source.ids.astype(np.int64)
        else:
            numbers = source.numbers
        columns_ = np.full(len(source), NO_COLUMN, dtype=np.int32)
        cdef int32_t[::1] columns = columns_
        id.name = NULL
        count = numbers.shape[0]
        with nogil:
            for i in range(count):
                id.key = <uint64_t>numbers[i]
                columns[i] = ours.ids.find(id)
        if isinstance(source, Dictionary):
            theirs = source.ids
            for i in range(theirs.ids.names.size()):
                columns[count + i] = ours.ids.find(theirs.ids.names.name(i))
        if self.with_shared:
            columns_[columns_ < 0] = self.shared
        return columns_

    def united(self, other):
        """Return the Dictionary of the features in this or another numbering; this Dictionary if it has all of them. A
        Dictionary with a shared column has all features."""
        if isinstance(other, Dictionary) and other.with_shared:
            return other
        if (self.columns_from(other) >= 0).all():
            return self
        made = FeatureIds()
        made.add_all(self.ids)
        if isinstance(other, Numbering):
            made.add_numbers(other.ids.astype(np.int64))
        else:
            made.add_all(other.ids)
        return made.sorted(np.ones(len(made), dtype=np.bool_))[0]


def of_numbers(numbering):
    """Return the Dictionary of a Numbering."""
    return Dictionary(numbering.ids.astype(np.int64), np.empty(0, dtype=np.uint8), np.empty(0, dtype=np.int64))
