"""The estimators of scikit-learn: its own checks, its tools, and equality with fmcli.train and the command."""

import inspect
import pickle
import re
import warnings

import numpy as np
import pytest
from inprocess import run_here
from joblib import parallel_backend
from scipy import sparse
from sklearn import config_context
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import VotingRegressor
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV, cross_val_score, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.utils.estimator_checks import check_estimator

import fmcli
from fmcli.api.keywords import Keywords, Parameters
from fmcli.api.parameters import OF_ROWS, RENAMED
from fmcli.registry.options import OPTIONS
from fmcli.sklearn import FMClassifier, FMFeatures, FMRanker, FMRegressor, expected_failed_checks

ESTIMATORS = [
    FMClassifier(epochs=20, quick_search=False),
    FMRegressor(epochs=20, quick_search=False),
    FMRanker(epochs=4, quick_search=False),
    FMFeatures(epochs=3, quick_search=False),
    FMRegressor(solver="mcmc", epochs=3, quick_search=False),
]
ROWS, COLUMNS = 300, 10


def planted(rows=ROWS, seed=0):
    """Return rows and scores of a factorization machine without linear weights."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, COLUMNS)).astype(np.float32)
    V = np.random.default_rng(9).normal(size=(COLUMNS, 2))
    return X, ((X @ V) ** 2 - X**2 @ V**2).sum(axis=1) / 2


X, Y = planted()
CLASS = np.where(np.median(Y) < Y, 7, 3)
QUICK = {"epochs": 5, "holdout": 0, "quick_search": False, "random_state": 1}


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=repr)
def test_the_checks_of_scikit_learn(estimator):
    expected = expected_failed_checks(estimator)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = check_estimator(estimator, on_fail=None, on_skip=None, expected_failed_checks=expected)
    assert len(results) > 40
    assert not {one["check_name"]: one["exception"] for one in results if one["status"] == "failed"}
    if estimator.solver is None:  # others fail some of them
        assert expected.keys() == {one["check_name"] for one in results if one["status"] == "xfail"}


def test_a_planted_model_is_learned():
    held_out, expected = planted(seed=3)
    estimators = FMRegressor(rank=2, epochs=200, quick_search=False), FMRegressor(model="linear", quick_search=False)
    errors = [np.mean((one.fit(X, Y).predict(held_out) - expected) ** 2) for one in estimators]
    assert errors[0] < 0.3 * errors[1]
    classifier = FMClassifier(rank=2, quick_search=False).fit(X, CLASS)
    assert classifier.score(held_out, np.where(expected > np.median(Y), 7, 3)) > 0.85


def test_fits_are_those_of_train():
    estimator = FMRegressor(model="sha2", rank=3, random_state=4, epochs=6).fit(X, Y)
    model = fmcli.train((X, Y), model="sha2", rank=3, seed=4, epochs=6, loss="squared")
    np.testing.assert_array_equal(estimator.predict(X), model.predict(X))
    assert [one["loss"] for one in estimator.history_] == [one["loss"] for one in model.history]


@pytest.mark.parametrize("solver", ["adagrad", "ftrl"])
def test_partial_fit_is_the_commands_resumed_epoch(solver, tmp_path):
    """Every call is `train -i MODEL --keep-state -e 1` to the bit."""
    estimator, path, labels = FMClassifier(solver=solver, random_state=3), tmp_path / "m.fm", CLASS == 7
    for turn, rows in enumerate(np.array_split(np.arange(ROWS), 2)):
        lines = [f"{int(labels[row])} " + " ".join(f"{j}:{float(x)!r}" for j, x in enumerate(X[row])) for row in rows]
        (tmp_path / "t.libsvm").write_text("\n".join(lines) + "\n")
        resumed = ["-i", path] if turn else ["-s", solver, "--seed", "3"]
        run_here(["train", *resumed, "--keep-state", "-e", "1", "-o", path, "t.libsvm"], tmp_path).check_returncode()
        estimator.partial_fit(X[rows], labels[rows].astype(int), classes=[0, 1])
    np.testing.assert_array_equal(estimator.decision_function(X), fmcli.load(path).predict(X, "raw"))


def test_partial_fit_knows_classes_that_have_not_occurred_yet():
    three = np.array(["a", "b", "c"])[np.arange(ROWS) % 3]
    estimator = FMClassifier().partial_fit(X[:3], three[:3], classes=["a", "b", "c"])
    estimator.partial_fit(X[:2], three[:2])
    assert estimator.predict_proba(X).shape == (ROWS, 3)
    with pytest.raises(ValueError, match="label 'd', which is not one of the classes"):
        estimator.partial_fit(X[:1], ["d"])
    with pytest.raises(ValueError, match="needs classes"):
        FMClassifier().partial_fit(X, three)
    assert not hasattr(FMClassifier(solver="cd"), "partial_fit")
    assert not hasattr(FMRegressor(solver="mcmc"), "partial_fit")


@pytest.mark.parametrize("labels", [[3, 7], [-1.0, 2.0], ["no", "yes"], [False, True], ["a", "b", "c"], [1, 2, 5]])
def test_classes_come_back_in_their_type(labels):
    y = np.array(labels)[np.digitize(Y, np.quantile(Y, np.linspace(0, 1, len(labels) + 1)[1:-1]))]
    estimator = FMClassifier(**QUICK).fit(X, y)
    np.testing.assert_array_equal(estimator.classes_, np.unique(y))
    predicted, probability = estimator.predict(X), estimator.predict_proba(X)
    assert predicted.dtype == np.asarray(labels).dtype
    np.testing.assert_allclose(probability.sum(axis=1), 1)
    np.testing.assert_array_equal(predicted, estimator.classes_[probability.argmax(axis=1)])
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(estimator)).predict(X), predicted)


def test_a_loss_without_probabilities_has_no_predict_proba():
    estimator = FMClassifier(loss="hinge", **QUICK).fit(X, CLASS)
    assert not hasattr(estimator, "predict_proba")
    np.testing.assert_array_equal(estimator.predict(X) == 7, estimator.decision_function(X) > 0)
    with pytest.raises(ValueError, match="use FMRegressor"):
        FMClassifier(loss="poisson").fit(X, CLASS)


def test_evaluation_sets_choose_the_epoch():
    pairs = [(X[200:250], Y[200:250]), (X[250:], Y[250:])]
    options = {"epochs": 8, "quick_search": False, "random_state": 2}
    several = FMRegressor(**options).fit(X[:200], Y[:200], eval_set=pairs)
    one = FMRegressor(**options).fit(X[:200], Y[:200], eval_set=(X[200:], Y[200:]))
    assert [epoch["valid_rmse"] for epoch in several.history_] == [epoch["valid_rmse"] for epoch in one.history_]
    with pytest.raises(ValueError, match="eval_set must be a pair"):
        FMRegressor().fit(X, Y, eval_set=X)


def test_tools_of_scikit_learn_take_the_estimators():
    categories = np.random.default_rng(0).integers(0, 4, (ROWS, 3)).astype(str)
    pipeline = make_pipeline(OneHotEncoder(), FMClassifier(**QUICK))
    with parallel_backend("threading"):  # processes would import all this again
        search = GridSearchCV(pipeline, {"fmclassifier__rank": [2, 4]}, cv=2, n_jobs=2).fit(categories, CLASS)
    assert search.best_params_["fmclassifier__rank"] in (2, 4)
    assert cross_val_score(FMRegressor(**QUICK), X, Y, cv=3).shape == (3,)
    calibrated = CalibratedClassifierCV(FMClassifier(loss="hinge", **QUICK), cv=2).fit(X, CLASS)
    np.testing.assert_allclose(calibrated.predict_proba(X).sum(axis=1), 1)
    voting = VotingRegressor([("fm", FMRegressor(**QUICK)), ("ridge", Ridge())]).fit(X, Y)
    assert voting.predict(X).shape == (ROWS,)


def test_factors_are_features_of_other_estimators():
    pipeline = make_pipeline(FMFeatures(rank=3, **QUICK), Ridge()).fit(X, Y)
    features = pipeline[0]
    np.testing.assert_allclose(features.transform(X), X.astype(float) @ features.V_, rtol=1e-5)
    assert list(features.get_feature_names_out()) == ["fmfeatures0", "fmfeatures1", "fmfeatures2"]


def test_the_ranker_orders_rows_within_groups():
    query = np.arange(ROWS) // 10
    ranker = FMRanker(rank=2, random_state=1, epochs=40).fit(X, np.round(Y), qid=query)
    constant = FMRanker(rank=2, epochs=0, holdout=0, init_std=0.0).fit(X, np.round(Y), qid=query)
    test_rows, relevance = planted(seed=4)
    assert ranker.score(test_rows, np.round(relevance), qid=query) > constant.score(
        test_rows, np.round(relevance), qid=query
    )
    assert ranker.predict(X).shape == (ROWS,)


def test_standard_deviations_and_arrays_by_name():
    estimator = FMRegressor(solver="mcmc", epochs=20, rank=3).fit(X, Y)
    mean, std = estimator.predict(X, return_std=True)
    np.testing.assert_array_equal(mean, estimator.predict(X))
    assert (std > 0).all()
    assert (estimator.w_.shape, estimator.V_.shape) == ((COLUMNS,), (COLUMNS, 3))
    with pytest.raises(AttributeError, match="no attribute 'P_'"):
        estimator.P_  # noqa: B018


def test_dicts_and_fields():
    rows = [{"user": f"u{i % 7}", "item": f"i{i % 5}", "price": float(i % 3)} for i in range(60)]
    estimator = FMRegressor(**QUICK).fit(rows, np.arange(60) % 7)
    assert estimator.predict(rows[:3]).shape == (3,)
    fields = np.arange(COLUMNS) // 5
    ffm = FMClassifier(model="ffm", epochs=5, holdout=0, random_state=0).fit(X, CLASS, fields=fields)
    model = fmcli.train(fmcli.Data(X, CLASS, fields=fields), model="ffm", epochs=5, holdout=0)
    np.testing.assert_array_equal(ffm.decision_function(X), model.predict(X, "raw", fields=fields))


@pytest.mark.parametrize("times", ["datetime64[s]", "timedelta64[D]"])
def test_matrices_of_times_are_refused(times):
    """NumPy would turn these into seconds or days, by their type."""
    with pytest.raises(ValueError, match="X has times"):
        FMRegressor(**QUICK).fit(X.astype(times), Y)
    with pytest.raises(ValueError, match="X has times"):
        FMRegressor(**QUICK).fit(X, Y).predict(X.astype(times))


def test_sparse_rows_are_not_copied_and_names_of_columns_are_checked():
    rows = sparse.csr_array(X)
    np.testing.assert_array_equal(
        FMRegressor(**QUICK).fit(rows, Y).predict(X), FMRegressor(**QUICK).fit(X, Y).predict(rows)
    )
    with pytest.raises(ValueError, match="has 9 features"):
        FMRegressor(**QUICK).fit(X, Y).predict(X[:, 1:])


def test_parameters_are_those_of_the_table():
    names = {RENAMED.get(name, name) for name in Keywords.__annotations__.keys() - set(OF_ROWS)}
    assert (
        FMClassifier().get_params().keys()
        == names | {"callbacks", "warm_start", "verbose"}
        == Parameters.__annotations__.keys()
    )
    assert OPTIONS.keys() <= Keywords.__annotations__.keys()
    assert FMRegressor().get_params().keys() == FMClassifier().get_params().keys() - {"class_weight"}
    for estimator in ESTIMATORS:
        assert clone(estimator).get_params() == estimator.get_params()
    with pytest.raises(TypeError, match="has no parameter 'rnk'"):
        FMRegressor(rnk=3)
    with pytest.raises(ValueError, match="rank is -1"):
        FMRegressor(rank=-1).fit(X, Y)


def test_a_random_state_is_a_seed_or_a_generator():
    seeds = [FMRegressor(**{**QUICK, "random_state": one}).fit(X, Y).predict(X) for one in (5, 5, 6)]
    np.testing.assert_array_equal(seeds[0], seeds[1])
    assert (seeds[0] != seeds[2]).any()
    states = [FMRegressor(**{**QUICK, "random_state": np.random.RandomState(1)}).fit(X, Y) for _ in range(2)]
    np.testing.assert_array_equal(states[0].predict(X), states[1].predict(X))


def test_no_random_state_draws_a_seed():
    """As in scikit-learn: from the global generator of NumPy; `partial_fit` keeps the seed of its first call."""
    drawn = {**QUICK, "random_state": None}
    np.random.seed(3)
    models = [FMRegressor(**drawn).fit(X, Y).model_ for _ in range(2)]
    np.random.seed(3)
    models.append(FMRegressor(**drawn).fit(X, Y).model_)
    seeds = [model.options["seed"] for model in models]
    assert seeds[0] == seeds[2] != seeds[1]
    steps = FMRegressor(random_state=None).partial_fit(X, Y)
    seed = steps.model_.options["seed"]
    assert steps.partial_fit(X, Y).model_.options["seed"] == seed
    assert fmcli.train((X, Y), epochs=1).options["seed"] == 0


@pytest.mark.parametrize("estimator", [FMClassifier, FMRegressor, FMRanker, FMFeatures])
def test_a_warm_start_goes_on_from_the_model_before(estimator):
    y = Y > 0 if estimator in (FMClassifier, FMFeatures) else Y
    more = {"qid": np.arange(len(Y)) // 10} if estimator is FMRanker else {}
    seen = []
    one = estimator(**QUICK, warm_start=True, callbacks=lambda epoch: seen.append(epoch.number)).fit(X, y, **more)
    before = len(seen)
    assert one.fit(X, y, **more).model_.summary["epochs"] > before > 0
    again = estimator(**QUICK).fit(X, y, **more)
    assert again.fit(X, y, **more).model_.summary["epochs"] == before


def test_verbose_writes_the_log(capfd):
    FMRegressor(verbose=1, **QUICK).fit(X, Y)
    assert "epoch 1: loss" in capfd.readouterr().err
    FMRegressor(**QUICK).fit(X, Y)
    assert capfd.readouterr().err == ""


def public():
    """Yield the public classes and functions of the interface, by name."""
    for module in (fmcli, fmcli.sklearn):
        for name in module.__all__:
            one = getattr(module, name)
            yield name, one
            for method, function in inspect.getmembers(one, inspect.isfunction) if inspect.isclass(one) else ():
                if not method.startswith("_") and function.__module__.startswith("fmcli."):
                    yield f"{name}.{method}", function


def test_every_public_name_has_its_sections():
    found = dict(public())
    assert {"train", "Data", "Model.predict", "Epoch", "FMRanker.score"} <= found.keys()
    for name, one in found.items():
        text = inspect.getdoc(one) or ""
        described = re.findall(r"^(\w+(?:, \w+)*) :", text, re.MULTILINE) + re.findall(
            r"^(\w+, [\w, ]+)$", text, re.MULTILINE
        )
        words = {word for line in described for word in line.split(", ")}
        given = inspect.signature(one).parameters.keys() - {"self", "args", "kwargs", "parameters"}
        if name != "Model":  # whose constructor is not for callers
            assert given <= words, name
        if not inspect.isclass(one) and inspect.signature(one).return_annotation not in (None, "None"):
            assert "Returns\n-------" in text, name


@pytest.mark.parametrize("documented", [fmcli.train, FMRegressor])
def test_help_speaks_of_values_and_names_in_python(documented):
    text = inspect.getdoc(documented) or ""
    assert re.search(r"^linear : bool, optional\n +False: leave out the linear weights\.", text, re.MULTILINE)
    assert "[default: l2; >= 0]" in text
    assert not re.search(r"--[a-z]", text)


def test_metadata_is_routed():
    with config_context(enable_metadata_routing=True):
        regressor = FMRegressor(**QUICK).set_fit_request(sample_weight=True).set_score_request(sample_weight=False)
        assert cross_validate(regressor, X, Y, params={"sample_weight": np.ones(ROWS)}, cv=2)["test_score"].shape == (
            2,
        )
        ranker = FMRanker(**QUICK).set_fit_request(qid=True).set_score_request(qid=True)
        scores = cross_validate(ranker, X, np.round(Y), params={"qid": np.arange(ROWS) // 10}, cv=2)["test_score"]
    assert (scores < 1).all()  # as of one group it is not
    assert "FMRegressor" in regressor._repr_html_()
