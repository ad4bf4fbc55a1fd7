"""Which draws of a solver that samples are kept, and how large they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fmcli.model_file.state import drawn_names
from fmcli.models.kept import HALF
from fmcli.models.layout import REAL_TYPE
from fmcli.models.model import Model
from fmcli.registry.specs import Spec

# The largest squared norm of a row up to which draws may be kept in 16 bits: a score of longer rows, or of columns with
# larger numbers, can be a small difference of large terms.
MOST_SQUARE = 1024


def kept_sweeps(spec: Spec) -> frozenset[int]:
    """Return the numbers, from 1, of the sweeps whose draws are kept: the last one, and others at equal distances after
    the burn-in; all of them if there are not more. There are none if the solver does not sample."""
    if not spec.solver_entry.is_sampler:
        return frozenset()
    epochs, draws = spec.values["epochs"], spec.values["draws"]
    after = epochs - spec.values["burn_in"]
    return frozenset(epochs - step * after // draws for step in range(draws)) if after > 0 else frozenset()


def may_halve(facts: Mapping[str, Any]) -> bool:
    """Return whether draws can be kept in 16 bits, given the facts about the rows; see Facts."""
    return bool(facts.get("longest", np.inf) <= MOST_SQUARE)


def feature_arrays(model: Model) -> list[str]:
    """Return the names of the arrays of a draw that have numbers for each feature."""
    return [name for name in drawn_names(model) if model.feature_axis(name) is not None]


def draw_bytes(model: Model, halved: Sequence[str] = ()) -> int:
    """Return bytes of a draw of a model with some arrays in 16 bits."""
    shapes = model.shapes()
    types = {name: HALF if name in halved else REAL_TYPE for name in drawn_names(model)}
    return sum(int(np.prod(shapes[name])) * type.itemsize for name, type in types.items())
