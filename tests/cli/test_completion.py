"""Shell completion of commands, options, names and files."""

import os
import shlex
import shutil
import subprocess
import sys

import pytest
from forks import at_the_end

from fmcli.cli import COMMANDS, COMPLETION
from fmcli.cli.completion import SHELLS
from fmcli.registry.losses import LOSSES
from fmcli.registry.models import MODELS
from fmcli.registry.options import OPTIONS
from fmcli.registry.run_choices import METRIC_NAMES
from fmcli.registry.solvers import SOLVERS

FORMATS = ["auto", "libsvm", "ffm"]
# Words before the word to complete -> its possible completions.
NAMES = [
    (["fmcli"], list(COMMANDS)),
    (["fmcli", "completion"], list(SHELLS)),
    (["fmcli", "train", "-m"], list(MODELS)),
    (["fmcli", "train", "-q", "--model"], list(MODELS)),
    (["fmcli", "train", "-s"], list(SOLVERS)),
    (["fmcli", "train", "--loss"], list(LOSSES)),
    (["fmcli", "train", "x", "-x"], list(METRIC_NAMES)),
    (["fmcli", "train", "-f"], FORMATS),
    (["fmcli", "predict", "-f"], FORMATS),
    (["fmcli", "predict", "--output-type"], ["raw", "value", "prob", "label"]),
    *[(["fmcli", "train", option.flag], list(option.choices)) for option in OPTIONS.values() if option.choices],
]
FILES = [
    ["fmcli", "evaluate", "--no-worse-than"],
    ["fmcli", "train"],
    ["fmcli", "train", "a"],
    ["fmcli", "train", "-v"],
    ["fmcli", "train", "-o"],
    ["fmcli", "train", "-i"],
    ["fmcli", "train", "--log-json"],
    ["fmcli", "predict"],
    ["fmcli", "predict", "m", "a"],
    ["fmcli", "predict", "-o"],
    ["fmcli", "export", "m"],
]


@pytest.fixture
def complete(run):
    """A function that returns the completions in the bash format: one line kind,value for each."""

    def completed(words, incomplete=""):
        variables = {
            COMPLETION: "bash_complete",
            "COMP_WORDS": shlex.join([*words, incomplete]),
            "COMP_CWORD": str(len(words)),
        }
        done = run(variables=variables)
        assert (done.returncode, done.stderr) == (0, "")
        return [tuple(line.split(",", 1)) for line in done.stdout.decode().splitlines() if line]

    return completed


@pytest.mark.parametrize(("words", "names"), NAMES, ids=[" ".join(words) for words, _ in NAMES])
def test_names(complete, words, names):
    assert complete(words) == [("plain", name) for name in names]
    begun = names[-1][:2]
    assert complete(words, begun) == [("plain", name) for name in names if name.startswith(begun)]


@pytest.mark.parametrize("words", FILES, ids=[" ".join(words) for words in FILES])
def test_files(complete, words):
    assert complete(words, "ab") == [("file", "ab")]


def test_options(complete):
    assert set(complete(["fmcli", "train"], "--l1")) == {
        ("plain", option.flag) for option in OPTIONS.values() if option.flag.startswith("--l1")
    }
    assert complete(["fmcli", "train"], "--iter") == []


@pytest.mark.parametrize("shell", SHELLS)
def test_scripts(run, shell):
    done = run("completion", shell)
    assert (done.returncode, done.stderr) == (0, "")
    script = done.stdout.decode()
    assert f"{COMPLETION}={shell}_complete" in script
    if program := shutil.which(shell):
        subprocess.run([program, "-n", "-c", script], check=True, timeout=60)


def test_another_shell_is_refused(run):
    done = run.fails(2, "completion", "tcsh")
    assert "'tcsh' is not one of 'bash', 'zsh', 'fish'" in done.stderr


def test_bash_itself(tmp_path):
    program = tmp_path / "bin" / "fmcli"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m fmcli "$@"\n')
    program.chmod(0o755)
    script = """
        eval "$(fmcli completion bash)"
        complete -p fmcli
        try() {
            COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
            _fmcli_completion fmcli
            echo "${COMPREPLY[*]}"
        }
        try fmcli pre
        try fmcli train -m sg
        try fmcli train --schedule in
        compopt() { echo "$@"; }
        try fmcli predict ""
    """
    done = subprocess.run(
        ["bash", "--norc", "-c", script],
        env=os.environ | {"PATH": f"{program.parent}{os.pathsep}{os.environ['PATH']}"},
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        "complete -o nosort -F _fmcli_completion fmcli",
        "predict",
        "sglfm",
        "invscaling inverse",
        "-o default",
        "",
    ]


def test_numpy_is_not_loaded(run):
    environ = os.environ | {COMPLETION: "bash_complete", "COMP_WORDS": "fmcli train -x ", "COMP_CWORD": "3"}
    assert run(environ=environ, before=at_the_end("'numpy' in sys.modules")).stderr == "False\n"
