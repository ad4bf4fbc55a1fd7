from collections.abc import Iterable
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fmcli.data.dataset import Dataset
from fmcli.losses.loss import Loss
from fmcli.models.model import Model

class LLFM(Model):
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
    def active_anchors(self, data: Dataset, rows: NDArray[np.int32]) -> float: ...
    def anchor_gradient(self, shards: Iterable[Dataset], loss: Loss) -> NDArray[np.float64]: ...
