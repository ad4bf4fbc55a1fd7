"""The formulas of the stochastic solvers, row by row in float64, with gradients from the slow definitions.

sgd, adagrad, ftrl and fobos have one update function each. Everything else (batches, weights, which rows are touched,
the epoch in which FTRL's λ1 starts) is in ``run``. fobos applies every step to every row at once; no prox is deferred.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from reference.kinds import SIMPLEX, STRUCTURAL, Choices, Params, Sample
from reference.slow_losses import LOSSES, Loss, slopes
from reference.slow_models import Penalty, Row, classes, gather, gradient, per_feature, rows, score, strengths, touched
from reference.slow_penalties import GROUPS


@dataclass(frozen=True)
class Options(Penalty):
    """All numeric options of a run, named as on the command line."""

    learning_rate: float = 0.05
    learning_rate_w: float | None = None
    learning_rate_v: float | None = None
    schedule: str = "constant"
    power: float = 0.5
    t0: float = 1.0
    adaptive: bool = False
    alpha: float = 0.05
    alpha_w: float | None = None
    alpha_v: float | None = None
    beta: float = 1.0
    ftrl_power: float = 0.5
    l1_from_epoch: int | None = None  # None: 2 for ftrl, else 1
    batch_size: int = 1
    round_ends: Sequence[int] = ()  # rounds: where the rounds of each epoch end
    curvature: float = 0.0  # rounds: the largest second derivative of the loss
    model: Choices = field(default_factory=dict)


def prox(
    u: np.ndarray,
    h: np.ndarray | float,
    l1: np.ndarray | float = 0.0,
    l2: np.ndarray | float = 0.0,
    group: float = 0.0,
    rest: Sequence[float] = (),
    kind: str = "group_l1",
) -> np.ndarray:
    """argmin over v of Σ ½h(v − u)² + λ1‖v‖_1 + Σ(λ2/2)v² + λ_g·Ω([v, rest]) for one row u.

    h, λ1 and λ2 are scalars or have one value for each parameter in u. ``rest`` holds the other parameters of the row,
    which do not change. ``kind`` selects the group penalty Ω.
    """
    c = np.sign(u) * np.maximum(np.abs(h * u) - l1, 0)
    d = h + l2 + np.zeros_like(u)
    return GROUPS[kind].prox(c, d, group, np.asarray(rest, dtype=float)) if group > 0 else c / d


@dataclass
class State:
    """One parameter row: its parameters, the solver's state for them, and the penalties in force."""

    where: Row
    phi: np.ndarray
    l1: np.ndarray
    l2: np.ndarray
    group: float
    kind: str  # of the group penalty
    rate: np.ndarray  # η0 of each parameter
    alpha: np.ndarray
    touched: np.ndarray  # mask of the parameters that the update changes
    seen: bool = False
    kept: dict[str, np.ndarray] = field(default_factory=dict)  # the solver's state for each parameter

    def prox(self, u: np.ndarray, h: np.ndarray | float) -> np.ndarray:
        at, v = self.touched, self.phi.copy()
        h = h + np.zeros_like(u)
        v[at] = prox(u[at], h[at], self.l1[at], self.l2[at], self.group, v[~at], self.kind)
        return v


# ---- The solvers. r is a row, g its gradient, t the number of the update, o the options. ----


def share(t: int, o: Options) -> float:
    """η_t / η0."""
    if o.schedule == "constant":
        return 1.0
    if o.schedule == "invscaling":
        return 1 / float(t**o.power)
    if o.schedule == "inverse":
        return 1 / (t + o.t0)
    raise ValueError(o.schedule)


def sgd(r: State, g: np.ndarray, t: int, o: Options) -> None:
    h = 1 / (r.rate * share(t, o))
    r.phi = r.prox(r.phi - g / h, h)


def adagrad(r: State, g: np.ndarray, t: int, o: Options) -> None:
    r.kept["G"] = r.kept["G"] + g**2
    h = np.sqrt(r.kept["G"]) / r.rate
    r.phi = r.prox(r.phi - g / h, h)


def fobos(r: State, g: np.ndarray, t: int, o: Options) -> None:
    """Called for every row of the model in every update; g is 0 for parameters that are not touched."""
    if o.adaptive:
        adagrad(r, g, t, o)
    else:
        sgd(r, g, t, o)


def move_anchor(r: State, g: np.ndarray, t: int, o: Options, scheduled: bool) -> None:
    """Anchors take plain gradient steps with every solver."""
    r.phi = r.phi - o.model.get("anchor_rate", 0.01) * (share(t, o) if scheduled else 1.0) * g


def ftrl_h(r: State, n: np.ndarray | float, o: Options) -> np.ndarray:
    """H(n)."""
    h: np.ndarray = (o.beta + n) ** o.ftrl_power / r.alpha
    return h


def ftrl(r: State, g: np.ndarray, t: int, o: Options) -> None:
    n = r.kept["n"] + g**2
    sigma = ftrl_h(r, n, o) - ftrl_h(r, r.kept["n"], o)
    r.kept |= {"z": r.kept["z"] + g - sigma * r.phi, "n": n}
    visit(r, o)


def visit(r: State, o: Options) -> None:
    """Compute FTRL's parameters from its state, under the penalties in force."""
    h = ftrl_h(r, r.kept["n"], o)
    r.phi = r.prox(-r.kept["z"] / h, h)


def adagrad_round(r: State, gradients: np.ndarray, least: float, o: Options) -> None:
    r.kept["G"] = r.kept["G"] + (gradients**2).sum(axis=0)
    h = np.maximum(np.sqrt(r.kept["G"]) / r.rate, least)
    n = len(gradients)
    r.phi = replace(r, l1=n * r.l1, l2=n * r.l2, group=n * r.group).prox(r.phi - gradients.sum(axis=0) / h, h)


def fobos_round(r: State, gradients: np.ndarray, least: float, o: Options, samples: int) -> None:
    """Called for every row in every round; ``gradients`` come from the samples that touch it, if any."""
    if not len(gradients):
        for _ in range(samples):
            r.phi = r.prox(r.phi, np.sqrt(r.kept["G"]) / r.rate)
        return
    r.kept["G"] = r.kept["G"] + (gradients**2).sum(axis=0)
    h = np.maximum(np.sqrt(r.kept["G"]) / r.rate, least)
    all_steps = replace(r, l1=samples * r.l1, l2=samples * r.l2, group=samples * r.group)
    r.phi = all_steps.prox(r.phi - gradients.sum(axis=0) / h, h)


def ftrl_round(r: State, gradients: np.ndarray, least: float, o: Options) -> None:
    n = r.kept["n"] + (gradients**2).sum(axis=0)
    before, h = ftrl_h(r, r.kept["n"], o), ftrl_h(r, n, o)
    z = r.kept["z"] + gradients.sum(axis=0) * h / np.maximum(h, least) - (h - before) * r.phi
    r.kept |= {"z": z, "n": n}
    visit(r, o)


# Steps for the gradients (samples, parameters) of the samples of a round that touch a row.
ROUND_UPDATES: dict[str, Callable[[State, np.ndarray, float, Options], None]] = {
    "adagrad": adagrad_round,
    "ftrl": ftrl_round,
}

UPDATES: dict[str, Callable[[State, np.ndarray, int, Options], None]] = {
    "sgd": sgd,
    "adagrad": adagrad,
    "fobos": fobos,
    "ftrl": ftrl,
}
# The state arrays of each solver and their start values, as functions of a row and the options. fobos has state only
# with adaptive steps: adagrad's.
STATE: dict[str, dict[str, Callable[[State, Options], np.ndarray | float]]] = {
    "adagrad": {"G": lambda r, o: 1.0},
    "ftrl": {"z": lambda r, o: -r.phi * (ftrl_h(r, 0.0, o) + r.l2), "n": lambda r, o: 0.0},
}
# Options for learning the planted data, for the solvers that need other steps than the usual small ones.
LEARNING: dict[str, dict[str, Any]] = {
    "adagrad": {"learning_rate": 0.1},
    "ftrl": {"alpha": 0.2},
    "fobos": {"learning_rate": 0.1, "adaptive": True},
}


def nearest_in_simplex(u: np.ndarray) -> np.ndarray:
    """Project u onto the probability simplex: max(u − τ, 0), τ = max over n of (sum of the n largest entries − 1)/n."""
    largest = np.sort(u)[::-1]
    tau = max((largest[:n].sum() - 1) / n for n in range(1, len(u) + 1))
    v: np.ndarray = np.maximum(u - tau, 0)
    return v


def constrain(r: State) -> None:
    """Project a row of θ onto the simplex, as after every write to it."""
    if r.where[0][0] in SIMPLEX:
        r.phi = nearest_in_simplex(r.phi)


# ---- A run. ----


def start(params: Params, row: Row, solver: str, o: Options) -> State:
    """Return the state of a row before the first update."""
    phi = gather(params, row)
    l1, l2, group = strengths(params, row, o)
    rate = by_part(params, row, o.learning_rate, o.learning_rate_w, o.learning_rate_v)
    alpha = by_part(params, row, o.alpha, o.alpha_w, o.alpha_v)
    r = State(row, phi, l1, l2, group, o.group_kind, rate, alpha, np.ones(len(phi), dtype=bool))
    for name, begin in STATE.get("adagrad" if solver == "fobos" and o.adaptive else solver, {}).items():
        r.kept[name] = begin(r, o) * np.ones(len(phi))
    return r


def update(solver: str, r: State, g: np.ndarray, t: int, o: Options) -> None:
    """Update the touched parameters of a row; the state of the others is unchanged."""
    before = r.kept.copy()
    UPDATES[solver](r, g, t, o)
    r.kept = {name: np.where(r.touched, now, before[name]) for name, now in r.kept.items()}


def by_part(params: Params, row: Row, whole: float, w: float | None, v: float | None) -> np.ndarray:
    """Return one step size for each parameter of a row.

    It is ``whole`` for structural arrays, ``w`` for linear weights and ``v`` for all others; ``whole`` also replaces
    ``w`` or ``v`` if that is None.
    """
    parts = {"w": w, **dict.fromkeys(STRUCTURAL)}
    steps = [(parts.get(name, v), np.size(params[name][at])) for name, at in row]
    return np.concatenate([np.full(size, whole if step is None else step) for step, size in steps])


def penalize(params: Params, r: State, o: Options, factors: bool) -> None:
    """Set λ1 and λ_g of a row. If ``factors`` is false, set only strengths that act on linear weights."""
    r.l1, _, r.group = strengths(params, r.where, o)
    if not factors:
        linear = np.concatenate([np.full(np.size(params[name][at]), name in ("w", "W")) for name, at in r.where])
        r.l1 = np.where(linear, r.l1, 0.0)
        r.group = r.group if linear.all() else 0.0


def run(
    kind: str,
    loss: str | Loss,
    solver: str,
    params: Params,
    samples: Sequence[Sample],
    labels: Sequence[float],
    order_per_epoch: Sequence[Sequence[int]],
    options: Options,
    weights: Sequence[float] | None = None,
    after_update: Callable[[int, Params], None] | None = None,
    after_epoch: Callable[[int, Params], None] | None = None,
    partners_per_epoch: Sequence[Sequence[int]] | None = None,
) -> tuple[Params, list[float]]:
    """Train from ``params``, which is not changed. Return the parameters and the progressive loss of each epoch.

    ``order_per_epoch`` holds, for each epoch, the sample numbers in the order of training. ``after_update`` is called
    with t and the parameters after every update, ``after_epoch`` with the epoch and the parameters at its end. With
    ``partners_per_epoch``, the number of a partner for each sample, the loss is of the score of the one with the larger
    label minus the score of the other one.
    """
    o = options
    value = LOSSES[loss] if isinstance(loss, str) else loss
    params = {name: np.array(array, dtype=float) for name, array in params.items()}
    s = np.ones(len(samples)) if weights is None else np.asarray(weights, dtype=float)
    scale = s if solver == "ftrl" else s / s[s > 0].mean()
    states = [start(params, row, solver, o) for row in rows(kind, params, o.model)]
    begins = (2 if solver == "ftrl" else 1) if o.l1_from_epoch is None else o.l1_from_epoch
    for r in states:
        penalize(params, r, o, factors=begins <= 1)

    t = 0
    losses = []
    for epoch, order in enumerate(order_per_epoch, start=1):
        kept = [i for i in order if s[i] > 0]
        total = 0.0
        for round in np.split(kept, o.round_ends[:-1]) if o.round_ends else ():
            t += 1
            total += round_step(kind, value, solver, params, states, samples, labels, round, s, scale, o)
            if after_update is not None:
                after_update(t, params)
        for first in range(0, 0 if o.round_ends else len(kept), o.batch_size):
            batch = kept[first : first + o.batch_size]
            t += 1
            # g is the mean of the batch's gradients, all at the parameters before the batch; mask marks the parameters
            # that any sample of the batch touches.
            g = {name: np.zeros_like(array) for name, array in params.items()}
            mask = {name: np.zeros(array.shape, dtype=bool) for name, array in params.items()}
            for i in batch:
                members = [(i, 1)]
                if partners_per_epoch is not None:
                    partner = partners_per_epoch[epoch - 1][i]
                    larger = 1 if labels[i] >= labels[partner] else -1
                    members = [(i, larger), (partner, -larger)]
                scores = sum(sign * score(kind, params, samples[n], o.model) for n, sign in members)
                total += s[i] * np.real(value(labels[i], scores))
                slope = slopes(value, labels[i], scores)
                for n, sign in members:
                    for c in range(classes(params)):
                        for name, derivative in gradient(kind, params, samples[n], c, o.model).items():
                            g[name] += scale[i] * sign * slope[c] * derivative / len(batch)
                    for name, part in touched(kind, params, samples[n], o.model).items():
                        mask[name] |= part
            for r in states:
                if r.where[0][0] == "anchors":
                    scheduled = solver == "sgd" or (solver == "fobos" and not o.adaptive)
                    move_anchor(r, gather(g, r.where), t, o, scheduled)
                    scatter(params, r)
                elif solver == "fobos" or any(mask[name][at].any() for name, at in r.where):
                    r.touched = gather(mask, r.where) | (solver == "fobos")
                    update(solver, r, gather(g, r.where), t, o)
                    constrain(r)
                    r.seen = True
                    scatter(params, r)
            if after_update is not None:
                after_update(t, params)
        if epoch == begins - 1:
            for r in states:
                penalize(params, r, o, factors=True)
                if r.seen and solver == "ftrl":
                    r.touched[...] = True
                    visit(r, o)
                    constrain(r)
                    scatter(params, r)
        losses.append(float(total / s[kept].sum()))
        if after_epoch is not None:
            after_epoch(epoch, params)
    return params, losses


def round_step(
    kind: str,
    value: Loss,
    solver: str,
    params: Params,
    states: Sequence[State],
    samples: Sequence[Sample],
    labels: Sequence[float],
    round: Sequence[int],
    s: np.ndarray,
    scale: np.ndarray,
    o: Options,
) -> float:
    """Make one step of each row by the gradients of a round's samples, and return the sum of their weighted losses.

    All gradients are computed at the parameters before the round.
    """
    total = 0.0
    # The gradients of each row, and their effects on the slopes of all samples.
    found: list[list[np.ndarray]] = [[] for _ in states]
    effects: list[list[float]] = [[] for _ in states]
    for i in round:
        scores = score(kind, params, samples[i], o.model)
        total += s[i] * np.real(value(labels[i], scores))
        slope = slopes(value, labels[i], scores)
        parts = [gradient(kind, params, samples[i], c, o.model) for c in range(classes(params))]
        mask = touched(kind, params, samples[i], o.model)
        for number, r in enumerate(states):
            if gather(mask, r.where).any():
                found[number].append(scale[i] * sum(slope[c] * gather(part, r.where) for c, part in enumerate(parts)))
                name, at = r.where[0]
                x = samples[i][at[1]] if per_feature(name) else 1.0
                effects[number].append(scale[i] * abs(x) * (1 + sum(map(abs, samples[i].values()))))
    for r, gradients, each in zip(states, found, effects, strict=True):
        if gradients or solver == "fobos":
            least = o.curvature * sum(each) * (len(each) - 1) / max(len(each), 1)
            if solver == "fobos":
                fobos_round(r, np.array(gradients), least, o, len(round))
            else:
                ROUND_UPDATES[solver](r, np.array(gradients), least, o)
            constrain(r)
            r.seen = True
            scatter(params, r)
    return total


def scatter(params: Params, r: State) -> None:
    """Write the values of a row back to the arrays."""
    first = 0
    for name, at in r.where:
        size = np.size(params[name][at])
        params[name][at] = r.phi[first : first + size].reshape(np.shape(params[name][at]))
        first += size
