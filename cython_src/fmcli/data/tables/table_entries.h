// Rows of a table as numbers of their entries. Only the first cell with a text writes its entries.
#ifndef FMCLI_TABLE_ENTRIES_H
#define FMCLI_TABLE_ENTRIES_H

#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "fmcli/data/tables/features.h"
#include "fmcli/data/text/numbered.h"

namespace fmcli {

class TableEntries : public FeatureWriter {
  public:
    using FeatureWriter::FeatureWriter;

    // Sets `rows` to the rows in [begin, end), the same that the parser of text makes of the lines of `TableLines`. The
    // numbers of rows that stand for rows with faults are added to `skipped`. Cells of different columns must never be
    // the same feature.
    TableReport read(const char* begin, const char* end, NumberedRows& rows, std::vector<int64_t>& skipped) {
        rows_ = &rows;
        rows.clear();
        rows.weighted = weight_ >= 0;
        rows.grouped = form_.group >= 0;
        rows.valued = !form_.joins.empty();
        rows.repeated = false;
        for (const size_t i : features_) {
            const TableColumn& column = form_.columns[i];
            rows.valued |= column.role >= Role::NUMBER && column.bins.empty();
            rows.repeated |= column.role == Role::SEVERAL;
        }
        forget(begin, end);
        return each_row(begin, end, [&](const char* line, const char* next) {
            room_.reserve(most_bytes(static_cast<size_t>(next - line)));
            out_ = begun_ = room_.data();
            const size_t labels = rows.labels.size(), entries = rows.entries.size(), entry = rows.entry.size();
            if (read_row_entries()) return true;
            rows.entry.resize(entry);
            if (rows.valued) rows.value.resize(entry);
            if (labels < rows.labels.size() || entries < rows.entries.size()) {
                rows.labels.cut(labels);
                rows.entries.cut(entries);
                forget(begin, end);
            }
            return false;
        }, [&](const char*, const char*) {
            if (form_.training) return;
            skipped.push_back(static_cast<int64_t>(rows.size()));
            rows.end_row(NumberedRows::NONE, 1, 0);
        });
    }

  private:
    // The number of a cell without an entry.
    static constexpr int32_t NOTHING = -1;
    // The parts of a time (month, weekday and hour), and the room for each part's entries.
    static constexpr size_t TIME_PARTS = 3, PART = 24;

    // The entries of a row of another table.
    struct JoinedEntries {
        size_t begin, end;
        bool missing;  // whether the other table lacks the row
    };

    NumberedRows* rows_ = nullptr;
    Array<char> room_;                        // for the text of an entry
    RecentCells recent_;                      // the numbers of the cells' entries
    std::vector<std::vector<int32_t>> once_;  // of each column, the entries of its bins, of its times' parts, or of its
                                              // vector; then the entry of its number
    std::vector<int32_t> missing_;            // of each column
    std::vector<JoinedEntries> joined_;
    std::vector<int32_t> joined_entry_;
    std::vector<float> joined_value_;

    void forget(const char* begin, const char* end) {
        recent_.start(end - begin);
        once_.assign(form_.columns.size(), {});
        for (const size_t i : features_) once_[i].assign(entries_of(form_.columns[i]), RecentCells::UNKNOWN);
        missing_.assign(form_.columns.size(), RecentCells::UNKNOWN);
        joined_.clear();
        joined_entry_.clear();
        joined_value_.clear();
    }

    // The number of entries of a column that do not depend on its cells.
    static size_t entries_of(const TableColumn& column) {
        return (column.role == Role::TIME ? TIME_PARTS * PART : column.role == Role::VECTOR ? column.length : column.bins.size()) + 1;
    }

    bool read_row_entries() {
        int32_t label = NumberedRows::NONE;
        double weight = 1;
        uint64_t group = 0;
        if ((label_ >= 0 && !read_label(label, weight)) || (form_.group >= 0 && !read_group(group))) return false;
        for (const size_t i : features_) {
            const TableColumn& column = form_.columns[i];
            const bool good = column.role == Role::CATEGORY ? add_category(i, column)
                : column.role == Role::NUMBER               ? add_number(i, column)
                : column.role == Role::TIME                 ? add_time(i, column)
                : column.role == Role::VECTOR               ? add_vector(i, column)
                                                            : add_names(i, column);
            if (!good) return false;
        }
        for (size_t i = 0; i < form_.joins.size(); ++i)
            if (!add_joined(i)) return false;
        rows_->end_row(label, weight, static_cast<int64_t>(group));
        return true;
    }

    void add(int32_t entry, float value = 1) {
        rows_->entry.push(entry);
        if (rows_->valued) rows_->value.push(value);
    }

    // Adds the entry that `write` writes, unless its number is known.
    template <class Write>
    bool add(int32_t& entry, float value, Write write) {
        if (entry == RecentCells::UNKNOWN) {
            out_ = begun_;
            if (!write()) return false;
            entry = rows_->entries.add(begun_, static_cast<size_t>(out_ - begun_));
        }
        add(entry, value);
        return true;
    }

    bool read_label(int32_t& number, double& weight) {
        const Cell& cell = cells_[static_cast<size_t>(label_)];
        int32_t& recent = recent_.find(static_cast<size_t>(label_), cell.begin, cell.end, end_);
        if (recent == RecentCells::UNKNOWN) {
            bool missing;
            std::string_view text;
            if (!find_label(text, missing)) return false;
            out_ = begun_;
            if (!missing && !write_name(cell, text, true)) return false;
            recent = missing ? NumberedRows::NONE : rows_->labels.add(begun_, static_cast<size_t>(out_ - begun_));
        }
        number = recent;
        std::string_view text;
        return number == NumberedRows::NONE || weight_ < 0 || read_weight(text, weight);
    }

    bool add_category(size_t i, const TableColumn& column) {
        const Cell& cell = cells_[i];
        int32_t& recent = recent_.find(i, cell.begin, cell.end, end_);
        if (recent == NOTHING) return true;
        if (recent != RecentCells::UNKNOWN) {
            add(recent);
            return true;
        }
        const std::string_view text = trimmed(cell);
        if (!is_missing(column, text)) return add(recent, 1, [&] { return write_feature(column, cell, text); });
        if (!column.gap_feature) recent = NOTHING;
        return add_missing(i, column);
    }

    // Adds the entries that `write_missing` writes.
    bool add_missing(size_t i, const TableColumn& column) {
        return fill(i, [&](size_t at, float value, std::string_view text) { return add_at(i, column, at, value, text); },
                    [&] { return add(missing_[i], 1, [&] { return write_gap(column); }); });
    }

    bool add_number(size_t i, const TableColumn& column) {
        const Cell& cell = cells_[i];
        std::string_view text = trimmed(cell);
        if (is_missing(column, text)) return add_missing(i, column);
        float value;
        return read_value(column, cell, text, value) && add_value(i, column, value, text);
    }

    // Adds the entry that `write_value` writes.
    bool add_value(size_t i, const TableColumn& column, float value, std::string_view text) {
        if (!column.bins.empty()) {
            const size_t bin = bin_of(column, text);
            return add(once_[i][bin], 1, [&] {
                write_bin(column, bin);
                return true;
            });
        }
        return value == 0 || add(once_[i].back(), value, [&] {
            put(column.prefix.data(), column.prefix.size());
            put(":1", 2);
            return true;
        });
    }

    bool add_time(size_t i, const TableColumn& column) {
        const Cell& cell = cells_[i];
        const std::string_view text = trimmed(cell);
        if (is_missing(column, text)) return add_missing(i, column);
        Moment moment;
        if (!find_moment(column, cell, text, moment)) return false;
        size_t first = 0;
        each_part_of(column, moment, [&](const char* name, int number) {
            int32_t& entry = once_[i][first + static_cast<size_t>(number) % PART];
            first += PART;
            return add(entry, 1, [&] {
                write_part_of(column, name, number);
                return true;
            });
        });
        return add_value(i, column, static_cast<float>(moment.days()), {});
    }

    bool add_vector(size_t i, const TableColumn& column) {
        const Cell& cell = cells_[i];
        const std::string_view text = trimmed(cell);
        if (is_missing(column, text)) return add_missing(i, column);
        return each_number(column, cell, text, [&](size_t at, std::string_view number, float value) {
            return add_at(i, column, at, value, number);
        });
    }

    // Adds the entry that `write_at` writes.
    bool add_at(size_t i, const TableColumn& column, size_t at, float value, std::string_view text) {
        if (column.role != Role::VECTOR) return add_value(i, column, value, text);
        return value == 0 || add(once_[i][at], value, [&] {
            write_place(column, at);
            *out_++ = '1';
            return true;
        });
    }

    bool add_names(size_t i, const TableColumn& column) {
        const Cell& cell = cells_[i];
        const std::string_view text = trimmed(cell);
        if (is_missing(column, text)) return add_missing(i, column);
        return each_name(text, [&](std::string_view one) {
            int32_t unknown = RecentCells::UNKNOWN;
            int32_t& recent = cell.doubled ? unknown : recent_.find(i, one.data(), one.data() + one.size(), end_);
            return add(recent, 1, [&] { return write_feature(column, cell, one); });
        });
    }

    bool add_joined(size_t i) {
        const TableJoin& join = form_.joins[i];
        const Cell& cell = cells_[join.column];
        int32_t& recent = recent_.find(form_.columns.size() + i, cell.begin, cell.end, end_);
        if (recent == RecentCells::UNKNOWN) {
            const std::string* text;
            out_ = begun_;
            if (!find_joined(join, text)) return false;
            const size_t begin = joined_entry_.size();
            read_joined(*text);
            recent = static_cast<int32_t>(joined_.size());
            joined_.push_back({begin, joined_entry_.size(), text == &join.rows->missing});
        }
        const JoinedEntries& entries = joined_[static_cast<size_t>(recent)];
        unmatched_[i] += entries.missing;
        for (size_t k = entries.begin; k < entries.end; ++k) add(joined_entry_[k], joined_value_[k]);
        return true;
    }

    // Reads the entries in the text of a row of another table: each follows a blank, and has a value.
    void read_joined(const std::string& text) {
        for (size_t at = 0; at < text.size();) {
            const size_t begin = at + 1;
            at = std::min(text.find(' ', begin), text.size());
            const size_t colon = text.rfind(':', at - 1) + 1;
            float value = 0;
            read_number(text.data() + colon, text.data() + at, value);
            std::memcpy(begun_, text.data() + begin, colon - begin);
            begun_[colon - begin] = '1';
            joined_entry_.push_back(rows_->entries.add(begun_, colon - begin + 1));
            joined_value_.push_back(value);
        }
    }
};

}  // namespace fmcli

#endif
