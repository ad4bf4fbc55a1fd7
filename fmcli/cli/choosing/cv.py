"""fmcli cv: cross-validation of the options of train."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import click
from click.core import ParameterSource

from fmcli.cli.bad_lines import rule_of
from fmcli.cli.choices import current
from fmcli.cli.choosing.comparing import ComparingCommand
from fmcli.cli.figures import as_json, section
from fmcli.cli.files import DATA, InputFile, OutputFile
from fmcli.cli.logging import log_of
from fmcli.cli.options import gathered, given, option
from fmcli.cli.output import Log, open_lines, open_sink, seconds, write_report
from fmcli.cli.train.command import COMPONENTS, inputs_argument, training_choices
from fmcli.cli.train.log import log_memory
from fmcli.cli.train.progress import epoch_event
from fmcli.cli.train.request import Request, request_of
from fmcli.cli.train.rows import candidate_of, read_valid, rows_of, with_groups
from fmcli.cli.train.tables import with_tables
from fmcli.errors import UsageError
from fmcli.records import dataclass
from fmcli.registry.choices import CHOICES, Choices
from fmcli.registry.modes import CROSS, FOLDS_IN_FILE
from fmcli.registry.options import OPTIONS
from fmcli.text import figure
from fmcli.training.setup.chosen import held_of

if TYPE_CHECKING:
    from fmcli.choosing.cross_validation import FoldTraining, Validated
    from fmcli.choosing.folds import Fold, Folding
    from fmcli.data.text.faults import BadLines
    from fmcli.training.setup.held import Held
    from fmcli.training.setup.rows import RowFacts

FEWEST = 2
# What other options may differ in.
COMPARED = frozenset(OPTIONS) | {name for name, option in CHOICES.items() if option.compared}


class FoldsFile(InputFile):
    """The type of --folds: how many there are, or a file."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not value.isdecimal():
            return super().convert(value, param, ctx)
        if int(value) < FEWEST:
            raise click.BadParameter(f"{value} is not a number of folds, at least {FEWEST}")
        return int(value)

    def paths(self, value: int | str) -> Sequence[str]:
        return [value] if isinstance(value, str) else []


@dataclass(frozen=True)
class FoldChoice:
    """How the rows are divided into folds.

    folds : how many, or a file with the fold of each row.
    """

    folds: int | str
    repeats: int
    by_group: str | None
    by_time: str | None
    by_order: bool
    shuffle_folds: bool
    stratify: bool
    write_folds: str | None

    def by(self) -> Held | None:
        """Return the source of the groups of rows, or of their times."""
        from fmcli.training.setup.held import Held

        column = self.by_group or self.by_time
        return None if column is None else Held(times=self.by_time is not None, column=column)

    @property
    def in_order(self) -> bool:
        """Whether a fold is predicted by the rows before it."""
        return self.by_order or self.by_time is not None

    @property
    def folding(self) -> Folding:
        """The way to divide rows into a number of folds."""
        from fmcli.choosing.folds import Folding

        assert isinstance(self.folds, int)
        return Folding(self.folds, self.repeats, self.shuffle_folds, self.stratify, self.in_order)


fold_options = gathered(
    "folding",
    FoldChoice,
    option(
        "validation",
        "--folds",
        type=FoldsFile(),
        default="5",
        metavar="N|FILE",
        help="How many folds there are; or a file with a line for each row: the number of its fold, from 1 as in the "
        "report, or -1 if no fold predicts it; several numbers are several repeats. A file may also count from 0. "
        "[default: 5; >= 2]",
    ),
    option(
        "validation",
        "--repeats",
        type=click.IntRange(min=1),
        default=1,
        metavar="N",
        help="How many times the rows are divided, with other random folds. [default: 1; >= 1]",
    ),
    option(
        "validation",
        "--by-group",
        metavar="COL",
        help="All rows with the same cell in a column of a table are in one fold; in text, all rows with the same qid "
        "(COL is qid) or feature in a field of ffm text (COL is the field).",
    ),
    option(
        "validation",
        "--by-time",
        metavar="COL",
        help="Each fold follows its training rows by the time in a column of a table: a fold is predicted by the model "
        "of all earlier rows.",
    ),
    option(
        "validation", "--by-order", is_flag=True, help="Each fold follows its training rows in the order of the rows."
    ),
    option(
        "validation",
        "--shuffle-folds/--no-shuffle-folds",
        default=True,
        help="Random folds, or folds of consecutive rows. [default: --shuffle-folds]",
    ),
    option(
        "validation",
        "--stratify/--no-stratify",
        default=True,
        help="Each fold has its share of each class. [default: --stratify]",
    ),
    option(
        "output",
        "--write-folds",
        type=OutputFile(DATA),
        metavar="FILE",
        help="Write the fold of each row, as --folds reads it.",
    ),
)


class CrossCommand(ComparingCommand):
    """cv, whose output differs from train's."""

    others: ClassVar = {
        "output": (
            "FILE",
            "Write the prediction of each row by the model that has not seen it, a line each; the mean over repeats, "
            "and nan if no fold has the row. [default: none]",
        )
    }
    roles: ClassVar = {"output": OutputFile(DATA)}


@click.command(
    cls=CrossCommand,
    name=CROSS,
    examples=[
        "# Five random folds; classes are stratified.",
        "fmcli cv train.libsvm",
        "# Compares two kinds of models on the same folds, three times.",
        "fmcli cv --repeats 3 --against '-m ffm -k 4' train.ffm",
        "# The ratings of a user are all in one fold.",
        "fmcli cv --label rating --by-group user ratings.csv",
    ],
    lists=COMPONENTS,
)
@fold_options
@option(
    "validation",
    "--against",
    multiple=True,
    metavar="OPTIONS",
    help="Compare with models of these options on the same folds, such as '-m ffm -k 4'; may be repeated. The "
    "difference of a metric has the standard error of Nadeau and Bengio, which counts that folds share training rows.",
)
@option("output", "--json", is_flag=True, help="Print one JSON object; undefined values are null.")
@inputs_argument
@training_choices
def command(
    inputs: tuple[str, ...], choices: Choices, folding: FoldChoice, against: tuple[str, ...], json: bool
) -> None:
    """Estimate how well models with these options predict unseen rows: a model trained on the other folds predicts each
    fold. Options are as in train.

    The results do not depend on the number of threads, by which folds train at the same time."""
    by = folding.by()
    request = request_of(inputs, choices, CROSS, by, {**given(), FOLDS_IN_FILE: isinstance(folding.folds, str)})
    others = {words: of_words(words, by) for words in against}
    request = replace(request, beside=tuple(other.settings for other in others.values()))
    with log_of(choices) as log:
        write_report(run(log, request, others, folding, rule_of(choices, log), as_text=not json))


def of_words(words: str, by: Held | None) -> Request:
    """Return the request of this command with other options. Raises UsageError for options that change the rows."""
    context = click.get_current_context()
    try:
        other = context.command.make_context(context.info_name, shlex.split(words), parent=context.parent)
    except ValueError as error:
        raise UsageError(f"--against {words!r}: {error}") from error
    others = {name for name in other.params if other.get_parameter_source(name) is ParameterSource.COMMANDLINE}
    if not others:
        raise UsageError(f"--against {words!r}: there is nothing to compare; give other options, such as '-m ffm -k 4'")
    for name in sorted(others - COMPARED):
        flag = next(one.opts[0] for one in context.command.params if one.name == name)
        raise UsageError(f"--against {words!r}: {flag} is an option for all; give it outside of --against")
    own = {name: value for name, value in other.params.items() if name in COMPARED}
    other.params = {**context.params, **own}
    with other.scope(cleanup=False):
        return request_of(other.params["inputs"], current(), CROSS, by)


def run(
    log: Log, request: Request, others: Mapping[str, Request], folding: FoldChoice, bad: BadLines, *, as_text: bool
) -> str:
    """Return the report of a cross-validation."""
    from fmcli.choosing.cross_validation import cross_validate, metrics_of

    request = with_tables(log, request, one_way=True)
    rows, format = rows_of(log, request, bad)
    valid, facts = read_valid(log, request, format, bad, rows.names), rows.facts_of_rows()
    table = request.settings.table
    candidates = [
        candidate_of(replace(one, settings=with_groups(replace(one.settings, table=table), one))).with_loss_of(rows)
        for one in (request, *others.values())
    ]
    folds = divided(log, request, facts, candidates[0], folding)
    if folding.by() and not request.ranks and held_of(request.choices).column is None:
        rows, facts = rows.leaving_out(groups=True), facts._replace(group=None)
    metrics = metrics_of(candidates)
    found: list[list[Validated]] = []
    with open_lines(request.choices.log_json) as lines:
        for name, candidate in zip(["", *others], candidates, strict=True):
            if name:
                log.line(f"with {name}:")
            found.append([])
            for tested in cross_validate(
                candidate, rows, facts, folds, metrics, valid, lambda need: log_memory(log, need, request)
            ):
                found[-1].append(tested)
                log_fold(log, tested, len(folds))
                for event in events_of(tested, name):
                    lines(json.dumps(event, allow_nan=False))
    if request.choices.output is not None:
        write_predictions(request.choices.output, found[0], len(facts.label))
    return report(found, list(others), metrics, candidates[0].loss, as_text=as_text)


def divided(log: Log, request: Request, facts: RowFacts, first: FoldTraining, choice: FoldChoice) -> list[Fold]:
    """Return the folds. Raises UsageError, BadInputError and MissingInputError."""
    from fmcli.choosing.cross_validation import fold_numbers
    from fmcli.choosing.folds import folds_of, lines_of, read_numbers

    if choice.by_time is not None and request.settings.table is None:
        raise UsageError("--by-time needs a table with a column of times; use --by-order if rows are in their order")
    if isinstance(choice.folds, str):
        numbers = read_numbers(choice.folds, len(facts.label))
    else:
        numbers = fold_numbers(first, facts, choice.folding)
    folds = list(folds_of(numbers, in_order=choice.in_order))
    if choice.write_folds is not None:
        with open_sink(choice.write_folds) as sink:
            sink.write(lines_of(numbers))
    sizes = [len(fold.test) for fold in folds]
    log.line(
        f"{len(folds)} folds of {min(sizes):,}"
        + (f" to {max(sizes):,}" if max(sizes) > min(sizes) else "")
        + f" rows, {min(len(folds), request.settings.threads)} at a time"
    )
    return folds


def log_fold(log: Log, tested: Validated, folds: int) -> None:
    """Log the figures of a fold."""
    from fmcli.choosing.cross_validation import named

    shown = "".join(f"  {name} {figure(value)}" for name, value in tested.metrics.items())
    best = "" if "draws" in tested.figures else f"  best epoch {tested.figures['best_epoch']}"
    log.line(f"{named(tested.fold)}{shown}{best}  {seconds(tested.seconds)}")


def events_of(tested: Validated, against: str) -> list[dict[str, Any]]:
    """Return the epochs and the summary of a fold, as `train --log-json` writes them."""
    from fmcli.base.finite import finite

    of: dict[str, Any] = {"repeat": tested.fold.repeat, "fold": tested.fold.number}
    if against:
        of["against"] = against
    epochs = [epoch_event(epoch, **of) for epoch in tested.epochs]
    return [*epochs, finite({"event": "fold", **of, **tested.figures, "test": tested.metrics})]


def write_predictions(path: str, tested: Sequence[Validated], rows: int) -> None:
    """Write a line for each row."""
    from fmcli.choosing.cross_validation import out_of_fold
    from fmcli.scoring.written import lines_of

    with open_sink(None if path == "-" else path) as sink:
        sink.write(lines_of(out_of_fold(tested, rows), tested[0].unit))


def report(
    found: Sequence[Sequence[Validated]], others: Sequence[str], metrics: Sequence[str], loss: str, *, as_text: bool
) -> str:
    """Return the figures of the folds, their means, and the differences from other options, as text or as JSON."""
    from fmcli.choosing.cross_validation import difference_of, mean_of

    def means(tested: Sequence[Validated]) -> list[dict[str, Any]]:
        each = {name: mean_of([one.metrics[name] for one in tested]) for name in metrics}
        return [{"metric": name, "mean": one.mean, "sd": one.sd} for name, one in each.items()]

    def folds(tested: Sequence[Validated]) -> list[dict[str, Any]]:
        repeats = {one.fold.repeat for one in tested}
        return [
            {
                **({"repeat": one.fold.repeat} if len(repeats) > 1 or not as_text else {}),
                "fold": one.fold.number,
                "rows": len(one.fold.test),
                "train_rows": len(one.fold.train),
                "best_epoch": one.figures["best_epoch"],
                **(one.metrics if as_text else {"metrics": one.metrics}),
            }
            for one in tested
        ]

    def differences(other: Sequence[Validated]) -> list[dict[str, Any]]:
        each = {name: difference_of(found[0], other, name) for name in metrics}
        return [{"metric": name, "difference": one.mean, "standard_error": one.sd} for name, one in each.items()]

    compared: list[dict[str, Any]] = [
        {"options": words, "folds": folds(tested), "means": means(tested), "differences": differences(tested)}
        for words, tested in zip(others, found[1:], strict=True)
    ]
    if not as_text:
        first = {"loss": loss, "folds": folds(found[0]), "means": means(found[0])}
        return as_json({**first, "against": compared})
    text = section(folds(found[0])) + section(means(found[0]), "Mean and standard deviation of the folds")
    for one in compared:
        both = [
            {**mine, "against": theirs["mean"], **{name: apart[name] for name in ("difference", "standard_error")}}
            for mine, theirs, apart in zip(means(found[0]), one["means"], one["differences"], strict=True)
        ]
        text += section(one["folds"], f"Against {one['options']}")
        text += section([{n: v for n, v in row.items() if n != "sd"} for row in both], "Difference from these")
    return text
