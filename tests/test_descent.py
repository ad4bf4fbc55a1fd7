"""Coordinate descent: the objective never rises, the fast derivatives equal the slow ones, and the solutions of convex
problems equal other solvers' solutions."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from problems import (
    FOLLOWED,
    REAL,
    TRAINED,
    assert_close,
    build,
    choices,
    dataset,
    fields_of,
    fill,
    in_turn,
    pairwise,
    parameters,
    random_rows,
)
from test_solvers import EXACT_ONLY, PENALTIES, labels_of, make_loss, outputs_of

import fmcli.solvers.coordinate.minimizer
from fmcli.data.dataset import Dataset
from fmcli.models.layout import REAL_TYPE
from fmcli.penalties.penalty import Penalty
from fmcli.registry.losses import LOSSES
from fmcli.solvers.coordinate.columns import Columns, of_all
from fmcli.solvers.coordinate.minimizer import CoordinateDescent, between_features
from reference import slow_descent, slow_losses, slow_models
from reference.kinds import KINDS

pytestmark = pytest.mark.exact

FEATURES, RANK, ROWS = 7, 5, 9
SMOOTH = [name for name, loss in LOSSES.items() if loss.smooth and not (loss.pairwise or loss.drawn)]
ROUNDING = 1e-5
LOOSE = FOLLOWED if REAL == "double" else {"rtol": 1e-3, "atol": 1e-3}


def problem(name, loss, penalty, seed=0, by_gradient=False, count=ROWS, **options):
    """A model with random parameters, and coordinate descent for it on random samples."""
    rng = np.random.default_rng([len(name), seed, 0])
    model_options = {"rank": RANK, "by_row": penalty in EXACT_ONLY, **options}
    model = build(name, FEATURES, outputs_of(loss), **model_options)
    model.allocate(0)
    fill(model, rng, scale=0.4)
    model.remeasure()
    rows = random_rows(np.random.default_rng([len(name), seed, 1]), count, FEATURES, fields=fields_of(name))
    labels = np.resize(labels_of(loss, rng), count)
    data = dataset(rows, FEATURES, labels, rng.uniform(0.5, 2, size=count))
    loss, penalty = make_loss(loss), Penalty(**PENALTIES[penalty])
    return model, CoordinateDescent(model, loss, penalty, data, threads=1, by_gradient=by_gradient)


def chunks_of(descent):
    return [chunk for sweeps in descent.sweeps.values() for sweep in sweeps for chunk in sweep.chunks]


def objectives_of(descent, epochs):
    """Return the objective before the first epoch and after each epoch."""
    with ThreadPoolExecutor(1) as pool:
        found = [sum(descent.objective(pool))]
    descent.run(epochs, lambda loss, penalty: bool(found.append(loss + penalty)))
    return found


@pytest.mark.parametrize(("name", "loss", "penalty"), pairwise(TRAINED, SMOOTH, PENALTIES))
def test_the_objective_falls_and_never_rises(name, loss, penalty):
    _, descent = problem(name, loss, penalty)
    objectives = objectives_of(descent, 6)
    assert np.diff(objectives).max() <= ROUNDING * max(1, abs(objectives[0]))
    assert objectives[-1] < objectives[0] - 0.01


# Not tested: the group penalty alone, with which rows become zero and rounding decides when, and models whose scores
# have second derivatives in a parameter, because only the fast derivatives include them in the bound.
@pytest.mark.parametrize(
    ("name", "loss", "penalty"),
    pairwise(
        [name for name in TRAINED if not KINDS[name].powers],
        ["squared", "logistic", "softmax", "poisson"],
        [penalty for penalty in PENALTIES if not penalty.endswith("-only")],
    ),
)
def test_fast_derivatives_equal_those_from_gradients(name, loss, penalty):
    ends = []
    for by_gradient in (False, True):
        model, descent = problem(name, loss, penalty, by_gradient=by_gradient)
        assert descent.descent.fast == (KINDS[name].fast and not by_gradient)
        objectives_of(descent, 2)
        ends.append(parameters(model))
    assert_close(*ends, LOOSE)


@pytest.mark.parametrize(("rank", "count"), [(5, 9000), (8, 150), (20, 9000)])
def test_features_of_many_samples_have_the_steps_of_gradients(rank, count):
    """Derivatives of some chunks are kept until the step is applied; for further samples they are computed again."""
    ends = []
    for by_gradient in (False, True):
        model, descent = problem("fm", "squared", "both", by_gradient=by_gradient, count=count, rank=rank)
        objectives_of(descent, 1)
        ends.append(parameters(model))
    assert_close(*ends, LOOSE)


# Losses and penalties interact only in the subproblem of a row: each loss is tested with one penalty, and vice versa.
FOLLOWED_PAIRS = [("squared", penalty) for penalty in PENALTIES]
FOLLOWED_PAIRS += [(loss, "both") for loss in slow_losses.SMOOTHNESS if loss != "squared"]


# Each model is tested with some of these pairs, in turn.
FOLLOWED_BY = 2


@pytest.mark.parametrize(
    ("name", "loss", "penalty"), in_turn([name for name in TRAINED for _ in range(FOLLOWED_BY)], FOLLOWED_PAIRS)
)
def test_each_row_update_equals_the_definition(name, loss, penalty):
    model_options = {"rank": RANK, "by_row": penalty in EXACT_ONLY, "llfm_variant": "do"}
    model_options |= {"order": 2} if KINDS[name].powers else {}
    model, descent = problem(name, loss, penalty, **model_options)
    given = descent.data
    rows = random_rows(np.random.default_rng([len(name), 0, 1]), ROWS, FEATURES, fields=fields_of(name))
    slow = slow_descent.Problem(
        name, model.layout, rows, given.label, given.weight / given.weight.sum(), loss,
        slow_models.Penalty(**PENALTIES[penalty]), choices(model, **model_options),
    )  # fmt: skip
    before = parameters(model)
    expected = slow_descent.epoch(slow, before, FEATURES)
    objectives_of(descent, 1)
    assert any(np.abs(expected[key] - before[key]).max() > 0.005 for key in before)
    # Without a penalty, kernel weights, which are updated first, may end near 0 while the factors grow to compensate,
    # which magnifies rounding errors.
    assert_close(parameters(model), expected, LOOSE if penalty == "none" and "beta" in before else FOLLOWED)


def test_iterates_equal_naive_als():
    """Updates of whole rows give the same parameters as ALS that updates one parameter and recomputes all scores."""
    rng = np.random.default_rng(0)
    rows = random_rows(rng, 30, FEATURES)
    y, weight = rng.normal(size=30), rng.uniform(0.5, 2, size=30)
    model = build("fm", FEATURES, rank=RANK)
    model.allocate(0)
    expected = fill(model, rng, scale=0.4)
    x = np.array([[row.get(j, 0.0) for j in range(FEATURES)] for row in rows])
    for _ in range(2):
        expected = slow_descent.naive_als(expected, x, y, weight / weight.sum(), 0.02, 0.05)
    data = dataset(rows, FEATURES, y, weight)
    CoordinateDescent(model, make_loss("squared"), Penalty(l2_w=0.02, l2_v=0.05), data).run(2, lambda *_: False)
    assert_close(parameters(model), expected, FOLLOWED)


@pytest.mark.parametrize(("name", "order"), [("anova", 2), ("anova", 4), ("sha2", 2)])
def test_weights_of_zero_kernels_are_unchanged(name, order):
    """L1 makes all factors 0. The caches then hold only rounding errors, which could cause steps of any length."""
    model = build(name, FEATURES, rank=RANK, order=order)
    model.allocate(0)
    rng = np.random.default_rng(0)
    found = [fill(model, rng)["beta"]]
    data = dataset(random_rows(rng, 60, FEATURES), FEATURES, rng.normal(size=60))

    def after(*_):
        found.append(parameters(model)["beta"])

    CoordinateDescent(model, make_loss("squared"), Penalty(l1_v=100), data).run(3, after)
    end = parameters(model)
    assert not any(end[key].any() for key in ("V", "v0") if key in end)
    first, *others = np.diff(found, axis=0)
    assert first.any()  # the kernel weights are updated before the factors
    assert not np.any(others)


@pytest.mark.parametrize("each", [1, 3])
def test_a_conflict_free_set_ends_where_a_sample_comes_twice(each, rng):
    """All rows of a feature are in one set, because they follow each other."""
    samples = [np.sort(rng.choice(12, size, replace=False)) for size in rng.integers(4, size=60)]
    ends = np.cumsum([0, *map(len, samples)])
    columns = Columns(ends, np.concatenate(samples).astype(np.int32), None)
    features = rng.permutation(60 // each)
    order = (features[:, None] * each + np.arange(each)).astype(np.int32).ravel()
    begins, taken = [0], set()
    for place in range(0, 60, each):
        entered = set().union(*(samples[row] for row in order[place : place + each]))
        if taken.intersection(entered):
            begins, taken = [*begins, place], set()
        taken.update(entered)
    assert columns.conflict_free_sets(order, 12, each).tolist() == begins
    assert columns.ends(order).tolist() == np.cumsum([0, *(len(samples[row]) for row in order)]).tolist()
    assert columns.occupied(60).tolist() == np.flatnonzero(np.diff(ends)).tolist()
    every = of_all(12)
    rows = every.occupied(3)
    assert [every.conflict_free_sets(rows, 12).tolist(), every.ends(rows).tolist()] == [[0, 1, 2], [0, 12, 24, 36]]


def test_a_thread_gets_all_rows_of_a_feature():
    rows = np.array([0, 1, 2, 4, 5, 9, 10, 11], dtype=np.int32)
    assert between_features((0, 1, 4, 6, 8), rows, 3) == (0, 3, 5, 8, 8)
    assert between_features((2, 3, 4), rows, 3) == (2, 3, 4)  # the rows of a feature may begin and end outside
    assert between_features((0, 1, 4, 6, 8), rows, 1) == (0, 1, 4, 6, 8)


@pytest.mark.parametrize("name", ["fm", "ffm", "poly2", "llfm"])
def test_threads_change_nothing(name):
    """Columns that have no sample in common are updated in parallel; weights that are apart from the factors do not
    change anything, either."""
    rng = np.random.default_rng(0)
    samples, each = 9000, 40
    chosen = np.stack([rng.integers(each, size=samples) + each * f for f in range(3)], axis=1)
    rows = [{(int(j), f) if name == "ffm" else int(j): 1.0 for f, j in enumerate(row)} for row in chosen]
    data = dataset(rows, 3 * each, rng.normal(size=samples))
    found = []
    for threads in (1, 2, 3):
        model = build(name, 3 * each, rank=RANK)
        usual = model.bytes_needed(0)
        if threads == 2:
            model.pack()
        model.allocate(0)
        # With doubles, the factors fill a cache line, so the weights are always apart from them.
        assert (name in ("fm", "llfm") and threads == 2 and REAL_TYPE.itemsize == 4) == (model.bytes_needed(0) < usual)
        fill(model, np.random.default_rng(1), scale=0.1)
        model.remeasure()
        descent = CoordinateDescent(model, make_loss("squared"), Penalty(l2_w=0.01, l2_v=0.01), data, threads)
        shared = any(bool(chunk.bounds) for chunk in chunks_of(descent))
        assert name == "llfm" or shared == (threads > 1)
        objectives = []
        descent.run(2, lambda loss, penalty, to=objectives: bool(to.append(loss + penalty)))
        found.append((objectives, [array.tobytes() for array in model.parameters.values()]))
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize(("loss", "penalty"), [("squared", {"l2_v": 0.01}), ("logistic", {"group_l1": 0.001})])
def test_threads_change_nothing_in_large_rows(loss, penalty, monkeypatch):
    """A column with very many samples is updated by all threads; its sums are made in the same parts by any number."""
    monkeypatch.setattr(fmcli.solvers.coordinate.minimizer, "ENTRIES_OF_LARGE_ROW", 30_000)
    rng = np.random.default_rng(0)
    samples, dense, each = 40_000, 2, 30
    ids = dense + rng.integers(each, size=(samples, 1))
    columns = np.concatenate([np.broadcast_to(np.arange(dense), (samples, dense)), ids], axis=1)
    values = np.concatenate([rng.normal(size=(samples, dense)), np.ones((samples, 1))], axis=1)
    label = rng.normal(values[:, 0] * values[:, 1])
    data = Dataset(
        np.arange(samples + 1, dtype=np.int64) * columns.shape[1],
        columns.astype(np.int32).ravel(),
        values.astype(np.float32).ravel(),
        np.sign(label) if loss == "logistic" else label,
        dense + each,
    )
    found = []
    for threads in (1, 2, 3):
        model = build("fm", data.features, rank=RANK)
        model.allocate(0)
        fill(model, np.random.default_rng(1), scale=0.1)
        descent = CoordinateDescent(model, make_loss(loss), Penalty(**penalty), data, threads)
        assert sum(chunk.large for chunk in chunks_of(descent)) == dense + 1  # and bias
        objectives = objectives_of(descent, 3)
        assert np.diff(objectives).max() <= 0
        assert objectives[-1] < 0.95 * objectives[0]
        found.append((objectives, [array.tobytes() for array in model.parameters.values()]))
    assert found[0] == found[1] == found[2]
    # The sums of one part differ from these only by rounding.
    monkeypatch.setattr(fmcli.solvers.coordinate.minimizer, "ENTRIES_OF_LARGE_ROW", samples + 1)
    fill(model, np.random.default_rng(1), scale=0.1)
    descent = CoordinateDescent(model, make_loss(loss), Penalty(**penalty), data)
    assert objectives_of(descent, 3) == pytest.approx(found[0][0], rel=1e-5)


@pytest.mark.parametrize("l1", [0, 0.01])
@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_linear_models_are_those_of_scikit_learn(loss, l1):
    from sklearn.linear_model import ElasticNet, LogisticRegression

    rng = np.random.default_rng(0)
    dense = rng.normal(size=(300, FEATURES)).astype(np.float32).astype(float)
    y = dense @ rng.normal(size=FEATURES) + 0.5 + rng.normal(size=300)
    y = np.sign(y) if loss == "logistic" else y
    l2 = 0.02
    model = build("linear", FEATURES)
    model.allocate(0)
    data = dataset([dict(enumerate(map(float, row))) for row in dense], FEATURES, y)
    CoordinateDescent(model, make_loss(loss), Penalty(l1_w=l1, l2_w=l2), data).run(300, lambda *objective: False)
    if loss == "squared":
        oracle = ElasticNet(alpha=l1 + l2, l1_ratio=l1 / (l1 + l2), tol=1e-12, max_iter=100_000).fit(dense, y)
        weights, bias = oracle.coef_, oracle.intercept_
    else:
        oracle = LogisticRegression(
            C=1 / (300 * (l1 + l2)), l1_ratio=l1 / (l1 + l2), solver="saga", tol=1e-12, max_iter=100_000
        ).fit(dense, y)
        weights, bias = oracle.coef_[0], oracle.intercept_[0]
    np.testing.assert_allclose(model.parameters["w"][0], weights, **FOLLOWED)
    np.testing.assert_allclose(model.parameters["bias"][0], bias, **FOLLOWED)
