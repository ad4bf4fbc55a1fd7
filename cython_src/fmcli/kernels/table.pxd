# scripts/kernels.py writes this file from the list in kernels.h.
from fmcli.base.fields cimport FieldEntries
from fmcli.base.types cimport Block, BlockGradient, ColumnView, Csr, Factors, Points, Sample
from fmcli.base.types cimport SampleStates, SparseGradient, ThreadShare, real
from fmcli.kernels.arguments cimport *
from libc.stdint cimport int32_t


cdef extern from "fmcli/kernels/kernels.h" nogil:
    struct Kernels:
        const char* name
        void (*prefetch)(const Block*, const int32_t*, Py_ssize_t, Py_ssize_t) noexcept nogil
        double (*linear)(const Factors*, const Sample*) noexcept nogil
        void (*linear_gradient)(const Sample*, double, real*) noexcept nogil
        double (*second_order)(const Factors*, const Sample*, const real*, const real*, real*) noexcept nogil
        void (*second_order_scores)(
            const Factors*, const Factors*, double, const Csr*, const int32_t*, Py_ssize_t, Py_ssize_t, real*,
            double*, Py_ssize_t) noexcept nogil
        void (*second_order_draws)(
            const Factors*, const Factors*, const double*, Py_ssize_t, const Csr*, const int32_t*, Py_ssize_t,
            Py_ssize_t, double*, Py_ssize_t) noexcept nogil
        void (*structural_gradient)(
            const real*, const real*, const real*, Py_ssize_t, double, real*, real*) noexcept nogil
        void (*second_order_gradient)(
            const Factors*, const Sample*, const real*, const real*, double, real*, Py_ssize_t) noexcept nogil
        double (*anova)(const Factors*, const Sample*, const Anova*, real*) noexcept nogil
        void (*anova_gradient)(
            const Factors*, const Sample*, const Anova*, const real*, double, const AnovaGradient*) noexcept nogil
        double (*all_subsets)(const Factors*, const Sample*, Py_ssize_t, real*) noexcept nogil
        void (*all_subsets_gradient)(
            const Factors*, const Sample*, Py_ssize_t, const real*, double, real*, Py_ssize_t) noexcept nogil
        void (*project)(const Factors*, const Sample*, const real*, real*) noexcept nogil
        double (*products)(const real*, int, int, Py_ssize_t, const real*, real*) noexcept nogil
        void (*products_gradient)(const real*, int, int, Py_ssize_t, const real*, double, real*) noexcept nogil
        void (*spread)(const real*, Py_ssize_t, const Sample*, real*) noexcept nogil
        double (*lifted)(const Lifted*, const Sample*, real*) noexcept nogil
        void (*lifted_gradient)(const Lifted*, const Sample*, const real*, double, real*, real*) noexcept nogil
        double (*field_pairs)(const Factors*, Py_ssize_t, const Sample*, const FieldEntries*, real*) noexcept nogil
        double (*single_field_pairs)(const Factors*, Py_ssize_t, const Sample*) noexcept nogil
        void (*field_pairs_gradient)(
            const Factors*, Py_ssize_t, const Sample*, const FieldEntries*, const real*, double, const int32_t*,
            bint, real*) noexcept nogil
        void (*pair_places)(const int32_t*, Py_ssize_t, Py_ssize_t, int, int32_t*) noexcept nogil
        double (*two_sides)(const Factors*, const Sample*, const int32_t*, real*) noexcept nogil
        void (*two_sides_gradient)(
            const Sample*, const int32_t*, const real*, Py_ssize_t, double, real*) noexcept nogil
        void (*distances)(const Points*, const Sample*, double*) noexcept nogil
        void (*second_order_states)(
            const Factors*, const Factors*, double, const Csr*, Py_ssize_t, Py_ssize_t, int,
            const SampleStates*) noexcept nogil
        void (*prefetch_sample_states)(const ColumnView*) noexcept nogil
        void (*gram)(
            const real*, Py_ssize_t, Py_ssize_t, Py_ssize_t, const real*, const real*, double*,
            double*) noexcept nogil
        double (*squares)(
            const real*, Py_ssize_t, Py_ssize_t, Py_ssize_t, const real*, const real*, double*) noexcept nogil
        void (*affine_score_changes)(
            const real*, Py_ssize_t, Py_ssize_t, Py_ssize_t, const real*, double*) noexcept nogil
        void (*block_row_bound)(const ColumnView*, const real*, Py_ssize_t, double*, double*) noexcept nogil
        double (*block_row_squares)(const ColumnView*, const real*, Py_ssize_t, double*) noexcept nogil
        void (*block_row_step)(const ColumnView*, const real*, Py_ssize_t, const real*) noexcept nogil
        void (*weight_score_gradient)(const ColumnView*, real*) noexcept nogil
        void (*cached_score_gradient)(const ColumnView*, Py_ssize_t, real*) noexcept nogil
        void (*pairs_score_gradient)(const ColumnView*, const real*, const real*, real*) noexcept nogil
        void (*pairs_update_cache)(const ColumnView*, const real*, const real*, Py_ssize_t) noexcept nogil
        void (*anova_cache)(const Factors*, const Sample*, const Anova*, real*) noexcept nogil
        void (*anova_score_gradient)(
            const ColumnView*, const Csr*, const Factors*, const Anova*, int, real*) noexcept nogil
        void (*anova_update_cache)(
            const ColumnView*, const Csr*, const Factors*, const Anova*, int, const real*) noexcept nogil
        void (*degree_score_gradient)(const ColumnView*, const Anova*, real*) noexcept nogil
        void (*all_subsets_cache)(const Factors*, const Sample*, real*) noexcept nogil
        void (*all_subsets_score_gradient)(
            const ColumnView*, const Csr*, const Factors*, Py_ssize_t, real*) noexcept nogil
        void (*all_subsets_update_cache)(const ColumnView*, const Csr*, const Factors*, const real*) noexcept nogil
        void (*lifted_cache)(const Lifted*, const Sample*, real*) noexcept nogil
        void (*lifted_score_gradient)(const ColumnView*, const Csr*, const Lifted*, int, real*) noexcept nogil
        void (*lifted_update_cache)(const ColumnView*, const Csr*, const Lifted*, int, const real*) noexcept nogil
        void (*product_score_gradient)(const ColumnView*, int, Py_ssize_t, real*) noexcept nogil
        void (*power_score_gradient)(const ColumnView*, int, int, const real*, real*) noexcept nogil
        void (*product_score_changes)(
            const ColumnView*, int, int, Py_ssize_t, const real*, const real*, double*) noexcept nogil
        void (*share_score_gradient)(const ColumnView*, Py_ssize_t, real*) noexcept nogil
        void (*field_score_gradient)(const ColumnView*, const FieldColumns*, real*) noexcept nogil
        void (*field_score_changes)(const ColumnView*, const FieldColumns*, const real*, double*) noexcept nogil
        void (*add_penalty)(
            const Block*, Py_ssize_t, const ExactStrength*, const ExactStrength*, double*) noexcept nogil
        void (*sgd)(const Block*, const SparseGradient*, const Sgd*, const Sgd*) noexcept nogil
        void (*adagrad)(const Block*, const SparseGradient*, const Adagrad*, const Adagrad*) noexcept nogil
        void (*ftrl)(const Block*, const SparseGradient*, const Ftrl*, const Ftrl*) noexcept nogil
        double (*sgd_samples)(const SampleRun*, const Sgd*, const Sgd*, double) noexcept nogil
        double (*adagrad_samples)(const SampleRun*, const Adagrad*, const Adagrad*, double) noexcept nogil
        double (*ftrl_samples)(const SampleRun*, const Ftrl*, const Ftrl*, double) noexcept nogil
        void (*block_gradients)(const BlockSamples*) noexcept nogil
        void (*adagrad_block)(
            const Block*, const BlockGradient*, const Adagrad*, const Adagrad*, const ThreadShare*) noexcept nogil
        void (*ftrl_block)(
            const Block*, const BlockGradient*, const Ftrl*, const Ftrl*, const ThreadShare*) noexcept nogil
        void (*ftrl_recompute)(const Block*, Py_ssize_t, const Ftrl*, const Ftrl*) noexcept nogil
        void (*ftrl_start)(const Block*, Py_ssize_t, const Ftrl*, const Ftrl*) noexcept nogil
        void (*fobos_catch_up)(
            const Block*, const int32_t*, Py_ssize_t, Py_ssize_t, int32_t*, const Fobos*,
            const Fobos*) noexcept nogil
