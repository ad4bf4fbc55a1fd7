"""The files of a command: no output replaces an input or another output, under any name or link, nor a file of another
kind."""

import json
import os
import re
import shutil
from itertools import cycle

import click
import pytest

from fmcli.cli import group
from fmcli.cli.files import (
    KINDS,
    CheckpointFile,
    FileName,
    InputFile,
    OutputFile,
    QueryFile,
    RelationFile,
    TableOfColumn,
    check_apart,
    kind_of,
)
from fmcli.errors import UsageError

TOP = click.Context(group, info_name="fmcli")
COMMANDS = {name: group.get_command(TOP, name) for name in group.list_commands(TOP)}
# What a command needs beside the two files of a test; X is another file.
NEEDED = {"recommend": {"--given": "X", "--over": "X2"}, "negatives": {"--pair": "a,b"}}
ALIASES = {
    "the same": lambda path: path,
    "dot": lambda path: f"./{path}",
    "absolute": os.path.abspath,
    "symbolic": lambda path: linked(os.symlink, path),
    "hard": lambda path: linked(os.link, path),
    "folder": lambda path: f"here/{path}",
    "no such folder": lambda path: f"./here/../{os.path.basename(os.getcwd())}/{path}",
}


def linked(link, path):
    if not os.path.exists("link"):
        link(path, "link")
    return "link"


def words_of(parameter, path):
    """Return the words that give a path to an option."""
    value = {TableOfColumn: f"a={path}", RelationFile: f"{path}=X", QueryFile: f"SELECT * FROM '{path}'"}.get(
        type(parameter.type), path
    )
    return [parameter.opts[0], value, *["Y"] * (parameter.nargs - 1)]


def files_of(command, role):
    return [one for one in COMMANDS[command].params if isinstance(one.type, role)]


LATER = "tune", "output"  # the model of another run, which follows
PAIRS = [
    (command, read, written)
    for command in COMMANDS
    for read in files_of(command, InputFile)
    for written in files_of(command, OutputFile)
    if read.type.becomes != written.type.kind and (command, written.name) != LATER
]


def line(command, *given):
    """Return the words of a command with two parameters, and what it needs beside these."""
    names = {parameter.name for parameter, _ in given}
    words = [
        word for parameter, path in given if isinstance(parameter, click.Option) for word in words_of(parameter, path)
    ]
    flags = {flag for parameter, _ in given for flag in parameter.opts}
    words += [word for flag, value in NEEDED.get(command, {}).items() if flag not in flags for word in (flag, value)]
    if "sql" in names:
        return words
    for parameter in COMMANDS[command].params:
        if isinstance(parameter, click.Argument):
            paths = [path for one, path in given if one is parameter] or ["X"]
            words += [*paths, *(["Y"] if command == "split" and parameter.name == "outputs" else [])]
    return words


def refused(command, words):
    with COMMANDS[command].make_context(command, words, parent=TOP).scope(), pytest.raises(UsageError) as caught:
        check_apart()
    return str(caught.value)


def test_no_output_is_an_input_under_any_name(tmp_path, monkeypatch):
    """Every input with every output of every command; each pair under one alias, in turn."""
    monkeypatch.chdir(tmp_path)
    os.symlink(".", "here")
    for name in ("file", "X", "X2"):
        (tmp_path / name).write_text("1 1:1\n")
    seen = set()
    for (command, read, written), (alias, renamed) in zip(PAIRS, cycle(ALIASES.items()), strict=False):
        given = renamed("file")
        said = refused(command, line(command, (read, "file"), (written, given)))
        assert "would overwrite the input" in said, (command, read.name, written.name, alias)
        seen.add(alias)
        if os.path.lexists("link"):
            os.unlink("link")
    assert seen == ALIASES.keys()
    assert len(PAIRS) > 100


def test_no_two_outputs_are_the_same_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    os.symlink(".", "here")
    for command in COMMANDS:
        outputs = [one for one in files_of(command, OutputFile) if (command, one.name) != LATER]
        for one in outputs:
            for other in outputs:
                if one.name < other.name:
                    said = refused(command, line(command, (one, "new"), (other, "here/new")))
                    assert "are the same file" in said, (command, one.name, other.name)
                    if isinstance(one.type, CheckpointFile):
                        said = refused(command, line(command, (one, "new"), (other, ".new.fmcli-lock")))
                        assert "is the name of the lock file of new" in said


def test_every_parameter_that_names_a_file_has_a_role():
    """Folders, and names that only workers of a cluster see, have none."""
    for command in COMMANDS.values():
        for parameter in command.params:
            names = re.search(r"\b(FILE|MODEL|CURRENT|TABLE|HISTORY|INPUT|OUT\w*|TRAIN|MAP)\b", parameter.metavar or "")
            if names and parameter.name != "columns":
                assert isinstance(parameter.type, FileName), (command.name, parameter.name)
            assert isinstance(parameter.type, FileName) is bool(names) or parameter.name in ("columns", "sql", "theirs")


@pytest.fixture
def kinds(run, sample, adult_model, tmp_path):
    """A file of each kind, by the name of the kind."""
    rows = sample / "diabetes.train.libsvm"
    shutil.copy(adult_model, tmp_path / "model")
    shutil.copy(rows, tmp_path / "data")
    more = ("--log-json", "log", "--disk", "--cache", "cache", "--checkpoint", "checkpoint", "--max-seconds", "1e-6")
    run.ok("train", "-q", "-e", "3", *more, "-o", "m", rows)
    run.ok("tune", "-q", "--trials", "1", "--folds", "1", "-m", "linear", "-s", "sgd", "--study", "study", rows)
    run.ok("report", "-q", "-o", "figure", "--log", "log")
    os.unlink(tmp_path / "m")
    assert {kind: kind_of(str(tmp_path / kind)) for kind in KINDS} == {kind: kind for kind in KINDS}
    return tmp_path


def test_a_file_is_replaced_only_by_one_of_its_kind(run, sample, kinds):
    rows, table = sample / "diabetes.train.libsvm", sample / "adult.train.csv"
    commands = {
        "model": [
            ("train", "-q", "-e", "1", "-o", "{}", rows),
            ("import", "-q", "--loss", "logistic", "t", "-o", "{}"),
        ],
        "data": [
            ("predict", "-q", "-o", "{}", "m.fm", rows),
            ("cv", "-q", "--folds", "2", "-m", "linear", "-s", "sgd", "-e", "1", "--json", "-o", "{}", rows),
            ("convert", "-q", "--label", "income", table, "-o", "{}"),
            ("split", "-q", rows, "{}", "other"),
            ("export", "-q", "--to", "libfm", "m.fm", "{}"),
        ],
        "log": [("train", "-q", "-e", "1", "-o", "m.fm", "--log-json", "{}", rows)],
        "figure": [("report", "-q", "-o", "{}", "--svg", "--log", "events"), ("report", "-q", "-o", "{}", "m.fm")],
    }
    run.ok("train", "-q", "-e", "1", "-m", "linear", "-o", "m.fm", rows)
    run.ok("export", "-q", "--to", "libfm", "m.fm", "t")
    shutil.copy(kinds / "log", kinds / "events")
    may = {"model": {"model"}, "data": {"data", "log"}, "log": {"log"}, "figure": {"figure"}}
    for kind, lines in commands.items():
        for number, words in enumerate(lines):
            for found in KINDS if kind == "data" and number == 0 else {"model", "data", kind}:
                shutil.copy(kinds / found, kinds / "x")
                before = (kinds / "x").read_bytes()
                done = run(*[str(word).replace("{}", "x") for word in words])
                if found in may[kind]:
                    assert (done.returncode, done.stderr) == (0, ""), (words, found)
                    assert kind_of(str(kinds / "x")) == kind
                else:
                    assert done.returncode == 2, (words, found)
                    assert f"x is {KINDS[found]}, which {KINDS[kind]} would replace" in done.stderr
                    assert (kinds / "x").read_bytes() == before
        shutil.copy(kinds / "model" if kind != "model" else kinds / "data", kinds / "x")
        run.ok(*[str(word).replace("{}", "x") for word in lines[0]], "--force")
        assert kind_of(str(kinds / "x")) == kind


def test_the_model_of_a_search_is_checked_before_it(run, sample, tmp_path):
    shutil.copy(sample / "diabetes.train.libsvm", tmp_path / "t")
    (tmp_path / "notes").write_text("mine")
    search = ("tune", "--trials", "1", "--study", "s")
    assert "would overwrite the input t" in run.fails(2, *search, "-o", "./t", "t").stderr
    assert "are the same file" in run.fails(2, *search, "-o", "./s", "t").stderr
    assert "notes is data or text, which a model would replace" in run.fails(2, *search, "-o", "notes", "t").stderr
    assert sorted(os.listdir(tmp_path)) == ["notes", "t"]


def test_a_model_may_replace_the_one_that_it_resumes_from_but_a_log_may_not(run, sample, tmp_path):
    rows = sample / "diabetes.train.libsvm"
    run.ok("train", "-q", "-e", "1", "-o", "m", rows)
    run.ok("train", "-q", "-i", "m", "-o", "./m", rows)
    done = run.fails(2, "train", "-i", "m", "-o", "n", "--log-json", "./m", rows)
    assert "the output ./m would overwrite the input m" in done.stderr


def test_the_log_of_a_run_that_fails_is_kept(run, sample, tmp_path):
    done = run("train", "-q", "-s", "sgd", "-r", "1e6", "--log-json", "log", sample / "diabetes.train.libsvm")
    assert done.returncode == 3
    assert json.loads((tmp_path / "log").read_text().splitlines()[0])["event"]
