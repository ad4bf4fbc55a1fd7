"""The bytes of a model depend neither on the number of threads nor on the number of processor cores."""

import os

import numpy as np
import pytest


def on_one_core():
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="there is one core only")
@pytest.mark.parametrize(
    ("columns", "arguments"),
    [
        pytest.param(12, ("-m", "kernel-basis", "-k", "200"), id="kernel-basis"),
        pytest.param(300, ("-s", "lbfgs", "-k", "400", "-e", "2", "--no-quick-search"), id="lbfgs"),
    ],
)
def test_cores_and_threads_change_nothing(run, tmp_path, columns, arguments):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(600, columns)) * (rng.random(size=(600, columns)) < 12 / columns)
    rows = [f"{row.sum():.4f} " + " ".join(f"{j}:{row[j]:.4f}" for j in np.flatnonzero(row)) for row in x]
    (tmp_path / "rows").write_text("\n".join(rows) + "\n")
    found = set()
    for variable, threads, preexec in (("2", "2", lambda: None), ("1", "1", on_one_core)):
        environ = {**os.environ, "OPENBLAS_NUM_THREADS": variable}
        run.ok("train", "-q", "-o", "m.fm", "-j", threads, *arguments, "rows", environ=environ, preexec=preexec)
        found.add((tmp_path / "m.fm").read_bytes())
    assert len(found) == 1
