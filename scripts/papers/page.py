"""The results as text and as figures, and the page of the guide, from the results that are kept."""

import json
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from measures import Results, Row
from runner import ALL, Experiment

from fmcli.drawing.curves import Figure, svg

HERE = Path(__file__).resolve().parent
RESULTS, FIGURES, GUIDE = HERE / "results.json", HERE / "figures", HERE.parents[1] / "fmcli" / "guide" / "papers.md"
SHOWN = "pn_theorem2", "ho_table3", "sgl_cost"  # whose figures are kept in FIGURES, for README.md
HEAD, FOOT, BRIEF = ((HERE / name).read_text().strip() for name in ("head.md", "foot.md", "guide.md"))
SMALL, LARGE = 0.01, 1000  # numbers outside have four significant digits

Kept = dict[str, Any]


def kept() -> dict[str, Kept]:
    """Return what is kept of the last run of each experiment: its rows, digests of its data, seconds."""
    return json.loads(RESULTS.read_text())


def keep(runs: Mapping[str, Kept]) -> None:
    """Write what is kept, an experiment in a line."""
    lines = [f'"{one.name}":{json.dumps(runs[one.name], separators=(",", ":"))}' for one in ALL if one.name in runs]
    RESULTS.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def number(value: float) -> str:
    if isinstance(value, bool | int) or value != value or value == 0 or abs(value) == float("inf"):
        return str(value)
    return f"{value:.4f}" if SMALL <= abs(value) < LARGE else f"{value:.4g}"


def shown(value: Any, cells: str = "") -> str:
    """Return a figure as text: of several splits, the mean and the standard deviation; of epochs, the last one."""
    if isinstance(value, dict):
        return " ".join(f"{name} {one:g}" if isinstance(one, float) else f"{name} {one}" for name, one in value.items())
    if not isinstance(value, list):
        return number(value) if isinstance(value, float | int) else str(value)
    values = [one[-1] if isinstance(one, list) and one else one for one in value if one not in (None, [])]
    if len(values) < 2:
        return "".join(map(number, values))
    if cells == "lowest":
        return f"{number(min(values))} ({number(float(np.mean(values)))})"
    mean, spread = float(np.mean(values)), float(np.std(values, ddof=1))
    return f"{mean:.4f} +- {spread:.4f}" if SMALL <= abs(mean) < LARGE else f"{mean:.4g} +- {spread:.4g}"


def tables(experiment: Experiment, results: Results) -> Iterator[str]:
    """Yield the rows of results in tables, of rows with the same metrics, with what the paper has."""
    groups: dict[tuple[str, ...], dict[str, Row]] = {}
    for name, row in results.items():
        groups.setdefault(tuple(row), {})[name] = row
    for metrics, rows in groups.items():
        head = ["row"]
        for metric in metrics:
            paper = experiment.paper.get(metric, {})
            head += [f"{metric}, paper"] * any(name in paper for name in rows) + [metric]
        yield from ("", "| " + " | ".join(head) + " |", "| --- " * len(head) + "|")
        for name, row in rows.items():
            cells = [name]
            for metric in metrics:
                if f"{metric}, paper" in head:
                    cells.append(str(experiment.paper[metric].get(name, "")))
                cells.append(shown(row[metric], experiment.cells))
            yield "| " + " | ".join(cells) + " |"


def section(experiment: Experiment, run: Kept) -> Iterator[str]:
    """Yield the section of an experiment."""
    results = Results(run["rows"])
    yield from (f"## {experiment.source}: {experiment.title}", "", experiment.about.strip(), "")
    yield f"`python scripts/papers --raw FOLDER {experiment.name}` ({run['seconds']:.0f} seconds)"
    yield ""
    for rule in experiment.rules:
        verdict = experiment.verdict(rule, results)
        yield f"- **{verdict}**: {rule.text}" + f" {' '.join(rule.reason.split())}" * (verdict == "FAIL")
    for name, expression in experiment.figures.items():
        yield from ("", f"{name}:", "")
        for row, value in experiment.value(expression, results).items():
            yield f"- {row}: {', '.join(map(number, value)) if isinstance(value, list) else number(value)}"
    yield from tables(experiment, results)
    for name, lines in experiment.others.items():
        if lines:
            yield from ("", f"{name}:", "", *(f"- {line}" for line in lines))
    yield from ("", *([experiment.notes.strip(), ""] if experiment.notes else []))


def summary(runs: Mapping[str, Kept]) -> Iterator[str]:
    """Yield a line for each experiment."""
    yield from ("| what | rules that hold | seconds |", "| --- | --- | --- |")
    for experiment in ALL:
        if run := runs.get(experiment.name):
            held = [experiment.verdict(rule, Results(run["rows"])) == "PASS" for rule in experiment.rules]
            yield f"| {experiment.source}: {experiment.title} | {sum(held)} of {len(held)} | {run['seconds']:.0f} |"
    yield f"| all | | {sum(run['seconds'] for run in runs.values()):.0f} |"


def datasets(runs: Mapping[str, Kept]) -> Iterator[str]:
    """Yield the data of all experiments, with their digests."""
    yield from ("| data | rows | features | digest |", "| --- | --- | --- | --- |")
    built = {name: one for run in runs.values() for name, one in run["data"].items()}
    for name, one in sorted(built.items()):
        yield f"| {name} | {one['rows']:,} | {one['features']:,} | `{one['digest']}` |"


def results(runs: Mapping[str, Kept], names: Collection[str]) -> str:
    """Return the results of all experiments, or the sections of these."""
    lines = [] if names else [HEAD, "", *summary(runs), ""]
    for experiment in ALL:
        if (run := runs.get(experiment.name)) and (not names or experiment.name in names):
            lines += section(experiment, run)
    return "\n".join(lines if names else [*lines, "## Data", "", *datasets(runs), "", FOOT])


@dataclass(frozen=True)
class Plot:
    """A figure of the metric y. If the name of a row ends with a number, as in "k = 5", this is x, and the part before
    it names a curve; otherwise the last part does, and y is a list by epoch, or by the list `over`. The other parts
    name a panel.

    only : parts that rows have. log : the axes with logarithms. paper : whether the paper's figures have a panel, too.
    """

    caption: str
    y: str
    x: str = "epoch"
    over: str = ""
    only: tuple[str, ...] = ()
    log: str = ""
    paper: bool = False

    def drawn(self, experiment: Experiment, results: Results) -> str:
        panels: dict[str, dict[str, Any]] = {}
        for name, row in results.items():
            values = [one for one in row.get(self.y, ()) if one not in (None, [])]
            parts = name.split(", ")
            if not values or not set(self.only) <= set(parts) or (self.over and self.over not in row):
                continue
            if isinstance(values[0], list):
                *panel, curve = parts
                y = values[0] if self.over else np.mean(values, axis=0).tolist()
                panels.setdefault(", ".join(panel), {})[curve] = (
                    row[self.over][0] if self.over else range(1, len(y) + 1),
                    y,
                )
            elif at := re.search(r" = ([\d.e+-]+)$", name):
                *panel, curve = parts[:-1]
                both = {"": float(np.mean(values))}
                if self.paper and name in experiment.paper[self.y]:
                    both["paper"] = experiment.paper[self.y][name]
                for end, value in both.items():
                    title = ", ".join([*panel, *filter(None, [end])])
                    x, y = panels.setdefault(title, {}).setdefault(curve, ([], []))
                    x.append(float(at[1]))
                    y.append(value)
        titled = {title or "ours": curves for title, curves in panels.items()}
        return svg(Figure(self.caption, self.x, self.y, titled, "x" in self.log, "y" in self.log))


def drawn(runs: Mapping[str, Kept], names: Collection[str], folder: Path) -> dict[Path, str]:
    """Return the figures of these experiments, as files in a folder."""
    return {
        folder / f"{experiment.name}{f'-{number}' if number else ''}.svg": Plot(**plot).drawn(
            experiment, Results(runs[experiment.name]["rows"])
        )
        for experiment in ALL
        if experiment.name in names and experiment.name in runs
        for number, plot in enumerate(experiment.plots)
    }


def brief(runs: Mapping[str, Kept]) -> Iterator[str]:
    """Yield the page of the guide: how many rules of an experiment hold, the best figures, and what was found where a
    rule fails."""
    yield from (BRIEF, "")
    for experiment in ALL:
        if run := runs.get(experiment.name):
            rows = Results(run["rows"])
            verdicts = [experiment.verdict(rule, rows) for rule in experiment.rules]
            headline = experiment.value(experiment.headline, rows)
            fails = "; ".join(
                rule.found if rule.found and rule.reason else f"{rule.text} (unexplained)"
                for rule, verdict in zip(experiment.rules, verdicts, strict=True)
                if verdict == "FAIL"
            )
            held = f"{verdicts.count('PASS')} of {len(verdicts)} hold{f'; {headline}' if headline else ''}."
            yield f"- {experiment.source}: {experiment.title}: {held}{f' FAIL: {fails}.' if fails else ''}"


def written() -> dict[Path, str]:
    """Return the page of the guide and the figures beside README.md, as they follow from the results that are kept."""
    runs = kept()
    return {GUIDE: "\n".join(brief(runs)) + "\n", **drawn(runs, SHOWN, FIGURES)}
