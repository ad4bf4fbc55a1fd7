"""Missing numbers of tables: the mean of the column stands for them, and a feature if training has some."""

import json
import random

import numpy as np
import pytest
from inprocess import instead

import fmcli
from fmcli.text import figure

QUICK = ("-e", "8", "--holdout", "0", "--no-quick-search", "--label", "y")


def rows_of(count, gaps, seed=1):
    """Return rows (x, color, y): y follows x, whose gaps are at 100, or is 0."""
    rng = random.Random(seed)
    rows = []
    for _ in range(count):
        x, color = round(rng.gauss(100, 10), 2), rng.choice("rgb")
        gone = rng.random() < gaps
        rows.append(("" if gone else x, color, round((0 if gone else (x - 100) / 10) + rng.gauss(0, 0.1), 3)))
    return rows


def write(path, rows, header="x,color,y"):
    path.write_text("\n".join([header, *(",".join(map(str, row)) for row in rows)]) + "\n")


def mean(rows):
    return np.mean([row[0] for row in rows if row[0] != ""])


@pytest.mark.parametrize(
    ("solver", "scale"),
    [("adagrad", "zscore"), ("adagrad", "none"), ("cd", "zscore"), ("cd", "standard"), ("ftrl", "max-abs")],
)
def test_a_gap_is_the_mean_and_a_feature(run, tmp_path, solver, scale):
    """The model equals a model of rows in which the mean and the feature are written out."""
    rows = rows_of(300, 0.3)
    write(tmp_path / "t.csv", rows)
    filled = [(mean(rows) if x == "" else x, color, y, x == "") for x, color, y in rows]
    text = [f"{y} x:{x:.9g} {'x=:1 ' if gone else ''}color={color}:1" for x, color, y, gone in filled]
    (tmp_path / "t.txt").write_text("\n".join(text) + "\n")
    options = ("--scale", scale, "-s", solver, "-e", "4", "--holdout", "0", "--no-quick-search")
    run.ok("train", *options, "--label", "y", "-o", "table.fm", "t.csv")
    run.ok("train", *options, "-o", "text.fm", "t.txt")
    expected = run.ok("predict", "text.fm", "t.txt").stdout
    assert run.ok("predict", "table.fm", "t.csv").stdout == expected
    assert run.ok("predict", "table.fm", "t.txt").stdout == expected


@pytest.mark.parametrize(
    "mode",
    [
        ("-m", "ffm", "-e", "60"),
        ("--disk", "--cache", "c"),
        ("-s", "mcmc"),
        ("--hash-bits", "6"),
        ("--bins", "4"),
        ("-m", "llfm"),
    ],
    ids=["fields", "disk", "mcmc", "hash", "bins", "llfm"],
)
def test_gaps_do_not_spoil_the_rest(run, tmp_path, mode):
    write(tmp_path / "t.csv", rows_of(1000, 0.3))
    write(tmp_path / "new.csv", rows_of(400, 0.3, seed=2))
    run.ok("train", *instead(QUICK, *mode), "-o", "m.fm", "t.csv")
    rmse = float(run.ok("evaluate", "-x", "rmse", "m.fm", "new.csv").stdout.split()[-1])
    assert rmse < 0.6, rmse  # .84 for a constant


def test_a_gap_at_scoring_is_the_mean_and_is_counted(run, tmp_path):
    rows = rows_of(300, 0)
    write(tmp_path / "t.csv", rows)
    run.ok("train", *QUICK, "-o", "m.fm", "t.csv")
    write(tmp_path / "new.csv", [("", "r", 0), (f"{mean(rows):.9g}", "r", 0), ("", "g", 0)])
    done = run.ok("predict", "m.fm", "new.csv")
    gap, number, _ = done.stdout.split()
    assert gap == number
    assert "column x: its mean stands for 2 missing cells, for which the model has no feature x=" in done.stderr
    assert "unseen" not in done.stderr
    assert "its mean stands for 2 missing cells" in run.ok("evaluate", "m.fm", "new.csv").stderr
    run.ok("train", *QUICK, "--bins", "4", "-o", "b.fm", "t.csv")
    gap, number, _ = run.ok("predict", "b.fm", "new.csv").stdout.split()
    assert gap == number
    done = run.ok("train", "-e", "1", "--no-quick-search", "-i", "m.fm", "-o", "n.fm", "new.csv")
    assert "its mean stands for 2 missing cells" in done.stderr


def test_a_word_among_numbers_that_training_lacks_is_refused_with_the_option(run, tmp_path):
    write(tmp_path / "t.csv", rows_of(100, 0))
    run.ok("train", *QUICK, "-o", "m.fm", "t.csv")
    (tmp_path / "new.csv").write_text("x,color\nn/a,r\n,r\n")
    done = run.fails(65, "predict", "m.fm", "new.csv")
    expected = "new.csv:2:1: found 'n/a', expected a number in the column 'x'; it is not a number; if it stands for a "
    assert expected + "missing one, --missing-values 'n/a' says so" in done.stderr
    one, other = run.ok("predict", "--missing-values", "n/a", "m.fm", "new.csv").stdout.split()
    assert one == other


@pytest.mark.parametrize("option", ["auto", "none", "feature"])
def test_missing_says_which_columns_have_a_feature(run, tmp_path, option):
    rows = [(x if i % 7 else "", color if i % 5 else "", y, i % 3) for i, (x, color, y) in enumerate(rows_of(100, 0))]
    write(tmp_path / "t.csv", rows, "x,color,y,whole")
    done = run.ok("convert", "--label", "y", "--missing", option, "t.csv")
    names = {entry.rsplit(":", 1)[0] for entry in done.stdout.decode().split() if "=:" in entry}
    assert names == {"auto": {"x="}, "none": set(), "feature": {"x=", "color="}}[option]
    assert done.stdout.count(b"x:") == 100
    log = run.ok("train", *QUICK, "--missing", option, "-o", "m.fm", "t.csv").stderr
    of_x = f"15 missing: filled with the mean {figure(mean(rows))}"
    of_x += "\n" if option == "none" else " and marked by the feature x=\n"
    assert of_x in log
    assert ("20 missing: marked by the feature color=\n" if option == "feature" else "20 missing\n") in log


def test_the_mean_is_weighted(run, tmp_path):
    rows = [("", "r", 1, 2), (1.5, "r", 2, 1), (4.5, "g", 3, 2), (10.5, "g", 4, 0)]
    write(tmp_path / "t.csv", rows, "x,color,y,w")
    schema = json.loads(run.ok("train", "--label", "y", "--weight-column", "w", "--print-schema", "t.csv").stdout)
    assert schema["columns"][0] == {"name": "x", "kind": "number", "gaps": True, "means": [3.5]}


def test_gaps_of_a_joined_table(run, tmp_path):
    write(tmp_path / "users.csv", [(i, "" if i % 3 == 0 else i + 0.5) for i in range(6)], "user,age")
    write(tmp_path / "t.csv", [(i % 6, i % 2) for i in range(60)], "user,y")
    done = run.ok("convert", "--label", "y", "--join", "user=users.csv", "t.csv")
    of_ages = (1.5 + 2.5 + 4.5 + 5.5) / 4
    assert done.stdout.splitlines()[:2] == [f"0 user=0:1 age:{of_ages} age=:1".encode(), b"1 user=1:1 age:1.5"]


def test_a_stream_knows_means_by_a_schema_only(run, tmp_path):
    write(tmp_path / "t.csv", rows_of(400, 0.3))
    named = ("--categorical", "color", "--numeric", "x")
    log = run.ok("train", "--label", "y", *named, "--online", "-o", "s.fm", "t.csv").stderr
    assert "column x      number    missing cells: marked by the feature x=\n" in log
    (tmp_path / "s.json").write_bytes(run.ok("train", "--label", "y", "--print-schema", "t.csv").stdout)
    run.ok("train", "--schema", "s.json", "--online", "-o", "m.fm", "t.csv")
    found = [run.ok("evaluate", "-x", "rmse", model, "t.csv").stdout for model in ("s.fm", "m.fm")]
    assert float(found[1].split()[-1]) < float(found[0].split()[-1])


def test_gaps_of_frames(tmp_path):
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    rows = rows_of(300, 0.3)
    write(tmp_path / "t.csv", rows)
    cells = [None if row[0] == "" else row[0] for row in rows]
    columns = {"x": cells, "color": [row[1] for row in rows], "y": [row[2] for row in rows]}
    nan = {**columns, "x": [float("nan") if cell is None else cell for cell in cells]}
    options = {"label": "y", "epochs": 3, "holdout": 0, "quick_search": False}
    fmcli.train(tmp_path / "t.csv", **options).save(tmp_path / "t.fm")
    for frame in (pandas.DataFrame(columns), pandas.DataFrame(nan), polars.DataFrame(columns), polars.DataFrame(nan)):
        model = fmcli.train(frame, **options)
        model.save(tmp_path / "f.fm")
        assert (tmp_path / "f.fm").read_bytes() == (tmp_path / "t.fm").read_bytes()
    full = fmcli.train(polars.DataFrame(nan).filter(polars.col("x").is_not_nan()), **options)
    gap, number = full.predict(polars.DataFrame({"x": [float("nan"), mean(rows)], "color": ["r", "r"]}))
    assert gap == number


def test_a_model_of_text_with_gaps_reads_tables(run, tmp_path):
    """x and x= are a column of numbers with gaps, in either order."""
    write(tmp_path / "t.csv", rows_of(100, 0.3))
    (tmp_path / "t.txt").write_bytes(run.ok("convert", "--label", "y", "t.csv").stdout)
    run.ok("train", *QUICK[:-2], "-o", "m.fm", "t.txt")
    write(tmp_path / "new.csv", [(100.5, "r"), (99.5, "g")], "x,color")
    (tmp_path / "new.txt").write_text("x:100.5 color=r:1\nx:99.5 color=g:1\n")
    assert run.ok("predict", "m.fm", "new.csv").stdout == run.ok("predict", "m.fm", "new.txt").stdout
