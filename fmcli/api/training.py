"""Training from Python: the run of `fmcli train`, on rows in memory."""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from numbers import Number
from types import FrameType
from typing import Any, Unpack

from fmcli.api.errors import in_python, refuse
from fmcli.api.given import GivenRows, plan_of, read_rows, validating, with_readings
from fmcli.api.keywords import Keywords
from fmcli.api.model import Model
from fmcli.api.parameters import split, with_parameters
from fmcli.api.recording import LOG, Callback, Recording, report
from fmcli.api.rows import is_labeled
from fmcli.api.values import path_of
from fmcli.choosing.automatic import few_of_class
from fmcli.choosing.cross_validation import FoldTraining
from fmcli.choosing.fitting import fit
from fmcli.data.dataset import Dataset
from fmcli.data.tables.description import column_lines
from fmcli.errors import NothingNewError
from fmcli.model_file.container import copied
from fmcli.registry.alternatives import suited
from fmcli.registry.choices import Choices
from fmcli.registry.losses import LOSSES
from fmcli.registry.specs import Spec
from fmcli.scoring.metrics import need_groups
from fmcli.scoring.sparsity import of_predictions
from fmcli.system.blas import one_blas_thread
from fmcli.training.account import need_of
from fmcli.training.job import return_freed
from fmcli.training.planning import Plan
from fmcli.training.saving import file_of, keeps_state, load_warm_start, warm_start_of
from fmcli.training.setup.chosen import room_of, settings_of, spec_of, with_model
from fmcli.training.setup.item_ranking import without_users
from fmcli.training.setup.rules import check_run, made
from fmcli.training.setup.settings import Settings
from fmcli.training.setup.warm_start import WarmStart
from fmcli.training.setup.weighting import weighting_of

# The name of a model in messages that has no file.
UNNAMED = "the model"


@with_parameters()
def train(
    data: Any, valid: Any = None, *, callbacks: Callback | Sequence[Callback] = (), **choices: Unpack[Keywords]
) -> Model:
    """Train a model, as ``fmcli train`` does: the same rows and options give the same bits.

    Parameters
    ----------
    data : (X, y), Data, files, frame, or iterator
        The rows to train on; see `fmcli.Data` and `fmcli.read`. X may also be a frame of pandas, polars, pyarrow or
        DuckDB; one with its labels, or a table (CSV, Parquet), needs ``label``. An iterator, or a list, has chunks:
        (X, y), Data, or frames with ``label``, which are kept in memory.
    valid : (X, y), Data, files, frame, or iterator, optional
        Validation data, by which the best epoch is chosen. By default, some rows are held out.
    callbacks : callable or sequence of callable
        Each is called after every epoch with its ``number``, ``loss``, ``penalty``, ``valid`` (metrics by name) and
        ``seconds``, and ends training if it returns True. In an ensemble, the epoch has the number of its ``member``,
        and only the training of this member ends.
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
        several = (callbacks,) if callable(callbacks) else callbacks
        model = trained_model(data, valid, split(choices), several, interrupt)
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
    callbacks: Sequence[Callback] = (),
    interrupt: threading.Event | None = None,
) -> Model:
    """Return the model of `train`; `interrupt` ends training once it is set. Raises the errors of `train`."""
    begin = time.perf_counter()
    refuse(
        is_labels(valid) and not is_labeled(data),
        "rows and their labels are one argument, a pair: fmcli.train((X, y)), not fmcli.train(X, y)",
    )
    warm_start = resumed(choices.init_model, only_new=choices.only_new)
    choices = with_model(choices, warm_start)
    spec = spec_of(choices, warm_start)
    others = alternatives_of(choices, spec) if choices.auto else []
    settings = settings_of(choices, spec, warm_start, others, begin, valid_name="valid", interrupt=interrupt)
    check_choices(choices, settings, valid)
    read = read_rows(data, spec, choices, warm_start)
    unweighted, evaluated = validating(valid, read, spec, auto=choices.auto)
    try:
        plan = plan_of(read, evaluated, settings, choices)
        plan = with_readings(plan, data, valid, settings)
    except NothingNewError as error:
        assert warm_start is not None
        assert warm_start.file is not None
        warnings.warn(str(error), stacklevel=3)
        return Model(warm_start.file, UNNAMED, [])
    if plan.settings.table is not None:
        for line, is_detail in column_lines(plan.settings.table, {}, "the level DEBUG"):
            LOG.log(logging.DEBUG if is_detail else logging.INFO, "%s", line)
    if too_few := few_of_class(plan):
        LOG.warning("%s", too_few)
    if alike := without_users(plan.source, str):
        warnings.warn(alike, stacklevel=3)
    form, completed = read.format, calibrating(read, unweighted, choices)
    del read, evaluated, unweighted  # the plan has copied its parts of them
    history: list[dict[str, Any]] = []
    with nullcontext() if spec.by_rows and not choices.auto else one_blas_thread():
        trained, figures = fit(plan, Recording(history, callbacks), choices.ensemble, completed=completed)
    history.sort(key=lambda one: one.get("member", 0))  # members train at the same time
    report(trained, figures)
    file = file_of(trained, figures, form, keep_state=keeps_state(trained))
    memory = need_of(trained.plan)
    del trained, plan  # and the rows, which would take memory beside the copy
    return_freed(memory)
    return Model(copied(file), UNNAMED, history)


def is_labels(value: Any) -> bool:
    """Return whether an argument is an array of labels."""
    return len(getattr(value, "shape", ())) == 1 or (
        isinstance(value, list) and len(value) > 0 and isinstance(value[0], Number)
    )


def resumed(model: Any, *, only_new: bool = False) -> WarmStart | None:
    """Return the model to resume from; None if there is none. Raises UsageError and the errors of `load_warm_start`.

    only_new : as of `load_warm_start`.
    """
    if model is None or isinstance(model, Model):
        return None if model is None else warm_start_of(model._name, model._file, only_new=only_new)
    refuse(not isinstance(model, str | os.PathLike), "init_model must be a model, or the name of a model file")
    return load_warm_start(path_of("init_model", model), only_new=only_new)


def check_choices(choices: Choices, settings: Settings, valid: Any, mode: str = "") -> None:
    """Raise UsageError for choices that are not valid or contradict each other, or the mode of a function."""
    loss = settings.spec.loss
    of_groups = not choices.implicit and bool(need_groups(of_predictions(choices.metrics or ())))
    ranks = (loss is not None and LOSSES[loss].pairwise) or of_groups
    refuse(
        choices.group_field is not None and not ranks,
        "group_field is for ranking: for the loss bpr, and for metrics of groups, such as gauc and ndcg",
    )
    check_run(choices, settings, ranks=ranks, more={"valid": valid is not None, mode: bool(mode)})


def alternatives_of(choices: Choices, spec: Spec) -> list[Spec]:
    """Return the other kinds and solvers to compare with the spec's."""
    return suited(spec, made(choices), model_given=choices.model is not None)[1]


def calibrating(read: GivenRows, valid: Dataset | None, choices: Choices) -> Callable[[Plan], Plan]:
    """Return a function that adds the calibration of its model to a plan, if there is one, and keeps the rows only
    then. It raises UsageError, and the errors of `prepare` and `job.train`."""
    if choices.calibrate is None:
        return lambda plan: plan
    rows, room = read.unweighted, room_of(choices) if choices.disk else None
    members, method, weighting = choices.ensemble, choices.calibrate, weighting_of(choices)

    def completed(plan: Plan) -> Plan:
        return FoldTraining(plan.settings, weighting, members, room, method).completed(plan, lambda: rows, valid)

    return completed
