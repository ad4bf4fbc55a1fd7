"""Interactions of pairs of features, computed from scores, equal the models' definitions."""

from collections import Counter
from dataclasses import replace
from itertools import combinations
from types import SimpleNamespace

import numpy as np
import pytest
from problems import CLOSE, TRAINED, build, choices, dataset, fields_of, fill, is_linear, random_rows

from fmcli.base.label_unit import ONE
from fmcli.base.scan import most_frequent
from fmcli.data.counts import occurrences
from fmcli.data.counts.occurrences import Occurrences, added, compact
from fmcli.data.counts.pairs import first_fields, together
from fmcli.inspect import inspection
from fmcli.inspect.inspection import Subject
from fmcli.inspect.interactions import interactions
from reference import slow_models

FEATURES = 9


def scorer_of(name, rng, frequent, outputs=1, together=None, **options):
    """Return a scorer with random parameters, as `interactions` takes it, and the arrays of its model."""
    model = build(name, FEATURES, outputs, rank=4, **options)
    model.allocate(0)
    params = fill(model, rng)
    features, fields = np.array(frequent, dtype=np.int32).reshape(-1, 2).T
    found = Occurrences(np.ascontiguousarray(features), np.ascontiguousarray(fields), together=together)
    labels = SimpleNamespace(values=None, shown=None, unit=ONE)
    scorer = SimpleNamespace(
        model=model,
        occurrences=found,
        needs_fields=fields_of(name) > 0,
        labels=labels,
        transform=SimpleNamespace(table=None),
        seen=np.ones(FEATURES),
        ids=np.ndarray.tolist,
    )
    return scorer, params


@pytest.mark.parametrize("name", TRAINED)
def test_interactions_equal_the_definition(name, rng):
    frequent = [[7, 1], [2, 0], [5, 2], [3, 0]]
    scorer, params = scorer_of(name, rng, frequent, outputs=2)
    found = interactions(scorer)
    pairs, fields, added = found.features, found.fields, found.added
    assert [tuple(pair) for pair in pairs] == [(2, 3), (2, 5), (2, 7), (3, 5), (3, 7), (5, 7)]
    field = dict(frequent)
    assert (fields is not None) == scorer.needs_fields
    if fields is not None:
        assert [[field[j] for j in pair] for pair in pairs.tolist()] == fields.tolist()

    def score(*features):
        x = {((j, field[j]) if scorer.needs_fields else j): 1.0 for j in features}
        return slow_models.score(name, params, x, choices(scorer.model))

    slow = [score(i, j) - score(i) - score(j) + score() for i, j in pairs.tolist()]
    np.testing.assert_allclose(added, slow, rtol=CLOSE["rtol"], atol=100 * CLOSE["atol"])
    assert added.any() != is_linear(scorer.model)


def test_rounding_is_no_interaction(rng):
    scorer, _ = scorer_of("fm", rng, [[j, 0] for j in range(FEATURES)])
    scorer.model.parameters["V"][...] = 0
    scorer.model.parameters["w"][...] *= 1000
    assert not interactions(scorer).added.any()


def test_one_feature_or_none_have_no_pairs(rng):
    for frequent in ([], [[3, 0]]):
        scorer, _ = scorer_of("fm", rng, frequent)
        assert interactions(scorer).added.shape == (0, 1)


def test_pairs_that_no_row_has_are_left_out(rng):
    """The order of the features in the file does not matter."""
    frequent = [[7, 0], [2, 0], [5, 0], [3, 0]]
    all_pairs, _ = scorer_of("fm", rng, frequent)
    some, _ = scorer_of("fm", rng, frequent, together=np.array([0, 4, 2, 0, 0, 9], dtype=np.int32))
    some.model = all_pairs.model
    found, every = interactions(some), interactions(all_pairs)
    assert found.features.tolist() == [[3, 5], [3, 7], [5, 7]]
    assert found.together.tolist() == [9, 2, 4]
    added = dict(zip(map(tuple, every.features.tolist()), every.added[:, 0].tolist(), strict=True))
    assert found.added[:, 0].tolist() == [added[3, 5], added[3, 7], added[5, 7]]
    rows = inspection.pairs(Subject("m", some, True, 10, {}))
    assert {(row["feature"], row["other"]): row["rows"] for row in rows} == {(3, 5): 9, (3, 7): 2, (5, 7): 4}
    assert {row["rows"] for row in inspection.pairs(Subject("m", all_pairs, True, 10, {}))} == {None}


def test_a_pair_of_many_rows_comes_before_a_stronger_one_of_a_single_row(rng):
    """With r rows, the interaction x is listed by |x| times the root of r, which one row alone does not lead."""
    frequent = [[2, 0], [3, 0], [5, 0], [7, 0]]
    plain, _ = scorer_of("fm", rng, frequent)
    added = interactions(plain).added[:, 0]
    strongest = np.argmax(np.abs(added))
    together = np.full(6, 400, dtype=np.int32)
    together[strongest] = 1
    counted, _ = scorer_of("fm", rng, frequent, together=together)
    counted.model = plain.model
    listed = [row["adds"] for row in inspection.pairs(Subject("m", counted, True, 10, {}))]
    assert listed == sorted(added, key=lambda x: -abs(x) * (1 if x == added[strongest] else 20))
    assert listed[0] != added[strongest]


def test_importance_joins_what_a_feature_adds_alone_and_in_pairs(rng):
    frequent = [[7, 0], [2, 0], [5, 0], [3, 0]]
    times, together = [900, 40, 30, 2], {(7, 2): 30, (7, 5): 4, (7, 3): 2, (2, 5): 9, (2, 3): 0, (5, 3): 1}
    scorer, params = scorer_of("fm", rng, frequent, together=np.array(list(together.values()), dtype=np.int32))
    scorer.occurrences = replace(scorer.occurrences, rows=np.array(times))

    def score(*features):
        return slow_models.score("fm", params, dict.fromkeys(features, 1.0), choices(scorer.model))[0]

    expected = {}
    for (j, _), n in zip(frequent, times, strict=True):
        adds = [
            score(*pair) - score(pair[0]) - score(pair[1]) + score() for pair, n in together.items() for _ in range(n)
            if j in pair
        ]  # fmt: skip
        expected[j] = (n, score(j) - score(), np.sqrt(np.mean(np.square(adds))))
    rows = inspection.importance(Subject("m", scorer, True, 10, {}))
    found = {row["feature"]: (row["rows"], row["alone"], row["pairs"]) for row in rows}
    assert found == {j: pytest.approx(values, rel=1e-4) for j, values in expected.items()}
    assert list(found) == sorted(found, key=lambda j: -found[j][0] * (found[j][1] ** 2 + found[j][2] ** 2))
    scorer.occurrences = replace(scorer.occurrences, rows=None)  # as of imported models
    assert {row["rows"] for row in inspection.importance(Subject("m", scorer, True, 2, {}))} == {None}


def test_fields_are_as_strong_as_the_pairs_of_their_features(rng):
    frequent = [[0, 2], [1, 2], [4, 0], [6, 1]]
    scorer, _ = scorer_of("ffm", rng, frequent)
    every = interactions(scorer)
    of_pair = dict(zip(map(tuple, every.features.tolist()), every.added[:, 0], strict=True))
    rows = inspection.field_pairs(Subject("m", scorer, True, 10, {}))
    found = {(row["field"], row["other"]): row["strength"] for row in rows}
    assert found == pytest.approx(
        {
            (2, 2): abs(of_pair[0, 1]),
            (0, 2): np.sqrt((of_pair[0, 4] ** 2 + of_pair[1, 4] ** 2) / 2),
            (1, 2): np.sqrt((of_pair[0, 6] ** 2 + of_pair[1, 6] ** 2) / 2),
            (0, 1): abs(of_pair[4, 6]),
        }
    )
    assert [row["strength"] for row in rows] == sorted(found.values(), reverse=True)
    strongest = inspection.pairs(Subject("m", scorer, True, 2, {}))
    assert [abs(row["adds"]) for row in strongest] == sorted(map(abs, of_pair.values()), reverse=True)[:2]


@pytest.mark.parametrize("fields", [0, 3])
def test_the_most_frequent_features(rng, fields):
    rows = random_rows(rng, 30, FEATURES, fields=fields)
    data = dataset(rows, FEATURES)
    keys = [key if fields else (key, 0) for x in rows for key in x]
    indices = [{key[0] if fields else key for key in x} for x in rows]
    counts = Counter(j for x in indices for j in x)
    order = sorted(counts, key=lambda j: (-counts[j], j))
    first = dict(reversed(keys))
    everything = np.arange(30, dtype=np.int32)
    counted = data.counts(everything)
    assert counted.tolist() == [counts[j] for j in range(FEATURES)]
    assert data.counts(everything, 3).tolist() == counted.tolist()
    features = most_frequent(counted, 4)
    assert features.tolist() == order[:4]
    assert first_fields(data, everything, features).tolist() == [first[j] for j in order[:4]]
    assert sorted(most_frequent(counted, 100).tolist()) == sorted(counts)
    assert most_frequent(counted, 0).tolist() == []
    # The counts of pairs of these features, in some of the rows.
    some = np.ascontiguousarray(everything[::3])
    both = [len([i for i in some if {j, k} <= indices[i]]) for j, k in combinations(order[:4], 2)]
    assert together(data.take(some), features).tolist() == both


def test_counts_have_the_smallest_type(rng):
    few, many = np.array([3, 255, 0], dtype=np.int32), np.array([3, 256], dtype=np.int32)
    assert compact(few).dtype == np.uint8
    assert compact(few).tolist() == [3, 255, 0]
    assert compact(many).tolist() == [3, 256]
    data = dataset(random_rows(rng, 30, FEATURES), FEATURES).changed(label=np.zeros(30))
    rows = np.arange(30, dtype=np.int32)
    assert occurrences.count(data, rows).counts.tolist() == data.counts(rows).tolist()


def test_sums_of_counts_end_at_the_largest_number():
    highest = np.iinfo(np.int32).max
    sums = added(np.array([highest, 1, 2], dtype=np.int32), np.array([1, highest], dtype=np.int32))
    assert sums.tolist() == [highest, highest, 2]
    assert sums.dtype == np.int32
