"""The request of a user of fmcli train."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fmcli.cli.files import check_input
from fmcli.records import dataclass
from fmcli.registry.models import DEFAULT_MODEL, MODELS
from fmcli.registry.modes import HOLDOUT_GROUP, RANKING
from fmcli.registry.specs import Spec, make_spec

if TYPE_CHECKING:
    from fmcli.cli.cluster import ClusterChoice
    from fmcli.cli.rows.table_options import TableChoice
    from fmcli.cli.train.choices import Choices
    from fmcli.cli.train.disk import DiskChoice
    from fmcli.cli.train.sampling import SamplingChoice
    from fmcli.cli.train.validation import ValidationChoice
    from fmcli.cli.train.written import OutputChoice
    from fmcli.data.formats import RowGroups
    from fmcli.data.related.files import RelationFiles
    from fmcli.data.shards.weights import Weighting
    from fmcli.training.setup.held import Held
    from fmcli.training.setup.settings import Settings
    from fmcli.training.setup.warm_start import WarmStart


@dataclass(frozen=True)
class Request:
    """The arguments of the command: training settings, input files, and output.

    row_groups : what tells the groups of the rows; None: they need none.
    group_field : the field or the column of the groups of ranking.
    relations : of the training rows.
    disk : where the rows are kept during training, if not in memory.
    cluster : where the rows are on a cluster, in `cluster_dir`; None: on this machine.
    online : whether rows are trained on as they are read, and not kept.
    model : the path of the model file.
    choices : the choices of the command line.
    tables : what the columns of tables are.
    members : the number of models to train, with a seed each, whose predictions are averaged.
    by : what tells the groups of rows, or their times; see `row_groups`.
    ranks : whether the loss or the metrics are of groups.
    beside : the settings of other runs on the same rows, if each of several runs has some of the rows; None: all rows
        are those of a single run.
    occupied : bytes that the process has taken before it reads any input.
    """

    settings: Settings
    inputs: tuple[str, ...]
    format: str
    weighting: Weighting | None
    row_groups: RowGroups | None
    group_field: str | None
    relations: tuple[RelationFiles, ...]
    sampling: SamplingChoice
    disk: DiskChoice
    cluster: ClusterChoice | None
    cluster_dir: str | None
    online: bool
    validation: ValidationChoice
    model: str
    written: OutputChoice
    dry_run: bool
    choices: Choices
    tables: TableChoice
    members: int
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

    @property
    def derived(self) -> dict[str, object]:
        """Choices that modes exclude or need, beside the options themselves; for `check_modes`."""
        settings, values = self.settings, self.settings.spec.values
        return {
            "--ensemble": self.members > 1,
            "--holdout 0": settings.holdout == 0,
            HOLDOUT_GROUP: self.validation.held.column,
            "--rare share": settings.share_rare,
            "--hash-bits": settings.hash_bits,
            "--norm": values["norm"],
            "--scale": values["scale"] != "none",
            "--class-weight balanced": self.weighting and self.weighting.balanced,
            RANKING: self.row_groups,
        }


def choose(
    model: str | None,
    solver: str | None,
    loss: str | None,
    options: Mapping[str, Any],
    init_model: str | None,
    *,
    only_new: bool = False,
) -> tuple[Spec, WarmStart | None]:
    """Return the spec of the run, and the model to resume from, if one is given.

    only_new : whether it learns new features alone.

    Raises UsageError if the options cannot be combined, and the errors of load_warm_start.
    """
    if init_model is None:
        return make_spec(model or DEFAULT_MODEL, solver, loss, options), None
    check_input(init_model)
    from fmcli.training.saving import load_warm_start

    warm_start = load_warm_start(init_model, several=only_new)
    if only_new:
        return warm_start.of_newcomers(options), warm_start
    return warm_start.continued(model, solver, loss, options), warm_start
