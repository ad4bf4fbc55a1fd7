"""The command with models that use fields: formats, groups, and the size of their factors."""

import numpy as np
import pytest


@pytest.fixture
def ffm_model(run, sample, tmp_path):
    """An ffm model of the adult sample."""
    done = run("train", "-m", "ffm", "-o", "ffm.fm", sample / "adult.train.ffm")
    assert done.returncode == 0, done.stderr
    return tmp_path / "ffm.fm"


def test_libsvm_text_has_no_fields(run, sample, ffm_model):
    done = run("train", "-m", "ffm", sample / "adult.train.libsvm")
    assert done.returncode == 65
    assert "adult.train.libsvm: found libsvm text, whose features have no fields" in done.stderr
    done = run("predict", ffm_model, sample / "adult.test.libsvm")
    assert done.returncode == 65
    assert "adult.test.libsvm: found libsvm text" in done.stderr
    assert "ffm.fm" in done.stderr


def test_defaults_of_ffm(run, sample, ffm_model, tmp_path):
    """Rank 4 and rows of unit length. predict normalizes rows, too, so the scale of a row does not matter."""
    assert run("export", "-q", ffm_model, "ffm.npz").returncode == 0
    arrays = np.load(tmp_path / "ffm.npz")
    assert arrays["V"].shape == (1, 122, 14, 4)
    first, second = run("predict", ffm_model, input=b"0:4:1 2:20:1\n0:4:2 2:20:2\n").stdout.split()
    assert first == second
    done = run("predict", ffm_model, input=b"0:4:1 99:20:1\n0:4:1\n")
    assert done.returncode == 0
    assert len(set(done.stdout.split())) == 2  # the linear weight of feature 20 counts even if its field is unknown


def test_a_group_penalty_takes_whole_features(run, sample, tmp_path):
    done = run(
        "train", "-m", "ffm", "-s", "fobos", "--group-l1", "0.003", "-r", "0.1", "-o", "g", sample / "adult.train.ffm"
    )
    assert done.returncode == 0, done.stderr
    assert run("export", "-q", "g", "g.npz").returncode == 0
    arrays = np.load(tmp_path / "g.npz")
    gone = (arrays["V"][0] == 0).all(axis=(1, 2))
    assert 0 < gone.sum() < 122
    assert (arrays["w"][0][gone] == 0).all()


def test_memory_is_said_before_it_is_taken(run, tmp_path):
    rows = (f"{i % 2} {7 * i}:{i}:1 {7 * i + 1}:{1_000_000 + i}:1\n" for i in range(40_000))
    (tmp_path / "wide.ffm").write_text("".join(rows))
    done = run("train", "-m", "ffm", "--dry-run", "wide.ffm")
    assert done.returncode == 0, done.stderr
    assert "TiB needed" in done.stderr
    done = run("train", "-m", "ffm", "-o", "m", "wide.ffm")
    assert done.returncode == 4
    assert "TiB" in done.stderr
    assert not (tmp_path / "m").exists()


def test_groups_by_field_or_by_index(run, sample, tmp_path):
    (tmp_path / "two.ffm").write_text("1 0:1:1 1:7:1\n-1 0:2:1 1:7:1\n1 0:2:1 1:8:1\n" * 5)
    (tmp_path / "two.libsvm").write_text("1 1:1 7:1\n-1 2:1 7:1\n1 2:1 8:1\n" * 5)
    assert run("train", "-m", "bilinear", "-o", "a", "two.ffm").returncode == 0
    done = run("train", "-m", "bilinear", "-o", "b", "two.libsvm")
    assert done.returncode == 65
    assert "no fields" in done.stderr
    assert run("train", "-m", "bilinear", "--split-index", "5", "-o", "b", "two.libsvm").returncode == 0
    one, two = (run("predict", "--raw", model, "two.libsvm").stdout for model in "ab")
    assert one == two
    (tmp_path / "both.ffm").write_text("1 0:1:1 1:7:1\n-1 0:7:1 1:1:1\n")
    done = run("train", "-m", "bilinear", "-o", "c", "both.ffm")
    assert done.returncode == 65
    assert "feature 1 occurs in field 0 and in field 1" in done.stderr
    assert done.stderr.endswith("; see --split-index\n")


def test_split_index_belongs_to_bilinear(run, sample):
    done = run("train", "--split-index", "5", sample / "adult.train.libsvm")
    assert done.returncode == 2
    assert "applies to model bilinear" in done.stderr


def test_a_feature_may_have_the_largest_index(run, tmp_path):
    """Parameters of all features would exceed memory; arrays of integers, such as their numbers, are exported, too."""
    rows = b"1 0:3:1 1:2147483646:1\n0 0:4:1 1:7:1\n1 0:3:1 1:7:1\n"
    assert run("train", "-m", "ffm", "-o", "m", "-", input=rows).returncode == 0
    assert len(run("predict", "m", input=rows).stdout.split()) == 3
    done = run("export", "m", "m.txt")
    assert done.returncode == 0, done.stderr
    lines = (tmp_path / "m.txt").read_text().splitlines()
    assert "features 4" in lines
    assert lines[lines.index("array features 4") + 1] == "3 4 7 2147483646"
