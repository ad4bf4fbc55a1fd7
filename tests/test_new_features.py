"""New features are learned alone: all else stays as it is, they reach their minimum, and depend on their rows only."""

import warnings

import numpy as np
import pytest
from problems import TRAINED, choices, dataset, fields_of, parameters, random_rows, score_all, taken
from test_checkpoint import Dying, Killed

import fmcli
from fmcli.choosing.fitting import Events
from fmcli.data.text.reader import read
from fmcli.errors import UsageError
from fmcli.model_file.container import load, save
from fmcli.model_file.state import draw_name, parameter_of
from fmcli.registry.build import build_loss
from fmcli.registry.specs import make_spec
from fmcli.scoring.scorer import scorer_of
from fmcli.training import job, saving
from fmcli.training.growth import grown_file
from fmcli.training.setup.rows import RowsInMemory
from fmcli.training.several import ensemble
from fmcli.training.several.folding import fold_in
from fmcli.training.several.learning import learn
from fmcli.training.starting import FEWEST_ROWS
from reference import slow_models
from reference.kinds import per_feature

OLD, FEATURES = 6, 9
OPTIONS = {"rank": 2, "anchors": 3, "split_index": 4, "neighbours": 2, "norm": False}
SAMPLED = {"rank": 2, "epochs": 140, "burn_in": 20, "draws": 120}
# Arrays about the rows, which new features change.
OF_ROWS = ("seen", "counts", "features", "ids", "names", "name_ends")


def random_data(kind, seed, rows, features, labels=None):
    """Random rows; the first has no feature, the second all."""
    rng = np.random.default_rng(seed)
    samples = random_rows(rng, rows, features, fields=fields_of(kind))
    labels = rng.normal(size=rows) + 1 if labels is None else rng.choice(labels, size=rows)
    return samples, dataset(samples, features, labels)


def saved(path, trained, **keywords):
    saving.save_model(str(path), trained, job.summary(trained), "libsvm", **keywords)
    return str(path)


def first_model(tmp_path, kind="fm", solver="adagrad", loss="squared", **options):
    """Return the path of a model of the first features, trained on random rows."""
    labels = None if loss in ("squared", "hinge") else [0.0, 1.0]
    _, data = random_data(kind, 1, 40, OLD, [0.0, 1.0] if loss == "hinge" else labels)
    steps = {"epochs": 2} if solver else {}
    options = {**taken(kind, OPTIONS), "norm": False, **steps, **options}
    trained = job.train(job.plan(data, make_spec(kind, solver, loss, options)))
    return saved(tmp_path / f"{kind}.fm", trained, keep_state=trained.plan.spec.by_rows)


def learned(path, data, keeper=None, **options):
    """Return the run that learns the new features of rows, and the grown file. keeper : keeps its progress."""
    warm_start = saving.load_warm_start(path, only_new=True)
    plan = job.plan(data, warm_start.of_new_features(options), warm_start=warm_start, only_new=True)
    if keeper:
        keeper.belongs_to(plan, False)
    trained = learn(plan, keeper=keeper)
    return trained, grown_file(trained)


def slope(loss, label, score):
    return score - label if loss == "squared" else -label / (1 + np.exp(label * score))


@pytest.mark.exact
@pytest.mark.parametrize("kind", [kind for kind in TRAINED if kind not in ("glfm", "l1fm", "sglfm")])
def test_new_features_reach_the_minimum_and_all_else_stays(kind, tmp_path):
    """By the definition of each kind: the derivative of the sum of losses plus penalty in each parameter of a new
    feature is 0."""
    loss = "squared" if kind != "fm" else "logistic"
    path = first_model(tmp_path, kind, loss=loss)
    samples, data = random_data(kind, 2, 14, FEATURES, None if loss == "squared" else [0.0, 1.0])
    trained, file = learned(path, data, tol=1e-9)
    before, values = load(path), trained.plan.spec.values
    compared = [name for name in before.tensors if parameter_of(name) not in OF_ROWS]
    assert len(compared) > 2
    for name in compared:
        array = before.tensors[name]
        np.testing.assert_array_equal(file.tensors[name][tuple(map(slice, array.shape))], array, err_msg=name)
    scorer = scorer_of(path, file)
    params, options = parameters(scorer.model), choices(scorer.model, **taken(kind, values))
    total = {name: np.zeros(array.shape) for name, array in params.items()}
    for x, label in zip(samples, scorer.labels.encode(data.label), strict=True):
        score = slow_models.score(kind, params, x, options)[0]
        for name, found in slow_models.gradient(kind, params, x, 0, options).items():
            total[name] += slope(loss, label, score) * found
    for name in [name for name in params if name == "W" or (per_feature(name) and name != "anchors")]:
        new = of_new(name, params[name])
        found = total[name] + values["l2_w" if name == "w" else "l2_v"] * params[name]
        assert new.any()
        assert np.abs(found[new]).max() < 2e-4, name
        assert np.abs(params[name][new]).max() > 1e-3 or name == "W", name
    counts = [sum(any(np.atleast_1d(key)[0] == j for key in x) for x in samples) for j in range(FEATURES)]
    assert file.tensors["counts"][OLD:].tolist() == counts[OLD:]


def of_new(name, array):
    """Return the mask of the parameters of new features in an array."""
    mask = np.zeros(array.shape, dtype=np.bool_)
    if name == "W":
        mask[:, OLD * (OLD - 1) // 2 :] = True
    else:
        np.moveaxis(mask, array.shape.index(FEATURES), 0)[OLD:] = True
    return mask


def ratings(path, users, seed, words):
    """Write ratings of items by users, whose ids are words or numbers; return the lines of each user."""
    rng = np.random.default_rng(seed)
    user, item = ("user", "item") if words else ("1", "")
    lines = {
        n: [f"{rng.integers(1, 6)} {user}{n}:1 {item}{j}:1\n" for j in rng.permutation(8)[: rng.integers(2, 8)]]
        for n in users
    }
    path.write_text("".join(line for each in lines.values() for line in each))
    return lines


@pytest.mark.parametrize(("rank", "words", "user"), [(3, True, 35), (20, False, 41)])
def test_a_newcomer_does_not_depend_on_the_others_in_the_file(rank, words, user, tmp_path):
    """The parameters of a user are the same bits alone and among others who share no new feature, some of whom need
    more epochs if factors are updated in several slices."""
    path, many, alone = (tmp_path / name for name in ("m.fm", "many", "alone"))
    ratings(many, range(20), 1, words)
    fmcli.train(str(many), epochs=3, rank=rank, seed=4).save(str(path))
    lines = ratings(many, range(30, 42), 2, words)
    alone.write_text("".join(lines[user]))
    found = []
    for rows in (many, alone):
        scorer = scorer_of("m", learned(str(path), read([str(rows)]).dataset)[1])
        ids = scorer.ids(np.arange(scorer.model.features))
        place = ids.index(f"user{user}" if words else 100 + user)
        found.append([np.array(scorer.model.parameters[name][0, place]) for name in ("w", "V")])
    for ours, theirs in zip(*found, strict=True):
        assert ours.tobytes() == theirs.tobytes()
        assert ours.all()


def test_newcomers_that_meet_each_other_start_apart(tmp_path):
    """New users of new items: factors of rank above 1 are found, though none of them meets a known feature."""
    path = first_model(tmp_path)
    rng = np.random.default_rng(0)
    truth = rng.normal(size=(20, 2)) @ rng.normal(size=(2, 20)) * 3
    rows = [({10 + i: 1.0, 40 + j: 1.0}, truth[i, j]) for i in range(20) for j in range(20)]
    data = dataset([x for x, _ in rows], 60, [y for _, y in rows])
    _, file = learned(path, data, l2=0.1, tol=1e-5)
    factors = file.tensors["V"][0, 10:30].astype(float)
    assert np.linalg.svd(factors, compute_uv=False)[1] > 0.5
    residual = score_all(scorer_of(path, file).model, data)[:, 0] - data.label
    assert np.mean(residual**2) < 0.05 * np.var(truth)


def test_one_newcomer_is_a_ridge_regression(tmp_path):
    path = first_model(tmp_path, rank=4, init_std=0.3)
    rng = np.random.default_rng(3)
    x = [{int(j): 1.0 for j in sorted(rng.choice(OLD, 2, replace=False))} | {OLD: 1.0} for _ in range(9)]
    data = dataset(x, OLD + 1, rng.normal(size=9) + 2)
    before = scorer_of(path, load(path))
    _, file = learned(path, data, tol=1e-9)
    v = before.model.parameters["V"][0].astype(float)
    known = score_all(before.model, dataset([{j: 1.0 for j in row if j < OLD} for row in x], OLD))[:, 0]
    design = np.array([[1.0, *sum(v[j] for j in row if j < OLD)] for row in x])
    solved = np.linalg.solve(design.T @ design + np.diag([1, *[10] * 4]), design.T @ (data.label - known))
    found = [file.tensors["w"][0, OLD], *file.tensors["V"][0, OLD]]
    np.testing.assert_allclose(found, solved, atol=1e-6)


def test_weights_and_given_penalties_count_in_the_sum(tmp_path):
    """Rows twice are rows of weight 2, and --l2 is relative to the sum of the losses."""
    path = first_model(tmp_path)
    samples, data = random_data("fm", 5, 10, FEATURES)
    _, twice = learned(path, dataset(samples * 2, FEATURES, [*data.label] * 2), l2=4.0, tol=1e-8)
    _, weighted = learned(path, data.changed(weight=np.full(10, 2.0)), l2=4.0, tol=1e-8)
    _, halved = learned(path, data, l2=2.0, tol=1e-8)
    for other in (weighted, halved):
        np.testing.assert_allclose(other.tensors["V"][0, OLD:], twice.tensors["V"][0, OLD:], atol=1e-5)


def test_each_member_of_an_ensemble_learns_for_itself(tmp_path):
    _, data = random_data("fm", 1, 40, OLD)
    spec = make_spec("fm", None, "squared", {"rank": 2, "epochs": 2})
    trained, members = ensemble.train_ensemble(job.plan(data, spec), 3, Events().observed)
    training = ensemble.ensemble_summary(trained, members)
    path = str(tmp_path / "three")
    saving.save_model(path, trained, training, "libsvm")
    _, rows = random_data("fm", 2, 20, FEATURES)
    _, grown = learned(path, rows)
    alone = saved(tmp_path / "first", job.train(job.plan(data, spec)))
    _, one = learned(alone, rows)
    for name in ("w", "V"):
        np.testing.assert_array_equal(grown.tensors[draw_name(0, name)], one.tensors[name])
    assert len({grown.tensors[name].tobytes() for name in (draw_name(0, "V"), draw_name(1, "V"), "V")}) == 3
    save(path, grown)
    assert saving.load_warm_start(path, only_new=True).model.features == FEATURES


def test_the_grown_model_is_resumed_from_as_it_was(tmp_path):
    """The state of known features is kept, and new ones begin their steps where they are, though the parameters of ftrl
    are functions of its state."""
    path = first_model(tmp_path, solver="ftrl")
    _, data = random_data("fm", 2, 20, FEATURES)
    _, file = learned(path, data)
    save(path, file)
    warm_start = saving.load_warm_start(path)
    spec = warm_start.continued(None, None, None, {"epochs": 1})
    resumed = job.train(job.plan(data, spec, warm_start=warm_start))
    assert resumed.plan.resumes
    before = file.tensors["V"][0, OLD:]
    assert np.abs(resumed.plan.model.parameters["V"][0, OLD:] - before).max() < np.abs(before).max()


def test_an_update_begins_at_the_minimum_of_features_of_several_rows(tmp_path):
    """Those of fewer rows begin where the features of a new model do: with a weight of 0."""
    path = first_model(tmp_path)
    rare, often = OLD, OLD + 1
    rows = [{row % OLD: 1.0, (often if row < FEWEST_ROWS else rare): 1.0} for row in range(2 * FEWEST_ROWS - 1)]
    data = dataset(rows, FEATURES, np.arange(len(rows)) + 3.0)
    warm_start = saving.load_warm_start(path)
    plan = job.plan(data, warm_start.continued(None, None, None, {"epochs": 1}), warm_start=warm_start)
    plan.model.allocate(1)
    job.start(plan, build_loss(plan.spec, plan.spec.loss, 1))
    weights = plan.model.parameters["w"].ravel()
    assert weights[rare] == 0
    assert abs(weights[often]) > 1


def test_draws_for_a_newcomer_have_its_posterior_given_each_draw(tmp_path):
    """With the factors of the others, a row's score is affine in the newcomer's numbers: its posterior is normal, by
    the precision of labels and the priors of the draw, and so are the draws once they are standardized by it."""
    _, data = random_data("fm", 1, 30, OLD)
    number = np.arange(FEATURES, dtype=np.int32) % 2
    data = data.changed(field=number[data.index])
    path = saved(tmp_path / "m", job.train(job.plan(data, make_spec("fm", "mcmc", "squared", SAMPLED))))
    rng = np.random.default_rng(3)
    x = [{int(rng.integers(OLD)): 1.0, OLD: 1.0} for _ in range(9)]
    new = dataset(x, OLD + 1, rng.normal(size=9) + 2)
    _, grown = learned(path, new.changed(field=number[new.index]))
    file, scorer = load(path), scorer_of(path, load(path))
    priors = file.tensors["priors"].reshape(len(scorer.draws), 2, 2, 3)[:, :, 0]
    order = [name for layout in scorer.model.layout for name in layout.names if layout.by_feature]
    assert order == ["V", "w"]
    z = []
    for at, draw in enumerate(scorer.draws):
        v = draw.parameters["V"][0].astype(float)
        design = np.array([[*sum(v[j] for j in row if j < OLD), 1.0] for row in x])
        known = score_all(draw, dataset([{j: 1.0 for j in row if j < OLD} for row in x], OLD))[:, 0]
        (mean, precision), noise = priors[at], file.tensors["noise"][at]
        total = noise * design.T @ design + np.diag(precision)
        center = np.linalg.solve(total, noise * design.T @ (new.label - known) + precision * mean)
        name = (lambda one: one) if at == len(scorer.draws) - 1 else (lambda one, at=at: draw_name(at, one))
        found = np.array([*grown.tensors[name("V")][0, OLD], grown.tensors[name("w")][0, OLD]], dtype=float)
        z.append(np.linalg.cholesky(total).T @ (found - center))
    assert np.abs(np.mean(z, axis=0)).max() < 4.5 / np.sqrt(len(z))
    np.testing.assert_allclose(np.cov(np.array(z).T), np.eye(3), atol=6 / np.sqrt(len(z)))


@pytest.mark.parametrize("loss", ["squared", "probit"])
def test_draws_for_a_newcomer_do_not_depend_on_others(loss, tmp_path):
    labels = None if loss == "squared" else [0.0, 1.0]
    _, data = random_data("fm", 1, 30, OLD, labels)
    options = {**SAMPLED, "draws": 2, "epochs": 22}
    path = saved(tmp_path / "m", job.train(job.plan(data, make_spec("fm", "mcmc", loss, options))))
    rows = [{0: 1.0, OLD + 1: 1.0}, {2: 1.0, OLD: 1.0}, {1: 1.0, OLD + 1: 1.0}, {2: 1.0, OLD + 2: 1.0}]
    together, alone = (
        learned(path, dataset([rows[i] for i in some], FEATURES, [float(i % 2) for i in some]))[1].tensors
        for some in (range(4), (0, 2))
    )
    for name in ("w", "V", draw_name(0, "V")):
        np.testing.assert_array_equal(together[name][0, OLD + 1], alone[name][0, OLD + 1])
    assert (together["V"][0, OLD] != together["V"][0, OLD + 1]).all()
    assert (together["V"] != together[draw_name(0, "V")])[0, OLD:].all()


@pytest.mark.parametrize("solver", ["adagrad", "mcmc"])
def test_a_run_that_is_killed_again_and_again_learns_the_same(solver, tmp_path):
    _, data = random_data("fm", 1, 30, OLD)
    options = {**SAMPLED, "draws": 3, "epochs": 23} if solver == "mcmc" else {"rank": 2, "epochs": 2}
    path = saved(tmp_path / "m", job.train(job.plan(data, make_spec("fm", solver, "squared", options))))
    _, rows = random_data("fm", 2, 20, FEATURES)
    _, whole = learned(path, rows)
    for killed in range(30):
        keeper = Dying(str(tmp_path / "checkpoint"), np.inf)
        keeper.left = 8 if solver == "mcmc" else 2
        if killed:
            keeper.read()
        try:
            _, found = learned(path, rows, keeper)
            break
        except Killed:
            continue
    assert killed > 2
    for name, array in whole.tensors.items():
        np.testing.assert_array_equal(found.tensors[name], array)


def test_files_of_draws_without_priors_are_refused(tmp_path):
    path = first_model(tmp_path, "fm", "mcmc", burn_in=0)
    file = load(path)
    del file.tensors["priors"], file.tensors["prior_groups"]
    save(path, file)
    with pytest.raises(UsageError, match=r"cannot learn new features alone: .*priors, which its file does not have"):
        saving.load_warm_start(path, only_new=True).of_new_features({})


def test_folding_in_scores_as_the_grown_model(tmp_path):
    path = first_model(tmp_path)
    _, data = random_data("fm", 2, 20, FEATURES)
    _, grown = learned(path, data)
    folded = fold_in(path, load(path), RowsInMemory(data))
    assert folded.features == FEATURES - OLD
    assert (folded.scorer.scores(data) == scorer_of(path, grown).scores(data)).all()
    _, known = random_data("fm", 4, 5, OLD)
    assert fold_in(path, load(path), RowsInMemory(known)).features == 0


def test_python_learns_new_features_as_the_command(tmp_path):
    path = first_model(tmp_path)
    _, data = random_data("fm", 2, 20, FEATURES)
    rows = np.zeros((20, FEATURES), dtype=np.float32)
    rows[np.repeat(np.arange(20), np.diff(data.indptr)), data.index] = 1 if data.value is None else data.value
    ours = str(tmp_path / "ours")
    fmcli.train((rows, data.label), init_model=path, only_new=True).save(ours)
    _, grown = learned(path, data)
    np.testing.assert_array_equal(load(ours).tensors["V"], grown.tensors["V"])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fmcli.train((rows[:, :OLD], data.label), init_model=path, only_new=True).save(ours)
    assert "has seen all features" in str(caught[0].message)
    assert (tmp_path / "ours").read_bytes() == (tmp_path / "fm.fm").read_bytes()


@pytest.mark.parametrize(
    ("kind", "solver", "loss", "options", "reason"),
    [
        ("kernel-basis", None, None, {"rank": 5}, "landmarks"),
        ("poly2", "adagrad", "squared", {"pair_bits": 2}, "15 pairs share entries by a hash"),
        ("fm", "adagrad", "hinge", {}, "not differentiable"),
    ],
)
def test_models_without_such_a_minimum_are_refused(kind, solver, loss, options, reason, tmp_path):
    path = first_model(tmp_path, kind, solver, loss or "squared", **options)
    with pytest.raises(UsageError, match=f"cannot learn new features alone: .*{reason}"):
        saving.load_warm_start(path, only_new=True).of_new_features({})
