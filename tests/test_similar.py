"""inspect --similar: cosines of factors, and what two features add together, for each kind that has factors."""

import numpy as np
import pytest
from problems import TRAINED, dataset
from test_recommending import BY_PAIRS, FEATURES, scorer_of

from fmcli.errors import UsageError
from fmcli.inspect.similar import Similar

WITHOUT = {"linear", *BY_PAIRS}


def pair_terms(scorer, feature):
    """Return (features) what each feature adds to the score of one beyond what both add alone, in double precision."""
    alone = dataset([{}, *({j: 1.0} for j in range(FEATURES))], FEATURES)
    score = scorer.scores(alone)[:, 0]
    both = scorer.scores(dataset([dict.fromkeys(sorted({feature, j}), 1.0) for j in range(FEATURES)], FEATURES))[:, 0]
    return both - score[1 + feature] - score[1:] + score[0]


@pytest.mark.parametrize("name", sorted(set(TRAINED) - WITHOUT - {"ffm"}))
def test_what_both_add_is_their_term(name, rng):
    scorer = scorer_of(name, rng)
    rows = Similar(scorer, "7").nearest(FEATURES)
    expected = pair_terms(scorer, 7)
    assert sorted(row["feature"] for row in rows) == [j for j in range(FEATURES) if j != 7]
    for row in rows:
        assert row["adds"] == pytest.approx(expected[row["feature"]], abs=1e-5)
    cosines = [row["cosine"] for row in rows]
    assert cosines == sorted(cosines, reverse=True)
    assert np.abs(cosines).max() <= 1 + 1e-12
    assert np.ptp(cosines) > 0.5


@pytest.mark.parametrize("name", ["fm", "shfm", "sha2", "pn"])
def test_cosines_are_those_of_weighted_factors(name, rng):
    """Of V, and with fitted kernel weights of V sqrt(|beta|)."""
    scorer = scorer_of(name, rng)
    p = scorer.model.parameters
    factors = (p["P"] if name == "pn" else p["V"])[0] * np.sqrt(np.abs(p["beta"][0]) if "beta" in p else 1)
    unit = factors / np.linalg.norm(factors, axis=1, keepdims=True)
    expected = unit @ unit[7]
    for row in Similar(scorer, "7").nearest(5):
        assert row["cosine"] == pytest.approx(expected[row["feature"]], rel=1e-6)
    assert Similar(scorer, "7").nearest(1)[0]["feature"] == np.argsort(-expected)[1]


def test_a_copy_is_the_most_similar(rng):
    for name in ("ffm", "lifted-anova", "all-subsets", "bilinear"):
        scorer = scorer_of(name, rng, draws=2)
        for model in scorer.draws:
            for array in model.parameters.values():
                for axis, size in enumerate(array.shape):
                    if size == FEATURES:
                        np.moveaxis(array, axis, 0)[9] = 2 * np.moveaxis(array, axis, 0)[11]
        first = Similar(scorer, "11").nearest(1)[0]
        assert first["feature"] == 9
        assert first["cosine"] == pytest.approx(1, rel=1e-6)


@pytest.mark.parametrize("name", sorted(WITHOUT))
def test_kinds_without_factors_are_refused(name, rng):
    with pytest.raises(UsageError, match=r"factors|anchors|does not state"):
        Similar(scorer_of(name, rng), "7")


def test_a_feature_that_is_not_there(rng):
    with pytest.raises(UsageError, match="there is no feature '77'"):
        Similar(scorer_of("fm", rng), "77")
