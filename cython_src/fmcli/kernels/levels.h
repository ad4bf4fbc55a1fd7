// The instruction sets of this machine for which kernels are compiled.
#ifndef FMCLI_LEVELS_H
#define FMCLI_LEVELS_H

// Whether the machine has the instructions of the level v3 (x86-64-v3: AVX2) in scripts/declarations.py. They are
// checked one by one because older compilers do not accept "x86-64-v3" here. A level for AVX-512 was 3 to 6 % slower
// than v3 with these vectors of eight lanes.
static inline bool has_v3() {
#if defined(__x86_64__)
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") &&
           __builtin_cpu_supports("fma");
#else
    return false;
#endif
}

#endif
