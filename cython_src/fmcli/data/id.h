// The id of a feature (a number or a name), and hashes of ids.
#ifndef FMCLI_ID_H
#define FMCLI_ID_H

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace fmcli {

// Eight bytes as a little-endian number.
inline uint64_t load8(const char* p) {
    uint64_t chunk;
    std::memcpy(&chunk, p, 8);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    chunk = __builtin_bswap64(chunk);
#endif
    return chunk;
}

inline void store8(char* p, uint64_t chunk) {
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    chunk = __builtin_bswap64(chunk);
#endif
    std::memcpy(p, &chunk, 8);
}

inline uint64_t load4(const char* p) {
    uint32_t chunk;
    std::memcpy(&chunk, p, 4);
    return chunk;
}

// The last step of MurmurHash3 (Austin Appleby, public domain), a bijection.
inline uint64_t mixed(uint64_t h) {
    h ^= h >> 33;
    h *= 0xff51afd7ed558ccd;
    h ^= h >> 33;
    h *= 0xc4ceb9fe1a85ec53;
    return h ^ h >> 33;
}

// MurmurHash64A (Austin Appleby, public domain) with seed 0, of bytes in little-endian order.
inline uint64_t murmur_hash(const char* p, size_t length) {
    constexpr uint64_t M = 0xc6a4a7935bd1e995;
    uint64_t h = length * M;
    for (; length >= 8; p += 8, length -= 8) {
        const uint64_t k = load8(p) * M;
        h ^= (k ^ k >> 47) * M;
        h *= M;
    }
    if (length) {
        uint64_t chunk = 0;
        for (size_t i = 0; i < length; ++i) chunk |= static_cast<uint64_t>(static_cast<unsigned char>(p[i])) << 8 * i;
        h = (h ^ chunk) * M;
    }
    h = (h ^ h >> 47) * M;
    return h ^ h >> 47;
}

constexpr uint64_t SEARCH_SEED = 0xa0761d6478bd642f;

// Combines two words by a product of 128 bits, whose halves are added without carry, as in wyhash (Wang Yi, public
// domain).
inline uint64_t joined_words(uint64_t h, uint64_t one, uint64_t other) {
    constexpr uint64_t OTHER_SEED = 0xe7037ed1a0b428db;
    __extension__ using Product = unsigned __int128;
    const Product product = static_cast<Product>(one ^ h) * (other ^ OTHER_SEED);
    return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

// A hash of bytes for searches in memory; it is never stored in files. Words may overlap, so no byte beyond the string
// is read.
inline uint64_t search_hash(const char* p, size_t length) {
    uint64_t h = SEARCH_SEED ^ length;
    const auto take = [&h](uint64_t one, uint64_t other) { h = joined_words(h, one, other); };
    const char* const end = p + length;
    if (length >= 8) {
        for (; end - p > 16; p += 16) take(load8(p), load8(p + 8));
        take(load8(std::min(p, end - 8)), load8(end - 8));
    } else if (length >= 4) {
        take(load4(p), load4(end - 4));
    } else {
        for (; p < end; ++p) take(static_cast<unsigned char>(*p), 0);
    }
    return h;
}

// Whether two strings of the same length are equal.
inline bool same_bytes(const char* one, const char* other, size_t length) {
    if (length < 8) {
        for (size_t i = 0; i < length; ++i)
            if (one[i] != other[i]) return false;
        return true;
    }
    for (size_t i = 0; i + 8 < length; i += 8)
        if (load8(one + i) != load8(other + i)) return false;
    return load8(one + length - 8) == load8(other + length - 8);
}

// The id of a feature: a number, or a name if `name` is not null.
struct Id {
    uint64_t key = 0;  // the number, or the hash by which the name is searched
    const char* name = nullptr;
    size_t length = 0;
    uint64_t low = 0, high = 0;  // the first bytes of the name, followed by zeros
};

constexpr size_t FIRST_BYTES = 16;  // of a name, stored in its Id

// The Id of a name with these first bytes, usually the whole name.
inline Id name_of(const char* name, size_t length, uint64_t low, uint64_t high) {
    const uint64_t key = length <= FIRST_BYTES ? joined_words(SEARCH_SEED ^ length, low, high) : search_hash(name, length);
    return {key, name, length, low, high};
}

inline Id named(const char* name, size_t length) {
    char first[FIRST_BYTES] = {};
    std::copy_n(name, std::min(length, FIRST_BYTES), first);
    return name_of(name, length, load8(first), load8(first + 8));
}

// The same if FIRST_BYTES bytes of the name can be read: without a branch on its length, which varies from name to
// name.
inline __attribute__((always_inline)) Id named_in_text(const char* name, size_t length) {
    static constexpr uint64_t KEPT[4] = {UINT64_MAX, UINT64_MAX, 0, 0};
    const char* const kept = reinterpret_cast<const char*>(KEPT) + FIRST_BYTES - std::min(length, FIRST_BYTES);
    return name_of(name, length, load8(name) & load8(kept), load8(name + 8) & load8(kept + 8));
}

// Whether a name precedes another in the order of their bytes.
inline bool before(const Id& one, const Id& other) {
    const int difference = std::memcmp(one.name, other.name, std::min(one.length, other.length));
    return difference ? difference < 0 : one.length < other.length;
}

// The column of an id among 2^bits columns: the last bits of its MurmurHash64A. A number is hashed as eight bytes.
inline int32_t hashed_column(const Id& id, int bits) {
    uint64_t hash;
    if (id.name) {
        hash = murmur_hash(id.name, id.length);
    } else {
        char number[8];
        for (int i = 0; i < 8; ++i) number[i] = static_cast<char>(id.key >> 8 * i);
        hash = murmur_hash(number, sizeof number);
    }
    return static_cast<int32_t>(hash & ((uint64_t{1} << bits) - 1));
}

}  // namespace fmcli

#endif
