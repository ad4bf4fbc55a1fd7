// Tables as text of features: rows of cells, which a delimiter separates, become lines that the parser of libsvm and ffm
// text reads. Nothing is guessed: cells are as RFC 4180 has them, and anything else is a fault with its place.
#ifndef FMCLI_TABLE_H
#define FMCLI_TABLE_H

#include <algorithm>
#include <charconv>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "fmcli/data/arrays.h"
#include "fmcli/data/ids.h"
#include "fmcli/data/numbers.h"
#include "fmcli/data/references.h"
#include "fmcli/data/tables/recent.h"
#include "fmcli/data/tables/times.h"

namespace fmcli {

// What a column is.
enum class Role {
    IGNORED,
    LABEL,
    WEIGHT,   // of the row, a number behind the label
    CATEGORY,  // a feature NAME=CELL with the value 1
    SEVERAL,  // such a feature for each of the parts of the cell
    NUMBER,   // a feature NAME with the value of the cell
    UNKNOWN,  // in a survey: all its facts are counted, of a CATEGORY only what its cells are, of others nothing
};

struct TableColumn {
    Role role = Role::IGNORED;
    std::string name;      // as text of features has it
    std::string expected;  // of a fault: "a number in the column 'age'"
    std::string prefix;    // what precedes the value or the cell in a feature: "2:age", "user="
    bool whole = false;    // all cells are numbers, so that the name of 1.0 is 1
    std::vector<double> edges;      // of a NUMBER: where bins end, increasing; a number at an edge is in the bin before
    std::vector<std::string> bins;  // the features of the bins, one more than edges, or none
};

// The features of the rows of another table, by their key.
struct JoinedRows {
    Ids keys;
    std::vector<std::string> texts;
    size_t longest = 0;

    // Adds the lines that `translate` has written of its rows, with the key in place of the label. Returns the number of
    // the first row whose key there is already, or -1.
    int64_t add(const char* p, const char* end) {
        for (int64_t row = 0; p < end; ++row) {
            const char* const stop = static_cast<const char*>(std::memchr(p, '\n', static_cast<size_t>(end - p)));
            const char* const key = std::find(p, stop, ' ');
            if (static_cast<size_t>(keys.add(named(p, static_cast<size_t>(key - p)))) < texts.size()) return row;
            texts.emplace_back(key, stop);
            longest = std::max(longest, texts.back().size());
            p = stop + 1;
        }
        return -1;
    }
};

// A column whose cells are keys of another table.
struct TableJoin {
    size_t column;
    std::string expected;
    const JoinedRows* rows;
};

// How a table is read.
struct TableForm {
    std::string delimiter, separator;  // of cells, and of the parts of a cell
    bool quoting = false;              // cells may be in double quotes
    bool latin1 = false;               // bytes are characters of Latin-1; else text is UTF-8
    bool training = false;             // each row needs a label
    bool skip = false;                 // rows with faults become empty lines; else they end the work
    bool missing_feature = false;      // a cell that is missing is a feature, whose name ends with =
    bool apart = false;                // cells of different columns are never the same feature
    std::vector<std::string> missing;  // cells that are like empty ones
    int group = -1;                    // the column that tells the group of a row, or -1
    bool timed = false;                // its cells are times, whose order is that of the groups
    std::string expected_group;        // of a fault: "a time in the column 'time'"
    std::vector<TableColumn> columns;
    std::vector<TableJoin> joins;
};

// A fault in a table, and its place.
struct TableFault {
    std::string expected, complaint;
    const char* line = nullptr;  // the beginning of its line
    const char* begin = nullptr;
    const char* end = nullptr;
    int64_t number = 0;  // the number of lines before it
};

struct TableReport {
    int64_t lines = 0, rows = 0, faulty = 0;
    std::vector<TableFault> faults;
};

constexpr size_t MOST_TABLE_FAULTS = 10;  // that are described

// Where rows begin and end in their text, and what cells of two columns tell: a group, by a hash of its text, and a time.
struct RowKeys {
    enum Sort : int { ANY, NUMBERS, DATES };

    int group = -1, time = -1;  // the columns, or -1
    std::string name;           // of the column of times, in quotes
    Sort sort = ANY;            // all times are numbers, or dates and times
    std::vector<int64_t> begins, ends, groups;
    std::vector<double> times;
};

// What is known about the cells of a column.
struct ColumnFacts {
    static constexpr size_t MOST_TEXTS = 1 << 20;  // distinct texts that are counted

    int64_t cells = 0, missing = 0, whole = 0, fractions = 0, bits = 0, truths = 0;  // texts are the others
    int64_t text_line = 0;            // the number of lines before the first text
    std::string example, first_text;  // the first cell, and the first one that is no number
    Ids distinct;                     // whole numbers and texts
    bool uncounted = false;           // there are more distinct texts

    int64_t texts() const { return cells - missing - whole - fractions; }

    void add(const ColumnFacts& other, int64_t lines_before) {
        if (example.empty()) example = other.example;
        if (!texts() && other.texts()) {
            first_text = other.first_text;
            text_line = lines_before + other.text_line;
        }
        cells += other.cells;
        missing += other.missing;
        whole += other.whole;
        fractions += other.fractions;
        bits += other.bits;
        truths += other.truths;
        distinct.add_all(other.distinct);
        uncounted |= other.uncounted || distinct.names.size() > MOST_TEXTS;
    }
};

class TableScanner {
  public:
    explicit TableScanner(const TableForm& form) : form_(form), cells_(form.columns.size()) {
        delimiters_ = EACH * static_cast<unsigned char>(form.delimiter[0]);
        quotes_ = form.quoting ? EACH * '"' : delimiters_;
        for (int c = 0; c < 256; ++c) plain_[c] = c > ' ' && c < 0x80 && c != ':' && c != '%' && c != '#';
        for (size_t i = 0; i < form.columns.size(); ++i) {
            const TableColumn& column = form.columns[i];
            if (column.role == Role::LABEL) label_ = static_cast<int>(i);
            if (column.role == Role::WEIGHT) weight_ = static_cast<int>(i);
            if (column.role < Role::CATEGORY) continue;
            features_.push_back(i);
            longest_ = std::max(longest_, column.prefix.size());
            for (const std::string& bin : column.bins) longest_ = std::max(longest_, bin.size());
        }
        for (const TableJoin& join : form.joins) joined_ += join.rows->longest;
    }

    // Appends the features of the rows in [begin, end), which ends with a line break, as lines to `out`. They may refer
    // to entries that are added to `references`, unless that is nullptr. The numbers of lines that stand for rows with
    // faults are added to `skipped`.
    TableReport translate(const char* begin, const char* end, Array<char>& out, References* references,
                          std::vector<int64_t>& skipped) {
        int64_t written = 0;
        references_ = form_.apart ? references : nullptr;
        if (references_) recent_.start(begin, end);
        return each_row(begin, end, [&](const char* line, const char* next) {
            // A character becomes at most three, and each name in a cell has a prefix.
            const size_t bytes = static_cast<size_t>(next - line), names = features_.size() + bytes;
            out.reserve(out.size() + 3 * bytes + names * (longest_ + ROOM) + joined_ + DIGITS + ROOM);
            char* const start = out.data() + out.size();
            out_ = begun_ = start;
            const bool good = write_row();
            if (good) out.resize(out.size() + static_cast<size_t>(out_ - start));
            written += good;
            return good;
        }, [&](const char*, const char*) {
            if (form_.training) return;
            out.push('\n');
            skipped.push_back(written++);
        });
    }

    // The number of lines before a row.
    int64_t line_of(const char* begin, const char* end, int64_t row) {
        int64_t found = 0;
        const auto count = [&] {
            if (row-- == 0) found = before_;
        };
        each_row(begin, end, [&](const char*, const char*) {
            count();
            return true;
        }, [&](const char*, const char*) {
            if (!form_.training) count();
        });
        return found;
    }

    // Adds what the cells of the rows say about their columns.
    TableReport survey(const char* begin, const char* end, std::vector<ColumnFacts>& facts) {
        recent_.start(begin, end);
        return each_row(begin, end, [&](const char*, const char*) {
            for (const size_t column : features_) take(column, facts[column]);
            return true;
        }, [](const char*, const char*) {});
    }

    // Adds the keys of the rows. Rows that are skipped have places, too, where lines of features would be empty.
    TableReport keys(const char* begin, const char* end, RowKeys& found) {
        const auto place = [&](const char* line, const char* next) {
            found.begins.push_back(line - begin);
            found.ends.push_back(next - begin);
        };
        return each_row(begin, end, [&](const char* line, const char* next) {
            place(line, next);
            if (found.group >= 0) {
                const std::string_view text = trimmed(cells_[static_cast<size_t>(found.group)]);
                found.groups.push_back(static_cast<int64_t>(search_hash(text.data(), text.size())));
            }
            return found.time < 0 || add_time(found);
        }, [&](const char* line, const char* next) {
            if (!form_.training) place(line, next);
        });
    }

    // Adds the texts of the cells of some columns, row by row.
    TableReport texts(const char* begin, const char* end, const std::vector<size_t>& columns, std::vector<std::string>& found) {
        return each_row(begin, end, [&](const char*, const char*) {
            for (const size_t column : columns) found.emplace_back(trimmed(cells_[column]));
            return true;
        }, [&](const char*, const char*) {
            if (!form_.training) found.resize(found.size() + columns.size());
        });
    }

    // Adds the numbers in some columns, row by row; NaN stands for a missing one.
    TableReport numbers(const char* begin, const char* end, const std::vector<size_t>& columns, std::vector<double>& found) {
        return each_row(begin, end, [&](const char*, const char*) {
            for (const size_t column : columns) {
                const Cell& cell = cells_[column];
                const std::string_view text = trimmed(cell);
                double number = NAN;
                if (!is_missing(text))
                    if (const char* complaint = read_number(text.data(), text.data() + text.size(), number))
                        return fail(cell.begin, cell.end, form_.columns[column].expected, std::string("it ") + complaint);
                found.push_back(number);
            }
            return true;
        }, [](const char*, const char*) {});
    }

    // The end of the first row at p, and its cells.
    const char* first_row(const char* p, const char* end, std::vector<std::string>& found) {
        std::vector<Cell> cells;
        Cell cell;
        row_ = p;
        end_ = end;
        look(p);
        do {
            p = read_cell(p, end, cell);
            cells.push_back(cell);
        } while (p && goes_on_);
        if (!p) return nullptr;
        for (const Cell& one : cells) found.emplace_back(trimmed(one));
        return p;
    }

    const TableFault& fault() const { return fault_; }

  private:
    struct Cell {
        const char* begin = nullptr;
        const char* end = nullptr;
        bool doubled = false;  // it has quotes that stand for one
    };

    const TableForm& form_;
    std::vector<Cell> cells_;
    std::string unquoted_, number_;
    TableFault fault_;
    static constexpr int64_t LONGEST_SHOWN = 20;  // bytes of a cell whose quotes do not end
    static constexpr size_t ROOM = 8;  // what a feature has beside its prefix and its text
    static constexpr size_t DIGITS = 20;  // of a number of 64 bits, at most
    // BITS collects the lowest bits of eight bytes in the highest one.
    static constexpr uint64_t EACH = 0x0101010101010101, HIGH = 0x80 * EACH, LOW = ~HIGH, BITS = 0x0102040810204080;
    static constexpr size_t WIDTH = 64;
    uint64_t delimiters_, quotes_;  // each eight times
    const char* end_ = nullptr;     // of the text
    const char* block_ = nullptr;   // a part of it
    uint64_t found_ = 0;            // which of its bytes may end a cell
    bool plain_[256] = {};          // bytes that names have as they are
    std::vector<size_t> features_;  // columns
    int label_ = -1, weight_ = -1;
    size_t longest_ = 0, joined_ = 0;  // bytes: of a prefix, and of the features of other tables
    char *out_ = nullptr, *begun_ = nullptr;  // where the next character is written, and where its line begins
    References* references_ = nullptr;  // to write, or nullptr
    RecentCells recent_;                // in lines with references: NO_ENTRY, or the number of the cell's entry
    static constexpr int32_t NO_ENTRY = -1;
    bool goes_on_ = false;   // a delimiter ended the cell
    int64_t inner_ = 0;      // line breaks within the cells of the row
    int64_t before_ = 0;     // lines before the row
    const char* row_ = nullptr;  // its beginning

    bool fail(const char* begin, const char* end, std::string expected, std::string complaint) {
        const char* line = row_;
        int64_t number = before_;
        for (const char* p = row_; p < begin; ++p)
            if (*p == '\n') {
                line = p + 1;
                ++number;
            }
        fault_ = {std::move(expected), std::move(complaint), line, begin, end, number};
        return false;
    }

    // Calls `work` with the beginning and the end of each row whose cells have been read, which returns whether it has no
    // fault, and `skipped` for each row that is skipped because of one.
    template <class Work, class Skipped>
    TableReport each_row(const char* p, const char* end, Work work, Skipped skipped) {
        TableReport report;
        end_ = end;
        look(p);
        while (p < end) {
            row_ = p;
            inner_ = 0;
            before_ = report.lines;
            if (*p == '\n' || (*p == '\r' && p[1] == '\n')) {
                p += *p == '\r' ? 2 : 1;
                ++report.lines;
                continue;
            }
            const char* next = read_row(p, end);
            const bool good = next && work(p, next);
            if (!good) {
                ++report.faulty;
                if (report.faults.size() < MOST_TABLE_FAULTS) report.faults.push_back(fault_);
                if (!form_.skip) return report;
                if (!next) {
                    next = static_cast<const char*>(std::memchr(p, '\n', static_cast<size_t>(end - p))) + 1;
                    inner_ = 0;
                }
                skipped(p, next);
            }
            report.rows += good || !form_.training;
            report.lines += 1 + inner_;
            p = next;
        }
        return report;
    }

    // Reads the cells of a row. Returns its end, or nullptr at a fault.
    const char* read_row(const char* p, const char* end) {
        const char* const start = p;
        size_t count = plain_cells(p);
        Cell extra;
        do {
            p = read_cell(p, end, count < cells_.size() ? cells_[count] : extra);
            if (!p) return nullptr;
            ++count;
        } while (goes_on_);
        if (count == cells_.size()) return p;
        const char* stop = p - 1;
        stop -= stop > start && stop[-1] == '\r';
        fail(start, stop, std::to_string(cells_.size()) + " cells", "the row has " + std::to_string(count));
        return nullptr;
    }

    // Reads the cells of a row up to the last one, or to one that `read_cell` must read. Returns their number.
    size_t plain_cells(const char*& position) {
        if (form_.delimiter.size() > 1 || cells_.empty()) return 0;
        const char first = form_.delimiter[0], quote = form_.quoting ? '"' : first;
        const char *p = position, *block = block_;
        uint64_t found = found_;
        Cell *const cells = cells_.data(), *const last = cells + cells_.size() - 1;
        Cell* cell = cells;
        for (; cell < last; ++cell) {
            const size_t at = static_cast<size_t>(p - block);
            const uint64_t left = at < WIDTH ? found >> at : 0;
            const char* const stop = left ? p + __builtin_ctzll(left) : special(p);
            if (*stop != first || *p == quote) break;
            if (!left) {
                block = block_;
                found = found_;
            }
            *cell = {p, stop, false};
            p = stop + 1;
        }
        position = p;
        return static_cast<size_t>(cell - cells);
    }

    bool at_delimiter(const char* p) const {
        return *p == form_.delimiter[0] &&
            (form_.delimiter.size() == 1 || std::strncmp(p, form_.delimiter.data(), form_.delimiter.size()) == 0);
    }

    // Looks for bytes that may end a cell among the WIDTH bytes from p on.
    void look(const char* p) {
        char room[WIDTH] = {};
        block_ = p;
        found_ = 0;
        if (static_cast<size_t>(end_ - p) < WIDTH) p = std::copy(p, end_, room) - (end_ - p);
        for (size_t i = 0; i < WIDTH; i += 8) {
            const uint64_t chunk = load8(p + i);
            const uint64_t bits = zeros(chunk ^ EACH * '\n') | zeros(chunk ^ delimiters_) | zeros(chunk ^ quotes_);
            found_ |= (bits >> 7) * BITS >> 56 << i;
        }
    }

    // The bytes of a chunk that are zero, by their highest bits.
    static uint64_t zeros(uint64_t chunk) { return ~(((chunk & LOW) + LOW) | chunk) & HIGH; }

    // The first byte from p on that may end a cell.
    const char* special(const char* p) {
        while (true) {
            size_t at = static_cast<size_t>(p - block_);
            if (at >= WIDTH) {
                look(p);
                at = 0;
            }
            if (const uint64_t left = found_ >> at) return p + __builtin_ctzll(left);
            p = block_ + WIDTH;
        }
    }

    // Reads a cell. Returns what follows its delimiter or line break, or nullptr at a fault.
    const char* read_cell(const char* p, const char* end, Cell& cell) {
        const char first = form_.delimiter[0];
        if (form_.quoting && *p == '"') return read_quoted(p, end, cell);
        cell = {p, p, false};
        for (;; ++p) {
            p = special(p);
            if (*p == '\n' || (*p == first && at_delimiter(p))) break;
            if (*p == '"' && form_.quoting) {
                fail(cell.begin, p + 1, "a cell in double quotes, or without any", "quotes are written twice in quotes");
                return nullptr;
            }
        }
        cell.end = p;
        goes_on_ = *p != '\n';
        if (goes_on_) return p + form_.delimiter.size();
        if (cell.end > cell.begin && cell.end[-1] == '\r') --cell.end;
        return p + 1;
    }

    const char* read_quoted(const char* p, const char* end, Cell& cell) {
        const char* const open = p++;
        cell = {p, p, false};
        while (true) {
            p = static_cast<const char*>(std::memchr(p, '"', static_cast<size_t>(end - p)));
            if (!p) {
                fail(open, std::min(open + LONGEST_SHOWN, end - 1), "quotes at the end of the cell", "they do not end");
                return nullptr;
            }
            if (p[1] != '"') break;
            cell.doubled = true;
            p += 2;
        }
        cell.end = p++;
        inner_ += std::count(cell.begin, cell.end, '\n');
        if (*p == '\r' && p[1] == '\n') ++p;
        goes_on_ = *p != '\n';
        if (!goes_on_) return p + 1;
        if (at_delimiter(p)) return p + form_.delimiter.size();
        fail(open, p + 1, "a delimiter behind the quotes", "quotes within a cell are written twice");
        return nullptr;
    }

    static bool is_space(char c) { return c == ' ' || ('\t' <= c && c <= '\r'); }

    // The text of a cell without quotes and without blanks around it; valid until the next call.
    std::string_view trimmed(const Cell& cell) {
        const char *p = cell.begin, *end = cell.end;
        if (cell.doubled) {
            unquoted_.clear();
            for (; p < end; ++p) {
                unquoted_ += *p;
                p += *p == '"';
            }
            p = unquoted_.data();
            end = p + unquoted_.size();
        }
        while (p < end && is_space(*p)) ++p;
        while (p < end && is_space(end[-1])) --end;
        return {p, static_cast<size_t>(end - p)};
    }

    bool is_missing(std::string_view text) const {
        if (text.empty()) return true;
        for (const std::string& one : form_.missing)
            if (text == one) return true;
        return false;
    }

    // Whether a text is a whole number in its shortest form but for zeros behind a point: -?(0|[1-9][0-9]*)(\.0+)?
    // Then `digits` is its length without these.
    static bool is_whole(std::string_view text, size_t& digits) {
        size_t at = text[0] == '-';
        const size_t first = at;
        while (at < text.size() && is_digit(text[at])) ++at;
        if (at == first || (text[first] == '0' && at > first + 1)) return false;
        digits = at;
        if (at == text.size()) return true;
        if (text[at] != '.' || at + 1 == text.size()) return false;
        return text.find_first_not_of('0', at + 1) == std::string_view::npos;
    }

    // What a cell is.
    enum Sort : int32_t { MISSING, WHOLE, BIT, FRACTION, TEXT, TRUTH };

    void take(size_t column, ColumnFacts& facts) {
        const Cell& cell = cells_[column];
        const bool counts = form_.columns[column].role == Role::UNKNOWN;
        if (!counts && !facts.example.empty() && has_few_digits(cell)) {
            ++facts.cells;
            ++facts.whole;
            return;
        }
        RecentCells::Cell* const recent = recent_.find(column, cell.begin, cell.end);
        const bool known = recent && recent->value != RecentCells::UNKNOWN;
        const Sort sort = known ? static_cast<Sort>(recent->value)
                                : look_at(trimmed(cell), facts, counts);
        if (recent) recent->value = sort;
        ++facts.cells;
        facts.missing += sort == MISSING;
        facts.whole += sort == WHOLE || sort == BIT;
        facts.bits += sort == BIT;
        facts.fractions += sort == FRACTION;
        facts.truths += sort == TRUTH;
    }

    // Whether a cell is at most eight digits, without a 0 that begins others, and surely not missing.
    bool has_few_digits(const Cell& cell) const {
        const size_t length = static_cast<size_t>(cell.end - cell.begin);
        if (!form_.missing.empty() || length - 1 >= 8 || end_ - cell.begin < 8 || (*cell.begin == '0' && length > 1)) return false;
        return read_digits(cell.begin).count >= static_cast<int>(length);
    }

    // What a text is, which is counted as a new one; it may be an example for the column, which lacks its count so far.
    Sort look_at(std::string_view text, ColumnFacts& facts, bool counts) {
        if (is_missing(text)) return MISSING;
        if (facts.example.empty()) facts.example = text;
        size_t digits = 0;
        if (is_whole(text, digits)) {
            if (counts) count(text.substr(0, digits), facts);
            return digits == 1 && (text[0] == '0' || text[0] == '1') ? BIT : WHOLE;
        }
        double any;
        const size_t sign = text[0] == '-' || text[0] == '+';
        const bool padded = text.size() > sign + 1 && text[sign] == '0' && is_digit(text[sign + 1]);
        if (!padded && !read_number(text.data(), text.data() + text.size(), any)) return FRACTION;
        if (!facts.texts()) {
            facts.first_text = text;
            facts.text_line = before_;
        }
        if (counts && !facts.uncounted) count(text, facts);
        return is_truth(text) ? TRUTH : TEXT;
    }

    static bool is_truth(std::string_view text) {
        const char* const end = text.data() + text.size();
        return same_word(text.data(), end, "true") || same_word(text.data(), end, "false");
    }

    void count(std::string_view text, ColumnFacts& facts) {
        uint64_t number;
        if (text.size() < 19 && is_digit(text[0]) && !read_whole(text.data(), text.data() + text.size(), number))
            facts.distinct.add({number});
        else facts.distinct.add(named(text.data(), text.size()));
        facts.uncounted |= facts.distinct.names.size() > ColumnFacts::MOST_TEXTS;
    }

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

    // Writes the blank before a token, unless it is the first one of its line.
    void gap() {
        *out_ = ' ';
        out_ += out_ != begun_;
    }

    void put(const char* text, size_t size) {
        std::memcpy(out_, text, size);
        out_ += size;
    }

    // Writes a name, with %XX for the characters that text of features cannot have in one.
    bool write_name(const Cell& cell, std::string_view text, bool first) {
        const char *p = text.data(), *const end = p + text.size();
        while (p < end && plain_[static_cast<unsigned char>(*p)]) *out_++ = *p++;
        if (p == end) return true;
        if (!form_.latin1 && !is_utf8(text))
            return fail(cell.begin, cell.end, "UTF-8", "give the encoding of the table if it is another one");
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

    bool add_time(RowKeys& found) {
        const Cell& cell = cells_[static_cast<size_t>(found.time)];
        const std::string_view text = trimmed(cell);
        double time;
        const bool is_number = !read_number(text.data(), text.data() + text.size(), time) && std::isfinite(time);
        const RowKeys::Sort sort = is_number ? RowKeys::NUMBERS : RowKeys::DATES;
        if ((!is_number && !TimeText(text).seconds(time)) || (found.sort != RowKeys::ANY && found.sort != sort)) {
            const std::string expected = found.sort == RowKeys::NUMBERS ? "a number" : "a date and time";
            const std::string either = found.sort == RowKeys::ANY ? "a number, or " : "";
            return fail(cell.begin, cell.end, either + expected + " in the column " + found.name, "dates and times are as in 1997-09-20 13:05:10");
        }
        found.sort = sort;
        found.times.push_back(time);
        return true;
    }

    // Writes the line of a row: label:weight qid:group feature:1 feature:value ...
    bool write_row() {
        if ((label_ >= 0 && !write_label()) || (form_.group >= 0 && !write_group())) return false;
        for (const size_t i : features_) {
            const TableColumn& column = form_.columns[i];
            RecentCells::Cell* const recent =
                references_ && column.role == Role::CATEGORY ? recent_.find(i, cells_[i].begin, cells_[i].end) : nullptr;
            if (recent && (recent->value != RecentCells::UNKNOWN || references_->size() < References::MOST)) {
                if (recent->value == RecentCells::UNKNOWN && !refer(column, cells_[i], recent->value)) return false;
                if (recent->value == NO_ENTRY) continue;
                gap();
                out_ = References::write(out_, static_cast<size_t>(recent->value));
                continue;
            }
            const std::string_view text = trimmed(cells_[i]);
            if (is_missing(text)) {
                if (form_.missing_feature) write_missing(column);
                continue;
            }
            if (!(column.role == Role::CATEGORY ? write_feature(column, cells_[i], text)
                  : column.role == Role::NUMBER ? write_number(column, cells_[i], text)
                                                : write_names(column, cells_[i], text)))
                return false;
        }
        for (const TableJoin& join : form_.joins)
            if (!write_joined(join)) return false;
        *out_++ = '\n';
        return true;
    }

    // Adds the entry of a cell to the references.
    bool refer(const TableColumn& column, const Cell& cell, int32_t& number) {
        const std::string_view text = trimmed(cell);
        const bool missing = is_missing(text);
        if (missing && !form_.missing_feature) {
            number = NO_ENTRY;
            return true;
        }
        char* const start = out_;
        if (missing) write_missing(column);
        else if (!write_feature(column, cell, text)) return false;
        const size_t blank = start != begun_;
        number = static_cast<int32_t>(references_->add(start + blank, static_cast<size_t>(out_ - start) - blank));
        out_ = start;
        return true;
    }

    bool write_joined(const TableJoin& join) {
        const Cell& cell = cells_[join.column];
        char* const key = out_;
        if (!write_name(cell, trimmed(cell), true)) return false;
        const int32_t row = join.rows->keys.find(named(key, static_cast<size_t>(out_ - key)));
        out_ = key;
        if (row == NO_COLUMN) return fail(cell.begin, cell.end, join.expected, "it has no such row");
        const std::string& text = join.rows->texts[static_cast<size_t>(row)];
        const size_t blank = out_ == begun_ && !text.empty();
        put(text.data() + blank, text.size() - blank);
        return true;
    }

    bool write_label() {
        const Cell& cell = cells_[static_cast<size_t>(label_)];
        const std::string_view text = trimmed(cell);
        if (is_missing(text))
            return !form_.training ||
                fail(cell.begin, cell.end, form_.columns[static_cast<size_t>(label_)].expected, "each row needs one");
        if (!write_name(cell, text, true)) return false;
        if (weight_ < 0) return true;
        const Cell& other = cells_[static_cast<size_t>(weight_)];
        const std::string_view weight = trimmed(other);
        double number;
        if (read_number(weight.data(), weight.data() + weight.size(), number) || number < 0)
            return fail(other.begin, other.end, form_.columns[static_cast<size_t>(weight_)].expected,
                        "it is a number that is not negative");
        *out_++ = ':';
        put(weight.data(), weight.size());
        return true;
    }

    bool write_group() {
        const Cell& cell = cells_[static_cast<size_t>(form_.group)];
        const std::string_view text = trimmed(cell);
        uint64_t number;
        double time;
        if (text.empty() || (form_.timed && !read_time(text, time)))
            return fail(cell.begin, cell.end, form_.expected_group, text.empty() ? "it is empty" : "it is no time");
        if (form_.timed) number = in_order_of(time);
        else if (read_whole(text.data(), text.data() + text.size(), number)) number = search_hash(text.data(), text.size()) >> 1;
        gap();
        put("qid:", 4);
        out_ = std::to_chars(out_, out_ + DIGITS, number).ptr;
        return true;
    }

    // A number of 63 bits; the order is that of the times, but for the last bit of their fractions.
    static uint64_t in_order_of(double time) {
        uint64_t bits;
        time += 0.0;  // -0 and 0 are one time
        std::memcpy(&bits, &time, sizeof bits);
        return (bits ^ (bits >> 63 ? ~uint64_t{0} : uint64_t{1} << 63)) >> 1;
    }

    bool write_number(const TableColumn& column, const Cell& cell, std::string_view text) {
        float value;
        if (const char* complaint = read_number(text.data(), text.data() + text.size(), value))
            return fail(cell.begin, cell.end, column.expected, std::string("it ") + complaint);
        if (!column.bins.empty()) return write_bin(column, text);
        if (value == 0) return true;
        gap();
        put(column.prefix.data(), column.prefix.size());
        *out_++ = ':';
        put(text.data(), text.size());
        return true;
    }

    bool write_bin(const TableColumn& column, std::string_view text) {
        double value = 0;
        read_number(text.data(), text.data() + text.size(), value);
        const auto bin = std::lower_bound(column.edges.begin(), column.edges.end(), value) - column.edges.begin();
        const std::string& feature = column.bins[static_cast<size_t>(bin)];
        gap();
        put(feature.data(), feature.size());
        put(":1", 2);
        return true;
    }

    void write_missing(const TableColumn& column) {
        gap();
        put(column.prefix.data(), column.prefix.size());
        put("=:1" + (column.role != Role::NUMBER), 2 + (column.role == Role::NUMBER));
    }

    bool write_names(const TableColumn& column, const Cell& cell, std::string_view text) {
        for (size_t at = 0; at <= text.size();) {
            const size_t stop = std::min(text.find(form_.separator, at), text.size());
            std::string_view one = text.substr(at, stop - at);
            while (!one.empty() && is_space(one.front())) one.remove_prefix(1);
            while (!one.empty() && is_space(one.back())) one.remove_suffix(1);
            if (!one.empty() && !write_feature(column, cell, one)) return false;
            at = stop + form_.separator.size();
        }
        return true;
    }

    bool write_feature(const TableColumn& column, const Cell& cell, std::string_view text) {
        gap();
        put(column.prefix.data(), column.prefix.size());
        if (column.whole) {  // all cells are whole numbers, perhaps with zeros behind a point
            text = text.substr(0, text.find('.'));
            if (text == "-0") text = "0";
        }
        if (!write_name(cell, text, false)) return false;
        *out_++ = ':';
        *out_++ = '1';
        return true;
    }
};

}  // namespace fmcli

#endif
