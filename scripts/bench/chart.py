"""Draw the chart of measured times in the guide, fmcli/guide/speed.svg, from figures.json in this folder.

    python scripts/bench/chart.py

Each chart in figures.json has a title, the name of the data, a unit, and a bar for each tool; smaller is better. The
figures of a chart were measured on one machine: the fastest of several runs, as descent.py and train.py print them.
"""

import json
from collections.abc import Iterator
from html import escape
from pathlib import Path

FIGURES = Path(__file__).resolve().parent / "figures.json"
CHART = Path(__file__).resolve().parents[2] / "fmcli" / "guide" / "speed.svg"
OURS = "fmcli"
# Pixels, except for colors, which can be read on white and on black pages.
WIDTH, LABELS, NUMBERS, MARGIN = 720, 130, 80, 12
BAR, GAP, TITLE = 20, 8, 44
COLOR, OTHERS, INK, PAPER = "#1f6feb", "#a8b3bf", "#24292f", "#ffffff"


def lines(charts: list[dict], labels: int = LABELS) -> Iterator[str]:
    """The lines of the image, with the given width of the labels in pixels."""
    height = MARGIN + sum(TITLE + len(chart["bars"]) * (BAR + GAP) + MARGIN for chart in charts)
    yield f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"'
    yield f'  font-family="sans-serif" font-size="13" fill="{INK}">'
    yield f'<rect width="{WIDTH}" height="{height}" fill="{PAPER}"/>'
    top = MARGIN
    for chart in charts:
        title, data = escape(f"{chart['title']} ({chart['unit']}, less is better)"), escape(chart["data"])
        yield f'<text x="{MARGIN}" y="{top + 14}" font-weight="bold">{title}</text>'
        yield f'<text x="{MARGIN}" y="{top + 32}" font-size="11">{data}</text>'
        top += TITLE
        longest = max(value for _, value in chart["bars"])
        for name, value in chart["bars"]:
            length = round(value / longest * (WIDTH - labels - NUMBERS))
            color = COLOR if name.startswith(OURS) else OTHERS
            yield f'<text x="{labels - 8}" y="{top + 15}" text-anchor="end">{escape(name)}</text>'
            yield f'<rect x="{labels}" y="{top}" width="{length}" height="{BAR}" fill="{color}"/>'
            yield f'<text x="{labels + length + 6}" y="{top + 15}">{value:g}</text>'
            top += BAR + GAP
        top += MARGIN
    yield "</svg>"


def drawn() -> str:
    """The image."""
    return "\n".join(lines(json.loads(FIGURES.read_text()))) + "\n"


if __name__ == "__main__":
    CHART.write_text(drawn())
