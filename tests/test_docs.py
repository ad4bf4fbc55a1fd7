"""The README is true: its shell blocks run, what they print is what it shows, and its tables are complete."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import fmcli
from fmcli import errors
from fmcli.cli.train import PATIENCE
from fmcli.metrics import METRICS, default_metrics
from fmcli.registry import LOSSES, MODELS, OPTIONS, SOLVERS
from fmcli.validation import ENOUGH_ROWS, USUAL_SHARE

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text()
# Shell blocks, each with the output shown behind it, or "".
BLOCKS = re.findall(r"^```sh\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", README, re.M | re.S)
# What installs or runs these tests is left out; what else stands in such a line is run.
LEFT_OUT = re.compile(r"(?:pip install \S+|python -m pytest)(?: && )?")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the sample data, and a command fmcli that is the package under test."""
    folder = tmp_path_factory.mktemp("readme")
    shutil.copytree(ROOT / "sample_data", folder / "sample_data")
    command = folder / "bin" / "fmcli"
    command.parent.mkdir()
    package = Path(fmcli.__file__).resolve().parent.parent
    command.write_text(
        f'#!/bin/sh\nPYTHONPATH={shlex.quote(str(package))} exec {shlex.quote(sys.executable)} -m fmcli "$@"\n'
    )
    command.chmod(0o755)
    return folder


def shape(text: str) -> list[str]:
    """The words of an output without its numbers, which differ between machines and builds."""
    return re.sub(r"[\d.,]*\d", "#", text).split()


# In order: later blocks use the files of earlier ones.
@pytest.mark.parametrize(("block", "shown"), BLOCKS, ids=[block.splitlines()[0] for block, _ in BLOCKS])
def test_shell_block(folder, block, shown):
    script = LEFT_OUT.sub("", block)
    path = f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=folder,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    if shown:
        assert shape(done.stdout + done.stderr) == shape(shown)


def test_there_are_blocks_that_install_run_and_test():
    text = "".join(block for block, _ in BLOCKS)
    for line in ("pip install . && fmcli train sample_data/", "&& python -m pytest", "fmcli predict ", "fmcli export "):
        assert line in text
    assert sum(bool(shown) for _, shown in BLOCKS) == 2


def section(heading: str) -> str:
    """The text of a section."""
    return README.split(f"## {heading}\n")[1].split("\n## ")[0]


def rows(heading: str, number: int = 0) -> list[list[str]]:
    """The cells of a table in a section, its head and its rows."""
    tables = re.findall(r"(?:^\|.*\n)+", section(heading), re.M)
    lines = tables[number].splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in [lines[0], *lines[2:]]]


def test_the_table_of_models_and_solvers_is_that_of_the_registry():
    head, *models = rows("Models and solvers")
    assert [cell.strip("`") for cell in head[2:]] == list(SOLVERS)
    assert [row[0].split("`")[1] for row in models] == list(MODELS)
    for row in models:
        kind = MODELS[row[0].split("`")[1]]
        other = "no" if kind.closed_form else "yes"
        assert row[2:] == ["default" if solver == kind.solver else other for solver in SOLVERS]


def test_the_table_of_losses_is_that_of_the_registry_and_their_metrics():
    listed = {}
    for losses, _, metrics in rows("Models and solvers", 1)[1:]:
        for name in re.findall(r"`([^`]+)`", losses):
            listed[name] = tuple(re.findall(r"`([^`]+)`", metrics))
    assert listed == {name: default_metrics(name) for name in LOSSES}
    assert all(f"`{name}`" in section("Models and solvers") for name in METRICS)


def test_what_is_said_of_options_is_so():
    text = section("Models and solvers")
    assert all(
        f"`{option.flag}`" in text
        for option in OPTIONS.values()
        if re.match("l1|l2|group", option.name) and option.group == "penalty"
    )
    text = section("Which epoch is kept")
    assert f"{ENOUGH_ROWS:,} rows" in text
    assert f"{100 * USUAL_SHARE:g} %" in text
    assert f"`--patience` epochs ({PATIENCE})" in " ".join(text.split())


def test_the_changelog_names_all_pieces():
    changelog = (ROOT / "CHANGELOG.md").read_text()
    for name in (*MODELS, *SOLVERS, *LOSSES):
        assert f"`{name}`" in changelog


def test_the_table_of_exit_statuses_is_that_of_the_errors():
    listed = {int(status) for row in rows("Exit status")[1:] for status in row[0].split(", ")}
    raised = {
        kind.exit_status
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, errors.FmcliError)
    }
    assert listed == raised | {0, 130, 141, 143}


def test_the_changelog_names_the_version():
    assert fmcli.__version__ in (ROOT / "CHANGELOG.md").read_text()
