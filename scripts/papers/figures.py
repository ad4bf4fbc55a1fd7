"""Figures of the papers: panels of curves. They are skipped if matplotlib is not installed."""

from collections.abc import Mapping, Sequence
from typing import Any

Curve = tuple[Sequence[float], Sequence[float]]


def draw(path: str, panels: Mapping[str, Mapping[str, Curve]], **axes: Any) -> None:
    """Write an image with a panel of named curves (x, y) for each title; `axes` are properties of all panels."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        print("matplotlib is not installed: no figure")
        return
    figure = Figure(figsize=(5 * len(panels), 4), layout="constrained")
    for panel, (title, curves) in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels.items(), strict=True):
        for name, (x, y) in curves.items():
            panel.plot(x, y, marker=".", label=name)
        panel.set(title=title, **axes)
        panel.legend()
    figure.savefig(path)
