// A barrier for a fixed number of threads that meet thousands of times per second.
#ifndef FMCLI_BARRIER_H
#define FMCLI_BARRIER_H

#include <sched.h>
#include <stddef.h>
#include <time.h>

typedef struct Barrier {
    int threads;
    int arrived;
    int generation;
} Barrier;

// Waits until all threads have arrived. Earlier writes of each thread are visible to all threads afterwards. A waiting
// thread spins, because the others arrive soon if each has a core; then it yields; finally it sleeps, in case other
// programs use the cores. With limits of 2^12 and 2^4, two threads on two cores slept so often that they were slower
// than one thread; with these limits, having more threads than cores takes longer.
static inline void wait_for_all(Barrier* barrier) {
    enum { SPINS = 1 << 16, YIELDS = 1 << 12 };
    const struct timespec nap = {0, 20000};  // 20 microseconds
    if (barrier->threads == 1) return;
    const int generation = __atomic_load_n(&barrier->generation, __ATOMIC_RELAXED);
    if (__atomic_add_fetch(&barrier->arrived, 1, __ATOMIC_ACQ_REL) == barrier->threads) {
        __atomic_store_n(&barrier->arrived, 0, __ATOMIC_RELAXED);
        __atomic_store_n(&barrier->generation, generation + 1, __ATOMIC_RELEASE);
        return;
    }
    for (int i = 0; __atomic_load_n(&barrier->generation, __ATOMIC_ACQUIRE) == generation; ++i)
        if (i >= SPINS + YIELDS)
            nanosleep(&nap, NULL);
        else if (i >= SPINS)
            sched_yield();
}

#endif
