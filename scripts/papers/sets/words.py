"""Planted documents in the shape of E2006-tfidf ([SH], [PN]), which could not be had: a stand-in, made by a generator.

Each row is a document: far more features than rows, of which few occur in a row, with values log(1 + count), and a
real label that depends on few words, by main effects and by pairs.
"""

import numpy as np
from numpy.typing import NDArray

from fmcli.data.dataset import Dataset
from sets.dense import Pair
from sets.raw import Raw

WORDS_PER_ROW = 9.35  # training rows; that of E2006-tfidf, which has 150,360 words and 16,087 training rows
TEST_SHARE = 0.25  # test rows for each training row
LENGTH, SPREAD = 400, 0.5  # the median number of words of a document, and the standard deviation of its logarithm
FREQUENT = 100  # the most frequent words, which tell nothing
RELEVANT, FACTORS, NOISE = 20, 3, 0.2  # relevant words, rank of their pairs, and the share of noise in the variance


def documents(raw: Raw, seed: int, train: int, hierarchical: bool = True) -> Pair:
    """So many documents for training, and others for testing, with a planted label of mean 0 and variance 1.

    The label is the sum of main effects of RELEVANT words and of the weights of pairs of words, in equal shares of its
    variance, and noise. The pairs are of the same words if `hierarchical`, else of as many other words, which have no
    main effects.
    """
    random, rows, features = np.random.default_rng(seed), round((1 + TEST_SHARE) * train), round(WORDS_PER_ROW * train)
    counts = [drawn(random, features) for _ in range(rows)]
    indptr = np.cumsum([0, *(len(words) for words, _ in counts)])
    index = np.concatenate([words for words, _ in counts])
    value = np.log1p(np.concatenate([times for _, times in counts]))
    words = FREQUENT + random.permutation(2 * RELEVANT)
    mains, partners = words[:RELEVANT], words[:RELEVANT] if hierarchical else words[RELEVANT:]
    x = np.zeros((rows, FREQUENT + 2 * RELEVANT))
    row, few = np.repeat(np.arange(rows), np.diff(indptr)), index < x.shape[1]
    x[row[few], index[few]] = value[few]
    main = x[:, mains] @ random.normal(size=RELEVANT)
    a = x[:, partners, None] * random.normal(size=(RELEVANT, FACTORS))
    pairs = ((a.sum(axis=1) ** 2 - (a**2).sum(axis=1)) / 2) @ random.choice((-1.0, 1.0), FACTORS)
    signal = standard(standard(main) + standard(pairs))
    label = (1 - NOISE) ** 0.5 * signal + NOISE**0.5 * random.normal(size=rows)
    data = Dataset(indptr, index.astype(np.int32), value.astype(np.float32), label, features)
    name = f"planted words, {'hierarchical' if hierarchical else 'separate'} pairs, {train} rows, seed {seed}"
    raw.note(name, data)
    numbers = np.arange(rows, dtype=np.int32)
    return Pair(data.take(numbers[:train]), data.take(numbers[train:]))


def drawn(random: np.random.Generator, features: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The words of a document in increasing order, and how often each occurs: their frequencies follow Zipf's law."""
    length = round(LENGTH * np.exp(SPREAD * random.normal()))
    ranks = np.exp(random.random(length) * np.log(features + 1)).astype(np.int64)  # P(rank) is about 1 / rank
    return np.unique(ranks - 1, return_counts=True)


def standard(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return (values - values.mean()) / values.std()
