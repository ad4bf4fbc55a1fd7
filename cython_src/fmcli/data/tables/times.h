// Dates and times in text.
#ifndef FMCLI_TIMES_H
#define FMCLI_TIMES_H

#include <cmath>
#include <cstdint>
#include <string_view>

#include "fmcli/data/numbers.h"

namespace fmcli {

// Reads the dates and times of ISO 8601 that data have: 1997-09-20, 1997-09-20 13:05, 1997-09-20T13:05:10.25Z, +02:00.
// Without a zone, they are UTC.
class TimeText {
  public:
    explicit TimeText(std::string_view text) : text_(text) {}

    // Sets the seconds since 1970-01-01. Returns whether the text is a time.
    bool seconds(double& found) {
        const int year = digits(4);
        const int month = skip('-') ? digits(2) : -1;
        const int day = skip('-') ? digits(2) : -1;
        if (year < 0 || month < 1 || month > 12 || day < 1 || day > days_of(year, month)) return false;
        found = 86400.0 * static_cast<double>(days_before(year, month) + day);
        if (text_.empty()) return true;
        if (!skip('T') && !skip(' ')) return false;
        double clock = 0;
        if (!time(clock)) return false;
        found += clock;
        return text_.empty() || zone(found);
    }

  private:
    std::string_view text_;

    bool skip(char c) {
        if (text_.empty() || text_[0] != c) return false;
        text_.remove_prefix(1);
        return true;
    }

    // The number that so many digits make, or -1.
    int digits(size_t count) {
        if (text_.size() < count) return -1;
        int number = 0;
        for (size_t i = 0; i < count; ++i) {
            if (!is_digit(text_[i])) return -1;
            number = 10 * number + (text_[i] - '0');
        }
        text_.remove_prefix(count);
        return number;
    }

    // hh:mm, hh:mm:ss, or hh:mm:ss and a fraction.
    bool time(double& found) {
        const int hour = digits(2), minute = skip(':') ? digits(2) : -1;
        if (hour < 0 || hour > 23 || minute < 0 || minute > 59) return false;
        found = 3600.0 * hour + 60.0 * minute;
        if (!skip(':')) return true;
        const int second = digits(2);
        if (second < 0 || second > 59) return false;
        found += second;
        if (!skip('.')) return true;
        if (text_.empty() || !is_digit(text_[0])) return false;
        for (double unit = 0.1; !text_.empty() && is_digit(text_[0]); unit /= 10) {
            found += unit * (text_[0] - '0');
            text_.remove_prefix(1);
        }
        return true;
    }

    // Z, +hh:mm, -hh:mm, or the same without the colon: the rest of the text.
    bool zone(double& found) {
        if (skip('Z')) return text_.empty();
        const bool east = skip('+');
        if (!east && !skip('-')) return false;
        const int hour = digits(2);
        skip(':');
        const int minute = digits(2);
        if (hour < 0 || hour > 23 || minute < 0 || minute > 59) return false;
        found -= (east ? 1 : -1) * (3600.0 * hour + 60.0 * minute);
        return text_.empty();
    }

    static bool is_leap(int year) { return year % 4 == 0 && (year % 100 || year % 400 == 0); }

    static int days_of(int year, int month) {
        constexpr int DAYS[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
        return DAYS[month - 1] + (month == 2 && is_leap(year));
    }

    // Days from 1970-01-01 to the day before a month.
    static int64_t days_before(int year, int month) {
        constexpr int64_t FIRST = 719162;  // days of the years 1 to 1969
        const int64_t past = year - 1;
        int64_t days = 365 * past + past / 4 - past / 100 + past / 400 - FIRST - 1;
        for (int one = 1; one < month; ++one) days += days_of(year, one);
        return days;
    }
};

// Reads a time: a number, or a date and time. Returns whether the text is one.
inline bool read_time(std::string_view text, double& time) {
    if (text.empty()) return false;
    if (!read_number(text.data(), text.data() + text.size(), time)) return std::isfinite(time);
    return TimeText(text).seconds(time);
}

}  // namespace fmcli

#endif
