"""The items with the largest scores among all pairs, for each kind of model."""

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from problems import TRAINED, USUAL, build, dataset, fields_of, fill

from fmcli.data.labels import Relevance, saved_labels
from fmcli.data.scaling import Scaling
from fmcli.data.transform import Transform, marked
from fmcli.data.united import united
from fmcli.errors import UsageError
from fmcli.scoring.draws import Draws
from fmcli.scoring.metrics import metric_of
from fmcli.scoring.ranking import Others, RankedRows
from fmcli.scoring.recommend import recommender as recommender_module
from fmcli.scoring.recommend.factor_scores import FactorScores, PairwiseScores, pair_scores
from fmcli.scoring.recommend.lines import RecommendationText
from fmcli.scoring.recommend.named import NamedRows
from fmcli.scoring.recommend.rankings import above_each, above_single, near
from fmcli.scoring.recommend.recommender import Recommender, Seen
from fmcli.scoring.scorer import Scorer
from reference.kinds import KINDS

FEATURES, ITEMS = 40, 25  # the last features belong to items
BY_PAIRS = (*(name for name in TRAINED if not KINDS[name].explained), "poly2")
HIGHER = [("anova", {"order": 4}), ("pn", {"order": 3}), ("hofm", {"order": 3}), ("lifted-anova", {"order": 3})]
LABELS = {"logistic": [-1.0, 1.0], "probit": [-1.0, 1.0], "ordinal": [1.0, 2.0, 3.0]}
CASES = [*((name, {}) for name in TRAINED), *HIGHER]


def scorer_of(name, rng, draws=0, norm=False, loss="squared", outputs=1, **options):
    """Return a model with random parameters."""
    made = []
    for _ in range(1 + draws):
        model = build(name, FEATURES, outputs, rank=3, **options)
        model.allocate(0)
        fill(model, rng)
        model.remeasure()
        made.append(model)
    labels = saved_labels(loss, LABELS.get(loss))
    known = marked(np.ones(FEATURES, dtype=np.bool_))
    meta = {"model": name, "members": 1, "options": {**USUAL, **options, "clip": False}}
    all_draws = Draws(
        made[0],
        [{name: np.ascontiguousarray(array) for name, array in each.parameters.items()} for each in made[1:]],
        lambda features: build(name, features, outputs, rank=3, **options),
    )
    return Scorer(all_draws, Transform(labels, FEATURES, norm=norm, marks=known), meta, "m")


def problem(name, rng, contexts=30, items=20):
    """Return rows of contexts and items with 0 to 4 entries; some scores are equal."""
    fields = fields_of(name)

    def rows(count, low, high, own):
        found = []
        for _ in range(count):
            chosen = sorted(rng.choice(np.arange(low, high), rng.integers(0, 5), replace=False).tolist())
            values = np.float32(rng.uniform(0.2, 1.5, len(chosen)) * rng.choice([-1, 1], len(chosen))).tolist()
            found.append({(j, own[j % len(own)]) if fields else j: x for j, x in zip(chosen, values, strict=True)})
        return found

    of_contexts, of_items = rows(contexts, 0, FEATURES - ITEMS, [0, 1]), rows(items, FEATURES - ITEMS, FEATURES, [2, 1])
    of_items[items // 2] = of_items[3]
    return of_contexts, of_items


def best(score, top, seen=()):
    """Return the numbers of the largest scores of a context, equal ones in their order, by sorting all of them."""
    return [i for i in np.argsort(-score, kind="stable") if i not in seen][:top]


def scores_of(scorer, contexts, items):
    """Return (contexts, items) the mean of the raw scores of the draws, as predict has them, from the union of rows."""
    data = dataset([{**a, **b} for a in contexts for b in items], FEATURES)
    each = [replace(scorer, draws=Draws(draw)).scores(data)[:, 0] for draw in scorer.draws]
    return (sum(each) / len(each)).reshape(len(contexts), -1)


@pytest.mark.parametrize("norm", [False, True], ids=["", "norm"])
@pytest.mark.parametrize(("name", "options"), CASES)
def test_the_best_items_are_those_of_all_pairs(name, options, norm, rng):
    scorer = scorer_of(name, rng, norm=norm, **options)
    contexts, items = problem(name, rng)
    score = scores_of(scorer, contexts, items)
    pairs = rng.integers(0, [[len(contexts)], [len(items)]], (2, 100))
    recommender = Recommender(scorer, dataset(items, FEATURES), 6)
    by_pairs = name in BY_PAIRS or (name == "all-subsets" and norm)
    assert isinstance(recommender.scores, PairwiseScores if by_pairs else FactorScores)
    found = recommender.find(dataset(contexts, FEATURES), Seen.of(*pairs, len(contexts)))
    ends = np.cumsum(found.counts)
    for context in range(len(contexts)):
        some = slice(ends[context] - found.counts[context], ends[context])
        expected = best(score[context], 6, set(pairs[1, pairs[0] == context].tolist()))
        assert found.items[some].tolist() == expected
        np.testing.assert_array_equal(found.order[some], score[context, expected])
    np.testing.assert_array_equal(found.predictions[:, 0], found.order)
    assert np.ptp(score, axis=1).min() > 0


@pytest.mark.parametrize(("name", "options"), CASES)
def test_fast_scores_are_as_near_as_they_say(name, options, rng):
    """Except for an amount that is the same for all items of a context. The bound is not too wide to be of use."""
    for norm in (False, True):
        scorer = scorer_of(name, rng, norm=norm, **options)
        contexts, items = problem(name, rng)
        score, rows = scores_of(scorer, contexts, items), dataset(contexts, FEATURES)
        recommender = Recommender(scorer, dataset(items, FEATURES), 1)
        for first, fast, error in recommender.scores.each(rows):
            apart = fast - score[:, recommender.equal.rows[first : first + fast.shape[1]]]
            assert (np.ptp(apart, axis=1) / 2 <= error).all()
            assert norm or (error <= 1e-2 * (1 + np.abs(score).max())).all()


class Rounded:
    """Fast scores that are wrong by up to 3/16, apart from an amount for each context; many are equal."""

    def __init__(self, score, exact, rng):
        self.exact = exact
        noisy = score + rng.uniform(-1 / 16, 1 / 16, score.shape)
        self.fast = (np.round(4 * noisy) / 4 + np.arange(len(score))[:, None]).astype(np.float32)

    def each(self, contexts):
        for first in (0, 9):
            yield first, self.fast[:, first : 9 if first == 0 else None], np.full(contexts.rows, 0.188)


def test_rankings_by_fast_scores_are_those_of_all_scores(rng):
    scorer = scorer_of("fm", rng)
    contexts, items = problem("fm", rng)
    score = scores_of(scorer, contexts, items)
    labeled, kept = rng.random((2, *score.shape)) < np.array([0.15, 0.8])[:, None, None]
    labeled[:, 3] |= ~labeled.any(axis=1)  # an item that is equal to the one in the middle
    others = kept & ~labeled
    kept |= labeled
    label = np.where(labeled, rng.integers(0, 4, score.shape), -np.inf)
    exact = pair_scores(scorer, dataset(items, FEATURES))[0].exact
    none_last = np.zeros(len(items), dtype=bool)
    found = near(Rounded(score, exact, rng), dataset(contexts, FEATURES), labeled, others, none_last)
    assert len(contexts) < labeled.sum() < len(found.score) < kept.sum()
    count = kept.sum(axis=1) - np.bincount(found.context)
    others, relevance = Others(count, found.ahead), Relevance(1.0)
    ranked = RankedRows(label[found.context, found.item], found.score, found.context, relevance, others)
    expected = RankedRows(label[kept], score[kept], np.nonzero(kept)[0], relevance)
    relevant = RankedRows(label[kept], score[kept], np.nonzero(kept)[0], relevance._replace(graded=False))
    gauc = metric_of("gauc").of_groups
    np.testing.assert_allclose(gauc(ranked), gauc(relevant), rtol=1e-12)
    for name in ("ndcg", "ndcg@4", "map", "mrr", "recall@5", "precision@3", "hit@2"):
        of_groups = metric_of(name).of_groups
        np.testing.assert_allclose(of_groups(ranked), of_groups(expected), rtol=1e-12, err_msg=name)


@pytest.mark.parametrize("loss", ["squared", "logistic", "probit", "poisson", "ordinal"])
def test_draws_are_ordered_by_the_prediction_that_they_print(loss, rng):
    scorer = scorer_of("fm", rng, draws=3, loss=loss)
    contexts, items = problem("fm", rng)
    pairs = united(*(dataset(rows, FEATURES) for rows in (contexts, items)), *every(len(contexts), len(items)))
    predicted = scorer.predictions(pairs, scorer.default_output()).reshape(len(contexts), -1)
    found = Recommender(scorer, dataset(items, FEATURES), 20).find(dataset(contexts, FEATURES))
    printed = found.predictions.reshape(predicted.shape)
    assert (np.diff(printed) <= 0).all()
    np.testing.assert_array_equal(printed, -np.sort(-predicted, axis=1))
    np.testing.assert_array_equal(printed, np.take_along_axis(predicted, found.items.reshape(predicted.shape), axis=1))
    by_scores = np.argsort(-scores_of(scorer, contexts, items), axis=1, kind="stable")
    assert (loss == "squared") == np.array_equal(found.items.reshape(predicted.shape), by_scores)


def every(contexts, items):
    """Return the numbers of all pairs."""
    return (np.repeat(np.arange(contexts, dtype=np.int32), items), np.tile(np.arange(items, dtype=np.int32), contexts))


def test_scores_that_differ_by_rounding_errors_have_the_order_of_predict(rng):
    """Of 25 items with nearly the same factors, whose fast scores have another order."""
    scorer = scorer_of("fm", rng)
    for name in ("w", "V"):
        array = scorer.model.parameters[name][0]
        array[15:] = array[15] * (1 + 1e-7 * rng.integers(-2, 3, array[15:].shape))
    scorer.model.remeasure()
    contexts, items = [{j: 1.0} for j in range(15)], [{15 + j: 1.0} for j in range(25)]
    score = scores_of(scorer, contexts, items)
    recommender = Recommender(scorer, dataset(items, FEATURES), 5)
    found = recommender.find(dataset(contexts, FEATURES))
    expected = [best(row, 5) for row in score]
    assert found.items.reshape(-1, 5).tolist() == expected
    _, fast, _ = next(recommender.scores.each(dataset(contexts, FEATURES)))
    assert [best(row, 5) for row in fast] != expected


def test_blocks_of_contexts_are_as_all_at_once(rng, monkeypatch):
    scorer = scorer_of("ffm", rng)
    contexts, items = (dataset(rows, FEATURES) for rows in problem("ffm", rng))
    seen = Seen.of(*rng.integers(0, [[contexts.rows], [items.rows]], (2, 200)), contexts.rows)
    recommender = Recommender(scorer, items, 4)
    whole = recommender.find(contexts, seen)
    monkeypatch.setattr("fmcli.scoring.recommend.recommender.CONTEXTS_AT_ONCE", 7)
    monkeypatch.setattr("fmcli.scoring.recommend.factor_scores.ITEMS_OF_PRODUCTS", 3)
    monkeypatch.setattr("fmcli.scoring.recommend.factor_scores.ROWS_AT_ONCE", 2)
    firsts, blocks = zip(*recommender.each(contexts, seen, 2), strict=True)
    assert firsts == (0, 7, 14, 21, 28)
    np.testing.assert_array_equal(np.concatenate([block.items for block in blocks]), whole.items)
    np.testing.assert_array_equal(np.concatenate([block.counts for block in blocks]), whole.counts)


def test_equal_items_keep_their_order(rng, monkeypatch):
    """There are 60 items of 4 kinds; contexts have seen some items, or all items of a kind."""
    monkeypatch.setattr("fmcli.scoring.recommend.recommender.PAIRS_AT_ONCE", 5)
    scorer = scorer_of("fm", rng)
    contexts = [{j: 1.0} for j in range(8)]
    items = [{20 + j: 1.0} for j in rng.integers(0, 4, 60).tolist()]
    score = scores_of(scorer, contexts, items)
    seen = (rng.random(score.shape) < 0.5) | (score == score.max(axis=1, keepdims=True)) * (np.arange(8)[:, None] < 3)
    found = Recommender(scorer, dataset(items, FEATURES), 20).find(
        dataset(contexts, FEATURES), Seen.of(*np.nonzero(seen), len(contexts))
    )
    for context, chosen in enumerate(np.split(found.items, np.cumsum(found.counts)[:-1])):
        assert chosen.tolist() == best(score[context], 20, set(np.flatnonzero(seen[context]).tolist()))


def test_memory_does_not_grow_with_the_number_of_pairs(rng):
    """160 MB for the scores of all pairs."""
    scorer = scorer_of("fm", rng)
    contexts, items = dataset([{0: 1.0}] * 20_000, FEATURES), dataset([{15: 1.0}] * 2000, FEATURES)
    tracemalloc.start()
    try:
        found = sum(len(block.items) for _, block in Recommender(scorer, items, 3).each(contexts, None, 1))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert found == 3 * contexts.rows
    assert peak < 40e6


def test_columns_that_are_shifted_count_once(rng):
    """As zscore shifts the columns that most rows have, so all rows have them."""
    scorer = scorer_of("fm", rng)
    centers = np.zeros(FEATURES, dtype=np.float32)
    centers[[2, 30]] = 0.5, -1.5
    scale = Scaling(rng.uniform(0.5, 2, FEATURES).astype(np.float32), centers)
    scorer = replace(scorer, transform=replace(scorer.transform, scale=scale))
    contexts, items = problem("fm", rng)
    score = scores_of(scorer, contexts, items)
    found = Recommender(scorer, dataset(items, FEATURES), 5).find(dataset(contexts, FEATURES))
    assert found.items.reshape(-1, 5).tolist() == [best(row, 5) for row in score]


def test_numbers_that_are_not_finite_come_last(rng):
    """One item has a factor that is not a number, one a weight beyond float32."""
    scorer = scorer_of("fm", rng)
    scorer.model.parameters["V"][0, 39] = np.nan
    scorer.model.parameters["w"][0, 38] = 3e38
    scorer.model.remeasure()
    items = [{15: 1.0}, {39: 1.0}, {38: 2.0}, {16: 1.0}]
    found = Recommender(scorer, dataset(items, FEATURES), 3).find(dataset([{0: 1.0}, {1: 1.0}], FEATURES))
    assert found.counts.tolist() == [3, 3]
    assert (found.items.reshape(2, 3)[:, 0] == 2).all()
    assert not (found.items == 1).any()


def test_several_classes_have_no_order(rng):
    scorer = scorer_of("fm", rng, outputs=3)
    with pytest.raises(UsageError, match="3 classes"):
        Recommender(scorer, dataset([{39: 1.0}], FEATURES), 3)


def test_a_feature_of_both_is_found(rng):
    recommender = Recommender(scorer_of("fm", rng), dataset([{39: 1.0}, {}], FEATURES), 3)
    assert recommender.shared(dataset([{1: 1.0}, {}, {2: 1.0, 39: 0.5}, {39: 1.0}], FEATURES)) == (2, 39)
    assert recommender.shared(dataset([{1: 1.0}, {}], FEATURES)) is None


def test_memory_does_not_grow_with_the_number_of_items_for_each(rng, monkeypatch):
    """All pairs with their text at once take 4 MB."""
    monkeypatch.setattr(recommender_module, "FOUND_AT_ONCE", 1000)
    scorer = scorer_of("fm", rng)
    contexts, items = dataset([{0: 1.0}] * 40, FEATURES), dataset([{15: 1.0}] * 500, FEATURES)
    recommender = Recommender(scorer, items, 500)
    rows = [NamedRows(data, [b"7"] * data.rows, None, None, {}, "rows", None) for data in (contexts, items)]
    lines = RecommendationText(recommender, *rows, None, json=False)
    assert recommender.gives_one_list(contexts)  # imports modules
    tracemalloc.start()
    try:
        assert recommender.gives_one_list(contexts)
        size = sum(len(text) for block in recommender.each(contexts, None, 1) for text in lines.texts(*block))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert size > 5 * contexts.rows * items.rows
    assert peak < 1e6


def test_users_with_one_labeled_item_are_ranked_as_users_with_several(rng):
    fast = rng.normal(size=(40, 60)).astype(np.float32).round(1)
    labeled = np.arange(60) == rng.integers(60, size=40)[:, None]
    others, margins = ~labeled & (rng.random(labeled.shape) < 0.8), rng.uniform(0, 0.3, 40)
    exact, expected = labeled.copy(), labeled.copy()
    found = above_single(fast, labeled, exact, others, margins)
    assert found.tolist() == [counts[0] for counts in above_each(fast, labeled, expected, others, margins)]
    assert np.array_equal(exact, expected)
    assert labeled.sum() < exact.sum() < labeled.size
