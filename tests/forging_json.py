"""Files that a user gives, with hostile values at random places: schemas, studies, logs, reports and folds."""

import json
import random
from collections.abc import Sequence
from copy import deepcopy
from pathlib import Path
from xml.etree import ElementTree

from forging import Outcome, check_text

from fmcli.choosing.folds import read_numbers
from fmcli.choosing.study import Study
from fmcli.cli.report.sections import of_logs
from fmcli.data.tables.schema import Schema
from fmcli.drawing.curves import svg
from fmcli.drawing.logs import KINDS, figure, read
from fmcli.drawing.page import HtmlPage
from fmcli.errors import FmcliError
from fmcli.training.setup.named_columns import schema_of

# Values that Python's parser of JSON accepts, or makes of a text: too large, too deep, none, of another kind, without
# printable characters, or without whole ones.
HOSTILE = (
    *("1e400", "-1e400", "1e308", "-1e308", "-1e300", "NaN", "Infinity", "1" * 400, "-1", "0", "0.5", "5e-324"),
    *("null", "true", "[]", "{}", '""', '"text"', '"\\ud800"', '"\\u0000\\u001b[31m"', '"\\u202e"', '"a\\nb"'),
    *("[" * 2000 + "]" * 2000, '{"a":' * 2000 + "1" + "}" * 2000, "[" * 30 + "]" * 30, '{"\\udcff": 1}', "[1, null]"),
)
PLACE = "\x00place\x00"
OPTIONS = {"l1": {"value": 0.1, "from": "command line"}, "rank": {"value": 8, "from": "default"}}
EPOCHS = [
    {
        "event": "epoch",
        "epoch": number,
        "loss": 1.0 / number,
        "valid": {"auc": 0.5, "logloss": number - 1 or None},
        "seconds": 0.1,
    }
    for number in (1, 2)
]
TRIALS = [
    {
        **{"event": "trial", "trial": number, "model": "fm", "solver": "sgd", "options": {"l2": 0.1}, "asked": 5},
        **{"rows": 9, "epochs": 5, "metric": "auc", "value": 0.5 + number / 9, "best_epoch": [3, 2], "ended": True},
        "sparsity": 0.5,
    }
    for number in (0, 1)
]
IDENTITY = {"options": {"l2": 0.1}, "given": ["l2"], "ranges": {}, "folds": 2, "sampler": "near", "path": None}
IDENTITY |= {"alternatives": [["fm", "cd"]], "stretched": True, "data": [1, 2], "validation": None, "tested": None}
IDENTITY |= {"init_model": None, "seed": 1}
SCHEMA = Schema(
    {"y": "label", "a": "category", "n": "number", "v": "vector", "t": "time", "b": "number"},
    whole=frozenset({"a"}),
    missing=("?",),
    means={"n": (0.5,), "v": (1.0, 2.0)},
    gaps=frozenset({"n"}),
    bins={"b": (1.0, 2.0)},
    joins={"a": ("b",)},
    orders={"t": "day"},
    hours=frozenset({"t"}),
    lengths={"v": 2},
).entry()
BIN = {"lowest": 0.1, "highest": 0.2, "rows": 9, "predicted": 0.1, "observed": 0.2}
# Kind of file -> lines of valid ones.
VALID = {
    "schema": [[SCHEMA]],
    "study": [[{"event": "study", **IDENTITY}, *TRIALS]],
    "log": [
        [{"event": "start", "options": OPTIONS}, *EPOCHS, {"event": "summary", "valid": {"auc": 0.5}, "sparsity": 0.5}],
        [{**one, "repeat": 1, "fold": fold, "against": None} for fold in (1, 2) for one in EPOCHS],
        [{**one, "seconds": 2.5} for one in TRIALS],
        [{"event": "study"}, *TRIALS],
        [{"rows": 9, "calibration": {"ece": 0.1, "bins": [BIN, BIN]}}],
    ],
    "folds": [[1, 2, -1, 1, 2], [0, 1, 2, 0, 1]],
}
FOLDED_ROWS = 5


def places(value, path=()):
    """Yield the place of each value within a value."""
    yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in inner:
        yield from places(one, (*path, key))


def corpus() -> list[bytes]:
    """Return the valid files of all kinds."""
    return [text_of(lines).encode() for files in VALID.values() for lines in files]


def text_of(lines: Sequence[object]) -> str:
    return "".join(f"{json.dumps(line)}\n" for line in lines)


def parsed(file: bytes) -> list | None:
    """Return the values of the lines of a file; None if one has none, or nothing in it can be changed."""
    try:
        lines = [json.loads(line) for line in file.decode().splitlines()]
        json.dumps(lines)
    except (ValueError, RecursionError):
        return None
    return lines or None


def changed(rng: random.Random, lines: list, times: int = 1) -> str:
    """Return the text of lines with hostile values in some places, or without some entries."""
    lines, found = deepcopy(lines), []
    for _ in range(times):
        *way, last = rng.choice([path for path in places(lines) if path])
        inner = lines
        for key in way:
            inner = inner[key]
        if isinstance(inner, dict) and rng.random() < 0.1:
            del inner[last]
        elif isinstance(inner, dict) and rng.random() < 0.1:
            inner[rng.choice(["\x1b", "\ud800", "event", "trial", "l1", "x" * 500])] = inner[last]
        else:
            inner[last] = f"{PLACE}{len(found)}"
            found.append(rng.choice(HOSTILE))
    text = text_of(lines)
    for number, value in enumerate(found):
        text = text.replace(json.dumps(f"{PLACE}{number}"), value)
    return text


def used(path: Path, file: bytes) -> Outcome:
    """Use a file as one of each kind. A file that is refused must stay as it is."""
    outcomes = []
    for kind in VALID:
        path.write_bytes(file)
        error = use(kind, str(path))
        if error and path.read_bytes() != file:
            raise AssertionError(f"the refused {kind} has changed")
        outcomes.append(Outcome("refused", check_text(str(error))) if error else Outcome(f"used as {kind}"))
    return next((one for one in outcomes if not one.message), outcomes[0])


def use(kind: str, path: str) -> FmcliError | None:
    """Read a file as the command does, and use it if it is valid. Returns the error, if it is refused. Errors that
    fmcli does not define are raised."""
    try:
        if kind == "schema":
            schema = schema_of(path)
            json.dumps(schema.entry(), ensure_ascii=False).encode()
        elif kind == "study":
            with Study(path, IDENTITY) as study:
                assert all(study.known(*key) for key in study._known)
        elif kind == "folds":
            read_numbers(path, FOLDED_ROWS)
        else:
            drawn(path)
    except FmcliError as error:
        return error
    return None


def drawn(path: str) -> None:
    """Draw a log in every way, as well-formed XML, and as a page."""
    events, errors = read(path), []
    for show in (None, *KINDS):
        try:
            ElementTree.fromstring(svg(figure({path: events}, show, [])).encode())
        except FmcliError as error:
            errors.append(error)
    try:
        page = HtmlPage()
        of_logs(page, {path: events}, (None, []))
        assert page.html(path).count("<script") == 2
    except FmcliError as error:
        errors.append(error)
    if len(errors) == len(KINDS) + 2:
        raise errors[0]
