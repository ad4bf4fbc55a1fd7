"""Rows larger than memory: a cache of files, tables, frames or chunks, as ``fmcli train --disk`` makes it."""

from __future__ import annotations

import os
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

from fmcli.api.data import for_spec
from fmcli.api.errors import refuse
from fmcli.api.rows import RowForm, chunk_rows, has_weights, inputs_of, is_chunks, kept, warn_of_ignored
from fmcli.api.values import path_of
from fmcli.data.stored.cache import Cache, build
from fmcli.data.stored.caching import Reading, cache_of, why_not
from fmcli.data.text.faults import BadLines
from fmcli.registry.models import MODELS

if TYPE_CHECKING:
    from fmcli.data.tables.schema import Schema
    from fmcli.registry.specs import Spec


def cached(
    rows: Any, what: str, form: RowForm, spec: Spec, path: str | os.PathLike[str]
) -> tuple[Cache, Schema | None]:
    """Return a cache of rows, and their columns if they are tables. An earlier cache of the same files is used again.

    rows, what, form : as in `rows.as_data`.

    Raises the errors of `caching.cache_of` and `rows.as_data`.
    """
    place, shuffled = path_of("cache", path), bool(spec.values.get("shuffle", True))
    fields = MODELS[spec.model].needs_fields(spec.values)
    rows = kept(rows)
    if (inputs := inputs_of(rows, form)) is not None:
        paths, schema = inputs
        reading = Reading("auto", fields, has_weights(schema), shuffled, form.names)
        cache = cache_of(place, paths, reading, threads=form.threads, bad=BadLines())[0]
        warn_of_ignored(paths, form)
        return cache, schema
    pieces = chunk_rows(rows if is_chunks(rows) else [rows], what, form, partial(for_spec, spec=spec))
    first = next(pieces, None)
    refuse(first is None, f"{what} has no chunks")
    assert first is not None
    weighted = first.data.weight is not None
    about = Reading(first.facts.format, fields, weighted, shuffled, form.names).about([], skip=False)
    why_not(place, about, [])  # raises an error for a file that is no cache, which would be replaced
    build(place, chain([first], pieces), about, shuffled=shuffled, threads=form.threads)
    return Cache(place), None
