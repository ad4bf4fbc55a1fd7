"""The tables of fmcli train: what their columns are, from options, the model to resume from, or all cells."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from fmcli.cli.output import seconds
from fmcli.cli.prepared import log_order
from fmcli.cli.train.table_options import log_schema
from fmcli.data.tables.reading import TablePath, as_tables, is_table, schema_of
from fmcli.data.tables.schema import WEIGHT
from fmcli.data.weights import Weighting
from fmcli.errors import UsageError
from fmcli.registry.models import MODELS

if TYPE_CHECKING:
    from fmcli.cli.output import Log
    from fmcli.cli.train.request import Request
    from fmcli.data.tables.schema import Schema


def with_tables(log: Log, request: Request) -> Request:
    """Return the request whose inputs know what their columns are, if they are tables. Raises BadInputError,
    MissingInputError and UsageError."""
    settings, choice = request.settings, request.tables
    known = settings.warm_start.transform.table if settings.warm_start else None
    if not (choice.asked or known or any(map(is_table, request.inputs))):
        return request
    if request.cluster:
        raise UsageError("workers do not read tables; write them as text first, with fmcli convert")
    begin = time.perf_counter()
    for path in request.inputs:
        log_order(log, path)
    schema = choice.given() or known
    if schema is None:
        log.progress(f"reading the columns of {request.inputs[0]}")
        if request.online and "-" not in request.inputs and not choice.named().form.names:
            raise UsageError("--online reads a table once; give --schema, or -i with a model that knows its columns")
        schema, facts = schema_of(request.inputs, choice.named(), settings.threads, dict(choice.join))
        log.line(f"columns of {request.inputs[0]} ({seconds(time.perf_counter() - begin)}):")
        log_schema(log, schema, facts)
    spec = settings.spec
    fields = MODELS[spec.model].needs_fields(spec.values) or spec.solver_entry.is_sampler

    def tables(paths: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(as_tables(paths, schema, fields=fields, joined=dict(choice.join)))

    inputs, valid, test = tables(request.inputs), tables(request.validation.valid), tables(request.sampling.test)
    if not known:
        inputs = tuple(TablePath.of(path, schema, fields=fields, joined=dict(choice.join)) for path in request.inputs)
    weighting = request.weighting
    if WEIGHT in schema.kinds.values():
        weighting = replace(weighting or Weighting(), beside_labels=True)
    return replace(
        request,
        inputs=inputs,
        settings=replace(settings, table=schema),
        weighting=weighting,
        validation=replace(request.validation, valid=valid),
        sampling=replace(request.sampling, test=test),
    )


def print_schema(request: Request) -> None:
    """Write the schema of the tables to standard output. Raises UsageError if the inputs are no tables."""
    schema: Schema | None = request.settings.table
    if schema is None:
        raise UsageError("--print-schema needs a table")
    click.echo(json.dumps(schema.entry(), indent=1, ensure_ascii=False))
