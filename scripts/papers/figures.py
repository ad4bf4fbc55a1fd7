"""Figures of the papers: curves side by side, where matplotlib is installed."""

from collections.abc import Mapping, Sequence
from typing import Any

Curve = tuple[Sequence[float], Sequence[float]]


def draw(path: str, panels: Mapping[str, Mapping[str, Curve]], **axes: Any) -> None:
    """Write a picture of curves (x, y) by name, a panel for each title; `axes` are properties of every panel."""
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
