from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fmcli.data.tables.schema import ColumnForm
from fmcli.data.text.lines import Entries, Lines
from fmcli.data.text.parser import Fault

ROLES: tuple[str, ...]

class Scanner:
    head: Any
    def __init__(
        self,
        columns: Sequence[ColumnForm],
        *,
        delimiter: str,
        separator: str = "|",
        quoting: bool = True,
        latin1: bool = False,
        training: bool = False,
        skip: bool = False,
        joins: Sequence[tuple[int, Joined]] = (),
        apart: bool = False,
        group: tuple[int, bool, str] | None = None,
        head: Any = None,
        filled: dict[str, int] | None = None,
        unmatched: dict[str, int] | None = None,
        decimal: str = "",
    ) -> None: ...
    def header(self, data: bytes | bytearray, start: int, stop: int) -> tuple[list[bytes], int]: ...
    def translate(
        self, data: bytes | bytearray, start: int, stop: int, *, counted: bool = False
    ) -> tuple[Lines, int, int, int, list[Fault]]: ...
    def entries(
        self, data: bytes | bytearray, start: int, stop: int
    ) -> tuple[Lines | Entries, int, int, int, list[Fault]]: ...
    def texts(
        self, data: bytes | bytearray, start: int, stop: int, columns: Sequence[int]
    ) -> tuple[list[bytes], int, list[Fault]]: ...
    def numbers(
        self, data: bytes | bytearray, start: int, stop: int, columns: Sequence[int]
    ) -> tuple[NDArray[np.float64], int, list[Fault]]: ...
    def reuse(self, rows: Lines | Entries | TableFacts) -> None: ...
    def place_of(self, data: bytes | bytearray, start: int, stop: int, row: int, at: int) -> tuple[int, int]: ...
    def survey(
        self, data: bytes | bytearray, start: int, stop: int
    ) -> tuple[TableFacts, int, int, int, list[Fault]]: ...

class Keys:
    begins: NDArray[np.int64]
    ends: NDArray[np.int64]
    groups: NDArray[np.int64]
    times: NDArray[np.float64] | None
    dated: bool
    def __init__(self, group: int, time: int, name: str) -> None: ...
    def read(self, scanner: Scanner, data: bytes | bytearray, start: int, stop: int) -> tuple[int, list[Fault]]: ...

class Joined:
    def add(self, text: Lines, stop: int) -> int: ...
    def set_missing(self, text: Lines, stop: int) -> None: ...

class TableFacts:
    def __init__(self, columns: int) -> None: ...
    def take(self, other: TableFacts, lines: int) -> None: ...
    def of(self, column: int) -> dict[str, Any]: ...
