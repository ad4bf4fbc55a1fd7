// Explanations as text: a table with a line for each part, or an object of JSON for each row.
#ifndef FMCLI_SCORING_EXPLAIN_LINES_H
#define FMCLI_SCORING_EXPLAIN_LINES_H

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "fmcli/base/types.h"

namespace fmcli {

enum Part { SCORE, BASE, FEATURE, MAIN, INTERACTION, DEGREE, REST };
// The names of parts in tables, and of what is one part or has several of them in JSON.
const char* const IN_TABLES[] = {"score", "base", "feature", "main", "interaction", "degree", "rest"};
const char* const IN_JSON[] = {"score", "base", "features", "main", "interactions", "degrees", "rest"};

// More than any number has characters.
enum { WIDEST = 32 };

// The names of the features of columns: numbers first, then texts, in which %XX stands for a character.
struct FeatureNames {
    const int64_t* numbers;  // NULL: columns are their own names
    int64_t n_numbers;
    const char* text;
    const int64_t* ends;
    int64_t n_texts;
    const char* other;  // of columns after these
};

// Parts of each row and output, in addition to its score, its base and its features. Parts of one kind are adjacent.
struct MoreParts {
    const int64_t* begins;  // of row r and output c: r * outputs + c; NULL: there are none
    const int32_t* part;
    const double* value;
    const int64_t* set_begins;  // of a part
    const int64_t* set;         // its entries; of a degree, its number
};

// Text that grows: a std::string would clear what it has room for, and append byte by byte several times as slowly.
struct Text {
    size_t size = 0;

    // Room for n more bytes.
    char* room(size_t n) {
        if (size + n > most) {
            most = 2 * (size + n);
            char* const larger = (char*)std::realloc(bytes.get(), most);
            if (!larger) throw std::bad_alloc();
            bytes.release();
            bytes.reset(larger);
        }
        return bytes.get() + size;
    }
    const char* data() const { return bytes.get(); }
    void end(const char* at) { size = at - bytes.get(); }
    void add(const char* from, size_t n) {
        std::memcpy(room(n), from, n);
        size += n;
    }
    Text& operator+=(const std::string& text) {
        add(text.data(), text.size());
        return *this;
    }
    Text& operator+=(const char* text) {
        add(text, std::strlen(text));
        return *this;
    }
    Text& operator+=(char one) {
        *room(1) = one;
        ++size;
        return *this;
    }

   private:
    std::unique_ptr<char, decltype(&std::free)> bytes{nullptr, std::free};
    size_t most = 0;
};

struct Lines {
    bool json;
    FeatureNames names;
    const int64_t* indptr;
    const int32_t* index;
    const int32_t* field;  // NULL: names have no fields
    const double* score;   // (rows, outputs)
    const double* base;    // (outputs)
    const double* share;   // (entries, outputs)
    std::vector<std::string> classes;  // empty: there is one output
    std::vector<std::string> keys;     // of rows; empty: they have numbers
    MoreParts more;
    int64_t first_number;
    Text* out;

    void write(int64_t rows) {
        const size_t outputs = std::max<size_t>(classes.size(), 1);
        for (int64_t r = 0; r < rows; ++r) {
            std::string key;
            if (keys.empty()) {
                char digits[24];
                key.assign(digits, std::to_chars(digits, digits + sizeof digits, first_number + r).ptr);
            } else {
                key = keys[r];
            }
            if (json) {
                *out += "{\"row\": ";
                *out += key;
                if (!classes.empty()) *out += ", \"classes\": [";
            }
            for (size_t c = 0; c < outputs; ++c) {
                begin = key;
                if (!classes.empty()) (begin += '\t') += classes[c];
                begin += '\t';
                if (json && !classes.empty()) ((*out += c ? ", {\"class\": " : "{\"class\": ") += classes[c]);
                of_output(r, c, outputs);
                if (json && !classes.empty()) *out += '}';
            }
            if (json) *out += classes.empty() ? "}\n" : "]}\n";
        }
    }

   private:
    std::string begin;  // of the lines of a row and output in tables
    std::vector<int64_t> ordered;  // the entries of a row, the one with the largest share first
    std::vector<double> sizes;
    int open = -1;  // the part of which JSON has an open list or object

    void of_output(int64_t r, size_t c, size_t outputs) {
        single(SCORE, score[r * outputs + c]);
        single(BASE, base[c]);
        sort_entries(indptr[r], indptr[r + 1], c, outputs);
        if (ordered.empty() && json) group(FEATURE);
        for (const int64_t e : ordered) of_set(FEATURE, &e, 1, share[e * outputs + c]);
        if (more.begins)
            for (int64_t m = more.begins[r * outputs + c]; m < more.begins[r * outputs + c + 1]; ++m) {
                const int64_t* set = more.set + more.set_begins[m];
                if (more.part[m] == REST)
                    single(REST, more.value[m]);
                else
                    of_set(more.part[m], set, more.set_begins[m + 1] - more.set_begins[m], more.value[m]);
            }
        close();
    }

    // Of few entries, the place of each is how many others are before it: without branches, half the time of sorting.
    void sort_entries(int64_t begin, int64_t end, size_t c, size_t outputs) {
        enum { FEW = 64 };
        const int64_t n = end - begin;
        ordered.resize(n);
        sizes.resize(n);
        for (int64_t i = 0; i < n; ++i) {
            const double size = std::fabs(share[(begin + i) * outputs + c]);
            sizes[i] = std::isnan(size) ? std::numeric_limits<double>::infinity() : size;
        }
        if (n > FEW) {
            for (int64_t i = 0; i < n; ++i) ordered[i] = begin + i;
            std::stable_sort(ordered.begin(), ordered.end(),
                             [&](int64_t i, int64_t j) { return sizes[i - begin] > sizes[j - begin]; });
            return;
        }
        for (int64_t i = 0; i < n; ++i) {
            int64_t before = 0;
            for (int64_t j = 0; j < i; ++j) before += sizes[j] >= sizes[i];
            for (int64_t j = i + 1; j < n; ++j) before += sizes[j] > sizes[i];
            ordered[before] = begin + i;
        }
    }

    void single(int part, double value) {
        if (json) {
            close();
            ((*out += ", \"") += IN_JSON[part]) += "\": ";
            number(value);
            return;
        }
        line(part);
        *out += '\t';
        number(value);
        *out += '\n';
    }

    void line(int part) { ((*out += begin) += IN_TABLES[part]) += '\t'; }

    // Begin a list or an object of JSON, unless it is open.
    void group(int part) {
        if (open == part) {
            *out += ", ";
            return;
        }
        close();
        ((*out += ", \"") += IN_JSON[part]) += part == INTERACTION ? "\": [" : "\": {";
        open = part;
    }

    void close() {
        if (open >= 0) *out += open == INTERACTION ? ']' : '}';
        open = -1;
    }

    void of_set(int part, const int64_t* set, int64_t size, double value) {
        if (json) group(part);
        else line(part);
        if (json && part == INTERACTION) *out += "{\"features\": [";
        else if (json) *out += '"';
        for (int64_t i = 0; i < size; ++i) {
            if (i) *out += json ? ", " : " & ";
            if (json && part == INTERACTION) *out += '"';
            if (part == DEGREE) integer(set[i]);
            else name(set[i]);
            if (json && part == INTERACTION) *out += '"';
        }
        if (json) *out += part == INTERACTION ? "], \"value\": " : "\": ";
        else *out += '\t';
        number(value);
        if (json && part == INTERACTION) *out += '}';
        if (!json) *out += '\n';
    }

    void integer(int64_t value) {
        char* const at = out->room(WIDEST);
        out->end(std::to_chars(at, at + WIDEST, value).ptr);
    }

    // Tables have the fewest digits that read back as the same `real`, as predictions; JSON those of the same double.
    void number(double value) {
        if (!std::isfinite(value)) {
            *out += json ? "null" : std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
            return;
        }
        char* const at = out->room(WIDEST);
        if (json)
            out->end(std::to_chars(at, at + WIDEST, value + 0.0).ptr);
        else
            out->end(std::to_chars(at, at + WIDEST, (real)value + (real)0).ptr);
    }

    void name(int64_t entry) {
        const int64_t column = index[entry];
        if (field) {
            integer(field[entry]);
            *out += ':';
        }
        if (!names.numbers || column < names.n_numbers) {
            integer(names.numbers ? names.numbers[column] : column);
            return;
        }
        const int64_t place = column - names.n_numbers;
        if (place >= names.n_texts) {
            *out += names.other;
            return;
        }
        const char* at = names.text + (place ? names.ends[place - 1] : 0);
        const char* const end = names.text + names.ends[place];
        if (!json && !std::memchr(at, '%', end - at)) {
            out->add(at, end - at);
            return;
        }
        for (; at < end; ++at) {
            char character = *at;
            if (character == '%' && end - at > 2) {
                const char* const code = at + 1;
                for (const char one : {' ', ':', '%', '#'}) {
                    const char high = '0' + (one >> 4), low = "0123456789ABCDEF"[one & 15];
                    if (code[0] == high && code[1] == low) {
                        character = one;
                        at += 2;
                        break;
                    }
                }
            }
            if (json && (unsigned char)character < ' ') {
                ((*out += "\\u00") += "0123456789abcdef"[character >> 4]) += "0123456789abcdef"[character & 15];
                continue;
            }
            if (json && (character == '"' || character == '\\')) *out += '\\';
            *out += character;
        }
    }
};

}  // namespace fmcli

#endif
