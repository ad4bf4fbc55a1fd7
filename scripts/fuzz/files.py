#!/usr/bin/env python3
"""Fuzz the readers of files: changed files, whose checksums are correct if they have some, guided by coverage.

    python scripts/fuzz/files.py model --runs 10000000 --folder FOLDER
    python scripts/fuzz/files.py cache --runs 500000 --share 0.15 --sanitize BUILD
    python scripts/fuzz/files.py model --runs 0 --folder FOLDER --minimize

A run is a file that is changed (tests/forging*.py) and then read; a share of the valid files is also used in every way.
A file that reaches a new place in the readers (probes.py), or is refused with a new message, is kept and changed
further. Runs are made in segments, each a process with its own seed, which knows the places that earlier segments
have reached. A line of JSON is printed after each segment, with the totals so far; FOLDER/log has the same lines, and
another command with the same folder continues there.

A hit is an exception other than FmcliError, a process that ends or hangs, or a message with unprintable characters. Its
input is kept as FOLDER/crash-*, and --replay FILE reads it again. --sanitize compiles fmcli with AddressSanitizer and
UndefinedBehaviorSanitizer into an empty folder, and runs that. The exit status is 1 if there was a hit.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import zlib
from collections import Counter
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, TextIO

import sanitized
from corpora import ROOT, pack, unpack
from segment import Settings, current_run
from targets import TARGETS

SEGMENT = 50_000  # runs of a process


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("target", choices=sorted(TARGETS))
    parser.add_argument("--runs", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--share", type=float, default=0.01, help="share of the valid files that are used in every way")
    parser.add_argument("--folder", type=Path, help="where inputs, hits and the log are kept")
    parser.add_argument("--sanitize", type=Path, metavar="BUILD", help="folder of a build with sanitizers")
    parser.add_argument("--minimize", action="store_true", help="afterwards, write the smallest corpus to tests/corpus")
    parser.add_argument("--replay", type=Path, metavar="FILE", help="read one file, in every way")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="fmcli-fuzz-") as temporary:
        folder = Path(temporary, "kept") if options.replay or not options.folder else options.folder
        root = ROOT
        if options.sanitize:
            sanitized.build(options.sanitize)
            root = options.sanitize
        share = 1.0 if options.replay else options.share
        settings = Settings(folder.resolve(), 0, options.seed, 0, share, bool(options.sanitize))
        settings.corpus.mkdir(parents=True, exist_ok=True)
        if options.replay:
            shutil.copy(options.replay, settings.corpus / "seed-replayed")
            return report(result_of(root, options.target, settings))
        unpack(options.target, settings.corpus)
        status = run(root, options.target, settings, options.runs)
        if options.minimize:
            minimize(root, options.target, settings, Path(temporary, "smallest"))
    return status


def run(root: Path, target: str, settings: Settings, runs: int) -> int:
    """Make runs in segments and print the totals after each. Returns 1 if there was a hit, else 0."""
    log = settings.folder / "log"
    lines = log.read_text().splitlines() if log.exists() else []
    totals = json.loads(lines[-1]) if lines else {"segment": 0, "runs": 0, "hits": 0, "cpu": 0.0, "counts": {}}
    before, end = totals["hits"], totals["runs"] + runs
    while totals["runs"] < end:
        settings.number, settings.runs = totals["segment"], min(SEGMENT, end - totals["runs"])
        found = result_of(root, target, settings)
        counts = Counter(totals["counts"]) + Counter(found["counts"])
        added = {name: round(totals[name] + found[name], 1) for name in ("runs", "hits", "cpu")}
        kept = {name: found[name] for name in ("kept", "known") if name in found}
        totals = {"target": target, **added, **kept, "segment": settings.number + 1, "counts": dict(counts)}
        with open(log, "a") as file:
            report(totals, file)
        report(totals)
    return int(totals["hits"] > before)


def result_of(root: Path, target: str, settings: Settings) -> dict[str, Any]:
    """The result of a segment. If its process ends before, that is a hit, and its last input is kept."""
    done = start(root, target, settings)
    if done.returncode == 0:
        result: dict[str, Any] = json.loads(done.stdout)
        return {**result, "runs": settings.runs}
    if done.returncode > 0:
        raise SystemExit("the harness has failed")
    runs, file = current_run(settings.current)
    path = settings.folder / f"crash-{zlib.crc32(file):08x}"
    path.write_bytes(file)
    print(f"{path}: the process has ended by signal {-done.returncode}", file=sys.stderr, flush=True)
    return {"runs": runs + 1, "hits": 1, "cpu": 0.0, "counts": {"hits": 1}}


def minimize(root: Path, target: str, settings: Settings, folder: Path) -> None:
    """Write the files of a corpus that reach what all of them reach, shortest files first, to tests/corpus."""
    shutil.copytree(settings.corpus, folder / "corpus")
    found = result_of(root, target, replace(settings, folder=folder, runs=0))
    needed = set(found["needed"])
    for path in settings.corpus.iterdir():
        if path.name not in needed:
            (folder / "corpus" / path.name).unlink()
    pack(folder / "corpus", target)


def report(result: dict[str, Any], file: TextIO | None = None) -> int:
    """Write a result as a line of JSON. Returns 1 if there was a hit, else 0."""
    print(json.dumps(result), file=file, flush=True)
    return int(bool(result["hits"]))


def start(root: Path, target: str, settings: Settings) -> subprocess.CompletedProcess[str]:
    """Run a segment in a process."""
    # The build with sanitizers comes before other packages; the sources may not be compiled.
    others = [os.environ["PYTHONPATH"]] if "PYTHONPATH" in os.environ else []
    path = os.pathsep.join([*([str(root)] if settings.sanitized else []), str(root / "tests"), *others])
    threads = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"), "1")
    environment = {**os.environ, **threads, "PYTHONPATH": path, "PYTHONHASHSEED": "0"}
    if settings.sanitized:
        environment |= sanitized.variables()
    values = json.dumps({**asdict(settings), "folder": str(settings.folder)})
    command = [sys.executable, str(root / "scripts" / "fuzz" / "segment.py"), target, values]
    return subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=False)


if __name__ == "__main__":
    sys.exit(main())
