"""fmcli from Python: rows of every kind, models, callbacks, interrupts, errors."""

import logging
import os
import pickle
import re
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import combinations

import numpy as np
import pytest
from scipy import sparse

import fmcli
from fmcli.api.parameters import PARAMETERS
from fmcli.errors import BadInputError, DivergedError, FmcliError

ROWS, COLUMNS = 400, 12


def planted(rows=ROWS, seed=0):
    """Return a sparse matrix of few digits, and labels of a factorization machine without linear weights."""
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 3, (rows, COLUMNS)) * (rng.random((rows, COLUMNS)) < 0.4) / 2
    V = np.random.default_rng(9).normal(size=(COLUMNS, 2))
    return X, ((X @ V) ** 2 - X**2 @ V**2).sum(axis=1) / 2


X, Y = planted()
QUICK = {"epochs": 3, "holdout": 0, "quick_search": False}


@pytest.fixture(scope="module")
def model():
    return fmcli.train((X, Y), rank=2, seed=1, epochs=100)


@pytest.mark.parametrize(
    "form",
    [
        sparse.csr_array,
        sparse.csc_array,
        sparse.coo_matrix,
        lambda X: sparse.csr_matrix(X.astype(np.float32)),
        lambda X: sparse.csr_array(X).astype(np.float64),
        np.asfortranarray,
        lambda X: X.astype(np.float32),
        lambda X: X.tolist(),
        lambda X: [{int(j): row[j] for j in np.flatnonzero(row)} for row in X],
        lambda X: [{str(j): row[j] for j in range(COLUMNS)} for row in X],
    ],
)
def test_every_form_of_the_same_rows_trains_the_same_model(form):
    expected = fmcli.train((X, Y), **QUICK).predict(X)
    given = form(X)
    np.testing.assert_array_equal(fmcli.train((given, Y), **QUICK).predict(given), expected)


def test_unsorted_rows_with_duplicates_and_zeros_are_summed_and_not_changed():
    unsorted = sparse.csr_array(
        (np.array([1.0, 2.0, 0.0, 4.0, 1.0]), np.array([3, 1, 2, 3, 0]), np.array([0, 4, 5])), shape=(2, 5)
    )
    before = unsorted.data.copy(), unsorted.indices.copy()
    data = fmcli.Data(unsorted, [1, 2])
    assert data.nonzeros == 3
    assert data.dataset.index.tolist() == [1, 3, 0]
    assert data.dataset.value.tolist() == [2, 5, 1]
    np.testing.assert_array_equal(unsorted.data, before[0])
    np.testing.assert_array_equal(unsorted.indices, before[1])


def damaged(form, array, at, value):
    matrix = form(sparse.csr_array(X))
    getattr(matrix, array)[at] = value
    return matrix


def cut_short(form, array):
    matrix = form(sparse.csr_array(X))
    setattr(matrix, array, getattr(matrix, array)[:4])
    return matrix


COMPRESSED, TRIPLES = (sparse.csr_array, sparse.csc_array, sparse.bsr_array), (sparse.coo_array, sparse.coo_matrix)
DAMAGED = [
    *((damaged, form, "indptr", at, value) for form in COMPRESSED for at, value in ((5, 10**8), (5, -3), (-1, 10**6))),
    *((damaged, form, "indices", 5, value) for form in COMPRESSED for value in (10**8, -1)),
    *((damaged, form, array, 5, value) for form in TRIPLES for array in ("row", "col") for value in (10**8, -1)),
    *((cut_short, form, array) for form in COMPRESSED for array in ("indptr", "data")),
    *((cut_short, form, "data") for form in TRIPLES),
    (damaged, sparse.lil_array, "rows", 3, [10**8] * 4),
]


@pytest.mark.parametrize("case", DAMAGED, ids=lambda case: " ".join(map(str, case[2:])))
def test_a_damaged_sparse_matrix_is_refused(case):
    change, *arguments = case
    with pytest.raises(ValueError, match="X is a damaged sparse matrix"):
        fmcli.Data(change(*arguments), Y)


@pytest.mark.parametrize("occurring", [24, 25])
def test_a_wide_matrix_has_a_dictionary_if_its_text_has_one(occurring, tmp_path):
    """The largest index exceeds 2**20 by 4 times 24.75."""
    index = np.append(np.arange(occurring - 1), 2**20 + 99).astype(np.int32)
    matrix = sparse.csr_array((np.ones(occurring, np.float32), index, np.array([0, 2, occurring])))
    (tmp_path / "rows").write_text("".join(f"1{''.join(f' {j}:1' for j in row)}\n" for row in (index[:2], index[2:])))
    of_matrix, of_text = fmcli.Data(matrix, [1, 1]).dataset, fmcli.read(tmp_path / "rows").dataset
    assert (of_matrix.numbering is None) == (of_text.numbering is None) == (occurring == 25)
    assert of_matrix.features == of_text.features
    np.testing.assert_array_equal(of_matrix.index, of_text.index)


def test_canonical_float32_is_not_copied_and_cannot_be_written_to():
    canonical = sparse.csr_array(X.astype(np.float32))
    data = fmcli.Data(canonical, Y)
    assert np.shares_memory(data.dataset.value, canonical.data)
    assert np.shares_memory(data.dataset.index, canonical.indices)
    assert not data.dataset.value.flags.writeable
    before = canonical.copy()
    fmcli.train(data, model="sha2", scale="standard", norm=True, **QUICK)
    np.testing.assert_array_equal(canonical.data, before.data)


def test_predictions_are_those_of_the_parameters(model):
    w, V, bias = (model.parameters[name][0] for name in ("w", "V", "bias"))
    low, high = model.parameters["bias"].dtype.type(min(Y)), max(Y)
    for row, predicted in zip(X[:20], model.predict(X[:20], "raw"), strict=True):
        pairs = sum(V[i] @ V[j] * row[i] * row[j] for i, j in combinations(range(COLUMNS), 2))
        assert predicted == pytest.approx(bias + w @ row + pairs, rel=1e-4, abs=1e-4)
    assert (model.predict(X) >= low).all()
    assert (model.predict(X) <= high).all()


def test_fields_that_a_model_does_not_need_are_left_out():
    centered = fmcli.train((X, Y), scale="zscore", **QUICK)
    np.testing.assert_array_equal(centered.predict(X, fields=[0, 1] * (COLUMNS // 2)), centered.predict(X))


def test_factors_of_rows_are_sums_of_those_of_features(model):
    np.testing.assert_allclose(model.factors(X), X @ model.parameters["V"][0], rtol=1e-5, atol=1e-6)
    with pytest.raises(ValueError, match="is of kind linear with 1 draws"):
        fmcli.train((X, Y), model="linear", **QUICK).factors(X)


def test_a_pickled_and_a_saved_model_predict_the_same_bits(model, tmp_path):
    expected = model.predict(X)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict(X), expected)
    assert pickle.loads(pickle.dumps(model)).history == model.history
    model.save(tmp_path / "m.fm")
    loaded = fmcli.load(tmp_path / "m.fm")
    np.testing.assert_array_equal(loaded.predict(X), expected)
    assert (loaded.kind, loaded.solver, loaded.loss, loaded.labels) == ("fm", "adagrad", "squared", None)
    assert loaded.options["rank"] == 2
    assert loaded.summary["rows"] == model.summary["rows"]


def test_exports_are_those_of_the_arrays(model, tmp_path):
    model.export(tmp_path / "m.npz")
    with np.load(tmp_path / "m.npz") as arrays:
        assert arrays.keys() == model.parameters.keys()
        np.testing.assert_array_equal(arrays["V"], model.parameters["V"].astype(np.float64))
    model.export(tmp_path / "m.txt")
    assert (tmp_path / "m.txt").read_text().startswith("fmcli-text 1\n")


def test_class_weights_shift_probabilities():
    labels = (np.quantile(Y, 0.9) < Y).astype(int)
    plain, balanced = (fmcli.train((X, labels), class_weight=one, **QUICK) for one in (None, "balanced"))
    assert balanced.predict(X).mean() > 1.5 * plain.predict(X).mean()
    np.testing.assert_array_equal(
        fmcli.train((X, labels), class_weight={0: 2.0, 1: 3}, **QUICK).predict(X),
        fmcli.train(fmcli.Data(X, labels, weight=labels + 2), **QUICK).predict(X),
    )


def test_draws_have_a_spread():
    model = fmcli.train((X, Y), solver="mcmc", epochs=30, seed=2)
    mean, std = model.predict(X, std=True)
    np.testing.assert_array_equal(mean, model.predict(X))
    assert (std > 0).all()
    with pytest.raises(ValueError, match="std needs a model of several draws"):
        fmcli.train((X, Y), **QUICK).predict(X, std=True)


def test_callbacks_see_each_epoch_and_end_training():
    seen = []
    callbacks = [lambda epoch: seen.append(epoch.number), lambda epoch: epoch.number == 4]
    model = fmcli.train((X, Y), quick_search=False, callbacks=callbacks)
    assert seen == [1, 2, 3, 4]
    assert [one["epoch"] for one in model.history] == seen
    assert model.history[0].keys() == {"epoch", "loss", "penalty", "objective", "valid_rmse", "valid_mae", "seconds"}


def test_callbacks_see_the_epochs_of_the_members_of_an_ensemble():
    seen, options = [], {**QUICK, "ensemble": 3, "metrics": "mae"}

    def stop(epoch):
        seen.append((epoch.member, epoch.number))
        return epoch.member == 2

    model = fmcli.train((X, Y), **options, callbacks=stop)
    expected = [(member, epoch) for member in (1, 2, 3) for epoch in range(1, 2 if member == 2 else 4)]
    assert sorted(seen) == expected
    assert [(one["member"], one["epoch"]) for one in model.history] == expected
    alone = fmcli.train((X, Y), **{**options, "ensemble": 1, "seed": 2})
    figures = ("epoch", "loss", "penalty", "objective")
    assert [[one[name] for name in figures] for one in alone.history] == [
        [one[name] for name in figures] for one in model.history if one["member"] == 3
    ]


def test_callbacks_do_not_see_the_refit_of_a_member():
    seen = []
    model = fmcli.train((X, Y), ensemble=2, epochs=2, quick_search=False, refit=True, callbacks=seen.append)
    assert sorted((epoch.member, epoch.number) for epoch in seen) == [(1, 1), (1, 2), (2, 1), (2, 2)]
    assert len(model.history) == 4


@pytest.fixture
def interruptible():
    """Interrupts raise KeyboardInterrupt, also where the tests run in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_ends_training_with_the_best_model():
    def interrupt(epoch):
        if epoch.number == 3:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.warns(UserWarning, match="training was interrupted"):
        model = fmcli.train((X, Y), epochs=100_000, patience=100_000, quick_search=False, callbacks=[interrupt])
    assert 3 <= len(model.history) <= 4
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert np.isfinite(model.predict(X)).all()


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_ends_the_training_of_all_members():
    def interrupt(epoch):
        if (epoch.member, epoch.number) == (1, 2):
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.warns(UserWarning, match="training was interrupted"):
        model = fmcli.train(
            (X, Y), ensemble=2, epochs=100_000, patience=100_000, callbacks=interrupt, quick_search=False
        )
    assert {one["member"] for one in model.history} == {1, 2}
    assert np.isfinite(model.predict(X)).all()


@pytest.mark.usefixtures("interruptible")
def test_a_second_interrupt_is_raised():
    def interrupt(epoch):
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        fmcli.train((X, Y), quick_search=False, callbacks=[interrupt])
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_in_another_thread_is_not_taken_over():
    handlers = []
    options = {**QUICK, "callbacks": [lambda _: handlers.append(signal.getsignal(signal.SIGINT))]}
    thread = threading.Thread(target=lambda: fmcli.train((X, Y), **options))
    thread.start()
    thread.join()
    assert set(handlers) == {signal.default_int_handler}


def test_threads_train_at_the_same_time_and_the_result_does_not_depend_on_them():
    expected = [fmcli.train((X, Y), seed=seed, **QUICK).predict(X) for seed in range(4)]
    with ThreadPoolExecutor(4) as pool:
        at_once = list(pool.map(lambda seed: fmcli.train((X, Y), seed=seed, threads=2, **QUICK).predict(X), range(4)))
    np.testing.assert_array_equal(at_once, expected)


def test_a_run_resumes_from_a_model_and_from_its_file(model, tmp_path):
    model.save(tmp_path / "m.fm")
    options = {"init_model": model, "epochs": 2, "holdout": 0}
    resumed = fmcli.train((X, Y), **options)
    assert len(resumed.history) == 2
    assert resumed.history[0]["loss"] < 0.1 * model.history[0]["loss"]
    assert resumed.summary["epochs"] > 2
    of_file = fmcli.train((X, Y), **{**options, "init_model": tmp_path / "m.fm"})
    np.testing.assert_array_equal(of_file.predict(X), resumed.predict(X))


@pytest.mark.parametrize("unit", [1, 1e-3, 1e6])
def test_the_metrics_of_an_ensemble_are_in_the_unit_of_the_labels(unit):
    valid = X[300:], unit * Y[300:]
    model = fmcli.train((X[:300], unit * Y[:300]), valid=valid, ensemble=3, rank=2, epochs=20)
    rmse = np.sqrt(np.mean((model.predict(valid[0]) - valid[1]) ** 2))
    assert model.summary["valid"]["rmse"] == pytest.approx(rmse, rel=1e-5)
    assert rmse < 0.5 * np.std(valid[1])


def test_the_last_rows_are_held_out():
    model = fmcli.train((X, Y), holdout="last:0.25", refit=False, epochs=5, quick_search=False)
    first = fmcli.train((X[:300], Y[:300]), valid=(X[300:], Y[300:]), epochs=5, quick_search=False)
    assert [one["valid_rmse"] for one in model.history] == [one["valid_rmse"] for one in first.history]


def test_progress_is_logged_and_nothing_is_printed(caplog, capfd):
    with caplog.at_level(logging.INFO, "fmcli"):
        fmcli.train((X, Y), **QUICK)
    assert [record.message[:8] for record in caplog.records][:3] == ["epoch 1:", "epoch 2:", "epoch 3:"]
    logging.getLogger("fmcli").setLevel(logging.NOTSET)
    assert capfd.readouterr() == ("", "")


def test_the_type_of_every_argument_is_described():
    for name in PARAMETERS:
        assert f"\n    {name} : " in fmcli.train.__doc__


NAN = np.where(np.arange(X.size).reshape(X.shape) == 5, np.nan, X)
WRONG = {
    "X has a value that is not a number": lambda: fmcli.train((NAN, Y)),
    r"X has the value 1e\+39, but values must be finite": lambda: fmcli.train((X + 1e39, Y)),
    "X has 1 dimensions, expected 2": lambda: fmcli.train((Y, Y)),
    "y has 399 values": lambda: fmcli.train((X, Y[1:])),
    "y has the label nan": lambda: fmcli.train((X, np.full(ROWS, np.nan))),
    "weight has a number that is negative": lambda: fmcli.Data(X, Y, weight=-np.ones(ROWS)),
    "the sum of the weights must be positive": lambda: fmcli.Data(X, Y, weight=np.zeros(ROWS)),
    "X has 12 columns, but fields has 3 numbers": lambda: fmcli.Data(X, Y, fields=[0, 1, 2]),
    "ffm needs fields": lambda: fmcli.train((X, Y), model="ffm"),
    "X has the type <U1, not numbers": lambda: fmcli.Data(np.full((2, 2), "a"), [1, 2]),
    r"X\[1\] is of the type int": lambda: fmcli.Data([{"a": 1}, 3], [1, 2]),
    r"X\[0\] has the key 1.5": lambda: fmcli.Data([{1.5: 1}], [1]),
    r"X\[0\] has the feature 1 twice": lambda: fmcli.Data([{1: 1, "1": 1}], [1]),
    "there is no option 'rnk'; did you mean rank": lambda: fmcli.train((X, Y), rnk=3),
    "rank is 0; it must be": lambda: fmcli.train((X, Y), rank=0),
    "there is no model 'fmm'": lambda: fmcli.train((X, Y), model="fmm"),
    "every label is 1.*fmcli negatives adds": lambda: fmcli.train((X, np.ones(ROWS)), loss="logistic"),
    "holdout: '1.5' is not a share in the range 0<=x<1": lambda: fmcli.train((X, Y), holdout=1.5),
    "holdout: 'first:0.1' has none of the forms": lambda: fmcli.train((X, Y), holdout="first:0.1"),
    "valid and holdout cannot be combined": lambda: fmcli.train((X, Y), valid=(X, Y), holdout=0.1),
    r"data must be \(X, y\)": lambda: fmcli.train(X),
    "loss bpr needs group": lambda: fmcli.train((X, Y), loss="bpr"),
    "class_weight is 'equal'": lambda: fmcli.train((X, Y), class_weight="equal"),
    "there are no rows": lambda: fmcli.train((X[:0], Y[:0])),
    "metric 'rsme'": lambda: fmcli.train((X, Y), metrics=["rsme"]),
    "rank is '4'; it must be an integer": lambda: fmcli.train((X, Y), rank="4"),
    "rank is 4.5; it must be an integer": lambda: fmcli.train((X, Y), rank=4.5),
    "learning_rate is 'abc'; it must be a number": lambda: fmcli.train((X, Y), learning_rate="abc"),
    "bias is 'no'; it must be True or False": lambda: fmcli.train((X, Y), bias="no"),
    "patience is '3'; it must be an integer": lambda: fmcli.train((X, Y), patience="3"),
    "metrics is 7; it must be a name, or a list": lambda: fmcli.train((X, Y), metrics=7),
    "the weight of 0 is 'a'; it must be a number": lambda: fmcli.train((X, Y), class_weight={0: "a"}),
    "the weight of 0 in class_weight is -1.0": lambda: fmcli.train((X, Y), class_weight={0: -1}),
    "memory is [-i][n5][f.]0*; it must be > 0": lambda: fmcli.train((X, Y), cache="c", memory=np.inf),
    "trials is '5'; it must be an integer": lambda: fmcli.tune((X, Y), trials="5"),
    "there is no option 'n_factors'; did you mean rank": lambda: fmcli.train((X, Y), n_factors=3),
    "'max_iter'; did you mean epochs": lambda: fmcli.train((X, Y), max_iter=3),
    "'n_jobs'; did you mean threads": lambda: fmcli.tune((X, Y), n_jobs=3),
    "'reg_lambda'; did you mean l2": lambda: fmcli.train((X, Y), reg_lambda=3),
    "'lr'; did you mean learning_rate": lambda: fmcli.train((X, Y), lr=3),
    "'sample_weight'; did you mean the weight of": lambda: fmcli.train((X, Y), sample_weight=Y),
    "there is no metric 'roc_auc'; did you mean auc": lambda: fmcli.train((X, Y), metrics="roc_auc"),
    "there is no loss 'mse'; did you mean squared": lambda: fmcli.train((X, Y), loss="mse"),
    r"one argument, a pair: fmcli.train\(\(X, y\)\)": lambda: fmcli.train(X, Y),
    "min_count and init_model cannot be combined": lambda: fmcli.train(
        (X, Y), min_count=2, init_model=fmcli.train((X, Y), **QUICK)
    ),
    "rare needs min_count": lambda: fmcli.train((X, Y), rare="share"),
    "group_field is for ranking": lambda: fmcli.train((X, Y), group_field="user"),
    "X has complex numbers": lambda: fmcli.train((X + 1j, Y)),
    "X has times": lambda: fmcli.train((X.astype("datetime64[s]"), Y)),
    "y has complex numbers": lambda: fmcli.train((X, Y + 1j)),
}


@pytest.mark.parametrize("message", WRONG)
def test_wrong_calls_are_value_errors(message):
    with pytest.raises(ValueError, match=message) as caught:
        WRONG[message]()
    assert isinstance(caught.value, FmcliError)
    assert not re.search(r"(^| )--?[a-z]", str(caught.value))  # flags of the command


def test_scalars_of_numpy_are_the_numbers_of_options(tmp_path):
    """A model file and a log have numbers of Python."""
    options = {"rank": 3, "learning_rate": 0.25, "epochs": 2, "seed": 5, "bias": False, "patience": 1, "threads": 1}
    names = {"metrics": ("rmse", "mae"), "holdout": 0.25}
    fmcli.train((X, Y), **options, **names).save(tmp_path / "one.fm")
    scalars = {name: np.array(value)[()] for name, value in options.items()}
    names = {"metrics": np.array(["rmse", "mae"]), "holdout": np.float32(0.25)}
    fmcli.train((X, Y), **scalars, **names).save(tmp_path / "two.fm")
    assert (tmp_path / "one.fm").read_bytes() == (tmp_path / "two.fm").read_bytes()
    of_degrees = fmcli.train((X, Y), model="hofm", order=np.int64(3), rank=np.array([3, 2]), epochs=1)
    assert of_degrees.options["rank"] == [3, 2]


def test_a_text_is_one_name_and_a_callable_one_callback():
    seen = []
    model = fmcli.train((X, Y), metrics="mae", epochs=2, callbacks=seen.append)
    assert len(seen) == len(model.history) == 2
    assert "valid_mae" in model.history[0]
    assert model.evaluate((X, Y), "rmse").keys() == {"rmse"}


@pytest.mark.parametrize("path", [b"m.fm", 3, ["m.fm"]])
def test_the_name_of_a_file_is_a_text_or_a_path(model, path):
    for call in (model.save, model.export, fmcli.load, fmcli.import_model):
        with pytest.raises(ValueError, match=r"path is .*; it must be the name of a file, as a text or a path"):
            call(path)


def test_other_errors_are_built_in_ones_too(model, tmp_path):
    with pytest.raises(FileNotFoundError, match="No such file"):
        fmcli.train(tmp_path / "missing.libsvm")
    with pytest.raises(FileNotFoundError):
        fmcli.load(tmp_path / "missing.fm")
    with pytest.raises(OSError, match="its folder does not exist"):
        model.save(tmp_path / "missing" / "m.fm")
    (tmp_path / "t.txt").write_text("1 1:1\n1 a:b\n")
    with pytest.raises(ValueError, match=r"t\.txt:2:3"):
        fmcli.train(tmp_path / "t.txt")
    with pytest.raises(MemoryError, match="needs"):
        fmcli.train((sparse.eye_array(400_000, format="csr"), np.arange(400_000)), rank=60_000, epochs=1)
    with pytest.raises(DivergedError):
        fmcli.train((X * 1e6, Y), solver="sgd", learning_rate=1e3, epochs=3, holdout=0)


def test_wrong_rows_of_a_prediction(model):
    with pytest.raises(ValueError, match="a model with squared loss has no probabilities"):
        model.predict(X, "prob")
    with pytest.raises(ValueError, match="output is 'mean'"):
        model.predict(X, "mean")
    with pytest.raises(ValueError, match="data has no labels"):
        model.evaluate(fmcli.Data(X))


def test_importing_the_package_loads_nothing(tmp_path):
    code = "import sys, fmcli; sys.exit(sorted({'numpy', 'scipy', 'sklearn', 'click'} & sys.modules.keys()) or None)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, timeout=60)
    assert done.returncode == 0, done.stderr


def test_names_that_do_not_exist():
    with pytest.raises(AttributeError, match="no attribute 'trian'"):
        fmcli.trian  # noqa: B018
    assert {"train", "load", "read", "Data", "Model"} <= set(dir(fmcli))


@pytest.mark.parametrize(
    "fields", [[0, 2**31 - 1], [0, 2**32], [0, 2**63], [0, 2**70], np.array([1, 2**63], np.uint64)]
)
def test_fields_that_do_not_fit_are_refused(fields):
    """They would belong to other columns."""
    X, y, message = np.eye(4)[:, :2], [0, 1, 0, 1], r"fields needs integers from 0 to 2147483646"
    with pytest.raises(BadInputError, match=message):
        fmcli.Data(X, y, fields=fields)
    model = fmcli.train(fmcli.Data(X, y, fields=[0, 2**31 - 2]), model="fm", epochs=1, holdout=0)
    with pytest.raises(BadInputError, match=message):
        model.predict(X, fields=fields)


@pytest.mark.parametrize("solver", ["cd", "adagrad"])
def test_an_epoch_of_few_rows_makes_few_calls_of_python_functions(solver):
    """The calls take longer than the rows: what does not change from epoch to epoch is computed once."""
    options = {"holdout": 0.2, "quick_search": False, "refit": False, "patience": 100, "threads": 1}

    def counted(epochs):
        events = []
        sys.setprofile(lambda frame, event, argument: events.append(event))
        try:
            model = fmcli.train((X, Y), solver=solver, epochs=epochs, **options)
        finally:
            sys.setprofile(None)
        return events.count("call"), len(model.history)

    counted(1)  # imports modules
    (first, few), (second, many) = counted(2), counted(12)
    assert many > few
    assert (second - first) / (many - few) < 100
