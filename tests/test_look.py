"""The look before a run: options are chosen on validation data."""

from dataclasses import replace

import numpy as np
import pytest
from test_every_pair import planted

from fmcli.registry.solvers import SOLVERS
from fmcli.registry.specs import make_spec
from fmcli.training import job
from fmcli.training.look import LEAST_ERRORS, look

pytestmark = pytest.mark.exact


@pytest.fixture(scope="module")
def rows():
    return planted("linear", "squared", rows=600)[0]


@pytest.fixture(autouse=True)
def few_rows(monkeypatch):
    """adagrad looks on few rows, too."""
    monkeypatch.setitem(SOLVERS, "adagrad", replace(SOLVERS["adagrad"], looks_from=600))


def planned(rows, solver="adagrad", settings=None, **options):
    spec = make_spec("fm", solver, None, {"rank": 2, **options})
    return job.plan(rows, spec, **{"holdout": 0.25, "look": True, **(settings or {})})


def metric_of(plan):
    """The metric of the best epoch of a run."""
    trained = job.train(plan)
    return min(epoch.valid["rmse"] for epoch in trained.epochs)


def test_a_clearly_better_value_is_taken_and_kept_as_if_it_were_given(rows):
    """With small steps, weights that are four times faster are much better; with large steps they are not."""
    for rate, better in ((0.01, True), (1.0, False)):
        plan = planned(rows, learning_rate_v=rate, epochs=3)
        plan.spec.values["learning_rate_w"] = rate
        chosen, (compared,) = look(plan)
        assert (compared.option, compared.value, compared.usual) == ("learning_rate_w", 4 * rate, rate)
        usual, other = (planned(rows, learning_rate_v=rate, learning_rate_w=w, epochs=3) for w in (rate, 4 * rate))
        assert (compared.before, compared.found) == pytest.approx((metric_of(usual), metric_of(other)))
        assert compared.chosen == better == (chosen is not plan)
        assert chosen.spec.values["learning_rate_w"] == (4 * rate if better else rate)
        assert ("learning_rate_w" in chosen.spec.given) == better
        assert metric_of(chosen) == pytest.approx(min(compared.before, compared.found))


def test_a_difference_within_its_error_decides_nothing(rows, monkeypatch):
    plan = planned(rows, learning_rate_v=0.01, epochs=3)
    plan.spec.values["learning_rate_w"] = 0.01
    monkeypatch.setattr("fmcli.training.look.LEAST_ERRORS", 1000 * LEAST_ERRORS)
    chosen, (compared,) = look(plan)
    assert compared.found < compared.before
    assert not compared.chosen
    assert chosen is plan


def test_divergence_is_worse_than_any_value(rows):
    plan = planned(rows, "sgd", epochs=3)
    assert look(plan)[1] == []  # it has no other values
    plan = planned(rows, learning_rate_v=0.05, epochs=3)
    plan.spec.values["learning_rate_w"] = 1e30
    chosen, (compared,) = look(plan)
    assert (compared.before, compared.found, compared.chosen) == (None, None, False)
    assert chosen is plan


@pytest.mark.parametrize(
    ("options", "settings"),
    [
        ({"learning_rate_w": 0.05}, {}),
        ({"learning_rate": 0.05}, {}),
        ({}, {"look": False}),
        ({}, {"holdout": 0.0}),
        ({}, {"deadline": 1e12}),
        ({"epochs": 1}, {}),
        ({"linear": False}, {}),
    ],
)
def test_nothing_is_tried(rows, options, settings):
    plan = planned(rows, settings=settings, **{"epochs": 3, **options})
    assert look(plan) == (plan, [])


def test_a_solver_may_look_only_if_there_are_enough_rows(rows):
    plan = planned(rows.take(np.arange(599, dtype=np.int32)), epochs=2)
    assert look(plan) == (plan, [])


def test_a_run_that_is_not_cheap_does_not_look(rows, monkeypatch):
    plan = planned(rows, epochs=2)
    work = rows.take(np.arange(450, dtype=np.int32)).nnz * 2
    for limit, tried in ((rows.nnz * 2, 1), (work, 0)):
        monkeypatch.setattr("fmcli.training.refit.AFFORDABLE", limit)
        assert len(look(plan)[1]) == tried
