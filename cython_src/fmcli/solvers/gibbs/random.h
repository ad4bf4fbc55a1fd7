// Random numbers by counters: each number is a function of its purpose, so the numbers of a run do not depend on the
// number of threads, nor on the order of their draws.
#ifndef FMCLI_RANDOM_H
#define FMCLI_RANDOM_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>

// The numbers for one purpose: Philox-4x32-10 (Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3,
// 2011) at counters that differ only in the first word. Streams with different seeds or purposes never share a number.
typedef struct Stream {
    uint32_t key[2];
    uint32_t counter[4];
    uint32_t word[4];  // the words at the last counter
    int left;          // the number of unused words
} Stream;

enum { PHILOX_ROUNDS = 10 };

// first : the initial first word of the counter. Streams of one row with different `first` must be short enough not to
// overlap.
static inline Stream stream_of(uint64_t seed, uint32_t sweep, uint32_t purpose, uint32_t row, uint32_t first) {
    Stream s = {{(uint32_t)seed, (uint32_t)(seed >> 32)}, {first, row, sweep, purpose}, {0, 0, 0, 0}, 0};
    return s;
}

static inline void next_words(Stream* s) {
    const uint32_t MULTIPLIER[2] = {0xD2511F53u, 0xCD9E8D57u}, WEYL[2] = {0x9E3779B9u, 0xBB67AE85u};
    uint32_t key0 = s->key[0], key1 = s->key[1];
    uint32_t a = s->counter[0], b = s->counter[1], c = s->counter[2], d = s->counter[3];
    for (int round = 0; round < PHILOX_ROUNDS; ++round) {
        const uint64_t left = (uint64_t)MULTIPLIER[0] * a, right = (uint64_t)MULTIPLIER[1] * c;
        a = (uint32_t)(right >> 32) ^ b ^ key0;
        b = (uint32_t)right;
        c = (uint32_t)(left >> 32) ^ d ^ key1;
        d = (uint32_t)left;
        key0 += WEYL[0];
        key1 += WEYL[1];
    }
    s->word[0] = a;
    s->word[1] = b;
    s->word[2] = c;
    s->word[3] = d;
    s->counter[0] += 1;
    s->left = 4;
}

// Uniform on the open interval (0, 1): the midpoint of one of 2^52 equal intervals.
static inline double uniform(Stream* s) {
    if (s->left < 2) next_words(s);
    s->left -= 2;
    const uint64_t high = s->word[s->left], low = s->word[s->left + 1];
    return ((double)((high << 32 | low) >> 12) + 0.5) * 0x1p-52;
}

// A standard normal number (Box and Muller).
static inline double normal(Stream* s) {
    const double radius = sqrt(-2 * log(uniform(s))), angle = uniform(s);
    return radius * cos(2 * M_PI * angle);
}

// Standard normal numbers, two from each pair of uniform ones.
static inline void normals(Stream* s, double* out, ptrdiff_t count) {
    for (ptrdiff_t i = 0; i < count; i += 2) {
        const double radius = sqrt(-2 * log(uniform(s))), angle = 2 * M_PI * uniform(s);
        out[i] = radius * cos(angle);
        if (i + 1 < count) out[i + 1] = radius * sin(angle);
    }
}

// A standard normal number between low and high, low < high; one of them may be infinite. By rejection, from the
// normal, the uniform or an exponential distribution (Robert: Simulation of truncated normal variables, 1995). More
// than a third of the proposals are accepted.
static inline double truncated_normal(Stream* s, double low, double high) {
    if (!(low < high)) return low;  // one of them is NaN: no proposal would ever be accepted
    const double WIDE = 2.5;  // an interval of this length around 0 has most of the probability, or nearly so
    if (high < 0) return -truncated_normal(s, -high, -low);
    if (low <= 0) {
        const int is_wide = isinf(low) || high - low > WIDE;
        for (;;) {
            const double x = is_wide ? normal(s) : low + (high - low) * uniform(s);
            if (is_wide ? low <= x && x <= high : uniform(s) <= exp(-x * x / 2)) return x;
        }
    }
    const double rate = (low + sqrt(low * low + 4)) / 2;
    if (high <= rate)
        for (;;) {
            const double x = low + (high - low) * uniform(s);
            if (uniform(s) <= exp((low - x) * (low + x) / 2)) return x;
        }
    const double share = -expm1(-rate * (high - low));  // of the exponential distribution below high
    for (;;) {
        const double x = low - log1p(-share * uniform(s)) / rate;
        if (uniform(s) <= exp(-(x - rate) * (x - rate) / 2)) return x;
    }
}

#endif
