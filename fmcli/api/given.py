"""The rows that a run from Python is given, and its plan."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from fmcli.api.data import Data, for_spec
from fmcli.api.errors import refuse
from fmcli.api.rows import (
    RowForm,
    as_data,
    form_of,
    is_files,
    is_labeled,
    kept,
    observed_pairs,
    tables_again,
    with_decay,
)
from fmcli.api.stored import cached
from fmcli.data.dataset import Dataset
from fmcli.data.shards.weights import weigh_labels
from fmcli.data.tables.named import ColumnRoles
from fmcli.data.tables.other_kinds import other_kinds
from fmcli.data.tables.surveying import schema_of
from fmcli.data.text.prior_groups import read_groups
from fmcli.registry.choices import Choices
from fmcli.registry.losses import LOSSES
from fmcli.registry.row_choices import OF_TABLES
from fmcli.registry.specs import Spec
from fmcli.training.account import require_room, with_copy
from fmcli.training.planning import OtherReading, Plan, prepare
from fmcli.training.setup.chosen import held_of, room_of
from fmcli.training.setup.named_columns import may_read_otherwise, named_of
from fmcli.training.setup.rows import Rows, RowsInMemory, label_weights
from fmcli.training.setup.settings import Settings
from fmcli.training.setup.stored import rows_of_cache
from fmcli.training.setup.warm_start import WarmStart
from fmcli.training.setup.weighting import weighting_of


class GivenRows(NamedTuple):
    """The rows that a run was given.

    unweighted : the rows without the weights of labels.
    of_labels : the weights by label.
    form : how validation data are read, so they fit.
    """

    rows: Rows
    unweighted: Rows
    format: str
    of_labels: Mapping[float, float]
    form: RowForm


def read_rows(data: Any, spec: Spec, choices: Choices, warm_start: WarmStart | None) -> GivenRows:
    """Return the rows to train on. Raises BadInputError, MissingInputError and UsageError."""
    wanted, names, known = held_of(choices), None, None
    if warm_start is not None:
        names, known = warm_start.transform.labels.names, warm_start.transform.table
    unweighted: Rows
    form, weighting = form_of(choices, spec, names, known, data), weighting_of(choices)
    if choices.implicit:
        unweighted, schema, format = observed_pairs(data, "data", form, choices, warm_start)
    elif choices.disk:
        cache, schema = cached(data, "data", form, spec, choices.cache)
        unweighted, format = rows_of_cache(cache), cache.facts.format
    else:
        data = kept(data)
        given = with_decay(as_data(data, "data", form), data, form, choices)
        schema, format = given.schema, given.format
        own = is_files(data) and not choices.auto and choices.calibrate is None
        unweighted = replace(in_memory(given, spec, optional=choices.auto, known=names is not None), own=own)
    of_labels = label_weights(unweighted, weighting)
    rows = unweighted.with_label_weights(of_labels) if weighting else unweighted
    if schema is None:
        refuse(wanted.column is not None, "holdout needs a column, and only tables have some")
        refuse(choices.differing(OF_TABLES), "only tables have columns to name")
    like = form.like(rows.names if names is None else names, schema or known)
    return GivenRows(rows, unweighted, format, of_labels, like)


def in_memory(given: Data, spec: Spec, *, optional: bool, known: bool) -> RowsInMemory:
    """Return rows in memory. known : whether an earlier model has known the names of labels. Raises BadInputError and
    UsageError."""
    rows = for_spec(given, spec, optional=optional)
    refuse(rows.rows == 0, "there are no rows to train on")
    pairwise = spec.loss is not None and LOSSES[spec.loss].pairwise
    refuse(pairwise and rows.group is None, f"loss {spec.loss} needs group, a number for each row")
    return RowsInMemory.of(rows, given.names, known=known)


def plan_of(read: GivenRows, valid: Dataset | None, settings: Settings, choices: Choices) -> Plan:
    """Return the plan of a run. Raises the errors of `prepare`."""
    groups = None if choices.prior_groups is None else read_groups(choices.prior_groups)
    settings = replace(settings, table=read.form.schema, groups=groups).with_scaled_numbers()
    if valid is not None or settings.holdout:
        settings.check_chooser()
    plan = with_copy(prepare(settings, read.rows, valid))
    if choices.disk:
        require_room(plan, room_of(choices))
    return plan


def with_readings(plan: Plan, data: Any, valid: Any, settings: Settings) -> Plan:
    """Return the plan of a run, with other ways to read its frames or tables. settings : before their columns are
    known."""
    choices = settings.choices
    tables = tables_again(data) if plan.settings.table is not None and may_read_otherwise(choices) else []
    if not tables or isinstance(valid, Iterator):
        return plan

    def planned(spec: Spec, options: Mapping[str, Any]) -> Plan:
        changed = choices.changed(**options)
        with warnings.catch_warnings(action="ignore"):  # they were given for the rows as they were asked for
            rows = data._read_as(named_of(changed)) if isinstance(data, Data) and data._read_as else data
            read = read_rows(rows, spec, changed, None)
            evaluated = validating(valid, read, spec, auto=choices.auto)[1]
            return plan_of(read, evaluated, replace(settings, spec=spec, choices=changed), changed)

    def readings() -> Sequence[OtherReading]:
        named = form_of(choices, settings.spec, None, None, data).named or ColumnRoles()
        named = replace(named, labeled=not is_labeled(data))
        others = other_kinds(named, *schema_of(tables, named, settings.threads))
        return [OtherReading(options, partial(planned, options=options)) for options in others]

    return replace(plan, readings=readings)


def validating(valid: Any, read: GivenRows, spec: Spec, *, auto: bool) -> tuple[Dataset | None, Dataset | None]:
    """Return validation data without and with the weights of labels, if there are some. Raises BadInputError."""
    if valid is None:
        return None, None
    rows = for_spec(as_data(valid, "valid", read.form), spec, optional=auto)
    return rows, weigh_labels(rows, read.of_labels) if read.of_labels else rows
