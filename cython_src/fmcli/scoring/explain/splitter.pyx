"""The scores of rows as sums of terms, by the split of a model (fmcli/models/split.py)."""

import numpy as np

from fmcli.models.layout import REAL_TYPE
from fmcli.models.split import EverySubset, FieldPairs, Products, TablePairs, places_of_states

from fmcli.base.types cimport Sample, prefetch_line, real
from fmcli.data.dataset cimport Dataset
from libc.math cimport fabs
from libc.stdint cimport int32_t, int64_t
from libcpp.memory cimport unique_ptr
from libcpp.vector cimport vector


cdef extern from "fmcli/scoring/explain/terms.h" namespace "fmcli" nogil:
    cppclass Terms:
        void prefetch(const Sample&)
        double shares(const Sample&, double*) except +
        Py_ssize_t largest(const Sample&)
        void list(const Sample&, Py_ssize_t, double*) except +
        double sum(const Sample&, Py_ssize_t) except +
        Py_ssize_t width()
        double half(const Sample&, bint, double*) except +
        bint bounding

    cppclass FactorSlot:
        const real* at
        const int32_t* group
        int32_t side

    cppclass Monomial:
        Py_ssize_t parent, slot

    cppclass Move:
        Py_ssize_t source, monomial, target
        double times

    cppclass ProductTerms(Terms):
        Py_ssize_t rank
        vector[FactorSlot] slots
        vector[Monomial] monomials
        vector[Py_ssize_t] sizes
        vector[Move] moves
        vector[double] weight
        vector[Py_ssize_t] places

    cppclass SubsetTerms(Terms):
        Py_ssize_t rank
        const real* factors

    cppclass FieldPairTerms(Terms):
        Py_ssize_t rank, fields
        const real* factors
        vector[int32_t] first, second

    cppclass TablePairTerms(Terms):
        const real* weights
        int bits


cdef enum:
    ROWS_AHEAD = 2


cdef class Splitter:
    """The terms of one output of a model. It has its own work space, so each thread needs one.

    Parameters
    ----------
    split : Split
    output : the number of the output.
    fields : the fields of the two halves of a row; see `halves`.
    """

    cdef vector[unique_ptr[Terms]] terms
    cdef const real* weights  # of single features; NULL: there are none
    cdef readonly double constant
    cdef readonly Py_ssize_t features
    cdef list kept  # the arrays that terms point to

    def __init__(self, split, int output, fields=((), ())):
        self.terms.clear()
        self.kept = []
        self.weights = NULL
        self.constant, self.features = split.constant[output], -1
        if split.linear is not None:
            self.weights = self.reals(split.linear[output])
        for terms in split.terms:
            if isinstance(terms, Products):
                self.add_products(terms, output)
            elif isinstance(terms, EverySubset):
                self.add_subsets(terms, output)
            elif isinstance(terms, FieldPairs):
                self.add_field_pairs(terms, output, fields)
            elif isinstance(terms, TablePairs):
                self.add_table(terms, output)
            else:
                raise ValueError(f"{type(terms).__name__} are not terms")

    # The numbers of an array by feature; the array is kept.
    cdef const real* reals(self, array, bint by_feature=True) except *:
        cdef const real[::1] flat
        if by_feature:
            if self.features >= 0 and self.features != len(array):
                raise ValueError("the arrays have different numbers of features")
            self.features = len(array)
        array = np.ascontiguousarray(array, dtype=REAL_TYPE)
        self.kept.append(array)
        flat = array.reshape(-1)
        return &flat[0] if flat.shape[0] else <const real*>NULL

    cdef add_products(self, terms, int output):
        cdef ProductTerms* made = new ProductTerms()
        self.terms.push_back(unique_ptr[Terms](made))
        cdef FactorSlot slot
        cdef Monomial monomial
        cdef Move move
        cdef const int32_t[::1] group
        for each in terms.slots:
            slot.at, slot.side = self.reals(each.array[output]), each.side
            slot.group = NULL
            if each.group is not None and len(each.group):
                group = each.group
                if group.shape[0] != self.features:
                    raise ValueError("there is not a group for each feature")
                self.kept.append(each.group)
                slot.group = &group[0]
            made.slots.push_back(slot)
        for monomial.parent, monomial.slot in terms.monomials:
            made.monomials.push_back(monomial)
        made.sizes = terms.sizes
        for (move.source, move.monomial, move.target), move.times in zip(terms.moves, terms.times, strict=True):
            made.moves.push_back(move)
        made.rank = terms.weight.shape[2]
        made.weight = terms.weight[output].ravel()
        made.places = places_of_states(terms)

    cdef add_subsets(self, terms, int output):
        cdef SubsetTerms* made = new SubsetTerms()
        self.terms.push_back(unique_ptr[Terms](made))
        made.rank, made.factors = terms.array.shape[2], self.reals(terms.array[output])

    cdef add_field_pairs(self, terms, int output, fields):
        cdef FieldPairTerms* made = new FieldPairTerms()
        self.terms.push_back(unique_ptr[Terms](made))
        made.fields, made.rank = terms.array.shape[2:]
        made.factors = self.reals(terms.array[output])
        made.first, made.second = fields

    cdef add_table(self, terms, int output):
        cdef TablePairTerms* made = new TablePairTerms()
        self.terms.push_back(unique_ptr[Terms](made))
        made.weights, made.bits = self.reals(terms.array[output], False), terms.bits

    # Raise ValueError unless rows start .. stop - 1 have only features of the model.
    cdef check(self, Dataset data, Py_ssize_t start, Py_ssize_t stop):
        if not 0 <= start <= stop <= data.rows:
            raise ValueError("there are no such rows")
        if data.nnz and data.features > max(self.features, 0):
            raise ValueError("the rows have features that the model does not have")

    def shares(self, Dataset data, Py_ssize_t start, Py_ssize_t stop, double[::1] scores, double[::1] out):
        """Add scores[i] += the scores of rows i = start .. stop - 1; out[e] += the share of entry e of these rows, its
        Shapley value against the row without entries."""
        cdef Sample x, ahead
        cdef Py_ssize_t i, j
        cdef size_t t
        cdef double term, total
        cdef const int64_t[::1] indptr = data.indptr
        cdef double* shares
        self.check(data, start, stop)
        if scores.shape[0] < stop or out.shape[0] < data.nnz:
            raise ValueError("there is too little room for scores and shares")
        with nogil:
            for i in range(start, stop):
                if i + ROWS_AHEAD < stop:
                    data.sample(i + ROWS_AHEAD, &ahead)
                    self.prefetch(&ahead)
                data.sample(i, &x)
                total = self.constant
                if x.nnz:
                    shares = &out[indptr[i]]
                    for t in range(self.terms.size()):
                        total += self.terms[t].get().shares(x, shares)
                    if self.weights != NULL:
                        for j in range(x.nnz):
                            term = <double>self.weights[x.index[j]] * x.value[j]
                            shares[j] += term
                            total += term
                scores[i] += total

    cdef void prefetch(self, const Sample* x) noexcept nogil:
        cdef Py_ssize_t j
        cdef size_t t
        for t in range(self.terms.size()):
            self.terms[t].get().prefetch(x[0])
        if self.weights != NULL:
            for j in range(x.nnz):
                prefetch_line(self.weights + x.index[j])

    def largest(self, Dataset data, Py_ssize_t row):
        """Return the largest number of entries of a row's sets with terms."""
        cdef Sample x
        cdef size_t t
        cdef Py_ssize_t found
        self.check(data, row, row + 1)
        data.sample(row, &x)
        found = min(x.nnz, 1)
        for t in range(self.terms.size()):
            found = max(found, self.terms[t].get().largest(x))
        return found

    def listed(self, Dataset data, Py_ssize_t row, Py_ssize_t size, double[::1] out):
        """Add out[..] += the terms of the sets of `size` entries of a row, in lexicographic order."""
        cdef Sample x
        cdef Py_ssize_t j, k, sets = 1
        cdef size_t t
        self.check(data, row, row + 1)
        data.sample(row, &x)
        for k in range(size):
            sets = sets * (x.nnz - k) // (k + 1)
        if not 1 <= size <= x.nnz or out.shape[0] < sets:
            raise ValueError("a row has no such sets, or there is too little room for their terms")
        with nogil:
            for t in range(self.terms.size()):
                if size <= self.terms[t].get().largest(x):
                    self.terms[t].get().list(x, size, &out[0])
            if size == 1 and self.weights != NULL:
                for j in range(x.nnz):
                    out[j] += <double>self.weights[x.index[j]] * x.value[j]

    def sum(self, Dataset data, Py_ssize_t row, Py_ssize_t size):
        """Return the sum of the terms of all sets of `size` > 1 entries of a row."""
        cdef Sample x
        cdef size_t t
        cdef double total = 0
        self.check(data, row, row + 1)
        data.sample(row, &x)
        with nogil:
            for t in range(self.terms.size()):
                total += self.terms[t].get().sum(x, size)
        return total

    @property
    def width(self):
        """The number of items in the vector of a half of a row."""
        cdef size_t t
        return sum([self.terms[t].get().width() for t in range(self.terms.size())])

    def halves(
        self, Dataset data, Py_ssize_t start, Py_ssize_t stop, double[::1] own, double[:, ::1] out, *, bint second,
        bint bounding=False
    ):
        """Compute own[i - start], out[i - start] <- the sum of the terms of row i, and its vector, for rows start ..
        stop - 1.

        The score of the union of two rows without common features is the constant, plus the sums of the terms of both,
        plus the inner product of the vector of the first and the vector of the `second`. With `bounding`, all
        parameters and values are positive, and each entry counts twice: this then bounds everything that is added up to
        the score.
        """
        cdef Sample x
        cdef Py_ssize_t i, j, at
        cdef size_t t
        cdef double total, term
        self.check(data, start, stop)
        if own.shape[0] < stop - start or out.shape[0] < stop - start or out.shape[1] < self.width:
            raise ValueError("there is too little room for halves")
        with nogil:
            for t in range(self.terms.size()):
                self.terms[t].get().bounding = bounding
            for i in range(start, stop):
                data.sample(i, &x)
                total, at = 0, 0
                for t in range(self.terms.size()):
                    total += self.terms[t].get().half(x, second, &out[i - start, 0] + at)
                    at += self.terms[t].get().width()
                if self.weights != NULL:
                    for j in range(x.nnz):
                        term = <double>self.weights[x.index[j]] * x.value[j]
                        total += 2 * fabs(term) if bounding else term
                own[i - start] = total
            for t in range(self.terms.size()):
                self.terms[t].get().bounding = False
