"""Numbers and file names as text, in the same form in all messages and files."""

import os


def number(value: float) -> str:
    """The fewest digits that read back as the same number: "1234567", "0.1", "1e-05"; -0 is 0."""
    text = repr(float(value) + 0.0)
    return text.removesuffix(".0")


def printable(name: str) -> str:
    """A file name, quoted for a shell ($'a\\nb') if it is not printable: if it has line breaks, escape sequences or
    bytes that are not UTF-8."""
    if name.isprintable():
        return name
    escaped = name.replace("\\", "\\\\").replace("'", "\\'")
    return "$'" + "".join(c if c.isprintable() else _escape(c) for c in escaped) + "'"


def shell_word(name: str) -> str:
    """A file name, quoted for a shell if necessary."""
    import shlex

    return shlex.quote(name) if name.isprintable() else printable(name)


def _escape(character: str) -> str:
    simple = {"\n": "\\n", "\t": "\\t", "\r": "\\r"}
    return simple.get(character) or "".join(f"\\x{byte:02x}" for byte in os.fsencode(character))
