"""The memory that `train` computes in advance is about what it takes."""

import json

import numpy as np
import pytest

FEATURES, ROWS = 600_000, 3000
MIB = 1 << 20
# What a run may take beyond its promise: a share of it, and blocks of text and other small things.
SHARE, OTHERS = 1.1, 24 * MIB

RUNS = {
    "adagrad": "-e 2",
    "adagrad with validation": "-e 4 --holdout 0.2",
    "an ensemble": "-e 2 --ensemble 6 -j 1",
    "an ensemble with validation and refits": "-e 3 --ensemble 6 --holdout 0.2 --refit -j 1",
    "an ensemble of two at a time": "-e 2 --ensemble 4 -j 2",
    "an ensemble in blocks": "-e 2 -s ftrl --block-size 64 --ensemble 3 -j 1",
    "cd": "-s cd -e 2",
    "lbfgs": "-s lbfgs -e 3",
    "lbfgs with a full history": "-s lbfgs -e 11 --tol 0",
    "mcmc": "-s mcmc -e 20 --draws 10",
    "an ensemble of mcmc": "-s mcmc -e 10 --draws 4 --ensemble 3 -j 1",
    "disk": "-e 2 --disk --cache c",
    "relations": "-s cd -e 2 --relation block=map",
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


@pytest.mark.parametrize("name", RUNS)
def test_a_run_takes_what_it_promises(run, start, files, tmp_path, name):
    """Neither much more, nor so much less that runs would be refused for nothing."""

    def figures(options, rows):
        for file in ("block", "map"):
            (tmp_path / file).write_bytes((files / file).read_bytes())
        process = start("train", "-q", "--log-json", "log", *options, "-o", "m", files / rows)
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 0, errors
        events = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
        return events[0]["memory_needed"], events[-1]["peak_memory"]

    options = RUNS[name].split()
    usual = [option for option in ("-s", "mcmc") if option in options]
    _, empty = figures([*usual, "-e", "2"] if len(usual) == 2 else ["-e", "2"], "few")
    promised, peak = figures(options, "rows")
    taken = peak - empty
    assert taken <= SHARE * promised + OTHERS
    assert promised <= 2 * taken + OTHERS
