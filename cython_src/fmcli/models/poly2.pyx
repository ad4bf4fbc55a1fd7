"""Polynomial regression of degree 2, with one weight for each pair of features."""

from fmcli.models.layout import BlockLayout
from fmcli.models.linear import bias_block
from fmcli.errors import BadInputError, UsageError

from fmcli.base.types cimport ColumnView, Factors, Sample, Scratch, SparseGradient, prefetch_line, real
from fmcli.data.dataset cimport Dataset
from fmcli.kernels.simd cimport kernels
from fmcli.models.model cimport MAX_BLOCKS, Model
from libc.stdint cimport int32_t, int64_t, uint64_t
from libc.string cimport memset

MOST_ENTRIES = 1 << 16  # of a sample, so that its pairs can be numbered by int32

cdef enum:
    # The largest number of pairs of a sample whose weights are prefetched: more would evict each other from the cache.
    MOST_AHEAD = 1 << 12
    MOST_BITS = 30  # entries and positions of the table are numbered by int32


cdef inline uint64_t splitmix64(uint64_t z) noexcept nogil:
    z += <uint64_t>0x9E3779B97F4A7C15
    z = (z ^ (z >> 30)) * <uint64_t>0xBF58476D1CE4E5B9
    z = (z ^ (z >> 27)) * <uint64_t>0x94D049BB133111EB
    return z ^ (z >> 31)


# The size of a hash table for n entries: a power of two, so large that at most half of the table is used.
cdef inline Py_ssize_t table_size(Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t size = 1
    while size < 2 * n:
        size *= 2
    return size


cdef inline Py_ssize_t pairs_of(Py_ssize_t n) noexcept nogil:
    return n * (n - 1) // 2


cdef class Poly2(Model):
    """b + <w, x> + sum over pairs i < j of W_ij x_i x_j ([SGL] SEC-REG).

    The weights of the pairs are a table. If all pairs fit into 2^pair_bits entries, pair i < j has the entry
    j(j - 1)/2 + i, which stays the same when features are added. Otherwise, its entry is a hash with 2^pair_bits
    values, and pairs of a sample that share an entry are one coordinate.
    """

    cdef int table, bits
    cdef bint linear, exact

    def __init__(self, features, outputs, *, pair_bits, bias=True, linear=True):
        if not 1 <= pair_bits <= MOST_BITS:
            raise ValueError(f"pair_bits is {pair_bits}; it must be 1 to {MOST_BITS}")
        pairs = features * (features - 1) // 2
        self.linear, self.bits, self.exact = linear, pair_bits, pairs <= 1 << pair_bits
        entries = pairs if self.exact else 1 << pair_bits
        layout = [*bias_block(bias), *([BlockLayout(weight="w")] if linear else [])]
        self.table = len(layout)
        super().__init__(
            features, outputs, [*layout, BlockLayout(axes=(entries,), weight="W", touched="selected", part="v")])

    def prepare(self, data, rows, generator):
        if data.longest > MOST_ENTRIES:
            raise BadInputError(
                f"an example has {data.longest:,} entries; poly2 takes at most {MOST_ENTRIES:,}: leave out "
                "features, or choose another model")

    def inherit(self, previous, seen):
        if self.exact != (<Poly2?>previous).exact:
            pairs = self.features * (self.features - 1) // 2
            raise UsageError(
                f"the earlier model has an entry for each pair, but with the new features there are {pairs:,} pairs, "
                f"more than 2^{self.bits}", pair_bits=(pairs - 1).bit_length())

    cdef inline int32_t entry(self, int64_t i, int64_t j) noexcept nogil:
        if self.exact:
            return <int32_t>(pairs_of(j) + i)
        return <int32_t>(splitmix64((<uint64_t>i << 32) + <uint64_t>j) >> (64 - self.bits))

    cdef Py_ssize_t most_rows(self, int b, Py_ssize_t longest):
        return pairs_of(longest) if b == self.table else Model.most_rows(self, b, longest)

    # The table entries of a sample's pairs. If they are hashes, a hash table to look them up comes first.
    cdef Py_ssize_t ids_size(self, Py_ssize_t longest):
        return pairs_of(longest) + (0 if self.exact else table_size(pairs_of(longest)))

    # The values of the coordinates, sums of x_i x_j.
    cdef Py_ssize_t work_size(self, Py_ssize_t longest):
        return pairs_of(longest)

    cdef Py_ssize_t scoring_ids_size(self, Py_ssize_t longest):
        return 0

    cdef Py_ssize_t scoring_work_size(self, Py_ssize_t longest):
        return 0

    cdef void prefetch(self, const Sample* x) noexcept nogil:
        cdef int c
        cdef int32_t entry
        cdef Py_ssize_t i, j
        cdef Factors weight = self.weights(self.table, 0)
        Model.prefetch(self, x)
        if pairs_of(x.nnz) > MOST_AHEAD:
            return
        for j in range(x.nnz):
            for i in range(j):
                entry = self.entry(x.index[i], x.index[j])
                for c in range(self.outputs):
                    weight = self.weights(self.table, c, entry)
                    prefetch_line(weight.at)

    cdef void rows(self, const Sample* x, Scratch* s) noexcept nogil:
        cdef const int32_t* row[MAX_BLOCKS]
        cdef Py_ssize_t n[MAX_BLOCKS]
        cdef Py_ssize_t size = 0 if self.exact else table_size(pairs_of(x.nnz))
        self.usual_rows(x, row, n)
        row[self.table] = s.ids + size
        n[self.table] = self.coordinates(x, s.ids, size, s.ids + size, s.work)
        self.cut(row, n, s)

    # List each table entry of the sample's pairs once, with the sum of their x_i x_j, and return the number of entries.
    # Hashed entries are looked up in a hash table of their positions + 1.
    cdef Py_ssize_t coordinates(
        self, const Sample* x, int32_t* places, Py_ssize_t size, int32_t* entries, real* products
    ) noexcept nogil:
        cdef Py_ssize_t i, j, at, n = 0
        cdef int32_t entry
        memset(places, 0, size * sizeof(int32_t))
        for j in range(x.nnz):
            for i in range(j):
                entry = self.entry(x.index[i], x.index[j])
                if size:
                    at = entry & (size - 1)
                    while places[at] and entries[places[at] - 1] != entry:
                        at = (at + 1) & (size - 1)
                    if places[at]:
                        products[places[at] - 1] += <real>x.value[i] * x.value[j]
                        continue
                    places[at] = <int32_t>(n + 1)
                entries[n], products[n] = entry, <real>x.value[i] * x.value[j]
                n += 1
        return n

    cdef void score(self, const Sample* x, Scratch* s) noexcept nogil:
        cdef int c
        cdef Py_ssize_t i, j
        cdef double total, with_j
        cdef Factors w, weight
        for c in range(self.outputs):
            total = 0
            for j in range(x.nnz):
                with_j = 0
                for i in range(j):
                    weight = self.weights(self.table, c, self.entry(x.index[i], x.index[j]))
                    with_j += <double>weight.at[0] * x.value[i]
                total += with_j * x.value[j]
            s.score[c] = self.bias(c) + total
            if self.linear:
                w = self.weights(self.table - 1, c)
                s.score[c] += kernels.linear(&w, x)

    cdef void gradient(self, const Sample* x, Scratch* s) noexcept nogil:
        cdef int c
        cdef Py_ssize_t i
        cdef real slope
        cdef SparseGradient* gradient
        for c in range(self.outputs):
            gradient = s.gradients + c * self.n_blocks
            slope = <real>s.slope[c]
            if self.has_bias:
                gradient.weight[0] = slope
            if self.linear:
                kernels.linear_gradient(x, s.slope[c], gradient[self.table - 1].weight)
            for i in range(gradient[self.table].n):
                gradient[self.table].weight[i] = slope * s.work[i]

    # No cache: the derivatives are the values of the entries and of the coordinates.
    cdef Py_ssize_t cache_size(self, Dataset data):
        return 0

    cdef void score_gradient(self, const ColumnView* v, real* q) noexcept nogil:
        kernels.weight_score_gradient(v, q)
