"""The tables of fmcli train: the kinds of their columns, from options, the model to resume from, or all cells."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from fmcli.cli.groups import check_fields
from fmcli.cli.rows.prepared import log_order
from fmcli.cli.rows.table_options import log_schema
from fmcli.cli.train.tries import words_of
from fmcli.data.file_formats import is_table
from fmcli.data.shards.weights import Weighting
from fmcli.data.tables.other_kinds import other_kinds
from fmcli.data.tables.reading import By, TableSource, as_tables, columns_of, head_of_table
from fmcli.data.tables.schema import WEIGHT
from fmcli.data.tables.surveying import schema_of
from fmcli.data.text.formats import RowGroups
from fmcli.errors import UsageError
from fmcli.registry.row_choices import OF_TABLES
from fmcli.system.memory import peak
from fmcli.text import listed
from fmcli.training.setup.named_columns import known_schema, may_read_otherwise, named_of, with_sides

if TYPE_CHECKING:
    from fmcli.cli.output import Log
    from fmcli.cli.train.request import Request
    from fmcli.cluster.connection import Cluster
    from fmcli.data.tables.named import ColumnRoles

T = TypeVar("T")


def with_tables(log: Log, request: Request, cluster: Cluster | None = None, *, one_way: bool = False) -> Request:
    """Return the request as its reading begins: inputs that are tables know their columns. Raises
    BadInputError, MissingInputError and UsageError.

    cluster : where the inputs are; None: on this machine.
    one_way : whether the command reads tables in one way only, and says which others train tries.
    """
    request = replace(request, occupied=peak())
    settings, choices = request.settings, request.choices
    known = settings.warm_start.transform.table if settings.warm_start else None
    held = request.by
    columns, when = (choices.group_field, None if held.times else held.column), time_column(request)
    is_text = choices.format != "auto"
    if is_text or not (choices.given & {*OF_TABLES, "decay"} or known or any(map(is_table, request.inputs))):
        check_fields(columns, request.inputs[0], when)
        return request
    threads = settings.threads
    if cluster is not None:
        threads = max(cluster.threads // cluster.workers, 1)
        request = replace(request, inputs=tuple(of_files(cluster, list, request.inputs)))
    for path in request.inputs:
        log_order(log, path)
    schema = known_schema(choices, partial(of_files, cluster, columns_of, request.inputs), known)
    if schema is None:
        named = named_in(request)
        log.progress(f"reading the columns of {request.inputs[0]}")
        of_columns = partial(schema_of, once=choices.online)
        schema, facts = of_files(cluster, of_columns, request.inputs, named, threads, dict(choices.join))
        log_schema(log, schema, facts)
        if one_way and choices.quick_search and may_read_otherwise(choices):
            log_untried(log, list(other_kinds(named, schema, facts)))
    settings = replace(settings, table=schema).with_scaled_numbers()
    if settings.spec is not request.settings.spec and "scale" not in settings.spec.given:
        log.line(f"scaled the columns of numbers: --scale {settings.spec.values['scale']} (--scale none does not)")
    beside = request.beside and tuple(replace(one, table=schema).with_scaled_numbers() for one in request.beside)
    fields = request.fields or request.uses_fields or choices.implicit
    ranking = None if choices.group_field is None else By(choices.group_field)
    by = ranking if held.column is None else By(held.column, held.times)
    more: dict[str, Any] = {"fields": fields, "joined": dict(choices.join)}
    valid, test = (as_tables(one, schema, **more, by=ranking) for one in (request.valid, request.test))
    inputs: list[str] = [TableSource.of(path, schema, **more, by=by) for path in request.inputs]
    if known:
        inputs = of_files(cluster, partial(as_tables, **more, by=by), request.inputs, schema)
    row_groups = request.row_groups
    if not isinstance(inputs[0], TableSource):
        check_fields(columns, inputs[0], when)
    elif row_groups:
        row_groups = RowGroups()
    weighting = request.weighting
    if weighting and weighting.beside_labels and isinstance(inputs[0], TableSource):
        raise UsageError("--label-weights is for text of features; a table has a column of weights", weight_column=None)
    if WEIGHT in schema.kinds.values():
        weighting = replace(weighting or Weighting(), beside_labels=True)
    return replace(
        request,
        inputs=tuple(inputs),
        settings=settings,
        beside=beside,
        weighting=weighting,
        row_groups=row_groups,
        valid=tuple(valid),
        test=tuple(test),
    )


def log_untried(log: Log, others: Sequence[Mapping[str, Any]]) -> None:
    """Log the other ways to read the tables, by choices, which train tries and this command does not."""
    if others:
        several = listed([words_of(one) for one in others], len(others))
        log.line(f"this command reads the table as above; train also tries {several}: add an option that train uses")


def time_column(request: Request) -> str | None:
    """Return the column of times by which rows are held out; None: there is none."""
    return request.by.column if request.by.times else None


def named_in(request: Request) -> ColumnRoles:
    """Return the columns that a request names. Raises UsageError."""
    choices = request.choices
    named = named_of(choices, choices.group_field, time_column(request))
    return with_sides(named, choices, head_of_table(request.inputs[0], named.form).names) if choices.implicit else named


def of_files(cluster: Cluster | None, function: Callable[..., T], inputs: Sequence[str], *more: Any) -> T:
    """Return the result of a function of the inputs, which may be files that only workers see."""
    if cluster is None:
        return function(inputs, *more)
    from fmcli.cluster import tasks

    found: T = cluster.result(cluster.submit(tasks.of_files, function, inputs, *more), f"looking at {inputs[0]}")
    return found
