// Ids of features (numbers and names), their columns, and their hashes.
#ifndef FMCLI_IDS_H
#define FMCLI_IDS_H

#include <cstdint>
#include <cstring>

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

    // Name i of the names in the order in which they were added.
    Id name(size_t i) const {
        const int64_t start = i ? ends[i - 1] : 0;
        return named(text.data() + start, static_cast<size_t>(ends[i] - start));
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

    bool same(const Slot& slot, const Id& id) const {
        if (slot.key != id.key) return false;
        if (!id.name) return true;
        const size_t i = static_cast<size_t>(slot.place);
        const int64_t start = i ? ends[i - 1] : 0;
        return static_cast<size_t>(ends[i] - start) == id.length && std::memcmp(text.data() + start, id.name, id.length) == 0;
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
