from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fmcli.data.dataset import Dataset
from fmcli.models.split import Split

Floats = NDArray[np.float64]

class Splitter:
    def __init__(self, split: Split, output: int, fields: tuple[Sequence[int], Sequence[int]] = ((), ())) -> None: ...
    @property
    def width(self) -> int: ...
    @property
    def constant(self) -> float: ...
    @property
    def features(self) -> int: ...
    def shares(self, data: Dataset, start: int, stop: int, scores: Floats, out: Floats) -> None: ...
    def largest(self, data: Dataset, row: int) -> int: ...
    def listed(self, data: Dataset, row: int, size: int, out: Floats) -> None: ...
    def sum(self, data: Dataset, row: int, size: int) -> float: ...
    def halves(
        self,
        data: Dataset,
        start: int,
        stop: int,
        own: Floats,
        out: Floats,
        *,
        second: bool,
        bounding: bool = False,
    ) -> None: ...
