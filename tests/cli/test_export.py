"""fmcli export: arrays from which scores can be computed without fmcli."""

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from modelfiles import export_arrays

from fmcli.export.text import CHUNK, lines
from fmcli.kernels.simd import REAL
from fmcli.scoring.scorer import load_model

GUIDE = (Path(__file__).resolve().parent.parent.parent / "fmcli" / "guide" / "model-file.md").read_text()
# Tolerance between scores summed in double precision and scores in the build's real type.
CLOSE = {"float": 1e-5, "double": 1e-12}[REAL]


def test_exported_arrays_give_the_scores(run, sample, adult_model, tmp_path):
    done = run.ok("export", adult_model, "out.npz")
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
    run.ok("export", "-q", adult_model, "b.npz")
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()
    with zipfile.ZipFile(tmp_path / "a.npz") as packed:
        assert {entry.date_time for entry in packed.infolist()} == {(1980, 1, 1, 0, 0, 0)}


def test_other_endings_are_refused_before_the_model_is_looked_at(run, tmp_path):
    done = run.fails(2, "export", "missing.fm", "out.csv")
    assert "export writes .npz, .txt, .tsv and .parquet files" in done.stderr
    assert os.listdir(tmp_path) == []


# Text.


def parsed(text):
    """Return the header and the arrays of an exported text."""
    header, arrays = {}, {}
    rows = iter(text.splitlines())
    for line in rows:
        key, *rest = line.split()
        if key == "array":
            shape = tuple(map(int, rest[1:]))
            numbers = [next(rows).split() for _ in range(int(np.prod(shape[:-1])))]
            assert all(len(row) == shape[-1] for row in numbers)
            arrays[rest[0]] = np.array(numbers, float).reshape(shape)
        else:
            header[" ".join([key, *rest[:-1]]) if key == "option" else key] = rest if key == "labels" else rest[-1]
    return header, arrays


@pytest.mark.parametrize(
    "options", [["-m", "sha2"], ["--loss", "softmax", "-k", "3"], ["-m", "linear", "--norm"]], ids=" ".join
)
def test_text_gives_back_the_very_numbers(run, sample, tmp_path, options):
    run.ok("train", "-q", "-e", "2", *options, "-o", "m", sample / "adult.train.libsvm")
    run.ok("export", "m", "out.txt")
    header, arrays = parsed((tmp_path / "out.txt").read_text())
    expected = export_arrays(str(tmp_path / "m"))
    seen = arrays.pop("seen", None)
    assert (seen is not None) == ("--norm" in options)
    assert arrays.keys() == expected.keys()
    for name, array in arrays.items():
        assert array.shape == expected[name].shape
        assert array.tobytes() == expected[name].tobytes()
    if seen is not None:
        assert seen.sum() == 117
    assert (header["fmcli-text"], header["features"], header["labels"]) == ("1", "122", ["-1", "1"])
    assert header["option norm"] == str(int("--norm" in options))
    assert header["outputs"] == ("2" if "softmax" in options else "1")


@pytest.mark.parametrize("norm", ["--norm", "--no-norm"])
def test_text_has_only_the_features_of_the_model(run, tmp_path, norm):
    (tmp_path / "rows").write_text("1 0:7:1 1:1000000:1\n0 0:9:1\n" * 20)
    run.ok("train", "-q", "-m", "ffm", "-k", "2", norm, "-o", "m", "rows")
    run.ok("export", "m", "out.txt")
    header, arrays = parsed((tmp_path / "out.txt").read_text())
    scorer = load_model(str(tmp_path / "m"))
    expected = {**scorer.model.exported(), **({"seen": np.ones(3)} if norm == "--norm" else {})}
    assert header["features"] == "1000001"
    assert arrays.pop("features").tolist() == [7, 9, 1000000]
    assert {name: array.tolist() for name, array in arrays.items()} == {n: a.tolist() for n, a in expected.items()}


def test_the_script_of_the_readme_scores(run, sample, adult_model, tmp_path):
    (script,) = re.findall(r"```python\n(.*?)```", GUIDE.split("## Text\n")[1].partition("\n## ")[0], re.S)
    test = sample / "adult.test.libsvm"
    run.ok("export", adult_model, "m.txt")
    done = subprocess.run(
        [sys.executable, "-I", "-c", script, "m.txt", test], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    theirs = np.array(done.stdout.split(), float)
    raw = np.array(run("predict", "--raw", adult_model, test).stdout.split(), float)
    assert len(raw) == 1500
    assert np.ptp(raw) > 1
    assert np.max(np.abs(theirs - raw) / np.maximum(1, np.abs(raw))) < CLOSE


def test_a_dash_is_text_on_standard_output(run, adult_model, tmp_path):
    done = run("export", adult_model, "-")
    assert run("export", "-q", adult_model, "out.txt").stderr == ""
    assert done.stdout == (tmp_path / "out.txt").read_bytes()
    assert "wrote standard output\n" in done.stderr


@pytest.mark.parametrize("shape", [(1,), (3,), (1, 5), (2, 3 * CHUNK + 1), (1, CHUNK, 3), (0, 4), (2, 0)])
def test_lines_are_rows_whatever_their_length(rng, shape):
    array = rng.normal(size=shape)
    text = "".join(lines(array)).split("\n")
    assert text.pop() == ""
    assert len(text) == np.prod(shape[:-1])
    assert not any(line != line.strip() for line in text)
    np.testing.assert_array_equal(np.array([line.split() for line in text], float).reshape(shape), array)


def test_a_full_disk_and_a_closed_output(run, adult_model, tmp_path):
    (tmp_path / "full.txt").symlink_to("/dev/full")
    run.fails(74, "export", adult_model, "full.txt")
    done = run.fails(74, "export", adult_model, "-", preexec=lambda: os.close(1))
    assert "it is closed; give a file name instead of -" in done.stderr


def test_kernel_form_is_a_model_and_arrays(run, sample, tmp_path):
    train, test = sample / "adult.train.libsvm", sample / "adult.test.libsvm"
    run.ok("train", "-q", "-m", "lifted-pn", "--augment", "-k", "3", "-o", "lifted.fm", train)
    done = run("export", "--kernel-form", "lifted.fm", "direct.fm")
    assert (done.returncode, done.stdout) == (0, b"")
    assert "P: 1 x 122 x 6\n" in done.stderr
    assert done.stderr.endswith("wrote direct.fm\n")
    scores = [
        np.array(run("predict", "--raw", model, test).stdout.split(), float) for model in ("lifted.fm", "direct.fm")
    ]
    np.testing.assert_allclose(scores[1], scores[0], atol=1e-5 * np.abs(scores[0]).max())
    run.ok("train", "-i", "direct.fm", "-m", "pn", "-k", "6", "-o", "on.fm", train)
    run.ok("export", "-q", "--kernel-form", "lifted.fm", "direct.npz")
    arrays = np.load(tmp_path / "direct.npz")
    assert {name: arrays[name].shape for name in arrays} == {
        "bias": (1,), "w": (1, 122), "P": (1, 122, 6), "beta": (1, 6), "gamma": (1, 6),
    }  # fmt: skip


def test_kernel_form_is_refused_for_other_models_and_files(run, adult_model):
    done = run.fails(2, "export", "--kernel-form", adult_model, "out.fm")
    assert "has kind fm; only lifted-anova and lifted-pn of order 2 have a kernel form" in done.stderr
    done = run.fails(2, "export", "--kernel-form", adult_model, "out.txt")
    assert "export --kernel-form writes .npz and .fm files" in done.stderr
    done = run.fails(2, "export", "--kernel-form", adult_model, "-")
