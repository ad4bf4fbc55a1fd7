"""Folds equal scikit-learn's, files of folds, and cross-validation equals a loop over the estimator."""

import warnings

import numpy as np
import pytest
from scipy import sparse

from fmcli.api.data import Data, of_matrix
from fmcli.choosing.cross_validation import (
    FoldTraining,
    Validated,
    cross_validate,
    difference_of,
    fold_numbers,
    metrics_of,
    out_of_fold,
)
from fmcli.choosing.folds import ALWAYS, Fold, Folding, folds_of, lines_of, read_numbers
from fmcli.data.shards.weights import Weighting
from fmcli.errors import BadInputError, UsageError
from fmcli.registry.specs import make_spec
from fmcli.training.setup.rows import RowsInMemory
from fmcli.training.setup.settings import Settings

selection = pytest.importorskip("sklearn.model_selection")
RANDOM = [np.random.default_rng(0)]


def same(expected, numbers, *, in_order=False):
    for (train, test), fold in zip(expected, folds_of([numbers], in_order=in_order), strict=True):
        assert fold.train.tolist() == train.tolist()
        assert fold.test.tolist() == test.tolist()


@pytest.mark.parametrize(("rows", "folds"), [(23, 2), (101, 4), (240, 7)])
def test_unshuffled_folds_are_those_of_scikit_learn(rows, folds):
    random = np.random.default_rng(rows)
    x, classes = np.zeros(rows), random.integers(0, 3, rows).astype(float)
    groups = np.unique(random.integers(0, 12, rows), return_inverse=True)[1].astype(np.int32)
    ours = Folding(folds, shuffled=False)
    same(selection.KFold(folds).split(x), ours.numbers(rows, RANDOM)[0])
    same(selection.StratifiedKFold(folds).split(x, classes), ours.numbers(rows, RANDOM, classes)[0])
    same(selection.GroupKFold(folds).split(x, groups=groups), ours.numbers(rows, RANDOM, classes, groups)[0])
    in_order = Folding(folds, in_order=True)
    same(selection.TimeSeriesSplit(folds).split(x), in_order.numbers(rows, RANDOM)[0], in_order=True)


def test_shuffled_folds_have_their_shares_and_whole_groups():
    classes = np.repeat([0.0, 1.0], [90, 10])
    (numbers,) = Folding(5).numbers(100, RANDOM, classes)
    assert np.bincount(numbers).tolist() == [20] * 5
    assert np.bincount(numbers[90:]).tolist() == [2] * 5
    assert (np.diff(numbers[:90]) < 0).any()
    groups = np.arange(100, dtype=np.int32) % 30
    first, second = Folding(5, 2).numbers(100, [np.random.default_rng(seed) for seed in (1, 2)], classes, groups)
    for numbers in (first, second):
        assert all(len(set(numbers[groups == group])) == 1 for group in range(30))
        assert np.bincount(numbers).min() > 10
    assert (first != second).any()


def test_rows_of_one_time_are_in_one_fold_which_follows_those_before():
    times = np.array([5, 0, 1, 1, 2, 2, 2, 3, 3, 4, 0, 0], dtype=np.int32)
    (numbers,) = Folding(3, in_order=True).numbers(12, RANDOM, groups=times)
    for fold in folds_of([numbers], in_order=True):
        assert times[fold.train].max() < times[fold.test].min()
    with pytest.raises(UsageError, match="6 different times cannot be divided into 6 folds"):
        Folding(6, in_order=True).numbers(12, RANDOM, groups=times)
    with pytest.raises(UsageError, match="3 groups cannot be divided into 5 folds"):
        Folding(5).numbers(9, RANDOM, groups=np.arange(9, dtype=np.int32) % 3)


def test_files_of_folds(tmp_path):
    path = tmp_path / "folds"
    numbers = [np.array([0, 1, ALWAYS, 1], np.int32), np.array([1, 0, 0, ALWAYS], np.int32)]
    path.write_bytes(lines_of(numbers))
    assert [one.tolist() for one in read_numbers(str(path), 4)] == [one.tolist() for one in numbers]
    path.write_text("0 1\n1 0\n-1 0\n1 -1\n")  # numbers from 0 mean the same
    assert [one.tolist() for one in read_numbers(str(path), 4)] == [one.tolist() for one in numbers]
    expected = selection.PredefinedSplit(numbers[0]).split()
    same(expected, numbers[0])
    for text, message in (
        ("0\n1\n", "has 2 lines, but there are 4 rows"),
        ("0\n1\nx\n0\n", ":3: found 'x', expected the number of a fold"),
        ("0\n1\n-2\n0\n", ":3: found '-2'"),
        ("0\n1 1\n0\n0\n", ":2: found '1 1'"),
        ("0\n2\n0\n0\n", "has no row of fold 1"),
        ("1\n3\n1\n1\n", "has no row of fold 2"),
        ("0\n0\n0\n0\n", "has 1 folds; at least 2"),
    ):
        path.write_text(text)
        with pytest.raises(BadInputError, match=message):
            read_numbers(str(path), 4)


def data(rows=120, columns=9, seed=0):
    random = np.random.default_rng(seed)
    x = sparse.random(rows, columns, density=0.5, random_state=seed, format="csr", dtype=np.float32)
    x.data[:] = np.round(3 * x.data) + 1
    score = x @ random.normal(size=columns)
    return x, score + random.normal(size=rows), (score > np.median(score)).astype(float)


OPTIONS = [
    ({"solver": "adagrad"}, {}),  # with a quick search and a refit
    ({"solver": "cd", "scale": "zscore"}, {"min_count": 35}),
    ({"model": "hofm", "solver": "lbfgs"}, {"holdout": "last:0.2"}),
    ({"solver": "mcmc"}, {}),
    ({"model": "llfm", "anchors": 2}, {"refit": False}),
    ({"model": "ffm", "scale": "standard"}, {"ensemble": 2}),
]


@pytest.mark.parametrize(("options", "choices"), OPTIONS)
def test_the_predictions_are_those_of_a_loop_over_the_estimator(options, choices):
    from fmcli.sklearn import FMClassifier, FMRegressor
    from fmcli.training.setup.held import held

    x, numbers, classes = data()
    fields = np.arange(x.shape[1]) % 3 if options.get("model") == "ffm" else None
    for estimator, label in ((FMRegressor, numbers), (FMClassifier, classes)):
        given = {**options, "epochs": 4}
        settings = {"quick_search": True, "threads": 2, **held(choices.get("holdout")).settings}
        settings |= {name: value for name, value in choices.items() if name in ("min_count", "refit")}
        made = of_matrix(x, label, fields=fields)
        rows = RowsInMemory(made.dataset, made.names)
        spec = make_spec(given.pop("model", "fm"), given.pop("solver", None), None, given)
        candidate = FoldTraining(Settings.of(spec, **settings), None, choices.get("ensemble", 1)).with_loss_of(rows)
        folds = list(folds_of(fold_numbers(candidate, rows.facts_of_rows(), Folding(3)), in_order=False))
        metrics = metrics_of([candidate])
        found = list(cross_validate(candidate, rows, rows.facts_of_rows(), folds, metrics))
        for fold, tested in zip(folds, found, strict=True):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                one = estimator(**options, **choices, epochs=4, loss=candidate.loss, n_jobs=1, random_state=0)
                one.fit(x[fold.train], label[fold.train], fields=fields)
            expected = one.predict(x[fold.test]) if estimator is FMRegressor else one.predict_proba(x[fold.test])[:, 1]
            assert tested.predicted[:, 0].tolist() == expected.tolist()
            test = Data(x[fold.test], label[fold.test], fields=fields)
            assert tested.metrics == one.model_.evaluate(test, metrics)
        assert len({tuple(one.metrics.values()) for one in found}) == 3
        oof = out_of_fold(found, len(label))[:, 0]
        assert oof[folds[1].test].tolist() == found[1].predicted[:, 0].tolist()


def test_weights_of_labels_are_those_of_the_training_rows():
    from fmcli.sklearn import FMClassifier

    x, _, label = data(90)
    label[:40] = 0
    made = of_matrix(x, label)
    rows = RowsInMemory(made.dataset, made.names)
    spec = make_spec("linear", "adagrad", None, {"epochs": 2})
    candidate = FoldTraining(Settings(spec, threads=1), Weighting(balanced=True)).with_loss_of(rows)
    folds = list(folds_of(fold_numbers(candidate, rows.facts_of_rows(), Folding(2, stratified=False)), in_order=False))
    (fold, _), (tested, _) = folds, cross_validate(candidate, rows, rows.facts_of_rows(), folds, ["auc"])
    one = FMClassifier(
        model="linear", epochs=2, holdout=0, class_weight="balanced", n_jobs=1, quick_search=False, random_state=0
    )
    one.fit(x[fold.train], label[fold.train])
    assert tested.predicted[:, 0].tolist() == one.predict_proba(x[fold.test])[:, 1].tolist()


def test_a_label_that_no_training_row_of_a_fold_has():
    x, _, label = data(30)
    label[:] = np.arange(30) % 3
    label[0] = 3
    made = of_matrix(x, np.array([f"class{int(one)}" for one in label], dtype=object))
    rows = RowsInMemory(made.dataset, made.names)
    candidate = FoldTraining(Settings(make_spec("linear", None, "softmax", {"epochs": 1}))).with_loss_of(rows)
    folds = list(folds_of(fold_numbers(candidate, rows.facts_of_rows(), Folding(3)), in_order=False))
    with pytest.raises(BadInputError, match="no training row of fold 1 has the label class3"):
        list(cross_validate(candidate, rows, rows.facts_of_rows(), folds, ["accuracy"]))


def test_the_error_of_a_difference_counts_shared_training_rows():
    """Nadeau and Bengio (2003): the variance of the differences times 1/J + test/train."""
    fold = Fold(1, 1, np.arange(80, dtype=np.int32), np.arange(20, dtype=np.int32))
    values = [0.5, 0.75, 0.25, 1.0]
    first, other = (
        [Validated(fold, {"rmse": one * scale}, np.zeros(1), np.zeros(1), {}, [], 0.0) for one in values]
        for scale in (1, 3)
    )
    found = difference_of(first, other, "rmse")
    differences = [one - 3 * one for one in values]
    assert found.mean == pytest.approx(np.mean(differences))
    assert found.sd == pytest.approx(np.sqrt(np.var(differences, ddof=1) * (1 / 4 + 20 / 80)))
