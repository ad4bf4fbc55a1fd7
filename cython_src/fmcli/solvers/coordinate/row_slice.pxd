from fmcli.base.types cimport ColumnView, real
from fmcli.models.model cimport ColumnModel, Model
from fmcli.models.parameters cimport Parameters
from fmcli.models.workspace cimport Workspace
from fmcli.solvers.coordinate.relation_rows cimport RelationRows
from fmcli.solvers.coordinate.descent cimport BlockRule, Descent
from fmcli.solvers.coordinate.quadratic_bound cimport QuadraticBound
from libc.stdint cimport int32_t

cdef enum:
    CHUNK = 64  # the number of samples whose derivatives are summed in reals; sums of chunks are in double


# The row of parameters that is being updated.
cdef struct CurrentRow:
    real* body
    real* weight
    Py_ssize_t lanes  # reals in its body
    bint with_bias    # the bias is treated as the row's weight
    BlockRule* rule
    const real* hold_body    # the row's quadratic prior; NULL: none. See Descent
    const real* hold_weight
    const real* pull_body
    const real* pull_weight


cdef class RowSlice:
    cdef Descent descent
    cdef Model model
    cdef ColumnModel by_column  # as in Descent
    cdef Workspace workspace
    cdef QuadraticBound quadratic
    cdef object memory
    cdef CurrentRow current
    cdef RelationRows related  # whose rows the row of parameters enters; None: the samples
    cdef real* q         # the derivatives of a chunk's scores
    cdef real* kept_q    # the derivatives of the row's first chunk
    cdef Py_ssize_t kept  # the most samples of a row whose derivatives are kept until the step is applied
    cdef real* second    # the second derivatives, in the same layout
    cdef real* step      # the step, rounded to the change of the parameters
    cdef double* change  # the changes of a chunk's scores by the step
    cdef int32_t consecutive[CHUNK]  # a chunk of all samples
    cdef real ones[CHUNK]            # and the values there

    cdef void select_row(self, ColumnView* v) noexcept nogil
    cdef (const real*, const real*) same_row(self, Parameters other, const ColumnView* v) noexcept nogil
    cdef bint next_slice(self, ColumnView* v) noexcept nogil
    cdef Py_ssize_t slice_width(self, int block, Py_ssize_t at) noexcept nogil
    cdef void follow(self, RowSlice other) noexcept nogil
    cdef ColumnView chunk(self, const ColumnView* v, Py_ssize_t at) noexcept nogil
    cdef real* number(self, const ColumnView* v, Py_ssize_t f) noexcept nogil
    cdef double hold(self, const ColumnView* v, Py_ssize_t f) noexcept nogil
    cdef double pull(self, const ColumnView* v, Py_ssize_t f) noexcept nogil
    cdef void put(self, const ColumnView* v, bint stepped) noexcept nogil
    cdef bint affine(self) noexcept nogil
    cdef void derivatives(self, const ColumnView* chunk) noexcept nogil
    cdef void fill_scores(self, Py_ssize_t start, Py_ssize_t stop) noexcept nogil
    cdef void derivatives_by_gradient(self, const ColumnView* chunk) noexcept nogil
    cdef void score_changes(self, const ColumnView* v, const ColumnView* chunk) noexcept nogil
    cdef void changes_by_scoring(self, const ColumnView* v, const ColumnView* chunk) noexcept nogil
