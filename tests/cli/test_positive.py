"""The positive one of two labels: by usual names, or by --positive, and where it shows."""

import json

import numpy as np
import pytest

import fmcli
from fmcli.errors import BadInputError
from fmcli.registry.positive import positive_place, usual_place

TRAIN = ("train", "-q", "--label", "y", "-e", "5", "-o", "m")


def table(tmp_path, first, second, name="t.csv"):
    """Write a table whose user a mostly has the first label, and b the second one."""
    rows = "".join(f"{'ab'[n % 2]},{n % 7},{(first, second)[n % 2 if n % 5 else 1 - n % 2]}\n" for n in range(200))
    (tmp_path / name).write_text(f"user,item,y\n{rows}")


@pytest.mark.parametrize(
    ("pair", "positive"),
    [
        (("Yes", "no"), "Yes"),
        (("NO", "YES"), "YES"),
        (("y", "N"), "y"),
        (("True", "false"), "True"),
        (("ja", "Nein"), "ja"),
        (("non", "Oui"), "Oui"),
        (("no", "si"), "si"),
        (("Positive", "negative"), "Positive"),
        (("fraud", "legit"), "fraud"),
        (("spam", "ham"), "spam"),
        (("fraud", "not_fraud"), "fraud"),
        (("Spam", "non-spam"), "Spam"),
        (("Active", "inactive"), "Active"),
        (("arrears", "no arrears"), "arrears"),
    ],
)
def test_usual_names_tell_the_positive_one(pair, positive):
    for names in (pair, pair[::-1]):
        assert names[positive_place(names, named=True)] == positive


def test_of_other_names_the_later_one_is_positive_and_of_numbers_the_larger_one():
    assert usual_place(("apple", "berry")) is None
    assert positive_place(("apple", "berry"), named=True) == 1
    assert positive_place(("0", "1"), named=False) == positive_place(("-1", "1"), named=False) == 1
    assert positive_place(("1", "2"), "1.0", named=False) == 0
    with pytest.raises(BadInputError, match="no row has the label cherry, only apple and berry"):
        positive_place(("apple", "berry"), "cherry", named=True)


def test_names_of_labels_are_typed_and_told_as_they_are(run, tmp_path):
    table(tmp_path, "arrears", "no arrears")
    models = []
    for name in ("no arrears", "no%20arrears"):
        run.ok(*TRAIN, "--class-weight", f"{name}=3", "t.csv")
        models.append(run.ok("predict", "-q", "m", "t.csv").stdout)
    assert models[0] == models[1]
    done = run.fails(65, *TRAIN, "--class-weight", "none=3", "t.csv")
    assert "no row has the label none, which has a weight, only arrears, no arrears;" in done.stderr
    table(tmp_path, "arrears", "not yet", "u.csv")
    for words in (("--valid", "u.csv", "t.csv"), ("-i", "m", "u.csv"), ("-i", "m", "--disk", "--cache", "c", "u.csv")):
        done = run.fails(65, *(TRAIN if "-i" not in words else TRAIN[:1]), *words)
        assert "the model does not know the label not yet, only arrears, no arrears" in done.stderr
    with pytest.raises(ValueError, match="does not know the label not yet, only arrears, no arrears"):
        fmcli.load(tmp_path / "m").evaluate(([{"user": "a"}] * 9, ["not yet"] * 9), "auc")


@pytest.mark.parametrize(
    ("labels", "options", "positive"),
    [
        (("Yes", "no"), (), "Yes"),
        (("arrears", "no arrears"), ("--positive", "no%20arrears"), "no arrears"),
        (("1", "2"), (), "2"),
        (("1", "2"), ("--positive", "1"), "1"),
    ],
)
def test_predictions_are_probabilities_of_the_positive_label(run, tmp_path, labels, options, positive):
    """In the log, the header, metrics, weights, calibration, updates and predictions of labels."""
    table(tmp_path, *labels)
    done = run.ok("train", *TRAIN[2:], *options, "t.csv")
    assert f"{positive} (positive" in done.stderr
    (tmp_path / "rows.csv").write_text("user,item\na,1\nb,1\n")
    done = run.ok("predict", "m", "rows.csv")
    a, b = map(float, done.stdout.split())
    assert (a > 0.5 > b) == (positive == labels[0])
    assert done.stderr.endswith(f"; predictions are probabilities of {positive}\n")
    assert run.ok("predict", "-q", "--passthrough", "m", "rows.csv").stdout.startswith(
        f"user,item,prediction_{positive}\n".encode()
    )
    assert run.ok("predict", "-q", "--sign", "m", "rows.csv").stdout.decode().splitlines() == list(labels)
    found = json.loads(run.ok("evaluate", "--json", "m", "t.csv").stdout)
    assert found["metrics"]["auc"] > 0.7
    assert str(found["classes"][1]["label"]).removesuffix(".0") == positive
    (tmp_path / "p").write_bytes(run.ok("predict", "-q", "m", "t.csv").stdout)
    (tmp_path / "t.libsvm").write_bytes(run.ok("convert", "-q", "--label", "y", "t.csv").stdout)
    again = json.loads(run.ok("evaluate", "--json", *options, "--predictions", "p", "t.libsvm").stdout)
    assert again["metrics"]["auc"] == pytest.approx(found["metrics"]["auc"])
    run.ok(*TRAIN, *options, "--pos-weight", "9", "t.csv")
    heavier = list(map(float, run.ok("predict", "-q", "m", "rows.csv").stdout.split()))
    assert heavier[0] > a
    assert heavier[1] > b
    run.ok("train", "-q", "-i", "m", "-o", "n", "t.csv")
    assert f"probabilities of {positive}" in run.ok("predict", "n", "rows.csv").stderr
    run.ok(*TRAIN, *options, "--calibrate", "platt", "t.csv")
    a, b = map(float, run.ok("predict", "-q", "m", "rows.csv").stdout.split())
    assert (a > 0.5 > b) == (positive == labels[0])


def test_a_positive_label_without_meaning_is_refused(run, tmp_path):
    table(tmp_path, "apple", "berry")
    table(tmp_path, "1.5", "2.5", "n.csv")
    (tmp_path / "c.csv").write_text((tmp_path / "t.csv").read_text() + "a,1,cherry\n")
    (tmp_path / "r.csv").write_text((tmp_path / "n.csv").read_text() + "a,1,3\n")
    done = run.fails(65, *TRAIN, "--positive", "cherry", "t.csv")
    assert "no row has the label cherry, only apple and berry" in done.stderr
    for loss in ("softmax", "squared"):
        done = run.fails(2, *TRAIN, "--loss", loss, "--positive", "apple", "t.csv")
        assert f"loss {loss} has no positive label" in done.stderr
    assert "labels have a positive value if there are two" in run.fails(65, *TRAIN, "--positive", "3", "r.csv").stderr
    run.ok(*TRAIN, "--positive", "apple", "t.csv")
    done = run.fails(2, "train", "-i", "m", "--positive", "berry", "-o", "n", "t.csv")
    assert "the positive label of m is apple" in done.stderr
    run.ok("train", "-q", "-i", "m", "--positive", "apple", "-o", "n", "t.csv")
    assert "the positive label of m is apple" in run.fails(2, "evaluate", "--positive", "berry", "m", "t.csv").stderr
    run.ok("evaluate", "--positive", "apple", "m", "t.csv")


@pytest.mark.parametrize("command", ["cv", "tune"])
def test_comparisons_take_it(run, tmp_path, command):
    table(tmp_path, "apple", "berry")
    more = ("--trials", "2", "-m", "fm", "-s", "adagrad,cd") if command == "tune" else ("--folds", "2")
    run.ok(command, "--label", "y", "--positive", "apple", *more, "-o", "out", "t.csv")
    if command == "cv":
        found = np.loadtxt(tmp_path / "out")
        assert found[0::2].mean() > found[1::2].mean()
    done = run.fails(65, command, "--label", "y", "--positive", "cherry", *more, "t.csv")
    assert "no row has the label cherry" in done.stderr


def test_from_python(tmp_path):
    table(tmp_path, "Yes", "no")
    path = str(tmp_path / "t.csv")
    usual, other = (fmcli.train(path, label="y", quick_search=False, positive=one) for one in (None, "no"))
    assert usual.labels == ["no", "Yes"]
    assert other.labels == ["Yes", "no"]
    np.testing.assert_allclose(usual.predict(path), 1 - other.predict(path), atol=0.01)
    model = fmcli.train(([{"a": 1}, {"b": 1}] * 60, np.array([1, 2] * 60)), positive=1, quick_search=False)
    assert model.labels == [2.0, 1.0]
    with pytest.raises(fmcli.errors.UsageError, match="the positive label of"):
        fmcli.train(path, label="y", init_model=usual, positive="no")


def test_of_estimators_the_second_class_is_positive(rng):
    from fmcli.sklearn import FMClassifier

    X = rng.normal(size=(200, 3))
    for labels in (("no", "Yes"), ("apple", "berry"), (1, 2)):
        y = np.where(X[:, 0] > 0, labels[1], labels[0])
        model = FMClassifier(quick_search=False, epochs=5).fit(X, y)
        proba, score = model.predict_proba(X), model.decision_function(X)
        place = list(model.classes_).index(y.dtype.type(labels[1]))
        assert proba[X[:, 0] > 1, place].min() > proba[X[:, 0] < -1, place].max()
        assert ((score > 0) == (model.predict(X) == model.classes_[1])).all()
