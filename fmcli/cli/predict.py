"""fmcli predict: from a model file and examples to a number a row."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

import click

from fmcli.cli.options import (
    SectionCommand,
    check_files,
    check_last,
    format_option,
    logging_options,
    option,
    threads_option,
)
from fmcli.cli.output import Log, open_sink, seconds
from fmcli.errors import UsageError
from fmcli.system.files import probe_output

if TYPE_CHECKING:
    from fmcli.scoring.prediction import Counts, OutputType, Scorer

# A share of unseen non-zeros above which model and data hardly belong together.
SUSPECT_SHARE = 0.5


@click.command(
    cls=SectionCommand,
    name="predict",
    short_help="Predict a number or label for each row.",
    examples=[
        "# A number for each row.",
        "fmcli predict train.libsvm.fm test.libsvm > predictions.txt",
        "# Labels, of several files, to a file that appears when it is complete.",
        "fmcli predict --output-type label -o labels.txt best.fm part1.ffm.gz part2.ffm.gz",
        "# In a pipe.",
        "zcat day*.gz | fmcli predict day.fm | head",
    ],
)
@click.argument("model", metavar="MODEL")
@click.argument("inputs", metavar="[INPUT...]", nargs=-1)
@format_option()
@threads_option()
@option(
    "output",
    "--output-type",
    type=click.Choice(["raw", "value", "prob", "label"]),
    help="Raw score; value: the predicted number, clipped if the model was trained so; probability of the larger label "
    "(of each class for softmax); or label, which may be a number. [default: prob for logistic and softmax loss, else "
    "value]",
)
@option("output", "--raw", is_flag=True, help="The same as --output-type raw.")
@option("output", "--sigmoid", is_flag=True, help="The same as --output-type prob.")
@option("output", "--sign", is_flag=True, help="The same as --output-type label.")
@option("output", "-o", "--output", metavar="FILE", help="Predictions. [default: standard output]")
@logging_options
def command(
    model: str,
    inputs: tuple[str, ...],
    format: str,
    threads: int | None,
    output_type: OutputType | None,
    raw: bool,
    sigmoid: bool,
    sign: bool,
    output: str | None,
    quiet: int,
    verbose: bool,
) -> None:
    """Predict a number for each row of the inputs, in their order, one a line. "-", or no INPUT, is standard input.

    A softmax model gives a number for each class, in increasing order of the labels. A blank line is a row without
    features; a comment line is none. Labels may be missing."""
    inputs = inputs or ("-",)
    wanted = one_type(output_type, raw, sigmoid, sign)
    output = None if output == "-" else output
    check_last(inputs, "predictions")
    check_files((model, *inputs), [output] if output is not None else [])
    if output is not None:
        probe_output(output)
    on_terminal = output is None and sys.stdout is not None and sys.stdout.isatty()
    with Log(quiet=quiet, verbose=verbose, progress=not on_terminal) as log:
        run(log, model, inputs, output, wanted, format, threads)


def one_type(output_type: OutputType | None, raw: bool, sigmoid: bool, sign: bool) -> OutputType | None:
    """The type of output that the options ask for. Raises UsageError where they contradict each other."""
    wanted: set[OutputType] = {output_type} if output_type else set()
    if raw:
        wanted.add("raw")
    if sigmoid:
        wanted.add("prob")
    if sign:
        wanted.add("label")
    if len(wanted) > 1:
        raise UsageError(f"only one type of output can be had, not {' and '.join(sorted(wanted))}")
    return wanted.pop() if wanted else None


def run(
    log: Log,
    model: str,
    inputs: tuple[str, ...],
    output: str | None,
    wanted: OutputType | None,
    format: str,
    threads: int | None,
) -> None:
    """Load the model, score, write."""
    from fmcli.scoring.prediction import Counts, load_model, predict
    from fmcli.system.machine import cpu_count

    begin = time.perf_counter()
    scorer = load_model(model)
    say_model(log, model, scorer)
    if wanted == "prob" and not scorer.has_probabilities:
        raise UsageError(
            f"a model of {scorer.labels.loss} loss gives no probabilities; --output-type raw gives its scores"
        )
    if wanted == "value" and scorer.has_probabilities:
        raise UsageError(
            f"a model of {scorer.labels.loss} loss predicts no numbers; --output-type prob gives probabilities"
        )
    counts = Counts()
    lines = predict(
        scorer,
        inputs,
        output=wanted or scorer.default_output(),
        format=format,
        threads=threads or cpu_count(),
        counts=counts,
    )
    with open_sink(output) as sink:
        for text in lines:
            sink.write(text)
            if log.due():
                speed = counts.rows / (time.perf_counter() - begin)
                log.progress(f"{counts.rows:,} rows  {speed:,.0f} rows/s")
    say_counts(log, counts, time.perf_counter() - begin)


def say_model(log: Log, path: str, scorer: Scorer) -> None:
    """What the model is."""
    log.detail(f"{path}: {scorer.meta['model']}, {scorer.labels.loss} loss, {scorer.model.features:,} features")


def say_counts(log: Log, counts: Counts, took: float) -> None:
    """What went through, and what is odd about it."""
    share = counts.unseen / max(counts.nonzeros, 1)
    if share > SUSPECT_SHARE:
        log.warning(f"training never saw {100 * share:.0f} % of the non-zeros: do model and input belong together?")
    if counts.not_finite:
        log.warning(
            f"{counts.not_finite:,} of {counts.rows:,} rows have a score that is not a finite number: the model or "
            "these rows have numbers that are too large"
        )
    log.line(
        f"{counts.rows:,} rows, {counts.nonzeros:,} non-zeros, {counts.unseen:,} unseen ({100 * share:.2f} %), "
        f"{counts.comments:,} comments, {seconds(took)}"
    )
