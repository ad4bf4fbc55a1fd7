"""What an experiment is: its rules, how it runs, and how its numbers are shown."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sets.raw import Raw

from fmcli.drawing.curves import Figure

Numbers = dict[str, Any]


@dataclass(frozen=True)
class Rule:
    """What must hold, as it is printed before the run.

    text : the rule, a sentence.
    holds : whether it holds for the numbers of a run.
    reason : why it does not hold, as found by further measurements; shown if it fails.
    ran : whether the data that it is about were there.
    """

    text: str
    holds: Callable[[Numbers], bool]
    reason: str = ""
    ran: Callable[[Numbers], bool] = lambda numbers: True

    def verdict(self, numbers: Numbers) -> str:
        if not self.ran(numbers):
            return "NOT RUN"
        return "PASS" if self.holds(numbers) else "FAIL"


@dataclass(frozen=True)
class Table:
    """A table of the page: its caption, the names of its columns, and its cells."""

    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Experiment:
    """An experiment of one of the papers.

    name : names it on the command line, and its file of numbers.
    source : the paper, and its table or figure.
    about : what is run, and how it differs from the paper; Markdown.
    run : takes the raw files, and returns numbers that JSON can represent; the same ones each time.
    tables, figures : how the numbers are shown; figures by the end of their file names.
    notes : what else the numbers show; Markdown.
    headline : the best figures in a line, for the page of the guide.
    """

    name: str
    source: str
    title: str
    about: str
    rules: Sequence[Rule]
    run: Callable[[Raw], Numbers]
    tables: Callable[[Numbers], Sequence[Table]]
    figures: Callable[[Numbers], Mapping[str, Figure]] = field(default=lambda numbers: {})
    notes: str = ""
    headline: Callable[[Numbers], str] = field(default=lambda numbers: "")


def mean_and_spread(values: Sequence[float], digits: int) -> str:
    """The mean of the values and their standard deviation, as text."""
    mean = sum(values) / len(values)
    variance = sum((value - mean) ** 2 for value in values) / max(len(values) - 1, 1)
    return f"{mean:.{digits}f} +- {variance**0.5:.{digits}f}"


def mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
