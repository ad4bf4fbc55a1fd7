"""The memory that `train` computes in advance is close to its use: the peak of a process beyond the peak of a process
that trains on few rows."""

import importlib.util
import json
import os
import re
import shlex
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from forks import Forks, at_the_end

ROOT = Path(__file__).resolve().parent.parent.parent
SPEC = importlib.util.spec_from_file_location("bench_memory", ROOT / "scripts" / "bench" / "memory.py")
memory = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(memory)

FEATURES, ROWS = 200_000, 1500
PATIENCE = 60
SHAPES = "narrow", "wide", "long", "huge"
MIB = 1 << 20
# The least and the largest part of its promise that a command takes, and bytes of buffers beside it.
LEAST, MOST, BUFFERS = 0.5, 1.15, MIB

ONE = "--no-quick-search"  # a run without others that choose its options
# A table of different names, whose reading takes more than what follows.
COLUMNS = "--label y --categorical user,item"
TABLE = f"{COLUMNS} fewer.csv"
NAMES = f"{COLUMNS} --holdout 0 {ONE} -k 1 -e 1"
# Runs in which different objects take most of the memory: model, solver, shape of the rows, further options.
RUNS = {
    "adagrad": "-e 2 --holdout 0 -k 512 sparse",
    "adagrad with validation": "-e 2 --holdout 0.2 --no-refit -k 128 sparse",
    "a refit whose last epochs are compared": f"-e 4 --holdout 0.2 --refit {ONE} -k 192 sparse",
    "an ensemble": "-e 2 --holdout 0 --ensemble 5 -j 1 -k 128 sparse",
    "an ensemble with validation and refits": f"-e 2 --ensemble 4 --holdout 0.2 --refit -j 1 {ONE} -k 64 sparse",
    "an ensemble of two at a time": "-e 2 --holdout 0 --ensemble 4 -j 2 -k 128 sparse",
    "an ensemble in rounds": "-e 2 --holdout 0 -s ftrl --round-size 64 --ensemble 3 -j 1 -k 128 sparse",
    "cd": "-s cd -e 1 --holdout 0 -k 16 sparse",
    "lbfgs": "-s lbfgs -e 3 -k 32 --holdout 0 sparse",
    "lbfgs with a full history": "-s lbfgs -e 11 -k 16 --tol 0 --holdout 0 sparse",
    "mcmc": f"-s mcmc -e 11 --draws 10 {ONE} -k 32 sparse",
    "mcmc with draws of 16 bits": f"-s mcmc -e 61 --burn-in 1 --draws 60 {ONE} -k 16 sparse",
    "an ensemble of mcmc": f"-s mcmc -e 5 --draws 4 --ensemble 3 -j 1 {ONE} -k 32 sparse",
    "disk": "-e 2 --holdout 0 --disk --cache c -k 512 sparse",
    "relations": "-s cd -e 2 --holdout 0 --relation block=map -k 24 sparse",
    "pairs of long rows": "-m poly2 -e 2 long",
    "pairs of long rows in a batch": "-m poly2 -s ftrl -e 2 --batch-size 8 long",
    "columns of pairs": "-m poly2 -s cd -e 1 --holdout 0 few-long",
    "records of caches": "-m hofm -s cd -e 1 --order 4 -k 32 narrow",
    "a batch of many rows": "-e 1 --holdout 0 --batch-size 1024 -k 32 wide",
    "fields": "-m ffm -s sgd -e 2 --holdout 0.2 -k 16 wide",
    "anchors": f"-m llfm -s sgd -e 2 --no-refit {ONE} wide",
    "square matrices": "-m kernel-basis -k 350 narrow",
    "rows of anchors by column": "-m llfm -s cd -e 1 --anchors 10 narrow",
    **{f"names that {j} number": f"-j {j} {NAMES} ids.csv" for j in (1, 2)},
    "a joined table": f"-j 2 {NAMES} --join user=users.csv ids.csv",
    "a search of kinds": "--auto -j 2 -m fm -k 16 -e 2 sparse",
    "a query": f"""{NAMES} --sql "SELECT * FROM 'ids.csv'" """,
}


# Runs that update the model of the first one.
UPDATES = {
    "an epoch of cd": ("-s cd -e 1 --holdout 0 -k 4 sparse", "-i m -e 1 others"),
    "epochs of cd on new features": ("-s cd -e 1 --holdout 0 -k 8 sparse", "-i m -e 3 others"),
    "an update by lbfgs": ("-s lbfgs -e 2 --holdout 0 -k 16 sparse", "-i m -e 2 others"),
    "cd after a stochastic run": ("-e 2 --holdout 0 -k 32 sparse", "-i m -s cd -e 2 others"),
}


# Commands that compare runs, and log what they need.
COMPARISONS = {
    "folds in turn": f"cv -j 1 --folds 3 -e 2 {ONE} -k 256 sparse",
    "folds at the same time": f"cv -j 2 --folds 3 -e 2 {ONE} -k 256 sparse",
    "folds of mcmc in turn": f"cv -j 1 --folds 3 -e 6 -s mcmc --draws 5 {ONE} -k 96 sparse",
    "folds of mcmc at the same time": f"cv -j 2 --folds 3 -e 6 -s mcmc --draws 5 {ONE} -k 64 sparse",
    "trials in turn": "tune -j 1 --folds 1 --trials 3 -m fm -s adagrad --l2 1e-6..1e-4 -k 256 sparse",
    "trials at the same time": "tune -j 2 --folds 2 --trials 4 -m fm -s adagrad --l2 1e-6..1e-4 -k 128 sparse",
    "trials of ranks in turn": f"tune -j 1 --folds 1 --trials 12 -m fm -s adagrad {TABLE}",
    "trials of ranks at the same time": f"tune -j 2 --folds 1 --trials 12 -m fm -s adagrad {TABLE}",
    "trials that pause": "tune -j 2 --folds 2 --trials 12 -m fm -s adagrad --l2 1e-6..1e-4 -k 96 sparse",
    "trials of solvers at the same time": f"tune -j 2 --trials 3 {ONE} -m fm -s adagrad,cd,lbfgs {COLUMNS} fewest.csv",
    "trials on a table": f"tune -j 1 --folds 1 --trials 3 -m fm -s sgd -k 8 {TABLE}",
    "folds of a table at the same time": f"cv -j 2 --folds 3 {ONE} -k 16 {COLUMNS} ids.csv",
}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """The rows of the runs, and the rows of relations, in a folder."""
    folder = tmp_path_factory.mktemp("rows")
    rng = np.random.default_rng(0)
    for name in "sparse", "others":
        index = np.sort(rng.integers(FEATURES, size=(ROWS, 6)), axis=1)
        rows = [" ".join(f"{j}:1" for j in dict.fromkeys(row)) for row in index.tolist()]
        labels = rng.normal(size=ROWS)
        (folder / name).write_text("".join(f"{y:.3f} {row}\n" for y, row in zip(labels, rows, strict=True)))
    (folder / "block").write_text("".join(f"{FEATURES + row}:1\n" for row in range(50)))
    (folder / "map").write_text("".join(f"{row % 50}\n" for row in range(ROWS)))
    (folder / "few").write_text("0 0:0:1 1:1:1\n1 0:0:1 1:2:1\n1 0:1:1\n")
    ids = rng.permutation(100_000)
    for name, rows in ("ids.csv", ids), ("fewer.csv", ids[:30_000]), ("fewest.csv", ids[:10_000]):
        (folder / name).write_text("user,item,y\n" + "".join(f"u{i},i{i},{i % 7}\n" for i in rows.tolist()))
    (folder / "users.csv").write_text("user,age\n" + "".join(f"u{i},{i % 50}\n" for i in ids.tolist()))
    (folder / "few-long").write_text("".join(f"{line}\n" for line in [*memory.rows_of("long")][:4]))
    for shape in SHAPES:
        (folder / shape).write_text("".join(f"{line}\n" for line in memory.rows_of(shape)))
    return folder


@pytest.fixture(scope="module")
def figures(files, forks, tmp_path_factory):
    """A function that returns the bytes that the last of some runs with their options and rows promises, and its
    peak."""

    @cache
    def found(*runs):
        folder = tmp_path_factory.mktemp("run")
        for file in files.iterdir():
            (folder / file.name).symlink_to(file)
        for number, options in enumerate(runs):
            log = f"log{number}"
            done = forks.run(["train", "-q", "--log-json", log, "-o", "m", *shlex.split(options)], folder)
            assert done.returncode == 0, done.stderr
        events = [json.loads(line) for line in (folder / log).read_text().splitlines()]
        return events[0]["memory_needed"], events[-1]["peak_memory"]

    return found


@pytest.mark.parametrize("name", [*RUNS, *UPDATES])
def test_a_run_takes_what_it_promises(figures, name):
    """Neither much more, nor so much less that runs would be refused for nothing."""
    _, empty = figures("-e 2 few")
    promised, peak = figures(*UPDATES[name] if name in UPDATES else [RUNS[name]])
    assert LEAST * promised <= peak - empty <= MOST * promised + BUFFERS


@pytest.fixture(scope="module")
def measured(files):
    """A function that runs a command, and returns its log and its peak."""
    module = "__import__('fmcli.system.memory', fromlist=['memory'])"
    forks = Forks(dict(os.environ), PATIENCE, before=at_the_end(f"{module}.peak()"))

    def found(words):
        done = forks.run(shlex.split(words), files)
        assert done.returncode == 0, done.stderr
        return done.stderr, int(done.stderr.split()[-1])

    yield found
    forks.close()


@pytest.fixture(scope="module")
def comparing(measured):
    """A function that returns the bytes that a comparison promises, and its peak beyond the peak with few rows."""

    _, empty = measured("train -e 0 --holdout 0 -o few.fm few")

    def found(options):
        log, peak = measured(f"{options} --verbose")
        needed = re.search(r"^needs ([\d.]+) MiB of memory$", log, re.M)
        return float(needed[1]) * MIB, peak - empty

    return found


@pytest.mark.parametrize("name", COMPARISONS)
def test_a_comparison_takes_what_it_promises(comparing, name):
    promised, taken = comparing(COMPARISONS[name])
    assert LEAST * promised <= taken <= MOST * promised + BUFFERS


@pytest.mark.parametrize("options", ["-k 8 --draws 100 -e 105", "-k 16 --draws 60 -e 65"])
def test_predictions_of_draws_of_16_bits_take_little_more_than_the_file(measured, files, options):
    """Not the three to five times of its size that all draws as reals take."""
    measured(f"train -q -s mcmc {ONE} --burn-in 5 {options} -o draws.fm sparse")
    measured("train -q -s mcmc -e 4 --draws 2 -o few.fm few")
    (_, peak), (_, empty) = (measured(f"predict -q {model} -o predictions few") for model in ("draws.fm", "few.fm"))
    size = (files / "draws.fm").stat().st_size
    assert size > 15 * MIB
    assert peak - empty <= 1.25 * size


def test_other_readings_of_a_table_take_what_is_promised(measured, files):
    rows = np.random.default_rng(0).normal(size=(40_000, 8)).round(3)
    rows[:, 0] = np.arange(len(rows)) % 60
    np.savetxt(files / "numbers.csv", rows, "%.6g", ",", header="a,b,c,d,e,f,g,y", comments="")
    command = "train --label y -e 2 -k 2 -o m numbers.csv"
    needed = [
        float(re.search(r"^memory +([\d.]+) MiB needed$", measured(f"{command} --dry-run {more}")[0], re.M)[1]) * MIB
        for more in ("", "--no-quick-search")
    ]
    (log, peak), (_, empty) = measured(f"{command} --quick-search"), measured("train -e 0 --holdout 0 -o few.fm few")
    assert "--bins 32" in log
    assert needed[0] > 1.5 * needed[1]
    assert LEAST * needed[0] <= peak - empty <= MOST * needed[0] + BUFFERS


def test_a_comparison_of_solvers_promises_more_than_the_usual_run(run, files):
    dry = "train", "--dry-run", "-j", "1", "-m", "fm", "-k", "64"
    logs = [run.ok(*dry, *more, files / "sparse").stderr for more in ([], ["--auto"])]
    usual, whole = (float(re.search(r"^memory +([\d.]+) MiB needed$", log, re.M)[1]) for log in logs)
    assert whole > 1.5 * usual


@pytest.mark.parametrize("options", ["cv --folds 2", "tune"])
def test_a_comparison_that_needs_too_much_ends_before_it_trains(run, options, tmp_path):
    rows = (" ".join(f"{1000 * row + j}:1" for j in range(1000)) for row in range(200))
    (tmp_path / "huge").write_text("".join(f"{row % 2} {entries}\n" for row, entries in enumerate(rows)))
    done = run(*options.split(), "--verbose", "-k", "65536", "huge")
    assert done.returncode == 4
    assert re.search(r"^needs [\d.]+ [GT]iB of memory$", done.stderr, re.M)
    assert not re.search("^(fold|trial) ", done.stderr, re.M)
