"""The columns of a table that a caller names, and the table's schema: the cells tell the kinds of the other columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import Any

from fmcli.data.tables.kinds import (
    check_order,
    has_text,
    is_of_names,
    is_truth,
    is_whole,
    kind_of,
    markers_of,
    means_of,
    not_clear,
    without,
)
from fmcli.data.tables.schema import (
    CATEGORY,
    FEATURES,
    GROUP,
    IGNORED,
    LABEL,
    NUMBER,
    NUMERIC,
    SEVERAL,
    TIME,
    VECTOR,
    WEIGHT,
    Schema,
)
from fmcli.data.tables.unclear import MOST_DESCRIBED, date_order, decimal_marks, purpose, shown
from fmcli.errors import LEAVE_OUT, BadInputError, UsageError
from fmcli.names import listing, no_such, repeated
from fmcli.records import dataclass
from fmcli.text import listed

# Which columns turn missing cells into features: columns of numbers with gaps in training, none, or all.
AUTO, NEVER, EVERY = "auto", "none", "feature"


@dataclass(frozen=True)
class ColumnRoles:
    """The columns that a caller has named.

    label, weight, group : single columns, or None. The group may also be a feature.
    categorical, numeric, several, ignored, vectors : the columns of each kind.
    aside : columns that are ignored unless they have a kind.
    form : how tables are read; its kinds do not count.
    bins : the number of bins for each column of numbers; 0: their features have the numbers as values.
    gap_features : the columns whose missing cells are features: AUTO, NEVER or EVERY.
    rest : the kind of all other columns; None: their cells tell it.
    labeled : whether a label is required.
    """

    label: str | None = None
    weight: str | None = None
    group: str | None = None
    categorical: Sequence[str] = ()
    numeric: Sequence[str] = ()
    several: Sequence[str] = ()
    ignored: Sequence[str] = ()
    vectors: Sequence[str] = ()
    aside: tuple[str, ...] = ()
    form: Schema = field(default_factory=lambda: Schema({}))
    bins: int = 0
    gap_features: str = AUTO
    rest: str | None = None
    labeled: bool = True

    def kinds(self) -> dict[str, str]:
        """Return column -> kind. Raises UsageError for a column with two kinds."""
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
        for one, kind in ((self.group, GROUP), *((name, IGNORED) for name in self.aside)):
            if one is not None:
                found.setdefault(one, kind)
        return found

    def require_all(self, names: Sequence[str], source: str) -> None:
        """Raise UsageError unless all kinds are known, as reading a table once requires."""
        known = self.kinds()
        if self.rest is None and (unnamed := [name for name in names if name and name not in known]):
            every = tuple(unnamed)
            raise UsageError(
                f"{source} is read only once, so the kinds of all columns must be known before; not known: "
                f"{listing(unnamed)}",
                categorical={every: "for names"},
                numeric={every: "for numbers"},
                ignore={every: "for neither"},
            )

    def check(self, names: Sequence[str], source: str, others: Sequence[str] = ()) -> None:
        """Raise BadInputError if a table with these columns lacks a named column, or has no label.

        others : the columns of joined tables.
        """
        every = [*names, *others]
        known = {*every}
        for name in self.kinds():
            if name not in known:
                raise BadInputError(f"{source}: {no_such('column', name, every)}")
        if (twice := repeated(every)) is not None:
            raise BadInputError(f"{source}: two tables have a column {twice!r}; rename one of them")
        if self.label is None and self.labeled:
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
        """Return the schema of a table.

        names : the columns, including the columns of joined tables.
        facts : column -> the figures of `TableFacts.of`, and: `times`, how often each row of its table counts;
            `is_text`, whether it is text even if all cells are numbers; `kind`, the kind by the type of a frame's
            column, or None; `unmatched`, the number of rows that refer to no row of its table. Columns without facts
            must be named.
        source : the name of the table, for messages.
        joins : as in Schema.

        Raises BadInputError for a column that must be named, or is missing.
        """
        named = {"": IGNORED, **self.kinds()}
        markers = {name: words for name, one in facts.items() if (words := markers_of(one, named.get(name)))}
        facts = {**facts, **{name: without(words, facts[name]) for name, words in markers.items()}}
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
                f"{'has' if len(fractions) == 1 else 'have'} numbers with fractions, which are not categories",
                numeric={tuple(fractions): "for numbers"},
                bins={16: "to cut all columns of numbers into features"},
            )
        dated = [name for name, kind in kinds.items() if (kind == TIME or name in self.aside) and name in facts]
        orders = {name: order for name in dated if (order := date_order(facts[name])) is not None}
        for name in self.aside:
            if name in facts:
                check_order(name, facts[name], source)
        rounded = [name for name in known if facts[name]["rounded"] and not has_text(facts[name])]
        if rounded:
            cells = ", ".join(facts[name]["rounded_cell"] for name in rounded[:MOST_DESCRIBED])
            raise BadInputError(
                f"{source}: {listed([f'the column {name!r}' for name in rounded], len(rounded))} "
                f"{'has' if len(rounded) == 1 else 'have'} rounded numbers, such as {cells}: each may stand "
                "for several ids; write all digits, as text or as integers",
                numeric={tuple(rounded): "for numbers"},
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
        """Return the columns whose missing cells are features. kinds : column -> kind. In a table that is read once,
        any column of numbers may have missing cells."""
        numbers = [
            name
            for name, kind in kinds.items()
            if kind in NUMERIC and ((one := facts.get(name)) is None or one["missing"] or one["unmatched"])
        ]
        names = [name for name, kind in kinds.items() if kind in (CATEGORY, SEVERAL)]
        return frozenset({AUTO: numbers, NEVER: [], EVERY: [*numbers, *names]}[self.gap_features])


def lengths_of(names: Sequence[str], facts: Mapping[str, Mapping[str, Any]], source: str) -> dict[str, int]:
    """Return the lengths of columns of vectors. Raises UsageError if they cannot be known before rows are read, and
    BadInputError for a column without vectors."""
    for name in names:
        if name not in facts:
            raise UsageError(
                f"{source} is read only once, so the length of the vectors {name!r} must be known before",
                schema={"FILE": "written for other rows"},
            )
        if not facts[name]["length"]:
            raise BadInputError(f"{source}: the column {name!r} has no vectors", vector=LEAVE_OUT)
    return {name: facts[name]["length"] for name in names}
