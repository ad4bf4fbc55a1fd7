"""The request of a user of fmcli train, and of the commands that compare its runs."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from glob import has_magic
from typing import TYPE_CHECKING

import click

from fmcli.cli import ARGUMENTS
from fmcli.cli.cluster import ClusterAddress, address_of
from fmcli.cli.files import MODEL, CommandFile, OutputFile, check_apart, check_files, check_input
from fmcli.cli.groups import parse_row_groups, with_held
from fmcli.cli.options import check_last, model_path
from fmcli.cli.relations import parse_relations
from fmcli.cli.rows.table_options import inputs_of
from fmcli.cli.train.checkpoints import check as check_checkpoint
from fmcli.errors import UsageError
from fmcli.records import dataclass
from fmcli.registry.alternatives import suited
from fmcli.registry.models import MODELS
from fmcli.registry.modes import TUNE
from fmcli.training.setup.chosen import held_of, settings_of, spec_of, with_model
from fmcli.training.setup.rules import check_run, made
from fmcli.training.setup.weighting import weighting_of

if TYPE_CHECKING:
    from fmcli.data.related.files import RelationFiles
    from fmcli.data.shards.weights import Weighting
    from fmcli.data.text.formats import RowGroups
    from fmcli.registry.choices import Choices
    from fmcli.registry.specs import Spec
    from fmcli.training.setup.held import Held
    from fmcli.training.setup.settings import Settings
    from fmcli.training.setup.warm_start import WarmStart


@dataclass(frozen=True)
class Request:
    """A run, checked before any data is read.

    choices : of the user.
    words : of the command line, as they were typed.
    inputs, valid, test : files of rows.
    row_groups : the source of the groups of the rows; None: they need none.
    relations : of the training rows.
    cluster : where the rows are; None: on this machine.
    model : the path of the model file.
    by : the source of the groups of rows, or of their times; see `row_groups`.
    ranks : whether the loss or the metrics are of groups.
    beside : the settings of other runs on the same rows, if each of several runs has some of the rows; None: a single
        run has all rows.
    occupied : bytes that the process has taken before it reads any input.
    """

    settings: Settings
    choices: Choices
    words: Sequence[str]
    inputs: tuple[str, ...]
    valid: tuple[str, ...]
    test: tuple[str, ...]
    weighting: Weighting | None
    row_groups: RowGroups | None
    relations: tuple[RelationFiles, ...]
    cluster: ClusterAddress | None
    model: str
    by: Held
    ranks: bool
    beside: tuple[Settings, ...] | None = None
    occupied: int = 0

    @property
    def runs(self) -> tuple[Settings, ...]:
        """The settings of all runs on the rows."""
        return (self.settings, *(self.beside or ()))

    @property
    def fields(self) -> bool:
        """Whether any of the runs needs fields."""
        return any(MODELS[one.spec.model].needs_fields(one.spec.values) for one in self.runs)

    @property
    def uses_fields(self) -> bool:
        """Whether fields count for any of them, if the rows have some."""
        return any(one.uses_fields for one in self.runs)


def request_of(
    inputs: tuple[str, ...],
    choices: Choices,
    mode: str = "",
    by: Held | None = None,
    beside: Mapping[str, object] = {},
    files: Sequence[CommandFile] = (),
) -> Request:
    """Return a request, checked. It begins now.

    mode : the name of a command that writes no model, and excludes options of train.
    by : the source of the groups of rows, or of their times; None: as for held-out rows.
    beside : choices of this command that modes exclude or need, besides its options.
    files : the files that the command opens besides the files that its parameters name.

    Raises UsageError for options that cannot be combined, and the errors of `check_files`.
    """
    begin, last = time.perf_counter(), inputs
    inputs = inputs_of(choices, inputs)
    model = "" if mode else model_path(choices.output, inputs[0])
    if model and choices.output is None:
        files = [*files, CommandFile(model, OutputFile(MODEL))]
    check_apart(files)
    warm_start = warm_start_of(choices)
    choices = with_model(choices, warm_start)
    spec = spec_of(choices, warm_start)
    others: Sequence[Spec] = ()
    if choices.auto or mode == TUNE:
        spec, others = suited(spec, made(choices), model_given=choices.model is not None)
    settings = settings_of(
        choices, spec, warm_start, others, begin, stream="-" in inputs, valid_name=" and ".join(choices.valid)
    )
    if choices.valid or choices.holdout:
        settings.check_chooser()
    # The groups of observed pairs are their users.
    ranking = None if choices.implicit else parse_row_groups(spec, choices.metrics, choices.group_field)
    request = Request(
        settings=settings,
        choices=choices,
        words=click.get_current_context().meta.get(ARGUMENTS, []),
        inputs=inputs,
        valid=choices.valid,
        test=choices.test,
        weighting=weighting_of(choices),
        row_groups=with_held(ranking, choices, by),
        relations=parse_relations(choices.relations),
        cluster=address_of(choices),
        model=model,
        by=by or held_of(choices),
        ranks=ranking is not None,
    )
    check_run(choices, settings, ranks=request.row_groups is not None, more={**beside, mode: True})
    if request.cluster is not None:
        request.cluster.check(inputs)
        if choices.output is None and has_magic(inputs[0]):
            raise UsageError(f"{inputs[0]} is a pattern, which does not give the model a name; use -o FILE")
    check_checkpoint(choices)
    check_last(last, "the model")
    of_workers = () if request.cluster is None else (*last, *(table for _, table in choices.join))
    check_files(files, elsewhere=of_workers, written=not choices.dry_run)
    return request


def warm_start_of(choices: Choices) -> WarmStart | None:
    """Return the model to resume from; None if there is none. Raises the errors of load_warm_start."""
    if choices.init_model is None:
        return None
    check_input(choices.init_model)
    from fmcli.training.saving import load_warm_start

    return load_warm_start(choices.init_model, only_new=choices.only_new)
