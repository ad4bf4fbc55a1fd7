"""Forged models of libFM, libffm and xLearn: valid ones with random changes, and a check that fmcli handles them."""

from __future__ import annotations

import random
import struct
from pathlib import Path

import foreign_models as theirs
import numpy as np
from forging import Outcome, check_text

import fmcli
from fmcli.errors import BadInputError
from fmcli.exchange import importing

# What a number, a name or a part of it may become.
TOKENS = (
    *(b"", b"0", b"1", b"-1", b"nan", b"-inf", b"1e39", b"1e-320", b"1_0", b"0x1", b"99999999999", b"2147483647", b"+"),
    *(
        b"\0",
        b"\xff\xfe",
        b"\n",
        b"\r\n",
        b" ",
        b"#",
        b"#pairwise interactions Vj,f",
        b"v_0:",
        b"v_0_0:",
        b"i_1:",
        b"w0,0",
    ),
)
SIZES = (0, 1, 2, 3, 4, 8, -1, 255, 2**31 - 1)
FLOATS = (0.0, 1.0, -1.0, 1.5, np.nan, np.inf, 3e38, 1e-44)
HEADER_BYTES, WORD = 13, 4
ROW = {0: 1.0, 1: -2.0, 9: 0.5}


def corpus() -> list[bytes]:
    """Small files of every form."""
    one = [[[0.5]]]
    return [
        *(theirs.libfm(), theirs.libfm(None), theirs.libfm(w=None), theirs.libfm(V=[[]] * len(theirs.W))),
        *(theirs.libfm(None, None), theirs.libfm(None, None, [[]] * 2), theirs.libffm_text(norm=False)),
        *(theirs.libffm(), theirs.libffm(theirs.F4), theirs.libffm(theirs.F4, block=1), theirs.libffm(one, block=1)),
        *(theirs.xlearn(), theirs.xlearn(V=theirs.V), theirs.xlearn(w=theirs.W[:3], V=theirs.F)),
        struct.pack("<Q", 2) + b"fm" + bytes(30),
    ]


def is_binary(file: bytes) -> bool:
    return file[:1] not in (b"#", b"n", b"b")


def changed(rng: random.Random, file: bytes) -> bytes:
    """Return a file with one to three changes."""
    for _ in range(rng.randint(1, 3)):
        file = (change_binary if is_binary(file) else change_text)(rng, file)
    return file


def change_text(rng: random.Random, file: bytes) -> bytes:
    """Replace, remove or repeat a token or a line."""
    separator = rng.choice((b"\n", b" "))
    parts = file.split(separator)
    place = rng.randrange(len(parts))
    what = rng.random()
    if what < 0.5:
        parts[place] = rng.choice(TOKENS)
    elif what < 0.7:
        del parts[place]
    elif what < 0.9:
        parts.insert(place, parts[place])
    else:
        parts = parts[:place]
    return separator.join(parts)


def change_binary(rng: random.Random, file: bytes) -> bytes:
    """Put another number at a place, or change the length."""
    data, what = bytearray(file), rng.random()
    if what < 0.3 and len(data) >= HEADER_BYTES:
        struct.pack_into("<i", data, WORD * rng.randrange(3), rng.choice(SIZES))
    elif what < 0.7 and len(data) >= HEADER_BYTES + WORD:
        places = (len(data) - HEADER_BYTES) // WORD
        struct.pack_into("<f", data, HEADER_BYTES + WORD * rng.randrange(places), rng.choice(FLOATS))
    elif data:
        data = rng.choice((data[:-WORD], data + data[-WORD:], data[: rng.randrange(len(data))]))
    return bytes(data)


def use(file: bytes, path: Path) -> Outcome:
    """Import a file, and predict with the model. An exception other than BadInputError is a hit, that is, a bug."""
    path.write_bytes(file)
    tool = next((name for name, one in importing.TOOLS.items() if one.recognizes(memoryview(file))), "libfm")
    loss = None if tool == "libffm" else "logistic"
    try:
        model = fmcli.import_model(path, loss=loss, norm=False if tool == "xlearn" else None)
    except BadInputError as error:
        return Outcome("refused", check_text(str(error)))
    fields = [j % 2 for j in range(len(ROW) + 7)] if model.kind == "ffm" else None
    matrix = np.zeros((1, max(ROW) + 1))
    matrix[0, list(ROW)] = list(ROW.values())
    with np.errstate(all="ignore"):
        model.predict(matrix, fields=fields)
    return Outcome("imported")
