"""Kill workers of training runs on a cluster in every phase: the model files must equal the files of undisturbed runs.

    python scripts/faults/kill_workers.py --kills 50

For each case, several copies of the sample data are trained on with two workers of this machine. The same run is then
repeated, while workers are killed (SIGKILL), until the given number of kills. The log says which phase a run is
in: workers read the rows, the client makes dictionary, counts and labels (preparing), rounds or gradients (training),
the end of an epoch, where held-out rows are evaluated, and the end of the run, where the model is saved. A kill counts
for the end of an epoch if this came within 0.3 seconds, and for the end of the run after its last epoch. Linux only:
the workers are found in /proc. Exits with status 1 if a model file differs, or if a run fails.
"""

import argparse
import collections
import itertools
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
COPIES = 60  # for several partitions
ROWS = "rows.libsvm"
CASES = {
    "adagrad": ("-s", "adagrad", "-e", "4", "--holdout", "0.3", "--refit"),
    "ftrl": ("-s", "ftrl", "-m", "shfm", "-e", "4", "--holdout", "0.3", "--min-count", "3"),
    "lbfgs": ("-s", "lbfgs", "-e", "40", "--tol", "0", "--holdout", "0.3"),
}
# The beginning of the line of the log with which a phase begins.
BEGINS = {"reading": b"cluster ", "preparing": b"read ", "training": b"model "}
SOON = 0.3  # seconds before the end of an epoch, or of the run
POLL = 0.005  # seconds between two looks at the log
# Seconds between two kills. A run cannot end if its workers end sooner than they start.
LEAST_GAP, MOST_GAP = 6.0, 10.0
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


class Run:
    """A run whose log is watched.

    seen : the number of lines that begin with a word -> the times at which these were there.
    """

    def __init__(self, folder: Path, case: tuple[str, ...], model: str) -> None:
        self.folder, self.begin = folder, time.monotonic()
        self.process = start(folder, case, model)
        self.seen: dict[bytes, list[float]] = collections.defaultdict(list)

    def runs(self) -> bool:
        """Look at the log, after a short time; whether the run goes on."""
        time.sleep(POLL)
        for word in (*BEGINS.values(), b"epoch ", b"refit "):
            lines = (b"\n" + (self.folder / "log").read_bytes()).count(b"\n" + word)
            self.seen[word] += [time.monotonic()] * (lines - len(self.seen[word]))
        if time.monotonic() - self.begin > LONGEST:
            self.process.kill()
        return self.process.poll() is None

    @property
    def epochs(self) -> list[float]:
        """When epochs ended."""
        return sorted(self.seen[b"epoch "] + self.seen[b"refit "])

    def phase(self, moment: float) -> str:
        """The phase that the run was in."""
        if moment >= self.epochs[-1]:
            return "saving"
        if any(0 <= epoch - moment < SOON for epoch in self.epochs):
            return "evaluation"
        return [name for name, word in BEGINS.items() if self.seen[word] and self.seen[word][0] <= moment][-1]


def disturbed(
    folder: Path, name: str, moments: random.Random, usual: dict[str, float], first: str
) -> collections.Counter[str]:
    """A run whose workers are killed: how many in each phase, and whether the model is the same.

    usual : the seconds of phases of a run that is not disturbed, and its number of epochs.
    first : the phase of the first kill.
    """
    run, kills, earliest = Run(folder, CASES[name], "model.fm"), list[float](), 0.0
    aim = first
    while run.runs():
        if len(run.epochs) == usual["epochs"] and aim != "saving":
            aim, due = "saving", [0.0]
        elif aim in BEGINS:
            due = [begin + moments.uniform(0, usual[aim]) for begin in run.seen[BEGINS[aim]][:1]]
        else:
            last = [*run.seen[BEGINS["training"]][:1], *run.epochs][-1:]
            due = [end + usual["epoch"] - moments.uniform(0, SOON) for end in last]
        if not due or (time.monotonic() < earliest and aim != "saving"):
            continue
        while time.monotonic() < due[0] and run.runs():
            pass
        found = workers(run.process.pid)
        if found and run.process.poll() is None:
            os.kill(moments.choice(found), signal.SIGKILL)
            kills.append(time.monotonic())
            earliest = kills[-1] + moments.uniform(LEAST_GAP, MOST_GAP)
            aim = aim if aim == "saving" else moments.choice(["training", "evaluation"])
        while aim == "saving" and run.runs():
            pass
    if run.process.returncode:
        sys.exit(f"status {run.process.returncode}: {(folder / 'log').read_text()}")
    counts = collections.Counter(run.phase(moment) for moment in kills)
    counts["kills"], counts["runs"] = len(kills), 1
    counts["equal"] = int((folder / "model.fm").read_bytes() == (folder / f"{name}.fm").read_bytes())
    return counts


def undisturbed(folder: Path, name: str) -> dict[str, float]:
    """The seconds of the phases of a run that is not disturbed, of its last epoch, and its number of epochs."""
    run = Run(folder, CASES[name], f"{name}.fm")
    while run.runs():
        pass
    if run.process.returncode:
        sys.exit((folder / "log").read_text())
    times = [run.seen[word][0] for word in BEGINS.values()] + run.epochs
    reading, preparing, training = (later - before for before, later in itertools.pairwise(times[:4]))
    epoch, epochs = times[-1] - times[-2], len(run.epochs)
    return {"reading": reading, "preparing": preparing, "training": training, "epoch": epoch, "epochs": epochs}


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
    usual: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        (folder / ROWS).write_bytes(SAMPLE.read_bytes() * COPIES)
        while sum(total["kills"] for total in totals.values()) < arguments.kills:
            for name in cases:
                if name not in usual:
                    usual[name] = undisturbed(folder, name)
                first = [*BEGINS][sum(total["runs"] for total in totals.values()) % len(BEGINS)]
                totals[name] += disturbed(folder, name, moments, usual[name], first)
                print(name, dict(totals[name]), flush=True)
    sys.exit(any(total["equal"] < total["runs"] for total in totals.values()))


if __name__ == "__main__":
    main()
