"""The cases of tables: reading one, beside the text that `convert` writes of it and beside other readers."""

import os
from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path

import numpy as np

from fmcli.data.tables.named import ColumnRoles
from fmcli.data.tables.reading import TableSource
from fmcli.data.tables.surveying import schema_of
from fmcli.data.text import reader

COLUMNS = {"user": 6000, "item": 4000, "city": 300, "job": 20, "day": 7, "device": 3}
NUMBERS = ("age", "price")
# Rows that are written at a time.
LINES = 100_000


def lines(rows: int, seed: int = 0) -> Iterator[str]:
    """The lines of a table with a header: ids, names, numbers with fractions, and a label."""
    rng = np.random.default_rng(seed)
    yield ",".join([*COLUMNS, *NUMBERS, "stars"]) + "\n"
    for start in range(0, rows, LINES):
        count = min(LINES, rows - start)
        ids = [rng.integers(size, size=count).tolist() for size in COLUMNS.values()]
        names = [column if at < 2 else [f"name {one}" for one in column] for at, column in enumerate(ids)]
        numbers = [rng.random(count).round(3).tolist() for _ in NUMBERS]
        for cells in zip(*names, *numbers, rng.integers(1, 6, size=count).tolist(), strict=True):
            yield ",".join(map(str, cells)) + "\n"


class Tables:
    """A table, which is generated when a case first needs it, and the text that `convert` writes of it.

    bench : of cases.py.
    """

    def __init__(self, bench) -> None:
        self.bench = bench
        self.table, self.text = cache(self._table), cache(self._text)

    def _table(self) -> Path:
        path = self.bench.folder / "table.csv"
        with open(path, "w") as file:
            file.writelines(lines(self.bench.rows))
        return path

    def _text(self) -> Path:
        path = self.bench.folder / "table.libsvm"
        self.bench.command("convert", "--label", "stars", "-o", str(path), str(self.table()))
        return path

    def timed(self, name: str, run) -> float:
        """The seconds of a function that reads the table."""
        from cases import seconds

        table = self.table()
        return self.bench.per(name, seconds(lambda: run(str(table))), os.path.getsize(table), "MB/s")

    def read(self, name: str, threads: int) -> float:
        def run(path: str) -> None:
            schema, _ = schema_of([path], ColumnRoles("stars"), threads)
            reader.read([TableSource.of(path, schema, fields=False)], threads=threads)

        return self.timed(name, run)

    def read_text(self, name: str, threads: int) -> float:
        text = str(self.text())
        return self.timed(name, lambda _: reader.read([text], threads=threads))

    def convert(self, name: str) -> float:
        return self.timed(name, lambda path: self.bench.command("convert", "--label", "stars", "-o", "c", path))

    def pandas(self, name: str) -> float:
        import pandas
        from sklearn.preprocessing import OneHotEncoder

        def run(path: str) -> None:
            frame = pandas.read_csv(path)
            OneHotEncoder().fit_transform(frame[list(COLUMNS)])

        return self.timed(name, run)

    def duckdb(self, name: str, threads: int) -> float:
        import duckdb

        connection = duckdb.connect(config={"threads": threads})
        return self.timed(name, lambda path: connection.sql(f"SELECT * FROM read_csv('{path}')").fetchnumpy())


def table_cases(bench, installed, thread_counts, in_words) -> dict:
    """The cases by name."""
    tables, found = Tables(bench), {}

    def add(name: str, run, *arguments: object) -> None:
        found[name] = partial(run, name, *arguments)

    for threads in thread_counts:
        add(f"table: {in_words(threads)}", tables.read, threads)
        add(f"table: as text of convert, {in_words(threads)}", tables.read_text, threads)
    add("table: convert", tables.convert)
    if installed("pandas") and installed("sklearn"):
        add("table: pandas.read_csv and OneHotEncoder of scikit-learn", tables.pandas)
    if installed("duckdb"):
        for threads in thread_counts:
            add(f"table: DuckDB's reader, {in_words(threads)}", tables.duckdb, threads)
    return found
