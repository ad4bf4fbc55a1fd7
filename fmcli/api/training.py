"""Training from Python: the run of `fmcli train`, on rows in memory."""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from types import FrameType
from typing import Any, Unpack

from fmcli.api.data import Data, as_data, for_spec, of_files, tables_of, weighting_of
from fmcli.api.errors import in_python, refuse
from fmcli.api.keywords import Keywords
from fmcli.api.model import Model
from fmcli.api.parameters import DEFAULTS, OF_TABLES, Choices, split, with_parameters
from fmcli.choosing.calibrating import calibrated
from fmcli.choosing.cross_validation import Candidate
from fmcli.data.dataset import Dataset
from fmcli.data.formats import Grouping
from fmcli.data.labels import Names
from fmcli.data.tables.reading import TablePath
from fmcli.data.tables.schema import WEIGHT, Schema
from fmcli.data.weights import weigh, weigh_labels
from fmcli.errors import UsageError
from fmcli.model_file.check import CALIBRATIONS
from fmcli.model_file.container import copied
from fmcli.registry.losses import LOSSES
from fmcli.registry.models import DEFAULT_MODEL, MODELS
from fmcli.registry.modes import check_modes
from fmcli.registry.options import MOST_MEMBERS
from fmcli.registry.specs import Spec, make_spec
from fmcli.scoring.calibration import Calibration
from fmcli.system.blas import one_blas_thread
from fmcli.system.machine import cpu_count
from fmcli.training.baseline import compared
from fmcli.training.ensemble import completed
from fmcli.training.held import Held, held
from fmcli.training.look import Look
from fmcli.training.planning import Plan, prepare
from fmcli.training.rows import RowsInMemory
from fmcli.training.saving import file_of, keeps_state, load_warm_start
from fmcli.training.settings import Settings
from fmcli.training.trained import Epoch, Trained
from fmcli.training.warm_start import WarmStart

LOG = logging.getLogger("fmcli")
LOG.addHandler(logging.NullHandler())
# The prefix of a share of the last rows: "last:0.1".
# The name of a model in messages that has no file.
UNNAMED = "the model"

Callback = Callable[[Epoch], bool | None]


@with_parameters()
def train(data: Any, valid: Any = None, *, callbacks: Sequence[Callback] = (), **choices: Unpack[Keywords]) -> Model:
    """Train a model, as ``fmcli train`` does: the same rows and options give the same bits.

    Parameters
    ----------
    data : (X, y), Data, files, or frame
        The rows to train on; see `fmcli.Data` and `fmcli.read`. A frame of pandas, polars or others, by Arrow's stream
        interface, or a table (CSV, Parquet) needs ``label``.
    valid : (X, y), Data, or files, optional
        Validation data, by which the best epoch is chosen. By default, some rows are held out.
    callbacks : sequence of callable
        Each is called after every epoch with its ``number``, ``loss``, ``penalty``, ``valid`` (metrics by name) and
        ``seconds``, and ends training if it returns True.
    {parameters}

    Returns
    -------
    Model

    Raises
    ------
    UsageError
        For options that do not exist or cannot be combined; it is a ValueError.
    BadInputError
        For rows or labels that are not valid; it is a ValueError.
    DivergedError
        If a number is no longer finite.
    NotEnoughMemoryError
        If the run needs more memory than there is, before it is allocated; it is a MemoryError.

    Notes
    -----
    Ctrl-C ends training with the best model so far, which is returned with a warning; a second one raises
    KeyboardInterrupt. The logger "fmcli" has the progress.
    """
    with in_python(), interruptible() as interrupt:
        model = trained_model(data, valid, *split(choices), callbacks, interrupt)
        if interrupt.is_set():
            if not model.history:
                raise KeyboardInterrupt
            warnings.warn("training was interrupted: the model is the best one so far", stacklevel=2)
        return model


@contextmanager
def interruptible() -> Iterator[threading.Event]:
    """Yield an event that the first Ctrl-C sets, in place of its KeyboardInterrupt, if this is the main thread."""
    event = threading.Event()
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield event
        return

    def stop(number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        event.set()

    signal.signal(signal.SIGINT, stop)
    try:
        yield event
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def trained_model(
    data: Any,
    valid: Any,
    choices: Choices,
    options: Mapping[str, Any],
    callbacks: Sequence[Callback] = (),
    interrupt: threading.Event | None = None,
) -> Model:
    """Return the model of `train`; `interrupt` ends training once it is set. Raises the errors of `train`."""
    begin = time.perf_counter()
    warm_start = resumed(choices.init_model)
    spec = spec_of(choices, options, warm_start)
    check_choices(choices, spec, valid)
    names = warm_start.transform.labels.names if warm_start else None
    known = warm_start.transform.table if warm_start else None
    fields = MODELS[spec.model].needs_fields(spec.values) or spec.solver_entry.is_sampler
    wanted = held_out(choices, valid)
    tables = tables_of(data, choices, known, wanted, fields=fields)
    if tables is None:
        rows, schema = as_data(data, "data", names, choices.threads), known
        refuse(wanted.column is not None, f"holdout={choices.holdout!r} needs a column, and only tables have some")
        refuse(any(getattr(choices, name) != DEFAULTS[name] for name in OF_TABLES), "only tables have columns to name")
    else:
        rows, schema = of_tables(tables[0], tables[1], names, choices), tables[1]
    names = names or rows.names
    evaluated = None if valid is None else validation_data(valid, schema, names, choices, fields=fields)
    plan, form = plan_of(rows, evaluated, spec, warm_start, choices, schema, begin, interrupt), rows.format
    if choices.calibrate is not None:
        plan = replace(plan, calibration=calibration_of(rows, evaluated, plan, choices))
    del rows, evaluated  # the plan has what it needs of them
    with nullcontext() if spec.by_rows else one_blas_thread():
        history: list[dict[str, Any]] = []
        trained, figures = completed(plan, choices.ensemble, recording(history, callbacks), log_looks, log_refit)
    report(trained, figures)
    plan = trained.plan
    keep = choices.keep_state
    if keep is None:
        keep = choices.ensemble == 1 and keeps_state(plan)
    return Model(copied(file_of(trained, figures, form, keep_state=keep), UNNAMED), UNNAMED, history)


def of_tables(paths: list[TablePath], schema: Schema, names: Names | None, choices: Choices) -> Data:
    """Return the rows of tables. Raises the errors of `reader.read`."""
    kinds = schema.kinds.values()
    return of_files(
        paths,
        names=names,
        label_weights=WEIGHT in kinds,
        grouping=Grouping() if paths[0].by else None,
        threads=choices.threads,
    )


def validation_data(valid: Any, schema: Schema | None, names: Names, choices: Choices, *, fields: bool) -> Data:
    """Return validation data, which may be tables if the rows to train on are. Raises the errors of `as_data`."""
    tables = None if schema is None else tables_of(valid, choices, schema, Held(), fields=fields)
    if tables is None:
        return as_data(valid, "valid", names, choices.threads)
    return of_tables(tables[0], tables[1], names, choices)


def resumed(model: Any) -> WarmStart | None:
    """Return the model to resume from; None if there is none. Raises UsageError and those of `load_warm_start`."""
    if model is None or isinstance(model, Model):
        return None if model is None else model.to_resume()
    refuse(not isinstance(model, str | os.PathLike), "init_model must be a model, or the name of a model file")
    return load_warm_start(os.fspath(model))


def spec_of(choices: Choices, options: Mapping[str, Any], warm_start: WarmStart | None) -> Spec:
    """Return the spec of a run. Raises UsageError for names and values that do not exist or cannot be combined."""
    given = {name: value for name, value in options.items() if value is not None}
    if warm_start is not None:
        return warm_start.continued(choices.model, choices.solver, choices.loss, given)
    return make_spec(choices.model or DEFAULT_MODEL, choices.solver, choices.loss, given)


def check_choices(choices: Choices, spec: Spec, valid: Any) -> None:
    """Raise UsageError for choices that are not valid or contradict each other."""
    refuse(not 1 <= choices.ensemble <= MOST_MEMBERS, f"ensemble must be from 1 to {MOST_MEMBERS}")
    refuse(choices.min_count < 1, "min_count must be at least 1")
    refuse(choices.patience is not None and choices.patience < 1, "patience must be at least 1")
    refuse(choices.threads is not None and choices.threads < 1, "threads must be at least 1")
    refuse(choices.max_seconds is not None and not choices.max_seconds > 0, "max_seconds must be positive")
    refuse(choices.calibrate not in (None, *CALIBRATIONS), 'calibrate must be "isotonic" or "platt"')
    given = {
        "-v": valid is not None,
        "--calibrate": choices.calibrate is not None,
        "--holdout": choices.holdout,
        "--holdout 0": choices.holdout == 0,
        "--refit": choices.refit,
        "-i": choices.init_model is not None,
        "--ensemble": choices.ensemble > 1,
        "--max-seconds": choices.max_seconds,
        "--keep-state": choices.keep_state,
    }
    check_modes({flag: value for flag, value in given.items() if value}, spec)


def held_out(choices: Choices, valid: Any) -> Held:
    """Return the rows to hold out. Raises UsageError."""
    try:
        found = held(choices.holdout)
    except ValueError as error:
        raise UsageError(f"holdout: {error}") from error
    return found if choices.holdout is not None or valid is None else Held(0.0)


def plan_of(
    rows: Data,
    valid: Data | None,
    spec: Spec,
    warm_start: WarmStart | None,
    choices: Choices,
    schema: Schema | None,
    begin: float,
    interrupt: threading.Event | None,
) -> Plan:
    """Return the plan of a run. Raises the errors of `prepare`."""
    settings = Settings(
        spec,
        warm_start=warm_start,
        valid_name="valid",
        refit=choices.refit,
        look=choices.look,
        keep_state=bool(choices.keep_state),
        metrics=tuple(choices.metrics or ()),
        patience=choices.patience,
        threads=choices.threads or cpu_count(),
        deadline=None if choices.max_seconds is None else begin + choices.max_seconds,
        interrupt=interrupt,
        min_count=choices.min_count,
        share_rare=choices.share_rare,
        table=schema,
        **held_out(choices, valid).settings,
    )
    if valid is not None or settings.holdout:
        settings.check_chooser()
    training, validation = for_spec(rows, spec), None if valid is None else for_spec(valid, spec)
    training, validation = weighted(training, validation, rows.names, choices)
    refuse(training.rows == 0, "there are no rows to train on")
    pairwise = spec.loss is not None and LOSSES[spec.loss].pairwise
    refuse(pairwise and training.group is None, f"loss {spec.loss} needs group, a number for each row")
    return prepare(settings, RowsInMemory(training, rows.names), validation)


def calibration_of(rows: Data, valid: Data | None, plan: Plan, choices: Choices) -> Calibration:
    """Return the calibration of the model of a plan. Raises UsageError, and the errors of `prepare` and `job.train`."""
    assert choices.calibrate is not None
    candidate = Candidate(plan.settings, weighting_of(choices.class_weight), choices.ensemble)
    data = None if valid is None else for_spec(valid, plan.settings.spec)
    every = RowsInMemory(rows.dataset, rows.names)
    return calibrated(choices.calibrate, candidate, every, rows.format, data)


def weighted(
    training: Dataset, valid: Dataset | None, names: Names, choices: Choices
) -> tuple[Dataset, Dataset | None]:
    """Return the rows with the weights of their labels. Raises BadInputError and UsageError."""
    weighting = weighting_of(choices.class_weight)
    if weighting is None:
        return training, valid
    training, of_labels = weigh(training, weighting, names)
    return training, weigh_labels(valid, of_labels) if valid is not None and of_labels else valid


def log_looks(looks: Sequence[Look]) -> None:
    """Log what a look has compared."""
    for one in looks:
        LOG.info("look: %s %s: %s %s, with %s %s", one.option, one.value, one.metric, one.found, one.usual, one.before)


def log_refit(chosen: Trained) -> None:
    """Log a refit, before it begins."""
    LOG.info("training on all rows for the %d epochs that held-out rows have chosen", chosen.best)


def recording(history: list[dict[str, Any]], callbacks: Sequence[Callback]) -> Callable[[Epoch], bool]:
    """Return a function that adds an epoch to the history, and returns whether a callback ends training."""

    def record(epoch: Epoch) -> bool:
        valid = {f"valid_{name}": value for name, value in epoch.valid.items()}
        figures = {"loss": epoch.loss, "penalty": epoch.penalty, "objective": epoch.objective}
        history.append({"epoch": epoch.number, **figures, **valid, "seconds": epoch.seconds})
        shown = "".join(f", {name} {value:.6f}" for name, value in valid.items())
        LOG.info("epoch %d: loss %.6f%s", epoch.number, epoch.loss, shown)
        asked = [bool(callback(epoch)) for callback in callbacks]  # each of them is called
        return any(asked)

    return record


def report(trained: Trained, figures: Mapping[str, Any]) -> None:
    """Log the best epoch, and warn if the model is no better than a constant."""
    LOG.info(
        "best epoch %d of %d, train %s, valid %s",
        *(figures[name] for name in ("best_epoch", "epochs", "train", "valid")),
    )
    comparison = compared(trained, figures)
    if comparison is not None and comparison.no_better:
        warnings.warn(f"the model does not predict well: {comparison}", stacklevel=2)
