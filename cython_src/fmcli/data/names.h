// Names of features and their columns.
#ifndef FMCLI_NAMES_H
#define FMCLI_NAMES_H

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <new>
#include <vector>

#include "fmcli/data/arrays.h"
#include "fmcli/data/id.h"

namespace fmcli {

constexpr int32_t NO_COLUMN = -1;

// Names in the order of their addition, with their columns.
//
// They are found by open addressing. A slot has everything about a short name, so a search usually reads one line of
// memory, which the caller can prefetch.
class Names {
  public:
    Names() = default;
    Names(const Names&) = delete;
    Names& operator=(const Names&) = delete;

    size_t size() const { return order_.size(); }

    // The sum of the lengths of all names.
    size_t text_bytes() const { return text_bytes_; }

    size_t bytes() const { return long_text_.size() + sizeof(uint32_t) * order_.size() + sizeof(Slot) * slots_.size(); }

    // Name i.
    Id name(size_t i) const {
        const Text found = text_at(order_[i]);
        return named(found.begin, found.length);
    }

    int32_t column(size_t i) const { return slots_[order_[i]].column; }

    // Prefetches the memory in which a name is searched first. Always inlined, like Ids::prefetch.
    __attribute__((always_inline)) void prefetch(const Id& name) const {
        if (slots_.size()) __builtin_prefetch(&slots_[first(name)]);
    }

    // The column of a name, or NO_COLUMN. Several threads can search at the same time.
    int32_t find(const Id& name) const {
        if (!slots_.size()) return NO_COLUMN;
        const Slot* slot = &slots_[first(name)];
        if (!is_name(*slot, name)) slot = &slots_[place_of(name)];
        return slot->length ? slot->column : NO_COLUMN;
    }

    // Finds the column of a name; a new name gets `column`. `row` identifies the caller's row; `repeated` is set if the
    // name was already searched for the row. Throws std::bad_alloc.
    __attribute__((always_inline)) int32_t add(const Id& name, int32_t column, uint32_t row, bool& repeated) {
        if (!slots_.size()) grow();
        Slot* slot = &slots_[first(name)];
        if (!is_name(*slot, name)) slot = &found_or_added(name, column, ~row);  // rare: nearly all are in their first
        repeated |= slot->row == row;
        slot->row = row;
        return slot->column;
    }

    // The bytes of a name.
    struct Text {
        const char* begin;
        size_t length;
    };

    // The name in a slot, its column, and a prefetch of its memory.
    Text text_at(size_t slot) const { return {text_of(slots_[slot]), slots_[slot].length - 1}; }
    int32_t column_at(size_t slot) const { return slots_[slot].column; }
    __attribute__((always_inline)) void prefetch_at(size_t slot) const { __builtin_prefetch(&slots_[slot]); }

    // The slots of the names in increasing order of their bytes. They are sorted by sixteen bytes, then ties by the
    // next sixteen, and so on.
    std::vector<uint32_t> in_order() const {
        std::vector<Key> keys, room;
        keys.reserve(size());
        for (size_t at = 0; at < slots_.size(); ++at)
            if (slots_[at].length) keys.push_back(key_of(static_cast<uint32_t>(at), 0));
        struct Range {
            size_t first, last, common;  // names first to last - 1 have this many bytes in common
            size_t word;                 // and the words of their keys before this one
        };
        std::vector<Range> left = {{0, keys.size(), 0, 0}};
        while (!left.empty()) {
            const Range range = left.back();
            left.pop_back();
            Key* const begin = keys.data() + range.first;
            Key* const end = keys.data() + range.last;
            const size_t sorted = sort_keys(begin, end, range.word, room);
            const auto same = [sorted](const Key& a, const Key& b) {
                return a.words[0] == b.words[0] && (sorted < 2 || (a.words[1] == b.words[1] && a.count == b.count));
            };
            const auto place = [&keys](const Key* key) { return static_cast<size_t>(key - keys.data()); };
            for (Key *one = begin, *other; one < end; one = other) {
                for (other = one + 1; other < end && same(*one, *other);) ++other;
                if (other - one < 2) continue;
                const size_t common = range.common + (sorted < 2 ? 0 : FIRST_BYTES);
                if (sorted == 2)
                    for (Key* key = one; key < other; ++key) *key = key_of(key->slot, common);
                left.push_back({place(one), place(other), common, sorted % 2});
            }
        }
        std::vector<uint32_t> order(keys.size());
        for (size_t i = 0; i < keys.size(); ++i) order[i] = keys[i].slot;
        return order;
    }

    // Removes all names and keeps the memory.
    void clear() {
        order_.resize(0);
        long_text_.resize(0);
        text_bytes_ = 0;
        if (slots_.size()) std::fill_n(slots_.data(), slots_.size(), Slot{});
    }

  private:
    // A slot of the table: two slots fill a line of memory.
    struct alignas(32) Slot {
        char first[FIRST_BYTES] = {};  // of the name, as in its Id; for a longer name, its key and its text's place
        uint32_t row = 0;              // the last row that searched it
        int32_t column = 0;
        uint32_t length = 0;           // plus 1; 0 for a free slot
        uint32_t hash = 0;
    };

    // Some bytes of a name, as a key for sorting.
    struct Key {
        uint64_t words[2];  // as numbers with the same order; zeros follow the end of the name
        uint32_t slot;
        uint8_t count;  // the number of bytes, below sixteen at the end of the name
    };

    Array<uint32_t> order_;  // the slot of each name
    Array<char> long_text_;  // the texts of names that are longer than a slot
    Array<Slot> slots_;      // their number is a power of two, or 0
    size_t text_bytes_ = 0;

    // The slots in which a name may be: the slots of a line of memory, then of the next line.
    struct Probe {
        size_t at, mask;
        bool second = false;

        Probe(size_t hash, size_t slots) : at(hash & (slots - 1)), mask(slots - 1) {}
        void next() {
            at ^= 1;
            if (second) at = (at + 2) & mask;
            second = !second;
        }
    };

    size_t first(const Id& name) const { return name.key & (slots_.size() - 1); }

    static bool is_long(const Slot& slot) { return slot.length > FIRST_BYTES + 1; }

    const char* text_of(const Slot& slot) const {
        return is_long(slot) ? long_text_.data() + load8(slot.first + 8) : slot.first;
    }

    __attribute__((always_inline)) bool is_name(const Slot& slot, const Id& name) const {
        if (slot.length != name.length + 1) return false;
        if (!is_long(slot)) return ((load8(slot.first) ^ name.low) | (load8(slot.first + 8) ^ name.high)) == 0;
        return load8(slot.first) == name.key && same_bytes(text_of(slot), name.name, name.length);
    }

    // The key of the name in a slot, from byte `common` on.
    Key key_of(uint32_t at, size_t common) const {
        const Text name = text_at(at);
        const size_t count = std::min(name.length - common, FIRST_BYTES);
        char bytes[FIRST_BYTES] = {};
        std::copy_n(name.begin + common, count, bytes);
        return {{__builtin_bswap64(load8(bytes)), __builtin_bswap64(load8(bytes + 8))}, at, static_cast<uint8_t>(count)};
    }

    // Sorts keys with equal words before `word`: many keys by this word (if it is the last, also by their counts) in a
    // radix sort from the last digit on; few keys by all words. Returns the number of words that they are sorted by.
    static size_t sort_keys(Key* first, Key* last, size_t word, std::vector<Key>& room) {
        constexpr size_t FEW = 512, DIGITS = 9;
        const size_t size = static_cast<size_t>(last - first);
        if (size <= FEW) {
            std::sort(first, last, [](const Key& a, const Key& b) {
                if (a.words[0] != b.words[0]) return a.words[0] < b.words[0];
                return a.words[1] != b.words[1] ? a.words[1] < b.words[1] : a.count < b.count;
            });
            return 2;
        }
        room.resize(std::max(room.size(), size));
        const auto digit_of = [word](const Key& key, size_t digit) {
            return digit == 0 ? key.count : static_cast<uint8_t>(key.words[word] >> 8 * (digit - 1));
        };
        size_t starts[DIGITS][257] = {};
        for (const Key* key = first; key < last; ++key)
            for (size_t digit = 1 - word; digit < DIGITS; ++digit) ++starts[digit][digit_of(*key, digit) + 1];
        Key *from = first, *to = room.data();
        for (size_t digit = 1 - word; digit < DIGITS; ++digit) {
            if (starts[digit][digit_of(*first, digit) + 1] == size) continue;  // all keys have the same digit
            for (size_t i = 1; i <= 256; ++i) starts[digit][i] += starts[digit][i - 1];
            for (size_t i = 0; i < size; ++i) to[starts[digit][digit_of(from[i], digit)]++] = from[i];
            std::swap(from, to);
        }
        if (from != first) std::copy_n(from, size, first);
        return word + 1;
    }

    // The position of a name in the table: its slot, or the free slot where it belongs.
    __attribute__((noinline)) size_t place_of(const Id& name) const {
        Probe probe(name.key, slots_.size());
        while (slots_[probe.at].length && !is_name(slots_[probe.at], name)) probe.next();
        return probe.at;
    }

    // The slot of a name. A new name gets this column and row; `row` must differ from the row that searches it.
    __attribute__((noinline)) Slot& found_or_added(const Id& name, int32_t column, uint32_t row) {
        size_t place = place_of(name);
        if (slots_[place].length) return slots_[place];
        if (name.length >= UINT32_MAX) throw std::bad_alloc();
        if (4 * (size() + 1) > 3 * slots_.size()) {
            grow();
            place = place_of(name);
        }
        Slot& slot = slots_[place];
        uint64_t words[2] = {name.low, name.high};
        const size_t start = long_text_.size(), kept = name.length > FIRST_BYTES ? name.length : 0;
        if (kept) {
            long_text_.reserve(start + kept);
            std::copy_n(name.name, kept, long_text_.data() + start);
            words[0] = name.key, words[1] = start;
        }
        order_.push(static_cast<uint32_t>(place));
        long_text_.resize(start + kept);
        text_bytes_ += name.length;
        slot = {{}, row, column, static_cast<uint32_t>(name.length + 1), static_cast<uint32_t>(name.key)};
        for (int i : {0, 1}) store8(slot.first + 8 * i, words[i]);
        return slot;
    }

    // Names are inserted in the order of their addition, so frequent names are found at once.
    void grow() {
        constexpr size_t AHEAD = 16;  // names whose memory is prefetched
        const Array<Slot> slots = doubled(slots_);
        for (size_t i = 0; i < size(); ++i) {
            if (i + AHEAD < size()) __builtin_prefetch(&slots[order_[i + AHEAD]]);
            const Slot& slot = slots[order_[i]];
            Probe probe(slot.hash, slots_.size());
            while (slots_[probe.at].length) probe.next();
            slots_[probe.at] = slot;
            order_[i] = static_cast<uint32_t>(probe.at);
        }
    }
};

}  // namespace fmcli

#endif
