"""The model of a run, prepared for its rows, and what of its warm start holds the parameters."""

from __future__ import annotations

from fmcli.data.shards.training_rows import TrainingRows
from fmcli.data.transform import Transform
from fmcli.errors import UsageError
from fmcli.models.model import Model
from fmcli.registry.specs import Spec
from fmcli.registry.streams import PREPARE_STREAM, generator
from fmcli.solvers.coordinate.hold import Earlier
from fmcli.training.setup.settings import make_model
from fmcli.training.setup.warm_start import WarmStart

# The option that says how strongly the rows of a warm start hold its parameters.
HOLD = "init_strength"


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


def earlier_of(spec: Spec, source: TrainingRows, transform: Transform, warm_start: WarmStart | None) -> Earlier | None:
    """Return the rows of a warm start, if they hold its parameters in a run of this spec. Raises UsageError if it does
    not know how many of them had each feature."""
    strength = spec.values.get(HOLD, 0)
    if not strength or warm_start is None:
        return None
    before = warm_start.occurrences
    if before.counts is None:
        raise UsageError(f"{warm_start.path} does not know how often its features occurred", **{HOLD: 0})
    seen, old = warm_start.transform.seen, warm_start.model
    return Earlier(
        strength,
        before.covered,
        before.counts,
        {name: old.known(name, seen) for name in old.parameters},
        lambda: prepared_model(spec, source, transform, None),
    )
