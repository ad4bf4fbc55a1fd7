from collections.abc import Callable, Sequence

from fmcli.solvers.coordinate.relation_rows import RelationRows
from fmcli.solvers.coordinate.update import CoordinateUpdater

class LargeRowUpdater:
    def __init__(self, team: Sequence[CoordinateUpdater]) -> None: ...
    def run(
        self,
        block: int,
        output: int,
        row: int,
        each: Callable[[Callable[[int], None]], object],
        related: RelationRows | None = None,
    ) -> None: ...
    def sum_slices(self, number: int) -> None: ...
    def apply_slices(self, number: int) -> None: ...
