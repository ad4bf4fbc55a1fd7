// Comparisons of many bytes of a text at the same time.
#ifndef FMCLI_WINDOW_H
#define FMCLI_WINDOW_H

#include <cstdint>

#if defined(__SSE2__)
#include <immintrin.h>
#endif

namespace fmcli {

constexpr int WINDOW = 32;  // bytes, each of which has a bit

// Which of the bytes at p are at most a space, and which are colons.
struct Window {
    uint32_t small, colons;
};

inline __attribute__((always_inline)) Window window_at(const char* p) {
    Window found = {0, 0};
#if defined(__SSE2__)
    const __m128i space = _mm_set1_epi8(' '), colon = _mm_set1_epi8(':');
    for (int i = 0; i < WINDOW; i += 16) {
        const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p + i));
        const __m128i small = _mm_cmpeq_epi8(_mm_min_epu8(bytes, space), bytes), colons = _mm_cmpeq_epi8(bytes, colon);
        found.small |= static_cast<uint32_t>(_mm_movemask_epi8(small)) << i;
        found.colons |= static_cast<uint32_t>(_mm_movemask_epi8(colons)) << i;
    }
#else
    for (int i = 0; i < WINDOW; ++i) {
        found.small |= static_cast<uint32_t>(static_cast<unsigned char>(p[i]) <= ' ') << i;
        found.colons |= static_cast<uint32_t>(p[i] == ':') << i;
    }
#endif
    return found;
}

}  // namespace fmcli

#endif
