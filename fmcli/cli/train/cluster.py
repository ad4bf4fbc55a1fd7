"""fmcli train --cluster: the rows are in partitions on the workers of a Dask cluster."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from fmcli.registry.solvers import ROUNDS
from fmcli.system.memory import human_bytes

if TYPE_CHECKING:
    from fmcli.cli.output import Log
    from fmcli.cli.train.request import Request
    from fmcli.cli.train.rows import Planned
    from fmcli.cluster.connection import Cluster
    from fmcli.data.text.faults import BadLines

# With fewer rows, an iteration of L-BFGS takes seconds on one machine, about as long as sending the parameters.
FEW_ROWS = 10_000_000


def plan_on_cluster(log: Log, request: Request, bad: BadLines, cluster: Cluster) -> Planned:
    """Return the plan of the run on the partitions of its inputs."""
    from fmcli.cli.train.log import log_read, log_weights
    from fmcli.cli.train.rows import Planned, log_skipped, read_valid, reading_of
    from fmcli.cluster.cache import open_partitions
    from fmcli.cluster.partitions import Inputs, divide
    from fmcli.cluster.rows import PartitionedShards
    from fmcli.cluster.tasks import BUILD
    from fmcli.data.text.formats import Stream
    from fmcli.training.planning import prepare
    from fmcli.training.setup.rows import weigh_by_label

    settings, begin, before = request.settings, time.perf_counter(), bad.count
    spec = settings.spec
    by_rounds = spec.solver_entry.cluster == ROUNDS
    shuffled = by_rounds and spec.values.get("shuffle", True)
    reading = reading_of(request, shuffled=shuffled)
    stream = Stream(label_weights=reading.label_weights)
    log.progress(f"looking at {request.inputs[0]}")
    dividing = cluster.submit(
        divide, request.inputs, request.choices.format, reading.keep_fields, spec.model, stream, None, BUILD
    )
    division = cluster.result(dividing, f"looking at {request.inputs[0]}")
    fields = reading.keep_fields or (request.uses_fields and division.format == "ffm")
    reading = replace(reading, format=division.format, keep_fields=fields)
    inputs = Inputs(division.partitions, reading, bad.skip, request.choices.cluster_dir, BUILD)

    def progress(done: int, rows: int) -> None:
        if log.due():
            speed = rows / (time.perf_counter() - begin)
            log.progress(f"{done:,} of {len(division.partitions):,} partitions  {rows:,} rows  {speed:,.0f} rows/s")

    cache = open_partitions(cluster, inputs, division.format, bad, progress)
    facts = cache.facts
    log_read(log, request.inputs, facts, time.perf_counter() - begin, cache.gaps)
    log_skipped(log, bad.count - before)
    read = PartitionedShards(cache)
    unweighted = read_valid(log, request, facts.format, bad, facts.names)
    rows, valid, of_labels = weigh_by_label(read, unweighted, request.weighting)
    plan = prepare(settings, rows, valid)
    if request.weighting:
        log_weights(log, plan.data.weight, of_labels, facts.names)
    count = len(division.partitions)
    log.line(f"{count:,} partition{'s' * (count != 1)}, {human_bytes(cache.nbytes)} of rows in workers")
    if by_rounds:
        from fmcli.cluster.rounds import ends_of_rounds, largest_round

        rounds = len(ends_of_rounds(plan.task, plan.epochs_before + 1)) - 1
        log.line(f"{rounds:,} rounds in the first epoch, of at most {largest_round(plan.task):,} rows")
    if facts.rows < FEW_ROWS or by_rounds:
        log.line("hint: one machine is faster on these rows if its disk can hold them: --disk --cache FILE")
    return Planned(plan, facts.format, read, unweighted)
