// Numbers in local notation: 1.067,64 and 195,22, or 1,067.64, $5.50 and 12%.
#ifndef FMCLI_LOCAL_NUMBERS_H
#define FMCLI_LOCAL_NUMBERS_H

#include <string>
#include <string_view>

#include "fmcli/data/numbers.h"

namespace fmcli {

// Reads a number whose decimal mark is a point or a comma; the other mark, a blank or an apostrophe may group the
// digits before it. A currency sign or % beside the number has no effect: 12% is 12.
class LocalNumber {
  public:
    explicit LocalNumber(char decimal) : decimal_(decimal), other_(decimal == ',' ? '.' : ',') {}

    // Returns whether a text is a number; writes the number to `plain` in standard notation.
    bool read(std::string_view text, std::string& plain) const {
        plain.clear();
        bool negative = text.size() > 2 && text.front() == '(' && text.back() == ')';  // as in accounting
        if (negative) text = text.substr(1, text.size() - 2);
        sign(text, negative);
        if (skip_currency(text)) sign(text, negative);
        if (negative) plain = "-";
        size_t digits = 0;
        if (!whole(text, plain, digits)) return false;
        if (!text.empty() && text[0] == decimal_) {
            plain += '.';
            text.remove_prefix(1);
            const size_t behind = take_digits(text, plain);
            if (!behind && decimal_ == ',') return false;  // 320. is always a number, but 320, may be a list
            digits += behind;
        }
        return digits > 0 && exponent(text, plain) && behind(text);
    }

  private:
    static constexpr size_t GROUP = 3;  // digits; all groups but the last may also have two, as in India

    char decimal_, other_;

    static bool skip(std::string_view& text, std::string_view mark) {
        if (text.substr(0, mark.size()) != mark) return false;
        text.remove_prefix(mark.size());
        return true;
    }

    // A blank, a non-breaking blank, or a narrow one.
    static bool skip_blank(std::string_view& text) {
        return skip(text, " ") || skip(text, "\xc2\xa0") || skip(text, "\xe2\x80\xaf");
    }

    static bool skip_currency(std::string_view& text) {
        std::string_view rest = text;
        while (skip_blank(rest)) {}
        // In UTF-8: pound, yen, euro, rupee, won. In Latin-1, euro, pound and yen are one byte.
        for (const char* mark : {"$", "\xc2\xa3", "\xc2\xa5", "\xe2\x82\xac", "\xe2\x82\xb9", "\xe2\x82\xa9", "\x80", "\xa3", "\xa5"}) {
            if (!skip(rest, mark)) continue;
            while (skip_blank(rest)) {}
            text = rest;
            return true;
        }
        return false;
    }

    static void sign(std::string_view& text, bool& negative) {
        if (!skip(text, "+")) negative ^= skip(text, "-") || skip(text, "\xe2\x88\x92");
    }

    static size_t take_digits(std::string_view& text, std::string& plain) {
        size_t count = 0;
        for (; !text.empty() && is_digit(text[0]); text.remove_prefix(1), ++count) plain += text[0];
        return count;
    }

    // Skips the separator of two groups of digits: `mark`, or any mark, which is then set.
    bool skip_mark(std::string_view& text, std::string_view& mark) const {
        std::string_view rest = text;
        const bool found = mark.empty()
            ? skip(rest, {&other_, 1}) || skip(rest, "'") || skip(rest, "\xe2\x80\x99") || skip_blank(rest)
            : skip(rest, mark);
        if (!found || rest.empty() || !is_digit(rest[0])) return false;
        mark = text.substr(0, text.size() - rest.size());
        text = rest;
        return true;
    }

    // Reads the digits before the decimal mark, and adds their number to `digits`. Further groups follow only a first
    // group that does not begin with 0.
    bool whole(std::string_view& text, std::string& plain, size_t& digits) const {
        std::string_view mark;
        const bool zero = !text.empty() && text[0] == '0';
        size_t usual = 0;
        for (size_t groups = 0;; ++groups) {
            const size_t size = take_digits(text, plain);
            digits += size;
            const bool ends = !size || size > GROUP || !skip_mark(text, mark);
            if (ends) return groups == 0 || size == GROUP;
            if (groups == 0 ? zero : size < 2 || (groups > 1 && size != usual)) return false;
            usual = size;
        }
    }

    static bool exponent(std::string_view& text, std::string& plain) {
        if (text.empty() || (text[0] | 32) != 'e') return true;
        plain += 'e';
        text.remove_prefix(1);
        if (!text.empty() && (text[0] == '-' || text[0] == '+')) {
            plain += text[0];
            text.remove_prefix(1);
        }
        return take_digits(text, plain) > 0;
    }

    static bool behind(std::string_view text) {
        if (text.empty()) return true;
        while (skip_blank(text)) {}
        return skip(text, "%") ? text.empty() : skip_currency(text) && text.empty();
    }
};

}  // namespace fmcli

#endif
