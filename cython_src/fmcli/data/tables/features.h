// Writes rows of a table as lines for the parser of libsvm and ffm text.
#ifndef FMCLI_FEATURES_H
#define FMCLI_FEATURES_H

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "fmcli/data/arrays.h"
#include "fmcli/data/numbers.h"
#include "fmcli/data/tables/recent.h"
#include "fmcli/data/tables/row_reader.h"
#include "fmcli/data/tables/times.h"

namespace fmcli {

// The bytes that names contain unescaped.
struct PlainBytes {
    bool has[256] = {};

    constexpr PlainBytes() {
        for (int c = ' ' + 1; c < 0x80; ++c) has[c] = c != ':' && c != '%' && c != '#';
    }
};

inline constexpr PlainBytes PLAIN_BYTES;

// Writes the features of cells.
class FeatureWriter : public RowReader {
  public:
    explicit FeatureWriter(const TableForm& form) : RowReader(form), filled_(form.columns.size()), unmatched_(form.joins.size()) {
        for (size_t i = 0; i < form.columns.size(); ++i) {
            const TableColumn& column = form.columns[i];
            if (column.role == Role::LABEL) label_ = static_cast<int>(i);
            if (column.role == Role::WEIGHT) weight_ = static_cast<int>(i);
            if (column.role < Role::CATEGORY) continue;
            features_.push_back(i);
            fixed_ += MOST + column.means.size();
            longest_ = std::max(longest_, column.prefix.size() + longest_of(column.means) + (column.role >= Role::TIME ? LONGEST_END : 0));
            for (const std::string& bin : column.bins) longest_ = std::max(longest_, bin.size());
        }
        for (const TableJoin& join : form.joins) joined_ += join.rows->longest;
    }

    static size_t longest_of(const std::vector<std::string>& texts) {
        size_t longest = 0;
        for (const std::string& text : texts) longest = std::max(longest, text.size());
        return longest;
    }

    // The number of missing cells of each column that only its mean replaces.
    const std::vector<int64_t>& filled() const { return filled_; }

    // The number of rows without a row of the other table, for each join.
    const std::vector<int64_t>& unmatched() const { return unmatched_; }

  protected:
    static constexpr size_t ROOM = 8;     // characters of a feature besides its prefix and its text
    static constexpr size_t MOST = 2;     // features of a cell without text, besides its means
    static constexpr size_t DIGITS = 20;  // the most digits of a 64-bit number
    static constexpr size_t LONGEST_END = 64;  // the text after the prefix in a feature of a time or a vector
    static constexpr size_t PIECE = 16;   // bytes that are copied at a time

    std::vector<size_t> features_;  // columns
    std::vector<int64_t> filled_, unmatched_;
    int label_ = -1, weight_ = -1;
    char *out_ = nullptr, *begun_ = nullptr;  // the next character to write, and the beginning of its line

    // The most bytes of a row as text, given its bytes in the table: a character becomes at most three, and each name
    // in a cell and each mean have a prefix.
    size_t most_bytes(size_t bytes) const {
        return 3 * bytes + (fixed_ + bytes) * (longest_ + ROOM) + joined_ + DIGITS + ROOM + PIECE;
    }

    // Writes the blank before a token, unless the token is the first of its line.
    void gap() {
        *out_ = ' ';
        out_ += out_ != begun_;
    }

    void put(const char* text, size_t size) {
        std::memcpy(out_, text, size);
        out_ += size;
    }

    // Writes a name, with %XX for characters that names in text of features cannot contain.
    bool write_name(const Cell& cell, std::string_view text, bool first) {
        const char *p = text.data(), *const end = p + text.size();
        while (p < end && PLAIN_BYTES.has[static_cast<unsigned char>(*p)]) *out_++ = *p++;
        if (p == end) return true;
        if (!form_.latin1 && !is_utf8(text))
            return fail(cell.begin, cell.end, "UTF-8", "if it is Latin-1, --encoding latin-1 reads it");
        static const char DIGITS[] = "0123456789ABCDEF";
        for (first = first && p == text.data(); p < end; ++p, first = false) {
            const char c = *p;
            if (form_.latin1 && c < 0) {
                *out_++ = static_cast<char>(0xc0 | static_cast<unsigned char>(c) >> 6);
                *out_++ = static_cast<char>(0x80 | (c & 0x3f));
            } else if (is_space(c) || c == ':' || c == '%' || (first && c == '#')) {
                *out_++ = '%';
                *out_++ = DIGITS[c >> 4 & 15];
                *out_++ = DIGITS[c & 15];
            } else {
                *out_++ = c;
            }
        }
        return true;
    }

    // Finds the text of the row's label; `missing` tells whether the row has no label. Returns whether this is valid.
    bool find_label(std::string_view& text, bool& missing) {
        const Cell& cell = cells_[static_cast<size_t>(label_)];
        const TableColumn& column = form_.columns[static_cast<size_t>(label_)];
        text = trimmed(cell);
        missing = is_missing(column, text);
        double any;
        if (!missing && !make_plain(text) && !read_number(text.data(), text.data() + text.size(), any))
            return fail(cell.begin, cell.end, column.expected, std::string("it ") + other_notation());
        return !missing || !form_.training || fail(cell.begin, cell.end, column.expected, "each row needs one");
    }

    // Reads the weight of the row, and its text.
    bool read_weight(std::string_view& text, double& weight) {
        const Cell& cell = cells_[static_cast<size_t>(weight_)];
        text = trimmed(cell);
        return (!read_plain(text, weight) && weight >= 0) ||
            fail(cell.begin, cell.end, form_.columns[static_cast<size_t>(weight_)].expected,
                 "it is a number that is not negative");
    }

    bool read_group(uint64_t& number) {
        const Cell& cell = cells_[static_cast<size_t>(form_.group)];
        std::string_view text = trimmed(cell);
        double time;
        if (text.empty() || (form_.timed && !read_time(text, time)))
            return fail(cell.begin, cell.end, form_.expected_group, text.empty() ? "it is empty" : TIME_FORMS);
        if (form_.timed) number = in_order_of(time);
        else if (read_whole(text.data(), text.data() + text.size(), number)) number = search_hash(text.data(), text.size()) >> 1;
        return true;
    }

    // Reads a time: a number, or a date and time. Returns whether the text is a time.
    bool read_time(std::string_view text, double& time) {
        std::string_view number = text;
        if (!read_plain(number, time)) return std::isfinite(time);
        Moment moment;
        if (!read_moment(text, form_.columns[static_cast<size_t>(form_.group)].order, moment)) return false;
        time = moment.seconds;
        return true;
    }

    // Reads the value of a number; its text becomes plain.
    bool read_value(const TableColumn& column, const Cell& cell, std::string_view& text, float& value) {
        Decimal decimal{};
        if (!make_plain(text)) return fail(cell.begin, cell.end, column.expected, std::string("it ") + other_notation());
        if (read_fast(text, decimal) && to_float(decimal, value)) return true;
        const char* const complaint = read_number(text.data(), text.data() + text.size(), value);
        return !complaint || fail_number(column, cell, text, complaint);
    }

    // The index of a number's bin.
    static size_t bin_of(const TableColumn& column, std::string_view text) {
        double value = 0;
        read_number(text.data(), text.data() + text.size(), value);
        return static_cast<size_t>(std::lower_bound(column.edges.begin(), column.edges.end(), value) - column.edges.begin());
    }

    // Calls `work` with each name in a cell, until it returns false.
    template <class Work>
    bool each_name(std::string_view text, Work work) const {
        for (size_t at = 0; at <= text.size();) {
            const size_t stop = std::min(text.find(form_.separator, at), text.size());
            std::string_view one = text.substr(at, stop - at);
            while (!one.empty() && is_space(one.front())) one.remove_prefix(1);
            while (!one.empty() && is_space(one.back())) one.remove_suffix(1);
            if (!one.empty() && !work(one)) return false;
            at = stop + form_.separator.size();
        }
        return true;
    }

    // Finds the features of the row of another table that a row refers to; without such a row, of missing cells.
    bool find_joined(const TableJoin& join, const std::string*& found) {
        const Cell& cell = cells_[join.column];
        char* const key = out_;
        if (!write_name(cell, trimmed(cell), true)) return false;
        const int32_t row = join.rows->keys.find(named(key, static_cast<size_t>(out_ - key)));
        out_ = key;
        found = row == NO_COLUMN ? &join.rows->missing : &join.rows->texts[static_cast<size_t>(row)];
        return true;
    }

    // Calls `number` with the position, the value and the text of each number that replaces a missing cell, and
    // `feature` if missing cells are a feature. In a column of bins, this feature is the bin of missing cells.
    template <class Number, class Feature>
    bool fill(size_t i, Number number, Feature feature) {
        const TableColumn& column = form_.columns[i];
        if (!column.means.empty() && (column.bins.empty() || !column.gap_feature)) {
            filled_[i] += !column.gap_feature;
            for (size_t at = 0; at < column.means.size(); ++at) {
                const std::string& text = column.means[at];
                float mean = 0;
                read_number(text.data(), text.data() + text.size(), mean);
                if (!number(at, mean, std::string_view(text))) return false;
            }
        }
        return !column.gap_feature || feature();
    }

    // Writes a number or its bin. Returns true.
    bool write_value(const TableColumn& column, float value, std::string_view text) {
        if (!column.bins.empty()) {
            write_bin(column, bin_of(column, text));
        } else if (value != 0) {
            gap();
            put(column.prefix.data(), column.prefix.size());
            *out_++ = ':';
            put(text.data(), text.size());
        }
        return true;
    }

    // Writes the number at a place of a vector, or the number of another column. Returns true.
    bool write_at(const TableColumn& column, size_t at, float value, std::string_view text) {
        if (column.role != Role::VECTOR) return write_value(column, value, text);
        if (value == 0) return true;
        gap();
        write_place(column, at);
        put(text.data(), text.size());
        return true;
    }

    // Writes the replacement of a missing cell.
    bool write_missing(size_t i) {
        const TableColumn& column = form_.columns[i];
        return fill(i, [&](size_t at, float value, std::string_view text) { return write_at(column, at, value, text); },
                    [&] { return write_gap(column); });
    }

    // Writes the feature of a missing cell. Returns true.
    bool write_gap(const TableColumn& column) {
        gap();
        put(column.prefix.data(), column.prefix.size());
        const std::string_view rest = column.role >= Role::NUMBER ? "=:1" : ":1";
        put(rest.data(), rest.size());
        return true;
    }

    bool write_feature(const TableColumn& column, const Cell& cell, std::string_view text) {
        gap();
        put(column.prefix.data(), column.prefix.size());
        size_t digits;
        if (column.spelling == Spelling::WHOLE) make_plain(text);
        if (column.spelling == Spelling::WHOLE && is_whole(text, digits)) {
            text = text.substr(0, digits);
            if (text == "-0") text = "0";
        }
        if (column.spelling == Spelling::TRUTH && is_whole(text, digits))
            return fail(cell.begin, cell.end, column.expected, "it is a number; write true in place of 1, and false in place of 0");
        char* const name = out_;
        if (!write_name(cell, text, false)) return false;
        if (column.spelling == Spelling::TRUTH && is_truth(text))
            for (char* p = name; p < out_; ++p) *p |= 32;
        *out_++ = ':';
        *out_++ = '1';
        return true;
    }

    // The time in a cell.
    bool find_moment(const TableColumn& column, const Cell& cell, std::string_view text, Moment& found) {
        return read_moment(text, column.order, found) || fail(cell.begin, cell.end, column.expected, TIME_FORMS);
    }

    // Calls `work` with the name, after the prefix, and the number of each category of a time.
    template <class Work>
    static bool each_part_of(const TableColumn& column, const Moment& moment, Work work) {
        return work(".month=", moment.month) && work(".weekday=", moment.weekday) &&
            (!column.hours || work(".hour=", moment.hour));
    }

    // Calls `work` with the number of each part of the vector in a cell, and its text.
    template <class Work>
    bool each_number(const TableColumn& column, const Cell& cell, std::string_view text, Work work) {
        bool good = true;
        size_t at = 0;
        const size_t count = each_part(text, [&](std::string_view part) {
            float value = 0;
            good = read_value(column, cell, part, value) && (at >= column.length || work(at, part, value));
            ++at;
            return good;
        });
        if (!good || count == column.length) return good;
        return fail(cell.begin, cell.end, std::to_string(column.length) + ' ' + column.expected, "it has " + std::to_string(count));
    }

    void write_part_of(const TableColumn& column, const char* name, int number) {
        put(column.prefix.data(), column.prefix.size());
        put(name, std::strlen(name));
        out_ = std::to_chars(out_, out_ + DIGITS, number).ptr;
        put(":1", 2);
    }

    // Writes the text before the value of a part of a vector.
    void write_place(const TableColumn& column, size_t at) {
        put(column.prefix.data(), column.prefix.size());
        *out_++ = '[';
        out_ = std::to_chars(out_, out_ + DIGITS, at).ptr;
        put("]:", 2);
    }

    void write_bin(const TableColumn& column, size_t bin) {
        gap();
        put(column.bins[bin].data(), column.bins[bin].size());
        put(":1", 2);
    }

  private:
    size_t longest_ = 0, joined_ = 0;  // the bytes of the longest prefix, and of the features of other tables
    size_t fixed_ = 0;                 // the most features of a row's cells without text

    // Whether text is UTF-8.
    static bool is_utf8(std::string_view text) {
        for (size_t i = 0; i < text.size();) {
            const unsigned char c = static_cast<unsigned char>(text[i]);
            if (c < 0x80) {
                ++i;
                continue;
            }
            const size_t length = c >= 0xf0 && c < 0xf5 ? 4 : c >= 0xe0 && c < 0xf0 ? 3 : c >= 0xc2 && c < 0xe0 ? 2 : 0;
            if (!length || i + length > text.size()) return false;
            for (size_t k = 1; k < length; ++k)
                if ((static_cast<unsigned char>(text[i + k]) & 0xc0) != 0x80) return false;
            const unsigned char next = static_cast<unsigned char>(text[i + 1]);
            if ((c == 0xe0 && next < 0xa0) || (c == 0xed && next > 0x9f) || (c == 0xf0 && next < 0x90) || (c == 0xf4 && next > 0x8f))
                return false;
            i += length;
        }
        return true;
    }

    // Maps a time to 63 bits in the order of times, without the last bit of the fraction.
    static uint64_t in_order_of(double time) {
        uint64_t bits;
        time += 0.0;  // -0 becomes 0
        std::memcpy(&bits, &time, sizeof bits);
        return (bits ^ (bits >> 63 ? ~uint64_t{0} : uint64_t{1} << 63)) >> 1;
    }
};

// Writes rows as lines. Most cells have occurred before; their text is copied.
class TableLines : public FeatureWriter {
  public:
    using FeatureWriter::FeatureWriter;

    // Appends the features of the rows in [begin, end), which ends with a line break, as lines to `out`. The numbers of
    // lines that stand for rows with faults are added to `skipped`.
    TableReport translate(const char* begin, const char* end, Array<char>& out, std::vector<int64_t>& skipped) {
        int64_t written = 0;
        return each_line(begin, end, out, [&] { ++written; }, [&] {
            out.push('\n');
            skipped.push_back(written++);
        });
    }

    // A fault without texts at the cell that wrote character `at` of a row's line; at the beginning of the row if no
    // cell did.
    TableFault place_of(const char* begin, const char* end, int64_t row, int64_t at) {
        TableFault found;
        Array<char> out;
        const auto look = [&](bool has_cells) {
            if (row-- != 0) return;
            Cell cell{row_, row_, false};
            bool sought = has_cells;
            const auto see = [&](size_t column) {
                if (!sought || out_ - begun_ <= at) return;
                cell = cells_[column];
                sought = false;
            };
            if (sought) write_row(begun_, see);
            fail(cell.begin, cell.end, "", "");
            found = fault();
        };
        each_line(begin, end, out, [&] { look(true); }, [&] { look(false); });
        return found;
    }

  private:
    // The bytes of texts to keep, and the most bytes of a kept text; its length takes a byte.
    static constexpr size_t MOST_KEPT = 1 << 20, LONGEST_KEPT = 255;

    RecentCells recent_;  // where the texts of cells are
    Array<char> kept_;    // texts, each after its length; a cell without a feature has an empty text

    // Appends the lines of rows to `out`, and calls `written` after each line. Calls `skipped` for a row with a fault
    // and an empty line.
    template <class Work, class Skipped>
    TableReport each_line(const char* begin, const char* end, Array<char>& out, Work written, Skipped skipped) {
        recent_.start(end - begin);
        kept_.resize(0);
        return each_row(begin, end, [&](const char* line, const char* next) {
            out.reserve(out.size() + most_bytes(static_cast<size_t>(next - line)));
            char* const start = out.data() + out.size();
            if (!write_row(start, [](size_t) {})) return false;
            out.resize(out.size() + static_cast<size_t>(out_ - start));
            written();
            return true;
        }, [&](const char*, const char*) {
            if (!form_.training) skipped();
        });
    }

    // Writes the line of a row: label:weight qid:group feature:1 feature:value ... Calls `written` with the column of
    // each cell after writing it.
    template <class Written>
    bool write_row(char* start, Written written) {
        out_ = begun_ = start;
        if (label_ >= 0) {
            if (!write_label()) return false;
            written(static_cast<size_t>(label_));
        }
        if (form_.group >= 0) {
            if (!write_group()) return false;
            written(static_cast<size_t>(form_.group));
        }
        for (const size_t i : features_) {
            const TableColumn& column = form_.columns[i];
            const bool good = column.role == Role::CATEGORY ? write_category(i, column)
                : column.role == Role::NUMBER               ? write_number(i, column)
                : column.role == Role::TIME                 ? write_time(i, column)
                : column.role == Role::VECTOR               ? write_vector(i, column)
                                                            : write_names(i, column);
            if (!good) return false;
            written(i);
        }
        for (size_t i = 0; i < form_.joins.size(); ++i) {
            if (!write_joined(i)) return false;
            written(form_.joins[i].column);
        }
        *out_++ = '\n';
        return true;
    }

    // Writes a cell of a column by `write`, or copies its text if it is known.
    template <class Write>
    bool write_known(size_t i, Write write) {
        const Cell& cell = cells_[i];
        int32_t& recent = recent_.find(i, cell.begin, cell.end, end_);
        if (recent != RecentCells::UNKNOWN) {
            copy(kept_.data() + recent);
            return true;
        }
        char* const before = out_;
        if (!write(cell)) return false;
        const char* const text = before + (out_ > before && before != begun_);  // after the blank
        const size_t size = static_cast<size_t>(out_ - text), at = kept_.size();
        if (size > LONGEST_KEPT || at > MOST_KEPT) return true;
        kept_.reserve(at + 1 + size + PIECE);
        kept_[at] = static_cast<char>(size);
        std::memcpy(kept_.data() + at + 1, text, size);
        kept_.resize(at + 1 + size);
        recent = static_cast<int32_t>(at);
        return true;
    }

    // Writes a kept text in pieces of a constant size, without a call; excess bytes are overwritten later.
    void copy(const char* kept) {
        const size_t size = static_cast<unsigned char>(*kept++);
        char* out = out_;
        *out = ' ';
        out += size && out != begun_;
        for (size_t i = 0; i < size; i += PIECE) std::memcpy(out + i, kept + i, PIECE);
        out_ = out + size;
    }

    bool write_label() {
        char* const begin = out_;
        const bool good = write_known(static_cast<size_t>(label_), [&](const Cell& cell) {
            bool missing;
            std::string_view text;
            return find_label(text, missing) && (missing || write_name(cell, text, true));
        });
        if (!good || weight_ < 0 || out_ == begin) return good;
        double weight;
        std::string_view text;
        if (!read_weight(text, weight)) return false;
        *out_++ = ':';
        put(text.data(), text.size());
        return true;
    }

    bool write_category(size_t i, const TableColumn& column) {
        return write_known(i, [&](const Cell& cell) {
            const std::string_view text = trimmed(cell);
            return is_missing(column, text) ? write_missing(i) : write_feature(column, cell, text);
        });
    }

    bool write_names(size_t i, const TableColumn& column) {
        const Cell& cell = cells_[i];
        const std::string_view text = trimmed(cell);
        if (is_missing(column, text)) return write_missing(i);
        return each_name(text, [&](std::string_view one) { return write_feature(column, cell, one); });
    }

    bool write_group() {
        uint64_t number = 0;
        if (!read_group(number)) return false;
        gap();
        put("qid:", 4);
        out_ = std::to_chars(out_, out_ + DIGITS, number).ptr;
        return true;
    }

    bool write_number(size_t i, const TableColumn& column) {
        const Cell& cell = cells_[i];
        std::string_view text = trimmed(cell);
        if (is_missing(column, text)) return write_missing(i);
        float value;
        return read_value(column, cell, text, value) && write_value(column, value, text);
    }

    bool write_time(size_t i, const TableColumn& column) {
        const Cell& cell = cells_[i];
        const std::string_view text = trimmed(cell);
        if (is_missing(column, text)) return write_missing(i);
        Moment moment;
        if (!find_moment(column, cell, text, moment)) return false;
        each_part_of(column, moment, [&](const char* name, int number) {
            gap();
            write_part_of(column, name, number);
            return true;
        });
        char digits[DIGITS];
        const float days = static_cast<float>(moment.days());
        const char* const end = std::to_chars(digits, digits + DIGITS, days).ptr;
        return write_value(column, days, {digits, static_cast<size_t>(end - digits)});
    }

    bool write_vector(size_t i, const TableColumn& column) {
        const Cell& cell = cells_[i];
        const std::string_view text = trimmed(cell);
        if (is_missing(column, text)) return write_missing(i);
        return each_number(column, cell, text, [&](size_t at, std::string_view number, float value) {
            return write_at(column, at, value, number);
        });
    }

    bool write_joined(size_t i) {
        const TableJoin& join = form_.joins[i];
        const std::string* text = nullptr;
        if (!find_joined(join, text)) return false;
        unmatched_[i] += text == &join.rows->missing;
        const size_t blank = out_ == begun_ && !text->empty();
        put(text->data() + blank, text->size() - blank);
        return true;
    }
};

}  // namespace fmcli

#endif
