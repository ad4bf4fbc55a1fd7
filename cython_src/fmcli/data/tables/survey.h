// What is known about the cells of the columns of a table.
#ifndef FMCLI_SURVEY_H
#define FMCLI_SURVEY_H

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "fmcli/data/tables/recent.h"
#include "fmcli/data/tables/row_reader.h"

namespace fmcli {

// What is known about the cells of a column.
struct ColumnFacts {
    static constexpr size_t MOST_TEXTS = 1 << 20;  // distinct texts that are counted
    static constexpr uint64_t SMALL = 1 << 20;

    int64_t cells = 0, missing = 0, whole = 0, fractions = 0, bits = 0, truths = 0;  // texts are the others
    int64_t points = 0;               // fractions with a point
    int64_t text_line = 0;            // the number of lines before the first text
    std::string example, first_text;  // the first cell, and the first one that is no number
    Ids distinct;                     // whole numbers and texts
    std::vector<uint64_t> small;      // a bit for each whole number below SMALL, which `distinct` lacks
    bool uncounted = false;           // there are more distinct texts

    // The number of distinct whole numbers and texts.
    size_t size() const {
        size_t bits = 0;
        for (const uint64_t some : small) bits += static_cast<size_t>(__builtin_popcountll(some));
        return bits + distinct.size();
    }

    void add_small(uint64_t number) {
        const size_t word = static_cast<size_t>(number / 64);
        if (word >= small.size()) small.resize(std::max(word + 1, 2 * small.size()));
        small[word] |= uint64_t{1} << number % 64;
    }

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
        points += other.points;
        distinct.add_all(other.distinct);
        small.resize(std::max(small.size(), other.small.size()));
        for (size_t i = 0; i < other.small.size(); ++i) small[i] |= other.small[i];
        uncounted |= other.uncounted || distinct.names.size() > MOST_TEXTS;
    }
};

class Survey : public RowReader {
  public:
    explicit Survey(const TableForm& form) : RowReader(form) {
        for (size_t i = 0; i < form.columns.size(); ++i)
            if (form.columns[i].role >= Role::CATEGORY) asked_.push_back(i);
    }

    // Adds what the cells of the rows say about their columns.
    TableReport survey(const char* begin, const char* end, std::vector<ColumnFacts>& facts) {
        recent_.start(end - begin);
        return each_row(begin, end, [&](const char*, const char*) {
            for (const size_t column : asked_) take(column, facts[column]);
            return true;
        }, [](const char*, const char*) {});
    }

  private:
    RecentCells recent_;         // what they are
    std::vector<size_t> asked_;  // columns

    // What a cell is.
    enum Sort : int32_t { MISSING, WHOLE, BIT, FRACTION, POINT, TEXT, TRUTH };

    void take(size_t column, ColumnFacts& facts) {
        const Cell& cell = cells_[column];
        const bool counts = form_.columns[column].role == Role::UNKNOWN;
        uint64_t number;
        if (facts.whole && has_few_digits(cell, number) && (!counts || number < ColumnFacts::SMALL)) {
            if (counts) facts.add_small(number);
            ++facts.cells;
            ++facts.whole;
            facts.bits += number < 2;
            return;
        }
        int32_t& recent = recent_.find(column, cell.begin, cell.end, end_);
        if (recent == RecentCells::UNKNOWN) recent = look_at(trimmed(cell), facts, counts);
        const Sort sort = static_cast<Sort>(recent);
        ++facts.cells;
        facts.missing += sort == MISSING;
        facts.whole += sort == WHOLE || sort == BIT;
        facts.bits += sort == BIT;
        facts.fractions += sort == FRACTION || sort == POINT;
        facts.points += sort == POINT;
        facts.truths += sort == TRUTH;
    }

    // Whether a cell is at most eight digits, whose number is set, without a 0 that begins others, and surely not missing.
    bool has_few_digits(const Cell& cell, uint64_t& number) const {
        const size_t length = static_cast<size_t>(cell.end - cell.begin);
        if (!form_.missing.empty() || length - 1 >= 8 || end_ - cell.begin < 8 || (*cell.begin == '0' && length > 1)) return false;
        const Digits digits = read_digits(cell.begin);
        number = digits.number;
        return digits.count == static_cast<int>(length);
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
        Decimal number;
        const size_t sign = text[0] == '-' || text[0] == '+';
        const bool padded = text.size() > sign + 1 && text[sign] == '0' && is_digit(text[sign + 1]);
        if (!padded && (read_fast(text, number) || !read_number(text.data(), text.data() + text.size(), any)))
            return text.find('.') == std::string_view::npos ? FRACTION : POINT;
        if (!facts.texts()) {
            facts.first_text = text;
            facts.text_line = before_;
        }
        if (counts && !facts.uncounted) count(text, facts);
        return is_truth(text) ? TRUTH : TEXT;
    }

    void count(std::string_view text, ColumnFacts& facts) {
        uint64_t number;
        const bool whole = text.size() < 19 && is_digit(text[0]) && !read_whole(text.data(), text.data() + text.size(), number);
        if (whole && number < ColumnFacts::SMALL) facts.add_small(number);
        else facts.distinct.add(whole ? Id{number} : named(text.data(), text.size()));
        facts.uncounted |= facts.distinct.names.size() > ColumnFacts::MOST_TEXTS;
    }
};

}  // namespace fmcli

#endif
