// Which table of hot functions fits the machine.
#include "kernels.h"

#include <cstring>

extern const Kernels fmcli_kernels_baseline;
#if defined(__x86_64__)
extern const Kernels fmcli_kernels_v3;
#endif

const Kernels* fmcli_kernels(const char* name) {
    if (!std::strcmp(name, "baseline")) return &fmcli_kernels_baseline;
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (!std::strcmp(name, "v3") && __builtin_cpu_supports("x86-64-v3")) return &fmcli_kernels_v3;
#endif
    return nullptr;
}
