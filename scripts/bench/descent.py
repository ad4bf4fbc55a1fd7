"""The time that coordinate descent needs to reach a test RMSE, compared with libFM's ALS and polylearn.

    python scripts/bench/descent.py TRAIN TEST [--target 0.8272] [--libfm PATH] [--polylearn PYTHON] [--runs 3]

TRAIN and TEST are the reco benchmark: ratings with user, item and some real features. The model is an FM with 8
factors. Times are seconds of CPU time on one thread, the fastest of several runs, in which the programs take turns.
PYTHON is an interpreter that has polylearn. Parsing, the computation of the RMSE, and the initialization of libFM and
polylearn are not counted; for fmcli, the whole training is counted.

The penalty and the initial standard deviation of fmcli are chosen on a tenth of TRAIN: the options that need the fewest
epochs to come within NEAR of the smallest RMSE. The other programs minimize the sum of losses, so that their penalty is
that of fmcli times the number of rows; they are also run with half and twice this penalty, and the best result on TEST
counts, which is an advantage for them. PASS: the time of fmcli is at most a half of libFM's and a third of polylearn's.
"""

import argparse
import subprocess
import tempfile
import time
from typing import NamedTuple

import numpy as np

from fmcli.data.dataset import Dataset
from fmcli.data.reader import read
from fmcli.registry.specs import make_spec
from fmcli.training import job

RANK, EPOCHS, HOLDOUT, NEAR = 8, 25, 0.1, 0.0005
GRID = [{"l2": l2, "init_std": std} for l2 in (3e-6, 5e-6, 1e-5) for std in (0.03, 0.1)]
FACTORS = (0.5, 1, 2)  # multiples of the penalty for the other programs
SHARES = {"libFM": 2, "polylearn": 3}  # the required ratio of their time to that of fmcli


class Reached(NamedTuple):
    """The time in which a program reached the target; inf if it did not."""

    seconds: float
    epochs: int
    least: float  # the smallest RMSE on TEST of all epochs


def reached(seconds: list[float], rmse: list[float], target: float) -> Reached:
    """The time at which the target is first reached, given the seconds and the RMSE of each epoch."""
    met = np.flatnonzero(np.array(rmse) <= target)
    epochs = int(met[0]) + 1 if len(met) else len(rmse)
    return Reached(sum(seconds[:epochs]) if len(met) else np.inf, epochs, min(rmse))


def choose(train: Dataset) -> dict[str, float]:
    """The options that need the fewest epochs to come within NEAR of the smallest RMSE on held-out rows."""
    curves = []
    for options in GRID:
        spec = make_spec("fm", "cd", "squared", options | {"rank": RANK, "epochs": EPOCHS})
        plan = job.plan(train, spec, holdout=HOLDOUT, metrics=("rmse",))
        curves.append([epoch.valid["rmse"] for epoch in job.train(plan).epochs])
    enough = min(map(min, curves)) + NEAR
    first = [next((e for e, rmse in enumerate(curve) if rmse <= enough), EPOCHS) for curve in curves]
    return GRID[int(np.argmin(first))]


def ours(options: dict[str, float], train: Dataset, test: Dataset, target: float) -> Reached:
    """The result of fmcli: the number of epochs, and the time of a second run with this number and no validation."""
    chosen = options | {"rank": RANK, "epochs": EPOCHS, "tol": 0}
    plan = job.plan(train, make_spec("fm", "cd", "squared", chosen), valid=test, metrics=("rmse",), patience=EPOCHS)
    rmse = [epoch.valid["rmse"] for epoch in job.train(plan).epochs]
    found = reached([0.0] * len(rmse), rmse, target)
    plan = job.plan(train, make_spec("fm", "cd", "squared", chosen | {"epochs": found.epochs}))
    begin = time.process_time()
    job.train(plan)
    return found._replace(seconds=time.process_time() - begin + found.seconds)


def libfm(program: str, files: tuple[str, str], penalty: float, std: float, target: float) -> Reached:
    """The result of libFM's ALS. The RMSE of an iteration is the smaller one of that of its own predictions and that of
    the mean predictions of all iterations so far; libFM prints only the latter, but its log has both."""
    train, test = files
    with tempfile.NamedTemporaryFile("r", suffix=".log") as log:
        numbers = {"dim": f"1,1,{RANK}", "regular": f"0,{penalty:g},{penalty:g}", "init_stdev": std, "iter": EPOCHS}
        options = numbers | {"task": "r", "method": "als", "train": train, "test": test, "seed": 1, "rlog": log.name}
        command = [program, *(str(part) for name, value in options.items() for part in (f"-{name}", value))]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        names = log.readline().split()
        table = dict(zip(names, np.loadtxt(log, ndmin=2).T, strict=True))
    rmse = np.minimum(table["rmse_mcmc_this"], table["rmse_mcmc_all"])
    return reached(table["time_learn"].tolist(), rmse.tolist(), target)


# The script for the interpreter that has polylearn. It runs one epoch at a time; polylearn has no bias.
POLYLEARN = """
import sys, time
import numpy as np
from lightning.impl.dataset_fast import get_dataset
from polylearn.cd_direct_fast import _cd_direct_ho
from polylearn.kernels import _poly_predict
from polylearn.loss_fast import Squared
from sklearn.datasets import load_svmlight_files
from sklearn.utils.extmath import row_norms

x, y, z, wanted = load_svmlight_files(sys.argv[1:3], zero_based=True)
rank, epochs, penalty, std = int(sys.argv[3]), int(sys.argv[4]), float(sys.argv[5]), float(sys.argv[6])
bias = y.mean()
y -= bias
w, ones, score = np.zeros(x.shape[1]), np.ones(rank), np.zeros(len(y))
p = std * np.random.RandomState(0).randn(1, rank, x.shape[1])
score += _poly_predict(x, p[0], ones, kernel="anova", degree=2)
columns, norms = get_dataset(x, order="fortran"), row_norms(x.T, squared=True)
for _ in range(epochs):
    begin = time.process_time()
    _cd_direct_ho(p, w, columns, norms, y, score, ones, 2, penalty, penalty, True, False, Squared(), 1, 0.0, 0)
    seconds = time.process_time() - begin
    found = bias + z.dot(w) + _poly_predict(z, p[0], ones, kernel="anova", degree=2)
    print(seconds, np.sqrt(np.mean((found - wanted) ** 2)))
"""


def polylearn(program: str, files: tuple[str, str], penalty: float, std: float, target: float) -> Reached:
    """The result of polylearn's coordinate descent."""
    command = [program, "-c", POLYLEARN, *files, str(RANK), str(EPOCHS), str(penalty), str(std)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    seconds, rmse = np.loadtxt(done.stdout.splitlines(), ndmin=2).T
    return reached(seconds.tolist(), rmse.tolist(), target)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("train")
    parser.add_argument("test")
    parser.add_argument("--target", type=float, default=0.8272)
    parser.add_argument("--libfm")
    parser.add_argument("--polylearn")
    parser.add_argument("--runs", type=int, default=3)
    given = parser.parse_args()
    files = given.train, given.test
    train, test = (read([path]).dataset for path in files)
    test = test.within(train.features)
    chosen = choose(train)
    std, penalty = chosen["init_std"], chosen["l2"] * train.rows
    print(f"chosen by a tenth of the training rows: {chosen}; for sums of losses {penalty:g}")
    others = {"libFM": (libfm, given.libfm), "polylearn": (polylearn, given.polylearn)}
    others = {name: (run, program) for name, (run, program) in others.items() if program}
    strength = {}
    for name, (run, program) in others.items():
        tried = {factor: run(program, files, factor * penalty, std, given.target) for factor in FACTORS}
        strength[name] = penalty * min(tried, key=lambda factor: (tried[factor].seconds, tried[factor].least))
    best: dict[str, Reached] = {}
    for _ in range(given.runs):
        found = {"ours": ours(chosen, train, test, given.target)}
        found |= {
            name: run(program, files, strength[name], std, given.target) for name, (run, program) in others.items()
        }
        best |= {name: min(one, best.get(name, one)) for name, one in found.items()}
    print(f"contestant  seconds to {given.target}  epochs  s an epoch  least RMSE  penalty")
    verdicts = []
    for name, one in best.items():
        verdict = ""
        if name in others:
            verdicts.append(best["ours"].seconds * SHARES[name] <= one.seconds)
            verdict = f"{one.seconds / best['ours'].seconds:.1f} times ours: {'PASS' if verdicts[-1] else 'FAIL'}"
        print(
            f"{name:10} {one.seconds:17.2f} {one.epochs:7} {one.seconds / one.epochs:11.3f} {one.least:11.4f} "
            f"{strength.get(name, penalty):8.2f}  {verdict}"
        )


if __name__ == "__main__":
    main()
