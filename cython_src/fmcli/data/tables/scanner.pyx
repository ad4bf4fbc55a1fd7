"""Reads tables: their rows as lines of features, and facts about their columns; row_reader.h has the grammar."""

from libc.stdint cimport int64_t
from libc.string cimport memset

from libcpp cimport bool as boolean
from libcpp.string cimport string
from libcpp.vector cimport vector

import numpy as np

from fmcli.data.text.parser import PADDING, Fault

from fmcli.data.dictionary cimport Array
from fmcli.data.text.lines cimport Entries, Lines, NumberedRows


cdef extern from "fmcli/data/tables/form.h" namespace "fmcli" nogil:
    enum class Role "fmcli::Role":
        IGNORED

    enum class Spelling "fmcli::Spelling":
        AS_IT_IS

    enum class DateOrder "fmcli::DateOrder":
        UNKNOWN

    struct TableColumn:
        Role role
        string name, expected, prefix
        vector[string] means
        Spelling spelling
        vector[string] missing
        boolean gap_feature
        vector[double] edges
        vector[string] bins
        DateOrder order
        boolean hours
        size_t length

    cppclass JoinedRows:
        int64_t add(const char*, const char*) except +
        void set_missing(const char*, const char*) except +

    struct TableJoin:
        size_t column
        const JoinedRows* rows

    struct TableForm:
        string delimiter, separator, expected_group
        string header
        boolean quoting, latin1, training, skip, apart, timed
        char decimal
        int group
        vector[TableColumn] columns
        vector[TableJoin] joins

    struct TableFault:
        string expected, complaint
        const char* line
        const char* begin
        const char* end
        int64_t number

    struct TableReport:
        int64_t lines, rows, faulty
        vector[TableFault] faults


cdef extern from "fmcli/data/tables/survey.h" namespace "fmcli" nogil:
    struct Word:
        string text
        int64_t line

    struct Words:
        vector[Word] first
        boolean others

    cppclass ExactSum:
        pass

    cppclass ColumnFacts:
        int64_t cells, missing, whole, fractions, points, rounded, bits, truths, padded
        int64_t days, months, ordered, clocks, commas, dots, lists, others
        size_t length
        string example, rounded_cell, point_cell
        Words words, odd
        ExactSum of_days, of_months
        vector[ExactSum] of_places
        boolean uncounted
        size_t size()
        boolean may_be_grouped()
        int64_t texts()
        double mean()
        double mean_of(const ExactSum&)
        void take(ColumnFacts&, int64_t) except +

    cppclass Survey:
        Survey(const TableForm&) except +
        TableReport survey(const char*, const char*, vector[ColumnFacts]&) except +


cdef extern from "fmcli/data/tables/row_keys.h" namespace "fmcli" nogil:
    enum KeySort "fmcli::RowKeys::Sort":
        DATES "fmcli::RowKeys::DATES"

    struct RowKeys:
        int group, time
        string name
        KeySort sort
        vector[int64_t] begins, ends, groups
        vector[double] times

    cppclass KeyReader:
        KeyReader(const TableForm&) except +
        TableReport keys(const char*, const char*, RowKeys&) except +
        TableReport numbers(const char*, const char*, const vector[size_t]&, vector[double]&) except +
        TableReport texts(const char*, const char*, const vector[size_t]&, vector[string]&) except +
        const char* first_row(const char*, const char*, vector[string]&) except +
        const TableFault& fault()


cdef extern from "fmcli/data/tables/features.h" namespace "fmcli" nogil:
    cppclass TableLines:
        TableLines(const TableForm&) except +
        const vector[int64_t]& filled()
        const vector[int64_t]& unmatched()
        TableReport translate(const char*, const char*, Array[char]&, vector[int64_t]&) except +
        TableFault place_of(const char*, const char*, int64_t, int64_t) except +


cdef extern from "fmcli/data/tables/table_entries.h" namespace "fmcli" nogil:
    cppclass TableEntries:
        TableEntries(const TableForm&) except +
        const vector[int64_t]& filled()
        const vector[int64_t]& unmatched()
        TableReport read(const char*, const char*, NumberedRows&, vector[int64_t]&) except +


# The names of the core's roles, in the core's order.
ROLES = ("ignored", "label", "weight", "category", "several", "number", "time", "vector", "unknown")


cdef described(const TableFault& fault):
    """Return a fault in a table as a Fault; its line is None."""
    return Fault(
        fault.number,
        fault.begin - fault.line + 1,
        fault.begin[:fault.end - fault.begin],
        (<bytes> fault.expected).decode(),
        "",
        b"",
        (<bytes> fault.complaint).decode(),
        None,
    )


cdef class Scanner:
    """Reads the rows of a table.

    Parameters
    ----------
    columns : a ColumnForm for each column (schema.py).
    delimiter, separator : the text between cells, and between the parts of a cell with several names.
    quoting : whether cells may be in double quotes.
    latin1 : whether the text is Latin-1; otherwise it is UTF-8.
    training : whether each row needs a label.
    skip : whether rows with faults are skipped; without `training`, an empty line replaces each.
    joins : (number of a column, Joined) of each join. A row whose cell has no row there gets the features of missing
        cells.
    apart : whether cells of different columns are never the same feature.
    group : (number of the column with the groups of rows, whether its cells are times, the expected cell for faults);
        groups are ordered by time, or as integers. None: rows have no groups.
    head : kept for the caller; a row that is its header, or the names of its columns, is a fault.
    filled : gets, for each column of the head, the number of missing cells that only its mean replaces.
    unmatched : gets, for each joined column of the head, the number of rows without a row of the other table.
    decimal : the decimal mark of numbers in local notation; empty: numbers are plain.
    """

    cdef readonly object head  # as the caller gives it
    cdef dict filled, unmatched
    cdef TableForm form
    cdef object joined  # keeps the rows that the form refers to
    cdef dict idle  # type -> Lines, Entries and empty TableFacts to reuse

    def __init__(
        self, columns, *, str delimiter, str separator="|", bint quoting=True, bint latin1=False, bint training=False,
        bint skip=False, joins=(), bint apart=False, group=None, head=None, dict filled=None, dict unmatched=None,
        str decimal=""
    ):
        cdef TableColumn column
        self.idle = {Lines: [], Entries: [], TableFacts: []}
        self.head = head
        if not delimiter or not separator:
            raise ValueError("delimiter and separator need at least one character")
        self.form.delimiter, self.form.separator = delimiter.encode(), separator.encode()
        self.form.quoting, self.form.latin1, self.form.training, self.form.skip = quoting, latin1, training, skip
        self.form.apart = apart
        if group is not None:
            self.form.group, self.form.timed, expected = group
            self.form.expected_group = expected.encode()
        if head is not None:
            self.form.header = head.text.rstrip(b"\r\n") or delimiter.join(head.names).encode(errors="surrogateescape")
        for one in columns:
            if len(one.bins) != len(one.edges) + bool(one.edges):
                raise ValueError("there is one more bin than edges")
            column.role = <Role> <int> ROLES.index(one.role)
            column.name, column.expected, column.prefix = one.name.encode(), one.expected.encode(), one.prefix.encode()
            column.spelling = <Spelling> <int> one.spelling
            column.missing = [text.encode() for text in one.missing]
            column.gap_feature, column.means = one.gap_feature, [mean.encode() for mean in one.means]
            column.order, column.hours, column.length = <DateOrder> <int> one.order, one.hours, one.length
            column.edges, column.bins = one.edges, [bin.encode() for bin in one.bins]
            self.form.columns.push_back(column)
        self.filled, self.unmatched = filled, unmatched
        if decimal:
            self.form.decimal = ord(decimal)
        cdef TableJoin join
        self.joined = joins
        for number, rows in joins:
            join.column, join.rows = number, (<Joined> rows).rows
            self.form.joins.push_back(join)

    def header(self, const unsigned char[::1] data, Py_ssize_t start, Py_ssize_t stop):
        """Return the cells of the first row as bytes, and its end. Raises ValueError with a Fault."""
        check(data, start, stop)
        cdef const char* begin = <const char*> &data[start]
        cdef vector[string] cells
        cdef KeyReader* scanner = new KeyReader(self.form)
        try:
            end = scanner.first_row(begin, begin + (stop - start), cells)
            if end == NULL:
                raise ValueError(described(scanner.fault()))
            return [<bytes> cell for cell in cells], start + (end - begin)
        finally:
            del scanner

    def translate(
        self, const unsigned char[::1] data, Py_ssize_t start, Py_ssize_t stop, *, bint counted=False
    ):
        """Translate data[start:stop], which has whole rows. Returns Lines; the numbers of lines, of rows, and of rows
        with faults; and the first Faults. Without `skip`, the first fault ends the work. Runs without the GIL.
        counted : whether `filled` and `unmatched` count these rows. Raises MemoryError.
        """
        check(data, start, stop)
        cdef const char* begin = <const char*> &data[start] if stop > start else NULL
        cdef Lines found = self.idle[Lines].pop() if self.idle[Lines] else Lines()
        cdef size_t padding = PADDING
        cdef TableReport report
        cdef TableLines* scanner = new TableLines(self.form)
        try:
            with nogil:
                found.text.resize(0)
                found.skipped.clear()
                report = scanner.translate(begin, begin + (stop - start), found.text, found.skipped)
                found.text.reserve(found.text.size() + padding)
                memset(found.text.data() + found.text.size(), 10, padding)
                found.text.resize(found.text.size() + padding)
            if counted:
                self.count(scanner.filled(), scanner.unmatched())
        finally:
            del scanner
        return found, report.lines, report.rows, report.faulty, [described(fault) for fault in report.faults]

    def entries(self, const unsigned char[::1] data, Py_ssize_t start, Py_ssize_t stop):
        """Translate like `translate`, with Entries in place of Lines if the form is `apart`. The rows are counted."""
        if not self.form.apart:
            return self.translate(data, start, stop, counted=True)
        check(data, start, stop)
        cdef const char* begin = <const char*> &data[start] if stop > start else NULL
        cdef Entries found = self.idle[Entries].pop() if self.idle[Entries] else Entries()
        cdef TableReport report
        cdef TableEntries* scanner = new TableEntries(self.form)
        try:
            with nogil:
                found.skipped.clear()
                report = scanner.read(begin, begin + (stop - start), found.rows, found.skipped)
            self.count(scanner.filled(), scanner.unmatched())
        finally:
            del scanner
        return found, report.lines, report.rows, report.faulty, [described(fault) for fault in report.faults]

    # Add the numbers of filled cells, and of rows without a row in other tables. Needs the GIL.
    cdef count(self, const vector[int64_t]& filled, const vector[int64_t]& unmatched):
        cdef size_t at
        for at in range(0 if self.filled is None else filled.size()):
            if filled[at]:
                name = self.head.names[at]
                self.filled[name] = self.filled.get(name, 0) + filled[at]
        for at in range(0 if self.unmatched is None else unmatched.size()):
            if unmatched[at]:
                name = self.head.names[self.form.joins[at].column]
                self.unmatched[name] = self.unmatched.get(name, 0) + unmatched[at]

    def reuse(self, rows):
        """Take Lines, Entries or empty TableFacts that are no longer used, to reuse their memory."""
        self.idle[type(rows)].append(rows)

    def place_of(self, const unsigned char[::1] data, Py_ssize_t start, Py_ssize_t stop, int64_t row, int64_t at):
        """Return the cell that wrote character `at` in the line of a row of data[start:stop], as `translate` writes it:
        the number of lines before the cell, and its column from 1; the row itself if no cell did."""
        check(data, start, stop)
        cdef const char* begin = <const char*> &data[start] if stop > start else NULL
        cdef TableLines* scanner = new TableLines(self.form)
        try:
            fault = scanner.place_of(begin, begin + (stop - start), row, at)
            return fault.number, fault.begin - fault.line + 1
        finally:
            del scanner

    def texts(self, const unsigned char[::1] data, Py_ssize_t start, Py_ssize_t stop, columns):
        """Return the cells of some columns in the rows of data[start:stop], as bytes, row by row; the number of lines;
        and the first Faults."""
        check(data, start, stop)
        cdef const char* begin = <const char*> &data[start] if stop > start else NULL
        cdef vector[string] found
        cdef TableReport report
        cdef KeyReader* scanner = new KeyReader(self.form)
        try:
            report = scanner.texts(begin, begin + (stop - start), columns, found)
        finally:
            del scanner
        return [<bytes> text for text in found], report.lines, [described(fault) for fault in report.faults]

    def numbers(self, const unsigned char[::1] data, Py_ssize_t start, Py_ssize_t stop, columns):
        """Return the numbers (rows, columns) of some columns in the rows of data[start:stop], NaN for missing ones; the
        number of lines; and the first Faults. Runs without the GIL."""
        check(data, start, stop)
        cdef const char* begin = <const char*> &data[start] if stop > start else NULL
        cdef vector[double] found
        cdef vector[size_t] wanted = columns
        cdef TableReport report
        cdef KeyReader* scanner = new KeyReader(self.form)
        try:
            with nogil:
                report = scanner.numbers(begin, begin + (stop - start), wanted, found)
        finally:
            del scanner
        numbers = np.array(found, np.float64)[: report.rows * len(columns)].reshape(report.rows, len(columns))
        return numbers, report.lines, [described(fault) for fault in report.faults]

    def survey(self, const unsigned char[::1] data, Py_ssize_t start, Py_ssize_t stop):
        """Return the TableFacts of the columns in rows, and the results of `translate` without the lines. Runs without
        the GIL."""
        check(data, start, stop)
        cdef const char* begin = <const char*> &data[start] if stop > start else NULL
        cdef list idle = self.idle[TableFacts]
        cdef TableFacts facts = idle.pop() if idle else TableFacts(self.form.columns.size())
        cdef TableReport report
        cdef Survey* scanner = new Survey(self.form)
        try:
            with nogil:
                report = scanner.survey(begin, begin + (stop - start), facts.columns[0])
        finally:
            del scanner
        return facts, report.lines, report.rows, report.faulty, [described(fault) for fault in report.faults]


cdef class Joined:
    """The features of the rows of another table, by their key."""

    cdef JoinedRows* rows

    def __cinit__(self):
        self.rows = new JoinedRows()

    def __dealloc__(self):
        del self.rows

    def add(self, const unsigned char[::1] text, Py_ssize_t stop):
        """Add the lines text[:stop] that `Scanner.translate` wrote for rows, with keys in place of labels. Returns the
        number of the first row whose key already exists, or -1. Raises MemoryError."""
        check(text, 0, stop)
        cdef const char* begin = <const char*> &text[0] if stop else NULL
        cdef int64_t found
        with nogil:
            found = self.rows.add(begin, begin + stop)
        return found

    def set_missing(self, const unsigned char[::1] text, Py_ssize_t stop):
        """Take the line text[:stop] that `Scanner.translate` wrote for a row without a key whose cells are all missing.
        It is the line of rows that refer to none of these rows."""
        check(text, 0, stop)
        cdef const char* begin = <const char*> &text[0] if stop else NULL
        self.rows.set_missing(begin, begin + stop)


cdef class Keys:
    """The groups and the times of a table's rows, from two columns; the number -1 means no column. The name of the
    column of times is for messages.

    begins, ends : (rows,) int64, the positions of the last rows in their text.
    groups : (rows,) int64, hashes of cells; all 0 without a column.
    times : (rows,) float64; None without a column. All are numbers, or all are dates and times in seconds since 1970.
    dated : whether they are dates and times.
    """

    cdef RowKeys keys
    cdef readonly object begins, ends, groups, times
    cdef readonly bint dated

    def __cinit__(self, int group, int time, str name):
        self.keys.group, self.keys.time, self.keys.name = group, time, repr(name).encode()

    def read(self, Scanner scanner, const unsigned char[::1] data, Py_ssize_t start, Py_ssize_t stop):
        """Read the rows of data[start:stop]. Returns the number of lines, and the first Faults."""
        check(data, start, stop)
        cdef const char* begin = <const char*> &data[start] if stop > start else NULL
        cdef TableReport report
        cdef KeyReader* reader = new KeyReader(scanner.form)
        self.keys.begins.clear()
        self.keys.ends.clear()
        self.keys.groups.clear()
        self.keys.times.clear()
        try:
            with nogil:
                report = reader.keys(begin, begin + (stop - start), self.keys)
        finally:
            del reader
        self.begins = start + np.array(self.keys.begins, np.int64)
        self.ends = start + np.array(self.keys.ends, np.int64)
        rows = len(self.begins)
        self.groups = np.array(self.keys.groups, np.int64) if self.keys.group >= 0 else np.zeros(rows, np.int64)
        self.times = np.array(self.keys.times, np.float64) if self.keys.time >= 0 else None
        self.dated = self.keys.sort == DATES
        return report.lines, [described(fault) for fault in report.faults]


cdef class TableFacts:
    """Counts and examples of the cells of each column."""

    cdef vector[ColumnFacts]* columns

    def __cinit__(self, size_t columns):
        self.columns = new vector[ColumnFacts](columns)

    def __dealloc__(self):
        del self.columns

    def take(self, TableFacts other, int64_t lines):
        """Add the facts about the rows that follow, and leave `other` empty. `lines` : the number of lines before these
        rows."""
        cdef size_t column
        with nogil:
            for column in range(self.columns.size()):
                self.columns[0][column].take(other.columns[0][column], lines)

    def of(self, size_t column):
        """Return the figures of a column by name. Texts are cells that are neither missing nor numbers; words are the
        first distinct texts, each with the number of its line."""
        cdef ColumnFacts* facts = &self.columns[0][column]
        return {
            "cells": facts.cells,
            "missing": facts.missing,
            "whole": facts.whole,
            "fractions": facts.fractions,
            "points": facts.points,
            "rounded": facts.rounded,
            "rounded_cell": (<bytes> facts.rounded_cell).decode(errors="replace"),
            "grouped_cell": (<bytes> facts.point_cell).decode() if facts.may_be_grouped() else "",
            "bits": facts.bits,
            "truths": facts.truths,
            "texts": facts.texts(),
            "padded": facts.padded,
            "mean": facts.mean(),
            "distinct": facts.size(),
            "uncounted": facts.uncounted,
            "example": (<bytes> facts.example).decode(errors="replace"),
            "words": words_of(facts.words),
            "other_words": facts.words.others,
            "odd": words_of(facts.odd),
            "other_odd": facts.odd.others,
            "mean_day": facts.mean_of(facts.of_days),
            "mean_month": facts.mean_of(facts.of_months),
            "mean_places": [facts.mean_of(place) for place in facts.of_places],
            "days": facts.days,
            "months": facts.months,
            "ordered": facts.ordered,
            "clocks": facts.clocks,
            "commas": facts.commas,
            "dots": facts.dots,
            "lists": facts.lists,
            "length": facts.length,
            "others": facts.others,
        }


# Text -> the number of its line.
cdef words_of(Words words):
    return {(<bytes> word.text).decode(errors="replace"): word.line + 1 for word in words.first}


# Raise ValueError unless the range lies within the data and ends with a row.
cdef check(const unsigned char[::1] data, Py_ssize_t start, Py_ssize_t stop):
    if not 0 <= start <= stop <= data.shape[0]:
        raise ValueError("the text must lie within the data")
    if stop > start and data[stop - 1] != 10:
        raise ValueError("the text must end with a line break")
