"""Intervals for numbers: quantiles of a mixture of normal distributions, and their coverage."""

import numpy as np
import pytest
from scipy.special import ndtr, ndtri

import fmcli
from fmcli.errors import BadInputError
from fmcli.model_file.container import ModelFile
from fmcli.scoring.intervals import intervals
from fmcli.scoring.scorer import scorer_of


def test_the_ends_are_quantiles_of_the_mean_distribution():
    random = np.random.default_rng(0)
    score, precision = 3 * random.normal(size=(7, 5)), random.uniform(0.1, 9, 7)
    for level in (0.01, 0.5, 0.9, 0.999):
        low, high = intervals(score, precision, level).T
        below, above = (ndtr((end - score) * np.sqrt(precision)[:, None]).mean(axis=0) for end in (low, high))
        assert below == pytest.approx((1 - level) / 2)
        assert above == pytest.approx((1 + level) / 2)
    one = intervals(score[:1], precision[:1], 0.9)
    assert one == pytest.approx(np.stack([score[0] + ndtri(share) / precision[0] ** 0.5 for share in (0.05, 0.95)], 1))
    assert intervals(score, precision, 0.9, (-1, 1)).min() == -1


def planted(rows, seed=0):
    random = np.random.default_rng(seed)
    x = random.integers(0, 2, (rows, 6)).astype(np.float32)
    return x, x @ np.arange(1.0, 7) + 2 * random.normal(size=rows)


def test_intervals_have_their_share_of_new_labels():
    x, y = planted(1500)
    model = fmcli.train((x[:500], y[:500]), solver="mcmc", epochs=40, rank=2, clip=False)
    predicted, ends = model.predict(x[500:], interval=0.9)
    low, high = ends.T
    assert ((low < predicted) & (predicted < high)).all()
    assert ((low <= y[500:]) & (y[500:] <= high)).mean() == pytest.approx(0.9, abs=0.04)
    assert np.diff(ends).mean() == pytest.approx(2 * 1.645 * 2, rel=0.15)
    _, std, again = model.predict(x[500:], std=True, interval=0.9)
    assert again.tolist() == ends.tolist()
    assert std.max() < 1


def test_each_draw_of_each_member_has_its_noise():
    x, y = planted(120)
    options = {"solver": "mcmc", "epochs": 8, "draws": 3, "rank": 1, "quick_search": False}
    scorer = fmcli.train((x, y), ensemble=2, **options)._scorer
    noise = scorer.noise
    apart = [fmcli.train((x, y), seed=seed, **options)._scorer.noise for seed in (0, 1)]
    assert noise.tolist() == np.concatenate(apart).tolist()
    assert len(set(noise)) == 6
    assert noise / scorer.labels.unit.scale**2 == pytest.approx(1 / 4, rel=0.6)


def test_models_without_noise_have_no_intervals():
    x, y = planted(120)
    with pytest.raises(ValueError, match="does not know the noise"):
        fmcli.train((x, y), epochs=1).predict(x, interval=0.9)
    model = fmcli.train((x, y), solver="mcmc", epochs=4)
    with pytest.raises(ValueError, match="between 0 and 1"):
        model.predict(x, interval=1)
    assert fmcli.train((x, y > y.mean()), solver="mcmc", epochs=4)._scorer.noise is None
    file, noise = model._file, model._scorer.noise
    for wrong in (-noise, noise[:-1], noise * np.nan, noise.astype("f4")):
        with pytest.raises(BadInputError, match="noise"):
            scorer_of("m", ModelFile(dict(file.meta), {**file.tensors, "noise": wrong}))
