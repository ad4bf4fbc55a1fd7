"""The deterministic solvers, cd and lbfgs: their minima, their stopping criterion, and how they resume."""

import numpy as np
import pytest
from problems import (
    TRAINED,
    assert_close,
    build,
    dataset,
    fields_of,
    parameters,
    random_rows,
    score_all,
    validation_rows,
)
from test_descent import FEATURES
from test_every_pair import planted

from fmcli.errors import NotEnoughMemoryError, UsageError
from fmcli.losses.loss import Squared
from fmcli.penalties.penalty import Penalty
from fmcli.registry import solvers
from fmcli.registry.build import build_trainer
from fmcli.registry.models import MODELS
from fmcli.registry.solvers import SOLVERS
from fmcli.registry.specs import make_spec, resolve
from fmcli.scoring.scorer import load_model
from fmcli.scoring.scores import mean_loss
from fmcli.solvers.stochastic.loop import RowLoop
from fmcli.training import job, saving
from fmcli.training.account import need_of

pytestmark = pytest.mark.exact

WHOLE = ("cd", "lbfgs")
CLOSE = 1e-6


def train(data, model, solver, loss="squared", *, plan=None, **options):
    return job.train(job.plan(data, make_spec(model, solver, loss, options), **(plan or {})))


def dense(x, y):
    """A Dataset in which every row has an entry for every feature."""
    return dataset([{j: float(v) for j, v in enumerate(row)} for row in np.float32(x)], x.shape[1], y)


# ---- Convex problems ----


def value_of(loss, x, y, l1, l2, bias, w):
    score = x @ w + bias
    losses = (score - y) ** 2 / 2 if loss == "squared" else np.logaddexp(0, -y * score)
    return losses.mean() + l1 * np.abs(w).sum() + l2 / 2 * w @ w


def scikit_learns(loss, x, y, l1, l2):
    """Return bias and weights as fitted by scikit-learn."""
    from sklearn.linear_model import ElasticNet, Lasso, LogisticRegression, Ridge

    if loss == "logistic":
        strength, ratio = 1 / (len(y) * (l1 + l2)), l1 / (l1 + l2)
        found = LogisticRegression(C=strength, l1_ratio=ratio, solver="saga", tol=1e-10, max_iter=100_000).fit(x, y)
        return found.intercept_[0], found.coef_[0]
    exact = {"tol": 1e-12, "max_iter": 100_000}
    if l1 and l2:
        found = ElasticNet(alpha=l1 + l2, l1_ratio=l1 / (l1 + l2), **exact).fit(x, y)
    else:
        found = Lasso(alpha=l1, **exact).fit(x, y) if l1 else Ridge(alpha=l2 * len(y)).fit(x, y)
    return found.intercept_, found.coef_


@pytest.mark.parametrize(
    ("loss", "l1", "l2"),
    [
        ("squared", 0.0, 0.05),
        ("squared", 0.05, 0.0),
        ("squared", 0.03, 0.02),
        ("logistic", 0.0, 0.02),
        ("logistic", 0.01, 0.01),
    ],
)
def test_solvers_agree_with_scikit_learn_on_convex_problems(loss, l1, l2):
    """Ridge, lasso, elastic net and logistic regression: every solver reaches the same objective as scikit-learn."""
    rng = np.random.default_rng(0)
    x = np.float32(rng.normal(size=(200, 6))).astype(float)
    y = x @ (rng.normal(size=6) * (np.arange(6) % 2)) + 0.3 + rng.normal(size=200)
    y = np.sign(y) if loss == "logistic" else y
    data, penalty = dense(x, y), {"l1": l1, "l2": l2}
    by_batch = {"batch_size": 200, "learning_rate": 0.5, "epochs": 1500}
    ends = {"cd": train(data, "linear", "cd", loss, tol=0, epochs=300, **penalty)}
    ends["fobos"] = train(data, "linear", "fobos", loss, **by_batch, **penalty)
    if not l1:
        ends["lbfgs"] = train(data, "linear", "lbfgs", loss, tol=0, l2=l2)
    best = value_of(loss, x, y, l1, l2, *scikit_learns(loss, x, y, l1, l2))
    for name, trained in ends.items():
        params = parameters(trained.plan.model)
        assert abs(value_of(loss, x, y, l1, l2, params["bias"][0], params["w"][0]) - best) < CLOSE, name
    assert abs(ends["cd"].epochs[-1].objective - best) < CLOSE


def least_nuclear_norm(x, y, strength):
    """Return the minimum of half the mean squared error plus ``strength`` times the nuclear norm of a symmetric M.

    The scores are [1, x]'M[1, x]. The method is accelerated proximal gradient descent.
    """
    z = np.hstack([np.ones((len(x), 1)), x])
    rate = 1 / np.mean((z**2).sum(axis=1) ** 2)
    M, last, momentum = (np.zeros((z.shape[1],) * 2) for _ in range(3))
    for step in range(1, 20_000):
        residual = np.einsum("ni,ij,nj->n", z, momentum, z) - y
        values, vectors = np.linalg.eigh(momentum - rate * (z.T * residual) @ z / len(y))
        last, M = M, (vectors * np.sign(values) * np.maximum(np.abs(values) - rate * strength, 0)) @ vectors.T
        momentum = M + (step - 1) / (step + 2) * (M - last)
    residual = np.einsum("ni,ij,nj->n", z, M, z) - y
    return np.mean(residual**2) / 2 + strength * np.abs(np.linalg.eigvalsh(M)).sum()


def test_lifted_and_direct_networks_reach_the_minimum_with_nuclear_norm():
    """[PN] Theorem 2: half the squared norms of a lifted network's vectors are the same penalty as |beta| |p|^2 of a
    direct network, the nuclear norm. Both reach its minimum."""
    rng = np.random.default_rng(0)
    x = np.float32(rng.normal(size=(80, 4))).astype(float)
    y = (x @ rng.normal(size=4)) ** 2 - (x @ rng.normal(size=4)) ** 2 + rng.normal(size=80)
    strength = 0.5
    options = {"rank": 6, "linear": False, "bias": False, "init_std": 0.3, "tol": 0, "epochs": 3000}
    lifted = train(dense(x, y), "lifted-pn", "cd", l2=strength, **options).epochs[-1].objective
    direct = train(dense(x, y), "pn", "cd", nuclear=strength, **options).epochs[-1].objective
    best = least_nuclear_norm(x, y, strength)
    assert lifted == pytest.approx(best, rel=1e-3)
    assert direct == pytest.approx(best, rel=1e-3)


@pytest.mark.parametrize("name", ["anova", "pn", "sha2"])
def test_the_objective_with_a_nuclear_norm_never_rises(name):
    rng = np.random.default_rng(1)
    data = dataset(random_rows(rng, 60, FEATURES), FEATURES, rng.normal(size=60))
    trained = train(data, name, "cd", nuclear=0.2, l2=1e-5, init_std=0.3, tol=0, epochs=40)
    objectives = [epoch.objective for epoch in trained.epochs]
    assert np.diff(objectives).max() < CLOSE
    params = parameters(trained.plan.model)
    factors = [params[key] for key in ("V", "P", "gamma", "v0") if key in params]
    norms = sum((values.reshape(-1, values.shape[-1]) ** 2).sum(axis=0) for values in factors)
    w = params.get("w", np.zeros(1))
    penalty = 0.2 * np.abs(params["beta"][0]) @ norms + 1e-5 / 2 * (w**2).sum()
    assert trained.epochs[-1].penalty == pytest.approx(penalty, rel=1e-5)
    assert (params["beta"] == 0).any()


@pytest.mark.parametrize(("name", "order"), [("anova", 2), ("pn", 2), ("pn", 4)])
def test_fitted_kernel_weights_lower_the_training_objective(name, order):
    """[PN] Fig. 1, on scikit-learn's diabetes data: kernel weights that are fitted, fixed at 1, or fixed at 1 and -1.

    There are several local minima, so the best of three starts counts. Fitted weights start at 1 and -1 and may stay
    there, so they need not be better than fixed weights.
    """
    from sklearn.datasets import load_diabetes

    x, y = load_diabetes(return_X_y=True)
    data = dense(x / x.std(axis=0), (y - y.mean()) / y.std())
    usual = {"rank": 10, "linear": False, "order": order, "init_std": 0.1, "epochs": 60, "augment": True, "tol": 0}
    # For order 2, the penalty is equation (29) of the paper: strength times |beta| |p|^2.
    fitting = {"nuclear": 0.01} if order == 2 else {"l2": 1e-6}
    fixed = {"l2": 0.02 if order == 2 else 1e-6, "fit_beta": False}

    def end(**options):
        return min(train(data, name, "cd", seed=seed, **usual, **options).epochs[-1].objective for seed in range(3))

    fitted = end(**fitting)
    assert fitted < 0.98 * end(**fixed, beta_start="ones")
    assert fitted < 1.01 * end(**fixed, beta_start="alternate")


def test_powers_do_not_creep_where_the_loss_is_flat():
    """A bound on the curvature of the logistic loss is far too large for samples that a power predicts well: with it,
    the objective is .12 after the same number of sweeps."""
    rng = np.random.default_rng(2)
    x = rng.normal(size=(800, 6)) / np.sqrt(6)
    score = (0.5 + x @ rng.normal(scale=1.5, size=(6, 2))) ** 4 @ [1, -1]
    options = {"order": 4, "rank": 4, "l2": 1e-4, "l2_v": 1e-4, "tol": 0.0, "init_std": 0.3}
    trained = train(dense(x, np.sign(score - np.median(score))), "pn", "cd", "logistic", epochs=60, **options)
    assert trained.epochs[-1].objective < 0.06


# ---- Groups ----


def steps_by_rows(model, data, penalty, solver, steps):
    """Take full-batch steps with a stochastic solver, that is, proximal gradient steps; return the objective after."""
    trainer = RowLoop(model, solver, Squared(), data, batch_size=data.rows)
    for _ in range(steps):
        trainer.train_on(np.arange(data.rows, dtype=np.int32), 0, data.rows)
    solver.end_epoch()
    return mean_loss(Squared(), data.label, score_all(model, data)) + penalty.value(model)


@pytest.mark.parametrize(("name", "solver"), [("linear", "adagrad"), ("fm", "fobos"), ("fm", "adagrad")])
def test_a_convex_problem_with_groups_has_one_minimum(name, solver):
    """A linear model, and an FM whose factors start and stay at 0, so its rows are only linear weights."""
    rng = np.random.default_rng(3)
    x = np.float32(rng.normal(size=(60, 6))).astype(float)
    data = dense(x, x @ [1, -1, 0.5, 0.05, 0, 0] + 0.1 * rng.normal(size=60))
    strengths = {"l1_w": 0.01, "l1_v": 0.02, "l2_w": 0.1, "l2_v": 0.3, "group_l1": 0.1}
    found = train(data, name, "cd", init_std=0, tol=0, epochs=200, **strengths)
    model, options = build(name, 6, rank=4), {"adaptive": True} if solver == "fobos" else {}
    by_rows = SOLVERS[solver].load()(learning_rate=0.5, learning_rate_w=0.3, **options)
    model.allocate(by_rows.slots)
    by_rows.bind(model, Penalty(**strengths))
    objective = steps_by_rows(model, data, Penalty(**strengths), by_rows, 500)
    assert objective == pytest.approx(found.epochs[-1].objective, rel=1e-5)
    w = model.parameters["w"]
    np.testing.assert_allclose(w, found.plan.model.parameters["w"], atol=1e-3)
    assert (w[0] == 0).tolist() == [False] * 3 + [True] * 3


@pytest.mark.parametrize("solver", ["sgd", "adagrad", "fobos"])
def test_the_solution_of_cd_is_stationary_for_stochastic_solvers(solver):
    """Rows of factors and weights under all penalties. A stationary point does not depend on the step sizes."""
    rng = np.random.default_rng(5)
    x = np.float32(rng.normal(size=(80, 6))).astype(float)
    v = rng.normal(size=(4, 2))
    data = dense(x, x[:, 0] + sum((x[:, i] * x[:, j]) * (v[i] @ v[j]) for i in range(4) for j in range(i)))
    strengths = {"l1_w": 0.02, "l1_v": 0.01, "l2_w": 0.05, "l2_v": 0.02, "group_l1": 0.1}
    found = train(data, "fm", "cd", rank=3, init_std=1.0, tol=0, epochs=400, **strengths)
    end = parameters(found.plan.model)
    rows_left = (end["V"][0] != 0).any(axis=1)
    assert rows_left[:4].sum() >= 3
    assert not rows_left[4:].any()
    by_rows = SOLVERS[solver].load()(learning_rate=0.02, learning_rate_w=0.05)
    model = build("fm", 6, rank=3)
    model.allocate(by_rows.slots)
    for name, array in model.parameters.items():
        array[...] = end[name]
    by_rows.bind(model, Penalty(**strengths))
    objective = steps_by_rows(model, data, Penalty(**strengths), by_rows, 100)
    assert objective == pytest.approx(found.epochs[-1].objective, rel=1e-5)
    assert_close(parameters(model), end, {"rtol": 1e-2, "atol": 1e-3})


# ---- Stopping, resuming, unsupported options ----


@pytest.mark.parametrize("solver", WHOLE)
def test_training_stops_at_the_tolerance(solver):
    data, _ = planted("fm", "squared")
    for tol in (1e-2, 1e-4):
        trained = train(data, "fm", solver, init_std=0.1, tol=tol, epochs=200)
        objectives = np.array([epoch.objective for epoch in trained.epochs])
        falls = -np.diff(objectives) / objectives[:-1]
        assert trained.converged
        assert falls[-1] <= tol < falls[:-1].min()
    assert not train(data, "fm", solver, tol=1e-4, epochs=2).converged


@pytest.mark.parametrize("solver", WHOLE)
def test_the_best_epoch_is_kept(solver):
    data, test = planted("fm", "logistic")
    plan = {"valid": test, "patience": 3, "metrics": ("logloss",)}
    trained = train(data, "fm", solver, "logistic", plan=plan, init_std=0.3, l2=1e-5, tol=0)
    values = [epoch.valid["logloss"] for epoch in trained.epochs]
    assert trained.best == np.argmin(values) + 1 == len(values) - 3
    kept = train(data, "fm", solver, "logistic", init_std=0.3, l2=1e-5, tol=0, epochs=trained.best)
    assert_close(parameters(kept.plan.model), parameters(trained.plan.model), {"rtol": 0, "atol": 0})


@pytest.mark.parametrize("solver", WHOLE)
@pytest.mark.parametrize("name", ["fm", "hofm-simplex", "ffm", "llfm"])
def test_resuming_starts_at_the_objective_of_the_earlier_run(name, solver, tmp_path):
    data, _ = planted(name, "squared")
    options = {"rank": 3, "init_std": 0.1, "norm": False, "epochs": 4, "tol": 0}
    first = train(data, name, solver, **options)
    path = tmp_path / "first.fm"
    saving.save_model(str(path), first, job.summary(first), "libsvm")
    second = train(data, name, solver, plan={"warm_start": saving.load_warm_start(str(path))}, **options)
    objectives = [epoch.objective for epoch in (*first.epochs, *second.epochs)]
    assert np.diff(objectives).max() <= 1e-5 * objectives[0]
    assert objectives[4] < objectives[3]
    if solver == "cd":  # it has no state
        assert objectives == [epoch.objective for epoch in train(data, name, solver, **options | {"epochs": 8}).epochs]


@pytest.mark.parametrize("solver", WHOLE)
@pytest.mark.parametrize("name", TRAINED)
def test_rows_without_entries(name, solver):
    """Only the bias can be learned."""
    if MODELS[name].positive and solver == "lbfgs":
        with pytest.raises(UsageError):
            make_spec(name, solver)
        return
    rows = (
        dataset([{(0, 0): 1.0}, {}, {}], 1, [1, 2, 4]) if fields_of(name) else dataset([{0: 1.0}, {}, {}], 1, [1, 2, 4])
    )
    empty = rows.take(np.array([1, 2, 1], dtype=np.int32))
    options = {} if MODELS[name].positive else {"l2": 1e-5}
    trained = train(empty, name, solver, epochs=3 if solver == "cd" else 8, norm=False, **options)
    np.testing.assert_allclose(job.empty_score(trained.plan.model), 8 / 3, rtol=1e-3)


@pytest.mark.parametrize("solver", [name for name, solver in SOLVERS.items() if not solver.is_sampler])
def test_data_without_features(solver, tmp_path):
    trained = train(dataset([{}, {}, {}], 0, [1, 2, 4]), "fm", solver, epochs=2)
    assert job.empty_score(trained.plan.model)[0] == pytest.approx(7 / 3, abs=0.2)
    path = tmp_path / "empty.fm"
    saving.save_model(str(path), trained, job.summary(trained), "libsvm")
    scored = load_model(str(path)).scores(dataset([{}], 0))
    assert scored[0] == job.empty_score(trained.plan.model)


@pytest.mark.parametrize("limit", ["FEW_ROWS", "FEW_DENSE_ROWS"])
def test_few_rows_wait_longer_for_a_better_epoch(monkeypatch, limit):
    features = 4 if limit == "FEW_DENSE_ROWS" else 10
    x, label = np.random.default_rng(0).normal(size=(150, 2)), np.random.default_rng(1).normal(size=150)
    firsts = np.arange(150) % (features - 1)
    noise = dataset([{j: a, j + 1: b} for j, (a, b) in zip(firsts, x, strict=True)], features, label)
    for few, waits in ((150, SOLVERS["cd"].patience), (149, SOLVERS["adagrad"].patience)):
        monkeypatch.setattr(solvers, "FEW_ROWS", 0)
        monkeypatch.setattr(solvers, "FEW_DENSE_ROWS", 0)
        monkeypatch.setattr(solvers, limit, few)
        trained = train(noise, "fm", "adagrad", plan={"holdout": 0.2}, rank=2, learning_rate=0.5)
        assert len(trained.epochs) == trained.best + waits


def test_held_out_rows_end_training():
    """Of labels that are noise, the first epochs predict others best; the objective falls on."""
    data, _ = planted("fm", "squared")
    few = data.take(np.arange(150)).changed(label=np.random.default_rng(0).normal(size=150))
    for solver in WHOLE:
        trained = train(few, "fm", solver, plan={"holdout": None}, rank=2, init_std=0.5, tol=0.0, l2=0.0)
        assert validation_rows(trained.plan).rows == 30
        assert trained.plan.spec.values["epochs"] == 300
        assert len(trained.epochs) == trained.best + SOLVERS[solver].patience < 300
        assert trained.epochs[-1].objective < trained.epochs[trained.best - 1].objective


@pytest.mark.parametrize("solver", WHOLE)
def test_memory_is_checked_before_training(solver, monkeypatch):
    data, _ = planted("fm", "squared")
    plan = job.plan(data, make_spec("fm", solver, "squared"))
    need = need_of(plan)
    assert need.total - need.held >= build_trainer(plan.task).bytes_needed()
    monkeypatch.setattr("fmcli.system.memory.LARGE", 0)
    monkeypatch.setattr("fmcli.system.memory._tightest", lambda *_: (1000, "left", "buy more"))
    with pytest.raises(NotEnoughMemoryError, match="training needs"):
        job.train(plan)


@pytest.mark.parametrize(
    ("model", "solver", "loss", "options", "message"),
    [
        ("fm", "cd", "hinge", {}, "cd needs a differentiable loss.*loss squared-hinge"),
        ("fm", "lbfgs", "hinge", {}, "lbfgs needs a differentiable loss"),
        ("fm", "lbfgs", None, {"l1": 0.1}, "l1 cannot be used with lbfgs: .*solver cd"),
        ("fm", "lbfgs", None, {"group_l1": 0.1}, "group_l1 cannot be used with lbfgs"),
        ("sglfm", "lbfgs", None, {}, "sglfm needs l1 and group_l1, which lbfgs does not support; use solver sgd"),
        ("fm", "cd", None, {"batch_size": 5}, "batch_size cannot be used with cd"),
        ("fm", "cd", None, {"shuffle": False}, "shuffle.* cannot be used with cd"),
        ("fm", "cd", None, {"learning_rate": 0.1}, "learning_rate does not apply to fm, cd"),
        ("fm", "sgd", None, {"tol": 0.1}, "tol does not apply to fm, sgd; it applies to solver cd, lbfgs"),
        ("fm", "cd", None, {"nuclear": 0.1}, "nuclear applies only to kernels.*anova or sha2 or pn"),
        ("anova", "cd", None, {"nuclear": 0.1, "order": 3}, "nuclear applies only"),
        ("pn", "cd", None, {"nuclear": 0.1, "fit_beta": False}, "nuclear applies only"),
        ("pn", "cd", None, {"nuclear": 0.1, "group_l1": 0.1}, "cannot be combined"),
        ("fm", "lbfgs", None, {"nuclear": 0.1}, "nuclear does not apply to fm, lbfgs; it applies to solver cd"),
    ],
)
def test_unsupported_combinations_are_refused(model, solver, loss, options, message):
    with pytest.raises(UsageError, match=message):
        make_spec(model, solver, loss, options)


def test_default_l2_of_factors():
    """The default l2 of factors depends on the solver, unless the model or an option overrides it."""

    def strengths(model="fm", solver="cd", **options):
        spec = resolve(make_spec(model, solver, None, options), rows=50, nonzeros=200, features=10, validated=False)
        return spec.values["l2_w"], spec.values["l2_v"]

    assert strengths() == strengths(solver="lbfgs") == (0.02, 0.2)
    assert strengths(solver="sgd") == (1e-5, 1e-5)
    assert strengths(l2=0.5) == (0.5, 0.5)
    assert strengths(l2_w=0.5) == (0.5, 0.2)
    assert strengths(l2=0.5, l2_v=0.1) == (0.5, 0.1)
    assert strengths(group_l1=0.1) == strengths()
    assert {strengths(name) for name in MODELS if MODELS[name].positive} == {(0.0, 0.0)}
