"""The rows of fmcli train: read, weighted, and planned for."""

from __future__ import annotations

import os
import time
from collections import Counter
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from fmcli.cli.output import seconds
from fmcli.cli.train.log import log_read, log_weights
from fmcli.data.labels import NUMBERS, Names
from fmcli.data.related.reader import with_relations
from fmcli.data.shards.weights import Weighting, multiplied, weigh
from fmcli.data.stored.caching import Reading, cache_of
from fmcli.data.tables.reading import ignored_columns
from fmcli.data.text.faults import BadLines
from fmcli.data.text.formats import Stream, detected
from fmcli.data.text.prior_groups import read_groups
from fmcli.data.text.reader import Table, read, read_unlabeled
from fmcli.data.text.sources import name_of
from fmcli.names import listing
from fmcli.registry.models import MODELS
from fmcli.scoring.calibration import require_probabilities
from fmcli.system.identity import can_be_read_again
from fmcli.training.account import require_room
from fmcli.training.planning import Plan, prepare
from fmcli.training.setup.ages import ages_of
from fmcli.training.setup.chosen import room_of
from fmcli.training.setup.observed import doubt_about_ids, observed, pairs_in_words, terms_of
from fmcli.training.setup.rows import Rows, RowsInMemory, weigh_by_label
from fmcli.training.setup.stored import rows_of_cache
from fmcli.training.tested import with_tested

if TYPE_CHECKING:
    from fmcli.choosing.cross_validation import FoldTraining
    from fmcli.cli.output import Log
    from fmcli.cli.train.request import Request
    from fmcli.data.dataset import Dataset
    from fmcli.training.setup.settings import Settings


class Planned(NamedTuple):
    """The plan of a run, and its sources.

    format : of the rows.
    rows, valid : the training rows and the validation rows, as they were read, without the weights of labels. `rows` is
        None if nothing needs the training rows again, so the plan can reuse their memory.
    """

    plan: Plan
    format: str
    rows: Rows | None
    valid: Dataset | None


def plan_rows(log: Log, request: Request, bad: BadLines) -> Planned:
    """Return the plan of the run on its rows."""
    settings = with_groups(request.settings, request)
    log_repeated(log, request)
    read, format = rows_of(log, request, bad)
    log_ignored(log, request)
    unweighted = read_valid(log, request, format, bad, read.names)
    rows, valid, of_labels = weigh_by_label(read, unweighted, request.weighting)
    plan = prepare(settings, rows, valid)
    if request.choices.calibrate is not None:
        require_probabilities(plan.evaluation.loss)
    if request.choices.disk:
        require_room(plan, room_of(request.choices))
    if request.weighting:
        log_weights(log, plan.data.weight, of_labels, read.names)
    if not plan.source.in_memory:
        log.detail(f"{len(plan.source.sizes)} shards")
    return Planned(plan, format, None if is_read_once(request) else read, unweighted)


def log_repeated(log: Log, request: Request) -> None:
    """Say which files are given twice, so that the model learns the rows that measure it."""
    times = Counter(map(os.path.realpath, request.inputs))
    for path, count in times.items():
        if count > 1:
            log.line(f"hint: {os.path.basename(path)} is given {count} times: rows that are held out are learned, too")
    for path in request.valid:
        if os.path.realpath(path) in times:
            log.line(f"hint: --valid {name_of(path)} is also a file to train on: its metrics are not of new rows")


def log_ignored(log: Log, request: Request) -> None:
    """Warn of columns of the tables to train on that are not used, because the model to resume from or the schema does
    not know them."""
    if found := ignored_columns(request.inputs):
        whose = request.choices.schema or "the model of -i"
        log.warning(f"ignored columns, which {whose} does not know: {listing(sorted(found))}")


def with_groups(settings: Settings, request: Request) -> Settings:
    """Return the settings with the groups of features that share a prior, if a file has them."""
    path = request.choices.prior_groups
    return settings if path is None else replace(settings, groups=read_groups(path))


def rows_of(log: Log, request: Request, bad: BadLines) -> tuple[Rows, str]:
    """Return the rows to train on, with their own weights but without label weights, and their format."""
    if request.choices.disk:
        return stored_rows_of(log, request, bad)
    if request.choices.implicit:
        return observed_pairs(log, request)
    ages = ages_of(request.choices, request.inputs, log.line, log.warning)
    table = read_rows(log, request, request.inputs, request.choices.format, bad, known_labels(request))
    data, known = with_row_weights(table.dataset, request), known_labels(request) is not None
    data = data if ages.weight is None else multiplied(data, ages.weight)
    rows = RowsInMemory.of(data, table.labels or NUMBERS, known=known, own=is_read_once(request))
    if rows.count < data.rows:
        log.line(f"left out rows of weight 0: {data.rows - rows.count:,}")
    return rows, table.format


def observed_pairs(log: Log, request: Request) -> tuple[Rows, str]:
    """Return observed pairs to train on, and their format."""
    choices, settings, begin = request.choices, request.settings, time.perf_counter()
    terms = terms_of(choices, settings.table, settings.warm_start)
    ages = ages_of(choices, request.inputs, log.line, log.warning)
    log.progress(f"reading {request.inputs[0]}")
    table = read_unlabeled(request.inputs, format=choices.format, threads=settings.threads)
    log_read(log, request.inputs, table, time.perf_counter() - begin)
    rows = observed(table.dataset, name_of(request.inputs[0]), terms, settings.table, ages)
    log.line(pairs_in_words(rows, divided=not choices.only_new))
    if doubt := doubt_about_ids(rows, settings.table):
        log.warning(doubt)
    return rows, table.format


def is_read_once(request: Request) -> bool:
    """Return whether the rows as they were read make only one plan, and no plans of alternatives or calibrating
    folds."""
    return not request.settings.alternatives and request.choices.calibrate is None


def completed_plan(log: Log, request: Request, planned: Planned, plan: Plan, bad: BadLines) -> Plan:
    """Return a plan, whose kind, solver and options are chosen, with what needs these: the calibration of the model,
    and the rows of --test."""
    method, rows, begin = request.choices.calibrate, planned.rows, time.perf_counter()
    if rows is None or method is None or request.choices.dry_run:
        return plan_test(log, request, plan, bad)
    from fmcli.choosing.cross_validation import CALIBRATING_FOLDS

    log.progress("calibrating")
    plan = candidate_of(request).completed(plan, lambda: rows, planned.valid)
    log.line(
        f"calibrating probabilities ({method}) by {plan.source.all_rows:,} rows, each scored by one of "
        f"{CALIBRATING_FOLDS} models that have not seen it, {seconds(time.perf_counter() - begin)}"
    )
    return plan_test(log, request, plan, bad)


def candidate_of(request: Request) -> FoldTraining:
    """Return the run of a request as a candidate of a comparison on folds."""
    from fmcli.choosing.cross_validation import FoldTraining

    choices = request.choices
    room = room_of(choices) if choices.disk else None
    return FoldTraining(request.settings, request.weighting, choices.ensemble, room, choices.calibrate)


def with_row_weights(data: Dataset, request: Request) -> Dataset:
    """Return the rows with the weights in a file, if there is one, but without label weights."""
    file = request.weighting.file if request.weighting else None
    return data if file is None else weigh(data, Weighting(file))[0]


def plan_test(log: Log, request: Request, plan: Plan, bad: BadLines) -> Plan:
    """Return the plan with the rows of --test, if there are some."""
    paths = request.test
    if not paths:
        return plan
    begin, before = time.perf_counter(), bad.count
    log.progress(f"reading {paths[0]}")
    weighted = request.weighting is not None and request.weighting.beside_labels
    plan = with_tested(plan, paths, model=request.model, format=request.choices.format, bad=bad, label_weights=weighted)
    assert plan.tested
    counts, took = plan.tested.counts, time.perf_counter() - begin
    log.line(
        f"read {paths[0]} to predict: {counts.rows:,} rows, {counts.nonzeros:,} non-zeros, {counts.unseen:,} "
        f"unseen, {seconds(took)}"
    )
    log_skipped(log, bad.count - before)
    return plan


def stored_rows_of(log: Log, request: Request, bad: BadLines) -> tuple[Rows, str]:
    """Return the rows to train on in their cache, which is made if there is none, and their format."""
    settings, begin, before, place = request.settings, time.perf_counter(), bad.count, request.choices.cache
    assert place is not None
    reading = reading_of(request, shuffled=settings.spec.values.get("shuffle", True))
    if request.uses_fields and not reading.keep_fields and all(map(can_be_read_again, request.inputs)):
        stream = Stream(label_weights=reading.label_weights)
        found = detected(request.inputs, request.choices.format, False, settings.spec.model, stream, labeled=True)[0]
        reading = replace(reading, keep_fields=found == "ffm")
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
    return rows_of_cache(cache), facts.format


def reading_of(request: Request, *, shuffled: bool) -> Reading:
    """Return how the text of a request is read piece by piece."""
    return Reading(
        request.choices.format,
        request.fields,
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
    if not request.valid:
        return None
    return read_rows(log, request, request.valid, format, bad, labels or NUMBERS).dataset


def read_rows(
    log: Log, request: Request, inputs: tuple[str, ...], format: str, bad: BadLines, labels: Names | None
) -> Table:
    """Read rows as the run's model needs them, and log them. `labels` are as in `reader.read`."""
    weighting, kind = request.weighting, MODELS[request.settings.spec.model]
    begin, before = time.perf_counter(), bad.count
    log.progress(f"reading {inputs[0]}")
    threads = request.settings.threads
    related = partial(with_relations, relations=request.relations, name=name_of(inputs[0]), threads=threads)
    table = read(
        inputs,
        format=format,
        keep_fields=request.fields,
        fields_if_any=request.uses_fields and not request.relations,
        compact=kind.compact and not request.choices.disk and request.beside is None,
        threads=threads,
        bad=bad,
        label_weights=weighting is not None and weighting.beside_labels,
        labels=labels,
        hash_bits=request.settings.hash_bits,
        row_groups=request.row_groups,
        columns=related if request.relations else None,
    )
    log_read(log, inputs, table, time.perf_counter() - begin)
    log_skipped(log, bad.count - before)
    return table


def log_skipped(log: Log, lines: int) -> None:
    """Log how many lines were skipped because of errors."""
    if lines:
        log.line(f"skipped lines with errors: {lines:,}")
