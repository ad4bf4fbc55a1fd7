"""A pair of choices that exclude each other is refused by the command and by Python, for the same reason."""

import ast
import shlex
from pathlib import Path

import numpy as np
import pytest

import fmcli
from fmcli.api.errors import in_python_words
from fmcli.cli.flags import flag_of
from fmcli.registry.choices import RUN, spelled
from fmcli.registry.modes import MODES

X = np.random.default_rng(0).normal(size=(200, 4))
ROWS = X, (X[:, 0] > 0).astype(int)
# Choice -> its value in Python, and its words on the command line.
MADE = {
    "refit": (True, "--refit"),
    "max_seconds": (60, "--max-seconds 60"),
    "calibrate": ("platt", "--calibrate platt"),
    "auto": (True, "--auto"),
    "only_new": (True, "--only-new"),
    "model": ("fm", "-m fm"),
    "solver": ("cd", "-s cd"),
    "loss": ("logistic", "--loss logistic"),
    "holdout": (0.2, "--holdout 0.2"),
    "keep_state": (True, "--keep-state"),
    "no_keep_state": (False, "--no-keep-state"),
    "ensemble": (2, "--ensemble 2"),
    "min_count": (2, "--min-count 2"),
    "class_weight": ({0: 2.0}, "--class-weight 0=2"),
    "pos_weight": (2.0, "--pos-weight 2"),
    "init_strength": (0.5, "--init-strength 0.5"),
    "init_model": ("m.fm", "-i m.fm"),
    "valid": (ROWS, "-v rows"),
}
PAIRS = {
    (mode.name, other): why
    for mode in MODES
    for other, why in mode.refuses.items()
    if {mode.name, other} <= MADE.keys()
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with rows, and a model of them by cd."""
    path = tmp_path_factory.mktemp("rules")
    lines = [f"{y} " + " ".join(f"{j}:{x:.3f}" for j, x in enumerate(row)) for row, y in zip(*ROWS, strict=True)]
    (path / "rows").write_text("\n".join(lines))
    fmcli.train(ROWS, solver="cd", epochs=2, quick_search=False).save(path / "m.fm")
    return path


def test_most_modes_of_both_front_ends_are_tried():
    assert len(PAIRS) >= 20


@pytest.mark.parametrize("pair", PAIRS)
def test_a_pair_is_refused_in_both(run, folder, monkeypatch, pair):
    monkeypatch.chdir(folder)
    needed = {"only_new", "init_strength"} & set(pair)
    names = dict.fromkeys([*pair, *(["init_model"] if needed else [])])
    why = PAIRS[pair]
    values = {name.removeprefix("no_"): MADE[name][0] for name in names}
    with pytest.raises(ValueError, match="cannot be combined") as caught:
        fmcli.train(ROWS, **values)
    assert spelled(why, in_python_words) in str(caught.value)
    words = [word for name in names for word in shlex.split(MADE[name][1])]
    files = {"m.fm": folder / "m.fm", "rows": folder / "rows"}
    done = run.fails(2, "train", *(files.get(word, word) for word in words), folder / "rows")
    assert spelled(why, flag_of) in done.stderr


def test_each_choice_of_a_run_is_read():
    read = set()
    texts = (path.read_text() for path in Path(fmcli.__file__).parent.rglob("*.py"))
    for text in (text for text in texts if "choices." in text):
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Attribute) and ast.unparse(node.value).split(".")[-1] == "choices":
                read.add(node.attr)
    assert not RUN.keys() - read
