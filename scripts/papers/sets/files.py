"""Sets that come as a file of training rows and a file of test rows."""

import numpy as np

from fmcli.data.reader import read
from sets.dense import Pair, columns, standardised
from sets.raw import Raw


def pair(raw: Raw, name: str, train: tuple[str, ...], test: tuple[str, ...], fields: bool = False) -> Pair:
    """The rows of the first files that match the patterns, with as many features in both parts."""
    parts = [read(raw.files(*patterns)[:1], keep_fields=fields).dataset for patterns in (train, test)]
    features = max(part.features for part in parts)
    first, second = (part.changed(features=features) for part in parts)
    return Pair(raw.note(name, first), second)


def standardised_pair(raw: Raw, name: str) -> Pair:
    """A regression set as NAME/train.libsvm and NAME/test.libsvm, with standardised columns and labels."""
    train, test = (raw.files(f"{name}/{part}.libsvm")[:1] for part in ("train", "test"))
    found = columns(raw, f"{name}, training rows first", train + test)
    first = read(train).dataset.rows
    return standardised(found, *np.split(np.arange(len(found.x)), [first]), standardise_label=True)
