// New columns for the entries of rows.
#ifndef FMCLI_ORDERING_H
#define FMCLI_ORDERING_H

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

namespace fmcli {

// Entries of rows in compressed form. `field` and `value` may be null.
struct Entries {
    const int64_t* indptr;
    int32_t* index;
    int32_t* field;
    float* value;
};

// Gives rows new columns, and sorts the entries of each row by column and field.
class Renumbering {
  public:
    Renumbering(const Entries& rows, const int32_t* column) : rows_(rows), column_(column) {}

    // Replaces each index of a row by its column. A row's entries must all differ in index or field.
    void renumber(int64_t row) {
        const int64_t start = rows_.indptr[row], count = rows_.indptr[row + 1] - start;
        int32_t* const index = rows_.index + start;
        bool ordered = true;
        for (int64_t i = 0; i < count; ++i) {
            index[i] = column_[index[i]];
            ordered &= i == 0 || index[i] > index[i - 1];
        }
        if (ordered) return;
        if (count > MOST_COUNTED || !count_smaller(index, count)) sort(start, count);
        int32_t* const field = rows_.field ? rows_.field + start : nullptr;
        float* const value = rows_.value ? rows_.value + start : nullptr;
        reorder(index, count, columns_);
        if (field) reorder(field, count, columns_);
        if (value) reorder(value, count, values_);
    }

  private:
    static constexpr int64_t MOST_COUNTED = 64;  // up to this length, counting is faster than sorting

    const Entries rows_;
    const int32_t* const column_;
    std::vector<int32_t> place_, order_, columns_;  // place_: the new position of each entry
    std::vector<float> values_;

    // Finds the position of each entry by counting the smaller columns, without branches. Returns whether all columns
    // differ.
    bool count_smaller(const int32_t* index, int64_t count) {
        place_.resize(static_cast<size_t>(count));
        int64_t sum = 0;
        for (int64_t i = 0; i < count; ++i) {
            const int32_t column = index[i];
            int32_t smaller = 0;
            for (int64_t j = 0; j < count; ++j) smaller += index[j] < column;
            place_[static_cast<size_t>(i)] = smaller;
            sum += smaller;
        }
        return sum == count * (count - 1) / 2;
    }

    void sort(int64_t start, int64_t count) {
        const auto key = [this, start](int32_t i) {
            const uint64_t group = rows_.field ? static_cast<uint32_t>(rows_.field[start + i]) : 0;
            return static_cast<uint64_t>(rows_.index[start + i]) << 32 | group;
        };
        order_.resize(static_cast<size_t>(count));
        place_.resize(static_cast<size_t>(count));
        for (size_t i = 0; i < order_.size(); ++i) order_[i] = static_cast<int32_t>(i);
        // Cells of a wide table come in few runs of names in order, which are merged in a sixth of the time of std::sort.
        std::stable_sort(order_.begin(), order_.end(), [key](int32_t a, int32_t b) { return key(a) < key(b); });
        for (size_t i = 0; i < order_.size(); ++i) place_[static_cast<size_t>(order_[i])] = static_cast<int32_t>(i);
    }

    template <typename T>
    void reorder(T* items, int64_t count, std::vector<T>& room) const {
        room.assign(items, items + count);
        for (int64_t i = 0; i < count; ++i) items[place_[static_cast<size_t>(i)]] = room[static_cast<size_t>(i)];
    }
};

inline void renumber_rows(const Entries& rows, int64_t first, int64_t last, const int32_t* column) {
    Renumbering renumbering(rows, column);
    for (int64_t row = first; row < last; ++row) renumbering.renumber(row);
}

// Merges each row's entries in the last column, `shared`: entries of the same field become one with the sum of their
// values, after the other entries. Changes the arrays in place. Stores where rows begin, and returns the number of
// entries, or -1 if a sum is too large for a float. Throws std::bad_alloc.
inline int64_t merge_shared(const Entries& rows, int64_t count, int32_t shared, int64_t* starts) {
    struct Part {
        int32_t field;
        float value;
    };
    std::vector<Part> parts;
    int64_t n = 0;
    starts[0] = 0;
    for (int64_t row = 0; row < count; ++row) {
        parts.clear();
        for (int64_t i = rows.indptr[row]; i < rows.indptr[row + 1]; ++i) {
            if (rows.index[i] == shared) {
                parts.push_back({rows.field ? rows.field[i] : 0, rows.value[i]});
                continue;
            }
            rows.index[n] = rows.index[i];
            rows.value[n] = rows.value[i];
            if (rows.field) rows.field[n] = rows.field[i];
            ++n;
        }
        std::stable_sort(parts.begin(), parts.end(), [](const Part& a, const Part& b) { return a.field < b.field; });
        for (size_t i = 0; i < parts.size();) {
            const int32_t field = parts[i].field;
            double sum = 0;
            for (; i < parts.size() && parts[i].field == field; ++i) sum += parts[i].value;
            const float value = static_cast<float>(sum);
            if (std::isinf(value)) return -1;
            if (value == 0) continue;
            rows.index[n] = shared;
            rows.value[n] = value;
            if (rows.field) rows.field[n] = field;
            ++n;
        }
        starts[row + 1] = n;
    }
    return n;
}

}  // namespace fmcli

#endif
