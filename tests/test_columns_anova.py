"""Coordinate descent's column views of ANOVA, all-subsets and lifted kernels: all orders, all ranks, hard numerics."""

from itertools import product

import numpy as np
import pytest
from problems import DOUBLE, FOLLOWED, assert_close, build, dataset, fill, in_turn, parameters, random_rows
from test_solvers import make_loss

from fmcli.penalties.penalty import Penalty
from fmcli.solvers.coordinate.minimizer import CoordinateDescent

FEATURES, ROWS, LARGE = 7, 12, 1000
LOSSY = {"rtol": 1e-2, "atol": 1e-2}
ORDERS = [2, 3, 4, 5, 6]
pytestmark = pytest.mark.exact

# Every kind of order m, with and without constants and kernel weights.
KINDS = {
    "anova": ("anova", {}),
    "anova-augmented": ("anova", {"augment": True}),
    "anova-beta": ("anova", {"fit_beta": True, "augment": True}),
    "hofm": ("hofm", {}),
    "hofm-shared": ("hofm-shared", {}),
    "hofm-simplex": ("hofm-simplex", {}),
    "lifted": ("lifted-anova", {}),
    "lifted-augmented": ("lifted-anova", {"augment": True}),
}
CASES = [(*KINDS[kind], {"order": order}) for kind in KINDS for order in ORDERS] + [("all-subsets", {}, {})]
NAMES = [f"{kind}-{order}" for kind in KINDS for order in ORDERS] + ["all-subsets"]


def after(name, prepare, rows, by_gradient, outputs=1, epochs=1, **options):
    """Return the parameters after some epochs. They start at random values, which ``prepare`` may change."""
    rng = np.random.default_rng(3)
    model = build(name, FEATURES, outputs, **options)
    model.allocate(0)
    fill(model, rng, scale=0.4)
    prepare(model)
    labels = np.arange(ROWS) % outputs if outputs > 1 else rng.normal(size=ROWS)
    loss = make_loss("softmax" if outputs > 1 else "squared")
    # With this l2, the subproblem of each row is well conditioned, so the comparison only tests derivatives.
    descent = CoordinateDescent(
        model, loss, Penalty(l2_w=0.1, l2_v=0.1), dataset(rows, FEATURES, labels), by_gradient=by_gradient
    )
    assert descent.descent.fast != by_gradient
    descent.run(epochs, lambda *objective: False)
    return parameters(model)


def rows_with(entries):
    """Random samples that all have these entries."""
    rows = random_rows(np.random.default_rng(5), ROWS, FEATURES)
    return [dict(sorted((x | entries).items())) for x in rows]


def compare(name, prepare=lambda model: None, rows=None, tolerance=FOLLOWED, **options):
    rows = rows or rows_with({})
    ends = [after(name, prepare, rows, by_gradient, **options) for by_gradient in (False, True)]
    assert_close(*ends, tolerance)
    return ends[0]


@pytest.mark.parametrize(
    ("case", "rank", "outputs"), in_turn([name for name in NAMES for _ in range(2)], product([1, 5, 17], [1, 3]))
)
def test_fast_derivatives_equal_those_from_gradients(case, rank, outputs):
    """Each case with two pairs of rank and outputs, in turn: all orders of a kind have every pair."""
    name, options, order = CASES[NAMES.index(case)]
    compare(name, rank=rank, outputs=outputs, **options, **order)


@pytest.mark.parametrize("ranks", [(8, 4, 2), (17, 1, 20), (1, 33, 3)])
def test_slices_may_cross_degrees(ranks):
    compare("hofm", order=4, rank=list(ranks))


@pytest.mark.parametrize(("name", "options", "order"), CASES, ids=NAMES)
def test_one_dominant_entry(name, options, order):
    """After the dominant entry is removed from the sums, the remainder must be accurate to float precision."""

    def outweigh(model):
        factors = [array for array in model.parameters if array[0] in "PVU"]
        for array in factors:
            model.parameters[array][:, 2, ::2] *= LARGE

    compare(name, outweigh, rows_with({2: 1.0}), FOLLOWED if DOUBLE else LOSSY, rank=5, **options, **order)


def test_a_factor_of_the_product_that_is_zero():
    """In all-subsets kernels, a product with a zero factor cannot be divided by it to get the product of the others."""

    def vanish(model):
        model.parameters["P"][:, [1, 4]] = -1
        model.parameters["P"][:, 5, 0] = np.nextafter(np.float32(-1), 0)

    compare("all-subsets", vanish, rows_with({1: 1.0, 4: 1.0, 5: 1.0}), rank=5)


@pytest.mark.parametrize(("name", "options", "order"), CASES, ids=NAMES)
def test_parameters_that_are_zero(name, options, order):
    """Parameters of some features and some factors are 0. Derivatives that vanish must be exactly 0; with rounding
    errors instead, steps would be unbounded."""

    def empty(model):
        for array in model.parameters:
            if array[0] in "PVU":
                model.parameters[array][:, 1:4] = 0
                model.parameters[array][..., 0] = 0

    compare(name, empty, rank=5, **options, **order)


@pytest.mark.parametrize("name", ["hofm", "anova", "lifted-anova"])
def test_kernels_without_enough_entries_stay_as_they_are(name):
    """Kernels of order 4 are 0 on samples of two entries. Without a penalty, not even rounding may change them."""
    rng = np.random.default_rng(1)
    rows = [
        {int(j): float(v) for j, v in zip(sorted(rng.choice(7, 2, False)), rng.normal(size=2), strict=True)}
        for _ in range(ROWS)
    ]
    model = build(name, FEATURES, rank=5, order=4, fit_beta=False)
    model.allocate(0)
    before = fill(model, rng, scale=0.4)
    CoordinateDescent(model, make_loss("squared"), Penalty(), dataset(rows, FEATURES, rng.normal(size=ROWS))).run(
        2, lambda *objective: False
    )
    end = parameters(model)
    for array in {"hofm": ["P3", "P4"], "anova": ["V"], "lifted-anova": ["U1", "U2", "U3", "U4"]}[name]:
        np.testing.assert_array_equal(end[array], before[array])
    assert (end["w"] != before["w"]).all()
