// What is known about the cells of the columns of a table.
#ifndef FMCLI_SURVEY_H
#define FMCLI_SURVEY_H

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fmcli/data/tables/recent.h"
#include "fmcli/data/tables/row_reader.h"

namespace fmcli {

// A sum with twice the precision of a double, so that the order of the terms hardly matters.
struct ExactSum {
    double high = 0, low = 0;

    void add(double term) {
        const double sum = high + term, rest = sum - high;
        low += (high - (sum - rest)) + (term - rest);
        high = sum;
    }

    double value() const { return high + low; }
};

// A text among the cells of a column, and the number of lines before it.
struct Word {
    std::string text;
    int64_t line;
};

// What is known about the cells of a column.
struct ColumnFacts {
    static constexpr size_t MOST_TEXTS = 1 << 20;  // distinct texts that are counted
    static constexpr size_t MOST_WORDS = 8;        // distinct texts that are kept: an error about a column names these
    static constexpr uint64_t SMALL = 1 << 20;

    int64_t cells = 0, missing = 0, whole = 0, fractions = 0, bits = 0, truths = 0;  // texts are the others
    int64_t points = 0;               // fractions with a point
    int64_t padded = 0;               // texts that are digits behind a 0 or a +
    std::string example;              // the first cell
    std::vector<Word> words;          // the first distinct texts
    bool other_words = false;         // there are more
    bool weighted = false;            // rows have weights
    ExactSum sum, weight;             // of the numbers times the weights of their rows, and of these weights
    int64_t digits_sum = 0;           // of further numbers, which are digits
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

    // The weighted mean of the numbers; 0 without any.
    double mean() const {
        const double all = weighted ? weight.value() : static_cast<double>(whole + fractions);
        return all > 0 ? (sum.value() + static_cast<double>(digits_sum)) / all : 0;
    }

    void add_word(std::string_view text, int64_t line) {
        for (const Word& word : words)
            if (word.text == text) return;
        if (words.size() < MOST_WORDS) words.push_back({std::string(text), line});
        else other_words = true;
    }

    void add(const ColumnFacts& other, int64_t lines_before) {
        if (example.empty()) example = other.example;
        for (const Word& word : other.words) add_word(word.text, lines_before + word.line);
        other_words |= other.other_words;
        padded += other.padded;
        weighted |= other.weighted;
        digits_sum += other.digits_sum;
        for (const auto& [into, from] : {std::pair(&sum, &other.sum), std::pair(&weight, &other.weight)}) {
            into->add(from->high);
            into->add(from->low);
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
        for (size_t i = 0; i < form.columns.size(); ++i) {
            if (form.columns[i].role >= Role::CATEGORY) asked_.push_back(i);
            if (form.columns[i].role == Role::WEIGHT) weight_ = static_cast<int>(i);
        }
    }

    // Adds what the cells of the rows say about their columns.
    TableReport survey(const char* begin, const char* end, std::vector<ColumnFacts>& facts) {
        recent_.start(end - begin);
        return each_row(begin, end, [&](const char*, const char*) {
            const double weight = weight_ < 0 ? UNWEIGHTED : weight_of(cells_[static_cast<size_t>(weight_)]);
            for (const size_t column : asked_) take(column, facts[column], weight);
            return true;
        }, [](const char*, const char*) {});
    }

  private:
    static constexpr double UNWEIGHTED = -1;  // the weight of a row if rows have none

    RecentCells recent_;         // what they are
    std::vector<size_t> asked_;  // columns
    int weight_ = -1;            // the column of weights

    // What a cell is.
    enum Sort : int32_t { MISSING, WHOLE, BIT, FRACTION, POINT, TEXT, PADDED, TRUTH };

    // The weight of a row. A cell that is none is a fault when the rows are read.
    double weight_of(const Cell& cell) {
        double weight = 0;
        const std::string_view text = trimmed(cell);
        return read_number(text.data(), text.data() + text.size(), weight) ? 0 : weight;
    }

    void take(size_t column, ColumnFacts& facts, double weight) {
        const Cell& cell = cells_[column];
        const bool counts = form_.columns[column].role == Role::UNKNOWN;
        uint64_t number;
        if (facts.whole && has_few_digits(form_.columns[column], cell, number) && (!counts || number < ColumnFacts::SMALL)) {
            if (counts) facts.add_small(number);
            ++facts.cells;
            ++facts.whole;
            facts.bits += number < 2;
            if (weight == UNWEIGHTED) facts.digits_sum += static_cast<int64_t>(number);
            else add_number(facts, static_cast<double>(number), weight);
            return;
        }
        double fraction;
        if (facts.fractions && form_.columns[column].missing.empty() && is_plain_fraction(trimmed(cell), fraction)) {
            ++facts.cells;
            ++facts.fractions;
            ++facts.points;
            add_number(facts, fraction, weight);
            return;
        }
        int32_t& recent = recent_.find(column, cell.begin, cell.end, end_);
        if (recent == RecentCells::UNKNOWN) recent = look_at(form_.columns[column], trimmed(cell), facts, counts);
        const Sort sort = static_cast<Sort>(recent);
        ++facts.cells;
        facts.missing += sort == MISSING;
        facts.whole += sort == WHOLE || sort == BIT;
        facts.bits += sort == BIT;
        facts.fractions += sort == FRACTION || sort == POINT;
        facts.points += sort == POINT;
        facts.padded += sort == PADDED;
        facts.truths += sort == TRUTH;
        if (WHOLE <= sort && sort <= POINT) add_number(facts, value_of(trimmed(cell)), weight);
    }

    static void add_number(ColumnFacts& facts, double number, double weight) {
        if (weight == UNWEIGHTED) {
            facts.sum.add(number);
            return;
        }
        facts.weighted = true;
        facts.sum.add(number * weight);
        facts.weight.add(weight);
    }

    // Whether a text is digits with a point among them, and no 0 at either end, which are a number.
    bool is_plain_fraction(std::string_view text, double& value) const {
        Decimal number;
        if (!read_fast(text, number) || number.exponent >= 0 || text.back() == '0') return false;
        const size_t sign = text[0] == '-', point = text.size() + static_cast<size_t>(number.exponent) - 1;
        return point < text.size() && text[point] == '.' && !(text[sign] == '0' && point > sign + 1) && to_double(number, value);
    }

    double value_of(std::string_view text) const {
        double value = 0;
        Decimal number;
        if (!read_fast(text, number) || !to_double(number, value)) read_number(text.data(), text.data() + text.size(), value);
        return value;
    }

    // Whether a cell is at most eight digits, whose number is set, without a 0 that begins others, and surely not missing.
    bool has_few_digits(const TableColumn& column, const Cell& cell, uint64_t& number) const {
        const size_t length = static_cast<size_t>(cell.end - cell.begin);
        if (!column.missing.empty() || length - 1 >= 8 || end_ - cell.begin < 8 || (*cell.begin == '0' && length > 1)) return false;
        const Digits digits = read_digits(cell.begin);
        number = digits.number;
        return digits.count == static_cast<int>(length);
    }

    // What a text is, which is counted as a new one; it may be an example for the column, which lacks its count so far.
    Sort look_at(const TableColumn& column, std::string_view text, ColumnFacts& facts, bool counts) {
        if (is_missing(column, text)) return MISSING;
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
        facts.add_word(text, before_);
        if (counts && !facts.uncounted) add_distinct(named(text.data(), text.size()), facts);
        if (padded && text.find_first_not_of("0123456789", sign) == std::string_view::npos) return PADDED;
        return is_truth(text) ? TRUTH : TEXT;
    }

    // Counts a whole number.
    static void count(std::string_view text, ColumnFacts& facts) {
        uint64_t number;
        const bool fits = text.size() < 19 && is_digit(text[0]) && !read_whole(text.data(), text.data() + text.size(), number);
        if (fits && number < ColumnFacts::SMALL) facts.add_small(number);
        else add_distinct(fits ? Id{number} : named(text.data(), text.size()), facts);
    }

    static void add_distinct(const Id& id, ColumnFacts& facts) {
        facts.distinct.add(id);
        facts.uncounted |= facts.distinct.names.size() > ColumnFacts::MOST_TEXTS;
    }
};

}  // namespace fmcli

#endif
