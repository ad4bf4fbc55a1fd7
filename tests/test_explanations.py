"""Scores as sums of terms: for each kind that has them, shares are Shapley values, by all subsets of a row."""

from itertools import combinations
from math import factorial

import numpy as np
import pytest
from problems import TRAINED, build, choices, dataset, fields_of, fill

from fmcli.errors import UsageError
from fmcli.registry.models import MODELS
from fmcli.scoring.explain.lines import Writer
from fmcli.scoring.explain.splitter import Splitter
from reference import slow_models
from reference.kinds import KINDS

FEATURES = 8
# Kinds whose scores have no terms, and words of the reason that they give.
REASONS = {"llfm": "anchors", "kernel-basis": "training rows"}
NO_TERMS = [*(name for name in TRAINED if not KINDS[name].explained), "kernel-basis"]
# Options for orders above the default, which have other terms.
HIGHER = [("anova", {"order": 4}), ("anova", {"order": 3, "augment": True}), ("pn", {"order": 4}), ("pn", {"order": 3}),
          ("lifted-pn", {"order": 3}), ("lifted-anova", {"order": 4}), ("lifted-anova", {"order": 3, "augment": True}),
          ("hofm", {"order": 4}), ("hofm-shared", {"order": 4}), ("hofm-simplex", {"order": 3}),
          ("poly2", {"pair_bits": 3}), ("pn", {"augment": False}), ("fm", {"linear": False})]  # fmt: skip
CASES = [*((name, {}) for name in TRAINED if KINDS[name].explained), *HIGHER]


def subject(name, rng, outputs=1, **options):
    """Return a model with random parameters, the parameters, and a row with all features; an index occurs twice if the
    kind uses fields."""
    model = build(name, FEATURES, outputs, rank=3, **options)
    model.allocate(0)
    params = fill(model, rng)
    x = {j: float(np.float32(rng.uniform(0.2, 1.5) * rng.choice([-1, 1]))) for j in range(FEATURES)}
    if fields_of(name):
        x = {(j, j % fields_of(name)): value for j, value in x.items() if j != 4}
        x = dict(sorted({**x, (7, 2): 0.75}.items()))
    return model, params, x


def values_of_sets(name, params, x, model, options):
    """Return the score of each subset of a row's entries, by its bit mask, from the definition."""
    keys = list(x)
    params = {array: numbers.astype(np.float64) for array, numbers in params.items()}
    of_model = choices(model, **options)
    return [
        slow_models.score(name, params, {key: x[key] for i, key in enumerate(keys) if mask >> i & 1}, of_model)
        for mask in range(1 << len(keys))
    ]


def shapley(values, entries):
    """Return the Shapley values of a game by their definition: a mean over the subsets of the other players."""
    of_size = [factorial(size) * factorial(entries - size - 1) / factorial(entries) for size in range(entries)]
    sizes = [bin(mask).count("1") for mask in range(1 << entries)]
    return np.array(
        [
            sum(
                of_size[sizes[mask]] * (values[mask | 1 << i] - values[mask])
                for mask in range(1 << entries)
                if not mask >> i & 1
            )
            for i in range(entries)
        ]
    )


def shares_of(model, data, outputs=1):
    """Return (rows, outputs) scores and (entries, outputs) shares."""
    score, share = np.zeros((outputs, data.rows)), np.zeros((outputs, data.nnz))
    for output in range(outputs):
        Splitter(model.split(), output).shares(data, 0, data.rows, score[output], share[output])
    return score.T, share.T


@pytest.mark.parametrize(("name", "options"), CASES)
def test_shares_are_shapley_values(name, options, rng):
    model, params, x = subject(name, rng, outputs=2, **options)
    data = dataset([x, {}], FEATURES)
    values = values_of_sets(name, params, x, model, options)
    score, share = shares_of(model, data, 2)
    expected = shapley(values, len(x))
    size = np.abs(share).sum(axis=0) + np.abs(values[0])
    np.testing.assert_allclose(share, expected, rtol=0, atol=1e-12 * size.max())
    np.testing.assert_allclose(score, [values[-1], values[0]], rtol=0, atol=1e-12 * size.max())
    assert (np.abs(share.sum(axis=0) + values[0] - score[0]) <= 1e-12 * size).all()
    assert (np.abs(share) > 0).any(axis=0).all()


@pytest.mark.parametrize(("name", "options"), CASES)
def test_terms_of_sets_are_what_each_adds_to_its_parts(name, options, rng):
    """The term of a set is the alternating sum of the scores of its subsets."""
    model, params, x = subject(name, rng, **options)
    data = dataset([{}, x], FEATURES)
    values = [value[0] for value in values_of_sets(name, params, x, model, options)]
    splitter = Splitter(model.split(), 0)
    largest, scale = splitter.largest(data, 1), 1e-12 * np.abs(values).max() * 2**4
    assert splitter.largest(data, 0) == 0
    for size in range(1, 5):
        sets = list(combinations(range(len(x)), size))
        expected = np.array(
            [
                sum(
                    (-1) ** (size - some) * values[sum(1 << i for i in part)]
                    for some in range(size + 1)
                    for part in combinations(chosen, some)
                )
                for chosen in sets
            ]
        )
        found = np.zeros(len(sets))
        splitter.listed(data, 1, size, found)
        np.testing.assert_allclose(found, expected, rtol=0, atol=scale)
        assert size <= largest or np.abs(expected).max() <= scale
        if size > 1:
            assert splitter.sum(data, 1, size) == pytest.approx(expected.sum(), abs=scale * len(sets))


def test_long_rows_of_all_subsets_are_as_exact_as_short_ones(rng):
    """Of 200 features, 190 have no effect."""
    model = build("all-subsets", 200, rank=2)
    model.allocate(0)
    fill(model, rng)
    model.parameters["P"][:, 10:] *= 1e-3
    row = dict.fromkeys(range(200), 1.0)
    score, share = shares_of(model, dataset([row], 200))
    assert share.sum() + float(model.parameters["bias"][0]) + 2 == pytest.approx(score[0, 0], rel=1e-12)


@pytest.mark.parametrize("name", NO_TERMS)
def test_kinds_without_terms_say_why(name):
    model = build(name, FEATURES, rank=2)
    with pytest.raises(UsageError, match=REASONS.get(name, "does not state")):
        model.split()


def test_every_kind_has_terms_or_a_reason():
    assert {name for name, _ in CASES} | set(NO_TERMS) == set(MODELS)


def test_orders_with_too_many_terms_are_refused(rng):
    model = build("pn", FEATURES, rank=2, order=60)
    model.allocate(0)
    with pytest.raises(UsageError, match="lower order"):
        model.split()


def test_rows_of_another_model_are_refused(rng):
    model = build("fm", FEATURES, rank=2)
    model.allocate(0)
    splitter, data = Splitter(model.split(), 0), dataset([{FEATURES: 1.0}], FEATURES + 1)
    for call in (
        lambda: splitter.shares(data, 0, 1, np.zeros(1), np.zeros(1)),
        lambda: splitter.largest(data, 0),
        lambda: splitter.listed(data, 0, 1, np.zeros(1)),
        lambda: splitter.sum(data, 5, 2),
    ):
        with pytest.raises(ValueError, match="rows"):
            call()


@pytest.mark.parametrize("entries", [40, 90])
def test_shares_are_written_from_the_largest(entries, rng):
    """Equal shares are in the order of the entries; NaN comes first. Some are alike as floats."""
    share = rng.integers(-9, 10, entries) + rng.integers(2, size=entries) * 1e-12
    share[7] = np.nan
    rows = dataset([dict.fromkeys(range(entries), 1.0)], entries)
    text = Writer(None, None, False, False).text(1, rows, None, np.zeros((1, 1)), np.zeros(1), share[:, None])
    written = [int(line.split(b"\t")[2]) for line in text.splitlines()[2:]]
    assert written == sorted(range(entries), key=lambda j: -np.inf if j == 7 else -abs(share[j]))
