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
// They are found by open addressing. A name and all that belongs to it lie together in one record, so that a search
// reads memory in two places: a slot of the table, and the record. The caller can have both fetched in advance, by
// `prefetch` for several names, and then by `likely`.
class Names {
  public:
    Names() = default;
    Names(const Names&) = delete;
    Names& operator=(const Names&) = delete;

    using Record = uint32_t;  // its position in `records_`, in units, from 1; 0: none

    size_t size() const { return order_.size(); }

    // The sum of the lengths of all names.
    size_t text_bytes() const { return text_bytes_; }

    size_t bytes() const {
        return records_.size() + sizeof(Record) * order_.size() + sizeof(Slot) * slots_.size();
    }

    // Name i.
    Id name(size_t i) const {
        const Record record = order_[i];
        return named(text_of(record), header_of(record).length);
    }

    int32_t column(size_t i) const { return header_of(order_[i]).column; }

    // Prefetches a name's home slot.
    void prefetch(const Id& name) const {
        if (slots_.size()) __builtin_prefetch(&slots_[first(name)]);
    }

    // The record of the first name with this hash, or 0. Asks for its memory.
    Record likely(const Id& name) const {
        if (!slots_.size()) return 0;
        size_t at = first(name);
        while (slots_[at].record && slots_[at].hash != hash_in_slot(name)) at = next(at);
        const Record record = slots_[at].record;
        if (record) __builtin_prefetch(at_record(record));
        return record;
    }

    // The column of a name, or NO_COLUMN. Several threads can search at the same time.
    int32_t find(const Id& name, Record likely) const {
        if (!likely) return NO_COLUMN;
        if (!is_name(likely, name)) likely = slots_[place_of(name)].record;
        return likely ? header_of(likely).column : NO_COLUMN;
    }

    // Finds the column of a name; a new name gets this one. `row` identifies the caller's row; `repeated` is set if the
    // name was already searched for it. Throws std::bad_alloc.
    int32_t add(const Id& name, Record likely, int32_t column, uint32_t row, bool& repeated) {
        Record record = likely;
        if (!record || !is_name(record, name)) {
            if (2 * (size() + 1) > slots_.size()) grow();
            Slot& slot = slots_[place_of(name)];
            if (!slot.record) {
                slot = {hash_in_slot(name), new_record(name, {row, column, static_cast<uint32_t>(name.length)})};
                return column;
            }
            record = slot.record;
        }
        Header header = header_of(record);
        repeated |= header.row == row;
        header.row = row;
        std::memcpy(at_record(record), &header, sizeof header);
        return header.column;
    }

    // The bytes of name i.
    struct Text {
        const char* begin;
        size_t length;
    };

    Text text(size_t i) const { return {text_of(order_[i]), header_of(order_[i]).length}; }

    // Asks for the memory of name i.
    void prefetch_text(size_t i) const { __builtin_prefetch(at_record(order_[i])); }

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
        records_.resize(0);
        text_bytes_ = 0;
        if (slots_.size()) std::fill_n(slots_.data(), slots_.size(), Slot{});
    }

  private:
    // The beginning of a record; the bytes of the name follow.
    struct Header {
        uint32_t row;  // that searched the name last
        int32_t column;
        uint32_t length;
    };

    struct Slot {
        uint32_t hash = 0;
        Record record = 0;
    };

    // Some bytes of a name, by which it is sorted.
    struct Key {
        uint64_t bytes;  // as a number with the same order
        int32_t place;
        uint8_t count;  // of bytes, less than eight at the end of the name
    };

    static constexpr size_t UNIT = 8;  // bytes; records begin at multiples of it

    Array<char> records_;
    Array<Record> order_;
    Array<Slot> slots_;  // as many as a power of two, or none
    size_t text_bytes_ = 0;

    static uint32_t hash_in_slot(const Id& name) { return static_cast<uint32_t>(name.key); }
    size_t first(const Id& name) const { return hash_in_slot(name) & (slots_.size() - 1); }
    size_t next(size_t at) const { return (at + 1) & (slots_.size() - 1); }

    char* at_record(Record record) { return records_.data() + UNIT * (size_t{record} - 1); }
    const char* at_record(Record record) const { return records_.data() + UNIT * (size_t{record} - 1); }

    Header header_of(Record record) const {
        Header header;
        std::memcpy(&header, at_record(record), sizeof header);
        return header;
    }

    const char* text_of(Record record) const { return at_record(record) + sizeof(Header); }

    bool is_name(Record record, const Id& name) const {
        return header_of(record).length == name.length && same_bytes(text_of(record), name.name, name.length);
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
    size_t place_of(const Id& name) const {
        size_t at = first(name);
        for (; slots_[at].record; at = next(at))
            if (slots_[at].hash == hash_in_slot(name) && is_name(slots_[at].record, name)) break;
        return at;
    }

    Record new_record(const Id& name, Header header) {
        const size_t start = records_.size(), end = start + (sizeof header + name.length + UNIT - 1) / UNIT * UNIT;
        const size_t record = start / UNIT + 1;
        if (record > UINT32_MAX) throw std::bad_alloc();
        records_.reserve(end);
        order_.push(static_cast<Record>(record));
        records_.resize(end);
        std::memcpy(records_.data() + start, &header, sizeof header);
        std::copy_n(name.name, name.length, records_.data() + start + sizeof header);
        text_bytes_ += name.length;
        return static_cast<Record>(record);
    }

    void grow() {
        const Array<Slot> slots = doubled(slots_);
        for (size_t i = 0; i < slots.size(); ++i) {
            if (!slots[i].record) continue;
            size_t at = slots[i].hash & (slots_.size() - 1);
            while (slots_[at].record) at = next(at);
            slots_[at] = slots[i];
        }
    }
};

}  // namespace fmcli

#endif
