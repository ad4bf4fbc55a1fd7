// A libFuzzer harness of the scanner of tables. The first bytes of an input choose how the table is read and what its
// columns are; the rest is its text. scripts/fuzz/text.py compiles and runs it.
//
// Beyond the sanitizers' checks, it ends the process if
// - a fault does not lie within its line,
// - the lines of features are not those of the rows, or the parser of text finds a fault in them,
// - lines that refer to entries have other rows,
// - the lines of a table in two pieces are not those of the whole, or
// - the facts of the cells of a column do not add up.
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include "fmcli/data/parser.h"
#include "fmcli/data/tables/table.h"

namespace {

using namespace fmcli;

constexpr size_t OPTION_BYTES = 6, PADDED = 64;
constexpr const char* DELIMITERS[] = {",", ";", "\t", "|", "::", "ab"};
constexpr Role ROLES[] = {Role::IGNORED, Role::CATEGORY, Role::NUMBER, Role::SEVERAL, Role::LABEL, Role::WEIGHT};
constexpr uint8_t GROUP = 6;  // in place of a role

#define REQUIRE(condition)                                                   \
    do {                                                                     \
        if (!(condition)) {                                                  \
            std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
            std::abort();                                                    \
        }                                                                    \
    } while (0)

TableForm form_of(const uint8_t* bytes, bool surveys) {
    TableForm form;
    form.delimiter = DELIMITERS[bytes[0] % 6];
    form.quoting = bytes[0] & 64;
    form.latin1 = bytes[0] & 128;
    form.separator = bytes[1] & 1 ? "|" : "  ";
    form.training = bytes[1] & 2;
    form.skip = bytes[1] & 4;
    if (bytes[1] & 8) form.missing = {"?", "NA"};
    form.apart = true;
    form.columns.resize(1 + bytes[1] / 64);
    form.timed = bytes[0] & 32;
    bool taken[7] = {};
    for (size_t i = 0; i < form.columns.size(); ++i) {
        const uint8_t role = bytes[2 + i] % 7;
        const bool again = role >= 4 && taken[role];  // there is one label, weight and group
        taken[role] = true;
        TableColumn& column = form.columns[i];
        column.role = surveys ? Role::UNKNOWN : again || role == GROUP ? Role::IGNORED : ROLES[role];
        if (role == GROUP && !surveys) form.group = static_cast<int>(i);
        column.prefix = std::string(1, static_cast<char>('a' + i)) + (column.role == Role::NUMBER ? "" : "=");
        column.expected = "a cell";
    }
    return form;
}

TableReport translated(const TableForm& form, const char* begin, const char* end, std::string& lines,
                       References* references = nullptr) {
    TableScanner scanner(form);
    Array<char> out;
    std::vector<int64_t> skipped;
    const TableReport report = scanner.translate(begin, end, out, references, skipped);
    lines.append(out.data(), out.size());
    REQUIRE(static_cast<int64_t>(skipped.size()) == (form.training || !form.skip ? 0 : report.faulty));
    REQUIRE(skipped.empty() || skipped.back() < report.rows);
    for (const TableFault& fault : report.faults) {
        REQUIRE(begin <= fault.line && fault.line <= fault.begin && fault.begin <= fault.end && fault.end <= end);
        REQUIRE(fault.line == begin || fault.line[-1] == '\n');
        REQUIRE(fault.number == std::count(begin, fault.line, '\n'));
    }
    return report;
}

struct Parsed {
    Ids ids;
    std::unique_ptr<Rows> rows;
    int64_t faulty = 0;
};

void parse(Parsed& parsed, const Reading& reading, const std::string& lines, const References* references) {
    const std::string text = lines + std::string(PADDED, '\n');
    Reading own = reading;
    own.ids = &parsed.ids;
    parsed.rows = std::make_unique<Rows>(own);
    const Found found = parse_text(*parsed.rows, text.data(), text.data() + lines.size(), references);
    parsed.faulty = found.faulty;
    for (const Fault& fault : found.faults)  // the sum of equal features may be too large
        REQUIRE(std::strstr(fault.complaint, "float32") || std::strstr(fault.complaint, "weight"));
}

template <typename T>
bool same(const Array<T>& one, const Array<T>& other) {
    return one.size() == other.size() && (!one.size() || !std::memcmp(one.data(), other.data(), one.size() * sizeof(T)));
}

void check_features(const TableForm& form, const std::string& lines, const std::string& short_lines,
                    const References& references) {
    Reading reading{};
    bool has_label = false, weighs = false;
    for (const TableColumn& column : form.columns) {
        has_label |= column.role == Role::LABEL;
        weighs |= column.role == Role::WEIGHT;
    }
    if (form.group >= 0 || (weighs && !has_label)) return;
    reading.training = form.training && has_label;
    reading.label_names = has_label;
    reading.label_weights = weighs;
    reading.skip = form.skip;
    reading.space = Space::GROWING;
    reading.limit = INT32_MAX;
    if (!reading.training && has_label) return;  // a row without a label begins with a feature that may look like one
    Parsed one, other;
    parse(one, reading, lines, nullptr);
    parse(other, reading, short_lines, &references);
    REQUIRE(one.faulty == other.faulty && one.ids.size() == other.ids.size());
    if (one.faulty && !form.skip) return;
    const Rows &a = *one.rows, &b = *other.rows;
    REQUIRE(same(a.indptr, b.indptr) && same(a.index, b.index) && same(a.value, b.value) && same(a.label, b.label));
    REQUIRE(a.repeated == b.repeated && a.by_id == b.by_id && a.skipped == b.skipped);
    for (size_t i = 0; i < one.ids.names.size(); ++i) {
        const Id left = one.ids.names.name(i), right = other.ids.names.name(i);
        REQUIRE(left.length == right.length && !std::memcmp(left.name, right.name, left.length));
        REQUIRE(one.ids.names.column(i) == other.ids.names.column(i));
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    if (size < OPTION_BYTES) return 0;
    const TableForm form = form_of(data, false), surveyed = form_of(data, true);
    std::string text(reinterpret_cast<const char*>(data + OPTION_BYTES), size - OPTION_BYTES);
    text += '\n';
    const char *begin = text.data(), *end = begin + text.size();
    std::string lines;
    const TableReport report = translated(form, begin, end, lines);
    if (!report.faulty || form.skip) {
        REQUIRE(report.lines == std::count(begin, end, '\n') || report.faulty);
        REQUIRE(std::count(lines.begin(), lines.end(), '\n') == report.rows);
        References references;
        std::string short_lines;
        translated(form, begin, end, short_lines, &references);
        check_features(form, lines, short_lines, references);
    }
    if (!report.faulty && report.rows > 1) {
        // The second row begins a piece.
        TableScanner scanner(form);
        int64_t skipped = scanner.line_of(begin, end, 1);
        const char* cut = begin;
        while (skipped--) cut = std::find(cut, end, '\n') + 1;
        std::string pieces;
        translated(form, begin, cut, pieces);
        translated(form, cut, end, pieces);
        REQUIRE(pieces == lines);
    }
    std::vector<ColumnFacts> facts(surveyed.columns.size());
    const TableReport survey = TableScanner(surveyed).survey(begin, end, facts);
    for (const ColumnFacts& one : facts) {
        REQUIRE(one.cells == survey.rows - (surveyed.skip && !surveyed.training ? survey.faulty : 0));
        REQUIRE(one.missing >= 0 && one.texts() >= 0 && one.bits <= one.whole && one.truths <= one.texts());
    }
    std::vector<std::string> cells;
    TableScanner(form).first_row(begin, end, cells);
    return 0;
}
