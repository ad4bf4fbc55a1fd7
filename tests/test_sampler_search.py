"""The quick search of a solver that samples: short chains on held-out rows choose options, and one chain on all rows is
the model."""

import numpy as np
import pytest
from test_auto import planned as planned_with_alternatives
from test_auto import signs

from fmcli.choosing import automatic, search
from fmcli.choosing.automatic import choose
from fmcli.choosing.budget import MANY_VISITS, epochs_of
from fmcli.choosing.fitting import Events, fit
from fmcli.choosing.plans import number_of_folds
from fmcli.choosing.quick_search import with_values
from fmcli.data.dataset import Dataset
from fmcli.registry.specs import make_spec
from fmcli.training.planning import prepare
from fmcli.training.setup.rows import RowsInMemory
from fmcli.training.setup.settings import Settings
from fmcli.training.several.refit import on_all_rows, trains_once, visits

ROWS, SWEEPS = 1_500, 120


def effects_of_users_and_items():
    """Return rows of a user and an item, whose effects make the labels with noise: interactions fit only noise."""
    rng = np.random.default_rng(5)
    users, items = 60, 300
    ids = np.stack([rng.integers(users, size=ROWS), users + rng.integers(items, size=ROWS)], axis=1)
    label = rng.normal(size=users + items)[ids].sum(axis=1) + rng.normal(size=ROWS)
    fields = np.tile(np.arange(2, dtype=np.int32), ROWS)
    indptr = 2 * np.arange(ROWS + 1, dtype=np.int64)
    return Dataset(indptr, ids.astype(np.int32).ravel(), None, label, users + items, fields)


def planned(options=None, **settings):
    spec = make_spec("fm", "mcmc", None, {"epochs": SWEEPS, **(options or {})})
    chosen = Settings.of(spec, **{"holdout": None, "quick_search": True, **settings})
    return prepare(chosen, RowsInMemory.of(effects_of_users_and_items()))


class Refits(Events):
    """Counts the runs, and the runs on all rows after them."""

    def __init__(self):
        self.runs, self.again = 0, 0

    def observed(self, plan, *, again, member=0):
        self.runs += 1
        return super().observed(plan, again=again, member=member)

    def refitting(self, plan):
        self.again += 1


def test_options_are_chosen_by_short_chains_and_one_chain_of_all_rows_follows():
    plan, events = planned(), Refits()
    assert 0 < plan.validation.count < ROWS
    assert epochs_of(plan) == SWEEPS // 6
    chosen, searched = choose(plan)
    tried = {one.option: one.value for one in searched.values}
    usual = plan.spec.values
    assert tried["prior_shape"] == 10 * usual["prior_shape"]
    assert tried["rank"] == 2 * usual["rank"]
    assert "pool_priors" not in tried, "fields are large"
    assert chosen.spec.values["init_std"] == tried["init_std"] == usual["init_std"] / 8  # interactions fit only noise
    trained, figures = fit(planned(), events)
    assert (events.runs, events.again, figures["rows"], figures["refit"]) == (1, 0, ROWS, False)
    assert trained.plan.spec.values["init_std"] == chosen.spec.values["init_std"]
    assert len(trained.epochs) == SWEEPS


def test_what_is_given_does_not_vary():
    given = {"prior_shape": 5.0, "init_std": 0.1, "rank": 4}
    chosen, searched = choose(planned(given))
    assert not searched.values
    assert {name: chosen.spec.values[name] for name in given} == given
    only_rank = choose(planned({name: value for name, value in given.items() if name != "rank"}))[1].values
    assert [one.option for one in only_rank] == ["rank"]


@pytest.mark.parametrize("settings", [{"quick_search": False}, {"refit": False}, {"deadline": 1e18}])
def test_no_row_is_held_out_without_a_search(settings):
    assert planned(**settings).validation is None


def test_rows_that_are_held_out_as_asked_measure_the_run():
    plan = planned(holdout=0.25)
    assert not trains_once(plan)
    events = Refits()
    figures = fit(plan, events)[1]
    assert (events.again, figures["refit"]) == (1, True)
    assert set(figures["valid"]) == {"rmse", "mae"}


def test_chains_that_take_no_time_are_on_several_folds(monkeypatch):
    plan = planned()
    assert number_of_folds(plan, epochs_of(plan)) > 1
    monkeypatch.setattr("fmcli.choosing.budget.MOST_WORK", 1)
    assert number_of_folds(plan, epochs_of(plan)) == 1


def test_chains_of_many_visits_are_shorter(monkeypatch):
    plan = planned()
    assert visits(plan) <= MANY_VISITS
    monkeypatch.setattr("fmcli.choosing.budget.MANY_VISITS", visits(plan) - 1)
    assert epochs_of(plan) == SWEEPS // 15


def test_a_sampler_that_a_comparison_takes_trains_once(monkeypatch):
    monkeypatch.setattr(search, "LEAST_WORK", 0)
    monkeypatch.setattr(search.Search, "choose", lambda self: next(one for one in self.candidates if one.samples))
    plan, events = planned_with_alternatives(signs([(0, 1)]), {"rank": 1, "epochs": 20}), Refits()
    trained, figures = fit(plan, events)
    assert (trained.plan.spec.solver, events.runs, events.again) == ("mcmc", 1, 0)
    assert figures["rows"] == len(plan.data.label)


def test_a_sampler_is_compared_by_the_values_of_its_quick_search_once(monkeypatch):
    searched = []

    def recorded(plan, deadline):
        searched.append(plan.spec.solver)
        return with_values(plan, deadline)

    monkeypatch.setattr(search, "with_values", recorded)
    monkeypatch.setattr(automatic, "is_better", lambda *given: False)
    monkeypatch.setattr(search.Search, "choose", lambda self: next(one for one in self.candidates if one.samples))
    plan = planned_with_alternatives(effects_of_users_and_items(), {"epochs": 30}, {"quick_search": True})
    chosen, found = choose(plan)
    assert searched == ["mcmc"]
    (trial,) = (one for one in found.trials if one.solver == "mcmc")
    assert trial.chosen
    assert trial.options == {"init_std": chosen.spec.values["init_std"]}
    assert trial.reached.epochs == 30
    assert not found.values


def test_the_chain_of_all_rows_is_the_one_of_the_chosen_options_alone():
    """Its draws depend on nothing of the search but its choices."""
    plan = planned()
    chosen = choose(plan)[0]
    trained = fit(plan, Events())[0]
    alone = fit(on_all_rows(chosen, SWEEPS), Events())[0]
    for name, array in alone.plan.model.parameters.items():
        np.testing.assert_array_equal(trained.plan.model.parameters[name], array)
