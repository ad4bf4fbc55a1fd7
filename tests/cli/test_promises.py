"""The memory that `train` computes in advance is about what it takes."""

import json
import subprocess
import sys
from functools import cache

import numpy as np
import pytest

FEATURES, ROWS = 300_000, 1500
MIB = 1 << 20
COMMAND = (sys.executable, "-m", "fmcli")
# What a run may take beyond its promise: a share of it, and buffers of text and other small things.
SHARE, OTHERS = 1.1, 12 * MIB

RUNS = {
    "adagrad": "-e 2 --holdout 0",
    "adagrad with validation": "-e 4 --holdout 0.2 --no-refit",
    "an ensemble": "-e 2 --holdout 0 --ensemble 6 -j 1",
    "an ensemble with validation and refits": "-e 3 --ensemble 6 --holdout 0.2 --refit -j 1",
    "an ensemble of two at a time": "-e 2 --holdout 0 --ensemble 4 -j 2",
    "an ensemble in rounds": "-e 2 --holdout 0 -s ftrl --round-size 64 --ensemble 3 -j 1",
    "cd": "-s cd -e 2 --holdout 0",
    "lbfgs": "-s lbfgs -e 3 -k 4 --holdout 0",
    "lbfgs with a full history": "-s lbfgs -e 11 -k 2 --tol 0 --holdout 0",
    "mcmc": "-s mcmc -e 12 --draws 10",
    "an ensemble of mcmc": "-s mcmc -e 10 --draws 4 --ensemble 3 -j 1",
    "disk": "-e 2 --holdout 0 --disk --cache c",
    "relations": "-s cd -e 2 --holdout 0 --relation block=map",
}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """The rows of most runs, and those of relations, in a folder."""
    folder = tmp_path_factory.mktemp("rows")
    rng = np.random.default_rng(0)
    index = np.sort(rng.integers(FEATURES, size=(ROWS, 6)), axis=1)
    rows = [" ".join(f"{j}:1" for j in dict.fromkeys(row)) for row in index.tolist()]
    (folder / "rows").write_text(
        "".join(f"{y:.3f} {row}\n" for y, row in zip(rng.normal(size=ROWS), rows, strict=True))
    )
    (folder / "block").write_text("".join(f"{FEATURES + row}:1\n" for row in range(50)))
    (folder / "map").write_text("".join(f"{row % 50}\n" for row in range(ROWS)))
    (folder / "few").write_text("1 0:1\n2 1:1\n3 2:1\n")
    return folder


@pytest.fixture(scope="module")
def figures(files, tmp_path_factory):
    """A function that returns the bytes that a run with some options on a file of rows promises, and its peak."""

    @cache
    def found(options, rows):
        folder = tmp_path_factory.mktemp("run")
        arguments = ["train", "-q", "--log-json", "log", *options.split(), "-o", "m", rows]
        for file in files.iterdir():
            (folder / file.name).symlink_to(file)
        done = subprocess.run([*COMMAND, *arguments], cwd=folder, capture_output=True, timeout=60)
        assert done.returncode == 0, done.stderr
        events = [json.loads(line) for line in (folder / "log").read_text().splitlines()]
        return events[0]["memory_needed"], events[-1]["peak_memory"]

    return found


@pytest.mark.parametrize("name", RUNS)
def test_a_run_takes_what_it_promises(figures, name):
    """Neither much more, nor so much less that runs would be refused for nothing."""
    _, empty = figures("-e 2 -s mcmc" if "-s mcmc" in RUNS[name] else "-e 2", "few")
    promised, peak = figures(RUNS[name], "rows")
    taken = peak - empty
    assert taken <= SHARE * promised + OTHERS
    assert promised <= 2 * taken + OTHERS
