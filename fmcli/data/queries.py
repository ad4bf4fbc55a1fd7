"""Parquet files and results of queries as text, read by DuckDB; and text written as Parquet.

Imported only when needed."""

from __future__ import annotations

import json
from collections.abc import Container, Mapping
from typing import Any

from fmcli.data.arrow import ArrowError, ArrowStream
from fmcli.errors import BadInputError, MissingInputError, OutputError, UsageError
from fmcli.system.addresses import QUERY
from fmcli.system.memory import available
from fmcli.system.query_files import with_types
from fmcli.text import shell_word

INSTALL = "pip install duckdb"
# DuckDB gets at most MOST_MEMORY bytes, and at most 1 / SHARE_OF_FREE of the free memory.
MOST_MEMORY, SHARE_OF_FREE = 1 << 30, 4
# DuckDB writes no files: no sorts that exceed memory, no extensions, no secrets.
CONFIGURATION = {
    "threads": 1,
    "temp_directory": "",
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "allow_persistent_secrets": False,
}
# The longest line of a written table: LEAST_LINE for a name and other columns, and MOST_DIGITS bytes per number.
LEAST_LINE, MOST_DIGITS = 1 << 21, 32
# The beginning of the Arrow format of a type that is not read -> its name.
TYPES = {
    "tt": "time",
    "tD": "duration",
    "ti": "interval",
    "+s": "struct",
    "+m": "map",
    "+w": "fixed-size list of such cells",
    "+vl": "list view",
    "+l": "list of such cells",
    "+L": "list of such cells",
    "w:": "binary",
    "z": "binary",
    "Z": "binary",
    "vz": "binary",
    "e": "float16",
}
# The Arrow formats of integers.
WHOLE_NUMBERS = tuple("cCsSiIlL")


class StreamText:
    """A stream of Arrow batches as text: CSV with a header.

    source : the object with the stream.
    name : the name of the input in messages.
    used : as in sources.FileRange.
    texts : the text columns.
    types : column -> whether it has numbers, not names; columns of other types are left out.
    vectors : the columns of lists with fractions, or of lists with one common length.
    unread : the columns that are left out.

    Raises BadInputError for columns whose types are not read, UsageError if the source lacks a package.
    """

    # Where to leave out a column, and the option for it.
    place, advice = "", dict[str, Any]()

    def __init__(self, source: Any, name: str, used: Container[str] | None = None) -> None:
        self._name = name
        try:
            require_sound(source)
            self._stream = ArrowStream(source)
        except ImportError as error:
            raise UsageError(f"{name} needs pyarrow to be read, as frames of pandas do: pip install pyarrow") from error
        except (ArrowError, NotImplementedError, TypeError, ValueError) as error:  # raised by the producer
            raise BadInputError(f"{name}: {'; '.join(map(str, error.args))}") from error
        chosen = [column for column, _, readable in self._stream.columns if readable]
        unread = {column: format for column, format, readable in self._stream.columns if not readable}
        for column, format in unread.items():
            if used is not None and column not in used:
                continue
            raise BadInputError(
                f"{name}: the column {column!r} has the type {_type_name(source, column, format)}, which is not read; "
                f"cast it to a number or text, or leave it out{self.place}",
                **self.advice,
            )
        self._stream.choose(chosen)
        self.texts, self.vectors, self.unread = self._stream.texts, self._stream.vectors, frozenset(unread)
        self.types = self._stream.types

    @property
    def about(self) -> dict[str, Any]:
        """What is known about the columns, as attributes of a TextBuffer."""
        return {"texts": self.texts, "vectors": self.vectors, "unread": self.unread, "types": self.types}

    def readinto(self, room: memoryview) -> int:
        """Write text into a buffer, as a file does."""
        try:
            return self._stream.readinto(room)
        except ArrowError as error:
            at = "" if error.column is None else f", row {error.row}, column {error.column!r}"
            raise BadInputError(f"{self._name}{at}: {error}") from error


def require_sound(source: Any) -> None:
    """Raise ArrowError for a pyarrow table whose buffers contradict each other. A stream does not tell the sizes of the
    buffers; pyarrow knows them."""
    if type(source).__module__.partition(".")[0] == "pyarrow" and hasattr(source, "validate"):
        try:
            source.validate(full=True)
        except (ArithmeticError, ValueError) as error:  # pyarrow's errors are subclasses of ValueError
            raise ArrowError(str(error)) from error


class QueryText(StreamText):
    """The result of a query as text.

    query : one SELECT statement.

    Raises UsageError if DuckDB is not installed or the statement is not a SELECT, MissingInputError and BadInputError.
    """

    place, advice = ", in a query", dict[str, Any](sql=None)

    def __init__(self, query: str, name: str, used: Container[str] | None = None) -> None:
        self._name, self._duckdb = name, _duckdb(name)
        try:
            connection = _connect(self._duckdb)
            self._require_select(connection, query)
            super().__init__(connection.sql(with_types(connection, query, name)), name, used)
            self.types = {}  # the cells tell, as in text
        except self._duckdb.Error as error:
            raise self._located(error) from error
        except (RuntimeError, UnicodeDecodeError) as error:  # from the binding, which makes Python strings of names
            raise BadInputError(f"{name}: the name of a column is not UTF-8") from error

    def _require_select(self, connection: Any, query: str) -> None:
        found = connection.extract_statements(query)
        if len(found) != 1 or found[0].type != self._duckdb.StatementType.SELECT:
            raise UsageError(f"{self._name} is not one SELECT statement")

    def _located(self, error: Exception) -> BadInputError | MissingInputError:
        text = " ".join(str(error).split())
        if isinstance(error, self._duckdb.IOException):
            return MissingInputError(f"cannot read {self._name}: {text}")
        return BadInputError(f"{self._name}: {text}")


def query(path: str, used: Container[str] | None = None) -> QueryText:
    """Return the text of the result of a query, given as the name of an input. Raises the errors of QueryText."""
    return QueryText(path.removeprefix(QUERY), "the query", used)


def parquet(path: str, used: Container[str] | None = None) -> QueryText:
    """Return the text of a Parquet file. Raises the errors of QueryText."""
    if any(character in path for character in "*?["):
        raise UsageError(f"{shell_word(path)}: the name of a Parquet file must not have the characters * ? [")
    quoted = path.replace("'", "''")
    return QueryText(f"SELECT * FROM read_parquet('{quoted}')", path, used)


def is_ordered(query: str) -> bool:
    """Return whether the result of a query has a fixed order. Raises UsageError if DuckDB is not installed."""
    connection = _connect(_duckdb("a query"))
    (text,) = connection.execute("SELECT json_serialize_sql(?::VARCHAR)", [query]).fetchone()
    statements = json.loads(text).get("statements", [])
    modifiers = statements[0]["node"]["modifiers"] if statements else []
    return any(modifier["type"] == "ORDER_MODIFIER" for modifier in modifiers)


def write_as_parquet(text: int, types: Mapping[str, str], file: int, name: str) -> None:
    """Convert tab-separated text with a header to Parquet, from one open file descriptor to another. types : column ->
    DuckDB type; name : the name of the output in messages.

    Raises UsageError if DuckDB is not installed, and OutputError.
    """
    duckdb = _duckdb(name)
    columns = json.dumps(types)
    longest = max(LEAST_LINE, len(types) * MOST_DIGITS)
    try:
        _connect(duckdb).execute(
            f"COPY (SELECT * FROM read_csv('/dev/fd/{text}', delim='\t', header=true, quote='', escape='', "
            f"auto_detect=false, max_line_size={longest}, columns={columns})) "
            f"TO '/dev/fd/{file}' (FORMAT parquet, USE_TMP_FILE false)"
        )
    except duckdb.Error as error:
        raise OutputError(f"{name}: cannot be written: {' '.join(str(error).split())}") from error


def bytes_needed() -> int:
    """Return the most bytes that DuckDB takes while inputs are read."""
    return min(MOST_MEMORY, available() // SHARE_OF_FREE)


def _connect(duckdb: Any) -> Any:
    return duckdb.connect(":memory:", config={**CONFIGURATION, "memory_limit": f"{bytes_needed()}B"})


def _duckdb(name: str) -> Any:
    try:
        import duckdb
    except ImportError as error:
        raise UsageError(f"{name} needs DuckDB: {INSTALL}") from error
    return duckdb


def _type_name(source: Any, column: str, format: str) -> str:
    """Return the name of a column's type; for pandas frames, pandas' name."""
    if hasattr(source, "iloc"):
        of_pandas = source.dtypes.get(column)
        values = getattr(getattr(of_pandas, "categories", None), "dtype", None)
        return f"{of_pandas}" if values is None else f"{of_pandas} of {values}"
    if format in WHOLE_NUMBERS:  # positions in a dictionary whose type is not read
        return "dictionary of such values"
    return next((name for begin, name in TYPES.items() if format.startswith(begin)), format)
