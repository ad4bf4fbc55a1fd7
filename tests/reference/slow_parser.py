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
SEPARATOR = rb"(?:[,;]|\xc2\xa0)"
# Entries that no blank separates, up to the last colon.
GLUED = re.compile(
    rb"%(s)b*[0-9]+:%(n)b|%(s)b*%(n)b%(s)b+(?:%(n)b|$)|%(s)b+%(n)b$" % {b"s": SEPARATOR, b"n": NUMBER.pattern}
)
LARGEST_ID = 2**31 - 2
Feature = int | bytes  # the id of a feature: a number or a name


class WrongError(Exception):
    """An invalid token; `at` is its line and column, both counted from 1."""

    def __init__(self, line: int, column: int):
        super().__init__(f"{line}:{column}")
        self.at = line, column


@dataclass
class Rows:
    labels: list[float] = field(default_factory=list)  # NaN if a row has no label
    entries: list[list[tuple[Feature, int, float]]] = field(default_factory=list)  # (index, field, value) of each row
    features: int = 0
    ids: list[Feature] | None = None  # the ids of the columns, if there is a dictionary
    odd: bool = False  # whether an id is a name or a large number
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
    occurring = {id for row in rows.entries for id, _, _ in row}
    if training and (rows.odd or rows.features - 1 > 4 * len(occurring) + 2**20):
        rows.ids = sorted(occurring, key=_order)
        columns = {id: column for column, id in enumerate(rows.ids)}
        rows.entries = [sorted((columns[id], group, value) for id, group, value in row) for row in rows.entries]
        rows.features = len(rows.ids)
    return rows


def _order(id):
    """Numbers come before names."""
    return isinstance(id, bytes), id


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
        if token.count(b":") < (2 if ffm else 1):
            raise wrong
        first, rest = token.split(b":", 1) if ffm else (b"0", token)
        text, last_part = rest.rsplit(b":", 1)
        group = _whole(first, LARGEST_ID, wrong)
        index = _id(text, wrong)
        value = _number(last_part, LIBC.strtof, wrong)
        small = isinstance(index, int) and index <= LARGEST_ID
        if not training and not (small and index < limit):
            rows.unseen += value != 0
            continue
        rows.odd |= not small
        rows.features = max(rows.features, index + 1 if small else 0)
        rows.fields = max(rows.fields, group + 1) if ffm else 0
        key = index, group if keep_fields else 0
        repeated |= key in sums
        sums[key] = sums[key] + value if key in sums else value
        last[key] = column
    rows.repeated += repeated
    for key in sorted(sums, key=lambda key: (_order(key[0]), key[1])):
        sums[key] = ctypes.c_float(sums[key]).value
        if math.isinf(sums[key]):
            raise WrongError(number, max(last[other] for other in last if other[0] == key[0]))
    rows.labels.append(label)
    kept = [(*key, value) for key, value in sums.items() if value != 0]
    rows.entries.append(sorted(kept, key=lambda entry: (_order(entry[0]), entry[1])))


def _id(text: bytes, wrong: WrongError) -> Feature:
    """A number, or a name: text that is neither a decimal number nor has only digits and colons, nor begins like
    several entries. Digits that are too many for a number are a name."""
    if re.fullmatch(rb"[0-9]+", text) and len(text.lstrip(b"0")) > 18 and int(text[-4000:]) >= 2**63:
        return text
    if text == b"qid" or not text or re.fullmatch(rb"[0-9:]*:[0-9:]*", text):
        raise wrong
    if NUMBER.fullmatch(text) and math.isfinite(LIBC.strtod(text, None)):
        return _whole(text, 2**63 - 1, wrong)
    if GLUED.match(text):
        raise wrong
    return text


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
