// Reads decimal numbers from text, correctly rounded: common spellings by a fast path, others by std::from_chars.
#ifndef FMCLI_NUMBERS_H
#define FMCLI_NUMBERS_H

#include <algorithm>
#include <cfloat>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "fmcli/data/id.h"

namespace fmcli {

// The number of readable bytes after the last line break of a text: this many bytes are loaded together. Bytes after
// the end of a token are loaded but ignored.
constexpr int PADDING = 32;

inline bool is_digit(char c) { return static_cast<unsigned char>(c - '0') < 10; }
inline bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }
inline bool ends_token(char c) { return is_blank(c) || c == '\n'; }

// Functions that read a part of each entry are forcibly inlined: with several callers the compiler would emit calls,
// and a call for each number makes reading real-valued text a tenth slower.

// The digits at p, at most 8: their count, and their number. There is no branch on a digit, so numbers of different
// lengths cause no branch mispredictions.
struct Digits {
    int count;
    uint32_t number;
};

inline __attribute__((always_inline)) Digits read_digits(const char* p) {
    uint64_t chunk = load8(p) ^ 0x3030303030303030;  // digits become 0..9
    // Set the high bit of each byte above 9. A carry out of such a byte affects later characters only.
    uint64_t other = ((chunk + 0x7676767676767676) | chunk) & 0x8080808080808080;
    int bits = other ? __builtin_ctzll(other) - 7 : 64;
    if (bits == 0) return {0, 0};
    chunk <<= 64 - bits;                // add leading zeros
    chunk = chunk * 10 + (chunk >> 8);  // combine digits to pairs, below pairs to fours, and fours to the number
    chunk = ((chunk & 0x000000FF000000FF) * 0x000F424000000064 +
             ((chunk >> 16) & 0x000000FF000000FF) * 0x0000271000000001) >> 32;
    return {bits >> 3, static_cast<uint32_t>(chunk)};
}

// p + count, computed with branches. With a sum, the load of the text after a number would wait for the count (about 20
// cycles). A predicted branch lets the load begin at once, which saves a third of the parser's time. The empty asm
// statements keep the compiler from turning the branches back into a sum.
inline const char* step(const char* p, int count) {
    for (int bit : {1, 2, 4, 8}) {
        if (count & bit) {
            p += bit;
            asm("" : "+r"(p));
        }
    }
    return p;
}

constexpr uint64_t SCALE[9] = {1, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000};

// Appends the digits at p to w and their number to `count`. Stops after 24 digits, when w has overflowed.
inline __attribute__((always_inline)) const char* take_run(const char* p, uint64_t& w, int& count) {
    Digits digits;
    do {
        digits = read_digits(p);
        w = w * SCALE[digits.count] + digits.number;
        p = step(p, digits.count);
        count += digits.count;
    } while (digits.count == 8 && count < 24);
    return p;
}

// digits * 10^exponent
struct Decimal {
    int64_t digits;
    int exponent;
    bool negative;
};

// Reads a number of at most 18 significant digits. Returns its end, or nullptr if the slow path is needed.
inline __attribute__((always_inline)) const char* scan_decimal(const char* p, Decimal& d) {
    d.negative = *p == '-';
    p += *p == '-' || *p == '+';
    uint64_t w = 0;
    int whole = 0, fraction = 0;
    // There are usually few digits before the point, so reading them one by one is faster. With 19 digits, w cannot
    // have overflowed to 0.
    for (; is_digit(*p) && whole < 19; ++p, ++whole) w = w * 10 + (*p - '0');
    int significant = w ? whole : 0;
    if (*p == '.') p = take_run(p + 1, w, fraction);
    significant += fraction;
    if (whole + fraction == 0 || significant > 18) return nullptr;
    int exponent = 0;
    if ((*p | 32) == 'e') {
        ++p;
        bool negative = *p == '-';
        p += *p == '-' || *p == '+';
        if (!is_digit(*p)) return nullptr;
        for (int n = 0; n < 4 && is_digit(*p); ++n) exponent = exponent * 10 + (*p++ - '0');
        if (negative) exponent = -exponent;
    }
    d.digits = static_cast<int64_t>(w);
    d.exponent = exponent - fraction;
    return p;
}

constexpr int LARGEST_POWER = 22;  // 10^22 is the last power of ten that a double holds exactly
constexpr double POWER[2 * LARGEST_POWER + 1] = {
    1e-22, 1e-21, 1e-20, 1e-19, 1e-18, 1e-17, 1e-16, 1e-15, 1e-14, 1e-13, 1e-12, 1e-11, 1e-10, 1e-9, 1e-8,
    1e-7,  1e-6,  1e-5,  1e-4,  1e-3,  1e-2,  1e-1,  1e0,   1e1,   1e2,   1e3,   1e4,   1e5,   1e6,  1e7,
    1e8,   1e9,   1e10,  1e11,  1e12,  1e13,  1e14,  1e15,  1e16,  1e17,  1e18,  1e19,  1e20,  1e21, 1e22};

// The float nearest to a decimal, computed in double. The error of the product is at most 3 units in the last place of
// the double (one each for digits, power and product). So rounding it to float can differ from rounding the decimal
// only if the 29 bits that are cut off are this close to one half. Returns false in this case, and for exponents
// outside the table.
inline bool to_float(const Decimal& d, float& out) {
    constexpr uint32_t HALF = 1u << 28, GUARD = 4;
    if (d.exponent < -LARGEST_POWER || d.exponent > LARGEST_POWER) return false;
    double x = static_cast<double>(d.digits) * POWER[d.exponent + LARGEST_POWER];
    uint64_t bits;
    std::memcpy(&bits, &x, 8);
    uint32_t cut = bits & (2 * HALF - 1);
    // x is not a subnormal float: it is 0 or at least 1e-22.
    if (cut - (HALF - GUARD) <= 2 * GUARD || x > FLT_MAX) return false;
    out = static_cast<float>(d.negative ? -x : x);
    return true;
}

// The double nearest to a decimal, if both factors are exact and only one operation rounds. Otherwise returns false.
inline bool to_double(const Decimal& d, double& out) {
    if (d.exponent < -LARGEST_POWER || d.exponent > LARGEST_POWER || d.digits > int64_t(1) << 53) return false;
    double x = static_cast<double>(d.digits);
    x = d.exponent < 0 ? x / POWER[LARGEST_POWER - d.exponent] : x * POWER[LARGEST_POWER + d.exponent];
    out = d.negative ? -x : x;
    return true;
}

inline bool same_word(const char* p, const char* end, const char* word) {
    for (; p < end && *word; ++p, ++word)
        if ((*p | 32) != *word) return false;
    return p == end && !*word;
}

// Reads any spelling of a number (float or double) in [p, end). Rounds like strtof and strtod, but accepts only decimal
// numbers. Returns nullptr, or the complaint.
template <typename Real>
const char* read_number(const char* p, const char* end, Real& out) {
    if (p == end) return "is missing";
    bool negative = *p == '-';
    p += *p == '-' || *p == '+';
    const char* start = p;
    if (same_word(p, end, "inf") || same_word(p, end, "infinity") || same_word(p, std::min(p + 3, end), "nan"))
        return "is not a finite number";
    if (end - p > 1 && p[0] == '0' && (p[1] | 32) == 'x') return "is hexadecimal: only decimal numbers are read";

    int64_t digits = 0, leading = 0;  // 10^(leading - 1) is the place value of the first nonzero digit
    bool zero = true;
    for (; p < end && is_digit(*p); ++p, ++digits) {
        zero &= *p == '0';
        leading += !zero;
    }
    if (p < end && *p == '.') {
        for (++p; p < end && is_digit(*p); ++p, ++digits) {
            leading -= zero && *p == '0';
            zero &= *p == '0';
        }
    }
    if (digits == 0) return "is not a number";
    int64_t exponent = 0;
    if (p < end && (*p | 32) == 'e') {
        bool below = ++p < end && *p == '-';
        p += p < end && (*p == '-' || *p == '+');
        if (p == end) return "is not a number";
        constexpr int64_t ENOUGH = int64_t(1) << 50;  // more than the digits of any text
        for (; p < end && is_digit(*p); ++p) exponent = std::min(exponent * 10 + (*p - '0'), ENOUGH);
        if (below) exponent = -exponent;
    }
    if (p != end) return "is not a number";

    out = 0;
    if (!zero) {
        // The library reports numbers that are too large or too small alike, and some libraries also report subnormals.
        // The exponent tells them apart.
        auto result = std::from_chars(start, end, out);
        if (result.ec == std::errc::result_out_of_range && leading + exponent <= 0) out = 0;
        else if (result.ec != std::errc() || std::isinf(out))
            return sizeof(Real) == sizeof(float) ? "is too large for float32" : "is too large for float64";
    }
    if (negative) out = -out;
    return nullptr;
}

// Reads an integer >= 0 of at most 63 bits in [p, end). Returns nullptr, or the complaint.
inline const char* read_whole(const char* p, const char* end, uint64_t& out) {
    if (p == end) return "is missing";
    const char* start = p;
    p += *p == '-' || *p == '+';
    bool digits = p < end && std::all_of(p, end, is_digit);
    if (!digits) {
        double any;
        return read_number(start, end, any) ? "is not a number" : "is not a whole number";
    }
    if (*start == '-') return "is negative";
    uint64_t w = 0;
    for (; p < end; ++p) {
        uint64_t digit = *p - '0';
        if (w > (INT64_MAX - digit) / 10) return "is larger than 9223372036854775807";
        w = w * 10 + digit;
    }
    out = w;
    return nullptr;
}

}  // namespace fmcli

#endif
