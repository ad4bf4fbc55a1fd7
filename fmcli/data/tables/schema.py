"""The kinds of the columns of a table: as they were named, or as all of their cells say."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from itertools import islice, pairwise
from typing import Any

from fmcli.data.labels import is_number
from fmcli.errors import Also, BadInputError, UsageError
from fmcli.names import no_such
from fmcli.records import dataclass
from fmcli.text import escaped, number

LABEL, WEIGHT, GROUP, IGNORED = "label", "weight", "group", "ignored"
CATEGORY, SEVERAL, NUMBER = "category", "several", "number"
FEATURES = (CATEGORY, SEVERAL, NUMBER)
# A column of whole numbers has ids if there are so many rows to each of them.
ROWS_PER_ID = 5
# If so large a share of the cells are numbers, the others are probably missing values.
MOSTLY = 0.9
# The columns that an error describes, at most.
MOST_DESCRIBED = 10
# The words for a cell, by the kind of its column.
EXPECTED = {NUMBER: "a number", LABEL: "a label", WEIGHT: "a weight"}

# How the names of a category are spelled, in the order of the core: 1.0 as 1, True as true.
AS_IT_IS, WHOLE, TRUTH = range(3)
WHOLE_NUMBER = re.compile(r"-?(0|[1-9]\d*)", re.ASCII)

# The role of each column, its name in text of features, what a fault in it expects, the beginning of its features, and
# the spelling of its names: as `Scanner` takes them.
Layout = list[tuple[str, str, str, str, int]]


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
    missing_feature : whether these are features, too, whose names end with =.
    bins : column of numbers -> the numbers that part its bins, increasing; each bin is a feature.
    names : of the columns, if tables have no header.
    delimiter : of cells; None: the first of DELIMITERS that a table's first line has.
    latin1 : whether the text is Latin-1; else it is UTF-8.
    joins : column -> the columns of another table, whose rows it refers to; they follow those of the table in `kinds`.
    joined_names : column -> the names of the columns of that table, if it has no header.
    """

    kinds: Mapping[str, str]
    group: str | None = None
    whole: frozenset[str] = frozenset()
    truths: frozenset[str] = frozenset()
    separator: str = "|"
    missing: tuple[str, ...] = ()
    missing_feature: bool = False
    bins: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    names: tuple[str, ...] = ()
    delimiter: str | None = None
    latin1: bool = False
    joins: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    joined_names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def entry(self) -> dict[str, Any]:
        """Return the schema as JSON values, as in a model file."""
        return {
            "columns": [
                {"name": name, "kind": kind, "whole": name in self.whole, "truths": name in self.truths}
                for name, kind in self.kinds.items()
            ],
            "group": self.group,
            "separator": self.separator,
            "missing": list(self.missing),
            "missing_feature": self.missing_feature,
            "bins": {column: list(edges) for column, edges in self.bins.items()},
            "header": not self.names,
            "delimiter": self.delimiter,
            "latin1": self.latin1,
            "joins": {column: list(names) for column, names in self.joins.items()},
            "joined_names": {column: list(names) for column, names in self.joined_names.items()},
        }

    @classmethod
    def of_entry(cls, entry: Mapping[str, Any]) -> Schema:
        """Return the schema that `entry` has made into JSON values. Raises BadInputError for others."""
        try:
            columns = entry["columns"]
            kinds = {str(column["name"]): str(column["kind"]) for column in columns}
            unknown = set(kinds.values()) - {LABEL, WEIGHT, GROUP, IGNORED, *FEATURES}
            if unknown or len(kinds) < len(columns):
                raise BadInputError("a column of its table has no valid kind, or two have one name")
            joins = {str(column): tuple(map(str, names)) for column, names in entry["joins"].items()}
            others = {name for names in joins.values() for name in names}
            of_kind = next((name for name, kind in kinds.items() if kind == GROUP), None)
            return cls(
                kinds,
                entry.get("group", of_kind),
                frozenset(str(column["name"]) for column in columns if column["whole"]),
                frozenset(str(column["name"]) for column in columns if column.get("truths")),
                str(entry["separator"]),
                tuple(map(str, entry["missing"])),
                bool(entry.get("missing_feature", False)),
                {str(column): tuple(map(float, edges)) for column, edges in entry.get("bins", {}).items()},
                () if entry["header"] else tuple(name for name in kinds if name not in others),
                entry["delimiter"],
                bool(entry["latin1"]),
                joins,
                {str(column): tuple(map(str, names)) for column, names in entry.get("joined_names", {}).items()},
            )
        except (AttributeError, KeyError, TypeError) as error:
            raise BadInputError(f"its table is not described as tables are: {error!r}") from error

    @classmethod
    def of_names(cls, names: Iterable[str]) -> Schema:
        """Return the columns that these names of features tell, as `convert` writes them: column=cell, or column."""
        cells: dict[str, set[str]] = {}
        kinds = {}
        for name in names:
            column, equals, cell = name.partition("=")
            if equals:
                cells.setdefault(column, set()).add(cell)
            kinds[column] = CATEGORY if column in cells else NUMBER
        whole = frozenset(column for column, found in cells.items() if all(map(WHOLE_NUMBER.fullmatch, found)))
        truths = frozenset(column for column, found in cells.items() if found <= {"true", "false"})
        return cls(kinds, whole=whole, truths=truths)

    @property
    def features(self) -> list[str]:
        """The columns that have features, whose places are their fields."""
        return [name for name, kind in self.kinds.items() if kind in FEATURES]

    @property
    def label(self) -> str | None:
        """The column of labels; None: there is none."""
        return next((name for name, kind in self.kinds.items() if kind == LABEL), None)

    def columns_of(self, names: Iterable[str]) -> list[int | None]:
        """Return the place among `features` of the column that each feature comes from; None for other features."""
        place = {escaped(name): number for number, name in enumerate(self.features)}
        return [place.get(name, place.get(name.partition("=")[0])) for name in names]

    @property
    def numbers(self) -> list[str]:
        """The columns of numbers that are not cut into bins."""
        return [name for name in self.features if self.kinds[name] == NUMBER and name not in self.bins]

    @property
    def apart(self) -> bool:
        """Whether cells of different columns are never the same feature: NAME= begins no other column's features."""
        numbers = self.numbers
        named = [name for name in self.features if self.missing_feature or name not in numbers]
        starts = sorted([*map(escaped, numbers), *(f"{escaped(name)}=" for name in named)])
        return not any(one.endswith("=") and other.startswith(one) for one, other in pairwise(starts))

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
        for name in [*self.joins, *(one for one in needed if one not in others)]:
            if name not in names:
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
            prefix = f"{field_of}{escaped(name)}{'' if kind == NUMBER else '='}"
            expected = f"{EXPECTED.get(kind, 'a cell')} in the column {name!r}"
            role = IGNORED if kind == GROUP else kind
            spelling = WHOLE if name in self.whole else TRUTH if name in self.truths else AS_IT_IS
            found.append((role, escaped(name), expected, prefix, spelling))
        return found

    def bins_of(self, names: Sequence[str], layout: Layout) -> list[tuple[int, tuple[float, ...], list[str]]]:
        """Return the bins of the columns of a table with these names and this layout, as `Scanner` takes them."""
        found = []
        for column, (name, of_column) in enumerate(zip(names, layout, strict=True)):
            if of_column[0] == NUMBER and name in self.bins:
                texts = ["", *(number(edge) for edge in self.bins[name]), ""]
                features = [f"{of_column[3]}={low}..{high}" for low, high in pairwise(texts)]
                found.append((column, self.bins[name], features))
        return found


@dataclass(frozen=True)
class Named:
    """The columns that a caller has named.

    label, weight, group : single columns; None: there is none. The group may also be a feature.
    categorical, numeric, several, ignored : the columns of a kind.
    aside : a column that is ignored unless it has a kind.
    form : how tables are read; its kinds do not count.
    bins : the number of bins of each column of numbers; 0: their features have the numbers as values.
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
    aside: str | None = None
    form: Schema = field(default_factory=lambda: Schema({}))
    bins: int = 0
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
        if self.rest is None and (unnamed := [name for name in names if name not in self.kinds()]):
            every = ",".join(unnamed)
            raise UsageError(
                f"{source} is read only once, so that the kinds of all columns must be known before; not known: "
                f"{', '.join(unnamed)}",
                categorical={every: "for names"},
                numeric={every: "for quantities"},
                ignore={every: "for neither"},
            )

    def check(self, names: Sequence[str], source: str, others: Sequence[str] = ()) -> None:
        """Raise BadInputError if a table with columns of these names lacks a named one, or if none is the label.

        others : the columns of joined tables.
        """
        every = [*names, *others]
        for name in self.kinds():
            if name not in every:
                raise BadInputError(f"{source}: {no_such('column', name, every)}")
        if twice := sorted({name for name in every if every.count(name) > 1}):
            raise BadInputError(f"{source}: two tables have a column {twice[0]!r}; rename one of them")
        if self.label is None and self.labelled:
            raise BadInputError(
                f"{source}: no column is the label; the columns are {', '.join(names)}; to a table of observed pairs, "
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
            or None; columns without facts must be named.
        source : the name of the table, for messages.
        joins : as in Schema.

        Raises BadInputError for a column that must be named, or is missing.
        """
        named = self.kinds()
        found = {name: named.get(name) or self.rest or kind_of(facts[name]) for name in names}
        kinds = {name: kind for name, kind in found.items() if kind is not None}
        if len(kinds) < len(found):
            raise not_clear({name: facts[name] for name in found if name not in kinds}, source)
        if not any(kind in FEATURES for kind in kinds.values()):
            raise BadInputError(f"{source}: no column has features; the columns are {', '.join(names)}")
        known = [name for name, kind in kinds.items() if kind == CATEGORY and name in facts]
        fractions = [name for name in known if facts[name]["points"] and not is_of_names(facts[name])]
        if fractions:
            raise BadInputError(
                f"{source}: {listed([f'the column {name!r}' for name in fractions], len(fractions))} "
                f"{'has' if len(fractions) == 1 else 'have'} numbers with fractions, which are no categories",
                numeric={",".join(fractions): "for quantities"},
                bins={16: "to cut all columns of numbers into features"},
            )
        return replace(
            self.form,
            kinds=kinds,
            group=self.group,
            whole=frozenset(name for name in known if is_whole(facts[name])),
            truths=frozenset(name for name in known if is_truth(facts[name])),
            joins=joins,
        )


def kind_of(facts: Mapping[str, Any]) -> str | None:
    """Return the kind of a column whose cells have these facts; None if its user must say."""
    present = facts["cells"] - facts["missing"]
    if not present:
        return IGNORED
    if facts["kind"] is not None:
        return str(facts["kind"])
    if has_text(facts):
        mixed = not facts["is_text"] and present - facts["texts"] >= MOSTLY * present
        return None if mixed else CATEGORY
    if facts["fractions"] or facts["bits"] == present:
        return NUMBER
    return CATEGORY if present * facts["times"] >= ROWS_PER_ID * facts["distinct"] else None


def not_clear(facts: Mapping[str, Mapping[str, Any]], source: str) -> BadInputError:
    """Return an error about the columns with these facts, with the options by which their user says what they are."""
    mixed, place = {name: one for name, one in facts.items() if one["texts"]}, source
    whole = {name: one for name, one in facts.items() if kind_of(without_texts(one)) is None}
    messages, options = [], dict[str, Any]()
    if whole:
        for name, one in islice(whole.items(), MOST_DESCRIBED):
            figures = without_texts(one)
            present = figures["cells"] - figures["missing"]
            such = f"{figures['distinct']:,} different whole numbers in {present:,} cells, such as {one['example']}"
            messages.append(f"the column {name!r} has {such}")
        messages = [f"{listed(messages, len(whole))}: they may be ids or quantities"]
        columns = ",".join(whole)
        options |= {
            "numeric": {columns: "for quantities"},
            "categorical": {columns: "for ids"},
            "ignore": {columns: "for neither"},
        }
    if mixed:
        found = [f"{one['first_text']!r} in the column {name!r}" for name, one in mixed.items()]
        lines = [one["text_line"] + 1 for one in mixed.values()]
        if len(facts) == 1:
            place = f"{source}:{lines[0]}"
        else:
            found = [f"{text} (line {line})" for text, line in zip(found, lines, strict=True)]
        messages.append(f"found {listed(found[:MOST_DESCRIBED], len(found))}, whose other cells are mostly numbers")
        texts = ",".join(dict.fromkeys(one["first_text"] for one in mixed.values()))
        if whole:
            options["missing_values"] = Also(texts)
        else:
            options = {
                "missing_values": {texts: "for cells that are missing"},
                "categorical": {",".join(mixed): "for names"},
            }
    return BadInputError(f"{place}: {'; '.join(messages)}", **options)


def listed(texts: Sequence[str], count: int) -> str:
    """Return texts as a list, of which there are so many."""
    more = [f"{count - len(texts):,} more"] if count > len(texts) else []
    *most, last = [*texts, *more]
    return f"{', '.join(most)} and {last}" if most else last


def has_text(facts: Mapping[str, Any]) -> bool:
    """Return whether a column has cells that are no numbers, or is of text."""
    return bool(facts["texts"] or facts["is_text"])


def is_of_names(facts: Mapping[str, Any]) -> bool:
    """Return whether a column has names, whatever its cells are: it has text, or its type tells."""
    return has_text(facts) or facts["kind"] == CATEGORY


def without_texts(facts: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the facts of a column if its cells that are no numbers are missing: one text, as far as is known."""
    texts = facts["texts"]
    return {**facts, "texts": 0, "missing": facts["missing"] + texts, "distinct": facts["distinct"] - bool(texts)}


def is_whole(facts: Mapping[str, Any]) -> bool:
    """Return whether all cells of a column are whole numbers."""
    return not (has_text(facts) or facts["fractions"])


def is_truth(facts: Mapping[str, Any]) -> bool:
    """Return whether all cells of a column are true or false."""
    return 0 < facts["truths"] == facts["cells"] - facts["missing"] and not facts["is_text"]


def is_header(names: Sequence[str]) -> bool:
    """Return whether the first row of a table can be its header: no cell is a number or empty."""
    return all(name and not is_number(name.encode(errors="surrogateescape")) for name in names)
