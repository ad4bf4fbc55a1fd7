"""Tables: what their columns are, training from them, prediction for them, and errors with their places."""

import csv
import gzip
import io
import json
import random
import re
import time
from itertools import pairwise
from math import ceil

import numpy as np
import pytest

import fmcli
from fmcli.data.tables import reading
from fmcli.data.tables.scanner import ROLES, Joined, Scanner
from fmcli.data.tables.schema import ColumnForm, Schema
from fmcli.data.text.lines import Entries, Lines
from fmcli.data.text.parser import PADDING, Rows
from fmcli.errors import BadInputError

ROWS = 300


def table(rows=ROWS, seed=0, delimiter=","):
    """Return the text of a table: ids, a category with blanks, a number, an indicator, gaps, and a label."""
    rng = random.Random(seed)
    lines = [["user", "film", "job", "age", "new", "stars", "time"]]
    for row in range(rows):
        job = rng.choice(["civil servant", "artist", "", '"free", lance'])
        age = rng.choice(["", f"{rng.uniform(18, 70):.1f}"])
        lines.append([rng.randrange(20), rng.randrange(30), job, age, rng.randrange(2), rng.randrange(1, 6), row + 10])
    out = io.StringIO()
    csv.writer(out, delimiter=delimiter, lineterminator="\r\n").writerows(lines)
    return out.getvalue().encode()


FEW_EPOCHS = {"epochs": 3, "holdout": 0, "quick_search": False}
QUICK = ("-e", "3", "--holdout", "0", "--no-quick-search")
NAMED = ("--label", "stars", "--categorical", "user,film,job", "--numeric", "age,new", "--ignore", "time")


@pytest.fixture
def ratings(tmp_path):
    (tmp_path / "r.csv").write_bytes(table())
    return "r.csv"


@pytest.mark.parametrize("model", ["fm", "ffm"])
def test_a_table_and_what_convert_writes_of_it_train_the_same_model(run, tmp_path, ratings, model):
    form = "ffm" if model == "ffm" else "libsvm"
    scale = ("--scale", "standard" if model == "ffm" else "zscore")  # the default of a table with numbers
    run.ok("convert", *NAMED, "--to", form, "-o", "r.txt", ratings)
    run.ok("train", "-m", model, *QUICK, *scale, "-o", "text.fm", "r.txt")
    run.ok("train", "-m", model, *QUICK, *NAMED, "-o", "table.fm", ratings)
    of_text, of_table = (run.ok("predict", f"{name}.fm", "r.txt").stdout for name in ("text", "table"))
    assert of_text == of_table == run.ok("predict", "table.fm", ratings).stdout
    assert len(set(of_text.split())) > 50


def test_columns_of_numbers_are_scaled_unless_options_say_otherwise(run, tmp_path, ratings):
    done = run.ok("train", *QUICK, *NAMED, "-o", "m.fm", ratings)
    assert "scaled the columns of numbers: --scale zscore (--scale none does not)" in done.stderr
    fmcli.train(tmp_path / ratings, label="stars", ignore=["time"], **FEW_EPOCHS).save(tmp_path / "p.fm")
    assert (tmp_path / "m.fm").read_bytes() == (tmp_path / "p.fm").read_bytes()
    run.ok("train", *QUICK, *NAMED, "--scale", "zscore", "-o", "z.fm", ratings)
    run.ok("train", *QUICK, *NAMED, "--scale", "none", "-o", "n.fm", ratings)
    default, same, raw = (run.ok("predict", name, ratings).stdout for name in ("m.fm", "z.fm", "n.fm"))
    assert default == same != raw
    resumed = run.ok("train", "-e", "1", "-i", "n.fm", "-o", "i.fm", ratings).stderr  # as in its first run
    assert "scaled the" not in resumed
    named = ("--label", "stars", "--categorical", "user", "--ignore", "film,job,age,new,time")
    done = run.ok("train", *QUICK, *named, ratings)
    assert "scaled the" not in done.stderr


def test_columns_of_numbers_are_scaled_for_the_solver_of_dense_rows(tmp_path, rng):
    rows = rng.normal([0, 1e6], [1, 1e4], size=(300, 2))
    text = "".join(f"{a},{b},{a + (b - 1e6) / 1e4}\n" for a, b in rows.tolist())
    (tmp_path / "t.csv").write_text("a,b,y\n" + text)
    models = [
        fmcli.train(tmp_path / "t.csv", label="y", numeric=["a", "b"], **more) for more in ({}, {"scale": "zscore"})
    ]
    predictions = [model.predict(tmp_path / "t.csv") for model in models]
    assert models[0].solver == models[1].solver
    np.testing.assert_array_equal(*predictions)


def test_threads_buffers_and_compression_do_not_matter(tmp_path, monkeypatch):
    (tmp_path / "big.csv").write_bytes(table(1000))
    (tmp_path / "big.csv.gz").write_bytes(gzip.compress(table(1000)))
    models = []
    for threads, size, name in ((1, 1 << 21, "big.csv"), (2, 5000, "big.csv"), (3, 1000, "big.csv.gz")):
        monkeypatch.setattr(reading, "BUFFER_BYTES", size)
        model = fmcli.train(tmp_path / name, label="stars", ignore=["time"], epochs=1, threads=threads)
        model.save(tmp_path / "m.fm")
        models.append((tmp_path / "m.fm").read_bytes())
    assert models[0] == models[1] == models[2]


@pytest.mark.parametrize(
    "mode",
    [
        ("--disk", "--cache", "c"),
        ("--online", "-e", "1"),
        ("-v", "r.csv"),
        ("-s", "mcmc", "--test", "r.csv"),
        ("-i", "m.fm"),
    ],
)
def test_modes_read_tables(run, tmp_path, ratings, mode):
    run.ok("train", *QUICK[:2], *QUICK[4:], *NAMED, "-o", "m.fm", ratings)
    options = () if "-i" in mode else NAMED
    if "--online" in mode:  # the same, by a schema; without gaps among numbers, whose means only a schema knows
        options = (*NAMED[:4], "--numeric", "new", "--ignore", "age,time")
        (tmp_path / "schema.json").write_bytes(run.ok("train", *options, "--print-schema", ratings).stdout)
        run.ok("train", "--schema", "schema.json", *mode, "--no-quick-search", "-o", "s.fm", ratings)
        done = run.fails(2, "train", *NAMED[:4], *mode, "-o", "n.fm", ratings)
        assert "r.csv is read only once, so the kinds of all columns must be known before; no" in done.stderr
    epochs = () if "-e" in mode else ("-e", "3")
    run.ok("train", *epochs, "--no-quick-search", *options, *mode, "-o", "n.fm", ratings)
    if "--online" in mode:
        assert run.ok("predict", "n.fm", ratings).stdout == run.ok("predict", "s.fm", ratings).stdout
    assert len(run.ok("predict", "n.fm", ratings).stdout.split()) == ROWS


def test_columns_are_found_by_name_in_any_order(run, tmp_path, ratings):
    run.ok("train", *QUICK, *NAMED, "-o", "m.fm", ratings)
    expected = run.ok("predict", "m.fm", ratings).stdout
    rows = list(csv.DictReader(io.StringIO(table().decode())))
    order = ["new", "extra", "job", "film", "user", "age"]  # neither label nor time
    with open(tmp_path / "other.tsv", "w", newline="") as file:
        quotes = {"quoting": csv.QUOTE_NONE, "quotechar": None}
        writer = csv.DictWriter(file, order, delimiter="\t", extrasaction="ignore", **quotes)
        writer.writeheader()
        writer.writerows({**row, "extra": "x"} for row in rows)
    done = run.ok("predict", "m.fm", "other.tsv")
    assert done.stdout == expected
    assert "ignored columns, which the model does not know: extra" in done.stderr
    text = (tmp_path / "other.tsv").read_bytes()
    assert run.ok("predict", "m.fm", "-", input=text).stdout == expected
    unnamed = run.ok("predict", "m.fm", "-", input=text.replace(b"\textra\t", b"\t\t", 1))
    assert "ignored columns, which the model does not know: one without a name\n" in unnamed.stderr
    assert b"rmse" in run.ok("evaluate", "m.fm", ratings).stdout
    (tmp_path / "less.csv").write_text("user,film,job,new\n1,2,artist,1\n")
    assert "less.csv: there is no column 'age'" in run.fails(65, "predict", "m.fm", "less.csv").stderr


def test_cells_of_two_columns_may_be_one_feature(run, tmp_path):
    """a=b=1 is a cell of each column; such values add up."""
    names = [("b=1", "1"), ("b=1", "2"), ("c", "1"), ("b=2", "2")] * 5
    (tmp_path / "t.csv").write_text("a,a=b,y\n" + "".join(f"{a},{b},{i % 3}\n" for i, (a, b) in enumerate(names)))
    expected = "".join(f"{i % 3} a={a}:1 a=b={b}:1\n" for i, (a, b) in enumerate(names))
    (tmp_path / "t.txt").write_text(expected)
    run.ok("train", *QUICK, "--label", "y", "--categorical", "a,a=b", "-o", "table.fm", "t.csv")
    run.ok("train", *QUICK, "-o", "text.fm", "t.txt")
    assert run.ok("predict", "table.fm", "t.csv").stdout == run.ok("predict", "text.fm", "t.txt").stdout


def test_a_model_of_named_text_predicts_tables(run, tmp_path):
    (tmp_path / "t.libsvm").write_text("1 u=7:1 job=civil%20servant:1 age:3\n2 u=8:1 ok=true:1 age:4\n" * 5)
    run("train", *QUICK, "-o", "m.fm", "t.libsvm")
    rows = b"u=7:1 job=civil%20servant:1 ok=true:1 age:5\nu=8:1 age:2\n"
    (tmp_path / "t.csv").write_text("x,ok,age,u,job\n1,TRUE,5,7.0,civil servant\n2,,2,8,\n")
    done = run("predict", "m.fm", "t.csv")
    assert done.stdout == run("predict", "m.fm", "-", input=rows).stdout
    assert "the model does not know: x" in done.stderr
    assert "which column is the label" in run("evaluate", "m.fm", "t.csv").stderr
    (tmp_path / "t.libsvm").write_text("1 1:1\n2 2:1\n")
    run("train", *QUICK, "-o", "m.fm", "t.libsvm")
    assert "whose features have no names; use -f libsvm" in run("predict", "m.fm", "t.csv").stderr


def test_numbers_are_cut_into_bins_and_missing_cells_are_features(run, tmp_path):
    """The rows equal the rows of a text whose bins numpy has found; numbers at an edge are in the bin before it."""
    random = np.random.default_rng(6)
    numbers = [random.normal(size=300).round(2), random.integers(0, 3, 300) + 0.5]
    words = random.choice(["x", "y", ""], 300)
    gone = random.random(300) < 0.1
    cells = [["" if lost else str(a) for a, lost in zip(numbers[0], gone, strict=True)], map(str, numbers[1]), words]
    rows = list(zip(*cells, strict=True))
    label = (numbers[0] ** 2).round(3)
    table = [f"{y},{','.join(row)}" for y, row in zip(label, rows, strict=True)]
    (tmp_path / "t.csv").write_text("\n".join(["y,a,b,c", *table]) + "\n")
    present = numbers[0][~gone]
    edges = {"a": sorted({sorted(present)[ceil(len(present) * i / 8) - 1] for i in range(1, 8)}), "b": [0.5, 1.5]}

    def named(name, cell):
        if not cell or name == "c":
            return f"{name}={cell}"
        at = sum(edge < float(cell) for edge in edges[name])
        low, high = (["", *map(repr, map(float, edges[name])), ""][i].removesuffix(".0") for i in (at, at + 1))
        return f"{name}={low}..{high}"

    lines = [
        f"{y} {' '.join(f'{named(*pair)}:1' for pair in zip('abc', row, strict=True))}"
        for y, row in zip(label, rows, strict=True)
    ]
    (tmp_path / "t.txt").write_text("\n".join(lines) + "\n")
    run.ok("train", *QUICK, "--label", "y", "--bins", "8", "--missing", "feature", "-o", "table.fm", "t.csv")
    run.ok("train", *QUICK, "-o", "text.fm", "t.txt")
    expected = run.ok("predict", "text.fm", "t.txt").stdout
    assert run.ok("predict", "table.fm", "t.csv").stdout == expected
    assert run.ok("predict", "table.fm", "t.txt").stdout == expected


def test_several_names_in_a_cell_missing_values_and_latin_1(run, tmp_path):
    lines = ["genre|year|y", "war,d rama|1990|1", "?|1990|2", "caf\xe9,war|1991|3"] * 2
    (tmp_path / "g.csv").write_bytes(
        ("\n".join([lines[0], *[line for line in lines if "genre" not in line]]) + "\n").encode("latin-1")
    )
    named = ("--label", "y", "--several", "genre", "--separator", ",")
    options = (*named, "--categorical", "year", "--missing-values", "?")
    assert "expected UTF-8; if it is Latin-1" in run.fails(65, "train", *QUICK, *options, "-o", "m.fm", "g.csv").stderr
    run.ok("train", *QUICK, *options, "--encoding", "latin-1", "-o", "m.fm", "g.csv")
    names = run.ok("inspect", "m.fm").stdout.decode()
    for name in ("genre=war", "genre=d rama", "genre=café", "year=1990"):
        assert name in names
    assert "genre=?" not in names


def test_numbers_that_are_names_have_one_spelling(run, tmp_path):
    (tmp_path / "a.csv").write_text("id,y\n" + "1,1\n2,2\n" * 6)
    (tmp_path / "b.csv").write_text("id,y\n" + "1.0,1\n2.0,2\n" * 6)
    (tmp_path / "c.csv").write_text("id,y\n" + "1.0,1\nx,2\n" * 6)
    for name in "abc":
        run.ok("train", *QUICK, "--label", "y", "--categorical", "id", "-o", f"{name}.fm", f"{name}.csv")
    assert (tmp_path / "a.fm").read_bytes() == (tmp_path / "b.fm").read_bytes()
    assert b"id=1.0" in run.ok("inspect", "c.fm").stdout
    named = ("convert", "--label", "y", "--categorical", "id")
    assert run.ok(*named, "b.csv").stdout == run.ok(*named, "a.csv").stdout == b"1 id=1:1\n2 id=2:1\n" * 6


def test_bools_have_one_spelling_in_a_column_of_bools(run, tmp_path):
    (tmp_path / "t.csv").write_text("a,b,y\nTrue,True,1\nFALSE,x,2\n,,3\ntrue,FALSE,4\n")
    text = run.ok("convert", "--label", "y", "t.csv").stdout
    assert text == b"1 a=true:1 b=True:1\n2 a=false:1 b=x:1\n3\n4 a=true:1 b=FALSE:1\n"


@pytest.mark.parametrize("cell", ["1", "0", "1.0"])
def test_numbers_in_a_column_of_bools_are_refused(run, tmp_path, cell):
    """They would be categories that training has not seen."""
    (tmp_path / "t.csv").write_text("a,n,y\n" + "True,2.5,1\nFALSE,3.5,0\n" * 20)
    run.ok("train", *QUICK, "--label", "y", "-o", "m.fm", "t.csv")
    (tmp_path / "p.csv").write_text(f"n,a\n2.5,true\n2.5,\n3.5,{cell}\n")
    told = f"p.csv:4:5: found '{cell}', expected true or false in the column 'a'; it is a number; write true in place"
    assert told in run.fails(65, "predict", "m.fm", "p.csv").stderr
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"n": [2.5, 3.5], "a": [True, False]})
    model = fmcli.load(tmp_path / "m.fm")
    assert len(model.predict(frame)) == len(frame)
    with pytest.raises(ValueError, match="expected true or false in the column 'a'; it is a number"):
        model.predict(frame.astype({"a": int}))


def test_convert_knows_the_options_of_columns(run, tmp_path):
    (tmp_path / "t.csv").write_text("user,s,w,g,y\n" + "7,-,2,1,4\n8,x,1,2,5\n" * 5)
    special = ("--weight-column", "w", "--group-field", "g", "--missing-values=-")
    done = run.ok("convert", "--label", "y", *special, "t.csv")
    assert done.stdout == b"4:2 qid:1 user=7:1\n5:1 qid:2 user=8:1 s=x:1\n" * 5
    done = run.ok("convert", "--label", "y", "--ignore", "w,g", "--print-schema", "t.csv")
    (tmp_path / "s.json").write_bytes(done.stdout)
    done = run.ok("convert", "--schema", "s.json", "--to", "ffm", "t.csv")
    assert done.stdout == b"4 0:user=7:1 1:s=-:1\n5 0:user=8:1 1:s=x:1\n" * 5
    done = run.fails(2, "convert", "--label", "y", "--categorical", "u", "--several", "s", "--ignore", "y", "t.csv")
    assert "the column 'y' is used in two ways" in done.stderr


def test_lists_of_names_may_be_given_in_several_options(run, tmp_path):
    """For every option that is a list of columns or of cells, `A,B` and `A` and `B` are the same."""
    rows = "".join(f"{i % 7},{i % 5},{'?-'[i % 2] if i % 3 else 'x'},p|q,{i % 4},{i}\n" for i in range(60))
    (tmp_path / "t.csv").write_text("a,b,c,d,e,y\n" + rows)
    lists = ("--ignore", "a,b"), ("--numeric", "a,b"), ("--categorical", "a,b"), ("--several", "c,d")
    for flag, both in (*lists, ("--missing-values", "?,-")):
        one, other = both.split(",")
        first = run.ok("convert", "--label", "y", f"{flag}={both}", "t.csv").stdout
        assert run.ok("convert", "--label", "y", f"{flag}={one}", f"{flag}={other}", "t.csv").stdout == first, flag
        if flag != "--numeric":  # which both columns are
            assert run.ok("convert", "--label", "y", f"{flag}={one}", "t.csv").stdout != first
    (tmp_path / "n.csv").write_text(rows)
    named = ("--columns", "a,b,c", "--columns", "d,e,y")
    first = run.ok("convert", "--label", "y", "t.csv").stdout
    assert run.ok("convert", "--label", "y", *named, "n.csv").stdout == first
    run.ok("split", "--by-order", *named, "n.csv", "1", "2")
    run.ok("negatives", *named, "--pair", "a", "--pair", "y", "n.csv")
    done = run.fails(2, "split", "--by-order", "--columns", "a,a", "n.csv", "1", "2")
    assert "--columns has 'a' twice" in done.stderr
    joins = ("--join", "a=u.csv", "--join", "a=v.csv")
    assert "--join names two tables for 'a'" in run.fails(2, "convert", *joins, "t.csv").stderr


def test_a_schema_is_written_and_taken(run, tmp_path, ratings):
    found = run.ok("train", "--label", "stars", "--ignore", "time", "--print-schema", ratings).stdout
    kinds = {column["name"]: column["kind"] for column in json.loads(found)["columns"]}
    assert kinds == {
        **{"user": "category", "film": "category", "job": "category", "age": "number", "new": "number"},
        **{"stars": "label", "time": "ignored"},
    }
    (tmp_path / "s.json").write_bytes(found)
    run.ok("train", *QUICK, "--schema", "s.json", "-o", "a.fm", ratings)
    run.ok("train", *QUICK, "--label", "stars", "--ignore", "time", "-o", "b.fm", ratings)
    assert (tmp_path / "a.fm").read_bytes() == (tmp_path / "b.fm").read_bytes()
    (tmp_path / "bad.json").write_text('{"columns": [{"name": "user", "kind": "magic", "whole": false}]}')
    assert "is not a schema" in run.fails(65, "train", "--schema", "bad.json", ratings).stderr


WRONG = {
    "no label": (b"a,b\n1,x\n", (), "no column is the label; the columns are a, b; to a table of observed pairs"),
    "no such label": (b"a,b\n1,x\n", ("--label", "c"), "there is no column 'c'"),
    "two uses": (b"a,b\n1,x\n", ("--label", "a", "--numeric", "a"), "the column 'a' is used in two ways"),
    "too few cells": (b"a,b\n1,x\n2\n", ("--label", "a"), "t.csv:3:1: found '2', expected 2 cells; the row has 1"),
    "too many cells": (b"a,b\n1,x\n2,y,z\n", ("--label", "a"), "t.csv:3:1: found '2,y,z', expected 2 cells"),
    "an open quote": (b'a,b\n1,x\n2,"y\n', ("--label", "a"), "t.csv:3:3: found '\"y', expected quotes at the end"),
    "a quote in a cell": (b'a,b\n1,x"y"\n', ("--label", "a"), "t.csv:2:3: found 'x\"', expected a cell in double"),
    "behind a quote": (b'a,b\n1,"x"y\n', ("--label", "a"), "t.csv:2:3: found '\"x\"y', expected a delimiter"),
    "text in a numeric column": (
        b"a,b\n1,2\n1,x\n",
        ("--label", "a", "--numeric", "b"),
        "t.csv:3:3: found 'x', expected a number in the column 'b'; it is not a number",
    ),
    "an infinite number": (b"a,b\n1,inf\n", ("--label", "a", "--numeric", "b"), "it is not a finite number"),
    "several columns": (
        b"a,i,n,m\n" + b"".join(b"%d,%d,%d.5,%d\n" % (i % 2, i, i, i) for i in range(40)) + b"1,40,lost,gone\n",
        ("--label", "a"),
        "t.csv: cannot tell whether the columns 'i' (41 different whole numbers in 41 cells, such as 0) and 'm' (40 "
        "different whole numbers in 40 cells, such as 0) are numbers or ids; found 'lost' (line 42) in the "
        "column 'n' and 'gone' (line 42) in the column 'm', whose other cells are numbers; use --numeric i,m for "
        "numbers, or --categorical i,m for ids, or --ignore i,m for neither, and --missing-values lost,gone",
    ),
    "two columns with missing values": (
        b"a,n,m\n" + b"1,2.5,3.5\n" * 40 + b"1,lost,gone\n",
        ("--label", "a"),
        "use --missing-values lost,gone for cells that are missing, or --categorical n,m for names",
    ),
    "categories with fractions": (
        b"a,n,m\n" + b"1,2.5,3.5\n" * 40,
        ("--label", "a", "--categorical", "n,m"),
        "the column 'n' and the column 'm' have numbers with fractions, which are not categories; use --numeric n,m",
    ),
    "no label in a row": (b"a,b\n1,x\n,y\n", ("--label", "a"), "t.csv:3:1: found '', expected a label in the column"),
    "a label that is no number": (b'b,a\n"x\ny",1\nz,x4\n', ("--label", "a"), "t.csv:4:3: found 'x4', expected a lab"),
    "not UTF-8": (b"a,b\n1,\xff\n2,y\n", ("--label", "a"), "t.csv:2:3: found '\\xff', expected UTF-8"),
    "lines that end with CR": (b"a,b\r1,2\r3,4\r", ("--label", "a"), "lines end with carriage returns (CR) alone"),
    "rows that end with CR": (b"1 1:1\r0 2:1\r", (), "lines end with carriage returns (CR) alone"),
    "a header of numbers": (b"1,1\n3,4\n", ("--label", "a"), "the table has no header; use --columns NAMES"),
    "a column twice": (b"a,a\n3,4\n", ("--label", "a"), "found the column 'a' twice"),
    "the header once more": (
        b'a,b\r\nu,"x\ny"\r\na,b\r\nv,z\r\n',
        ("--label", "a"),
        "t.csv:4:1: found 'a,b', expected a row; it has the names of the columns; delete this line",
    ),
    "a header beside names": (
        b"a,b\nu,x\nv,z\n",
        ("--label", "a", "--columns", "a,b"),
        "t.csv:1:1: found 'a,b', expected a row; it has the names of the columns; delete this line",
    ),
    "no rows": (b"a,b\n", ("--label", "a"), "t.csv: the table has a header, but no rows"),
    "nothing": (b"", ("--label", "a"), "t.csv: the table is empty"),
    "JSON": (b'{"a": 1}\n', ("--label", "a"), "found JSON, expected a table"),
    "no features": (b"a,b\n1,2\n", ("--label", "a", "--ignore", "b"), "no column has features"),
    "a weight": (b"a,b,w\n1,x,-1\n", ("--label", "a", "--weight-column", "w"), "expected a weight in the column 'w'"),
    "a group": (
        b"a,b,q\n1,x,\n",
        ("--label", "a", "--categorical", "b", "--loss", "bpr", "--group-field", "q"),
        "t.csv:2:5: found '', expected a group in the column 'q'",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_tables(run, tmp_path, case):
    text, options, message = WRONG[case]
    (tmp_path / "t.csv").write_bytes(text)
    done = run("train", *QUICK, *options, "-o", "m.fm", "t.csv")
    assert done.returncode in (2, 65), done.stderr
    assert message in done.stderr
    assert not (tmp_path / "m.fm").exists()


def test_rows_with_errors_are_skipped(run, tmp_path):
    (tmp_path / "t.csv").write_bytes(b"a,b\n" + b"1,x\n2,y\n" * 10 + b"3\n" + b"1,x\n")
    assert run("train", *QUICK, "--label", "a", "-o", "m.fm", "t.csv").returncode == 65
    options = ("--label", "a", "--categorical", "b", "--on-bad-line", "skip")
    done = run("train", *QUICK, *options, "-o", "m.fm", "t.csv")
    assert done.returncode == 65  # the survey of the columns needs all rows
    (tmp_path / "s.json").write_text(json.dumps(Schema({"a": "label", "b": "category"}).entry()))
    done = run.ok("train", *QUICK, "--schema", "s.json", "--on-bad-line", "skip", "-o", "m.fm", "t.csv")
    assert "t.csv:22:1: found '3', expected 2 cells; the row has 1; the line is skipped" in done.stderr


def scanned(text, roles, **options):
    columns = [
        ColumnForm(role, name, f"{role} {name}", name if role == "number" else f"{name}=") for name, role in roles
    ]
    return Scanner(columns, delimiter=",", **options).translate(text, 0, len(text))


def expected_lines(text, roles):
    """Return what the scanner should write, by Python's own reader of CSV."""
    lines = []
    for cells in csv.reader(io.StringIO(text.decode(), newline=""), strict=True):
        if not cells:
            continue
        line = ""
        for cell, (name, role) in zip(cells, roles, strict=True):
            cell = cell.strip(" \t\n\r\v\f")
            if cell and role == "category":
                line += f" {name}=" + "".join(f"%{ord(c):02X}" if c in " \t\n\r\v\f:%" else c for c in cell) + ":1"
            if cell and role == "number" and float(cell):
                line += f" {name}:{cell}"
        lines.append(line.strip())
    return "".join(f"{line}\n" for line in lines).encode()


def test_the_scanner_reads_what_pythons_reader_reads():
    rng = random.Random(1)
    alphabet = ["a", "b c", ",", '"', "\n", "\r\n", "é", ":", "%", "", " x "]
    roles = [("p", "category"), ("n", "number"), ("q", "category")]
    for _ in range(300):
        rows = [
            [
                "".join(rng.choices(alphabet, k=rng.randrange(4))),
                rng.choice(["", "0", "2.5", "-1e3"]),
                rng.choice(alphabet),
            ]
            for _ in range(rng.randrange(1, 6))
        ]
        out = io.StringIO(newline="")
        csv.writer(out, lineterminator=rng.choice(["\n", "\r\n"])).writerows(rows)
        text = out.getvalue().encode()
        lines, read, written, faulty, faults = scanned(text, roles)
        assert (written, faulty, faults) == (len(rows), 0, [])
        assert read == text.count(b"\n")
        assert lines[:-PADDING] == expected_lines(text, roles)


def rows_of(scanner, read, text, **options):
    """Return the rows that are parsed of what a method of a scanner makes of a table: arrays, ids and counts."""
    rows = Rows(ffm=False, keep_fields=False, limit=1 << 30, **options)
    found, lines, count, faulty, faults = getattr(scanner, read)(text, 0, len(text))
    if isinstance(found, Entries):
        found.lines = lambda: pytest.fail("entries are read without lines")
    result = rows.parse(found, 0, len(found) - PADDING if isinstance(found, Lines) else 0)
    ids, columns = [], np.arange(rows.features or 1 << options.get("hash_bits", 0))
    if rows.is_numbered:
        dictionary, columns = rows.ids.sorted(np.ones(len(rows.ids), bool))
        ids = dictionary.written(range(len(dictionary)))
    counts = rows.rows, rows.nnz, rows.labeled, rows.unseen, rows.repeated, rows.skipped.tolist(), rows.label_names
    data = rows.dataset(len(columns))
    entries = [sorted(zip(columns[index], value, strict=True)) for index, value in entries_of(data)]
    return result[1:], (lines, count, faulty, faults), counts, entries, data.label, data.weight, data.group, ids


def entries_of(data):
    value = np.ones(data.nnz, np.float32) if data.value is None else data.value
    for begin, end in pairwise(data.indptr.tolist()):
        yield data.index[begin:end], value[begin:end].tolist()


@pytest.mark.parametrize("space", [{"growing": True}, {"hash_bits": 3}, {}], ids=["growing", "hashed", "indices"])
@pytest.mark.parametrize("training", [True, False])
def test_entries_are_those_of_the_lines(space, training):
    rng = random.Random(2)
    gaps = {"missing": ("?",), "gap_feature": True}
    columns = [
        *(ColumnForm("label", "y", "a label"), ColumnForm("weight", "w", "a weight")),
        *(ColumnForm("category", "c", "", "c=", 1, **gaps), ColumnForm("several", "s", "", "s=", **gaps)),
        ColumnForm("number", "7", "a number", "7", **gaps, means=("2.25",)),
        ColumnForm("number", "m", "", "m", means=("-3",)),
        ColumnForm("number", "b", "a number", "b", edges=(1.0, 2.0), bins=("b=..1", "b=1..2", "b=2.."), means=("1.5",)),
        *(ColumnForm("category", "t", "", "t=", 2, **gaps), ColumnForm("ignored", "q"), ColumnForm("ignored", "k")),
        ColumnForm("time", "d", "a time", "d", **gaps, means=("19000.5",), order=1, hours=True),
        ColumnForm("time", "e", "a time", "e", order=2),
        ColumnForm("vector", "v", "numbers", "v", gap_feature=True, means=("1", "-2.5", "0"), length=3),
    ]
    others = [
        ColumnForm("label", "k", "a k"),
        ColumnForm("category", "j", "", "j="),
        ColumnForm("number", "z", "", "z"),
    ]
    other = Scanner(others, delimiter=",")
    joined = Joined()
    rows = b"1,a b,2.5\n2,,0\n3,c,-1\n"
    lines = other.translate(rows, 0, len(rows))[0]
    joined.add(lines, len(lines) - PADDING)
    lines = Scanner([*others[1:]], delimiter=",").translate(b"none,7\n", 0, 7)[0]
    joined.set_missing(lines, len(lines) - PADDING)
    long = "a text of more than sixteen bytes"
    names = ["red", "blue green", "7", f"{long} 1", f"{long} 2", '"x ""y"""', "é"]
    choices = [
        ["1", "0", "2.50"] + [""] * (not training),
        *(["1", "0.5", "0"], ["1", "1.0", "-0", "3", "", "?"], [*names, "red|blue", "red|red", "", "a||b"]),
        *(["1", "0", "2.5", "-1e3", "", "16777217", "?"], ["1", "0", ""], ["1", "2", "3.5", "", "x"]),
        *(["True", "FALSE", "", "so"], ["5", "6", "u"], ["1", "2", "3", "4"]),
        ["03/04/2025", "1970-01-01", "31.12.2024 23:30", "1/2/2000 1:05 PM", "", "?"],
        *(["03/04/2025", "2024-02-29 1:00", ""], ["1|0|2.5", '"[1, 0, -1]"', "", "0|0|1e-3"]),
    ]
    text = "".join(",".join(map(rng.choice, choices)) + "\n" for _ in range(400)).encode()
    options = {
        "delimiter": ",",
        "training": training,
        "skip": True,
        "apart": True,
        "group": (8, False, "a group") if training else None,
        "joins": [(9, joined)],
    }
    if not training:
        columns[:2] = [ColumnForm("label", "y"), ColumnForm("ignored", "w")]
    scanner = Scanner(columns, **options)
    parsing = {"training": training, "skip": True, "label_weights": training, "grouped": training, **space}
    found = [rows_of(scanner, read, text, **parsing) for read in ("translate", "entries")]
    assert found[0][1][2] > 50  # rows with faults
    for one, again in zip(*found, strict=True):
        np.testing.assert_equal(again, one)


def test_equal_cells_of_many_columns_are_different_features():
    """More columns than there is room for cells that are known, so some share a place."""
    names = [f"c{i}" for i in range(100)]
    scanner = Scanner([ColumnForm("category", name, "", f"{name}=") for name in names], delimiter=",")
    text = b",".join([b"x"] * len(names)) + b"\n"
    lines = scanner.translate(text * 2, 0, 2 * len(text))[0]
    expected = " ".join(f"{name}=x:1" for name in names).encode() + b"\n"
    assert bytes(memoryview(lines)[:-PADDING]) == 2 * expected


def test_the_lines_of_rows_count_breaks_within_cells():
    text = b'"a\nb",1\n\n"c",2\nd,3\n'
    scanner = Scanner([ColumnForm("category", "p", "", "p="), ColumnForm("number", "n", "", "n")], delimiter=",")
    assert [scanner.place_of(text, 0, len(text), row, 0)[0] for row in range(3)] == [0, 3, 4]


@pytest.mark.parametrize(("training", "lines"), [(True, [0, 3, 6]), (False, [0, 2, 3, 4, 6])])
def test_the_lines_of_rows_count_rows_that_are_skipped(training, lines):
    text = b'"a\nb",1\nc,d\n"c",2\n"d""\ne",x\nd,3\n'
    columns = [ColumnForm("category", "p", "", "p="), ColumnForm("number", "n", "", "n")]
    scanner = Scanner(columns, delimiter=",", training=training, skip=True)
    assert [scanner.place_of(text, 0, len(text), row, 0)[0] for row in range(len(lines))] == lines
    assert scanner.translate(text, 0, len(text))[1:4] == (7, len(lines), 2)


def test_an_unseen_feature_is_found_in_its_cell(run, tmp_path):
    header = "b,p,n,a\n"
    (tmp_path / "t.csv").write_text(header + "x,u,.5,1\ny,v,1.5,2\n" * 5)
    (tmp_path / "new.csv").write_text(header + '"x\ny",u,1,1\n' + 'x,"z",.5,1\n')
    run("train", *QUICK, "--label", "a", "--numeric", "n", "-o", "m.fm", "t.csv")
    done = run("predict", "--unseen", "error", "m.fm", "new.csv")
    assert "new.csv:2:2: found 'b=x%0Ay:1', expected a feature that occurred in training" in done.stderr
    (tmp_path / "new.csv").write_text(header + '"x",u,1,1\n' + 'x,"z",.5,1\n')
    done = run("predict", "--unseen", "error", "m.fm", "new.csv")
    assert "new.csv:3:4: found 'p=z:1', expected a feature that occurred in training" in done.stderr


def test_the_scanner_refuses_what_is_not_a_table():
    for columns, options in (([], {"delimiter": ""}), ([], {"delimiter": ",", "separator": ""})):
        with pytest.raises(ValueError, match="at least one character"):
            Scanner(columns, **options)
    scanner = Scanner([ColumnForm("category", "p", "", "p=")], delimiter=",")
    for text, start, stop in ((b"a\n", 0, 3), (b"a\n", 2, 1), (b"a", 0, 1)):
        with pytest.raises(ValueError, match="the text must"):
            scanner.translate(text, start, stop)
    assert len(ROLES) == 9


def test_facts_of_pieces_add_up_to_those_of_the_whole():
    text = table(2000).split(b"\r\n", 1)[1]
    half = text.index(b"\r\n", len(text) // 2) + 2
    names = ["user", "film", "job", "age", "new", "stars", "time"]
    scanner = Scanner([ColumnForm("unknown", name) for name in names], delimiter=",")
    whole = scanner.survey(text, 0, len(text))
    first, second = scanner.survey(text, 0, half), scanner.survey(text, half, len(text))
    first[0].take(second[0], first[1])
    for column in range(len(names)):
        assert first[0].of(column) == whole[0].of(column)
    cells = np.array([row.split(",")[0] for row in text.decode().splitlines()])
    assert whole[0].of(0)["distinct"] == len(set(cells))
    assert sum(whole[0].of(3)[kind] for kind in ("fractions", "whole", "missing")) == 2000


def test_an_entry_of_a_model_file_that_is_no_schema_is_refused():
    good = Schema({"a": "label", "b": "category"}, whole=frozenset({"b"}), missing=("?",)).entry()
    assert Schema.of_entry(good).entry() == good
    for bad in ({}, {**good, "columns": 3}, {**good, "columns": [*good["columns"], *good["columns"]]}):
        with pytest.raises(BadInputError):
            Schema.of_entry(bad)
    kinds = {"y": "label", "n": "number", "v": "vector", "c": "category"}
    good = Schema(kinds, means={"n": (1.0,), "v": (1.0, 2.0, 3.0)}, lengths={"v": 3}).entry()
    assert Schema.of_entry(good).entry() == good
    for name, means in (("n", [1.0, 2.0]), ("v", [1.0, 2.0]), ("v", [0.0] * 100)):
        columns = [{**one, "means": means} if one["name"] == name else one for one in good["columns"]]
        with pytest.raises(BadInputError, match="means"):
            Schema.of_entry({**good, "columns": columns})
    for length in (0, 10**18):
        with pytest.raises(BadInputError, match="lengths"):
            Schema.of_entry({**good, "lengths": {"v": length}})


def test_skipped_rows_keep_their_places_in_predictions(run, tmp_path, ratings):
    run.ok("train", *QUICK, *NAMED, "-o", "m.fm", ratings)
    lines = table(6).decode().splitlines()
    expected = run.ok("predict", "m.fm", "-", input=("\n".join(lines) + "\n").encode()).stdout.split()
    (tmp_path / "s.csv").write_text("\n".join([*lines[:3], "1,2", *lines[3:]]) + "\n")
    done = run.ok("predict", "--on-bad-line", "skip", "m.fm", "s.csv")
    found = done.stdout.split()
    assert len(found) == 7
    assert [*found[:2], *found[3:]] == expected
    assert "s.csv:4:1: found '1,2', expected 7 cells; the row has 2; the line is skipped" in done.stderr


def test_cells_are_written_beside_predictions(run, tmp_path, ratings):
    run.ok("train", *QUICK, *NAMED, "-o", "m.fm", ratings)
    plain = run.ok("predict", "m.fm", ratings).stdout.decode().split()
    done = run.ok("predict", "--passthrough", "-j", "2", "m.fm", ratings, ratings).stdout.decode()
    header, *rows = csv.reader(io.StringIO(done))
    names, *cells = csv.reader(io.StringIO(table().decode()))
    assert header == [*names, "prediction"]
    assert rows == [[*row, one] for row, one in zip(cells, plain, strict=True)] * 2
    done = run.ok("predict", "--id-column", "film", "m.fm", ratings).stdout.decode()
    film = names.index("film")
    assert list(csv.reader(io.StringIO(done))) == [
        ["film", "prediction"], *([row[film], one] for row, one in zip(cells, plain, strict=True))
    ]  # fmt: skip
    (tmp_path / "p.csv").write_bytes(table(3).replace(b"time", b"prediction", 1))
    assert "has a column 'prediction' already" in run.fails(65, "predict", "--passthrough", "m.fm", "p.csv").stderr
    assert "use --id-column NAME" in run.fails(2, "predict", "--id-column", "1", "m.fm", ratings).stderr
    (tmp_path / "t").write_text("1 user=u1:1\n")
    done = run.fails(2, "predict", "--id-column", "user", "m.fm", "t")
    assert "t is not a table, so it has no column" in done.stderr


def test_predictions_of_classes_are_columns_beside_the_cells(run, tmp_path):
    """A row that is skipped keeps its place."""
    rows = [f'"a\n{i % 3}";{"xyz"[i % 3]};{i % 7}' for i in range(60)]
    (tmp_path / "c.csv").write_text("a;y;b\n" + "\n".join(rows) + "\n")
    options = ("--label", "y", "--categorical", "a,b", "--loss", "softmax", "-s", "adagrad")
    run.ok("train", "-q", "-e", "2", "--holdout", "0", "--no-quick-search", *options, "-o", "m.fm", "c.csv")
    (tmp_path / "d.csv").write_text('b;a\n3;"a\n1"\n4\n5;z\n')
    done = run.ok("predict", "--passthrough", "--on-bad-line", "skip", "m.fm", "d.csv").stdout.decode()
    header, first, bad, last = csv.reader(io.StringIO(done), delimiter=";")
    assert header == ["b", "a", "prediction_x", "prediction_y", "prediction_z"]
    assert first[:2] == ["3", "a\n1"]
    assert sum(map(float, first[2:])) == pytest.approx(1, abs=1e-6)
    assert bad == ["4", "nan", "nan", "nan"]
    assert last[:2] == ["5", "z"]


@pytest.mark.parametrize("size", [32, 100, 1000])
def test_buffers_may_end_anywhere(tmp_path, monkeypatch, size):
    """Also within quotes, which may have line breaks."""
    lines = ["word,y", *(f'"w{i % 3}\n""a"", {i % 5}\n",{i % 2}' for i in range(60))]
    (tmp_path / "q.csv").write_text("\n".join(lines) + "\n")
    options = {"label": "y", "categorical": ["word"], **FEW_EPOCHS}
    expected = fmcli.train(tmp_path / "q.csv", **options)
    assert len(expected.parameters["features"]) == 15
    monkeypatch.setattr("fmcli.data.tables.reading.BUFFER_BYTES", size)
    found = fmcli.train(tmp_path / "q.csv", **options)
    np.testing.assert_array_equal(found.parameters["V"], expected.parameters["V"])
    np.testing.assert_array_equal(found.predict(tmp_path / "q.csv"), expected.predict(tmp_path / "q.csv"))


def test_fields_are_those_of_the_table_of_training(run, tmp_path, ratings):
    run.ok("train", "-m", "ffm", *QUICK, *NAMED, "-o", "m.fm", ratings)
    rows = list(csv.DictReader(io.StringIO(table().decode())))
    with open(tmp_path / "other.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, ["stars", "new", "time", "age", "job", "film", "user"])
        writer.writeheader()
        writer.writerows(rows)
    assert run.ok("predict", "m.fm", "other.csv").stdout == run.ok("predict", "m.fm", ratings).stdout


def test_tables_without_headers_are_joined(run, tmp_path):
    (tmp_path / "r.csv").write_text("".join(f"{i % 7},{i % 5}\n" for i in range(70)))
    (tmp_path / "users.csv").write_text("user,job\n" + "".join(f"{user},job{user % 2}\n" for user in range(7)))
    named = ("--columns", "user,stars", "--label", "stars", "--join", "user=users.csv")
    run.ok("train", *QUICK, *named, "-o", "m.fm", "r.csv")
    expected = run.ok("predict", "--join", "user=users.csv", "m.fm", "r.csv").stdout
    assert len(expected.split()) == 70
    text = (tmp_path / "users.csv").read_text()
    (tmp_path / "bare.csv").write_text(text.partition("\n")[2])
    named = ("--columns", "user,stars", "--label", "stars", "--join", "user=bare.csv")
    assert "no header" in run.fails(65, "train", *QUICK, *named, "-o", "b.fm", "r.csv").stderr
    assert "no such table is joined" in run.fails(2, "train", *named, "--columns", "x.csv=a", "r.csv").stderr
    run.ok("train", *QUICK, *named, "--columns", "bare.csv=user,job", "-o", "b.fm", "r.csv")
    assert run.ok("predict", "--join", "user=bare.csv", "b.fm", "r.csv").stdout == expected


def test_a_cache_belongs_to_the_columns_of_its_table(run, tmp_path, ratings):
    disk = ("--disk", "--cache", "c", "-e", "2", "--no-quick-search", "--label", "stars", "--ignore", "time")
    made = run.ok("train", *disk, "-o", "m.fm", ratings)
    assert "made the cache c, because there was none" in made.stderr
    assert "using the cache c" in run.ok("train", *disk, "-o", "m.fm", ratings).stderr
    other = run.ok("train", *disk, "--categorical", "new", "-o", "n.fm", ratings)
    assert "made the cache c, because the earlier one has other columns of tables" in other.stderr


def test_an_open_quote_does_not_hold_the_whole_table(run, tmp_path, monkeypatch):
    """A cell in quotes may have line breaks, but is no longer than a line may be."""
    monkeypatch.setattr("fmcli.data.tables.reading.LONGEST_LINE", 1 << 12)
    monkeypatch.setattr("fmcli.data.tables.reading.BUFFER_BYTES", 1 << 10)
    rows = "".join(f"{row % 2},word{row % 5}\n" for row in range(900))
    (tmp_path / "long.csv").write_text(f'y,text\n{rows}1,"{"two lines " * 200}\n of text"\n')
    run.ok("train", "-e", "1", "--label", "y", "--categorical", "text", "long.csv")
    (tmp_path / "open.csv").write_text(f'y,text\n0,"a\x1b[2Jb \n{rows}1,"word"\n')
    done = run("train", "-e", "1", "--label", "y", "open.csv")
    assert done.returncode == 65
    assert "open.csv: no quote ends the cell that begins with 'a\\x1b[2Jb \\n0,word0" in done.stderr
    assert "double a quote within a cell, or remove it" in done.stderr


def labeled_by_texts(path):
    """A table whose names and labels have what CSV quotes, and blanks."""
    labels = ("Education Loan", "Home %20 Loan", ">50K", 'a, "b": #c')
    with path.open("w", newline="") as out:
        rows = csv.writer(out)
        rows.writerow(["user, name", 'the "loan"', "n"])
        rows.writerows([f'"{i % 10}", Smith', labels[i % 10 % 4], i % 3] for i in range(300))
    return labels


def test_labels_and_cells_come_back_as_they_were(run, tmp_path):
    labels = labeled_by_texts(tmp_path / "t.csv")
    options = ("--label", 'the "loan"', "--loss", "softmax")
    run.ok("train", "-q", *options, "--no-quick-search", "--holdout", "0", "-e", "30", "-o", "m.fm", "t.csv")

    def cells(*options):
        return list(csv.reader(io.StringIO(run.ok("predict", "-q", *options, "m.fm", "t.csv").stdout.decode())))

    def whole(*options):
        return [row[-1] for row in cells("--output-type", "label", *options)]

    table = list(csv.reader((tmp_path / "t.csv").open(newline="")))
    of_rows = [row[1] for row in table]
    assert run.ok("predict", "--output-type", "label", "m.fm", "t.csv").stdout.decode().splitlines() == of_rows[1:]
    assert cells("--output-type", "label", "--passthrough") == [
        [*row, label] for row, label in zip(table, ["prediction", *of_rows[1:]], strict=True)
    ]
    ids = cells("--output-type", "label", "--id-column", "user, name")
    assert ids[0] == ["user, name", "prediction"]
    assert ids[1:] == [[row[0], row[1]] for row in table[1:]]
    classes = cells("--id-column", "n")
    assert classes[0] == ["n", *(f"prediction_{label}" for label in sorted(labels))]
    assert {len(row) for row in classes} == {5}
    found = json.loads(run.ok("evaluate", "--json", "m.fm", "t.csv").stdout)
    assert [row["label"] for row in found["classes"]] == sorted(labels)
    assert "\nEducation Loan " in run.ok("evaluate", "m.fm", "t.csv").stdout.decode()
    explained = run.ok("predict", "--explain", "0", "--id-column", "user, name", "m.fm", "t.csv").stdout.decode()
    assert explained.splitlines()[1].startswith('"0", Smith\t>50K\t')
    model = fmcli.load(tmp_path / "m.fm")
    assert model.labels == sorted(labels)
    assert list(model.predict(tmp_path / "t.csv", "label")) == of_rows[1:]


@pytest.mark.parametrize("other", ["49018e16", "12E4", "68152e07"])
def test_an_id_that_looks_like_a_number_is_text(run, tmp_path, other):
    (tmp_path / "t.csv").write_text("c,y\n" + f"68fd1e64,1\n05db9164,0\n{other},1\n" * 60)
    log = run.ok("train", *QUICK, "--label", "y", "-o", "m.fm", "t.csv").stderr
    assert re.search(r"column c +category +3 distinct", log)
    (tmp_path / "t.csv").write_text("c,y\n" + f"12345678,1\n23456789,0\n{other},1\n" * 60)
    assert f"found '{other}' in the column 'c'" in run.fails(65, "train", "--label", "y", "t.csv").stderr
    done = run.ok("convert", "--label", "y", "--categorical", "c", "t.csv")
    assert f"1 c={other}:1".encode() in done.stdout.splitlines()
    (tmp_path / "t.csv").write_text("c,y\n" + f"{other},1\n" * 60)
    assert f"1 c={other}:1".encode() in run.ok("convert", "--label", "y", "t.csv").stdout.splitlines()


def test_ids_that_a_program_has_rounded_are_refused(run, tmp_path):
    (tmp_path / "t.csv").write_text("id,x,y\n" + "".join(f"{7 * 10**17 + i % 9},1e+20,{i % 2}\n" for i in range(90)))
    assert re.search(r"column x +number", run.ok("train", *QUICK, "--label", "y", "-o", "m.fm", "t.csv").stderr)
    (tmp_path / "t.csv").write_text((tmp_path / "t.csv").read_text() + "7.3E+17,1e+20,1\n")
    done = run.fails(65, "train", "--label", "y", "t.csv")
    found = "9 different whole numbers in 91 cells, such as 700000000000000000, beside rounded numbers, such as 7.3E+17"
    assert f"the column 'id' ({found}) is a number or an id" in done.stderr
    run.ok("train", *QUICK, "--label", "y", "--numeric", "id", "-o", "m.fm", "t.csv")
    done = run.fails(65, "train", "--label", "y", "--categorical", "id", "t.csv")
    assert "the column 'id' has rounded numbers, such as 7.3E+17: each may stand for several ids" in done.stderr


def test_floats_beyond_the_exact_ones_are_no_ids(tmp_path):
    pa = pytest.importorskip("pyarrow")
    ids = [2**53 + i % 7 for i in range(210)]
    labels = [float(i % 7) for i in range(210)]
    for type in (pa.float64(), pa.float32()):
        frame = pa.table({"u": pa.array(list(map(float, ids)), type), "y": labels})
        with pytest.raises(BadInputError, match=r"the column 'u' has rounded numbers, such as 9\.007199"):
            fmcli.train(frame, label="y", categorical=["u"], epochs=1)
        fmcli.train(frame, label="y", numeric=["u"], epochs=1)
    model = fmcli.train(pa.table({"u": ids, "y": labels}), label="y", categorical=["u"], epochs=1)
    assert len(model.parameters["features"]) == 7


def test_convert_keeps_the_columns_that_are_not_named(run, tmp_path):
    (tmp_path / "t.csv").write_text("d,u,y\n" + "".join(f"{i * 7 % 100},u{i % 3},{i % 2}\n" for i in range(100)))
    stopped = run.fails(65, "convert", "--label", "y", "t.csv")
    flag = re.search(r"(--numeric d) for numbers", stopped.stderr)[1]
    done = run.ok("convert", "--label", "y", *flag.split(), "t.csv")
    assert done.stdout.splitlines()[1] == b"1 d:7 u=u1:1"


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("1 1:1 2:0.5\n0 3:1\n", "libsvm"),
        ("\n# rows\n1 1:1\n", "libsvm"),
        ("spam user=a,b:1 x:-2e-3 # c\n", "libsvm"),
        ("1 qid:1 1:1 2:1\r\n0 qid:1 3:1\r\n", "libsvm"),
        ("1 0:1:1 2:site=x.com:1\n", "ffm"),
    ],
)
def test_text_of_rows_is_no_table(run, tmp_path, text, kind):
    (tmp_path / "t").write_bytes(text.encode())
    for command in (
        ["convert"],
        ["convert", "--label", "y"],
        ["train", "--label", "y"],
        ["negatives", "--pair", "a,b"],
    ):
        assert f"t is {kind} text already, not a table" in run.fails(65, *command, "t").stderr


def test_bins_need_columns_of_numbers(run, tmp_path):
    (tmp_path / "t.csv").write_text("u,y\n" + "a,1\nb,0\n" * 8)
    (tmp_path / "n.csv").write_text("u,x\n" + "a,0.5\nb,1.5\n")
    done = run.fails(2, "train", "--label", "y", "--bins", "4", "t.csv")
    assert "t.csv has no columns of numbers, which bins would cut; leave out --bins" in done.stderr
    run.ok("train", *QUICK, "--label", "y", "--bins", "2", "--join", "u=n.csv", "-o", "m.fm", "t.csv")


def test_a_label_that_the_model_does_not_know_has_its_place_in_the_table(run, tmp_path):
    (tmp_path / "t.csv").write_text("u,y\n" + "a,1\nb,0\n" * 8)
    (tmp_path / "names.csv").write_text("u,y\n" + "a,yes\nb,no\n" * 8)
    for model, rows in (("m.fm", "t.csv"), ("n.fm", "names.csv")):
        run.ok("train", *QUICK, "--label", "y", "-o", model, rows)
    (tmp_path / "other.csv").write_text("y,u\n1,a\n\n7,b\n")
    done = run.fails(65, "evaluate", "m.fm", "other.csv")
    assert "other.csv:4:1: found '7', expected a label that the model knows: 0, 1" in done.stderr
    (tmp_path / "other.csv").write_text("y,u\nyes,a\nmaybe so,b\n")
    done = run.fails(65, "evaluate", "n.fm", "other.csv")
    assert "other.csv:3:1: found 'maybe so', expected a label that the model knows: no, yes" in done.stderr


def test_rows_without_a_label_may_be_skipped(run, tmp_path):
    (tmp_path / "t.csv").write_text("u,y\n" + "a,1\nb,0\n" * 8 + "a,\n")
    done = run.fails(65, "train", "--label", "y", "-o", "m.fm", "t.csv")
    assert "t.csv:18:3: found '', expected a label in the column 'y'; each row needs one" in done.stderr
    advice = re.search(r"use (--on-bad-line skip) to leave out such rows", done.stderr)[1].split()
    run.ok("train", *QUICK, "--label", "y", *advice, "-o", "m.fm", "t.csv")
    assert "use --on-bad-line skip" in run.fails(65, "evaluate", "m.fm", "t.csv").stderr
    run.ok("evaluate", *advice, "m.fm", "t.csv")
    with pytest.raises(BadInputError, match=r"each row needs one$"):
        fmcli.train(tmp_path / "t.csv", label="y")


def test_predictions_are_evaluated_beside_the_labels_of_a_table(run, tmp_path):
    labels = labeled_by_texts(tmp_path / "t.csv")
    run.ok("train", *QUICK, "--label", 'the "loan"', "--loss", "softmax", "-o", "m.fm", "t.csv")
    (tmp_path / "p").write_bytes(run.ok("predict", "m.fm", "t.csv").stdout)
    found = json.loads(run.ok("evaluate", "--json", "--predictions", "p", "--label", 'the "loan"', "t.csv").stdout)
    of_model = json.loads(run.ok("evaluate", "--json", "m.fm", "t.csv").stdout)
    assert [row["label"] for row in found["classes"]] == sorted(labels)
    assert found["confusion"] == of_model["confusion"]
    assert found["metrics"]["logloss"] == pytest.approx(of_model["metrics"]["logloss"], rel=1e-6)
    (tmp_path / "n.csv").write_text("u,g,y\n" + "".join(f"u{i % 5},{i % 3},{i % 2}\n" for i in range(60)))
    run.ok("train", *QUICK, "--label", "y", "--ignore", "g", "-o", "m.fm", "n.csv")
    (tmp_path / "p").write_bytes(run.ok("predict", "m.fm", "n.csv").stdout)
    grouped = ("--json", "--group-field", "g", "-x", "gauc", "-x", "auc")
    found = json.loads(run.ok("evaluate", *grouped, "--predictions", "p", "--label", "y", "n.csv").stdout)
    assert found["metrics"] == json.loads(run.ok("evaluate", *grouped, "m.fm", "n.csv").stdout)["metrics"]
    assert "no column 'z'" in run.fails(65, "evaluate", "--predictions", "p", "--label", "z", "n.csv").stderr
    assert "--label needs --predictions" in run.fails(2, "evaluate", "--label", "y", "m.fm", "n.csv").stderr


def test_the_time_for_a_wide_table_is_linear_in_its_columns(tmp_path):
    """8 times as many columns take 8 times as long, if nothing looks at all names once for each; CPU time, and a bound
    far from both, because the machine may be busy. A table is read from a file and from a stream, in training and in
    prediction."""
    pa = pytest.importorskip("pyarrow")

    def seconds(columns):
        names = [f"g{at}" for at in range(columns)]
        text = ["label," + ",".join(names), *(f"{row}," + ",".join([f"{row}.5"] * columns) for row in (0, 1))]
        (tmp_path / "wide.csv").write_text("\n".join(text) + "\n")
        frame = pa.table({"label": [0, 1], **{name: [0.5, 1.5] for name in names}})
        options = {"label": "label", "epochs": 1, "scale": "none", "learning_rate": 1e-9, "rank": 1}
        begin = time.process_time()
        for rows in (tmp_path / "wide.csv", frame):
            fmcli.train(rows, **options, ignore=names[: columns // 2]).predict(rows)
        return time.process_time() - begin

    few, many = min(seconds(2000) for _ in range(2)), seconds(16_000)
    assert many < 16 * few


def test_messages_name_a_few_of_many_columns(run, tmp_path):
    names = [f"g{at}" for at in range(5000)]
    (tmp_path / "wide.csv").write_text(",".join(names) + "\n" + ",".join(["1.5"] * 5000) + "\n")
    refused = run.fails(65, "train", "wide.csv")
    assert "the columns are g0, g1, g2" in refused.stderr
    assert "and 4,960 more" in refused.stderr
    assert len(refused.stderr) < 1000
