// Vectors of 4 and 8 reals, in GCC's portable vector extensions: one source for every instruction set. The file is
// compiled once for each instruction set under a target pragma. It must not call the standard library: the linker could
// choose an inline function compiled for a newer machine, and an older machine would run it.
#ifndef FMCLI_VECTOR_H
#define FMCLI_VECTOR_H

#include "fmcli/base/types.h"

namespace {

typedef real Vec4 __attribute__((vector_size(4 * sizeof(real))));
typedef real Vec8 __attribute__((vector_size(8 * sizeof(real))));

// An unsigned integer with the size of a real.
template <int bytes>
struct Unsigned;
template <>
struct Unsigned<4> {
    typedef uint32_t type;
};
template <>
struct Unsigned<8> {
    typedef uint64_t type;
};
typedef Unsigned<sizeof(real)>::type unsigned_like_real;

template <class V>
constexpr int width = sizeof(V) / sizeof(real);

// The bytes of the machine's vectors; files compiled for wider vectors define it. GCC before 13 does not define
// __AVX2__ after its target pragma.
#ifndef VECTOR_BYTES
#define VECTOR_BYTES 16
#endif

// Rows are not always aligned to the vector width. The compiler turns these copies into unaligned moves.
template <class V>
inline V load(const real* p) {
    V v;
    __builtin_memcpy(&v, p, sizeof v);
    return v;
}

template <class V>
inline void store(real* p, V v) {
    __builtin_memcpy(p, &v, sizeof v);
}

#if __has_builtin(__builtin_shufflevector)
inline Vec8 concat(Vec4 a, Vec4 b) { return __builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7); }
inline Vec4 low(Vec8 v) { return __builtin_shufflevector(v, v, 0, 1, 2, 3); }
inline Vec4 high(Vec8 v) { return __builtin_shufflevector(v, v, 4, 5, 6, 7); }
#else  // GCC 11
inline Vec8 concat(Vec4 a, Vec4 b) { return Vec8{a[0], a[1], a[2], a[3], b[0], b[1], b[2], b[3]}; }
inline Vec4 low(Vec8 v) { return Vec4{v[0], v[1], v[2], v[3]}; }
inline Vec4 high(Vec8 v) { return Vec4{v[4], v[5], v[6], v[7]}; }
#endif

// Shuffles of two vectors: (a0, b0, a1, b1), (a2, b2, a3, b3), (a0, a1, b0, b1), (a2, a3, b2, b3), (a0, a2, b0, b2) and
// (a1, a3, b1, b3).
#if __has_builtin(__builtin_shufflevector)
inline Vec4 alternating_low(Vec4 a, Vec4 b) { return __builtin_shufflevector(a, b, 0, 4, 1, 5); }
inline Vec4 alternating_high(Vec4 a, Vec4 b) { return __builtin_shufflevector(a, b, 2, 6, 3, 7); }
inline Vec4 lows(Vec4 a, Vec4 b) { return __builtin_shufflevector(a, b, 0, 1, 4, 5); }
inline Vec4 highs(Vec4 a, Vec4 b) { return __builtin_shufflevector(a, b, 2, 3, 6, 7); }
inline Vec4 evens(Vec4 a, Vec4 b) { return __builtin_shufflevector(a, b, 0, 2, 4, 6); }
inline Vec4 odds(Vec4 a, Vec4 b) { return __builtin_shufflevector(a, b, 1, 3, 5, 7); }
#else  // GCC 11
inline Vec4 alternating_low(Vec4 a, Vec4 b) { return Vec4{a[0], b[0], a[1], b[1]}; }
inline Vec4 alternating_high(Vec4 a, Vec4 b) { return Vec4{a[2], b[2], a[3], b[3]}; }
inline Vec4 lows(Vec4 a, Vec4 b) { return Vec4{a[0], a[1], b[0], b[1]}; }
inline Vec4 highs(Vec4 a, Vec4 b) { return Vec4{a[2], a[3], b[2], b[3]}; }
inline Vec4 evens(Vec4 a, Vec4 b) { return Vec4{a[0], a[2], b[0], b[2]}; }
inline Vec4 odds(Vec4 a, Vec4 b) { return Vec4{a[1], a[3], b[1], b[3]}; }
#endif

// Transposes four rows of four numbers.
inline __attribute__((always_inline)) void transpose(Vec4 (&v)[4]) {
    const Vec4 a = alternating_low(v[0], v[1]), b = alternating_low(v[2], v[3]);
    const Vec4 c = alternating_high(v[0], v[1]), d = alternating_high(v[2], v[3]);
    v[0] = lows(a, b), v[1] = highs(a, b), v[2] = lows(c, d), v[3] = highs(c, d);
}

// Transposes the first eight rows of v, of eight numbers each, in three rounds of shuffles.
#if __has_builtin(__builtin_shufflevector)
#define FMCLI_SHUFFLED(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else  // GCC 11
typedef unsigned_like_real Index8 __attribute__((vector_size(sizeof(Vec8))));
#define FMCLI_SHUFFLED(a, b, ...) __builtin_shuffle(a, b, Index8{__VA_ARGS__})
#endif
template <int N>
inline __attribute__((always_inline)) void transpose(Vec8 (&v)[N]) {
    Vec8 a[8], b[8];
#pragma GCC unroll 4
    for (int i = 0; i < 8; i += 2) {
        a[i] = FMCLI_SHUFFLED(v[i], v[i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
        a[i + 1] = FMCLI_SHUFFLED(v[i], v[i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 8; i += 4)
        for (int j = 0; j < 2; ++j) {
            b[i + 2 * j] = FMCLI_SHUFFLED(a[i + j], a[i + j + 2], 0, 1, 8, 9, 4, 5, 12, 13);
            b[i + 2 * j + 1] = FMCLI_SHUFFLED(a[i + j], a[i + j + 2], 2, 3, 10, 11, 6, 7, 14, 15);
        }
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
        v[i] = FMCLI_SHUFFLED(b[i], b[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
        v[i + 4] = FMCLI_SHUFFLED(b[i], b[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
    }
}
#undef FMCLI_SHUFFLED

inline void split(Vec8 v, real* a, real* b) {
    store(a, low(v));
    store(b, high(v));
}

inline float root(float x) { return __builtin_sqrtf(x); }
inline double root(double x) { return __builtin_sqrt(x); }

template <class V>
inline V root(V x) {
    V r = x;
    for (int i = 0; i < width<V>; ++i) r[i] = root(x[i]);
    return r;
}

inline float power(float x, float y) { return __builtin_powf(x, y); }
inline double power(double x, double y) { return __builtin_pow(x, y); }

// Not inlined: it is rarely needed, and as long as its callers.
template <class V>
__attribute__((noinline)) V power(V x, real y) {
    V r = x;
    for (int i = 0; i < width<V>; ++i) r[i] = power(x[i], y);
    return r;
}

// The sum of a vector's entries in double, in the same order for every instruction set.
inline double sum(Vec4 v) { return ((double)v[0] + v[2]) + ((double)v[1] + v[3]); }
inline double sum(Vec8 v) {
    typedef double Double4 __attribute__((vector_size(4 * sizeof(double))));
    const Double4 s = __builtin_convertvector(low(v), Double4) + __builtin_convertvector(high(v), Double4);
    return (s[0] + s[2]) + (s[1] + s[3]);
}

// The sum of a vector's halves.
inline Vec4 folded(Vec4 v) { return v; }
inline Vec4 folded(Vec8 v) { return low(v) + high(v); }

// The compiler splits comparisons of vectors wider than the machine's into scalars, so this uses the sign bit.
typedef unsigned_like_real Bits4 __attribute__((vector_size(sizeof(Vec4))));
typedef unsigned_like_real Bits8 __attribute__((vector_size(sizeof(Vec8))));

inline Bits4 bits(Vec4 v) { return (Bits4)v; }
inline Bits8 bits(Vec8 v) { return (Bits8)v; }

template <class V>
inline V magnitude(V v) {
    const unsigned_like_real sign = (unsigned_like_real)1 << (8 * sizeof(real) - 1);
    return (V)(bits(v) & ~sign);
}

inline float magnitude(float x) { return __builtin_fabsf(x); }
inline double magnitude(double x) { return __builtin_fabs(x); }

// The elementwise maximum of two vectors, up to rounding.
template <class V>
inline V larger(V a, V b) {
    return real(0.5) * ((a + b) + magnitude(a - b));
}

// Conditions on the numbers of a vector, combinable by & and |, and the same for one double: `any` tells whether any is
// true; `chosen` takes the numbers of `a` where they are true, and of `b` elsewhere.
template <class V>
using MaskOf = decltype(V{} < V{});
typedef MaskOf<Vec4> Mask4;
template <class V>
inline MaskOf<V> is_less(V a, V b) {
    return a < b;
}
template <class V>
inline V chosen(MaskOf<V> yes, V a, V b) {
    return (V)(((MaskOf<V>)a & yes) | ((MaskOf<V>)b & ~yes));
}
inline double chosen(bool yes, double a, double b) { return yes ? a : b; }
inline bool any(bool yes) { return yes; }
template <class Mask, class = decltype(Mask{}[0])>  // not an int, which & makes of two bools
inline bool any(Mask yes) {
    uint64_t words[sizeof yes / sizeof(uint64_t)], all = 0;
    __builtin_memcpy(words, &yes, sizeof yes);
    for (const uint64_t word : words) all |= word;
    return all;
}

template <class V>
inline V smaller(V a, V b) {
    return chosen(is_less(a, b), a, b);
}
inline Vec4 smallest(Vec4 v) { return v; }
inline Vec4 smallest(Vec8 v) { return smaller(low(v), high(v)); }

// Whether any number of a vector is negative (or -0).
template <class V>
inline bool any_negative(V v) {
    uint64_t words[sizeof(V) / sizeof(uint64_t)], all = 0;
    __builtin_memcpy(words, &v, sizeof v);
    for (const uint64_t word : words) all |= word;
    const uint64_t sign = (uint64_t)1 << 63;
    return all & (sizeof(real) < sizeof(uint64_t) ? sign | sign >> 32 : sign);
}

}  // namespace

#endif
