// Explanations as text: a table with a line per part, or a JSON object per row.
#ifndef FMCLI_SCORING_EXPLAIN_LINES_H
#define FMCLI_SCORING_EXPLAIN_LINES_H

#include <Python.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "fmcli/base/types.h"
#include "fmcli/data/shortest.h"

namespace fmcli {

enum Part { SCORE, BASE, FEATURE, MAIN, INTERACTION, DEGREE, REST };
// The names of parts in tables, and of the members of a JSON object, which are one part or lists of parts.
constexpr std::string_view IN_TABLES[] = {"score", "base", "feature", "main", "interaction", "degree", "rest"};
constexpr std::string_view IN_JSON[] = {"score", "base", "features", "main", "interactions", "degrees", "rest"};

// The names of the features of columns: numbers first, then texts, in which %XX stands for a character.
struct FeatureNames {
    const int64_t* numbers;  // NULL: columns are their own names
    int64_t n_numbers;
    const char* text;
    const int64_t* ends;
    int64_t n_texts;
    std::string other;  // of all further columns
    size_t widest;      // of texts, in bytes
};

// Parts of each row and output, besides its score, base and features. Parts of one kind are adjacent.
struct MoreParts {
    const int64_t* begins;  // for row r and output c: r * outputs + c; NULL: there are none
    const int32_t* part;
    const double* value;
    const int64_t* set_begins;  // of a part
    const int64_t* set;         // the entries of a part; for a degree, its number
};

// Growing text in a Python object that nobody else has yet: a std::string would clear new room, and its text would have
// to be copied.
struct Text {
    char* end = nullptr;

    ~Text() { Py_XDECREF(bytes); }

    // The end, with room for n characters after it.
    char* room(size_t n) {
        if (size_t(stop - end) < n) grow(n);
        return end;
    }

    // The text, a new reference, or NULL with a Python exception. Needs the GIL.
    PyObject* taken() {
        room(1);
        _PyBytes_Resize(&bytes, end - PyBytes_AS_STRING(bytes));
        PyObject* const found = bytes;
        bytes = nullptr;
        return found;
    }

   private:
    PyObject* bytes = nullptr;
    char* stop = nullptr;

    void grow(size_t n) {
        const PyGILState_STATE state = PyGILState_Ensure();
        const size_t size = bytes ? end - PyBytes_AS_STRING(bytes) : 0, most = 2 * (size + n);
        if (bytes) _PyBytes_Resize(&bytes, most);
        else bytes = PyBytes_FromStringAndSize(nullptr, most);
        if (!bytes) PyErr_Clear();
        PyGILState_Release(state);
        if (!bytes) throw std::bad_alloc();
        end = PyBytes_AS_STRING(bytes) + size;
        stop = PyBytes_AS_STRING(bytes) + most;
    }
};

inline char* put(char* at, std::string_view text) {
    std::memcpy(at, text.data(), text.size());
    return at + text.size();
}

inline char* put(char* at, char one) {
    *at = one;
    return at + 1;
}

struct Lines {
    bool json, doubles;
    FeatureNames names;
    const int64_t* indptr;
    const int32_t* index;
    const int32_t* field;  // NULL: names have no fields
    const double* score;   // (rows, outputs)
    const double* base;    // (outputs)
    const double* share;   // (entries, outputs)
    std::vector<std::string> classes;  // empty: there is one output
    std::vector<std::string> keys;     // of rows; empty: rows are numbered
    MoreParts more;
    int64_t first_number;
    Text* out;

    void write(int64_t rows) {
        const size_t outputs = std::max<size_t>(classes.size(), 1);
        of_name = WIDEST + ROOM + std::max(names.other.size(), MOST_OF_BYTE * names.widest);
        for (int64_t r = 0; r < rows; ++r) {
            char digits[WIDEST];
            const std::string_view number(digits, write_number(digits, first_number + r) - digits);
            const std::string_view key = keys.empty() ? number : keys[r];
            if (json) {
                char* at = out->room(key.size() + ROOM);
                at = put(put(at, "{\"row\": "), key);
                out->end = classes.empty() ? at : put(at, ", \"classes\": [");
            }
            for (size_t c = 0; c < outputs; ++c) {
                const std::string_view name = classes.empty() ? std::string_view() : classes[c];
                if (!json) {
                    begin.assign(key);
                    if (!classes.empty()) begin.append("\t").append(name);
                    length = begin.append("\t").size();
                    begin.append(BLOCK, ' ');
                }
                char* at = out->room(name.size() + most_of(r, c, outputs));
                if (json && !classes.empty()) at = put(put(at, c ? ", {\"class\": " : "{\"class\": "), name);
                at = of_output(at, r, c, outputs);
                if (json && !classes.empty()) at = put(at, '}');
                if (json && c + 1 == outputs) at = put(at, classes.empty() ? "}\n" : "]}\n");
                out->end = at;
            }
        }
    }

   private:
    // ROOM: more characters than the fixed words of a part; MOST_OF_BYTE: the most characters of a name's byte in JSON.
    enum : size_t { ROOM = 64, MOST_OF_BYTE = 6, BLOCK = 16 };

    size_t of_name;     // more characters than any name has, including the text around it
    std::string begin;  // of the lines of a row and output in tables, `length` characters and a BLOCK
    size_t length = 0;
    std::vector<int64_t> ordered;  // the entries of a row, by decreasing share
    std::vector<double> sizes;
    int open = -1;  // the part with an open list or object in JSON

    int64_t first_part(int64_t r, size_t c, size_t outputs) const { return more.begins[r * outputs + c]; }

    // More characters than the parts of a row and output have.
    size_t most_of(int64_t r, size_t c, size_t outputs) const {
        size_t parts = 3 + indptr[r + 1] - indptr[r], members = parts;  // one more for what surrounds them
        if (more.begins) {
            const int64_t first = first_part(r, c, outputs), last = first_part(r, c + 1, outputs);
            parts += last - first;
            members += more.set_begins[last] - more.set_begins[first];
        }
        return parts * (begin.size() + ROOM + WIDEST) + members * of_name;
    }

    char* of_output(char* at, int64_t r, size_t c, size_t outputs) {
        at = single(at, SCORE, score[r * outputs + c]);
        at = single(at, BASE, base[c]);
        sort_entries(indptr[r], indptr[r + 1], c, outputs);
        if (ordered.empty() && json) at = group(at, FEATURE);
        for (const int64_t e : ordered) at = of_set(at, FEATURE, &e, 1, share[e * outputs + c]);
        if (more.begins)
            for (int64_t m = first_part(r, c, outputs); m < first_part(r, c + 1, outputs); ++m) {
                const int64_t* set = more.set + more.set_begins[m];
                if (more.part[m] == REST)
                    at = single(at, REST, more.value[m]);
                else
                    at = of_set(at, more.part[m], set, more.set_begins[m + 1] - more.set_begins[m], more.value[m]);
            }
        return close(at);
    }

    // The position of each of a few entries is the number of entries before it, compared four at a time as floats:
    // without branches, this takes a third of the time of sorting. Then entries with equal floats are compared.
    void sort_entries(int64_t first, int64_t last, size_t c, size_t outputs) {
        enum { FEW = 64 };
        const int64_t n = last - first;
        ordered.resize(n);
        sizes.resize(n);
        for (int64_t i = 0; i < n; ++i) {
            const double size = std::fabs(share[(first + i) * outputs + c]);
            sizes[i] = std::isnan(size) ? std::numeric_limits<double>::infinity() : size;
        }
        const auto larger = [&](int64_t i, int64_t j) { return sizes[i - first] > sizes[j - first]; };
        if (n > FEW) {
            for (int64_t i = 0; i < n; ++i) ordered[i] = first + i;
            std::stable_sort(ordered.begin(), ordered.end(), larger);
            return;
        }
        float rounded[FEW];
        int32_t before[FEW] = {};
        for (int64_t i = 0; i < n; ++i) rounded[i] = float(sizes[i]);
        for (int64_t i = 0; i < n; ++i) {
            int32_t after = 0;
            for (int64_t j = i + 1; j < n; ++j) {
                const int32_t is_after = rounded[j] <= rounded[i];
                before[j] += is_after;
                after += is_after;
            }
            ordered[before[i] + int32_t(n - 1 - i) - after] = first + i;
        }
        for (int64_t i = 1; i < n; ++i)
            for (int64_t j = i; j > 0 && larger(ordered[j], ordered[j - 1]); --j) std::swap(ordered[j], ordered[j - 1]);
    }

    char* single(char* at, int part, double value) {
        if (json) return number(key(close(at), part), value);
        return put(number(put(line(at, part), '\t'), value), '\n');
    }

    // The beginning of a line, copied in blocks of a fixed size, which is faster.
    char* line(char* at, int part) const {
        for (size_t from = 0; from < length; from += BLOCK) std::memcpy(at + from, begin.data() + from, BLOCK);
        return put(put(at + length, IN_TABLES[part]), '\t');
    }

    static char* key(char* at, int part) { return put(put(put(at, ", \""), IN_JSON[part]), "\": "); }

    // Begin a JSON list or object, unless it is open.
    char* group(char* at, int part) {
        if (open == part) return put(at, ", ");
        at = key(close(at), part);
        open = part;
        return put(at, part == INTERACTION ? '[' : '{');
    }

    char* close(char* at) {
        if (open >= 0) at = put(at, open == INTERACTION ? ']' : '}');
        open = -1;
        return at;
    }

    char* of_set(char* at, int part, const int64_t* set, int64_t size, double value) {
        const bool lists = json && part == INTERACTION;
        at = json ? group(at, part) : line(at, part);
        if (lists) at = put(at, "{\"features\": [");
        else if (json) at = put(at, '"');
        for (int64_t i = 0; i < size; ++i) {
            if (i) at = put(at, json ? ", " : " & ");
            if (lists) at = put(at, '"');
            at = part == DEGREE ? write_number(at, set[i]) : name(at, set[i]);
            if (lists) at = put(at, '"');
        }
        if (json) at = put(at, lists ? "], \"value\": " : "\": ");
        else at = put(at, '\t');
        at = number(at, value);
        if (lists) at = put(at, '}');
        return json ? at : put(at, '\n');
    }

    // Tables have the fewest digits that read back as the same `real`, like predictions; JSON, and tables whose numbers
    // need it, the fewest digits that read back as the same double.
    char* number(char* at, double value) const {
        if (!std::isfinite(value))
            return put(at, json ? "null" : std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf");
        return json || doubles ? write_number(at, value + 0.0) : write_number(at, (real)value + (real)0);
    }

    char* name(char* out, int64_t entry) const {
        const int64_t column = index[entry];
        if (field) out = put(write_number(out, (int64_t)field[entry]), ':');
        if (!names.numbers || column < names.n_numbers)
            return write_number(out, names.numbers ? names.numbers[column] : column);
        const int64_t place = column - names.n_numbers;
        if (place >= names.n_texts) return put(out, names.other);
        const char* at = names.text + (place ? names.ends[place - 1] : 0);
        const char* const end = names.text + names.ends[place];
        if (!json && !std::memchr(at, '%', end - at)) return put(out, std::string_view(at, end - at));
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
                out = put(out, "\\u00");
                out = put(out, "0123456789abcdef"[character >> 4]);
                out = put(out, "0123456789abcdef"[character & 15]);
                continue;
            }
            if (json && (character == '"' || character == '\\')) out = put(out, '\\');
            out = put(out, character);
        }
        return out;
    }
};

}  // namespace fmcli

#endif
