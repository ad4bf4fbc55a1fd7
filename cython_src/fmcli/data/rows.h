// Growing arrays, and the rows that a parser appends to them.
#ifndef FMCLI_ROWS_H
#define FMCLI_ROWS_H

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <vector>

#include <sys/mman.h>

namespace fmcli {

// Requests huge pages for memory that is about to be written. If the system has none, nothing happens.
inline void ask_for_huge_pages(void* begin, size_t bytes) {
    constexpr uintptr_t HUGE_PAGE = 2 << 20;
    const uintptr_t at = reinterpret_cast<uintptr_t>(begin);
    const uintptr_t first = (at + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE, last = (at + bytes) / HUGE_PAGE * HUGE_PAGE;
#ifdef MADV_HUGEPAGE
    if (first < last) (void)madvise(reinterpret_cast<void*>(first), last - first, MADV_HUGEPAGE);
#else
    (void)first, (void)last;
#endif
}

// A growing array of plain numbers. std::vector copies its elements when it grows, and initialises new elements. Here,
// realloc moves the pages of a large array, and capacity that is never written takes no physical memory. Large arrays
// request huge pages, because rows are read in random order: with small pages, the lookup of addresses (TLB misses)
// takes a tenth of the time of an epoch.
template <typename T>
class Array {
  public:
    Array() = default;
    Array(const Array&) = delete;
    Array& operator=(const Array&) = delete;
    ~Array() { std::free(data_); }

    T* data() { return data_; }
    const T* data() const { return data_; }
    size_t size() const { return size_; }
    size_t capacity() const { return capacity_; }
    T& operator[](size_t i) { return data_[i]; }
    const T& operator[](size_t i) const { return data_[i]; }
    void resize(size_t size) { size_ = size; }  // within the capacity; new items are uninitialised

    void reserve(size_t capacity) {
        if (capacity <= capacity_) return;
        capacity = std::max(capacity, capacity_ + capacity_ / 2);
        void* moved = std::realloc(data_, capacity * sizeof(T));
        if (!moved) throw std::bad_alloc();
        data_ = static_cast<T*>(moved);
        capacity_ = capacity;
        ask_for_huge_pages(data_, capacity * sizeof(T));
    }

    void push(T item) {
        if (size_ == capacity_) reserve(size_ + 1);
        data_[size_++] = item;
    }

    // Returns the memory, shrunk to the size; the caller must free it. Returns nullptr if the array is empty.
    T* release() {
        T* data = data_;
        if (size_ == 0) {
            std::free(data);
            data = nullptr;
        } else if (void* cut = std::realloc(data, size_ * sizeof(T))) {
            data = static_cast<T*>(cut);
        }
        data_ = nullptr;
        size_ = capacity_ = 0;
        return data;
    }

  private:
    T* data_ = nullptr;
    size_t size_ = 0, capacity_ = 0;
};

// The options of the parser.
struct Reading {
    bool ffm;          // entries are field:index:value; else index:value
    bool keep_fields;  // store fields; else the entries of a row are merged by index
    bool training;     // each row needs a label, blank lines are ignored, and an index >= limit is an error
    bool skip;         // skip lines with an error: in training they are no rows, in prediction rows without entries
    bool label_weights;  // a label may be followed by a colon and the weight of the row
    int id_column;     // the number of the token that is an id, which is not read: 1, or 2 after the label; 0: none
    int64_t limit;     // entries with an index below it are stored; in prediction, others are counted and dropped
};

// Rows in compressed form (CSR). `value` is empty until the first value other than 1, so one-hot data stores no values.
struct Rows {
    explicit Rows(const Reading& how) : reading(how) { indptr.push(0); }

    const Reading reading;
    Array<int64_t> indptr;
    Array<int32_t> index, field;
    Array<float> value;
    Array<double> label;   // NaN for a row without a label
    Array<double> weight;  // only with label_weights
    bool valued = false;
    int64_t comments = 0;  // comment lines
    int64_t labelled = 0;  // rows with a label
    int64_t repeated = 0;  // rows with a repeated index (if fields are kept: field and index)
    int64_t unseen = 0;    // entries dropped because of the limit, without those of value 0
    int64_t features = 0, fields = 0;  // largest index and field + 1, including entries of value 0
    int64_t lowest = INT64_MAX, beyond = -1;  // smallest stored index, and largest dropped one
    std::vector<int64_t> skipped;      // in prediction, the rows that stand for skipped lines

    // Reserves memory for all entries that a text can contain: the shortest are "1:1 " and "1:1:1 ".
    void reserve_for_text(size_t bytes) {
        size_t room = index.size() + bytes / (reading.ffm ? 6 : 4) + 1;
        index.reserve(room);
        if (reading.keep_fields) field.reserve(room);
        if (valued) value.reserve(index.capacity());
    }

    // Reserves memory for `factor` times the current number of rows and entries, so that growing arrays are not moved.
    void reserve_for_growth(double factor) {
        auto times = [factor](size_t size) { return static_cast<size_t>(factor * static_cast<double>(size)); };
        indptr.reserve(times(indptr.size()));
        label.reserve(times(label.size()));
        if (reading.label_weights) weight.reserve(times(weight.size()));
        index.reserve(times(index.size()));
        if (reading.keep_fields) field.reserve(times(field.size()));
        if (valued) value.reserve(index.capacity());
    }

    void start_values(size_t entries) {
        value.reserve(index.capacity());
        std::fill_n(value.data(), entries, 1.0f);
        valued = true;
    }

    // Forgets the entries of a row that has not ended. In prediction, an empty row takes its place.
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
        labelled += has_label;
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
        features = std::max(features, static_cast<int64_t>(scratch.back().key >> 32) + 1);
        repeated += again;
        return static_cast<int64_t>(n);
    }

    // Where the rows of another object go.
    struct Place {
        size_t row, entry;
        bool valued;
    };

    // Whether `make_room` for these rows leaves the arrays where they are.
    bool has_room(const Rows& other) const {
        const size_t entries = index.size() + other.index.size(), rows = label.size() + other.label.size();
        return rows < indptr.capacity() && rows <= label.capacity() &&
            (!reading.label_weights || rows <= weight.capacity()) && entries <= index.capacity() &&
            (!reading.keep_fields || entries <= field.capacity()) && (!valued || entries <= value.capacity());
    }

    // Makes room for the rows of another object behind the others, which `fill` then copies there. Several threads can
    // fill different places, but meanwhile no array may be moved.
    Place make_room(const Rows& other) {
        const size_t entries = index.size() + other.index.size(), rows = label.size() + other.label.size();
        indptr.reserve(rows + 1);
        label.reserve(rows);
        if (reading.label_weights) weight.reserve(rows);
        index.reserve(entries);
        if (reading.keep_fields) field.reserve(entries);
        if (other.valued && !valued) start_values(index.size());
        if (valued) value.reserve(index.capacity());
        const Place place = {label.size(), index.size(), valued};
        indptr.resize(rows + 1);
        label.resize(rows);
        if (reading.label_weights) weight.resize(rows);
        index.resize(entries);
        if (reading.keep_fields) field.resize(entries);
        if (valued) value.resize(entries);
        comments += other.comments;
        labelled += other.labelled;
        repeated += other.repeated;
        unseen += other.unseen;
        features = std::max(features, other.features);
        fields = std::max(fields, other.fields);
        return place;
    }

    void fill(const Place& place, const Rows& other) {
        const size_t rows = other.label.size();
        for (size_t i = 1; i <= rows; ++i)
            indptr[place.row + i] = other.indptr[i] + static_cast<int64_t>(place.entry);
        std::copy_n(other.label.data(), rows, label.data() + place.row);
        std::copy_n(other.weight.data(), other.weight.size(), weight.data() + place.row);
        std::copy_n(other.index.data(), other.index.size(), index.data() + place.entry);
        std::copy_n(other.field.data(), other.field.size(), field.data() + place.entry);
        if (!place.valued) return;
        if (other.valued) std::copy_n(other.value.data(), other.value.size(), value.data() + place.entry);
        else std::fill_n(value.data() + place.entry, other.index.size(), 1.0f);
    }

    bool all_ones() const {
        const float* x = value.data();
        return !valued || std::all_of(x, x + value.size(), [](float v) { return v == 1.0f; });
    }

    // Removes all rows and keeps the memory.
    void clear() {
        indptr.resize(1);
        index.resize(0);
        field.resize(0);
        value.resize(0);
        label.resize(0);
        weight.resize(0);
        skipped.clear();
        valued = false;
        comments = labelled = repeated = unseen = features = fields = 0;
        lowest = INT64_MAX;
        beyond = -1;
    }

  private:
    struct Entry {
        uint64_t key;
        float value;
    };
    std::vector<Entry> scratch, merged;

    // A stable merge sort of runs that are sorted by insertion. Entries with equal keys keep their order, because the
    // last bit of their sum depends on it. std::stable_sort is not used, because it uses a temporary buffer that C++17
    // deprecates, and some compilers warn of it.
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
