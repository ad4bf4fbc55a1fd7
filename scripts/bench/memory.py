"""Peak resident memory of training, compared with the estimate that --dry-run prints.

    python scripts/bench/memory.py            every kind with every solver that it takes, on every shape of data
    python scripts/bench/memory.py fm ffm     only these kinds

Prints a line for each run: the estimated MiB, the measured MiB (the peak of a separate process minus the baseline,
which is the peak of a process that imports the same modules and reads two rows), and their ratio. An estimate is too
low if the peak is more than 1.15 times the estimate plus 30 MB, and too high if it is more than 1.5 times the peak plus
30 MB. A run whose estimate exceeds --largest is skipped.
"""

import argparse
import itertools
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from fmcli.registry.models import MODELS
from fmcli.registry.solvers import SOLVERS

FACTOR, SLACK = 1.15, 30e6  # the peak is at most FACTOR * estimate + SLACK
MOST_FACTOR = 1.5  # the estimate is at most MOST_FACTOR * peak + SLACK
ITERATIONS = 12  # of lbfgs, which keeps the last ten
LARGEST = 1.5e9  # bytes
MIB = 1 << 20
TRAINED, DIVERGED, REFUSED = 0, 3, 4  # statuses
# A script that runs the command, and prints the estimate before training and the peak afterwards. It does not use
# ru_maxrss, whose initial value is the peak of the parent process.
CHILD = """
import os, sys
from fmcli.training import job
from fmcli.training.account import need_of
from fmcli.cli import run
out, train = os.dup(1), job.train
def told(plan, *observers):
    os.write(out, f"{need_of(plan).total}\\n".encode())
    if need_of(plan).total > float(sys.argv[1]):
        sys.exit(4)
    return train(plan, *observers)
job.train = told
status = run(sys.argv[2:])
peak = next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM"))
os.write(out, f"{int(peak) * 1024}\\n".encode())
sys.exit(status)
"""


def rows_of(shape: str) -> Iterator[str]:
    """The lines of a data set; every one has the fields 0 and 1, and labels of two values."""
    sizes = {"narrow": (20_000, 10, 1000), "wide": (2000, 30, 300_000), "long": (10, 1200, 3000), "huge": (50, 8, 0)}
    rows, entries, features = sizes[shape]
    step = max(1, features // entries)
    for row in range(rows):
        columns = [(row * 7919 + i * i) % step + i * step for i in range(entries)]
        if shape == "huge":
            columns = [i * 250_000 + row for i in range(entries)]
        half = entries // 2
        yield f"{row % 2} " + " ".join(f"{int(i >= half)}:{j}:{(1 + i % 3) / 100}" for i, j in enumerate(columns))


def write(shape: str, folder: str) -> str:
    """A file of a data set."""
    path = Path(folder) / f"{shape}.ffm"
    path.write_text("".join(f"{line}\n" for line in rows_of(shape)))
    return str(path)


def run(arguments: list[str], largest: float = LARGEST) -> tuple[int, int | None]:
    """The estimate of training with these arguments, and the peak, in bytes; the peak is None if the run was skipped.

    Raises RuntimeError if the command failed for another reason.
    """
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(largest), "train", "-q", *arguments],
        env=os.environ | {"OPENBLAS_NUM_THREADS": "1"}, capture_output=True, text=True,
    )  # fmt: skip
    numbers = list(map(int, done.stdout.split()))
    if done.returncode not in (TRAINED, DIVERGED, REFUSED) or not numbers:
        raise RuntimeError(f"{' '.join(arguments)}: status {done.returncode}: {done.stderr}")
    if done.returncode == REFUSED:
        return numbers[0], None
    return max(numbers[:-1]), numbers[-1]  # a run with --refit has two estimates


def baseline(kind: str, solver: str | None, folder: str) -> int:
    """The peak of a run on two rows, which imports the same modules."""
    path = Path(folder) / "one.ffm"
    path.write_text("0 0:0:1 1:1:1\n1 0:0:1 1:2:1\n")
    peak = run([*kind_of(kind, solver), "-o", os.path.join(folder, "m"), str(path)])[1]
    assert peak is not None
    return peak


def kind_of(kind: str, solver: str | None) -> list[str]:
    """The options for a kind and a solver, and for enough epochs that all memory is in use."""
    return ["-m", kind] if solver is None else ["-m", kind, "-s", solver, "-e", epochs_of(solver)]


def epochs_of(solver: str) -> str:
    """The number of epochs after which a solver has allocated all of its memory."""
    return str(ITERATIONS if solver == "lbfgs" else 2)


def pairs(kinds: list[str]) -> Iterator[tuple[str, str | None]]:
    """All pairs of a kind and a solver."""
    for kind in kinds:
        if MODELS[kind].closed_form:
            yield kind, None
        else:
            yield from itertools.product([kind], SOLVERS)


def keeps(account: int, peak: int) -> bool:
    """Whether a peak, minus the baseline, is within the estimate."""
    return peak <= FACTOR * account + SLACK


def exaggerates(account: int, peak: int) -> bool:
    """Whether the estimate is much larger than the peak, minus the baseline."""
    return account > MOST_FACTOR * peak + SLACK


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kinds", nargs="*", default=list(MODELS))
    parser.add_argument("--largest", type=float, default=LARGEST, help="bytes announced that are still run")
    chosen = parser.parse_args()
    broken = exaggerated = 0
    print(f"{'kind':<14}{'solver':<9}{'data':<8}{'options':<28}{'account':>9}{'peak':>9}{'ratio':>7}")
    with tempfile.TemporaryDirectory() as folder:
        files = {shape: write(shape, folder) for shape in ("narrow", "wide", "long", "huge")}
        for kind, solver in pairs(chosen.kinds):
            try:
                bare = baseline(kind, solver, folder)
            except RuntimeError:  # they cannot be combined
                print(f"{kind:<14}{solver or '':<9}refused")
                continue
            by_rows = solver is not None and SOLVERS[solver].by_rows
            for shape, extra in [
                ("narrow", ["--batch-size", "512"] if by_rows else []),
                ("wide", ["--holdout", "0.2", *(["-k", "16"] if "rank" in MODELS[kind].options else [])]),
                ("long", []),
                ("huge", []),
            ]:
                arguments = [*kind_of(kind, solver), *extra, "-o", os.path.join(folder, "m"), files[shape]]
                account, peak = run(arguments, chosen.largest)
                line = f"{kind:<14}{solver or '':<9}{shape:<8}{' '.join(extra):<28}{account / MIB:>9.1f}"
                if peak is None:
                    print(f"{line}  not run", flush=True)
                    continue
                peak -= bare
                mark = "  TOO MUCH" if exaggerates(account, peak) else "" if keeps(account, peak) else "  BROKEN"
                broken += not keeps(account, peak)
                exaggerated += exaggerates(account, peak)
                print(f"{line}{peak / MIB:>9.1f}{peak / account:>7.2f}{mark}", flush=True)
    print(f"{broken} promises broken, {exaggerated} announce too much")


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    main()
