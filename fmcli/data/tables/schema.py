"""The kinds of the columns of a table, and how each column is read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

from fmcli.base.rules import (
    BOOLEAN,
    EDGES,
    UNICODE,
    Rule,
    by_name,
    entries,
    fault,
    is_unicode,
    list_of,
    null_or,
    one_of,
    whole,
)
from fmcli.base.rules import NUMBER as FINITE
from fmcli.data.labels import is_number
from fmcli.errors import BadInputError
from fmcli.names import no_such
from fmcli.records import dataclass
from fmcli.text import escaped, number

LABEL, WEIGHT, GROUP, IGNORED = "label", "weight", "group", "ignored"
CATEGORY, SEVERAL, NUMBER, TIME, VECTOR = "category", "several", "number", "time", "vector"
FEATURES = (CATEGORY, SEVERAL, NUMBER, TIME, VECTOR)
# Kinds whose features are named after the column, or its places; features of other kinds append = and a cell.
NUMERIC = (NUMBER, TIME, VECTOR)
# The words for a cell, by the kind of its column.
EXPECTED = {NUMBER: "a number", TIME: "a date and time", VECTOR: "numbers", LABEL: "a label", WEIGHT: "a weight"}
TRUTHS = "true or false"
# The spelling of category names, in the order of the core: as it is; 1.0 as 1; True as true.
AS_IT_IS, WHOLE, TRUTH = range(3)
# How dates begin, in the order of the core: "" for neither the day nor the month.
ORDERS = ("", "day", "month")
# The text after the column's name in the features of a time, and in the features of a vector.
TIME_PARTS, PLACE = (".month=", ".weekday=", ".hour="), "["
WHOLE_NUMBER = re.compile(r"-?(0|[1-9]\d*)", re.ASCII)
# Such an integer in a cell, perhaps with zeros after a point.
WHOLE_CELL = re.compile(rf"({WHOLE_NUMBER.pattern})(?:\.0+)?", re.ASCII)
MOST_LENGTH = 2**31 - 1  # the length of vectors; each place is a feature


def is_part(value: Any) -> bool:
    """Return whether a value can separate cells, or names in a cell."""
    return is_unicode(value) and bool(value) and not {'"', "\r", "\n"} & set(value)


# The entries of a schema, and of a column, in a file, which may be untrusted.
TEXTS, PART = list_of(UNICODE), Rule("text without quotes and line breaks", is_part)
COLUMN = entries(
    {
        "name": UNICODE,
        "kind": one_of(LABEL, WEIGHT, GROUP, IGNORED, *FEATURES),
    },
    {
        "whole": BOOLEAN,
        "truths": BOOLEAN,
        "gaps": BOOLEAN,
        "missing": TEXTS,
        "means": list_of(FINITE),
    },
)
ENTRIES = {
    "columns": list_of(COLUMN),
    "separator": PART,
    "missing": TEXTS,
    "header": BOOLEAN,
    "delimiter": null_or(PART),
    "latin1": BOOLEAN,
    "joins": by_name(TEXTS),
    "decimal": one_of("", ".", ","),
    "orders": by_name(one_of(*ORDERS)),
    "hours": TEXTS,
    "lengths": by_name(whole(1, MOST_LENGTH)),
    "group": null_or(UNICODE),
    "bins": by_name(EDGES),
    "joined_names": by_name(TEXTS),
}


class ColumnForm(NamedTuple):
    """How a column is read, as `Scanner` takes it.

    role : one of `scanner.ROLES`.
    name : the column's name in text of features.
    expected : the words for a valid cell in a fault.
    prefix : the beginning of its features.
    spelling : how the names of a category are spelled.
    missing : cells that count as empty.
    gap_feature : whether a missing cell is a feature, whose name ends with =.
    means : the texts of the numbers that replace a missing cell: one, or one per place of a vector; empty: none.
    edges, bins : the numbers between the bins of a column of numbers, and the features of the bins: one more.
    order : the order of day and month in dates, an index of ORDERS.
    hours : whether the hours of times are features.
    length : the length of vectors.
    """

    role: str
    name: str = ""
    expected: str = ""
    prefix: str = ""
    spelling: int = AS_IT_IS
    missing: tuple[str, ...] = ()
    gap_feature: bool = False
    means: tuple[str, ...] = ()
    edges: tuple[float, ...] = ()
    bins: tuple[str, ...] = ()
    order: int = 0
    hours: bool = False
    length: int = 0


Layout = list[ColumnForm]


@dataclass(frozen=True)
class Schema:
    """The columns of a table and their kinds.

    kinds : column -> LABEL, WEIGHT, GROUP, IGNORED or one of FEATURES, in the order of the table. The fields of
        features are numbered in this order.
    group : the column with the groups of rows, of the kind GROUP or one of FEATURES; None: there is none.
    whole : categories whose cells are all integers, so 1.0 equals 1.
    truths : categories whose cells are all true or false, in any case.
    separator : the text between the names in a cell of SEVERAL.
    missing : cells that count as empty.
    markers : column of numbers -> further cells that count as empty.
    means : column of numbers, times or vectors -> the values that replace a missing cell: a mean, or one per place.
    gaps : columns whose missing cells are a feature; its name ends with =.
    bins : column of numbers -> the numbers between its bins, increasing; each bin is a feature.
    names : the names of the columns, if tables have no header.
    delimiter : the text between cells; None: the first of DELIMITERS in a table's first line.
    latin1 : whether the text is Latin-1; otherwise it is UTF-8.
    joins : column -> the columns of the table whose rows it refers to; in `kinds`, they follow the table's own columns.
    joined_names : column -> the names of the columns of the joined table, if it has no header.
    decimal : the decimal mark of numbers in local notation; "": numbers are plain.
    orders : column with dates -> one of ORDERS.
    hours : columns of times whose hours are features.
    lengths : column of vectors -> their length.
    """

    kinds: Mapping[str, str]
    group: str | None = None
    whole: frozenset[str] = frozenset()
    truths: frozenset[str] = frozenset()
    separator: str = "|"
    missing: tuple[str, ...] = ()
    markers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    means: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    gaps: frozenset[str] = frozenset()
    bins: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    names: tuple[str, ...] = ()
    delimiter: str | None = None
    latin1: bool = False
    joins: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    joined_names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    decimal: str = ""
    orders: Mapping[str, str] = field(default_factory=dict)
    hours: frozenset[str] = frozenset()
    lengths: Mapping[str, int] = field(default_factory=dict)

    def entry(self) -> dict[str, Any]:
        """Return the schema as JSON values, as in a model file. A column has the entries that are not empty."""
        columns: dict[str, dict[str, Any]] = {name: {"name": name, "kind": kind} for name, kind in self.kinds.items()}
        for key, names in (("whole", self.whole), ("truths", self.truths), ("gaps", self.gaps)):
            for name in names:
                columns[name][key] = True
        lists: tuple[tuple[str, Mapping[str, Sequence[Any]]], ...] = (("missing", self.markers), ("means", self.means))
        for key, values in lists:
            for name, some in values.items():
                if some:
                    columns[name][key] = list(some)
        return {
            "columns": list(columns.values()),
            "group": self.group,
            "separator": self.separator,
            "missing": list(self.missing),
            "bins": {column: list(edges) for column, edges in self.bins.items()},
            "header": not self.names,
            "delimiter": self.delimiter,
            "latin1": self.latin1,
            "joins": {column: list(names) for column, names in self.joins.items()},
            "joined_names": {column: list(names) for column, names in self.joined_names.items()},
            "decimal": self.decimal,
            "orders": dict(self.orders),
            "hours": sorted(self.hours),
            "lengths": dict(self.lengths),
        }

    @classmethod
    def of_entry(cls, entry: Mapping[str, Any]) -> Schema:
        """Return the schema of JSON values made by `entry`. Raises BadInputError for invalid values."""
        if wrong := fault(entry, ENTRIES, {}):
            raise BadInputError(f"its table is not described as tables are: {wrong}")
        schema = cls.of_valid(entry)
        kinds, lengths = schema.kinds, schema.lengths
        others = {name for names in schema.joins.values() for name in names}
        groups = [] if schema.group is None else [schema.group]
        named = {*schema.joins, *others, *schema.bins, *schema.orders, *schema.hours, *lengths, *groups}
        if len(kinds) < len(entry["columns"]):
            raise BadInputError("two columns of its table have one name")
        if unknown := sorted(named - kinds.keys()):
            raise BadInputError(f"it names {unknown[0]!r}, which is none of its columns")
        if {name for name, kind in kinds.items() if kind == VECTOR} != lengths.keys():
            raise BadInputError("the columns of vectors of its table, and only these, need lengths")
        for name, means in schema.means.items():
            if len(means) != lengths.get(name, 1):
                raise BadInputError(f"{name!r} has a number of means that is not its length")
        return schema

    @classmethod
    def of_valid(cls, entry: Mapping[str, Any]) -> Schema:
        """Return the schema of JSON values made by `entry`, which must be valid."""
        columns = entry["columns"]

        def said(key: str) -> dict[str, Any]:
            return {column["name"]: value for column in columns if (value := column.get(key))}

        kinds, joins = said("kind"), {column: tuple(names) for column, names in entry["joins"].items()}
        others = {name for names in joins.values() for name in names}
        return cls(
            kinds=kinds,
            group=entry["group"],
            whole=frozenset(said("whole")),
            truths=frozenset(said("truths")),
            separator=entry["separator"],
            missing=tuple(entry["missing"]),
            markers={name: tuple(texts) for name, texts in said("missing").items()},
            means={name: tuple(map(float, means)) for name, means in said("means").items()},
            gaps=frozenset(said("gaps")),
            bins={column: tuple(map(float, edges)) for column, edges in entry["bins"].items()},
            names=() if entry["header"] else tuple(name for name in kinds if name not in others),
            delimiter=entry["delimiter"],
            latin1=entry["latin1"],
            joins=joins,
            joined_names={column: tuple(names) for column, names in entry["joined_names"].items()},
            decimal=entry["decimal"],
            orders=dict(entry["orders"]),
            hours=frozenset(entry["hours"]),
            lengths=dict(entry["lengths"]),
        )

    @classmethod
    def of_names(cls, names: Iterable[str]) -> Schema:
        """Infer the columns from names of features that `convert` writes: column=cell, or column."""
        cells: dict[str, set[str]] = {}
        kinds, gaps = dict[str, str](), set[str]()
        for name in names:
            column, equals, cell = name.partition("=")
            if cell or not equals:
                kinds[column] = CATEGORY if equals else NUMBER
            if equals and not cell:
                gaps.add(column)
            elif equals:
                cells.setdefault(column, set()).add(cell)
        kinds = dict.fromkeys(sorted(gaps), CATEGORY) | kinds
        whole = frozenset(column for column, found in cells.items() if all(map(WHOLE_NUMBER.fullmatch, found)))
        truths = frozenset(column for column, found in cells.items() if found <= {"true", "false"})
        return cls(kinds, whole=whole, truths=truths, gaps=frozenset(gaps))

    @property
    def features(self) -> list[str]:
        """The columns with features. A column's position is its field."""
        return [name for name, kind in self.kinds.items() if kind in FEATURES]

    @property
    def label(self) -> str | None:
        """The column of labels, or None."""
        return next((name for name, kind in self.kinds.items() if kind == LABEL), None)

    def columns_of(self, names: Iterable[str]) -> Iterator[int | None]:
        """Yield, for each feature, the position among `features` of its column; None for other features."""
        place = {escaped(name): number for number, name in enumerate(self.features)}
        for name in names:
            begin = name.partition("=")[0]
            of_parts = (re.sub(r"\.(month|weekday|hour)$", "", begin), re.sub(r"\[\d+\]$", "", begin))
            yield next((place[one] for one in (name, begin, *of_parts) if one in place), None)

    def spelled(self, column: str, cell: str) -> str:
        """Return a cell as the names of a category are spelled: 1.0 as 1 in a column of integers, True as true."""
        if column in self.truths:
            return cell.lower() if cell.lower() in ("true", "false") else cell
        whole = WHOLE_CELL.fullmatch(cell) if column in self.whole else None
        return cell if whole is None else "0" if whole[1] == "-0" else whole[1]

    @property
    def numbers(self) -> list[str]:
        """The columns with features whose values are numbers."""
        return [name for name in self.features if self.kinds[name] in NUMERIC and name not in self.bins]

    @cached_property
    def apart(self) -> bool:
        """Whether different columns never share a feature: NAME= begins no other column's features."""
        starts = []
        for name in self.features:
            written, kind = escaped(name), self.kinds[name]
            has_values = kind in NUMERIC and name not in self.bins
            if has_values:
                starts.append(f"{written}{PLACE}" if kind == VECTOR else written)
            if kind == TIME:
                starts += [f"{written}{part}" for part in TIME_PARTS]
            if not has_values or name in self.gaps:
                starts.append(f"{written}=")
        starts.sort()
        return not any(one.endswith(("=", PLACE)) and other.startswith(one) for one, other in pairwise(starts))

    def with_missing(self, texts: Iterable[str]) -> Schema:
        """Return the schema with further cells that count as empty."""
        return replace(self, missing=tuple(dict.fromkeys([*self.missing, *texts])))

    def of_joined(self, column: str) -> Schema:
        """Return how the table that is joined by a column is read."""
        return replace(self, names=self.joined_names.get(column, ()), delimiter=None)

    def check(self, names: Sequence[str], source: str, *, training: bool) -> None:
        """Raise BadInputError, which names the source, if a table with these columns lacks a needed column: a feature,
        or in training any column that is used."""
        if training and LABEL not in self.kinds.values():
            raise BadInputError(
                f"{source}: it is not known which column is the label, because the model was not trained on a table; "
                "write the rows and their labels as text by fmcli convert"
            )
        others = {name for joined in self.joins.values() for name in joined}
        needed = [name for name, kind in self.kinds.items() if kind in FEATURES or (training and kind != IGNORED)]
        known = {*names}
        for name in [*self.joins, *(one for one in needed if one not in others)]:
            if name not in known:
                raise BadInputError(f"{source}: {no_such('column', name, list(names))}")

    def has_joined(self, column: str, names: Sequence[str]) -> bool:
        """Return whether a table with these columns already contains the feature columns of the table joined by
        `column`."""
        joined = {*self.joins.get(column, ())} & {*self.features}
        return bool(joined) and joined <= {*names}

    def layout(self, names: Sequence[str], *, fields: bool) -> Layout:
        """Return the columns of a table with these names, as `Scanner` takes them. Columns without a kind are ignored.

        fields : whether features have fields.
        """
        place = {name: f"{at}:" for at, name in enumerate(self.features)} if fields else {}
        found = []
        for name in names:
            kind = self.kinds.get(name, IGNORED)
            written = escaped(name)
            prefix = place.get(name, "") + (written if kind in NUMERIC else f"{written}=")
            edges = self.bins.get(name, ()) if kind == NUMBER else ()
            texts = ["", *map(number, edges), ""]
            expected = TRUTHS if name in self.truths else EXPECTED.get(kind, "a cell")
            found.append(
                ColumnForm(
                    role=IGNORED if kind == GROUP else kind,
                    name=written,
                    expected=f"{expected} in the column {name!r}",
                    prefix=prefix,
                    spelling=WHOLE if name in self.whole else TRUTH if name in self.truths else AS_IT_IS,
                    missing=self.missing + self.markers.get(name, ()),
                    gap_feature=name in self.gaps,
                    means=tuple(map(number, self.means.get(name, ()))),
                    edges=edges,
                    bins=tuple(f"{prefix}={low}..{high}" for low, high in pairwise(texts)) if edges else (),
                    order=ORDERS.index(self.orders.get(name, "")),
                    hours=name in self.hours,
                    length=self.lengths.get(name, 0),
                )
            )
        return found


def is_header(names: Sequence[str]) -> bool:
    """Return whether a table's first row can be its header: some cells have text, and no cell is a number."""
    return any(names) and not any(is_number(name.encode(errors="surrogateescape")) for name in names if name)
