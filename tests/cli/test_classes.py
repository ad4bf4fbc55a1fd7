"""fmcli with several classes: arbitrary label values, a table of probabilities, predicted labels as in the data."""

import re

import numpy as np
import pytest

from fmcli.scoring.scorer import load_model
from fmcli.text import figure

NAMES = [-3, 2.5, 7, 40]


@pytest.fixture
def classes(tmp_path):
    """Files "train" and "test" with four classes. Most rows of a class have a feature that identifies the class."""
    rng = np.random.default_rng(5)
    for name, count in (("train", 400), ("test", 120)):
        lines = []
        for kind in rng.integers(4, size=count):
            shown = kind if rng.random() < 0.8 else rng.integers(4)
            lines.append(f"{NAMES[kind]:g} {shown}:1 {rng.integers(4, 9)}:{rng.random():.3f}\n")
        (tmp_path / name).write_text("".join(lines))


def labels(path):
    return np.array([float(line.split()[0]) for line in path.read_text().splitlines()])


def output(run, kind, model, data):
    done = run.ok("predict", "--output-type", kind, model, data)
    return np.array([line.split() for line in done.stdout.decode().splitlines()], float)


@pytest.mark.parametrize(
    "options", [["-m", "fm"], ["-m", "linear", "-s", "ftrl", "--batch-size", "4"], ["-m", "sglfm"]]
)
def test_classes_from_training_to_their_labels(run, classes, tmp_path, options):
    metrics = ["-x", "logloss", "-x", "accuracy", "-x", "macro-f1"]
    done = run.ok("train", "--verbose", "--loss", "softmax", *options, *metrics, "-v", "test", "-o", "m", "train")
    assert "; loss softmax: from --loss, 4 classes\n" in done.stderr
    assert load_model(str(tmp_path / "m")).meta["labels"] == NAMES
    raw, prob = output(run, "raw", "m", "test"), output(run, "prob", "m", "test")
    assert raw.shape == prob.shape == (120, 4)
    powers = np.exp(raw)
    assert prob == pytest.approx(powers / powers.sum(axis=1, keepdims=True), rel=1e-5)
    assert run("predict", "m", "test").stdout == run("predict", "--output-type", "prob", "m", "test").stdout
    label = output(run, "label", "m", "test")[:, 0]
    assert (label == np.array(NAMES)[raw.argmax(axis=1)]).all()
    figures = dict(re.findall(r"^([a-z][a-z0-9-]*) {2,}(\S+)", done.stderr, re.M))
    for part, path in (("train", "train"), ("valid", "test")):
        y = labels(tmp_path / path)
        of_label = output(run, "prob", "m", path)[np.arange(len(y)), np.searchsorted(NAMES, y)]
        assert figures[f"{part}-logloss"] == figure(-np.log(of_label).mean())
        assert figures[f"{part}-accuracy"] == figure((output(run, "label", "m", path)[:, 0] == y).mean())
    assert float(figures["valid-accuracy"]) > 0.7


@pytest.mark.parametrize(
    ("options", "has_probabilities"),
    [(["--loss", "hinge"], False), (["--loss", "squared-hinge"], False), (["--loss", "logistic"], True)],
)
def test_probabilities_are_for_losses_that_have_them(run, sample, tmp_path, options, has_probabilities):
    run.ok("train", "-q", *options, "-o", "m", sample / "adult.train.libsvm")
    done = run("predict", "--output-type", "prob", "m", sample / "adult.test.libsvm")
    assert done.returncode == (0 if has_probabilities else 2)
    if not has_probabilities:
        assert f"{options[1]} loss has no probabilities; use --output-type raw" in done.stderr
        assert done.stdout == b""
    label = run("predict", "--sign", "m", sample / "adult.test.libsvm").stdout.split()
    assert set(label) == {b"-1", b"1"}
