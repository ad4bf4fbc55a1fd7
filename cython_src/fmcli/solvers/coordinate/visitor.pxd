from fmcli.base.types cimport Sample, Visit, real
from fmcli.models.model cimport Model, Workspace
from fmcli.solvers.coordinate.descent cimport Descent, Manner
from fmcli.solvers.coordinate.quadratic cimport Quadratic


# The row that is visited.
cdef struct Place:
    int block, output
    Py_ssize_t row
    real* body
    real* weight
    Py_ssize_t lanes  # of its body
    bint with_bias    # the bias stands for a weight behind the body
    Manner* manner


cdef class Visitor:
    cdef require(self)

    cdef Descent descent
    cdef Model model
    cdef Workspace workspace
    cdef Quadratic quadratic
    cdef tuple memory
    cdef Place place
    cdef double curvature  # of a row that moves as one
    cdef real* q           # derivatives of some samples' scores
    cdef real* second      # second derivatives in the same places
    cdef real* slopes
    cdef real* curvatures
    cdef real* step
    cdef double* change    # of some samples' scores

    cdef void visit(self, Visit* v) noexcept nogil
    cdef Py_ssize_t together(self, Py_ssize_t at) noexcept nogil
    cdef void begin(self, const Visit* v) noexcept nogil
    cdef void by_nuclear_norm(self, const Visit* v) noexcept nogil
    cdef Visit part(self, const Visit* v, Py_ssize_t at) noexcept nogil
    cdef void derivatives(self, const Visit* part) noexcept nogil
    cdef void by_gradient(self, const Visit* part) noexcept nogil
    cdef void bound(self, const Visit* v) noexcept nogil
    cdef void minimise(self, const Visit* v) noexcept nogil
    cdef void take(self, const Visit* v) noexcept nogil
    cdef bint round_step(self, const Visit* v) noexcept nogil
    cdef real* number(self, const Visit* v, Py_ssize_t f) noexcept nogil
    cdef void put(self, const Visit* v, bint stepped) noexcept nogil
    cdef bint joint(self, const Visit* v) noexcept nogil
    cdef void changes(self, const Visit* v, const Visit* part) noexcept nogil
    cdef void changes_by_score(self, const Visit* v, const Visit* part) noexcept nogil
    cdef void move(self, const Visit* v) noexcept nogil
    cdef double loss_after(self, const Visit* v, bint stepped) noexcept nogil
    cdef double look(self, Py_ssize_t i) noexcept nogil
