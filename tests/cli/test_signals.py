"""What interrupts a command ends it by that very signal and leaves nothing behind."""

import os
import signal
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
def test_training_that_is_interrupted_leaves_an_older_model(start, sample, tmp_path, number):
    (tmp_path / "m").write_text("older")
    process = start("train", "-e", "1000000", "-o", "m", sample / "adult.train.libsvm")
    line = b""
    while not line.startswith(b"epoch"):
        line = process.stderr.readline()
        assert line
    process.send_signal(number)
    _, log = process.communicate(timeout=30)
    assert process.returncode == -number
    assert b"Traceback" not in log
    assert os.listdir(tmp_path) == ["m"]
    assert (tmp_path / "m").read_text() == "older"


@pytest.mark.parametrize("number", ENDING)
def test_prediction_that_is_interrupted_leaves_no_file(start, adult_model, tmp_path, number):
    process = start("predict", "-j", "2", "-o", "out", adult_model)
    process.stdin.write(b"1 3:1\n" * 2_000_000)
    process.stdin.flush()
    wait_for(lambda: any(path.stat().st_size for path in tmp_path.glob(".fmcli-*")))
    process.send_signal(number)
    assert process.wait(timeout=30) == -number
    assert process.stderr.read() == b""
    process.stdin.close()
    assert os.listdir(tmp_path) == []


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
