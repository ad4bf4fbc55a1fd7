"""The quick search before a run: options are chosen on validation data."""

from dataclasses import replace

import numpy as np
import pytest
from problems import dataset, validation_rows
from test_every_pair import planted

from fmcli.choosing import automatic, budget, plans
from fmcli.choosing import quick_search as searching
from fmcli.choosing.budget import ENTRIES_A_PARAMETER, LEAST_EPOCHS, epochs_of
from fmcli.choosing.candidates import Candidate, SearchLimits, TrialResult
from fmcli.choosing.plans import fold_plans, number_of_folds, thinned
from fmcli.choosing.quick_search import QuickSearch, refit_epochs_of
from fmcli.choosing.runs import FoldFit, of_epochs
from fmcli.errors import UsageError
from fmcli.registry.entry import Trial
from fmcli.registry.models import MODELS
from fmcli.registry.solvers import SOLVERS
from fmcli.registry.specs import make_spec
from fmcli.scoring.metrics import Outcome
from fmcli.training import job
from fmcli.training.checkpoint import Checkpoint
from fmcli.training.planning import with_options
from fmcli.training.several.refit import refit, refits, visits, whole

pytestmark = pytest.mark.exact


@pytest.fixture(scope="module")
def rows():
    return planted("linear", "squared", rows=600)[0]


@pytest.fixture
def trying(monkeypatch):
    """Return a function that makes adagrad try one option only, and no other solver, on one fold."""

    def of(trial, option="learning_rate_w", solver="adagrad"):
        monkeypatch.setitem(SOLVERS, solver, replace(SOLVERS[solver], tries={option: trial}, rivals={}))
        monkeypatch.setattr(plans, "MOST_FOLDS", 1)

    return of


@pytest.fixture
def by_default(monkeypatch):
    """Return a function that changes the defaults of a kind."""

    def of(kind, **defaults):
        entry = MODELS[kind]
        monkeypatch.setitem(MODELS, kind, replace(entry, defaults={**entry.defaults, **defaults}))

    return of


def quick_search(plan):
    """Return the plan of a quick search, and the values that were tried."""
    chosen, searched = automatic.choose(plan)
    assert not searched.trials
    return chosen, searched.values


def planned(rows, solver="adagrad", settings=None, model="fm", **options):
    spec = make_spec(model, solver, None, {"rank": 2, **options} if model == "fm" else options)
    return job.plan(rows, spec, **{"holdout": 0.25, "quick_search": True, **(settings or {})})


def folds_of(plan):
    return fold_plans(plan, number_of_folds(plan))


def metric_of(plan):
    """The metric of the best epoch of a run."""
    trained = job.train(plan)
    return min(epoch.valid["rmse"] for epoch in trained.epochs)


def test_a_clearly_better_value_is_taken_and_kept_as_if_it_were_given(rows, trying):
    """With small steps, weights that are four times faster are much better; with large steps they are not."""
    trying(Trial(((4,),)))
    for rate, better in ((0.01, True), (1.0, False)):
        plan = planned(rows, learning_rate_v=rate, epochs=3)
        plan.spec.values["learning_rate_w"] = rate
        chosen, (compared,) = quick_search(plan)
        assert (compared.option, compared.value, compared.usual) == ("learning_rate_w", 4 * rate, rate)
        usual, other = (planned(rows, learning_rate_v=rate, learning_rate_w=w, epochs=3) for w in (rate, 4 * rate))
        assert (compared.before, compared.found) == pytest.approx((metric_of(usual), metric_of(other)))
        assert compared.chosen == better == (chosen is not plan)
        assert chosen.spec.values["learning_rate_w"] == (4 * rate if better else rate)
        assert ("learning_rate_w" in chosen.spec.given) == better
        assert metric_of(chosen) == pytest.approx(min(compared.before, compared.found))


def test_a_difference_within_its_error_decides_nothing(rows, trying):
    trying(Trial(((4,),), errors=(1000,)))
    plan = planned(rows, learning_rate_v=0.01, epochs=3)
    plan.spec.values["learning_rate_w"] = 0.01
    chosen, (compared,) = quick_search(plan)
    assert compared.found < compared.before
    assert not compared.chosen
    assert chosen is plan


@pytest.mark.parametrize(("l2_w", "taken"), [(1e4, True), (1.0, False)])
def test_any_better_value_is_taken_if_the_usual_run_learns_nothing(rows, trying, l2_w, taken):
    trying(Trial(((1e-7,),), errors=(1000,)), "l2_v", "cd")
    plan = planned(rows, "cd", l2_w=l2_w, epochs=10)
    plan.spec.values["l2_v"] = 1e4
    chosen, (compared,) = quick_search(plan)
    assert compared.found < 0.9 * compared.before
    assert compared.chosen == taken == (chosen is not plan)


def test_each_path_has_its_own_margin(rows, trying):
    trying(Trial(((4,), (8,)), errors=(1000, 0)))
    plan = planned(rows, learning_rate_v=0.01, epochs=3)
    plan.spec.values["learning_rate_w"] = 0.01
    assert [(one.value, one.chosen) for one in quick_search(plan)[1]] == [(0.04, False), (0.08, True)]


def test_divergence_is_worse_than_any_value(rows, trying):
    trying(Trial(((4,),)))
    plan = planned(rows, learning_rate_v=0.05, epochs=3)
    plan.spec.values["learning_rate_w"] = 1e30
    chosen, (compared,) = quick_search(plan)
    assert (compared.before, compared.found, compared.chosen) == (None, None, False)
    assert chosen is plan


@pytest.mark.parametrize(
    ("options", "settings"),
    [
        ({"learning_rate_w": 0.05}, {}),
        ({"learning_rate": 0.05}, {}),
        ({}, {"quick_search": False}),
        ({}, {"holdout": 0.0}),
        ({}, {"deadline": 1e12}),
        ({"epochs": 1}, {}),
        ({"linear": False}, {}),
    ],
)
def test_nothing_is_tried(rows, trying, options, settings):
    trying(Trial(((4,),)))
    plan = planned(rows, settings=settings, **{"epochs": 3, **options})
    assert quick_search(plan) == (plan, [])


def test_options_of_factors_are_tried_only_if_there_are_some(rows, trying):
    trying(Trial(((10.0,),), absolute=True), "l2_v")
    assert [one.value for one in quick_search(planned(rows, epochs=2))[1]] == [10.0]
    assert quick_search(planned(rows, model="linear", epochs=2))[1] == []


def test_a_run_that_is_not_cheap_searches_on_a_part_of_its_rows(rows, trying, monkeypatch):
    trying(Trial(((4,),)))
    plan = planned(rows, epochs=2)
    monkeypatch.setattr("fmcli.training.setup.settings.AFFORDABLE", rows.nnz * 2 / 3)
    for least, used in ((100, 150), (200, 225), (300, 0)):
        monkeypatch.setattr(searching, "LEAST_ROWS", least)
        assert [one.rows for one in quick_search(plan)[1]] == [used]


def test_a_search_on_a_part_of_the_rows_scores_a_part_of_many_held_out_rows(rows, monkeypatch):
    monkeypatch.setattr("fmcli.training.setup.settings.AFFORDABLE", rows.nnz * 2 / 3)
    monkeypatch.setattr(searching, "LEAST_ROWS", 50)
    rare = rows.changed(label=np.where(rows.label > np.quantile(rows.label, 0.9), 1.0, -1.0))
    for enough in (2, 20):  # of the rarer class, about 18 are held out
        monkeypatch.setattr(searching, "ENOUGH_HELD_OUT", enough)
        for data, used in ((rows, 60), (rare, 60 if enough == 2 else 180)):
            plan = planned(data, settings={"holdout": 0.3}, epochs=2)
            assert plan.validation.count == 180
            assert QuickSearch(plan, SearchLimits()).part.validation.count == used
    assert {one.rows for one in quick_search(planned(rows, settings={"holdout": 0.3}, epochs=2))[1]} == {140}


@pytest.mark.parametrize("rate", [0.001, 0.8])
def test_a_path_is_followed_as_long_as_values_are_better(rows, trying, rate, monkeypatch):
    """The values tried, and that taken, follow from the metric of a run with each value."""
    trying(Trial(((2, 4, 8), (1 / 2, 1 / 4)), errors=(0, 0)))
    factors = (1 / 4, 1 / 2, 1, 2, 4, 8)
    metrics = {f: metric_of(planned(rows, learning_rate_v=rate, learning_rate_w=f * rate, epochs=2)) for f in factors}
    expected, best = [], 1
    for path in ((2, 4, 8), (1 / 2, 1 / 4)):
        for factor in path:
            expected.append(factor)
            if metrics[factor] >= metrics[best]:
                break
            best = factor
        if best != 1:
            break
    plan = planned(rows, learning_rate_v=rate, epochs=2)
    plan.spec.values["learning_rate_w"] = rate
    chosen, found = quick_search(plan)
    assert [one.value / rate for one in found] == pytest.approx(expected)
    assert chosen.spec.values["learning_rate_w"] / rate == pytest.approx(best)
    assert best != 1


def test_each_fold_holds_out_other_rows_and_values_are_compared_on_all_of_them(rows):
    plan = planned(rows, epochs=2)
    folds = folds_of(plan)
    assert len(folds) == 600 // 150
    held = [tuple(validation_rows(fold).label) for fold in folds]
    assert sorted(label for labels in held for label in labels) == sorted(rows.label)
    for fold, labels in zip(folds, held, strict=True):
        assert sorted([*labels, *fold.source.labels.label]) == sorted(rows.label)
    outcomes = [fold.validation.outcome(job.train(fold).plan.model) for fold in folds_of(planned(rows, epochs=2))]
    error = np.concatenate([one.score[:, 0] - one.label for one in outcomes])
    candidate = Candidate(folds)
    candidate.first(4, lambda fold: 2)
    assert candidate.reached.value == pytest.approx(np.sqrt(np.mean(error**2)))


def test_the_refit_has_as_many_epochs_as_the_median_of_the_folds(rows, monkeypatch):
    spec = {"epochs": 30, "learning_rate": 0.5, "l2": 1e-5}  # given, so no other value is tried
    plan = quick_search(planned(rows, **spec))[0]
    best = sorted(job.train(fold).best for fold in folds_of(planned(rows, **spec)))
    assert best[0] != best[-1]
    assert plan.refit_epochs == int(np.median(best))
    trained = job.train(plan)
    assert len(refit(trained, whole(trained)).epochs) == plan.refit_epochs
    monkeypatch.setattr(plans, "MOST_FOLDS", 1)
    trained = job.train(quick_search(planned(rows, **spec))[0])
    assert len(refit(trained, whole(trained)).epochs) == trained.best


def test_solvers_by_columns_search_on_a_part_of_many_rows_if_it_overfits(rows, rng, trying, monkeypatch):
    """Their penalties are the same multiple of 1 / rows on the part and on all rows."""
    for solver in ("cd", "adagrad"):
        trying(Trial(((4, 16),)), "l2_v", solver)
    noise = rows.changed(label=rng.permutation(rows.label))
    plan = planned(noise, "cd", l2_w=1e-6)
    usual, part = plan.spec.values["l2_v"], with_options(thinned(plan, 3), {})
    assert part.spec.values["l2_v"] == pytest.approx(3 * usual)
    monkeypatch.setattr("fmcli.training.setup.settings.AFFORDABLE", visits(plan) / 2.5)
    compared = QuickSearch.compared
    monkeypatch.setattr(QuickSearch, "compared", lambda *given, **more: (True, compared(*given, **more)[1]))
    monkeypatch.setattr(searching, "LEAST_ROWS", 100)
    chosen, tried = quick_search(plan)
    assert [(one.option, one.value, one.usual, one.rows) for one in tried] == [
        ("l2_v", 4 * usual, usual, plan.source.count // 3),
        ("l2_v", 16 * usual, 4 * usual, plan.source.count // 3),
    ]
    assert tried[0].before == metric_of(replace(part, spec=of_epochs(part.spec, LEAST_EPOCHS)))
    assert chosen.spec.values == {**plan.spec.values, "l2_v": 16 * usual}
    assert (chosen.source, chosen.transform, chosen.refit_epochs) == (plan.source, plan.transform, None)
    assert quick_search(planned(rows, "cd", l2_w=1e-6))[1] == []  # one epoch on the part is better than a constant


@pytest.mark.parametrize(("solver", "valid"), [("adagrad", False), ("adagrad", True), ("cd", False), ("mcmc", False)])
def test_a_part_of_the_rows_has_columns_only_for_its_own_features(rng, monkeypatch, solver, valid):
    """Its model is smaller, and the metrics of its runs are the same: linear weights start at 0."""
    features = 60_000
    ids, rare = rng.integers(2, size=1_000), rng.integers(3, features, size=1_000)
    samples = [{(a, a): 1.0, (b, 2): 1.0} for a, b in zip(ids.tolist(), rare.tolist(), strict=True)]
    rows = dataset(samples, features, rng.normal(size=1_000) + ids)
    settings = {"valid": rows.take(np.arange(500, 600, dtype=np.int32))} if valid else {}
    plan = planned(rows, solver, settings, "linear", epochs=4)
    part = thinned(plan, 8)
    monkeypatch.setattr(plans, "compacted", lambda plan: plan)
    usual = thinned(plan, 8)
    assert (part.source.count, part.facts) == (usual.source.count, usual.facts)
    assert 8 * part.model.features < usual.model.features == features
    narrow, wide = ([epoch.valid["rmse"] for epoch in job.train(one).epochs] for one in (part, usual))
    assert narrow == (pytest.approx(wide, rel=0.1) if solver == "mcmc" else wide)  # draws are for each column


def test_the_work_of_a_part_counts_its_own_rows_and_held_out_rows(rows):
    plan = planned(rows)
    part = thinned(plan, 5)
    assert part.source.data is plan.source.data  # no columns are left out
    assert part.source.all_rows == part.source.count + part.validation.count < plan.source.all_rows / 2
    parameters = ENTRIES_A_PARAMETER * plan.model.parameter_count
    assert budget.work(part) - parameters == 2 * part.source.all_nonzeros < (budget.work(plan) - parameters) / 2


def test_a_run_that_continues_does_not_search_again(rows, monkeypatch, tmp_path):
    """It has the kind, the options and the epochs of the refit that the first process has chosen."""
    monkeypatch.setitem(SOLVERS, "adagrad", replace(SOLVERS["adagrad"], tries={"l2_v": Trial(((10,),))}, rivals={}))
    alternatives = make_spec("linear", None, None, {}), make_spec("poly2", None, None, {})
    found = []
    for settings, options in (({}, {"learning_rate": 0.5, "epochs": 30}), ({"alternatives": alternatives}, {})):

        def begun(settings=settings, options=options):
            return planned(rows, settings=settings, **options)

        first, again = Checkpoint(path := str(tmp_path / "c"), np.inf), Checkpoint(path, np.inf)
        plan, searched = automatic.choose_once(begun(), first)
        first.belongs_to(plan, refits(plan))
        first.begins(lambda: {"updates": np.zeros(0)})
        first.write()
        again.read()
        with monkeypatch.context() as patch:
            patch.setattr(automatic, "choose", None)
            same, kept = automatic.choose_once(begun(), again)
        assert (same.spec, same.refit_epochs) == (plan.spec, plan.refit_epochs)
        assert kept.kept == {k: v for one in searched.values if one.chosen for k, v in one.options.items()}
        found.append((plan.spec.model, plan.spec.given >= {"l2_v"}, plan.refit_epochs is not None))
        again.belongs_to(same, refits(same))
    first.choices["options"] = {"l2_v": 0.5}
    first.write()
    again.read()
    with pytest.raises(UsageError, match=r"another run: l2_v was .* and is 0\.5"):
        again.belongs_to(automatic.choose_once(begun(), again)[0], refits=True)
    assert found == [("fm", True, True), ("linear", False, True)]


def test_the_runs_of_a_quick_search_have_few_epochs_on_many_rows(rows, monkeypatch):
    """If they would go on, they do not choose the epochs of the refit."""
    plan = planned(rows, learning_rate=0.01, epochs=60)
    for most, epochs in ((10**12, 60), (40 * work_of(plan), 40), (0, LEAST_EPOCHS)):
        monkeypatch.setattr(budget, "MOST_WORK", most)
        assert epochs_of(plan) == epochs
    assert [refit_epochs_of(Candidate(folds_of(plan)), epochs) for epochs in (2, 60)] == [None, 60]
    monkeypatch.setattr(budget, "LEAST_EPOCHS", 2)
    assert quick_search(plan)[0].refit_epochs is None
    assert quick_search(plan)[0].spec.values["epochs"] == 60


def work_of(plan, cost=1.0):
    return round(cost * plan.source.data.nnz * 2) + ENTRIES_A_PARAMETER * plan.model.parameter_count


def test_solvers_and_kinds_take_longer_for_an_entry_and_not_for_a_parameter(rows, monkeypatch):
    plan, other = planned(rows, "cd", epochs=100), planned(rows, model="poly2", epochs=100)
    for one, cost in ((plan, SOLVERS["cd"].cost), (other, MODELS["poly2"].cost)):
        monkeypatch.setattr(budget, "MOST_WORK", 30 * work_of(one, cost * one.spec.values.get("rank", 1) / 2))
        assert epochs_of(one) == 30


def test_there_are_as_many_folds_as_needed_and_as_take_little_time(rows, monkeypatch):
    plan = planned(rows, settings={"holdout": 0.1}, epochs=2)
    for enough, number in ((1, 1), (60, 1), (61, 2), (10_000, 5)):
        monkeypatch.setattr(plans, "ENOUGH_HELD_OUT", enough)
        assert len(folds_of(plan)) == number
    work = work_of(plan)
    for limited, dense in (("WORK_OF_SPARSE", False), ("MOST_WORK", True)):
        monkeypatch.setattr(budget, "have_most_features", lambda plan, dense=dense: dense)
        for limit, epochs, number in ((0, 2, 1), (2 * work, 2, 1), (6 * work, 2, 3), (6 * work, 3, 2)):
            monkeypatch.setattr(budget, limited, limit)
            assert number_of_folds(plan, epochs) == number


@pytest.mark.parametrize(
    ("better", "errors", "folds", "chosen"),
    [
        ([0.9, 0, 0, 0], 1, 1, True),
        ([-0.05, 0.9, 0.9, 0.9], 1, 1, False),
        ([-0.01, 0.9, 0.9, 0.9], 1, 2, True),
        ([0.01, -0.15, 0.9, 0.9], 1, 2, False),
        ([0.01, 0.01, 0.01, 0.01], 1, 4, False),
        ([0.03, 0.03, 0.03, 0.03], 1, 4, True),
        ([0.06, 0.06, 0.06, 0.06], 1, 2, True),
        ([0.01, 0.01, 0.01, 0.01], 0, 4, True),
        ([-0.01, 0.03, 0.03, 0.03], 0, 4, True),
        ([-0.01, -0.01, -0.01, -0.01], 0, 4, False),
        ([-0.05, 0.9, 0.9, 0.9], 0, 1, False),
        ([0.0001, 0.0001, 0.0001, 0.0001], 0, 4, False),
        ([0, 0, 0, 0], 0, 4, False),
    ],
)
def test_another_fold_follows_as_long_as_a_value_may_be_better(rows, better, errors, folds, chosen):
    """The other value's squared errors are smaller by so much in each fold, with a standard deviation of a half: on 150
    rows the standard error is .04, on 600 .02."""
    plans = folds_of(planned(rows, epochs=2))
    squares = np.array([[1 - by - 0.5, 1 - by + 0.5] * 75 for by in better]).clip(0)
    usual, other = Foretold(plans, np.ones_like(squares)), Foretold(plans, np.sqrt(squares))
    assert comparing(usual, 2).compared(other, usual, 4, errors) == (chosen, folds)


def comparing(usual, most):
    """A search whose runs have at most `most` epochs."""
    search = QuickSearch(usual.plan, SearchLimits())
    search.most = most
    return search


class Foretold(Candidate):
    """Runs with these errors of the held-out rows of each fold."""

    def __init__(self, plans, errors):
        super().__init__(plans)
        zeros, ones = np.zeros(errors.shape[1]), np.ones(errors.shape[1])
        for run, error in zip(self.runs, errors, strict=True):
            run.epochs, run.outcome = 2, Outcome("squared", zeros, error[:, None], ones)
        self.reached = TrialResult(2, 1.0, (), ended=False)


@pytest.fixture
def patient(monkeypatch):
    """Runs that are behind others go on."""
    monkeypatch.setattr(FoldFit, "_is_behind", lambda *given: False)


def test_another_value_has_as_many_epochs_as_the_usual_run_and_its_refit(rows, patient):
    """This is one training; the run of another solver has the work of several."""
    plans = planned(rows, learning_rate=0.3, epochs=200), planned(rows, learning_rate=0.003, epochs=200)
    usual, other = (Candidate(fold_plans(plan, 4)) for plan in plans)
    best = job.train(usual.plan).best
    usual.first(1, lambda fold: 200)
    own = usual.runs[0].epochs + best
    assert usual.runs[0].epochs < own < 200
    search = comparing(usual, 200)
    search.compared(other, usual)
    assert other.runs[0].epochs == own
    by_sgd = Candidate([planned(rows, "sgd", learning_rate=1e-6, epochs=200)])
    search.compared(by_sgd, usual, trainings=2)
    assert by_sgd.runs[0].epochs == 2 * own


def test_other_values_have_some_epochs_though_the_usual_run_ends_early(rows, patient):
    """Otherwise, values with which a model learns slowly would lose to one that has overfit within few epochs."""
    usual, other = (
        Candidate([planned(rows, learning_rate=r, epochs=epochs)]) for r, epochs in ((0.3, 2), (0.003, 200))
    )
    usual.first(1, lambda fold: 200)
    assert usual.runs[0].epochs == 2
    comparing(usual, 200).compared(other, usual)
    assert other.runs[0].epochs == LEAST_EPOCHS


def test_a_run_that_is_clearly_behind_another_one_after_as_many_epochs_ends_early(rows):
    usual, slow, same = (Candidate([planned(rows, learning_rate=r, epochs=20)]) for r in (0.3, 0.003, 0.3))
    usual.first(1, lambda fold: 20)
    for other, epochs in ((slow, 4), (same, usual.runs[0].epochs)):
        assert comparing(usual, 20).compared(other, usual) == (False, 1)
        assert other.runs[0].epochs == epochs
        assert other.runs[0].behind == (other is slow)


def test_a_search_ends_with_its_work(rows, monkeypatch):
    """A run that would end before the best one has learned is not made; what was tried by then counts."""
    plan = planned(rows, epochs=20)
    found = quick_search(plan)[1]
    assert {one.option for one in found} == {"learning_rate", "l2_v", "learning_rate_w", "l2"}  # the rank is given
    monkeypatch.setattr(searching, "MOST_WORK_OF_SEARCH", 45 * work_of(plan))
    assert 0 < len(quick_search(plan)[1]) < len(found)
    monkeypatch.setattr(searching, "MOST_WORK_OF_SEARCH", 10 * work_of(plan))
    assert quick_search(plan)[1] == []


def test_without_work_no_other_solver_is_trained(rows, monkeypatch):
    trained, train = set(), FoldFit.train
    monkeypatch.setattr(
        FoldFit, "train", lambda fit, *of, **how: trained.add(fit.plan.spec.solver) or train(fit, *of, **how)
    )
    spec = make_spec("fm", None, None, {"rank": 2, "epochs": 20})
    for epochs, solvers in ((500, {"adagrad", "sgd", "cd"}), (3, {"adagrad"})):
        plan = job.plan(rows, spec, holdout=0.25, quick_search=True)
        monkeypatch.setattr(searching, "MOST_WORK_OF_SEARCH", epochs * work_of(plan))
        trained.clear()
        quick_search(plan)
        assert trained == solvers


def test_a_path_is_followed_while_its_values_are_taken(rows, trying):
    trying(Trial(((4, 8, 16),)))
    plan = planned(rows, learning_rate_v=0.001, epochs=3)
    plan.spec.values["learning_rate_w"] = 0.001
    assert [one.value / 0.001 for one in quick_search(plan)[1]] == pytest.approx([4, 8, 16])


def test_groups_of_unequal_sizes_make_fewer_folds(rows, monkeypatch):
    plan = planned(rows.changed(group=np.minimum(np.arange(600, dtype=np.int32) // 5, 40)), epochs=3)
    assert 1 < len(folds_of(plan)) < number_of_folds(plan)
    monkeypatch.setattr(Candidate, "judged", lambda *of: (False, False))  # nothing is clear, so all folds are compared
    assert max(one.folds for one in quick_search(plan)[1]) == len(folds_of(plan))


def test_folds_of_groups_of_rows_hold_out_whole_groups(rows):
    plans = folds_of(planned(rows.changed(group=np.arange(600, dtype=np.int32) % 60), epochs=2))
    of_folds = [set(validation_rows(plan).group.tolist()) for plan in plans]
    assert len(plans) > 2
    assert sum(map(len, of_folds)) == len(set.union(*of_folds))
    for plan, groups in zip(plans, of_folds, strict=True):
        assert groups.isdisjoint(plan.data.group[plan.rows].tolist())
        assert validation_rows(plan).rows + len(plan.rows) == 600


def test_the_last_rows_and_given_validation_data_have_no_folds(rows):
    assert len(folds_of(planned(rows, settings={"holdout_last": True}, epochs=2))) == 1
    spec = make_spec("fm", None, None, {"epochs": 2})
    assert len(folds_of(job.plan(rows, spec, valid=rows.take(np.arange(150, dtype=np.int32))))) == 1


def test_interactions_that_fit_noise_are_left_out(rng):
    """Labels are linear in the features, and there are few rows for the many factors."""
    data = planted("linear", "squared", rows=600)[0]
    noisy = data.changed(label=data.label + rng.normal(0, 2 * data.label.std(), 600))
    options = {"rank": 16, "init_std": 0.5, "epochs": 20}
    plan = planned(noisy, settings={"holdout": 0.2}, **options)
    chosen, found = quick_search(plan)
    assert ("l2_v", 10.0) in [(one.option, one.value) for one in found if one.chosen]
    linear = planned(noisy, settings={"holdout": 0.2}, model="linear", epochs=20)
    assert metric_of(chosen) == pytest.approx(metric_of(linear), rel=0.02)
    assert metric_of(plan) > 1.1 * metric_of(chosen)


@pytest.mark.parametrize("solver", ["adagrad", "fobos"])
def test_a_model_without_interactions_need_not_be_clearly_better(rows, solver):
    """Ranks come after that: they depend on whether there are interactions."""
    assert SOLVERS[solver].tries["l2_v"].errors == (0,)
    assert [SOLVERS[solver].tries[option].early for option in ("l2_v", "rank")] == [True, False]


def test_several_anchors_are_left_out_where_one_learns_from_all_rows(rng):
    """Effects of users and items are added, and all rows are equally far from each other."""
    users, items = rng.integers(20, size=600), rng.integers(20, 40, size=600)
    effect = rng.normal(size=40)
    label = effect[users] + effect[items] + 0.1 * rng.normal(size=600)
    data = dataset([{int(u): 1.0, int(i): 1.0} for u, i in zip(users, items, strict=True)], 40, label)
    plan = job.plan(data, make_spec("llfm", "adagrad", None, {}), holdout=0.2, quick_search=True)
    chosen, (first, *_) = quick_search(plan)
    assert (first.option, first.value, first.usual, first.chosen) == ("anchors", 1, 3, True)
    assert chosen.model.shapes()["anchors"][0] == 1


def factored(rng, rank, columns=10, features=10):
    """Rows with this number of features, and labels by the interactions of an FM of this rank."""
    factors, x = rng.normal(0, 0.5, size=(features, rank)), np.zeros((300, features))
    for row in x:
        row[rng.permutation(features)[:columns]] = rng.normal(size=columns)
    label = ((x @ factors) ** 2 - x**2 @ factors**2).sum(axis=1) / 2 + 0.1 * rng.normal(size=300)
    return dataset([{j: v for j, v in enumerate(row) if v} for row in x], features, label)


@pytest.mark.parametrize(("model", "solver"), [("fm", "adagrad"), ("fm", "cd"), ("shfm", "cd")])
def test_dense_rows_have_more_factors_if_these_are_better(rng, model, solver, by_default):
    dense = factored(rng, 4)
    by_default(model, rank=2)
    plan = job.plan(dense, make_spec(model, solver, None, {"epochs": 100}), holdout=0.25, quick_search=True)
    chosen, found = quick_search(plan)
    (tried,) = [one for one in found if one.option == "rank"]
    assert (tried.value, tried.usual, tried.chosen) == (4, 2, True)
    assert chosen.spec.values["rank"] == 4
    assert "rank" in chosen.spec.given
    assert chosen.model.parameter_count >= plan.model.parameter_count + 2 * 10
    assert metric_of(chosen) < 0.8 * metric_of(plan)


@pytest.mark.parametrize(("noise", "factor"), [(3.0, 3), (0.0, 1 / 10)])
def test_coordinate_descent_suits_the_strength_of_linear_weights_to_the_noise(rng, noise, factor):
    """Each of many ids has three rows: its effect is known well or hardly at all."""
    ids = rng.permutation(np.repeat(np.arange(200), 3))
    label = rng.normal(size=200)[ids] + noise * rng.normal(size=600)
    data = dataset([{int(one): 1.0} for one in ids], 200, label)
    plan = job.plan(data, make_spec("linear", "cd", None, {"epochs": 20}), holdout=0.2, quick_search=True)
    chosen, found = quick_search(plan)
    usual, taken = (one.spec.values["l2_w"] for one in (plan, chosen))
    assert taken == pytest.approx(factor * usual)
    assert [one.value for one in found if one.chosen][-1] == taken
    assert metric_of(chosen) < 0.98 * metric_of(plan)


def test_glfm_keeps_the_weights_of_rare_features(rng, by_default):
    """Effects of many users and items are added, and each has few rows."""
    users, items = rng.integers(100, size=600), rng.integers(100, 200, size=600)
    effect = rng.normal(size=200)
    label = effect[users] + effect[items]
    data = dataset([{int(u): 1.0, int(i): 1.0} for u, i in zip(users, items, strict=True)], 200, label)
    by_default("glfm", group_l1=(usual := 3e-3))
    plan = job.plan(data, make_spec("glfm", "fobos", None, {"epochs": 100}), holdout=0.2, quick_search=True)
    chosen, found = quick_search(plan)
    (tried,) = [one for one in found if one.option == "group_l1"]
    assert (tried.value, tried.chosen) == (pytest.approx(usual / 10), True)
    assert metric_of(chosen) < metric_of(plan)
    assert MODELS["glfm"].tries["group_l1"].errors == (0,)


def test_fewer_factors_are_enough_for_hofm_simplex_where_more_fit_noise(rng):
    """Labels are linear in the features. The kind's own values replace the values of the solver for dense rows."""
    x = rng.normal(size=(300, 10))
    label = x @ rng.normal(size=10) + 2 * rng.normal(size=300)
    data = dataset([dict(enumerate(row)) for row in x], 10, label)
    plan = job.plan(data, make_spec("hofm-simplex", "cd", None, {"epochs": 50}), holdout=0.2, quick_search=True)
    tried = dict(searching.trials(plan))
    assert list(tried) == ["rank", "l2_v"]
    assert (tried["rank"].paths, tried["rank"].errors) == (((1 / 2, 1 / 4),), (0,))
    chosen, found = quick_search(plan)
    assert (found[0].option, found[0].value, found[0].usual, found[0].chosen) == ("rank", 4, 8, True)
    assert chosen.spec.values["rank"] <= 4
    assert metric_of(chosen) < metric_of(plan)


def test_another_solver_is_compared_with_the_values_that_it_needs(rows, monkeypatch, tmp_path):
    """One step of coordinate descent is far better than one of AdaGrad with small steps, and better still without
    strong penalty. What is chosen is kept."""
    early = {"l2_w": Trial(((1 / 100,),), early=True)}
    monkeypatch.setitem(SOLVERS, "adagrad", replace(SOLVERS["adagrad"], tries={}, rivals={"cd": 0.0}))
    monkeypatch.setitem(SOLVERS, "cd", replace(SOLVERS["cd"], tries=early, patience=13))
    monkeypatch.setitem(SOLVERS["cd"].defaults, "l2_w", strong := 0.1)

    def begun():
        return planned(rows, None, epochs=5, seed=1)

    plan, keeper = begun(), Checkpoint(str(tmp_path / "c"), np.inf)
    chosen = automatic.choose_once(plan, keeper)[0]
    (tried,) = automatic.choose(begun())[1].values
    by_cd = planned(rows, "cd", epochs=5, seed=1)
    assert by_cd.spec.values["l2_w"] == strong
    by_cd = planned(rows, "cd", epochs=5, seed=1, l2_w=strong / 100)
    assert (tried.options, tried.usual) == ({"solver": "cd", "l2_w": pytest.approx(strong / 100)}, "adagrad")
    assert tried.chosen
    assert chosen.spec.solver == "cd"
    assert chosen.validation.patience == by_cd.validation.patience != plan.validation.patience
    assert metric_of(chosen) == pytest.approx(metric_of(by_cd))
    assert metric_of(chosen) < 0.9 * metric_of(plan)
    assert automatic.choose_once(begun(), keeper)[0].spec == chosen.spec
    assert quick_search(planned(rows, None, epochs=5, learning_rate=0.05))[1] == []  # cd has no such option
    assert quick_search(planned(rows, epochs=5, seed=1))[1] == []  # the solver is given
    assert quick_search(planned(rows, None, {"keep_state": True}, epochs=5, seed=1))[1] == []
