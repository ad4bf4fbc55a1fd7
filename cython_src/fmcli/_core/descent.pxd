from fmcli._core.columns cimport Columns
from fmcli._core.data cimport Dataset
from fmcli._core.loss cimport Loss
from fmcli._core.model cimport MAX_BLOCKS, Model, Workspace
from fmcli._core.penalty cimport Penalty
from fmcli._core.quadratic cimport Quadratic
from fmcli._core.simd cimport Strength
from fmcli._core.types cimport Column, Sample, real
from libc.stdint cimport int32_t


# Where a row of parameters is, and the samples that it enters.
cdef struct Place:
    int block, output
    Py_ssize_t row    # of its class
    Py_ssize_t width  # of the row: body and weight
    Py_ssize_t apart  # reals from one sample's derivatives to the next
    real* body
    real* weight
    Column column


cdef class Descent:
    cdef Model model
    cdef Loss loss
    cdef Penalty penalty
    cdef Dataset data
    cdef Workspace workspace
    cdef Quadratic quadratic
    cdef list columns, memory
    cdef Columns everyone
    cdef bint bounded
    cdef Py_ssize_t cache   # reals of the model's part of a record, for one output
    cdef double group
    cdef Py_ssize_t header  # bytes of a record before the model's part
    cdef Py_ssize_t apart   # bytes from one record to the next
    cdef char* records
    cdef real* q
    cdef real* slopes
    cdef real* curvatures
    cdef real* step
    cdef bint together[MAX_BLOCKS]  # scores are affine in a row as a whole
    cdef bint sure[MAX_BLOCKS]      # the bound holds for the step that is taken
    cdef bint fitted[MAX_BLOCKS]    # weights of kernels
    cdef bint simplex[MAX_BLOCKS]   # the row is projected after a step
    cdef Strength body[MAX_BLOCKS]
    cdef Strength weight[MAX_BLOCKS]

    cdef inline double* record(self, Py_ssize_t i) noexcept nogil:
        return <double*>(self.records + i * self.apart)

    cdef void score_again(self, const Column* column) noexcept nogil
    cdef void visit(self, Place* place) noexcept nogil
    cdef Py_ssize_t slice_of(self, const Place* place, Py_ssize_t at) noexcept nogil
    cdef void begin(self, const Place* place, Py_ssize_t at, Py_ssize_t width) noexcept nogil
    cdef Column part(self, const Place* place, Py_ssize_t at) noexcept nogil
    cdef void derivatives(self, const Place* place, const Column* part) noexcept nogil
    cdef void by_gradient(self, const Place* place, const Column* part) noexcept nogil
    cdef void bound(self, const Place* place, Py_ssize_t at, Py_ssize_t width) noexcept nogil
    cdef void take(self, const Place* place, Py_ssize_t at) noexcept nogil
    cdef bint round_step(self, const Place* place, Py_ssize_t at) noexcept nogil
    cdef real* number(self, const Place* place, Py_ssize_t f) noexcept nogil
    cdef double group_of(self, int b) noexcept nogil
    cdef void write(self, const Place* place, Py_ssize_t at, double share) noexcept nogil
    cdef void move_scores(self, const Place* place, Py_ssize_t at) noexcept nogil
    cdef double loss_of(self, const Place* place) noexcept nogil
