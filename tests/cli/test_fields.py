"""The command with models that use fields: formats, groups, and the size of their factors."""

import re

import numpy as np
import pytest


@pytest.fixture
def ffm_model(run, sample, tmp_path):
    """An ffm model of the adult sample."""
    run.ok("train", "-m", "ffm", "-e", "2", "-o", "ffm.fm", sample / "adult.train.ffm")
    return tmp_path / "ffm.fm"


def test_libsvm_text_has_no_fields(run, sample, ffm_model):
    done = run.fails(65, "train", "-m", "ffm", sample / "adult.train.libsvm")
    assert "adult.train.libsvm: found libsvm text, whose features have no fields" in done.stderr
    done = run.fails(65, "predict", ffm_model, sample / "adult.test.libsvm")
    assert "adult.test.libsvm: found libsvm text" in done.stderr
    assert "ffm.fm" in done.stderr


def test_defaults_of_ffm(run, sample, ffm_model, tmp_path):
    """Rank 4 and rows of unit length. predict normalizes rows, too, so the scale of a row does not matter."""
    run.ok("export", "-q", ffm_model, "ffm.npz")
    arrays = np.load(tmp_path / "ffm.npz")
    assert arrays["V"].shape == (1, 122, 14, 4)
    first, second = run("predict", ffm_model, input=b"0:4:1 2:20:1\n0:4:2 2:20:2\n").stdout.split()
    assert first == second
    done = run.ok("predict", ffm_model, input=b"0:4:1 99:20:1\n0:4:1\n")
    assert len(set(done.stdout.split())) == 2  # the linear weight of feature 20 counts even if its field is unknown


def test_a_group_penalty_takes_whole_features(run, sample, tmp_path):
    run.ok(
        *("train", "-m", "ffm", "-s", "fobos", "-e", "4", "--group-l1", "0.003", "-r", "0.1", "-o", "g"),
        sample / "adult.train.ffm",
    )
    run.ok("export", "-q", "g", "g.npz")
    arrays = np.load(tmp_path / "g.npz")
    gone = (arrays["V"][0] == 0).all(axis=(1, 2))
    assert 0 < gone.sum() < 122
    assert (arrays["w"][0][gone] == 0).all()


def test_memory_is_said_before_it_is_taken(run, tmp_path):
    rows = (f"{i % 2} {7 * i}:{i}:1 {7 * i + 1}:{1_000_000 + i}:1\n" for i in range(40_000))
    (tmp_path / "wide.ffm").write_text("".join(rows))
    done = run.ok("train", "-m", "ffm", "--dry-run", "wide.ffm")
    needed = re.search(r"([\d.]+) TiB needed", done.stderr)
    assert float(needed[1]) > 1
    done = run.fails(4, "train", "-m", "ffm", "-o", "m", "wide.ffm")
    assert f"{needed[1]} TiB of memory" in done.stderr
    assert not (tmp_path / "m").exists()


def test_groups_by_field_or_by_index(run, sample, tmp_path):
    (tmp_path / "two.ffm").write_text("1 0:1:1 1:7:1\n-1 0:2:1 1:7:1\n1 0:2:1 1:8:1\n" * 5)
    (tmp_path / "two.libsvm").write_text("1 1:1 7:1\n-1 2:1 7:1\n1 2:1 8:1\n" * 5)
    run.ok("train", "-m", "bilinear", "-o", "a", "two.ffm")
    done = run.fails(65, "train", "-m", "bilinear", "-o", "b", "two.libsvm")
    assert "no fields" in done.stderr
    run.ok("train", "-m", "bilinear", "--split-index", "5", "-o", "b", "two.libsvm")
    one, two = (run("predict", "--raw", model, "two.libsvm").stdout for model in "ab")
    assert one == two
    (tmp_path / "both.ffm").write_text("1 0:1:1 1:7:1\n-1 0:7:1 1:1:1\n")
    done = run.fails(65, "train", "-m", "bilinear", "-o", "c", "both.ffm")
    assert "feature 1 occurs in field 0 and in field 1" in done.stderr
    assert done.stderr.endswith("; see --split-index\n")


def test_a_feature_may_have_the_largest_index(run, tmp_path):
    """Parameters of all features would exceed memory; arrays of integers, such as their numbers, are exported, too."""
    rows = b"1 0:3:1 1:2147483646:1\n0 0:4:1 1:7:1\n1 0:3:1 1:7:1\n"
    run.ok("train", "-m", "ffm", "-o", "m", "-", input=rows)
    assert len(run("predict", "m", input=rows).stdout.split()) == 3
    run.ok("export", "m", "m.txt")
    lines = (tmp_path / "m.txt").read_text().splitlines()
    assert "features 4" in lines
    assert lines[lines.index("array features 4") + 1] == "3 4 7 2147483646"
