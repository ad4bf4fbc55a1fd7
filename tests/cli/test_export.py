"""fmcli export: arrays from which anyone can score."""

import os
import zipfile

import numpy as np


def test_exported_arrays_give_the_scores(run, sample, adult_model, tmp_path):
    done = run("export", adult_model, "out.npz")
    assert done.returncode == 0, done.stderr
    assert done.stdout == b""
    assert "wrote out.npz\n" in done.stderr
    arrays = np.load(tmp_path / "out.npz")
    assert {name: arrays[name].shape for name in arrays} == {"bias": (1,), "V": (1, 122, 8), "w": (1, 122)}
    assert all(arrays[name].dtype == np.float64 for name in arrays)
    x = np.zeros((1500, 122))
    for row, line in zip(x, (sample / "adult.test.libsvm").read_text().splitlines(), strict=True):
        for entry in line.split()[1:]:
            index, value = entry.split(":")
            if int(index) < 122:
                row[int(index)] = float(value)
    V = arrays["V"][0]
    pairs = ((x @ V) ** 2 - x**2 @ V**2).sum(axis=1) / 2
    raw = run("predict", "--raw", adult_model, sample / "adult.test.libsvm").stdout
    np.testing.assert_allclose(arrays["bias"][0] + x @ arrays["w"][0] + pairs, np.array(raw.split(), float), atol=1e-5)


def test_the_file_depends_on_the_model_only(run, adult_model, tmp_path):
    assert run("export", "-q", adult_model, "a.npz").stderr == ""
    assert run("export", "-q", adult_model, "b.npz").returncode == 0
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()
    with zipfile.ZipFile(tmp_path / "a.npz") as packed:
        assert {entry.date_time for entry in packed.infolist()} == {(1980, 1, 1, 0, 0, 0)}


def test_other_endings_are_refused_before_the_model_is_looked_at(run, tmp_path):
    done = run("export", "missing.fm", "out.csv")
    assert done.returncode == 2
    assert "export writes .npz and .txt files" in done.stderr
    assert os.listdir(tmp_path) == []


def test_the_model_is_not_overwritten(run, adult_model, tmp_path):
    os.link(adult_model, tmp_path / "m.npz")
    done = run("export", adult_model, "m.npz")
    assert done.returncode == 2
    assert "would overwrite" in done.stderr


def test_a_full_disk_is_an_error(run, adult_model, tmp_path):
    (tmp_path / "full.npz").symlink_to("/dev/full")
    done = run("export", adult_model, "full.npz")
    assert done.returncode == 74
    assert done.stderr == "fmcli: error: full.npz: cannot be written: No space left on device\n"


def test_a_text_file_is_not_a_model(run, sample):
    done = run("export", sample / "adult.test.libsvm", "out.npz")
    assert done.returncode == 65
    assert "is a text file, not an fmcli model" in done.stderr
