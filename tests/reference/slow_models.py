"""The models as their definitions: sums over combinations of features, and derivatives by complex step.

``params`` is a dict of arrays under the names and shapes of ``fmcli export``, the leading axis C (outputs) always
there but for anchors (n, d): bias (C), w (C, d), V, P, P2 .., U1 .. (C, d, k), v0 (C, k), beta (C, k), theta (C, m),
gamma (C, m - 1, k), or for pn (C, k), lifted-pn (C, m, k), lifted-anova (C, m - 1, m, k); W (C, entries); for ffm V is
(C, d, F, k), and UV (C, d, k) holds bilinear's u or v of each feature; llfm's bias, w and V
have an axis of anchors behind that of classes. An array that is missing contributes nothing; without beta every kernel
counts once. A sample x is a dict {index: value}, or {(index, field): value}.

A model is one function of one class's arrays, a sample and the kind's options, named in ``KINDS``.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import combinations, permutations, product
from math import factorial, inf
from typing import Any

import numpy as np

Params = dict[str, np.ndarray]
Key = Any  # of a coordinate: its index, or (index, field)
Sample = dict[Key, float]
Mask = dict[str, np.ndarray]
Choices = Mapping[str, Any]  # the kind's options by keyword, such as order; and what it has from its data
Number = Any  # float, or complex while a derivative is taken

NONE: Choices = {}
COMPLEX_STEP = 1e-100  # no difference is taken, so the step may be so small that its square is 0


# ---- Definitions. Here p holds the arrays of one class, and x the support of the sample. ----


def column(key: Key) -> int:
    """The index of a coordinate."""
    index: int = key[0] if isinstance(key, tuple) else key
    return index


def affine(p: Params, x: Sample) -> Number:
    """b + <w, x>."""
    score = p.get("bias", 0.0)
    if "w" in p:
        score = score + sum(p["w"][column(key)] * x[key] for key in x)
    return score


@cache
def all_choices(number: int, order: int) -> np.ndarray:
    """All choices of ``order`` of so many things, a row each."""
    chosen = list(combinations(range(number), order))
    return np.array(chosen, dtype=int).reshape(len(chosen), order)


def elementary(order: int, terms: np.ndarray) -> np.ndarray:
    """For each column (k) the sum over all choices of ``order`` terms of their product: A^m where they are p_j x_j."""
    total: np.ndarray = terms[all_choices(len(terms), order)].prod(axis=1).sum(axis=0)
    return total


def terms(p: Params, name: str, x: Sample, constants: str = "") -> np.ndarray:
    """p_j x_j for each entry of the sample, behind the rows of features that are 1 in all, where there are any."""
    entries = p[name][np.array(list(x), dtype=int)] * np.array(list(x.values()))[:, None]
    return np.concatenate([np.atleast_2d(p[constants]), entries]) if constants in p else entries


def linear(p: Params, x: Sample, o: Choices) -> Number:
    """b + <w, x>."""
    return affine(p, x)


def fm(p: Params, x: Sample, o: Choices) -> Number:
    """b + <w, x> + sum over pairs i < j of <v_i, v_j> x_i x_j."""
    return affine(p, x) + sum(np.sum(p["V"][i] * p["V"][j]) * x[i] * x[j] for i, j in combinations(x, 2))


def anova(p: Params, x: Sample, o: Choices) -> Number:
    """b + <w, x> + sum_f beta_f A^m([gamma_f, V_f], [1, x])."""
    return affine(p, x) + np.sum(p.get("beta", 1.0) * elementary(o.get("order", 2), terms(p, "V", x, "gamma")))


def shfm(p: Params, x: Sample, o: Choices) -> Number:
    """b + sum_f beta_f A^2([v0_f, V_f], [1, x]); no w. With beta this is sha2."""
    return affine(p, x) + np.sum(p.get("beta", 1.0) * elementary(2, terms(p, "V", x, "v0")))


def hofm(p: Params, x: Sample, o: Choices) -> Number:
    """b + <w, x> + sum_{t=2..m} sum_s A^t(p^(t)_s, x)."""
    degrees = sorted(int(name[1:]) for name in p if name[0] == "P")
    return affine(p, x) + sum(np.sum(elementary(t, terms(p, f"P{t}", x))) for t in degrees)


def hofm_shared(p: Params, x: Sample, o: Choices) -> Number:
    """b + sum_s A^m([gamma_1s .. gamma_{m-1,s}, p_s], [1 .. 1, x])."""
    return affine(p, x) + np.sum(elementary(len(p["gamma"]) + 1, terms(p, "P", x, "gamma")))


def hofm_simplex(p: Params, x: Sample, o: Choices) -> Number:
    """b + sum_s sum_{t=1..m} theta_t A^t(p_s, x)."""
    degrees = enumerate(p["theta"], start=1)
    return affine(p, x) + sum(theta * np.sum(elementary(t, terms(p, "P", x))) for t, theta in degrees)


def all_subsets(p: Params, x: Sample, o: Choices) -> Number:
    """b + sum_s prod_j (1 + p_js x_j)."""
    return affine(p, x) + np.sum((1 + terms(p, "P", x)).prod(axis=0))


def pn(p: Params, x: Sample, o: Choices) -> Number:
    """b + <w, x> + sum_s beta_s (gamma_s + <p_s, x>)^m."""
    inner = p.get("gamma", 0.0) + terms(p, "P", x).sum(axis=0)
    return affine(p, x) + np.sum(p.get("beta", 1.0) * inner ** o.get("order", 2))


def lifted_pn(p: Params, x: Sample, o: Choices) -> Number:
    """b + <w, x> + sum_s prod_t (gamma^t_s + <u^t_s, x>)."""
    inner = [terms(p, u, x).sum(axis=0) for u in vectors(p)]
    return affine(p, x) + np.sum(np.prod(inner + p["gamma"] if "gamma" in p else inner, axis=0))


def lifted_anova(p: Params, x: Sample, o: Choices) -> Number:
    """b + <w, x> + 1/m! sum_s over ordered tuples of distinct entries of prod_t u^t_s x of the t-th; gamma's rows are
    entries, too."""
    entries = [terms(p, u, x) for u in vectors(p)]
    if "gamma" in p:
        entries = [np.concatenate([p["gamma"][:, t], of_sample]) for t, of_sample in enumerate(entries)]
    tuples = all_tuples(len(entries[0]), len(entries))
    return affine(p, x) + np.sum(np.prod([of[tuples[:, t]] for t, of in enumerate(entries)], axis=0)) / factorial(
        len(entries)
    )


@cache
def all_tuples(number: int, order: int) -> np.ndarray:
    """All ordered choices of ``order`` of so many things, a row each."""
    return np.array(list(permutations(range(number), order)), dtype=int).reshape(-1, order)


def vectors(p: Params) -> list[str]:
    """U1 .. Um, by their names."""
    return sorted(name for name in p if name[0] == "U" and name != "U")


def splitmix64(z: int) -> int:
    """The hash of that name, on whole numbers of any size."""
    z = (z + 0x9E3779B97F4A7C15) % 2**64
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
    return z ^ (z >> 31)


def entry(i: int, j: int, entries: int, o: Choices) -> int:
    """The entry of pair i < j in the table W, which is exact where it does not have all the entries of a hash."""
    bits = o.get("pair_bits", 22)
    return splitmix64(i * 2**32 + j) >> (64 - bits) if entries == 2**bits else j * (j - 1) // 2 + i


def poly2(p: Params, x: Sample, o: Choices) -> Number:
    """b + <w, x> + sum over pairs i < j of W_ij x_i x_j."""
    pairs = combinations(sorted(x), 2)
    return affine(p, x) + sum(p["W"][entry(i, j, len(p["W"]), o)] * x[i] * x[j] for i, j in pairs)


def bilinear(p: Params, x: Sample, o: Choices) -> Number:
    """b + <w, x> + sum over i of group 0 and j of group 1 of <u_i, v_j> x_i x_j."""
    sides = [[key for key in x if o["group"][column(key)] == side] for side in (0, 1)]
    uv = p["UV"]
    return affine(p, x) + sum(np.sum(uv[column(i)] * uv[column(j)]) * x[i] * x[j] for i in sides[0] for j in sides[1])


def ffm(p: Params, x: Sample, o: Choices) -> Number:
    """b + <w, x> + sum over pairs of <v_{i,field(j)}, v_{j,field(i)}> x_i x_j, of fields that the model has."""
    known = [key for key in x if key[1] < p["V"].shape[1]]
    return affine(p, x) + sum(
        np.sum(p["V"][i, g] * p["V"][j, f]) * x[i, f] * x[j, g] for (i, f), (j, g) in combinations(known, 2)
    )


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
    "poly2": poly2,
    "fm": fm,
    "anova": anova,
    "shfm": shfm,
    "sha2": shfm,
    "sglfm": fm,
    "glfm": fm,
    "l1fm": fm,
    "hofm": hofm,
    "hofm-shared": hofm_shared,
    "hofm-simplex": hofm_simplex,
    "all-subsets": all_subsets,
    "pn": pn,
    "lifted-anova": lifted_anova,
    "lifted-pn": lifted_pn,
    "bilinear": bilinear,
    "ffm": ffm,
    "llfm": llfm,
    "stub": stub,
}

# ---- Scores, derivatives and what a sample touches. ----

# Arrays whose second axis is the feature; all others are global.
BY_FEATURE = ("w", "V", "P", "P2", "P3", "P4", "P5", "U", "U1", "U2", "U3", "U4", "U5", "U6", "UV")

STRUCTURAL = ("bias", "theta", "anchors")  # no penalty ever touches these
SHARED = ("anchors",)  # by all classes: there is no axis of classes


def features(params: Params) -> int:
    if "anchors" in params:
        return params["anchors"].shape[1]
    return max((params[name].shape[1] for name in BY_FEATURE if name in params), default=0)


def support(params: Params, x: Sample) -> Sample:
    """The entries of x that are not 0 and whose feature the model knows."""
    known = features(params) if any(name in params for name in BY_FEATURE) else inf
    return {key: value for key, value in x.items() if value != 0 and column(key) < known}


def one_class(params: Params, c: int) -> Params:
    return {name: array if name in SHARED else array[c] for name, array in params.items()}


def classes(params: Params) -> int:
    return len(next(iter(params.values())))


def score(kind: str, params: Params, x: Sample, choices: Choices = NONE) -> np.ndarray:
    """The C scores of a sample."""
    x = support(params, x)
    return np.array([KINDS[kind](one_class(params, c), x, choices) for c in range(classes(params))])


def touched(kind: str, params: Params, x: Sample, choices: Choices = NONE) -> Mask:
    """Which parameters enter the sample's score: its features' rows, and every global parameter; of poly2's table the
    entries of its pairs, and of ffm the factors that are in a pair; of llfm what the active anchors have of these, and
    the anchors where they are learned."""
    if kind == "llfm":
        return touched_around_anchors(params, x, choices)
    x = support(params, x)
    masks = {name: np.full(array.shape, name not in (*BY_FEATURE, "W")) for name, array in params.items()}
    for name in BY_FEATURE:
        if name in masks:
            masks[name][:, [column(key) for key in x]] = True
    if "W" in masks:
        for i, j in combinations(sorted(x), 2):
            masks["W"][:, entry(i, j, masks["W"].shape[1], choices)] = True
    if kind == "ffm":
        masks["V"][...] = False
        for (i, f), (j, g) in combinations(x, 2):
            if max(f, g) < masks["V"].shape[2]:
                masks["V"][:, i, g] = masks["V"][:, j, f] = True
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


def rows(params: Params, choices: Choices = NONE) -> list[Row]:
    """All parameters, row by row: what one feature owns in one class, of llfm with one anchor; v0 and each gamma_t, of
    polynomial networks all gamma; beta, theta; the bias; every entry of W; factors of ffm for one field where they are
    rows of their own; each anchor."""
    owners = [name for name in BY_FEATURE if name in params]
    anchors = range(len(params.get("anchors", ())))
    found: list[Row] = [[("anchors", (i,))] for i in anchors]
    if not anchors and "V" in params and params["V"].ndim == 4 and not choices.get("by_row"):
        owners.remove("V")
        found += [[("V", at)] for at in np.ndindex(params["V"].shape[:3])]
    for c in range(classes(params)):
        found += [[("W", (c, at))] for at in range(params["W"].shape[1] if "W" in params else 0)]
        places = product(anchors, range(features(params))) if anchors else zip(range(features(params)))
        found += [[(name, (c, *place)) for name in owners] for place in places if owners]
        found += [[(name, (c,))] for name in ("v0", "beta", "bias", "theta") if name in params]
        if "gamma" in params:
            several = params["gamma"].ndim == (4 if "U1" in params else 3)
            found += [[("gamma", (c, t))] for t in range(params["gamma"].shape[1])] if several else [[("gamma", (c,))]]
    return found


def gather(arrays: Params, row: Row) -> np.ndarray:
    """A row's numbers as one vector."""
    return np.concatenate([np.ravel(arrays[name][at]) for name, at in row])


def strengths(params: Params, row: Row, penalty: Penalty) -> tuple[np.ndarray, np.ndarray, float]:
    """λ1 and λ2 of each of a row's numbers, and the row's λ_g."""
    by_part = {"w": (penalty.l1_w, penalty.l2_w), "beta": (0.0, penalty.l2_v), **dict.fromkeys(STRUCTURAL, (0.0, 0.0))}
    pairs = [(by_part.get(name, (penalty.l1_v, penalty.l2_v)), np.size(params[name][at])) for name, at in row]
    l1 = np.concatenate([np.full(size, strength[0]) for strength, size in pairs])
    l2 = np.concatenate([np.full(size, strength[1]) for strength, size in pairs])
    return l1, l2, 0.0 if row[0][0] in ("beta", *STRUCTURAL) else penalty.group_l1


def penalty_value(params: Params, penalty: Penalty, choices: Choices = NONE) -> float:
    """R: the sum of λ1|φ| + (λ2/2)φ² over all parameters, and of λ_g ‖row‖ over all rows."""
    total = 0.0
    for row in rows(params, choices):
        phi = gather(params, row)
        l1, l2, group = strengths(params, row, penalty)
        total += np.sum(l1 * np.abs(phi) + l2 / 2 * phi**2) + group * np.linalg.norm(phi)
    return float(total)
