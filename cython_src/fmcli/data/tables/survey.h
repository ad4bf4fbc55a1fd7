// Facts about the cells of a table's columns.
#ifndef FMCLI_SURVEY_H
#define FMCLI_SURVEY_H

#include <algorithm>
#include <new>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fmcli/data/tables/recent.h"
#include "fmcli/data/tables/row_reader.h"

namespace fmcli {

// A sum with twice the precision of a double, so the order of the terms hardly matters.
struct ExactSum {
    double high = 0, low = 0;

    void add(double term) {
        const double sum = high + term, rest = sum - high;
        low += (high - (sum - rest)) + (term - rest);
        high = sum;
    }

    void add(const ExactSum& other) {
        add(other.high);
        add(other.low);
    }

    double value() const { return high + low; }
};

// A text among the cells of a column, and the number of lines before it.
struct Word {
    std::string text;
    int64_t line;
};

// The first distinct texts.
struct Words {
    static constexpr size_t MOST = 8;  // texts to keep: an error about a column names them

    std::vector<Word> first;
    bool others = false;  // there are more

    void add(std::string_view text, int64_t line) {
        if (others) return;
        for (const Word& word : first)
            if (word.text == text) return;
        if (first.size() < MOST) first.push_back({std::string(text), line});
        else others = true;
    }

    void add(const Words& more, int64_t lines_before) {
        for (const Word& word : more.first) add(word.text, lines_before + word.line);
        others |= more.others;
    }
};

// The facts about the cells of a column.
struct ColumnFacts {
    static constexpr size_t MOST_TEXTS = 1 << 20;  // distinct texts to count
    static constexpr uint64_t SMALL = 1 << 20;

    int64_t cells = 0, missing = 0, whole = 0, fractions = 0, bits = 0, truths = 0;  // all other cells are texts
    int64_t points = 0;               // fractions with a point that are not rounded
    int64_t rounded = 0;              // fractions that are integers with an exponent
    std::string rounded_cell;         // the first rounded cell
    std::string point_cell;           // the first number with a point that is also one with a decimal comma
    int64_t padded = 0;               // texts that are digits after a 0 or a +
    // Texts: days and months are dates if the day or the month comes first, `ordered` counts dates that depend on this,
    // and `clocks` dates with a time of day; commas and dots are numbers with this decimal mark (commas also include
    // some numbers with a point); lists have several numbers; others are all other texts.
    int64_t days = 0, months = 0, ordered = 0, clocks = 0, commas = 0, dots = 0, lists = 0, others = 0;
    size_t length = 0;                // of the first vector; 1 for a number
    std::string example;              // the first cell that is not an odd text, or else the first cell
    bool odd_example = false;         // whether the example is an odd text
    Words words, odd;                 // the first distinct texts, and the first distinct texts among the others
    bool weighted = false;            // whether rows have weights
    ExactSum sum, weight;             // of the numbers times their rows' weights, and of these weights
    int64_t digits_sum = 0;           // of further numbers that are only digits
    // Weighted sums of days since 1970, if the day or the month comes first, or by place of vectors; and of the
    // weights.
    ExactSum of_days, of_months, special_weight;
    std::vector<ExactSum> of_places;
    Ids distinct;                     // integers and texts
    std::vector<uint64_t> small;      // a bit for each integer below SMALL; these are not in `distinct`
    bool uncounted = false;           // there are more distinct texts

    // The number of distinct integers and texts.
    size_t size() const {
        size_t bits = 0;
        for (const uint64_t some : small) bits += static_cast<size_t>(__builtin_popcountll(some));
        return bits + distinct.size();
    }

    // Whether points may group the digits of the numbers, as in 950 and 1.250: all fractions have three digits after
    // the point, and some integers have three digits, but none has more.
    bool may_be_grouped() const {
        constexpr size_t THREE_DIGITS = 100, FOUR_DIGITS = 1000;
        if (!points || points != commas || points != fractions || distinct.numbers.size()) return false;
        bool found = false;
        for (size_t number = THREE_DIGITS; number < 64 * small.size(); ++number) {
            const bool occurs = small[number / 64] >> number % 64 & 1;
            if (occurs && number >= FOUR_DIGITS) return false;
            found |= occurs;
        }
        return found;
    }

    void add_small(uint64_t number) {
        const size_t word = static_cast<size_t>(number / 64);
        if (word >= small.size()) small.resize(std::max(word + 1, 2 * small.size()));
        small[word] |= uint64_t{1} << number % 64;
    }

    void offer(std::string_view text, bool is_odd) {
        if (!example.empty() && !(odd_example && !is_odd)) return;
        example = text;
        odd_example = is_odd;
    }

    int64_t texts() const { return cells - missing - whole - fractions; }

    // The weighted mean of the numbers; 0 without any.
    double mean() const {
        const double all = weighted ? weight.value() : static_cast<double>(whole + fractions);
        return all > 0 ? (sum.value() + static_cast<double>(digits_sum)) / all : 0;
    }

    // The weighted mean of a sum of times or vectors.
    double mean_of(const ExactSum& of) const { return special_weight.value() > 0 ? of.value() / special_weight.value() : 0; }

    void add(const ColumnFacts& other, int64_t lines_before) {
        if (!other.example.empty()) offer(other.example, other.odd_example);
        words.add(other.words, lines_before);
        odd.add(other.odd, lines_before);
        padded += other.padded;
        rounded += other.rounded;
        if (rounded_cell.empty()) rounded_cell = other.rounded_cell;
        if (point_cell.empty()) point_cell = other.point_cell;
        weighted |= other.weighted;
        digits_sum += other.digits_sum;
        sum.add(other.sum);
        weight.add(other.weight);
        special_weight.add(other.special_weight);
        of_days.add(other.of_days);
        of_months.add(other.of_months);
        of_places.resize(std::max(of_places.size(), other.of_places.size()));
        for (size_t at = 0; at < other.of_places.size(); ++at) of_places[at].add(other.of_places[at]);
        if (!length) length = other.length;
        days += other.days;
        months += other.months;
        ordered += other.ordered;
        clocks += other.clocks;
        commas += other.commas;
        dots += other.dots;
        lists += other.lists;
        others += other.others;
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

    // Adds the facts of the rows that follow, and clears them, so that the memory can serve other rows.
    void take(ColumnFacts& other, int64_t lines_before) {
        add(other, lines_before);
        other.~ColumnFacts();
        new (&other) ColumnFacts;
    }
};

class Survey : public RowReader {
  public:
    explicit Survey(const TableForm& form) : RowReader(form) {
        for (size_t i = 0; i < form.columns.size(); ++i) {
            const TableColumn& column = form.columns[i];
            if (column.role >= Role::WEIGHT) asked_.push_back({i, column.role == Role::UNKNOWN, column.role != Role::VECTOR && column.missing.empty()});
            if (column.role == Role::WEIGHT) weight_ = static_cast<int>(i);
        }
    }

    // Adds the facts about the cells of the rows to their columns.
    TableReport survey(const char* begin, const char* end, std::vector<ColumnFacts>& facts) {
        recent_.start(end - begin);
        return each_row(begin, end, [&](const char*, const char*) {
            const double weight = weight_ < 0 ? UNWEIGHTED : weight_of(cells_[static_cast<size_t>(weight_)]);
            for (const Asked& asked : asked_) take(asked, facts[asked.column], weight);
            return true;
        }, [](const char*, const char*) {});
    }

  private:
    static constexpr double UNWEIGHTED = -1;  // the weight of a row if rows have no weights

    // A column to survey.
    struct Asked {
        size_t column;
        bool counts;  // whether its distinct cells are counted
        bool plain;   // whether a cell that is a number is neither missing nor a vector
    };

    RecentCells recent_;        // the kinds of cells
    std::vector<Asked> asked_;
    int weight_ = -1;           // the column of weights

    // The kind of a cell.
    enum Sort : int32_t { MISSING, WHOLE, BIT, FRACTION, POINT, TEXT, PADDED, TRUTH };

    // Further properties of a cell, in the higher bits.
    static constexpr int32_t SORTS = 7, DAY = 8, MONTH = 16, ORDERED = 32, CLOCK = 64, COMMA = 128, DOT = 256, LIST = 512, ROUNDED = 1024;

    std::string number_;  // in plain notation

    // The weight of a row. An invalid weight becomes a fault when the rows are read.
    double weight_of(const Cell& cell) {
        double weight = 0;
        std::string_view text = trimmed(cell);
        return read_plain(text, weight) ? 0 : weight;
    }

    // Forcibly inlined, with what few cells need in another function: otherwise the survey takes a twentieth more time.
    __attribute__((always_inline)) void take(const Asked& asked, ColumnFacts& facts, double weight) {
        const Cell& cell = cells_[asked.column];
        uint64_t number;
        if (facts.whole && asked.plain && has_few_digits(cell, number) && (!asked.counts || number < ColumnFacts::SMALL)) {
            if (asked.counts) facts.add_small(number);
            ++facts.cells;
            ++facts.whole;
            facts.bits += number < 2;
            if (weight == UNWEIGHTED) facts.digits_sum += static_cast<int64_t>(number);
            else add_number(facts, static_cast<double>(number), weight);
            return;
        }
        double fraction;
        bool comma;
        if (facts.fractions && asked.plain && !form_.decimal && is_plain_fraction(cell, fraction, comma)) {
            ++facts.cells;
            ++facts.fractions;
            ++facts.points;
            facts.commas += comma;
            add_number(facts, fraction, weight);
            return;
        }
        const TableColumn& column = form_.columns[asked.column];
        int32_t& recent = recent_.find(asked.column, cell.begin, cell.end, end_);
        if (recent == RecentCells::UNKNOWN) recent = look_at(column, trimmed(cell), facts, asked.counts);
        ++facts.cells;
        if (recent == TEXT) ++facts.others;
        else take_other(column, cell, recent, facts, weight);
    }

    // The part of `take` for cells that are not plain texts.
    __attribute__((noinline)) void take_other(const TableColumn& column, const Cell& cell, int32_t found, ColumnFacts& facts, double weight) {
        const Sort sort = static_cast<Sort>(found & SORTS);
        facts.missing += sort == MISSING;
        facts.whole += sort == WHOLE || sort == BIT;
        facts.bits += sort == BIT;
        facts.fractions += sort == FRACTION || sort == POINT;
        facts.points += sort == POINT;
        facts.padded += sort == PADDED;
        facts.truths += sort == TRUTH;
        const int32_t kinds = found & ~SORTS;
        facts.rounded += (kinds & ROUNDED) != 0;
        const bool is_number = WHOLE <= sort && sort <= POINT;
        if (column.role == Role::VECTOR && (is_number || (kinds & LIST))) add_places(facts, trimmed(cell), weight);
        else if (is_number) add_number(facts, value_of(trimmed(cell)), weight);
        if (sort < POINT) return;
        facts.commas += (kinds & COMMA) != 0;
        if (sort == POINT) return;
        facts.days += (kinds & DAY) != 0;
        facts.months += (kinds & MONTH) != 0;
        facts.ordered += (kinds & ORDERED) != 0;
        facts.clocks += (kinds & CLOCK) != 0;
        facts.dots += (kinds & DOT) != 0;
        facts.lists += (kinds & LIST) != 0;
        facts.others += !kinds;
        if (kinds & (DAY | MONTH)) add_date(facts, trimmed(cell), weight);
    }

    static bool is_letter(char c) { return static_cast<unsigned char>((c | 32) - 'a') < 26; }

    static void add_number(ColumnFacts& facts, double number, double weight) {
        if (weight == UNWEIGHTED) {
            facts.sum.add(number);
            return;
        }
        facts.weighted = true;
        facts.sum.add(number * weight);
        facts.weight.add(weight);
    }

    // Whether a cell consists of digits with a point among them and no 0 at either end, and so is a number. `comma`
    // tells whether it is also a number with a decimal comma, as 1.067 is.
    bool is_plain_fraction(const Cell& cell, double& value, bool& comma) const {
        const std::string_view text(cell.begin, static_cast<size_t>(cell.end - cell.begin));
        Decimal number{};
        if (!read_fast(text, number) || number.exponent >= 0 || text.back() == '0') return false;
        const size_t sign = text[0] == '-', point = text.size() + static_cast<size_t>(number.exponent) - 1;
        comma = number.exponent == -3 && point <= sign + 3 && text[sign] != '0';
        return point < text.size() && text[point] == '.' && !(text[sign] == '0' && point > sign + 1) && to_double(number, value);
    }

    static void add_date(ColumnFacts& facts, std::string_view text, double weight) {
        Moment moment;
        const double by = weight == UNWEIGHTED ? 1 : weight;
        const bool day_first = read_moment(text, DateOrder::DAY, moment);
        if (day_first) facts.of_days.add(moment.days() * by);
        if ((day_first && !moment.ordered) || read_moment(text, DateOrder::MONTH, moment)) facts.of_months.add(moment.days() * by);
        facts.special_weight.add(by);
    }

    // Adds the numbers of a vector. A vector of another length becomes a fault when the rows are read.
    void add_places(ColumnFacts& facts, std::string_view text, double weight) {
        facts.of_places.resize(facts.length);
        size_t at = 0;
        const double by = weight == UNWEIGHTED ? 1 : weight;
        each_part(text, [&](std::string_view part) {
            double number = 0;
            if (at < facts.length && !read_plain(part, number)) facts.of_places[at].add(number * by);
            return ++at < facts.length;
        });
        facts.special_weight.add(by);
    }

    double value_of(std::string_view text) {
        double value = 0;
        Decimal number{};
        make_plain(text);
        if (!read_fast(text, number) || !to_double(number, value)) read_number(text.data(), text.data() + text.size(), value);
        return value;
    }

    // Whether a cell has at most eight digits and no leading 0; sets their number.
    bool has_few_digits(const Cell& cell, uint64_t& number) const {
        const size_t length = static_cast<size_t>(cell.end - cell.begin);
        if (length - 1 >= 8 || end_ - cell.begin < 8 || (*cell.begin == '0' && length > 1)) return false;
        const Digits digits = read_digits(cell.begin);
        number = digits.number;
        return digits.count == static_cast<int>(length);
    }

    // The kind of a text that is counted as new; the text may become the column's example.
    int32_t look_at(const TableColumn& column, std::string_view text, ColumnFacts& facts, bool counts) {
        if (is_missing(column, text)) return MISSING;
        const std::string_view written = text;
        const bool is_plain = make_plain(text);
        size_t digits = 0;
        if (is_plain && is_whole(text, digits)) {
            if (!facts.length) facts.length = 1;
            facts.offer(written, false);
            if (counts) count(text.substr(0, digits), facts);
            return digits == 1 && (text[0] == '0' || text[0] == '1') ? BIT : WHOLE;
        }
        double any;
        Decimal number{};
        const size_t sign = text[0] == '-' || text[0] == '+';
        const bool padded = text.size() > sign + 1 && text[sign] == '0' && is_digit(text[sign + 1]);
        if (is_plain && !padded && !is_code(text) && (read_fast(text, number) || !read_number(text.data(), text.data() + text.size(), any))) {
            if (!facts.length) facts.length = 1;
            facts.offer(written, false);
            if (is_rounded(text)) {
                if (facts.rounded_cell.empty()) facts.rounded_cell = text;
                return FRACTION | ROUNDED;
            }
            if (text.find('.') == std::string_view::npos) return FRACTION;
            if (form_.decimal || !LocalNumber(',').read(text, number_)) return POINT;
            if (facts.point_cell.empty()) facts.point_cell = text;
            return POINT | COMMA;
        }
        text = written;  // plain notation is in a buffer that the next reading overwrites
        facts.words.add(text, before_);
        if (counts && !facts.uncounted) add_distinct(named(text.data(), text.size()), facts);
        const int32_t kinds = kinds_of(text, padded, facts);
        if (!kinds) facts.odd.add(text, before_);
        facts.offer(text, !kinds && !padded);
        if (padded && text.find_first_not_of("0123456789", text[0] == '-' || text[0] == '+') == std::string_view::npos) return PADDED;
        return is_truth(text) ? TRUTH : TEXT | kinds;
    }

    // Whether a number is digits with an e among them, as a hexadecimal id may be: 49018e16.
    static bool is_code(std::string_view text) {
        constexpr size_t LEAST = 2;  // digits before the e
        const size_t e = text.find_first_of("eE");
        return e != std::string_view::npos && e >= LEAST && e + 1 < text.size() && is_digit(text[0]) && is_digit(text[e + 1]) &&
            text.find('.') == std::string_view::npos;
    }

    // Whether a number is an integer with an exponent, such as 7.3E+17, whose last digits another program has dropped.
    // LEAST is the largest integer up to which a float is exact.
    static bool is_rounded(std::string_view text) {
        constexpr double LEAST = 1 << 24;
        double value = 0;
        if (text.find_first_of("eE") == std::string_view::npos) return false;
        return !read_number(text.data(), text.data() + text.size(), value) && std::abs(value) >= LEAST && value == std::trunc(value);
    }

    // The kinds of a text that is not a number. padded : whether it begins with a 0 before other digits.
    int32_t kinds_of(std::string_view text, bool padded, ColumnFacts& facts) {
        int32_t kinds = 0;
        Moment moment;
        const auto read_date = [&](DateOrder order, int32_t kind) {
            if (!read_moment(text, order, moment)) return;
            kinds |= kind | (moment.ordered ? ORDERED : DAY | MONTH) | (moment.midnight ? 0 : CLOCK);
        };
        read_date(DateOrder::DAY, DAY);
        if (!(kinds & MONTH) && is_digit(text[0])) read_date(DateOrder::MONTH, MONTH);
        if (kinds) return kinds;
        if (is_letter(text[0])) return 0;  // most texts: neither a number nor a list of numbers
        if (!form_.decimal && !padded && !is_code(text)) {
            if (LocalNumber(',').read(text, number_)) kinds |= COMMA;
            if (LocalNumber('.').read(text, number_)) kinds |= DOT;
        }
        double any;
        bool good = true;
        const size_t parts = each_part(text, [&](std::string_view part) {
            good = !read_plain(part, any);
            return good;
        });
        if (!good || parts < 2) return kinds;
        if (!facts.length) facts.length = parts;
        return kinds | LIST;
    }

    // Counts an integer.
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
