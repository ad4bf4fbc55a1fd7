"""Sets that are drawn at random: stand-ins for data that could not be had, with the splits of each by name.

Planted documents have the shape of E2006-tfidf ([SH], [PN]): far more features than rows, few features in a row,
with values log(1 + count), and a real label that depends on few words, by main effects and by pairs. Networks have the
shapes of [HO] Table 2.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fmcli.data.dataset import Dataset

Numbers = NDArray[np.int64]


class Pair(NamedTuple):
    """Training and test rows. planted : the features with planted main effects, and these effects."""

    train: Dataset
    test: Dataset | None = None
    planted: tuple[Numbers, NDArray[np.float64]] | None = None


WORDS_PER_ROW = 9.35  # of the training rows, as in E2006-tfidf, which has 150,360 words and 16,087 training rows
TEST_SHARE, SPREAD = 0.25, 0.5  # test rows per training row, deviation of the logarithm of the length of a document
FACTORS, NOISE = 3, 0.2  # the rank of the weights of pairs, and the share of noise in the variance of the label
HELD_OUT = 0.25


class Planted(NamedTuple):
    """Documents, and which of their words matter.

    rows : for training. length : the median number of words of a document.
    frequent : how many of the most frequent words do not matter. relevant : how many of the next have main effects.
    pairs : whether the pairs that matter are of the same words or of as many other words, without main effects.
    tied : whether main effects are, as in shfm and sha2, products of the words' factors with context factors.
    """

    rows: int = 4_000
    length: int = 100
    frequent: int = 20
    relevant: int = 10
    pairs: str = "the same"
    tied: bool = False


def documents(raw: Any, seed: int, planted: Planted) -> Pair:
    """Return documents with a label of mean 0 and variance 1: main effects and pairs of words in equal shares, and
    noise."""
    train, length, frequent, relevant, of_words, tied = planted
    random, rows, features = np.random.default_rng(seed), round((1 + TEST_SHARE) * train), round(WORDS_PER_ROW * train)

    def words_of_a_row() -> tuple[Numbers, Numbers]:
        """Return the words in increasing order, and how often each occurs: their frequencies follow Zipf's law."""
        tokens = round(length * np.exp(SPREAD * random.normal()))
        ranks = np.exp(random.random(tokens) * np.log(features + 1)).astype(np.int64)  # P(rank) is about 1 / rank
        return np.unique(ranks - 1, return_counts=True)

    def standard(values: NDArray[np.float64]) -> NDArray[np.float64]:
        return (values - values.mean()) / values.std()

    counts = [words_of_a_row() for _ in range(rows)]
    indptr = np.cumsum([0, *(len(words) for words, _ in counts)])
    index = np.concatenate([words for words, _ in counts])
    value = np.log1p(np.concatenate([times for _, times in counts]))
    words = frequent + random.permutation(2 * relevant)
    mains, partners = words[:relevant], words[:relevant] if of_words == "the same" else words[relevant:]
    x = np.zeros((rows, frequent + 2 * relevant))
    row, few = np.repeat(np.arange(rows), np.diff(indptr)), index < x.shape[1]
    x[row[few], index[few]] = value[few]
    weights, factors = random.normal(size=relevant), random.normal(size=(relevant, FACTORS))
    signs = random.choice((-1.0, 1.0), FACTORS)
    if tied:
        weights = factors @ (signs * random.normal(size=FACTORS))
    main, a = x[:, mains] @ weights, x[:, partners, None] * factors
    both = standard(main) + standard(((a.sum(axis=1) ** 2 - (a**2).sum(axis=1)) / 2) @ signs)
    label = (1 - NOISE) ** 0.5 * standard(both) + NOISE**0.5 * random.normal(size=rows)
    data = Dataset(indptr, index.astype(np.int32), value.astype(np.float32), label, features)
    kind = ", tied main effects" if tied else ""
    raw.note(f"planted documents of {length} words, pairs of {of_words} words{kind}, seed {seed}", data)
    numbers = np.arange(rows, dtype=np.int32)
    effects = weights * (1 - NOISE) ** 0.5 / (main.std() * both.std())
    return Pair(data.take(numbers[:train]), data.take(numbers[train:]), (mains, effects))


def long_documents(raw: Any) -> Dataset:
    """Return long documents, as rows of unit length."""
    data = documents(raw, 0, Planted(2_000, 400, 100, 20)).train
    return data.normalized(np.ones(data.features, dtype=np.bool_))


def training_rows(raw: Any, seed: int) -> Pair:
    """Return the training rows of documents, with a part that is held out."""
    pair = documents(raw, seed, Planted())
    order = np.random.default_rng(0).permutation(pair.train.rows).astype(np.int32)
    held, kept = np.split(order, [round(HELD_OUT * len(order))])
    return Pair(pair.train.take(np.sort(kept)), pair.train.take(np.sort(held)), pair.planted)


GROUPS, WITHIN = 20, 0.7  # of nodes, with links within a group; the share of a node's features that are its group's
ZIPF, MANY = 1.1, 4  # the exponent of the frequencies of features; draws for each feature of a node


class Shape(NamedTuple):
    """Nodes of two kinds with features, and links. ones : features of a node, about which [HO] says nothing."""

    nodes: tuple[int, int]
    features: tuple[int, int]
    links: int
    ones: int = 20

    def smaller(self, factor: int) -> "Shape":
        (a, b), (c, d) = self.nodes, self.features
        return Shape((a // factor, b // factor), (c // factor, d // factor), self.links // factor, self.ones)


SHAPES = {
    "NIPS": Shape((2037, 2037), (13649, 13649), 4140).smaller(8),
    "Enzyme": Shape((668, 668), (325, 325), 2994).smaller(2),
    "GD": Shape((3209, 12331), (3209, 25275), 3954).smaller(8),
}


def network(raw: Any, name: str, shape: Shape) -> Dataset:
    """Return the links of a network, and as many random pairs of nodes, all with the features of both nodes."""
    random = np.random.default_rng(0)
    groups = [random.integers(GROUPS, size=nodes) for nodes in shape.nodes]
    features = [
        features_of(group, count, shape.ones, random) for group, count in zip(groups, shape.features, strict=True)
    ]
    first = random.integers(shape.nodes[0], size=shape.links)
    by_group = [np.flatnonzero(groups[1] == group) for group in range(GROUPS)]
    second = np.array([random.choice(by_group[groups[0][node]]) for node in first])
    a = np.concatenate([first, random.integers(shape.nodes[0], size=shape.links)])
    b = np.concatenate([second, random.integers(shape.nodes[1], size=shape.links)])
    index = np.hstack([features[0][a], shape.features[0] + features[1][b]]).astype(np.int32)
    rows, width = index.shape
    indptr = np.arange(0, rows * width + 1, width, dtype=np.int64)
    label = np.repeat([1.0, -1.0], shape.links)
    data = Dataset(indptr, np.sort(index, axis=1).ravel(), None, label, sum(shape.features))
    return raw.note(f"drawn network of the shape of {name}", data)


def features_of(group: Numbers, count: int, ones: int, random: np.random.Generator) -> Numbers:
    """Return (nodes, ones) different features of each node, most of them of its group, by Zipf's law."""

    def distinct(values: Numbers, most: int) -> Numbers:
        return values[np.sort(np.unique(values, return_index=True)[1])][:most]

    frequency = 1 / np.arange(1, count + 1) ** ZIPF
    shares = np.cumsum(frequency) / frequency.sum()
    orders = [random.permutation(count) for _ in range(GROUPS)]
    found = np.empty((len(group), ones), dtype=np.int64)
    for node, number in enumerate(group):
        place = np.searchsorted(shares, random.random(MANY * ones)).clip(0, count - 1)
        own = distinct(orders[number][place], round(WITHIN * ones))
        found[node] = distinct(np.append(own, random.integers(count, size=MANY * ones)), ones)
    return found


ENTRIES = 20


def random_rows(features: int, rows: int, seed: int) -> Pair:
    """Return rows with ENTRIES random features of value 1, and random labels."""
    random, block = np.random.default_rng(seed), features // ENTRIES
    index = random.integers(block, size=(rows, ENTRIES)) + block * np.arange(ENTRIES)
    indptr = np.arange(0, index.size + 1, ENTRIES, dtype=np.int64)
    return Pair(Dataset(indptr, index.astype(np.int32).ravel(), None, random.normal(size=rows), features))


def _drawn(planted: Planted, seeds: range = range(5)) -> Callable[[Any], list[Pair]]:
    return lambda raw: [documents(raw, seed, planted) for seed in seeds]


MANY_ROWS, FEW_ROWS = 100_000, 500  # of random features, whose time is measured
SETS: dict[str, Callable[[Any], list[Pair]]] = {
    "same words": _drawn(Planted()),
    "other words": _drawn(Planted(pairs="other")),
    "tied main effects": _drawn(Planted(tied=True)),
    "documents, held out": lambda raw: [training_rows(raw, seed) for seed in range(5)],
    "documents, held out, other seeds": lambda raw: [training_rows(raw, seed) for seed in range(5, 10)],
    "long documents": lambda raw: [Pair(long_documents(raw))] * 5,
    **{name: lambda raw, name=name, shape=shape: [Pair(network(raw, name, shape))] for name, shape in SHAPES.items()},
    **{
        f"{rows:,} rows of {features} features": lambda raw, features=features, rows=rows: [
            random_rows(features, rows, seed) for seed in range(5)
        ]
        for rows, features in (
            *((MANY_ROWS, 4**i) for i in range(6, 10)),
            *((FEW_ROWS, 4**i) for i in range(4, 7)),
        )
    },
}
