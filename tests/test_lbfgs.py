"""L-BFGS: the gradient of the whole objective, its directions, and the arithmetic on long vectors."""

import numpy as np
import pytest
from problems import REAL, TRAINED, assert_close, build, dataset, fields_of, fill, parameters, random_rows, score_all
from test_descent import FEATURES, RANK, labels_of, make_loss, outputs_of
from test_every_pair import planted
from test_minima import train

from fmcli.penalties.penalty import Penalty
from fmcli.solvers.full_batch.lbfgs import LBFGS, MEMORY
from fmcli.solvers.full_batch.vectors import PIECE, add_multiple, set_sum
from reference import slow_losses

pytestmark = pytest.mark.exact


def problem(name, loss="squared", threads=1, seed=0):
    rng = np.random.default_rng([len(name), seed])
    model = build(name, FEATURES, outputs_of(loss), rank=RANK)
    model.allocate(0)
    fill(model, rng, scale=0.3)
    model.remeasure()
    data = dataset(random_rows(rng, 9, FEATURES, fields=fields_of(name)), FEATURES, labels_of(loss, rng))
    data = data.changed(weight=rng.uniform(0.5, 2, size=9))
    return model, LBFGS(model, make_loss(loss), Penalty(l2_w=0.05, l2_v=0.02), data, threads)


@pytest.mark.parametrize("size", [0, 1, PIECE, 2 * PIECE + 3])
def test_sums_of_long_vectors(size):
    total, first, second = np.random.default_rng(size).normal(size=(3, size))
    wanted = total - 0.3 * second
    add_multiple(total, -0.3, second)
    np.testing.assert_array_equal(total, wanted)
    set_sum(total, first, 0.7, second)
    np.testing.assert_array_equal(total, first + 0.7 * second)
    with pytest.raises(ValueError, match="vectors of"):
        set_sum(total, first, 0.7, np.zeros(size + 1))


@pytest.mark.parametrize("loss", ["squared", "softmax"])
@pytest.mark.parametrize("name", TRAINED)
def test_the_gradient_of_the_whole_objective(name, loss):
    _, search = problem(name, loss)
    free = search.free()
    gradient = np.empty(free.size)
    search.evaluate(free, gradient)
    scored = zip(search.data.label, score_all(search.model, search.data), strict=True)
    losses = [slow_losses.LOSSES[loss](y, scores) for y, scores in scored]
    assert search.mean_loss == pytest.approx(np.average(losses, weights=search.data.weight), rel=1e-5)
    rng = np.random.default_rng(0)
    step = 1e-5 if REAL == "double" else 3e-3
    for _ in range(4):
        # The step is 0 in padding, which does not belong to the parameters and would only add noise.
        direction = rng.normal(size=free.size) * (gradient != 0)
        ahead, behind = (search.evaluate(free + sign * step * direction, np.empty(free.size)) for sign in (1, -1))
        assert (ahead - behind) / (2 * step) == pytest.approx(gradient @ direction, rel=2e-2, abs=2e-3)


def slow_direction(points, gradients):
    """Algorithm 7.4 on the whole history of a search, whose oldest steps are left out."""
    pairs = [(points[i + 1] - points[i], gradients[i + 1] - gradients[i]) for i in range(len(points) - 1)][-MEMORY:]
    direction, weights = -gradients[-1], []
    for s, y in reversed(pairs):
        weights.append(s @ direction / (s @ y))
        direction = direction - weights[-1] * y
    if pairs:
        s, y = pairs[-1]
        direction = direction * (s @ y) / (y @ y)
    for (s, y), weight in zip(pairs, reversed(weights), strict=True):
        direction = direction + (weight - y @ direction / (s @ y)) * s
    return direction


@pytest.mark.parametrize("name", ["fm", "hofm-simplex", "ffm"])
def test_steps_follow_the_two_loops(name):
    """From the first step that depends only on remembered steps."""
    _, search = problem(name)
    points, gradients = [], []

    def note(*_):
        points.append(search.point.copy())
        gradients.append(search.gradient.copy())
        return False

    search.run(3 * MEMORY, note)
    for last in range(MEMORY, 3 * MEMORY - 1):
        step = points[last + 1] - points[last]
        wanted = slow_direction(points[: last + 1], gradients[: last + 1])
        assert step @ wanted > (1 - 1e-9) * np.linalg.norm(step) * np.linalg.norm(wanted)


@pytest.mark.parametrize("name", ["fm", "hofm-simplex", "llfm", "ffm"])
def test_threads_change_nothing(name):
    train_data, _ = planted(name, "squared")
    found = []
    for threads in (1, 2, 3):
        trained = train(train_data, name, "lbfgs", plan={"threads": threads}, epochs=25, init_std=0.1, norm=False)
        found.append(([epoch.objective for epoch in trained.epochs], parameters(trained.plan.model)))
    for objectives, params in found[1:]:
        assert objectives == found[0][0]
        assert_close(params, found[0][1], {"rtol": 0, "atol": 0})
