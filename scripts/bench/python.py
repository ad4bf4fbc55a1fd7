"""The Python interface in figures: rows predicted a second, beside other libraries, and the peak memory of training.

    python scripts/bench/python.py speed                    one row, 1,000 and 1e6 rows, of all libraries that are found
    python scripts/bench/python.py memory [--nonzeros 1e8]  peaks beside the memory of X and of the model

Rows are one-hot, of 20 features out of 100,000, and models are fm of rank 8, with one thread. A call is repeated, and
the fastest of several series counts. xLearn reads its rows from a binary file that it has made of text, and writes
predictions to another one.

Memory is the peak of a process of its own that trains on rows of 39 values with 1e6 features, minus what it has before
it reads X, which another process has made. Its ratios are to X and the parameters of the model, with y, which the
caller has, too, and without it.
"""

import argparse
import itertools
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

ROWS, FEATURES, FIELDS, RANK = 200_000, 100_000, 20, 8
# The numbers of rows, and how often they are predicted in a series.
CALLS = {1: 200, 1000: 20, 1_000_000: 1}
SERIES = 3
# The rows of the memory's table.
WIDTH, MANY = 39, 1_000_000
# Form of X, labels, and options of training.
SHAPES = (
    ("csr", "numbers", {"holdout": 0, "epochs": 3}),
    ("csr", "classes", {"holdout": 0, "epochs": 3}),
    ("csr", "classes", {"epochs": 3}),
    ("csc", "classes", {"holdout": 0, "epochs": 3}),
    ("float64", "classes", {"holdout": 0, "epochs": 3}),
    ("csr", "numbers", {"holdout": 0, "epochs": 1, "solver": "cd"}),
)


def one_hot() -> tuple[sp.csr_matrix, np.ndarray]:
    """Rows, and labels 0 and 1 that a linear model explains."""
    random, each = np.random.default_rng(0), FEATURES // FIELDS
    index = (np.arange(FIELDS) * each + random.integers(0, each, (ROWS, FIELDS))).astype(np.int32)
    ends = np.arange(0, index.size + 1, FIELDS, dtype=np.int32)
    X = sp.csr_matrix((np.ones(index.size, np.float32), index.ravel(), ends), shape=(ROWS, FEATURES))
    return X, (X @ random.normal(size=FEATURES) > 0).astype(np.int64)


def seconds(run: Callable[[], object]) -> float:
    """The CPU seconds of a call, the fastest of several."""
    took = []
    for _ in range(SERIES):
        begin = time.process_time()
        run()
        took.append(time.process_time() - begin)
    return min(took)


def of_fmcli(X: sp.csr_matrix, y: np.ndarray) -> Callable[[Any], object]:
    import fmcli

    model = fmcli.train((X, y), rank=RANK, epochs=2, holdout=0, quick_search=False)
    return lambda rows: model.predict(rows, threads=1)


def of_estimator(X: sp.csr_matrix, y: np.ndarray) -> Callable[[Any], object]:
    from fmcli.sklearn import FMClassifier

    return FMClassifier(rank=RANK, epochs=2, holdout=0, quick_search=False).fit(X, y).predict_proba


def of_modern_fm(X: sp.csr_matrix, y: np.ndarray) -> Callable[[Any], object]:
    import modern_fm

    return modern_fm.FMClassifier(n_factors=RANK, max_iter=2, n_jobs=1).fit(X, y).predict_proba


def of_myfm(X: sp.csr_matrix, y: np.ndarray) -> Callable[[Any], object]:
    """Of a single draw of the parameters."""
    import myfm

    model = myfm.MyFMClassifier(rank=RANK).fit(X.astype(np.float64), y.astype(bool), n_iter=3, n_kept_samples=1)
    return model.predict_proba


def of_xlearn(X: sp.csr_matrix, y: np.ndarray) -> Callable[[Any], object]:
    os.environ.setdefault("USER", "bench")  # without which it aborts
    import xlearn

    folder = Path(tempfile.mkdtemp())
    trained = str(folder / "model")
    model = xlearn.create_fm()
    model.setTrain(as_text(folder, X, y))
    model.setQuiet()
    model.fit({"task": "binary", "k": RANK, "epoch": 2, "nthread": 1}, trained)
    files: dict[int, str] = {}

    def predict(rows: sp.csr_matrix) -> None:
        count = rows.shape[0]
        if count not in files:
            files[count] = as_text(folder, rows, np.zeros(count, np.int64))
        asked = xlearn.create_fm()
        asked.setTest(files[count])
        asked.setSigmoid()
        asked.predict(trained, str(folder / "out"))

    return predict


def as_text(folder: Path, X: sp.csr_matrix, y: np.ndarray) -> str:
    """The path of one-hot rows as libsvm text."""
    path = folder / f"{X.shape[0]}.txt"
    with path.open("w") as file:
        for label, row in zip(y, X.indices.reshape(-1, FIELDS), strict=True):
            file.write(f"{label} " + " ".join(f"{j}:1" for j in row) + "\n")
    return str(path)


LIBRARIES = {
    "fmcli, Model.predict": of_fmcli,
    "fmcli, FMClassifier": of_estimator,
    "modern-fm, FMClassifier": of_modern_fm,
    "myFM, MyFMClassifier": of_myfm,
    "xLearn, files": of_xlearn,
}


def speed() -> None:
    """Print the table of speeds, but not what libraries print."""
    X, y = one_hot()
    out = os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    print(f"{'rows/s':<26}" + "".join(f"{count:>14,}" for count in CALLS), file=out, flush=True)
    for name, fitted in LIBRARIES.items():
        try:
            predict = fitted(X, y)
        except ImportError:
            continue
        rates = []
        for count, calls in CALLS.items():
            rows = X[:count] if count <= ROWS else sp.vstack([X] * (count // ROWS), format="csr")
            predict(rows)  # what only the first call does
            rates.append(count * calls / seconds(partial(repeat, predict, rows, calls)))
        print(f"{name:<26}" + "".join(f"{rate:>14,.0f}" for rate in rates), file=out, flush=True)


def repeat(call: Callable[[Any], object], rows: Any, times: int) -> None:
    """Call a function several times."""
    for _ in itertools.repeat(None, times):
        call(rows)


def memory(nonzeros: int) -> None:
    """Print the table of peaks, of rows in files of a folder that is removed in the end."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, __file__, "draw", "--nonzeros", str(nonzeros), "--folder", folder], check=True)
        table_of_peaks(folder)


def table_of_peaks(folder: str) -> None:
    """Print the table of peaks, of rows in files."""
    print(f"{'X':<9}{'labels':<9}{'options':<34}{'MB X':>8}{'model':>7}{'peak':>8}{'ratio':>8}{'without y':>11}")
    for place, (form, labels, options) in enumerate(SHAPES):
        command = [sys.executable, __file__, "memory", "--folder", folder, "--shape", str(place)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        matrix, model, y, peak = map(float, done.stdout.split())
        words = " ".join(f"{name}={value}" for name, value in options.items())
        sizes = f"{matrix / 1e6:>8.0f}{model / 1e6:>7.0f}{peak / 1e6:>8.0f}"
        whole = matrix + model
        print(f"{form:<9}{labels:<9}{words:<34}{sizes}{peak / whole:>8.3f}{(peak - y) / whole:>11.3f}", flush=True)


def measured(folder: Path, shape: int) -> None:
    """Train one of the shapes in this process; print the bytes of X, the model, y, and the peak."""
    import fmcli

    form, labels, options = SHAPES[shape]
    small = sp.random_array((500, 50), density=0.2, format="csr", dtype=np.float32, rng=np.random.default_rng(0))
    fmcli.train((small, np.arange(500.0) % 2), **options)  # imports what training needs
    before = of_status("VmRSS")
    value, index, ends, y = (np.load(folder / f"{name}.npy") for name in ("value", "index", "ends", labels))
    X = sp.csr_matrix((value, index, ends), shape=(len(y), MANY), copy=False)
    X.has_canonical_format = True
    del value, index, ends  # which other forms of X do without
    X = X.tocsc() if form == "csc" else X.astype(np.float64) if form == "float64" else X
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    model = fmcli.train((X, y), quick_search=False, **options)
    peak = of_status("VmHWM") - before
    parameters = sum(array.nbytes for array in model.parameters.values())
    print(X.data.nbytes + X.indices.nbytes + X.indptr.nbytes, parameters, y.nbytes, peak)


def draw(rows: int, folder: Path) -> None:
    """Write random rows, and labels of both kinds, which are made piece by piece."""
    random, each = np.random.default_rng(1), MANY // WIDTH
    index, value = np.empty((rows, WIDTH), np.int32), np.empty((rows, WIDTH), np.float32)
    y, weight = np.empty(rows), random.normal(size=MANY).astype(np.float32)
    for part in parts(rows):
        size = part.stop - part.start
        index[part] = random.integers(0, each, (size, WIDTH), dtype=np.int32) + each * np.arange(WIDTH, dtype=np.int32)
        value[part] = random.random((size, WIDTH), dtype=np.float32) + 0.5
        y[part] = (weight[index[part]] * value[part]).sum(axis=1)
    ends = np.arange(0, index.size + 1, WIDTH, dtype=np.int32)
    classes = (y > 0).astype(float)
    made = {"value": value.ravel(), "index": index.ravel(), "ends": ends, "numbers": y, "classes": classes}
    for name, array in made.items():
        np.save(folder / f"{name}.npy", array)


def parts(rows: int) -> Iterator[slice]:
    """Slices of some rows each."""
    size = 1 << 14
    return (slice(begin, min(begin + size, rows)) for begin in range(0, rows, size))


def of_status(name: str) -> int:
    """Bytes of this process, as the system has them."""
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith(name)) * 1024


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("table", choices=["speed", "memory", "draw"])
    parser.add_argument("--nonzeros", type=float, default=1e8, help="entries of X")
    parser.add_argument("--shape", type=int, help="only this line of the table of memory, as numbers of bytes")
    parser.add_argument("--folder", type=Path, help="where the rows of the table of memory are")
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")
    if chosen.table == "speed":
        speed()
    elif chosen.table == "draw":
        draw(int(chosen.nonzeros) // WIDTH, chosen.folder)
    elif chosen.shape is None:
        memory(int(chosen.nonzeros))
    else:
        measured(chosen.folder, chosen.shape)


if __name__ == "__main__":
    main()
