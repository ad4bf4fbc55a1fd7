"""The kinds of the columns of a table: as they were named, or as all of their cells say."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from itertools import islice, pairwise
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
from fmcli.data.markers import MARKERS
from fmcli.data.tables.unclear import (
    MOST_DESCRIBED,
    MOSTLY,
    NAMES,
    SOME,
    UNCLEAR_DATES,
    cause,
    date_order,
    decimal_marks,
    described,
    joined,
    listed,
    purpose,
    shown,
)
from fmcli.errors import LEAVE_OUT, Also, BadInputError, UsageError
from fmcli.names import listing, no_such, repeated
from fmcli.records import dataclass
from fmcli.text import escaped, number

LABEL, WEIGHT, GROUP, IGNORED = "label", "weight", "group", "ignored"
CATEGORY, SEVERAL, NUMBER, TIME, VECTOR = "category", "several", "number", "time", "vector"
FEATURES = (CATEGORY, SEVERAL, NUMBER, TIME, VECTOR)
# The kinds with a feature of the name of the column, or of its places; the features of others have a cell behind =.
NUMERIC = (NUMBER, TIME, VECTOR)
# A column of whole numbers has names if there are so many rows to each of them: few of them, as hours, days and months,
# often act each in its own way, but among many, such as ages, most act as their neighbors do.
ROWS_PER_NAME, FEW_NAMES, ROWS_PER_FEW = 100, 31, 40
# The same for a column that is named as ids are. With fewer rows, little is learned about each id.
ROWS_PER_ID = 5
# Whole numbers are ids or measurements if so large a share of them are different: only their user knows which.
NEARLY_ALL = 0.9
# If a column of numbers has no more unusual words than these, they may be missing values, too.
FEW_WORDS = 2
# The last word of the name of a column of ids. Some end with "id" without a boundary, as userid does.
ENTITIES = (
    *("user", "item", "customer", "client", "member", "visitor", "session", "product", "article", "movie", "film"),
    *("book", "song", "track", "artist", "video", "restaurant", "hotel", "shop", "store", "seller", "merchant", "ad"),
    *("device", "campaign", "zip", "postal", "post"),
)
ID_NAME = re.compile(rf"({'|'.join(ENTITIES)})?[ _]?(id|ids|key|code)|[uipcsto]id|uuid|guid|{'|'.join(ENTITIES)}")
# Where a word of a name begins: at a capital behind a small letter, or behind a sign.
WORDS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[^A-Za-z0-9]+")
# What a missing cell is a feature of: columns of numbers with gaps in training, no column, all columns.
AUTO, NEVER, EVERY = "auto", "none", "feature"
# The words for a cell, by the kind of its column.
EXPECTED = {NUMBER: "a number", TIME: "a date and time", VECTOR: "numbers", LABEL: "a label", WEIGHT: "a weight"}

# How the names of a category are spelled, in the order of the core: 1.0 as 1, True as true.
AS_IT_IS, WHOLE, TRUTH = range(3)
# What dates may begin with, in the order of the core; "": neither the day nor the month.
ORDERS = ("", "day", "month")
# What follows the name of a column in the features of a time, and in those of a vector.
TIME_PARTS, PLACE = (".month=", ".weekday=", ".hour="), "["
WHOLE_NUMBER = re.compile(r"-?(0|[1-9]\d*)", re.ASCII)
MOST_LENGTH = 2**31 - 1  # of vectors, whose places are features


def is_part(value: Any) -> bool:
    """Return whether a value can part cells, or names in a cell."""
    return is_unicode(value) and bool(value) and not {'"', "\r", "\n"} & set(value)


# The entries of a schema in a file, which may be untrusted, and those of a column.
TEXTS, PART = list_of(UNICODE), Rule("text without quotes and line breaks", is_part)
COLUMN = entries(
    {
        "name": UNICODE,
        "kind": one_of(LABEL, WEIGHT, GROUP, IGNORED, *FEATURES),
        "whole": BOOLEAN,
        "truths": BOOLEAN,
        "missing": TEXTS,
        "means": list_of(FINITE),
        "gaps": BOOLEAN,
    }
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
    name : in text of features.
    expected : what a fault in it expects.
    prefix : the beginning of its features.
    spelling : of the names of a category.
    missing : cells that are like empty ones.
    gap_feature : whether a missing cell is a feature, whose name ends with =.
    means : the texts of the numbers that stand for a missing cell: one, or those of a vector; empty: nothing does.
    edges, bins : the numbers that part the bins of a column of numbers, and the features of the bins: one more.
    order : of day and month in dates, the number of one of ORDERS.
    hours : whether the hours of times are features.
    length : of vectors.
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
    group : the column that tells the groups of rows, of the kind GROUP or one of FEATURES; None: there is none.
    whole : categories whose cells are all whole numbers, so that 1.0 and 1 are the same.
    truths : categories whose cells are all true or false, in any case.
    separator : of the names in a cell of SEVERAL.
    missing : cells that are like empty ones.
    markers : column of numbers -> further such cells of it.
    means : column of numbers, times or vectors -> what stands for a missing cell: a mean, or one for each place.
    gaps : columns of which a missing cell is a feature, whose name ends with =.
    bins : column of numbers -> the numbers that part its bins, increasing; each bin is a feature.
    names : of the columns, if tables have no header.
    delimiter : of cells; None: the first of DELIMITERS that a table's first line has.
    latin1 : whether the text is Latin-1; else it is UTF-8.
    joins : column -> the columns of another table, whose rows it refers to; they follow those of the table in `kinds`.
    joined_names : column -> the names of the columns of that table, if it has no header.
    decimal : the decimal mark of numbers in local notation; "": numbers are plain.
    orders : column with dates -> what they begin with, one of ORDERS.
    hours : columns of times whose hours are features.
    lengths : column of vectors -> the length of each.
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
        """Return the schema as JSON values, as in a model file."""
        return {
            "columns": [
                {
                    "name": name,
                    "kind": kind,
                    "whole": name in self.whole,
                    "truths": name in self.truths,
                    "missing": list(self.markers.get(name, ())),
                    "means": list(self.means.get(name, ())),
                    "gaps": name in self.gaps,
                }
                for name, kind in self.kinds.items()
            ],
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
        """Return the schema that `entry` has made into JSON values. Raises BadInputError for others."""
        if wrong := fault(entry, ENTRIES, {}):
            raise BadInputError(f"its table is not described as tables are: {wrong}")
        columns = entry["columns"]
        kinds = {column["name"]: column["kind"] for column in columns}
        joins = {column: tuple(names) for column, names in entry["joins"].items()}
        others = {name for names in joins.values() for name in names}
        of_kind = next((name for name, kind in kinds.items() if kind == GROUP), None)
        group, bins, orders, lengths = (
            entry.get("group", of_kind),
            entry.get("bins", {}),
            entry["orders"],
            entry["lengths"],
        )
        named = {*joins, *others, *bins, *orders, *entry["hours"], *lengths, *([] if group is None else [group])}
        if len(kinds) < len(columns):
            raise BadInputError("two columns of its table have one name")
        if unknown := sorted(named - kinds.keys()):
            raise BadInputError(f"it names {unknown[0]!r}, which is none of its columns")
        if {name for name, kind in kinds.items() if kind == VECTOR} != lengths.keys():
            raise BadInputError("the columns of vectors of its table, and only these, need lengths")
        for column in columns:
            if len(column["means"]) not in (0, lengths.get(column["name"], 1)):
                raise BadInputError(f"{column['name']!r} has a number of means that is not its length")
        return cls(
            kinds,
            group,
            frozenset(column["name"] for column in columns if column["whole"]),
            frozenset(column["name"] for column in columns if column["truths"]),
            entry["separator"],
            tuple(entry["missing"]),
            {column["name"]: tuple(column["missing"]) for column in columns if column["missing"]},
            {column["name"]: tuple(map(float, column["means"])) for column in columns if column["means"]},
            frozenset(column["name"] for column in columns if column["gaps"]),
            {column: tuple(map(float, edges)) for column, edges in bins.items()},
            () if entry["header"] else tuple(name for name in kinds if name not in others),
            entry["delimiter"],
            entry["latin1"],
            joins,
            {column: tuple(names) for column, names in entry["joined_names"].items()},
            entry["decimal"],
            dict(orders),
            frozenset(entry["hours"]),
            dict(lengths),
        )

    @classmethod
    def of_names(cls, names: Iterable[str]) -> Schema:
        """Return the columns that these names of features tell, as `convert` writes them: column=cell, or column."""
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
        """The columns that have features, whose places are their fields."""
        return [name for name, kind in self.kinds.items() if kind in FEATURES]

    @property
    def label(self) -> str | None:
        """The column of labels; None: there is none."""
        return next((name for name, kind in self.kinds.items() if kind == LABEL), None)

    def columns_of(self, names: Iterable[str]) -> Iterator[int | None]:
        """Yield the place among `features` of the column that each feature comes from; None for other features."""
        place = {escaped(name): number for number, name in enumerate(self.features)}
        for name in names:
            begin = name.partition("=")[0]
            of_parts = (re.sub(r"\.(month|weekday|hour)$", "", begin), re.sub(r"\[\d+\]$", "", begin))
            yield next((place[one] for one in (name, begin, *of_parts) if one in place), None)

    @property
    def numbers(self) -> list[str]:
        """The columns with features that have numbers as values."""
        return [name for name in self.features if self.kinds[name] in NUMERIC and name not in self.bins]

    @property
    def apart(self) -> bool:
        """Whether cells of different columns are never the same feature: NAME= begins no other column's features."""
        numbers = {*self.numbers}
        named = [name for name in self.features if name in self.gaps or name not in numbers]
        times = [name for name in numbers if self.kinds[name] == TIME]
        vectors = {name for name in numbers if self.kinds[name] == VECTOR}
        starts = sorted(
            [
                *(escaped(name) for name in numbers if name not in vectors),
                *(f"{escaped(name)}=" for name in named),
                *(f"{escaped(name)}{part}" for name in times for part in TIME_PARTS),
                *(f"{escaped(name)}{PLACE}" for name in vectors),
            ]
        )
        return not any(one.endswith(("=", PLACE)) and other.startswith(one) for one, other in pairwise(starts))

    def with_missing(self, texts: Iterable[str]) -> Schema:
        """Return the schema with further cells that are like empty ones."""
        return replace(self, missing=tuple(dict.fromkeys([*self.missing, *texts])))

    def of_joined(self, column: str) -> Schema:
        """Return how the table is read to whose rows a column refers."""
        return replace(self, names=self.joined_names.get(column, ()), delimiter=None)

    def check(self, names: Sequence[str], source: str, *, training: bool) -> None:
        """Raise BadInputError, which names the source, if a table with columns of these names lacks one that is needed:
        the features, and in training the others that are used."""
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
        """Return whether a table with columns of these names has those with features itself that are joined by a
        column, as the table has that is joined."""
        joined = {*self.joins.get(column, ())} & {*self.features}
        return bool(joined) and joined <= {*names}

    def layout(self, names: Sequence[str], *, fields: bool) -> Layout:
        """Return the columns of a table with these names, as `Scanner` takes them. Columns without a kind are ignored.

        fields : whether features have fields.
        """
        place = {name: at for at, name in enumerate(self.features)}
        found = []
        for name in names:
            kind = self.kinds.get(name, IGNORED)
            field_of = f"{place[name]}:" if fields and name in place else ""
            prefix = f"{field_of}{escaped(name)}{'' if kind in NUMERIC else '='}"
            expected = f"{EXPECTED.get(kind, 'a cell')} in the column {name!r}"
            role = IGNORED if kind == GROUP else kind
            spelling = WHOLE if name in self.whole else TRUTH if name in self.truths else AS_IT_IS
            edges = self.bins.get(name, ()) if kind == NUMBER else ()
            texts = ["", *(number(edge) for edge in edges), ""] if edges else []
            found.append(
                ColumnForm(
                    role,
                    escaped(name),
                    expected,
                    prefix,
                    spelling,
                    (*self.missing, *self.markers.get(name, ())),
                    name in self.gaps,
                    tuple(map(number, self.means.get(name, ()))),
                    edges,
                    tuple(f"{prefix}={low}..{high}" for low, high in pairwise(texts)),
                    ORDERS.index(self.orders.get(name, "")),
                    name in self.hours,
                    self.lengths.get(name, 0),
                )
            )
        return found


@dataclass(frozen=True)
class Named:
    """The columns that a caller has named.

    label, weight, group : single columns; None: there is none. The group may also be a feature.
    categorical, numeric, several, ignored, vectors : the columns of a kind.
    aside : a column that is ignored unless it has a kind.
    form : how tables are read; its kinds do not count.
    bins : the number of bins of each column of numbers; 0: their features have the numbers as values.
    gap_features : of which columns missing cells are features: one of AUTO, NEVER, EVERY.
    rest : the kind of columns that are not named; None: their cells tell it.
    labelled : whether there must be a label.
    """

    label: str | None = None
    weight: str | None = None
    group: str | None = None
    categorical: Sequence[str] = ()
    numeric: Sequence[str] = ()
    several: Sequence[str] = ()
    ignored: Sequence[str] = ()
    vectors: Sequence[str] = ()
    aside: str | None = None
    form: Schema = field(default_factory=lambda: Schema({}))
    bins: int = 0
    gap_features: str = AUTO
    rest: str | None = None
    labelled: bool = True

    def kinds(self) -> dict[str, str]:
        """Return the kinds of the columns. Raises UsageError for a column with two of them."""
        found: dict[str, str] = {}
        single = ((LABEL, self.label), (WEIGHT, self.weight))
        of_kind = (
            (CATEGORY, self.categorical),
            (NUMBER, self.numeric),
            (SEVERAL, self.several),
            (IGNORED, self.ignored),
            (VECTOR, self.vectors),
        )
        for kind, names in (*((kind, [name] if name else []) for kind, name in single), *of_kind):
            for name in names:
                if found.setdefault(name, kind) != kind:
                    raise UsageError(f"the column {name!r} is used in two ways; name it once")
        for one, kind in ((self.group, GROUP), (self.aside, IGNORED)):
            if one is not None:
                found.setdefault(one, kind)
        return found

    def require_all(self, names: Sequence[str], source: str) -> None:
        """Raise UsageError if the kind of a column is not known, as it must be of a table that is read once."""
        known = self.kinds()
        if self.rest is None and (unnamed := [name for name in names if name and name not in known]):
            every = tuple(unnamed)
            raise UsageError(
                f"{source} is read only once, so that the kinds of all columns must be known before; not known: "
                f"{listing(unnamed)}",
                categorical={every: "for names"},
                numeric={every: "for quantities"},
                ignore={every: "for neither"},
            )

    def check(self, names: Sequence[str], source: str, others: Sequence[str] = ()) -> None:
        """Raise BadInputError if a table with columns of these names lacks a named one, or if none is the label.

        others : the columns of joined tables.
        """
        every = [*names, *others]
        known = {*every}
        for name in self.kinds():
            if name not in known:
                raise BadInputError(f"{source}: {no_such('column', name, every)}")
        if (twice := repeated(every)) is not None:
            raise BadInputError(f"{source}: two tables have a column {twice!r}; rename one of them")
        if self.label is None and self.labelled:
            raise BadInputError(
                f"{source}: no column is the label; the columns are {listing(names)}; to a table of observed pairs, "
                "such as clicks, fmcli negatives adds labels and random other pairs",
                label=None,
            )

    def schema(
        self,
        names: Sequence[str],
        facts: Mapping[str, Mapping[str, Any]],
        source: str,
        joins: Mapping[str, tuple[str, ...]],
    ) -> Schema:
        """Return what the columns of a table are.

        names : of the columns, also of joined tables.
        facts : column -> the figures of `Facts.of`, and `times`, how often each row of its table counts, and `is_text`,
            whether it is text even if all cells are numbers, and `kind`, which the type of a column of a frame tells,
            or None, and `unmatched`, the number of rows that refer to no row of its table; columns without facts must
            be named.
        source : the name of the table, for messages.
        joins : as in Schema.

        Raises BadInputError for a column that must be named, or is missing.
        """
        named = {"": IGNORED, **self.kinds()}
        markers = {name: words for name, one in facts.items() if (words := markers_of(one, named.get(name)))}
        facts = {name: without(markers.get(name, ()), one) for name, one in facts.items()}
        found = {name: named.get(name) or self.rest or kind_of(name, facts[name]) for name in names}
        kinds = {name: kind for name, kind in found.items() if kind is not None}
        if len(kinds) < len(found):
            raise not_clear({name: facts[name] for name in found if name not in kinds}, source)
        for kind, name in ((LABEL, self.label), (WEIGHT, self.weight)):
            if name is not None and (one := facts.get(name)) and (marks := decimal_marks(one)):
                raise BadInputError(
                    f"{source}: the {kind} has numbers such as {shown(one)!r}",
                    decimal={mark: purpose(mark) for mark in marks},
                )
        if not any(kind in FEATURES for kind in kinds.values()):
            raise BadInputError(f"{source}: no column has features; the columns are {listing(names)}")
        known = [name for name, kind in kinds.items() if kind == CATEGORY and name in facts]
        numbers = [name for name, kind in kinds.items() if kind in NUMERIC]
        fractions = [name for name in known if facts[name]["points"] and not is_of_names(facts[name])]
        if fractions:
            raise BadInputError(
                f"{source}: {listed([f'the column {name!r}' for name in fractions], len(fractions))} "
                f"{'has' if len(fractions) == 1 else 'have'} numbers with fractions, which are no categories",
                numeric={tuple(fractions): "for quantities"},
                bins={16: "to cut all columns of numbers into features"},
            )
        dated = [name for name, kind in kinds.items() if name in facts and (kind == TIME or name == self.aside)]
        orders = {name: order for name in dated if (order := date_order(facts[name])) is not None}
        if self.aside is not None and self.aside in facts:
            check_order(self.aside, facts[self.aside], source)
        rounded = [name for name in known if facts[name]["rounded"] and not has_text(facts[name])]
        if rounded:
            cells = ", ".join(facts[name]["rounded_cell"] for name in rounded[:MOST_DESCRIBED])
            raise BadInputError(
                f"{source}: {listed([f'the column {name!r}' for name in rounded], len(rounded))} "
                f"{'has' if len(rounded) == 1 else 'have'} rounded numbers, such as {cells}, of which each may be "
                "several ids; write all digits, as text or as integers",
                numeric={tuple(rounded): "for quantities"},
            )
        return replace(
            self.form,
            kinds=kinds,
            group=self.group,
            whole=frozenset(name for name in known if is_whole(facts[name])),
            truths=frozenset(name for name in known if is_truth(facts[name])),
            markers=markers,
            means={name: means_of(facts[name], kinds[name], orders.get(name)) for name in numbers if name in facts},
            gaps=self.gaps(kinds, facts),
            joins=joins,
            orders=orders,
            hours=frozenset(name for name in orders if kinds[name] == TIME and facts[name]["clocks"]),
            lengths=lengths_of([name for name, kind in kinds.items() if kind == VECTOR], facts, source),
        )

    def gaps(self, kinds: Mapping[str, str], facts: Mapping[str, Mapping[str, Any]]) -> frozenset[str]:
        """Return the columns of these kinds of which missing cells are features. Of a table that is read once, nothing
        tells whether a column of numbers has any."""
        numbers = [
            name
            for name, kind in kinds.items()
            if kind in NUMERIC and (name not in facts or facts[name]["missing"] or facts[name]["unmatched"])
        ]
        names = [name for name, kind in kinds.items() if kind in (CATEGORY, SEVERAL)]
        return frozenset({AUTO: numbers, NEVER: [], EVERY: [*numbers, *names]}[self.gap_features])


def check_order(name: str, facts: Mapping[str, Any], source: str) -> None:
    """Raise BadInputError for a column of times whose dates may begin with the day or the month."""
    if cause(facts) in UNCLEAR_DATES:
        raise BadInputError(f"{source}: {described({name: facts})[0][0]}")


def lengths_of(names: Sequence[str], facts: Mapping[str, Mapping[str, Any]], source: str) -> dict[str, int]:
    """Return the lengths of columns of vectors. Raises UsageError if they are not known before the rows are read, and
    BadInputError for a column without vectors."""
    for name in names:
        if name not in facts:
            raise UsageError(
                f"{source} is read only once, so that the length of the vectors {name!r} must be known before",
                schema={"FILE": "written for other rows"},
            )
        if not facts[name]["length"]:
            raise BadInputError(f"{source}: the column {name!r} has no vectors", vector=LEAVE_OUT)
    return {name: facts[name]["length"] for name in names}


def kind_of(name: str, facts: Mapping[str, Any]) -> str | None:
    """Return the kind of a column with this name, whose cells have these facts; None if its user must say."""
    present, distinct = facts["cells"] - facts["missing"], facts["distinct"]
    if not present:
        return IGNORED
    if facts["kind"] is not None:
        return str(facts["kind"])
    if facts["is_vector"]:
        return VECTOR
    if facts["texts"] and date_order(facts) is not None:
        return TIME
    if facts["texts"] and cause(facts) not in (None, NAMES):
        return None
    if has_text(facts):
        return None if is_mixed(facts) or cause(facts) else CATEGORY
    if facts["fractions"] > facts["rounded"] or facts["bits"] == present or not facts["whole"]:
        return NUMBER
    if facts["rounded"]:
        return None
    rows = present * facts["times"]
    if rows >= (ROWS_PER_FEW if distinct <= FEW_NAMES else ROWS_PER_NAME) * distinct:
        return CATEGORY
    if is_id(name):
        return CATEGORY if rows >= ROWS_PER_ID * distinct else None
    return None if distinct >= NEARLY_ALL * present else NUMBER


def is_id(name: str) -> bool:
    """Return whether the name of a column says that it has ids: user_id, movieId, zip code, item."""
    words = [word for word in WORDS.split(name) if word]
    return bool(words) and ID_NAME.fullmatch(words[-1].lower()) is not None


def is_mixed(facts: Mapping[str, Any]) -> bool:
    """Return whether a column has numbers, and a few words that may be missing values or the names of a category.
    Numbers with a 0 before them are names, such as zip codes."""
    numbers = facts["cells"] - facts["missing"] - facts["texts"]
    if facts["is_text"] or facts["padded"] or not numbers:
        return False
    few = not facts["other_words"] and len(unusual(facts["words"])) <= FEW_WORDS
    # Names are rarely fractions, whatever the other cells are.
    return few or numbers >= MOSTLY * (numbers + facts["texts"]) or facts["points"] > SOME * (numbers + facts["texts"])


def unusual(words: Iterable[str]) -> list[str]:
    """Return the words that are not usual for missing values."""
    return [word for word in words if word.lower() not in MARKERS]


def markers_of(facts: Mapping[str, Any], kind: str | None) -> tuple[str, ...]:
    """Return the words of a column, if they stand for missing numbers, times or vectors: they are usual for these, and
    all other cells are numbers, times or vectors. kind : as named."""
    kind = kind or facts["kind"]
    if is_special(facts) and kind in (None, VECTOR):
        return () if facts["other_odd"] or unusual(facts["odd"]) else tuple(facts["odd"])
    none = kind not in (None, NUMBER) or facts["is_text"] or facts["other_words"] or not has_numbers(facts)
    return () if none or unusual(facts["words"]) else tuple(facts["words"])


def is_special(facts: Mapping[str, Any]) -> bool:
    """Return whether all cells of a column are times or vectors, but for odd texts."""
    most = max(facts["days"], facts["months"], facts["lists"])
    return bool(0 < most == facts["cells"] - facts["missing"] - facts["others"])


def not_clear(facts: Mapping[str, Mapping[str, Any]], source: str) -> BadInputError:
    """Return an error about the columns with these facts, with the options by which their user says what they are."""
    of_text = {
        name: one
        for name, one in facts.items()
        if one["texts"] and (why := cause(one)) is not None and not (why == NAMES and is_mixed(one))
    }
    rest = {name: one for name, one in facts.items() if name not in of_text}
    told, helps = described(of_text)
    mixed, place = {name: one for name, one in rest.items() if one["texts"]}, source
    whole = {name: one for name, one in rest.items() if kind_of(name, without_texts(one)) is None}
    messages, options = [], dict[str, Any]()
    if whole:
        for name, one in islice(whole.items(), MOST_DESCRIBED):
            figures = without_texts(one)
            present = figures["cells"] - figures["missing"]
            such = f"{figures['distinct']:,} different whole numbers in {present:,} cells, such as {one['example']}"
            rounded = f", beside {one['rounded_cell']}" if one["rounded"] else ""
            messages.append(f"the column {name!r} has {such}{rounded}")
        messages = [f"{listed(messages, len(whole))}: they may be ids or quantities"]
        columns = tuple(whole)
        options |= {
            "numeric": {columns: "for quantities"},
            "categorical": {columns: "for ids"},
            "ignore": {columns: "for neither"},
        }
    if mixed:
        lines = [line for one in mixed.values() for line in one["words"].values()]
        if len(lines) == 1 and not told:
            place = f"{source}:{lines[0]}"
        found = []
        for name, one in mixed.items():
            words = [f"{word!r}" + (f" (line {at})" if len(lines) > 1 else "") for word, at in one["words"].items()]
            more = ", and other texts," if one["other_words"] else ""
            found.append(f"{listed(words, len(words))}{more} in the column {name!r}")
        others = "numbers" if not any(one["other_words"] for one in mixed.values()) else "mostly numbers"
        messages.append(f"found {listed(found[:MOST_DESCRIBED], len(found))}, whose other cells are {others}")
        texts = tuple(dict.fromkeys(word for one in mixed.values() for word in one["words"]))
        if whole:
            options["missing_values"] = Also(texts)
        else:
            options = {
                "missing_values": {texts: "for cells that are missing"},
                "categorical": {tuple(mixed): "for names"},
            }
    return BadInputError(f"{place}: {'; '.join([*told, *messages])}", **joined(helps, options))


def has_text(facts: Mapping[str, Any]) -> bool:
    """Return whether a column has cells that are no numbers, or is of text."""
    return bool(facts["texts"] or facts["is_text"])


def is_of_names(facts: Mapping[str, Any]) -> bool:
    """Return whether a column has names, whatever its cells are: it has text, or its type tells."""
    return has_text(facts) or facts["kind"] == CATEGORY


def has_numbers(facts: Mapping[str, Any] | None) -> bool:
    """Return whether some cells of a column are numbers."""
    return facts is not None and facts["whole"] + facts["fractions"] > 0


def means_of(facts: Mapping[str, Any], kind: str, order: str | None) -> tuple[float, ...]:
    """Return what stands for a missing cell, with the digits that a value of a feature has: the mean of the numbers of
    a column, of the days of its times, or of the numbers at each place of its vectors."""
    if kind == VECTOR:
        means = facts["mean_places"]
    elif kind == TIME:
        means = [facts["mean_month" if order == "month" else "mean_day"]]
    else:
        means = [facts["mean"]] if has_numbers(facts) else []
    return tuple(float(f"{mean:.9g}") for mean in means)


def without_texts(facts: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the facts of a column if its cells that are no numbers are missing."""
    missing, distinct = facts["missing"] + facts["texts"], facts["distinct"] - len(facts["words"])
    return {**facts, "texts": 0, "words": {}, "missing": missing, "distinct": max(distinct, 0)}


def without(markers: Sequence[str], facts: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the facts of a column if the cells with markers are missing: all that are no numbers, or no times or
    vectors."""
    if not markers:
        return facts
    if not is_special(facts):
        return without_texts(facts)
    odd, distinct = facts["others"], facts["distinct"] - len(markers)
    left = {"texts": facts["texts"] - odd, "others": 0, "odd": {}}
    return {**facts, **left, "missing": facts["missing"] + odd, "distinct": max(distinct, 0)}


def is_whole(facts: Mapping[str, Any]) -> bool:
    """Return whether all cells of a column are whole numbers."""
    return not (has_text(facts) or facts["fractions"])


def is_truth(facts: Mapping[str, Any]) -> bool:
    """Return whether all cells of a column are true or false."""
    return 0 < facts["truths"] == facts["cells"] - facts["missing"] and not facts["is_text"]


def is_header(names: Sequence[str]) -> bool:
    """Return whether the first row of a table can be its header: no cell is a number, and some have text."""
    return any(names) and not any(is_number(name.encode(errors="surrogateescape")) for name in names if name)
