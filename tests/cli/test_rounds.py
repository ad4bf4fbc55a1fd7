"""Rounds on the command line."""

import numpy as np
import pytest


@pytest.mark.parametrize("solver", ["adagrad", "ftrl"])
@pytest.mark.parametrize("shuffle", [True, False])
def test_a_run_resumes_in_the_same_rounds(run, tmp_path, solver, shuffle):
    """Rounds begin in the second of five epochs."""
    rng = np.random.default_rng(4)
    text = "".join(
        f"{rng.integers(2)} " + " ".join(f"{j}:1" for j in sorted(rng.choice(12, 4, replace=False))) + "\n"
        for _ in range(700)
    )
    (tmp_path / "t").write_text(text)
    options = ["-s", solver, "--round-size", "4", "--holdout", "0", "--keep-state"]
    options += [] if shuffle else ["--no-shuffle"]
    run("train", *options, "-e", "5", "-o", "whole", "t")
    run("train", *options, "-e", "1", "-o", "first", "t")
    run("train", *options, "-e", "2", "-i", "first", "-o", "second", "t")
    run("train", *options, "-e", "2", "-i", "second", "-o", "third", "t")
    predicted = [run("predict", model, "t").stdout for model in ("whole", "third")]
    assert predicted[0] == predicted[1]


def test_a_run_resumes_with_fewer_rows(run, tmp_path):
    """The earlier run has seen more rows than this one would in as many epochs."""
    lines = [f"{i % 2} {1 + i % 5}:1 {6 + i % 3}:1\n" for i in range(700)]
    for name, rows in (("many", lines), ("few", lines[:20])):
        (tmp_path / name).write_text("".join(rows))
    options = ["--round-size", "4", "--holdout", "0", "--keep-state"]
    run("train", *options, "-e", "3", "-o", "m", "many")
    run("train", *options, "-e", "2", "-i", "m", "-o", "n", "few")
    assert len(run("predict", "n", "few").stdout.split()) == 20
