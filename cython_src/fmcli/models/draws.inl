// Parameters of draws as reals: some are kept in 16 bits.

#include "fmcli/base/vector.h"
#include "fmcli/models/arguments.h"

namespace {

// How many rows ahead rows are prefetched.
constexpr ptrdiff_t ROWS_AHEAD = 8;

inline real real_of(real number) { return number; }

// A finite number of 16 bits. In the bits of a float, its exponent is too small by 112, also if it is subnormal.
inline real real_of(uint16_t half) {
    const uint32_t bits = (uint32_t)(half & 0x8000) << 16 | (uint32_t)(half & 0x7fff) << 13;
    float number;
    __builtin_memcpy(&number, &bits, sizeof number);
    return number * 0x1p112f;
}

// size : that of `from`, constant where this is faster.
template <class Number, class Size>
inline __attribute__((always_inline)) void copy_each(const KeptRows& from, const int32_t* row, ptrdiff_t n, Size size,
                                                     real* out, ptrdiff_t apart) {
    const Number* all = (const Number*)from.at;
    for (ptrdiff_t i = 0; i < n; ++i) {
        if (row && i + ROWS_AHEAD < n) __builtin_prefetch(all + row[i + ROWS_AHEAD] * from.stride);
        const Number* numbers = all + (row ? row[i] : i) * from.stride;
        for (ptrdiff_t f = 0; f < size(); ++f) out[i * apart + f] = real_of(numbers[f]);
    }
}

template <class Number>
inline void copy_all(const KeptRows& from, const int32_t* row, ptrdiff_t n, real* out, ptrdiff_t apart) {
    if (from.size == 1)
        copy_each<Number>(from, row, n, [] { return 1; }, out, apart);
    else if (from.size == 8)  // the usual rank
        copy_each<Number>(from, row, n, [] { return 8; }, out, apart);
    else
        copy_each<Number>(from, row, n, [&] { return from.size; }, out, apart);
}

void copy_rows(const KeptRows* from, const int32_t* row, ptrdiff_t n, real* out, ptrdiff_t apart) {
    if (from->halved)
        copy_all<uint16_t>(*from, row, n, out, apart);
    else
        copy_all<real>(*from, row, n, out, apart);
}

}  // namespace
