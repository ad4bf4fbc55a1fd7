"""fmcli train: train a model on examples and write it to a file."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import click

from fmcli.cli.cluster import ClusterChoice, cluster_options
from fmcli.cli.groups import NEEDED_BY, group_field_option, parse_grouping
from fmcli.cli.options import (
    METRIC_NAMES,
    bad_line_options,
    bad_lines,
    check_files,
    check_last,
    format_option,
    given,
    logging_options,
    option,
    positive,
    share,
    threads_option,
)
from fmcli.cli.output import Log
from fmcli.cli.registered import registered
from fmcli.cli.relations import files_of, parse_relations, relation_option
from fmcli.cli.spellings.translate import SPELLINGS
from fmcli.cli.train.checkpoints import CheckpointChoice, checkpoint_options
from fmcli.cli.train.cluster import check_output, cluster_dir_option
from fmcli.cli.train.disk import disk_options, parse_disk
from fmcli.cli.train.ensemble import ensemble_option
from fmcli.cli.train.ids import chosen_bits, id_options
from fmcli.cli.train.kind_help import KindCommand
from fmcli.cli.train.request import Request, choose, output_path
from fmcli.cli.train.sampling import sampling_options
from fmcli.cli.train.weights import parse_weights, weight_options
from fmcli.errors import UsageError
from fmcli.registry.entry import Entry
from fmcli.registry.losses import LOSSES
from fmcli.registry.models import DEFAULT_MODEL, MODELS
from fmcli.registry.modes import RANKING, check_modes
from fmcli.registry.solvers import DEFAULT_SOLVER, SOLVERS
from fmcli.system.files import probe_output
from fmcli.system.machine import cpu_count
from fmcli.training.settings import PATIENCE, Settings


def helps(table: Mapping[str, Entry]) -> dict[str, str]:
    """Return name -> help of each entry of a table."""
    return {entry.name: entry.help for entry in table.values()}


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
    lists={
        title: list(helps(table).items())
        for title, table in (("Models", MODELS), ("Solvers", SOLVERS), ("Losses", LOSSES))
    },
    epilog=f"These options of other tools are accepted: {', '.join(SPELLINGS)}. For others, the error message names "
    "the option of fmcli.",
)
@click.argument("inputs", metavar="TRAIN...", nargs=-1, required=True)
@option(
    "model",
    "-m",
    "--model",
    metavar="NAME",
    names=helps(MODELS),
    help=f"Model kind; see Models. [default: {DEFAULT_MODEL}, or that of -i]",
)
@registered("model")
@option(
    "penalty",
    "--loss",
    metavar="NAME",
    names=helps(LOSSES),
    help="Loss; see Losses. [default: logistic for two label values, or probit with mcmc, else squared]",
)
@registered("penalty")
@id_options
@weight_options
@option(
    "solver",
    "-s",
    "--solver",
    metavar="NAME",
    names=helps(SOLVERS),
    help=f"Solver; see Solvers. [default: that of the model, {DEFAULT_SOLVER} for most]",
)
@registered("solver")
@sampling_options
@registered("data")
@option(
    "run",
    "-i",
    "--init-model",
    metavar="FILE",
    help="Resume training from this model, which may have fewer features: its parameters, and the options that were "
    "given for it, except for the number of epochs, which is 1 by default for stochastic solvers; options given here "
    "take precedence. It may be the output file.",
)
@format_option()
@group_field_option(NEEDED_BY)
@threads_option()
@bad_line_options()
@relation_option(
    "TRAIN",
    more=" Takes few models, by cd or mcmc, whose time and memory depend on the distinct parts.",
)
@disk_options
@cluster_options
@cluster_dir_option
@option(
    "machine",
    "--online",
    is_flag=True,
    help="Train in one pass (-e 1) on rows as they are read, without keeping them: the memory does not depend on their "
    "number.",
)
@option(
    "run",
    "--max-seconds",
    type=positive,
    metavar="N",
    help="End training N seconds after the start of the command, with the best model so far; cd, lbfgs and mcmc end "
    "after an epoch. The model is not trained again on held-out rows. [default: no limit; > 0]",
)
@checkpoint_options()
@ensemble_option
@option(
    "run", "--dry-run", is_flag=True, help="Read the data, print the size of the model and the memory needed, and exit."
)
@option(
    "validation",
    "-v",
    "--valid",
    multiple=True,
    metavar="FILE",
    help="Validation data for early stopping, in the format of TRAIN; several files (-v A -v B) are concatenated.",
)
@option(
    "validation",
    "--holdout",
    type=share,
    metavar="FRACTION",
    help="Share of the rows to hold out as validation data; 0 trains on all rows. [default: 0.05 if there are 10,000 "
    "rows or more, no -v, no -i, several epochs, a stochastic solver and no standard input; else 0]",
)
@option(
    "validation",
    "--refit/--no-refit",
    default=None,
    help="After early stopping on held-out rows, train again on all rows, for the best number of epochs. [default: "
    "refit, if epochs * non-zeros * rank is at most 2e8]",
)
@option(
    "validation",
    "-x",
    "--metric",
    "metrics",
    multiple=True,
    metavar="NAME",
    names=METRIC_NAMES,
    help="Metric; may be repeated, and the first one chooses the epoch: "
    f"{', '.join(METRIC_NAMES)}. [default: two that fit the loss]",
)
@option(
    "validation",
    "--patience",
    type=click.IntRange(min=1),
    metavar="N",
    help=f"Early stopping: stop after N epochs without a better one. [default: {PATIENCE}; >= 1]",
)
@option(
    "validation",
    "--fail-worse-than-constant",
    "fail_worse",
    is_flag=True,
    help="Exit with status 3, without writing the model, if it is worse than the best constant prediction: on the "
    "validation data by the metric that chooses the epoch, or without any clearly on the training rows.",
)
@option(
    "output",
    "-o",
    "--output",
    metavar="MODEL",
    help="Model file; an existing file is replaced. [default: the first input's name with .fm, in the current folder]",
)
@option(
    "output",
    "--keep-state/--no-keep-state",
    default=None,
    help="Save the state of a stochastic solver in the model, so that -i continues with steps of the same size. "
    "[default: yes, if it takes at most 16 MiB, or with -i 256 MiB]",
)
@option(
    "output", "--log-json", metavar="FILE", help="Write the figures of each epoch and of the model as lines of JSON."
)
@option(
    "output",
    "--log-every",
    type=click.IntRange(min=1),
    metavar="N",
    help="Print the running mean loss every N rows (whole batches). [default: never; >= 1]",
)
@logging_options
def command(
    inputs: tuple[str, ...],
    model: str | None,
    solver: str | None,
    loss: str | None,
    groups: str | None,
    test: tuple[str, ...],
    test_output: str | None,
    hash_bits: int | None,
    min_count: int | None,
    rare: str | None,
    sample_weights: str | None,
    label_weights: bool,
    class_weights: tuple[str, ...],
    pos_weight: float | None,
    init_model: str | None,
    format: str,
    group_field: int | None,
    threads: int | None,
    on_bad_line: str | None,
    max_bad_lines: int | None,
    relations: tuple[str, ...],
    disk: bool,
    cache: str | None,
    memory: float | None,
    cluster: ClusterChoice | None,
    cluster_dir: str | None,
    online: bool,
    max_seconds: float | None,
    checkpoint: CheckpointChoice,
    ensemble: int,
    dry_run: bool,
    valid: tuple[str, ...],
    holdout: float | None,
    refit: bool | None,
    metrics: tuple[str, ...],
    patience: int | None,
    fail_worse: bool,
    output: str | None,
    keep_state: bool | None,
    log_json: str | None,
    log_every: int | None,
    quiet: int,
    verbose: bool,
    **options: Any,
) -> None:
    """Train a model on examples in libsvm or ffm text. Files may be compressed; several are concatenated, and "-" is
    standard input.

    With -m KIND, --help and --help-all show only the options of this kind and its solver, with their defaults.
    """
    begin = time.perf_counter()
    choices = {name: value for name, value in options.items() if value is not None}
    if online:
        choices.setdefault("epochs", 1)
    spec, warm_start = choose(model, solver, loss, choices, init_model, log_json)
    settings = Settings(
        spec,
        warm_start=warm_start,
        valid_name=" and ".join(valid),
        holdout=holdout,
        refit=refit,
        metrics=metrics,
        patience=patience,
        stream="-" in inputs,
        threads=threads or cpu_count(),
        deadline=None if max_seconds is None else begin + max_seconds,
        hash_bits=chosen_bits(hash_bits, warm_start),
        min_count=min_count or 1,
        share_rare=rare == "share",
    )
    if test_output == log_json == "-":
        raise UsageError("--test-output and --log-json cannot both be standard output; give one of them a file name")
    if valid or holdout:
        settings.check_chooser()
    weighting = parse_weights(sample_weights, class_weights, pos_weight, label_weights)
    grouping = parse_grouping(spec, metrics, group_field)
    related = parse_relations(relations)
    derived = {
        **{"--ensemble": ensemble > 1, "--holdout 0": holdout == 0, "--rare share": settings.share_rare},
        **{"--hash-bits": settings.hash_bits, "--norm": spec.values["norm"], "--scale": spec.values["scale"] != "none"},
        **{"--class-weight balanced": weighting and weighting.balanced, RANKING: grouping},
        "--disk --no-shuffle": disk and not spec.values.get("shuffle", True),
    }
    check_modes(given() | derived, spec)
    on_disk = parse_disk(disk, cache, memory)
    if cluster is not None:
        cluster.check(inputs, threads)
        check_output(inputs, output)
    output = output_path(inputs, output)
    check_last(inputs, "the model")
    checkpoint.check()
    outputs = [path for path in (output, log_json, cache, test_output, *checkpoint.outputs) if path not in (None, "-")]
    here = inputs if cluster is None else cluster.files
    read = [*here, *valid, *test, *files_of(related), *filter(None, (sample_weights, groups))]
    checkpoint.check_lock([*read, *filter(None, (init_model,)), *outputs])
    check_files(read, outputs)
    if not dry_run:
        for path in outputs:
            probe_output(path)
    from fmcli.cli.train.start import Choices

    request = Request(
        settings=settings,
        inputs=inputs,
        format=format,
        weighting=weighting,
        groups=groups,
        test=test,
        test_output=test_output,
        grouping=grouping,
        relations=related,
        valid=valid,
        disk=on_disk,
        cluster=cluster,
        cluster_dir=cluster_dir,
        online=online,
        output=output,
        keep_state=keep_state,
        dry_run=dry_run,
        log_json=log_json,
        log_every=log_every,
        fail_worse=fail_worse,
        choices=Choices.current(),
        members=ensemble,
    )
    from fmcli.cli.train.run import run

    with Log(quiet=quiet, verbose=verbose) as log, checkpoint.opened(log, dry=dry_run) as keeper:
        run(log, request, bad_lines(on_bad_line, max_bad_lines, log), keeper)
