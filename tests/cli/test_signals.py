"""An interrupted command is terminated by the same signal and leaves no files behind."""

import os
import shutil
import signal
import subprocess
import sys
import time

import pytest

ENDING = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]


def wait_for(condition):
    for _ in range(1000):
        if condition():
            return
        time.sleep(0.02)
    raise AssertionError("it never happened")


@pytest.mark.parametrize("number", ENDING)
def test_training_that_is_interrupted_leaves_an_older_model(start, sample, adult_model, tmp_path, number):
    shutil.copy(adult_model, tmp_path / "m")
    process = start("train", "--no-quick-search", "-e", "1000000", "-o", "m", sample / "adult.train.libsvm")
    line = b""
    while not line.startswith(b"epoch"):
        line = process.stderr.readline()
        assert line
    process.send_signal(number)
    _, log = process.communicate(timeout=30)
    assert process.returncode == -number
    assert b"Traceback" not in log
    assert os.listdir(tmp_path) == ["m"]
    assert (tmp_path / "m").read_bytes() == adult_model.read_bytes()


def test_prediction_that_is_interrupted_leaves_no_file(start, adult_model, tmp_path):
    process = start("predict", "-j", "2", "-o", "out", adult_model)
    process.stdin.write(b"1 3:1\n" * 500_000)
    process.stdin.flush()
    wait_for(lambda: any(path.stat().st_size for path in tmp_path.glob(".fmcli-*")))
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=30) == -signal.SIGTERM
    assert process.stderr.read() == b""
    process.stdin.close()
    assert os.listdir(tmp_path) == []


# Moments at which Python runs its own code and discards exceptions raised by signal handlers.
KILL = "import os, signal, sys; kill = lambda *_: os.kill(os.getpid(), signal.{})"
MOMENTS = {
    "import": "sys.meta_path.insert(0, type('F', (), {'find_spec': kill})())",
    "destructor": "import fmcli.cli.train.run as t; t.train_request = lambda *_: type('D', (), {'__del__': kill})()",
}


@pytest.mark.parametrize(("moment", "number"), [("import", signal.SIGINT), ("destructor", signal.SIGTERM)])
def test_no_signal_is_lost(run, sample, tmp_path, moment, number):
    if moment == "import":  # fmcli.__main__ is already imported
        before = f"{KILL.format(number.name)}; import fmcli.__main__; {MOMENTS[moment]}"
    else:
        before = f"{KILL.format(number.name)}; {MOMENTS[moment]}"
    done = run("train", "-q", "-e", "1", "-o", "m", sample / "diabetes.train.libsvm", before=before)
    assert (done.returncode, done.stderr) == (-number, "")
    assert not [name for name in os.listdir(tmp_path) if name != "m"]


def test_a_child_leaves_its_parents_files(tmp_path):
    """A terminated forked child must not remove the files that its parent is writing."""
    code = (
        "import os, signal\n"
        "from fmcli.system.interrupt import end_by_signals\n"
        "from fmcli.system.files import atomic_output\n"
        "end_by_signals()\n"
        "with atomic_output('whole') as file:\n"
        "    child = os.fork()\n"
        "    if child == 0:\n"
        "        os.kill(os.getpid(), signal.SIGTERM)\n"
        "    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGTERM\n"
        "    file.write(b'text')\n"
    )
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True, timeout=30)
    assert (tmp_path / "whole").read_bytes() == b"text"


@pytest.mark.parametrize("mapped", [True, False])
def test_a_model_that_is_truncated_while_it_is_used(start, adult_model, tmp_path, mapped):
    """A mapped model ends the command with the status of an I/O error; a small one was copied."""
    (tmp_path / "m").write_bytes(adult_model.read_bytes())
    before = "import fmcli.model_file.contents as c; c.MOST_COPIED = 0" if mapped else "import fmcli"
    process = start("predict", "--verbose", "m", before=before)
    assert process.stderr.readline().startswith(b"m: fm, ")
    os.truncate(tmp_path / "m", 0)
    out, log = process.communicate(b"1 3:1\n", timeout=30)
    if mapped:
        last = b"fmcli: error: the model file was truncated, or cannot be read, while it is in use"
        assert (process.returncode, out, log.splitlines()[-1]) == (74, b"", last)
    else:
        assert (process.returncode, len(out.splitlines())) == (0, 1)


def test_a_signal_that_is_ignored_from_the_start_stays_so(start, adult_model):
    process = start("predict", adult_model, preexec=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    process.stdin.write(b"1 3:1\n")
    process.stdin.flush()
    time.sleep(1)
    process.send_signal(signal.SIGHUP)
    out, _ = process.communicate(timeout=30)
    assert process.returncode == 0
    assert len(out.splitlines()) == 1


def test_a_reader_that_goes_away_ends_prediction_quietly(start, large, adult_model):
    process = start("predict", "-q", adult_model, large)
    assert process.stdout.readline()
    process.stdout.close()
    assert process.wait(timeout=30) == -signal.SIGPIPE
    assert process.stderr.read() == b""


def test_a_reader_that_goes_away_ends_help_quietly(start):
    process = start("--help")
    process.stdout.close()
    assert process.wait(timeout=30) == -signal.SIGPIPE
    assert process.stderr.read() == b""


def test_little_is_imported_before_signals_are_taken():
    """During imports before the handler is installed, Python answers an interrupt with a traceback. Importing fmcli
    changes no handler."""
    code = (
        "import sys\n"
        "def caught(): return [line for line in open('/proc/self/status') if line.startswith('SigCgt')]\n"
        "modules, before = set(sys.modules), caught()\n"
        "import fmcli.__main__, fmcli.system.interrupt\n"
        "assert caught() == before\n"
        "print(*sorted(set(sys.modules) - modules))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    needed = {name for name in done.stdout.split() if "cython" not in name or name.startswith("fmcli")}
    assert needed - set(sys.builtin_module_names) == {
        "fmcli",
        "fmcli.__main__",
        "fmcli.system",
        "fmcli.system.interrupt",
    }
