import numpy as np
from numpy.typing import NDArray

from fmcli.solvers.coordinate.relation_rows import RelationRows
from fmcli.solvers.coordinate.row_slice import RowSlice

class CoordinateUpdater(RowSlice):
    def measure(self, start: int, stop: int) -> float: ...
    def add_derivatives(
        self,
        block: int,
        output: int,
        order: NDArray[np.int32],
        curvatures: NDArray[np.float64],
        slopes: NDArray[np.float64] | None = None,
    ) -> None: ...
    def run(
        self,
        block: int,
        output: int,
        order: NDArray[np.int32],
        start: int,
        stop: int,
        related: RelationRows | None = None,
    ) -> None: ...
    def enter(self, block: int, output: int, related: RelationRows, start: int, stop: int) -> None: ...
    def leave(self, block: int, output: int, related: RelationRows, start: int, stop: int) -> None: ...
