"""Warnings about a finished run: options for parts that its model does not have, factors that are all zero, landmarks
that share few features with the rows, and a model that is no better than a constant.

Each one names an option that improves the model, with its value. What a comparison before the run has chosen is not
warned of, because other values are worse."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np

from fmcli.cli.flags import flag_of
from fmcli.cli.train.log import MORE_EPOCHS
from fmcli.data.labels import SAME_LABELS
from fmcli.data.shards.observed_rows import ObservedRows
from fmcli.models.polynomial.kernel_basis import KernelBasis
from fmcli.registry.build import build_loss
from fmcli.registry.models import DEFAULT_MODEL, MODELS
from fmcli.registry.options import GROUP_PENALTIES, OPTIONS
from fmcli.registry.specs import REFINES, Spec
from fmcli.scoring.metrics import measure, metric_of
from fmcli.solvers.gibbs.convergence import LEAST_TO_TELL, warning
from fmcli.text import figure
from fmcli.training.baseline import CLEARLY, Comparison, beats

if TYPE_CHECKING:
    from fmcli.models.parameters import Parameters
    from fmcli.training.planning import Plan
    from fmcli.training.trained import Trained

# The factor by which a weaker penalty, or a smaller or larger step, is proposed; and a stronger penalty, because one
# that is only ten times as strong often changes nothing.
FACTOR, STRONGER = 10, 100
# The least penalty that is proposed against overfitting, relative to the mean of the losses, or to their sum: a feature
# of all rows, or of a hundred, gets half of its weight. The model is worse than a constant, so little can be lost.
LEAST_OF_MEAN, LEAST_OF_SUM = 1.0, 100.0
# The loss is falling if it has fallen in each of the last LAST_EPOCHS epochs.
LAST_EPOCHS = 4
# A penalty for sparsity that leaves factors, where none is usual: relative to the mean of the losses, or to their sum.
SPARSE_OF_MEAN, SPARSE_OF_SUM = 1e-4, 1.0
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
    if nothing_is_fitted(trained.plan.model) and not chosen_penalties(trained):
        yield why_zero(trained)
    if isinstance(trained.plan.model, KernelBasis):
        yield from what_landmarks_lack(trained, trained.plan.model)
    if too_few := warning(trained.convergence):
        values = trained.plan.spec.values
        sweeps = max(MORE_EPOCHS * values["epochs"], values["burn_in"] + LEAST_TO_TELL)
        yield f"more sweeps would improve predictions ({OPTIONS['epochs'].flag} {sweeps}): {too_few}"


def notes(trained: Trained, comparison: Comparison | None) -> Iterator[str]:
    """Yield findings that need no advice: factors that are all 0 by a penalty that a comparison has chosen, and columns
    that may tell the label. comparison : of the run with the best constant, if there is one."""
    if comparison and comparison.nearly_perfect and trained.plan.settings.table is not None:
        yield (
            f"hint: {comparison.metric} is nearly 0; if a column is known only with the label, such as the label under "
            "another name, leave it out by --ignore"
        )
    if trained.epochs and nothing_is_fitted(trained.plan.model) and (chosen := chosen_penalties(trained)):
        values = trained.plan.spec.values
        used = " and ".join(f"{OPTIONS[name].flag} {values[name]:g}" for name in chosen)
        yield f"all factors are 0 by {used}, which predicts held-out rows better than weaker penalties"


def chosen_penalties(trained: Trained) -> list[str]:
    """Return the penalties of factors that a comparison has chosen, before this run or before the one that it resumes
    from."""
    spec, settings = trained.plan.spec, trained.plan.settings
    inherited = settings.warm_start.run.kept(spec).keys() if settings.warm_start else set()
    here = spec.given - settings.spec.given
    return [name for name in (*SPARSE, "l2_v") if spec.values.get(name) and name in here | inherited]


def why_no_better_than_constant(trained: Trained, comparison: Comparison) -> str:
    """Return a model that is no better than a constant, with the likely cause and the best remedy."""
    if nothing_is_fitted(trained.plan.model):
        return str(comparison)  # a warning says why
    if isinstance(trained.plan.source, ObservedRows):
        stronger = STRONGER * trained.plan.spec.values["l2_v"]
        return f"{comparison}; try a stronger penalty of factors ({OPTIONS['l2_v'].flag} {stronger:.3g})"
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
            f"for each feature, such as -m {DEFAULT_MODEL}"
        )


def why_zero(trained: Trained) -> str:
    """Return a warning that all factors, or all kernel weights, are 0, with the effect on the model, the likely cause
    and a remedy."""
    values, model = trained.plan.spec.values, trained.plan.model
    linear = any(model.parameters[name].any() for name in linear_weights(model))
    what = "factors" if factors_are_zero(model) else "weights beta of the factors"
    found = f"all {what} are 0, so the model is {'linear' if linear else 'constant'}; "
    if trained.plan.data.longest < 2:
        return found + "no row has two features whose interaction could be learned"
    strong = [name for name in SPARSE if values.get(name)]
    if strong:
        whole = {"l1_v": "l1"} if values["l1"] == values["l1_v"] else {}
        flags = {name: OPTIONS[whole.get(name, name)].flag for name in strong}
        used = " and ".join(f"{flags[name]} {values[name]:g}" for name in strong)
        weaker = " and ".join(f"{flags[name]} {weakened(trained.plan, name):g}" for name in strong)
        verb = "is" if len(strong) == 1 else "are"
        return f"{found}{used} {verb} too strong for them: try {weaker}"
    if not values["init_std"]:
        return f"{found}they start from 0, where their gradients are 0: leave out {OPTIONS['init_std'].flag} 0"
    flag, weaker_one = OPTIONS["l2_v"].flag, weakened(trained.plan, "l2_v")
    return f"{found}{flag} {values['l2_v']:g} is too strong for them: try {flag} {weaker_one:g}"


def weakened(plan: Plan, name: str) -> float:
    """Return a weaker penalty to propose: the usual one, or a tenth, if that is less."""
    sparse = SPARSE_OF_SUM if plan.spec.solver_entry.sums_losses else SPARSE_OF_MEAN
    value: float = plan.spec.values[name]
    return min(value / FACTOR, plan.usual.get(name) or (sparse if name in (*SPARSE, "l1_w") else value))


def why_no_better(trained: Trained, name: str) -> str:
    """Return why a model may predict no better than a constant: it has not learned anything, or it overfits."""
    assert trained.outcome is not None
    if odd := trained.plan.odd_columns:
        return f"{odd.found}: {odd.way_out(flag_of)}"
    values = trained.plan.spec.values
    train = measure([name], trained.outcome)[name]
    if beats(name, train, trained.baseline.on(trained.outcome, [name])[name]):
        least = LEAST_OF_SUM if trained.plan.spec.solver_entry.sums_losses else LEAST_OF_MEAN
        stronger = max(STRONGER * max(values["l2_w"], values["l2_v"]), least)
        word = "above" if metric_of(name).larger_is_better else "below"
        return (
            f"on the training rows it is {figure(train)}, {word} the constant's: it overfits; try a stronger penalty "
            f"({OPTIONS['l2'].flag} {stronger:.3g})"
        )
    return f"the same holds on the training rows; {why_not_learned(trained)}"


def why_not_learned(trained: Trained) -> str:
    """Return why a model may be no better than a constant on its training rows."""
    spec, values = trained.plan.spec, trained.plan.spec.values
    if odd := trained.plan.odd_columns:
        return f"{odd.found}: {odd.way_out(flag_of)}"
    if np.isinf(trained.baseline.loss):
        return f"every label is the same: {SAME_LABELS}"
    usual = trained.plan.usual
    weaker = {
        name: weakened(trained.plan, name)
        for name in (*SPARSE, "l1_w", "l2_w", "l2_v")
        if spec.given & {name, REFINES.get(name, name)} and values.get(name, 0) > usual.get(name, 0)
    }
    if MODELS[spec.model].closed_form:
        larger = f"a larger {OPTIONS['rank'].flag} ({MORE_EPOCHS * values['rank']})"
        return f"try {', or '.join([larger, *proposed(weaker)])}"
    step = next((step for step in ("learning_rate", "alpha") if step in values), None)
    losses = losses_of(trained)
    falling = losses == sorted(losses, reverse=True) and losses[0] - losses[-1] > CLEARLY * abs(losses[0])
    least = min(trained.baseline.loss, trained.epochs[0].loss)
    if step and not falling and losses[-1] - least > CLEARLY * abs(least):
        return f"the steps are too large: try {OPTIONS[step].flag} {values[step] / FACTOR:g}"
    if weaker:
        return f"penalties are too strong: try {' and '.join(proposed(weaker))}"
    if step and not falling:
        larger_step = max(values[step] * FACTOR, usual[step])
        return f"the steps are too small: try {OPTIONS[step].flag} {larger_step:g}"
    if falling or not trained.converged:
        return f"try more epochs ({OPTIONS['epochs'].flag} {values['epochs'] * MORE_EPOCHS})"
    return "the features tell this model nothing about the labels"


def losses_of(trained: Trained) -> list[float]:
    """Return the mean losses of the last epochs, at least two. The loss of a stochastic solver is one of rows before
    their updates, so a single epoch is followed by the loss at its end."""
    losses = [epoch.loss for epoch in trained.epochs[-LAST_EPOCHS:]]
    if len(losses) > 1:
        return losses
    outcome, plan = trained.outcome, trained.plan
    assert outcome is not None
    loss = build_loss(plan.spec, plan.transform.labels.loss, plan.model.columns)
    return [*losses, outcome.mean(outcome.losses(loss, plan.transform.labels.unit))]


def proposed(penalties: Mapping[str, float]) -> list[str]:
    """Return flags of weaker penalties; if all parts of a penalty are the same, the flag of the whole."""
    flags: dict[str, float] = {}
    for name, value in penalties.items():
        whole = REFINES.get(name, name)
        same = all(penalties.get(part) == value for part in REFINES if REFINES[part] == whole)
        flags[OPTIONS[whole if same else name].flag] = value
    return [f"{flag} {value:g}" for flag, value in flags.items()]
