from fmcli.base.types cimport ColumnView, real
from fmcli.models.related.sums cimport RelatedSums
from fmcli.solvers.coordinate.columns cimport Columns


cdef class RelationRows(RelatedSums):
    cdef readonly Columns columns, samples
    cdef Py_ssize_t width  # the factors of a row, and its weight
    cdef Py_ssize_t state_size  # in bytes
    cdef char* states
    cdef object state_memory

    cdef inline double* state(self, Py_ssize_t i) noexcept nogil:
        return <double*>(self.states + i * self.state_size)

    # The sums of row i for a class.
    cdef inline const real* sums_of(self, Py_ssize_t i, int output) noexcept nogil:
        return self.sums + (output * self.table.rows + i) * self.table.lanes

    cdef void enter(self, Py_ssize_t i, int output) noexcept nogil
    cdef void complete(self, Py_ssize_t i) noexcept nogil
    cdef void change(self, Py_ssize_t i, int output, real* step) noexcept nogil
    cdef void leave(self, Py_ssize_t i, int output) noexcept nogil
