from fmcli._core.types cimport Block, Factors, Points, Sample, Slab, real
from libc.stdint cimport int32_t


cdef extern from "kernels.h" nogil:
    struct Strength:
        real l1, l2, group

    struct Sgd:
        real rate, shrink, decay
        Strength strength

    struct Adagrad:
        real inverse_rate
        Strength strength

    struct Ftrl:
        real inverse_alpha, beta, power
        Strength strength

    struct Fobos:
        const double* decay
        const double* sum
        int32_t now
        real inverse_rate
        Strength strength

    struct Kernels:
        const char* name
        void (*prefetch)(const Block*, const int32_t*, Py_ssize_t, Py_ssize_t) noexcept nogil
        double (*linear)(const Factors*, const Sample*) noexcept nogil
        void (*linear_gradient)(const Sample*, double, real*) noexcept nogil
        double (*second_order)(const Factors*, const Sample*, const real*, const real*, real*) noexcept nogil
        void (*second_order_gradient)(
            const Factors*, const Sample*, const real*, const real*, double, real*, Py_ssize_t) noexcept nogil
        void (*distances)(const Points*, const Sample*, double*) noexcept nogil
        void (*magnitudes)(const Block*, Py_ssize_t, double*) noexcept nogil
        void (*sgd)(const Block*, const Slab*, const Sgd*, const Sgd*) noexcept nogil
        void (*adagrad)(const Block*, const Slab*, const Adagrad*, const Adagrad*) noexcept nogil
        void (*ftrl)(const Block*, const Slab*, const Ftrl*, const Ftrl*) noexcept nogil
        void (*ftrl_revisit)(const Block*, Py_ssize_t, const Ftrl*, const Ftrl*) noexcept nogil
        void (*ftrl_start)(const Block*, Py_ssize_t, const Ftrl*, const Ftrl*) noexcept nogil
        void (*fobos_refresh)(
            const Block*, const int32_t*, Py_ssize_t, Py_ssize_t, int32_t*, const Fobos*, const Fobos*) noexcept nogil

    const Kernels* fmcli_kernels(const char* name)


cdef const Kernels* kernels
