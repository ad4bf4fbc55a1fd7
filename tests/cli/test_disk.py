"""--disk, --cache and --memory."""

import io
import os

import pytest

from fmcli.system import identity


def test_a_small_cache_is_trained_on_as_text(run, sample, tmp_path):
    rows = sample / "adult.train.libsvm"
    done = run("train", "--disk", "--cache", "c", "-e", "3", "--log-json", "log", "-o", "m", rows)
    assert done.returncode == 0, done.stderr
    assert "made the cache c, because there was none" in done.stderr
    assert run("train", "-e", "3", "-o", "n", rows).returncode == 0
    assert (tmp_path / "m").read_bytes() == (tmp_path / "n").read_bytes()
    again = run("train", "--disk", "--cache", "c", "-e", "3", "-j", "1", "-o", "n", rows)
    assert "using the cache c" in again.stderr
    assert (tmp_path / "m").read_bytes() == (tmp_path / "n").read_bytes()


def test_several_epochs_from_a_pipe(run, sample, tmp_path):
    rows = sample / "adult.train.libsvm"
    for _ in range(2):
        done = run("train", "--disk", "--cache", "c", "-e", "2", "-o", "m", "-", input=rows.read_bytes())
        assert done.returncode == 0, done.stderr
    assert "because an input cannot be read twice" in done.stderr
    assert run("train", "--disk", "--cache", "c", "--holdout", "0", "-e", "2", "-o", "n", rows).returncode == 0
    assert (tmp_path / "m").read_bytes() == (tmp_path / "n").read_bytes()


def test_a_change_in_the_middle_is_seen(run, sample, tmp_path):
    """Also if the size and the time of the last change are as before."""
    text = (sample / "adult.train.libsvm").read_bytes() * 30
    path, middle = tmp_path / "rows", text.index(b":1", len(text) // 2)
    path.write_bytes(text)
    status = path.stat()
    command = ("train", "--disk", "--cache", "c", "-e", "1", "rows")
    for again in (False, True):
        assert ("made the cache" in run(*command).stderr) == (not again)
    path.write_bytes(text[:middle] + b":2" + text[middle + 2 :])
    assert path.stat().st_size == status.st_size
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert "made the cache c, because the earlier one has other inputs" in run(*command).stderr


@pytest.mark.parametrize("size", [0, 1, identity.EXCERPT, identity.EXCERPT + 1, 5 * identity.EXCERPT + 7])
def test_samples_cover_a_file_that_is_not_large(size):
    text = bytes(range(256)) * (size // 256 + 1)
    whole = io.BytesIO(text[:size])
    seen = {identity.checksum(whole, size, identity.SAMPLES)}
    for place in range(0, size, 997):
        changed = bytearray(text[:size])
        changed[place] ^= 1
        assert identity.checksum(io.BytesIO(changed), size, identity.SAMPLES) not in seen


def test_labels_may_be_names(run, sample, tmp_path):
    """They are numbered in their order, whatever the order of the rows."""
    text = (sample / "adult.train.libsvm").read_text()
    rows = [("rich" if line[0] == "1" else "poor") + line[line.index(" ") :] for line in text.splitlines()]
    (tmp_path / "names").write_text("\n".join(rows) + "\n")
    (tmp_path / "numbers").write_text(text)
    for file in ("names", "numbers"):
        disk = ["--disk", "--cache", file + ".cache"]
        assert run("train", *disk, "-e", "2", "-o", file + ".fm", file).returncode == 0
    scores = [run("predict", f"{file}.fm", "numbers").stdout for file in ("names", "numbers")]
    assert scores[0] == scores[1] != ""
    more = run("train", *disk, "-i", "names.fm", "-e", "1", "names")
    assert more.returncode == 0, more.stderr
    assert run("train", *disk, "-i", "names.fm", "-e", "1", "numbers").returncode == 65


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--cache", "c"], "--cache needs --disk"),
        (["--memory", "5"], "--memory needs --disk"),
        (["--disk"], "--disk needs --cache; give both"),
        (["--disk", "--cache", "c", "-s", "cd"], "cd needs all rows in memory"),
        (["--disk", "--cache", "t"], "t"),
    ],
)
def test_usage(run, tmp_path, options, message):
    (tmp_path / "t").write_text("1 1:1\n0 2:1\n")
    done = run("train", *options, "t")
    assert done.returncode == 2
    assert message in done.stderr
    assert (tmp_path / "t").read_text() == "1 1:1\n0 2:1\n"


def test_too_little_memory(run, tmp_path, sample):
    done = run("train", "--disk", "--cache", "c", "--memory", "0.1", sample / "adult.train.libsvm")
    assert done.returncode == 4
    assert "use --memory" in done.stderr
    assert not (tmp_path / "adult.train.libsvm.fm").exists()
