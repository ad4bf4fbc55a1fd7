"""fmcli inspect: show the properties of a model, and what it has learned."""

from __future__ import annotations

from dataclasses import replace

import click

from fmcli.cli.choices import AS_IN_TRAINING, with_choices
from fmcli.cli.figures import as_json, section
from fmcli.cli.files import InputFile, check_files
from fmcli.cli.logging import LOGGING, log_of
from fmcli.cli.options import SectionCommand, given, option
from fmcli.cli.output import Log, write_report
from fmcli.registry.choices import Choices
from fmcli.registry.modes import check_modes

TOP = 10
# The titles of the rankings of --importance.
TITLES = {
    "fields": "Mean absolute share of the scores, by field",
    "features": "Mean absolute share of the scores, by feature, and the number of rows with the feature",
    "permuted": "What the metric loses if entries change places among the rows, and its standard deviation",
}


@click.command(
    cls=SectionCommand,
    name="inspect",
    examples=[
        "# The properties of the model, its training, and what it learned.",
        "fmcli inspect train.libsvm.fm",
        "# Longer lists, as JSON.",
        "fmcli inspect --top 50 --json train.libsvm.fm",
        "# The features whose shares of the scores are largest on these rows, and what the metric loses without them.",
        "fmcli inspect --importance test.libsvm --permute train.libsvm.fm",
        "# The films that are most like one film.",
        "fmcli inspect --similar film=Casablanca ratings.fm",
        "# Verify all checksums of the file.",
        "fmcli inspect --verify large.fm",
    ],
)
@click.argument("model", type=InputFile(), metavar="MODEL")
@option(
    "run",
    "--top",
    type=click.IntRange(min=0),
    default=TOP,
    metavar="N",
    help=f"Length of each list of features, in decreasing order of absolute values. [default: {TOP}; >= 0]",
)
@option(
    "run",
    "--verify",
    is_flag=True,
    help="Verify all checksums; by default, models larger than 256 MB have only their header verified.",
)
@option(
    "data",
    "--importance",
    type=InputFile(),
    metavar="FILE",
    help="Rank fields and features by the mean absolute share that they have in the scores of the rows of FILE (see "
    "predict --explain), instead of showing the model.",
)
@option(
    "data",
    "--similar",
    metavar="FEATURE",
    help="List the features most similar to FEATURE, by the cosine of their factors, and what both add to the score if "
    "they occur together, instead of showing the model: features of the same column of a table, else all features.",
)
@option(
    "data",
    "--permute",
    is_flag=True,
    help="With --importance: also rank fields, or else these features, by what the default metric of the loss loses if "
    "their entries change places among the rows of FILE, which need labels.",
)
@option("run", "--seed", type=click.IntRange(min=0), metavar="N", help="Seed of --permute. [default: 0; >= 0]")
@option("output", "--json", is_flag=True, help="Print one JSON object; undefined values are null.")
@with_choices("join", *LOGGING, missing_values=AS_IN_TRAINING, threads={"section": "run"})
def command(
    model: str,
    top: int,
    verify: bool,
    importance: str | None,
    similar: str | None,
    permute: bool,
    seed: int | None,
    json: bool,
    choices: Choices,
) -> None:
    """Show the kind of a model, its options, training summary and arrays, and what it has learned about features."""
    check_modes(given())
    check_files()
    with log_of(choices) as log:
        if importance is not None:
            run_importance(log, model, importance, choices, top, permute, seed or 0, json)
        elif similar is not None:
            run_similar(model, similar, top, json)
        else:
            run(log, model, top, verify, json)


def run_importance(
    log: Log,
    path: str,
    rows: str,
    choices: Choices,
    top: int,
    permute: bool,
    seed: int,
    json: bool,
) -> None:
    """Load the model, explain the scores of rows, and write which features are important."""
    from fmcli.inspect.importance import of_rows
    from fmcli.scoring.scorer import load_model
    from fmcli.system.machine import cpu_count

    scorer = replace(load_model(path), missing=choices.missing_values)
    paths = scorer.tables([rows], dict(choices.join))
    threads = choices.threads or cpu_count()
    counts, figures = of_rows(scorer, paths, top=top, threads=threads, permute=permute, seed=seed)
    log.line(f"{rows}: {counts.rows:,} rows, {counts.nonzeros:,} non-zeros, {counts.unseen:,} unseen")
    if json:
        write_report(as_json(figures))
    else:
        write_report("".join(section(found, TITLES[name]) for name, found in figures.items()))


def run_similar(path: str, feature: str, top: int, json: bool) -> None:
    """Load the model, and write the features that are most like one."""
    from fmcli.inspect.similar import Similar
    from fmcli.scoring.scorer import load_model

    found = Similar(load_model(path), feature).nearest(top)
    write_report(as_json({"similar": found}) if json else section(found))


def run(log: Log, path: str, top: int, verify: bool, json: bool) -> None:
    """Load the model, inspect it, and write the figures."""
    from fmcli.data.text.sources import size_on_disk
    from fmcli.inspect.inspection import inspect_model, views

    subject = inspect_model(path, top=top, verify=verify)
    size = size_on_disk(path)
    if subject.verified:
        log.line(f"{path}: {size:,} bytes, all checksums match")
    else:
        log.line(f"{path}: {size:,} bytes, the checksum of the header matches; use --verify to check the rest")
    found = list(views(subject))
    if json:
        write_report(as_json({view.name: figures for view, figures in found}))
    else:
        write_report("".join(section(figures, view.title) for view, figures in found))
