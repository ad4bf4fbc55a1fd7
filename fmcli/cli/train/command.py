"""fmcli train: train a model on examples and write it to a file."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from functools import wraps
from inspect import signature
from typing import TYPE_CHECKING, Any

import click

from fmcli.cli.cluster import ClusterChoice, cluster_options
from fmcli.cli.files import MODEL, CommandFile, InputFile, OutputFile, check_apart, check_files
from fmcli.cli.groups import NEEDED_BY, group_field_option, parse_row_groups
from fmcli.cli.options import (
    BadLineChoice,
    LogChoice,
    bad_line_options,
    check_last,
    format_option,
    given,
    logging_options,
    model_path,
    option,
    positive,
    positive_option,
    threads_option,
)
from fmcli.cli.registered import registered
from fmcli.cli.relations import parse_relations, relation_option
from fmcli.cli.rows.table_options import TableChoice, table_options
from fmcli.cli.spellings.translate import SPELLINGS
from fmcli.cli.train.checkpoints import CheckpointChoice, checkpoint_options
from fmcli.cli.train.cluster import check_output, cluster_dir_option
from fmcli.cli.train.disk import DiskChoice, disk_options
from fmcli.cli.train.ensemble import ensemble_option
from fmcli.cli.train.ids import IdChoice, id_options
from fmcli.cli.train.kind_help import KindCommand
from fmcli.cli.train.request import Request, choose
from fmcli.cli.train.sampling import SamplingChoice, sampling_options
from fmcli.cli.train.validation import ValidationChoice, validation_options
from fmcli.cli.train.weights import WeightChoice, weight_options
from fmcli.cli.train.written import OutputChoice, output_options
from fmcli.records import dataclass
from fmcli.registry.entry import Entry
from fmcli.registry.losses import LOSSES
from fmcli.registry.models import DEFAULT_MODEL, MODELS
from fmcli.registry.modes import KIND_AND_SOLVER, TUNE, check_modes
from fmcli.registry.rivals import suited
from fmcli.registry.solvers import DEFAULT_SOLVER, SOLVERS
from fmcli.registry.specs import Spec
from fmcli.system.machine import cpu_count
from fmcli.training.setup.settings import Settings

if TYPE_CHECKING:
    from fmcli.training.setup.held import Held


def helps(table: Mapping[str, Entry]) -> dict[str, str]:
    """Return name -> help of each entry of a table."""
    return {entry.name: entry.help for entry in table.values()}


# What is listed below the options.
COMPONENTS = {
    title: list(helps(table).items()) for title, table in (("Models", MODELS), ("Solvers", SOLVERS), ("Losses", LOSSES))
}

# The inputs and the options, in the order of the help.
TRAINING: tuple[Callable[[Any], Any], ...] = (
    click.argument("inputs", type=InputFile(), metavar="TRAIN...", nargs=-1),
    option(
        "model",
        "-m",
        "--model",
        metavar="NAME",
        names=helps(MODELS),
        help=f"Model kind; see Models. [default: {DEFAULT_MODEL}, or that of -i]",
    ),
    registered("model"),
    option(
        "penalty",
        "--loss",
        metavar="NAME",
        names=helps(LOSSES),
        help="Loss; see Losses. [default: for two label values, logistic or, by a sampling solver, probit; else "
        "squared]",
    ),
    registered("penalty"),
    id_options,
    weight_options,
    positive_option("which one predictions are the probability of"),
    option(
        "solver",
        "-s",
        "--solver",
        metavar="NAME",
        names=helps(SOLVERS),
        help=f"Solver; see Solvers. [default: that of the model, {DEFAULT_SOLVER} for most]",
    ),
    registered("solver"),
    sampling_options,
    registered("data"),
    option(
        "run",
        "-i",
        "--init-model",
        type=InputFile(becomes=MODEL),
        metavar="FILE",
        help="Resume training from this model, which may have fewer features: its parameters, and the options that "
        "were given for it, except for the number of epochs, which is 1 by default for stochastic solvers; options "
        "given here take precedence. It may be the output file.",
    ),
    option(
        "run",
        "--only-new",
        is_flag=True,
        help="With -i: learn the features that this model has not seen, and leave all else as it is, bit by bit. Each "
        "gets the minimum of the losses of its rows plus the penalty, relative to their sum. [l2-w: 1, l2-v: 10]",
    ),
    format_option(),
    table_options,
    group_field_option(NEEDED_BY),
    threads_option(),
    bad_line_options,
    relation_option(
        "TRAIN",
        more=" Takes few models, by solvers that update one feature after the other, whose time and memory then depend "
        "on ROWS, not on the joined rows.",
    ),
    disk_options,
    cluster_options,
    cluster_dir_option,
    option(
        "machine",
        "--online",
        is_flag=True,
        help="Train in one pass (-e 1) on rows as they are read, without keeping them: the memory does not depend on "
        "their number.",
    ),
    option(
        "run",
        "--max-seconds",
        type=positive,
        metavar="N",
        help="End training N seconds after the start of the command, with the best model so far; solvers that are not "
        "stochastic end after an epoch. The model is not trained again on held-out rows. [default: no limit; > 0]",
    ),
    checkpoint_options,
    ensemble_option,
    option(
        "run",
        "--dry-run",
        is_flag=True,
        help="Read the data, print the size of the model and the memory needed, and exit.",
    ),
    validation_options,
    output_options,
    logging_options,
)


@dataclass(frozen=True)
class Asked:
    """The arguments of a command that trains, and its options.

    options : of the registry, by name; None: not given.
    """

    inputs: tuple[str, ...]
    model: str | None
    solver: str | None
    loss: str | None
    init_model: str | None
    only_new: bool
    ids: IdChoice
    weights: WeightChoice
    positive: str | None
    sampling: SamplingChoice
    format: str
    tables: TableChoice
    group_field: str | None
    threads: int | None
    bad_lines: BadLineChoice
    relations: tuple[str, ...]
    disk: DiskChoice
    cluster: ClusterChoice | None
    cluster_dir: str | None
    online: bool
    max_seconds: float | None
    checkpoint: CheckpointChoice
    ensemble: int
    dry_run: bool
    validation: ValidationChoice
    written: OutputChoice
    logging: LogChoice
    options: Mapping[str, Any]

    def request(
        self,
        mode: str = "",
        by: Held | None = None,
        beside: Mapping[str, object] = {},
        files: Sequence[CommandFile] = (),
    ) -> Request:
        """Return the request, checked. It begins now.

        mode : the name of a command that writes no model, and excludes options of train.
        by : what tells the groups of rows, or their times; None: what tells those that are held out.
        beside : choices of this command that modes exclude or need, beside its options.
        files : what the command opens beside the files that its parameters name.

        Raises UsageError for options that cannot be combined, and the errors of `check_files`.
        """
        begin, inputs, validation = time.perf_counter(), self.tables.inputs(self.inputs), self.validation
        choices = {name: value for name, value in self.options.items() if value is not None}
        if self.online:
            choices.setdefault("epochs", 1)
        written = self.written
        model = "" if mode else model_path(written.output, inputs[0])
        if model and written.output is None:
            files = [*files, CommandFile(model, OutputFile(MODEL))]
        check_apart(files)
        of_model = self.model, self.solver, self.loss, choices, self.init_model
        spec, warm_start = choose(*of_model, only_new=self.only_new)
        others: Sequence[Spec] = ()
        if validation.auto or mode == TUNE:
            spec, others = suited(spec, given(), model_given=self.model is not None)
        settings = Settings(
            spec,
            warm_start=warm_start,
            valid_name=" and ".join(validation.valid),
            refit=validation.refit,
            look=validation.look and not self.only_new,
            rivals=tuple(others),
            keep_state=written.keep_state,
            metrics=validation.metrics,
            patience=validation.patience,
            stream="-" in inputs,
            threads=self.threads or cpu_count(),
            deadline=None if self.max_seconds is None else begin + self.max_seconds,
            hash_bits=self.ids.bits(warm_start),
            min_count=self.ids.min_count or 1,
            share_rare=self.ids.rare == "share",
            only_new=self.only_new,
            positive=self.positive,
            **validation.held.settings,
        )
        if validation.valid or validation.holdout:
            settings.check_chooser()
        from fmcli.cli.train.choices import Choices

        ranking = parse_row_groups(spec, validation.metrics, self.group_field)
        request = Request(
            settings=settings,
            inputs=inputs,
            format=self.format,
            weighting=self.weights.weighting(self.positive),
            row_groups=validation.row_groups(ranking, self.group_field, by),
            group_field=self.group_field,
            relations=parse_relations(self.relations),
            sampling=self.sampling,
            disk=self.disk,
            cluster=self.cluster,
            cluster_dir=self.cluster_dir,
            online=self.online,
            validation=validation,
            model=model,
            written=written,
            dry_run=self.dry_run,
            choices=Choices.current(),
            tables=self.tables,
            members=self.ensemble,
            by=by or validation.held,
            ranks=ranking is not None,
        )
        kind_and_solver = {KIND_AND_SOLVER: self.model and self.solver}
        check_modes({**given(), **request.derived, **kind_and_solver, **beside, mode: True}, spec)
        if self.cluster is not None:
            self.cluster.check(inputs)
            check_output(inputs, written.output)
        self.checkpoint.check()
        check_last(self.inputs, "the model")
        of_workers = () if self.cluster is None else (*self.inputs, *(table for _, table in self.tables.join))
        check_files(files, elsewhere=of_workers, written=not self.dry_run)
        return request


def train_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the inputs and the options of train to a command, which gets their values as the argument `asked`."""
    own = signature(function).parameters.keys() - {"asked"}
    names = {field.name for field in fields(Asked)} - {"options"}

    @wraps(function)
    def with_asked(**keywords: Any) -> Any:
        mine = {name: keywords.pop(name) for name in own}
        asked = {name: keywords.pop(name) for name in names}
        return function(asked=Asked(**asked, options=keywords), **mine)

    found: Callable[..., Any] = with_asked
    for one in reversed(TRAINING):
        found = one(found)
    return found


@click.command()
@train_options
def themselves(asked: Asked) -> Asked:
    """Return the arguments."""
    return asked


def asked_of(parameters: Mapping[str, Any]) -> Asked:
    """Return the arguments of train among those of a command that has more, as click has parsed them."""
    assert themselves.callback
    known = {one.name for one in themselves.params}
    found = themselves.callback(**{name: value for name, value in parameters.items() if name in known})
    assert isinstance(found, Asked)
    return found


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
@train_options
def command(asked: Asked) -> None:
    """Train a model on tables (CSV, Parquet), libsvm or ffm text. Files may be compressed; several are concatenated,
    and "-" is standard input.

    With -m KIND, --help and --help-all show only the options of this kind and its solver, with their defaults.
    """
    request = asked.request()
    from fmcli.cli.train.run import train_request

    with asked.logging.opened() as log, asked.checkpoint.opened(log, dry=asked.dry_run) as keeper:
        train_request(log, request, asked.bad_lines.rule(log), keeper)
