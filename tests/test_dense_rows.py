"""Few rows that have most features choose the solver, if no choice of the user stands against it."""

import time
from dataclasses import replace

import numpy as np
import pytest
from problems import dataset

from fmcli.cli.train.log import hints
from fmcli.registry import solvers
from fmcli.registry.solvers import SOLVERS
from fmcli.registry.specs import SOLVER, make_spec
from fmcli.training import job, saving
from fmcli.training.setup import fitting

ROWS, FEATURES = 200, 6


def rows_of(share, rng):
    """Rows that have this share of the features, in the mean, and the labels."""
    values = rng.normal(size=(ROWS, FEATURES)) + 0.1
    labels = values[:, 0] * values[:, 1] + values[:, 2]
    kept = (np.arange(FEATURES) + np.arange(ROWS)[:, None]) % FEATURES < share * FEATURES
    rows = [{j: x for j, x in enumerate(row) if one[j]} for row, one in zip(values, kept, strict=True)]
    return dataset(rows, FEATURES, labels)


@pytest.fixture
def dense(rng):
    return rows_of(1.0, rng)


def planned(rows, options=None, model="fm", solver=None, loss=None, **settings):
    spec = make_spec(model, solver, loss, options or {})
    return job.plan(rows, spec, **{"holdout": None, "quick_search": True, **settings})


@pytest.mark.parametrize(("share", "solver"), [(1.0, "cd"), (0.5, "cd"), (0.3, "adagrad")])
def test_dense_rows_choose_coordinate_descent(rng, share, solver):
    plan = planned(rows_of(share, rng))
    assert plan.spec.solver == plan.settings.spec.solver == solver
    assert plan.spec.solver_by_data == (solver == "cd")
    assert SOLVER not in plan.spec.given


def test_the_defaults_are_those_of_the_solver(dense):
    chosen = planned(dense, {"rank": 3, "seed": 5, "scale": "standard"})
    asked = planned(dense, {"rank": 3, "seed": 5, "scale": "standard"}, solver="cd")
    assert chosen.spec.solver == "cd"
    assert chosen.spec.values == asked.spec.values
    assert asked.spec.given - chosen.spec.given == {SOLVER}
    assert chosen.settings.waits(10**6, dense=True) == asked.settings.waits(10**6, dense=True) == SOLVERS["cd"].patience


@pytest.mark.parametrize("share", [1.0, 0.3])
def test_runs_of_dense_rows_wait_longer_for_a_better_epoch(rng, monkeypatch, share):
    monkeypatch.setattr(solvers, "FEW_ROWS", ROWS - 1)
    solver = SOLVERS["adagrad"]
    plan = planned(rows_of(share, rng), solver="adagrad")
    assert plan.evaluation.patience == solver.waits(ROWS, dense=share == 1)
    assert solver.waits(ROWS, dense=True) > solver.waits(ROWS, dense=False)


@pytest.mark.parametrize(
    "choices",
    [
        {"options": {"learning_rate": 0.05}},
        {"options": {"epochs": 30}},
        {"options": {"l2": 1e-5}},
        {"options": {"init_std": 0.01}},
        {"options": {"batch_size": 4}},
        {"options": {"shuffle": False}},
        {"solver": "adagrad"},
        {"loss": "huber"},
        {"model": "anova"},
        {"holdout": 0.0},
        {"quick_search": False},
        {"keep_state": True},
        {"stream": True},
    ],
)
def test_a_choice_of_the_user_decides_the_solver(dense, choices):
    assert planned(dense, **choices).spec.solver == "adagrad"


def test_a_kind_with_several_ranks_trains_on_dense_rows(dense):
    assert planned(dense, {"rank": [2, 3], "order": 3}, model="hofm").spec.solver == "adagrad"


def test_of_many_dense_rows_the_log_says_which_solver_is_better(dense, monkeypatch):
    said = [any("-s cd" in hint for hint in hints(planned(dense)))]
    monkeypatch.setattr(fitting, "FEW_VISITS", 0)
    said += [any("-s cd" in hint for hint in hints(planned(dense, options))) for options in ({}, {"epochs": 3})]
    assert said == [False, True, False]


def test_nor_is_it_chosen_with_a_deadline_or_for_many_rows(dense, monkeypatch):
    assert planned(dense, deadline=time.perf_counter() + 60).spec.solver == "adagrad"
    for most, solver in ((dense.nnz * 8, "cd"), (dense.nnz * 8 - 1, "adagrad")):
        monkeypatch.setattr(fitting, "FEW_VISITS", most)
        assert planned(dense).spec.solver == solver


def test_an_update_is_by_the_usual_solver_without_penalties_that_a_quick_search_chose(dense, tmp_path):
    plan = planned(dense)
    spec = replace(plan.spec, given=plan.spec.given | {"l2_v"}, values={**plan.spec.values, "l2_v": 0.5, "epochs": 2})
    trained = job.train(replace(plan, spec=spec))
    path = str(tmp_path / "m")
    saving.save_model(path, trained, job.summary(trained), "libsvm")
    warm_start = saving.load_warm_start(path)
    update = warm_start.continued(None, None, None, {})
    assert (update.solver, update.values["l2_v"]) == ("adagrad", make_spec("fm", "adagrad").values["l2_v"])
    assert planned(dense, warm_start=warm_start).spec.solver == "adagrad"
