"""The text formats, read line by line with regular expressions and the C library's strtof and strtod."""

import ctypes
import math
import re
from dataclasses import dataclass, field

LIBC = ctypes.CDLL(None)
LIBC.strtof.restype = ctypes.c_float
LIBC.strtod.restype = ctypes.c_double
TOKEN = re.compile(rb"[^ \t\r]+")
NUMBER = re.compile(rb"[+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]+)?")
WHOLE = re.compile(rb"[+]?[0-9]+")
LARGEST_ID = 2**31 - 2


class WrongError(Exception):
    """An invalid token; `at` is its line and column, both counted from 1."""

    def __init__(self, line: int, column: int):
        super().__init__(f"{line}:{column}")
        self.at = line, column


@dataclass
class Rows:
    labels: list[float] = field(default_factory=list)  # NaN if a row has no label
    entries: list[list[tuple[int, int, float]]] = field(default_factory=list)  # (index, field, value) of each row
    features: int = 0
    fields: int = 0
    repeated: int = 0
    unseen: int = 0
    comments: int = 0


def parse(text: bytes, *, ffm: bool, keep_fields: bool, training: bool, limit: int) -> Rows:
    rows = Rows()
    lines = text.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    if not lines[-1]:
        lines.pop()
    for number, line in enumerate(lines, 1):
        tokens = [(match.start() + 1, match[0]) for match in TOKEN.finditer(line)]
        if tokens and tokens[0][1].startswith(b"#"):
            rows.comments += 1
        elif tokens or not training:
            _row(rows, number, tokens, ffm, keep_fields and ffm, training, limit)
    return rows


def without_wrong_lines(text: bytes, **options) -> tuple[bytes, list[tuple[int, int]]]:
    """Return the text with blanks instead of the lines that are invalid, and the lines and columns of their errors."""
    lines, wrong = text.split(b"\n"), []
    for i, line in enumerate(lines):
        try:
            parse(b"\n" + line if i else line, **options)
        except WrongError as error:
            wrong.append((i + 1, error.at[1]))
            lines[i] = b" "
    return b"\n".join(lines), wrong


def _row(rows, number, tokens, ffm, keep_fields, training, limit):
    for i, (_, token) in enumerate(tokens):
        if token.startswith(b"#"):
            tokens = tokens[:i]
            break
    label = math.nan
    if tokens and b":" not in tokens[0][1]:
        column, token = tokens.pop(0)
        label = _number(token, LIBC.strtod, WrongError(number, column))
    elif training:
        raise WrongError(number, tokens[0][0])
    if tokens and tokens[0][1].startswith(b"qid:"):
        column, token = tokens.pop(0)
        _whole(token[4:], 2**63 - 1, WrongError(number, column))

    sums: dict[tuple[int, int], float] = {}
    last: dict[tuple[int, int], int] = {}  # the column of the last occurrence of each (index, field)
    repeated = False
    for column, token in tokens:
        wrong = WrongError(number, column)
        parts = token.split(b":")
        if len(parts) != (3 if ffm else 2):
            raise wrong
        group = _whole(parts[0], LARGEST_ID, wrong) if ffm else 0
        index = _whole(parts[-2], LARGEST_ID if training else 2**63 - 1, wrong)
        value = _number(parts[-1], LIBC.strtof, wrong)
        if not training and index >= limit:
            rows.unseen += value != 0
            continue
        rows.features = max(rows.features, index + 1)
        rows.fields = max(rows.fields, group + 1) if ffm else 0
        key = index, group if keep_fields else 0
        repeated |= key in sums
        sums[key] = sums[key] + value if key in sums else value
        last[key] = column
    rows.repeated += repeated
    for key in sorted(sums):
        sums[key] = ctypes.c_float(sums[key]).value
        if math.isinf(sums[key]):
            raise WrongError(number, max(last[other] for other in last if other[0] == key[0]))
    rows.labels.append(label)
    rows.entries.append([(*key, sums[key]) for key in sorted(sums) if sums[key] != 0])


def _number(text: bytes, strto, wrong: WrongError) -> float:
    if not NUMBER.fullmatch(text):
        raise wrong
    value = strto(text, None)
    if math.isinf(value):
        raise wrong
    return value


def _whole(text: bytes, largest: int, wrong: WrongError) -> int:
    # Python refuses to convert thousands of digits. More than 19 digits after the leading zeros are too large anyway.
    digits = text.lstrip(b"+0")
    if not WHOLE.fullmatch(text) or len(digits) > 19 or int(digits or b"0") > largest:
        raise wrong
    return int(digits or b"0")
