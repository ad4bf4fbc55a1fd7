// Ids of features (numbers and names), their columns, and their hashes.
#ifndef FMCLI_IDS_H
#define FMCLI_IDS_H

#include <cstdint>
#include <cstring>
#include <vector>

#include "fmcli/data/arrays.h"

namespace fmcli {

// The last step of MurmurHash3 (Austin Appleby, public domain), which maps no two numbers to the same one.
inline uint64_t mixed(uint64_t h) {
    h ^= h >> 33;
    h *= 0xff51afd7ed558ccd;
    h ^= h >> 33;
    h *= 0xc4ceb9fe1a85ec53;
    return h ^ h >> 33;
}

// MurmurHash64A (Austin Appleby, public domain) with the seed 0, of bytes in little-endian order.
inline uint64_t hash_of(const char* p, size_t length) {
    constexpr uint64_t M = 0xc6a4a7935bd1e995;
    uint64_t h = length * M;
    const auto take = [&h](uint64_t k) {
        k *= M;
        h ^= (k ^ k >> 47) * M;
        h *= M;
    };
    for (; length >= 8; p += 8, length -= 8) {
        uint64_t chunk = 0;
        for (int i = 0; i < 8; ++i) chunk |= static_cast<uint64_t>(static_cast<unsigned char>(p[i])) << 8 * i;
        take(chunk);
    }
    if (length) {
        uint64_t chunk = 0;
        for (size_t i = 0; i < length; ++i) chunk |= static_cast<uint64_t>(static_cast<unsigned char>(p[i])) << 8 * i;
        h = (h ^ chunk) * M;
    }
    h = (h ^ h >> 47) * M;
    return h ^ h >> 47;
}

// The id of a feature: a number, or a name if `name` is not null.
struct Id {
    uint64_t key = 0;  // the number, or the hash of the name
    const char* name = nullptr;
    size_t length = 0;
};

inline Id named(const char* name, size_t length) { return {hash_of(name, length), name, length}; }

// Whether a name comes before another one in the order of their bytes.
inline bool before(const Id& one, const Id& other) {
    const int difference = std::memcmp(one.name, other.name, std::min(one.length, other.length));
    return difference ? difference < 0 : one.length < other.length;
}

// The column of an id among 2^bits columns: the last bits of its hash. A number is hashed as eight bytes.
inline int32_t hashed_column(const Id& id, int bits) {
    uint64_t hash = id.key;
    if (!id.name) {
        char number[8];
        for (int i = 0; i < 8; ++i) number[i] = static_cast<char>(id.key >> 8 * i);
        hash = hash_of(number, sizeof number);
    }
    return static_cast<int32_t>(hash & ((uint64_t{1} << bits) - 1));
}

constexpr int32_t NO_COLUMN = -1;

// Ids in the order in which they were added, which is that of their columns 0, 1, ...
//
// They are found by open addressing, with a table for numbers and one for names.
class Ids {
  public:
    Ids() = default;
    Ids(const Ids&) = delete;
    Ids& operator=(const Ids&) = delete;

    // The ids and their columns. Name i is text[ends[i - 1]:ends[i]].
    Array<int64_t> numbers, ends;
    Array<int32_t> number_columns, name_columns;
    Array<char> text;

    size_t size() const { return numbers.size() + ends.size(); }

    size_t bytes() const {
        return 8 * (numbers.size() + ends.size()) + 4 * size() + text.size() + sizeof(Slot) * (of_numbers_.size() + of_names_.size());
    }

    // Asks for the memory in which an id is found.
    void prefetch(const Id& id) const {
        const Table& table = id.name ? of_names_ : of_numbers_;
        if (table.size()) __builtin_prefetch(&table.slots[table.first(id)]);
    }

    // The column of an id, or NO_COLUMN. Several threads can search at the same time.
    int32_t find(const Id& id) const {
        const Table& table = id.name ? of_names_ : of_numbers_;
        if (!table.size()) return NO_COLUMN;
        const Slot& slot = table.slots[place_of(table, id)];
        return slot.taken ? column_in(slot, id) : NO_COLUMN;
    }

    // The column of an id, which is added if it is new. `row` identifies the caller's row; `repeated` is set if the id
    // was already looked up for it. Throws std::bad_alloc.
    int32_t add(const Id& id, uint32_t row, bool& repeated) {
        Table& table = id.name ? of_names_ : of_numbers_;
        if (4 * (table.used + 1) > 3 * table.size()) grow(table);
        Slot& slot = table.slots[place_of(table, id)];
        if (slot.taken) {
            repeated |= slot.row == row;
            slot.row = row;
            return column_in(slot, id);
        }
        const int32_t column = static_cast<int32_t>(size());
        if (id.name) {
            const size_t start = text.size();
            text.reserve(start + id.length);
            text.resize(start + id.length);
            std::copy_n(id.name, id.length, text.data() + start);
            slot = {id.key, static_cast<int32_t>(ends.size()), row, true};
            ends.push(static_cast<int64_t>(text.size()));
            name_columns.push(column);
        } else {
            slot = {id.key, column, row, true};
            numbers.push(static_cast<int64_t>(id.key));
            number_columns.push(column);
        }
        ++table.used;
        return column;
    }

    int32_t add(const Id& id) {
        bool repeated = false;
        return add(id, 0, repeated);
    }

    // Adds all ids of another object. Returns the columns here of its columns. Throws std::bad_alloc.
    std::vector<int32_t> add_all(const Ids& other) {
        constexpr size_t AHEAD = 16;  // ids that are prefetched before they are looked up
        std::vector<int32_t> columns(other.size());
        const size_t count = other.numbers.size();
        const auto number = [&other](size_t i) { return Id{static_cast<uint64_t>(other.numbers[i])}; };
        for (size_t i = 0; i < count; ++i) {
            if (i + AHEAD < count) prefetch(number(i + AHEAD));
            columns[static_cast<size_t>(other.number_columns[i])] = add(number(i));
        }
        for (size_t i = 0; i < other.ends.size(); ++i)
            columns[static_cast<size_t>(other.name_columns[i])] = add(other.name(i));
        return columns;
    }

    // Name i of the names in the order in which they were added.
    Id name(size_t i) const {
        const Span span = span_of(i);
        return named(span.begin, span.length);
    }

    // The positions of the names in increasing order of their bytes.
    std::vector<int32_t> names_in_order() const {
        struct Key {
            uint64_t prefix;  // the first bytes that differ, as a number with the same order
            int32_t place;
        };
        std::vector<Key> keys(ends.size());
        size_t common = keys.empty() ? 0 : span_of(0).length;  // the bytes at the beginning of all names
        for (size_t i = 1; i < keys.size() && common; ++i) {
            const Span first = span_of(0), span = span_of(i);
            common = std::min(common, span.length);
            while (common && std::memcmp(first.begin, span.begin, common)) --common;
        }
        for (size_t i = 0; i < keys.size(); ++i) {
            const Span span = span_of(i);
            uint64_t prefix = 0;
            for (size_t j = 0; j < 8; ++j)
                prefix = prefix << 8 | (common + j < span.length ? static_cast<unsigned char>(span.begin[common + j]) : 0);
            keys[i] = {prefix, static_cast<int32_t>(i)};
        }
        std::sort(keys.begin(), keys.end(), [this](const Key& one, const Key& other) {
            if (one.prefix != other.prefix) return one.prefix < other.prefix;
            const Span first = span_of(static_cast<size_t>(one.place)), second = span_of(static_cast<size_t>(other.place));
            return before({0, first.begin, first.length}, {0, second.begin, second.length});
        });
        std::vector<int32_t> order(keys.size());
        for (size_t i = 0; i < keys.size(); ++i) order[i] = keys[i].place;
        return order;
    }

    // Removes all ids and keeps the memory.
    void clear() {
        numbers.resize(0);
        ends.resize(0);
        number_columns.resize(0);
        name_columns.resize(0);
        text.resize(0);
        of_numbers_.clear();
        of_names_.clear();
    }

  private:
    struct Slot {
        uint64_t key;
        int32_t place;      // the column of a number, the position of a name
        uint32_t row : 31;  // that looked it up last
        uint32_t taken : 1;
    };

    struct Table {
        Array<Slot> slots;  // as many as a power of two, or none
        size_t used = 0;

        size_t size() const { return slots.size(); }
        size_t first(const Id& id) const { return (id.name ? id.key : mixed(id.key)) & (size() - 1); }
        void clear() {
            std::fill_n(slots.data(), slots.size(), Slot{});
            used = 0;
        }
    };

    int32_t column_in(const Slot& slot, const Id& id) const {
        return id.name ? name_columns[static_cast<size_t>(slot.place)] : slot.place;
    }

    struct Span {
        const char* begin;
        size_t length;
    };

    Span span_of(size_t i) const {
        const int64_t start = i ? ends[i - 1] : 0;
        return {text.data() + start, static_cast<size_t>(ends[i] - start)};
    }

    bool same(const Slot& slot, const Id& id) const {
        if (slot.key != id.key) return false;
        if (!id.name) return true;
        const Span span = span_of(static_cast<size_t>(slot.place));
        return span.length == id.length && std::memcmp(span.begin, id.name, id.length) == 0;
    }

    // The place of an id in a table: its own, or the free one where it belongs.
    size_t place_of(const Table& table, const Id& id) const {
        size_t at = table.first(id);
        while (table.slots[at].taken && !same(table.slots[at], id)) at = (at + 1) & (table.size() - 1);
        return at;
    }

    void grow(Table& table) {
        constexpr size_t FEWEST = 64;
        const size_t before = table.size(), size = std::max(2 * before, FEWEST);
        Array<Slot> slots;
        slots.reserve(size);
        slots.resize(size);
        std::fill_n(slots.data(), size, Slot{});
        const bool names = &table == &of_names_;
        for (size_t i = 0; i < before; ++i) {
            const Slot& slot = table.slots[i];
            if (!slot.taken) continue;
            size_t at = (names ? slot.key : mixed(slot.key)) & (size - 1);
            while (slots[at].taken) at = (at + 1) & (size - 1);
            slots[at] = slot;
        }
        table.slots.swap(slots);
    }

    Table of_numbers_, of_names_;
};

}  // namespace fmcli

#endif
