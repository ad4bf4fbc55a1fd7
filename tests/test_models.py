"""Every registered model against its slow definition: scores, gradients, start values, mapped parameters."""

import itertools

import numpy as np
import pytest
from problems import (
    CLOSE,
    ROW_SOLVERS,
    TRAINED,
    assert_close,
    build,
    by_feature,
    choices,
    dataset,
    fields_of,
    fill,
    gradient,
    on_the_simplex,
    pairwise,
    random_rows,
    score_all,
    taken,
)

from fmcli.losses.loss import Squared
from fmcli.models.layout import REAL_TYPE, row_stride
from fmcli.penalties.penalty import Penalty
from fmcli.registry.options import OPTIONS
from fmcli.scoring.rows import score_rows
from fmcli.solvers.stochastic.loop import RowLoop
from fmcli.solvers.stochastic.sgd import SGD
from reference import slow_models
from reference.kinds import KINDS, per_feature

FEATURES = 9
# From one SIMD lane to several vectors, some of them only partly filled.
RANKS = (1, 3, 4, 8, 13, 20)
# With a step size of 1, the step of the anchors is the gradient.
OWN = {"anchor_rate": 1.0}
# Options with more than two values. With 3 bits the table of pairs is so small that most pairs share an entry.
SEVERAL = {"pair_bits": (22, 3), "llfm_variant": OPTIONS["llfm_variant"].choices}
# Orders of kernels and their ranks: the orders known at compile time and one that is not. Higher orders have few ranks,
# because the definitions are slow.
ORDERS = {2: RANKS, 3: (1, 13), 4: (4, 8), 5: (5,), 6: (3,)}
# Fewer orders and ranks for definitions that sum over all ordered tuples; at order WITHOUT_CONSTANTS, the constants are
# omitted.
FEWER = {2: RANKS, 3: (1, 13), 4: (1,), 5: (1,)}
WITHOUT_CONSTANTS = 5
# Central differences: the weight of the score at each step from a parameter. The formulas are exact for polynomials up
# to degree 2 and up to degree 6.
STEP = 0.5
SQUARES = {-1: -1 / 2, 1: 1 / 2}
SIXTH_POWERS = {-3: -1 / 60, -2: 9 / 60, -1: -45 / 60, 1: 45 / 60, 2: -9 / 60, 3: 1 / 60}
pytestmark = pytest.mark.exact


def variants(piece):
    """Yield the options of a model's variants: all pairs of its switches and ranks; fewer ranks for higher orders."""
    kind = KINDS[piece.name]
    known = (*piece.options, *piece.context)
    switches = [option for option in ("bias", "linear", "augment", "by_row", *SEVERAL) if option in known]
    values = [SEVERAL.get(switch, (True, False)) for switch in switches]
    if "order" not in piece.options:
        if "rank" in piece.options:
            switches, values = [*switches, "rank"], [*values, kind.ranks or RANKS]
        yield from [dict(zip(switches, choice, strict=True)) for choice in pairwise(*values)]
        return
    fitted = {"fit_beta": True} if "fit_beta" in piece.options else {}
    for choice in pairwise(*values):
        yield dict(zip(switches, choice, strict=True)) | fitted | {"order": 3, "rank": 5}
    for order, ranks in (FEWER if kind.ordered else ORDERS).items():
        augmented = [{"augment": True}, {"augment": False}] if "augment" in switches else [{}]
        if kind.ordered and order == WITHOUT_CONSTANTS:
            augmented = augmented[1:]
        for place in range(max(len(ranks), len(augmented))):  # several ranks take turns with and without constants
            augment = augmented[place % len(augmented)]
            yield {"order": order, "rank": ranks[place % len(ranks)]} | augment | fitted
    if piece.by_degree:
        yield {"order": 4, "rank": [8, 1, 5]}


def every_variant():
    """Yield every variant of every model class."""
    classes = {piece.path: piece for piece in reversed(TRAINED.values())}  # some models differ only in their penalties
    for piece in classes.values():
        for options in variants(piece):
            yield piece.name, options | taken(piece.name, OWN)


# The options of every variant of a model, by its name.
VARIANTS = {name: [options for _, options in of] for name, of in itertools.groupby(every_variant(), lambda one: one[0])}
WITH_BETA = [name for name, piece in TRAINED.items() if "fit_beta" in piece.options]


def unallocated(name, options, outputs=1):
    return build(name, FEATURES, outputs, **options)


def scale(name, options):
    """The scale of random parameters: powers of numbers above 1 would make small terms lose their digits."""
    return 0.2 if KINDS[name].steep and options.get("order", 2) > 2 else 0.5


def make(name, options, outputs=1, slots=0):
    model = unallocated(name, options, outputs)
    model.allocate(slots)
    return model


@pytest.mark.parametrize("name", VARIANTS)
def test_scores(name):
    for options, ones, outputs in itertools.product(VARIANTS[name], (True, False), (1, 3)):
        check_scores(name, options, ones, outputs)


def check_scores(name, options, ones, outputs):
    rng = np.random.default_rng([len(name), outputs])
    model = make(name, options, outputs, slots=2)
    params = fill(model, rng, scale(name, options))
    rows = random_rows(rng, 5, FEATURES, ones, fields_of(name))
    slow = [slow_models.score(name, params, x, choices(model, **options)) for x in rows]
    assert np.ptp(slow) > 100 * CLOSE["atol"]
    np.testing.assert_allclose(score_all(model, dataset(rows, FEATURES)), slow, **CLOSE, err_msg=str(options))


@pytest.mark.parametrize("name", VARIANTS)
def test_gradient_equals_the_definition(name):
    for options in VARIANTS[name]:
        check_gradient(name, options)


def check_gradient(name, options):
    """If the label is the score minus 1, the slope of the squared loss is 1, and its gradient is the score's."""
    rng = np.random.default_rng(len(name))
    model = make(name, options)
    for x in random_rows(rng, 2, FEATURES, fields=fields_of(name)):
        params = fill(model, rng, scale(name, options))
        slow = slow_models.gradient(name, params, x, 0, choices(model, **options))
        for key in on_the_simplex(model):  # the projection changes the step, so it is not the gradient
            slow[key][...] = 0
        solver = SGD(learning_rate=1)
        solver.bind(model, Penalty())
        score = score_all(model, dataset([x], FEATURES))[0, 0]
        ours = gradient(model, x, solver, Squared(), score - 1)
        ours |= {key: slow[key] for key in on_the_simplex(model)}
        assert_close(ours, slow, CLOSE)


@pytest.mark.parametrize("name", VARIANTS)
def test_gradient_by_central_differences(name):
    for options in VARIANTS[name]:
        check_gradient_by_differences(name, options)


def check_gradient_by_differences(name, options):
    """Scores are polynomials of low degree in each parameter, so central differences are exact for any step size."""
    rng = np.random.default_rng(len(name))
    model = make(name, options)
    fill(model, rng, scale(name, options))
    x = random_rows(rng, 3, FEATURES, fields=fields_of(name))[1]
    data = dataset([x], FEATURES)
    derivative = {}
    for key, array in model.parameters.items():
        derivative[key] = np.zeros(array.shape)
        for at in np.ndindex(array.shape):
            kept = array[at]
            for steps, weight in (SIXTH_POWERS if KINDS[name].powers else SQUARES).items():
                array[at] = kept + steps * STEP
                derivative[key][at] += weight * score_all(model, data)[0, 0] / STEP
            array[at] = kept
    solver = SGD(learning_rate=1)
    solver.bind(model, Penalty())
    ours = gradient(model, x, solver, Squared(), score_all(model, data)[0, 0] - 1)
    for key in (*on_the_simplex(model), "anchors"):  # theta is projected; scores are not polynomials in the anchors
        derivative.pop(key, ours.pop(key, None))
    assert_close(ours, derivative, CLOSE)


@pytest.mark.parametrize("name", VARIANTS)
def test_mapped_parameters_score_the_same_bits(name):
    for options in VARIANTS[name]:
        rng = np.random.default_rng(len(name))
        model = make(name, options, outputs=2, slots=1)
        fill(model, rng)
        data = dataset(random_rows(rng, 12, FEATURES, fields=fields_of(name)), FEATURES)
        mapped = unallocated(name, options, outputs=2)
        arrays = model.parameters | model.constants
        mapped.attach({key: np.ascontiguousarray(array) for key, array in arrays.items()})
        assert score_all(mapped, data).tobytes() == score_all(model, data).tobytes(), options


@pytest.mark.parametrize("name", TRAINED)
def test_start_values(name):
    features = 70_000 if name == "fm" else 7_000  # of fm, more than one buffer of random numbers
    model = build(name, features, 2, rank=5)
    model.allocate(2)
    seen = np.random.default_rng(0).random(features) < 0.5
    model.start(seen, 0.1, np.random.default_rng(1))
    for key, array in model.parameters.items():
        if key in ("bias", "w"):
            assert not array.any()
        elif key in KINDS[name].starts:
            assert (array == np.resize(KINDS[name].starts[key], array.shape[-1])).all()
        elif per_feature(key):
            rows = by_feature(model, key)
            assert not rows[~seen].any()
            assert (rows[seen] != 0).all()
            np.testing.assert_allclose(np.std(rows[seen], axis=(0, *range(2, rows.ndim))), 0.1, rtol=0.02)
            assert not np.array_equal(array[0], array[1])
        elif key in on_the_simplex(model):
            assert (array == REAL_TYPE.type(1 / array.shape[1])).all()
        else:
            assert (array != 0).all()


@pytest.mark.parametrize("threads", [2, 3])
def test_start_values_of_many_features_by_several_threads(threads):
    features = 200_000
    found = []
    for number in (1, threads):
        model = build("fm", features, 2, rank=3)
        model.allocate(0)
        model.start(np.ones(features, dtype=np.bool_), 0.1, np.random.default_rng(1), number)
        found.append(model.parameters["V"].copy())
    assert np.array_equal(*found)
    # No part of the features repeats another.
    assert len(np.unique(found[0][:, :, 0])) > 1.98 * features


@pytest.mark.parametrize("name", WITH_BETA)
@pytest.mark.parametrize(("start", "low", "high"), [("ones", 1, 1), ("alternate", -1, 1), ("random", -4, 4)])
def test_start_values_of_beta(name, start, low, high):
    found = []
    for seed in (1, 1, 2):
        model = make(name, {"rank": 6, "beta_start": start}, outputs=2)
        model.start(np.ones(FEATURES, dtype=np.bool_), 0.1, np.random.default_rng(seed))
        beta = model.parameters["beta"]
        assert low <= beta.min() <= beta.max() <= high
        assert len(np.unique(beta)) == {"ones": 1, "alternate": 2, "random": 12}[start]
        if start == "alternate":
            assert (beta == np.where(np.arange(beta.shape[1]) % 2, -1, 1)).all()
        found.append(beta.tolist())
    assert found[0] == found[1]
    assert (found[0] == found[2]) == (start != "random")


@pytest.mark.parametrize("batch_size", [1, 3])
@pytest.mark.parametrize("solver", ROW_SOLVERS)
@pytest.mark.parametrize("name", WITH_BETA)
def test_beta_is_constant_unless_it_is_fitted(name, solver, batch_size):
    """Beta is changed neither by gradients nor by penalties that act on all features or at the end of an epoch."""
    rng = np.random.default_rng(0)
    rows = random_rows(rng, 20, FEATURES)
    data = dataset(rows, FEATURES, rng.normal(size=20))
    moved = {}
    for fit_beta in (True, False):
        trained = make_solver(solver)
        model = make(name, {"rank": 5, "fit_beta": fit_beta}, outputs=1, slots=trained.slots)
        before = fill(model, np.random.default_rng(1))
        trained.bind(model, Penalty(l1_w=0.01, l1_v=0.01, l2_w=0.1, l2_v=0.1))
        trained.start()
        trainer = RowLoop(model, trained, Squared(), data, batch_size)
        for _ in (1, 2):
            trainer.train_on(np.arange(20, dtype=np.int32), 0, 20)
            trained.end_epoch()
        # FTRL recomputes the start values from its state, up to rounding.
        rounding = 2 * np.finfo(REAL_TYPE).eps
        moved[fit_beta] = {
            key: not np.allclose(array, before[key], rtol=rounding, atol=0) for key, array in model.parameters.items()
        }
    assert all(moved[True].values())
    assert moved[False] == moved[True] | {"beta": False}


def make_solver(name):
    """A solver with step sizes that suit the small data of the tests."""
    steps = {"learning_rate": 0.01, "alpha": 0.05}
    piece = ROW_SOLVERS[name]
    return piece.load()(**{key: steps.get(key, OPTIONS[key].default) for key in piece.options})


def test_rows_are_aligned_to_cache_lines():
    size = REAL_TYPE.itemsize
    for reals in range(1, 200):
        stride = row_stride(reals)
        assert stride >= reals
        assert stride * size % 64 == 0 or 64 % (stride * size) == 0


def test_shapes_and_counts_are_those_of_the_arrays():
    for name in TRAINED:
        model = build(name, FEATURES, 3, rank=5)
        shapes = model.shapes()
        model.allocate(1)
        assert {key: array.shape for key, array in model.parameters.items()} == shapes, name
        assert model.parameter_count == sum(array.size for array in model.parameters.values())
        kept = (1 + 1) * sum(array.nbytes for array in model.parameters.values())  # parameters and one state slot
        assert model.bytes_needed(1) >= kept + sum(array.nbytes for array in model.constants.values()), name


def test_shfm_is_fm_without_linear_weights_on_a_constant_column():
    rng = np.random.default_rng(0)
    shfm = make("shfm", {"rank": 6})
    fill(shfm, rng)
    fm = build("fm", FEATURES + 1, rank=6, linear=False)
    fm.allocate(0)
    fm.parameters["bias"][...] = shfm.parameters["bias"]
    fm.parameters["V"][:, :FEATURES] = shfm.parameters["V"]
    fm.parameters["V"][:, FEATURES] = shfm.parameters["v0"]
    rows = random_rows(rng, 12, FEATURES)
    with_constant = [{**x, FEATURES: 1.0} for x in rows]
    np.testing.assert_allclose(
        score_all(shfm, dataset(rows, FEATURES)), score_all(fm, dataset(with_constant, FEATURES + 1)), **CLOSE
    )


def test_scores_of_some_rows_are_those_of_all():
    rng = np.random.default_rng(0)
    some = np.array([7, 2, 2, 8, 0, 5], dtype=np.int32)
    for name in TRAINED:
        model = build(name, 6, rank=2)
        model.allocate(0)
        fill(model, rng)
        model.remeasure()
        data = dataset(random_rows(rng, 9, 6, fields=fields_of(name)), 6)
        every = score_rows(model, data)
        assert len(np.unique(every[:, 0])) > 4, name
        np.testing.assert_array_equal(score_rows(model, data, rows=some), every[some], name)
