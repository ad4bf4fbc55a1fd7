"""--online."""

import json

import pytest

STREAM = ["train", "--online", "--log-json", "log"]


def test_a_pipe_and_files_give_the_same_model(run, sample, tmp_path):
    rows = (sample / "adult.train.libsvm").read_text().splitlines(keepends=True)
    for name, part in (("a", rows[:2000]), ("b", rows[2000:])):
        (tmp_path / name).write_text("".join(part))
    done = run.ok(*STREAM, "-s", "ftrl", "--keep-state", "--log-every", "1000", "-j", "1", "-o", "m", "a", "b")
    assert "epoch 1  rows 1,000  loss 0." in done.stderr
    summary = json.loads((tmp_path / "log").read_text().splitlines()[-1])
    assert (summary["rows"], summary["epochs"]) == (len(rows), 1)
    done = run.ok(*STREAM, "-s", "ftrl", "--keep-state", "-o", "n", "-", input="".join(rows).encode())
    assert (tmp_path / "m").read_bytes() == (tmp_path / "n").read_bytes()
    done = run.ok(*STREAM, "-i", "n", "--keep-state", "-o", "n", "-v", "a", "-", input="".join(rows).encode())
    again = json.loads((tmp_path / "log").read_text().splitlines()[-1])
    assert again["epochs"] == 2
    assert again["loss"] < summary["loss"]
    assert again["valid"]["logloss"] < again["valid_constant"]["logloss"]


def test_label_names(run, tmp_path):
    text = "".join(f"{'yes' if i % 3 else 'no'} {min(i % 3, 1)}:1 {3 + i % 7}:1\n" for i in range(600))
    done = run.ok(*STREAM, "--class-weight", "no=2", "-o", "m", "-", input=text.encode())
    assert run("predict", "--output-type", "label", "m", input=b"1:1\n0:1\n").stdout == b"yes\nno\n"
    done = run.fails(65, *STREAM, "-i", "m", "-o", "m", "-", input=(text + "maybe 1:1\n").encode())
    assert "maybe" in done.stderr


def test_validation_data_have_the_labels_of_the_stream_and_their_weights(run, tmp_path):
    """They are evaluated as by a run on the same rows in memory, in their order."""
    for name, first in (("t", 0), ("v", 3)):
        rows = (f"{'yes' if i % 3 else 'no'} {min(i % 4, 1)}:1 {3 + i % 7}:1\n" for i in range(first, first + 400))
        (tmp_path / name).write_text("".join(rows))
    common = (
        "train",
        "--class-weight",
        "no=9",
        "--no-shuffle",
        "-e",
        "1",
        "-v",
        "v",
        "--log-json",
        "log",
        "-o",
        "m",
        "t",
    )
    found = []
    for options in ([], ["--online"]):
        run.ok(*common, *options)
        found.append(json.loads((tmp_path / "log").read_text().splitlines()[-1])["valid"])
    assert found[0] == found[1]


@pytest.mark.parametrize(
    "options",
    [
        ["-e", "2"],
        ["-s", "lbfgs"],
        ["--disk", "--cache", "c"],
        ["--holdout", "0.1"],
        ["--dry-run"],
        ["--sample-weights", "t"],
        ["--class-weight", "balanced"],
    ],
)
def test_usage(run, tmp_path, options):
    (tmp_path / "t").write_text("1 1:1\n0 2:1\n")
    done = run.fails(2, "train", "--online", *options, "t")
    assert "leave out" in done.stderr or "leave one of them out" in done.stderr or "use --epochs 1" in done.stderr
