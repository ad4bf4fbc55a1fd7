"""The formulas of coordinate descent, row by row in float64, with derivatives from the slow definitions."""

import numpy as np

from reference.kinds import Choices, Params, Sample
from reference.slow_losses import LOSSES, SMOOTHNESS, slopes
from reference.slow_models import (
    NONE,
    Penalty,
    Row,
    classes,
    derivatives,
    gather,
    one_class,
    score,
    strengths,
    support,
    touched,
)
from reference.slow_penalties import GROUPS
from reference.slow_solvers import nearest_in_simplex, prox

SLICE, SWEEPS, HALVINGS, LANES = 16, 5, 30, 4


class Problem:
    """A training problem: a kind with its options, data with weights that sum to 1, a loss and a penalty."""

    def __init__(
        self,
        kind: str,
        layouts,
        rows: list[Sample],
        labels,
        share,
        loss: str,
        penalty: Penalty,
        choices: Choices = NONE,
    ) -> None:
        self.kind, self.layouts, self.rows, self.labels, self.share = kind, layouts, rows, labels, share
        self.loss, self.penalty, self.choices = loss, penalty, choices

    def mean_loss(self, params: Params) -> float:
        scores = [score(self.kind, params, x, self.choices) for x in self.rows]
        return sum(s * LOSSES[self.loss](y, f) for s, y, f in zip(self.share, self.labels, scores, strict=True))

    def derivatives(self, params: Params, c: int, row: Row) -> np.ndarray:
        """Derivatives of the scores by the parameters of a row, by complex step. Shape (samples, row length)."""
        masks = {name: np.zeros(array.shape, dtype=bool) for name, array in params.items()}
        for name, at in row:
            masks[name][at] = True
        mine, masks = one_class(params, c), one_class(masks, c)
        of_rows = (derivatives(self.kind, mine, support(params, x), self.choices, masks) for x in self.rows)
        return np.array([np.concatenate([np.ravel(found[name][at[1:]]) for name, at in row]) for found in of_rows])

    def bends(self, params: Params, c: int, row: Row) -> np.ndarray:
        """Second derivatives of the scores by each parameter of a row. Shape (samples, row length).

        In pn: beta m (m - 1) z^(m-2) x^2.
        """
        found = []
        order = self.choices["order"]
        for name, at in row:
            if name not in ("P", "gamma"):
                found.append(np.zeros((len(self.rows), np.size(params[name][at]))))
                continue
            x = np.array([x.get(at[1], 0.0) if name == "P" else 1.0 for x in self.rows])
            z = np.array([params["gamma"][c] + sum(params["P"][c, j] * v for j, v in x.items()) for x in self.rows])
            found.append(params["beta"][c] * order * (order - 1) * z ** (order - 2) * x[:, None] ** 2)
        return np.hstack(found)


def in_order(layout, features: int, c: int, biased: bool) -> list[Row]:
    """Return the rows of a block in one class in the order of updates; the row of kernel weights includes the bias."""
    if layout.penalty == "l2" and biased:
        return [[*((name, (c,)) for name in layout.names), ("bias", (c,))]]
    if not layout.axes:
        return [[(name, (c,)) for name in layout.names]]
    sizes = [features if axis == "features" else axis for axis in layout.axes]
    places = list(np.ndindex(*sizes))
    if len(sizes) == 2:  # features have several rows, which follow each other
        feature = layout.axes.index("features")
        places.sort(key=lambda place: (place[feature], place[1 - feature]))
    return [[(name, (c, *place)) for name in layout.names] for place in places]


def slices(layout, size: int, whole: bool) -> list[list[int]]:
    """Return the groups of positions within a row that are updated together."""
    if whole:
        return [list(range(size))]
    found, first = [], 0
    lanes = 0
    for columns in layout.vectors:
        for at in range(columns):
            begins = lanes % SLICE == 0 or (at == 0 and layout.affine == "vector")
            if begins:
                found.append([])
                lanes = 0
            found[-1].append(first + at)
            lanes += 1
        first += columns
        lanes += -columns % LANES
    if layout.weight or first < size:
        if not found:
            found.append([])
        found[-1].append(size - 1)
    return found


def epoch(problem: Problem, params: Params, features: int) -> Params:
    """Update every row once; fitted kernel weights come first."""
    params = {name: array.copy() for name, array in params.items()}
    for c in range(classes(params)):
        for layout in sorted(problem.layouts, key=lambda layout: layout.penalty != "l2"):
            if not layout.trained:
                continue
            for row in in_order(layout, features, c, "bias" in params):
                visit(problem, params, c, layout, row)
    return params


def visit(problem: Problem, params: Params, c: int, layout, row: Row) -> None:
    """Minimize over one row in place, slice by slice."""
    l1, l2, group = strengths(params, row, problem.penalty)
    simplex = layout.constraint == "simplex"
    whole = group > 0 or simplex
    masks = (touched(problem.kind, params, x, problem.choices) for x in problem.rows)
    if not any(gather(mask, row).any() for mask in masks):
        return  # no sample depends on the row
    for places in slices(layout, len(l1), whole):
        q = problem.derivatives(params, c, row)[:, places]
        scores = [score(problem.kind, params, x, problem.choices) for x in problem.rows]
        g = problem.share * [slopes(LOSSES[problem.loss], y, f)[c] for y, f in zip(problem.labels, scores, strict=True)]
        sure = layout.affine == "row" or (layout.affine == "vector" and not whole)
        kappa = np.array([SMOOTHNESS[problem.loss] if sure else curvature(problem.loss, f[c]) for f in scores])
        r, G = g @ q, (q.T * problem.share * kappa) @ q
        phi = gather(params, row)
        if layout.affine == "one" and not whole:
            G += np.diag(np.maximum(0, g @ problem.bends(params, c, row)[:, places]))
        follows = row[-1][0] == "bias" and places[-1] == len(l1) - 1 > 0
        step = with_bias if follows else sweeps
        before = objective(problem, params, phi, l1, l2, group)
        old = {name: array.copy() for name, array in params.items()}
        for tries in range(HALVINGS + 1):
            new = phi.copy()
            if whole:
                h = np.trace(G) * 2**tries
                new = prox(phi - r / h, h, l1, l2, group, kind=problem.penalty.group_kind)
                new = nearest_in_simplex(new) if simplex else new
            else:
                new[places] += step(phi[places], r, G, l1[places], l2[places]) / 2**tries
            put(params, row, new)
            if sure or objective(problem, params, new, l1, l2, group) <= before:
                break
        else:
            params.update(old)


def curvature(loss: str, score: float) -> float:
    """Return the second derivative of a loss, or a bound on it, where steps are shortened until the objective falls."""
    if loss in ("logistic", "soft-logistic"):
        return 1 / (2 + 2 * np.cosh(score))
    return SMOOTHNESS[loss]


def objective(problem: Problem, params: Params, row: np.ndarray, l1, l2, group: float) -> float:
    """Return the part of the objective that depends on one row: the mean loss and the penalty of the row."""
    penalty = np.sum(l1 * abs(row) + l2 / 2 * row**2) + group * GROUPS[problem.penalty.group_kind].value(row)
    return problem.mean_loss(params) + penalty


def sweeps(phi, r, G, l1, l2) -> np.ndarray:
    """Return the step s that minimizes <r, s> + s'Gs/2 plus the penalty, by SWEEPS sweeps over f."""
    new = phi.copy()
    for _ in range(SWEEPS):
        for f in range(len(phi)):
            curvature = G[f, f] + l2[f]
            if curvature == 0:
                new[f] = 0 if l1[f] > 0 else new[f]
                continue
            u = new[f] - (r[f] + G[f] @ (new - phi) + l2[f] * new[f]) / curvature
            new[f] = np.sign(u) * max(abs(u) - l1[f] / curvature, 0)
    return new - phi


def with_bias(phi, r, G, l1, l2) -> np.ndarray:
    """Like sweeps, but the last coordinate, which has no penalty, is always at its optimum given the others."""
    g = G[:-1, -1]
    step = sweeps(phi[:-1], r[:-1] - g * r[-1] / G[-1, -1], G[:-1, :-1] - np.outer(g, g) / G[-1, -1], l1[:-1], l2[:-1])
    return np.append(step, -(r[-1] + g @ step) / G[-1, -1])


def put(params: Params, row: Row, numbers: np.ndarray) -> None:
    first = 0
    for name, at in row:
        size = np.size(params[name][at])
        params[name][at] = numbers[first : first + size].reshape(np.shape(params[name][at]))
        first += size


def naive_als(params: Params, x: np.ndarray, y: np.ndarray, share: np.ndarray, l2_w: float, l2_v: float) -> Params:
    """Run one epoch of ALS on a factorization machine with the squared loss.

    Each parameter is updated alone, and all scores are recomputed after each update:
    phi <- phi - (sum of s e q + l2 phi) / (sum of s q^2 + l2). The order is first the bias, then the factors and the
    weight of each feature, SWEEPS times.
    """
    params = {name: array.copy() for name, array in params.items()}
    bias, w, V = params["bias"], params["w"], params["V"]

    def residuals() -> np.ndarray:
        pairs = ((x @ V[0]) ** 2 - x**2 @ V[0] ** 2).sum(axis=1) / 2
        return bias[0] + x @ w[0] + pairs - y

    def minimize(array, at, q, l2) -> None:
        curvature = share @ q**2 + l2
        if curvature > 0:
            array[at] -= (share @ (residuals() * q) + l2 * array[at]) / curvature

    minimize(bias, 0, np.ones(len(y)), 0.0)
    for j in range(x.shape[1]):
        for _ in range(SWEEPS):
            for f in range(V.shape[2]):
                minimize(V, (0, j, f), x[:, j] * (x @ V[0, :, f] - x[:, j] * V[0, j, f]), l2_v)
            minimize(w, (0, j), x[:, j], l2_w)
    return params
