from fmcli.models.parameters cimport MAX_BLOCKS
from fmcli.solvers.coordinate.descent cimport Descent
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t


# The normal priors of a block's parameters, a table with a row for each distribution of whole parameter rows.
cdef struct BlockPrior:
    Py_ssize_t columns  # of the table: the lanes of a body, and the weight
    Py_ssize_t each     # rows of a feature; 0: all rows of the block share the prior in table row 0
    double* mean
    double* precision
    const uint32_t* key  # the number of each row of the block for its random numbers; NULL: the row's own number


cdef class Priors:
    cdef readonly Descent descent
    cdef readonly list mean, precision
    cdef public double noise    # the precision of the labels
    cdef public double flat     # the precision of the bias when it is drawn with other parameters
    cdef public double weight  # the total weight of the rows, to be spread over them
    cdef readonly uint64_t seed
    cdef public uint32_t sweep
    cdef BlockPrior block[MAX_BLOCKS]
    cdef const int32_t* group_  # of each feature
    cdef const uint32_t* sample_key_  # as `key`, of each sample
    cdef readonly object group
    cdef object keys
    cdef readonly Py_ssize_t groups

    # The number of a row of a block, or of a sample, for its random numbers.
    cdef inline uint32_t key(self, int b, Py_ssize_t row) noexcept nogil:
        return <uint32_t>row if self.block[b].key == NULL else self.block[b].key[row]

    cdef inline uint32_t sample_key(self, Py_ssize_t i) noexcept nogil:
        return <uint32_t>i if self.sample_key_ == NULL else self.sample_key_[i]

    # The row of a block's table that has the prior of a row of parameters.
    cdef inline Py_ssize_t place(self, int b, Py_ssize_t row) noexcept nogil:
        cdef Py_ssize_t each = self.block[b].each
        if each == 0:
            return 0
        if self.group_ == NULL:
            return row % each
        return self.group_[row // each] * each + row % each
