"""Training on pairs of rows: which pairs are drawn, their gradient, and what is refused."""

import itertools
import math

import numpy as np
import pytest
from problems import build, dataset, fill, grouped, parameters, random_rows, score_all
from scipy.stats import chisquare

from fmcli.data.shards.paired_rows import NO_PARTNER, PairedRows
from fmcli.errors import BadInputError, UsageError
from fmcli.penalties.penalty import Penalty
from fmcli.registry.losses import LOSSES
from fmcli.registry.specs import make_spec
from fmcli.scoring.metrics import measure
from fmcli.solvers.stochastic.loop import RowLoop
from fmcli.solvers.stochastic.sgd import SGD
from fmcli.training import job
from fmcli.training.several.refit import refit, whole

ROWS = np.random.default_rng(3).permutation(40)[:30].astype(np.int32)  # not all, and in no order


@pytest.fixture
def rows():
    """40 rows with few labels, in groups of different sizes; one group has a single label. Some rows weigh 0."""
    rng = np.random.default_rng(0)
    label, group = rng.integers(0, 3, 40).astype(float), rng.integers(0, 5, 40).astype(np.int32)
    label[group == 4] = 2
    weight = np.where(rng.random(40) < 0.2, 0.0, rng.uniform(1, 2, 40))
    return dataset([{0: 1.0}] * 40, 1, label, weight).changed(group=group)


def possible(data, rows):
    """The rows with another label in the group of each row, if there are some."""
    found = {}
    for i, j in itertools.product(rows.tolist(), rows.tolist()):
        if data.group[i] == data.group[j] and data.label[i] != data.label[j] and data.weight[i] and data.weight[j]:
            found.setdefault(i, []).append(j)
    return found


def test_partners_are_drawn_uniformly_from_the_rows_with_another_label(rows):
    paired, others = PairedRows(rows, ROWS), possible(rows, ROWS)
    assert paired.first.tolist() == sorted(others)
    assert paired.first.dtype == np.int32
    assert (paired.sizes, paired.visits, paired.count) == ([len(others)], len(others), 30)
    assert paired.total_weight == pytest.approx(sum(rows.weight[i] for i in others))
    random = np.random.default_rng(1)
    drawn = np.array([paired.partners(random) for _ in range(2000)])
    for i in range(40):
        if i not in others:
            assert (drawn[:, i] == NO_PARTNER).all()
            continue
        assert set(drawn[:, i]) == set(others[i])
        counts = [np.count_nonzero(drawn[:, i] == j) for j in others[i]]
        assert len(counts) == 1 or chisquare(counts).pvalue > 1e-4
    ((data, first),) = paired.every()
    assert data is rows
    assert np.array_equal(first, paired.first)
    assert paired.whole().first.tolist() == sorted(possible(rows, np.arange(40)))


def test_without_pairs_there_is_nothing_to_train_on(rows):
    with pytest.raises(BadInputError, match="needs groups of rows, and these have none"):
        PairedRows(rows.changed(group=None), ROWS)
    with pytest.raises(BadInputError, match="no group of these 30 rows has two different labels"):
        PairedRows(rows.changed(group=np.arange(40, dtype=np.int32), weight=None), ROWS)


@pytest.mark.parametrize("kind", ["fm", "sha2", "hofm", "ffm"])
def test_the_gradient_of_pairs_by_central_differences(kind):
    """One step of SGD on a batch of all pairs is along the gradient of their mean loss: the row with the larger label
    should have the larger score. The bias does not move."""
    rng = np.random.default_rng(1)
    fields = (0, 1, 2) if kind == "ffm" else None
    samples = random_rows(rng, 8, 6, fields=fields) if fields else random_rows(rng, 8, 6)
    data, rate, step = dataset(samples, 6, [2, 0, 1, 1, 0, 2, 2, 1]), 0.125, 2.0**-7
    model, solver = build(kind, 6, rank=4), SGD(learning_rate=rate)
    model.allocate(solver.slots)
    fill(model, rng, scale=0.5)
    solver.bind(model, Penalty())
    partner = ((np.arange(8) + rng.integers(1, 8, 8)) % 8).astype(np.int32)
    larger = np.where(data.label >= data.label[partner], 1, -1)
    assert set(larger) == {-1, 1}

    def mean_loss():
        score = score_all(model, data)[:, 0].astype(float)
        return np.logaddexp(0, larger * (score[partner] - score)).mean()

    slopes = {}
    for name, array in model.parameters.items():
        slopes[name] = np.zeros(array.shape)
        for at in np.ndindex(*array.shape):
            before, sides = array[at].copy(), []
            for move in (step, -step):
                array[at] = before + move
                sides.append((mean_loss(), float(array[at])))
            array[at] = before
            slopes[name][at] = (sides[0][0] - sides[1][0]) / (sides[0][1] - sides[1][1])
    start, expected = parameters(model), mean_loss()
    trainer = RowLoop(model, solver, LOSSES["bpr"].load()(), data, 8, pairs=True)
    total = trainer.train_on(np.arange(8, dtype=np.int32), 0, 8, 0.0, partner)
    assert total / 8 == pytest.approx(expected, rel=1e-5)
    assert (parameters(model)["bias"] == start["bias"]).all()
    largest = max(np.abs(slope).max() for slope in slopes.values())
    assert largest > 0.01
    for name, end in parameters(model).items():
        np.testing.assert_allclose((start[name] - end) / rate, slopes[name], atol=2e-3 * largest, err_msg=name)


def test_partners_must_be_rows():
    data = dataset([{0: 1.0}] * 3, 1, np.ones(3))
    model, solver = build("linear", 1), SGD(learning_rate=0.1)
    model.allocate(solver.slots)
    solver.bind(model, Penalty())
    order, loss = np.arange(3, dtype=np.int32), LOSSES["bpr"].load()()
    pairs = RowLoop(model, solver, loss, data, pairs=True)
    for partner in ([1, 2], [1, 2, 3], [1, 2, -1]):
        with pytest.raises(IndexError, match="a sample has no partner in the data"):
            pairs.train_on(order, 0, 3, 0.0, np.array(partner, np.int32))
    for trainer, partner in ((pairs, None), (RowLoop(model, solver, loss, data), order)):
        with pytest.raises(ValueError, match="samples have partners in pairs, and only there"):
            trainer.train_on(order, 0, 3, 0.0, partner)


@pytest.mark.parametrize(
    ("solver", "options", "words"),
    [
        ("cd", {}, "bpr compares pairs of rows, and cd would need all pairs in each step; use another solver"),
        ("lbfgs", {}, "bpr compares pairs of rows, and lbfgs would need all pairs in each step"),
        ("adagrad", {"round_size": 4}, "loss bpr cannot train in rounds; leave out round_size 4"),
    ],
)
def test_what_does_not_train_on_pairs(solver, options, words):
    with pytest.raises(UsageError, match=words):
        make_spec("fm", solver, "bpr", options)


def test_popular_items_of_users_with_different_levels():
    """The labels of each user have a different level. A loss of single rows has to fit the levels of users that it has
    not seen; the pairwise loss does not."""
    rng = np.random.default_rng(0)
    users, items, liked = 150, 40, rng.normal(size=(3, 40))
    samples, label, group = [], [], []
    for user in range(users):
        kind, level = user % 3, 10 * rng.normal()
        for item in rng.choice(items, 12, replace=False):
            samples.append({int(item): 1.0, items + kind: 1.0})
            label.append(level + liked[kind, item] + 0.3 * rng.normal())
            group.append(user)
    data = dataset(samples, items + 3, label).changed(group=np.array(group, np.int32))
    train, test = data.take(np.arange(1200, dtype=np.int32)), data.take(np.arange(1200, 1800, dtype=np.int32))
    found = {}
    for model, loss in (("fm", "bpr"), ("linear", "bpr"), ("linear", "squared"), ("fm", "squared")):
        options = {"learning_rate": 0.1, "epochs": 40}
        trained = job.train(job.plan(train, make_spec(model, "adagrad", loss, options), valid=test, metrics=("gauc",)))
        found[model, loss] = job.summary(trained)["valid"]["gauc"]
    assert found["fm", "bpr"] > 0.85
    assert found["fm", "bpr"] > max(found["linear", "bpr"], found["linear", "squared"], found["fm", "squared"]) + 0.1


def test_a_refit_and_the_log_of_a_run(rows):
    data = grouped(dataset([{i % 5: 1.0, 5 + i % 3: 1.0} for i in range(300)], 8, [i % 7 % 3 for i in range(300)]), 12)
    plan = job.plan(data, make_spec("fm", None, "bpr", {"epochs": 3}), holdout=0.2)
    chosen = job.train(plan)
    held = set(range(300)) - set(plan.rows.tolist())
    assert len(held) == 60
    assert not {i // 12 for i in held} & {i // 12 for i in plan.rows.tolist()}
    assert job.summary(chosen)["rows"] == 240
    again = refit(chosen, whole(chosen))
    assert again.plan.source.visits > plan.source.visits
    figures = measure(["gauc", "ndcg"], again.outcome)
    assert job.summary(again)["train"] == figures
    assert chosen.baseline.measure(plan.validation)["gauc"] == 0.5
    assert chosen.baseline.loss == pytest.approx(math.log(2))
