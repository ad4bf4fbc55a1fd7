"""Seeded random data for benchmarks: rows of ids with Zipf frequencies, as Datasets and as text."""

from pathlib import Path

import numpy as np

from fmcli.data.dataset import Dataset

EXPONENT = 1.1
# The number of rows that are converted to text at a time.
LINES = 10_000


def zipf(rows: int, fields: int, features: int, seed: int = 0) -> Dataset:
    """Rows with one entry for each field, Zipf frequencies of the values, and random labels."""
    rng = np.random.default_rng(seed)
    values = max(2, features // fields)
    shares = np.cumsum(np.arange(1, values + 1) ** -EXPONENT)
    index = np.empty((rows, fields), dtype=np.int32)
    for field in range(fields):
        rank = np.searchsorted(shares, shares[-1] * rng.random(rows)).clip(0, values - 1)
        index[:, field] = rng.permutation(values)[rank] + values * field
    return Dataset(
        np.arange(rows + 1, dtype=np.int64) * fields,
        index.ravel(),
        None,
        rng.integers(2, size=rows).astype(np.float64),
        values * fields,
        np.tile(np.arange(fields, dtype=np.int32), rows),
    )


def ratings(rows: int, seed: int = 0) -> Dataset:
    """Rows with a user, an item and five real numbers, and random ratings."""
    users, items, numbers = 6000, 4000, 5
    rng = np.random.default_rng(seed)
    ids = np.stack([rng.integers(users, size=rows), users + rng.integers(items, size=rows)], axis=1)
    columns = np.broadcast_to(users + items + np.arange(numbers), (rows, numbers))
    value = np.concatenate([np.ones((rows, 2)), rng.random((rows, numbers)) + 0.1], axis=1)
    return Dataset(
        np.arange(rows + 1, dtype=np.int64) * (2 + numbers),
        np.concatenate([ids, columns], axis=1).astype(np.int32).ravel(),
        value.astype(np.float32).ravel(),
        rng.integers(1, 6, size=rows).astype(np.float64),
        users + items + numbers,
    )


def write(path: Path, data: Dataset, form: str) -> None:
    """Write the rows, which have equal lengths, as text: "one-hot" or "real" (both libsvm), "ffm", or "vw"."""
    width = data.nnz // data.rows
    index, field = data.index.reshape(-1, width), data.field.reshape(-1, width) if form == "ffm" else None
    rng = np.random.default_rng(0)
    with open(path, "w") as file:
        for start in range(0, data.rows, LINES):
            rows = slice(start, min(start + LINES, data.rows))
            ids = index[rows]
            if form == "ffm":
                entries = [
                    [f"{f}:{j}:1" for f, j in zip(*row, strict=True)] for row in zip(field[rows], ids, strict=True)
                ]
            elif form == "vw":
                entries = [["|f", *map(str, row)] for row in ids.tolist()]
            elif form == "real":
                entries = [
                    [f"{j}:{x:.6g}" for j, x in zip(*row, strict=True)]
                    for row in zip(ids, rng.random(ids.shape), strict=True)
                ]
            else:
                entries = [[f"{j}:1" for j in row] for row in ids.tolist()]
            labels = [f"{2 * y - 1:g}" if form == "vw" else f"{y:g}" for y in data.label[rows]]
            file.writelines(f"{y} {' '.join(row)}\n" for y, row in zip(labels, entries, strict=True))
