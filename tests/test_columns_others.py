"""Coordinate descent's column views of poly2, polynomial networks, bilinear, field-aware and locally linear models."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from problems import DOUBLE, FOLLOWED, assert_close, build, choices, dataset, fill, in_turn, parameters, random_rows
from test_solvers import EXACT_ONLY, PENALTIES, labels_of, make_loss, outputs_of

from fmcli.penalties.penalty import Penalty
from fmcli.registry.solvers import SOLVERS
from fmcli.solvers.coordinate import minimizer
from fmcli.solvers.coordinate.minimizer import CoordinateDescent
from fmcli.solvers.stochastic.loop import RowLoop
from reference import slow_descent, slow_losses, slow_models

FEATURES, ROWS, FIELDS, SLICE = 7, 9, 3, 16
HALVINGS = 30
ROUNDING = 1e-5
# Tolerance for the derivatives by anchors, which are sums over rows of differences of scores.
GRADIENT = {"rtol": 1e-9, "atol": 1e-9} if DOUBLE else {"rtol": 1e-3, "atol": 1e-5}

RANKS = [{"rank": rank} for rank in (1, 5, 17)]
ORDERS = [{"order": order} for order in (3, 4)]
AFFINE = [
    *[("poly2", options) for options in ({}, {"pair_bits": 3}, {"linear": False, "bias": False})],
    *[
        ("lifted-pn", options)
        for options in (*RANKS, *ORDERS, {"order": 3, "rank": 17}, {"augment": False}, {"linear": False})
    ],
    *[("bilinear", options) for options in (*RANKS, {"linear": False}, {"bias": False})],
    *[("ffm", options) for options in (*RANKS, {"linear": False}, {"bias": False})],
    *[("llfm", options) for options in (*RANKS, {"linear": False}, {"bias": False}, {"llfm_variant": "apl"})],
]
POWERS = [*RANKS, *ORDERS, {"order": 3, "rank": 17}, {"augment": False}, {"linear": False}, {"fit_beta": False}]
pytestmark = pytest.mark.exact


def rows_for(name, rng):
    """Random samples; for field-aware models they have fields, and each index is in one field."""
    rows = random_rows(rng, ROWS, FEATURES)
    if name != "ffm":
        return rows
    return [{(j, int(rng.integers(FIELDS))): value for j, value in x.items()} for x in rows]


class Problem:
    """Coordinate descent on random samples from random parameters."""

    def __init__(self, name, loss, penalty, options, rows=None, **keywords):
        rng = np.random.default_rng(len(name))
        self.rows = rows_for(name, rng) if rows is None else rows
        self.labels, self.weights = labels_of(loss, rng), rng.uniform(0.5, 2, size=ROWS)
        self.data = dataset(self.rows, FEATURES, self.labels, self.weights)
        by_row = penalty in EXACT_ONLY
        self.model = build(name, FEATURES, outputs_of(loss), **{"rank": 5, "by_row": by_row, **options})
        self.model.allocate(0)
        self.start = fill(self.model, rng, scale=0.4)
        self.model.remeasure()
        self.descent = CoordinateDescent(
            self.model, make_loss(loss), Penalty(**PENALTIES[penalty]), self.data, **keywords
        )

    def objectives(self, epochs):
        """Return the objective before the first epoch and after each epoch."""
        with ThreadPoolExecutor(1) as pool:
            found = [sum(self.descent.objective(pool))]
        self.descent.run(epochs, lambda loss, penalty: bool(found.append(loss + penalty)))
        return found


def ends(name, loss, penalty, options, epochs=2):
    """Return the parameters after some epochs with fast derivatives and with derivatives from the gradient."""
    fast, slow = (Problem(name, loss, penalty, options, by_gradient=by_gradient) for by_gradient in (False, True))
    assert fast.descent.descent.fast
    assert not slow.descent.descent.fast
    for problem in (fast, slow):
        problem.objectives(epochs)
    return parameters(fast.model), parameters(slow.model)


@pytest.mark.parametrize(
    ("case", "loss", "penalty"),
    in_turn(AFFINE, [("squared", "none")])
    + in_turn(AFFINE, [("softmax", "both"), ("poisson", "by-part"), ("logistic", "group")]),
)
def test_fast_derivatives_equal_those_from_gradients(case, loss, penalty):
    name, options = case
    assert_close(*ends(name, loss, penalty, options), FOLLOWED)


# A row that is updated as a whole uses only an upper bound of the curvature, without second derivatives of the score.
@pytest.mark.parametrize("loss", ["squared", "softmax"])
@pytest.mark.parametrize("options", [options for options in POWERS if options.get("order", 2) % 2 == 0])
def test_rows_of_powers_updated_as_a_whole(options, loss):
    assert_close(*ends("pn", loss, "group", options, epochs=1), FOLLOWED)


@pytest.mark.parametrize(
    ("options", "loss", "penalty"), in_turn(POWERS, [("squared", "none"), ("logistic", "both"), ("softmax", "by-part")])
)
def test_powers_use_second_derivatives(options, loss, penalty):
    """Compared with the definition: the curvature includes second derivatives of the score if they increase it, and
    steps are halved until the objective falls."""
    problem = Problem("pn", loss, penalty, options)
    expected = slow_powers(problem, loss, PENALTIES[penalty], options.get("order", 2))
    problem.objectives(1)
    assert_close(parameters(problem.model), expected, FOLLOWED)


def slow_powers(problem, loss, penalty, order):
    """One epoch of cd on a polynomial network, slice by slice, in float64."""
    value, smoothness = slow_losses.LOSSES[loss], slow_losses.SMOOTHNESS[loss]
    params = {name: array.copy() for name, array in problem.start.items()}
    share, o = problem.weights / problem.weights.sum(), choices(problem.model, order=order)

    def scores():
        return [slow_models.score("pn", params, x, o) for x in problem.rows]

    def mean_loss():
        return sum(s * value(y, found) for s, y, found in zip(share, problem.labels, scores(), strict=True))

    for c, names, at in slices(problem.model):
        bends = names[0] in ("P", "gamma")  # scores are affine in the other arrays

        def pick(arrays, *, names=names, at=at):
            return np.concatenate([np.ravel(arrays[name][at(name)]) for name in names])

        phi = pick(params)
        l1, l2 = (pick({n: np.full_like(params[n], strength(penalty, n, key)) for n in names}) for key in ("l1", "l2"))

        def objective(v, *, names=names, at=at, l1=l1, l2=l2):
            first = 0
            for name in names:
                part = params[name][at(name)]
                params[name][at(name)] = v[first : first + np.size(part)].reshape(np.shape(part))
                first += np.size(part)
            return mean_loss() + l1 @ np.abs(v) + l2 @ v**2 / 2

        q = np.array([pick(slow_models.gradient("pn", params, x, c, o)) for x in problem.rows])
        bend = np.array([pick(second_derivatives(params, x, c, order)) for x in problem.rows])
        slopes = [slow_losses.slopes(value, y, z)[c] for y, z in zip(problem.labels, scores(), strict=True)]
        curvatures = [slow_descent.curvature(loss, z[c]) if bends else smoothness for z in scores()]
        G = (q.T * share * curvatures) @ q
        if bends:
            G += np.diag(np.maximum((share * slopes) @ bend, 0))
        solve = with_bias if names[-1:] == ["bias"] and len(phi) > 1 else minimize
        step = solve((share * slopes) @ q, G, phi, l1, l2)
        before = objective(phi)
        for _ in range(HALVINGS + 1):
            if objective(phi + step) <= before or not bends:
                break
            step = step / 2
        else:
            objective(phi)
    return params


def slices(model):
    """Yield (class, arrays, index into each of them) of the parameters that are updated together, in order."""
    for c in range(model.outputs):
        for layout in sorted(model.layout, key=lambda layout: layout.penalty != "l2"):
            if not layout.trained:
                continue
            for row in range(FEATURES if layout.by_feature else 1):
                where = (c, row) if layout.by_feature else (c,)
                width = layout.columns - (layout.weight is not None)
                for begin in range(0, max(width, 1), SLICE):
                    last = begin + SLICE >= width
                    names = [*[array.name for array in layout.body], *([layout.weight] if last else [])]
                    names += ["bias"] if layout.penalty == "l2" and last and "bias" in model.parameters else []
                    names = [name for name in names if name]

                    def at(name, *, begin=begin, where=where, weight=layout.weight):
                        return where if name in (weight, "bias") else (*where, slice(begin, begin + SLICE))

                    yield c, names, at


def strength(penalty, name, key):
    """Return the penalty strength of an array."""
    if name == "bias" or (name == "beta" and key == "l1"):
        return 0
    return penalty.get(f"{key}_w" if name == "w" else f"{key}_v", 0)


def second_derivatives(params, x, c, order):
    """Return the second derivatives of a polynomial network's score by each parameter."""
    found = {name: np.zeros_like(array) for name, array in params.items()}
    z = sum((params["P"][c, j] * value for j, value in x.items()), start=np.zeros(params["P"].shape[2]))
    z = z + (params["gamma"][c] if "gamma" in params else 0)
    by_z = params.get("beta", np.ones((c + 1, 1)))[c] * order * (order - 1) * z ** (order - 2)
    for j, value in x.items():
        found["P"][c, j] = by_z * value**2
    if "gamma" in found:
        found["gamma"][c] = by_z
    return found


def minimize(r, G, phi, l1, l2):
    """Return the step after as many sweeps over the coordinates as in the compiled solver."""
    step = np.zeros_like(phi)
    for _ in range(5):
        for f in range(len(phi)):
            curvature = G[f, f] + l2[f]
            if curvature == 0:
                step[f] = -phi[f] if l1[f] > 0 else step[f]
                continue
            u = phi[f] + step[f] - (r[f] + G[f] @ step + l2[f] * (phi[f] + step[f])) / curvature
            step[f] = np.sign(u) * max(abs(u) - l1[f] / curvature, 0) - phi[f]
    return step


def with_bias(r, G, phi, l1, l2):
    """Like minimize, but the last coordinate is the bias, which is always at its optimum given the others."""
    g = G[:-1, -1] / G[-1, -1]
    step = minimize(r[:-1] - g * r[-1], G[:-1, :-1] - np.outer(g, G[-1, :-1]), phi[:-1], l1[:-1], l2[:-1])
    return np.append(step, -r[-1] / G[-1, -1] - g @ step)


@pytest.mark.parametrize("name", ["bilinear", "lifted-pn", "poly2", "llfm"])
def test_an_index_in_two_fields_is_summed(name):
    rng = np.random.default_rng(1)
    rows = random_rows(rng, ROWS, FEATURES, fields=FIELDS)
    assert any(len({j for j, _ in x}) < len(x) for x in rows)
    if name != "bilinear":  # bilinear keeps the fields of entries; other models sum the entries of an index first
        rows = [{j: sum(x[key] for key in x if key[0] == j) for j, _ in x} for x in rows]
    by_gradient = [Problem(name, "squared", "both", {}, rows, by_gradient=slow) for slow in (False, True)]
    for problem in by_gradient:
        problem.objectives(2)
    assert_close(*(parameters(problem.model) for problem in by_gradient), FOLLOWED)


@pytest.mark.parametrize("equal", [True, False])
def test_field_aware_rows_with_single_entries_are_updated_as_by_the_gradient(equal):
    """Each entry has a field of its own, by which the other entries of a sample are found, and not always the same."""
    rng = np.random.default_rng(0)
    rows = []
    for _ in range(ROWS):
        n = int(rng.integers(1, FIELDS + 1))
        entries = zip(rng.choice(FEATURES, n, replace=False).tolist(), rng.permutation(FIELDS).tolist(), strict=False)
        rows.append({entry: 0.75 if equal else rng.normal() for entry in sorted(entries)})
    by_gradient = [Problem("ffm", "squared", "both", {}, rows, by_gradient=slow) for slow in (False, True)]
    assert by_gradient[0].data.nnz * 4 > by_gradient[0].data.rows * FIELDS  # so that it has the entries by field
    for problem in by_gradient:
        problem.objectives(2)
    assert_close(*(parameters(problem.model) for problem in by_gradient), FOLLOWED)


def test_field_aware_rows_with_an_index_in_two_fields_take_the_slow_way():
    rows = random_rows(np.random.default_rng(1), ROWS, FEATURES, fields=FIELDS)
    for penalty in ("both", "group"):
        problem = Problem("ffm", "squared", penalty, {}, rows)
        assert not problem.descent.descent.fast
        objectives = problem.objectives(4)
        assert np.diff(objectives).max() < 0


@pytest.mark.parametrize("name", ["poly2", "pn", "lifted-pn", "bilinear", "ffm", "llfm"])
def test_threads_change_nothing(name, monkeypatch):
    monkeypatch.setattr(minimizer, "ENTRIES_TO_SHARE", 1)
    monkeypatch.setattr(minimizer, "SAMPLES_A_TASK", 4)
    rng = np.random.default_rng(5)
    keys = [(int(rng.integers(4)), 4 + int(rng.integers(3))) for _ in range(ROWS)]
    rows = [{(key if name != "ffm" else (key, key // 4)): 1.0 for key in x} for x in keys]
    found = []
    for threads in (1, 2):
        problem = Problem(name, "softmax", "both", {}, rows, threads=threads)
        if threads == 2:
            assert any(
                chunk.bounds for sweeps in problem.descent.sweeps.values() for sweep in sweeps for chunk in sweep.chunks
            )
        problem.objectives(3)
        found.append(parameters(problem.model))
    for key in found[0]:
        assert np.array_equal(found[0][key], found[1][key]), key


# ---- Anchors. ----


@pytest.mark.parametrize("loss", ["squared", "softmax", "logistic"])
@pytest.mark.parametrize("variant", ["apl", "jo"])
def test_anchors_gradient_is_that_of_the_mean_loss(variant, loss):
    problem = Problem("llfm", loss, "none", {"llfm_variant": variant})
    value = slow_losses.LOSSES[loss]
    expected = np.zeros_like(problem.start["anchors"])
    for x, y, share in zip(problem.rows, problem.labels, problem.weights / problem.weights.sum(), strict=True):
        options = choices(problem.model, llfm_variant=variant)
        slopes = slow_losses.slopes(value, y, slow_models.score("llfm", problem.start, x, options))
        for c, slope in enumerate(slopes):
            expected += share * slope * slow_models.gradient("llfm", problem.start, x, c, options)["anchors"]
    assert np.abs(expected).max() > 0.01
    every = np.arange(problem.data.rows, dtype=np.int32)
    for rows in ([every], [every[:5], every[5:]]):
        found = problem.model.anchor_gradient([problem.data.take(some) for some in rows], make_loss(loss))
        np.testing.assert_allclose(found, expected, **GRADIENT)


@pytest.mark.parametrize("rate", [0.05, 1e4])
def test_anchors_step_as_far_as_the_objective_falls(rate):
    problem = Problem("llfm", "squared", "both", {"anchor_rate": rate})
    with ThreadPoolExecutor(1) as pool:
        seen = []

        def objective():
            seen.append((sum(problem.descent.objective(pool)), parameters(problem.model)["anchors"]))
            return seen[-1][0]

        gradient = problem.model.anchor_gradient([problem.data], make_loss("squared"))
        assert problem.model.anchored.learned
        assert problem.model.anchored.step_apart([problem.data], make_loss("squared"), objective)
    before, after = seen[0][0], seen[-1][0]
    assert after < before <= min(found for found, _ in seen[1:-1] or seen[:1])
    assert (rate == 0.05) == (len(seen) == 2)
    for halvings, (_, anchors) in enumerate(seen[1:]):
        np.testing.assert_allclose(anchors, seen[0][1] - rate / 2**halvings * gradient, rtol=1e-4, atol=1e-5)


def test_anchors_stay_where_no_step_lowers_the_objective():
    problem = Problem("llfm", "squared", "both", {})
    before, seen = parameters(problem.model)["anchors"], []

    def objective():
        seen.append(parameters(problem.model)["anchors"])
        return 1.0

    assert not problem.model.anchored.step_apart([problem.data], make_loss("squared"), objective)
    assert np.array_equal(seen[-1], before)
    assert 2 < len(seen) <= HALVINGS + 2
    assert not any(np.array_equal(anchors, before) for anchors in seen[1:-1])


def test_anchors_that_are_not_learned_have_no_step():
    assert not build("llfm", FEATURES, llfm_variant="do", rank=2).anchored.learned


@pytest.mark.parametrize("frozen", [False, True])
def test_gradients_of_frozen_models_leave_anchors_alone(frozen):
    model = build("llfm", FEATURES, rank=2, llfm_variant="jo")
    solver = SOLVERS["sgd"].load()(learning_rate=0.1)
    model.allocate(solver.slots)
    rng = np.random.default_rng(0)
    before = fill(model, rng)
    solver.bind(model, Penalty())
    data = dataset(random_rows(rng, ROWS, FEATURES), FEATURES, rng.normal(size=ROWS))
    if frozen:
        model.anchored.freeze(data)
    RowLoop(model, solver, make_loss("squared"), data).train_on(np.arange(ROWS, dtype=np.int32), 0, ROWS)
    after = parameters(model)
    assert np.array_equal(after["anchors"], before["anchors"]) == frozen
    assert not np.array_equal(after["V"], before["V"])


@pytest.mark.parametrize("loss", ["squared", "softmax", "poisson"])
@pytest.mark.parametrize("variant", ["do", "apl", "jo"])
def test_objectives_of_locally_linear_models_never_rise(variant, loss):
    problem = Problem("llfm", loss, "both", {"llfm_variant": variant})
    objectives = problem.objectives(12)
    assert np.diff(objectives).max() <= ROUNDING * abs(objectives[0])
    assert objectives[-1] < objectives[0] - 0.01
    assert np.array_equal(parameters(problem.model)["anchors"], problem.start["anchors"]) == (variant == "do")


@pytest.mark.parametrize("by_gradient", [False, True])
def test_rows_without_samples_near_their_anchor_are_0(by_gradient):
    model = build("llfm", FEATURES, rank=3, anchors=2, neighbours=1, llfm_variant="do")
    model.allocate(0)
    model.start(np.ones(FEATURES, dtype=bool), 0.1, np.random.default_rng(0))
    model.parameters["anchors"][...] = 0
    model.parameters["anchors"][0, 0], model.parameters["anchors"][1, 1] = 5, 5
    model.remeasure()
    # Features 0 and 2 are near the first anchor, 1 and 3 near the second, 4 near both.
    rows = [{0: 3.0, 2: 1.0, 4: 1.0}, {1: 3.0, 3: 1.0, 4: 1.0}, {0: 2.0, 2: -1.0}, {1: 2.0, 3: 2.0}]
    data = dataset(rows, FEATURES, [1.0, -1.0, 2.0, 0.5])
    CoordinateDescent(model, make_loss("squared"), Penalty(), data, by_gradient=by_gradient).run(1, lambda *_: False)
    near = np.zeros((2, FEATURES), dtype=bool)
    near[0, [0, 2, 4]] = near[1, [1, 3, 4]] = True
    assert np.array_equal(np.any(model.parameters["V"][0] != 0, axis=-1), near)
    assert np.array_equal(model.parameters["w"][0] != 0, near)
