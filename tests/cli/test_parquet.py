"""Parquet files and queries in place of tables of text."""

import json
import os
import re

import pytest

duckdb = pytest.importorskip("duckdb")

TABLE = """SELECT i % 7 AS "user", 'f,"' || i % 5 || chr(10) AS film, i / 4.0::DOUBLE AS price, i % 3 = 0 AS seen,
    nullif(i % 4, 2)::DOUBLE AS stars, ['a', 'b ' || i % 2] AS genres FROM range({rows}) t(i)"""
COLUMNS = ["--label", "price", "--categorical", "user,film,seen", "--numeric", "stars", "--several", "genres"]


@pytest.fixture
def tables(tmp_path):
    """Write the same table as Parquet and as CSV."""
    table = TABLE.format(rows=5000)
    duckdb.connect().execute(f"COPY ({table}) TO '{tmp_path / 't.parquet'}' (ROW_GROUP_SIZE 2048)")
    joined = f"SELECT * REPLACE (array_to_string(genres, '|') AS genres) FROM ({table})"
    duckdb.connect().execute(f"COPY ({joined}) TO '{tmp_path / 't.csv'}' (HEADER)")


@pytest.mark.usefixtures("tables")
def test_parquet_and_csv_of_the_same_rows_are_the_same_text(run, tmp_path):
    done = run.ok("train", "--label", "price", "--categorical", "stars", "--dry-run", "t.parquet")
    assert re.search(r"\nmemory .* needed\nreading .*, at most .* of it for DuckDB", done.stderr)
    kept = ["--sql", "SELECT * FROM 't.parquet' WHERE stars IS NOT NULL ORDER BY price"]
    found = [run.ok("convert", *COLUMNS, *table).stdout for table in (["t.parquet"], ["t.csv"])]
    assert found[0] == re.sub(rb"\.0\b", b"", found[1])  # numbers in CSV are spelled as they are there
    assert len(found[0].splitlines()) == 5000
    done = run.ok("convert", *COLUMNS, *kept, "-o", "rows")
    assert "rows: 3,750 rows" in done.stderr
    assert "ORDER BY" not in done.stderr


def test_columns_that_are_not_used_may_have_any_type(run, tmp_path):
    query = "SELECT 1 AS label, 7 AS \"user\", TIME '12:30:00' AS day"
    done = run.ok("convert", "--label", "label", "--categorical", "user", "--sql", query)
    assert done.stdout == b"1 user=7:1\n"
    done = run.fails(65, "convert", "--label", "label", "--categorical", "user,day", "--sql", query)
    assert "the column 'day' has the type time, which is not read; cast it" in done.stderr
    duckdb.connect().execute(f"COPY ({query}) TO '{tmp_path / 't.parquet'}'")
    assert "the column 'day'" in run.fails(65, "split", "--by-order", "--header", "t.parquet", "a", "b").stderr


def test_columns_of_text_are_text_and_ignored_ones_may_have_any_type(run, tmp_path):
    query = """SELECT i % 2 AS y, '1.' || i % 3 AS code, (i % 4)::VARCHAR AS digits, i % 3 = 0 AS flag,
        (i % 5)::DOUBLE AS zip, TIME '12:30:00' AS day FROM range(60) t(i)"""
    duckdb.connect().execute(f"COPY ({query}) TO '{tmp_path / 't.parquet'}'")
    done = run.ok("train", "--label", "y", "--ignore", "day", "--print-schema", "t.parquet")
    columns = {column["name"]: column for column in json.loads(done.stdout)["columns"]}
    assert {name: (column["kind"], column["whole"], column["truths"]) for name, column in columns.items()} == {
        "y": ("label", False, False),
        "code": ("category", False, False),
        "digits": ("category", False, False),
        "flag": ("category", False, True),
        "zip": ("category", True, False),
    }
    run.ok("train", "-e", "1", "--label", "y", "--ignore", "day", "-o", "m.fm", "t.parquet")
    assert len(run.ok("predict", "-q", "m.fm", "t.parquet").stdout.split()) == 60
    done = run.fails(65, "train", "--label", "y", "-o", "m.fm", "t.parquet")
    assert "the column 'day' has the type time, which is not read" in done.stderr


@pytest.mark.usefixtures("tables")
def test_a_parquet_file_is_split_as_csv(run, tmp_path):
    run.ok("split", "--by-group", "user", "t.parquet", "a", "b")
    headers = [(tmp_path / name).read_text().splitlines()[0] for name in "ab"]
    assert headers == ["user,film,price,seen,stars,genres"] * 2


@pytest.mark.usefixtures("tables")
def test_nothing_is_written_beside_the_output(run, tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    before = set(os.listdir(tmp_path))
    query = "SELECT a.user, a.price FROM 't.parquet' a JOIN 't.csv' b USING (price)"
    options = ["--numeric", "price", "--categorical", "user", "-o", "rows"]
    done = run.ok("convert", *options, "--sql", query, environ={**os.environ, "HOME": str(home)})
    assert "the query has no ORDER BY, so that the order of its rows is not fixed" in done.stderr
    assert set(os.listdir(tmp_path)) == before | {"rows"}
    assert not os.listdir(home)


def test_sums_and_literals_of_a_query_are_exact_numbers(run):
    rows = "(VALUES ('a', {}, 1), ('b', 2, 0)) t(u, x, y)"
    query = f"SELECT u, sum(x) AS s, 1.5 AS q, sum(x * 1.05) AS p, max(y) AS y FROM {rows}"
    options = ["--label", "y", "--categorical", "u", "--numeric", "q,p"]
    done = run.ok(
        "convert", *options, "--categorical", "s", "--sql", query.format(2**53 + 1) + " GROUP BY u ORDER BY u"
    )
    assert done.stdout == b"1 u=a:1 s=9007199254740993:1 q:1.5 p:9457559217478042.65\n0 u=b:1 s=2:1 q:1.5 p:2.1\n"


@pytest.mark.parametrize(
    ("table", "status", "message"),
    [
        (["--sql", "SELECT 1; SELECT 2"], 2, "the query is not one SELECT statement"),
        (["--sql", "COPY (SELECT 1) TO 'x'"], 2, "the query is not one SELECT statement"),
        (["--sql", "INSTALL httpfs"], 2, "the query is not one SELECT statement"),
        (["--sql", "SELEC 1"], 65, "the query: Parser Error"),
        (["--sql", "SELECT * FROM 'none.parquet'"], 66, "cannot read the query: IO Error: No files found"),
        (
            ["--sql", "SELECT time '12:30:00' AS \"user\""],
            65,
            "the column 'user' has the type time, which is not read",
        ),
        (["--sql", "SELECT ['a|b'] AS user, 1 AS x"], 65, "row 1, column 'user': a cell of a list has the separator"),
        (["--sql", "SELECT error('no') AS user, 1 AS x FROM range(3)"], 65, "no"),
        (["--sql", "SELECT 1", "t"], 2, "give one table, or a query with --sql"),
        ([], 2, "give one table, or a query with --sql"),
        (["broken"], 65, "broken: Invalid Input Error"),
    ],
)
def test_tables_that_cannot_be_read(run, tmp_path, table, status, message):
    (tmp_path / "broken").write_bytes(b"PAR1" + bytes(40))
    done = run.fails(status, "convert", "--categorical", "user", *table)
    assert message in done.stderr


def test_the_package_is_named_if_it_is_missing(run, tmp_path):
    (tmp_path / "t").write_bytes(b"PAR1" + bytes(40))
    without = "import sys; sys.modules['duckdb'] = None"
    for table, name in ((["t"], "t"), (["--sql", "SELECT 1 AS user"], "a query")):
        done = run.fails(2, "convert", "--categorical", "user", *table, before=without)
        assert done.stderr == f"fmcli: error: {name} needs DuckDB: pip install duckdb\n"
