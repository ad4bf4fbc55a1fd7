"""The layout of help and reports on terminals of any width."""

from __future__ import annotations

from collections.abc import Iterable

import click

# Longer lines are hard to read, however wide the terminal is; narrower than this, lines are not wrapped any further.
MOST_COLUMNS, FEWEST_COLUMNS = 100, 40
# The columns that help leaves free, as click does.
MARGIN = 2
# Longer terms of a list of definitions have a line of their own.
LONGEST_TERM, SPACING = 30, 2
# On a terminal with fewer columns, all have one if any is longer than SHORT_TERM; explanations are indented by INDENT.
NARROW, SHORT_TERM, INDENT = 60, 12, 6
# The width of a stream that is no terminal, for tables of figures, which are not broken then.
UNLIMITED = 1 << 20


def columns() -> int:
    """Return the width of text in columns: the terminal's or $COLUMNS, but at most a readable width."""
    import shutil

    return max(min(shutil.get_terminal_size().columns, MOST_COLUMNS), FEWEST_COLUMNS)


def columns_of_tables() -> int:
    """Return the width of a table of figures in columns: the terminal's or $COLUMNS."""
    import shutil

    return shutil.get_terminal_size((UNLIMITED, 0)).columns


def wrapped(text: str, width: int, first: str = "", rest: str = "") -> list[str]:
    """Return the text in lines, which have prefixes. Only blanks are places to break at: options and names have
    hyphens."""
    import textwrap

    return textwrap.wrap(
        text, width, initial_indent=first, subsequent_indent=rest, break_long_words=False, break_on_hyphens=False
    )


class HelpFormatter(click.HelpFormatter):
    """click's, for the width of the terminal."""

    def __init__(self, indent_increment: int = 2, width: int | None = None, max_width: int | None = None) -> None:
        super().__init__(indent_increment, width or columns() - MARGIN, max_width)

    def write_dl(
        self, rows: Iterable[tuple[str, str]], col_max: int = LONGEST_TERM, col_spacing: int = SPACING
    ) -> None:
        """Write terms with their explanations beside them; below a term if it is long."""
        rows = list(rows)
        longest = max(len(term) for term, _ in rows)
        beside = min(longest, col_max) + col_spacing
        if self.width < NARROW and longest > SHORT_TERM:
            beside = INDENT
        indent = " " * self.current_indent
        for term, explanation in rows:
            fits = len(term) <= beside - col_spacing
            if not fits:
                self.write(f"{indent}{term}\n")
            first = f"{indent}{term if fits else '':<{beside}}"
            for line in wrapped(explanation, self.width, first, indent + " " * beside):
                self.write(f"{line}\n")


class HelpContext(click.Context):
    """A context whose help is formatted so."""

    formatter_class = HelpFormatter
