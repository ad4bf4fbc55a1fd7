"""Standard streams in every state: terminal, pipe, file, closed, full disk."""

import os
import pty
import re
import resource
import signal
import subprocess
from itertools import cycle

import pytest
from forks import at_the_end

import fmcli
from fmcli.cli import COMMANDS
from fmcli.kernels.simd import REAL

# Commands that report on standard output; "m" is a model and "t" is its data.
REPORTS = [["evaluate", "m", "t"], ["inspect", "m"], ["models"], ["export", "m", "-"]]


def test_version_names_the_real_type(run):
    assert run("--version").stdout.decode() == f"fmcli {fmcli.__version__} ({REAL})\n"


@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_help_goes_to_stdout(run, flag):
    # In new processes: click keeps the names of a command's help option, which other tests' contexts do not state.
    done = run(flag, fork=True)
    assert (done.returncode, done.stderr) == (0, "")
    for command in COMMANDS:
        assert re.search(rf"^  {command} +\w.*\.$".encode(), done.stdout, re.M)
        text = run(command, flag, fork=True).stdout.decode()
        assert text.startswith(f"Usage: fmcli {command} ")
        assert ("\nExamples:\n  # " in text) == (command not in ("train", "cv"))


@pytest.mark.parametrize("arguments", [["--version"], ["train", "--help"], ["train", "-m", "nosuch", "x"], []])
def test_help_version_and_usage_errors_need_no_numpy(run, arguments):
    assert run(*arguments, before=at_the_end("'numpy' in sys.modules")).stderr.endswith("False\n")


def test_the_overview_imports_no_command_and_no_table_of_the_registry(run):
    imported = run("--help", before=at_the_end("*sys.modules")).stderr.split()
    assert "fmcli.cli" in imported
    assert "numpy" not in imported
    assert [name for name in imported if name.startswith(("fmcli.cli.", "fmcli.registry"))] == [
        "fmcli.cli.layout",
        "fmcli.cli.output",
    ]


def test_a_log_that_is_no_terminal_has_no_control_characters(run, sample):
    for arguments in (["train", "-o", "m"], ["predict", "m"]):
        log = run(*arguments, sample / "adult.train.libsvm").stderr
        assert log
        assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f]", log)


def on_terminal(start, *arguments, also=(), **keywords) -> tuple[int, str]:
    """Run with a terminal as standard error and as the streams in `also` ("stdin", "stdout"). Return the exit status
    and the text on the terminal."""
    ours, theirs = pty.openpty()
    process = start(
        *arguments, stderr=theirs, **{"stdin": subprocess.DEVNULL, **dict.fromkeys(also, theirs)}, **keywords
    )
    os.close(theirs)
    got = b""
    try:
        while piece := os.read(ours, 1 << 16):
            got += piece
    except OSError:  # Linux reports the end of a terminal as an error
        pass
    os.close(ours)
    process.communicate(timeout=60)
    return process.returncode, got.decode()


def test_a_terminal_shows_a_line_that_is_updated(start, large):
    status, got = on_terminal(start, "train", "--holdout", "0", "-e", "20", "-k", "64", "-o", "m", large)
    assert status == 0
    assert re.search(r"\repoch \d+/20  \[=* *\] \d+ %  [\d,]+ rows/s  \d+ s left", got)
    assert "\x1b" not in got
    # The lines that remain on the terminal at the end equal a log in a file.
    stay = [line.rsplit("\r", 1)[-1] for line in got.replace("\r\n", "\n").rstrip().split("\n")]
    assert [line.split()[1] for line in stay if line.startswith("epoch ")] == ["1", "2", "3", "5", "10", "20"]
    assert not any("left" in line for line in stay)
    assert stay[-1].startswith("Wrote m in ")


# An environment that asks for colors; the others have no TERM, and one of them no locale.
COLORS = {"TERM": "xterm-256color", "COLORTERM": "truecolor", "FORCE_COLOR": "1"}


@pytest.mark.parametrize(
    ("arguments", "environ"),
    [
        (["train", "-e", "2", "-o", "m"], COLORS),
        (["train", "--no-quick-search", "-e", "2", "-o", "m"], {"LANG": "C"}),
        (["predict", "model"], COLORS),
        (["predict", "-o", "out", "model"], {}), (["train", "-m", "fn"], COLORS),
    ],
)  # fmt: skip
def test_a_terminal_gets_text_and_nothing_else(start, sample, adult_model, tmp_path, arguments, environ):
    """No color or cursor codes, no banner, and no file except the requested one."""
    (tmp_path / "model").write_bytes(adult_model.read_bytes())
    data = sample / "adult.test.libsvm"
    status, got = on_terminal(start, *arguments, data, environ=environ)
    assert status == (2 if "fn" in arguments else 0)
    assert not re.search(r"[\x00-\x09\x0b\x0c\x0e-\x1f\x7f]", got)  # \r is allowed: it updates the progress line
    assert got.replace("\r\n", "\n").count("\n") >= 1
    written = {"m"} if arguments[0] == "train" and status == 0 else {"out"} if "out" in arguments else set()
    assert set(os.listdir(tmp_path)) == {"model"} | written


def test_predictions_on_a_terminal_have_no_progress_between_them(start, adult_model, large):
    status, got = on_terminal(start, "predict", adult_model, large, also=["stdout"])
    assert status == 0
    *numbers, summary = got.replace("\r\n", "\n").splitlines()
    assert len(numbers) == 40_000
    assert all(re.fullmatch(r"[\d.e-]+", number) for number in numbers)
    assert summary.startswith("40,000 rows, ")


def test_a_quiet_terminal_stays_empty(start, sample):
    assert on_terminal(start, "train", "-q", "-e", "2", "-o", "m", sample / "adult.train.libsvm") == (0, "")


def test_an_empty_environment_is_enough(run, sample, adult_model, tmp_path):
    test = sample / "adult.test.libsvm"
    done = run("predict", "-q", adult_model, test, environ={})
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == run("predict", "-q", adult_model, test).stdout
    run.ok("train", "-q", "--no-quick-search", "-o", "m", sample / "adult.train.libsvm", environ={})
    assert (tmp_path / "m").read_bytes() == adult_model.read_bytes()
    assert os.listdir(tmp_path) == ["m"]


@pytest.mark.parametrize("environ", [{"LANG": "C"}, {"LC_ALL": "POSIX", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}])
def test_names_of_any_bytes_are_read_written_and_said(run, tmp_path, environ):
    name = os.fsencode(tmp_path) + b"/caf\xe9 \xe2\x82\xac.svm"
    with open(name, "wb") as file:
        file.write(b"1 1:1\n2 2:1\n")
    done = run.ok("train", "-e", "1", os.fsdecode(name), environ=environ)
    assert os.path.exists(name + b".fm")
    done = run.fails(66, "train", os.fsdecode(name + b"x"), environ=environ)
    assert done.stderr.startswith("fmcli: error: cannot read ")


def closed(number):
    """Return the keywords of `run` and `start` that close a standard stream in the new process."""
    return {"preexec": lambda: os.close(number)}


def test_all_streams_but_stderr_may_be_closed_in_training(run, sample, adult_model, tmp_path):
    def without() -> None:
        os.close(0)
        os.close(1)

    run.ok("train", "-q", "--no-quick-search", "-o", "m", sample / "adult.train.libsvm", preexec=without, environ={})
    assert (tmp_path / "m").read_bytes() == adult_model.read_bytes()


def test_closed_stdin_is_an_input_that_is_missing(run, sample, adult_model):
    done = run.fails(66, "predict", adult_model, **closed(0))
    assert "standard input: it is closed" in done.stderr
    run.ok("predict", adult_model, sample / "adult.test.libsvm", **closed(0))


def test_closed_stdout_is_an_output_that_cannot_be_written(run, sample, adult_model, tmp_path):
    test = sample / "adult.test.libsvm"
    before = adult_model.read_bytes()
    done = run.fails(74, "predict", adult_model, test, **closed(1))
    assert done.stderr == ("fmcli: error: standard output: cannot be written: it is closed; -o FILE writes to a file\n")
    assert adult_model.read_bytes() == before
    run.ok("predict", "-o", "out", adult_model, test, **closed(1))
    assert len((tmp_path / "out").read_bytes().splitlines()) == 1500


def test_with_closed_stderr_only_the_log_is_lost(run, sample, adult_model, tmp_path):
    run.ok("train", "--no-quick-search", "-o", "m", sample / "adult.train.libsvm", **closed(2))
    assert (tmp_path / "m").read_bytes() == adult_model.read_bytes()
    run.fails(66, "train", "missing", **closed(2))


def test_with_a_full_disk_for_stderr_only_the_log_is_lost(run, sample, tmp_path):
    with open("/dev/full", "wb") as full:
        run.ok("train", "-e", "1", "-o", "m", sample / "adult.train.libsvm", stderr=full)
    assert (tmp_path / "m").exists()


@pytest.mark.parametrize("arguments", [["predict"], ["--help"], ["--version"]])
def test_a_full_disk_behind_stdout_is_an_error(run, sample, adult_model, arguments):
    if arguments == ["predict"]:
        arguments = ["predict", "-q", adult_model, sample / "adult.test.libsvm"]
    with open("/dev/full", "wb") as full:
        done = run(*arguments, stdout=full)
    assert done.returncode == 74
    assert re.fullmatch(r"fmcli: error: (.*: )?No space left on device\n", done.stderr)


def test_a_full_disk_behind_an_output_file_leaves_the_older_file(run, sample, adult_model, tmp_path):
    (tmp_path / "out").write_text("older")
    limit = (4096, 4096)
    done = run.fails(
        74, "predict", "-q", "-o", "out", adult_model, sample / "adult.test.libsvm",
        preexec=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, limit),
    )  # fmt: skip
    assert done.stderr == "fmcli: error: out: cannot be written: File too large\n"
    assert (tmp_path / "out").read_text() == "older"
    assert os.listdir(tmp_path) == ["out"]


def test_a_disk_that_is_full_only_at_the_end_is_an_error(run, sample, adult_model):
    late = "import os; close = os.close;os.close = lambda fd: os.truncate('/dev/null/x', 0) if fd == 1 else close(fd)"
    done = run.fails(74, "predict", "-q", adult_model, sample / "adult.test.libsvm", before=late)
    assert done.stderr.startswith("fmcli: error: standard output: cannot be written: ")


def test_output_to_a_closed_stream_is_not_written_into_a_file(run, sample, adult_model, tmp_path):
    noisy = (
        # The command does this before any import, because some imports (for example libffi) keep a file open.
        "import os, fmcli.cli; fmcli.cli._occupy_closed_streams();"
        "import fmcli.scoring.written as p; write = p.format_values;"
        "p.format_values = lambda values: (os.write(2, b'noise'), write(values))[1]"
    )
    test = sample / "adult.test.libsvm"
    run.ok("predict", "-o", "out", adult_model, test, before=noisy, **closed(2))
    assert (tmp_path / "out").read_bytes() == run("predict", adult_model, test).stdout


@pytest.fixture
def files(sample, adult_model, tmp_path):
    """A model and its data in the folder of the test."""
    (tmp_path / "m").symlink_to(adult_model)
    (tmp_path / "t").symlink_to(sample / "adult.test.libsvm")


# Each report, the standard stream that it lacks, and its environment.
DEPRIVED = [*zip(REPORTS, cycle([0, 2]), cycle([{}, {"LANG": "C"}]))]


@pytest.mark.parametrize(("arguments", "stream", "environ"), DEPRIVED)
def test_reports_in_any_surroundings(run, files, arguments, stream, environ):
    assert run(*arguments, environ=environ, **closed(stream)).stdout == run.ok(*arguments).stdout
    with open("/dev/full", "wb") as full:
        done = run(*arguments, stdout=full)
    assert done.returncode == 74
    assert done.stderr.endswith("standard output: cannot be written: No space left on device\n")


def test_a_reader_that_goes_away_ends_reports_quietly(start, files):
    for arguments in REPORTS[1:3]:
        ours, theirs = os.pipe()
        os.close(ours)
        process = start(*arguments, stdout=theirs, stdin=subprocess.DEVNULL)
        os.close(theirs)
        _, log = process.communicate(timeout=60)
        assert process.returncode == -signal.SIGPIPE
        assert b"error" not in log
