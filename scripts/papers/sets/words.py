"""Planted documents in the shape of E2006-tfidf ([SH], [PN]), which could not be had: a stand-in, made by a generator.

Each row is a document: far more features than rows, of which few occur in a row, with values log(1 + count), and a
real label that depends on few words, by main effects and by pairs.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fmcli.data.dataset import Dataset
from sets.dense import Pair
from sets.raw import Raw

WORDS_PER_ROW = 9.35  # training rows; that of E2006-tfidf, which has 150,360 words and 16,087 training rows
TEST_SHARE = 0.25  # test rows for each training row
SPREAD = 0.5  # the standard deviation of the logarithm of the length of a document
FACTORS, NOISE = 3, 0.2  # the rank of the weights of pairs, and the share of noise in the variance of the label


class Planted(NamedTuple):
    """What documents look like, and which of their words matter.

    train : the number of documents for training.
    length : the median number of words of a document.
    frequent : how many of the most frequent words do not matter.
    relevant : how many of the next words have main effects.
    hierarchical : whether the pairs that matter are of these words, or of as many others, without main effects.
    tied : whether main effects are those of shfm or sha2: the products of the words' factors with context factors.
    """

    train: int
    length: int
    frequent: int
    relevant: int
    hierarchical: bool = True
    tied: bool = False


class Drawn(NamedTuple):
    """Documents for training and for testing, and what was planted.

    words, effects : the words with main effects, and these.
    """

    pair: Pair
    words: NDArray[np.int64]
    effects: NDArray[np.float64]


def documents(raw: Raw, seed: int, planted: Planted) -> Pair:
    """Documents for training and for testing, with a planted label of mean 0 and variance 1: main effects and pairs of
    words in equal shares, and noise."""
    return with_effects(raw, seed, planted).pair


def with_effects(raw: Raw, seed: int, planted: Planted) -> Drawn:
    """What `documents` returns, with the planted main effects."""
    train, length, frequent, relevant, hierarchical, tied = planted
    random, rows, features = np.random.default_rng(seed), round((1 + TEST_SHARE) * train), round(WORDS_PER_ROW * train)
    counts = [drawn(random, features, length) for _ in range(rows)]
    indptr = np.cumsum([0, *(len(words) for words, _ in counts)])
    index = np.concatenate([words for words, _ in counts])
    value = np.log1p(np.concatenate([times for _, times in counts]))
    words = frequent + random.permutation(2 * relevant)
    mains, partners = words[:relevant], words[:relevant] if hierarchical else words[relevant:]
    x = np.zeros((rows, frequent + 2 * relevant))
    row, few = np.repeat(np.arange(rows), np.diff(indptr)), index < x.shape[1]
    x[row[few], index[few]] = value[few]
    weights, factors = random.normal(size=relevant), random.normal(size=(relevant, FACTORS))
    signs = random.choice((-1.0, 1.0), FACTORS)
    if tied:
        weights = factors @ (signs * random.normal(size=FACTORS))
    main, a = x[:, mains] @ weights, x[:, partners, None] * factors
    pairs = ((a.sum(axis=1) ** 2 - (a**2).sum(axis=1)) / 2) @ signs
    both = standard(main) + standard(pairs)
    label = (1 - NOISE) ** 0.5 * standard(both) + NOISE**0.5 * random.normal(size=rows)
    data = Dataset(indptr, index.astype(np.int32), value.astype(np.float32), label, features)
    pairs_of = "the same" if hierarchical else "other"
    kind = ", tied main effects" if tied else ""
    raw.note(f"planted documents of {length} words, pairs of {pairs_of} words{kind}, seed {seed}", data)
    numbers = np.arange(rows, dtype=np.int32)
    effects = weights * (1 - NOISE) ** 0.5 / (main.std() * both.std())
    return Drawn(Pair(data.take(numbers[:train]), data.take(numbers[train:])), mains, effects)


def drawn(random: np.random.Generator, features: int, length: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The words of a document in increasing order, and how often each occurs: their frequencies follow Zipf's law."""
    tokens = round(length * np.exp(SPREAD * random.normal()))
    ranks = np.exp(random.random(tokens) * np.log(features + 1)).astype(np.int64)  # P(rank) is about 1 / rank
    return np.unique(ranks - 1, return_counts=True)


def standard(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return (values - values.mean()) / values.std()
