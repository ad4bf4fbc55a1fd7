"""The kernel form of lifted models: a direct model with the same scores and at most twice the rank."""

import numpy as np
import pytest
from modelfiles import export_arrays
from problems import DOUBLE, build, dataset, fill, parameters, random_rows, score_all

from fmcli.data.labels import Labels
from fmcli.data.transform import Transform, marked
from fmcli.errors import UsageError
from fmcli.export.kernel_form import DIRECT, decompose, kernel_form, write_kernel_form
from fmcli.registry.specs import make_spec
from fmcli.scoring.draws import Draws
from fmcli.scoring.scorer import Scorer, load_model
from fmcli.training import job
from fmcli.training.saving import load_warm_start, save_model
from reference import slow_models

pytestmark = pytest.mark.exact

FEATURES, RANK, CLASSES = 12, 3, 3
# All features occurred in training.
TRANSFORM = Transform(Labels("squared", None), FEATURES, marks=marked(np.ones(FEATURES, bool)))
SAME = 1e-10 if DOUBLE else 1e-5


def saved(path, name, rng, keep_state=False, solver="adagrad", **options):
    """Save a softmax model in which some features were never seen and the factors matter. Return data to score."""
    rows = random_rows(rng, 40, FEATURES - 2)
    data = dataset(rows, FEATURES, rng.integers(CLASSES, size=40).astype(float))
    options = {"rank": RANK, "epochs": 1, "init_std": 0.3} | options
    trained = job.train(job.plan(data, make_spec(name, solver, "softmax", options)))
    save_model(str(path), trained, job.summary(trained), "libsvm", keep_state=keep_state)
    return dataset(random_rows(rng, 40, FEATURES), FEATURES)


@pytest.mark.parametrize("shape", [(30, 4), (5, 4), (4, 1), (0, 2)])
def test_decomposition(shape, rng):
    """More and fewer features than twice the rank. Rows of zeros stay exactly zero."""
    u1, u2 = rng.normal(size=shape), rng.normal(size=shape)
    u1[1::3] = u2[1::3] = 0
    values, p = decompose(u1, u2)
    assert p.shape == (shape[0], len(values))
    assert 1 <= len(values) <= 2 * shape[1]
    w = u1 @ u2.T
    np.testing.assert_allclose((p * values) @ p.T, (w + w.T) / 2, atol=1e-13)
    assert not p[1::3].any()
    assert (np.diff(np.abs(values)) <= 0).all()
    if shape[0]:
        np.testing.assert_allclose(p.T @ p, np.eye(len(values)), atol=1e-13)


def test_eigenvalues_that_are_rounding_errors_are_dropped(rng):
    u = rng.normal(size=(20, 3))
    assert len(decompose(u, u)[0]) == 3
    u[:, 2] = 1e-9 * u[:, 0]
    assert len(decompose(u, u)[0]) == 2
    values, p = decompose(np.zeros((6, 2)), np.zeros((6, 2)))
    assert values.tolist() == [0]
    assert p.tolist() == [[0]] * 6


@pytest.mark.parametrize("linear", [True, False])
@pytest.mark.parametrize("augment", [True, False])
@pytest.mark.parametrize("name", DIRECT)
def test_the_direct_model_scores_the_same(name, augment, linear, tmp_path, rng):
    lifted, direct = str(tmp_path / "lifted.fm"), str(tmp_path / "direct.fm")
    data = saved(lifted, name, rng, keep_state=True, augment=augment, linear=linear, norm=True)
    one = load_model(lifted)
    shapes = write_kernel_form(lifted, one, direct)
    two = load_model(direct)
    scores = one.scores(data)
    assert np.abs(scores).max() > 1
    assert np.abs(two.scores(data) - scores).max() <= SAME * np.abs(scores).max()
    assert two.meta["model"] == DIRECT[name][0]
    assert shapes == {key: array.shape for key, array in export_arrays(direct).items()}
    assert ("gamma" in shapes, "w" in shapes) == (augment, linear)
    # Everything else is unchanged.
    assert (two.labels, two.transform.norm, two.seen.tolist()) == (one.labels, one.transform.norm, one.seen.tolist())
    factors = two.model.parameters[DIRECT[name][1]]
    assert RANK < two.meta["options"]["rank"] == factors.shape[2] <= 2 * RANK
    assert two.meta["training"]["parameters"] == two.model.parameter_count
    assert not factors[:, -2:].any()
    assert {**one.meta, "model": 0, "options": 0, "training": 0, "slots": 0} == {
        **two.meta, "model": 0, "options": 0, "training": 0, "slots": 0,
    }  # fmt: skip


@pytest.mark.parametrize(("name", "solver"), [("lifted-anova", "cd"), ("lifted-pn", "lbfgs")])
def test_models_of_deterministic_solvers_have_a_kernel_form(name, solver, tmp_path, rng):
    """The kernel form keeps the options that the model was trained with."""
    lifted, direct = str(tmp_path / "lifted.fm"), str(tmp_path / "direct.fm")
    data = saved(lifted, name, rng, solver=solver, l2=1e-4)
    write_kernel_form(lifted, load_model(lifted), direct)
    one, two = load_model(lifted), load_model(direct)
    assert two.meta["solver"] == solver
    assert one.meta["options"].items() <= {**two.meta["options"], "rank": RANK}.items()
    scores = one.scores(data)
    assert np.abs(two.scores(data) - scores).max() <= SAME * np.abs(scores).max()


@pytest.mark.parametrize("name", DIRECT)
def test_training_goes_on_from_the_direct_model(name, tmp_path, rng):
    lifted, direct = str(tmp_path / "lifted.fm"), str(tmp_path / "direct.fm")
    saved(lifted, name, rng, keep_state=True)
    one = load_model(lifted)
    write_kernel_form(lifted, one, direct)
    data = dataset(random_rows(rng, 40, FEATURES - 2), FEATURES, rng.integers(CLASSES, size=40).astype(float))
    options = load_model(direct).meta["options"]
    options = {option: options[option] for option in ("rank", "augment")}
    spec = make_spec(DIRECT[name][0], "adagrad", "softmax", {**options, "epochs": 0})
    trained = job.train(job.plan(data, spec, warm_start=load_warm_start(direct)))
    scores = one.scores(data)
    assert np.abs(score_all(trained.plan.model, data) - scores).max() <= SAME * max(1, np.abs(scores).max())


@pytest.mark.parametrize("augment", [True, False])
@pytest.mark.parametrize("name", DIRECT)
def test_the_arrays_are_those_of_the_definition(name, augment, rng):
    """In double precision, for every build: with the exported arrays, the definitions of both kinds agree."""
    model = build(name, FEATURES, rank=RANK, augment=augment)
    model.allocate(0)
    fill(model, rng)
    scorer = Scorer(Draws(model), TRANSFORM, {"model": name, "members": 1, "options": {"order": 2}}, "m")
    direct, form = kernel_form("m", scorer)
    for x in random_rows(rng, 10, FEATURES):
        want = slow_models.score(name, parameters(model), x)
        np.testing.assert_allclose(slow_models.score(direct, form, x), want, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("name", "options", "said"), [
    ("lifted-anova", {"order": 3}, "m has kind lifted-anova, of order 3"),
    ("pn", {"order": 2}, "m has kind pn, of order 2"),
    ("fm", {}, "m has kind fm;"),
])  # fmt: skip
def test_other_models_have_no_kernel_form(name, options, said):
    model = build(name, FEATURES, rank=2, **options)
    scorer = Scorer(Draws(model), TRANSFORM, {"model": name, "options": options}, "m")
    with pytest.raises(UsageError, match=f"{said}.* lifted-anova and lifted-pn of order 2"):
        kernel_form("m", scorer)
