"""Drawn networks of the shapes of [HO] Table 2, in place of data that could not be had."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fmcli.data.dataset import Dataset
from sets.raw import Raw

GROUPS = 20  # of nodes; links are between nodes of a group
WITHIN = 0.7  # the share of the features of a node that are those of its group
ZIPF = 1.1  # the exponent of the frequencies of features
MANY = 4  # draws for each feature of a node, so that enough of them differ


class Shape(NamedTuple):
    """Nodes of two kinds with features, and links between them.

    nodes, features : of the first and of the second kind. ones : features of each node.
    """

    nodes: tuple[int, int]
    features: tuple[int, int]
    links: int
    ones: int


# [HO] Table 2, which says nothing about the number of ones.
SHAPES = {
    "NIPS": Shape((2037, 2037), (13649, 13649), 4140, 20),
    "Enzyme": Shape((668, 668), (325, 325), 2994, 20),
    "GD": Shape((3209, 12331), (3209, 25275), 3954, 20),
}


def smaller(shape: Shape, factor: int) -> Shape:
    """The shape with fewer nodes, features and links, and as many ones."""
    nodes, features = ((a // factor, b // factor) for a, b in (shape.nodes, shape.features))
    return Shape(nodes, features, shape.links // factor, shape.ones)


def drawn_network(raw: Raw, name: str, shape: Shape) -> Dataset:
    """The training rows of a drawn network of a shape: its links, and as many random pairs of nodes, all with the
    features of both nodes."""
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
    label = np.repeat([1.0, -1.0], shape.links)
    indptr = np.arange(0, rows * width + 1, width, dtype=np.int64)
    data = Dataset(indptr, np.sort(index, axis=1).ravel(), None, label, sum(shape.features))
    return raw.note(f"drawn network of the shape of {name}", data)


def features_of(group: NDArray[np.int64], count: int, ones: int, random: np.random.Generator) -> NDArray[np.int64]:
    """(nodes, ones) Different features of each node: most of them are drawn from those of its group, by Zipf's law."""
    frequency = 1 / np.arange(1, count + 1) ** ZIPF
    shares = np.cumsum(frequency) / frequency.sum()
    orders = [random.permutation(count) for _ in range(GROUPS)]
    found = np.empty((len(group), ones), dtype=np.int64)
    for node, number in enumerate(group):
        place = np.searchsorted(shares, random.random(MANY * ones)).clip(0, count - 1)
        own = first_distinct(orders[number][place], round(WITHIN * ones))
        found[node] = first_distinct(np.append(own, random.integers(count, size=MANY * ones)), ones)
    return found


def first_distinct(values: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """At most this many of the values, each once, in the order of the values."""
    return values[np.sort(np.unique(values, return_index=True)[1])][:count]
