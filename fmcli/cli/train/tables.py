"""The tables of fmcli train: what their columns are, from options, the model to resume from, or all cells."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from fmcli.cli.groups import check_fields
from fmcli.cli.output import seconds
from fmcli.cli.rows.prepared import log_order
from fmcli.cli.rows.table_options import log_schema
from fmcli.data.formats import RowGroups
from fmcli.data.tables.reading import By, TablePath, as_tables, is_table, schema_of
from fmcli.data.tables.schema import WEIGHT
from fmcli.data.weights import Weighting
from fmcli.errors import UsageError

if TYPE_CHECKING:
    from fmcli.cli.output import Log
    from fmcli.cli.train.request import Request


def with_tables(log: Log, request: Request) -> Request:
    """Return the request whose inputs know what their columns are, if they are tables. Raises BadInputError,
    MissingInputError and UsageError."""
    settings, choice = request.settings, request.tables
    known = settings.warm_start.transform.table if settings.warm_start else None
    held = request.by
    if not (choice.asked or known or any(map(is_table, request.inputs))):
        check_fields((request.group_field, held.column), request.inputs[0])
        return request
    if request.cluster:
        raise UsageError("workers do not read tables; write them as text first, with fmcli convert")
    begin = time.perf_counter()
    for path in request.inputs:
        log_order(log, path)
    schema = choice.given() or known
    if schema is None:
        named = choice.named(request.group_field, held.column if held.times else None)
        log.progress(f"reading the columns of {request.inputs[0]}")
        if request.online and "-" not in request.inputs and not named.form.names:
            raise UsageError("--online reads a table once; give --schema, or -i with a model that knows its columns")
        schema, facts = schema_of(request.inputs, named, settings.threads, dict(choice.join))
        log.line(f"columns of {request.inputs[0]} ({seconds(time.perf_counter() - begin)}):")
        log_schema(log, schema, facts)
    settings = replace(settings, table=schema).with_scaled_numbers()
    if settings.spec is not request.settings.spec and "scale" not in settings.spec.given:
        log.line(
            f"columns of numbers are scaled: --scale {settings.spec.values['scale']}; none leaves them as they are"
        )
    beside = request.beside and tuple(replace(one, table=schema).with_scaled_numbers() for one in request.beside)
    fields = request.fields or request.uses_fields
    ranking = None if request.group_field is None else By(request.group_field)
    by = ranking if held.column is None else By(held.column, held.times)
    more: dict[str, Any] = {"fields": fields, "joined": dict(choice.join)}
    valid, test = (
        as_tables(one, schema, **more, by=ranking) for one in (request.validation.valid, request.sampling.test)
    )
    inputs: list[str] = [TablePath.of(path, schema, **more, by=by) for path in request.inputs]
    if known:
        inputs = as_tables(request.inputs, schema, **more, by=by)
    row_groups = request.row_groups
    if not isinstance(inputs[0], TablePath):
        check_fields((request.group_field, held.column), inputs[0])
    elif row_groups:
        row_groups = RowGroups()
    weighting = request.weighting
    if WEIGHT in schema.kinds.values():
        weighting = replace(weighting or Weighting(), beside_labels=True)
    return replace(
        request,
        inputs=tuple(inputs),
        settings=settings,
        beside=beside,
        weighting=weighting,
        row_groups=row_groups,
        validation=replace(request.validation, valid=tuple(valid)),
        sampling=replace(request.sampling, test=tuple(test)),
    )
