"""fmcli import: make a model of another program a model of fmcli."""

from __future__ import annotations

import click

from fmcli.cli.choices import with_choices
from fmcli.cli.files import MODEL, CommandFile, InputFile, OutputFile, check_files
from fmcli.cli.logging import LOGGING, log_of
from fmcli.cli.options import SectionCommand, model_path, option, output_option
from fmcli.cli.output import Log
from fmcli.registry.choices import Choices

# The names of TOOLS in fmcli.exchange.importing, whose imports are slow.
TOOLS = ("libfm", "libffm", "xlearn")


def pair(value: str) -> tuple[float, float]:
    """Return the type of an option that is two numbers: "0,1"."""
    low, comma, high = value.partition(",")
    try:
        if comma:
            return float(low), float(high)
    except ValueError:
        pass
    raise click.BadParameter(f"{value!r} is not two numbers with a comma between them.")


@click.command(
    cls=SectionCommand,
    name="import",
    examples=[
        "# A model of libFM for two classes.",
        "fmcli import --loss logistic libfm.model -o m.fm",
        "# One for ratings from 1 to 5, as libFM clips them.",
        "fmcli import --loss squared --clip 1,5 libfm.model -o m.fm",
        "# A model of libffm.",
        "fmcli import train.ffm.model -o m.fm",
        "# An FM of xLearn that was trained without its normalization.",
        "fmcli import --loss logistic --no-norm xlearn.txt -o m.fm",
    ],
)
@click.argument("theirs", type=InputFile(), metavar="THEIRS")
@option(
    "run",
    "--from",
    "tool",
    type=click.Choice(TOOLS),
    help="The program that has written it. [default: as the file shows]",
)
@option(
    "run",
    "--loss",
    metavar="NAME",
    names=("squared", "logistic", "probit"),
    help="What its scores mean, which files of libFM and xLearn do not say: squared for regression, logistic for "
    "classes, probit for classes by libFM's als. [default: logistic for libffm]",
)
@option(
    "run",
    "--labels",
    type=pair,
    metavar="LOW,HIGH",
    help="The labels of the two classes; predictions are the probability of HIGH. [default: 0,1]",
)
@option(
    "run",
    "--clip",
    type=pair,
    metavar="LOW,HIGH",
    help="Clip predictions to this range, for loss squared; libFM clips to the range of its training labels. "
    "[default: none]",
)
@option(
    "run",
    "--norm/--no-norm",
    default=None,
    help="Whether a model of xLearn scales rows to unit length, as it usually does; files of libffm say it, and libFM "
    "does not. [default: --norm for an ffm of xLearn]",
)
@output_option(MODEL, "Model file. [default: THEIRS.fm in the current folder]")
@with_choices(*LOGGING)
def command(
    theirs: str,
    tool: str | None,
    loss: str | None,
    labels: tuple[float, float] | None,
    clip: tuple[float, float] | None,
    norm: bool | None,
    output: str | None,
    choices: Choices,
) -> None:
    """Make a model of libFM, libffm or xLearn a model of fmcli, which predicts the same numbers: libFM's text
    (-save_model), libffm's binary file or the text of its versions before 1.20, and xLearn's text (-t).

    Training continues with fmcli train -i MODEL. The kind, the rank, the bias, the linear weights, the loss, the norm
    and the range of predictions stay. All other options are given there or have defaults, because files do not have
    them: the step size (-r) and the penalty (--l2) of libffm and xLearn are 0.2 and 2e-5 unless they were told others.
    A binary model of libffm brings the state of adagrad, too."""
    path = model_path(output, theirs)
    check_files([] if output else [CommandFile(path, OutputFile(MODEL))])
    with log_of(choices) as log:
        run(log, theirs, tool, path, loss=loss, labels=labels, clip=clip, norm=norm)


def run(log: Log, theirs: str, tool: str | None, output: str, **meaning: object) -> None:
    """Import a model, and write it."""
    from fmcli.exchange.importing import IMPORTED_FROM, Meaning, imported
    from fmcli.model_file.container import save

    file = imported(theirs, tool, Meaning(**meaning))  # type: ignore[arg-type]
    save(output, file)
    meta, options = file.meta, file.meta["options"]
    sizes = [f"{meta['features']:,} features"]
    sizes += [f"{meta['fields']:,} fields"] if meta["fields"] else []
    sizes += [f"rank {options['rank']}"] if "rank" in options else []
    sizes += [f"loss {meta['loss']}"] + ["rows of unit length"] * options["norm"]
    log.line(f"{theirs}: {meta['model']} of {meta['training'][IMPORTED_FROM]}, {', '.join(sizes)}")
    log.line(f"wrote {output}")
