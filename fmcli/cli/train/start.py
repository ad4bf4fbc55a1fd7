"""The first event of the JSON log of fmcli train: the command, the choices of the run and where each comes from, and
its data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import fmcli
from fmcli.base.finite import finite
from fmcli.cli.train.log import memory_needed
from fmcli.models.layout import REAL_TYPE
from fmcli.registry.derived import Derived
from fmcli.registry.losses import LOSSES
from fmcli.registry.options import OPTIONS
from fmcli.registry.row_choices import OF_TABLES
from fmcli.registry.specs import REFINES, SOLVER
from fmcli.system.addresses import without_secrets
from fmcli.training.checkpoint import digest
from fmcli.training.several.ensemble import memory_of

if TYPE_CHECKING:
    from fmcli.cli.train.request import Request
    from fmcli.registry.choices import Choices
    from fmcli.training.planning import Plan

# Where a choice comes from. No option is read from the environment.
DEFAULT, GIVEN, INHERITED, DERIVED = "default", "command line", "model of -i", "derived from data"
# The tasks of losses whose labels are a few values.
FEW_VALUES = ("binary", "classes", "levels")


def start_event(plan: Plan, request: Request) -> dict[str, Any]:
    """Return the figures of the event. If the rows come from a stream, they are not known yet."""
    validation, kept = plan.validation, not request.choices.online
    rows = {
        "rows": plan.source.all_rows,
        "held_out": plan.source.all_rows - plan.source.count,
        "nonzeros": plan.source.all_nonzeros,
        "features": int(plan.seen.sum()),
        "labels": labels_of(plan),
        "digest": f"{digest(plan.source.distinguishing, plan.transform.entries())[-1]:08x}" if kept else None,
    }
    return {
        "version": fmcli.__version__,
        "real": REAL_TYPE.name,
        "command": shown(request.words),
        "options": {**options_of(plan, request.choices), "inputs": {"value": shown(request.inputs), "from": GIVEN}},
        **(rows if kept else dict.fromkeys(rows)),
        "valid_rows": validation.count if validation else 0,
        "threads": plan.settings.threads,
        "memory_needed": memory_needed(memory_of(plan, request.choices.ensemble), request),
    }


def options_of(plan: Plan, choices: Choices) -> dict[str, dict[str, Any]]:
    """Return name -> value and origin of the options of the run: all options of the model, the solver and the loss, and
    other options that have a value."""
    spec, asked = plan.spec, plan.settings.spec
    inherited = inherited_by(plan, choices)
    by_data = {name for name, value in asked.values.items() if isinstance(value, Derived)}
    by_data |= {"loss"} if asked.loss is None else set()
    by_data |= {SOLVER} if spec.solver_by_data else set()
    by_data |= {"model", SOLVER} if plan.settings.alternatives else set()
    by_data |= spec.given - asked.given  # chosen by the quick search
    columns = plan.settings.choices.values  # as another reading of the tables has them
    by_data |= {name for name in OF_TABLES if columns[name] != choices.values[name]}

    def origin(name: str) -> str:
        if name in OF_TABLES and name in by_data:
            return DERIVED
        for one in (name, REFINES.get(name, name)):
            for source, names in ((GIVEN, choices.given), (INHERITED, inherited)):
                if one in names:
                    return source
        return DERIVED if name in by_data else DEFAULT

    own = {"model": spec.model, SOLVER: spec.solver, "loss": spec.loss, **spec.values}
    others = {name: shown(value) for name, value in columns.items() if name not in {*own, *OPTIONS}}
    found = {**own, **{name: value for name, value in others.items() if value not in (None, [])}}
    return {name: {"value": value, "from": origin(name)} for name, value in found.items()}


def inherited_by(plan: Plan, choices: Choices) -> set[str]:
    """Return the names of the choices that a run inherits from the model of its warm start, if there is one."""
    if plan.warm_start is None:
        return set()
    run, values = plan.warm_start.run, choices.values
    options = {name: values[name] for name in choices.given & OPTIONS.keys()}
    inherited = run.inherited(values["model"], values[SOLVER], values["loss"], options)
    return {"model", "loss", *inherited, *({SOLVER} & run.given)}


def shown(value: Any) -> Any:
    """Return a value of the command line, without passwords in addresses."""
    if isinstance(value, (tuple, list)):
        return [shown(one) for one in value]
    return without_secrets(value) if isinstance(value, str) else value


def labels_of(plan: Plan) -> dict[str, float]:
    """Return the share of each label in the training rows, by weight; or the least, the mean and the largest number."""
    labels, rows = plan.transform.labels, plan.source.labels
    if labels.values is None or LOSSES[labels.loss].task not in FEW_VALUES:
        with np.errstate(over="ignore", invalid="ignore"):
            mean = np.average(rows.label, weights=rows.weight)
        return finite({"min": float(rows.label.min()), "mean": float(mean), "max": float(rows.label.max())})
    place = (rows.label > 0 if LOSSES[labels.loss].task == "binary" else rows.label).astype(np.intp)
    weight = np.bincount(place, rows.weight, minlength=len(labels.values))
    return dict(zip(labels.texts, (weight / weight.sum()).tolist(), strict=True))
