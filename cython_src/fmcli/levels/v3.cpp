#define TABLE fmcli_kernels_v3
#define NAME "v3"
#define VECTOR_BYTES 32
#if defined(__x86_64__)

// fmcli_kernels checks that the machine has these instructions.
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,bmi,bmi2,fma"))), apply_to = function)
#include "fmcli/levels/kernels.inl"
#pragma clang attribute pop
#else
#pragma GCC target("avx2,bmi,bmi2,fma")
#include "fmcli/levels/kernels.inl"
#endif

#endif
