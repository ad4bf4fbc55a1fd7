"""The comparison of kinds and solvers before a run."""

import re
from dataclasses import replace

import numpy as np
import pytest
from problems import validation_rows
from test_quick_search import Foretold

import fmcli
from fmcli.choosing import automatic, plans, runs, search
from fmcli.choosing.automatic import choose
from fmcli.choosing.budget import MOST_TRAININGS, work
from fmcli.choosing.candidates import Candidate, TrialRecord, TrialResult
from fmcli.choosing.plans import fold_plans, number_of_folds
from fmcli.choosing.request import KINDS, SearchResult
from fmcli.choosing.runs import of_epochs
from fmcli.choosing.search import Search
from fmcli.cli.train.tries import log_trials
from fmcli.data.dataset import Dataset
from fmcli.registry.alternatives import alternatives
from fmcli.registry.models import MODELS
from fmcli.registry.specs import make_spec
from fmcli.training import job
from fmcli.training.planning import prepare
from fmcli.training.setup.rows import RowsInMemory
from fmcli.training.setup.settings import Settings
from fmcli.training.several.refit import refit, whole

ROWS, FEATURES = 500, 6


@pytest.fixture(autouse=True)
def without_least_work(monkeypatch):
    """Ten times the work of the usual run limits the work of the others, although there are few rows."""
    monkeypatch.setattr(search, "LEAST_WORK", 0)


@pytest.fixture
def one_fold(monkeypatch):
    monkeypatch.setattr(plans, "MOST_FOLDS", 1)


def signs(pairs, rows=ROWS):
    """Return rows of signs, whose labels are sums of products of two of them, with some noise."""
    rng = np.random.default_rng(0)
    value = rng.choice([-1.0, 1.0], size=(rows, FEATURES))
    label = sum(value[:, i] * value[:, j] for i, j in pairs) + value[:, 0] + 0.1 * rng.normal(size=rows)
    index = np.tile(np.arange(FEATURES, dtype=np.int32), rows)
    indptr = np.arange(rows + 1, dtype=np.int64) * FEATURES
    return Dataset(indptr, index, value.ravel().astype(np.float32), label, FEATURES)


def planned(data, options, settings=None, model_given=False, solver=None):
    spec = make_spec("fm", solver, None, options)
    others = tuple(alternatives(spec, model_given=model_given))
    chosen = Settings.of(spec, **{"holdout": None, "alternatives": others, **(settings or {})})
    return prepare(chosen, RowsInMemory.of(data))


def test_the_kind_that_fits_best_is_taken_and_the_work_is_as_said(monkeypatch, one_fold):
    """Three products of features take three factors: fm of rank 1 has one, but llfm one for each of its anchors."""
    done = []

    def counted(plan, on_epoch, observer, keeper):
        kept = keeper.kept()
        before = 0 if kept is None else len(kept["epochs"])
        trained = train(plan, on_epoch, observer, keeper)
        done.append((plan.spec.model, plan.spec.solver, (len(trained.epochs) - before) * work(plan)))
        return trained

    def raced(*given):
        race.extend(done)
        return choose_kind(*given)

    train, choose_kind, race = runs.train, automatic.choose_kind, []
    monkeypatch.setattr(runs, "train", counted)
    monkeypatch.setattr(automatic, "choose_kind", raced)
    plan = planned(signs([(0, 1), (2, 3), (4, 5)]), {"rank": 1, "epochs": 20})
    chosen, searched = choose(plan)
    assert chosen.spec.model == "llfm"
    assert [alternative.chosen for alternative in searched.trials] == [True] + [False] * (len(searched.trials) - 1)
    values = [alternative.reached.value for alternative in searched.trials if alternative.reached.value is not None]
    assert values == sorted(values)
    assert values[0] < 0.8 * next(
        alternative.reached.value for alternative in searched.trials if alternative.number == 0
    )
    held = [np.sort(validation_rows(one).label) for one in (plan, chosen)]
    assert np.array_equal(*held)
    assert len(held[0]) == ROWS // 5
    usual = job.train(plan)
    one = (len(usual.epochs) + usual.best) * work(plan)
    for alternative in searched.trials:
        own = sum(spent for model, solver, spent in race if (model, solver) == (alternative.model, alternative.solver))
        assert own == pytest.approx(alternative.trainings * one)
    assert 5 < sum(spent for *_, spent in race) / one <= MOST_TRAININGS
    trained = job.train(chosen)
    assert refit(trained, whole(trained)).plan.source.count == ROWS


def test_the_usual_kind_stays_unless_another_is_clearly_better():
    plan = planned(signs([(0, 1)]), {"rank": 1, "l2": 1e-5})
    chosen, searched = choose(plan)
    assert chosen is plan
    assert len(searched.trials) == 6
    assert [(one.model, one.solver) for one in searched.trials if one.chosen] == [("fm", "adagrad")]


@pytest.mark.parametrize(("entries", "compared"), [(2, False), (3, True)])
def test_a_kind_of_an_order_that_no_row_has_entries_for_is_left_out(entries, compared):
    rng = np.random.default_rng(0)
    index = np.concatenate([10 * np.arange(entries) + rng.integers(10, size=entries) for _ in range(ROWS)])
    indptr = np.arange(ROWS + 1, dtype=np.int64) * entries
    value, label = np.ones(len(index), dtype=np.float32), rng.normal(size=ROWS)
    data = Dataset(indptr, index.astype(np.int32), value, label, 10 * entries)
    trials = choose(planned(data, {"rank": 1, "epochs": 2}))[1].trials
    assert ("hofm" in {one.model for one in trials}) is compared
    assert "llfm" in {one.model for one in trials}


def test_a_better_kind_of_few_rows_may_take_more_than_the_work_of_ten_trainings(monkeypatch, one_fold):
    """The usual run ends soon, and llfm would go on for 150 epochs."""
    plan = planned(signs([(0, 1), (2, 3), (4, 5)]), {"rank": 1, "epochs": 150}, {"patience": 10})
    epochs, trainings = [], []
    for least in (0, 10**9):
        monkeypatch.setattr(search, "LEAST_WORK", least)
        trials = choose(plan)[1].trials
        epochs.append(trials[0].reached.epochs)
        trainings.append(sum(one.trainings for one in trials))
        assert trials[0].model == "llfm"
    assert epochs[0] < epochs[1] == 150
    assert trainings[0] <= MOST_TRAININGS < trainings[1]


def test_the_least_work_is_not_for_samplers(monkeypatch):
    monkeypatch.setattr(search, "LEAST_WORK", 10**9)
    monkeypatch.setattr(search, "WORK_OF_CHAINS", 0)
    trials = choose(planned(signs([(0, 1)], rows=150), {"rank": 1, "epochs": 300}, {"patience": 2}))[1].trials
    sampled = next(one for one in trials if one.solver == "mcmc")
    assert sampled.trainings <= MOST_TRAININGS / 2 < sum(one.trainings for one in trials) / 2
    assert 0 < sampled.reached.epochs < 300


def test_a_sampler_has_a_whole_run_if_that_takes_little_work(monkeypatch):
    epochs = []
    for work_of_chains in (0, 10**9):
        monkeypatch.setattr(search, "WORK_OF_CHAINS", work_of_chains)
        trials = choose(planned(signs([(0, 1)], rows=150), {"rank": 1, "epochs": 100}, {"patience": 2}))[1].trials
        sampled = next(one for one in trials if one.solver == "mcmc")
        epochs.append(sampled.reached.epochs)
    assert 0 < epochs[0] < epochs[1] == 100
    assert sampled.reached.ended  # so it must be clearly better to be taken


def test_a_sampler_is_left_out_if_another_kind_is_far_better_than_its_own(monkeypatch):
    """fm of rank 1 has one of three products, which llfm has; of one product, it has all."""
    for products, trained in (([(0, 1), (2, 3), (4, 5)], False), ([(0, 1)], True)):
        trials = choose(planned(signs(products), {"rank": 1, "epochs": 20}))[1].trials
        assert [one.reached.epochs > 0 for one in trials if one.solver == "mcmc"] == [trained]
    monkeypatch.setattr(search, "HOPELESS", 1e9)
    trials = choose(planned(signs([(0, 1), (2, 3), (4, 5)]), {"rank": 1, "epochs": 20}))[1].trials
    assert [one.reached.epochs > 0 for one in trials if one.solver == "mcmc"] == [True]


def test_a_sampler_is_not_left_out_because_another_run_of_its_kind_failed():
    one = Search(planned(signs([(0, 1), (2, 3), (4, 5)]), {"rank": 1, "epochs": 20}), KINDS)
    one.candidates += list(one.others())
    sampler = next(candidate for candidate in one.candidates if candidate.samples)
    for candidate in one.candidates:
        if candidate.plan.spec.model in ("fm", "llfm") and not candidate.samples:
            candidate.train(20)
    assert one.is_hopeless(sampler)
    one.usual.reached = TrialResult(0, None, (), ended=True)
    assert not one.is_hopeless(sampler)


def test_few_rows_are_compared_on_folds():
    """The usual run counts by the epoch with the best mean over the folds; each epoch is trained on all folds."""
    plan = planned(
        signs([(0, 1)]),
        {"rank": 1, "epochs": 6},
        {"quick_search": True, "alternatives": [make_spec("linear", "adagrad")]},
    )
    usual = Candidate(fold_plans(plan, number_of_folds(plan)))
    usual.train(6)
    assert len(usual.runs) == ROWS // validation_rows(plan).rows == 5
    assert next(one for one in choose(plan)[1].trials if one.number == 0).reached == usual.reached


def test_what_samplers_leave_is_for_the_best_of_the_others(monkeypatch):
    raced = []

    def recorded(self, candidates, left):
        spent = race_of(self, candidates, left)
        raced.append((candidates, [one.reached.epochs for one in candidates], left, spent))
        return spent

    race_of = Search.race_of
    monkeypatch.setattr(Search, "race_of", recorded)
    choose(planned(signs([(0, 1), (2, 3), (4, 5)]), {"rank": 1, "epochs": 20}))
    (others, reached, all_work, of_others), (_, _, rest, of_samplers), ((best,), (longest,), left, _) = raced
    assert rest + of_others in (2 * all_work - 1, 2 * all_work)
    assert left == rest - of_samplers
    went_on = [one for one, epochs in zip(others, reached, strict=True) if one.reached.epochs > epochs]
    assert went_on == [best]
    assert longest == best.reached.epochs


def test_a_difference_counts_by_its_error():
    """The squared errors differ by .06 in the mean, with a standard deviation of a half, on 100 rows."""
    plan = planned(signs([(0, 1)]), {"rank": 1})
    squares = np.array([[0.44, 1.44] * 50])
    usual, other = Candidate([plan]), Candidate([plan])
    for candidate, scores in ((usual, np.ones((1, 100))), (other, np.sqrt(squares))):
        outcome = Foretold([plan], scores).outcome()
        candidate.outcome = lambda folds, outcome=outcome: outcome
    assert [other.better_than(usual, errors) for errors in (0, 1, 1.4, 2)] == [True, True, False, False]
    assert not usual.better_than(usual, 0)


def test_a_given_kind_compares_solvers_and_a_given_solver_kinds():
    """A given option leaves out kinds and solvers without it."""
    of_fm = {(one.model, one.solver) for one in alternatives(make_spec("fm"), model_given=True)}
    assert of_fm == {("fm", solver) for solver in ("sgd", "ftrl", "fobos", "cd", "lbfgs", "mcmc")}
    by_cd = {(one.model, one.solver) for one in alternatives(make_spec("fm", "cd"), model_given=False)}
    assert by_cd == {(kind.name, "cd") for kind in MODELS.values() if kind.compared_with} - {
        ("fm", "cd"),
        ("kernel-basis", "cd"),
    }
    assert list(alternatives(make_spec("fm", "cd"), model_given=True)) == []
    of_rate = [one.solver for one in alternatives(make_spec("fm", options={"learning_rate": 0.1}), model_given=False)]
    assert set(of_rate) == {"adagrad"}


def test_kinds_that_the_rows_do_not_suit_are_no_alternatives():
    """Rows without fields, and two labels, for which kernel-basis has no probabilities."""
    data = signs([(0, 1)], rows=150)
    plan = planned(data.changed(label=np.where(data.label > 0, 1.0, -1.0)), {"rank": 1}, {"patience": 1})
    assert {"ffm", "kernel-basis"} <= {one.model for one in plan.settings.alternatives}
    assert not {"ffm", "kernel-basis"} & {one.model for one in choose(plan)[1].trials}


@pytest.mark.parametrize("settings", [{"holdout": 0.0}, {"deadline": 1e12}])
def test_nothing_is_compared_without_held_out_rows_or_with_a_deadline(settings):
    plan = planned(signs([(0, 1)], rows=120), {"epochs": 2}, settings)
    assert choose(plan) == (plan, SearchResult((), []))


def test_the_first_sweeps_of_a_sampler_are_burned_in():
    spec = make_spec("fm", "mcmc", None, {"epochs": 100, "burn_in": 20})
    assert [of_epochs(spec, n).values["burn_in"] for n in (100, 50, 10)] == [20, 20, 5]


def test_threads_do_not_change_what_is_chosen_from_python(tmp_path):
    data = signs([(0, 1), (2, 3), (4, 5)], rows=200)
    X = data.value.reshape(-1, FEATURES)
    for n in (1, 2):
        model = fmcli.train((X, data.label), auto=True, quick_search=False, epochs=8, rank=1, threads=n)
        assert model.kind == "llfm"
        model.save(tmp_path / f"{n}")
    assert (tmp_path / "1").read_bytes() == (tmp_path / "2").read_bytes()


def test_the_table_of_trials_says_which_were_not_trained():
    """The work may not pay a single epoch of a kind."""

    class Lines(list):
        line = list.append

    log = Lines()
    trials = [
        TrialRecord(0, "fm", "cd", {}, 10, ROWS, "logloss", TrialResult(10, 0.5, (7,), False), 0.7, chosen=True),
        TrialRecord(1, "fm", "mcmc", {}, 0, ROWS, "logloss", TrialResult(0, None, (), False)),
        TrialRecord(2, "llfm", "adagrad", {}, 10, ROWS, "logloss", TrialResult(1, None, (), True)),
    ]
    log_trials(log, trials)
    *rows, last = log[1:]
    said = [re.search("chosen|not reached|(?= defaults)", line)[0] for line in rows]
    assert said == ["chosen", "not reached", ""]
    assert last == "nothing clearly beat the defaults, so keep them"
    later = [replace(trials[2], reached=TrialResult(9, 0.4, (7,), False)), replace(trials[0], number=3)]
    log_trials(log, later)
    assert log[-1] == "using trial 3: no trial above it is clearly better"
