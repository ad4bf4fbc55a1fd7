"""Figures as SVG: panels of curves stacked vertically, narrow enough for a phone. The bytes are reproducible."""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from html import escape

from fmcli.records import dataclass
from fmcli.text import one_line

Curve = tuple[Sequence[float], Sequence[float]]

# Pixels. With a title of the y axis, the numbers of the axis begin further to the right.
TITLED_LEFT = 78
UNTITLED = 8  # the height above the legend without a title
WIDTH, LEFT, RIGHT, PLOT, TITLE, BELOW, LINE, FONT, SIGN = 420, 64, 14, 200, 26, 46, 18, 13, 22
LETTER, WIDER = 7.4, 5.0  # the mean width of a letter in this font size, rounded up, and what wide letters add
WIDE, DIGIT = "mwMW@%", 8.3  # the width of a digit
# The least number that is shown in a unit, the unit, and its sign.
UNITS = ((1e9, 1e9, "G"), (1e6, 1e6, "M"), (1e4, 1e3, "k"), (0.0, 1.0, ""))
INK, FRAME, PAPER = "#24292f", "#c4cad0", "#ffffff"
# Colors that color-blind readers can tell apart (Okabe and Ito), each with a pattern of dashes.
COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b8860b", "#56b4e9", "#000000", "#7f7f7f")
DASHES = ("", "7 3", "2 3", "9 3 2 3", "", "7 3", "2 3", "9 3 2 3")
MOST_TICKS, MOST_MARKERS = 7, 30
CLOSE, TINY = 1e-12, 1e-100  # a range narrower than this, relatively or absolutely, is widened
SCARCE = 3  # with fewer ticks, powers of ten alone are too few


@dataclass(frozen=True)
class Figure:
    """Panels of curves, stacked vertically.

    panels : title of a panel -> name of a curve -> its points (x, y).
    log_x, log_y : whether the axis is logarithmic.
    digits : digits after the decimal point of y in the figure's table.
    clouds : names of curves whose points are not joined.
    """

    caption: str
    x: str
    y: str
    panels: Mapping[str, Mapping[str, Curve]]
    log_x: bool = False
    log_y: bool = False
    digits: int = 4
    clouds: Collection[str] = ()


class Axis:
    """Maps values to pixels. `span` is the first and the last pixel."""

    def __init__(self, values: list[float], log: bool, span: tuple[float, float]) -> None:
        least, most = min(values), max(values)
        log = log and least >= TINY
        self.log, self.span = log, span
        size = max(abs(least), abs(most))
        if most - least <= max(size * CLOSE, TINY):
            around = max(0.5, size * 1e-6)
            least, most = (least / 2, most * 2) if log else (least - around, most + around)
        if log:
            self.ticks = powers(least, most)
            self.ends = math.log(least), math.log(most)
        else:
            whole = all(float(value).is_integer() for value in values)
            self.ticks = steps(least, most, 1 if whole else 0)
            self.ends = min(least, self.ticks[0]), max(most, self.ticks[-1])

    def __call__(self, value: float) -> float:
        share = ((math.log(value) if self.log else value) - self.ends[0]) / (self.ends[1] - self.ends[0])
        return self.span[0] + share * (self.span[1] - self.span[0])


def steps(least: float, most: float, smallest: float) -> list[float]:
    """Return round numbers at equal distances, at most MOST_TICKS of them; their distance is at least `smallest`."""
    rough = (most - least) / (MOST_TICKS - 1)
    power = 10.0 ** math.floor(math.log10(rough))
    step = max(smallest, next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * (1 - 1e-9)))
    first, last = math.ceil(least / step - 1e-9), math.floor(most / step + 1e-9)
    return [round(i * step, 12) for i in range(first, last + 1)]


def powers(least: float, most: float) -> list[float]:
    """Return the powers of ten in a range; if they are few, also 2 and 5 times each."""
    low, high = math.floor(math.log10(least)), math.ceil(math.log10(most))
    for factors in ((1,), (1, 2, 5)):
        found = [factor * 10.0**p for p in range(low, high + 1) for factor in factors]
        inside = [value for value in found if least * (1 - 1e-9) <= value <= most * (1 + 1e-9)]
        if len(inside) >= SCARCE:
            break
    every = max(1, math.ceil(len(inside) / MOST_TICKS))
    return inside[::every] or [least, most]


def svg(figure: Figure) -> str:
    """Return the image as SVG."""
    blocks, top = [], 0.0
    for title, curves in figure.panels.items():
        lines = list(panel(figure, title, curves))
        blocks += [f'<g transform="translate(0 {top:g})">', *lines, "</g>"]
        top += height(figure, title, curves)
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {top:g}" width="{WIDTH}" height="{top:g}"'
    style = f'  font-family="sans-serif" font-size="{FONT}" fill="{INK}">'
    back = f'<rect width="{WIDTH}" height="{top:g}" fill="{PAPER}"/>'
    return "\n".join([head, style, f"<title>{label(figure.caption)}</title>", back, *blocks, "</svg>"]) + "\n"


def label(text: str) -> str:
    """Return a text as XML, without control characters."""
    return escape(one_line(text))


def tick(value: float) -> str:
    """Return the number at a tick, short enough for its place: 0.25, 5000, 20k, 1.5M."""
    unit, sign = next((unit, sign) for least, unit, sign in UNITS if abs(value) >= least)
    return f"{value / unit:g}{sign}"


def places(curves: Mapping[str, Curve], left: float) -> tuple[list[tuple[float, int]], int]:
    """Return the place of each entry of the legend (x, line), and the number of lines. left : where a line begins."""
    found, x, line = list[tuple[float, int]](), left, 0
    for name in curves:
        width = SIGN + 6 + LETTER * len(name) + WIDER * sum(map(name.count, WIDE)) + 12
        if found and x + width > WIDTH:
            x, line = left, line + 1
        found.append((x, line))
        x += width
    return found, line + 1


def left_of(figure: Figure) -> float:
    """Return where the axes begin."""
    return float(TITLED_LEFT if figure.y else LEFT)


def height(figure: Figure, title: str, curves: Mapping[str, Curve]) -> float:
    """Return the height of a panel."""
    return head_of(title) + places(curves, left_of(figure))[1] * LINE + PLOT + BELOW


def head_of(title: str) -> int:
    """Return the height above the legend of a panel."""
    return TITLE if title else UNTITLED


def panel(figure: Figure, title: str, curves: Mapping[str, Curve]) -> Iterator[str]:
    """Yield the lines of a panel, with its legend below its title."""
    left = left_of(figure)
    legend, lines = places(curves, left)
    head = head_of(title)
    top = head + lines * LINE + 4
    bottom = top + PLOT
    x = Axis([v for xs, _ in curves.values() for v in xs], figure.log_x, (left + 6, WIDTH - RIGHT))
    y = Axis([v for _, ys in curves.values() for v in ys], figure.log_y, (bottom - 6, top + 6))
    yield f'<text x="{left:g}" y="17" font-weight="bold">{label(title)}</text>'
    for value in y.ticks:
        at = y(value)
        yield f'<path d="M{left:g} {at:.1f}H{WIDTH - RIGHT}" stroke="{FRAME}"/>'
        yield f'<text x="{left - 5:g}" y="{at + 4.5:.1f}" text-anchor="end">{tick(value)}</text>'
    for value in x.ticks:
        at, text = x(value), tick(value)
        middle = min(at, WIDTH - DIGIT * len(text) / 2)  # not over the edge
        yield f'<path d="M{at:.1f} {bottom}v5" stroke="{INK}"/>'
        yield f'<text x="{middle:.1f}" y="{bottom + 19}" text-anchor="middle">{text}</text>'
    yield f'<path d="M{left:g} {top}V{bottom}H{WIDTH - RIGHT}" fill="none" stroke="{INK}"/>'
    yield f'<text x="{(left + WIDTH) / 2:g}" y="{bottom + 37}" text-anchor="middle">{label(figure.x)}</text>'
    middle = (top + bottom) / 2
    yield f'<text transform="translate(13 {middle:g}) rotate(-90)" text-anchor="middle">{label(figure.y)}</text>'
    for i, (name, (xs, ys)) in enumerate(curves.items()):
        color, dash = COLORS[i % len(COLORS)], DASHES[i % len(DASHES)]
        stroke = f'fill="none" stroke="{color}" stroke-width="2"' + (f' stroke-dasharray="{dash}"' if dash else "")
        points = [(x(a), y(b)) for a, b in zip(xs, ys, strict=True)]
        dots = "".join(f"M{a:.1f} {b:.1f}h0" for a, b in points)
        if name in figure.clouds:
            round = f'stroke="{color}" stroke-width="4" stroke-linecap="round"'
            yield f'<path class="curve" d="{dots}" {round} opacity=".4"/>'
            stroke = f'{round} stroke-dasharray="0 7"'
        else:
            yield f'<path class="curve" d="M{"L".join(f"{a:.1f} {b:.1f}" for a, b in points)}" {stroke}/>'
        if len(points) <= MOST_MARKERS and name not in figure.clouds:
            yield f'<path d="{dots}" stroke="{color}" stroke-width="7" stroke-linecap="round"/>'
        at, line = legend[i]
        level = head + line * LINE + 5
        yield f'<path d="M{at:g} {level}h{SIGN}" {stroke}/>'
        yield f'<text x="{at + SIGN + 6:g}" y="{level + 4}">{label(name)}</text>'
