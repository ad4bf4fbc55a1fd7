// Parses lines of libsvm or ffm text into rows. A fast path reads tokens in common spellings. All others take a slow
// path, which accepts every allowed spelling and describes what is wrong with an invalid token.
#ifndef FMCLI_PARSER_H
#define FMCLI_PARSER_H

#include "fmcli/data/numbers.h"
#include "fmcli/data/rows.h"

namespace fmcli {

struct Span {
    const char* begin = nullptr;
    const char* end = nullptr;
};

// An error in a text and its position.
struct Fault {
    const char* complaint = nullptr;  // "is not a number"
    const char* subject = "";         // "value"; empty if the complaint is about the whole token
    const char* expected = "";        // "index:value"
    Span token, part;                 // the token, and its part that is the subject
    const char* line = nullptr;       // the beginning of its line
    int64_t number = 0;               // the number of lines before it
};

// What was found in a text: the number of its lines, or of those before the first fault if none are skipped; how many
// lines have faults; and the first of these.
struct Found {
    int64_t lines = 0, faulty = 0;
    std::vector<Fault> faults;
};

constexpr size_t MOST_FAULTS = 10;  // that are described

inline const char* skip_blanks(const char* p) {
    while (is_blank(*p)) ++p;
    return p;
}

inline bool ends_row(char c) { return c == '\n' || c == '#'; }

inline const char* token_end(const char* p) {
    while (!ends_token(*p)) ++p;
    return p;
}

inline const char* line_break(const char* p, const char* end) {
    return static_cast<const char*>(std::memchr(p, '\n', end - p));
}

template <bool ffm>
class Parser {
  public:
    Parser(Rows& rows, const char* end) : rows_(rows), end_(end) {}

    // Parses all lines from p, which must end with a line break, followed by PADDING readable bytes. Stops at the first
    // fault, unless lines with faults are skipped.
    Found parse(const char* p) {
        Found found;
        for (; p < end_; ++found.lines) {
            line_ = p;
            p = skip_blanks(p);
            if (*p == '#') {
                ++rows_.comments;
                p = line_break(p, end_);
            } else if (*p == '\n') {
                if (!rows_.reading.training) rows_.end_row(rows_.index.size(), NAN, false);
            } else if (!row(p)) {
                fault_.number = found.lines;
                if (found.faults.size() < MOST_FAULTS) found.faults.push_back(fault_);
                ++found.faulty;
                if (!rows_.reading.skip) return found;
                rows_.skip_row();
                p = line_break(line_, end_);
            }
            ++p;
        }
        return found;
    }

  private:
    struct Entry {
        uint64_t index, field;
        float value;
    };

    static constexpr const char* SHAPE = ffm ? "field:index:value" : "index:value";
    static constexpr uint64_t LARGEST_ID = INT32_MAX - 1;  // so that the count, the largest id + 1, fits into int32

    Rows& rows_;
    const char* end_;
    const char* line_ = nullptr;
    Span name_;  // the label of the row, if it is a name; it is added when the whole row has been read
    Fault fault_;

    bool fail(const char* complaint, const char* subject, const char* expected, Span token, Span part) {
        fault_ = {complaint, subject, expected, token, part, line_};
        return false;
    }

    // Parses one row. p points to its first token, and afterwards to the line break at its end.
    bool row(const char*& p) {
        double y = NAN, weight = 1;
        const int id_column = rows_.reading.id_column;
        if (id_column == 1) p = skip_blanks(token_end(p));
        bool has_label = !ends_row(*p);
        if (has_label) {
            const bool read = rows_.reading.label_weights ? weighted_label(p, y, weight) : label(p, y, has_label);
            if (!read) return false;
        }
        p = skip_blanks(p);
        if (id_column == 2 && !ends_row(*p)) p = skip_blanks(token_end(p));
        if (p[0] == 'q' && std::memcmp(p, "qid:", 4) == 0 && !query(p)) return false;

        return entries(p, y, has_label, weight);
    }

    // Parses the entries at `position`, up to the line break. `parse_text` has reserved memory for all of them.
    bool entries(const char*& position, double y, bool has_label, double weight) {
        const Reading& reading = rows_.reading;
        const uint64_t limit = reading.limit;
        int32_t* const index = rows_.index.data();
        int32_t* const field = reading.keep_fields ? rows_.field.data() : nullptr;
        float* value = rows_.valued ? rows_.value.data() : nullptr;
        const size_t start = rows_.index.size();
        size_t n = start;
        int64_t last = -1, fields = rows_.fields, unseen = 0, beyond = rows_.beyond;
        bool untidy = false;  // the entries are not in increasing order, or a value is 0
        const char* p = position;
        for (;;) {
            p = skip_blanks(p);
            if (*p == '\n') break;
            if (*p == '#') {
                p = line_break(p, end_);
                break;
            }
            Entry entry;
            const char* next = plain_entry(p, entry);
            if (!next) {
                Entry odd;  // `any_entry` takes its address, so `entry` can stay in registers
                next = any_entry(p, odd);
                if (!next) return false;
                entry = odd;
            }
            if (entry.index >= limit) {
                if (reading.training) return too_large(p);
                unseen += entry.value != 0;
                beyond = std::max(beyond, static_cast<int64_t>(entry.index));
                p = next;
                continue;
            }
            p = next;
            int64_t key = static_cast<int64_t>(entry.index);
            if (ffm) {
                const int64_t group = static_cast<int64_t>(entry.field);
                fields = std::max(fields, group + 1);
                if (field) {
                    field[n] = static_cast<int32_t>(group);
                    key = key << 32 | group;
                }
            }
            untidy |= key <= last;
            last = key;
            index[n] = static_cast<int32_t>(entry.index);
            if (entry.value != 1) {
                untidy |= entry.value == 0;
                if (!value) {
                    rows_.start_values(n);
                    value = rows_.value.data();
                }
            }
            if (value) value[n] = entry.value;
            ++n;
        }
        position = p;
        if (untidy) {
            int32_t overflow = 0;
            int64_t tidied = rows_.tidy(start, n, overflow);
            if (tidied < 0) return sum_too_large(overflow);
            n = static_cast<size_t>(tidied);
        } else if (n > start) {
            rows_.features = std::max(rows_.features, static_cast<int64_t>(index[n - 1]) + 1);
        }
        rows_.fields = fields;
        rows_.unseen += unseen;
        rows_.beyond = beyond;
        if (n > start) rows_.lowest = std::min(rows_.lowest, static_cast<int64_t>(index[start]));
        if (reading.label_names && has_label) y = position_of(name_);
        rows_.end_row(n, y, has_label, weight);
        return true;
    }

    bool label(const char*& p, double& y, bool& has_label) {
        if (rows_.reading.label_names) return named_label(p, has_label);
        Decimal decimal;
        const char* next = scan_decimal(p, decimal);
        if (next && ends_token(*next) && to_double(decimal, y)) {
            p = next;
            return true;
        }
        const Span token = {p, token_end(p)};
        if (std::find(token.begin, token.end, ':') != token.end) return no_label(token, has_label);
        if (const char* wrong = read_number(token.begin, token.end, y)) return fail(wrong, "label", "a label", token, token);
        p = token.end;
        return true;
    }

    bool named_label(const char*& p, bool& has_label) {
        const Span token = {p, token_end(p)};
        if (std::find(token.begin, token.end, ':') != token.end) return no_label(token, has_label);
        name_ = token;
        p = token.end;
        return true;
    }

    bool no_label(Span token, bool& has_label) {
        has_label = false;
        return !rows_.reading.training ||
               fail("the row has no label, and only predict takes it so", "", "a label", token, token);
    }

    double position_of(Span label) {
        return rows_.label_names.add(named(label.begin, static_cast<size_t>(label.end - label.begin)));
    }

    // A label, or label:weight.
    bool weighted_label(const char*& p, double& y, double& weight) {
        const Span token = {p, token_end(p)}, part = {p, std::find(p, token.end, ':')};
        const char* const expected = "label:weight";
        if (part.begin == part.end) return fail("is missing", "label", expected, token, part);
        if (rows_.reading.label_names) name_ = part;
        else if (const char* wrong = read_number(part.begin, part.end, y)) return fail(wrong, "label", expected, token, part);
        if (part.end != token.end) {
            const Span rest = {part.end + 1, token.end};
            const char* wrong = read_number(rest.begin, rest.end, weight);
            if (!wrong && weight < 0) wrong = "is negative";
            if (wrong) return fail(wrong, "weight", expected, token, rest);
        }
        p = token.end;
        return true;
    }

    bool query(const char*& p) {
        const Span token = {p, token_end(p)}, number = {p + 4, token.end};
        uint64_t any;
        if (const char* wrong = read_whole(number.begin, number.end, any))
            return fail(wrong, "query number", "qid:number", token, number);
        p = token.end;
        return true;
    }

    // Reads the entry at p if its ids are digits and its value is a plain decimal. Returns its end, or else nullptr.
    static const char* plain_entry(const char* p, Entry& entry) {
        if (ffm) {
            // Fields usually have one or two digits and the same order in all rows, so branches are well predicted.
            entry.field = 0;
            const char* start = p;
            for (; is_digit(*p) && p < start + 9; ++p) entry.field = entry.field * 10 + (*p - '0');
            if (p == start || *p != ':') return nullptr;
            ++p;
        }
        Digits digits = read_digits(p);
        if (digits.count == 0) return nullptr;
        p = step(p, digits.count);
        entry.index = digits.number;
        if (digits.count == 8) {
            digits = read_digits(p);
            p = step(p, digits.count);
            entry.index = entry.index * SCALE[digits.count] + digits.number;
        }
        if (*p++ != ':') return nullptr;
        if (*p == '1' && ends_token(p[1])) {
            entry.value = 1;
            return p + 1;
        }
        Decimal decimal;
        p = scan_decimal(p, decimal);
        return p && ends_token(*p) && to_float(decimal, entry.value) ? p : nullptr;
    }

    // The same for every spelling. If it returns nullptr, it has set the fault.
    const char* any_entry(const char* p, Entry& entry) {
        const Span token = {p, token_end(p)};
        const auto colons = std::count(token.begin, token.end, ':');
        if (colons != (ffm ? 2 : 1)) {
            const char* wrong = colons == 0 ? "the colon is missing"
                : colons > 2 ? "there are too many colons"
                : ffm ? "one colon is the libsvm format, and this is read as ffm"
                : "two colons are the ffm format, and this is read as libsvm";
            fail(wrong, "", SHAPE, token, token);
            return nullptr;
        }
        if (ffm) {
            const Span field = {p, std::find(p, token.end, ':')};
            const char* wrong = read_whole(field.begin, field.end, entry.field);
            if (!wrong && entry.field > LARGEST_ID) wrong = ABOVE_LARGEST_ID;
            if (wrong) {
                fail(wrong, "field", SHAPE, token, field);
                return nullptr;
            }
            p = field.end + 1;
        }
        const Span index = {p, std::find(p, token.end, ':')}, value = {index.end + 1, token.end};
        if (const char* wrong = read_whole(index.begin, index.end, entry.index)) {
            fail(wrong, "feature index", SHAPE, token, index);
            return nullptr;
        }
        if (const char* wrong = read_number(value.begin, value.end, entry.value)) {
            fail(wrong, "value", SHAPE, token, value);
            return nullptr;
        }
        return token.end;
    }

    static constexpr const char* ABOVE_LARGEST_ID = "is larger than 2147483646, and larger ids are not supported yet";

    bool too_large(const char* p) {
        const Span token = {p, token_end(p)};
        if (ffm) p = std::find(p, token.end, ':') + 1;
        return fail(ABOVE_LARGEST_ID, "feature index", SHAPE, token, {p, std::find(p, token.end, ':')});
    }

    // Sets the fault at the last entry of the line that has this index.
    bool sum_too_large(int32_t index) {
        Span token, part;
        for (const char* p = skip_blanks(token_end(skip_blanks(line_))); *p != '\n' && *p != '#';) {
            const Span here = {p, token_end(p)};
            const char* id = p;
            if (ffm) id = std::find(id, here.end, ':') + 1;
            uint64_t found;
            const Span digits = {id, std::find(id, here.end, ':')};
            if (!read_whole(digits.begin, digits.end, found) && found == static_cast<uint64_t>(index)) token = here, part = digits;
            p = skip_blanks(here.end);
        }
        return fail("is repeated, and its values add up to more than float32 holds", "feature index", SHAPE, token, part);
    }
};

// Appends the rows of the lines from begin to end. After a fault, the rows must not be used, unless the line is skipped.
// Throws std::bad_alloc.
inline Found parse_text(Rows& rows, const char* begin, const char* end) {
    rows.reserve_for_text(end - begin);
    return rows.reading.ffm ? Parser<true>(rows, end).parse(begin) : Parser<false>(rows, end).parse(begin);
}

}  // namespace fmcli

#endif
