import numpy as np
from numpy.typing import NDArray

from fmcli.solvers.coordinate.block_rows import BlockRows
from fmcli.solvers.coordinate.row_slice import RowSlice

class CoordinateUpdater(RowSlice):
    def measure(self, start: int, stop: int) -> float: ...
    def run(
        self,
        block: int,
        output: int,
        order: NDArray[np.int64],
        start: int,
        stop: int,
        related: BlockRows | None = None,
    ) -> None: ...
    def enter(self, block: int, output: int, related: BlockRows, start: int, stop: int) -> None: ...
    def leave(self, block: int, output: int, related: BlockRows, start: int, stop: int) -> None: ...
