from fmcli.base.types cimport ColumnView, Sample, real
from fmcli.models.model cimport Model, Workspace
from fmcli.solvers.coordinate.descent cimport BlockRule, Descent
from fmcli.solvers.coordinate.quadratic_bound cimport QuadraticBound


# The row that is updated.
cdef struct CurrentRow:
    int block, output
    Py_ssize_t row
    real* body
    real* weight
    Py_ssize_t lanes  # of its body
    bint with_bias    # the bias stands for a weight behind the body
    BlockRule* rule


cdef class CoordinateUpdater:
    cdef require(self)

    cdef Descent descent
    cdef Model model
    cdef Workspace workspace
    cdef QuadraticBound quadratic
    cdef tuple memory
    cdef CurrentRow current
    cdef double curvature  # of a row that moves as one
    cdef real* q           # derivatives of some samples' scores
    cdef real* second      # second derivatives in the same places
    cdef real* slopes
    cdef real* curvatures
    cdef real* step
    cdef double* change    # of some samples' scores

    cdef void update_row(self, ColumnView* v) noexcept nogil
    cdef Py_ssize_t together(self, Py_ssize_t at) noexcept nogil
    cdef void begin(self, const ColumnView* v) noexcept nogil
    cdef void by_nuclear_norm(self, const ColumnView* v) noexcept nogil
    cdef ColumnView part(self, const ColumnView* v, Py_ssize_t at) noexcept nogil
    cdef void derivatives(self, const ColumnView* part) noexcept nogil
    cdef void by_gradient(self, const ColumnView* part) noexcept nogil
    cdef void bound(self, const ColumnView* v) noexcept nogil
    cdef void minimise(self, const ColumnView* v) noexcept nogil
    cdef void take(self, const ColumnView* v) noexcept nogil
    cdef bint round_step(self, const ColumnView* v) noexcept nogil
    cdef real* number(self, const ColumnView* v, Py_ssize_t f) noexcept nogil
    cdef void put(self, const ColumnView* v, bint stepped) noexcept nogil
    cdef bint joint(self, const ColumnView* v) noexcept nogil
    cdef void score_changes(self, const ColumnView* v, const ColumnView* part) noexcept nogil
    cdef void changes_by_scoring(self, const ColumnView* v, const ColumnView* part) noexcept nogil
    cdef void move(self, const ColumnView* v) noexcept nogil
    cdef double loss_after(self, const ColumnView* v, bint stepped) noexcept nogil
    cdef double measure_sample(self, Py_ssize_t i) noexcept nogil
