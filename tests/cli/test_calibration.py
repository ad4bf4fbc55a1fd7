"""train --calibrate and evaluate --calibration."""

import json

import pytest


def test_calibrated_probabilities_by_the_command(run, sample, tmp_path):
    rows, test = sample / "adult.train.libsvm", sample / "adult.test.libsvm"
    done = run.ok("train", "-e", "3", "--calibrate", "platt", "--class-weight", "balanced", "-o", "m", "-j", "1", rows)
    assert "calibrating probabilities (platt) by 2,500 rows, each scored by one of 5 models" in done.stderr
    run.ok("train", "-e", "3", "--calibrate", "platt", "--class-weight", "balanced", "-o", "n", "-j", "3", rows)
    assert (tmp_path / "m").read_bytes() == (tmp_path / "n").read_bytes()
    found = json.loads(run.ok("evaluate", "-q", "--json", "--calibration", "-x", "logloss", "m", test).stdout)
    assert sum(one["rows"] for one in found["calibration"]["bins"]) == 1500
    assert found["calibration"]["ece"] < 0.04
    run.ok("predict", "-q", "-o", "p", "m", test)
    of_text = json.loads(run.ok("evaluate", "-q", "--json", "--calibration", "--predictions", "p", test).stdout)
    assert of_text["calibration"]["ece"] == pytest.approx(found["calibration"]["ece"], abs=1e-6)
    text = run.ok("evaluate", "-q", "--calibration", "m", test).stdout.decode()
    assert "Probabilities of 1" in text
    assert "expected-calibration-error  0.0" in text
    assert "calibration         platt" in run.ok("inspect", "-q", "m").stdout.decode()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "--calibrate", "isotonic"], "loss squared has none; leave out --calibrate"),
        (["cv", "-e", "1", "--calibrate", "platt"], "loss squared has none; leave out --calibrate"),
    ],
)
def test_errors(run, sample, arguments, message):
    assert message in run.fails(2, *arguments, sample / "diabetes.train.libsvm").stderr


def test_only_probabilities_are_compared_with_shares(run, sample, diabetes_model):
    done = run.fails(2, "evaluate", "-q", "--calibration", diabetes_model, sample / "diabetes.test.libsvm")
    assert "--calibration needs probabilities of labels, and loss squared has none" in done.stderr
