"""[HO] Figure 1 on MovieLens 100K: the objective by time for three solvers, and the time of an epoch by order.

    python scripts/papers/ho_convergence.py DATA OUT.png

DATA is a libsvm file of user and film features with two label values. hofm-shared with 30 factors and the squared loss
is trained for orders 2, 3 and 4 by coordinate descent, L-BFGS, and AdaGrad with its best learning rate in RATES, with
the penalties of the paper's Figure 4 and the same initial values. The objective on all rows is computed after every
epoch, and the time of this is not counted. AdaGrad penalizes only the parameters of the features in a row, so that its
minimum differs and is slightly higher. Writes the curves to OUT.png, and their values (solver, order, epoch, seconds,
objective) to OUT.tsv; prints the final objective of each solver.

Then prints the CPU seconds of an epoch of coordinate descent, the fastest of EPOCHS_TIMED, for orders 2 to 6, and the
exponent of a power law fitted to them. The epochs in the paper are quadratic in the order. PASS: the exponent is less
than ENOUGH, and the objective of coordinate descent never increases.
"""

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
from figures import draw

from fmcli.data.dataset import Dataset
from fmcli.data.reader import read
from fmcli.registry.specs import make_spec
from fmcli.scoring.rows import score_rows
from fmcli.training import job

RANK, INIT_STD = 30, 0.1
PENALTY = {2: 1e-3, 3: 1e-4, 4: 1e-6}
RATES = (0.03, 0.1, 0.3)
EPOCHS = {"cd": 100, "lbfgs": 400, "adagrad": 400}
TIMED, EPOCHS_TIMED, ENOUGH = (2, 3, 4, 5, 6), 5, 1.4
# The relative increase of an objective that is tolerated: scores are updated incrementally, with rounding errors.
ROUNDING = 1e-5


def make_plan(data: Dataset, order: int, solver: str, **options: Any) -> job.Plan:
    common = {"order": order, "rank": RANK, "init_std": INIT_STD, "l2": PENALTY.get(order, PENALTY[4])}
    return job.plan(data, make_spec("hofm-shared", solver, "squared", common | options))


def curve(data: Dataset, order: int, solver: str, **options: Any) -> np.ndarray:
    """(epochs, 2) The seconds of training so far, and the objective."""
    plan = make_plan(data, order, solver, epochs=EPOCHS[solver], **options)
    seconds, objectives = [], []

    def note(epoch: job.Epoch) -> None:
        loss = np.mean((score_rows(plan.model, data)[:, 0] - data.label) ** 2) / 2
        seconds.append(epoch.seconds)
        objectives.append(loss + epoch.penalty)

    job.train(plan, on_epoch=note)
    return np.stack([np.cumsum(seconds), objectives], axis=1)


def curves(data: Dataset, order: int) -> dict[str, np.ndarray]:
    """The curves by solver."""
    rates = {rate: curve(data, order, "adagrad", learning_rate=rate) for rate in RATES}
    best = min(rates, key=lambda rate: rates[rate][-1, 1])
    others = {solver: curve(data, order, solver) for solver in ("cd", "lbfgs")}
    return others | {f"adagrad {best:g}": rates[best]}


def seconds_an_epoch(data: Dataset, order: int) -> float:
    """The CPU seconds of the fastest epoch of coordinate descent."""
    begin, seconds = time.process_time(), []

    def note(_: job.Epoch) -> None:
        nonlocal begin
        seconds.append(time.process_time() - begin)
        begin = time.process_time()

    job.train(make_plan(data, order, "cd", epochs=EPOCHS_TIMED, tol=0), on_epoch=note)
    return min(seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data")
    parser.add_argument("out")
    given = parser.parse_args()
    data = read([given.data]).dataset
    found = {order: curves(data, order) for order in PENALTY}
    table = ["solver\torder\tepoch\tseconds\tobjective"]
    monotone = True
    for order, by_solver in found.items():
        for name, points in by_solver.items():
            table += [f"{name}\t{order}\t{e}\t{s:.4f}\t{f:.8f}" for e, (s, f) in enumerate(points, 1)]
            rise = max(0.0, (np.diff(points[:, 1]) / points[:-1, 1]).max(initial=0))
            monotone &= name != "cd" or rise <= ROUNDING
            print(
                f"order {order}  {name:12} {len(points):4} epochs {points[-1, 0]:7.2f} s  "
                f"objective {points[-1, 1]:.6f}, largest rise {rise:.0e}"
            )
    Path(given.out).with_suffix(".tsv").write_text("\n".join(table) + "\n")
    panels = {
        f"order {order}": {name: (points[:, 0], points[:, 1]) for name, points in by_solver.items()}
        for order, by_solver in found.items()
    }
    draw(given.out, panels, xlabel="seconds", ylabel="objective", xscale="log")
    seconds = [seconds_an_epoch(data, order) for order in TIMED]
    print("\norder  s an epoch of cd")
    for order, one in zip(TIMED, seconds, strict=True):
        print(f"{order:5}  {one:.4f}")
    exponent = np.polyfit(np.log(TIMED), np.log(seconds), 1)[0]
    verdict = "PASS" if monotone and exponent < ENOUGH else "FAIL"
    print(f"the time grows as order^{exponent:.2f}; cd {'never rises' if monotone else 'RISES'}: {verdict}")


if __name__ == "__main__":
    main()
