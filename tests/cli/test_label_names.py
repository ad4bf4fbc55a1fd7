"""Labels that are strings: from the text to the model and back."""

import csv
import io
import json
import random
import shlex

import numpy as np
import pytest

import fmcli
from fmcli.data.text.chunks import Columns, score_chunks
from fmcli.data.text.reader import read
from fmcli.scoring.scorer import load_model

FEATURE = {"spam": 1, "ham": 2, "eggs": 3, "7": 4}
NUMBER = {"7": 0, "eggs": 1, "ham": 2, "spam": 3}  # in the order of the strings


def rows(names, seed):
    """The labels of some rows, and text with strings or with numbers in the same order. Each row has the feature of its
    label, or rarely another one."""
    rng = random.Random(seed)
    labels = [names[0], *rng.choices(names, k=300)]
    shown = [FEATURE[label if rng.random() < 0.9 else rng.choice(names)] for label in labels]
    tails = [f"{feature}:1 {rng.randrange(5, 12)}:{rng.random():.3f}" for feature in shown]
    strings = "".join(f"{label} {tail}\n" for label, tail in zip(labels, tails, strict=True))
    numbers = "".join(f"{NUMBER[label]} {tail}\n" for label, tail in zip(labels, tails, strict=True))
    return labels, strings, numbers


@pytest.mark.parametrize(
    ("names", "options"), [(["spam", "ham"], []), (["ham", "7", "spam", "eggs"], ["--loss", "softmax", "-m", "linear"])]
)
def test_strings_are_like_numbers_in_their_order(run, tmp_path, names, options):
    labels, strings, numbers = rows(names, 1)
    (tmp_path / "strings").write_text(strings)
    (tmp_path / "numbers").write_text(numbers)
    weights = {"ham": "2", "spam": "3"}
    for kind, name in (("strings", str), ("numbers", NUMBER.get)):
        by_class = [f"--class-weight={name(label)}={weight}" for label, weight in weights.items()]
        done = run.ok("train", *options, *by_class, "-e", "3", "-v", kind, "-o", f"{kind}.fm", kind)
        assert ("ham and spam (positive)" in done.stderr) == (kind == "strings" and not options)
    ours, theirs = (load_model(str(tmp_path / f"{kind}.fm")) for kind in ("strings", "numbers"))
    assert ours.meta["labels"] == sorted(names)
    for name, array in ours.model.parameters.items():
        assert array.tobytes() == theirs.model.parameters[name].tobytes()

    predicted = run("predict", "--output-type", "label", "strings.fm", "strings").stdout.decode().split()
    by_number = run("predict", "--output-type", "label", "numbers.fm", "numbers").stdout.decode().split()
    assert [NUMBER[label] for label in predicted] == list(map(int, by_number))
    right = sum(one == other for one, other in zip(predicted, labels, strict=True)) / len(labels)
    told = json.loads(run("evaluate", "--json", "strings.fm", "strings").stdout)
    assert told["metrics"]["accuracy"] == pytest.approx(right)
    assert right > 0.8
    assert [row["label"] for row in told["classes"]] == sorted(names)
    assert run("inspect", "strings.fm").stdout.decode().splitlines()[4].split() == ["labels", *sorted(names)]
    assert f"labels {' '.join(sorted(names))}" in run("export", "strings.fm", "-").stdout.decode().splitlines()

    (tmp_path / "predictions").write_bytes(run("predict", "strings.fm", "strings").stdout)
    again = json.loads(run("evaluate", "--json", "--predictions", "predictions", "strings").stdout)
    assert again["metrics"]["accuracy"] == told["metrics"]["accuracy"]
    assert again["metrics"]["logloss"] == pytest.approx(told["metrics"]["logloss"], rel=1e-5)


def test_the_model_is_the_same_for_any_order_of_rows_in_blocks_and_threads(run, tmp_path):
    _, strings, _ = rows(["spam", "ham"], 2)
    many = strings * 250  # several buffers, which begin with different labels
    (tmp_path / "rows").write_text(many)
    for threads in ("1", "3"):
        run.ok("train", "-q", "-e", "1", "-j", threads, "-o", f"m{threads}", "rows")
    assert (tmp_path / "m1").read_bytes() == (tmp_path / "m3").read_bytes()
    run.ok("train", "-q", "-e", "1", "-i", "m1", "-o", "m2", "rows")


@pytest.mark.parametrize(
    ("arguments", "text", "message"),
    [
        (["train", "-"], "a 1:1\na 2:1\n", "every label is a: a model cannot learn from a single value or class"),
        (["train", "-"], "a 1:1\nb 2:1\nc 1:1\n", "the labels are more than two names: a, b, c; use --loss softmax"),
        (["train", "--loss", "squared", "-"], "a 1:1\nb 2:1\n", "but the labels are a, b; use --loss logistic"),
        (["train", "-"], "1 1:1\nb 2:1\n", "<stdin>:2:1: found 'b', expected a label; label 'b' is not a number"),
        (["train", "-"], "nan 1:1\n", "label 'nan' is not a finite number"),
        (["train", "-"], "a,b\n1,2\n", "the line looks like CSV"),
        (["train", "-"], f"a 1:1\n{'b' * 201} 1:1\n", "printable text of at most 200 characters"),
        (["train", "--class-weight", "c=2", "-"], "a 1:1\nb 2:1\n", "no row has the label c, which has a weight, only"),
        (["train", "-i", "m", "-"], "ham 1:1\nc 2:1\n", "<stdin>: the model does not know the label c, only ham, spam"),
        (["evaluate", "m", "-"], "# x\nspam 1:1\nc 2:1\n", "<stdin>:3:1: found 'c', expected a label that the model"),
    ],
)
def test_labels_that_do_not_fit_are_refused(run, tmp_path, arguments, text, message):
    (tmp_path / "rows").write_text(rows(["spam", "ham"], 3)[1])
    run.ok("train", "-q", "-e", "1", "-o", "m", "rows")
    output = ["-o", "out"] if arguments[0] == "train" else []
    done = run.fails(65, *arguments, *output, input=text.encode())
    assert message in done.stderr


def test_the_label_of_a_skipped_line_is_no_class(run, tmp_path):
    (tmp_path / "rows").write_text("a 1:1\nb 2:1\nc 1:x\na 1:2\n")
    run.ok("train", "-m", "linear", "-e", "1", "--on-bad-line", "skip", "-o", "m.fm", "rows")
    assert load_model(str(tmp_path / "m.fm")).meta["labels"] == ["a", "b"]


def test_rows_with_names_of_labels_and_features(tmp_path):
    (tmp_path / "rows").write_text("ham 1:1\nspam site=x:1\nham user=a:2\n")
    table = read([str(tmp_path / "rows")], label_weights=False)
    assert table.dataset.label.tolist() == [0, 1, 0]
    assert table.labels == ("ham", "spam")


def test_a_number_in_place_of_a_name_is_no_label(tmp_path):
    path = tmp_path / "rows"
    path.write_text("spam 1:1\n7 1:1\n1:1\nham 1:1\n1 1:1\n")
    (chunk,) = score_chunks([str(path)], lambda piece: piece.data.label, Columns(9), labels=("ham", "spam"))
    assert np.array_equal(chunk.result, [1, np.nan, np.nan, 0, np.nan], equal_nan=True)
    assert chunk.labeled == 2
    path.write_text("7 1:1\n")
    assert [
        chunk.result for chunk in score_chunks([str(path)], lambda p: p.data.label, Columns(9), labels=("a", "b"))
    ] == [None]


@pytest.mark.parametrize("table", ["user,film\n1,2\n", "user|film\n1|2\n", "user\tfilm\n1\t2\n"])
def test_tables_in_place_of_further_rows_are_named(run, tmp_path, table):
    (tmp_path / "rows").write_text(rows(["spam", "ham"], 3)[1])
    (tmp_path / "table").write_text(table)
    run.ok("train", "-q", "-o", "m", "rows")
    for arguments in (["train", "-i", "m", "table"], ["train", "-v", "table", "rows"], ["evaluate", "m", "table"]):
        done = run.fails(65, *arguments)
        assert "table:1:1: found 'user" in done.stderr
        assert "fmcli train --label" in done.stderr


@pytest.fixture
def classifier(run, tmp_path):
    (tmp_path / "rows").write_text(rows(["spam", "ham", "7"], 4)[1])
    run.ok("train", "-q", "--loss", "softmax", "-m", "linear", "-e", "1", "-o", "m", "rows")


# A first word that is no number and no label, by what the message says about the line.
WORDS = {
    "user,film,rating\n1,2,3\n": "found 'user,film,rating', expected a label; the line looks like CSV",
    "1|24|M|technician\n": "the line looks like a table separated by |",
    "user\tfilm\n1\t2\n": "found 'user', expected a label; the line looks like a table separated by tabs",
    "hello\n": "found 'hello', expected a label; label 'hello' is neither a number nor one that the model knows",
    "maybe 1:1\n": "found 'maybe', expected a label; label 'maybe' is neither a number nor one that the model knows",
    "Spam 1:1\n": "label 'Spam' is neither a number nor one that the model knows",
    "ham 1:1\nspammy 1:1\n": "<stdin>:2:1: found 'spammy'",
}


@pytest.mark.parametrize(("text", "message"), WORDS.items())
@pytest.mark.parametrize("options", [[], ["--unseen", "error"], ["-j", "3"]])
def test_predict_refuses_first_words_that_are_no_labels(run, classifier, options, text, message):
    done = run.fails(65, "predict", *options, "m", "-", input=text.encode())
    assert message in done.stderr
    assert not done.stdout


def test_labels_numbers_and_nothing_may_precede_the_features_to_predict(run, classifier):
    said = b"spam 1:1\n7 1:1\n0 1:1\n-12.5e3 1:1\n1:1\n"
    done = run("predict", "m", "-", input=said)
    assert (done.returncode, len(set(done.stdout.splitlines())), done.stdout.count(b"\n")) == (0, 1, 5)
    weighted = run("predict", "--label-weights", "m", "-", input=b"spam:2 1:1\n7:3 1:1\n1 1:1\n")
    assert weighted.stdout.splitlines() == done.stdout.splitlines()[:3]
    refused = run("predict", "--label-weights", "m", "-", input=b"maybe:2 1:1\n")
    assert (refused.returncode, "expected label:weight; label 'maybe' is neither" in refused.stderr) == (65, True)


def test_predict_skips_lines_with_words_that_are_no_labels(run, classifier):
    done = run("predict", "--on-bad-line", "skip", "m", "-", input=b"maybe 1:1\nspam 1:1\n")
    first, second = done.stdout.split(b"\n")[:2]
    assert (done.returncode, first, b"nan" in second) == (0, b"nan nan nan", False), done.stderr
    assert "1 skipped line, " in done.stderr


def test_evaluate_names_a_table_and_unknown_labels(run, classifier):
    for text, message in {
        b"user,film\n1,2\n": "the line looks like CSV",
        b"maybe 1:1\n": "found 'maybe', expected a label that the model knows: 7, ham, spam",
        b"0 1:1\n": "found '0', expected a label that the model knows: 7, ham, spam",
    }.items():
        done = run.fails(65, "evaluate", "m", "-", input=text)
        assert message in done.stderr


def test_rows_without_any_feature_get_a_warning(run, classifier):
    for command, text, warned in (
        ("predict", b"1\n2\n", True),
        ("predict", b"1\n2 1:1\n", False),
        ("predict", b"1\n2 999:1\n", False),
        ("evaluate", b"spam\nham\n", True),
    ):
        done = run.ok(command, "m", "-f", "libsvm", "-", input=text)
        assert ("no row has a feature" in done.stderr) == warned


@pytest.mark.parametrize(
    ("column", "cell", "label"),
    [("film", "Up, 2009", "so so"), ("film, year", "Up", "so so"), ("film", "a|b", "no;yes")],
)
def test_rows_that_convert_writes_are_read_whatever_signs_their_names_have(run, tmp_path, column, cell, label):
    """Commas, semicolons and bars in names and labels do not make a table of these rows."""
    rows = "".join(f'"{label if i % 2 else "good"}","{cell}{i % 3}"\n' for i in range(1, 40))
    (tmp_path / "t.csv").write_text(f'y,"{column}"\n{rows}')
    run.ok("convert", "--label", "y", "-o", "rows.libsvm", "t.csv")
    run.ok("train", "-e", "1", "--holdout", "0", "-o", "rows.fm", "rows.libsvm")
    assert label.encode() in run.ok("inspect", "rows.fm").stdout


@pytest.mark.parametrize("word", ["NA", "nan", "null", "?"])
def test_a_missing_word_among_labels_that_are_numbers_is_told_with_what_leaves_it_out(run, tmp_path, word):
    rows = "".join(f"{word if i % 10 == 3 else i / 7},x{i % 3}\n" for i in range(60))
    (tmp_path / "t.csv").write_text("y,a\n" + rows)
    options = ("-e", "1", "--holdout", "0", "--label", "y", "-o", "m.fm", "t.csv")
    done = run.fails(65, "train", *options)
    assert f"--missing-values {shlex.quote(word)} if the label is missing, and --on-bad-line skip" in done.stderr
    done = run.ok("train", *options, "--missing-values", word, "--on-bad-line", "skip")
    assert "54 rows" in done.stderr


@pytest.mark.parametrize("word", ["NA", "?"])
def test_a_missing_word_among_names_of_classes_is_told(run, tmp_path, word):
    rows = "".join(f"{word if i % 10 == 3 else 'yes' if i % 2 else 'no'},x{i % 3}\n" for i in range(60))
    (tmp_path / "t.csv").write_text("y,a\n" + rows)
    options = ("-e", "1", "--holdout", "0", "--label", "y", "-o", "m.fm", "t.csv")
    leave_out = f"--on-bad-line skip to leave out such rows of a table, and --missing-values {shlex.quote(word)}"
    message = run.fails(65, "train", *options).stderr
    assert leave_out in message
    assert message.index(f"{word} usually stands for a missing label") < message.index("--loss softmax")
    with pytest.raises(ValueError, match="missing label: leave out such rows") as error:
        fmcli.train(tmp_path / "t.csv", label="y", epochs=1)
    assert "bad_line" not in str(error.value)
    done = run.ok("train", *options, "--loss", "softmax")
    assert f"warning: {word} usually stands for a missing label" in done.stderr
    assert leave_out in done.stderr
    done = run.ok("train", *options, "--missing-values", word, "--on-bad-line", "skip")
    assert "usually stands" not in done.stderr


def test_a_plus_and_a_minus_are_no_missing_labels(run, tmp_path):
    (tmp_path / "t.csv").write_text("y,a\n" + "".join(f"{'+-'[i % 2]},x{i % 3}\n" for i in range(60)))
    done = run.ok("train", "-e", "1", "--holdout", "0", "--label", "y", "-o", "m.fm", "t.csv")
    assert "usually stands" not in done.stderr


def test_labels_with_line_breaks_are_cells_of_tables_and_one_line_of_text(run, tmp_path):
    names = ["line\nbreak", "ta\tb", "50%0A"]
    with open(tmp_path / "t.csv", "w", newline="") as file:
        csv.writer(file).writerows([("y", "a"), *((names[i % 3], f"x{i % 3}") for i in range(60))])
    run.ok("train", "-e", "20", "--holdout", "0", "--loss", "softmax", "--label", "y", "-o", "m.fm", "t.csv")
    expected = fmcli.load(tmp_path / "m.fm").predict(tmp_path / "t.csv", output="label").tolist()
    assert set(expected) == set(names)
    for options in (["--passthrough"], ["--id-column", "a"]):
        done = run.ok("predict", "--output-type", "label", *options, "m.fm", "t.csv")
        rows = list(csv.DictReader(io.StringIO(done.stdout.decode(), newline="")))
        assert [row["prediction"] for row in rows] == expected
    done = run.ok("predict", "--passthrough", "m.fm", "t.csv")
    header = next(csv.reader(io.StringIO(done.stdout.decode(), newline="")))
    assert set(header[2:]) == {f"prediction_{name}" for name in names}
    lines = run.ok("predict", "--output-type", "label", "m.fm", "t.csv").stdout.decode().split("\n")
    assert len(lines) == 61
    assert lines[0] == "line%0Abreak"


@pytest.mark.parametrize("lines", [1, 2000])
def test_lines_in_quotes_at_the_beginning_of_a_table_are_no_rows(run, tmp_path, lines):
    """Neither the label names nor the skipped lines depend on the length of the first cell, whose lines look like
    rows."""
    note = "note\n" + "9,9,1\n" * lines
    cells = [[note, "1", "ham"], *([("other", "2", "spam"), ("other", "1", "ham")] * 20)]
    with open(tmp_path / "t.csv", "w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([("note", "x", "y"), *cells])
    options = ["--label", "y", "--ignore", "note", "--categorical", "x", "--on-bad-line", "skip"]
    done = run.ok("train", *options, "-o", "m.fm", "t.csv")
    assert f"{len(cells)} rows" in done.stderr
    assert "skipped" not in done.stderr
    assert load_model(str(tmp_path / "m.fm")).meta["labels"] == ["ham", "spam"]
