from collections.abc import Callable, Iterable
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fmcli.data.dataset import Dataset
from fmcli.losses.loss import Loss
from fmcli.models.model import ColumnModel

class LLFM(ColumnModel):
    def __init__(
        self,
        features: int,
        outputs: int,
        *,
        rank: int,
        bias: bool = True,
        linear: bool = True,
        anchors: int = 10,
        neighbours: int = 5,
        coding_c: float = 1.0,
        lc: float = 0.4,
        llfm_variant: Literal["do", "apl", "jo"] = "jo",
        anchor_rate: float = 0.01,
    ) -> None: ...
    @property
    def learned(self) -> bool: ...
    @property
    def awaits_rows(self) -> bool: ...
    def start_on(self, data: Dataset, rows: NDArray[np.int32], generator: np.random.Generator) -> None: ...
    def entered(self, block: int, rows: NDArray[np.int32]) -> None: ...
    def figures(self, data: Dataset, rows: NDArray[np.int32]) -> dict[str, float]: ...
    def freeze(self, data: Dataset) -> None: ...
    def freeze_needed(self, rows: int) -> int: ...
    def step_apart(self, shards: Iterable[Dataset], loss: Loss, objective: Callable[[], float]) -> bool: ...
    def active_anchors(self, data: Dataset, rows: NDArray[np.int32]) -> float: ...
    def anchor_gradient(self, shards: Iterable[Dataset], loss: Loss) -> NDArray[np.float64]: ...
