// How a table is read, and the description of a fault in a table.
#ifndef FMCLI_FORM_H
#define FMCLI_FORM_H

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "fmcli/data/ids.h"
#include "fmcli/data/tables/times.h"

namespace fmcli {

// The role of a column.
enum class Role {
    IGNORED,
    LABEL,
    WEIGHT,   // of the row, a number after the label
    CATEGORY,  // a feature NAME=CELL with the value 1
    SEVERAL,  // a feature NAME=PART for each part of the cell
    NUMBER,   // a feature NAME with the value of the cell
    TIME,     // NAME.month=M, NAME.weekday=D, NAME.hour=H, and NAME with the days since 1970 as its value
    VECTOR,   // features NAME[0], NAME[1], .. with the numbers in the cell as values
    UNKNOWN,  // in a survey: count all facts; for a CATEGORY only the kinds of cells, for other roles nothing
};

// How the name of a category is spelled.
enum class Spelling {
    AS_IT_IS,
    WHOLE,  // all cells are integers: 1.0 is spelled 1
    TRUTH,  // all cells are true or false, in any case: spelled in lower case
};

struct TableColumn {
    Role role = Role::IGNORED;
    std::string name;      // as in text of features
    std::string expected;  // of a fault: "a number in the column 'age'"
    std::string prefix;    // the text before the value or the cell in a feature: "2:age", "user="
    Spelling spelling = Spelling::AS_IT_IS;
    std::vector<std::string> missing;  // cells that count as empty
    bool gap_feature = false;          // a missing cell is a feature, whose name ends with =
    std::vector<std::string> means;    // replacements of a missing cell: a number, the numbers of a vector, or none
    std::vector<double> edges;      // of a NUMBER: ends of bins, increasing; a number at an edge is in the lower bin
    std::vector<std::string> bins;  // the features of the bins, one more than edges, or none
    DateOrder order = DateOrder::UNKNOWN;  // of its dates
    bool hours = false;                    // of a TIME: hours are features
    size_t length = 0;                     // of a VECTOR: how many numbers it has
};

// The features of the rows of another table, by their key.
struct JoinedRows {
    Ids keys;
    std::vector<std::string> texts;
    std::string missing;  // the features of a row whose cells are all missing
    size_t longest = 0;

    // Adds the lines that `translate` wrote for its rows, with keys in place of labels. Returns the number of the first
    // row whose key already exists, or -1.
    int64_t add(const char* p, const char* end) {
        for (int64_t row = 0; p < end; ++row) {
            const char* const stop = static_cast<const char*>(std::memchr(p, '\n', static_cast<size_t>(end - p)));
            const char* const key = std::find(p, stop, ' ');
            if (static_cast<size_t>(keys.add(named(p, static_cast<size_t>(key - p)))) < texts.size()) return row;
            texts.emplace_back(key, stop);
            longest = std::max(longest, texts.back().size());
            p = stop + 1;
        }
        return -1;
    }

    // Takes the line that `translate` wrote for a row without a key whose cells are all missing.
    void set_missing(const char* p, const char* end) {
        const char* const stop = std::find(p, end, '\n');
        missing.assign(p < stop ? " " : "").append(p, stop);
        longest = std::max(longest, missing.size());
    }
};

// A column whose cells are keys of another table: a left join.
struct TableJoin {
    size_t column;
    const JoinedRows* rows;
};

// How a table is read.
struct TableForm {
    std::string delimiter, separator;  // of cells, and of the parts of a cell
    std::string header;                // without its line break; of a table without one, the names of its columns
    bool quoting = false;              // cells may be in double quotes
    bool latin1 = false;               // bytes are characters of Latin-1; otherwise text is UTF-8
    bool training = false;             // each row needs a label
    bool skip = false;                 // rows with faults become empty lines; otherwise they end the work
    char decimal = 0;                  // the decimal mark of numbers in local notation; 0: numbers are plain
    bool apart = false;                // cells of different columns are never the same feature
    int group = -1;                    // the column with the groups of rows, or -1
    bool timed = false;                // its cells are times, which order the groups
    std::string expected_group;        // of a fault: "a time in the column 'time'"
    std::vector<TableColumn> columns;
    std::vector<TableJoin> joins;
};

// A fault in a table, and its place.
struct TableFault {
    std::string expected, complaint;
    const char* line = nullptr;  // the beginning of its line
    const char* begin = nullptr;
    const char* end = nullptr;
    int64_t number = 0;  // the number of lines before it
};

struct TableReport {
    int64_t lines = 0, rows = 0, faulty = 0;
    std::vector<TableFault> faults;
};

constexpr size_t MOST_TABLE_FAULTS = 10;  // to describe

}  // namespace fmcli

#endif
