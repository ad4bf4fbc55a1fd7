// The contents of some cells of a table's rows: their groups and times, their texts, or their numbers.
#ifndef FMCLI_ROW_KEYS_H
#define FMCLI_ROW_KEYS_H

#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include "fmcli/data/id.h"
#include "fmcli/data/tables/row_reader.h"
#include "fmcli/data/tables/times.h"

namespace fmcli {

// The beginnings and ends of rows in their text, and from two columns: a group, the hash of a text, and a time.
struct RowKeys {
    enum Sort : int { ANY, NUMBERS, DATES };

    int group = -1, time = -1;  // the columns, or -1
    std::string name;           // of the column of times, in quotes
    Sort sort = ANY;            // the kind of all times: numbers, or dates and times
    std::vector<int64_t> begins, ends, groups;
    std::vector<double> times;
};

class KeyReader : public RowReader {
  public:
    using RowReader::RowReader;

    // Adds the keys of the rows. Skipped rows have positions, too, where lines of features would be empty.
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

    // Adds the texts of the cells in some columns, row by row.
    TableReport texts(const char* begin, const char* end, const std::vector<size_t>& columns, std::vector<std::string>& found) {
        return each_row(begin, end, [&](const char*, const char*) {
            for (const size_t column : columns) found.emplace_back(trimmed(cells_[column]));
            return true;
        }, [&](const char*, const char*) {
            if (!form_.training) found.resize(found.size() + columns.size());
        });
    }

    // Adds the numbers in some columns, row by row; NaN for missing ones.
    TableReport numbers(const char* begin, const char* end, const std::vector<size_t>& columns, std::vector<double>& found) {
        return each_row(begin, end, [&](const char*, const char*) {
            for (const size_t column : columns) {
                const Cell& cell = cells_[column];
                std::string_view text = trimmed(cell);
                double number = NAN;
                if (!is_missing(form_.columns[column], text))
                    if (const char* complaint = read_plain(text, number))
                        return fail_number(form_.columns[column], cell, text, complaint);
                found.push_back(number);
            }
            return true;
        }, [](const char*, const char*) {});
    }

  private:
    bool add_time(RowKeys& found) {
        const Cell& cell = cells_[static_cast<size_t>(found.time)];
        std::string_view text = trimmed(cell);
        const DateOrder order = form_.columns[static_cast<size_t>(found.time)].order;
        double time;
        Moment moment;
        const bool is_number = !read_plain(text, time) && std::isfinite(time);
        const RowKeys::Sort sort = is_number ? RowKeys::NUMBERS : RowKeys::DATES;
        if ((!is_number && !read_moment(text, order, moment)) || (found.sort != RowKeys::ANY && found.sort != sort)) {
            const std::string expected = found.sort == RowKeys::NUMBERS ? "a number" : "a date and time";
            const std::string either = found.sort == RowKeys::ANY ? "a number, or " : "";
            return fail(cell.begin, cell.end, either + expected + " in the column " + found.name, TIME_FORMS);
        }
        if (!is_number) time = moment.seconds;
        found.sort = sort;
        found.times.push_back(time);
        return true;
    }
};

}  // namespace fmcli

#endif
