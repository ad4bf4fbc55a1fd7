"""The importer of Arrow streams: cells of every type as a definition writes them, and streams that are not valid."""

import csv
import ctypes
import io
import math
from decimal import Decimal

import numpy as np
import pytest
from arrow_tables import EXACT, FORMATS, Column, Table
from hypothesis import given
from hypothesis import strategies as st

from fmcli.data.arrow import ArrowError, ArrowStream

# No NUL, which csv does not read, and no surrogates, which UTF-8 does not have.
TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20)
RANGES = {"c": (-(2**7), 2**7 - 1), "C": (0, 2**8 - 1), "s": (-(2**15), 2**15 - 1), "S": (0, 2**16 - 1)}
RANGES |= {"i": (-(2**31), 2**31 - 1), "I": (0, 2**32 - 1), "l": (-(2**63), 2**63 - 1), "L": (0, 2**64 - 1)}
PLAIN = {format: st.integers(*limits) for format, limits in RANGES.items()}
PLAIN |= {
    f"d:{digits},{scale}{bits}": st.integers(1 - 10**digits, 10**digits - 1).map(
        lambda whole, scale=scale: Decimal(whole).scaleb(-scale, EXACT)
    )
    for digits, scale, bits in (
        (38, 0, ""),
        (38, 10, ",128"),
        (9, 9, ",32"),
        (18, 2, ",64"),
        (76, 70, ",256"),
        (5, -3, ""),
    )
}
PLAIN |= {"f": st.floats(width=32), "g": st.floats(), "b": st.booleans(), "u": TEXT, "U": TEXT, "vu": TEXT}


def read(table, names=None, size=64):
    """Return the text of a table, read in small pieces."""
    stream = ArrowStream(table)
    stream.choose([name for name, *_ in stream.columns] if names is None else names)
    found, room = b"", bytearray(size)
    while count := stream.readinto(memoryview(room)):
        found += room[:count]
    return found


def cells_of(table):
    header, *rows = csv.reader(io.StringIO(read(table).decode(), newline=""))
    return header, rows


def as_text(format, cell):
    """Return the text of a cell: the definition."""
    if cell is None:
        return ""
    if format == "b":
        return "true" if cell else "false"
    if isinstance(cell, Decimal):
        text = f"{cell:f}"
        return text.rstrip("0").rstrip(".") or "0" if "." in text else str(int(cell))
    return str(cell)


def is_same(format, cell, text):
    if cell is None or format not in ("f", "g"):
        return text == as_text(format, cell)
    if math.isnan(cell):
        return text == ""
    if not math.isfinite(cell):
        return str(float(text)) == str(cell)
    whole = cell == int(cell) and abs(cell) < 2 ** (24 if format == "f" else 53)
    read = np.float32(text) if format == "f" else float(text)
    return read == cell and (not whole or text == str(int(cell)))


@given(st.data())
def test_cells_of_every_type(data):
    """Columns of all plain types, with nulls and an offset, alone, in a dictionary and in lists."""
    columns, plain = [], data.draw(st.sampled_from(sorted(PLAIN)))
    rows = data.draw(st.integers(0, 12))
    some = st.lists(st.none() | PLAIN[plain], min_size=rows, max_size=rows)
    cells, before = data.draw(some), data.draw(st.integers(0, 9))
    columns.append(Column(plain, cells, before=before, name="plain"))
    values = data.draw(st.lists(PLAIN[plain], min_size=1, max_size=5))
    numbers = data.draw(st.lists(st.none() | st.integers(0, len(values) - 1), min_size=rows, max_size=rows))
    index = data.draw(st.sampled_from([format for format in FORMATS if format not in "fg"]))
    columns.append(Column(index, numbers, Column(plain, values, before=before), before=before, name="dictionary"))
    lengths = data.draw(st.lists(st.none() | st.integers(0, 3), min_size=rows, max_size=rows))
    lists = PLAIN[plain].filter(lambda cell: "|" not in str(cell) and cell == cell)  # no NaN, which has no text
    inner = data.draw(st.lists(lists, min_size=sum(filter(None, lengths)), max_size=sum(filter(None, lengths))))
    columns.append(Column(data.draw(st.sampled_from(["+l", "+L"])), lengths, Column(plain, inner), name="lists"))
    columns.append(Column("n", [None] * rows, name="nothing"))
    table = Table([columns, columns])
    header, found = cells_of(table)
    assert header == ["plain", "dictionary", "lists", "nothing"]
    assert len(found) == 2 * rows
    begin = 0
    for at in range(rows):
        plain_text, of_dictionary, of_list, nothing = found[at]
        assert found[rows + at] == found[at]
        assert is_same(plain, cells[at], plain_text)
        assert is_same(plain, None if numbers[at] is None else values[numbers[at]], of_dictionary)
        assert nothing == ""
        end = begin + (lengths[at] or 0)
        joined = of_list.split("|") if end > begin else []
        assert len(joined) == end - begin
        assert all(is_same(plain, cell, text) for cell, text in zip(inner[begin:end], joined, strict=True))
        begin = end


@pytest.mark.parametrize("format", ["i", "l", "f", "g"])
def test_a_whole_number_has_one_spelling(format):
    assert read(Table([[Column(format, [1, -7, 0, 1 << 20])]])) == b"x\n1\n-7\n0\n1048576\n"


def test_minus_zero_and_fractions():
    assert read(Table([[Column("g", [-0.0, 0.1, 1e300, 2.0**53 - 1])]])) == b"x\n0\n0.1\n1e+300\n9007199254740991\n"
    assert read(Table([[Column("f", [0.1, 16777215.0])]])) == b"x\n0.1\n16777215\n"


def test_a_float_that_may_stand_for_several_whole_numbers_has_an_exponent():
    assert read(Table([[Column("g", [2.0**53, -(2.0**60)])]])) == b"x\n9.007199254740992e+15\n-1.152921504606847e+18\n"
    assert read(Table([[Column("f", [2.0**24, 3e10])]])) == b"x\n1.6777216e+07\n3e+10\n"


def test_a_row_of_one_empty_cell_is_a_row():
    assert read(Table([[Column("u", [None, "", "a"])]])) == b'x\n""\n""\na\n'


def test_columns_are_chosen_by_name():
    columns = [Column("i", [1, 2], name='a,"'), Column("i", [3, 4], name="day"), Column("u", ["x\ny", '"'], name="c")]
    stream = ArrowStream(Table([columns]))
    assert stream.columns == [('a,"', "i", True), ("day", "i", True), ("c", "u", True)]
    assert read(Table([columns]), ["c", 'a,"']) == b'"a,""",c\n1,"x\ny"\n2,""""\n'


@pytest.mark.parametrize("size", [1, 3, 1 << 16])
def test_any_room_has_the_same_text(size):
    columns = [Column("l", list(range(1000))), Column("u", ["a" * (n % 7) for n in range(1000)], name="y")]
    assert read(Table([columns] * 3), size=size) == read(Table([columns] * 3))


@pytest.mark.parametrize(
    "format", ["ttu", "tiD", "d:10,2,16", "d:10", "d:10,99", "d:x,1", "z", "e", "+s", "+m", "", "uu", "w:3", "+vl"]
)
def test_other_types_are_named_and_refused(format):
    table = Table([[Column("i", [1], name="a"), Column("i", [1], name="b")]])
    schema = table.schema
    table.schema = lambda column: schema(Column(format if column.name == "b" else "i", [], name=column.name))
    stream = ArrowStream(table)
    assert stream.columns == [("a", "i", True), ("b", format, False)]
    with pytest.raises(ValueError, match="the column 'b' cannot be read"):
        stream.choose(["a", "b"])
    assert read(table, ["a"]) == b"a\n1\n"


def spoiled(array, **fields):
    child = array.children[0][0]
    for name, value in fields.items():
        setattr(child, name, value)


def with_null_rows(array):
    array.null_count = 1
    array.buffers[0] = array.children[0][0].buffers[1]


def with_offset(at, value):
    """Return a function that changes one of the offsets of texts in a batch, or in an array of it."""

    def spoil(array, texts=None):
        ctypes.cast((texts or array.children[0][0]).buffers[1], ctypes.POINTER(ctypes.c_int32))[at] = value

    return spoil


NUMBERS, WORDS = Column("l", [1, 2]), Column("u", ["a", "bc"])
COUNTED = Column("i", [0, 1], Column("u", ["a", "b"]))
LISTED = Column("+l", [1, 1], Column("u", ["a", "b"]))
VIEWED = Column("vu", ["a", "b" * 20])


@pytest.mark.parametrize(
    ("column", "spoil"),
    [
        (NUMBERS, lambda array: spoiled(array, length=1)),
        (NUMBERS, lambda array: spoiled(array, length=-1)),
        (NUMBERS, lambda array: spoiled(array, offset=-1)),
        (NUMBERS, lambda array: spoiled(array, offset=2**63 - 1)),
        (NUMBERS, lambda array: spoiled(array, n_buffers=1)),
        (NUMBERS, lambda array: spoiled(array, buffers=None)),
        (NUMBERS, lambda array: array.children[0][0].buffers.__setitem__(1, None)),
        (NUMBERS, lambda array: setattr(array, "n_children", 2)),
        (NUMBERS, lambda array: setattr(array, "children", None)),
        (NUMBERS, lambda array: setattr(array, "offset", 1)),
        (NUMBERS, lambda array: setattr(array, "length", -1)),
        (NUMBERS, with_null_rows),
        (WORDS, lambda array: array.children[0][0].buffers.__setitem__(2, None)),
        (WORDS, with_offset(1, 10**8)),
        (WORDS, with_offset(1, 4)),
        (WORDS, with_offset(2, -1)),
        (COUNTED, lambda array: with_offset(1, 10**8)(array, array.children[0][0].dictionary[0])),
        (COUNTED, lambda array: spoiled(array, dictionary=None)),
        (COUNTED, lambda array: setattr(array.children[0][0].dictionary[0], "length", 1)),
        (LISTED, lambda array: spoiled(array, n_children=0)),
        (LISTED, lambda array: spoiled(array, children=None)),
        (LISTED, lambda array: setattr(array.children[0][0].children[0][0], "length", 1)),
        (VIEWED, lambda array: spoiled(array, n_buffers=2)),
        (VIEWED, lambda array: array.children[0][0].buffers.__setitem__(2, None)),
        (VIEWED, lambda array: array.children[0][0].buffers.__setitem__(3, None)),
        (Column("+l", [1], Column("u", ["a|b"])), lambda array: None),
        (Column("i", [5], Column("u", ["a"])), lambda array: None),
        (Column("c", [-1], Column("u", ["a"])), lambda array: None),
        (Column("L", [2**64 - 1], Column("u", ["a"])), lambda array: None),
    ],
)
def test_batches_that_are_not_valid(column, spoil):
    table = Table([[column]], spoil=spoil)
    with pytest.raises(ArrowError) as error:
        read(table)
    assert error.value.column in (None, "x")
    assert str(error.value)


def test_errors_of_the_producer_are_told_after_the_rows_before():
    stream = ArrowStream(Table([[NUMBERS]], error=b"the disk is gone"))
    stream.choose(["x"])
    room = bytearray(64)
    assert bytes(room[: stream.readinto(memoryview(room))]) == b"x\n"
    assert bytes(room[: stream.readinto(memoryview(room))]) == b"1\n2\n"
    with pytest.raises(ArrowError, match="the disk is gone"):
        stream.readinto(memoryview(room))


def test_a_stream_is_one_of_a_table_and_is_read_once():
    with pytest.raises(ArrowError, match="not one of a table"):
        ArrowStream(Table([[NUMBERS]], format=b"l"))
    with pytest.raises(ValueError, match="no columns have been chosen"):
        ArrowStream(Table([[NUMBERS]])).readinto(memoryview(bytearray(9)))
    table = Table([[NUMBERS]])
    capsule = table.__arrow_c_stream__()
    table.__class__ = type("Same", (Table,), {"__arrow_c_stream__": lambda self: capsule})
    ArrowStream(table)
    with pytest.raises(ArrowError, match="has been read before"):
        ArrowStream(table)
    with pytest.raises(ValueError, match="invalid PyCapsule"):
        ArrowStream(type("Wrong", (), {"__arrow_c_stream__": lambda self: object()})())


def test_every_struct_is_released_once():
    table = Table([[NUMBERS], [NUMBERS]])
    read(table)
    names = [kind.__name__ for kind in table.released]
    assert len(names) == 4  # two batches, and then the schema and the stream
