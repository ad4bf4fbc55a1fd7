// The positions of pairs of features in a table of weights.

#include "fmcli/base/types.h"
#include "fmcli/base/places.h"

namespace {

void pair_places(const int32_t* index, ptrdiff_t first, ptrdiff_t last, int bits, int32_t* out) {
    for (ptrdiff_t b = first; b < last; out += b++) {
        const int64_t j = index[b];
        if (bits)
            for (ptrdiff_t a = 0; a < b; ++a) out[a] = pair_place(index[a], j, bits);
        else
            for (ptrdiff_t a = 0; a < b; ++a) out[a] = pair_place(index[a], j, 0);
    }
}

}  // namespace
