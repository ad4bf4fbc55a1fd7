"""A model file that has grown by the new features that a run has learned: all else is as it was, bit by bit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fmcli.data.counts.occurrences import compact
from fmcli.data.numbering import Numbering
from fmcli.data.shards.observed_rows import ObservedRows
from fmcli.data.transform import marked
from fmcli.model_file.container import ModelFile
from fmcli.model_file.known_pairs import KnownPairs
from fmcli.model_file.state import as_halves, draw_name, parameter_of, state_arrays
from fmcli.model_file.transform import transform_arrays, transform_entries
from fmcli.models.kept import HALF
from fmcli.penalties.penalty import Penalty
from fmcli.registry.build import build_loss, build_trainer
from fmcli.registry.specs import Spec
from fmcli.solvers.new_features import NONE
from fmcli.solvers.trainer import Observer, Task
from fmcli.training.draw_sizes import may_halve
from fmcli.training.past import kept_past, past_arrays
from fmcli.training.planning import Plan, strengths_of
from fmcli.training.prepared import prepared_model
from fmcli.training.setup.warm_start import WarmStart
from fmcli.training.trained import Trained

Arrays = dict[str, NDArray[Any]]


def grown_file(trained: Trained) -> ModelFile:
    """Return the file of the whole model, with the new features that a run has learned."""
    plan = trained.plan
    whole, new_features = plan.settings.whole, plan.new_features
    assert whole is not None
    assert new_features is not None
    new = np.flatnonzero(new_features.features)
    places = places_of(plan, whole)[new]
    tensors = {**whole.arrays, **known_pairs(plan)}
    for name, learned in learned_arrays(trained):
        if name in tensors:
            halved = tensors[name].dtype == HALF
            before = tensors[name].astype(learned.dtype) if halved else tensors[name]
            grown = filled(plan, parameter_of(name), before, learned, new, places)
            tensors[name] = as_halves(grown) if halved and may_halve(plan.facts) else grown
    counts = whole.occurrences.counts
    if counts is not None:
        times = counts.astype(np.int32)
        times[places] = plan.data.counts(plan.rows)[new]
        counts = compact(times)
    seen = whole.transform.seen.copy()
    seen[places] = True
    transform = replace(whole.transform, marks=marked(seen))
    if transform.groups is not None and plan.transform.groups is not None:
        groups = transform.groups.copy()
        groups[places] = plan.transform.groups[new]
        transform = replace(transform, groups=groups)
    occurrences = replace(whole.occurrences, counts=counts)
    training = {**whole.meta["training"], "features": int(seen.sum())}
    meta = {
        **whole.meta,
        **transform_entries(transform),
        **occurrences.entries(transform.numbering),
        "training": training,
    }
    return ModelFile(meta, {**tensors, **transform_arrays(transform), **occurrences.arrays()})


def known_pairs(plan: Plan) -> Arrays:
    """Return the arrays of the users, the items and all observed pairs of a run, if it has some."""
    source = plan.source.whole() if isinstance(plan.source, ObservedRows) else None
    if not isinstance(source, ObservedRows):
        return {}
    return KnownPairs(source.sides.contexts, source.sides.items, source.seen(), source.terms).arrays()


def places_of(plan: Plan, whole: WarmStart) -> NDArray[Any]:
    """Return the column in the whole model of each column of a plan."""
    ours, theirs = plan.transform.numbering, whole.transform.numbering
    if ours is None:
        return np.arange(plan.model.features)
    if theirs is not None:
        return theirs.columns_from(ours)
    assert isinstance(ours, Numbering)
    return ours.ids


def learned_arrays(trained: Trained) -> Iterator[tuple[str, NDArray[Any]]]:
    """Yield the arrays of a run, and of its draws or members, by their names in a model file."""
    model = trained.plan.model
    of_rows = past_arrays(kept_past(trained.plan)) if trained.members == 1 and not trained.draws else {}
    yield from {**model.parameters, **model.constants, **start_state(trained.plan), **of_rows}.items()
    for number, draw in enumerate(trained.draws):
        yield from ((draw_name(number, name), array) for name, array in draw.items())


def filled(
    plan: Plan,
    parameter: str,
    array: NDArray[Any],
    learned: NDArray[Any],
    new: NDArray[np.intp],
    places: NDArray[Any],
) -> NDArray[Any]:
    """Return an array of the whole model with the numbers of the new columns `new`, which have these places there."""
    model, axis = plan.model, plan.model.feature_axis(parameter)
    if axis is not None:
        whole = np.array(array)
        np.moveaxis(whole, axis, 0)[places] = np.moveaxis(np.asarray(learned), axis, 0)[new]
        return whole
    assert plan.new_features is not None
    for number, layout in enumerate(model.layout):
        if parameter in layout.names:
            owned = model.owners(number, plan.new_features.features) != NONE
            if owned.any():
                whole = np.array(array)
                whole[:, owned] = learned[:, owned]
                return whole
    return array


def start_state(plan: Plan) -> Arrays:
    """Return the state of the solver of the whole model, as a run begins that has the parameters of a plan; empty if
    the model has none."""
    whole = plan.settings.whole
    assert whole is not None
    run = whole.run
    if whole.state is None or not whole.state.slots:
        return {}
    spec = Spec(run.model, run.solver, run.loss, run.options, run.given)
    model = prepared_model(spec, plan.source, plan.transform, plan.warm_start)
    trainer = build_trainer(Task(spec, model, plan.source))
    model.allocate(trainer.slots)
    for name, array in plan.model.parameters.items():
        model.parameters[name][...] = array
    trainer.prepare(build_loss(spec, run.loss, model.columns), Penalty(**strengths_of(spec)), Observer())
    return state_arrays(model)
