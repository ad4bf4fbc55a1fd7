"""Rounds on the command line."""

import json

import numpy as np
import pytest

from fmcli.model_file.container import load


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


def test_the_option_has_one_name_in_files_and_logs(run, tmp_path):
    (tmp_path / "rows").write_text("1 1:1\n-1 2:1\n" * 10)
    run.ok("train", "-q", "--round-size", "4", "-o", "m", "--log-json", "log", "rows")
    meta = load(str(tmp_path / "m")).meta
    assert meta["options"]["round_size"] == 4
    assert "round_size" in meta["given"]
    assert json.loads((tmp_path / "log").read_text().splitlines()[0])["options"]["round_size"]["value"] == 4
    run.ok("export", "m", "text.txt")
    assert "option round_size 4\n" in (tmp_path / "text.txt").read_text()
    assert "as in m: --round-size 4\n" in run.ok("train", "-i", "m", "-o", "n", "rows").stderr
