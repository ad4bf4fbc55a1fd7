"""What relations save: epochs on rows with blocks of user and item features, beside epochs on the joined rows.

    python scripts/bench/relations.py [--rows 200000] [--entries 40] [--rank 8] [--epochs 3]

The rows have one-hot users and items; each user and item has further non-zeros, in its block. CPU seconds of an epoch
are the least of several, on one thread, and ratios hold on every machine.
"""

import argparse
import sys
import time

import numpy as np

from fmcli.data.dataset import Dataset
from fmcli.data.related.rows import RelatedRows, Relation
from fmcli.registry.specs import make_spec
from fmcli.training import account, job


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--entries", type=int, default=40, help="of each user, and of each item")
    parser.add_argument("--rank", type=int, default=8)
    parser.add_argument("--epochs", type=int, default=3)
    arguments = parser.parse_args()
    own = related(arguments.rows, arguments.entries)
    joined = own.joined(np.arange(own.rows, dtype=np.int32))
    both = (joined, own)
    held = [account.held([data]) / 1e6 for data in both]
    print(f"{own.rows:,} rows, {joined.nnz:,} joined non-zeros: {held[0]:.1f} MB joined, {held[1]:.1f} MB apart")
    for solver in ("cd", "mcmc"):
        spec = make_spec("fm", solver, "squared", {"rank": arguments.rank, "epochs": arguments.epochs})
        figures = [measured(job.plan(data, spec)) for data in both]
        for name, (seconds, loss, needed) in zip(("joined", "relations"), figures, strict=True):
            print(f"{solver:5} {name:10} {seconds:.3f} s an epoch, loss {loss:.6f}, {needed / 1e6:.0f} MB needed")
        print(f"{solver:5} ratio {figures[0][0] / figures[1][0]:.1f}")
    return 0


def related(rows: int, entries: int) -> RelatedRows:
    """Rows of one-hot users and items, with a block for each, whose features have ids of their own."""
    generator = np.random.default_rng(0)
    users, items, features = rows // 40, rows // 100, 2_000
    first = np.cumsum([0, users, items, features])

    def block(count: int, begin: int) -> Dataset:
        index = begin + np.sort(generator.integers(features // entries, size=(count, entries)), axis=1)
        index += np.arange(entries) * (features // entries)
        value = generator.random((count, entries), dtype=np.float32) + 0.5
        starts = np.arange(count + 1) * entries
        total = begin + features
        return Dataset(starts, index.astype(np.int32).ravel(), value.ravel(), None, total)

    pairs = np.stack([generator.integers(users, size=rows), first[1] + generator.integers(items, size=rows)], axis=1)
    last = int(first[3] + features)
    label = generator.normal(size=rows) + pairs[:, 0] % 3
    own = Dataset(np.arange(rows + 1) * 2, pairs.astype(np.int32).ravel(), None, label, last)
    blocks = block(users, int(first[2])).changed(features=last), block(items, int(first[3])).changed(features=last)
    maps = pairs[:, 0].astype(np.int32), (pairs[:, 1] - first[1]).astype(np.int32)
    return RelatedRows(own, [Relation(data, row) for data, row in zip(blocks, maps, strict=True)])


def measured(plan: job.Plan) -> tuple[float, float, int]:
    """CPU seconds of the fastest epoch, the loss after the last one, and the bytes that the run needs."""
    ends = [time.process_time()]
    trained = job.train(plan, on_epoch=lambda epoch: ends.append(time.process_time()))
    return min(np.diff(ends[1:])), trained.epochs[-1].loss, plan.memory.total


if __name__ == "__main__":
    sys.exit(main())
