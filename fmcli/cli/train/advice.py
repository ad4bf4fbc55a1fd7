"""Warnings about a finished run: options for parts that its model does not have, factors that are all zero, landmarks
that share few features with the rows, and a model that is no better than a constant."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from fmcli.models.polynomial.kernel_basis import KernelBasis
from fmcli.registry.models import DEFAULT_MODEL, MODELS
from fmcli.registry.options import GROUP_PENALTIES, OPTIONS
from fmcli.registry.specs import REFINES, Spec
from fmcli.scoring.metrics import measure, metric_of
from fmcli.solvers.gibbs.convergence import warning
from fmcli.training.baseline import Comparison, beats

if TYPE_CHECKING:
    from fmcli.models.parameters import Parameters
    from fmcli.training.trained import Trained

# The factor by which a weaker or stronger penalty, or a smaller or larger step, is proposed.
FACTOR = 10
# The number of epochs without penalties after which factors have usually grown. The factor by which the number of
# epochs is increased in a proposal.
DENSE_EPOCHS, MORE_EPOCHS = 5, 3
# If a penalty is 0, this value is multiplied by FACTOR to propose a stronger one.
LEAST = 1e-6
# A warning is given if landmarks lack the features of more than this share of the entries. If features are ids, they
# lack most of them; if features are numeric columns, none.
MOST_LACKING = 0.1
ENTRIES_AT_A_TIME = 1 << 20
FIRST_FEATURES = 1 << 10
# The penalties that set factors to zero.
SPARSE = ("l1_v", *GROUP_PENALTIES, "nuclear")


def advice(trained: Trained) -> Iterator[str]:
    """Warnings, each with its likely cause and the option that helps and is not yet in use."""
    if not trained.epochs:
        return
    yield from options_without_effect(trained.plan.spec, trained.plan.model)
    if nothing_is_fitted(trained.plan.model):
        yield why_zero(trained)
    if isinstance(trained.plan.model, KernelBasis):
        yield from what_landmarks_lack(trained, trained.plan.model)
    if too_few := warning(trained.convergence):
        yield f"more sweeps would improve predictions (-e): {too_few}"


def verdict(trained: Trained, comparison: Comparison) -> str:
    """Return a model that is no better than a constant, with the likely cause and the best remedy."""
    if nothing_is_fitted(trained.plan.model):
        return str(comparison)  # a warning says why
    why = why_no_better(trained.validated, comparison.metric) if comparison.validated else why_not_learned(trained)
    return f"{comparison}; {why}"


def nothing_is_fitted(model: Parameters) -> bool:
    """Return whether all factors of the model are 0, or have no effect."""
    return factors_are_zero(model) or kernel_weights_are_zero(model)


def options_without_effect(spec: Spec, model: Parameters) -> Iterator[str]:
    """Yield options that were given for a part that the model does not have: linear weights, or factors."""
    has = {"linear weights": bool(linear_weights(model)), "factors": bool(factor_names(model) or model.constants)}
    for part, ending in (("linear weights", "_w"), ("factors", "_v")):
        without = [OPTIONS[name].flag for name in REFINES if name in spec.given and name.endswith(ending)]
        if without and not has[part]:
            yield f"{' and '.join(without)} {'have' if without[1:] else 'has'} no effect: the model has no {part}"


def linear_weights(model: Parameters) -> list[str]:
    """Return the arrays of linear weights."""
    linear = [layout for layout in model.layout if layout.penalized_as == "w" and layout.by_feature]
    return [layout.weight for layout in linear if layout.weight]


def factor_names(model: Parameters) -> list[str]:
    """Return the arrays of factors of features, and of weights of pairs."""
    penalized = [layout for layout in model.layout if layout.penalty == "full"]
    full = [layout for layout in penalized if layout.by_feature or layout.penalized_as == "v"]
    bodies = [array.name for layout in full for array in layout.body]
    return bodies + [layout.weight for layout in full if layout.weight and layout.penalized_as == "v"]


def factors_are_zero(model: Parameters) -> bool:
    """Return whether the model has factors, and all of them are 0."""
    arrays = [model.parameters[name] for name in factor_names(model)]
    # The first features' tell in nearly all models.
    some = [array[:, :FIRST_FEATURES] for array in arrays]
    return any(array.size for array in arrays) and not any(array.any() for array in [*some, *arrays])


def kernel_weights_are_zero(model: Parameters) -> bool:
    """Return whether the model fits weights of its factors' kernels, and all of them are 0. In this case, the factors
    have neither an effect nor a gradient."""
    names = [array.name for layout in model.layout if layout.role == "kernel weights" for array in layout.body]
    return bool(names) and not any(model.parameters[name].any() for name in names)


def what_landmarks_lack(trained: Trained, model: KernelBasis) -> Iterator[str]:
    """Yield a warning if many entries of the rows have features that no landmark has. Whatever their values, such
    entries add nothing to the kernel functions."""
    data, landmarks = trained.plan.data, model.landmarks
    has = landmarks.seen(np.arange(landmarks.rows, dtype=np.int32))
    runs = range(0, data.nnz, ENTRIES_AT_A_TIME)
    shared = sum(np.count_nonzero(has[data.index[start : start + ENTRIES_AT_A_TIME]]) for start in runs)
    lacking = 1 - shared / max(1, data.nnz)
    if lacking > MOST_LACKING:
        nothing = "have only their linear effects" if model.parameters else "add nothing to predictions"
        yield (
            f"the {landmarks.rows:,} landmarks have {np.count_nonzero(has):,} of the {trained.seen.sum():,} features; "
            f"the other features, {lacking:.0%} of the entries of the rows, {nothing}: ids need a model with factors "
            f"for each feature, such as -m {DEFAULT_MODEL}; a larger {OPTIONS['rank'].flag} helps less"
        )


def why_zero(trained: Trained) -> str:
    """Return a warning that all factors, or all kernel weights, are 0, with the effect on the model, the likely cause
    and a remedy."""
    values, model = trained.plan.spec.values, trained.plan.model
    linear = any(model.parameters[name].any() for name in linear_weights(model))
    what = "factors" if factors_are_zero(model) else "weights beta of the factors"
    found = f"all {what} are 0, so that the model is {'linear' if linear else 'constant'}; "
    if trained.plan.data.longest < 2:
        return found + "no row has two features whose interaction could be learned"
    strong = [name for name in SPARSE if values.get(name)]
    if strong:
        whole = {"l1_v": "l1"} if values["l1"] == values["l1_v"] else {}
        flags = {name: OPTIONS[whole.get(name, name)].flag for name in strong}
        used = " and ".join(f"{flags[name]} {values[name]:g}" for name in strong)
        weaker = " and ".join(f"{flags[name]} {values[name] / FACTOR:g}" for name in strong)
        verb = "is" if len(strong) == 1 else "are"
        late = min(DENSE_EPOCHS, values["epochs"])
        if strong != ["nuclear"] and values.get("l1_from_epoch", late) < late:
            weaker += f", or {OPTIONS['l1_from_epoch'].flag} {late} so that they grow before the penalty acts"
        if "nuclear" in strong:
            start = OPTIONS["init_std"].flag
            other = f", or they started too small or too large ({start} {values['init_std']:g})"
            return f"{found}{used} {verb} too strong for them{other}: try {weaker} or another {start}"
        return f"{found}{used} {verb} too strong for them: try {weaker}"
    if not values["init_std"]:
        return f"{found}they start from 0, where their gradients are 0: leave out {OPTIONS['init_std'].flag} 0"
    strength = OPTIONS["l2_v"].flag
    return f"{found}{strength} {values['l2_v']:g} is too strong for them: try {strength} {values['l2_v'] / FACTOR:g}"


def why_no_better(trained: Trained, name: str) -> str:
    """Return why a model may predict no better than a constant: it has not learned anything, or it overfits."""
    assert trained.outcome is not None
    if odd := trained.plan.odd_columns:
        return f"{odd.found}: {odd.way_out}"
    values = trained.plan.spec.values
    train = measure([name], trained.outcome)[name]
    if beats(name, train, trained.baseline.on(trained.outcome, [name])[name]):
        stronger = f"a stronger penalty ({OPTIONS['l2'].flag} {max(values['l2_w'], values['l2_v'], LEAST) * FACTOR:g})"
        smaller = f" or a smaller {OPTIONS['rank'].flag}" if "rank" in values else ""
        word = "above" if metric_of(name).larger_is_better else "below"
        return f"on the training rows it is {train:.6g}, {word} the constant's: it overfits; try {stronger}{smaller}"
    return f"the same holds on the training rows; {why_not_learned(trained)}"


def why_not_learned(trained: Trained) -> str:
    """Return why a model may be no better than a constant on its training rows."""
    values, epochs = trained.plan.spec.values, trained.epochs
    if odd := trained.plan.odd_columns:
        return f"{odd.found}: {odd.way_out}"
    if MODELS[trained.plan.spec.model].closed_form:
        return f"try a larger {OPTIONS['rank'].flag} or a weaker {OPTIONS['l2'].flag}"
    step = next((step for step in ("learning_rate", "alpha") if step in values), None)
    if step and epochs[-1].loss > min(trained.baseline.loss, epochs[0].loss):
        return f"the steps are too large: try {OPTIONS[step].flag} {values[step] / FACTOR:g}"
    more = f"more epochs ({OPTIONS['epochs'].flag} {values['epochs'] * MORE_EPOCHS})"
    larger = f" or a larger step ({OPTIONS[step].flag} {values[step] * FACTOR:g})" if step else ""
    weaker = " or weaker penalties" if any(values.get(name) for name in (*SPARSE, "l1_w", "l2_w", "l2_v")) else ""
    return f"try {more}{larger}{weaker}"
