"""llfm: the coding, the start values and updates of the anchors, and the parameters that no sample touches."""

import numpy as np
import pytest
from problems import CLOSE, ROW_SOLVERS, assert_close, build, dataset, fill, parameters, random_rows, score_all
from sklearn.cluster import KMeans
from test_solvers import follow, labels_of, make_loss

from fmcli.errors import UsageError
from fmcli.models.layout import REAL_TYPE
from fmcli.models.local import kmeans as kmeans_module
from fmcli.models.local.coding import Adaptive, Soft
from fmcli.models.local.kmeans import MOST_ROWS, distances, kmeans, matrix
from fmcli.models.workspace import Workspace
from fmcli.penalties.penalty import Penalty
from fmcli.registry.specs import make_spec, resolve
from fmcli.scoring.scorer import load_model
from fmcli.scoring.scores import scores
from fmcli.solvers.stochastic.loop import RowLoop
from fmcli.training import job, saving
from fmcli.training.setup.warm_start import WarmStart
from reference import kinds, slow_losses, slow_models

pytestmark = pytest.mark.exact

FEATURES = 8


def coded(coding, distance):
    return coding.evaluate(distance, np.zeros(len(distance)))[0]


@pytest.mark.parametrize("coding", [Soft(1, 0.5), Soft(3, 0.5), Soft(6, 0.0), Adaptive(6, 0.3), Adaptive(6, 3.0)])
def test_slopes_of_a_coding_by_central_differences(coding):
    rng = np.random.default_rng(0)
    step = 1e-6
    found = set()
    for _ in range(50):
        distance, value = rng.exponential(4.0, size=6), rng.normal(size=6)
        distance -= distance.min()
        shares, slopes = coding.evaluate(distance, value)
        found.add(np.count_nonzero(shares))
        assert shares.sum() == pytest.approx(1, rel=1e-12)
        for i in range(6):
            moved = [distance.copy(), distance.copy()]
            moved[0][i] += step
            moved[1][i] -= step
            above, below = (coded(coding, d - d.min()) @ value for d in moved)
            if np.count_nonzero(coded(coding, moved[0])) == np.count_nonzero(coded(coding, moved[1])):
                assert slopes[i] == pytest.approx((above - below) / (2 * step), abs=1e-6)
    assert found == ({coding.most} if isinstance(coding, Soft) else found)
    assert isinstance(coding, Soft) or len(found) > 1


def test_codings_by_hand():
    np.testing.assert_allclose(coded(Soft(2, 1.0), np.array([0, 9.0, np.log(3)])), [0.75, 0, 0.25])
    # Of anchors at the same distance, the lower index is active. With c = 0, all active anchors have the same weight.
    np.testing.assert_allclose(coded(Soft(2, 0.0), np.array([1.0, 0, 1.0, 1.0])), [0.5, 0.5, 0, 0])
    # u = 0, 1/2: lambda = (1/2 + sqrt(2 + 1/4 - 1/2)) / 2; the third is too far.
    level = (0.5 + np.sqrt(1.75)) / 2
    shares = np.array([level, level - 0.5, 0]) / (2 * level - 0.5)
    np.testing.assert_allclose(coded(Adaptive(3, 0.25), np.array([0, 2.0, 6.0])), shares)
    np.testing.assert_allclose(coded(Adaptive(3, 1.0), np.array([0, 2.0, 6.0])), [1, 0, 0])
    np.testing.assert_allclose(coded(Adaptive(3, 1.0), np.zeros(3)), [1 / 3] * 3)


@pytest.mark.parametrize("coding", [Soft(50_000, 1.0), Adaptive(100_000, 1.0)])
def test_coding_with_many_active_anchors_is_fast(coding):
    """All distances are equal. One pass over all distances for each active anchor would take minutes."""
    shares = coded(coding, np.zeros(100_000))
    np.testing.assert_allclose(shares[: coding.most], 1 / coding.most, rtol=1e-9)
    assert not shares[coding.most :].any()


@pytest.mark.parametrize("strength", [0.1, 1.0, 10.0])
def test_the_adaptive_coding_is_the_minimum_of_its_objective(strength):
    """The norm of the shares plus their product with u is convex: at its minimum on the simplex, the derivative is the
    same for all active anchors, and no smaller for the others."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        distance = rng.exponential(size=8)
        distance -= distance.min()
        share = coded(Adaptive(8, strength), distance)
        slope = share / np.linalg.norm(share) + strength * distance
        assert share.sum() == pytest.approx(1)
        assert slope[share > 0] == pytest.approx(slope.min())


def test_active_anchors_come_in_order_of_distance_and_number():
    rng = np.random.default_rng(3)
    distance = rng.integers(6, size=40).astype(float)
    distance -= distance.min()
    nearest = np.argsort(distance, kind="stable")
    for most in (1, 7, 39, 40):
        assert np.flatnonzero(coded(Soft(most, 0.1), distance)).tolist() == sorted(nearest[:most])


def test_large_distances_do_not_underflow():
    """Far from all anchors, exp(-D) would underflow for each; it does not if the smallest distance is subtracted."""
    model = build("llfm", 2, anchors=2, neighbours=2, coding_c=1.0, llfm_variant="do", rank=1)
    model.allocate(0)
    model.parameters["anchors"][...] = [[100, 0], [100, 1]]
    model.parameters["bias"][...] = [[1, 3]]
    far = score_all(model, dataset([{0: 200.0, 1: 0.5}], 2))
    assert far[0, 0] == pytest.approx(2)


@pytest.mark.parametrize("variant", ["do", "apl", "jo"])
@pytest.mark.parametrize("solver", ROW_SOLVERS)
def test_one_anchor_is_fm(solver, variant):
    """Scores and trained parameters have the same bits."""
    rng = np.random.default_rng(1)
    data = dataset(random_rows(rng, 20, FEATURES), FEATURES, rng.choice([-1.0, 1.0], size=20))
    ends = []
    for name, options in (("fm", {}), ("llfm", {"anchors": 1, "neighbours": 1, "llfm_variant": variant})):
        piece = ROW_SOLVERS[solver]
        values = resolve(make_spec("fm", solver), rows=20, nonzeros=20, features=2, validated=False).values
        trained = piece.load()(**{k: v for k, v in values.items() if k in piece.options and k != "prox"})
        model = build(name, FEATURES, rank=5, **options)
        model.allocate(trained.slots)
        start = np.random.default_rng(2)
        for key in ("bias", "w", "V"):
            array = model.parameters[key]
            array[...] = (0.3 * start.normal(size=array.size)).reshape(array.shape)
        trained.bind(model, Penalty(l1_w=0.01, l2_v=0.1, group_l1=0.02))
        trained.start()
        trainer = RowLoop(model, trained, make_loss("logistic"), data, batch_size=3)
        for _ in (1, 2):
            trainer.train_on(np.arange(20, dtype=np.int32), 0, 20)
            trained.end_epoch()
        ends.append([model.parameters[key].ravel().tolist() for key in ("bias", "w", "V")] + [score_all(model, data)])
    assert ends[0][:3] == ends[1][:3]
    assert ends[0][3].tobytes() == ends[1][3].tobytes()


@pytest.mark.parametrize("solver", ROW_SOLVERS)
def test_batches_classes_weights_and_schedules(solver):
    model = build("llfm", 7, 3, rank=2)
    rng = np.random.default_rng(5)
    schedule = {"schedule": "invscaling", "learning_rate": 0.05} if solver in ("sgd", "fobos") else {}
    follow(
        "llfm", model, solver, make_loss("softmax"), slow_losses.softmax, labels_of("softmax", rng),
        penalty="by-part", batch_size=4, weights=rng.uniform(0.5, 2, size=9), **schedule,
    )  # fmt: skip


@pytest.mark.parametrize("anchor_rate", [0.03, 0.5])
def test_cached_scales_and_squares_equal_recomputed_ones(anchor_rate):
    """After many long steps, the cached scales and squared norms of the anchors equal recomputed ones."""
    rng = np.random.default_rng(3)
    data = dataset(random_rows(rng, 300, FEATURES), FEATURES, rng.choice([-1.0, 1.0], size=300))
    model = build("llfm", FEATURES, rank=2, anchors=3, neighbours=3, llfm_variant="apl", anchor_rate=anchor_rate)
    solver = ROW_SOLVERS["sgd"].load()(learning_rate=0.05)
    model.allocate(solver.slots)
    before = fill(model, rng)
    snapshot = model.snapshot()
    solver.bind(model, Penalty())
    RowLoop(model, solver, make_loss("logistic"), data).train_on(np.arange(300, dtype=np.int32), 0, 300)
    kept = np.empty((300, 1))
    scores(model, data, Workspace(model, data.longest), 0, 300, kept)
    after = parameters(model)  # folds the scales into the anchors
    assert np.abs(after["anchors"] - before["anchors"]).max() > 0.1
    np.testing.assert_allclose(kept, score_all(model, data), rtol=100 * CLOSE["rtol"], atol=100 * CLOSE["atol"])
    RowLoop(model, solver, make_loss("logistic"), data).train_on(np.arange(300, dtype=np.int32), 0, 100)
    model.restore(snapshot)  # in the middle of an epoch, as after divergence
    assert_close(parameters(model), before, {"rtol": 0, "atol": 0})


def sparse_rows(rng, rows, features, first=0, entries=4):
    return [{int(first + j): 1.0 for j in sorted(rng.choice(features, entries, replace=False))} for _ in range(rows)]


def test_rows_of_anchors_that_are_never_active_are_zero():
    """With fixed anchors, the definition says which (feature, anchor) rows have entered a score."""
    rng = np.random.default_rng(4)
    rows = sparse_rows(rng, 60, 40)
    data = dataset(rows, 50, rng.normal(size=60))
    options = {"anchors": 5, "neighbours": 2, "coding_c": 1.0, "llfm_variant": "do", "rank": 3}
    ends = {}
    for epochs in (0, 1, 3):
        trained = job.train(job.plan(data, make_spec("llfm", "sgd", None, options | {"epochs": epochs})))
        ends[epochs] = parameters(trained.plan.model)
    touched = np.zeros((1, 5, 50), dtype=bool)
    for x in rows:
        touched |= slow_models.touched("llfm", ends[0], x, options)["w"]
    occurs = np.isin(np.arange(50), [j for x in rows for j in x])
    assert 0 < touched.sum() < 5 * occurs.sum()
    for epochs in (1, 3):
        assert ((ends[epochs]["V"] != 0).all(axis=-1) == touched).all()
        assert ((ends[epochs]["V"] != 0).any(axis=-1) == touched).all()
    assert ((ends[0]["V"] != 0).any(axis=-1) == occurs).all()  # without training, all rows keep their start values
    np.testing.assert_array_equal(ends[0]["anchors"], ends[3]["anchors"])


@pytest.mark.parametrize("solver", ROW_SOLVERS)
def test_validation_sees_what_is_saved(solver, tmp_path):
    rng = np.random.default_rng(5)
    data, valid = (dataset(sparse_rows(rng, 80, 60), 60, rng.normal(size=80)) for _ in range(2))
    spec = make_spec("llfm", solver, None, {"epochs": 2, "rank": 3, "anchors": 6})
    trained = job.train(job.plan(data, spec, valid=valid))
    path = str(tmp_path / "model")
    saving.save_model(path, trained, job.summary(trained), "libsvm")
    score = load_model(path).scores(valid)[:, 0]
    found = trained.epochs[trained.best - 1].valid["rmse"]
    assert found == pytest.approx(np.sqrt(np.mean((score - valid.label) ** 2)), rel=1e-12)


@pytest.mark.parametrize(("loss", "outputs"), [("squared", 1), ("softmax", 3)])
def test_the_bias_of_each_anchor_begins_at_the_best_constant(loss, outputs):
    """From 0, the weights of all features would first have to move the scores to the labels."""
    rng = np.random.default_rng(5)
    data = dataset(sparse_rows(rng, 80, 20), 20, rng.integers(2, 5, size=80).astype(float))
    spec = make_spec("llfm", "adagrad", loss, {"epochs": 0, "anchors": 4})
    bias = job.train(job.plan(data, spec)).plan.model.parameters["bias"]
    one = job.train(job.plan(data, make_spec("fm", "adagrad", loss, {"epochs": 0}))).plan.model.parameters["bias"]
    assert bias.shape == (outputs, 4)
    np.testing.assert_array_equal(bias.T, np.tile(one, (4, 1)))
    assert bias.any()


def warm_start_of(trained, tmp_path, keep_state=False) -> WarmStart:
    path = str(tmp_path / "earlier")
    saving.save_model(path, trained, job.summary(trained), "libsvm", keep_state=keep_state)
    return saving.load_warm_start(path)


@pytest.mark.parametrize("features", [6, 20])  # 6 is also the number of anchors: the axes must not be confused
@pytest.mark.parametrize("solver", ROW_SOLVERS)
def test_resuming_with_more_features(solver, features, tmp_path):
    rng = np.random.default_rng(6)
    old = dataset(sparse_rows(rng, 100, features), features, rng.normal(size=100))
    options = {"epochs": 2, "rank": 3, "anchors": 6, "neighbours": 3}
    spec = make_spec("llfm", solver, None, options)
    warm_start = warm_start_of(job.train(job.plan(old, spec)), tmp_path)
    known = {name: array.astype(np.float64) for name, array in warm_start.model.parameters.items()}
    # The new samples have only new features, so the parameter rows of the earlier model must not change.
    new = dataset(sparse_rows(rng, 50, 5, first=features), features + 5, rng.normal(size=50))
    for epochs in (0, 2):
        spec = make_spec("llfm", solver, None, options | {"epochs": epochs, "l2": 0.0})
        now = parameters(job.train(job.plan(new, spec, warm_start=warm_start)).plan.model)
        rounding = {"rtol": 4 * np.finfo(REAL_TYPE).eps, "atol": 0}
        np.testing.assert_allclose(now["V"][:, :, :features], known["V"], **rounding)
        np.testing.assert_allclose(now["w"][:, :, :features], known["w"], **rounding)
        assert now["V"][:, :, features:].any()
        if epochs == 0:
            np.testing.assert_array_equal(now["anchors"][:, :features], known["anchors"])
            assert not now["anchors"][:, features:].any()


def test_kmeans_is_as_good_as_anothers():
    rng = np.random.default_rng(8)
    middles = rng.normal(scale=3, size=(7, 20)) * (rng.random((7, 20)) < 0.3)
    dense = np.where(rng.random((600, 20)) < 0.5, middles[rng.integers(7, size=600)] + rng.normal(size=(600, 20)), 0)
    data = dataset([{j: float(v) for j, v in enumerate(np.float32(row)) if v} for row in dense], 20)
    rows = np.arange(0, 600, 2, dtype=np.int32)
    x = matrix(data.take(rows))
    squares = np.asarray(x.multiply(x).sum(axis=1)).ravel()
    inertia = {}
    for seed in range(5):
        z = kmeans(data, rows, 7, np.random.default_rng(seed))
        inertia[seed] = distances(x, squares, z).min(axis=1).sum()
    theirs = [KMeans(7, n_init=1, random_state=seed).fit(x.toarray()).inertia_ for seed in range(5)]
    assert np.mean(list(inertia.values())) < 1.02 * np.mean(theirs)
    again = kmeans(data, rows, 7, np.random.default_rng(0))
    assert distances(x, squares, again).min(axis=1).sum() == inertia[0]


def test_kmeans_with_few_rows_and_with_many():
    few = dataset([{0: 1.0}, {1: 1.0}, {0: 1.0}], 3)
    z = kmeans(few, np.arange(3, dtype=np.int32), 5, np.random.default_rng(0))
    assert {tuple(row) for row in z.tolist()} == {(1.0, 0.0, 0.0), (0.0, 1.0, 0.0)}
    rng = np.random.default_rng(1)
    many = dataset([{0: 1.0} if rng.random() < 0.25 else {1: 1.0} for _ in range(MOST_ROWS + 500)], 2)
    z = kmeans(many, np.arange(many.rows, dtype=np.int32), 1, rng)
    np.testing.assert_allclose(z, [[0.25, 0.75]], atol=0.01)


def test_kmeans_looks_for_no_more_centers_than_there_are_different_rows(monkeypatch):
    looks = []
    monkeypatch.setattr(kmeans_module, "distances", lambda *given: looks.append(given) or distances(*given))
    rows = dataset([{j % 7: 0.1 * (1 + j % 7), 7: 1 / 3} for j in range(40)], 8)
    z = kmeans(rows, np.arange(40, dtype=np.int32), 3000, np.random.default_rng(0))
    assert len(looks) < 20
    assert len(np.unique(z.round(5), axis=0)) == 7
    assert z.shape == (3000, 8)


def test_the_summary_counts_active_anchors():
    rng = np.random.default_rng(9)
    rows = random_rows(rng, 30, FEATURES)
    data = dataset(rows, FEATURES, rng.normal(size=30))
    options = {"rank": 2, "anchors": 6, "lc": 0.05, "epochs": 1}
    trained = job.train(job.plan(data, make_spec("llfm", "sgd", None, options)))
    params = parameters(trained.plan.model)
    counts = [len(kinds.coding({"anchors": params["anchors"]}, x, options)) for x in rows]
    assert len(set(counts)) > 1
    assert job.summary(trained)["active_anchors"] == pytest.approx(np.mean(counts))


def test_too_many_rows_are_refused():
    with pytest.raises(UsageError, match=r"are too many rows$"):
        build("llfm", 1 << 28, rank=1, anchors=10)
    assert build("llfm", 1 << 27, rank=1, anchors=10).parameter_count == 10 * (3 << 27) + 10


def test_the_anchors_step_is_the_learning_rate_unless_it_is_given():
    assert make_spec("llfm", "sgd", None, {"learning_rate": 0.2}).values["anchor_rate"] == 0.2
    assert make_spec("llfm", "adagrad").values["anchor_rate"] == make_spec("llfm", "adagrad").values["learning_rate"]
    assert make_spec("llfm", "ftrl").values["anchor_rate"] == 0.01
    assert make_spec("llfm", "ftrl", None, {"anchor_rate": 0.0}).values["anchor_rate"] == 0
