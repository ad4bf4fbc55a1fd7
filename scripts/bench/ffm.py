"""Seconds per epoch of ffm by the number of fields on generated data, and on a file.

    python scripts/bench/ffm.py [TRAIN.ffm] [--rank 4] [--solver adagrad] [--epochs 3] [--fields 5 10 20 40]

Generated rows have one entry for each field, with some thousands of values with Zipf frequencies, so that a row with F
fields has F(F - 1)/2 pairs. Times are seconds of CPU time on one thread, of the fastest epoch.
"""

import argparse
import time

import numpy as np

from fmcli.data.dataset import Dataset
from fmcli.data.reader import read
from fmcli.registry.specs import make_spec
from fmcli.training import job

ROWS, VALUES, EXPONENT = 100_000, 5000, 1.1


def generated(fields: int) -> Dataset:
    """One-hot rows with this number of fields, with random labels."""
    rng = np.random.default_rng(0)
    shares = np.arange(1, VALUES + 1) ** -EXPONENT
    index = np.stack([rng.choice(VALUES, ROWS, p=shares / shares.sum()) for _ in range(fields)], axis=1)
    index += VALUES * np.arange(fields)
    return Dataset(
        np.arange(ROWS + 1, dtype=np.int64) * fields,
        index.astype(np.int32).ravel(),
        None,
        rng.integers(2, size=ROWS).astype(np.float64),
        VALUES * fields,
        np.tile(np.arange(fields, dtype=np.int32), ROWS),
    )


def measure(name: str, data: Dataset, solver: str, rank: int, epochs: int) -> None:
    """Train and print the fastest epoch."""
    seconds = []
    begin = 0.0

    def note(_: object) -> None:
        nonlocal begin
        now = time.process_time()
        seconds.append(now - begin)
        begin = now

    plan = job.plan(data, make_spec("ffm", solver, "logistic", {"rank": rank, "epochs": epochs + 1}))
    job.train(plan, on_epoch=note)
    best = min(seconds[1:])  # the first epoch includes the start
    a_row = data.nnz / data.rows
    pairs = a_row * (a_row - 1) / 2
    print(
        f"{name:12} {a_row:6.1f} entries a row  {best:7.3f} s an epoch  {best / data.rows * 1e6:7.2f} us a row  "
        f"{best / data.rows / pairs * 1e9:6.1f} ns a pair",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("train", nargs="?")
    parser.add_argument("--rank", type=int, default=4)
    parser.add_argument("--solver", default="adagrad")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--fields", type=int, nargs="+", default=[5, 10, 20, 40])
    given = parser.parse_args()
    for fields in given.fields:
        measure(f"{fields} fields", generated(fields), given.solver, given.rank, given.epochs)
    if given.train:
        data = read([given.train], keep_fields=True).dataset
        measure(f"{data.rows} rows", data, given.solver, given.rank, given.epochs)


if __name__ == "__main__":
    main()
