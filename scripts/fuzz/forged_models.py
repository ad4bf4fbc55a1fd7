#!/usr/bin/env python3
"""Fuzz model files: change valid files, correct their checksums, then load them, predict with them and inspect them.

    python scripts/fuzz/forged_models.py --cases 1000000 --jobs 2
    python scripts/fuzz/forged_models.py --build FOLDER --replay 4711

Compiles fmcli with AddressSanitizer and UndefinedBehaviorSanitizer into a folder (some minutes; --build keeps it for
other runs), makes small models of every kind, solver and loss there, and lets several processes work on changed copies
(tests/forging.py). Case N of a seed is always the same file. A case is a hit if the process ends, hangs, or raises an
exception other than FmcliError, or if a message contains unprintable characters. Prints counts, and every hit with the
number that replays it. The exit status is 1 if there was a hit.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
SOURCES = ("pyproject.toml", "README.md", "LICENSE", "fmcli", "cython_src", "scripts", "tests")
SANITIZE = "-fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer -g1"
LIBRARY = "libasan.so"
# Leaks are not detected, because Python does not free its own memory at exit. A small file must not cause a larger
# allocation than the maximum here.
ASAN_OPTIONS = "detect_leaks=0:allocator_may_return_null=1:max_allocation_size_mb=4096"
PROGRESS_BYTES = 8
PATIENCE = 120  # maximum seconds of one case
POLL = 2.0
LAST_LINES = 25  # of the output of a process that ended


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--cases", type=int, default=1_000_000)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--build", type=Path, help="folder of the build with sanitizers; made if it is not there")
    parser.add_argument("--replay", type=int, metavar="CASE", help="run one case and say what happens")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="fmcli-fuzz-") as temporary:
        folder = options.build or Path(temporary) / "build"
        if not any((folder / "fmcli").rglob("*.so")):
            build(folder)
        if options.replay is not None:
            return subprocess.call(worker(folder, options.seed, options.replay, 1, "-"), env=environment(folder))
        return fuzz(folder, options.seed, options.first, options.cases, options.jobs, Path(temporary))


def build(folder: Path) -> None:
    """Compile the sources with sanitizers in a separate folder."""
    print(f"compiling with sanitizers in {folder}", flush=True)
    folder.mkdir(parents=True, exist_ok=True)
    for name in SOURCES:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("*.so", "__pycache__"))
        else:
            shutil.copy(ROOT / name, folder / name)
    command = [sys.executable, "-c", "from setuptools import setup; setup()", "build_ext", "--inplace"]
    flags = dict.fromkeys(("CFLAGS", "CXXFLAGS", "LDFLAGS"), SANITIZE)
    done = subprocess.run(command, cwd=folder, env={**os.environ, **flags}, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stdout[-2000:] + done.stderr[-2000:])


def environment(folder: Path) -> dict[str, str]:
    """The environment variables of a process that uses the build."""
    library = subprocess.check_output(["gcc", f"-print-file-name={LIBRARY}"], text=True).strip()
    sanitizers = {"LD_PRELOAD": library, "ASAN_OPTIONS": ASAN_OPTIONS, "UBSAN_OPTIONS": "print_stacktrace=1"}
    path = f"{folder}{os.pathsep}{folder / 'tests'}"
    threads = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"), "1")
    return {**os.environ, **sanitizers, **threads, "PYTHONPATH": path}


def worker(folder: Path, seed: int, first: int, cases: int, progress: str) -> list[str]:
    """The command that runs some cases."""
    return [sys.executable, str(folder / "tests" / "forging.py"), *map(str, (seed, first, cases, progress))]


@dataclass
class Job:
    """A range of cases, and the process that runs them.

    progress : the file to which the process writes the number of its current case.
    """

    first: int
    end: int
    progress: Path
    log: Path
    process: subprocess.Popen[bytes] | None = None
    case: int = -1
    since: float = 0.0
    counts: dict[str, int] = field(default_factory=dict)

    def start(self, folder: Path, seed: int) -> None:
        """Start a process for the remaining cases."""
        self.progress.write_bytes(self.first.to_bytes(PROGRESS_BYTES, "little"))
        self.case, self.since = self.first, time.monotonic()
        command = worker(folder, seed, self.first, self.end - self.first, str(self.progress))
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(command, env=environment(folder), stdout=log, stderr=subprocess.STDOUT)

    def look(self) -> str:
        """The state of the process: "" while it runs, "done", or a description of its failure."""
        assert self.process is not None
        case = int.from_bytes(self.progress.read_bytes(), "little")
        if case != self.case:
            self.case, self.since = case, time.monotonic()
        if self.process.poll() is None:
            if time.monotonic() - self.since < PATIENCE:
                return ""
            self.process.kill()
            self.process.wait()
            return "hangs"
        return "done" if self.process.returncode == 0 else f"ends the process with {self.process.returncode}"

    def read_log(self) -> list[dict[str, object]]:
        """The hits that the process has reported; its counts are added up."""
        hits = []
        for line in self.log.read_text(errors="replace").splitlines():
            if line.startswith("{"):
                event = json.loads(line)
                if "counts" in event:
                    for name, count in event["counts"].items():
                        self.counts[name] = self.counts.get(name, 0) + count
                else:
                    hits.append(event)
        return hits


def fuzz(folder: Path, seed: int, first: int, cases: int, jobs: int, temporary: Path) -> int:
    """Run all cases in several processes. Returns 1 if there was a hit, else 0."""
    share = -(-cases // jobs)
    bounds = [(first + i * share, first + min((i + 1) * share, cases)) for i in range(jobs)]
    todo = [Job(*bound, temporary / f"progress{i}", temporary / f"log{i}") for i, bound in enumerate(bounds)]
    working, hits, begin = list(todo), 0, time.monotonic()
    for job in todo:
        job.start(folder, seed)
    while working:
        time.sleep(POLL)
        for job in list(working):
            state = job.look()
            if not state:
                continue
            for hit in job.read_log():
                hits += 1
                print(json.dumps(hit), flush=True)
            if state == "done":
                working.remove(job)
                continue
            hits += 1
            tail = "\n".join(job.log.read_text(errors="replace").splitlines()[-LAST_LINES:])
            print(f"case {job.case} {state}:\n{tail}", flush=True)
            job.first = job.case + 1
            job.start(folder, seed)
    seconds = time.monotonic() - begin
    counts: dict[str, int] = {}
    for job in todo:
        for name, count in job.counts.items():
            counts[name] = counts.get(name, 0) + count
    print(f"seed {seed}: {cases:,} cases in {seconds:.0f} s, {hits} hits")
    for name, count in sorted(counts.items()):
        print(f"  {name:<40} {count:>12,}")
    return 1 if hits else 0


if __name__ == "__main__":
    sys.exit(main())
