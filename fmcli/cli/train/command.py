"""fmcli train: train a model on examples and write it to a file."""

from __future__ import annotations

import click

from fmcli.cli.bad_lines import rule_of
from fmcli.cli.choices import helps, with_choices
from fmcli.cli.files import InputFile
from fmcli.cli.logging import log_of, log_time_option
from fmcli.cli.spellings.translate import SPELLINGS
from fmcli.cli.train.checkpoints import opened
from fmcli.cli.train.kind_help import KindCommand
from fmcli.cli.train.request import request_of
from fmcli.registry.choices import CHOICES, Choices
from fmcli.registry.losses import LOSSES
from fmcli.registry.models import MODELS
from fmcli.registry.solvers import SOLVERS

# What is listed below the options.
COMPONENTS = {
    title: list(helps(table).items()) for title, table in (("Models", MODELS), ("Solvers", SOLVERS), ("Losses", LOSSES))
}
# The inputs of a command that trains, and all choices of a run.
inputs_argument = click.argument("inputs", type=InputFile(), metavar="TRAIN...", nargs=-1)
training_choices = with_choices(*CHOICES, log_time_option)


@click.command(
    cls=KindCommand,
    name="train",
    examples=[
        "# With all defaults; writes train.libsvm.fm.",
        "fmcli train train.libsvm",
        "# Early stopping: keeps the epoch with the best AUC on validation data.",
        "fmcli train -v valid.libsvm -x auc train.libsvm",
        "# Sparse: many weights are exactly 0.",
        "fmcli train -m shfm -s ftrl --l1 1 train.libsvm",
        "# Several compressed files, a larger rank, more and larger steps.",
        "fmcli train -k 16 -e 20 -r 0.1 -o best.fm part1.ffm.gz part2.ffm.gz",
        "# From a pipe, printing the running mean loss every 100,000 rows.",
        "zcat day*.gz | fmcli train --online --log-every 100000 -o day.fm -",
    ],
    lists=COMPONENTS,
    epilog=f"These options of other tools are accepted: {', '.join(SPELLINGS)}. For others, the error message names "
    "the option of fmcli.",
)
@inputs_argument
@training_choices
def command(inputs: tuple[str, ...], choices: Choices) -> None:
    """Train a model on tables (CSV, Parquet), libsvm or ffm text. Files may be compressed; several are concatenated,
    and "-" is standard input.

    With -m KIND, --help and --help-all show only the options of this kind and its solver, with their defaults.
    """
    request = request_of(inputs, choices)
    from fmcli.cli.train.run import train_request

    with log_of(choices) as log, opened(log, choices) as keeper:
        train_request(log, request, rule_of(choices, log), keeper)
