// A libFuzzer harness of the scanner of tables. The first bytes of an input choose how the table is read and what its
// columns are; the rest is its text, which is read in eight ways: with and without quotes, in training or not, and with
// rows that are skipped or not. scripts/fuzz/text.py compiles and runs it.
//
// Beyond the sanitizers' checks, it ends the process if
// - a fault does not lie within its line,
// - the lines of features do not match the rows, or the parser of text finds a fault in them,
// - the entries of the rows are not the entries that the parser finds in these lines,
// - the lines of a table in two pieces differ from the lines of the whole, or
// - the facts of the cells of a column do not add up.
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <memory>
#include <string>

#include "fmcli/data/text/parser.h"
#include "fmcli/data/tables/features.h"
#include "fmcli/data/tables/row_keys.h"
#include "fmcli/data/tables/survey.h"
#include "fmcli/data/tables/table_entries.h"

namespace {

using namespace fmcli;

constexpr size_t OPTION_BYTES = 7, PADDED = 64, LONGEST_LINE = 40;
constexpr const char* DELIMITERS[] = {",", ";", "\t", "|", "::", "ab"};
constexpr Role ROLES[] = {Role::IGNORED, Role::CATEGORY, Role::NUMBER, Role::SEVERAL, Role::TIME,
                          Role::VECTOR,  Role::LABEL,    Role::WEIGHT};
constexpr uint8_t LABEL = 6, GROUP = 8, ALL = 9;  // in place of a role; from LABEL on, a table has one of each
constexpr char DECIMALS[] = {0, ',', '.'};
constexpr size_t LENGTHS[] = {3, 100};  // of vectors
constexpr uint8_t QUOTING = 64, TRAINING = 2, SKIPPING = 4;  // bits of the first two bytes

#define REQUIRE(condition)                                                   \
    do {                                                                     \
        if (!(condition)) {                                                  \
            std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
            std::abort();                                                    \
        }                                                                    \
    } while (0)

// The rows of another table with the keys a and 1, and the features of its missing cells.
const JoinedRows& joined_rows() {
    static JoinedRows rows;
    static const std::string lines = "a y=b:1 z:2.5\n1 y=b:1\n";
    static const bool unique = rows.add(lines.data(), lines.data() + lines.size()) < 0;
    if (rows.missing.empty()) {
        static const std::string missing = "y=:1 z:-0.5\n";
        rows.set_missing(missing.data(), missing.data() + missing.size());
    }
    REQUIRE(unique);
    return rows;
}

TableForm form_of(const uint8_t* bytes, bool surveys) {
    TableForm form;
    form.delimiter = DELIMITERS[bytes[0] % 6];
    form.quoting = bytes[0] & QUOTING;
    form.latin1 = bytes[0] & 128;
    form.separator = bytes[1] & 1 ? "|" : "  ";
    form.training = bytes[1] & TRAINING;
    form.skip = bytes[1] & SKIPPING;
    form.decimal = DECIMALS[bytes[6] % 3];
    form.apart = true;
    form.columns.resize(1 + bytes[1] / 64);
    form.timed = bytes[0] & 32;
    bool taken[ALL] = {};
    for (size_t i = 0; i < form.columns.size(); ++i) {
        const uint8_t role = bytes[2 + i] % ALL;
        const bool again = role >= LABEL && taken[role];
        taken[role] = true;
        TableColumn& column = form.columns[i];
        column.role = surveys ? Role::UNKNOWN : again || role == GROUP ? Role::IGNORED : ROLES[role];
        if (role == GROUP && !surveys) form.group = static_cast<int>(i);
        column.prefix = std::string(1, static_cast<char>('a' + i)) + (column.role >= Role::NUMBER ? "" : "=");
        column.expected = "a cell";
        column.spelling = static_cast<Spelling>(bytes[2 + i] / ALL % 3);
        column.order = static_cast<DateOrder>(bytes[6] / 3 % 3);
        column.hours = bytes[6] & 32;
        if (bytes[1] & 8) column.missing = {"?", "NA"};
        column.gap_feature = bytes[1] & 16;
        if (column.role == Role::VECTOR) column.length = LENGTHS[bytes[6] >> 7];
        if (column.role >= Role::NUMBER && bytes[6] & 64) column.means.assign(std::max<size_t>(1, column.length), "-1234.5678");
        if (column.role == Role::NUMBER && bytes[1] & 32) {
            column.edges = {0, 2.5};
            column.bins = {column.prefix + "=..0", column.prefix + "=0..2.5", column.prefix + "=2.5.."};
        }
    }
    if (bytes[5] & 128 && !surveys) form.joins = {{0, &joined_rows()}};
    return form;
}

void check_fault(const TableFault& fault, const char* begin, const char* end) {
    REQUIRE(begin <= fault.line && fault.line <= fault.begin && fault.begin <= fault.end && fault.end <= end);
    REQUIRE(fault.line == begin || fault.line[-1] == '\n');
    REQUIRE(fault.number == std::count(begin, fault.line, '\n'));
}

void check_report(const TableForm& form, const TableReport& report, const std::vector<int64_t>& skipped, const char* begin,
                  const char* end) {
    REQUIRE(static_cast<int64_t>(skipped.size()) == (form.training || !form.skip ? 0 : report.faulty));
    REQUIRE(skipped.empty() || skipped.back() < report.rows);
    for (const TableFault& fault : report.faults) check_fault(fault, begin, end);
}

TableReport translated(const TableForm& form, const char* begin, const char* end, std::string& lines) {
    Array<char> out;
    std::vector<int64_t> skipped;
    const TableReport report = TableLines(form).translate(begin, end, out, skipped);
    lines.append(out.data(), out.size());
    check_report(form, report, skipped, begin, end);
    return report;
}

bool same_report(const TableReport& one, const TableReport& other) {
    if (one.lines != other.lines || one.rows != other.rows || one.faulty != other.faulty) return false;
    return std::equal(one.faults.begin(), one.faults.end(), other.faults.begin(), other.faults.end(),
                      [](const TableFault& a, const TableFault& b) {
                          return a.begin == b.begin && a.end == b.end && a.number == b.number && a.complaint == b.complaint;
                      });
}

struct Parsed {
    Ids ids;
    std::unique_ptr<Rows> rows;

    explicit Parsed(Reading reading) {
        reading.ids = &ids;
        rows = std::make_unique<Rows>(reading);
    }
};

template <typename T>
bool same(const Array<T>& one, const Array<T>& other) {
    return one.size() == other.size() && (!one.size() || !std::memcmp(one.data(), other.data(), one.size() * sizeof(T)));
}

// Sorts the entries of each row; no entry is there twice.
void sort_rows(Rows& rows) {
    for (size_t row = 0; row + 1 < rows.indptr.size(); ++row) {
        const size_t begin = static_cast<size_t>(rows.indptr[row]), end = static_cast<size_t>(rows.indptr[row + 1]);
        std::vector<std::pair<int32_t, float>> entries;
        for (size_t i = begin; i < end; ++i) entries.emplace_back(rows.index[i], rows.valued ? rows.value[i] : 1);
        std::sort(entries.begin(), entries.end());
        for (size_t i = begin; i < end; ++i) {
            rows.index[i] = entries[i - begin].first;
            if (rows.valued) rows.value[i] = entries[i - begin].second;
        }
    }
}

void check_features(const TableForm& form, const std::string& lines, const NumberedRows& numbered) {
    Reading reading{};
    bool has_label = false, weighs = false;
    for (const TableColumn& column : form.columns) {
        has_label |= column.role == Role::LABEL;
        weighs |= column.role == Role::WEIGHT;
    }
    if (weighs && !has_label) return;
    reading.training = form.training && has_label;
    if (!reading.training && (has_label || form.group >= 0)) return;  // the first feature of a row may look like a label
    reading.label_names = has_label;
    reading.label_weights = weighs;
    reading.groups = form.group >= 0 ? Groups::QUERY : Groups::NONE;
    reading.space = Space::GROWING;
    reading.limit = INT32_MAX;
    Parsed one(reading), other(reading);
    const std::string text = lines + std::string(PADDED, '\n');
    const Found found = parse_text(*one.rows, text.data(), text.data() + lines.size());
    REQUIRE(append_numbered(*other.rows, numbered) == !found.faulty);
    for (const Fault& fault : found.faults) REQUIRE(std::strstr(fault.complaint, "weight") || std::strstr(fault.complaint, "large"));
    if (found.faulty) return;
    Rows &a = *one.rows, &b = *other.rows;
    if (numbered.repeated)  // lines have any order of entries
        for (Rows* rows : {&a, &b}) sort_rows(*rows);
    REQUIRE(same(a.indptr, b.indptr) && same(a.index, b.index) && same(a.value, b.value) && same(a.label, b.label));
    REQUIRE(same(a.weight, b.weight) && same(a.group, b.group));
    REQUIRE(a.repeated == b.repeated && a.by_id == b.by_id && a.valued == b.valued && a.labeled == b.labeled);
    REQUIRE(one.ids.size() == other.ids.size());
    for (size_t i = 0; i < one.ids.names.size(); ++i) {
        const Id left = one.ids.names.name(i), right = other.ids.names.name(i);
        REQUIRE(left.length == right.length && !std::memcmp(left.name, right.name, left.length));
        REQUIRE(one.ids.names.column(i) == other.ids.names.column(i));
    }
}

void check(const uint8_t* options, const std::string& text) {
    const TableForm form = form_of(options, false), surveyed = form_of(options, true);
    const char *begin = text.data(), *end = begin + text.size();
    std::string lines;
    const TableReport report = translated(form, begin, end, lines);
    if (!report.faulty || form.skip) {
        REQUIRE(report.lines == std::count(begin, end, '\n') || report.faulty);
        REQUIRE(std::count(lines.begin(), lines.end(), '\n') == report.rows);
        NumberedRows numbered;
        std::vector<int64_t> skipped;
        const TableReport again = TableEntries(form).read(begin, end, numbered, skipped);
        check_report(form, again, skipped, begin, end);
        REQUIRE(same_report(report, again) && static_cast<int64_t>(numbered.size()) == report.rows);
        check_features(form, lines, numbered);
    }
    if (!report.faulty && report.rows > 1) {
        // Any row but the first one may begin a piece.
        const int64_t row = 1 + static_cast<int64_t>(text.size()) % (report.rows - 1);
        const char* const cut = TableLines(form).place_of(begin, end, row, std::numeric_limits<int64_t>::max()).begin;
        const TableFault cell = TableLines(form).place_of(begin, end, row, static_cast<int64_t>(text.size() % LONGEST_LINE));
        check_fault(cell, begin, end);
        REQUIRE(cut <= cell.begin);
        std::string pieces;
        translated(form, begin, cut, pieces);
        translated(form, cut, end, pieces);
        REQUIRE(pieces == lines);
    }
    std::vector<ColumnFacts> facts(surveyed.columns.size());
    const TableReport survey = Survey(surveyed).survey(begin, end, facts);
    for (const ColumnFacts& one : facts) {
        REQUIRE(one.cells == survey.rows - (surveyed.skip && !surveyed.training ? survey.faulty : 0));
        REQUIRE(one.missing >= 0 && one.texts() >= 0 && one.bits <= one.whole && one.truths <= one.texts());
    }
    std::vector<std::string> cells;
    KeyReader(form).first_row(begin, end, cells);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    if (size < OPTION_BYTES) return 0;
    const std::string text = std::string(data + OPTION_BYTES, data + size) + '\n';
    uint8_t options[OPTION_BYTES];
    std::copy_n(data, OPTION_BYTES, options);
    for (uint8_t way = 0; way < 8; ++way) {
        options[0] = data[0] ^ (way & 1 ? QUOTING : 0);
        options[1] = data[1] ^ (way & 2 ? TRAINING : 0) ^ (way & 4 ? SKIPPING : 0);
        check(options, text);
    }
    return 0;
}
