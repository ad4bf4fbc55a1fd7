"""kernel-basis: kernels compared with their definitions, fits with direct solutions and another library, errors."""

import math
from itertools import combinations

import numpy as np
import pytest
from modelfiles import export_arrays
from problems import dataset, random_rows
from sklearn.kernel_ridge import KernelRidge
from sklearn.preprocessing import KernelCenterer

from fmcli.cli.train.log import reason
from fmcli.errors import DivergedError, UsageError
from fmcli.models.layout import REAL_TYPE
from fmcli.models.polynomial.kernel_basis import INDPTR, LANDMARK
from fmcli.registry.losses import LOSSES
from fmcli.registry.solvers import SOLVERS
from fmcli.registry.specs import make_spec
from fmcli.scoring.rows import score_rows
from fmcli.scoring.scorer import load_model
from fmcli.solvers.closed_form import LEAST_ROWS
from fmcli.training import job, saving

pytestmark = pytest.mark.exact

FEATURES = 6
KERNELS = [("poly", 2), ("poly", 3), ("anova", 2), ("anova", 3)]


def slow_kernel(p, x, kernel, order, coef0):
    """(coef0 + <p, x>)^order, or the ANOVA kernel of that order on the products p_j x_j and order - 1 ones."""
    terms = [p[j] * x[j] for j in p.keys() & x.keys()]
    if kernel == "poly":
        return (coef0 + sum(terms)) ** order
    return sum(math.prod(chosen) for chosen in combinations([*terms, *[1.0] * (order - 1)], order))


def fitted(data, **options):
    return job.train(job.plan(data, make_spec("kernel-basis", None, None, options)))


def problem(rows=40, seed=0, weights=None):
    rng = np.random.default_rng(seed)
    samples = random_rows(rng, rows, FEATURES)
    return samples, dataset(samples, FEATURES + 2, rng.normal(size=rows) + 3, weights)


def landmarks_of(model):
    return [{j: float(v) for j, v in enumerate(row) if v} for row in model.exported()["landmarks"]]


@pytest.mark.parametrize("linear", [True, False])
@pytest.mark.parametrize(("kernel", "order"), KERNELS)
def test_scores_are_those_of_the_definition(kernel, order, linear, tmp_path):
    samples, data = problem()
    trained = fitted(data, kernel=kernel, order=order, rank=11, coef0=0.5, l2=0.01, linear=linear)
    model = trained.plan.model
    arrays = model.exported()
    shapes = {"bias": (1,), "beta": (1, 11), "landmarks": (11, FEATURES + 2)}
    shapes |= {"w": (1, FEATURES + 2)} if linear else {}
    assert {name: array.shape for name, array in arrays.items()} == shapes
    w = arrays["w"][0] if linear else np.zeros(FEATURES + 2)
    assert w.any() == linear
    slow = [
        arrays["bias"][0]
        + sum(w[j] * value for j, value in x.items())
        + sum(
            beta * slow_kernel(p, x, kernel, order, 0.5)
            for beta, p in zip(arrays["beta"][0], landmarks_of(model), strict=True)
        )
        for x in samples
    ]
    path = str(tmp_path / "model")
    saving.save_model(path, trained, job.summary(trained), "libsvm")
    exact = 1e-6 if linear and REAL_TYPE.itemsize < 8 else 1e-9
    np.testing.assert_allclose(load_model(path).scores(data)[:, 0], slow, rtol=exact, atol=exact)
    exported = export_arrays(path)
    assert all((exported[name] == arrays[name]).all() for name in arrays)


def gram(a, b, kernel, order, coef0=1.0):
    return np.array([[slow_kernel(p, x, kernel, order, coef0) for x in b] for p in a])


@pytest.mark.parametrize(("weighted", "linear"), [(False, True), (True, True), (True, False)])
@pytest.mark.parametrize("basis", ["random", "nystrom"])
@pytest.mark.parametrize(("kernel", "order"), KERNELS)
def test_the_fit_solves_the_normal_equations(kernel, order, basis, weighted, linear):
    rng = np.random.default_rng(1)
    weights = np.append(0.0, rng.uniform(0.5, 2, size=39)) if weighted else np.ones(40)
    samples, data = problem(weights=weights if weighted else None)
    l2 = 0.03
    options = {"kernel": kernel, "order": order, "basis": basis, "linear": linear}
    trained = fitted(data, rank=5, l2_v=l2, l2_w=0.02, **options)
    model = trained.plan.model
    landmarks = landmarks_of(model)
    assert all(any(p == x for x in samples) for p in landmarks)
    k = gram(samples, landmarks, kernel, order)
    omega = np.eye(5) if basis == "random" else gram(landmarks, landmarks, kernel, order)
    s = weights / weights.sum()
    beta, bias = model.exported()["beta"][0], model.exported()["bias"][0]
    x = matrix_of(data)
    w = model.exported()["w"][0].astype(np.float64) if linear else np.zeros(x.shape[1])
    residual = x @ w + k @ beta + bias - data.label
    by_beta = k.T @ (s * residual) + l2 * omega @ beta
    scale = np.abs(k.T @ (s * data.label)).max()
    assert np.abs(by_beta).max() < 1e-10 * scale
    assert abs(s @ residual) < 1e-12
    if linear:  # w is rounded to the build's real type
        assert np.abs(x.T @ (s * residual) + 0.02 * w).max() < 1e-6 * np.abs(x.T @ (s * data.label)).max()
    (epoch,) = trained.epochs
    assert epoch.loss == pytest.approx(s @ residual**2 / 2, rel=1e-9)
    assert epoch.penalty == pytest.approx(l2 / 2 * beta @ omega @ beta + 0.01 * w @ w, rel=1e-6)


@pytest.mark.parametrize("rank", [40, 1000])
@pytest.mark.parametrize(("kernel", "order"), [("poly", 2), ("poly", 3), ("anova", 3)])
def test_all_rows_make_kernel_ridge_regression(kernel, order, rank):
    """The bias is not penalized, so this is ridge regression with the centered kernel and centered labels. A row that
    occurs twice is one landmark."""
    samples, data = problem()
    l2 = 0.01
    trained = fitted(data, kernel=kernel, order=order, rank=rank, l2=l2, basis="nystrom", linear=False)
    assert trained.plan.model.exported()["beta"].shape == (1, len({str(row) for row in samples})) < (1, 40)
    k = gram(samples, samples, kernel, order)
    theirs = KernelRidge(alpha=40 * l2, kernel="precomputed")
    centered = KernelCenterer().fit_transform(k)
    wanted = theirs.fit(centered, data.label - data.label.mean()).predict(centered) + data.label.mean()
    found = score_rows(trained.plan.model, data)[:, 0]
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-7)


def test_many_rows_go_through_in_parts():
    rng = np.random.default_rng(2)
    rows = 2 * LEAST_ROWS + 17
    x = rng.normal(size=(rows, 2)).astype(np.float32)
    label = x[:, 0] * x[:, 1] + 2 * x[:, 0] - 1
    data = dataset([{0: float(a), 1: float(b)} for a, b in x], 2, label)
    trained = fitted(data, order=2, rank=30, l2=1e-12, seed=3)
    assert job.summary(trained)["train"]["rmse"] < 1e-4


def test_features_without_a_landmark_are_learned():
    """The features are ids. The landmarks cover few of them, the linear weights cover all."""
    rng = np.random.default_rng(4)
    ids = rng.integers(0, 200, size=4000)
    effect = rng.normal(size=200)
    data = dataset([{int(i): 1.0} for i in ids], 200, effect[ids] + 0.1 * rng.normal(size=len(ids)))
    error = {linear: job.summary(fitted(data, rank=20, linear=linear))["train"]["rmse"] for linear in (True, False)}
    assert error[True] < 0.3 < 0.8 < error[False]


def test_landmarks_are_distinct_rows_and_seeded():
    _, data = problem(rows=200)
    found = [fitted(data, rank=50, seed=seed).plan.model for seed in (1, 1, 2)]
    first, again, other = (model.exported()["landmarks"] for model in found)
    assert (first == again).all()
    assert first.shape == other.shape
    assert (first != other).any()
    rows = [tuple(row) for row in matrix_of(data)]
    chosen = [tuple(row) for row in first]
    assert all(chosen.count(row) <= rows.count(row) for row in chosen)


def matrix_of(data):
    dense = np.zeros((data.rows, data.features))
    dense[np.repeat(np.arange(data.rows), np.diff(data.indptr)), data.index] = data.value
    return dense


def test_equal_landmarks_do_no_harm():
    """The Nyström method drops the directions in which the kernel matrix is singular because of equal landmarks."""
    samples = [{0: 1.0}, {0: 2.0}, {1: 1.5}] * 10
    data = dataset(samples, 2, [1.0, 2.0, -1.0] * 10)
    trained = fitted(data, rank=30, l2=1e-9)
    assert np.isfinite(trained.plan.model.exported()["beta"]).all()
    assert job.summary(trained)["train"]["rmse"] < 1e-3


def test_two_label_values_are_signs(tmp_path):
    _, data = problem()
    data = data.changed(label=np.where(data.label > 3, 7.0, 4.0))
    trained = fitted(data, rank=20)
    assert trained.plan.spec.loss == "squared"
    assert set(trained.plan.data.label) == {-1.0, 1.0}
    assert "not probabilities" in reason(trained.plan)
    path = str(tmp_path / "model")
    saving.save_model(path, trained, job.summary(trained), "libsvm")
    scorer = load_model(path)
    lines = scorer.text(scorer.predictions(data, "label"), "label").decode().split()
    assert set(lines) == {"4", "7"}
    assert np.mean(np.array(lines, dtype=float) == data.label) > 0.7


@pytest.mark.parametrize("basis", ["random", "nystrom"])
def test_kernels_beyond_the_range_of_numbers_end_the_run(basis):
    _, data = problem()
    with pytest.raises(DivergedError, match="smaller order or coef0, or scale the values"):
        fitted(data, rank=20, basis=basis, order=64, coef0=1e30)


@pytest.mark.parametrize("solver", SOLVERS)
def test_solvers_are_refused(solver):
    with pytest.raises(UsageError, match=f"closed form, without a solver; leave out solver {solver}"):
        make_spec("kernel-basis", solver)


@pytest.mark.parametrize("loss", [loss for loss in LOSSES if loss != "squared"])
def test_other_losses_are_refused(loss):
    with pytest.raises(UsageError, match=f"leave out loss {loss}"):
        make_spec("kernel-basis", None, loss)


@pytest.mark.parametrize("option", ["l1", "l1_w", "l1_v", "group_l1", "epochs", "batch_size"])
def test_what_a_closed_form_does_not_have_is_refused(option):
    with pytest.raises(UsageError, match=r"cannot be used with kernel-basis: it"):
        make_spec("kernel-basis", None, None, {option: 1})


def test_resuming_is_refused(tmp_path):
    _, data = problem()
    trained = fitted(data, rank=5)
    path = str(tmp_path / "model")
    saving.save_model(path, trained, job.summary(trained), "libsvm", keep_state=True)
    with pytest.raises(UsageError, match="is solved from its data"):
        job.plan(data, trained.plan.spec, warm_start=saving.load_warm_start(path))


def test_arrays_that_contradict_each_other_are_refused():
    _, data = problem()
    model = fitted(data, rank=5).plan.model
    arrays = {**model.constants, "w": model.parameters["w"].copy()}
    for name, wrong in (
        (INDPTR, arrays[INDPTR][::-1].copy()),
        (LANDMARK, arrays[LANDMARK] + 5),
        (LANDMARK, arrays[LANDMARK][1:]),
        ("beta", arrays["beta"][0]),
    ):
        with pytest.raises(ValueError, match=r"do not (belong|fit)"):
            model.attach({**arrays, name: wrong})
    with pytest.raises(KeyError):
        model.attach({"beta": arrays["beta"]})


def test_kernels_needs_room():
    _, data = problem()
    model = fitted(data, rank=5).plan.model
    with pytest.raises(ValueError, match="too small"):
        model.kernels(data, np.arange(3, dtype=np.int32), np.empty((2, 5)))
