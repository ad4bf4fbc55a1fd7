"""Count the lines of the buffers of a text, and make the errors that need line numbers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic, NamedTuple, TypeVar

from fmcli.data.text.faults import BadLines, describe
from fmcli.data.text.parser import Fault
from fmcli.data.text.sources import LongLineError
from fmcli.errors import BadInputError, FmcliError

T = TypeVar("T")


class Parsed(NamedTuple, Generic[T]):
    """A parsed buffer, up to its first fault unless faulty lines are skipped.

    lines, faulty, faults : as Rows.parse returns them.
    wrong : the fault of a row for which `work` raised RowError.
    """

    lines: int
    faulty: int
    faults: list[Fault]
    rows: int
    payload: T
    wrong: Fault | None = None


class LineReport(NamedTuple):
    """The lines of a text buffer; `first` and `last` as in sources.TextBuffer."""

    first: bool
    last: bool
    parsed: Parsed[None]


class LineCounter:
    """Take the buffers of the inputs in order, and count their lines.

    bad : the rule for lines with errors.
    blank_is_row : whether blank lines are rows, so an input needs no other rows.
    """

    def __init__(self, bad: BadLines, blank_is_row: bool) -> None:
        self.bad, self.blank_is_row = bad, blank_is_row
        self.lines = self.rows = self.faulty = 0  # of the input so far

    def add(self, name: str, first: bool, last: bool, parsed: Parsed[T]) -> None:
        """Take a buffer of the named input. Raises BadInputError for the first error of its lines, and for an input
        without rows."""
        if first:
            self.lines = self.rows = self.faulty = 0
        if parsed.faulty:
            self.bad.add(name, self.lines, parsed.faults, parsed.faulty)
        if parsed.wrong:
            raise BadInputError(describe(name, self.lines + parsed.wrong.number + 1, parsed.wrong))
        self.lines += parsed.lines
        self.rows += parsed.rows
        self.faulty += parsed.faulty
        if last and self.rows == 0 and not self.blank_is_row:
            but = f" but {self.faulty:,} lines with errors" if self.faulty else ""
            raise BadInputError(f"{name}: the file has no rows{but}")

    def error_in(self, name: str, reports: Iterable[LineReport], error: FmcliError | None) -> FmcliError | None:
        """Take the line reports of an extent; `error` ended its Record, or is None. Returns the first error."""
        try:
            for first, last, parsed in reports:
                self.add(name, first, last, parsed)
        except BadInputError as earlier:
            return earlier
        return self.located(error) if isinstance(error, LongLineError) else error

    def located(self, error: LongLineError) -> LongLineError:
        """Return the error with the number of the line."""
        return LongLineError(error.name, error.line or self.lines + 1)


class StoppedError(Exception):
    """A line report of a Record has an error; later reports are useless."""


class Record(LineCounter):
    """Keep the line reports of an extent's buffers for a LineCounter, which knows the lines before the extent."""

    def __init__(self, skip: bool, blank_is_row: bool) -> None:
        super().__init__(BadLines(skip), blank_is_row)
        self.reports: list[LineReport] = []

    def add(self, name: str, first: bool, last: bool, parsed: Parsed[T]) -> None:
        """Keep a buffer. Raises StoppedError if it has an error."""
        self.reports.append(LineReport(first, last, parsed._replace(payload=None)))  # type: ignore[arg-type]
        if parsed.wrong or (parsed.faulty and not self.bad.skip):
            raise StoppedError

    def located(self, error: LongLineError) -> LongLineError:
        """Return the error as it is."""
        return error
