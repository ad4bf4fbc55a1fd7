// The positions of pairs of features in a table of weights.

#include "fmcli/base/types.h"

namespace {

inline uint64_t splitmix64(uint64_t z) {
    z += 0x9E3779B97F4A7C15;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    return z ^ (z >> 31);
}

void pair_places(const int32_t* index, ptrdiff_t first, ptrdiff_t last, int bits, int32_t* out) {
    for (ptrdiff_t b = first; b < last; out += b++) {
        const int64_t j = index[b];
        if (bits)
            for (ptrdiff_t a = 0; a < b; ++a)
                out[a] = (int32_t)(splitmix64(((uint64_t)index[a] << 32) + (uint64_t)j) >> (64 - bits));
        else
            for (ptrdiff_t a = 0; a < b; ++a) out[a] = (int32_t)(j * (j - 1) / 2 + index[a]);
    }
}

}  // namespace
