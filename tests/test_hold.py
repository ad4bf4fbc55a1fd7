"""The rows of an earlier model hold its parameters while cd or lbfgs fits others (--init-strength)."""

from dataclasses import replace
from itertools import cycle

import numpy as np
import pytest
from problems import TRAINED, dataset
from test_new_features import FEATURES, OLD, first_model, learned, random_data, saved

from fmcli.errors import UsageError
from fmcli.losses.loss import Squared
from fmcli.model_file.container import load, save
from fmcli.registry.specs import make_spec
from fmcli.solvers.coordinate.prior import curvatures, mean_of
from fmcli.training import job, saving

SOLVERS = ("cd", "lbfgs")
HELD = [kind for kind in TRAINED if kind not in ("poly2", "glfm", "l1fm", "sglfm")]


def updated(path, data, solver="cd", **options):
    warm_start = saving.load_warm_start(path)
    spec = warm_start.continued(None, solver, None, {"tol": 1e-10, "epochs": 400, **options})
    return job.train(job.plan(data, spec, warm_start=warm_start))


@pytest.mark.parametrize("solver", SOLVERS)
def test_updates_of_a_model_without_interactions_are_training_on_all_rows(solver, tmp_path):
    """If each row has one feature, the loss and the penalty are sums over features, so nothing is lost: three updates
    with new features end at the minimum of all rows; in closed form, sum of labels / (rows + l2)."""
    rng = np.random.default_rng(0)
    columns, labels = rng.integers(0, 4, size=40), rng.normal(size=40)
    columns[30:] += 2
    spec = {"bias": False, "tol": 1e-12, "epochs": 400}

    def rows(part):
        return dataset([{int(j): 1.0} for j in columns[part]], int(columns[part].max()) + 1, labels[part])

    first = job.train(job.plan(rows(slice(0, 10)), make_spec("linear", solver, "squared", spec)))
    path = saved(tmp_path / "m", first)
    for begin in (10, 20, 30):
        update = updated(path, rows(slice(begin, begin + 10)), solver, init_strength=1.0)
        saved(path, update)
    whole = [labels[columns == j].sum() / (1 + np.sum(columns == j)) for j in range(6)]
    np.testing.assert_allclose(load(path).tensors["w"][0], whole, atol=2e-5)
    forgotten = updated(path, rows(slice(0, 10)), solver, init_strength=0.0).plan.model.parameters["w"][0]
    assert np.abs(forgotten - whole).max() > 0.1


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_given_penalty_is_relative_to_all_rows(solver, tmp_path):
    """Each row has one feature, so the weight of a new one is the sum of its labels / (its rows + l2 * all rows),
    as if all rows were trained on at once. Without a hold, only the rows of the run count."""
    rng = np.random.default_rng(0)
    spec = {"bias": False, "tol": 1e-12, "epochs": 400, "l2": 0.05}
    old, new = ([{int(j): 1.0} for j in rng.integers(low, low + 3, size=30)] for low in (0, 3))
    labels = rng.normal(size=30)
    first = job.train(job.plan(dataset(old, 3, labels), make_spec("linear", solver, "squared", spec)))
    path = saved(tmp_path / "m", first)
    for strength, rows in ((1.0, 60), (0.5, 45), (3.0, 60), (0.0, 30)):
        weights = updated(path, dataset(new, 6, labels), solver, init_strength=strength).plan.model.parameters["w"][0]
        of_new = [np.array([j in row for row in new]) for j in range(3, 6)]
        expected = [labels[mine].sum() / (mine.sum() + 0.05 * rows) for mine in of_new]
        np.testing.assert_allclose(weights[3:], expected, atol=2e-5)


@pytest.mark.parametrize(("kind", "solver"), [("fm", "lbfgs"), *zip(HELD, cycle(SOLVERS))])
def test_a_large_strength_holds_everything_but_new_features(kind, solver, tmp_path):
    path = first_model(tmp_path, kind)
    _, data = random_data(kind, 2, 20, FEATURES)
    model = updated(path, data, solver, init_strength=1e9, epochs=30).plan.model
    moved = 0.0
    for name, array in load(path).tensors.items():
        if name in model.parameters:
            now = np.asarray(model.parameters[name])
            known = now[tuple(map(slice, array.shape))]
            assert np.abs(known - array)[array != 0].max(initial=0) < 1e-4, name
            moved += np.abs(now).sum() - np.abs(known).sum()
    assert moved > 0


def test_a_large_strength_tends_to_learning_new_features_alone(tmp_path):
    path = first_model(tmp_path, init_std=0.3)
    _, data = random_data("fm", 2, 30, FEATURES)
    held = updated(path, data, init_strength=1e9).plan.model
    _, grown = learned(path, data)
    for name in ("w", "V"):
        np.testing.assert_allclose(held.parameters[name], grown.tensors[name], atol=2e-3)


def test_cd_and_lbfgs_reach_the_same_objective(tmp_path):
    path = first_model(tmp_path, init_std=0.3)
    _, data = random_data("fm", 2, 30, FEATURES)
    ends = [updated(path, data, solver, init_strength=0.7).epochs[-1].objective for solver in SOLVERS]
    assert ends[0] == pytest.approx(ends[1], rel=1e-4)


def test_curvatures_are_means_of_squared_derivatives(tmp_path):
    """Of an FM: the derivative by w_j is x_j, that by v_jf is x_j (sum_l v_lf x_l - v_jf x_j)."""
    path = first_model(tmp_path, init_std=0.3)
    samples, data = random_data("fm", 2, 30, OLD)
    model = updated(path, data, epochs=0).plan.model
    parts = np.array_split(np.arange(data.rows, dtype=np.int32), 3)
    found = mean_of([curvatures(model, Squared(), data, rows) for rows in parts])
    v, total = model.parameters["V"][0].astype(float), np.zeros(3)
    for x in samples:
        for j, value in x.items():
            rest = sum((v[other] * x[other] for other in x if other != j), np.zeros(v.shape[1]))
            total += [*(value * rest[:2]) ** 2, value**2]
    np.testing.assert_allclose(found[1][[0, 1, -1]], total / data.nnz, rtol=1e-5)
    assert found[0][-1] == 1


def test_the_same_rows_again_hold_nothing(tmp_path):
    """So that a run that has not converged can go on."""
    _, data = random_data("fm", 1, 40, OLD)
    path = saved(tmp_path / "m", job.train(job.plan(data, make_spec("fm", "cd", "squared", {"epochs": 2}))))
    assert updated(path, data).plan.spec.values["init_strength"] == 0
    _, others = random_data("fm", 2, 40, OLD)
    held = updated(path, others).plan
    assert held.spec.values["init_strength"] == 1
    assert held.spec.values["l2_v"] == 10 / 80
    epochs = [
        job.plan(rows, held.settings.warm_start.continued(None, None, None, {}), warm_start=held.warm_start)
        for rows in (data, others)
    ]
    assert [plan.spec.values["epochs"] for plan in epochs] == [50, 1]
    file = load(path)
    of_rows = {name for name in file.tensors if name == "counts" or name.startswith("past.")}
    save(
        path,
        replace(
            file,
            meta={**file.meta, "past": None},
            tensors={name: file.tensors[name] for name in file.tensors.keys() - of_rows},
        ),
    )
    assert updated(path, others).plan.spec.values["init_strength"] == 0
    with pytest.raises(UsageError, match="does not know how often its features occurred"):
        updated(path, others, init_strength=1.0)


def test_the_objective_with_a_hold_never_rises(tmp_path):
    path = first_model(tmp_path, "pn", init_std=0.3)
    _, data = random_data("pn", 2, 30, FEATURES)
    objectives = [epoch.objective for epoch in updated(path, data, init_strength=0.5, epochs=30).epochs]
    assert np.diff(objectives).max() < 1e-6
    assert objectives[0] - objectives[-1] > 1e-3
