"""Tables that are streamed by Arrow's C interface, made of ctypes: what other programs hand over."""

import ctypes
import struct
from ctypes import CFUNCTYPE, POINTER, Structure, c_char_p, c_int, c_int64, c_void_p, py_object
from decimal import Context, Decimal

FORMATS = {"c": "b", "C": "B", "s": "h", "S": "H", "i": "i", "I": "I", "l": "q", "L": "Q", "f": "f", "g": "d"}
NAME = b"arrow_array_stream"
# What C points to, which must outlive every stream: garbage is collected in any order.
KEPT = []
INLINE = 12  # bytes of text in a view
EXACT = Context(prec=80)  # of the digits of every decimal


class Schema(Structure):
    pass


class Array(Structure):
    pass


class Stream(Structure):
    pass


RELEASE_SCHEMA, RELEASE_ARRAY, RELEASE_STREAM = (CFUNCTYPE(None, POINTER(kind)) for kind in (Schema, Array, Stream))
GET_SCHEMA, GET_NEXT = (CFUNCTYPE(c_int, POINTER(Stream), POINTER(kind)) for kind in (Schema, Array))
GET_ERROR = CFUNCTYPE(c_char_p, POINTER(Stream))
Schema._fields_ = [
    ("format", c_char_p), ("name", c_char_p), ("metadata", c_char_p), ("flags", c_int64), ("n_children", c_int64),
    ("children", POINTER(POINTER(Schema))), ("dictionary", POINTER(Schema)), ("release", RELEASE_SCHEMA),
    ("private_data", c_void_p),
]  # fmt: skip
Array._fields_ = [
    ("length", c_int64), ("null_count", c_int64), ("offset", c_int64), ("n_buffers", c_int64), ("n_children", c_int64),
    ("buffers", POINTER(c_void_p)), ("children", POINTER(POINTER(Array))), ("dictionary", POINTER(Array)),
    ("release", RELEASE_ARRAY), ("private_data", c_void_p),
]  # fmt: skip
Stream._fields_ = [
    ("get_schema", GET_SCHEMA), ("get_next", GET_NEXT), ("get_last_error", GET_ERROR), ("release", RELEASE_STREAM),
    ("private_data", c_void_p),
]  # fmt: skip


class Column:
    """A column: cells of a format, None for nulls, after `before` cells that are not part of it.

    inner : the cells of a dictionary or of lists, another column.
    """

    def __init__(self, format, cells, inner=None, before=0, name="x"):
        self.format, self.cells, self.inner, self.before, self.name = format, cells, inner, before, name

    @property
    def stored(self):
        """The cells in memory."""
        blank = [] if self.format in ("+l", "+L") else next((cell for cell in self.cells if cell is not None), None)
        return [blank] * self.before + list(self.cells)


class Table:
    """An object with a stream of batches, each a list of columns. `error` : after them.

    released : how often each of its structs was released.
    """

    def __init__(self, batches, error=None, format=b"+s", spoil=lambda array: None):
        self.batches, self.error, self.format, self.spoil = batches, error, format, spoil
        self.released = []

    def __arrow_c_stream__(self, requested_schema=None):
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = py_object, [c_void_p, c_char_p, c_void_p]
        return new(ctypes.addressof(self.stream()), NAME, None)

    def keep(self, one):
        KEPT.append(one)
        return one

    def stream(self):
        left = iter(self.batches)

        def get_schema(_, out):
            columns = [self.schema(column) for column in self.batches[0]]
            out[0] = self.group(Schema(format=self.format), columns, RELEASE_SCHEMA, Schema)
            return 0

        def get_next(_, out):
            columns = next(left, None)
            if columns is None:
                out[0] = Array()
                return 5 if self.error else 0
            rows = len(columns[0].cells) if columns else 0
            array = Array(length=rows, n_buffers=1, buffers=self.pointers([None]))
            out[0] = self.group(array, [self.array(column) for column in columns], RELEASE_ARRAY, Array)
            self.spoil(out[0])
            return 0

        return self.keep(
            Stream(
                get_schema=self.keep(GET_SCHEMA(get_schema)),
                get_next=self.keep(GET_NEXT(get_next)),
                get_last_error=self.keep(GET_ERROR(lambda _: self.error)),
                release=self.releasing(RELEASE_STREAM),
            )
        )

    def releasing(self, kind):
        def release(one):
            self.released.append(kind)
            one[0].release = kind()

        return self.keep(kind(release))

    def group(self, parent, children, release, kind):
        parent.n_children = len(children)
        parent.children = self.keep((POINTER(kind) * len(children))(*map(ctypes.pointer, children)))
        parent.release = self.releasing(release)
        return parent

    def schema(self, column):
        found = self.keep(Schema(format=column.format.encode(), name=column.name.encode()))
        if column.inner is not None and column.format.startswith("+"):
            inner = self.schema(column.inner)
            found.n_children, found.children = 1, self.keep((POINTER(Schema) * 1)(ctypes.pointer(inner)))
        elif column.inner is not None:
            found.dictionary = ctypes.pointer(self.schema(column.inner))
        return found

    def array(self, column):
        cells = column.stored
        nulls = bytearray(len(cells) // 8 + 1)
        for at, cell in enumerate(cells):
            nulls[at // 8] |= (cell is not None) << at % 8
        buffers = [bytes(nulls) if None in cells else None, *buffers_of(column.format, cells)]
        buffers = [] if column.format == "n" else buffers
        found = self.keep(
            Array(
                length=len(column.cells), offset=column.before, null_count=-1, n_buffers=len(buffers),
                buffers=self.pointers(buffers),
            )
        )  # fmt: skip
        if column.inner is not None and column.format.startswith("+"):
            found.n_children = 1
            found.children = self.keep((POINTER(Array) * 1)(ctypes.pointer(self.array(column.inner))))
        elif column.inner is not None:
            found.dictionary = ctypes.pointer(self.array(column.inner))
        return found

    def pointers(self, buffers):
        made = [None if one is None else self.keep(ctypes.create_string_buffer(one, len(one) + 1)) for one in buffers]
        return self.keep((c_void_p * len(made))(*(one and ctypes.addressof(one) for one in made)))


def buffers_of(format, cells):
    """Return the buffers of an array without the buffer of nulls. Cells of lists are the numbers of their cells."""
    if format == "n":
        return []
    if format == "b":
        bits = bytearray(len(cells) // 8 + 1)
        for at, cell in enumerate(cells):
            bits[at // 8] |= bool(cell) << at % 8
        return [bytes(bits)]
    if format in FORMATS:
        return [struct.pack(f"{len(cells)}{FORMATS[format]}", *(cell or 0 for cell in cells))]
    if format.startswith("d:"):
        scale, bits = [*map(int, format[2:].split(",")), 128][1:3]
        wholes = [int((cell or Decimal(0)).scaleb(scale, EXACT)) for cell in cells]
        return [b"".join(whole.to_bytes(bits // 8, "little", signed=True) for whole in wholes)]
    if format == "vu":
        views, data = b"", b""
        for text in (cell.encode() if cell else b"" for cell in cells):
            if len(text) <= INLINE:
                views += struct.pack("i12s", len(text), text)
            else:
                views += struct.pack("i4sii", len(text), text[:4], 0, len(data))
                data += text
        return [views, data, struct.pack("q", len(data))]
    lengths = [0 if cell is None else cell if format[0] == "+" else len(cell.encode()) for cell in map(blank, cells)]
    ends = [sum(lengths[:at]) for at in range(len(lengths) + 1)]
    offsets = struct.pack(f"{len(ends)}{'i' if format in ('u', '+l') else 'q'}", *ends)
    return [offsets] if format[0] == "+" else [offsets, b"".join((cell or "").encode() for cell in cells)]


def blank(cell):
    """Return the length of a list that has no cells, or the cell."""
    return 0 if cell == [] else cell
