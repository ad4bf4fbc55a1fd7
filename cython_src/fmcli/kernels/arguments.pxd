from fmcli.base.types cimport Block, Csr, Factors, real
from libc.stdint cimport int32_t


cdef extern from "fmcli/kernels/arguments.h" nogil:
    ctypedef struct ExactStrength:
        double l1, l2, group
        int group_penalty

    ctypedef struct PenaltyStrength:
        real l1, l2, group
        int group_penalty

    PenaltyStrength rounded(const ExactStrength& strength)

    ctypedef struct ScaledProx:
        real threshold, decay

    struct Sgd:
        real rate
        ScaledProx prox
        PenaltyStrength strength

    struct Adagrad:
        real inverse_rate, penalty_steps
        PenaltyStrength strength

    struct Ftrl:
        real inverse_alpha, beta, power
        PenaltyStrength strength

    struct CombinedSteps:
        double decay, sum

    enum:
        FOBOS_PARTS

    struct Fobos:
        const CombinedSteps* steps
        int32_t now, few
        bint adaptive
        real inverse_rate
        PenaltyStrength strength

    struct ScalarLoss:
        void* self
        double (*slope)(void* self, double label, const double* score, double* slope) noexcept nogil

    enum:
        DRAWS_TOGETHER

    enum:
        NO_BLOCK

    struct SampleRun:
        const Csr* data
        const double* label
        const double* weight
        double weight_scale
        const int32_t* order
        Py_ssize_t start, stop, end
        ScalarLoss loss
        const Block* block
        int bias, features, constant, beta
        bint trains_beta
        real* sums
        real* buffer
        void* solver
        void (*before)(void* solver, Py_ssize_t i) noexcept nogil

    struct BlockSamples:
        SampleRun run
        Py_ssize_t begin
        real* sums
        real* slope
        real* of_bias
        real* of_constant
        real* of_beta
        double* loss

    enum:
        MAX_ORDER

    struct Anova:
        Py_ssize_t rank
        int order
        int constants
        const real* gamma
        Py_ssize_t gamma_stride
        const real* beta
        const real* theta

    struct AnovaGradient:
        real* body
        Py_ssize_t apart
        real* gamma
        real* beta
        real* theta

    enum:
        MOST_LIFTED

    struct Lifted:
        int order
        Py_ssize_t constants
        Factors u[MOST_LIFTED]
        Factors gamma[MOST_LIFTED]

    struct FieldColumns:
        Csr rows
        Factors v
        Py_ssize_t apart
        int32_t fields, feature, field
        bint placed
