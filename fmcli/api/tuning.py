"""The search of `fmcli tune` from Python."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import Any

from fmcli.api.errors import in_python
from fmcli.api.given import plan_of, read_rows, validating
from fmcli.api.model import Model
from fmcli.api.parameters import listed, split, with_parameters
from fmcli.api.recording import LOG
from fmcli.api.rows import as_data, form_of
from fmcli.api.training import alternatives_of, check_choices, trained_model
from fmcli.api.values import path_of, value_of
from fmcli.choosing.candidates import Candidate
from fmcli.choosing.request import SearchRequest
from fmcli.choosing.study import trial_event
from fmcli.choosing.tuning import tuned, winner_of
from fmcli.errors import UsageError
from fmcli.records import dataclass
from fmcli.registry.alternatives import begun, several
from fmcli.registry.modes import TUNE
from fmcli.registry.options import OPTIONS, Option
from fmcli.registry.ranges import Range, is_range
from fmcli.registry.ranges import read as range_of
from fmcli.training.setup.chosen import settings_of, spec_of

# The parameters of training that a search does not take.
RESUMING = ("init_model", "only_new", "keep_state")
REFUSED = ("refit", "auto", "calibrate", *RESUMING, "ensemble", "epochs")


@dataclass(frozen=True)
class Tuned:
    """The result of a search.

    model : trained with the best options on all rows; None without ``refit``.
    options : the keyword arguments of `fmcli.train` that train it.
    trials : the result of each trial in its longest run, the best one first: a dict with ``trial`` (0 has the usual
        options), ``model``, ``solver``, ``options``, ``epochs``, ``metric``, ``value`` (None if it failed) and others.
    """

    model: Model | None
    options: dict[str, Any]
    trials: list[dict[str, Any]]


@with_parameters(without=REFUSED)
def tune(
    data: Any,
    valid: Any = None,
    *,
    trials: int | None = None,
    sampler: str = "near",
    path: int | None = None,
    folds: int | None = None,
    study: str | os.PathLike[str] | None = None,
    refit: bool = True,
    **choices: Any,
) -> Tuned:
    """Search for a kind, a solver and options that predict held-out rows better, as ``fmcli tune`` does, and train the
    best ones on all rows: the same rows, options and trials give the same bits.

    Options may have several values, as texts: ``rank="4,8,16"``, ``l2="1e-6..1e-1"``, ``model="fm,ffm"``,
    ``solver="adagrad,ftrl"``. Without any, the usual ones vary, and the kinds and solvers of ``auto``.

    Parameters
    ----------
    data : (X, y), Data, files, frame, or iterator
        The rows, as in `fmcli.train`.
    valid : (X, y), Data, files, frame, or iterator, optional
        Rows to compare on. By default, some rows are held out.
    trials : int, optional
        How many trials there are; 50 by default, or with ``max_seconds`` as many as the time lets.
    sampler : {"near", "random", "tpe"}
        How options are drawn: near the best ones so far, anywhere, or by the TPE of Optuna.
    path : int, optional
        In place of a search, train models with this number of strengths of one penalty. Each model starts from the
        parameters of the previous one; ``sparsity`` of a trial is its share of zeros.
    folds : int, optional
        On how many folds of the rows trials are compared; by default 5, 1 of more than 50,000 rows.
    study : str or path, optional
        File to which each trial is added; if it has trials of the same search, it goes on after them.
    refit : bool
        Whether the best options are trained on all rows.
    {parameters}

    Returns
    -------
    Tuned

    Raises
    ------
    UsageError
        For options that do not exist or cannot be combined, or if no rows are held out; it is a ValueError.
    BadInputError
        For rows or labels that are not valid; it is a ValueError.

    Notes
    -----
    The logger "fmcli" has the progress.
    """
    with in_python():
        begin, choices = time.perf_counter(), listed(choices)
        in_words = {name: value for name, value in choices.items() if name in OPTIONS and isinstance(value, str)}
        ranges = {name: in_range(OPTIONS[name], value) for name, value in in_words.items() if is_range(value)}
        asked = split({name: choices[name] for name in choices if name not in ranges})
        options = asked.options
        trials, folds, path = (
            value_of(name, value, "int | None")
            for name, value in (("trials", trials), ("folds", folds), ("path", path))
        )
        deadline = None if asked.max_seconds is None else begin + asked.max_seconds
        wanted = SearchRequest(
            trials, folds, sampler, None if study is None else path_of("study", study), ranges, deadline, path
        )
        kinds = several(asked.model, asked.solver, asked.loss, options, ranges)
        begin_with = kinds[0] if kinds else begun(asked.model, asked.solver, asked.loss, options, ranges)
        options |= {name: begin_with.values[name] for name in ranges if begin_with.takes(name)}
        first = asked.changed(**options, max_seconds=None, holdout=wanted.held or asked.holdout)
        if kinds:
            first = first.changed(model=kinds[0].model, solver=kinds[0].solver)
        spec = spec_of(first, None)
        others = (kinds[1:] if kinds else alternatives_of(asked, spec)) or [spec]
        settings = settings_of(first, spec, None, others, begin, valid_name="valid")
        check_choices(first, settings, valid, TUNE)
        first = first.changed(auto=True)
        if isinstance(data, Iterator):
            data = as_data(data, "data", form_of(first, spec, None, None))
        read = read_rows(data, spec, first, None)
        evaluated = validating(valid, read, spec, auto=True)[1]
        plan = plan_of(read, evaluated, settings, first)
        chosen, found = tuned(plan, wanted, on_trial=log_trial)
        best = winner_of(chosen, ranges)
        own = {name: value for name, value in choices.items() if name in asked.given and name != "max_seconds"}
        result = {**own, "model": best.model, **best.options, "quick_search": False}
        if best.solver is not None:
            result["solver"] = best.solver
        if best.epochs is not None:
            result |= {"holdout": 0, "epochs": best.epochs}
        model = trained_model(data, valid, split(result)) if refit else None
        return Tuned(model, result, [trial_event(one) for one in found.trials])


def in_range(option: Option, text: str) -> Range:
    """Return the values in the text of an option. Raises UsageError."""

    def value(part: str) -> Any:
        try:
            return option.kind(part)
        except ValueError as error:
            raise UsageError(f"{option.name}: {part!r} is not a value of {option.kind.__name__}") from error

    return range_of(option, text, value)


def log_trial(candidate: Candidate) -> None:
    """Log the result of a trial."""
    record = candidate.record()
    words = record.number, record.model, record.solver, dict(record.options), record.metric, record.reached.value
    LOG.info("trial %d: %s by %s, %s: %s %s", *words)
