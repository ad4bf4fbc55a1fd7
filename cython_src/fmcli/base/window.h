// Comparisons of many bytes of a text at a time.
#ifndef FMCLI_WINDOW_H
#define FMCLI_WINDOW_H

#include <cstdint>

#if defined(__SSE2__)
#include <immintrin.h>
#endif

namespace fmcli {

constexpr int WINDOW = 32;  // bytes, with a bit each

// Which of the bytes at p are at most a space.
inline __attribute__((always_inline)) uint32_t small_bytes(const char* p) {
    uint32_t found = 0;
#if defined(__SSE2__)
    const __m128i space = _mm_set1_epi8(' ');
    for (int i = 0; i < WINDOW; i += 16) {
        const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p + i));
        const __m128i small = _mm_cmpeq_epi8(_mm_min_epu8(bytes, space), bytes);
        found |= static_cast<uint32_t>(_mm_movemask_epi8(small)) << i;
    }
#else
    for (int i = 0; i < WINDOW; ++i) found |= static_cast<uint32_t>(static_cast<unsigned char>(p[i]) <= ' ') << i;
#endif
    return found;
}

// Which of the bytes at p equal `byte`.
inline __attribute__((always_inline)) uint32_t equal_bytes(const char* p, char byte) {
    uint32_t found = 0;
#if defined(__SSE2__)
    const __m128i wanted = _mm_set1_epi8(byte);
    for (int i = 0; i < WINDOW; i += 16) {
        const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p + i));
        found |= static_cast<uint32_t>(_mm_movemask_epi8(_mm_cmpeq_epi8(bytes, wanted))) << i;
    }
#else
    for (int i = 0; i < WINDOW; ++i) found |= static_cast<uint32_t>(p[i] == byte) << i;
#endif
    return found;
}

}  // namespace fmcli

#endif
