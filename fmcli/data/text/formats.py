"""The format of text rows, which is found in their first lines, and the loop over the buffers of whole lines of some
inputs.

Buffers are read and parsed by several threads without the GIL, and put in order again: the rows, the counts and any
error are the same for any number of threads.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import chain
from typing import Any, NamedTuple, TypeVar, cast

from fmcli.data.labels import NUMBERS, SURROGATES, Names, is_number
from fmcli.data.text.faults import is_other_format
from fmcli.data.text.line_counter import LineCounter, Parsed
from fmcli.data.text.lines import Entries, Lines
from fmcli.data.text.parser import MOST_FAULTS, PADDING, Fault
from fmcli.data.text.sources import (
    BUFFER_BYTES,
    FileRange,
    Input,
    LongLineError,
    TextBuffer,
    buffers,
    name_of,
    table_in,
)
from fmcli.data.text.workers import closing_unless_read, in_order
from fmcli.errors import BadInputError, UsageError
from fmcli.records import dataclass
from fmcli.text import quote, readable

LARGEST_INDEX = 2**31 - 2
# The text before the features of a row, by the column of an id: the id, and a label, which may be missing.
BEFORE_FEATURES = {
    0: rb"(?:[^\s:#][^\s:]*[ \t]+)?",
    1: rb"[^\s#]\S*[ \t]+(?:[^\s:#][^\s:]*[ \t]+)?",
    2: rb"[^\s:#][^\s:]*[ \t]+\S+[ \t]+",
}
BEFORE_WEIGHTED = rb"[^\s#]\S*[ \t]+"  # the same if labels may have weights: then they cannot be missing
# The first feature token of a row: the first token with a colon, after a query id, if there is one.
FEATURE = rb"(?:qid:\S*[ \t]+)?((?!qid:|#)[^\s:]*:\S*)"
DIGITS = re.compile(rb"[\d:]*")
# Such a token in which entries of a format follow each other without a blank: it has only an error in the other format.
GLUED = {
    "libsvm": re.compile(
        rb"\d+:(?:[-+]?\d+(?:[,;]|\xc2\xa0)[-+.\d]|[-+]?(?:\d+\.\d*|\.\d+|\d+(?=e))(?:e[-+]?\d+)?[^\w.+=-])", re.I
    ),
    "ffm": re.compile(rb"\d+:\d+:[-+]?\.?\d"),
}
COMMENT = re.compile(rb"[ \t\r]*#")
# The first token of a line that is neither blank nor a comment.
LABEL = re.compile(rb"[ \t\r]*([^\s#]\S*)")
# Such a line.
FIRST_ROW = re.compile(rb"^[ \t\r]*([^\s#]\S*).*", re.MULTILINE)
# The beginning of such a line if it has a query number.
QUERY = re.compile(rb"[ \t\r]*[^\s#]\S*[ \t]+qid:")
# Bytes at the beginning of a table that are likely to have a row.
FIRST_BYTES = 1 << 13

T = TypeVar("T")


class RowTexts(NamedTuple):
    """The texts that precede the predictions for some rows.

    delimiter : between a text and a prediction; of a table, also between predictions.
    header : the text before the names of the predictions; None: no names are written before these rows.
    more : further texts of each row.
    are_cells : whether the texts and the header are cells of a table, and not whole rows.
    """

    texts: list[bytes]
    delimiter: bytes = b"\t"
    header: bytes | None = None
    of_table: bool = False
    more: tuple[list[bytes], ...] = ()
    are_cells: bool = False

    def part(self, start: int, stop: int) -> RowTexts:
        """Return the texts for some of the rows."""
        more = tuple(texts[start:stop] for texts in self.more)
        return self._replace(texts=self.texts[start:stop], header=None if start else self.header, more=more)

    def joined(self, lines: list[bytes], names: list[str]) -> bytes:
        """Return predictions behind the texts, with a line for each row. names : of the predictions."""
        delimiter, texts = self.delimiter, self.texts
        if self.of_table:
            lines = [self.cell(line) if len(names) == 1 else line.replace(b" ", delimiter) for line in lines]
        if self.are_cells:
            texts = [self.cell(text) for text in texts]
        text = b"".join(b"%b%b%b\n" % (one, delimiter, line) for one, line in zip(texts, lines, strict=True))
        if self.header is None:
            return text
        header = self.cell(self.header) if self.are_cells else self.header
        return delimiter.join([header, *(self.cell(name.encode(errors=SURROGATES)) for name in names)]) + b"\n" + text

    def cell(self, text: bytes) -> bytes:
        """Return a cell as it is written in the table."""
        return quoted(text, self.delimiter)


def quoted(cell: bytes, delimiter: bytes) -> bytes:
    """Return a cell as it is written in a table."""
    if delimiter in cell or b'"' in cell or b"\n" in cell or b"\r" in cell:
        return b'"%b"' % cell.replace(b'"', b'""')
    return cell


@dataclass(frozen=True)
class RowGroups:
    """The source of the groups of rows: their query numbers, or the one feature that each row has in a field.

    field : the field; None: query numbers.
    optional : whether rows have no groups if the first one has no query number.
    known : whether the first row, which another text may have, is known to have one.
    """

    field: int | None = None
    optional: bool = False
    known: bool = False


@dataclass(frozen=True)
class Stream:
    """How rows to predict are taken from text.

    unbuffered : whether lines are scored as soon as they have been read.
    id_column : the column of an id that is not part of the row: 1, or 2 after the label; 0: there is none.
    id_name : the column of the id of a table.
    passthrough : whether the key of a row is its whole line.
    label_weights : whether a label may be followed by a colon and the weight of the row.
    row_groups : the source of the groups of labeled rows; None: they have none.
    """

    unbuffered: bool = False
    id_column: int = 0
    id_name: str | None = None
    passthrough: bool = False
    label_weights: bool = False
    row_groups: RowGroups | None = None

    def keys(self, buffer: TextBuffer, labeled: bool = False) -> RowTexts | None:
        """Return the key of each row of a buffer, which needs a label or not: its id, or its line; None if there are no
        keys."""
        if buffer.table is not None and (self.passthrough or self.id_name):
            assert buffer.table.scanner is not None
            of_table: RowTexts = buffer.table.scanner.head.beside(
                buffer.table, None if self.passthrough else self.id_name
            )
            return of_table
        if self.passthrough:
            return RowTexts([line.rstrip(b"\r") for _, line in row_lines(buffer, labeled)])
        if self.id_column:
            tokens = [line.split(None, self.id_column) for _, line in row_lines(buffer)]
            return RowTexts([words[self.id_column - 1] if len(words) >= self.id_column else b"" for words in tokens])
        return None


class Text:
    """The text of inputs, and its format."""

    def __init__(
        self,
        paths: Sequence[Input],
        format: str,
        needs_fields: bool,
        model: str = "this model",
        *,
        stream: Stream = Stream(),  # noqa: B008
        labeled: bool = False,
        skip: bool = False,
    ):
        self._spare: list[bytearray] = []
        if table := table_in(paths[0]):
            if stream.id_column:
                raise UsageError(
                    f"{name_of(table)} is a table, whose ids are in a column", id_column={"NAME": "to name it"}
                )
            format = "ffm" if table.fields else "libsvm"
            self._buffers = of_tables(paths, self._spare, stream.unbuffered, labeled, skip)
        else:
            if stream.id_name is not None:
                source = name_of(paths[0]) if isinstance(paths[0], str) else str(paths[0])
                raise UsageError(
                    f"{source} is not a table, so it has no column {stream.id_name!r}",
                    id_column={1: "for the first token of a line", 2: "for the second one, after the label"},
                )
            self._buffers = buffers(paths, self._spare, BUFFER_BYTES, stream.unbuffered)
        before = BEFORE_WEIGHTED if stream.label_weights else BEFORE_FEATURES[stream.id_column]
        self._form = re.compile(rb"^[ \t\r]*" + before + FEATURE, re.MULTILINE)
        self._label_weights = stream.label_weights
        self._ahead = [next(self._buffers)]
        self._sure = True
        if format == "auto":
            token = self._first_token()
            # Without a feature token in this input, the next input is read ahead.
            while not token and (self._ahead[-1].last or stream.unbuffered) and (buffer := next(self._buffers, None)):
                self._ahead.append(buffer)
                token = self._first_token()
            self._sure = token is not None
            colons = token[1].count(b":") if token else 0
            format = "ffm" if colons == 2 else "libsvm"
            glued = [name for name in GLUED if token and not DIGITS.fullmatch(token[1]) and GLUED[name].match(token[1])]
            if glued:
                format = glued[0]
            elif token and colons > 2 and not DIGITS.fullmatch(token[1]):
                raise BadInputError(
                    f"{self._ahead[-1].name}: the format cannot be detected, because the first feature, "
                    f"{quote(token[1])}, has {colons} colons; the last one precedes the value",
                    format={"libsvm": "if the others belong to its name", "ffm": "if the first one ends a field"},
                )
        self._whole = sum(buffer.last for buffer in self._ahead) == len(paths)  # whether all the text was read ahead
        self.format = format
        self.ffm = format == "ffm"
        if needs_fields and self._sure and not self.ffm:
            raise BadInputError(
                f"{self._ahead[-1].name}: found {format} text, whose features have no fields, but {model} needs "
                "fields; use ffm text: label field:index:value ..."
            )

    def has_label_names(self, names: Names | None = None) -> bool:
        """Return whether labels are names, which is so if the first one is not a number, in a line that is libsvm or
        ffm text. If there are names that they can have, a number is also one, which none of these is."""
        if names == NUMBERS:
            return False
        found = self._first_row()
        if not found:
            return names is not None
        label = found[1].partition(b":")[0] if self._label_weights else found[1]
        if b":" in label or is_number(label) or label.decode(errors=SURROGATES) in (names or NUMBERS):
            return names is not None
        if self._ahead[-1].scanner is not None:  # of a table
            return True
        line = found[0].partition(b"\n")[0]
        fault = Fault(0, 1, label, "a label", "label", b"", "is not a number", line)
        return not is_other_format(fault)

    def groups(self, row_groups: RowGroups | None) -> dict[str, Any]:
        """Return the options of `Rows` for groups. Raises BadInputError if the text does not have them."""
        if row_groups is None:
            return {}
        if row_groups.field is not None:
            if self._sure and not self.ffm:
                raise BadInputError(
                    f"{self._ahead[-1].name}: found {self.format} text, whose features have no fields, so none "
                    "tells the groups of rows; write qid:number after each label, and name qid in place of the field"
                )
            return {"grouped": True, "group_field": row_groups.field}
        if row_groups.known:
            return {"grouped": True}
        row = self._first_row()
        if row is None or QUERY.match(row[0]):
            return {"grouped": row is not None}
        if row_groups.optional:
            return {}
        lack = f"{self._ahead[-1].name}: ranking and held-out groups need to know which rows belong together"
        if self._ahead[-1].scanner is not None:
            raise BadInputError(f"{lack}; name a column, such as the user", group_field={"COLUMN": ""})
        field = "name the field of the group" if self.ffm else "use ffm text with a field for the group"
        raise BadInputError(f"{lack}; write qid:number after each label, or {field}", group_field=None)

    def _first_row(self) -> re.Match[bytes] | None:
        """Return the first line that is neither blank nor a comment, and its first token; None if there is none."""
        buffer = self._ahead[-1]
        while not (found := first_row(buffer)):
            if (following := next(self._buffers, None)) is None:
                return None
            self._ahead.append(buffer := following)
        return found

    def _first_token(self) -> re.Match[bytes] | None:
        """Return the first feature token of the most recently read buffer."""
        buffer = self._ahead[-1]
        return self._form.search(buffer.data, buffer.start, buffer.stop)

    def parsed(
        self, parse: Callable[[int, TextBuffer], Parsed[T]], threads: int, counter: LineCounter
    ) -> Generator[tuple[TextBuffer, Parsed[T]], None, None]:
        """Yield all parsed buffers in order; raise the first error of the text after the buffers before it."""
        parse = through_scanner(parse)
        # Closed on an error, not when its traceback is garbage-collected, so no thread outlives the call.
        parsed_buffers = in_order(chain(self._ahead, self._buffers), parse, threads)
        with closing_unless_read(self._buffers), closing(parsed_buffers) as results:
            while True:
                try:
                    buffer, parsed = next(results)
                except StopIteration:
                    return
                except LongLineError as error:
                    raise counter.located(error) from None
                counter.add(buffer.name, buffer.first, buffer.last, parsed)
                self.require_format(counter.blank_is_row, buffer.name)
                yield buffer, parsed
                self._spare.append(buffer.data)

    def require_format(self, blank_is_row: bool, name: str) -> None:
        """Raise BadInputError if the format is not known, and matters: blank rows have none."""
        if not (self._sure or (self._whole and blank_is_row)):
            raise BadInputError(
                f"{name}: the format cannot be detected, because no row at the start of the file has a feature",
                format={"libsvm": "", "ffm": ""},
            )

    def close(self) -> None:
        """Close the input that was begun."""
        self._buffers.close()


def of_tables(
    paths: Sequence[Input], spare: list[bytearray], unbuffered: bool, labeled: bool, skip: bool
) -> Generator[TextBuffer, None, None]:
    """Yield the rows of tables. Raises UsageError if some inputs are none."""
    opens = True
    for path in paths:
        if not (table := table_in(path)):
            raise UsageError(f"{path} is not a table: tables and rows of features cannot be read together")
        extent = path if isinstance(path, FileRange) else FileRange(path)
        for buffer in table.opened(extent, spare, unbuffered=unbuffered, training=labeled, skip=skip):
            yield replace(buffer, opens=opens and buffer.first and table.opens)
            opens = False


def first_row(buffer: TextBuffer) -> re.Match[bytes] | None:
    """Return the first line of a buffer that is neither blank nor a comment, and its first token; of a table, the line
    of features. None if there is none before the first fault."""
    data, start, stop, scanner = buffer.data, buffer.start, buffer.stop, buffer.scanner
    if scanner is None:
        return FIRST_ROW.search(memoryview(data)[start:stop])
    # All rows are translated only if the first ones, outside of quotes, have no such line.
    first = data.find(b"\n", start + FIRST_BYTES, stop) + 1
    ends = [stop] if not first or data.count(b'"', start, first) % 2 else [first, stop]
    found = (FIRST_ROW.search(memoryview(scanner.translate(data, start, end)[0])) for end in ends)
    return next(filter(None, found), None)


def through_scanner(parse: Callable[[int, TextBuffer], Parsed[T]]) -> Callable[[int, TextBuffer], Parsed[T]]:
    """Return a function that parses a buffer. A table is parsed as entries of its rows, with the line numbers and
    faults of the table."""

    def parsed(number: int, buffer: TextBuffer) -> Parsed[T]:
        scanner = buffer.scanner
        if scanner is None:
            return parse(number, buffer)
        rows, lines, _, faulty, faults = scanner.entries(buffer.data, buffer.start, buffer.stop)

        def as_lines() -> Lines:
            return scanner.translate(buffer.data, buffer.start, buffer.stop)[0]

        def parse_rows(rows: Lines | Entries) -> Parsed[T]:
            inner = replace(buffer, scanner=None, before=0, table=buffer, data=cast(bytearray, rows), start=0)
            return parse(number, replace(inner, stop=len(rows) - PADDING if isinstance(rows, Lines) else 0))

        if isinstance(rows, Entries):
            rows.lines = as_lines
        found = parse_rows(rows)
        scanner.reuse(rows)
        if found.wrong:  # its place is found in text
            found = parse_rows(as_lines())

        def placed(fault: Fault) -> Fault:
            line, column = scanner.place_of(buffer.data, buffer.start, buffer.stop, fault.number, fault.column - 1)
            if fault.subject == "label" and fault.part:  # without the weight, which is another cell
                fault = fault._replace(token=fault.part, expected="a label")
            token = readable(fault.token.decode(errors=SURROGATES)).encode(errors=SURROGATES)
            return fault._replace(number=buffer.before + line, column=column, token=token, line=None)

        before = [fault._replace(number=buffer.before + fault.number) for fault in faults]
        return found._replace(
            lines=buffer.before + lines,
            faulty=faulty + found.faulty,
            faults=sorted([*before, *map(placed, found.faults)], key=lambda fault: fault.number)[:MOST_FAULTS],
            wrong=found.wrong and placed(found.wrong),
        )

    return parsed


def detected(
    paths: Sequence[str], format: str, needs_fields: bool, model: str, stream: Stream, labeled: bool
) -> tuple[str, Stream]:
    """Return the format of some inputs, "libsvm" or "ffm", as `score_chunks` finds it, and how their extents are read:
    the first row tells whether there are groups. Raises the same errors."""
    text = Text(paths, format, needs_fields, model, stream=stream, labeled=labeled)
    with closing(text):
        text.require_format(not labeled, name_of(paths[0]))
        row_groups = stream.row_groups
        if row_groups is not None and row_groups.field is None:
            row_groups = RowGroups(known=True) if text.groups(row_groups).get("grouped") else None
        else:
            text.groups(row_groups)
    return text.format, replace(stream, row_groups=row_groups)


def row_lines(buffer: TextBuffer, labeled: bool = False) -> list[tuple[int, bytes]]:
    """Return the lines of a buffer that are rows, to predict or with a label, and the number of lines before each."""
    lines = bytes(buffer.data[buffer.start : buffer.stop]).split(b"\n")[:-1]
    if labeled:
        return [(number, line) for number, line in enumerate(lines) if LABEL.match(line)]
    return [(number, line) for number, line in enumerate(lines) if not COMMENT.match(line)]
