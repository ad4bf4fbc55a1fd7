"""Scores, derivatives by complex step, parameter rows and penalties, all computed from the definitions in kinds.py."""

from dataclasses import dataclass
from math import inf

import numpy as np

from reference.kinds import (
    KINDS,
    SHARED,
    STRUCTURAL,
    Choices,
    D,
    Mask,
    Params,
    Sample,
    axes_of,
    column,
    per_feature,
    touch_features,
)
from reference.slow_penalties import GROUPS

NONE: Choices = {}
COMPLEX_STEP = 1e-100  # there is no difference that could cancel, so the step may be so small that its square is 0


def features(params: Params) -> int:
    """Return the number of features, read from the shape of any array that has a row for each feature."""
    if "anchors" in params:
        return params["anchors"].shape[1]
    return max((array.shape[1] for name, array in params.items() if per_feature(name)), default=0)


def support(params: Params, x: Sample) -> Sample:
    """Return the non-zero entries of x whose feature is known to the model."""
    known = features(params) if any(map(per_feature, params)) else inf
    return {key: value for key, value in x.items() if value != 0 and column(key) < known}


def one_class(params: Params, c: int) -> Params:
    return {name: array if name in SHARED else array[c] for name, array in params.items()}


def classes(params: Params) -> int:
    return len(next(iter(params.values())))


def score(kind: str, params: Params, x: Sample, choices: Choices = NONE) -> np.ndarray:
    """Return the C scores of a sample."""
    x = support(params, x)
    return np.array([KINDS[kind].score(one_class(params, c), x, choices) for c in range(classes(params))])


def touched(kind: str, params: Params, x: Sample, choices: Choices = NONE) -> Mask:
    """Return a mask of the parameters that enter the sample's score.

    By default these are the rows of its features and every global parameter.
    """
    x = support(params, x)
    mask = {name: np.full(array.shape, not per_feature(name)) for name, array in params.items()}
    if KINDS[kind].touched is not None:
        return KINDS[kind].touched(params, x, choices, mask)
    return touch_features(x, mask)


def gradient(kind: str, params: Params, x: Sample, c: int, choices: Choices = NONE) -> Params:
    """Return d score_c / d parameter for every parameter."""
    masks = one_class(touched(kind, params, x, choices), c)
    found = derivatives(kind, one_class(params, c), support(params, x), choices, masks)
    derivative = {name: np.zeros(array.shape) for name, array in params.items()}
    for name, array in derivative.items():
        array[... if name in SHARED else c] = found[name]
    return derivative


def derivatives(kind: str, params: Params, x: Sample, choices: Choices, masks: Mask) -> Params:
    """Return the derivatives of the score of one class by its parameters of a mask; the others are 0.

    By complex step: Im f(p + ih) / h, exact up to rounding. There is a set of parameters for each step. All features of
    the sample are known to the model.
    """
    count = max(1, sum(map(np.count_nonzero, masks.values())))
    stepped = {name: np.repeat(np.asarray(array, complex)[..., None], count, -1) for name, array in params.items()}
    places, first = {}, 0
    for name, mask in masks.items():
        places[name] = np.arange(first, first := first + np.count_nonzero(mask))
        stepped[name][mask, places[name]] += COMPLEX_STEP * 1j
    slopes = np.broadcast_to(np.imag(KINDS[kind].score(stepped, x, choices)) / COMPLEX_STEP, count)
    found = {name: np.zeros(np.shape(array)) for name, array in params.items()}
    for name, mask in masks.items():
        found[name][mask] = slopes[places[name]]
    return found


# ---- Parameter rows, which are the groups of the group penalty, and the value of the penalty. ----


@dataclass(frozen=True)
class Penalty:
    """λ1 and λ2 of linear weights ("w") and of all other penalized parameters ("v"), and λ_g of each group penalty."""

    l1_w: float = 0.0
    l1_v: float = 0.0
    l2_w: float = 0.0
    l2_v: float = 0.0
    group_l1: float = 0.0

    @property
    def group_kind(self) -> str:
        """The group penalty in force."""
        return next((kind for kind in GROUPS if getattr(self, kind)), "group_l1")


Row = list[tuple[str, tuple[int, ...]]]  # the parts of a row: (array name, index of a number or vector in that array)


def rows(kind: str, params: Params, choices: Choices = NONE) -> list[Row]:
    """Return all parameters, grouped into rows. In each class, the rows are:

    - all parameters of one feature and of one place on the axes before the axis of features (llfm: of one anchor);
      except arrays with another axis behind it, whose places are separate rows (ffm, if its rows are by field),
    - each other array as a whole, or each place on the axes that `Kind.numbered` counts.
    """
    found: list[Row] = []
    of_features: dict[tuple[int, ...], Row] = {}
    for name, array in params.items():
        axes, classed = axes_of(kind, name), name not in SHARED
        if D not in axes:
            found += [[(name, at)] for at in np.ndindex(array.shape[: classed + KINDS[kind].numbered.get(name, 0)])]
            continue
        places = np.ndindex(array.shape[: classed + axes.index(D) + 1])
        apart = len(axes) > axes.index(D) + 2 and not choices.get("by_row")
        for at in places:
            if apart:
                found += [[(name, (*at, between))] for between in range(array.shape[len(at)])]
            else:
                of_features.setdefault(at, []).append((name, at))
    return found + list(of_features.values())


def gather(arrays: Params, row: Row) -> np.ndarray:
    """Return the values of a row as one vector."""
    return np.concatenate([np.ravel(arrays[name][at]) for name, at in row])


def strengths(params: Params, row: Row, penalty: Penalty) -> tuple[np.ndarray, np.ndarray, float]:
    """Return λ1 and λ2 of each parameter of a row, and λ_g of the row."""
    by_part = {"w": (penalty.l1_w, penalty.l2_w), "beta": (0.0, penalty.l2_v), **dict.fromkeys(STRUCTURAL, (0.0, 0.0))}
    pairs = [(by_part.get(name, (penalty.l1_v, penalty.l2_v)), np.size(params[name][at])) for name, at in row]
    l1 = np.concatenate([np.full(size, strength[0]) for strength, size in pairs])
    l2 = np.concatenate([np.full(size, strength[1]) for strength, size in pairs])
    return l1, l2, 0.0 if row[0][0] in ("beta", *STRUCTURAL) else getattr(penalty, penalty.group_kind)


def penalty_value(kind: str, params: Params, penalty: Penalty, choices: Choices = NONE) -> float:
    """Return R, the sum of λ1|φ| + (λ2/2)φ² over all parameters plus the sum of λ_g Ω(row) over all rows."""
    total = 0.0
    for row in rows(kind, params, choices):
        phi = gather(params, row)
        l1, l2, group = strengths(params, row, penalty)
        total += np.sum(l1 * np.abs(phi) + l2 / 2 * phi**2) + group * GROUPS[penalty.group_kind].value(phi)
    return float(total)
