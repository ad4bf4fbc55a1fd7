"""Compare `fmcli tune` with the default and with a random search of the same time, ranges and threads.

    python scripts/bench/tuning.py run RESULTS DATA... [--sets u1 ijcnn1 ..] [--seeds 1 2 3] [--seconds 120] [--held]
    python scripts/bench/tuning.py table RESULTS

`run` trains on each set by the default, by `fmcli tune --max-seconds N --refit`, and by a search that draws kinds,
solvers and options at random and trains each of them whole, and reads the test rows once for each. With --held, a fifth
of the training rows takes the place of the test rows, by which choices within the search are made. Each run appends a
line of JSON to RESULTS; runs that are there are not repeated, so it can be stopped at any time. DATA are folders
with the data sets; missing sets are skipped.

`table` prints the mean metric of each way on each set over the seeds, and the mean difference of the searches from the
default, and of tune from the random search, with two standard errors over the seeds.
"""

import argparse
import contextlib
import json
import shlex
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile

import numpy as np
from defaults import Run, read, split
from judged_sets import spaced

from fmcli.choosing import search
from fmcli.cli import group
from fmcli.registry.streams import TUNE_STREAM, generator
from fmcli.scoring.evaluation import evaluate_model
from fmcli.scoring.metrics import measure
from fmcli.scoring.prediction import Counts
from fmcli.scoring.scorer import load_model

# Name -> the training rows, the test rows, and the usual seconds of a search.
SETS = {
    "u1": ("ml-100k/u1.train.ffm", "ml-100k/u1.test.ffm", 120),
    "side": ("ml-100k/side.u1.train.ffm", "ml-100k/side.u1.test.ffm", 120),
    "adult": ("adult/train.ffm", "adult/test.ffm", 120),
    "ijcnn1": ("ijcnn1/ijcnn1.trn.bz2", "ijcnn1/ijcnn1.tst.bz2", 120),
    "diabetes": ("regression/diabetes/train.std.libsvm", "regression/diabetes/test.std.libsvm", 20),
    "abalone": ("regression/abalone/train.std.libsvm", "regression/abalone/test.std.libsvm", 20),
    "ctr": ("ctr.train.ffm", "ctr.test.ffm", 120),
}
ALL_ROWS = 1 << 40
WAYS = ("default", "tune", "random", "tpe")
USUAL_WAYS = WAYS[:3]


class RandomSearch(search.Search):
    """Draws a kind, a solver and options, and trains each run whole."""

    def race(self) -> None:
        self.groups += [search.Group(candidate, self.tuning.ranges) for candidate in self.others()]

    def draw(self) -> None:
        while True:
            of = generator(self.plan.spec, TUNE_STREAM, self.number, search.MOST_DRAWS)
            places = of.integers(len(self.groups), size=self.plan.settings.threads).tolist()
            jobs = [next(self.bracket(self.groups[place]), None) for place in places]
            drawn = [candidate for candidate in jobs if candidate]
            self.train(drawn, lambda candidate: self.epochs_of(candidate, search.RUNGS - 1))


def files_of(name: str, given: argparse.Namespace, folder: Path) -> tuple[Path, Path] | None:
    """Return the files of rows to train on and to judge by; None if they are in no folder."""
    train, test, _ = SETS[name]
    for data in given.data:
        if (data / train).exists():
            return split(spaced(data / train, ALL_ROWS), 0, folder) if given.held else (data / train, data / test)
    return None


def command(arguments: Sequence[str]) -> str:
    """Run a command; return what it prints."""
    with TemporaryFile("w+") as printed, contextlib.redirect_stdout(printed):
        group.main(list(arguments), standalone_mode=False)
        printed.seek(0)
        return printed.read()


def searched(way: str, seed: int, seconds: float, threads: int, files: tuple[Path, Path]) -> Run:
    """Return the figures of a run."""
    usual = search.Search
    with TemporaryDirectory() as folder:
        model = str(Path(folder) / "model")
        common = ["-q", "-j", str(threads), "--seed", str(seed)]
        begin, cpu = time.perf_counter(), time.process_time()
        if way == "default":
            line = ""
            command(["train", *common, "-o", model, str(files[0])])
        else:
            study = str(Path(folder) / "study")
            sampler = {"random": ["--sampler", "random"], "tpe": ["--sampler", "tpe"]}.get(way, [])
            limits = ["--max-seconds", str(seconds), "--study", study]
            search.Search = RandomSearch if way == "random" else usual  # type: ignore[misc]
            try:
                line = command(["tune", *common, *limits, *sampler, str(files[0])])
            finally:
                search.Search = usual  # type: ignore[misc]
        took = {"seconds": time.perf_counter() - begin, "cpu": time.process_time() - cpu}
        trials = {}
        if line:
            command([*shlex.split(line)[1:], "-q", "-j", str(threads), "-o", model])
            lines = Path(study).read_text().splitlines()
            trials = {"trials": len({json.loads(one)["trial"] for one in lines[1:]}), "line": line.strip()}
        outcome = evaluate_model(load_model(model), [str(files[1])], format="auto", threads=1, counts=Counts())
    metric = "rmse" if outcome.loss == "squared" else "logloss"
    return {"metric": metric, "value": measure([metric], outcome)[metric], **took, **trials}


def run(given: argparse.Namespace) -> None:
    """Make the runs that are not in the results yet."""
    if given.cpu:
        time.perf_counter = time.process_time
    done = {(one["set"], one["seed"], one["way"], one["asked"], one["held"]) for one in read(given.results)}
    for seed in given.seeds:
        for name in given.sets:
            with TemporaryDirectory() as folder:
                files = files_of(name, given, Path(folder))
                for way in given.ways if files else ():
                    assert files
                    asked = 0 if way == "default" else given.seconds or SETS[name][2]
                    if (name, seed, way, asked, given.held) in done:
                        continue
                    found = searched(way, seed, asked, given.threads, files)
                    one = {"set": name, "seed": seed, "way": way, "asked": asked, "held": given.held, **found}
                    with given.results.open("a") as file:
                        print(json.dumps(one), file=file)
                    print(f"{name} {seed} {way}: {found['value']:.5f} in {found['seconds']:.1f} s", flush=True)


def table(runs: Sequence[Run]) -> Iterator[str]:
    """Yield a line for each set and time."""
    values: dict[tuple[str, float, bool], dict[str, dict[int, float]]] = defaultdict(lambda: defaultdict(dict))
    asked = {(one["set"], one["asked"], one["held"]) for one in runs if one["asked"]}
    for one in runs:
        for key in asked:
            if key[0] == one["set"] and key[2] == one["held"] and one["asked"] in (0, key[1]):
                values[key][one["way"]][one["seed"]] = one["value"]
    yield f"{'':20}" + "".join(f"{way:>10}" for way in WAYS) + f"{'tune - default':>22}{'tune - random':>22}"
    for name, seconds, held in sorted(asked):
        of = values[name, seconds, held]
        cells = [f"{np.mean(list(of[way].values())):10.5f}" if of[way] else " " * 10 for way in WAYS]
        label = f"{name} {seconds:g} s{' held' * held}"
        yield f"{label:20}{''.join(cells)}{apart(of['tune'], of['default'])}{apart(of['tune'], of['random'])}"


def apart(first: dict[int, float], other: dict[int, float]) -> str:
    """Return the mean difference on the seeds of both, and two standard errors."""
    found = [first[seed] - other[seed] for seed in first.keys() & other.keys()]
    if not found:
        return " " * 22
    error = 2 * np.std(found, ddof=1) / np.sqrt(len(found)) if len(found) > 1 else np.nan
    return f"{np.mean(found):+12.5f} ± {error:.5f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    making = commands.add_parser("run", help="make the runs that are not in RESULTS yet")
    making.add_argument("results", type=Path)
    making.add_argument("data", type=Path, nargs="+")
    making.add_argument("--sets", nargs="+", choices=SETS, default=[name for name in SETS if name != "ctr"])
    making.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    making.add_argument("--seconds", type=float, help="of a search [default: 120, of small sets 20]")
    making.add_argument("--ways", nargs="+", choices=WAYS, default=USUAL_WAYS)
    making.add_argument("--threads", type=int, default=2)
    making.add_argument("--cpu", action="store_true", help="count CPU seconds: others use the machine")
    making.add_argument("--held", action="store_true", help="judge by a fifth of the training rows")
    showing = commands.add_parser("table", help="print the table")
    showing.add_argument("results", type=Path)
    given = parser.parse_args()
    if given.command == "run":
        run(given)
    else:
        print("\n".join(table(read(given.results))))


if __name__ == "__main__":
    main()
