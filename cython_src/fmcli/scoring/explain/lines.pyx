"""Explanations of rows as text."""

import json as json_text

import numpy as np

from fmcli.data.dictionary import SHARED, Dictionary
from fmcli.data.numbering import Numbering

from libc.stdint cimport int32_t, int64_t
from libcpp cimport bool as boolean
from libcpp.string cimport string
from libcpp.vector cimport vector


cdef extern from "fmcli/scoring/explain/lines.h" namespace "fmcli" nogil:
    cdef enum Part:
        SCORE_ "fmcli::SCORE"
        BASE_ "fmcli::BASE"
        FEATURE_ "fmcli::FEATURE"
        MAIN_ "fmcli::MAIN"
        INTERACTION_ "fmcli::INTERACTION"
        DEGREE_ "fmcli::DEGREE"
        REST_ "fmcli::REST"

    cppclass FeatureNames:
        const int64_t* numbers
        int64_t n_numbers, n_texts
        const char* text
        const int64_t* ends
        string other
        size_t widest

    cppclass MoreParts:
        const int64_t* begins
        const int32_t* part
        const double* value
        const int64_t* set_begins
        const int64_t* set

    cppclass Text:
        object taken()

    cppclass Lines:
        boolean json, doubles
        FeatureNames names
        const int64_t* indptr
        const int32_t* index
        const int32_t* field
        const double* score
        const double* base
        const double* share
        vector[string] classes, keys
        MoreParts more
        int64_t first_number
        Text* out
        void write(int64_t) except +

MAIN, INTERACTION, DEGREE, REST = MAIN_, INTERACTION_, DEGREE_, REST_


cdef class Writer:
    """Writes explanations as text.

    Parameters
    ----------
    numbering : of the columns; None: column j is feature j.
    classes : the texts of the classes; None: there is one output.
    json : whether the text is JSON; otherwise it is a table.
    with_fields : whether names begin with the field.
    doubles : whether numbers of a table have the digits of doubles.
    """

    cdef Lines lines
    cdef bint with_fields, json
    cdef object kept, numbers

    def __init__(self, numbering, classes, json, with_fields, doubles=False):
        cdef const int64_t[::1] numbers, ends
        cdef const unsigned char[::1] text
        self.json, self.with_fields = json, with_fields
        self.lines.json, self.lines.doubles = json, doubles
        self.lines.classes = [text_of(one.encode(), json) for one in classes or ()]
        self.lines.names.numbers = NULL
        self.lines.names.n_texts = self.lines.names.widest = 0
        self.lines.names.other = SHARED.encode()
        if isinstance(numbering, Numbering):
            # One more number, so the array is not empty.
            self.numbers = np.append(numbering.ids.astype(np.int64), 0)
            numbers = self.numbers
            self.lines.names.numbers, self.lines.names.n_numbers = &numbers[0], len(numbering.ids)
        elif isinstance(numbering, Dictionary):
            self.numbers = np.append(numbering.numbers, 0)
            numbers = self.numbers
            self.lines.names.numbers, self.lines.names.n_numbers = &numbers[0], len(numbering.numbers)
            self.kept = clean(numbering)
            text, ends = self.kept
            self.lines.names.text, self.lines.names.ends = <const char*>&text[0], &ends[0]
            self.lines.names.n_texts = len(numbering.ends)
            self.lines.names.widest = np.diff(ends[:len(numbering.ends)], prepend=0).max(initial=0)

    def text(self, first, data, keys, const double[:, ::1] score, const double[::1] base, const double[:, ::1] share,
             more=None):
        """Return the text of some rows.

        first : the number of the first row.
        data : Dataset of the rows.
        keys : the ids of the rows as bytes; None: rows are numbered.
        score : (rows, outputs). base : (outputs). share : (entries, outputs).
        more : further parts: `begins` (rows * outputs + 1), `part`, `value`, `set_begins` and `set`; None: there are
            none.
        """
        cdef const int64_t[::1] indptr = data.indptr, begins, set_begins, members
        cdef const int32_t[::1] index = data.index, field, part
        cdef const double[::1] value
        cdef Lines lines = self.lines  # a copy: several threads may write
        cdef Text out
        cdef int64_t rows = data.rows
        cdef Py_ssize_t outputs = max(<Py_ssize_t>self.lines.classes.size(), 1)
        if (score.shape[0], share.shape[0]) != (data.rows, data.nnz) or not (
                score.shape[1] == share.shape[1] == base.shape[0] == outputs):
            raise ValueError("the numbers do not fit the rows")
        if not rows:
            return b""
        lines.first_number, lines.out = first, &out
        lines.keys = [text_of(key, self.json) for key in keys or ()]
        lines.indptr, lines.score, lines.base = &indptr[0], &score[0, 0], &base[0]
        lines.field = NULL
        if data.nnz:
            lines.index, lines.share = &index[0], &share[0, 0]
            if self.with_fields and data.field is not None:
                field = data.field
                lines.field = &field[0]
        lines.more.begins = NULL
        if more is not None:
            begins, part, value, set_begins, members = more
            if begins.shape[0] != rows * base.shape[0] + 1 or set_begins.shape[0] != value.shape[0] + 1:
                raise ValueError("the further parts do not fit the rows")
            lines.more.begins, lines.more.set_begins = &begins[0], &set_begins[0]
            if value.shape[0]:
                lines.more.part, lines.more.value = &part[0], &value[0]
            if members.shape[0]:
                lines.more.set = &members[0]
        with nogil:
            lines.write(rows)
        return out.taken()


def text_of(key, json):
    """Return an id or a label as bytes for JSON or a table."""
    return json_text.dumps(key.decode(errors="backslashreplace"), ensure_ascii=False).encode() if json else key


def clean(dictionary):
    """Return the `text` and `ends` of a dictionary's names, with escapes for bytes other than UTF-8. Both have one more
    item at the end, so they are not empty."""
    text, ends = dictionary.text.tobytes(), dictionary.ends
    try:
        text.decode()
    except UnicodeDecodeError:
        begins = [0, *ends.tolist()][:len(ends)]
        names = [
            text[begin:end].decode(errors="backslashreplace").encode()
            for begin, end in zip(begins, ends.tolist(), strict=True)]
        text, ends = b"".join(names), np.cumsum([len(name) for name in names])
    return np.frombuffer(text + b"\0", dtype=np.uint8), np.append(ends, 0).astype(np.int64)
