// Entries of rows that text has only once, in a list: its rows refer to them by number. Text that is made of tables is
// written and read twice as fast so, because most cells have occurred before.
#ifndef FMCLI_REFERENCES_H
#define FMCLI_REFERENCES_H

#include <cstdint>
#include <cstring>
#include <vector>

#include "fmcli/data/arrays.h"
#include "fmcli/data/numbers.h"

namespace fmcli {

struct References {
    static constexpr char MARK = '\xff';  // begins a reference, and occurs nowhere in UTF-8
    static constexpr size_t LENGTH = 5;   // of a reference
    static constexpr size_t MOST = size_t{1} << 6 * (LENGTH - 1);

    Array<char> text;           // of the entries, each with a line break behind it
    std::vector<size_t> begin;  // of each entry in the text

    size_t size() const { return begin.size(); }
    const char* entry(size_t number) const { return text.data() + begin[number]; }

    // Adds an entry and returns its number. PADDING bytes can be read behind the text.
    size_t add(const char* entry, size_t length) {
        text.reserve(text.size() + length + 1 + PADDING);
        begin.push_back(text.size());
        std::memcpy(text.data() + text.size(), entry, length);
        std::memset(text.data() + text.size() + length, '\n', 1 + PADDING);
        text.resize(text.size() + length + 1);
        return begin.size() - 1;
    }

    void clear() {
        text.resize(0);
        begin.clear();
    }

    // Writes a reference to an entry, and returns its end: six bits a character, none of which ends a token.
    static char* write(char* out, size_t number) {
        *out = MARK;
        for (size_t i = 1; i < LENGTH; ++i, number >>= 6) out[i] = static_cast<char>('@' | (number & 63));
        return out + LENGTH;
    }

    // The number in a reference.
    static size_t number(const char* p) {
        size_t found = 0;
        for (size_t i = LENGTH - 1; i > 0; --i) found = found << 6 | (static_cast<size_t>(p[i]) & 63);
        return found;
    }
};

}  // namespace fmcli

#endif
