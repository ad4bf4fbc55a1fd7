"""The models as their definitions: sums over combinations of features, and derivatives by complex step.

``params`` is a dict of arrays under the names and shapes of ``fmcli export``, the leading axis C (outputs) always
there but for anchors: bias (C), w (C, d), V (C, d, k), v0 (C, k), beta (C, k), gamma (C, m - 1, k). An array that is
missing contributes nothing; without beta every kernel counts once. A sample x is a dict {index: value}.

A model is one function of one class's arrays, a sample and the kind's options, named in ``KINDS``.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import combinations, product
from math import prod
from typing import Any

import numpy as np

Params = dict[str, np.ndarray]
Sample = dict[int, float]
Mask = dict[str, np.ndarray]
Choices = Mapping[str, Any]  # the kind's options by keyword, such as order; and what it has from its data
Number = Any  # float, or complex while a derivative is taken

NONE: Choices = {}
COMPLEX_STEP = 1e-100  # no difference is taken, so the step may be so small that its square is 0


# ---- Definitions. Here p holds the arrays of one class, and x the support of the sample. ----


def affine(p: Params, x: Sample) -> Number:
    """b + <w, x>."""
    score = p.get("bias", 0.0)
    if "w" in p:
        score = score + sum(p["w"][j] * x[j] for j in x)
    return score


def elementary(order: int, terms: list[Number]) -> Number:
    """The sum over all choices of ``order`` terms of their product: A^m where the terms are p_j x_j."""
    return sum(prod(chosen) for chosen in combinations(terms, order))


def linear(p: Params, x: Sample, o: Choices) -> Number:
    """b + <w, x>."""
    return affine(p, x)


def fm(p: Params, x: Sample, o: Choices) -> Number:
    """b + <w, x> + sum over pairs i < j of <v_i, v_j> x_i x_j."""
    return affine(p, x) + sum(np.sum(p["V"][i] * p["V"][j]) * x[i] * x[j] for i, j in combinations(x, 2))


def anova(p: Params, x: Sample, o: Choices) -> Number:
    """b + <w, x> + sum_f beta_f A^m([gamma_f, V_f], [1, x])."""
    score = affine(p, x)
    for f in range(p["V"].shape[1]):
        constants = [gamma[f] for gamma in p.get("gamma", ())]
        kernel = elementary(o.get("order", 2), constants + [p["V"][j, f] * x[j] for j in x])
        score = score + (p["beta"][f] * kernel if "beta" in p else kernel)
    return score


def shfm(p: Params, x: Sample, o: Choices) -> Number:
    """b + sum_f beta_f A^2([v0_f, V_f], [1, x]); no w. With beta this is sha2."""
    score = affine(p, x)
    for f in range(p["V"].shape[1]):
        kernel = elementary(2, [p["v0"][f]] + [p["V"][j, f] * x[j] for j in x])
        score = score + (p["beta"][f] * kernel if "beta" in p else kernel)
    return score


def llfm(p: Params, x: Sample, o: Choices) -> Number:
    """sum over anchors of π_i f_i(x), f_i an FM of its own."""
    return sum(share * fm({name: p[name][i] for name in p if name != "anchors"}, x, o) for i, share in coding(p, x, o))


def coding(p: Params, x: Sample, o: Choices) -> list[tuple[int, Number]]:
    """The active anchors and their shares π_i; ties go to the lower index."""
    anchors = p["anchors"]
    distance = [sum((z[j] - x.get(j, 0.0)) ** 2 for j in range(len(z))) for z in anchors]
    nearest = sorted(range(len(anchors)), key=lambda i: (distance[i].real, i))
    if o.get("llfm_variant", "jo") != "jo":
        nearest = nearest[: o.get("neighbours", 5)]
        weight = [np.exp(-o.get("coding_c", 1.0) * distance[i]) for i in nearest]
        return [(i, one / sum(weight)) for i, one in zip(nearest, weight, strict=True)]
    u = [o.get("lc", 0.4) * (distance[i] - distance[nearest[0]]) for i in nearest]
    n, level = 0, complex(np.inf)
    while n < len(u) and level.real > u[n].real:
        n += 1
        root = n + sum(u[:n]) ** 2 - n * sum(one**2 for one in u[:n])
        level = (sum(u[:n]) + root**0.5) / n
    total = sum(level - one for one in u[:n])
    return [(i, (level - one) / total) for i, one in zip(nearest[:n], u[:n], strict=True)]


def stub(p: Params, x: Sample, o: Choices) -> Number:
    """b + <w, x> + sum_t theta_t <P_t, x>, the model that only tests meet."""
    return affine(p, x) + sum(p["theta"][t] * p["P"][j, t] * x[j] for j in x for t in range(p["P"].shape[1]))


KINDS: dict[str, Callable[[Params, Sample, Choices], Number]] = {
    "linear": linear,
    "fm": fm,
    "anova": anova,
    "shfm": shfm,
    "sha2": shfm,
    "sglfm": fm,
    "glfm": fm,
    "l1fm": fm,
    "llfm": llfm,
    "stub": stub,
}

# ---- Scores, derivatives and what a sample touches. ----

# Arrays whose second axis is the feature; all others are global.
BY_FEATURE = ("w", "V", "P", "P2", "P3", "P4", "P5", "U", "U1", "U2", "U3", "U4")

STRUCTURAL = ("bias", "theta", "anchors")  # no penalty ever touches these
SHARED = ("anchors",)  # by all classes: there is no axis of classes


def features(params: Params) -> int:
    if "anchors" in params:
        return params["anchors"].shape[1]
    return max((params[name].shape[1] for name in BY_FEATURE if name in params), default=0)


def support(params: Params, x: Sample) -> Sample:
    """The entries of x that are not 0 and whose feature the model knows."""
    return {j: value for j, value in x.items() if value != 0 and j < features(params)}


def one_class(params: Params, c: int) -> Params:
    return {name: array if name in SHARED else array[c] for name, array in params.items()}


def classes(params: Params) -> int:
    return len(next(iter(params.values())))


def score(kind: str, params: Params, x: Sample, choices: Choices = NONE) -> np.ndarray:
    """The C scores of a sample."""
    x = support(params, x)
    return np.array([KINDS[kind](one_class(params, c), x, choices) for c in range(classes(params))])


def touched(kind: str, params: Params, x: Sample, choices: Choices = NONE) -> Mask:
    """Which parameters enter the sample's score: its features' rows, and every global parameter; of llfm what the
    active anchors have of these, and the anchors where they are learned."""
    if kind == "llfm":
        return touched_around_anchors(params, x, choices)
    masks = {name: np.full(array.shape, name not in BY_FEATURE) for name, array in params.items()}
    for name in BY_FEATURE:
        if name in masks:
            masks[name][:, list(support(params, x))] = True
    return masks


def touched_around_anchors(params: Params, x: Sample, o: Choices) -> Mask:
    masks = {name: np.zeros(array.shape, dtype=bool) for name, array in params.items()}
    entries = support(params, x)
    for i, _ in coding(params, entries, o):
        masks["anchors"][i] = o.get("llfm_variant", "jo") != "do"
        if "bias" in masks:
            masks["bias"][:, i] = True
        for name in {"w", "V"} & masks.keys():
            masks[name][:, i, list(entries)] = True
    return masks


def gradient(kind: str, params: Params, x: Sample, c: int, choices: Choices = NONE) -> Params:
    """d score_c / d parameter, for every parameter, by complex step: Im f(p + ih) / h, exact to rounding."""
    x = support(params, x)
    stepped = {name: array.astype(complex) for name, array in params.items()}
    derivative = {name: np.zeros(array.shape) for name, array in params.items()}
    for name, mask in touched(kind, params, x, choices).items():
        for at in map(tuple, np.argwhere(mask)):
            if name in SHARED or at[0] == c:
                stepped[name][at] += COMPLEX_STEP * 1j
                derivative[name][at] = KINDS[kind](one_class(stepped, c), x, choices).imag / COMPLEX_STEP
                stepped[name][at] = params[name][at]
    return derivative


# ---- Rows (the groups of the penalty) and the penalty's value. ----


@dataclass(frozen=True)
class Penalty:
    """λ1 and λ2 by part ("w": linear weights, "v": all else that is penalised), and λ_g."""

    l1_w: float = 0.0
    l1_v: float = 0.0
    l2_w: float = 0.0
    l2_v: float = 0.0
    group_l1: float = 0.0


Row = list[tuple[str, tuple[int, ...]]]  # where its pieces stand: (name, the index of a number or vector in that array)


def rows(params: Params) -> list[Row]:
    """All parameters, row by row: what one feature owns in one class, of llfm with one anchor; v0 and each gamma_t;
    beta, theta; the bias; each anchor."""
    owners = [name for name in BY_FEATURE if name in params]
    anchors = range(len(params.get("anchors", ())))
    found: list[Row] = [[("anchors", (i,))] for i in anchors]
    for c in range(classes(params)):
        places = product(anchors, range(features(params))) if anchors else zip(range(features(params)))
        found += [[(name, (c, *place)) for name in owners] for place in places]
        found += [[(name, (c,))] for name in ("v0", "beta", "bias", "theta") if name in params]
        found += [[("gamma", (c, t))] for t in range(params["gamma"].shape[1] if "gamma" in params else 0)]
    return found


def gather(arrays: Params, row: Row) -> np.ndarray:
    """A row's numbers as one vector."""
    return np.concatenate([np.atleast_1d(arrays[name][at]) for name, at in row])


def strengths(params: Params, row: Row, penalty: Penalty) -> tuple[np.ndarray, np.ndarray, float]:
    """λ1 and λ2 of each of a row's numbers, and the row's λ_g."""
    by_part = {"w": (penalty.l1_w, penalty.l2_w), "beta": (0.0, penalty.l2_v), **dict.fromkeys(STRUCTURAL, (0.0, 0.0))}
    pairs = [(by_part.get(name, (penalty.l1_v, penalty.l2_v)), np.size(params[name][at])) for name, at in row]
    l1 = np.concatenate([np.full(size, strength[0]) for strength, size in pairs])
    l2 = np.concatenate([np.full(size, strength[1]) for strength, size in pairs])
    return l1, l2, 0.0 if row[0][0] in ("beta", *STRUCTURAL) else penalty.group_l1


def penalty_value(params: Params, penalty: Penalty) -> float:
    """R: the sum of λ1|φ| + (λ2/2)φ² over all parameters, and of λ_g ‖row‖ over all rows."""
    total = 0.0
    for row in rows(params):
        phi = gather(params, row)
        l1, l2, group = strengths(params, row, penalty)
        total += np.sum(l1 * np.abs(phi) + l2 / 2 * phi**2) + group * np.linalg.norm(phi)
    return float(total)
