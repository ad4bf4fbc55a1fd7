// The places of pairs of features in a table of weights.
#ifndef FMCLI_PLACES_H
#define FMCLI_PLACES_H

#include <stdint.h>

namespace {

inline uint64_t splitmix64(uint64_t z) {
    z += 0x9E3779B97F4A7C15;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    return z ^ (z >> 31);
}

// The place of the features i < j: a hash of `bits` bits, or a place of their own if `bits` is 0.
inline int32_t pair_place(int64_t i, int64_t j, int bits) {
    if (bits) return (int32_t)(splitmix64(((uint64_t)i << 32) + (uint64_t)j) >> (64 - bits));
    return (int32_t)(j * (j - 1) / 2 + i);
}

}  // namespace

#endif
