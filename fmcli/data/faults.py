"""Messages about lines that cannot be parsed."""

import re

from fmcli.data import mistaken
from fmcli.data.parser import Fault

LONGEST_QUOTE = 40
CONTROL = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")


def describe(name: str, number: int, fault: Fault) -> str:
    """The message for a fault in a line of an input: where it is, what was found and what was expected."""
    column, token, expected, subject, part, complaint, line = fault
    where = f"{name}:{number}:{column}: found {quote(token)}, expected"
    if _looks_binary(token):
        return f"{where} {expected}; the file looks like {mistaken.unprintable(line)}, not like libsvm or ffm text"
    if other := mistaken.text(line):
        return f"{where} {expected}; the line looks like {other}, which is not read"
    if not subject:
        return f"{where} {expected}; {complaint}"
    if not part:
        return f"{where} {expected}; the {subject} {complaint}"
    return f"{where} {expected}; {subject} {quote(part)} {complaint}"


def _looks_binary(token: bytes) -> bool:
    try:
        token.decode()
    except UnicodeDecodeError:
        return True
    return CONTROL.search(token) is not None


def quote(text: bytes) -> str:
    """The text in quotes, shortened if it is long, with escapes for characters that are not printable ASCII."""
    if len(text) > LONGEST_QUOTE:
        text = text[: LONGEST_QUOTE - 3] + b"..."
    return repr(text)[1:]
