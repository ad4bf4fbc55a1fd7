"""The results of all experiments with their figures, and the page of the guide, from the numbers of the experiments."""

import json
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from experiment import Experiment, Table
from experiments import ALL

from fmcli.drawing.curves import svg

HERE = Path(__file__).resolve().parent
RESULTS, FIGURES, GUIDE = HERE / "results.json", HERE / "figures", HERE.parents[1] / "fmcli" / "guide" / "papers.md"
SHOWN = "pn_theorem2", "ho_table3", "sgl_cost"  # whose figures are kept in FIGURES, for README.md
HEAD, FOOT, BRIEF = ((HERE / name).read_text().strip() for name in ("head.md", "foot.md", "guide.md"))

Kept = dict[str, Any]


def kept() -> dict[str, Kept]:
    """What is kept of the last run of each experiment: its numbers, digests of its data, seconds."""
    return json.loads(RESULTS.read_text())


def keep(runs: Mapping[str, Kept]) -> None:
    """Write what is kept, an experiment in a line."""
    lines = [f'"{one.name}":{json.dumps(runs[one.name], separators=(",", ":"))}' for one in ALL if one.name in runs]
    RESULTS.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def table(found: Table) -> Iterator[str]:
    yield f"{found.caption}:"
    yield ""
    for cells in (found.head, ["---"] * len(found.head), *found.rows):
        yield "| " + " | ".join(cells) + " |"
    yield ""


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


def results(runs: Mapping[str, Kept], names: Collection[str]) -> str:
    """The results of all experiments, or the sections of these."""
    lines = [] if names else [HEAD, "", *summary(runs), ""]
    for experiment in ALL:
        if (run := runs.get(experiment.name)) and (not names or experiment.name in names):
            lines += section(experiment, run)
    return "\n".join(lines if names else [*lines, "## Data", "", *datasets(runs), "", FOOT])


def drawn(runs: Mapping[str, Kept], names: Collection[str], folder: Path) -> dict[Path, str]:
    """The figures of these experiments, as files in a folder."""
    return {
        folder / file_name(experiment, end): svg(figure)
        for experiment in ALL
        if experiment.name in names and experiment.name in runs
        for end, figure in experiment.figures(runs[experiment.name]["numbers"]).items()
    }


def written() -> dict[Path, str]:
    """The page of the guide and the figures beside README.md, as they follow from the numbers that are kept."""
    runs = kept()
    return {GUIDE: "\n".join(brief(runs)) + "\n", **drawn(runs, SHOWN, FIGURES)}
