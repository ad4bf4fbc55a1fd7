"""Seconds per epoch of llfm by the number of anchors and the rank, compared with fm, on one thread.

    python scripts/bench/llfm.py TRAIN [--solver adagrad] [--epochs 2] [--variant jo]

The fastest epoch counts, as in train.py. An epoch takes O(non-zeros · (anchors + active · rank)) time; the last column
is the ratio to the time of fm multiplied by the number of active anchors.
"""

import argparse

from fmcli.data.dataset import Dataset
from fmcli.data.reader import read
from fmcli.kernels.simd import ISA, REAL
from fmcli.registry.solvers import SOLVERS
from fmcli.registry.specs import make_spec
from fmcli.training import job

ANCHORS, RANKS = (1, 5, 10, 20), (4, 8, 16)


def fastest(data: Dataset, model: str, solver: str, options: dict[str, object]) -> tuple[float, float]:
    """The seconds of the fastest epoch, and the number of active anchors."""
    trained = job.train(job.plan(data, make_spec(model, solver, None, options)))
    active = trained.plan.model.figures(data, trained.plan.rows).get("active_anchors", 1.0)
    return min(epoch.seconds for epoch in trained.epochs), active


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("train")
    parser.add_argument("--solver", default="adagrad", choices=SOLVERS)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--variant", default="jo", choices=("do", "apl", "jo"))
    given = parser.parse_args()
    data = read([given.train]).dataset
    print(f"{data.rows} rows, {data.nnz} non-zeros; {given.solver}, {given.variant}, {REAL}, {ISA}")
    print("rank  anchors  active  s/epoch  ns/non-zero  of fm, each active")
    for rank in RANKS:
        common = {"rank": rank, "epochs": given.epochs}
        plain, _ = fastest(data, "fm", given.solver, common)
        print(f"{rank:4}  fm               {plain:7.3f}  {plain / data.nnz * 1e9:11.1f}")
        for anchors in ANCHORS:
            seconds, active = fastest(
                data, "llfm", given.solver, common | {"anchors": anchors, "llfm_variant": given.variant}
            )
            print(
                f"{rank:4}  {anchors:7}  {active:6.2f}  {seconds:7.3f}  {seconds / data.nnz * 1e9:11.1f}  "
                f"{seconds / plain / active:18.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
