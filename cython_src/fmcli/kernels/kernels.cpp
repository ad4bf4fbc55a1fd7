// The choice of the table of hot functions for this machine.
#include "fmcli/kernels/kernels.h"

#include <cstring>

extern const Kernels fmcli_kernels_baseline;
#if defined(__x86_64__)
extern const Kernels fmcli_kernels_v3;
#endif

#if defined(__x86_64__)
// The features that levels/v3.cpp is compiled for. They are checked one by one because older compilers do not accept
// "x86-64-v3" here.
static bool has_v3() {
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") &&
           __builtin_cpu_supports("fma");
}
#endif

const Kernels* fmcli_kernels(const char* name) {
    if (!std::strcmp(name, "baseline")) return &fmcli_kernels_baseline;
#if defined(__x86_64__)
    if (!std::strcmp(name, "v3") && has_v3()) return &fmcli_kernels_v3;
#endif
    return nullptr;
}
