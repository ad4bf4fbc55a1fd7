"""How a kind of model splits a score into terms: a constant, plus a sum over the sets of a row's features.

The term of a set is what the set adds to the scores of its parts. Each kind declares its terms in `Model.split`, with
the classes of this module; fmcli/scoring/explain computes them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace
from itertools import combinations
from math import comb, factorial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fmcli.errors import UsageError
from fmcli.records import dataclass

Array = NDArray[Any]
Floats = NDArray[np.float64]

# With more moves per entry, terms would take minutes to compute.
MOST_MOVES = 1 << 13


@dataclass(frozen=True)
class Slot:
    """Factors that an entry with value x contributes to products: x times the row of its feature.

    array : (outputs, features, rank).
    group : (features); only features with `group` equal to `side` contribute; None: all do.
    """

    array: Array
    group: NDArray[np.int32] | None = None
    side: int = 0


@dataclass(frozen=True)
class Products:
    """Terms that are sums, over factors, of products of the contributions of a set's features.

    They are the result of a recursion over the entries of a row. Each factor has numbers, its states. State 0 is 1; the
    other states are 0 before the first entry. An entry first forms its monomials: an earlier monomial times x times the
    entry's factor in a slot. Then it makes all moves, from larger sets to smaller ones: a move adds `times` * monomial
    * state `source` to the state `target`. So a state is a sum over sets of `size` features. The score is the sum over
    states of `weight` times the state.

    monomials : (parent, slot) of each monomial; the parent -1 stands for 1.
    sizes : the number of features in the sets of each state.
    moves : (source, monomial, target) of each move.
    weight : (outputs, states, rank).
    """

    slots: Sequence[Slot]
    monomials: Sequence[tuple[int, int]]
    sizes: Sequence[int]
    moves: Sequence[tuple[int, int, int]]
    times: Sequence[float]
    weight: Floats


@dataclass(frozen=True)
class EverySubset:
    """Terms for sets of all sizes: the sum, over factors, of the products of the features' factors.

    array : (outputs, features, rank).
    """

    array: Array


@dataclass(frozen=True)
class FieldPairs:
    """Terms of pairs of entries: the inner product of each entry's factors for the other entry's field.

    array : (outputs, features, fields, rank).
    """

    array: Array


@dataclass(frozen=True)
class TablePairs:
    """Terms of pairs of entries i < j: the weight of the pair, from a table.

    array : (outputs, places).
    bits : the bits of the pair's hash that are its place in the table; 0: the place is j (j - 1) / 2 + i.
    """

    array: Array
    bits: int


Terms = Products | EverySubset | FieldPairs | TablePairs


@dataclass(frozen=True)
class Split:
    """The terms of a model.

    constant : (outputs), the score of a row without features.
    linear : (outputs, features), weights of single features in addition to the terms; None: there are none.
    terms : further terms.
    """

    constant: Floats
    linear: Array | None = None
    terms: Sequence[Terms] = field(default_factory=tuple)


def split_of(parameters: dict[str, Array], outputs: int, *terms: Terms, constant: Floats | float = 0.0) -> Split:
    """Return the split of a model with the usual bias and linear weights; either may be missing."""
    bias = parameters["bias"].astype(np.float64) if "bias" in parameters else np.zeros(outputs)
    return Split(bias + constant, parameters.get("w"), terms)


def anova_degrees(array: Array, weights: Floats) -> Products:
    """Return the sum over degrees t = 1, 2, .. and factors f of weights[t - 1, f] A^t(p_f, x).

    weights : (outputs, degrees, rank).
    """
    outputs, degrees, rank = weights.shape
    moves = [(size - 1, 0, size) for size in range(degrees, 0, -1)]
    weight = np.concatenate([np.zeros((outputs, 1, rank)), weights], axis=1)
    return Products([Slot(array)], [(-1, 0)], range(degrees + 1), moves, [1.0] * degrees, weight)


def degree_terms(array: Array, theta: Array) -> Products:
    """Return the sum over degrees t = 1, 2, .. and factors f of theta_t A^t(p_f, x). theta : (outputs, degrees)."""
    return anova_degrees(array, np.repeat(theta[:, :, None].astype(np.float64), array.shape[2], axis=2))


def anova_terms(array: Array, order: int, gamma: Array | None = None, beta: Array | None = None) -> Products:
    """Return the terms of the ANOVA kernel sum_f beta_f A^order([gamma_f, p_f], [1, x]): degree t has the weight
    beta_f e_{order - t}(gamma_f).

    gamma : (outputs, constants, rank), fewer constants than the order. beta : (outputs, rank).
    """
    outputs, _, rank = array.shape
    symmetric = np.zeros((order, outputs, rank))
    symmetric[0] = 1
    for constant in () if gamma is None else np.moveaxis(gamma.astype(np.float64), 1, 0):
        for degree in range(order - 1, 0, -1):
            symmetric[degree] += constant * symmetric[degree - 1]
    if beta is not None:
        symmetric *= beta
    return anova_degrees(array, np.moveaxis(symmetric[::-1], 0, 1))


def power_terms(array: Array, order: int, gamma: Array | None, beta: Array | None) -> tuple[Products, Floats]:
    """Return the terms of sum_s beta_s (gamma_s + <p_s, x>)^order, and its value for an empty row (outputs).

    State (t, r) is the sum, over sets of t features, of the part of <p, x>^r in which each of the features occurs.
    """
    outputs, _, rank = array.shape
    pairs = [(0, 0), *((t, r) for t in range(1, order + 1) for r in range(t, order + 1))]
    place = {pair: number for number, pair in enumerate(pairs)}
    moves = [
        (place[t - 1, r - q], q - 1, place[t, r])
        for t, r in reversed(pairs)
        for q in range(1, r + 1)
        if (t - 1, r - q) in place
    ]
    require_few(len(moves))
    shift = np.zeros((outputs, rank)) if gamma is None else gamma.astype(np.float64)
    scale = np.ones((outputs, rank)) if beta is None else beta.astype(np.float64)
    weight = np.stack([comb(order, r) * shift ** (order - r) * scale for _, r in pairs], axis=1)
    times = [comb(pairs[target][1], q + 1) for _, q, target in moves]
    monomials = [(q - 1, 0) for q in range(order)]
    made = Products([Slot(array)], monomials, [t for t, _ in pairs], moves, times, weight)
    return made, (scale * shift**order).sum(axis=1)


def product_terms(arrays: Sequence[Array], gamma: Array | None) -> tuple[Products, Floats]:
    """Return the terms of sum_s prod_t (gamma^t_s + <u^t_s, x>), and its value for an empty row (outputs).

    State (t, T) is the sum, over sets of t features, of the part of prod_{T} <u, x> in which each of the features
    occurs. A feature may occur with the u of any non-empty set.

    gamma : (outputs, order, rank).
    """
    order, (outputs, _, rank) = len(arrays), arrays[0].shape
    require_few(order * 3**order)
    every = subsets(order)
    states = [(0, frozenset[int]()), *((t, T) for t in range(1, order + 1) for T in every if len(T) >= t)]
    place = {state: number for number, state in enumerate(states)}
    number = {T: at for at, T in enumerate(every)}
    moves = [
        (place[t - 1, T - of_one], number[of_one], place[t, T])
        for t, T in reversed(states)
        for of_one in every
        if of_one <= T and (t - 1, T - of_one) in place
    ]
    shift = np.zeros((outputs, order, rank)) if gamma is None else gamma.astype(np.float64)
    weight = np.stack([shift[:, [t for t in range(order) if t not in T]].prod(axis=1) for _, T in states], axis=1)
    monomials = [(number.get(T - {max(T)}, -1), max(T)) for T in every]
    slots = [Slot(array) for array in arrays]
    made = Products(slots, monomials, [t for t, _ in states], moves, [1.0] * len(moves), weight)
    return made, shift.prod(axis=1).sum(axis=1)


def tuple_terms(slots: Sequence[Slot], gamma: Array | None, scale: float) -> Products:
    """Return the terms of `scale` times the sum, over factors and ordered tuples of distinct entries, of the products
    of one entry per slot. Constants count as entries of value 1.

    gamma : (outputs, constants, slots, rank).
    """
    order, (outputs, _, rank) = len(slots), slots[0].array.shape
    every = [frozenset[int](), *subsets(order)]
    place = {T: number for number, T in enumerate(every)}
    moves = [(place[T - {t}], t, place[T]) for T in reversed(every) for t in sorted(T)]
    # of_constants[T]: the sum over assignments of distinct constants to the slots of T.
    of_constants = {T: np.full((outputs, rank), float(not T)) for T in every}
    for constant in () if gamma is None else np.moveaxis(gamma.astype(np.float64), 1, 0):
        for T in reversed(every):
            of_constants[T] = of_constants[T] + sum(
                (constant[:, t] * of_constants[T - {t}] for t in T), np.zeros((outputs, rank))
            )
    whole = frozenset(range(order))
    weight = np.stack([scale * of_constants[whole - T] for T in every], axis=1)
    monomials = [(-1, t) for t in range(order)]
    return Products(slots, monomials, [len(T) for T in every], moves, [1.0] * len(moves), weight)


def lifted_terms(arrays: Sequence[Array], gamma: Array | None) -> Products:
    """Return the terms of the lifted ANOVA kernel. gamma : (outputs, constants, order, rank)."""
    return tuple_terms([Slot(array) for array in arrays], gamma, 1 / factorial(len(arrays)))


def subsets(order: int) -> list[frozenset[int]]:
    """Return the non-empty subsets of the numbers below `order`, by increasing size."""
    return [frozenset(T) for size in range(1, order + 1) for T in combinations(range(order), size)]


def require_few(moves: int) -> None:
    """Raise UsageError if terms have too many moves to compute."""
    if moves > MOST_MOVES:
        raise UsageError(
            f"a score of this model has {moves:,} kinds of terms, more than the {MOST_MOVES:,} that can be explained; "
            "train with a lower order"
        )


def places_of_states(terms: Products) -> list[int]:
    """Return the place of each state in the vectors of the two halves of a row (Splitter.halves); -1 for states without
    a place: state 0, and states from which no moves lead to a weight. States with equal weights and equal moves to
    equal states share a place."""
    moves: dict[int, list[tuple[int, int, float]]] = {}
    for (source, monomial, target), times in zip(terms.moves, terms.times, strict=True):
        moves.setdefault(source, []).append((target, monomial, times))
    kinds: dict[int, int] = {}  # of the states that reach the score
    of_kind: dict[object, int] = {}
    places, numbers = [-1] * len(terms.sizes), dict[int, int]()
    for state in sorted(range(len(terms.sizes)), key=lambda state: -terms.sizes[state]):
        weight = terms.weight[:, state]
        onward = tuple(sorted((kinds[to], *move) for to, *move in moves.get(state, ()) if to in kinds))
        if onward or weight.any():
            kinds[state] = of_kind.setdefault((weight.tobytes(), onward), len(of_kind))
        if onward and state:
            places[state] = numbers.setdefault(kinds[state], len(numbers))
    return places


def by_degree(split: Split) -> dict[int, Split] | None:
    """Return degree -> the terms of this degree: multiplying a row's values by c multiplies the terms by c^degree.
    None: there are terms of all degrees up to the length of the row."""
    found: dict[int, Split] = {}

    def add(degree: int, *terms: Terms, linear: Array | None = None) -> None:
        so_far = found.get(degree, Split(np.zeros_like(split.constant)))
        found[degree] = replace(
            so_far, linear=so_far.linear if linear is None else linear, terms=(*so_far.terms, *terms)
        )

    if split.linear is not None:
        add(1, linear=split.linear)
    for terms in split.terms:
        if isinstance(terms, EverySubset):
            return None
        if isinstance(terms, FieldPairs | TablePairs):
            add(2, terms)
            continue
        degrees = degrees_of_states(terms)
        for degree in sorted(set(degrees) - {0}):
            of_degree = np.array(degrees) == degree
            if terms.weight[:, of_degree].any():
                add(degree, replace(terms, weight=np.where(of_degree[:, None], terms.weight, 0.0)))
    return found


def degrees_of_states(terms: Products) -> list[int]:
    """Return the degree of each state in the values of a row."""
    of_monomials: list[int] = []
    for parent, _ in terms.monomials:
        of_monomials.append(1 + (of_monomials[parent] if parent >= 0 else 0))
    degrees = [0] * len(terms.sizes)
    for source, monomial, target in sorted(terms.moves, key=lambda move: terms.sizes[move[2]]):
        degrees[target] = degrees[source] + of_monomials[monomial]
    return degrees
