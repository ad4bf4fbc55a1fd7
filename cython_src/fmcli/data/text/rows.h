// The rows that a parser appends to.
#ifndef FMCLI_ROWS_H
#define FMCLI_ROWS_H

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "fmcli/data/arrays.h"
#include "fmcli/data/ids.h"

namespace fmcli {

// How the ids of features become columns.
enum class Space {
    INDEX,    // a number is its column; names, and numbers from the limit on, are not in the model
    GROWING,  // like INDEX, but from the first name or number at the limit on, all ids get columns by `ids`
    KNOWN,    // by `ids`; other ids are not in the model
    HASHED,   // by the last bits of the ids' hashes
};

// The source of row groups.
enum class Groups {
    NONE,   // no groups are stored
    QUERY,  // the query number of each row
    FIELD,  // the id of each row's one feature in a field
};

// The options of the parser.
struct Reading {
    bool ffm;          // entries are field:index:value; otherwise index:value
    bool keep_fields;  // store fields; otherwise the entries of a row are merged by index
    bool training;     // each row needs a label, and blank lines are ignored
    bool skip;         // skip lines with an error: in prediction they become rows without entries
    bool label_weights;  // a label may be followed by a colon and the weight of the row
    Groups groups;     // NONE unless in training
    uint64_t group_field;  // of FIELD
    bool label_names;  // labels are names; the label of a row is the position of its name
    bool known_labels;  // in prediction: names other than the first ones are errors, and numbers count as no label
    int id_column;     // in prediction, the position of an id token to skip: 1, or 2 after the label; 0: none
    Space space;
    int hash_bits;     // of HASHED
    bool refuse_unseen;  // an id that is not in the model is an error; otherwise its entries are counted and dropped
    int64_t limit;     // entries with an index below the limit are stored
    Ids* ids;          // of GROWING and KNOWN; not owned, and in KNOWN shared and constant
    int32_t others;    // of KNOWN: the column of all other ids, or NO_COLUMN
};

// Rows in compressed form (CSR). `value` is empty until the first value other than 1, so one-hot data stores no values.
struct Rows {
    explicit Rows(const Reading& how)
        : reading(how), by_id(how.space == Space::KNOWN || how.space == Space::HASHED) { indptr.push(0); }

    const Reading reading;
    bool by_id;  // indices are not the numbers in the text; with GROWING, a row's entries are then unordered
    Array<int64_t> indptr;
    Array<int32_t> index, field;
    Array<float> value;
    Array<double> label;   // NaN for a row without a label
    Array<double> weight;  // only with label_weights
    Array<int64_t> group;  // only with groups: a number, or the hash of a name
    Ids label_names;       // only with label_names
    bool valued = false;
    bool refused = false;  // the last fault is an entry of a feature that is not in the model
    int64_t comments = 0;  // comment lines
    int64_t labeled = 0;  // rows with a label
    int64_t repeated = 0;  // rows with a repeated index (if fields are kept: field and index)
    int64_t unseen = 0;    // entries dropped because of the limit, except entries of value 0
    int64_t features = 0, fields = 0;  // largest index and field + 1, including entries of value 0
    int64_t lowest = INT64_MAX, beyond = -1;  // smallest stored index, and largest dropped index
    std::vector<int64_t> skipped;      // in prediction, the rows that stand for skipped lines

    // Reserves memory for all entries that a text can contain: the shortest are "1:1 " and "1:1:1 ".
    void reserve_for_text(size_t bytes) {
        size_t room = index.size() + bytes / (reading.ffm ? 6 : 4) + 1;
        index.reserve(room);
        if (reading.keep_fields) field.reserve(room);
        if (valued) value.reserve(index.capacity());
    }

    // Reserves memory for `factor` times the current number of rows and entries, so growing arrays are not moved.
    void reserve_for_growth(double factor) {
        auto times = [factor](size_t size) { return static_cast<size_t>(factor * static_cast<double>(size)); };
        indptr.reserve(times(indptr.size()));
        label.reserve(times(label.size()));
        if (reading.label_weights) weight.reserve(times(weight.size()));
        if (grouped()) group.reserve(times(group.size()));
        index.reserve(times(index.size()));
        if (reading.keep_fields) field.reserve(times(field.size()));
        if (valued) value.reserve(index.capacity());
    }

    bool grouped() const { return reading.groups != Groups::NONE; }

    void start_values(size_t entries) {
        value.reserve(index.capacity());
        std::fill_n(value.data(), entries, 1.0f);
        valued = true;
    }

    // Discards the entries of the current row. In prediction, an empty row takes its place.
    void skip_row() {
        if (valued) value.resize(index.size());
        if (reading.training) return;
        skipped.push_back(static_cast<int64_t>(label.size()));
        end_row(index.size(), NAN, false);
    }

    void end_row(size_t entries, double y, bool has_label, double row_weight = 1) {
        index.resize(entries);
        if (reading.keep_fields) field.resize(entries);
        if (valued) value.resize(entries);
        indptr.push(static_cast<int64_t>(entries));
        label.push(y);
        if (reading.label_weights) weight.push(row_weight);
        labeled += has_label;
    }

    // Switches to columns by `ids`, in the order of the ids' first occurrence.
    void number_ids() {
        for (size_t i = 0; i < index.size(); ++i) index[i] = reading.ids->add({static_cast<uint64_t>(index[i])});
        by_id = true;
    }

    // Sorts the entries from start to end, sums the values of a repeated index (and field) in the order of the text,
    // and drops zeros. Returns the new end, or -1 if a sum is too large for a float; then `overflow` is its index.
    int64_t tidy(size_t start, size_t end, int32_t& overflow) {
        scratch.clear();
        for (size_t i = start; i < end; ++i) {
            uint64_t group = reading.keep_fields ? field[i] : 0;
            scratch.push_back({static_cast<uint64_t>(index[i]) << 32 | group, valued ? value[i] : 1.0f});
        }
        sort_scratch();
        bool again = false;
        size_t n = start;
        for (size_t i = 0; i < scratch.size();) {
            const uint64_t key = scratch[i].key;
            double sum = scratch[i].value;
            for (++i; i < scratch.size() && scratch[i].key == key; ++i) {
                sum += scratch[i].value;
                again = true;
            }
            const float x = static_cast<float>(sum);
            if (std::isinf(x)) {
                overflow = static_cast<int32_t>(key >> 32);
                return -1;
            }
            if (x == 0) continue;
            index[n] = static_cast<int32_t>(key >> 32);
            if (reading.keep_fields) field[n] = static_cast<int32_t>(key);
            if (!valued && x != 1) start_values(n);
            if (valued) value[n] = x;
            ++n;
        }
        if (!by_id) features = std::max(features, static_cast<int64_t>(scratch.back().key >> 32) + 1);
        repeated += again;
        return static_cast<int64_t>(n);
    }

    // Where the rows of another object go, and their labels there.
    struct Place {
        size_t row = 0, entry = 0;
        bool valued = false, united = false;
        std::vector<int32_t> labels;
    };

    // Whether `make_room` for these rows would leave the arrays in place.
    bool has_room(const Rows& other) const {
        const size_t entries = index.size() + other.index.size(), rows = label.size() + other.label.size();
        return other.by_id <= by_id && rows < indptr.capacity() && rows <= label.capacity() &&
            (!reading.label_weights || rows <= weight.capacity()) && (!grouped() || rows <= group.capacity()) && entries <= index.capacity() &&
            (!reading.keep_fields || entries <= field.capacity()) && (!valued || entries <= value.capacity());
    }

    // Makes room for the rows of another object after the rows here; `fill` then copies them there. Several threads can
    // fill different places, but no array may be moved meanwhile.
    Place make_room(Rows& other) {
        if (reading.space == Space::GROWING && other.by_id != by_id) (by_id ? other : *this).number_ids();
        const size_t entries = index.size() + other.index.size(), rows = label.size() + other.label.size();
        indptr.reserve(rows + 1);
        label.reserve(rows);
        if (reading.label_weights) weight.reserve(rows);
        if (grouped()) group.reserve(rows);
        index.reserve(entries);
        if (reading.keep_fields) field.reserve(entries);
        if (other.valued && !valued) start_values(index.size());
        if (valued) value.reserve(index.capacity());
        Place place = {label.size(), index.size(), valued, reading.space == Space::GROWING && by_id, {}};
        if (place.united) reading.ids->unite(*other.reading.ids, other.united);
        indptr.resize(rows + 1);
        label.resize(rows);
        if (reading.label_weights) weight.resize(rows);
        if (grouped()) group.resize(rows);
        index.resize(entries);
        if (reading.keep_fields) field.resize(entries);
        if (valued) value.resize(entries);
        comments += other.comments;
        labeled += other.labeled;
        repeated += other.repeated;
        unseen += other.unseen;
        features = std::max(features, other.features);
        fields = std::max(fields, other.fields);
        for (size_t i = 0; i < other.label_names.size(); ++i) place.labels.push_back(label_names.add(other.label_names.names.name(i)));
        return place;
    }

    void fill(const Place& place, const Rows& other) {
        const size_t rows = other.label.size();
        for (size_t i = 1; i <= rows; ++i)
            indptr[place.row + i] = other.indptr[i] + static_cast<int64_t>(place.entry);
        copy(other.label, label, place.row);
        if (reading.label_names)
            for (size_t i = place.row; i < place.row + rows; ++i) label[i] = place.labels[static_cast<size_t>(label[i])];
        copy(other.weight, weight, place.row);
        copy(other.group, group, place.row);
        copy(other.index, index, place.entry);
        if (place.united)
            for (size_t i = place.entry; i < place.entry + other.index.size(); ++i)
                index[i] = other.united.columns[static_cast<size_t>(index[i])];
        copy(other.field, field, place.entry);
        if (!place.valued) return;
        if (other.valued) copy(other.value, value, place.entry);
        else std::fill_n(value.data() + place.entry, other.index.size(), 1.0f);
    }

    bool all_ones() const {
        const float* x = value.data();
        return !valued || std::all_of(x, x + value.size(), [](float v) { return v == 1.0f; });
    }

    // Removes all rows. Keeps their memory, and some ids: the next rows probably repeat them, and then they need not be
    // united with the ids of other rows again.
    void clear() {
        constexpr size_t MOST_KEPT = 1 << 16;
        indptr.resize(1);
        index.resize(0);
        field.resize(0);
        value.resize(0);
        label.resize(0);
        weight.resize(0);
        group.resize(0);
        label_names.clear();
        if (reading.space == Space::GROWING && reading.ids->size() > MOST_KEPT) {
            reading.ids->clear();
            united = {};
            by_id = false;
        }
        skipped.clear();
        valued = false;
        comments = labeled = repeated = unseen = features = fields = 0;
        lowest = INT64_MAX;
        beyond = -1;
    }

  private:
    struct Entry {
        uint64_t key;
        float value;
    };
    std::vector<Entry> scratch, merged;
    Ids::United united;  // the ids of these rows among the ids of the rows that they are appended to

    template <typename T>
    static void copy(const Array<T>& from, Array<T>& to, size_t at) {
        if (from.size()) std::copy_n(from.data(), from.size(), to.data() + at);  // an empty array may have no memory
    }

    // A stable merge sort of runs that are sorted by insertion. Entries with equal keys keep their order, because the
    // last bit of their sum depends on it. std::stable_sort uses a temporary buffer that C++17 deprecates, and some
    // compilers warn about it.
    void sort_scratch() {
        auto before = [](const Entry& a, const Entry& b) { return a.key < b.key; };
        constexpr size_t RUN = 48;  // up to this length, insertion is faster than merging
        const size_t size = scratch.size();
        for (size_t start = 0; start < size; start += RUN) {
            const size_t end = std::min(start + RUN, size);
            for (size_t i = start + 1; i < end; ++i) {
                const Entry entry = scratch[i];
                size_t j = i;
                for (; j > start && before(entry, scratch[j - 1]); --j) scratch[j] = scratch[j - 1];
                scratch[j] = entry;
            }
        }
        for (size_t run = RUN; run < size; run *= 2) {
            merged.resize(size);
            for (size_t start = 0; start < size; start += 2 * run) {
                const Entry* first = scratch.data() + start;
                const Entry* middle = scratch.data() + std::min(start + run, size);
                const Entry* last = scratch.data() + std::min(start + 2 * run, size);
                std::merge(first, middle, middle, last, merged.data() + start, before);
            }
            scratch.swap(merged);
        }
    }
};

}  // namespace fmcli

#endif
