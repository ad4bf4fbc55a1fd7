"""The guide's pages, and their Markdown as text for a terminal of any width."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import fmcli
from fmcli.cli.layout import FEWEST_COLUMNS, wrapped

FOLDER = Path(fmcli.__file__).resolve().parent / "guide"
# A table whose last column would be narrower is shown as a list.
NARROWEST_COLUMN = 36
INDENT, GAP = "    ", "  "
# Blocks of these languages are for the web; the text beside them says the same.
WEB_ONLY = ("math",)
LINK = re.compile(r"!?\[([^\]]*)\]\(([^)]*)\)")
COMMENT = re.compile(r"^<!--.*?-->\n?", re.M | re.S)
CELLS = re.compile(r"(?<!\\)\|")
ITEM = re.compile(r"(?:[-*]|\d+\.) ")
HEADING = re.compile(r"^(#+) (.+)$", re.M)
# Below a heading: other words under which a reader looks for the section.
ALSO = re.compile(r"#.*\n\n?<!-- also: (.*) -->")
FENCED = re.compile(r"^```.*?^```$", re.M | re.S)
# Pages that mention nearly every word.
OPTIONS_PAGE, OPTIONS_TITLE = "options", "Options of every command"
LAST = (OPTIONS_PAGE, "coming-from", "papers", "python")


def topics() -> dict[str, str]:
    """Return the pages by topic, each with its title, in alphabetical order."""
    found = {path.stem: path.read_text("utf-8").partition("\n")[0].removeprefix("# ") for path in pages()}
    return dict(sorted({**found, OPTIONS_PAGE: OPTIONS_TITLE}.items()))


def pages() -> list[Path]:
    """Return the files of the guide, which has one more page, made from the commands."""
    return list(FOLDER.glob("*.md"))


def page(topic: str) -> str:
    """Return the Markdown of a topic."""
    if topic == OPTIONS_PAGE:
        from fmcli.cli.pages.reference import options_page

        return options_page(OPTIONS_TITLE)
    return (FOLDER / f"{topic}.md").read_text("utf-8")


class Section(NamedTuple):
    """A part of a page, from its heading to the next one of the same or a higher level; the first part of a page ends
    with the first heading below its title."""

    topic: str
    heading: str
    markdown: str

    @property
    def names(self) -> list[str]:
        """The heading, and the other words under which the section is found, in lower case."""
        also = ALSO.match(self.markdown)
        return [self.heading.lower(), *(also[1].split(", ") if also else ())]


def sections() -> Iterator[Section]:
    """Yield the sections of all pages, the pages in alphabetical order."""
    for topic in topics():
        text = page(topic)
        prose = FENCED.sub(lambda block: " " * len(block[0]), text)
        found = [(match.start(), len(match[1]), match[2]) for match in HEADING.finditer(prose)]
        for number, (begin, level, heading) in enumerate(found):
            ends = [start for start, other, _ in found[number + 1 :] if other <= level or level == 1]
            yield Section(topic, heading, text[begin : ends[0] if ends else len(text)])


def about(word: str) -> list[Section]:
    """Return the sections with this name, except sections of options, or else those of pages with this word in their
    title. A page that is found by its title is whole."""
    titles, has = topics(), _has(word)
    every = [one for one in sections() if one.topic != OPTIONS_PAGE]
    found = [one for one in every if word.lower() in one.names]
    found = found or [one for one in every if one.heading == titles[one.topic] and has.search(one.heading)]
    return [one._replace(markdown=page(one.topic)) if one.heading == titles[one.topic] else one for one in found]


def mentioning(word: str, home: str = "") -> list[Section]:
    """Return the sections that have a word, or an option of this name: first the sections of the page `home`, then the
    others by how often they have it; the reference of options and the experiments come last."""
    has = _has(word)
    counts = [(section, len(has.findall(section.markdown))) for section in sections()]
    found = [(section, count) for section, count in counts if count]
    found.sort(key=lambda pair: (pair[0].topic != home, pair[0].topic in LAST, -pair[1]))
    return [section for section, _ in found]


def _has(word: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![\w-])(?:--)?{re.escape(word)}(?![\w-])", re.I)


def as_text(markdown: str, width: int) -> str:
    """Markdown as lines of at most `width` columns, except for code, which keeps its lines.

    The guide uses headings, paragraphs, lists, tables, and fenced blocks.
    """
    blocks = ("\n".join(block) for block in _blocks(COMMENT.sub("", markdown), max(width, FEWEST_COLUMNS)))
    return "\n\n".join(block for block in blocks if block) + "\n"


def _blocks(markdown: str, width: int) -> Iterator[list[str]]:
    """Yield the lines of each block."""
    lines = markdown.splitlines()
    at = 0
    while at < len(lines):
        line = lines[at]
        if line.startswith("```"):
            end = lines.index("```", at + 1)
            if line.removeprefix("```") not in WEB_ONLY:
                yield [f"{INDENT}{code}".rstrip() for code in lines[at + 1 : end]]
            at = end + 1
            continue
        end = next((i for i in range(at + 1, len(lines)) if not lines[i] or lines[i].startswith("```")), len(lines))
        if line.startswith(INDENT):
            yield lines[at:end]
        elif line.startswith("#"):
            yield wrapped(_heading(line), width, "", "")
            end = at + 1
        elif line.startswith("|"):
            yield list(_table(lines[at:end], width))
        elif line:
            yield list(_paragraph(lines[at:end], width))
        else:
            end = at + 1
        at = end


def _heading(line: str) -> str:
    """Return a heading: the first two levels in capitals."""
    marks, _, text = line.partition(" ")
    return _plain(text).upper() if len(marks) < 3 else _plain(text)


def _paragraph(lines: list[str], width: int) -> Iterator[str]:
    """Yield a paragraph, or a list, whose items begin with a dash or a number."""
    items: list[list[str]] = []
    for line in lines:
        if ITEM.match(line) or not items:
            items.append([])
        items[-1].append(line.strip())
    for item in items:
        mark = ITEM.match(item[0])
        yield from wrapped(_plain(" ".join(item)), width, "", " " * len(mark[0]) if mark else "")


def _table(lines: list[str], width: int) -> Iterator[str]:
    """Yield a table: columns side by side, the last one wrapped; if that leaves it too narrow, each row as a term with
    its explanations below it."""
    head, _, *body = [[_plain(cell.strip()).replace(r"\|", "|") for cell in CELLS.split(line)[1:-1]] for line in lines]
    shown = [head, *body] if any(head[1:]) else body
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    start = sum(size + len(GAP) for size in widths[:-1])
    if widths[-1] <= width - start or width - start >= NARROWEST_COLUMN:
        for row in shown:
            left = "".join(f"{cell:<{size}}{GAP}" for cell, size in zip(row, widths[:-1], strict=False))
            yield from wrapped(row[-1], width, left, " " * start) or [left.rstrip()]
        return
    for row in body:
        yield from wrapped(row[0], width, "", "")
        for name, cell in zip(head[1:], row[1:], strict=True):
            if cell:
                yield from wrapped(f"{name}: {cell}" if name and len(head) > 2 else cell, width, INDENT, INDENT)


def _plain(text: str) -> str:
    """Text without marks of code and emphasis; a link to a page of the guide names the command that shows it."""

    def link(found: re.Match[str]) -> str:
        name, target = found[1], found[2].partition("#")[0]
        return f"{name} (fmcli help {target.removesuffix('.md')})" if target.endswith(".md") else name

    return LINK.sub(link, text).replace("`", "").replace("**", "")
