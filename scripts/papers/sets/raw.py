"""The folders of raw files: finding them, and the digests of what is built from them."""

import hashlib
from pathlib import Path
from typing import Any

import numpy as np

from fmcli.data.dataset import Dataset

DIGITS = 12  # of a digest


class MissingDataError(Exception):
    """A raw file is in none of the folders."""


class Raw:
    """Folders with the raw files of data sets, which are never written to.

    built : what has been built so far, by name: the numbers of rows and features, and a digest. Equal digests mean
        equal data, so that a reader can check that an experiment ran on the same rows as ours.
    """

    def __init__(self, *folders: Path) -> None:
        self.folders = folders
        self.built: dict[str, dict[str, Any]] = {}

    def files(self, *patterns: str) -> list[str]:
        """The files of the first folder that match the first pattern with any, in alphabetical order. Raises
        MissingDataError."""
        for pattern in patterns:
            for folder in self.folders:
                if found := sorted(folder.glob(f"**/{pattern}")):
                    return list(map(str, found))
        raise MissingDataError(f"{' and '.join(map(str, self.folders))} have no file {' or '.join(patterns)}")

    def note(self, name: str, data: Dataset) -> Dataset:
        """Remember what was built. Returns the data."""
        self.built[name] = {"rows": data.rows, "features": data.features, "digest": digest(data)}
        return data


def digest(data: Dataset) -> str:
    """The beginning of the SHA-256 digest of the rows: of the types, shapes and bytes of their arrays."""
    found = hashlib.sha256()
    value = np.ones(data.nnz, dtype=np.float32) if data.value is None else data.value
    for array in (data.indptr, data.index, value, data.field, data.label):
        if array is not None:
            found.update(f"{array.dtype.str} {array.shape}".encode())
            found.update(np.ascontiguousarray(array).tobytes())
    return found.hexdigest()[:DIGITS]
