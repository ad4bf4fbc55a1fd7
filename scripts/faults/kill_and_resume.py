"""Kill runs at random moments, and continue them: each must end with the model file of an undisturbed run.

    python scripts/faults/kill_and_resume.py --kills 300
    python scripts/faults/kill_and_resume.py --kills 50 --only lbfgs --seed 1
    python scripts/faults/kill_and_resume.py --signal TERM     with SIGTERM, before which a run writes a checkpoint

For each case (a solver, a kind of model and options, on the sample data), the number of epochs is chosen such that
training takes about a second. Then the same command with --checkpoint and --resume is started and killed (SIGKILL)
after a random time, several times in a row and with different numbers of threads, before it may run to its end. The
table has for each case:

    kills         runs that were killed
    in writing    of them, while a checkpoint was being written
    continued     finished runs that had continued from a checkpoint, according to their summaries
    in an epoch   of them, between two rows of an epoch, not between two epochs
    equal         finished runs whose model file equals the undisturbed run's

Epochs are divided into smaller pieces than usual, so several checkpoints fall into each. Exits with status 1 if a
model file differs, or if a run fails.
"""

import argparse
import collections
import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

SAMPLE = Path(__file__).resolve().parents[2] / "sample_data"
ADULT, DIABETES, FIELDS = (
    SAMPLE / f"{name}" for name in ("adult.train.libsvm", "diabetes.train.libsvm", "adult.train.ffm")
)
TEST = SAMPLE / "adult.test.libsvm"
# Non-zeros between two moments at which a run can be continued.
PIECE = 4000
COMMAND = (
    f"import fmcli.solvers.stochastic.trainer as trainer; trainer.CHUNK_NONZEROS = {PIECE}; "
    "from fmcli.__main__ import main; main()"
)
# Seconds of training, and between two checkpoints.
TRAINING, EVERY = 1.0, ("1e-9", "0.02", "0.1")
FEW_EPOCHS, MOST_EPOCHS = 5, 5000  # early stopping may need fewer
KILLS_IN_A_ROW = 5
WARM = "warm.fm"  # with the state of its solver
CHECKPOINT = "run.checkpoint"
LOCK = f".{CHECKPOINT}.fmcli-lock"

CASES: dict[str, tuple[str | Path, ...]] = {
    "sgd": ("-s", "sgd", "--schedule", "invscaling", ADULT),
    "sgd-batches": ("-s", "sgd", "--batch-size", "7", "--log-every", "300", ADULT),
    "adagrad": (ADULT,),
    "adagrad-rounds": ("--round-size", "4", ADULT),
    "adagrad-ffm": ("-m", "ffm", "-k", "2", FIELDS),
    "adagrad-llfm": ("-m", "llfm", "--anchors", "4", "--l1", "1e-4", "--l1-from-epoch", "3", ADULT),
    "adagrad-warm": ("-i", WARM, "--keep-state", ADULT),
    "adagrad-stopped": ("-r", "0.3", "-v", TEST, "--patience", "30", ADULT),
    "adagrad-refit": ("--holdout", "0.2", "--refit", "--patience", "1000", ADULT),
    "adagrad-file-order": ("--no-shuffle", "--keep-state", "--class-weight", "balanced", ADULT),
    "ftrl": ("-s", "ftrl", "--l1", "1", "--l1-from-epoch", "4", ADULT),
    "ftrl-softmax": ("-s", "ftrl", "-m", "shfm", "--loss", "softmax", "--holdout", "0.2", "--no-refit", ADULT),
    "fobos": ("-s", "fobos", "-m", "glfm", "--no-adaptive", "--schedule", "inverse", ADULT),
    "fobos-adaptive": ("-m", "sglfm", "--holdout", "0.1", ADULT),
    "fobos-exact": ("-s", "fobos", "--prox", "exact", "--no-adaptive", "--l1", "1e-4", "-k", "2", ADULT),
    "disk": ("--disk", "--cache", "cache", "--holdout", "0.2", "--keep-state", ADULT),
    "cd": ("-s", "cd", "--tol", "0", ADULT),
    "cd-llfm": ("-s", "cd", "--tol", "0", "-m", "llfm", "--anchors", "3", ADULT),
    "cd-pn": ("-s", "cd", "--tol", "0", "-m", "pn", "--nuclear", "0.01", "--holdout", "0.2", DIABETES),
    "lbfgs": ("-s", "lbfgs", "--tol", "0", ADULT),
    "lbfgs-llfm": ("-s", "lbfgs", "--tol", "0", "-m", "llfm", "--anchors", "3", "-v", TEST, ADULT),
}


def start(folder: Path, *arguments: str | Path) -> subprocess.Popen[bytes]:
    """Start a training run in a folder."""
    command = [sys.executable, "-c", COMMAND, "train", "-q", *map(str, arguments)]
    return subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)


def finish(process: subprocess.Popen[bytes]) -> None:
    """Wait for a run. Ends this program if it fails."""
    _, log = process.communicate()
    if process.returncode:
        sys.exit(f"status {process.returncode}: {log.decode()}")


def summary(path: Path) -> dict[str, object]:
    """The summary in a log of JSON lines."""
    found: dict[str, object] = json.loads(path.read_text().splitlines()[-1])
    return found


def duration(folder: Path, case: Sequence[str | Path], epochs: int) -> float:
    """Seconds of an undisturbed run."""
    begin = time.perf_counter()
    finish(start(folder, *case, "-e", str(epochs), "-o", "whole.fm"))
    return time.perf_counter() - begin


def epochs_of(folder: Path, case: Sequence[str | Path]) -> tuple[int, float]:
    """How many epochs take about as long as training should, and the seconds of a run with few epochs."""
    few = duration(folder, case, FEW_EPOCHS)
    epochs = 8 * FEW_EPOCHS
    while (took := duration(folder, case, epochs) - few) < TRAINING / 4 and epochs < MOST_EPOCHS:
        epochs *= 2
    return min(MOST_EPOCHS, int(epochs * TRAINING / max(took, few / 100))), few


def disturbed(
    folder: Path, case: Sequence[str | Path], longest: float, moments: random.Random, number: int
) -> collections.Counter[str]:
    """Send a signal to a run a few times within the `longest` time, let it end, and compare; returns the counts."""
    counts: collections.Counter[str] = collections.Counter()
    kept = ("--checkpoint", CHECKPOINT, "--resume", "--log-json", "log", "-o", "model.fm")
    for _ in range(moments.randint(1, KILLS_IN_A_ROW)):
        Path(folder, LOCK).unlink(missing_ok=True)  # of the run before
        process = start(folder, *case, *kept, "--checkpoint-every", moments.choice(EVERY), "-j", moments.choice("12"))
        while process.poll() is None and not Path(folder, LOCK).exists():  # it starts, which may take long
            time.sleep(1e-3)
        time.sleep(moments.uniform(0, longest))
        process.send_signal(number)
        process.communicate()
        if process.returncode == 0:  # it was faster than expected
            break
        if process.returncode != -number:
            sys.exit(f"a run that got a signal ended with status {process.returncode}")
        counts["kills"] += 1
        counts["in writing"] += any(folder.glob(".fmcli-*.tmp"))
    else:
        finish(start(folder, *case, *kept))
    if isinstance(place := summary(folder / "log").get("resumed"), dict):
        counts["continued"] += 1
        counts["in an epoch"] += place["row"] > 0
    counts["finished"] += 1
    counts["equal"] += (folder / "model.fm").read_bytes() == (folder / "whole.fm").read_bytes()
    left = sorted(path.name for path in folder.iterdir() if "checkpoint" in path.name or path.name.startswith("."))
    if set(left) - {LOCK}:  # the lock file of a killed run stays, because no other run removes it
        sys.exit(f"left behind: {', '.join(left)}")
    return counts


def main() -> None:
    """Kill runs of all cases in turn, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=300, help="the least number of kills in all")
    parser.add_argument("--only", default="", help="only cases whose names begin so")
    parser.add_argument("--signal", choices=["KILL", "TERM", "INT"], default="KILL")
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    number = signal.Signals[f"SIG{chosen.signal}"]
    moments = random.Random(chosen.seed)
    cases = {name: case for name, case in CASES.items() if name.startswith(chosen.only)}
    counts = {name: collections.Counter[str]() for name in cases}
    with tempfile.TemporaryDirectory() as parent:
        runs: dict[str, tuple[Path, list[str | Path], float]] = {}
        for name, case in cases.items():
            folder = Path(parent, name)
            folder.mkdir()
            finish(start(folder, "-e", "2", "--keep-state", "-o", WARM, ADULT))
            epochs, few = epochs_of(folder, case)
            runs[name] = folder, [*case, "-e", str(epochs)], max(TRAINING / 2, duration(folder, case, epochs) - few)
        while sum(count["kills"] for count in counts.values()) < chosen.kills:
            for name, (folder, case, longest) in runs.items():
                counts[name] += disturbed(folder, case, longest, moments, number)
    columns = ("kills", "in writing", "finished", "continued", "in an epoch", "equal")
    total = sum(counts.values(), collections.Counter[str]())
    print(f"{'':20}" + "".join(f"{column:>13}" for column in columns))
    for name, count in {**counts, "all": total}.items():
        print(f"{name:20}" + "".join(f"{count[column]:>13}" for column in columns))
    sys.exit(total["equal"] != total["finished"])


if __name__ == "__main__":
    main()
