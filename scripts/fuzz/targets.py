"""The readers that are fuzzed, and the changes of their files (tests/forging*.py)."""

from __future__ import annotations

import mmap
import os
import random
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from forging import Outcome

LONGEST = 1 << 16  # bytes of an input
MILLION = 1_000_000


class Target(NamedTuple):
    """A reader.

    seeds : files from which the first run starts.
    parsed : the parts of a file, which are changed; None if they cannot be found.
    changed : a changed file.
    read : reads a file, and uses it if it is valid; every exception is a hit.
    """

    seeds: Callable[[], list[bytes]]
    parsed: Callable[[bytes], Any]
    changed: Callable[[random.Random, Any], bytes]
    read: Callable[[bytes], Outcome]


class Entry(NamedTuple):
    """A target that is not loaded yet.

    modules : modules and packages with probes, which must not be imported before `load` is called.
    load : takes a folder for files, the share of the valid files that are used in each way, and whether the compiled
        code has sanitizers.
    """

    modules: tuple[str, ...]
    load: Callable[[Path, float, bool], Target]


def some(file: bytes, share: float) -> random.Random | None:
    """For a share of the files, a generator of random numbers that depends on the file only."""
    checksum = zlib.crc32(file)
    return random.Random(checksum) if checksum % MILLION < share * MILLION else None


def models(folder: Path, share: float, sanitized: bool) -> Target:
    """The reader of model files, and what uses its result."""
    import forging

    from fmcli.model_file import container

    path, data = folder / "m.fm", {name: str(folder / name) for name in forging.TEXT_DATA}
    for name, text in forging.TEXT_DATA.items():
        Path(data[name]).write_text(text)
    files: list[Any] = []

    def seeds() -> list[bytes]:
        return [forging.as_bytes(random.Random(0), file) for file in forging.corpus()]

    def parsed(file: bytes) -> Any:
        parts = forging.parsed(file)
        if parts is None or not parts.meta or not parts.tensors:
            return None
        if parts.meta.keys() >= {"model", "options"}:  # its entries go to others, too
            files.append(parts)
        return parts

    def changed(rng: random.Random, parts: Any) -> bytes:
        return forging.changed(rng, parts, files)

    def read_file(file: bytes) -> Outcome:
        path.write_bytes(file)
        return forging.use(str(path), data, some(file, share))

    room = mmap.mmap(-1, 2 * LONGEST)  # at a multiple of 64 bytes

    def read(file: bytes) -> Outcome:
        room[: len(file)] = file
        held = memoryview(room).toreadonly()[: len(file)]
        container.contents = lambda *_: held
        return forging.use(str(path), data, some(file, share))

    if sanitized:
        forging.watch_memory()
    return Target(seeds, parsed, changed, read_file if sanitized else read)


def caches(folder: Path, share: float, sanitized: bool) -> Target:
    """The reader of caches, and training on the rows of some."""
    import forging_caches as forging

    forging.use_small_sizes()
    path = folder / "rows"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT)

    def read(file: bytes) -> Outcome:
        os.pwrite(descriptor, file, 0)
        os.ftruncate(descriptor, len(file))
        return forging.use(str(path), some(file, share))

    return Target(forging.corpus, forging.parsed, forging.changed, read)


def checkpoints(folder: Path, share: float, sanitized: bool) -> Target:
    """The reader of checkpoints, and the runs that go on from them."""
    import forging
    import forging_checkpoints

    forging_checkpoints.use_small_sizes()
    path, files = folder / "checkpoint", list[Any]()

    def parsed(file: bytes) -> Any:
        parts = forging.parsed(file)
        if parts is not None and parts.tensors:
            files.append(parts)
        return parts

    def changed(rng: random.Random, parts: Any) -> bytes:
        return forging_checkpoints.changed(rng, parts, files)

    def read(file: bytes) -> Outcome:
        path.write_bytes(file)
        return forging_checkpoints.use(str(path))

    if sanitized:
        forging.watch_memory()
    return Target(forging_checkpoints.corpus, parsed, changed, read)


def foreign(folder: Path, share: float, sanitized: bool) -> Target:
    """The readers of models of other programs, and predictions of all that are valid."""
    import forging_foreign

    path = folder / "m"
    return Target(
        forging_foreign.corpus,
        lambda file: file or None,
        forging_foreign.changed,
        lambda file: forging_foreign.use(file, path),
    )


def texts(folder: Path, share: float, sanitized: bool) -> Target:
    """The readers of schemas, studies, logs and folds, and what uses them."""
    import forging_json

    def changed(rng: random.Random, lines: Any) -> bytes:
        return forging_json.changed(rng, lines, rng.randint(1, 3)).encode()

    path = folder / "f"
    return Target(forging_json.corpus, forging_json.parsed, changed, lambda file: forging_json.used(path, file))


# What continues from a checkpoint has probes, too.
CONTINUING = ("fmcli.training.job", "fmcli.training.checkpoint", "fmcli.training.validation", "fmcli.solvers")
TARGETS = {
    "cache": Entry(("fmcli.data.stored.cache", "fmcli.data.stored.cache_check", "fmcli.data.labels"), caches),
    "checkpoint": Entry(("fmcli.base.state_dict", "fmcli.model_file", *CONTINUING), checkpoints),
    "foreign": Entry(("fmcli.exchange",), foreign),
    "json": Entry(("fmcli.base", "fmcli.choosing", "fmcli.data.tables.schema", "fmcli.drawing"), texts),
    "model": Entry(("fmcli.model_file", "fmcli.data.labels", "fmcli.registry.specs"), models),
}
