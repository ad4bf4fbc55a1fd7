"""CSV and JSON files that a query reads by name.

DuckDB guesses the types of columns from the first rows, and casts later cells to these types: 1.6 becomes 2, and 007
becomes 7. Here, all rows decide the types; a column is text unless another type holds every cell exactly."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import PurePath
from typing import Any, NamedTuple

from fmcli.errors import BadInputError, UsageError

CSV, JSON = re.compile(r"\.[ct]sv\b", re.IGNORECASE), re.compile(r"\.(?:json|jsonl|ndjson)\b", re.IGNORECASE)
TEXT = "VARCHAR"
# Types of columns, in order of preference -> the pattern of cells that the type holds exactly. Ids that only look like
# numbers do not match: they have leading zeros, more digits than a number holds exactly, or an e among digits.
EXACT = {
    "BIGINT": "-?(?:0|[1-9][0-9]{0,14})",
    "DOUBLE": r"-?(?:0|[1-9][0-9]{0,14})(?:\.[0-9]+)?|-?[0-9](?:\.[0-9]+)?[eE][-+][0-9]+",
    "BOOLEAN": "(?i)true|false",
}
# Types that DuckDB guesses -> the types to try first; for text, none: no cell had another type.
INTEGERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT")
GUESSED = {
    **dict.fromkeys((*INTEGERS, *(f"U{type}" for type in INTEGERS)), "BIGINT"),
    **{"FLOAT": "DOUBLE", "DOUBLE": "DOUBLE", "BOOLEAN": "BOOLEAN", TEXT: TEXT},
}
# Parameters for reading a CSV file -> DuckDB's names for them, and DuckDB's words for unknown parameters.
FORM = {
    **{
        "delim": "Delimiter",
        "quote": "Quote",
        "escape": "Escape",
        "comment": "Comment",
        "new_line": "NewLineDelimiter",
    },
    **{"skip": "SkipRows", "header": "HasHeader", "dateformat": "DateFormat", "timestampformat": "TimestampFormat"},
}
UNKNOWN = (None, "(empty)")
# Types of times to keep -> the parameters of their forms; these forms leave no doubt about the month.
ISO, TIMES = "%Y-%m-%d", {"DATE": "dateformat", "TIMESTAMP": "timestampformat"}
QUOTES = {"quote": '"', "escape": '"'}  # if no cell in the first rows has a quote
# Functions that guess types -> sets of words; a call with all words of one set does not guess.
CSV_TYPES, JSON_TYPES = ({"columns"}, {"all_varchar", "true"}), ({"columns"},)
GUESSING = {
    **dict.fromkeys(("read_csv", "read_csv_auto"), CSV_TYPES),
    **dict.fromkeys(("read_json", "read_json_auto", "read_ndjson", "read_ndjson_auto"), JSON_TYPES),
}
# Functions that read the file or table named by a text argument.
INDIRECT = ("query", "query_table")


class FileInQuery(NamedTuple):
    """A file in a query: its name, its position in bytes, and whether its rows have another name there."""

    name: str
    at: int
    named: bool


def with_types(connection: Any, query: str, source: str) -> str:
    """Return a query with the types of each file's columns. Raises BadInputError, UsageError and DuckDB's errors.

    source : the query's name in messages.
    """
    ((text,),) = connection.execute("SELECT json_serialize_sql(?::VARCHAR)", [query]).fetchall()
    tree = json.loads(text)
    if tree["error"]:
        raise BadInputError(f"{source}: DuckDB cannot tell which files it reads: {tree['error_message']}")
    code = query.encode()
    for found in sorted(_files(tree, source), key=lambda found: -found.at):
        written = next((len(name) for name in _spellings(found.name) if code.startswith(name, found.at)), None)
        if written is None:
            raise BadInputError(f"{source}: {found.name} is not found in it; write its name in single quotes")
        reader = _typed_csv if CSV.search(found.name) else _typed_json
        call = f" {reader(connection, found.name)}"  # a blank may be missing before a quoted name
        if not found.named:
            call += f' AS "{PurePath(found.name).name.partition(".")[0]}"'
        code = code[: found.at] + call.encode() + code[found.at + written :]
    return code.decode()


def _spellings(name: str) -> list[bytes]:
    return [one.encode() for one in (_quoted(name), '"' + name.replace('"', '""') + '"', name)]


def _files(tree: Any, source: str) -> Iterator[FileInQuery]:
    """Yield the files in a parsed query. Raises UsageError for functions that guess types, and for a WITH clause that
    hides a file."""
    nodes = [*_nodes(tree)]
    hidden = {part["key"].lower() for node in nodes for part in node.get("cte_map", {}).get("map", ())}
    for node in nodes:
        if node.get("type") == "BASE_TABLE":
            name = ".".join(filter(None, (node.get(part) for part in ("catalog_name", "schema_name", "table_name"))))
            if not CSV.search(name) and not JSON.search(name):
                continue
            if name.lower() in hidden:
                raise UsageError(f"{source} names a part of it {name}, like a file; give it another name after WITH")
            yield FileInQuery(name, node["query_location"], bool(node["alias"]))
        elif node.get("type") == "TABLE_FUNCTION":
            _require_types(node["function"], source)


def _nodes(tree: Any) -> Iterator[dict[str, Any]]:
    """Yield all objects in a JSON tree."""
    if isinstance(tree, dict):
        yield tree
    if isinstance(tree, (dict, list)):
        for part in tree.values() if isinstance(tree, dict) else tree:
            yield from _nodes(part)


def _require_types(function: Any, source: str) -> None:
    name = function["function_name"].lower()
    if name in INDIRECT:
        raise UsageError(f"{source} calls {name}(), whose text is not read here; write that query itself")
    if name not in GUESSING:
        return
    for given in function.get("arguments", function.get("children", ())):
        words = {str(word).lower() for word in _leaves(given)}
        if any(needed <= words for needed in GUESSING[name]):
            return
    text = "or add all_varchar = true" if GUESSING[name] is CSV_TYPES else "or give columns = {..}"
    raise UsageError(
        f"{source} calls {name}(), which guesses types from the first rows and may change cells behind them; write "
        f"only the name of the file, in quotes, and all rows tell the types, {text} and cast what is not text"
    )


def _leaves(tree: Any) -> Iterator[Any]:
    if isinstance(tree, (dict, list)):
        for part in tree.values() if isinstance(tree, dict) else tree:
            yield from _leaves(part)
    else:
        yield tree


def _typed_csv(connection: Any, name: str) -> str:
    """Return the call that reads CSV files with types that fit all rows."""
    files = [path for (path,) in connection.execute("SELECT file FROM glob(?)", [name]).fetchall()] or [name]
    sniffed = [_sniffed(connection, file) for file in files]
    form, types = sniffed[0]
    for file, (other_form, others) in zip(files, sniffed, strict=True):
        if [*others] != [*types] or any(form.setdefault(one, text) != text for one, text in other_form.items()):
            raise BadInputError(f"{file} has not the columns and the form of {files[0]}, so {name} is not a table")
        types = {column: type if others[column] == type else TEXT for column, type in types.items()}
    written = "".join(f"{parameter} = {_quoted(text)}, " for parameter, text in {**QUOTES, **form}.items())
    tested = [column for column, type in types.items() if type in GUESSED]
    return _tested(connection, "read_csv", name, f"auto_detect = false, {written}", types, tested)


def _sniffed(connection: Any, file: str) -> tuple[dict[str, str], dict[str, str]]:
    """Return the parameters to read a CSV file with, and the types of its columns."""
    form, types = _sniffed_in(connection, "FROM sniff_csv(?)", file)
    if {*types.values()} <= {*GUESSED}:
        return form, types
    form, types = _sniffed_in(connection, "FROM sniff_csv(?, sample_size = -1)", file)  # dates, which are not tested
    kept = {*GUESSED, *(type for type, parameter in TIMES.items() if form.get(parameter, ISO).startswith(ISO))}
    return form, {column: type if type in kept else TEXT for column, type in types.items()}


def _sniffed_in(connection: Any, query: str, file: str) -> tuple[dict[str, str], dict[str, str]]:
    cursor = connection.execute(query, [file])
    names = [column[0] for column in cursor.description]
    (row,) = cursor.fetchall()
    found = dict(zip(names, row, strict=True))
    form = {parameter: str(found[field]) for parameter, field in FORM.items() if found[field] not in UNKNOWN}
    return form, {column["name"]: str(column["type"]) for column in found["Columns"]}


def _typed_json(connection: Any, name: str) -> str:
    """Return the call that reads JSON files with types that fit all rows. DuckDB's type JSON means cells of several
    types."""
    described = connection.execute("DESCRIBE FROM read_json(?, sample_size = -1)", [name]).fetchall()
    types = {column: TEXT if type == "JSON" else type for column, type, *_ in described}
    tested = [column for column, type in types.items() if type in GUESSED and type != TEXT]
    return _tested(connection, "read_json", name, "", types, tested)


def _tested(connection: Any, function: str, name: str, form: str, types: dict[str, str], tested: Sequence[str]) -> str:
    """Return the call of a function that reads files. Each tested column gets the first type that holds all cells
    exactly, or is text."""
    found = types | dict.fromkeys(tested, TEXT)
    as_text = _call(function, name, form, found)
    guesses = {column: GUESSED[types[column]] for column in tested}
    any_type = "|".join(f"(?:{exact})" for exact in EXACT.values())
    are_guessed = _hold(connection, as_text, [(one, EXACT.get(type, any_type)) for one, type in guesses.items()])
    wrong = [one for one, is_guessed in zip(guesses, are_guessed, strict=True) if is_guessed == (guesses[one] == TEXT)]
    found |= {column: type for column, type in guesses.items() if column not in wrong}
    exact = iter(_hold(connection, as_text, [(column, exact) for column in wrong for exact in EXACT.values()]))
    for column in wrong:
        holding = [type for type in EXACT if next(exact)]
        found[column] = next(iter(holding), TEXT)
    return _call(function, name, form, found)


def _hold(connection: Any, call: str, forms: Sequence[tuple[str, str]]) -> Sequence[bool]:
    """Return, for each (column, pattern), whether all cells of the column match the pattern; false without cells."""
    tests = [f"coalesce(bool_and(regexp_full_match({_name(one)}, {_quoted(form)})), false)" for one, form in forms]
    ((*hold,),) = connection.execute(f"SELECT {', '.join(tests)} FROM {call}").fetchall() if tests else ((),)
    return hold


def _call(function: str, name: str, form: str, types: dict[str, str]) -> str:
    columns = ", ".join(f"{_quoted(column)}: {_quoted(type)}" for column, type in types.items())
    return f"{function}({_quoted(name)}, {form}columns = {{{columns}}})"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _name(column: str) -> str:
    return '"' + column.replace('"', '""') + '"'
