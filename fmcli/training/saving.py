"""Model files: training writes them, and reads them to resume from one."""

from __future__ import annotations

from typing import Any

import fmcli
from fmcli.base.finite import are_finite
from fmcli.data.counts.occurrences import UNKNOWN, checksum_of, count
from fmcli.data.fields import group_numbers
from fmcli.errors import BadInputError, UsageError, called
from fmcli.model_file.check import CALIBRATION
from fmcli.model_file.container import ModelFile, load, save
from fmcli.model_file.state import PAST, draw_name, state_arrays
from fmcli.model_file.transform import transform_arrays, transform_entries
from fmcli.models.drawn import PRIOR_GROUPS, PRIORS
from fmcli.registry.models import MODELS
from fmcli.registry.remedies import diverged
from fmcli.registry.specs import make_spec
from fmcli.scoring.scorer import scorer_of
from fmcli.training.draws import stacked
from fmcli.training.growth import grown_file, known_pairs
from fmcli.training.past import kept_past, past_arrays
from fmcli.training.setup.previous_run import PreviousRun
from fmcli.training.setup.warm_start import SolverState, WarmStart
from fmcli.training.trained import Trained


def keeps_state(trained: Trained) -> bool:
    """Return whether the file of a trained model has the state of its solver: as chosen; else of a single model, if it
    may, unless a number of the state is not finite."""
    plan = trained.plan
    if (keep := plan.settings.choices.keep_state) is not None:
        return bool(keep)
    may = trained.members == 1 and plan.settings.may_keep_state(plan.spec, plan.model, plan.model.slots)
    return may and are_finite(state_arrays(plan.model).values())


def save_model(path: str, trained: Trained, training: dict[str, Any], format: str, *, keep_state: bool = False) -> None:
    """Write the file of a trained model; see `file_of`. Raises the errors of `file_of` and OutputError."""
    save(path, file_of(trained, training, format, keep_state=keep_state))


def file_of(
    trained: Trained, training: dict[str, Any], format: str, *, keep_state: bool = False, updatable: bool = True
) -> ModelFile:
    """Return the model file of a trained model, with all that scoring needs; `training` is its summary, `format` that
    of its data. Arrays of the model are not copied.

    With `keep_state`, a later run of the same solver can resume exactly where this one ended. If it is `updatable`, it
    has the facts about its rows that an update by cd or lbfgs needs (see `Settings.keeps_past`).

    After a run that learns new features alone, it is the earlier file, which has grown by them.

    Raises DivergedError if that state is not finite.
    """
    plan = trained.plan
    if plan.new_features is not None:
        return grown_file(trained)
    state = state_arrays(plan.model) if keep_state else {}
    if not are_finite(state.values()):
        raise diverged(plan.spec, "the solver's state, which would be saved with the model, is not finite")
    past = kept_past(plan) if updatable and trained.members == 1 else None
    previous = plan.warm_start.occurrences if plan.warm_start else UNKNOWN
    occurrences = count(plan.data, plan.rows, previous, plan.counts, plan.rows_here, checksum_of(plan.source))
    meta = {
        "tool": f"fmcli {fmcli.__version__}",
        "model": plan.spec.model,
        "solver": plan.spec.solver,
        "loss": plan.spec.loss,
        "options": {**plan.spec.values, "epochs": plan.epochs_before + plan.spec.values["epochs"]},
        "given": sorted(plan.spec.given),
        "multiples": dict(plan.spec.multiples),
        "outputs": plan.model.outputs,
        **transform_entries(plan.transform),
        "slots": plan.model.slots if keep_state else None,
        "updates": trained.updates,
        "epochs": plan.epochs_before + trained.best,
        "format": format,
        "training": training,
        CALIBRATION: plan.calibration.method if plan.calibration else None,
        "draws": 1 + len(trained.draws),
        "members": trained.members,
        PAST: None if past is None else past.weight,
        **occurrences.entries(plan.transform.numbering),
    }
    tensors = {
        **plan.model.parameters,
        **plan.model.constants,
        **state,
        **past_arrays(past),
        **{draw_name(number, name): array for number, draw in enumerate(trained.draws) for name, array in draw.items()},
        **transform_arrays(plan.transform),
        **occurrences.arrays(),
        **(beside := stacked(trained.beside)),
        **({PRIOR_GROUPS: group_numbers(plan.task.groups)} if PRIORS in beside else {}),
        **({CALIBRATION: plan.calibration.numbers} if plan.calibration else {}),
        **known_pairs(plan),
    }
    return ModelFile(meta, tensors)


def load_warm_start(path: str, *, only_new: bool = False) -> WarmStart:
    """Open a model file to resume from. Raises the errors of `load_model`."""
    return warm_start_of(path, load(path), only_new=only_new)


def warm_start_of(path: str, file: ModelFile, *, only_new: bool = False) -> WarmStart:
    """Return the model in a file to resume from; `path` is its name in messages.

    only_new : whether the run learns new features alone. Then it may be an ensemble, whose last member is the model, or
        a model of observed pairs, whose objective is not a sum over rows.

    Raises the errors of `scorer_of`, and UsageError for an ensemble and for a model of observed pairs.
    """
    scorer = scorer_of(path, file)
    meta = scorer.meta
    if scorer.known is not None and not only_new:
        raise UsageError(
            f"{path} was trained with {called('implicit')}, and every pair without a row counts, too: train again on "
            f"all rows, or learn new users and items alone ({called('only_new')})"
        )
    if scorer.members > 1 and not only_new:
        raise UsageError(
            f"{path} is an ensemble of {scorer.members} models, and training resumes from a single one; train the "
            "ensemble again"
        )
    try:
        make_spec(meta["model"], None if MODELS[meta["model"]].closed_form else meta["solver"], meta["loss"])
    except UsageError as error:  # the model's kind, solver and loss cannot be combined
        raise BadInputError(f"{path}: is not a valid model: {error}") from error
    kept = meta["slots"] is not None
    return WarmStart(
        path=path,
        run=PreviousRun(
            meta["model"],
            meta["solver"],
            meta["loss"],
            meta["options"],
            given=frozenset(meta["given"]),
            epochs=meta["epochs"],
            multiples=meta["multiples"],
        ),
        model=scorer.model,
        transform=scorer.transform,
        arrays=file.tensors,
        state=SolverState(meta["solver"], meta["slots"], meta["updates"]) if kept else None,
        file=file,
        occurrences=scorer.occurrences,
        known=scorer.known,
    )
