"""Adult, the census data, with one-hot columns."""

from fmcli.data.dataset import Dataset
from fmcli.data.reader import read
from sets.dense import Pair
from sets.raw import Raw


def adult(raw: Raw) -> Pair:
    """32,561 training and 16,281 test rows with 123 columns; LIBSVM has them as a9a and a9a.t."""
    return pair(raw, "adult, training", ("adult/train.libsvm", "a9a"), ("adult/test.libsvm", "a9a.t"), False)


def adult_fields(raw: Raw) -> Pair:
    """The same with a field for each of the 14 attributes, from libffm text."""
    return pair(raw, "adult with fields, training", ("adult/train.ffm",), ("adult/test.ffm",), True)


def pair(raw: Raw, name: str, train: tuple[str, ...], test: tuple[str, ...], fields: bool) -> Pair:
    def rows(patterns: tuple[str, ...]) -> Dataset:
        return read(raw.files(*patterns)[:1], keep_fields=fields).dataset

    parts = rows(train), rows(test)
    features = max(part.features for part in parts)
    first, second = (part.changed(features=features) for part in parts)
    return Pair(raw.note(name, first), second)
