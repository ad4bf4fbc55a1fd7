"""The request of a user of fmcli evaluate."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from fmcli.cli.cluster import ClusterAddress
from fmcli.cli.groups import check_fields
from fmcli.records import dataclass
from fmcli.system.machine import cpu_count

if TYPE_CHECKING:
    from fmcli.data.related.files import RelationFiles
    from fmcli.data.text.faults import BadLines
    from fmcli.data.text.formats import RowGroups
    from fmcli.registry.choices import Choices
    from fmcli.scoring.evaluation import Limit
    from fmcli.scoring.metrics import Outcome
    from fmcli.scoring.prediction import Counts
    from fmcli.scoring.scorer import Scorer


@dataclass(frozen=True)
class EvaluateRequest:
    """The arguments of the command. Exactly one of model and predictions is given.

    choices : how rows are read; `positive` is for predictions, too.
    current : a model that the model must not be worse than, by more than the margin.
    over : the items to rank; None: the rows of each group are ranked.
    seen : rows whose pairs of a user and an item are left out of the ranking.
    relevant : the least label of relevant rows; None: positive labels, or the larger of two.
    label : the column of the labels of tables, to which predictions are compared; None: the rows are text.
    """

    model: str | None
    inputs: tuple[str, ...]
    choices: Choices
    predictions: str | None = None
    loss: str | None = None
    raw: bool = False
    metrics: tuple[str, ...] = ()
    limits: tuple[Limit, ...] = ()
    current: str | None = None
    margin: float = 0.0
    json: bool = False
    relations: tuple[RelationFiles, ...] = ()
    cluster: ClusterAddress | None = None
    calibration: bool = False
    over: str | None = None
    seen: tuple[str, ...] = ()
    relevant: float | None = None
    label: str | None = None

    @property
    def named(self) -> list[str]:
        """The metrics that any option names, each once."""
        return list(dict.fromkeys([*self.metrics, *(limit.metric for limit in self.limits)]))

    @property
    def threads(self) -> int:
        """The number of threads."""
        return self.choices.threads or cpu_count()

    def row_groups(self, loss: str | None) -> RowGroups | None:
        """Return the source of the groups of the rows, which a model or predictions of this loss may need."""
        from fmcli.data.text.formats import RowGroups
        from fmcli.scoring.evaluation import row_groups_for
        from fmcli.training.setup.held import field_of

        if self.over is not None:  # else rows of equal features beside item features are a group
            return RowGroups(field_of(self.choices.group_field), optional=True)
        return row_groups_for(self.named, loss, field_of(self.choices.group_field), usual=not self.metrics)

    def column_of_users(self, scorer: Scorer) -> str | None:
        """Return the column of a table whose features tell users; None: groups do, or all features beside an item's."""
        table = scorer.table
        if table is None or scorer.transform.hash_bits:  # hashes do not tell the columns of features
            return None
        column = self.choices.group_field or table.group
        return column if column in table.features else None

    def rows(
        self, scorer: Scorer, paths: tuple[str, ...], loss: str, *, partial: bool = False, grouped: bool = True
    ) -> tuple[list[str], RowGroups | None]:
        """Return some inputs as the model reads them, and the source of the groups that metrics of a loss need.

        partial : whether tables may have a part of the columns; grouped : whether rows have groups.
        """
        from fmcli.data.tables.reading import By, TableSource
        from fmcli.data.text.formats import RowGroups

        inputs, row_groups = list(paths), self.row_groups(loss)
        if self.choices.format == "auto" and inputs:
            by = By(self.choices.group_field) if grouped and self.choices.group_field is not None else None
            scorer = replace(scorer, missing=self.choices.missing_values)
            inputs = scorer.tables(inputs, dict(self.choices.join), by, partial=partial)
        if inputs and not isinstance(inputs[0], TableSource):
            check_fields([self.choices.group_field], inputs[0])
        elif row_groups is not None:
            row_groups = RowGroups(optional=row_groups.optional)
        return inputs, row_groups

    def labeled(self) -> tuple[list[str], RowGroups | None]:
        """Return the rows to which predictions are compared, and the source of their groups."""
        from fmcli.data.tables.reading import By, TableSource
        from fmcli.data.tables.schema import LABEL, Schema
        from fmcli.data.text.formats import RowGroups

        row_groups = self.row_groups(self.loss)
        if self.label is None:
            return list(self.inputs), row_groups
        by = None if self.choices.group_field is None else By(self.choices.group_field)
        schema = Schema({self.label: LABEL})
        tables = [TableSource.of(path, schema, fields=False, by=by) for path in self.inputs]
        return [*tables], row_groups and RowGroups(optional=row_groups.optional)

    def scored(self, scorer: Scorer, loss: str, threads: int, counts: Counts, bad: BadLines) -> Outcome:
        """Return the rows as a model scores them, with the groups that metrics of a loss need."""
        from fmcli.scoring.evaluation import evaluate_model

        inputs, row_groups = self.rows(scorer, self.inputs, loss)
        return evaluate_model(
            scorer,
            inputs,
            format=self.choices.format,
            threads=threads,
            counts=counts,
            bad=bad,
            label_weights=self.choices.label_weights,
            row_groups=row_groups,
            relations=self.relations,
            relevant=self.relevant,
        )
