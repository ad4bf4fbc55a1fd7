"""Forged caches of rows: valid ones with random changes and correct checksums, and a check that fmcli handles them."""

from __future__ import annotations

import json
import random
import struct
import tempfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
from forging import Outcome, check_text, near, some_value
from modelfiles import rows
from numpy.typing import NDArray

from fmcli.data.dataset import Dataset
from fmcli.data.stored import cache as caches
from fmcli.data.stored.cache import CHECKSUM, COLUMNS, FOOTER, MAGIC, POSITION, Cache, build
from fmcli.data.text.pieces import TextFacts, TextRows
from fmcli.errors import FmcliError
from fmcli.registry.specs import make_spec
from fmcli.training import job
from fmcli.training.planning import prepare
from fmcli.training.setup.settings import Settings
from fmcli.training.setup.stored import rows_of_cache

# Sizes with which a few rows have several chunks and shards.
SMALL = {"STRIPS": 4, "CHUNK_BYTES": 200, "SHARD_BYTES": 150}
EXTREMES = (0, 1, -1, 2, 3, 7, 40, 255, 2**31 - 1, -(2**31))
TABLE_EXTREMES = (*EXTREMES, 2**31, 2**32, 2**40, 2**62, 2**63 - 1, -(2**63))
WORDS = (np.int32, np.float32, np.float64)
MOST_CHANGES = 3
KINDS = ("ffm", "fm", "linear", "poly2")


@dataclass
class Parts:
    """The parts of a cache."""

    strips: list[bytes]
    counts: NDArray[np.int32]
    table: NDArray[np.int64]
    ids: bytes
    header: Any
    text: bytes | None = None  # of the header, unless that is changed
    moved: bool = False  # whether the footer's positions differ from the parts' positions


def use_small_sizes() -> None:
    for name, size in SMALL.items():
        setattr(caches, name, size)


def corpus() -> list[bytes]:
    """Small caches with and without fields, weights, values, names of labels, and a random order."""
    data, found = rows(), []
    ones = np.ones(data.nnz, dtype=np.float32)
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "c")
        for number in range(16):
            fielded, weighted, valued, shuffled = (bool(number >> bit & 1) for bit in range(4))
            one = data.changed(
                field=data.field if fielded else None,
                weight=np.linspace(0, 2, data.rows) if weighted else None,
                value=data.value if valued else ones,
            )
            about = {"keep_fields": fielded, "label_weights": weighted, "labels": None, "inputs": None}
            names = ("ham", "eggs", "spam") if number % 3 == 0 else None
            facts = TextFacts("ffm" if fielded else "libsvm", 30, names=names)
            pieces = [TextRows(piece, None, facts) for piece in halves(one)]
            build(path, pieces, about, shuffled=shuffled, threads=1, by_ids=number % 5 == 0)
            found.append(Path(path).read_bytes())
    return found


def halves(data: Dataset) -> list[Dataset]:
    every = np.arange(data.rows, dtype=np.int32)
    return [data.take(every[: data.rows // 2]), data.take(every[data.rows // 2 :])]


def parsed(data: bytes) -> Parts | None:
    """The parts of a cache, whatever its checksums and values; None if they cannot be found."""
    try:
        counts, table, ids, header, _, _ = FOOTER.unpack(data[-FOOTER.size :])
        cells = np.frombuffer(data[table:ids], dtype=np.int64).reshape(-1, len(COLUMNS))
        places = [min(max(place, 0), counts) for place in cells[:, POSITION].tolist()]
        strips = [data[a:b] for a, b in zip(places, [*places[1:], counts], strict=True)]
        text = data[header : -FOOTER.size]
        numbers = np.frombuffer(data[counts:table], dtype=np.int32).copy()
        return Parts(strips, numbers, cells.copy(), data[ids:header], json.loads(text), text)
    except (ValueError, RecursionError, struct.error):
        return None


# ---- Changes, in place. ----


def change_header(rng: random.Random, parts: Parts) -> None:
    """Put another value into the header, or into what it says about the rows or their sources."""
    parts.header = table = json.loads(parts.text or json.dumps(parts.header))
    parts.text = None
    if type(table) is not dict or not table:
        return
    for name in rng.choice(((), ("facts",), ("facts",), ("facts", "labels"), ("about",))):
        if type(table) is dict and type(table.get(name)) in (dict, list) and table[name]:
            table = table[name]
    place = rng.choice(sorted(table)) if type(table) is dict else rng.randrange(len(table))
    what = rng.random()
    if what < 0.4:
        table[place] = some_value(rng)
    elif what < 0.9:
        table[place] = near(rng, table[place])
    else:
        del table[place]


def change_table(rng: random.Random, parts: Parts) -> None:
    """Change a number of the table, or remove, repeat or exchange a strip."""
    if not len(parts.table):
        return
    strip, what = rng.randrange(len(parts.table)), rng.random()
    if what < 0.5:
        column = rng.randrange(len(COLUMNS))
        old = int(parts.table[strip, column])
        parts.table[strip, column] = rng.choice((*TABLE_EXTREMES, min(old + 1, 2**63 - 1), max(old - 1, -(2**63))))
    elif what < 0.7:
        parts.table = np.delete(parts.table, strip, axis=0)
        del parts.strips[strip]
    elif what < 0.9:
        parts.table = np.insert(parts.table, strip, parts.table[strip], axis=0)
        parts.strips.insert(strip, parts.strips[strip])
    else:
        other = rng.randrange(len(parts.table))
        parts.strips[strip], parts.strips[other] = parts.strips[other], parts.strips[strip]


def change_rows(rng: random.Random, parts: Parts) -> None:
    """Put another number into a strip, or change its length."""
    if not parts.strips:
        return
    strip, word = rng.randrange(len(parts.strips)), np.dtype(rng.choice(WORDS))
    data = bytearray(parts.strips[strip])
    if len(data) >= word.itemsize and rng.random() < 0.8:
        at = rng.randrange(len(data) // word.itemsize) * word.itemsize
        number = rng.choice(EXTREMES if word.kind == "i" else (0, 1, -1, 1e30, np.inf, np.nan, 1e308))
        with np.errstate(all="ignore"):
            data[at : at + word.itemsize] = np.array(number).astype(word).tobytes()
    else:
        data = rng.choice((data[:-4], data + data[-4:], data[4:]))
    parts.strips[strip] = bytes(data)


def change_counts(rng: random.Random, parts: Parts) -> None:
    """Change the counts of features, or how many there are."""
    what = rng.random()
    if what < 0.5 and len(parts.counts):
        parts.counts[rng.randrange(len(parts.counts))] = rng.choice(EXTREMES)
    else:
        parts.counts = np.resize(parts.counts, rng.choice((0, 1, len(parts.counts) + 1, 2 * len(parts.counts))))


def change_ids(rng: random.Random, parts: Parts) -> None:
    """Put another number into the dictionary, or change its length."""
    data = bytearray(parts.ids)
    if len(data) >= 8 and rng.random() < 0.8:
        at = rng.randrange(len(data) // 8) * 8
        data[at : at + 8] = np.int64(rng.choice(TABLE_EXTREMES)).tobytes()
    else:
        data = rng.choice((data[:-8], data + data[-8:], data[1:], data + b" "))
    parts.ids = bytes(data)


def loosen(rng: random.Random, parts: Parts) -> None:
    """Let the header permit any labels and weights."""
    parts.header = header = json.loads(parts.text or json.dumps(parts.header))
    parts.text = None
    if type(header) is dict and type(header.get("facts")) is dict:
        header["facts"] |= {"labels": None, "names": None, "lowest": -1e300, "highest": 1e300, "total_weight": 1e300}


def move(rng: random.Random, parts: Parts) -> None:
    parts.moved = True


CHANGES: tuple[Callable[[random.Random, Parts], None], ...] = (
    *(change_header, change_header, change_header, change_table, change_rows, change_rows, change_rows, loosen),
    *(change_counts, change_ids, move),
)


def as_bytes(rng: random.Random, parts: Parts) -> bytes:
    """The bytes of a cache, mostly with correct positions and checksums."""
    table = parts.table
    if rng.random() < 0.97:
        table[:, CHECKSUM] = list(map(zlib.crc32, parts.strips))
    if rng.random() < 0.95:
        table[:, POSITION] = list(accumulate(map(len, parts.strips), initial=len(MAGIC)))[:-1]
    strips = b"".join(parts.strips)
    text = parts.text or json.dumps(parts.header).encode()
    tail = [parts.counts.tobytes(), table.tobytes(), parts.ids, text]
    if rng.random() < 0.02:
        tail[3] = rng.choice((b"[" * 5000, b"{}", b"", b"\xff", tail[3][:-1], b"1" * 5000))
    positions = list(accumulate(map(len, tail[:3]), initial=len(MAGIC) + len(strips)))
    if parts.moved:
        positions[rng.randrange(4)] += rng.choice((-1, 1, -8, 8, -40, 2**40, -(2**40)))
    return MAGIC + strips + b"".join(tail) + FOOTER.pack(*positions, zlib.crc32(b"".join(tail)), MAGIC)


def changed(rng: random.Random, parts: Parts) -> bytes:
    """The bytes of a cache with some changes."""
    one = Parts([*parts.strips], parts.counts.copy(), parts.table.copy(), parts.ids, parts.header, parts.text)
    for _ in range(rng.randint(1, MOST_CHANGES)):
        rng.choice(CHANGES)(rng, one)
    return as_bytes(rng, one)


# ---- The use of a forged cache. ----


def use(path: str, rng: random.Random | None) -> Outcome:
    """Open a cache and load its shards; with a generator of random numbers, train a model.

    An exception other than FmcliError is a hit, that is, a bug, and so are rows that contradict the header.
    """
    try:
        cache = Cache(path)
    except FmcliError as error:
        return Outcome("refused", check_text(str(error)))
    try:
        for shard in range(len(cache.shards)):
            check_shard(cache, cache.load(shard))
        if rng is not None:
            train(cache, rng)
    except FmcliError as error:
        return Outcome(f"opened, then {type(error).__name__}", check_text(str(error)))
    finally:
        cache.close()
    return Outcome("loaded" if rng is None else "trained on")


def check_shard(cache: Cache, data: Dataset) -> None:
    """Check what training assumes of a shard."""
    facts = cache.facts
    assert data.longest <= facts.longest
    assert data.fields <= facts.fields
    assert data.features <= facts.features
    assert facts.names is None or set(data.label.tolist()) <= set(range(len(facts.names)))


def train(cache: Cache, rng: random.Random) -> None:
    kind = rng.choice(KINDS if cache.fielded else KINDS[1:])
    spec = make_spec(kind, None, None, {"epochs": 1, **({} if kind in ("linear", "poly2") else {"rank": 2})})
    job.train(prepare(Settings(spec, threads=1), rows_of_cache(cache)))
