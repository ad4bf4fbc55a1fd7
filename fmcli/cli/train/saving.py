"""The end of a run of fmcli train: the model is written, and its figures."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fmcli.cli.output import Log, seconds
from fmcli.cli.train.advice import advice, notes, why_no_better_than_constant
from fmcli.cli.train.log import figures, sizes
from fmcli.data.shards.observed_rows import ObservedRows
from fmcli.data.tables.reading import TableSource
from fmcli.errors import WorseThanConstantError
from fmcli.system.memory import human_bytes, peak
from fmcli.text import figure, shell_word
from fmcli.training.checkpoint import Checkpointer
from fmcli.training.saving import keeps_state, save_model
from fmcli.training.trained import compared
from fmcli.training.verdict import verdict

if TYPE_CHECKING:
    from fmcli.cli.train.events import RunLog
    from fmcli.cli.train.request import Request
    from fmcli.data.text.faults import BadLines
    from fmcli.training.trained import Trained


def bad_lines(bad: BadLines) -> dict[str, object]:
    """Return how many lines were skipped, for the summary; empty unless bad lines are skipped."""
    return {"bad_lines": bad.count} if bad.skip else {}


def save(
    events: RunLog,
    trained: Trained,
    training: dict[str, Any],
    format: str,
    facts: Mapping[str, object],
    keeper: Checkpointer | None = None,
) -> None:
    """Write the model. Then report its figures (`training`), further facts for the summary, and warnings, the last of
    which says whether the model is no better than a constant.

    events : of the run, which end with this.
    keeper : keeps the run's state, which is no longer needed at the end.

    Raises WorseThanConstantError if the model is worse than a constant, and is not written because of that.
    """
    log, request, comparison = events.log, events.request, compared(trained, training)
    worse = comparison and comparison.worse
    output = None if worse and request.choices.fail_worse_than_constant else request.model
    if output is not None:
        log.progress(f"writing {output}")
        save_model(output, trained, training, format, keep_state=keeps_state(trained))
        facts = {**facts, **write_test(log, trained, request.choices.test_output)}
    took, memory = time.perf_counter() - events.begin, peak()
    facts = {**facts, "worse_than_constant": worse, "seconds": took, "peak_memory": memory, "model": output}
    events.progress.summary({**training, **facts})
    for note in notes(trained, comparison):
        log.line(note)
    for warning in advice(trained):
        log.warning(warning)
    if log.verbose:
        log.table(
            **sizes(trained.plan, trained),
            **figures({**training, **facts}, trained.validated.baseline.words),
            seconds=figure(took),
            peak_memory=human_bytes(memory),
        )
    if keeper is not None:
        keeper.done()
    where = f"Wrote {shell_word(request.model)} in {seconds(took)}."
    if comparison is not None and comparison.no_better:
        if output is None:
            raise WorseThanConstantError(f"no model is written: {why_no_better_than_constant(trained, comparison)}")
        log.line(where)
        log.warning(why_no_better_than_constant(trained, comparison))
    else:
        if said := verdict(trained, {**training, **facts}, comparison):
            log.line(said)
        log.line(f"{where} Next: {next_command(request, trained)}")


def next_command(request: Request, trained: Trained) -> str:
    """Return the command that applies the model to new rows."""
    model, first = shell_word(request.model), request.inputs[0]
    new = "NEW" + (os.path.splitext(str(first))[1] if isinstance(first, TableSource) else "")
    of_pairs = isinstance(trained.plan.source, ObservedRows)
    return f"fmcli recommend {model}" if of_pairs else f"fmcli predict {model} {new}"


def write_test(log: Log, trained: Trained, output: str | None) -> dict[str, object]:
    """Write the predictions for the rows of --test, if there are some. Returns figures for the summary."""
    tested, score = trained.plan.tested, trained.tested
    if tested is None or score is None:
        return {}
    from fmcli.base.finite import finite
    from fmcli.cli.output import open_sink

    if output is not None:
        with open_sink(None if output == "-" else output) as sink:
            sink.write(tested.text(score))
    labeled = len(tested.labeled)
    if labeled < tested.data.rows:
        log.line(f"--test: {labeled:,} of {tested.data.rows:,} rows have a label that the model knows")
    metrics = tested.metrics(trained.plan.model, trained.plan.evaluation, score)
    return finite({"test": metrics, "test_rows": tested.data.rows})
