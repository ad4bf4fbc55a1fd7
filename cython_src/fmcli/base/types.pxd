from libc.stdint cimport int32_t, int64_t, uint8_t


cdef extern from "fmcli/base/types.h" nogil:
    ctypedef double real  # float or double, chosen at build time; Cython only needs to know that it is a real number
    enum:
        LANES

    struct Sample:
        const int32_t* index
        const int32_t* field
        const float* value
        Py_ssize_t nnz
        Py_ssize_t number

    struct Block:
        real* body
        Py_ssize_t body_stride
        Py_ssize_t lanes
        real* weight
        Py_ssize_t weight_stride
        Py_ssize_t rows
        Py_ssize_t columns
        double* room

    struct Factors:
        const real* at
        Py_ssize_t stride
        Py_ssize_t lanes

    struct Points:
        const real* at
        Py_ssize_t feature_stride
        Py_ssize_t point_stride
        const double* scale
        const double* squares
        Py_ssize_t n

    struct GradientFormula:
        const float* value
        double slope
        const real* sums
        const real* beta
        const int32_t* field
        Py_ssize_t fields

    struct SparseGradient:
        int block
        const int32_t* row
        Py_ssize_t n
        Py_ssize_t first
        real* body
        real* weight
        const uint8_t* touched
        GradientFormula formula

    enum:
        MANY_ENTRIES

    struct RowEntries:
        int32_t* row
        Py_ssize_t[MANY_ENTRIES] end
        int32_t* start
        int32_t* entry
        float* value
        real* curvature

    struct BlockGradient:
        int block
        RowEntries rows
        Py_ssize_t first
        const real* body
        const real* weight
        const real* slope
        const real* sums
        const real* beta
        double curvature
        const real* body_squares
        const real* weight_squares

    struct ThreadShare:
        int part, parts
        double* room

    struct Csr:
        const int64_t* indptr
        const int32_t* index
        const int32_t* field
        const float* value
        bint constant

    Sample sample_of(const Csr* rows, Py_ssize_t i)

    struct ColumnView:
        int block, output
        Py_ssize_t row
        Py_ssize_t at, lanes
        bint weight
        Py_ssize_t apart
        const int32_t* sample
        const real* value
        Py_ssize_t n
        char* sample_states
        Py_ssize_t sample_state_size, cache

    struct SampleStates:
        char* at
        Py_ssize_t size, scores, cache, reals

    double* scores_in(const SampleStates* s, Py_ssize_t i)
    real* cache_in(const SampleStates* s, Py_ssize_t i, int output)

    struct Scratch:
        SparseGradient* gradients
        int n_gradients
        double* score
        double* slope
        Py_ssize_t longest
        bint formulas
        double rate_share
        real* work
        int32_t* ids
        real* gradient_buffer

    void prefetch_line(const void* p)
    void prefetch_reals(const real* p, Py_ssize_t n)
