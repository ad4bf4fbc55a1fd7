"""The model of a run, prepared for its rows, and the quadratic prior from its warm start."""

from __future__ import annotations

import numpy as np

from fmcli.data.shards.training_rows import TrainingRows
from fmcli.data.transform import Transform
from fmcli.errors import UsageError
from fmcli.models.model import Model
from fmcli.penalties.penalty import Penalty
from fmcli.registry.specs import Spec
from fmcli.registry.streams import PREPARE_STREAM, generator
from fmcli.solvers.coordinate.prior import PriorRows
from fmcli.training.setup.settings import HOLD, make_model
from fmcli.training.setup.warm_start import WarmStart, extended


def prepared_model(spec: Spec, source: TrainingRows, transform: Transform, warm_start: WarmStart | None) -> Model:
    """Return the model of a run, prepared for its training rows and its warm start; its parameters are not allocated
    yet."""
    labels = transform.labels
    model = make_model(spec, transform.features, labels.outputs, transform.fields, labels.cutpoints)
    model.absent = transform.dimension - transform.features
    model.prepare(source, generator(spec, PREPARE_STREAM))
    if warm_start:
        model.inherit(warm_start.model, warm_start.transform.seen)
    return model


def earlier_of(
    spec: Spec, source: TrainingRows, transform: Transform, warm_start: WarmStart | None
) -> PriorRows | None:
    """Return the rows of a warm start, if they hold its parameters in a run of this spec. Raises UsageError if it does
    not know how many of them had each feature."""
    strength = spec.values.get(HOLD, 0)
    if not strength or warm_start is None:
        return None
    model = prepared_model(spec, source, transform, None)
    shapes, seen, old = model.shapes(), warm_start.transform.seen, warm_start.model
    past, before, weight = warm_start.past(shapes), warm_start.occurrences, warm_start.past_weight
    if past is None and before.counts is None:
        raise UsageError(f"{warm_start.path} does not know how often its features occurred", **{HOLD: 0})
    if past is None:  # of a solver with other penalties: it counts as a minimum with this run's penalties
        options, of_loss = spec.values, source.total_weight + min(1.0, strength) * weight
    else:
        options, of_loss = warm_start.run.options, weight
    center = {name: extended(array, shapes[name]).astype(np.float64) for name, array in old.parameters.items()}
    return PriorRows(
        strength=strength,
        weight=weight,
        center=center,
        penalty=Penalty(l2_w=of_loss * options["l2_w"], l2_v=of_loss * options["l2_v"]),
        past=past,
        counts=np.zeros(0) if before.counts is None else before.counts,
        known={name: old.known(name, seen) for name in old.parameters},
        twin=lambda: prepared_model(spec, source, transform, None),
    )
