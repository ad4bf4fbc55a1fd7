"""Lines with errors: their messages, and whether they are skipped."""

import re
from collections.abc import Callable, Sequence
from typing import Any

from fmcli.data.text.parser import MOST_FAULTS, Fault
from fmcli.errors import Also, BadInputError
from fmcli.records import dataclass
from fmcli.system import mistaken
from fmcli.text import markers_among, quote

LABEL = "label"  # the subject of the complaint that a label is not a number
NO_LABEL = "each row needs one"  # the complaint about a row of a table
RETURNS = "lines end with carriage returns (CR) alone; convert them to line feeds: tr '\\r' '\\n' < FILE > NEW"
CONTROL = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")


def ignore(message: str) -> None:
    """Ignore a message."""


@dataclass
class BadLines:
    """What to do with lines with errors, and their number.

    skip : whether to skip them; otherwise the first one is an error.
    may_skip : whether an option lets the user skip them.
    most : the number of lines that may be skipped; None: any number.
    tell : gets a message for each of the first skipped lines.
    count : the number of skipped lines so far.
    """

    skip: bool = False
    most: int | None = None
    tell: Callable[[str], None] = ignore
    count: int = 0
    may_skip: bool = False

    def add(self, name: str, before: int, faults: Sequence[Fault], faulty: int) -> None:
        """Take the first faults of a buffer, and its number of faulty lines. `before` is the number of lines of the
        input before the buffer. Raises BadInputError if lines are not skipped, or if too many are."""
        if not self.skip:
            message = describe(name, before + faults[0].number + 1, faults[0])
            raise BadInputError(message, **self.advice(faults[0]))
        messages = [describe(name, before + fault.number + 1, fault) for fault in faults]
        allowed = faulty if self.most is None else self.most - self.count
        for message in messages[: max(min(MOST_FAULTS - self.count, allowed), 0)]:
            self.tell(f"{message}; the line is skipped")
        self.count += faulty
        if faulty > allowed:
            where = f"{messages[allowed]};" if allowed < len(messages) else f"{name}:"
            raise BadInputError(f"{where} the number of lines with errors exceeds {self.most:,}", max_bad_lines=None)

    def advice(self, fault: Fault) -> dict[str, Any]:
        """Return the options that leave out the row of a table whose label is missing."""
        if not self.may_skip or fault.line is not None:
            return {}
        if fault.complaint == NO_LABEL:
            return {"on_bad_line": {"skip": "to leave out such rows"}}
        if fault.subject == LABEL and (markers := markers_among([fault.token.decode(errors="replace")])):
            return {"missing_values": {tuple(markers): "if the label is missing"}, "on_bad_line": Also("skip")}
        return {}


def describe(name: str, number: int, fault: Fault) -> str:
    """Return the message for a fault in a line: its place, the text found there and the text expected."""
    _, column, token, expected, subject, part, complaint, line = fault
    where = f"{name}:{number}:{column}: found {quote(token)}, expected"
    if line is None:  # of a table
        return f"{where} {expected}; {f'the {subject} ' if subject else ''}{complaint}"
    if ends_with_returns(line):
        return f"{where} {expected}; {RETURNS}"
    if _looks_binary(token):
        return f"{where} {expected}; the file looks like {mistaken.unprintable(line)}, not like libsvm or ffm text"
    if other := mistaken.text(line):
        return f"{where} {expected}; the line looks like {other}"
    if not subject:
        return f"{where} {expected}; {complaint}"
    if not part:
        return f"{where} {expected}; the {subject} {complaint}"
    return f"{where} {expected}; {subject} {quote(part)} {complaint}"


def ends_with_returns(line: bytes) -> bool:
    """Return whether a line, up to its line feed, consists of several lines that end with carriage returns. A return
    inside quotes is text."""
    first, mark, _ = line.rstrip(b"\r").partition(b"\r")
    return bool(mark) and first.count(b'"') % 2 == 0


def is_other_format(fault: Fault) -> bool:
    """Return whether a line with an error looks like another format, which fmcli does not read."""
    return _looks_binary(fault.token) or (fault.line is not None and mistaken.text(fault.line) is not None)


def _looks_binary(token: bytes) -> bool:
    try:
        token.decode()
    except UnicodeDecodeError:
        return True
    return CONTROL.search(token) is not None
