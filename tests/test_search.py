"""The search for options: its runs pause and go on, and it finds what was planted."""

import numpy as np
import pytest
from test_auto import planned, signs

from fmcli.choosing.entrants import Conduct, Entrant, LateError
from fmcli.choosing.plans import fold_plans
from fmcli.choosing.search import BRACKET, Tuning, compare
from fmcli.errors import UsageError
from fmcli.registry.options import OPTIONS
from fmcli.registry.ranges import Range, by, of, read

pytestmark = pytest.mark.exact


@pytest.fixture(scope="module")
def data():
    return signs([(0, 1), (2, 3), (4, 5)], rows=200)


@pytest.mark.parametrize("solver", ["adagrad", "ftrl", "cd", "lbfgs", "mcmc"])
def test_runs_that_pause_reach_the_same_as_others(data, solver):
    """The labels are noise, so that the best epoch is an early one."""
    noise = data.changed(label=np.random.default_rng(1).normal(size=data.rows))
    plan = planned(noise, {"rank": 3, "epochs": 6}, {"holdout": 0.3, "patience": 10}, solver=solver)
    paused, whole = (Entrant(fold_plans(plan, 2)) for _ in range(2))
    for epochs in (2, 4, 6):
        paused.train(epochs)
        assert paused.reached.ended == (epochs == 6) or paused.reached.epochs < epochs
    whole.train(6)
    assert paused.reached == whole.reached
    assert solver in ("ftrl", "mcmc") or min(whole.reached.best) < 4
    assert np.array_equal(paused.outcome().score, whole.outcome().score)
    if solver != "mcmc":
        assert paused.spent == whole.spent


def test_a_deadline_ends_a_run():
    entrant = Entrant([planned(signs([(0, 1)], rows=150), {"rank": 1})], conduct=Conduct(deadline=0.0))
    with pytest.raises(LateError):
        entrant.train(3)


def test_the_planted_rank_and_penalty_are_found(data):
    """Three products of features take three factors. With the first values of the ranges there is one, or nothing but a
    constant is learned."""
    plan = planned(data, {"rank": 1, "l2": 100.0, "epochs": 27}, {"rivals": ()})
    seen = []
    ranges = {"rank": of(1, 2, 4), "l2": Range(1e-6, 100.0)}
    found = compare(plan, Tuning(20, ranges, 2, on_trial=lambda entrant, asked: seen.append((entrant.number, asked))))
    spec = found.chosen.plan.spec
    assert spec.values["rank"] == 4
    assert spec.values["l2"] == spec.values["l2_v"] < 1e-2
    assert found.chosen.reached.value < 0.5 * next(one.value for one in found.rivals if one.number == 0)
    assert len(found.rivals) == len({number for number, _ in seen}) == 20
    # A third of each bracket goes on, for three times as many epochs.
    asked = [[number for number, epochs in seen if number in range(1, BRACKET + 1) and epochs == e] for e in (3, 9, 27)]
    assert [len(numbers) for numbers in asked] == [9, 3, 1]


def test_no_options_are_drawn_twice(data):
    plan = planned(data, {"rank": 1, "epochs": 2}, {"rivals": (), "holdout": 0.3})
    assert len(compare(plan, Tuning(20, {"rank": of(1, 2, 3)})).rivals) == 4


def test_values_of_ranges():
    assert [Range(1e-4, 1.0).at(unit) for unit in (0.0, 0.5, 0.75)] == [1e-4, 0.01, 0.1]
    assert [Range(0.0, 2.0).at(unit) for unit in (0.0, 0.25)] == [0.0, 0.5]
    assert {Range(1, 3, whole=True).at(unit / 100) for unit in range(100)} == {1, 2, 3}
    assert [by(10, 100).at(unit, 0.5) for unit in (0.0, 1 / 3)] == [0.05, 0.5]
    assert read(OPTIONS["rank"], "4,8", int) == of(4, 8)
    for text, message in [
        ("3..2", "write 2..3"),
        ("0..3", "0 is not permitted; it must be 1 to 65536"),
        ("4,4", "a value is given twice"),
    ]:
        with pytest.raises(UsageError, match=message):
            read(OPTIONS["rank"], text, int)
