"""Numbers, file names and names of features as text, in the same form in all messages and files."""

import csv
import io
import math
import os
import re
from collections.abc import Iterable, Sequence

# What a name of a feature in libsvm and ffm text cannot have, up to the character that a code stands for: blanks,
# colons, a # at the beginning, and a separator of numbers there; and the sign of the codes.
FORBIDDEN = re.compile(r"[\s:%]|^#|^[-+.\deE]*[,;](?=[,;]*(?:[-+.\d]|$))")
# The characters that codes stand for, and the codes of printable characters.
CODED = re.compile(r"[\s:%#,;]")
CODES = {f"%{ord(character):02X}": character for character in " :%#,;"}

# The text for undefined figures.
NOTHING = "-"
# The longest quotation from a file in a message.
LONGEST_QUOTE = 40
# The usual words for missing values, in lower case.
MARKERS = frozenset(
    [
        *("na", "n/a", "#n/a", "n.a.", "<na>", "nan", "-nan", "null", "(null)", "none", "nil", "\\n"),
        *("?", "-", "--", ".", "unknown", "missing", "undefined", "not available"),
    ]
)
# Their usual spellings.
MARKER_SPELLINGS = sorted({*MARKERS, "NaN", *map(str.upper, MARKERS), *map(str.capitalize, MARKERS)})


def number(value: float) -> str:
    """Return the fewest digits that read back as the same number: "1234567", "0.1", "1e-05"; -0 is 0."""
    text = repr(float(value) + 0.0)
    return text.removesuffix(".0")


def figure(value: float, digits: int = 4) -> str:
    """Return a measured number with four significant digits: "0.9020", "1235", "12,346", "1.200e-05"."""
    text = f"{value:#.{digits}g}" if value else "0"
    return (f"{value:,.0f}" if "e+" in text and abs(value) < 1e15 else text).removesuffix(".")


def in_cell(value: object, *, exact: bool = False, grouped: bool = False) -> str:
    """Return a figure as text, "-" if it is undefined. exact : with all digits; grouped : thousands are separated."""
    match value:
        case None:
            return NOTHING
        case bool():
            return "yes" if value else "no"
        case int():
            return f"{value:,}" if grouped else str(value)
        case float():
            return NOTHING if math.isnan(value) else number(value) if exact else figure(value)
        case list() | tuple():
            return " ".join(in_cell(item, exact=exact) for item in value)
    return str(value)


def plain_figure(value: float) -> str:
    """Return a label with four significant digits, or a whole number with all of its digits: "5", "0.2500"."""
    return f"{value:,.0f}" if value.is_integer() and abs(value) < 1e15 else figure(value)


def listed(texts: Sequence[str], count: int | None = None) -> str:
    """Return texts as a list for a message: "a, b and c". count : the number of all texts, listed or not."""
    more = [f"{count - len(texts):,} more"] if count is not None and count > len(texts) else []
    *most, last = [*texts, *more]
    return f"{', '.join(most)} and {last}" if most else last


def figures_apart(one: float | None, other: float | None) -> tuple[str, str]:
    """Return the metrics of two runs with four significant digits, or with more if they look the same. None: the run
    diverged."""
    digits = next((n for n in range(4, 9) if one and other and figure(one, n) != figure(other, n)), 4)
    first, second = ("diverged" if value is None else figure(value, digits) for value in (one, other))
    return first, second


def counted(number: int, thing: str) -> str:
    """Return how many things there are: "1 row", "2,500 rows"."""
    return f"{number:,} {thing}{'s' * (number != 1)}"


def value_word(value: object) -> str:
    """Return a value of an option as the command line has it."""
    if isinstance(value, list):
        return "/".join(map(value_word, value))
    return number(value) if isinstance(value, float) else str(value)


def one_line(text: str) -> str:
    r"""Return a text with escapes for characters that are not printable: \n, \x1b. A terminal obeys some of them, line
    breaks would begin another line of a log, and direction marks change the order in which text is read."""
    return text if text.isprintable() else "".join(c if c.isprintable() else _escape(c) for c in text)


def names_word(names: Sequence[str]) -> str:
    """Return a list of names as the command line has it: as a line of CSV, in which names with a comma are quoted."""
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(names)
    return line.getvalue()


def names_in(word: str) -> list[str]:
    """Return the names that `names_word` has made a list of; blanks around a name without quotes do not matter. Raises
    ValueError for an empty name, and for a text that is no list."""
    try:
        found = [name.strip() for name in next(csv.reader([word], skipinitialspace=True), [])]
    except csv.Error as error:
        raise ValueError(f"{word!r} is not a list of names: {error}") from error
    if not found or not all(found):
        raise ValueError(f"{word!r} has an empty name")
    return found


def printable(name: str) -> str:
    r"""Return a file name, quoted for a shell ($'a\nb') if it is not printable: if it has line breaks, escape sequences
    or bytes that are not UTF-8."""
    if name.isprintable():
        return name
    escaped = name.replace("\\", "\\\\").replace("'", "\\'")
    return f"$'{one_line(escaped)}'"


def printable_json(value: object, indent: int | None = None) -> str:
    """Return a value as JSON for people to read, with escapes only for characters that are not printable."""
    import json

    text = json.dumps(value, ensure_ascii=False, indent=indent)
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in text)


def shell_word(name: str) -> str:
    """Return a file name, quoted for a shell if necessary."""
    import shlex

    return shlex.quote(name) if name.isprintable() else printable(name)


def quote(text: bytes) -> str:
    """Return the text in quotes, shortened if long, with escapes for characters other than printable ASCII."""
    if len(text) > LONGEST_QUOTE:
        text = text[: LONGEST_QUOTE - 3] + b"..."
    return repr(text)[1:]


def markers_among(words: Iterable[str]) -> list[str]:
    """Return the words that usually stand for missing values."""
    return [word for word in words if word.strip().lower() in MARKERS]


def escaped(name: str) -> str:
    """Return a name with %XX for the bytes that text of features cannot have in a name, as in addresses."""
    if name.isalnum():  # most names, which need no search
        return name
    return FORBIDDEN.sub(lambda found: found.group()[:-1] + coded(found.group()[-1]), name)


def readable(name: str) -> str:
    """Return a name of a feature with the printable characters that `escaped` has replaced."""
    return re.sub("|".join(CODES), lambda found: CODES[found.group()], name)


def unescaped(name: str) -> str:
    """Return the text that `escaped` has made this name of."""

    def decoded(found: re.Match[str]) -> str:
        try:
            text = bytes.fromhex(found.group().replace("%", "")).decode()
        except UnicodeDecodeError:
            return found.group()
        return "".join(one if CODED.fullmatch(one) else coded(one) for one in text)

    return re.sub("(?:%[0-9A-F]{2})+", decoded, name)


def coded(text: str) -> str:
    return "".join(f"%{byte:02X}" for byte in text.encode())


def _escape(character: str) -> str:
    simple = {"\n": "\\n", "\t": "\\t", "\r": "\\r"}
    try:
        return simple.get(character) or "".join(f"\\x{byte:02x}" for byte in os.fsencode(character))
    except UnicodeEncodeError:  # half of a pair of UTF-16, which JSON can have
        return f"\\u{ord(character):04x}"
