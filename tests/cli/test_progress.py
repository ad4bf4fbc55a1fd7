"""The progress line on a terminal, updated as often as possible: every solver, shape of data and terminal width."""

import fcntl
import gzip
import os
import pty
import re
import struct
import sys
import termios
import threading

import pytest

from fmcli.cli import output, run

# Data as text: more columns than rows, no entries, a single row, and numbers at the ends of their range.
SHAPES = {
    "wide": [f"{row % 2} " + " ".join(f"{j}:{1 + (row + j) % 3}" for j in range(300)) for row in range(8)],
    "empty": ["0", "1", "0"],
    "one row": ["1 0:1 5:2"],
    "one column": [f"{row % 2} 0:{row}" for row in range(30)],
    "many rows": [f"{row % 2} {row % 7}:1 {7 + row % 11}:1" for row in range(3000)],
    "large numbers": [f"{(-1) ** row}e30 {row % 5}:1e30 {5 + row % 3}:1" for row in range(20)],
    "small numbers": [f"{(-1) ** row}e-30 {row % 5}:1e-30 {5 + row % 3}:1" for row in range(20)],
}
# Each solver and each shape occurs at least once, and so do models whose first parameter rows affect few, all or no
# samples.
RUNS = [
    ("cd", "wide", 80, ["-m", "linear", "-e", "3"]),
    ("cd", "wide", 80, ["-m", "anova", "--loss", "softmax", "-e", "1"]),
    ("cd", "wide", 20, ["-m", "linear", "--no-bias", "-e", "2"]),
    ("cd", "empty", 80, ["--no-bias", "--loss", "squared"]),
    ("cd", "one row", 1, ["--loss", "squared", "-m", "poly2"]),
    ("cd", "many rows", 2, ["-m", "llfm", "-e", "3"]),
    ("cd", "large numbers", 80, ["-e", "2"]),
    ("cd", "small numbers", 80, []),
    ("lbfgs", "many rows", 80, ["-m", "llfm", "-e", "12"]),
    ("lbfgs", "wide", 0, ["-e", "3"]),
    ("lbfgs", "large numbers", 80, ["-e", "2"]),
    ("adagrad", "many rows", 79, ["-e", "1", "--log-every", "1"]),
    ("adagrad", "one column", 80, ["-e", "3", "--batch-size", "1000", "--log-every", "7", "--holdout", "0.5"]),
    ("sgd", "large numbers", 80, ["-e", "3", "-r", "1e30"]),
    ("mcmc", "many rows", 80, ["-e", "25"]),
    ("sgd", "one row", 80, ["--loss", "squared", "-e", "1"]),
    ("fobos", "small numbers", 500, ["-e", "3"]),
    ("ftrl", "empty", 3, ["--loss", "squared", "-e", "0"]),
]
TRAINED, DIVERGED = 0, 3  # statuses


def on_terminal(monkeypatch, columns, arguments):
    """Run a command with a terminal of the given width as standard error. Return the exit status and the output."""
    outer, inner = pty.openpty()
    fcntl.ioctl(inner, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    found = []

    def drain():
        try:
            while part := os.read(outer, 1 << 16):
                found.append(part)
        except OSError:  # the slave end of the terminal is closed
            pass

    reader = threading.Thread(target=drain)
    reader.start()
    with monkeypatch.context() as patch, os.fdopen(inner, "w") as terminal:
        patch.setattr(sys, "stderr", terminal)
        patch.setattr(output, "UPDATE_SECONDS", 0)
        patch.setattr(sys, "stdout", None)
        status = run(list(map(str, arguments)))
    reader.join()
    os.close(outer)
    return status, b"".join(found).decode()


@pytest.mark.parametrize(("solver", "shape", "columns", "options"), RUNS)
def test_progress_of_any_run(monkeypatch, tmp_path, solver, shape, columns, options):
    data = tmp_path / "data.svm"
    data.write_text("".join(f"{line}\n" for line in SHAPES[shape]))
    arguments = ["train", "-f", "libsvm", "-s", solver, *options, "-j", "2", "-o", tmp_path / "m", data]
    status, said = on_terminal(monkeypatch, columns, arguments)
    assert status in (TRAINED, DIVERGED), said
    # The whole progress, if the line is wide enough: shares within an epoch, epochs within the run, times from 0.
    for epoch, epochs, share in re.findall(r"epoch (\d+)/(\d+)  \[=* *\] (-?\d+) %", said):
        assert 1 <= int(epoch) <= int(epochs)
        assert 0 <= int(share) <= 100
    assert not re.search(r"-\d+ s left|nan|inf left", said)
    updates = [part for part in re.split(r"[\r\n]", said) if re.match(r"(retraining )?epoch \d+/", part)]
    assert all(len(update.rstrip()) < (columns or output.FALLBACK_COLUMNS) for update in updates)
    assert updates or status == DIVERGED or columns < 20 or shape == "empty"


@pytest.mark.parametrize("command", ["predict", "convert"])
def test_rows_that_are_written_have_a_share(monkeypatch, tmp_path, command):
    """From 0 to 100 %, if the size of the text is known: not if it is compressed."""
    rows, table, packed = tmp_path / "rows", tmp_path / "table", tmp_path / "packed"
    rows.write_text("".join(f"{line}\n" for line in SHAPES["many rows"] * (200 if command == "predict" else 1)))
    table.write_text("label,name\n" + "".join(f"{row % 2},{'n' * 40}{row % 7}\n" for row in range(150_000)))
    given = rows if command == "predict" else table
    packed.write_bytes(gzip.compress(given.read_bytes(), 1))
    trained = ["train", "-qq", "--no-quick-search", "-e", "0", "-o", tmp_path / "m", rows]
    assert on_terminal(monkeypatch, 80, trained)[0] == TRAINED
    options = ["-j", "1", tmp_path / "m"] if command == "predict" else ["--label", "label", "--categorical", "name"]
    for path in (given, packed):
        status, said = on_terminal(monkeypatch, 80, [command, "-o", tmp_path / "out", *options, path])
        assert status == 0
        shares = list(map(int, re.findall(r"\r(\d+) %  [\d,]+ rows  [\d,]+ rows/s", said)))
        assert shares == sorted(shares)
        assert (shares[:1], shares[-1:]) == ([], []) if path is packed else shares[0] < 60 and shares[-1] in (99, 100)
        assert re.search(r"\r\d+ %  |\r[\d,]+ rows  [\d,]+ rows/s", said)
