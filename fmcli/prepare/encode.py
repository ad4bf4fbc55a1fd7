"""Rows of tables as rows of features: one-hot columns, columns with several values, and columns of numbers."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from fmcli.errors import BadInputError
from fmcli.names import no_such
from fmcli.prepare.tables import Row
from fmcli.text import escaped

GROUP = "qid"


@dataclass(frozen=True)
class Encoding:
    """How columns become features.

    categorical : columns whose cells are names: a feature column=cell with the value 1.
    several : columns whose cells have several names, with `separator` between them.
    numeric : columns of numbers: a feature with the name of the column and the value of the cell.
    label, group : the columns of the label and of the group; None: rows have none.
    fields : whether to write ffm text, whose fields are the columns, numbered from 0 in the order of the table.
    joined : column -> the rows of another table, whose columns are added to the row with this cell.

    An empty cell gives no feature, and so does the number 0.
    """

    categorical: Sequence[str] = ()
    several: Sequence[str] = ()
    numeric: Sequence[str] = ()
    label: str | None = None
    group: str | None = None
    fields: bool = False
    separator: str = "|"
    joined: Mapping[str, Mapping[str, dict[str, str]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if GROUP in self.numeric:
            raise BadInputError(f"a feature cannot have the name {GROUP!r}, which begins the number of a group")

    def whole(self, found: Iterable[Row]) -> Iterator[Row]:
        """Yield the rows with the columns of the joined tables. Raises BadInputError if a row is missing there, or a
        column of the encoding is missing or occurs twice."""
        checked = False
        for row in found:
            cells = dict(row.cells)
            for column, table in self.joined.items():
                key = row.cells.get(column, "")
                if key not in table:
                    raise BadInputError(f"{row.place}: found {column} {key!r}, which the table of this column lacks")
                if twice := sorted(cells.keys() & table[key].keys()):
                    raise BadInputError(f"{row.place}: two tables have a column {twice[0]!r}; rename one of them")
                cells |= table[key]
            if not checked:
                self._check(row.place, cells)
                checked = True
            yield row._replace(cells=cells)

    def _check(self, place: str, cells: Mapping[str, str]) -> None:
        named = [*self.categorical, *self.several, *self.numeric, *filter(None, (self.label, self.group))]
        for name in named:
            if name not in cells:
                raise BadInputError(f"{place}: {no_such('column', name, cells)}")
            if named.count(name) > 1:
                raise BadInputError(f"the column {name!r} is used in two ways; name it once")

    def features(self, row: Row) -> Iterator[tuple[int, str, str]]:
        """Yield the features of a row: the number of the column among those that are used, the name, and the value."""
        used = {*self.categorical, *self.several, *self.numeric}
        for number, column in enumerate(name for name in row.cells if name in used):
            cell = row.cells[column].strip()
            if not cell:
                continue
            if column in self.numeric:
                value = checked_number(row.place, column, cell)
                if value:
                    yield number, escaped(column), cell
            else:
                parts = cell.split(self.separator) if column in self.several else [cell]
                for part in parts:
                    yield number, escaped(f"{column}={part.strip()}"), "1"

    def line(self, row: Row, numbers: Mapping[str, int] | None = None) -> str:
        """Return the row as a line of text. numbers : the number of each feature, written instead of its name."""
        tokens = []
        if self.label:
            label = escaped(row.cells[self.label].strip())
            if not label:
                raise BadInputError(f"{row.place}: found no label in the column {self.label!r}, expected one")
            tokens.append(label)
        if self.group:
            tokens.append(f"{GROUP}:{row.cells[self.group].strip()}")
        for column, name, value in self.features(row):
            feature = name if numbers is None else str(numbers[name])
            tokens.append(f"{column}:{feature}:{value}" if self.fields else f"{feature}:{value}")
        return " ".join(tokens) + "\n"


def numbered(encoding: Encoding, found: Iterable[Row]) -> dict[str, int]:
    """Return a number from 1 on for each feature of the rows: in the order of the columns, and for a column in the
    order of its values, as numbers if all of them are."""
    by_column: dict[int, set[str]] = {}
    for row in found:
        for column, name, _ in encoding.features(row):
            by_column.setdefault(column, set()).add(name)
    names = [name for column in sorted(by_column) for name in in_order(by_column[column])]
    return {name: number for number, name in enumerate(names, start=1)}


def in_order(names: set[str]) -> list[str]:
    values = {name: name.partition("=")[2] for name in names}
    if all(value.isdecimal() for value in values.values()):
        return sorted(names, key=lambda name: (int(values[name]), name))
    return sorted(names)


def checked_number(place: str, column: str, cell: str) -> float:
    try:
        value = float(cell)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise BadInputError(f"{place}: found {cell!r} in the column {column!r}, expected a number")
    return value
