"""Send signals at random times during short runs. Each signal must end the run, and no temporary files may remain.

    python scripts/faults/signals.py --runs 300
    python scripts/faults/signals.py --within 0.1        only in the first 100 ms

Runs `fmcli train` many times, sends it a signal at a random time during the run, and counts the outcomes:

    by the signal   the expected outcome
    finished        the signal arrived after the end of the run
    swallowed       the signal arrived in time, but the run continued to its normal end
    traceback       standard error has other text than the log
    left behind     a temporary file remained in the folder

    Python's start  SIGINT arrived before the first line of fmcli, so Python itself printed a traceback
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
from pathlib import Path

DATA = Path(__file__).resolve().parents[2] / "sample_data" / "diabetes.train.libsvm"
# In /proc/PID/stat: the position of the flags after the name, and the flag of a process that is exiting.
FLAGS, EXITING = 6, 4
SIGNALS = {"INT": signal.SIGINT, "TERM": signal.SIGTERM, "HUP": signal.SIGHUP}


def prepare() -> None:
    """Set the default signal handlers, as in the foreground process of a shell."""
    for number in SIGNALS.values():
        signal.signal(number, signal.SIG_DFL)


def start(folder: str) -> subprocess.Popen[bytes]:
    """Start a run that writes its model into the folder."""
    command = [sys.executable, "-m", "fmcli", "train", "-e", "3", "-v", str(DATA), "-o", "model.fm", str(DATA)]
    nothing, pipe = subprocess.DEVNULL, subprocess.PIPE
    return subprocess.Popen(command, cwd=folder, preexec_fn=prepare, stdin=nothing, stderr=pipe)


def seconds_of_a_run() -> float:
    """The seconds of a run without a signal: the longest of three."""
    times = []
    for _ in range(3):
        with tempfile.TemporaryDirectory() as folder:
            begin = time.perf_counter()
            start(folder).communicate()
            times.append(time.perf_counter() - begin)
    return max(times)


def is_over(process: subprocess.Popen[bytes]) -> bool:
    """Whether a process has ended or is exiting."""
    if process.poll() is not None:
        return True
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return bool(int(fields[FLAGS]) & EXITING)


def outcome(number: int, wait: float) -> str:
    """The outcome of a run that gets a signal after `wait` seconds."""
    with tempfile.TemporaryDirectory() as folder:
        process = start(folder)
        time.sleep(wait)
        over = is_over(process)
        if not over:
            process.send_signal(number)
        try:
            _, log = process.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            return "hangs"
        if b"Traceback" in log or b"Exception ignored" in log or b"Fatal" in log:
            return "traceback" if b"fmcli/" in log else "Python's start"
        if any(name.endswith(".tmp") for name in os.listdir(folder)):
            return "left behind"
        if process.returncode == -number:
            return "by the signal"
        if process.returncode == 0:
            return "finished" if over else "swallowed"
        return f"status {process.returncode}"


def main() -> None:
    """Send signals and print the counts."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=300, help="runs for each signal")
    parser.add_argument("--within", type=float, help="seconds in which signals come; default: as long as a run")
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    moments = random.Random(chosen.seed)
    longest = seconds_of_a_run()
    print(f"an undisturbed run takes {longest:.3f} s")
    longest = chosen.within or longest
    for name, number in SIGNALS.items():
        waits = [moments.uniform(0, longest) for _ in range(chosen.runs)]
        found = [(outcome(number, wait), wait) for wait in waits]
        counts = collections.Counter(kind for kind, _ in found)
        print(f"SIG{name}: " + ", ".join(f"{count} {kind}" for kind, count in counts.most_common()))
        odd = [f"{kind} at {1000 * wait:.0f} ms" for kind, wait in found if kind not in ("by the signal", "finished")]
        for line in odd[:10]:
            print(f"    {line}")


if __name__ == "__main__":
    main()
