"""Judge defaults by the quality of models on held-out rows of training data; test files are never read.

    python scripts/bench/defaults.py run RESULTS DATA... [--sets u1 adult ..] [--try "-m fm" --try "-m fm -e 30" ..]
    python scripts/bench/defaults.py table RESULTS [BEFORE]

`run` holds out a fifth of the training rows of each set, several times, and trains every candidate on the others: the
options of `fmcli train` that --try gives, or by default all kinds, Gibbs sampling and ensembles. First, each candidate
is trained once on each set; then on other splits and with other seeds, without --try only where that took at most some
CPU seconds. Most of the time would go into the few that take longer: coordinate descent, and sampling, which is left
out on the largest sets, as ensembles are. Each run appends a line of JSON to RESULTS; runs that are there already are
not repeated, so it can be stopped at any time. DATA are folders with the data sets of judged_sets.py;
missing sets are skipped.

`table` prints the RMSE or logloss of each candidate on each set, with a mark (c, l) where it is worse than the best
constant or the linear model by more than two standard errors of the mean difference by row, a capital one (C, L) for
three; how much larger its metric is than the best candidate's, in the mean over sets; and its CPU seconds. With
BEFORE, an earlier file, it prints the change on the splits and seeds of both.
"""

import argparse
import json
import math
import os
import shlex
import sys
import time
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from judged_sets import OF_TABLES, SETS, Lines, lines_of

from fmcli.cli import group
from fmcli.errors import BadInputError, DivergedError, UsageError
from fmcli.registry.models import MODELS
from fmcli.scoring.evaluation import evaluate_model
from fmcli.scoring.metrics import Outcome
from fmcli.scoring.paired import difference
from fmcli.scoring.prediction import Counts
from fmcli.scoring.scorer import load_model

HELD_OUT = 0.2
KINDS = [f"-m {kind}" for kind in MODELS]
# With which candidates are compared. A linear model without an epoch is the best constant.
USUAL = {"constant": "-m linear -e 0", "linear": "-m linear"}
OTHERS = ("-s mcmc", "-m ffm -s mcmc", "--ensemble 5")
# The splits of a set, more of them for some kinds, and the rows and bytes of a set for which one is enough, and the
# seconds of a run.
OFTEN = (FM := "-m fm", "-m ffm", "-m poly2", "-m linear")
SPLITS, SPLITS_OFTEN, SEEDS_OFTEN, MANY_ROWS, MANY_BYTES = 3, 5, 3, 50_000, 10_000_000
MANY_SECONDS = 5.0
CLEAR, CLEARER = 2, 3  # standard errors
MOST_BEHIND = 10  # times the best metric; more counts as much
Run = dict[str, Any]


def split(lines: Lines, number: int, folder: Path, *, header: int = 0) -> tuple[Path, Path]:
    """Write files of training rows and of held-out rows; both have the first lines that are the header of a table."""
    names, lines = lines[:header], lines[header:]
    held = np.zeros(len(lines), dtype=bool)
    held[np.random.default_rng(number).permutation(len(lines))[: round(HELD_OUT * len(lines))]] = True
    paths = folder / "train", folder / "held"
    for path, chosen in zip(paths, (~held, held), strict=True):
        rows = (line for line, wanted in zip(lines, chosen, strict=True) if wanted)
        path.write_bytes(b"".join([*names, *rows]))
    return paths


def trained(options: str, seed: int, train: Path, held: Path) -> tuple[Outcome | None, float]:
    """Train and evaluate with these options. Returns the outcome, None if training diverges, and the CPU seconds of
    training. Raises BadInputError and UsageError if the rows do not suit the candidate."""
    model = str(train.parent / "model")
    arguments = ["train", "-q", "-j", "1", "--seed", str(seed), *shlex.split(options), "-o", model, str(train)]
    begin = time.process_time()
    try:
        group.main(arguments, standalone_mode=False)
    except DivergedError:
        return None, time.process_time() - begin
    seconds = time.process_time() - begin
    scorer = load_model(model)
    rows = scorer.tables([str(held)], {})
    return evaluate_model(scorer, rows, format="auto", threads=1, counts=Counts()), seconds


def metric_for(outcome: Outcome, other: Outcome) -> str:
    """Return the metric that compares two outcomes: AUC if only one of them has probabilities."""
    if (outcome.loss == "squared") != (other.loss == "squared"):
        return "auc"
    return "rmse" if outcome.loss == "squared" else "logloss"


def judged(options: str, seed: int, files: tuple[Path, Path], usual: dict[str, Outcome]) -> Run:
    """Return the figures of a run: its metric, and how much worse it is than the constant and the linear model, with
    the standard errors."""
    try:
        outcome, seconds = trained(options, seed, *files)
    except (BadInputError, UsageError) as error:
        return {"error": str(error)}
    if outcome is None:
        return {"value": math.inf, "seconds": seconds}
    found: Run = {"value": difference(metric_for(outcome, outcome), outcome, outcome).value, "seconds": seconds}
    for name, other in usual.items():
        compared = difference(metric := metric_for(outcome, other), outcome, other)
        sign = -1 if metric == "auc" else 1
        found[name] = [sign * compared.difference, compared.error]
        found["metric"] = metric
    return found


def is_large(lines: Lines) -> bool:
    """Return whether one split of a set is enough."""
    return len(lines) > MANY_ROWS or sum(map(len, lines)) > MANY_BYTES


def runs_of(
    options: str, lines: Lines, often: Sequence[str], first: Run | None, most: float
) -> Iterator[tuple[int, int]]:
    """Yield the splits and seeds of a candidate on a set.

    first : the run of the first ones; None: it was not made.
    most : other runs follow if the first took at most this number of seconds.
    """
    if first is None or first.get("seconds", math.inf) > most:
        yield 0, 0
        return
    several = options in often
    for number in range(1 if is_large(lines) else SPLITS_OFTEN if several else SPLITS):
        for seed in range(SEEDS_OFTEN if several else 1):
            yield number, seed


def run(given: argparse.Namespace) -> None:
    """Make the runs that are not in the results yet, with several splits at the same time."""
    tried = given.tried or [*KINDS, *OTHERS]
    often = () if given.quick or given.tried else OFTEN
    for _ in range(1 if given.quick else 2):
        run_missing(given, tried, often)


def run_missing(given: argparse.Namespace, tried: Sequence[str], often: Sequence[str]) -> None:
    """Make the runs that are not in the results yet: the first one of each candidate on a set, or if that is there, the
    others."""
    done = {(one["set"], one["split"], one["seed"], one["options"]): one for one in read(given.results)}
    most = sys.float_info.max if given.tried else MANY_SECONDS
    with ProcessPoolExecutor(given.jobs) as pool:
        pending = []
        for name in given.sets:
            lines = lines_of(name, given.data)
            work: dict[int, list[tuple[str, int]]] = defaultdict(list)
            # A run of ffm by Gibbs sampling on 250,000 rows takes half an hour.
            cheap = [one for one in tried if one not in OTHERS or given.tried or not is_large(lines)]
            for options in cheap if lines else ():
                for number, seed in runs_of(options, lines, often, done.get((name, 0, 0, options)), most):
                    if (name, number, seed, options) not in done and not (given.quick and number):
                        work[number].append((options, seed))
            for number, candidates in work.items():
                pending.append(pool.submit(judge, name, number, candidates, given.data, given.results))
        for one in pending:
            one.result()


def judge(name: str, number: int, candidates: Sequence[tuple[str, int]], data: Sequence[Path], results: Path) -> None:
    """Append the runs of some options and seeds on a split of a set to the results."""
    lines = lines_of(name, data)
    with TemporaryDirectory() as folder:
        own, files = OF_TABLES.get(name, ""), split(lines, number, Path(folder), header=name in OF_TABLES)
        usual = {name: trained(f"{own} {options}", 0, *files)[0] for name, options in USUAL.items()}
        outcomes = {name: outcome for name, outcome in usual.items() if outcome is not None}
        for options, seed in candidates:
            found = judged(f"{own} {options}", seed, files, outcomes)
            one = {"set": name, "split": number, "seed": seed, "options": options, **found}
            with results.open("a") as file:
                file.write(json.dumps(one) + "\n")
    print(f"{name}, split {number}: {len(lines):,} rows", flush=True)


def read(path: Path) -> list[Run]:
    """Return the runs in a file; none if there is no file."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def cells_of(runs: Sequence[Run]) -> dict[str, dict[str, list[Run]]]:
    """Return candidate -> set -> the runs that ended."""
    cells: dict[str, dict[str, list[Run]]] = defaultdict(lambda: defaultdict(list))
    for one in runs:
        if "value" in one:
            cells[one["options"]][one["set"]].append(one)
    return cells


def means(of: dict[str, list[Run]]) -> dict[str, float]:
    """Return the mean metric of each set."""
    return {name: float(np.mean([one["value"] for one in runs])) for name, runs in of.items()}


def changes_of(now: dict[str, list[Run]], before: dict[str, list[Run]]) -> dict[str, float]:
    """Return the relative change of the mean metric of each set, over the splits and seeds of both."""
    of = [
        {(name, one["split"], one["seed"]): one["value"] for name in some for one in some[name]}
        for some in (now, before)
    ]
    both: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for key in of[0].keys() & of[1].keys():
        both[key[0]].append((of[0][key], of[1][key]))
    return {name: float(np.divide(*np.mean(pairs, axis=0))) - 1 for name, pairs in both.items()}


def errors_worse(runs: Sequence[Run], than: str) -> float:
    """Return by how many standard errors the runs are worse than a usual model in the mean: inf if training diverged.
    Splits are not independent, so the error is a single split's."""
    if any(math.isinf(one["value"]) for one in runs):
        return math.inf
    found = [one[than] for one in runs if than in one]
    difference, error = np.mean(found, axis=0) if found else (0.0, 0.0)
    return float(difference / error) if error else 0.0


def mark(worse: float, letter: str) -> str:
    """Return the mark of a cell that is worse than another one by this number of standard errors."""
    return letter.upper() if worse > CLEARER else letter if worse > CLEAR else ""


def behind(of: dict[str, float], alternatives: Collection[dict[str, float]]) -> float:
    """Return how much larger metrics are than the metrics of the best alternative, in the mean over sets."""
    best = {name: min(values[name] for values in alternatives if name in values) for name in of}
    return float(np.mean([min(of[name] / best[name], MOST_BEHIND) - 1 for name in of]))


def table(runs: Sequence[Run], before: Sequence[Run]) -> Iterator[str]:
    """Yield a line for each candidate, and the cells that are clearly worse than the constant or the linear model."""
    cells, earlier = cells_of(runs), cells_of(before)
    sets = [name for name in SETS if any(name in of for of in cells.values())]
    values = {options: means(of) for options, of in cells.items()}
    # Squared errors of labels that the other candidates give probabilities are not comparable.
    alternatives = {
        options: {name: value for name, value in of.items() if cells[options][name][0].get("metric") != "auc"}
        for options, of in values.items()
    }
    width = max(map(len, cells))
    compared: dict[str, list[tuple[float, str]]] = defaultdict(list)
    yield f"{'':{width}}  " + "  ".join(f"{name[:9]:>9}" for name in sets) + "   behind  seconds"
    for options, of in values.items():
        texts = []
        for name in sets:
            marks = ""
            for than, usual in USUAL.items() if name in of else ():
                if options != usual:
                    errors = errors_worse(cells[options][name], than)
                    marks += mark(errors, than[0])
                    compared[than].append((errors, f"{options} on {name}"))
            texts.append(f"{of[name]:7.4f}{marks:2}" if name in of else " " * 9)
        seconds = np.mean([one["seconds"] for runs in cells[options].values() for one in runs])
        distance = f"{behind(alternatives[options], alternatives.values()):7.2%}" if alternatives[options] else " " * 7
        yield f"{options:{width}}  {'  '.join(texts)}  {distance}  {seconds:7.2f}"
        if options in earlier:
            changes = changes_of(cells[options], earlier[options])
            texts = [f"{changes[name]:+8.2%} " if name in changes else " " * 9 for name in sets]
            yield f"{'change':>{width}}  {'  '.join(texts)}"
    for than, found in compared.items():
        worse = sorted((cell for cell in found if cell[0] > CLEAR), reverse=True)
        most = sum(errors > CLEARER for errors, _ in worse)
        share = f"{len(worse)} of {len(found)} cells ({len(worse) / len(found):.1%})"
        yield f"worse than {than}: {share} by more than {CLEAR} standard errors, {most} by more than {CLEARER}"
        yield from (f"    {errors:6.1f}  {cell}" for errors, cell in worse)
    if FM in alternatives:
        kinds = [of for options, of in alternatives.items() if options in KINDS]
        yield f"{FM} is behind the best kind by {behind(alternatives[FM], kinds):.2%} in the mean"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    making = commands.add_parser("run", help="make the runs that are not in RESULTS yet")
    making.add_argument("results", type=Path)
    making.add_argument("data", type=Path, nargs="+")
    making.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    making.add_argument("--jobs", type=int, default=os.cpu_count(), metavar="N", help="splits at the same time")
    making.add_argument("--quick", action="store_true", help="one split and seed")
    making.add_argument("--try", dest="tried", action="append", metavar="OPTIONS", help="of fmcli train, as one word")
    showing = commands.add_parser("table", help="print the table")
    showing.add_argument("results", type=Path)
    showing.add_argument("before", type=Path, nargs="?")
    given = parser.parse_args()
    if given.command == "run":
        run(given)
    else:
        print("\n".join(table(read(given.results), read(given.before) if given.before else [])))


if __name__ == "__main__":
    main()
