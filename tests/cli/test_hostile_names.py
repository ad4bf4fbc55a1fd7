"""Names, labels and cells of hostile tables and models: no command writes a control character to standard error, nor a
line of its log that the data made up."""

import csv

import pytest

import fmcli
from fmcli.errors import MissingInputError

FORGED = "FORGED LINE"
# A color, a line of a log, marks of direction, a control character of one byte in ISO 8859, the bell, a break of lines
# of Unicode, and a name that is longer than all else.
HOSTILE = (
    "\x1b[31mred\x1b[0m",
    f"a\n{FORGED}",
    f"b\r{FORGED}",
    "\u202etxt.exe\u202c",
    "\x9b2J\x07",
    f"c\u2028{FORGED}",
    "n" * 2_000,
)
ROWS = 30


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Tables whose columns have hostile names and cells, and other columns that commands need."""
    path = tmp_path_factory.mktemp("hostile")
    names = ["label", "user", "item", *HOSTILE]
    rows = [[i % 2, f"u{i % 6}", f"i{i % 5}", *(HOSTILE[(i + j) % 7] for j in range(7))] for i in range(ROWS)]
    texts = {
        "good.csv": [names, *rows],
        "labels.csv": [names, *([HOSTILE[i % 7], *row[1:]] for i, row in enumerate(rows))],
        "broken.csv": [names, *rows, rows[0][:-1]],
        "others.csv": [[*names[:-1], f"{HOSTILE[0]}{HOSTILE[1]}"], *rows],
        "new.csv": [names, *([0, *map("\x1b[5m{}".format, row[1:])] for row in rows)],
        "numbers.csv": [["label", *HOSTILE], *([i % 2, *(i + j / 2 for j in range(7))] for i in range(ROWS))],
        "twice.csv": [["label", HOSTILE[1], HOSTILE[1]], [1, 2, 3]],
        "items.csv": [names[2:], *([row[2], *row[3:]] for row in rows[:5])],
    }
    for name, lines in texts.items():
        with open(path / name, "w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows(lines)
    (path / "t.libsvm").write_bytes(b"1 \x1b[31m:1 2:1\n0 \xe2\x80\xae:1\n1 a\x07:x\n")
    return path


TRAIN = ("train", "--verbose", "-e", "2", "--label", "label")
COMMANDS = [
    (*TRAIN, "good.csv", "-o", "m.fm", "--force"),
    (*TRAIN, "--dry-run", "good.csv"),
    (*TRAIN, "numbers.csv"),
    (*TRAIN, "labels.csv", "--loss", "softmax"),
    (*TRAIN, "broken.csv"),
    (*TRAIN, "broken.csv", "--max-bad-lines", "3", "-o", "b.fm"),
    (*TRAIN, "twice.csv"),
    ("train", "good.csv"),
    ("train", "--label", "nosuch", "good.csv"),
    ("train", "--label", HOSTILE[1], "good.csv"),
    (*TRAIN, "--ignore", "nosuch", "good.csv"),
    (*TRAIN, "-i", "m.fm", "others.csv"),
    (*TRAIN, "-v", "others.csv", "good.csv"),
    (*TRAIN, "--join", "user=items.csv", "good.csv"),
    (*TRAIN, "--numeric", HOSTILE[0], "good.csv"),
    ("train", "t.libsvm"),
    ("predict", "--verbose", "m.fm", "new.csv"),
    ("predict", "m.fm", "others.csv"),
    ("predict", "m.fm", "broken.csv"),
    ("predict", "--explain", "2", "-o", "parts.tsv", "m.fm", "new.csv"),
    ("evaluate", "--verbose", "m.fm", "new.csv"),
    ("evaluate", "m.fm", "labels.csv"),
    ("evaluate", "--group-field", "nosuch", "m.fm", "good.csv"),
    ("convert", "--label", "label", "good.csv"),
    ("convert", "--label", "nosuch", "good.csv"),
    ("convert", "--label", "label", "broken.csv"),
    ("cv", "-e", "1", "--folds", "2", "--label", "label", "good.csv"),
    ("cv", "--folds", "2", "--label", "nosuch", "good.csv"),
    ("tune", "--trials", "1", "--holdout", "0.5", "--label", "label", "good.csv"),
    ("tune", "--label", "nosuch", "good.csv"),
    ("recommend", "m.fm", "--given", "good.csv", "--over", "items.csv"),
    ("recommend", "m.fm", "--given", "good.csv", "--over", "t.libsvm"),
    ("recommend", "m.fm", "--given", "good.csv", "--over", "items.csv", "--show", "nosuch"),
    ("inspect", "m.fm"),
    ("inspect", "m.fm", "--similar", "user=u1"),
    ("inspect", "m.fm", "--importance", "others.csv"),
    ("split", "--by-time", "nosuch", "good.csv", "a.csv", "b.csv"),
    ("negatives", "--pair", "nosuch,item", "good.csv"),
    ("report", "m.fm", "good.csv"),
    ("report", "--log", "good.csv"),
]


def test_no_command_writes_control_characters_or_forged_lines(run, folder, tmp_path):
    for name in folder.iterdir():
        (tmp_path / name.name).symlink_to(name)
    statuses = {}
    for words in COMMANDS:
        done = run(*words)
        statuses[words] = done.returncode
        assert done.returncode != 70, words
        for line in done.stderr.split("\n"):
            assert line.isprintable(), (words, line)
            assert not line.startswith(FORGED), (words, line)
    assert not [words for words, status in statuses.items() if status not in (0, 65)]
    assert statuses[COMMANDS[0]] == 0


def test_a_line_that_is_too_long_keeps_its_beginning_and_its_advice(run, tmp_path):
    name = "n" * 200_000
    (tmp_path / "t.csv").write_text(f"{name},a\n1,2\n")
    done = run.fails(65, "train", "--label", "nosuch", "t.csv")
    line = done.stderr.splitlines()[-1]
    assert line.startswith("fmcli: error: t.csv: ")
    assert "more characters" in line
    assert len(line) < 12_000


def test_a_path_that_begins_as_the_programs_name_of_a_query_is_a_file(run, tmp_path):
    (tmp_path / "secret.csv").write_text("label,a\n1,x\n0,y\n")
    trap = "sql:SELECT * FROM 'secret.csv'"
    commands = [
        ("train", "--label", "label", trap),
        ("train", "--label", "label", "secret.csv", "-v", trap),
        ("train", "--label", "label", "secret.csv", "--join", f"a={trap}"),
        ("cv", "--label", "label", trap),
        ("convert", "--label", "label", trap),
        ("split", trap, "one", "two"),
        ("negatives", "--pair", "a,label", trap),
    ]
    for words in commands:
        done = run.fails(66, *words)
        assert f"cannot read ./{trap}" in done.stderr, words
    # A file of such a name is read, which the check whether it exists does not find.
    (tmp_path / "sql:SELECT 1 AS a, 1 AS label").write_text("label,a\n1,x\n0,y\n")
    done = run("convert", "--label", "label", "sql:SELECT 1 AS a, 1 AS label")
    assert (done.returncode, done.stdout) == (0, b"1 a=x:1\n0 a=y:1\n"), done.stderr


def test_python_takes_a_path_for_a_file(tmp_path):
    (tmp_path / "secret.csv").write_text("label,a\n1,x\n0,y\n")
    with pytest.raises(MissingInputError, match=r"cannot read \./sql:SELECT"):
        fmcli.train(f"sql:SELECT * FROM '{tmp_path}/secret.csv'", label="label")
