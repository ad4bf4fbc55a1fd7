"""What the columns of a table are, by their cells: numbers, names, missing values, columns without a name."""

import json
import random
import re
import shlex

import pytest

import fmcli
from fmcli.data.tables.kinds import is_id
from fmcli.text import figure

QUICK = ("-e", "1", "--holdout", "0", "--no-quick-search", "--label", "y")


def kinds(run, tmp_path, header, rows, *options):
    """Return the kinds of the columns of a table, and the log of training from it."""
    text = "\n".join([header, *(",".join(map(str, row)) for row in rows)]) + "\n"
    (tmp_path / "t.csv").write_text(text)
    done = run.ok("train", *QUICK, *options, "-o", "m.fm", "t.csv")
    schema = run.ok("train", "--label", "y", *options, "--print-schema", "t.csv").stdout
    return {column["name"]: column["kind"] for column in json.loads(schema)["columns"]}, done.stderr


def test_whole_numbers_are_names_only_if_they_repeat_often(run, tmp_path):
    rng = random.Random(1)
    rows = [
        (i % 2, rng.choice([1, 2, 3]), rng.randrange(300), 5 * rng.randrange(200), rng.randrange(60), i // 3)
        for i in range(900)
    ]
    found, log = kinds(run, tmp_path, "y,grade,area,built,userId,movie_id", rows, "--categorical", "movie_id")
    wanted = {"grade": "category", "area": "number", "built": "number", "userId": "category"}
    assert {name: found[name] for name in wanted} == wanted
    assert "column grade     category  3 distinct whole numbers in 300 rows each, such as " in log
    different = len({row[2] for row in rows})
    assert f"column area      number    {different} distinct whole numbers in {900 / different:.1f} rows each, " in log
    few = [(i % 2, i % 9, i % 10) for i in range(9 * 40)]
    many = [(i % 2, i % 32, i % 33) for i in range(32 * 100)]
    for rows in (few, many):
        found, _ = kinds(run, tmp_path, "y,often,rarely", rows)
        assert (found["often"], found["rarely"]) == ("category", "number")


@pytest.mark.parametrize(
    ("name", "each"), [("number", 1), ("customer_id", 2), ("item", 4)], ids=["all different", "an id", "an entity"]
)
def test_ids_that_hardly_repeat_are_asked_about(run, tmp_path, name, each):
    rows = "".join(f"{i % 2},{i // each}\n" for i in range(300))
    (tmp_path / "t.csv").write_text(f"y,{name}\n{rows}")
    done = run.fails(65, "train", *QUICK, "t.csv")
    assert f"use --numeric {name} for numbers, or --categorical {name} for ids, or --ignore {name}" in done.stderr
    run.ok("train", *QUICK, "--categorical", name, "-o", "m.fm", "t.csv")


def test_names_of_columns_of_ids():
    for name in "id", "ID", "user_id", "movieId", "userid", "PULocationID", "zip code", "item", "Film", "uid":
        assert is_id(name), name
    for name in ("paid", "grid", "user_age", "num_users", "items", "sqft_lot", "bid", "", "account_length", "Void"):
        assert not is_id(name), name


def test_ids_that_begin_with_0_are_names_beside_numbers_with_decimal_commas(run, tmp_path):
    rows = [(i % 2, ("01067", "10115", "50667")[i % 3], f'"{i % 7},5"', '"1.234,5"') for i in range(300)]
    assert kinds(run, tmp_path, "y,zip,x,z", rows, "--decimal", ",")[0] == {
        **{"y": "label", "zip": "category"},
        **{"x": "number", "z": "number"},
    }


@pytest.mark.parametrize("share", [0.02, 0.7])
@pytest.mark.parametrize("words", [["NA"], ["N/A", "?"], ["NULL"], ["\\N"], ["nan"], ["-"], ["none"], ["Unknown"]])
def test_usual_words_for_missing_values_are_missing_among_numbers(run, tmp_path, words, share):
    rng = random.Random(3)
    rows = [
        (i % 2, rng.choice(words) if i < 2 or rng.random() < share else round(rng.uniform(5, 9), 3), rng.choice("ab"))
        for i in range(400)
    ]
    found, log = kinds(run, tmp_path, "y,x,c", rows)
    missing = sum(row[1] in words for row in rows)
    assert found["x"] == "number"
    seen = ", ".join(dict.fromkeys(row[1] for row in rows if row[1] in words))
    mean = sum(row[1] for row in rows if row[1] not in words) / (400 - missing)
    example = next(row[1] for row in rows if row[1] not in words)
    filled = f"filled with the mean {figure(mean)} and marked by the feature x="
    assert f"fractions, such as {example}, {missing} missing ({seen}): {filled}\n" in log
    (tmp_path / "new.csv").write_text(f"x,c\n{words[0]},a\n,a\n7.5,a\n")
    one, other, number = run.ok("predict", "m.fm", "new.csv").stdout.split()
    assert one == other != number


def test_such_words_are_names_in_columns_of_names(run, tmp_path):
    _, log = kinds(run, tmp_path, "y,c", [(i % 2, ("none", "-", "red")[i % 3]) for i in range(60)])
    assert "column c  category  3 distinct, such as none\n" in log


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        (["0", "1", "zero", "one"], "use --missing-values zero,one for cells that are missing, or --categorical x"),
        (["1", "2", "3", "other"], "t.csv:5: found 'other' in the column 'x', whose other cells are numbers"),
        (["1.5", "2.25", "NA", "lost"], "--missing-values NA,lost for cells that are missing"),
    ],
)
@pytest.mark.parametrize("times", [1, 40])
def test_other_words_among_numbers_are_asked_about(run, tmp_path, cells, message, times):
    """All of them at once, however many cells they are."""
    rows = [*cells[:2] * times, *cells[2:]] if times > 1 else cells
    text = "".join(f"{i % 2},{cell}\n" for i, cell in enumerate([*cells, *rows * 3]))
    (tmp_path / "t.csv").write_text("y,x\n" + text)
    assert message in run.fails(65, "train", *QUICK, "t.csv").stderr
    run.ok("train", *QUICK, "--categorical", "x", "-o", "m.fm", "t.csv")


@pytest.mark.parametrize("share", [0.04, 0.3])
@pytest.mark.parametrize("words", [["lost"], ["inf"], ["lost", "sold", "gone", "n/k"]])
def test_odd_words_among_fractions_are_asked_about(run, tmp_path, words, share):
    """However many there are, and although 23.796 may be a number with a decimal comma."""
    rng = random.Random(3)
    rows = [(i % 2, words[i % len(words)] if rng.random() < share else f"{rng.uniform(5, 99):.3f}") for i in range(400)]
    (tmp_path / "t.csv").write_text("y,x\n" + "".join(f"{y},{x}\n" for y, x in rows))
    error = run.fails(65, "train", *QUICK, "t.csv").stderr
    assert " in the column 'x', whose other cells are numbers; use --missing-values " in error
    run.ok("train", *QUICK, "--missing-values", ",".join(words), "-o", "m.fm", "t.csv")


def test_advice_with_commas_in_names_and_cells_can_be_followed(run, tmp_path):
    """On the command line, where lists have commas, and in Python, where a text is one name."""
    cells = ["1.5", "2.5", "3.5", "not known, ask", 'a "hole"']
    rows = "".join(f'{i % 2},"{cells[i % 5].replace(chr(34), 2 * chr(34))}"\n' for i in range(200))
    (tmp_path / "t.csv").write_text('y,"size, cm"\n' + rows)
    error = run.fails(65, "train", *QUICK, "t.csv").stderr
    advice = shlex.split(error[error.index("--missing-values") : error.index(" for cells")])
    assert advice == ["--missing-values", '"not known, ask","a ""hole"""']
    run.ok("train", *QUICK, *advice, "-o", "m.fm", "t.csv")
    names = shlex.split(error[error.index("--categorical") : error.index(" for names")])
    run.ok("train", *QUICK, *names, "-o", "m.fm", "t.csv")
    options = {"label": "y", "epochs": 1, "holdout": 0}
    with pytest.raises(ValueError, match=re.escape(f"use missing_values={cells[3:]} for cells that are missing")):
        fmcli.train(tmp_path / "t.csv", **options)
    fmcli.train(tmp_path / "t.csv", missing_values=cells[3:], **options)


def test_odd_words_among_whole_numbers_that_hardly_repeat_are_named(run, tmp_path):
    rows = "".join(f"{i % 2},{'lost' if i % 20 == 3 else 7 * i}\n" for i in range(400))
    (tmp_path / "t.csv").write_text("y,x\n" + rows)
    error = run.fails(65, "train", *QUICK, "t.csv").stderr
    assert "t.csv:5: cannot tell whether the column 'x' (" in error
    assert "found 'lost' in the column 'x'" in error
    assert "use --numeric x for numbers" in error
    assert " and --missing-values lost" in error
    run.ok("train", *QUICK, "--missing-values", "lost", "--numeric", "x", "-o", "m.fm", "t.csv")


@pytest.mark.parametrize("each", [3, 20])
def test_numbers_with_two_decimal_marks_are_asked_about(run, tmp_path, each):
    rows = "".join(f'{i % 2},"{i},{i % 9}"\n' if i % each == 1 else f"{i % 2},{i}.{i % 9}\n" for i in range(400))
    (tmp_path / "t.csv").write_text("y,x\n" + rows)
    error = run.fails(65, "train", *QUICK, "t.csv").stderr
    assert "the column 'x' has numbers such as '1,1', and others with another decimal mark; write all with a" in error


@pytest.mark.parametrize("gap", ["", "NA"])
@pytest.mark.parametrize("column", ["x", "y"])
def test_points_that_may_group_digits_are_asked_about(run, tmp_path, column, gap):
    """950 and 1.250 are 950 and 1250 where points group digits."""
    numbers = [f"{37 * i:,}".replace(",", ".") for i in range(300)]
    rows = [(cell, i % 2) if column == "x" else (i % 9, cell) for i, cell in enumerate(numbers)]
    gaps = [(gap, 1)] * 9 if column == "x" else []
    (tmp_path / "t.csv").write_text("x,y\n" + "".join(f"{x},{y}\n" for x, y in [*gaps, *rows]))
    error = run.fails(65, "train", *QUICK, "t.csv").stderr
    assert "has numbers such as '1.036'; use --decimal , if 1.067,5 is 1067.5, or --decimal . if 1,067.5" in error
    assert "--categorical" not in error
    numeric = ("-q", "--label", "y", "--numeric", "x")
    assert "1036" in run.ok("convert", *numeric, "--decimal", ",", "t.csv").stdout.decode()
    assert "1.036" in run.ok("convert", *numeric, "--decimal", ".", "t.csv").stdout.decode()


@pytest.mark.parametrize("more", ["", "1000", "2000000", "1.5", "-3.5"])
def test_points_before_three_digits_are_decimal_marks_beside_other_numbers(run, tmp_path, more):
    rows = [f"{5 + i}.{123 + i}" for i in range(100)] + ([more, "100"] if more else ["5"]) * 9
    found, _ = kinds(run, tmp_path, "x,y", [(x, i % 2) for i, x in enumerate(rows)])
    assert found["x"] == "number"


def test_numbers_with_zeros_before_them_are_names(run, tmp_path):
    rows = [(i % 3, code) for i in range(100) for code in ("0870", "870", "00870")]
    found, log = kinds(run, tmp_path, "y,code", rows)
    assert found["code"] == "category"
    assert "column code  category  3 distinct, such as 0870\n" in log
    rows = [(i % 2, "02134" if i == 7 else 90001 + i % 5) for i in range(400)]
    assert kinds(run, tmp_path, "y,zip", rows)[0]["zip"] == "category"


@pytest.mark.parametrize("place", ["first", "last", "both"])
def test_columns_without_a_name_are_ignored(run, tmp_path, place):
    before, after = ["i,", ""][place == "last"], [",", ""][place == "first"]
    rows = "".join(f"{before and f'{i},'}{i % 5}.5,{i % 2}{after}\n" for i in range(60))
    (tmp_path / "t.csv").write_text(f"{before[1:]}x,y{after}\n{rows}")
    log = run.ok("train", *QUICK, "-o", "m.fm", "t.csv").stderr
    assert "column    ignored   no name\n" in log
    (tmp_path / "new.csv").write_text("x\n0.5\n1.5\n")
    assert len(run.ok("predict", "m.fm", "new.csv").stdout.split()) == 2
    assert len(run.ok("predict", "m.fm", "t.csv").stdout.split()) == 60


def test_empty_lines_of_a_table_of_one_column_are_rows(run, tmp_path):
    (tmp_path / "t.csv").write_text("user,y\n" + "".join(f"u{i % 4},{i % 2}\n" for i in range(60)))
    run.ok("train", *QUICK, "-o", "m.fm", "t.csv")
    (tmp_path / "new.csv").write_text("user\r\nu1\r\n\r\nu2\r\n\r\n")
    found = run.ok("predict", "m.fm", "new.csv").stdout.split()
    assert len(found) == 4
    assert found[1] == found[3] not in (found[0], found[2])
    assert run.ok("predict", "m.fm", "-", input=b"user\nu1\n\nu2\n\n").stdout.split() == found
