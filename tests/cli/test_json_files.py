"""Schemas, studies, logs and reports may be hostile, or no files at all: each is refused or used, and nothing else
happens."""

import os
import random
from types import NoneType
from xml.etree import ElementTree

import pytest
from forging_json import HOSTILE, VALID, changed, text_of, use

from fmcli.base.json_files import DEEPEST, MOST_BYTES, parse
from fmcli.errors import BadInputError, UsageError

CASES = 12  # of each kind of file


@pytest.mark.parametrize("kind", VALID)
def test_valid_files_are_used(tmp_path, kind):
    for number, lines in enumerate(VALID[kind]):
        (tmp_path / f"{number}").write_text(text_of(lines))
        assert use(kind, str(tmp_path / f"{number}")) is None


@pytest.mark.parametrize("kind", VALID)
def test_hostile_files_are_refused_or_used(tmp_path, kind):
    for number in range(CASES):
        rng = random.Random(f"{kind} {number}")
        (tmp_path / "f").write_text(changed(rng, rng.choice(VALID[kind])))
        assert isinstance(use(kind, str(tmp_path / "f")), (NoneType, BadInputError, UsageError))


JSON = [kind for kind in VALID if kind != "folds"]
# Kind, the beginning of a line of a valid file, a text in it, and what takes its place.
WRONG = [
    *(("study", '"epochs": 5', f'"epochs": {value}') for value in ("1e400", "NaN", "-1", '"5"', "null", "1.5")),
    *(("study", '"value": 0.5', f'"value": {value}') for value in ("1e308", "-1e308", "-1e300", "NaN", "1e400", '"0"')),
    *(("log", '"loss": 1.0', f'"loss": {value}') for value in ("1e308", "NaN", '"low"', "[1]", "1" * 400)),
    *(("log", '"seconds": 0.1', f'"seconds": {value}') for value in ("-1", "null", '"1"')),
    ("log", '"epoch": 1', '"epoch": null'),
    ("schema", '"kind": "number"', '"kind": "\\ud800"'),
    ("schema", '"name": "n"', '"name": "\\ud800"'),
    ("schema", "0.5", "1e400"),
    ("schema", '"separator": "|"', '"separator": "\\n"'),
    ("schema", '"v": 2', '"v": 1e9'),
    *((kind, "{", '{"deep": ' + "[" * 5000 + "]" * 5000 + ", ") for kind in JSON),
    *((kind, "{", '{"x": 1, "x": 2, ') for kind in JSON),
]


@pytest.mark.parametrize(("kind", "old", "new"), WRONG, ids=[f"{kind} {new[:40]}" for kind, _, new in WRONG])
def test_wrong_values_are_refused(tmp_path, kind, old, new):
    text = text_of(VALID[kind][0])
    assert old in text
    (tmp_path / "f").write_text(text.replace(old, new, 1))
    assert isinstance(use(kind, str(tmp_path / "f")), BadInputError)


def test_messages_are_printable(tmp_path):
    (tmp_path / "f").write_text(text_of(VALID["study"][0]).replace('"seed": 1', '"seed": "\\u202e"'))
    assert str(use("study", str(tmp_path / "f"))).isprintable()
    (tmp_path / "f").write_text(text_of(VALID["log"][3]).replace('"auc"', '"\\u202e"').replace(": 0.5", ": null"))
    assert str(use("log", str(tmp_path / "f"))).isprintable()


def test_levels_of_nested_values_are_limited():
    for text in HOSTILE:
        try:
            value = parse(text)
        except ValueError:
            continue
        assert len(repr(value)) <= len(text) + 40
    for opening, closing in (("[", "]"), ('{"a":', "}")):
        assert parse(opening * DEEPEST + "1" + closing * DEEPEST)
        with pytest.raises(ValueError, match="nested"):
            parse(opening * (DEEPEST + 1) + "1" + closing * (DEEPEST + 1))


@pytest.mark.parametrize(
    "words",
    [("report", "--log"), ("train", "t.csv", "--label", "y", "--schema"), ("tune", "t.csv", "--label", "y", "--study")],
)
def test_pipes_devices_and_large_files_are_refused_at_once(run, tmp_path, words):
    (tmp_path / "t.csv").write_text("y,a\n" + "1,x\n0,y\n" * 50)
    os.mkfifo(tmp_path / "pipe")
    for path in ("pipe", "/dev/zero"):
        done = run.fails(65, *words, path)
        assert f"{path}: is not a" in done.stderr
        assert "no regular file" in done.stderr
    with open(tmp_path / "large", "wb") as file:
        file.truncate(MOST_BYTES + 1)
    assert "large: is larger than 256 MiB, too large for a " in run.fails(65, *words, "large").stderr
    assert os.stat(tmp_path / "large").st_size == MOST_BYTES + 1


def test_labels_of_figures_are_well_formed_xml(run, tmp_path):
    name = os.fsdecode(b"a\x1b<\xff&.json")
    log = [{**one, "valid": {"\x02\ud800": 0.5}} for one in VALID["log"][0][1:3]]
    (tmp_path / name).write_text(text_of(log))
    done = run.ok("report", "--svg", "--log", name)
    assert "a\\x1b<\\xff&" in "".join(ElementTree.fromstring(done.stdout).itertext())
