"""--l1-from-epoch, the epoch from which L1 and the group penalty act on factors, for every solver that has them."""

import numpy as np
import pytest
from problems import ROW_SOLVERS, dataset, parameters

from fmcli.errors import UsageError
from fmcli.penalties.penalty import Penalty
from fmcli.registry.models import MODELS
from fmcli.registry.solvers import SOLVERS
from fmcli.registry.specs import make_spec
from fmcli.training import saving
from fmcli.training.job import plan, summary, train

SPARSE = (*ROW_SOLVERS, "cd")
# Strong enough to make all factors zero, even with ftrl, where the penalty is relative to the sum of the losses.
HEAVY = {"l1_v": 1e4, "group_l1": 1e4}


def one_hot(rows=600, levels=6, seed=0):
    """Data with two categorical columns, whose labels are mostly their interaction."""
    rng = np.random.default_rng(seed)
    left, right = rng.integers(levels, size=(2, rows))
    effects = rng.normal(size=(levels, 2)) @ rng.normal(size=(2, levels))
    labels = effects[left, right] + 0.3 * rng.normal(size=rows)
    return dataset([{int(i): 1.0, int(levels + j): 1.0} for i, j in zip(left, right, strict=True)], 2 * levels, labels)


DATA = one_hot()


def one_hot_newcomers():
    """Rows of the same right column, whose left column has a level of its own, numbered after all others."""
    rng = np.random.default_rng(1)
    return dataset([{int(6 + right): 1.0, 12: 1.0} for right in rng.integers(6, size=60)], 13, rng.normal(size=60))


def followed(solver, name="fm", valid=None, patience=3, **options):
    """Train; return the run and its parameters after every epoch."""
    spec = make_spec(name, solver, "squared", {"init_std": 0.3, "epochs": 5, **options})
    job = plan(DATA, spec, valid=valid, patience=patience)
    seen = []
    return train(job, on_epoch=lambda _: seen.append(parameters(job.model))), seen


@pytest.mark.parametrize("penalty", HEAVY)
@pytest.mark.parametrize("solver", SPARSE)
def test_penalties_begin_to_act_on_factors(solver, penalty):
    first, strengths = 4, {penalty: HEAVY[penalty], "l1_w": 1e-3}
    trained, seen = followed(solver, l1_from_epoch=first, **strengths)
    alive = [bool(params["V"].any()) for params in seen]
    # ftrl updates all rows at the end of the epoch before.
    assert alive == [True] * (first - 1 - (solver == "ftrl")) + [False] * (2 + (solver == "ftrl"))
    # The logged penalty includes factors from the end of the epoch before, and linear weights from the start.
    scale = DATA.rows if solver == "ftrl" else 1
    values = trained.plan.spec.values
    l2 = {name: values[name] for name in ("l2_w", "l2_v")}
    for number, (epoch, params) in enumerate(zip(trained.epochs, seen, strict=True), start=1):
        w, v = params["w"][0], params["V"][0]
        want = 1e-3 * np.abs(w).sum() + l2["l2_w"] / 2 * np.sum(w**2) + l2["l2_v"] / 2 * np.sum(v**2)
        if number >= first - 1:
            rows = np.hstack([v, w[:, None]])
            factors = np.abs(v).sum() if penalty == "l1_v" else np.linalg.norm(rows, axis=1).sum()
            want += HEAVY[penalty] * factors
        assert epoch.penalty == pytest.approx(want / scale, rel=1e-4)


def test_the_objective_of_cd_never_rises_from_the_epoch_before():
    trained, _ = followed("cd", l1_from_epoch=4, l1=0.02, group_l1=0.02, epochs=12, tol=0)
    objectives = np.array([epoch.objective for epoch in trained.epochs])
    assert np.diff(objectives[2:]).max() < 1e-6
    assert objectives[2] > objectives[1]  # the penalty on factors is added


@pytest.mark.parametrize("solver", SPARSE)
def test_only_penalized_epochs_can_be_best(solver):
    """The epochs without the penalty are better, and more of them than the patience, but they are not candidates."""
    trained, seen = followed(solver, valid=DATA, patience=1, l1_from_epoch=5, epochs=7, **HEAVY)
    errors = [epoch.valid["rmse"] for epoch in trained.epochs]
    first = 5 - (solver == "ftrl")
    assert trained.best >= first
    assert len(errors) > first
    assert min(errors) < errors[trained.best - 1]
    np.testing.assert_array_equal(parameters(trained.plan.model)["V"], seen[trained.best - 1]["V"])


def test_the_tolerance_applies_from_that_epoch():
    trained, _ = followed("cd", l1_from_epoch=6, l1=1e-3, tol=0.5, epochs=20)
    assert len(trained.epochs) == 6


@pytest.mark.parametrize("solver", SPARSE)
def test_an_epoch_after_the_last_is_refused_and_a_default_is_lowered(solver):
    last = 4 if solver == "ftrl" else 3
    assert followed(solver, l1_from_epoch=last, epochs=3)[0].plan.spec.values["l1_from_epoch"] == last
    with pytest.raises(UsageError, match=f"l1_from_epoch is {last + 1}, after the last of 3 epochs"):
        plan(DATA, make_spec("fm", solver, "squared", {"l1_from_epoch": last + 1, "epochs": 3}))
    lowered = plan(DATA, make_spec("sglfm", solver, "squared", {"epochs": 3})).spec.values["l1_from_epoch"]
    assert lowered == last
    assert make_spec("fm", solver).values["l1_from_epoch"] == (2 if solver == "ftrl" else 1)


def test_epochs_that_a_model_has_gone_through_count():
    penalty = Penalty(l1_v=1, l1_from_epoch=4, epochs=2)
    assert not penalty.on_factors
    assert penalty.end_epoch()
    assert penalty.on_factors
    assert not penalty.end_epoch()


@pytest.mark.parametrize("given", [{}, {"l1_from_epoch": 4}], ids=["default", "inherited"])
@pytest.mark.parametrize("state", [True, False], ids=["state", "no-state"])
@pytest.mark.parametrize("solver", ROW_SOLVERS)
def test_the_only_epoch_of_an_update_is_penalized_and_newcomers_live(solver, state, given, tmp_path):
    """The first epoch that is penalized is never after the end of the run, whatever the earlier run was given."""
    path = str(tmp_path / "m.fm")
    first, _ = followed(solver, "sglfm", l1=1e-6, group_l1=1e-6, **given)
    saving.save_model(path, first, summary(first), "libsvm", keep_state=state)
    newcomers = one_hot_newcomers()
    alive = {}
    for name, strengths in {"inherited": {}, "heavy": HEAVY}.items():
        warm_start = saving.load_warm_start(path)
        spec = warm_start.continued(None, None, None, strengths)
        update = train(plan(newcomers, spec, warm_start=warm_start))
        assert len(update.epochs) == 1
        alive[name] = parameters(update.plan.model)["V"][0].any(axis=1)
    touched = np.unique(newcomers.index)
    assert alive["inherited"][touched].all()
    assert not alive["heavy"][touched].any()


def test_lbfgs_has_no_such_penalty():
    with pytest.raises(UsageError, match="l1_from_epoch cannot be used with lbfgs"):
        make_spec("fm", "lbfgs", "squared", {"l1_from_epoch": 2})


def test_adaptive_steps_follow_no_schedule():
    with pytest.raises(UsageError, match="schedule inverse needs no_adaptive"):
        make_spec("sglfm", None, "squared", {"schedule": "inverse"})


@pytest.mark.parametrize("name", [name for name in MODELS if MODELS[name].positive])
def test_the_sparse_kinds_learn_and_are_sparse_by_their_defaults(name):
    """The labels depend on the interaction of two categorical columns. Many rare categories are irrelevant."""
    rng = np.random.default_rng(4)
    rows, levels, rare = 6000, 40, 1500
    left, right = rng.integers(levels, size=(2, rows))
    others = 2 * levels + rng.integers(rare, size=rows)
    effects = rng.normal(size=(levels, 3)) @ rng.normal(size=(3, levels))
    labels = effects[left, right] + 0.3 * rng.normal(size=rows)
    entries = [{int(i): 1.0, levels + int(j): 1.0, int(r): 1.0} for i, j, r in zip(left, right, others, strict=True)]
    data = dataset(entries, 2 * levels + rare, labels)
    train_rows, test_rows = np.arange(4500, dtype=np.int32), np.arange(4500, rows, dtype=np.int32)

    def error(kind):
        job = plan(data.take(train_rows), make_spec(kind, None, "squared", {}), valid=data.take(test_rows))
        return train(job).epochs[-1].valid["rmse"], parameters(job.model)

    linear, _ = error("linear")
    found, params = error(name)
    assert found < 0.8 * linear
    zeros = params["V"][0] == 0
    assert zeros[2 * levels :].mean() > 0.05
    assert zeros[: 2 * levels].mean() < 0.01


def test_every_solver_of_sparse_models_is_here():
    assert set(SPARSE) == {name for name, solver in SOLVERS.items() if "l1" not in solver.refuses}
