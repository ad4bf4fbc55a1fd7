"""Draws that lie side by side in memory are scored with the bits of models of their own."""

import mmap
import threading

import numpy as np
import pytest
from problems import build, dataset, random_rows

from fmcli.models.layout import REAL_TYPE
from fmcli.scoring import draws, rows
from fmcli.scoring.draws import Draws
from fmcli.scoring.interleaved import DRAWS_TOGETHER, InterleavedFM
from fmcli.scoring.rows import score_rows

FEATURES = 40


def models(count, rank, bias=True, linear=True, kind="fm"):
    """Models whose parameters are attached without padding, as from a file."""
    rng, found = np.random.default_rng(0), []
    for _ in range(count):
        model = build(kind, FEATURES, rank=rank, bias=bias, linear=linear)
        model.attach({name: rng.normal(size=shape).astype(REAL_TYPE) for name, shape in model.shapes().items()})
        found.append(model)
    return found


@pytest.mark.parametrize(
    ("rank", "count", "bias", "linear"),
    [
        (8, 2, True, True),
        (1, 9, False, True),
        (4, 17, True, False),
        (5, 8, False, False),
        (12, 3, True, True),
        (16, 19, True, True),
    ],
)
def test_scores_have_the_same_bits(rank, count, bias, linear, monkeypatch):
    for module in (rows, draws):
        monkeypatch.setattr(module, "ROWS_A_TASK", 16)
    data = dataset(random_rows(np.random.default_rng(rank), 50, FEATURES, fields=0), FEATURES, np.zeros(50))
    some = np.random.default_rng(1).permutation(50)[:33].astype(np.int32)
    every = models(count, rank, bias, linear)
    together = Draws(every)
    assert together.interleaved
    assert together.bytes > 0
    for threads, chosen in ((1, None), (2, None), (2, some), (1, some[:0])):
        found = list(together.scores(data, threads, chosen))
        wanted = [score_rows(model, data, rows=chosen) for model in every]
        assert [score.tobytes() for score in found] == [score.tobytes() for score in wanted]
        assert [score.shape for score in found] == [score.shape for score in wanted]


def test_only_the_rows_of_a_sample_are_prefetched():
    """Rows of one factor are as long as their weights, also if these are in an array of their own, here 64 GiB behind
    them: to prefetch all that lies between them took hours."""
    memory = mmap.mmap(-1, 1 << 36, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=mmap.PROT_READ)
    zeros = np.frombuffer(memory, dtype=REAL_TYPE)
    model = build("fm", FEATURES, rank=1, bias=True, linear=True)
    shapes = model.shapes()
    ends = {"bias": zeros[:1], "V": zeros[:FEATURES], "w": zeros[-FEATURES:]}
    model.attach({name: ends[name].reshape(shape) for name, shape in shapes.items()})
    data = dataset(random_rows(np.random.default_rng(0), 50, FEATURES, fields=0), FEATURES, np.zeros(50))
    found = []
    thread = threading.Thread(target=lambda: found.append(score_rows(model, data)), daemon=True)
    thread.start()
    thread.join(20)
    assert not thread.is_alive()
    assert not found[0].any()


def test_other_models_are_scored_one_after_the_other():
    data = dataset([{0: 1.0, 3: 2.0}, {}], FEATURES, np.zeros(2))
    for every in (models(1, 4), models(2, 17), models(2, 4, kind="shfm")):
        alone = Draws(every)
        assert not alone.interleaved
        assert alone.bytes == 0
        np.testing.assert_array_equal([*alone.scores(data)], [score_rows(model, data) for model in every])


def test_what_does_not_fit_is_refused():
    factors = [np.ones((2, 3), dtype=REAL_TYPE)]
    with pytest.raises(ValueError, match="at most 8"):
        InterleavedFM(factors * (DRAWS_TOGETHER + 1), None, [0.0] * 9)
    group, out = InterleavedFM(factors, None, [0.0]), np.empty((1, 1))
    with pytest.raises(ValueError, match="features that the model does not have"):
        group.scores(dataset([{2: 1.0}], 3, np.zeros(1)), 0, 1, out)
    with pytest.raises(ValueError, match="do not fit"):
        group.scores(dataset([{1: 1.0}] * 2, 2, np.zeros(2)), 0, 2, out)
