"""Quality of Gibbs sampling by defaults on ratings, by sweeps and by time: figures of the guide's page `sampling`.

    python scripts/bench/ratings.py splits U_DATA [--seeds 5]
    python scripts/bench/ratings.py files TRAIN TEST [--seeds 5] [--model fm] [--loss probit]
    python scripts/bench/ratings.py curves U_DATA
    python scripts/bench/ratings.py draw

U_DATA is u.data of MovieLens 100K (https://grouplens.org/datasets/movielens/100k/). The test rows of split ui are its
lines 20000 (i - 1) + 1 to 20000 i. `splits` prints the mean RMSE and its standard deviation over seeds, for users and
items as features without fields (.libsvm) and with them (.ffm), where each field has priors of its own, and for field-
aware factors. `files` does the same for any rows. `curves` measures the RMSE on the test rows of u1 after each sweep or
epoch, with the CPU seconds up to there, and writes ratings.json in this folder; `draw` draws the charts in the guide
from it. The penalty of `cd` in `curves` is chosen on a tenth of the training rows.
"""

import argparse
import json
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "papers"))

from fitting import fit, held_out  # noqa: E402

from fmcli.data.dataset import Dataset  # noqa: E402
from fmcli.data.reader import read  # noqa: E402
from fmcli.drawing.curves import Curve, Figure, svg  # noqa: E402

FIGURES = HERE / "ratings.json"
GUIDE = HERE.parent.parent / "fmcli" / "guide"
TEST_ROWS, SPLITS, USERS = 20_000, 5, 943
MCMC: dict[str, Any] = {"solver": "mcmc", "loss": "squared"}
CD: dict[str, Any] = {"solver": "cd", "loss": "squared", "epochs": 40, "tol": 0.0}
# Strengths of the penalties of factors that are tried, times the number of rows.
STRENGTHS = (4, 6, 8, 10, 12, 16)
# The RMSE of other programs' samplers on the test rows of u1, with rank 8.
OTHERS = {"libFM": 0.9225, "myFM": 0.9084}
# Points of a curve; those of every sweep would not be seen.
POINTS = 60


def rows_of(path: str) -> np.ndarray:
    """(rows, 3) int: user, item and rating, from 1, of u.data."""
    return np.loadtxt(path, dtype=np.int64, usecols=(0, 1, 2))


def dataset(rows: np.ndarray, *, fields: bool) -> Dataset:
    """Users and items as features."""
    index = (rows[:, :2] - 1 + [0, USERS]).astype(np.int32)
    field = np.tile(np.arange(2, dtype=np.int32), len(rows)) if fields else None
    starts = 2 * np.arange(len(rows) + 1)
    label = rows[:, 2].astype(np.float64)
    return Dataset(starts, index.ravel(), None, label, int(USERS + 1682), field)


def split(rows: np.ndarray, number: int) -> tuple[np.ndarray, np.ndarray]:
    """The training and the test rows of a split, from 1."""
    test = slice(TEST_ROWS * (number - 1), TEST_ROWS * number)
    return np.delete(rows, test, axis=0), rows[test]


def compare(name: str, model: str, train: Dataset, test: Dataset, seeds: int, options: Mapping[str, Any]) -> None:
    """Print the metrics of some seeds."""
    begin = time.process_time()
    found = [fit(model, {**options, "seed": seed}, train, test).epochs[-1].valid for seed in range(seeds)]
    seconds = (time.process_time() - begin) / seeds
    means = {metric: [one[metric] for one in found] for metric in found[0]}
    shown = ", ".join(f"{metric} {np.mean(each):.4f} +- {np.std(each):.4f}" for metric, each in means.items())
    print(f"{name:14}{shown}   {seconds:.1f} CPU s", flush=True)


def splits(arguments: argparse.Namespace) -> None:
    rows = rows_of(arguments.rows)
    for number in range(1, SPLITS + 1):
        parts = split(rows, number)
        for form, model in ((".libsvm", "fm"), (".ffm", "fm"), (".ffm", "ffm")):
            train, test = (dataset(part, fields=form == ".ffm") for part in parts)
            compare(f"u{number}{form} {model}", model, train, test, arguments.seeds, MCMC)


def files(arguments: argparse.Namespace) -> None:
    train, test = (read([path], fields_if_any=True).dataset for path in (arguments.train, arguments.test))
    features = max(train.features, test.features)
    train, test = train.changed(features=features), test.changed(features=features)
    compare(arguments.model, arguments.model, train, test, arguments.seeds, {"solver": "mcmc", "loss": arguments.loss})


def curve(train: Dataset, test: Dataset, options: Mapping[str, Any]) -> dict[str, list[float]]:
    """The RMSE after each epoch, and the CPU seconds of a run up to there that does not look at the test rows."""
    rmse: list[float] = []
    fit("fm", options, train, test, on_epoch=lambda epoch: rmse.append(epoch.valid["rmse"]))
    begin = time.process_time()
    seconds: list[float] = []
    fit("fm", options, train, on_epoch=lambda epoch: seconds.append(time.process_time() - begin))
    return {"rmse": [round(one, 5) for one in rmse], "seconds": [round(one, 3) for one in seconds]}


def strength(rows: np.ndarray) -> dict[str, Any]:
    """The options of `cd` that are best on a tenth of the rows."""
    kept, held = held_out(len(rows), 0.1)
    train, judged = (dataset(rows[part], fields=False) for part in (kept, held))

    def options(factor: float, count: int) -> dict[str, Any]:
        return CD | {"l2_v": factor / count, "l2_w": factor / 4 / count}

    def loss(factor: float) -> float:
        return fit("fm", options(factor, len(kept)), train, judged).epochs[-1].valid["rmse"]

    return options(min(STRENGTHS, key=loss), len(rows))


def curves(arguments: argparse.Namespace) -> None:
    train_rows, test_rows = split(rows_of(arguments.rows), 1)
    found = {}
    for name, fields in (("mcmc", False), ("mcmc, priors by field", True)):
        train, test = (dataset(part, fields=fields) for part in (train_rows, test_rows))
        found[name] = curve(train, test, MCMC)
    train, test = (dataset(part, fields=False) for part in (train_rows, test_rows))
    found["cd, tuned"] = curve(train, test, strength(train_rows))
    for name, one in found.items():
        print(f"{name}: RMSE {one['rmse'][-1]:.4f} after {one['seconds'][-1]:.1f} CPU s")
    FIGURES.write_text(json.dumps(found, indent=None) + "\n")


def thinned(count: int) -> list[int]:
    """The numbers of at most POINTS epochs, from 0, closer to each other at the start."""
    return sorted({round(count ** (i / (POINTS - 1))) - 1 for i in range(POINTS)})


def drawn() -> Iterator[tuple[Path, str]]:
    """The charts, and where they are in the guide."""
    found = json.loads(FIGURES.read_text())
    by_sweep: dict[str, Curve] = {}
    by_time: dict[str, Curve] = {}
    for name, one in found.items():
        at = thinned(len(one["rmse"]))
        rmse = [one["rmse"][i] for i in at]
        by_sweep[name] = [i + 1 for i in at], rmse
        by_time[name] = [one["seconds"][i] for i in at], rmse
    sweeps = max(len(one["rmse"]) for one in found.values())
    by_sweep |= {f"{name}, mcmc, the end": ([1, sweeps], [rmse, rmse]) for name, rmse in OTHERS.items()}
    y = "RMSE on the test rows"
    for name, x, panel in (("sweeps", "sweeps, epochs", by_sweep), ("seconds", "CPU seconds", by_time)):
        figure = Figure(f"RMSE by {x}", x, y, {"MovieLens 100K, u1, rank 8": panel}, log_x=True)
        yield GUIDE / f"sampling-{name}.svg", svg(figure)


def draw(_: argparse.Namespace) -> None:
    for path, text in drawn():
        path.write_text(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    for function, names in ((splits, ["rows"]), (files, ["train", "test"]), (curves, ["rows"]), (draw, [])):
        command = commands.add_parser(function.__name__)
        command.set_defaults(run=function)
        for name in names:
            command.add_argument(name)
        command.add_argument("--seeds", type=int, default=5)
        command.add_argument("--model", default="fm")
        command.add_argument("--loss", default="squared")
    arguments = parser.parse_args()
    arguments.run(arguments)


if __name__ == "__main__":
    main()
