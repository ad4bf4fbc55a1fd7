// Rows of cells, separated by a delimiter. Nothing is guessed: cells follow RFC 4180, and anything else is a fault with
// its place.
#ifndef FMCLI_ROW_READER_H
#define FMCLI_ROW_READER_H

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "fmcli/data/numbers.h"
#include "fmcli/data/tables/form.h"
#include "fmcli/data/tables/local_numbers.h"

namespace fmcli {

class RowReader {
  public:
    explicit RowReader(const TableForm& form) : form_(form), cells_(form.columns.size()) {
        delimiters_ = EACH * static_cast<unsigned char>(form.delimiter[0]);
        quotes_ = form.quoting ? EACH * '"' : delimiters_;
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

    // The fault of the last `first_row`.
    const TableFault& fault() const { return fault_; }

  protected:
    struct Cell {
        const char* begin = nullptr;
        const char* end = nullptr;
        bool doubled = false;  // it has doubled quotes; a pair stands for one quote
    };

    const TableForm& form_;
    std::vector<Cell> cells_;    // of the row
    const char* row_ = nullptr;  // its beginning
    const char* end_ = nullptr;  // of the text
    int64_t before_ = 0;         // lines before the row

    // Calls `work` with the beginning and the end of each row after reading its cells; `work` returns whether the row
    // has no fault. Calls `skipped` for each row that is skipped because of a fault.
    template <class Work, class Skipped>
    TableReport each_row(const char* p, const char* end, Work work, Skipped skipped) {
        TableReport report;
        end_ = end;
        look(p);
        while (p < end) {
            row_ = p;
            inner_ = 0;
            before_ = report.lines;
            // In a table with one column, an empty line is a row with an empty cell.
            if (cells_.size() != 1 && (*p == '\n' || (*p == '\r' && p[1] == '\n'))) {
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

    static bool is_space(char c) { return c == ' ' || ('\t' <= c && c <= '\r'); }

    // The text of a cell without its quotes and without blanks around it; valid until the next call.
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

    // Converts a number from the form's notation to plain notation; the text is valid until the next call. Returns
    // whether the text can be a number.
    bool make_plain(std::string_view& text) {
        if (!form_.decimal) return true;
        if (!LocalNumber(form_.decimal).read(text, plain_)) return false;
        text = plain_;
        return true;
    }

    // The complaint about a number in another notation.
    const char* other_notation() const {
        return form_.decimal == ',' ? "is not a number with a decimal comma" : "is not a number with a decimal point";
    }

    // Reads a number in the form's notation; its text becomes plain. Returns nullptr, or the complaint.
    template <class Real>
    const char* read_plain(std::string_view& text, Real& number) {
        if (!make_plain(text)) return other_notation();
        return read_number(text.data(), text.data() + text.size(), number);
    }

    static bool is_missing(const TableColumn& column, std::string_view text) {
        if (text.empty()) return true;
        for (const std::string& one : column.missing)
            if (text == one) return true;
        return false;
    }

    // Whether a text is an integer in its shortest form, possibly with zeros after a point: -?(0|[1-9][0-9]*)(\.0+)?
    // Then `digits` is its length without the point and the zeros.
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

    // Calls `work` with each part of a vector, until it returns false; returns the number of parts. In brackets, commas
    // and blanks also separate parts.
    template <class Work>
    size_t each_part(std::string_view text, Work work) const {
        const char first = text.empty() ? 0 : text.front(), last = text.empty() ? 0 : text.back();
        const bool bracketed = text.size() > 1 && ((first == '[' && last == ']') || (first == '(' && last == ')'));
        if (bracketed) text = text.substr(1, text.size() - 2);
        const std::string_view separator = form_.separator;
        const bool blanks = bracketed || is_space(separator[0]);
        const auto mark_at = [&](size_t at) -> size_t {
            if (text.compare(at, separator.size(), separator) == 0) return separator.size();
            return text[at] == '|' || (bracketed && text[at] == ',' && form_.decimal != ',');
        };
        const auto skip_blanks = [&](size_t& at) {
            while (at < text.size() && is_space(text[at])) ++at;
        };
        size_t count = 0;
        for (size_t at = 0;;) {
            skip_blanks(at);
            const size_t begin = at;
            while (at < text.size() && !mark_at(at) && !(blanks && is_space(text[at]))) ++at;
            size_t end = at;
            while (end > begin && is_space(text[end - 1])) --end;
            ++count;
            if (!work(text.substr(begin, end - begin))) return count;
            skip_blanks(at);
            if (at == text.size()) return count;
            at += mark_at(at);
        }
    }

    static bool is_truth(std::string_view text) {
        const char* const end = text.data() + text.size();
        return same_word(text.data(), end, "true") || same_word(text.data(), end, "false");
    }

    // Reads a number in a common spelling. Returns whether the text is one; otherwise `read_number` reads it.
    __attribute__((always_inline)) bool read_fast(std::string_view text, Decimal& number) const {
        constexpr ptrdiff_t AHEAD = 64;  // bytes that may be read after a number with few digits
        const char* const end = text.data() + text.size();
        if (text.size() > 18 || text.data() < row_ || end_ - end < AHEAD) return false;
        return scan_decimal(text.data(), number) == end;
    }

    // Describes a fault in the row, and returns false.
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

    // Describes a text that is not a number, and returns false.
    bool fail_number(const TableColumn& column, const Cell& cell, std::string_view text, const char* complaint) {
        std::string found = std::string("it ") + complaint;
        if (text.size() <= LONGEST_SHOWN && text.find_first_of("0123456789,") == std::string_view::npos)
            found += "; if it stands for a missing one, --missing-values '" + std::string(text) + "' says so";
        return fail(cell.begin, cell.end, column.expected, found);
    }

  private:
    static constexpr size_t LONGEST_SHOWN = 20;  // bytes of a cell in a message
    // BITS collects the lowest bits of eight bytes in the highest one.
    static constexpr uint64_t EACH = 0x0101010101010101, HIGH = 0x80 * EACH, LOW = ~HIGH, BITS = 0x0102040810204080;
    static constexpr size_t WIDTH = 64;

    uint64_t delimiters_, quotes_;  // each eight times
    const char* block_ = nullptr;   // a part of the text
    uint64_t found_ = 0;            // a bit for each of its bytes that may end a cell
    bool goes_on_ = false;          // a delimiter ended the cell
    int64_t inner_ = 0;             // line breaks within the cells of the row
    std::string unquoted_, plain_;
    TableFault fault_;

    // Reads the cells of a row. Returns its end, or nullptr at a fault.
    const char* read_row(const char* p, const char* end) {
        const char* const start = p;
        size_t count = plain_cells(p);
        Cell extra;
        bool empty = true;  // all cells after the last column
        do {
            const bool more = count >= cells_.size();
            p = read_cell(p, end, more ? extra : cells_[count]);
            if (!p) return nullptr;
            empty &= !more || extra.begin == extra.end;
            ++count;
        } while (goes_on_);
        if (count != cells_.size()) fail_count(start, p - 1, count, empty);
        else if (repeats_header(start, p)) fail_header(start);
        else return p;
        return nullptr;
    }

    // Describes a row with another number of cells. A function of its own, so `read_row` has no strings.
    // empty : whether all cells after the last column are empty.
    __attribute__((noinline)) void fail_count(const char* start, const char* stop, size_t count, bool empty) {
        stop -= stop > start && stop[-1] == '\r';
        std::string complaint = "the row has " + std::to_string(count);
        if (count > cells_.size() && empty) {
            complaint += ", and the cells after the last column are empty: delete the ";
            for (size_t i = cells_.size(); i < count; ++i) complaint += form_.delimiter;
            complaint += " at the ends of lines, or name these columns in the header";
        }
        fail(start, stop, std::to_string(cells_.size()) + " cells", std::move(complaint));
    }

    // Whether a row is the header. In a table with one column, it may be a cell like any other.
    bool repeats_header(const char* start, const char* end) const {
        const size_t size = form_.header.size(), length = static_cast<size_t>(end - start);
        if (!size || cells_.size() == 1 || length <= size || length > size + 2) return false;
        return (start[size] == '\n' || start[size] == '\r') && std::memcmp(start, form_.header.data(), size) == 0;
    }

    // Describes a row that is the header. A function of its own, as `fail_count`.
    __attribute__((noinline)) void fail_header(const char* start) {
        fail(start, start + form_.header.size(), "a row", "it has the names of the columns; delete this line");
    }

    // Reads the cells of a row up to the last cell, or to one that needs `read_cell`. Returns their number.
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

    // Marks the bytes that may end a cell among the WIDTH bytes from p on.
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

    // Marks the zero bytes of a chunk by their highest bits.
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

    // Reads a cell. Returns the position after its delimiter or line break, or nullptr at a fault.
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
                fail(open, std::min(open + static_cast<ptrdiff_t>(LONGEST_SHOWN), end - 1), "quotes at the end of the cell", "they do not end");
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
};

}  // namespace fmcli

#endif
