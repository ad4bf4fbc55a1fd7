"""Training on rows with relations: what the joined rows give, without joining them."""

from itertools import pairwise

import numpy as np
import pytest
from related import tables

from fmcli.data.counts.pairs import together
from fmcli.data.dataset import Dataset
from fmcli.data.related.joining import joined as join
from fmcli.data.related.rows import RelatedRows, Relation
from fmcli.losses.loss import Squared
from fmcli.models.related.sums import RelatedSums
from fmcli.models.second_order.fm import SHA2
from fmcli.models.workspace import Workspace
from fmcli.penalties.penalty import Penalty
from fmcli.registry.specs import make_spec
from fmcli.scoring.rows import score_rows
from fmcli.scoring.scores import joined_scores
from fmcli.solvers.coordinate import minimizer
from fmcli.solvers.coordinate.descent import Descent
from fmcli.solvers.coordinate.relation_rows import RelationRows
from fmcli.solvers.coordinate.update import CoordinateUpdater
from fmcli.training import job
from fmcli.training.growth import grown_file
from fmcli.training.saving import load_warm_start, save_model
from fmcli.training.several.learning import learn

FEATURES = 50


def dataset(rows, labels=None):
    index, value = np.array([entry for row in rows for entry in row]).reshape(-1, 2).T
    return Dataset(
        np.cumsum([0, *map(len, rows)]),
        index.astype(np.int32),
        value.astype(np.float32),
        None if labels is None else np.array(labels),
        FEATURES,
    )


def related(found):
    """The same rows joined, and with relations."""
    relations = [
        Relation(dataset(relation), np.array(rows, dtype=np.int32))
        for relation, rows in zip(found.relations, found.maps, strict=True)
    ]
    return dataset(found.joined(), found.labels), RelatedRows(dataset(found.own, found.labels), relations)


def labeled(data, loss):
    """The rows, with labels from 1 to 4 for loss ordinal."""
    levels = 1 + np.searchsorted(np.quantile(data.label, [0.3, 0.5, 0.8]), data.label).astype(np.float64)
    return data.changed(label=levels) if loss == "ordinal" else data


def trained(data, kind, solver, loss="squared", *, epochs=3, threads=1, **options):
    plan = job.plan(data, make_spec(kind, solver, loss, {"epochs": epochs, **options}), threads=threads)
    return plan.model, job.train(plan)


def parameters(model):
    return {name: np.array(array) for name, array in model.parameters.items()}


@pytest.mark.parametrize(
    ("kind", "solver", "loss", "options"),
    [
        ("linear", "cd", "squared", {}),
        ("linear", "mcmc", "probit", {}),
        ("fm", "cd", "squared", {"rank": 3, "bias": False, "linear": False}),
        ("fm", "cd", "squared", {"rank": 20, "l1": 0.001}),  # two slices
        ("fm", "cd", "squared", {"rank": 20, "group_l1": 0.00001}),
        ("fm", "mcmc", "squared", {"rank": 4, "burn_in": 0}),
        ("fm", "mcmc", "probit", {"rank": 18, "epochs": 2}),
        ("fm", "mcmc", "ordinal", {"rank": 4, "burn_in": 0}),
        ("linear", "mcmc", "ordinal", {"bias": False}),
        ("shfm", "cd", "squared", {"rank": 4}),
        ("shfm", "mcmc", "squared", {"rank": 4}),
    ],
)
def test_the_model_is_that_of_the_joined_rows(kind, solver, loss, options):
    joined, own = (labeled(data, loss) for data in related(tables(binary=loss == "probit")))
    model, run = trained(joined, kind, solver, loss, **options)
    other, again = trained(own, kind, solver, loss, **options)
    first, second = parameters(model), parameters(other)
    for name, array in first.items():
        assert second[name] == pytest.approx(array, rel=1e-3, abs=1e-4)
        assert kind == "linear" or array.std() > 0.005 or name == "bias"
    assert again.epochs[-1].loss == pytest.approx(run.epochs[-1].loss, rel=1e-3)
    assert again.outcome.score == pytest.approx(run.outcome.score, abs=1e-3)


@pytest.mark.parametrize("solver", ["cd", "mcmc"])
def test_features_of_rows_that_nothing_refers_to_do_not_occur(solver):
    found = tables()
    found.relations[0].append([(19, 1.0), (20, 1.0)])  # feature 19 and 20 are in no other row
    joined, own = related(found)
    first, second = (parameters(trained(data, "fm", solver)[0]) for data in (joined, own))
    for name, array in first.items():
        assert second[name] == pytest.approx(array, rel=1e-3, abs=1e-4)


@pytest.mark.parametrize(("solver", "loss"), [("cd", "squared"), ("mcmc", "probit"), ("mcmc", "ordinal")])
def test_the_model_has_the_same_bits_for_any_number_of_threads(monkeypatch, solver, loss):
    monkeypatch.setattr(minimizer, "ENTRIES_OF_LARGE_ROW", 5)
    monkeypatch.setattr(minimizer, "ENTRIES_TO_SHARE", 1)
    own = labeled(related(tables(binary=loss == "probit"))[1], loss)
    one, *others = (parameters(trained(own, "fm", solver, loss, threads=threads)[0]) for threads in (1, 2, 3))
    for other in others:
        for name, array in one.items():
            assert np.array_equal(array, other[name])


def test_other_losses_reach_the_minimum_of_the_joined_rows():
    joined, own = related(tables(binary=True))
    options = {"epochs": 300, "tol": 0, "l2": 0.01}
    runs = [trained(data, "linear", "cd", "logistic", **options)[1] for data in (joined, own)]
    first, second = (run.epochs[-1].objective for run in runs)
    assert second == pytest.approx(first, rel=1e-6)
    objectives = [epoch.objective for epoch in runs[1].epochs]
    assert all(after <= before + 1e-9 for before, after in pairwise(objectives))


def test_features_of_many_runs_are_updated_together(monkeypatch):
    ids = np.random.default_rng(3).permutation(FEATURES).tolist()
    scattered = related(tables().renumbered(ids))
    exact = [trained(data, "linear", "cd")[1].epochs[-1].loss for data in scattered]
    assert exact[1] == pytest.approx(exact[0], rel=1e-5)
    monkeypatch.setattr(minimizer, "FEW_VISITS", 0)
    options = {"epochs": 200, "tol": 0, "l2": 0.01}
    runs = [trained(data, "linear", "cd", **options)[1] for data in scattered]
    assert runs[1].epochs[0].objective != runs[0].epochs[0].objective
    assert runs[1].epochs[-1].objective == pytest.approx(runs[0].epochs[-1].objective, rel=1e-6)


def test_runs_of_features():
    orders = [np.array([0, 1, 8]), np.array([2, 3, 9]), np.array([], dtype=int)]
    assert [(part, list(run)) for part, run in minimizer.in_runs(orders, 10)] == [
        *((0, [0, 1]), (1, [2, 3]), (0, [8]), (1, [9]))
    ]
    scattered = [np.arange(0, 20, 2), np.arange(1, 21, 2)]
    runs = minimizer.in_runs(scattered, minimizer.FEW_VISITS)
    assert [(part, list(run)) for part, run in runs] == [
        *((0, [0]), (1, list(range(1, 21, 2))), (0, list(range(2, 20, 2))))
    ]


def test_what_is_counted_is_that_of_the_joined_rows():
    joined, own = related(tables())
    rows = np.arange(5, 200, 3, dtype=np.int32)
    assert own.nnz == joined.nnz
    assert own.entries_of_rows(rows) == joined.entries_of_rows(rows)
    assert np.array_equal(own.counts(rows), joined.counts(rows))
    assert np.array_equal(own.seen(rows), joined.seen(rows))
    for mine, theirs in zip(own.magnitudes(rows), joined.magnitudes(rows), strict=True):
        assert np.array_equal(mine, theirs)
    features = np.array([1, 12, 14, 33, 35], dtype=np.int32)
    assert np.array_equal(together(own.joined(rows), features), together(joined.take(rows), features))
    assert own.longest_square() >= joined.longest_square()
    kept = own.compacted()
    assert (kept.features, kept.nnz) == (joined.compacted().features, joined.nnz)
    half = np.arange(FEATURES) % 2 == 0
    assert own.only(half).nnz == joined.only(half).nnz
    assert own.take(rows).nnz == joined.take(rows).nnz


@pytest.mark.parametrize("kind", ["linear", "fm", "shfm"])
def test_scores_are_those_of_the_joined_rows(kind):
    joined, own = related(tables())
    model, _ = trained(joined, kind, "cd")
    rows = np.arange(7, 300, 2, dtype=np.int32)
    assert score_rows(model, own, 2) == pytest.approx(score_rows(model, joined), rel=1e-5, abs=1e-5)
    assert score_rows(model, own, 2, rows) == pytest.approx(score_rows(model, joined)[rows], rel=1e-5, abs=1e-5)


def test_a_model_without_sums_has_no_parts():
    own = related(tables())[1]
    model = SHA2(FEATURES, 1, rank=2)
    model.allocate(0)
    with pytest.raises(ValueError, match="no sums over parts"):
        RelatedSums(model, own.relations[0].data, own.relations[0].row)


def test_arguments_of_the_core_that_do_not_fit_are_refused():
    joined, own = related(tables())
    model, _ = trained(joined, "fm", "cd", rank=4)
    relation = own.relations[0]
    with pytest.raises(IndexError):
        RelatedSums(model, relation.data, np.full(300, 11, dtype=np.int32))
    with pytest.raises(ValueError, match="as many columns"):
        RelationRows(model, relation.data.within(30), relation.row)
    with pytest.raises(ValueError, match="bounded curvature"):
        Descent(model, Squared(), Penalty(), own, by_gradient=True)
    descent = Descent(model, Squared(), Penalty(), own)
    updater = CoordinateUpdater(descent)
    other = RelationRows(model, relation.data, relation.row)
    for method in (updater.enter, updater.leave):
        with pytest.raises(ValueError, match="does not have such"):
            method(1, 0, other, 0, 1)
    with pytest.raises(ValueError, match="does not have such"):
        updater.run(1, 0, np.arange(3, dtype=np.int32), 0, 3, other)
    with pytest.raises(IndexError):
        updater.enter(1, 0, descent.related[0], 0, 12)
    part, out = RelatedSums(model, relation.data, relation.row), np.zeros((300, 1))
    with pytest.raises(IndexError):
        part.measure(0, 12)
    with pytest.raises(ValueError, match="do not fit"):
        joined_scores([part], own, Workspace(model, 9, gradients=False), 0, 301, out)
    with pytest.raises(IndexError):
        join(own, [(relation.data, np.full(300, -1, dtype=np.int32))])
    with pytest.raises(ValueError, match="2 numbers for 300 rows"):
        join(own, [(relation.data, np.zeros(2, dtype=np.int32))])


def test_earlier_rows_hold_as_they_do_joined_rows(tmp_path):
    joined, with_relations = related(tables(rows=60))
    spec = make_spec("fm", "cd", "squared", {"rank": 2, "epochs": 4})
    save_model(str(tmp_path / "m"), job.train(job.plan(joined.take(np.arange(20)), spec)), {}, "libsvm")
    start = load_warm_start(str(tmp_path / "m"))
    plans = [job.plan(data, spec, warm_start=start) for data in (joined, with_relations)]
    assert plans[0].spec.values["init_strength"] == plans[1].spec.values["init_strength"] == 1
    found = [[epoch.objective for epoch in job.train(plan).epochs] for plan in plans]
    assert found[0] == pytest.approx(found[1], rel=1e-4)


def test_new_features_are_learned_as_from_joined_rows(tmp_path):
    joined, with_relations = related(tables(rows=60))
    spec = make_spec("fm", "adagrad", "squared", {"rank": 2, "epochs": 2})
    save_model(str(tmp_path / "m"), job.train(job.plan(joined.take(np.arange(4)), spec)), {}, "libsvm")
    start = load_warm_start(str(tmp_path / "m"))
    plans = [
        job.plan(data, start.of_new_features({}), warm_start=start, only_new=True) for data in (joined, with_relations)
    ]
    first, second = (grown_file(learn(plan)).tensors["V"] for plan in plans)
    np.testing.assert_array_equal(first, second)
    assert (first[0] != 0).any(axis=1).sum() > (start.model.parameters["V"][0] != 0).any(axis=1).sum()
