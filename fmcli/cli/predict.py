"""fmcli predict: write the predictions of a model for the rows of the inputs."""

from __future__ import annotations

import sys
import time
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from fmcli.cli.bad_lines import BAD_LINES, rule_of
from fmcli.cli.choices import AS_IN_TRAINING, with_choices
from fmcli.cli.cluster import CLUSTER, ClusterAddress, address_of, log_progress
from fmcli.cli.files import InputFile, check_files
from fmcli.cli.folding import fold_in_option, scorer_with
from fmcli.cli.gaps import log_gaps
from fmcli.cli.logging import LOGGING, log_of
from fmcli.cli.options import SectionCommand, check_last, given, option, output_option, share
from fmcli.cli.output import Log, open_sink, seconds
from fmcli.cli.relations import check_model, parse_relations
from fmcli.errors import UsageError
from fmcli.names import listing
from fmcli.records import dataclass
from fmcli.registry.choices import Choices
from fmcli.registry.modes import check_modes
from fmcli.registry.solvers import SAMPLERS
from fmcli.scoring.extra_outputs import ExtraOutputs
from fmcli.text import counted, figure

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fmcli.data.related.files import RelationFiles
    from fmcli.data.text.faults import BadLines
    from fmcli.data.text.formats import Stream
    from fmcli.scoring.prediction import Counts
    from fmcli.scoring.scorer import OutputType, Scorer

# The tokens of a line that can be ids.
IDS = ("1", "2")
# If the share of unseen non-zeros is larger, the model probably does not belong to the data.
SUSPECT_SHARE = 0.5


def probability(value: str) -> float:
    """Return the type of an option that is a probability, and neither 0 nor 1."""
    number = share(value)
    if not number:
        raise click.BadParameter("0 is not in the range 0<x<1.")
    return number


@dataclass(frozen=True)
class PredictRequest:
    """The arguments of the command.

    output : a file; None: standard output.
    output_dir : a folder instead.
    wanted : the type of output; None: by the loss.
    fold_in : files of labeled rows whose new features the model learns first.
    explain : how many interactions each row has in its explanation; None: there are predictions.
    beside : the outputs that follow each prediction.
    json : whether explanations are JSON.
    """

    model: str
    inputs: tuple[str, ...]
    output: str | None
    output_dir: str | None
    wanted: OutputType | None
    stream: Stream
    unseen: str
    beside: ExtraOutputs
    relations: tuple[RelationFiles, ...]
    choices: Choices
    explain: int | None
    json: bool
    fold_in: tuple[str, ...]


@click.command(
    cls=SectionCommand,
    name="predict",
    examples=[
        "# One number per row.",
        "fmcli predict train.libsvm.fm test.libsvm > predictions.txt",
        "# Labels for several files, written to a file when all are complete.",
        "fmcli predict --output-type label -o labels.txt best.fm part1.ffm.gz part2.ffm.gz",
        "# Users that the model does not know are learned first, from what they have rated.",
        "fmcli predict --fold-in history.libsvm day.fm candidates.libsvm > predictions.txt",
        "# In a pipe.",
        "zcat day*.gz | fmcli predict day.fm | head",
        "# What each feature contributes to the scores, and the three largest interactions of each row.",
        "fmcli predict --explain 3 train.libsvm.fm test.libsvm > parts.tsv",
    ],
)
@click.argument("model", type=InputFile(), metavar="MODEL")
@click.argument("inputs", type=InputFile(), metavar="[INPUT...]", nargs=-1)
@option(
    "output",
    "--output-type",
    type=click.Choice(["raw", "value", "prob", "label"]),
    help="Type of predictions: raw scores; value: numbers, clipped if the model was trained with --clip; prob: "
    "probabilities of the positive label, or of each class; label: labels or numbers. [default: prob for logistic, "
    "probit and softmax loss, else value]",
)
@option("output", "--raw", is_flag=True, help="Short for --output-type raw.")
@option("output", "--sigmoid", is_flag=True, help="Short for --output-type prob.")
@option("output", "--sign", is_flag=True, help="Short for --output-type label.")
@option(
    "output",
    "--std",
    is_flag=True,
    help="Write the standard deviation of the prediction after it, over the draws of a model trained by mcmc, or the "
    "members of an ensemble.",
)
@option(
    "output",
    "--interval",
    type=probability,
    metavar="P",
    help="Write the ends of an interval after the prediction that has the label with the probability P, such as 0.9; "
    "for models of numbers by mcmc. [default: none; 0 to 1]",
)
@option(
    "data",
    "--unseen",
    type=click.Choice(["zero", "warn", "error"]),
    default="zero",
    help="What to do with features that did not occur in training: count them as 0, or by the prior of mcmc; also "
    "warn of them; or stop with an error. [default: zero]",
)
@fold_in_option
@option(
    "output",
    "--id-column",
    metavar="COL",
    help="What is written before each prediction, and a tab: 1 for the first token of a line, which is an id and not "
    "part of the row, 2 for the second one, after the label; of a table, the cell in this column, as a table. "
    "[default: none]",
)
@option(
    "output",
    "--passthrough",
    is_flag=True,
    help="Write each line of the input, a tab, and its prediction; of a table, all cells, and the column prediction.",
)
@option(
    "output",
    "--explain",
    type=click.IntRange(min=0),
    metavar="N",
    help="Write what each raw score consists of, instead of predictions: the score of a row without features, and the "
    "share of each feature; if N > 0, also its main effect, and the N largest interactions of the row. [default: none; "
    ">= 0]",
)
@option(
    "output",
    "--explain-format",
    type=click.Choice(["tsv", "json"]),
    help="With --explain: a table with a line for each part, or a JSON object for each row. [default: tsv]",
)
@option(
    "output",
    "--unbuffered",
    is_flag=True,
    help="Predict each line as soon as it has been read, for a program that waits for the answer. Slower.",
)
@output_option(help="Where to write predictions. [default: standard output]")
@option(
    "output",
    "--output-dir",
    metavar="DIR",
    help="With --cluster: a new folder, into which workers write the predictions for each part of the inputs: "
    "part-00000, part-00001, and so on. This machine and all workers must share it.",
)
@with_choices(
    *("format", "label_weights", "threads", *BAD_LINES, "relations", "join", *CLUSTER, *LOGGING),
    missing_values=AS_IN_TRAINING,
)
def command(
    inputs: tuple[str, ...],
    output_type: OutputType | None,
    raw: bool,
    sigmoid: bool,
    sign: bool,
    std: bool,
    interval: float | None,
    id_column: str | None,
    explain_format: str | None,
    passthrough: bool,
    unbuffered: bool,
    output: str | None,
    output_dir: str | None,
    choices: Choices,
    **asked: Any,
) -> None:
    """Predict a number for each row of the inputs, in order, one per line. "-", or no INPUT, is standard input.

    For a softmax model, a line has a number for each class, in increasing order of the labels. A blank line is a row
    without features; comment lines are skipped. Labels may be missing."""
    from fmcli.data.text.formats import Stream

    inputs = inputs or ("-",)
    related, cluster = parse_relations(choices.relations), address_of(choices)
    check_modes(given())
    wanted = one_type(output_type, raw, sigmoid, sign)
    output = None if output == "-" else output
    if cluster is None:
        check_last(inputs, "predictions")
    else:
        cluster.check(inputs)
    check_files(elsewhere=() if cluster is None else (*inputs, *(table for _, table in choices.join)))
    if output_dir is not None:
        check_output_dir(output_dir)
    on_terminal = output is None and sys.stdout is not None and sys.stdout.isatty()
    with log_of(choices, progress=not on_terminal) as log:
        bad = rule_of(choices, log)
        number = int(id_column) if id_column in IDS else 0
        stream = Stream(unbuffered, number, None if number else id_column, passthrough, choices.label_weights)
        request = PredictRequest(
            inputs=inputs,
            output=output,
            output_dir=output_dir,
            wanted=wanted,
            stream=stream,
            beside=ExtraOutputs(std, interval),
            relations=related,
            choices=choices,
            json=explain_format == "json",
            **asked,
        )
        if cluster is None:
            run(log, request, bad)
        else:
            run_on_cluster(log, request, bad, cluster)


def check_output_dir(folder: str) -> None:
    """Raise UsageError if a folder cannot be the output."""
    import os

    if os.path.lexists(folder) and not (os.path.isdir(folder) and not os.listdir(folder)):
        raise UsageError(f"--output-dir {folder}: it exists and is not an empty folder; remove it, or name another one")


def one_type(output_type: OutputType | None, raw: bool, sigmoid: bool, sign: bool) -> OutputType | None:
    """Return the type of output that the options select. Raises UsageError if they contradict each other."""
    short: dict[OutputType, bool] = {"raw": raw, "prob": sigmoid, "label": sign}
    wanted = {name for name, chosen in short.items() if chosen} | ({output_type} if output_type else set())
    if len(wanted) > 1:
        raise UsageError(f"choose one type of output, not {' and '.join(sorted(wanted))}")
    return wanted.pop() if wanted else None


def run(log: Log, request: PredictRequest, bad: BadLines) -> None:
    """Load the model, predict, and write."""
    from fmcli.data.text.sources import text_bytes
    from fmcli.model_file.container import load
    from fmcli.system.machine import cpu_count
    from fmcli.system.parallel import begun

    begin = time.perf_counter()
    threads = request.choices.threads or cpu_count()
    file = begun(partial(load, request.model), threads)
    from fmcli.scoring.prediction import Counts, predict

    joined = dict(request.choices.join)
    scorer = scorer_with(
        log,
        request.model,
        file(),
        request.fold_in,
        request.choices.format,
        threads,
        joined,
        request.choices.missing_values,
    )
    check_model(request.relations, scorer)
    counts = Counts()
    reading: dict[str, Any] = {
        "format": request.choices.format,
        "threads": threads,
        "counts": counts,
        "bad": bad,
        "stream": request.stream,
        "refuse_unseen": request.unseen == "error",
        "relations": request.relations,
    }
    paths = scorer.tables(request.inputs, joined) if request.choices.format == "auto" else request.inputs
    if request.explain is not None:
        lines = explained(log, request, scorer, paths, reading)
    else:
        output = checked_type(log, request, scorer)
        lines = predict(scorer, paths, output=output, beside=request.beside, **reading)
    # Rows with relations are counted before they are joined.
    size = text_bytes(request.inputs) if log.shows_progress and not request.relations else 0
    with open_sink(request.output) as sink:
        for text in lines:
            sink.write(text)
            if log.due():
                log.progress_of_rows(counts.rows, time.perf_counter() - begin, counts.bytes, size)
    log_result(log, request, scorer, counts, bad, time.perf_counter() - begin)


def explained(
    log: Log, request: PredictRequest, scorer: Scorer, paths: Sequence[str], reading: dict[str, Any]
) -> Iterator[bytes]:
    """Return the explanations of rows as text. Raises UsageError for a model without them."""
    from fmcli.scoring.explain.explanation import Explainer, explained_lines
    from fmcli.scoring.prediction import each_chunk

    log_model(log, request.model, scorer)
    explainer = Explainer(scorer, request.explain or 0)
    counts: Counts = reading["counts"]

    def count(not_finite: int) -> None:
        counts.not_finite += not_finite

    chunks = each_chunk(scorer, paths, explainer.work, **reading)
    return explained_lines(explainer, chunks, json=request.json, counted=count, threads=reading["threads"])


def run_on_cluster(log: Log, request: PredictRequest, bad: BadLines, choice: ClusterAddress) -> None:
    """Predict on a cluster."""
    from fmcli.cluster.scoring import Scoring, loaded
    from fmcli.cluster.tasks import RowReading
    from fmcli.scoring.prediction import Counts

    scorer, model = loaded(request.model)
    output = checked_type(log, request, scorer)
    counts = Counts()
    with choice.connected(log) as cluster:
        begin = time.perf_counter()
        refuse_unseen = request.unseen == "error"
        tables: dict[str, Any] = {"joined": dict(request.choices.join), "missing": request.choices.missing_values}
        reading = RowReading(request.choices.format, False, bad.skip, request.stream, refuse_unseen, **tables)
        scoring = Scoring(cluster, model, request.inputs, reading, counts, bad)
        progress = scoring.progress
        if request.output_dir is not None:
            for _ in scoring.write(output, request.output_dir, request.beside.spread):
                log_progress(log, progress, counts, begin)
        else:
            with open_sink(request.output) as sink:
                for text in scoring.predict(output, request.beside.spread):
                    sink.write(text)
                    log_progress(log, progress, counts, begin)
        took = time.perf_counter() - begin
    log_result(log, request, scorer, counts, bad, took)


def checked_type(log: Log, request: PredictRequest, scorer: Scorer) -> OutputType:
    """Return the type of output for a model, which is logged. Raises UsageError if the model does not have the chosen
    one."""
    wanted = request.wanted
    log_model(log, request.model, scorer)
    if wanted == "prob" and not scorer.has_probabilities:
        raise UsageError(
            f"a model with {scorer.labels.loss} loss has no probabilities; use --output-type raw for its scores"
        )
    if wanted == "value" and scorer.default_output() == "prob":
        raise UsageError(f"a model with {scorer.labels.loss} loss does not predict numbers; use --output-type prob")
    if request.beside.interval is not None:
        scorer.require_intervals()
        if wanted not in (None, "value"):
            raise UsageError(f"--interval is of numbers, not of {wanted}: leave out --output-type {wanted}")
    if request.beside.spread and len(scorer.draws) == 1:
        raise UsageError(
            f"{request.model} has a single draw of its parameters; --std needs a model that "
            f"-s {' or '.join(SAMPLERS)} or --ensemble has trained"
        )
    of_others = ("label", "raw", "prob") if scorer.has_levels else ("label", "raw")
    if request.beside.spread and wanted in of_others and (scorer.labels.values or not scorer.averages_scores):
        raise UsageError(f"--std works with predictions only, not with {wanted}: leave out --output-type {wanted}")
    return wanted or scorer.default_output()


def log_result(log: Log, request: PredictRequest, scorer: Scorer, counts: Counts, bad: BadLines, took: float) -> None:
    """Log the predicted rows, with warnings."""
    if request.unseen == "warn" and counts.unseen:
        log.warning(f"{counts.unseen:,} non-zeros have features that did not occur in training")
    wanted = request.wanted or scorer.default_output()
    of_positive = wanted == "prob" and scorer.labels.positive is not None and request.explain is None
    meaning = f"; predictions are probabilities of {scorer.labels.texts[1]}" if of_positive else ""
    log_counts(log, scorer, counts, bad, took, meaning)


def log_model(log: Log, path: str, scorer: Scorer) -> None:
    """Log the kind of the model."""
    log.detail(f"{path}: {scorer.meta['model']}, {scorer.labels.loss} loss, {scorer.dimension:,} features")


def log_counts(log: Log, scorer: Scorer, counts: Counts, bad: BadLines, took: float, meaning: str = "") -> None:
    """Log the scored rows, with warnings, and the meaning of the scores."""
    log_warnings(log, scorer, counts, bad)
    log.line(f"{', '.join([*in_words(counts, bad), seconds(took)])}{meaning}")


def log_warnings(log: Log, scorer: Scorer, counts: Counts, bad: BadLines) -> None:
    """Log what may be wrong with scored rows."""
    from fmcli.scoring.drift import doubts

    if warning := counted_from_another_number(scorer, counts):
        log.warning(warning)
    if counts.rows and counts.labels_as_ids == counts.rows:
        log.warning(
            "the ids look like labels: --id-column 1 takes the first word of each line as its id, which without this "
            "option is the label; use --id-column 2 if the id follows the label"
        )
    if counts.extra:
        log.line(f"ignored columns, which the model does not know: {listing(sorted(counts.extra))}")
    log_gaps(log, counts.gaps, counts.rows)
    for doubt in doubts(scorer, counts.sample):
        log.warning(doubt)
    share = counts.unseen / max(counts.nonzeros, 1)
    if share > SUSPECT_SHARE:
        log.warning(
            f"{100 * share:.0f} % of the non-zeros did not occur in training: does the model belong to this input?"
        )
    if counts.rows and not counts.nonzeros and not bad.count:
        log.warning("no row has a feature, so all predictions are the same; are these the rows to predict?")
    if counts.not_finite:
        log.warning(
            f"{counts.not_finite:,} of {counts.rows:,} rows have a score that is not finite: the model or these rows "
            "have numbers that are too large"
        )


def in_words(counts: Counts, bad: BadLines) -> list[str]:
    """Return how many rows were scored, and what else there was."""
    found = [counted(counts.rows, "row")]
    if counts.unseen:
        share = figure(100 * counts.unseen / counts.nonzeros, 2)
        found.append(f"{counts.unseen:,} of {counted(counts.nonzeros, 'non-zero')} unseen ({share} %)")
    if counts.comments:
        found.append(counted(counts.comments, "comment"))
    if bad.skip:
        found.append(counted(bad.count, "skipped line"))
    return found


def counted_from_another_number(scorer: Scorer, counts: Counts) -> str | None:
    """Return a warning if indices seem to be counted from 0 in training and from 1 here, or the other way around."""
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
