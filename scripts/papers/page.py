"""The results of all experiments with their figures, and the page of the guide, from the numbers of the experiments."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from experiment import Experiment, Figure, Table
from experiments import ALL

from fmcli.drawing.curves import svg

HERE = Path(__file__).resolve().parent
NUMBERS, RESULTS = HERE / "numbers", HERE / "results"
ALL_RESULTS, GUIDE = RESULTS / "README.md", HERE.parents[1] / "fmcli" / "guide" / "papers.md"
MOST_ROWS = 12  # of the table of a figure
HEAD, FOOT, BRIEF = ((HERE / name).read_text().strip() for name in ("head.md", "foot.md", "guide.md"))

Kept = dict[str, Any]


def kept(experiment: Experiment) -> Kept | None:
    """What is kept of the last run of an experiment: its numbers, digests of its data, seconds; None: never run."""
    path = NUMBERS / f"{experiment.name}.json"
    return json.loads(path.read_text()) if path.exists() else None


def table(found: Table) -> Iterator[str]:
    yield f"{found.caption}:"
    yield ""
    for cells in (found.head, ["---"] * len(found.head), *found.rows):
        yield "| " + " | ".join(cells) + " |"
    yield ""


def thinned(values: list[float], log: bool) -> list[float]:
    """At most MOST_ROWS of the values, with the first and the last one."""
    last = len(values) - 1
    if last < MOST_ROWS:
        return values
    if log:
        places = {round((last + 1) ** (i / (MOST_ROWS - 1))) - 1 for i in range(MOST_ROWS)}
    else:
        places = {round(i * last / (MOST_ROWS - 1)) for i in range(MOST_ROWS)}
    return [values[place] for place in sorted(places)]


def numbers_of(figure: Figure) -> Iterator[Table]:
    """The numbers of each panel of a figure."""
    for title, curves in figure.panels.items():
        points = {name: dict(zip(*curve, strict=True)) for name, curve in curves.items()}
        x = thinned(sorted({at for curve in points.values() for at in curve}), figure.log_x)
        rows = [
            [f"{at:g}", *(f"{curve[at]:.{figure.digits}f}" if at in curve else "" for curve in points.values())]
            for at in x
        ]
        yield Table(f"{figure.caption}, {title}: {figure.y}", [figure.x, *points], rows)


def section(experiment: Experiment, run: Kept) -> Iterator[str]:
    """The section of an experiment."""
    numbers = run["numbers"]
    yield f"## {experiment.source}: {experiment.title}"
    yield ""
    yield experiment.about.strip()
    yield ""
    yield f"`python scripts/papers --raw FOLDER {experiment.name}` ({run['seconds']:.0f} seconds)"
    yield ""
    for rule in experiment.rules:
        verdict = rule.verdict(numbers)
        reason = f" {rule.reason}" if verdict == "FAIL" and rule.reason else ""
        yield f"- **{verdict}**: {rule.text}{reason}"
    yield ""
    for one in experiment.tables(numbers):
        yield from table(one)
    for end, figure in experiment.figures(numbers).items():
        yield f"![{figure.caption}]({file_name(experiment, end)})"
        yield ""
        for one in numbers_of(figure):
            yield from table(one)
    if experiment.notes:
        yield experiment.notes.strip()
        yield ""


def summary(runs: Mapping[str, Kept]) -> Iterator[str]:
    """A line for each experiment."""
    yield "| what | rules that hold | seconds |"
    yield "| --- | --- | --- |"
    for experiment in ALL:
        if run := runs.get(experiment.name):
            held = [rule.verdict(run["numbers"]) == "PASS" for rule in experiment.rules]
            yield f"| {experiment.source}: {experiment.title} | {sum(held)} of {len(held)} | {run['seconds']:.0f} |"
    yield f"| all | | {sum(run['seconds'] for run in runs.values()):.0f} |"


def datasets(runs: Mapping[str, Kept]) -> Iterator[str]:
    """The data of all experiments, with their digests."""
    yield "| data | rows | features | digest |"
    yield "| --- | --- | --- | --- |"
    built = {name: one for run in runs.values() for name, one in run["data"].items()}
    for name, one in sorted(built.items()):
        yield f"| {name} | {one['rows']:,} | {one['features']:,} | `{one['digest']}` |"


def file_name(experiment: Experiment, end: str) -> str:
    return f"{experiment.name}{'-' if end else ''}{end}.svg"


def brief(runs: Mapping[str, Kept]) -> Iterator[str]:
    """The page of the guide: for each experiment, how many rules hold, the best figures, and the rules that fail."""
    yield BRIEF
    yield ""
    for experiment in ALL:
        if run := runs.get(experiment.name):
            verdicts = [rule.verdict(run["numbers"]) for rule in experiment.rules]
            headline = experiment.headline(run["numbers"])
            fails = [
                f"{'FAIL' if rule.reason else 'FAIL, unexplained'}: {rule.text}"
                for rule, verdict in zip(experiment.rules, verdicts, strict=True)
                if verdict == "FAIL"
            ]
            held = f"{verdicts.count('PASS')} of {len(verdicts)} hold{f'; {headline}' if headline else ''}."
            yield " ".join([f"- {experiment.source}: {experiment.title}: {held}", *fails])


def written() -> dict[Path, str]:
    """The pages and their figures, as they follow from the numbers that are kept."""
    runs = {one.name: run for one in ALL if (run := kept(one))}
    lines = [HEAD, "", *summary(runs), ""]
    files = {}
    for experiment in ALL:
        if run := runs.get(experiment.name):
            lines += section(experiment, run)
            for end, figure in experiment.figures(run["numbers"]).items():
                files[RESULTS / file_name(experiment, end)] = svg(figure)
    lines += ["## Data", "", *datasets(runs), "", FOOT]
    return {ALL_RESULTS: "\n".join(lines) + "\n", GUIDE: "\n".join(brief(runs)) + "\n", **files}
