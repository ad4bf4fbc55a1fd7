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

// Names in the order in which they were added, with their columns.
//
// They are found by open addressing. A slot has all that belongs to a short name, so that a search usually reads one
// line of memory, which the caller can have fetched in advance.
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
        const Text found = text(i);
        return named(found.begin, found.length);
    }

    int32_t column(size_t i) const { return slots_[order_[i]].column; }

    // Asks for the memory in which a name is searched first. Always inlined, as Ids::prefetch.
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

    // Finds the column of a name; a new name gets this one. `row` identifies the caller's row; `repeated` is set if the
    // name was already searched for it. Throws std::bad_alloc.
    __attribute__((always_inline)) int32_t add(const Id& name, int32_t column, uint32_t row, bool& repeated) {
        if (!slots_.size()) grow();
        Slot* slot = &slots_[first(name)];
        if (!is_name(*slot, name)) slot = &found_or_added(name, column, ~row);  // nearly all are in their first slot
        repeated |= slot->row == row;
        slot->row = row;
        return slot->column;
    }

    // The bytes of name i.
    struct Text {
        const char* begin;
        size_t length;
    };

    Text text(size_t i) const {
        const Slot& slot = slots_[order_[i]];
        return {text_of(slot), slot.length - 1};
    }

    // Asks for the memory of name i.
    __attribute__((always_inline)) void prefetch_text(size_t i) const { __builtin_prefetch(&slots_[order_[i]]); }

    // The positions of the names in increasing order of their bytes. They are sorted by eight bytes, then those for
    // which these are the same by the next eight that differ, and so on.
    std::vector<int32_t> in_order() const {
        struct Range {
            size_t first, last, common;  // the names from first to last - 1 have so many bytes in common
        };
        std::vector<Key> keys(size()), room;
        for (size_t i = 0; i < keys.size(); ++i) keys[i].place = static_cast<int32_t>(i);
        std::vector<Range> left = {{0, keys.size(), 0}};
        while (!left.empty()) {
            const Range range = left.back();
            left.pop_back();
            if (range.last - range.first < 2) continue;
            const size_t common = take_bytes(keys.data() + range.first, keys.data() + range.last, range.common);
            sort_keys(keys.data() + range.first, keys.data() + range.last, room);
            for (size_t i = range.first, j; i < range.last; i = j) {
                for (j = i + 1; j < range.last && keys[j].bytes == keys[i].bytes && keys[j].count == keys[i].count;) ++j;
                left.push_back({i, j, common + keys[i].count});
            }
        }
        std::vector<int32_t> order(keys.size());
        for (size_t i = 0; i < keys.size(); ++i) order[i] = keys[i].place;
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
    // A slot of the table: two lie in a line of memory.
    struct alignas(32) Slot {
        char first[FIRST_BYTES] = {};  // of the name, as in its Id; of a longer one, its key and where its text is
        uint32_t row = 0;              // that searched it last
        int32_t column = 0;
        uint32_t length = 0;           // plus 1; 0 for a free slot
        uint32_t hash = 0;
    };

    // Some bytes of a name, by which it is sorted.
    struct Key {
        uint64_t bytes;  // as a number with the same order
        int32_t place;
        uint8_t count;  // of bytes, less than eight at the end of the name
    };

    Array<uint32_t> order_;  // the slot of each name
    Array<char> long_text_;  // of the names that are longer than a slot
    Array<Slot> slots_;      // as many as a power of two, or none
    size_t text_bytes_ = 0;

    // The slots in which a name may be: a line of memory, then the next one.
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

    // Sets the bytes of the keys of some names, which have `common` first bytes in common, to those behind the first
    // bytes that all of them have in common. Returns the number of these.
    size_t take_bytes(Key* first, Key* last, size_t common) const {
        constexpr ptrdiff_t AHEAD = 16;  // names whose memory is asked for in advance
        const auto text_at = [this](const Key* key) { return text(static_cast<size_t>(key->place)); };
        const Text one = text_at(first);
        size_t shared = one.length;
        for (const Key* key = first + 1; key < last && shared > common; ++key) {
            if (key + AHEAD < last) prefetch_text(static_cast<size_t>(key[AHEAD].place));
            const Text other = text_at(key);
            shared = std::min(shared, other.length);
            const auto differing = std::mismatch(one.begin + common, one.begin + shared, other.begin + common);
            shared = static_cast<size_t>(differing.first - one.begin);
        }
        for (Key* key = first; key < last; ++key) {
            if (key + AHEAD < last) prefetch_text(static_cast<size_t>(key[AHEAD].place));
            const Text name = text_at(key);
            key->count = static_cast<uint8_t>(std::min(name.length - shared, sizeof key->bytes));
            key->bytes = 0;
            for (int i = 0; i < key->count; ++i)
                key->bytes |= static_cast<uint64_t>(static_cast<unsigned char>(name.begin[shared + i])) << 8 * (7 - i);
        }
        return shared;
    }

    // Sorts keys by their bytes, and then by the number of these: if there are many, by one digit after the other, from
    // the last one.
    static void sort_keys(Key* first, Key* last, std::vector<Key>& room) {
        constexpr size_t FEW = 512, DIGITS = sizeof first->bytes + 1;
        const size_t size = static_cast<size_t>(last - first);
        if (size <= FEW) {
            std::sort(first, last, [](const Key& a, const Key& b) {
                return a.bytes != b.bytes ? a.bytes < b.bytes : a.count < b.count;
            });
            return;
        }
        room.resize(size);
        for (size_t digit = 0; digit < DIGITS; ++digit) {
            const auto digit_of = [digit](const Key& key) {
                return digit == 0 ? key.count : static_cast<uint8_t>(key.bytes >> 8 * (digit - 1));
            };
            size_t starts[257] = {};
            for (const Key* key = first; key < last; ++key) ++starts[digit_of(*key) + 1];
            if (starts[digit_of(*first) + 1] == size) continue;  // all have the same one
            for (size_t i = 1; i <= 256; ++i) starts[i] += starts[i - 1];
            for (const Key* key = first; key < last; ++key) room[starts[digit_of(*key)]++] = *key;
            std::copy_n(room.data(), size, first);
        }
    }

    // The place of a name in the table: its own, or the free one where it belongs.
    __attribute__((noinline)) size_t place_of(const Id& name) const {
        Probe probe(name.key, slots_.size());
        while (slots_[probe.at].length && !is_name(slots_[probe.at], name)) probe.next();
        return probe.at;
    }

    // The slot of a name. A new name gets this column and row, which must not be the row that searches it.
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

    // Names are placed in the order in which they were added, so that frequent names are found at once.
    void grow() {
        constexpr size_t AHEAD = 16;  // names whose memory is asked for in advance
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
