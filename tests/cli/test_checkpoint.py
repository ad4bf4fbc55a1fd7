"""--checkpoint, --checkpoint-every and --resume."""

import json
import os
import signal
import socket
import subprocess
import sys
import time

import numpy as np
import pytest
from inprocess import instead

from fmcli.model_file.container import CHECKPOINT, ModelFile, load, save
from fmcli.system.lock import locked

KEEP = ("--checkpoint", "c")
LOCK = ".c.fmcli-lock"
OFTEN = (*KEEP, "--checkpoint-every", "1e-9")


def wait_for(path):
    for _ in range(1000):
        if path.exists():
            return
        time.sleep(0.01)
    raise AssertionError("it was not written")


def summary(path):
    return json.loads(path.read_text().splitlines()[-1])


@pytest.fixture
def rows(sample):
    return sample / "adult.train.libsvm"


def test_a_killed_run_continues(run, start, rows, tmp_path):
    command = ("train", "-e", "400", "--holdout", "0.1", "--patience", "400", "--no-quick-search")
    run(*command, "-o", "whole", rows)
    process = start(*command, *OFTEN, "-o", "m", rows)
    wait_for(tmp_path / "c")
    process.kill()
    process.communicate()
    done = run.ok(*command, *KEEP, "--resume", "--log-json", "log", "-o", "m", rows)
    assert "continuing with " in done.stderr
    assert (tmp_path / "m").read_bytes() == (tmp_path / "whole").read_bytes()
    assert summary(tmp_path / "log")["resumed"].keys() == {"epoch", "row"}
    numbers = [json.loads(line).get("epoch") for line in (tmp_path / "log").read_text().splitlines()]
    assert [number for number in numbers if number][:400] == list(range(1, 401))
    assert not (tmp_path / "c").exists()


@pytest.mark.parametrize(("number", "solver"), [(signal.SIGINT, "adagrad"), (signal.SIGTERM, "cd")])
def test_a_signal_waits_for_the_checkpoint(start, rows, tmp_path, number, solver):
    process = start(
        "train",
        "-s",
        solver,
        "--no-quick-search",
        *(["--tol", "0"] if solver == "cd" else []),
        "-e",
        "1000000",
        *KEEP,
        rows,
    )
    while not process.stderr.readline().startswith(b"epoch"):
        assert process.poll() is None
    process.send_signal(number)
    _, log = process.communicate(timeout=30)
    assert process.returncode == -number
    assert log.endswith(b"wrote the checkpoint c\n")
    assert os.listdir(tmp_path) == ["c"]


@pytest.mark.parametrize("signals", [1, 2])
def test_the_second_signal_ends_at_once(tmp_path, signals):
    """A single one ends the process after the block."""
    code = (
        "import os, signal, sys\n"
        "from fmcli.system.interrupt import Deferred, end_by_signals\n"
        "end_by_signals()\n"
        "with Deferred() as deferred:\n"
        f"    for sent in range({signals}):\n"
        "        os.kill(os.getpid(), signal.SIGTERM)\n"
        "        print(deferred.signal, flush=True)\n"
        "print('lost')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=30)
    assert (done.returncode, done.stdout) == (-signal.SIGTERM, b"15\n")


def test_one_run_at_a_time(run, rows, tmp_path):
    with locked(str(tmp_path / "c")):
        done = run("train", *KEEP, "--resume", rows)
    assert (done.returncode, done.stderr) == (75, "fmcli: error: c: another run is using it; wait until it has ended\n")
    run.ok("train", "-e", "1", *KEEP, "--resume", rows)
    assert os.listdir(tmp_path) == ["adult.train.libsvm.fm"]
    (tmp_path / LOCK).touch()  # of a run that was killed
    run.ok("train", "-e", "1", *KEEP, rows)
    assert set(os.listdir(tmp_path)) == {"adult.train.libsvm.fm"}


def test_a_file_that_took_the_place_of_the_lock_stays(tmp_path):
    with locked(str(tmp_path / "c")):
        (tmp_path / "data").write_text("rows")
        (tmp_path / "data").rename(tmp_path / LOCK)
    assert (tmp_path / LOCK).read_text() == "rows"


@pytest.mark.parametrize("given", ["input", "output", "validation", "-i", "--log-json"])
def test_no_other_file_is_the_lock(run, rows, tmp_path, given):
    """A file of the command with the name of the lock file is refused, and remains as it is."""
    text = rows.read_bytes()
    (tmp_path / "train").write_bytes(text)
    (tmp_path / LOCK).write_bytes(text)
    arguments = {
        "input": [LOCK],
        "output": ["-o", LOCK, "train"],
        "validation": ["-v", LOCK, "train"],
        "-i": ["-i", LOCK, "train"],
        "--log-json": ["--log-json", LOCK, "train"],
    }[given]
    if given == "-i":
        run("train", "-q", "-e", "1", "-o", LOCK, "train")
        text = (tmp_path / LOCK).read_bytes()
    done = run("train", "-e", "1", *KEEP, *arguments)
    assert (done.returncode, done.stderr) == (
        2,
        f"fmcli: error: {LOCK} is the name of the lock file of c; give one of them another name\n",
    )
    assert (tmp_path / LOCK).read_bytes() == text


@pytest.mark.parametrize("there", ["text", "link", "dangling link", "loop", "folder", "pipe", "socket"])
def test_what_is_no_lock_file_is_refused_and_stays(run, rows, tmp_path, there):
    """Another program's file, or a link, is neither locked nor followed nor removed."""
    lock = tmp_path / LOCK
    (tmp_path / "other").touch()
    with socket.socket(socket.AF_UNIX) as bound:
        {
            "text": lambda: lock.write_text("1"),
            "link": lambda: lock.symlink_to("other"),
            "dangling link": lambda: lock.symlink_to("nothing"),
            "loop": lambda: lock.symlink_to(lock.name),
            "folder": lock.mkdir,
            "pipe": lambda: os.mkfifo(lock),
            "socket": lambda: bound.bind(os.path.relpath(lock)),
        }[there]()
    before = os.lstat(lock)
    done = run.fails(2, "train", "-e", "1", *KEEP, rows)
    assert "c, but is not an empty regular file; move it, or give c another name" in done.stderr
    after = os.lstat(lock)
    assert (after.st_ino, after.st_mtime_ns, after.st_size) == (before.st_ino, before.st_mtime_ns, before.st_size)
    assert set(os.listdir(tmp_path)) == {LOCK, "other"}


def test_a_file_that_took_the_place_of_the_lock_survives_a_signal(start, rows, tmp_path):
    process = start("train", "-e", "1000000", "--holdout", "0", *KEEP, rows)
    while not process.stderr.readline().startswith(b"epoch"):
        assert process.poll() is None
    (tmp_path / "data").write_text("of another program")
    (tmp_path / "data").rename(tmp_path / LOCK)
    for _ in range(2):  # the second one does not wait for a checkpoint
        process.send_signal(signal.SIGTERM)
    process.communicate(timeout=30)
    assert process.returncode == -signal.SIGTERM
    assert (tmp_path / LOCK).read_text() == "of another program"


def test_a_run_that_ran_out_of_time_continues(run, rows, tmp_path):
    command = ("train", "-s", "ftrl", "-e", "5", "--holdout", "0", "--keep-state", "--log-json", "log")
    run(*command, "-o", "whole", rows)
    done = run(*command, "--max-seconds", "1e-9", *KEEP, "--resume", "-o", "m", rows)
    assert "there is no checkpoint c yet: training from the beginning" in done.stderr
    assert "resumed" not in summary(tmp_path / "log")
    assert (tmp_path / "m").read_bytes() != (tmp_path / "whole").read_bytes()
    run(*command, *KEEP, "--resume", "-o", "m", rows)
    assert summary(tmp_path / "log")["resumed"] == {"epoch": 2, "row": 0}
    assert (tmp_path / "m").read_bytes() == (tmp_path / "whole").read_bytes()
    assert not (tmp_path / "c").exists()


def test_a_checkpoint_is_of_one_run(run, rows, tmp_path):
    command = ("train", "-e", "3", "-k", "2", "--holdout", "0", *KEEP, "-o", "m")
    run(*command, "--max-seconds", "1e-9", rows)
    before = (tmp_path / "c").read_bytes()
    (tmp_path / "t").write_text(rows.read_text() + "1 3:1\n")
    file = load(str(tmp_path / "c"), kind=CHECKPOINT)
    forged = ModelFile(file.meta, {**file.tensors, "0.updates": np.array(-1)}, kind=CHECKPOINT)
    save(str(tmp_path / "f"), forged)
    for arguments, status, message in [
        ((*command, rows), 2, "c exists: --resume continues its run; remove it"),
        ((*instead(command, "-k", "4"), "--resume", rows), 2, "another run: --rank was 2 and is 4. Give the same opt"),
        ((*command, "--resume", "--patience", "1", rows), 2, "another run: --patience was"),
        ((*command, "--resume", "-r", "0.05", rows), 2, "only one of them was given --learning-rate"),
        ((*command, "--resume", "t"), 65, "another run: the training data or the weights of rows have changed"),
        ((*command[:-3], "m", "--resume", "-o", "n", rows), 65, "m: is a model, not the checkpoint of an unfinished"),
        ((*command[:-3], "f", "--resume", "-o", "n", rows), 65, "f is not a valid checkpoint: updates is -1; it must"),
        (("predict", "c", rows), 65, "c: is the checkpoint of an unfinished training run, not a model"),
        (("train", "--resume", rows), 2, "--resume needs --checkpoint; give both"),
        (("train", "--checkpoint-every", "9", rows), 2, "--checkpoint-every needs --checkpoint; give both"),
        (("train", "--checkpoint", "-", rows), 2, "cannot be written to standard output"),
        (("train", "--checkpoint", rows, rows), 2, "would overwrite the input"),
        (("train", "-m", "kernel-basis", "--checkpoint", "d", rows), 2, "solved in one step"),
    ]:
        done = run(*arguments)
        assert (done.returncode, message in done.stderr) == (status, True), done.stderr
        assert (tmp_path / "c").read_bytes() == before
    assert sorted(os.listdir(tmp_path)) == ["c", "f", "m", "t"]


def test_other_rows_are_named_rather_than_options_that_follow_from_them(run, rows, tmp_path):
    """By default, the start values of mcmc depend on the rows."""
    command = ("train", "-s", "mcmc", "-e", "30", *KEEP)
    run(*command, "--max-seconds", "1e-9", rows)
    (tmp_path / "t").write_text(rows.read_text() + "1 3:7\n" * 99)
    done = run.fails(65, *command, "--resume", "t")
    assert "another run: the training data or the weights of rows have changed. Restore them" in done.stderr
    done = run.fails(2, *command, "--resume", "--init-std", "0.3", "t")
    assert "--init-std was " in done.stderr


def test_training_goes_on_if_a_checkpoint_cannot_be_written(run, rows, tmp_path):
    (tmp_path / "f").mkdir()
    full = "import fmcli.model_file.container as c, errno, os; write = c.atomic_output; " \
        "c.atomic_output = lambda path: write(path if path == 'm' else '/dev/full')"  # fmt: skip
    done = run.ok("train", "-q", "-e", "2", *OFTEN, "-o", "m", rows, before=full)
    assert done.stderr.startswith(
        "fmcli: warning: no checkpoint was written: /dev/full: cannot be written: No space left on device"
    )
    assert (tmp_path / "m").exists()
