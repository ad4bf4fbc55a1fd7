// A libFuzzer harness of the importer of Arrow streams: schemas and batches that break what can be checked of them.
// scripts/fuzz/text.py compiles and runs it.
//
// The buffers have the sizes that the lengths and offsets of their arrays imply, because nothing tells others. Only the
// offsets of text are made valid, for the same reason. Beyond the sanitizers' checks, it ends the process if the written
// text has other rows or cells than the batch.
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

#include "fmcli/data/arrow.h"

namespace {

using namespace fmcli;

constexpr const char* FORMATS[] = {"n", "b", "c", "C", "s", "S", "i", "I", "l", "L", "f", "g", "u", "U", "vu", "+l",
                                   "+L", "tdD", "", "uu"};
constexpr int64_t ROWS = 5, COLUMNS = 2;

#define REQUIRE(condition)                                                   \
    do {                                                                     \
        if (!(condition)) {                                                  \
            std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
            std::abort();                                                    \
        }                                                                    \
    } while (0)

// The bytes of an input; zeros follow.
struct Bytes {
    const uint8_t* at;
    size_t left;

    uint8_t next() { return left ? --left, *at++ : 0; }
    bool rarely() { return next() > 247; }
};

// What a producer owns.
struct Store {
    std::vector<std::unique_ptr<char[]>> buffers;
    std::vector<std::unique_ptr<const void*[]>> pointers;
    std::vector<std::unique_ptr<ArrowSchema>> schemas;
    std::vector<std::unique_ptr<ArrowArray>> arrays;
    std::vector<std::unique_ptr<ArrowSchema*[]>> schema_children;
    std::vector<std::unique_ptr<ArrowArray*[]>> array_children;

    char* buffer(size_t size, Bytes& bytes) {
        buffers.push_back(std::make_unique<char[]>(size));
        for (size_t at = 0; at < size; ++at) buffers.back()[at] = static_cast<char>(bytes.next());
        return buffers.back().get();
    }
};

template <class T>
void make_offsets(char* buffer, int64_t rows, int64_t size) {
    T* const offsets = reinterpret_cast<T*>(buffer);
    T before = 0;
    for (int64_t row = 0; row <= rows; ++row) {
        const T step = static_cast<T>(static_cast<uint8_t>(offsets[row]) % 4);
        before = static_cast<T>(std::min<int64_t>(before + step, size));
        offsets[row] = before;
    }
}

size_t width(Cell cell) {
    switch (cell) {
        case Cell::INT8: case Cell::UINT8: return 1;
        case Cell::INT16: case Cell::UINT16: return 2;
        case Cell::INT32: case Cell::UINT32: case Cell::FLOAT: return 4;
        case Cell::VIEW: return 16;
        default: return 8;
    }
}

// Fills a schema and an array with the given number of cells.
void fill(ArrowSchema& schema, ArrowArray& array, int64_t cells, int depth, Bytes& bytes, Store& store) {
    constexpr int DEEPEST = 3;
    const char* const format = FORMATS[bytes.next() % (sizeof FORMATS / sizeof *FORMATS)];
    schema.format = bytes.rarely() ? nullptr : format;
    schema.name = "x";
    array.offset = bytes.next() % 3;
    array.length = cells;
    const int64_t all = cells + array.offset;
    const Cell cell = plain_cell(format);
    const bool nested = format[0] == '+', has_dictionary = depth < DEEPEST && bytes.next() % 4 == 0;
    std::vector<const void*> buffers;
    buffers.push_back(bytes.next() % 2 ? store.buffer(static_cast<size_t>(all / 8 + 1), bytes) : nullptr);
    if (cell == Cell::TEXT || cell == Cell::LARGE_TEXT || nested) {
        const bool large = cell == Cell::LARGE_TEXT || (nested && format[1] == 'L');
        const int64_t size = bytes.next() % 16;
        char* const offsets = store.buffer(static_cast<size_t>((all + 1) * (large ? 8 : 4)), bytes);
        if (!nested && large) make_offsets<int64_t>(offsets, all, size);
        if (!nested && !large) make_offsets<int32_t>(offsets, all, size);
        buffers.push_back(offsets);
        if (!nested) buffers.push_back(store.buffer(static_cast<size_t>(size), bytes));
    } else if (cell == Cell::VIEW) {
        buffers.push_back(store.buffer(static_cast<size_t>(all) * sizeof(ArrowView), bytes));
        const int64_t size = 32;
        buffers.push_back(store.buffer(size, bytes));
        char* const sizes = store.buffer(sizeof size, bytes);
        std::memcpy(sizes, &size, sizeof size);
        buffers.push_back(sizes);
    } else {
        const size_t bits = static_cast<size_t>(all / 8 + 1), whole = static_cast<size_t>(all) * width(cell);
        buffers.push_back(store.buffer(cell == Cell::BOOL ? bits : whole, bytes));
    }
    if (bytes.rarely()) buffers[bytes.next() % buffers.size()] = nullptr;
    if (bytes.rarely()) buffers.pop_back();
    store.pointers.push_back(std::make_unique<const void*[]>(buffers.size()));
    std::copy(buffers.begin(), buffers.end(), store.pointers.back().get());
    array.buffers = bytes.rarely() ? nullptr : store.pointers.back().get();
    array.n_buffers = static_cast<int64_t>(buffers.size());
    if ((!nested && !has_dictionary) || depth >= DEEPEST) return;
    store.schemas.push_back(std::make_unique<ArrowSchema>());
    store.arrays.push_back(std::make_unique<ArrowArray>());
    ArrowSchema* const inner_schema = store.schemas.back().get();
    ArrowArray* const inner = store.arrays.back().get();
    fill(*inner_schema, *inner, bytes.next() % 6, depth + 1, bytes, store);
    if (has_dictionary) {
        schema.dictionary = inner_schema;
        array.dictionary = bytes.rarely() ? nullptr : inner;
        return;
    }
    store.schema_children.push_back(std::make_unique<ArrowSchema*[]>(1));
    store.array_children.push_back(std::make_unique<ArrowArray*[]>(1));
    store.schema_children.back()[0] = bytes.rarely() ? nullptr : inner_schema;
    store.array_children.back()[0] = bytes.rarely() ? nullptr : inner;
    schema.children = store.schema_children.back().get();
    array.children = bytes.rarely() ? nullptr : store.array_children.back().get();
    schema.n_children = array.n_children = 1;
    if (bytes.rarely()) array.n_children = 0;
}

// Counts the lines and cells of CSV.
void count(const std::string& text, int64_t& lines, int64_t& cells) {
    bool quoted = false;
    lines = cells = 0;
    for (const char c : text) {
        if (c == '"') quoted = !quoted;
        if (!quoted && c == '\n') ++lines;
        if (!quoted && (c == '\n' || c == ',')) ++cells;
    }
    REQUIRE(!quoted);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    Bytes bytes{data, size};
    Store store;
    ArrowText text;
    ArrowArray batch{};
    batch.length = ROWS;
    batch.offset = bytes.next() % 2;
    ArrowSchema schemas[COLUMNS]{};
    ArrowArray columns[COLUMNS]{};
    ArrowArray* children[COLUMNS];
    int64_t readable = 0;
    for (int64_t at = 0; at < COLUMNS; ++at) {
        fill(schemas[at], columns[at], ROWS + batch.offset - bytes.rarely(), 0, bytes, store);
        children[at] = bytes.rarely() ? nullptr : &columns[at];
        text.add_column(schemas[at], true);
        readable += arrow_type(schemas[at]).cell != Cell::OTHER;
    }
    batch.children = children;
    batch.n_children = COLUMNS - bytes.rarely();
    int64_t rows = 0;
    bool fine = text.begin(batch);
    while (fine && !text.ended(batch)) fine = text.write(batch, text.text.size() + 1, rows);
    REQUIRE(fine == text.fault.empty());
    if (fine) {
        int64_t lines, cells;
        count(text.text, lines, cells);
        REQUIRE(rows == ROWS && lines == ROWS && cells == ROWS * std::max<int64_t>(1, readable));
    }
    return 0;
}
