// A libFuzzer harness of the text reader. The first bytes of an input choose the options of the reader and where the
// text is cut into two blocks; the rest is the text. scripts/fuzz/text.py compiles and runs it.
//
// Beyond the sanitizers' checks, it ends the process if
// - the rows break what other code assumes of them,
// - a fault does not lie within its line,
// - two blocks, appended to each other, give other rows than one block, or
// - the fast and the slow path read a number differently.
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>

#include "fmcli/data/text/parser.h"

namespace {

using namespace fmcli;

constexpr size_t OPTION_BYTES = 4;
constexpr int64_t LIMITS[] = {INT32_MAX, 0, 1, 10, 1000, 1 << 20, INT32_MAX - 1, 100};
constexpr int HASH_BITS[] = {1, 2, 3, 5, 10, 20, 29, 30};
// The ids of a model that has a dictionary.
constexpr uint64_t KNOWN_NUMBERS[] = {0, 1, 2, 3, 5, 10, 12, 1000, uint64_t{1} << 40, INT64_MAX};
constexpr const char* KNOWN_NAMES[] = {"a", "b", "user=1", "x:y", "site"};

#define REQUIRE(condition)                                                   \
    do {                                                                     \
        if (!(condition)) {                                                  \
            std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
            std::abort();                                                    \
        }                                                                    \
    } while (0)

Ids& known_ids() {
    static Ids ids;
    if (ids.size() == 0) {
        for (uint64_t number : KNOWN_NUMBERS) ids.add({number});
        for (const char* name : KNOWN_NAMES) ids.add(named(name, std::strlen(name)));
    }
    return ids;
}

// `ids` belong to a dictionary that grows.
Reading reading_of(const uint8_t* bytes, Ids& ids) {
    Reading reading{};
    reading.ffm = bytes[0] & 1;
    reading.keep_fields = reading.ffm && (bytes[0] & 2);
    reading.training = bytes[0] & 4;
    reading.skip = bytes[0] & 8;
    reading.label_weights = bytes[0] & 16;
    reading.id_column = reading.training ? 0 : (bytes[0] >> 5) % 3;
    reading.limit = LIMITS[bytes[1] % 8];
    reading.label_names = bytes[1] & 8;
    reading.groups = reading.training ? static_cast<Groups>((bytes[1] >> 4 & 3) % 3) : Groups::NONE;
    reading.group_field = bytes[1] >> 6;
    reading.space = static_cast<Space>(bytes[3] & 3);
    reading.refuse_unseen = bytes[3] & 4;
    reading.known_labels = reading.label_names && !reading.training && bytes[3] & 8;
    reading.hash_bits = HASH_BITS[bytes[3] >> 4 & 7];
    if (reading.space == Space::GROWING) reading.ids = &ids;
    if (reading.space == Space::KNOWN) {
        reading.ids = &known_ids();
        reading.others = bytes[3] & 128 ? static_cast<int32_t>(reading.ids->size()) : NO_COLUMN;
    }
    return reading;
}

// A text in memory of exactly its size, so that the sanitizer finds every access beyond it and its padding. A line break
// is added to the last line, as the reader of files does. Digits follow, which must not matter.
class Text {
  public:
    Text(const char* begin, size_t size) : size_(size && begin[size - 1] != '\n' ? size + 1 : size) {
        data_ = std::make_unique<char[]>(size_ + PADDING);
        if (size) std::memcpy(data_.get(), begin, size);
        if (size_) data_[size_ - 1] = '\n';
        std::memset(data_.get() + size_, '7', PADDING);
    }
    const char* begin() const { return data_.get(); }
    const char* end() const { return data_.get() + size_; }

  private:
    size_t size_;
    std::unique_ptr<char[]> data_;
};

void check_rows(const Rows& rows) {
    const Reading& reading = rows.reading;
    const size_t n = rows.label.size(), nnz = rows.index.size();
    REQUIRE(rows.indptr.size() == n + 1 && rows.indptr[0] == 0 && rows.indptr[n] == static_cast<int64_t>(nnz));
    REQUIRE(rows.field.size() == (reading.keep_fields ? nnz : 0));
    REQUIRE(!rows.valued || rows.value.size() == nnz);
    REQUIRE(rows.weight.size() == (reading.label_weights ? n : 0));
    REQUIRE(rows.group.size() == (rows.grouped() ? n : 0));
    REQUIRE(rows.fields >= 0 && rows.fields <= INT32_MAX);
    REQUIRE(rows.by_id ? reading.space != Space::INDEX : rows.features <= reading.limit);
    const int64_t columns = !rows.by_id ? rows.features
        : reading.ids ? static_cast<int64_t>(reading.ids->size()) + (reading.space == Space::KNOWN) : int64_t{1} << reading.hash_bits;
    std::vector<int64_t> keys;
    int64_t labeled = 0;
    std::vector<char> named(rows.label_names.size());  // whether a row has this name as its label
    for (size_t i = 0; i < n; ++i) {
        const bool has_label = !std::isnan(rows.label[i]);
        labeled += has_label;
        REQUIRE(!std::isinf(rows.label[i]) && (has_label || !reading.training));
        REQUIRE(!has_label || !reading.label_names || (rows.label[i] >= 0 && rows.label[i] < named.size()));
        if (has_label && reading.label_names) named[static_cast<size_t>(rows.label[i])] = 1;
        REQUIRE(!reading.label_weights || (rows.weight[i] >= 0 && std::isfinite(rows.weight[i])));
        REQUIRE(rows.indptr[i] <= rows.indptr[i + 1]);
        keys.clear();
        for (int64_t e = rows.indptr[i]; e < rows.indptr[i + 1]; ++e) {
            int64_t key = rows.index[e];
            REQUIRE(key >= 0 && key < columns);
            if (reading.keep_fields) {
                REQUIRE(rows.field[e] >= 0 && rows.field[e] < rows.fields);
                key = key << 32 | rows.field[e];
            }
            keys.push_back(key);
            if (rows.valued) REQUIRE(rows.value[e] != 0 && std::isfinite(rows.value[e]));
        }
        if (reading.space == Space::GROWING && rows.by_id) std::sort(keys.begin(), keys.end());
        for (size_t k = 1; k < keys.size(); ++k) REQUIRE(keys[k - 1] < keys[k]);
    }
    REQUIRE(labeled == rows.labeled);
    REQUIRE(reading.known_labels || std::count(named.begin(), named.end(), 0) == 0);
    for (int64_t row : rows.skipped) REQUIRE(row >= 0 && row < static_cast<int64_t>(n));
}

// `skip`: lines with faults were skipped.
void check_found(const Found& found, const Text& text, bool skip) {
    const int64_t lines = std::count(text.begin(), text.end(), '\n');
    REQUIRE(found.faulty >= static_cast<int64_t>(found.faults.size()));
    REQUIRE(found.faults.size() <= MOST_FAULTS + 1 && (found.faults.size() > 0) == (found.faulty > 0));
    REQUIRE(skip || found.faulty == 0 ? found.lines == lines : found.lines < lines);
    for (const Fault& fault : found.faults) {
        REQUIRE(fault.complaint && fault.number >= 0 && fault.number < lines);
        const char* const end = line_break(fault.line, text.end());
        REQUIRE(fault.line >= text.begin() && end);
        REQUIRE(fault.number == std::count(text.begin(), fault.line, '\n'));
        REQUIRE(fault.line <= fault.token.begin && fault.token.begin < fault.token.end && fault.token.end <= end);
        REQUIRE(fault.token.begin <= fault.part.begin && fault.part.begin <= fault.part.end);
        REQUIRE(fault.part.end <= fault.token.end);
    }
}

template <typename T>
void check_same(const T* one, const T* other, size_t size) {
    REQUIRE(size == 0 || std::memcmp(one, other, size * sizeof(T)) == 0);
}

// Names are in the order of their bytes.
void check_order(const Names& names) {
    const std::vector<uint32_t> order = names.in_order();
    REQUIRE(order.size() == names.size());
    const auto text_at = [&](size_t i) {
        const Names::Text text = names.text_at(order[i]);
        return std::string_view(text.begin, text.length);
    };
    for (size_t i = 1; i < order.size(); ++i) REQUIRE(text_at(i - 1) < text_at(i));
}

void check_same(const Ids& one, const Ids& other) {
    const Names &names = one.names, &others = other.names;
    REQUIRE(one.size() == other.size() && names.size() == others.size() && names.text_bytes() == others.text_bytes());
    for (size_t i = 0; i < names.size(); ++i) {
        const Id name = names.name(i), same = others.name(i);
        REQUIRE(name.length == same.length && names.column(i) == others.column(i));
        check_same(name.name, same.name, name.length);
    }
    check_same(one.numbers.data(), other.numbers.data(), one.numbers.size());
}

using Entry = std::tuple<std::string, int64_t, int32_t, float>;  // name, number, field, value

// The entries of a row, by their ids instead of the columns, whose order depends on the blocks.
std::vector<Entry> entries_of(const Rows& rows, size_t row) {
    std::vector<std::pair<std::string, int64_t>> ids;
    if (rows.reading.space == Space::GROWING && rows.by_id) {
        const Ids& known = *rows.reading.ids;
        ids.resize(known.size());
        for (size_t i = 0; i < known.numbers.size(); ++i) ids[static_cast<size_t>(known.number_columns[i])].second = known.numbers[i];
        for (size_t i = 0; i < known.names.size(); ++i) {
            const Id id = known.names.name(i);
            ids[static_cast<size_t>(known.names.column(i))].first.assign(id.name, id.length);
        }
    }
    std::vector<Entry> found;
    for (int64_t e = rows.indptr[row]; e < rows.indptr[row + 1]; ++e) {
        const int32_t column = rows.index[e];
        const auto id = ids.empty() ? std::pair(std::string(), static_cast<int64_t>(column)) : ids[static_cast<size_t>(column)];
        found.emplace_back(id.first, id.second, rows.reading.keep_fields ? rows.field[e] : 0, rows.valued ? rows.value[e] : 1);
    }
    std::sort(found.begin(), found.end());
    return found;
}

// The rows of two blocks, appended to each other, equal the rows of one block.
void check_blocks(Reading reading, const Text& text, size_t where, const Rows& whole) {
    const size_t size = text.end() - text.begin();
    const char* cut = line_break(text.begin() + where % size, text.end()) + 1;
    const Text first(text.begin(), cut - text.begin()), second(cut, text.end() - cut);
    Ids of_total, of_more;
    const bool growing = reading.space == Space::GROWING;
    if (growing) reading.ids = &of_total;
    Rows total(reading);
    if (growing) reading.ids = &of_more;
    Rows more(reading);
    parse_text(total, first.begin(), first.end());
    parse_text(more, second.begin(), second.end());
    check_rows(more);
    const Rows::Place place = total.make_room(more);
    total.fill(place, more);

    const size_t rows = whole.label.size(), nnz = whole.index.size();
    REQUIRE(total.label.size() == rows && total.index.size() == nnz && total.all_ones() == whole.all_ones());
    REQUIRE(growing || total.valued == whole.valued);
    check_same(total.indptr.data(), whole.indptr.data(), rows + 1);
    check_same(total.label.data(), whole.label.data(), rows);
    check_same(total.weight.data(), whole.weight.data(), whole.weight.size());
    check_same(total.group.data(), whole.group.data(), whole.group.size());
    if (!growing) {
        check_same(total.index.data(), whole.index.data(), nnz);
        check_same(total.field.data(), whole.field.data(), whole.field.size());
        if (whole.valued) check_same(total.value.data(), whole.value.data(), nnz);
    } else if (rows) {
        check_rows(total);
        REQUIRE(total.by_id == whole.by_id);  // ids whose entries are all 0 may differ; they get no columns at the end
        const size_t row = where % rows;
        REQUIRE(entries_of(total, row) == entries_of(whole, row));
    }
    REQUIRE(total.comments == whole.comments && total.labeled == whole.labeled && total.unseen == whole.unseen);
    check_same(total.label_names, whole.label_names);
    REQUIRE(total.repeated == whole.repeated && (whole.by_id || total.features == whole.features) && total.fields == whole.fields);
}

// Where the fast path reads a number, the slow path reads the same one.
void check_numbers(const Text& text) {
    for (const char* p = text.begin(); p < text.end(); ++p) {
        const char* end = p;
        while (!ends_token(*end) && *end != ':') ++end;
        Decimal decimal;
        const char* stop = scan_decimal(p, decimal);
        if (stop && stop == end && p != end) {
            float narrow, slow_narrow;
            double wide, slow_wide;
            if (to_float(decimal, narrow))
                REQUIRE(!read_number(p, end, slow_narrow) && std::memcmp(&narrow, &slow_narrow, sizeof narrow) == 0);
            if (to_double(decimal, wide))
                REQUIRE(!read_number(p, end, slow_wide) && std::memcmp(&wide, &slow_wide, sizeof wide) == 0);
        }
        p = end;
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    if (size < OPTION_BYTES) return -1;  // not for the corpus
    Ids ids;
    const Reading reading = reading_of(data, ids);
    const Text text(reinterpret_cast<const char*>(data + OPTION_BYTES), size - OPTION_BYTES);
    Rows rows(reading);
    if (reading.known_labels)
        for (const char* name : KNOWN_NAMES) rows.label_names.add(named(name, std::strlen(name)));
    const Found found = parse_text(rows, text.begin(), text.end());
    const bool skipped = reading.skip && !rows.refused;
    check_found(found, text, skipped);
    if (found.faulty == 0 || skipped) {
        check_rows(rows);
        for (size_t e = 0; e < rows.index.size(); ++e) REQUIRE(rows.by_id || rows.index[e] >= rows.lowest);
        if (text.begin() != text.end() && reading.training) check_blocks(reading, text, data[2], rows);
    }
    check_numbers(text);
    check_order(ids.names);
    return 0;
}
