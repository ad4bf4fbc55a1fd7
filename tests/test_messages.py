"""Messages name only what is registered: options, models, solvers, losses, commands and topics."""

import ast
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import click
import pytest

import fmcli
from fmcli.cli import group
from fmcli.cli.flags import with_flags
from fmcli.cli.pages.guide import about, topics
from fmcli.cli.spellings.translate import SPELLINGS, options_of
from fmcli.errors import UsageError
from fmcli.registry.losses import LOSSES
from fmcli.registry.models import MODELS
from fmcli.registry.options import OPTIONS
from fmcli.registry.solvers import SOLVERS
from fmcli.registry.specs import make_spec

SOURCES = Path(fmcli.__file__).parent
TABLES = {"-m": MODELS, "-s": SOLVERS, "--loss": LOSSES}
# Where options of other programs are named.
OTHERS = {
    SOURCES / "cli" / "spellings" / "other_tools.py",
    SOURCES / "registry" / "synonyms.py",
    SOURCES / "api" / "words.py",
}
# Options of other programs (pip, ulimit, dask worker).
FOREIGN = {"-m pip", "-v", "-u", "--nthreads"}
# Words that may follow an option without being its value.
CONJUNCTIONS = {"and", "or", "is"}
# Words after the name of the program where it is not a command; so are verbs, as in "fmcli reads".
PROSE = re.compile("in|model|must|[a-z]+s")
# What an f-string computes.
COMPUTED = "\0"
TOP = click.Context(group, info_name="fmcli")
FLAGS = {
    flag
    for name in group.list_commands(TOP)
    for command in [group.get_command(TOP, name)]
    for flag in options_of(command, click.Context(command, TOP, info_name=name))
} | {*options_of(group, TOP), *SPELLINGS, "--"}


def texts(tree: ast.AST) -> Iterator[str]:
    """The strings of a module that have a blank, without docstrings."""
    inner, nodes = set(), list(ast.walk(tree))
    for node in nodes:
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            inner.add(id(node.body[0].value))
        if isinstance(node, ast.JoinedStr):
            inner.update(map(id, node.values))
    for node in nodes:
        if isinstance(node, ast.JoinedStr):
            text = "".join(part.value if isinstance(part, ast.Constant) else COMPUTED for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inner:
            text = node.value
        else:
            continue
        if " " in text.strip():
            yield text


def test_the_options_and_names_in_all_strings_exist():
    """Names that follow the options for models, solvers and losses are registered, and not composed."""
    found, named = set(), set()
    for path in set(SOURCES.rglob("*.py")) - OTHERS:
        for text in texts(ast.parse(path.read_text())):
            for flag in re.findall(r"(?<![\w-])(--?[a-z][\w-]*)(?![\w-]*\0)", text):
                assert flag in FLAGS | FOREIGN, (path, text)
                found.add(flag)
            for name in re.findall(r"(?<![\w-])--[a-z-]*\0[\w-]*", text):
                assert name in ("--\0", "--no-\0"), (path, text)
            for command in re.findall(r"\bfmcli ([a-z]+)\b", text):
                assert command in group.list_commands(TOP) or PROSE.fullmatch(command), (path, text)
            for topic in re.findall(r"\bfmcli help ([a-z-]+)", text):
                assert topic in topics() or about(topic), (path, text)
            for flag, name in re.findall(r"(?<![\w-])(-m|-s|--loss) ([a-z][\w-]*\0?)", text):
                if f"{flag} {name}" not in FOREIGN and name not in CONJUNCTIONS:
                    assert name in TABLES[flag], (path, text)
                    named.add(name)
    assert len(found) > 50
    assert len(named) > 5


def test_the_choices_in_errors_exist():
    """Each choice that `called` marks is one that a command or a function has."""
    found = set()
    texts = (path.read_text() for path in SOURCES.rglob("*.py"))
    for text in (text for text in texts if "called(" in text):
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "called":
                found |= {argument.value for argument in node.args if isinstance(argument, ast.Constant)}
    assert {f"--{name.replace('_', '-')}" for name in found} <= FLAGS
    assert len(found) > 20


NEW = "new-"


def some(option) -> list[str | int | float | bool]:
    """Values of an option: both of a switch, each choice, or numbers."""
    if option.kind is bool:
        return [True, False]
    if option.choices:
        return list(option.choices)
    return [option.kind(max(option.low or 0, 2 * (option.kind is int)) + 0.25)] + [0] * (option.low == 0)


def runs() -> Iterator[dict[str, object]]:
    """Combinations of three components, and of two components and an option; many are refused."""
    for model in MODELS:
        for solver in SOLVERS:
            yield from ({"model": model, "solver": solver, "loss": loss} for loss in (None, *LOSSES))
    for name, option in OPTIONS.items():
        for value in some(option):
            yield from ({"model": model, "options": {name: value}} for model in MODELS)
            yield from ({"solver": solver, "options": {name: value}} for solver in SOLVERS)
            yield from ({"loss": loss, "options": {name: value}} for loss in LOSSES)


def refusal(run: dict[str, object]) -> str:
    """The message that refuses a run, or ""."""
    try:
        make_spec(**run)
    except UsageError as error:
        return with_flags(error)
    return ""


def refusals() -> Iterator[tuple[dict[str, object], str]]:
    """The runs that are refused, with the messages."""
    yield from ((run, said) for run in runs() if (said := refusal(run)))


@pytest.fixture
def twins(monkeypatch):
    """Each component is registered again under another name: messages about this one cannot be written by hand."""
    for table in TABLES.values():
        for name, entry in list(table.items()):
            monkeypatch.setitem(table, NEW + name, replace(entry, name=NEW + name))


def test_messages_about_new_components_name_registered_ones(twins):
    told = 0
    for run, said in refusals():
        for flag in re.findall(r"(?<![\w-])--?[a-z][\w-]*", said):
            assert flag in FLAGS, said
        for flag, name in re.findall(r"(?<![\w-])(-m|-s|--loss) ([a-z][\w-]*)", said):
            assert name in TABLES[flag], (run, said)
            told += 1
    assert told > 1000


def test_what_a_message_proposes_is_accepted():
    """A model, solver or loss that a message says to use in place of the one that was chosen makes a valid run, or at
    least another message."""
    names = {"-m": "model", "-s": "solver", "--loss": "loss"}
    tried = 0
    for run, said in refusals():
        if "options" in run or "leave out" in said:
            continue
        for flag, name in re.findall(r"(?<![\w-])(-m|-s|--loss) ([a-z][\w-]*)", said.partition("; use ")[2]):
            assert refusal({**run, names[flag]: name}) != said, run
            tried += 1
    assert tried > 50
