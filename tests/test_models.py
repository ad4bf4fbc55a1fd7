"""Every registered model against its slow definition: scores, gradients, start values, mapped parameters."""

import itertools

import numpy as np
import pytest
from problems import CLOSE, assert_close, dataset, fill, gradient, random_rows, score_all

from fmcli._core.loss import Squared
from fmcli._core.model import REAL_TYPE
from fmcli._core.penalty import Penalty
from fmcli._core.sgd import SGD
from fmcli._core.stub import Stub, SumOfSquares
from fmcli.registry import MODELS
from reference import slow_models

FEATURES = 9
# One lane to several vectors, whole ones and ragged ones.
RANKS = (1, 3, 4, 5, 8, 13, 16, 20, 33)
pytestmark = pytest.mark.isa


def every_variant():
    """Every model with every choice of its switches, and the test stub."""
    for name, piece in MODELS.items():
        switches = [option for option in ("bias", "linear") if option in piece.options]
        for choice in itertools.product([True, False], repeat=len(switches)):
            for rank in RANKS if "rank" in piece.options else [None]:
                options = dict(zip(switches, choice, strict=True)) | ({"rank": rank} if rank else {})
                label = "-".join([name, *(f"{key}={value}" for key, value in options.items())])
                yield pytest.param(name, options, id=label)
    yield pytest.param("stub", {"rank": 3}, id="stub")


VARIANTS = list(every_variant())


def make(name, options, outputs=1, slots=0):
    model = (Stub if name == "stub" else MODELS[name].load())(FEATURES, outputs, **options)
    model.allocate(slots)
    return model


@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize("ones", [True, False])
@pytest.mark.parametrize(("name", "options"), VARIANTS)
def test_scores(name, options, ones, outputs):
    rng = np.random.default_rng([len(name), outputs])
    model = make(name, options, outputs, slots=2)
    params = fill(model, rng)
    rows = random_rows(rng, 12, FEATURES, ones)
    slow = [slow_models.score(name, params, x) for x in rows]
    assert np.ptp(slow) > 0.1
    np.testing.assert_allclose(score_all(model, dataset(rows, FEATURES)), slow, **CLOSE)


@pytest.mark.parametrize(("name", "options"), VARIANTS)
def test_gradient_is_that_of_the_definition(name, options):
    """With labels one below the scores the squared loss has slope 1, and its derivative is the score's."""
    rng = np.random.default_rng(len(name))
    model = make(name, options)
    for x in random_rows(rng, 6, FEATURES):
        params = fill(model, rng)
        slow = slow_models.gradient(name, params, x, 0)
        theta = params.get("theta")
        if theta is not None:  # keep its projection out of the way
            slow["theta"] -= slow["theta"]
        solver = SGD(learning_rate=1)
        solver.bind(model, Penalty())
        score = score_all(model, dataset([x], FEATURES))[0, 0]
        ours = gradient(model, x, solver, Squared(), score - 1)
        if theta is not None:
            ours["theta"] = slow["theta"]
        assert_close(ours, slow, CLOSE)


@pytest.mark.parametrize(("name", "options"), VARIANTS)
def test_gradient_by_central_differences(name, options):
    """Scores are at most quadratic in each parameter, so central differences are exact at any distance."""
    rng = np.random.default_rng(len(name))
    model = make(name, options)
    fill(model, rng)
    x = random_rows(rng, 3, FEATURES)[1]
    data = dataset([x], FEATURES)
    derivative = {}
    for key, array in model.parameters.items():
        derivative[key] = np.zeros(array.shape)
        for at in np.ndindex(array.shape):
            kept = array[at]
            array[at] = kept + 0.5
            above = score_all(model, data)[0, 0]
            array[at] = kept - 0.5
            derivative[key][at] = above - score_all(model, data)[0, 0]
            array[at] = kept
    solver = SGD(learning_rate=1)
    solver.bind(model, Penalty())
    ours = gradient(model, x, solver, Squared(), score_all(model, data)[0, 0] - 1)
    derivative.pop("theta", ours.pop("theta", None))
    assert_close(ours, derivative, CLOSE)


@pytest.mark.parametrize(("name", "options"), VARIANTS)
def test_mapped_parameters_score_the_same_bits(name, options):
    rng = np.random.default_rng(len(name))
    model = make(name, options, outputs=2, slots=1)
    fill(model, rng)
    data = dataset(random_rows(rng, 12, FEATURES), FEATURES)
    mapped = (Stub if name == "stub" else MODELS[name].load())(FEATURES, 2, **options)
    mapped.attach({key: np.ascontiguousarray(array) for key, array in model.parameters.items()})
    if name != "stub":  # whose loops are over padded lanes
        assert score_all(mapped, data).tobytes() == score_all(model, data).tobytes()


def test_attach_refuses_what_does_not_fit():
    mapped = MODELS["fm"].load()(FEATURES, 1, rank=4)
    arrays = {name: np.zeros(shape, REAL_TYPE) for name, shape in mapped.shapes().items()}
    mapped.attach(arrays)
    with pytest.raises(ValueError, match=r"V is .*\[1, 9, 3\], not .*\[1, 9, 4\]"):
        mapped.attach({**arrays, "V": np.zeros((1, FEATURES, 3), REAL_TYPE)})
    with pytest.raises(ValueError, match="w is int32"):
        mapped.attach({**arrays, "w": np.zeros((1, FEATURES), np.int32)})
    with pytest.raises(KeyError):
        mapped.attach({"V": arrays["V"]})


@pytest.mark.parametrize("name", MODELS)
def test_start_values(name):
    features = 70_000  # more than are drawn at a time
    options = {"rank": 5} if "rank" in MODELS[name].options else {}
    model = MODELS[name].load()(features, 2, **options)
    model.allocate(2)
    seen = np.random.default_rng(0).random(features) < 0.5
    model.start(seen, 0.1, np.random.default_rng(1))
    for key, array in model.parameters.items():
        if key in ("bias", "w"):
            assert not array.any()
        elif key == "V":
            assert not array[:, ~seen].any()
            assert (array[:, seen] != 0).all()
            np.testing.assert_allclose(array[:, seen].std(axis=(1, 2)), 0.1, rtol=0.02)
            assert not np.array_equal(array[0], array[1])
        else:
            assert (array != 0).all()


def test_rows_keep_to_cache_lines():
    from fmcli._core.model import row_stride

    size = REAL_TYPE.itemsize
    for reals in range(1, 200):
        stride = row_stride(reals)
        assert stride >= reals
        assert stride * size % 64 == 0 or 64 % (stride * size) == 0


def test_shapes_and_counts_are_those_of_the_arrays():
    for name, piece in MODELS.items():
        model = piece.load()(FEATURES, 3, **({"rank": 5} if "rank" in piece.options else {}))
        shapes = model.shapes()
        model.allocate(1)
        assert {key: array.shape for key, array in model.parameters.items()} == shapes, name
        assert model.parameter_count == sum(array.size for array in model.parameters.values())


def test_shfm_is_fm_without_linear_weights_on_a_constant_column():
    rng = np.random.default_rng(0)
    shfm = make("shfm", {"rank": 6})
    fill(shfm, rng)
    fm = MODELS["fm"].load()(FEATURES + 1, 1, rank=6, linear=False)
    fm.allocate(0)
    fm.parameters["bias"][...] = shfm.parameters["bias"]
    fm.parameters["V"][:, :FEATURES] = shfm.parameters["V"]
    fm.parameters["V"][:, FEATURES] = shfm.parameters["v0"]
    rows = random_rows(rng, 12, FEATURES)
    with_constant = [{**x, FEATURES: 1.0} for x in rows]
    np.testing.assert_allclose(
        score_all(shfm, dataset(rows, FEATURES)), score_all(fm, dataset(with_constant, FEATURES + 1)), **CLOSE
    )


def test_sum_of_squares_is_what_it_says():
    value, slope = SumOfSquares(3).evaluate(0.5, np.array([1.0, 2.0, 3.0]))
    assert value == 0.5 * (0.5**2 + 1 + 1.5**2)
    np.testing.assert_allclose(slope, [0.5, 1, 1.5])
