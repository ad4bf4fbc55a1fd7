"""Files in formats that are not read, which users give by mistake: binary formats are recognised by their first bytes,
formats of text by a line that cannot be parsed."""

import re

UNPACK, AS_TEXT = "unpack it first", "write its rows as text, one per line: label index:value ..."
# The first bytes of a file -> what it is, and what to do.
BINARY = {
    b"PK\x03\x04": ("a zip archive", UNPACK),
    b"7z\xbc\xaf": ("a 7-Zip archive", UNPACK),
    b"\x04\x22\x4d\x18": ("lz4 data", UNPACK),
    b"PAR1": ("a Parquet file", AS_TEXT),
    b"ARROW1": ("an Arrow file", AS_TEXT),
    b"\x89HDF": ("an HDF5 file", AS_TEXT),
    b"\x93NUMPY": ("a NumPy array", AS_TEXT),
    b"\xff\xfe": ("UTF-16 text", "convert it to UTF-8"),
    b"\xfe\xff": ("UTF-16 text", "convert it to UTF-8"),
}
# A model file: the size of a header of less than 2^32 bytes, and the header, which is JSON.
MODEL_FILE = re.compile(rb"[^\0].{3}\0{4}\{", re.DOTALL)
LONGEST_HEAD = 9
TAR = b"\0ustar"  # in the header of the first member
# The form of a line -> what it looks like.
LINES = {
    re.compile(rb"\s*[{\[]"): "JSON",
    re.compile(rb"\s*<[a-z!?]", re.IGNORECASE): "HTML or XML",
    re.compile(rb"\s*@relation", re.IGNORECASE): "ARFF",
    re.compile(rb"[^:,;]*\|"): "text of Vowpal Wabbit",
    re.compile(rb"[-+.\d]+(,[-+.\d]+)+\s+\d+:"): "libsvm text with several labels per row",
    re.compile(rb"[^:]*[,;]"): "CSV",
    re.compile(rb"[^:\n]*\t[^:]*$"): "a table separated by tabs",
    re.compile(rb"\s*[-+.\de]+([ ][-+.\de]+){2,}\s*$", re.IGNORECASE): "a table of numbers without indices",
}


def binary(head: bytes) -> str | None:
    """What a file with these first bytes is instead of text, and what to do; None if it may be text."""
    for magic, (name, remedy) in BINARY.items():
        if head.startswith(magic):
            return f"it is {name}, not libsvm or ffm text; {remedy}"
    if MODEL_FILE.match(head):
        return "it is a model file, not rows in libsvm or ffm text"
    return None


def unprintable(line: bytes) -> str:
    """What a line that is not text looks like."""
    return "a tar archive" if TAR in line else "binary data"


def text(line: bytes) -> str | None:
    """What a line that cannot be parsed looks like; None if it does not look like another format."""
    return next((name for form, name in LINES.items() if form.match(line)), None)
