from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fmcli.models.model import ColumnModel

class Beta(NamedTuple):
    rank: int
    order: int
    fit: bool | None = None
    start: Literal["alternate", "ones", "random"] | None = None
    @property
    def fitted(self) -> bool: ...
    def fill(self, beta: NDArray[Any], generator: np.random.Generator) -> None: ...

class Weighted(ColumnModel): ...
