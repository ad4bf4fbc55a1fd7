"""The README is true: its shell blocks run, what they print is what it shows, and its tables are complete."""

import importlib.util
import json
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
from fmcli.cli import COMMANDS
from fmcli.cli.completion import SHELLS
from fmcli.cli.train import PATIENCE
from fmcli.registry.losses import LOSSES
from fmcli.registry.models import MODELS
from fmcli.registry.options import OPTIONS
from fmcli.registry.solvers import SOLVERS
from fmcli.scoring.metrics import METRICS
from fmcli.training.validation import ENOUGH_ROWS, USUAL_SHARE

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text()
# Shell blocks, each with the output shown behind it, or "".
BLOCKS = re.findall(r"^```sh\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", README, re.M | re.S)
# What installs or runs these tests is left out; what else stands in such a line is run.
LEFT_OUT = re.compile(r"(?:python3 -m venv \S+|\. \S+/activate|pip install \S+|python -m pytest)(?: && )?")


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
    assert sum(bool(shown) for _, shown in BLOCKS) == 3


def section(heading: str) -> str:
    """The text of a section."""
    return README.split(f"## {heading}\n")[1].split("\n## ")[0]


def rows(heading: str, number: int = 0) -> list[list[str]]:
    """The cells of a table in a section, its head and its rows."""
    tables = re.findall(r"(?:^\|.*\n)+", section(heading), re.M)
    lines = tables[number].splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in [lines[0], *lines[2:]]]


def test_generated_parts_are_those_of_the_registry_and_the_commands():
    spec = importlib.util.spec_from_file_location("reference_script", ROOT / "scripts" / "reference.py")
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    assert script.written(README) == README, "the README is not up to date: run python scripts/reference.py"


def test_the_table_of_models_and_solvers_is_complete():
    head, *models = rows("Models and solvers")
    assert [cell.strip("`") for cell in head[2:]] == list(SOLVERS)
    assert [row[0].strip("`") for row in models] == list(MODELS)
    for row in models:
        closed_form = MODELS[row[0].strip("`")].closed_form
        assert row[2:] == ["-"] * len(SOLVERS) if closed_form else row[2:].count("default") == 1


def test_the_tables_of_losses_and_metrics_are_complete():
    assert [row[0].strip("`") for row in rows("Losses and metrics")[1:]] == list(LOSSES)
    assert [row[0].strip("`") for row in rows("Losses and metrics", 1)[1:]] == list(METRICS)


def test_the_reference_has_every_command_and_option():
    text = section("Reference")
    assert re.findall(r"^### fmcli (\w+)$", text, re.M) == list(COMMANDS)
    for option in OPTIONS.values():
        assert f"{option.flag}" in text


def test_every_shell_has_its_line():
    assert [row[0] for row in rows("Completion")[1:]] == list(SHELLS)
    assert all(f"fmcli completion {shell}" in section("Completion") for shell in SHELLS)


def test_the_events_of_the_json_log_are_those_that_are_written(folder):
    options = ["-q", "-e", "1", "--holdout", "0.1", "--log-every", "1000", "--log-json", "-", "-o", "log.fm"]
    done = subprocess.run(
        [folder / "bin" / "fmcli", "train", *options, folder / "sample_data" / "adult.train.libsvm"],
        cwd=folder, capture_output=True, check=True, timeout=60,
    )  # fmt: skip
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    written = {line["event"]: [name for name in line if name != "event"] for line in lines}
    listed = {}
    for kind, figures in rows("Which epoch is kept")[1:]:
        listed[kind.strip("`")] = re.findall(r"`(\w+)`", re.sub(r"\(.*?\)", "", figures))
    assert listed == written


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
