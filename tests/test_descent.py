"""Coordinate descent: it never rises, its fast views are its slow one, and on convex problems it ends where others do."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from problems import FOLLOWED, TRAINED, assert_close, build, choices, dataset, fields_of, fill, parameters, random_rows
from test_solvers import PENALTIES, labels_of, make_loss, outputs_of

from fmcli._core.penalty import Penalty
from fmcli.descent import CoordinateDescent
from fmcli.registry import LOSSES
from reference import slow_losses, slow_models

FEATURES, RANK, ROWS = 7, 5, 9
SMOOTH = [loss for loss in LOSSES if loss != "hinge"]
SWEEPS = 5
ROUNDING = 1e-5


def problem(name, loss, penalty, seed=0, by_gradient=False, **options):
    """A descent on random rows from random parameters."""
    rng = np.random.default_rng([len(name), seed])
    own = {"rank": RANK, "by_row": "group_l1" in PENALTIES[penalty], **options}
    model = build(name, FEATURES, outputs_of(loss), **own)
    model.allocate(0)
    fill(model, rng, scale=0.4)
    model.remeasure()
    rows = random_rows(rng, ROWS, FEATURES, fields=fields_of(name))
    data = dataset(rows, FEATURES, labels_of(loss, rng), rng.uniform(0.5, 2, size=ROWS))
    loss, penalty = make_loss(loss), Penalty(**PENALTIES[penalty])
    return model, CoordinateDescent(model, loss, penalty, data, threads=1, by_gradient=by_gradient)


def objectives_of(descent, epochs):
    """The objective before the first epoch and after each."""
    with ThreadPoolExecutor(1) as pool:
        found = [sum(descent.objective(pool))]
    descent.run(epochs, lambda loss, penalty: bool(found.append(loss + penalty)))
    return found


@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("loss", SMOOTH)
@pytest.mark.parametrize("name", TRAINED)
def test_the_objective_never_rises_and_falls(name, loss, penalty):
    for seed in range(5):
        _, descent = problem(name, loss, penalty, seed)
        objectives = objectives_of(descent, 6)
        assert np.diff(objectives).max() <= ROUNDING * max(1, abs(objectives[0]))
        assert objectives[-1] < objectives[0] - 0.01


# With the group penalty alone rows die, and what then decides is rounding.
@pytest.mark.parametrize("penalty", [penalty for penalty in PENALTIES if penalty != "group-only"])
@pytest.mark.parametrize("loss", ["squared", "logistic", "softmax", "poisson"])
@pytest.mark.parametrize("name", TRAINED)
def test_fast_derivatives_are_the_models_own(name, loss, penalty):
    ends = []
    for by_gradient in (False, True):
        model, descent = problem(name, loss, penalty, by_gradient=by_gradient)
        objectives_of(descent, 2)
        ends.append(parameters(model))
    assert_close(*ends, FOLLOWED)


@pytest.mark.parametrize("penalty", ["none", "both", "by-part"])
@pytest.mark.parametrize("loss", ["squared", "logistic", "squared-hinge", "huber", "softmax"])
@pytest.mark.parametrize("name", TRAINED)
def test_each_row_moves_as_defined(name, loss, penalty):
    """Against the definition: rows in order, a row's problem made of the slow definition's gradients."""
    model, descent = problem(name, loss, penalty)
    rng = np.random.default_rng([len(name), 0])
    build_rng_state = fill(model, rng, scale=0.4)
    rows = random_rows(rng, ROWS, FEATURES)
    labels = labels_of(loss, rng)
    share = rng.uniform(0.5, 2, size=ROWS)
    slow = slow_descent(name, model.layout, build_rng_state, rows, labels, share / share.sum(), loss, penalty)
    objectives_of(descent, 1)
    assert_close(parameters(model), slow, FOLLOWED)


def slow_descent(name, layouts, params, rows, labels, share, loss, penalty):
    """One epoch, row by row, in float64."""
    value, smoothness = slow_losses.LOSSES[loss], slow_losses.SMOOTHNESS[loss]
    penalty = slow_models.Penalty(**PENALTIES[penalty])
    params = {key: array.copy() for key, array in params.items()}
    for c in range(slow_models.classes(params)):
        for layout in layouts:
            for row in slow_models.rows(params):
                names = [key for key, _ in row]
                if row[0][1][0] != c or set(names) != set(layout.names):
                    continue
                row = sorted(row, key=lambda piece: layout.names.index(piece[0]))
                derivatives = [slow_models.gradient(name, params, x, c) for x in rows]
                q = np.array([slow_models.gather(d, row) for d in derivatives])
                slopes = [
                    slow_losses.slopes(value, y, slow_models.score(name, params, x))[c]
                    for x, y in zip(rows, labels, strict=True)
                ]
                r, G = (share * slopes) @ q, smoothness * (q.T * share) @ q
                phi = slow_models.gather(params, row)
                l1, l2, _ = slow_models.strengths(params, row, penalty)
                new = phi.copy()
                for _ in range(SWEEPS):
                    for f in range(len(phi)):
                        curvature = G[f, f] + l2[f]
                        if curvature == 0:
                            new[f] = 0 if l1[f] > 0 else new[f]
                            continue
                        u = new[f] - (r[f] + G[f] @ (new - phi) + l2[f] * new[f]) / curvature
                        new[f] = np.sign(u) * max(abs(u) - l1[f] / curvature, 0)
                first = 0
                for key, at in row:
                    size = np.size(params[key][at])
                    params[key][at] = new[first : first + size].reshape(np.shape(params[key][at]))
                    first += size
    return params


@pytest.mark.parametrize("l1", [0, 0.01])
@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_linear_models_are_those_of_scikit_learn(loss, l1):
    from sklearn.linear_model import ElasticNet, LogisticRegression

    rng = np.random.default_rng(0)
    dense = rng.normal(size=(300, FEATURES)).astype(np.float32).astype(float)
    y = dense @ rng.normal(size=FEATURES) + 0.5 + rng.normal(size=300)
    y = np.sign(y) if loss == "logistic" else y
    l2 = 0.02
    model = build("linear", FEATURES)
    model.allocate(0)
    data = dataset([dict(enumerate(map(float, row))) for row in dense], FEATURES, y)
    CoordinateDescent(model, make_loss(loss), Penalty(l1_w=l1, l2_w=l2), data).run(300, lambda *objective: False)
    if loss == "squared":
        oracle = ElasticNet(alpha=l1 + l2, l1_ratio=l1 / (l1 + l2), tol=1e-12, max_iter=100_000).fit(dense, y)
        weights, bias = oracle.coef_, oracle.intercept_
    else:
        oracle = LogisticRegression(
            C=1 / (300 * (l1 + l2)), l1_ratio=l1 / (l1 + l2), solver="saga", tol=1e-12, max_iter=100_000
        ).fit(dense, y)
        weights, bias = oracle.coef_[0], oracle.intercept_[0]
    np.testing.assert_allclose(model.parameters["w"][0], weights, **FOLLOWED)
    np.testing.assert_allclose(model.parameters["bias"][0], bias, **FOLLOWED)
