from fmcli.base.types cimport ColumnView, real
from fmcli.solvers.coordinate.relation_rows cimport RelationRows
from fmcli.solvers.coordinate.row_slice cimport RowSlice


cdef class CoordinateUpdater(RowSlice):
    cdef object slope_memory
    cdef real* slopes      # the slopes of a chunk's losses, times the samples' shares of the total weight
    cdef real* curvatures  # their curvatures, times the same shares
    cdef Py_ssize_t summed_apart  # samples of a row whose derivatives are summed apart, if threads share the row

    cdef require(self)
    cdef void join_relations(self, Py_ssize_t i) noexcept nogil
    cdef void update_row(self, ColumnView* v) noexcept nogil
    cdef void update_slice(self, const ColumnView* v) noexcept nogil
    cdef void load(self, const ColumnView* v) noexcept nogil
    cdef void add_holds(self, const ColumnView* v) noexcept nogil
    cdef void load_nuclear_norm(self, const ColumnView* v) noexcept nogil
    cdef void solve(self, const ColumnView* v) noexcept nogil
    cdef visit(self, int block, int output, RelationRows related)
    cdef require_related(self, RelationRows related)
    cdef begin_rows(
        self, int block, int output, RelationRows related, Py_ssize_t start, Py_ssize_t stop, ColumnView* v)
    cdef void begin_view(self, int block, int output, ColumnView* v) noexcept nogil
    cdef void bound_loss(self, const ColumnView* v, Py_ssize_t begin, Py_ssize_t end) noexcept nogil
    cdef void loss_derivatives(self, const ColumnView* chunk, bint affine) noexcept nogil
    cdef void add_to_bound(self, const ColumnView* chunk) noexcept nogil
    cdef void take_step(self, const ColumnView* v) noexcept nogil
    cdef bint round_step(self, const ColumnView* v) noexcept nogil
    cdef double objective(self, const ColumnView* v, bint stepped) noexcept nogil
    cdef void bound_related(self, const ColumnView* v, Py_ssize_t begin, Py_ssize_t end) noexcept nogil
    cdef void part_view(self, ColumnView* v, Py_ssize_t lanes) noexcept nogil
    cdef void apply_step(self, const ColumnView* v, Py_ssize_t begin, Py_ssize_t end) noexcept nogil
