"""Draws that lie side by side in memory are scored with the bits of models of their own."""

import mmap
import threading

import numpy as np
import pytest
from problems import build, dataset, random_rows

from fmcli.model_file.state import as_halves
from fmcli.models.kept import HALF, widened
from fmcli.models.layout import REAL_TYPE
from fmcli.scoring import draws, rows
from fmcli.scoring.draws import Draws
from fmcli.scoring.interleaved import DRAWS_TOGETHER, InterleavedFM
from fmcli.scoring.rows import score_rows

FEATURES = 40
# Kinds of models with an axis of features in any place, and with a table of pairs, whose places depend on all features.
KINDS_TO_HALVE = "fm", "linear", "hofm", "all-subsets", "shfm", "poly2"


def drawn(count, rank, bias=True, linear=True, kind="fm", halved=False):
    """Draws whose parameters are attached without padding, as from a file, all but the last one in 16 bits if
    they are halved; and a model for each of them."""
    rng, every = np.random.default_rng(0), []

    def make(features):
        return build(kind, features, rank=rank, bias=bias, linear=linear, fields=2)

    for number in range(count):
        draw = {name: rng.normal(size=shape).astype(REAL_TYPE) for name, shape in make(FEATURES).shapes().items()}
        every.append(
            {name: as_halves(array) if halved and number + 1 < count else array for name, array in draw.items()}
        )
    models = []
    for draw in every:
        models.append(make(FEATURES))
        models[-1].attach({name: array.astype(REAL_TYPE) for name, array in draw.items()})
    return Draws(models[-1], every[:-1], make), models


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
    for halved in (False, True):
        together, every = drawn(count, rank, bias, linear, halved=halved)
        assert together.interleaved
        assert together.bytes > 0
        for threads, chosen in ((1, None), (2, None), (2, some), (1, some[:0])):
            assert_same_bits(
                together.scores(data, threads, chosen), [score_rows(one, data, rows=chosen) for one in every]
            )


def assert_same_bits(found, wanted):
    for score, expected in zip(found, wanted, strict=True):
        assert score.shape == expected.shape
        assert score.tobytes() == expected.tobytes()


@pytest.mark.parametrize("rank", [1, 3, 8, 17])
@pytest.mark.parametrize("kind", KINDS_TO_HALVE)
def test_few_rows_are_scored_by_the_parameters_of_their_features(kind, rank):
    """Fewer entries than features, so that no others are copied."""
    data = dataset([{3: 1.0, 7: -2.0, 39: 0.5}, {}, {0: 3.0, 7: 1.0}], FEATURES, np.zeros(3))
    for halved in (False, True):
        together, every = drawn(10, rank, kind=kind, halved=halved)
        assert together.halved == halved
        assert_same_bits(together.scores(data), [score_rows(one, data) for one in every])
        assert_same_bits(together.scores(dataset([], FEATURES, np.zeros(0))), [np.empty((0, 1))] * 10)


def test_all_numbers_of_16_bits_become_reals():
    every = np.arange(1 << 16, dtype=np.uint16).view(HALF)
    finite = every[np.isfinite(every)]
    assert widened(finite).tobytes() == finite.astype(REAL_TYPE).tobytes()
    assert widened(finite, 0, np.array([1, 5, 600], dtype=np.int32)).tolist() == finite[[1, 5, 600]].tolist()
    with pytest.raises(ValueError, match="does not have these columns"):
        widened(finite, 0, np.array([0, len(finite)], dtype=np.int32))


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
    for alone, every in (drawn(1, 4), drawn(2, 17), drawn(2, 4, kind="shfm")):
        assert not alone.interleaved
        assert alone.bytes == 0
        np.testing.assert_array_equal([*alone.scores(data)], [score_rows(model, data) for model in every])


def test_what_does_not_fit_is_refused():
    factors = [np.ones((2, 3), dtype=REAL_TYPE)]
    with pytest.raises(ValueError, match="at most 8"):
        InterleavedFM(factors * (DRAWS_TOGETHER + 1), None, [0.0] * 9)
    with pytest.raises(ValueError, match="do not fit a draw"):
        InterleavedFM([factors[0].astype(np.int32)], None, [0.0])
    group, out = InterleavedFM(factors, None, [0.0]), np.empty((1, 1))
    with pytest.raises(ValueError, match="do not have these features"):
        group.interleaved(np.array([0, 2], dtype=np.int32))
    copies = group.interleaved()
    with pytest.raises(ValueError, match="features that the copies do not have"):
        group.scores(copies, dataset([{2: 1.0}], 3, np.zeros(1)), 0, 1, out)
    with pytest.raises(ValueError, match="do not fit"):
        group.scores(copies, dataset([{1: 1.0}] * 2, 2, np.zeros(2)), 0, 2, out)
