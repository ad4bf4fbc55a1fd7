"""Files in unsupported formats that users give by mistake. Binary formats are recognized by their first bytes, text
formats by a line that cannot be parsed."""

import re

UNPACK, AS_TEXT = "unpack it first", "write its rows as text, one per line: label index:value ..."
# How to read a table.
TRAIN, NAMED = "fmcli train --label COLUMN", "fmcli train --columns NAMES"
AS_ROWS = f"name the column of the label to read it: {TRAIN} ... ({NAMED} ... if it has no header)"
AS_CSV = f"write it as CSV, and read that: {TRAIN} ..."
# The first bytes of a file -> its format, and the advice.
BINARY = {
    b"PK\x03\x04": ("a zip archive", f"{UNPACK}; save a spreadsheet as CSV"),
    b"7z\xbc\xaf": ("a 7-Zip archive", UNPACK),
    b"\x04\x22\x4d\x18": ("lz4 data", UNPACK),
    b"PAR1": ("a Parquet file", AS_CSV),
    b"ARROW1": ("an Arrow file", AS_CSV),
    b"\x89HDF": ("an HDF5 file", AS_TEXT),
    b"\x93NUMPY": ("a NumPy array", AS_TEXT),
    b"\xff\xfe": ("UTF-16 text", "convert it to UTF-8"),
    b"\xfe\xff": ("UTF-16 text", "convert it to UTF-8"),
}
# A model file: the size of a header of less than 2^32 bytes, then the header as JSON.
MODEL_FILE = re.compile(rb"[^\0].{3}\0{4}\{", re.DOTALL)
LONGEST_HEAD = 9
TAR = b"\0ustar"  # in the header of the first member
# A row whose label or names contain separators of tables: each name after the label has a value.
ROW = rb"\s*\S+(\s+(\d+:)?(?!\|)(?=[^\s:]*[^\s:\d])[^\s:]+:[-+.\d][^\s:]*)+\s*$"
# The form of a line -> its format, and the advice. In text of Vowpal Wabbit, a number or nothing precedes the first
# namespace, and a blank follows it.
LINES = {
    re.compile(rb"\s*[{\[]"): ("JSON", AS_CSV),
    re.compile(rb"\s*<[a-z!?]", re.IGNORECASE): ("HTML or XML", AS_TEXT),
    re.compile(rb"\s*@relation", re.IGNORECASE): ("ARFF", AS_CSV),
    re.compile(rb"\s*([-+.\de]+\s[^:,;|]*)?\|[^|\s]*(\s|$)", re.IGNORECASE): ("text of Vowpal Wabbit", AS_TEXT),
    re.compile(rb"(?!%s)[^:,;]*\|" % ROW): ("a table separated by |", AS_ROWS),
    re.compile(rb"\s*[^:\s]+::"): ("a table separated by ::", AS_ROWS),
    re.compile(rb"[-+.\d]+(,[-+.\d]+)+\s+[^\s:]+:"): (
        "libsvm text with several labels per row",
        "give each row one label",
    ),
    re.compile(rb"(?!%s)[^:]*[,;]" % ROW): ("CSV", AS_ROWS),
    re.compile(rb"[^:\n]*\t[^:]*$"): ("a table separated by tabs", AS_ROWS),
    re.compile(rb"\s*[-+.\de]+([ ][-+.\de]+){2,}\s*$", re.IGNORECASE): (
        "a table of numbers without indices",
        "write the index of each number before it: label 1:value 2:value ...",
    ),
}


def binary(head: bytes) -> str | None:
    """Return in words the format of a file with these first bytes, and advice; None if it may be text."""
    for magic, (name, remedy) in BINARY.items():
        if head.startswith(magic):
            return f"it is {name}, not libsvm or ffm text; {remedy}"
    if MODEL_FILE.match(head):
        return "it is a model file, not rows in libsvm or ffm text"
    return None


def unprintable(line: bytes) -> str:
    """Return a description of a line of bytes that is not text."""
    return "a tar archive" if TAR in line else "binary data"


def text(line: bytes) -> str | None:
    """Return in words the format that an unparsable line looks like, and advice; None if it does not look like another
    format."""
    for form, (name, do) in LINES.items():
        if form.match(line):
            return f"{name}; {do}" if do == AS_ROWS else f"{name}, which is not read; {do}"
    return None


def is_table(line: bytes) -> bool:
    """Return whether a line looks like a row of a table, with cells separated by a delimiter."""
    return next((do for form, (_, do) in LINES.items() if form.match(line)), "") == AS_ROWS
