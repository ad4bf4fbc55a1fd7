"""The numbering of the features that occur: a model needs columns only for these."""

import numpy as np

from libc.stdint cimport int32_t, uint8_t, uint64_t

cdef enum:
    WORD = 64  # features that share a word of bits
    SPAN = 1 << 15  # features that share a mark, so a few large features cost no search of all words


cdef class Numbering:
    """Features, and the column of each: 0, 1, 2, ... in increasing order of the features.

    Parameters
    ----------
    ids : int32 array (columns), features in increasing order.
    dimension : a number above all features; by default the last feature plus 1.

    A feature is looked up in a bitmap, and in the number of features before each word. Both are arrays of zeros; only
    their used parts take memory. Raises ValueError if the features are not increasing, or not below the dimension.
    """

    def __init__(self, ids, dimension=None):
        ids = np.require(ids, requirements="A")  # in a message, arrays begin anywhere
        cdef const int32_t[::1] features = ids
        cdef Py_ssize_t column, n = features.shape[0]
        cdef int32_t word
        self.ids = ids
        self.dimension = (int(ids[n - 1]) + 1 if n else 0) if dimension is None else dimension
        # Differences of int32 would overflow.
        if n and (ids[0] < 0 or ids[n - 1] >= self.dimension or (ids[1:] <= ids[: n - 1]).any()):
            raise ValueError("features must be increasing, and below the dimension")
        words = (self.dimension + WORD - 1) // WORD
        self.bits = np.zeros(words, dtype=np.uint64)
        self.before = np.zeros(words, dtype=np.int32)
        with nogil:
            for column in range(n):
                word = features[column] // WORD
                if not self.bits[word]:
                    self.before[word] = <int32_t>column
                self.bits[word] |= <uint64_t>1 << features[column] % WORD

    def __len__(self):
        return len(self.ids)

    def __reduce__(self):
        return Numbering, (self.ids, self.dimension)

    @property
    def shared(self):
        """None: the other features do not share a column, as they can in a Dictionary."""
        return None

    @property
    def arrays(self):
        """The arrays of the numbering, without the arrays for searches."""
        return [self.ids]

    def subset(self, kept):
        """Return the numbering of some of the columns (bool, columns)."""
        return Numbering(self.ids[kept], self.dimension)

    def features_of(self, columns):
        """Return the features of columns."""
        return self.ids[columns]

    def written(self, columns):
        """Return the features of columns as in the text: numbers."""
        return self.ids[columns].tolist()

    def columns_of(self, const int32_t[::1] features):
        """Return int32 (n): the columns of features; -1 for features without a column."""
        columns_ = np.empty(features.shape[0], dtype=np.int32)
        cdef int32_t[::1] columns = columns_
        cdef Py_ssize_t i
        with nogil:
            for i in range(features.shape[0]):
                columns[i] = NOT_THERE if features[i] < 0 else self.column(features[i])
        return columns_

    def columns_from(self, source):
        """Return int32 (n): the column here of each column of another numbering; -1 for features without a column
        here."""
        if isinstance(source, Numbering):
            return self.columns_of(source.ids)
        columns = np.full(len(source), NOT_THERE, dtype=np.int32)
        count = np.searchsorted(source.numbers, self.dimension)
        columns[:count] = self.columns_of(source.numbers[:count].astype(np.int32))
        return columns

    def united(self, other):
        """Return the numbering of the features in either numbering; one of the two if it has all features. With a
        Dictionary, the result is a Dictionary."""
        if not isinstance(other, Numbering):
            return other.united(self)
        for one, another in ((self, other), (other, self)):
            if one.dimension >= another.dimension and (one.columns_of(another.ids) >= 0).all():
                return one
        return Numbering(np.union1d(self.ids, other.ids), max(self.dimension, other.dimension))


def occurring(const int32_t[::1] index, Py_ssize_t dimension):
    """Return the numbering of the features in an array. All must be at least 0 and below the dimension."""
    bits_ = np.zeros((dimension + WORD - 1) // WORD, dtype=np.uint64)
    cdef uint64_t[::1] bits = bits_
    cdef uint8_t[::1] spans = np.zeros(dimension // SPAN + 1, dtype=np.uint8)
    cdef Py_ssize_t entry, span, word, bit, n = 0
    with nogil:
        for entry in range(index.shape[0]):
            bits[index[entry] // WORD] |= <uint64_t>1 << index[entry] % WORD
            spans[index[entry] // SPAN] = 1
        for span in range(spans.shape[0]):
            if spans[span]:
                for word in range(span * (SPAN // WORD), min((span + 1) * (SPAN // WORD), bits.shape[0])):
                    n += ones(bits[word])
    ids_ = np.empty(n, dtype=np.int32)
    cdef int32_t[::1] ids = ids_
    n = 0
    with nogil:
        for span in range(spans.shape[0]):
            if not spans[span]:
                continue
            for word in range(span * (SPAN // WORD), min((span + 1) * (SPAN // WORD), bits.shape[0])):
                if not bits[word]:
                    continue
                for bit in range(WORD):
                    if bits[word] >> bit & 1:
                        ids[n] = <int32_t>(word * WORD + bit)
                        n += 1
    return Numbering(ids_, dimension)


def moved(array, int axis, source, target, Py_ssize_t size, fill=0):
    """Return the array with another length of an axis: positions `source` move to `target`, and all other positions get
    `fill`."""
    out = np.full((*array.shape[:axis], size, *array.shape[axis + 1:]), fill, dtype=array.dtype)
    before = (slice(None),) * axis
    out[(*before, target)] = array[(*before, source)]
    return out
