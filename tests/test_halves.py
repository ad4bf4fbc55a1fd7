"""Halves of rows: the score of a union is the sum of the terms of both, and the inner product of their vectors."""

import numpy as np
import pytest
from problems import build, dataset, fields_of, fill
from test_explanations import CASES, FEATURES

from fmcli.models.split import by_degree
from fmcli.scoring.explain.splitter import Splitter

WITHOUT = ("poly2",)
HALVES = [case for case in CASES if case[0] not in WITHOUT]


def halves(name, rng, **options):
    """Return a model with random parameters, and rows of features below and from 6 on, of different lengths."""
    model = build(name, FEATURES, rank=3, **options)
    model.allocate(0)
    fill(model, rng)
    fields = fields_of(name)

    def rows(low, high):
        found = []
        for size in (0, 1, 2, high - low):
            chosen = sorted(rng.choice(np.arange(low, high), size, replace=False).tolist())
            values = [float(np.float32(rng.uniform(0.2, 1.5) * rng.choice([-1, 1]))) for _ in chosen]
            found.append({(j, j % fields) if fields else j: x for j, x in zip(chosen, values, strict=True)})
        return found

    return model, rows(0, 6), rows(6, FEATURES), list(range(fields))


def of_rows(splitter, data, second, bounding=False):
    own, vectors = np.zeros(data.rows), np.zeros((data.rows, splitter.width))
    splitter.halves(data, 0, data.rows, own, vectors, second=second, bounding=bounding)
    return own, vectors


def sums(splitter, first, second, bounding=False):
    """Return (rows, rows) the sums of what halves have, without the constant."""
    (own, a), (other, b) = (of_rows(splitter, data, which, bounding) for which, data in enumerate((first, second)))
    return own[:, None] + other + a @ b.T


def score_of(splitter, rows):
    data = dataset(rows, FEATURES)
    score = np.zeros(data.rows)
    splitter.shares(data, 0, data.rows, score, np.zeros(data.nnz))
    return score


@pytest.mark.parametrize(("name", "options"), HALVES)
def test_halves_sum_to_the_score_of_their_union(name, options, rng):
    model, one, two, fields = halves(name, rng, **options)
    splitter = Splitter(model.split(), 0, (fields, fields))
    first, second = dataset(one, FEATURES), dataset(two, FEATURES)
    score = score_of(splitter, [a | b for a in one for b in two]).reshape(len(one), -1)
    found, bound = sums(splitter, first, second), sums(splitter, first, second, bounding=True)
    np.testing.assert_allclose(found + splitter.constant, score, rtol=0, atol=1e-12 * np.abs(score).max())
    assert (bound >= np.abs(found) * (1 - 1e-12)).all()
    assert name == "linear" or np.abs(np.ptp(score - score[:, :1] - score[:1], axis=0)).max() > 1e-3


@pytest.mark.parametrize(("name", "options"), HALVES)
def test_degrees_are_powers_of_a_factor_of_the_values(name, options, rng):
    model, one, _, fields = halves(name, rng, **options)
    split = model.split()
    degrees = by_degree(split)
    if name == "all-subsets":
        assert degrees is None
        return
    parts = {degree: score_of(Splitter(each, 0, (fields, fields)), one) for degree, each in degrees.items()}
    for factor in (1.0, 0.5, -2.0):
        expected = score_of(Splitter(split, 0, (fields, fields)), [{j: factor * x[j] for j in x} for x in one])
        found = split.constant[0] + sum(factor**degree * part for degree, part in parts.items())
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("name", "options", "numbers"),
    [("fm", {}, 3), ("anova", {"order": 4}, 9), ("hofm", {"order": 3}, 9), ("hofm-shared", {"order": 4}, 9),
     ("pn", {"order": 4}, 9), ("bilinear", {}, 6), ("all-subsets", {}, 3), ("lifted-pn", {"order": 3}, 18),
     ("lifted-anova", {"order": 3}, 18), ("ffm", {}, 27), ("linear", {}, 0)],
)  # fmt: skip
def test_vectors_have_no_more_numbers_than_the_score_needs(name, options, numbers, rng):
    """k (m - 1) numbers, k r (2^m - 2) of lifted kinds, k for each pair of fields; the rank is 3."""
    model, _, _, fields = halves(name, rng, **options)
    assert Splitter(model.split(), 0, (fields, fields)).width == numbers
