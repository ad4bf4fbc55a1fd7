"""The inspection of a model: its properties, and what it has learned.

It is an ordered list of views. A view applies to models with certain arrays or of a certain kind, and returns figures:
values by name, or the rows of a table. A new kind of model may add a view.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fmcli.data.dictionary import Dictionary
from fmcli.data.fields import NO_GROUP
from fmcli.data.scaling import CENTER, SCALE
from fmcli.export.arrays import exported
from fmcli.inspect.interactions import interactions
from fmcli.losses.links import Floats
from fmcli.model_file.check import GROUPS, HASH
from fmcli.model_file.container import load
from fmcli.models.layout import REAL_TYPE
from fmcli.records import dataclass
from fmcli.registry.models import MODELS
from fmcli.scoring.scorer import Scorer, scorer_of

# The number of array items to convert to float64 at a time.
CHUNK = 1 << 20

# The name of an array with the factors of one degree.
DEGREE = re.compile(r"P\d+")

Row = dict[str, Any]
Figures = Row | list[Row]


@dataclass(frozen=True)
class Subject:
    """A model under inspection.

    verified : whether all checksums of the file were verified; otherwise only the header's.
    top : the largest number of features in a list.
    arrays : exported name -> array; the first axis is the output.
    groups : the number of groups given for features; 0: none were given.
    """

    path: str
    scorer: Scorer
    verified: bool
    top: int
    arrays: dict[str, NDArray[Any]]
    groups: int = 0

    def outputs(self) -> Iterator[tuple[int, Row]]:
        """Yield each output, and the first columns of its table rows: the class, if there are several classes."""
        values = self.scorer.labels.shown
        for output in range(self.scorer.model.outputs):
            yield output, {"class": values[output]} if values and self.scorer.model.outputs > 1 else {}


@dataclass(frozen=True)
class View:
    """A part of the inspection that applies to some models.

    name : the key of the figures. title : the heading above them.
    """

    name: str
    title: str
    applies: Callable[[Subject], bool]
    figures: Callable[[Subject], Figures]


def inspect_model(path: str, *, top: int = 10, verify: bool = False) -> Subject:
    """Open a model. `verify` checks all checksums of its file, regardless of its size.

    Raises BadInputError and MissingInputError.
    """
    file = load(path, verify=verify)
    scorer = scorer_of(path, file)
    given = file.tensors.get(GROUPS, np.zeros(0, dtype=np.int32))
    groups = len(np.unique(given[given != NO_GROUP]))
    return Subject(path, scorer, file.verified, top, exported(scorer, dense=False), groups)


def views(subject: Subject) -> Iterator[tuple[View, Figures]]:
    """Yield the views that apply, in order, with their figures. Figures are not finite if the parameters are not."""
    for view in VIEWS:
        if view.applies(subject):
            with np.errstate(all="ignore"):
                found = view.figures(subject)
            yield view, found


def always(subject: Subject) -> bool:
    """Return True, the condition of views that apply to every model."""
    return True


def has(**dimensions: int) -> Callable[[Subject], bool]:
    """Return a condition for models that have arrays with these names and numbers of dimensions."""

    def applies(subject: Subject) -> bool:
        return all(name in subject.arrays and subject.arrays[name].ndim == n for name, n in dimensions.items())

    return applies


def model(subject: Subject) -> Row:
    """Return the properties of the model."""
    scorer, meta = subject.scorer, subject.scorer.meta
    return {
        "file": subject.path,
        "model": meta["model"],
        "solver": meta["solver"],
        "loss": scorer.labels.loss,
        "labels": scorer.labels.shown,
        **({"clips_to": list(scorer.clip)} if scorer.clip else {}),
        **({"calibration": scorer.calibration.method} if scorer.calibration else {}),
        "features": scorer.dimension,
        **ids(scorer),
        "features_occurring": int(np.count_nonzero(scorer.seen)),
        **({"fields": meta["fields"]} if meta["fields"] else {}),
        **({"groups": subject.groups} if subject.groups else {}),
        "outputs": scorer.model.outputs,
        "parameters": scorer.model.parameter_count,
        **several(scorer),
        "solver_state": meta["slots"] is not None,
        "format": meta["format"],
        "tool": meta["tool"],
        "pair_rows": None if scorer.occurrences.together is None else scorer.occurrences.looked_at,
        "verified": subject.verified,
    }


def several(scorer: Scorer) -> Row:
    """Return the numbers of members and draws, and which of them the lists show; empty for a single set of
    parameters."""
    members, draws = scorer.members, len(scorer.draws)
    shown = ["the last draw"] * (draws > members) + ["the last member"] * (members > 1)
    return {
        **({"members": members} if members > 1 else {}),
        **({"draws": draws} if draws > members else {}),
        **({"lists_of": " of ".join(shown)} if shown else {}),
    }


def ids(scorer: Scorer) -> Row:
    """Return how ids of features become columns; empty if ids are columns."""
    if scorer.transform.hash_bits:
        return {"ids": f"{HASH}, {scorer.transform.hash_bits} bits"}
    if isinstance(scorer.numbering, Dictionary):
        return {"ids": f"{len(scorer.numbering.numbers):,} numbers, {len(scorer.numbering.ends):,} names"}
    return {}


def options(subject: Subject) -> Row:
    """Return the options that the model was trained with."""
    return dict(subject.scorer.meta["options"])


def training(subject: Subject) -> Row:
    """Return the training summary."""
    return dict(subject.scorer.meta["training"])


def arrays(subject: Subject) -> list[Row]:
    """Return the shape, the share of zeros, the L2 norm, the minimum and the maximum of each array."""
    rows = []
    for name, array in subject.arrays.items():
        zeros, squares, low, high = array.size, 0.0, math.inf, -math.inf
        for part in chunks(array.reshape(-1)):
            zeros -= int(np.count_nonzero(part))
            squares += float((part**2).sum())
            low, high = min(low, float(part.min())), max(high, float(part.max()))
        size = max(array.size, 1)
        rows.append(
            {
                "array": name,
                "shape": list(array.shape),
                "zeros": zeros / size,
                "norm": math.sqrt(squares),
                "min": low,
                "max": high,
            }
        )
    return rows


def weights(subject: Subject) -> list[Row]:
    """Return the nonzero linear weights with the largest absolute values."""
    return listed(subject, "weight", lambda output: subject.arrays["w"][output])


def effects(subject: Subject) -> list[Row]:
    """Return the largest main effects <v_0 beta, v_j> of a strongly hierarchical model [SH]."""
    return listed(subject, "effect", lambda output: main_effects(subject, output)[0])


def hierarchy(subject: Subject) -> list[Row]:
    """Return whether the model has strong hierarchy ([SH]): an interaction is nonzero only if both main effects are.
    This holds if v_0 beta is not orthogonal to any nonzero v_j.

    Shares are shares of the features that occur. v_j counts as orthogonal if the effect is within the rounding error.
    """
    rows = []
    seen = subject.scorer.seen
    for output, begin in subject.outputs():
        effect, bound = main_effects(subject, output)
        zero = ~subject.arrays["V"][output].any(axis=1)[seen]
        orthogonal = (np.abs(effect) <= bound)[seen] & ~zero
        rows.append(
            {
                **begin,
                "zero": share(zero),
                "orthogonal": share(orthogonal[~zero]),
                "strong_hierarchy": not orthogonal.any(),
            }
        )
    return rows


def kept_rows(subject: Subject) -> list[Row]:
    """Return the number of features that a sparse group lasso has removed: weight and factors are all 0 ([SGL])."""
    seen = subject.scorer.seen
    rows = []
    for output, begin in subject.outputs():
        gone = ~nonzero_rows(subject, output)[seen]
        rows.append({**begin, "features": int(seen.sum()), "zero": int(gone.sum()), "share": share(gone)})
    return rows


def kept_factors(subject: Subject) -> list[Row]:
    """Return the number of features by their number of nonzero factors, without numbers that no feature has."""
    rows = []
    for output, begin in subject.outputs():
        kept = np.count_nonzero(subject.arrays["V"][output], axis=1)[subject.scorer.seen]
        counts = np.bincount(kept)
        rows += [{**begin, "factors": int(n), "features": int(counts[n])} for n in np.flatnonzero(counts)]
    return rows


def degrees(subject: Subject) -> list[Row]:
    """Return the norm of the factors of each degree, for models with separate factors per degree ([HO])."""
    rows = []
    names = [name for name in subject.arrays if DEGREE.fullmatch(name)]
    for output, begin in subject.outputs():
        for name in names:
            squares = sum(float((part**2).sum()) for part in chunks(subject.arrays[name][output]))
            rows.append({**begin, "degree": int(name[1:]), "norm": math.sqrt(squares)})
    return rows


def shares_of_degrees(subject: Subject) -> list[Row]:
    """Return the weights theta of the degrees, which sum to 1 ([HO] 6.1)."""
    return [
        {**begin, "degree": degree, "theta": float(value)}
        for output, begin in subject.outputs()
        for degree, value in enumerate(subject.arrays["theta"][output], start=1)
    ]


def anchors(subject: Subject) -> list[Row]:
    """Return the norm of each anchor of llfm, and the number of features near it (with nonzero factors)."""
    rows = []
    for output, begin in subject.outputs():
        for anchor, at in enumerate(subject.arrays["anchors"]):
            factors = subject.arrays["V"][output, anchor]
            rows.append(
                {
                    **begin,
                    "anchor": anchor,
                    "norm": float(np.linalg.norm(at.astype(np.float64))),
                    "features": int(factors.any(axis=1).sum()),
                }
            )
    return rows


def frequent(subject: Subject) -> list[Row]:
    """Return the most frequent features, and the number of training rows with each."""
    found = subject.scorer.occurrences
    rows = []
    for place in range(min(subject.top, len(found.features))):
        field = {"field": int(found.fields[place])} if subject.scorer.needs_fields else {}
        times = None if found.rows is None else int(found.rows[place])
        rows.append({"feature": subject.scorer.ids(found.features[place : place + 1])[0], **field, "rows": times})
    return rows


def pairs(subject: Subject) -> list[Row]:
    """Return the pairs of frequent features with the strongest interactions, among pairs that occur together, and the
    number of examined training rows with both (pair_rows); null for imported models, which do not have it.

    The error of an interaction falls with the root of the number of rows, so pairs are ordered by interaction times
    root.
    """
    found = interactions(subject.scorer)
    precision = np.ones(len(found.added)) if found.together is None else np.sqrt(found.together)
    rows = []
    for output, begin in subject.outputs():
        for place in largest(found.added[:, output] * precision, subject.top).tolist():
            one, other = subject.scorer.ids(found.features[place])
            times = None if found.together is None else int(found.together[place])
            added = float(found.added[place, output])
            rows.append({**begin, "feature": one, "other": other, "rows": times, "adds": added})
    return rows


def importance(subject: Subject) -> list[Row]:
    """Return the frequent features that change scores most: the contribution of each feature alone, and the root mean
    square of its pairs' contributions over the rows that have them.

    Features are ordered by the root of (alone^2 + pairs^2) times the number of rows.
    """
    found, frequent = interactions(subject.scorer), subject.scorer.occurrences
    features = len(frequent.features)
    weights = np.ones(len(found.places)) if found.together is None else found.together.astype(np.float64)
    times = np.ones(features) if frequent.rows is None else frequent.rows

    def of_feature(values: NDArray[Any]) -> Any:
        """Return the sum, for each feature, of values over the pairs with this feature."""
        both = np.repeat(np.asarray(values, dtype=np.float64), 2)
        return np.bincount(found.places.reshape(-1), weights=both, minlength=features)

    rows = []
    for output, begin in subject.outputs():
        squares = of_feature(weights * found.added[:, output] ** 2) / np.maximum(of_feature(weights), 1)
        alone = found.alone[:, output]
        for place in largest(np.sqrt((alone**2 + squares) * times), subject.top).tolist():
            feature, n = subject.scorer.ids(frequent.features[place : place + 1])[0], int(times[place])
            figures = {"feature": feature, "rows": None if frequent.rows is None else n}
            rows.append({**begin, **figures, "alone": float(alone[place]), "pairs": math.sqrt(squares[place])})
    return rows


def field_pairs(subject: Subject) -> list[Row]:
    """Return the interaction strength of pairs of fields, or of the columns of a table: the root mean square over pairs
    of their frequent features."""
    found, table = interactions(subject.scorer), subject.scorer.transform.table
    named: Callable[[int], int | str] = table.features.__getitem__ if table else int
    assert found.fields is not None
    names, pair = np.unique(np.sort(found.fields, axis=1), axis=0, return_inverse=True)
    rows = []
    for output, begin in subject.outputs():
        weights = found.added[:, output] ** 2
        strength = np.sqrt(np.bincount(pair.reshape(-1), weights=weights) / np.bincount(pair.reshape(-1)))
        rows += [
            {
                **begin,
                "field": named(names[place, 0]),
                "other": named(names[place, 1]),
                "strength": float(strength[place]),
            }
            for place in largest(strength, subject.top).tolist()
        ]
    return rows


def has_pairs(subject: Subject) -> bool:
    """Return whether a model has more than linear weights."""
    return bool(subject.arrays.keys() - {"bias", "w", SCALE, CENTER})


def is_group_sparse(subject: Subject) -> bool:
    """Return whether a sparsity penalty defines the model's kind."""
    return bool(MODELS[subject.scorer.meta["model"]].positive) and has(V=3)(subject)


VIEWS = (
    View("model", "", always, model),
    View("options", "Options", always, options),
    View("training", "Training", always, training),
    View("arrays", "Arrays", always, arrays),
    View("frequent", "Most frequent features, and the number of training rows with each", always, frequent),
    View("weights", "Largest linear weights, and the number of training rows with the feature", has(w=2),
         weights),
    View("main_effects", "Largest main effects, and the number of training rows with the feature",
         has(v0=2, V=3), effects),
    View("hierarchy", "Strong hierarchy: share of the v_j that are 0; share of the others orthogonal to v_0 beta",
         has(v0=2, V=3), hierarchy),
    View("degrees", "Norm of the factors by degree", has(P2=3), degrees),
    View("theta", "Weights of the degrees", has(theta=2), shares_of_degrees),
    View("importance", "Frequent features that change scores most, alone and in pairs (root mean square)",
         has_pairs, importance),
    View("pairs", "Strongest interactions of frequent features, and how many of pair-rows have both",
         has_pairs, pairs),
    View("field_pairs", "Strongest interactions of fields (root mean square over pairs of their frequent features)",
         lambda subject: has_pairs(subject) and subject.scorer.needs_fields, field_pairs),
    View("rows", "Features whose weight and factors are all 0", is_group_sparse, kept_rows),
    View("factors", "Features by their number of nonzero factors", is_group_sparse, kept_factors),
    View("anchors", "Anchors, and features that occurred near them", has(anchors=2, V=4), anchors),
)  # fmt: skip


def chunks(array: NDArray[Any]) -> Iterator[Floats]:
    """Yield float64 copies of parts of an array along its first axis, so a large array is never copied as a whole."""
    step = max(1, CHUNK // max(1, math.prod(array.shape[1:])))
    for start in range(0, len(array), step):
        yield array[start : start + step].astype(np.float64)


def listed(subject: Subject, name: str, values: Callable[[int], NDArray[Any]]) -> list[Row]:
    """Return table rows for the features with the largest values, by output, with the number of training rows that have
    each feature. `values` returns one number per feature, given an output."""
    rows = []
    for output, begin in subject.outputs():
        of = values(output)
        found = largest(of, subject.top).tolist()
        times = subject.scorer.occurrences.rows_of(found)
        rows += [
            {**begin, "feature": feature, "rows": n, name: float(of[j])}
            for j, feature, n in zip(found, subject.scorer.ids(np.array(found, dtype=np.intp)), times, strict=True)
        ]
    return rows


def largest(values: NDArray[Any], count: int) -> NDArray[np.intp]:
    """Return the positions of the largest nonzero absolute values, in decreasing order; ties by position."""
    size = np.abs(values)
    places = np.flatnonzero(size)
    if 0 < count < len(places):
        least = np.partition(size[places], len(places) - count)[len(places) - count]
        places = places[size[places] >= least]
    order: NDArray[np.intp] = places[np.argsort(-size[places], kind="stable")][:count]
    return order


def main_effects(subject: Subject, output: int) -> tuple[Floats, Floats]:
    """Return <v_0 beta, v_j> of each feature, and a bound on its error due to rounding of the parameters."""
    constant = subject.arrays["v0"][output].astype(np.float64)
    if "beta" in subject.arrays:
        constant *= subject.arrays["beta"][output]
    # einsum, not BLAS, because the sums of BLAS depend on the number of threads.
    terms = [
        (np.einsum("jf,f->j", part, constant), np.einsum("jf,f->j", np.abs(part), np.abs(constant)))
        for part in chunks(subject.arrays["V"][output])
    ] or [(np.zeros(0), np.zeros(0))]
    effect, size = (np.concatenate(column) for column in zip(*terms, strict=True))
    return effect, size * np.finfo(REAL_TYPE).eps


def nonzero_rows(subject: Subject, output: int) -> NDArray[np.bool_]:
    """Return bool (features): whether the weight of a feature or one of its factors is nonzero."""
    rows: NDArray[np.bool_] = subject.arrays["V"][output].any(axis=1)
    return rows | (subject.arrays["w"][output] != 0) if "w" in subject.arrays else rows


def share(chosen: NDArray[np.bool_]) -> float:
    """Return the share of true values; NaN if the array is empty."""
    return float(chosen.mean()) if chosen.size else math.nan
