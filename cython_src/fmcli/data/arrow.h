// Writes tables that come through Arrow's C stream interface as CSV:
// https://arrow.apache.org/docs/format/CStreamInterface.html
//
// The structs follow the specification, which asks programs to define them themselves. A producer does not tell the
// sizes of its buffers; all its other statements are checked before use.
#ifndef FMCLI_ARROW_H
#define FMCLI_ARROW_H

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#ifndef ARROW_C_DATA_INTERFACE
#define ARROW_C_DATA_INTERFACE

extern "C" {

struct ArrowSchema {
    const char* format;
    const char* name;
    const char* metadata;
    int64_t flags;
    int64_t n_children;
    struct ArrowSchema** children;
    struct ArrowSchema* dictionary;
    void (*release)(struct ArrowSchema*);
    void* private_data;
};

struct ArrowArray {
    int64_t length;
    int64_t null_count;
    int64_t offset;
    int64_t n_buffers;
    int64_t n_children;
    const void** buffers;
    struct ArrowArray** children;
    struct ArrowArray* dictionary;
    void (*release)(struct ArrowArray*);
    void* private_data;
};

}  // extern "C"

#endif  // ARROW_C_DATA_INTERFACE

#ifndef ARROW_C_STREAM_INTERFACE
#define ARROW_C_STREAM_INTERFACE

extern "C" {

struct ArrowArrayStream {
    int (*get_schema)(struct ArrowArrayStream*, struct ArrowSchema* out);
    int (*get_next)(struct ArrowArrayStream*, struct ArrowArray* out);
    const char* (*get_last_error)(struct ArrowArrayStream*);
    void (*release)(struct ArrowArrayStream*);
    void* private_data;
};

}  // extern "C"

#endif  // ARROW_C_STREAM_INTERFACE

namespace fmcli {

// The kinds of cells. OTHER: cells that cannot be read.
enum class Cell : uint8_t {
    OTHER, EMPTY, BOOL, INT8, UINT8, INT16, UINT16, INT32, UINT32, INT64, UINT64, FLOAT, DOUBLE, DECIMAL,
    TEXT, LARGE_TEXT, VIEW, DAYS, MILLISECOND_DAYS, TIMESTAMP, LIST, LARGE_LIST, FIXED_LIST, DICTIONARY,
};

inline bool is_whole(Cell cell) { return cell >= Cell::INT8 && cell <= Cell::UINT64; }
// Whether no cell needs quotes.
inline bool is_plain(Cell cell) { return cell < Cell::TEXT || (cell >= Cell::DAYS && cell <= Cell::TIMESTAMP); }
inline bool is_list(Cell cell) { return cell >= Cell::LIST && cell <= Cell::FIXED_LIST; }
inline bool is_fraction(Cell cell) { return cell >= Cell::FLOAT && cell <= Cell::DECIMAL; }

// The type of a column. index : the type of a dictionary's numbers. inner : the type of a list's cells, or of a
// dictionary's (0 or 1). size : the length of a FIXED_LIST; the units per second of a TIMESTAMP. zoned : whether a
// TIMESTAMP has a time zone. A decimal is an integer of `size` bytes, divided by 10^scale.
struct ArrowType {
    Cell cell = Cell::OTHER;
    Cell index = Cell::OTHER;
    int64_t size = 0;
    bool zoned = false;
    std::vector<ArrowType> inner;
    int bytes = 0, scale = 0;
};

constexpr int MOST_DIGITS = 76;  // of a decimal of 32 bytes

// Whether cells are texts, possibly in a dictionary.
inline bool is_text(const ArrowType& type) {
    return type.cell == Cell::TEXT || type.cell == Cell::LARGE_TEXT || type.cell == Cell::VIEW ||
        (type.cell == Cell::DICTIONARY && is_text(type.inner[0]));
}

inline bool is_number(const ArrowType& type) { return type.cell >= Cell::INT8 && type.cell <= Cell::DECIMAL; }
// Whether cells are names: booleans, and entries of a dictionary.
inline bool is_name(const ArrowType& type) {
    return type.cell == Cell::BOOL || type.cell == Cell::DICTIONARY;
}

// Whether cells are vectors of numbers: lists of fractions, or lists of one common length.
inline bool is_vector(const ArrowType& type) {
    if (!is_list(type.cell)) return false;
    const Cell inner = type.inner[0].cell;
    return is_fraction(inner) || (type.cell == Cell::FIXED_LIST && is_whole(inner));
}

inline Cell plain_cell(const char* format) {
    if (!format) return Cell::OTHER;
    const std::string_view text = format;
    if (text == "vu") return Cell::VIEW;
    if (text.size() != 1) return Cell::OTHER;
    switch (text[0]) {
        case 'n': return Cell::EMPTY;
        case 'b': return Cell::BOOL;
        case 'c': return Cell::INT8;
        case 'C': return Cell::UINT8;
        case 's': return Cell::INT16;
        case 'S': return Cell::UINT16;
        case 'i': return Cell::INT32;
        case 'I': return Cell::UINT32;
        case 'l': return Cell::INT64;
        case 'L': return Cell::UINT64;
        case 'f': return Cell::FLOAT;
        case 'g': return Cell::DOUBLE;
        case 'u': return Cell::TEXT;
        case 'U': return Cell::LARGE_TEXT;
        default: return Cell::OTHER;
    }
}

// The type of "d:precision,scale" and "d:precision,scale,bits".
inline ArrowType decimal_type(std::string_view format) {
    int numbers[3] = {0, 0, 128};
    const char *p = format.data() + 2, *const end = format.data() + format.size();
    int at = 0;
    for (; at < 3 && p < end; ++at) {
        const auto read = std::from_chars(p, end, numbers[at]);
        if (read.ec != std::errc() || (read.ptr < end && *read.ptr != ',')) return {};
        p = read.ptr + (read.ptr < end);
    }
    const auto [precision, scale, bits] = numbers;
    const bool known = bits == 32 || bits == 64 || bits == 128 || bits == 256;
    if (at < 2 || p < end || !known || precision < 1 || scale < -MOST_DIGITS || scale > MOST_DIGITS) return {};
    ArrowType type;
    type.cell = Cell::DECIMAL;
    type.bytes = bits / 8, type.scale = scale;
    return type;
}

// The type of a schema; in a list, the type of its cells; in a dictionary, the type of its values.
inline ArrowType arrow_type(const ArrowSchema& schema, bool in_list = false, bool in_dictionary = false) {
    ArrowType type;
    const std::string_view format = schema.format ? schema.format : "";
    if (schema.dictionary) {
        if (in_dictionary) return {};
        type.cell = Cell::DICTIONARY;
        type.index = plain_cell(schema.format);
        type.inner.push_back(arrow_type(*schema.dictionary, true, true));
        return is_whole(type.index) && type.inner[0].cell != Cell::OTHER ? type : ArrowType();
    }
    if (format == "+l" || format == "+L") {
        if (in_list || schema.n_children != 1 || !schema.children || !schema.children[0]) return {};
        type.cell = format == "+l" ? Cell::LIST : Cell::LARGE_LIST;
        type.inner.push_back(arrow_type(*schema.children[0], true));
        return type.inner[0].cell != Cell::OTHER ? type : ArrowType();
    }
    if (format.substr(0, 2) == "d:") return decimal_type(format);
    if (format.substr(0, 3) == "+w:") {
        const char* const end = format.data() + format.size();
        if (in_list || schema.n_children != 1 || !schema.children || !schema.children[0]) return {};
        if (std::from_chars(format.data() + 3, end, type.size).ptr != end || type.size < 0) return {};
        type.cell = Cell::FIXED_LIST;
        type.inner.push_back(arrow_type(*schema.children[0], true));
        return type.inner[0].cell != Cell::OTHER ? type : ArrowType();
    }
    if (format == "tdD") type.cell = Cell::DAYS;
    else if (format == "tdm") type.cell = Cell::MILLISECOND_DAYS;
    else if (format.size() >= 4 && format.substr(0, 2) == "ts" && format[3] == ':') {
        constexpr std::string_view UNITS = "smun";
        const size_t unit = UNITS.find(format[2]);
        if (unit == std::string_view::npos) return {};
        type.cell = Cell::TIMESTAMP;
        type.size = unit == 0 ? 1 : unit == 1 ? 1000 : unit == 2 ? 1000000 : 1000000000;
        type.zoned = format.size() > 4;
    } else type.cell = plain_cell(schema.format);
    return type;
}

// A view of text: at most INLINE bytes follow the length; for longer text, these numbers do.
struct ArrowView {
    static constexpr int32_t INLINE = 12;
    int32_t length;
    char prefix[4];
    int32_t buffer;
    int32_t offset;
};

// Writes the rows of batches as lines of CSV.
class ArrowText {
public:
    std::string text;   // the text written so far
    std::string fault;  // why a batch or a row cannot be written
    int64_t column = -1;  // of the fault; -1: the fault is in the batch

    void add_column(const ArrowSchema& schema, bool read) {
        types_.push_back(arrow_type(schema));
        read_.push_back(read && types_.back().cell != Cell::OTHER);
    }

    void set_separator(const std::string& separator) { separator_ = separator; }

    // Writes a cell of text.
    void write_text(std::string_view cell) {
        if (cell.find_first_of("\",\n\r") == std::string_view::npos) {
            text.append(cell);
            return;
        }
        text.push_back('"');
        for (const char c : cell) text.append(c == '"' ? 2 : 1, c);
        text.push_back('"');
    }

    // Begins a batch; false: it does not fit the schema.
    bool begin(const ArrowArray& batch) {
        row_ = 0;
        column = -1;
        if (batch.n_children != static_cast<int64_t>(types_.size()) || (batch.n_children && !batch.children) ||
            batch.length < 0 || batch.offset < 0) {
            return fail("a batch has other columns than the schema");
        }
        if (batch.null_count != 0 && batch.n_buffers > 0 && batch.buffers && batch.buffers[0]) {
            return fail("whole rows are null");
        }
        for (size_t at = 0; at < types_.size(); ++at) {
            column = static_cast<int64_t>(at);
            if (read_[at] && !(batch.children[at] && valid(*batch.children[at], types_[at]) &&
                               batch.offset <= batch.children[at]->length - batch.length)) {
                return fail("the buffers of a batch do not fit its type");
            }
        }
        column = -1;
        return true;
    }

    // Writes rows of the batch until the text has about `limit` bytes; false: there is a fault. `rows` : counts rows.
    bool write(const ArrowArray& batch, size_t limit, int64_t& rows) {
        for (; row_ < batch.length && text.size() < limit; ++row_, ++rows) {
            const size_t begin = text.size();
            bool first = true;
            for (size_t at = 0; at < types_.size(); ++at) {
                if (!read_[at]) continue;
                if (!first) text.push_back(',');
                first = false;
                column = static_cast<int64_t>(at);
                if (!write_cell(*batch.children[at], types_[at], batch.offset + row_)) return false;
            }
            if (text.size() == begin) text.append("\"\"");  // a blank line would not be a row
            text.push_back('\n');
        }
        column = -1;
        return true;
    }

    bool ended(const ArrowArray& batch) const { return row_ >= batch.length; }

private:
    std::vector<ArrowType> types_;
    std::vector<bool> read_;
    std::string separator_ = "|";
    std::string cell_;
    int64_t row_ = 0;

    bool fail(const char* why) {
        fault = why;
        return false;
    }

    template <class T>
    static const T* buffer(const ArrowArray& array, int number) {
        return static_cast<const T*>(array.buffers[number]);
    }

    // Whether an array has the parts that its type needs.
    static bool valid(const ArrowArray& array, const ArrowType& type) {
        if (array.length < 0 || array.offset < 0 || array.offset > INT64_MAX - array.length - 1) return false;
        if (type.cell == Cell::EMPTY) return true;
        const Cell stored = type.cell == Cell::DICTIONARY ? type.index : type.cell;
        const bool is_text = stored == Cell::TEXT || stored == Cell::LARGE_TEXT;
        const int64_t least = is_text || stored == Cell::VIEW ? 3 : stored == Cell::FIXED_LIST ? 1 : 2;
        if (!array.buffers || (stored == Cell::VIEW ? array.n_buffers < least : array.n_buffers != least)) return false;
        if (least > 1 && array.length && !array.buffers[1]) return false;
        if (stored == Cell::VIEW && array.n_buffers > least && !array.buffers[array.n_buffers - 1]) return false;
        if (is_list(type.cell)) {
            return array.n_children == 1 && array.children && array.children[0] &&
                   (!type.size || array.offset + array.length <= array.children[0]->length / type.size) &&
                   valid(*array.children[0], type.inner[0]);
        }
        return type.cell != Cell::DICTIONARY || (array.dictionary && valid(*array.dictionary, type.inner[0]));
    }

    static bool is_null(const ArrowArray& array, int64_t at) {
        const uint8_t* const bits = buffer<uint8_t>(array, 0);
        return bits && !(bits[at >> 3] >> (at & 7) & 1);
    }

    // Writes the cell of a row; nothing for a null.
    bool write_cell(const ArrowArray& array, const ArrowType& type, int64_t row) {
        if (!is_list(type.cell)) {
            std::string_view found;
            if (!find(array, type, row, found)) return false;
            if (is_plain(type.cell)) {
                text.append(found);
            } else if (found.data()) {
                write_text(found);
            }
            return true;
        }
        const int64_t at = array.offset + row;
        if (is_null(array, at)) return true;
        int64_t begin = at * type.size, end = begin + type.size;
        if (type.cell != Cell::FIXED_LIST) bounds(array, type.cell == Cell::LARGE_LIST, at, begin, end);
        const ArrowArray& cells = *array.children[0];
        if (begin < 0 || begin > end || end > cells.length) return fail("a list lies outside of its cells");
        std::string joined;
        bool first = true;
        for (int64_t inner = begin; inner < end; ++inner) {
            std::string_view found;
            if (!find(cells, type.inner[0], inner, found)) return false;
            if (!found.data() && !is_vector(type)) continue;
            if (found.find(separator_) != std::string_view::npos) {
                return fail("a cell of a list has the separator in it; choose another one");
            }
            if (!first) joined += separator_;
            first = false;
            if (found.data()) joined += found;
        }
        write_text(joined);
        return true;
    }

    static void bounds(const ArrowArray& array, bool large, int64_t at, int64_t& begin, int64_t& end) {
        if (large) {
            begin = buffer<int64_t>(array, 1)[at];
            end = buffer<int64_t>(array, 1)[at + 1];
        } else {
            begin = buffer<int32_t>(array, 1)[at];
            end = buffer<int32_t>(array, 1)[at + 1];
        }
    }

    template <class T>
    bool number(const ArrowArray& array, int64_t at, std::string_view& found) {
        // Enough for the digits of any number below 2^64 and of the shortest decimal of a double.
        constexpr size_t WIDEST = 32;
        cell_.resize(WIDEST);
        const T value = buffer<T>(array, 1)[at];
        std::to_chars_result end{};
        if constexpr (std::is_floating_point_v<T>) {
            if (std::isnan(value)) return true;  // like a null
            // A larger integer may stand for several numbers, and gets an exponent, so that it is not an id.
            constexpr T LARGEST = T(1ull << std::numeric_limits<T>::digits);
            char* const last = cell_.data() + WIDEST;
            // Adding 0 turns -0 into 0.
            if (value != std::trunc(value)) end = std::to_chars(cell_.data(), last, value);
            else if (std::abs(value) < LARGEST) end = std::to_chars(cell_.data(), last, value + T(0), std::chars_format::fixed);
            else end = std::to_chars(cell_.data(), last, value, std::chars_format::scientific);
        } else {
            end = std::to_chars(cell_.data(), cell_.data() + WIDEST, value);
        }
        found = {cell_.data(), static_cast<size_t>(end.ptr - cell_.data())};
        return true;
    }

    static constexpr int64_t SECONDS = 86400, MILLISECONDS = 1000 * SECONDS;  // of a day

    static int64_t floored(int64_t value, int64_t by) { return value / by - (value % by < 0); }

    // Writes a day since 1970-01-01, and the time of a TIMESTAMP in its units, as 1997-09-20 13:05:10.25.
    bool time(int64_t days, int64_t clock, const ArrowType& type, std::string_view& found) {
        // Days are counted from March of the year 0, so leap days end years; ERA is 400 years.
        constexpr int64_t ERA = 146097, TO_1970 = 719468, FOUR_YEARS = 1460, CENTURY = 36524;
        const int64_t since = days + TO_1970, era = floored(since, ERA), day_of_era = since - era * ERA;
        const int64_t year_of_era =
            (day_of_era - day_of_era / FOUR_YEARS + day_of_era / CENTURY - day_of_era / (ERA - 1)) / 365;
        const int64_t day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        const int64_t month_from_march = (5 * day_of_year + 2) / 153;
        const int64_t day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
        const int64_t month = month_from_march < 10 ? month_from_march + 3 : month_from_march - 9;
        const int64_t year = year_of_era + 400 * era + (month <= 2);
        if (year < 1 || year > 9999) return fail("a date lies outside of the years 1 to 9999");
        cell_.clear();
        padded(year, 4, '-');
        padded(month, 2, '-');
        padded(day, 2, 0);
        if (type.cell == Cell::TIMESTAMP) {
            const int64_t seconds = clock / type.size, rest = clock % type.size;
            cell_ += ' ';
            padded(seconds / 3600, 2, ':');
            padded(seconds / 60 % 60, 2, ':');
            padded(seconds % 60, 2, 0);
            if (rest) {
                cell_ += '.';
                padded(rest, std::to_string(type.size).size() - 1, 0);
                cell_.erase(cell_.find_last_not_of('0') + 1);
            }
            if (type.zoned) cell_ += 'Z';
        }
        found = cell_;
        return true;
    }

    // The shortest text of a decimal: all of its digits, without zeros at the end of a fraction.
    bool decimal(const char* cell, const ArrowType& type, std::string_view& found) {
        constexpr uint32_t BILLION = 1000000000;
        constexpr int DIGITS = 9;  // of a number below it
        uint32_t words[8];
        const int count = type.bytes / 4;
        std::memcpy(words, cell, static_cast<size_t>(type.bytes));
        const bool negative = words[count - 1] >> 31;
        uint64_t carry = negative;
        for (int at = 0; negative && at < count; ++at, carry >>= 32) {
            carry += static_cast<uint32_t>(~words[at]);
            words[at] = static_cast<uint32_t>(carry);
        }
        cell_.clear();  // the digits, last one first
        while (std::any_of(words, words + count, [](uint32_t word) { return word != 0; })) {
            uint64_t rest = 0;
            for (int at = count; at-- > 0;) {
                rest = rest << 32 | words[at];
                words[at] = static_cast<uint32_t>(rest / BILLION);
                rest %= BILLION;
            }
            for (int digit = 0; digit < DIGITS; ++digit, rest /= 10) cell_.push_back(static_cast<char>('0' + rest % 10));
        }
        const size_t fraction = static_cast<size_t>(std::max(type.scale, 0));
        if (cell_.size() <= fraction) cell_.append(fraction + 1 - cell_.size(), '0');
        while (cell_.size() > fraction + 1 && cell_.back() == '0') cell_.pop_back();
        const size_t zeros = std::min(cell_.find_first_not_of('0'), fraction);  // at the end of the fraction
        if (fraction) cell_.insert(fraction, 1, '.');
        cell_.erase(0, zeros < fraction ? zeros : fraction + (fraction > 0));
        if (type.scale < 0 && cell_ != "0") cell_.insert(0, static_cast<size_t>(-type.scale), '0');
        if (negative) cell_.push_back('-');
        std::reverse(cell_.begin(), cell_.end());
        found = cell_;
        return true;
    }

    // Appends a number with leading zeros, and a mark unless it is 0.
    void padded(int64_t number, size_t width, char mark) {
        const std::string digits = std::to_string(number);
        cell_.append(width - std::min(width, digits.size()), '0');
        cell_ += digits;
        if (mark) cell_ += mark;
    }

    // Finds the text of a cell other than a list; `found` has no data for a null.
    bool find(const ArrowArray& array, const ArrowType& type, int64_t row, std::string_view& found) {
        const int64_t at = array.offset + row;
        found = {};
        if (type.cell == Cell::EMPTY || is_null(array, at)) return true;
        switch (type.cell) {
            case Cell::BOOL: found = buffer<uint8_t>(array, 1)[at >> 3] >> (at & 7) & 1 ? "true" : "false"; return true;
            case Cell::INT8: return number<int8_t>(array, at, found);
            case Cell::UINT8: return number<uint8_t>(array, at, found);
            case Cell::INT16: return number<int16_t>(array, at, found);
            case Cell::UINT16: return number<uint16_t>(array, at, found);
            case Cell::INT32: return number<int32_t>(array, at, found);
            case Cell::UINT32: return number<uint32_t>(array, at, found);
            case Cell::INT64: return number<int64_t>(array, at, found);
            case Cell::UINT64: return number<uint64_t>(array, at, found);
            case Cell::FLOAT: return number<float>(array, at, found);
            case Cell::DOUBLE: return number<double>(array, at, found);
            case Cell::DECIMAL: return decimal(buffer<char>(array, 1) + at * type.bytes, type, found);
            case Cell::DAYS: return time(buffer<int32_t>(array, 1)[at], 0, type, found);
            case Cell::MILLISECOND_DAYS: return time(floored(buffer<int64_t>(array, 1)[at], MILLISECONDS), 0, type, found);
            case Cell::TIMESTAMP: {
                const int64_t value = buffer<int64_t>(array, 1)[at], day = SECONDS * type.size;
                const int64_t days = floored(value, day);
                return time(days, value - days * day, type, found);
            }
            case Cell::TEXT:
            case Cell::LARGE_TEXT: return find_text(array, type.cell == Cell::LARGE_TEXT, at, found);
            case Cell::VIEW: return find_view(array, at, found);
            case Cell::DICTIONARY: return find_value(array, type, at, found);
            default: return fail("a cell has another type than its column");
        }
    }

    bool find_text(const ArrowArray& array, bool large, int64_t at, std::string_view& found) {
        int64_t begin, end, before_last, last;
        bounds(array, large, at, begin, end);
        // The last offset is the size of the buffer, the only size that the producer of a batch tells.
        bounds(array, large, array.offset + array.length - 1, before_last, last);
        const char* const data = buffer<char>(array, 2);
        if (begin < 0 || begin > end || end > last || (begin < end && !data)) return fail("text lies outside of its buffer");
        found = begin < end ? std::string_view(data + begin, static_cast<size_t>(end - begin)) : std::string_view("");
        return true;
    }

    bool find_view(const ArrowArray& array, int64_t at, std::string_view& found) {
        const ArrowView* const place = buffer<ArrowView>(array, 1) + at;
        ArrowView view;
        std::memcpy(&view, place, sizeof view);
        const char* data = place->prefix;
        if (view.length > ArrowView::INLINE) {
            const int64_t buffers = array.n_buffers - 3;  // without nulls, views and sizes
            if (view.buffer < 0 || view.buffer >= buffers) return fail("text lies outside of its buffer");
            const int64_t size = static_cast<const int64_t*>(array.buffers[array.n_buffers - 1])[view.buffer];
            data = static_cast<const char*>(array.buffers[2 + view.buffer]);
            if (!data || view.offset < 0 || int64_t(view.offset) + view.length > size) {
                return fail("text lies outside of its buffer");
            }
            data += view.offset;
        }
        if (view.length < 0) return fail("text lies outside of its buffer");
        found = {data, static_cast<size_t>(view.length)};
        return true;
    }

    template <class T>
    static int64_t index(const ArrowArray& array, int64_t at) {
        const T value = buffer<T>(array, 1)[at];
        return value > T(0) && uint64_t(value) > uint64_t(INT64_MAX) ? -1 : static_cast<int64_t>(value);
    }

    static int64_t index(const ArrowArray& array, Cell cell, int64_t at) {
        switch (cell) {
            case Cell::INT8: return index<int8_t>(array, at);
            case Cell::UINT8: return index<uint8_t>(array, at);
            case Cell::INT16: return index<int16_t>(array, at);
            case Cell::UINT16: return index<uint16_t>(array, at);
            case Cell::INT32: return index<int32_t>(array, at);
            case Cell::UINT32: return index<uint32_t>(array, at);
            case Cell::INT64: return index<int64_t>(array, at);
            default: return index<uint64_t>(array, at);
        }
    }

    bool find_value(const ArrowArray& array, const ArrowType& type, int64_t at, std::string_view& found) {
        const int64_t value = index(array, type.index, at);
        if (value < 0 || value >= array.dictionary->length) return fail("a number lies outside of its dictionary");
        return find(*array.dictionary, type.inner[0], value, found);
    }
};

}  // namespace fmcli

#endif  // FMCLI_ARROW_H
