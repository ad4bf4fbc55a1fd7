"""A page of figures as one HTML file: sections of text, tables and charts, with this folder's style and script.

The page loads nothing: a policy in its head forbids everything but its own style and script. Texts may come from
anywhere, so each is escaped; the script reads its numbers from JSON.
"""

from __future__ import annotations

import json
import math
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from importlib.resources import files
from typing import Any

import fmcli
from fmcli.drawing.curves import Figure, label, svg
from fmcli.text import in_cell, readable

# The beginning of every page, by which its file is known.
BEGIN = "<!doctype html><!-- fmcli report -->"
# The columns with names of features, and the column of numbers whose bars show their sign.
FEATURES, SIGNED = ("feature", "other", "part"), "adds"


class HtmlPage:
    """A page that is made section by section."""

    def __init__(self) -> None:
        self._sections: list[str] = []
        self._charts: list[Any] = []
        self._thresholds: Any = None

    def section(self, title: str, *parts: str, note: str = "") -> None:
        """Add a section; without parts and note, nothing."""
        if any(parts) or note:
            said = f'<p class="note">{label(note)}</p>' if note else ""
            self._sections.append(f"<section><h2>{label(title)}</h2>{said}{''.join(parts)}</section>")

    def charts(self, figure: Figure, kind: str = "") -> list[str]:
        """Return a figure as charts, one for each panel, whose values the script shows. kind : a class of CSS."""
        if len(figure.panels) == 1:
            return [self._chart(figure, kind)]
        panels = figure.panels.items()
        return [self._chart(replace(figure, caption=title, panels={"": curves}), kind) for title, curves in panels]

    def _chart(self, figure: Figure, kind: str) -> str:
        (panel,) = figure.panels.values()
        curves = [{"name": name, "x": rounded(x), "y": rounded(y)} for name, (x, y) in panel.items()]
        self._charts.append({"curves": curves})
        image = svg(figure).replace(f"<title>{label(figure.caption)}</title>\n", "", 1)
        image = image.replace("<svg ", f'<svg class="chart" role="img" aria-label="{label(figure.caption)}" ', 1)
        return f'<figure class="{kind}"><figcaption>{label(figure.caption)}</figcaption>{image}</figure>'

    def thresholds(self, counts: Mapping[str, Any], labels: Sequence[str]) -> str:
        """Return a slider of thresholds with the matrix of labels and predictions. counts : as in
        `fmcli.inspect.labeled.thresholds`; labels : the negative and the positive one."""
        self._thresholds, at = {**counts, "threshold": rounded(counts["threshold"])}, counts["usual"]
        true, false = counts["true"], counts["false"]
        names = [("tn", "fp"), ("fn", "tp")]
        numbers = {"tp": true[at], "fp": false[at], "fn": true[0] - true[at], "tn": false[0] - false[at]}
        cells = [[f'<span data-figure="{name}">{cell(int(numbers[name]))}</span>' for name in row] for row in names]
        figures = "".join(f'{name} <b data-figure="{name}"></b> ' for name in ("precision", "recall", "f1", "accuracy"))
        slider = f'<input id="threshold" type="range" data-usual="{at}">'
        text = (
            f'<div class="threshold"><label for="threshold">Threshold <output id="at"></output></label>{slider}</div>'
        )
        return f"<div>{text}{matrix(labels, cells)}<p>{figures}</p></div>"

    def html(self, title: str, verdict: str = "") -> str:
        """Return the whole page."""
        style, script = ((files("fmcli.drawing") / f"page.{kind}").read_text() for kind in ("css", "js"))
        data = json.dumps({"charts": self._charts, "thresholds": self._thresholds}, allow_nan=False)
        for character in "<>&":
            data = data.replace(character, f"\\u{ord(character):04x}")
        digest = b64encode(sha256(script.encode()).digest()).decode()
        policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
        return "\n".join(
            [
                f'{BEGIN}<html lang="en"><head><meta charset="utf-8"><title>{label(title)}</title>',
                f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
                '<meta name="viewport" content="width=device-width, initial-scale=1">',
                f"<style>{style}</style></head><body>",
                f'<header><h1>{label(title)}</h1><p class="verdict">{label(verdict)}</p></header>',
                f"<main>{''.join(self._sections)}</main>",
                f'<footer>Written by fmcli {fmcli.__version__} <button id="print" hidden>Print</button></footer>',
                f'<script type="application/json" id="data">{data}</script><script>{script}</script></body></html>\n',
            ]
        )


def rounded(values: Iterable[float | None]) -> list[float | None]:
    """Return numbers with the digits that the page shows; None for undefined ones."""
    return [float(f"{value:.5g}") if value is not None and math.isfinite(value) else None for value in values]


def cell(value: Any) -> str:
    """Return a value as text."""
    finite = None if isinstance(value, float) and not math.isfinite(value) else value
    return label(in_cell(finite, grouped=True))


def table(rows: Sequence[Mapping[str, Any]], kind: str = "sortable", bar: str = "") -> str:
    """Return rows as a table. kind : classes of CSS; bar : the column of numbers that are drawn as bars, too."""
    if not rows:
        return ""
    largest = max((abs(row[bar]) for row in rows), default=0.0) if bar else 0.0
    names = list(dict.fromkeys(name for row in rows for name in row))
    numbers = {name for row in rows for name, value in row.items() if isinstance(value, int | float)} - {*FEATURES}
    lines = []
    for row in rows:
        cells = []
        for name in names:
            value = row.get(name)
            value_of = f' data-v="{value!r}"' if isinstance(value, int | float) else ""
            mark = f' class="number"{value_of}' if name in numbers else ""
            cells.append(f"<td{mark}>{cell(readable(str(value)) if name in FEATURES else value)}</td>")
        if bar:
            width = 100 * abs(row[bar]) / largest if largest else 0
            sign = "" if bar != SIGNED else "up" if row[bar] > 0 else "down"
            cells.append(f'<td><span class="bar {sign}" style="width:{width:.1f}%"></span></td>')
        lines.append(f"<tr>{''.join(cells)}</tr>")
    titles = "".join(
        f"<th{' class=number' if name in numbers else ''}>{label(name)}</th>" for name in [*names, *[""] * bool(bar)]
    )
    classes = f"{kind} bars" if bar else kind
    return (
        f'<div class="scroll"><table class="{classes}"><thead><tr>{titles}</tr></thead>'
        f"<tbody>{''.join(lines)}</tbody></table></div>"
    )


def facts(values: Mapping[str, Any]) -> str:
    """Return values by name as a table; nested ones have the names of both."""
    flat: dict[str, Any] = {}
    for name, value in values.items():
        inner = value.items() if isinstance(value, Mapping) else [("", value)]
        flat |= {f"{name} {part}".strip().replace("_", " "): each for part, each in inner}
    lines = "".join(f"<tr><th>{label(name)}</th><td>{cell(value)}</td></tr>" for name, value in flat.items())
    return f'<div class="scroll"><table>{lines}</table></div>'


def matrix(labels: Sequence[str], cells: Sequence[Sequence[str]]) -> str:
    """Return the table of labels (down) and predictions (across). cells : as HTML."""
    head = "".join(f"<th>predicted {label(name)}</th>" for name in labels)
    lines = []
    for place, (name, row) in enumerate(zip(labels, cells, strict=True)):
        inner = "".join(f"<td{' class=right' if place == at else ''}>{one}</td>" for at, one in enumerate(row))
        lines.append(f"<tr><th>{label(name)}</th>{inner}</tr>")
    return f'<div class="scroll"><table class="matrix"><tr><th></th>{head}</tr>{"".join(lines)}</table></div>'


def grid(*parts: str) -> str:
    """Return parts beside each other, where there is room."""
    return f'<div class="grid">{"".join(parts)}</div>' if any(parts) else ""


def titled(title: str, part: str, kind: str = "") -> str:
    """Return a part under a title; nothing for an empty part."""
    return f'<div class="{kind}"><h3>{label(title)}</h3>{part}</div>' if part else ""


def command_text(words: Sequence[str]) -> str:
    """Return the words of a command to copy, in lines that end between words."""
    return f"<pre>{' '.join(f'<span>{label(word)}</span>' for word in words)}</pre>"
