"""Forged model files: valid files with random changes and correct checksums, and a check that fmcli handles them.

scripts/fuzz/files.py makes them from files that reach new code, and tests from a few small models.
"""

from __future__ import annotations

import copy
import json
import math
import random
import tempfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from json.encoder import encode_basestring_ascii as quoted
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from modelfiles import read, write

from fmcli.cli.figures import as_json, section
from fmcli.errors import BadInputError, FmcliError
from fmcli.export.kernel_form import kernel_form
from fmcli.export.text import write_text
from fmcli.inspect.inspection import inspect_model, views
from fmcli.model_file import container
from fmcli.model_file.container import (
    ALIGNMENT,
    DIGITS,
    DTYPES,
    HEADER_CHECKSUM,
    KIND,
    LENGTH_BYTES,
    METADATA,
    MODEL,
    OWN,
    TENSOR_CHECKSUMS,
    VERSION,
    ModelFile,
    _header_checksum,
    _read_layout,
    _views,
)
from fmcli.model_file.state import DRAW, as_halves
from fmcli.models import model
from fmcli.models.layout import REAL_TYPE
from fmcli.registry.build import build_model
from fmcli.registry.losses import LOSSES
from fmcli.registry.models import MODELS
from fmcli.registry.options import OPTIONS
from fmcli.registry.solvers import SOLVERS
from fmcli.scoring.evaluation import evaluate_model, figures, usual_metrics
from fmcli.scoring.prediction import Counts, predict
from fmcli.scoring.scorer import Scorer, load_model
from fmcli.training.saving import load_warm_start

INTEGERS = (0, 1, -1, 2, 3, 5, 7, 8, 9, 63, 64, 65, 255, 500, 3000, 2**16, 2**16 + 1, 2**24, 2**30, 2**31 - 1, 2**31)
LARGE = (2**32, 2**53, 2**62, 2**63 - 1, 2**63, 10**12, 10**400, -(2**31), -(2**63))
FLOATS = (0.0, -0.0, 0.5, -1.5, 1e-320, 1e30, 1e308, float("inf"), float("-inf"), float("nan"))
TEXTS = ("", "fm", "x", "\x1b[31mred\x1b[0m", "\u202egnp", "a\nb", "9" * 5000, "jo", "poly", "ones", "\ud800")
OTHERS = (None, True, False, [], {}, [0], [[]], [[0, 0]], [-1, 1], {"a": {"b": {}}}, list(range(3000)))
NORMAL = np.random.default_rng(0).standard_normal(1 << 14, dtype=np.float32)
BITS = np.packbits(np.random.default_rng(1).random(1 << 12) < 0.8)
GROUPS = np.random.default_rng(2).integers(-1, 2, 1 << 8, dtype=np.int32)
TEXT_DATA = {
    "libsvm": "0\n1 0:1 1:2 2:0.5 3:1 4:1 5:1\n2 5:1 7:1 100:2\n1 0:1e30 2147483646:1\n0 2:1 3:-1 a:1 77777777777:1\n",
    "ffm": "0\n1 0:0:1 1:1:2 2:2:0.5 0:3:1\n2 2:5:1 9:7:1 100:100:2\n1 0:0:1 1:0:1 2147483646:1:1\n0 1:1:1 1:a:1\n",
}
MOST_CHANGES = 3
MOST_NUMBERED = 1000  # columns that get other features
WRAPPED = (0, 2**31 - 1, -(2**31), -1)  # increasing if differences of int32 overflow
SMALL_NUMBERS = (1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 33)


def corpus() -> list[ModelFile]:
    """Return small models that cover every kind, solver and loss, with and without solver state or several draws."""
    runs = [(kind, None, "squared", False) for kind in MODELS]
    runs += [(kind, None, "softmax", True) for kind, piece in MODELS.items() if not piece.closed_form]
    runs += [("fm", name, "logistic", True) for name, solver in SOLVERS.items() if not solver.losses]
    runs += [(kind, "mcmc", loss, False) for kind, loss in (("ffm", "squared"), ("fm", "probit"))]
    others = {loss: "mcmc" if piece.drawn else None for loss, piece in LOSSES.items() if piece.task != "binary"}
    runs += [("linear", solver, loss, False) for loss, solver in others.items()]
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "m")
        files = []
        for kind, solver, loss, keep_state in runs:
            write(path, kind, solver, loss, keep_state=keep_state)
            files.append(read(path))
    return [*files, *(halved(file) for file in files if file.meta["draws"] > 1)]


def halved(file: ModelFile) -> ModelFile:
    """Return a model of several draws whose earlier ones have numbers of 16 bits."""
    arrays = {name: as_halves(array) if name.startswith(DRAW) else array for name, array in file.tensors.items()}
    return ModelFile(dict(file.meta), arrays)


# ---- Changes to a file, in place. ----


def some_value(rng: random.Random) -> Any:
    """Return a random value such as an attacker might put into a file."""
    return rng.choice(rng.choice((INTEGERS, INTEGERS, LARGE, FLOATS, TEXTS, OTHERS)))


def near(rng: random.Random, value: Any) -> Any:
    """Return a slightly different value, of the same type if possible."""
    if type(value) is bool:
        return not value
    if type(value) in (int, float):
        as_float = float(value) if abs(value) <= 2**53 else 0.5
        return rng.choice((value + 1, value - 1, -value, value * 2, as_float, str(value)[:99], [value]))
    if type(value) is str:
        return rng.choice((value + "x", value[:-1], value.upper(), value + "\x1b"))
    if type(value) is list and value:
        place = rng.randrange(len(value))
        changed = [*value]
        changed[place] = near(rng, value[place])
        return rng.choice((changed, value[1:], value + value, value[::-1]))
    return some_value(rng)


def change_entry(rng: random.Random, file: ModelFile, files: list[ModelFile]) -> None:
    """Put another value into an entry of the metadata, or of its options or its summary."""
    whole = rng.choice((None, None, "options", "training"))
    table = file.meta if whole is None else copy.copy(file.meta.get(whole))
    if type(table) is not dict or not table:
        return
    if whole is not None:
        file.meta[whole] = table
    name = rng.choice(sorted(table))
    what = rng.random()
    if what < 0.45:
        table[name] = some_value(rng)
    elif what < 0.8:
        table[name] = near(rng, table[name])
    elif what < 0.9:
        del table[name]
    else:
        table[rng.choice((name, *TEXTS[:5], *OPTIONS))] = table.pop(name)


def take_from_another(rng: random.Random, file: ModelFile, files: list[ModelFile]) -> None:
    """Take an entry, an array or all arrays of another model."""
    other = rng.choice(files)
    name = rng.choice(sorted(other.meta))
    what = rng.random()
    if what < 0.4:
        file.meta[name] = other.meta[name]
    elif what < 0.7:
        name = rng.choice(sorted(other.tensors))
        file.tensors[name] = other.tensors[name]
    elif what < 0.85:
        file.meta |= {entry: other.meta[entry] for entry in ("model", "options")}
    else:
        file.tensors = dict(other.tensors)


def change_array(rng: random.Random, file: ModelFile, files: list[ModelFile]) -> None:
    """Drop, rename, reshape, cut or retype an array, or put extreme numbers into it."""
    if not file.tensors:
        return
    name = rng.choice(sorted(file.tensors))
    array = file.tensors[name]
    what = rng.randrange(7)
    if what == 0:
        del file.tensors[name]
    elif what == 1:
        file.tensors[rng.choice((name + "2", "V", "seen", "state.0.V", "state.99999.w"))] = file.tensors.pop(name)
    elif what == 2:
        file.tensors[name] = array.reshape(rng.choice(((-1,), (1, *array.shape), (*array.shape, 1), array.shape[::-1])))
    elif what == 3 and array.ndim:
        size = rng.choice((0, 1, max(array.shape[0] - 1, 0), array.shape[0] + 1, 64))
        file.tensors[name] = np.resize(array, (size, *array.shape[1:]))
    elif what == 4:
        dtype = rng.choice(sorted(DTYPES.values(), key=str))
        with np.errstate(all="ignore"):
            file.tensors[name] = np.ascontiguousarray(array.astype(dtype, copy=False))
    elif what == 5:
        raw = array.reshape(-1).view(np.uint8)
        dtype = rng.choice([kind for kind in DTYPES.values() if raw.size % kind.itemsize == 0])
        file.tensors[name] = raw.view(dtype).copy()
    elif array.size:
        extremes = FLOATS if array.dtype.kind == "f" else (np.iinfo(array.dtype).min, np.iinfo(array.dtype).max, 1, 2)
        with np.errstate(all="ignore"):
            file.tensors[name] = array.copy()
            file.tensors[name].reshape(-1)[rng.randrange(array.size)] = rng.choice(extremes)


def some_numbers(rng: random.Random, numbers: Any, shape: tuple[int, ...]) -> Any:
    """An array of random numbers, which are taken from others."""
    size = math.prod(shape)
    if size > len(numbers):
        return np.resize(numbers, shape)
    begin = rng.randrange(len(numbers) - size + 1)
    return numbers[begin : begin + size].reshape(shape)


def make_anew(rng: random.Random, file: ModelFile, files: list[ModelFile]) -> None:
    """Make a model of the same kind with random options, counts and arrays that are consistent with each other."""
    kind = MODELS.get(str(file.meta.get("model")))
    if kind is None or type(file.meta.get("options")) is not dict:
        return
    options = {
        **file.meta["options"],
        **{name: rng.choice(SMALL_NUMBERS) for name in ("rank", "anchors", "neighbours", "pair_bits")
           if name in kind.options},
        **({"order": rng.choice((2, 3, 4, 5, 6, 8, 9, 31, 63, 64))} if "order" in kind.options else {}),
        **{name: rng.random() < 0.5 for name in ("bias", "linear", "augment", "norm") if name in file.meta["options"]},
    }  # fmt: skip
    features, fields = rng.choice((0, 1, 2, 6, 7, 40)), rng.choice((0, 1, 2, 3, 9, 33))
    file.meta["columns"] = features if rng.random() < (0.7 if kind.compact else 0.2) else None
    labels = rng.choice((None, [0.0, 1.0], [0.0, 1.0, 2.0]))
    outputs = len(labels) if labels and file.meta.get("loss") == "softmax" else 1
    file.meta |= {"options": options, "features": features, "fields": fields, "labels": labels, "outputs": outputs}
    file.meta["frequent"] = [[j, j % max(fields, 1)] for j in range(min(features, 12))]
    try:
        taken = {name: options[name] for name in kind.options}
        shapes = build_model(kind, features, outputs, taken, fields).shapes()
    except (FmcliError, ValueError, TypeError, KeyError, OverflowError):
        return
    slots = rng.choice((None, None, 0, 1, 2, 3))
    arrays = {name: some_numbers(rng, NORMAL, shape) for name, shape in shapes.items()}
    if slots is not None:
        arrays |= {f"state.{slot}.{name}": arrays[name] for slot in range(slots) for name in shapes}
    arrays["seen"] = some_numbers(rng, BITS, ((features + 7) // 8,))
    arrays["group"] = some_numbers(rng, GROUPS, (features,))
    arrays["met"] = some_numbers(rng, BITS, (features, (fields + 7) // 8))
    if rng.random() < 0.5:  # nothing has been counted
        file.meta["occurrences"] = None
        file.tensors = {name: array for name, array in file.tensors.items() if name not in ("together", "counts")}
    kept = {name: array for name, array in file.tensors.items() if name.startswith("landmarks") or name == "beta"}
    file.meta["slots"] = slots
    if file.meta["columns"] is not None:
        kept["features"] = np.arange(features, dtype=np.int32)
    file.tensors = {
        name: array for name, array in {**kept, **arrays}.items() if name in shapes or name in file.tensors or
        name.startswith("state.") or (name == "features" and file.meta["columns"] is not None)
    }  # fmt: skip


def number_features(rng: random.Random, file: ModelFile, files: list[ModelFile]) -> None:
    """Give other ids to the features that have columns: mostly valid ones, up to the largest."""
    columns = file.meta.get("columns")
    if type(columns) is not int or not 0 < columns < MOST_NUMBERED:
        return
    dimension = rng.choice((columns, columns + 1, 64 * columns + 1, 2**20, 2**31 - 1))
    ids = sorted(rng.sample(range(dimension), columns))
    if rng.random() < 0.5:  # the last bit of the last word
        ids[-1] = dimension - 1
    if rng.random() < 0.3:
        ids[rng.randrange(columns)] = rng.choice((0, 1, -1, dimension - 1, dimension, 2**31 - 1, -(2**31)))
    if rng.random() < 0.1 and columns > len(WRAPPED):
        ids[: len(WRAPPED)] = WRAPPED
    old = file.tensors.get("features")
    known = old is not None and old.shape == (columns,) and old.dtype == np.int32
    new = dict(zip(old.tolist(), ids, strict=True)) if old is not None and known else {}
    file.meta["features"] = dimension
    file.tensors["features"] = np.array(ids, dtype=np.int32)
    if type(file.meta.get("frequent")) is list and rng.random() < 0.8:
        pairs = [pair for pair in file.meta["frequent"] if type(pair) is list and len(pair) == 2]
        file.meta["frequent"] = [[new.get(j, j) if type(j) is int else j, field] for j, field in pairs]


def give_ids(rng: random.Random, file: ModelFile, files: list[ModelFile]) -> None:
    """Give features a dictionary of ids, or hash them: mostly in a valid form."""
    features = file.meta.get("features")
    if type(features) is not int or not 0 < features < MOST_NUMBERED:
        return
    if rng.random() < 0.1:
        file.meta["hash"] = {"name": "murmur64a", "bits": rng.choice((0, 1, 3, features.bit_length() - 1, 30, 31))}
        return
    shared = rng.random() < 0.3
    numbers = rng.randrange(features + 1 - shared)
    ids = sorted(rng.sample(range(2 ** rng.choice((12, 40, 62))), numbers))
    found: set[bytes] = set()
    while len(found) < features - numbers - shared:
        found.add(bytes(rng.choices(range(33, 256), k=rng.choice((1, 2, 7, 8, 9, 30)))))
    names = sorted(found)
    ends = np.cumsum([len(name) for name in names], dtype=np.int64)
    text = np.frombuffer(b"".join(names), dtype=np.uint8).copy()
    if rng.random() < 0.3 and len(ends):
        ends[rng.randrange(len(ends))] += rng.choice((1, -1, 2**62, -(2**62), -(2**63)))
    if rng.random() < 0.2 and len(text):
        text[rng.randrange(len(text))] = rng.choice((0, 10, 32, 33, 255))
    if rng.random() < 0.2 and ids:
        ids[rng.randrange(len(ids))] = rng.choice((0, -1, 2**63 - 1, -(2**63)))
    sizes = {"numbers": len(ids), "names": len(ends), "bytes": len(text), "shared": shared}
    file.meta |= {"columns": None, "dictionary": sizes}
    file.tensors.pop("features", None)
    file.tensors |= {"ids": np.array(ids, dtype=np.int64), "names": text, "name_ends": ends}


CHANGES: tuple[Callable[[random.Random, ModelFile, list[ModelFile]], None], ...] = (
    change_entry,
    change_entry,
    take_from_another,
    change_array,
    make_anew,
    number_features,
    give_ids,
)


# ---- A file as bytes. ----


def spoiled(rng: random.Random, text: bytes) -> bytes:
    """Return the header with a random change after its signature."""
    begin = DIGITS.stop - 8 + 1
    at = rng.randrange(begin, max(len(text), begin + 1))
    others = (b"", b"9", b"-", b'"', b"]", b"}", b"1e999", b"null", b"NaN", b"\xff", b"[" * 5000, b"0" * 5000)
    other = rng.choice(others)
    return text[:at] + other + text[at + rng.randrange(3) :]


class Stored(NamedTuple):
    """An array as a file has it."""

    dtype: str
    shape: str
    data: bytes
    checksum: str


@dataclass
class Parts(ModelFile):
    """A file that is changed many times, with the texts of its entries and its arrays as files have them. They are
    used for values that a changed file shares with it."""

    entries: dict[str, tuple[Any, str]] = field(default_factory=dict)
    arrays: dict[str, tuple[Any, Stored]] = field(default_factory=dict)

    @classmethod
    def of(cls, file: ModelFile) -> Parts:
        entries = {name: (value, entry_text(name, value)) for name, value in file.meta.items()}
        arrays = {name: (array, stored(array)) for name, array in file.tensors.items()}
        return cls(file.meta, file.tensors, kind=file.kind, entries=entries, arrays=arrays)


DTYPE_NAMES = {dtype: name for name, dtype in DTYPES.items()}
PAD_BYTES = bytes(ALIGNMENT)
NOTHING: tuple[Any, Any] = (None, None)


def stored(array: Any) -> Stored:
    """An array as a file has it."""
    data = array.tobytes()
    shape = ",".join(map(str, array.shape))
    return Stored(DTYPE_NAMES[array.dtype], f"[{shape}]", data, f"{zlib.crc32(data):08x}")


def entry_text(name: str, value: Any) -> str:
    """An entry of the metadata as JSON."""
    return f"{quoted(name)}:{quoted(json.dumps(value))}"


def as_bytes(rng: random.Random, file: ModelFile, parts: Parts | None = None) -> bytes:
    """Return the bytes of the file with correct checksums, even for values that fmcli would not write.

    parts : the file that it was made from.
    """
    arrays, entries = (parts.arrays, parts.entries) if parts else ({}, {})
    end, data, layout, checks = 0, list[bytes](), list[list[str]](), list[str]()
    for name in sorted(file.tensors):
        array = file.tensors[name]
        known, of = arrays.get(name, NOTHING)
        if known is not array:
            of = stored(array)
        if gap := -end % ALIGNMENT:
            layout.append([f"_pad{len(layout)}", '"U8"', f"[{gap}]", f"[{end},{end + gap}]"])
            data.append(PAD_BYTES[:gap])
            end += gap
        layout.append([name, f'"{of.dtype}"', of.shape, f"[{end},{end + len(of.data)}]"])
        data.append(of.data)
        checks.append(f'{quoted(name)}:"{of.checksum}"')
        end += len(of.data)
    if layout and rng.random() < 0.05:
        rng.choice(layout)[rng.randint(1, 3)] = json.dumps(some_value(rng))
    own = {HEADER_CHECKSUM: "0" * 8, VERSION: "1", TENSOR_CHECKSUMS: f"{{{','.join(checks)}}}"}
    own |= {KIND: file.kind} if file.kind != MODEL else {}
    texts = [json.dumps(own, separators=(",", ":"))[1:-1]]
    for name, value in file.meta.items():
        known, text = entries.get(name, NOTHING)
        texts.append(text if text and known is value else entry_text(name, value))
    tensors = [
        f',{quoted(name)}:{{"dtype":{dtype},"shape":{shape},"data_offsets":{place}}}'
        for name, dtype, shape, place in layout
    ]
    text = f'{{"{METADATA}":{{{",".join(texts)}}}{"".join(tensors)}}}'.encode()
    if rng.random() < 0.05:
        text = spoiled(rng, text)
    text += b" " * (-(LENGTH_BYTES + len(text)) % ALIGNMENT)
    header = len(text).to_bytes(LENGTH_BYTES, "little") + text
    header = header[: DIGITS.start] + f"{_header_checksum(header):08x}".encode() + header[DIGITS.stop :]
    return header + b"".join(data)


def parsed(data: bytes) -> Parts | None:
    """The contents of a file, whatever its checksums and values; None if its parts cannot be found."""
    try:
        start = LENGTH_BYTES + int.from_bytes(data[:LENGTH_BYTES], "little")
        entries = json.loads(data[LENGTH_BYTES:start])
        metadata = entries.pop(METADATA)
        meta = {name: json.loads(text) for name, text in metadata.items() if not name.startswith(OWN)}
        layout = _read_layout(entries)
        tensors = dict(_views(memoryview(data), start, layout))
        return Parts.of(ModelFile(meta, tensors, kind=metadata.get(KIND, MODEL)))
    except (BadInputError, ValueError, AttributeError, KeyError, TypeError, RecursionError):
        return None


def changed(rng: random.Random, parts: Parts, files: list[ModelFile]) -> bytes:
    """The bytes of a file with some changes; unchanged values are shared with the file."""
    file = ModelFile(dict(parts.meta), dict(parts.tensors), kind=parts.kind)
    for _ in range(rng.randint(1, MOST_CHANGES)):
        rng.choice(CHANGES)(rng, file, files)
    return as_bytes(rng, file, parts)


# ---- The use of a forged file. ----


def check_text(text: str) -> str:
    """Return the text; fail if it has control characters."""
    if not text.replace("\n", "").isprintable():
        raise AssertionError(f"control characters: {text[:200]!r}")
    return text


class Outcome(NamedTuple):
    """What happened to a file: in a few words, and the message of the error if there was one."""

    kind: str
    message: str = ""


def use(path: str, data: dict[str, str], rng: random.Random | None) -> Outcome:
    """Load a file and, with a generator of random numbers, run everything that reads models.

    An exception other than FmcliError is a hit, that is, a bug.
    """
    try:
        scorer = load_model(path)
    except BadInputError as error:
        text = check_text(str(error))
        corrupted = "corrupted" in text or "truncated" in text
        return Outcome("refused as corrupted" if corrupted else "refused as invalid", text)
    if rng is None:
        return Outcome("loaded")
    try:
        use_scorer(path, scorer, data, rng)
    except FmcliError as error:
        return Outcome(f"loaded, then {type(error).__name__}", check_text(str(error)))
    return Outcome("predicted and inspected")


def use_scorer(path: str, scorer: Scorer, data: dict[str, str], rng: random.Random) -> None:
    """Resume from the model, predict, inspect, export and evaluate."""
    load_warm_start(path)
    text = data["ffm" if scorer.needs_fields or rng.random() < 0.5 else "libsvm"]
    for output in ("raw", scorer.default_output(), "label"):
        lines = b"".join(predict(scorer, [text], output=output, counts=Counts()))
        assert lines.count(b"\n") == TEXT_DATA["libsvm"].count("\n")
    found = {view.name: (view.title, shown) for view, shown in views(inspect_model(path))}
    check_text("".join(section(table, title) for title, table in found.values()))
    as_json({name: table for name, (_, table) in found.items()})
    write_text(scorer, lambda piece: None)
    what = rng.random()
    if what < 0.3:
        outcome = evaluate_model(scorer, [text], format="auto", threads=1, counts=Counts())
        figures(usual_metrics(scorer.labels.loss, of_model=True, grouped=False), outcome, scorer)
    elif what < 0.5:
        kernel_form(path, scorer)


def watch_memory() -> None:
    """Copy arrays of files and working memory to the heap, where the sanitizer finds overruns; it cannot check mapped
    memory."""
    views = container._views
    container._views = lambda *place: ((name, array.copy()) for name, array in views(*place))  # type: ignore[assignment]
    model.allocate = lambda size, dtype=REAL_TYPE: np.zeros(max(size, 1), dtype)
