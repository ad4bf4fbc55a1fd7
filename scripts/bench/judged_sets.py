"""The data sets on which defaults are judged: their training rows as lines of text, made from files at hand."""

import bz2
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path

import drawn_sets
import numpy as np
from drawn_sets import Lines

# Test rows of split ui of MovieLens 100K are lines TEST_ROWS (i - 1) to TEST_ROWS i of u.data.
TEST_ROWS = 20_000
DAY = 24 * 60 * 60


def first(path: Path, rows: int) -> Lines:
    """The first lines of a file."""
    with bz2.open(path) if path.suffix == ".bz2" else path.open("rb") as file:
        return list(islice(file, rows))


def spaced(path: Path, rows: int) -> Lines:
    """Evenly spaced lines of a file, or all of them."""
    lines = first(path, 1 << 40)
    return lines if len(lines) <= rows else [lines[i] for i in np.linspace(0, len(lines) - 1, rows).astype(int)]


def shortened(line: bytes, features: int) -> bytes:
    """Return a row with only its first features."""
    return b" ".join(line.split()[: 1 + features]) + b"\n"


def split_of(path: Path, number: int) -> Lines:
    """The training rows of split u`number` of u.data: user and item as features with fields."""
    users, items, ratings, _ = np.loadtxt(path, dtype=np.int64).T
    rows = np.delete(np.arange(len(users)), slice(TEST_ROWS * (number - 1), TEST_ROWS * number))
    return [b"%d 0:%d:1 1:%d:1\n" % (ratings[i], users[i] - 1, users.max() + items[i] - 1) for i in rows]


def counts(path: Path, least: int = 1) -> Lines:
    """The number of ratings per user and day of u.data: user, weekday, and the week as features with fields."""
    users, _, _, seconds = np.loadtxt(path, dtype=np.int64).T
    days = seconds // DAY
    pairs, times = np.unique(np.stack([users, days], axis=1), axis=0, return_counts=True)
    week, weekday = (pairs[:, 1] - days.min()) // 7, pairs[:, 1] % 7
    u, w = users.max() + 1, 7
    rows = zip(times, pairs[:, 0], weekday, week, strict=True)
    return [b"%d 0:%d:1 1:%d:1 2:%d:1\n" % (n, user, u + day, u + w + k) for n, user, day, k in rows if n >= least]


def dense(name: str) -> Lines:
    """A data set that scikit-learn carries within itself, with standardized columns."""
    from sklearn import datasets

    data = getattr(datasets, f"load_{name}")()
    deviation = data.data.std(axis=0)
    columns = (data.data - data.data.mean(axis=0)) / np.where(deviation > 0, deviation, 1)
    rows = zip(data.target, columns, strict=True)
    return [f"{y:g} {' '.join(f'{j}:{v:.6g}' for j, v in enumerate(x) if v)}\n".encode() for y, x in rows]


# Name -> the file that it needs ("": none) and a function of its path.
SETS: dict[str, tuple[str, Callable[[Path], Lines]]] = {
    **{f"ctr{rows}": ("ctr.train.ffm", lambda path, rows=rows: first(path, rows)) for rows in (2_000, 7_000, 30_000)},
    "ctr250000": ("ctr.train.ffm", lambda path: first(path, 250_000)),
    "reco": ("reco.train.ffm", lambda path: spaced(path, 50_000)),
    # Of the words of each row, some, because poly2 visits each pair of them.
    "text": ("text.train.libsvm", lambda path: [shortened(line, 60) for line in spaced(path, 10_000)]),
    **{f"u{n}": ("ml-100k/raw/u.data", lambda path, n=n: split_of(path, n)) for n in range(1, 6)},
    "side": ("ml-100k/side.u1.train.ffm", lambda path: spaced(path, 50_000)),
    "u7000": ("ml-100k/u1.train.ffm", lambda path: spaced(path, 7_000)),
    "counts": ("ml-100k/raw/u.data", counts),
    "adult": ("adult/train.ffm", lambda path: spaced(path, 50_000)),
    "adult3000": ("adult/train.ffm", lambda path: spaced(path, 3_000)),
    "ijcnn1": ("ijcnn1/ijcnn1.trn.bz2", lambda path: spaced(path, 20_000)),
    "hofm": ("ml-100k/hofm.train.libsvm", lambda path: spaced(path, 50_000)),
    "banana": ("banana/train.libsvm", lambda path: spaced(path, 50_000)),
    **{
        name: (f"regression/{name}/train.std.libsvm", lambda path: spaced(path, 50_000))
        for name in ("abalone", "cadata", "cpusmall", "diabetes")
    },
    **{name: ("", lambda _, name=name: dense(name)) for name in ("digits", "breast_cancer", "wine")},
    **{
        name: ("", lambda _, make=make: make())
        for name, make in {
            "tags": drawn_sets.tag_counts,
            "plays": drawn_sets.log_plays,
            "context20000": lambda: drawn_sets.context_clicks(20_000),
            "context200000": lambda: drawn_sets.context_clicks(200_000),
            "docstrings": drawn_sets.texts,
            "bands": drawn_sets.bands,
            "houses": drawn_sets.houses,
        }.items()
    },
}

# Sets that are tables, whose first line names the columns -> the options that they need.
OF_TABLES = {"bands": f"--label {drawn_sets.LABEL} --loss softmax", "houses": f"--label {drawn_sets.LABEL}"}


def lines_of(name: str, folders: Sequence[Path]) -> Lines:
    """The rows of a set; none if its file is in none of the folders."""
    file, make = SETS[name]
    for folder in folders:
        if not file or (folder / file).exists():
            return make(folder / file)
    return []
