"""The kinds of models: the definition of each kind as sums over combinations of features, and the facts about it that
the shared tests need. A new model needs a definition here and a line in ``KINDS``.

``params`` is a dict of arrays with the names and shapes of ``fmcli export``. The first axis is always C (outputs),
except in anchors (n, d). The shapes are:

- bias (C); w (C, d); V, P, P2 .., U1 .. (C, d, k); v0 (C, k); beta (C, k); theta (C, m); W (C, entries)
- gamma (C, m - 1, k), except in pn (C, k), lifted-pn (C, m, k) and lifted-anova (C, m - 1, m, k)
- ffm: V (C, d, F, k)
- bilinear: UV (C, d, k) holds u or v of each feature
- llfm: bias, w and V have an axis of anchors after the axis of classes

A missing array contributes nothing; without beta, every kernel has weight 1. A sample x is a dict {index: value} or
{(index, field): value}.

A definition is a function of the arrays of one class, a sample and the options of the kind. All arrays may have one
more axis at the end, for many sets of parameters, whose scores it returns: definitions sum over the axes before it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from itertools import combinations, permutations
from math import factorial
from typing import Any

import numpy as np

Params = dict[str, np.ndarray]
Key = Any  # the key of an entry of a sample: its index, or (index, field)
Sample = dict[Key, float]
Mask = dict[str, np.ndarray]
Choices = Mapping[str, Any]  # the options of the kind by keyword, such as order, and constants found in the data
Number = Any  # float, or an array of complex numbers if derivatives are computed by complex step
Shapes = Mapping[str, tuple[Any, ...]]

# Names of the axes whose lengths depend on the data or on options; all other axes are given as numbers.
D, K = "features", "rank"


# ---- Definitions. Here p holds the arrays of one class, and x the support of the sample. ----


def column(key: Key) -> int:
    """Return the feature index of a key."""
    index: int = key[0] if isinstance(key, tuple) else key
    return index


@cache
def entries_of(items: tuple[tuple[Key, float], ...]) -> tuple[np.ndarray, np.ndarray]:
    """Return the feature indices and the values of the entries of a sample."""
    return np.array([column(key) for key, _ in items], dtype=int), np.array([value for _, value in items], dtype=float)


def affine(p: Params, x: Sample) -> Number:
    """b + <w, x>."""
    score = p.get("bias", 0.0)
    if "w" in p:
        index, value = entries_of(tuple(x.items()))
        score = score + value @ p["w"][index]
    return score


@cache
def all_choices(number: int, order: int) -> np.ndarray:
    """Return all combinations of ``order`` of the numbers 0 to number - 1, one in each row."""
    chosen = list(combinations(range(number), order))
    return np.array(chosen, dtype=int).reshape(len(chosen), order)


def elementary(order: int, terms: np.ndarray) -> np.ndarray:
    """Return, for each column, the sum over all combinations of ``order`` terms of their product.

    With terms p_j x_j and order m, this is the ANOVA kernel A^m(p, x).
    """
    total: np.ndarray = terms[all_choices(len(terms), order)].prod(axis=1).sum(axis=0)
    return total


def terms(p: Params, name: str, x: Sample, constants: str = "") -> np.ndarray:
    """Return p_j x_j for each entry of the sample.

    The rows of the array ``constants``, if the model has it, come first: they belong to features that are always 1.
    """
    index, value = entries_of(tuple(x.items()))
    entries: np.ndarray = (p[name][index].T * value).T
    return np.concatenate([p[constants].reshape(-1, *entries.shape[1:]), entries]) if constants in p else entries


def linear(p: Params, x: Sample, o: Choices) -> Number:
    """b + <w, x>."""
    return affine(p, x)


def fm(p: Params, x: Sample, o: Choices) -> Number:
    """b + <w, x> + sum over pairs i < j of <v_i, v_j> x_i x_j."""
    return affine(p, x) + elementary(2, terms(p, "V", x)).sum(axis=0)


def anova(p: Params, x: Sample, o: Choices) -> Number:
    """b + <w, x> + sum_f beta_f A^m([gamma_f, V_f], [1, x])."""
    return affine(p, x) + (p.get("beta", 1.0) * elementary(o.get("order", 2), terms(p, "V", x, "gamma"))).sum(axis=0)


def shfm(p: Params, x: Sample, o: Choices) -> Number:
    """b + sum_f beta_f A^2([v0_f, V_f], [1, x]); no w. With beta this is sha2."""
    return affine(p, x) + (p.get("beta", 1.0) * elementary(2, terms(p, "V", x, "v0"))).sum(axis=0)


def hofm(p: Params, x: Sample, o: Choices) -> Number:
    """b + <w, x> + sum_{t=2..m} sum_s A^t(p^(t)_s, x)."""
    degrees = sorted(int(name[1:]) for name in p if name[0] == "P")
    return affine(p, x) + sum(elementary(t, terms(p, f"P{t}", x)).sum(axis=0) for t in degrees)


def hofm_shared(p: Params, x: Sample, o: Choices) -> Number:
    """b + sum_s A^m([gamma_1s .. gamma_{m-1,s}, p_s], [1 .. 1, x])."""
    return affine(p, x) + elementary(len(p["gamma"]) + 1, terms(p, "P", x, "gamma")).sum(axis=0)


def hofm_simplex(p: Params, x: Sample, o: Choices) -> Number:
    """b + sum_s sum_{t=1..m} theta_t A^t(p_s, x)."""
    degrees = enumerate(p["theta"], start=1)
    return affine(p, x) + sum(theta * elementary(t, terms(p, "P", x)).sum(axis=0) for t, theta in degrees)


def all_subsets(p: Params, x: Sample, o: Choices) -> Number:
    """b + sum_s prod_j (1 + p_js x_j)."""
    return affine(p, x) + (1 + terms(p, "P", x)).prod(axis=0).sum(axis=0)


def pn(p: Params, x: Sample, o: Choices) -> Number:
    """b + <w, x> + sum_s beta_s (gamma_s + <p_s, x>)^m."""
    inner = p.get("gamma", 0.0) + terms(p, "P", x).sum(axis=0)
    return affine(p, x) + (p.get("beta", 1.0) * inner ** o.get("order", 2)).sum(axis=0)


def lifted_pn(p: Params, x: Sample, o: Choices) -> Number:
    """b + <w, x> + sum_s prod_t (gamma^t_s + <u^t_s, x>)."""
    inner = [terms(p, u, x).sum(axis=0) for u in vectors(p)]
    return affine(p, x) + np.prod(inner + p["gamma"] if "gamma" in p else inner, axis=0).sum(axis=0)


def lifted_anova(p: Params, x: Sample, o: Choices) -> Number:
    """b + <w, x> + 1/m! sum_s sum over ordered tuples (j_1 .. j_m) of distinct entries of prod_t u^t_{j_t,s} x_{j_t}.

    The rows of gamma count as entries with value 1.
    """
    entries = [terms(p, u, x) for u in vectors(p)]
    if "gamma" in p:
        entries = [np.concatenate([p["gamma"][:, t], of_sample]) for t, of_sample in enumerate(entries)]
    tuples = all_tuples(len(entries[0]), len(entries))
    products: Number = 1.0
    for t, of in enumerate(entries):
        products = products * of[tuples[:, t]]
    return affine(p, x) + products.sum(axis=(0, 1)) / factorial(len(entries))


@cache
def all_tuples(number: int, order: int) -> np.ndarray:
    """Return all ordered tuples of ``order`` distinct numbers from 0 to number - 1, one in each row."""
    return np.array(list(permutations(range(number), order)), dtype=int).reshape(-1, order)


def vectors(p: Params) -> list[str]:
    """Return the names of the arrays U1 .. Um in order."""
    return sorted(name for name in p if name[0] == "U" and name != "U")


@cache
def splitmix64(z: int) -> int:
    """The SplitMix64 hash, computed with Python integers."""
    z = (z + 0x9E3779B97F4A7C15) % 2**64
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
    return z ^ (z >> 31)


def entry(i: int, j: int, entries: int, o: Choices) -> int:
    """Return the index of the pair i < j in the table W.

    A table of 2^bits entries is indexed by a hash; a smaller table has one entry for each pair.
    """
    bits = o.get("pair_bits", 22)
    return splitmix64(i * 2**32 + j) >> (64 - bits) if entries == 2**bits else j * (j - 1) // 2 + i


def poly2(p: Params, x: Sample, o: Choices) -> Number:
    """b + <w, x> + sum over pairs i < j of W_ij x_i x_j."""
    pairs = combinations(sorted(x), 2)
    return affine(p, x) + sum(p["W"][entry(i, j, len(p["W"]), o)] * x[i] * x[j] for i, j in pairs)


def bilinear(p: Params, x: Sample, o: Choices) -> Number:
    """b + <w, x> + sum over i of group 0 and j of group 1 of <u_i, v_j> x_i x_j."""
    sides = [[key for key in x if o["group"][column(key)] == side] for side in (0, 1)]
    uv = p["UV"] if "UV" in p else p["U"] + p["V"]  # exported U and V are 0 for the features of the other group
    return affine(p, x) + sum(
        (uv[column(i)] * uv[column(j)]).sum(axis=0) * x[i] * x[j] for i in sides[0] for j in sides[1]
    )


def ffm(p: Params, x: Sample, o: Choices) -> Number:
    """b + <w, x> + sum over pairs of <v_{i,field(j)}, v_{j,field(i)}> x_i x_j.

    Entries with fields unknown to the model are ignored in the pairs.
    """
    known = {key: value for key, value in x.items() if key[1] < p["V"].shape[1]}
    first, second = all_choices(len(known), 2).T
    index, value = entries_of(tuple(known.items()))
    of_field = np.array([f for _, f in known], dtype=int)
    rows = p["V"][index[first], of_field[second]] * p["V"][index[second], of_field[first]]
    return affine(p, x) + (value[first] * value[second]) @ rows.sum(axis=1)


def llfm(p: Params, x: Sample, o: Choices) -> Number:
    """sum over anchors of π_i f_i(x), where each f_i is a separate FM."""
    return sum(share * fm({name: p[name][i] for name in p if name != "anchors"}, x, o) for i, share in coding(p, x, o))


def coding(p: Params, x: Sample, o: Choices) -> list[tuple[int, Number]]:
    """Return the active anchors and their weights π_i. Of anchors at the same distance, the lower index comes first."""
    anchors = p["anchors"]
    sample = np.array([x.get(j, 0.0) for j in range(anchors.shape[1])])
    distance = ((anchors - sample.reshape(-1, *[1] * (anchors.ndim - 2))) ** 2).sum(axis=1)
    nearest = sorted(range(len(anchors)), key=lambda i: (real(distance[i]), i))
    if o.get("llfm_variant", "jo") != "jo":
        nearest = nearest[: o.get("neighbours", 5)]
        weight = [np.exp(-o.get("coding_c", 1.0) * distance[i]) for i in nearest]
        return [(i, one / sum(weight)) for i, one in zip(nearest, weight, strict=True)]
    u = [o.get("lc", 0.4) * (distance[i] - distance[nearest[0]]) for i in nearest]
    n, level = 0, complex(np.inf)
    while n < len(u) and real(level) > real(u[n]):
        n += 1
        root = n + sum(u[:n]) ** 2 - n * sum(one**2 for one in u[:n])
        level = (sum(u[:n]) + root**0.5) / n
    total = sum(level - one for one in u[:n])
    return [(i, (level - one) / total) for i, one in zip(nearest[:n], u[:n], strict=True)]


def real(number: Number) -> float:
    """Return the real part, which is the same for all sets of parameters that differ by complex steps."""
    return float(np.ravel(np.real(number))[0])


# ---- The parameters that a sample touches, that is, that enter its score. A mask has all global parameters set. ----


def touch_features(x: Sample, mask: Mask) -> Mask:
    """Mark the parameter rows of the sample's features."""
    for name in filter(per_feature, mask):
        mask[name][:, [column(key) for key in x]] = True
    return mask


def touch_pairs(p: Params, x: Sample, o: Choices, mask: Mask) -> Mask:
    """Mark the entries of poly2's table W for the sample's pairs."""
    mask["W"][...] = False
    for i, j in combinations(sorted(x), 2):
        mask["W"][:, entry(i, j, mask["W"].shape[1], o)] = True
    return touch_features(x, mask)


def touch_fields(p: Params, x: Sample, o: Choices, mask: Mask) -> Mask:
    """Mark the factors of ffm that enter a pair of the sample."""
    touch_features(x, mask)
    mask["V"][...] = False
    for (i, f), (j, g) in combinations(x, 2):
        if max(f, g) < mask["V"].shape[2]:
            mask["V"][:, i, g] = mask["V"][:, j, f] = True
    return mask


def touch_anchors(p: Params, x: Sample, o: Choices, mask: Mask) -> Mask:
    """Mark the active anchors' parameters of the sample's features, and the anchors themselves if they are learned."""
    mask = {name: np.zeros_like(array) for name, array in mask.items()}
    for i, _ in coding(p, x, o):
        mask["anchors"][i] = o.get("llfm_variant", "jo") != "do"
        if "bias" in mask:
            mask["bias"][:, i] = True
        for name in {"w", "V"} & mask.keys():
            mask[name][:, i, list(x)] = True
    return mask


# ---- The kinds. ----


@dataclass(frozen=True)
class Kind:
    """A kind of models.

    score : the definition: the score of one class, from the arrays of the class, a sample and the options of the kind.
    arrays : the axes of each array after the axis of classes, in the small models that test the definitions. An array
        with the axis D has a row for each feature.
    options : the options of the definition in these tests.
    touched : which parameters enter a sample's score. Default: the rows of its features and all global parameters.
    by_field : whether the entries of samples have fields.
    fast : whether coordinate descent has faster derivatives than the gradient on all data.
    powers : whether the score is a polynomial of a degree up to the order in a single parameter; else it is affine.
    starts : the start values of arrays that do not start at random: a number, or several, which take turns.
    numbered : how many axes after the axis of classes number the parameter rows, the groups of a group penalty, in
        arrays without an axis of features. Default: 0, a single row for each class.
    explained : whether the model states the terms of its scores (`split`).
    planted : the scales of random parameters by array, if with the default scale, 0.5, the labels would be noise or
        too hard to learn.
    steep : whether scores of orders above 2 are powers of sums, in which large parameters make small ones lose their
        digits.
    ordered : whether the definition sums over all ordered tuples, which is too slow for high orders.
    ranks : the ranks to test if another kind covers the same pair interactions. Default: all ranks.
    """

    score: Callable[[Params, Sample, Choices], Number]
    arrays: Shapes
    options: Choices = field(default_factory=dict)
    touched: Callable[[Params, Sample, Choices, Mask], Mask] | None = None
    by_field: bool = False
    fast: bool = True
    powers: bool = False
    starts: Mapping[str, float | tuple[float, ...]] = field(default_factory=dict)
    numbered: Mapping[str, int] = field(default_factory=dict)
    explained: bool = True
    planted: Mapping[str, float] = field(default_factory=dict)
    steep: bool = False
    ordered: bool = False
    ranks: tuple[int, ...] = ()


_BIAS: Shapes = {"bias": ()}
_LINEAR: Shapes = {"bias": (), "w": (D,)}
_FM: Shapes = {**_LINEAR, "V": (D, K)}
_U: Shapes = dict.fromkeys(("U1", "U2", "U3"), (D, K))
_BETA = {"beta": (1, -1)}
_PLANTED = {"V": 0.7}

KINDS = {
    "linear": Kind(linear, _LINEAR),
    "poly2": Kind(  # 21: the pairs of 7 features
        poly2, {**_LINEAR, "W": (21,)}, touched=touch_pairs, starts={"W": 0}, numbered={"W": 1}
    ),
    "fm": Kind(fm, _FM, planted=_PLANTED),
    "anova": Kind(anova, {**_FM, "beta": (K,)}, starts={**_BETA, "gamma": 1}, numbered={"gamma": 1}, planted=_PLANTED),
    "shfm": Kind(shfm, {**_BIAS, "V": (D, K), "v0": (K,)}, planted={**_PLANTED, "v0": 0.7}),
    "sha2": Kind(shfm, {**_BIAS, "V": (D, K), "v0": (K,), "beta": (K,)}, starts=_BETA, planted={**_PLANTED, "v0": 0.7}),
    "sglfm": Kind(fm, _FM, planted=_PLANTED),
    "glfm": Kind(fm, _FM, planted=_PLANTED),
    "l1fm": Kind(fm, _FM, planted=_PLANTED),
    "hofm": Kind(hofm, {**_LINEAR, "P2": (D, K), "P3": (D, 4)}, planted={"P2": 0.7, "P3": 0.3}),
    "hofm-shared": Kind(
        hofm_shared,
        {**_BIAS, "P": (D, K), "gamma": (2, K)},
        starts={"gamma": 1},
        numbered={"gamma": 1},
        planted={"P": 0.4},
    ),
    "hofm-simplex": Kind(hofm_simplex, {**_BIAS, "P": (D, K), "theta": (3,)}, planted={"P": 0.7}),
    "all-subsets": Kind(all_subsets, {**_BIAS, "P": (D, K)}),
    "pn": Kind(
        pn,
        {**_LINEAR, "P": (D, K), "gamma": (K,), "beta": (K,)},
        powers=True,
        starts={**_BETA, "gamma": 1},
        planted={"P": 0.4},
        steep=True,
    ),
    "lifted-anova": Kind(
        lifted_anova,
        {**_LINEAR, **_U, "gamma": (2, 3, K)},
        starts={"gamma": 1},
        numbered={"gamma": 1},
        planted={"U1": 1, "U2": 1},
        ordered=True,
    ),
    "lifted-pn": Kind(lifted_pn, {**_LINEAR, **_U, "gamma": (3, K)}, starts={"gamma": 1}, steep=True),
    "bilinear": Kind(bilinear, {**_LINEAR, "UV": (D, K)}, {"group": [0, 1, 1, -1, 0, 1, 0]}),
    # An index that occurs in several fields of a sample is several entries, which the fast derivatives do not support.
    "ffm": Kind(ffm, {**_LINEAR, "V": (D, 3, K)}, touched=touch_fields, by_field=True, fast=False, planted=_PLANTED),
    "llfm": Kind(
        llfm,
        {"bias": (2,), "w": (2, D), "V": (2, D, K), "anchors": (2, D)},
        touched=touch_anchors,
        starts={"anchors": 0},
        numbered={"anchors": 1},
        explained=False,
        planted=_PLANTED,
        ranks=(1, 5),
    ),
}

STRUCTURAL = ("bias", "theta", "anchors")  # arrays that are never penalized
SIMPLEX = ("theta",)  # arrays that are projected whenever they are written
SHARED = ("anchors",)  # arrays without an axis of classes, shared by all classes


@cache
def per_feature(name: str) -> bool:
    """Whether an array has a row for each feature. Numbered arrays such as P2 and P3 are treated as P."""
    return name not in SHARED and any(
        stem(name) == stem(other) for kind in KINDS.values() for other, axes in kind.arrays.items() if D in axes
    )


def axes_of(kind: str, name: str) -> tuple[Any, ...]:
    """Return the axes of an array of a kind after the axis of classes; none if it exists only with other options."""
    of = {stem(other): axes for other, axes in KINDS[kind].arrays.items()}
    return of.get(stem(name), ())


def stem(name: str) -> str:
    """Return the name of an array without its number."""
    return name.rstrip("0123456789")
