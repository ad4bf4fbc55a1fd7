"""The inputs that the fuzzers have found (scripts/fuzz), tried again: each reaches code that the others do not."""

import os
import random
import tarfile
from collections import Counter
from pathlib import Path

import forging
import forging_caches
import numpy as np

from fmcli.data.dictionary import FeatureIds
from fmcli.data.stored import cache
from fmcli.data.text.parser import PADDING, Rows
from fmcli.data.text.sources import BYTE_ORDER_MARK
from reference import slow_parser

FOLDER = Path(__file__).resolve().parent / "corpus"
# As in scripts/fuzz/text.cpp.
OPTION_BYTES = 4
LIMITS = (2**31 - 1, 0, 1, 10, 1000, 2**20, 2**31 - 2, 100)
HASH_BITS = (1, 2, 3, 5, 10, 20, 29, 30)
TRAINED = 0.2  # share of the valid caches on which a model is trained
KNOWN = (0, 1, 2, 3, 5, 10, 12, 1000, 2**40, 2**63 - 1, b"a", b"b", b"user=1", b"x:y", b"site")
GROWING, BY_DICTIONARY, HASHED = 1, 2, 3
NO_GROUPS, BY_FIELD = 0, 2


def inputs(name):
    with tarfile.open(FOLDER / f"{name}.tar.xz") as archive:
        for member in archive:
            yield archive.extractfile(member).read()


def options(data):
    """The options of the reader that the first bytes of an input choose."""
    flags, more, _, last = data[:OPTION_BYTES]
    groups = (more >> 4 & 3) % 3 if flags & 4 else NO_GROUPS
    ffm, training, space = bool(flags & 1), bool(flags & 4), last & 3
    ids = FeatureIds() if space == BY_DICTIONARY else None
    if ids is not None:
        for known in KNOWN:
            ids.column_of(known)
    return {
        "ffm": ffm,
        "keep_fields": ffm and bool(flags & 2),
        "training": training,
        "skip": bool(flags & 8),
        "label_weights": bool(flags & 16),
        "label_names": [] if more & 8 else None,
        "id_column": 0 if training else (flags >> 5) % 3,
        "limit": LIMITS[more % 8],
        "growing": space == GROWING,
        "ids": ids,
        "others": len(KNOWN) if ids is not None and last & 128 else None,
        "hash_bits": HASH_BITS[last >> 4 & 7] if space == HASHED else 0,
        "refuse_unseen": bool(last & 4),
        "grouped": groups != NO_GROUPS,
        "group_field": more >> 6 if groups == BY_FIELD else None,
    }


def parsed(how, text):
    """What the reader makes of a text: rows, unless they have a dictionary, and the lines and columns of errors."""
    rows = Rows(**how)
    data = np.frombuffer(text + b"7" * PADDING, np.uint8)
    _, faulty, faults = rows.parse(data, 0, len(text))
    wrong = [(fault.number + 1, fault.column) for fault in faults]
    usable = not rows.refused and not rows.is_numbered and (how["skip"] or not faulty)
    columns = 1 << how["hash_bits"] if how.get("hash_bits") else len(KNOWN) + 1 if how.get("ids") else how["limit"]
    return (rows.dataset(columns) if usable else None), wrong


def entries(data):
    """The entries of each row, as the slow parser has them."""
    value = np.ones(data.nnz, np.float32) if data.value is None else data.value
    field = np.zeros(data.nnz, np.int32) if data.field is None else data.field
    flat = list(zip(data.index.tolist(), field.tolist(), value.tolist(), strict=True))
    return [flat[a:b] for a, b in zip(data.indptr[:-1], data.indptr[1:], strict=True)]


def slowly(text, how):
    """The same for the slow parser."""
    try:
        rows = slow_parser.parse(text, **how)
        if rows.odd:
            return [], None
        return [], [[(rows.ids[j] if rows.ids else j, *entry) for j, *entry in row] for row in rows.entries]
    except slow_parser.WrongError as error:
        return [error.at], None


def test_texts_are_read_as_by_the_slow_parser():
    for item in inputs("text"):
        how, text = options(item), item[OPTION_BYTES:].removeprefix(BYTE_ORDER_MARK)
        if not text.endswith(b"\n"):
            text += b"\n"
        parsed(how, text)
        # The slow parser does not know all options.
        known = {name: how[name] for name in ("ffm", "keep_fields", "training", "limit")}
        if known["training"]:
            known["limit"] = LIMITS[0]  # the limit of every training run
        data, wrong = parsed({**known, "skip": False, "hash_bits": 0, "growing": known["training"]}, text)
        assert (wrong, None if data is None else entries(data)) == slowly(text, known), item


def test_models_are_refused_or_used(tmp_path):
    path, data = tmp_path / "m.fm", {name: str(tmp_path / name) for name in forging.TEXT_DATA}
    for name, text in forging.TEXT_DATA.items():
        Path(data[name]).write_text(text)
    counts = Counter()
    for number, item in enumerate(inputs("model")):
        path.write_bytes(item)
        counts[forging.use(str(path), data, random.Random(number)).kind] += 1
    assert {"refused as corrupted", "refused as invalid", "predicted and inspected"} <= set(counts)


def test_caches_are_refused_or_used(tmp_path, monkeypatch):
    for name, size in forging_caches.SMALL.items():
        monkeypatch.setattr(cache, name, size)
    path, counts = tmp_path / "rows", Counter()
    for number, item in enumerate(inputs("cache")):
        path.write_bytes(item)
        counts[forging_caches.use(str(path), random.Random(number)).kind] += 1
    assert {"refused", "trained on", "opened, then BadInputError"} <= set(counts)


def test_forged_caches_are_refused_or_used(tmp_path, monkeypatch):
    for name, size in forging_caches.SMALL.items():
        monkeypatch.setattr(cache, name, size)
    files, counts = [forging_caches.parsed(file) for file in forging_caches.corpus()], Counter()
    path, before = tmp_path / "rows", len(os.listdir("/dev/fd"))
    for case in range(300):
        rng = random.Random(case)
        path.write_bytes(forging_caches.changed(rng, rng.choice(files)))
        counts[forging_caches.use(str(path), rng if rng.random() < TRAINED else None).kind] += 1
    assert {"refused", "loaded", "opened, then BadInputError"} <= set(counts)
    assert len(os.listdir("/dev/fd")) == before
