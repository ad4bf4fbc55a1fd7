"""Adult, the census data, with one-hot columns."""

from sets.dense import Pair
from sets.files import pair
from sets.raw import Raw


def adult(raw: Raw) -> Pair:
    """32,561 training and 16,281 test rows with 123 columns; LIBSVM has them as a9a and a9a.t."""
    return pair(raw, "adult, training", ("adult/train.libsvm", "a9a"), ("adult/test.libsvm", "a9a.t"))


def adult_fields(raw: Raw) -> Pair:
    """The same with a field for each of the 14 attributes, from libffm text."""
    return pair(raw, "adult with fields, training", ("adult/train.ffm",), ("adult/test.ffm",), fields=True)
