"""fmcli convert, split and negatives: files, standard streams, digests in the log, and errors."""

import hashlib

import pytest

LINKS = "user,film\nann,1\nann,2\nbob,3\ncy,4\n"


def test_from_a_table_to_a_model(run, tmp_path):
    (tmp_path / "links.csv").write_text(LINKS)
    done = run("negatives", "--pair", "user,film", "links.csv", "-o", "rows.csv")
    digest = hashlib.sha256((tmp_path / "rows.csv").read_bytes()).hexdigest()
    assert (done.returncode, done.stderr) == (0, f"rows.csv: 8 rows, sha256 {digest}\n"), done.stderr
    done = run("convert", "--label", "label", "--categorical", "user,film", "--to", "ffm", "rows.csv")
    assert done.stdout.decode().splitlines()[:2] == ["1 0:user=ann:1 1:film=1:1", "1 0:user=ann:1 1:film=2:1"]
    done = run("split", "--shares", "3/1", "-", "train.ffm", "test.ffm", input=done.stdout)
    assert done.stderr.splitlines()[0].startswith("train.ffm: 6 rows, sha256 ")
    run.ok("train", "-q", "--loss", "logistic", "-o", "m.fm", "train.ffm")
    assert len(run("predict", "-q", "m.fm", "test.ffm").stdout.split()) == 2


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["split", "links.csv", "one"], 2, "split needs two or more outputs"),
        (["split", "links.csv", "one", "one"], 2, "the outputs one and one are the same file"),
        (["split", "links.csv", "one", "links.csv"], 2, "would overwrite the input"),
        (
            ["split", "--shares", "1/2/3", "links.csv", "one", "two"],
            2,
            "--shares has 3 numbers, but there are 2 outputs",
        ),
        (["split", "--shares", "1/0", "links.csv", "one", "two"], 2, "is not a list of positive numbers such as 8/2"),
        (["split", "missing", "one", "two"], 66, "cannot read missing"),
        (["split", "links.csv", "one", "no/two"], 74, "its folder does not exist"),
        (["convert", "links.csv"], 2, "no column is used"),
        (["convert", "--categorical", "user,", "links.csv"], 2, "has an empty name"),
        (["convert", "--numbers", "--categorical", "user", "-"], 2, "reads the table twice"),
        (["convert", "--categorical", "usr", "links.csv", "-o", "out"], 65, "did you mean user?"),
        (["convert", "--join", "user", "--categorical", "user", "links.csv"], 2, "is not COLUMN=TABLE"),
        (["negatives", "--pair", "user", "links.csv"], 2, "--pair needs the names of two columns"),
        (["negatives", "--pair", "user,film", "--among", "fil=x", "links.csv"], 2, "not one of --pair user,film"),
        (["negatives", "--pair", "user,film", "--per-pair", "9", "links.csv"], 65, "36 others are needed; draw fewer"),
    ],
)
def test_errors(run, tmp_path, arguments, status, message):
    (tmp_path / "links.csv").write_text(LINKS)
    done = run(*arguments)
    assert done.returncode == status, done.stderr
    assert message in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["links.csv"]


def test_a_table_that_is_split_without_its_header_gets_a_warning(run, tmp_path):
    (tmp_path / "t.csv").write_text("user,film\n1,2\n3,4\n")
    for options, warned in (([], True), (["--header"], False)):
        done = run.ok("split", *options, "t.csv", "a", "b")
        assert ("the first line, 'user,film', looks like the header of a table" in done.stderr) == warned
