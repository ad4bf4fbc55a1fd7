// How a table is read, and what is wrong with one.
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

// What a column is.
enum class Role {
    IGNORED,
    LABEL,
    WEIGHT,   // of the row, a number behind the label
    CATEGORY,  // a feature NAME=CELL with the value 1
    SEVERAL,  // such a feature for each of the parts of the cell
    NUMBER,   // a feature NAME with the value of the cell
    TIME,     // NAME.month=M, NAME.weekday=D, NAME.hour=H, and NAME with the days since 1970 as its value
    VECTOR,   // features NAME[0], NAME[1], .. with the numbers in the cell as values
    UNKNOWN,  // in a survey: all its facts are counted, of a CATEGORY only what its cells are, of others nothing
};

// How the name of a category is spelled.
enum class Spelling {
    AS_IT_IS,
    WHOLE,  // all cells are whole numbers: that of 1.0 is 1
    TRUTH,  // all cells are true or false, in any case: they are in lower case
};

struct TableColumn {
    Role role = Role::IGNORED;
    std::string name;      // as text of features has it
    std::string expected;  // of a fault: "a number in the column 'age'"
    std::string prefix;    // what precedes the value or the cell in a feature: "2:age", "user="
    Spelling spelling = Spelling::AS_IT_IS;
    std::vector<std::string> missing;  // cells that are like empty ones
    bool gap_feature = false;          // a missing cell is a feature, whose name ends with =
    std::vector<std::string> means;    // what stands for a missing cell: a number, the numbers of a vector, or nothing
    std::vector<double> edges;      // of a NUMBER: where bins end, increasing; a number at an edge is in the bin before
    std::vector<std::string> bins;  // the features of the bins, one more than edges, or none
    DateOrder order = DateOrder::UNKNOWN;  // of its dates
    bool hours = false;                    // of a TIME: hours are features
    size_t length = 0;                     // of a VECTOR: the count of its numbers
};

// The features of the rows of another table, by their key.
struct JoinedRows {
    Ids keys;
    std::vector<std::string> texts;
    std::string missing;  // the features of a row whose cells are all missing
    size_t longest = 0;

    // Adds the lines that `translate` has written of its rows, with the key in place of the label. Returns the number of
    // the first row whose key there is already, or -1.
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

    // Takes the line that `translate` has written of a row without a key whose cells are all missing.
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
    bool quoting = false;              // cells may be in double quotes
    bool latin1 = false;               // bytes are characters of Latin-1; else text is UTF-8
    bool training = false;             // each row needs a label
    bool skip = false;                 // rows with faults become empty lines; else they end the work
    char decimal = 0;                  // the decimal mark of numbers in local notation; 0: numbers are plain
    bool apart = false;                // cells of different columns are never the same feature
    int group = -1;                    // the column that tells the group of a row, or -1
    bool timed = false;                // its cells are times, whose order is that of the groups
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

constexpr size_t MOST_TABLE_FAULTS = 10;  // that are described

}  // namespace fmcli

#endif
