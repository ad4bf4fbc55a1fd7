"""The rules of a run, which every front end passes its values through before any data is read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from fmcli.registry.choices import CHOICES
from fmcli.registry.modes import (
    BALANCED,
    CHOOSING,
    DRAWING,
    HOLDOUT_GROUP,
    HOLDOUT_ROWS,
    KIND_AND_SOLVER,
    NO_HOLDOUT,
    OTHER_LOSS,
    RANKING,
    RARE_SHARED,
    SKIPPING,
    UNMEASURED,
    UPDATING,
    check_modes,
)
from fmcli.registry.row_choices import BALANCED as BALANCED_WEIGHTS
from fmcli.registry.solvers import POOLED
from fmcli.training.setup.chosen import draws_negatives, held_of

if TYPE_CHECKING:
    from fmcli.registry.choices import Choices
    from fmcli.training.setup.settings import Settings


def check_run(choices: Choices, settings: Settings, *, ranks: bool, more: Mapping[str, object]) -> None:
    """Check the choices of a run with each other, and with its model and solver.

    ranks : whether the rows need groups.
    more : a front end's own values by name, besides the choices: its mode and its other arguments.

    Raises UsageError for the first contradiction.
    """
    check_modes({**made(choices), **conditions(choices, settings, ranks=ranks), **more}, settings.spec)


def made(choices: Choices) -> dict[str, object]:
    """Return each choice, and whether it has another value than by default; "no_NAME" for a switch that is off."""
    values = choices.values
    differing = {name: name in choices.given and values[name] is not False and values[name] != () for name in CHOICES}
    off = {f"no_{name}": values[name] is False for name, choice in CHOICES.items() if choice.kind is bool}
    return {**differing, **off}


def conditions(choices: Choices, settings: Settings, *, ranks: bool) -> dict[str, object]:
    """Return the conditions of values that modes exclude."""
    values, held = settings.spec.values, held_of(choices)
    return {
        "holdout": "holdout" in choices.given and held.share != 0,
        "ensemble": choices.ensemble > 1,
        "min_count": (choices.min_count or 1) > 1,
        "hash_bits": settings.hash_bits,
        "norm": values["norm"],
        POOLED: values.get(POOLED),
        "scale": values["scale"] != "none",
        OTHER_LOSS: choices.implicit and choices.loss and not draws_negatives(choices),
        CHOOSING: settings.quick_search and choices.implicit and not draws_negatives(choices) and held.share != 0,
        DRAWING: draws_negatives(choices),
        UNMEASURED: choices.implicit and held.share == 0,
        UPDATING: choices.init_model is not None and not choices.only_new,
        NO_HOLDOUT: held.share == 0,
        HOLDOUT_GROUP: held.column,
        HOLDOUT_ROWS: held.column and not held.times,
        RARE_SHARED: settings.share_rare,
        BALANCED: choices.class_weight == BALANCED_WEIGHTS,
        KIND_AND_SOLVER: choices.model and choices.solver,
        RANKING: ranks,
        SKIPPING: choices.on_bad_line == "skip" or bool(choices.max_bad_lines),
    }
