"""The Python layer of training: labels, validation, warm starts, normalization, convergence, chunks of an epoch."""

import re
from types import SimpleNamespace

import numpy as np
import pytest
from problems import dataset, in_turn, score_all
from scipy.optimize import minimize
from test_every_pair import FEATURES, planted

from fmcli.cli.flags import with_flags
from fmcli.data.labels import Labels, fit_labels
from fmcli.errors import BadInputError
from fmcli.losses.links import expit
from fmcli.models.layout import REAL_TYPE
from fmcli.registry.build import build_loss
from fmcli.registry.losses import LOSSES
from fmcli.registry.specs import make_spec
from fmcli.solvers.stochastic import round_epochs, trainer
from fmcli.solvers.stochastic import rows as row_epochs
from fmcli.training import job, saving, validation
from fmcli.training.account import need_of
from fmcli.training.setup import settings
from fmcli.training.several.refit import refits
from fmcli.training.validation import BestEpoch


def train(data, model="fm", solver="adagrad", loss=None, *, plan=None, **options):
    return job.train(job.plan(data, make_spec(model, solver, loss, options), **(plan or {})))


@pytest.mark.parametrize(
    "options",
    [{}, {"round_size": 8}, {"batch_size": 4}, {"solver": "cd"}, {"solver": "lbfgs"}, {"solver": "mcmc"}],
    ids=str,
)
def test_codes_of_labels_take_a_byte_and_train_what_numbers_do(options, monkeypatch):
    data = planted("fm", "logistic")[0]
    data = data.changed(label=np.where(data.label > 0, 7.0, 3.0))
    coded = train(data, epochs=2, **options).plan
    assert coded.source.data.label.dtype == np.int8
    encode = Labels.encode
    monkeypatch.setattr(Labels, "encode", lambda *arguments: encode(*arguments).astype(np.float64))
    for name, array in train(data, epochs=2, **options).plan.model.parameters.items():
        np.testing.assert_array_equal(array, coded.model.parameters[name])


# ---- The deadline ----


@pytest.mark.parametrize("solver", ["adagrad", "fobos", "cd", "lbfgs"])
def test_training_ends_at_the_deadline(solver, monkeypatch):
    """After the first rows, if the deadline has passed, with a stochastic solver; with an epoch, with others."""
    monkeypatch.setattr(trainer, "CHUNK_NONZEROS", 100)
    data = planted("fm", "squared")[0]
    late, whole = (train(data, solver=solver, epochs=4, plan={"deadline": end}) for end in (0.0, None))
    one = train(data, solver=solver, epochs=1)
    assert (late.out_of_time, whole.out_of_time, one.out_of_time) == (True, False, False)
    assert (len(late.epochs), len(whole.epochs)) == (1, 4)
    same = late.epochs[0].loss == one.epochs[0].loss
    assert same == (solver in ("cd", "lbfgs"))
    if not same:  # the mean loss over the first rows of the epoch
        shown = []
        observer = job.Observer()
        observer.every, observer.loss = 1, lambda epoch, rows, loss: shown.append((rows, loss))
        job.train(job.plan(data, make_spec("fm", solver, None, {"epochs": 1})), observer=observer)
        rows = 100 * data.rows // data.nnz
        assert late.epochs[0].loss == pytest.approx(dict(shown)[rows], rel=1e-12)
    assert np.isfinite(score_all(late.plan.model, data)).all()


def test_no_refit_with_a_deadline():
    data = planted("fm", "squared")[0]
    spec = make_spec("fm", "adagrad", None, {"epochs": 2})
    assert refits(job.plan(data, spec, holdout=0.2))
    assert not refits(job.plan(data, spec, holdout=0.2, deadline=1e18))


# ---- Labels ----


def test_the_loss_follows_the_labels():
    assert fit_labels(np.array([0.0, 1, 0]), None).loss == "logistic"
    assert fit_labels(np.array([7.0, -3, 7]), None).values == (-3, 7)
    assert fit_labels(np.array([0.5, 1.5, 2.5]), None).loss == "squared"
    assert fit_labels(np.arange(1000.0), None).may_be_classes is False
    hinted = fit_labels(np.array([1.0, 2, 3, 1]), None)
    assert hinted.loss == "squared"
    assert hinted.may_be_classes


def test_labels_on_a_scale_look_like_ratings():
    stars, halves = np.arange(1.0, 6), np.arange(0.5, 5.5, 0.5)
    for scale in (stars, halves, np.arange(11.0), np.array([1.0, 2, 3])):
        assert fit_labels(np.tile(scale[::-1], 3), None).may_be_ratings
    others = (stars + 1, stars * 10, stars / 4, stars - 2, stars[[0, 1, 3, 4]], stars[:2], np.arange(12.0), [1, 2, 1.7])
    for other in others:
        assert not fit_labels(np.array(other), None).may_be_ratings
    assert not fit_labels(stars, "softmax").may_be_ratings


@pytest.mark.parametrize(
    ("label", "loss", "message"),
    [
        ([1, 1], None, "every label is 1.*fmcli negatives adds random"),
        ([2, 2], "logistic", "every label is 2"),
        ([2, 2], "softmax", "every label is 2"),
        (
            [1, 2, 3],
            "logistic",
            "two values, but these are 1, 2, 3; use --loss squared .*, or --loss softmax if they are classes",
        ),
        (list(range(50)), "hinge", "0, 1, 2, 3 and others"),
        ([1, -1], "poisson", "counts, but a label is -1"),
    ],
)
def test_labels_that_do_not_fit(label, loss, message):
    with pytest.raises(BadInputError) as raised:
        fit_labels(np.array(label, dtype=float), loss)
    assert re.search(message, with_flags(raised.value))


def test_one_value_can_be_fitted_as_a_number():
    assert fit_labels(np.ones(3), "squared").values is None


def test_labels_are_encoded_in_sorted_order():
    labels = fit_labels(np.array([5.0, -2.5, 5]), None)
    np.testing.assert_array_equal(labels.encode(np.array([5.0, -2.5])), [1, -1])
    classes = fit_labels(np.array([30.0, 10, 20.5]), "softmax")
    assert classes.outputs == 3
    np.testing.assert_array_equal(classes.encode(np.array([10, 20.5, 30])), [0, 1, 2])
    for unknown in (5.0, 15.0, 99.0):
        with pytest.raises(BadInputError, match=f"does not know the label {unknown:g},"):
            classes.encode(np.array([10.0, unknown]))


# ---- Validation ----


def test_a_share_is_held_out():
    data, _ = planted("fm", "logistic")
    trained = train(data, plan={"holdout": 0.25}, epochs=3)
    validation = trained.plan.validation
    assert validation.data is trained.plan.data  # no copy
    held = validation.data.take(validation.rows)
    assert held.rows == data.rows / 4
    assert len(trained.plan.rows) == data.rows - held.rows
    whole = {tuple(data.index[data.indptr[i] : data.indptr[i + 1]]) for i in trained.plan.rows}
    ours = [tuple(held.index[held.indptr[i] : held.indptr[i + 1]]) for i in range(held.rows)]
    assert sum(row in whole for row in ours) < 10  # the data may have a few equal rows
    again = train(data, plan={"holdout": 0.25, "threads": 2}, epochs=3)
    assert [epoch.valid for epoch in again.epochs] == [epoch.valid for epoch in trained.epochs]


def test_the_usual_holdout_depends_on_the_rows_and_needs_several_epochs():
    """5 % of the rows, or 500 if that is more, but at most a fifth."""
    data, _ = planted("linear", "squared")
    for rows, held_out in ((12_000, 600), (10_000, 500), (4000, 500), (2000, 400), (100, 20)):
        some = data.take(np.resize(np.arange(data.rows), rows))
        assert train(some, "linear", plan={"holdout": None}, epochs=2).plan.validation.count == held_out
        assert train(some, "linear", plan={"holdout": None}, epochs=1).plan.validation is None
    assert train(data.take(np.arange(99)), "linear", plan={"holdout": None}, epochs=2).plan.validation is None


@pytest.mark.parametrize("loss", ["logistic", "softmax"])
def test_a_value_that_is_wholly_held_out(loss):
    """As the last rows may be; random ones have their share of each class."""
    data, _ = planted("linear", "logistic")
    rare = data.take(np.arange(40)).changed(label=np.where(np.arange(40) == 39, 1.0, 0.0))
    plan = job.plan(rare, make_spec("linear", loss=loss), holdout=0.5, holdout_last=True)
    assert 39 not in plan.rows
    assert np.isfinite(job.train(plan).plan.model.parameters["bias"]).all()


# ---- Warm starts ----


def save(tmp_path, name, trained, **options):
    path = str(tmp_path / name)
    saving.save_model(path, trained, job.summary(trained), "libsvm", **options)
    return path


def shifted(data):
    """Return the same rows with new features that are unknown to the earlier model."""
    from fmcli.data.dataset import Dataset

    return Dataset(data.indptr, data.index + FEATURES, data.value, data.label, 2 * FEATURES)


def test_one_label_is_enough_for_resuming(tmp_path):
    data, _ = planted("fm", "logistic")
    warm_start = saving.load_warm_start(save(tmp_path, "old", train(data, epochs=1)))
    ones = data.take(np.flatnonzero(data.label == 1)[:50])
    assert train(ones, plan={"warm_start": warm_start}, epochs=1).plan.transform.labels.values == (0, 1)


def test_the_state_that_is_kept_is_the_best_epochs(tmp_path):
    data, test = planted("fm", "logistic")
    options = {"learning_rate": 0.05, "init_std": 0.1, "schedule": "invscaling", "power": 0.1}
    trained = train(data, "fm", "sgd", plan={"valid": test}, epochs=60, **options)
    assert 0 < trained.best < len(trained.epochs)
    assert trained.updates == trained.best * data.rows


def test_held_out_rows_are_normalized_over_known_features():
    data, _ = planted("fm", "squared")
    few = data.take(np.arange(12))
    plan = job.plan(few, make_spec("fm", options={"norm": True}), holdout=0.5)
    known = few.seen(plan.rows)
    assert not known[few.index].all()
    held = plan.validation.data
    for i in range(held.rows):
        entries = slice(held.indptr[i], held.indptr[i + 1])
        squares = (held.value[entries] ** 2)[known[held.index[entries]]].sum()
        assert squares == pytest.approx(1, rel=1e-5) or squares == 0


# ---- Normalized rows ----


def test_normalized_rows():
    rows = [{}, {0: 3.0, 2: 4.0}, {1: 2.0}]
    data = dataset(rows, 3).normalized()
    np.testing.assert_allclose(data.value, [0.6, 0.8, 1.0], rtol=1e-7)
    known = dataset(rows, 3).normalized(np.array([True, True, False]))
    np.testing.assert_allclose(known.value, [1.0, 4 / 3, 1.0], rtol=1e-7)
    ones = dataset([{0: 1.0, 1: 1.0}], 2).normalized()
    np.testing.assert_allclose(ones.value, np.sqrt([0.5, 0.5]), rtol=1e-7)
    longer = dataset([{0: 1.0, 1: 1.0}, {0: 1.0, 2: 1.0}, {1: 2.0}], 3).normalized()
    np.testing.assert_allclose(longer.value, [*np.sqrt([0.5] * 4), 1.0], rtol=1e-7)


@pytest.mark.parametrize(
    ("name", "solver", "options"),
    [
        ("fm", "cd", {}),
        ("fm", "ftrl", {}),
        ("fm", "adagrad", {"round_size": 4}),
        ("ffm", "adagrad", {"norm": False}),
        ("kernel-basis", None, {}),
    ],
)
def test_equal_values_take_the_memory_of_one(name, solver, options, monkeypatch):
    """All rows have equally many ones."""
    monkeypatch.setattr(round_epochs, "SAMPLES_BEFORE", 0)
    rng = np.random.default_rng(3)
    rows = [{(int(j), f): 1.0 for f, j in enumerate(sorted(rng.choice(20, 3, replace=False)))} for _ in range(60)]
    data = dataset(rows, 20, rng.normal(size=60)).normalized().take(rng.permutation(60))
    apart = data.changed(value=data.value.copy())
    assert apart.nbytes - data.nbytes == (data.nnz - data.longest) * data.value.itemsize
    assert data.longest_square() == pytest.approx(apart.longest_square(), rel=1e-6)
    if name != "ffm":
        data, apart = data.changed(field=None), apart.changed(field=None)
    together, single = (train(each, name, solver, rank=3, **options).plan.model.parameters for each in (data, apart))
    for array in together:
        np.testing.assert_array_equal(together[array], single[array], err_msg=array)


def test_columns_that_the_model_lacks_are_left_out_of_validation_data():
    data, _ = planted("fm", "squared")
    both = job.plan(data, make_spec("fm"), valid=shifted(data)).validation.data
    assert both.features == FEATURES
    assert both.nnz == 0
    some = dataset([{1: 2.0, 7: 3.0}, {7: 1.0}, {0: 1.0}], 8, [1, 2, 3]).within(5)
    assert some.indptr.tolist() == [0, 1, 1, 2]
    assert some.index.tolist() == [1, 0]
    assert some.value.tolist() == [2, 1]


# ---- Convergence ----


@pytest.mark.parametrize(
    ("loss", "solver"),
    in_turn(
        ["squared", "logistic", "soft-logistic", "squared-hinge", "huber", "poisson"],
        [("sgd",), ("adagrad",), ("fobos",)],
    ),
)
def test_solvers_meet_scipy_on_a_convex_problem(solver, loss):
    """On dense rows, the stochastic solvers minimize the same objective F as SciPy's L-BFGS."""
    rng = np.random.default_rng(0)
    n, d, l2 = 300, 5, 0.05
    X = rng.normal(size=(n, d)).astype(np.float32).astype(float)
    score = X @ rng.normal(size=d) * 0.5 + 0.3
    label = {
        "binary": lambda: np.where(rng.random(n) < expit(score), 1.0, -1.0),
        "soft": lambda: expit(score + 0.3 * rng.normal(size=n)),
        "real": lambda: score + 0.3 * rng.normal(size=n),
        "counts": lambda: rng.poisson(np.exp(np.clip(score, -3, 1.5))).astype(float),
    }[LOSSES[loss].task]()
    data = dataset([{j: x[j] for j in range(d)} for x in X], d, label)
    options = {"l2": l2, "epochs": 300, "learning_rate": 0.1}
    options |= {} if solver == "adagrad" else {"schedule": "invscaling", "power": 0.7, "learning_rate": 0.3}
    trained = train(data, "linear", solver, loss, **options)
    compiled = build_loss(trained.plan.spec, trained.plan.transform.labels.loss, trained.plan.transform.labels.outputs)

    def objective(p):
        values = [compiled.evaluate(y, np.array([p[0] + x @ p[1:]])) for x, y in zip(X, label, strict=True)]
        slopes = np.array([slope[0] for _, slope in values])
        gradient = np.concatenate([[slopes.mean()], X.T @ slopes / n + l2 * p[1:]])
        return np.mean([value for value, _ in values]) + l2 / 2 * p[1:] @ p[1:], gradient

    best = minimize(objective, np.zeros(d + 1), jac=True, method="L-BFGS-B", options={"gtol": 1e-9})
    ours = np.concatenate([trained.plan.model.parameters[name].ravel() for name in ("bias", "w")]).astype(float)
    assert objective(ours)[0] - best.fun < 5e-4 * abs(best.fun)


def test_fobos_finds_the_zeros_of_the_lasso():
    """With l1, fobos on sparse rows minimizes F over all features, touched or not, as scikit-learn's Lasso does."""
    from sklearn.linear_model import Lasso

    rng = np.random.default_rng(1)
    n, d, l1 = 400, 12, 0.05
    X = (rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.4)).astype(np.float32).astype(float)
    true = rng.normal(size=d) * (np.arange(d) % 3 == 0)
    label = X @ true + 0.1 * rng.normal(size=n)
    data = dataset([{j: x[j] for j in np.flatnonzero(x)} for x in X], d, label)
    steps = {"learning_rate": 0.5, "schedule": "invscaling", "power": 0.7}
    trained = train(data, "linear", "fobos", "squared", l1=l1, l2=0.0, epochs=400, **steps)
    lasso = Lasso(alpha=l1).fit(X, label)
    np.testing.assert_allclose(trained.plan.model.parameters["w"][0], lasso.coef_, atol=5e-3)
    assert (lasso.coef_ == 0).sum() >= 6


# ---- The chunks of an epoch ----


@pytest.mark.parametrize("batch_size", [1, 7])
def test_the_chunk_size_does_not_change_the_model(monkeypatch, batch_size):
    data, _ = planted("fm", "logistic")
    losses, ends = set(), set()
    for chunk in (trainer.CHUNK_NONZEROS, 6 * 100, 1):
        monkeypatch.setattr(trainer, "CHUNK_NONZEROS", chunk)
        pieces, observer = [], job.Observer()
        observer.rows = lambda *figures, pieces=pieces: pieces.append(figures)
        plan = job.plan(data, make_spec("fm", "adagrad", None, {"epochs": 2, "batch_size": batch_size}))
        trained = job.train(plan, observer=observer)
        assert (len(pieces) > 2) == (chunk < data.nnz)
        assert pieces[-1] == (2, data.rows)
        assert all(rows % batch_size == 0 or rows == data.rows for _, rows in pieces)
        losses.add(tuple(epoch.loss for epoch in trained.epochs))
        ends.add(trained.plan.model.parameters["V"].tobytes())
    assert len(losses) == len(ends) == 1


@pytest.mark.parametrize(("model", "batch_size"), [("fm", 1), ("fm", 7), ("hofm", 1)])
def test_copying_rows_before_they_are_trained_on_does_not_change_the_model(monkeypatch, model, batch_size):
    data = planted("fm", "logistic")[0]
    data = data.changed(weight=np.random.default_rng(0).uniform(0, 2, data.rows))
    ends, of, take, copied = set(), row_epochs.RowEpochs, row_epochs.RowEpochs._copied, []
    monkeypatch.setattr(of, "_copied", lambda self, number: copied.append(number) or take(self, number))
    for chunk, window, threads in ((trainer.CHUNK_NONZEROS, 0, 1), (6 * 100, 6 * 70, 2), (6 * 70, 6 * 1000, 1)):
        monkeypatch.setattr(trainer, "CHUNK_NONZEROS", chunk)
        monkeypatch.setattr(row_epochs, "WINDOW_NONZEROS", window)
        monkeypatch.setattr(row_epochs, "CACHED_BYTES", 0 if window else row_epochs.CACHED_BYTES)
        copied.clear()
        trained = train(data, model, epochs=2, batch_size=batch_size, plan={"holdout": 0.2, "threads": threads})
        assert sorted(copied) == sorted(2 * list(range(len(copied) // 2)))  # each of them once in each epoch
        assert bool(copied) == bool(window)
        ends.add((trained.epochs[-1].loss, *(array.tobytes() for array in trained.plan.model.parameters.values())))
    assert len(ends) == 1


def test_the_running_loss_is_a_weighted_mean():
    data, _ = planted("linear", "squared")
    weight = 1.0 + np.arange(data.rows) % 3
    data = data.changed(weight=weight)
    said, observer = [], job.Observer()
    observer.loss, observer.every = lambda *figures: said.append(figures), 5
    spec = make_spec("linear", "sgd", "squared", {"epochs": 1, "shuffle": False, "learning_rate": 1e-12, "l2": 0.0})
    trained = job.train(job.plan(data, spec), observer=observer)
    assert [rows for _, rows, _ in said] == list(range(5, data.rows + 1, 5))
    start = data.label - np.average(data.label, weights=weight)
    for _, rows, loss in said[:50]:
        np.testing.assert_allclose(loss, np.average(start[:rows] ** 2 / 2, weights=weight[:rows]), rtol=1e-4)
    assert said[-1][2] == trained.epochs[0].loss


def test_many_rows_are_measured_on_random_ones(monkeypatch):
    """Groups stay whole."""
    monkeypatch.setattr(validation, "MOST_MEASURED", 40)
    rows = 400
    label = np.arange(rows, dtype=np.float64)
    data = dataset([{row % 3: 1.0} for row in range(rows)], 3, label.tolist())
    trained = job.train(job.plan(data, make_spec("linear", None, "squared", {"epochs": 1})))
    measured = trained.plan.measured
    assert 30 < len(measured) <= 40
    assert (np.diff(measured) > 0).all()
    assert label[measured].mean() == pytest.approx(label.mean(), rel=0.3)
    np.testing.assert_array_equal(trained.outcome.label, label[measured])
    assert job.summary(trained)["train_rows"] == len(measured)
    memory = need_of(trained.plan).total
    grouped = job.plan(data.changed(group=np.arange(rows, dtype=np.int32) // 4), trained.plan.spec)
    assert len(grouped.measured) == len(grouped.rows)
    assert memory < need_of(grouped).total


def test_the_best_epoch_is_kept_once():
    """The copy of a better one takes the memory of the one before."""
    model = settings.make_model(make_spec("fm", "ftrl", "squared", {"rank": 2}), 3, 1, 0)
    model.allocate(2)
    validation = SimpleNamespace(
        measure=lambda model: {"auc": 0.5}, chooser="auc", better=lambda new, old: True, patience=1
    )
    best = BestEpoch(validation, model, SimpleNamespace(updates=0, resume=lambda updates: None), last=4)
    kept = []
    for number in (1, 2, 3):
        for array in model.live():
            array[...] = number
        best.evaluate(number)
        kept.append(best.progress())
        assert best.number == number
    names = [name for name in kept[0] if name.startswith("snapshot")]
    assert names
    for name in names:
        assert kept[0][name] is kept[2][name]
        assert (kept[2][name] == 3).all()
    for array in model.live():
        array[...] = 4
    assert best.restore() == 3
    assert all((array == 3).all() for array in model.live())
    best.evaluate(4)  # of the last epoch there is none, because the model stays as it is
    assert not [name for name in best.progress() if name.startswith("snapshot")]


def test_a_copy_whose_arrays_have_grown_has_other_memory():
    """An llfm has marks of its rows only once it has start values."""
    model = settings.make_model(make_spec("llfm", "adagrad", "squared", {"rank": 2}), 3, 1, 0)
    model.allocate(1)
    before = model.snapshot()
    model.start(np.ones(3, dtype=np.bool_), 0.1, np.random.default_rng(0))
    after = model.snapshot(True, before)
    assert [array.shape for array in after] == [array.shape for array in model.live()]
    same = [old is new for old, new in zip(before, after, strict=True)]
    assert True in same
    assert same == [old.shape == new.shape for old, new in zip(before, after, strict=True)]
    for new, live in zip(after, model.live(), strict=True):
        np.testing.assert_array_equal(new, live)


# ---- The state in model files ----


def test_a_state_of_256_mib_is_kept_by_default():
    """An fm of rank 8 has 9 numbers of 4 or 8 bytes for each feature, and a bias."""
    number, most = REAL_TYPE.itemsize, 2**28
    spec = make_spec("fm", "ftrl", "squared", {"rank": 8})

    def kept(features, asked=None):
        model = settings.make_model(spec, features, 1, 0)
        return settings.Settings.of(spec, keep_state=asked).may_keep_state(spec, model, 2)

    features = (most // number // 2 - 1) // 9
    assert (kept(features), kept(features + 1)) == (True, False)
    assert (kept(features, False), kept(features + 1, True)) == (False, True)
    cd = make_spec("fm", "cd", "squared", {"rank": 8})
    assert not settings.Settings(cd).may_keep_state(cd, settings.make_model(cd, 2, 1, 0), 0)


def test_the_copy_of_the_best_epoch_has_the_state_that_the_file_has(monkeypatch):
    """It has none if the model was asked to leave it out, or if it is too large, and then needs so much less memory."""
    copies, needed = [], []
    monkeypatch.setattr(job, "BestEpoch", lambda *arguments: copies.append(arguments[-1]) or BestEpoch(*arguments))
    rows = [dict.fromkeys(range(row, 8000, 40), 0.1) for row in range(40)]  # more of the model than of these
    data = dataset(rows, 8000, np.arange(40.0))
    for asked, largest in ((None, 2**28), (False, 2**28), (None, 0)):
        monkeypatch.setattr(settings, "LARGEST_STATE", largest)
        trained = train(data, solver="ftrl", epochs=1, plan={"holdout": 0.2, "keep_state": asked, "refit": False})
        needed.append(need_of(trained.plan).total)
        assert saving.keeps_state(trained) == (not copies[1:])
    assert copies == [True, False, False]
    assert needed[0] - 0.8 * settings.state_bytes(trained.plan.model, 2) > needed[1] == needed[2]
