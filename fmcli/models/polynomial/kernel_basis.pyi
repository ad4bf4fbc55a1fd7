from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fmcli.data.dataset import Dataset
from fmcli.models.model import Model

INDPTR: str
LANDMARK: str
VALUE: str

def distinct_rows(data: Dataset, rows: NDArray[np.int32]) -> NDArray[np.int32]: ...

class KernelBasis(Model):
    @property
    def rank(self) -> int: ...
    @property
    def basis(self) -> Literal["random", "nystrom"]: ...
    @property
    def landmarks(self) -> Dataset: ...
    def keep(self, arrays: Mapping[str, NDArray[Any]]) -> None: ...
    def fit(self, bias: float, beta: NDArray[np.float64]) -> None: ...
    def kernels(self, data: Dataset, rows: NDArray[np.int32], out: NDArray[np.float64]) -> None: ...
