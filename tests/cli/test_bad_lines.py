"""--on-bad-line and --max-bad-lines, and the warning about indices that are counted from another number."""

import json

import pytest

TEXT = b"1 1:1 2:1\n0 1:x\n1 3:1\n# c\n0 2:1 2 4:1\n\n1 1:2\n0 3:1\n"
CLEAN = b"1 1:1 2:1\n1 3:1\n1 1:2\n0 3:1\n"


@pytest.fixture
def files(tmp_path):
    (tmp_path / "bad").write_bytes(TEXT)
    (tmp_path / "clean").write_bytes(CLEAN)
    return tmp_path


def test_skipped_lines(run, files):
    done = run.ok("train", "-e", "1", "--on-bad-line", "skip", "-v", "bad", "--log-json", "log", "-o", "m", "bad")
    first = (
        "hint: --valid bad is also a file to train on: its metrics are not of new rows",
        "fmcli: warning: bad:2:3: found '1:x', expected index:value; value 'x' is not a number; the line is skipped",
        "fmcli: warning: bad:5:7: found '2', expected index:value; the colon is missing; the line is skipped",
    )
    assert tuple(done.stderr.splitlines()[:3]) == first
    assert done.stderr.count("\nskipped lines with errors: 2\n") == 2
    assert json.loads((files / "log").read_text().splitlines()[-1])["bad_lines"] == 4
    run("train", "-q", "-e", "1", "-v", "clean", "-o", "n", "clean")
    assert (files / "m").read_bytes() == (files / "n").read_bytes()

    done = run("predict", "--on-bad-line", "skip", "m", "bad")
    assert "1 comment, 2 skipped lines, " in done.stderr
    lines = done.stdout.splitlines()
    kept = run("predict", "m", "clean").stdout.splitlines()
    assert [lines[row] for row in (0, 2, 5, 6)] == kept
    assert [lines[row] for row in (1, 3)] == [b"nan"] * 2  # and row 4 is the blank line
    assert run("predict", "--sign", "--max-bad-lines", "2", "m", "bad").stdout.splitlines()[1] == b"nan"

    found = json.loads(run("evaluate", "--json", "--max-bad-lines", "2", "m", "bad").stdout)
    same = json.loads(run("evaluate", "--json", "m", "clean").stdout)
    assert found == {**same, "bad_lines": 2}


GLUED = "1:0.5,2:0.3"


@pytest.mark.parametrize(
    "arguments",
    [
        ["train"],
        *(["train", *option.split()] for option in ("--online", "--disk --cache c", "--hash-bits 9", "--min-count 1")),
        ["train", "-j", "2"],
        ["train", "clean", "-v"],
        ["train", "-i", "m"],
        ["evaluate", "m"],
        ["predict", "m"],
        ["predict", "--unbuffered", "m"],
        ["evaluate", "hashed"],
        ["predict", "hashed"],
        ["cv"],
    ],
)
def test_entries_without_a_blank_between_them_are_no_name(run, files, arguments):
    (files / "glued").write_text(f"1 1:1 2:1\n0 2:1\n1 3:1 {GLUED} 7:1\n")
    run.ok("train", "-q", "-e", "1", "-o", "m", "clean")
    run.ok("train", "-q", "-e", "1", "--hash-bits", "9", "-o", "hashed", "clean")
    done = run.fails(65, *arguments, "glued")
    assert f"glued:3:7: found '{GLUED}', expected index:value; only blanks separate entries" in done.stderr


@pytest.mark.parametrize("command", ["predict", "evaluate"])
def test_a_separator_behind_the_label_is_no_name(run, files, command):
    (files / "glued").write_text("1 1:1 2:1\n0,1:1 2:1\n")
    run.ok("train", "-q", "-e", "1", "-o", "m", "clean")
    assert "glued:2:1: found '0,1:1'" in run.fails(65, command, "m", "glued").stderr


@pytest.mark.parametrize(("first", "shape"), [(GLUED, "index:value"), ("0:1:1,1:2:1", "field:index:value")])
def test_the_format_is_that_of_entries_without_a_blank(run, first, shape):
    for text in (f"1 {first}\n", f"1 {first},9:4\n"):
        done = run.fails(65, "train", "-o", "m", "-", input=text.encode())
        assert done.stderr.endswith(f"expected {shape}; only blanks separate entries\n")


def test_too_many_bad_lines(run, files):
    run("train", "-q", "-e", "1", "-o", "m", "clean")
    for command in (["train", "-o", "n"], ["predict", "m"], ["evaluate", "m"]):
        done = run.fails(65, *command, "--max-bad-lines", "1", "bad")
        assert done.stderr.splitlines()[-1] == (
            "fmcli: error: bad:5:7: found '2', expected index:value; the colon is missing; "
            "the number of lines with errors exceeds 1; see --max-bad-lines"
        )


@pytest.mark.parametrize(
    "arguments",
    [["predict", "--on-bad-line", "error", "--max-bad-lines", "3", "m"], ["evaluate", "--predictions", "-"]],
)
def test_contradictions(run, files, arguments):
    run("train", "-q", "-e", "1", "-o", "m", "clean")
    run.fails(2, *arguments, "--max-bad-lines", "3", "clean")


@pytest.mark.parametrize(
    ("train", "rows", "warned"),
    [
        ("1:1 9:1", "0:1 5:1", True),
        ("1:1 9:1", "0:1 8:1", True),
        ("1:1 9:1", "0:1 9:1", False),
        ("1:1 9:1", "1:1 9:1", False),
        ("1:1 9:1", "1:1 10:1", False),
        ("2:1 9:1", "0:1 8:1", False),
        ("0:1 9:1", "1:1 10:1", True),
        ("0:1 9:1", "1:1 11:1", False),
        ("0:1 9:1", "1:1 9:1", False),
        ("0:1 9:1", "0:1 10:1", False),
    ],
)
@pytest.mark.parametrize("model", ["fm", "ffm"])
def test_indices_counted_from_another_number(run, tmp_path, model, train, rows, warned):
    def text(entries):
        return f"0 {entries}\n1 3:1\n".replace(" ", " 0:") if model == "ffm" else f"0 {entries}\n1 3:1\n"

    (tmp_path / "t").write_text(text(train))
    (tmp_path / "p").write_text(text(rows))
    run("train", "-q", "-m", model, "-e", "1", "-o", "m", "t")
    for command in ("predict", "evaluate"):
        assert ("are they counted from" in run(command, "m", "p").stderr) == warned
