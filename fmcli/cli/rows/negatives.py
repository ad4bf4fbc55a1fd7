"""fmcli negatives: add random pairs that were not observed to a table of observed pairs."""

from __future__ import annotations

import click

from fmcli.cli.choices import ATTRIBUTES, with_choices
from fmcli.cli.files import InputFile, TableOfColumn, check_files
from fmcli.cli.logging import LOGGING, log_of
from fmcli.cli.options import SectionCommand, option, output_option
from fmcli.cli.relations import once_each
from fmcli.cli.rows.prepared import TABLE, log_written, seed_option, written_to
from fmcli.errors import UsageError
from fmcli.registry.choices import Choices
from fmcli.registry.kinds import NAMES
from fmcli.training.setup.named_columns import form_of


@click.command(
    cls=SectionCommand,
    name="negatives",
    examples=[
        "# One random negative for each pair of a user and a film.",
        "fmcli negatives --pair user,film links.csv -o rows.csv",
        "# Five for each.",
        "fmcli negatives --pair user,film --per-pair 5 links.csv -o rows.csv",
        "# For testing: no pair of the training links, and all films of a table.",
        "fmcli negatives --pair user,film --exclude train.csv --among film=films.csv test.csv -o rows.csv",
    ],
)
@click.argument("table", type=InputFile(), metavar="TABLE")
@option("run", "--pair", **ATTRIBUTES[NAMES], required=True, metavar="A,B", help="The two columns that make a pair.")
@option(
    "run",
    "--per-pair",
    type=click.IntRange(min=1),
    default=1,
    metavar="N",
    help="Negatives for each pair of the table. [default: 1; >= 1]",
)
@option(
    "run",
    "--among",
    type=TableOfColumn(),
    multiple=True,
    callback=once_each,
    metavar="COLUMN=TABLE",
    help="Draw this column of negatives from its cells in another table, which has a header. May be given for both "
    "columns. [default: the cells of TABLE]",
)
@option(
    "run",
    "--exclude",
    type=InputFile(),
    metavar="FILE",
    multiple=True,
    help="Never draw pairs from this table, which has columns of the same names. May be repeated. [default: none]",
)
@seed_option
@output_option()
@with_choices(*LOGGING, **TABLE)
def command(
    table: str,
    pair: tuple[str, ...],
    per_pair: int,
    among: tuple[tuple[str, str], ...],
    exclude: tuple[str, ...],
    seed: int,
    output: str | None,
    choices: Choices,
) -> None:
    """Write the pairs of a table with the label 1, and random other pairs (negatives) with the label 0, as CSV with the
    columns A, B and label. Turn the output into features with `fmcli convert`.

    Negatives are drawn with equal probabilities from all combinations of a cell of A and a cell of B, each at most
    once. Pairs are kept in memory. The log has the number of rows and the SHA-256 digest of the output."""
    from fmcli.prepare.negatives import COLUMNS

    if len(pair) != COLUMNS or pair[0] == pair[1]:
        raise UsageError("--pair needs the names of two columns, such as user,film")
    if unknown := {column for column, _ in among} - set(pair):
        raise UsageError(f"--among {sorted(unknown)[0]}: the column is not one of --pair {','.join(pair)}")
    check_files()
    from fmcli.prepare.negatives import cells_of, with_negatives

    form = form_of(choices.columns, choices.delimiter, choices.encoding)
    with log_of(choices) as log:
        pairs = list(cells_of(table, pair, form))
        others = [cells for path in exclude for cells in cells_of(path, pair)]
        pools = {column: [cell for (cell,) in cells_of(path, [column])] for column, path in among}
        lines = with_negatives(pair, pairs, per_pair, pools, others, seed)
        with written_to(output) as sink:
            sink.header(next(lines))
            for line in lines:
                sink.lines(line, 1)
        log_written(log, output, sink)
