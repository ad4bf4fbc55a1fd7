"""fmcli predict: write the predictions of a model for the rows of the inputs."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

import click

from fmcli.cli.options import (
    SectionCommand,
    bad_line_options,
    bad_lines,
    check_files,
    check_last,
    format_option,
    label_weights_option,
    logging_options,
    option,
    threads_option,
)
from fmcli.cli.output import Log, open_sink, seconds
from fmcli.errors import UsageError
from fmcli.system.files import probe_output

if TYPE_CHECKING:
    from fmcli.data.faults import BadLines
    from fmcli.data.reader import Stream
    from fmcli.scoring.prediction import Counts, OutputType, Scorer

# If the share of unseen non-zeros is larger, the model probably does not belong to the data.
SUSPECT_SHARE = 0.5


@click.command(
    cls=SectionCommand,
    name="predict",
    examples=[
        "# One number per row.",
        "fmcli predict train.libsvm.fm test.libsvm > predictions.txt",
        "# Labels for several files, written to a file when all are complete.",
        "fmcli predict --output-type label -o labels.txt best.fm part1.ffm.gz part2.ffm.gz",
        "# In a pipe.",
        "zcat day*.gz | fmcli predict day.fm | head",
    ],
)
@click.argument("model", metavar="MODEL")
@click.argument("inputs", metavar="[INPUT...]", nargs=-1)
@format_option()
@label_weights_option()
@threads_option()
@bad_line_options()
@option(
    "output",
    "--output-type",
    type=click.Choice(["raw", "value", "prob", "label"]),
    help="Type of predictions: raw scores; value: numbers, clipped if the model was trained with --clip; prob: "
    "probabilities of the larger label, or of each class; label: labels or numbers. [default: prob for logistic, "
    "probit and softmax loss, else value]",
)
@option("output", "--raw", is_flag=True, help="The same as --output-type raw.")
@option("output", "--sigmoid", is_flag=True, help="The same as --output-type prob.")
@option("output", "--sign", is_flag=True, help="The same as --output-type label.")
@option(
    "output",
    "--std",
    is_flag=True,
    help="Write the standard deviation of the prediction after it, over the draws of a model trained by mcmc.",
)
@option(
    "run",
    "--unseen",
    type=click.Choice(["zero", "warn", "error"]),
    default="zero",
    help="What to do with features that did not occur in training: count them as 0; also warn of them; or stop with an "
    "error. [default: zero]",
)
@option(
    "output",
    "--id-column",
    type=click.IntRange(1, 2),
    metavar="N",
    help="The N-th token of a line is an id, not part of the row: 1, or 2 if it follows the label. Each prediction is "
    "written after the id and a tab. [default: none; 1 to 2]",
)
@option("output", "--passthrough", is_flag=True, help="Write each line of the input, a tab, and its prediction.")
@option(
    "output",
    "--unbuffered",
    is_flag=True,
    help="Predict each line as soon as it has been read, for a program that waits for the answer. Slower.",
)
@option("output", "-o", "--output", metavar="FILE", help="Where to write predictions. [default: standard output]")
@logging_options
def command(
    model: str,
    inputs: tuple[str, ...],
    format: str,
    label_weights: bool,
    threads: int | None,
    on_bad_line: str | None,
    max_bad_lines: int | None,
    output_type: OutputType | None,
    raw: bool,
    sigmoid: bool,
    sign: bool,
    std: bool,
    unseen: str,
    id_column: int | None,
    passthrough: bool,
    unbuffered: bool,
    output: str | None,
    quiet: int,
    verbose: bool,
) -> None:
    """Predict a number for each row of the inputs, in order, one per line. "-", or no INPUT, is standard input.

    For a softmax model, a line has a number for each class, in increasing order of the labels. A blank line is a row
    without features; comment lines are skipped. Labels may be missing."""
    from fmcli.data.reader import Stream

    if label_weights and id_column:
        raise UsageError("--label-weights and --id-column cannot be combined")
    inputs = inputs or ("-",)
    wanted = one_type(output_type, raw, sigmoid, sign)
    output = None if output == "-" else output
    check_last(inputs, "predictions")
    check_files((model, *inputs), [output] if output is not None else [])
    if output is not None:
        probe_output(output)
    on_terminal = output is None and sys.stdout is not None and sys.stdout.isatty()
    with Log(quiet=quiet, verbose=verbose, progress=not on_terminal) as log:
        bad = bad_lines(on_bad_line, max_bad_lines, log)
        stream = Stream(unbuffered, id_column or 0, passthrough, label_weights)
        run(log, model, inputs, output, wanted, format, threads, bad, stream, unseen, std)


def one_type(output_type: OutputType | None, raw: bool, sigmoid: bool, sign: bool) -> OutputType | None:
    """The type of output that the options select. Raises UsageError if they contradict each other."""
    wanted: set[OutputType] = {output_type} if output_type else set()
    if raw:
        wanted.add("raw")
    if sigmoid:
        wanted.add("prob")
    if sign:
        wanted.add("label")
    if len(wanted) > 1:
        raise UsageError(f"choose one type of output, not {' and '.join(sorted(wanted))}")
    return wanted.pop() if wanted else None


def run(
    log: Log,
    model: str,
    inputs: tuple[str, ...],
    output: str | None,
    wanted: OutputType | None,
    format: str,
    threads: int | None,
    bad: BadLines,
    stream: Stream,
    unseen: str,
    std: bool,
) -> None:
    """Load the model, predict, and write."""
    from fmcli.scoring.prediction import Counts, load_model, predict
    from fmcli.system.machine import cpu_count

    begin = time.perf_counter()
    scorer = load_model(model)
    log_model(log, model, scorer)
    if wanted == "prob" and not scorer.has_probabilities:
        raise UsageError(
            f"a model with {scorer.labels.loss} loss has no probabilities; use --output-type raw for its scores"
        )
    if wanted == "value" and scorer.has_probabilities:
        raise UsageError(f"a model with {scorer.labels.loss} loss does not predict numbers; use --output-type prob")
    if std and not scorer.draws:
        raise UsageError(f"{model} has a single draw of its parameters; --std needs a model that -s mcmc has trained")
    if std and wanted in ("label", "raw") and scorer.labels.values:
        raise UsageError(f"--std is that of probabilities; leave out --output-type {wanted}")
    counts = Counts()
    lines = predict(
        scorer,
        inputs,
        output=wanted or scorer.default_output(),
        format=format,
        threads=threads or cpu_count(),
        counts=counts,
        bad=bad,
        stream=stream,
        refuse_unseen=unseen == "error",
        with_spread=std,
    )
    with open_sink(output) as sink:
        for text in lines:
            sink.write(text)
            if log.due():
                speed = counts.rows / (time.perf_counter() - begin)
                log.progress(f"{counts.rows:,} rows  {speed:,.0f} rows/s")
    if unseen == "warn" and counts.unseen:
        log.warning(f"{counts.unseen:,} non-zeros have features that did not occur in training")
    log_counts(log, scorer, counts, bad, time.perf_counter() - begin)


def log_model(log: Log, path: str, scorer: Scorer) -> None:
    """Log the kind of the model."""
    log.detail(f"{path}: {scorer.meta['model']}, {scorer.labels.loss} loss, {scorer.dimension:,} features")


def log_counts(log: Log, scorer: Scorer, counts: Counts, bad: BadLines, took: float) -> None:
    """Log what was scored, with warnings."""
    if warning := counted_from_another_number(scorer, counts):
        log.warning(warning)
    share = counts.unseen / max(counts.nonzeros, 1)
    if share > SUSPECT_SHARE:
        log.warning(
            f"{100 * share:.0f} % of the non-zeros did not occur in training: does the model belong to this input?"
        )
    if counts.not_finite:
        log.warning(
            f"{counts.not_finite:,} of {counts.rows:,} rows have a score that is not finite: the model or these rows "
            "have numbers that are too large"
        )
    skipped = f"{bad.count:,} skipped lines, " if bad.skip else ""
    log.line(
        f"{counts.rows:,} rows, {counts.nonzeros:,} non-zeros, {counts.unseen:,} unseen ({100 * share:.2f} %), "
        f"{counts.comments:,} comments, {skipped}{seconds(took)}"
    )


def counted_from_another_number(scorer: Scorer, counts: Counts) -> str | None:
    """A warning if indices seem to be counted from 0 in training and from 1 here, or the other way around."""
    if counts.span is None or scorer.span is None:
        return None
    (low, high), (known_low, known_high) = counts.span, scorer.span
    shift = known_low - low
    if (shift == 1 and low == 0 and high < known_high) or (shift == -1 and known_low == 0 and high == known_high + 1):
        return (
            f"indices are from {low} to {high} here, but were from {known_low} to {known_high} in training: are they "
            f"counted from {low} here, and from {known_low} there?"
        )
    return None
