// Writes numbers as the shortest decimal that reads back as the same number: floats by a fast path, others by
// std::to_chars, which writes the same text.
#ifndef FMCLI_SHORTEST_H
#define FMCLI_SHORTEST_H

#include <cfloat>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstring>

namespace fmcli {

// More characters than any number has.
constexpr int WIDEST = 32;

// A power of ten as the product of a number and a power of two. The number has 64 bits with the first bit set, and
// exceeds the exact value by at most one in the last bit.
struct TensTable {
    enum { FIRST = -31, LAST = 45 };  // all powers that floats need
    uint64_t numbers[LAST - FIRST + 1] = {};

    constexpr TensTable() {
        for (int power = FIRST; power <= LAST; ++power) numbers[power - FIRST] = number(power);
    }

   private:
    enum { LIMBS = 8 };  // an integer of 256 bits, the lowest 32 first

    static constexpr uint64_t number(int power) {
        // A division of 2^255 leaves more than 64 bits, and a product with 10^45 has fewer than 256.
        uint32_t limbs[LIMBS] = {};
        limbs[power < 0 ? LIMBS - 1 : 0] = power < 0 ? 1u << 31 : 1;
        for (int n = 0; n < power; ++n) {
            uint64_t carry = 0;
            for (int at = 0; at < LIMBS; ++at) {
                carry += limbs[at] * uint64_t(10);
                limbs[at] = uint32_t(carry);
                carry >>= 32;
            }
        }
        for (int n = 0; n > power; --n) {
            uint64_t rest = 0;
            for (int at = LIMBS; at-- > 0;) {
                rest = rest << 32 | limbs[at];
                limbs[at] = uint32_t(rest / 10);
                rest %= 10;
            }
        }
        int top = 32 * LIMBS - 1;
        while (!(limbs[top / 32] >> top % 32 & 1)) --top;
        uint64_t found = 0;
        for (int bit = top; bit > top - 64; --bit) found = found << 1 | (bit < 0 ? 0 : limbs[bit / 32] >> bit % 32 & 1);
        return found + 1;
    }
};

inline constexpr TensTable TENS;

// The upper 32 bits of the product; the last one is also set if any lower bit is ("rounded to odd").
inline uint32_t odd_product(uint64_t tens, uint32_t number) {
    const unsigned __int128 product = (unsigned __int128)tens * number;
    return uint32_t(product >> 64) | (uint32_t(uint64_t(product) >> 32) > 1);
}

// digits * 10^exponent, the shortest decimal that reads as this positive float, and the nearest of these: Giulietti,
// "The Schubfach way to render doubles" (2021), figure 4, for floats. Its digits may end with zeros.
inline uint32_t shortest_digits(uint32_t bits, int& exponent) {
    constexpr int MANTISSA = 23, LEAST = -149;
    const uint32_t mantissa = bits & ((1u << MANTISSA) - 1), biased = bits >> MANTISSA;
    const uint32_t c = biased ? mantissa | 1u << MANTISSA : mantissa;  // the float is c * 2^q
    const int q = biased ? int(biased) - 1 + LEAST : LEAST;
    const bool is_odd = c & 1, is_power = !mantissa && biased > 1;  // below a power of two, floats are twice as dense
    // 10^k is at most the width of the interval that is read as this float; log10(2) and log10(3/4) as fractions.
    const int k = (q * 1262611 - (is_power ? 524031 : 0)) >> 22;
    const int shift = q + ((-k * 1741647) >> 19) + 1;  // log2(10)
    const uint64_t tens = TENS.numbers[-k - TensTable::FIRST];
    // In quarters of 10^k: the float, and the ends of the interval, which belong to it if c is even.
    const uint32_t value = odd_product(tens, (4 * c) << shift);
    const uint32_t low = odd_product(tens, (4 * c - 2 + is_power) << shift) + is_odd;
    const uint32_t high = odd_product(tens, (4 * c + 2) << shift) - is_odd;
    const uint32_t below = value / 4, tenth = below / 10;
    const uint32_t tenth_is_in = low <= 40 * tenth, tenth_after = 40 * tenth + 40 <= high;
    const uint32_t is_in = low <= 4 * below, after = 4 * below + 4 <= high, middle = 4 * below + 2;
    const uint32_t rounded = (value > middle) | ((value == middle) & below);
    // Masks in place of branches, which would depend on nearly random bits.
    const uint32_t up = (after & (is_in ^ after)) | (rounded & ~(is_in ^ after) & 1);
    const uint32_t shorter = (below >= 10) & (tenth_is_in ^ tenth_after);
    exponent = k + int(shorter);
    const uint32_t mask = -shorter;
    return ((tenth + tenth_after) & mask) | ((below + up) & ~mask);
}

// The eight digits of a number below 10^8, a byte each, first digit lowest. All at once: numbers of different lengths
// cause no branch mispredictions.
inline uint64_t eight_digits(uint32_t number) {
    const uint64_t fours = number / 10000 | uint64_t(number % 10000) << 32;
    const uint64_t high = (fours * 10486 >> 20) & 0x0000007F0000007F;  // divided by 100
    const uint64_t pairs = high + ((fours - 100 * high) << 16);
    const uint64_t tens = (pairs * 103 >> 10) & 0x000F000F000F000F;
    return tens + ((pairs - 10 * tens) << 8);
}
constexpr uint64_t CHARACTERS = 0x3030303030303030;  // added to digits

// The nine digits of a number >= 10^8, and their count without zeros at the end.
struct NineDigits {
    char first;
    uint64_t others;  // characters
    int count;

    explicit NineDigits(uint32_t number) {
        const uint64_t digits = eight_digits(number % 100000000);
        first = char('0' + number / 100000000);
        others = digits + CHARACTERS;
        count = digits ? 9 - __builtin_ctzll(__builtin_bswap64(digits)) / 8 : 1;
    }
    char* write(char* out) const {
        *out = first;
        std::memcpy(out + 1, &others, sizeof others);
        return out + count;
    }
};

// Writes a number, and returns the end. Needs room for WIDEST characters.
inline char* write_number(char* out, int64_t value) {
    if (uint64_t(value) >= 100000000) return std::to_chars(out, out + WIDEST, value).ptr;
    const uint64_t digits = eight_digits(uint32_t(value));
    const int zeros = __builtin_ctzll(digits | uint64_t(1) << 56) / 8;
    const uint64_t characters = (digits + CHARACTERS) >> 8 * zeros;
    std::memcpy(out, &characters, sizeof characters);
    return out + 8 - zeros;
}

inline char* write_number(char* out, double value) { return std::to_chars(out, out + WIDEST, value).ptr; }

inline char* write_number(char* out, float value) {
    constexpr float ALL_EXACT = 1 << 24;  // larger floats are not their digits followed by zeros
    const float size = std::fabs(value);
    if (!(size >= FLT_MIN && size < ALL_EXACT)) return std::to_chars(out, out + WIDEST, value).ptr;
    uint32_t bits;
    std::memcpy(&bits, &size, sizeof bits);
    int exponent;
    const uint32_t number = shortest_digits(bits, exponent);
    // A mantissa of 24 bits has seven to nine digits, and a shorter one has one digit less.
    static constexpr uint32_t TO_NINE[] = {1000, 100, 10, 1};
    const int above = (number >= 1000000) + (number >= 10000000) + (number >= 100000000);
    const int leading = 6 + above + exponent;  // the digits before the point
    const NineDigits digits(number * TO_NINE[above]);
    const int count = digits.count;
    *out = '-';
    out += std::signbit(value);
    // The shorter of both notations: with a point, zeros before or after the digits count; with an exponent, e-05
    // counts, and so does a point after the first of several digits.
    const int most = 4 + (count > 1);
    if (leading <= 0 && 2 - leading <= most) {
        std::memcpy(out, "0.000000", 8);
        return digits.write(out + 2 - leading);
    }
    if (0 < leading && leading < count) {
        const uint64_t after = digits.others >> 8 * (leading - 1);
        digits.write(out);
        out[leading] = '.';
        std::memcpy(out + leading + 1, &after, sizeof after);
        return out + count + 1;
    }
    if (leading >= count && leading - count <= most) {
        digits.write(out);  // this writes nine characters: zeros after its digits fill up to the point
        return out + leading;
    }
    digits.write(out + 1);
    out[0] = digits.first;
    out[1] = '.';
    out += count + (count > 1);
    const int power = leading - 1, absolute = power < 0 ? -power : power;
    *out++ = 'e';
    *out++ = power < 0 ? '-' : '+';
    *out++ = '0' + absolute / 10;
    *out++ = '0' + absolute % 10;
    return out;
}

}  // namespace fmcli

#endif
