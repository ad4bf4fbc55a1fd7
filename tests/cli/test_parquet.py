"""Parquet files and queries in place of tables of text."""

import json
import os
import re

import pytest

import fmcli
from fmcli.data import file_formats, queries
from fmcli.data.file_formats import FORMATS, FileFormat, is_table

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


def test_a_format_of_tables_is_an_entry(monkeypatch, tmp_path):
    """As the recipe says: a function that opens such files, and an entry. Then they are tables by name and content."""

    def opened(path, used):
        types = "columns={'user': 'VARCHAR', 'price': 'BIGINT', 'stars': 'BIGINT'}"
        return queries.QueryText(f"SELECT * FROM read_json('{path}', {types})", path, used)

    rows = [{"user": f"u{i % 7}", "price": i % 5, "stars": i % 3 + i % 7} for i in range(300)]
    (tmp_path / "t.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    cells = [",".join(map(str, row.values())) for row in rows]
    (tmp_path / "t.csv").write_text("\n".join(["user,price,stars", *cells, ""]))
    monkeypatch.setattr(queries, "json_lines", opened, raising=False)
    entry = FileFormat("JSON lines", (b'{"',), ("jsonl",), opener="fmcli.data.queries:json_lines")
    monkeypatch.setattr(file_formats, "FORMATS", (*FORMATS, entry))
    found = []
    for name in ("t.jsonl", "t.csv"):
        model = fmcli.train(tmp_path / name, label="stars", epochs=3, numeric="price")
        found.append(model.predict(tmp_path / name).tolist())
    assert found[0] == found[1]
    assert is_table("a.jsonl.gz")


@pytest.mark.usefixtures("tables")
def test_parquet_and_csv_of_the_same_rows_are_the_same_text(run, tmp_path):
    done = run.ok("train", "--label", "price", "--categorical", "stars", "--dry-run", "t.parquet")
    assert re.search(r"\nmemory +[\d.]+ [KM]iB needed\n", done.stderr)
    kept = ["--sql", "SELECT * FROM 't.parquet' WHERE stars IS NOT NULL ORDER BY price"]
    found = [run.ok("convert", *COLUMNS, *table).stdout for table in (["t.parquet"], ["t.csv"])]
    assert found[0] == re.sub(rb"\.0\b", b"", found[1])  # numbers in CSV are spelled as they are there
    assert len(found[0].splitlines()) == 5000
    done = run.ok("convert", *COLUMNS, *kept, "-o", "rows")
    assert "rows: 3,750 rows" in done.stderr
    assert "ORDER BY" not in done.stderr


def test_columns_of_text_are_text_and_ignored_ones_may_have_any_type(run, tmp_path):
    query = """SELECT i % 2 AS y, '1.' || i % 3 AS code, (i % 4)::VARCHAR AS digits, i % 3 = 0 AS flag,
        (i % 5)::DOUBLE AS zip, TIME '12:30:00' AS day FROM range(60) t(i)"""
    duckdb.connect().execute(f"COPY ({query}) TO '{tmp_path / 't.parquet'}'")
    done = run.ok("train", "--label", "y", "--ignore", "day", "--print-schema", "t.parquet")
    columns = {column["name"]: column for column in json.loads(done.stdout)["columns"]}
    assert {name: (column["kind"], "whole" in column, "truths" in column) for name, column in columns.items()} == {
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
    assert "the column 'day'" in run.fails(65, "split", "--by-order", "--header", "t.parquet", "a", "b").stderr


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
    assert "the query has no ORDER BY, so the order of its rows is not fixed" in done.stderr
    assert set(os.listdir(tmp_path)) == before | {"rows"}
    assert not os.listdir(home)


# Cells of one column: in the rows from which DuckDB would guess its type, and behind them.
LATE = {
    "zeros": ("7", "007"),
    "word": ("7", "NA"),
    "plus": ("7", "+7"),
    "minus": ("7", "-0"),
    "long": ("7", "12345678901234567890"),
    "hex": ("7", "49018e16"),
    "truth": ("true", "yes"),
    "number": ("true", "1"),
    "quoted": ("7", '"7, 8"'),
}
# The same of columns of numbers.
NUMBERS = {
    "fraction": ("7", "1.6"),
    "exact": ("1.5", "12345678901234567.5"),
    "power": ("0.5", "1e-05"),
    "gap": ("7", ""),
}


@pytest.fixture(scope="module")
def late(tmp_path_factory):
    """A folder with tables of such cells."""
    folder = tmp_path_factory.mktemp("late")
    cells = {**LATE, **NUMBERS}
    names, (early, last) = ",".join(cells), (",".join(cell[place] for cell in cells.values()) for place in (0, 1))
    (folder / "late.csv").write_text(f"y,{names}\n" + f"0,{early}\n" * 20_500 + f"1,{last}\n1,{early}\n")
    (folder / "late.part-2.csv").write_text(f"y,{names}\n1,{last}\n")
    return folder


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM 'late.csv'",
        "SELECT 'é' AS other, late.* FROM \"./late.csv\" WHERE late.y >= 0",
        "WITH b(y, plus) AS (SELECT 9, 'é') SELECT a.* FROM b RIGHT JOIN late.csv AS a USING (y)",
        "SELECT * FROM 'late*.csv' LIMIT 20502",
    ],
)
def test_a_query_reads_the_cells_of_a_csv_file_as_they_are(run, late, tmp_path, query):
    columns = ["--categorical", ",".join(LATE), "--numeric", ",".join(NUMBERS)]
    options = ["convert", "-q", "--label", "y", *columns]
    other = ["--ignore", "other"] if "other" in query else []
    for path in late.iterdir():
        (tmp_path / path.name).symlink_to(path)
    assert run.ok(*options, *other, "--sql", query).stdout == run.ok(*options, "late.csv").stdout


def test_a_query_reads_the_cells_of_a_json_file_as_they_are(run, tmp_path):
    early, last = '{"y": 0, "n": 1, "b": 1, "s": "007"}\n', '{"y": 1, "n": 1.6, "b": true, "s": "x"}\n'
    (tmp_path / "late.jsonl").write_text(early * 20_500 + last)
    done = run.ok(
        "convert", "-q", "--label", "y", "--categorical", "b,s", "--numeric", "n", "--sql", "FROM 'late.jsonl'"
    )
    assert done.stdout.splitlines()[-2:] == [b"0 n:1 b=1:1 s=007:1", b"1 n:1.6 b=true:1 s=x:1"]


def test_a_query_reads_times_of_a_csv_file_as_they_are(run, tmp_path, monkeypatch):
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    forms = ("31.01.2020", "01/31/2020", "2020-01-31", "2020-01-31 10:20:30", "2020-01-31T10:20:31Z", "10:20:30")
    cells = [",".join(forms), ",".join(form.replace("31", "02", 1) for form in forms)]
    (tmp_path / "t.csv").write_text("y,a,b,c,d,e,f\n" + "".join(f"{row % 2},{cells[row % 2]}\n" for row in range(8)))
    found = [run.ok("convert", "-q", "--label", "y", *table).stdout for table in (["t.csv"], ["--sql", "FROM 't.csv'"])]
    assert found[0] == found[1]


def test_a_query_computes_with_cells_of_a_csv_file(run, tmp_path):
    (tmp_path / "t.csv").write_text("y;whole;half;truth;day\n0;10;1.50;true;2020-01-31\n1;9;;False;2020-02-01\n")
    query = "SELECT y, whole > 9 AS more, half * 2 AS twice, NOT truth AS untrue, month(day) AS month FROM 't.csv'"
    done = run.ok("convert", "-q", "--label", "y", "--categorical", "more,twice,untrue,month", "--sql", query)
    assert done.stdout == (
        b"0 more=true:1 twice=3:1 untrue=false:1 month=1:1\n1 more=false:1 untrue=true:1 month=2:1\n"
    )


@pytest.mark.parametrize(
    ("query", "function", "advice"),
    [
        ("FROM read_csv('t.csv')", "read_csv", "add all_varchar = true"),
        ("FROM read_csv('t.csv', all_varchar = false)", "read_csv", "add all_varchar = true"),
        ("SELECT * FROM (SELECT 1 AS y) JOIN READ_CSV_AUTO('t.csv') USING (y)", "read_csv_auto", "add all_varchar"),
        ("SELECT 1 IN (SELECT y FROM read_json('t.json', sample_size = 7))", "read_json", "give columns = "),
        ("FROM query('FROM ''t.csv''')", "query", "write that query itself"),
        ("FROM query_table('t.csv')", "query_table", "write that query itself"),
    ],
)
def test_functions_that_guess_types_are_refused(run, tmp_path, query, function, advice):
    (tmp_path / "t.csv").write_text("y,x\n1,2\n0,007\n")
    (tmp_path / "t.json").write_text('{"y": 1}')
    done = run.fails(2, "convert", "--label", "y", "--sql", query)
    assert f"the query calls {function}(), " in done.stderr
    assert advice in done.stderr


@pytest.mark.parametrize("typed", ["all_varchar = true", "columns = {'y': 'INTEGER', 'x': 'VARCHAR'}"])
def test_functions_with_types_are_taken(run, tmp_path, typed):
    (tmp_path / "t.csv").write_text("y,x\n1,2\n0,007\n")
    query = f"FROM read_csv('t.csv', {typed})"
    done = run.ok("convert", "-q", "--label", "y", "--categorical", "x", "--sql", query)
    assert done.stdout == b"1 x=2:1\n0 x=007:1\n"


@pytest.mark.parametrize(
    "query",
    [
        "SELECT*FROM't.csv'",
        'SELECT*FROM"t.csv"WHERE y>=0',
        "SELECT*FROM\n't.csv'--all",
        "SELECT*FROM/* é */'t.csv'",
        "SELECT*FROM--é\n't.csv'a SEMI JOIN't.csv'b USING(x)",
        "SELECT*FROM(FROM't.csv')UNION ALL FROM't.csv'WHERE y>1",
    ],
)
def test_a_query_needs_no_blank_before_the_name_of_a_file(run, tmp_path, query):
    (tmp_path / "t.csv").write_text("y,x\n1,2\n0,007\n")
    done = run.ok("convert", "-q", "--label", "y", "--categorical", "x", "--sql", query)
    assert done.stdout == b"1 x=2:1\n0 x=007:1\n"
    assert "2 rows" in run.ok("train", "--label", "y", "--categorical", "x", "-e", "1", "--sql", query).stderr


def test_a_part_of_a_query_hides_no_file(run, tmp_path):
    (tmp_path / "t.csv").write_text("y,x\n1,2\n0,007\n")
    query = """WITH "T.csv" AS (SELECT 5 AS y, 3 AS x) FROM 't.csv'"""
    done = run.fails(2, "convert", "--label", "y", "--sql", query)
    assert "the query names a part of it t.csv, like a file; give it another name after WITH" in done.stderr


def test_files_of_a_query_have_the_same_columns(run, tmp_path):
    (tmp_path / "a1.csv").write_text("y,x\n1,2\n")
    (tmp_path / "a2.csv").write_text("x,y\n1,2\n")
    done = run.fails(65, "convert", "--label", "y", "--sql", "FROM 'a*.csv'")
    assert "a2.csv has not the columns and the form of a1.csv" in done.stderr


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
        (["--sql", "SELECT time '12:30:00' AS \"user\""], 65, "the column 'user' has the type time, which is not read"),
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


def test_a_name_of_a_column_that_is_not_utf8_is_refused(run, tmp_path):
    table = "SELECT i % 2 AS y, 'u' || i % 3 AS aXXb FROM range(60) t(i)"
    duckdb.connect().execute(f"COPY ({table}) TO '{tmp_path / 't.parquet'}' (COMPRESSION uncompressed)")
    data = (tmp_path / "t.parquet").read_bytes()
    (tmp_path / "t.parquet").write_bytes(data.replace(b"aXXb", b"a\xff\xfeb"))
    for words in (("train", "--label", "y"), ("convert", "--label", "y"), ("train", "--label", "y", "--print-schema")):
        done = run.fails(65, *words, "t.parquet")
        assert "t.parquet: the name of a column is not UTF-8" in done.stderr
