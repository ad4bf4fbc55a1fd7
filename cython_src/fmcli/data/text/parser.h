// Parses lines of libsvm or ffm text into rows. A fast path reads tokens in common spellings. Other tokens take a slow
// path, which accepts every allowed spelling and describes what is wrong with an invalid token.
#ifndef FMCLI_PARSER_H
#define FMCLI_PARSER_H

#include "fmcli/base/window.h"
#include "fmcli/data/numbers.h"
#include "fmcli/data/text/rows.h"
#include "fmcli/data/text/numbered.h"

namespace fmcli {

struct Span {
    const char* begin = nullptr;
    const char* end = nullptr;
};

// An error in a text, and its position.
struct Fault {
    const char* complaint = nullptr;  // "is not a number"
    const char* subject = "";         // "value"; empty if the complaint is about the whole token
    const char* expected = "";        // "index:value"
    Span token, part;                 // the token, and the part of it that is the subject
    const char* line = nullptr;       // the beginning of its line
    int64_t number = 0;               // the number of lines before it
};

// What was found in a text: the number of its lines, or of the lines before the first fault if faults are not skipped;
// the number of lines with faults; and the first faults.
struct Found {
    int64_t lines = 0, faulty = 0;
    std::vector<Fault> faults;
};

constexpr size_t MOST_FAULTS = 10;  // to describe
constexpr const char* NO_BREAK_SPACE = "\xc2\xa0";  // in UTF-8

inline const char* skip_blanks(const char* p) {
    while (is_blank(*p)) ++p;
    return p;
}

inline bool ends_row(char c) { return c == '\n' || c == '#'; }

inline bool begins_query(const char* p) { return *p == 'q' && std::memcmp(p, "qid:", 4) == 0; }

inline const char* token_end(const char* p) {
    while (!ends_token(*p)) ++p;
    return p;
}

inline const char* line_break(const char* p, const char* end) {
    return static_cast<const char*>(std::memchr(p, '\n', end - p));
}

// The end of the commas, semicolons and no-break spaces at p.
inline const char* skip_separators(const char* p) {
    for (;;) {
        if (*p == ',' || *p == ';') ++p;
        else if (std::equal(NO_BREAK_SPACE, NO_BREAK_SPACE + 2, p)) p += 2;
        else return p;
    }
}

// The end of the decimal number at p, or p if there is none.
inline const char* number_end(const char* p) {
    const auto digits_end = [](const char* at) {
        while (is_digit(*at)) ++at;
        return at;
    };
    const char* const start = p;
    p += *p == '-' || *p == '+';
    const char* const whole = digits_end(p);
    const char* const end = *whole == '.' ? digits_end(whole + 1) : whole;
    if (end - p == (*whole == '.')) return start;
    if ((*end | 32) != 'e') return end;
    const char* const exponent = end + 1 + (end[1] == '-' || end[1] == '+');
    return is_digit(*exponent) ? digits_end(exponent) : end;
}

// Whether a name begins like entries with a missing blank or another character between them: with index:number, such as
// "1:0.5,2" and "1:0.52", or with numbers and separators, such as "1,2" and ",2". The name ends at a colon.
inline bool has_several_numbers(Span name) {
    const char* const first = skip_separators(name.begin);
    const char* const end = number_end(first);
    if (end == first) return false;
    if (*end == ':' && end < name.end) return std::all_of(first, end, is_digit) && number_end(end + 1) > end + 1;
    const char* const next = skip_separators(end);
    if (next == end) return first > name.begin && end == name.end;
    return next == name.end || number_end(next) > next;
}

template <bool ffm>
class Parser {
  public:
    explicit Parser(Rows& rows, const char* end = nullptr) : rows_(rows), end_(end) {}

    // Parses all lines from p on. They must end with a line break, followed by PADDING readable bytes. Stops at the
    // first fault, unless lines with faults are skipped.
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
                if (found.faults.size() < MOST_FAULTS || rows_.refused) found.faults.push_back(fault_);
                ++found.faulty;
                if (!rows_.reading.skip || rows_.refused) return found;
                rows_.skip_row();
                p = line_break(line_, end_);
            }
            ++p;
        }
        return found;
    }

    // Appends numbered rows, and returns true. Appends nothing and returns false if lines of these rows would have a
    // fault, or if the texts lack what is read.
    bool append(const NumberedRows& from) {
        const Reading& reading = rows_.reading;
        const bool grouped = reading.groups == Groups::QUERY;
        if (reading.refuse_unseen || reading.groups == Groups::FIELD || (grouped && !from.grouped) ||
            (from.weighted && !reading.label_weights))
            return false;
        std::vector<Labeled> labels(from.labels.size());
        std::vector<Known> known(from.entries.size());
        if (!read_labels(from.labels, labels) || !read_entries(from.entries, known)) return false;
        for (Labeled& label : labels)
            if (label.name.begin && label.known) label.y = position_of(label.name);

        const Labeled none;
        const size_t count = from.size(), entries = rows_.index.size() + from.entry.size();
        rows_.index.reserve(entries);
        if (reading.keep_fields) rows_.field.reserve(entries);
        if (rows_.valued) rows_.value.reserve(rows_.index.capacity());
        size_t at = 0;
        for (size_t row = 0; row < count; ++row) {
            const size_t start = rows_.index.size();
            size_t n = start;
            int64_t last = -1;
            bool untidy = false;
            for (const size_t end = static_cast<size_t>(from.end[row]); at < end; ++at) {
                const Known& entry = known[static_cast<size_t>(from.entry[at])];
                if (entry.column == NO_COLUMN) {
                    ++rows_.unseen;
                    continue;
                }
                int64_t key = entry.column;
                if (reading.keep_fields) {
                    rows_.field[n] = entry.field;
                    key = key << 32 | entry.field;
                }
                untidy = untidy || key <= last;
                last = key;
                rows_.index[n] = entry.column;
                const float value = from.valued ? from.value[at] : 1;
                if (value != 1 && !rows_.valued) rows_.start_values(n);
                if (rows_.valued) rows_.value[n] = value;
                ++n;
            }
            if (n > start && (from.repeated || (untidy && reading.space != Space::GROWING))) {
                int32_t overflow = 0;  // repeated entries have the value 1
                n = static_cast<size_t>(rows_.tidy(start, n, overflow));
            }
            const Labeled& label = from.label[row] == NumberedRows::NONE ? none : labels[static_cast<size_t>(from.label[row])];
            rows_.end_row(n, label.y, label.known, from.weighted ? from.weight[row] : 1);
            if (grouped) rows_.group.push(from.group[row]);
        }
        return true;
    }

  private:
    struct Entry {
        Id id;
        uint64_t field;
        float value;
    };

    // An entry whose column is not known yet.
    struct Pending : Entry {
        const char* token;
    };

    // The label of a numbered row.
    struct Labeled {
        double y = NAN;
        bool known = false;
        Span name;  // if it may be a new label name
    };

    // An entry of a numbered row.
    struct Known {
        int32_t column;
        int32_t field;
    };

    static constexpr const char* SHAPE = ffm ? "field:index:value" : "index:value";
    static constexpr uint64_t LARGEST_FIELD = INT32_MAX - 1;  // the count, the largest + 1, must fit into int32
    static constexpr uint64_t NO_INDEX = UINT64_MAX;

    Rows& rows_;
    const char* end_;
    const char* line_ = nullptr;
    Span name_;  // the row's label, if it may be a new name; it is added when the whole row has been read
    int64_t group_ = 0;  // of the row, if groups are stored
    Fault fault_;
    std::vector<Pending> pending_;  // the entries of the row, then entries left from longer rows

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
            const bool read =
                rows_.reading.label_weights ? weighted_label(p, y, has_label, weight) : label(p, y, has_label);
            if (!read) return false;
        }
        p = skip_blanks(p);
        if (id_column == 2 && !ends_row(*p)) p = skip_blanks(token_end(p));
        if (begins_query(p) ? !query(p) : rows_.reading.groups == Groups::QUERY && !no_query()) return false;
        if (rows_.reading.groups == Groups::FIELD && !bucket_by_field(p)) return false;

        return rows_.by_id ? entries_by_id(p, y, has_label, weight) : entries(p, y, has_label, weight);
    }

    // Parses the entries at `position`, up to the line break. `parse_text` has reserved memory for all entries.
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
                Entry odd;  // `any_entry` takes its address; `entry` can stay in registers
                next = any_entry(p, odd);
                if (!next) return false;
                if (odd.id.name) odd.id.key = NO_INDEX;
                entry = odd;
            }
            const uint64_t number = entry.id.key;
            if (number >= limit) {
                if (reading.space == Space::GROWING) return entries_by_id(position, y, has_label, weight);
                if (reading.refuse_unseen && entry.value != 0) return unseen_id(p);
                unseen += entry.value != 0;
                beyond = std::max(beyond, static_cast<int64_t>(number));
                p = next;
                continue;
            }
            p = next;
            int64_t key = static_cast<int64_t>(number);
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
            index[n] = static_cast<int32_t>(number);
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
        end_row(n, y, has_label, weight);
        return true;
    }

    // Ends a row without faults.
    void end_row(size_t entries, double y, bool has_label, double weight) {
        if (name_.begin && has_label) y = position_of(name_);
        rows_.end_row(entries, y, has_label, weight);
        if (rows_.grouped()) rows_.group.push(group_);
    }

    // Reads the entries of a row whose indices are not the numbers in the text. All ids of the row are read first, so
    // the memory for looking them up is fetched at the same time.
    bool entries_by_id(const char*& position, double y, bool has_label, double weight) {
        const Reading& reading = rows_.reading;
        Pending *pending = pending_.data(), *last = pending + pending_.size();
        const char* p = position;
        for (;;) {
            p = skip_blanks(p);
            if (*p == '\n') break;
            if (*p == '#') {
                p = line_break(p, end_);
                break;
            }
            if (pending == last) {
                const size_t count = pending_.size();
                pending_.resize(2 * count + 1);
                pending = pending_.data() + count, last = pending_.data() + pending_.size();
            }
            pending->token = p;
            p = entry_of(p, *pending);
            if (!p) return false;
            if (reading.ids) reading.ids->prefetch(pending->id);
            ++pending;
        }
        if (!rows_.by_id) rows_.number_ids();
        const uint32_t row = static_cast<uint32_t>(rows_.label.size());
        const size_t start = rows_.index.size();
        size_t n = start;
        int32_t *const index = rows_.index.data(), *const field = reading.keep_fields ? rows_.field.data() : nullptr;
        int64_t last_key = -1, unseen = 0;
        const bool in_order = reading.space != Space::GROWING;
        bool untidy = false;
        for (const Pending* e = pending_.data(); e < pending; ++e) {
            const Pending& entry = *e;
            const int32_t column = column_of(entry.id, row, untidy);
            if (ffm) rows_.fields = std::max(rows_.fields, static_cast<int64_t>(entry.field) + 1);
            if (column == NO_COLUMN) {
                if (reading.refuse_unseen && entry.value != 0) return unseen_id(entry.token);
                unseen += entry.value != 0;
                continue;
            }
            int64_t key = column;
            if (field) {
                field[n] = static_cast<int32_t>(entry.field);
                key = key << 32 | static_cast<int64_t>(entry.field);
            }
            // Without a branch: new columns are in no order, so it would be mispredicted for every other entry.
            untidy |= (entry.value == 0) | (in_order & (key <= last_key));
            last_key = key;
            index[n] = column;
            if (entry.value != 1 && !rows_.valued) rows_.start_values(n);
            if (rows_.valued) rows_.value[n] = entry.value;
            ++n;
        }
        position = p;
        if (untidy) {
            int32_t overflow = 0;
            const int64_t tidied = rows_.tidy(start, n, overflow);
            if (tidied < 0) return sum_too_large(overflow);
            n = static_cast<size_t>(tidied);
        }
        rows_.unseen += unseen;
        end_row(n, y, has_label, weight);
        return true;
    }

    bool read_labels(const Texts& texts, std::vector<Labeled>& labels) {
        for (size_t i = 0; i < labels.size(); ++i) {
            const char* p = texts[i];
            name_ = {};
            labels[i].known = true;
            if (!label(p, labels[i].y, labels[i].known)) return false;
            labels[i].name = name_;
        }
        return true;
    }

    // Reads entries and finds their columns. Returns false at a fault, before any new column.
    bool read_entries(const Texts& texts, std::vector<Known>& known) {
        const Reading& reading = rows_.reading;
        pending_.resize(texts.size());
        bool large = false;
        for (size_t i = 0; i < texts.size(); ++i) {
            Pending& entry = pending_[i];
            if (!entry_of(texts[i], entry)) return false;
            large |= entry.id.name || entry.id.key >= static_cast<uint64_t>(reading.limit);
            if (reading.ids) reading.ids->prefetch(entry.id);
        }
        if (large && reading.space == Space::GROWING && !rows_.by_id) rows_.number_ids();
        const uint32_t row = static_cast<uint32_t>(rows_.label.size());
        bool repeated = false;
        for (size_t i = 0; i < texts.size(); ++i) {
            const Entry& entry = pending_[i];
            const int32_t field = ffm ? static_cast<int32_t>(entry.field) : 0;
            if (ffm) rows_.fields = std::max(rows_.fields, static_cast<int64_t>(entry.field) + 1);
            known[i] = {rows_.by_id ? column_of(entry.id, row, repeated) : indexed(entry.id), field};
        }
        return true;
    }

    // The column of an id that is an index.
    int32_t indexed(const Id& id) {
        const bool stored = !id.name && id.key < static_cast<uint64_t>(rows_.reading.limit);
        const int64_t index = id.name ? -1 : static_cast<int64_t>(id.key);
        if (!stored) {
            rows_.beyond = std::max(rows_.beyond, index);
            return NO_COLUMN;
        }
        rows_.features = std::max(rows_.features, index + 1);
        rows_.lowest = std::min(rows_.lowest, index);
        return static_cast<int32_t>(index);
    }

    // The column of an id, or NO_COLUMN. `repeated` is set if the row already has this growing column.
    __attribute__((always_inline)) int32_t column_of(const Id& id, uint32_t row, bool& repeated) {
        const Reading& reading = rows_.reading;
        switch (reading.space) {
            case Space::HASHED: return hashed_column(id, reading.hash_bits);
            case Space::KNOWN: {
                const int32_t column = reading.ids->find(id);
                return column == NO_COLUMN ? reading.others : column;
            }
            case Space::GROWING: return reading.ids->add(id, row, repeated);
            case Space::INDEX: break;
        }
        return NO_COLUMN;
    }

    bool label(const char*& p, double& y, bool& has_label) {
        if (rows_.reading.label_names) return named_label(p, y, has_label);
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

    bool named_label(const char*& p, double& y, bool& has_label) {
        const Span token = {p, token_end(p)};
        if (std::find(token.begin, token.end, ':') != token.end) return no_label(token, has_label);
        if (!name(token, token, "a label", y, has_label)) return false;
        p = token.end;
        return true;
    }

    // Takes a part of a token as a label name.
    bool name(Span part, Span token, const char* expected, double& y, bool& has_label) {
        if (!rows_.reading.known_labels) {
            name_ = part;
            return true;
        }
        const Id id = named(part.begin, static_cast<size_t>(part.end - part.begin));
        const int32_t place = rows_.label_names.find(id);
        has_label = place != NO_COLUMN;
        double any;
        if (has_label) y = place;
        else if (read_number(part.begin, part.end, any))
            return fail("is neither a number nor one that the model knows; write 0 for an unknown label", "label", expected,
                        token, part);
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
    bool weighted_label(const char*& p, double& y, bool& has_label, double& weight) {
        const Span token = {p, token_end(p)}, part = {p, std::find(p, token.end, ':')};
        const char* const expected = "label:weight";
        if (part.begin == part.end) return fail("is missing", "label", expected, token, part);
        if (rows_.reading.label_names) {
            if (!name(part, token, expected, y, has_label)) return false;
        } else if (const char* wrong = read_number(part.begin, part.end, y)) {
            return fail(wrong, "label", expected, token, part);
        }
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
        uint64_t read;
        if (const char* wrong = read_whole(number.begin, number.end, read))
            return fail(wrong, "query number", "qid:number", token, number);
        if (rows_.reading.groups == Groups::QUERY) group_ = static_cast<int64_t>(read);
        p = token.end;
        return true;
    }

    bool no_query() {
        const Span token = first_token();
        return fail("the row has no query number, which tells its group", "", "label qid:number", token, token);
    }

    // The label of a row with a label.
    Span first_token() const {
        const char* const p = skip_blanks(line_);
        return {p, token_end(p)};
    }

    // Sets the group of the row whose entries begin at p, by its one feature in a field. A value of 0 does not count.
    bool bucket_by_field(const char* p) {
        const char* const expected = "one feature in the field of the groups";
        bool found = false;
        for (p = skip_blanks(p); !ends_row(*p); p = skip_blanks(p)) {
            Entry entry;
            const Span token = {p, token_end(p)};
            p = any_entry(p, entry);
            if (!p) return false;
            if (!ffm || entry.field != rows_.reading.group_field || entry.value == 0) continue;
            if (found) return fail("the row has another one", "", expected, token, token);
            group_ = static_cast<int64_t>(entry.id.key);
            found = true;
        }
        const Span token = first_token();
        return found || fail("the row has none", "", expected, token, token);
    }

    // Reads the entry at p, which may have a name. Returns its end, or nullptr at a fault.
    __attribute__((always_inline)) const char* entry_of(const char* p, Entry& entry) {
        entry.id.name = nullptr;
        const char* next = named_entry(p, entry);
        if (!next) next = plain_entry(p, entry);
        return next ? next : any_entry(p, entry);
    }

    // Reads the entry at p if its ids are digits and its value is a plain decimal. Returns its end, or else nullptr.
    // Forcibly inlined in both callers: with a call for each entry, `predict` took 30 % more time.
    __attribute__((always_inline)) static const char* plain_entry(const char* p, Entry& entry) {
        if (ffm) {
            p = plain_field(p, entry.field);
            if (!p) return nullptr;
        }
        Digits digits = read_digits(p);
        if (digits.count == 0) return nullptr;
        p = step(p, digits.count);
        entry.id.key = digits.number;
        if (digits.count == 8) {
            digits = read_digits(p);
            p = step(p, digits.count);
            entry.id.key = entry.id.key * SCALE[digits.count] + digits.number;
            if (digits.count == 8) {
                digits = read_digits(p);
                p = step(p, digits.count);
                // 2^63 has 19 digits; no number of 19 digits overflows uint64.
                if (digits.count > 3) return nullptr;
                entry.id.key = entry.id.key * SCALE[digits.count] + digits.number;
                if (entry.id.key > INT64_MAX) return nullptr;
            }
        }
        if (*p++ != ':') return nullptr;
        return plain_value(p, entry.value);
    }

    // Reads the value at p if it is a plain decimal. Returns its end, or else nullptr.
    __attribute__((always_inline)) static const char* plain_value(const char* p, float& value) {
        if (*p == '1' && ends_token(p[1])) {
            value = 1;
            return p + 1;
        }
        Decimal decimal;
        p = scan_decimal(p, decimal);
        return p && ends_token(*p) && to_float(decimal, value) ? p : nullptr;
    }

    // Whether an id with this first character may be a number, possibly after a separator, and so not a name.
    static bool may_be_no_name(char c) {
        return static_cast<unsigned char>(c - '+') <= ';' - '+' || c == NO_BREAK_SPACE[0];  // + , - . / 0 .. 9 : ;
    }

    // Reads the entry at p if the first character of its id shows a name, and its value is a plain decimal. Returns its
    // end, or else nullptr.
    __attribute__((always_inline)) static const char* named_entry(const char* p, Entry& entry) {
        if (ffm) {
            p = plain_field(p, entry.field);
            if (!p) return nullptr;
        }
        if (may_be_no_name(*p) || begins_query(p)) return nullptr;
        const char* const end = name_end(p);
        const bool is_one = end - p > 2 && end[-1] == '1' && end[-2] == ':';
        const char* const colon = is_one ? end - 2 : last_colon({p, end});
        if (!colon) return nullptr;
        entry.id = named_in_text(p, static_cast<size_t>(colon - p));
        if (!is_one) return plain_value(colon + 1, entry.value);
        entry.value = 1;
        return end;
    }

    // The end of the token at p. There is no branch on a byte of a usual token: lengths of names vary.
    __attribute__((always_inline)) static const char* name_end(const char* p) {
        for (;; p += WINDOW) {
            uint32_t small = small_bytes(p);
            while (small && !ends_token(p[__builtin_ctz(small)])) small &= small - 1;  // the byte is part of the token
            if (small) return p + __builtin_ctz(small);
        }
    }

    // The last colon of a token, or nullptr; without a branch on a byte, like name_end.
    __attribute__((always_inline)) static const char* last_colon(Span token) {
        const char* colon = nullptr;
        for (const char* p = token.begin; p < token.end; p += WINDOW) {
            uint32_t colons = equal_bytes(p, ':');
            if (token.end - p < WINDOW) colons &= (uint32_t{1} << (token.end - p)) - 1;
            if (colons) colon = p + (31 - __builtin_clz(colons));
        }
        return colon;
    }

    // Reads the digits and the colon of a field. Returns their end, or nullptr. Fields usually have one or two digits
    // and the same order in all rows, so branches are well predicted.
    static const char* plain_field(const char* p, uint64_t& field) {
        field = 0;
        const char* const start = p;
        for (; is_digit(*p) && p < start + 9; ++p) field = field * 10 + (*p - '0');
        return p == start || *p != ':' ? nullptr : p + 1;
    }

    // Reads an entry in any spelling. Returns nullptr after setting the fault.
    const char* any_entry(const char* p, Entry& entry) {
        const Span token = {p, token_end(p)};
        const auto colons = std::count(token.begin, token.end, ':');
        if (colons < (ffm ? 2 : 1)) {
            fail(colons ? "one colon is the libsvm format, and this is read as ffm" : "the colon is missing", "", SHAPE,
                 token, token);
            return nullptr;
        }
        if (ffm) {
            const Span field = {p, std::find(p, token.end, ':')};
            const char* wrong = read_whole(field.begin, field.end, entry.field);
            if (!wrong && entry.field > LARGEST_FIELD) wrong = "is larger than 2147483646";
            if (wrong) {
                fail(wrong, "field", SHAPE, token, field);
                return nullptr;
            }
            p = field.end + 1;
        }
        const Span id = {p, last_colon(token)}, value = {id.end + 1, token.end};
        if (const char* wrong = read_id(id, entry.id)) {
            if (colons == (ffm ? 2 : 1)) fail(wrong, "feature index", SHAPE, token, id);
            else fail(wrong, "", SHAPE, token, token);
            return nullptr;
        }
        if (entry.id.name && has_several_numbers(id)) {
            fail("only blanks separate entries", "", SHAPE, token, token);
            return nullptr;
        }
        if (const char* wrong = read_number(value.begin, value.end, entry.value)) {
            fail(wrong, "value", SHAPE, token, value);
            return nullptr;
        }
        return token.end;
    }

    // Reads a number, or a name: any other text that is neither a decimal number nor only digits and colons. Returns
    // nullptr, or the complaint.
    static const char* read_id(Span text, Id& id) {
        id = {};
        const char* const wrong = read_whole(text.begin, text.end, id.key);
        if (!wrong || text.begin == text.end) return wrong;
        double any;
        const auto is_part = [](char c) { return is_digit(c) || c == ':'; };
        if (!std::all_of(text.begin, text.end, is_digit)) {  // otherwise it is too large for a number
            if (number_end(text.begin) == text.end && !read_number(text.begin, text.end, any)) return wrong;
            if (std::all_of(text.begin, text.end, is_part)) {
                const auto colons = std::count(text.begin, text.end, ':');
                return !ffm && colons == 1 ? "two colons are the ffm format, and this is read as libsvm"
                                           : "there are too many colons";
            }
        }
        if (begins_query(text.begin) && text.end - text.begin == 3) return "begins a query, which follows the label";
        id = named(text.begin, static_cast<size_t>(text.end - text.begin));
        return nullptr;
    }

    bool unseen_id(const char* p) {
        const Span token = {p, token_end(p)};
        rows_.refused = true;
        return fail("did not, and unseen features are an error", "feature", "a feature that occurred in training", token,
                    id_in(token));
    }

    static Span id_in(Span token) {
        return {ffm ? std::find(token.begin, token.end, ':') + 1 : token.begin, last_colon(token)};
    }

    // Sets the fault at the last entry of the line with this index.
    bool sum_too_large(int32_t index) {
        Span token, part;
        const uint32_t row = static_cast<uint32_t>(rows_.label.size());
        bool any = false;
        for (const char* p = skip_blanks(token_end(skip_blanks(line_))); *p != '\n' && *p != '#';) {
            const Span here = {p, token_end(p)};
            Id id;
            if (std::find(p, here.end, ':') != here.end && !read_id(id_in(here), id)) {
                const uint64_t found = rows_.by_id ? static_cast<uint64_t>(column_of(id, row, any)) : id.key;
                if (found == static_cast<uint64_t>(index) && (rows_.by_id || !id.name)) token = here, part = id_in(here);
            }
            p = skip_blanks(here.end);
        }
        return fail("is repeated, and its values add up to more than float32 holds", "feature index", SHAPE, token, part);
    }
};

// Appends the rows of the lines from begin to end. After a fault, the rows must not be used, unless the line was
// skipped. Throws std::bad_alloc.
inline Found parse_text(Rows& rows, const char* begin, const char* end) {
    rows.reserve_for_text(end - begin);
    return rows.reading.ffm ? Parser<true>(rows, end).parse(begin) : Parser<false>(rows, end).parse(begin);
}

// Appends the rows of a table; see Parser::append. Throws std::bad_alloc.
inline bool append_numbered(Rows& rows, const NumberedRows& from) {
    return rows.reading.ffm ? Parser<true>(rows).append(from) : Parser<false>(rows).append(from);
}

}  // namespace fmcli

#endif
