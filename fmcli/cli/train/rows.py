"""The rows of fmcli train: read, weighted, and planned for."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from fmcli.cli.output import seconds
from fmcli.cli.train.log import log_read, log_weights
from fmcli.data.faults import BadLines
from fmcli.data.fields import read_groups
from fmcli.data.labels import NUMBERS, Names
from fmcli.data.reader import Table, read
from fmcli.data.related.reader import with_relations
from fmcli.data.sources import name_of
from fmcli.data.stored.caching import Reading, cache_of
from fmcli.data.weights import Weighting, weigh, weigh_labels
from fmcli.registry.models import MODELS
from fmcli.training.planning import Plan, prepare
from fmcli.training.rows import RowsInMemory
from fmcli.training.stored import require_room, rows_of_cache, weights_of_labels
from fmcli.training.tested import with_tested

if TYPE_CHECKING:
    from fmcli.cli.output import Log
    from fmcli.cli.train.request import Request
    from fmcli.data.dataset import Dataset
    from fmcli.data.pieces import TextRows
    from fmcli.scoring.calibration import Calibration
    from fmcli.training.settings import Settings


def plan_rows(log: Log, request: Request, bad: BadLines) -> tuple[Plan, str]:
    """Return the plan of the run on its rows, and their format."""
    if request.disk.disk:
        return plan_stored(log, request, bad)
    settings = request.settings
    if request.sampling.groups is not None:
        settings = replace(settings, groups=read_groups(request.sampling.groups))
    table = read_rows(log, request, request.inputs, request.format, bad, known_labels(request))
    valid = read_valid(log, request, table.format, bad, table.labels)
    rows, calibration = table.dataset, calibration_of(log, request, settings, table, valid)
    if request.weighting:
        rows, of_labels = weigh(rows, request.weighting, table.labels)
        valid = weigh_labels(valid, of_labels) if valid is not None and of_labels else valid
        log_weights(log, rows.weight, of_labels, table.labels)
    plan = prepare(settings, RowsInMemory(rows, table.labels or NUMBERS), valid)
    plan = replace(plan, calibration=calibration)
    return plan_test(log, request, plan, bad), table.format


def calibration_of(
    log: Log, request: Request, settings: Settings, table: Table, valid: Dataset | None
) -> Calibration | None:
    """Return the calibration of the model, if that is asked for, by models of the same options on parts of the rows."""
    method = request.validation.calibrate
    if method is None or request.dry_run:
        return None
    from fmcli.choosing.calibrating import FOLDS, calibrated
    from fmcli.choosing.cross_validation import Candidate

    begin = time.perf_counter()
    log.progress("calibrating")
    rows = RowsInMemory(with_row_weights(table.dataset, request), table.labels or NUMBERS)
    candidate = Candidate(settings, request.weighting, request.members)
    found = calibrated(method, candidate, rows, table.format, valid)
    log.line(
        f"calibrating probabilities ({method}) by {rows.count:,} rows, each scored by one of {FOLDS} models that have "
        f"not seen it, {seconds(time.perf_counter() - begin)}"
    )
    return found


def with_row_weights(data: Dataset, request: Request) -> Dataset:
    """Return the rows with the weights in a file, if there is one, but without those of labels."""
    file = request.weighting.file if request.weighting else None
    return data if file is None else weigh(data, Weighting(file))[0]


def plan_test(log: Log, request: Request, plan: Plan, bad: BadLines) -> Plan:
    """Return the plan with the rows of --test, if there are some."""
    paths = request.sampling.test
    if not paths:
        return plan
    begin, before = time.perf_counter(), bad.count
    log.progress(f"reading {paths[0]}")
    weighted = request.weighting is not None and request.weighting.beside_labels
    plan = with_tested(
        plan, request.sampling.test, model=request.model, format=request.format, bad=bad, label_weights=weighted
    )
    assert plan.tested
    counts, took = plan.tested.counts, time.perf_counter() - begin
    log.line(
        f"read {paths[0]} to predict: {counts.rows:,} rows, {counts.nonzeros:,} non-zeros, {counts.unseen:,} "
        f"unseen, {seconds(took)}"
    )
    log_skipped(log, bad.count - before)
    return plan


def plan_stored(log: Log, request: Request, bad: BadLines) -> tuple[Plan, str]:
    """Plan a run on rows that are read from a cache."""
    settings, begin, before, place = request.settings, time.perf_counter(), bad.count, request.disk.cache
    assert place is not None
    reading = reading_of(request, shuffled=settings.spec.values.get("shuffle", True))
    log.progress(f"reading {request.inputs[0]}")
    cache, reason = cache_of(place, request.inputs, reading, threads=settings.threads, bad=bad)
    facts = cache.facts
    if reason:
        log_read(log, request.inputs, facts, time.perf_counter() - begin)
        log_skipped(log, bad.count - before)
        log.line(f"made the cache {place}, because {reason}")
    else:
        log.line(
            f"using the cache {place}: {facts.rows:,} rows, {facts.nonzeros:,} non-zeros, {facts.features:,} features"
        )
    valid = read_valid(log, request, facts.format, bad, facts.names)
    of_labels = weights_of_labels(facts, request.weighting) if request.weighting else {}
    if of_labels:
        valid = valid and weigh_labels(valid, of_labels)
    plan = prepare(settings, rows_of_cache(cache, of_labels), valid)
    require_room(plan, request.disk.bytes)
    if request.weighting:
        log_weights(log, plan.data.weight, of_labels, facts.names)
    if not plan.source.in_memory:
        log.line(f"{len(cache.shards)} shards")
    return plan, facts.format


def reading_of(request: Request, *, shuffled: bool) -> Reading:
    """Return how the text of a request is read piece by piece."""
    spec = request.settings.spec
    return Reading(
        request.format,
        MODELS[spec.model].needs_fields(spec.values),
        request.weighting is not None and request.weighting.beside_labels,
        shuffled,
        known_labels(request),
        request.settings.hash_bits,
        request.weighting.file if request.weighting else None,
    )


def known_labels(request: Request) -> Names | None:
    """Return the names that labels can have, as the warm start knows them; None: any."""
    warm_start = request.settings.warm_start
    return warm_start.transform.labels.names if warm_start else None


def read_valid(log: Log, request: Request, format: str, bad: BadLines, labels: Names | None) -> Dataset | None:
    """Return the validation data, if there are any; `labels` are the names of the labels of the training data."""
    if not request.validation.valid:
        return None
    return read_rows(log, request, request.validation.valid, format, bad, labels or NUMBERS).dataset


def read_rows(
    log: Log, request: Request, inputs: tuple[str, ...], format: str, bad: BadLines, labels: Names | None
) -> Table:
    """Read examples as the run's model needs them, and log what was read. `labels` are as in `reader.read`."""
    weighting, kind = request.weighting, MODELS[request.settings.spec.model]
    begin, before = time.perf_counter(), bad.count
    log.progress(f"reading {inputs[0]}")
    table = read(
        inputs,
        format=format,
        keep_fields=request.fields,
        fields_if_any=request.uses_fields and not request.relations,
        compact=kind.compact and not request.disk.disk and request.beside is None,
        threads=request.settings.threads,
        bad=bad,
        label_weights=weighting is not None and weighting.beside_labels,
        labels=labels,
        hash_bits=request.settings.hash_bits,
        row_groups=request.row_groups,
        columns=relating(request, inputs[0]) if request.relations else None,
    )
    log_read(log, inputs, table, time.perf_counter() - begin)
    log_skipped(log, bad.count - before)
    return table


def relating(request: Request, name: str) -> Callable[[TextRows], Dataset]:
    """Return a function that gives training rows their relations; `name` is the first input's."""
    threads = request.settings.threads
    return partial(with_relations, relations=request.relations, name=name_of(name), threads=threads)


def log_skipped(log: Log, lines: int) -> None:
    """Log how many lines were skipped because of errors."""
    if lines:
        log.line(f"skipped lines with errors: {lines:,}")
