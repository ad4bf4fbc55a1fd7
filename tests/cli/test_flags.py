"""Choices that an error proposes are written as flags by the command."""

import ast
from pathlib import Path

import click
import pytest

import fmcli
from fmcli.cli import COMMANDS, group
from fmcli.cli.flags import flag_of, with_flag, with_flags
from fmcli.errors import LEAVE_OUT, UsageError


@pytest.mark.parametrize(
    ("options", "advice"),
    [
        ({}, ""),
        ({"rank": None, "init_model": LEAVE_OUT}, "; see --rank; leave out -i"),
        ({"order": 3}, "; use --order 3"),
        ({"raw": {True: "if these are scores"}}, "; use --raw if these are scores"),
        (
            {"rank": [2, 3], "loss": {"huber": "", "hinge": "here"}},
            "; use --rank 2/3, or --loss huber, or --loss hinge here",
        ),
    ],
)
def test_options_follow_the_text(options, advice):
    assert with_flags(UsageError("no", **options)) == f"no{advice}"


def test_switches_and_numbers():
    assert [with_flag("norm", True), with_flag("norm", False), with_flag("l2", 1e-5)] == [
        "--norm",
        "--no-norm",
        "--l2 1e-05",
    ]


def test_every_option_of_an_error_has_a_flag():
    top = click.Context(group, info_name="fmcli")
    flags = {flag for name in COMMANDS for one in group.get_command(top, name).params for flag in one.opts}
    for path in Path(fmcli.__file__).parent.rglob("*.py"):
        text = path.read_text()
        for node in ast.walk(ast.parse(text)) if "Error(" in text else ():
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id.endswith("Error"):
                for name in {keyword.arg for keyword in node.keywords} - {None}:
                    assert flag_of(name) in flags or f"--no-{name}" in flag_of(name), (path, name)
