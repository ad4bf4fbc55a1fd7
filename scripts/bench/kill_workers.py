"""Kill workers of training runs on a cluster at random moments: the model files must be those of undisturbed runs.

    python scripts/bench/kill_workers.py --kills 50

For each case, several copies of the sample data are trained on with two workers of this machine. The same run is then
repeated, while one worker after the other is killed (SIGKILL) after random times, from the moment at which the cluster
is there, until there were so many kills in all. Linux only: the workers are found in /proc. Exits with status 1 if a
model file differs, or if a run fails.
"""

import argparse
import collections
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

SAMPLE = Path(__file__).resolve().parents[2] / "sample_data" / "adult.train.libsvm"
COPIES = 20  # for several partitions
ROWS = "rows.libsvm"
CASES = {
    "adagrad": ("-s", "adagrad", "-e", "4", "--holdout", "0.1", "--refit"),
    "ftrl": ("-s", "ftrl", "-m", "shfm", "-e", "4", "--holdout", "0", "--min-count", "3"),
    "lbfgs": ("-s", "lbfgs", "-e", "20", "--tol", "0"),
}
# Seconds between two kills. A run cannot end if its workers end sooner than they start.
LEAST_GAP, MOST_GAP = 4.0, 12.0
LONGEST = 600  # seconds of a run
WORKER = b"multiprocessing.spawn"  # in the command of a worker process


def start(folder: Path, case: tuple[str, ...], model: str) -> subprocess.Popen[bytes]:
    """Start a training run in a folder."""
    command = [sys.executable, "-m", "fmcli", "train", ROWS, "--cluster", "local:2", *case, "-o", model]
    with (folder / "log").open("wb") as log:
        return subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log)


def workers(process: int) -> list[int]:
    """The worker processes below a process."""
    found = []
    for child in children(process):
        try:
            command = Path(f"/proc/{child}/cmdline").read_bytes()
        except OSError:
            continue
        found += [child] * (WORKER in command) + workers(child)
    return found


def children(process: int) -> Iterator[int]:
    """The processes that a process has started."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[1]) == process:
                yield int(entry.name)


def disturbed(folder: Path, name: str, moments: random.Random) -> collections.Counter[str]:
    """A run whose workers are killed: how many, in reading or in training, and whether the model is the same."""
    counts: collections.Counter[str] = collections.Counter()
    process, begin = start(folder, CASES[name], "model.fm"), time.monotonic()
    while process.poll() is None:
        time.sleep(moments.uniform(LEAST_GAP, MOST_GAP))
        log = (folder / "log").read_bytes()
        found = workers(process.pid) if log.startswith(b"cluster ") else []
        if found and process.poll() is None:
            os.kill(moments.choice(found), signal.SIGKILL)
            phase = "training" if b"model " in log else "reading"
            counts.update(["kills", phase])
        if time.monotonic() - begin > LONGEST:
            process.kill()
    if process.returncode:
        sys.exit(f"status {process.returncode}: {(folder / 'log').read_text()}")
    counts["runs"] = 1
    counts["equal"] = int((folder / "model.fm").read_bytes() == (folder / f"{name}.fm").read_bytes())
    return counts


def main() -> None:
    """Run all cases, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=CASES)
    arguments = parser.parse_args()
    moments = random.Random(arguments.seed)
    cases = {name: case for name, case in CASES.items() if arguments.only in (None, name)}
    totals = {name: collections.Counter[str]() for name in cases}
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        (folder / ROWS).write_bytes(SAMPLE.read_bytes() * COPIES)
        while sum(total["kills"] for total in totals.values()) < arguments.kills:
            for name, case in cases.items():
                if not totals[name] and start(folder, case, f"{name}.fm").wait():
                    sys.exit((folder / "log").read_text())
                totals[name] += disturbed(folder, name, moments)
                print(name, dict(totals[name]), flush=True)
    sys.exit(any(total["equal"] < total["runs"] for total in totals.values()))


if __name__ == "__main__":
    main()
