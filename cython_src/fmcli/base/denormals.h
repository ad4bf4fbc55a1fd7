// Arithmetic without denormal numbers, which take processors hundreds of cycles each. Factors that a penalty shrinks in
// each step pass through denormals on their way to 0, and so do products of small factors.
#ifndef FMCLI_DENORMALS_H
#define FMCLI_DENORMALS_H

#include <stdint.h>

#if defined(__SSE2__)
#include <immintrin.h>
#endif

typedef uint64_t FloatingMode;

// Treats denormal results and operands as 0 in this thread from now on; returns the previous mode. Results have the
// same bits at every instruction set, because the mode belongs to the processor's arithmetic, not to its instructions.
static inline FloatingMode flush_denormals(void) {
#if defined(__SSE2__)
    enum { OPERANDS = 1 << 6, RESULTS = 1 << 15 };
    const unsigned before = _mm_getcsr();
    _mm_setcsr(before | OPERANDS | RESULTS);
    return before;
#elif defined(__aarch64__)
    const uint64_t both = (uint64_t)1 << 24;
    uint64_t before;
    __asm__ volatile("mrs %0, fpcr" : "=r"(before));
    __asm__ volatile("msr fpcr, %0" : : "r"(before | both) : "memory");
    return before;
#else
    return 0;
#endif
}

// Restores an earlier mode.
static inline void return_to_mode(FloatingMode mode) {
#if defined(__SSE2__)
    _mm_setcsr((unsigned)mode);
#elif defined(__aarch64__)
    __asm__ volatile("msr fpcr, %0" : : "r"(mode) : "memory");
#else
    (void)mode;
#endif
}

#endif
