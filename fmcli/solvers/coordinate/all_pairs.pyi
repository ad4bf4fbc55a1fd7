import numpy as np
from numpy.typing import NDArray

from fmcli.data.dataset import Dataset
from fmcli.models.model import Model
from fmcli.models.parameters import Parameters
from fmcli.penalties.penalty import Penalty
from fmcli.solvers.coordinate.descent import Descent
from fmcli.solvers.coordinate.pair_links import PairLinks
from fmcli.solvers.coordinate.update import CoordinateUpdater

class AllPairs(Descent):
    @property
    def links(self) -> PairLinks: ...
    def __init__(
        self,
        model: Model,
        penalty: Penalty,
        parts: Dataset,
        links: PairLinks,
        strength: float,
        holds: Parameters | None = None,
        pulls: Parameters | None = None,
        known: tuple[int, int] | None = None,
    ) -> None: ...
    @staticmethod
    def pairs_needed(model: Model, parts: Dataset, count: int) -> int: ...
    def seen(self, side: int) -> NDArray[np.bool_]: ...
    def ends(self, block: int, order: NDArray[np.int32]) -> NDArray[np.int64]: ...
    def enter(self, side: int, by_feature: bool) -> None: ...
    def value(self) -> float: ...

class PairUpdater(CoordinateUpdater):
    def __init__(self, descent: AllPairs) -> None: ...
    def measure_pairs(self, start: int, stop: int) -> float: ...
