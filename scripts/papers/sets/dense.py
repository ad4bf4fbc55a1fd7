"""Data sets of dense columns: Banana, IJCNN and regression sets, with their random splits and standardised columns."""

from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fmcli.data.dataset import Dataset
from fmcli.data.reader import read
from fmcli.prepare.split import divided
from sets.raw import Raw

TWO_THIRDS = Fraction(2), Fraction(1)


class Columns(NamedTuple):
    """Rows with dense columns.

    x : (rows, columns); columns that are 0 everywhere are left out.
    label : (rows)
    """

    x: NDArray[np.float64]
    label: NDArray[np.float64]


class Pair(NamedTuple):
    """Training and test rows."""

    train: Dataset
    test: Dataset


def columns(raw: Raw, name: str, files: list[str]) -> Columns:
    """The rows of all files, in their order."""
    data = raw.note(name, read(files).dataset)
    x = np.zeros((data.rows, data.features))
    x[np.repeat(np.arange(data.rows), np.diff(data.indptr)), data.index] = 1 if data.value is None else data.value
    return Columns(x[:, x.any(axis=0)], data.label)


def banana(raw: Raw) -> Columns:
    """Banana: 5,300 rows of 2 columns, from libsvm text in a folder "banana"."""
    return columns(raw, "Banana", raw.files("banana/t[er]*.libsvm", "banana/banana*"))


def ijcnn(raw: Raw) -> Columns:
    """IJCNN: 141,691 rows of 22 columns, from LIBSVM's files; the 49,990 training rows come first."""
    train = raw.files("ijcnn1.trn.bz2", "ijcnn1.bz2", "ijcnn1")
    return columns(raw, "IJCNN", [*train, *raw.files("ijcnn1.tst.bz2", "ijcnn1.t.bz2", "ijcnn1.t")])


def regression(raw: Raw, name: str) -> Columns:
    """A regression set in libsvm text, in one file or in a folder with a training and a test file."""
    return columns(raw, name, raw.files(f"{name}/t[er]*[!d].libsvm", f"{name}.libsvm", name))


def two_thirds(found: Columns, seed: int, standardise_label: bool = False) -> Pair:
    """A random two thirds of the rows for training, and the others for testing."""
    train, test = divided(len(found.x), TWO_THIRDS, np.random.default_rng(seed))
    return standardised(found, train, test, standardise_label)


def standardised(
    found: Columns, train: NDArray[np.intp], test: NDArray[np.intp], standardise_label: bool = False
) -> Pair:
    """The pair of these rows, with columns (and labels) scaled to mean 0 and variance 1 in the training rows."""
    x = (found.x - found.x[train].mean(axis=0)) / found.x[train].std(axis=0)
    label = found.label
    if standardise_label:
        label = (label - label[train].mean()) / label[train].std()
    return Pair(sparse(x[train], label[train]), sparse(x[test], label[test]))


def sparse(x: NDArray[np.float64], label: NDArray[np.float64]) -> Dataset:
    """Dense columns as a Dataset."""
    value = x.astype(np.float32)
    row, column = np.nonzero(value)
    indptr = np.searchsorted(row, np.arange(len(x) + 1)).astype(np.int64)
    return Dataset(indptr, column.astype(np.int32), value[row, column], label, x.shape[1])
