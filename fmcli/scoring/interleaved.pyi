from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fmcli.data.dataset import Dataset

DRAWS_TOGETHER: int

class InterleavedFM:
    @property
    def draws(self) -> int: ...
    @property
    def features(self) -> int: ...
    def __init__(
        self, factors: Sequence[NDArray[Any]], weights: Sequence[NDArray[Any]] | None, bias: Sequence[float]
    ) -> None: ...
    @staticmethod
    def bytes_needed(features: int, rank: int, draws: int) -> int: ...
    def interleaved(
        self, columns: NDArray[np.int32] | None = None, used: NDArray[Any] | None = None
    ) -> NDArray[Any]: ...
    def scores(
        self,
        copies: NDArray[Any],
        data: Dataset,
        start: int,
        stop: int,
        out: NDArray[np.float64],
        rows: NDArray[np.int32] | None = None,
    ) -> None: ...
