"""Compare options by the quality of the models on held-out rows of training data, as a basis for defaults.

    python scripts/bench/defaults.py DATA... [--sets u1 adult ...] [--seeds 3] [--try "-m fm" --try "-m fm -e 30" ...]

DATA are folders with the data sets below; sets that are not there are skipped. For every seed, a fifth of the training
rows of a set is held out, and every candidate is trained on the others. A candidate is given as options of `fmcli
train`; without --try, the candidates are all kinds with their defaults. Models are evaluated on the held-out rows by
RMSE or logloss, as `fmcli evaluate` does. Test files are never read. The table has a line for each candidate: the mean
over seeds on each set, the mean difference from the first candidate in percent (smaller is better), the share of zeros,
and the CPU seconds.
"""

import argparse
import bz2
import math
import shlex
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np

from fmcli.cli import group
from fmcli.errors import BadInputError, DivergedError
from fmcli.registry.models import MODELS
from fmcli.scoring.evaluation import evaluate_model
from fmcli.scoring.metrics import measure
from fmcli.scoring.prediction import Counts, load_model
from fmcli.scoring.sparsity import model_sparsity

SETS = {
    "u1": "ml-100k/u1.train.ffm",
    "side": "ml-100k/side.u1.train.ffm",
    "side.bin": "ml-100k/side.u1.bin.train.ffm",
    "adult": "adult/train.ffm",
    "ijcnn1": "ijcnn1/ijcnn1.trn.bz2",
    "hofm": "ml-100k/hofm.train.libsvm",
    "banana": "banana/train.libsvm",
    **{name: f"regression/{name}/train.std.libsvm" for name in ("abalone", "cadata", "cpusmall", "diabetes")},
    # Generated click, rating and text data, which may be missing.
    "ctr": "ctr.train.ffm",
    "reco": "reco.train.ffm",
    "text": "text.train.libsvm",
}
HELD_OUT = 0.2


class Found(NamedTuple):
    """The result of a run: the metric on the held-out rows, the share of zeros, and the CPU seconds of training."""

    value: float
    zeros: float
    seconds: float


def lines_of(path: Path, most: int) -> list[bytes]:
    """The lines of a file; if there are more than `most`, this number of evenly spaced lines."""
    data = path.read_bytes()
    lines = (bz2.decompress(data) if path.suffix == ".bz2" else data).splitlines(keepends=True)
    return [lines[i] for i in np.linspace(0, len(lines) - 1, most).astype(int)] if len(lines) > most else lines


def split(lines: list[bytes], seed: int, folder: Path) -> tuple[Path, Path]:
    """Files of training rows and of validation rows."""
    held = np.zeros(len(lines), dtype=bool)
    held[np.random.default_rng(seed).permutation(len(lines))[: round(HELD_OUT * len(lines))]] = True
    paths = folder / "train", folder / "held"
    for path, chosen in zip(paths, (~held, held), strict=True):
        path.write_bytes(b"".join(line for line, wanted in zip(lines, chosen, strict=True) if wanted))
    return paths


def found(options: str, seed: int, train: Path, held: Path) -> Found:
    """Train and evaluate with these options. The value is inf if training diverges, and nan if the data lack fields."""
    model = str(train.parent / "model")
    arguments = ["train", "-q", "-j", "1", "--seed", str(seed), *shlex.split(options), "-o", model, str(train)]
    begin = time.process_time()
    try:
        group.main(arguments, standalone_mode=False)
    except DivergedError:
        return Found(math.inf, math.nan, math.nan)
    except BadInputError:
        return Found(math.nan, math.nan, math.nan)
    seconds = time.process_time() - begin
    scorer = load_model(model)
    outcome = evaluate_model(scorer, [str(held)], format="auto", threads=1, counts=Counts())
    metric = "rmse" if outcome.loss == "squared" else "logloss"
    return Found(measure([metric], outcome)[metric], model_sparsity(scorer.model), seconds)


def table(results: dict[str, dict[str, list[Found]]]) -> Iterator[str]:
    """A line for each candidate: means by set, mean difference from the first candidate, share of zeros, seconds."""
    (first, *_) = results.values()
    width = max(map(len, results))
    yield f"{'':{width}}  " + "  ".join(f"{name:>8}" for name in first) + "      mean   zeros  seconds"
    for options, sets in results.items():
        values = {name: float(np.mean([one.value for one in runs])) for name, runs in sets.items()}
        usual = {name: float(np.mean([one.value for one in first[name]])) for name in values}
        change = np.nanmean([values[name] / usual[name] - 1 for name in values])
        zeros = np.nanmean([one.zeros for runs in sets.values() for one in runs])
        seconds = np.nanmean([one.seconds for runs in sets.values() for one in runs])
        cells = "  ".join(f"{value:8.4f}" for value in values.values())
        yield f"{options:{width}}  {cells}  {change:+8.2%}  {zeros:6.3f}  {seconds:7.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path, nargs="+")
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rows", type=int, default=100_000, help="the most rows of a set, evenly spaced ones")
    parser.add_argument("--try", dest="tried", action="append", metavar="OPTIONS", help="of fmcli train, as one word")
    given = parser.parse_args()
    tried = given.tried or [f"-m {kind}" for kind in ("linear", *(name for name in MODELS if name != "linear"))]
    results: dict[str, dict[str, list[Found]]] = {options: {} for options in tried}
    for name in given.sets:
        paths = [folder / SETS[name] for folder in given.data if (folder / SETS[name]).exists()]
        if not paths:
            continue
        rows = lines_of(paths[0], given.rows)
        with TemporaryDirectory() as folder:
            for seed in range(given.seeds):
                pair = split(rows, seed, Path(folder))
                for options in tried:
                    results[options].setdefault(name, []).append(found(options, seed, *pair))
        print(f"{name}: " + ", ".join(f"{results[options][name][-1].value:.4f}" for options in tried), flush=True)
    print("\n".join(table(results)))


if __name__ == "__main__":
    main()
