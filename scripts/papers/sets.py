"""The sets of the experiments, made from raw files: by name, the splits of each into training and test rows."""

import hashlib
import time
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import planted
from numpy.typing import NDArray
from planted import Pair

from fmcli.data.dataset import Dataset
from fmcli.data.tables.named import ColumnRoles
from fmcli.data.tables.schema import Schema
from fmcli.data.text.reader import read
from fmcli.prepare.encode import Encoding
from fmcli.prepare.negatives import drawn as negatives
from fmcli.prepare.split import divided

SEEDS, DIGITS = 5, 12  # splits of most sets; digits of a digest
Numbers = NDArray[np.int64]
Flags = NDArray[np.bool_]


class MissingDataError(Exception):
    """A raw file is in none of the folders."""


class Raw:
    """Folders with the raw files of data sets.

    built : what has been built, by name: the numbers of rows and features, and a digest. Equal digests mean equal data.
    """

    def __init__(self, *folders: Path) -> None:
        self.folders = folders
        self.built: dict[str, dict[str, Any]] = {}

    def files(self, *patterns: str) -> list[str]:
        """Return the files of the first folder that match the first pattern with any, in alphabetical order. Raises
        MissingDataError."""
        for pattern in patterns:
            for folder in self.folders:
                if found := sorted(folder.glob(f"**/{pattern}")):
                    return list(map(str, found))
        raise MissingDataError(f"{' and '.join(map(str, self.folders))} have no file {' or '.join(patterns)}")

    def note(self, name: str, data: Dataset) -> Dataset:
        """Remember the digest of the data: of the types, shapes and bytes of their arrays. Returns the data."""
        digest = hashlib.sha256()
        value = np.ones(data.nnz, dtype=np.float32) if data.value is None else data.value
        for array in (data.indptr, data.index, value, data.field, data.label):
            if array is not None:
                digest.update(f"{array.dtype.str} {array.shape}".encode())
                digest.update(np.ascontiguousarray(array).tobytes())
        self.built[name] = {"rows": data.rows, "features": data.features, "digest": digest.hexdigest()[:DIGITS]}
        return data


def held_out(data: Dataset, share: float, seed: int = 0) -> Pair:
    """Return the rows to train on, and a random share of rows that are held out."""
    order = np.random.default_rng(seed).permutation(data.rows).astype(np.int32)
    held = round(share * data.rows)
    return Pair(data.take(np.sort(order[held:])), data.take(np.sort(order[:held])))


def folds(data: Dataset, count: int) -> list[Pair]:
    """Return the rows to train on and the rows that are held out, for each random fold."""
    order = np.random.default_rng(0).permutation(data.rows).astype(np.int32)
    return [
        Pair(data.take(np.sort(np.setdiff1d(order, part))), data.take(np.sort(part)))
        for part in np.array_split(order, count)
    ]


# Dense columns: Banana, IJCNN and the regression sets.

IJCNN = ("ijcnn1.trn.bz2", "ijcnn1.bz2", "ijcnn1"), ("ijcnn1.tst.bz2", "ijcnn1.t.bz2", "ijcnn1.t")
IJCNN_TRAIN = 49_990  # rows, which come first


class Columns(NamedTuple):
    """Rows with dense columns: x (rows, columns), without columns of zeros; label (rows)."""

    x: NDArray[np.float64]
    label: NDArray[np.float64]


def columns(raw: Raw, name: str, files: list[str]) -> Columns:
    """Return the rows of all files, in their order."""
    data = raw.note(name, read(files).dataset)
    x = np.zeros((data.rows, data.features))
    x[np.repeat(np.arange(data.rows), np.diff(data.indptr)), data.index] = 1 if data.value is None else data.value
    return Columns(x[:, x.any(axis=0)], data.label)


def regression(raw: Raw, name: str) -> Columns:
    return columns(raw, name, raw.files(f"{name}/t[er]*[!d].libsvm", f"{name}.libsvm", name))


def standardized(found: Columns, train: Numbers, test: Numbers, labels: bool = False) -> Pair:
    """Return these rows, with columns (and labels) scaled to mean 0 and variance 1 in the training rows."""
    x = ((found.x - found.x[train].mean(axis=0)) / found.x[train].std(axis=0)).astype(np.float32)
    label = (found.label - found.label[train].mean()) / found.label[train].std() if labels else found.label

    def sparse(x: NDArray[np.float32], label: NDArray[np.float64]) -> Dataset:
        row, column = np.nonzero(x)
        indptr = np.searchsorted(row, np.arange(len(x) + 1)).astype(np.int64)
        return Dataset(indptr, column.astype(np.int32), x[row, column], label, x.shape[1])

    return Pair(sparse(x[train], label[train]), sparse(x[test], label[test]))


def two_thirds(found: Columns, labels: bool = False) -> Iterator[Pair]:
    """Yield random two thirds of the rows for training, and the others for testing."""
    for seed in range(SEEDS):
        train, test = divided(len(found.x), (Fraction(2), Fraction(1)), np.random.default_rng(seed))
        yield standardized(found, train, test, labels)


def diabetes(raw: Raw) -> Dataset:
    found = regression(raw, "diabetes")
    everything = np.arange(len(found.x))
    return standardized(found, everything, everything[:1], labels=True).train


def pair_of_files(raw: Raw, name: str, train: tuple[str, ...], test: tuple[str, ...], fields: bool = False) -> Pair:
    """Return the rows of the first files that match the patterns, with as many features in both parts."""
    parts = [read(raw.files(*patterns)[:1], keep_fields=fields).dataset for patterns in (train, test)]
    features = max(part.features for part in parts)
    first, second = (part.changed(features=features) for part in parts)
    return Pair(raw.note(name, first), second)


def standardized_files(raw: Raw, name: str) -> Pair:
    """Return a regression set of the files NAME/train.libsvm and NAME/test.libsvm."""
    train, test = (raw.files(f"{name}/{part}.libsvm")[:1] for part in ("train", "test"))
    found = columns(raw, f"{name}, training rows first", train + test)
    return standardized(found, *np.split(np.arange(len(found.x)), [read(train).dataset.rows]), labels=True)


# MovieLens 100K.

RATINGS, FOLD = ("user", "film", "stars", "time"), 20_000  # columns of u.data, test rows of u1 to u5
# The first age of each group but the first, and the first year of each group of films with a known year.
AGES, YEARS = (18, 25, 35, 45, 50, 56), (1900, 1930, 1940, 1950, 1960, 1970, 1980, 1990, 1995)
FIRST_GENRE, FIVE_STARS, USER_FEATURES, TEST_NEGATIVES = 5, 5, 49, 100_000
GOOD, PER_LINK, GROUP = 4, 4, 10  # stars of a link, other films for each link in training, users of a group


def ratings(raw: Raw) -> tuple[Numbers, Numbers, NDArray[np.float64]]:
    """Return the users and films of all ratings, numbered from 0, and the stars."""
    table = np.loadtxt(raw.files("u.data")[0], dtype=np.int64)
    return table[:, 0] - 1, table[:, 1] - 1, table[:, 2].astype(np.float64)


def one_hot(raw: Raw) -> Dataset:
    """Return the ratings with a feature for the user and one for the film: what `fmcli convert --numbers --ignore time`
    writes of u.data, numbered from 0."""
    user, film, stars, time = RATINGS
    form = ColumnRoles(stars, categorical=(user, film), ignored=(time,), form=Schema({}, names=RATINGS))
    numbers, chunks = Encoding(form).numbered(raw.files("u.data")[0])
    with TemporaryDirectory() as folder:
        text = f"{folder}/ratings.libsvm"
        with open(text, "wb") as file:
            file.writelines(chunk.text for chunk in chunks)
        data = read([text]).dataset
    return raw.note("MovieLens 100K, one-hot", Dataset(data.indptr, data.index - 1, None, data.label, len(numbers)))


def in_folds(data: Dataset, count: int) -> list[Pair]:
    """Return the splits whose test rows are the first fifths of the file, u1 to u5 of all ratings."""
    fold = np.arange(data.rows) // FOLD
    return [
        Pair(*(data.take(np.flatnonzero(rows).astype(np.int32)) for rows in (fold != i, fold == i)))
        for i in range(count)
    ]


def seventy(raw: Raw) -> Iterator[Pair]:
    """Yield random 70 % of the ratings for training, and the others for testing."""
    data = one_hot(raw)
    for seed in range(SEEDS):
        parts = divided(data.rows, (Fraction(7), Fraction(3)), np.random.default_rng(seed))
        yield Pair(*(data.take(np.sort(part).astype(np.int32)) for part in parts))


def indicators(values: object) -> Flags:
    """Return a column for each distinct value, in increasing order."""
    distinct, place = np.unique(values, return_inverse=True)
    return place[:, None] == np.arange(len(distinct))


def attributes(raw: Raw) -> tuple[Flags, Flags]:
    """Return (users, 49) gender, age group, occupation and first character of the zip code, and (films, 29) group of
    years, with a group for unknown years, and genres."""
    users, films = (
        [line.split("|") for line in Path(raw.files(name)[0]).read_text("latin-1").splitlines()]
        for name in ("u.user", "u.item")
    )
    ages = np.searchsorted(AGES, [int(row[1]) for row in users], side="right")
    years = np.searchsorted(YEARS, [int(row[2][-4:] or 0) for row in films], side="right")
    of_users = [row[2] for row in users], ages, [row[3] for row in users], [row[4][0] for row in users]
    genres = np.array([[cell == "1" for cell in row[FIRST_GENRE:]] for row in films])
    return np.hstack([indicators(one) for one in of_users]), np.hstack([indicators(years), genres])


def with_attributes(users: Flags, films: Flags, label: NDArray[np.float64]) -> Dataset:
    """Return rows with the attributes of a user and of a film."""
    x = np.hstack([users, films])
    row, column = np.nonzero(x)
    indptr = np.searchsorted(row, np.arange(len(x) + 1)).astype(np.int64)
    return Dataset(indptr, column.astype(np.int32), None, label, x.shape[1])


def links(raw: Raw, seed: int) -> Pair:
    """Return the links of [HO]: five-star ratings, half of them for training, with as many negatives, which are random
    pairs of a user and a film without a five-star rating. The paper tests on all remaining pairs. Here,
    TEST_NEGATIVES of them are drawn, which does not change the expected AUC."""
    (user, film, stars), random, (users, films) = ratings(raw), np.random.default_rng(seed), attributes(raw)
    linked = stars == FIVE_STARS
    positive = random.permutation(user[linked] * len(films) + film[linked])
    half = len(positive) // 2
    negative = negatives(half + TEST_NEGATIVES, positive, len(users) * len(films), random)

    def labeled(positive: Numbers, negative: Numbers) -> Dataset:
        code = np.concatenate([positive, negative])
        label = np.repeat([1.0, -1.0], [len(positive), len(negative)])
        return with_attributes(users[code // len(films)], films[code % len(films)], label)

    train = raw.note(f"links of MovieLens 100K, seed {seed}, training", labeled(positive[:half], negative[:half]))
    return Pair(train, labeled(positive[half:], negative[half:]))


def with_constants(data: Dataset, count: int) -> Dataset:
    """Return the rows with further features that are 1 in all of them, so their factors start like others."""
    size, place = np.diff(data.indptr), np.repeat(data.indptr[1:], count)
    index = np.insert(data.index, place, np.tile(data.features + np.arange(count, dtype=np.int32), data.rows))
    indptr = np.concatenate([[0], np.cumsum(size + count)]).astype(np.int64)
    return Dataset(indptr, index, None, data.label, data.features + count)


def unseen_films(raw: Raw) -> Iterator[Pair]:
    """Yield ratings with attributes of users and films; the ratings of a random tenth of the films are for testing."""
    (user, film, stars), (users, films) = ratings(raw), attributes(raw)
    data = raw.note("MovieLens 100K, attributes", with_attributes(users[user], films[film], stars))
    for seed in range(SEEDS):
        unseen = np.random.default_rng(seed).permutation(len(films))[: len(films) // 10]
        cold = np.isin(film, unseen)
        yield Pair(*(data.take(np.flatnonzero(part).astype(np.int32)) for part in (~cold, cold)))


# Links in groups of rows, which are ranked.


def rated(raw: Raw) -> Pair:
    """Return the rows of u1 in groups by user; ratings of GOOD and above are links."""
    parts = in_folds(one_hot(raw), 1)[0][:2]
    return Pair(*(one.changed(label=np.where(one.label >= GOOD, 1.0, 0.0), group=one.index[::2]) for one in parts))


def all_films(pair: Pair) -> Pair:
    """Return the links of rated films beside films without a rating: PER_LINK random ones for each link in training,
    all films that the user has not rated there in the test."""
    train, test = pair[:2]
    users = 1 + int(max(data.index[::2].max() for data in (train, test)))
    known, liked = (np.zeros((users, train.features), dtype=np.bool_) for _ in range(2))
    known[train.index[::2], train.index[1::2]] = True
    linked = test.label > 0
    liked[test.index[::2][linked], test.index[1::2][linked]] = True
    random = np.random.default_rng(0)
    user, film, label = [], [], []
    for number in np.unique(train.index[::2]):
        found = train.index[1::2][(train.index[::2] == number) & (train.label > 0)]
        others = np.setdiff1d(np.arange(users, train.features), np.flatnonzero(known[number]))
        chosen = random.choice(others, min(len(others), PER_LINK * len(found)), replace=False)
        user.append(np.full(len(found) + len(chosen), number))
        film += [found, chosen]
        label.append(np.repeat([1.0, 0.0], [len(found), len(chosen)]))
    tested = np.argwhere(~known[:, users:] & liked.any(axis=1)[:, None]) + np.array([0, users])

    def rows(user: Numbers, film: Numbers, label: NDArray[np.float64]) -> Dataset:
        index = np.stack([user, film], axis=1).astype(np.int32).ravel()
        indptr = 2 * np.arange(len(user) + 1)
        return Dataset(indptr, index, None, label, train.features, group=user.astype(np.int32))

    trained = rows(np.concatenate(user), np.concatenate(film), np.concatenate(label))
    return Pair(trained, rows(*tested.T, liked[tuple(tested.T)].astype(np.float64)))


def by_features(pair: Pair) -> Pair:
    """Return the links of [HO], in groups of rows with the same features of the user."""

    def grouped(data: Dataset) -> Dataset:
        rows, of_user = np.repeat(np.arange(data.rows), np.diff(data.indptr)), data.index < USER_FEATURES
        users = np.zeros((data.rows, USER_FEATURES), dtype=np.bool_)
        users[rows[of_user], data.index[of_user]] = True
        return data.changed(group=np.unique(users, axis=0, return_inverse=True)[1].ravel().astype(np.int32))

    return Pair(*map(grouped, pair[:2]))


def grouped(pair: Pair) -> Pair:
    """Return the rows, where GROUP random users form a group in training."""
    order = np.random.default_rng(0).permutation(1 + int(pair.train.group.max()))
    return pair._replace(train=pair.train.changed(group=(order // GROUP)[pair.train.group].astype(np.int32)))


def _files(name: str, stem: str, end: str) -> Callable[[Raw], list[Pair]]:
    """Return the builder of a set of the files STEM.train and STEM.test, for as many seeds."""
    files = (f"{stem}train.{end}",), (f"{stem}test.{end}",)
    return lambda raw: [pair_of_files(raw, f"{name}, training", *files, end == "ffm")] * SEEDS


REGRESSION = ("abalone", "cadata", "cpusmall", "diabetes")
ADULT = ("adult/train.libsvm", "a9a"), ("adult/test.libsvm", "a9a.t")
SETS: dict[str, Callable[[Raw], Any]] = {
    "diabetes, all rows": lambda raw: [Pair(diabetes(raw))] * SEEDS,
    **{
        f"diabetes, sample {i + 1}": lambda raw, i=i: [Pair(held_out(diabetes(raw), 0.75, i).test)] * 60
        for i in range(SEEDS)
    },
    **{f"{one}, two thirds": lambda raw, one=one: two_thirds(regression(raw, one), True) for one in REGRESSION},
    "cpusmall, one split": lambda raw: [next(two_thirds(regression(raw, "cpusmall"), True))] * 9,
    "Banana two thirds": lambda raw: two_thirds(
        columns(raw, "Banana", raw.files("banana/t[er]*.libsvm", "banana/banana*"))
    ),
    "IJCNN two thirds": lambda raw: two_thirds(columns(raw, "IJCNN", [raw.files(*one)[0] for one in IJCNN])),
    "IJCNN Table 1": lambda raw: (
        [
            standardized(
                found := columns(raw, "IJCNN", [raw.files(*one)[0] for one in IJCNN]),
                *np.split(np.arange(len(found.x)), [IJCNN_TRAIN]),
            )
        ]
        * SEEDS
    ),
    "u1 to u5": lambda raw: in_folds(one_hot(raw), 5),
    "70 %": seventy,
    "70 %, held out": lambda raw: [held_out(next(seventy(raw)).train, 0.25)],
    "unseen films": unseen_films,
    "links": lambda raw: [links(raw, seed) for seed in range(SEEDS)],
    **{
        f"links, order {order}": lambda raw, order=order: [
            Pair(*(with_constants(part, order - 1) for part in links(raw, seed)[:2])) for seed in range(1, SEEDS + 1)
        ]
        for order in range(1, 6)
    },
    "ratings": lambda raw: [rated(raw)] * SEEDS,
    "films": lambda raw: [all_films(rated(raw))] * SEEDS,
    "features": lambda raw: [by_features(links(raw, 0))] * SEEDS,
    "ratings, held out": lambda raw: in_folds(rated(raw).train, 4),
    "films, held out": lambda raw: list(map(all_films, in_folds(rated(raw).train, 4))),
    "ratings, held out, by 10 users": lambda raw: list(map(grouped, in_folds(rated(raw).train, 4))),
    "films, held out, by 10 users": lambda raw: [grouped(all_films(one)) for one in in_folds(rated(raw).train, 4)],
    "ratings, by 10 users": lambda raw: [grouped(rated(raw))] * SEEDS,
    "adult, one-hot": lambda raw: [pair_of_files(raw, "adult, training", *ADULT)] * SEEDS,
    "MovieLens 100K, u1": lambda raw: in_folds(one_hot(raw), 1) * SEEDS,
    "u1 with attributes": _files("u1 with attributes", "side.u1.", "ffm"),
    "links of MovieLens 100K": _files("links of MovieLens 100K", "hofm.", "libsvm"),
    "adult": _files("adult with fields", "adult/", "ffm"),
    "IJCNN": lambda raw: [pair_of_files(raw, "IJCNN, training", *IJCNN)] * SEEDS,
    "Banana": _files("Banana", "banana/", "libsvm"),
    **{name: lambda raw, name=name: [standardized_files(raw, name)] * SEEDS for name in REGRESSION},
    "ctr": _files("ctr", "ctr.", "ffm"),
    "reco": _files("reco", "reco.", "libsvm"),
    **planted.SETS,
}


class Sets(dict[str, list[Pair]]):
    """The splits of sets by name, which are built when they are first used. seconds : the CPU seconds of building."""

    def __init__(self, raw: Raw) -> None:
        self.raw, self.seconds = raw, {}

    def __missing__(self, name: str) -> list[Pair]:
        begin = time.process_time()
        self[name] = list(SETS[name](self.raw))
        self.seconds[name] = time.process_time() - begin
        return self[name]
