// Rows whose labels and entries are numbers of texts; each text is stored once. This doubles the speed of reading
// tables, because most of their cells have occurred before.
#ifndef FMCLI_NUMBERED_H
#define FMCLI_NUMBERED_H

#include <cstdint>
#include <cstring>
#include <vector>

#include "fmcli/data/arrays.h"
#include "fmcli/data/numbers.h"

namespace fmcli {

// Texts, each followed by a line break, with PADDING bytes after the last one.
struct Texts {
    Array<char> text;
    std::vector<size_t> begin;

    size_t size() const { return begin.size(); }
    const char* operator[](size_t number) const { return text.data() + begin[number]; }

    // Adds a text and returns its number.
    int32_t add(const char* one, size_t length) {
        text.reserve(text.size() + length + 1 + PADDING);
        begin.push_back(text.size());
        std::memcpy(text.data() + text.size(), one, length);
        std::memset(text.data() + text.size() + length, '\n', 1 + PADDING);
        text.resize(text.size() + length + 1);
        return static_cast<int32_t>(begin.size() - 1);
    }

    // Keeps only the first `size` texts.
    void cut(size_t size) {
        if (size == begin.size()) return;
        text.resize(begin[size]);
        begin.resize(size);
    }
};

struct NumberedRows {
    static constexpr int32_t NONE = -1;  // no label

    Texts labels;
    Texts entries;  // with the value 1
    bool weighted = false, grouped = false, valued = false;
    bool repeated = false;  // whether rows may repeat an entry
    Array<int32_t> label;   // of each row
    Array<double> weight;   // if the rows are weighted
    Array<int64_t> group;   // if they are grouped
    Array<int64_t> end;     // of each row's entries
    Array<int32_t> entry;
    Array<float> value;     // of each entry if some values are not 1; none is 0

    size_t size() const { return label.size(); }

    void end_row(int32_t number, double row_weight, int64_t row_group) {
        label.push(number);
        if (weighted) weight.push(row_weight);
        if (grouped) group.push(row_group);
        end.push(static_cast<int64_t>(entry.size()));
    }

    void clear() {
        labels.cut(0);
        entries.cut(0);
        label.resize(0);
        weight.resize(0);
        group.resize(0);
        end.resize(0);
        entry.resize(0);
        value.resize(0);
    }
};

}  // namespace fmcli

#endif
