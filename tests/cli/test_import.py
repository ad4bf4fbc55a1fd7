"""fmcli import, and fmcli export --to: models of other programs from the command line."""

import os
import struct

import foreign_models as theirs
import numpy as np
import pytest


def test_a_model_of_libfm_is_imported_and_predicts(run, tmp_path):
    (tmp_path / "libfm.model").write_bytes(theirs.libfm())
    done = run.ok("import", "--loss", "squared", "libfm.model")
    assert done.stdout == b""
    assert done.stderr == "libfm.model: fm of libFM, 4 features, rank 3, loss squared\nwrote libfm.model.fm\n"
    theirs.written(tmp_path / "rows", theirs.ROWS)
    found = run.ok("predict", "-q", "libfm.model.fm", "rows").stdout.split()
    np.testing.assert_allclose(np.array(found, float), [theirs.score_fm(row) for row in theirs.ROWS], atol=1e-5)


def test_a_model_of_libffm_is_imported_updated_and_exported(run, tmp_path):
    (tmp_path / "m").write_bytes(theirs.libffm())
    done = run.ok("import", "--from", "libffm", "--labels", "-1,1", "m", "-o", "m.fm")
    assert "m: ffm of libffm, 3 features, 2 fields, rank 3, loss logistic, rows of unit length\n" in done.stderr
    (tmp_path / "rows").write_text("1 0:0:1 1:1:1\n-1 0:0:1 1:2:1\n")
    updated = run.ok(
        "train", "-i", "m.fm", "-r", "0.2", "--l2", "2e-5", "-e", "2", "--holdout", "0", "-o", "n.fm", "rows"
    )
    assert "resuming from m.fm: weights and solver state after 0 epochs; 0 new features" in updated.stderr
    for form in ("libffm", "libffm-text"):
        done = run.ok("export", "--to", form, "n.fm", "out")
        assert done.stderr == "features: 3, so the largest index of rows is 2\nrank: 3\nwrote out\n"
        run.ok("import", "out", "-o", "again.fm")
        assert run.ok("predict", "again.fm", "rows").stdout == run.ok("predict", "n.fm", "rows").stdout


def test_unknown_features_of_an_imported_model_are_counted_or_refused(run, tmp_path):
    """They count in the norm of a row, but in nothing else."""
    (tmp_path / "m").write_bytes(theirs.libffm())
    run.ok("import", "m")
    theirs.written(tmp_path / "rows", theirs.FIELDED)
    done = run.ok("predict", "m.fm", "rows")
    assert "5 rows, 1 of 12 non-zeros unseen (8.3 %)" in done.stderr
    expected = [theirs.logistic(theirs.score_ffm(row)) for row in theirs.FIELDED]
    np.testing.assert_allclose(np.array(done.stdout.split(), float), expected, rtol=1e-5)
    done = run.fails(65, "predict", "--unseen", "error", "m.fm", "rows")
    assert "rows:4:19: found '1:100:2.5', expected a feature that occurred in training" in done.stderr


ERRORS = [
    (["import", "missing"], 66, "missing"),
    (["import", "m"], 2, "m: a model of libFM does not say what its scores mean; use --loss squared for regression,"),
    (["import", "--loss", "hinge", "m"], 2, "there is no loss of other programs 'hinge'"),
    (["import", "--loss", "squared", "--clip", "1-5", "m"], 2, "'1-5' is not two numbers with a comma between them"),
    (["import", "--loss", "squared", "--clip", "a,5", "m"], 2, "'a,5' is not two numbers with a comma between them"),
    (["import", "--loss", "squared", "--clip", "5,5", "m"], 2, "5 and 5 are not two finite numbers"),
    (["import", "--loss", "squared", "m", "-o", "m"], 2, "the output m would overwrite the input m"),
    (["import", "--loss", "squared", "m", "-o", "-"], 2, "cannot be written to standard output"),
    (["import", "--task", "r", "m"], 2, "there is no option '--task'; did you mean --loss squared, --loss logistic"),
    (["import", "short"], 65, "short: is truncated, or not a model of libffm: 3 features, 2 fields and 3 factors take"),
    (["import", "rows"], 65, "rows: is not a model of libFM, libffm or xLearn"),
    (["predict", "m", "rows"], 65, "m: is not an fmcli model, but perhaps one of another program; fmcli import makes"),
    (["export", "--to", "libfn", "m", "out"], 2, "'libfn' is not one of 'libfm', 'libffm', 'libffm-no-sse',"),
    (["export", "--to", "libfm", "--kernel-form", "m", "out.fm"], 2, "--kernel-form and --to cannot be combined"),
]


@pytest.mark.parametrize(("arguments", "status", "message"), ERRORS)
def test_errors_say_what_is_wrong(run, tmp_path, arguments, status, message):
    (tmp_path / "m").write_bytes(theirs.libfm())
    (tmp_path / "short").write_bytes(theirs.libffm()[:-9])
    (tmp_path / "rows").write_text("1 0:1\n")
    if arguments[-1] == "short":
        arguments = [arguments[0], "--from", "libffm", *arguments[1:]]
    before = sorted(os.listdir(tmp_path))
    assert message in run.fails(status, *arguments).stderr
    assert sorted(os.listdir(tmp_path)) == before


def test_an_imported_model_is_one_already(run, tmp_path):
    (tmp_path / "m").write_bytes(theirs.libfm())
    run.ok("import", "-q", "--loss", "squared", "m")
    assert "m.fm: is already an fmcli model" in run.fails(65, "import", "m.fm").stderr


def test_a_pipe_is_read_to_its_end(run, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    file = theirs.libfm(w=[0.5] * 40_000, V=[[0.25, 1.0]] * 40_000)
    done = run.ok("import", "--loss", "squared", "/dev/stdin", "-o", "m.fm", input=file)
    assert "/dev/stdin: fm of libFM, 40,000 features, rank 2, loss squared" in done.stderr


def test_hashed_ids_are_refused(run, tmp_path):
    (tmp_path / "rows").write_text("1 a:1 b:1\n0 b:1\n" * 5)
    run.ok("train", "-q", "--hash-bits", "4", "--holdout", "0", "-o", "m.fm", "rows")
    done = run.fails(2, "export", "--to", "libfm", "m.fm", "out")
    assert "m.fm hashes the ids of features, which a model of libFM cannot have" in done.stderr
    assert not (tmp_path / "out").exists()


def test_a_model_for_a_pipe_is_written_to_standard_output(run, tmp_path):
    (tmp_path / "m").write_bytes(theirs.libffm())
    run.ok("import", "-q", "m")
    written = run.ok("export", "--to", "libffm", "m.fm", "-").stdout
    assert written == theirs.libffm(square=1.0)
    assert struct.unpack_from("<iii?", written) == (3, 2, 3, True)


# Tables.


def table(path):
    head, *rows = [line.split("\t") for line in path.read_text().splitlines()]
    return head, rows


def test_a_table_has_the_parameters_of_each_feature(run, tmp_path):
    (tmp_path / "m").write_bytes(theirs.libfm())
    run.ok("import", "-q", "--loss", "squared", "m")
    done = run.ok("export", "m.fm", "m.tsv")
    assert done.stderr == "w: 1 x 4\nV: 1 x 4 x 3\nwrote m.tsv\n"
    head, rows = table(tmp_path / "m.tsv")
    assert head == ["feature", "w", "V_0", "V_1", "V_2"]
    assert rows[3] == ["3", "2", "-0.625", "0.001", "-2e-05"]
    assert len(rows) == 4


def test_a_table_has_the_names_of_a_dictionary_and_the_classes(run, tmp_path):
    lines = ["red user=a 3:1", "green user=b 3:1", "blue user=a user=b"]
    text = "\n".join(
        " ".join(token if ":" in token or i == 0 else f"{token}:1" for i, token in enumerate(line.split()))
        for line in lines * 5
    )
    (tmp_path / "rows").write_text(f"{text}\n")
    run.ok("train", "-q", "--loss", "softmax", "-k", "2", "--holdout", "0", "-o", "m.fm", "rows")
    run.ok("export", "m.fm", "m.tsv")
    run.ok("export", "m.fm", "m.npz")
    head, rows = table(tmp_path / "m.tsv")
    assert head == ["feature", "class", "w", "V_0", "V_1"]
    assert [row[:2] for row in rows[:3]] == [["3", "blue"], ["3", "green"], ["3", "red"]]
    assert {row[0] for row in rows} == {"3", "user=a", "user=b"}
    arrays = np.load(tmp_path / "m.npz")
    w = [float(row[2]) for row in rows]
    np.testing.assert_array_equal(np.array(w, np.float32).reshape(3, 3), arrays["w"].T.astype(np.float32))


def test_a_parquet_table_has_the_same_numbers(run, tmp_path):
    duckdb = pytest.importorskip("duckdb")
    (tmp_path / "rows").write_text('1 "odd:1 3:0.5\n0 3:1\n' * 9)
    run.ok("train", "-q", "-k", "3", "--holdout", "0", "-o", "m.fm", "rows")
    for name in ("m.tsv", "m.parquet", "m.npz"):
        run.ok("export", "m.fm", name)
    found = duckdb.sql(f"FROM '{tmp_path / 'm.parquet'}'")
    head, rows = table(tmp_path / "m.tsv")
    assert found.columns == head
    assert [row[0] for row in found.fetchall()] == [row[0] for row in rows] == ["3", '"odd']
    factors = np.array([row[2:] for row in found.fetchall()])
    np.testing.assert_array_equal(factors, np.load(tmp_path / "m.npz")["V"][0])
    (tmp_path / "full.parquet").symlink_to("/dev/full")
    assert "full.parquet: cannot be written" in run.fails(74, "export", "m.fm", "full.parquet").stderr


def test_factors_of_fields_have_the_field_and_the_factor(run, tmp_path):
    (tmp_path / "m").write_bytes(theirs.libffm())
    run.ok("import", "-q", "m")
    run.ok("export", "m.fm", "m.tsv")
    head, rows = table(tmp_path / "m.tsv")
    assert head == ["feature", *(f"V_{f}_{d}" for f in range(2) for d in range(3))]
    np.testing.assert_allclose(np.array(rows, float)[:, 1:].reshape(3, 2, 3), theirs.F, rtol=1e-6)


def test_a_model_without_parameters_of_features_has_no_table(run, tmp_path):
    (tmp_path / "rows").write_text("1.5 0:1 1:2\n2.5 0:2\n0.5 1:1\n" * 9)
    run.ok("train", "-q", "-m", "kernel-basis", "--no-linear", "-k", "3", "--holdout", "0", "-o", "m.fm", "rows")
    done = run.fails(2, "export", "m.fm", "m.tsv")
    assert "m.fm is of kind kernel-basis, which has no parameters of single features" in done.stderr


def test_the_factors_of_a_bilinear_model_have_a_row_for_every_feature(run, tmp_path):
    """As its weights and groups have, also if few of many features occur."""
    rows = [f"{i % 2} 0:{97 * i}:1 1:{80_000 + 91 * i}:1" for i in range(40)]
    (tmp_path / "rows").write_text("\n".join(rows) + "\n")
    run.ok(
        "train",
        "-q",
        "-m",
        "bilinear",
        "-k",
        "2",
        "-e",
        "3",
        "--holdout",
        "0",
        "--no-quick-search",
        "-o",
        "m.fm",
        "rows",
    )
    run.ok("export", "m.fm", "m.npz")
    run.ok("export", "m.fm", "m.tsv")
    arrays = np.load(tmp_path / "m.npz")
    features = 80_000 + 91 * 39 + 1
    assert {name: arrays[name].shape for name in ("U", "V", "w", "group")} == {
        "U": (1, features, 2),
        "V": (1, features, 2),
        "w": (1, features),
        "group": (features,),
    }
    assert arrays["group"][[97, 80_091, 98]].tolist() == [0, 1, -1]
    head, rows = table(tmp_path / "m.tsv")
    assert head == ["feature", "group", "w", "U_0", "U_1", "V_0", "V_1"]
    for row in rows:
        j = int(row[0])
        expected = [arrays["group"][j], arrays["w"][0, j], *arrays["U"][0, j], *arrays["V"][0, j]]
        np.testing.assert_array_equal(np.array(row[1:], np.float32), np.array(expected, np.float32))
