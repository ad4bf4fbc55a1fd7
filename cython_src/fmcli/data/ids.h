// Ids of features (numbers and names) and their columns.
#ifndef FMCLI_IDS_H
#define FMCLI_IDS_H

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "fmcli/data/arrays.h"
#include "fmcli/data/names.h"

namespace fmcli {

// Ids in the order of their addition, which is the order of their columns 0, 1, ...
//
// Numbers are found by open addressing; a slot of the table has everything about one number.
class Ids {
  public:
    Ids() = default;
    Ids(const Ids&) = delete;
    Ids& operator=(const Ids&) = delete;

    Array<int64_t> numbers;
    Array<int32_t> number_columns;
    Names names;

    size_t size() const { return numbers.size() + names.size(); }

    size_t bytes() const {
        return (sizeof(int64_t) + sizeof(int32_t)) * numbers.size() + sizeof(Slot) * slots_.size() + names.bytes();
    }

    // Prefetches the memory in which an id is searched first. Always inlined: gcc assumes that a function that only
    // prefetches has no effect, and removes calls to it.
    __attribute__((always_inline)) void prefetch(const Id& id) const {
        if (id.name) names.prefetch(id);
        else if (slots_.size()) __builtin_prefetch(&slots_[first(id.key)]);
    }

    // The column of an id, or NO_COLUMN. Several threads can search at the same time.
    int32_t find(const Id& id) const {
        if (id.name) return names.find(id);
        if (!slots_.size()) return NO_COLUMN;
        const Slot& slot = slots_[place_of(id.key)];
        return slot.taken ? slot.column : NO_COLUMN;
    }

    // The column of an id; a new id is added. `row` identifies the caller's row; `repeated` is set if the id was
    // already searched for the row. Throws std::bad_alloc.
    __attribute__((always_inline)) int32_t add(const Id& id, uint32_t row, bool& repeated) {
        return id.name ? names.add(id, static_cast<int32_t>(size()), row, repeated) : add_number(id.key, row, repeated);
    }

    int32_t add(const Id& id) {
        bool repeated = false;
        return add(id, 0, repeated);
    }

    // The columns here of the first ids of another object.
    struct United {
        std::vector<int32_t> columns;
        size_t numbers = 0, names = 0;
    };

    // Adds the ids of another object that were added there since the last call. Throws std::bad_alloc.
    void unite(const Ids& other, United& united) {
        united.columns.resize(other.size());
        add_each(united.numbers, other.numbers.size(), united.columns, [&other](size_t i) {
            return std::pair(Id{static_cast<uint64_t>(other.numbers[i])}, other.number_columns[i]);
        });
        add_each(united.names, other.names.size(), united.columns, [&other](size_t i) {
            return std::pair(other.names.name(i), other.names.column(i));
        });
        united.numbers = other.numbers.size(), united.names = other.names.size();
    }

    // Adds all ids of another object. Returns the columns here of its columns. Throws std::bad_alloc.
    std::vector<int32_t> add_all(const Ids& other) {
        United united;
        unite(other, united);
        return std::move(united.columns);
    }

    // Removes all ids and keeps the memory.
    void clear() {
        numbers.resize(0);
        number_columns.resize(0);
        names.clear();
        if (slots_.size()) std::fill_n(slots_.data(), slots_.size(), Slot{});
    }

  private:
    // A slot of a number.
    struct Slot {
        uint64_t key;
        int32_t column;
        uint32_t row : 31;  // the last row that searched it
        uint32_t taken : 1;
    };

    Array<Slot> slots_;  // their number is a power of two, or 0

    int32_t add_number(uint64_t number, uint32_t row, bool& repeated) {
        if (4 * (numbers.size() + 1) > 3 * slots_.size()) grow();
        Slot& slot = slots_[place_of(number)];
        if (slot.taken) {
            repeated |= slot.row == row;
            slot.row = row;
            return slot.column;
        }
        const int32_t column = static_cast<int32_t>(size());
        numbers.push(static_cast<int64_t>(number));
        number_columns.push(column);
        slot = {number, column, row, true};
        return column;
    }

    // Adds the ids from `first` to `last` - 1 and stores their columns here; `item` returns each id with its column
    // elsewhere. Ids are searched in batches, so the memory of a batch is fetched at the same time.
    template <class Item>
    void add_each(size_t first, size_t last, std::vector<int32_t>& columns, Item item) {
        constexpr size_t TOGETHER = 32;
        std::pair<Id, int32_t> items[TOGETHER];
        bool repeated = false;
        for (size_t start = first; start < last; start += TOGETHER) {
            const size_t n = std::min(last - start, TOGETHER);
            for (size_t i = 0; i < n; ++i) {
                items[i] = item(start + i);
                prefetch(items[i].first);
            }
            for (size_t i = 0; i < n; ++i) columns[static_cast<size_t>(items[i].second)] = add(items[i].first, 0, repeated);
        }
    }

    size_t first(uint64_t number) const { return mixed(number) & (slots_.size() - 1); }

    // The position of a number in the table: its slot, or the free slot where it belongs.
    size_t place_of(uint64_t number) const {
        size_t at = first(number);
        while (slots_[at].taken && slots_[at].key != number) at = (at + 1) & (slots_.size() - 1);
        return at;
    }

    void grow() {
        const Array<Slot> slots = doubled(slots_);
        for (size_t i = 0; i < slots.size(); ++i)
            if (slots[i].taken) slots_[place_of(slots[i].key)] = slots[i];
    }
};

}  // namespace fmcli

#endif
