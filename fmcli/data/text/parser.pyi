from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fmcli.data.dataset import Dataset
from fmcli.data.dictionary import FeatureIds
from fmcli.data.text.lines import Entries, Lines

PADDING: int
MOST_FAULTS: int

class Fault(NamedTuple):
    number: int
    column: int
    token: bytes
    expected: str
    subject: str
    part: bytes
    complaint: str
    line: bytes | None  # None: of a table

class Rows:
    def __init__(
        self,
        *,
        ffm: bool,
        keep_fields: bool,
        training: bool,
        limit: int,
        skip: bool = False,
        id_column: int = 0,
        label_weights: bool = False,
        label_names: Sequence[bytes] | None = None,
        known_labels: bool = False,
        growing: bool = False,
        ids: FeatureIds | None = None,
        hash_bits: int = 0,
        refuse_unseen: bool = False,
        others: int | None = None,
        grouped: bool = False,
        group_field: int | None = None,
    ) -> None: ...
    def parse(
        self, text: bytes | bytearray | Lines | Entries, start: int, stop: int
    ) -> tuple[int, int, list[Fault]]: ...
    def has_room(self, other: Rows) -> bool: ...
    def make_room(self, other: Rows) -> Room: ...
    def reserve_for_growth(self, factor: float) -> None: ...
    def clear(self) -> None: ...
    def dataset(self, features: int) -> Dataset: ...
    @property
    def rows(self) -> int: ...
    @property
    def nnz(self) -> int: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def ids(self) -> FeatureIds: ...
    @property
    def refused(self) -> bool: ...
    @property
    def is_numbered(self) -> bool: ...
    @property
    def label_names(self) -> list[bytes]: ...
    @property
    def comments(self) -> int: ...
    @property
    def labeled(self) -> int: ...
    @property
    def repeated(self) -> int: ...
    @property
    def unseen(self) -> int: ...
    @property
    def skipped(self) -> NDArray[np.int64]: ...
    @property
    def features(self) -> int: ...
    @property
    def span(self) -> tuple[int, int] | None: ...
    @property
    def fields(self) -> int: ...

class Room:
    @property
    def rows(self) -> Rows: ...
    def __call__(self) -> None: ...
