"""Seconds per epoch of every solver on one thread.

    python scripts/bench/train.py TRAIN [--model fm] [--rank 8] [--epochs 3] [--runs 2]

Reads TRAIN once, then trains. The fastest epoch of all runs counts, because other processes can only make an epoch
slower. The time of an epoch includes shuffling and the computation of the penalty.
"""

import argparse
import time

from fmcli.data.text.reader import read
from fmcli.kernels.simd import ISA, REAL
from fmcli.registry.models import MODELS
from fmcli.registry.solvers import SOLVERS
from fmcli.registry.specs import make_spec
from fmcli.training import job


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("train")
    parser.add_argument("--model", default="fm", choices=MODELS)
    parser.add_argument("--solver", nargs="+", default=list(SOLVERS), choices=SOLVERS)
    parser.add_argument("--rank", type=int, default=8)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--runs", type=int, default=2)
    given = parser.parse_args()
    begin = time.perf_counter()
    data = read([given.train]).dataset
    print(f"{data.rows} rows, {data.nnz} non-zeros, read in {time.perf_counter() - begin:.2f} s; {REAL}, {ISA}")
    options = {"epochs": given.epochs}
    if "rank" in MODELS[given.model].options:
        options["rank"] = given.rank
    for solver in given.solver:
        seconds = []
        for _ in range(given.runs):
            spec = make_spec(given.model, solver, None, options)
            trained = job.train(job.plan(data, spec))
            seconds += [epoch.seconds for epoch in trained.epochs]
        best = min(seconds)
        print(f"{given.model} {solver:8} {best:.3f} s an epoch, {best / data.nnz * 1e9:.1f} ns a non-zero", flush=True)


if __name__ == "__main__":
    main()
