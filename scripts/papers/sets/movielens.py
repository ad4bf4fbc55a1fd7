"""MovieLens 100K: ratings with one-hot users and films, attributes of users and films, and the links of [HO]."""

from fractions import Fraction
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fmcli.data.dataset import Dataset
from fmcli.data.reader import read
from fmcli.data.tables.named import Named
from fmcli.data.tables.schema import Schema
from fmcli.prepare.encode import Encoding
from fmcli.prepare.negatives import drawn
from fmcli.prepare.split import divided
from sets.dense import Pair
from sets.raw import Raw

SHARES = Fraction(7), Fraction(3)  # for training and testing, of [SGL]
COLUMNS = "user", "film", "stars", "time"  # of u.data
FOLD_ROWS = 20_000  # of u1 to u5
# The first age of each group but the first, and the first year of each group of films but that of unknown years.
AGES = (18, 25, 35, 45, 50, 56)
YEARS = (1900, 1930, 1940, 1950, 1960, 1970, 1980, 1990, 1995)
FIRST_GENRE = 5  # the column of u.item
FIVE_STARS = 5
TEST_NEGATIVES = 100_000


class Ratings(NamedTuple):
    """(ratings) The users and films, numbered from 0, and the ratings 1 to 5, in the order of the file."""

    user: NDArray[np.int64]
    film: NDArray[np.int64]
    stars: NDArray[np.float64]


def ratings(raw: Raw) -> Ratings:
    table = np.loadtxt(raw.files("u.data")[0], dtype=np.int64)
    return Ratings(table[:, 0] - 1, table[:, 1] - 1, table[:, 2].astype(np.float64))


def one_hot(raw: Raw) -> Dataset:
    """All ratings as rows with a feature for the user and one for the film, numbered from 0: what `fmcli convert
    --numbers` writes of u.data."""
    path = raw.files("u.data")[0]
    numbers, chunks = Encoding(Named(COLUMNS[2], categorical=COLUMNS[:2], form=Schema({}, names=COLUMNS))).numbered(
        path
    )
    with TemporaryDirectory() as folder:
        text = f"{folder}/ratings.libsvm"
        with open(text, "wb") as file:
            file.writelines(chunk.text for chunk in chunks)
        data = read([text]).dataset
    counted_from_0 = Dataset(data.indptr, data.index - 1, None, data.label, len(numbers))
    return raw.note("MovieLens 100K, one-hot", counted_from_0)


def u_split(data: Dataset, fold: int) -> Pair:
    """The split u1 to u5 of GroupLens: each fifth of the file in turn is for testing."""
    test = np.arange(FOLD_ROWS * (fold - 1), FOLD_ROWS * fold, dtype=np.int32)
    return Pair(data.take(np.setdiff1d(np.arange(data.rows, dtype=np.int32), test)), data.take(test))


def random_split(data: Dataset, seed: int) -> Pair:
    """A random 70 % of the ratings for training, and the others for testing."""
    train, test = (np.sort(part).astype(np.int32) for part in divided(data.rows, SHARES, np.random.default_rng(seed)))
    return Pair(data.take(train), data.take(test))


def user_attributes(raw: Raw) -> NDArray[np.bool_]:
    """(users, 49) One-hot gender, age group, occupation, and first character of the zip code."""
    table = [line.split("|") for line in lines(raw, "u.user")]
    ages = np.searchsorted(AGES, [int(row[1]) for row in table], side="right")
    return np.hstack(
        [
            indicators([row[2] for row in table]),
            indicators(ages),
            indicators([row[3] for row in table]),
            indicators([row[4][0] for row in table]),
        ]
    )


def film_attributes(raw: Raw) -> NDArray[np.bool_]:
    """(films, 29) One-hot group of years (one is for unknown years), and genres."""
    table = [line.split("|") for line in lines(raw, "u.item")]
    years = np.searchsorted(YEARS, [int(row[2][-4:] or 0) for row in table], side="right")
    genres = np.array([[cell == "1" for cell in row[FIRST_GENRE:]] for row in table])
    return np.hstack([indicators(years), genres])


def lines(raw: Raw, name: str) -> list[str]:
    with open(raw.files(name)[0], encoding="latin-1") as file:
        return file.read().splitlines()


def indicators(values: object) -> NDArray[np.bool_]:
    """A column for each distinct value, in increasing order."""
    distinct, place = np.unique(values, return_inverse=True)
    return place[:, None] == np.arange(len(distinct))


def pairs(
    users: NDArray[np.bool_],
    films: NDArray[np.bool_],
    user: NDArray[np.int64],
    film: NDArray[np.int64],
    label: NDArray[np.float64],
) -> Dataset:
    """Rows with the attributes of a user and of a film."""
    x = np.hstack([users[user], films[film]])
    row, column = np.nonzero(x)
    indptr = np.searchsorted(row, np.arange(len(x) + 1)).astype(np.int64)
    return Dataset(indptr, column.astype(np.int32), None, label, x.shape[1])


def links(raw: Raw, seed: int) -> Pair:
    """The links of [HO]: five-star ratings, half of them for training, with as many negatives.

    Negatives are random pairs of a user and a film without a five-star rating, each at most once. The paper tests on
    all that are left, of which TEST_NEGATIVES are drawn here; this does not change the expected AUC.
    """
    found, generator = ratings(raw), np.random.default_rng(seed)
    users, films = user_attributes(raw), film_attributes(raw)
    linked = found.stars == FIVE_STARS
    positive = generator.permutation(found.user[linked] * len(films) + found.film[linked])
    half = len(positive) // 2
    negative = drawn(half + TEST_NEGATIVES, positive, len(users) * len(films), generator)

    def labelled(positive: NDArray[np.int64], negative: NDArray[np.int64]) -> Dataset:
        code = np.concatenate([positive, negative])
        label = np.repeat([1.0, -1.0], [len(positive), len(negative)])
        return pairs(users, films, code // len(films), code % len(films), label)

    train = raw.note(f"links of MovieLens 100K, seed {seed}, training", labelled(positive[:half], negative[:half]))
    return Pair(train, labelled(positive[half:], negative[half:]))


def cold_films(raw: Raw, seed: int) -> Pair:
    """Ratings with attributes of users and films; those of a random tenth of the films are for testing."""
    found = ratings(raw)
    films = film_attributes(raw)
    data = pairs(user_attributes(raw), films, found.user, found.film, found.stars)
    raw.note("MovieLens 100K, attributes", data)
    unseen = np.random.default_rng(seed).permutation(len(films))[: len(films) // 10]
    cold = np.isin(found.film, unseen)
    train, test = (np.flatnonzero(part).astype(np.int32) for part in (~cold, cold))
    return Pair(data.take(train), data.take(test))
