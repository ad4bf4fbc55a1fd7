"""A segment of a fuzz run: changes files, has them read, and keeps the files that reach something new.

files.py starts it as a process and reads the result, a line of JSON.
"""

from __future__ import annotations

import argparse
import gc
import json
import mmap
import random
import re
import signal
import sys
import tempfile
import time
import traceback
import warnings
import zlib
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from corpora import ROOT
from probes import watch
from targets import LONGEST, TARGETS, Target

SHARED = Path("/dev/shm")  # a folder in memory
PATIENCE = 120  # maximum seconds of PATIENT_RUNS
PATIENT_RUNS = 256
FROM_VALID = 0.7  # share of the changed files that are made from valid ones
LONGEST_KEPT = 8192  # bytes of a file that is changed further
# Where a message begins to vary: what is quoted, and numbers.
VARYING = re.compile(r"['\"0-9;-]")
COUNT_BYTES, LENGTH_BYTES = 8, 4
MOST_TOLD = 4000  # characters


@dataclass
class Settings:
    """What a segment does.

    folder : has the kept inputs and the known places, and gets new ones and hits.
    runs : how many there are.
    share : of the valid files, which are used in every way.
    sanitized : whether the compiled code has sanitizers.
    """

    folder: Path
    number: int
    seed: int
    runs: int
    share: float
    sanitized: bool

    @property
    def corpus(self) -> Path:
        """The folder of the kept inputs."""
        return self.folder / "corpus"

    @property
    def known(self) -> Path:
        """The file that lists the places and the messages that have been reached."""
        return self.folder / "known.json"

    @property
    def current(self) -> Path:
        """The file that has the number of runs so far, and the input of the last one."""
        return self.folder / "current"


def current_run(path: Path) -> tuple[int, bytes]:
    """The number of complete runs of a segment, and the input of the one that began last."""
    data = path.read_bytes()
    begin = COUNT_BYTES + LENGTH_BYTES
    length = int.from_bytes(data[COUNT_BYTES:begin], "little")
    return int.from_bytes(data[:COUNT_BYTES], "little"), data[begin : begin + length]


def shape(message: str) -> str:
    """The beginning of a message about a file, without its path."""
    return VARYING.split(message.partition(": ")[2], maxsplit=1)[0]


class Segment:
    """Runs with one seed."""

    def __init__(self, target: Target, settings: Settings, known: set[str], reached: set[str]) -> None:
        self.target, self.settings, self.known, self.reached = target, settings, known, reached
        self.valid: list[Any] = []
        self.others: list[Any] = []
        self.needed: list[str] = []  # names of the files of the corpus that reach something new
        self.counts, self.hits = Counter[str](), 0
        settings.current.write_bytes(bytes(COUNT_BYTES + LENGTH_BYTES + 2 * LONGEST))
        with open(settings.current, "r+b") as file:
            self._current = mmap.mmap(file.fileno(), 0)

    def begin(self) -> None:
        """Read the corpus, or the seeds if there is none, shortest files first."""
        corpus = self.settings.corpus
        if not any(corpus.glob("seed-*")):
            for file in self.target.seeds():
                (corpus / f"seed-{zlib.crc32(file):08x}").write_bytes(file)
        for path in sorted(corpus.iterdir(), key=lambda path: (path.stat().st_size, path.name)):
            file = path.read_bytes()
            self.keep(file, self.read(file))
            if self.news():
                self.needed.append(path.name)

    def keep(self, file: bytes, valid: bool) -> None:
        """Change this file from now on."""
        parts = self.target.parsed(file)
        if parts is not None:
            (self.valid if valid else self.others).append(parts)

    def read(self, file: bytes) -> bool:
        """Read a file. Returns whether it is valid."""
        begin = COUNT_BYTES + LENGTH_BYTES
        self._current[begin : begin + len(file)] = file
        self._current[COUNT_BYTES:begin] = len(file).to_bytes(LENGTH_BYTES, "little")
        try:
            outcome = self.target.read(file)
        except Exception as error:  # every exception that a target does not handle is a hit
            self.hit(file, error)
            return False
        self.counts[outcome.kind] += 1
        if outcome.message:
            self.reached.add(shape(outcome.message))
        return not outcome.kind.startswith("refused")

    def hit(self, file: bytes, error: Exception) -> None:
        """Tell a hit and keep its input."""
        self.hits += 1
        self.counts["hits"] += 1
        place = traceback.extract_tb(error.__traceback__)[-1]
        name = f"crash-{Path(place.filename).stem}-{place.lineno}-{type(error).__name__}"
        path = self.settings.folder / name
        if not path.exists():
            path.write_bytes(file)
            print(f"{path}: {''.join(traceback.format_exception(error))!a}"[:MOST_TOLD], file=sys.stderr, flush=True)

    def news(self) -> bool:
        """Whether something new was reached since the last call."""
        new = self.reached - self.known
        self.known |= new
        self.reached.clear()
        return bool(new)

    def run(self) -> dict[str, Any]:
        """Run all, and return what happened."""
        rng = random.Random(f"{self.settings.seed}/{self.settings.number}")
        gc.freeze()  # what was loaded stays, and need not be looked at again and again
        begin, before = time.process_time(), Counter(self.counts if self.settings.runs else ())
        for number in range(self.settings.runs):
            if number % PATIENT_RUNS == 0:
                signal.alarm(PATIENCE)
            pool = self.others if self.others and rng.random() >= FROM_VALID else self.valid
            file = self.target.changed(rng, rng.choice(pool))
            valid = self.read(file[:LONGEST])
            if self.reached and self.news() and len(file) <= LONGEST_KEPT:
                (self.settings.corpus / f"{zlib.crc32(file):08x}").write_bytes(file)
                self.keep(file, valid)
            self._current[:COUNT_BYTES] = (number + 1).to_bytes(COUNT_BYTES, "little")
        signal.alarm(0)
        self.settings.known.write_text(json.dumps(sorted(self.known)))
        counts = dict(sorted((self.counts - before).items()))
        kept, cpu = len(self.valid) + len(self.others), time.process_time() - begin
        result = {"counts": counts, "hits": self.hits, "kept": kept, "known": len(self.known), "cpu": round(cpu, 1)}
        return result if self.settings.runs else {**result, "needed": self.needed}


def load(name: str, settings: Settings, temporary: Path) -> Segment:
    """The segment, with the modules of its target imported and the corpus read."""
    sys.path.insert(0, str(ROOT / "tests"))
    warnings.simplefilter("error")
    entry = TARGETS[name]
    known = set(json.loads(settings.known.read_text()) if settings.known.exists() else ())
    reached = watch(entry.modules, known)
    segment = Segment(entry.load(temporary, settings.share, settings.sanitized), settings, known, reached)
    segment.begin()
    return segment


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("target", choices=sorted(TARGETS))
    parser.add_argument("settings", help="the fields of Settings as JSON")
    options = parser.parse_args()
    values = json.loads(options.settings)
    settings = Settings(**{**values, "folder": Path(values["folder"])})
    with tempfile.TemporaryDirectory(prefix="fmcli-fuzz-", dir=SHARED if SHARED.is_dir() else None) as temporary:
        print(json.dumps(load(options.target, settings, Path(temporary)).run()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
