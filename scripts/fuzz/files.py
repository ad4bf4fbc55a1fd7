#!/usr/bin/env python3
"""Fuzz the readers of binary files with Atheris: changed model files and caches, whose checksums are correct.

    python scripts/fuzz/files.py model --runs 10000000
    python scripts/fuzz/files.py model --runs 10000000 --folder FOLDER --minimise

Needs the package atheris. The readers are Python, whose lines and branches guide the choice of inputs; forged_models.py
tries the compiled code behind them with sanitizers. An input is changed as a file (tests/forging.py), starting from
small files and the corpus in tests/corpus. An exception other than FmcliError ends the process, and its input is
written to a file whose name begins with "crash-"; --replay FILE reads it again. The exit status is that of libFuzzer.
"""

from __future__ import annotations

import argparse
import mmap
import random
import shlex
import subprocess
import sys
import tempfile
import warnings
import zlib
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from corpora import ROOT, pack, unpack

LONGEST = 1 << 16  # bytes of an input
INSTRUMENTED = ["fmcli.model_file", "fmcli.data.cache", "fmcli.data.labels", "fmcli.registry.specs"]
TIMEOUT = 20  # seconds of an input
SHARED = Path("/dev/shm")  # a folder in memory
FILES_KEPT = 2000  # parsed files that are kept, because each is changed many times


class Target(NamedTuple):
    """A reader.

    seeds : files from which the first run starts.
    change : a changed file, by a generator of random numbers.
    read : reads a file; every exception is a hit.
    """

    seeds: Callable[[], list[bytes]]
    change: Callable[[bytes, random.Random], bytes]
    read: Callable[[bytes], object]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("target", choices=sorted(TARGETS))
    parser.add_argument("--runs", type=int, default=1_000_000)
    parser.add_argument("--folder", type=Path, help="where the corpus is kept")
    parser.add_argument("--minimise", action="store_true", help="afterwards, write the smallest corpus to tests/corpus")
    parser.add_argument("--replay", type=Path, metavar="FILE", help="read one file")
    # The arguments of libFuzzer in its own process.
    parser.add_argument("--libfuzzer", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    options = parser.parse_args()
    sys.path.insert(0, str(ROOT / "tests"))
    if options.libfuzzer is not None:
        return fuzz(options.target, options.libfuzzer)
    if options.replay:
        TARGETS[options.target]().read(options.replay.read_bytes())
        return 0
    with tempfile.TemporaryDirectory(prefix="fmcli-fuzz-") as temporary:
        corpus = (options.folder or Path(temporary)) / "corpus"
        unpack(options.target, corpus)
        for data in TARGETS[options.target]().seeds():
            (corpus / f"{zlib.crc32(data):08x}").write_bytes(data)
        status = run(options.target, f"-runs={options.runs}", "-print_final_stats=1", corpus)
        if options.minimise and status == 0:
            smallest = Path(temporary) / "smallest"
            smallest.mkdir()
            status = run(options.target, "-merge=1", smallest, corpus)
            pack(smallest, options.target)
    return status


def run(target: str, *arguments: str | Path) -> int:
    """Run libFuzzer in a process, because it ends its own. Returns its exit status."""
    limits = (f"-max_len={LONGEST}", f"-timeout={TIMEOUT}", "-rss_limit_mb=4096", "-mutate_depth=1")
    return subprocess.run([*own_command(target), *limits, *map(str, arguments)], check=False).returncode


def own_command(target: str) -> list[str]:
    """The command of a process for libFuzzer, which starts others like it to minimise a corpus."""
    return [sys.executable, __file__, target, "--libfuzzer"]


def fuzz(name: str, arguments: list[str]) -> int:
    """Run libFuzzer in this process."""
    import atheris

    with atheris.instrument_imports(include=INSTRUMENTED):
        target = TARGETS[name]()

    def change(data: bytes, most: int, seed: int) -> bytes:
        changed = target.change(data, random.Random(seed))
        return changed if len(changed) <= most else data

    atheris.Setup([shlex.join(own_command(name)), *arguments], target.read, custom_mutator=change)
    atheris.Fuzz()
    return 0


def models() -> Target:
    """The reader of model files, and what uses its result."""
    import forging
    import numpy as np

    from fmcli.model_file import container

    warnings.simplefilter("error")

    files = forging.corpus()
    forging.know(files)
    folder = tempfile.mkdtemp(prefix="fmcli-fuzz-")
    data = {name: str(Path(folder, name)) for name in forging.TEXT_DATA}
    for name, text in forging.TEXT_DATA.items():
        Path(data[name]).write_text(text)
    held = bytearray()

    def contents(*_: object) -> memoryview:
        room = mmap.mmap(-1, max(len(held), 1))  # at a multiple of 64 bytes
        room[: len(held)] = held
        return memoryview(room).toreadonly()[: len(held)]

    container.contents = contents

    parsed = lru_cache(FILES_KEPT)(forging.parsed)

    def change(data: bytes, rng: random.Random) -> bytes:
        with np.errstate(all="ignore"):
            return forging.changed(rng, parsed(data) or rng.choice(files), files)

    def read(file: bytes) -> str:
        held[:] = file
        return forging.use("m.fm", data, random.Random(zlib.crc32(file)))

    return Target(lambda: [forging.as_bytes(random.Random(0), file) for file in files], change, read)


def caches() -> Target:
    """The reader of caches, and training on the rows of some."""
    import forging_caches as forging

    warnings.simplefilter("error")
    forging.use_small_sizes()
    files = forging.corpus()
    path = Path(tempfile.mkdtemp(prefix="fmcli-fuzz-", dir=SHARED if SHARED.is_dir() else None), "rows")

    def change(data: bytes, rng: random.Random) -> bytes:
        return forging.changed(rng, data, files)

    def read(file: bytes) -> str:
        path.write_bytes(file)
        return forging.use(str(path), random.Random(zlib.crc32(file)))

    return Target(lambda: files, change, read)


TARGETS: dict[str, Callable[[], Target]] = {"cache": caches, "model": models}

if __name__ == "__main__":
    sys.exit(main())
