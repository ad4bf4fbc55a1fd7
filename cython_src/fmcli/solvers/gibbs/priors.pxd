from fmcli.models.model cimport MAX_BLOCKS, Model
from fmcli.solvers.coordinate.descent cimport Descent
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t


# The normal priors of a block's parameters, a table with a row for each distribution of whole parameter rows.
cdef struct BlockPrior:
    Py_ssize_t columns  # of the table: the lanes of a body, and the weight
    Py_ssize_t each     # rows of a feature; 0: all rows of the block have the prior of table row 0
    double* mean
    double* precision


cdef class Priors:
    cdef readonly Descent descent
    cdef readonly list mean, precision
    cdef public double noise    # the precision of the labels
    cdef public double flat     # the precision of the bias where it is drawn with other parameters
    cdef readonly double weight  # the total weight of the rows
    cdef readonly uint64_t seed
    cdef public uint32_t sweep
    cdef BlockPrior block[MAX_BLOCKS]
    cdef const int32_t* group_  # of each feature
    cdef readonly object group
    cdef readonly Py_ssize_t groups

    # The row of a block's table for a row of its parameters.
    cdef inline Py_ssize_t place(self, int b, Py_ssize_t row) noexcept nogil:
        cdef Py_ssize_t each = self.block[b].each
        if each == 0:
            return 0
        if self.group_ == NULL:
            return row % each
        return self.group_[row // each] * each + row % each
