"""fmcli split: split the rows of a file at random, or by a rule that does not leak."""

from __future__ import annotations

from contextlib import ExitStack
from fractions import Fraction
from typing import TYPE_CHECKING

import click

from fmcli.cli.choices import with_choices
from fmcli.cli.files import DATA, InputFile, OutputFile, check_files
from fmcli.cli.logging import LOGGING, log_of
from fmcli.cli.options import SectionCommand, gathered, given, option
from fmcli.cli.rows.prepared import TABLE, check_twice, log_written, seed_option, written_to
from fmcli.errors import UsageError
from fmcli.records import dataclass
from fmcli.registry.choices import Choices
from fmcli.registry.modes import SEED_OF_SPLIT, check_modes
from fmcli.text import counted
from fmcli.training.setup.named_columns import form_of

if TYPE_CHECKING:
    from fmcli.prepare.rules import SplitRule

FEWEST = 2  # outputs
LONGEST_QUOTE = 40  # characters of a line


def positive_shares(value: str) -> tuple[Fraction, ...]:
    """Return the type of --shares: positive numbers with slashes between them."""
    try:
        found = tuple(map(Fraction, value.split("/")))
    except (ValueError, ZeroDivisionError):
        found = ()
    if not found or min(found) <= 0:
        raise click.BadParameter(f"{value!r} is not a list of positive numbers such as 8/2")
    return found


@dataclass(frozen=True)
class RuleChoice:
    """The rule that decides which output a row is written to; if all fields are empty, rows are split at random."""

    by_time: str | None
    by_group: str | None
    by_order: bool
    last: int | None
    of: str | None

    def rule(self, shares: tuple[Fraction, ...], seed: int) -> SplitRule | None:
        """Return the rule; None: rows are split at random."""
        from fmcli.prepare.rules import ByGroup, ByTime, LastOf

        if self.last is not None:
            return LastOf(self.last)
        if self.by_group is not None:
            return ByGroup(shares, seed)
        return ByTime(shares) if self.by_order or self.by_time is not None else None


rule_options = gathered(
    "rule",
    RuleChoice,
    option(
        "run",
        "--by-time",
        metavar="COL",
        help="The first rows by the time in a column of a table are in the first output, the last ones in the last; "
        "all rows of a time are in one output. Times are numbers or dates; in text, COL is qid or a field.",
    ),
    option(
        "run",
        "--by-order",
        is_flag=True,
        help="The first rows of the file are in the first output, the last ones in the last.",
    ),
    option(
        "run",
        "--by-group",
        metavar="COL",
        help="All rows with the same cell in a column of a table are in one output; in text, with the same qid (COL is "
        "qid) or feature in a field (COL is the field).",
    ),
    option(
        "run",
        "--last",
        type=click.IntRange(min=1),
        metavar="N",
        help="The last N rows of each group by --of are in the second output, by --by-time, with others of the first "
        "one's time, or by the order of the file. A group without earlier rows stays whole. [>= 1]",
    ),
    option("run", "--of", metavar="COL", help="The groups of --last, as in --by-group."),
)


@click.command(
    cls=SectionCommand,
    name="split",
    examples=[
        "# Four fifths of the rows for training, the others for testing.",
        "fmcli split --shares 8/2 all.libsvm train.libsvm test.libsvm",
        "# The last tenth of the ratings by time for testing.",
        "fmcli split --by-time time --shares 9/1 ratings.csv train.csv test.csv",
        "# The last rating of each user for testing.",
        "fmcli split --last 1 --of user --by-time time ratings.csv train.csv test.csv",
    ],
)
@click.argument("source", type=InputFile(), metavar="INPUT")
@click.argument("outputs", type=OutputFile(DATA), metavar="OUTPUT OUTPUT [OUTPUT...]", nargs=-1, required=True)
@option(
    "run",
    "--shares",
    type=positive_shares,
    metavar="X/Y[/...]",
    help="The shares of the outputs, relative to their sum. [default: equal shares]",
)
@rule_options
@seed_option
@option(
    "run",
    "--header",
    is_flag=True,
    help="The first line is the header of a table, with which every output begins; as if a column "
    "decides, unless --columns names them.",
)
@with_choices(*LOGGING, **TABLE, decimal={"section": "run", "help": "Decimal mark of --by-time. [default: plain]"})
def command(
    source: str,
    outputs: tuple[str, ...],
    shares: tuple[Fraction, ...] | None,
    rule: RuleChoice,
    seed: int,
    header: bool,
    choices: Choices,
) -> None:
    """Split the rows of a file or of standard input (-) into two or more files, at random or by a rule. Each row is
    written to one of them, unchanged and in the order of the input; blank lines and comments are left out.

    Without a rule, the shares are exact in each chunk of 262,144 rows. With one, INPUT is a file, which is read twice.

    The log has the rows and the SHA-256 digest of each output: the same input and seed give the same files."""
    if len(outputs) < FEWEST:
        raise UsageError("split needs two or more outputs, such as train.libsvm test.libsvm")
    if shares is not None and len(shares) != len(outputs):
        raise UsageError(f"--shares has {len(shares)} numbers, but there are {len(outputs)} outputs")
    check_modes({**given(), SEED_OF_SPLIT: given()["seed"]})
    if rule.last is not None and len(outputs) != FEWEST:
        raise UsageError(f"--last N --of COL takes {FEWEST} outputs; the second gets the last rows")
    if choices.decimal and rule.by_time is None:
        raise UsageError("--decimal is for the numbers of --by-time COLUMN; leave it out")
    form = form_of(choices.columns, choices.delimiter, choices.encoding, choices.decimal)
    parts = shares or (Fraction(1),) * len(outputs)
    by = rule.rule(parts, seed)
    if by is not None:
        check_twice(source, "split")
    check_files()
    from fmcli.prepare.keyed import Source
    from fmcli.prepare.rules import LastOf
    from fmcli.prepare.split import split, split_by

    rows = Source(source, rule.by_group or rule.of, rule.by_time, header, form)
    with log_of(choices) as log:
        with ExitStack() as stack:
            sinks = [stack.enter_context(written_to(path)) for path in outputs]
            found = split_by(by, rows, sinks) if by else split(rows, sinks, parts, seed)
        if found.skipped:
            log.line(f"left out {found.skipped:,} blank lines and comments")
        if found.header:
            log.warning(
                f"the first line, {found.header[:LONGEST_QUOTE]!r}, looks like the header of a table, but was split "
                "like a row; with --header, every output begins with it"
            )
        if isinstance(by, LastOf) and by.whole:
            log.line(f"{counted(by.whole, 'group')} without rows before the last {rule.last}: kept in {outputs[0]}")
        for path, sink in zip(outputs, sinks, strict=True):
            log_written(log, path, sink)
            if not sink.rows:
                log.warning(f"{path} has no rows")
