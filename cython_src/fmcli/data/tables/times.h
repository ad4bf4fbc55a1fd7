// Dates and times in text.
#ifndef FMCLI_TIMES_H
#define FMCLI_TIMES_H

#include <cstdint>
#include <string_view>
#include <utility>

#include "fmcli/data/numbers.h"

namespace fmcli {

// The first part of 03/04/2025 and 03-04-2025. UNKNOWN: dates in this form are refused.
enum class DateOrder { UNKNOWN, DAY, MONTH };

// The complaint about a text that is not a time.
inline constexpr const char* TIME_FORMS = "dates and times are as in 1997-09-20 13:05:10 or 20.09.1997";

// A time. Month, weekday (1: Monday) and hour are as written; only the seconds depend on the time zone.
struct Moment {
    double seconds = 0;  // since 1970-01-01 UTC
    int month = 0, weekday = 0, hour = 0;
    bool midnight = true;  // no other time of day is written
    bool ordered = false;  // whether the text depends on the order of day and month

    // Days since 1970-01-01 UTC.
    double days() const { return seconds / 86400; }
};

// Reads dates and times: 1997-09-20, 1997/9/20, 20.09.1997, 20-09-1997 or 9/20/1997 by the order of day and month,
// 20-Sep-1997, 20 September 1997, Sep 20, 1997; then, after T or a blank, 13:05, 13:05:10.25 or 1:05 PM; then Z, UTC or
// +02:00. Without a zone, times are UTC.
class TimeText {
  public:
    explicit TimeText(std::string_view text, DateOrder order) : text_(text), order_(order) {}

    // Returns whether the text is a time, and sets it.
    bool read(Moment& found) {
        int64_t days;
        if (!date(days, found)) return false;
        found.weekday = static_cast<int>(((days + 3) % WEEK + WEEK) % WEEK) + 1;  // 1970-01-01 was a Thursday
        found.seconds = 86400.0 * static_cast<double>(days);
        if (text_.empty()) return true;
        if (!skip('T') && !skip(' ')) return false;
        while (skip(' ')) {}
        double clock = 0;
        if (!time(clock, found)) return false;
        found.midnight = clock == 0;
        found.seconds += clock;
        return zone(found.seconds);
    }

  private:
    static constexpr int64_t WEEK = 7;

    std::string_view text_;
    DateOrder order_;

    bool skip(char c) {
        if (text_.empty() || text_[0] != c) return false;
        text_.remove_prefix(1);
        return true;
    }

    bool skip_word(const char* word) {
        std::string_view rest = text_;
        for (; *word; ++word) {
            if (rest.empty() || (rest[0] | 32) != *word) return false;
            rest.remove_prefix(1);
        }
        text_ = rest;
        return true;
    }

    // The number of the next digits, whose count is set; -1 if there are none, or too many.
    int number(int& count) {
        constexpr int MOST = 4;
        int found = 0;
        for (count = 0; !text_.empty() && is_digit(text_[0]); ++count) {
            if (count == MOST) return -1;
            found = 10 * found + (text_[0] - '0');
            text_.remove_prefix(1);
        }
        return count ? found : -1;
    }

    // The number of `count` digits, or of one digit fewer if `fewer` allows it; -1 for other characters.
    int digits(int count, bool fewer = false) {
        int found;
        const int value = number(found);
        return found == count || (fewer && found == count - 1) ? value : -1;
    }

    // Reads a date: days since 1970-01-01.
    bool date(int64_t& days, Moment& found) {
        int first_size;
        if (!is_digit(text_[0])) return month_first(days, found);
        const int first = number(first_size);
        if (first < 0 || text_.empty()) return false;
        const char mark = text_[0];
        if ((mark == '-' || mark == ' ') && text_.size() > 1 && !is_digit(text_[1])) {
            skip(mark);
            const int month = named_month();
            return first_size <= 2 && skip(mark) && count(digits(4), month, first, days, found);
        }
        if ((mark != '-' && mark != '/' && mark != '.') || !skip(mark)) return false;
        const int middle = digits(2, true);
        if (middle < 0 || !skip(mark)) return false;
        int year = first, month = middle, day;
        if (first_size == 4) {
            day = digits(2, true);
        } else {
            year = digits(4);
            day = first;
            found.ordered = mark != '.';  // with points, the day is always first
            if (first_size > 2 || (found.ordered && order_ == DateOrder::UNKNOWN)) return false;
            if (found.ordered && order_ == DateOrder::MONTH) std::swap(day, month);
        }
        return count(year, month, day, days, found);
    }

    // Reads Sep 20, 1997.
    bool month_first(int64_t& days, Moment& found) {
        const int month = named_month();
        if (month < 0 || !skip(' ')) return false;
        const int day = digits(2, true);
        skip(',');
        return skip(' ') && count(digits(4), month, day, days, found);
    }

    // The month with the English name, or first three letters of it, at the beginning of the text; -1: none.
    int named_month() {
        constexpr const char* MONTHS[] = {"january", "february", "march", "april", "may", "june", "july", "august", "september",
                                          "october", "november", "december"};
        for (int month = 0; month < 12; ++month) {
            const std::string_view name = MONTHS[month];
            if (skip_word(MONTHS[month])) return month + 1;
            const char first[] = {name[0], name[1], name[2], 0};
            if (skip_word(first)) return month + 1;
        }
        return -1;
    }

    // Sets the days from 1970-01-01 to a date, and the month. Returns whether the date exists.
    static bool count(int year, int month, int day, int64_t& days, Moment& found) {
        if (year < 1 || month < 1 || month > 12 || day < 1 || day > days_of(year, month)) return false;
        found.month = month;
        days = days_before(year, month) + day;
        return true;
    }

    // hh:mm, hh:mm:ss, or hh:mm:ss and a fraction; AM or PM may follow.
    bool time(double& clock, Moment& found) {
        int hour = digits(2, true);
        const int minute = skip(':') ? digits(2) : -1;
        if (hour < 0 || hour > 23 || minute < 0 || minute > 59) return false;
        double rest = 60.0 * minute;
        if (skip(':')) {
            const int second = digits(2);
            if (second < 0 || second > 59) return false;
            rest += second;
            if (skip('.') && !fraction(rest)) return false;
        }
        std::string_view before = text_;
        while (skip(' ')) {}
        const bool morning = skip_word("am"), evening = !morning && skip_word("pm");
        if (morning || evening) {
            if (hour < 1 || hour > 12) return false;
            hour = hour % 12 + (evening ? 12 : 0);
        } else {
            text_ = before;
        }
        found.hour = hour;
        clock = 3600.0 * hour + rest;
        return true;
    }

    // Adds the digits after a point.
    bool fraction(double& found) {
        if (text_.empty() || !is_digit(text_[0])) return false;
        for (double unit = 0.1; !text_.empty() && is_digit(text_[0]); unit /= 10) {
            found += unit * (text_[0] - '0');
            text_.remove_prefix(1);
        }
        return true;
    }

    // The rest of the text: nothing, Z, UTC, +hh, +hh:mm, or the same without the colon or with a minus.
    bool zone(double& seconds) {
        while (skip(' ')) {}
        if (text_.empty() || skip_word("z") || skip_word("utc") || skip_word("gmt")) return text_.empty();
        const bool east = skip('+');
        if (!east && !skip('-')) return false;
        int size;
        int hour = number(size), minute = 0;
        if (size == 4) {
            minute = hour % 100;
            hour /= 100;
        } else if (size != 2) {
            return false;
        } else if (skip(':')) {
            minute = digits(2);
        }
        if (hour < 0 || hour > 23 || minute < 0 || minute > 59) return false;
        seconds -= (east ? 1 : -1) * (3600.0 * hour + 60.0 * minute);
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

// Whether a text is a time; sets it.
inline bool read_moment(std::string_view text, DateOrder order, Moment& found) {
    found = Moment();
    constexpr std::string_view FIRST = "0123456789jfmasondJFMASOND";  // first characters of numbers and month names
    return !text.empty() && FIRST.find(text[0]) != std::string_view::npos && TimeText(text, order).read(found);
}

}  // namespace fmcli

#endif
