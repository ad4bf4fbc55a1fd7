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
        (["split", "--shares", "1/2/3", "links.csv", "one", "two"], 2, "--shares has 3 numbers, but there are 2"),
        (["split", "--shares", "1/0", "links.csv", "one", "two"], 2, "is not a list of positive numbers such as 8/2"),
        (["split", "--by-order", "-", "one", "two"], 2, "split reads the rows twice, which standard input cannot be"),
        (["split", "--by-order", "/dev/null", "one", "two"], 2, "which /dev/null cannot be; give a file"),
        (["split", "--by-order", "--by-time", "x", "links.csv", "one", "two"], 2, "--by-order and --by-time cannot be"),
        (["split", "--last", "1", "links.csv", "one", "two"], 2, "--last needs --of"),
        (["split", "--last", "1", "--of", "user", "links.csv", "1", "2", "3"], 2, "takes 2 outputs"),
        (
            ["split", "--last", "1", "--of", "user", "--shares", "1/1", "links.csv", "1", "2"],
            2,
            "--last and --shares cannot",
        ),
        (["split", "--header", "--columns", "a,b", "--by-order", "links.csv", "1", "2"], 2, "cannot be combined"),
        (["split", "--by-group", "usr", "links.csv", "1", "2"], 65, "there is no column 'usr'; did you mean user?"),
        (["split", "--by-time", "x", "rows", "1", "2"], 2, "not by 'x'; use --by-order if they are in the order of"),
        (["split", "--by-group", "x", "headless", "1", "2"], 65, "has no header; use --columns NAMES to name them"),
        (["split", "--by-time", "film", "links.csv", *"123456"], 65, "too few different times for 6 outputs"),
        (["split", "missing", "one", "two"], 66, "cannot read missing"),
        (["split", "links.csv", "one", "no/two"], 74, "its folder does not exist"),
        (["convert", "links.csv"], 65, "use --numeric film for numbers, or --categorical film for ids"),
        (["convert", "--categorical", "user,", "links.csv"], 2, "has an empty name"),
        (["convert", "--numbers", "--categorical", "user", "-"], 2, "reads the rows twice, which standard input"),
        (["convert", "--categorical", "usr", "links.csv", "-o", "out"], 65, "did you mean user?"),
        (["convert", "--join", "user", "--categorical", "user", "links.csv"], 2, "is not COLUMN=TABLE"),
        (["negatives", "--pair", "user", "links.csv"], 2, "--pair needs the names of two columns"),
        (["negatives", "--pair", "user,film", "--among", "fil=x", "links.csv"], 2, "not one of --pair user,film"),
        (["negatives", "--pair", "user,film", "--per-pair", "9", "links.csv"], 65, "36 others are needed; draw fewer"),
    ],
)
def test_errors(run, tmp_path, arguments, status, message):
    texts = {"links.csv": LINKS, "rows": "1 1:1\n0 2:1\n", "headless": "7,5\n1,2\n"}
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    done = run(*arguments)
    assert done.returncode == status, done.stderr
    assert message in done.stderr
    assert {path.name for path in tmp_path.iterdir()} == texts.keys()


def test_a_table_that_is_split_without_its_header_gets_a_warning(run, tmp_path):
    (tmp_path / "t.csv").write_text("user,film\n1,2\n3,4\n")
    for options, warned in (([], True), (["--header"], False)):
        done = run.ok("split", *options, "t.csv", "a", "b")
        assert ("the first line, 'user,film', looks like the header of a table" in done.stderr) == warned


def test_rules_split_a_table_by_its_columns(run, tmp_path):
    (tmp_path / "t.csv").write_text("user,at\nann,5\nbob,1\nann,3\nbob,3\ncy,9\n")
    rules = {
        ("--by-time", "at", "--shares", "1/1"): ("bob,1 ann,3 bob,3", "ann,5 cy,9"),
        ("--by-order",): ("user,at ann,5 bob,1", "ann,3 bob,3 cy,9"),
        ("--by-order", "--header", "--shares", "4/1"): ("ann,5 bob,1 ann,3 bob,3", "cy,9"),
        ("--last", "1", "--of", "user"): ("ann,5 bob,1 cy,9", "ann,3 bob,3"),
        ("--last", "1", "--of", "user", "--by-time", "at"): ("bob,1 ann,3 cy,9", "ann,5 bob,3"),
    }
    for rule, expected in rules.items():
        done = run.ok("split", *rule, "t.csv", "a", "b")
        parts = [(tmp_path / name).read_text().split() for name in "ab"]
        headless = rule == ("--by-order",)
        assert [" ".join(part[not headless :]) for part in parts] == list(expected)
        assert all(part[0] == "user,at" for part in parts) is not headless
        assert ("looks like the header of a table" in done.stderr) == headless
        assert ("1 group without rows before the last 1: kept in a" in done.stderr) == ("--of" in rule)
    run.ok("split", "--by-group", "user", "t.csv", "a", "b")
    users = [{row.split(",")[0] for row in (tmp_path / name).read_text().splitlines()[1:]} for name in "ab"]
    assert users[0] | users[1] == {"ann", "bob", "cy"}
    assert not users[0] & users[1]
